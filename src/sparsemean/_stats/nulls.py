"""Exact null distributions of sign counts and of Mann–Whitney's U, and p-values when some rows were replaced."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sparsemean._stats.arrays import group_indices, map_unique, namespace, on_device, on_host, place, to_device
from sparsemean._util.records import CountArray, Counts, Evidence, FloatArray, IntArray, Null, Threshold

FEW = 16
"""Numbers of signs for each of which a table is kept; beyond, thresholds are found without tables."""
FEW_VALUES = 100_000
"""Up to so many are moved to the host rather than looked at in many steps on a device."""


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

    def of(self, features: IntArray) -> SignTestNull:
        """Return the null of some features; their numbers are not looked up where all are the same."""
        if self.between is None or self.between[0] < self.between[1]:
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
        complete = self.between is not None and self.between[0] == self.between[1]
        return xp.empty(0, dtype=np.intp) if complete else xp.flatnonzero(self.nonzero < self.most)  # type: ignore[no-any-return]

    @cached_property
    def numbers(self) -> IntArray:
        """The numbers of signs that occur, rising."""
        if self._ragged:
            return np.asarray(np.flatnonzero(on_host(namespace(self.nonzero).bincount(self.nonzero))))
        most = () if self.fewer.size == self.nonzero.size else (self.most,)
        return np.append(np.flatnonzero(np.bincount(self._numbers_of_fewer)), most).astype(np.intp)

    @property
    def _ragged(self) -> bool:
        """Whether so many have fewer signs that one does not look at them apart."""
        return 4 * int(self.fewer.size) > int(self.nonzero.size)

    @cached_property
    def _numbers_of_fewer(self) -> CountArray:
        """Lie on the host, as they are few."""
        return on_host(self.nonzero[self.fewer])

    def threshold(self, error: float, sizes: int = 1) -> Threshold:
        """Return the smallest majority whose p-value is small enough, one for each feature where N differs."""
        least, larger = least_majorities(self.numbers, error, sizes)
        most = int(least[-1])
        if (least == most).all():
            return Threshold(most, larger)
        of_number = np.zeros(self.most + 1, dtype=np.int32)
        of_number[self.numbers] = least
        xp = namespace(self.nonzero)
        if self._ragged:
            return Threshold(xp.asarray(of_number)[self.nonzero], larger)
        asked = xp.full(self.nonzero.shape, most, dtype=np.int32)
        asked[self.fewer] = xp.asarray(of_number[self._numbers_of_fewer])
        return Threshold(asked, larger)

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:
        """Return min(1, 2·P(Bin(N, ½) ≥ statistic)), and 1 where the statistic is not above N/2."""
        xp = namespace(statistic)
        k = xp.clip(xp.ceil(statistic), 0, self.most + 1).astype(np.intp)
        p = _table_at(self.most, place(k))[k]
        if self.fewer.size:
            n = self.nonzero[features]
            rows = xp.flatnonzero(n < self.most)
            k, n = k[rows], n[rows]
            if k.size <= FEW_VALUES:
                k, n = on_host((k, n))
            p[rows] = xp.asarray(_of_fewer(k, n[:, np.newaxis], self.most))
        return p  # type: ignore[no-any-return]


def sign_test(k: IntArray, n: CountArray | IntArray) -> FloatArray:
    """Return min(1, 2·P(Bin(n, ½) ≥ k)), and 1 where 2k ≤ n.

    Examples
    --------
    >>> sign_test(np.array([10, 9, 5]), np.array([10, 10, 10]))
    array([0.00195312, 0.02148438, 1.        ])
    """
    return SignTestNull(n).p_values(k[:, np.newaxis], slice(None))[:, 0]  # type: ignore[arg-type]


def _of_fewer(k: IntArray, n: CountArray, most: int) -> FloatArray:
    """Return the p-values of majorities ``k`` of ``n`` signs each, less than ``most``: each pair is asked for once."""
    xp, width = namespace(k), most + 2
    n = xp.broadcast_to(n, k.shape)
    p, majority = xp.ones(k.shape), xp.nonzero(2 * k > n)
    k, n = k[majority], n[majority].astype(np.intp)
    code = n * width + xp.minimum(k, n + 1)
    p[majority] = map_unique(lambda pair: two_sided(pair % width, pair // width), code, most=most * width)
    return p  # type: ignore[no-any-return]


def least_majorities(numbers: IntArray, error: float, sizes: int) -> tuple[IntArray, float]:
    """Return the smallest k with sizes·p ≤ error of each number of signs, and the next larger error that asks less."""
    if numbers.size <= FEW:
        rising = [_rising(int(n), sizes) for n in numbers]
        passing = [int(np.searchsorted(table, error, side="right")) for table in rising]
        larger = (float(table[k]) for table, k in zip(rising, passing, strict=True) if k < table.size)
        return numbers + 2 - passing, min(larger, default=np.inf)
    low, high = np.zeros_like(numbers), numbers + 1
    while (low < high).any():
        middle = (low + high) // 2
        enough = sizes * two_sided(middle, numbers) <= error
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    above = low > 0
    return low, float(np.min(sizes * two_sided(low[above] - 1, numbers[above]), initial=np.inf))


@lru_cache(maxsize=64)
def _table(n: int) -> FloatArray:
    """Return the p-values of majorities 0 … n + 1 among n signs."""
    return two_sided(np.arange(n + 2), np.full(n + 2, n))


@lru_cache(maxsize=64)
def _rising(n: int, sizes: int) -> FloatArray:
    """Return the p-values times ``sizes``, from the largest majority to the smallest: they never fall."""
    return np.maximum.accumulate(sizes * _table(n)[::-1])


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


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """|sum| of terms whose mean is at most ``bias`` and whose variance is at most ``sd²`` in all.

    The statistic is a multiple of ``grid``.
    """

    bias: float
    sd: float
    grid: float = 0.125  # a contrast is a sign less an eighth of a sum of four signs

    def of(self, features: IntArray) -> Gaussian:  # noqa: ARG002
        """Return the same: it is that of every feature."""
        return self

    def threshold(self, error: float, sizes: int = 1) -> Threshold:
        """Return the smallest multiple of the grid whose p-value is small enough."""
        from scipy.special import ndtri

        def p(step: int) -> float:
            return float(sizes * self._tail(np.array([step * self.grid]))[0])

        steps = int(np.ceil((self.bias - self.sd * float(ndtri(min(1.0, error / sizes) / 2))) / self.grid))
        # Φ and its inverse agree up to rounding only: the p-values themselves decide which multiple is the first.
        while p(steps) > error:
            steps += 1
        while p(steps - 1) <= error:
            steps -= 1
        return Threshold(steps * self.grid, p(steps - 1))

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:  # noqa: ARG002
        """Return min(1, 2·Φ(−z)), z = (statistic − bias)/sd, and 1 where z ≤ 0."""
        return map_unique(self._tail, statistic) if on_device(statistic) else self._tail(statistic)

    def _tail(self, statistic: FloatArray) -> FloatArray:
        from scipy.special import ndtr

        z = (statistic - self.bias) / self.sd
        return np.where(z <= 0, 1.0, np.minimum(1.0, 2.0 * ndtr(-z)))


@dataclass(frozen=True, slots=True, eq=False)
class MannWhitneyNull:
    """max(U₊, U₋) of Mann and Whitney when two groups of n₁ and n₂ rows have one distribution.

    ``table`` is P(U ≥ u) for u = 0 … n₁n₂ + 1; None stands for the normal tail with continuity correction, which is too
    large far out, where it matters.
    """

    n1: int
    n2: int
    table: FloatArray | None

    def of(self, features: IntArray) -> MannWhitneyNull:  # noqa: ARG002
        """Return the same: it is that of every feature."""
        return self

    def upper_tail(self, u: FloatArray) -> FloatArray:
        """Return P(U ≥ u)."""
        pairs = self.n1 * self.n2
        if self.table is not None:
            return np.asarray(self.table[np.clip(np.ceil(u), 0, pairs + 1).astype(np.intp)])
        from scipy.special import ndtr

        sd = np.sqrt(pairs * (self.n1 + self.n2 + 1) / 12.0)
        return np.where(u > pairs, 0.0, ndtr((pairs / 2 + 0.5 - np.ceil(u)) / sd))

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:  # noqa: ARG002
        """Return min(1, 2·P(U ≥ statistic)), and 1 where the statistic is not above n₁n₂/2."""
        doubled = np.minimum(1.0, 2.0 * self.upper_tail(statistic))
        return np.where(2 * statistic <= self.n1 * self.n2, 1.0, doubled)

    def threshold(self, error: float, sizes: int = 1) -> Threshold:
        """Return the smallest U whose p-value is small enough."""
        u = self.critical(error, sizes)
        return Threshold(u, self._error(u - 1, sizes) if u else np.inf)

    def critical(self, error: float, sizes: int = 1) -> int:
        """Return the smallest u with sizes·2·P(U ≥ u) ≤ error, by halving; n₁n₂ + 1 if only that is."""
        low, high = 0, self.n1 * self.n2 + 1
        while low < high:
            middle = (low + high) // 2
            if self._error(middle, sizes) <= error:
                high = middle
            else:
                low = middle + 1
        return low

    def _error(self, u: int, sizes: int) -> float:
        if self.table is not None:
            return sizes * (2 * float(self.table[u]))
        return float(sizes * (2 * self.upper_tail(np.array([float(u)]))[0]))


@dataclass(frozen=True, slots=True, eq=False)
class MannWhitneyNulls:
    """max(U₊, U₋)/max(n₁, n₂), where n₁ and n₂ differ from feature to feature: one row moves it by at most 1.

    That also holds for rows whose label is wrong or of which values were made missing or put in, the null staying that
    of the sizes seen (checked for all sizes up to 26 and 1, 2, 3, 4 and 6 rows).
    """

    nulls: tuple[MannWhitneyNull, ...]
    which: IntArray
    """The null of each feature."""

    def of(self, features: IntArray) -> MannWhitneyNulls:
        """Return the nulls of some features."""
        return MannWhitneyNulls(self.nulls, self.which[features])

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:
        """Return the p-values of each feature's own null; 1 where a group has no value."""
        p = np.ones(statistic.shape)
        for index, at in group_indices(self.which[features]):
            null = self.nulls[index]
            if null.n1 and null.n2:  # U is a whole number; the division has moved it by a rounding error at most
                p[at] = null.p_values(np.rint(statistic[at] * max(null.n1, null.n2)), at)
        return p

    def threshold(self, error: float, sizes: int = 1) -> Threshold:
        """Return half a step of U below what the null of each feature asks for, out of reach of rounding."""
        asked = [n.threshold(error, sizes) if n.n1 and n.n2 else Threshold(np.inf, np.inf) for n in self.nulls]
        least = [(one.statistic - 0.5) / max(n.n1, n.n2, 1) for one, n in zip(asked, self.nulls, strict=True)]
        return Threshold(np.array(least)[self.which], min(one.larger for one in asked))


