"""Null distributions of sign counts, influence sums and ranks of groups: p-values when some rows were replaced."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from sparsemean._kernels.influence import ERROR, GRID, largest_step
from sparsemean._stats.arrays import DEVICE, distinct, map_unique, namespace, on_device, on_host, place
from sparsemean._stats.decision import Stages, stages_of
from sparsemean._util.plans import Plan
from sparsemean._util.records import CountArray, FloatArray, IntArray, MeanTest

WINDOW = 20
"""Times √n: a majority that is more above half of n signs has p ≤ 2·exp(−2·20²), less than the smallest double."""
FEW_VALUES = 100_000
"""Up to so many are moved to the host rather than looked at in many steps on a device."""
KURTOSIS = 20.0
"""E(x − μ)⁴/σ⁴ that a feature has at most: an assumption, made only where the scale is taken from data."""
SCALE_SHARE = 0.1
"""Of the level, which pays for a scale that was taken from data and is too small."""
FEWEST_ROWS = 50
"""Rows of earlier data below which no scale is taken from them."""
HALVINGS = 60


def sign_test_stages(n_buckets: Sequence[int], *, error: float, sides: int) -> Stages:
    """Return which numbers of buckets can reject at ``error``, up to which numbers of bad rows.

    Where all J signs agree p is 2·P(Bin(J, ½) ≥ J − m) for m bad rows, which falls as J grows: sizes drop out one after
    the other. As one that does leaves its share of the error to the others, the p-value for m bad rows is taken to be
    the largest for m or fewer, and holds for all numbers at once.
    """
    return stages_of([J - least_majority(J, error, sides / 2) for J in n_buckets])


@dataclass(frozen=True, eq=False)
class SignTestNull:
    """max(N₊, N₋) when N₊ is Binomial(N₊ + N₋, ½): the sign test, given the number of nonzero bucket means.

    With the slack m taken from the majority k = max(N₊, N₋) of T = N₊ + N₋ signs this is the largest p-value of any
    data that differ in m buckets, whichever way: a sign may have been turned (k − 1 of T), made zero or missing where
    it was there (clean data have k of T + 1), or put where there was none (k − 1 of T − 1). As Bin(T + 1, ½) lies
    between Bin(T, ½) and Bin(T, ½) + 1, P(Bin(T − b + c, ½) ≥ k − a − b) ≤ P(Bin(T, ½) ≥ k − a − b − c): turning signs
    is the worst of the three, step by step.
    """

    nonzero: CountArray
    between: tuple[int, int] | None = None
    """The smallest number there is and a bound on the largest, where they are known."""
    occurring: IntArray | None = None
    """The numbers that there are, rising, where they are known."""

    def of(self, features: IntArray) -> SignTestNull:
        """Return the null of some features; their numbers are not looked up where all are the same."""
        if not self._complete:
            return SignTestNull(self.nonzero[features], (0, self.most))
        return SignTestNull(np.broadcast_to(np.int32(self.most), features.shape), self.between)

    @cached_property
    def most(self) -> int:
        """No feature has more signs."""
        return int(self.nonzero.max()) if self.between is None else self.between[1]

    @property
    def _complete(self) -> bool:
        """Whether all features are known to have as many signs."""
        return self.between is not None and self.between[0] == self.between[1]

    @cached_property
    def numbers(self) -> IntArray:
        """The numbers of signs that occur, rising."""
        if self.occurring is not None:
            return self.occurring
        if self._complete:
            return np.array([self.most])
        return on_host(distinct(self.nonzero, self.most)).astype(np.intp)

    @cached_property
    def _places(self) -> IntArray:
        """Where the number of every feature stands among those that occur."""
        xp = namespace(self.nonzero)
        return xp.searchsorted(xp.asarray(self.numbers), self.nonzero)  # type: ignore[no-any-return]

    def threshold(self, error: float, factor: float = 1.0) -> CountArray | float:
        """Return the smallest majority whose p-value is small enough, one for each feature where N differs."""
        if self.numbers.size == 1:
            return least_majority(int(self.numbers[0]), error, factor)
        least = least_majorities(self.numbers, error, factor)
        if (least == least[-1]).all():
            return int(least[-1])
        return namespace(self.nonzero).asarray(least.astype(np.int32))[self._places]  # type: ignore[no-any-return]

    def log_p(self, statistic: FloatArray) -> FloatArray:
        """Return log min(1, 2·P(Bin(N, ½) ≥ statistic)), also where p is no number any more; on the host."""
        from scipy.special import gammaln

        k, n = np.ceil(statistic), np.asarray(self.nonzero, dtype=np.float64)
        sure = (2 * k > n) & (k <= n)
        k, n = np.where(sure, k, 1.0), np.where(sure, n, 1.0)
        term, total, j = np.ones(k.shape), np.ones(k.shape), 0.0
        while (term > 1e-17 * total).any():  # P(k + 1)/P(k), P(k + 2)/P(k), …
            term = term * np.maximum(n - k - j, 0.0) / (k + j + 1)
            total, j = total + term, j + 1
        log_tail = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * np.log(2.0) + np.log(total)
        return np.where(sure, np.minimum(0.0, np.log(2.0) + log_tail), np.where(statistic > self.nonzero, -np.inf, 0.0))

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:
        """Return min(1, 2·P(Bin(N, ½) ≥ statistic)), and 1 where the statistic is not above N/2."""
        xp = namespace(statistic)
        k = xp.clip(xp.ceil(statistic), 0, self.most + 1).astype(np.intp)
        device, first = place(k), self.most // 2
        table = _table(self.most) if device is None else _table_on(self.most, device)
        p = table[xp.clip(k - first, 0, table.size - 1)]
        if not self._complete:
            n = self.nonzero[features]
            rows = xp.flatnonzero(n < self.most)
            k, n = k[rows], n[rows]
            if k.size <= FEW_VALUES:
                k, n = on_host((k, n))
            p[rows] = xp.asarray(_of_fewer(k, n[:, np.newaxis], self.most))
        return p  # type: ignore[no-any-return]


def _of_fewer(k: IntArray, n: CountArray, most: int) -> FloatArray:
    """Return the p-values of majorities ``k`` of ``n`` signs each, less than ``most``: each pair is asked for once."""
    xp, width = namespace(k), most + 2
    n = xp.broadcast_to(n, k.shape)
    p, majority = xp.ones(k.shape), xp.nonzero(2 * k > n)
    k, n = k[majority], n[majority].astype(np.intp)
    code = n * width + xp.minimum(k, n + 1)
    p[majority] = map_unique(lambda pair: two_sided(pair % width, pair // width), code, most=most * width)
    return p  # type: ignore[no-any-return]


def times(p: FloatArray, factor: float) -> FloatArray:
    """Return min(1, factor·p); what is 1 stays so: half of it is no p-value of one side."""
    xp = namespace(p)
    return xp.where(p < 1, xp.minimum(1.0, factor * p), 1.0)  # type: ignore[no-any-return]


def least_majorities(numbers: IntArray, error: float, factor: float) -> IntArray:
    """Return the smallest k with factor·p ≤ error of each number of signs, by halving; one more than there are if none.

    An error of 1 or more even no sign at all has.
    """
    low, high = np.zeros_like(numbers), numbers + 1
    while (low < high).any():
        middle = (low + high) // 2
        enough = times(two_sided(middle, numbers), factor) <= error
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


@lru_cache(maxsize=4096)
def least_majority(n: int, error: float, factor: float) -> int:
    """Return the same of one number of signs; fits of as many rows and features ask again."""
    return int(least_majorities(np.array([n]), error, factor)[0])


@lru_cache(maxsize=64)
def _table(n: int) -> FloatArray:
    """Return the p-values of the majorities from ⌊n/2⌋ on among n signs.

    Smaller ones have p = 1 as the first does, larger ones p = 0 as the last does: it is n + 1, which no signs reach,
    or p is below the smallest double.
    """
    first = n // 2
    k = np.arange(first, min(n + 1, first + int(WINDOW * np.sqrt(n)) + 2) + 1)
    return two_sided(k, np.full(k.size, n))


@lru_cache(maxsize=16)
def _table_on(n: int, device: int) -> FloatArray:  # noqa: ARG001
    """Return the same on a device."""
    return sys.modules[DEVICE].asarray(_table(n))  # type: ignore[no-any-return]


def two_sided(k: IntArray, n: IntArray) -> FloatArray:
    """Return the sign test's p-values one by one, without a table."""
    from scipy.special import betainc

    tail = np.where(k > n, 0.0, betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), 0.5))
    return np.where(2 * k <= n, 1.0, np.minimum(1.0, 2.0 * tail))


