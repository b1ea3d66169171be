"""One sample: from a table to an Estimate, or to the decisions alone."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from sparsemean._counts.engines import Progress
from sparsemean._data import as_table
from sparsemean._data.gpu import on_the_host, sent, where_it_lies
from sparsemean._data.table import Table
from sparsemean._evidence.signs import strongest_signs
from sparsemean._fit import mean as means
from sparsemean._fit import messages, screening
from sparsemean._fit.data import FitData
from sparsemean._fit.inference import estimate_support, infer, walked
from sparsemean._fit.pipeline import Found, OneSample, build_estimate, estimates, parts_of
from sparsemean._fit.refinement import Refinement, check, name_of
from sparsemean._kernels.memory_layout import one_blas_thread
from sparsemean._stats import planning
from sparsemean._stats.arrays import on_host, take
from sparsemean._stats.buckets import assign_buckets
from sparsemean._stats.decision import Decision
from sparsemean._stats.signed_ranks import filter_of
from sparsemean._util.checks import draw_seed, is_missing, one_number_each, unit_name
from sparsemean._util.plans import Plan
from sparsemean._util.records import (
    BucketSpec,
    Counts,
    FloatArray,
    IntArray,
    Sample,
    Uncertified,
)
from sparsemean.errors import InputError
from sparsemean.result import Estimate


def sparse_mean(
    X: Any, *, feature_names: Any = None, groups: Any = None, layer: str | None = None, **params: Any
) -> Estimate:
    """Find the features of ``X`` whose mean is not zero, estimate it and say how sure that is, in one call.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Rows are observations. Arrays of any real type and layout, memory maps included, are read where they lie.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.
    groups : sequence of n labels, optional
        Rows with one label belong to one subject: they share a bucket and count once for the contamination.
    layer : str, optional
        The layer of an AnnData that is meant, in place of its X.
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
    return fit(as_table(X, feature_names, layer=layer), groups=groups, **params)


def plan_of(
    n: int,
    d: int,
    *,
    n_units: int | None = None,
    null: Any = 0.0,
    refine: Any = "auto",
    refine_on: Any = "rows",
    screen_rows: Any = True,
    **options: Any,
) -> tuple[Plan, Refinement]:
    """Check everything that can be asked of a fit of ``n`` rows and ``d`` features, before any value is looked at."""
    if unknown := sorted(options.keys() - _plan_options()):
        named = {"groups", "null", "refine", "refine_on", "screen_rows", "random_state", "n_jobs", "device"}
        raise InputError("option", f"be one of {', '.join(sorted(_plan_options() | named))}", repr(unknown[0]))
    if not isinstance(screen_rows, (bool, np.bool_)):
        raise InputError("screen_rows", "be True or False", repr(screen_rows))
    method, plan = check(refine), planning.plan_fit(n, d, n_units=n_units, **options)
    question = replace(
        plan.question,
        screen_rows=bool(screen_rows),
        refine=name_of(method),
        refine_on=planning.one_of(refine_on, ("rows", "buckets"), argument="refine_on"),
        null=one_number_each(null, d, argument="null"),
    )
    return replace(plan, question=question), method


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
    """Fit a table; ``options`` are those of `plan_of`, ``progress`` is told the share of the reading done."""
    began = time.perf_counter()
    data, method = prepare(table, groups=groups, random_state=random_state, n_jobs=n_jobs, device=device, **options)
    shares = (1.0, 0.2 * (method is not None) + 0.8 * data.plan.question.screen_rows)
    counting, estimating = parts_of(progress, shares)
    with where_it_lies(data.table):
        found: Found
        if data.plan.question.target == "mean":
            found = means.Means.of(data, counting, method=method)
        else:
            planned = {name: value for name, value in options.items() if name in _plan_options()}
            found = count_centres(data, counting, method=method, options=planned, source=data.table).to_host()
        return estimates(found, began=began, progress=(estimating,))[0]


