"""The counting pass over the non-zeros of sparse matrices."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._kernels import NotFiniteError, cpu
from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.loops import is_bad
from sparsemean._kernels.memory_layout import Array, count_threads, each, frozen, is_native
from sparsemean._util.records import Counts, FloatArray, IntArray, Partition

if TYPE_CHECKING:
    from scipy import sparse


@compiled()
def sort_pairs(keys: Array, values: Array, n: int, run: int, more_keys: Array, more_values: Array) -> None:
    """Sort the first n keys and move the values with them; equal keys stay in order.

    Runs are sorted by insertion, quick where little is out of place, and then merged two by two.
    """
    for first in range(0, n, run):
        for k in range(first + 1, min(first + run, n)):
            key, value = keys[k], values[k]
            at = k
            while at > first and keys[at - 1] > key:
                keys[at], values[at] = keys[at - 1], values[at - 1]
                at -= 1
            keys[at], values[at] = key, value
    while run < n:
        for first in range(0, n, 2 * run):
            middle, last = min(first + run, n), min(first + 2 * run, n)
            i, j = first, middle
            for k in range(first, last):
                if j >= last or (i < middle and keys[i] <= keys[j]):
                    more_keys[k], more_values[k] = keys[i], values[i]
                    i += 1
                else:
                    more_keys[k], more_values[k] = keys[j], values[j]
                    j += 1
        for k in range(n):
            keys[k], values[k] = more_keys[k], more_values[k]
        run *= 2


@compiled()
def gather(keys: Array, sums: Array, n: int, above: Array, base: int) -> tuple[int, int, int]:
    """Add up neighbours in one bucket, ``above[base + key]``; return how many buckets are left, N₊ and N₋ of them.

    Sums of exactly zero are dropped: further up they change nothing.
    """
    left = positive = negative = k = 0
    while k < n:
        bucket, total = above[base + keys[k]], sums[k]
        k += 1
        while k < n and above[base + keys[k]] == bucket:
            total += sums[k]
            k += 1
        positive += total > 0.0
        negative += total < 0.0
        keys[left], sums[left] = bucket, total
        left += total != 0.0
    return left, positive, negative


@compiled()
def partitioned_entries(
    data: Array, indices: Array, first: int, last: int, place: Array, keys: Array, values: Array
) -> int:
    """Write the entries first … last − 1 that are not zero, with the places of their rows; return how many."""
    n = 0
    for k in range(first, last):
        at, x = place[indices[k]], np.float64(data[k])
        if at >= 0 and x != 0.0:
            keys[n], values[n] = at, x
            n += 1
    return n


@compiled()
def count_columns(
    data: Array, indices: Array, indptr: Array, place: Array, above: Array, bases: Array, sizes: Array, run: int,
    keys: Array, values: Array, more_keys: Array, more_values: Array, positive: Array, negative: Array, nearest: Array,
) -> bool:  # fmt: skip
    """Count signs of any nest of buckets in neighbouring columns; True if a sum is not finite.

    ``place`` is the place of each row in the order of the partition, −1 for a row that is in none;
    ``above[bases[h] :]`` the bucket of level h that each place (bucket of level h − 1) goes into; ``sizes`` the rows of
    the buckets of the last level.
    """
    depth, width = positive.shape
    bad = False
    for c in range(width):
        n = partitioned_entries(data, indices, indptr[c], indptr[c + 1], place, keys, values)
        sort_pairs(keys, values, n, run, more_keys, more_values)
        for h in range(depth):
            n, positive[h, c], negative[h, c] = gather(keys, values, n, above, bases[h])
        for k in range(n):
            nearest[c] = min(nearest[c], abs(values[k] / sizes[keys[k]]))
            bad |= is_bad(values[k])
    return bad


@compiled()
def find(indices: Array, first: int, last: int, column: int) -> int:
    """Return where ``column`` or the first one after it lies between ``first`` and ``last`` in sorted indices."""
    while first < last:
        middle = (first + last) >> 1
        if indices[middle] < column:
            first = middle + 1
        else:
            last = middle
    return first


@compiled()
def take_columns_loop(data: Array, indices: Array, indptr: Array, start: int, slot: Array, out: Array) -> None:
    """Write the entries of rows in columns from ``start`` on to ``out[row, slot[column − start]]``, none where −1."""
    stop = start + slot.size
    for row in range(indptr.size - 1):
        last = indptr[row + 1]
        k = find(indices, indptr[row], last, start)
        while k < last and indices[k] < stop:
            at = slot[indices[k] - start]
            if at >= 0:
                out[row, at] = data[k]
            k += 1


@compiled()
def entries_of_columns(indices: Array, indptr: Array, start: int, ends: Array) -> None:
    """Write how many entries come before each column from ``start`` on, and before the end of the last one."""
    stop = start + ends.size - 1
    for row in range(indptr.size - 1):
        last = indptr[row + 1]
        k = find(indices, indptr[row], last, start)
        while k < last and indices[k] < stop:
            ends[indices[k] - start + 1] += 1
            k += 1
    for c in range(1, ends.size):
        ends[c] += ends[c - 1]


@compiled()
def turn(data: Array, indices: Array, indptr: Array, start: int, free: Array, turned: Array, rows: Array) -> None:
    """Write the entries of columns from ``start`` on column by column, from ``free[column − start]`` on each."""
    stop = start + free.size
    for row in range(indptr.size - 1):
        last = indptr[row + 1]
        k = find(indices, indptr[row], last, start)
        while k < last and indices[k] < stop:
            c = indices[k] - start
            turned[free[c]], rows[free[c]] = data[k], row
            free[c] += 1
            k += 1


# Counting in matrices that are compressed by columns, without touching their zeros.

RUN = 16
"""Entries sorted by insertion where their places may be anywhere."""
TASKS = 4
"""For each thread: columns differ in how long they take."""


def count_signs(block: sparse.csc_array, partition: Partition, *, n_jobs: int | None = None) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    Raises ``NotFiniteError`` if any value is NaN or infinite, or if a sum of finite values overflows.
    """
    data, indices, indptr = canonical_parts(block)
    total, wanted, depth = Counts.blank(partition, block.shape[1]), list(partition.wanted), partition.depth
    place = np.full(block.shape[0], -1, dtype=np.int64)
    place[partition.order] = np.arange(partition.order.size)
    tables = [np.repeat(np.arange(offsets.size - 1), np.diff(offsets)) for offsets in partition.levels[:depth]]
    above, bases = np.concatenate(tables), np.cumsum([0, *(table.size for table in tables)])
    sizes = partition.rows_per_bucket(depth - 1)

    def work(columns: slice) -> bool:
        begins = indptr[columns.start : columns.stop + 1]
        width, most = begins.size - 1, int(np.diff(begins).max())
        (keys, more_keys), (values, more_values) = np.empty((2, most), dtype=np.int64), np.empty((2, most))
        counted = np.zeros((2, depth, width), dtype=np.int32)
        run = most + 1 if partition.places is not None else RUN  # blocks of 64 leave every row near where it was
        bad: bool = count_columns(
            data, indices, begins, place, above, bases, sizes, run, keys, values, more_keys, more_values, counted[0],
            counted[1], total.nearest[columns],
        )  # fmt: skip
        total.positive[:, columns], total.negative[:, columns] = counted[0, wanted], counted[1, wanted]
        return bad

    if any(each(work, *shared(indptr, n_jobs))):
        raise NotFiniteError
    return total


