"""The sparse filter: rows judged by the entries of the covariance that a sparse mean could make."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import medians
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.baselines import baseline

BoolArray = npt.NDArray[np.bool_]

# τ, the level and the largest share are those of the published method.
TAU = 0.2
LEVEL = 0.1
"""Sorted tail probabilities are compared with this times their position."""
MOST = 0.6
"""No round may remove a larger share of rows."""


def filter_rows(X: FloatArray, contamination: float, k: int) -> tuple[IntArray, int]:
    """Return the rows that stay, and the number of rounds that removed some.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows, with unit variance where they are good.
    contamination : float
        Share ε of rows that may be arbitrary; with 0 all rows stay, as a single one does.
    k : int
        Sparsity of the mean.
    """
    n, d = X.shape
    if contamination == 0 or n == 1:
        return np.arange(n), 0
    log = math.log(n * d / TAU)
    kept, rows = prune(X, math.sqrt(2 * log))
    rounds = 0
    while kept.size > 1:
        stay = _stay(rows, contamination, k, math.log(k * log))
        if stay is None:
            break
        kept, rows, rounds = kept[stay], rows[stay], rounds + 1
    return kept, rounds


def prune(X: FloatArray, radius: float) -> tuple[IntArray, FloatArray]:
    """Return the rows that are nowhere ``radius`` away from the median, and those less the median."""
    with np.errstate(over="ignore"):  # what is infinitely far is far
        away = X - medians(X)
    kept = np.flatnonzero(np.abs(away).max(axis=1) < radius)
    return kept, away[kept]


def _stay(rows: FloatArray, epsilon: float, k: int, log: float) -> BoolArray | None:
    """Return which rows stay; None if all do."""
    centred = rows - rows.mean(axis=0)
    diagonal = np.einsum("ij,ij->j", centred, centred) / (len(rows) - 1) - 1
    u = np.argsort(-diagonal, kind="stable")[:k]
    enough = epsilon * math.log(1 / epsilon)
    # Mostly the diagonal alone is enough to go on, and the rest of the mask is needed by the second filter only.
    M = None
    if math.sqrt(diagonal[u] @ diagonal[u]) < enough:
        M = largest_entries(centred, u)
        if np.linalg.norm(M) < enough:
            return None
    stay = light(linear_tail(rows[:, u], centred[:, u].T @ centred[:, u] / (len(rows) - 1), epsilon, log))
    if stay is None:
        M = largest_entries(centred, u) if M is None else M
        stay = light(quadratic_tail(departures(centred, M), epsilon))
    return stay


def largest_entries(centred: FloatArray, u: IntArray) -> FloatArray:
    """Return M = Σ − I at k entries ``u`` of its diagonal, and where it is above its (k²−k)-th largest one off it."""
    n, d = centred.shape
    M = centred.T @ centred / (n - 1) - np.identity(d)
    kept = np.zeros((d, d), dtype=bool)
    kept[u, u] = True
    if u.size > 1:
        above, count = M[~np.tri(d, dtype=bool)], (u.size * u.size - u.size) // 2
        kept |= np.partition(above, above.size - count)[above.size - count] < M
    return np.where(kept, M, 0.0)


def departures(centred: FloatArray, M: FloatArray) -> FloatArray:
    """Return |xᵀMx − tr M| / ‖M‖_F of every row; zero where M is."""
    form = np.einsum("ij,ij->i", centred @ M, centred)
    return np.asarray(np.abs(form - np.trace(M)) / (np.linalg.norm(M) or 1.0))


def linear_tail(X: FloatArray, sigma: FloatArray, epsilon: float, log: float) -> FloatArray | None:
    """Return erfc(x/√2) + ε²/(log x²), x the distance from the median along the top eigenvector less 3√(λε)."""
    from scipy.special import erfc

    values, vectors = np.linalg.eigh(sigma)
    top = float(values[-1])
    if top <= 1 + epsilon * math.sqrt(math.log(1 / epsilon)):
        return None
    along = X @ vectors[:, -1]
    x = np.abs(along - np.median(along)) - 3 * math.sqrt(top * epsilon)
    # Where x is not positive the first term alone is one or more.
    x = np.maximum(x, 1e-100)
    return np.asarray(erfc(x / math.sqrt(2)) + epsilon**2 / (log * x * x))


def quadratic_tail(x: FloatArray, epsilon: float) -> FloatArray:
    """Return 2 exp(−(x + 1 − √(1+2x))/2) + ε²/(2x ln²x), of which the first term is above one up to x = 2."""
    x = np.maximum(x, 2.0)
    return np.asarray(2 * np.exp(-(x + 1 - np.sqrt(1 + 2 * x)) / 2) + epsilon**2 / (2 * x * np.log(x) ** 2))


def light(tail: FloatArray | None) -> BoolArray | None:
    """Return which rows stay: those above the last sorted p_(i) ≤ 0.1·i/l; None where none or too many would go."""
    if tail is None:
        return None
    ascending = np.sort(np.minimum(tail, 1.0))
    n = ascending.size
    below = np.flatnonzero(ascending <= LEVEL * np.arange(n) / n)
    if not below.size or below[-1] + 1 > MOST * n:
        return None
    return np.asarray(tail > ascending[below[-1]])


# Removal of rows that are too far out along the largest k×k part of the covariance.


@baseline(
    unit_variance=True,
    assumes="unit variance, Gaussian tails, uncorrelated features, k-sparse mean",
    cost="rounds × n d²",
    reference="Diakonikolas, Kane, Karmalkar, Price, Stewart 2019, NeurIPS",
)
def sparse_filter(X: FloatArray, contamination: float, k: int) -> LocationEstimate:
    """Remove rows whose tails are too heavy along the largest k×k part of the covariance, and average the rest.

    1. Prune rows with max_j |x_j − med_j| ≥ √(2 ln(nd/τ)), τ = 0.2.
    2. With M = Σ − I, u its k largest diagonal entries and M* = M on those and on all entries above the (k²−k)-th
       largest off-diagonal one, stop when ‖M*‖_F < ε ln(1/ε). Else, if the top eigenvalue λ of Σ[u, u] exceeds
       1 + ε√ln(1/ε), remove rows by x = |X_u v − med(X_u v)| − 3√(λε) with tail erfc(x/√2) + ε²/(ln(k ln(nd/τ)) x²);
       if none goes, by x = |(x − x̄)ᵀM*(x − x̄) − tr M*| / ‖M*‖_F with tail
       2 exp(−(x + 1 − √(1+2x))/2) + ε²/(2x ln²x). Of l rows those up to the last sorted p_(i) ≤ 0.1·i/l go, unless
       they are more than 60 %. Repeat until none goes.

    Notes
    -----
    It must be told ε, k, and that every feature has variance one with Gaussian tails (σ). On heavier tails the pruning
    removes nearly every row; when fewer than two are left the answer is, as published, the zero vector, and a note
    says so. With ε = 0 there is nothing to remove and the answer is the mean.

    References
    ----------
    I. Diakonikolas, D. M. Kane, S. Karmalkar, E. Price, A. Stewart (2019). Outlier-robust high-dimensional sparse
    estimation via iterative filtering. Advances in Neural Information Processing Systems 32.
    """
    n, d = X.shape
    kept, rounds = filter_rows(X, contamination, k)
    if kept.size < min(2, n):
        note = f"{n - kept.size} of {n} rows were removed, so the mean is the zero vector and says nothing"
        return LocationEstimate(np.zeros(d), rounds, converged=False, notes=(note,))
    weights = np.zeros(n)
    weights[kept] = 1 / kept.size
    return LocationEstimate(X[kept].mean(axis=0), rounds, weights=weights)
