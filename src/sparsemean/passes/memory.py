"""One pass over rows that can be addressed in memory, a memory map included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsemean.errors import InputError
from sparsemean.kernels import cpu
from sparsemean.kernels.threads import count_threads, each
from sparsemean.records import Counts, FloatArray, IntArray, Partition
from sparsemean.sources.table import Table

MEANS_AT_ONCE = 1_000_000
"""Bucket means held by a thread while features are walked: 8 MB."""
SCANNED_AT_ONCE = 4_000_000


def count(
    table: Table,
    partition: Partition,
    *,
    shift: FloatArray | None = None,
    n_jobs: int | None = None,
    progress: cpu.Progress | None = None,
) -> Counts:
    """Read every value once and return the sign counts of all wanted sizes."""
    try:
        return cpu.count_signs(table.values, partition, shift=shift, n_jobs=n_jobs, progress=progress)
    except cpu.NotFiniteError:
        raise not_finite(table) from None


def not_finite(table: Table) -> InputError:
    """Find the first column that is to blame."""
    n, d = table.values.shape
    width = max(1, SCANNED_AT_ONCE // n)
    for first in range(0, d, width):
        bad = ~np.isfinite(table.values[:, first : first + width])
        if bad.any():
            column = int(bad.any(axis=0).argmax())
            row = int(bad[:, column].argmax())
            value = table.values[row, first + column]
            kind = "NaN" if np.isnan(value) else "infinity"
            return InputError(
                "X",
                "not contain NaN or infinity",
                f"{kind} in {table.label(first + column)}, row {row}",
                "drop or fill such values first",
            )
    return InputError("X", "have bucket sums below 1.8e308", "sums that overflow", "divide the values by a constant")


def map_means(
    table: Table,
    partition: Partition,
    columns: IntArray,
    work: Callable[[list[FloatArray], IntArray], FloatArray],
    *,
    depth: int = 1,
    shift: FloatArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Read ``columns`` again and put side by side what ``work`` makes of their bucket means.

    ``work`` is given the (J, columns) means of each level below ``depth``, and the columns.
    """
    n_threads = count_threads(n_jobs)
    at_once = max(1, min(MEANS_AT_ONCE // partition.n_buckets(0), -(-columns.size // n_threads)))
    pieces = [columns[k : k + at_once] for k in range(0, columns.size, at_once)]

    def read_and_work(piece: IntArray) -> FloatArray:
        return work(cpu.level_means(table.values, partition, piece, depth=depth, shift=shift), piece)

    small = columns.size * partition.n_rows < cpu.SMALL
    return np.concatenate(list(each(read_and_work, pieces, 1 if small else n_threads)), axis=-1)
