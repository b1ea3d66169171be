"""Counting in matrices that are compressed by columns, without touching their zeros.

Same answers as ``reference`` and ``cpu``, in time that grows with the stored entries. A zero adds nothing to a bucket
sum, so that leaving it out keeps the order of additions and every sign.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sparsemean.kernels import NotFiniteError, cpu, sparse_loops
from sparsemean.kernels.layout import Array, is_native
from sparsemean.kernels.threads import count_threads, each
from sparsemean.records import Counts, FloatArray, IntArray, Partition

if TYPE_CHECKING:
    from scipy import sparse

RUN = 16
"""Entries sorted by insertion where their places may be anywhere."""
TASKS = 4
"""For each thread: columns differ in how long they take."""


def count_signs(block: sparse.csc_array, partition: Partition, *, n_jobs: int | None = None) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    Raises ``NotFiniteError`` if any value is NaN or infinite, or if a sum of finite values overflows.
    """
    data, indices, indptr = _parts(block)
    total, wanted, depth = cpu.no_counts(partition, block.shape[1]), list(partition.wanted), partition.depth
    place = np.full(block.shape[0], -1, dtype=np.int64)
    place[partition.order] = np.arange(partition.n_rows)
    tables = [np.repeat(np.arange(offsets.size - 1), np.diff(offsets)) for offsets in partition.levels[:depth]]
    above, bases = np.concatenate(tables), np.cumsum([0, *(table.size for table in tables)])
    sizes = _rows_in_largest(partition)

    def work(columns: slice) -> bool:
        width, most = columns.stop - columns.start, _longest(indptr, columns)
        counted = np.zeros((2, depth, width), dtype=np.int32)
        run = most + 1 if partition.places is not None else RUN  # blocks of 64 leave every row near where it was
        bad: bool = sparse_loops.count_columns(
            data, indices, indptr[columns.start : columns.stop + 1], place, above, bases, sizes, run,
            *_scratch(most), counted[0], counted[1], total.nearest[columns],
        )  # fmt: skip
        total.positive[:, columns], total.negative[:, columns] = counted[0, wanted], counted[1, wanted]
        return bad

    if any(each(work, *_shared(indptr, n_jobs))):
        raise NotFiniteError
    return total


def compare_groups(block: sparse.csc_array, labels: IntArray, *, n_jobs: int | None = None) -> IntArray:
    """Return #{(i, j) : x_i > x_j} and #{x_i < x_j} over rows i labelled 1 and j labelled 0, as two rows.

    Raises ``NotFiniteError`` if any value is NaN or infinite.
    """
    data, indices, indptr = _parts(block)
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    n_first = int(labels.sum())
    out = np.empty((2, block.shape[1]), dtype=np.intp)

    def work(columns: slice) -> bool:
        most = _longest(indptr, columns)
        bad: bool = sparse_loops.compare_columns(
            data, indices, indptr[columns.start : columns.stop + 1], labels, n_first, labels.size - n_first, RUN,
            *_scratch(most), out[:, columns],
        )  # fmt: skip
        return bad

    if any(each(work, *_shared(indptr, n_jobs))):
        raise NotFiniteError
    return out


def first_bad(block: sparse.csc_array, *, missing: bool = False) -> int:
    """Return the first column with an infinite value or, unless some may be ``missing``, a NaN; 0 where none has."""
    bad = np.flatnonzero(np.isinf(block.data) if missing else ~np.isfinite(block.data))[:1]
    return int(np.searchsorted(block.indptr, bad[0], side="right")) - 1 if bad.size else 0


def take_columns(data: Array, indices: Array, indptr: IntArray, columns: IntArray) -> FloatArray:
    """Return rising ``columns``, filled in, of a matrix compressed by rows whose columns are sorted and unique.

    Only what lies between the first and the last of the columns is read.
    """
    out = np.zeros((indptr.size - 1, columns.size))
    if columns.size:
        start = int(columns[0])
        slot = np.full(int(columns[-1]) + 1 - start, -1, dtype=np.int64)
        slot[columns - start] = np.arange(columns.size)
        sparse_loops.take_columns(_readable(data), _readable(indices), indptr, start, slot, out)
    return out


def turned(data: Array, indices: Array, indptr: IntArray, columns: slice) -> tuple[Array, Array, IntArray]:
    """Return neighbouring ``columns`` of a matrix compressed by rows, as `take_columns` has it, by columns.

    Entries, their rows, and where columns begin.
    """
    data, indices = _readable(data), _readable(indices)
    ends = np.zeros(columns.stop - columns.start + 1, dtype=np.intp)
    sparse_loops.entries_of_columns(indices, indptr, columns.start, ends)
    out: tuple[Array, Array] = np.empty(int(ends[-1]), data.dtype), np.empty(int(ends[-1]), np.int32)
    sparse_loops.turn(data, indices, indptr, columns.start, ends[:-1].copy(), *out)
    return *out, ends


def _parts(block: sparse.csc_array) -> tuple[Array, Array, IntArray]:
    """Return entries, rows and where columns begin, of a copy with rows in order where they are not."""
    if not block.has_canonical_format:
        block = block.tocsr().tocsc()  # keeps the order of entries that share a place, so that they add up as stored
        block.sum_duplicates()
    return _readable(block.data), _readable(block.indices), np.asarray(block.indptr, dtype=np.intp)


def _readable(values: Array) -> Array:
    """Return what the compiled loops can read; always read-only, so that they are compiled once."""
    view = values.view() if is_native(values) else values.astype(np.float64)
    view.flags.writeable = False
    return view


def _rows_in_largest(partition: Partition) -> IntArray:
    offsets = partition.levels[0]
    for above in partition.levels[1 : partition.depth]:
        offsets = offsets[above]
    return np.diff(offsets)


def _scratch(n: int) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    """Return room for n keys and values, twice."""
    return np.empty(n, dtype=np.int64), np.empty(n), np.empty(n, dtype=np.int64), np.empty(n)


def _longest(indptr: IntArray, columns: slice) -> int:
    """Return the most entries a column has."""
    return int(np.diff(indptr[columns.start : columns.stop + 1]).max())


def _shared(indptr: IntArray, n_jobs: int | None) -> tuple[list[slice], int]:
    """Cut the columns into tasks with about as many entries each; return the number of threads too."""
    n_threads, d = count_threads(n_jobs), indptr.size - 1
    n_tasks = TASKS * n_threads if indptr[-1] > cpu.SMALL and n_threads > 1 else 1
    work = indptr + np.arange(d + 1)  # a column costs something even if it is empty
    ends = np.unique(np.searchsorted(work, np.linspace(0, work[-1], n_tasks + 1)))
    return [slice(int(a), int(b)) for a, b in pairwise(ends)], n_threads
