"""Tails of Mann–Whitney's U given all ties: of a sum of midranks over a group that is drawn at random.

Of N rows, in levels of equal values, n₁ are drawn: W is the sum of their scores. A row of score s that is drawn by
itself, with the odds e^(η + θs), tilts W to a mean near its tail; that n₁ rows are drawn in all is one coefficient of a
polynomial, an inverse transform over angles α, and the tail of W is another, over angles ω. Strata multiply.

With p, q the chances under the tilt and w = Σ pq, the factor of all rows at (α, ω) is at most exp(−(w − |S|·cos(α + arg
S))), S(ω) = Σ pq·e^(iωs): where that, or its mean over α, is below e^(−gone) an angle is left out, and as much added.
How far S can move is known, so angles are looked at a few at a time where it is small. What comes back, a period of α
or ω away, is positive. The function that is summed over ω, e^(−θx) for x ≥ 0 and 0 below, is replaced by
`rank_transforms.majorant` where the angles of the whole lattice are too many: wherever the transform comes back, beyond
these angles or between them, what is found is never too small.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.rank_transforms import divided, log_choose, majorant
from sparsemean._util.records import FloatArray, IntArray

EXACT, EASY = (1e-8, 3e-4), 30_000
"""By about so much, as a share, a tail may be too large for what is left out and what comes back; the second where
angles ω times levels are more."""
FINE, MOST = 0.008, 4096
"""By half so much more, but for single values of W just below a place, where angles ω then end before the lattice does;
so many at most."""
MOST_WORK = 4_000_000
"""Factors that are multiplied for one tail, about: where it would take more angles end earlier still."""
ODDS = 4.0
"""Times the odds of the tilt, or over them: what bounds a coefficient where few rows are drawn, or few are not."""
AT_ONCE = 32
"""Angles ω that are worked on together."""
ROUNDS, CLOSE = 150, 0.01
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
    even = math.log(drawn / (np.sum(times) - drawn))
    low, high, before = even - float(np.max(x)), even - float(np.min(x)), np.inf
    eta = min(max(eta, low), high)
    for _ in range(ROUNDS):
        p = 1.0 / (1.0 + np.exp(-(x + eta)))
        short = float(drawn - np.sum(times * p))
        if abs(short) <= 1e-9 * drawn:
            break
        low, high = (eta, high) if short > 0.0 else (low, eta)
        moved = eta + short / max(float(np.sum(times * p * (1.0 - p))), 1e-300)
        if not low < moved < high or abs(short) > 0.5 * before:
            moved = 0.5 * (low + high)
        eta, before = moved, abs(short)
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
    """Tilt all strata until the mean of W lies at a place above its own, about; return θ and what `tilt` does.

    The mean rises with θ, and the number drawn with η: where Newton's steps do not halve what is off, brackets are.
    """
    moments = tilt(scores, times, ends, drawn, 0.0, eta, p)
    mean, width = float(np.sum(moments[:, 0])), float(np.sum(moments[:, 1]))
    low, high, before = 1.0 / math.sqrt(width), LARGEST_TILT, np.inf
    theta = min(max((place - mean) / width, low), high)
    for _ in range(ROUNDS):
        moments = tilt(scores, times, ends, drawn, theta, eta, p)
        mean, width = float(np.sum(moments[:, 0])), float(np.sum(moments[:, 1]))
        short = place - mean
        if abs(short) <= 0.5 * math.sqrt(width) + CLOSE or (theta == low and short <= 0.0) or theta == LARGEST_TILT:
            break
        low, high = (theta, high) if short > 0.0 else (low, theta)
        moved = theta + short / max(width, 1e-300)
        if not low < moved < high or abs(short) > 0.5 * before:
            moved = LARGEST_TILT if 3.0 * low > LARGEST_TILT else min(math.sqrt(low * high), 3.0 * low)
        theta, before = min(moved, 3.0 * theta), abs(short)
    return theta, moments


@compiled(plain="itself")
def leave_out(here: npt.NDArray[np.int8], unit: float, off: FloatArray, weight: FloatArray, room: float) -> None:
    """Write 0 for the angles unit·j at which |S(ω)| is less than what there is room for, and the mean over α.

    S is known every few angles, turned from one to the next, and moves between them by no more than Σ pq·|s|. Where
    that does not tell it is looked at angle by angle.
    """
    last, most = here.size - 1, room
    for _ in range(3):  # over α the mean is smaller than the most by 1/√(1 + 2|S|)
        room = most + 0.5 * math.log(1.0 + 2.0 * max(room, 0.0))
    slope = unit * np.sum(weight * np.abs(off))
    half = int(min(0.2 * room / max(slope, 1e-300), float(last)))
    stride = 2 * half + 1
    step, at = np.exp(1j * (unit * stride) * off), np.exp(0j * off)
    for k in range(last // stride + 2 if most > 0.0 else 0):
        if k % FRESH == 0:
            at = np.exp(1j * (unit * stride * k) * off)
        if abs(np.sum(weight * at)) + slope * half <= room:
            here[max(0, stride * k - half) : stride * k + half + 1] = 0
        at = at * step
    step, before, turns, j = np.exp(1j * unit * off), -2, 0, 0
    while j <= last and most > 0.0 and half > 0:
        if here[j] == 1:
            turns = turns + 1 if j == before + 1 and turns < FRESH else 0
            at = at * step if turns else np.exp(1j * (unit * j) * off)
            before, left = j, room - abs(np.sum(weight * at))
            if left >= 0.0:
                behind = j + 1 + int(min(left / max(slope, 1e-300), float(last)))
                here[j:behind] = 0
                j = behind - 1
        j += 1


@compiled(plain="itself")
def alive(
    unit: float, number: int, scores: FloatArray, times: FloatArray, p: FloatArray, ends: IntArray, drawn: FloatArray,
    moments: FloatArray, gone: float,
) -> IntArray:  # fmt: skip
    """Return which of so many angles unit·j are not left out: those at which no stratum is gone.

    That is looked at with the odds as they are and, where few rows are drawn or few are not, with others.
    """
    here = np.full(number, 1, np.int8)
    for h in range(drawn.size):
        s, t, chance = scores[ends[h] : ends[h + 1]], times[ends[h] : ends[h + 1]], p[ends[h] : ends[h + 1]]
        for more in (1.0, ODDS if 2.0 * drawn[h] < np.sum(t) else 1.0 / ODDS):
            total = 1.0 - chance + more * chance
            weight = t * more * chance * (1.0 - chance) / total**2
            room = np.sum(weight) - np.sum(t * np.log(total)) + drawn[h] * math.log(more) - gone
            if more == 1.0 or moments[h, 2] < 2.0 * gone:
                leave_out(here, unit, s - moments[h, 3], weight, room)
    return np.flatnonzero(here)


@compiled(plain="itself")
def drawn_transform(
    omega: FloatArray, off: FloatArray, times: FloatArray, p: FloatArray, drawn: float, period: int, gone: float,
    sizes: FloatArray,
) -> npt.NDArray[np.complex128]:  # fmt: skip
    """Return E e^(iωW)·1{so many rows are drawn}, scores from their centre, at some ω; ``sizes`` is what it adds up."""
    weight, unit = times * p * (1.0 - p), 2.0 * math.pi / period
    turned, at = np.exp(1j * off.reshape((-1, 1)) * omega), np.zeros(omega.size, np.complex128)
    for k in range(off.size):
        at += weight[k] * turned[k]
    cosine = (np.sum(weight) - gone) / np.maximum(np.abs(at), 1e-300)
    half = (np.arccos(np.minimum(np.maximum(cosine, -1.0), 1.0)) / unit).astype(np.int64) + 1
    number = np.minimum(2 * half + 1, period)
    which = np.repeat(np.arange(omega.size), number)
    first = np.rint(-np.angle(at) / unit).astype(np.int64) - half - (np.cumsum(number) - number)
    lane = (np.arange(which.size) + first[which]) % period
    circle = np.exp(1j * unit * np.arange(period))
    alpha, product = circle[lane], circle[(-lane * int(drawn)) % period]
    for k in range(off.size):
        factor = (1.0 - p[k]) + alpha * (p[k] * turned[k])[which]
        left = int(times[k])
        while left > 0:  # to the power of how many rows there are
            if left & 1:
                product = product * factor
            left >>= 1
            if left > 0:
                factor = factor * factor
    sizes *= np.bincount(which, np.abs(product)) / period
    return (np.bincount(which, product.real) + 1j * np.bincount(which, product.imag)) / period  # type: ignore[return-value]


@compiled(plain="itself")
def lattice(
    theta: float, width: float, times: FloatArray, ends: IntArray, moments: FloatArray
) -> tuple[int, int, float, IntArray, float]:
    """Return a period, how many angles ω of it count, how small what is left out is, periods of α, factors an angle.

    The sum is about e^(−small): what is much smaller does not matter. What comes back of W is as if it were normal;
    of the number of rows it is bounded by Bernstein's inequality, as angles that are left out ask for.
    """
    strata, levels = moments.shape[0], ends[-1]
    for exact in EXACT:
        beyond = math.log(1.0 + 2.5 * theta * width) - math.log(exact)
        small = beyond + 0.5 * np.sum(np.log(1.0 + 2.0 * math.pi * moments[:, 2]))
        steep = min(theta, math.sqrt(2.0 * beyond) / max(width, 1e-9))
        period = 2 * (int(max(1.1 * (beyond / steep + 0.5 * steep * width * width), 16.0)) // 2) + 1
        band = period // 2 + 1
        if band * levels <= EASY:
            break
    else:
        band = min(band, int(theta * period / FINE) + 16, MOST)
    gone = small + math.log(6.0 * strata * (1.0 / (1.0 - math.exp(-theta)) / period + 3.0 + math.log(period)))
    periods, work = np.zeros(strata, np.int64), 0.0
    for h in range(strata):
        rows, width = np.sum(times[ends[h] : ends[h + 1]]), moments[h, 2]
        periods[h] = int(min(rows, gone / 3.0 + math.sqrt(gone * gone / 9.0 + 2.0 * gone * width))) + 1
        window = math.acos(max(1.0 - gone / max(width, 1e-300), -1.0)) / math.pi
        work += (window * periods[h] + 3.0) * (ends[h + 1] - ends[h])
    return period, band, gone, periods, work


@compiled(plain="itself")
def log_tied_tail(scores: FloatArray, times: FloatArray, ends: IntArray, drawn: FloatArray, place: float) -> float:
    """Return log P(W ≥ place), never too small and hardly larger, place above the mean.

    Stratum h has levels ``ends[h]`` to ``ends[h + 1]`` of rising whole ``scores``, each of so many ``times``.
    """
    strata = drawn.size
    eta, p = np.zeros(strata), np.empty(scores.size)
    theta, moments = tilt_to(place, scores, times, ends, drawn, eta, p)
    width = math.sqrt(np.sum(moments[:, 1]))
    cumulant = -theta * place
    added = abs(cumulant)
    for h in range(strata):
        s, t = scores[ends[h] : ends[h + 1]], times[ends[h] : ends[h + 1]]
        x = theta * s + eta[h]
        parts = np.sum(t * (np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))), eta[h] * drawn[h]
        cumulant += parts[0] - parts[1] - log_choose(int(np.sum(t)), int(drawn[h]))
        added += parts[0] + abs(parts[1]) + math.lgamma(np.sum(t) + 1.0)
    period, band, gone, periods, per_angle = lattice(theta, width, times, ends, moments)
    unit = 2.0 * math.pi / period
    chosen = alive(unit, band, scores, times, p, ends, drawn, moments, gone)
    room = int(MOST_WORK / per_angle) + 64
    if chosen.size > room:
        band, chosen = chosen[room], chosen[:room]
    whole, rate = band == period // 2 + 1, theta * period / band
    start = place - np.sum(drawn * moments[:, 3])
    total = rounded = 0.0
    for at in range(0, chosen.size, AT_ONCE):
        some = chosen[at : at + AT_ONCE]
        omega = unit * some.astype(np.float64)
        value, sizes = np.exp(-1j * start * omega), np.ones(some.size)
        for h in range(strata):
            here = slice(ends[h], ends[h + 1])
            value = value * drawn_transform(
                omega, scores[here] - moments[h, 3], times[here], p[here], drawn[h], periods[h], gone, sizes
            )
        for k in range(some.size):
            j, shrunk = some[k], math.exp(-theta)
            if whole:
                re, im = divided(1.0, 0.0, 1.0 - shrunk * math.cos(unit * j), shrunk * math.sin(unit * j))
            else:
                re, im = majorant(j, band, rate)
            share = (1.0 if j == 0 else 2.0) / (period if whole else band)
            total += share * (value[k].real * re - value[k].imag * im)
            rounded += share * sizes[k] * math.hypot(re, im)
    # Left out are angles ω and α; the mean size of what they are multiplied by is known.
    most = 1.0 / (1.0 - math.exp(-(theta if whole else rate))) / (period if whole else band)
    left = 6.0 * strata * math.exp(-gone) * (most + 3.0 + math.log(period))
    total = max(total, 0.0) + left + ROUNDED * (np.sum(times) + 100.0) * rounded
    return min(0.0, cumulant + ROUNDED * added + min(0.0, math.log(total)))
