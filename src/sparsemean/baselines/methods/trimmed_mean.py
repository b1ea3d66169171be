"""The coordinate-wise trimmed mean."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.planning.fits import bad_rows
from sparsemean.records import FloatArray, Located

__all__ = ["trimmed_mean"]


@baseline(
    told=("ε",),
    assumes="finite variance; rows symmetric, or ε small",
    cost="n d",
    reference="Tukey and McLaughlin 1963, Sankhyā A 25",
)
def trimmed_mean(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Drop the ⌈εn⌉ smallest and largest values of every coordinate and average the rest.

    θ = (x₍g+1₎ + … + x₍n−g₎) / (n − 2g) with g = ⌈εn⌉, but never so many that nothing is left: then it is the median.
    Its error grows like √(εd) under corruption, since every coordinate is moved on its own.

    References
    ----------
    J. W. Tukey and D. H. McLaughlin (1963), Less vulnerable confidence and significance procedures for location based
    on a single sample: trimming/Winsorization 1, Sankhyā Series A 25(3), 331–352.

    G. Lugosi and S. Mendelson (2021), Robust multivariate mean estimation: the optimality of trimmed mean, Annals of
    Statistics 49(1), 393–410 (why trimming as many as may be corrupted is right in one dimension).
    """
    n = X.shape[0]
    cut = min(bad_rows(n, contamination), (n - 1) // 2)
    ordered = np.partition(X, (cut, n - 1 - cut), axis=0)
    return Located(np.asarray(ordered[cut : n - cut].mean(axis=0)))
