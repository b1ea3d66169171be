"""Laplace (double exponential) noise with scale 1."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size
from sparsemean.simulate.sampling import open_uniform, symmetrised

__all__ = ["laplace"]


def laplace(rng: np.random.Generator, size: Size, _shape: float = 1.0, /) -> FloatArray:
    """Draw a unit exponential variable with a random sign; the shape is ignored.

    The density is exp(−|x|) / 2, the quantile of the magnitude −ln(1−u), the mean 0 and the variance 2.
    """
    return symmetrised(rng, -np.log1p(-open_uniform(rng, size)))
