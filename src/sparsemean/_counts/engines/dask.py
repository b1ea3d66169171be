"""Chunks are counted where they lie: what each tells adds up in a tree, and only that and chosen columns travel.

Whole blocks of 64 rows are counted in the chunk they lie in, those that two chunks share where the chunks meet. Where
buckets take rows from anywhere (the paper's dealing, and subjects) whole columns are put together on the workers first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from sparsemean._counts import merging
from sparsemean._counts.engines import How, Mask, engine_of
from sparsemean._counts.engines.host import map_means
from sparsemean._counts.sketch import Sketch, sketch_rows
from sparsemean._data import as_table
from sparsemean._data.dask import Dask, check_held, ends
from sparsemean._data.source import Array, NonFiniteValue, as_dense
from sparsemean._data.table import Table
from sparsemean._kernels.influence import InfluenceSums
from sparsemean._stats.buckets import assign_places, block_spans
from sparsemean._util.cluster import run
from sparsemean._util.records import BLOCK, BucketSpec, CellCounts, Counts, FloatArray, IntArray, Partition
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed

    from sparsemean._data.source import Block

__all__ = ["count", "influence_sums", "map_means", "rank_counts"]
MOST_BETWEEN = 0.1
"""Share of the rows in blocks that lie in no chunk, at most: they are put together for each chunk of columns."""
FAN_IN = 8
"""Sketches that are added up in one task."""
T = TypeVar("T")
Bad = NonFiniteValue | InputError
"""What is wrong with a chunk: returned, as it is bad input, and no reason to try again."""


@dataclass(frozen=True, slots=True, eq=False)
class BlocksOfChunks:
    """Rows in the order of their buckets: those of blocks that lie in one chunk, and those of blocks between chunks."""

    inside: npt.NDArray[np.int32]
    """From the first row of their chunk."""
    offsets: IntArray
    """Where those of each chunk begin."""
    between: IntArray

    def partition(self, i: int, sizes: tuple[int, ...]) -> Partition | None:
        """Return how the rows of a chunk are partitioned; None where no block lies in it."""
        return _partition_of(self.inside[self.offsets[i] : self.offsets[i + 1]].astype(np.intp), sizes)

    def partition_between(self, sizes: tuple[int, ...]) -> Partition | None:
        """Return how the rows of blocks between chunks are partitioned, numbered among themselves."""
        return _partition_of(np.searchsorted(np.sort(self.between), self.between), sizes)

    def rows_between(self, first: int, last: int) -> IntArray:
        """Return those of a chunk, from its first row."""
        return np.sort(self.between[(self.between >= first) & (self.between < last)]) - first


def _partition_of(rows: IntArray, sizes: tuple[int, ...]) -> Partition | None:
    return assign_places(np.arange(rows.size), sizes).of_rows(rows) if rows.size else None


def blocks_of_chunks(partition: Partition, rows: list[int]) -> BlocksOfChunks | None:
    """Return how the blocks of a partition lie in chunks; None where many lie in none, or there are no blocks."""
    spans = block_spans(partition)
    if spans is None:
        return None
    lows, highs = spans
    first, last = np.searchsorted(lows, rows[:-1]), np.searchsorted(highs, rows[1:], side="right")
    inside, between, offsets = [], [], [0]
    behind = 0
    for chunk, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        a = max(a, behind)
        b = max(a, b)
        between.append(partition.order[BLOCK * behind : BLOCK * a])
        inside.append((partition.order[BLOCK * a : BLOCK * b] - rows[chunk]).astype(np.int32))
        offsets.append(offsets[-1] + inside[-1].size)
        behind = b
    between.append(partition.order[BLOCK * behind :])
    across = np.concatenate(between)
    if across.size > MOST_BETWEEN * partition.n_rows:
        return None
    return BlocksOfChunks(np.concatenate(inside), np.array(offsets), across)


# One pass over chunks: each is computed once, where it lies, and what is made of it goes to whoever asked.


class ChunkGrid(NamedTuple):
    """Where chunks begin and the last one ends, by rows and by columns."""

    rows: list[int]
    columns: list[int]

    def at(self, i: int, j: int) -> tuple[slice, slice]:
        """Return the rows and the columns of a chunk."""
        return slice(*self.rows[i : i + 2]), slice(*self.columns[j : j + 2])


Work = Callable[[Table, slice, slice], T]
"""Makes something of a chunk and the rows and columns that it has among all."""


def _grid_of(array: DaskArray) -> ChunkGrid:
    return ChunkGrid(ends(array.chunks[0]), ends(array.chunks[1]))


def _source(table: Table) -> Dask:
    assert isinstance(table.source, Dask)
    return table.source


def _per_chunk(array: DaskArray, work: Work[T], *, skip_missing: bool) -> list[list[Delayed]]:
    """Return what is made of every chunk, a delayed value each; how is sent to workers once."""
    import dask

    job = dask.delayed((work, _grid_of(array), skip_missing), traverse=False, pure=False)
    ones = tuple((1,) * number for number in array.numblocks)
    made = array.map_blocks(_worked, job=job, dtype=object, meta=np.empty((0, 0), dtype=object), chunks=ones)
    return made.to_delayed().tolist()  # type: ignore[no-any-return]


def _worked(block: Block | InputError, job: tuple[Work[T], ChunkGrid, bool], block_id: tuple[int, int]) -> T | Bad:
    """Make something of one chunk, or return what is wrong with it."""
    work, grid, skip_missing = job
    if isinstance(block, InputError):
        return block
    rows, columns = grid.at(*block_id)
    promised = rows.stop - rows.start, columns.stop - columns.start
    if block.shape != promised:
        received = f"{block.shape} in place of {promised} in the chunk at row {rows.start}, column {columns.start}"
        return InputError("X", "have chunks of the size they say", received)
    try:
        return work(as_table(block), rows, columns)
    except InputError as error:
        return _place(block, error, at=(rows.start, columns.start), skip_missing=skip_missing)


def _place(block: Block, error: InputError, *, at: tuple[int, int], skip_missing: bool) -> Bad:
    """Return the value of a chunk that is not finite by its place among all, or what else is wrong with the chunk."""
    try:
        return as_table(block).source.find_non_finite(at=at, skip_missing=skip_missing) or error
    except InputError:
        return error


def _good(table: Table, found: T | Bad, *, skip_missing: bool) -> T:
    """Refuse what is bad in the words of every other pass."""
    if isinstance(found, InputError):
        raise found
    if isinstance(found, NonFiniteValue):
        raise table.non_finite_error(found, skip_missing=skip_missing)
    return found


def _listening(
    table: Table, number: int, take: Callable[[int, T], None], **how: Unpack[How]
) -> Callable[[int, T | Bad], None]:
    """Return what is told of each of a number of chunks: it refuses what is bad, and says how much is done."""
    done, progress = 0, how.get("progress")

    def on_result(chunk: int, found: T | Bad) -> None:
        nonlocal done
        take(chunk, _good(table, found, skip_missing=how.get("skip_missing", False)))
        done += 1
        if progress is not None:
            progress(done / number)

    return on_result


# Counts of signs, which add up in a tree.


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """How the rows of chunks are partitioned, and which columns are kept.

    The first ``n`` rows are partitioned by ``seed`` and their number; by ``partition`` where there is one.
    """

    keep: IntArray
    null: FloatArray | None
    skip_missing: bool
    sizes: tuple[int, ...]
    seed: int
    n: int
    partition: Partition | None
    blocks: BlocksOfChunks | None
    """How blocks of rows that were partitioned anew lie in chunks."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkResult:
    """What was counted in a chunk, or several: a sketch or counts; and kept columns."""

    counted: Sketch | Counts | None
    kept: FloatArray | None = None
    between: Array | None = None
    """Rows of blocks that do not lie in one chunk."""


