"""Estimates, and comparisons of several groups, as files of their own, without the data; read back by `load`."""

from __future__ import annotations

import json
import warnings
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean._data.matrices import check_members
from sparsemean._data.source import Array, Checksum
from sparsemean._data.table import FileContext, as_names
from sparsemean._fit.afterwards import checksum_of
from sparsemean._fit.two_sample import REST_NAME
from sparsemean._stats.decision import Decision, rule_of
from sparsemean._stats.effects import COLUMNS, MEASURES, GroupEffects
from sparsemean._stats.planning import MISSING, SELECTIONS, TARGETS, TESTS
from sparsemean._stats.row_scores import KINDS
from sparsemean._util.files import as_tuples, check_array, check_type, refuse_endless, replacing
from sparsemean._util.plans import BadRows, GroupSizes, Plan, Question, Shares, Side, Walk
from sparsemean._util.records import (
    NO_END,
    Counts,
    MeanDifferenceTest,
    MeanTest,
    RowScores,
    Sample,
    Status,
    Uncertified,
)
from sparsemean.errors import InputError
from sparsemean.result import Estimate, Located
from sparsemean.result.comparison import Comparison

FORMAT, SEVERAL = "sparsemean-estimate-11", "sparsemean-comparison-4"
OTHERS = (".csv", ".tsv", ".txt", ".json", ".html", ".parquet", ".xlsx", ".h5ad", ".pkl", ".pickle")
LAZY = ("entry_time", "radius")
PARTS = {
    "question": Question, "walk": Walk, "plan": Plan, "status": Status, "decision": Decision,
    "effects": GroupEffects, "uncertified": Uncertified, "located": Located, "counts": Counts,
    "sample": Sample, "rows": RowScores, "mean_test": MeanTest, "difference_test": MeanDifferenceTest,
    "checksum": Checksum,
}  # fmt: skip
"""The records that an estimate is made of, after those that lie in them."""
NOT_KEPT = {
    "question": ("scale",), "plan": ("question", "walk", "outlook"), "located": ("effects", "uncertified"),
    "decision": ("evidence", "rule", "allowed", "whole", "contrast"),
}  # fmt: skip
"""Records that are written by themselves, and what a decision rests on: that is as large as the data may be."""
ARRAYS = {
    "located.support": "iu s d", "located.mean": "f d", "located.intervals": "f d2", "located.skewed": "i d",
    "located.measure": "i d",
    "strength": "f d", "entry_time": "f d", "radius": "iu d",
    "question.null": "f d", "sample.bucket_of_row": "iu n", "sample.units": "iu n", "sample.labels": "iu n 3",
    "sample.strata": "iu n n", "sample.class_names": "U 2", "sample.feature_names": "U d", "sample.theta": "f d",
    "sample.y": "f n",
    "decision.support": "iu s d", "decision.p_values": "f d", "decision.log_p": "f d", "decision.p_adjusted": "f d",
    "decision.q_values": "f d", "decision.last": "i d", "decision.max_contamination": "f d",
    "decision.skipped": "iu * d",
    "counts.positive": "iu kd", "counts.negative": "iu kd", "counts.nearest": "f d", "counts.present": "iu kd",
    "counts.missing": "iu d", "rows.scores": "f n", "rows.weights": "f n", "rows.suspects": "iu * n",
    "uncertified.features": "iu * d", "uncertified.estimate": "f *", "uncertified.p_adjusted": "f *",
    "mean_test.unit": "f d", "mean_test.rows": "iu * n", "difference_test.unit": "f 2d", "difference_test.bias": "f 2d",
    "difference_test.rows": "iu * n",
    "suspect_names": "U *", "checksum.columns": "i d",
    **{f"effects.{name}": "f s" for name in COLUMNS},
}  # fmt: skip
"""Kinds and shape of every array, and what its numbers are below: n rows, d features, k sizes, s features selected."""
NAMED = {"side": Side, "shares": Shares, "sizes": GroupSizes, "bad_by_group": BadRows}
"""Entries that JSON has no type for."""
DEALINGS = ("paper", "blocks", "pairs")
SHARES = ("decision.p_values", "decision.p_adjusted", "decision.q_values", "decision.max_contamination")
ROUNDING = 1e-9


