"""A family of tests of groups: every feature in every test is a hypothesis, numbered test by test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Protocol

import numpy as np

from sparsemean._kernels.memory_layout import count_threads
from sparsemean._stats.decision import Rule, probabilities, rejected
from sparsemean._stats.rank_evidence import A_TASK, BadRows, Contrast
from sparsemean._util.plans import Side
from sparsemean._util.records import FloatArray, IntArray

MOST_SHARES = 400
"""Shares of bad rows that are looked at: of more, so many evenly spaced ones."""
ROUNDING = 1e-12
"""Keeps exp of a goal below what it is the logarithm of."""


class GroupTest(Protocol):
    """What a family asks of a test: its groups, and log p of its features, see `RankTest.log_p`."""

    @property
    def contrast(self) -> Contrast:
        """The groups that are compared."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features."""
        ...

    @property
    def strength(self) -> FloatArray:
        """What stands for the strength of each feature, from −1 to 1."""
        ...

    def by_class(self, reach: int) -> tuple[GroupTest, IntArray]:
        """Return the same of a feature for each class that no look within ``reach`` tells apart; all their classes."""
        ...

    def log_p(
        self,
        bad: BadRows,
        *,
        side: Side = Side.BOTH,
        missing: bool = False,
        more: int = 0,
        goal: float = -np.inf,
        features: IntArray | None = None,
        n_threads: int = 1,
    ) -> FloatArray:
        """Return log p of ``features``, all by default, for so many bad rows in each group and ``more`` anywhere."""
        ...


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

    def at_share(self, shares: tuple[float, float]) -> tuple[BadRows, ...]:
        """Return the bad rows of every test for shares of the second group and of the first."""
        return tuple(test.contrast.bad(shares) for test in self.tests)

    def share_of(self, allowed: tuple[BadRows, ...]) -> float:
        """Return the share of each group that may be bad: of the group with the smallest."""
        groups = ((bad, test.contrast.rows) for bad, test in zip(allowed, self.tests, strict=True))
        return min(m / n for bad, rows in groups for m, n in zip(bad, rows, strict=True))

    def step_of(self, allowed: tuple[BadRows, ...]) -> int | None:
        """Return the step of the grid at which so many rows are bad."""
        step = int(np.searchsorted(self.grid, self.share_of(allowed) - ROUNDING))
        found = step < self.grid.size and self.at_share((float(self.grid[step]),) * 2) == tuple(allowed)
        return step if found else None

    def as_shares(self, steps: IntArray) -> FloatArray:
        """Return steps of the grid as shares of bad rows of each group; NaN for −1."""
        return np.where(steps < 0, np.nan, self.grid[np.maximum(steps, 0)])

    def p_values(
        self, allowed: tuple[BadRows, ...], some: IntArray | None = None
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the hypotheses whose p-value is below 1, or ``some``, p and log p."""
        log_p = self._clean if some is None and not any(map(any, allowed)) else self.log_p(allowed, some)
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
        return self.log_p(self.at_share((0.0, 0.0)))

    def along(self, steps: IntArray, at: IntArray, allowed: tuple[BadRows, ...] | None) -> FloatArray:
        """Return p of some hypotheses, each at a step of its own: of the grid, or so many rows beyond ``allowed``."""
        out = np.empty(at.size)
        for step in np.unique(steps).tolist():
            here = np.flatnonzero(steps == step)
            bads = self.at_share((float(self.grid[step]),) * 2) if allowed is None else allowed
            out[here] = self.log_p(bads, at[here], more=0 if allowed is None else step)
        return probabilities(out)

    def last(
        self, error: float, at: IntArray, allowed: tuple[BadRows, ...] | None, above: IntArray | None = None
    ) -> IntArray:
        """Return the last step with p ≤ ``error`` by halving; from known steps on the next one is tried first."""
        steps = self.grid.size if allowed is None else max(sum(test.contrast.rows) for test in self.tests) // 2 + 1
        low, high = np.full(at.size, -1) if above is None else above.copy(), np.full(at.size, steps - 1)
        near = above is not None
        while (moving := np.flatnonzero(low < high)).size:
            middle = low[moving] + 1 if near else (low[moving] + high[moving] + 1) // 2
            reached = self.along(middle, at[moving], allowed) <= error
            low[moving[reached]], high[moving[~reached]], near = middle[reached], middle[~reached] - 1, False
        return low

    def log_p(self, bads: tuple[BadRows, ...], hypotheses: IntArray | None = None, *, more: int = 0) -> FloatArray:
        """Return log p of some hypotheses for so many bad rows of each test and ``more`` anywhere.

        Of all of them, by default, those that no look tells apart are looked at once.
        """
        if hypotheses is None:
            of_tests = []
            for test, bad in zip(self.tests, bads, strict=True):
                few, classes = test.by_class(sum(bad)) if test.n_features > A_TASK else (test, slice(None))
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
