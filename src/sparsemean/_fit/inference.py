"""The certified part of a fit: counts, evidence, support, then values and intervals on it, from all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparsemean._data.source import TAKEN_AT_ONCE
from sparsemean._evidence import signed_ranks, signs
from sparsemean._evidence.signed_ranks import DOWN, UP, SignedRankEvidence
from sparsemean._evidence.signs import SlackEvidence, beside, best_sizes, of_signs
from sparsemean._fit.data import FitData
from sparsemean._kernels import rounding
from sparsemean._stats import decision, path
from sparsemean._stats.arrays import medians, medians_sorted, namespace, on_host, take
from sparsemean._stats.decision import Decision, decide_planned
from sparsemean._stats.planning import first_error
from sparsemean._stats.signed_ranks import filter_of
from sparsemean._util.plans import Plan, Side
from sparsemean._util.records import Counts, FloatArray, IntArray

LOOKED_AT = 64
"""Columns that are looked at together to see whether they hold one value only."""


def infer(data: FitData, counts: Counts) -> tuple[Decision, FitData]:
    """Return what counts, and ranks where these are asked for, decide: all there is to it but for `walked`.

    Columns that were read for it may be kept in the data that are returned.
    """
    plan = data.plan
    if plan.question.test != "ranks":
        return decide_planned(_signs(data, counts).staged(first_error(plan)), plan), data
    features, passing = _passing(data, counts)
    data = data.keep(features)
    sides = tuple(UP if sign > 0 else DOWN for sign in plan.question.side.signs)
    if plan.question.min_effect:
        shifted = [data.shifted(sign * plan.question.min_effect) for sign in plan.question.side.signs]
        sums = tuple(part.rank_sums(features, keep_zeros=True) for part in shifted)
    else:
        sums = (data.rank_sums(features),)
    evidence = SignedRankEvidence(
        plan.n_units, plan.n_features, first_error(plan), features, passing, sums, sides,
        ties_against=bool(plan.question.min_effect),
    )  # fmt: skip
    return decide_planned(evidence, plan), data


def _passing(data: FitData, counts: Counts) -> tuple[IntArray, IntArray]:
    """Return the features that pass the filter without bad rows, and up to how many each does."""
    plan, largest = data.plan, filter_of(data.plan)
    if largest >= 1:
        return np.arange(plan.n_features), np.full(plan.n_features, plan.n_units // 2)
    signs = _signs(data, counts)
    features = on_host(signs.reaching(largest, 0))
    return features, signs.last(largest, features, None)


def _signs(data: FitData, counts: Counts) -> SlackEvidence:
    """Return the evidence of signs, of bucket means less the null value or beyond the smallest effect that matters."""
    plan, least = data.plan, data.plan.question.min_effect
    if not least:
        return of_signs(counts, plan.n_units, side=plan.question.side)
    parts = [
        of_signs(data.shifted(sign * least).count(), plan.n_units, side=Side.UP if sign > 0 else Side.DOWN)
        for sign in plan.question.side.signs
    ]
    return parts[0] if len(parts) == 1 else beside(*parts)


def walked(data: FitData, counts: Counts, decision: Decision) -> tuple[Decision, IntArray]:
    """Put the support of the paper's rule in place, and say which features had to be walked for it."""
    decision, iterated = _paper_support(data, counts, on_host(decision))
    counts = on_host(counts)
    if counts.present is not None:  # a column without any value may have come in to reach min_selected
        support = decision.support[counts.present[0, decision.support] > 0]
        filled_up = decision.filled_up + int(support.size - decision.support.size)
        decision = replace(decision, support=support, filled_up=filled_up)
    return decision, iterated


def _paper_support(data: FitData, counts: Counts, decision: Decision) -> tuple[Decision, IntArray]:
    """Put the paper's support {i : |μ̂_i| ≥ α} in place, or the largest |μ̂_i|; return what was walked for it too."""
    plan = data.plan
    scales, t = {"alpha": plan.walk.alpha, "eta": plan.walk.eta}, plan.walk.select_at
    mu = path.closed_form_path(counts.positive[0], counts.negative[0], counts.buckets(0), **scales, t=t)
    iterated, mu = on_host((path.needs_iteration(counts, mu, **scales), mu))
    if iterated.size:
        mu[iterated] = data.walk(iterated, plan.walk.select_at)
    if np.count_nonzero(np.abs(mu) >= plan.walk.alpha) < plan.walk.min_selected:
        close = path.contenders(mu, plan.walk.min_selected)
        mu[close] = data.walk(close, plan.walk.select_at)
        iterated = np.union1d(iterated, close)
    passed = np.flatnonzero(np.abs(mu) >= plan.walk.alpha)
    if passed.size >= plan.walk.min_selected:
        return replace(decision, support=passed), iterated
    largest = np.sort(np.argsort(-np.abs(mu), kind="stable")[: plan.walk.min_selected])
    return replace(decision, support=largest, filled_up=plan.walk.min_selected - int(passed.size)), iterated


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


def estimate_support(data: FitData, decision: Decision, counts: Counts) -> tuple[Decision, Values]:
    """Return the support less columns that hold one value only, which need no test, and what the rest is worth.

    They are looked for among all features that some number of bad rows leaves. The paper's rule keeps them, as
    published.
    """
    published = data.plan.question.selection == "paper"
    last = decision.last
    looked_at = decision.support if published else on_host(namespace(last).flatnonzero(last >= 0))
    constant = constant_columns(data, looked_at, counts)
    decision = decision if published else decision.without(constant)
    values = _support_values(data, decision.support, counts)
    return decision, replace(values, constant=constant)


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
    error = decision.error_after_selection(plan, support.size)

    def work(levels: list[FloatArray], columns: IntArray) -> FloatArray:
        levels = signs.sort_levels(levels, plan)
        used = [levels[level] for level in signs.levels_used(plan)]
        value = _value(used, take(best_of_all, columns), plan)
        (low, high), other = signed_ranks.of_levels(levels, plan, error=error), np.zeros(columns.size, dtype=bool)
        if plan.walk.dealing == "blocks":
            (low, high), other = signed_ranks.given_nonzero(levels, plan, np.stack((low, high)), error=error)
            value[other] = medians(np.where(levels[0][:, other] == 0, np.nan, levels[0][:, other]))
        return np.vstack((value, low, high, other))

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
            rounding.settle(x, 0.0, data.buckets.null[support], precision=data.precision) for x in (value, low, high)
        )
    mean[support] = value + offset[support]
    at_null = support[signed_ranks.end_at_null(low, high)]
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
