"""Tails of Mann–Whitney's U given the number of values that are not zero, exact to the far end.

One stratum: n₁ and n₂ rows, of which A have values that are not zero, all different and above the zeros. With a of
them in the first group U = E(a) − V, where E(a) = a·n₂ + ½(n₁ − a)(n₂ − A + a) and V counts the pairs of two such
values that the second group wins: its generating function is the Gaussian binomial coefficient [A, a], that of a itself
is hypergeometric. So E exp(tW), W = 2U, is a sum of min(n₁, n₂, A) products, for complex t as well. The tail is the
inverse transform after tilting W by exp(tW) to where the tail begins: nothing cancels, and the smallest probabilities
keep their digits. Strata multiply. In one stratum with zeros W lies in lumps, one for each a, which are summed one by
one. Where both groups hold many values the inner U is taken as normal, whose tail is the larger one.

With bad rows A itself is not known. Turning one of the zeros, drawn at random, into the smallest value above them adds
to U a term of mean 0 given all else, so U of fewer values is smaller in convex order than U of more, and
E(U − c)₊/(u − c) bounds P(U ≥ u) for all of them, whatever c < u.

Everything is in units of W, which is a whole number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.signed_ranks import log_normal_excess, log_normal_tail

Arr = Any
LANES = 16
"""Angles that are worked on side by side."""
NEGLIGIBLE = 1e-18
"""Share of the weight of all a below which one is left out."""
SETTLED = 1e-8
"""The transform has died away where it is this small beside its value at 0."""
MANY = 20
"""Values of either group from which on the U of values that are not zero, beside a sum over a, has its tail by the
saddlepoint."""
LARGE = 256
"""Rows of either group from which on the U of all rows is taken as normal."""
ANGLES = 40_000
"""Angles that are worked on at most; beyond, Chernoff's bound stands for the tail."""
SURPLUS = 0.02
"""Added, as a share, to a tail with normal parts: it is to be never too small."""
NEAR, SEVERAL, ROUGHLY, ENOUGH = 1.5, 4, 0.1, 60
"""Less than so many deviations from the mean so many values are enough for that, and so much is added, where there are
so many rows: nobody minds."""
ROUNDING = 1e-6
"""Added to the logarithm of what is computed: no transform is cut off, and no bound rounded, by more."""
BELOW = (0.6, 1.0, 1.6)
"""Where c lies below u for a bound, in units of the slope of a normal tail; the best of them is taken."""
FARTHEST = 3.0
"""Deviations that it lies below at most: farther off the tilted transform would be all rounding."""
LOG_2 = math.log(2.0)
TERMS = 1e-13
"""Terms of a sum below this share of it end the sum."""


@compiled(plain="itself")
def doubled_end(n1: int, n2: int, A: int, a: int) -> Any:
    """Return 2E(a): what W is at most with a of the A values in the first group."""
    return 2 * a * n2 + (n1 - a) * (n2 - A + a)


@compiled(plain="itself")
def spread(n1: int, n2: int, A: int) -> Any:
    """Return the variance of W."""
    n = n1 + n2
    if n < 2:
        return 0.0
    z = float(n - A)
    return n1 * float(n2) * (n + 1.0 - (z * z * z - z) / (float(n) * (n - 1.0))) / 3.0


@compiled(plain="reference")
def log_choose(n: int, k: int) -> Any:
    """Return the logarithm of a binomial coefficient."""
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


@compiled(plain="plain_tails")
def weigh(n1: int, n2: int, A: int, t: float, weights: Arr, ahead: Arr, behind: Arr) -> Any:
    """Write the weight of each k after tilting by t, k the number of the A values in the smaller group.

    ``ahead[k]`` is ρ^(k+1) and ``behind[k]`` is ρ^(A−k), ρ = e^(−2t). Return log E exp(tW), and the mean and the
    variance of the tilted W.
    """
    small, large = min(n1, n2), max(n1, n2)
    last, first = min(small, A), max(0, A - large)
    z = n1 + n2 - A
    rho = math.exp(-2.0 * t)
    power = rho
    for k in range(last):
        ahead[k] = power
        power *= rho
    power = math.exp(-2.0 * t * (A - last + 1))
    for k in range(last - 1, -1, -1):
        behind[k] = power
        power *= rho
    log_binomial = slope = bend = 0.0
    most = -np.inf
    scale = log_choose(n1 + n2, n1)
    means, bends = weights[1], weights[2]
    for k in range(last + 1):
        a = k if n1 <= n2 else A - k
        if k >= first:
            end = float(doubled_end(n1, n2, A, a))
            weights[0, k] = log_choose(z, n1 - a) - scale + log_binomial + t * end
            means[k], bends[k] = end + slope, bend
            most = max(most, weights[0, k])
        if k < last:
            up, down = 1.0 - behind[k], 1.0 - ahead[k]
            log_binomial += math.log(up / down)
            i, j = 2.0 * (A - k), 2.0 * (k + 1)
            slope += i * behind[k] / up - j * ahead[k] / down
            bend += j * j * ahead[k] / (down * down) - i * i * behind[k] / (up * up)
    total = mean = 0.0
    for k in range(first, last + 1):
        w = math.exp(weights[0, k] - most)
        weights[0, k] = w
        total += w
        mean += w * means[k]
    mean /= total
    variance = 0.0
    for k in range(first, last + 1):
        weights[0, k] /= total
        off = means[k] - mean
        variance += weights[0, k] * (off * off + bends[k])
    return most + math.log(total), mean, max(variance, 0.0)


