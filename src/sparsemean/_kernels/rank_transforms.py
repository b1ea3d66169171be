"""Tails of Mann–Whitney's U given the number of values that are not zero, by its transform, from any number of strata.

One stratum: n₁ and n₂ rows, of which A have values that are not zero, all different and above the zeros. With a of
them in the first group U = E(a) − V, where E(a) = a·n₂ + ½(n₁ − a)(n₂ − A + a) and V counts the pairs of two such
values that the second group wins: its generating function is the Gaussian binomial coefficient [A, a], that of a itself
is hypergeometric. So E exp(tW), W = 2U, is a sum of min(n₁, n₂, A) products, for complex t as well. Strata multiply.

The tail is the inverse transform after tilting W by exp(tW) to where the tail begins: nothing cancels, and the smallest
probabilities keep their digits. P(W ≥ w) is e^(K − tw) times the mean, over the tilted law, of e^(−t(W − w)) from w on.
That function is summed at all angles of the lattice of W; or, where they are too many, it is replaced by the smallest
function above it whose transform ends at an angle chosen in advance (Graham and Vaaler 1981, Trans. Amer. Math. Soc.
265): what is found is then never too small, however the lumps of strata with zeros fall together beyond that angle.
Angles are as far apart as makes the function repeat itself after a period; it is positive, so that only adds.

Everything is in units of W, which is a whole number.
"""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array

LANES = 16
"""Angles that are worked on side by side."""
ROWS_OF_LANES = 20
"""Numbers that are kept of each of them."""
NEGLIGIBLE = 1e-18
"""Share of the weight of all a below which one is left out."""
LEFT_OUT, LITTLE = (22.0, 26.0, 34.0), 1e-5
"""The transform has died away where its logarithm is below −22 at all further angles; −26 for power 2, and −34 where
what is left out so is more than a little, as a share."""
RUNS = (1, 4)
"""Into so many runs values are parted, and their bounds multiplied; the least of these counts."""
GONE = 1e-17
"""What is smaller is left out of a sum over angles."""
WORK, FEWEST = 400_000, 256
"""Products that may be worked on for one tail, angles times values, which bounds how many angles are looked at; so many
always may be."""
ROUNDS, CLOSE = 100, 0.01
"""Steps that lead to the tilt, at most, and how near to the place the tilted mean may be said to be there."""
ROUNDED = 4e-15
"""What rounding may take from a sum over angles, for each factor of the transform."""
NEAR_ONE = 4e-14
"""The same over a tilt, which factors 1 − e^(−2tk) are near to: what is rounded off there is so much larger."""
FINE, TRIES = 1e-4, 8
"""Share of a sum that rounding may be; where it may be more, so many larger tilts are tried."""


@compiled(plain="itself")
def doubled_end(n1: int, n2: int, A: int, a: int) -> int:
    """Return 2E(a): what W is at most with a of the A values in the first group."""
    return 2 * a * n2 + (n1 - a) * (n2 - A + a)


@compiled(plain="itself")
def spread(n1: int, n2: int, A: int) -> float:
    """Return the variance of W."""
    n = n1 + n2
    if n < 2:
        return 0.0
    z = float(n - A)
    return n1 * float(n2) * (n + 1.0 - (z * z * z - z) / (float(n) * (n - 1.0))) / 3.0


@compiled(plain="reference")
def log_choose(n: int, k: int) -> float:
    """Return the logarithm of a binomial coefficient."""
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


@compiled(plain="plain_tails")
def weigh(
    n1: int, n2: int, A: int, t: float, weights: Array, ahead: Array, behind: Array
) -> tuple[float, float, float]:
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


@compiled(plain="itself")
def nearest(number: int, period: int) -> int:
    """Return what is left of a number by multiples of a period, at most half of it: small angles keep their digits."""
    left = number % period
    return left - period if 2 * left > period else left


