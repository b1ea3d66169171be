"""Log-log panels: one line for each estimator, its slope in the legend, the claimed growth as a dotted line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsemean.errors import require
from sparsemean.files import replacing
from sparsemean.studies.slopes import far_end, log_log

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COLOURS = {
    "stage_1": "#0072b2", "default": "#009e73", "full_GD": "#d55e00", "full_filter": "#e69f00", "sparse_GD": "#cc79a7",
    "sparse_filter": "#666666", "median_of_means": "#56b4e9", "mean": "black", "half the distance": "#b00000",
}  # fmt: skip


MOST_MARKS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Points (columns estimator, x, value), what the axes say, and growths to compare with: (label, exponent)."""

    title: str
    xlabel: str
    ylabel: str
    points: pd.DataFrame
    guides: tuple[tuple[str, float], ...] = ()
    least_x: float = 0.0


def draw(panels: list[Panel], image: Path) -> None:
    """Draw the panels, three in a row, and write the picture."""
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing a figure")
    rows = -(-len(panels) // 3)
    figure, axes = pyplot.subplots(rows, 3, figsize=(14.0, 4.3 * rows), layout="constrained", squeeze=False)
    for ax, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(ax, panel)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    with replacing(image) as temporary:
        figure.savefig(temporary, dpi=150)
    pyplot.close(figure)


def _draw_panel(ax: Axes, panel: Panel) -> None:
    for name, part in panel.points.groupby("estimator", sort=False):
        far = far_end(dict(zip(part.x, part.value, strict=True)), panel.least_x)
        label = f"{name}  {log_log(far.keys(), far.values())}"
        ax.plot(part.x, part.value, "o-", markersize=3.5, linewidth=1.3, color=COLOURS.get(str(name)), label=label)
    _draw_guides(ax, panel)
    ax.set_xscale("log")
    ax.set_yscale("log")
    _mark(ax, sorted(set(panel.points.x)))
    ax.set_title(panel.title, loc="left", fontsize="medium")
    ax.set_xlabel(panel.xlabel)
    ax.set_ylabel(panel.ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize="x-small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _mark(ax: Axes, x: list[float]) -> None:
    """Mark the points that were measured, where they are few; tell the other axis in plain numbers."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="drawing a figure")
    if len(x) <= MOST_MARKS:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))


def _draw_guides(ax: Axes, panel: Panel) -> None:
    x = np.array([panel.points.x.min(), panel.points.x.max()])
    top = panel.points.value.max()
    for label, exponent in panel.guides:
        y = 1.3 * top * (x / x[np.argmax(x**exponent)]) ** exponent
        ax.plot(x, y, ":", color="0.35", linewidth=1.0)
        ax.annotate(label, (x[-1], y[-1]), xytext=(-2, 3), textcoords="offset points", fontsize="x-small", ha="right")
