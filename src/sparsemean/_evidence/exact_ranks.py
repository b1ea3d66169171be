"""Groups where no row is bad: the conditional test given all ties, the textbook's.

Without ties it is Mann–Whitney's, with two values Fisher's. Others are read again for all their ties where their
p-value may be small enough to matter; of very many, where a bound that is cheap does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from sparsemean._data.table import Table
from sparsemean._evidence.ranks import LOWER, RAW, UPPER, Counted, RankTest, doubled_statistic, fisher, two_values
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._kernels.rounding import snapped
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
SMALL, MARGIN, OFF = 200, math.log(1.2), math.log(4.0)
"""By so much a normal approximation may be off, and where no more than so many rows are there."""


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
    def zeros(self) -> Counted:
        """Values of each stratum that are zero."""
        return np.asarray(self.own + self.other - self.counts[..., 2:6].sum(axis=-1))

    def log_tails(self) -> tuple[FloatArray, Flags]:
        """Return log of tails, never too small, and which of them may be far off, as values are tied.

        Zeros at one end have their law if the other values are distinct. Other ties cost twice the tail.
        """
        above, below = (self.counts[..., k : k + 2].sum(axis=(1, 2)) for k in (2, 4))
        block = (self.zeros > 1).any(axis=1)
        kinds = np.where(block & (below == 0), UPPER, np.where(block & (above == 0), LOWER, RAW))
        tied = (self.repeats.sum(axis=1) > 0) | (block & (kinds == RAW))
        out = np.empty(tied.size)
        for kind in (UPPER, LOWER, RAW):
            for halves in (False, True):
                at = np.flatnonzero((kinds == kind) & (tied == halves))
                w, A, n1, n2 = doubled_statistic(self.counts[at], kind, self.first[at], halves=halves)
                rows = np.concatenate((n1, n2, A, w.sum(axis=1)[:, np.newaxis]), axis=1)
                few, back = np.unique(rows, axis=0, return_inverse=True)
                first, second, values = np.split(few[:, :-1], 3, axis=1)
                out[at] = log_u_tails(first, second, values, few[:, -1], bound=False, halves=halves)[back.ravel()]
        return out, tied

    def deviations(self, cubes: FloatArray) -> FloatArray:
        """Return by how many standard deviations U is off its mean, given Σ t³ − t over the levels of each stratum."""
        n, pairs = np.maximum(self.own + self.other, 2).astype(np.float64), (self.own * self.other).astype(np.float64)
        variance = np.sum(pairs / (12 * n * (n - 1)) * np.maximum(n**3 - n - cubes, 0.0), axis=1)
        return np.asarray(np.sum(0.5 * (self.w - pairs), axis=1) / np.sqrt(np.maximum(variance, 1e-300)))

    def cubes(self) -> FloatArray:
        """Return about what Σ t³ − t is, rather too much: t² is told by the pairs that are tied."""
        n, pairs = (self.own + self.other).astype(np.float64), np.maximum(self.own * self.other, 1).astype(np.float64)
        squares = (self.counts[..., 7] + self.counts[..., 9]) * (n * n / pairs)
        zeros = np.maximum(self.zeros, 1).astype(np.float64)
        return np.asarray(squares**1.5 + zeros**3 - zeros)


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
    tails, tied = seen.log_tails()
    log_p, level = sides + tails, math.log(question.level)
    two, *groups = two_values(counts, repeats)
    log_p[two], tied[two] = fisher(question.side, *groups), False
    few, goal = n_hypotheses <= FEW_HYPOTHESES, level - math.log(n_hypotheses)
    reach = level if few or question.selection.startswith("fdr") else min(level, goal + WINDOW)
    margin = np.where((seen.own + seen.other).sum(axis=1) <= SMALL, OFF, MARGIN)
    undecided = tied & (log_p > goal)
    if few:
        undecided = tied | (seen.zeros > 1).any(axis=1)
        undecided[two] = False
    near = sides + log_normal(seen.deviations(seen.cubes()))
    log_p = np.where(undecided & (near > level + margin), near, log_p)
    for columns, values in table.source.takes_of(np.flatnonzero(undecided & (near <= reach + margin))):
        some = Observed.of(counts[columns], repeats[columns], question.side)
        levels = [[_levels(x, pair) for pair in strata] for x in snapped(values, table.source.grid).T]
        cubes = np.array([[float(np.sum(times**3 - times)) for _, times in own] for own in levels])
        near[columns] = sides + log_normal(some.deviations(cubes))
        log_p[columns] = np.where(near[columns] > level + margin[columns], near[columns], log_p[columns])
        at = np.flatnonzero(near[columns] <= reach + margin[columns]).tolist()
        tail: Callable[[int], float] = partial(_log_tail, some, levels)
        log_p[columns[at]] = sides + np.array(list(each(tail, at, count_threads(n_jobs))))
    return np.minimum(0.0, log_p)


def log_normal(z: FloatArray) -> FloatArray:
    """Return the logarithm of normal tails, up to 6 % too large; infinity where z is not positive, and p is 1."""
    tails = -0.5 * z * z - np.log(np.sqrt(0.5 * np.pi) * (z + np.sqrt(z * z + 8 / np.pi)))
    return np.asarray(np.where(z > 0, tails, np.inf))


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
