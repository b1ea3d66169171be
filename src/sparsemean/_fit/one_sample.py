"""One sample: from a table to an Estimate, or to the decisions alone; `Centres`, tested by signs or by ranks."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from sparsemean._data import as_table, on_the_host
from sparsemean._data.gpu import sent
from sparsemean._data.source import ColumnCache
from sparsemean._data.table import Table
from sparsemean._evidence import one_sample_test, signed_ranks
from sparsemean._evidence.counting.engines import Progress
from sparsemean._evidence.signs import best_sizes
from sparsemean._evidence.trend import Against, Residuals, TrendEvidence, slope
from sparsemean._fit import designs, messages
from sparsemean._fit.data import FitData, Values, one_valued, refuse_dask
from sparsemean._fit.mean import Means, checked
from sparsemean._fit.pipeline import OneSample, parts_of
from sparsemean._fit.power import ASSUMED, CANNOT
from sparsemean._fit.refinement import Refinement, check
from sparsemean._fit.screening import ScreeningResult, locate_features, refine_values
from sparsemean._kernels import rounding
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._stats import maxt, path, planning
from sparsemean._stats.arrays import medians, medians_sorted, namespace, on_host, take
from sparsemean._stats.decision import Decision, MaxT, adjusted_by_holm, decide_planned, error_after_selection
from sparsemean._stats.effects import CENTRE, PAIRS, UNKNOWN
from sparsemean._stats.row_scores import row_scores, screening_columns
from sparsemean._stats.signed_ranks import filter_of
from sparsemean._util.checks import draw_seed, one_number_each, unit_name
from sparsemean._util.plans import Plan
from sparsemean._util.records import CountArray, Counts, FloatArray, IntArray, Sample, Uncertified
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
    (method, name), plan = check(refine), planning.plan_fit(n, d, n_units=n_units, **options)
    question = replace(
        plan.question,
        screen_rows=bool(screen_rows),
        refine=name,
        refine_on=planning.one_of(refine_on, ("rows", "buckets"), argument="refine_on"),
        null=one_number_each(null, d, argument="null"),
    )
    return replace(plan, question=question), method


def fit(table: Table, *, progress: Progress | None = None, **options: Any) -> Estimate:
    """Fit a table; ``options`` are those of `prepare`, ``progress`` is told the share of the reading done."""
    began = time.perf_counter()
    data, method = prepare(table, **options)
    shares = (1.0, 0.2 * (method is not None) + 0.8 * data.plan.question.screen_rows)
    counting, estimating = parts_of(progress, shares)
    with data.table.source.there():
        planned = {name: value for name, value in options.items() if name in _plan_options()}
        kind = KINDS.get(data.plan.question.test, Centres)
        found: OneSample = kind.of(data, counting, method=method, options=planned)
        return found.to_host().judged().estimate(began=began, progress=estimating)


def prepare(
    table: Table,
    *,
    groups: Any = None,
    against: Against | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    device: Any = None,
    **options: Any,
) -> tuple[FitData, Refinement]:
    """Check what is asked of a table and assign its rows to buckets."""
    table = table if device is None else sent(table, device)
    units = None
    if groups is not None:
        given = on_the_host(groups, table, argument="groups")
        _, units = designs.in_order(*designs.labels_of(given, table.shape[0], "groups"))
    options["null"] = on_the_host(options.get("null", 0.0), table, argument="null")
    plan, method = plan_of(*table.shape, n_units=None if units is None else int(units.max()) + 1, **options)
    if plan.question.selection == "maxt":
        refuse_dask(table)
    # Where ranks or sums decide, what is drawn only says which features to rank or which rows give a scale: nobody who
    # draws again should be better off.
    seed = 0 if random_state is None and plan.question.test != "buckets" else draw_seed(random_state)
    return FitData.of(table, plan, seed=seed, units=units, n_jobs=n_jobs, against=against), method


@cache
def _plan_options() -> frozenset[str]:
    """Return what `planning.plan_fit` may be asked for."""
    known = (inspect.signature(function).parameters for function in (planning.plan_fit, planning.check_question))
    return frozenset().union(*known) - {"n", "d", "n_units", "asked"}


# Counts, evidence, support, then values and intervals on it, from all rows.


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Centres(OneSample):
    """One sample, tested by signs or by ranks: what was counted, and what it decides."""

    counts: Counts

    @classmethod
    def of(cls, data: FitData, progress: Progress | None = None, **parts: Any) -> Centres:
        """Count the signs of one sample, rank what they do not rule out, and select."""
        wanted = screening_columns(data.table.shape, screen_rows=data.plan.question.screen_rows)
        if data.plan.question.test == "ranks" and filter_of(data.plan) >= 1:  # all are ranked, whatever their signs say
            wanted = np.arange(data.plan.n_features)
        counting, flipping = parts_of(progress, (1.0, float(data.plan.question.selection == "maxt")))
        counts, data = data.count(wanted, counting)
        decision, data = infer(data, counts, flipping)
        return cls(data=data, counts=counts, decision=decision, **parts)

    def to_host(self) -> Centres:
        """Take what an estimate needs from a device, and walk where the paper's rule asks for it."""
        decision, question = self.decision, self.data.plan.question
        if question.selection == "paper":
            return replace(self, counts=on_host(self.counts), decision=paper_support(self.data, self.counts, decision))
        if question.test == "buckets":  # all but the support stays where it is
            return replace(self, decision=replace(decision, support=on_host(decision.support)))
        return replace(self, counts=on_host(self.counts), decision=on_host(decision))

    def values(self, data: FitData) -> tuple[Decision, Values]:
        """Return the support less columns that hold one value only, which need no test, and what the rest is worth.

        They are looked for among all features that some number of bad rows leaves. The paper's rule keeps them, as
        published.
        """
        decision, published = self.decision, data.plan.question.selection == "paper"
        last = decision.last
        looked_at = decision.support if published else on_host(namespace(last).flatnonzero(last >= 0))
        constant = one_valued(data, looked_at, self.counts)
        decision = decision if published else decision.without(constant)
        return decision, replace(_support_values(data, decision.support, self.counts), constant=constant)

    @staticmethod
    def worth(estimate: Estimate, data: FitData, features: IntArray) -> tuple[FloatArray, IntArray]:
        """Return what the rows that are trusted say of features, or the share of their pairs."""
        plan, suspects = data.plan, np.empty(0, dtype=np.intp) if estimate.rows is None else estimate.rows.suspects
        kept = np.setdiff1d(np.arange(plan.n_units), suspects if data.units is None else data.units[suspects])
        trusted = ScreeningResult(row_scores(np.zeros(plan.n_rows), {}, {}), kept, plan.bad_rows)
        assert estimate.counts is not None
        decision = replace(estimate.decision, support=np.setdiff1d(features, estimate.decision.skipped))
        decision, first = Centres(data=data, decision=decision, counts=estimate.counts).values(data)
        data, some = replace(data, nonzero=first.nonzero), decision.support
        made = refine_values(data, trusted, some, values=first, method="auto" if plan.question.refine else None)
        value, measure = np.full(plan.n_features, np.nan), np.full(plan.n_features, UNKNOWN)
        value[some], measure[some] = made.mean[some], CENTRE
        if first.pairs is not None:
            value[first.at_null], measure[first.at_null] = first.pairs[0], PAIRS
        return value[features], measure[features]

    @staticmethod
    def intervals(estimate: Estimate, data: FitData, columns: IntArray, error: float) -> FloatArray:
        """Return intervals by signed ranks or signs, or those of shares of pairs."""
        plan, support, wanted = estimate.plan, estimate.support, data.buckets.partition.wanted

        def work(levels: list[FloatArray], which: IntArray) -> FloatArray:
            return signed_ranks.of_levels(levels, wanted, plan, selected=np.isin(which, support), error=error)[0]

        ends = data.means(columns, work, data.buckets.partition.depth).T
        if estimate.shift is not None:
            null = estimate.shift[columns][:, np.newaxis]
            ends = rounding.settle(ends, 0.0, null, precision=data.buckets.precision)
        ends[np.isin(columns, support) & ~ends.any(axis=1)] = np.nan
        ends = ends if estimate.shift is None else ends + estimate.shift[columns][:, np.newaxis]
        at = np.flatnonzero(estimate.measure[columns] == PAIRS)
        if at.size:
            ends[at] = signs_of_pairs(data, columns[at], error, estimate.p_values)[1:].T
        return ends

    def remarks(self, data: FitData, decision: Decision, values: Values, skewed: IntArray | None) -> Iterator[str]:
        """Say what the rule did, and what is odd about the selected features."""
        table, unit = data.table, unit_name(data.units)
        yield from messages.of_fit(data.plan, self.counts, decision, values.constant, table, unit=unit)
        if skewed is not None:
            yield from messages.of_symmetry(skewed, decision.support, data)
        yield from messages.of_columns(table, values.nonzero, messages.OFTEN_NULL)
        none = messages.NO_INTERVAL if data.plan.question.selection == "paper" else messages.NO_CENTRE
        yield from messages.of_columns(table, values.at_null, none)
        if data.buckets.null is not None and not data.spread:
            yield from messages.of_precision(data, decision.support)

    def uncertified(
        self, data: FitData, rows: ScreeningResult, decision: Decision, progress: Progress | None
    ) -> tuple[Uncertified, int]:
        """Look for features that only the rows left after screening show; return how many these select, too."""
        kept, plan = rows.kept, data.plan
        n_rows = kept.size if data.units is None else int(np.isin(data.units, kept).sum())
        options = {**(self.options or {}), "contamination": 0.0 if plan.auto else rows.share(plan)}
        if isinstance(options.get("n_buckets"), (int, np.integer)):
            options["n_buckets"] = min(options["n_buckets"], n_rows)
        units = None if data.units is None else kept.size
        subset = data.subset(planning.plan_fit(n_rows, plan.n_features, n_units=units, **options), kept)
        counts, subset = subset.count(progress=progress)
        of_kept, _ = infer(subset, counts)
        if plan.question.selection == "paper":
            of_kept = paper_support(subset, counts, of_kept)
        found = on_host(of_kept.support)
        features = np.setdiff1d(found, np.concatenate((decision.support, decision.skipped)))
        located = locate_features(data, rows, features, method=self.method)
        shown = Uncertified(features, located.mean + data.offset(features), take(of_kept.p_adjusted, features))
        return shown, int(found.size - one_valued(subset, found, counts).size)