@compiled
def fan(times: int, j: int, period: int, re: Arr, im: Arr) -> None:
    """Write exp(2πi·times·j/period) for j, j + 1, …, a lane each."""
    unit = 2.0 * math.pi / period
    times %= period
    angle, step = unit * ((times * j) % period), unit * times
    x, y, c, s = math.cos(angle), math.sin(angle), math.cos(step), math.sin(step)
    for lane in range(LANES):
        re[lane], im[lane] = x, y
        x, y = x * c - y * s, x * s + y * c


@compiled
def turn(n1: int, n2: int, A: int, j: int, period: int, weights: Arr, ahead: Arr, behind: Arr, lanes: Arr) -> None:
    """Multiply into ``lanes`` the transform of the tilted W at 2πj/period, j, j+1, …, and at those places plus π."""
    small, large = min(n1, n2), max(n1, n2)
    last, first = min(small, A), max(0, A - large)
    while last > first and weights[0, last] < NEGLIGIBLE:
        last -= 1
    while first < last and weights[0, first] < NEGLIGIBLE:
        first += 1
    b_re, b_im, p_re, p_im, q_re, q_im, e_re, e_im, s_re, s_im, c, s, f_re, f_im, g_re, g_im = lanes[4:20]
    start = first if n1 <= n2 else A - first
    step = n1 + n2 + A - 2 * start - 1 if n1 <= n2 else -(n1 + n2 + A - 2 * start + 1)
    end = doubled_end(n1, n2, A, start)
    fan(-2, j, period, c, s)
    fan(-2 * A, j, period, p_re, p_im)
    fan(end, j, period, e_re, e_im)
    fan(step, j, period, s_re, s_im)
    for lane in range(LANES):
        b_re[lane], b_im[lane] = 1.0, 0.0
        q_re[lane], q_im[lane] = c[lane], s[lane]
        f_re[lane] = f_im[lane] = g_re[lane] = g_im[lane] = 0.0
    for k in range(last + 1):
        if k >= first:
            w = weights[0, k]
            a = k if n1 <= n2 else A - k
            v = -w if ((n1 - a) & 1) & ((n2 - A + a) & 1) else w
            for lane in range(LANES):
                x = b_re[lane] * e_re[lane] - b_im[lane] * e_im[lane]
                y = b_re[lane] * e_im[lane] + b_im[lane] * e_re[lane]
                f_re[lane] += w * x
                f_im[lane] += w * y
                g_re[lane] += v * x
                g_im[lane] += v * y
                x = e_re[lane] * s_re[lane] - e_im[lane] * s_im[lane]
                e_im[lane] = e_re[lane] * s_im[lane] + e_im[lane] * s_re[lane]
                e_re[lane] = x
                x = s_re[lane] * c[lane] - s_im[lane] * s[lane]
                s_im[lane] = s_re[lane] * s[lane] + s_im[lane] * c[lane]
                s_re[lane] = x
        if k < last:
            u, d = behind[k], ahead[k]
            shrink = (1.0 - d) / (1.0 - u)
            for lane in range(LANES):
                up_re, up_im = 1.0 - u * p_re[lane], -u * p_im[lane]
                down_re, down_im = 1.0 - d * q_re[lane], -d * q_im[lane]
                over = shrink / (down_re * down_re + down_im * down_im)
                x = (up_re * down_re + up_im * down_im) * over
                y = (up_im * down_re - up_re * down_im) * over
                r = b_re[lane] * x - b_im[lane] * y
                b_im[lane] = b_re[lane] * y + b_im[lane] * x
                b_re[lane] = r
                r = p_re[lane] * c[lane] + p_im[lane] * s[lane]
                p_im[lane] = p_im[lane] * c[lane] - p_re[lane] * s[lane]
                p_re[lane] = r
                r = q_re[lane] * c[lane] - q_im[lane] * s[lane]
                q_im[lane] = q_re[lane] * s[lane] + q_im[lane] * c[lane]
                q_re[lane] = r
    for lane in range(LANES):
        x = lanes[0, lane] * f_re[lane] - lanes[1, lane] * f_im[lane]
        lanes[1, lane] = lanes[0, lane] * f_im[lane] + lanes[1, lane] * f_re[lane]
        lanes[0, lane] = x
        x = lanes[2, lane] * g_re[lane] - lanes[3, lane] * g_im[lane]
        lanes[3, lane] = lanes[2, lane] * g_im[lane] + lanes[3, lane] * g_re[lane]
        lanes[2, lane] = x


