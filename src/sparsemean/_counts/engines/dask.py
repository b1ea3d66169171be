"""Chunks are counted where they lie: what each tells adds up in a tree, and only that and chosen columns travel.

Whole blocks of 64 rows are counted in the chunk they lie in, those that two chunks share where the chunks meet. Where
buckets take rows from anywhere (the paper's dealing, and subjects) whole columns are put together on the workers first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._counts import merging
from sparsemean._counts.engines import Mask, Progress, engine_of
from sparsemean._counts.engines.host import map_means
from sparsemean._counts.sketch import Sketch, sketch_rows
from sparsemean._data import as_table
from sparsemean._data.dask import Dask, check_held, ends
from sparsemean._data.source import Array, NonFiniteValue, as_dense
from sparsemean._data.table import Table
from sparsemean._kernels import cpu
from sparsemean._kernels.influence import InfluenceSums
from sparsemean._stats.buckets import assign_places, block_spans
from sparsemean._util.cluster import run
from sparsemean._util.records import BLOCK, BucketSpec, CellCounts, Counts, FloatArray, IntArray, Partition
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean._data.source import Block

__all__ = ["count", "influence_sums", "map_means", "rank_counts"]
MOST_BETWEEN = 0.1
"""Share of the rows in blocks that lie in no chunk, at most: they are put together for each chunk of columns."""
FAN_IN = 8
"""Sketches that are added up in one task."""


@dataclass(frozen=True, slots=True, eq=False)
class BlocksOfChunks:
    """Rows in the order of their buckets: those of blocks that lie in one chunk, and those of blocks between chunks."""

    inside: npt.NDArray[np.int32]
    """From the first row of their chunk."""
    offsets: IntArray
    """Where those of each chunk begin."""
    between: IntArray

    def partition(self, i: int, sizes: tuple[int, ...]) -> Partition | None:
        """Return how the rows of a chunk are dealt; None where no block lies in it."""
        return _dealt(self.inside[self.offsets[i] : self.offsets[i + 1]].astype(np.intp), sizes)

    def partition_between(self, sizes: tuple[int, ...]) -> Partition | None:
        """Return how the rows of blocks between chunks are dealt, numbered among themselves."""
        return _dealt(np.searchsorted(np.sort(self.between), self.between), sizes)

    def rows_between(self, first: int, last: int) -> IntArray:
        """Return those of a chunk, from its first row."""
        return np.sort(self.between[(self.between >= first) & (self.between < last)]) - first


def _dealt(rows: IntArray, sizes: tuple[int, ...]) -> Partition | None:
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


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What every task is told once: where chunks begin, and how their rows are dealt.

    Rows are dealt by ``seed`` and their number among those not ``left_out``; by ``partition`` where there is one.
    """

    rows: list[int]
    columns: list[int]
    keep: IntArray
    null: FloatArray | None
    skip_missing: bool
    sizes: tuple[int, ...]
    seed: int
    left_out: IntArray
    partition: Partition | None
    blocks: BlocksOfChunks | None = None
    """How blocks of rows that were dealt anew lie in chunks."""


Bad = NonFiniteValue | InputError


@dataclass(frozen=True, slots=True, eq=False)
class ChunkResult:
    """What was counted in a chunk, or several: a sketch or counts, kept columns; or what is wrong with it."""

    counted: Sketch | Counts | None
    kept: FloatArray | None = None
    bad: Bad | None = None
    between: Array | None = None
    """Rows of blocks that do not lie in one chunk."""