def infer(data: FitData, counts: Counts, progress: Progress | None = None) -> tuple[Decision, FitData]:
    """Return what the test that is asked for decides: all there is to it but for `paper_support`.

    Columns that were read for it may be kept in the data that are returned.
    """
    evidence, data = one_sample_test(data.plan.question.test).from_data(data, counts)
    rule = flipped(data, progress) if data.plan.question.selection == "maxt" else None
    return decide_planned(evidence, data.plan, rule), data


def flipped(data: FitData, progress: Progress | None) -> MaxT:
    """Return what sign flips of whole rows, or subjects, select where no row is bad."""
    plan, null, chosen = data.plan, data.buckets.null, slice(None) if data.chosen is None else data.chosen
    data, rows = replace(data, source=data.source.cached()), 1 if data.units is None else data.plan.n_rows
    unit = rounding.ROUNDING * data.buckets.precision + rows * rounding.DOUBLES

    def read(columns: IntArray) -> tuple[FloatArray, FloatArray]:
        values, taken = data.values(columns)[chosen], np.zeros(columns.size) if null is None else np.abs(null[columns])
        return values, unit * (taken > 0) * np.nansum(np.abs(values) + taken, axis=0)

    signs, draws = np.ones(plan.n_units), maxt.draws_for(plan.question.level, plan.n_units, plan.n_features)
    how = maxt.Randomization.of(signs, None, side=plan.question.side, draws=draws, seed=(data.seed,))
    first = maxt.step_down(read, plan.n_features, how, n_jobs=data.n_jobs, progress=progress)
    return MaxT(plan.question.level, first=first, note=messages.of_draws([how], first, plan.question.level))


