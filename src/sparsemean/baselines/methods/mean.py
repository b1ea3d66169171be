"""The sample mean: best for Gaussian rows, worthless once one row is far away."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.records import FloatArray, Located

__all__ = ["mean"]


@baseline(assumes="finite mean, no corrupted row", reference="Gauss 1809, Theoria motus")
def mean(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Average all rows: one corrupted row moves it as far as it likes.

    References
    ----------
    C. F. Gauss (1809), Theoria motus corporum coelestium in sectionibus conicis solem ambientium, Perthes and Besser
    (the mean as the likeliest value under Gaussian errors).
    """
    return Located(X.mean(axis=0))
