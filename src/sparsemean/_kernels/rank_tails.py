"""Tails of Mann–Whitney's U given the number of values that are not zero, never too small, by the way that fits.

In one stratum with zeros W = 2U lies in lumps, one for each number of values in the first group, which are summed one
by one. Where a tail is too large to select anything that of many values is taken as normal, which need not be proved.
Else each lump has its sub-Gaussian bound; where that decides nothing the tail is summed by transforms, which are exact
and stop where a bound says so: see `rank_transforms`.

With bad rows the number A of values is not known. Turning one of the zeros, drawn at random, into the smallest value
above them adds to U a term of mean 0 given all else, so U of fewer values is smaller in convex order than U of more,
and E(U − c)₊/(u − c) bounds P(U ≥ u) for all of them, whatever c < u.
"""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array
from sparsemean._kernels.rank_transforms import LANES, ROWS_OF_LANES, doubled_end, log_choose, log_transformed, spread
from sparsemean._kernels.signed_ranks import log_normal_excess, log_normal_tail

MANY, ANY = 20, 2
"""Values of either group from which on the U of values that are not zero, beside a sum over a, has its tail by its
cumulants; and where no more than about its size is asked for."""
LARGE = 256
"""Rows of either group, in every stratum, from which on the U of all rows is taken as normal."""
SURPLUS = 0.02
"""Added, as a share, to a tail with normal parts: it is to be never too small."""
SAVED, CLOSED, SUMMED = -2, -1, 0
"""In place of that number: by bounds of each lump in closed form, or by the transform of all together; or a bound of
what twice a tail has more than 1, summed over lumps."""
SHORT, NEWTON = 5.0, 6
"""Over the number of values, by so much U may be tilted where its cumulants are to tell its law; steps to that."""
CLOSE, SMALLEST, ROUGHLY = 0.2, 2.0, 0.05
"""What is approximate, of a bound, is no farther off; where there are fewer values, and what is added there."""
ROUNDING = 1e-6
"""Added to the logarithm of what is computed: no transform is cut off, and no bound rounded, by more."""
MOST_SPLITS = 32
"""Splits of replaced rows between two groups that are looked at, at most."""
BELOW = (0.6, 1.0, 1.6)
"""Where c lies below u for a bound, in units of the slope of a normal tail; the best of them is taken."""
FARTHEST = 3.0
"""Deviations that it lies below at most: farther off the tilted transform would be all rounding."""
LOG_2, LOG_TAU = math.log(2.0), math.log(2.0 * math.pi)
TERMS = 1e-13
"""Terms of a sum below this share of it end the sum."""
LGAMMA = 1e-15
"""Share of the logarithm of a factorial that may be rounded off, where three are added."""


@compiled(plain="itself")
def log_inner(a: int, A: int, place: int, power: int, many: int, scratch: Array, lanes: Array) -> float:
    """Return what `log_transformed` does for the 2U of a of A values against the others, all different.

    It is approximated where both have as ``many``, by the normal law where they are `LARGE`; or it is a bound.
    """
    b = A - a
    if many < SUMMED and min(a, b) >= power:
        deviation, x = math.sqrt(a * float(b) * (A + 1.0) / 3.0), float(place) - a * float(b)
        if many == SAVED:
            return math.log(max(1.0 - 2.0 * math.exp(-0.5 * (min(x, 0.0) / deviation) ** 2), 1e-300))
        if power == 1:
            return -0.5 * (max(x, 0.0) / deviation) ** 2 if place <= 2 * a * b else -np.inf
        beyond = deviation * math.exp(0.5 * LOG_TAU + log_normal_tail(abs(x) / deviation))
        return math.log(max(beyond - min(x, 0.0), 1e-300))
    if place <= 0:
        return 0.0 if power == 1 else math.log(max(a * float(b) - place, 1e-300))
    if place > 2 * a * b or (place == 2 * a * b and power == 2):
        return -np.inf
    if min(a, b) == 1:  # every place is as likely as any other
        above = (2 * a * b - place) // 2 + 1
        if power == 1:
            return math.log(above / float(A))
        return math.log(above * (a * float(b) + (a * b - above + 1.0) - place) / A)
    # At the far end few arrangements are left, which are counted exactly while there is room for them.
    if min(a, b) >= many and 2 * a * b - place > many // 5 * max(a, b):
        tail, tilt = saddle(a, b, place)
        if power == 1:
            return min(0.0, SURPLUS + tail)
        beyond = log_normal_excess(tilt) - log_normal_tail(tilt)  # as far as a normal law so tilted lies beyond
        return SURPLUS + tail + beyond + 0.5 * math.log(a * float(b) * (A + 1.0) / 3.0)
    one = np.array([a, b, A])
    return log_transformed(one[0:1], one[1:2], one[2:3], place, power, scratch, lanes)


