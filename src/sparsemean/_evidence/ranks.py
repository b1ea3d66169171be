"""What counts of groups say of every feature: tests of labels against others, one family of hypotheses over all.

A hypothesis is one feature in one test; those of a family are numbered test by test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.table import Table
from sparsemean._evidence.common_values import MODE_SHARE, NOTHING_READ, CommonValues, read
from sparsemean._evidence.worst_case import (
    BOUNDED,
    DECIDED,
    LOWER,
    RAW,
    REPEAT_SHARE,
    UPPER,
    BadOfEach,
    Counted,
    WorstCase,
    WorstCaseNull,
    clean_bound,
    doubled_statistic,
    fisher,
    fisher_bound,
    label_is_asked,
    rare_repeats,
    two_values,
)
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._kernels.rounding import snapped
from sparsemean._kernels.tied_tails import log_tied_tail
from sparsemean._stats.arrays import column_classes, dropna, namespace, on_host
from sparsemean._stats.group_ranks import log_u_tails
from sparsemean._stats.planning import bad_rows
from sparsemean._util.plans import BadRows, GroupSizes, Question, Shares, Side
from sparsemean._util.records import CountArray, FloatArray, IntArray

REST = -1
"""Stands for all labels but the one that is compared with them."""
EACH = -3
"""Stands for every single one of them. No label is below 0."""
A_TASK = 4096
"""Hypotheses that a thread looks at in one go."""
THREADED = 1_000_000
"""Hypotheses from which on these are shared out to threads: most of the work is small steps, done one at a time."""
Flags = npt.NDArray[np.bool_]
Levels = list[tuple[IntArray, IntArray]]
"""Of every stratum doubled midranks, rising, and how many rows have each."""
FEW_HYPOTHESES = 2000
"""Up to so many every p-value that may be below the level is exact."""
WINDOW = math.log(100.0)
"""Of more, under Holm's rule, those up to a hundred times its first threshold: others may be too large."""
SELECTS_NOTHING = math.log(1.02)
"""By so much more than the level, a p-value may be approximate."""
SMALL, MARGIN, OFF = 200, math.log(1.2), math.log(4.0)
"""By so much a normal approximation may be off, and where no more than so many rows are there. There it is not shown,
and of no more hypotheses all tails are exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One test: the rows of one label against those of another, or of all others."""

    reference: int
    """`REST` for all others, `EACH` for every single other."""
    label: int
    sizes: tuple[int, ...]
    """Rows of every label."""

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels of the reference."""
        others = tuple(label for label in range(len(self.sizes)) if label != self.label)
        return others if self.reference < 0 else (self.reference,)

    @property
    def singles(self) -> tuple[Contrast, ...]:
        """One test against every single other label."""
        return tuple(replace(self, reference=other) for other in self.labels)

    @property
    def rows(self) -> GroupSizes:
        """Rows of either group."""
        return GroupSizes(sum(self.sizes[label] for label in self.labels), self.sizes[self.label])

    def bad(self, shares: Shares) -> BadRows:
        """Return how many rows of each group are bad where those shares of them may be."""
        of_labels = [bad_rows(self.sizes[label], shares.reference) for label in self.labels]
        return BadRows(sum(of_labels), bad_rows(self.sizes[self.label], shares.label))

    def bad_of_singles(self, bad: BadRows) -> list[BadRows]:
        """Return the bad rows of `singles`: the least share of every other label that is so many rows in all."""
        sizes, wanted = [self.sizes[label] for label in self.labels], bad.reference
        least, most = (max(0, wanted - less) / sum(sizes) for less in (len(sizes), 0))
        shares = sorted({k / n for n in sizes for k in range(math.floor(least * n), math.ceil(most * n) + 1)})
        parts = ([bad_rows(n, share) for n in sizes] for share in shares)
        found = next(part for part in parts if sum(part) >= wanted)  # at the last one at least, where wanted / Σn is
        return [BadRows(reference, bad.label) for reference in found]

    def rows_of(self, codes: IntArray, among: npt.NDArray[np.bool_] | bool = True) -> tuple[IntArray, IntArray]:
        """Return the rows of the label and of the reference, given the label of every row."""
        label = codes == self.label
        other = ~label if self.reference < 0 else codes == self.reference
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
    nearest: ClassVar[IntArray] = np.zeros(1, dtype=np.intp)
    """Which of `Contrast.singles` estimates are against: there is one. See `EachTest`."""
    shifted: tuple[RankTest, ...] = ()
    """The counts with the first group moved down, and up, by the smallest effect that matters, where there is one."""
    clean: FloatArray | None = None
    """log p where no row is bad, see `exact_log_p`; None where that is not another test."""
    common: CommonValues = NOTHING_READ

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
        if not max_replaced:
            few = alike <= rare_repeats(n1.T, n2.T)
        up, down = 2 * won > pairs, 2 * (won + tied) < pairs
        winning = xp.where(up, won, xp.where(down, won + tied, pairs // 2))
        tied, alike = xp.where(few, xp.where(up | down, 0, pairs % 2), tied), xp.where(few, 0, alike)
        won = xp.where(few, winning, won)
        plain = zip((n1, n2, n1, n2, 0, 0, won, tied, 0, 0), self.counts.T, strict=True)
        table = xp.stack([xp.where(alone, new, old) for new, old in plain])
        repeats = xp.where(alone, xp.stack((alike, 0 * alike)), self.repeats.T)
        members, classes = column_classes(xp.concatenate((table.reshape(-1, repeats.shape[1]), repeats)))
        chosen = on_host((table[..., members], repeats[:, members]))
        of_classes = replace(self, counts=chosen[0].T, repeats=chosen[1].T, clean=None, common=NOTHING_READ)
        return of_classes, on_host(classes)

    def features_beyond_classes(self, case: WorstCase) -> IntArray:
        """Return the features whose p depends on more than what tells classes apart: on how often values are there."""
        counts, repeats = on_host((self.counts, self.repeats))
        reach = self.common.reach(np.arange(self.n_features), counts, repeats, sum(self.contrast.rows), case)
        told = reach.unknown | (reach.fisher & ~reach.block)[: self.n_features]  # zeros that classes do not know
        return np.union1d(np.flatnonzero(told), self.common.features)

    def with_common(self, at: IntArray, table: Table, codes: IntArray, within: IntArray) -> RankTest:
        """Return the same, the values of some columns counted."""
        n_strata = self.counts.shape[1]
        groups = [self.contrast.rows_of(codes, within == h) for h in range(n_strata)]
        return replace(self, common=CommonValues.of(read(table, at, groups), n_strata))

    def log_p(self, case: WorstCase, features: IntArray | None = None, *, n_threads: int = 1) -> FloatArray:
        """Return log p of ``features``, all by default. Where it is bounded it may be the goal of the case instead."""
        clean = None if self.clean is None else self.clean if features is None else self.clean[features]
        if clean is not None and not np.any(case.max_replaced):
            return clean
        case = case.of(self.n_features if features is None else features.size)
        if not self.shifted:
            found = self._largest(case, features, n_threads)
            if clean is None:
                return found
            if np.any(case.more):
                there = slice(None) if features is None else namespace(self.counts).asarray(features)
                clean = np.maximum(clean, clean_bound(on_host(self.counts[there]).astype(np.int64), case))
            return np.where(case.max_replaced > 0, np.maximum(found, clean), clean)
        looks = [
            test._largest(replace(case, side=one), features, n_threads, only_raw=True)
            for test, one in zip(self.shifted, (Side.UP, Side.DOWN), strict=True)
            if case.side in (Side.BOTH, one)
        ]
        return np.asarray(np.minimum(0.0, np.min(looks, axis=0) + np.log(len(looks))))

    def _largest(
        self, case: WorstCase, features: IntArray | None, n_threads: int, *, only_raw: bool = False
    ) -> FloatArray:
        rows, asked = sum(self.contrast.rows), np.arange(self.n_features) if features is None else features
        there = slice(None) if features is None else namespace(self.counts).asarray(features)
        counts, repeats = on_host((self.counts[there], self.repeats[there]))

        def work(part: slice) -> FloatArray:
            wide, alike, own = counts[part].astype(np.int64), repeats[part].astype(np.int64), case.of(part)
            if only_raw:
                return WorstCaseNull(wide, alike, rows, own).log_p(None, None)
            zeros = wide[..., :2].sum() - wide[..., 2:6].sum()
            m = own.max_replaced
            if not (zeros or alike.any() or case.missing) and MODE_SHARE * (np.max(m) + 1) < rows:
                every = np.ones(len(wide), dtype=bool)  # no value is there twice, nor can have been often
                return WorstCaseNull(wide, alike, rows, own).log_p(REPEAT_SHARE * m >= rows * every, every)
            reach = self.common.reach(asked[part], wide, alike, rows, own)
            out = np.where(reach.unknown & (self.clean is not None), 0.0, -np.inf)
            at = np.flatnonzero(reach.fisher & (out[reach.owner] < 0.0))
            np.maximum.at(out, reach.owner[at], fisher_bound(reach.counts[at], own.of(reach.owner[at])))
            at = np.flatnonzero((reach.block | reach.raw) & (out[reach.owner] < 0.0))
            null = WorstCaseNull(reach.counts[at], reach.repeats[at], rows, own.of(reach.owner[at]))
            np.maximum.at(out, reach.owner[at], null.log_p(reach.block[at], reach.raw[at]))
            return out

        tasks = [slice(k, k + A_TASK) for k in range(0, counts.shape[0], A_TASK)]
        threads = n_threads if counts.shape[0] >= THREADED else 1
        return np.concatenate([np.empty(0), *each(work, tasks, threads)])


@dataclass(frozen=True, slots=True, eq=False)
class EachTest:
    """A label against every single other one: p is the largest of these tests, an intersection-union test."""

    contrast: Contrast
    parts: tuple[RankTest, ...]
    """One for each of `Contrast.singles`."""
    mean_test: ClassVar[None] = None
    clean: ClassVar[None] = None
    """What holds where no row is bad is with the parts."""

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.parts[0].n_features

    @property
    def nearest(self) -> IntArray:
        """For every feature the part with the smallest Cliff's delta in size."""
        return np.asarray(np.argmin(np.abs([part.strength for part in self.parts]), axis=0))

    @property
    def strength(self) -> FloatArray:
        """Cliff's delta against the nearest other label."""
        deltas = np.stack([part.strength for part in self.parts])
        return np.asarray(np.take_along_axis(deltas, self.nearest[np.newaxis], axis=0)[0])

    @property
    def constant(self) -> IntArray:
        """Features that hold one value only."""
        return np.flatnonzero(np.bincount(np.concatenate([part.constant for part in self.parts])) == len(self.parts))

    @property
    def missing(self) -> CountArray:
        """Values of each feature that are missing: those of the label are in every part."""
        of_label = self.contrast.rows.label - on_host(self.parts[0].counts.T[0].sum(axis=0))
        gaps = sum(part.missing - of_label for part in self.parts)
        return np.asarray(of_label + gaps, dtype=np.int32)

    def by_class(self, max_replaced: int) -> tuple[EachTest, IntArray]:  # noqa: ARG002
        """Return the same: every feature is a class of its own."""
        return self, np.arange(self.n_features)

    def log_p(self, case: WorstCase, features: IntArray | None = None, *, n_threads: int = 1) -> FloatArray:
        """Return log p of ``features``, all by default: the largest of all parts, each with its own bad rows."""
        case = case.of(self.n_features if features is None else features.size)
        totals, which = np.unique(np.append(case.bad.reference, 0), return_inverse=True)
        shared = [[bad.reference for bad in self.contrast.bad_of_singles(BadRows(m, 0))] for m in totals.tolist()]
        own, label = np.array(shared)[which[:-1]].T, np.asarray(case.bad.label)
        bads = [BadOfEach(reference, label) for reference in own]
        parts = zip(self.parts, (replace(case, bad=bad) for bad in bads), strict=True)
        return np.asarray(np.max([part.log_p(own, features, n_threads=n_threads) for part, own in parts], axis=0))


