"""The sparse filter: rows judged by the entries of the covariance that a sparse mean could make."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.baselines import baseline

__all__ = ["sparse_filter"]

BoolArray = npt.NDArray[np.bool_]

# τ, the level and the largest share are those of the published method.
TAU = 0.2
LEVEL = 0.1
"""Sorted tail probabilities are compared with this times their position."""
MOST = 0.6
"""No round may remove a larger share of rows."""
FEATURES = 100
"""Features that are pruned by at a time."""
FIRST = 48
"""Columns of largest variance that are looked at first for large covariances."""
ROUNDING = 1e-9
"""Share by which a variance and the covariances it bounds may differ for rounding alone."""


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
    scatter = Scatter(rows)
    rounds = 0
    while kept.size > 1:
        stay = _stay(scatter, contamination, k, math.log(k * log))
        if stay is None:
            break
        kept, rounds = kept[stay], rounds + 1
        scatter.keep(stay)
    return kept, rounds


def prune(X: FloatArray, radius: float) -> tuple[IntArray, FloatArray]:
    """Return the rows that are nowhere ``radius`` away from the median, and those less the median.

    Heavy tails leave few rows: those that fail in the first features are not looked at in the others.
    """
    n, d = X.shape
    kept, centre = np.arange(n), np.empty(d)
    by_feature = np.empty((min(FEATURES, d), n))
    for first in range(0, d, FEATURES):
        some = X[:, first : first + FEATURES]
        copy = by_feature[: some.shape[1]]
        np.copyto(copy, some.T)
        centre[first : first + FEATURES] = middle = medians(copy)
        with np.errstate(over="ignore"):  # what is infinitely far is far
            away = (some if kept.size == n else some[kept]) - middle
        kept = kept[np.abs(away, out=away).max(axis=1) < radius]
    return kept, X[kept] - centre


def medians(rows: FloatArray) -> FloatArray:
    """Return the median of each row, and leave them in another order; contiguous, they take np.median four times."""
    n = rows.shape[1]
    half = n // 2
    rows.partition(half, axis=1)
    upper = rows[:, half].copy()
    return upper if n % 2 else np.asarray(0.5 * rows[:, :half].max(axis=1) + 0.5 * upper)


class Scatter:
    """The rows that are left, and as much of their covariance as is asked for."""

    def __init__(self, rows: FloatArray) -> None:
        self.second = np.empty((0, 0))
        self.counted = 0
        self._hold(rows)

    def _hold(self, rows: FloatArray) -> None:
        n = rows.shape[0]
        self.rows = rows
        self.mean = rows.sum(axis=0) / max(n, 1)
        self.centred = rows - self.mean
        self.variances = np.einsum("ij,ij->j", self.centred, self.centred) / max(n - 1, 1)

    def keep(self, stay: BoolArray) -> None:
        """Remove the rows that do not stay."""
        gone = self.rows[~stay]
        self._hold(self.rows[stay])
        if 2 * self.rows.shape[0] < self.counted:
            # After losing half of what was counted the sum is taken again, before its rounding can tell.
            self.counted = 0
        if self.counted:
            self.second -= gone.T @ gone

    def covariance(self, left: IntArray, right: IntArray) -> FloatArray:
        """Return the sample covariances, divided by one less than the rows, of some columns with some."""
        scaled = self.centred[:, left] / (self.rows.shape[0] - 1)
        return np.asarray(scaled.T @ self.centred[:, right])

    def full_covariance(self) -> FloatArray:
        """Return those of all columns, from the ones before where few rows have gone since."""
        n, d = self.rows.shape
        if n <= d:
            return np.asarray(self.centred.T @ self.centred / (n - 1))
        if not self.counted:
            self.second, self.counted = self.rows.T @ self.rows, n
        return np.asarray((self.second - (n * self.mean)[:, None] * self.mean) / (n - 1))


def _stay(scatter: Scatter, epsilon: float, k: int, log: float) -> BoolArray | None:
    """Return which rows stay; None if all do."""
    diagonal = scatter.variances - 1
    order = np.argsort(-diagonal, kind="stable")
    u = order[:k]
    enough = epsilon * math.log(1 / epsilon)
    # Mostly the diagonal alone is enough to go on, and the rest of the mask is needed by the second filter only.
    mask = None
    if math.sqrt(diagonal[u] @ diagonal[u]) < enough:
        mask = largest_entries(scatter, order, k)
        if mask.norm < enough:
            return None
    stay = light(linear_tail(scatter.rows[:, u], scatter.covariance(u, u), epsilon, log))
    if stay is None:
        mask = largest_entries(scatter, order, k) if mask is None else mask
        stay = light(quadratic_tail(mask.departures(scatter.centred), epsilon))
    return stay


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    """The entries of a symmetric matrix M* that are not zero: those on the diagonal and those of pairs right of it."""

    on: IntArray
    diagonal: FloatArray
    left: IntArray
    right: IntArray
    beside: FloatArray

    @property
    def norm(self) -> float:
        """The Frobenius norm."""
        return math.sqrt(self.diagonal @ self.diagonal + 2 * (self.beside @ self.beside))

    def departures(self, rows: FloatArray) -> FloatArray:
        """Return |xᵀM*x − tr M*| / ‖M*‖_F of every row; zero where M* is."""
        used = np.zeros(rows.shape[1], dtype=bool)
        used[self.left] = used[self.right] = True
        columns, place = np.flatnonzero(used), np.cumsum(used) - 1
        left, right = place[self.left], place[self.right]
        M = np.zeros((columns.size, columns.size))
        M[left, right] = M[right, left] = self.beside
        some = rows[:, columns]
        form = (rows[:, self.on] ** 2) @ self.diagonal + np.einsum("ij,ij->i", some @ M, some)
        return np.asarray(np.abs(form - self.diagonal.sum()) / (self.norm or 1.0))


def largest_entries(scatter: Scatter, order: IntArray, k: int) -> Masked:
    """Mask M = Σ − I to its k largest diagonal entries and all above the (k²−k)-th largest one off the diagonal.

    ``order`` lists the columns by variance, largest first.
    """
    diagonal = scatter.variances - 1
    kept = np.zeros(diagonal.size, dtype=bool)
    kept[order[:k]] = True
    left = right = np.empty(0, dtype=np.intp)
    beside = np.empty(0)
    if k > 1:
        least, left, right, beside = largest_pairs(scatter, order, (k * k - k) // 2)
        kept |= diagonal > least
    on = np.flatnonzero(kept)
    return Masked(on, diagonal[on], left, right, beside)


def largest_pairs(scatter: Scatter, order: IntArray, count: int) -> tuple[float, IntArray, IntArray, FloatArray]:
    """Return the covariance of two different columns at place ``count``, and which pairs are above it and by how much.

    |Σ_ab| ≤ √(Σ_aa Σ_bb): of two columns with a covariance of c one has a variance of c. Once that of the first
    columns in ``order`` of variance are known, only columns of enough variance need be met with the others.
    """
    d = order.size
    first = order[: max(FIRST, 2 * math.isqrt(2 * count) + 2)]
    low = _top_pairs(scatter.covariance(first, first), count)[0]
    enough = np.count_nonzero(scatter.variances >= low * (1 - ROUNDING)) if low > 0 else d
    if 2 * enough < d:  # else the whole matrix, which is symmetric, costs no more
        sigma = scatter.covariance(order[:enough], order)
    else:
        order, sigma = np.arange(d), scatter.full_covariance()
    least, places = _top_pairs(sigma, count)
    left, right = np.divmod(places, d)
    return least, order[left], order[right], sigma[left, right]


def _top_pairs(sigma: FloatArray, count: int) -> tuple[float, IntArray]:
    """Return the entry right of the diagonal of (q, d) at place ``count``, and the places of all above it."""
    q, d = sigma.shape
    sigma[:, :q][np.tri(q, dtype=bool)] = -np.inf
    # The largest of each column are entries too, so that nothing below the count-th of them can be at that place.
    low = np.partition(sigma.max(axis=0), d - count)[d - count] if count < d else -np.inf
    flat = sigma.ravel()
    places = np.flatnonzero(flat >= low)
    running = flat[places]
    least = float(np.partition(running, running.size - count)[running.size - count])
    return least, places[running > least]


def linear_tail(X: FloatArray, sigma: FloatArray, epsilon: float, log: float) -> FloatArray | None:
    """Return erfc(x/√2) + ε²/(log x²), x the distance from the median along the top eigenvector less 3√(λε)."""
    from scipy.special import erfc

    values, vectors = np.linalg.eigh(sigma)
    top = float(values[-1])
    if top <= 1 + epsilon * math.sqrt(math.log(1 / epsilon)):
        return None
    along = X @ vectors[:, -1]
    x = np.abs(along - medians(along[None].copy())) - 3 * math.sqrt(top * epsilon)
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
    told=("ε", "k", "σ"),
    assumes="unit variance, Gaussian tails, uncorrelated features, k-sparse mean",
    cost="rounds × n d²",
    reference="Diakonikolas, Kane, Karmalkar, Price, Stewart 2019, NeurIPS",
)
def sparse_filter(X: FloatArray, contamination: float, k: int | None, _rng: np.random.Generator) -> LocationEstimate:
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
    kept, rounds = filter_rows(X, contamination, d if k is None else k)
    if kept.size < min(2, n):
        note = f"{n - kept.size} of {n} rows were removed, so the mean is the zero vector and says nothing"
        return LocationEstimate(np.zeros(d), rounds, converged=False, notes=(note,))
    weights = np.zeros(n)
    weights[kept] = 1 / kept.size
    return LocationEstimate(X[kept].mean(axis=0), rounds, weights=weights)