EXACT_WORK = 4e8
"""Additions spent on an exact distribution: about half a second."""
EXACT_ENTRIES = 10_000_000
"""Probabilities that are kept where sizes differ from feature to feature: 80 MB."""


@lru_cache(maxsize=8)
def mann_whitney(n1: int, n2: int) -> MannWhitneyNull:
    """Return the null distribution of U, exact up to ``EXACT_WORK`` additions.

    The largest of all rows is from group 1 with chance n₁/(n₁ + n₂) and then beats n₂ others:
    P(u; i, j) = i/(i+j)·P(u − j; i−1, j) + j/(i+j)·P(u; i, j−1). Only additions of positive numbers, so that the
    smallest probabilities keep their digits.
    """
    exact = float(n1 * n2) ** 2 <= EXACT_WORK
    small, large = min(n1, n2), max(n1, n2)
    return MannWhitneyNull(n1, n2, _exact_tails(small, large, {(small, large)})[small, large] if exact else None)


def mann_whitney_of(sizes: list[tuple[int, int]]) -> list[MannWhitneyNull]:
    """Return the null distributions of several pairs of group sizes.

    Smaller ones come out of the recursion to larger ones; exact are all that one such recursion can reach and keep.
    """
    box, entries, exact = (0, 0), 0, set()
    for small, large in sorted({(min(pair), max(pair)) for pair in sizes}, key=lambda pair: pair[0] * pair[1]):
        box = max(box[0], small), max(box[1], large)
        entries += small * large
        if float(box[0] * box[1]) ** 2 > EXACT_WORK or entries > EXACT_ENTRIES:
            break
        exact.add((small, large))
    reach = [max((pair[side] for pair in exact), default=0) for side in (0, 1)]
    tables = _exact_tails(reach[0], reach[1], exact) if exact else {}
    return [MannWhitneyNull(n1, n2, tables.get((min(n1, n2), max(n1, n2)))) for n1, n2 in sizes]