@compiled(plain="itself")
def log_normal(mean: float, variance: float, place: int, power: int) -> float:
    """Return the same for a normal W of even whole numbers, a little larger."""
    deviation = math.sqrt(variance)
    if power == 1:
        return min(0.0, SURPLUS + log_normal_tail((place - 1.0 - mean) / deviation))
    return SURPLUS + math.log(deviation) + log_normal_excess((place - mean) / deviation)


@compiled(plain="itself")
def saddle(a: int, b: int, place: int) -> tuple[float, float]:
    """Return log P(2U ≥ place), about, U of a values against b, all different, and the tilt that leads there.

    Both in standard deviations of U + V, V uniform on (−½, ½): its tails at whole numbers less ½ are those of U. With
    its first cumulants the tail is normal at r* = r + log(q/r)/r (Barndorff-Nielsen 1986; Biometrika 73), r the signed
    root of the likelihood ratio and q the tilt in its own deviations.
    """
    n, x, y = a + b + 1.0, float(a), float(b)
    variance = x * y * n / 12.0 + 1.0 / 12.0
    fourth = -(x * y * n * (x * x + x * y + y * y + x + y) + 1.0) / 120.0 / (variance * variance)
    sixth = 1.0
    for k, sign in ((x + y, 1.0), (x, -1.0), (y, -1.0)):  # 1⁶ + 2⁶ + … + k⁶
        sixth += sign * k * (k + 1.0) * (2.0 * k + 1.0) * (k * (k * k * (3.0 * k + 6.0) - 3.0) + 1.0) / 42.0
    sixth /= 252.0 * variance * variance * variance
    off = (0.5 * (place + (place & 1)) - 0.5 - 0.5 * x * y) / math.sqrt(variance)
    if off < 1.0:  # nearer to the middle the normal tail is close
        return log_normal_tail(off), off
    tilt, most = off, SHORT * math.sqrt(variance) / n
    for _ in range(NEWTON):
        bend = 1.0 + tilt * tilt * (fourth / 2.0 + sixth / 24.0 * tilt * tilt)
        short = off - tilt * (1.0 + tilt * tilt * (fourth / 6.0 + sixth / 120.0 * tilt * tilt))
        tilt = min(tilt + short / max(bend, 0.1), most)
    square = tilt * tilt
    bend = max(1.0 + square * (fourth / 2.0 + sixth / 24.0 * square), 0.1)
    cumulant = square * (0.5 + square * (fourth / 24.0 + sixth / 720.0 * square))
    root = math.sqrt(max(2.0 * (tilt * off - cumulant), 0.25))
    return log_normal_tail(root + math.log(tilt * math.sqrt(bend) / root) / root), tilt


@compiled(plain="itself")
def heaviest(n1: int, n2: int, A: int, place: int) -> tuple[float, float]:
    """Return which lump is the heaviest beyond a place, about, and the variance of lumps around it."""
    n = n1 + n2
    centre = A * (n1 / n)
    wide = centre * (1.0 - n1 / n) * (n - A) / max(1.0, n - 1.0)
    inner = centre * (A - centre) * (A + 1.0) / 3.0
    # W given a: mean n₁n₂ + a·n − A·n₁, variance a(A − a)(A + 1)/3
    reach = (place - n1 * float(n2)) / n
    both = max(wide * n * n + inner, 1e-300)
    return centre + reach * wide * n * n / both, wide * inner / both


