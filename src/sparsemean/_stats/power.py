"""What the tests ask for and find under normal noise, before any data are seen: one search for all of them.

Bad rows either behave like the others, or all of them lie far on the other side. Effects are in standard deviations,
beyond the smallest one that matters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sparsemean._kernels.influence import GRID, steps
from sparsemean._stats import nulls
from sparsemean._stats.decision import Stages, rule_of, stages_up_to
from sparsemean._stats.group_ranks import critical_rank, log_u_tails
from sparsemean._stats.nulls import least_majority, sign_test_stages, times, two_sided
from sparsemean._stats.planning import bad_rows, first_error
from sparsemean._stats.signed_ranks import (
    REPEAT_SHARE,
    caps_of,
    critical_sums,
    filter_of,
    log_tails,
    rank_stages,
    score_sums,
    shares_of,
    slack_of,
)
from sparsemean._util.plans import BadRows, GroupSizes, Plan
from sparsemean._util.records import FloatArray, MeanTest
from sparsemean.errors import InputError

LARGEST_EFFECT = 12.0
"""Beyond it no normal value has the other sign, in floating point: what is not found there never is."""
HALVINGS = 60
"""A double has 53 bits: more change nothing."""
NODES = 128
"""Of the integrals over a normal law, on each side of its null value."""
FARTHEST = 9.0
"""Standard deviations from its mean at which a normal law ends."""
ROUNDED, LARGEST_LOG = 1e-9, 700.0
"""What p-values may be off by as a share, where they are compared; the logarithm of about the largest double."""
POINTS = 2048
"""Points that probabilities of several statistics at once are counted on."""


@dataclass(frozen=True)
class Power(ABC):
    """What one plan can do by its test, which looks at one statistic or at several."""

    plan: Plan

    @property
    def error(self) -> float:
        """The p-value that selects the most significant feature, were all features alike."""
        d = self.plan.n_hypotheses
        return rule_of(self.plan.question.selection, self.plan.question.level, d).next_error(None, d)

    @abstractmethod
    def smallest_p(self, bad: BadRows) -> float:
        """Return the smallest p-value that data without equal values can have if so many rows may be bad."""

    def possible(self, bad: BadRows) -> bool:
        """Whether a feature can be selected at so many bad rows."""
        return self.smallest_p(bad) <= self.error * (1 + ROUNDED)

    @abstractmethod
    def chance(self, effect: float, *, opposed: bool = False, alone: int | None = None) -> float:
        """Return the probability with which an effect is found, by all statistics or by one ``alone``."""

    @abstractmethod
    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the place of each statistic that is looked at, and what it asks for."""

    @abstractmethod
    def survivable_share(self) -> float:
        """Return the largest share of bad rows at which some feature can still be selected; below 0 if none can."""

    def smallest(self, power: float, *, opposed: bool = False, alone: int | None = None) -> float:
        """Return the effect that is found with a probability of ``power``; infinite if none is."""
        from scipy.optimize import brentq
        from scipy.special import ndtri

        def beyond(effect: float) -> float:
            chance = self.chance(effect, opposed=opposed, alone=alone)
            return float(ndtri(np.clip(chance, 1e-9, 1 - 1e-9)) - ndtri(power))

        low, high = 0.0, 0.25
        while beyond(high) < 0:
            if high > LARGEST_EFFECT:
                return math.inf
            low, high = high, 2 * high
        return float(brentq(beyond, low, high, xtol=1e-6, rtol=1e-4)) if beyond(low) < 0 else low

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return a row for each statistic: what it asks for, and what it finds alone."""
        return tuple(
            {
                **asked,
                "effect": self.smallest(power, alone=place),
                "effect_opposed": self.smallest(power, opposed=True, alone=place),
            }
            for place, asked in self.statistics()
        )


def power_of(plan: Plan) -> Power:
    """Return what a plan can do."""
    return GroupPower(plan) if plan.sizes else of_one_sample(plan)


def of_one_sample(plan: Plan) -> OneSamplePower:
    """Return what a plan of one sample can do."""
    if plan.question.test not in POWERS:
        raise InputError("test", f"be one whose power is known: {', '.join(POWERS)}", repr(plan.question.test))
    return POWERS[plan.question.test](plan)


# Ranks of two groups.


@dataclass(frozen=True)
class GroupPower(Power):
    """Pairs of rows of two groups in which the label's is above, by the normal law of their number."""

    strata: Sequence[GroupSizes] = ()
    """The groups within each stratum, where there are several: only the smallest p-value is known there."""

    def smallest_p(self, bad: BadRows) -> float:
        """Return that of groups that do not overlap: 2/C(n₀ + n₁, n₀), the product over strata, if no row is bad."""
        (n0, n1), sides = self.sizes, self.plan.question.side.number
        if bad.total and len(self.strata) < 2:
            rows, least = np.array([[n1, n0]]), (n1 - bad.label) * (n0 - bad.reference)
            tail = log_u_tails(rows[:, :1], rows[:, 1:], rows.sum(axis=1, keepdims=True), np.array([2 * least]),
                                     bound=False, halves=False)  # fmt: skip
            return min(1.0, sides * math.exp(tail[0]))
        logs = (
            math.lgamma(a + 1) + math.lgamma(b + 1) - math.lgamma(a + b + 1) for a, b in self.strata or [self.sizes]
        )
        return sides * math.exp(sum(logs))

    @property
    def sizes(self) -> GroupSizes:
        """Rows of both groups."""
        assert self.plan.sizes is not None
        return self.plan.sizes

    @cached_property
    def critical(self) -> int:
        """What the number of pairs must reach where no row is bad."""
        error = self.error / self.plan.question.side.number
        return critical_rank((self.sizes.label,), (self.sizes.reference,), error)

    def survivable_share(self) -> float:
        """Return the largest share of bad rows of each group at which groups that do not overlap are selected."""
        n0, n1 = self.sizes.reference, self.sizes.label
        low, high = 0.0, 0.5
        for _ in range(HALVINGS):
            share = 0.5 * (low + high)
            left = (n1 - bad_rows(n1, share)) * (n0 - bad_rows(n0, share))
            low, high = (share, high) if left >= self.critical else (low, share)
        return max(int(high * n + 1e-6) / n for n in (n0, n1))

    def chance(self, effect: float, *, opposed: bool = False, alone: int | None = None) -> float:  # noqa: ARG002
        """Return the chance for normal values that are an ``effect`` apart."""
        from scipy.special import ndtr

        n0, n1, b0, b1 = self.sizes.reference, self.sizes.label, self.plan.bad.reference, self.plan.bad.label
        asked = self.critical + b1 * n0 + b0 * n1 - b0 * b1
        if opposed:
            n0, n1 = n0 - b0, n1 - b1
        auc, twice = above(effect)
        variance = n0 * n1 * (auc * (1 - auc) + (n0 + n1 - 2) * (twice - auc * auc))
        return float(ndtr((n0 * n1 * auc - asked) / math.sqrt(max(variance, 1e-24))))

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the sizes of the groups."""
        yield 0, {"reference": self.sizes.reference, "label": self.sizes.label}

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return one row, with the share of pairs above."""
        (row,) = super().table(power)
        return ({**row, "auc": above(row["effect"])[0]},)


