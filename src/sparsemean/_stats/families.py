"""A family of tests of groups: every feature in every test is a hypothesis, numbered test by test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sparsemean._kernels.memory_layout import count_threads
from sparsemean._stats.decision import Bisected, Rule, probabilities, rejected
from sparsemean._stats.rank_evidence import A_TASK, BadRows, Contrast
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
    def n_strata(self) -> int:
        """Number of strata."""
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
        side: int = 0,
        missing: bool = False,
        more: int = 0,
        goal: float = -np.inf,
        features: IntArray | None = None,
        n_threads: int = 1,
    ) -> FloatArray:
        """Return log p of ``features``, all by default, for so many bad rows in each group and ``more`` anywhere."""
        ...


@dataclass(frozen=True, eq=False)
class RankEvidence(Bisected):
    """A family of hypotheses: every feature in every test. What is allowed for are bad rows of both groups of each."""

    tests: tuple[GroupTest, ...]
    side: int = 0
    missing: bool = False
    level: float = 0.05
    n_jobs: int | None = None

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses."""
        return sum(test.n_features for test in self.tests)

    @property
    def n_contrasts(self) -> int:
        """Number of tests."""
        return len(self.tests)

    @property
    def xp(self) -> Any:
        """Decisions lie on the host, wherever counts do."""
        return np

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

    def n_steps(self, allowed: tuple[BadRows, ...] | None) -> int:
        """Return the number of steps of the grid, or of rows beyond those allowed for."""
        return self.grid.size if allowed is None else max(sum(test.contrast.rows) for test in self.tests) // 2 + 1

    def p_values(
        self, allowed: tuple[BadRows, ...], some: IntArray | None = None
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the hypotheses whose p-value is below 1, or ``some``, p and log p."""
        log_p = self.log_p(allowed, some)
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
        return self._log_p_by_class(self.at_share((0.0, 0.0)))

    def along(self, steps: IntArray, at: IntArray, allowed: tuple[BadRows, ...] | None) -> FloatArray:
        """Return p of some hypotheses, each at a step of its own: of the grid, or so many rows beyond ``allowed``."""
        out = np.empty(at.size)
        for step in np.unique(steps).tolist():
            here = np.flatnonzero(steps == step)
            bads = self.at_share((float(self.grid[step]),) * 2) if allowed is None else allowed
            out[here] = self.log_p(bads, at[here], more=0 if allowed is None else step)
        return probabilities(out)

    def log_p(self, bads: tuple[BadRows, ...], hypotheses: IntArray | None = None, *, more: int = 0) -> FloatArray:
        """Return log p of some hypotheses, all by default, for so many bad rows of each test and ``more`` anywhere."""
        if hypotheses is None:
            return self._log_p_by_class(bads) if any(map(any, bads)) else self._clean
        order = np.argsort(hypotheses, kind="stable")
        rising, start, out = hypotheses[order], 0, np.empty(hypotheses.size)
        for test, bad in zip(self.tests, bads, strict=True):
            first, last = np.searchsorted(rising, (start, start + test.n_features))
            if last > first:
                out[order[first:last]] = self._of_test(test, bad, rising[first:last] - start, more=more)
            start += test.n_features
        return out

    def _log_p_by_class(self, bads: tuple[BadRows, ...]) -> FloatArray:
        """Return log p of all hypotheses; those that no look tells apart are looked at once."""
        out = []
        for test, bad in zip(self.tests, bads, strict=True):
            few, classes = test.by_class(sum(bad)) if test.n_features > A_TASK else (test, slice(None))
            out.append(self._of_test(few, bad, None)[classes])
        return np.concatenate(out)

    def _of_test(self, test: GroupTest, bad: BadRows, features: IntArray | None, *, more: int = 0) -> FloatArray:
        """Return log p of some features in one test."""
        options: dict[str, Any] = {
            "side": self.side, "missing": self.missing, "features": features, "n_threads": count_threads(self.n_jobs),
            "goal": float(np.log(self.level / self.n_hypotheses)) - ROUNDING,
        }  # fmt: skip
        found = test.log_p(bad, more=more, **options)
        if test.n_strata > 1 and (more or any(bad)):
            # Within strata the bound for bad rows may be less than twice the exact tail without any.
            found = np.maximum(found, test.log_p((0, 0), more=0, **options))
        return found
