"""The decisions of a fit without its estimates: one pass, and answers that lie where the data lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsemean._data import as_table
from sparsemean._data.table import Names
from sparsemean._fit import one_sample
from sparsemean._fit.pipeline import OneSample
from sparsemean._stats import planning
from sparsemean._stats.arrays import near
from sparsemean._stats.decision import Decision
from sparsemean._util.checks import AUTO, is_auto
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

OF_BOTH = (
    "contamination", "selection", "level", "target", "scale", "alternative", "min_effect", "missing", "random_state",
    "n_jobs",
)  # fmt: skip
OF_ONE, OF_GROUPS = ("test", "bucket_sizes", "null", "device"), ("reference", "groups", "strata", "covariate")


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
        Holm-adjusted p-values; with ``selection="maxt"`` those of flips or permutations, and Holm's if larger.
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
    feature_names: Names | None
    plan: Plan
    seed: int

    def __repr__(self) -> str:
        n, d = self.plan.n_rows, self.plan.n_features
        return f"<Certified: {self.support.size} of {d} features selected from {n} rows, seed {self.seed}>"


def certify(X: Any, y: Any = None, *, feature_names: Any = None, **params: Any) -> Certified | dict[Any, Certified]:
    """Find the features whose mean is not zero, or which differ between groups, and say how sure that is.

    One pass, after which signed ranks read again the features that signs do not rule out, and no estimates.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Whatever `SparseMean` can fit. Answers lie where it lies, on the host or on a device.
    y : sequence of n labels, optional
        The group of each row: groups are compared, as by `SparseMeanDifference`.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.
    **params
        ``contamination``, ``selection`` (the paper's rule needs a fit), ``level``, ``target``, ``scale``,
        ``alternative``, ``min_effect``, ``missing``, ``random_state`` and ``n_jobs`` as in `SparseMean` and
        `SparseMeanDifference`; of one sample also ``test``, ``bucket_sizes``, ``null`` and ``device``, of groups
        ``reference``, ``groups``, ``strata`` and ``covariate``. With contamination "auto" some columns are read again.

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
    116
    """
    own, others = (OF_ONE, OF_GROUPS) if y is None else (OF_GROUPS, OF_ONE)
    for name in params:
        if name in others and y is None:
            raise InputError("y", f"be given with {name}", None, "pass the group of each row as y")
        if name in others:
            raise InputError(name, "be left out where groups are compared", repr(params[name]))
        if name not in (*OF_BOTH, *own):
            advice = "SparseMeanDifference has it" if name == "pairs" else "check its spelling"
            raise InputError("option", f"be one of {', '.join((*OF_BOTH, *own))}", repr(name), advice)
    planning.one_of(params.get("selection", planning.RULES[0]), planning.RULES, argument="selection")
    table = as_table(X, feature_names)
    with table.source.there():
        if y is None:
            screened = is_auto(params.get("contamination", AUTO))
            data, _ = one_sample.prepare(table, refine=None, screen_rows=screened, **params)
            found: OneSample = one_sample.KINDS.get(data.plan.question.test, one_sample.Centres).of(data).judged()
            plan = found.data.plan
            return _certified(found.decision, found.strength(), plan, seed=data.seed, names=table.feature_names)
        from sparsemean._fit import two_sample  # numba, which one sample on a device has no need of

        groups = two_sample.decide_all(two_sample.designed(table, y, **params))
        groups = groups.judged() if groups.plans[0].auto else groups
    each = [
        _certified(
            groups.decision.of(contrast), groups.strength(contrast), plan, seed=groups.seed, names=table.feature_names
        )
        for contrast, plan in enumerate(groups.plans)
    ]  # fmt: skip
    return each[0] if len(each) == 1 else dict(zip(groups.keys, each, strict=True))


def _certified(
    decision: Decision, strength: tuple[FloatArray, IntArray], plan: Plan, *, seed: int, names: Names | None
) -> Certified:
    beta, bucket_size = strength
    shown = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination")
    return Certified(
        **{name: near(beta, getattr(decision, name)) for name in shown},
        beta=beta, bucket_size=bucket_size, feature_names=names, plan=plan, seed=seed,
    )  # fmt: skip
