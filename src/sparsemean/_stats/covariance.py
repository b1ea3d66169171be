"""Scales, weighted moments and leading directions of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean._util.records import FloatArray, IntArray

GAUSSIAN = 1.4826
"""1 / Φ⁻¹(3/4) as R rounds it: makes the median absolute deviation of Gaussian noise its standard deviation."""


def deviations(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of every column and 1.4826 times its median absolute deviation.

    Examples
    --------
    >>> deviations(np.array([[1.0], [2.0], [9.0]]))
    (array([2.]), array([1.4826]))
    """
    centre = np.median(X, axis=0)
    return np.asarray(centre), np.asarray(GAUSSIAN * np.median(np.abs(X - centre), axis=0))


def lengths(rows: FloatArray) -> FloatArray:
    """Return the Euclidean length of every row, whose squares need not be representable."""
    largest = np.abs(rows).max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)
    scaled = rows / unit[:, np.newaxis]
    return np.asarray(unit * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))


# The weighted covariance for one set of weights after another, most of which do not change.

Matrix = npt.NDArray[np.floating]
Values = TypeVar("Values", FloatArray, npt.NDArray[np.float32])
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
        Finite rows, with squares that do not overflow in ``dtype``.
    dtype : type
        Precision of the matrix.

    Attributes
    ----------
    peak : array of shape (d,)
        The largest second moments met since the matrix was last computed anew.
    share : float
        No entry (a, b) is off by more than this times √(peak_a peak_b).
    """

    def __init__(self, X: FloatArray, dtype: type[np.floating] = np.float64) -> None:
        self.X, self.dtype = X, dtype
        self.eps = float(np.finfo(dtype).eps)
        self.w = np.full(X.shape[0], np.nan)
        self.rows: Matrix = np.empty((0, 0))
        self.matrix: Matrix = np.empty((0, 0))
        self.mean: Matrix = np.empty(0)
        self.peak: Matrix = np.empty(0)
        self.share = 0.0

    def at(self, w: FloatArray) -> Matrix:
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
        change = (w[changed] - self.w[changed]).astype(self.dtype)
        moved = self.rows[changed]
        mean = self.mean + change @ moved
        # The means' own squares ride along as two more rows.
        moved = np.concatenate([moved, [self.mean, mean]])
        change = np.concatenate([change, np.array([1, -1], dtype=self.dtype)])
        self.matrix += (change[:, None] * moved).T @ moved
        self.w, self.mean = w, mean
        self.peak = np.maximum(self.peak, self.matrix.diagonal() + mean * mean)
        # One rounding for each product of the update; ten stand for those of the means and of the sum itself.
        self.share += (changed.size + 10) * self.eps

    def _anew(self, w: FloatArray) -> None:
        self.w, self.mean = w, w.astype(self.dtype) @ self.rows
        scaled = np.sqrt(w).astype(self.dtype)[:, None] * self.rows
        self.matrix = scaled.T @ scaled
        self.peak = self.matrix.diagonal().copy()
        self.matrix -= self.mean[:, None] * self.mean
        self.share = (w.size + 10) * self.eps

    def _centre(self, w: FloatArray) -> None:
        self.rows = (self.X - w @ self.X).astype(self.dtype, copy=False)
        self._anew(w)


# The top eigenpair of a weighted covariance, found from where it was for slightly different weights.

Product: TypeAlias = Callable[[FloatArray], FloatArray]

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


LEADING = 16
"""Directions that rough answers are looked for in."""
TURNS = 4
"""Products with the covariance after which a random subspace lies along its leading directions."""


class RoughEigenpair:
    """What `TopEigenpair` does, in single precision and in the `LEADING` directions of rows with moderate entries.

    Where some rows agree on being off they make a direction lead, and what is left once they are gone matters little.

    Attributes
    ----------
    directions : list of (array of shape (d,), float)
        u and wᵀXu of every evaluation that was below.
    """

    def __init__(self, X: Matrix) -> None:
        n, d = X.shape
        self.basis = leading_subspace(X) if d > LEADING else np.eye(d, dtype=np.float32)
        # A row of ones, so that the means come with the second moments.
        self.rows = np.ones((self.basis.shape[1] + 1, n), dtype=np.float32)
        self.rows[:-1] = self.basis.T @ X.T if d > LEADING else X.T
        self.along: FloatArray = np.empty(0)
        self.squares: FloatArray = np.empty(0)
        self.directions: list[tuple[Matrix, float]] = []

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return λ and g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), or None if λ is not below ``below``."""
        if self.along.size and w @ self.squares - (w @ self.along) ** 2 >= below:
            return None
        moments = (self.rows * w.astype(np.float32)) @ self.rows.T
        mean = moments[:-1, -1]
        values, vectors = top_eigenpairs(moments[:-1, :-1] - mean[:, None] * mean, 1)
        if not values[0] < below:
            return None
        self.along = (vectors[:, 0] @ self.rows[:-1]).astype(np.float64)
        self.squares = self.along**2
        centre = float(w @ self.along)
        self.directions.append((self.basis @ vectors[:, 0], centre))
        return float(values[0]), self.along * (self.along - 2 * centre)


def top_eigenpairs(matrix: Values, most: int) -> tuple[Values, Values]:
    """Return the largest eigenvalues of a symmetric matrix, falling, and their vectors: half of the time of all.

    Examples
    --------
    >>> top_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)[0]
    array([3., 2.])
    """
    from scipy.linalg import lapack

    p = matrix.shape[0]
    kind = "s" if matrix.dtype == np.float32 else "d"
    if p <= SMALL:
        values, vectors, failed = getattr(lapack, f"{kind}syevd")(matrix)
    else:
        found = getattr(lapack, f"{kind}syevr")(matrix, range="I", il=max(1, p + 1 - most), iu=p)
        values, vectors, failed = found[0][: min(p, most)], found[1], found[4]
    if failed or not math.isfinite(values[-1]):
        values, vectors = np.linalg.eigh(matrix)
    return values[: -most - 1 : -1], vectors[:, : -most - 1 : -1]


def leading_subspace(X: Matrix) -> Matrix:
    """Return `LEADING` orthogonal directions in which rows vary most, about."""
    centred = X - X.mean(axis=0)
    moments = centred.T @ centred
    # Always the same start: weights must not depend on anyone's random state.
    basis = np.random.default_rng(0).standard_normal((X.shape[1], LEADING), dtype=np.float32)
    for _ in range(TURNS):
        basis = np.linalg.qr(moments @ basis)[0]
    return basis


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
