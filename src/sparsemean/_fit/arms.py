"""Arms of an experiment: what a scorecard needs of their rows, kept where the rows are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsemean._data.source import Source
from sparsemean._data.table import Table
from sparsemean._evidence.ranks import Contrast
from sparsemean._fit import one_sample, two_sample
from sparsemean._fit.afterwards import FITTED, refuse_each, rows_of
from sparsemean._fit.suspects import ELSEWHERE
from sparsemean._kernels.influence import ERROR
from sparsemean._stats.effects import Arms
from sparsemean._stats.planning import check_question
from sparsemean._stats.row_scores import FEW, LARGE, TOGETHER
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError
from sparsemean.result import Estimate

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
    if estimate.plan.rest:
        refuse_each(estimate)
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
    every, reference = np.arange(plan.n_features), np.flatnonzero(labels == 0)
    reference = reference if test.rows is None else np.intersect1d(reference, test.rows)
    error = (1 - OF_CONTROL) * (1 - level)
    pieces = two_sample.located(table, plan, labels, None, every, test=test, error=error)
    difference = np.concatenate([found[:, :3] for *_, found in pieces]).T
    known = np.isfinite(test.unit[1])
    scale = np.where(known, test.unit[1] * np.sqrt((test.bias[1] / test.sizes[1] - ERROR) / test.kappa), 1.0)
    control = one_sample.sparse_mean(
        table.source.take(every)[reference], target="mean", scale=scale, missing=plan.question.missing,
        contamination=plan.bad_shares.reference,
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
    request = check_question(
        contamination=0.0, selection=plan.question.selection, level=plan.question.level / plan.n_tests,
        alternative=plan.alternative, min_effect=plan.question.min_effect, missing=plan.question.missing,
    )  # fmt: skip
    contrast = Contrast(reference=0, label=1, sizes=tuple(np.bincount(labels, minlength=ELSEWHERE + 1).tolist()))
    classes = np.arange(ELSEWHERE + 1)
    decided = two_sample.decide_all(two_sample.Design(table, classes, labels, (contrast,), request, estimate.strata))
    shown = np.isin(np.arange(plan.n_features), decided.decision.support)
    return np.stack((decided.decision.p_values, np.where(shown, np.sign(decided.tests[0].strength), 0.0)))
