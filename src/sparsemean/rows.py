"""Which rows contradict the rest."""

from __future__ import annotations

import numpy as np

from sparsemean.records import FloatArray, IntArray, Rows


def none_suspected(n: int) -> Rows:
    """Return rows that are all trusted: nothing was selected, so nothing can contradict."""
    return Rows(np.zeros(n), np.ones(n), np.empty(0, dtype=np.intp))


def between_groups(values: FloatArray, labels: IntArray, *, bad_rows: int) -> Rows:
    """Score rows by how far the features on the support say that they belong to the other group.

    Each feature places a row on a scale from −1 (the median of group 0) to +1 (that of group 1), held to ±2, and counts
    by how many deviations part the groups. A score above 0 lies nearer to the other group; no more rows are suspected
    than the contamination can explain.
    """
    n = labels.size
    if values.shape[1] == 0:
        return none_suspected(n)
    low, high = (np.median(values[labels == g], axis=0) for g in (0, 1))
    own = np.where(labels[:, np.newaxis] == 1, high, low)
    spread = np.median(np.abs(values - own), axis=0)
    gap = high - low
    apart = gap != 0  # a feature whose medians agree says nothing about a single row
    if not apart.any():
        return none_suspected(n)
    values, low, high, gap, spread = values[:, apart], low[apart], high[apart], gap[apart], spread[apart]
    weight = np.abs(gap) / np.where(spread > 0, spread, np.abs(gap))
    place = np.clip((2 * values - low - high) / gap, -2, 2)
    scores = -np.where(labels == 1, 1, -1) * (place @ weight) / weight.sum()
    order = np.argsort(-scores, kind="stable")
    suspects = order[scores[order] > 0][:bad_rows]
    weights = np.ones(n)
    weights[suspects] = 0.0
    return Rows(scores, weights, suspects)
