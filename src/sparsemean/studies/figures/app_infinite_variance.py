"""Appendix: all methods from infinite to finite variance. full_GD is the dense descent; sparse_filter has buckets."""

from __future__ import annotations

from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.figures.app_sensitivity import METHODS
from sparsemean.studies.sweeping import SweepFigure, grid, make_figure, strip

TITLE = "All methods from infinite to finite variance"
FIGURE = SweepFigure(
    "app_infinite_variance",
    TITLE,
    strips=(strip("-", METHODS, "shape", grid(1.1, 3.45, 0.1)),),
    quick_grid=(1.2, 1.6, 2.0, 2.5, 2.9),
    x_label="shape c, b, ν",
    notes=("A sparse_filter that removes every row answers zero: its error is then ‖μ‖ = 12.04.",),
)


def make(options: Options) -> Outcome:
    """Run what is missing and write table and picture."""
    return make_figure(FIGURE, options)