def paper_support(data: FitData, counts: Counts, decision: Decision) -> Decision:
    """Put the paper's support {i : |μ̂_i| ≥ α} in place, or the largest |μ̂_i|, less columns without any value."""
    walk, decision = data.plan.walk, on_host(decision)
    scales, t = {"alpha": walk.alpha, "eta": walk.eta}, walk.select_at
    mu = path.closed_form_path(counts.positive[0], counts.negative[0], counts.buckets(0), **scales, t=t)
    iterated, mu = on_host((path.needs_iteration(counts, mu, **scales), mu))
    if iterated.size:
        mu[iterated] = data.walk(iterated, t)
    if np.count_nonzero(np.abs(mu) >= walk.alpha) < walk.min_selected:
        close = path.contenders(mu, walk.min_selected)
        mu[close] = data.walk(close, t)
    support = np.flatnonzero(np.abs(mu) >= walk.alpha)
    filled_up = max(0, walk.min_selected - int(support.size))
    if filled_up:
        support = np.sort(np.argsort(-np.abs(mu), kind="stable")[: walk.min_selected])
    if counts.present is not None:  # a column without any value may have come in to reach min_selected
        there = support[on_host(counts.present)[0, support] > 0]
        support, filled_up = there, filled_up + int(there.size - support.size)
    return replace(decision, support=support, filled_up=filled_up)


