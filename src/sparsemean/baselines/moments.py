"""The weighted covariance for one set of weights after another, most of which do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean.records import FloatArray, IntArray

Matrix = npt.NDArray[np.floating[Any]]
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

    def __init__(self, X: FloatArray, dtype: type[np.floating[Any]] = np.float64) -> None:
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
