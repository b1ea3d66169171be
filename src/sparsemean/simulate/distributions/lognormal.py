"""Lognormal noise; its shape is the standard deviation of the logarithm."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size
from sparsemean.simulate.sampling import symmetrised

__all__ = ["lognormal", "lognormal_one_sided"]


def _magnitude(rng: np.random.Generator, size: Size, shape: float) -> FloatArray:
    return np.exp(shape * rng.standard_normal(size))


def lognormal(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw exp(σ Z), Z standard normal and σ = ``shape``, and give it a random sign.

    The magnitude has density exp(−(ln x)² / (2σ²)) / (x σ √(2π)) on x > 0. With the sign the mean is 0 and
    the variance exp(2σ²), finite for every σ; all moments are finite, yet the tails are heavier than
    exponential.
    """
    return symmetrised(rng, _magnitude(rng, size, shape))


def lognormal_one_sided(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw exp(σ Z) less its expectation exp(σ²/2), Z standard normal and σ = ``shape``.

    The mean is 0 and the variance (exp(σ²) − 1) exp(σ²), finite for every σ. Skewed to the right.
    """
    return _magnitude(rng, size, shape) - float(np.exp(shape * shape / 2))
