"""Appendix: all methods as the sparsity grows, with n = 100·k rows; shape 3.1 in the first row, 2 in the second.

The first row has the data of `fig2b`.
"""

from __future__ import annotations

from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.figures.fig2b import SPARSITIES
from sparsemean.studies.sweeping import SweepFigure, make_figure, strip

TITLE = "All methods as the sparsity grows"
METHODS = {
    "oracle": "oracle", "sparse_GD": "sparse_GD", "sparse_filter": "sparse_filter_buckets", "stage_1": "stage_1",
    "full_GD": "full_sparse_GD", "full_filter": "full_filter",
}  # fmt: skip
FIGURE = SweepFigure(
    "app_different_k",
    TITLE,
    strips=(
        strip("row1", METHODS, "k", SPARSITIES, rows_per_k=100),
        strip("row2", METHODS, "k", SPARSITIES, rows_per_k=100, shape=2.0),
    ),
    quick_grid=(5.0, 10.0, 20.0, 40.0),
    x_label="sparsity k (n = 100·k rows)",
    notes=(
        "n = 100·k, as in Fig 2b, though the text gives no n here. full_GD is the sparse descent on selected features.",
        "From k = 30 on the bucketed sparse_filter is told that more than half of its buckets are bad.",
    ),
)


def make(options: Options) -> Outcome:
    """Run what is missing and write table and picture."""
    return make_figure(FIGURE, options)
