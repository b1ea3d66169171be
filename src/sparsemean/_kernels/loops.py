"""The compiled loops behind ``cpu``: serial, GIL released, no allocation, no knowledge of anything but arrays.

Bucket sums follow the order of additions of ``reference`` exactly. Rows are sliced before the inner loops because an
index that might be negative keeps LLVM from using vector instructions.
"""

from __future__ import annotations

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array

MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
BEYOND = float(np.finfo(np.float64).max)
"""``nearest`` before any value was seen: the code of infinity."""
FIELD = np.uint64(21)
"""Bits of each of the three counters that are packed into one word."""
PACKED = 1 << 20
"""Places after which packed counters are emptied: no field is full by then."""


@compiled(plain="itself")
def bits(x: float) -> np.int64:
    """Return the 64 bits of a float as an integer."""
    return np.float64(x).view(np.int64)


@compiled()
def of_bits(x: np.int64) -> np.float64:
    """Return the float that has the bits of an integer."""
    return np.int64(x).view(np.float64)


@compiled()
def minus(x: float) -> np.int64:
    """Return −1 for a number below zero, and for −0.0, else 0; cheaper than a comparison."""
    return bits(x) >> 63


@compiled()
def below(x: float) -> np.uint64:
    """Return 1 for a number below zero, and for −0.0, else 0, as a word: processors shift unsigned ones faster."""
    return np.uint64(bits(x)) >> np.uint64(63)


@compiled()
def nearer(x: float, nearest: float) -> float:
    """Return the smaller of ``nearest`` and the code of |x|.

    The code is the number whose bits are those of |x| less one: for zero NaN, which is smaller than nothing.
    """
    code = of_bits((bits(x) & MAGNITUDE) - 1)
    return code if code < nearest else nearest


@compiled()
def is_odd(x: float) -> bool:
    """Whether ``x`` is zero, infinite or NaN."""
    return not (abs(x) > 0.0) or not (abs(x) < np.inf)


@compiled()
def is_bad(x: float) -> bool:
    """Whether ``x`` is infinite or NaN."""
    return (x - x) != 0.0


@compiled()
def row(memory: Array, start: int, step: int, index: int, blank: Array) -> Array:
    """Return ``blank.size`` neighbouring elements of a row, or ``blank`` for a row that is not there (index < 0)."""
    at = start + index * step
    return memory[at : at + blank.size] if index >= 0 else blank


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


# Data with gaps: NaN is a value that is not there. It enters a sum as zero, which changes no sum, and is not counted; a
# bucket without any value counts for nothing. ``pos``, ``neg`` and ``here`` have a row for each level: sums above zero,
# below zero, and buckets that hold a value.


@compiled()
def count_present_sums(sums: Array, counts: Array, pos: Array, neg: Array, here: Array, near: Array) -> bool:
    """Count one bucket in every column; True if a sum is not finite."""
    bad = 0
    for i in range(sums.size):
        s, count = sums[i], counts[i]
        pos[i] += np.int32(s > 0.0)
        neg[i] += np.int32(s < 0.0)
        here[i] += np.int32(count > 0)
        near[i] = nearer(s / max(1, count), near[i])
        bad |= is_bad(s)
    return bad != 0


