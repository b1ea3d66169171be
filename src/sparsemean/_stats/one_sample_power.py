"""What the tests of one sample find under normal noise: thresholds, chances and effects before any data are seen.

Bad rows either behave like the others, or all of them lie far on the other side. Effects are in standard deviations,
beyond the smallest one that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from sparsemean._kernels.influence import GRID, steps
from sparsemean._stats import means
from sparsemean._stats.decision import harmonic
from sparsemean._stats.nulls import Era, two_sided
from sparsemean._stats.planning import first_error
from sparsemean._stats.sign_evidence import eras_of
from sparsemean._stats.signed_ranks import (
    REPEAT_SHARE,
    caps_of,
    critical_sum,
    filter_of,
    rank_eras,
    score_sums,
    shares_of,
    slack_of,
)
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray

LARGEST_EFFECT = 12.0
"""Beyond it no normal value has the other sign, in floating point: what is not found there never is."""
NODES = 128
"""Of the integrals over a normal law, on each side of its null value."""
REACH = 9.0
POINTS = 2048
"""Points that probabilities of several statistics at once are counted on."""


def error_of(plan: Plan) -> float:
    """Return the p-value that selects the most significant feature, were all features alike."""
    if plan.question.selection == "fdr":
        return plan.question.level
    return plan.question.level / (harmonic(plan.n_features) if plan.question.selection == "fdr_by" else plan.n_features)


class TestPower(Protocol):
    """What one plan can do by its test."""

    @property
    def plan(self) -> Plan:
        """The plan."""

    def possible(self, bad_rows: int) -> bool:
        """Whether a feature on which all rows agree is selected at so many bad rows."""

    def chance(self, effect: float, *, opposed: bool) -> float:
        """Return the probability with which an effect is found, at the plan's bad rows."""

    def smallest(self, power: float, *, opposed: bool) -> float:
        """Return the effect that is found with a probability of ``power``; infinite if none is."""

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return a row for each statistic that the test looks at: what it asks for, and what it finds alone."""


def power_of(plan: Plan) -> TestPower:
    """Return what a plan of one sample can do."""
    if plan.question.test == "ranks":
        return RankPower(plan)
    return SumPower(plan) if plan.question.test == "sums" else SignPower(plan)


def survivable_rows(plan: Plan) -> int:
    """Return the largest number of bad rows at which some feature can still be selected; negative if none can."""
    test = power_of(plan)
    low, high = -1, plan.n_units // 2
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if test.possible(middle) else (low, middle - 1)
    return low


@lru_cache(maxsize=4096)
def critical(n_buckets: int, error: float) -> int:
    """Return the smallest majority k among J buckets with p ≤ error and p < 1, by halving; J + 1 if there is none."""
    low, high = 0, n_buckets + 1
    while low < high:
        middle = (low + high) // 2
        p = float(two_sided(np.array([middle]), np.array([n_buckets]))[0])
        low, high = (low, middle) if p <= error and p < 1 else (middle + 1, high)
    return low


def _looks(eras: tuple[Era, ...], bad_rows: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return the numbers of bad rows at which p must be small, and what is looked at there: p̃ is their largest."""
    firsts = (0, *(era.last + 1 for era in eras[:-1]))
    return [(min(bad_rows, era.last), era.places) for first, era in zip(firsts, eras, strict=True) if bad_rows >= first]


