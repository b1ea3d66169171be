"""The forest plot: the selected features with their estimates and intervals, the strongest on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._util.checks import count_of, integer
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.plots._style import ALARM, CHOSEN, GUIDE, SMALL, axes_for, entitle, group_names, letters, say, shown
from sparsemean.result import sorted_uncertified, strongest_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.result import Estimate

LINE, REST_OF_FIGURE = 0.24, 1.5
"""Inches for each feature and for what is around them."""


def plot_forest(
    estimate: Estimate, ax: Axes | None = None, *, most: int = 30, uncertified: bool = False, scale: str = "linear"
) -> Axes:
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
    scale
        Scale of the estimates: ``"symlog"`` where their sizes differ by orders of magnitude.
    """
    most = integer(most, argument="most", least=1, rule="be a positive integer")
    if ax is not None:
        most = min(most, max(1, int(axes_for(ax).get_window_extent().height * 72 / ax.figure.dpi / (1.2 * SMALL))))
    features = strongest_first(estimate, estimate.support)[:most]
    extra, extra_means = _uncertified(estimate, most if uncertified else 0)
    lines = features.size + (1 + extra.size if extra.size else 0)
    ax = axes_for(ax, REST_OF_FIGURE + LINE * max(lines, 6))
    ax.set_xlabel(_units(estimate))
    if not lines:
        say(ax, "no feature was selected: nothing to show")
        entitle(ax, _title(estimate, features))
        return ax
    places = np.concatenate((np.arange(features.size), features.size + 1 + np.arange(extra.size)))
    everything = np.concatenate((features, extra))
    ends = np.vstack((estimate.intervals[features], np.full((extra.size, 2), np.nan)))
    _draw_null(ax, estimate, everything, places)
    _set_scale(ax, scale, np.concatenate((estimate.mean[features], extra_means)), ends, _null(estimate, everything))
    _draw_intervals(ax, ends[: features.size])
    ax.plot(estimate.mean[features], places[: features.size], "o", markersize=5.5, color=CHOSEN, zorder=3)
    if extra.size:
        _draw_uncertified(ax, extra_means, places[features.size :])
    room = min(24, int(0.4 * letters(ax, ax.get_window_extent().width, SMALL)))
    names = [shown(name, max(8, room)) for name in estimate.names(everything)]
    ax.set_yticks(places, names, fontsize=SMALL)
    ax.set_ylim(lines - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    entitle(ax, _title(estimate, features))
    return ax


def _uncertified(estimate: Estimate, most: int) -> tuple[IntArray, FloatArray]:
    """Return the features seen only without the suspect rows and their estimates, as the table has them."""
    uncertified = sorted_uncertified(estimate)
    return uncertified.features[:most], uncertified.estimate[:most]


def _null(estimate: Estimate, features: IntArray) -> FloatArray:
    return np.zeros(features.size) if estimate.shift is None else estimate.shift[features]


def _draw_null(ax: Axes, estimate: Estimate, features: IntArray, places: IntArray) -> None:
    """Draw the null value: one line, or one for each feature where they differ."""
    null = _null(estimate, features)
    style: dict[str, Any] = {"color": GUIDE, "linewidth": 1.0, "linestyle": "--", "zorder": 1}
    if np.all(null == null[0]):
        ax.axvline(float(null[0]), **style)
    else:
        ax.vlines(null, places - 0.4, places + 0.4, **style)


def _set_scale(ax: Axes, scale: str, means: FloatArray, ends: FloatArray, null: FloatArray) -> None:
    """Make room for all that is finite, and some beyond it for arrows."""
    values = np.concatenate((means, ends.ravel(), null))
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    if scale == "symlog":
        sizes = np.abs(values[values != 0])
        ax.set_xscale("symlog", linthresh=float(sizes.min()) if sizes.size else 1.0)
        low, high = min(1.5 * low, low / 1.5), max(1.5 * high, high / 1.5)
    else:
        ax.set_xscale(scale)
    room = 0.08 * (high - low) if high > low else 1.0
    ax.set_xlim(low - room * (scale != "symlog"), high + room * (scale != "symlog"))


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
        "not certified: seen only without the suspect rows", (0.0, float(places[0]) - 1.0), (2, -2), color=ALARM,
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=SMALL, va="top",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _units(estimate: Estimate) -> str:
    if estimate.class_names is None:
        return "mean, in units of the data"
    reference, label = group_names(estimate)
    what = "shift" if estimate.plan.walk.dealing == "pairs" else "difference within pairs"
    what = "difference of means" if estimate.difference_test is not None else what
    return f"{what}, {label} minus {reference}, in units of the data"


def _title(estimate: Estimate, features: IntArray) -> str:
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
    title += f"; {100 * (1 - plan.question.level):.4g} % intervals, widened for selection"
    return f"{title} (arrow: no end)" if np.isinf(ends).any() else title