def above(shift: float) -> tuple[float, float]:
    """Return P(X > Y) for normal X and Y a ``shift`` apart, and P(X > Y and X > Y')."""
    from scipy.special import ndtr, roots_hermitenorm

    nodes, weights = roots_hermitenorm(80)
    at = ndtr(nodes + shift)
    return float(weights @ at / weights.sum()), float(weights @ at**2 / weights.sum())


# One sample.


class OneSamplePower(Power):
    """What a plan of one sample can do: p is smallest where all rows agree."""

    def survivable_share(self) -> float:
        """Return the largest share of bad rows at which some feature can still be selected; below 0 if none can."""
        numbers = range(self.plan.n_units // 2 + 1)
        return (bisect_left(numbers, True, key=lambda bad: not self.possible(BadRows(0, bad))) - 1) / self.plan.n_units


# Signs of bucket means.


@dataclass(frozen=True)
class SignPower(OneSamplePower):
    """Majorities of bucket signs, of several sizes of buckets."""

    def buckets(self, size: int) -> int:
        """Return the number of buckets of a size."""
        return self.plan.walk.n_buckets or -(-self.plan.n_units // size)

    @cached_property
    def stages(self) -> Stages:
        """Which sizes are looked at for how many bad rows.

        Both sides of a smallest effect that matters are counts of one side each.
        """
        sides = 1 if self.plan.question.min_effect else self.plan.question.side.number
        counts = [self.buckets(size) for size in self.plan.walk.bucket_sizes]
        return sign_test_stages(counts, error=first_error(self.plan), sides=sides)

    def _critical(self, size: int, error: float, n_sizes: int) -> int:
        return least_majority(self.buckets(size), error, self.plan.question.side.number * n_sizes / 2)

    def smallest_p(self, bad: BadRows) -> float:
        """Return that of buckets that all agree."""
        numbers, sides = np.array([self.buckets(size) for size in self.plan.walk.bucket_sizes]), self.plan.question.side
        return max(
            float(times(two_sided(numbers[[*at]] - less, numbers[[*at]]), sides.number * len(at) / 2).min())
            for less, at in stages_up_to(self.stages, bad.label)
        )

    def majority(self, size: int) -> int:
        """Return the majority of one sign that selects a feature by one size alone, slack included."""
        place, bad_rows = self.plan.walk.bucket_sizes.index(size), self.plan.bad_rows
        looks = stages_up_to(self.stages, bad_rows)
        if place not in looks[-1][1]:
            return max(self.buckets(size) + 1, self._critical(size, self.error, 1) + bad_rows)
        return max(bad + self._critical(size, self.error, len(places)) for bad, places in looks)

    def passing(self, error: float) -> dict[int, int]:
        """Return the majority of each size at which all sizes together have p ≤ ``error``, slack included."""
        sizes = self.plan.walk.bucket_sizes
        return {size: self._critical(size, error, len(sizes)) + self.plan.bad_rows for size in sizes}

    def best(self, majorities: dict[int, int], effect: float, *, opposed: bool) -> float:
        """Return the chance that one of the majorities of sizes is reached; each bad row that opposes spoils a bucket.

        It is that of the size that does best.
        """
        from scipy.special import bdtrc, ndtr

        spoilt = self.plan.bad_rows if opposed else 0
        each = [(k, self.buckets(size) - spoilt, ndtr(effect * math.sqrt(size))) for size, k in majorities.items()]
        return max((float(bdtrc(k - 1, J, share)) for k, J, share in each if k <= J), default=0.0)

    def chance(self, effect: float, *, opposed: bool = False, alone: int | None = None) -> float:
        """Return the chance of the size that does best."""
        sizes = self.plan.walk.bucket_sizes if alone is None else (alone,)
        return self.best({size: self.majority(size) for size in sizes}, effect, opposed=opposed)

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield every size."""
        for size in self.plan.walk.bucket_sizes:
            yield size, {"size": size, "buckets": self.buckets(size), "majority": self.majority(size)}


# Capped signed ranks.


@dataclass(frozen=True)
class RankPower(OneSamplePower):
    """Capped signed ranks behind the filter of bucket signs.

    Every sum has a beta law on its range with the mean and the variance that it has, and they depend on each other as
    normal values of the same correlations do. Bad rows that oppose have the largest ranks and so leave a sum of the
    others alone.
    """

    @cached_property
    def signs(self) -> SignPower:
        """The filter."""
        return SignPower(self.plan)

    @cached_property
    def stages(self) -> Stages:
        """Which caps are looked at for how many bad rows."""
        return rank_stages(self.plan.n_units, error=first_error(self.plan), sides=self.plan.question.side.number)

    def _errors(self, bad_rows: int) -> Iterator[dict[int, tuple[float, int]]]:
        """Yield the logarithm of the tail, and the slack, that each cap has, wherever p must be small."""
        n, sides = self.plan.n_units, self.plan.question.side.number
        caps, shares, values = caps_of(n), shares_of(n), np.array([n])
        # A tenth of the rows, bad, could have led to the way with many ties, whose p-value is twice as large; both
        # sides of a smallest effect have the other way only.
        one_way = bool(self.plan.question.min_effect) and sides == 2
        for bad, places in stages_up_to(self.stages, bad_rows):
            ties = 2 if REPEAT_SHARE * bad >= n and not one_way else 1
            logs = np.log(self.error / sides / ties * shares[list(places)] / shares[list(places)].sum())
            yield {
                place: (float(log), int(slack_of(bad, values, caps[place])[0]))
                for place, log in zip(places, logs, strict=True)
            }

    @cached_property
    def _looks(self) -> list[dict[int, int]]:
        """The sum, slack included, that each cap asks for, wherever p must be small."""
        n, caps = np.array([self.plan.n_units]), caps_of(self.plan.n_units)
        return [
            {place: int(critical_sums(n, caps[place], log)[0]) + slack for place, (log, slack) in errors.items()}
            for errors in self._errors(self.plan.bad_rows)
        ]

    @cached_property
    def _filter(self) -> dict[int, int]:
        """The majority that passes the filter, by size; empty where every feature passes."""
        largest = filter_of(self.plan)
        return {} if largest >= 1 else self.signs.passing(largest)

    def smallest_p(self, bad: BadRows) -> float:
        """Return that of values of one sign: 2^(1 − n) if no row is bad."""
        n, caps = np.array([self.plan.n_units]), caps_of(self.plan.n_units)
        extra = bad.label - self.plan.bad_rows
        if self._filter and all(self.signs.buckets(size) < k + extra for size, k in self._filter.items()):
            return 1.0
        if not bad.label:
            return self.plan.question.side.number * 0.5**self.plan.n_units
        beyond = max(
            min(log_tails(n, caps[k], score_sums(n, caps[k]) - slack)[0] - log for k, (log, slack) in errors.items())
            for errors in self._errors(bad.label)
        )
        return min(1.0, self.error * math.exp(min(beyond, LARGEST_LOG)))

    def chance(self, effect: float, *, opposed: bool = False, alone: int | None = None) -> float:
        """Return the chance that some cap selects wherever it must; that of the cap at one place, where named.

        Nearly everything that ranks select passes the filter: where not, that is what decides.
        """
        n = self.plan.n_units - (self.plan.bad_rows if opposed else 0)
        model = _JointLaw(effect, n, caps_of(self.plan.n_units))
        z, found = model.values, np.ones(POINTS, dtype=bool)
        for sums in self._looks:
            # Without bad rows there is the uncapped sum alone, which must be large enough whatever else is looked at.
            asked = {p: t for p, t in sums.items() if alone in (None, p)} or sums
            found &= np.any([z[:, p] >= model.quantile(p, t) for p, t in asked.items()], axis=0)
        passes = self.signs.best(self._filter, effect, opposed=opposed) if self._filter else 1.0
        return min(float(found.mean()), passes)

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield every cap that is looked at."""
        caps, n = caps_of(self.plan.n_units), np.array([self.plan.n_units])
        for place in self._looks[-1]:
            largest, asked = int(score_sums(n, caps[place])[0]), [sums.get(place, 0) for sums in self._looks]
            yield place, {"cap": caps[place], "largest": largest, "sum": max(asked)}


class _JointLaw:
    """The joint law of capped sums of n normal values with a mean, as normal values.

    T ≈ n·Σh(xᵢ) with h(x) = 1{x > 0}·min(F(|x|), c) + P(|x| ≤ Y, F(Y) < c), where F is the law of |Y| and c = C/n
    (Hájek's projection): its variance is n³·Var h. The mean is exact.
    """

    def __init__(self, effect: float, n: int, caps: tuple[int, ...]) -> None:
        from scipy.special import chndtrix, ndtr

        x, weights = _nodes(effect)
        above, size_of = x > 0, np.abs(x)
        law = ndtr(size_of - effect) - ndtr(-size_of - effect)
        scores = []
        self.means, self.all_above = [], float(ndtr(effect)) ** n
        self.largest = [int(score_sums(np.array([n]), cap)[0]) for cap in caps]
        for cap in caps:
            c = min(1.0, cap / n)
            last = math.sqrt(chndtrix(c, 1, effect * effect)) if c < 1 else math.inf  # quantile of |Y|
            inside = ndtr(last - effect) - ndtr(size_of - effect)
            scores.append(np.where(above, np.minimum(law, c), 0.0) + np.maximum(inside, 0.0))
            self.means.append(n * float(weights[above] @ _mean_score(law[above], n, cap)))
        h = np.array(scores) - np.array(scores) @ weights[:, np.newaxis]
        covariance = (h * weights) @ h.T
        self.variances = n**3 * np.diag(covariance)
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        correlation = covariance / np.outer(spread, spread)
        np.fill_diagonal(correlation, 1.0)
        values, vectors = np.linalg.eigh(correlation)
        self.values = _points(len(caps)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T

    def quantile(self, place: int, total: int) -> float:
        """Return what a normal value must reach for the sum of one cap to reach a total."""
        from scipy.special import betainc, ndtri

        width = self.largest[place] + 1.0
        if total >= width:
            return math.inf
        mean = min(self.means[place] + 0.5, width - 0.5) / width
        variance = max(float(self.variances[place]) / width**2, 1e-14)
        both = max(mean * (1 - mean) / variance - 1, 1.0)
        below = float(betainc(mean * both, (1 - mean) * both, total / width))
        return float(ndtri(min(below, 1 - self.all_above)))  # values that are all above zero reach any total there is


def _nodes(effect: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of a normal law with this mean, apart on both sides of zero."""
    nodes, weights = _legendre()
    x, out = [], []
    for low, high in ((min(effect - FARTHEST, 0.0), 0.0), (max(effect - FARTHEST, 0.0), effect + FARTHEST)):
        half = 0.5 * (high - low)
        x.append(low + half * (1 + nodes))
        out.append(half * weights)
    values = np.concatenate(x)
    density = np.concatenate(out) * np.exp(-0.5 * (values - effect) ** 2)
    return values, density / density.sum()


@lru_cache(maxsize=1)
def _legendre() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


@lru_cache(maxsize=8)
def _points(dimensions: int) -> FloatArray:
    """Return normal values that fill space evenly: multiples of powers of the root of g^(k+1) = g + 1."""
    from scipy.special import ndtri

    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps_ = root ** -np.arange(1.0, dimensions + 1)
    return np.asarray(ndtri((0.5 + np.outer(np.arange(1, POINTS + 1), steps_)) % 1.0))


def _mean_score(law: FloatArray, n: int, cap: int) -> FloatArray:
    """Return E min(1 + B, C), where B of n − 1 other values are smaller, each with probability ``law``."""
    from scipy.special import bdtr

    if cap >= n:
        return 1 + (n - 1) * law
    below = bdtr(cap - 1, n - 1, law)
    fewer = bdtr(cap - 2, n - 2, law) if cap > 1 else np.zeros_like(law)
    return np.asarray(cap * (1 - below) + below + (n - 1) * law * fewer)


# The mean itself.


@dataclass(frozen=True)
class SumPower(OneSamplePower):
    """Sums of a bounded influence, where the scale that is given is the standard deviation."""

    @cached_property
    def test(self) -> MeanTest:
        """The test of a column of scale one."""
        return nulls.mean_test(self.plan, np.ones(1))

    def smallest_p(self, bad: BadRows) -> float:
        """Return that of the largest sum."""
        test = nulls.mean_test(replace(self.plan, bad_rows=bad.label), np.ones(1))
        beyond = nulls.bound(test, 1.0, bad.label) - self.plan.n_units * nulls.psi_max(test.kappa)
        return min(1.0, math.exp(min(beyond, LARGEST_LOG)))

    def chance(self, effect: float, *, opposed: bool = False, alone: int | None = None) -> float:  # noqa: ARG002
        """Return the chance by the normal law of the sum; the influence of a bad row that opposes is the largest."""
        from scipy.special import ndtr

        m, test = self.plan.bad_rows, self.test
        x, weights = _nodes(effect)
        psi = steps(x / test.unit[0], test.kappa) / GRID
        mean = float(weights @ psi)
        variance = float(weights @ (psi - mean) ** 2)
        voting = self.plan.n_units - (m if opposed else 0)
        sum_ = voting * mean - (m * nulls.psi_max(test.kappa) if opposed else 0.0)
        beyond = sum_ - nulls.bound(test, self.error, m)
        return float(ndtr(beyond / math.sqrt(max(voting * variance, 1e-24))))

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the one sum, with half the width of an interval."""
        yield 0, {"half_width": 2 * float(self.test.unit[0]) * self.test.bias / self.plan.n_units}


POWERS: dict[str, type[OneSamplePower]] = {"ranks": RankPower, "sums": SumPower, "buckets": SignPower}
"""What tests of one sample can do, by their names."""
