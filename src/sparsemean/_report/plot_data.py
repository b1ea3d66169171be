"""The data of each plot on the page, small enough to travel with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._counts.ranks import differences_walked
from sparsemean._report.columns import Labels, rounded
from sparsemean._report.groups import reasons
from sparsemean._stats import path
from sparsemean._stats.planning import DEFAULT_ITERATIONS, bad_rows
from sparsemean._stats.row_scores import limit
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.plots.robustness import lost_at, planned_share, steps
from sparsemean.plots.volcano import HIGHEST, heights, rejection_p

if TYPE_CHECKING:
    from sparsemean.result import Estimate

# What follows bounds the data of a plot whatever n and d are, so that pages stay small enough to be sent by mail.
CELLS = (64, 32)


def counts(x: FloatArray, y: FloatArray, cells: tuple[int, int] = CELLS) -> dict[str, Any]:
    """Count points on a grid over their range; only cells with points are listed, as column, row, count in turn.

    Examples
    --------
    >>> counts(np.array([0.0, 1.0, 1.0]), np.array([0.0, 2.0, 2.0]), (2, 2))
    {'x': [0.0, 1.0, 2], 'y': [0.0, 2.0, 2], 'cells': [0, 0, 1, 1, 1, 2], 'total': 3, 'most': 2}
    """
    if not x.size:
        return {"x": [0.0, 1.0, 1], "y": [0.0, 1.0, 1], "cells": [], "total": 0, "most": 0}
    ranges = [_range(x), _range(y)]
    histogram, _, _ = np.histogram2d(x, y, bins=cells, range=ranges)
    i, j = np.nonzero(histogram)
    listed = np.column_stack((i, j, histogram[i, j].astype(np.int64))).ravel()
    across, up = ([float(low), float(high), number] for (low, high), number in zip(ranges, cells, strict=True))
    most = int(histogram.max())
    return {"x": across, "y": up, "cells": listed.tolist(), "total": int(x.size), "most": most}


def _range(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


# How features leave zero: their walks where the data are at hand.

MOST = 200
"""Selected features whose walk is drawn, the strongest; all of them have an entry time in the table."""
REST = 30
POINTS = 121
"""Times at which walks are drawn: every fifth of the paper's 600 iterations."""
MOST_MEANS = 20_000_000
"""Bucket means, or differences between two groups, that are walked for a picture."""


