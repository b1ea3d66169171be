"""From evidence to a support: p-values valid against any m replaced rows, and rules that share out the error.

With slack c every statistic is lowered by what c rows can move it. A p-value at slack m is the largest that any
replacement of m rows could have left, and what is selected at slack m + r stays selected whatever r more rows do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sparsemean.records import Evidence, FloatArray, IntArray, Selection

Flags = npt.NDArray[np.bool_]
Rule = Callable[[FloatArray, int, int], Flags]
"""(p of features × slacks, number of hypotheses, number of others known to be rejected) → which are rejected."""
AT_ONCE = 10_000
"""Pairs of feature and slack that are looked at in one go."""


def p_at(evidence: Evidence, slacks: IntArray, features: IntArray | slice = slice(None)) -> FloatArray:
    """Return the p-values of every size at each number of bad rows in ``slacks``: (sizes, features, slacks)."""
    parts = zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True)
    return np.stack([null.p_values(stat[features, np.newaxis] - slacks * move, features) for stat, null, move in parts])


def combined(p: FloatArray) -> FloatArray:
    """Combine the p-values of the sizes, fixed in advance, by Bonferroni."""
    return np.asarray(np.minimum(1.0, p.shape[0] * p.min(axis=0)))


def holm(level: float) -> Rule:
    """Reject p_(k) ≤ level/(d − k + 1) step by step: family-wise error at most ``level``, under any dependence."""

    def rule(p: FloatArray, total: int, sure: int) -> Flags:
        def count(ordered: FloatArray) -> IntArray:
            ranks = np.arange(ordered.shape[0])[:, np.newaxis]
            return np.asarray(np.logical_and.accumulate(ordered <= level / (total - sure - ranks)).sum(axis=0))

        return _smallest(p, level, count)

    return rule


def benjamini_hochberg(level: float) -> Rule:
    """Reject up to the largest k with p_(k) ≤ k·level/d."""

    def rule(p: FloatArray, total: int, sure: int) -> Flags:
        def count(ordered: FloatArray) -> IntArray:
            ranks = np.arange(1, ordered.shape[0] + 1)[:, np.newaxis]
            return np.asarray(np.max(ranks * (ordered <= (sure + ranks) * level / total), axis=0, initial=0))

        return _smallest(p, level, count)

    return rule


def _smallest(p: FloatArray, level: float, count: Callable[[FloatArray], IntArray]) -> Flags:
    """Flag the smallest p-values of each column, as many as ``count`` says of them in order.

    No rule at ``level`` rejects a larger p, and under either rule equal ones are rejected together or not at all.
    """
    flags = np.zeros(p.shape, dtype=bool)
    candidates = np.flatnonzero((p <= level).any(axis=1))
    if candidates.size:
        chosen = p[candidates]
        ordered = np.sort(chosen, axis=0)
        rejected = count(ordered)
        last = np.take_along_axis(ordered, np.maximum(rejected - 1, 0)[np.newaxis], axis=0)
        flags[candidates] = (chosen <= last) & (rejected > 0)
    return flags


def rule_of(selection: str, level: float, d: int) -> Rule:
    """Return the rule named ``selection``; the paper's own support is judged by Holm."""
    if selection == "fdr":
        return benjamini_hochberg(level)
    if selection == "fdr_by":
        return benjamini_hochberg(level / harmonic(d))
    return holm(level)


def harmonic(d: int) -> float:
    """Return 1 + 1/2 + … + 1/d."""
    return float(np.sum(1.0 / np.arange(1, d + 1)))


