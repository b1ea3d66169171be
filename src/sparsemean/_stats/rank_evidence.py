"""What counts of groups say of every feature: tests of labels against others, one family of hypotheses over all of them.

A hypothesis is one feature in one test; those of a family are numbered test by test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import rank_tails, rank_tests
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._stats.planning import bad_rows
from sparsemean._util.records import CellCounts, FloatArray, IntArray

BadRows = tuple[int, int]
"""Numbers of rows that may be bad in the first group and in the second."""
SIDES = {"two-sided": 0, "greater": 1, "less": -1}
REST = -1
"""Stands for all labels but the first one."""
MOST_SHARES = 400
"""Shares of bad rows that are looked at: of more, so many evenly spaced ones."""
A_TASK = 256
"""Hypotheses that a thread looks at in one go."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One test: the rows of one label, first, against those of another or of all others, second."""

    first: int
    second: int
    """`REST` for all others."""
    sizes: tuple[int, ...]
    """Rows of every label."""

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels of the second group."""
        others = tuple(label for label in range(len(self.sizes)) if label != self.first)
        return others if self.second == REST else (self.second,)

    @property
    def rows(self) -> tuple[int, int]:
        """Rows of the first group and of the second."""
        return self.sizes[self.first], sum(self.sizes[label] for label in self.labels)

    def bad(self, shares: tuple[float, float]) -> BadRows:
        """Return how many rows of each group are bad where those shares of the second and of the first may be."""
        second, first = shares
        return bad_rows(self.sizes[self.first], first), sum(bad_rows(self.sizes[label], second) for label in self.labels)

    def add(self, bad: BadRows, more: int) -> BadRows:
        """Return ``more`` bad rows where they do most: in the smaller group, each against all of the larger."""
        first, second = self.rows
        return (bad[0] + more, bad[1]) if first <= second else (bad[0], bad[1] + more)


@dataclass(frozen=True, slots=True, eq=False)
class RankTest:
    """The counts behind one test of every feature."""

    contrast: Contrast
    counts: npt.NDArray[np.int64]
    """(features, strata, 10): values, positive and negative ones of either group, wins and ties of positive and of
    negative values."""
    repeats: npt.NDArray[np.int64]
    """(features, 2): values that repeat others, among the positive and among the negative ones."""
    shifted: tuple[RankTest | None, RankTest | None] = (None, None)
    """The counts with the first group moved down, and up, by the smallest effect that matters; None for none."""

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.counts.shape[0])

    @property
    def pairs(self) -> FloatArray:
        """Pairs of rows that were compared, of every feature."""
        return np.sum(self.counts[..., 0] * self.counts[..., 1], axis=1, dtype=np.float64)

    @property
    def delta(self) -> FloatArray:
        """Cliff's delta: pairs in which the first group is larger less those in which it is smaller, as a share."""
        n1, n2, p1, p2, m1, m2, won_p, tied_p, won_m, tied_m = np.moveaxis(self.counts, -1, 0)
        won = won_p + won_m + p1 * (n2 - p2) + (n1 - p1 - m1) * m2
        tied = tied_p + tied_m + (n1 - p1 - m1) * (n2 - p2 - m2)
        net = np.sum(2 * won + tied, axis=1) - self.pairs
        return np.asarray(net / np.maximum(self.pairs, 1.0))

    @property
    def constant(self) -> IntArray:
        """Features that hold one value only."""
        n1, n2, p1, p2, m1, m2, won_p, tied_p, won_m, tied_m = np.moveaxis(self.counts, -1, 0)
        tied = tied_p + tied_m + (n1 - p1 - m1) * (n2 - p2 - m2)
        return np.flatnonzero((np.sum(tied, axis=1) == self.pairs) & (self.pairs > 0))

    def log_p(
        self,
        bad: BadRows,
        *,
        side: int = 0,
        missing: bool = False,
        goal: float = -np.inf,
        features: IntArray | None = None,
        n_threads: int = 1,
    ) -> FloatArray:
        """Return log p of ``features``, all by default, for so many bad rows in each group.

        It is bounded where that reaches ``goal`` and computed closely where the bound alone might miss it.
        """
        at = np.arange(self.n_features) if features is None else features
        look = partial(_log_p, bad=bad, missing=missing, goal=goal, features=at, n_threads=n_threads)
        if self.shifted == (None, None):
            return look(self, side=side)
        looks = [
            look(test, side=sign, only_raw=True)
            for test, sign in zip(self.shifted, (1, -1), strict=True)
            if test is not None and side in (0, sign)
        ]
        return np.minimum(0.0, np.min(looks, axis=0) + np.log(len(looks)))


