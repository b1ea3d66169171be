"""What judging rows asks of a table: sizes by columns, medians of rows, where far values meet; and weights of rows."""

from __future__ import annotations

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array

TILE = 16
"""Rows and columns that are turned at a time: two cache lines of doubles each way."""
NO_SIGN, ONE, OCTAVE = np.int32(0x7FFFFFFF), np.int32(0x3F800000), np.int32(1 << 23)
"""Bits of a single-precision number: all but its sign; those of one; what lies between a number and its double."""


@compiled()
def turned_sizes(X: Array, out: Array) -> None:
    """Write the absolute value of X[i, c] to out[c, i]."""
    n, p = X.shape
    for first_row in range(0, n, TILE):
        last_row = min(first_row + TILE, n)
        for first in range(0, p, TILE):
            for c in range(first, min(first + TILE, p)):
                for i in range(first_row, last_row):
                    out[c, i] = abs(X[i, c])


@compiled()
def row_medians(X: Array, columns: Array, out: Array) -> None:
    """Write the median absolute value of some columns of every row, the upper of two, or 1 where it is less.

    Numbers are given, and written, as the bits of single precision: without their sign these rise with the numbers, so
    that the median is found by halving. To count is one instruction for several columns, and half of the rows end at 1.
    """
    half = columns.size // 2
    sizes = np.empty(columns.size, np.int32)
    for i in range(X.shape[0]):
        row = X[i]
        for c in range(columns.size):
            sizes[c] = row[columns[c]] & NO_SIGN
        low, high = ONE, ONE
        while _not_above(sizes, high) <= half:
            low, high = high, high + OCTAVE
        while high - low > 1:
            middle = low + ((high - low) >> 1)
            if _not_above(sizes, middle) > half:
                high = middle
            else:
                low = middle
        out[i] = high


@compiled()
def _not_above(sizes: Array, limit: np.int32) -> int:
    count = 0
    for size in sizes:
        count += size <= limit
    return count


@compiled(plain="reference")
def meet(value: Array, column: Array, first: Array, kept: Array, met: Array) -> None:
    """Add to ``met`` the products of every two columns over the entries first[i] … first[i + 1] of each row kept.

    Columns rise within a row, so that all sums are above the diagonal.
    """
    for i in range(kept.size):
        if not kept[i]:
            continue
        for a in range(first[i], first[i + 1]):
            x, row = value[a], met[column[a]]
            for b in range(a + 1, first[i + 1]):
                row[column[b]] += x * value[b]


# Weights in the capped simplex: one look of the projection, and many moves of rows that follow others, in one pass.

LANES = 16
"""Entries that are added up beside each other: vector instructions, and the same order on every processor."""


@compiled(plain="reference")
def look(v: Array, theta: float, cap: float) -> tuple[float, float, float]:
    """Return the sum of all v − θ between 0 and cap, their number, and the number of those beyond."""
    total, free, capped = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    whole = v.size - v.size % LANES
    for i in range(0, whole, LANES):
        for j in range(LANES):
            x = v[i + j] - theta
            between = (x > 0.0) & (x < cap)
            total[j] += x if between else 0.0
            free[j] += 1.0 if between else 0.0
            capped[j] += 1.0 if x >= cap else 0.0
    for i in range(whole, v.size):
        x = v[i] - theta
        between = (x > 0.0) & (x < cap)
        total[i - whole] += x if between else 0.0
        free[0] += 1.0 if between else 0.0
        capped[0] += 1.0 if x >= cap else 0.0
    return total.sum(), free.sum(), capped.sum()


@compiled(plain="reference")
def follow(along: Array, centres: Array, rates: Array, shifts: Array, weights: Array) -> None:
    """Move weights by w ← clip(w − rate·a(a − 2·centre) − shift, 0, 1) for each row a of ``along``."""
    zero, one = np.float32(0.0), np.float32(1.0)
    for t in range(rates.size):
        twice, rate, shift = centres[t] + centres[t], rates[t], shifts[t]
        for i in range(weights.size):
            a = along[t, i]
            w = weights[i] - rate * (a * (a - twice)) - shift
            w = w if w > zero else zero
            weights[i] = w if w < one else one