# Means: sums of a bounded influence. For κ ≥ ½ it is exp ψ(x) ≤ 1 + x + κx² for every x. So E exp Σψ(a(xᵢ − μ)) ≤
# exp(nκa²σ²) where no row has a variance beyond σ², and Σψ exceeds nκa²σ² + L with probability e^−L at most. A replaced
# row moves the sum by 2·max ψ at most.


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceNull:
    """A sum of bounded influences: p = factor·exp(−(statistic − bias)), 1 at most; the same for every feature.

    The statistic is a multiple of 2⁻³².
    """

    bias: float
    factor: float
    most: ClassVar[None] = None

    def of(self, features: IntArray) -> InfluenceNull:  # noqa: ARG002
        """Return the same: it is that of every feature."""
        return self

    def threshold(self, error: float, factor: float = 1.0) -> float:
        """Return the smallest multiple of 2⁻³² whose p-value is small enough."""

        def p(step: int) -> float:
            return float(factor * self._tail(np.array([step / GRID]))[0])

        step = math.ceil((self.bias + math.log(factor * self.factor / error)) * GRID)
        # exp and its inverse agree up to rounding only: the p-values themselves decide which multiple is the first.
        while p(step) > error:
            step += 1
        while p(step - 1) <= error:
            step -= 1
        return step / GRID

    def log_p(self, statistic: FloatArray) -> FloatArray:
        """Return log p, also where p is no number any more."""
        return np.minimum(0.0, math.log(self.factor) - np.maximum(statistic - self.bias, 0.0))

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:  # noqa: ARG002
        """Return the p-values of sums, less what bad rows may have moved."""
        return map_unique(self._tail, statistic) if on_device(statistic) else self._tail(statistic)

    def _tail(self, statistic: FloatArray) -> FloatArray:
        return np.minimum(1.0, self.factor * np.exp(-np.maximum(statistic - self.bias, 0.0)))


