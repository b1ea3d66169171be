"""Capped signed ranks of one sample: T = Σ min(rank of |x|, C) over positive values, its p-values against bad rows.

No partition and no seed. Three caps, fixed in advance, share the error: C = n is Wilcoxon's test, small ones are near
the sign test, which bad rows and heavy tails move least. docs/guarantees.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import rounding
from sparsemean._stats.arrays import group_indices
from sparsemean._stats.decision import Allowed, Rule, probabilities, rejected
from sparsemean._stats.nulls import Era
from sparsemean._stats.sign_evidence import OfRows, SlackEvidence, eras_of
from sparsemean._util.plans import Plan
from sparsemean._util.records import NO_END, FloatArray, IntArray

LEAST_FILTER = 0.003
"""Of a hundred thousand features it leaves a few hundred to rank. Ranks that select beside a larger p-value of signs
are rare even where signs are worst, for noise with a gap at its centre."""
STEPS = 20
"""Times Holm's first threshold, the filter lets a feature pass."""
ALL_RANKED = 4_000_000
"""Values up to which every feature is ranked: it takes a tenth of a second."""
SHARES = (1 / 9, 4 / 9, 4 / 9)
"""Of the error, of a cap of a tenth of the rows, of two fifths and of all. Equal shares find much the same means and
make intervals of normal values longer; less for the first costs Laplace's noise more than 2 % in what is found."""
REPEAT_SHARE = 10
"""Fewer than a tenth of the rows repeat the size of others: their ties count against rejection."""
ASKED, ASKED_OF_FEW = 8, 64
"""Numbers of bad rows that are asked for at once where the last one is looked for, at most, and over all features: of
few features it is the calls that take time."""
UP, DOWN = 0, 1


