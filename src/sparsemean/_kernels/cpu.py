"""The counting pass on the host: cut into tasks for threads, counted by compiled loops, added up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

import numpy as np

from sparsemean._kernels import NotFiniteError, loops, reference
from sparsemean._kernels import columns as column_loops
from sparsemean._kernels.compiling import plainly
from sparsemean._kernels.loops import BEYOND
from sparsemean._kernels.memory_layout import Array, Strided, count_threads, each, is_native, precision_of, strided
from sparsemean._util.records import BLOCK, CountArray, Counts, FloatArray, IntArray, Partition


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Counts of one task, a row for each wanted size."""

    columns: slice
    positive: CountArray
    negative: CountArray
    nearest: FloatArray
    finite: bool
    gaps: tuple[CountArray, CountArray] | None = None
    """Buckets without any value, a row for each wanted size, and missing values of each column; None for none."""


def decoded(code: FloatArray) -> FloatArray:
    """Return distances from their codes, whose bits are theirs less one."""
    return (code.view(np.uint64) + np.uint64(1)).view(np.float64)


# The fast kernels: one pass over memory where it lies, on threads of our own.

PROBED = 64
"""Rows that are looked at to see whether a task is worth trying as if nothing were missing."""
TURNED_AT_ONCE = 250_000
"""Values of some columns that are copied before their bucket means are taken: two megabytes."""
BLOCK_COLUMNS = 8192
"""Long stretches of a row keep the memory busy; the counters of a block still fit in the second-level cache."""
MIN_COLUMNS = 512
SMALL = 200_000
"""Elements below which starting threads costs more than they save."""
CONVERTED_BYTES = 32_000_000
Progress = Callable[[float], None]
Task = partial[Tally]
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
    total = no_counts(partition, d, missing=missing)
    precision = precision_of(X.dtype) if precision is None else precision
    centring = None if null is None else (null, precision * (null != 0))
    for finite, done in _add_up(X, partition, centring, count_threads(n_jobs), total, slice(0, d)):
        if not finite:
            raise NotFiniteError
        if progress is not None:
            progress(done)
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


