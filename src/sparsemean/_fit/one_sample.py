"""One sample: from a table to an Estimate, or to the decisions alone."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data import as_table
from sparsemean._data.gpu import on_the_host, sent, where_it_lies
from sparsemean._data.table import Table
from sparsemean._fit import inference, messages, screening
from sparsemean._fit.data import FitData
from sparsemean._fit.refinement import Refinement, check, name_of
from sparsemean._kernels.memory_layout import one_blas_thread
from sparsemean._stats import planning, selection
from sparsemean._stats.arrays import namespace, on_host
from sparsemean._stats.buckets import assign_buckets
from sparsemean._util.checks import draw_seed, is_missing, one_number_each
from sparsemean._util.records import Counts, Evidence, FloatArray, IntArray, Plan, Selection, Status, Uncertified
from sparsemean.errors import InputError
from sparsemean.result import Estimate

Progress = Callable[[float], None]


def sparse_mean(X: Any, *, feature_names: Any = None, groups: Any = None, **params: Any) -> Estimate:
    """Find the features of ``X`` whose mean is not zero, estimate it and say how sure that is, in one call.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Rows are observations. Arrays of any real type and layout, memory maps included, are read where they lie.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.
    groups : sequence of n labels, optional
        Rows with one label belong to one subject: they share a bucket and count once for the contamination.
    **params
        Those of `SparseMean`.

    Returns
    -------
    Estimate
        Table, summary, p-values, intervals, radius, paths.

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> sparse_mean(data.X, contamination=0.1, random_state=0).support
    array([0, 1, 2, 3])
    """
    return fit(as_table(X, feature_names), groups=groups, **params)


@dataclass(frozen=True, slots=True, eq=False)
class FitRequest:
    """What a user asked for, checked; ``options`` are those of `planning.plan_fit`, for a plan of fewer rows."""

    plan: Plan
    method: Refinement
    shift: FloatArray | None
    options: dict[str, Any]


def validate_request(
    n: int,
    d: int,
    *,
    n_units: int | None = None,
    null: Any = 0.0,
    refine: Any = "auto",
    refine_on: Any = "rows",
    screen_rows: Any = True,
    **options: Any,
) -> FitRequest:
    """Check everything that can be asked of a fit of ``n`` rows and ``d`` features, before any value is looked at."""
    _check_known(options)
    if not isinstance(screen_rows, (bool, np.bool_)):
        raise InputError("screen_rows", "be True or False", repr(screen_rows))
    method = check(refine)
    plan = replace(
        planning.plan_fit(n, d, n_units=n_units, **options),
        screen_rows=bool(screen_rows),
        refine=name_of(method),
        refine_on=planning.one_of(refine_on, ("rows", "buckets"), argument="refine_on"),
    )
    return FitRequest(plan, method, one_number_each(null, d, argument="null"), options)


def fit(
    table: Table,
    *,
    groups: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    device: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Estimate:
    """Fit a table; ``options`` are those of `ask`, ``progress`` is told the share of the reading done."""
    began = time.perf_counter()
    data, asked, seed = prepared(
        table, groups=groups, random_state=random_state, n_jobs=n_jobs, device=device, **options
    )
    shares = (1.0, 0.2 * (asked.method is not None), 0.8 * asked.plan.screen_rows)
    counting, refining, again = _parts(progress, shares)
    source = data.table
    with where_it_lies(source):
        counts, data = data.counted(screening.columns_judged_by(data, seed), counting)
        made = estimate_from_counts(data, counts, asked, seed, began=began, refining=refining, again=again)
    return replace(made, source=source)


def prepared(
    table: Table, *, groups: Any = None, random_state: Any, n_jobs: int | None, device: Any, **options: Any
) -> tuple[FitData, FitRequest, int]:
    """Check what is asked of a table and deal its rows; return how it will be read, what was asked, and the seed."""
    table = sent(table, device)
    units = _units(on_the_host(groups, table, argument="groups"), table.shape[0])
    options["null"] = on_the_host(options.get("null", 0.0), table, argument="null")
    asked = validate_request(*table.shape, n_units=None if units is None else int(units.max()) + 1, **options)
    plan, seed = asked.plan, draw_seed(random_state)
    data = FitData(table, assign_buckets(plan, seed, units), plan, asked.shift, units, n_jobs, plan.missing == "omit")
    return data, asked, seed


def estimate_from_counts(
    data: FitData,
    counts: Counts,
    asked: FitRequest,
    seed: int,
    *,
    began: float,
    refining: Progress | None = None,
    again: Progress | None = None,
    look_again: bool = True,
) -> Estimate:
    """Make an estimate of counts, and of the few columns that are read once more; it keeps no handle on the data.

    With ``look_again`` everything is counted again without the rows that were rejected, where any were.
    """
    plan, table = asked.plan, data.table
    found, chosen, walked = inference.select(data, counts)
    counts, found, chosen = on_host((counts, found, chosen))
    data = data.holding(chosen.support)
    chosen, values = inference.estimate_support(data, chosen)
    with one_blas_thread():
        judged = screening.screen(data, chosen.support, seed)
        improved = screening.refine_values(data, judged, chosen.support, values, asked.method, seed, refining)
        judged = screening.screen_on_support(data, judged, chosen.support, improved.mean, seed)
    extra = _uncertified(data, judged, chosen, asked, seed, again) if look_again else None
    status = Status(
        messages=(
            *table.notes,
            *messages.of_fit(plan, counts, chosen, values.constant, table),
            *messages.of_values(values, table),
            *improved.notes,
        ),
        screening=judged.how,
        refinement=improved.how,
        iterations=improved.iterations,
        converged=improved.converged,
        walked=int(np.union1d(walked, chosen.support).size),
        seconds=time.perf_counter() - began,
        versions=messages.versions(),
    )
    return build_estimate(
        asked, seed, counts, found, chosen, status,
        mean=improved.mean, intervals=values.intervals, feature_names=table.feature_names,
        bucket_of_row=data.partition.bucket_of_row, rows=judged.rows, uncertified=extra, units=data.units,
    )  # fmt: skip


def without_rows(
    table: Table,
    counts: Counts,
    asked: FitRequest,
    seed: int,
    *,
    constant: IntArray,
    began: float,
    notes: tuple[str, ...],
) -> Estimate:
    """Make an estimate of counts alone, of a table that only has names.

    What needs the rows is NaN, −1 or None. ``constant`` are columns that hold one value only.
    """
    plan = replace(asked.plan, screen_rows=False, refine="")
    d = plan.n_features
    found, chosen = inference.infer(plan, counts)
    chosen = inference.drop_constant(chosen, np.intersect1d(chosen.support, constant))
    mean = np.zeros(d) if asked.shift is None else asked.shift.copy()
    mean[chosen.support] = np.nan
    status = Status(
        messages=(*table.notes, *messages.of_fit(plan, counts, chosen, chosen.skipped, table), *notes),
        seconds=time.perf_counter() - began,
        versions=messages.versions(),
    )
    return build_estimate(
        replace(asked, plan=plan), seed, counts, found, chosen, status,
        mean=mean, intervals=np.full((d, 2), np.nan), feature_names=table.feature_names,
    )  # fmt: skip


def build_estimate(
    asked: FitRequest, seed: int, counts: Counts, found: Evidence, chosen: Selection, status: Status, **values: Any
) -> Estimate:
    """Put an estimate together."""
    plan = asked.plan
    beta, bucket_size = inference.best_beta(plan, counts, chosen)
    return Estimate(
        support=chosen.support,
        beta=beta,
        bucket_size=bucket_size,
        skew_safe=np.full(plan.n_features, -1, dtype=np.intp),
        selection=chosen,
        plan=plan,
        seed=seed,
        status=status,
        counts=counts,
        evidence=found,
        shift=asked.shift,
        **values,
    )


def _check_known(options: dict[str, Any]) -> None:
    """Refuse an option that no part of a fit has."""
    known = set(inspect.signature(planning.plan_fit).parameters) - {"n", "d", "n_units"}
    if unknown := sorted(set(options) - known):
        named = {"groups", "null", "refine", "refine_on", "screen_rows", "random_state", "n_jobs", "device"}
        raise InputError("option", f"be one of {', '.join(sorted(known | named))}", repr(unknown[0]))


def _units(groups: Any, n: int) -> IntArray | None:
    """Give every subject a number, in the order of their first rows."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InputError("groups", f"have one label for each of the {n} rows", f"shape {labels.shape}")
    if labels.dtype.kind in "fOMm" and (gaps := [row for row, label in enumerate(labels) if is_missing(label)]):
        raise InputError("groups", "have no missing labels", f"{labels[gaps[0]]} at row {gaps[0]}")
    _, first, inverse = np.unique(labels.astype(str), return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.intp)


