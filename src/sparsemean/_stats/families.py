"""A family of tests of groups: every feature in every test is a hypothesis, numbered test by test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import ClassVar, TypeAlias

import numpy as np

from sparsemean._kernels.memory_layout import count_threads
from sparsemean._stats.decision import Allowed, Rule, probabilities, rejected
from sparsemean._stats.mean_differences import MeanContrast
from sparsemean._stats.rank_evidence import A_TASK, RankTest
from sparsemean._util.plans import BadRows, Shares, Side
from sparsemean._util.records import FloatArray, IntArray

MOST_SHARES = 400
"""Shares of bad rows that are looked at: of more, so many evenly spaced ones."""
ROUNDING = 1e-12
"""Keeps exp of a goal below what it is the logarithm of."""


GroupTest: TypeAlias = RankTest | MeanContrast
"""What a family is made of: tests of every feature in one contrast."""


@dataclass(frozen=True, eq=False)
class RankEvidence:
    """A family of hypotheses: every feature in every test. What is allowed for are bad rows of both groups of each."""

    tests: tuple[GroupTest, ...]
    side: Side = Side.BOTH
    missing: bool = False
    level: float = 0.05
    n_jobs: int | None = None
    xp: ClassVar[ModuleType] = np
    """Decisions lie on the host, wherever counts do."""

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses."""
        return sum(test.n_features for test in self.tests)

    @property
    def n_contrasts(self) -> int:
        """Number of tests."""
        return len(self.tests)

    @cached_property
    def grid(self) -> FloatArray:
        """Shares of bad rows of each group, rising from 0, at which one row more is bad in some group."""
        sizes = {size for test in self.tests for size in test.contrast.sizes}
        shares = np.unique(np.concatenate([np.arange(-(-size // 2)) / size for size in sizes]))
        if shares.size > MOST_SHARES:
            shares = shares[np.unique(np.linspace(0, shares.size - 1, MOST_SHARES).astype(np.intp))]
        return shares

    def at_share(self, shares: Shares) -> Allowed:
        """Return the bad rows of every test for shares of either group."""
        return tuple(test.contrast.bad(shares) for test in self.tests)

    def share_of(self, allowed: Allowed) -> float:
        """Return the share of each group that may be bad: of the group with the smallest."""
        return min(min(bad.shares(test.contrast.rows)) for bad, test in zip(allowed, self.tests, strict=True))

    def step_of(self, allowed: Allowed) -> int | None:
        """Return the step of the grid at which so many rows are bad."""
        step = int(np.searchsorted(self.grid, self.share_of(allowed) - ROUNDING))
        found = step < self.grid.size and self._at_step(step) == tuple(allowed)
        return step if found else None

    def _at_step(self, step: int) -> Allowed:
        """Return the bad rows of every test at a step of the grid."""
        share = float(self.grid[step])
        return self.at_share(Shares(share, share))

    def as_shares(self, steps: IntArray) -> FloatArray:
        """Return steps of the grid as shares of bad rows of each group; NaN for −1."""
        return np.where(steps < 0, np.nan, self.grid[np.maximum(steps, 0)])

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the hypotheses whose p-value is below 1, or ``some``, p and log p."""
        log_p = self._clean if some is None and not any(bad.total for bad in allowed) else self.log_p(allowed, some)
        p = probabilities(log_p)
        if some is not None:
            return some, p, log_p
        alive = np.flatnonzero(p < 1)
        return alive, p[alive], log_p[alive]

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad."""
        return rejected(rule, probabilities(self._clean), self.n_hypotheses)

    @cached_property
    def _clean(self) -> FloatArray:
        """The log p of all hypotheses where no row is bad."""
        return self.log_p((BadRows(0, 0),) * self.n_contrasts)

    def along(self, steps: IntArray, at: IntArray, allowed: Allowed | None) -> FloatArray:
        """Return p of some hypotheses, each at a step of its own: of the grid, or so many rows beyond ``allowed``."""
        out = np.empty(at.size)
        for step in np.unique(steps).tolist():
            here = np.flatnonzero(steps == step)
            bads = self._at_step(step) if allowed is None else allowed
            out[here] = self.log_p(bads, at[here], more=0 if allowed is None else step)
        return probabilities(out)

    def last(self, error: float, at: IntArray, allowed: Allowed | None, above: IntArray | None = None) -> IntArray:
        """Return the last step with p ≤ ``error`` by halving; from known steps on the next one is tried first."""
        steps = self.grid.size if allowed is None else max(test.contrast.rows.total for test in self.tests) // 2 + 1
        low, high = np.full(at.size, -1) if above is None else above.copy(), np.full(at.size, steps - 1)
        near = above is not None
        while (moving := np.flatnonzero(low < high)).size:
            middle = low[moving] + 1 if near else (low[moving] + high[moving] + 1) // 2
            reached = self.along(middle, at[moving], allowed) <= error
            low[moving[reached]], high[moving[~reached]], near = middle[reached], middle[~reached] - 1, False
        return low

    def log_p(self, bads: Allowed, hypotheses: IntArray | None = None, *, more: int = 0) -> FloatArray:
        """Return log p of some hypotheses for so many bad rows of each test and ``more`` anywhere.

        Of all of them, by default, those that no look tells apart are looked at once.
        """
        if hypotheses is None:
            of_tests = []
            for test, bad in zip(self.tests, bads, strict=True):
                few, classes = test.by_class(bad.total) if test.n_features > A_TASK else (test, slice(None))
                of_tests.append(self._of_test(few, bad, None)[classes])
            return np.concatenate(of_tests)
        order = np.argsort(hypotheses, kind="stable")
        rising, start, out = hypotheses[order], 0, np.empty(hypotheses.size)
        for test, bad in zip(self.tests, bads, strict=True):
            first, last = np.searchsorted(rising, (start, start + test.n_features))
            if last > first:
                out[order[first:last]] = self._of_test(test, bad, rising[first:last] - start, more=more)
            start += test.n_features
        return out

    def _of_test(self, test: GroupTest, bad: BadRows, features: IntArray | None, *, more: int = 0) -> FloatArray:
        """Return log p of some features in one test."""
        return test.log_p(
            bad, side=self.side, missing=self.missing, more=more, features=features,
            goal=float(np.log(self.level / self.n_hypotheses)) - ROUNDING, n_threads=count_threads(self.n_jobs),
        )  # fmt: skip