@compiled(plain="itself")
def log_lumps(
    n1: int, n2: int, A: int, place: int, power: int, halves: bool, many: int, scratch: Array, lanes: Array
) -> float:  # fmt: skip
    """Return what `log_transformed` does for one stratum with zeros, lump by lump from the heaviest on.

    With ``halves`` the probability of each lump's own U is doubled, as far as that is possible.
    """
    n = n1 + n2
    z = n - A
    first, last = max(0, A - n2), min(n1, A)
    middle = int(min(max(round(heaviest(n1, n2, A, place)[0]), first), last))
    top = log_choose(A, middle) + log_choose(z, n1 - middle) - log_choose(n, n1)
    total, most = 0.0, -np.inf
    for side in range(2):
        a, logs = middle, top
        while True:
            if side == 0 or a > middle:
                z1, z2 = n1 - a, n2 - A + a
                inside = log_inner(a, A, place - 2 * a * z2 - z1 * z2, power, many, scratch, lanes)
                value = logs + (min(0.0, inside + LOG_2) if halves else inside)
                if value > most:
                    total = total * math.exp(most - value) + 1.0
                    most = value
                elif most > -np.inf:
                    share = math.exp(value - most)
                    total += share
                    if share < TERMS * total:
                        break
            if side == 0:
                if a == first:
                    break
                logs += math.log(a * float(z - n1 + a) / ((A - a + 1.0) * (n1 - a + 1.0)))
                a -= 1
            else:
                if a == last:
                    break
                logs += math.log((A - a) * float(n1 - a) / ((a + 1.0) * (z - n1 + a + 1.0)))
                a += 1
    return most + math.log(total) if total > 0.0 else -np.inf


@compiled(plain="itself")
def log_hypergeometric_tail(n1: int, n2: int, a: int, A: int) -> float:
    """Return log P(at least a of the A are among the n₁ of n₁ + n₂ rows), never too small, a not below the mean."""
    n, logs, term, total = n1 + n2, 0.0, 1.0, 1.0
    if a > max(0, A - n2):
        logs = log_choose(A, a) + log_choose(n - A, n1 - a) - log_choose(n, n1) + ROUNDING
        logs += LGAMMA * math.lgamma(n + 1.0)
        while a < min(n1, A) and term > TERMS * total:
            term *= (A - a) * float(n1 - a) / ((a + 1.0) * (n - A - n1 + a + 1.0))
            total += term
            a += 1
    return min(0.0, logs + math.log(total))


