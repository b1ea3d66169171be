"""Ranks of one sample: sums of signed scores, where intervals that they give end, and pairs in one order."""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array


@compiled(plain="itself")
def score_sum(rank: int, cap: int) -> int:
    """Return Σ min(i, C) over i up to a rank."""
    if rank <= cap:
        return rank * (rank + 1) // 2
    return cap * (cap + 1) // 2 + cap * (rank - cap)


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

CLOSE = 1e-10
"""Halving ends when what is left is this small beside what it lies at, or beside the spread of the values."""


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


@compiled(plain="reference")
def sum_above(x: Array, theta: float, cap: int) -> int:
    """Return Σ min(rank of |x − θ|, C) over values above θ, of rising ``x``; of one size those above come first.

    Values are met in the order of their distance: from the first above θ upwards and from the last not above it
    downwards. Beyond the cap all scores are the same, and only their number counts.
    """
    n = x.size
    above = int(np.searchsorted(x, theta, side="right"))
    up, down, total = above, above - 1, 0
    for rank in range(1, min(cap, n) + 1):
        if down < 0 or (up < n and x[up] - theta <= theta - x[down]):
            total += rank
            up += 1
        else:
            down -= 1
    return total + cap * (n - up) if n > cap else total


@compiled(plain="itself")
def next_mean(x: Array, above: float) -> float:
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


@compiled(plain="itself")
def lower_ends(x: Array, caps: Array, needed: Array, out: Array) -> None:
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
            middle = 0.5 * low + 0.5 * high
            if not low < middle < high:
                break  # no number lies between
            if sum_above(x, middle, caps[k]) >= needed[k]:
                low = middle
            else:
                high = middle
        out[k] = next_mean(x, low - 2 * least)  # rounding must not lead past the one that it is


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
