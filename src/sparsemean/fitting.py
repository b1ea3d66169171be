"""The only conductor: a pass over the rows, evidence, selection, then values and intervals on the support."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsemean import evidence as evidences
from sparsemean import intervals, path, planning, remarks, selection
from sparsemean.checks import one_number_each
from sparsemean.errors import InputError
from sparsemean.estimate import Estimate
from sparsemean.partition import deal
from sparsemean.passes import memory
from sparsemean.randomness import draw_seed
from sparsemean.records import Counts, Evidence, FloatArray, IntArray, Partition, Plan, Selection, Status
from sparsemean.sources import as_table
from sparsemean.sources.table import Table

SKEW_DEPTH = 6
"""Levels of buckets, up to 32 rows, that the look at skewness takes."""


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

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> sparse_mean(data.X, contamination=0.1, random_state=0).support
    array([0, 1, 2, 3])
    """
    return fit(as_table(X, feature_names), groups=groups, **params)


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    """The rows and how they are dealt; everything that reads them goes through here."""

    table: Table
    partition: Partition
    plan: Plan
    shift: FloatArray | None
    n_jobs: int | None

    def means(
        self, columns: IntArray, work: Callable[[list[FloatArray], IntArray], FloatArray], depth: int = 1
    ) -> FloatArray:
        return memory.map_means(
            self.table, self.partition, columns, work, depth=depth, shift=self.shift, n_jobs=self.n_jobs
        )

    def walked(self, columns: IntArray, t: int) -> FloatArray:
        """Return μ̂ of ``columns`` after t steps."""
        scales = {"alpha": self.plan.alpha, "eta": self.plan.eta}
        values = self.means(columns, lambda levels, _: path.walk(levels[0], **scales, times=(t,)))
        return np.asarray(values[0])


