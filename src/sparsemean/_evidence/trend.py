"""Evidence of a trend: Kendall's S of values and a number of each row, such as a dose, and Theil and Sen's slope.

S is the number of pairs of rows whose values rise with that number y, less those whose values fall, within strata. If
values have one law whatever y is, S has the law of Jonckheere and Terpstra: twice a sum of independent Us, of each
class of y against those below it, less the number of pairs. docs/guarantees.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import ClassVar, NamedTuple

import numpy as np

from sparsemean._data.source import Array, Source
from sparsemean._kernels.rounding import snapped
from sparsemean._kernels.signed_ranks import count_rising
from sparsemean._stats.arrays import group_indices, medians
from sparsemean._stats.decision import Allowed, OfRows, Rule, halved, probabilities, rejected
from sparsemean._stats.effects import CENTRE, PAIRS, beside_test
from sparsemean._stats.group_ranks import LOG_2, critical_rank, distinct_ranks
from sparsemean._stats.signed_ranks import REPEAT_SHARE
from sparsemean._util.plans import Side
from sparsemean._util.records import FloatArray, IntArray

NEAR = 1e-13
"""Share of a slope up to which it is halved."""


class Sizes(NamedTuple):
    """Of every class of y and the rows below it within its stratum: what the null of S is made of."""

    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(a * b for a, b in zip(self.first, self.second, strict=True))

    def log_tails(self, sums: FloatArray) -> FloatArray:
        """Return log P(S ≥ sum) of values that all differ, never too small; 0 where the sum is not above the mean."""
        u, out = np.ceil((sums + self.pairs) / 2), np.where(sums > self.pairs, -np.inf, 0.0)
        at = np.flatnonzero((2 * u > self.pairs) & (u <= self.pairs))
        if at.size:
            different, back = np.unique(u[at].astype(np.intp), return_inverse=True)
            out[at] = distinct_ranks(*self).log_tails(different)[back]
        return out

    def critical(self, error: float) -> int:
        """Return the smallest sum with P(S ≥ sum) ≤ ``error``; S itself is odd or even, as its pairs are."""
        return 2 * critical_rank(*self, error) - self.pairs - 1 if self.pairs else 1


def null_sizes(classes: IntArray, strata: IntArray) -> Sizes:
    """Return the sizes that rows of such classes and strata have.

    Examples
    --------
    >>> null_sizes(np.array([0, 0, 1, 2, 2]), np.zeros(5, dtype=int))
    Sizes(first=(2, 3), second=(1, 2))
    """
    both = []
    for _, rows in group_indices(strata):
        counts = np.unique(classes[rows], return_counts=True)[1]
        both += list(zip(np.cumsum(counts)[:-1].tolist(), counts[1:].tolist(), strict=True))
    return Sizes(*map(tuple, zip(*both, strict=True))) if both else Sizes((), ())


@dataclass(frozen=True, eq=False)
class Against:
    """The number that values are held against, one for each row, and the stratum of each row."""

    y: FloatArray
    strata: IntArray
    name: str = "y"

    @cached_property
    def classes(self) -> IntArray:
        """The number of y of each row, among the different ones."""
        return np.unique(self.y, return_inverse=True)[1].astype(np.intp)

    @cached_property
    def untied(self) -> Sizes:
        """The sizes, were no two y equal."""
        return null_sizes(np.arange(self.y.size), self.strata)

    @cached_property
    def touched(self) -> IntArray:
        """Pairs that 0, 1, … rows have a part in at most: those of different y, and all, a row each."""
        out = []
        for classes in (self.classes, np.arange(self.y.size)):
            steps = []
            for _, rows in group_indices(self.strata):
                left = rows.size
                for size in np.sort(np.unique(classes[rows], return_counts=True)[1]).tolist():
                    steps += [left - size] * size  # a row less leaves one fewer on either side
                    left -= size
            out.append(np.concatenate(([0], np.cumsum(-np.sort(-np.array(steps))))))
        return np.array(out, dtype=np.intp)

    @cached_property
    def repeats(self) -> int:
        """How many rows have the y of another one of their stratum."""
        return self.y.size - len({*zip(self.strata.tolist(), self.classes.tolist(), strict=True)})

    def count(self, values: FloatArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return of each column pairs that rise and fall, values that repeat others of a stratum, and those there."""
        won, lost, repeats, part = np.zeros((4, values.shape[1]), dtype=np.int64)
        for _, rows in group_indices(self.strata):
            rising = rows[np.argsort(self.y[rows], kind="stable")]
            y, x = self.y[rising], values[rising].T
            ranks, different, gone = np.empty(x.shape, dtype=np.intp), np.empty_like(won), np.isnan(x)
            for k, column in enumerate(x):
                names, ranks[k] = np.unique(column, return_inverse=True)
                different[k] = names.size - np.isnan(names[-1])
            repeats += np.sum(~gone, axis=1) - different
            for total, order in ((won, ranks), (lost, different[:, np.newaxis] - 1 - ranks)):
                count_rising(np.where(gone, -1, order), np.searchsorted(y, y), part)
                total += part
        return won, lost, repeats, np.sum(~np.isnan(values), axis=0)

    def of_rows(self, rows: IntArray) -> Against:
        """Return that of some rows."""
        return Against(self.y[rows], np.unique(self.strata[rows], return_inverse=True)[1], self.name)