# Where no row is bad: the conditional test given all ties, the textbook's. Without ties it is Mann–Whitney's, with two
# values Fisher's. Others are read again for all their ties where their p-value may be small enough to matter; of very
# many, where a bound that is cheap does not decide.


class Observed(NamedTuple):
    """The counts of some features, and doubled U of the group that lies higher: (features, strata)."""

    counts: Counted
    repeats: Counted
    first: Flags
    """Whether that group is the label."""
    w: Counted
    own: Counted
    other: Counted
    kinds: IntArray
    """Which law each has: zeros at one end have their own if the other values are distinct."""
    tied: Flags
    """Whether ties are more than rare, and count ½; others count against rejection."""
    block: Flags
    """Whether zeros are tied."""
    near: FloatArray
    """About the logarithm of the tail, by the normal law, up to 6 % too large; infinity where p is 1."""

    @classmethod
    def of(cls, test: RankTest, features: IntArray, side: Side, cubes: FloatArray | None = None) -> Observed:
        """Take some features of a test, with Σ t³ − t over the levels of each stratum; of one side the group is given.

        Where these sums are not there they are told, rather too large, by the pairs that are tied.
        """
        at = namespace(test.counts).asarray(features)
        counts, repeats = (part.astype(np.int64) for part in on_host((test.counts[at], test.repeats[at])))
        first = label_is_asked(counts, side)
        w, _, own, other = doubled_statistic(counts, RAW, first, halves=True)
        above, below = (counts[..., k : k + 2].sum(axis=(1, 2)) for k in (2, 4))
        zeros, n = own + other - counts[..., 2:6].sum(axis=2), np.maximum(own + other, 2).astype(np.float64)
        block = (zeros > 1).any(axis=1)
        kinds = np.where(block & (below == 0), UPPER, np.where(block & (above == 0), LOWER, RAW))
        tied = (repeats.sum(axis=1) > np.where(block, 0, rare_repeats(own, other))) | (block & (kinds == RAW))
        pairs = (own * other).astype(np.float64)
        if cubes is None:
            alone = np.maximum(zeros, 1).astype(np.float64)
            cubes = ((counts[..., 7] + counts[..., 9]) * (n * n / np.maximum(pairs, 1))) ** 1.5 + alone**3 - alone
        variance = np.sum(pairs / (12 * n * (n - 1)) * np.maximum(n**3 - n - cubes, 0.0), axis=1)
        z = np.sum(0.5 * (w - pairs), axis=1) / np.sqrt(np.maximum(variance, 1e-300))
        tails = -0.5 * z * z - np.log(np.sqrt(0.5 * np.pi) * (z + np.sqrt(z * z + 8 / np.pi)))
        return cls(counts, repeats, first, w, own, other, kinds, tied, block, np.where(z > 0, tails, np.inf))

    def log_tails(self, kind: int, at: IntArray, goal: float, reach: float, top: float, *, halves: bool) -> FloatArray:
        """Return log of the tails of some features of a kind, never too small up to ``top``.

        A closed bound will do where it is below the ``goal``. Ties cost twice the tail, with ``halves``: of zeros and
        ties together there is the lesser of two closed bounds, for the tail given all ties is less dear than others.
        """
        w, A, n1, n2 = doubled_statistic(self.counts[at], kind, self.first[at], halves=halves)
        cheap, w = halves and kind != RAW, w.sum(axis=1)
        first = BOUNDED if cheap else top if reach < top else goal
        tails = log_u_tails(n1, n2, A, w, bound=False, halves=halves, goal=first, top=top)
        if cheap:
            again = np.flatnonzero(tails > reach)
            raw = self.log_tails(RAW, at[again], goal, reach, top, halves=True)
            tails[again] = np.minimum(tails[again], raw)
            return tails
        again = np.flatnonzero((tails > goal) & (tails <= reach) & (reach < top))
        asked = n1[again], n2[again], A[again], w[again]
        tails[again] = log_u_tails(*asked, bound=False, halves=halves, goal=goal, top=top)
        return tails