def count(
    table: Table, spec: BucketSpec, *, keep: IntArray | None = None, **how: Unpack[How]
) -> tuple[Counts, FloatArray | None]:
    """Compute every chunk once, where it lies.

    ``n_jobs`` has no meaning here: each chunk is counted by one thread of whoever computes it.
    """
    import dask

    source, partition = _source(table), spec.partition
    if keep is not None:
        check_held(source.shape[0], keep.size)
    array = source.pieces()
    blocks = None if partition.seed is not None else blocks_of_chunks(partition, ends(array.chunks[0]))
    if partition.seed is None and blocks is None:
        array = source.whole_columns()
    job, grid = _job(spec, keep, blocks), _grid_of(array)
    sent_once = dask.delayed((job, grid), traverse=False, pure=False)
    chunks = _per_chunk(array, partial(_count, job=job, grid=grid), skip_missing=spec.skip_missing)
    kept = None if keep is None else np.empty((source.shape[0], keep.size), order="F")

    def take(chunk: int, values: FloatArray | None) -> None:
        if kept is not None and values is not None:
            rows, columns = grid.at(*divmod(chunk, len(chunks[0])))
            low, high = np.searchsorted(job.keep, (columns.start, columns.stop))
            kept[rows, low:high] = values

    watched = [dask.delayed(_kept_columns, pure=False)(chunk) for row in chunks for chunk in row]
    heard = _listening(table, len(watched), take, skip_missing=spec.skip_missing, progress=how.get("progress"))
    totals = run(watched, [_tree(column, sent_once, j) for j, column in enumerate(zip(*chunks, strict=True))], heard)
    total = Counts.blank(partition, table.shape[1], missing=spec.skip_missing)
    for j, counts in enumerate(totals):
        total.add_columns(grid.at(0, j)[1], _good(table, counts, skip_missing=spec.skip_missing))
    return total.settled(), kept


