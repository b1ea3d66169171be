"""A family of tests of groups, what it selects, and what one test of it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sparsemean._stats.nulls import probabilities
from sparsemean._stats.rank_evidence import GroupTest, RankEvidence
from sparsemean._stats.selection import Rule, adjust, halved, rule_of
from sparsemean._util.records import FloatArray, IntArray, Selection


def select_ranks(evidence: RankEvidence, *, selection: str, before: Selection | None = None) -> Selection:
    """Select hypotheses of a family of tests of groups, and say what share of bad rows each would survive.

    ``before`` is what was selected for other shares that are allowed for; what survives was then searched already.
    """
    n, rule = evidence.n_features, rule_of(selection, evidence.level, evidence.n_features)
    few, classes = evidence.by_class()
    log_p = few.log_p(evidence.allowed)
    p = probabilities(log_p)
    values = np.ones((3, p.size))
    alive, many = np.flatnonzero(p < 1), np.bincount(classes, minlength=p.size)
    values[:, alive] = np.stack((p[alive], *adjust(p[alive], n, by=selection == "fdr_by", many=many[alive])))
    if before is None:
        share, last = _survived(evidence, rule, few, classes, p)
    else:
        share, last = _survived_too(evidence, rule, before)
    return Selection(
        support=_rejected(rule, p, classes),
        p_values=values[0][classes],
        p_adjusted=values[1][classes],
        q_values=values[2][classes],
        best=np.zeros(n, dtype=np.intp),
        last_slack=last,
        log10_p=(log_p / np.log(10.0))[classes],
        last_share=share,
    )


def _survived(
    evidence: RankEvidence, rule: Rule, few: RankEvidence, classes: IntArray, p: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return the largest share of bad rows at which each hypothesis is selected, NaN for none, and their number."""
    n, grid = evidence.n_features, evidence.grid()
    bad = any(map(any, evidence.allowed))
    clean = probabilities(few.log_p(evidence.at_share((0.0, 0.0)))) if bad else p
    candidates = _rejected(rule, clean, classes)  # with more bad rows there are no others
    bads = [evidence.at_share((share, share)) for share in grid]
    steps = _last_steps(lambda step, some: evidence.log_p(bads[step], some), rule, len(bads), candidates, n)
    share, last = np.full(n, np.nan), np.full(n, -1, dtype=np.intp)
    reached = steps >= 0
    share[candidates[reached]] = grid[steps[reached]]
    numbers = np.array([[sum(bad_rows) for bad_rows in each] for each in bads])
    test = candidates // (n // len(evidence.tests))
    last[candidates[reached]] = numbers[steps[reached], test[reached]]
    return share, last


def _survived_too(evidence: RankEvidence, rule: Rule, before: Selection) -> tuple[FloatArray, IntArray]:
    """Return the same as `_survived`, from what was found before: only what is allowed for now is looked at besides."""
    assert before.last_share is not None
    share, last, n = before.last_share.copy(), before.last_slack.copy(), evidence.n_features
    candidates, allowed = np.flatnonzero(~np.isnan(share)), min(evidence.shares)
    bads = evidence.at_share((allowed, allowed))
    p = probabilities(evidence.log_p(bads, candidates))
    more = candidates[rule(p[:, np.newaxis], n, 0)[:, 0] & (share[candidates] < allowed)]
    share[more] = allowed
    last[more] = np.array([sum(bad_rows) for bad_rows in bads])[more // (n // len(bads))]
    return share, last


def _rejected(rule: Rule, p: FloatArray, classes: IntArray) -> IntArray:
    """Return the hypotheses that are rejected, given the p-values of their classes."""
    small = np.flatnonzero((p <= rule.level)[classes])  # no other is
    return small[rule(p[classes[small], np.newaxis], classes.size, 0)[:, 0]]


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
    def test(self) -> GroupTest:
        """The test itself."""
        tests = self.family.evidence.tests
        return tests[int(self.at.start) // int(self.at.stop - self.at.start)]

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
    allowed = evidence.allowed
    most = max(sum(test.contrast.rows) for test in evidence.tests)
    out = np.ones(n, dtype=np.intp)
    steps = _last_steps(
        lambda more, some: evidence.log_p(allowed, some, more=more), rule, most // 2 + 1, chosen.support, n
    )  # fmt: skip
    out[chosen.support] = 1 + np.maximum(steps, 0)
    return out
