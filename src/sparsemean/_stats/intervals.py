"""Intervals by inversion of tests: of signs of bucket means, their order statistics, or of ranks; m rows replaced."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import group_indices, present_sorted, sort_columns
from sparsemean._stats.planning import first_error
from sparsemean._stats.signed_ranks import REPEAT_SHARE, caps_of, critical_sum, rank_eras, shares_of, slack_of
from sparsemean._util.plans import Plan, Side
from sparsemean._util.records import FloatArray

COMMON = 0.5
"""Where intervals have less of the shortest one in common, they are taken to be about different centres."""


def levels_used(plan: Plan) -> list[int]:
    """Return the levels of buckets that intervals rest on: all sizes that are counted."""
    return [0] if plan.walk.dealing == "paper" else [size.bit_length() - 1 for size in plan.walk.bucket_sizes]


def sort_levels(levels: list[FloatArray], plan: Plan) -> list[FloatArray]:
    """Sort each column of those levels of bucket means that values and intervals rest on, where they lie."""
    for level in levels_used(plan):
        levels[level].sort(axis=0)
    return levels


def error_after_selection(plan: Plan, n_selected: int) -> float:
    """Return the error rate of each interval of R selected features: level·R/d.

    Marginal intervals cover too little once features have been selected by the same data; with this rate the expected
    share of selected features whose interval misses is at most the level (Benjamini and Yekutieli 2005) for independent
    features and no one who chooses by bad rows which are selected; else at most level·(1 + 1/2 + … + 1/d).
    """
    return plan.question.level * n_selected / plan.n_hypotheses


@lru_cache(maxsize=256)
def order_statistic(n_buckets: int, error: float) -> int:
    """Return the largest l with P(Bin(J, ½) ≤ l − 1) ≤ error/2, 0 if there is none."""
    from scipy.special import bdtr

    # The probabilities rise with l: those that are small enough are the first ones.
    return int(np.sum(bdtr(np.arange(n_buckets + 1), n_buckets, 0.5) <= error / 2))


def one_size(ordered: FloatArray, *, error: float, bad_rows: int) -> FloatArray:
    """Return [x̄_(l−m), x̄_(J+1−l+m)] of (J, features) sorted bucket means as two rows; infinite where l − m < 1.

    J is the number of means that are there, NaN is none. A bad row may also have emptied a bucket or filled an empty
    one; that is allowed for: with b emptied and c filled the clean data had J + b − c means and their rank l(J + b − c)
    is counted among b fewer of them, and l grows by 0 or 1 with each mean more, so that no such change takes the
    interval of the clean data out of this one.
    """
    ends = np.stack((np.full(ordered.shape[1], -np.inf), np.full(ordered.shape[1], np.inf)))
    for J, at in group_indices(present_sorted(ordered)):
        # A replaced row moves one bucket mean past others, and so an order statistic by one rank at most.
        rank = order_statistic(J, error) - bad_rows
        if rank >= 1:
            ends[:, at] = ordered[rank - 1, at], ordered[J - rank, at]
    return ends


def of_levels(levels: list[FloatArray], plan: Plan, *, error: float) -> FloatArray:
    """Return the null values that the test of a plan does not reject, of `sort_levels` of bucket means, as two rows.

    Of one side the other end is infinite.
    """
    if plan.question.test == "ranks":
        return rank_interval(levels[0], plan, error=error)
    used, side = [levels[level] for level in levels_used(plan)], plan.question.side
    return np.stack(side.interval(*all_sizes(used, error=error * 2 / side.number, bad_rows=plan.bad_rows)))


def rank_interval(values: FloatArray, plan: Plan, *, error: float) -> FloatArray:
    """Return the interval of each column by capped signed ranks, under a plan.

    It holds those for fewer bad rows, for which other caps are looked at: an interval never shrinks as more may be bad.
    """
    ends, first = np.stack((np.full(values.shape[1], np.inf), np.full(values.shape[1], -np.inf))), 0
    for last, places in rank_eras(plan.n_units, error=first_error(plan), sides=plan.question.side.number):
        if first > plan.bad_rows:
            break
        found = by_ranks(
            values, error=error, bad_rows=min(last, plan.bad_rows), n_rows=plan.n_units,
            side=plan.question.side, places=places,
        )  # fmt: skip
        ends = np.stack((np.minimum(ends[0], found[0]), np.maximum(ends[1], found[1])))
        first = last + 1
    return ends


def given_nonzero(
    levels: list[FloatArray], plan: Plan, ends: FloatArray, *, error: float
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return intervals of values that are not zero where zeros are at least a tenth of all, and say where.

    Tests leave zeros out. Where these are many, an interval of all values would be about another centre than the test,
    and often hold zero beside a test that rejects it; the same test of the other values agrees with it.
    """
    zeros = np.sum(levels[0] == 0, axis=0)
    many = np.flatnonzero((REPEAT_SHARE * zeros >= levels[0].shape[0]) & (plan.question.min_effect == 0))
    changed = np.zeros(ends.shape[1], dtype=bool)
    if many.size:
        rows = levels[0][:, many]
        ends[:, many] = rank_interval(np.where(rows == 0, np.nan, rows), plan, error=error)
        changed[many] = True
    return ends, changed