def path_data(estimate: Estimate, listed: IntArray, *, walks: bool = True) -> dict[str, Any]:
    """Return log₁₀|μ̂_t − null| in thousandths of the first of ``listed`` and of the nearest of the rest.

    Without the data, or where ``walks`` are not wanted, ``times`` is empty and the page draws entry times.
    """
    room = _room(estimate)
    if estimate.source is None or not room or not walks:
        return {"times": [], "walks": [], "rest": [], "alpha": None, "read_at": None}
    shown, nearest = listed[: min(MOST, room)], _nearest(estimate, min(REST, max(0, room - listed.size)))
    last = estimate.plan.estimate_at or DEFAULT_ITERATIONS
    times = np.unique(np.linspace(1, last, POINTS).round().astype(np.intp))
    both = np.concatenate((shown, nearest))
    walked = _sizes(estimate, both, last)[times] if both.size else np.empty((times.size, 0))
    paper = estimate.plan.selection == "paper"  # elsewhere α is in units of each feature's own
    return {
        "times": times.tolist(),
        "walks": _thousandths(walked[:, : shown.size]),
        "rest": _thousandths(walked[:, shown.size :]),
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


# How many features are left as more rows may be bad.

MOST_STEPS = 500
IN_WORDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
"""Shares of bad rows in the table beside the picture."""


def robustness_data(estimate: Estimate) -> dict[str, Any]:
    """Return shares of bad rows from which on fewer features are left, each followed by how many.

    ``planned`` is the share that was planned for, None where no share of each group is. ``table`` has shares, how many
    rows of each group that is, the features left, and whether it is what was planned for.
    """
    plan, skipped = estimate.plan, estimate.selection.skipped
    last = np.delete(estimate.max_contamination, skipped)
    at, left = steps(np.delete(lost_at(estimate), skipped))
    if at.size > MOST_STEPS:  # a step of less than a pixel cannot be seen
        kept = np.unique(np.linspace(0, at.size - 1, MOST_STEPS).round().astype(np.intp))
        at, left = at[kept], left[kept]
    planned, sizes = planned_share(plan), plan.sizes[::-1] or (plan.n_units,)
    rows: list[list[Any]] = [
        [share, [bad_rows(n, share) for n in sizes], int(np.sum(last >= share - 1e-12)), share == planned]
        for share in sorted({*IN_WORDS} | ({planned} if planned is not None else set()))
    ]
    end = next((k for k, row in enumerate(rows) if row[2] == 0 and row[0] >= (planned or 0)), len(rows) - 1)
    steps_listed = [number for pair in zip(at.tolist(), left.tolist(), strict=True) for number in pair]
    return {"steps": steps_listed, "planned": planned, "table": rows[: end + 1]}


# How far rows contradict the rest; suspects by name, very many others counted on a grid.

MOST_POINTS = 3_000
MOST_SUSPECTS = 2_000
MOST_TOLD, MOST_REASONS = 200, 6
"""Suspects in the table of the page, and features that are named against each."""


def rows_data(estimate: Estimate, labels: Labels, *, most: int = MOST_POINTS) -> dict[str, Any]:
    """Return scores of rows drawn one by one, the suspects first and of them the worst, and a grid of the others.

    More than ``most`` rows are not drawn one by one, but for the suspects.
    """
    rows = estimate.rows
    if rows is None or not rows.scores.any():
        nothing: dict[str, Any] = {"index": [], "scores": [], "n_suspects": 0, "n_shown": 0, "mass": None}
        return {
            **nothing, "names": None, "groups": None, "reasons": [], "limit": None, "why_not": _why_not(estimate)
        }  # fmt: skip
    suspects, n = rows.suspects, rows.scores.size
    shown = suspects[:MOST_SUSPECTS]
    judged = np.arange(n) if estimate.labels is None else np.flatnonzero(estimate.labels >= 0)
    others = np.setdiff1d(judged, shown)
    # Suspects come first: `n_shown` says where they end, and marks are drawn by that.
    single = np.concatenate((shown, others)) if n <= most else shown
    rest = others if n > most else others[:0]
    return {
        "index": single.tolist(),
        "scores": rounded(rows.scores[single]),
        "names": None if labels.row_names is None else [labels.row(int(row)) for row in single],
        "groups": None if estimate.labels is None else estimate.labels[single].tolist(),
        "reasons": [reasons(estimate, features, MOST_REASONS) for features in rows.reasons[:MOST_TOLD]],
        "n_shown": int(shown.size),
        "n_suspects": int(suspects.size),
        "mass": counts(rest.astype(np.float64), rows.scores[rest]) if rest.size else None,
        "limit": 0 if estimate.plan.dealing == "pairs" else round(limit(estimate.plan.n_units), 3),
        "why_not": "",
    }


def _why_not(estimate: Estimate) -> str:
    """Say why rows have no scores."""
    if estimate.plan.dealing == "pairs":
        return "no feature tells the groups apart"
    if not estimate.plan.screen_rows:
        return "screening was off" if estimate.rows is not None else "the rows were not at hand"
    return estimate.status.screening or "no feature is fit to judge them by"


# Effect against evidence: selected features are in the table, the others are counted on a grid.


def volcano_data(estimate: Estimate, listed: IntArray) -> dict[str, Any]:
    """Return the grid of all features that are not ``listed``, and the line a feature must pass to be selected."""
    others = np.ones(estimate.plan.n_features, dtype=bool)
    others[listed] = False
    height, p = heights(estimate.p_values[others]), rejection_p(estimate)
    return {
        "mass": counts(estimate.beta[others], height),
        "highest": HIGHEST,
        "bar": None if p is None else float(-np.log10(p)),
        "rate": _least_rate(estimate),
    }


def _least_rate(estimate: Estimate) -> float | None:
    """Return the |β| that the paper's rule asks for."""
    plan = estimate.plan
    rate = path.selection_threshold(plan.select_at, alpha=plan.alpha, eta=plan.eta)
    return rate if plan.selection == "paper" and rate <= 1 else None
