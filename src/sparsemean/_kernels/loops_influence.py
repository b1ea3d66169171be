"""The compiled loops behind ``influence``: the operations of `influence.steps` in the same order, so the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.influence import GRID, SERIES

Arr = Any
S0, S1, S2, S3, S4, S5, S6, S7, S8, S9 = SERIES
ROUNDER = 1.5 * 2.0**52
"""Added and taken off it rounds to whole numbers, as ``rint`` does, in vector instructions."""
ABREAST = 64
"""Rows of a column that are added up beside each other, for vector instructions."""


@compiled
def step(u: float, kappa: float, most: float) -> float:
    """Return ψ(u) in whole steps of 2⁻³², 0 for NaN; ``most`` is 1/(2κ). Without branches it is vectorised."""
    size = abs(u)
    t = size if size < most else most
    y = t * (1.0 - kappa * t)
    s = y / (2.0 - y)
    z = s * s
    series = ((((((((S9 * z + S8) * z + S7) * z + S6) * z + S5) * z + S4) * z + S3) * z + S2) * z + S1) * z + S0
    whole = (s * series * GRID + ROUNDER) - ROUNDER
    return whole * (np.float64(u > 0.0) - np.float64(u < 0.0))


@compiled
def is_refused(x: float, missing: bool) -> bool:
    """Whether a value is infinite, or NaN where that is not a missing value."""
    return ((x - x) != 0.0) & ((x == x) | (not missing))


@compiled
def count_gaps(memory: Arr, start: int, row_step: int, rows: Arr, missing: bool) -> Any:
    """Return how many values of one column are missing, −1 if one is refused: for columns that have such values."""
    gaps = 0
    for r in range(rows.size):
        x = np.float64(memory[start + rows[r] * row_step])
        if is_refused(x, missing):
            return -1
        gaps += x != x
    return gaps


@compiled
def note_gaps(
    memory: Arr, start: int, row_step: int, column_step: int, rows: Arr, finite: Arr, missing: bool, gaps: Arr
) -> bool:
    """Count the gaps of columns in which ``finite``, a sum of x − x, is not zero; True if a value is refused."""
    for c in range(finite.size):
        if finite[c] != 0.0:
            gaps[c] = count_gaps(memory, start + c * column_step, row_step, rows, missing)
            if gaps[c] < 0:
                return True
    return False


@compiled
def add_rows(
    memory: Arr, start: int, row_step: int, column_step: int, rows: Arr, centres: Arr, unit: Arr, kappa: float,
    missing: bool, sums: Arr, gaps: Arr,
) -> Any:  # fmt: skip
    """Add the steps of ``rows`` that lie along memory to ``sums``; True if a value is refused."""
    width, most = unit.size, 0.5 / kappa
    finite = np.zeros(width)
    for r in range(rows.size):
        at = start + rows[r] * row_step
        row = memory[at : at + width]
        for c in range(width):
            x = np.float64(row[c])
            finite[c] += x - x
        for k in range(centres.shape[0]):
            centre, out = centres[k], sums[k]
            for c in range(width):
                out[c] += step((np.float64(row[c]) - centre[c]) / unit[c], kappa, most)
    return note_gaps(memory, start, row_step, column_step, rows, finite, missing, gaps)


@compiled
def add_columns(
    memory: Arr, start: int, row_step: int, column_step: int, rows: Arr, centres: Arr, unit: Arr, kappa: float,
    missing: bool, sums: Arr, gaps: Arr,
) -> Any:  # fmt: skip
    """Do the same column by column, whatever way they lie."""
    most, finite = 0.5 / kappa, np.zeros(unit.size)
    values, beside, strange = np.empty(ABREAST), np.empty((centres.shape[0], ABREAST)), np.empty(ABREAST)
    for c in range(unit.size):
        beside[:], strange[:] = 0.0, 0.0
        for first in range(0, rows.size, ABREAST):
            width = min(ABREAST, rows.size - first)
            for i in range(width):
                values[i] = np.float64(memory[start + c * column_step + rows[first + i] * row_step])
            for i in range(width):
                strange[i] += values[i] - values[i]
            for k in range(centres.shape[0]):
                centre, out = centres[k, c], beside[k]
                for i in range(width):
                    out[i] += step((values[i] - centre) / unit[c], kappa, most)
        finite[c] = strange.sum()
        for k in range(centres.shape[0]):
            sums[k, c] = beside[k].sum()
    return note_gaps(memory, start, row_step, column_step, rows, finite, missing, gaps)


@compiled
def add_entries(
    data: Arr, indices: Arr, indptr: Arr, used: Arr, n_used: int, centres: Arr, unit: Arr, kappa: float, missing: bool,
    sums: Arr, gaps: Arr,
) -> bool:  # fmt: skip
    """Add the steps of stored entries in ``used`` rows, and those of the zeros that are not stored, to ``sums``."""
    most, bad = 0.5 / kappa, False
    for c in range(unit.size):
        zeros = n_used
        for k in range(centres.shape[0]):
            centre, total, zeros = centres[k, c], np.int64(0), n_used
            for at in range(indptr[c], indptr[c + 1]):
                x = np.float64(data[at])
                if used[indices[at]]:
                    zeros -= 1
                    bad |= is_refused(x, missing)
                    if x == x:
                        total += np.int64(step((x - centre) / unit[c], kappa, most))
                    elif k == 0:
                        gaps[c] += 1
            sums[k, c] = total + zeros * np.int64(step((0.0 - centre) / unit[c], kappa, most))
    return bad
