"""What is asked of an estimate afterwards: other shares of bad rows, intervals by name, paths."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._counts import ranks
from sparsemean._data import as_table
from sparsemean._data.table import Table
from sparsemean._fit import covariates, mean, mean_difference
from sparsemean._fit.inference import best_beta, decide, drop_constant
from sparsemean._kernels import rounding
from sparsemean._stats import intervals, path
from sparsemean._stats.effects import GroupEffects, effect_columns
from sparsemean._stats.families import Family, FamilyMember, select_ranks
from sparsemean._stats.planning import bad_pairs, bad_rows, check_shares
from sparsemean._util.checks import fraction_of_rows
from sparsemean._util.records import FloatArray, IntArray, Plan, Selection
from sparsemean.comparison import Comparison
from sparsemean.errors import InputError
from sparsemean.result import Estimate, map_levels

if TYPE_CHECKING:
    import pandas as pd

AGAIN = (
    "decided again from the evidence of the fit, without reading data: intervals, and values of features that it did "
    "not select, need a fit at this contamination"
)


def rows_of(estimate: Estimate, X: Any = None, covariate: Any = None) -> Table:
    """Return the data of a fit, adjusted as there; given again where the estimate does not keep them."""
    adjusted = estimate.theta is not None
    if X is None and estimate.source is None:
        advice = f"pass the X {'and the covariate ' if adjusted else ''}of the fit"
        raise InputError("X", "be given, as this estimate does not keep its data", None, advice)
    table = estimate.source if X is None else as_table(X)
    assert table is not None
    shape = (estimate.plan.n_rows, estimate.plan.n_features)
    reduced = estimate.class_names is not None and (estimate.labels is None or estimate.units is not None)
    if table.shape != shape:
        advice = "of subjects and pairs these are the means and differences, a row each" if reduced else ""
        raise InputError("X", f"be the data of the fit, of shape {shape}", table.shape, advice)
    return table if X is None or not adjusted else _adjusted_again(estimate, table, covariate, reduced)


def _adjusted_again(estimate: Estimate, table: Table, covariate: Any, reduced: bool) -> Table:
    """Return X less what values from before predict of it, as in the fit; else plain means would stand in its place."""
    if reduced:
        advice = "fit again: this estimate is of means or differences of adjusted values"
        raise InputError("X", "be left out where values were adjusted for a covariate", "X", advice)
    if covariate is None:
        raise InputError("X", "come with the covariate that it was adjusted for", "X alone", "pass covariate=, too")
    table, theta = covariates.adjusted(table, covariate, target=estimate.plan.target)
    if not np.allclose(theta, np.asarray(estimate.theta), rtol=1e-6):
        advice = "pass both as they were, rows in their order"
        raise InputError("covariate", "be that of the fit, and X too", "values with other slopes", advice)
    return table


def at(estimate: Estimate, contamination: Any) -> Estimate:
    """Decide again for another share of bad rows; see `Estimate.at`."""
    if estimate.plan.selection == "paper":
        raise InputError("selection", "be one with an error rate", "'paper'", "fit again with another contamination")
    if estimate.evidence is None:
        advice = "curve() and max_contamination are kept; to decide again, fit again"
        raise InputError("estimate", "still have its evidence, which files and pickles leave out", "none", advice)
    evidence = estimate.evidence
    if isinstance(evidence, FamilyMember):
        return of_member(estimate, FamilyMember(decide_family(evidence.family, contamination), evidence.at))
    plan = _plan(estimate, contamination)
    selection = drop_constant(decide(plan, evidence, estimate.selection), estimate.selection.skipped)
    beta, bucket_size = estimate.beta, estimate.bucket_size
    if estimate.counts is not None:
        beta, bucket_size = best_beta(plan, estimate.counts, selection)
    return _decided(replace(estimate, beta=beta, bucket_size=bucket_size), plan, selection)


def decide_family(family: Family, contamination: Any) -> Family:
    """Let all tests of groups decide again."""
    evidence = replace(family.evidence, shares=check_shares(contamination), numbers=())
    return Family(evidence, select_ranks(evidence, selection=family.rule), family.rule)


def compared_at(comparison: Comparison, contamination: Any) -> Comparison:
    """Let several tests of groups decide again together; see `Comparison.at`."""
    results = comparison.results
    members = {key: each.evidence for key, each in results.items() if isinstance(each.evidence, FamilyMember)}
    if len(members) < len(results):
        return replace(comparison, results={key: at(each, contamination) for key, each in results.items()})
    family = decide_family(next(iter(members.values())).family, contamination)
    return replace(
        comparison,
        results={key: of_member(results[key], FamilyMember(family, member.at)) for key, member in members.items()},
    )


def of_member(estimate: Estimate, member: FamilyMember) -> Estimate:
    """Return the estimate of one test after its family has decided again."""
    evidence, d = member.family.evidence, estimate.plan.n_features
    first, second = evidence.allowed[member.at.start // d]
    plan = replace(
        estimate.plan, contamination=max(evidence.shares), bad_rows=first + second, bad_by_group=(second, first),
        auto=False, looked=True,
    )  # fmt: skip
    return _decided(replace(estimate, evidence=member), plan, member.selection)


def _plan(estimate: Estimate, contamination: Any) -> Plan:
    """Return the plan with another share of bad rows: of pairs, of each of their two rows."""
    plan = estimate.plan
    share = fraction_of_rows(contamination) if not estimate.paired else max(check_shares(contamination))
    bad = bad_pairs(plan.n_units, check_shares(contamination)) if estimate.paired else bad_rows(plan.n_units, share)
    if estimate.mean_test is not None and estimate.mean_test.rows is not None:
        mean.refuse_without_scale(bad > 0)
    return replace(plan, contamination=share, bad_rows=bad, auto=False, looked=True)


def _decided(estimate: Estimate, plan: Plan, selection: Selection) -> Estimate:
    """Return an estimate with another selection: values that are known stay, what is not known is NaN."""
    support, before = selection.support, estimate.support
    same = plan.bad_rows == estimate.plan.bad_rows and plan.bad_by_group == estimate.plan.bad_by_group
    known = np.isin(support, before)
    value = np.zeros(plan.n_features) if estimate.shift is None else estimate.shift.copy()
    value[support] = np.where(known, estimate.mean[support], np.nan)
    ends = np.full_like(estimate.intervals, np.nan)
    skewed = np.full_like(estimate.skewed, -1)
    skewed[support] = estimate.skewed[support]
    if same:
        ends[support] = estimate.intervals[support]
    effects, said = estimate.effects, estimate.status.messages
    if effects is not None:
        effects = GroupEffects(**effect_columns(effects, support, before), scale=effects.scale)
    return replace(
        estimate, plan=plan, selection=selection, support=support, mean=value, intervals=ends, skewed=skewed,
        effects=effects, uncertified=None,
        status=replace(estimate.status, messages=tuple(dict.fromkeys((*said, *(() if same else (AGAIN,)))))),
    )  # fmt: skip


def curve(estimate: Estimate) -> pd.DataFrame:
    """Return how many features are left at each contamination; see `Estimate.curve`."""
    import pandas as pd

    last = np.delete(estimate.max_contamination, estimate.selection.skipped)
    last = np.sort(last[~np.isnan(last)])
    shares = np.unique((0.0, *last))
    left = last.size - np.searchsorted(last, shares, side="left")
    sizes = estimate.plan.sizes or (estimate.plan.n_units,) * (2 if estimate.paired else 1)
    bad = [sum(bad_rows(n, share) for n in sizes) for share in shares.tolist()]
    return pd.DataFrame({"contamination": shares, "bad_rows": bad, "selected": left})


def intervals_of(estimate: Estimate, columns: IntArray, error: float, table: Table) -> FloatArray:
    """Return intervals of some features, each at ``error``, from the data of the fit; see `Estimate.interval`."""
    plan, support = estimate.plan, estimate.support
    if estimate.mean_test is not None:
        return mean.intervals_of(estimate, columns, error, table)
    if estimate.difference_test is not None:
        return mean_difference.intervals_of(estimate, columns, error, table)
    if estimate.labels is not None:
        reference, label = plan.bad_by_group or (plan.bad_rows, plan.bad_rows)
        options: dict[str, Any] = {
            "error": error, "bad": (label, reference), "alternative": plan.alternative, "grid": table.source.grid,
        }  # fmt: skip
        strata = ranks.strata_of(estimate.labels, estimate.strata)
        pieces = table.source.takes_of(columns)
        found = [ranks.shifts(piece, strata, missing=plan.missing == "omit", **options) for _, piece in pieces]
        return np.concatenate(found)[:, 1:]

    def work(levels: list[FloatArray], which: IntArray) -> FloatArray:
        levels = intervals.sort_levels(levels, plan)
        ends = intervals.of_levels(levels, plan, error=error)
        if plan.dealing == "blocks":
            other, _ = intervals.given_nonzero(levels, plan, ends.copy(), error=error)
            ends = np.where(np.isin(which, support), other, ends)
        return ends

    ends = map_levels(estimate, table, columns, work, intervals.levels_used(plan)[-1] + 1).T
    if estimate.shift is not None:
        null = estimate.shift[columns][:, np.newaxis]
        ends = rounding.settle(ends, 0.0, null, precision=table.source.precision)
    ends[np.isin(columns, support) & ~ends.any(axis=1)] = np.nan
    return ends if estimate.shift is None else ends + estimate.shift[columns][:, np.newaxis]


def walks_of(estimate: Estimate, columns: IntArray, last: int, table: Table) -> FloatArray:
    """Return the path of some features, (last + 1, features), from the data of the fit; see `Estimate.trajectory`."""
    plan, scales = estimate.plan, {"alpha": estimate.plan.alpha, "eta": estimate.plan.eta}

    def work(means: FloatArray) -> FloatArray:
        unit = np.ones(means.shape[1]) if plan.selection == "paper" else path.units_of(means)
        return np.asarray(unit * path.walk(means / unit, **scales, times=range(last + 1)))

    if estimate.labels is not None:
        return ranks.map_differences(table.source, columns, estimate.labels, work, estimate.strata)
    out = np.empty((last + 1, columns.size))
    for size in np.unique(estimate.bucket_size[columns]):
        at = np.flatnonzero(estimate.bucket_size[columns] == size)
        level = int(size).bit_length() - 1 if plan.dealing == "blocks" else 0

        def of_level(levels: list[FloatArray], _: IntArray, level: int = level) -> FloatArray:
            return work(levels[level])

        out[:, at] = map_levels(estimate, table, columns[at], of_level, level + 1)
    return out if estimate.shift is None else out + estimate.shift[columns]
