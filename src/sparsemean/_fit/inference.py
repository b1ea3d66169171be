"""The certified part of a fit: counts, evidence, support, then values and intervals on it, from all rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsemean._data.source import TAKEN_AT_ONCE
from sparsemean._fit.data import FitData
from sparsemean._fit.device_values import values_there
from sparsemean._kernels import rounding
from sparsemean._stats import intervals, path
from sparsemean._stats.arrays import medians, medians_sorted, namespace, on_device, on_host, take
from sparsemean._stats.nulls import SignTestNull, beside, of_signs, sign_test_eras
from sparsemean._stats.planning import first_error
from sparsemean._stats.rank_evidence import RankTest
from sparsemean._stats.selection import SlackSearch, by_paper, select
from sparsemean._stats.signed_ranks import SIDES, UP, SignedRankEvidence, filter_of, select_by_ranks
from sparsemean._util.records import Counts, Evidence, FloatArray, IntArray, Plan, Selection

LOOKED_AT = 64
"""Columns that are looked at together to see whether they hold one value only."""


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """The evidence, what it selects, and the features whose walk had to be iterated for that."""

    evidence: Evidence | SignedRankEvidence
    selection: Selection
    iterated: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))


def infer(data: FitData, counts: Counts) -> tuple[Inference, FitData]:
    """Return what counts, and ranks where these are asked for, decide: all there is to it but for `settle`.

    Columns that were read for it may be kept in the data that are returned.
    """
    plan = data.plan
    signs = _signs(data, counts)
    if plan.test != "ranks":
        return by_signs(plan, signs), data
    features, passing = _passing(plan, signs)
    data = data.keep(features)
    sides = SIDES[plan.alternative]
    if plan.min_effect:
        shifts = [plan.min_effect if side == UP else -plan.min_effect for side in sides]
        sums = tuple(data.shifted(by).rank_sums(features, keep_zeros=True) for by in shifts)
    else:
        sums = (data.rank_sums(features),)
    evidence = SignedRankEvidence(
        signs=signs, n_rows=plan.n_units, error=first_error(plan), features=features,
        passing=passing, sums=sums, sides=sides, n_sizes=len(plan.bucket_sizes),
        ties_against=bool(plan.min_effect),
    )  # fmt: skip
    return Inference(evidence, decide(plan, evidence)), data


def decide(plan: Plan, evidence: Evidence | SignedRankEvidence, known: Selection | None = None) -> Selection:
    """Select features for the bad rows of a plan; ``known`` is what the same evidence selects for another number."""
    options: dict[str, Any] = {"selection": plan.selection, "level": plan.level, "bad_rows": plan.bad_rows}
    if isinstance(evidence, SignedRankEvidence):
        return select_by_ranks(evidence, known=None if known is None else known.last_slack, **options)
    chosen = select(evidence, n_rows=plan.n_units, **options)
    both_sides = len(evidence.nulls) > len(plan.bucket_sizes)  # of a smallest effect
    return replace(chosen, best=chosen.best % len(plan.bucket_sizes)) if both_sides else chosen


def columns_ranked(plan: Plan) -> IntArray:
    """Return the columns that will be ranked whatever their signs say: known before anything is read."""
    every = plan.test == "ranks" and filter_of(plan) >= 1
    return np.arange(plan.n_features if every else 0)


def _passing(plan: Plan, signs: Evidence) -> tuple[IntArray, IntArray]:
    """Return the features that pass the filter without bad rows, and up to how many each does."""
    most, largest = plan.n_units // 2, filter_of(plan)
    if largest >= 1:
        return np.arange(plan.n_features), np.full(plan.n_features, most)
    search = SlackSearch(signs, -1)
    search.raise_to(largest, most)
    slack = on_host(search.slack)
    features = np.flatnonzero(slack >= 0)
    return features, slack[features]


def by_signs(plan: Plan, signs: Evidence) -> Inference:
    """Return what the signs of bucket means decide."""
    numbers = [int(null.most) for null in signs.nulls if isinstance(null, SignTestNull)]
    signs = replace(signs, eras=sign_test_eras(numbers, error=first_error(plan), sides=signs.sides))
    return Inference(signs, decide(plan, signs))


def _signs(data: FitData, counts: Counts) -> Evidence:
    """Return the evidence of signs, of bucket means less the null value or beyond the smallest effect that matters."""
    plan, least = data.plan, data.plan.min_effect
    if not least:
        return of_signs(counts, alternative=plan.alternative)
    parts = [
        of_signs(data.shifted(by).count(), alternative=name)
        for by, name in ((least, "greater"), (-least, "less"))
        if plan.alternative in (name, "two-sided")
    ]
    return parts[0] if len(parts) == 1 else beside(*parts)


def settle(data: FitData, counts: Counts, inference: Inference) -> Inference:
    """Settle what counts alone do not: the walks of the paper's rule."""
    plan, selection = data.plan, inference.selection
    if plan.selection != "paper":
        return inference
    selection, iterated = _paper_support(data, counts, on_host(selection))
    counts = on_host(counts)
    if counts.present is not None:  # a column without any value may have come in to reach min_selected
        support = selection.support[counts.present[0, selection.support] > 0]
        filled_up = selection.filled_up + int(support.size - selection.support.size)
        selection = replace(selection, support=support, filled_up=filled_up)
    return Inference(inference.evidence, selection, iterated)