def take_columns(data: Array, indices: Array, indptr: IntArray, columns: IntArray) -> FloatArray:
    """Return rising ``columns``, filled in, of a matrix compressed by rows whose columns are sorted and unique.

    Only what lies between the first and the last of the columns is read.
    """
    out = np.zeros((indptr.size - 1, columns.size))
    if columns.size:
        start = int(columns[0])
        slot = np.full(int(columns[-1]) + 1 - start, -1, dtype=np.int64)
        slot[columns - start] = np.arange(columns.size)
        take_columns_loop(_readable(data), _readable(indices), indptr, start, slot, out)
    return out


def turned(data: Array, indices: Array, indptr: IntArray, columns: slice) -> tuple[Array, Array, IntArray]:
    """Return neighbouring ``columns`` of a matrix compressed by rows, as `take_columns` has it, by columns.

    Entries, their rows, and where columns begin.
    """
    data, indices = _readable(data), _readable(indices)
    ends = np.zeros(columns.stop - columns.start + 1, dtype=np.intp)
    entries_of_columns(indices, indptr, columns.start, ends)
    out: tuple[Array, Array] = np.empty(int(ends[-1]), data.dtype), np.empty(int(ends[-1]), np.int32)
    turn(data, indices, indptr, columns.start, ends[:-1].copy(), *out)
    return *out, ends


def canonical_parts(block: sparse.csc_array) -> tuple[Array, Array, IntArray]:
    """Return entries, rows and where columns begin, of a copy with rows in order where they are not."""
    if not block.has_canonical_format:
        block = block.tocsr().tocsc()  # keeps the order of entries that share a place, so that they add up as stored
        block.sum_duplicates()
    return _readable(block.data), _readable(block.indices), np.asarray(block.indptr, dtype=np.intp)


def _readable(values: Array) -> Array:
    """Return what the compiled loops can read; always read-only, so that they are compiled once."""
    return frozen(values if is_native(values) else values.astype(np.float64))


def shared(indptr: IntArray, n_jobs: int | None) -> tuple[list[slice], int]:
    """Cut the columns into tasks with about as many entries each; return the number of threads too."""
    n_threads, d = count_threads(n_jobs), indptr.size - 1
    n_tasks = TASKS * n_threads if indptr[-1] > cpu.SMALL and n_threads > 1 else 1
    work = indptr + np.arange(d + 1)  # a column costs something even if it is empty
    ends = np.unique(np.searchsorted(work, np.linspace(0, work[-1], n_tasks + 1)))
    return [slice(int(a), int(b)) for a, b in pairwise(ends)], n_threads
