"""Capped signed ranks of one sample: sums of scores, their tails, and where intervals that they give end."""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array


@compiled(plain="itself")
def score_sum(rank: int, cap: int) -> int:
    """Return Σ min(i, C) over i up to a rank."""
    if rank <= cap:
        return rank * (rank + 1) // 2
    return cap * (cap + 1) // 2 + cap * (rank - cap)


@compiled(plain="reference")
def add_scores(
    signs: Array, all_sizes: Array, gone: Array, caps: Array, repeats: Array, low: Array, doubled: Array
) -> None:
    """Add up the scores of either sign, of features whose values are sorted by size and sign.

    A row is a feature: whether its values are positive, and their rising sizes. Its first ``gone``
    values are not ranked; a size of zero has no sign. Of values of one size those of a sign have the lowest scores in
    ``low``. In ``doubled`` they have, twice, the scores nearest to both ends: of all orders that one whose sum with the
    reversed one is smallest.

    Sums are copied one by one: for parts of arrays numba compiles the words of an error as well, five seconds of them.
    """
    n = signs.shape[1]
    sums = np.zeros((2, 2, caps.size), dtype=np.int64)
    for feature in range(signs.shape[0]):
        sign_of, sizes, start = signs[feature], all_sizes[feature], gone[feature]
        for sign in range(2):
            for k in range(caps.size):
                sums[0, sign, k] = sums[1, sign, k] = 0
        first = start
        while first < n:
            size, rank, last = sizes[first], first - start + 1, first + 1
            if last == n or sizes[last] != size:  # no other value of this size
                if size > 0:
                    sign = 0 if sign_of[first] else 1
                    for k in range(caps.size):
                        sums[0, sign, k] += min(rank, caps[k])
                        sums[1, sign, k] += 2 * min(rank, caps[k])
                first = last
                continue
            above = 0
            last = first
            while last < n and sizes[last] == size:
                above += 1 if sign_of[last] else 0
                last += 1
            number = last - first
            repeats[feature] += number - 1
            for sign in range(2 if size > 0 else 0):
                signed = above if sign == 0 else number - above
                half, end = signed // 2, rank + number - 1
                for k in range(caps.size):
                    before = score_sum(rank - 1, caps[k])
                    sums[0, sign, k] += score_sum(rank + signed - 1, caps[k]) - before
                    both = score_sum(rank + half - 1, caps[k]) - before
                    both += score_sum(end, caps[k]) - score_sum(end - half, caps[k])
                    sums[1, sign, k] += 2 * both
                    if signed % 2 == 1:
                        sums[1, sign, k] += min(rank + half, caps[k]) + min(end - half, caps[k])
            first = last
        for sign in range(2):
            for k in range(caps.size):
                low[sign, k, feature], doubled[sign, k, feature] = sums[0, sign, k], sums[1, sign, k]


# The saddlepoint formula of Lugannani and Rice with its correction for integers (Daniels 1987).

_ENDS, _SHARES = np.polynomial.legendre.leggauss(16)
NODES, WEIGHTS = tuple((0.5 * _ENDS + 0.5).tolist()), tuple((0.5 * _SHARES).tolist())
FLAT = 3.0
"""Where the largest half angle exceeds it, an integral has a closed form that loses no digits; nodes are for less."""
ROUNDS = 60
PRECISE = 1e-9
AT_MEAN = 0.05
"""Deviations from the mean within which 1/u − 1/w is taken from its series: the two are all but equal there."""
LOG_2 = math.log(2.0)


@compiled(plain="itself")
def log_cosh(x: float) -> float:
    """Return log cosh x for x ≥ 0, with all its digits where it is small."""
    if x < 1.0:
        sinh = math.sinh(x)
        return 0.5 * math.log1p(sinh * sinh)
    return x + math.log1p(math.exp(-2 * x)) - LOG_2


