"""What counts of groups say of every feature: tests of labels against others, one family of hypotheses over all.

A hypothesis is one feature in one test; those of a family are numbered test by test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.memory_layout import each
from sparsemean._stats.arrays import column_classes, namespace, on_host
from sparsemean._stats.nulls import log_u_tails
from sparsemean._stats.planning import bad_rows
from sparsemean._util.plans import BadRows, GroupSizes, Shares, Side
from sparsemean._util.records import CountArray, FloatArray, IntArray

Counted = npt.NDArray[np.int64]
REST = -1
"""Stands for all labels but the one that is compared with them."""
A_TASK = 4096
"""Hypotheses that a thread looks at in one go."""
THREADED = 1_000_000
"""Hypotheses from which on these are shared out to threads: most of the work is small steps, done one at a time."""
LOG_2 = float(np.log(2.0))
UPPER, LOWER, RAW = 0, 1, 2
"""The test on max(x, 0), on min(x, 0), and on x itself."""
BLOCK_SHARE = 4
"""Fewer than a quarter of the values on one side of zero: a test counts them among the zeros."""
NONE_SHARE = 16
"""Fewer than a sixteenth: it is the only one."""
REPEAT_SHARE = 10
"""Fewer than a tenth of the values that are not in the block repeat others: their ties count against rejection, and the
null is that without. Fewer than a tenth of all are zero: zeros are values like others."""
CLOSE = 2.0
"""By so much the logarithm of the bound may miss a goal that the largest tail itself reaches."""
MOST_LOOKS = 64
"""Bad rows for which every A is looked at, at most."""


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


@dataclass(frozen=True, slots=True)
class WorstCase:
    """What a p-value is the largest of: all data that so many bad rows could have left."""

    bad: BadRows
    more: int = 0
    """Rows of either group, beyond these."""
    side: Side = Side.BOTH
    missing: bool = False
    """Whether a row may have been hidden, or put where there was none."""
    goal: float = -np.inf
    """What log p is where its bound misses that and the largest p-value reaches it."""

    @property
    def max_replaced(self) -> int:
        """Rows that may have been replaced in all."""
        return self.bad.total + self.more


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
        alone[two_values(self.counts, self.repeats)[0]] = False
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
                beyond = replace(case, bad=BadRows(0, 0))
                clean = np.maximum(clean, self._largest(beyond, features, n_threads, only_raw=True))
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


@dataclass(frozen=True, slots=True, eq=False)
class WorstCaseNull:
    """The largest p-values of some features that a case could have led to; see docs/guarantees.md.

    Which null applies is decided by numbers that labels do not enter: how many values are negative, how many positive,
    and how many repeat others. A bad row moves each of them by one, so every rule within reach of the bad rows is
    looked at and the largest p-value is taken.
    """

    counts: Counted
    repeats: Counted
    rows: int
    case: WorstCase

    def log_p(self, *, only_raw: bool = False) -> FloatArray:
        """Return the largest log p of every rule that the bad rows could have led to; raw values alone if asked for."""
        values, above, below = (self.counts[..., k : k + 2].sum(axis=(1, 2)) for k in (0, 2, 4))
        zeros = (self.counts[..., :2] - self.counts[..., 2:4] - self.counts[..., 4:6]).sum(axis=2)
        alike = self.repeats.sum(axis=1) + np.maximum(zeros - 1, 0).sum(axis=1)
        there, none, none_above = values > 0, below + self.case.max_replaced == 0, above + self.case.max_replaced == 0
        if only_raw:  # where one group lies lower, labels enter how many values repeat: ties always count ½
            return np.where(there, self._block(RAW, True, self.counts, np.full(there.size, self.case.goal)), 0.0)
        two, *groups = two_values(self.counts, self.repeats)
        exact = np.isin(np.arange(there.size), two if self.case.max_replaced == 0 else [])
        (next_to_none, few, many), (hardly_any, some, most) = self._shares(below), self._shares(above)
        block = REPEAT_SHARE * (zeros.sum(axis=1) + self.case.max_replaced) >= self.rows
        rules = {
            (RAW, RAW): (REPEAT_SHARE * (zeros.sum(axis=1) - self.case.max_replaced) < self.rows) | (many & most),
            (UPPER, LOWER): block & (next_to_none | few) & (hardly_any | some) & ~none & ~none_above,
            (UPPER, UPPER): block & ((next_to_none & most) | none),
            (UPPER, RAW): block & few & most,
            (LOWER, LOWER): block & ((many & hardly_any) | none_above),
            (LOWER, RAW): block & many & some,
        }
        # Of two tests twice the smaller p counts.
        halved = np.any([reached for (one, other), reached in rules.items() if one != other], axis=0)
        goal = np.where(halved, self.case.goal - LOG_2, self.case.goal)
        wanted = [
            there & ~exact & np.any([rules[pair] for pair in rules if kind in pair], axis=0)
            for kind in (UPPER, LOWER, RAW)
        ]
        tests = (
            self._rule(UPPER, self.repeats[:, 0], above, wanted[UPPER], goal),
            self._rule(LOWER, self.repeats[:, 1], below, wanted[LOWER], goal),
            self._rule(RAW, alike, values, wanted[RAW], goal),
        )
        log_p = np.full(there.size, -np.inf)
        for (one, other), reached in rules.items():
            both = np.minimum(0.0, np.minimum(tests[one], tests[other]) + (LOG_2 if one != other else 0.0))
            log_p = np.where(reached, np.maximum(log_p, both), log_p)
        if exact.any():
            log_p[exact] = fisher(self.case.side, *groups)
        return np.where(there, log_p, 0.0)

    def _shares(self, values: IntArray) -> tuple[npt.NDArray[np.bool_], ...]:
        """Say whether bad rows can have made the number of values next to nothing, few, or many."""
        least, most = values - self.case.max_replaced, values + self.case.max_replaced
        next_to_none = NONE_SHARE * least < self.rows
        few = (BLOCK_SHARE * least < self.rows) & (NONE_SHARE * most >= self.rows)
        return next_to_none, few, BLOCK_SHARE * most >= self.rows

    def _rule(
        self, kind: int, repeats: IntArray, counted: IntArray, wanted: npt.NDArray[np.bool_], goal: FloatArray
    ) -> FloatArray:
        """Return the larger log p of the two ways to count ties, where bad rows could have led to either.

        ``counted`` are the values that are not in the block, of which ``repeats`` repeat others.
        """
        m, out = self.case.max_replaced, np.full(wanted.size, -np.inf)
        for halves, reached in (
            (False, REPEAT_SHARE * (repeats - m) < counted + m),
            (True, REPEAT_SHARE * (repeats + m) >= counted - m),
        ):
            at = np.flatnonzero(wanted & reached & (out < 0.0))
            if at.size:
                counts = self.counts if at.size == wanted.size else self.counts[at]
                out[at] = np.maximum(out[at], self._block(kind, halves, counts, goal[at]))
        return out

    def _block(self, kind: int, halves: bool, counts: Counted, goal: FloatArray) -> FloatArray:
        """Return log p of one null; see `RankTest.log_p` for the goal."""
        m = self.case.max_replaced
        first = np.full(counts.shape[0], self.case.side is not Side.DOWN)
        if self.case.side is Side.BOTH:
            w, *_ = doubled_statistic(counts, kind, first, halves=True)
            first = w.sum(axis=1) >= np.sum(counts[..., 0] * counts[..., 1], axis=1)
        w, A, n1, n2 = doubled_statistic(counts, kind, first, halves=halves)
        moved = most_moved(counts[..., 0], counts[..., 1], self.case.bad)
        # Where all values are there none can have been hidden, but for what rows beyond those allowed for would do.
        gaps = self.case.missing & ((counts[..., :2].sum(axis=(1, 2)) < self.rows) | (self.case.more > 0))
        if gaps.any():
            moved = np.where(gaps, most_moved(counts[..., 0], counts[..., 1], self.case.bad, missing=True), moved)
        moved = moved + self.case.more * counts[..., :2].max(axis=(1, 2))
        place, sides = w.sum(axis=1) - 2 * moved, math.log(self.case.side.number)
        unknown = m > 0 and kind != RAW
        most = np.minimum(A + m, n1 + n2) if unknown else A
        log_p = np.minimum(0.0, sides + log_u_tails(n1, n2, most, place, bound=unknown, halves=halves))
        if unknown and counts.shape[1] == 1 and m <= MOST_LOOKS:
            at = np.flatnonzero((log_p > goal) & (log_p < goal + CLOSE) & ~gaps)
            reached = at[self._reached(n1[at], n2[at], most[at], place[at], goal=goal[at] - sides, halves=halves)]
            log_p[reached] = goal[reached]  # and no less, or p could fall as m grows
        return log_p

    def _reached(
        self, n1: IntArray, n2: IntArray, most: IntArray, w: IntArray, *, goal: FloatArray, halves: bool
    ) -> npt.NDArray[np.bool_]:
        """Say where the tails of every A, from ``most`` down, that bad rows could have left reach the goal."""
        m, out = self.case.max_replaced, np.full(w.size, -np.inf)
        for fewer in range(2 * m + 1):
            at = np.flatnonzero((out <= goal) & (most[:, 0] >= fewer))
            if not at.size:
                break
            tail = log_u_tails(n1[at], n2[at], most[at] - fewer, w[at], bound=False, halves=halves)
            out[at] = np.maximum(out[at], tail)
        return np.asarray(out <= goal)


def doubled_statistic(counts: Counted, kind: int, first: npt.NDArray[np.bool_], *, halves: bool) -> tuple[Counted, ...]:
    """Return 2U of each stratum for the group that is asked for, A, and its size and the other's as the null has them.

    Ties of values that are not zero count ½ with ``halves``, else nothing; zeros tied with zeros always count ½ where
    they are a block.
    """
    n1, n2, p1, p2, m1, m2, won_p, tied_p, won_m, tied_m = np.moveaxis(counts, -1, 0)
    swap = ~first[:, np.newaxis]
    won_p = np.where(swap, p1 * p2 - won_p - tied_p, won_p)
    won_m = np.where(swap, m1 * m2 - won_m - tied_m, won_m)
    n1, n2 = np.where(swap, n2, n1), np.where(swap, n1, n2)
    p1, p2 = np.where(swap, p2, p1), np.where(swap, p1, p2)
    m1, m2 = np.where(swap, m2, m1), np.where(swap, m1, m2)
    if kind == UPPER:
        return 2 * won_p + (n1 + p1) * (n2 - p2) + halves * tied_p, p1 + p2, n1, n2
    if kind == LOWER:  # turned around, the zeros lie at the bottom again, and what won has lost
        return 2 * won_m + (n1 - m1) * (n2 + m2) + halves * tied_m, m1 + m2, n2, n1
    z1, z2 = n1 - p1 - m1, n2 - p2 - m2
    won = won_p + won_m + p1 * (n2 - p2) + z1 * m2
    return 2 * won + halves * (tied_p + tied_m + z1 * z2), n1 + n2, n1, n2


def two_values(counts: Counted, repeats: Counted) -> tuple[IntArray, ...]:
    """Return which features hold two values, of different sign, and for them n₁, n₂ and the rows with the larger one.

    Within strata there are none: values are counted in each.
    """
    n, p, m = (counts[..., k : k + 2].sum(axis=1) for k in (0, 2, 4))
    above, below = p.sum(axis=1) - repeats[:, 0], m.sum(axis=1) - repeats[:, 1]
    zeros = (n - p - m).sum(axis=1) > 0
    xp = namespace(counts)
    two = (above < 2) & (below < 2) & (above + below + zeros == 2) & (counts.shape[1] == 1)
    at = xp.flatnonzero(two)
    larger = xp.where((above > 0)[:, np.newaxis], p, n - m)
    return at, *n[at].T, *larger[at].T


def fisher(side: Side, n1: IntArray, n2: IntArray, a1: IntArray, a2: IntArray) -> FloatArray:
    """Return log p of Fisher's exact test, a₁ of n₁ rows and a₂ of n₂ having the larger of two values."""
    from sparsemean._kernels.rank_tails import log_hypergeometric_tail

    first = side.pick(a1 * n2 >= a2 * n1, np.full(a1.size, True), np.full(a1.size, False))
    groups = np.where(first, (n1, n2, a1), (n2, n1, a2))
    tails = [log_hypergeometric_tail(*row) for row in np.stack((*groups, a1 + a2), axis=1).tolist()]
    return np.minimum(0.0, np.array(tails) + math.log(side.number))


