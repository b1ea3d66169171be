"""p-values of two groups from what the counting pass learns, with ties, zeros and bad rows; see docs/guarantees.md.

Which null applies is decided by numbers that labels do not enter, K₋ and K₊ (negative and positive values) and how many
values repeat others. Bad rows move each of them by one, so every rule within their reach is looked at and the largest
p-value is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.rank_tails import LANES, LOG_2, log_tail

Arr = Any
UPPER, LOWER, RAW = 0, 1, 2
"""The test on max(x, 0), on min(x, 0), and on x itself."""
BLOCK_SHARE = 4
"""Fewer than a quarter of the values on one side of zero: they are counted among the zeros."""
REPEAT_SHARE = 10
"""Fewer than a tenth of the values repeat others: their ties count against rejection, and the null is that without."""
CLOSE = 2.0
"""By so much the logarithm of the bound may miss a goal that the largest tail itself reaches."""
MOST_LOOKS = 2000
"""Bad rows for which every A is looked at, at most."""


@compiled
def most_moved(n1: Arr, n2: Arr, bad1: int, bad2: int, missing: bool) -> int:
    """Return by how much ``bad1`` rows of the first group and ``bad2`` of the second can move U, summed over strata.

    With ``missing`` values a bad row may have been hidden, or put where there was none.
    """
    if missing:
        return bad1 * (n2.max() + bad2) + bad2 * n1.max()
    if n1.size == 1:
        b1, b2 = min(bad1, n1[0]), min(bad2, n2[0])
        return b1 * n2[0] + b2 * n1[0] - b1 * b2
    return largest_sum(n1, n2, bad1) + largest_sum(n2, n1, bad2)


@compiled
def largest_sum(own: Arr, other: Arr, bad: int) -> int:
    """Return the sum of the ``bad`` largest of the numbers other_h, of which each is there own_h times."""
    moved, rest, below = 0, bad, other.max() + 1
    while rest > 0 and below > 0:
        largest = there = 0
        for h in range(own.size):
            if largest < other[h] < below:
                largest, there = other[h], own[h]
            elif other[h] == largest:
                there += own[h]
        taken = min(rest, there)
        moved += taken * largest
        rest -= taken
        below = largest
    return moved


@compiled
def doubled_statistic(counts: Arr, kind: int, first: bool, halves: bool) -> Any:
    """Return 2U of one stratum for the group that is asked for, A, and its size and the other's as the null has them.

    ``counts``: values, positive and negative ones of the first and of the second group, then wins and ties among the
    positive and among the negative ones. Ties of values that are not zero count ½ with ``halves``, else nothing.
    """
    n1, n2, p1, p2, m1, m2 = counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]
    won_p, tied_p, won_m, tied_m = counts[6], counts[7], counts[8], counts[9]
    if not first:
        won_p, won_m = p1 * p2 - won_p - tied_p, m1 * m2 - won_m - tied_m
        n1, n2, p1, p2, m1, m2 = n2, n1, p2, p1, m2, m1
    if kind == UPPER:
        w = 2 * won_p + 2 * p1 * (n2 - p2) + (n1 - p1) * (n2 - p2)
        return w + (tied_p if halves else 0), p1 + p2, n1, n2
    if kind == LOWER:  # turned around, the zeros lie at the bottom again, and what won has lost
        w = 2 * won_m + 2 * (n1 - m1) * m2 + (n1 - m1) * (n2 - m2)
        return w + (tied_m if halves else 0), m1 + m2, n2, n1
    z1, z2 = n1 - p1 - m1, n2 - p2 - m2
    w = 2 * (won_p + won_m + p1 * (n2 - p2) + z1 * m2)
    return w + (tied_p + tied_m + z1 * z2 if halves else 0), n1 + n2, n1, n2


@compiled
def log_p_block(
    counts: Arr, kind: int, halves: bool, side: int, bad1: int, bad2: int, missing: bool, goal: float, scratch: Arr, lanes: Arr,
    null: Arr,
) -> float:  # fmt: skip
    """Return the logarithm of the p-value of one null: of two sides for side 0, of the first group above for 1, below for −1."""
    strata = counts.shape[0]
    bad = bad1 + bad2
    first = side >= 0
    if side == 0:
        w = mean = 0
        for h in range(strata):
            w += doubled_statistic(counts[h], kind, True, True)[0]
            mean += counts[h, 0] * counts[h, 1]
        first = w >= mean
    w = 0
    for h in range(strata):
        here, A, null[0, h], null[1, h] = doubled_statistic(counts[h], kind, first, halves)
        w += here
        null[2, h] = A if kind == RAW else min(A + bad, null[0, h] + null[1, h])
        null[3, h], null[4, h] = counts[h, 0], counts[h, 1]
    w -= 2 * most_moved(null[3, :strata], null[4, :strata], bad1, bad2, missing)
    sides = LOG_2 if side == 0 else 0.0
    unknown = bad > 0 and kind != RAW
    tail = log_tail(null[0, :strata], null[1, :strata], null[2, :strata], w, unknown, halves, scratch, lanes) + sides
    if unknown and strata == 1 and goal < tail < goal + CLOSE and bad <= MOST_LOOKS and not missing:
        tail = min(tail, log_p_each(null, max(0, null[2, 0] - 2 * bad), w, halves, goal - sides, scratch, lanes) + sides)
    return min(0.0, tail)


@compiled
def log_p_each(null: Arr, least: int, w: int, halves: bool, goal: float, scratch: Arr, lanes: Arr) -> float:
    """Return the largest tail of all A from the one of ``null`` down to ``least``, 0 where one misses the goal."""
    largest = -np.inf
    for A in range(null[2, 0], least - 1, -1):
        null[4, 0] = A
        largest = max(largest, log_tail(null[0, :1], null[1, :1], null[4, :1], w, False, halves, scratch, lanes))
        if largest > goal:
            return 0.0
    return largest


@compiled
def log_p_rule(
    counts: Arr, kind: int, repeats: int, rows: int, side: int, bad1: int, bad2: int, missing: bool, goal: float, scratch: Arr,
    lanes: Arr, null: Arr,
) -> float:  # fmt: skip
    """Return the larger p-value of the two ways to count ties, where bad rows could have led to either."""
    bad = bad1 + bad2
    value = -np.inf
    if REPEAT_SHARE * (repeats - bad) < rows:
        value = log_p_block(counts, kind, False, side, bad1, bad2, missing, goal, scratch, lanes, null)
    if REPEAT_SHARE * (repeats + bad) >= rows and value < 0.0:
        value = max(value, log_p_block(counts, kind, True, side, bad1, bad2, missing, goal, scratch, lanes, null))
    return value


@compiled
def log_p_feature(
    counts: Arr, repeats: Arr, rows: int, side: int, only_raw: bool, bad1: int, bad2: int, missing: bool, goal: float,
    scratch: Arr, lanes: Arr, null: Arr,
) -> float:  # fmt: skip
    """Return the logarithm of the p-value of one feature: the largest of every rule that bad rows could have led to."""
    bad = bad1 + bad2
    above = below = n_values = alike = 0
    for h in range(counts.shape[0]):
        n, p, m = counts[h, 0] + counts[h, 1], counts[h, 2] + counts[h, 3], counts[h, 4] + counts[h, 5]
        above += p
        below += m
        n_values += n
        alike += max(0, n - p - m - 1)
    if n_values == 0:
        return 0.0
    few_below, many_below = BLOCK_SHARE * (below - bad) < rows, BLOCK_SHARE * (below + bad) >= rows
    few_above, many_above = BLOCK_SHARE * (above - bad) < rows, BLOCK_SHARE * (above + bad) >= rows
    if only_raw:
        few_below = few_above = False
        many_below = many_above = True
    value = upper = lower = -np.inf
    if many_below and many_above:
        e = repeats[0] + repeats[1] + alike
        value = log_p_rule(counts, RAW, e, rows, side, bad1, bad2, missing, goal, scratch, lanes, null)
    if few_below and value < 0.0:
        upper = log_p_rule(counts, UPPER, repeats[0], rows, side, bad1, bad2, missing, goal, scratch, lanes, null)
        if many_above:
            value = max(value, upper)
    if few_above and value < 0.0:
        if below + bad == 0:
            lower = 0.0
        else:
            lower = log_p_rule(counts, LOWER, repeats[1], rows, side, bad1, bad2, missing, goal, scratch, lanes, null)
        if many_below:
            value = max(value, lower)
    if few_below and few_above and value < 0.0:
        value = max(value, min(0.0, LOG_2 + min(upper, lower)))
    return value


@compiled
def log_p_values(
    counts: Arr, repeats: Arr, rows: int, side: int, only_raw: bool, bad: Arr, missing: bool, goal: float, out: Arr
) -> None:
    """Write the logarithm of the p-value of every feature: ``counts`` (features, strata, 10), ``repeats`` (features, 2).

    ``bad`` has the numbers of bad rows of the first and of the second group, for each feature; where what bounds all A
    that they could have left misses ``goal``, each A is looked at.
    """
    strata = counts.shape[1]
    longest = 2
    for f in range(counts.shape[0]):
        for h in range(strata):
            longest = max(longest, min(counts[f, h, 0], counts[f, h, 1]) + 2)
    longest = max(longest, 64)
    scratch, lanes = np.empty((5 * strata, longest)), np.empty((20, LANES))
    null = np.empty((5, strata), dtype=np.int64)
    for f in range(counts.shape[0]):
        out[f] = log_p_feature(
            counts[f], repeats[f], rows, side, only_raw, bad[f, 0], bad[f, 1], missing, goal, scratch, lanes, null
        )
