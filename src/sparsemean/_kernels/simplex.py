"""Weights in the capped simplex: one look of the projection, and many moves of rows that follow others, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

Arr = Any
LANES = 16
"""Entries that are added up beside each other: vector instructions, and the same order on every processor."""


@compiled(plain="reference")
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
        total[i - whole] += x if between else 0.0
        free[0] += 1.0 if between else 0.0
        capped[0] += 1.0 if x >= cap else 0.0
    return total.sum(), free.sum(), capped.sum()


@compiled(plain="reference")
def follow(along: Arr, centres: Arr, rates: Arr, shifts: Arr, weights: Arr) -> None:
    """Move weights by w ← clip(w − rate·a(a − 2·centre) − shift, 0, 1) for each row a of ``along``."""
    zero, one = np.float32(0.0), np.float32(1.0)
    for t in range(rates.size):
        twice, rate, shift = centres[t] + centres[t], rates[t], shifts[t]
        for i in range(weights.size):
            a = along[t, i]
            w = weights[i] - rate * (a * (a - twice)) - shift
            w = w if w > zero else zero
            weights[i] = w if w < one else one
