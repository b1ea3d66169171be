"""How many features are left as more rows may be bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.planning.fits import bad_rows
from sparsemean.plots.robustness import steps

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

MOST_STEPS = 500
IN_WORDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
"""Shares of bad rows in the table beside the picture."""


def content(estimate: Estimate) -> dict[str, Any]:
    """Return numbers of bad rows from which on fewer features are left, each followed by how many.

    ``table`` has shares of bad rows, the number of rows each stands for, and the features left.
    """
    slack = np.delete(estimate.selection.last_slack, estimate.selection.skipped)
    rows, left = steps(slack)
    if rows.size > MOST_STEPS:
        kept = np.unique(np.linspace(0, rows.size - 1, MOST_STEPS).round().astype(np.intp))
        rows, left = rows[kept], left[kept]
    n, m = estimate.plan.n_units, estimate.plan.bad_rows
    shares = sorted({*IN_WORDS, m / n})
    table = [[share, c := bad_rows(n, share), int(np.sum(slack >= c))] for share in shares]
    end = next((k for k, row in enumerate(table) if row[2] == 0 and row[1] >= m), len(table) - 1)
    return {"steps": np.column_stack((rows, left)).ravel().tolist(), "table": table[: end + 1]}
