"""The demo: which probes differ between men and women, from pairs of one man and one woman."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsemean import datasets
from sparsemean.estimate import Estimate
from sparsemean.fitting import fit
from sparsemean.sources import as_table
from sparsemean.sources.table import Table

SEED = 0
SEX_LINKED = ("37583_at", "38355_at", "41214_at", "34477_at", "35885_at", "38446_at")
"""Five probes of genes on the Y chromosome and one of XIST, known from outside the data."""


def run(progress: Callable[[float], None] | None = None) -> tuple[Estimate, Table]:
    """Pair every woman with a man drawn at random and fit the differences.

    Between two people drawn alike a difference is symmetric about zero, whatever the tails, so the null hypothesis of
    a symmetric zero mean holds exactly for every probe that sex does not touch.
    """
    data = datasets.load_all_sex()
    women, men = np.flatnonzero(data.y == "F"), np.flatnonzero(data.y == "M")
    partners = np.random.default_rng(SEED).permutation(men)[: women.size]
    table = as_table(data.X[partners] - data.X[women], data.features)
    return fit(table, contamination=0.05, n_buckets="theory", random_state=SEED, progress=progress), table


def meaning(estimate: Estimate) -> str:
    """Say in one sentence what was found, against what is known from outside the data."""
    found = set(estimate.names(estimate.support))
    known = sum(probe in found for probe in SEX_LINKED)
    return (
        f"In words: {len(found)} of {estimate.plan.n_features:,} probes differ between men and women in these pairs, "
        f"among them {known} of the {len(SEX_LINKED)} known to lie on the Y chromosome or in XIST."
    )
