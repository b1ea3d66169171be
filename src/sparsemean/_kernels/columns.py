"""What is made of a table where it lies: signs counted, copies, bucket means, skewness, medians of rows.

Element (i, c) of a table lies at ``memory[start + i * step + c * across]``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.loops import is_bad, nearer
from sparsemean._kernels.memory_layout import Array, is_native, strided
from sparsemean._kernels.rounding import DOUBLES, ROUNDING, settled_means
from sparsemean._util.records import FloatArray, IntArray, Partition

TILE = 16
"""Columns, and rows, that are read together: neighbours share cache lines, each is written to a line of its own."""
DEEP, LINE = 8, 8
"""Rows that are read before they are turned, and the doubles of a cache line."""
TURNED_AT_ONCE = 250_000
"""Values of some columns that are copied before their bucket means are taken: two megabytes."""
LANES = 16
"""Numbers that are worked on side by side, a few vectors of doubles: in the same order on every processor."""


# Signs of any nest of buckets, one column after the other: with gaps or without, about null values or zero.


@compiled()
def count_columns(
    memory: Array, start: int, step: int, across: int, order: Array, offsets: Array, bases: Array, rows: Array,
    null: Array, reach: Array, gaps: bool, turned: Array, sums: Array, sizes: Array, counts: Array,
    pos: Array, neg: Array, here: Array, seen: Array, near: Array,
) -> bool:  # fmt: skip
    """Count the sums of values less ``null`` above zero and below, and buckets with a value; True if one is not finite.

    ``offsets[bases[h] : bases[h + 1]]`` are the offsets of level h, and ``rows`` beside them how many rows its buckets
    have. A sum is zero as ``rounding.settle`` has it; ``reach`` is the precision of values, 0 where the null value is.
    With ``gaps`` NaN is left out, and ``seen`` is how many values there are. ``near`` codes the nearest mean of the
    last level. There is room for a column in ``sums``, ``sizes`` and ``counts``. Where rows lie along memory some
    columns of all of them are ``turned`` first; elsewhere there is no room for that.
    """
    (depth, width), at_once = neg.shape, turned.shape[0]
    bad = False
    for c in range(width):
        about, far = null[c], reach[c]
        if at_once == 0:
            seen[c] = _away_from(memory, start + c * across, step, order, about, gaps, sums, counts)
        else:
            if c % at_once == 0:
                turn(memory, start, step, across, np.arange(c, min(c + at_once, width)), turned)
            seen[c] = _away_from(turned[c % at_once], 0, 1, order, about, gaps, sums, counts)
        for k in range(order.size if far > 0.0 else 0):
            sizes[k] = abs(sums[k])
        first, n = 0, order.size
        for h in range(depth):
            below, first, n = n, bases[h], bases[h + 1] - bases[h] - 1
            if n < below:  # else every bucket is one of those below
                add_up(sums, offsets, first, n)
            if n < below and far > 0.0:
                add_up(sizes, offsets, first, n)
            if n < below and gaps:
                add_up(counts, offsets, first, n)
            held = 0
            for j in range(n if gaps else 0):
                held += counts[j] > 0.0
            above = under = 0
            for j in range(n):
                number = counts[j] if gaps else rows[first + j]
                total = settled(sums[j], sizes[j], number, about, far, rows[first + j]) if far > 0.0 else sums[j]
                above += total > 0.0
                under += total < 0.0
            pos[h, c], neg[h, c], here[h, c] = above, under, held
        nearest = near[c]
        for j in range(n):
            number = counts[j] if gaps else rows[first + j]
            total = settled(sums[j], sizes[j], number, about, far, rows[first + j]) if far > 0.0 else sums[j]
            nearest = nearer(total / max(1.0, number), nearest)
            bad |= is_bad(total)
        near[c] = nearest
    return bad


@compiled()
def _away_from(
    x: Array, start: int, step: int, order: Array, null: float, gaps: bool, away: Array, there: Array
) -> int:
    """Write the values of a column less ``null``, with ``gaps`` those that are ``there``; return how many are."""
    if not gaps:
        for k in range(order.size):
            away[k] = np.float64(x[np.uintp(start + order[k] * step)]) - null
        return order.size
    present = 0
    for k in range(order.size):
        value = np.float64(x[np.uintp(start + order[k] * step)])
        known = value == value
        away[k] = value - null if known else 0.0
        there[k] = np.float64(known)
        present += known
    return present


@compiled()
def add_up(x: Array, offsets: Array, first: int, n: int) -> None:
    """Write the sums over each of n buckets to the beginning of ``x``, one value after the other."""
    for j in range(n):
        total = x[offsets[first + j]]
        for k in range(offsets[first + j] + 1, offsets[first + j + 1]):
            total += x[k]
        x[j] = total


@compiled()
def settled(total: float, size: float, number: float, null: float, reach: float, rows: float) -> float:
    """Return the sum of a number of values about a null value, or zero where rounding may have made what is there."""
    off = ROUNDING * reach * (number * abs(null) + size) + min(reach, DOUBLES) * (rows * size)
    return total if not (abs(total) <= off) else 0.0


# Copies and bucket means of a few columns.


@compiled()
def gather_values(memory: Array, start: int, step: int, across: int, rows: Array, columns: Array, out: Array) -> None:
    """Write some rows of some columns into ``out`` (rows, columns), reading along memory."""
    if abs(across) <= abs(step):
        for i in range(rows.size):
            at = start + rows[i] * step
            row = out[i]
            for c in range(columns.size):
                row[c] = np.float64(memory[np.uintp(at + columns[c] * across)])
        return
    for first_row in range(0, rows.size, TILE):
        for c in range(columns.size):
            at = start + columns[c] * across
            for i in range(first_row, min(first_row + TILE, rows.size)):
                out[i, c] = np.float64(memory[np.uintp(at + rows[i] * step)])


@compiled(plain="reference")
def nested_means(
    memory: Array, start: int, step: int, across: int, order: Array, offsets: Array, above: Array, ends: Array,
    columns: Array, missing: bool, out: Array, turned: Array, counts: Array,
) -> None:  # fmt: skip
    """Write the bucket means of every level of some columns into ``out`` (columns, buckets), level after level.

    ``offsets`` are those of the finest buckets in ``order``, and ``above[ends[h − 1]] …`` those of level h among the
    buckets below it, two at most each. With ``missing`` NaN is left out, and a mean of nothing NaN. ``counts`` is room
    for the values of each bucket. Where rows lie along memory some columns of all of them are ``turned`` first: buckets
    take rows from everywhere.
    """
    J, width = offsets.size - 1, turned.shape[0]
    along = abs(across) > abs(step)
    for j in range(J):
        counts[j] = offsets[j + 1] - offsets[j]
    _rise(counts, above, ends, J)
    for c in range(columns.size):
        if along:
            at = start + columns[c] * across
            _sum_column(memory, at, step, order, offsets, missing, out[c], counts)
        else:
            if c % width == 0:
                turn(memory, start, step, across, columns[c : c + width], turned)
            _sum_column(turned[c % width], 0, 1, order, offsets, missing, out[c], counts)
        sums = out[c]
        _rise(sums, above, ends, J)
        if missing:
            _rise(counts, above, ends, J)
        for j in range(sums.size):
            sums[j] /= counts[j]


@compiled()
def _sum_column(
    x: Array, start: int, step: int, order: Array, offsets: Array, missing: bool, sums: Array, counts: Array
) -> None:
    """Write the finest bucket sums of one column, and with ``missing`` how many values each has."""
    if not missing and offsets.size - 1 == order.size:
        for j in range(order.size):
            sums[j] = 0.0 + np.float64(x[np.uintp(start + order[j] * step)])  # never −0.0
        return
    for j in range(offsets.size - 1):
        total, number = 0.0, 0
        for k in range(offsets[j], offsets[j + 1]):
            value = np.float64(x[np.uintp(start + order[k] * step)])
            if not missing or value == value:
                total += value
                number += 1
        sums[j] = total
        if missing:
            counts[j] = number


@compiled()
def turn(memory: Array, start: int, step: int, across: int, columns: Array, out: Array) -> None:
    """Write some columns of all rows into rows of ``out``: a few rows are read along memory at a time."""
    n, first = out.shape[1], columns[0]
    together = across == 1 and columns[columns.size - 1] - first == columns.size - 1
    some = np.empty((DEEP, columns.size + LINE), memory.dtype)
    for top in range(0, n, DEEP):
        deep = min(DEEP, n - top)
        for i in range(deep):
            at, row = start + (top + i) * step, some[i]
            if together:  # in vectors
                values = memory[at + first : at + first + columns.size]
                for c in range(values.size):
                    row[c] = values[c]
                continue
            for c in range(columns.size):
                row[c] = memory[np.uintp(at + columns[c] * across)]
        for c in range(columns.size):
            column = out[c]
            if deep == DEEP:
                for i in range(DEEP):
                    column[top + i] = some[i, c]
                continue
            for i in range(deep):
                column[top + i] = some[i, c]


@compiled()
def _rise(sums: Array, above: Array, ends: Array, J: int) -> None:
    """Add up the sums of each level, which follow one another, from those of the level below it."""
    below, at = 0, J
    for h in range(ends.size - 1):
        n_buckets = ends[h + 1] - ends[h] - 1
        for j in range(n_buckets):
            a, b = above[ends[h] + j], above[ends[h] + j + 1]
            total = sums[below + a]
            if b > a + 1:
                total += sums[below + a + 1]
            sums[at + j] = total
        below, at = at, at + n_buckets


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
            found = settled_means(signed, sizes, partition, about, precision)
            return [np.asfortranarray(level) for level in found]
        X, columns = values, every
    view, omit = strided(X), missing and X.dtype.kind == "f"
    ends = np.cumsum([0, *(level.size for level in partition.levels[1:depth])])
    firsts = np.cumsum([0, *(partition.n_buckets(level) for level in range(depth))])
    total = int(firsts[-1])
    width = max(1, min(columns.size, TURNED_AT_ONCE // X.shape[0]))
    means = np.empty((columns.size, total))
    nested_means(
        view.memory, view.start, view.row_step, view.column_step, partition.order, partition.levels[0],
        np.concatenate((*partition.levels[1:depth], firsts[:0])), ends, columns, omit,
        means, np.empty((width, X.shape[0])), np.empty(total),
    )  # fmt: skip
    return [means[:, a:b].T for a, b in pairwise(firsts.tolist())]


def gather(X: Array, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return some rows of some columns of an array that is native."""
    view, out = strided(X), np.empty((rows.size, columns.size))
    gather_values(view.memory, view.start, view.row_step, view.column_step, rows, columns, out)
    return out


