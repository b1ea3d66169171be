"""The top eigenpair of a weighted covariance."""

from __future__ import annotations

import numpy as np

from sparsemean.records import FloatArray


class TopEigenpair:
    """The objective of the dense descent: the top eigenvalue of Σ w_i (x_i − x̄)(x_i − x̄)ᵀ, and its gradient in w."""

    def __init__(self, X: FloatArray) -> None:
        self.X = X

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return λ and g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), or None if λ is not below ``below``."""
        centred = self.X - w @ self.X
        values, vectors = np.linalg.eigh(centred.T @ (w[:, None] * centred))
        if not values[-1] < below:
            return None
        along = self.X @ vectors[:, -1]
        return float(values[-1]), along**2 - 2 * (w @ along) * along
