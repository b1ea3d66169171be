"""The compiled loops for data with gaps: NaN is a value that is not there. The order of additions is unchanged.

A missing value enters a sum as zero, which changes no sum, and is not counted; a bucket without any value counts for
nothing. ``pos``, ``neg`` and ``here`` have a row for each level: sums above zero, below zero, and buckets that hold a
value; ``seen`` is the number of values, ``near`` codes the nearest mean of the last level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.loops import is_bad, nearer, row, rows_below
from sparsemean._kernels.rounding import DOUBLES, ROUNDING

Arr = Any
LANES = 32
"""Columns side by side about a null value: what lies in one or two cache lines is read together."""


@compiled
def any_missing(memory: Arr, start: int, step: int, across: int, rows: Arr, width: int) -> bool:
    """Whether some of ``rows`` have a value missing in one of ``width`` columns."""
    for index in rows:
        missing = 0
        for i in range(width):
            x = np.float64(memory[np.uintp(start + index * step + i * across)])
            missing |= x != x
        if missing:
            return True
    return False


@compiled
def settle(sums: Arr, counts: Arr, pos: Arr, neg: Arr, here: Arr, near: Arr) -> bool:
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


@compiled
def count_buckets(
    memory: Arr, start: int, step: int, order: Arr, offsets: Arr, sums: Arr, counts: Arr,
    pos: Arr, neg: Arr, here: Arr, seen: Arr, near: Arr,
) -> bool:  # fmt: skip
    """Count one level of buckets in ``sums.size`` neighbouring columns."""
    width = sums.size
    bad = False
    for j in range(offsets.size - 1):
        for i in range(width):
            sums[i] = 0.0
            counts[i] = 0
        for k in range(offsets[j], offsets[j + 1]):
            at = start + order[k] * step
            values = memory[at : at + width]
            for i in range(width):
                x = np.float64(values[i])
                there = x == x
                sums[i] += x if there else 0.0
                counts[i] += np.int32(there)
        bad |= settle(sums, counts, pos, neg, here, near)
        for i in range(width):
            seen[i] += counts[i]
    return bad


@compiled
def count_places(
    memory: Arr, start: int, step: int, places: Arr, blank: Arr, sums: Arr, counts: Arr,
    pos: Arr, neg: Arr, here: Arr, near: Arr,
) -> bool:  # fmt: skip
    """Count nested buckets of 1, 2, 4, … places in neighbouring columns, four places an inner loop.

    ``blank`` is NaN, so that a place without a row is one more value that is not there. ``sums`` and ``counts`` keep
    what waits for its right-hand neighbour, as in ``loops.count_places``; there are three rows of ``near``.
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
            bad |= pair_up(quad, sums, counts, pos, neg, here, near)
    return bad


@compiled
def pair_up(quad: int, sums: Arr, counts: Arr, pos: Arr, neg: Arr, here: Arr, near: Arr) -> bool:
    """Add the sum of four in row 0 to the left-hand sums that wait for it, size after size."""
    depth, width = neg.shape
    level, index, bad = 3, quad, False
    while level < depth and index & 1:
        for i in range(width):
            sums[0, i] = sums[level - 2, i] + sums[0, i]
            counts[0, i] += counts[level - 2, i]
        last = near[1 if level == depth - 1 else 2]
        bad |= settle(sums[0], counts[0], pos[level], neg[level], here[level], last)
        level, index = level + 1, index >> 1
    if level < depth:
        for i in range(width):
            sums[level - 2, i] = sums[0, i]
            counts[level - 2, i] = counts[0, i]
    return bad


@compiled
def count_columns(
    memory: Arr, start: int, step: int, across: int, order: Arr, offsets: Arr, bases: Arr, sums: Arr, counts: Arr,
    pos: Arr, neg: Arr, here: Arr, seen: Arr, near: Arr,
) -> bool:  # fmt: skip
    """Count any nest of buckets, one column after the other, in memory of any layout (`loops.count_columns`)."""
    depth, width = neg.shape
    bad = False
    for c in range(width):
        at = start + c * across
        for k in range(order.size):
            x = np.float64(memory[np.uintp(at + order[k] * step)])
            there = x == x
            sums[k] = x if there else 0.0
            counts[k] = np.int32(there)
            seen[c] += np.int32(there)
        for h in range(depth):
            base = bases[h]
            for j in range(bases[h + 1] - base - 1):
                total, count = sums[offsets[base + j]], counts[offsets[base + j]]
                for k in range(offsets[base + j] + 1, offsets[base + j + 1]):
                    total += sums[k]
                    count += counts[k]
                sums[j], counts[j] = total, count
                pos[h, c] += np.int32(total > 0.0)
                neg[h, c] += np.int32(total < 0.0)
                here[h, c] += np.int32(count > 0)
        for j in range(bases[depth] - bases[depth - 1] - 1):
            near[c] = nearer(sums[j] / max(1, counts[j]), near[c])
            bad |= is_bad(sums[j])
    return bad


