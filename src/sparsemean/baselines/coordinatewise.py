"""Methods that look at one coordinate at a time: mean, median, trimmed mean, Huber, Catoni."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sparsemean._stats.covariance import deviations
from sparsemean._stats.planning import bad_rows
from sparsemean._util.records import FloatArray, LocationEstimate
from sparsemean.baselines._baseline import baseline

__all__ = ["catoni", "huber", "mean", "median", "trimmed_mean"]

# Each step leaves about half of the distance at most: forty of them reach the tolerance, and five times as many are
# for columns in which most rows lie where ψ is flat.
TOLERANCE = 1e-12
LIMIT = 200


def locate_by_influence(X: FloatArray, psi: Callable[[FloatArray], FloatArray], *, width: float) -> LocationEstimate:
    """Solve Σᵢ ψ((xᵢ − θ) / (b s)) = 0 in every coordinate, s the scaled MAD and b the ``width``.

    ψ is odd and rises with slopes from 0 to 1. From the median, θ ← θ + b s · mean ψ: it never steps past the root,
    and each step leaves the share of rows on the flat part of ψ of the distance, about a half at most, because half
    of the rows are within one MAD of the median. It stops once no coordinate moves by more than 1e-12 b s. A
    coordinate in which more than half of the rows are equal has s = 0 and keeps its median.

    Examples
    --------
    >>> located = locate_by_influence(np.array([[0.0], [1.0], [2.0], [99.0]]), lambda r: np.clip(r, -1, 1), width=2.0)
    >>> located.mean.round(3)
    array([1.988])
    """
    theta, scale = deviations(X)
    free = scale > 0
    stuck = int(np.count_nonzero(~free & np.any(X[0] != X, axis=0)))
    notes = [f"kept the median in {stuck} coordinates in which half of the rows are equal"] if stuck else []
    if not free.any():
        return LocationEstimate(theta, notes=tuple(notes))
    rows, step = X[:, free], width * scale[free]
    found, steps = theta[free], 0
    moved = np.inf
    while moved > TOLERANCE and steps < LIMIT:
        move = psi((rows - found) / step).mean(axis=0)
        found, moved, steps = found + step * move, float(np.abs(move).max()), steps + 1
    theta[free] = found
    if moved > TOLERANCE:
        notes.append(f"still moving by {moved:.1e} of its scale after {LIMIT} steps")
    return LocationEstimate(theta, iterations=steps, converged=moved <= TOLERANCE, notes=tuple(notes))


# The sample mean: best for Gaussian rows, worthless once one row is far away.


@baseline(assumes="finite mean, no corrupted row", reference="Gauss 1809, Theoria motus")
def mean(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> LocationEstimate:
    """Average all rows: one corrupted row moves it as far as it likes.

    References
    ----------
    C. F. Gauss (1809), Theoria motus corporum coelestium in sectionibus conicis solem ambientium, Perthes and Besser
    (the mean as the likeliest value under Gaussian errors).
    """
    return LocationEstimate(X.mean(axis=0))


# The coordinate-wise median.


@baseline(
    assumes="median equal to the mean in every coordinate", cost="n d", reference="Huber 1964, Ann. Math. Stat. 35"
)
def median(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> LocationEstimate:
    """Take the median of every coordinate: error of order ε√d under corruption.

    References
    ----------
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35(1), 73–101
    (no translation-equivariant estimate has a smaller worst bias under contamination of symmetric unimodal noise).
    """
    return LocationEstimate(np.asarray(np.median(X, axis=0)))


# The coordinate-wise trimmed mean.


@baseline(
    told=("ε",),
    assumes="finite variance; rows symmetric, or ε small",
    cost="n d",
    reference="Tukey and McLaughlin 1963, Sankhyā A 25",
)
def trimmed_mean(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> LocationEstimate:
    """Drop the ⌈εn⌉ smallest and largest values of every coordinate and average the rest.

    θ = (x₍g+1₎ + … + x₍n−g₎) / (n − 2g) with g = ⌈εn⌉, but never so many that nothing is left: then it is the median.
    Its error grows like √(εd) under corruption, since every coordinate is moved on its own.

    References
    ----------
    J. W. Tukey and D. H. McLaughlin (1963), Less vulnerable confidence and significance procedures for location based
    on a single sample: trimming/Winsorization 1, Sankhyā Series A 25(3), 331–352.

    G. Lugosi and S. Mendelson (2021), Robust multivariate mean estimation: the optimality of trimmed mean, Annals of
    Statistics 49(1), 393–410 (why trimming as many as may be corrupted is right in one dimension).
    """
    n = X.shape[0]
    cut = min(bad_rows(n, contamination), (n - 1) // 2)
    ordered = np.partition(X, (cut, n - 1 - cut), axis=0)
    return LocationEstimate(np.asarray(ordered[cut : n - cut].mean(axis=0)))


# Huber's M-estimate of every coordinate.

BEND = 1.345
"""95 % efficiency for Gaussian noise."""


@baseline(
    assumes="symmetric noise, or little of it beyond 1.345 standard deviations",
    cost="n d",
    reference="Huber 1964, Ann. Math. Stat. 35",
)
def huber(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> LocationEstimate:
    """Solve Σ clip((xᵢ − θ)/s, ±1.345) = 0 in every coordinate, s = 1.4826 MAD.

    The scale is fixed beforehand, the start is the median, and no coordinate moves by more than 1e-12 s at the end.
    Where the MAD is zero the median stays. Error of order ε√d under corruption.

    References
    ----------
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35(1), 73–101.
    """
    return locate_by_influence(X, lambda r: np.clip(r, -BEND, BEND), width=1.0)


# Catoni's M-estimate of every coordinate.

FAILURE = 0.05
"""δ, the probability with which Catoni's bound may fail."""


