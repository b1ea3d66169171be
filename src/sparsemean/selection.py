"""From evidence to a support."""

from __future__ import annotations

import numpy as np

from sparsemean.records import FloatArray, Selection


def by_paper(mu: FloatArray, *, alpha: float, min_selected: int) -> Selection:
    """Select {i : |μ̂_i| ≥ α}; where fewer than ``min_selected`` pass, the largest |μ̂_i| are taken instead.

    Examples
    --------
    >>> by_paper(np.array([0.0, -0.3, 1e-9]), alpha=1e-5, min_selected=2).support
    array([1, 2])
    """
    size = np.abs(mu)
    passed = np.flatnonzero(size >= alpha)
    if passed.size >= min_selected:
        return Selection(passed, "paper")
    largest = np.sort(np.argsort(-size, kind="stable")[:min_selected])
    return Selection(largest, "paper", filled_up=min_selected - int(passed.size))