def _job(spec: BucketSpec, keep: IntArray | None, blocks: BlocksOfChunks | None) -> Job:
    partition, nothing = spec.partition, np.empty(0, dtype=np.intp)
    return Job(
        keep=nothing if keep is None else keep,
        null=spec.null,
        skip_missing=spec.skip_missing,
        sizes=tuple(partition.sizes[level] for level in partition.wanted),
        seed=partition.seed or 0,
        n=partition.n_rows,
        partition=None if partition.seed is not None or blocks else replace(partition, bucket_of_row=nothing),
        blocks=blocks,
    )


def _count(table: Table, rows: slice, columns: slice, *, job: Job, grid: ChunkGrid) -> ChunkResult:
    """Count one chunk."""
    low, high = np.searchsorted(job.keep, (columns.start, columns.stop))
    kept = table.source.take(job.keep[low:high] - columns.start) if high > low else None
    null = None if job.null is None else job.null[columns]
    if job.blocks is not None:
        i = int(np.searchsorted(grid.rows, rows.start, side="right")) - 1
        partition, between = job.blocks.partition(i, job.sizes), job.blocks.rows_between(rows.start, rows.stop)
        counts = None if partition is None else _counts(table, partition, null, job)
        return ChunkResult(counts, kept, as_dense(_everything(table)[between]))
    if job.partition is not None:
        return ChunkResult(_counts(table, job.partition, null, job), kept)
    return ChunkResult(_sketch(table, rows.start, null=null, job=job), kept)


def _counts(table: Table, partition: Partition, null: FloatArray | None, job: Job) -> Counts:
    counts, _ = engine_of(table.source).count(table, BucketSpec(partition, null, job.skip_missing), n_jobs=1)
    return counts


def _everything(table: Table) -> Block:
    return table.source.block(slice(0, table.shape[0]), slice(0, table.shape[1]))


def _sketch(table: Table, first_row: int, *, null: FloatArray | None, job: Job) -> Sketch | None:
    """Sketch the rows of a chunk that are partitioned; None where none is."""
    if first_row >= job.n:
        return None
    if first_row + table.shape[0] > job.n:
        table = as_table(_everything(table)[: job.n - first_row])
    return sketch_rows(
        table, first_row, seed=job.seed, bucket_sizes=job.sizes, null=0.0 if null is None else null,
        missing="omit" if job.skip_missing else "raise", n_jobs=1,
    )  # fmt: skip


def _kept_columns(chunk: ChunkResult | Bad) -> FloatArray | Bad | None:
    """Return what goes from every chunk straight to whoever asked."""
    return chunk.kept if isinstance(chunk, ChunkResult) else chunk


