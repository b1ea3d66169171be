"""From evidence to a support: p-values valid against any m replaced rows, and rules that share out the error.

With slack c every statistic is lowered by what c rows can move it. A p-value at slack m is the largest that any
replacement of m rows could have left, and what is selected at slack m + r stays selected whatever r more rows do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import namespace, on_device, on_host
from sparsemean._stats.nulls import SignTestNull, least_majorities
from sparsemean._stats.rank_evidence import RankEvidence, probabilities
from sparsemean._util.records import Evidence, FloatArray, IntArray, Selection

Flags = npt.NDArray[np.bool_]
AT_ONCE = 10_000
"""Pairs of feature and slack that are looked at in one go."""
FEW = 100_000
"""Features that are moved to the host rather than looked at in many small steps on a device."""
BELOW_ONE = float(np.nextafter(1.0, 0.0))
"""Features that do not reach it have p = 1: they need no look at their p-values."""
LOOKS = 200
"""Holm's thresholds are followed so far; what they have not settled then is searched for. Sixty were enough for
thousands of rows; with a million all were used."""


def p_at(evidence: Evidence, slacks: Any, features: IntArray | slice = slice(None)) -> FloatArray:
    """Return the p-values of every size at each number of bad rows in ``slacks``: (sizes, features, slacks)."""
    xp = namespace(evidence.statistic)
    parts = zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True)
    c = xp.asarray(slacks)
    return xp.stack(  # type: ignore[no-any-return]
        [null.p_values(stat[features, np.newaxis] - c * move, features) for stat, null, move in parts]
    )


def combined(p: FloatArray) -> FloatArray:
    """Combine the p-values of the sizes, fixed in advance, by Bonferroni."""
    return namespace(p).minimum(1.0, p.shape[0] * p.min(axis=0))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Holm:
    """Reject p_(k) ≤ level/(d − k + 1) step by step: family-wise error at most ``level``, under any dependence."""

    level: float

    def __call__(self, p: FloatArray, total: int, sure: int) -> Flags:
        """Flag what is rejected of each column of ``p``."""

        def count(ordered: FloatArray) -> IntArray:
            ranks = np.arange(ordered.shape[0])[:, np.newaxis]
            passed = ordered <= self.level / (total - sure - ranks)
            return np.asarray(np.logical_and.accumulate(passed).sum(axis=0))

        return _smallest(p, self.level, count)


@dataclass(frozen=True, slots=True)
class BenjaminiHochberg:
    """Reject up to the largest k with p_(k) ≤ k·level/d."""

    level: float

    def __call__(self, p: FloatArray, total: int, sure: int) -> Flags:
        """Flag what is rejected of each column of ``p``."""

        def count(ordered: FloatArray) -> IntArray:
            ranks = np.arange(1, ordered.shape[0] + 1)[:, np.newaxis]
            return np.asarray(np.max(ranks * (ordered <= (sure + ranks) * self.level / total), axis=0, initial=0))

        return _smallest(p, self.level, count)


Rule = Holm | BenjaminiHochberg
"""(p of features × slacks, number of hypotheses, number of others known to be rejected) → which are rejected."""


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
        return BenjaminiHochberg(level)
    if selection == "fdr_by":
        return BenjaminiHochberg(level / harmonic(d))
    return Holm(level)


def harmonic(d: int) -> float:
    """Return 1 + 1/2 + … + 1/d."""
    return float(np.sum(1.0 / np.arange(1, d + 1)))


def select(evidence: Evidence, *, selection: str, level: float, bad_rows: int, n_rows: int) -> Selection:
    """Select features at slack ``bad_rows`` and say how many bad rows each would survive."""
    xp, d = namespace(evidence.statistic), evidence.n_features
    rule = rule_of(selection, level, d)
    with_below = on_device(evidence.statistic) and isinstance(rule, Holm)
    looks = _looks(evidence, -n_rows - bad_rows - 1 if with_below else -1, n_rows // 2)
    alive = looks.reaching(BELOW_ONE, bad_rows)  # p and best of all others are 1 and the first size
    some = evidence.of(alive)
    p_sizes = p_at(on_host(some) if alive.size <= FEW else some, [bad_rows])[..., 0]
    p = combined(p_sizes)
    values, best = xp.ones((3, d)), xp.zeros(d, dtype=np.intp)
    values[:, alive] = xp.asarray(namespace(p).stack((p, *_adjust(p, d, by=selection == "fdr_by"))))
    best[alive] = xp.asarray(_first_least(p_sizes))
    if isinstance(rule, Holm):
        below = _step_down(looks, rule, n_rows // 2)
        slack = xp.maximum(below, -1) if with_below else below
    else:
        slack = _searched(evidence, rule, 0, n_rows // 2)
    return Selection(
        support=xp.flatnonzero(slack >= bad_rows),
        p_values=values[0],
        p_adjusted=values[1],
        q_values=values[2],
        best=best,
        last_slack=slack,
        below=below if with_below else None,
    )


def _first_least(p: FloatArray) -> IntArray:
    """Return the first size at which each feature has its smallest p-value."""
    xp = namespace(p)
    least, best = p[0], xp.zeros(p.shape[1], dtype=np.intp)
    for size in range(1, p.shape[0]):
        best = xp.where(p[size] < least, size, best)
        least = xp.minimum(least, p[size])
    return best  # type: ignore[no-any-return]


def _adjust(p: FloatArray, d: int, *, by: bool) -> tuple[FloatArray, FloatArray]:
    """Return Holm's adjusted p-values, and the q-values of Benjamini and Hochberg (or Yekutieli).

    The p-values are all those below 1 of d hypotheses. Equal ones have equal answers: what the first of them in order
    has under Holm, the last under the other.
    """
    if not p.size:
        return p, p
    xp = namespace(p)
    values, back, counts = xp.unique(p, return_inverse=True, return_counts=True)
    value, count = on_host((values, counts))
    last = np.cumsum(count)
    first = last - count + 1
    scale = harmonic(d) if by else 1.0
    adjusted = np.minimum(1.0, np.maximum.accumulate((d + 1 - first) * value))
    q = np.minimum(1.0, np.minimum.accumulate((scale * d / last * value)[::-1])[::-1])
    return xp.asarray(adjusted)[back], xp.asarray(q)[back]


def max_bad_rows(evidence: Evidence, rule: Rule, *, low: int, high: int, features: IntArray | None = None) -> IntArray:
    """Return for each feature the largest slack in low … high at which it is selected, low − 1 if there is none.

    Where ``features`` are given only they are asked for, and all others known to be selected at all these slacks. What
    is selected at a slack is selected at every smaller one.
    """
    sure = 0 if features is None else evidence.n_features - int(features.size)
    if isinstance(rule, Holm):
        return _step_down(_looks(evidence, low - 1, high), rule, high, sure)
    return _searched(evidence, rule, low, high, features, sure)


def _step_down(looks: SlackSearch, rule: Holm, high: int, sure: int = 0) -> IntArray:
    """Find the last slacks under Holm from the statistics alone.

    At slack c Holm rejects F = #{p ≤ level/(d − R)} features, R the smallest with F ≤ R. A feature has p ≤ t up to a
    slack c(t) that follows from its statistic and the threshold of t, which changes in steps: all slacks at which F is
    too small to bring the next step are settled by one look at the features, and the next look is at the F of the
    largest slack that is not.
    """
    d, rejected = looks.evidence.n_features, sure
    for _ in range(LOOKS):
        settled = _fewer_than(looks.raise_to(rule.level / (d - rejected), high), rule.level, d)
        if settled >= d:
            return looks.slack.astype(np.intp)  # type: ignore[no-any-return]
        at_least = np.cumsum(looks.counted()[::-1])[::-1]
        last = int(np.flatnonzero(at_least > settled)[-1])
        high, rejected = looks.low + last, int(at_least[last])
        if last == 0 or rejected == d:
            return looks.slack.astype(np.intp)  # type: ignore[no-any-return]
    xp = namespace(looks.slack)
    rest = xp.flatnonzero(looks.slack < high)
    found = _searched(looks.evidence, rule, looks.low + 1, high, rest, d - int(rest.size))
    return xp.maximum(looks.slack, found)  # type: ignore[no-any-return]


def _looks(evidence: Evidence, low: int, high: int) -> SlackSearch:
    """Return what finds slacks from ``low`` to ``high``: on a device, for sign tests, in few steps."""
    signs = all(isinstance(null, SignTestNull) for null in evidence.nulls)
    if on_device(evidence.statistic) and signs:
        return DeviceSlackSearch(evidence, low, high)
    return SlackSearch(evidence, low, high)


class SlackSearch:
    """The largest slack at which each feature's p-value has been small enough in any look so far."""

    def __init__(self, evidence: Evidence, low: int, high: int) -> None:
        self.evidence, self.low, self.bins = evidence, low, high - low + 1
        self.slack: Any = namespace(evidence.statistic).full(evidence.n_features, low, dtype=np.int32)

    def reaching(self, error: float, slack: int) -> IntArray:
        """Return the features whose combined p-value is at most ``error``, below 1, at ``slack``."""
        evidence, found = self.evidence, False
        for stat, null, move in zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True):
            found = found | (stat >= null.threshold(error, len(evidence.nulls)).statistic + slack * move)
        return namespace(evidence.statistic).flatnonzero(found)  # type: ignore[no-any-return]

    def raise_to(self, error: float, high: int) -> float:
        """Raise slacks to the largest, up to ``high``, at which p is ``error`` or less.

        Return the next larger error for which that of any feature may be larger.
        """
        evidence, larger = self.evidence, np.inf
        xp = namespace(evidence.statistic)
        for stat, null, move in zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True):
            asked = null.threshold(error, len(evidence.nulls))
            room = stat - asked.statistic
            if room.dtype.kind == "f" or move != 1:
                room = xp.maximum(self.low, xp.floor(room / move))
            self.slack = xp.maximum(self.slack, xp.minimum(room, high).astype(np.int32, copy=False))
            larger = min(larger, asked.larger)
        return larger

    def counted(self) -> IntArray:
        """Return how many features have each slack, from the lowest on."""
        return on_host(namespace(self.slack).bincount(self.slack - self.low, minlength=self.bins))