def best_beta(plan: Plan, counts: Counts | RankTest | FloatArray, selection: Selection) -> tuple[FloatArray, IntArray]:
    """Return β₀ of every feature at its best size, and that size; Cliff's delta or β itself, and 1, without buckets."""
    if isinstance(counts, (RankTest, np.ndarray)):
        return counts.delta if isinstance(counts, RankTest) else counts, np.ones(plan.n_features, dtype=np.intp)
    sizes, best = plan.bucket_sizes, selection.best
    if on_device(best):
        from sparsemean._kernels import gpu

        return gpu.betas(counts, sizes, best)
    net, buckets = counts.positive[0].astype(np.int64) - counts.negative[0], counts.buckets(0)
    beta = net / np.maximum(buckets, 1)
    if (at := np.flatnonzero(best)).size:
        size = best[at]
        net = counts.positive[size, at].astype(np.int64) - counts.negative[size, at]
        everywhere = np.array(counts.n_buckets)[size] if counts.present is None else counts.present[size, at]
        beta[at] = net / np.maximum(everywhere, 1)
    return beta, np.array(sizes, dtype=np.intp)[best]


def _paper_support(data: FitData, counts: Counts, selection: Selection) -> tuple[Selection, IntArray]:
    """Return the paper's support, and the features that had to be walked for it."""
    plan = data.plan
    scales = {"alpha": plan.alpha, "eta": plan.eta}
    mu = path.closed_form_path(counts.positive[0], counts.negative[0], counts.buckets(0), **scales, t=plan.select_at)
    iterated, mu = on_host((path.needs_iteration(counts, mu, **scales), mu))
    if iterated.size:
        mu[iterated] = data.walk(iterated, plan.select_at)
    if np.count_nonzero(np.abs(mu) >= plan.alpha) < plan.min_selected:
        close = path.contenders(mu, plan.min_selected)
        mu[close] = data.walk(close, plan.select_at)
        iterated = np.union1d(iterated, close)
    return by_paper(selection, mu, alpha=plan.alpha, min_selected=plan.min_selected), iterated


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """What the support is worth before any refinement."""

    mean: FloatArray
    intervals: FloatArray
    constant: IntArray
    """Selected columns that hold one value only."""
    at_null: IntArray
    """Selected features without an interval, as it would end at the null value: many values are exactly that."""
    nonzero: IntArray
    """Selected features whose value and interval are of those of their values that are not the null value."""


