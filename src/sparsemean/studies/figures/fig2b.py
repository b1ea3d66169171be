"""Fig 2b: Stage 1 against the full method as the sparsity grows, with n = 100·k rows.

The same data as the first row of `app_different_k`: what either figure has run, the other does not run again.
"""

from __future__ import annotations

from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.sweeping import SweepFigure, grid, make_figure, strip

TITLE = "Stage 1 against the full method as the sparsity grows"
SPARSITIES = grid(5, 101, 5)
METHODS = {"stage_1": "stage_1", "full_filter": "full_filter", "oracle": "oracle"}
FIGURE = SweepFigure(
    "fig2b",
    TITLE,
    strips=(strip("stage1 vs full", METHODS, "k", SPARSITIES, rows_per_k=100),),
    quick_grid=(5.0, 10.0, 20.0, 40.0),
    x_label="sparsity k (n = 100·k rows)",
    notes=("n grows with k, n = 100·k; at k = 100 every feature has a mean and nothing is sparse.",),
)


def make(options: Options) -> Outcome:
    """Run what is missing and write table and picture."""
    return make_figure(FIGURE, options)