def select(evidence: Evidence, *, selection: str, level: float, bad_rows: int, n_rows: int) -> Selection:
    """Select features at slack ``bad_rows`` and say how many bad rows each would survive."""
    d = evidence.n_features
    p, best = np.ones(d), np.zeros(d, dtype=np.intp)
    alive = plausible(evidence, 1.0, bad_rows)
    p_sizes = p_at(evidence, np.array([bad_rows]), alive)[..., 0]
    p[alive], best[alive] = combined(p_sizes), p_sizes.argmin(axis=0)
    rule = rule_of(selection, level, d)
    slack = last_slack(evidence, rule, low=0, high=n_rows // 2, features=plausible(evidence, level))
    adjusted, q = _adjust(p, by=selection == "fdr_by")
    return Selection(
        support=np.flatnonzero(slack >= bad_rows),
        p_values=p,
        p_adjusted=adjusted,
        q_values=q,
        best=best,
        last_slack=slack,
    )


def _adjust(p: FloatArray, *, by: bool) -> tuple[FloatArray, FloatArray]:
    """Return Holm's adjusted p-values, and the q-values of Benjamini and Hochberg (or Yekutieli)."""
    d = p.size
    adjusted, q = np.ones(d), np.ones(d)
    order = np.flatnonzero(p < 1)
    order = order[np.argsort(p[order], kind="stable")]
    ordered = p[order]
    ranks = np.arange(1, order.size + 1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate((d + 1 - ranks) * ordered))
    scale = harmonic(d) if by else 1.0
    q[order] = np.minimum(1.0, np.minimum.accumulate((scale * d / ranks * ordered)[::-1])[::-1])
    return adjusted, q


def plausible(evidence: Evidence, level: float, slack: int = 0) -> IntArray:
    """Return all features whose combined p-value may be ``level`` or less at ``slack``, and perhaps a few more."""
    share = level / len(evidence.nulls)
    parts = zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True)
    return np.flatnonzero(np.any([stat >= null.least(share) + slack * move for stat, null, move in parts], axis=0))


def last_slack(evidence: Evidence, rule: Rule, *, low: int, high: int, features: IntArray, sure: int = 0) -> IntArray:
    """Return for each feature the largest slack in low … high at which it is selected, low − 1 if there is none.

    Only ``features`` are looked at; of the others ``sure`` are known to be selected throughout and the rest not. What
    is selected at a slack is selected at every smaller one, so features and slacks are halved until they are few:
    those selected in the middle are sure when the lower half is searched, and gone when the upper half is.
    """
    d = evidence.n_features
    answer = np.full(d, low - 1, dtype=np.intp)
    todo = [(features, low, high, sure)]
    while todo:
        group, first, last, others = todo.pop()
        if group.size * (last - first + 1) <= AT_ONCE:
            slacks = np.arange(first, last + 1)
            answer[group] = first - 1 + rule(combined(p_at(evidence, slacks, group)), d, others).sum(axis=1)
            continue
        middle = first if (first, last) == (low, high) else (first + last) // 2
        chosen = rule(combined(p_at(evidence, np.array([middle]), group)), d, others)[:, 0]
        todo.append((group[chosen], middle + 1, last, others))
        todo.append((group[~chosen], first, middle - 1, others + int(chosen.sum())))
    return answer


def radius(evidence: Evidence, chosen: Selection, rule: Rule, *, bad_rows: int, n_rows: int) -> IntArray:
    """Return the number of rows that must be replaced before a feature can change sides, a guaranteed lower bound."""
    slack = chosen.last_slack
    never = np.flatnonzero(slack < 0)
    if never.size:
        below = last_slack(
            evidence, rule, low=-n_rows - bad_rows, high=-1, features=never, sure=slack.size - never.size
        )
        slack = np.where(slack < 0, below, slack)
    return np.where(slack >= bad_rows, slack - bad_rows + 1, bad_rows - slack)


def by_paper(chosen: Selection, mu: FloatArray, *, alpha: float, min_selected: int) -> Selection:
    """Put the paper's support {i : |μ̂_i| ≥ α} in place; where fewer than ``min_selected`` pass, the largest |μ̂_i|."""
    size = np.abs(mu)
    passed = np.flatnonzero(size >= alpha)
    if passed.size >= min_selected:
        return replace(chosen, support=passed)
    largest = np.sort(np.argsort(-size, kind="stable")[:min_selected])
    return replace(chosen, support=largest, filled_up=min_selected - int(passed.size))