def bucket_means(X: Array, partition: Partition, *, level: int = 0, columns: IntArray | None = None) -> FloatArray:
    """Return the (J, features) bucket means at ``level``, of all features or of ``columns``."""
    chosen = np.arange(X.shape[1]) if columns is None else np.asarray(columns, dtype=np.intp)
    return level_means(X, partition, chosen, depth=level + 1)[level]


@compiled()
def group_skewness(
    memory: Array, start: int, step: int, across: int, rows: Array, size: int, first: int, last: int, out: Array
) -> None:
    """Write Σh, Σh² and #{h ≠ 0} into columns first … last of ``out``, h the skewness of each group of ``rows``.

    Groups are ``size`` rows that follow one another. What a column with a gap has is NaN. Terms are added in the order
    of ``symmetry``, of as many groups side by side as fill vectors.
    """
    values, moments = np.empty((size, LANES)), np.empty((5, LANES))
    places = np.empty((size, LANES), np.int64)
    n_groups = rows.size // size
    for c in range(first, last):
        out[0, c], out[1, c], out[2, c] = 0.0, 0.0, 0.0
        for i in range(n_groups * size, rows.size):  # of no group, but with a gap all are grouped otherwise
            x = np.float64(memory[np.uintp(start + rows[i] * step + c * across)])
            if x != x:
                out[0, c] = x
    for group in range(0, n_groups, LANES):
        width = min(LANES, n_groups - group)
        for lane in range(LANES):
            for i in range(size):
                places[i, lane] = start + rows[(group + min(lane, width - 1)) * size + i] * step
        for c in range(first, last):
            gap = 0.0
            for i in range(size):
                for lane in range(LANES):
                    x = np.float64(memory[np.uintp(places[i, lane] + c * across)])
                    values[i, lane] = x
                    gap += x - x
            _skewness(values, moments)
            total, squares, number = out[0, c] + gap, out[1, c], out[2, c]
            for lane in range(width):
                h = moments[0, lane]
                total += h
                squares += h * h
                number += h != 0
            out[0, c], out[1, c], out[2, c] = total, squares, number


