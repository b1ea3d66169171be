"""The paper's oracle: it is shown which rows are clean and what the mean is. It lives here and nowhere else."""

from __future__ import annotations

import numpy as np

from sparsemean.bunch import Bunch
from sparsemean.records import FloatArray, Located

GROUPS = (10, 50, 100, 150, 200)
OLD_GROUPS = (1, 2, 4, 5, 10, 20)
"""Those of the older run behind the t panel of Fig 2c."""


def oracle(data: Bunch, k: int, groups: tuple[int, ...] = GROUPS) -> FloatArray:
    """Return, of the mean and of medians of means over consecutive groups of the clean rows, the one nearest the truth.

    Each candidate is cut to its k largest entries first.
    """
    clean = np.delete(data.X, data.corrupted, axis=0)
    candidates = [clean.mean(axis=0)]
    for count in groups:
        parts = np.array_split(clean, min(count, clean.shape[0]))
        candidates.append(np.median([part.mean(axis=0) for part in parts], axis=0))
    cut = [Located(np.asarray(candidate)).cut(k).mean for candidate in candidates]
    return min(cut, key=lambda estimate: float(np.linalg.norm(estimate - data.mean)))
