"""Null distributions of sign counts, with p-values when some rows were replaced, and of the ranks of groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparsemean._stats.arrays import distinct, map_unique, namespace, on_host, place, to_device
from sparsemean._util.records import CountArray, FloatArray, IntArray

FEW = 16
"""Numbers of signs for each of which a table is kept; beyond, thresholds are found without tables."""
WINDOW = 20
"""Times √n: a majority that is more above half of n signs has p ≤ 2·exp(−2·20²), less than the smallest double."""
PLAINLY_AT_ONCE = 32
"""Tails that are asked for in one go before anything is compiled."""
FEW_VALUES = 100_000
"""Up to so many are moved to the host rather than looked at in many steps on a device."""


class Null(Protocol):
    """A null distribution of one statistic for each feature."""

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:
        """Return two-sided p-values of ``statistic``, a row for each of ``features`` and a column for each slack."""
        ...

    def of(self, features: IntArray) -> Null:
        """Return the same of some features."""
        ...

    def threshold(self, error: float, factor: float = 1.0) -> Any:
        """Return what the statistic of every feature must reach for ``factor`` times its p-value to be ≤ ``error``.

        One number, or one for each feature: above every statistic that misses, at most the smallest that does not.
        """
        ...

    def log_p(self, statistic: FloatArray) -> FloatArray:
        """Return the logarithms of p-values, a statistic for each feature, also where p is no number any more."""
        ...


class Era(NamedTuple):
    """Numbers of bad rows up to ``last`` for which the same statistics, at some ``places``, can reject."""

    last: int
    places: tuple[int, ...]


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

    @cached_property
    def fewer(self) -> IntArray:
        """The features with fewer signs."""
        xp = namespace(self.nonzero)
        return xp.empty(0, dtype=np.intp) if self._complete else xp.flatnonzero(self.nonzero < self.most)  # type: ignore[no-any-return]

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
        if self._ragged:
            return on_host(distinct(self.nonzero, self.most))
        most = () if self.fewer.size == self.nonzero.size else (self.most,)
        return np.append(distinct(self._numbers_of_fewer, self.most), most).astype(np.intp)

    @property
    def _ragged(self) -> bool:
        """Whether so many have fewer signs that one does not look at them apart."""
        return 4 * int(self.fewer.size) > int(self.nonzero.size)

    @cached_property
    def _numbers_of_fewer(self) -> CountArray:
        """Lie on the host, as they are few."""
        return on_host(self.nonzero[self.fewer])

    @cached_property
    def _places(self) -> IntArray:
        """Where the number of every feature stands among those that occur."""
        xp = namespace(self.nonzero)
        return xp.searchsorted(xp.asarray(self.numbers), self.nonzero)  # type: ignore[no-any-return]

    def threshold(self, error: float, factor: float = 1.0) -> Any:
        """Return the smallest majority whose p-value is small enough, one for each feature where N differs."""
        if self.numbers.size == 1:
            return _least_majority(int(self.numbers[0]), error, factor)
        least = least_majorities(self.numbers, error, factor)
        most = int(least[-1])
        if (least == most).all():
            return most
        xp, least = namespace(self.nonzero), least.astype(np.int32)
        if self._ragged:
            return xp.asarray(least)[self._places]
        asked = xp.full(self.nonzero.shape, most, dtype=np.int32)
        asked[self.fewer] = xp.asarray(least[np.searchsorted(self.numbers, self._numbers_of_fewer)])
        return asked

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
        table, first = _table_at(self.most, place(k)), self.most // 2
        p = table[xp.clip(k - first, 0, table.size - 1)]
        if self.fewer.size:
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
    """Return the smallest k with factor·p ≤ error of each number of signs."""
    if numbers.size <= FEW:
        return np.array([_least_majority(n, error, factor) for n in numbers.tolist()], dtype=numbers.dtype)
    low, high = np.zeros_like(numbers), numbers + 1
    while (low < high).any():
        middle = (low + high) // 2
        enough = times(two_sided(middle, numbers), factor) <= error
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


@lru_cache(maxsize=1024)
def _least_majority(n: int, error: float, factor: float) -> int:
    """Return the same of one number of signs; fits of as many rows and features ask again."""
    table = _rising(n, factor)
    passing = int(np.searchsorted(table, error, side="right"))
    # An error of 1 or more even no sign at all has.
    return 0 if passing == table.size else n // 2 + table.size - passing


@lru_cache(maxsize=64)
def _table(n: int) -> FloatArray:
    """Return the p-values of the majorities from ⌊n/2⌋ on among n signs.

    Smaller ones have p = 1 as the first does, larger ones p = 0 as the last does: it is n + 1, which no signs reach,
    or p is below the smallest double.
    """
    first = n // 2
    k = np.arange(first, min(n + 1, first + int(WINDOW * np.sqrt(n)) + 2) + 1)
    return two_sided(k, np.full(k.size, n))


@lru_cache(maxsize=64)
def _rising(n: int, factor: float) -> FloatArray:
    """Return the p-values times ``factor``, from the largest majority to the smallest: they never fall."""
    return np.maximum.accumulate(times(_table(n)[::-1], factor))


@lru_cache(maxsize=16)
def _table_on(n: int, device: int) -> Any:  # noqa: ARG001
    """Return the same on a device."""
    return to_device(_table(n))


def _table_at(n: int, device: int | None) -> Any:
    return _table(n) if device is None else _table_on(n, device)


def two_sided(k: IntArray, n: IntArray) -> FloatArray:
    """Return the sign test's p-values one by one, without a table."""
    from scipy.special import betainc

    tail = np.where(k > n, 0.0, betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), 0.5))
    return np.where(2 * k <= n, 1.0, np.minimum(1.0, 2.0 * tail))


# Groups.


def log_tails(n1: IntArray, n2: IntArray, A: IntArray, w: IntArray, *, bound: bool, halves: bool) -> FloatArray:
    """Return log P(2U ≥ w) of (items, strata) groups, as `rank_tails.log_tails` has it."""
    from sparsemean._kernels import rank_tails
    from sparsemean._kernels.compiling import plainly

    out, at = np.empty(w.size), 0
    n1, n2, A, w = (np.ascontiguousarray(x, dtype=np.int64) for x in (n1, n2, A, w))
    while at < w.size:  # few at a time until it is known that they take long
        part = slice(at, at + PLAINLY_AT_ONCE if plainly() else None)
        rank_tails.log_tails(n1[part], n2[part], A[part], w[part], bound, halves, out[part])
        at = part.stop or w.size
    return out


@lru_cache(maxsize=4096)
def critical_rank(first: tuple[int, ...], second: tuple[int, ...], error: float) -> int:
    """Return the smallest u with P(U ≥ u) ≤ ``error``, U of all rows summed over strata of these sizes, by halving."""
    n1, n2 = np.array([first]), np.array([second])
    total, goal = int(np.sum(n1 * n2)), np.log(error)
    low, high = total // 2 + 1, total + 1
    while low < high:
        middle = (low + high) // 2
        tail = log_tails(n1, n2, n1 + n2, np.array([2 * middle]), bound=False, halves=False)[0]
        low, high = (low, middle) if tail <= goal else (middle + 1, high)
    return low