def save(result: Estimate | Comparison, path: str | Path) -> None:
    """Write a result to ``path``: one zip archive of arrays with a header in JSON, nothing pickled.

    Of a comparison the arrays of each test begin with its number among them.
    """
    if Path(path).suffix.lower() in OTHERS:
        advice = "table() has to_csv and the like, report() writes a page; .npz is what load reads"
        raise InputError("path", "not end in that of another kind of file", repr(Path(path).name), advice)
    if isinstance(result, Estimate):
        header, arrays = _taken_apart(result)
    else:
        classes = result.classes if result.classes.dtype.kind != "O" else np.array(result.classes.tolist())
        if classes.dtype.kind not in "biufU":
            raise InputError("classes", "be names or numbers to be saved", f"type {classes.dtype}", "label them anew")
        taken, labels = [_taken_apart(each) for each in result.results.values()], [*result.classes.tolist(), REST_NAME]
        # A key is the label of a test, with its reference where pairs are compared.
        pairs = [key if isinstance(key, tuple) else (key,) for key in result.results]
        keys = [[labels.index(label) for label in pair] for pair in pairs]
        header = {"format": SEVERAL, "keys": keys, "results": [each for each, _ in taken], "without": _without(result)}
        arrays = {f"{k}.{name}": array for k, (_, own) in enumerate(taken) for name, array in own.items()}
        arrays["classes"] = classes
    with replacing(path) as temporary, temporary.open("wb") as file:
        written: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
        np.savez_compressed(file, **written)


def _taken_apart(estimate: Estimate) -> tuple[dict[str, object], dict[str, Array]]:
    """Return what is written of an estimate: the header, with an entry for each record, and the arrays."""
    arrays = {name: getattr(estimate, name) for name in LAZY}
    header: dict[str, object] = {"format": FORMAT, "seed": str(estimate.seed), "without": _without(estimate)}
    plan, own = estimate.plan, {"checksum": checksum_of(estimate)}
    for part in PARTS:
        record = getattr(plan if part in NOT_KEPT["plan"] else estimate, part) if part not in own else own[part]
        said: dict[str, object] = {}
        for item in fields(record) if record is not None else ():
            if item.name not in NOT_KEPT.get(part, ()):
                value = getattr(record, item.name)
                target = arrays if isinstance(value, np.ndarray) else said
                target[f"{part}.{item.name}" if target is arrays else item.name] = value
        header[part] = None if record is None else said
    if estimate.strength is not None:
        arrays["strength"] = estimate.strength
    if estimate._suspect_names:
        arrays["suspect_names"] = np.array(list(estimate._suspect_names.values()))
    if estimate.feature_names is not None:
        arrays["sample.feature_names"] = estimate.feature_names.astype(str)
    return header, arrays


def load(path: str | Path) -> Estimate | Comparison:
    """Read what `Estimate.save` or `Comparison.save` has written; damaged files and others are refused in one line."""
    refuse_endless(path, "path")
    path = Path(path)
    context = FileContext(repr(str(path)), "file written by save", argument="path")
    with context.reading(), path.open("rb") as raw, zipfile.ZipFile(raw) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's about headers that only damage can have made
        check_members(archive, replace(context, size=path.stat().st_size))
        raw.seek(0)
        with np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file}
    with context.parsing(), context.reading():
        header = json.loads(str(arrays.pop("header")))
        return _comparison(header, arrays) if header["format"] == SEVERAL else _estimate(header, arrays)


def _comparison(header: dict[str, Any], arrays: dict[str, Array]) -> Comparison:
    """Return the tests of several groups, unless they are not of the same rows, features and labels."""
    classes, results = arrays.pop("classes"), {}
    if classes.dtype.kind not in "biufU" or classes.ndim != 1 or np.unique(classes).size != classes.size:
        raise ValueError("its labels cannot be")
    labels = [*classes.tolist(), REST_NAME]
    for k, (key, said) in enumerate(zip(header["keys"], header["results"], strict=True)):
        own = {name: arrays.pop(name) for name in list(arrays) if name.startswith(f"{k}.")}
        estimate = _estimate(said, {name.partition(".")[2]: array for name, array in own.items()})
        named = tuple(labels[place] for place in key)
        results[named if len(named) == 2 else named[0]] = estimate
        if list(as_names(named)) != np.array(estimate.class_names).tolist()[::-1][: len(named)]:
            raise ValueError("its keys are not the labels of its tests")
        if estimate.rows is None or estimate.plan.n_tests != len(header["keys"]):
            raise ValueError("its tests are not of one family")
    shapes = {(each.plan.n_rows, each.plan.n_features) for each in results.values()}
    if arrays or len(shapes) != 1 or len(results) != len(header["keys"]):
        raise ValueError("its tests contradict each other")
    compared = Comparison(classes, results)
    _restore_without(compared, header.get("without", []), len(results))
    return compared