@compiled(plain="itself")
def log_moved_tails(n: Array, a: Array, b: Array, more: Array, out: Array) -> None:
    """Write log of the largest tail of a_i of n_i1 rows where b_i of n_i2 are, once ``more``_i rows have been replaced.

    Each of these lowers a or raises b. The tail rises with both, so of many splits of them a few bounds will do.
    """
    for i in range(a.size):
        r, looks = more[i], min(more[i], MOST_SPLITS)
        out[i] = -np.inf
        for k in range(looks + 1 if looks == r else looks):
            down = k if looks == r else (k + 1) * r // looks
            up = r - (k if looks == r else k * r // looks)
            first, second = a[i] - down, min(b[i] + up, n[i, 1])
            if first <= 0 or first * float(n[i, 1]) <= second * float(n[i, 0]):
                out[i] = 0.0
                break
            out[i] = max(out[i], log_hypergeometric_tail(n[i, 0], n[i, 1], first, first + second))


@compiled(plain="itself")
def log_beyond(
    n1: Array, n2: Array, A: Array, place: int, power: int, halves: bool, many: int, scratch: Array, lanes: Array
) -> float:  # fmt: skip
    """Return log P(W ≥ place) for power 1, log E(W − place)₊ for power 2, by the way that fits or the one named."""
    sizes = int(n1[0]), int(n2[0]), int(A[0])  # of Python's own kind, which it is faster with
    if n1.size == 1 and (many < SUMMED or (many != SUMMED and A[0] < n1[0] + n2[0])):
        return log_lumps(*sizes, int(place), power, halves, many, scratch, lanes)
    mean = variance = 0.0
    large = many != SUMMED
    for h in range(n1.size):
        large = large and A[h] == n1[h] + n2[h] and min(n1[h], n2[h]) >= LARGE
        mean += n1[h] * float(n2[h])
        variance += spread(n1[h], n2[h], A[h])
    if large:
        return log_normal(mean, variance, place, power)
    return log_transformed(n1, n2, A, place, power, scratch, lanes)


@compiled(plain="itself")
def log_tail(
    n1: Array, n2: Array, A: Array, w: int, below: Array, halves: bool, many: int, scratch: Array, lanes: Array
) -> float:
    """Return log P(W ≥ w); or the best bound of that of every smaller A, each from a c that lies so far ``below`` w.

    The c of the best one is put first: a dearer way, later on, is gone with that one alone.
    """
    if below[0] == 0:
        return log_beyond(n1, n2, A, w, 1, halves, many, scratch, lanes)
    best = np.inf
    for look in range(1 if many == SUMMED else below.size):
        value = log_beyond(n1, n2, A, w - below[look], 2, False, many, scratch, lanes) - math.log(below[look])
        if value < best:
            best = value
            below[0], below[look] = below[look], below[0]
    return best


@compiled(plain="itself")
def log_tails(
    n1: Array, n2: Array, A: Array, w: Array, bound: bool, halves: bool, goal: Array, top: Array, out: Array
) -> None:
    """Write log P(W ≥ w), 0 where w is not above the mean; (items, strata) sizes and A, the rest an item each.

    It may be approximate where it is larger than ``top``, which −∞ asks for; elsewhere it is proved never to be too
    small, and may be the ``goal`` where it is less; where the goal is above 0 it is a closed bound. With ``bound`` also
    that of every smaller A; with ``halves`` that of values of which some are equal and their pairs count ½ each. That
    is at most twice as large, and no larger than a bound, as U is then a mean of U without ties.
    """
    strata, longest = n1.shape[1], 3
    for f in range(n1.shape[0]):
        for h in range(strata):
            longest = max(longest, min(n1[f, h], n2[f, h]) + 2)
    scratch, lanes = np.empty((5 * strata, longest)), np.empty((ROWS_OF_LANES, LANES))
    below = np.zeros(len(BELOW) if bound else 1, np.int64)
    for f in range(n1.shape[0]):
        mean = variance = most = logs = 0.0
        rows = 0
        for h in range(strata):
            mean += n1[f, h] * float(n2[f, h])
            variance += spread(n1[f, h], n2[f, h], A[f, h])
            most += doubled_end(n1[f, h], n2[f, h], A[f, h], min(n1[f, h], A[f, h]))
            rows += n1[f, h] + n2[f, h]
            logs += math.lgamma(n1[f, h] + n2[f, h] + 1.0)
        out[f] = 0.0 if w[f] <= most else -np.inf
        if w[f] <= mean or w[f] > most:
            continue
        for look in range(below.size if bound else 0):
            far = min(BELOW[look] * variance / (w[f] - mean), FARTHEST * math.sqrt(variance))
            below[look] = max(1, int(far))
        inside = halves and not bound and strata == 1 and A[f, 0] < rows  # each lump is doubled by itself
        factor = LOG_2 if halves and not bound else 0.0
        surplus, closed = ROUNDING + LGAMMA * logs, np.inf
        if strata == 1:
            closed = log_tail(n1[f], n2[f], A[f], w[f], below, False, CLOSED, scratch, lanes) + surplus + factor
        out[f] = min(0.0, closed)
        if closed <= goal[f] or goal[f] > 0.0:
            continue
        rough, about = -np.inf, strata == 1 and top[f] == -np.inf
        small = strata == 1 and min(n1[f, 0], n2[f, 0], A[f, 0]) < MANY
        if strata > 1 or top[f] < 0.0:
            # after the bound, for the c that is best by this one is the one of the exact tail
            rough = log_tail(n1[f], n2[f], A[f], w[f], below, inside, ANY, scratch, lanes)
            rough += (ROUGHLY if strata == 1 else ROUNDING) + (0.0 if inside else factor)
            unsure = 0.0 if about or strata > 1 else SMALLEST if small else CLOSE if bound else 0.0
            if rough > top[f] + unsure:  # of a bound the closed one, which is proved, is what stays
                out[f] = out[f] if bound and strata == 1 and not about else min(out[f], rough)
                continue
        few = inside and rows < 2 * LARGE  # no lump is approximated
        way = LARGE if few else SUMMED
        exact = log_tail(n1[f], n2[f], A[f], w[f], below, few, way, scratch, lanes) + surplus
        exact += 0.0 if few else factor
        if inside and not few:  # each lump is doubled as far as that is possible
            saved = log_tail(n1[f], n2[f], A[f], w[f], below, False, SAVED, scratch, lanes) - surplus
            exact += math.log(1.0 - min(0.5, math.exp(saved - exact)))
        exact = max(goal[f], min(closed, exact)) if strata == 1 else exact
        out[f] = min(0.0 if bound or small else top[f], exact)
