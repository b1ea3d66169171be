"""The k×k part of a covariance that departs most from the identity."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.baselines.moments import Matrix, WeightedCovariance
from sparsemean.records import FloatArray, IntArray

SMALL = 64
"""Up to this many features the whole matrix is made in double: there is nothing to save."""
LARGEST_ROUGH = 1e15
"""Rows up to this size have squares and sums that single precision holds."""


class LargestBlock:
    """The objective of the sparse descent: the squared F,k,k-norm of Σ_w − I, and its gradient in w.

    Only k×k entries of Σ_w matter at a time, and which ones takes few digits to tell: the whole matrix is made in
    single precision, its error bounded, and in double no more than the entries that this leaves in the running.

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
        self.X, self.k, self.unit = X, k, unit
        largest = max(float(X.max()), -float(X.min()))
        self.rough = WeightedCovariance(X, np.float32 if largest < LARGEST_ROUGH else np.float64)

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return the norm and g_i = (x_iᵀZx_i − x_i·Z(Xᵀw) − x_i·Zᵀ(Xᵀw)) / ‖Z‖_F, or None if it is not below."""
        rows, columns, M = self._in_the_running(w)
        sums = largest_squares(M, self.k)
        best = np.argsort(-sums, kind="stable")[: self.k]
        value = float(sums[best].sum())
        if not value < below:
            return None
        if value == 0:
            return value, np.zeros(w.size)
        return value, self._gradient(w, rows[best], columns, M[best]) / math.sqrt(value)

    def _in_the_running(self, w: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return rows and columns of Σ_w − I that hold whatever may be among the k×k entries, and those in double."""
        k, d = self.k, self.X.shape[1]
        if d <= SMALL:
            return np.arange(d), np.arange(d), self._exact(w, np.arange(d), np.arange(d))
        M = self.rough.at(w)
        root = np.sqrt(self.rough.peak.astype(np.float64))
        error = self.rough.share * root * root.max()
        bounds = self._bounds(M, error)
        likely = np.argpartition(bounds, -k)[-k:]
        least = self._norms(M, likely) - math.sqrt(k) * error[likely]
        rows = np.flatnonzero(bounds >= max(float(least.min()), 0.0))
        if rows.size > k:
            # The k largest values of a row move by no more than its error when each of its entries does.
            norms, slack = self._norms(M, rows), math.sqrt(k) * error[rows]
            rows = rows[norms + slack >= np.partition(norms - slack, -k)[-k]]
        return rows, *self._entries(w, M, rows, error)

    def _bounds(self, M: Matrix, error: FloatArray) -> FloatArray:
        """Return what the norm of the k largest entries of each row cannot exceed, from the largest other one."""
        diagonal = M.diagonal().copy()
        M.flat[:: M.shape[0] + 1] = 0
        largest = np.maximum(M.max(axis=0), -M.min(axis=0)).astype(np.float64)
        M.flat[:: M.shape[0] + 1] = diagonal
        own, other = np.abs(diagonal.astype(np.float64) - self.unit) + error, largest + error
        return np.asarray(np.sqrt(np.maximum(own, other) ** 2 + (self.k - 1) * other**2))

    def _norms(self, M: Matrix, rows: IntArray) -> FloatArray:
        """Return the norm of the k largest entries of some rows, in single precision."""
        return np.asarray(np.sqrt(largest_squares(self._less_identity(M, rows), self.k)))

    def _less_identity(self, M: Matrix, rows: IntArray) -> FloatArray:
        some = M[rows].astype(np.float64)
        some[np.arange(rows.size), rows] -= self.unit
        return some

    def _entries(self, w: FloatArray, M: Matrix, rows: IntArray, error: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return all columns that may hold one of the k largest entries of these rows, and the entries in double."""
        some = self._less_identity(M, rows)
        place = some.shape[1] - self.k
        least = np.partition(some, place, axis=1)[:, place] - 2 * error[rows]
        columns = np.flatnonzero((some >= least[:, None]).any(axis=0))
        return columns, self._exact(w, rows, columns)

    def _exact(self, w: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
        left, right = self.X[:, rows], self.X[:, columns]
        exact = (w[:, None] * (left - w @ left)).T @ (right - w @ right)
        exact[rows[:, None] == columns] -= self.unit
        return np.asarray(exact)

    def _gradient(self, w: FloatArray, rows: IntArray, columns: IntArray, M: FloatArray) -> FloatArray:
        """Return Σ_r (x_ir y_ir − x_ir (Zx̄)_r − x̄_r y_ir) with y = XZᵀ, from the columns that Z uses."""
        entries = np.argsort(-M, axis=1, kind="stable")[:, : self.k]
        Z = np.zeros_like(M)
        np.put_along_axis(Z, entries, np.take_along_axis(M, entries, axis=1), axis=1)
        x, y = self.X[:, rows], self.X[:, columns] @ Z.T
        return np.asarray(np.einsum("ir,ir->i", x, y) - x @ (w @ y) - y @ (w @ x))


def largest_squares(rows: FloatArray, k: int) -> FloatArray:
    """Return the sum of squares of the k largest entries of each row."""
    place = rows.shape[1] - k
    largest = np.partition(rows, place, axis=1)[:, place:]
    return np.asarray(np.einsum("rc,rc->r", largest, largest))
