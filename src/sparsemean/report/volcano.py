"""Effect against evidence: selected features are in the table, the others are counted on a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean import path
from sparsemean.plots.volcano import HIGHEST, heights, rejection_p
from sparsemean.records import IntArray
from sparsemean.report.mass import counts

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate


def content(estimate: Estimate, listed: IntArray) -> dict[str, Any]:
    """Return the grid of all features that are not ``listed``, and the line a feature must pass to be selected."""
    others = np.ones(estimate.plan.n_features, dtype=bool)
    others[listed] = False
    height, p = heights(estimate.p_values[others]), rejection_p(estimate)
    return {
        "mass": counts(estimate.beta[others], height),
        "highest": HIGHEST,
        "bar": None if p is None else float(-np.log10(p)),
        "rate": _least_rate(estimate),
    }


def _least_rate(estimate: Estimate) -> float | None:
    """Return the |β| that the paper's rule asks for."""
    plan = estimate.plan
    rate = path.selection_threshold(plan.select_at, alpha=plan.alpha, eta=plan.eta)
    return rate if plan.selection == "paper" and rate <= 1 else None
