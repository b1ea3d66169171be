"""Gross outliers that agree with each other: every corrupted row is the same far point."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["far_rows"]


def far_rows(
    X: FloatArray,
    _mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    distance: float = 1e3,
) -> FloatArray:
    """Put all corrupted rows at one far point, ``distance`` away from zero in every coordinate, signs at random.

    Meant to defeat whatever averages, and estimators whose bounds grow with the diameter of the data. The point
    is √d·distance away in a dense direction, so the rows are easy to see for anyone who looks at rows. The
    textbook outlier; it has no source of its own.
    """
    point = np.where(rng.random(X.shape[1]) < 0.5, -distance, distance)
    return np.tile(point, (corrupted.size, 1))
