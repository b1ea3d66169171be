"""Fisk (log-logistic) noise with scale 1."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size
from sparsemean.simulate.sampling import open_uniform, require_finite_expectation, symmetrised

__all__ = ["fisk", "fisk_one_sided"]


def _magnitude(rng: np.random.Generator, size: Size, shape: float) -> FloatArray:
    u = open_uniform(rng, size)
    return (u / (1 - u)) ** (1 / shape)


def fisk(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Fisk variable with tail index c = ``shape`` and give it a random sign.

    The magnitude has density c x^(c−1) / (1 + x^c)² on x > 0 and quantile (u / (1−u))^(1/c). With the sign
    the mean is 0 (c > 1) and the variance (2π/c) / sin(2π/c), finite when c > 2.
    """
    return symmetrised(rng, _magnitude(rng, size, shape))


def fisk_one_sided(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Fisk variable with tail index c = ``shape`` > 1, less its expectation (π/c) / sin(π/c).

    The mean is 0; the variance is (2π/c) / sin(2π/c) − ((π/c) / sin(π/c))², finite when c > 2. Skewed to
    the right.
    """
    require_finite_expectation(shape, name="fisk")
    angle = math.pi / shape
    return _magnitude(rng, size, shape) - angle / math.sin(angle)
