"""Student's t noise with scale 1."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, Size

__all__ = ["t"]


def t(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw Student's t with ν = ``shape`` degrees of freedom, already symmetric about 0.

    The density is proportional to (1 + x²/ν)^(−(ν+1)/2). The mean is 0 (ν > 1) and the variance ν / (ν−2),
    finite when ν > 2. The quantile has no closed form, so the generator's own sampler draws it.
    """
    return rng.standard_t(shape, size)