def _add_up(
    X: Array, partition: Partition, centring: Centring | None, n_threads: int, total: Counts, columns: slice
) -> Iterator[tuple[bool, float]]:
    """Add the tallies of all tasks to ``columns`` of ``total``; yield whether sums are finite, and the share done."""
    if not is_native(X):
        width = max(1, CONVERTED_BYTES // (8 * X.shape[0]))
        pieces = _cut(X.shape[1], width)
        for k, piece in enumerate(pieces):
            part = slice(columns.start + piece.start, columns.start + piece.stop)
            converted = np.ascontiguousarray(X[:, piece], dtype=np.float64)
            about = None if centring is None else (centring[0][piece], centring[1][piece])
            for finite, done in _add_up(converted, partition, about, n_threads, total, part):
                yield finite, (k + done) / len(pieces)
        return
    gaps = total.present is not None and X.dtype.kind == "f"
    tasks = _tasks(strided(X), partition, n_threads if X.size > SMALL else 1, centring, gaps=gaps)
    lock = threading.Lock()

    def work(task: Task) -> bool:
        tally = task()
        at = slice(columns.start + tally.columns.start, columns.start + tally.columns.stop)
        with lock:
            total.positive[:, at] += tally.positive
            total.negative[:, at] += tally.negative
            np.minimum(total.nearest[at], tally.nearest, out=total.nearest[at])
            if tally.gaps is not None and total.present is not None:
                total.leave_out(at, *tally.gaps)
        return tally.finite

    for k, finite in enumerate(each(work, tasks, n_threads), start=1):
        yield finite, k / len(tasks)


def _tasks(view: Strided, partition: Partition, n_threads: int, centring: Centring | None, *, gaps: bool) -> list[Task]:
    """Cut the pass into independent pieces of work whose tallies add up."""
    d, quads = view.shape[1], partition.places is not None and partition.depth >= 3
    along = view.rows_are_contiguous and (quads or (partition.depth == 1 and not gaps))
    if centring is not None or not along:
        pieces = _cut(d, min(BLOCK_COLUMNS, -(-d // n_threads)))
        return [partial(_by_columns, view, partition, columns, centring, gaps=gaps) for columns in pieces]
    blocks = _cut(d, min(BLOCK_COLUMNS, max(MIN_COLUMNS, -(-d // n_threads))))
    stripes = max(1, n_threads // len(blocks))
    if not quads:
        buckets = _cut(partition.n_buckets(0), -(-partition.n_buckets(0) // stripes))
        return [partial(_by_buckets, view, partition, c, b) for c, b in product(blocks, buckets)]
    assert partition.places is not None
    n_places = partition.places.size
    places = _cut(n_places, -(-n_places // (BLOCK * stripes)) * BLOCK)
    return [partial(_by_places, view, partition, c, p, gaps=gaps) for c, p in product(blocks, places)]


def _cut(total: int, width: int) -> list[slice]:
    """Cut range(total) into pieces of ``width``, the last one maybe shorter."""
    return [slice(a, min(a + width, total)) for a in range(0, total, max(1, width))]


def _by_buckets(view: Strided, partition: Partition, columns: slice, buckets: slice) -> Tally:
    """Count one level of buckets in rows that lie along memory."""
    width, near = columns.stop - columns.start, np.full(columns.stop - columns.start, BEYOND)
    negative, zero = np.zeros((2, 1, width), dtype=np.int32)
    bad = loops.count_buckets(
        *view.of(columns), partition.order, partition.levels[0][buckets.start : buckets.stop + 1],
        _blank_row(view, width, 0), np.empty(width), negative[0], zero[0], near,
    )  # fmt: skip
    return _tally(partition, columns, [buckets.stop - buckets.start], negative, zero, near, bad)


def _by_places(view: Strided, partition: Partition, columns: slice, places: slice, *, gaps: bool) -> Tally:
    """Count nested buckets of blocks of 64 in rows that lie along memory."""
    assert partition.places is not None
    width, depth, wanted = columns.stop - columns.start, partition.depth, list(partition.wanted)
    negative, other, here = np.zeros((3, depth, width), dtype=np.int32)
    near, stack = np.full((3, width), BEYOND), np.empty((depth - 2, width))
    nearest = near[0 if depth == 3 else 1]
    rows = partition.places[places]
    if gaps:
        bad = loops.count_present_places(
            *view.of(columns), rows, _blank_row(view, width, np.nan), stack, np.empty(stack.shape, dtype=np.int32),
            other, negative, here, near,
        )  # fmt: skip
        held = [np.count_nonzero((rows >= 0).reshape(-1, size).any(axis=1)) for size in partition.sizes[:depth]]
        empty = np.array(held, dtype=np.int32)[:, np.newaxis] - here
        found = (empty[wanted], empty[0])
        return Tally(columns, other[wanted], negative[wanted], decoded(nearest), not bad, found)
    if depth == 3:  # larger buckets need whole blocks; else empty places, which stand at the end, are not looked at
        rows = rows[: -(-int(np.count_nonzero(rows >= 0)) // 8) * 8]
    bad = loops.count_places(
        *view.of(columns), rows, _blank_row(view, width, 0), stack, np.zeros(width, dtype=np.uint64), negative, other,
        near,
    )  # fmt: skip
    n_buckets = [rows.size // size for size in partition.sizes[:depth]]
    tally = _tally(partition, columns, n_buckets, negative, other, nearest, bad)
    return replace(tally, nearest=tally.nearest / 4) if depth == 3 else tally


def _by_columns(view: Strided, partition: Partition, columns: slice, centring: Centring | None, *, gaps: bool) -> Tally:
    """Count any nest of buckets column by column, with gaps or about null values where that is asked."""
    width, depth, n, wanted = columns.stop - columns.start, partition.depth, partition.n_rows, list(partition.wanted)
    pos, neg, here = np.zeros((3, depth, width), dtype=np.int32)
    seen, near, levels = np.zeros(width, dtype=np.int32), np.full(width, BEYOND), partition.levels[:depth]
    memory, start, step = view.of(columns)
    null, reach = (np.zeros(width),) * 2 if centring is None else (part[columns] for part in centring)
    at_once = max(1, min(width, TURNED_AT_ONCE // view.shape[0])) if abs(view.column_step) < abs(step) else 0
    turned = np.empty((at_once, view.shape[0]))
    rows = [np.append(reference.rows_per_bucket(partition, h), 0.0) for h in range(depth)]
    bad = column_loops.count_columns(
        memory, start, step, view.column_step, partition.order, np.concatenate(levels),
        np.cumsum([0, *(level.size for level in levels)]), np.concatenate(rows), null, reach, gaps, turned, np.empty(n),
        np.empty(n), np.empty(n), pos, neg, here, seen, near,
    )  # fmt: skip
    buckets = np.array([[partition.n_buckets(h)] for h in wanted], dtype=np.int32)
    found = (buckets - here[wanted], np.int32(n) - seen) if gaps else None
    return Tally(columns, pos[wanted], neg[wanted], decoded(near), not bad, found)


def _tally(
    partition: Partition, columns: slice, n_buckets: list[int], negative: CountArray, zero: CountArray,
    code: FloatArray, bad: bool,
) -> Tally:  # fmt: skip
    """Turn what the loops count, N₋ and N₀ and coded distances, into what is asked for."""
    wanted = list(partition.wanted)
    if len(wanted) < partition.depth:
        negative, zero = negative[wanted], zero[wanted]
    positive = np.array(n_buckets, dtype=np.int32)[wanted, np.newaxis] - negative
    positive -= zero
    return Tally(columns, positive, negative, decoded(code), not bad)


def _blank_row(view: Strided, width: int, value: float) -> Array:
    """Return what stands for a row that is not there."""
    blank = np.full(width, value, dtype=view.memory.dtype)
    blank.flags.writeable = False
    return blank


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
