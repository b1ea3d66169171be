"""Tasks of the pass over data with missing values: the same cuts as in ``cpu``, other loops."""

from __future__ import annotations

import numpy as np

from sparsemean.kernels import gap_loops
from sparsemean.kernels.layout import Strided
from sparsemean.kernels.loops import BEYOND
from sparsemean.kernels.tally import Tally, decoded
from sparsemean.records import CountArray, FloatArray, IntArray, Partition

PROBED = 64
"""Rows that are looked at to see whether a task is worth trying as if nothing were missing."""


def seem_missing(view: Strided, partition: Partition, columns: slice) -> bool:
    """Whether the first few rows have gaps in ``columns``."""
    start, rows = view.start + columns.start * view.column_step, partition.order[:PROBED]
    width = columns.stop - columns.start
    return bool(gap_loops.any_missing(view.memory, start, view.row_step, view.column_step, rows, width))


def by_buckets(view: Strided, partition: Partition, columns: slice, buckets: slice) -> Tally:
    """Count one level of buckets in rows that lie along memory."""
    width = columns.stop - columns.start
    pos, neg, here = _blank(1, width)
    seen, near = np.zeros(width, dtype=np.int32), np.full(width, BEYOND)
    offsets = partition.levels[0][buckets.start : buckets.stop + 1]
    bad = gap_loops.count_buckets(
        view.memory, view.start + columns.start, view.row_step, partition.order, offsets,
        np.empty(width), np.empty(width, dtype=np.int32), pos[0], neg[0], here[0], seen, near,
    )  # fmt: skip
    missing = np.int32(offsets[-1] - offsets[0]) - seen
    empty = np.int32(buckets.stop - buckets.start) - here
    return Tally(columns, pos, neg, decoded(near), not bad, (empty, missing))


def by_places(view: Strided, partition: Partition, columns: slice, places: slice) -> Tally:
    """Count nested buckets of blocks of 64 in rows that lie along memory."""
    assert partition.places is not None
    width, depth, wanted = columns.stop - columns.start, partition.depth, list(partition.wanted)
    pos, neg, here = _blank(depth, width)
    near = np.full((3, width), BEYOND)
    rows = partition.places[places]
    blank = np.full(width, np.nan, dtype=view.memory.dtype)
    blank.flags.writeable = False
    bad = gap_loops.count_places(
        view.memory, view.start + columns.start, view.row_step, rows, blank,
        np.empty((depth - 2, width)), np.empty((depth - 2, width), dtype=np.int32), pos, neg, here, near,
    )  # fmt: skip
    held = [np.count_nonzero((rows >= 0).reshape(-1, size).any(axis=1)) for size in partition.sizes[:depth]]
    empty = np.array(held, dtype=np.int32)[:, np.newaxis] - here
    nearest = decoded(near[0 if depth == 3 else 1])
    return Tally(columns, pos[wanted], neg[wanted], nearest, not bad, (empty[wanted], empty[0]))


def by_columns(view: Strided, partition: Partition, columns: slice) -> Tally:
    """Count any nest of buckets column by column."""
    width, depth, wanted = columns.stop - columns.start, partition.depth, list(partition.wanted)
    pos, neg, here = _blank(depth, width)
    seen, near, levels = np.zeros(width, dtype=np.int32), np.full(width, BEYOND), partition.levels[:depth]
    bad = gap_loops.count_columns(
        view.memory, view.start + columns.start * view.column_step, view.row_step, view.column_step, partition.order,
        np.concatenate(levels), np.cumsum([0, *(level.size for level in levels)]),
        np.empty(partition.n_rows), np.empty(partition.n_rows, dtype=np.int32), pos, neg, here, seen, near,
    )  # fmt: skip
    buckets = np.array([[partition.n_buckets(h)] for h in wanted], dtype=np.int32)
    missing = np.int32(partition.n_rows) - seen
    return Tally(columns, pos[wanted], neg[wanted], decoded(near), not bad, (buckets - here[wanted], missing))


def _blank(depth: int, width: int) -> tuple[CountArray, CountArray, CountArray]:
    zeros = np.zeros((3, depth, width), dtype=np.int32)
    return zeros[0], zeros[1], zeros[2]


def level_means(view: Strided, partition: Partition, columns: IntArray, depth: int) -> list[FloatArray]:
    """Return the (J, columns) means of what is there, of every level below ``depth``; NaN where nothing is."""
    sums, counts = np.empty((2, partition.n_buckets(0), columns.size))
    gap_loops.sum_buckets(
        view.memory, view.start, view.row_step, view.column_step, partition.order, partition.levels[0], columns, sums,
        counts,
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        means = [sums / counts]
        for above in partition.levels[1:depth]:
            sums, counts = (np.add.reduceat(x, above[:-1], axis=0) for x in (sums, counts))
            means.append(sums / counts)
    return means
