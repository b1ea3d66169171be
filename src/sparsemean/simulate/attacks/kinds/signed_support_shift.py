"""A shift that draws every true mean towards zero, and shows on the support only."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["signed_support_shift"]


def signed_support_shift(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    shift: float = -2.0,
) -> FloatArray:
    """Add shift·sign(mean) to the corrupted rows: towards zero if ``shift`` is negative, away from it if positive.

    Meant to defeat the screening of rows off the support, as `support_shift`, and to bias all true means at once:
    a common shift makes the means of one sign look smaller and those of the other sign larger, this one
    shrinks (or stretches) them all. With an empty support the rows stay clean.
    """
    return X[corrupted] + shift * np.sign(mean)