def _parts(progress: Progress | None, shares: tuple[float, ...]) -> list[Progress | None]:
    """Return what each part of the work reports to, given how much of the whole it is."""
    if progress is None:
        return [None] * len(shares)
    ends = np.cumsum((0.0, *shares)) / sum(shares)

    def part(first: float, last: float) -> Progress:
        return lambda share: progress(first + share * (last - first))

    return [part(first, last) for first, last in pairwise(ends)]


def _uncertified(
    data: FitData,
    judged: screening.ScreeningResult,
    chosen: Selection,
    asked: FitRequest,
    seed: int,
    progress: Progress | None,
) -> Uncertified | None:
    """Look for features that only the rows left after screening show; None where no row was rejected."""
    kept = judged.kept
    if kept.size == data.plan.n_units or kept.size < planning.MIN_ROWS:
        return None
    rows = kept.size if data.units is None else int(np.isin(data.units, kept).sum())
    again_with = {**asked.options, "contamination": judged.share(data.plan)}
    if isinstance(again_with.get("n_buckets"), (int, np.integer)):
        again_with["n_buckets"] = min(again_with["n_buckets"], rows)
    units = None if data.units is None else kept.size
    plan = planning.plan_fit(rows, data.plan.n_features, n_units=units, **again_with)
    again = data.kept(plan, seed, kept)
    found = on_host(inference.select(again, again.count(progress))[1])
    features = np.setdiff1d(found.support, np.concatenate((chosen.support, chosen.skipped)))
    located = screening.locate_features(data, judged, features, asked.method, seed)
    offset = 0.0 if data.shift is None else data.shift[features]
    return Uncertified(features, located.mean + offset, found.p_adjusted[features])


