"""The demo: which probes differ between men and women, how many bad samples that survives."""

from __future__ import annotations

from collections.abc import Callable

from sparsemean import datasets
from sparsemean.comparing import compare
from sparsemean.estimate import Estimate
from sparsemean.sources import as_table

SEX_LINKED = ("37583_at", "38355_at", "41214_at", "34477_at", "35885_at", "38446_at")
"""Five probes of genes on the Y chromosome and one of XIST, known from outside the data."""


def run(progress: Callable[[float], None] | None = None) -> Estimate:
    """Compare men and women, 5 % of the samples possibly wrong."""
    data = datasets.load_all_sex()
    table = as_table(data.X, data.features)
    estimate, _ = compare(table, data.y, contamination=0.05, progress=progress)
    return estimate


def meaning(estimate: Estimate) -> str:
    """Say what was found, against what is known from outside the data."""
    found = set(estimate.names(estimate.support))
    known = sum(probe in found for probe in SEX_LINKED)
    least = int(estimate.selection.last_slack[estimate.support].min())
    return (
        f"In words: {len(found)} of {estimate.plan.n_features:,} probes differ between men and women even if any "
        f"{least} of the {estimate.plan.n_rows} samples are wrong, among them {known} of the {len(SEX_LINKED)} known "
        "to lie on the Y chromosome or in XIST."
    )
