"""Dense heavy noise about zero in place of the corrupted rows."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.attacks.kinds.replaced_rows import replaced_rows
from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["cauchy_rows"]


def cauchy_rows(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    scale: float = 10.0,
) -> FloatArray:
    """Replace the corrupted rows by scale·C, with C standard Cauchy, independent in every entry.

    Meant to defeat second moments and anything that trusts them, spectral filters among them: a few entries are
    arbitrarily large and no direction is preferred. The paper's `replaced_rows` is the same with a location, which
    makes its rows vote for a positive mean everywhere; these are centred at zero and vote for none.
    """
    return replaced_rows(X, mean, rng, corrupted, location=0.0, scale=scale)
