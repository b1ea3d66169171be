"""Standard normal noise."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size

__all__ = ["gaussian"]


def gaussian(rng: np.random.Generator, size: Size, _shape: float = 1.0, /) -> FloatArray:
    """Draw a standard normal variable; the shape is ignored.

    The density is exp(−x²/2) / √(2π), the mean 0 and the variance 1.
    """
    return rng.standard_normal(size)