@compiled
def over_power(x: float, y: float, re: float, im: float, power: int) -> Any:
    """Return the real part of (x + iy)/(re + i·im)^power."""
    size = re * re + im * im
    u, v = (x * re + y * im) / size, (y * re - x * im) / size
    if power == 2:
        u = (u * re + v * im) / size
    return u


@compiled(plain="plain_tails")
def summed(
    n1: Arr, n2: Arr, A: Arr, start: int, power: int, t: float, period: int, revival: int, scratch: Arr, lanes: Arr
) -> Any:  # fmt: skip
    """Return the sum over angles that inverts the transform of W tilted by t, weighed by `weigh`; 0 where it is long.

    A transform that has died away comes back after ``revival`` angles of a whole turn, never where that is 0.
    """
    total, j, quarter, quiet = 0.0, 0, period // 4, 0
    falling = math.exp(-t)
    long_enough = period // revival + 1 if revival else 0
    while j <= quarter:
        for lane in range(LANES):
            lanes[0, lane] = lanes[2, lane] = 1.0
            lanes[1, lane] = lanes[3, lane] = 0.0
        for h in range(n1.size):
            base = 5 * h
            turn(n1[h], n2[h], A[h], j, period, scratch[base : base + 3], scratch[base + 3], scratch[base + 4], lanes)
        largest = 0.0
        fan(-start, j, period, lanes[4], lanes[5])
        fan(1, j, period, lanes[6], lanes[7])
        for lane in range(min(LANES, quarter + 1 - j)):
            i = j + lane
            c, s = lanes[4, lane], lanes[5, lane]
            x, y = lanes[0, lane] * c - lanes[1, lane] * s, lanes[0, lane] * s + lanes[1, lane] * c
            u, v = lanes[2, lane] * c - lanes[3, lane] * s, lanes[2, lane] * s + lanes[3, lane] * c
            if start & 1:
                u, v = -u, -v
            here, there = falling * lanes[6, lane], falling * lanes[7, lane]
            both = over_power(x, y, 1.0 - here, there, power) + over_power(u, v, 1.0 + here, -there, power)
            total += both if i == 0 or i == quarter else 2.0 * both
            largest = max(largest, max(abs(x) + abs(y), abs(u) + abs(v)))
        j += LANES
        quiet = quiet + LANES if largest < SETTLED else 0
        if quiet > long_enough:
            break
        if j > ANGLES:
            return 0.0
    return total