@compiled(plain="itself")
def cumulants(s: float, capped: float, rest: float) -> tuple[float, float, float]:
    """Return the cumulant function Σ log cosh(s·score/2) of the centred sum and its first two derivatives.

    Powers are written as products, which Python and numba take alike.

    Of scores 1 … C the sum is an integral and its ends (Euler and Maclaurin): terms beyond the first derivative vanish
    at 0, where the function is even, and are below 1e-6 at C.
    """
    half = s * capped / 2
    tanh, log = math.tanh(half), log_cosh(half)
    sech = 1 - tanh * tanh
    if half > FLAT:  # ∫ log cosh = H²/2 − H·log 2 + (π²/12 + Li₂(−e^(−2H)))/2, three terms leave 1e-11
        z = math.exp(-2 * half)
        whole = half * half / 2 - half * LOG_2 + (math.pi**2 / 12 - z + z * z / 4 - z * z * z / 9) / 2
        value, first = 2 / s * whole, -2 * whole / (s * s) + capped / s * log
        second = 4 * whole / (s * s * s) - 2 * capped / (s * s) * log + capped * capped / (2 * s) * tanh
    else:
        value, first, second = 0.0, 0.0, 0.0
        for k in range(len(NODES)):
            x = capped * NODES[k] / 2
            t = math.tanh(s * x)
            value += WEIGHTS[k] * log_cosh(s * x)
            first += WEIGHTS[k] * x * t
            second += WEIGHTS[k] * x * x * (1 - t * t)
        value, first, second = value * capped, first * capped, second * capped
    value += log / 2 + s * tanh / 24
    first += capped * tanh / 4 + (tanh / 2 + s * capped / 4 * sech) / 12
    square = capped * capped
    second += square * sech / 8 + (capped * sech / 2 - s * square / 4 * tanh * sech) / 12
    return value + rest * log, first + rest * capped / 2 * tanh, second + rest * square / 4 * sech


@compiled(plain="reference", weight=20)
def saddlepoint(values: Array, cap: int, sums: Array, out: Array) -> None:
    """Write `log_tail` of each number of values and sum."""
    for i in range(values.size):
        out[i] = log_tail(values[i], cap, sums[i])


@compiled(plain="itself")
def log_tail(values: int, cap: int, least: int) -> float:
    """Return log P(T ≥ least) of a sum above the mean, T = Σ Bᵢ·min(i, C) over so many values with fair coins Bᵢ.

    Next to the mean 1/u − 1/w is −w(κ₄/(8σ⁴) + 1/(24σ²)), as cumulants of odd orders are 0; the next term is as w³.
    """
    capped = float(min(values, cap))
    rest, square = values - capped, capped * capped
    y = least - 0.5 - score_sum(values, cap) / 2
    squares = capped * (capped + 1) * (2 * capped + 1) / 6 + rest * square  # 4σ²
    s = 4 * y / squares
    for _ in range(ROUNDS):
        _, first, second = cumulants(s, capped, rest)
        moved = min(max(s + (y - first) / second, s / 2), 2 * s)
        settled = abs(moved - s) <= PRECISE * s
        s = moved
        if settled:
            break
    value, _, second = cumulants(s, capped, rest)
    w = math.sqrt(2 * max(s * y - value, 0.0))
    if w < AT_MEAN:
        fourths = capped * (capped + 1) * (2 * capped + 1) * (3 * square + 3 * capped - 1) / 30 + rest * square * square
        correction = w * (fourths / (4 * squares * squares) - 1 / (6 * squares))  # κ₄ = −Σ score⁴/8
    else:
        correction = 1 / (2 * math.sinh(s / 2) * math.sqrt(second)) - 1 / w
    # Mills' ratio: erfc itself is 0 beyond 38 deviations, where its continued fraction has long settled
    mills = math.sqrt(math.pi / 2) * math.exp(w * w / 2) * math.erfc(w / math.sqrt(2.0)) if w < 20 else far_mills(w)
    return -0.5 * w * w - 0.5 * math.log(2 * math.pi) + math.log(mills + correction)


