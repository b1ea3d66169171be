"""Capped signed ranks of one sample: T = Σ min(rank of |x|, C) over positive values, its p-values against bad rows.

No partition and no seed. Three caps, fixed in advance, share the error: C = n is Wilcoxon's test, small ones are near
the sign test, which bad rows and heavy tails move least. docs/guarantees.md has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import namespace, on_host
from sparsemean._stats.signed_rank_null import LOG_2, log_tails, score_sums
from sparsemean._util.records import FloatArray, IntArray

FILTER = 0.01
"""Features whose sign test of bucket means has a larger p-value have p = 1: only the others are read again and ranked.
A number fixed in advance, and the same number of bad rows on both sides of it, keep p valid and rising with them."""
REPEAT_SHARE = 10
"""Fewer than a tenth of the rows repeat the size of others: their ties count against rejection."""
UP, DOWN = 0, 1
SIDES = {"two-sided": (UP, DOWN), "greater": (UP,), "less": (DOWN,)}


def caps_of(n: int) -> tuple[int, ...]:
    """Return the caps for n rows: a tenth of them, two fifths, all.

    Examples
    --------
    >>> caps_of(600), caps_of(4)
    ((60, 240, 600), (1, 4))
    """
    return tuple(sorted({max(1, n // 10), max(1, 2 * n // 5), n}))


def slack_of(bad_rows: IntArray | int, values: IntArray, cap: int) -> IntArray:
    """Return by how much bad rows can move T: Σ min(N − k, C) over k below their number."""
    return np.asarray(score_sums(values, cap) - score_sums(values - bad_rows, cap))


@dataclass(frozen=True, slots=True, eq=False)
class RankSums:
    """What the ranks of some features are: (features,) arrays, and (2, caps, features) for both signs."""

    values: IntArray
    """Values that are ranked: those that are there and, unless zeros are kept, not zero."""
    repeats: IntArray
    """How many of them repeat the size of others."""
    low: npt.NDArray[np.int64]
    """T where each value takes the lowest scores of those of its size before the other sign does."""
    doubled: npt.NDArray[np.int64]
    """2T where values of one size all take the mean of their first score and their last."""

    def of(self, features: IntArray) -> RankSums:
        """Return those of some features."""
        return RankSums(
            self.values[features], self.repeats[features], self.low[..., features], self.doubled[..., features]
        )


def rank_sums(x: Any, caps: tuple[int, ...], *, keep_zeros: bool = False) -> RankSums:
    """Rank the values of each column of ``x``, NaN left out, on the host or on a device.

    Sizes and signs are sorted as one number: the bits of |x|, then the sign. Zeros that are kept have the lowest ranks
    and neither sign.

    Examples
    --------
    >>> found = rank_sums(np.array([[3.0], [-1.0], [2.0], [0.0]]), (2, 4))
    >>> found.values, found.low[:, :, 0]
    (array([3]), array([[4, 5],
           [1, 1]]))
    """
    xp = namespace(x)
    there = xp.where(xp.isnan(x), 0.0, x)
    code = xp.abs(there).view(np.uint64) << np.uint64(1)
    code |= there > 0
    code = xp.asfortranarray(code)
    code.sort(axis=0)
    gone = xp.isnan(x).sum(axis=0) if keep_zeros else (there == 0).sum(axis=0)
    size = code >> np.uint64(1)
    rank = xp.arange(1, x.shape[0] + 1)[:, np.newaxis] - gone
    up, down = (code & np.uint64(1)) != 0, ((code & np.uint64(1)) == 0) & (size > 0)
    repeats = ((size[1:] == size[:-1]) & (rank[:-1] > 0)).sum(axis=0)
    low = xp.stack(
        [xp.stack([xp.where(sign, xp.minimum(rank, cap), 0).sum(axis=0) for cap in caps]) for sign in (up, down)]
    )
    found = RankSums(*map(on_host, (x.shape[0] - gone, repeats, low, 2 * low)))
    if (tied := np.flatnonzero(found.repeats)).size:
        blocks = [_tied(*columns, caps) for columns in zip(on_host(size[:, tied]).T, on_host(up[:, tied]).T,
                                                           on_host(rank[:, tied]).T, strict=True)]  # fmt: skip
        found.low[..., tied], found.doubled[..., tied] = np.moveaxis(np.array(blocks), (0, 1), (-1, 0))
    return found


def _tied(size: Any, up: Any, rank: IntArray, caps: tuple[int, ...]) -> list[npt.NDArray[np.int64]]:
    """Return both sums, (2, caps) each, of one column some of whose sizes occur more than once."""
    first_of_all = int(np.argmax(rank > 0))
    size, up = size[first_of_all:], up[first_of_all:]
    first = np.flatnonzero(np.diff(size, prepend=size[0] + 1) != 0)
    last = np.append(first[1:], size.size)
    positive = np.add.reduceat(up, first, dtype=np.int64)
    numbers = np.stack((positive, np.where(size[first] == 0, 0, last - first - positive)))
    low = [[np.sum(score_sums(first + k, cap) - score_sums(first, cap)) for cap in caps] for k in numbers]
    doubled = [[np.sum(k * (np.minimum(first + 1, cap) + np.minimum(last, cap))) for cap in caps] for k in numbers]
    return [np.array(low), np.array(doubled)]


@dataclass(frozen=True, eq=False)
class SignedRankEvidence:
    """Ranks of the features that passed the filter, and up to how many bad rows they pass it."""

    n_features: int
    n_rows: int
    level: float
    """The p-value below which a cap must be able to come: of the first step of the rule that selects."""
    features: IntArray
    passing: IntArray
    """Bad rows up to which the sign test of bucket means stays below `FILTER`, for each of ``features``."""
    sums: tuple[RankSums, ...]
    """Of the values less the null value; or less it and the smallest effect, then more than it less that."""
    sides: tuple[int, ...] = (UP, DOWN)
    below: IntArray | None = None
    """That number, −1 and less too, for every feature: how many rows must change before it can pass."""

    @cached_property
    def caps(self) -> tuple[int, ...]:
        """Caps of the ranks."""
        return caps_of(self.n_rows)

    @cached_property
    def eras(self) -> list[tuple[int, tuple[int, ...]]]:
        """The last number of bad rows for which some caps, by their places, can reject, and these; rising.

        Which caps are looked at depends on the number of bad rows alone. As one that drops out leaves its share of the
        error to the others, p is taken to be the largest for that or any smaller number of bad rows.
        """
        n, found = np.array([self.n_rows]), []
        for place, cap in enumerate(self.caps):
            low, high = -1, self.n_rows // 2
            while low < high:
                middle = (low + high + 1) // 2
                sums = score_sums(n, cap) - slack_of(middle, n, cap)
                reached = log_tails(n, cap, sums)[0] + np.log(len(self.sides)) <= np.log(self.level)
                low, high = (middle, high) if reached else (low, middle - 1)
            found.append((low, place))
        ends = sorted({last for last, _ in found if last >= 0})
        eras = [(end, tuple(place for last, place in found if last >= end)) for end in ends]
        if not eras:
            return [(self.n_rows, tuple(range(len(self.caps))))]
        return [*eras[:-1], (self.n_rows, eras[-1][1])]

    def log_p(self, bad_rows: IntArray | int, at: IntArray | None = None) -> FloatArray:
        """Return log p of some of the features, by their places, each for a number of bad rows of its own or one."""
        at = np.arange(self.features.size) if at is None else at
        bad = np.broadcast_to(np.asarray(bad_rows, dtype=np.int64), at.shape)
        out, first = np.full(at.size, -np.inf), 0
        for last, places in self.eras:
            here = np.flatnonzero(bad >= first)
            if here.size:
                p = self._least(np.minimum(bad[here], last), at[here], places)
                out[here] = np.maximum(out[here], p)
            first = last + 1
        return np.where(bad <= self.passing[at], np.minimum(0.0, out), 0.0)

    def _least(self, bad: IntArray, at: IntArray, places: tuple[int, ...]) -> FloatArray:
        """Return log of the smallest p of some caps and both sides, times their number."""
        best = np.full(at.size, np.inf)
        for side in self.sides if len(self.sums) > 1 or len(self.sides) == 1 else (None,):
            sums = self.sums[-1 if side == DOWN else 0].of(at)
            for place in places:
                low, doubled = sums.low[:, place], sums.doubled[:, place]
                # Where both sides count, the one with the larger sum has the smaller p-value.
                own = (doubled[DOWN] > doubled[UP]).astype(np.intp) if side is None else np.full(at.size, side)
                chosen = (np.take_along_axis(sums_of, own[np.newaxis], axis=0)[0] for sums_of in (low, doubled))
                best = np.minimum(best, self._one(bad, sums, *chosen, cap=self.caps[place]))
        return np.asarray(best + np.log(len(self.sides) * len(places)))

    def _one(self, bad: IntArray, sums: RankSums, low: IntArray, doubled: IntArray, *, cap: int) -> FloatArray:
        """Return log p of one side and cap: the larger one where bad rows could have led to either way with ties."""
        slack, out = slack_of(bad, sums.values, cap), np.full(low.size, -np.inf)
        against = REPEAT_SHARE * (sums.repeats - bad) < self.n_rows if len(self.sums) == 1 else np.ones(low.size, bool)
        at = np.flatnonzero(against)
        out[at] = log_tails(sums.values[at], cap, (low - slack)[at])
        if len(self.sums) == 1:
            at = np.flatnonzero(REPEAT_SHARE * (sums.repeats + bad) >= self.n_rows)
            halves = -(-(doubled - 2 * slack)[at] // 2)
            out[at] = np.maximum(out[at], LOG_2 + log_tails(sums.values[at], cap, halves))
        return np.asarray(np.minimum(0.0, out))