def count_centres(data: FitData, progress: Progress | None = None, **parts: Any) -> Centres:
    """Count the signs of one sample, rank what they do not rule out, and select."""
    wanted = screening.screening_columns(data)
    if data.plan.question.test == "ranks" and filter_of(data.plan) >= 1:  # all are ranked, whatever their signs say
        wanted = np.arange(data.plan.n_features)
    counts, data = data.count_and_keep(wanted, progress)
    decision, data = infer(data, counts)
    return Centres(data, counts, decision, **parts)


def prepare(
    table: Table, *, groups: Any = None, random_state: Any, n_jobs: int | None, device: Any, **options: Any
) -> tuple[FitData, Refinement]:
    """Check what is asked of a table and assign its rows to buckets."""
    table = table if device is None else sent(table, device)
    units = None if groups is None else _units(on_the_host(groups, table, argument="groups"), table.shape[0])
    options["null"] = on_the_host(options.get("null", 0.0), table, argument="null")
    plan, method = plan_of(*table.shape, n_units=None if units is None else int(units.max()) + 1, **options)
    # Where ranks or sums decide, what is drawn only says which features to rank or which rows give a scale: nobody who
    # draws again should be better off.
    seed = 0 if random_state is None and plan.question.test in ("ranks", "sums") else draw_seed(random_state)
    buckets = BucketSpec(assign_buckets(plan, seed, units), plan.question.null, plan.question.missing == "omit")
    return FitData(table, buckets, plan, seed=seed, units=units, n_jobs=n_jobs), method


@dataclass(frozen=True, slots=True, eq=False)
class Centres(OneSample):
    """One sample, tested by signs or by ranks: what was counted, and what it decides."""

    data: FitData
    counts: Counts
    decision: Decision
    iterated: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Features whose walk had to be iterated to know whether they are selected."""
    method: Refinement = None
    options: Mapping[str, Any] | None = None
    """Those of `planning.plan_fit`, for a plan of the rows that are left; none where these are not to be counted."""
    source: Table | None = None
    """What the estimate keeps as a handle on the data."""

    def strength(self, contrast: int = 0) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """Return β₀ at the bucket size at which signs show most."""
        evidence: Any = self.decision.evidence
        by_signs = self.data.plan.question.test == "buckets" and not self.data.plan.min_effect
        return strongest_signs(self.data.plan, self.counts, evidence if by_signs else None)

    def to_host(self) -> Centres:
        """Walk where the paper's rule asks for it, and take what an estimate needs from a device."""
        decision, question = self.decision, self.data.plan.question
        if question.test == "buckets" and question.selection != "paper":  # all but the support stays where it is
            return replace(self, decision=replace(decision, support=on_host(decision.support)))
        if question.selection != "paper":
            return replace(self, counts=on_host(self.counts), decision=on_host(decision))
        decision, iterated = walked(self.data, self.counts, decision)
        return replace(self, counts=on_host(self.counts), decision=decision, iterated=iterated)

    def allowing(self, rows: screening.ScreeningResult | None) -> Centres:
        """Decide again for as many bad rows as lie off together."""
        if rows is None:
            return self
        found = replace(self, data=replace(self.data, plan=planning.allow_for(self.data.plan, rows.rows.aligned)))
        if not found.data.plan.bad_rows:
            return found
        decision = self.decision.at((found.data.plan.bad,))
        return replace(found, decision=replace(decision, support=on_host(decision.support)))

    def estimate(
        self,
        contrast: int = 0,  # noqa: ARG002
        rows: screening.ScreeningResult | None = None,
        *,
        began: float,
        progress: Progress | None = None,
    ) -> Estimate:
        """Make an estimate of counts, and of the few columns that are read once more."""
        plan, counts, method, table = self.data.plan, self.counts, self.method, self.data.table
        refining, recounting = parts_of(progress, (0.2 * (method is not None), 0.8 * plan.question.screen_rows))
        data = self.data.keep(self.decision.support)
        decision, values = estimate_support(data, self.decision, counts)
        support, data = decision.support, replace(data, nonzero=values.nonzero)
        with one_blas_thread():
            rows = rows or screening.screen(data, support)
            located = screening.refine_values(data, rows, support, values=values, method=method, progress=refining)
            if not plan.auto:
                rows = screening.screen_on_support(data, rows, support, mean=located.mean)
            skewed = screening.flag_skewed(data, rows, support)
            alike = screening.neighbours_alike(data, rows, support)
        extra = None
        if self.options is not None:
            extra = _uncertified(data, rows, decision, self, self.options, progress=recounting)
        notes = (
            *messages.of_dependence(*alike, data.units, table),
            *messages.of_fit(plan, counts, decision, values.constant, table, unit=unit_name(data.units)),
            *messages.of_symmetry(skewed, support, data),
            *messages.of_values(values, table),
            *messages.of_precision(data, support),
            *located.notes,
            *messages.of_numbering(plan),
            *((messages.NOT_LOOKED_FOR,) if self.options is None and rows.rows.suspects.size else ()),
        )
        return build_estimate(
            plan, decision, table=table, began=began, notes=notes, values=(located.mean, values.intervals),
            counts=counts,
            status={
                "screening": rows.how, "refinement": located.how, "iterations": located.iterations,
                "converged": located.converged, "walked": int(np.union1d(self.iterated, support).size),
            },
            seed=data.seed, rows=rows.rows, uncertified=extra, skewed=skewed,
            sample=Sample(units=data.units, bucket_of_row=data.buckets.partition.bucket_of_row),
            source=self.source, checksum=table.source.early_checksum(support),
        )  # fmt: skip