def caps_of(n: int) -> tuple[int, ...]:
    """Return the caps for n rows: a tenth of them, two fifths, all.

    Examples
    --------
    >>> caps_of(600), caps_of(4)
    ((60, 240, 600), (1, 4))
    """
    return tuple(sorted({max(1, n // 10), max(1, 2 * n // 5), n}))


def filter_of(plan: Plan) -> float:
    """Return the p-value of bucket signs above which a feature has p = 1: only the others are read again and ranked.

    It is fixed before any value is seen, and asked for the same number of bad rows as the p-value is, so that p stays
    valid and rises with them. It lies far above the p-values that select: by `STEPS` above Holm's first, and at the
    level where many features may be selected at less.
    """
    if plan.n_units * plan.n_features <= ALL_RANKED:
        return 1.0
    asked = plan.level if plan.selection.startswith("fdr") else STEPS * plan.level / plan.n_features
    return min(1.0, max(LEAST_FILTER, asked))


def shares_of(n: int) -> FloatArray:
    """Return the share of the error that each cap has: most of it those that find most where noise is near normal.

    Examples
    --------
    >>> shares_of(600), shares_of(4)
    (array([0.11111111, 0.44444444, 0.44444444]), array([0.55555556, 0.44444444]))
    """
    shares = dict.fromkeys(caps_of(n), 0.0)
    for cap, share in zip((max(1, n // 10), max(1, 2 * n // 5), n), SHARES, strict=True):
        shares[cap] += share
    return np.array(list(shares.values()))


def slack_of(bad_rows: IntArray | int, values: IntArray, cap: int) -> IntArray:
    """Return by how much bad rows can move T: Σ min(N − k, C) over k below their number."""
    return np.asarray(score_sums(values, cap) - score_sums(values - bad_rows, cap))


@lru_cache(maxsize=64)
def rank_eras(n: int, *, error: float, sides: int) -> tuple[Era, ...]:
    """Return which caps can reject at ``error``, up to which numbers of bad rows; see `nulls.sign_test_eras`."""
    values, lasts, goal = np.array([n]), [], np.log(error / sides)
    for cap in caps_of(n):
        low, high = -1, n // 2
        while low < high:
            middle = (low + high + 1) // 2
            reached = log_tails(values, cap, score_sums(values, cap) - slack_of(middle, values, cap))[0] <= goal
            low, high = (middle, high) if reached else (low, middle - 1)
        lasts.append(low)
    return eras_of(lasts)


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
    """The smallest T + T' of any order of values of one size, T' of that order reversed: at most twice the larger of
    the two, each of which has the null of values without ties. As a least sum it moves by no more than they do."""

    @classmethod
    def joined(cls, parts: Sequence[RankSums]) -> RankSums:
        """Put those of several features side by side."""
        every = zip(*((part.values, part.repeats, part.low, part.doubled) for part in parts), strict=True)
        return cls(*(np.concatenate(arrays, axis=-1) for arrays in every))

    def of(self, features: IntArray) -> RankSums:
        """Return those of some features."""
        return RankSums(
            self.values[features], self.repeats[features], self.low[..., features], self.doubled[..., features]
        )


def rank_sums(
    x: FloatArray,
    caps: tuple[int, ...],
    *,
    keep_zeros: bool = False,
    subtracted: FloatArray | None = None,
    precision: float = 0.0,
) -> RankSums:
    """Rank the values of each column of ``x``, NaN left out.

    Sizes and signs are sorted as one number: the bits of |x|, then the sign. Zeros that are kept have the lowest ranks
    and neither sign. Where a number was ``subtracted`` from each column of values of some relative ``precision``
    (`rounding.centred`), sizes that rounding may have driven apart are one (`rounding.ranked`).

    Examples
    --------
    >>> found = rank_sums(np.array([[3.0], [-1.0], [2.0], [0.0]]), (2, 4))
    >>> found.values, found.low[:, :, 0]
    (array([3]), array([[4, 5],
           [1, 1]]))
    """
    from sparsemean._kernels.signed_ranks import add_scores  # numba takes its time

    n, d = x.shape
    rows = np.ascontiguousarray(x.T)
    gaps = np.isnan(rows)
    if gaps.any():
        rows = np.where(gaps, 0.0, rows)
    if subtracted is not None:
        rows = rounding.ranked(rows, subtracted[:, np.newaxis], precision)
    codes = np.abs(rows).view(np.uint64)
    codes <<= np.uint64(1)
    codes |= rows > 0
    codes.sort(axis=1)
    gone = gaps.sum(axis=1) if keep_zeros else (codes == 0).sum(axis=1)
    repeats, (low, doubled) = np.zeros(d, dtype=np.int64), np.zeros((2, 2, len(caps), d), dtype=np.int64)
    positive = (codes & np.uint64(1)).astype(bool)
    codes >>= np.uint64(1)
    add_scores(positive, codes.view(np.float64), gone, np.array(caps), repeats, low, doubled)
    return RankSums(n - gone, repeats, low, doubled)


@dataclass(frozen=True, eq=False)
class SignedRankEvidence(OfRows):
    """Ranks of the features that passed the filter, and up to how many bad rows they pass it."""

    signs: SlackEvidence
    """Of bucket means, for the filter."""
    n_rows: int
    n_hypotheses: int
    """Features, ranked or not."""
    error: float
    """The p-value that a cap must be able to reach: that of the first step of the rule that selects."""
    features: IntArray
    passing: IntArray
    """Bad rows up to which each of ``features`` passes the filter."""
    sums: tuple[RankSums, ...]
    """Of the values less the null value; or less it and the smallest effect, then more than it less that."""
    sides: tuple[int, ...] = (UP, DOWN)
    ties_against: bool = False
    """Whether ties count against rejection however many there are, so that p rises with the null value."""
    places: tuple[int, ...] = ()
    """Caps that are looked at for any number of bad rows, by their places; see `eras` where it is empty."""
    whole: float = 0.0
    """Share of the error that the caps that are looked at have together, at least."""

    @property
    def xp(self) -> Any:
        """Where decisions lie: with the data."""
        return self.signs.xp

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the features whose p-value is below 1, or ``some``, p and log p."""
        log_p = self.log_p(self.step_of(allowed), None if some is None else np.searchsorted(self.features, some))
        features, p = self.features if some is None else some, probabilities(log_p)
        alive = np.flatnonzero(p < 1) if some is None else np.arange(some.size)
        return features[alive], p[alive], log_p[alive]

    def best_size(self, allowed: Allowed) -> tuple[IntArray, IntArray]:
        """Return the ranked features, and at which bucket size signs of each show most."""
        return self.features, self.signs.here(self.features).p_at(self.step_of(allowed)).argmin(axis=0)

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad."""
        return self.features[rejected(rule, probabilities(self.log_p(0)), self.n_hypotheses)]

    def along(self, steps: IntArray, at: IntArray, allowed: Allowed | None) -> FloatArray:
        """Return p of some features, each for so many bad rows, or for so many beyond those allowed for."""
        places = np.searchsorted(self.features, at)
        if allowed is None:
            return probabilities(self.log_p(steps, places))
        slack = self.step_of(allowed)
        return probabilities(self._beyond(slack).log_p(slack + steps, places))

    @cached_property
    def caps(self) -> tuple[int, ...]:
        """Caps of the ranks."""
        return caps_of(self.n_rows)

    @cached_property
    def shares(self) -> FloatArray:
        """Shares of the error that they have."""
        return shares_of(self.n_rows)

    @cached_property
    def eras(self) -> tuple[Era, ...]:
        """Which caps are looked at for how many bad rows."""
        if self.places:
            return (Era(NO_END, self.places),)
        return rank_eras(self.n_rows, error=self.error, sides=len(self.sides))

    def last(self, error: float, at: IntArray, allowed: Allowed | None, above: IntArray | None = None) -> IntArray:
        """Return the largest number of bad rows, or of rows beyond those allowed for, with p ≤ ``error``, else −1.

        At those ``above`` it is known to be so small: most often the next number is asked for in vain.
        """
        goal, places = np.log(error), np.searchsorted(self.features, at)
        start = 0 if allowed is None else self.step_of(allowed)
        evidence = self if allowed is None else self._beyond(start)
        high = np.minimum(self.passing[places], self.n_rows // 2) - start
        low, near = (np.full(at.size, -1), False) if above is None else (above.copy(), True)
        while (moving := np.flatnonzero(low < high)).size:
            least, most = low[moving, np.newaxis], high[moving, np.newaxis]
            step = 1 + np.arange(min(ASKED, max(1, ASKED_OF_FEW // moving.size)))
            asked = np.minimum(least + step, most) if near else least - (least - most) * step // (step.size + 1)
            p = evidence.log_p(start + asked.ravel(), np.repeat(places[moving], step.size)).reshape(asked.shape)
            reached = np.sum(np.logical_and.accumulate(p <= goal, axis=1), axis=1)
            ends, feature, near = np.concatenate((least, asked, most + 1), axis=1), np.arange(moving.size), False
            low[moving], high[moving] = ends[feature, reached], ends[feature, reached + 1] - 1
        return low

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
        """Return log of the smallest p of some caps and both sides, each over its share of the error."""
        best = np.full(at.size, np.inf)
        for side in self.sides if len(self.sums) > 1 or len(self.sides) == 1 else (None,):
            sums = self.sums[-1 if side == DOWN else 0].of(at)
            for place in places:
                share = self.shares[place] / max(self.whole, self.shares[list(places)].sum())
                low, doubled = sums.low[:, place], sums.doubled[:, place]
                # Where both sides count, one is asked, and twice its p-value is at least twice the smaller one.
                down = doubled[DOWN] > doubled[UP]
                chosen = (x[side] if side is not None else np.where(down, x[DOWN], x[UP]) for x in (low, doubled))
                best = np.minimum(best, self._one(bad, sums, *chosen, cap=self.caps[place]) - np.log(share))
        return np.asarray(best + np.log(len(self.sides)))

    def _one(self, bad: IntArray, sums: RankSums, low: IntArray, doubled: IntArray, *, cap: int) -> FloatArray:
        """Return log p of one side and cap: the larger one where bad rows could have led to either way with ties."""
        slack, out = slack_of(bad, sums.values, cap), np.full(low.size, -np.inf)
        at = np.flatnonzero((REPEAT_SHARE * (sums.repeats - bad) < self.n_rows) | self.ties_against)
        out[at] = log_tails(sums.values[at], cap, (low - slack)[at])
        at = np.flatnonzero((REPEAT_SHARE * (sums.repeats + bad) >= self.n_rows) & (not self.ties_against))
        if at.size:
            halves = -(-(doubled - 2 * slack)[at] // 2)
            out[at] = np.maximum(out[at], LOG_2 + log_tails(sums.values[at], cap, halves))
        return np.asarray(np.minimum(0.0, out))

    def _beyond(self, allowed: int) -> SignedRankEvidence:
        """Return what bounds p once further rows have been replaced: the p-values of this for so many more bad rows.

        The caps are those that are looked at for ``allowed`` bad rows, which share the error with those looked at for
        fewer: p is the largest for that number or fewer.
        """
        places = next(places for last, places in self.eras if allowed <= last)
        return replace(self, places=places, whole=float(self.shares[list(self.eras[0].places)].sum()))


# Tails: P(Σ Bᵢ·min(i, C) ≥ t) over i = 1 … N with fair coins Bᵢ. Exact up to `TABLED` values and wherever t is near the
# largest sum; elsewhere by the saddlepoint formula of Lugannani and Rice with its correction for integers (Daniels
# 1987), enlarged by `ENLARGED`: against exact tails it misses by less than 3 in 1000, and tests look for more.

TABLED = 128
"""Values up to which all tails are in a table."""
MOST_TABLED, ADDITIONS = 1000, 1_000_000
"""Values up to which they are in a table too where it takes no more additions: where caps are small."""
NEAR = 2000
"""Sums no farther than this from the largest are counted one by one, however many values there are."""
LUMPS, LUMPED = 10, 1500
"""Up to so many of the largest scores may be lacking from a sum for it to be counted too, where ranks are capped at no
more than the other number: sums then lie in lumps a cap apart, which no smooth formula follows (it was found 1 % too
small; with larger caps it misses by half of what it is enlarged by)."""
FEW_TERMS = 8
"""Caps from which on it takes few terms to count all of them at once, for a number of values that many ask for."""
ENLARGED = 1.005
ROUNDED = 1e-14
"""Added for each value to the logarithm of a count, whose parts are logarithms of factorials, each of them rounded."""
DYADIC = 50
"""Values up to which a table has no rounding in it."""
MANY, FEW = 32, 4
"""Sums whose tails are looked at together where a critical one is searched for, and before anything is compiled."""
LOG_2 = math.log(2.0)


def score_sums(ranks: IntArray, cap: int) -> IntArray:
    """Return the sum of min(i, C) over i up to each of ``ranks``; 0 for ranks below 1.

    Examples
    --------
    >>> score_sums(np.array([-1, 2, 5]), 3)
    array([ 0,  3, 12])
    """
    inside = np.minimum(np.maximum(ranks, 0), cap)  # np.clip takes five times as long of a few
    return np.asarray(inside * (inside + 1) // 2 + cap * np.maximum(ranks - cap, 0))


def log_tails(values: IntArray, cap: int, sums: IntArray) -> FloatArray:
    """Return log P(T ≥ sum) for each number of ``values`` and each of ``sums``; 0 for sums next to the mean or below.

    Examples
    --------
    >>> np.exp(log_tails(np.array([3, 3]), 2, np.array([5, 4])))
    array([0.125, 0.25 ])
    """
    out = np.zeros(sums.size)
    largest = score_sums(values, cap)
    deficit = largest - sums
    out[deficit < 0] = -np.inf
    asked = (deficit >= 0) & (sums - deficit > 1)
    tabled = (values <= TABLED) | ((values <= MOST_TABLED) & (values * largest <= ADDITIONS))
    close = deficit <= np.where((values > cap) & (cap <= LUMPED), max(NEAR, LUMPS * cap), NEAR)
    if tabled.any():
        small = np.flatnonzero(asked & tabled)
        for number, at in group_indices(values[small]):
            out[small[at]] = _table(number, min(cap, number))[sums[small[at]]]
    if close.any():
        near = np.flatnonzero(asked & ~tabled & close)
        for own_cap, at in group_indices(np.minimum(values[near], cap)):
            counts = _log_counts(deficit[near[at]], values[near[at]], own_cap)
            out[near[at]] = counts - values[near[at]] * (LOG_2 - ROUNDED)
    far = np.flatnonzero(asked & ~tabled & ~close)
    if far.size:
        from sparsemean._kernels.signed_ranks import saddlepoint  # numba takes its time

        found = np.empty(far.size)
        saddlepoint(values[far], cap, sums[far], found)
        out[far] = np.minimum(-LOG_2, found + math.log(ENLARGED))  # above the mean lies at most half of a symmetric law
    return out


@lru_cache(maxsize=4096)
def critical_sum(values: int, cap: int, log_error: float) -> int:
    """Return the smallest sum whose tail is no larger than an error, by halving; one more than there can be if none."""
    from sparsemean._kernels.compiling import plainly

    most = int(score_sums(np.array([values]), cap)[0])
    low, high = most // 2, most + 1
    while low < high:  # many at once: it is the calls that take time
        sums = np.unique(np.linspace(low, high - 1, FEW if plainly() else MANY).astype(np.int64))
        enough = log_tails(np.full(sums.size, values), cap, sums) <= log_error
        first = int(np.argmax(enough)) if enough.any() else sums.size
        low, high = (int(sums[first - 1]) + 1 if first else low), (int(sums[first]) if first < sums.size else high)
        if first == sums.size:
            return high
    return low


@lru_cache(maxsize=1024)
def _table(number: int, cap: int) -> FloatArray:
    """Return log P(T ≥ t) for t from 0 to the largest sum, by adding one value after the other."""
    mass = np.ones(1)
    for rank in range(1, number + 1):
        score = min(rank, cap)
        longer = np.zeros(mass.size + score)
        longer[: mass.size] = mass
        longer[score:] += mass
        mass = 0.5 * longer
    rounded = mass.size * np.finfo(np.float64).eps if number > DYADIC else 0.0
    return np.log(np.cumsum(mass[::-1])[::-1]) + rounded


def _log_counts(deficits: IntArray, values: IntArray, cap: int) -> FloatArray:
    """Return log of the number of sets of ranks whose scores add up to no more than each of ``deficits``.

    Ranks below the cap each have a score of their own; of the others, which all have the same, j of how many there are.
    """
    if cap >= FEW_TERMS and (values == values[0]).all():
        return _near(int(values[0]), cap)[deficits]
    from scipy.special import gammaln  # where it is used: it takes its time

    below, others = _log_subsets(cap), values - cap + 1
    out = np.full(deficits.size, -np.inf)
    for j in range(int(deficits.max()) // cap + 1):
        at = np.flatnonzero((deficits >= j * cap) & (others >= j))
        if not at.size:
            break
        ways = gammaln(others[at] + 1) - gammaln(j + 1) - gammaln(others[at] - j + 1)
        out[at] = np.logaddexp(out[at], ways + below[deficits[at] - j * cap])
    return out


@lru_cache(maxsize=256)
def _near(number: int, cap: int) -> FloatArray:
    """Return what `_log_counts` does of each deficit: where nothing is zero all features ask for these."""
    from scipy.special import gammaln

    below, others = _log_subsets(cap), number - cap + 1
    most = below.size - 1
    j = np.arange(min(most // cap, others) + 1)
    ways = gammaln(others + 1) - gammaln(j + 1) - gammaln(others - j + 1)
    out = np.full(most + 1, -np.inf)
    for first, way in zip(range(0, most + 1, cap), ways, strict=False):
        out[first:] = np.logaddexp(out[first:], way + below[: most + 1 - first])
    return out


@lru_cache(maxsize=64)
def _log_subsets(cap: int) -> FloatArray:
    """Return log of the number of subsets of 1 … C − 1 that add up to at most k, for k up to where they are counted."""
    most = max(NEAR, LUMPS * cap) if cap <= LUMPED else NEAR
    count = np.zeros(most + 1)
    count[0] = 1.0
    for score in range(1, min(cap - 1, most) + 1):
        count[score:] = count[score:] + count[:-score]  # the right side is complete before it is stored
    return np.log(np.cumsum(count))
