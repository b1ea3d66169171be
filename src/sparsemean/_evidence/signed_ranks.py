"""Evidence of one sample by capped signed ranks, T = Σ min(rank of |x|, C) over positive values, and its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._evidence import one_sample_test, signs
from sparsemean._kernels import rounding
from sparsemean._stats.arrays import on_host, present_sorted, sort_columns
from sparsemean._stats.decision import (
    Allowed,
    Flags,
    OfRows,
    Rule,
    Stage,
    Stages,
    probabilities,
    rejected,
    stages_up_to,
)
from sparsemean._stats.effects import beside_test, pair_ends
from sparsemean._stats.planning import first_error
from sparsemean._stats.signed_ranks import (
    LOG_2,
    REPEAT_SHARE,
    caps_of,
    critical_sums,
    filter_of,
    log_tails,
    most_bad,
    rank_stages,
    shares_of,
    slack_of,
)
from sparsemean._util.plans import Plan, Side
from sparsemean._util.records import NO_END, Counts, FloatArray, IntArray

UP, DOWN = 0, 1
WHOLE = (-1,)
"""The uncapped sum."""
COMMON = 0.5
"""Where intervals have less of the shortest one in common, they are taken to be about different centres."""


class RankSums(NamedTuple):
    """What the ranks of some features are: (features,) arrays, and (caps, features), for both signs before these."""

    values: IntArray
    """Values that are ranked: those that are there and, unless zeros are kept, not zero."""
    repeats: IntArray
    """How many of them repeat the size of others."""
    low: npt.NDArray[np.int64]
    """T where each value takes the lowest scores of those of its size before the other sign does."""
    doubled: npt.NDArray[np.int64]
    """The smallest T + T' of any order of values of one size, T' of that order reversed: at most twice the larger of
    the two, each of which has the null of values without ties. As a least sum it moves by no more than they do."""


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

    (n, d), rows = x.shape, np.ascontiguousarray(x.T)
    gone = np.zeros(d, dtype=np.intp)
    if np.isnan(rows.max(initial=0.0)):
        gaps = np.isnan(rows)
        rows, gone = np.where(gaps, 0.0, rows), gaps.sum(axis=1)
    if subtracted is not None:
        rows = rounding.ranked(rows, subtracted[:, np.newaxis], precision)
    codes = np.abs(rows).view(f"u{rows.itemsize}")
    codes <<= 1
    codes |= rows > 0
    codes.sort(axis=1)
    if not keep_zeros:
        some = np.flatnonzero(codes[:, :1] == 0)
        gone[some] = (codes[some] == 0).sum(axis=1)
    repeats, (low, doubled) = np.zeros(d, dtype=np.int64), np.zeros((2, 2, len(caps), d), dtype=np.int64)
    add_scores(codes, gone, np.array(caps), repeats, low, doubled)
    return RankSums(n - gone, repeats, low, doubled)


def larger_side(sums: Sequence[RankSums], sides: Sequence[int], tied: int) -> RankSums:
    """Return what ranks are on one side of each feature, beyond which no p-value is below 1: that of the larger sum.

    The uncapped sums of both sides are no more than all scores, so that the smaller one has p = 1 where no row is bad,
    and p is no smaller where some are. From ``tied`` repeats on that is asked of the mean of both ways with ties.
    """
    each = [RankSums(*part[:2], part.low[side], part.doubled[side]) for part, side in zip(sums, sides, strict=True)]
    whole = [np.where(part.repeats < tied, 2 * part.low[-1], part.doubled[-1]) for part in each]
    larger = whole[-1] > whole[0]
    return RankSums(*(np.where(larger, last, first) for first, last in zip(each[0], each[-1], strict=True)))


@dataclass(frozen=True, eq=False)
class SignedRankEvidence(OfRows):
    """Ranks of the features that passed the filter, and up to how many bad rows they pass it."""

    xp: ClassVar[ModuleType] = np
    """Ranks are made, and decided by, on the host."""
    leaves_out_zeros: ClassVar[bool] = True
    n_rows: int
    n_hypotheses: int
    """Features, ranked or not."""
    stages: Stages
    """Which caps are looked at for how many bad rows."""
    features: IntArray
    filter_slack: IntArray
    """Bad rows up to which each of ``features`` passes the filter."""
    sums: RankSums
    """Of the values less the null value, and the smallest effect, on the side where p can be below 1."""
    n_sides: int = 2
    ties_against: bool = False
    """Whether ties count against rejection however many there are, so that p rises with the null value."""
    alpha_shares: float = 0.0
    """Share of the error that the caps that are looked at have together, at least."""
    start: int = 0

    @classmethod
    def from_data(cls, data: Any, counts: Counts) -> tuple[SignedRankEvidence, Any]:
        """Rank the features that pass the filter."""
        plan, largest = data.plan, filter_of(data.plan)
        features, passing = np.arange(plan.n_features), np.full(plan.n_features, plan.n_units // 2)
        if largest < 1:  # some features do not pass the filter, and others up to so many bad rows
            by_signs = signs.beyond_effect(data, counts)
            features = on_host(by_signs.reaching(largest, 0))
            passing = by_signs.last(largest, features)
        data, least = data.keep(features), plan.question.min_effect
        n, signs_asked = plan.n_units, plan.question.side.signs
        shifted = [data.shifted(sign * least) for sign in signs_asked] if least else [data]
        each = [part.rank_sums(features, keep_zeros=least > 0) for part in shifted] * (1 if least else len(signs_asked))
        sides, tied = [UP if sign > 0 else DOWN for sign in signs_asked], NO_END if least else -(-n // REPEAT_SHARE)
        stages = rank_stages(n, error=first_error(plan), sides=len(sides))
        sums = larger_side(each, sides, tied)
        return cls(n, plan.n_features, stages, features, passing, sums, len(sides), ties_against=least > 0), data

    @staticmethod
    def intervals(
        levels: list[FloatArray],
        wanted: Sequence[int],  # noqa: ARG004
        plan: Plan,
        *,
        error: float,
    ) -> FloatArray:
        """Return the interval of each column of values, the first level, by capped signed ranks, under a plan.

        It holds those for fewer bad rows, for which other caps are looked at: an interval never shrinks as more may be
        bad.
        """
        side = plan.question.side
        stages = rank_stages(plan.n_units, error=first_error(plan), sides=side.number)
        each = np.stack([
            by_ranks(levels[0], error=error, bad_rows=bad, n_rows=plan.n_units, side=side, indices=indices)
            for bad, indices in stages_up_to(stages, plan.bad_rows)
        ])  # fmt: skip
        return np.stack((each[:, 0].min(axis=0), each[:, 1].max(axis=0)))

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the features whose p-value is below 1, or ``some``, p and log p."""
        log_p = self.log_p(self.step_of(allowed), None if some is None else np.searchsorted(self.features, some))
        features, p = self.features if some is None else some, probabilities(log_p)
        alive = np.flatnonzero(p < 1) if some is None else np.arange(some.size)
        return features[alive], p[alive], log_p[alive]

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad."""
        return self.features[rejected(rule, probabilities(self.log_p(0)), self.n_hypotheses)]

    def along(self, steps: IntArray, at: IntArray) -> FloatArray:
        """Return p of some features, each for so many bad rows."""
        return probabilities(self.log_p(self.start + steps, np.searchsorted(self.features, at)))

    def last(self, error: float, at: IntArray, above: IntArray | None = None) -> IntArray:  # noqa: ARG002
        """Return the largest number of bad rows with p ≤ ``error``, else −1: sums less their slack are critical."""
        at, goal, first = np.searchsorted(self.features, at), float(np.log(error) - np.log(self.n_sides)), 0
        out = np.minimum(self.filter_slack[at], self.n_rows // 2)
        if self.start:
            out = np.minimum(out, self.start + self._last_of_caps(self.n_rows, at, WHOLE, goal, 0.0, start=0))
        for last, indices in self.stages:
            here = np.flatnonzero(out >= first)
            if here.size:
                reached = self._last_of_caps(last, at[here], indices, goal, self.alpha_shares)
                out[here] = np.minimum(out[here], np.where(reached < last, np.maximum(reached, first - 1), NO_END))
            first = last + 1
        return np.asarray(np.maximum(out - self.start, -1))

    def _last_of_caps(
        self, most: int, at: IntArray, indices: tuple[int, ...], goal: float, alpha: float, *, start: int | None = None
    ) -> IntArray:
        """Return up to how many bad rows, ``most`` or fewer, some cap has log p ≤ ``goal``, −1 where for none."""
        values, repeats, low, doubled = (array[..., at] for array in self.sums)
        out, tenth = np.full(at.size, -1), -(-self.n_rows // REPEAT_SHARE)
        hidden = self.n_rows - values + (self.start if start is None else start)  # see `_of_caps`
        for index, cap, log in self._shared(indices, alpha):
            reached = np.minimum(most, most_bad(low[index], values, cap, goal + log, hidden))
            if not self.ties_against:  # where bad rows could have led to either way with ties, both must do
                reached = np.maximum(reached, np.minimum(most, repeats - tenth))
                if (both := reached > tenth - 1 - repeats).any():
                    halves = -(-doubled[index] // 2)
                    other = most_bad(halves, values, cap, goal + log - LOG_2, hidden)
                    reached[both] = np.minimum(reached, np.maximum(tenth - 1 - repeats, other))[both]
            out = np.maximum(out, reached)
        return out

    def log_p(self, bad_rows: IntArray | int, at: IntArray | None = None) -> FloatArray:
        """Return log p of some of the features, by their indices, each for a number of bad rows of its own or one.

        It is the largest of the tests that are made for so many bad rows or fewer.
        """
        at = np.arange(self.features.size) if at is None else at
        bad, first = np.broadcast_to(np.asarray(bad_rows, dtype=np.int64), at.shape), 0
        # The test for no bad row, of data in which so many rows are replaced, if any.
        out = self._of_caps(bad - self.start, at, WHOLE, 0.0, start=0) if self.start else np.full(at.size, -np.inf)
        for last, indices in self.stages:
            here = np.flatnonzero(bad >= first)
            if here.size:
                p = self._of_caps(np.minimum(bad[here], last), at[here], indices, self.alpha_shares)
                out[here] = np.maximum(out[here], p)
            first = last + 1
        return np.where(bad <= self.filter_slack[at], np.minimum(0.0, out + np.log(self.n_sides)), 0.0)

    def _of_caps(
        self, bad: IntArray, at: IntArray, indices: tuple[int, ...], alpha: float, *, start: int | None = None
    ) -> FloatArray:
        """Return log of the smallest p of some caps, each over its share of the error."""
        values, repeats, low, doubled = (array[..., at] for array in self.sums)
        few = np.flatnonzero((REPEAT_SHARE * (repeats - bad) < self.n_rows) | self.ties_against)
        many = np.flatnonzero((REPEAT_SHARE * (repeats + bad) >= self.n_rows) & (not self.ties_against))
        # Zeros and gaps may hide values; rows that are replaced make room for as many as are allowed for.
        hidden = self.n_rows - values + (self.start if start is None else start)
        out = np.full(at.size, np.inf)
        for index, cap, log in self._shared(indices, alpha):
            slack, p = slack_of(bad, values, cap, hidden), np.full(at.size, -np.inf)
            p[few] = log_tails(values[few], cap, (low[index] - slack)[few])
            if many.size:  # the larger one where bad rows could have led to either way with ties
                halves = -(-(doubled[index] - 2 * slack)[many] // 2)
                p[many] = np.maximum(p[many], LOG_2 + log_tails(values[many], cap, halves))
            out = np.minimum(out, np.minimum(0.0, p) - log)
        return out

    def _shared(self, indices: tuple[int, ...], alpha: float) -> list[tuple[int, int, float]]:
        """Return indices, caps and the logarithms of their shares of the error, all of it or a share ``alpha``."""
        caps, shares = caps_of(self.n_rows), shares_of(self.n_rows)[list(indices)]
        logs = np.log(shares / max(alpha, shares.sum())).tolist()
        return [(index, caps[index], log) for index, log in zip(indices, logs, strict=True)]

    def beyond(self, allowed: Allowed) -> SignedRankEvidence:
        """Return what bounds p once further rows have been replaced: the p-values of this for so many more bad rows.

        The caps are those that are looked at for ``allowed`` bad rows, which share the error with those looked at for
        fewer: p is the largest for that number or fewer. For none it is the uncapped sum alone.
        """
        start = self.step_of(allowed)
        indices, shares = stages_up_to(self.stages, start)[-1][1], shares_of(self.n_rows)
        alpha_shares = float(shares[list(self.stages[min(start, 1)].indices)].sum())
        return replace(self, stages=(Stage(NO_END, indices),), alpha_shares=alpha_shares, start=start)


# Intervals by inversion.


def of_levels(
    levels: list[FloatArray], wanted: Sequence[int], plan: Plan, *, selected: Flags, error: float
) -> tuple[FloatArray, Flags]:
    """Return the null values that the test of a plan does not reject, as two rows; levels that are used are sorted.

    Of one side the other end is infinite. Where a test leaves out zeros and these are at least a tenth of all, an
    interval of all values would be about another centre than the test, and often hold zero beside a test that rejects
    it: that of ``selected`` columns is by signed ranks of the other values, and is flagged.
    """
    question, test = plan.question, one_sample_test(plan.question.test)
    for level in {0, *wanted}:
        levels[level].sort(axis=0)
    ends = test.intervals(levels, wanted, plan, error=error)
    many = selected & (REPEAT_SHARE * np.sum(levels[0] == 0, axis=0) >= levels[0].shape[0])
    many &= test.leaves_out_zeros and question.min_effect == 0 and plan.walk.dealing == "blocks"
    if many.any():
        rows = levels[0][:, many]
        others = [sort_columns(np.where(rows == 0, np.nan, rows))]
        ends[:, many] = SignedRankEvidence.intervals(others, wanted, plan, error=error)
    return ends, many


def by_ranks(
    values: FloatArray, *, error: float, bad_rows: int, n_rows: int, side: Side, indices: tuple[int, ...] | None = None
) -> FloatArray:
    """Return the null values that capped signed ranks do not reject, of each column of sorted values, as two rows.

    The caps at some ``indices``, all by default, share the error. Ties count against rejection and no value is left out
    for being the null value, so that what is rejected grows as a null value moves away, and with it what an interval
    leaves out. NaN is no value; a bad row may have hidden one or put it there, which moves sums by no more than turning
    its sign does.
    """
    from sparsemean._kernels.signed_ranks import score_ends  # numba takes its time

    at = slice(None) if indices is None else list(indices)
    caps, shares = np.array(caps_of(n_rows))[at], shares_of(n_rows)[at]
    log_errors = np.log(error / side.number * shares / shares.sum())
    there = present_sorted(values)
    needed = np.empty((there.size, caps.size), dtype=np.int64)
    for k, (cap, log_error) in enumerate(zip(caps.tolist(), log_errors.tolist(), strict=True)):
        needed[:, k] = critical_sums(there, cap, log_error) + slack_of(bad_rows, there, cap, n_rows - there)
    found = np.empty((len(side.signs), caps.size, there.size))
    score_ends(np.ascontiguousarray(values.T), there, caps, needed, np.array(side.signs), found)
    each = np.full((2, caps.size, there.size), np.array((-np.inf, np.inf))[:, np.newaxis, np.newaxis])
    each[[0 if sign > 0 else 1 for sign in side.signs]] = found
    return joint(each)


def by_pairs(values: FloatArray, plan: Plan, *, error: float, rejected: Flags) -> FloatArray:
    """Return of each column the share of pairs of values with a sum above 0 less the share below, and both its ends.

    Zeros are left out, as in the test: a bad row may have made a value one. 0 is no inner point where the test has
    ``rejected``.
    """
    out = np.empty((3, values.shape[1]))
    for k, column in enumerate(values.T):
        x, m, side = np.sort(column[(column != 0) & ~np.isnan(column)]), plan.bad_rows, plan.question.side
        n, total = x.size, max(1.0, x.size * (x.size - 1) / 2)
        won = (int((n - np.searchsorted(x, -x, "right")).sum()) - int(np.sum(x > 0))) / 2 / total
        lost = (int(np.searchsorted(x, -x).sum()) - int(np.sum(x < 0))) / 2 / total
        moved, step, most = m * (n + m - 1) / total, 1 / max(0.5, (n - m) // 2), (n + m) // 2
        ends = pair_ends(won, lost, moved, step=step, terms=most, error=error / side.number)
        out[:, k] = won - lost, *beside_test(*ends, side, rejected[k] * (won - lost))
    return out


def joint(each: FloatArray) -> FloatArray:
    """Return what intervals, a column each, have in common, or one of them where that is too little to be meant.

    All of them hold at once, so that any may be taken. Of noise that is not symmetric they are about different centres,
    and what they share is next to nothing: then the one that is farthest from zero is taken, which rejects it if any
    does; where none does, all that any of them holds.
    """
    low, high = each[0].max(axis=0), each[1].min(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # ends may be infinitely far apart
        width, shortest = high - low, (each[1] - each[0]).min(axis=0)
        meet = (width >= COMMON * shortest) | ~np.isfinite(width)
    beyond = np.maximum(each[0], -each[1])
    farthest = np.take_along_axis(each, beyond.argmax(axis=0)[np.newaxis, np.newaxis], axis=1)[:, 0]
    other = np.where(beyond.max(axis=0) > 0, farthest, np.stack((each[0].min(axis=0), each[1].max(axis=0))))
    return np.where(meet, np.stack((low, high)), other)
