"""Common factors of the noise: what features off the support share with those on it can be taken out."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import dropna, medians
from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._stats.row_scores import CLIP, FOR_SCALE, MOSTLY, scales
from sparsemean._util.records import FloatArray

LEAST_COLUMNS = 20
"""Columns below which a row's score would be mostly its own noise."""
LEAST_ROWS = 50
"""Rows below which eigenvalues of pure noise lie far apart."""
MOST_FACTORS = 8
"""Factors that are looked for; of few rows fewer, as each takes a degree of freedom."""
GAP = 1.5
"""Ratio of neighbouring eigenvalues that tells factors from noise, whose largest eigenvalues lie close together."""
BLOCK = 16
"""Directions that are iterated together: more than are wanted, so that those converge."""
TURNS = 6
"""Steps of the block power method; factors that are worth it stand out after a few."""
ROWS = 5000
"""Rows that tell directions and slopes, where there are more: every score is then computed from them."""
SURELY = 4.0
"""Standard errors that the median of a score may be away from zero, beyond what bad rows can do."""
WORTH = 0.95
"""A feature is adjusted where its spread falls below this share: less would not pay for the slopes' own error."""
HUBER, BIWEIGHT = 1.345, 4.685
"""In robust deviations: 95 % efficiency under Gaussian noise."""
STEPS = 8
"""Reweighted fits of each kind; slopes need two digits only, as they multiply the mean of a score."""
Single = npt.NDArray[np.float32]


class Factors(NamedTuple):
    """Scores of the rows, a column for each factor, in robust deviations about zero, and the columns they are from."""

    scores: FloatArray
    n_columns: int


def common_factors(values: FloatArray, *, share: float, rng: np.random.Generator) -> Factors:
    """Return the scores of the factors that columns with known mean 0 have in common; none where there is no factor.

    Columns are divided by their median absolute value and clipped, so that neither tails nor rows that are large as a
    whole make a direction. Factors are the leading directions up to the last gap of `GAP` between neighbouring
    eigenvalues. A ``share`` of the rows may be wrong, and rows that lie together far off make a leading direction too:
    along it most rows do not vary, so that one is left out whose score has no larger median deviation than noise with
    those rows at its ends has. So is a score whose median is farther from zero than those rows at one end make it:
    there the means off the support are not zero.
    """
    nothing = Factors(np.empty((values.shape[0], 0)), 0)
    if min(values.shape[0] - LEAST_ROWS, values.shape[1] - LEAST_COLUMNS) < 0:
        return nothing
    clipped, has = _clipped(values)
    if clipped.shape[1] < LEAST_COLUMNS:
        return nothing
    step = -(-clipped.shape[0] // ROWS)
    directions, eigenvalues = _leading(clipped[::step], None if has is None else has[::step], rng)
    count = number_of_factors(eigenvalues, clipped.shape[0])
    scores = np.asarray(clipped @ directions[:, :count], dtype=np.float64)
    if has is not None:
        # The least squares score of the entries that are there, but for factors that are then no longer orthogonal.
        scores /= np.maximum(has.astype(np.float32) @ directions[:, :count] ** 2, 1.0 / clipped.shape[1])
    spread = GAUSSIAN * np.median(np.abs(scores), axis=0)
    widened = GAUSSIAN * NormalDist().inv_cdf(0.5 + 0.25 / (1 - share))
    real = spread**2 > GAP * widened**2 * eigenvalues[count]
    away = NormalDist().inv_cdf(0.5 / (1 - share)) + SURELY * math.sqrt(math.pi / 2 / values.shape[0])
    real &= np.abs(np.median(scores, axis=0)) <= away * spread
    return Factors(scores[:, real] / spread[real], clipped.shape[1])


def number_of_factors(eigenvalues: FloatArray, n: int) -> int:
    """Return after how many eigenvalues, in falling order, the last gap is that sets factors apart.

    Examples
    --------
    >>> number_of_factors(np.array([90.0, 12.0, 9.0, 1.2, 1.1, 1.0]), 600)
    3
    >>> number_of_factors(np.array([1.4, 1.3, 1.2, 1.1]), 600)
    0
    """
    most = min(MOST_FACTORS, eigenvalues.size - 1, n // LEAST_COLUMNS)
    gaps = np.flatnonzero(eigenvalues[:most] > GAP * eigenvalues[1 : most + 1])
    return int(gaps[-1]) + 1 if gaps.size else 0


def _clipped(values: FloatArray) -> tuple[Single, npt.NDArray[np.bool_] | None]:
    """Return columns over their median absolute value, clipped, and where values are there; None: nowhere missing.

    Unlike for the screening of rows they stay about zero, their mean: how far scores are from it is what is wanted.
    """
    step = max(1, values.shape[0] // FOR_SCALE)
    gaps = np.isnan(values)
    has = ~gaps if gaps.any() else None
    if has is None:
        unit = scales(values, step)
        used = unit > 0
    else:
        unit = medians(np.abs(values[::step]))
        used = (unit > 0) & (has.mean(axis=0) >= MOSTLY)
    with np.errstate(over="ignore"):
        clipped = np.clip(values[:, used] / unit[used], -CLIP, CLIP).astype(np.float32)
    return (clipped, None) if has is None else (np.where(has[:, used], clipped, np.float32(0)), has[:, used])


def _leading(clipped: Single, has: npt.NDArray[np.bool_] | None, rng: np.random.Generator) -> tuple[Single, FloatArray]:
    """Return the directions in which rows vary most about their mean, and the variances, by block power iteration."""
    if has is None:
        centred = clipped - clipped.mean(axis=0)
    else:
        centred = np.where(has, clipped - clipped.sum(axis=0) / np.maximum(has.sum(axis=0), 1), 0).astype(np.float32)
    n, p = centred.shape
    directions = np.asarray(rng.standard_normal((p, min(BLOCK, p))), dtype=np.float32)
    with np.errstate(invalid="ignore"):  # as in row_scores: some BLAS compute behind the end of single-precision rows
        for _ in range(TURNS):
            directions = np.linalg.qr(centred.T @ (centred @ directions))[0]
        places = centred @ directions
        variances, turn = np.linalg.eigh(np.asarray(places.T @ places, dtype=np.float64) / n)
        directions = directions @ turn[:, ::-1].astype(np.float32)
    return directions, variances[::-1]


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

    Rows with far scores are weighted down whatever their x is (Mallows), then rows by their residuals, at first with
    Huber's weights, whose fit is unique, then with the biweight, for which far residuals do not count at all.
    """
    n, k = scores.shape
    slopes = np.zeros(k)
    if n < LEAST_ROWS:
        return slopes
    design = np.column_stack((np.ones(n), scores))
    squares = np.einsum("ij,ij->i", scores, scores)
    near = np.minimum(1.0, (k + 2 * math.sqrt(2 * k)) / np.maximum(squares, 1.0))
    r = x - np.median(x)
    for turn in range(2 * STEPS):
        spread = GAUSSIAN * float(np.median(np.abs(r)))
        if not spread > 0:
            break
        t = np.abs(r) / spread
        if turn < STEPS:
            weight = near * np.minimum(1.0, HUBER / np.maximum(t, HUBER))
        else:
            weight = near * np.where(t < BIWEIGHT, (1 - (t / BIWEIGHT) ** 2) ** 2, 0.0)
        weighted = design * weight[:, np.newaxis]
        fitted = np.linalg.lstsq(weighted.T @ design, weighted.T @ np.where(weight > 0, x, 0.0), rcond=None)[0]
        r = x - design @ fitted
        slopes = fitted[1:]
    return slopes
