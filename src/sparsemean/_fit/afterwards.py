"""What is asked of an estimate afterwards: other shares of bad rows, intervals by name, paths."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._data import as_table
from sparsemean._data.source import Checksum
from sparsemean._data.table import FileContext, Table, as_names
from sparsemean._evidence.counting.sketch import check_names
from sparsemean._evidence.ranks import EACH, REST, Contrast
from sparsemean._evidence.trend import Against
from sparsemean._fit import covariates, mean, messages
from sparsemean._fit.data import FitData
from sparsemean._fit.designs import alone_in
from sparsemean._fit.from_sketch import as_counted
from sparsemean._fit.one_sample import KINDS, Centres
from sparsemean._fit.refinement import Refinement, check
from sparsemean._fit.two_sample import Design, compare, located
from sparsemean._stats import path
from sparsemean._stats.decision import Allowed, Decision, error_after_selection
from sparsemean._stats.effects import CENTRE, UNKNOWN, GroupEffects, effect_columns, group_effects, joined
from sparsemean._stats.planning import bad_pairs, bad_rows, check_shares, of_question
from sparsemean._util.checks import fraction_of_rows, pluralize, unit_name
from sparsemean._util.plans import EACH_NAME, BadRows, Plan, Question, Shares
from sparsemean._util.records import FloatArray, IntArray, Uncertified
from sparsemean.errors import InputError
from sparsemean.result import Estimate, Located

if TYPE_CHECKING:
    import pandas as pd

NO_ENDS = 1e-300
"""An error at which no interval of a shift has an end: only values are looked for then."""
LEFT = 2
"""Rows of a group that are needed to compare it."""
AGAIN = (
    "decided again from the evidence of the fit: intervals need a fit at this contamination, and values of features "
    "that it did not select need its data"
)


FITTED = FileContext("data", "table that is still there", argument="X")
"""Data that are read again: files and workers may be gone, and raise what they like."""


def rows_of(estimate: Estimate, X: Any = None, covariate: Any = None, columns: IntArray | None = None) -> FitData:
    """Return the data of a fit, adjusted as there; given again where the estimate does not keep them.

    They are told by their checksum: that of the whole, and those of ``columns``, by default of all that have one.
    """
    adjusted, again = estimate.theta is not None, X is not None
    if not again and covariate is not None:
        raise InputError("covariate", "come with the X of the fit", "covariate alone", "pass both, or neither")
    if not again and estimate.source is None:
        advice = f"pass the X {'and the covariate ' if adjusted else ''}of the fit"
        raise InputError("X", "be given, as this estimate does not keep its data", None, advice)
    table = as_table(X) if again else estimate.source
    assert table is not None
    shape = (estimate.plan.n_rows, estimate.plan.n_features)
    reduced = estimate.class_names is not None and (estimate.labels is None or estimate.units is not None)
    if table.shape != shape:
        advice = "of subjects and pairs these are the means and differences, a row each" if reduced else ""
        raise InputError("X", f"be the data of the fit, of shape {shape}", table.shape, advice)
    if again and table.feature_names is not None and estimate.feature_names is not None:
        check_names(table.feature_names, estimate.feature_names, "the fit")
    if again and (adjusted or covariate is not None):
        table = _adjusted_again(estimate, table, covariate, reduced)
    data = FitData.of(table, estimate.plan, seed=estimate.seed, units=estimate.units, against=against_of(estimate))
    # What lies in memory its owner may have changed since; a file is told by its own fingerprint.
    if again or (table.source.in_memory and estimate.checksum is not None):
        return _as_fitted(estimate, data, again, columns)
    return data


def against_of(estimate: Estimate) -> Against | None:
    """Return what a trend was about."""
    y, strata = estimate.sample.y, estimate.strata
    return None if y is None or strata is None else Against(y, strata, estimate.sample.y_name)


def _adjusted_again(estimate: Estimate, table: Table, covariate: Any, reduced: bool) -> Table:
    """Return X less what values from before predict of it, as in the fit; else plain means would stand in its place."""
    if reduced:
        advice = "fit again: this estimate is of means or differences of adjusted values"
        raise InputError("X", "be left out where values were adjusted for a covariate", "X", advice)
    if covariate is None:
        raise InputError("X", "come with the covariate that it was adjusted for", "X alone", "pass covariate=, too")
    return covariates.adjusted(table, covariate, target=estimate.plan.question.target)[0]


def _as_fitted(estimate: Estimate, data: FitData, again: bool, columns: IntArray | None) -> FitData:
    """Refuse values that are not those of the fit: by their checksum, or by what a sketch has counted of them."""
    both = "" if estimate.theta is None else ", and so must the covariate"
    rule, known = f"be the data of the fit, rows and columns in their order{both}", checksum_of(estimate)
    if known is None and estimate.counts is not None:
        return as_counted(data, estimate.counts, np.arange(estimate.plan.n_features), rule)
    if known is None:
        received = "one of an earlier version, or one whose data were gone when it was saved"
        raise InputError("result", "have a checksum, so that X can be compared with its data", received, "fit again")
    told = np.empty(0, dtype=np.intp) if known.columns is None else np.flatnonzero(known.columns >= 0)
    told = told if columns is None else np.intersect1d(told, columns)
    found = data.table.source.checksum(told)
    same = found.whole == known.whole
    if known.columns is not None and found.columns is not None:
        same = same and np.array_equal(found.columns[told], known.columns[told])
    if same:
        return data
    if not again:
        advice = "fit again, or keep a copy of what is fitted"
        raise InputError("X", "stay as it was when it was fitted", "other values", advice)
    advice = "pass them as they were fitted: not sorted, scaled or filled in, nor in a type of other precision"
    raise InputError("X", rule, "other values", advice)


def checksum_of(estimate: Estimate) -> Checksum | None:
    """Return the checksum of the data, read now if they were not in memory; None where they cannot be read."""
    if estimate.checksum is None and estimate.source is not None:
        with suppress(InputError), FITTED.reading():
            estimate.source.check_unchanged()
            return estimate.source.source.checksum(estimate.support)
    return estimate.checksum


def at(tests: Sequence[Estimate], contamination: Any) -> list[Estimate]:
    """Decide again, all tests of groups together, for another share of bad rows; see `Estimate.at`."""
    first = tests[0]
    if first.plan.question.selection == "paper":
        raise InputError("selection", "be one with an error rate", "'paper'", "fit again with another contamination")
    if first.decision.evidence is None:
        advice = "curve() and max_contamination are kept; to decide again, fit again"
        raise InputError("estimate", "still have its evidence, which files and pickles leave out", "none", advice)
    plans = [plan_at(each, contamination) for each in tests]
    again = first.decision.at(plans[0][1])
    return [
        decided_again(each, plan, again.of(each.decision.contrast))
        for each, (plan, _) in zip(tests, plans, strict=True)
    ]


def plan_at(estimate: Estimate, contamination: Any) -> tuple[Plan, Allowed]:
    """Return the plan with another share of bad rows, and what is allowed for then; of pairs, of both of their rows."""
    plan, shares, evidence = estimate.plan, check_shares(contamination), estimate.decision.evidence
    assert evidence is not None
    if not plan.sizes and not estimate.paired:
        fraction_of_rows(contamination)  # there is one share
    if estimate.paired:
        allowed: Allowed = (BadRows(0, bad_pairs(plan.n_units, shares)),)
    else:
        allowed = evidence.at_share(shares)
    own = allowed[estimate.decision.contrast]
    if estimate.mean_test is not None and estimate.mean_test.rows is not None:
        mean.refuse_without_scale(own.total > 0)
    plan = replace(plan, contamination=max(shares), bad_rows=own.total, bad_by_group=own if plan.sizes else None)
    return of_question(plan, shares=shares, looked=True), allowed


def decided_again(estimate: Estimate, plan: Plan, decision: Decision) -> Estimate:
    """Return an estimate with another decision: values that are known stay, what is not known is NaN."""
    decision = decision.without(estimate.decision.skipped)
    support, before, same = decision.support, estimate.support, plan.bad == estimate.plan.bad
    value = np.zeros(plan.n_features) if estimate.shift is None else estimate.shift.copy()
    value[support] = np.where(np.isin(support, before), estimate.mean[support], np.nan)
    ends, (skewed, measure) = np.full_like(estimate.intervals, np.nan), np.full((2, plan.n_features), -1)
    skewed[support], measure[support] = estimate.skewed[support], estimate.measure[support]
    if same:
        ends[support] = estimate.intervals[support]
    effects, said = estimate.effects, estimate.status.messages
    if effects is not None:
        effects = GroupEffects(**effect_columns(effects, support, before), scale=effects.scale)
    return replace(
        estimate, plan=plan, decision=decision, located=Located(support, value, ends, measure, skewed, effects),
        status=replace(estimate.status, messages=said if same or AGAIN in said else (*said, AGAIN)),
    )  # fmt: skip


def without_suspects(tests: Sequence[Estimate], X: object = None, covariate: object = None) -> list[Estimate]:
    """Fit again without the suspects of all tests, as if no row that is left were bad; see `Estimate`."""
    began, first = time.perf_counter(), tests[0]
    if any(each.rows is None for each in tests):
        raise InputError("result", "be of rows that were judged", "one of counts alone", "complete(X) judges them")
    if first.plan.n_tests > len(tests):
        advice = "use without_suspects() of the result of all of them"
        raise InputError("result", "be that of all tests, which share the error", f"1 of {first.plan.n_tests}", advice)
    question = replace(first.plan.question, shares=Shares(0.0, 0.0), looked=False)
    if question.target == "mean" and question.scale is None and not first.plan.scale_rows:
        raise InputError("result", "still have its scale=, which files leave out", "none", "fit again")
    suspects = np.unique(np.concatenate([each.rows.suspects for each in tests if each.rows is not None]))
    table = rows_of(first, X, covariate).table
    kept, note = np.setdiff1d(np.arange(table.shape[0]), suspects), tuple[str, ...]()
    if suspects.size:
        number = suspects.size if first.units is None else np.unique(first.units[suspects]).size
        unit = "pair" if first.paired else unit_name(first.units)
        were = f"{pluralize(number, f'suspected {unit}')} {'was' if number == 1 else 'were'}"
        note = (messages.LEFT_OUT.format(suspects=were),)
    if first.labels is not None:
        return _compared_without(tests, table, kept, note, question)
    units = None if first.units is None else np.unique(first.units[kept], return_inverse=True)[1]
    n, walk = kept.size, replace(first.plan.walk, ranges=(), sealed=())
    if walk.n_buckets is not None:
        walk = replace(walk, n_buckets=min(walk.n_buckets, n), bucket_sizes=(n // min(walk.n_buckets, n),))
    plan = replace(
        first.plan, question=question, walk=walk, n_rows=n, n_units=n if units is None else int(units.max()) + 1,
        contamination=0.0, bad_rows=0, scale_rows=0,
    )  # fmt: skip
    method: Refinement = "auto"  # as it is where a function was given, which no estimate keeps
    with suppress(InputError):
        method, _ = check(question.refine or None)
    against = against_of(first)
    data = FitData.of(
        _rows_left(table, kept), plan, seed=first.seed, units=units, against=against and against.of_rows(kept)
    )
    kind = KINDS.get(question.test, Centres)
    with data.table.source.there():
        again = kind.of(data, method=method, notes=note).to_host().judged().estimate(began=began)
    return [replace(again, sample=replace(again.sample, class_names=first.class_names))]


def _compared_without(
    tests: Sequence[Estimate], table: Table, kept: IntArray, note: tuple[str, ...], question: Question
) -> list[Estimate]:
    """Compare the rows of groups that are left, those of strata with rows of several labels."""
    codes, numbers, compared = np.full(table.shape[0], -1), dict[str, int](), list[tuple[int, int]]()
    for each in tests:
        assert each.labels is not None
        assert each.class_names is not None
        reference, label = each.class_names.tolist()
        for name, side in ((label, 1), (reference, 0))[: 1 if each.plan.rest else 2]:
            codes[each.labels == side] = numbers.setdefault(name, len(numbers))
        others = EACH if reference == EACH_NAME else REST
        compared.append((others if each.plan.rest else numbers[reference], numbers[label]))
    codes[codes < 0] = len(numbers)
    first, strata = tests[0], None
    if first.strata is not None:
        kept = kept[~alone_in(first.strata[kept], codes[kept])[first.strata[kept]]]
        strata = np.unique(first.strata[kept], return_inverse=True)[1]
    sizes = tuple(np.bincount(codes[kept], minlength=len(numbers)).tolist())
    contrasts = tuple(Contrast(reference=reference, label=label, sizes=sizes) for reference, label in compared)
    if any(min(contrast.rows) < LEFT for contrast in contrasts):
        raise InputError("result", f"leave {LEFT} rows or more of each group without its suspects", "fewer")
    design = Design(
        _rows_left(table, kept), np.array([*numbers, "others"]), codes[kept], contrasts, question, strata,
        of_subjects=first.units is not None, notes=note, seed=first.seed,
    )  # fmt: skip
    return list(compare(design.table, design.codes, design=design).results.values())


def _rows_left(table: Table, kept: IntArray) -> Table:
    """Return some rows of a table by their names, or by their numbers there."""
    names = as_names(kept) if table.row_names is None else table.row_names[kept]
    return replace(table, source=table.source.of_rows(kept), row_names=names, groups=None, columns={})


def curve(estimate: Estimate) -> pd.DataFrame:
    """Return how many features are left at each contamination; see `Estimate.curve`."""
    import pandas as pd

    last = np.delete(estimate.max_contamination, estimate.decision.skipped)
    last = np.sort(last[~np.isnan(last)])
    shares = np.unique((0.0, *last))
    left = last.size - np.searchsorted(last, shares, side="left")
    sizes = estimate.plan.sizes or (estimate.plan.n_units,) * (2 if estimate.paired else 1)
    bad = [sum(bad_rows(n, share) for n in sizes) for share in shares.tolist()]
    return pd.DataFrame({"contamination": shares, "bad_rows": bad, "selected": left})


def refuse_each(estimate: Estimate) -> None:
    """Refuse what needs one reference, where there are several."""
    if estimate.class_names is not None and estimate.class_names[0] == EACH_NAME:
        advice = "fit again with reference= that label, or 'pairs'"
        raise InputError("result", "be against one reference", "each single other label", advice)


def intervals_of(
    estimate: Estimate, columns: IntArray, error: float, table: Table, data: FitData | None = None
) -> FloatArray:
    """Return intervals of some features, each at ``error``, from the data of the fit; see `Estimate.interval`."""
    plan, support = estimate.plan, estimate.support
    if plan.rest:
        refuse_each(estimate)
    if estimate.labels is not None:
        test, of = estimate.difference_test, (estimate.labels, estimate.strata)
        known = np.where(np.isin(np.arange(plan.n_features), support), estimate.measure, CENTRE), estimate.p_values
        pieces = located(table, plan, *of, columns, test=test, error=error, known=known)
        return np.concatenate([found[:, 1:3] for *_, found in pieces])
    data = data or FitData.of(table, plan, seed=estimate.seed, units=estimate.units, against=against_of(estimate))
    return KINDS.get(plan.question.test, Centres).intervals(estimate, data, columns, error)


def walks_of(estimate: Estimate, columns: IntArray, last: int, data: FitData) -> FloatArray:
    """Return the path of some features, (last + 1, features), from the data of the fit; see `Estimate.trajectory`."""
    plan, scales = estimate.plan, {"alpha": estimate.plan.walk.alpha, "eta": estimate.plan.walk.eta}

    def work(means: FloatArray) -> FloatArray:
        unit = np.ones(means.shape[1]) if plan.question.selection == "paper" else path.units_of(means)
        return np.asarray(unit * path.walk(means / unit, **scales, times=range(last + 1)))

    out = np.empty((last + 1, columns.size))
    for size in np.unique(estimate.bucket_size[columns]):
        at = np.flatnonzero(estimate.bucket_size[columns] == size)
        level = int(size).bit_length() - 1 if plan.walk.dealing == "blocks" else 0

        def of_level(levels: list[FloatArray], _: IntArray, level: int = level) -> FloatArray:
            return work(levels[level])

        out[:, at] = data.means(columns[at], of_level, level + 1)
    return out if estimate.shift is None else out + estimate.shift[columns]


# The one order of strength: tables, pictures and pages list features in it.


def valued(
    estimate: Estimate, features: IntArray, *, intervals: bool = False
) -> tuple[FloatArray, FloatArray, IntArray, GroupEffects | None]:
    """Return what features are worth of which the fit has no values: of all features value, interval and measure.

    They are made of the data as those of selected ones are; intervals, with the error of those of selected ones, take
    time. Against each single other label there is no one reference to value them by.
    """
    plan, d, labels, table = estimate.plan, estimate.plan.n_features, estimate.labels, estimate.source
    value, ends, measure = np.full(d, np.nan), np.full((d, 2), np.nan), np.full(d, UNKNOWN)
    effects, blocks, data = None, list[GroupEffects](), None
    if table is None or (plan.rest and estimate.class_names is not None and estimate.class_names[0] == EACH_NAME):
        return value, ends, measure, None
    if labels is not None:
        groups = [np.flatnonzero(labels == side) for side in (1, 0)]
        scale, known = "auto" if estimate.effects is None else estimate.effects.scale, (measure, estimate.p_values)
        asked, test = (table, plan, labels, estimate.strata, features), estimate.difference_test
        for piece, values, found in located(*asked, test=test, error=NO_ENDS, known=known):
            blocks.append(group_effects(values, *groups, scale=scale))
            value[piece], measure[piece], scale = found[:, 0], found[:, 3], blocks[0].scale
        effects = joined(blocks)
    else:
        data = rows_of(estimate)
        kind = KINDS.get(plan.question.test, Centres)
        value[features], measure[features] = kind.worth(estimate, data, features)
    if intervals:
        error = error_after_selection(plan, max(1, (estimate.decision.whole or estimate.decision).support.size))
        both = replace(estimate.located, support=np.union1d(estimate.support, features), measure=measure)
        ends[features] = intervals_of(replace(estimate, located=both), features, error, table, data)
    return value, ends, measure, effects


def numbers_of(
    estimate: Estimate, features: IntArray, *, every: bool = False, intervals: bool = False
) -> dict[str, Any]:
    """Return the columns of the table of some features but for ``skewed``; what prints a few needs no data frame.

    What was selected without a value, for another share of bad rows, is read again, and with ``every`` what was not.
    """
    pairs = estimate.plan.walk.dealing == "pairs"
    ranked = pairs and estimate.plan.question.target != "mean"
    centre = "centre" if estimate.sample.y is None else "slope"
    words = np.array(("shift", "means", "pairs", "") if pairs else (centre, "mean", "pairs", ""))
    chosen = np.isin(features, estimate.support)
    value, ends = np.where(chosen, estimate.mean[features], np.nan), estimate.intervals[features]
    measure = estimate.measure[features]
    effects = effect_columns(estimate.effects, features, estimate.support) if pairs else {}
    asked = np.flatnonzero(np.isnan(value) & (chosen | every))
    if (at := features[asked]).size and estimate.source is not None:
        with suppress(InputError), FITTED.reading():  # the file may be gone
            *known, found = valued(estimate, np.sort(at), intervals=intervals)
            value[asked], ends[asked], measure[asked] = (each[at] for each in known)
            for name, column in effect_columns(found, at, np.sort(at)).items() if pairs else ():
                effects[name][asked] = column
    return {
        "feature": estimate.names(features),
        "estimate": value,
        "ci_low": ends[:, 0],
        "ci_high": ends[:, 1],
        "measure": words[measure],
        "p_value": estimate.p_values[features],
        "log10_p": estimate.log10_p[features],
        "p_adjusted": estimate.p_adjusted[features],
        "q_value": estimate.q_values[features],
        "radius": estimate.radius[features],
        "max_contamination": estimate.max_contamination[features],
        "beta": estimate.beta[features],
        **({"auc": 0.5 + 0.5 * estimate.beta[features]} if ranked else {}),
        **effects,
        "entry_time": estimate.entry_time[features],
        "bucket_size": estimate.bucket_size[features],
    }


def strongest_first(estimate: Estimate, features: IntArray) -> IntArray:
    """Return ``features`` with the selected ones first, by p-value, however small, and then by |β|."""
    beta, decision = np.abs(estimate.beta[features]), estimate.decision
    adjusted, others = decision.p_adjusted[features], ~np.isin(features, estimate.support)
    return features[np.lexsort((-beta, decision.log_p[features], adjusted, others))]


def sorted_uncertified(estimate: Estimate) -> Uncertified:
    """Return the features that only the rows left after screening show, by p-value and then by |estimate|."""
    if estimate.uncertified is None:
        return Uncertified(np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))
    shown = estimate.uncertified
    order = np.lexsort((-np.abs(shown.estimate), shown.p_adjusted))
    return Uncertified(shown.features[order], shown.estimate[order], shown.p_adjusted[order])


def table_of(estimate: Estimate, *, all: bool, certified: bool, intervals: bool, X: object) -> pd.DataFrame:
    """Return a row for each selected feature, or for every one, strongest first; see `Estimate.table`."""
    import pandas as pd

    if certified:
        features = strongest_first(estimate, np.arange(estimate.plan.n_features) if all else estimate.support)
        skewed = pd.arrays.BooleanArray(estimate.skewed[features] == 1, estimate.skewed[features] < 0)
        if X is not None or (all and estimate.source is not None):
            table, there = None, replace(estimate)
            with suppress(*(() if X is not None else (InputError,))), FITTED.reading():  # it may have changed
                table = rows_of(estimate, X).table
            vars(there).update(vars(estimate), source=table)  # with what is known where the evidence is gone
            estimate = there
        return pd.DataFrame({**numbers_of(estimate, features, every=all, intervals=intervals), "skewed": skewed})
    uncertified = sorted_uncertified(estimate)
    columns = {
        "feature": estimate.names(uncertified.features),
        "estimate": uncertified.estimate,
        "p_adjusted": uncertified.p_adjusted,
        "certified": np.zeros(uncertified.features.size, dtype=bool),
    }
    return pd.DataFrame(columns)
