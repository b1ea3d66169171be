"""The attack of the paper's first figure: gross outliers without a mean in place of the corrupted rows."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["replaced_rows"]


def replaced_rows(
    X: FloatArray,
    _mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    location: float = 20.0,
    scale: float = 50.0,
) -> FloatArray:
    """Replace the corrupted rows by location + scale·C, with C standard Cauchy, independent in every entry.

    The median of a replaced entry is ``location``, its quartiles are ``location ± scale``; it has no
    expectation. The paper's nonconvex run has location 20, its convex run 40, both scale 50.
    """
    return location + scale * rng.standard_cauchy((corrupted.size, X.shape[1]))
