"""Which coordinates an attack aims at."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray


def support_size(mean: FloatArray) -> int:
    """Return the number of nonzero means, but at least one, so that an attack always has a coordinate."""
    return max(1, int(np.count_nonzero(mean)))


def off_support(mean: FloatArray, rng: np.random.Generator, count: int) -> IntArray:
    """Draw ``count`` coordinates outside the support, or all there are; where there is none, on the support."""
    outside = np.flatnonzero(mean == 0)
    choices = outside if outside.size else np.arange(mean.size)
    return np.sort(rng.choice(choices, size=min(count, choices.size), replace=False))
