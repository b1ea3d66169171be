"""What is asked of an estimate afterwards: other shares of bad rows, intervals by name, paths, arms of a scorecard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sparsemean._counts import ranks
from sparsemean._counts.sketch import check_names
from sparsemean._data import as_table
from sparsemean._data.source import Checksum, Source
from sparsemean._data.table import FileContext, Table
from sparsemean._fit import covariates, mean, mean_difference, one_sample, two_sample
from sparsemean._fit.data import FitData
from sparsemean._fit.from_sketch import as_counted
from sparsemean._fit.inference import best_beta, best_sizes
from sparsemean._fit.suspects import ELSEWHERE
from sparsemean._kernels import rounding
from sparsemean._kernels.influence import ERROR
from sparsemean._stats import intervals, path
from sparsemean._stats.buckets import assign_buckets
from sparsemean._stats.decision import Decision
from sparsemean._stats.effects import Arms, GroupEffects, effect_columns
from sparsemean._stats.families import RankEvidence
from sparsemean._stats.planning import ask, bad_pairs, bad_rows, check_shares, of_question
from sparsemean._stats.rank_evidence import Contrast
from sparsemean._stats.row_scores import FEW, LARGE, TOGETHER
from sparsemean._util.checks import fraction_of_rows
from sparsemean._util.plans import Plan
from sparsemean._util.records import BucketSpec, FloatArray, IntArray, Leaning
from sparsemean.comparison import Comparison
from sparsemean.errors import InputError
from sparsemean.result import Estimate, Located

if TYPE_CHECKING:
    import pandas as pd

AGAIN = (
    "decided again from the evidence of the fit, without reading data: intervals, and values of features that it did "
    "not select, need a fit at this contamination"
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
    data = dealt(estimate, table)
    # What lies in memory its owner may have changed since; a file is told by its own fingerprint.
    if again or (table.source.in_memory and estimate.checksum is not None):
        return _as_fitted(estimate, data, again, columns)
    return data


def dealt(estimate: Estimate, table: Table) -> FitData:
    """Return the rows of a table in the buckets of an estimate."""
    plan, units = estimate.plan, estimate.units
    buckets = BucketSpec(assign_buckets(plan, estimate.seed, units), estimate.shift, plan.question.missing == "omit")
    return FitData(table, buckets, plan, seed=estimate.seed, units=units)


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


def at(estimate: Estimate, contamination: Any) -> Estimate:
    """Decide again for another share of bad rows; see `Estimate.at`."""
    if estimate.plan.question.selection == "paper":
        raise InputError("selection", "be one with an error rate", "'paper'", "fit again with another contamination")
    if estimate.decision.evidence is None:
        advice = "curve() and max_contamination are kept; to decide again, fit again"
        raise InputError("estimate", "still have its evidence, which files and pickles leave out", "none", advice)
    plan, allowed = plan_at(estimate, contamination)
    return of_decision(estimate, plan, estimate.decision.at(allowed))


def of_decision(estimate: Estimate, plan: Plan, decision: Decision) -> Estimate:
    """Return an estimate after it was decided again."""
    if estimate.counts is not None:
        leaning = Leaning(*best_beta(plan, estimate.counts, best_sizes(plan, decision)), estimate.counts)
        estimate = replace(estimate, leaning=leaning)
    return _decided(estimate, plan, decision.without(estimate.decision.skipped))


def compared_at(comparison: Comparison, contamination: Any) -> Comparison:
    """Let several tests of groups decide again together; see `Comparison.at`."""
    results = comparison.results
    first = next(iter(results.values()))
    if first.decision.whole is None or first.decision.evidence is None:
        return replace(comparison, results={key: at(each, contamination) for key, each in results.items()})
    whole = first.decision.whole.at(plan_at(first, contamination)[1])
    return replace(
        comparison,
        results={
            key: of_decision(each, plan_at(each, contamination)[0], whole.of(each.decision.contrast))
            for key, each in results.items()
        },
    )


def plan_at(estimate: Estimate, contamination: Any) -> tuple[Plan, Any]:
    """Return the plan with another share of bad rows, and what is allowed for then; of pairs, of both of their rows."""
    plan = of_question(estimate.plan, shares=check_shares(contamination), looked=True)
    if plan.sizes:
        shares = check_shares(contamination)
        allowed = cast(RankEvidence, estimate.decision.evidence).at_share(shares)
        label, reference = allowed[estimate.decision.contrast]
        bad = label + reference
        return replace(plan, contamination=max(shares), bad_rows=bad, bad_by_group=(reference, label)), allowed
    share = fraction_of_rows(contamination) if not estimate.paired else max(check_shares(contamination))
    bad = bad_pairs(plan.n_units, check_shares(contamination)) if estimate.paired else bad_rows(plan.n_units, share)
    if estimate.mean_test is not None and estimate.mean_test.rows is not None:
        mean.refuse_without_scale(bad > 0)
    return replace(plan, contamination=share, bad_rows=bad), bad


def _decided(estimate: Estimate, plan: Plan, decision: Decision) -> Estimate:
    """Return an estimate with another decision: values that are known stay, what is not known is NaN."""
    support, before = decision.support, estimate.support
    same = plan.bad_rows == estimate.plan.bad_rows and plan.bad_by_group == estimate.plan.bad_by_group
    known = np.isin(support, before)
    value = np.zeros(plan.n_features) if estimate.shift is None else estimate.shift.copy()
    value[support] = np.where(known, estimate.mean[support], np.nan)
    ends = np.full_like(estimate.intervals, np.nan)
    skewed = np.full_like(estimate.skewed, -1)
    skewed[support] = estimate.skewed[support]
    if same:
        ends[support] = estimate.intervals[support]
    effects, said = estimate.effects, estimate.status.messages
    if effects is not None:
        effects = GroupEffects(**effect_columns(effects, support, before), scale=effects.scale)
    return replace(
        estimate, plan=plan, decision=decision, located=Located(support, value, ends, skewed, effects),
        status=replace(estimate.status, messages=tuple(dict.fromkeys((*said, *(() if same else (AGAIN,)))))),
    )  # fmt: skip


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


def intervals_of(estimate: Estimate, columns: IntArray, error: float, data: FitData) -> FloatArray:
    """Return intervals of some features, each at ``error``, from the data of the fit; see `Estimate.interval`."""
    plan, support, table = estimate.plan, estimate.support, data.table
    if estimate.mean_test is not None:
        return mean.intervals_of(estimate, columns, error, table)
    if estimate.difference_test is not None:
        return mean_difference.intervals_of(estimate, columns, error, table)
    if estimate.labels is not None:
        reference, label = plan.bad_by_group or (plan.bad_rows, plan.bad_rows)
        options: dict[str, Any] = {
            "error": error, "bad": (label, reference), "side": plan.question.side, "grid": table.source.grid,
        }  # fmt: skip
        strata = ranks.strata_of(estimate.labels, estimate.strata)
        pieces = table.source.takes_of(columns)
        found = [ranks.shifts(piece, strata, missing=plan.question.missing == "omit", **options) for _, piece in pieces]
        return np.concatenate(found)[:, 1:]

    def work(levels: list[FloatArray], which: IntArray) -> FloatArray:
        levels = intervals.sort_levels(levels, plan)
        ends = intervals.of_levels(levels, plan, error=error)
        if plan.walk.dealing == "blocks":
            other, _ = intervals.given_nonzero(levels, plan, ends.copy(), error=error)
            ends = np.where(np.isin(which, support), other, ends)
        return ends

    ends = data.means(columns, work, intervals.levels_used(plan)[-1] + 1).T
    if estimate.shift is not None:
        null = estimate.shift[columns][:, np.newaxis]
        ends = rounding.settle(ends, 0.0, null, precision=data.precision)
    ends[np.isin(columns, support) & ~ends.any(axis=1)] = np.nan
    return ends if estimate.shift is None else ends + estimate.shift[columns][:, np.newaxis]


def walks_of(estimate: Estimate, columns: IntArray, last: int, data: FitData) -> FloatArray:
    """Return the path of some features, (last + 1, features), from the data of the fit; see `Estimate.trajectory`."""
    plan, scales = estimate.plan, {"alpha": estimate.plan.walk.alpha, "eta": estimate.plan.walk.eta}

    def work(means: FloatArray) -> FloatArray:
        unit = np.ones(means.shape[1]) if plan.question.selection == "paper" else path.units_of(means)
        return np.asarray(unit * path.walk(means / unit, **scales, times=range(last + 1)))

    if estimate.labels is not None:
        return ranks.map_differences(data.table.source, columns, estimate.labels, work, estimate.strata)
    out = np.empty((last + 1, columns.size))
    for size in np.unique(estimate.bucket_size[columns]):
        at = np.flatnonzero(estimate.bucket_size[columns] == size)
        level = int(size).bit_length() - 1 if plan.walk.dealing == "blocks" else 0

        def of_level(levels: list[FloatArray], _: IntArray, level: int = level) -> FloatArray:
            return work(levels[level])

        out[:, at] = data.means(columns[at], of_level, level + 1)
    return out if estimate.shift is None else out + estimate.shift[columns]


# Arms of an experiment: what a scorecard needs of their rows, kept where the rows are not.

LEFT_OUT = {"nobody": (), "together": (TOGETHER,), "suspects": (TOGETHER, FEW, LARGE)}
"""Kinds of suspects that means leave out. Without those whose label is contradicted means lie apart."""
KEPT = 500_000_000
"""Values, over all tests, up to which it is computed for a file: more than experiments have, fewer than atlases."""
NO_ARMS = "of an earlier version"
"""What a result without them is, unless it tells."""
LEVEL = 0.95
"""Of the intervals of means by their test, which has them at no other one without the rows."""
OF_CONTROL = 0.1
"""Of the error of an interval of the lift, which pays for the mean of the control. A lift is small, and so is what an
error of that mean does to it."""


def left_out(estimate: Estimate, leave_out: str) -> IntArray:
    """Return the suspects that means leave out."""
    assert estimate.rows is not None
    kinds = np.array(estimate.rows.kinds, dtype=object)
    return np.asarray(estimate.rows.suspects[np.flatnonzero(np.isin(kinds, LEFT_OUT[leave_out]))])


def arms_of(estimate: Estimate, leave_out: str, level: float = LEVEL) -> Arms:
    """Return what a scorecard needs of the rows, from the data where they are not what was asked for before."""
    usual, out = level == LEVEL or estimate.plan.question.target != "mean", left_out(estimate, leave_out)
    for other, known in estimate._arms.items():
        if usual and np.array_equal(out, left_out(estimate, other)):
            return known
    if estimate.source is None and not usual:
        advice = "fit again for another"
        raise InputError("level", f"be {LEVEL} once a result with target='mean' was saved", level, advice)
    if estimate.source is None:
        rule, reason = "have the means of its arms, as it has no data", estimate.__dict__.get("_no_arms", NO_ARMS)
        advice = "make the scorecard first, or save() the result, while it has its data; else fit again"
        raise InputError("result", rule, f"one {reason}", advice)
    table, plan = rows_of(estimate).table, estimate.plan
    labels = np.array(estimate.labels)
    labels[out] = ELSEWHERE
    rows = [np.flatnonzero(labels == arm) for arm in (0, 1)]
    moments = _moments(table.source, rows)
    moved = _moved(table.source, rows, moments)
    moments[:, 1] += moved
    of_test = _of_test(estimate, table, level, moved) if plan.target == "mean" else np.full((8, moved.size), np.nan)
    arms = Arms(moments, moved, _left(estimate, table, labels), of_test)
    if usual:
        estimate._arms[leave_out] = arms
    return arms


def kept_arms(estimate: Estimate) -> tuple[dict[str, Arms], str]:
    """Return what any scorecard needs, and why some of it is not there: data that are gone, or too many."""
    plan = estimate.plan
    if estimate.labels is None or estimate.source is None:
        return estimate._arms, estimate.__dict__.get("_no_arms", NO_ARMS)
    if plan.n_rows * plan.n_features * plan.n_tests > KEPT:
        return estimate._arms, f"saved without them, as it is of more than {KEPT:,} values"
    try:
        with FITTED.reading():
            estimate.source.check_unchanged()
            estimate.source.source.block(slice(0, 1), slice(0, 1))
        for leave_out in LEFT_OUT:
            arms_of(estimate, leave_out)
    except InputError as error:
        return estimate._arms, f"saved without them, as {error}"
    return estimate._arms, ""


def _moments(source: Source, rows: Sequence[IntArray]) -> FloatArray:
    """Return (groups, 3, d): how many values are there, their mean and their variance."""
    out = np.empty((len(rows), 3, source.shape[1]))
    for columns, values in source.takes_of(np.arange(source.shape[1])):
        for group, own in enumerate(rows):
            block = np.asarray(values[own], dtype=np.float64)
            there = ~np.isnan(block)
            n = there.sum(axis=0)
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                mean = np.where(there, block, 0.0).sum(axis=0) / n
                variance = np.where(there, (block - mean) ** 2, 0.0).sum(axis=0) / (n - 1)
            out[group][:, columns] = n, mean, variance
    return out


def _moved(source: Source, rows: Sequence[IntArray], moments: FloatArray) -> FloatArray:
    """Return by how much all values must rise for both arms together to have the mean that was measured.

    Values that were adjusted for those from before (CUPED) are differences to what was expected of each user.
    """
    measured = source.measured
    if measured is source:
        return np.zeros(source.shape[1])
    number, mean, _ = _moments(measured, rows).transpose(1, 0, 2)
    return np.asarray((number * (mean - moments[:, 1])).sum(axis=0) / number.sum(axis=0))


def _of_test(estimate: Estimate, table: Table, level: float, moved: FloatArray) -> FloatArray:
    """Return differences of means and relative ones by the test of means, both covered at once.

    A difference within [a, b] over a mean of the control within [c, d], c > 0, is at least a/d or a/c, by its sign.
    Where values were adjusted the bound of deviations is that of the adjusted ones, and relative ends are not known.
    """
    test, labels, plan = estimate.difference_test, estimate.labels, estimate.plan
    assert test is not None
    assert labels is not None
    every, tested = np.arange(plan.n_features), np.ones(labels.size, dtype=bool)
    if test.rows is not None:
        tested = np.isin(np.arange(labels.size), test.rows)
    label, reference = (np.flatnonzero((labels == group) & tested) for group in (1, 0))
    difference = mean_difference.values_of(
        table, every, (label, reference), test=test, plan=plan, error=(1 - OF_CONTROL) * (1 - level)
    )
    known = np.isfinite(test.unit[1])
    scale = np.where(known, test.unit[1] * np.sqrt((test.bias[1] / test.sizes[1] - ERROR) / test.kappa), 1.0)
    control = one_sample.sparse_mean(
        table.source.take(every)[reference], target="mean", scale=scale, missing=plan.question.missing,
        contamination=plan.bad_by_group[0] / plan.sizes[0],
    )  # fmt: skip
    low, high = control.interval(every, 1 - OF_CONTROL * (1 - level)).T
    mean = np.where(control.mean != 0, control.mean, (low + high) / 2) + moved
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = (
            np.where(difference[1] > 0, difference[1] / high, difference[1] / low),
            np.where(difference[2] > 0, difference[2] / low, difference[2] / high),
        )
        relative = np.stack((difference[0] / mean, *ends))
    relative[:, ~(known & (low > 0))] = np.nan
    relative[1:, moved != 0] = np.nan
    return np.stack((mean, mean + difference[0], *difference, *relative))


def _left(estimate: Estimate, table: Table, labels: IntArray) -> FloatArray:
    """Test those who are left, allowing for no bad one; NaN where that is the test that was made.

    Each of several tests gets its part of the level. Means are not tested again: their intervals are those of the test.
    """
    plan = estimate.plan
    unchanged = not plan.bad_rows and np.array_equal(labels, np.asarray(estimate.labels))
    if unchanged or plan.question.target == "mean" or not all((labels == arm).any() for arm in (0, 1)):
        return np.full((2, plan.n_features), np.nan)
    design = two_sample.Design(table, np.arange(ELSEWHERE + 1), labels, estimate.strata)
    request = ask(
        contamination=0.0, selection=plan.question.selection, level=plan.question.level / plan.n_tests,
        alternative=plan.alternative, min_effect=plan.question.min_effect, missing=plan.question.missing,
    )  # fmt: skip
    decided = two_sample.decide_all(design, [Contrast(1, 0, design.sizes)], request, seed=estimate.seed)
    shown = np.isin(np.arange(plan.n_features), decided.decision.support)
    return np.stack((decided.decision.p_values, np.where(shown, np.sign(decided.tests[0].strength), 0.0)))