# About null values: the same counts, of any layout, with gaps or without, where rounding decides no sign.


@compiled
def count_centred(
    memory: Arr, start: int, step: int, across: int, order: Arr, offsets: Arr, bases: Arr, null: Arr, reach: Arr,
    sums: Arr, sizes: Arr, counts: Arr, pos: Arr, neg: Arr, here: Arr, seen: Arr, near: Arr,
) -> bool:  # fmt: skip
    """Count any nest of buckets of values less ``null``, some columns side by side, one largest bucket at a time.

    A sum is zero as ``rounding.settle`` has it; ``reach`` is the precision of values, 0 where the null value is. There
    is room for a largest bucket in ``sums``, of values, in ``sizes``, of their sizes, and in ``counts``.
    """
    depth, width = neg.shape
    begin, end = np.empty(depth, np.int64), np.empty(depth, np.int64)
    bad = False
    for first in range(0, width, LANES):
        lanes = min(LANES, width - first)
        about, there = null[first : first + lanes], seen[first : first + lanes]
        for top in range(bases[depth] - bases[depth - 1] - 1):
            low, high = top, top + 1
            for h in range(depth - 1, -1, -1):
                begin[h], end[h] = low, high
                low, high = offsets[bases[h] + low], offsets[bases[h] + high]
            for k in range(low, high):
                at = start + order[k] * step + first * across
                away_from(memory, at, across, about, sums[k - low], sizes[k - low], counts[k - low], there)
            below = low
            for h in range(depth):
                base = bases[h]
                for j in range(begin[h], end[h]):
                    a, b, to = offsets[base + j] - below, offsets[base + j + 1] - below, j - begin[h]
                    total, size, count = sums[to], sizes[to], counts[to]
                    if to < a:
                        put(total, size, count, sums[a], sizes[a], counts[a])
                    for k in range(a + 1, b):
                        put_on(total, size, count, sums[k], sizes[k], counts[k])
                    most = np.float64(rows_below(j, h, offsets, bases))
                    mine = slice(first, first + lanes)
                    bad |= settle_about(
                        total, size, count, about, reach[mine], most, pos[h, mine], neg[h, mine], here[h, mine],
                        near[mine], h == depth - 1,
                    )  # fmt: skip
                below = begin[h]
    return bad


@compiled
def away_from(memory: Arr, at: int, across: int, null: Arr, sums: Arr, sizes: Arr, counts: Arr, seen: Arr) -> None:
    """Write neighbouring values of a row less their null values, what they are in size, and which are there."""
    for i in range(null.size):
        x = np.float64(memory[np.uintp(at + i * across)])
        there = x == x
        away = x - null[i] if there else 0.0
        sums[i], sizes[i], counts[i] = away, abs(away), np.int32(there)
        seen[i] += np.int32(there)


@compiled
def put(sums: Arr, sizes: Arr, counts: Arr, other: Arr, of_sizes: Arr, of_counts: Arr) -> None:
    """Copy the sums of a bucket."""
    for i in range(sums.size):
        sums[i], sizes[i], counts[i] = other[i], of_sizes[i], of_counts[i]


@compiled
def put_on(sums: Arr, sizes: Arr, counts: Arr, other: Arr, of_sizes: Arr, of_counts: Arr) -> None:
    """Add the sums of a bucket to those of the one that it is in."""
    for i in range(sums.size):
        sums[i] += other[i]
        sizes[i] += of_sizes[i]
        counts[i] += of_counts[i]


@compiled
def rounded_off(size: float, count: float, null: float, reach: float, rows: float) -> float:
    """Return how far rounding may have driven a sum about a null value from zero, as ``rounding.settle`` has it."""
    return ROUNDING * reach * (count * abs(null) + size) + min(reach, DOUBLES) * (rows * size)


@compiled
def settle_about(
    sums: Arr, sizes: Arr, counts: Arr, null: Arr, reach: Arr, most: float, pos: Arr, neg: Arr, here: Arr, near: Arr,
    top: bool,
) -> bool:  # fmt: skip
    """Count one bucket about null values in every column; True if a sum is not finite."""
    bad = 0
    for i in range(null.size):
        s, count = sums[i], np.float64(counts[i])
        off = not (abs(s) <= rounded_off(sizes[i], count, null[i], reach[i], most))
        pos[i] += np.int32(off & (s > 0.0))
        neg[i] += np.int32(off & (s < 0.0))
        here[i] += np.int32(counts[i] > 0)
        bad |= is_bad(s)
    if top:
        for i in range(null.size):
            s, count = sums[i], np.float64(counts[i])
            off = not (abs(s) <= rounded_off(sizes[i], count, null[i], reach[i], most))
            near[i] = nearer(s / max(1.0, count) if off else 0.0, near[i])
    return bad != 0
