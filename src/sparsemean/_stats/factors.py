"""Common factors of the noise: what features off the support share with those on it can be taken out."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import FOR_SCALE, GAUSSIAN, dropna, scales
from sparsemean._stats.directions import DIRECTIONS, may_have_factors
from sparsemean._stats.standardized import CLIP, MOSTLY, Flags, Selected, Single, Units, ratios_of, units_at
from sparsemean._util.records import FloatArray

LEAST_COLUMNS = 20
"""Columns below which a row's score would be mostly its own noise."""
LEAST_ROWS = 50
"""Rows below which eigenvalues of pure noise lie far apart."""
MOST_FACTORS = DIRECTIONS
"""Factors that are looked for, where there are `ROWS_EACH` rows for each: every slope takes a degree of freedom."""
ROWS_EACH = 20
GAP = 1.5
"""Ratio of neighbouring eigenvalues that tells factors from noise, whose largest eigenvalues lie close together."""
BLOCK = 16
"""Directions that are iterated together: more than are wanted, so that those converge."""
TURNS = 6
"""Steps of the block power method; factors that are worth it stand out after a few."""
EARLY = 3
"""Where no two neighbouring variances differ by `directions.NO_GAP` after so many steps, none will be set apart."""
ROWS = 5000
"""Rows that tell directions and slopes, where there are more: every score is then computed from them."""
SURELY = 4.0
"""Standard errors that the median of a score may be away from zero, beyond what bad rows can do."""
WORTH = 0.95
"""A feature is adjusted where its spread falls below this share: less would not pay for the slopes' own error."""
FAR = 3.0
"""Mean square of a row's scores beyond which it is weighted down."""
HUBER, BIWEIGHT = 1.345, 4.685
"""In robust deviations: 95 % efficiency under Gaussian noise."""
STEPS = 5
"""Reweighted fits of each kind; slopes need two digits only, as they multiply the mean of a score."""
WIDE = 10.0
"""In median absolute values: entries farther out are nothing but far."""
TELLING = 256
"""Columns that scores are computed from, those with the largest loadings: enough of them for errors to average out."""
TINY = 1e-6
"""In the place of a spread of zero, in units of a column."""
Sizes = npt.NDArray[np.floating]


class Factors(NamedTuple):
    """Scores of the rows, a column for each factor, in robust deviations about zero, and the columns they are from."""

    scores: FloatArray
    n_columns: int


