"""One pass in one process: over memory where it lies, or over a source piece by piece, the way it likes to be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparsemean.errors import InputError
from sparsemean.kernels import NotFiniteError, cpu
from sparsemean.kernels.threads import count_threads, each
from sparsemean.passes import Work
from sparsemean.passes.pieces import dense_parts, keep_columns, pieces_of
from sparsemean.records import Counts, FloatArray, IntArray, Partition
from sparsemean.sources.source import AT_ONCE, Array, Dense, as_dense, cut
from sparsemean.sources.table import Table

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

MEANS_AT_ONCE = 1_000_000
"""Bucket means held by a thread while features are walked: 8 MB."""
SCANNED_AT_ONCE = 4_000_000


def count(
    table: Table,
    partition: Partition,
    *,
    keep: IntArray | None = None,
    shift: FloatArray | None = None,
    missing: bool = False,
    n_jobs: int | None = None,
    progress: cpu.Progress | None = None,
) -> tuple[Counts, FloatArray | None]:
    """Read every value once; return the sign counts of all wanted sizes, and the columns ``keep`` as they came by.

    With ``missing`` NaN is left out.
    """
    source = table.source
    if isinstance(source, Dense):
        try:
            counts = cpu.count_signs(
                source.values, partition, shift=shift, missing=missing, n_jobs=n_jobs, progress=progress
            )
        except NotFiniteError:
            raise not_finite(table, source.values, missing=missing) from None
        return counts, None if keep is None else source.take(keep)
    total = cpu.no_counts(partition, source.shape[1], missing=missing)
    kept = None if keep is None else np.empty((source.shape[0], keep.size), order="F")
    for piece in pieces_of(source, partition):
        keep_columns(kept, keep, piece)
        for columns, values in _parts(piece.values, shift, missing):
            at = slice(piece.first_column + columns.start, piece.first_column + columns.stop)
            try:
                found = _counted(values, piece.partition, None if shift is None else shift[at], missing, n_jobs)
            except NotFiniteError:
                raise not_finite(table, values, piece.first_row, at.start, missing=missing) from None
            total.positive[:, at] += found.positive
            total.negative[:, at] += found.negative
            np.minimum(total.nearest[at], found.nearest, out=total.nearest[at])
            if found.present is not None and found.missing is not None:
                total.leave_out(at, np.array(found.n_buckets)[:, np.newaxis] - found.present, found.missing)
        if progress is not None:
            progress(piece.done)
    return total.settled(), kept


def _parts(block: Block, shift: FloatArray | None, missing: bool) -> Iterator[tuple[slice, Block]]:
    """Yield a block whole, or filled in a few columns at a time where zeros do not stay zeros or values are missing."""
    n, d = block.shape
    if isinstance(block, np.ndarray) or (shift is None and not (missing and np.isnan(block.data).any())):
        yield slice(0, d), block
        return
    yield from dense_parts(block, AT_ONCE // (8 * n))


def _counted(block: Block, partition: Partition, shift: FloatArray | None, missing: bool, n_jobs: int | None) -> Counts:
    if isinstance(block, np.ndarray):
        return cpu.count_signs(block, partition, shift=shift, missing=missing, n_jobs=n_jobs)
    from sparsemean.kernels import sparse

    return sparse.count_signs(block, partition, n_jobs=n_jobs)


def not_finite(
    table: Table, block: Block, first_row: int = 0, first_column: int = 0, *, missing: bool = False
) -> InputError:
    """Find the first column of a block that is to blame; with ``missing`` that is not one with NaN."""
    if isinstance(block, np.ndarray):
        values: Array = block
    else:
        from sparsemean.kernels import sparse

        suspect = sparse.first_bad(block, missing=missing)
        values, first_column = as_dense(block[:, suspect : suspect + 1]), first_column + suspect
    n, d = values.shape
    width = max(1, SCANNED_AT_ONCE // n)
    for first in range(0, d, width):
        piece = values[:, first : first + width]
        bad = np.isinf(piece) if missing else ~np.isfinite(piece)
        if bad.any():
            column = int(bad.any(axis=0).argmax())
            row = int(bad[:, column].argmax())
            kind = "NaN" if np.isnan(values[row, first + column]) else "infinity"
            where = f"{table.label(first_column + first + column)}, row {first_row + row}"
            rule = "not contain infinity" if missing else "not contain NaN or infinity"
            advice = "drop or fill such values first"
            advice += ", or count without them: missing='omit', --missing omit" if kind == "NaN" else ""
            return InputError("X", rule, f"{kind} in {where}", advice)
    return InputError("X", "have bucket sums below 1.8e308", "sums that overflow", "divide the values by a constant")


def map_means(
    table: Table,
    partition: Partition,
    columns: IntArray,
    work: Work,
    *,
    depth: int = 1,
    shift: FloatArray | None = None,
    missing: bool = False,
    n_jobs: int | None = None,
) -> FloatArray:
    """Read ``columns`` again and put side by side what ``work`` makes of their bucket means.

    ``work`` is given the (J, columns) means of each level below ``depth``, and the columns.
    """
    source = table.source
    if isinstance(source, Dense):
        return _map_means(source.values, partition, columns, columns, work, depth, shift, missing, n_jobs)
    parts = [
        _map_means(
            values, partition, np.arange(piece.size), piece, work, depth, None if shift is None else shift[piece],
            missing, n_jobs,
        )
        for piece, values in source.takes_of(columns)
    ]  # fmt: skip
    return np.concatenate(parts, axis=-1)


def _map_means(
    values: Array,
    partition: Partition,
    at: IntArray,
    columns: IntArray,
    work: Work,
    depth: int,
    shift: FloatArray | None,
    missing: bool,
    n_jobs: int | None,
) -> FloatArray:
    """Work on ``columns``, which stand at the places ``at`` of ``values``, a few on each thread."""
    n_threads = count_threads(n_jobs)
    width = max(1, min(MEANS_AT_ONCE // partition.n_buckets(0), -(-columns.size // n_threads)))

    def read_and_work(part: slice) -> FloatArray:
        levels = cpu.level_means(values, partition, at[part], depth=depth, shift=shift, missing=missing)
        return work(levels, columns[part])

    small = columns.size * partition.n_rows < cpu.SMALL
    parts = each(read_and_work, cut(columns.size, width, 1), 1 if small else n_threads)
    return np.concatenate(list(parts), axis=-1)
