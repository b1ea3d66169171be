"""Chunks are counted where they lie: what each tells adds up in a tree, and only that and chosen columns travel.

Whole blocks of 64 rows are counted in the chunk they lie in, those that chunks share where the chunks meet. Where
buckets take rows from anywhere (the paper's dealing, and subjects) whole columns are put together on the workers first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import dask
import numpy as np

from sparsemean._data import as_table
from sparsemean._data.dask import Dask, check_held, ends
from sparsemean._data.source import Block, NonFiniteValue
from sparsemean._data.table import Table
from sparsemean._evidence.counting import merging
from sparsemean._evidence.counting.engines import Engine, Mask, engine_of
from sparsemean._evidence.counting.sketch import Sketch, sketch_rows
from sparsemean._kernels.influence import InfluenceSpec, InfluenceSums
from sparsemean._util.cluster import run
from sparsemean._util.records import BucketSpec, CellCounts, Counts, FloatArray, IntArray, Partition
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed

FAN_IN = 8
"""Sketches that are added up in one task."""
T = TypeVar("T")
Bad = NonFiniteValue | InputError
"""What is wrong with a chunk: returned, as it is bad input, and no reason to try again."""


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
        with suppress(InputError):  # by its place among all, if it is a value that is not finite
            at = rows.start, columns.start
            return as_table(block).source.find_non_finite(at=at, skip_missing=skip_missing) or error
        return error


def _good(table: Table, found: T | Bad, *, skip_missing: bool) -> T:
    """Refuse what is bad in the words of every other pass."""
    if isinstance(found, InputError):
        raise found
    if isinstance(found, NonFiniteValue):
        raise table.non_finite_error(found, skip_missing=skip_missing)
    return found


# Counts of signs, which add up in a tree.


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """How the rows of chunks are partitioned, and which columns are kept.

    Rows are partitioned by ``seed`` and their number among those that ``rows`` flags, None for all; by ``partition``
    where there is one.
    """

    keep: IntArray
    null: FloatArray | None
    skip_missing: bool
    sizes: tuple[int, ...]
    seed: int
    rows: Mask | None
    partition: Partition | None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkResult:
    """What was counted in a chunk, or several: a sketch or counts; and kept columns."""

    counted: Sketch | Counts | None
    kept: FloatArray | None = None


class DaskEngine(Engine):
    """Computes every chunk once, where it lies, by one thread of whoever computes it; columns are put together here."""

    def count(
        self, table: Table, spec: BucketSpec, *, keep: IntArray | None = None
    ) -> tuple[Counts, FloatArray | None]:
        """Count chunks, and add up what stands above each other in a tree; the columns ``keep`` come here."""
        source, partition = _source(table), spec.partition
        if keep is not None:
            check_held(source.shape[0], keep.size)
        array = source.whole_columns() if partition.seed is None else source.pieces()
        job, grid = _job(spec, keep, source.shape[0]), _grid_of(array)
        chunks = _per_chunk(array, partial(_count, job=job), skip_missing=spec.skip_missing)
        kept = None if keep is None else np.empty((source.shape[0], keep.size), order="F")

        def take(rows: slice, columns: slice, values: FloatArray | None) -> None:
            if kept is not None and values is not None:
                low, high = np.searchsorted(job.keep, (columns.start, columns.stop))
                kept[rows, low:high] = values

        watched = [[dask.delayed(_kept_columns, pure=False)(chunk) for chunk in row] for row in chunks]
        trees = [_tree(column) for column in zip(*chunks, strict=True)]
        totals = self._run(table, grid, watched, take, trees, skip_missing=spec.skip_missing)
        total = Counts.blank(partition, table.shape[1], missing=spec.skip_missing)
        for j, counts in enumerate(totals):
            total.add_columns(grid.at(0, j)[1], _good(table, counts, skip_missing=spec.skip_missing))
        return total.settled(), kept

    def rank_counts(
        self, table: Table, cells: IntArray, strata: IntArray, against: IntArray, *, skip_missing: bool = False
    ) -> CellCounts:
        """Compare cells of rows on whole columns, put together by whoever computes them."""
        array, d = _source(table).whole_columns(), table.shape[1]

        def work(part: Table, _rows: slice, _columns: slice) -> CellCounts:
            return engine_of(part.source, n_jobs=1).rank_counts(part, cells, strata, against, skip_missing=skip_missing)

        total = CellCounts(
            np.empty((3, strata.size, d), dtype=np.int64),
            np.empty((against.shape[0], 6, strata.size, d), dtype=np.int64),
        )

        def take(_rows: slice, columns: slice, counts: CellCounts) -> None:
            total.own[..., columns], total.pairs[..., columns] = counts

        chunks = _per_chunk(array, work, skip_missing=skip_missing)
        self._run(table, _grid_of(array), chunks, take, skip_missing=skip_missing)
        return total

    def influence_sums(self, table: Table, spec: InfluenceSpec, *, rows: Mask | None = None) -> InfluenceSums:
        """Add up every chunk where it lies; sums of chunks add up."""
        array, total = _source(table).pieces(), InfluenceSums.blank(*spec.centres.shape)

        def work(part: Table, across: slice, columns: slice) -> InfluenceSums:
            used = None if rows is None else rows[across]
            return engine_of(part.source, n_jobs=1).influence_sums(part, spec.of(columns), rows=used)

        def take(_rows: slice, columns: slice, found: InfluenceSums) -> None:
            total.add(columns, found)

        chunks = _per_chunk(array, work, skip_missing=spec.missing)
        self._run(table, _grid_of(array), chunks, take, skip_missing=spec.missing)
        return total

    def _run(
        self,
        table: Table,
        grid: ChunkGrid,
        chunks: list[list[Delayed]],
        take: Callable[[slice, slice, T], None],
        others: Sequence[Delayed] = (),
        *,
        skip_missing: bool,
    ) -> list[Any]:
        """Compute what is made of every chunk, and ``others``, which are returned; refuse what is bad.

        ``take`` is told the rows and columns of a chunk and what was made of it, as soon as that is known.
        """
        every, told = [chunk for row in chunks for chunk in row], 0

        def heard(number: int, found: T | Bad) -> None:
            nonlocal told
            take(*grid.at(*divmod(number, len(chunks[0]))), _good(table, found, skip_missing=skip_missing))
            told += 1
            self.done(told / len(every))

        return run(every, others, heard)


def _job(spec: BucketSpec, keep: IntArray | None, n: int) -> Job:
    partition, nothing, rows = spec.partition, np.empty(0, dtype=np.intp), None
    if partition.seed is not None and partition.order.size < n:
        rows = np.zeros(n, dtype=bool)
        rows[partition.order] = True
    return Job(
        keep=nothing if keep is None else keep,
        null=spec.null,
        skip_missing=spec.skip_missing,
        sizes=tuple(partition.sizes[level] for level in partition.wanted),
        seed=partition.seed or 0,
        rows=rows,
        partition=None if partition.seed is not None else replace(partition, bucket_of_row=nothing),
    )


def _count(table: Table, rows: slice, columns: slice, *, job: Job) -> ChunkResult:
    """Count one chunk."""
    low, high = np.searchsorted(job.keep, (columns.start, columns.stop))
    kept = table.source.take(job.keep[low:high] - columns.start) if high > low else None
    null = None if job.null is None else job.null[columns]
    if job.partition is None:
        return ChunkResult(_sketch(table, rows.start, null=null, job=job), kept)
    spec = BucketSpec(job.partition, null, job.skip_missing)
    return ChunkResult(engine_of(table.source, n_jobs=1).count(table, spec)[0], kept)


def _sketch(table: Table, first_row: int, *, null: FloatArray | None, job: Job) -> Sketch | None:
    """Sketch the rows of a chunk that are partitioned; None where none is."""
    if job.rows is not None:
        here = job.rows[first_row : first_row + table.shape[0]]
        if not here.any():
            return None
        if not here.all():
            table = as_table(table.source.block(slice(0, here.size), slice(0, table.shape[1]))[here])
        first_row = int(np.count_nonzero(job.rows[:first_row]))
    return sketch_rows(
        table, first_row, seed=job.seed, bucket_sizes=job.sizes, null=0.0 if null is None else null,
        missing="omit" if job.skip_missing else "raise", n_jobs=1,
    )  # fmt: skip


def _kept_columns(chunk: ChunkResult | Bad) -> FloatArray | Bad | None:
    """Return what goes from every chunk straight to whoever asked."""
    return chunk.kept if isinstance(chunk, ChunkResult) else chunk


def _tree(chunks: Sequence[Delayed]) -> Delayed:
    """Add up chunks that stand above each other, a few neighbours at a time."""
    level = list(chunks)
    while len(level) > FAN_IN:
        level = [dask.delayed(_merged, pure=False)(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    return dask.delayed(_ended, pure=False)(level)


def _merged(parts: list[ChunkResult | Bad]) -> ChunkResult | Bad:
    """Return the counts of several chunks, or what is wrong with one."""
    good = [part for part in parts if isinstance(part, ChunkResult)]
    if len(good) < len(parts):
        return next(part for part in parts if not isinstance(part, ChunkResult))
    sketches = [part.counted for part in good if isinstance(part.counted, Sketch)]
    return ChunkResult(merging.add_sketches(sketches) if sketches else None)


def _ended(parts: list[ChunkResult | Bad]) -> Counts | Bad:
    """Return the counts of some columns: nothing more comes."""
    total = _merged(parts) if len(parts) > 1 else parts[0]
    if not isinstance(total, ChunkResult):
        return total
    if isinstance(total.counted, Sketch):
        return merging.close_blocks(total.counted).counts
    assert total.counted is not None
    return total.counted
