"""Figures that sweep one setting: Fig 2 and those of the appendix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sparsemean._fit import messages
from sparsemean.errors import require
from sparsemean.studies import engine, published
from sparsemean.studies.figures import Options, Outcome, PaperFigure, write_picture, write_table
from sparsemean.studies.methods import Sweep
from sparsemean.studies.published import DIGITS, OWN, condense

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    write_picture(drawn, image)
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


def _greyed(colour: str) -> tuple[float, ...]:
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


# What the sweep figures share: rows of panels, run, compared with the published points, written and drawn.

DISTRIBUTIONS = {"fisk": "Fisk", "pareto": "Pareto", "t": "Student-t"}
"""Our names, and those of the published points."""
QUICK_TRIALS = 2
LEADING = [
    "figure",
    "panel",
    "distribution",
    "param",
    "x",
    "estimator",
    "method",
    "trial",
    "error",
    "overlap",
    "seconds",
]


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A row of panels, one for each distribution of a sweep.

    Attributes
    ----------
    panel
        Its name among the published points.
    sweep
        What is run, at the published grid and number of trials.
    methods
        Pairs of a published estimator and the method of ours that reproduces it.
    """

    panel: str
    sweep: Sweep
    methods: tuple[tuple[str, str], ...]


def strip(
    panel: str, methods: Mapping[str, str], over: str, grid: tuple[float, ...], *,
    distributions: tuple[str, ...] = tuple(DISTRIBUTIONS), shape: float = 3.1, **settings: Any,
) -> PanelRow:  # fmt: skip
    """Declare a row of panels; our default is run as one more estimator."""
    estimators = (*methods.values(), published.OWN)
    drawn = tuple((name, shape) for name in distributions)
    return PanelRow(panel, Sweep(over, grid, drawn, estimators, **settings), tuple(methods.items()))


def grid(start: float, stop: float, step: float) -> tuple[float, ...]:
    """Return the published kind of grid, ``np.arange``, free of what rounding adds to it."""
    return tuple(float(x) for x in np.round(np.arange(start, stop, step), DIGITS))


@dataclass(frozen=True, slots=True)
class SweepFigure:
    """A figure made of rows of panels.

    Attributes
    ----------
    name, title
        As on the command line, and in words.
    strips
        Its rows of panels.
    quick_grid
        The few points of the published grid that a quick look takes.
    x_label, y_label
        What the axes say.
    metric
        ``error`` or ``overlap``.
    notes
        What must be known to read it.
    """

    name: str
    title: str
    strips: tuple[PanelRow, ...]
    quick_grid: tuple[float, ...]
    x_label: str
    y_label: str = "ℓ₂ error"
    metric: str = "error"
    notes: tuple[str, ...] = ()

    def sweeps(self, options: Options) -> list[Sweep]:
        """Return what is run under these options."""
        made = []
        for row in self.strips:
            trials = QUICK_TRIALS if options.quick else row.sweep.trials
            points = self.quick_grid if options.quick else row.sweep.grid
            made.append(replace(row.sweep, grid=points, trials=options.trials or trials, seed=options.seed))
        return made


def make_figure(figure: SweepFigure, options: Options) -> Outcome:
    """Run what is missing, write ``<name>.csv`` and ``<name>.png``, and compare with the published points."""
    table = run(figure, options)
    write_table(table, options.out / f"{figure.name}.csv")
    image = draw(figure, table, options.out / f"{figure.name}.png")
    compared = published.compare(table, figure.metric)
    notes = [*figure.notes, *table.attrs["notes"]]
    return Outcome(figure.name, figure.title, table, (image,), compared, notes)


def run(figure: SweepFigure, options: Options) -> pd.DataFrame:
    """Return every trial of the figure in the words of the published points; ``method`` is what ran here."""
    sweeps = figure.sweeps(options)
    tables = engine.run_all(
        dict(enumerate(sweeps)), out=trials_folder(options.out), n_jobs=options.n_jobs, progress=options.progress
    )
    notes = tables[0].attrs["notes"]
    for table in tables.values():
        table.attrs = {}
    parts = [_in_their_words(figure.name, row, tables[place]) for place, row in enumerate(figure.strips)]
    made = pd.concat(parts, ignore_index=True)
    made.attrs = {"sweeps": [sweep.describe() for sweep in sweeps], "versions": messages.versions(), "notes": notes}
    return made


def trials_folder(out: Path) -> Path:
    """Return where finished trials are kept: one folder for all figures, so that equal settings are run once."""
    return out / "trials"


def _in_their_words(name: str, row: PanelRow, table: pd.DataFrame) -> pd.DataFrame:
    theirs = {ours: published for published, ours in row.methods}
    table = table.assign(
        figure=name,
        panel=row.panel,
        distribution=table["distribution"].map(DISTRIBUTIONS),
        param=table["shape"],
        method=table["estimator"],
        estimator=table["estimator"].map(lambda ours: theirs.get(ours, ours)),
    )
    return table[[*LEADING, *(column for column in table.columns if column not in LEADING)]]


# Fig 2a: the share of the support that Stage 1 finds, as contamination grows.

FIG2A = SweepFigure(
    "fig2a",
    "Success rate of Stage 1 as contamination grows",
    strips=(
        strip(
            "success rate", {"stage_1": "stage_1_plain"}, "contamination", grid(0.05, 0.5, 0.05),
            mean=(2.0,) * 10, trials=50,
        ),
    ),
    quick_grid=(0.05, 0.15, 0.25, 0.35, 0.45),
    x_label="contamination ε",
    y_label="|I ∩ S| / |I ∪ S|",
    metric="overlap",
    notes=(
        "The mean is ten 2's: k = 10, where the caption implies k = 4. The line is a median, not an average.",
        "Our default selects only what ⌈εn⌉ bad rows could not have made up. As ε grows that leaves less and less, "
        "while Stage 1, which promises no such thing, goes on finding features under this attack.",
    ),
)  # fmt: skip