def _without(result: Estimate | Comparison) -> list[int]:
    """Return how many features each test selects without the suspects, where a verdict has told it; else nothing."""
    return list(vars(result).get("_without", ()))


def _restore_without(result: Estimate | Comparison, told: object, tests: int) -> None:
    counts = told if isinstance(told, list) else [None]
    if counts and (len(counts) != tests or not all(type(count) is int and count >= 0 for count in counts)):
        raise ValueError("what there is without its suspects cannot be")
    vars(result).update({"_without": counts} if counts else {})


def _estimate(header: dict[str, Any], arrays: dict[str, Array]) -> Estimate:
    """Return the estimate that a header and arrays are of, unless they contradict each other."""
    if header["format"] != FORMAT:
        advice = "it was saved by another version: fit again"
        raise InputError("path", f"hold an estimate of format {FORMAT}", repr(header["format"]), advice)
    arrays = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}
    parts: dict[str, Any] = {}
    for part, kind in PARTS.items():
        own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{part}.")}
        inside = {name: parts.pop(name) for name in NOT_KEPT.get(part, ()) if name in parts}
        if part == "decision":
            question = parts["plan"].question
            rule = rule_of(question.selection, question.level, parts["plan"].n_hypotheses)
            inside = {"evidence": None, "rule": rule, "allowed": None}
        said = header[part]
        parts[part] = None if said is None else kind(**_entries(kind, said), **own, **inside)
        if part == "plan":
            _check_plan(parts[part], arrays)
            _check_arrays(arrays, parts[part])
            if "sample.feature_names" in arrays:
                arrays["sample.feature_names"] = arrays["sample.feature_names"].astype(object)
    strength: Any = arrays.get("strength")
    estimate = Estimate(**parts, seed=int(header["seed"]), strength=strength)
    _check_tests(estimate)
    _check_rows(estimate.rows, arrays, estimate.plan)
    suspects = [] if estimate.rows is None else estimate.rows.suspects.tolist()
    names = dict(zip(suspects, arrays["suspect_names"].tolist(), strict=True)) if "suspect_names" in arrays else {}
    estimate.__dict__.update({name: arrays[name] for name in LAZY}, _suspect_names=names)
    _restore_without(estimate, header.get("without", []), 1)
    return estimate


def _entries(kind: type, said: dict[str, Any]) -> dict[str, Any]:
    """Return entries of a record as they were before they were JSON, unless one is of another type."""
    out = {name: as_tuples(value) for name, value in said.items()}
    for name in NAMED.keys() & out.keys():
        if out[name] or name == "side":
            out[name] = Side(out[name]) if name == "side" else NAMED[name](*out[name])
    for name, value in out.items():
        check_type(kind, name, value)
    return out


def _check_plan(plan: Plan, arrays: dict[str, Array]) -> None:
    """Refuse a plan that cannot be."""
    question, walk, n, pairs = plan.question, plan.walk, plan.n_units, plan.walk.dealing == "pairs"
    sizes = plan.sizes or GroupSizes(0, n)
    if not (
        question.selection in SELECTIONS and question.missing in MISSING and walk.dealing in DEALINGS
        and question.test in (("sums",) if question.target == "mean" else TESTS) and question.target in TARGETS
        and min(plan.n_rows, plan.n_features, n, plan.n_tests, plan.n_strata, *walk.bucket_sizes) > 0
        and min(plan.scale_rows, walk.min_selected, walk.select_at, walk.estimate_at or 0) >= 0
        and plan.scale_rows <= plan.n_rows and max(plan.n_tests, *walk.bucket_sizes) < NO_END
        and 0 <= plan.contamination < 1 and 0 < question.level < 1 and 0 <= plan.bad_rows <= n <= plan.n_rows
        and all(0 <= part < 1 for part in question.shares or ())
        and 0 < walk.alpha < np.inf and 0 < walk.eta < 1 and 0 <= question.min_effect < np.inf
        and pairs == (plan.sizes is not None) == (plan.bad_by_group is not None) and min(plan.bad) >= 0
        and sum(sizes) <= plan.n_rows and min(sizes) >= pairs and walk.bucket_sizes
        and ({"sample.class_names", "sample.labels"} <= arrays.keys() or not pairs)
        and ({"sample.y", "sample.strata"} <= arrays.keys()) == (question.test == "trend")
    ):  # fmt: skip
        raise ValueError("its plan cannot be")


