"""The decisions of a fit without its estimates: one pass, and answers that lie where the data lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean import certifying, planning, selection
from sparsemean.device import namespace, on_host
from sparsemean.fitting import prepared
from sparsemean.reading import Reading
from sparsemean.records import FloatArray, IntArray, Plan
from sparsemean.sources import as_table
from sparsemean.sources.gpu import where_it_lies

RULES = ("fwer", "fdr", "fdr_by")
"""The paper's rule needs walks, and so the data again: that is a fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Certified:
    """Which features have a mean that is not zero, and how sure that is: (d,) arrays but for the support.

    The arrays are those of an `Estimate` of the same data and seed, NumPy's or, where the data lie on a device, CuPy's.
    Only the support may be larger: columns that hold one value only are not looked for.
    """

    support: IntArray
    p_values: FloatArray
    p_adjusted: FloatArray
    q_values: FloatArray
    radius: IntArray
    max_contamination: FloatArray
    beta: FloatArray
    bucket_size: IntArray
    feature_names: npt.NDArray[np.object_] | None
    plan: Plan
    seed: int

    def __repr__(self) -> str:
        n, d = self.plan.n_rows, self.plan.n_features
        return f"<Certified: {self.support.size} of {d} features selected from {n} rows, seed {self.seed}>"


def certify(
    X: Any,
    *,
    contamination: Any = 0.05,
    selection: Any = "fwer",
    level: Any = 0.05,
    noise: Any = "symmetric",
    bucket_sizes: Any = "auto",
    null: Any = 0.0,
    missing: Any = "raise",
    random_state: Any = 0,
    n_jobs: int | None = None,
    device: Any = None,
    feature_names: Any = None,
) -> Certified:
    """Find the features of ``X`` whose mean is not zero and say how sure that is, in one pass and without estimates.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Whatever `SparseMean` can fit. Answers lie where it lies, on the host or on a device.
    contamination, selection, level, noise, bucket_sizes, null, missing, random_state, n_jobs, device
        Those of `SparseMean`; ``selection="paper"`` needs a fit.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.

    Examples
    --------
    >>> from sparsemean import certify, simulate
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> found = certify(data.X, contamination=0.1, random_state=0)
    >>> found.support
    array([0, 1, 2, 3])
    >>> int(found.radius[found.support].min())
    128
    """
    rule = planning.one_of(selection, RULES, argument="selection")
    data, _, seed = prepared(
        as_table(X, feature_names), random_state=random_state, n_jobs=n_jobs, device=device, null=null,
        contamination=contamination, selection=rule, level=level, noise=noise, bucket_sizes=bucket_sizes,
        missing=missing, refine=None, screen_rows=False,
    )  # fmt: skip
    with where_it_lies(data.table):
        return decided_by(data, seed)


def decided_by(data: Reading, seed: int) -> Certified:
    """Count, select and say how far each feature is from the other side."""
    plan, counts = data.plan, data.count()
    evidence, chosen = certifying.by_counts(plan, counts)
    if plan.noise == "skewed":
        certifying.check_continuous(data, on_host(chosen.support))
    rule = selection.rule_of(plan.selection, plan.level, plan.n_features)
    beta, bucket_size = certifying.rates(plan, counts, chosen)
    slack = chosen.last_slack
    return Certified(
        support=chosen.support,
        p_values=chosen.p_values,
        p_adjusted=chosen.p_adjusted,
        q_values=chosen.q_values,
        radius=selection.radius(evidence, chosen, rule, bad_rows=plan.bad_rows, n_rows=plan.n_units),
        max_contamination=namespace(slack).where(slack < 0, np.nan, slack / plan.n_units),
        beta=beta,
        bucket_size=bucket_size,
        feature_names=data.table.feature_names,
        plan=plan,
        seed=seed,
    )