@compiled()
def _skewness(values: Array, moments: Array) -> None:
    """Write the skewness of each column of ``values``, which are overwritten, into the first row of ``moments``."""
    base, largest, mean, second, third = moments[4], moments[1], moments[2], moments[3], moments[0]
    for lane in range(LANES):
        base[lane] = values[0, lane]
        largest[lane], mean[lane], second[lane], third[lane] = 0.0, 0.0, 0.0, 0.0
    for i in range(values.shape[0]):
        row = values[i]
        for lane in range(LANES):
            row[lane] -= base[lane]
            largest[lane] = max(largest[lane], abs(row[lane]))
    for lane in range(LANES):
        largest[lane] = largest[lane] if largest[lane] > 0 else 1.0
    for i in range(values.shape[0]):
        row = values[i]
        for lane in range(LANES):
            row[lane] /= largest[lane]
            mean[lane] += row[lane]
    for lane in range(LANES):
        mean[lane] /= values.shape[0]
    for i in range(values.shape[0]):
        row = values[i]
        for lane in range(LANES):
            x = row[lane] - mean[lane]
            second[lane] += x * x
            third[lane] += x * x * x
    for lane in range(LANES):
        variance = second[lane] / values.shape[0]
        power = variance * np.sqrt(variance)
        h = third[lane] / values.shape[0] / (power if power > 0 else 1.0)
        third[lane] = h if h == h else 0.0  # differences that were too large


