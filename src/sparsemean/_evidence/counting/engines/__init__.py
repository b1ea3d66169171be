"""Engines go over values where they lie: on this machine, on the workers of a cluster, on a GPU.

Here is the one of this machine: a source is read in pieces of whole blocks, each counted as it comes. The others are
in the modules beside this one, and inherit what they do alike; adding one is such a module and a case of `engine_of`.
Compiled kernels are loaded in the functions that use them: engines that only read by pieces need none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import AT_ONCE, Array, Block, Dense, Source, as_dense, find_non_finite
from sparsemean._data.table import Table
from sparsemean._kernels import NotFiniteError, cpu, influence
from sparsemean._kernels.influence import InfluenceSpec, InfluenceSums
from sparsemean._kernels.memory_layout import count_threads, cut, each
from sparsemean._stats.buckets import block_spans, stretch
from sparsemean._util.records import BLOCK, BucketSpec, CellCounts, Counts, FloatArray, IntArray, Partition

Work = Callable[[list[FloatArray], IntArray], FloatArray]
"""What is made of the (J, columns) bucket means of some levels, and of the columns they belong to."""
Mask = npt.NDArray[np.bool_]
Progress = Callable[[float], None]
"""Is told the share of all reading done."""
SWEPT_AT_ONCE = 8 * AT_ONCE
"""Bytes of whole columns held where a source that is read along rows is asked for columns: each piece is a read."""
MEANS_AT_ONCE = 1_000_000
"""Bucket means held by a thread while features are walked: 8 MB."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Engine:
    """Goes over values on this machine: over memory where it lies, or a source piece by piece.

    Attributes
    ----------
    n_jobs
        Threads, where it is this process that reads; None: every core it may use.
    progress
        Is told how much of a pass is done.
    """

    n_jobs: int | None = None
    progress: Progress | None = None

    def count(
        self, table: Table, spec: BucketSpec, *, keep: IntArray | None = None
    ) -> tuple[Counts, FloatArray | None]:
        """Read every value once; return the sign counts of all wanted sizes, and the columns ``keep`` as they came."""
        source, skip_missing = table.source, spec.skip_missing
        precision = spec.precision or source.precision
        count = partial(cpu.count_signs, precision=precision, missing=skip_missing, n_jobs=self.n_jobs)
        if isinstance(source, Dense):
            with refusing(table, skip_missing=skip_missing):
                counts = count(source.values, spec.partition, null=spec.null, progress=self.progress)
            return counts, None if keep is None else source.take(keep)
        total = Counts.blank(spec.partition, source.shape[1], missing=skip_missing)
        kept = None if keep is None else np.empty((source.shape[0], keep.size), order="F")
        for piece in pieces_of(source, spec.partition):
            keep_columns(kept, keep, piece)
            for columns, values in _parts(piece.values, spec):
                at = slice(piece.first_column + columns.start, piece.first_column + columns.stop)
                with refusing(table, values, (piece.first_row, at.start), skip_missing=skip_missing):
                    counts = count(values, piece.partition, null=None if spec.null is None else spec.null[at])
                total.add_columns(at, counts)
            self.done(piece.done)
        return total.settled(), kept

    def map_means(
        self, source: Source, spec: BucketSpec, columns: IntArray, *, work: Work, depth: int = 1
    ) -> FloatArray:
        """Read ``columns`` again and put side by side what ``work`` makes of their bucket means.

        ``work`` is given the (J, columns) means of each level below ``depth``, and the columns: some of those that lie
        in memory, or of a good many that are read at a time, a few on each thread.
        """
        from sparsemean._kernels.columns import level_means
        from sparsemean._kernels.cpu import SMALL

        n_threads, partition, found = count_threads(self.n_jobs), spec.partition, list[FloatArray]()
        precision, in_place = spec.precision or source.precision, isinstance(source, Dense)
        for piece, values in [(columns, source.values)] if isinstance(source, Dense) else source.takes_of(columns):

            def means(part: slice, values: Array = values, piece: IntArray = piece) -> FloatArray:
                few = piece[part]
                at = few if in_place else np.arange(part.start, part.stop)
                null = spec.null if in_place or spec.null is None else spec.null[piece]
                levels = level_means(
                    values, partition, at, depth=depth, null=null, precision=precision, missing=spec.skip_missing
                )
                return work(levels, few)

            threads = 1 if piece.size * partition.order.size < SMALL else n_threads
            width = max(1, min(MEANS_AT_ONCE // partition.n_buckets(0), -(-piece.size // threads)))
            found += each(means, cut(piece.size, width, 1), threads)
        return np.concatenate(found, axis=-1)

    def rank_counts(
        self, table: Table, cells: IntArray, strata: IntArray, against: IntArray, *, skip_missing: bool = False
    ) -> CellCounts:
        """Compare cells of rows in every feature, in as many ways as ``against`` has rows, from one sort.

        ``cells`` is the cell of each row (−1: none), ``strata`` the stratum of each cell and ``against[p, c]`` the
        cell that c is compared with: −1 for all others of its stratum, −2 for none, where zeros are returned. Zeros
        that a source leaves out are not touched.
        """
        from sparsemean._kernels import groups

        d, comparisons = table.shape[1], groups.Comparisons.of(cells, strata, against)
        counts = comparisons.blank(d)
        for columns, block in column_blocks(table.source):
            out = CellCounts(counts.own[..., columns], counts.pairs[..., columns])
            with refusing(table, block, (0, columns.start), skip_missing=skip_missing):
                for done in groups.count_pairs(
                    block, comparisons, out, grid=table.source.grid, skip_missing=skip_missing, n_jobs=self.n_jobs
                ):
                    self.done((columns.start + done) / d)
        return counts

    def influence_sums(self, table: Table, spec: InfluenceSpec, *, rows: Mask | None = None) -> InfluenceSums:
        """Read every value once and add up influences; zeros that a source leaves out are counted only.

        ``rows`` says which rows are added up, all by default.
        """
        total = InfluenceSums.blank(*spec.centres.shape)
        for across, columns, block in any_pieces(table.source):
            chosen, own = None if rows is None else np.flatnonzero(rows[across]), spec.of(columns)
            with refusing(table, block, (across.start, columns.start), skip_missing=spec.missing):
                if isinstance(block, np.ndarray):
                    told = self.progress if isinstance(table.source, Dense) else None
                    found = influence.dense_sums(block, own, rows=chosen, n_jobs=self.n_jobs, progress=told)
                else:
                    found = influence.sparse_sums(block, own, rows=chosen, n_jobs=self.n_jobs)
            total.add(columns, found)
            self.done(across.stop * columns.stop / (table.shape[0] * table.shape[1]))  # whole rows or whole columns
        return total

    def done(self, share: float) -> None:
        """Say how much of a pass is done."""
        if self.progress is not None:
            self.progress(share)


def engine_of(source: Source, n_jobs: int | None = None, progress: Progress | None = None) -> Engine:
    """Return the engine of a source, which is loaded now."""
    match source.engine:
        case "dask":
            from sparsemean._evidence.counting.engines.dask import DaskEngine

            return DaskEngine(n_jobs, progress)
        case "gpu":
            from sparsemean._evidence.counting.engines.gpu import GpuEngine

            return GpuEngine(n_jobs, progress)
        case _:
            return Engine(n_jobs, progress)


@contextmanager
def refusing(
    table: Table, block: Block | None = None, at: tuple[int, int] = (0, 0), *, skip_missing: bool
) -> Iterator[None]:
    """Name the value that is not finite where a kernel refuses a block of a table, or all of it."""
    try:
        yield
    except NotFiniteError:
        find = table.source.find_non_finite if block is None else partial(find_non_finite, block)
        raise table.non_finite_error(find(at=at, skip_missing=skip_missing), skip_missing=skip_missing) from None


# A source in pieces, read the way it likes to be read.


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
    for columns, block in column_blocks(source):
        yield Piece(0, columns.start, block, partition, columns.stop / source.shape[1])


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


def column_blocks(source: Source) -> Iterator[tuple[slice, Block]]:
    """Yield pieces of whole columns, each held at once; those of Dask are put together from its chunks."""
    n, d = source.shape
    if source.engine == "dask":
        for columns, values in source.takes_of(np.arange(d)):
            yield slice(int(columns[0]), int(columns[-1]) + 1), values
        return
    if isinstance(source, Dense):
        yield slice(0, d), source.values
        return
    along = source.along == "columns"
    width = int((AT_ONCE if along else SWEPT_AT_ONCE) / (n * source.bytes_a_value))
    pieces = cut(d, max(1, width), source.grain if along else 1)
    yield from ahead(lambda columns: source.block(slice(0, n), columns), pieces)


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


def any_pieces(source: Source) -> Iterator[tuple[slice, slice, Block]]:
    """Yield rows and columns of a source with what stands there, the way it likes to be read."""
    n, d = source.shape
    if source.along == "rows":
        everything = slice(0, d)
        for rows, block in ahead(lambda rows: source.block(rows, everything), source.stripes()):
            yield rows, everything, block
    else:
        for columns, block in column_blocks(source):
            yield slice(0, n), columns, block


def _parts(block: Block, spec: BucketSpec) -> Iterator[tuple[slice, Block]]:
    """Yield a block whole, or filled in a few columns at a time where zeros do not stay zeros or values are missing."""
    n, d = block.shape
    zeros_stay = spec.null is None and not (spec.skip_missing and np.isnan(block.data).any())
    if isinstance(block, np.ndarray) or zeros_stay:
        yield slice(0, d), block
        return
    yield from dense_parts(block, AT_ONCE // (8 * n))
