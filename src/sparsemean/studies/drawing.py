"""Pictures of the sweep figures: published points and bands dashed, ours solid, our default marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsemean.errors import require
from sparsemean.files import replacing
from sparsemean.studies import published
from sparsemean.studies.agreement import OWN, condense

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sparsemean.studies.sweeping import SweepFigure

COLOURS = {
    "stage_1": "#0072b2", "full_filter": "#e69f00", "full_GD": "#d55e00", "sparse_GD": "#cc79a7",
    "sparse_filter": "#8c6d31", "oracle": "#009e73", OWN: "black",
}  # fmt: skip
"""Of the published estimators and ours, in the order of the legend."""
LABELS = {OWN: "our default (not in the paper)"}
GREY = 0.45
"""How far published lines are moved towards grey."""


def draw(figure: SweepFigure, trials: pd.DataFrame, image: Path) -> Path:
    """Draw a panel for each row and distribution, write the picture and return its path."""
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing a figure")
    ours, theirs = condense(trials, figure.metric), published.read(figure.name)
    names, kinds = list(dict.fromkeys(ours["panel"])), list(dict.fromkeys(ours["distribution"]))
    size = (3.9 * len(kinds) + 2.2, 3.7 * len(names) + 0.5)
    drawn, axes = pyplot.subplots(
        len(names), len(kinds), figsize=size, layout="constrained", squeeze=False, sharex=True, sharey="row"
    )
    for row, panel in enumerate(names):
        for column, kind in enumerate(kinds):
            ax = axes[row, column]
            _panel(ax, _part(ours, panel, kind), _part(theirs, panel, kind))
            _axes(ax, figure, _title(trials, panel, kind), bottom=row == len(names) - 1, left=column == 0)
    drawn.suptitle(figure.title, x=0.01, ha="left", fontsize="large")
    _legend(drawn, [name for name in COLOURS if name in set(ours["estimator"])])
    with replacing(image) as temporary:
        drawn.savefig(temporary, dpi=150)
    pyplot.close(drawn)
    return image


def _part(table: pd.DataFrame, panel: str, kind: str) -> pd.DataFrame:
    return table[(table["panel"] == panel) & (table["distribution"] == kind)].sort_values("x")


def _panel(ax: Axes, ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    for name, colour in COLOURS.items():
        known = theirs[theirs["estimator"] == name]
        ax.fill_between(known["x"], known["q25"], known["q75"], color=_greyed(colour), alpha=0.13, linewidth=0)
        ax.plot(known["x"], known["median"], color=_greyed(colour), linewidth=1.0, linestyle=(0, (4, 2)), zorder=2)
        line = ours[ours["estimator"] == name]
        ax.fill_between(line["x"], line["q25"], line["q75"], color=colour, alpha=0.15, linewidth=0, zorder=1)
        own = {"marker": "o", "markersize": 3.2, "linewidth": 2.0, "zorder": 4} if name == OWN else {"linewidth": 1.4}
        ax.plot(line["x"], line["median"], color=colour, **own)


def _greyed(colour: str) -> Any:
    colours = require("matplotlib.colors", extra="plots", purpose="drawing a figure")
    return tuple((1 - GREY) * part + GREY * 0.5 for part in colours.to_rgb(colour))


def _title(trials: pd.DataFrame, panel: str, kind: str) -> str:
    """Return the distribution, with its shape and number of rows where these are the same all over the panel."""
    part = _part(trials, panel, kind)
    told = [kind]
    told += [f"shape {part['shape'].iloc[0]:g}"] if part["shape"].nunique() == 1 else []
    told += [f"n = {part['n'].iloc[0]}"] if part["n"].nunique() == 1 else []
    return ", ".join(told)


def _axes(ax: Axes, figure: SweepFigure, title: str, *, bottom: bool, left: bool) -> None:
    if figure.metric == "error":  # from 0.1 for the oracle to thousands without variance
        ax.set_yscale("log")
    ax.set_title(title, loc="left", fontsize="medium")
    if bottom:
        ax.set_xlabel(figure.x_label)
    if left:
        ax.set_ylabel(figure.y_label)
    ax.grid(color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, names: list[str]) -> None:
    lines = require("matplotlib.lines", extra="plots", purpose="drawing a figure")
    patches = require("matplotlib.patches", extra="plots", purpose="drawing a figure")
    handles = [
        lines.Line2D([], [], color=COLOURS[name], label=LABELS.get(name, name), marker="o" if name == OWN else "",
                     markersize=3.2, linewidth=2.0 if name == OWN else 1.4)
        for name in names
    ]  # fmt: skip
    handles += [
        lines.Line2D([], [], color="0.2", linewidth=1.4, label="solid: run here, median"),
        lines.Line2D([], [], color="0.5", linewidth=1.0, linestyle=(0, (4, 2)), label="dashed: published, median"),
        patches.Patch(color="0.8", label="bands: middle half of trials"),
    ]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize="small")
