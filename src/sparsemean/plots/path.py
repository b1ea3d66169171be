"""The path plot: |μ̂_t| of the selected features against the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import require
from sparsemean.planning.paper import DEFAULT_ITERATIONS
from sparsemean.records import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.estimate import Estimate

MAX_LABELLED = 10
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def plot_path(
    estimate: Estimate, *, ax: Axes | None = None, n_iter: int | None = None, n_rest: int = 60, X: Any = None
) -> Axes:
    """Draw |μ̂_t| on a logarithmic scale.

    Parameters
    ----------
    estimate
        The result of a fit; ``X`` is needed where it does not keep its data.
    ax
        Axes to draw on; new ones by default.
    n_iter
        Last iteration drawn; defaults to the number of iterations behind the values.
    n_rest
        How many unselected features to draw in grey: those with the largest |β₀|, the nearest to entering.
    """
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="plotting")
    if ax is None:
        _, ax = pyplot.subplots(figsize=(7.0, 4.2), layout="constrained")
    plan = estimate.plan
    last = n_iter or plan.estimate_at or DEFAULT_ITERATIONS
    for features, selected in ((_strongest_rest(estimate, n_rest), False), (estimate.support, True)):
        if features.size:
            _draw(ax, estimate, features, np.abs(estimate.trajectory(features, last, X)), selected)
    if plan.selection == "paper":  # elsewhere α is in units of each feature's own
        ax.axhline(plan.alpha, color="0.35", linewidth=0.8, linestyle=":")
        ax.annotate("α", (0, plan.alpha), xytext=(2, 2), textcoords="offset points", color="0.35")
    if plan.selection == "paper" and plan.select_at <= last:
        ax.axvline(plan.select_at, color="0.35", linewidth=0.8, linestyle=":")
        ax.annotate(
            "support read", (plan.select_at, 0), xycoords=("data", "axes fraction"), xytext=(4, 6),
            textcoords="offset points", color="0.35", fontsize="small",
        )  # fmt: skip
    ax.set_yscale("log")
    ax.set_xlim(0, last)
    ax.set_xlabel("iteration t")
    ax.set_ylabel("|μ̂|, units of the data")
    title = f"{estimate.support.size} of {plan.n_features:,} features selected; grey: the nearest of the rest"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _strongest_rest(estimate: Estimate, n_rest: int) -> IntArray:
    strength = np.abs(estimate.beta)
    strength[estimate.support] = -1.0
    rest = np.argsort(-strength, kind="stable")[: min(n_rest, strength.size - estimate.support.size)]
    return np.asarray(rest, dtype=np.intp)


def _draw(ax: Axes, estimate: Estimate, features: IntArray, size: Any, selected: bool) -> None:
    times = np.arange(size.shape[0])
    size = np.where(size > 0, size, np.nan)
    if not selected:
        ax.plot(times, size, color="0.8", linewidth=0.7, zorder=1)
        return
    order = np.argsort(estimate.entry_time[features], kind="stable")
    for rank, k in enumerate(order):
        ax.plot(times, size[:, k], color=COLOURS[rank % len(COLOURS)], linewidth=1.6, zorder=2)
    _label(ax, [str(name) for name in estimate.names(features)], size, order[:MAX_LABELLED])


def _label(ax: Axes, names: list[str], size: Any, order: IntArray) -> None:
    """Write names at the right end of the lines, kept apart by moving later ones down."""
    ends = {int(k): float(size[-1, k]) for k in order if np.isfinite(size[-1, k])}
    ranks = {int(k): rank for rank, k in enumerate(order)}
    lowest = np.inf
    for k, end in sorted(ends.items(), key=lambda item: -item[1]):
        place = min(end, lowest)
        lowest = place / 3.2  # about one line of text on the usual range of ten decades
        ax.annotate(
            names[k], (size.shape[0] - 1, place), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize="small", color=COLOURS[ranks[k] % len(COLOURS)], annotation_clip=False,
        )  # fmt: skip