def most_moved(n1: IntArray, n2: IntArray, bad: BadRows, *, missing: bool = False) -> IntArray:
    """Return by how much bad rows can move U of n₁ rows of the label and n₂ of the reference: (items, strata), summed.

    With ``missing`` values a bad row may have been hidden, or put where there was none.
    """
    if missing:
        return np.asarray(bad.label * (n2.max(axis=1) + bad.reference) + bad.reference * n1.max(axis=1))
    if n1.shape[1] == 1:
        b1, b2 = np.minimum(bad.label, n1[:, 0]), np.minimum(bad.reference, n2[:, 0])
        return np.asarray(b1 * n2[:, 0] + b2 * n1[:, 0] - b1 * b2)
    return _largest_sum(n1, n2, bad.label) + _largest_sum(n2, n1, bad.reference)


def _largest_sum(own: IntArray, other: IntArray, bad: int) -> IntArray:
    """Return the sum of the ``bad`` largest of the numbers other_h, of which each is there own_h times."""
    order = np.argsort(-other, axis=1, kind="stable")
    there, worth = np.take_along_axis(own, order, axis=1), np.take_along_axis(other, order, axis=1)
    before = np.cumsum(there, axis=1) - there
    return np.asarray(np.sum(np.clip(bad - before, 0, there) * worth, axis=1))
