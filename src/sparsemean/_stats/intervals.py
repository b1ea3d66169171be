"""Intervals from order statistics of bucket means, valid against m replaced rows."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import group_indices
from sparsemean._util.records import FloatArray, Plan


def levels_used(plan: Plan) -> list[int]:
    """Return the levels of buckets that intervals rest on: all sizes that are counted."""
    return [0] if plan.dealing == "paper" else [size.bit_length() - 1 for size in plan.bucket_sizes]


def error_after_selection(plan: Plan, n_selected: int) -> float:
    """Return the error rate of each interval of R selected features: level·R/d.

    Marginal intervals cover too little once features have been selected by the same data; with this rate the expected
    share of selected features whose interval misses is at most the level (Benjamini and Yekutieli 2005).
    """
    return plan.level * n_selected / plan.n_hypotheses


@lru_cache(maxsize=256)
def order_statistic(n_buckets: int, error: float) -> int:
    """Return the largest l with P(Bin(J, ½) ≤ l − 1) ≤ error/2, 0 if there is none."""
    from scipy.special import bdtr

    # The probabilities rise with l: those that are small enough are the first ones.
    return int(np.sum(bdtr(np.arange(n_buckets + 1), n_buckets, 0.5) <= error / 2))


def one_size(means: FloatArray, *, error: float, bad_rows: int) -> FloatArray:
    """Return [x̄_(l−m), x̄_(J+1−l+m)] of (J, features) bucket means as two rows; infinite where l − m < 1.

    J is the number of means that are there, NaN is none. A bad row may also have emptied a bucket or filled an empty
    one; that is allowed for: with b emptied and c filled the clean data had J + b − c means and their rank l(J + b − c)
    is counted among b fewer of them, and l grows by 0 or 1 with each mean more, so that no such change takes the
    interval of the clean data out of this one.
    """
    ordered = np.sort(means, axis=0)  # NaN goes to the end
    ends = np.stack((np.full(means.shape[1], -np.inf), np.full(means.shape[1], np.inf)))
    for J, at in group_indices(np.sum(~np.isnan(means), axis=0)):
        # A replaced row moves one bucket mean past others, and so an order statistic by one rank at most.
        rank = order_statistic(J, error) - bad_rows
        if rank >= 1:
            ends[:, at] = ordered[rank - 1, at], ordered[J - rank, at]
    return ends


def end_at_null(low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
    """Say which intervals, less their null value, end exactly there.

    Only values that are the null value do that. The sign test looks at the others alone, the interval is one of the
    median of all, so that beside a selection such an interval would contradict it.
    """
    return np.asarray((low == 0) | (high == 0))


def all_sizes(levels: list[FloatArray], *, error: float, bad_rows: int) -> FloatArray:
    """Return the intersection of the intervals of all sizes, each at ``error`` divided by their number.

    Where sizes contradict each other the noise cannot be symmetric; then the hull of all intervals is returned.
    """
    each = np.stack([one_size(means, error=error / len(levels), bad_rows=bad_rows) for means in levels])
    low, high = each[:, 0].max(axis=0), each[:, 1].min(axis=0)
    apart = low > high
    low[apart], high[apart] = each[:, 0].min(axis=0)[apart], each[:, 1].max(axis=0)[apart]
    return np.stack((low, high))
