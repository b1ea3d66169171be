"""The largest p-values of two groups that bad rows could have led to: which null, which ties, how far U was moved."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import namespace
from sparsemean._stats.group_ranks import log_u_tails
from sparsemean._util.plans import BadRows, Side
from sparsemean._util.records import FloatArray, IntArray

Counted = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
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
CLOSE = 2.5
"""By so much the logarithm of the closed bound may miss a goal that the largest tail itself reaches."""
ASKED = 0.2
"""By so much more than an error, in logarithms, what is approximate is larger than that."""
DECIDED = 3.0
"""So far below the goal a bound of the tail in closed form will do: no rule asks for less, and it costs little."""
MISSED = 0.1
"""What is approximate and by so much above the goal has not reached it."""
RARE = 0.002
"""Standard deviations of U that ties may cost where no row is bad."""
BOUNDED = 1.0
"""No bound misses that goal."""
MOST_LOOKS = 64
"""Bad rows for which every A is looked at, at most."""


class BadOfEach(NamedTuple):
    """What `BadRows` has, of every item."""

    reference: IntArray
    label: IntArray


@dataclass(frozen=True, slots=True)
class WorstCase:
    """What a p-value is the largest of: all data that so many bad rows could have left."""

    bad: BadRows | BadOfEach
    """One for all items, or one for each."""
    more: int | IntArray = 0
    """Rows of either group, beyond these."""
    side: Side = Side.BOTH
    missing: bool = False
    """Whether a row may have been hidden, or put where there was none."""
    goal: float = -np.inf
    """What log p is where its bound misses that and the largest p-value reaches it."""
    top: float = 0.0
    """Where log p is larger it selects nothing, and need not be proved: nowhere where this is −∞."""
    asked: float = -np.inf
    """A bound that is no larger will do, as no more is asked than whether p is."""

    @property
    def max_replaced(self) -> int | IntArray:
        """Rows that may have been replaced in all."""
        return self.bad.reference + self.bad.label + self.more

    def of(self, items: IntArray | slice | int) -> WorstCase:
        """Return that of some items; of a number of items the same, with numbers of bad rows for each."""
        parts = (*self.bad, self.more)
        if isinstance(items, int):
            reference, label, more = (np.broadcast_to(part, items) for part in parts)
        else:
            reference, label, more = (part if np.ndim(part) == 0 else part[items] for part in parts)
        return replace(self, bad=BadOfEach(reference, label), more=more)


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

    def log_p(self, block: Flags | None, raw: Flags | None) -> FloatArray:
        """Return the largest log p of every rule that bad rows could have led to; None: that of raw values alone.

        ``block`` says whether it may be that zeros are a block, ``raw`` whether it may be that nothing is.
        """
        values, above, below = (self.counts[..., k : k + 2].sum(axis=(1, 2)) for k in (0, 2, 4))
        zeros = (self.counts[..., :2] - self.counts[..., 2:4] - self.counts[..., 4:6]).sum(axis=2)
        alike = self.repeats.sum(axis=1) + np.maximum(zeros - 1, 0).sum(axis=1)
        there, none, none_above = values > 0, below + self.case.max_replaced == 0, above + self.case.max_replaced == 0
        if block is None or raw is None:  # where a group lies lower, labels enter how many repeat: ties always count ½
            return np.where(there, self._block(RAW, True, np.zeros(there.size)), 0.0)
        (next_to_none, few, many), (hardly_any, some, most) = self._shares(below), self._shares(above)
        rules = {
            (RAW, RAW): raw | (block & many & most),
            (UPPER, LOWER): block & (next_to_none | few) & (hardly_any | some) & ~none & ~none_above,
            (UPPER, UPPER): block & ((next_to_none & most) | none),
            (UPPER, RAW): block & few & most,
            (LOWER, LOWER): block & ((many & hardly_any) | none_above),
            (LOWER, RAW): block & many & some,
        }
        # Of two tests twice the smaller p counts.
        halved = np.any([reached for (one, other), reached in rules.items() if one != other], axis=0)
        price = np.where(halved, LOG_2, 0.0)
        wanted = [
            there & np.any([rules[pair] for pair in rules if kind in pair], axis=0) for kind in (UPPER, LOWER, RAW)
        ]
        tests = (
            self._rule(UPPER, self.repeats[:, 0], above, wanted[UPPER], price),
            self._rule(LOWER, self.repeats[:, 1], below, wanted[LOWER], price),
            self._rule(RAW, alike, values, wanted[RAW], price),
        )
        log_p = np.full(there.size, -np.inf)
        for (one, other), reached in rules.items():
            both = np.minimum(0.0, np.minimum(tests[one], tests[other]) + (LOG_2 if one != other else 0.0))
            log_p = np.where(reached, np.maximum(log_p, both), log_p)
        return np.where(there, log_p, 0.0)

    def _shares(self, values: IntArray) -> tuple[Flags, ...]:
        """Say whether bad rows can have made the number of values next to nothing, few, or many."""
        least, most = values - self.case.max_replaced, values + self.case.max_replaced
        next_to_none = NONE_SHARE * least < self.rows
        few = (BLOCK_SHARE * least < self.rows) & (NONE_SHARE * most >= self.rows)
        return next_to_none, few, BLOCK_SHARE * most >= self.rows

    def _rule(self, kind: int, repeats: IntArray, counted: IntArray, wanted: Flags, price: FloatArray) -> FloatArray:
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
                some = replace(self, counts=self.counts[at], repeats=self.repeats[at], case=self.case.of(at))
                out[at] = np.maximum(out[at], some._block(kind, halves, price[at]))
        return out

    def _block(self, kind: int, halves: bool, price: FloatArray) -> FloatArray:
        """Return log p of one null; it is to pay a price before it reaches the goal, see `RankTest.log_p`."""
        m, counts = self.case.max_replaced, self.counts
        first = label_is_asked(counts, self.case.side)
        w, A, n1, n2 = doubled_statistic(counts, kind, first, halves=halves)
        moved = most_moved(counts[..., 0], counts[..., 1], self.case.bad)
        # Where all values are there none can have been hidden, but for what rows beyond those allowed for would do.
        gaps = self.case.missing & ((counts[..., :2].sum(axis=(1, 2)) < self.rows) | (self.case.more > 0))
        if gaps.any():
            moved = np.where(gaps, most_moved(counts[..., 0], counts[..., 1], self.case.bad, missing=True), moved)
        moved = moved + self.case.more * counts[..., :2].max(axis=(1, 2))
        sides, far = math.log(self.case.side.number), w.sum(axis=1) - 2 * moved
        place = far if kind == RAW or self.case.missing else far + self._saved(kind, counts)
        goal, top = self.case.goal - price - sides, self.case.top - price - sides
        decided = np.maximum(self.case.goal - DECIDED - sides, self.case.asked - price - sides)
        unknown = bool(np.any(m)) and kind != RAW
        most = np.minimum(A + np.reshape(m, (-1, 1)), n1 + n2) if unknown else A
        closed, asked = unknown and counts.shape[1] == 1, (n1, n2, most, place)
        tails = partial(log_u_tails, bound=unknown, halves=halves)
        log_p = tails(*asked, goal=BOUNDED if closed else decided, top=top)
        if not closed:
            return np.minimum(0.0, log_p + sides)
        near = (log_p > np.maximum(goal, decided)) & (log_p < goal + CLOSE) & (m <= MOST_LOOKS) & ~gaps
        dear, enough = np.flatnonzero(log_p > decided), self.case.asked >= self.case.goal
        if not enough:
            log_p[dear] = tails(*(part[dear] for part in asked), goal=decided[dear], top=top[dear])
        at = np.flatnonzero(near & (log_p > goal))
        reached = at[self._reached(n1[at], n2[at], most[at], far[at], at, goal=goal[at], halves=halves)]
        log_p[reached] = goal[reached]  # and no less, or p could fall as m grows
        if enough:  # as the goal will do
            dear = np.setdiff1d(dear, reached)
            log_p[dear] = tails(*(part[dear] for part in asked), goal=decided[dear], top=top[dear])
        return np.minimum(0.0, log_p + sides)

    def _saved(self, kind: int, counts: Counted) -> IntArray:
        """Return by how much less 2U is moved beside zeros: a pair with a good one of them moves by half at most."""
        n = counts[..., :2]
        zeros = n - counts[..., 2:4] if kind == UPPER else n - counts[..., 4:6]
        label, reference = self.case.bad.label, self.case.bad.reference
        bad = np.reshape(np.stack((label, reference), axis=-1), (-1, 1, 2))
        sure = np.maximum(zeros - bad - np.reshape(self.case.more, (-1, 1, 1)), 0)
        if counts.shape[1] == 1:
            return np.asarray(np.sum(np.minimum(bad, n) * sure[..., ::-1], axis=(1, 2)))
        most, less = (
            _largest_sum(n[..., 0], other[..., 1], label) + _largest_sum(n[..., 1], other[..., 0], reference)
            for other in (2 * n, 2 * n - sure)
        )
        return most - less

    def _reached(
        self, n1: IntArray, n2: IntArray, most: IntArray, w: IntArray, items: IntArray, *, goal: FloatArray,
        halves: bool,
    ) -> Flags:  # fmt: skip
        """Say where the tails of every A, from ``most`` down, that bad rows could have left reach the goal."""
        out, m = np.full(w.size, True), np.broadcast_to(self.case.max_replaced, len(self.counts))[items]
        numbers = np.minimum(2 * m, most[:, 0])
        top = goal + (MISSED if self.case.top > -np.inf else -np.inf)
        for first, last in ((0, np.minimum(numbers, 0)), (1, numbers)):  # the largest one is the likeliest to miss it
            at = np.repeat(np.arange(w.size), np.where(out, last + 1 - first, 0))
            fewer = first + np.arange(at.size) - np.searchsorted(at, at)
            sizes = n1[at], n2[at], most[at] - fewer[:, np.newaxis]
            tails = log_u_tails(*sizes, w[at], bound=False, halves=halves, goal=goal[at], top=top[at])
            out[at[tails > goal[at]]] = False
        return out


def clean_bound(counts: Counted, case: WorstCase) -> FloatArray:
    """Return what log p of the exact test for no bad row is at most once ``more`` rows have been replaced.

    That test is of ranks given all ties, whatever they are then: twice the tail without ties bounds it. So does the
    stop-loss bound of a block of zeros, at the bottom or at the top, into which all that lies beyond has been moved.
    """
    r, n = np.broadcast_to(case.more, len(counts)), counts[..., :2]
    first = label_is_asked(counts, case.side)
    w, A, n1, n2 = doubled_statistic(counts, RAW, first, halves=True)
    sides, place = math.log(case.side.number), w.sum(axis=1) - 2 * r * n.max(axis=(1, 2))
    place = place - r * r // 2 if case.missing else place
    place = place - (rare_repeats(n[..., 0], n[..., 1]) + 1) ** 2 // 4  # where ties are rare then, none counts
    goal, top = max(case.goal, case.asked) - sides, case.top - sides
    out = log_u_tails(n1, n2, A, place, bound=False, halves=True, goal=goal, top=top)
    block = (n.sum(axis=2) - counts[..., 2:6].sum(axis=2) > 1).any(axis=1)
    at = np.flatnonzero((out > goal) & block & (not case.missing))
    if at.size:
        found = out[at]
        for kind in (UPPER, LOWER):
            _, A, own, other = doubled_statistic(counts[at], kind, first[at], halves=True)
            more = r[at, np.newaxis]
            beyond = np.sum(counts[at][..., 4:6] if kind == UPPER else counts[at][..., 2:4], axis=2) + more
            moved = np.sum(beyond * np.minimum(own, own + other - A + more), axis=1)
            most = np.minimum(A + more, own + other)
            bound = log_u_tails(own, other, most, place[at] - moved, bound=True, halves=True, goal=goal, top=top)
            found = np.minimum(found, bound)
        out[at] = np.maximum(goal, found)  # and no less, or p could fall as more rows are replaced
    return np.minimum(0.0, sides + out)


def rare_repeats(n1: IntArray, n2: IntArray) -> IntArray:
    """Return up to how many repeats ties are so rare that they may count against rejection where no row is bad.

    Of e repeats at most (e + 1)²/4 pairs are tied, half of which are `RARE` standard deviations of U at most.
    """
    deviation = ((n1 * n2 * (n1 + n2 + 1.0)).sum(axis=1) / 12) ** 0.5
    most = namespace(deviation).maximum((8 * RARE * deviation) ** 0.5 - 1, 0)
    return most.astype(np.int64)  # type: ignore[no-any-return]


def label_is_asked(counts: Counted, side: Side) -> Flags:
    """Return whether it is the label that is to lie higher; of both sides it is the group that does, by all values.

    Of every test that side is looked at: what is the largest p of several tests is one of one side.
    """
    first = np.full(counts.shape[0], side is not Side.DOWN)
    if side is Side.BOTH:
        w, *_ = doubled_statistic(counts, RAW, first, halves=True)
        first = w.sum(axis=1) >= np.sum(counts[..., 0] * counts[..., 1], axis=1)
    return first


def doubled_statistic(counts: Counted, kind: int, first: Flags, *, halves: bool) -> tuple[Counted, ...]:
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


def fisher_bound(counts: Counted, case: WorstCase) -> FloatArray:
    """Return the largest log p of Fisher's test of rows off the block against those in it, one stratum.

    A bad row of the group with more rows off it has left the block, one of the other has joined it. Which group is
    asked for follows from where most rows off the block lie; of one side p is 1 if bad rows may have decided that.
    """
    from sparsemean._kernels.rank_tails import log_moved_tails

    n, (above, below) = counts[:, 0, :2], (counts[:, 0, k : k + 2] for k in (2, 4))
    lean = (above - below).sum(axis=1)
    reference, label, more = (np.broadcast_to(part, lean.size) for part in (*case.bad, case.more))
    order = np.where((label_is_asked(counts, case.side) == (lean >= 0))[:, np.newaxis], [0, 1], [1, 0])
    n, off, bad = (
        np.take_along_axis(part, order, axis=1) for part in (n, above + below, np.stack((label, reference), axis=1))
    )
    out = np.empty(lean.size)
    log_moved_tails(n, off[:, 0] - bad[:, 0], off[:, 1] + bad[:, 1], more, out)
    unclear = (case.side is not Side.BOTH) & (np.abs(lean) <= 2 * case.max_replaced)
    return np.where(unclear, 0.0, np.minimum(0.0, out + math.log(case.side.number)))


def most_moved(n1: IntArray, n2: IntArray, bad: BadRows | BadOfEach, *, missing: bool = False) -> IntArray:
    """Return by how much bad rows can move U of n₁ rows of the label and n₂ of the reference: (items, strata), summed.

    With ``missing`` values a bad row may have been hidden, or put where there was none.
    """
    if missing:
        return np.asarray(bad.label * (n2.max(axis=1) + bad.reference) + bad.reference * n1.max(axis=1))
    if n1.shape[1] == 1:
        b1, b2 = np.minimum(bad.label, n1[:, 0]), np.minimum(bad.reference, n2[:, 0])
        return np.asarray(b1 * n2[:, 0] + b2 * n1[:, 0] - b1 * b2)
    return _largest_sum(n1, n2, bad.label) + _largest_sum(n2, n1, bad.reference)


def _largest_sum(own: IntArray, other: IntArray, bad: int | IntArray) -> IntArray:
    """Return the sum of the ``bad`` largest of the numbers other_h, of which each is there own_h times."""
    order = np.argsort(-other, axis=1, kind="stable")
    there, worth = np.take_along_axis(own, order, axis=1), np.take_along_axis(other, order, axis=1)
    before = np.cumsum(there, axis=1) - there
    return np.asarray(np.sum(np.clip(np.reshape(bad, (-1, 1)) - before, 0, there) * worth, axis=1))