class DeviceSlackSearch(SlackSearch):
    """The same for sign tests on a device, where every step has its price: one look is two of them."""

    def __init__(self, evidence: Evidence, low: int, high: int) -> None:
        from sparsemean._kernels.gpu import Slacks

        self.evidence, self.low = evidence, low
        nulls: Any = evidence.nulls
        nonzero = namespace(evidence.statistic).stack([null.nonzero for null in nulls])
        self.there = Slacks(evidence.statistic, nonzero, max(null.most for null in nulls), low=low, high=high)
        self.slack = self.there.slack

    def reaching(self, error: float, slack: int) -> IntArray:
        """Return the features whose combined p-value is at most ``error``, below 1, at ``slack``."""
        return self.there.reaching([least for least, _ in self._asked(error)], slack)  # type: ignore[no-any-return]

    def raise_to(self, error: float, high: int) -> float:
        """Raise slacks; return the next larger error that asks less."""
        asked = self._asked(error)
        self.there.raise_all([least for least, _ in asked], high=high)
        return min(larger for _, larger in asked)

    def _asked(self, error: float) -> list[tuple[IntArray, float]]:
        return [least_majorities(numbers, error, self.there.sizes) for numbers in self.there.numbers]

    def counted(self) -> IntArray:
        """Return how many features have each slack, from the lowest on."""
        return self.there.counted()


