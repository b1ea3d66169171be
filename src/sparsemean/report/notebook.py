"""An estimate as a notebook shows it: the strongest features and the paragraph in words."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

SHOWN = 12
COLUMNS = ("feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius", "max_contamination")


def fragment(estimate: Estimate) -> str:
    """Return HTML without scripts or styles of its own, names escaped; it needs no extra."""
    plan = estimate.plan
    title = f"{estimate.support.size:,} of {plan.n_features:,} features selected from {plan.n_rows:,} rows"
    parts = [f"<div><p><strong>{title}</strong></p>"]
    selected = estimate.table()[list(COLUMNS)]
    if len(selected):
        parts.append(
            selected.head(SHOWN).to_html(index=False, border=0, float_format=lambda x: f"{x:.4g}", escape=True)
        )
    if len(selected) > SHOWN:
        parts.append(f"<p>… and {len(selected) - SHOWN:,} more in <code>table()</code></p>")
    return "".join((*parts, f"<p>{escape(estimate.summary())}</p></div>"))