@compiled()
def count_present_places(
    memory: Array, start: int, step: int, places: Array, blank: Array, sums: Array, counts: Array,
    pos: Array, neg: Array, here: Array, near: Array,
) -> bool:  # fmt: skip
    """Count nested buckets of 1, 2, 4, … places in neighbouring columns, four places an inner loop.

    ``blank`` is NaN, so that a place without a row is one more value that is not there. ``sums`` and ``counts`` keep
    what waits for its right-hand neighbour, as in `count_places`; there are three rows of ``near``.
    """
    depth, width = neg.shape
    p1, p2, p4 = pos[0], pos[1], pos[2]
    n1, n2, n4 = neg[0], neg[1], neg[2]
    h1, h2, h4 = here[0], here[1], here[2]
    nearest, zero = near[0], np.float64(0.0)
    bad = False
    for quad in range(places.size // 4):
        ra = row(memory, start, step, places[4 * quad], blank)
        rb = row(memory, start, step, places[4 * quad + 1], blank)
        rc = row(memory, start, step, places[4 * quad + 2], blank)
        rd = row(memory, start, step, places[4 * quad + 3], blank)
        odd = 0
        for i in range(width):
            xa, xb, xc, xd = np.float64(ra[i]), np.float64(rb[i]), np.float64(rc[i]), np.float64(rd[i])
            a, b, c, d = np.int32(xa == xa), np.int32(xb == xb), np.int32(xc == xc), np.int32(xd == xd)
            xa = xa if a else zero
            xb = xb if b else zero
            xc = xc if c else zero
            xd = xd if d else zero
            s, t = xa + xb, xc + xd
            q = s + t
            p1[i] += np.int32(xa > 0.0) + np.int32(xb > 0.0) + np.int32(xc > 0.0) + np.int32(xd > 0.0)
            n1[i] += np.int32(xa < 0.0) + np.int32(xb < 0.0) + np.int32(xc < 0.0) + np.int32(xd < 0.0)
            h1[i] += a + b + c + d
            p2[i] += np.int32(s > 0.0) + np.int32(t > 0.0)
            n2[i] += np.int32(s < 0.0) + np.int32(t < 0.0)
            h2[i] += (a | b) + (c | d)
            p4[i] += np.int32(q > 0.0)
            n4[i] += np.int32(q < 0.0)
            h4[i] += a | b | c | d
            nearest[i] = nearer(q / (a + b + c + d + np.int32(a + b + c + d == 0)), nearest[i])
            odd |= is_bad(q)
        bad |= odd != 0
        if depth > 3:
            for i in range(width):
                xa, xb, xc, xd = np.float64(ra[i]), np.float64(rb[i]), np.float64(rc[i]), np.float64(rd[i])
                a, b, c, d = np.int32(xa == xa), np.int32(xb == xb), np.int32(xc == xc), np.int32(xd == xd)
                sums[0, i] = ((xa if a else 0.0) + (xb if b else 0.0)) + ((xc if c else 0.0) + (xd if d else 0.0))
                counts[0, i] = a + b + c + d
            bad |= pair_up_present(quad, sums, counts, pos, neg, here, near)
    return bad


@compiled()
def pair_up_present(quad: int, sums: Array, counts: Array, pos: Array, neg: Array, here: Array, near: Array) -> bool:
    """Add the sum of four in row 0 to the left-hand sums that wait for it, size after size."""
    depth, width = neg.shape
    level, index, bad = 3, quad, False
    while level < depth and index & 1:
        for i in range(width):
            sums[0, i] = sums[level - 2, i] + sums[0, i]
            counts[0, i] += counts[level - 2, i]
        last = near[1 if level == depth - 1 else 2]
        bad |= count_present_sums(sums[0], counts[0], pos[level], neg[level], here[level], last)
        level, index = level + 1, index >> 1
    if level < depth:
        for i in range(width):
            sums[level - 2, i] = sums[0, i]
            counts[level - 2, i] = counts[0, i]
    return bad


# One look at all features, which of them reach an error: see ``_evidence.signs``.

TILE = 2048
"""Features that are looked at together: their numbers stay in the first-level cache."""
LEAST = np.int32(-(1 << 30))


@compiled()
def reaching(
    statistic: Array, nonzero: Array, ragged: Array, asked: Array, lasts: Array, slack: int, found: Array
) -> None:
    """Flag the features that have what is asked for at ``slack``, and in eras before it at their ends.

    ``asked`` is what each size is asked for in each era, for each number of signs and last for the most there are:
    ``ragged`` says where among `TILE` features any has fewer, whose numbers are ``nonzero``.
    """
    room = np.empty(TILE, np.int32)
    for first in range(0, found.size, TILE):
        mine = found[first : first + TILE]
        mine[:] = True
        before = LEAST
        for era in range(lasts.size):
            if slack > before:
                _rooms(statistic, nonzero, ragged, asked[era], first, room[: mine.size])
                least = np.int32(min(slack, lasts[era]))
                for f in range(mine.size):
                    mine[f] &= room[f] >= least
            before = lasts[era]


@compiled()
def _rooms(statistic: Array, nonzero: Array, ragged: Array, asked: Array, first: int, room: Array) -> None:
    """Write by how much the majorities of some features exceed what is asked for, the most of all sizes."""
    room[:] = LEAST
    for size in range(statistic.shape[0]):
        least = asked[size, asked.shape[1] - 1]
        if least == -LEAST:
            continue  # not looked at
        mine = statistic[size, first : first + room.size]
        if not ragged[size, first // TILE]:
            for f in range(room.size):
                room[f] = max(room[f], np.int32(mine[f] - least))
        else:
            numbers = nonzero[size, first : first + room.size]
            for f in range(room.size):
                room[f] = max(room[f], np.int32(mine[f] - asked[size, np.uintp(numbers[f])]))
