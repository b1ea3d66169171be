"""Bucket means of a few columns in NumPy alone: for roads that load no compiled kernels."""

from __future__ import annotations

import numpy as np

from sparsemean.records import FloatArray, Partition


def level_means(values: FloatArray, partition: Partition, *, depth: int, missing: bool = False) -> list[FloatArray]:
    """Return the (J, columns) bucket means of every level below ``depth``.

    With ``missing`` means are those of the values that are there, and NaN where there are none.
    """
    rows = values[partition.order]
    if not missing or not np.isnan(rows).any():
        ones = np.ones((partition.n_rows, 1))
        sums, counts = (_nested(part, partition, depth) for part in (rows, ones))
        return [a / b for a, b in zip(sums, counts, strict=True)]
    there = ~np.isnan(rows)
    sums = _nested(np.where(there, rows, 0.0), partition, depth)
    counts = _nested(there.astype(np.float64), partition, depth)
    with np.errstate(invalid="ignore"):
        return [a / b for a, b in zip(sums, counts, strict=True)]


def _nested(rows: FloatArray, partition: Partition, depth: int) -> list[FloatArray]:
    """Return the sums over the buckets of each level, those of a level made of those below it."""
    out = []
    for offsets in partition.levels[:depth]:
        if offsets.size - 1 < rows.shape[0]:
            with np.errstate(over="ignore"):  # of sums that nobody has counted
                rows = np.add.reduceat(rows, offsets[:-1], axis=0)
        out.append(rows)
    return out
