"""A false sparse mean in half of the corrupted rows, its variance hidden by the other half."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray
from sparsemean.simulate.targets import how_many, off_support

__all__ = ["linear_hiding"]

NORMAL_QUARTILE = 0.6744897501960817
"""The median of |Z| for a standard normal Z."""


def linear_hiding(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    k: int | None = None,
    scale: float | None = None,
) -> FloatArray:
    """Draw half of the corrupted rows from scale·N(f, I) and half from scale·N(0, 2I − diag(f)).

    f is 1 on ``k`` coordinates outside the true support, by default as many as the support has and at least one. Meant
    to defeat filters that look for coordinates or directions of large variance: over both halves every coordinate has
    the second moment 3/2, on f and off it, so the coordinates with the false mean do not stand out. Neither half
    carries the true mean. An odd row goes to the first half.

    The source has Gaussian inliers of unit variance, ``scale=1.0``. Others may have no variance, so by default
    ``scale`` is measured as median |x − mean| / 0.6745 over all clean entries, which is 1 (up to sampling) for a
    standard normal. Where every coordinate is in the support, f is drawn from it.

    Source: experiments of Diakonikolas, Kane, Karmalkar, Price and Stewart, "Outlier-robust high-dimensional sparse
    estimation via iterative filtering", NeurIPS 2019.
    """
    f = np.zeros(mean.size)
    f[off_support(mean, rng, how_many(k, mean, argument="k"))] = 1.0
    unit = float(np.median(np.abs(X - mean))) / NORMAL_QUARTILE if scale is None else scale
    rows = rng.standard_normal((corrupted.size, mean.size))
    first = corrupted.size - corrupted.size // 2
    rows[:first] += f
    rows[first:] *= np.sqrt(2.0 - f)
    return unit * rows