Tables = dict[tuple[int, int], FloatArray]


def _exact_tails(small: int, large: int, wanted: set[tuple[int, int]]) -> Tables:
    """Return P(U ≥ u), u = 0 …, for all ``wanted`` sizes (smaller, larger) on the way to the given ones."""
    size = small * large + 1
    rows = [np.zeros(size) for _ in range(small + 1)]  # i = 0: U = 0 whatever j
    tails = dict.fromkeys((pair for pair in wanted if pair[0] == 0), np.array([1.0, 0.0]))
    for row in rows:
        row[0] = 1.0
    for i in range(1, large + 1):
        # i runs over the larger group: what is kept at a time is one array for each size of the smaller one.
        new = [rows[0]]
        for j in range(1, small + 1):
            mixed = j / (i + j) * new[j - 1]
            mixed[j:] += i / (i + j) * rows[j][: size - j]
            new.append(mixed)
        rows = new
        for j in range(1, small + 1):
            if (j, i) in wanted:
                # Summed from the far end on, the smallest first, or their digits would be lost.
                tails[j, i] = np.append(np.cumsum(rows[j][i * j :: -1])[::-1], 0.0)
    return tails


# From counts to evidence: the same few numbers read as a sign test or as contrasts that cancel skewness.

SKEW_BIAS = {1: 0.07, 2: 0.053, 4: 0.042, 8: 0.0}
"""b₀: bounds what is left of the mean of a contrast when the skewness has cancelled. An assumption, not a theorem; it
covers centred lognormal (σ = 0.954), exponential, one-sided Fisk and Pareto (shape 3.1)."""
MOST_SKEWED = 2500
"""Units beyond which contrasts are refused. What is left of skewness at B = 8, where b₀ is 0, is a mean of −.0315 for
Pareto's noise of shape 3.1 (−.0249 Fisk, −.0153 lognormal): among n rows .0315·√(n/32)/√(13/16) deviations. Up to 2500
rows that is less than what 13/16 leaves over a true variance of .73, for any number of features; at 10,000 rows of 100
features the family-wise error is .13 at a level of .05, at 100,000 about five of them are selected."""
MOST_EQUAL = 0.25
"""Share of the rows that may have one and the same value. Below it the level was kept by every discrete noise tried at
the most rows allowed; with 70 % equal values it is not, with 90 % and more every p-value is small."""
CONTRAST_VARIANCE = 13 / 16
"""Bounds Var D for every noise tried; estimating it would let an adversary shrink it."""