@cache
def _plan_options() -> frozenset[str]:
    """Return what `planning.plan_fit` may be asked for."""
    known = (inspect.signature(function).parameters for function in (planning.plan_fit, planning.ask))
    return frozenset().union(*known) - {"n", "d", "n_units", "asked"}


def _units(groups: Any, n: int) -> IntArray:
    """Give every subject a number, in the order of their first rows."""
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InputError("groups", f"have one label for each of the {n} rows", f"shape {labels.shape}")
    if labels.dtype.kind in "fOMm" and (gaps := [row for row, label in enumerate(labels) if is_missing(label)]):
        raise InputError("groups", "have no missing labels", f"{labels[gaps[0]]} at row {gaps[0]}")
    _, first, inverse = np.unique(labels.astype(str), return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.intp)


def _uncertified(
    data: FitData,
    screened: screening.ScreeningResult,
    decision: Decision,
    found: Centres,
    options: Mapping[str, Any],
    *,
    progress: Progress | None,
) -> Uncertified | None:
    """Look for features that only the rows left after screening show; None where no row was rejected."""
    kept = screened.kept
    if kept.size == data.plan.n_units or kept.size < planning.MIN_ROWS:
        return None
    n_rows = kept.size if data.units is None else int(np.isin(data.units, kept).sum())
    options = {**options, "contamination": 0.0 if data.plan.auto else screened.share(data.plan)}
    if isinstance(options.get("n_buckets"), (int, np.integer)):
        options["n_buckets"] = min(options["n_buckets"], n_rows)
    units = None if data.units is None else kept.size
    plan = planning.plan_fit(n_rows, data.plan.n_features, n_units=units, **options)
    subset = data.subset(plan, kept)
    counts = subset.count(progress)
    of_kept, _ = infer(subset, counts)
    if data.plan.question.selection == "paper":
        of_kept, _ = walked(subset, counts, of_kept)
    features = np.setdiff1d(on_host(of_kept.support), np.concatenate((decision.support, decision.skipped)))
    located = screening.locate_features(data, screened, features, method=found.method)
    return Uncertified(features, located.mean + data.offset(features), take(of_kept.p_adjusted, features))