def _reached(chance: Callable[[float], float], power: float) -> float:
    """Return the effect whose chance is ``power``; infinite where none has it."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    def beyond(effect: float) -> float:
        return float(ndtri(np.clip(chance(effect), 1e-9, 1 - 1e-9)) - ndtri(power))

    low, high = 0.0, 0.25
    while chance(high) < power:
        if high > LARGEST_EFFECT:
            return math.inf
        low, high = high, 2 * high
    return float(brentq(beyond, low, high, xtol=1e-6, rtol=1e-4)) if chance(low) < power else low


# Signs of bucket means.


@dataclass(frozen=True)
class SignPower:
    """Majorities of bucket signs, of several sizes of buckets."""

    plan: Plan

    @property
    def sides(self) -> int:
        """In how many directions a mean may lie."""
        return self.plan.question.side.number

    def buckets(self, size: int) -> int:
        """Return the number of buckets of a size."""
        return self.plan.walk.n_buckets or -(-self.plan.n_units // size)

    @cached_property
    def eras(self) -> tuple[Era, ...]:
        """Which sizes are looked at for how many bad rows, as `nulls.sign_test_eras` has it.

        Both sides of a smallest effect that matters are counts of one side each.
        """
        error = first_error(self.plan) * (2 if self.plan.question.min_effect else 2 / self.sides)
        counts = [self.buckets(size) for size in self.plan.walk.bucket_sizes]
        return eras_of([J - critical(J, error) for J in counts])

    def _critical(self, size: int, error: float, n_sizes: int) -> int:
        return critical(self.buckets(size), 2 * error / (self.sides * n_sizes))

    def possible(self, bad_rows: int) -> bool:
        """Whether buckets that all agree select at so many bad rows."""
        sizes, error = self.plan.walk.bucket_sizes, error_of(self.plan)
        return all(
            any(self.buckets(sizes[k]) - bad >= self._critical(sizes[k], error, len(places)) for k in places)
            for bad, places in _looks(self.eras, bad_rows)
        )

    def majority(self, size: int) -> int:
        """Return the majority of one sign that selects a feature by one size alone, slack included."""
        place, bad_rows = self.plan.walk.bucket_sizes.index(size), self.plan.bad_rows
        looks = _looks(self.eras, bad_rows)
        if place not in looks[-1][1]:
            return max(self.buckets(size) + 1, self._critical(size, error_of(self.plan), 1) + bad_rows)
        return max(bad + self._critical(size, error_of(self.plan), len(places)) for bad, places in looks)

    def passing(self, size: int, error: float) -> int:
        """Return the majority of one size at which all sizes together have p ≤ ``error``, slack included."""
        return self._critical(size, error, len(self.plan.walk.bucket_sizes)) + self.plan.bad_rows

    def voting(self, size: int, *, opposed: bool) -> int:
        """Return the number of buckets without a bad row that votes against the rest, each spoils one."""
        return max(0, self.buckets(size) - (self.plan.bad_rows if opposed else 0))

    def chance(self, effect: float, *, opposed: bool) -> float:
        """Return the chance of the size that does best."""
        from scipy.special import bdtrc, ndtr

        chances = [0.0]
        for size in self.plan.walk.bucket_sizes:
            k, J = self.majority(size), self.voting(size, opposed=opposed)
            if k <= J:
                chances.append(float(bdtrc(k - 1, J, ndtr(effect * math.sqrt(size)))))
        return max(chances)

    def smallest(self, power: float, *, opposed: bool) -> float:
        """Return the effect of the size that does best."""
        return min(self._smallest(size, power, opposed=opposed) for size in self.plan.walk.bucket_sizes)

    def _smallest(self, size: int, power: float, *, opposed: bool) -> float:
        from scipy.special import betaincinv, ndtri

        k, J = self.majority(size), self.voting(size, opposed=opposed)
        if k > J:
            return math.inf
        share = float(betaincinv(k, J - k + 1, power))  # P(Bin(J, share) ≥ k) = power
        return float(ndtri(share)) / math.sqrt(size)

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return a row a size."""
        return tuple(
            {
                "size": size,
                "buckets": self.buckets(size),
                "majority": self.majority(size),
                "effect": self._smallest(size, power, opposed=False),
                "effect_opposed": self._smallest(size, power, opposed=True),
            }
            for size in self.plan.walk.bucket_sizes
        )


# Capped signed ranks.