def signs_of_pairs(data: FitData, columns: IntArray, error: float, p_values: FloatArray) -> FloatArray:
    """Return what `signed_ranks.by_pairs` says of some columns, given p of all."""
    plan, null, precision = data.plan, data.buckets.null, max(data.buckets.precision, rounding.DOUBLES)

    def work(levels: list[FloatArray], which: IntArray) -> FloatArray:  # workers of a cluster are sent what it names
        values = rounding.ranked(levels[0], np.zeros(1) if null is None else null[which], precision)
        return signed_ranks.by_pairs(values, plan, error=error, rejected=p_values[which] <= error)

    return data.means(columns, work)


def _support_values(data: FitData, support: IntArray, counts: Counts) -> Values:
    """Estimate the selected features, with intervals that hold after selection.

    Values are those of the best bucket size; where they are refined by what needs no start, those of the first.
    """
    plan = data.plan
    best_of_all = np.zeros(plan.n_features, np.intp) if plan.question.refine == "auto" else best_sizes(plan, counts)
    d = plan.n_features
    offset = np.zeros(d) if data.buckets.null is None else data.buckets.null
    mean, ends = offset.copy(), np.full((d, 2), np.nan)
    if not support.size:
        return Values(mean, ends, support, support, support)
    error, wanted = error_after_selection(plan, support.size), data.buckets.partition.wanted

    def work(levels: list[FloatArray], columns: IntArray) -> FloatArray:
        every = np.ones(columns.size, dtype=bool)
        ends, other = signed_ranks.of_levels(levels, wanted, plan, selected=every, error=error)
        value = _value([levels[level] for level in wanted], take(best_of_all, columns), plan)
        if other.any():
            value[other] = medians(np.where(levels[0][:, other] == 0, np.nan, levels[0][:, other]))
        return np.vstack((value, ends, other))

    depth, best = data.buckets.partition.depth, take(best_of_all, support)
    found = None
    if data.table.source.engine == "gpu":
        from sparsemean._fit.device_values import values_there

        found = values_there(data, support, best, error=error)
    if found is None:
        found = data.means(support, work, depth)
    elif (at := np.flatnonzero(found[3])).size:
        found[:, at] = data.means(support[at], work, depth)
    value, low, high, other = found
    if data.buckets.null is not None:  # what is made of two values may miss the null value by rounding too
        value, low, high = (
            rounding.settle(x, 0.0, data.buckets.null[support], precision=data.buckets.precision)
            for x in (value, low, high)
        )
    mean[support] = value + offset[support]
    # Only values that are the null value make an interval end there. Tests look at the others alone, the interval is
    # one of all, so that it would contradict a selection. One of a single value is what few different values have: the
    # one centre about which they could be symmetric.
    at_null = support[(low == 0) | (high == 0) | (low == high)]
    ends[support] = np.column_stack((low, high)) + offset[support][:, np.newaxis]
    ends[at_null] = np.nan
    # All were rejected, though their p may be above that error where columns of one value were, too.
    pairs = signs_of_pairs(data, at_null, error, np.zeros(d)) if at_null.size else None
    return Values(mean, ends, support[:0], at_null, support[other.astype(bool)], pairs)


