"""Weights by gradient descent on the top eigenvalue of the covariance."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.descent import spectral_descent
from sparsemean.records import FloatArray, Located

__all__ = ["dense_gd"]


@baseline(
    told=("ε",),
    assumes="bounded covariance",
    cost="100 moves of n d × (products for the top eigenvector)",
    reference="Cheng, Diakonikolas, Ge, Soltanolkotabi 2020, ICML",
)
def dense_gd(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Weigh rows so that the top eigenvalue of the weighted covariance is small, and take the weighted mean.

    Minimise λ₁(Σ_w), Σ_w = Σ w_i x_i x_iᵀ − (Σ w_i x_i)(Σ w_i x_i)ᵀ, over {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1} by
    100 projected gradient moves from w = 1/n: u the top eigenvector, g_i = (x_i·u)² − 2(wᵀXu)(x_i·u),
    w ← projection of w − step·g/‖g‖. The step starts at 1/n, is doubled when λ₁ fell, and quartered with w restored
    when it did not.

    Notes
    -----
    It must be told ε. It needs no σ and no k: corrupted rows can hide only where they do not raise the variance in any
    direction, so its error is of order √ε in units of the largest standard deviation, whatever the sparsity.

    References
    ----------
    Y. Cheng, I. Diakonikolas, R. Ge, M. Soltanolkotabi (2020). High-dimensional robust mean estimation via gradient
    descent. Proceedings of the 37th International Conference on Machine Learning.
    """
    return spectral_descent(X, contamination)
