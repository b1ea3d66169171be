"""Appendix: what a wrong sparsity k′ does to the methods that must be told it. The mean is five 2's and five −2's."""

from __future__ import annotations

from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.sweeping import SweepFigure, grid, make_figure, strip

TITLE = "Sensitivity to the sparsity that methods are told"
TOLD = grid(1, 41, 3)
MEAN = (2.0,) * 5 + (-2.0,) * 5
METHODS = {
    "oracle": "oracle", "sparse_GD": "sparse_GD", "sparse_filter": "sparse_filter_buckets", "stage_1": "stage_1",
    "full_GD": "full_GD", "full_filter": "full_filter",
}  # fmt: skip
FIGURE = SweepFigure(
    "app_sensitivity",
    TITLE,
    strips=(
        strip("row1", METHODS, "told_k", TOLD, mean=MEAN),
        strip("row2", METHODS, "told_k", TOLD, mean=MEAN, shape=2.0),
    ),
    quick_grid=(10.0, 19.0, 28.0, 40.0),
    x_label="sparsity told, k′ (true k = 10)",
    notes=("Only sparse_GD and sparse_filter are told k′. full_GD is the dense descent, sparse_filter has buckets.",),
)


def make(options: Options) -> Outcome:
    """Run what is missing and write table and picture."""
    return make_figure(FIGURE, options)