def _log_p(
    test: RankTest,
    *,
    bad: BadRows,
    side: int,
    missing: bool,
    goal: float,
    features: IntArray,
    n_threads: int,
    only_raw: bool = False,
) -> FloatArray:
    out, n_rows = np.empty(features.size), sum(test.contrast.rows)

    def work(part: slice) -> None:
        chosen = features[part]
        bads = np.broadcast_to(np.array(bad, dtype=np.int64), (chosen.size, 2)).copy()
        rank_tests.log_p_values(
            test.counts[chosen], test.repeats[chosen], n_rows, side, only_raw, bads, missing, goal, out[part]
        )

    tasks = [slice(k, min(k + A_TASK, features.size)) for k in range(0, features.size, A_TASK)]
    list(each(work, tasks, n_threads))
    return out


@dataclass(frozen=True, slots=True, eq=False)
class RankEvidence:
    """A family of hypotheses: every feature in every test."""

    tests: tuple[RankTest, ...]
    shares: tuple[float, float]
    """Shares of bad rows that are allowed for in the second group and in the first."""
    side: int = 0
    missing: bool = False
    level: float = 0.05
    n_jobs: int | None = None

    @property
    def n_features(self) -> int:
        """Number of hypotheses."""
        return sum(test.n_features for test in self.tests)

    def log_p(self, bads: Sequence[BadRows], hypotheses: IntArray | None = None) -> FloatArray:
        """Return log p of some hypotheses for so many bad rows in the groups of each test."""
        out, start = [], 0
        n_threads, goal = count_threads(self.n_jobs), float(np.log(self.level / self.n_features))
        order = None if hypotheses is None else np.argsort(hypotheses, kind="stable")
        for test, bad in zip(self.tests, bads, strict=True):
            features = None
            if hypotheses is not None:
                rising = hypotheses[order]
                first, last = np.searchsorted(rising, (start, start + test.n_features))
                features = rising[first:last] - start
            start += test.n_features
            out.append(
                test.log_p(
                    bad, side=self.side, missing=self.missing, goal=goal, features=features, n_threads=n_threads
                )
            )
        joined = np.concatenate(out)
        if order is None:
            return joined
        back = np.empty_like(joined)
        back[order] = joined
        return back

    def at_share(self, shares: tuple[float, float]) -> list[BadRows]:
        """Return the bad rows of every test for shares of the second group and of the first."""
        return [test.contrast.bad(shares) for test in self.tests]

    def grid(self) -> FloatArray:
        """Return the shares of bad rows of each group, rising from 0, at which one row more is bad in some group."""
        sizes = {size for test in self.tests for size in test.contrast.sizes}
        steps = [np.arange(-(-size // 2)) / size for size in sizes]
        shares = np.unique(np.concatenate(steps))
        if shares.size > MOST_SHARES:
            shares = shares[np.unique(np.linspace(0, shares.size - 1, MOST_SHARES).astype(np.intp))]
        return shares


def probabilities(log_p: FloatArray) -> FloatArray:
    """Return p-values that are never 0."""
    return np.maximum(np.exp(log_p), np.finfo(np.float64).tiny)


def tests_of(counts: CellCounts, contrasts: Sequence[Contrast], sweeps: Sequence[int], n_strata: int) -> list[RankTest]:
    """Put the counts of cells together to those of tests; ``sweeps`` tells which one compared what each test does."""
    n_labels = len(contrasts[0].sizes)
    own = counts.own.reshape(3, n_strata, n_labels, -1)
    out = []
    for contrast, sweep in zip(contrasts, sweeps, strict=True):
        first = own[:, :, contrast.first]
        second = own.sum(axis=2) - first if contrast.second == REST else own[:, :, contrast.second]
        compared = counts.pairs[sweep].reshape(6, n_strata, n_labels, -1)[:, :, contrast.first]
        table = np.empty((own.shape[-1], n_strata, 10), dtype=np.int64)
        for kind in range(3):
            table[..., 2 * kind], table[..., 2 * kind + 1] = first[kind].T, second[kind].T
        for place, kind in enumerate((0, 1, 3, 4)):
            table[..., 6 + place] = compared[kind].T
        repeats = np.ascontiguousarray(compared[[2, 5]].sum(axis=1).T)
        out.append(RankTest(contrast, table, repeats))
    return out


@lru_cache(maxsize=4096)
def critical_rank(first: tuple[int, ...], second: tuple[int, ...], error: float) -> int:
    """Return the smallest u with P(U ≥ u) ≤ ``error``, U of all rows summed over strata of these sizes, by halving."""
    n1, n2 = np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
    scratch = np.empty((5 * n1.size, int(np.minimum(n1, n2).max()) + 64))
    lanes = np.empty((20, rank_tails.LANES))
    total, goal = int(n1 @ n2), np.log(error)
    low, high = total // 2 + 1, total + 1
    while low < high:
        middle = (low + high) // 2
        tail = rank_tails.log_tail(n1, n2, n1 + n2, 2 * middle, False, False, scratch, lanes)
        low, high = (low, middle) if tail <= goal else (middle + 1, high)
    return low


def most_moved(first: Sequence[int], second: Sequence[int], bad: BadRows, *, missing: bool = False) -> int:
    """Return by how much bad rows can move U."""
    n1, n2 = np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
    return int(rank_tests.most_moved(n1, n2, bad[0], bad[1], missing))
