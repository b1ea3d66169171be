"""Groups where no row is bad: the conditional test given all ties, the textbook's.

Without ties it is Mann–Whitney's, with two values Fisher's. Others are read again for all their ties where their
p-value may be small enough to matter; of very many, where a bound that is cheap does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from sparsemean._data.table import Table
from sparsemean._evidence.ranks import LOWER, RAW, UPPER, Counted, RankTest, doubled_statistic, fisher, two_values
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._kernels.rounding import snapped
from sparsemean._kernels.signed_ranks import log_normal_tail
from sparsemean._kernels.tied_tails import log_tied_tail
from sparsemean._stats.arrays import dropna, on_host
from sparsemean._stats.nulls import log_u_tails
from sparsemean._util.plans import Question, Side
from sparsemean._util.records import FloatArray, IntArray

Flags = npt.NDArray[np.bool_]
Levels = list[tuple[IntArray, IntArray]]
"""Of every stratum doubled midranks, rising, and how many rows have each."""
FEW_HYPOTHESES = 2000
"""Up to so many every p-value that may be below the level is exact."""
WINDOW = math.log(100.0)
"""Of more, under Holm's rule, those up to a hundred times its first threshold: others may be too large."""
FEW_LEVELS = 64
"""Different values up to which an exact tail takes so little that it is always had."""
MARGIN = math.log(4.0)
"""By so much more than the level an approximation must be for it to be taken: it may be so far off."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The counts of some features, and doubled U of the group that lies higher: (features, strata)."""

    counts: Counted
    repeats: Counted
    first: Flags
    """Whether that group is the label."""
    w: Counted
    own: Counted
    other: Counted

    @classmethod
    def of(cls, counts: Counted, repeats: Counted, side: Side) -> Observed:
        """Take them from the counts of a test; of one side the group is given."""
        first = np.full(counts.shape[0], side is not Side.DOWN)
        if side is Side.BOTH:
            w, *_ = doubled_statistic(counts, RAW, first, halves=True)
            first = w.sum(axis=1) >= np.sum(counts[..., 0] * counts[..., 1], axis=1)
        w, _, own, other = doubled_statistic(counts, RAW, first, halves=True)
        return cls(counts, repeats, first, w, own, other)

    @property
    def tied(self) -> Flags:
        """Which features have values that repeat others within a stratum."""
        return np.asarray((self.repeats.sum(axis=1) > 0) | (self.zeros > 1).any(axis=1))

    @property
    def zeros(self) -> Counted:
        """Values of each stratum that are zero."""
        return np.asarray(self.own + self.other - self.counts[..., 2:6].sum(axis=-1))

    def log_bounds(self) -> FloatArray:
        """Return log of tails, never too small: without ties, given zeros at one end, or twice those without ties."""
        out, (above, below) = np.empty(self.first.size), (self.counts[..., k : k + 2].sum(axis=(1, 2)) for k in (2, 4))
        tied = self.tied
        kinds = np.where(tied & (below == 0), UPPER, np.where(tied & (above == 0), LOWER, RAW))
        for kind, halves in ((UPPER, True), (LOWER, True), (RAW, True), (RAW, False)):
            at = np.flatnonzero((kinds == kind) & (tied == halves))
            w, A, n1, n2 = doubled_statistic(self.counts[at], kind, self.first[at], halves=halves)
            rows = np.concatenate((n1, n2, A, w.sum(axis=1)[:, np.newaxis]), axis=1)
            few, back = np.unique(rows, axis=0, return_inverse=True)
            first, second, values = np.split(few[:, :-1], 3, axis=1)
            out[at] = log_u_tails(first, second, values, few[:, -1], bound=False, halves=halves)[back.ravel()]
        return out

    def deviations(self, cubes: FloatArray) -> FloatArray:
        """Return by how many standard deviations U is off its mean, given Σ t³ − t over the levels of each stratum."""
        n, pairs = np.maximum(self.own + self.other, 2).astype(np.float64), (self.own * self.other).astype(np.float64)
        variance = np.sum(pairs / (12 * n * (n - 1)) * np.maximum(n**3 - n - cubes, 0.0), axis=1)
        return np.asarray(np.sum(0.5 * (self.w - pairs), axis=1) / np.sqrt(np.maximum(variance, 1e-300)))

    def most_tied(self) -> FloatArray:
        """Return what Σ t³ − t can be at most: all repeats of either sign are of one value."""
        runs = [*(self.repeats.T[..., np.newaxis] + 1.0), np.maximum(self.zeros, 1).astype(np.float64)]
        return np.asarray(sum(run**3 - run for run in runs))


def exact_log_p(
    test: RankTest,
    table: Table,
    strata: Sequence[tuple[IntArray, IntArray]],
    question: Question,
    *,
    n_hypotheses: int,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return log p of every feature where no row is bad; ``strata`` are the rows of the label and of the reference.

    It is exact, or a little larger than that, where it may be compared with the level. What a bound decides, at the
    level over the number of hypotheses, has that bound.
    """
    counts, repeats = (part.astype(np.int64) for part in on_host((test.counts, test.repeats)))
    seen, sides = Observed.of(counts, repeats, question.side), math.log(question.side.number)
    log_p, level = sides + seen.log_bounds(), math.log(question.level)
    two, *groups = two_values(counts, repeats)
    log_p[two] = fisher(question.side, *groups)
    goal = level - math.log(n_hypotheses)
    reach, decided = (level, -np.inf) if n_hypotheses <= FEW_HYPOTHESES else (min(level, goal + WINDOW), goal)
    reach = level if question.selection.startswith("fdr") else reach
    least = NormalDist().inv_cdf(1.0 - min(0.5, math.exp(level + MARGIN - sides)))  # 0 at least: p is 1 below the mean
    wanted = seen.tied & (log_p > decided) & (seen.deviations(seen.most_tied()) > least)
    wanted[two] = False
    for columns, values in table.source.takes_of(np.flatnonzero(wanted)):
        few = Observed.of(counts[columns], repeats[columns], question.side)
        levels = [[_levels(x, pair) for pair in strata] for x in snapped(values, table.source.grid).T]
        cubes = np.array([[float(np.sum(times**3 - times)) for _, times in own] for own in levels])
        near = np.array([sides + log_normal_tail(z) for z in few.deviations(cubes).tolist()])
        log_p[columns] = np.where(near > level + MARGIN, near, log_p[columns])
        cheap = np.array([sum(times.size for _, times in own) <= FEW_LEVELS for own in levels])
        at = np.flatnonzero(near <= np.where(cheap, level, reach) + MARGIN).tolist()
        tail: Callable[[int], float] = partial(_log_tail, few, levels)
        log_p[columns[at]] = sides + np.array(list(each(tail, at, count_threads(n_jobs))))
    return np.minimum(0.0, log_p)


def _levels(column: FloatArray, rows: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """Return the doubled midranks of the values of some rows, rising, and how many have each."""
    _, times = np.unique(dropna(column[np.concatenate(rows)]), return_counts=True)
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
