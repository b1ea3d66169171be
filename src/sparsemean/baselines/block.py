"""The k×k part of a covariance that departs most from the identity."""

from __future__ import annotations

import numpy as np

from sparsemean.records import FloatArray


class LargestBlock:
    """The objective of the sparse descent: the squared F,k,k-norm of Σ_w − I, and its gradient in w.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows.
    k : int
        Rows of the matrix, and entries in each, that count.
    unit : float
        The variance that stands for one in the scale of X.
    """

    def __init__(self, X: FloatArray, k: int, *, unit: float = 1.0) -> None:
        self.X, self.k, self.unit = X, k, unit

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return the norm and g_i = (x_iᵀZx_i − x_i·Z(Xᵀw) − x_i·Zᵀ(Xᵀw)) / ‖Z‖_F, or None if it is not below."""
        X, k = self.X, self.k
        mean = w @ X
        centred = X - mean
        M = centred.T @ (w[:, None] * centred)
        M.flat[:: M.shape[0] + 1] -= self.unit
        columns = np.argsort(-M, axis=1, kind="stable")[:, :k]
        scores = np.sum(np.take_along_axis(M, columns, axis=1) ** 2, axis=1)
        rows = np.argsort(-scores, kind="stable")[:k]
        value = float(scores[rows].sum())
        if not value < below:
            return None
        if value == 0:
            return value, np.zeros(X.shape[0])
        Z = np.zeros_like(M)
        Z[rows[:, None], columns[rows]] = M[rows[:, None], columns[rows]]
        g = np.sum((X @ Z) * X, axis=1) - X @ (Z @ mean + Z.T @ mean)
        return value, g / np.sqrt(value)
