"""Ranks of one sample: sums of signed scores, where intervals that they give end, and pairs in one order."""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.centres import NORMAL, order_statistic, score_sum
from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array


@compiled(plain="reference")
def add_scores(codes: Array, gone: Array, caps: Array, repeats: Array, low: Array, doubled: Array) -> None:
    """Add up the scores of either sign, of features whose values are sorted by size and sign.

    A row is a feature, its values coded as twice the bits of their size, and one more if positive. The first ``gone``
    are not ranked; a size of zero has no sign. Of values of one size those of a sign have the lowest scores in
    ``low``. In ``doubled`` they have, twice, the scores nearest to both ends: of all orders that one whose sum with the
    reversed one is smallest.

    As most sizes are different, scores are added up as if all were, which fills vectors; then runs are put right.
    """
    n = codes.shape[1]
    for feature in range(codes.shape[0]):
        row, start = codes[feature, gone[feature] :], gone[feature]
        zeros = 0
        while zeros < row.size and row[zeros] == 0:
            zeros += 1
        repeats[feature] += max(0, zeros - 1)
        for k in range(caps.size):
            above, cap = np.int64(0), int(caps[k])
            for i in range(row.size):
                above += min(i + 1, cap) * np.int64(row[i] & 1)
            under = score_sum(n - start, cap) - score_sum(zeros, cap) - above
            low[0, k, feature], low[1, k, feature] = above, under
            doubled[0, k, feature], doubled[1, k, feature] = 2 * above, 2 * under
        first = zeros
        while first + 1 < row.size:
            last = first + 1
            if row[first] >> 1 != row[last] >> 1:
                first = last
                continue
            while last < row.size and row[last] >> 1 == row[first] >> 1:
                last += 1
            repeats[feature] += last - first - 1
            number, positive = last - first, np.int64(0)
            for i in range(first, last):
                positive += np.int64(row[i] & 1)
            for k in range(caps.size):
                for sign in range(2):
                    there = np.int64(0)
                    for i in range(first, last):
                        there += min(i + 1, int(caps[k])) * np.int64((row[i] & 1) != sign)
                    signed = positive if sign == 0 else number - positive
                    least, twice = tied_scores(first + 1, number, int(signed), caps[k])
                    low[sign, k, feature] += least - there
                    doubled[sign, k, feature] += twice - 2 * there
            first = last


@compiled(plain="itself")
def tied_scores(rank: int, number: int, signed: int, cap: int) -> tuple[int, int]:
    """Return the lowest scores of the values of a sign among some of one size, and the doubled ones at both ends."""
    half, end, before = signed // 2, rank + number - 1, score_sum(rank - 1, cap)
    twice = 2 * (score_sum(rank + half - 1, cap) - before + score_sum(end, cap) - score_sum(end - half, cap))
    if signed % 2 == 1:
        twice += min(rank + half, cap) + min(end - half, cap)
    return score_sum(rank + signed - 1, cap) - before, twice


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
def score_ends(rows: Array, there: Array, caps: Array, needed: Array, signs: Array, out: Array) -> None:
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


# Trends: in how many pairs values are in the order of a number of each row.


@compiled(plain="itself", weight=10.0)
def count_rising(ranks: Array, begins: Array, out: Array) -> None:
    """Write, of each feature, how many of the ranks lie below those of later classes of rows.

    A row of ``ranks`` is a feature: those of its values from 0 on, −1 where there is none; the class of each begins at
    ``begins``. What came by is counted in a tree of sums (Fenwick 1994), one step for each bit of a rank.
    """
    n = begins.size
    tree = np.zeros(n + 1, dtype=np.int64)
    for feature in range(ranks.shape[0]):
        own, rising, before = ranks[feature], 0, 0
        for row in range(n):
            while before < begins[row]:
                at = own[before] + 1
                while 0 < at <= n:
                    tree[at] += 1
                    at += at & -at
                before += 1
            at = own[row]
            while at > 0:
                rising += tree[at]
                at -= at & -at
        out[feature] = rising
        tree[:] = 0
