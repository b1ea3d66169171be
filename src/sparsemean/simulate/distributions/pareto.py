"""Pareto noise whose magnitude starts at 1 (type I with scale 1, the convention of scipy.stats.pareto).

The published oracle errors agree with this one; the version that starts at 0 gives less than half of them.
"""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size
from sparsemean.simulate.sampling import open_uniform, require_finite_expectation, symmetrised

__all__ = ["pareto", "pareto_one_sided"]


def _magnitude(rng: np.random.Generator, size: Size, shape: float) -> FloatArray:
    return (1 - open_uniform(rng, size)) ** (-1 / shape)


def pareto(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Pareto variable with tail index b = ``shape`` and give it a random sign.

    The magnitude has density b x^(−b−1) on x ≥ 1 and quantile (1−u)^(−1/b), so the noise has no mass in
    (−1, 1). With the sign the mean is 0 (b > 1) and the variance b / (b−2), finite when b > 2.
    """
    return symmetrised(rng, _magnitude(rng, size, shape))


def pareto_one_sided(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Pareto variable with tail index b = ``shape`` > 1, less its expectation b / (b−1).

    The mean is 0; the variance is b / ((b−1)² (b−2)), finite when b > 2. Skewed to the right.
    """
    require_finite_expectation(shape, name="pareto")
    return _magnitude(rng, size, shape) - shape / (shape - 1)
