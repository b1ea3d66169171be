"""What the tests of one sample ask for and find under normal noise, before any data are seen."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sparsemean._kernels.influence import GRID, steps
from sparsemean._stats import nulls
from sparsemean._stats.decision import rule_of
from sparsemean._stats.nulls import Stages, stages_of, stages_up_to, two_sided
from sparsemean._stats.planning import first_error
from sparsemean._stats.power import Power, halved
from sparsemean._stats.signed_ranks import (
    REPEAT_SHARE,
    caps_of,
    critical_sum,
    filter_of,
    rank_stages,
    score_sums,
    shares_of,
    slack_of,
)
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, MeanTest

NODES = 128
"""Of the integrals over a normal law, on each side of its null value."""
FARTHEST = 9.0
"""Standard deviations from its mean at which a normal law ends."""
POINTS = 2048
"""Points that probabilities of several statistics at once are counted on."""


class OneSamplePower(Power):
    """What a plan of one sample can do."""

    @property
    def error(self) -> float:
        """The p-value that selects the most significant feature, were all features alike."""
        d = self.plan.n_features
        return rule_of(self.plan.question.selection, self.plan.question.level, d).next_error(None, d)

    @abstractmethod
    def possible(self, bad_rows: int) -> bool:
        """Whether a feature on which all rows agree is selected at so many bad rows."""

    def survivable_rows(self) -> int:
        """Return the largest number of bad rows at which some feature can still be selected; −1 if none can."""
        numbers = range(self.plan.n_units // 2 + 1)
        return bisect_left(numbers, True, key=lambda bad: not self.possible(bad)) - 1


def power_of(plan: Plan) -> OneSamplePower:
    """Return what a plan of one sample can do."""
    tests: dict[str, type[OneSamplePower]] = {"ranks": RankPower, "sums": SumPower, "buckets": SignPower}
    return tests[plan.question.test](plan)


@lru_cache(maxsize=4096)
def critical(n_buckets: int, error: float) -> int:
    """Return the smallest majority k among J buckets with p ≤ error and p < 1, by halving; J + 1 if there is none."""

    def selects(majority: int) -> bool:
        p = float(two_sided(np.array([majority]), np.array([n_buckets]))[0])
        return p <= error and p < 1

    return bisect_left(range(n_buckets + 1), True, key=selects)


# Signs of bucket means.


@dataclass(frozen=True)
class SignPower(OneSamplePower):
    """Majorities of bucket signs, of several sizes of buckets."""

    def buckets(self, size: int) -> int:
        """Return the number of buckets of a size."""
        return self.plan.walk.n_buckets or -(-self.plan.n_units // size)

    @cached_property
    def stages(self) -> Stages:
        """Which sizes are looked at for how many bad rows, as `nulls.sign_test_stages` has it.

        Both sides of a smallest effect that matters are counts of one side each.
        """
        error = first_error(self.plan) * (2 if self.plan.question.min_effect else 2 / self.plan.question.side.number)
        counts = [self.buckets(size) for size in self.plan.walk.bucket_sizes]
        return stages_of([J - critical(J, error) for J in counts])

    def _critical(self, size: int, error: float, n_sizes: int) -> int:
        return critical(self.buckets(size), 2 * error / (self.plan.question.side.number * n_sizes))

    def possible(self, bad_rows: int) -> bool:
        """Whether buckets that all agree select at so many bad rows."""
        sizes = self.plan.walk.bucket_sizes
        return all(
            any(self.buckets(sizes[k]) - bad >= self._critical(sizes[k], self.error, len(places)) for k in places)
            for bad, places in stages_up_to(self.stages, bad_rows)
        )

    def majority(self, size: int) -> int:
        """Return the majority of one sign that selects a feature by one size alone, slack included."""
        place, bad_rows = self.plan.walk.bucket_sizes.index(size), self.plan.bad_rows
        looks = stages_up_to(self.stages, bad_rows)
        if place not in looks[-1][1]:
            return max(self.buckets(size) + 1, self._critical(size, self.error, 1) + bad_rows)
        return max(bad + self._critical(size, self.error, len(places)) for bad, places in looks)

    def passing(self, size: int, error: float) -> int:
        """Return the majority of one size at which all sizes together have p ≤ ``error``, slack included."""
        return self._critical(size, error, len(self.plan.walk.bucket_sizes)) + self.plan.bad_rows

    def voting(self, size: int, *, opposed: bool) -> int:
        """Return the number of buckets without a bad row that votes against the rest, each spoils one."""
        return max(0, self.buckets(size) - (self.plan.bad_rows if opposed else 0))

    def _each(self, *, opposed: bool, alone: int | None) -> Iterator[tuple[int, int, int]]:
        """Yield the sizes, the majority that each asks for and the buckets that vote, where these can be enough."""
        for size in self.plan.walk.bucket_sizes if alone is None else (alone,):
            k, J = self.majority(size), self.voting(size, opposed=opposed)
            if k <= J:
                yield size, k, J

    def chance(self, effect: float, *, opposed: bool, alone: int | None = None) -> float:
        """Return the chance of the size that does best."""
        from scipy.special import bdtrc, ndtr

        sizes = self._each(opposed=opposed, alone=alone)
        return max((float(bdtrc(k - 1, J, ndtr(effect * math.sqrt(size)))) for size, k, J in sizes), default=0.0)

    def smallest(self, power: float, *, opposed: bool, alone: int | None = None) -> float:
        """Return the effect of the size that does best: that at which P(Bin(J, share) ≥ k) is the power."""
        from scipy.special import betaincinv, ndtri

        sizes = self._each(opposed=opposed, alone=alone)
        effects = (float(ndtri(betaincinv(k, J - k + 1, power))) / math.sqrt(size) for size, k, J in sizes)
        return min(effects, default=math.inf)

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield every size."""
        for size in self.plan.walk.bucket_sizes:
            yield size, {"size": size, "buckets": self.buckets(size), "majority": self.majority(size)}