def _tree(chunks: Sequence[Delayed], job: Delayed, j: int) -> Delayed:
    """Add up chunks that stand above each other, a few neighbours at a time."""
    import dask

    level = list(chunks)
    while len(level) > FAN_IN:
        level = [dask.delayed(_merged, pure=False)(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    return dask.delayed(_ended, pure=False)(level, job, j)


def _merged(parts: list[ChunkResult | Bad]) -> ChunkResult | Bad:
    """Return the counts of several chunks, or what is wrong with one."""
    good = [part for part in parts if isinstance(part, ChunkResult)]
    if len(good) < len(parts):
        return next(part for part in parts if not isinstance(part, ChunkResult))
    blocks = [part.between for part in good if part.between is not None]
    if blocks:
        counted = [part.counted for part in good if isinstance(part.counted, Counts)]
        return ChunkResult(reduce(Counts.plus, counted) if counted else None, between=np.concatenate(blocks))
    sketches = [part.counted for part in good if isinstance(part.counted, Sketch)]
    return ChunkResult(merging.add_sketches(sketches) if sketches else None)


def _ended(parts: list[ChunkResult | Bad], told: tuple[Job, ChunkGrid], j: int) -> Counts | Bad:
    """Return the counts of some columns: nothing more comes."""
    job, grid = told
    total = parts[0] if job.partition is not None else _merged(parts)
    if not isinstance(total, ChunkResult):
        return total
    if job.blocks is not None:
        return _with_between(total, job, job.blocks, grid.at(0, j)[1])
    if isinstance(total.counted, Sketch):
        return merging.close_blocks(total.counted).counts
    assert total.counted is not None
    return total.counted


def _with_between(total: ChunkResult, job: Job, blocks: BlocksOfChunks, columns: slice) -> Counts | Bad:
    """Return the counts of some columns with those of the blocks that lie in no chunk."""
    assert not isinstance(total.counted, Sketch)
    partition = blocks.partition_between(job.sizes)
    if partition is None:
        assert total.counted is not None
        return total.counted
    try:
        null = None if job.null is None else job.null[columns]
        counts = _counts(as_table(total.between), partition, null, job)
    except InputError as error:
        return error
    return counts if total.counted is None else total.counted.plus(counts)


# Groups, on whole columns put together by whoever computes them; and sums of bounded influences.


def rank_counts(table: Table, cells: IntArray, strata: IntArray, against: IntArray, **how: Unpack[How]) -> CellCounts:
    """Compare cells of rows on whole columns."""
    array, d, skip_missing = _source(table).whole_columns(), table.shape[1], how.get("skip_missing", False)

    def work(part: Table, _rows: slice, _columns: slice) -> CellCounts:
        return engine_of(part.source).rank_counts(part, cells, strata, against, skip_missing=skip_missing, n_jobs=1)

    chunks, grid = _per_chunk(array, work, skip_missing=skip_missing)[0], _grid_of(array)
    total = CellCounts(
        np.empty((3, strata.size, d), dtype=np.int64), np.empty((against.shape[0], 6, strata.size, d), dtype=np.int64)
    )

    def take(chunk: int, counts: CellCounts) -> None:
        part = total.of(grid.at(0, chunk)[1])
        part.own[:], part.pairs[:] = counts

    run(chunks, [], _listening(table, len(chunks), take, **how))
    return total


def influence_sums(
    table: Table, centres: FloatArray, unit: FloatArray, kappa: float, *, rows: Mask | None = None, **how: Unpack[How]
) -> InfluenceSums:
    """Add up every chunk where it lies; sums of chunks add up."""
    array, skip_missing = _source(table).pieces(), how.get("skip_missing", False)

    def work(part: Table, across: slice, columns: slice) -> InfluenceSums:
        used = None if rows is None else rows[across]
        return engine_of(part.source).influence_sums(
            part, centres[:, columns], unit[columns], kappa, rows=used, skip_missing=skip_missing, n_jobs=1
        )

    chunks, grid = _per_chunk(array, work, skip_missing=skip_missing), _grid_of(array)
    total, across = InfluenceSums.blank(*centres.shape), len(chunks[0])

    def take(chunk: int, found: InfluenceSums) -> None:
        total.add(grid.at(0, chunk % across)[1], found)

    every = [chunk for row in chunks for chunk in row]
    run(every, [], _listening(table, len(every), take, **how))
    return total
