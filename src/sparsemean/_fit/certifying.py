"""The decisions of a fit without its estimates: one pass, and answers that lie where the data lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data import as_table
from sparsemean._data.table import Table
from sparsemean._fit.centres import Centres
from sparsemean._fit.mean import Means
from sparsemean._fit.one_sample import prepare
from sparsemean._fit.pipeline import Found
from sparsemean._stats import planning
from sparsemean._stats.arrays import near
from sparsemean._util.checks import AUTO, draw_seed, is_auto
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

OF_GROUPS = ("reference", "groups", "strata", "covariate")
RULES = ("fwer", "fdr", "fdr_by")
"""The paper's rule needs walks, and so the data again: that is a fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Certified:
    """Which features have a mean that is not zero, and how sure that is: (d,) arrays but for the support.

    The arrays are those of an `Estimate` of the same data, seed and test, NumPy's or, where the data lie on a device,
    CuPy's. Only the support may be larger: columns that hold one value only are not looked for.

    Attributes
    ----------
    support : array of int
        The selected features, sorted.
    p_values : array of shape (d,)
        Valid against any replacement of ⌈εn⌉ rows, not adjusted for the number of features.
    p_adjusted : array of shape (d,)
        Holm-adjusted p-values.
    q_values : array of shape (d,)
        Benjamini–Hochberg q-values (Benjamini–Yekutieli with ``selection="fdr_by"``).
    radius : array of int of shape (d,)
        Rows that must be replaced before a selected feature can drop out, a guaranteed lower bound; 1 of others.
    max_contamination : array of shape (d,)
        Largest share of bad rows at which a feature is still selected; NaN if it never is.
    beta : array of shape (d,)
        β₀ = (N₊ − N₋)/J at the best bucket size, which ranks do not select by; Cliff's delta of groups.
    bucket_size : array of int of shape (d,)
        The bucket size at which signs show most; 1 for groups.
    feature_names : ndarray of str or None
        Names of the features, where the input has any.
    plan : Plan
        Settings and shapes.
    seed : int
        The seed that assigned rows to buckets.
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
    y: Any = None,
    *,
    contamination: Any = AUTO,
    selection: Any = "fwer",
    level: Any = 0.05,
    test: Any = "auto",
    target: Any = "centre",
    scale: Any = None,
    alternative: Any = "two-sided",
    min_effect: Any = 0.0,
    bucket_sizes: Any = "auto",
    null: Any = 0.0,
    missing: Any = "raise",
    random_state: Any = 0,
    n_jobs: int | None = None,
    device: Any = None,
    feature_names: Any = None,
    **of_groups: Any,
) -> Certified | dict[Any, Certified]:
    """Find the features whose mean is not zero, or which differ between groups, and say how sure that is.

    One pass, after which signed ranks read again the features that signs do not rule out, and no estimates.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Whatever `SparseMean` can fit. Answers lie where it lies, on the host or on a device.
    y : sequence of n labels, optional
        The group of each row: groups are compared, as by `SparseMeanDifference`.
    contamination : "auto", float in [0, 0.5) or pair of them, default="auto"
        Share ε of rows that may be arbitrary; of each group, where groups are compared. "auto" allows for as many as
        look bad, for which some columns are read again.
    selection : {"fwer", "fdr", "fdr_by"}, default="fwer"
        As in `SparseMean`; the paper's rule needs a fit.
    level : float in (0, 1), default=0.05
        Error rate of the selection.
    test, target, scale, alternative, min_effect, bucket_sizes, null, missing, random_state, n_jobs, device
        As in `SparseMean`.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.
    **of_groups
        ``reference``, ``groups``, ``strata`` and ``covariate`` of `SparseMeanDifference`.

    Returns
    -------
    Certified
        Support, p-values, radius and ``max_contamination``; of several tests a dict of them, by label.

    Examples
    --------
    >>> from sparsemean import certify, simulate
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> found = certify(data.X, contamination=0.1, random_state=0)
    >>> found.support
    array([0, 1, 2, 3])
    >>> int(found.radius[found.support].min())
    119
    """
    planning.one_of(selection, RULES, argument="selection")
    table = as_table(X, feature_names)
    asked = {
        "contamination": contamination, "selection": selection, "level": level, "missing": missing, "target": target,
        "alternative": alternative, "min_effect": min_effect, "scale": scale,
    }  # fmt: skip
    with table.source.there():
        if y is None:
            if of_groups:
                raise InputError("y", f"be given with {sorted(of_groups)[0]}", None, "pass the group of each row as y")
            found: Found = _of_one(
                table, random_state=random_state, n_jobs=n_jobs, device=device, null=null, test=test,
                bucket_sizes=bucket_sizes, **asked,
            )  # fmt: skip
            return _certified(found, 0, table.feature_names)
        _refuse_for_groups(test=test, bucket_sizes=bucket_sizes, device=device, null=null)
        if unknown := sorted(set(of_groups) - set(OF_GROUPS)):
            advice = "SparseMeanDifference has it" if unknown[0] == "pairs" else "check its spelling"
            raise InputError("option", f"be one of {', '.join(OF_GROUPS)}", repr(unknown[0]), advice)
        from sparsemean._fit import two_sample  # numba, which one sample on a device has no need of

        groups = two_sample.counted(
            table, two_sample.Asked(y, **of_groups), planning.ask(**asked), seed=draw_seed(random_state), n_jobs=n_jobs
        )
        groups = groups.allowing(groups.score_rows()) if groups.plans[0].auto else groups
    each = [_certified(groups, k, table.feature_names) for k in range(len(groups.plans))]
    return each[0] if len(each) == 1 else dict(zip(groups.keys, each, strict=True))


def _of_one(table: Table, *, contamination: Any, **asked: Any) -> Found:
    """Count one sample and decide, for as many bad rows as look bad unless someone has named a share."""
    data, _ = prepare(table, contamination=contamination, refine=None, screen_rows=is_auto(contamination), **asked)
    found: Found = Means.of(data) if data.plan.question.target == "mean" else Centres.of(data)
    return found.allowing(found.score_rows())


def _refuse_for_groups(*, null: Any, **one_sample: Any) -> None:
    """Refuse what is for one sample only."""
    for name, value in one_sample.items():
        if repr(value) != repr(None if name == "device" else "auto"):  # arrays have no one answer to ==
            raise InputError(name, "be left out where groups are compared", repr(value))
    if np.any(np.asarray(null) != 0):
        raise InputError("null", "be left out where groups are compared", "numbers", "min_effect= is for groups")


def _certified(found: Found, contrast: int, feature_names: npt.NDArray[np.object_] | None) -> Certified:
    decision, (beta, bucket_size) = found.decision.of(contrast), found.strength(contrast)
    names = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination")
    return Certified(
        **{name: near(beta, getattr(decision, name)) for name in names},
        beta=beta, bucket_size=bucket_size, feature_names=feature_names, plan=found.plans[contrast], seed=found.seed,
    )  # fmt: skip
