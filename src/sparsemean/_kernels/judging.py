"""What judging rows asks of a table: sizes by columns, medians of rows, and where far values meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

TILE = 16
"""Rows and columns that are turned at a time: two cache lines of doubles each way."""


@compiled
def turned_sizes(X: Any, out: Any) -> None:
    """Write the absolute value of X[i, c] to out[c, i]."""
    n, p = X.shape
    for first_row in range(0, n, TILE):
        last_row = min(first_row + TILE, n)
        for first in range(0, p, TILE):
            for c in range(first, min(first + TILE, p)):
                for i in range(first_row, last_row):
                    out[c, i] = abs(X[i, c])


@compiled
def row_medians(X: Any, columns: Any, out: Any) -> None:
    """Write the median absolute value of some columns of every row, the upper of two, or 1 where it is less."""
    k = columns.size
    half = k // 2
    sizes = np.empty(k, np.float32)
    for i in range(X.shape[0]):
        small = 0
        for c in range(k):
            size = abs(X[i, columns[c]])
            sizes[c] = size
            small += size <= np.float32(1)
        if small > half:
            out[i] = np.float32(1)
            continue
        low, high = 0, k - 1
        while low < high:
            pivot = sizes[(low + high) >> 1]
            a, b = low, high
            while a <= b:
                while sizes[a] < pivot:
                    a += 1
                while sizes[b] > pivot:
                    b -= 1
                if a <= b:
                    sizes[a], sizes[b] = sizes[b], sizes[a]
                    a += 1
                    b -= 1
            if half <= b:
                high = b
            elif half >= a:
                low = a
            else:
                break
        out[i] = sizes[half]


@compiled(plain="reference")
def meet(value: Any, column: Any, first: Any, kept: Any, met: Any) -> None:
    """Add to ``met`` the products of every two columns over the entries first[i] … first[i + 1] of each row kept.

    Columns rise within a row, so that all sums are above the diagonal, and are copied below it.
    """
    for i in range(kept.size):
        if not kept[i]:
            continue
        for a in range(first[i], first[i + 1]):
            x, row = value[a], met[column[a]]
            for b in range(a + 1, first[i + 1]):
                row[column[b]] += x * value[b]
    p = met.shape[0]
    for top in range(0, p, TILE):
        for side in range(top, p, TILE):
            for i in range(top, min(top + TILE, p)):
                for j in range(max(side, i + 1), min(side + TILE, p)):
                    met[j, i] = met[i, j]