def of_signs(counts: Counts, sizes: tuple[int, ...]) -> Evidence:
    """Return max(N₊, N₋) with its binomial null, for every size; one row can move one bucket."""
    nonzero = counts.positive + counts.negative
    fewest = on_host(nonzero.min(axis=1)).tolist()
    return Evidence(
        statistic=namespace(nonzero).maximum(counts.positive, counts.negative),
        nulls=tuple(map(SignTestNull, nonzero, zip(fewest, counts.n_buckets, strict=True))),
        moves=(1.0,) * len(sizes),
        labels=sizes,
    )


def of_contrasts(counts: Counts, sizes: tuple[int, ...], bases: tuple[int, ...]) -> Evidence:
    """Return |ΣD| for every base size B, D = sign(sum of 4B rows) − ½·mean sign of its four quarters.

    Skewness shifts the signs of B rows by −γ/(6√B) and those of 4B rows by half as much, so D is free of it while a
    mean stays. One replaced row moves D by at most 2. ΣD is (N₊ − N₋ of 4B) − (N₊ − N₋ of B)/8, but in a group that
    is not full, where skewness stays: one fit has at most one such group, and whoever deals rows otherwise asks
    `buckets.cut_blocks` first.
    """
    net = counts.positive.astype(np.float64) - counts.negative
    statistic, nulls = [], list[Null]()
    for base in bases:
        small, large = sizes.index(base), sizes.index(4 * base)
        groups = counts.n_buckets[large]
        statistic.append(abs(net[large] - net[small] / 8))  # half the mean of four signs is an eighth of their sum
        nulls.append(Gaussian(bias=groups * SKEW_BIAS[base], sd=float(np.sqrt(CONTRAST_VARIANCE * groups))))
    return Evidence(namespace(net).stack(statistic), tuple(nulls), (2.0,) * len(bases), bases)


def contrast_bases(bad_rows: int) -> tuple[int, ...]:
    """Return the base sizes of the contrasts: without bad rows one large base needs no allowance for the rest."""
    return (8,) if bad_rows == 0 else (1, 2, 4)


def contrast_sizes(bases: tuple[int, ...]) -> tuple[int, ...]:
    """Return the bucket sizes that contrasts of ``bases`` are made of."""
    return tuple(sorted({*bases, *(4 * base for base in bases)}))