# Capped signed ranks.


@dataclass(frozen=True)
class RankPower(OneSamplePower):
    """Capped signed ranks behind the filter of bucket signs.

    Every sum has a beta law on its range with the mean and the variance that it has, every count its binomial law, and
    they depend on each other as normal values of the same correlations do. Bad rows that oppose have the largest ranks
    and so leave a sum of the others alone.
    """

    @cached_property
    def signs(self) -> SignPower:
        """The filter."""
        return SignPower(self.plan)

    @cached_property
    def stages(self) -> Stages:
        """Which caps are looked at for how many bad rows."""
        return rank_stages(self.plan.n_units, error=first_error(self.plan), sides=self.plan.question.side.number)

    def _looks(self, bad_rows: int) -> list[dict[int, int]]:
        """Return the sum, slack included, that each cap asks for, wherever p must be small."""
        n, sides = self.plan.n_units, self.plan.question.side.number
        caps, shares, values, out = caps_of(n), shares_of(n), np.array([n]), []
        # A tenth of the rows, bad, could have led to the way with many ties, whose p-value is twice as large; both
        # sides of a smallest effect have the other way only.
        one_way = bool(self.plan.question.min_effect) and sides == 2
        for bad, places in stages_up_to(self.stages, bad_rows):
            ties = 2 if REPEAT_SHARE * bad >= n and not one_way else 1
            logs = np.log(self.error / sides / ties * shares[list(places)] / shares[list(places)].sum())
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
        model = _JointLaw(effect, n, caps, sizes)
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

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield every cap that is looked at."""
        caps, n = caps_of(self.plan.n_units), np.array([self.plan.n_units])
        for place in self._looks_here[-1]:
            largest = int(score_sums(n, caps[place])[0])
            yield place, {"cap": caps[place], "largest": largest, "sum": max(sums[place] for sums in self._looks_here)}


class _JointLaw:
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


def _quantile(share: float, effect: float) -> float:
    """Return q with P(|Y| ≤ q) = share, by halving."""
    from scipy.special import ndtr

    if share >= 1:
        return math.inf
    return halved(lambda q: bool(ndtr(q - effect) - ndtr(-q - effect) < share), 0.0, effect + FARTHEST)


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
class SumPower(OneSamplePower):
    """Sums of a bounded influence, where the scale that is given is the standard deviation."""

    @cached_property
    def test(self) -> MeanTest:
        """The test of a column of scale one."""
        return nulls.mean_test(self.plan, np.ones(1))

    def possible(self, bad_rows: int) -> bool:
        """Whether sums can reach the bound at so many bad rows."""
        test = nulls.mean_test(replace(self.plan, bad_rows=bad_rows), np.ones(1))
        return self.plan.n_units * nulls.psi_max(test.kappa) >= nulls.bound(test, self.error, bad_rows)

    def chance(self, effect: float, *, opposed: bool, alone: int | None = None) -> float:  # noqa: ARG002
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