@dataclass(frozen=True)
class RankPower:
    """Capped signed ranks behind the filter of bucket signs.

    Every sum has a beta law on its range with the mean and the variance that it has, every count its binomial law, and
    they depend on each other as normal values of the same correlations do. Bad rows that oppose have the largest ranks
    and so leave a sum of the others alone.
    """

    plan: Plan

    @cached_property
    def signs(self) -> SignPower:
        """The filter."""
        return SignPower(self.plan)

    @cached_property
    def eras(self) -> tuple[Era, ...]:
        """Which caps are looked at for how many bad rows."""
        return rank_eras(self.plan.n_units, error=first_error(self.plan), sides=self.signs.sides)

    def _looks(self, bad_rows: int) -> list[dict[int, int]]:
        """Return the sum, slack included, that each cap asks for, wherever p must be small."""
        n, caps, shares = self.plan.n_units, caps_of(self.plan.n_units), shares_of(self.plan.n_units)
        error, values, out = error_of(self.plan) / self.signs.sides, np.array([n]), []
        # A tenth of the rows, bad, could have led to the way with many ties, whose p-value is twice as large; both
        # sides of a smallest effect have the other way only.
        one_way = bool(self.plan.question.min_effect) and self.signs.sides == 2
        for bad, places in _looks(self.eras, bad_rows):
            ties = 2 if REPEAT_SHARE * bad >= n and not one_way else 1
            logs = np.log(error / ties * shares[list(places)] / shares[list(places)].sum())
            out.append({
                place: critical_sum(n, caps[place], float(log)) + int(slack_of(bad, values, caps[place])[0])
                for place, log in zip(places, logs, strict=True)
            })  # fmt: skip
        return out

    @cached_property
    def _filter(self) -> dict[int, int]:
        """The majority that passes the filter, by size; empty where every feature passes."""
        largest = filter_of(self.plan)
        return {} if largest >= 1 else {size: self.signs.passing(size, largest) for size in self.plan.walk.bucket_sizes}

    def possible(self, bad_rows: int) -> bool:
        """Whether values of one sign are selected at so many bad rows."""
        n, caps = np.array([self.plan.n_units]), caps_of(self.plan.n_units)
        extra = bad_rows - self.plan.bad_rows
        if self._filter and all(self.signs.buckets(size) < k + extra for size, k in self._filter.items()):
            return False
        return all(
            any(int(score_sums(n, caps[place])[0]) >= t for place, t in sums.items()) for sums in self._looks(bad_rows)
        )

    def chance(self, effect: float, *, opposed: bool, alone: int | None = None) -> float:
        """Return the chance that some cap selects wherever it must; that of the cap at one place, where named."""
        from scipy.special import bdtr, ndtri

        n = self.plan.n_units - (self.plan.bad_rows if opposed else 0)
        caps, sizes = caps_of(self.plan.n_units), tuple(self._filter)
        model = _Model(effect, n, caps, sizes)
        z, found = model.values, np.ones(POINTS, dtype=bool)
        for sums in self._looks_here:
            asked = {p: t for p, t in sums.items() if alone in (None, p)}
            found &= np.any([z[:, p] >= model.quantile(p, t) for p, t in asked.items()], axis=0) if asked else False
        if sizes:
            passed = np.zeros(POINTS, dtype=bool)
            for k, size in enumerate(sizes):
                J, majority = self.signs.voting(size, opposed=opposed), self._filter[size]
                if majority <= J:
                    passed |= z[:, len(caps) + k] >= ndtri(bdtr(majority - 1, J, model.shares[k]))
            found &= passed
        return float(found.mean())

    @cached_property
    def _looks_here(self) -> list[dict[int, int]]:
        return self._looks(self.plan.bad_rows)

    def smallest(self, power: float, *, opposed: bool, alone: int | None = None) -> float:
        """Return the effect that ranks find, by all caps or by one alone."""
        return _reached(lambda effect: self.chance(effect, opposed=opposed, alone=alone), power)

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return a row a cap that is looked at."""
        caps = caps_of(self.plan.n_units)
        return tuple(
            {
                "cap": caps[place],
                "largest": int(score_sums(np.array([self.plan.n_units]), caps[place])[0]),
                "sum": max(sums[place] for sums in self._looks_here),
                "effect": self.smallest(power, opposed=False, alone=place),
                "effect_opposed": self.smallest(power, opposed=True, alone=place),
            }
            for place in self._looks_here[-1]
        )


class _Model:
    """The joint law of capped sums and bucket counts of n normal values with a mean, as normal values.

    T ≈ n·Σh(xᵢ) with h(x) = 1{x > 0}·min(F(|x|), c) + P(|x| ≤ Y, F(Y) < c), where F is the law of |Y| and c = C/n
    (Hájek's projection): its variance is n³·Var h. The mean is exact.
    """

    def __init__(self, effect: float, n: int, caps: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        from scipy.special import ndtr

        x, weights = _nodes(effect)
        above, size_of = x > 0, np.abs(x)
        law = ndtr(size_of - effect) - ndtr(-size_of - effect)
        scores = []
        self.means, self.all_above = [], float(ndtr(effect)) ** n
        self.largest = [int(score_sums(np.array([n]), cap)[0]) for cap in caps]
        for cap in caps:
            c = min(1.0, cap / n)
            inside = ndtr(_quantile(c, effect) - effect) - ndtr(size_of - effect)
            scores.append(np.where(above, np.minimum(law, c), 0.0) + np.maximum(inside, 0.0))
            self.means.append(n * float(weights[above] @ _mean_score(law[above], n, cap)))
        self.shares = [float(ndtr(effect * math.sqrt(size))) for size in sizes]
        signs = [above * 1.0 if b == 1 else ndtr((x + (b - 1) * effect) / math.sqrt(b - 1)) for b in sizes]
        h = np.array(scores) - np.array(scores) @ weights[:, np.newaxis]
        g = np.array(signs).reshape(len(sizes), x.size)
        covariance = np.empty((len(caps) + len(sizes),) * 2)
        k = len(caps)
        covariance[:k, :k] = (h * weights) @ h.T
        covariance[:k, k:] = (h * weights) @ g.T
        covariance[k:, :k] = covariance[:k, k:].T
        covariance[k:, k:] = _nested(effect, sizes)
        self.variances = n**3 * np.diag(covariance)[:k]
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        spread[:k] = np.maximum(spread[:k], 1e-150)
        correlation = covariance / np.outer(spread, spread)
        np.fill_diagonal(correlation, 1.0)
        values, vectors = np.linalg.eigh(correlation)
        self.values = _points(covariance.shape[0]) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T

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
    for low, high in ((min(effect - REACH, 0.0), 0.0), (max(effect - REACH, 0.0), effect + REACH)):
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


def _quantile(share: float, effect: float) -> float:
    """Return q with P(|Y| ≤ q) = share, by halving."""
    from scipy.special import ndtr

    if share >= 1:
        return math.inf
    low, high = 0.0, effect + REACH
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ndtr(middle - effect) - ndtr(-middle - effect) < share else (low, middle)
    return high


def _mean_score(law: FloatArray, n: int, cap: int) -> FloatArray:
    """Return E min(1 + B, C), where B of n − 1 other values are smaller, each with probability ``law``."""
    from scipy.special import bdtr

    if cap >= n:
        return 1 + (n - 1) * law
    below = bdtr(cap - 1, n - 1, law)
    fewer = bdtr(cap - 2, n - 2, law) if cap > 1 else np.zeros_like(law)
    return np.asarray(cap * (1 - below) + below + (n - 1) * law * fewer)


def _nested(effect: float, sizes: tuple[int, ...]) -> FloatArray:
    """Return the covariances of sums of bucket signs, over n: those of nested buckets over the larger size."""
    from scipy.special import ndtr

    out = np.empty((len(sizes), len(sizes)))
    for i, small in enumerate(sizes):
        for j, large in enumerate(sizes):
            if small == large:
                p = float(ndtr(effect * math.sqrt(small)))
                out[i, j] = p * (1 - p) / small
            elif small < large:
                rest = large - small
                x, weights = _nodes(effect * math.sqrt(small))
                both = weights @ np.where(x > 0, ndtr((x * math.sqrt(small) + rest * effect) / math.sqrt(rest)), 0.0)
                one, other = ndtr(effect * math.sqrt(small)), ndtr(effect * math.sqrt(large))
                out[i, j] = out[j, i] = (both - one * other) / small
    return out


# The mean itself.


@dataclass(frozen=True)
class SumPower:
    """Sums of a bounded influence, where the scale that is given is the standard deviation."""

    plan: Plan

    def possible(self, bad_rows: int) -> bool:
        """Whether sums can reach the bound at so many bad rows."""
        plan = replace(self.plan, bad_rows=bad_rows)
        test = means.mean_test(plan, np.ones(1))
        return plan.n_units * means.most(test.kappa) >= means.bound(test, error_of(plan), bad_rows)

    def chance(self, effect: float, *, opposed: bool) -> float:
        """Return the chance by the normal law of the sum; the influence of a bad row that opposes is the largest."""
        from scipy.special import ndtr

        m, test = self.plan.bad_rows, means.mean_test(self.plan, np.ones(1))
        x, weights = _nodes(effect)
        psi = steps(x / test.unit[0], test.kappa) / GRID
        mean = float(weights @ psi)
        variance = float(weights @ (psi - mean) ** 2)
        voting = self.plan.n_units - (m if opposed else 0)
        sum_ = voting * mean - (m * means.most(test.kappa) if opposed else 0.0)
        beyond = sum_ - means.bound(test, error_of(self.plan), m)
        return float(ndtr(beyond / math.sqrt(max(voting * variance, 1e-24))))

    def smallest(self, power: float, *, opposed: bool) -> float:
        """Return the mean that is found."""
        return _reached(lambda effect: self.chance(effect, opposed=opposed), power)

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return one row, with half the width of an interval."""
        test = means.mean_test(self.plan, np.ones(1))
        width = 2 * float(test.unit[0]) * test.bias / self.plan.n_units
        effect, opposed = (self.smallest(power, opposed=against) for against in (False, True))
        return ({"half_width": width, "effect": effect, "effect_opposed": opposed},)
