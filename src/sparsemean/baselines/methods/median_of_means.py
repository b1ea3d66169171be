"""The coordinate-wise median of bucket means."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.bucketing import random_bucket_means
from sparsemean.records import FloatArray, Located

__all__ = ["median_of_means"]


@baseline(
    told=("ε",),
    assumes="finite variance",
    cost="n d",
    reference="Nemirovski and Yudin 1983, Wiley; Alon, Matias and Szegedy 1999, J. Comput. Syst. Sci. 58",
)
def median_of_means(X: FloatArray, contamination: float, _k: int | None, rng: np.random.Generator) -> Located:
    """Average random buckets and take the median of their means in every coordinate.

    J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ buckets of a random permutation with δ = 0.05, as equal as possible. Where n is too small
    for that, J = n // 2, but never less than the 2⌈εn⌉ + 1 that leave most buckets without a corrupted row. It is also
    the minimiser of the convex ℓ₁ problem that the paper's first stage starts from. Error of order √(εd).

    References
    ----------
    A. S. Nemirovski and D. B. Yudin (1983), Problem complexity and method efficiency in optimization, Wiley.

    N. Alon, Y. Matias and M. Szegedy (1999), The space complexity of approximating the frequency moments, Journal of
    Computer and System Sciences 58(1), 137–147.
    """
    return Located(np.asarray(np.median(random_bucket_means(X, contamination, rng), axis=0)))