def fit(
    table: Table,
    *,
    groups: Any = None,
    null: Any = 0.0,
    refine: Any = None,
    screen_rows: Any = False,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Estimate:
    """Fit a table; ``options`` are those of `planning.plan_fit`, ``progress`` is told the share of the pass done."""
    began = time.perf_counter()
    if refine is not None or screen_rows is not False:
        name, value = ("refine", refine) if refine is not None else ("screen_rows", screen_rows)
        raise InputError(name, f"be {None if name == 'refine' else False}, the only choice so far", repr(value))
    known = set(inspect.signature(planning.plan_fit).parameters) - {"n", "d", "n_units"}
    if unknown := sorted(set(options) - known):
        raise InputError("option", f"be one of {', '.join(sorted(known))}", repr(unknown[0]))
    n, d = table.values.shape
    units = _units(groups, n)
    n_units = None if units is None else int(units.max()) + 1
    plan = planning.plan_fit(n, d, n_units=n_units, **options)
    shift = one_number_each(null, d, argument="null")
    seed = draw_seed(random_state)
    data = _Data(table, deal(plan, seed, units), plan, shift, n_jobs)
    counts = memory.count(table, data.partition, shift=shift, n_jobs=n_jobs, progress=progress)
    found = _evidence(counts, plan)
    chosen = selection.select(
        found, selection=plan.selection, level=plan.level, bad_rows=plan.bad_rows, n_rows=plan.n_units
    )
    walked = np.empty(0, dtype=np.intp)
    if plan.selection == "paper":
        chosen, walked = _paper_support(data, counts, chosen)
    values = _on_support(data, chosen)
    status = Status(
        messages=(*table.notes, *remarks.of_fit(plan, counts, chosen, values.constant, table)),
        walked=int(np.union1d(walked, chosen.support).size),
        seconds=time.perf_counter() - began,
        versions=remarks.versions(),
    )
    # under skewed noise only the largest buckets speak of the mean
    best = chosen.best if plan.noise == "symmetric" else np.full(d, len(plan.bucket_sizes) - 1)
    return Estimate(
        mean=values.mean,
        support=chosen.support,
        intervals=values.intervals,
        beta=_beta(counts, best),
        bucket_size=np.array(plan.bucket_sizes)[best],
        skew_safe=values.skew_safe,
        selection=chosen,
        feature_names=table.feature_names,
        plan=plan,
        seed=seed,
        status=status,
        bucket_of_row=data.partition.bucket_of_row,
        counts=counts,
        evidence=found,
        shift=shift,
        units=units,
        source=table,
    )


def _units(groups: Any, n: int) -> IntArray | None:
    """Give every subject a number, in the order of their first rows."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InputError("groups", f"have one label for each of the {n} rows", f"shape {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError("groups", "have no missing labels", f"NaN at row {int(np.isnan(labels).argmax())}")
    _, first, inverse = np.unique(labels.astype(str), return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.intp)


def _evidence(counts: Counts, plan: Plan) -> Evidence:
    if plan.noise == "skewed":
        return evidences.of_contrasts(counts, plan.bucket_sizes, evidences.contrast_bases(plan.bad_rows))
    return evidences.of_signs(counts, plan.bucket_sizes)


def _beta(counts: Counts, best: IntArray) -> FloatArray:
    """Return β₀ of every feature at its best size."""
    rates = counts.beta(0)
    for size in range(1, len(counts.n_buckets)):
        at = np.flatnonzero(best == size)
        net = counts.positive[size, at].astype(np.int64) - counts.negative[size, at]
        rates[at] = net / counts.n_buckets[size]
    return rates


def _paper_support(data: _Data, counts: Counts, chosen: Selection) -> tuple[Selection, IntArray]:
    """Return the paper's support, and the features that had to be walked for it."""
    plan = data.plan
    scales = {"alpha": plan.alpha, "eta": plan.eta}
    mu = path.free_walk(counts.positive[0], counts.negative[0], counts.n_buckets[0], **scales, t=plan.select_at)
    walked = path.unfinished(counts, mu, **scales)
    if walked.size:
        mu[walked] = data.walked(walked, plan.select_at)
    if np.count_nonzero(np.abs(mu) >= plan.alpha) < plan.min_selected:
        close = path.contenders(mu, plan.min_selected)
        mu[close] = data.walked(close, plan.select_at)
        walked = np.union1d(walked, close)
    return selection.by_paper(chosen, mu, alpha=plan.alpha, min_selected=plan.min_selected), walked


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    mean: FloatArray
    intervals: FloatArray
    skew_safe: IntArray
    """1 yes, 0 no, −1 not known."""
    constant: IntArray
    """Selected columns that hold one value only."""


def _on_support(data: _Data, chosen: Selection) -> _Values:
    """Estimate the selected features, with intervals that hold after selection: error rate level·R/d each."""
    plan, support = data.plan, chosen.support
    d = plan.n_features
    offset = np.zeros(d) if data.shift is None else data.shift
    mean, ends, safe = offset.copy(), np.full((d, 2), np.nan), np.full(d, -1, dtype=np.intp)
    if not support.size:
        return _Values(mean, ends, safe, support)
    nested = plan.dealing == "blocks"
    error = plan.level * support.size / d
    depth = max(SKEW_DEPTH, data.partition.depth) if nested else 1

    def work(levels: list[FloatArray], columns: IntArray) -> FloatArray:
        used = [levels[level] for level in intervals.levels_used(plan)]
        low, high = intervals.all_sizes(used, error=error, bad_rows=plan.bad_rows)
        value = _value(used, chosen.best[columns], plan)
        nets = [np.sum(np.sign(level), axis=0) for level in levels]
        same = np.ptp(levels[0], axis=0) <= 1e-12 * np.abs(levels[0][0])
        return np.vstack((value, low, high, same, *nets))

    value, low, high, same, *nets = data.means(support, work, depth)
    mean[support] = value + offset[support]
    if plan.noise == "symmetric":  # medians of skewed bucket means miss the mean by an unknown amount
        ends[support] = np.column_stack((low, high)) + offset[support][:, np.newaxis]
    if nested:
        safe[support] = _skew_safe(data, nets)
    return _Values(mean, ends, safe, support[same.astype(bool)])


def _value(sizes: list[FloatArray], best: IntArray, plan: Plan) -> FloatArray:
    """Return the walk's limit, the median of the bucket means of the best size, or the walk after a given time."""
    if plan.noise == "skewed":
        best = np.zeros_like(best)  # only the largest buckets speak of the mean
    out = np.empty(best.size)
    for size, means in enumerate(sizes):
        at = np.flatnonzero(best == size)
        if at.size and plan.estimate_at is None:
            out[at] = np.median(means[:, at], axis=0)
        elif at.size and plan.estimate_at is not None:
            unit = np.ones(at.size) if plan.selection == "paper" else path.units_of(means[:, at])
            walked = path.walk(means[:, at] / unit, alpha=plan.alpha, eta=plan.eta, times=(plan.estimate_at,))
            out[at] = unit * walked[0]
    return out


def _skew_safe(data: _Data, nets: list[FloatArray]) -> IntArray:
    """Say which selected features the contrasts that cancel skewness would select too."""
    plan, partition = data.plan, data.partition
    bases = evidences.contrast_bases(plan.bad_rows)
    sizes = evidences.contrast_sizes(bases)
    levels = [size.bit_length() - 1 for size in sizes]
    total = np.stack([nets[level] for level in levels])
    counts = Counts(
        positive=np.maximum(total, 0).astype(np.int32),
        negative=np.maximum(-total, 0).astype(np.int32),
        nearest=np.full(total.shape[1], np.inf),
        n_buckets=tuple(partition.n_buckets(level) for level in levels),
    )
    found = evidences.of_contrasts(counts, sizes, bases)
    p = selection.combined(selection.p_at(found, np.array([plan.bad_rows])))
    return np.asarray(selection.holm(plan.level)(p, plan.n_features, 0)[:, 0], dtype=np.intp)