def _fewer_than(error: float, level: float, d: int) -> int:
    """Return the largest R with level/(d − R) < error, d if all are."""
    if level < error:
        return d
    rejected = max(0, d - int(level / error) - 2)
    while level / (d - rejected - 1) < error:
        rejected += 1
    return rejected


def _searched(
    evidence: Evidence, rule: Rule, low: int, high: int, features: IntArray | None = None, sure: int = 0
) -> IntArray:
    """Find the last slacks by halving, on the host."""
    if on_device(evidence.statistic):
        found = _searched(on_host(evidence), rule, low, high, on_host(features), sure)
        return namespace(evidence.statistic).asarray(found)  # type: ignore[no-any-return]
    if features is None:
        features = SlackSearch(evidence, low - 1, low).reaching(rule.level, low)
    answer = np.full(evidence.n_features, low - 1, dtype=np.intp)
    answer[features] = halved(
        lambda slacks, group: combined(p_at(evidence, slacks, features[group])),
        rule, (low, high), n_features=features.size, n_hypotheses=evidence.n_features, sure=sure,
    )  # fmt: skip
    return answer


def halved(
    p: Callable[[IntArray, IntArray], FloatArray],
    rule: Rule,
    between: tuple[int, int],
    *,
    n_features: int,
    n_hypotheses: int,
    sure: int = 0,
    at_once: int = AT_ONCE,
) -> IntArray:
    """Return the last slack of ``between`` at which each of some features is selected, one less than all if none.

    ``p(slacks, features)`` are their p-values; of the other hypotheses ``sure`` are known to be selected throughout and
    the rest not. Features and slacks are halved until they are few: those selected in the middle are sure when the
    lower half is searched, and gone when the upper half is.
    """
    low, high = between
    answer = np.full(n_features, low - 1, dtype=np.intp)
    todo = [(np.arange(n_features), low, high, sure)]
    while todo:
        group, first, last, others = todo.pop()
        if not group.size or last < first:
            continue
        if group.size * (last - first + 1) <= at_once:
            slacks = np.arange(first, last + 1)
            answer[group] = first - 1 + rule(p(slacks, group), n_hypotheses, others).sum(axis=1)
            continue
        middle = first if (first, last) == (low, high) else (first + last) // 2
        chosen = rule(p(np.array([middle]), group), n_hypotheses, others)[:, 0]
        answer[group[chosen]] = middle
        todo.append((group[chosen], middle + 1, last, others))
        todo.append((group[~chosen], first, middle - 1, others + int(chosen.sum())))
    return answer


