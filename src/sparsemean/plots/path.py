"""The path plot: |μ̂_t| of the selected features against the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._stats.planning import DEFAULT_ITERATIONS
from sparsemean._util.checks import count_of
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import require
from sparsemean.plots._style import CYCLE, SMALL, axes_for, entitle, settle, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.result import Estimate

MAX_LABELLED = 10
"""Names at the right end: more would stand far from their lines."""
MOST_SELECTED = 200
"""Selected features that are drawn, the strongest: a path takes some hundredths of a second."""
DASHES = ("-", "--", ":")
"""Lines that have the same colour differ in this."""


def plot_path(
    estimate: Estimate,
    *,
    ax: Axes | None = None,
    n_iter: int | None = None,
    n_rest: int = 60,
    X: Any = None,
    covariate: Any = None,
) -> Axes:
    """Draw |μ̂_t| on a logarithmic scale, of the 200 strongest selected features and the nearest of the rest.

    Parameters
    ----------
    estimate
        The result of a fit; ``X`` is needed where it does not keep its data, with the ``covariate`` of the fit: both as
        they were, in their order, or they are refused.
    ax
        Axes to draw on; new ones by default.
    n_iter
        Last iteration drawn; defaults to the number of iterations behind the values.
    n_rest
        How many unselected features to draw in grey: those with the largest |β₀|, the nearest to entering.
    """
    require("matplotlib", extra="plots", purpose="plotting")
    plan = estimate.plan
    last = n_iter or plan.walk.estimate_at or DEFAULT_ITERATIONS
    selected = _strongest(estimate)
    features = np.concatenate((_strongest_rest(estimate, n_rest), selected))
    size = np.abs(estimate.trajectory(features, last, X, covariate=covariate))
    size, k = np.where(size > 0, size, np.nan), selected.size
    ax = axes_for(ax)
    ax.set_yscale("log")
    ax.set_xlim(0, last)
    ax.plot(np.arange(last + 1), size[:, : features.size - k], color="0.8", linewidth=0.7, zorder=1)
    if plan.question.selection == "paper":  # elsewhere α is in units of each feature's own
        ax.axhline(plan.walk.alpha, color="0.35", linewidth=0.8, linestyle=":")
        ax.annotate("α", (0, plan.walk.alpha), xytext=(2, 2), textcoords="offset points", color="0.35")
    if plan.question.selection == "paper" and plan.walk.select_at <= last:
        ax.axvline(plan.walk.select_at, color="0.35", linewidth=0.8, linestyle=":")
        ax.annotate(
            "support read", (plan.walk.select_at, 0), xycoords=("data", "axes fraction"), xytext=(4, 6),
            textcoords="offset points", color="0.35", fontsize="small",
        )  # fmt: skip
    ax.set_xlabel("iteration t")
    ax.set_ylabel("|μ̂|, units of the data")
    selection = count_of(estimate.support.size, plan.n_features, "feature")
    title = f"{selection} selected; grey: the nearest of the rest"
    title += f"; the {k} strongest are drawn" if k < estimate.support.size else ""
    entitle(ax, title)
    _draw_selected(ax, estimate, selected, size[:, features.size - k :])
    return ax


def _strongest(estimate: Estimate) -> IntArray:
    """Return the selected features, or of very many those that lean most to one side, rising."""
    support = estimate.support
    strongest = np.argsort(-np.abs(estimate.beta[support]), kind="stable")[:MOST_SELECTED]
    return np.sort(support[strongest])


def _strongest_rest(estimate: Estimate, n_rest: int) -> IntArray:
    strength = np.abs(estimate.beta)
    strength[estimate.support] = -1.0
    rest = np.argsort(-strength, kind="stable")[: min(n_rest, strength.size - estimate.support.size)]
    return np.asarray(rest, dtype=np.intp)


def _draw_selected(ax: Axes, estimate: Estimate, selected: IntArray, size: FloatArray) -> None:
    """Draw the selected features in the order in which they enter, and name the first ones."""
    order = np.argsort(estimate.entry_time[selected], kind="stable")
    names = estimate.names(selected)
    ends = {}
    for rank, k in enumerate(order.tolist()):
        colour, dashes = CYCLE[rank % len(CYCLE)], DASHES[rank // len(CYCLE) % len(DASHES)]
        ax.plot(np.arange(size.shape[0]), size[:, k], color=colour, linestyle=dashes, linewidth=1.6, zorder=2)
        if rank < MAX_LABELLED and np.isfinite(size[-1, k]):
            ends[shown(names[k])] = (float(size[-1, k]), colour)
    _label(ax, ends, size.shape[0] - 1)


def _label(ax: Axes, ends: dict[str, tuple[float, str]], last: int) -> None:
    """Write names at the right end of the lines, kept apart by moving lower ones down, each tied to its line."""
    settle(ax)
    line = 1.25 * SMALL
    lowest = np.inf
    for name, (end, colour) in sorted(ends.items(), key=lambda item: -item[1][0]):
        height = float(ax.transData.transform((last, end))[1]) * 72 / ax.figure.dpi
        place = min(height, lowest)
        lowest = place - line
        ax.annotate(
            name, (last, end), (14, place - height), textcoords="offset points", va="center", fontsize=SMALL,
            color=colour, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 0,
                        "relpos": (0, 0.5)},
        )  # fmt: skip
