"""The demo: which probes differ between men and women, how many bad samples that survives, who looks mislabelled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sparsemean import datasets
from sparsemean.comparing import compare
from sparsemean.estimate import Estimate
from sparsemean.sources import as_table
from sparsemean.sources.table import Table

SEX_LINKED = ("37583_at", "38355_at", "41214_at", "34477_at", "35885_at", "38446_at")
"""Five probes of genes on the Y chromosome and one of XIST, known from outside the data."""


def run(progress: Callable[[float], None] | None = None) -> tuple[Estimate, Table, npt.NDArray[np.str_]]:
    """Compare men and women, 5 % of the samples possibly wrong; return the samples' names too."""
    data = datasets.load_all_sex()
    table = as_table(data.X, data.features)
    estimate, _ = compare(table, data.y, contamination=0.05, progress=progress)
    return estimate, table, data.samples


def meaning(estimate: Estimate, samples: npt.NDArray[np.str_]) -> str:
    """Say what was found, against what is known from outside the data, and who looks mislabelled."""
    assert estimate.rows is not None
    found = set(estimate.names(estimate.support))
    known = sum(probe in found for probe in SEX_LINKED)
    least = int(estimate.selection.last_slack[estimate.support].min())
    suspects = ", ".join(samples[estimate.rows.suspects])
    return (
        f"In words: {len(found)} of {estimate.plan.n_features:,} probes differ between men and women even if any "
        f"{least} of the {estimate.plan.n_rows} samples are wrong, among them {known} of the {len(SEX_LINKED)} known "
        f"to lie on the Y chromosome or in XIST. On these probes the samples {suspects} look like the other sex."
    )