def count(
    table: Table,
    spec: BucketSpec,
    *,
    keep: IntArray | None = None,
    n_jobs: int | None = None,  # noqa: ARG001
    progress: Progress | None = None,
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
    job = _job(array, spec, keep, blocks)
    sent_once = dask.delayed(job, traverse=False, pure=False)
    chunks = array.map_blocks(
        _count, job=sent_once, dtype=object, meta=np.empty((0, 0), dtype=object), chunks=_ones(array)
    ).to_delayed()
    kept = None if keep is None else np.empty((source.shape[0], keep.size), order="F")
    on_result = _on_result(table, job, kept, blocks=chunks.shape, progress=progress)
    watched = [dask.delayed(_travels, pure=False)(chunk) for chunk in chunks.ravel()]
    totals = run(watched, [_tree(column, sent_once, j) for j, column in enumerate(chunks.T)], on_result)
    return _side_by_side(table, partition, job, totals=totals), kept


def rehearse() -> None:
    """Count a few rows: what a worker then holds in memory it holds as long as it lives."""
    sketch_rows(as_table(np.ones((BLOCK, 2))), seed=0, bucket_sizes=(1, 2, 4), n_jobs=1)


def _source(table: Table) -> Dask:
    assert isinstance(table.source, Dask)
    return table.source


def _ones(array: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (1,) * array.numblocks[0], (1,) * array.numblocks[1]


def _job(array: Any, spec: BucketSpec, keep: IntArray | None, blocks: BlocksOfChunks | None) -> Job:
    n, partition = array.shape[0], spec.partition
    left_out = np.empty(0, dtype=np.intp)
    if partition.n_rows < n and blocks is None:
        left_out = np.setdiff1d(np.arange(n), partition.order)
    return Job(
        rows=ends(array.chunks[0]),
        columns=ends(array.chunks[1]),
        keep=np.empty(0, dtype=np.intp) if keep is None else keep,
        null=spec.null,
        skip_missing=spec.skip_missing,
        sizes=tuple(partition.sizes[level] for level in partition.wanted),
        seed=partition.seed or 0,
        left_out=left_out,
        partition=None if partition.seed is not None or blocks else replace(partition, bucket_of_row=left_out),
        blocks=blocks,
    )


def _count(block: Block | InputError, job: Job, block_id: tuple[int, int]) -> ChunkResult:
    """Count one chunk; what is wrong with it is returned: it is bad input, and no reason to try again."""
    if isinstance(block, InputError):
        return ChunkResult(None, bad=block)
    first_row, last_row = job.rows[block_id[0] : block_id[0] + 2]
    first_column, last_column = job.columns[block_id[1] : block_id[1] + 2]
    promised = (last_row - first_row, last_column - first_column)
    if block.shape != promised:
        received = f"{block.shape} in place of {promised} in the chunk at row {first_row}, column {first_column}"
        return ChunkResult(None, bad=InputError("X", "have chunks of the size they say", received))
    try:
        table = as_table(block)
        low, high = np.searchsorted(job.keep, (first_column, last_column))
        kept = table.source.take(job.keep[low:high] - first_column) if high > low else None
        null = None if job.null is None else job.null[first_column:last_column]
        if job.blocks is not None:
            return _count_blocks(table, job, block_id[0], null=null)
        if job.partition is not None:
            spec = BucketSpec(job.partition, null, job.skip_missing)
            counts, _ = engine_of(table.source).count(table, spec, n_jobs=1)
            return ChunkResult(counts, kept)
        return ChunkResult(_sketch(block, table, first_row, null=null, job=job), kept)
    except InputError as error:
        return ChunkResult(None, bad=_place(block, error, at=(first_row, first_column), skip_missing=job.skip_missing))


def _count_blocks(table: Table, job: Job, i: int, *, null: FloatArray | None) -> ChunkResult:
    """Count the blocks that lie in a chunk, and hand on its rows of others."""
    assert job.blocks is not None
    partition, counts = job.blocks.partition(i, job.sizes), None
    if partition is not None:
        counts, _ = engine_of(table.source).count(table, BucketSpec(partition, null, job.skip_missing), n_jobs=1)
    rows = job.blocks.rows_between(*job.rows[i : i + 2])
    block = table.source.block(slice(0, table.shape[0]), slice(0, table.shape[1]))
    return ChunkResult(counts, between=as_dense(block[rows]))


def _sketch(block: Block, table: Table, first_row: int, *, null: FloatArray | None, job: Job) -> Sketch | None:
    """Sketch the rows of a chunk that are not left out, numbered among all that are not; None where none is left."""
    before, behind = np.searchsorted(job.left_out, (first_row, first_row + table.shape[0]))
    if behind > before:
        inside = np.ones(table.shape[0], dtype=bool)
        inside[job.left_out[before:behind] - first_row] = False
        if not inside.any():
            return None
        table = as_table(block[np.flatnonzero(inside)])
    return sketch_rows(
        table, first_row - int(before), seed=job.seed, bucket_sizes=job.sizes, null=0.0 if null is None else null,
        missing="omit" if job.skip_missing else "raise", n_jobs=1,
    )  # fmt: skip


def _place(block: Block, error: InputError, *, at: tuple[int, int], skip_missing: bool) -> Bad:
    """Return the value of a chunk that is not finite by its place among all, or what else is wrong with the chunk."""
    try:
        return as_table(block).source.find_non_finite(at=at, skip_missing=skip_missing) or error
    except InputError:
        return error


def _travels(chunk: ChunkResult) -> tuple[FloatArray | None, Bad | None]:
    """Return what goes from every chunk straight to whoever asked."""
    return chunk.kept, chunk.bad


def _on_result(
    table: Table, job: Job, kept: FloatArray | None, *, blocks: tuple[int, int], progress: Progress | None
) -> Callable[[int, Any], None]:
    """Return what is told of every chunk: it refuses what is bad, keeps columns and says how much is done."""
    done = 0

    def on_result(number: int, sent: tuple[FloatArray | None, Bad | None]) -> None:
        nonlocal done
        i, j = divmod(number, blocks[1])
        values, bad = sent
        if bad is not None:
            raise _refusal(table, bad, job.skip_missing)
        if kept is not None and values is not None:
            low, high = np.searchsorted(job.keep, (job.columns[j], job.columns[j + 1]))
            kept[job.rows[i] : job.rows[i + 1], low:high] = values
        done += 1
        if progress is not None:
            progress(done / (blocks[0] * blocks[1]))

    return on_result


def _refusal(table: Table, bad: Bad, missing: bool) -> InputError:
    """Say what is bad in the words of every other pass."""
    if isinstance(bad, InputError):
        return bad
    return table.non_finite_error(bad, skip_missing=missing)


def _tree(chunks: Sequence[Any], job: Any, j: int) -> Any:
    """Add up chunks that stand above each other, a few neighbours at a time."""
    import dask

    level = list(chunks)
    while len(level) > FAN_IN:
        level = [dask.delayed(_merged, pure=False)(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    return dask.delayed(_ended, pure=False)(level, job, j)


def _merged(parts: list[ChunkResult]) -> ChunkResult:
    """Return the counts of several chunks."""
    for part in parts:
        if part.bad is not None:
            return part
    blocks = [part.between for part in parts if part.between is not None]
    if blocks:
        counted = [part.counted for part in parts if isinstance(part.counted, Counts)]
        return ChunkResult(reduce(Counts.plus, counted) if counted else None, between=np.concatenate(blocks))
    sketches = [part.counted for part in parts if isinstance(part.counted, Sketch)]
    return ChunkResult(merging.add_sketches(sketches) if sketches else None)


def _ended(parts: list[ChunkResult], job: Job, j: int) -> Counts | Bad:
    """Return the counts of some columns: nothing more comes."""
    if job.partition is not None and parts[0].bad is None:
        assert isinstance(parts[0].counted, Counts)
        return parts[0].counted
    total = _merged(parts)
    if total.bad is not None:
        return total.bad
    if job.blocks is not None:
        return _with_between(total, job, slice(job.columns[j], job.columns[j + 1]))
    assert isinstance(total.counted, Sketch)
    return merging.close_blocks(total.counted).counts


def _with_between(total: ChunkResult, job: Job, columns: slice) -> Counts | Bad:
    """Return the counts of some columns with those of the blocks that lie in no chunk."""
    assert job.blocks is not None
    assert not isinstance(total.counted, Sketch)
    partition = job.blocks.partition_between(job.sizes)
    if partition is None:
        assert total.counted is not None
        return total.counted
    try:
        table = as_table(total.between)
        spec = BucketSpec(partition, None if job.null is None else job.null[columns], job.skip_missing)
        counts, _ = engine_of(table.source).count(table, spec, n_jobs=1)
    except InputError as error:
        return error
    return counts if total.counted is None else total.counted.plus(counts)


def _side_by_side(table: Table, partition: Partition, job: Job, *, totals: list[Counts | Bad]) -> Counts:
    """Put the counts of all columns together."""
    total = cpu.no_counts(partition, table.shape[1], missing=job.skip_missing)
    for j, counts in enumerate(totals):
        if not isinstance(counts, Counts):
            raise _refusal(table, counts, job.skip_missing)
        total.add_columns(slice(job.columns[j], job.columns[j + 1]), counts)
    return total.settled()


def rank_counts(
    table: Table,
    cells: IntArray,
    strata: IntArray,
    against: IntArray,
    *,
    skip_missing: bool = False,
    n_jobs: int | None = None,  # noqa: ARG001
    progress: Progress | None = None,
) -> CellCounts:
    """Compare cells of rows on whole columns, put together by whoever computes them."""
    import dask

    array, d = _source(table).whole_columns(), table.shape[1]
    columns = ends(array.chunks[1])
    sent_once = dask.delayed((cells, strata, against), traverse=False, pure=False)
    chunks = array.map_blocks(
        _ranked, design=sent_once, columns=columns, missing=skip_missing, dtype=object,
        meta=np.empty((0, 0), dtype=object), chunks=_ones(array),
    )  # fmt: skip
    total = CellCounts(
        np.empty((3, strata.size, d), dtype=np.int64), np.empty((against.shape[0], 6, strata.size, d), dtype=np.int64)
    )
    done = 0

    def on_result(number: int, counts: CellCounts | Bad) -> None:
        nonlocal done
        if not isinstance(counts, CellCounts):
            raise _refusal(table, counts, skip_missing)
        part = total.of(slice(columns[number], columns[number + 1]))
        part.own[:], part.pairs[:] = counts
        done += counts.own.shape[2]
        if progress is not None:
            progress(done / d)

    run(chunks.to_delayed()[0], [], on_result)
    return total


def _ranked(
    block: Block | InputError,
    design: tuple[IntArray, IntArray, IntArray],
    columns: list[int],
    missing: bool,
    block_id: tuple[int, int],
) -> CellCounts | Bad:
    """Compare the cells in some columns, or return what is wrong with them."""
    if isinstance(block, InputError):
        return block
    try:
        table = as_table(block)
        return engine_of(table.source).rank_counts(table, *design, skip_missing=missing, n_jobs=1)
    except InputError as error:
        return _place(block, error, at=(0, columns[block_id[1]]), skip_missing=missing)


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """What every task of a pass over sums is told once."""

    rows: list[int]
    columns: list[int]
    centres: FloatArray
    unit: FloatArray
    kappa: float
    used: Mask | None
    skip_missing: bool


def influence_sums(
    table: Table,
    centres: FloatArray,
    unit: FloatArray,
    kappa: float,
    *,
    rows: Mask | None = None,
    skip_missing: bool = False,
    n_jobs: int | None = None,  # noqa: ARG001
    progress: Progress | None = None,
) -> InfluenceSums:
    """Add up every chunk where it lies; sums of chunks add up."""
    import dask

    array = _source(table).pieces()
    job = Influence(ends(array.chunks[0]), ends(array.chunks[1]), centres, unit, kappa, rows, skip_missing)
    sent_once = dask.delayed(job, traverse=False, pure=False)
    chunks = array.map_blocks(
        _influence, job=sent_once, dtype=object, meta=np.empty((0, 0), dtype=object), chunks=_ones(array)
    ).to_delayed()
    total, done = InfluenceSums.blank(*centres.shape), 0

    def on_result(number: int, found: InfluenceSums | Bad) -> None:
        nonlocal done
        if not isinstance(found, InfluenceSums):
            raise _refusal(table, found, skip_missing)
        j = number % chunks.shape[1]
        total.add(slice(job.columns[j], job.columns[j + 1]), found)
        done += 1
        if progress is not None:
            progress(done / chunks.size)

    run(list(chunks.ravel()), [], on_result)
    return total


def _influence(block: Block | InputError, job: Influence, block_id: tuple[int, int]) -> InfluenceSums | Bad:
    """Add up one chunk, or return what is wrong with it."""
    if isinstance(block, InputError):
        return block
    across = slice(*job.rows[block_id[0] : block_id[0] + 2])
    columns = slice(*job.columns[block_id[1] : block_id[1] + 2])
    try:
        table = as_table(block)
        return engine_of(table.source).influence_sums(
            table, job.centres[:, columns], job.unit[columns], job.kappa,
            rows=None if job.used is None else job.used[across], skip_missing=job.skip_missing, n_jobs=1,
        )  # fmt: skip
    except InputError as error:
        return _place(block, error, at=(across.start, columns.start), skip_missing=job.skip_missing)
