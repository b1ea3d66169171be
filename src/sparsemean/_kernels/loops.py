"""What loops that count signs share, those of data with gaps, which features reach an error, walks over bucket means.

Rows are sliced before the inner loops because an index that might be negative keeps LLVM from using vector
instructions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array
from sparsemean._util.records import FloatArray

MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
BEYOND = float(np.finfo(np.float64).max)
"""``nearest`` before any value was seen: the code of infinity."""


@compiled(plain="itself")
def bits(x: float) -> np.int64:
    """Return the 64 bits of a float as an integer."""
    return np.float64(x).view(np.int64)


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
    code = np.int64((bits(x) & MAGNITUDE) - 1).view(np.float64)
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


# Walks of the subgradient method over sorted bucket means.

NEAR = 16
"""Bucket means that a step passes one by one before it looks for its place by halving."""


@compiled()
def count_below(x: Array, J: int, mu: float) -> int:
    """Return #{x < μ} of J sorted values, by halving."""
    low, high = 0, J
    while low < high:
        middle = (low + high) // 2
        if x[middle] < mu:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def walk(ordered: Array, alpha: float, eta: float, times: Array, out: Array) -> None:
    """Run the subgradient method on rows of sorted bucket means; ``out[k]`` is μ̂ after ``times[k]`` steps.

    NaN, which stands for a bucket without a value and is sorted to the end, does not count.
    """
    for f in range(ordered.shape[0]):
        x = ordered[f]
        J = count_below(x, x.size, np.inf)
        u = v = alpha
        t = below = 0
        for k in range(times.size):
            while True:
                mu = u * u - v * v
                if t >= times[k]:
                    break
                left = NEAR  # most steps pass a few; where many are equal, as zeros are, one may pass all of them
                while left and below < J and x[below] < mu:
                    below, left = below + 1, left - 1
                while left and below > 0 and x[below - 1] >= mu:
                    below, left = below - 1, left - 1
                if left == 0:
                    below = count_below(x, J, mu)
                through = below
                if below < J and x[below] == mu:
                    through = count_below(x, J, np.nextafter(mu, np.inf))
                beta = (J - through - below) / max(1, J)
                u *= 1.0 + eta * beta
                v *= 1.0 - eta * beta
                t += 1
            out[k, f] = mu


def subgm(means: FloatArray, *, alpha: float, eta: float, times: Iterable[int]) -> FloatArray:
    """Run the subgradient method on (J, features) bucket means; μ̂ at each of the rising ``times``."""
    at = np.fromiter(times, dtype=np.intp)
    out = np.empty((at.size, means.shape[1]))
    walk(np.sort(means.T, axis=1), alpha, eta, at, out)
    return out
