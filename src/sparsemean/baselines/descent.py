"""Descents over weights of rows: dense and sparse."""

from __future__ import annotations

import numpy as np

from sparsemean._stats.descent import LargestBlock, descend, largest_weight, scale_of, spectral_descent, weighted_mean
from sparsemean._util.records import FloatArray, LocationEstimate
from sparsemean.baselines._baseline import baseline

__all__ = ["dense_gd", "sparse_gd"]


@baseline(
    told=("ε",),
    assumes="bounded covariance",
    cost="100 moves of n d × (products for the top eigenvector)",
    reference="Cheng, Diakonikolas, Ge, Soltanolkotabi 2020, ICML",
)
def dense_gd(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> LocationEstimate:
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


# Weights by gradient descent on the largest k×k part of the covariance less the identity.

# Both as published.
MOVES = 200
LEAST_FALL = 0.01


@baseline(
    told=("ε", "k", "σ"),
    assumes="unit variance, uncorrelated features, k-sparse mean",
    cost="moves (200 at most) × n d²",
    reference="Cheng, Diakonikolas, Ge, Gupta, Kane, Soltanolkotabi 2021, arXiv 2109.11515",
)
def sparse_gd(X: FloatArray, contamination: float, k: int | None, _rng: np.random.Generator) -> LocationEstimate:
    """Weigh rows so that the largest k×k part of (weighted covariance − identity) is small, and take the mean.

    The objective is the squared F,k,k-norm of Σ_w − I: in every row the k largest entries (by value) are squared and
    summed, and the k largest of these sums are added. With Z = Σ_w − I on those k×k entries and zero elsewhere,
    g_i = (x_iᵀZx_i − x_i·Z(Xᵀw) − x_i·Zᵀ(Xᵀw)) / ‖Z‖_F, and weights move as in `dense_gd`: over
    {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1} from 1/n, step 1/n at first, doubled after a fall, quartered with w restored
    otherwise; at most 200 moves, and none after one that lowers the objective by less than 1 %.

    Notes
    -----
    It must be told ε, k, and that every feature has variance one (σ): rows scaled by c are different rows to it.

    References
    ----------
    Y. Cheng, I. Diakonikolas, R. Ge, S. Gupta, D. M. Kane, M. Soltanolkotabi (2021). Outlier-robust sparse estimation
    via non-convex optimization. arXiv 2109.11515; Advances in Neural Information Processing Systems 35 (2022).
    """
    n, d = X.shape
    # Rows are only ever made smaller: the unit variance that they are held against shrinks with them.
    scale = max(scale_of(X), 1.0)
    rows = X if scale == 1 else X / scale
    block = LargestBlock(rows, d if k is None else k, unit=scale**-2)
    descent = descend(block, n, largest_weight(n, contamination), n_iter=MOVES, least_fall=LEAST_FALL)
    notes = () if descent.converged else (f"the objective was still falling after {MOVES} moves",)
    mean = weighted_mean(X, descent.weights)
    return LocationEstimate(mean, descent.iterations, descent.converged, notes, descent.weights)