def _check_rows(rows: RowScores | None, arrays: dict[str, Array], plan: Plan) -> None:
    """Refuse suspects whose reasons are no features, or whose kinds are none."""
    if rows is None:
        if "suspect_names" in arrays:
            raise ValueError("its suspects have no scores")
        return
    n = rows.suspects.size
    for name, told in (("reasons", rows.reasons), ("kinds", rows.kinds)):
        if len(told) not in ((n,) if name == "kinds" and plan.sizes else (0, n)):
            raise ValueError(f"its suspects are {n}, and their {name} {len(told)}")
    if np.unique(rows.suspects).size != n or len(arrays.get("suspect_names", rows.suspects)) != n:
        raise ValueError("its suspects are in disorder")
    features = [feature for why in rows.reasons for feature in why]
    if not set(rows.kinds) <= set(KINDS) or not all(0 <= j < plan.n_features for j in features):
        raise ValueError("the reasons of its suspects cannot be")


def _check_counts(counts: Counts, plan: Plan) -> None:
    """Refuse signs that cannot have been counted."""
    if len(counts.n_buckets) != len(plan.walk.bucket_sizes):
        raise ValueError(f"{counts.n_buckets} buckets for {len(plan.walk.bucket_sizes)} sizes")
    positive, negative = counts.positive.astype(np.int64), counts.negative.astype(np.int64)
    for size, buckets in enumerate(counts.n_buckets):
        most = np.minimum(counts.buckets(size), buckets)
        # No sum of both: what is near the largest whole number would be negative then.
        too_many = (positive[size] > most).any() or (negative[size] > most - positive[size]).any()
        if too_many or min(positive[size].min(), negative[size].min()) < 0:
            raise ValueError("its counts of signs cannot be")


def _check_tests(estimate: Estimate) -> None:
    """Refuse numbers beside the arrays that are none of those that are written."""
    plan, counts, effects = estimate.plan, estimate.counts, estimate.effects
    if effects is not None and effects.scale not in (None, "counts", "log1p"):
        raise ValueError("the scale of its effects cannot be")
    if (counts is None) == (estimate.strength is None):
        raise ValueError("its features lean to no side")
    if counts is not None:
        _check_counts(counts, plan)
    tests = [test for test in (estimate.mean_test, estimate.difference_test) if test is not None]
    if len(tests) != (plan.question.target == "mean"):
        raise ValueError("its test of means is not what its plan says")
    for test in tests:
        sizes, weights, bias = (
            ((test.n_units,), (1.0,), test.bias) if isinstance(test, MeanTest) else (test.sizes, test.weights, 0.0)
        )
        good = 0.5 <= test.kappa < np.inf and 0 < test.factor < np.inf and 0 <= bias < np.inf
        good = good and len(sizes) == len(weights) and all(0 < weight <= 1 for weight in weights)
        if not (good and all(0 < n <= plan.n_units for n in sizes)):
            raise ValueError("its test of means cannot be")


def _check_arrays(arrays: dict[str, Array], plan: Plan) -> None:
    """Refuse arrays of another type or shape than the plan makes them, and numbers beyond what they count."""
    selected, numbers = arrays["located.support"].size, {digit: int(digit) for digit in "238"}
    sizes = {"n": plan.n_rows, "d": plan.n_features, "k": len(plan.walk.bucket_sizes), "s": selected, **numbers}
    for name, array in arrays.items():
        check_array(name, array, ARRAYS[name], sizes)
    for name in SHARES:
        shares = np.asarray(arrays[name], dtype=np.float64)
        if not (((shares >= 0) & (shares <= 1)) | (np.isnan(shares) & (name == SHARES[-1]))).all():
            raise ValueError(f"{name} is not between 0 and 1")
    if not np.abs(np.nan_to_num(arrays.get("strength", np.zeros(1)))).max(initial=0) < 1 + ROUNDING:
        raise ValueError("beta is not between -1 and 1")
    if "rows.scores" in arrays and np.isinf(arrays["rows.scores"]).any():
        raise ValueError("rows.scores is infinite")
    if np.abs(arrays["located.skewed"]).max(initial=0) > 1 or not np.isin(arrays["located.measure"], MEASURES).all():
        raise ValueError("its flags of skewness, or what its estimates are, cannot be")
    if not np.array_equal(arrays["located.support"], np.unique(arrays["decision.support"])):
        raise ValueError("its support is in disorder")
    if len({arrays[name].size for name in arrays if name.startswith("uncertified.")}) > 1:
        raise ValueError("its features without a certificate are in disorder")