def exact_log_p(
    test: RankTest,
    table: Table,
    codes: IntArray,
    *,
    within: IntArray,
    question: Question,
    n_hypotheses: int,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return log p of every feature where no row is bad, given the label and the stratum of every row.

    It is exact, or a little larger than that, where it may be compared with the level. What a bound decides, at the
    level over the number of hypotheses, has that bound.
    """
    every, level, side = n_hypotheses <= FEW_HYPOTHESES, math.log(question.level), question.side
    sides, goal = math.log(side.number), level - math.log(n_hypotheses)
    few, classes = test.by_class(0) if test.n_features > A_TASK else (test, np.arange(test.n_features))
    seen = Observed.of(few, np.arange(few.n_features), side)
    reach = level if every or question.selection.startswith("fdr") else min(level, goal + WINDOW)
    decided, top = -math.inf if every else goal - sides - DECIDED, level + SELECTS_NOTHING - sides
    small = (seen.own + seen.other).sum(axis=1) <= SMALL
    margin = np.where(small, OFF if n_hypotheses > SMALL else np.inf, MARGIN)
    near, tied = sides + seen.near, seen.tied
    given = tied | (seen.block & every)  # all ties, where p may be at the level
    log_p, far = np.minimum(0.0, near), near > level + margin
    bounded = np.where(given & ~far, not every, ~(tied | seen.block) | small | ~far)
    for kind in (UPPER, LOWER, RAW):
        for halves in (False, True):
            own = np.flatnonzero(bounded & (seen.kinds == kind) & (tied == halves))
            if own.size:
                limit = reach - sides if reach < level else top
                log_p[own] = sides + seen.log_tails(kind, own, decided, limit, top, halves=halves)
    open_ = given & (near <= reach + margin) & (near < np.inf) & (every | (log_p > goal))
    log_p, open_, margin = log_p[classes], open_[classes], margin[classes]
    two, *groups = on_host(two_values(test.counts, test.repeats))
    if two.size:
        log_p[two], open_[two] = fisher(side, *groups), False
    at = np.flatnonzero(open_)
    if not at.size:
        return np.minimum(0.0, log_p)
    rows = [np.concatenate(test.contrast.rows_of(codes, within == h)) for h in range(test.counts.shape[1])]
    for columns, values in table.source.takes_of(at):
        levels = [[_levels(x[here]) for here in rows] for x in snapped(values, table.source.grid).T]
        cubes = np.array([[float(np.sum(times**3 - times)) for _, times in of_column] for of_column in levels])
        some = Observed.of(test, columns, side, cubes)
        wanted = np.flatnonzero(every | (sides + some.near <= reach + margin[columns])).tolist()
        tail: Callable[[int], float] = partial(_log_tail, some, levels)
        log_p[columns[wanted]] = sides + np.array(list(each(tail, wanted, count_threads(n_jobs))))
    return np.minimum(0.0, log_p)


def _levels(values: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the doubled midranks of some values, rising, and how many have each."""
    _, times = np.unique(dropna(values), return_counts=True)
    return 2 * np.cumsum(times) - times + 1, times


def _log_tail(seen: Observed, levels: list[Levels], item: int) -> float:
    """Return log of the exact tail of one feature, given the levels of its values."""
    parts = [k for k, (_, times) in enumerate(levels[item]) if seen.own[item, k] and seen.other[item, k]]
    scores, times = ([levels[item][k][which] for k in parts] for which in (0, 1))
    drawn = seen.own[item, parts]
    unit = np.gcd.reduce(np.concatenate([np.diff(each) for each in scores])) or 1
    place = np.sum(seen.w[item, parts] + drawn * (drawn + 1 - np.array([each[0] for each in scores])))
    ends = np.cumsum([0, *(each.size for each in scores)])
    at = np.concatenate([(each - each[0]) // unit for each in scores]).astype(np.float64)
    tied = np.concatenate(times).astype(np.float64)
    return log_tied_tail(at, tied, ends, drawn.astype(np.float64), float(-(-place // unit)))