@compiled(plain="itself")
def far_mills(w: float) -> float:
    """Return (1 − Φ(w))/φ(w) for a large w, by its continued fraction."""
    below = w
    for k in range(12, 0, -1):
        below = w + k / below
    return 1 / below


# Intervals: how far a null value can be moved before its test lets it go.

CLOSE = 1e-10
"""Halving ends when what is left is this small beside what it lies at, or beside the spread of the values."""


@compiled(plain="itself")
def log_normal_tail(y: float) -> float:
    """Return log P(Z ≥ y) for standard normal Z."""
    if y < 8.0:
        return math.log(0.5 * math.erfc(y * 0.7071067811865476))
    s = 1.0 / (y * y)
    series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s))))
    return -0.5 * y * y - math.log(y * 2.5066282746310002) + math.log(series)


@compiled(plain="itself")
def log_normal_excess(y: float) -> float:
    """Return log E(Z − y)₊ for standard normal Z."""
    if y < 5.0:
        return math.log(math.exp(-0.5 * y * y) * 0.3989422804014327 - y * 0.5 * math.erfc(y * 0.7071067811865476))
    s = 1.0 / (y * y)
    series = 1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s * (1.0 - 11.0 * s))))
    return -0.5 * y * y - math.log(y * y * 2.5066282746310002) + math.log(series)


@compiled(plain="reference")
def sum_above(x: Array, theta: float, cap: int) -> int:
    """Return Σ min(rank of |x − θ|, C) over values above θ, of rising ``x``; of one size those above come first.

    Values are met in the order of their distance: from the first above θ upwards and from the last not above it
    downwards. Beyond the cap all scores are the same, and only their number counts.
    """
    n = x.size
    above = int(np.searchsorted(x, theta, side="right"))
    up, down, total = above, above - 1, 0
    for rank in range(1, min(cap, n) + 1):
        if down < 0 or (up < n and x[up] - theta <= theta - x[down]):
            total += rank
            up += 1
        else:
            down -= 1
    return total + cap * (n - up) if n > cap else total


@compiled(plain="itself")
def next_mean(x: Array, above: float) -> float:
    """Return the smallest mean of two of the rising values, or of one with itself, that is larger than a number."""
    n, best = x.size, math.inf
    last = n
    for i in range(n):
        while last > i and x[i] + 0.5 * (x[last - 1] - x[i]) > above:
            last -= 1
        if last < n:
            best = min(best, x[i] + 0.5 * (x[last] - x[i]))
        if last <= i:
            break
    return best


@compiled(plain="itself")
def lower_ends(x: Array, caps: Array, needed: Array, out: Array) -> None:
    """Write for each cap where null values end that lie so low that the sum above them is ``needed``.

    ``x`` rises. Order statistics are halved first, so that a far value costs a step and no digits, then what lies
    between two of them. Sums change at means of two values only: the end is the next one of those. Where there is no
    such null value it is −∞.
    """
    n = x.size
    for k in range(caps.size):
        out[k] = -math.inf
        if n == 0 or sum_above(x, x[0] - 1.0 - abs(x[0]), caps[k]) < needed[k]:
            continue
        first, last = -1, n - 1  # the sum above x[first] is enough (−1: below all), above x[last] it is not
        while last - first > 1:
            middle = (first + last) // 2
            if sum_above(x, x[middle], caps[k]) >= needed[k]:
                first = middle
            else:
                last = middle
        low, high = x[max(first, 0)], x[last]
        if first < 0:
            out[k] = x[0]
            continue
        least = CLOSE * max(abs(low), abs(high), x[n - 1 - n // 4] - x[n // 4])
        while high - low > least:
            middle = 0.5 * low + 0.5 * high
            if not low < middle < high:
                break  # no number lies between
            if sum_above(x, middle, caps[k]) >= needed[k]:
                low = middle
            else:
                high = middle
        out[k] = next_mean(x, low - 2 * least)  # rounding must not lead past the one that it is