Null: TypeAlias = SignTestNull | InfluenceNull
"""The null distribution of one statistic of each feature."""


def kappa_of(log_odds: float, bad_rows: float) -> float:
    """Return κ ≥ ½ with the smallest κ·(L + 2m·M(κ)), M = log(4κ/(4κ − 1)): it makes intervals shortest.

    With v = 1/(4κ − 1) the derivative is zero where v − log(1 + v) = L/(2m), which rises in v; v = 1 is κ = ½.

    Examples
    --------
    >>> [round(kappa_of(math.log(40_000), m), 3) for m in (0, 20, 100)]
    [0.5, 0.523, 0.941]
    """
    wanted = math.inf if bad_rows == 0 else log_odds / (2 * bad_rows)
    low, high = 0.0, 1.0
    if wanted >= 1.0 - math.log(2.0):
        return 0.5
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle - math.log1p(middle) < wanted else (low, middle)
    return 0.25 * (1.0 + 1.0 / high)


def mean_test(plan: Plan, scale: FloatArray, rows: IntArray | None = None) -> MeanTest:
    """Fix κ and the unit of every feature, before any of the rows that are tested is looked at.

    ``rows`` are those that are tested, all by default. With
    a = √((L + 2mM)/(nκ))/σ it is nκa²σ² = L + 2mM, and the half width 2σ√(κ(L + 2mM)/n). A scale of zero stands for a
    feature that is not tested: in an infinite unit every sum is zero.
    """
    n = plan.n_units if rows is None else int(rows.size)
    factor = plan.question.side.number / (1.0 - SCALE_SHARE if plan.scale_rows else 1.0)
    log_odds = math.log(factor * plan.n_hypotheses / plan.question.level)
    kappa = kappa_of(log_odds, plan.bad_rows)
    variance = log_odds + 2 * plan.bad_rows * psi_max(kappa)
    unit = scale * math.sqrt(n * kappa / variance)
    return MeanTest(
        kappa=kappa, bias=variance + n * ERROR, factor=factor, n_units=n,
        unit=np.where(scale > 0, unit, np.inf), rows=rows,
    )  # fmt: skip