@compiled(plain="itself")
def log_transformed(n1: Arr, n2: Arr, A: Arr, place: int, power: int, scratch: Arr, lanes: Arr) -> Any:
    """Return log P(W ≥ place) for power 1, log E(W − place)₊ for power 2; W is summed over strata."""
    mean = variance = 0.0
    revival = 0
    for h in range(n1.size):
        mean += n1[h] * float(n2[h])
        variance += spread(n1[h], n2[h], A[h])
        if A[h] < n1[h] + n2[h]:  # lumps n₁ + n₂ apart: what has died away comes back after one turn of them
            revival = max(revival, n1[h] + n2[h]) if revival == 0 else min(revival, n1[h] + n2[h])
    least = 1.0 / math.sqrt(variance)
    t = max((place - mean) / variance, least)
    cumulant = width = 0.0
    for _ in range(40):
        cumulant = at = width = 0.0
        for h in range(n1.size):
            base = 5 * h
            one, two, three = weigh(
                n1[h], n2[h], A[h], t, scratch[base : base + 3], scratch[base + 3], scratch[base + 4]
            )
            cumulant += one
            at += two
            width += three
        if abs(at - place) <= 0.5 * math.sqrt(width) or width < 1e-3 or (t == least and at >= place):
            break
        t = min(max(t + (place - at) / width, least, 0.3 * t), 3.0 * t)
    start = place + power - 1
    period = 4 * (int(max(14.0 * math.sqrt(width), 45.0 / t, 16.0)) // 4 + 1)
    total = summed(n1, n2, A, start, power, t, period, revival, scratch, lanes)
    if not total > 0.0:  # Chernoff's bound: also of E(W − c)₊, which is at most E exp(t(W − c))/(et)
        return cumulant - t * place - (1.0 + math.log(t) if power == 2 else 0.0)
    return cumulant - t * start + math.log(total / period)


@compiled(plain="itself")
def log_inner(a: int, A: int, place: int, power: int, many: int, scratch: Arr, lanes: Arr) -> Any:
    """Return what `log_transformed` does for the 2U of a of A values against the others, all different.

    It is approximated where both have as ``many``, by the normal law where they are `LARGE`.
    """
    b = A - a
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
    if min(a, b) >= LARGE or (min(a, b) >= many and 2 * a * b - place > 4 * max(a, b)):
        normal = log_normal(a * float(b), a * float(b) * (A + 1.0) / 3.0, place, power)
        return normal if min(a, b) >= LARGE else min(0.0 if power == 1 else np.inf, normal + log_saddle(a, b, place))
    one = np.array([a, b, A])
    return log_transformed(one[0:1], one[1:2], one[2:3], place, power, scratch, lanes)


@compiled(plain="itself")
def log_normal(mean: float, variance: float, place: int, power: int) -> Any:
    """Return the same for a normal W of even whole numbers, a little larger."""
    deviation = math.sqrt(variance)
    if power == 1:
        return min(0.0, SURPLUS + log_normal_tail((place - 1.0 - mean) / deviation))
    return SURPLUS + math.log(deviation) + log_normal_excess((place - mean) / deviation)


@compiled
def tilted(small: int, large: int, s: float) -> Any:
    """Return the mean and the variance of U, of so many values against so many, tilted by s."""
    rho, power, top = math.exp(-s), 1.0, math.exp(-s * large)
    slope, bend = small * float(large), 0.0
    for i in range(1, small + 1):
        power *= rho
        k, high = large + i, top * power
        up, down = k / (1.0 - high), i / (1.0 - power)
        slope += high * up - power * down
        bend += power * down * down - high * up * up
    return slope, bend


@compiled(plain="reference")
def plus_log_gaussian(total: float, small: int, large: int, s: float) -> Any:
    """Return a number plus the logarithm of the Gaussian binomial coefficient [small + large, small] at e^(−s)."""
    rho, power, top, product = math.exp(-s), 1.0, math.exp(-s * large), 1.0
    for _ in range(1, small + 1):
        power *= rho
        product *= (1.0 - top * power) / (1.0 - power)
        if product > 1e250:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@compiled(plain="plain_tails")
def saddle(small: int, large: int, u: float) -> Any:
    """Return the s by which U is tilted to the mean u, and its variance there."""
    pairs = small * float(large)
    s = (u - 0.5 * pairs) / (pairs * (small + large + 1.0) / 12.0)
    bend = 0.0
    for _ in range(12):
        slope, bend = tilted(small, large, s)
        step = (u - slope) / bend
        s += step
        if abs(step) < 1e-5 * s:
            break
    return s, bend


@compiled(plain="reference")
def log_saddle(a: int, b: int, place: int) -> Any:
    """Return the logarithm of P(2U ≥ place) over its normal approximation, U of a values against b, all different.

    By Lugannani and Rice, with Daniels' second correction for continuity (1980; Biometrika 1987, 74). E(2U − place)₊ is
    about as much smaller than a normal one, or more.
    """
    small, large = min(a, b), max(a, b)
    pairs = small * float(large)
    variance = pairs * (a + b + 1.0) / 12.0
    u = 0.5 * (place + (place & 1)) - 0.5
    off = u - 0.5 * pairs
    y = off / math.sqrt(variance)
    if y < 2.0:  # nearer to the middle the normal tail is close
        return 0.0
    s, bend = saddle(small, large, u)
    cumulant = plus_log_gaussian(s * pairs - log_choose(a + b, a), small, large, s)
    w = math.sqrt(max(2.0 * (s * u - cumulant), 1e-300))
    v = 2.0 * math.sinh(0.5 * s) * math.sqrt(bend)
    # Φ̄(w) + φ(w)(1/v − 1/w) over Φ̄(y)
    ratio = 1.0 + math.exp(-0.5 * w * w - log_normal_tail(w)) * 0.3989422804014327 * (1.0 / v - 1.0 / w)
    return log_normal_tail(w) + math.log(max(ratio, 1e-12)) - log_normal_tail(y)


@compiled(plain="itself")
def heaviest(n1: int, n2: int, A: int, place: int) -> Any:
    """Return which lump is the heaviest beyond a place, about, and the variance of lumps around it."""
    n = n1 + n2
    centre = A * (n1 / n)
    wide = centre * (1.0 - n1 / n) * (n - A) / max(1.0, n - 1.0)
    inner = centre * (A - centre) * (A + 1.0) / 3.0
    # W given a: mean n₁n₂ + a·n − A·n₁, variance a(A − a)(A + 1)/3
    reach = (place - n1 * float(n2)) / n
    both = max(wide * n * n + inner, 1e-300)
    return centre + reach * wide * n * n / both, wide * inner / both


@compiled(plain="plain_tails")
def log_lumps(
    n1: int, n2: int, A: int, place: int, power: int, halves: bool, many: int, scratch: Arr, lanes: Arr
) -> Any:  # fmt: skip
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
def log_beyond(
    n1: Arr, n2: Arr, A: Arr, place: int, power: int, halves: bool, many: int, scratch: Arr, lanes: Arr
) -> Any:  # fmt: skip
    """Return log P(W ≥ place) for power 1, log E(W − place)₊ for power 2, by the way that fits."""
    if n1.size == 1:
        if A[0] < n1[0] + n2[0]:
            return log_lumps(n1[0], n2[0], A[0], place, power, halves, many, scratch, lanes)
        if min(n1[0], n2[0]) >= LARGE:
            return log_normal(n1[0] * float(n2[0]), spread(n1[0], n2[0], A[0]), place, power)
    return log_transformed(n1, n2, A, place, power, scratch, lanes)


@compiled(plain="itself")
def log_tails(n1: Arr, n2: Arr, A: Arr, w: Arr, bound: bool, halves: bool, out: Arr) -> None:
    """Write log P(W ≥ w), never too small, 0 where w is not above the mean; (items, strata) sizes and A, (items,) w.

    With ``bound`` also that of every smaller A; with ``halves`` that of values of which some are equal and their pairs
    count ½ each. That is at most twice as large, and no larger than the bound, as U is then a mean of U without ties.
    """
    strata = n1.shape[1]
    longest = LARGE + 2  # of one stratum larger groups are not transformed
    for f in range(n1.shape[0] if strata > 1 else 0):
        for h in range(strata):
            longest = max(longest, min(n1[f, h], n2[f, h]) + 2)
    scratch, lanes = np.empty((5 * strata, longest)), np.empty((20, LANES))
    for f in range(n1.shape[0]):
        mean = variance = most = 0.0
        rows = 0
        for h in range(strata):
            mean += n1[f, h] * float(n2[f, h])
            variance += spread(n1[f, h], n2[f, h], A[f, h])
            most += doubled_end(n1[f, h], n2[f, h], A[f, h], min(n1[f, h], A[f, h]))
            rows += n1[f, h] + n2[f, h]
        out[f] = 0.0 if w[f] <= most else -np.inf
        if w[f] <= mean or w[f] > most:
            continue
        near = strata == 1 and A[f, 0] < rows and rows >= ENOUGH
        near = near and (w[f] - mean) * (w[f] - mean) < NEAR * NEAR * variance
        many, surplus = (SEVERAL, ROUGHLY) if near else (MANY, ROUNDING)
        inside = halves and not bound and strata == 1 and A[f, 0] < rows  # each lump is doubled by itself
        factor = LOG_2 if halves and not inside and not bound else 0.0
        for look in range(3 if bound else 1):
            below = min(BELOW[look] * variance / (w[f] - mean), FARTHEST * math.sqrt(variance))
            below = max(1, int(below)) if bound else 0
            value = log_beyond(
                n1[f], n2[f], A[f], w[f] - below, 2 if bound else 1, inside, many, scratch, lanes
            )  # fmt: skip
            value += surplus + factor - (math.log(below) if bound else 0.0)
            out[f] = min(out[f], value)
