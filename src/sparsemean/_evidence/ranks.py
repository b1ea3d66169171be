"""What counts of groups say of every feature: tests of labels against others, one family of hypotheses over all.

A hypothesis is one feature in one test; those of a family are numbered test by test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsemean._evidence.worst_case import REPEAT_SHARE, Counted, WorstCase, WorstCaseNull, clean_bound
from sparsemean._kernels.memory_layout import each
from sparsemean._stats.arrays import column_classes, namespace, on_host
from sparsemean._stats.planning import bad_rows
from sparsemean._util.plans import BadRows, GroupSizes, Shares, Side
from sparsemean._util.records import CountArray, FloatArray, IntArray

REST = -1
"""Stands for all labels but the one that is compared with them."""
A_TASK = 4096
"""Hypotheses that a thread looks at in one go."""
THREADED = 1_000_000
"""Hypotheses from which on these are shared out to threads: most of the work is small steps, done one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One test: the rows of one label against those of another, or of all others."""

    reference: int
    """`REST` for all others."""
    label: int
    sizes: tuple[int, ...]
    """Rows of every label."""

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels of the reference."""
        others = tuple(label for label in range(len(self.sizes)) if label != self.label)
        return others if self.reference == REST else (self.reference,)

    @property
    def rows(self) -> GroupSizes:
        """Rows of either group."""
        return GroupSizes(sum(self.sizes[label] for label in self.labels), self.sizes[self.label])

    def bad(self, shares: Shares) -> BadRows:
        """Return how many rows of each group are bad where those shares of them may be."""
        of_labels = [bad_rows(self.sizes[label], shares.reference) for label in self.labels]
        return BadRows(sum(of_labels), bad_rows(self.sizes[self.label], shares.label))

    def rows_of(self, codes: IntArray, among: npt.NDArray[np.bool_] | bool = True) -> tuple[IntArray, IntArray]:
        """Return the rows of the label and of the reference, given the label of every row."""
        label = codes == self.label
        other = ~label if self.reference == REST else codes == self.reference
        return np.flatnonzero(label & among), np.flatnonzero(other & among)


