"""The counting pass on the host: cut into tasks for threads, counted by compiled loops, added up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise, product

import numpy as np

from sparsemean._kernels import NotFiniteError, loops, reference
from sparsemean._kernels import columns as column_loops
from sparsemean._kernels.compiling import plainly
from sparsemean._kernels.loops import BEYOND
from sparsemean._kernels.memory_layout import Array, count_threads, each, is_native, precision_of, strided
from sparsemean._util.records import BLOCK, Counts, FloatArray, IntArray, Partition

TURNED_AT_ONCE = 250_000
"""Values of some columns that are copied before their bucket means are taken: two megabytes."""
BLOCK_COLUMNS = 8192
"""Long stretches of a row keep the memory busy; the counters of a block still fit in the second-level cache."""
MIN_COLUMNS = 512
SMALL = 200_000
"""Elements below which starting threads costs more than they save."""
CONVERTED_BYTES = 32_000_000
Progress = Callable[[float], None]
Counted = tuple[Counts, bool]
"""What is counted in a piece of the pass, and whether a sum is not finite."""
Centring = tuple[FloatArray, FloatArray]
"""Null values, and the precision of values, 0 where that is the null value."""


def count_signs(
    X: Array,
    partition: Partition,
    *,
    null: FloatArray | None = None,
    precision: float | None = None,
    missing: bool = False,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    ``null`` is taken from every row first, one number for each feature, of values of some ``precision``; see
    ``rounding``. With ``missing`` NaN is a value that is not there.

    Raises ``NotFiniteError`` if any value is infinite, or NaN without ``missing``, or if a sum overflows.
    """
    d = X.shape[1]
    if plainly(X.size):
        counted = reference.count_signs(X, partition, missing=missing, null=null, precision=precision)
        if progress is not None:
            progress(1.0)
        return counted
    total, lock, n_threads = no_counts(partition, d, missing=missing), threading.Lock(), count_threads(n_jobs)
    precision = precision_of(X.dtype) if precision is None else precision
    native = is_native(X)
    pieces = _cut(d, d if native else CONVERTED_BYTES // (8 * X.shape[0]))

    def work(task: tuple[slice, Callable[[], Counted]]) -> bool:
        columns, count = task
        counts, bad = count()
        with lock:
            total.add_columns(columns, counts)
        return bad

    for k, piece in enumerate(pieces):
        part = X if native else np.ascontiguousarray(X[:, piece], dtype=np.float64)
        about = None if null is None else (null[piece], precision * (null[piece] != 0))
        tasks = [
            (slice(piece.start + columns.start, piece.start + columns.stop), count)
            for columns, count in _tasks(part, partition, n_threads, about, missing=missing)
        ]
        for done, bad in enumerate(each(work, tasks, n_threads), start=1):
            if bad:
                raise NotFiniteError
            if progress is not None:
                progress((k + done / len(tasks)) / len(pieces))
    return total.settled()


def no_counts(partition: Partition, d: int, *, missing: bool = False) -> Counts:
    """Return the counts of ``d`` features before any value was seen; none is known to be missing yet."""
    n_buckets = tuple(partition.n_buckets(level) for level in partition.wanted)
    everything = np.repeat(np.array(n_buckets, dtype=np.int32)[:, np.newaxis], d, axis=1) if missing else None
    return Counts(
        positive=np.zeros((len(partition.wanted), d), dtype=np.int32),
        negative=np.zeros((len(partition.wanted), d), dtype=np.int32),
        nearest=np.full(d, np.inf),
        n_buckets=n_buckets,
        present=everything,
        missing=np.zeros(d, dtype=np.int32) if missing else None,
    )


def _tasks(
    X: Array, partition: Partition, n_threads: int, centring: Centring | None, *, missing: bool
) -> list[tuple[slice, Callable[[], Counted]]]:
    """Cut the pass into independent pieces of work, of some columns each, whose counts add up."""
    d, gaps, quads = X.shape[1], missing and X.dtype.kind == "f", partition.places is not None and partition.depth >= 3
    n_threads = n_threads if X.size > SMALL else 1
    along = (X.strides[1] == X.itemsize or d == 1) and (quads or (partition.depth == 1 and not gaps))
    if centring is not None or not along:
        null, reach = (np.zeros(d),) * 2 if centring is None else centring
        pieces = _cut(d, min(BLOCK_COLUMNS, -(-d // n_threads)))
        return [(c, partial(_by_columns, X[:, c], partition, null[c], reach[c], gaps=gaps)) for c in pieces]
    blocks = _cut(d, min(BLOCK_COLUMNS, max(MIN_COLUMNS, -(-d // n_threads))))
    stripes = max(1, n_threads // len(blocks))
    blank = np.full(blocks[0].stop, np.nan if gaps else 0, dtype=X.dtype)  # stands for a row that is not there
    blank.flags.writeable = False
    if not quads:
        buckets = _cut(partition.n_buckets(0), -(-partition.n_buckets(0) // stripes))
        return [(c, partial(_by_buckets, X[:, c], partition, b, blank)) for c, b in product(blocks, buckets)]
    assert partition.places is not None
    n_places = partition.places.size
    places = _cut(n_places, -(-n_places // (BLOCK * stripes)) * BLOCK)
    return [(c, partial(_by_places, X[:, c], partition, p, blank, gaps=gaps)) for c, p in product(blocks, places)]


def _cut(total: int, width: int) -> list[slice]:
    """Cut range(total) into pieces of ``width``, the last one maybe shorter."""
    return [slice(a, min(a + width, total)) for a in range(0, total, max(1, width))]


def _by_buckets(X: Array, partition: Partition, buckets: slice, blank: Array) -> Counted:
    """Count one level of buckets in rows that lie along memory."""
    view, width, n_buckets = strided(X), X.shape[1], buckets.stop - buckets.start
    (negative, zero), near = np.zeros((2, 1, width), dtype=np.int32), np.full(width, BEYOND)
    bad = loops.count_buckets(
        view.memory, view.start, view.row_step, partition.order,
        partition.levels[0][buckets.start : buckets.stop + 1], blank[:width], np.empty(width), negative[0], zero[0],
        near,
    )  # fmt: skip
    return Counts(n_buckets - negative - zero, negative, _decoded(near), (n_buckets,)), bad


def _by_places(X: Array, partition: Partition, places: slice, blank: Array, *, gaps: bool) -> Counted:
    """Count nested buckets of blocks of 64 in rows that lie along memory."""
    assert partition.places is not None
    view, width, depth, wanted = strided(X), X.shape[1], partition.depth, list(partition.wanted)
    rows, near, stack = partition.places[places], np.full((3, width), BEYOND), np.empty((depth - 2, width))
    if depth == 3 and not gaps:  # larger buckets need whole blocks; else empty places, at the end, are not looked at
        rows = rows[: -(-int(np.count_nonzero(rows >= 0)) // 8) * 8]
    where = view.memory, view.start, view.row_step, rows, blank[:width], stack
    negative, other, here = np.zeros((3, depth, width), dtype=np.int32)
    if gaps:
        held = np.empty(stack.shape, dtype=np.int32)
        bad = loops.count_present_places(*where, held, other, negative, here, near)
        n_buckets = [int((rows >= 0).reshape(-1, size).any(axis=1).sum()) for size in partition.sizes[:depth]]
    else:
        bad = loops.count_places(*where, np.zeros(width, dtype=np.uint64), negative, other, near)
        n_buckets = [rows.size // size for size in partition.sizes[:depth]]
        other = np.array(n_buckets, dtype=np.int32)[:, np.newaxis] - negative - other  # of those that are not zero
    nearest = _decoded(near[0 if depth == 3 else 1])
    if depth == 3 and not gaps:
        nearest /= 4
    numbers = tuple(n_buckets[level] for level in wanted)
    if not gaps:
        return Counts(other[wanted], negative[wanted], nearest, numbers), bad
    return Counts(other[wanted], negative[wanted], nearest, numbers, here[wanted], n_buckets[0] - here[0]), bad


def _by_columns(X: Array, partition: Partition, null: FloatArray, reach: FloatArray, *, gaps: bool) -> Counted:
    """Count any nest of buckets column by column, about null values, whose rounding ``reach`` tells, or about zero."""
    view, width, depth, n, wanted = strided(X), X.shape[1], partition.depth, partition.n_rows, list(partition.wanted)
    pos, neg, here = np.zeros((3, depth, width), dtype=np.int32)
    seen, near, levels = np.zeros(width, dtype=np.int32), np.full(width, BEYOND), partition.levels[:depth]
    at_once = max(1, min(width, TURNED_AT_ONCE // X.shape[0])) if abs(view.column_step) < abs(view.row_step) else 0
    rows = [np.append(reference.rows_per_bucket(partition, h), 0.0) for h in range(depth)]
    bad = column_loops.count_columns(
        view.memory, view.start, view.row_step, view.column_step, partition.order, np.concatenate(levels),
        np.cumsum([0, *(level.size for level in levels)]), np.concatenate(rows), null, reach, gaps,
        np.empty((at_once, X.shape[0])), np.empty(n), np.empty(n), np.empty(n), pos, neg, here, seen, near,
    )  # fmt: skip
    present, absent = (here[wanted], np.int32(n) - seen) if gaps else (None, None)
    n_buckets = tuple(partition.n_buckets(level) for level in wanted)
    return Counts(pos[wanted], neg[wanted], _decoded(near), n_buckets, present, absent), bad


def _decoded(code: FloatArray) -> FloatArray:
    """Return distances from their codes, whose bits are theirs less one."""
    return (code.view(np.uint64) + np.uint64(1)).view(np.float64)


def level_means(
    X: Array,
    partition: Partition,
    columns: IntArray,
    *,
    depth: int,
    null: FloatArray | None = None,
    precision: float = 0.0,
    missing: bool = False,
) -> list[FloatArray]:
    """Return the (J, columns) bucket means of every level below ``depth``, from one read of the columns.

    They lie column by column along memory. With ``missing`` means are those of the values that are there, and NaN where
    there are none. About ``null``, a number for each column of ``X``, what rounding may have made of zero is zero.
    """
    if null is not None or not is_native(X):
        values, every = np.ascontiguousarray(X[:, columns], dtype=np.float64), np.arange(columns.size)
        if null is not None:
            away, about = values - null[columns], null[columns]
            signed, sizes = (
                level_means(x, partition, every, depth=depth, missing=missing) for x in (away, np.abs(away))
            )
            found = reference.settled_means(signed, sizes, partition, about, precision)
            return [np.asfortranarray(level) for level in found]
        X, columns = values, every
    view, omit = strided(X), missing and X.dtype.kind == "f"
    ends = np.cumsum([0, *(level.size for level in partition.levels[1:depth])])
    firsts = np.cumsum([0, *(partition.n_buckets(level) for level in range(depth))])
    total = int(firsts[-1])
    width = max(1, min(columns.size, TURNED_AT_ONCE // X.shape[0]))
    means = np.empty((columns.size, total))
    column_loops.nested_means(
        view.memory, view.start, view.row_step, view.column_step, partition.order, partition.levels[0],
        np.concatenate((*partition.levels[1:depth], firsts[:0])), ends, columns, omit,
        means, np.empty((width, X.shape[0])), np.empty(total),
    )  # fmt: skip
    return [means[:, a:b].T for a, b in pairwise(firsts.tolist())]


def gather(X: Array, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return some rows of some columns of an array that is native."""
    view, out = strided(X), np.empty((rows.size, columns.size))
    column_loops.gather(view.memory, view.start, view.row_step, view.column_step, rows, columns, out)
    return out


def bucket_means(X: Array, partition: Partition, *, level: int = 0, columns: IntArray | None = None) -> FloatArray:
    """Return the (J, features) bucket means at ``level``, of all features or of ``columns``."""
    chosen = np.arange(X.shape[1]) if columns is None else np.asarray(columns, dtype=np.intp)
    return level_means(X, partition, chosen, depth=level + 1)[level]


def subgm(means: FloatArray, *, alpha: float, eta: float, times: Iterable[int]) -> FloatArray:
    """Run the subgradient method on (J, features) bucket means; μ̂ at each of the rising ``times``."""
    at = np.fromiter(times, dtype=np.intp)
    out = np.empty((at.size, means.shape[1]))
    column_loops.walk(np.sort(means.T, axis=1), alpha, eta, at, out)
    return out
