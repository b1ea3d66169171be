"""Weights by gradient descent on the largest k×k part of the covariance less the identity."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.block import LargestBlock
from sparsemean.baselines.descent import descend, largest_weight, scale_of, weighted_mean
from sparsemean.records import FloatArray, Located

__all__ = ["sparse_gd"]

MOVES = 200
LEAST_FALL = 0.01


@baseline(
    told=("ε", "k", "σ"),
    assumes="unit variance, uncorrelated features, k-sparse mean",
    cost="moves (200 at most) × n d²",
    reference="Cheng, Diakonikolas, Ge, Gupta, Kane, Soltanolkotabi 2021, arXiv 2109.11515",
)
def sparse_gd(X: FloatArray, contamination: float, k: int | None, _rng: np.random.Generator) -> Located:
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
    scale = max(scale_of(X), 1.0)
    rows = X if scale == 1 else X / scale
    block = LargestBlock(rows, d if k is None else k, unit=scale**-2)
    found = descend(block, n, largest_weight(n, contamination), n_iter=MOVES, least_fall=LEAST_FALL)
    notes = () if found.converged else (f"the objective was still falling after {MOVES} moves",)
    return Located(weighted_mean(X, found.weights), found.iterations, found.converged, notes, found.weights)