def by_ranks(
    values: FloatArray,
    *,
    error: float,
    bad_rows: int,
    n_rows: int,
    side: Side,
    places: tuple[int, ...] | None = None,
) -> FloatArray:
    """Return the null values that capped signed ranks do not reject, of each column of ``values``, as two rows.

    The caps at some ``places``, all by default, share the error. Ties count against rejection and no value is left out
    for being the null value, so that what is rejected grows as a null value moves away, and with it what an interval
    leaves out. NaN is no value; a bad row may have hidden one or put it there, which moves sums by no more than turning
    its sign does.
    """
    from sparsemean._kernels.signed_ranks import lower_ends  # numba takes its time

    at = slice(None) if places is None else list(places)
    caps, shares = np.array(caps_of(n_rows))[at], shares_of(n_rows)[at]
    log_errors = np.log(error / side.number * shares / shares.sum())
    ends = np.stack((np.full(values.shape[1], -np.inf), np.full(values.shape[1], np.inf)))
    ordered = sort_columns(values)
    there = present_sorted(ordered)
    found = np.empty(caps.size)
    for column, number in enumerate(there.tolist()):
        x, slack = np.ascontiguousarray(ordered[:number, column]), np.array([number])
        needed = np.array([
            critical_sum(number, cap, log_error) + int(slack_of(bad_rows, slack, cap)[0])
            for cap, log_error in zip(caps.tolist(), log_errors.tolist(), strict=True)
        ])  # fmt: skip
        each = np.stack((np.full(caps.size, -np.inf), np.full(caps.size, np.inf)))
        for sign in side.signs:
            lower_ends(x if sign > 0 else -x[::-1], caps, needed, found)
            each[0 if sign > 0 else 1] = sign * found
        ends[:, column] = joint(each)
    return ends


def joint(each: FloatArray) -> FloatArray:
    """Return what intervals, a column each, have in common, or one of them where that is too little to be meant.

    All of them hold at once, so that any may be taken. Of noise that is not symmetric they are about different centres,
    and what they share is next to nothing: then the one that is farthest from zero is taken, which rejects it if any
    does; where none does, all that any of them holds.
    """
    low, high = each[0].max(), each[1].min()
    with np.errstate(over="ignore"):  # ends may be infinitely far apart
        width, shortest = high - low, (each[1] - each[0]).min()
    if width >= COMMON * shortest or not np.isfinite(width):
        return np.array((low, high))
    beyond = np.maximum(each[0], -each[1])
    if beyond.max() > 0:
        return np.asarray(each[:, int(beyond.argmax())])
    return np.array((each[0].min(), each[1].max()))


def end_at_null(low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
    """Say which intervals, less their null value, end exactly there, or hold a single value.

    Only values that are the null value do the first. Tests look at the others alone, the interval is one of all, so
    that beside a selection such an interval would contradict it. The second is what few different values do: the one
    centre about which they could be symmetric.
    """
    return np.asarray((low == 0) | (high == 0) | (low == high))


def all_sizes(levels: list[FloatArray], *, error: float, bad_rows: int) -> FloatArray:
    """Return the intersection of the intervals of sorted means of all sizes, each at ``error`` over their number.

    Where sizes contradict each other the noise cannot be symmetric; then the hull of all intervals is returned.
    """
    return common(np.stack([one_size(ordered, error=error / len(levels), bad_rows=bad_rows) for ordered in levels]))


def common(each: FloatArray) -> FloatArray:
    """Return the intersection of (sizes, 2, features) intervals, their hull where it is empty."""
    low, high = each[:, 0].max(axis=0), each[:, 1].min(axis=0)
    apart = low > high
    low[apart], high[apart] = each[:, 0].min(axis=0)[apart], each[:, 1].max(axis=0)[apart]
    return np.stack((low, high))