def common_factors(values: FloatArray | Selected, *, share: float, rng: np.random.Generator) -> Factors:
    """Return the scores of the factors that columns with known mean 0 have in common; none where there is no factor.

    Columns are divided by their median absolute value and clipped, so that neither tails nor rows that are large as a
    whole make a direction. Factors are the leading directions up to the last gap of `GAP` between neighbouring
    eigenvalues. A ``share`` of the rows may be wrong, and rows that lie together far off make a leading direction too:
    along it most rows do not vary, so that one is left out whose score has no larger median deviation than noise with
    those rows at its ends has. So is a score whose median is farther from zero than those rows at one end make it:
    there the means off the support are not zero.
    """
    n = values.shape[0]
    nothing = Factors(np.empty((n, 0)), 0)
    if n < LEAST_ROWS:
        return nothing
    step = -(-n // ROWS)
    units, deviation = _units(values[::step])
    if units.used.size < LEAST_COLUMNS:
        return nothing
    some, clipped, has = _scaled(values[::step], units, deviation)
    directions, eigenvalues = _leading(clipped, has, rng)
    directions = directions[:, : number_of_factors(eigenvalues, n)]
    places = clipped @ directions
    real = _real(places, eigenvalues, share)
    if step > 1 and real.any():  # all rows say more surely what some of them have said
        some, clipped, has = _scaled(values[:], units, deviation)
        places = clipped @ directions
        real &= _real(places, eigenvalues, share)
    if not real.any():
        return nothing
    scores = _scores(some, has, directions[:, real], start=places[:, real].astype(np.float64))
    return Factors(scores / (GAUSSIAN * np.median(np.abs(scores), axis=0)), units.used.size)


def _real(places: Single, eigenvalues: FloatArray, share: float) -> Flags:
    """Say along which directions most rows vary, by more than noise, and about zero."""
    n, count = places.shape
    spread = GAUSSIAN * np.median(np.abs(places), axis=0)
    widened = GAUSSIAN * NormalDist().inv_cdf(0.5 + 0.25 / (1 - share))
    away = NormalDist().inv_cdf(0.5 / (1 - share)) + SURELY * math.sqrt(math.pi / 2 / n)
    varied = spread**2 > GAP * widened**2 * eigenvalues[count]
    return np.asarray(varied & (np.abs(np.median(places, axis=0)) <= away * spread))


def number_of_factors(eigenvalues: FloatArray, n: int) -> int:
    """Return after how many eigenvalues, in falling order, the last gap is that sets factors apart.

    Examples
    --------
    >>> number_of_factors(np.array([90.0, 12.0, 9.0, 1.2, 1.1, 1.0]), 600)
    3
    >>> number_of_factors(np.array([1.4, 1.3, 1.2, 1.1]), 600)
    0
    """
    most = min(MOST_FACTORS, eigenvalues.size - 1, n // ROWS_EACH)
    gaps = np.flatnonzero(eigenvalues[:most] > GAP * eigenvalues[1 : most + 1])
    return int(gaps[-1]) + 1 if gaps.size else 0


def _units(values: Sizes) -> tuple[Units, Single]:
    """Return the columns that are neither mostly zero, mostly missing nor constant, and what they are divided by.

    These are their units and the deviations of what is clipped at `CLIP` of them: with variances of one no column is a
    direction by itself.
    """
    size = scales(values, max(1, values.shape[0] // FOR_SCALE))
    used = np.flatnonzero((size > 0) & (np.mean(~np.isnan(values), axis=0) >= MOSTLY))
    _, clipped, _ = _scaled(values, units_at(size, used), np.ones(used.size, dtype=np.float32))
    deviation = clipped.std(axis=0)
    varied = deviation > TINY
    return units_at(size, used[varied]), deviation[varied]


def _scaled(values: Sizes, units: Units, deviation: Single) -> tuple[Single, Single, Flags | None]:
    """Return columns in units of their own, the same clipped, and where values are there; None: nowhere missing.

    Unlike for the screening of rows they stay about zero, their mean: how far scores are from it is what is wanted.
    What is missing lies there.
    """
    scaled, has = ratios_of(values, units)
    np.clip(scaled, -WIDE, WIDE, out=scaled)
    clipped = np.clip(scaled, -CLIP, CLIP)
    scaled /= deviation
    clipped /= deviation
    return scaled, clipped, has


def _leading(clipped: Single, has: Flags | None, rng: np.random.Generator) -> tuple[Single, FloatArray]:
    """Return the directions in which rows vary most about their mean, and the variances, by block power iteration."""
    if has is None:
        centred = clipped - clipped.mean(axis=0)
    else:
        centred = np.where(has, clipped - clipped.sum(axis=0) / np.maximum(has.sum(axis=0), 1), 0).astype(np.float32)
    n, p = centred.shape
    directions = np.asarray(rng.standard_normal((p, min(BLOCK, p))), dtype=np.float32)
    with np.errstate(invalid="ignore"):  # as in judged: some BLAS compute behind the end of single-precision rows
        for step in range(TURNS + 1):
            places = centred @ directions
            if step in (EARLY, TURNS):
                variances, turned = np.linalg.eigh(np.asarray(places.T @ places, dtype=np.float64) / n)
                if step == TURNS or not may_have_factors(variances[::-1]):
                    break
            directions = np.linalg.qr(centred.T @ places)[0]
    return directions @ turned[:, ::-1].astype(np.float32), variances[::-1]


def _scores(scaled: Single, has: Flags | None, directions: Single, *, start: FloatArray) -> FloatArray:
    """Return the scores of each row by a robust regression of its entries on the directions.

    A few entries that are off then move a score by little; sums of clipped entries they would move by their share.
    """
    length = np.einsum("ij,ij->i", directions, directions)
    told = np.sort(np.argsort(-length, kind="stable")[:TELLING])
    scaled, loadings, scores = scaled[:, told], directions[told], start
    step = max(1, scaled.shape[0] // FOR_SCALE)
    products = np.einsum("ij,ik->ijk", loadings, loadings).reshape(told.size, -1)
    for weigh in (_huber, _huber, _biweight, _biweight):
        r = np.abs(scaled - scores.astype(np.float32) @ loadings.T)
        spread = np.maximum(GAUSSIAN * scales(r, step), TINY).astype(np.float32)
        weight = weigh(r / spread) / spread**2
        if has is not None:
            weight *= has[:, told]
        square = np.asarray(weight @ products, dtype=np.float64).reshape(-1, loadings.shape[1], loadings.shape[1])
        # As if there were one entry more that is zero: a row of which little is known has a score near zero.
        square += np.diag(1 / np.mean(scores**2, axis=0))
        right = np.asarray((weight * scaled) @ loadings, dtype=np.float64)
        scores = np.asarray(np.linalg.solve(square, right[..., np.newaxis])[..., 0])
    return scores


def take_out(X: FloatArray, factors: Factors) -> tuple[FloatArray, int]:
    """Return ``X`` with the factors taken out of every column that they explain, and how many columns those are.

    As the scores are about zero, x − F·b has the centre of x, and the part of its error that is the mean of F is gone.
    """
    step = -(-X.shape[0] // ROWS)
    adjusted, count = X, 0
    for j, x in enumerate(X.T):
        there = ~np.isnan(x[::step])
        slopes = robust_slopes(x[::step][there], factors.scores[::step][there])
        left = x - factors.scores @ slopes
        if _spread(dropna(left)) < WORTH * _spread(dropna(x)):
            adjusted = X.copy() if not count else adjusted
            adjusted[:, j] = left
            count += 1
    return adjusted, count


def _spread(x: FloatArray) -> float:
    return float(np.median(np.abs(x - np.median(x)))) if x.size else 0.0


def robust_slopes(x: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the slopes of a regression of ``x`` on scores, in robust deviations, that few rows cannot turn.

    A row turns a slope the more, the farther its scores are out. So the half of the rows nearest to zero comes first,
    with Huber's weights, whose fit is unique; then all rows, those farther out weighted down (Mallows) and with the
    biweight, for which rows that do not agree with that first fit do not count at all.
    """
    k = scores.shape[1]
    if x.size < LEAST_ROWS:
        return np.zeros(k)
    design = np.column_stack((np.ones(x.size), scores))
    squares = np.einsum("ij,ij->i", scores, scores)
    inner = squares <= np.median(squares)
    fitted = np.concatenate(([np.median(x)], np.zeros(k)))
    for _ in range(STEPS):
        fitted, spread = _reweighted(x[inner], design[inner], fitted, weigh=_huber)
    near = FAR / np.maximum(squares / k, FAR)
    for _ in range(STEPS):
        fitted, _ = _reweighted(x, design, fitted, weigh=lambda t: near * _biweight(t), spread=spread)
    return fitted[1:]


def _reweighted(
    x: FloatArray,
    design: FloatArray,
    fitted: FloatArray,
    *,
    weigh: Callable[[Sizes], Sizes],
    spread: float | None = None,
) -> tuple[FloatArray, float]:
    """Return a least squares fit with weights by the residuals of the one before, and their robust deviation."""
    r = np.abs(x - design @ fitted)
    spread = GAUSSIAN * float(np.median(r)) if spread is None else spread
    if not spread > 0:
        return fitted, 0.0
    with np.errstate(over="ignore"):  # what is too far to be divided has no weight
        weighted = design * weigh(r / spread)[:, np.newaxis]
    return np.asarray(np.linalg.lstsq(weighted.T @ design, weighted.T @ x, rcond=None)[0], dtype=np.float64), spread


def _huber(t: Sizes) -> Sizes:
    return np.asarray(HUBER / np.maximum(t, HUBER))


def _biweight(t: Sizes) -> Sizes:
    return np.asarray((1 - np.minimum(t / BIWEIGHT, 1.0) ** 2) ** 2)
