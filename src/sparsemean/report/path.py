"""How features leave zero: their walks where the data are at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.passes.pairs import differences_walked
from sparsemean.planning.paper import DEFAULT_ITERATIONS
from sparsemean.records import FloatArray, IntArray

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

MOST = 200
"""Selected features whose walk is drawn, the strongest; all of them have an entry time in the table."""
REST = 30
POINTS = 121
MOST_MEANS = 20_000_000
"""Bucket means, or differences between two groups, that are walked for a picture."""


def content(estimate: Estimate, listed: IntArray) -> dict[str, Any]:
    """Return log₁₀|μ̂_t − null| in thousandths of the first of ``listed`` and of the nearest of the rest.

    Without the data there are no walks: ``times`` is empty and the page draws entry times.
    """
    room = _room(estimate)
    if estimate.source is None or not room:
        return {"times": [], "walks": [], "rest": [], "alpha": None, "read_at": None}
    shown, nearest = listed[: min(MOST, room)], _nearest(estimate, min(REST, max(0, room - listed.size)))
    last = estimate.plan.estimate_at or DEFAULT_ITERATIONS
    times = np.unique(np.linspace(1, last, POINTS).round().astype(np.intp))
    both = np.concatenate((shown, nearest))
    walks = _sizes(estimate, both, last)[times] if both.size else np.empty((times.size, 0))
    paper = estimate.plan.selection == "paper"  # elsewhere α is in units of each feature's own
    return {
        "times": times.tolist(),
        "walks": _thousandths(walks[:, : shown.size]),
        "rest": _thousandths(walks[:, shown.size :]),
        "alpha": estimate.plan.alpha if paper else None,
        "read_at": estimate.plan.select_at if paper and estimate.plan.select_at <= last else None,
    }


def _room(estimate: Estimate) -> int:
    """Return how many features can be walked in a moment."""
    each = estimate.plan.n_rows if estimate.labels is None else differences_walked(estimate.labels)
    return MOST_MEANS // max(1, each)


def _sizes(estimate: Estimate, features: IntArray, last: int) -> FloatArray:
    walks = estimate.trajectory(features, last)
    return np.abs(walks if estimate.shift is None else walks - estimate.shift[features])


def _nearest(estimate: Estimate, number: int) -> IntArray:
    """Return the features nearest to being selected, by |β|."""
    strength = np.abs(estimate.beta)
    strength[estimate.support] = -1.0
    number = min(number, strength.size - estimate.support.size)
    if number <= 0:
        return np.empty(0, dtype=np.intp)
    return np.asarray(np.argpartition(-strength, number - 1)[:number], dtype=np.intp)


def _thousandths(sizes: FloatArray) -> list[list[int | None]]:
    """Return a list for each column; what is zero has no logarithm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = 1000 * np.log10(sizes.T)
    return [[round(value) if np.isfinite(value) else None for value in walk.tolist()] for walk in logs]
