"""What is made of some columns of a table where it lies: copies, bucket means along memory, skewness of groups.

Element (i, c) of a table lies at ``memory[start + i * step + c * across]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

Arr = Any
TILE = 16
"""Columns that are read together: neighbours share cache lines, and each is written to a line of its own."""
DEEP, LINE = 32, 8
"""Rows that are read before they are turned, and the doubles of a cache line."""
LANES = 16
"""Groups whose skewness is computed side by side: a few vectors of doubles."""


@compiled
def gather(memory: Arr, start: int, step: int, across: int, rows: Arr, columns: Arr, out: Arr) -> None:
    """Write some rows of some columns into ``out`` (rows, columns), reading along memory."""
    if abs(across) <= abs(step):
        for i in range(rows.size):
            at = start + rows[i] * step
            row = out[i]
            for c in range(columns.size):
                row[c] = np.float64(memory[np.uintp(at + columns[c] * across)])
        return
    for first_row in range(0, rows.size, TILE):
        for c in range(columns.size):
            at = start + columns[c] * across
            for i in range(first_row, min(first_row + TILE, rows.size)):
                out[i, c] = np.float64(memory[np.uintp(at + rows[i] * step)])


@compiled(plain="reference")
def nested_means(
    memory: Arr, start: int, step: int, across: int, order: Arr, offsets: Arr, above: Arr, ends: Arr, columns: Arr,
    missing: bool, out: Arr, turned: Arr, counts: Arr,
) -> None:  # fmt: skip
    """Write the bucket means of every level of some columns into ``out`` (columns, buckets), level after level.

    ``offsets`` are those of the finest buckets in ``order``, and ``above[ends[h − 1]] …`` those of level h among the
    buckets below it, two at most each. With ``missing`` NaN is left out, and a mean of nothing NaN. ``counts`` is room
    for the values of each bucket. Where rows lie along memory some columns of all of them are ``turned`` first: buckets
    take rows from everywhere.
    """
    J, width = offsets.size - 1, turned.shape[0]
    along = abs(across) > abs(step)
    for j in range(J):
        counts[j] = offsets[j + 1] - offsets[j]
    _rise(counts, above, ends, J)
    for c in range(columns.size):
        if along:
            at = start + columns[c] * across
            _sum_column(memory, at, step, order, offsets, missing, out[c], counts)
        else:
            if c % width == 0:
                _turn(memory, start, step, across, columns[c : c + width], turned)
            _sum_column(turned[c % width], 0, 1, order, offsets, missing, out[c], counts)
        sums = out[c]
        _rise(sums, above, ends, J)
        if missing:
            _rise(counts, above, ends, J)
        for j in range(sums.size):
            sums[j] /= counts[j]


@compiled
def _sum_column(x: Arr, start: int, step: int, order: Arr, offsets: Arr, missing: bool, sums: Arr, counts: Arr) -> None:
    """Write the finest bucket sums of one column, and with ``missing`` how many values each has."""
    if not missing and offsets.size - 1 == order.size:
        for j in range(order.size):
            sums[j] = 0.0 + np.float64(x[np.uintp(start + order[j] * step)])  # never −0.0
        return
    for j in range(offsets.size - 1):
        total, number = 0.0, 0
        for k in range(offsets[j], offsets[j + 1]):
            value = np.float64(x[np.uintp(start + order[k] * step)])
            if not missing or value == value:
                total += value
                number += 1
        sums[j] = total
        if missing:
            counts[j] = number


@compiled
def _turn(memory: Arr, start: int, step: int, across: int, columns: Arr, out: Arr) -> None:
    """Write some columns of all rows into rows of ``out``: a few rows are read along memory at a time."""
    n = out.shape[1]
    some = np.empty((DEEP, columns.size + LINE))
    for top in range(0, n, DEEP):
        deep = min(DEEP, n - top)
        for i in range(deep):
            at, row = start + (top + i) * step, some[i]
            for c in range(columns.size):
                row[c] = np.float64(memory[np.uintp(at + columns[c] * across)])
        for c in range(columns.size):
            column = out[c]
            for i in range(deep):
                column[top + i] = some[i, c]


@compiled
def _rise(sums: Arr, above: Arr, ends: Arr, J: int) -> None:
    """Add up the sums of each level, which follow one another, from those of the level below it."""
    below, at = 0, J
    for h in range(ends.size - 1):
        n_buckets = ends[h + 1] - ends[h] - 1
        for j in range(n_buckets):
            a, b = above[ends[h] + j], above[ends[h] + j + 1]
            total = sums[below + a]
            if b > a + 1:
                total += sums[below + a + 1]
            sums[at + j] = total
        below, at = at, at + n_buckets


@compiled
def group_skewness(
    memory: Arr, start: int, step: int, across: int, rows: Arr, size: int, first: int, last: int, out: Arr
) -> None:
    """Write Σh, Σh² and #{h ≠ 0} into columns first … last of ``out``, h the skewness of each group of ``rows``.

    Groups are ``size`` rows that follow one another. What a column with a gap has is NaN. Terms are added in the order
    of ``symmetry``, of as many groups side by side as fill vectors.
    """
    values, moments = np.empty((size, LANES)), np.empty((5, LANES))
    places = np.empty((size, LANES), np.int64)
    n_groups = rows.size // size
    for c in range(first, last):
        out[0, c], out[1, c], out[2, c] = 0.0, 0.0, 0.0
        for i in range(n_groups * size, rows.size):  # of no group, but with a gap all are dealt otherwise
            x = np.float64(memory[np.uintp(start + rows[i] * step + c * across)])
            if x != x:
                out[0, c] = x
    for group in range(0, n_groups, LANES):
        width = min(LANES, n_groups - group)
        for lane in range(LANES):
            for i in range(size):
                places[i, lane] = start + rows[(group + min(lane, width - 1)) * size + i] * step
        for c in range(first, last):
            gap = 0.0
            for i in range(size):
                for lane in range(LANES):
                    x = np.float64(memory[np.uintp(places[i, lane] + c * across)])
                    values[i, lane] = x
                    gap += x - x
            _skewness(values, moments)
            total, squares, number = out[0, c] + gap, out[1, c], out[2, c]
            for lane in range(width):
                h = moments[0, lane]
                total += h
                squares += h * h
                number += h != 0
            out[0, c], out[1, c], out[2, c] = total, squares, number


@compiled
def _skewness(values: Arr, moments: Arr) -> None:
    """Write the skewness of each column of ``values``, which are overwritten, into the first row of ``moments``."""
    base, largest, mean, second, third = moments[4], moments[1], moments[2], moments[3], moments[0]
    for lane in range(LANES):
        base[lane] = values[0, lane]
        largest[lane], mean[lane], second[lane], third[lane] = 0.0, 0.0, 0.0, 0.0
    for i in range(values.shape[0]):
        row = values[i]
        for lane in range(LANES):
            row[lane] -= base[lane]
            largest[lane] = max(largest[lane], abs(row[lane]))
    for lane in range(LANES):
        largest[lane] = largest[lane] if largest[lane] > 0 else 1.0
    for i in range(values.shape[0]):
        row = values[i]
        for lane in range(LANES):
            row[lane] /= largest[lane]
            mean[lane] += row[lane]
    for lane in range(LANES):
        mean[lane] /= values.shape[0]
    for i in range(values.shape[0]):
        row = values[i]
        for lane in range(LANES):
            x = row[lane] - mean[lane]
            second[lane] += x * x
            third[lane] += x * x * x
    for lane in range(LANES):
        variance = second[lane] / values.shape[0]
        power = variance * np.sqrt(variance)
        h = third[lane] / values.shape[0] / (power if power > 0 else 1.0)
        third[lane] = h if h == h else 0.0  # differences that were too large