def estimate_support(data: FitData, selection: Selection, counts: Counts) -> tuple[Selection, Values]:
    """Return the support less columns that hold one value only, which need no test, and what the rest is worth.

    They are looked for among all features that some number of bad rows leaves. The paper's rule keeps them, as
    published.
    """
    published = data.plan.selection == "paper"
    slack = selection.last_slack
    looked_at = selection.support if published else on_host(namespace(slack).flatnonzero(slack >= 0))
    constant = constant_columns(data, looked_at, counts)
    selection = selection if published else drop_constant(selection, constant)
    return selection, replace(_support_values(data, selection), constant=constant)


def drop_constant(selection: Selection, constant: IntArray) -> Selection:
    """Take selected columns that hold one value only off the support."""
    return replace(selection, support=np.setdiff1d(selection.support, constant), skipped=constant)


def _support_values(data: FitData, selection: Selection) -> Values:
    """Estimate the selected features, with intervals that hold after selection."""
    plan, support = data.plan, selection.support
    d = plan.n_features
    offset = np.zeros(d) if data.null is None else data.null
    mean, ends = offset.copy(), np.full((d, 2), np.nan)
    if not support.size:
        return Values(mean, ends, support, support, support)
    error = intervals.error_after_selection(plan, support.size)

    def work(levels: list[FloatArray], columns: IntArray) -> FloatArray:
        levels = intervals.sort_levels(levels, plan)
        used = [levels[level] for level in intervals.levels_used(plan)]
        value = _value(used, take(selection.best, columns), plan)
        (low, high), other = intervals.of_levels(levels, plan, error=error), np.zeros(columns.size, dtype=bool)
        if plan.dealing == "blocks":
            (low, high), other = intervals.given_nonzero(levels, plan, np.stack((low, high)), error=error)
            value[other] = medians(np.where(levels[0][:, other] == 0, np.nan, levels[0][:, other]))
        return np.vstack((value, low, high, other))

    depth, best = data.buckets.partition.depth, take(selection.best, support)
    found = values_there(data, support, best, error=error)
    if found is None:
        found = data.means(support, work, depth)
    elif (at := np.flatnonzero(found[3])).size:
        found[:, at] = data.means(support[at], work, depth)
    value, low, high, other = found
    if data.null is not None:  # what is made of two values may miss the null value by rounding too
        value, low, high = (
            rounding.settle(x, 0.0, data.null[support], precision=data.precision) for x in (value, low, high)
        )
    mean[support] = value + offset[support]
    at_null = support[intervals.end_at_null(low, high)]
    ends[support] = np.column_stack((low, high)) + offset[support][:, np.newaxis]
    ends[at_null] = np.nan
    return Values(mean, ends, support[:0], at_null, support[other.astype(bool)])


def constant_columns(data: FitData, candidates: IntArray, counts: Counts) -> IntArray:
    """Return which of some columns hold one value only: their buckets have one sign, or none."""
    buckets = counts.n_buckets[0] if counts.present is None else take(counts.present[0], candidates)
    sign = np.maximum(take(counts.positive[0], candidates), take(counts.negative[0], candidates))
    candidates = candidates[(sign == buckets) | (sign == 0)]
    constant = np.zeros(candidates.size, dtype=bool)
    at_once = max(1, min(LOOKED_AT, TAKEN_AT_ONCE // data.table.shape[0]))
    for first in range(0, candidates.size, at_once):
        values = data.source.take(candidates[first : first + at_once])
        constant[first : first + at_once] = np.fmin.reduce(values) == np.fmax.reduce(values)
    return candidates[constant]


def _value(sizes: list[FloatArray], best: IntArray, plan: Plan) -> FloatArray:
    """Return the walk's limit, the median of the sorted means of the best size, or the walk after a given time."""
    out = np.empty(best.size)
    for size, means in enumerate(sizes):
        at = np.flatnonzero(best == size)
        if at.size and plan.estimate_at is None:
            out[at] = medians_sorted(means.T[at].T)
        elif at.size and plan.estimate_at is not None:
            unit = np.ones(at.size) if plan.selection == "paper" else path.units_of(means[:, at])
            walked = path.walk(means[:, at] / unit, alpha=plan.alpha, eta=plan.eta, times=(plan.estimate_at,))
            out[at] = unit * walked[0]
    return out