# The decisions of a fit without its estimates: one pass, and answers that lie where the data lie.

RULES = ("fwer", "fdr", "fdr_by")
"""The paper's rule needs walks, and so the data again: that is a fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Certified:
    """Which features have a mean that is not zero, and how sure that is: (d,) arrays but for the support.

    The arrays are those of an `Estimate` of the same data and seed, NumPy's or, where the data lie on a device, CuPy's.
    Only the support may be larger: columns that hold one value only are not looked for.

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
        Number of rows that must be replaced before a feature can change sides, a guaranteed lower bound.
    max_contamination : array of shape (d,)
        Largest share of bad rows at which a feature is still selected; NaN if it never is.
    beta : array of shape (d,)
        β₀ = (N₊ − N₋)/J at the best bucket size.
    bucket_size : array of int of shape (d,)
        The bucket size with the smallest p-value.
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
    contamination : float in [0, 0.5), default=0.05
        Share ε of rows that may be arbitrary.
    selection : {"fwer", "fdr", "fdr_by"}, default="fwer"
        As in `SparseMean`; the paper's rule needs a fit.
    level : float in (0, 1), default=0.05
        Error rate of the selection.
    noise, bucket_sizes, null, missing, random_state, n_jobs, device
        As in `SparseMean`.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.

    Returns
    -------
    Certified
        Support, p-values, radius and ``max_contamination``.

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


def decided_by(data: FitData, seed: int) -> Certified:
    """Count, select and say how far each feature is from the other side."""
    plan, counts = data.plan, data.count()
    evidence, chosen = inference.infer(plan, counts)
    if plan.noise == "skewed":
        inference.check_continuous(data, on_host(chosen.support))
    rule = selection.rule_of(plan.selection, plan.level, plan.n_features)
    beta, bucket_size = inference.best_beta(plan, counts, chosen)
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