@dataclass(frozen=True, slots=True, eq=False)
class RankTest:
    """The counts behind one test of every feature."""

    contrast: Contrast
    counts: Counted
    """(features, strata, 10): values, positive and negative ones of either group, wins and ties of positive and of
    negative values."""
    repeats: Counted
    """(features, 2): values that repeat others, among the positive and among the negative ones."""
    mean_test: ClassVar[None] = None
    """Not of means: see `MeanContrast`."""
    shifted: tuple[RankTest, ...] = ()
    """The counts with the first group moved down, and up, by the smallest effect that matters, where there is one."""
    clean: FloatArray | None = None
    """log p where no row is bad, see `exact_ranks`; None where that is not another test."""

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.counts.shape[0])

    def _outcomes(self) -> tuple[Counted, Counted, Counted]:
        """Return, of every stratum and feature, how many pairs there are, are won by the first group, and are tied."""
        n1, n2, p1, p2, m1, m2, won_p, tied_p, won_m, tied_m = self.counts.T
        z1, z2 = n1 - p1 - m1, n2 - p2 - m2
        return n1 * n2, won_p + won_m + p1 * (n2 - p2) + z1 * m2, tied_p + tied_m + z1 * z2

    @property
    def strength(self) -> FloatArray:
        """Cliff's delta: pairs in which the first group is larger less those in which it is smaller, as a share."""
        pairs, won, tied = (part.sum(axis=0, dtype=np.float64) for part in self._outcomes())
        return np.asarray(on_host((2 * won + tied - pairs) / namespace(pairs).maximum(pairs, 1.0)))

    @property
    def constant(self) -> IntArray:
        """Features that hold one value only."""
        pairs, _, tied = (part.sum(axis=0, dtype=np.float64) for part in self._outcomes())
        return on_host(namespace(pairs).flatnonzero((tied == pairs) & (pairs > 0)))

    @property
    def missing(self) -> CountArray:
        """Values of each feature that are missing."""
        return np.asarray(sum(self.contrast.rows) - on_host(self.counts.T[:2].sum(axis=(0, 1))), dtype=np.int32)

    def by_class(self, max_replaced: int) -> tuple[RankTest, IntArray]:
        """Return the same of one feature for each class that nothing tells apart up to so many rows; all their classes.

        Where zeros are values like others no more counts than which pairs were won and tied, and how many values
        repeat others: as if all values were positive. Few ties are lost pairs for whoever wins. Of features that have
        many different values there are far more than classes. What is returned lies on the host.
        """
        if self.shifted:
            return self, np.arange(self.n_features)
        xp, rows = namespace(self.counts), sum(self.contrast.rows)
        pairs, won, tied = self._outcomes()
        n1, n2 = own = self.counts.T[:2]
        zeros = (own - self.counts.T[2:4] - self.counts.T[4:6]).sum(axis=0)
        alike = self.repeats.T.sum(axis=0) + xp.maximum(zeros - 1, 0).sum(axis=0)
        alone = REPEAT_SHARE * (zeros.sum(axis=0) + max_replaced) < rows  # then values as they are make the only rule
        few = (REPEAT_SHARE * (alike + max_replaced) < own.sum(axis=(0, 1)) - max_replaced) & (len(n1) == 1)
        up, down = 2 * won > pairs, 2 * (won + tied) < pairs
        winning = xp.where(up, won, xp.where(down, won + tied, pairs // 2))
        tied, alike = xp.where(few, xp.where(up | down, 0, pairs % 2), tied), xp.where(few, 0, alike)
        won = xp.where(few, winning, won)
        plain = zip((n1, n2, n1, n2, 0, 0, won, tied, 0, 0), self.counts.T, strict=True)
        table = xp.stack([xp.where(alone, new, old) for new, old in plain])
        repeats = xp.where(alone, xp.stack((alike, 0 * alike)), self.repeats.T)
        members, classes = column_classes(xp.concatenate((table.reshape(-1, repeats.shape[1]), repeats)))
        chosen = on_host((table[..., members], repeats[:, members]))
        return replace(self, counts=chosen[0].T, repeats=chosen[1].T, clean=None), on_host(classes)

    def log_p(self, case: WorstCase, features: IntArray | None = None, *, n_threads: int = 1) -> FloatArray:
        """Return log p of ``features``, all by default. Where it is bounded it may be the goal of the case instead."""
        clean = None if self.clean is None else self.clean if features is None else self.clean[features]
        if clean is not None and not case.max_replaced:
            return clean
        if not self.shifted:
            found = self._largest(case, features, n_threads)
            if case.more and clean is not None:
                there = slice(None) if features is None else namespace(self.counts).asarray(features)
                clean = np.maximum(clean, clean_bound(on_host(self.counts[there]).astype(np.int64), case))
            return found if clean is None else np.maximum(found, clean)
        looks = [
            test._largest(replace(case, side=one), features, n_threads, only_raw=True)
            for test, one in zip(self.shifted, (Side.UP, Side.DOWN), strict=True)
            if case.side in (Side.BOTH, one)
        ]
        return np.asarray(np.minimum(0.0, np.min(looks, axis=0) + np.log(len(looks))))

    def _largest(
        self, case: WorstCase, features: IntArray | None, n_threads: int, *, only_raw: bool = False
    ) -> FloatArray:
        there = slice(None) if features is None else namespace(self.counts).asarray(features)
        counts, repeats = on_host((self.counts[there], self.repeats[there]))

        def work(part: slice) -> FloatArray:
            wide, alike = counts[part].astype(np.int64), repeats[part].astype(np.int64)
            return WorstCaseNull(wide, alike, sum(self.contrast.rows), case).log_p(only_raw=only_raw)

        tasks = [slice(k, k + A_TASK) for k in range(0, counts.shape[0], A_TASK)]
        threads = n_threads if counts.shape[0] >= THREADED else 1
        return np.concatenate([np.empty(0), *each(work, tasks, threads)])