def _value(sizes: list[FloatArray], best: IntArray, plan: Plan) -> FloatArray:
    """Return the walk's limit, the median of the sorted means of the best size, or the walk after a given time."""
    out, walk = np.empty(best.size), plan.walk
    for size, means in enumerate(sizes):
        at = np.flatnonzero(best == size)
        if at.size and walk.estimate_at is None:
            out[at] = medians_sorted(means.T[at].T)
        elif at.size and walk.estimate_at is not None:
            unit = np.ones(at.size) if plan.question.selection == "paper" else path.units_of(means[:, at])
            walked = path.walk(means[:, at] / unit, alpha=walk.alpha, eta=walk.eta, times=(walk.estimate_at,))
            out[at] = unit * walked[0]
    return out


# A trend: the same rows, held against a number of each.


def trend(
    table: Table, y: object, *, strata: object = None, called: Mapping[str, str] | None = None, **options: Any
) -> Estimate:
    """Find the features that rise or fall with ``y``; ``options`` are those of `fit`, messages name as ``called``."""
    names = {"y": "y", "strata": "strata", **(called or {})}
    for argument, given in (("y", y), ("strata", strata)):
        if hasattr(given, "iloc"):
            designs.refuse_other_index(table, given, names[argument])
    numbers = designs.measured(y, table.shape[0], names["y"])
    within, name = np.zeros(numbers.size, dtype=np.intp), str(getattr(y, "name", None) or names["y"])
    if strata is not None:
        within = designs.check_strata(strata, np.unique(numbers, return_inverse=True)[1], names["strata"])
    if options.get("selection") in ("maxt", "paper"):
        raise InputError("selection", "be 'fwer', 'fdr' or 'fdr_by' for a trend", repr(options["selection"]))
    if table.source.engine != "host":
        raise InputError("X", "lie in memory or in a file for a trend", f"data of {table.source.engine}")
    against = Against(numbers, within, name.removeprefix("--trend "))
    return fit(table, against=against, test="trend", refine=None, **options)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trend(OneSample):
    """Values that are held against a number of each row: how their pairs lie, and what that decides."""

    missing: CountArray

    @classmethod
    def of(cls, data: FitData, progress: Progress | None = None, *, notes: tuple[str, ...] = (), **_: object) -> Trend:
        """Count the pairs of every column, select, and take trends off what rows are judged by."""
        against, source, d = data.against, data.source, data.plan.n_features
        if against is None:
            raise InputError("test", "come with the numbers of rows: SparseTrend().fit(X, y)", "'trend'")
        plan = replace(data.plan, n_strata=int(against.strata.max()) + 1)
        missing, slopes = np.zeros(d, dtype=np.int32), np.zeros(d)

        def pieces() -> Iterator[tuple[IntArray, FloatArray]]:
            for columns, values in checked(data.table, plan.question.missing == "omit"):
                missing[columns] = np.isnan(values).sum(axis=0)
                yield columns, rounding.snapped(values, source.grid)

        evidence = TrendEvidence.of(pieces(), d, against, plan.question.side, progress)
        decision = decide_planned(evidence, plan)
        judged = np.flatnonzero((adjusted_by_holm(decision) <= plan.question.level) | (decision.last >= 0))
        slopes[judged] = slopes_of(data, judged, 1.0, bad=0)[0]
        left = ColumnCache(Residuals(source, against, slopes), judged[:0], np.empty((plan.n_rows, 0)))
        data = replace(data, plan=plan, source=left)
        return cls(
            data=data, decision=decision, beta=evidence.tau, missing=missing, notes=notes, options={},
            sample=Sample(y=against.y, y_name=against.name, strata=against.strata),
        )  # fmt: skip

    def values(self, data: FitData) -> tuple[Decision, Values]:
        """Return the support, and slopes with their intervals."""
        plan, support = data.plan, self.decision.support
        mean, ends, none = np.zeros(plan.n_features), np.full((plan.n_features, 2), np.nan), support[:0]
        error = error_after_selection(plan, support.size)
        found = slopes_of(replace(data, source=data.table.source), support, error, bad=plan.bad_rows)
        mean[support], ends[support] = found[0], found[1:3].T
        shared = found[3] == PAIRS
        return self.decision, Values(mean, ends, none, support[shared], none, pairs=found[:3, shared])

    @staticmethod
    def worth(estimate: Estimate, data: FitData, features: IntArray) -> tuple[FloatArray, IntArray]:
        """Return slopes, or the share of pairs that rise less that of those that fall."""
        found = slopes_of(data, features, 0.5, bad=estimate.plan.bad_rows)
        return found[0], found[3].astype(np.intp)

    @staticmethod
    def intervals(estimate: Estimate, data: FitData, columns: IntArray, error: float) -> FloatArray:
        """Return intervals of slopes."""
        return slopes_of(data, columns, error, bad=estimate.plan.bad_rows)[1:3].T

    def centres(self, mean: FloatArray) -> FloatArray:
        """Return zeros, about which residuals lie."""
        return np.zeros_like(mean)

    def remarks(self, data: FitData, decision: Decision, values: Values, skewed: IntArray | None) -> Iterator[str]:  # noqa: ARG002
        """Say what could not be found, what is missing and what has no slope."""
        plan, against, first = data.plan, data.against, np.zeros(1, dtype=np.intp)
        assert against is not None
        best = TrendEvidence.of(iter([(first, against.y[:, np.newaxis])]), 1, against, plan.question.side)
        smallest, error = float(np.exp(best.log_p(plan.bad_rows, first)[0])), planning.first_error(plan)
        if smallest > error and not decision.support.size:
            bad = f", {plan.bad_rows} {ASSUMED}," if plan.bad_rows else ""
            yield (
                f"{plan.n_units} rows{bad} {CANNOT} a trend in any of {plan.n_features:,} features, whatever the data. "
                f"The smallest p they can give is {smallest:.2g}; {error:.2g} is needed"
            )
        if self.missing.any():
            yield from messages.of_missing(self.missing, plan.n_rows, data.table)
        yield from messages.of_columns(data.table, values.at_null, messages.NO_SLOPE)


def slopes_of(data: FitData, columns: IntArray, error: float, *, bad: int) -> FloatArray:
    """Return slopes of some columns, both ends of their intervals and what these are, a row each."""
    found = [np.empty((4, 0))]
    assert data.against is not None
    for _, values in data.source.takes_of(columns):
        x = rounding.snapped(values, data.source.grid)
        one = partial(slope, against=data.against, error=error, bad=bad, side=data.plan.question.side)
        found.append(np.array([*each(one, list(x.T), count_threads(data.n_jobs))]).T)
    return np.concatenate(found, axis=1)


KINDS: Mapping[str, type[Centres | Means | Trend]] = {"sums": Means, "trend": Trend}
"""By what a fit of one sample is made, by its test; by `Centres` where there is nothing else."""
