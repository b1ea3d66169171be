"""How far rows contradict the rest; suspects by name, very many others counted on a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.report.columns import rounded
from sparsemean.report.labels import Labels
from sparsemean.report.mass import counts
from sparsemean.rows import limit

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

MOST_POINTS = 3_000
MOST_SUSPECTS = 2_000


def content(estimate: Estimate, labels: Labels) -> dict[str, Any]:
    """Return scores of rows drawn one by one, the suspects first and of them the worst, and a grid of the others."""
    judged = estimate.rows
    if judged is None or not judged.scores.any():
        nothing: dict[str, Any] = {"index": [], "scores": [], "n_suspects": 0, "n_shown": 0, "mass": None}
        return {**nothing, "names": None, "groups": None, "limit": None, "why_not": _why_not(estimate)}
    suspects, n = judged.suspects, judged.scores.size
    shown = suspects[:MOST_SUSPECTS]
    others = np.setdiff1d(np.arange(n), shown)
    single = np.concatenate((shown, others)) if n <= MOST_POINTS else shown
    rest = others if n > MOST_POINTS else others[:0]
    return {
        "index": single.tolist(),
        "scores": rounded(judged.scores[single]),
        "names": None if labels.row_names is None else [labels.row(int(row)) for row in single],
        "groups": None if estimate.labels is None else estimate.labels[single].tolist(),
        "n_shown": int(shown.size),
        "n_suspects": int(suspects.size),
        "mass": counts(rest.astype(np.float64), judged.scores[rest]) if rest.size else None,
        "limit": round(limit(estimate.plan.n_units), 3) if estimate.labels is None else 0,
        "why_not": "",
    }


def _why_not(estimate: Estimate) -> str:
    """Say why rows have no scores."""
    if estimate.labels is not None:
        return "no selected feature tells the groups apart"
    if not estimate.plan.screen_rows:
        return "screening was off" if estimate.rows is not None else "the rows were not at hand"
    return estimate.status.screening or "no feature is fit to judge them by"