def radius(evidence: Evidence, chosen: Selection, rule: Rule, *, bad_rows: int, n_rows: int) -> IntArray:
    """Return the number of rows that must be replaced before a feature can change sides, a guaranteed lower bound."""
    xp, slack = namespace(chosen.last_slack), chosen.last_slack
    if chosen.below is not None:
        slack = chosen.below
    elif (never := xp.flatnonzero(slack < 0)).size:
        below = max_bad_rows(evidence, rule, low=-n_rows - bad_rows, high=-1, features=never)
        slack = xp.where(slack < 0, below, slack)
    return xp.where(slack >= bad_rows, slack - bad_rows + 1, bad_rows - slack)  # type: ignore[no-any-return]


def select_ranks(evidence: RankEvidence, *, selection: str) -> Selection:
    """Select hypotheses of a family of tests of groups, and say what share of bad rows each would survive."""
    n, rule = evidence.n_features, rule_of(selection, evidence.level, evidence.n_features)
    log_p = evidence.log_p(evidence.at_share(evidence.shares))
    p = probabilities(log_p)
    values = np.ones((3, n))
    alive = np.flatnonzero(p < 1)
    values[:, alive] = np.stack((p[alive], *_adjust(p[alive], n, by=selection == "fdr_by")))
    grid = evidence.grid()
    clean = p if not any(evidence.shares) else probabilities(evidence.log_p(evidence.at_share((0.0, 0.0))))
    candidates = np.flatnonzero(rule(clean[:, np.newaxis], n, 0)[:, 0])  # with more bad rows there are no others
    bads = [evidence.at_share((share, share)) for share in grid]
    steps = _last_steps(lambda step, some: evidence.log_p(bads[step], some), rule, len(bads), candidates, n)
    share, bad = np.full(n, np.nan), np.full(n, -1, dtype=np.intp)
    reached = steps >= 0
    share[candidates[reached]] = grid[steps[reached]]
    numbers = np.array([[sum(bad_rows) for bad_rows in each] for each in bads])
    test = candidates // (n // len(evidence.tests))
    bad[candidates[reached]] = numbers[steps[reached], test[reached]]
    return Selection(
        support=np.flatnonzero(rule(p[:, np.newaxis], n, 0)[:, 0]),
        p_values=values[0],
        p_adjusted=values[1],
        q_values=values[2],
        best=np.zeros(n, dtype=np.intp),
        last_slack=bad,
        log10_p=log_p / np.log(10.0),
        last_share=share,
    )