@compiled()
def fan(times: int, j: int, period: int, re: Array, im: Array) -> None:
    """Write exp(2πi·times·j/period) for j, j + 1, …, a lane each."""
    unit = 2.0 * math.pi / period
    angle, step = unit * nearest(times * j, period), unit * nearest(times, period)
    x, y, c, s = math.cos(angle), math.sin(angle), math.cos(step), math.sin(step)
    for lane in range(LANES):
        re[lane], im[lane] = x, y
        x, y = x * c - y * s, x * s + y * c


@compiled()
def turn(
    n1: int, n2: int, A: int, j: int, period: int, weights: Array, ahead: Array, behind: Array, lanes: Array
) -> None:
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


@compiled(plain="itself")
def divided(x: float, y: float, re: float, im: float) -> tuple[float, float]:
    """Return the parts of (x + iy)/(re + i·im)."""
    size = re * re + im * im
    return (x * re + y * im) / size, (y * re - x * im) / size


@compiled()
def over_power(x: float, y: float, re: float, im: float, power: int) -> float:
    """Return the real part of (x + iy)/(re + i·im)^power."""
    u, v = divided(x, y, re, im)
    if power == 2:
        u, v = divided(u, v, re, im)
    return u


@compiled(plain="itself")
def majorant(j: int, band: int, rate: float) -> tuple[float, float]:
    """Return the transform, at j of ``band`` angles, of the least function above e^(−rate·x), x ≥ 0, and above 0 else.

    The two meet at whole numbers x. With q = e^(−rate − 2πij/band) it is (1 − j/band)/(1 − q) plus
    rate/(2πi)·(q₀/(1 − q₀) − q/(1 − q)), q₀ = e^(−rate).
    """
    size, share = math.exp(-rate), j / band
    angle = 2.0 * math.pi * share
    u, v = divided(1.0, 0.0, 1.0 - size * math.cos(angle), size * math.sin(angle))
    slope, at_zero = rate / (2.0 * math.pi), 1.0 / (1.0 - size)
    return (1.0 - share) * u - slope * v, (1.0 - share) * v - slope * (at_zero - u)


@compiled(plain="plain_tails")
def summed(
    n1: Array, n2: Array, A: Array, start: int, power: int, t: float, period: int, band: int, last: int,
    scratch: Array, lanes: Array,
) -> float:  # fmt: skip
    """Return the sum over angles up to the ``last`` that inverts the transform of W tilted by t, weighed by `weigh`.

    They are those of a ``band`` of so many, or of the whole lattice where it is 0.
    """
    total, j, unit = 0.0, 0, 2.0 * math.pi / period
    falling, rate = math.exp(-t), t * period / max(1, band)
    while j <= last:
        for lane in range(LANES):
            lanes[0, lane] = lanes[2, lane] = 1.0
            lanes[1, lane] = lanes[3, lane] = 0.0
        for h in range(n1.size):
            base = 5 * h
            turn(n1[h], n2[h], A[h], j, period, scratch[base : base + 3], scratch[base + 3], scratch[base + 4], lanes)
            if np.abs(lanes[:4]).max() < GONE:  # other strata could but make it smaller
                lanes[:4] = 0.0
                break
        fan(-start, j, period, lanes[4], lanes[5])
        fan(1, j, period, lanes[6], lanes[7])
        for lane in range(min(LANES, last + 1 - j)):
            i = j + lane
            c, s = lanes[4, lane], lanes[5, lane]
            x, y = lanes[0, lane] * c - lanes[1, lane] * s, lanes[0, lane] * s + lanes[1, lane] * c
            if band > 0:
                u, v = majorant(i, band, rate)
                if (
                    power == 2
                ):  # E(W − c)₊ is the integral of P(W ≥ x) from c on: its function is convolved with e^(−tx)
                    u, v = divided(u, v, t, unit * i)
                term = x * u - y * v
            else:
                u, v = lanes[2, lane] * c - lanes[3, lane] * s, lanes[2, lane] * s + lanes[3, lane] * c
                if start & 1:
                    u, v = -u, -v
                here, there = falling * lanes[6, lane], falling * lanes[7, lane]
                term = over_power(x, y, 1.0 - here, there, power) + over_power(u, v, 1.0 + here, -there, power)
            total += term if i == 0 or (4 * i == period and band == 0) else 2.0 * term
        j += LANES
    return total


