"""Appendix: all methods as contamination grows. The shape is 2.1, whose variance is finite, though titles say 2."""

from __future__ import annotations

from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.figures.app_different_k import METHODS
from sparsemean.studies.sweeping import SweepFigure, grid, make_figure, strip

TITLE = "All methods as contamination grows"
FIGURE = SweepFigure(
    "app_different_eps",
    TITLE,
    strips=(strip("-", METHODS, "contamination", grid(0.01, 0.2075, 0.005), shape=2.1),),
    quick_grid=(0.01, 0.05, 0.1, 0.15, 0.2),
    x_label="contamination ε",
    notes=("The shape is 2.1, with finite variance, where the titles of the paper's figure say 2.",),
)


def make(options: Options) -> Outcome:
    """Run what is missing and write table and picture."""
    return make_figure(FIGURE, options)
