"""Plots of features: estimates with their intervals, paths, and p-values over how far each leans to one side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsemean._fit.afterwards import sorted_uncertified, strongest_first
from sparsemean._stats import path
from sparsemean._stats.planning import DEFAULT_ITERATIONS
from sparsemean._util.checks import count_of, integer, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import require
from sparsemean.plots import _style
from sparsemean.plots._style import ALARM, CHOSEN, CYCLE, GUIDE, SMALL, axes_for, dashed, entitle, shown
from sparsemean.result._report.guarantees import terms
from sparsemean.result._report.plot_data import rejection_p
from sparsemean.result._report.wording import wording_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.result import Estimate

# The forest plot: the selected features with their estimates and intervals, the strongest on top.

LINE, REST_OF_FIGURE = 0.24, 1.5
"""Inches for each feature and for what is around them."""


def plot_forest(estimate: Estimate, ax: Axes | None = None, *, most: int = 30, uncertified: bool = False) -> Axes:
    """Draw estimates and intervals of the selected features; an arrow is an interval without an end on that side.

    Parameters
    ----------
    estimate
        The result of a fit.
    ax
        Axes to draw on; new ones by default, as high as the features need.
    most
        How many features to draw, the strongest ones, fewer where ``ax`` is too low for that many lines; the title
        says how many are left out.
    uncertified
        Whether to draw those features below, with open marks, that only the rows left after screening show.
    """
    most = integer(most, argument="most", least=1, rule="be a positive integer")
    if ax is not None:
        most = min(most, max(1, int(axes_for(ax).get_window_extent().height * 72 / ax.figure.dpi / (1.2 * SMALL))))
    features = strongest_first(estimate, estimate.support)[:most]
    seen, others = sorted_uncertified(estimate), most if uncertified else 0
    extra, extra_means = seen.features[:others], seen.estimate[:others]
    lines = features.size + (1 + extra.size if extra.size else 0)
    ax = axes_for(ax, REST_OF_FIGURE + LINE * max(lines, 6))
    ax.set_xlabel(f"{wording_of(estimate, shown=shown).test.effect}, in units of the data")
    if not lines:
        _style.say(ax, "no feature was selected: nothing to show")
        entitle(ax, _forest_title(estimate, features))
        return ax
    places = np.concatenate((np.arange(features.size), features.size + 1 + np.arange(extra.size)))
    everything = np.concatenate((features, extra))
    ends = np.vstack((estimate.intervals[features], np.full((extra.size, 2), np.nan)))
    null = np.zeros(everything.size) if estimate.shift is None else estimate.shift[everything]
    if np.all(null == null[0]):
        dashed(ax.axvline, float(null[0]))
    else:
        dashed(ax.vlines, null, places - 0.4, places + 0.4)
    values = np.concatenate((estimate.mean[features], extra_means, ends.ravel(), null))
    values = values[np.isfinite(values)]
    room = 0.08 * float(np.ptp(values)) or 1.0  # for arrows
    ax.set_xlim(float(values.min()) - room, float(values.max()) + room)
    _draw_intervals(ax, ends[: features.size])
    ax.plot(estimate.mean[features], places[: features.size], "o", markersize=5.5, color=CHOSEN, zorder=3)
    if extra.size:
        _draw_uncertified(ax, extra_means, places[features.size :])
    room = min(24, int(0.4 * _style.letters(ax, ax.get_window_extent().width, SMALL)))
    names = [shown(name, max(8, room)) for name in estimate.names(everything)]
    ax.set_yticks(places, names, fontsize=SMALL)
    ax.set_ylim(lines - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    entitle(ax, _forest_title(estimate, features))
    return ax


def _draw_intervals(ax: Axes, ends: FloatArray) -> None:
    """Draw a line from end to end, to the edge of the axes and with an arrow there where there is no end."""
    left, right = ax.get_xlim()
    places = np.arange(ends.shape[0])
    there = ~np.isnan(ends).any(axis=1)
    inside = np.clip(ends, left, right)
    ax.hlines(places[there], inside[there, 0], inside[there, 1], color=CHOSEN, linewidth=1.8, zorder=2)
    for side, edge, marker in ((0, left, "<"), (1, right, ">")):
        open_ended = places[np.isinf(ends[:, side])]
        if open_ended.size:
            at = np.full(open_ended.size, edge)
            ax.plot(at, open_ended, marker, color=CHOSEN, markersize=7, clip_on=False, zorder=3)


def _draw_uncertified(ax: Axes, means: FloatArray, places: IntArray) -> None:
    ax.plot(means, places, "D", markersize=5.5, markerfacecolor="none", markeredgecolor=ALARM, zorder=3)
    ax.axhline(float(places[0]) - 1.0, color=ALARM, linewidth=0.8)
    ax.annotate(
        "not certified: seen only without the suspicious rows", (0.0, float(places[0]) - 1.0), (2, -2), color=ALARM,
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=SMALL, va="top",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _forest_title(estimate: Estimate, features: IntArray) -> str:
    number, plan = estimate.support.size, estimate.plan
    title = f"{count_of(number, plan.n_features, 'feature')} selected"
    if number > features.size:
        title += f", the {features.size} strongest shown and {number - features.size:,} left out"
    ends = estimate.intervals[features]
    if not features.size:
        return title
    if not estimate.has_values:
        return f"{title}; estimates and intervals need the rows"
    if np.isnan(ends).all():
        return f"{title}; no intervals"
    title += f"; {terms(wording_of(estimate))['intervals']}"
    return f"{title} (arrow: no end)" if np.isinf(ends).any() else title


# The path plot: |μ̂_t| of the selected features against the rest.

MAX_LABELLED = 10
"""Names in the key below the axes."""
MOST_SELECTED = 200
"""Selected features that are drawn, the strongest: a path takes some hundredths of a second."""
DASHES = ("-", "--", ":")
"""Lines that have the same colour differ in this."""


def plot_path(
    estimate: Estimate, *, ax: Axes | None = None, n_iter: int | None = None, n_rest: int = 60, X: object = None
) -> Axes:
    """Draw |μ̂_t| on a logarithmic scale, of the 200 strongest selected features and the nearest of the rest.

    Parameters
    ----------
    estimate
        The result of a fit of one sample; ``X`` is needed where it does not keep its data: as they were, in their
        order, or they are refused.
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
    strength = np.abs(estimate.beta)
    selected = np.sort(estimate.support[np.argsort(-strength[estimate.support], kind="stable")[:MOST_SELECTED]])
    strength[estimate.support] = -1.0
    rest = np.argsort(-strength, kind="stable")[: min(n_rest, strength.size - estimate.support.size)]
    features = np.concatenate((rest, selected))
    size = np.abs(estimate.trajectory(features, last, X))
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
    _draw_selected(ax, estimate, selected, size[:, features.size - k :])
    entitle(ax, title)
    return ax