@compiled(plain="itself")
def softplus(x: float) -> float:
    """Return log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@compiled(plain="itself")
def balance(n1: int, n2: int, A: int, t: float) -> float:
    """Return η such that of independent coins, of 1/(1 + e^(−η − 2tr)) for rank r, about as many show as rows are n₁.

    Ranks of values are (z − 1)/2 + i, i from 1 on, those of the z zeros 0.
    """
    z = n1 + n2 - A
    least, most = t * z, t * (z + 2.0 * A)
    low, high = -most - 50.0 - math.log(n1 + n2), 50.0 + math.log(n1 + n2)
    for _ in range(60):
        eta = 0.5 * (low + high)
        shown = z / (1.0 + math.exp(min(-eta, 600.0))) + 0.5 * (softplus(eta + most) - softplus(eta + least)) / t
        low, high = (eta, high) if shown < n1 else (low, eta)
    return 0.5 * (low + high)


@compiled(plain="itself")
def log_chance(n1: int, n2: int, A: int, t: float, cumulant: float, eta: float) -> float:
    """Return the logarithm of how likely exactly n₁ of these coins show, given log E e^(tW)."""
    z = n1 + n2 - A
    total = eta * n1 + log_choose(n1 + n2, n1) + cumulant - t * n1 * float(n2 - A) - z * softplus(eta)
    for i in range(1, A + 1):
        total -= softplus(eta + t * (z - 1.0 + 2.0 * i))
    return total


@compiled(plain="itself")
def log_size(n1: int, n2: int, A: int, t: float, chance: float, eta: float, angle: float) -> float:
    """Return a bound of the logarithm of |E e^(iωW)| under the tilt for all ω from ``angle`` to π/2, and those plus π.

    Given the other coins, those of L neighbouring values with p(1 − p) ≥ c make it (1 − 2c(1 − K/L))^(L/2) at most,
    K = |sin(Lω)/sin(ω)|, over the chance that n₁ of all coins show; runs of values multiply. K falls up to π/L. Or
    p(1 − p), which rises and falls, is a mixture of runs: that makes e^(max p(1 − p)/sin(ω) − Σp(1 − p)) at most.
    """
    z = n1 + n2 - A
    p = 1.0 / (1.0 + math.exp(min(max(-eta - t * (z + 1.0), -600.0), 600.0)))
    q = 1.0 / (1.0 + math.exp(min(max(-eta - t * (z - 1.0 + 2.0 * A), -600.0), 600.0)))
    highest = 0.25 if p <= 0.5 <= q else max(p * (1.0 - p), q * (1.0 - q))
    best = min(0.0, highest * (1.0 + 1.0 / math.sin(angle)) - (q - p) / (2.0 * t) - chance)
    for number in RUNS:
        size = -chance
        for k in range(number):
            first, last = k * A // number + 1, (k + 1) * A // number
            length, share = last - first + 1, 1.0
            for i in (first, last):
                p = 1.0 / (1.0 + math.exp(min(abs(eta + t * (z - 1.0 + 2.0 * i)), 600.0)))
                share = min(share, p * (1.0 - p))
            kernel = 1.0 / math.sin(angle)
            if length * angle < math.pi:
                kernel = max(math.sin(length * angle) / math.sin(angle), 1.0 / math.sin(math.pi / max(length, 2)))
            turned = 1.0 - min(kernel / max(length, 1), 1.0)
            size += 0.5 * length * math.log(1.0 - 2.0 * share * turned)
        best = min(best, size)
    return best


@compiled(plain="itself")
def last_angle(n1: Array, n2: Array, A: Array, t: float, period: int, gone: float, scratch: Array) -> int:
    """Return the last of the angles 2πj/period up to π/2 before the transform of W has died away, for good."""
    for h in range(n1.size):
        eta = balance(n1[h], n2[h], A[h], t)
        scratch[5 * h + 2, 0] = eta
        scratch[5 * h + 1, 0] = log_chance(n1[h], n2[h], A[h], t, scratch[5 * h + 1, 0], eta)
    low, high = 0, period // 4
    while low < high:
        j, size = (low + high) // 2, 0.0
        for h in range(n1.size):
            size += log_size(
                n1[h], n2[h], A[h], t, scratch[5 * h + 1, 0], scratch[5 * h + 2, 0], 2.0 * math.pi / period * (j + 1)
            )
        low, high = (low, j) if size < -gone else (j + 1, high)
    return low


@compiled(plain="itself")
def weigh_all(n1: Array, n2: Array, A: Array, t: float, scratch: Array) -> tuple[float, float, float]:
    """Tilt all strata by t: return log E exp(tW), kept for each, the mean and the variance of W."""
    cumulant = mean = width = 0.0
    for h in range(n1.size):
        base = 5 * h
        one, two, three = weigh(n1[h], n2[h], A[h], t, scratch[base : base + 3], scratch[base + 3], scratch[base + 4])
        scratch[base + 1, 0] = one
        cumulant += one
        mean += two
        width += three
    return cumulant, mean, width


@compiled(plain="itself")
def log_transformed(n1: Array, n2: Array, A: Array, place: int, power: int, scratch: Array, lanes: Array) -> float:
    """Return log P(W ≥ place) for power 1, log E(W − place)₊ for power 2; W is summed over strata."""
    mean = variance = 0.0
    values = 0
    for h in range(n1.size):
        mean += n1[h] * float(n2[h])
        variance += spread(n1[h], n2[h], A[h])
        values += min(n1[h], n2[h], A[h]) + 1
    least = 1.0 / math.sqrt(variance)
    t, low, high = max((place - mean) / variance, least), 0.0, np.inf
    for _ in range(ROUNDS):
        _, at, width = weigh_all(n1, n2, A, t, scratch)
        near = abs(at - place) <= 0.5 * math.sqrt(width) + CLOSE
        near = near or (t == least and at >= place and at - max(place, mean) <= 1.5 * math.sqrt(width))
        if near:
            break
        low, high = (t, high) if at < place else (low, t)
        moved = t + (place - at) / width
        if not low < moved < high:
            moved = 0.5 * (low + high) if high < np.inf else 3.0 * t
        t = min(moved, 3.0 * t)
    best, gone = np.inf, LEFT_OUT[power - 1]
    for _ in range(TRIES):  # every tilt gives a bound, the larger ones where lumps lie far from the place
        cumulant, _, width = weigh_all(n1, n2, A, t, scratch)
        period = 4 * (int(max(14.0 * math.sqrt(width), 45.0 / t, 16.0)) // 4 + 1)
        band, last = max(FEWEST, WORK // values), last_angle(n1, n2, A, t, period, gone, scratch)
        if last <= band:
            start, number, band = place + power - 1, period, 0
        else:  # of the whole lattice they would be too many
            start, number, last = place, band, band - 1
        total = summed(n1, n2, A, start, power, t, period, band, last, scratch, lanes) / number
        left_out = 8.0 * math.exp(-gone) * (1.0 + math.log(period)) * (1.0 + t * period / number)
        left_out *= 1.0 if power == 1 else float(period)
        if left_out > LITTLE * total and gone < LEFT_OUT[2]:
            gone = LEFT_OUT[2]
            continue
        total = max(total, 0.0) + left_out
        rounded = (ROUNDED * values + NEAR_ONE / t) * (1.0 if power == 1 else 1.0 / t)
        # Chernoff's bound, also of E(W − c)₊, which is at most E exp(t(W − c))/(et): where the tilted law is all below
        chernoff = cumulant - t * place - (1.0 + math.log(t) if power == 2 else 0.0)
        best = min(best, chernoff, cumulant - t * start + math.log(total + rounded))
        if rounded <= FINE * total:
            break
        t *= 1.5
    return best
