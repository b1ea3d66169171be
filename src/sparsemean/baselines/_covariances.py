"""Covariances of weighted rows that descents make small: by their top eigenvalue, or their largest block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from sparsemean._stats.descent import descend, largest_weight
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate

Product: TypeAlias = Callable[[FloatArray], FloatArray]
SAFE = 1e30
"""From 1/SAFE to SAFE eighth powers, which norms of gradients meet, neither overflow nor vanish."""


# The weighted covariance for one set of weights after another, most of which do not change.

SHRUNK = 1 / 16
"""A variance below this share of what it was has lost digits to the rows that left: all is computed again."""
MANY = 0.6
"""From this share of changed weights on an update, which has no symmetry to use, costs more than a new matrix."""


class WeightedCovariance:
    """Σ_w = Σ w_i (x_i − x̄)(x_i − x̄)ᵀ, x̄ = Σ w_i x_i, in O(c d²) where c weights changed since the last call.

    A descent on the capped simplex leaves nearly all weights at the cap, so that c is a small share of the n rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows, with squares that do not overflow.

    Attributes
    ----------
    peak : array of shape (d,)
        The largest second moments met since the matrix was last computed anew.
    """

    def __init__(self, X: FloatArray) -> None:
        self.X, self.w = X, np.full(X.shape[0], np.nan)
        self.rows = self.matrix = np.empty((0, 0))
        self.mean = self.peak = np.empty(0)

    def at(self, w: FloatArray) -> FloatArray:
        """Return Σ_w for weights that add up to one; it is changed by the next call."""
        changed = np.flatnonzero(w != self.w)
        if np.isnan(self.w[0]):
            self._centre(w)
        elif changed.size > MANY * w.size:
            self._anew(w)
        else:
            self._update(w, changed)
        if np.any(self.matrix.diagonal() < SHRUNK * self.peak):
            self._centre(w)
        return self.matrix

    def _update(self, w: FloatArray, changed: IntArray) -> None:
        change = w[changed] - self.w[changed]
        moved = self.rows[changed]
        mean = self.mean + change @ moved
        # The means' own squares ride along as two more rows.
        moved = np.concatenate([moved, [self.mean, mean]])
        change = np.concatenate([change, [1.0, -1.0]])
        self.matrix += (change[:, None] * moved).T @ moved
        self.w, self.mean = w, mean
        self.peak = np.maximum(self.peak, self.matrix.diagonal() + mean * mean)

    def _anew(self, w: FloatArray) -> None:
        self.w, self.mean = w, w @ self.rows
        scaled = np.sqrt(w)[:, None] * self.rows
        self.matrix = scaled.T @ scaled
        self.peak = self.matrix.diagonal().copy()
        self.matrix -= self.mean[:, None] * self.mean

    def _centre(self, w: FloatArray) -> None:
        self.rows = self.X - w @ self.X
        self._anew(w)


# The top eigenpair of a weighted covariance, found from where it was for slightly different weights.

SMALL = 32
"""Up to this many features, or rows, the smaller Gram matrix is decomposed outright."""
FORMED = 1000
"""Up to this many features the covariance is formed: each of the many products with it is then much cheaper."""
BLOCK = 8
"""Vectors that are followed: the larger the gap after the last of them, the fewer products the first one takes."""
TOLERANCE = 1e-10
"""Largest residual ‖Σu − λu‖/λ; λ is then exact to the last digits, u to about this over the relative gap."""
ROUNDS = 40
"""Each may gain eight digits (`GROWTH`): where so many do not do, values lie so close that decomposing is cheaper."""
GROWTH = 1e8
"""Most that one round may raise the top vector over the last of the block, which pays for it in digits."""
STIR = 1e-6
"""Share of random directions in the start, without which a vector orthogonal to the block is never found."""


class TopEigenpair:
    """The objective of the dense descent: the top eigenvalue of Σ_w = Σ w_i (x_i − x̄)(x_i − x̄)ᵀ and its gradient.

    Calls for nearby weights share work: a Ritz value in the span of the last eigenvectors is a lower bound of λ, which
    is enough to refuse most moves that do not lower it; for the others that span is where the iteration starts.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows, with squares that do not overflow.
    """

    def __init__(self, X: FloatArray) -> None:
        n, d = X.shape
        self.X = X
        self.small = min(n, d) <= SMALL
        self.covariance = WeightedCovariance(X) if d <= min(n, FORMED) else None
        # Always the same directions: weights must not depend on anyone's random state.
        self.noise = np.random.default_rng(0).standard_normal((d, min(BLOCK, d)))
        self.along: FloatArray | None = None
        self.block = self.noise

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return λ and g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), or None if λ is not below ``below``."""
        start = self.noise
        if self.along is not None and not self.small:
            values, vectors = np.linalg.eigh(weighted_gram(self.along, w))
            if values[-1] >= below:
                return None
            start = self.block @ vectors[:, ::-1] + STIR * self.noise
        value, block = self._top(w, start)
        if not value < below:
            return None
        self.block, self.along = block, self.X @ block
        along = self.along[:, 0]
        return value, along * along - 2 * (w @ along) * along

    def _top(self, w: FloatArray, start: FloatArray) -> tuple[float, FloatArray]:
        if self.small:
            return decompose(self.X, w)
        if self.covariance is not None:
            sigma = self.covariance.at(w)
            top = iterate(lambda V: np.asarray(sigma @ V), start)
        else:
            centred = self.X - w @ self.X
            top = iterate(lambda V: np.asarray(centred.T @ (w[:, None] * (centred @ V))), start)
        return decompose(self.X, w) if top is None else top


