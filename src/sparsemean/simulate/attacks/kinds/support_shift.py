"""A shift that shows on the support only."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["support_shift"]


def support_shift(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    shift: float = -2.0,
) -> FloatArray:
    """Add ``shift`` to the coordinates of the true support and leave the others as they are.

    Meant to defeat the screening of rows off the support: nothing shows there. It is the paper's constant bias, and
    its −2, where it hurts and nowhere else. With an empty support the rows stay clean.
    """
    return X[corrupted] + np.where(mean != 0, shift, 0.0)
