"""Tails of capped signed ranks: P(Σ Bᵢ·min(i, C) ≥ t) over i = 1 … N with fair coins Bᵢ.

Exact up to `TABLED` values and wherever t is within `NEAR` of the largest sum; elsewhere by the saddlepoint formula of
Lugannani and Rice with its correction for integers (Daniels 1987), enlarged by `ENLARGED`. Against exact tails it was
never found too small: it misses by less than 3 in 1000 there, and tests look for more.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, log_ndtr

from sparsemean._stats.arrays import group_indices
from sparsemean._util.records import FloatArray, IntArray

TABLED = 128
"""Values up to which all tails are in a table."""
NEAR = 2000
"""Sums no farther than this from the largest are counted one by one, however many values there are."""
ENLARGED = 1.005
NODES, WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(16))
NODES = NODES + 0.5
FLAT = 3.0
"""Where the largest half angle exceeds it, an integral has a closed form that loses no digits; nodes are for less."""
ROUNDS = 60
PRECISE = 1e-9
LOG_2 = math.log(2.0)


def score_sums(ranks: IntArray, cap: int) -> IntArray:
    """Return the sum of min(i, C) over i up to each of ``ranks``; 0 for ranks below 1.

    Examples
    --------
    >>> score_sums(np.array([-1, 2, 5]), 3)
    array([ 0,  3, 12])
    """
    inside = np.clip(ranks, 0, cap)
    return np.asarray(inside * (inside + 1) // 2 + cap * np.maximum(ranks - cap, 0))


def log_tails(values: IntArray, cap: int, sums: IntArray) -> FloatArray:
    """Return log P(T ≥ sum) for each number of ``values`` and each of ``sums``; 0 for sums next to the mean or below.

    Examples
    --------
    >>> np.exp(log_tails(np.array([3, 3]), 2, np.array([5, 4])))
    array([0.125, 0.25 ])
    """
    out = np.zeros(sums.size)
    largest = score_sums(values, cap)
    deficit = largest - sums
    out[deficit < 0] = -np.inf
    asked = (deficit >= 0) & (sums - deficit > 1)
    small = np.flatnonzero(asked & (values <= TABLED))
    for number, at in group_indices(values[small]):
        out[small[at]] = _table(number, min(cap, number))[sums[small[at]]]
    near = np.flatnonzero(asked & (values > TABLED) & (deficit <= NEAR))
    for own_cap, at in group_indices(np.minimum(values[near], cap)):
        counts = _log_counts(deficit[near[at]], values[near[at]], own_cap)
        out[near[at]] = counts - values[near[at]] * LOG_2
    far = np.flatnonzero(asked & (values > TABLED) & (deficit > NEAR))
    if far.size:
        out[far] = np.minimum(0.0, _saddlepoint(values[far], cap, sums[far]) + math.log(ENLARGED))
    return out


@lru_cache(maxsize=4096)
def critical_sum(values: int, cap: int, log_error: float) -> int:
    """Return the smallest sum whose tail is no larger than an error, by halving; one more than there can be if none."""
    low, high = 0, int(score_sums(np.array([values]), cap)[0]) + 1
    while low < high:
        middle = (low + high) // 2
        enough = log_tails(np.array([values]), cap, np.array([middle]))[0] <= log_error
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


@lru_cache(maxsize=1024)
def _table(number: int, cap: int) -> FloatArray:
    """Return log P(T ≥ t) for t from 0 to the largest sum, by adding one value after the other."""
    mass = np.ones(1)
    for rank in range(1, number + 1):
        score = min(rank, cap)
        longer = np.zeros(mass.size + score)
        longer[: mass.size] = mass
        longer[score:] += mass
        mass = 0.5 * longer
    return np.log(np.cumsum(mass[::-1])[::-1])


def _log_counts(deficits: IntArray, values: IntArray, cap: int) -> FloatArray:
    """Return log of the number of sets of ranks whose scores add up to no more than each of ``deficits``.

    Ranks below the cap each have a score of their own; of the others, which all have the same, j of how many there are.
    """
    below, others = _log_subsets(cap), values - cap + 1
    out = np.full(deficits.size, -np.inf)
    for j in range(int(deficits.max()) // cap + 1):
        at = np.flatnonzero((deficits >= j * cap) & (others >= j))
        if not at.size:
            break
        ways = gammaln(others[at] + 1) - gammaln(j + 1) - gammaln(others[at] - j + 1)
        out[at] = np.logaddexp(out[at], ways + below[deficits[at] - j * cap])
    return out


@lru_cache(maxsize=64)
def _log_subsets(cap: int) -> FloatArray:
    """Return log of the number of subsets of 1 … C − 1 that add up to at most k, for k up to `NEAR`."""
    count = np.zeros(NEAR + 1)
    count[0] = 1.0
    for score in range(1, min(cap - 1, NEAR) + 1):
        count[score:] = count[score:] + count[:-score]  # the right side is complete before it is stored
    return np.log(np.cumsum(count))


def _saddlepoint(values: IntArray, cap: int, sums: IntArray) -> FloatArray:
    """Return log P(T ≥ sum) by the formula of Lugannani and Rice, each number of values above its cap or not."""
    capped = np.minimum(values, cap).astype(np.float64)
    rest = values - capped
    y = sums - 0.5 - score_sums(values, cap) / 2
    s = 4 * y / (capped * (capped + 1) * (2 * capped + 1) / 6 + rest * capped**2)
    moving = np.arange(s.size)
    for _ in range(ROUNDS):
        _, first, second = _cumulants(s[moving], capped[moving], rest[moving])
        before = s[moving]
        s[moving] = np.clip(before + (y[moving] - first) / second, before / 2, 2 * before)
        moving = moving[np.abs(s[moving] - before) > PRECISE * before]
        if not moving.size:
            break
    cumulant, _, second = _cumulants(s, capped, rest)
    w = np.sqrt(2 * np.maximum(s * y - cumulant, np.finfo(np.float64).tiny))
    u = 2 * np.sinh(s / 2) * np.sqrt(second)
    log_density = -0.5 * w * w - 0.5 * math.log(2 * math.pi)
    return np.asarray(log_density + np.log(np.exp(log_ndtr(-w) - log_density) + 1 / u - 1 / w))


def _cumulants(s: FloatArray, capped: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the cumulant function Σ log cosh(s·score/2) of the centred sum and its first two derivatives.

    The sum over i = 1 … C is an integral and its ends (Euler and Maclaurin): terms beyond the first derivative vanish
    at 0, where the function is even, and are below 1e-6 at C.
    """
    half = s * capped / 2
    tanh, log_cosh = np.tanh(half), _log_cosh(half)
    sech = 1 - tanh * tanh
    value, first, second = (np.empty_like(s) for _ in range(3))
    for large, at in ((True, np.flatnonzero(half > FLAT)), (False, np.flatnonzero(half <= FLAT))):
        integral = _integral if large else _by_nodes
        value[at], first[at], second[at] = integral(s[at], capped[at])
    value += log_cosh / 2 + s * tanh / 24
    first += capped * tanh / 4 + (tanh / 2 + s * capped / 4 * sech) / 12
    second += capped**2 * sech / 8 + (capped * sech / 2 - s * capped**2 / 4 * tanh * sech) / 12
    return value + rest * log_cosh, first + rest * capped / 2 * tanh, second + rest * capped**2 / 4 * sech