def weighted_gram(Y: FloatArray, w: FloatArray) -> FloatArray:
    """Return the w-weighted covariance of the columns of ``Y``."""
    centred = Y - w @ Y
    return np.asarray(centred.T @ (w[:, None] * centred))


def decompose(X: FloatArray, w: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest eigenvalue and the vectors of the largest ones, from the smaller Gram matrix."""
    Y = np.sqrt(w)[:, None] * (X - w @ X)
    n, d = Y.shape
    values, vectors = np.linalg.eigh(Y.T @ Y if d <= n else Y @ Y.T)
    block = vectors[:, : -BLOCK - 1 : -1]
    # Where a direction has no variance any will do.
    return float(values[-1]), block if d <= n else np.linalg.qr(Y.T @ block)[0]


def iterate(product: Product, block: FloatArray, tolerance: float = TOLERANCE) -> tuple[float, FloatArray] | None:
    """Return the top eigenvalue and the block, top vector first, once it has converged; None if it does not.

    Rounds of Rayleigh–Ritz; in between Chebyshev polynomials of the matrix lower everything in [0, b], b the smallest
    Ritz value of the block, by a factor that grows like (σ + √(σ² − 1)) to the degree, σ = 2λ/b − 1.
    """
    for _ in range(ROUNDS):
        basis = np.linalg.qr(block)[0]
        image = product(basis)
        values, vectors = np.linalg.eigh(basis.T @ image)
        vectors = vectors[:, ::-1]
        top, bottom = float(values[-1]), float(values[0])
        if not top > 0:
            return None
        block, image = basis @ vectors, image @ vectors
        residual = float(np.linalg.norm(image[:, 0] - top * block[:, 0])) / top
        if residual <= tolerance:
            return top, block
        # Away from both ends: at b = λ no degree parts the two, and near zero the first one would overflow.
        bottom = min(max(bottom, 1e-3 * top), 0.999 * top)
        block = chebyshev(product, block, image, bottom=bottom, degree=_degree(top / bottom, residual / tolerance))
    return None


def _degree(ratio: float, excess: float) -> int:
    sigma = 2 * ratio - 1
    rate = math.log(sigma + math.sqrt(sigma * sigma - 1))
    wanted = math.log(min(2 * excess, GROWTH))
    return max(2, math.ceil(wanted / rate))


def chebyshev(product: Product, block: FloatArray, image: FloatArray, *, bottom: float, degree: int) -> FloatArray:
    """Return T(2A/b − 1) applied to the block, T the Chebyshev polynomial of that degree; image is A applied to it."""
    before, now = block, (2 / bottom) * image - block
    for _ in range(degree - 1):
        after = product(now)
        after *= 4 / bottom
        after -= 2 * now
        after -= before
        before, now = now, after
    return now


# The k×k part of a covariance that departs most from the identity.


class LargestBlock:
    """The objective of the sparse descent: the squared F,k,k-norm of Σ_w − I, and its gradient in w.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows, with fourth powers that do not overflow.
    k : int
        Rows of the matrix, and entries in each, that count.
    unit : float
        The variance that stands for one in the scale of X.
    """

    def __init__(self, X: FloatArray, k: int, *, unit: float = 1.0) -> None:
        self.X, self.k, self.unit, self.covariance = X, k, unit, WeightedCovariance(X)

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return the norm and g_i = (x_iᵀZx_i − x_i·Z(Xᵀw) − x_i·Zᵀ(Xᵀw)) / ‖Z‖_F, or None if it is not below."""
        M = self.covariance.at(w).copy()
        M.flat[:: M.shape[0] + 1] -= self.unit
        sums = largest_squares(M, self.k)
        best = np.argsort(-sums, kind="stable")[: self.k]
        value = float(sums[best].sum())
        if not value < below:
            return None
        if value == 0:
            return value, np.zeros(w.size)
        best.sort()
        return value, self._gradient(w, best, M[best]) / math.sqrt(value)

    def _gradient(self, w: FloatArray, rows: IntArray, M: FloatArray) -> FloatArray:
        """Return Σ_r (x_ir y_ir − x_ir (Zx̄)_r − x̄_r y_ir) with y = XZᵀ, Z the largest entries of these rows."""
        entries = np.argsort(-M, axis=1, kind="stable")[:, : self.k]
        Z = np.zeros_like(M)
        np.put_along_axis(Z, entries, np.take_along_axis(M, entries, axis=1), axis=1)
        x, y = self.X if rows.size == self.X.shape[1] else self.X[:, rows], self.X @ Z.T
        return np.asarray(np.einsum("ir,ir->i", x, y) - x @ (w @ y) - y @ (w @ x))


def largest_squares(rows: FloatArray, k: int) -> FloatArray:
    """Return the sum of squares of the k largest entries of each row."""
    place = rows.shape[1] - k
    largest = np.partition(rows, place, axis=1)[:, place:]
    return np.asarray(np.einsum("rc,rc->r", largest, largest))


# The descent on the top eigenvalue.


def scale_of(X: FloatArray) -> float:
    """Return the power of two by which rows are divided so that nothing overflows; 1 for ordinary rows."""
    largest = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
    ordinary = largest == 0 or 1 / SAFE < largest < SAFE
    # A power of two, by which division is exact.
    return 1.0 if ordinary else math.ldexp(1.0, math.frexp(largest)[1] - 1)


def weighted_mean(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return Σ w_i x_i without overflow."""
    scale = scale_of(X)
    return np.asarray(w @ X if scale == 1 else (w @ (X / scale)) * scale)


def spectral_descent(X: FloatArray, contamination: float, n_iter: int = 100) -> LocationEstimate:
    """Find the mean by weights that make the top eigenvalue λ of the weighted covariance small.

    The gradient of λ at w is g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), u the top eigenvector; the search is `descend`.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows.
    contamination : float
        Share ε of rows that may be arbitrary; no weight exceeds 1/(n − round(εn)).
    n_iter : int
        Moves; the published method always makes 100.

    Returns
    -------
    LocationEstimate
        The weighted mean with its weights. ``converged`` is True: the number of moves is part of the method.
    """
    n = X.shape[0]
    scale = scale_of(X)
    rows = X if scale == 1 else X / scale
    descent = descend(TopEigenpair(rows), n, largest_weight(n, contamination), n_iter=n_iter)
    return LocationEstimate(weighted_mean(X, descent.weights), iterations=descent.iterations, weights=descent.weights)