@dataclass(frozen=True, eq=False)
class Family:
    """Evidence of several tests, and what it selects."""

    evidence: RankEvidence
    selection: Selection
    rule: str

    @cached_property
    def radius(self) -> IntArray:
        """How many rows beyond those allowed for must be replaced before a hypothesis can change sides, at least."""
        return radius_of_ranks(self.evidence, self.selection, selection=self.rule)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyMember:
    """One test of a family, whose hypotheses are ``at`` some places among all."""

    family: Family
    at: slice

    @property
    def radius(self) -> IntArray:
        """That of the features of this test."""
        return self.family.radius[self.at]

    @property
    def selection(self) -> Selection:
        """What is selected in this test."""
        whole, at = self.family.selection, self.at
        within = whole.support[(whole.support >= at.start) & (whole.support < at.stop)]
        assert whole.log10_p is not None
        assert whole.last_share is not None
        return replace(
            whole, support=within - at.start, p_values=whole.p_values[at], p_adjusted=whole.p_adjusted[at],
            q_values=whole.q_values[at], best=whole.best[at], last_slack=whole.last_slack[at],
            log10_p=whole.log10_p[at], last_share=whole.last_share[at],
        )  # fmt: skip


def _last_steps(
    log_p: Callable[[int, IntArray], FloatArray], rule: Rule, n_steps: int, candidates: IntArray, n_hypotheses: int
) -> IntArray:
    """Return the last step, of ever larger p-values, at which each candidate is selected, −1 where at none.

    ``log_p(step, hypotheses)`` are their logarithms. No other hypothesis is selected at any step.
    """

    def p(steps: IntArray, group: IntArray) -> FloatArray:
        return probabilities(np.stack([log_p(step, candidates[group]) for step in steps.tolist()], axis=1))

    return halved(p, rule, (0, n_steps - 1), n_features=candidates.size, n_hypotheses=n_hypotheses, at_once=1)


def radius_of_ranks(evidence: RankEvidence, chosen: Selection, *, selection: str) -> IntArray:
    """Return how many rows beyond those allowed for must be replaced before a selected hypothesis can drop out.

    Of others no more is promised than that one must.
    """
    n, rule = evidence.n_features, rule_of(selection, evidence.level, evidence.n_features)
    allowed = evidence.at_share(evidence.shares)
    most = max(sum(test.contrast.rows) for test in evidence.tests)
    out = np.ones(n, dtype=np.intp)
    steps = _last_steps(
        lambda more, some: evidence.log_p(allowed, some, more=more), rule, most // 2 + 1, chosen.support, n
    )  # fmt: skip
    out[chosen.support] = 1 + np.maximum(steps, 0)
    return out


def by_paper(chosen: Selection, mu: FloatArray, *, alpha: float, min_selected: int) -> Selection:
    """Put the paper's support {i : |μ̂_i| ≥ α} in place; where fewer than ``min_selected`` pass, the largest |μ̂_i|."""
    xp, size = namespace(mu), abs(mu)
    passed = xp.flatnonzero(size >= alpha)
    if passed.size >= min_selected:
        return replace(chosen, support=passed)
    largest = xp.sort(xp.argsort(-size, kind="stable")[:min_selected])
    return replace(chosen, support=largest, filled_up=min_selected - int(passed.size))
