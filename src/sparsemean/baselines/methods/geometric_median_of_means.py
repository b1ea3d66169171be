"""The geometric median of bucket means."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.bucketing import random_bucket_means
from sparsemean.baselines.weiszfeld import geometric_median_of
from sparsemean.records import FloatArray, Located

__all__ = ["geometric_median_of_means"]


@baseline(
    told=("ε",),
    assumes="finite covariance",
    cost="n d, then J d an iteration",
    reference="Minsker 2015, Bernoulli 21",
)
def geometric_median_of_means(X: FloatArray, contamination: float, _k: int | None, rng: np.random.Generator) -> Located:
    """Average random buckets and take the geometric median of their means.

    J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ buckets of a random permutation with δ = 0.05, as equal as possible. Where n is too small
    for that, J = n // 2, but never less than the 2⌈εn⌉ + 1 that leave most buckets without a corrupted row. Error of
    order √(tr Σ (ε + ln(1/δ)/n)), Σ the covariance.

    References
    ----------
    S. Minsker (2015), Geometric median and robust estimation in Banach spaces, Bernoulli 21(4), 2308–2335.
    """
    return geometric_median_of(random_bucket_means(X, contamination, rng))