def _log_cosh(x: FloatArray) -> FloatArray:
    return np.asarray(x + np.log1p(np.exp(-2 * x)) - LOG_2)


def _by_nodes(s: FloatArray, capped: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Integrate log cosh(s·x/2) and its derivatives in s over x from 0 to C by Gauss's nodes."""
    x = capped[:, np.newaxis] * NODES / 2
    tanh = np.tanh(s[:, np.newaxis] * x)
    cosh = _log_cosh(s[:, np.newaxis] * x)
    return (cosh @ WEIGHTS) * capped, ((x * tanh) @ WEIGHTS) * capped, ((x * x * (1 - tanh * tanh)) @ WEIGHTS) * capped


def _integral(s: FloatArray, capped: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the same in closed form: ∫ log cosh = H²/2 − H·log 2 + (π²/12 + Li₂(−e^(−2H)))/2."""
    half = s * capped / 2
    z = np.exp(-2 * half)  # below e⁻⁶: three terms of the dilogarithm leave 1e-11
    whole = half**2 / 2 - half * LOG_2 + (math.pi**2 / 12 - z + z**2 / 4 - z**3 / 9) / 2
    tanh, log_cosh = np.tanh(half), _log_cosh(half)
    first = -2 * whole / s**2 + capped / s * log_cosh
    second = 4 * whole / s**3 - 2 * capped / s**2 * log_cosh + capped**2 / (2 * s) * tanh
    return 2 / s * whole, first, second
