"""The coordinate-wise median."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.records import FloatArray, Located

__all__ = ["median"]


@baseline(
    assumes="median equal to the mean in every coordinate", cost="n d", reference="Huber 1964, Ann. Math. Stat. 35"
)
def median(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Take the median of every coordinate: error of order ε√d under corruption.

    References
    ----------
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35(1), 73–101
    (no translation-equivariant estimate has a smaller worst bias under contamination of symmetric unimodal noise).
    """
    return Located(np.asarray(np.median(X, axis=0)))