def psi_max(kappa: float) -> float:
    """Return the largest influence that a value can have, on the grid: log(4κ/(4κ − 1))."""
    return largest_step(kappa) / GRID


def bound(test: MeanTest, error: float, bad_rows: int) -> float:
    """Return what |S| must reach for a centre to be refused at ``error``, shared between as many sides as count."""
    return test.bias + 2 * bad_rows * psi_max(test.kappa) + math.log(test.factor / error)


def rows_to_reject(plan: Plan, test: MeanTest) -> int:
    """Return how many rows are needed before anything at all can be selected: what every one says, ψ = M, must do."""
    move, share = psi_max(test.kappa), plan.bad_rows / plan.n_units
    log_odds = math.log(test.factor * plan.n_hypotheses / plan.question.level)
    return math.ceil(2 * log_odds / (move * (1 - 4 * share))) if share < 0.25 else -1


# A bound of the standard deviation, from rows that are not tested.


def pair_variance(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the mean of (x₂ᵢ − x₂ᵢ₋₁)²/2 over pairs of neighbouring rows that are both there, and their rows."""
    n = values.shape[0] // 2 * 2
    with np.errstate(over="ignore"):  # a variance beyond all doubles is one that is not tested against
        squares = 0.5 * (values[1:n:2] - values[:n:2]) ** 2
    there = ~np.isnan(squares)
    # Along memory every column is added up in one order, however many stand beside it.
    total = np.ascontiguousarray(np.where(there, squares, 0.0).T).sum(axis=1)
    pairs = there.sum(axis=0)
    return np.asarray(total / np.maximum(pairs, 1)), 2 * pairs


def scale_bound(variance: FloatArray, n_rows: IntArray, plan: Plan) -> FloatArray:
    """Return σ̄ = s/√(1 − √(2(K + 3)L′/n)), which a standard deviation exceeds with probability e^−L′ at most.

    Of Y = (x − x′)²/2 it is EY = σ² and EY² = (K + 3)σ⁴/2, and a mean of n/2 such Y ≥ 0 falls short of σ² by more than
    σ²·√(2(K + 3)L′/n) with probability e^−L′ at most. L′ = log(10·d/level). Infinite where rows are too few.
    """
    short = np.sqrt(rows_for_scale(plan) / np.maximum(n_rows, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        bounded = np.sqrt(variance / np.maximum(1.0 - short, 0.0))
    return np.where(variance > 0, bounded, 0.0)


def rows_for_scale(plan: Plan) -> float:
    """Return the number of rows that do not suffice for a scale, 2(K + 3)L′; more do."""
    return 2.0 * (KURTOSIS + 3.0) * math.log(plan.n_hypotheses / (SCALE_SHARE * plan.question.level))
