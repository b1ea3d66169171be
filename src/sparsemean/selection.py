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

Rule = Callable[[FloatArray, int, int], npt.NDArray[np.bool_]]
"""(p, number of hypotheses, number of others known to be rejected) → which are rejected."""


def p_at(evidence: Evidence, slack: float, features: IntArray | slice = slice(None)) -> FloatArray:
    """Return the p-values of every size at ``slack`` bad rows, one row for each size."""
    return np.stack(
        [
            null.p_values(statistic[features] - slack * move, features)
            for statistic, null, move in zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True)
        ]
    )


def combined(p: FloatArray) -> FloatArray:
    """Combine the p-values of the sizes, fixed in advance, by Bonferroni."""
    return np.asarray(np.minimum(1.0, p.shape[0] * p.min(axis=0)))


def holm(level: float) -> Rule:
    """Reject p_(k) ≤ level/(d − k + 1) step by step: family-wise error at most ``level``, under any dependence."""

    def rule(p: FloatArray, total: int, sure: int) -> npt.NDArray[np.bool_]:
        order = _smallest(p, level)
        failed = np.flatnonzero(p[order] > level / (total - sure - np.arange(order.size)))
        return _flags(order[: failed[0] if failed.size else order.size], p.size)

    return rule


def benjamini_hochberg(level: float) -> Rule:
    """Reject up to the largest k with p_(k) ≤ k·level/d."""

    def rule(p: FloatArray, total: int, sure: int) -> npt.NDArray[np.bool_]:
        order = _smallest(p, level)
        passed = np.flatnonzero(p[order] <= (sure + 1 + np.arange(order.size)) * level / total)
        return _flags(order[: passed[-1] + 1 if passed.size else 0], p.size)

    return rule


def _smallest(p: FloatArray, level: float) -> IntArray:
    """Return the order of those p-values that any rule at ``level`` could reject."""
    candidates = np.flatnonzero(p <= level)
    return np.asarray(candidates[np.argsort(p[candidates], kind="stable")])


def _flags(features: IntArray, d: int) -> npt.NDArray[np.bool_]:
    flags = np.zeros(d, dtype=bool)
    flags[features] = True
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
    p_sizes = p_at(evidence, bad_rows)
    p = combined(p_sizes)
    rule = rule_of(selection, level, evidence.n_features)
    slack = last_slack(evidence, rule, low=0, high=n_rows)
    adjusted, q = _adjust(p, by=selection == "fdr_by")
    return Selection(
        support=np.flatnonzero(slack >= bad_rows),
        p_values=p,
        p_adjusted=adjusted,
        q_values=q,
        best=p_sizes.argmin(axis=0),
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


def last_slack(evidence: Evidence, rule: Rule, *, low: int, high: int, features: IntArray | None = None) -> IntArray:
    """Return for each feature the largest slack in low … high at which it is selected, low − 1 if there is none.

    What is selected at a slack is selected at every smaller one, so the features are halved again and again: those
    selected in the middle are sure when the lower half is searched, and gone when the upper half is.
    """
    d = evidence.n_features
    answer = np.full(d, low - 1, dtype=np.intp)
    start = np.arange(d) if features is None else features
    todo = [(start, low, high, d - start.size if features is not None else 0)]
    while todo:
        group, first, last, sure = todo.pop()
        if group.size == 0 or first > last:
            answer[group] = first - 1
            continue
        middle = (first + last) // 2 if first > low or last < high else first
        chosen = rule(combined(p_at(evidence, middle, group)), d, sure)
        todo.append((group[chosen], middle + 1, last, sure))
        todo.append((group[~chosen], first, middle - 1, sure + int(chosen.sum())))
    return answer


def radius(evidence: Evidence, chosen: Selection, rule: Rule, *, bad_rows: int, n_rows: int) -> IntArray:
    """Return the number of rows that must be replaced before a feature can change sides, a guaranteed lower bound."""
    slack = chosen.last_slack
    never = np.flatnonzero(slack < 0)
    if never.size:
        below = last_slack(evidence, rule, low=-n_rows - bad_rows, high=-1, features=never)
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