# Fig 2b: Stage 1 against the full method as the sparsity grows, with n = 100·k rows.

SPARSITIES = grid(5, 101, 5)
FIG2B_METHODS = {"stage_1": "stage_1", "full_filter": "full_filter", "oracle": "oracle"}
FIG2B = SweepFigure(
    "fig2b",
    "Stage 1 against the full method as the sparsity grows",
    strips=(strip("stage1 vs full", FIG2B_METHODS, "k", SPARSITIES, rows_per_k=100),),
    quick_grid=(5.0, 10.0, 20.0, 40.0),
    x_label="sparsity k (n = 100·k rows)",
    notes=("n grows with k, n = 100·k; at k = 100 every feature has a mean and nothing is sparse.",),
)


# Fig 2c: Stage 1 against the full method in the regime of infinite variance.

PANEL = "infinite variance"
FIG2C_METHODS = {"stage_1": "stage_1", "full_filter": "full_filter_buckets", "oracle": "oracle"}
OLD_METHODS = {"stage_1": "old_stage_1", "full_filter": "old_full_filter_buckets", "oracle": "old_oracle"}
FIG2C = SweepFigure(
    "fig2c",
    "Infinite variance: Stage 1 against the full method",
    strips=(
        strip(PANEL, FIG2C_METHODS, "shape", grid(1.1, 3.05, 0.1), distributions=("fisk", "pareto"), trials=50),
        strip(PANEL, OLD_METHODS, "shape", grid(1.1, 2.95, 0.1), distributions=("t",), n=400, trials=50),
    ),
    quick_grid=(1.2, 1.6, 2.0, 2.5, 2.9),
    x_label="shape c, b, ν",
    notes=(
        "The second stage of the full method runs on bucket means in this figure only.",
        "The Student t panel is an older run: n = 400, 2⌈εn⌉ buckets, another oracle, no least number of features.",
    ),
)


# Appendix: what a wrong sparsity k′ does to the methods that must be told it. The mean is five 2's and five −2's.

TOLD = grid(1, 41, 3)
MEAN = (2.0,) * 5 + (-2.0,) * 5
SENSITIVITY_METHODS = {
    "oracle": "oracle", "sparse_GD": "sparse_GD", "sparse_filter": "sparse_filter_buckets", "stage_1": "stage_1",
    "full_GD": "full_GD_as_run", "full_filter": "full_filter",
}  # fmt: skip


APP_SENSITIVITY = SweepFigure(
    "app_sensitivity",
    "Sensitivity to the sparsity that methods are told",
    strips=(
        strip("row1", SENSITIVITY_METHODS, "told_k", TOLD, mean=MEAN),
        strip("row2", SENSITIVITY_METHODS, "told_k", TOLD, mean=MEAN, shape=2.0),
    ),
    quick_grid=(10.0, 19.0, 28.0, 40.0),
    x_label="sparsity told, k′ (true k = 10)",
    notes=("Only sparse_GD and sparse_filter are told k′. full_GD is the dense descent, sparse_filter has buckets.",),
)


# Appendix: all methods as the sparsity grows, with n = 100·k rows; shape 3.1 in the first row, 2 in the second.

K_METHODS = {
    "oracle": "oracle", "sparse_GD": "sparse_GD", "sparse_filter": "sparse_filter_buckets", "stage_1": "stage_1",
    "full_GD": "full_sparse_GD", "full_filter": "full_filter",
}  # fmt: skip


APP_DIFFERENT_K = SweepFigure(
    "app_different_k",
    "All methods as the sparsity grows",
    strips=(
        strip("row1", K_METHODS, "k", SPARSITIES, rows_per_k=100),
        strip("row2", K_METHODS, "k", SPARSITIES, rows_per_k=100, shape=2.0),
    ),
    quick_grid=(5.0, 10.0, 20.0, 40.0),
    x_label="sparsity k (n = 100·k rows)",
    notes=(
        "n = 100·k, as in Fig 2b, though the text gives no n here. full_GD is the sparse descent on selected features.",
        "From k = 30 on the bucketed sparse_filter is told that more than half of its buckets are bad.",
    ),
)


# Appendix: all methods as contamination grows. The shape is 2.1, whose variance is finite, though titles say 2.

APP_DIFFERENT_EPS = SweepFigure(
    "app_different_eps",
    "All methods as contamination grows",
    strips=(strip("-", K_METHODS, "contamination", grid(0.01, 0.2075, 0.005), shape=2.1),),
    quick_grid=(0.01, 0.05, 0.1, 0.15, 0.2),
    x_label="contamination ε",
    notes=("The shape is 2.1, with finite variance, where the titles of the paper's figure say 2.",),
)


# Appendix: all methods from infinite to finite variance. full_GD is the dense descent; sparse_filter has buckets.

APP_INFINITE_VARIANCE = SweepFigure(
    "app_infinite_variance",
    "All methods from infinite to finite variance",
    strips=(strip("-", SENSITIVITY_METHODS, "shape", grid(1.1, 3.45, 0.1)),),
    quick_grid=(1.2, 1.6, 2.0, 2.5, 2.9),
    x_label="shape c, b, ν",
    notes=("A sparse_filter that removes every row answers zero: its error is then ‖μ‖ = 12.04.",),
)


FIGURES = {
    figure.name: PaperFigure(figure.title, partial(make_figure, figure))
    for figure in (
        FIG2A, FIG2B, FIG2C, APP_SENSITIVITY, APP_DIFFERENT_K, APP_DIFFERENT_EPS, APP_INFINITE_VARIANCE,
    )
}  # fmt: skip
