"""One look of the projection onto the capped simplex, in one pass over the entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

Arr = Any
LANES = 16
"""Entries that are added up beside each other: vector instructions, and the same order on every processor."""


@compiled
def look(v: Arr, theta: float, cap: float) -> Any:
    """Return the sum of all v − θ between 0 and cap, their number, and the number of those beyond."""
    total, free, capped = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    whole = v.size - v.size % LANES
    for i in range(0, whole, LANES):
        for j in range(LANES):
            x = v[i + j] - theta
            between = (x > 0.0) & (x < cap)
            total[j] += x if between else 0.0
            free[j] += 1.0 if between else 0.0
            capped[j] += 1.0 if x >= cap else 0.0
    for i in range(whole, v.size):
        x = v[i] - theta
        between = (x > 0.0) & (x < cap)
        total[0] += x if between else 0.0
        free[0] += 1.0 if between else 0.0
        capped[0] += 1.0 if x >= cap else 0.0
    return total.sum(), free.sum(), capped.sum()
