"""Compiled loops over sorted values: walks of the subgradient method, and ordered differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

Arr = Any
NEAR = 16
"""Values that a step of a walk passes one by one before it looks for its place by halving."""


@compiled
def count_below(x: Arr, J: int, mu: float) -> int:
    """Return #{x < μ} of J sorted values, by halving."""
    low, high = 0, J
    while low < high:
        middle = (low + high) // 2
        if x[middle] < mu:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def walk(ordered: Arr, alpha: float, eta: float, times: Arr, out: Arr) -> None:
    """Run the subgradient method on rows of sorted bucket means; ``out[k]`` is μ̂ after ``times[k]`` steps.

    ``below`` and ``through`` point at #{x̄ < μ̂} and #{x̄ ≤ μ̂} and move with μ̂, so that a step costs O(1). NaN, which
    stands for a bucket without a value and is sorted to the end, does not count.
    """
    for f in range(ordered.shape[0]):
        x = ordered[f]
        J = values_in(x)
        u = v = alpha
        below = through = 0
        t = 0
        for k in range(times.size):
            while True:
                mu = u * u - v * v
                # A step passes a few values. Where many are equal, as zeros are, it may pass all of them, and the next
                # one all of them back: those are not counted one by one.
                left = NEAR
                while left and below < J and x[below] < mu:
                    below, left = below + 1, left - 1
                while left and below > 0 and x[below - 1] >= mu:
                    below, left = below - 1, left - 1
                if left == 0:
                    below = count_below(x, J, mu)
                left = NEAR
                while left and through < J and x[through] <= mu:
                    through, left = through + 1, left - 1
                while left and through > 0 and x[through - 1] > mu:
                    through, left = through - 1, left - 1
                if left == 0:
                    through = count_below(x, J, np.nextafter(mu, np.inf))
                if t >= times[k]:
                    break
                beta = (J - through - below) / max(1, J)
                u *= 1.0 + eta * beta
                v *= 1.0 - eta * beta
                t += 1
            out[k, f] = mu


@compiled
def values_in(x: Arr) -> Any:
    """Return how many of sorted values come before the NaN at their end."""
    count = x.size
    while count > 0 and x[count - 1] != x[count - 1]:
        count -= 1
    return count


@compiled(plain="itself")
def ordered_difference(a: Arr, b: Arr, k: int) -> Any:
    """Return the k-th smallest of all differences a_i − b_j of two sorted arrays, by narrowing down their range.

    Both ends of the range are differences themselves, never roundings, so the answer is exact. Two steps of three look
    where the counts at the ends put it, the third halves. A step costs O(n).
    """
    total = a.size * b.size
    i, j = corner(a.size, b.size, (total - k + 1) / total)
    low = a[a.size - i] - b[j - 1]
    i, j = corner(a.size, b.size, k / total)
    high = a[i - 1] - b[b.size - j]
    before, through_high, step = 0, total, 0
    while low < high:
        share = 0.5 if step % 3 == 0 else (k - before - 0.5) / (through_high - before)
        middle = (1.0 - share) * low + share * high
        if not low <= middle < high:
            middle = low
        count, through, above = split_differences(a, b, middle)
        if count >= k:
            high, through_high = through, count
        else:
            low, before = above, count
        step += 1
    return high


@compiled(plain="itself")
def corner(n: int, m: int, share: float) -> Any:
    """Return how many of n and of m sorted values, from an end, pair up to at least that share of all pairs.

    All those differences lie on one side of the one in the corner, which so bounds the wanted one: heavy tails then do
    not widen the range to be halved.
    """
    side = np.sqrt(share)
    return min(n, int(side * n) + 1), min(m, int(side * m) + 1)


@compiled(plain="reference")
def split_differences(a: Arr, b: Arr, value: float) -> Any:
    """Return how many differences a_i − b_j are up to ``value``, the largest of those and the smallest above it."""
    through, above = -np.inf, np.inf
    count = at = 0
    for i in range(a.size):
        while at < b.size and a[i] - b[at] > value:
            at += 1
        count += b.size - at
        if at < b.size:
            through = max(through, a[i] - b[at])
        if at > 0:
            above = min(above, a[i] - b[at - 1])
    return count, through, above
