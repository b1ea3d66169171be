"""The nearest weights that add up to one when none may be large."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.records import FloatArray


def project_capped_simplex(v: FloatArray, cap: float) -> FloatArray:
    """Return the point of {0 ≤ w ≤ cap, Σw = 1} nearest to ``v``, exactly and in O(n log n).

    It is w = clip(v − θ, 0, cap). Along the sorted kinks, v − cap where a weight leaves the cap and v where it
    reaches zero, Σw falls by (number of weights in between) × (distance), so θ lies in the segment that passes 1.

    Parameters
    ----------
    v : array of shape (n,)
        Any finite numbers.
    cap : float
        The largest weight, at least 1/n.

    Examples
    --------
    >>> project_capped_simplex(np.array([0.9, 0.3, 0.0, -5.0]), 0.5)
    array([0.5, 0.4, 0.1, 0. ])
    """
    n = v.size
    if n * cap <= 1:
        return np.full(n, 1 / n)
    # With K = ⌈1/cap⌉, θ lies between v_(K) − cap and v_(K): entries farther off are at the cap or zero, however far.
    rank = min(math.ceil(1 / cap), n)
    near = np.clip(v - np.partition(v, n - rank)[n - rank], -cap, cap)
    ascending = np.sort(near)
    kinks = np.concatenate([ascending - cap, ascending])
    order = np.argsort(kinks, kind="stable")
    kinks = kinks[order]
    freed = np.cumsum(order < n)
    at_zero = np.arange(1, 2 * n + 1) - freed
    lost = np.cumsum((freed - at_zero)[:-1] * np.diff(kinks))
    segment = min(int(np.searchsorted(lost, n * cap - 1)), 2 * n - 2)
    capped, zero = n - int(freed[segment]), int(at_zero[segment])
    free = ascending[zero : n - capped]
    if not free.size:
        return np.where(near >= kinks[segment + 1], cap, 0.0)
    # θ is taken from the mean of the free entries, not from the running sums, which have lost a digit or two.
    share = (1 - capped * cap) / free.size
    return np.asarray(np.clip(near - free.mean() + share, 0.0, cap))