# What judging rows asks of a table: medians of rows, where far values meet.

NO_SIGN, ONE, OCTAVE = np.int32(0x7FFFFFFF), np.int32(0x3F800000), np.int32(1 << 23)
"""Bits of a single-precision number: all but its sign; those of one; what lies between a number and its double."""


@compiled()
def row_medians(X: Array, columns: Array, out: Array) -> None:
    """Write the median absolute value of some columns of every row, the upper of two, or 1 where it is less.

    Numbers are given, and written, as the bits of single precision: without their sign these rise with the numbers, so
    that the median is found by halving. To count is one instruction for several columns, and half of the rows end at 1.
    """
    half = columns.size // 2
    sizes = np.empty(columns.size, np.int32)
    for i in range(X.shape[0]):
        row = X[i]
        for c in range(columns.size):
            sizes[c] = row[columns[c]] & NO_SIGN
        low, high = ONE, ONE
        while _not_above(sizes, high) <= half:
            low, high = high, high + OCTAVE
        while high - low > 1:
            middle = low + ((high - low) >> 1)
            if _not_above(sizes, middle) > half:
                high = middle
            else:
                low = middle
        out[i] = high


@compiled()
def _not_above(sizes: Array, limit: np.int32) -> int:
    count = 0
    for size in sizes:
        count += size <= limit
    return count


@compiled(plain="reference")
def meet(value: Array, column: Array, first: Array, kept: Array, met: Array) -> None:
    """Add to ``met`` the products of every two columns over the entries first[i] … first[i + 1] of each row kept.

    Columns rise within a row, so that all sums are above the diagonal.
    """
    for i in range(kept.size):
        if not kept[i]:
            continue
        for a in range(first[i], first[i + 1]):
            x, row = value[a], met[column[a]]
            for b in range(a + 1, first[i + 1]):
                row[column[b]] += x * value[b]


# Weights in the capped simplex: one look of the projection, and many moves of rows that follow others, in one pass.


@compiled(plain="reference")
def look(v: Array, theta: float, cap: float) -> tuple[float, float, float]:
    """Return the sum of all v − θ between 0 and cap, their number, and the number of those beyond."""
    total, free, capped = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    whole = v.size - v.size % LANES
    for i in range(0, whole, LANES):
        for j in range(LANES):
            x = v[i + j] - theta
            between = (x > 0.0) & (x < cap)
            total[j] += x if between else 0.0
            free[j] += 1.0 if between else 0.0
            capped[j] += 1.0 if x >= cap else 0.0
    for i in range(whole, v.size):
        x = v[i] - theta
        between = (x > 0.0) & (x < cap)
        total[i - whole] += x if between else 0.0
        free[0] += 1.0 if between else 0.0
        capped[0] += 1.0 if x >= cap else 0.0
    return total.sum(), free.sum(), capped.sum()


@compiled(plain="reference")
def follow(along: Array, centres: Array, rates: Array, shifts: Array, weights: Array) -> None:
    """Move weights by w ← clip(w − rate·a(a − 2·centre) − shift, 0, 1) for each row a of ``along``."""
    zero, one = np.float32(0.0), np.float32(1.0)
    for t in range(rates.size):
        twice, rate, shift = centres[t] + centres[t], rates[t], shifts[t]
        for i in range(weights.size):
            a = along[t, i]
            w = weights[i] - rate * (a * (a - twice)) - shift
            w = w if w > zero else zero
            weights[i] = w if w < one else one
