"""Removal of rows that are too far out along the largest k×k part of the covariance."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.filtering import filter_rows
from sparsemean.records import FloatArray, Located

__all__ = ["sparse_filter"]


@baseline(
    told=("ε", "k", "σ"),
    assumes="unit variance, Gaussian tails, uncorrelated features, k-sparse mean",
    cost="rounds × n d²",
    reference="Diakonikolas, Kane, Karmalkar, Price, Stewart 2019, NeurIPS",
)
def sparse_filter(X: FloatArray, contamination: float, k: int | None, _rng: np.random.Generator) -> Located:
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
        return Located(np.zeros(d), rounds, converged=False, notes=(note,))
    weights = np.zeros(n)
    weights[kept] = 1 / kept.size
    return Located(X[kept].mean(axis=0), rounds, weights=weights)
