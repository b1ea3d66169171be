"""Counting on this machine: a source is read in pieces of whole blocks, each counted as it comes.

Compiled kernels are loaded in the functions that use them: engines that only read by pieces need none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeVar, Unpack

import numpy as np

from sparsemean._counts.engines import How, Mask, Progress, Work, refusing
from sparsemean._data.source import AT_ONCE, Array, Dense, Source, as_dense, cut
from sparsemean._data.table import Table
from sparsemean._kernels import influence
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._stats.buckets import block_spans, stretch
from sparsemean._util.records import BLOCK, BucketSpec, CellCounts, Counts, FloatArray, IntArray, Partition

if TYPE_CHECKING:
    from sparsemean._data.source import Block

SWEPT_AT_ONCE = 8 * AT_ONCE
"""Bytes of whole columns held where a source that is read along rows is asked for columns: each piece is a read."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some rows of some columns, how those rows are partitioned, and the share of all reading done with it."""

    first_row: int
    first_column: int
    values: Block
    partition: Partition
    done: float


def pieces_of(source: Source, partition: Partition) -> Iterator[Piece]:
    """Read a source once the way it likes to be read, or by columns where buckets take rows from anywhere."""
    spans = block_spans(partition) if source.along == "rows" else None
    if spans is not None:
        yield from _row_pieces(source, partition, *spans)
        return
    n, d = source.shape
    for columns, block in ahead(lambda columns: source.block(slice(0, n), columns), column_pieces(source)):
        yield Piece(0, columns.start, block, partition, columns.stop / d)


def _row_pieces(source: Source, partition: Partition, lows: IntArray, highs: IntArray) -> Iterator[Piece]:
    """Yield whole blocks of 64 rows; those that two stripes share are put together from their ends."""
    settled, held, rest = 0, 0, None
    everything = slice(0, source.shape[1])
    for rows, block in ahead(lambda rows: source.block(rows, everything), _stripes(source, lows, highs)):
        done = rows.stop / source.shape[0]
        whole = int(np.searchsorted(highs, rows.stop, side="right"))
        if rest is not None:
            begun = int(np.searchsorted(lows, rows.start))
            rest = np.concatenate((rest, as_dense(block[: max(0, int(highs[begun - 1]) - rows.start)])))
            ended = min(begun, whole)
            if ended > settled:
                yield _piece(rest, held, partition, blocks=slice(settled, ended), done=done)
            settled = ended
            if ended < begun:
                held, rest = int(lows[settled]), rest[int(lows[settled]) - held :]
                continue
            rest = None
        if whole > settled:
            yield _piece(block, rows.start, partition, blocks=slice(settled, whole), done=done)
            settled = whole
        if settled < lows.size and lows[settled] < rows.stop:
            held, rest = int(lows[settled]), as_dense(block[int(lows[settled]) - rows.start :]).copy()


def _piece(values: Block, at: int, partition: Partition, *, blocks: slice, done: float) -> Piece:
    """Return the rows of some blocks, given ``values`` of which the first row is number ``at``."""
    order = partition.order[BLOCK * blocks.start : BLOCK * blocks.stop]
    first, last = int(order.min()), int(order.max()) + 1
    everything = (first - at, last - at) == (0, values.shape[0])
    values = values if everything else values[first - at : last - at]
    return Piece(first, 0, values, stretch(partition, blocks.start, blocks.stop), done)


