"""Capped signed ranks of one sample: sums of scores, their tails, and where intervals that they give end."""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.centres import NORMAL, order_statistic, score_sum
from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array


@compiled(plain="reference")
def add_scores(
    signs: Array, all_sizes: Array, gone: Array, caps: Array, repeats: Array, low: Array, doubled: Array
) -> None:
    """Add up the scores of either sign, of features whose values are sorted by size and sign.

    A row is a feature: whether its values are positive, and their rising sizes. Its first ``gone``
    values are not ranked; a size of zero has no sign. Of values of one size those of a sign have the lowest scores in
    ``low``. In ``doubled`` they have, twice, the scores nearest to both ends: of all orders that one whose sum with the
    reversed one is smallest.

    Sums are copied one by one: for parts of arrays numba compiles the words of an error as well, five seconds of them.
    """
    n = signs.shape[1]
    sums = np.zeros((2, 2, caps.size), dtype=np.int64)
    for feature in range(signs.shape[0]):
        sign_of, sizes, start = signs[feature], all_sizes[feature], gone[feature]
        for sign in range(2):
            for k in range(caps.size):
                sums[0, sign, k] = sums[1, sign, k] = 0
        first = start
        while first < n:
            size, rank, last = sizes[first], first - start + 1, first + 1
            if last == n or sizes[last] != size:  # no other value of this size
                if size > 0:
                    sign = 0 if sign_of[first] else 1
                    for k in range(caps.size):
                        sums[0, sign, k] += min(rank, caps[k])
                        sums[1, sign, k] += 2 * min(rank, caps[k])
                first = last
                continue
            above = 0
            last = first
            while last < n and sizes[last] == size:
                above += 1 if sign_of[last] else 0
                last += 1
            number = last - first
            repeats[feature] += number - 1
            for sign in range(2 if size > 0 else 0):
                signed = above if sign == 0 else number - above
                half, end = signed // 2, rank + number - 1
                for k in range(caps.size):
                    before = score_sum(rank - 1, caps[k])
                    sums[0, sign, k] += score_sum(rank + signed - 1, caps[k]) - before
                    both = score_sum(rank + half - 1, caps[k]) - before
                    both += score_sum(end, caps[k]) - score_sum(end - half, caps[k])
                    sums[1, sign, k] += 2 * both
                    if signed % 2 == 1:
                        sums[1, sign, k] += min(rank + half, caps[k]) + min(end - half, caps[k])
            first = last
        for sign in range(2):
            for k in range(caps.size):
                low[sign, k, feature], doubled[sign, k, feature] = sums[0, sign, k], sums[1, sign, k]


# Intervals: how far a null value can be moved before its test lets it go.

NORMAL_RANGE = 1.349
"""Distance of the quartiles of a normal value with a deviation of one."""


@compiled(plain="itself")
def log_normal_tail(y: float) -> float:
    """Return log P(Z ≥ y) for standard normal Z."""
    if y < 8.0:
        return math.log(0.5 * math.erfc(y * 0.7071067811865476))
    s = 1.0 / (y * y)
    series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s))))
    return -0.5 * y * y - math.log(y * 2.5066282746310002) + math.log(series)


@compiled(plain="itself")
def log_normal_excess(y: float) -> float:
    """Return log E(Z − y)₊ for standard normal Z."""
    if y < 5.0:
        return math.log(math.exp(-0.5 * y * y) * 0.3989422804014327 - y * 0.5 * math.erfc(y * 0.7071067811865476))
    s = 1.0 / (y * y)
    series = 1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s * (1.0 - 11.0 * s))))
    return -0.5 * y * y - math.log(y * y * 2.5066282746310002) + math.log(series)


@compiled(plain="itself")
def score_ends(
    rows: Array, there: Array, caps: Array, needed: Array, signs: Array, out: Array
) -> None:
    """Write for each sign, cap and row where null values end that lie so low that the sum above them is ``needed``.

    A row has as many rising values as are ``there``; with a sign of −1 ends are the upper ones, those of −x turned
    round. The sum of scores above θ falls with θ at means of two values only, from all scores: so the end is an order
    statistic of means, counted by the scores that are lost. Where there is no such null value it is infinite.
    """
    halves, no_strata = np.empty(rows.shape[1]), np.empty((2, 0), np.int64)
    for f in range(rows.shape[0]):
        n = there[f]
        for side in range(signs.size):
            for i in range(n):  # half of each: a mean of two is a sum that cannot be too large
                halves[i] = 0.5 * rows[f, i] if signs[side] > 0 else -0.5 * rows[f, n - 1 - i]
            x = halves[:n]
            for k in range(caps.size):
                cap = min(caps[k], n)
                lost = score_sum(n, cap) - needed[f, k] + 1
                out[side, k, f] = -math.inf * signs[side]
                if n > 0 and lost > 0:
                    slope = cap * n * NORMAL * NORMAL_RANGE / (x[n - 1 - n // 4] - x[n // 4])
                    guess = x[(n - 1) // 2] + x[n // 2] + (lost - 0.5 * score_sum(n, cap)) / slope
                    end = order_statistic(x, x, no_strata, lost, guess, slope, cap)[0]
                    out[side, k, f] = signs[side] * end + 0.0
