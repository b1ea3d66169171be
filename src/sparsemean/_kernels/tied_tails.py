"""Tails of Mann–Whitney's U given all ties: of a sum of midranks over a group that is drawn at random.

Of N rows, in levels of equal values, n₁ are drawn: W is the sum of their scores. A row of score s that is drawn by
itself, with the odds e^(η + θs), tilts W to a mean near its tail; that n₁ rows are drawn in all is one coefficient of a
polynomial, an inverse transform over angles α, and the tail of W is another, over angles ω. Strata multiply.

With p, q the chances under the tilt and w = Σ pq, the factor of all rows at (α, ω) is at most exp(−(w − |S|·cos(α + arg
S))), S(ω) = Σ pq·e^(iωs): where that is below e^(−`GONE`) the angle is left out, and as much is added. How far S can
move is known, so angles are looked at a few at a time where it is small. The function that is summed over ω, e^(−θx)
for x ≥ 0 and 0 below, is replaced by `rank_transforms.majorant` where the angles of the whole lattice are too many:
wherever the transform comes back, beyond these angles or between them, what is found is never too small.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.rank_transforms import divided, log_choose, majorant
from sparsemean._util.records import FloatArray, IntArray

GONE = 23.0
"""Angles at which the logarithm of a factor is below −23 are left out."""
FINE, FEWEST, MOST = 0.01, 2048, 16_384
"""By half so much, as a share, a tail may be too large where angles ω end before the lattice does; so many at least and
at most."""
MOST_WORK = 10_000_000
"""Factors that are multiplied for one tail, at most: a dozen rows against hundreds with many levels would take more."""
AT_ONCE = 32
"""Angles ω that are worked on together."""
ROUNDS, CLOSE = 80, 0.01
"""Steps that lead to a tilt, at most, and how near to the place the tilted mean is said to be there."""
LARGEST_TILT = 30.0
"""Of a unit of the lattice: farther off a tail is one sum."""
FRESH = 64
"""Turns after which rounding has added up: angles are taken anew."""
ROUNDED = 1e-15
"""What rounding may take, as a share, from a product of chances, for each row."""


@compiled(plain="itself")
def balanced(x: FloatArray, times: FloatArray, drawn: float, eta: float) -> float:
    """Return the η at which so many rows are drawn on average, each by itself with the odds e^(x + η)."""
    low, high = -np.inf, np.inf
    for _ in range(ROUNDS):
        p = 1.0 / (1.0 + np.exp(-(x + eta)))
        short = float(drawn - np.sum(times * p))
        if abs(short) <= 1e-9 * drawn:
            break
        low, high = (eta, high) if short > 0.0 else (low, eta)
        moved = eta + short / max(float(np.sum(times * p * (1.0 - p))), 1e-300)
        if not low < moved < high:
            moved = 0.5 * (low + high) if high - low < np.inf else eta + math.copysign(2.0, short)
        eta = moved
    return eta


@compiled(plain="itself")
def tilt(
    scores: FloatArray,
    times: FloatArray,
    ends: IntArray,
    drawn: FloatArray,
    theta: float,
    eta: FloatArray,
    p: FloatArray,
) -> FloatArray:
    """Write η of every stratum and the chance of every level; return a row each of mean, variance, Σ pq and centre."""
    out = np.empty((ends.size - 1, 4))
    for h in range(ends.size - 1):
        s, t = scores[ends[h] : ends[h + 1]], times[ends[h] : ends[h + 1]]
        eta[h] = balanced(theta * s, t, drawn[h], eta[h])
        chance = 1.0 / (1.0 + np.exp(-(theta * s + eta[h])))
        p[ends[h] : ends[h + 1]] = chance
        weight = t * chance * (1.0 - chance)
        total = max(np.sum(weight), 1e-300)
        centre = np.sum(weight * s) / total
        out[h, 0], out[h, 1] = np.sum(t * chance * s), np.sum(weight * (s - centre) ** 2)
        out[h, 2], out[h, 3] = total, np.rint(centre)
    return out


@compiled(plain="itself")
def tilt_to(
    place: float, scores: FloatArray, times: FloatArray, ends: IntArray, drawn: FloatArray, eta: FloatArray,
    p: FloatArray,
) -> tuple[float, FloatArray]:  # fmt: skip
    """Tilt all strata until the mean of W lies at a place above its own, about; return θ and what `tilt` does."""
    for h in range(drawn.size):
        rows = np.sum(times[ends[h] : ends[h + 1]])
        eta[h] = math.log(drawn[h] / (rows - drawn[h]))
    moments = tilt(scores, times, ends, drawn, 0.0, eta, p)
    mean, width = float(np.sum(moments[:, 0])), float(np.sum(moments[:, 1]))
    least = 1.0 / math.sqrt(width)
    theta, low, high = max((place - mean) / width, least), 0.0, np.inf
    for _ in range(ROUNDS):
        moments = tilt(scores, times, ends, drawn, theta, eta, p)
        mean, width = float(np.sum(moments[:, 0])), float(np.sum(moments[:, 1]))
        near = abs(mean - place) <= 0.5 * math.sqrt(width) + CLOSE
        if near or theta >= LARGEST_TILT or (theta == least and mean >= place):
            break
        low, high = (theta, high) if mean < place else (low, theta)
        moved = theta + (place - mean) / max(width, 1e-9)
        if not low < moved < high:
            moved = 0.5 * (low + high) if high < np.inf else 3.0 * theta
        theta = min(moved, 3.0 * theta, LARGEST_TILT)
    return theta, moments


@compiled(plain="itself")
def alive(
    unit: float, last: int, scores: FloatArray, weights: FloatArray, ends: IntArray, moments: FloatArray
) -> IntArray:
    """Return which of the angles unit·j, j up to ``last``, are not left out, for no stratum is gone there.

    S is known every few angles, turned from one to the next, and moves between them by no more than Σ pq·|s|. Where
    that does not tell it is looked at angle by angle.
    """
    here = np.full(last + 1, 1, np.int8)
    for h in range(ends.size - 1):
        weight, off = weights[ends[h] : ends[h + 1]], scores[ends[h] : ends[h + 1]] - moments[h, 3]
        room, slope = moments[h, 2] - GONE, unit * np.sum(weight * np.abs(off))
        if room <= 0.0:
            continue
        half = int(min(0.2 * room / max(slope, 1e-300), float(last)))
        stride = 2 * half + 1
        step, at = np.exp(1j * (unit * stride) * off), np.exp(0j * off)
        for k in range(last // stride + 2):
            if k % FRESH == 0:
                at = np.exp(1j * (unit * stride * k) * off)
            if abs(np.sum(weight * at)) + slope * half <= room:
                here[max(0, stride * k - half) : stride * k + half + 1] = 0
            at = at * step
        j = 0
        while j <= last:
            if here[j] == 1:
                left = room - abs(np.sum(weight * np.exp(1j * (unit * j) * off)))
                if left >= 0.0:
                    behind = j + 1 + int(min(left / max(slope, 1e-300), float(last)))
                    here[j:behind] = 0
                    j = behind - 1
            j += 1
    return np.flatnonzero(here)


@compiled(plain="itself")
def drawn_transform(
    omega: FloatArray, scores: FloatArray, times: FloatArray, p: FloatArray, drawn: float, moments: FloatArray,
    sizes: FloatArray,
) -> npt.NDArray[np.complex128]:  # fmt: skip
    """Return E e^(iωW)·1{so many rows are drawn}, scores from their centre, at some ω; ``sizes`` is what it adds up."""
    off, weight = scores - moments[3], times * p * (1.0 - p)
    rows, width = np.sum(times), moments[2]
    period = int(min(rows + 1.0, 14.0 * math.sqrt(width) + 20.0))
    cosine = (width - GONE) / width
    half = period // 2 if cosine <= -1.0 else min(period // 2, int(math.acos(cosine) * period / (2.0 * math.pi)) + 1)
    first, number = (-half, 2 * half + 1) if 2 * half + 1 <= period else (0, period)
    lane = 2.0 * math.pi / period * (first + np.arange(number))
    alpha = np.empty((omega.size, number))
    for j in range(omega.size):
        at = np.sum(weight * np.exp(1j * omega[j] * off))
        alpha[j] = lane - math.atan2(at.imag, at.real)
    turned, product = np.exp(1j * alpha), np.exp(-1j * alpha * drawn)
    for k in range(off.size):
        factor = (1.0 - p[k]) + turned * (p[k] * np.exp(1j * omega * off[k])).reshape((omega.size, 1))
        left = int(times[k])
        while left > 0:  # to the power of how many rows there are
            if left & 1:
                product = product * factor
            left >>= 1
            if left > 0:
                factor = factor * factor
    sizes *= np.sum(np.abs(product), axis=1) / period
    return np.sum(product, axis=1) / period  # type: ignore[no-any-return]


@compiled(plain="itself")
def log_tied_tail(scores: FloatArray, times: FloatArray, ends: IntArray, drawn: FloatArray, place: float) -> float:
    """Return log P(W ≥ place), never too small and hardly larger, place above the mean; NaN where it takes too much.

    Stratum h has levels ``ends[h]`` to ``ends[h + 1]`` of rising whole ``scores``, each of so many ``times``.
    """
    strata = drawn.size
    eta, p = np.zeros(strata), np.empty(scores.size)
    theta, moments = tilt_to(place, scores, times, ends, drawn, eta, p)
    weights, width = times * p * (1.0 - p), float(np.sum(moments[:, 1]))
    cumulant = 0.0
    for h in range(strata):
        s, t = scores[ends[h] : ends[h + 1]], times[ends[h] : ends[h + 1]]
        x = theta * s + eta[h]
        cumulant += np.sum(t * (np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))) - eta[h] * drawn[h]
        cumulant -= log_choose(int(np.sum(t)), int(drawn[h]))
    period = 2 * (int(max(14.0 * math.sqrt(width), 7.0 * math.sqrt(width) + 20.0 / theta, 16.0)) // 2) + 1
    band = min(max(int(theta * period / FINE), FEWEST), MOST)
    whole = period // 2 < band
    last, rate = (period // 2 if whole else band - 1), theta * period / band
    unit = 2.0 * math.pi / period
    chosen = alive(unit, last, scores, weights, ends, moments)
    work = 0.0
    for h in range(strata):
        lanes = min(np.sum(times[ends[h] : ends[h + 1]]) + 1.0, 14.0 * math.sqrt(moments[h, 2]) + 20.0)
        work += lanes * (ends[h + 1] - ends[h]) * chosen.size
    if work > MOST_WORK:
        return np.nan
    start = place - np.sum(drawn * moments[:, 3])
    total = rounded = 0.0
    for at in range(0, chosen.size, AT_ONCE):
        some = chosen[at : at + AT_ONCE]
        omega = unit * some.astype(np.float64)
        value, sizes = np.exp(-1j * start * omega), np.ones(some.size)
        for h in range(strata):
            s, t, chance = scores[ends[h] : ends[h + 1]], times[ends[h] : ends[h + 1]], p[ends[h] : ends[h + 1]]
            value = value * drawn_transform(omega, s, t, chance, drawn[h], moments[h], sizes)
        for k in range(some.size):
            j, shrunk = some[k], math.exp(-theta)
            if whole:
                re, im = divided(1.0, 0.0, 1.0 - shrunk * math.cos(unit * j), shrunk * math.sin(unit * j))
            else:
                re, im = majorant(j, band, rate)
            share = (1.0 if j == 0 else 2.0) / (period if whole else band)
            total += share * (value[k].real * re - value[k].imag * im)
            rounded += share * sizes[k] * math.hypot(re, im)
    # Left out are angles ω and α, and numbers of rows that differ by a multiple of a period.
    most = 1.0 / (1.0 - math.exp(-theta)) if whole else majorant(0, band, rate)[0]
    total = max(total, 0.0) + 6.0 * strata * math.exp(-GONE) * most + ROUNDED * (np.sum(times) + 100.0) * rounded
    return min(0.0, cumulant - theta * place + min(0.0, math.log(total)))