def _draw_selected(ax: Axes, estimate: Estimate, selected: IntArray, size: FloatArray) -> None:
    """Draw the selected features in the order in which they leave zero; the key below the axes names the first ones."""
    order = np.argsort(-np.abs(estimate.beta[selected]), kind="stable")
    names = estimate.names(selected)
    for rank, k in enumerate(order.tolist()):
        colour, dashes = CYCLE[rank % len(CYCLE)], DASHES[rank // len(CYCLE) % len(DASHES)]
        label = shown(names[k]) if rank < MAX_LABELLED else "_nolegend_"
        steps = np.arange(size.shape[0])
        ax.plot(steps, size[:, k], color=colour, linestyle=dashes, linewidth=1.6, zorder=2, label=label)


# The volcano plot: how far each feature leans to one side, and how small its p-value is.


def plot_volcano(estimate: Estimate, ax: Axes | None = None, *, labels: int = 12) -> Axes:
    """Draw −log10 p of every feature over its β (Cliff's delta for two groups), the selected ones coloured.

    β is there for every feature, the estimate on the support alone. The p-values hold with the assumed number of bad
    rows, but are not adjusted for the number of features; the line is where the rule of the fit ends.

    Parameters
    ----------
    estimate
        The result of a fit.
    ax
        Axes to draw on; new ones by default.
    labels
        How many of the strongest selected features to name, where there is room.
    """
    ax = axes_for(ax)
    height = np.abs(estimate.log10_p)
    selected = strongest_first(estimate, estimate.support)
    rest = np.ones(height.size, dtype=bool)
    rest[selected] = False
    rest[estimate.decision.skipped] = False
    line = rejection_p(estimate)
    top = 1.12 * max(float(height.max()), 1.0 if line is None else -float(np.log10(line)))
    wide = 1.08 * max(0.05, float(np.abs(estimate.beta).max()))
    ax.set(xlim=(-wide, wide), ylim=(-0.02 * top, top))
    others = pluralize(int(rest.sum()), "other feature")
    _style.draw_mass(ax, estimate.beta[rest], height[rest], (-wide, wide, -0.02 * top, top), others)
    if selected.size:
        ax.plot(
            estimate.beta[selected], height[selected], linestyle="", marker="o", markersize=6, color=CHOSEN,
            markeredgecolor="white", markeredgewidth=_style.rim(selected.size), zorder=3, label="selected",
        )  # fmt: skip
    left_out = estimate.decision.skipped
    if left_out.size:
        label = f"left out, one value only: {left_out.size:,}"
        ax.plot(estimate.beta[left_out], height[left_out], "x", color=GUIDE, markersize=6, zorder=3, label=label)
    _draw_rule(ax, estimate, line)
    test = wording_of(estimate, shown=shown).test
    ax.set_xlabel(f"{test.lean}: {test.lean_meaning[0].lower()}{test.lean_meaning[1:]}")
    ax.set_ylabel("−log10 of the p-value")
    entitle(ax, f"{count_of(selected.size, height.size, 'feature')} selected")
    named = estimate.names(selected[: 10 * labels])
    _style.label_points(ax, estimate.beta[selected], height[selected], named, most=labels, colour=CHOSEN)
    return ax


def _draw_rule(ax: Axes, estimate: Estimate, line: float | None) -> None:
    """Draw where the rule ends: a p-value, or the β that the paper's rule asks for."""
    if line is not None:
        dashed(ax.axhline, -float(np.log10(line)), zorder=2, label=f"selected from p = {line:.2g}")
        return
    plan = estimate.plan
    beta = path.selection_threshold(plan.walk.select_at, alpha=plan.walk.alpha, eta=plan.walk.eta)
    if np.isfinite(beta):
        dashed(ax.axvline, -beta, zorder=2)
        dashed(ax.axvline, beta, zorder=2, label=f"the paper's rule: |β| from {beta:.3f}")