@baseline(
    told=("ε",),
    assumes="finite variance, not far above that of Gaussian noise with the same MAD",
    cost="n d",
    reference="Catoni 2012, Ann. Inst. H. Poincaré Probab. Stat. 48",
)
def catoni(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> LocationEstimate:
    """Solve Σ ψ(α(xᵢ − θ)) = 0 in every coordinate with Catoni's narrowest influence function.

    ψ(r) = −ln(1 − r + r²/2) for 0 ≤ r ≤ 1, ln 2 beyond, odd: of the functions his bound allows the one that a far row
    moves least. α² = 2L(n − 2L)/(n² v), which is his choice at ε = 0, where L = ln(1/δ) and δ = 0.05. Under corruption
    L = ln(1/δ) + εn, so that far rows weigh as much as the tails do; and L ≤ n/4, as the formula needs n > 2L. The
    variance v, which he takes as known, is (1.4826 MAD)²: too small for heavy tails, which costs bias where these are
    skewed. Where the MAD is zero the median stays. Error of order √(εd) under corruption.

    References
    ----------
    O. Catoni (2012), Challenging the empirical mean and empirical variance: a deviation study, Annales de l'Institut
    Henri Poincaré, Probabilités et Statistiques 48(4), 1148–1185.
    """
    return locate_by_influence(X, narrowest, width=1 / rate(X.shape[0], contamination))


def rate(n: int, contamination: float) -> float:
    """Return α √v."""
    L = min(math.log(1 / FAILURE) + contamination * n, n / 4)
    return math.sqrt(2 * L * (n - 2 * L)) / n


def narrowest(r: FloatArray) -> FloatArray:
    """Return ψ(r).

    Examples
    --------
    >>> narrowest(np.array([-9.0, 0.5, 9.0])).round(4)
    array([-0.6931,  0.47  ,  0.6931])
    """
    size = np.minimum(np.abs(r), 1.0)
    return np.asarray(-np.sign(r) * np.log1p(-size + size * size / 2))
