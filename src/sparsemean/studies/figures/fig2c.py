"""Fig 2c: Stage 1 against the full method in the regime of infinite variance.

The second stage runs on bucket means here, unlike in every other figure. The Student t panel comes from an older run:
400 rows, 2⌈εn⌉ buckets, another oracle, and no least number of features.
"""

from __future__ import annotations

from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.sweeping import SweepFigure, grid, make_figure, strip

TITLE = "Infinite variance: Stage 1 against the full method"
PANEL = "infinite variance"
METHODS = {"stage_1": "stage_1", "full_filter": "full_filter_buckets", "oracle": "oracle"}
OLD_METHODS = {"stage_1": "old_stage_1", "full_filter": "old_full_filter_buckets", "oracle": "old_oracle"}
FIGURE = SweepFigure(
    "fig2c",
    TITLE,
    strips=(
        strip(PANEL, METHODS, "shape", grid(1.1, 3.05, 0.1), distributions=("fisk", "pareto"), trials=50),
        strip(PANEL, OLD_METHODS, "shape", grid(1.1, 2.95, 0.1), distributions=("t",), n=400, trials=50),
    ),
    quick_grid=(1.2, 1.6, 2.0, 2.5, 2.9),
    x_label="shape c, b, ν",
    notes=(
        "The second stage of the full method runs on bucket means in this figure only.",
        "The Student t panel is an older run: n = 400, 2⌈εn⌉ buckets, another oracle, no least number of features.",
    ),
)


def make(options: Options) -> Outcome:
    """Run what is missing and write table and picture."""
    return make_figure(FIGURE, options)
