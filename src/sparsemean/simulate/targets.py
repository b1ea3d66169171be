"""Which coordinates an attack aims at."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate import checks
from sparsemean.simulate.protocols import FloatArray, IntArray


def how_many(wanted: int | None, mean: FloatArray, *, argument: str) -> int:
    """Return ``wanted``, by default as many coordinates as the support has, but one where it is empty."""
    return max(1, int(np.count_nonzero(mean))) if wanted is None else checks.count(wanted, argument=argument)


def off_support(mean: FloatArray, rng: np.random.Generator, count: int) -> IntArray:
    """Draw ``count`` coordinates outside the support, or all there are; where there is none, on the support."""
    outside = np.flatnonzero(mean == 0)
    choices = outside if outside.size else np.arange(mean.size)
    return np.sort(rng.choice(choices, size=min(count, choices.size), replace=False))
