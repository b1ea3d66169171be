"""Exponential noise, less its expectation."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size
from sparsemean.simulate.sampling import open_uniform

__all__ = ["exponential_one_sided"]


def exponential_one_sided(rng: np.random.Generator, size: Size, _shape: float = 1.0, /) -> FloatArray:
    """Draw a unit exponential variable less its expectation 1; the shape is ignored.

    The density is exp(−(x+1)) on x > −1, the quantile −ln(1−u) − 1, the mean 0 and the variance 1. Skewed
    to the right. With a random sign the exponential is `laplace`.
    """
    return -np.log1p(-open_uniform(rng, size)) - 1
