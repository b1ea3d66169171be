"""How far an error of ours is from a published one."""

from __future__ import annotations

import numpy as np


def z_score(ours: np.ndarray, mean: float, std: float, trials: int = 10) -> float:
    """Difference of the means over its standard error."""
    return float((ours.mean() - mean) / np.sqrt(ours.var(ddof=1) / ours.size + std**2 / trials))
