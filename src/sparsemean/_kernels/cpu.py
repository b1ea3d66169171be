"""The counting pass on the host: cut into tasks for threads, counted by compiled loops, added up.

The loops are serial and allocate nothing; bucket sums follow the order of additions of ``reference`` exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._kernels import NotFiniteError, loops, reference
from sparsemean._kernels.columns import TURNED_AT_ONCE, count_columns
from sparsemean._kernels.compiling import compiled, plainly
from sparsemean._kernels.loops import BEYOND, below, is_bad, is_odd, minus, nearer, row
from sparsemean._kernels.memory_layout import Array, count_threads, cut, each, frozen, is_native, precision_of, strided
from sparsemean._util.records import BLOCK, Counts, FloatArray, Partition

if TYPE_CHECKING:
    from scipy.sparse import csc_array

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
    X: Array | csc_array,
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
    ``rounding``. With ``missing`` NaN is a value that is not there. Of a matrix that is compressed by columns the null
    values are zero, and no value is missing.

    Raises ``NotFiniteError`` if any value is infinite, or NaN without ``missing``, or if a sum overflows.
    """
    if not isinstance(X, np.ndarray):
        from sparsemean._kernels import sparse

        return sparse.count_signs(X, partition, n_jobs=n_jobs)
    d = X.shape[1]
    if plainly(X.size):
        plain = reference.count_signs(X, partition, missing=missing, null=null, precision=precision)
        if progress is not None:
            progress(1.0)
        return plain
    total, n_threads = Counts.blank(partition, d, missing=missing), count_threads(n_jobs)
    precision = precision_of(X.dtype) if precision is None else precision
    native = is_native(X)
    pieces = cut(d, d if native else CONVERTED_BYTES // (8 * X.shape[0]))

    for k, piece in enumerate(pieces):
        part = X if native else np.ascontiguousarray(X[:, piece], dtype=np.float64)
        about = None if null is None else (null[piece], precision * (null[piece] != 0))
        of_columns, tasks = zip(*_tasks(part, partition, n_threads, about, missing=missing), strict=True)
        counted = each(operator.call, tasks, n_threads)
        for done, (columns, (counts, bad)) in enumerate(zip(of_columns, counted, strict=True), start=1):
            if bad:
                raise NotFiniteError
            total.add_columns(slice(piece.start + columns.start, piece.start + columns.stop), counts)
            if progress is not None:
                progress((k + done / len(tasks)) / len(pieces))
    return total.settled()


def _tasks(
    X: Array, partition: Partition, n_threads: int, centring: Centring | None, *, missing: bool
) -> list[tuple[slice, Callable[[], Counted]]]:
    """Cut the pass into independent pieces of work, of some columns each, whose counts add up."""
    d, gaps, quads = X.shape[1], missing and X.dtype.kind == "f", partition.places is not None and partition.depth >= 3
    n_threads = n_threads if X.size > SMALL else 1
    along = (X.strides[1] == X.itemsize or d == 1) and (quads or (partition.depth == 1 and not gaps))
    if centring is not None or not along:
        null, reach = (np.zeros(d),) * 2 if centring is None else centring
        pieces = cut(d, min(BLOCK_COLUMNS, -(-d // n_threads)))
        return [(c, partial(_by_columns, X[:, c], partition, null[c], reach[c], gaps=gaps)) for c in pieces]
    blocks = cut(d, min(BLOCK_COLUMNS, max(MIN_COLUMNS, -(-d // n_threads))))
    stripes = max(1, n_threads // len(blocks))
    blank = frozen(np.full(blocks[0].stop, np.nan if gaps else 0, dtype=X.dtype))  # for a row that is not there
    if not quads:
        buckets = cut(partition.n_buckets(0), -(-partition.n_buckets(0) // stripes))
        return [(c, partial(_by_buckets, X[:, c], partition, b, blank)) for c, b in product(blocks, buckets)]
    assert partition.places is not None
    n_places = partition.places.size
    places = cut(n_places, -(-n_places // (BLOCK * stripes)) * BLOCK)
    return [(c, partial(_by_places, X[:, c], partition, p, blank, gaps=gaps)) for c, p in product(blocks, places)]


def _by_buckets(X: Array, partition: Partition, buckets: slice, blank: Array) -> Counted:
    """Count one level of buckets in rows that lie along memory."""
    view, width, n_buckets = strided(X), X.shape[1], buckets.stop - buckets.start
    (negative, zero), near = np.zeros((2, 1, width), dtype=np.int32), np.full(width, BEYOND)
    bad = count_buckets(
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
        bad = count_places(*where, np.zeros(width, dtype=np.uint64), negative, other, near)
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
    view, width, depth, wanted = strided(X), X.shape[1], partition.depth, list(partition.wanted)
    pos, neg, here = np.zeros((3, depth, width), dtype=np.int32)
    seen, near, levels = np.zeros(width, dtype=np.int32), np.full(width, BEYOND), partition.levels[:depth]
    at_once = max(1, min(width, TURNED_AT_ONCE // X.shape[0])) if abs(view.column_step) < abs(view.row_step) else 0
    rows, n = [np.append(partition.rows_per_bucket(h), 0.0) for h in range(depth)], partition.order.size
    bad = count_columns(
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


# Data without gaps, in rows that lie along memory.

FIELD = np.uint64(21)
"""Bits of each of the three counters that are packed into one word."""
PACKED = 1 << 20
"""Places after which packed counters are emptied: no field is full by then."""


@compiled()
def member(order: Array, k: int, last: int) -> int:
    """Return the row at place ``k`` of a bucket that ends before ``last``, −1 beyond its end."""
    return order[k] if k < last else -1


@compiled()
def count_buckets(
    memory: Array, start: int, step: int, order: Array, offsets: Array, blank: Array, acc: Array, neg: Array,
    zero: Array, near: Array,
) -> bool:  # fmt: skip
    """Count signs of one level of buckets in ``blank.size`` neighbouring columns; True if a sum is not finite.

    Rows enter up to eight at a time, filled up with the zeros of ``blank``.
    """
    width = blank.size
    bad = False
    for j in range(offsets.size - 1):
        first, last = offsets[j], offsets[j + 1]
        share = 1.0 / (last - first)
        for k in range(first, last, 8):
            ra = row(memory, start, step, order[k], blank)
            rb = row(memory, start, step, member(order, k + 1, last), blank)
            rc = row(memory, start, step, member(order, k + 2, last), blank)
            rd = row(memory, start, step, member(order, k + 3, last), blank)
            if k == first:
                for i in range(width):
                    acc[i] = np.float64(ra[i]) + np.float64(rb[i]) + np.float64(rc[i]) + np.float64(rd[i])
            else:
                for i in range(width):
                    acc[i] = acc[i] + np.float64(ra[i]) + np.float64(rb[i]) + np.float64(rc[i]) + np.float64(rd[i])
            if last - k > 4:
                ra = row(memory, start, step, order[k + 4], blank)
                rb = row(memory, start, step, member(order, k + 5, last), blank)
                rc = row(memory, start, step, member(order, k + 6, last), blank)
                rd = row(memory, start, step, member(order, k + 7, last), blank)
                for i in range(width):
                    acc[i] = acc[i] + np.float64(ra[i]) + np.float64(rb[i]) + np.float64(rc[i]) + np.float64(rd[i])
        bad |= count_sums(acc, share, neg, zero, near)
    return bad


@compiled()
def count_sums(sums: Array, share: float, neg: Array, zero: Array, near: Array) -> bool:
    """Count the signs of one bucket sum in every column; zeros are looked for only where there are any."""
    odd = 0
    for i in range(sums.size):
        s = sums[i]
        neg[i] -= np.int32(minus(s))
        near[i] = nearer(s * share, near[i])
        odd |= is_odd(s)
    bad = 0
    if odd:
        for i in range(sums.size):
            s = sums[i]
            neg[i] += np.int32(minus(s)) if s == 0.0 else np.int32(0)
            zero[i] += np.int32(s == 0.0)
            bad |= is_bad(s)
    return bad != 0


@compiled()
def count_places(
    memory: Array, start: int, step: int, places: Array, blank: Array, stack: Array, packed: Array, neg: Array,
    zero: Array, near: Array,
) -> bool:  # fmt: skip
    """Count signs of nested buckets of 1, 2, 4, … places in neighbouring columns; True if a sum is not finite.

    ``places`` holds a row, or −1, for each place of a whole number of blocks; an empty place counts as a zero.
    ``packed``, a word for each column, is all zeros before and after. ``near[0]`` codes the nearest mean of four places
    times four, ``near[1]`` the nearest mean of the largest size; ``near[2]`` takes those of the sizes between, which
    nobody asked for.
    """
    field = (np.uint64(1) << FIELD) - np.uint64(1)
    bad = False
    for first in range(0, places.size, PACKED):
        bad |= count_eights(memory, start, step, places[first : first + PACKED], blank, stack, packed, neg, zero, near)
        for i in range(packed.size):
            neg[0, i] += np.int32(packed[i] & field)
            neg[1, i] += np.int32(packed[i] >> FIELD & field)
            neg[2, i] += np.int32(packed[i] >> (FIELD + FIELD))
            packed[i] = 0
    return bad


@compiled()
def count_eights(
    memory: Array, start: int, step: int, places: Array, blank: Array, stack: Array, packed: Array, neg: Array,
    zero: Array, near: Array,
) -> bool:  # fmt: skip
    """Count as `count_places` does, negative sums of one, two and four places in the fields of ``packed``.

    Each pass of the inner loop takes eight places, so that counters are fetched half as often as for four; larger sizes
    pair up the sums of four that wait on ``stack``. What is zero, or not finite, is looked for where there is any.
    """
    depth, width = neg.shape
    nearest = near[0]
    bad = False
    for eight in range(places.size // 8):
        rows = places[8 * eight : 8 * eight + 8]
        ra = row(memory, start, step, rows[0], blank)
        rb = row(memory, start, step, rows[1], blank)
        rc = row(memory, start, step, rows[2], blank)
        rd = row(memory, start, step, rows[3], blank)
        re = row(memory, start, step, rows[4], blank)
        rf = row(memory, start, step, rows[5], blank)
        rg = row(memory, start, step, rows[6], blank)
        rh = row(memory, start, step, rows[7], blank)
        if present(rows) == 8:
            odd = 0
            for i in range(width):
                xa, xb, xc, xd = np.float64(ra[i]), np.float64(rb[i]), np.float64(rc[i]), np.float64(rd[i])
                xe, xf, xg, xh = np.float64(re[i]), np.float64(rf[i]), np.float64(rg[i]), np.float64(rh[i])
                s, t, u, v = xa + xb, xc + xd, xe + xf, xg + xh
                q, r = s + t, u + v
                n1 = below(xa) + below(xb) + below(xc) + below(xd) + below(xe) + below(xf) + below(xg) + below(xh)
                n2 = below(s) + below(t) + below(u) + below(v)
                packed[i] += n1 + (n2 << FIELD) + ((below(q) + below(r)) << (FIELD + FIELD))
                nearest[i] = nearer(r, nearer(q, nearest[i]))
                odd |= is_odd((xa * xb) * (xc * xd) * ((s * t) * q)) | is_odd((xe * xf) * (xg * xh) * ((u * v) * r))
        else:
            odd = 1
            count_four(ra, rb, rc, rd, present(rows[:4]), packed, nearest)
            count_four(re, rf, rg, rh, present(rows[4:]), packed, nearest)
        if odd:
            bad |= count_zeros(ra, rb, rc, rd, neg, zero)
            bad |= count_zeros(re, rf, rg, rh, neg, zero)
        if depth > 3:
            bad |= count_larger(2 * eight, ra, rb, rc, rd, places, stack, neg, zero, near)
            bad |= count_larger(2 * eight + 1, re, rf, rg, rh, places, stack, neg, zero, near)
    return bad


@compiled()
def count_four(ra: Array, rb: Array, rc: Array, rd: Array, held: int, packed: Array, nearest: Array) -> None:
    """Count the negative ones among four places, of which some ``held`` a row, and their sums."""
    fill = 4.0 / max(1, held)
    for i in range(packed.size):
        xa, xb, xc, xd = np.float64(ra[i]), np.float64(rb[i]), np.float64(rc[i]), np.float64(rd[i])
        s, t = xa + xb, xc + xd
        q = s + t
        n1 = below(xa) + below(xb) + below(xc) + below(xd)
        packed[i] += n1 + ((below(s) + below(t)) << FIELD) + (below(q) << (FIELD + FIELD))
        nearest[i] = nearer(q * fill, nearest[i])


@compiled()
def count_larger(
    quad: int, ra: Array, rb: Array, rc: Array, rd: Array, places: Array, stack: Array, neg: Array, zero: Array,
    near: Array,
) -> bool:  # fmt: skip
    """Add four rows up and pair the sum with those that wait for it."""
    total = stack[0]
    for i in range(total.size):
        total[i] = (np.float64(ra[i]) + np.float64(rb[i])) + (np.float64(rc[i]) + np.float64(rd[i]))
    return pair_up(quad, places, stack, neg, zero, near)


@compiled()
def count_zeros(ra: Array, rb: Array, rc: Array, rd: Array, neg: Array, zero: Array) -> bool:
    """Count the zeros among four places and their sums, and take back each −0.0 that was counted as negative."""
    bad = False
    for i in range(ra.size):
        xa, xb, xc, xd = np.float64(ra[i]), np.float64(rb[i]), np.float64(rc[i]), np.float64(rd[i])
        s, t = xa + xb, xc + xd
        q = s + t
        zero[0, i] += np.int32(xa == 0.0) + np.int32(xb == 0.0) + np.int32(xc == 0.0) + np.int32(xd == 0.0)
        zero[1, i] += np.int32(s == 0.0) + np.int32(t == 0.0)
        zero[2, i] += np.int32(q == 0.0)
        neg[0, i] += np.int32(minus_zero(xa) + minus_zero(xb) + minus_zero(xc) + minus_zero(xd))
        neg[1, i] += np.int32(minus_zero(s) + minus_zero(t))
        neg[2, i] += np.int32(minus_zero(q))
        bad |= is_bad(q)
    return bad


@compiled()
def minus_zero(x: float) -> np.int64 | int:
    """Return −1 for −0.0, else 0."""
    return minus(x) if x == 0.0 else 0


@compiled()
def present(rows: Array) -> int:
    """Return how many places hold a row."""
    count = 0
    for index in rows:
        count += index >= 0
    return count


@compiled()
def pair_up(quad: int, places: Array, stack: Array, neg: Array, zero: Array, near: Array) -> bool:
    """Add the sum in ``stack[0]`` to the left-hand sums that wait for it, size after size.

    Sum number ``index`` of a level is a right-hand one when odd; ``stack[level − 2]`` keeps the left-hand one.
    """
    depth, width = neg.shape
    current = stack[0]
    level, index, bad = 3, quad, False
    while level < depth and index & 1:
        left = stack[level - 2]
        for i in range(width):
            current[i] = left[i] + current[i]
        stop = 4 * (quad + 1)
        share = 1.0 / max(1, present(places[stop - (1 << level) : stop]))
        bad |= count_sums(current, share, neg[level], zero[level], near[1 if level == depth - 1 else 2])
        level, index = level + 1, index >> 1
    if level < depth:
        waiting = stack[level - 2]
        for i in range(width):  # a slice assignment would compile NumPy's error messages too, for three seconds
            waiting[i] = current[i]
    return bad