def _stripes(source: Source, lows: IntArray, highs: IntArray) -> list[slice]:
    """Cut the rows into stripes: whole grains, or whole blocks where rows do not lie together."""
    rows = max(BLOCK, int(AT_ONCE / (source.shape[1] * source.bytes_a_value)))
    if source.grain > 1:
        return cut(source.shape[0], rows, source.grain)
    first = np.append(lows[:: rows // BLOCK], highs[-1])
    last = np.minimum(first[1:], np.append(highs[rows // BLOCK - 1 :: rows // BLOCK], highs[-1])[: first.size - 1])
    return [slice(int(a), int(b)) for a, b in zip(first[:-1], last, strict=True) if a < b]


def column_pieces(source: Source) -> list[slice]:
    """Cut the columns into pieces of which all rows are held at once."""
    n, d = source.shape
    along = source.along == "columns"
    width = int((AT_ONCE if along else SWEPT_AT_ONCE) / (n * source.bytes_a_value))
    return cut(d, max(1, width), source.grain if along else 1)


def column_blocks(source: Source) -> Iterator[tuple[slice, Block]]:
    """Yield pieces of whole columns."""
    n, d = source.shape
    if isinstance(source, Dense):
        yield slice(0, d), source.values
        return
    yield from ahead(lambda columns: source.block(slice(0, n), columns), column_pieces(source))


def keep_columns(kept: FloatArray | None, columns: IntArray | None, piece: Piece) -> None:
    """Copy what is wanted of a piece, if anything is."""
    if kept is None or columns is None:
        return
    n, d = piece.values.shape
    first, last = np.searchsorted(columns, [piece.first_column, piece.first_column + d])
    if last > first:
        rows = slice(piece.first_row, piece.first_row + n)
        kept[rows, first:last] = as_dense(piece.values[:, columns[first:last] - piece.first_column])


def dense_parts(block: Block, width: int) -> Iterator[tuple[slice, Array]]:
    """Yield a block with its zeros filled in, about ``width`` columns at a time."""
    for columns in cut(block.shape[1], max(1, width), 1):
        yield columns, as_dense(block[:, columns])


def ahead(read: Callable[[T], R], pieces: Sequence[T], most: int = 1) -> Iterator[tuple[T, R]]:
    """Yield every piece with what ``read`` makes of it, so many pieces ahead of whoever asks."""
    if len(pieces) == 1:
        yield pieces[0], read(pieces[0])
        return
    pool = ThreadPoolExecutor(most)
    try:
        coming = deque(pool.submit(read, piece) for piece in pieces[:most])
        for k, piece in enumerate(pieces):
            made = coming.popleft().result()
            coming.extend(pool.submit(read, after) for after in pieces[k + most : k + most + 1])
            yield piece, made
    finally:
        pool.shutdown(cancel_futures=True)


# One pass in one process: over memory where it lies, or over a source piece by piece, the way it likes to be read.

MEANS_AT_ONCE = 1_000_000
"""Bucket means held by a thread while features are walked: 8 MB."""


def count(
    table: Table, spec: BucketSpec, *, keep: IntArray | None = None, **how: Unpack[How]
) -> tuple[Counts, FloatArray | None]:
    """Count memory where it lies, or a source piece by piece."""
    source, skip_missing = table.source, spec.skip_missing
    n_jobs, progress = how.get("n_jobs"), how.get("progress")
    precision = spec.precision or source.precision
    if isinstance(source, Dense):
        with refusing(table, skip_missing=skip_missing):
            counts = _count_block(source.values, spec, precision, n_jobs, progress)
        return counts, None if keep is None else source.take(keep)
    total = Counts.blank(spec.partition, source.shape[1], missing=skip_missing)
    kept = None if keep is None else np.empty((source.shape[0], keep.size), order="F")
    for piece in pieces_of(source, spec.partition):
        keep_columns(kept, keep, piece)
        for columns, values in _parts(piece.values, spec):
            at = slice(piece.first_column + columns.start, piece.first_column + columns.stop)
            with refusing(table, values, (piece.first_row, at.start), skip_missing=skip_missing):
                counts = _count_block(values, spec.part(at, piece.partition), precision, n_jobs)
            total.add_columns(at, counts)
        if progress is not None:
            progress(piece.done)
    return total.settled(), kept


def _parts(block: Block, spec: BucketSpec) -> Iterator[tuple[slice, Block]]:
    """Yield a block whole, or filled in a few columns at a time where zeros do not stay zeros or values are missing."""
    n, d = block.shape
    zeros_stay = spec.null is None and not (spec.skip_missing and np.isnan(block.data).any())
    if isinstance(block, np.ndarray) or zeros_stay:
        yield slice(0, d), block
        return
    yield from dense_parts(block, AT_ONCE // (8 * n))


def _count_block(
    block: Block, spec: BucketSpec, precision: float, n_jobs: int | None, progress: Progress | None = None
) -> Counts:
    if isinstance(block, np.ndarray):
        from sparsemean._kernels import cpu

        return cpu.count_signs(
            block, spec.partition, null=spec.null, precision=precision, missing=spec.skip_missing, n_jobs=n_jobs,
            progress=progress,
        )  # fmt: skip
    from sparsemean._kernels import sparse

    return sparse.count_signs(block, spec.partition, n_jobs=n_jobs)


def map_means(
    source: Source, spec: BucketSpec, columns: IntArray, *, work: Work, depth: int = 1, **how: Unpack[How]
) -> FloatArray:
    """Work on memory where it lies, or on a good many columns of a source at a time; on a few on each thread."""
    from sparsemean._kernels.columns import level_means
    from sparsemean._kernels.cpu import SMALL

    n_threads, partition = count_threads(how.get("n_jobs")), spec.partition
    precision = spec.precision or source.precision

    def mapped(values: Array, at: IntArray, piece: IntArray, spec: BucketSpec) -> Iterator[FloatArray]:
        """Work on columns of the source that stand at some places of ``values``."""

        def read_and_work(part: slice) -> FloatArray:
            levels = level_means(
                values, partition, at[part], depth=depth, null=spec.null, precision=precision,
                missing=spec.skip_missing,
            )  # fmt: skip
            return work(levels, piece[part])

        width = max(1, min(MEANS_AT_ONCE // partition.n_buckets(0), -(-piece.size // n_threads)))
        small = piece.size * partition.n_rows < SMALL
        yield from each(read_and_work, cut(piece.size, width, 1), 1 if small else n_threads)

    if isinstance(source, Dense):
        return np.concatenate(list(mapped(source.values, columns, columns, spec)), axis=-1)
    taken = source.takes_of(columns)
    parts = (mapped(values, np.arange(piece.size), piece, spec.part(piece)) for piece, values in taken)
    return np.concatenate(list(chain.from_iterable(parts)), axis=-1)


# Groups of rows: whole columns, some after the other.


def rank_counts(table: Table, cells: IntArray, strata: IntArray, against: IntArray, **how: Unpack[How]) -> CellCounts:
    """Compare cells of rows column by column; zeros that are left out are not touched."""
    from sparsemean._kernels import groups

    d, skip_missing, progress = table.shape[1], how.get("skip_missing", False), how.get("progress")
    comparisons = groups.Comparisons.of(cells, strata, against)
    counts = comparisons.blank(d)
    for columns, block in column_blocks(table.source):
        out = counts.of(columns)
        with refusing(table, block, (0, columns.start), skip_missing=skip_missing):
            for done in groups.count_pairs(
                block, comparisons, out, grid=table.source.grid, skip_missing=skip_missing, n_jobs=how.get("n_jobs")
            ):
                if progress is not None:
                    progress((columns.start + done) / d)
    return counts


# Sums of bounded influences: any rows of any columns, in any order.


def influence_sums(
    table: Table, centres: FloatArray, unit: FloatArray, kappa: float, *, rows: Mask | None = None, **how: Unpack[How]
) -> influence.InfluenceSums:
    """Add up memory where it lies, or a source piece by piece; zeros that are left out are counted only."""
    total = influence.InfluenceSums.blank(*centres.shape)
    skip_missing, n_jobs, progress = how.get("skip_missing", False), how.get("n_jobs"), how.get("progress")
    for across, columns, block in any_pieces(table.source):
        chosen = None if rows is None else np.flatnonzero(rows[across])
        asked = (centres[:, columns], unit[columns], kappa)
        with refusing(table, block, (across.start, columns.start), skip_missing=skip_missing):
            if isinstance(block, np.ndarray):
                told = progress if isinstance(table.source, Dense) else None
                found = influence.dense_sums(
                    block, *asked, rows=chosen, missing=skip_missing, n_jobs=n_jobs, progress=told
                )
            else:
                found = influence.sparse_sums(block, *asked, rows=chosen, missing=skip_missing, n_jobs=n_jobs)
        total.add(columns, found)
        if progress is not None:  # pieces are whole rows or whole columns
            progress(across.stop * columns.stop / (table.shape[0] * table.shape[1]))
    return total


def any_pieces(source: Source) -> Iterator[tuple[slice, slice, Block]]:
    """Yield rows and columns of a source with what stands there, the way it likes to be read."""
    n, d = source.shape
    if isinstance(source, Dense):
        yield slice(0, n), slice(0, d), source.values
    elif source.along == "rows":
        everything = slice(0, d)
        for rows, block in ahead(lambda rows: source.block(rows, everything), source.stripes()):
            yield rows, everything, block
    else:
        for columns, block in column_blocks(source):
            yield slice(0, n), columns, block