@dataclass(frozen=True, eq=False)
class TrendEvidence(OfRows):
    """Pairs that rise and fall, and p if no row is bad; rows that are may have any value, any y, or none.

    Where no row is bad the null is that of the classes of y. Otherwise it is that of rows whose y all differ, whatever
    the y of bad rows was: then pairs of equal y, or of a missing value, are ties as pairs of equal values are.
    """

    xp: ClassVar[ModuleType] = np
    leaves_out_zeros: ClassVar[bool] = False
    against: Against
    n_rows: int
    side: Side
    statistic: FloatArray
    """S of each feature, on the side that counts or the larger one."""
    ties: IntArray
    """Pairs that neither rise nor fall: of different y and values that are there, and of all rows; a row each."""
    repeats: IntArray
    """Values that repeat others, and with these rows without a value or with the y of others; a row each."""
    clean: FloatArray
    """log p where no row is bad."""
    tau: FloatArray
    start: int = 0
    """Bad rows that are allowed for where steps are rows replaced ``further``."""
    further: bool = False

    @classmethod
    def of(
        cls, pieces: Iterator[tuple[IntArray, FloatArray]], d: int, against: Against, side: Side,
        report: Callable[[float], None] | None = None,
    ) -> TrendEvidence:  # fmt: skip
        """Count the pairs of all columns, which come some at a time."""
        n, strata = against.y.size, against.strata
        S, clean, tau = np.zeros((3, d))
        ties, repeats = np.zeros((2, 2, d), dtype=np.int64)
        for columns, values in pieces:
            won, lost, equal, there = against.count(values)
            net = (won - lost).astype(np.float64)
            S[columns] = np.abs(net) if side is Side.BOTH else side.signs[0] * net
            repeats[:, columns] = equal, equal + (n - there) + against.repeats
            gaps = np.isnan(values).T
            gapped = np.unique(gaps, axis=0, return_inverse=True)[1].reshape(-1)
            for _, at in group_indices(gapped):
                rows, which = np.flatnonzero(~gaps[at[0]]), columns[at]
                sizes = null_sizes(against.classes[rows], strata[rows])
                ties[0, which] = sizes.pairs - (won + lost)[at]
                tau[which] = net[at] / max(sizes.pairs, 1)
                few = REPEAT_SHARE * equal[at] < rows.size
                clean[which] = sizes.log_tails(S[which] - few * ties[0, which]) + LOG_2 * ~few
            ties[1, columns] = against.untied.pairs - (won + lost)
            if report is not None:
                report((columns[-1] + 1) / d)
        clean = np.minimum(0.0, clean + np.log(side.number))
        return cls(against, n, side, S, ties, repeats, clean, tau)

    @property
    def n_hypotheses(self) -> int:
        """Number of features."""
        return int(self.statistic.size)

    def log_p(self, steps: IntArray | int, at: IntArray) -> FloatArray:
        """Return log p of some features, each for so many bad rows; or for those allowed for, and rows replaced.

        A row that is replaced moves S by 2 for each pair that it has a part in: of its y as it is seen, and as it was.
        """
        steps, (own, every), n = np.broadcast_to(steps, at.shape), self.against.touched, self.n_rows
        bad, some, out, slack = steps, steps > 0, self.clean[at], own[steps] + every[steps]
        if self.further:
            bad, some = steps + self.start, np.full(at.size, self.start > 0)
            slack = slack + np.where(steps > 0, 2 * every[self.start], own[self.start] + every[self.start])
            # What is made of values, y and gaps that nobody knows: at most four times the tail of rows that all differ.
            few = REPEAT_SHARE * (self.repeats[0, at] - steps) < n
            moved = self.statistic[at] - few * self.ties[0, at] - own[steps] - every[steps]
            unknown = 2 * LOG_2 + np.log(self.side.number) + self.against.untied.log_tails(moved)
            out = np.where(steps > 0, np.maximum(out, unknown), out)
        # A row has a value and a y, either of which may repeat another one.
        few, many = (REPEAT_SHARE * (self.repeats[1, at] + sign * bad) for sign in (-2, 2))
        S, tails = self.statistic[at] - slack, self.against.untied.log_tails
        lowest, halves = tails(S - self.ties[1, at]), LOG_2 + tails(S)
        both = np.maximum(np.where(few < n, lowest, -np.inf), np.where(many >= n, halves, -np.inf))
        return np.minimum(0.0, np.where(some, np.maximum(out, both + np.log(self.side.number)), out))

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the features whose p-value is below 1, or ``some``, p and log p."""
        at = np.arange(self.n_hypotheses) if some is None else some
        log_p = self.log_p(self.step_of(allowed), at)
        alive = np.flatnonzero(log_p < 0) if some is None else np.arange(at.size)
        return at[alive], probabilities(log_p[alive]), log_p[alive]

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad."""
        return rejected(rule, probabilities(self.clean), self.n_hypotheses)

    def along(self, steps: IntArray, at: IntArray) -> FloatArray:
        """Return p of some features, each for so many bad rows."""
        return probabilities(self.log_p(steps, at))

    def last(self, error: float, at: IntArray, above: IntArray | None = None) -> IntArray:
        """Return the largest number of bad rows with p ≤ ``error``; −1 where there is none."""
        return halved(self.along, error, at, above, self.n_rows // 2 - self.start)

    def beyond(self, allowed: Allowed) -> TrendEvidence:
        """Return what bounds p once further rows have been replaced."""
        return replace(self, start=self.step_of(allowed), further=True)


# Slopes.


def slope(x: FloatArray, against: Against, *, error: float, bad: int, side: Side) -> tuple[float, float, float, float]:
    """Return Theil and Sen's slope of one column, both ends of its interval, and what that is.

    The slope is the median of (x_j − x_i)/(y_j − y_i) over pairs of different y within strata. A slope is in the
    interval unless the test of x less that slope times y rejects: an end is the slope of some pair, found by counting
    how many are smaller. Where 0 is rejected, and the slope all the same, as many values are equal, the estimate is
    Kendall's share of pairs that rise less that of those that fall, without an interval.
    """
    there = np.flatnonzero(~np.isnan(x))
    x, own = x[there], against.of_rows(there)
    sizes, a, n = null_sizes(own.classes, own.strata), error / side.number, against.y.size
    if not (pairs := sizes.pairs):
        return np.nan, -np.inf, np.inf, CENTRE
    most = float(np.ptp(x)) / float(np.diff(np.unique(own.y)).min()) + 1e-300

    def counted(b: float) -> tuple[int, int]:
        won, lost, *_ = own.count((x - b * own.y)[:, np.newaxis])
        return int(won[0]), int(lost[0])

    won, lost = counted(0.0)

    def ordered(rank: int) -> float:
        """Return the slope of this rank."""
        if lost < rank <= pairs - won:
            return 0.0
        low, high = (-most, 0.0) if rank <= lost else (0.0, most)
        while high - low > NEAR * max(abs(low), abs(high)) and low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if pairs - counted(middle)[0] >= rank else (middle, high)
        return high

    last = (pairs - sizes.critical(a)) // 2
    if bad:  # the null of rows whose y all differ, as for p; the hull where ties could count either way
        repeats, slack = n - there.size + own.repeats, int(against.touched[:, bad].sum())
        ways = [(against.untied.pairs - pairs, a)] * (REPEAT_SHARE * (repeats - 2 * bad) < n)
        ways += [(0, a / 2)] * (REPEAT_SHARE * (repeats + 2 * bad) >= n)
        last = min([last, *((pairs - tied - slack - against.untied.critical(e)) // 2 for tied, e in ways)])
    ends = (ordered(last + 1), ordered(pairs - last)) if last >= 0 else (-np.inf, np.inf)
    value = 0.5 * (ordered((pairs + 1) // 2) + ordered(pairs // 2 + 1))
    sign = (won - lost) * (last >= 0 and abs(won - lost) >= pairs - 2 * last)
    if sign and not value:
        return sign / pairs, np.nan, np.nan, PAIRS
    return value, *beside_test(*ends, side, sign), CENTRE


class Residuals(Source):
    """Another source less slopes times y, and less the median of what is left in each stratum."""

    def __init__(self, source: Source, against: Against, slopes: FloatArray) -> None:
        self.source, self.against, self.slopes = source, against, slopes
        self.shape, self.dtype, self._precision = source.shape, np.dtype(np.float64), source.precision

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some rows of some columns."""
        return self.take(np.arange(columns.start, columns.stop))[rows]

    def _take(self, columns: IntArray) -> FloatArray:
        out = snapped(self.source.take(columns), self.source.grid)
        out = out - np.outer(self.against.y - np.median(self.against.y), self.slopes[columns])
        for _, rows in group_indices(self.against.strata):
            out[rows] -= medians(out[rows])
        return out
