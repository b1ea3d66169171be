"""The data inside the page: full for selected features, summed up for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsemean.plots.style import strongest_first
from sparsemean.records import IntArray
from sparsemean.report import columns, path, robustness, rows, volcano
from sparsemean.report.labels import Labels

if TYPE_CHECKING:
    import pandas as pd

    from sparsemean.estimate import Estimate

MOST_LISTED = 15_000
"""Selected features on the page, the strongest: beyond them it would grow past what mail and browsers like."""


def content(estimate: Estimate, labels: Labels) -> dict[str, Any]:
    """Return all that the scripts of the page need, as JSON takes it."""
    plan, listed = estimate.plan, strongest(estimate)
    frame = estimate.table().head(MOST_LISTED).drop(columns="skew_safe")  # not known of any feature
    described = columns.columns_of(frame, plan, labels)
    return {
        "title": labels.title,
        "pairs": labels.pairs,
        "effect": labels.effect,
        "groups": [labels.first_group, labels.second_group],
        "unit": labels.unit,
        "n_rows": plan.n_rows,
        "n_units": plan.n_units,
        "n_features": plan.n_features,
        "bad_rows": plan.bad_rows,
        "contamination": plan.contamination,
        "level": plan.level,
        "selection": plan.selection,
        "seed": str(estimate.seed),
        "null": None if estimate.shift is None else columns.rounded(estimate.shift[listed], 17),
        "n_selected": int(estimate.support.size),
        "has_values": estimate.has_values,
        "columns": [[c.key, c.heading, c.kind, c.digits, c.meaning] for c in described],
        "table": [columns.plain(frame[c.key]) for c in described],
        "index": listed.tolist(),
        "uncertified": _uncertified(estimate),
        "volcano": volcano.content(estimate, listed),
        "path": path.content(estimate, listed),
        "robustness": robustness.content(estimate),
        "rows": rows.content(estimate, labels),
        "summary": estimate.summary(),
        "versions": dict(estimate.status.versions),
    }


def strongest(estimate: Estimate) -> IntArray:
    """Return the selected features in the order of `Estimate.table`, as many as the page lists."""
    return strongest_first(estimate, estimate.support)[:MOST_LISTED]


def _uncertified(estimate: Estimate) -> dict[str, list[Any]]:
    """Return the features that show only after screening."""
    frame: pd.DataFrame = estimate.table(certified=False).head(MOST_LISTED)
    return {key: columns.plain(frame[key]) for key in ("feature", "estimate", "p_adjusted")}
