"""Ends of intervals by capped signed ranks: how far a null value can be moved before its test lets it go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

Arr = Any
CLOSE = 1e-12
"""Halving ends when what is left is this small beside what it lies at, or beside the spread of the values."""


@compiled
def sum_above(x: Arr, theta: float, cap: int) -> int:
    """Return Σ min(rank of |x − θ|, C) over values above θ, of rising ``x``; of one size those above come first.

    Values are met in the order of their distance: from the first above θ upwards and from the last not above it
    downwards. Beyond the cap all scores are the same, and only their number counts.
    """
    n = x.size
    above = np.searchsorted(x, theta, side="right")
    up, down, total = above, above - 1, 0
    for rank in range(1, min(cap, n) + 1):
        if down < 0 or (up < n and x[up] - theta <= theta - x[down]):
            total += rank
            up += 1
        else:
            down -= 1
    return total + cap * (n - up) if n > cap else total


@compiled
def next_mean(x: Arr, above: float) -> float:
    """Return the smallest mean of two of the rising values, or of one with itself, that is larger than a number."""
    n, best = x.size, math.inf
    last = n
    for i in range(n):
        while last > i and x[i] + 0.5 * (x[last - 1] - x[i]) > above:
            last -= 1
        if last < n:
            best = min(best, x[i] + 0.5 * (x[last] - x[i]))
        if last <= i:
            break
    return best


@compiled
def lower_ends(x: Arr, caps: Arr, needed: Arr, out: Arr) -> None:
    """Write for each cap where null values end that lie so low that the sum above them is ``needed``.

    ``x`` rises. Order statistics are halved first, so that a far value costs a step and no digits, then what lies
    between two of them. Sums change at means of two values only: the end is the next one of those. Where there is no
    such null value it is −∞.
    """
    n = x.size
    for k in range(caps.size):
        out[k] = -math.inf
        if n == 0 or sum_above(x, x[0] - 1.0 - abs(x[0]), caps[k]) < needed[k]:
            continue
        first, last = -1, n - 1  # the sum above x[first] is enough (−1: below all), above x[last] it is not
        while last - first > 1:
            middle = (first + last) // 2
            if sum_above(x, x[middle], caps[k]) >= needed[k]:
                first = middle
            else:
                last = middle
        low, high = x[max(first, 0)], x[last]
        if first < 0:
            out[k] = x[0]
            continue
        least = CLOSE * max(abs(low), abs(high), x[n - 1 - n // 4] - x[n // 4])
        while high - low > least:
            middle = low + 0.5 * (high - low)
            if sum_above(x, middle, caps[k]) >= needed[k]:
                low = middle
            else:
                high = middle
        out[k] = next_mean(x, low - 2 * least)  # rounding must not lead past the one that it is
