"""Null distributions: how likely a statistic this large is when nothing is there.

Each answers two-sided p-values for statistics from which the slack has already been taken. None of them is asked once
for each feature: equal questions are asked once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sparsemean.present import by_number
from sparsemean.records import CountArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class FairSigns:
    """max(N₊, N₋) when N₊ is Binomial(N₊ + N₋, ½): the sign test, given the number of nonzero bucket means.

    With the slack m taken from the majority k = max(N₊, N₋) of T = N₊ + N₋ signs this is the largest p-value of any
    data that differ in m buckets, whichever way: a sign may have been turned (k − 1 of T), made zero or missing where
    it was there (clean data have k of T + 1), or put where there was none (k − 1 of T − 1). As Bin(T + 1, ½) lies
    between Bin(T, ½) and Bin(T, ½) + 1, P(Bin(T − b + c, ½) ≥ k − a − b) ≤ P(Bin(T, ½) ≥ k − a − b − c): turning signs
    is the worst of the three, step by step.
    """

    nonzero: CountArray

    def least(self, p: float) -> float:
        """Return the majority that gives ``p`` among the fewest signs that any feature has."""
        fewest = int(self.nonzero.min())
        return float(np.argmax(_table(fewest) <= p))

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:
        """Return min(1, 2·P(Bin(N, ½) ≥ statistic)), and 1 where the statistic is not above N/2."""
        nonzero = np.broadcast_to(self.nonzero[features][:, np.newaxis], statistic.shape)
        p = np.ones(statistic.shape)
        majority = np.nonzero(2 * statistic > nonzero)
        p[majority] = sign_test(np.ceil(statistic[majority]).astype(np.intp), nonzero[majority])
        return p


def sign_test(k: IntArray, n: CountArray | IntArray) -> FloatArray:
    """Return min(1, 2·P(Bin(n, ½) ≥ k)), and 1 where 2k ≤ n.

    Examples
    --------
    >>> sign_test(np.array([10, 9, 5]), np.array([10, 10, 10]))
    array([0.00195312, 0.02148438, 1.        ])
    """
    if not k.size:
        return np.empty(0)
    most = int(n.max())
    p = _table(most)[np.clip(k, 0, most + 1)]
    fewer = np.flatnonzero(n < most)
    if fewer.size:
        k, n = k[fewer], n[fewer].astype(np.intp)
        code, back = np.unique(n * (most + 2) + np.clip(k, 0, n + 1), return_inverse=True)
        p[fewer] = two_sided(code % (most + 2), code // (most + 2))[back]
    return np.asarray(p)


@lru_cache(maxsize=64)
def _table(n: int) -> FloatArray:
    """Return the p-values of majorities 0 … n + 1 among n signs."""
    return two_sided(np.arange(n + 2), np.full(n + 2, n))


def two_sided(k: IntArray, n: IntArray) -> FloatArray:
    """Return the sign test's p-values one by one, without a table."""
    from scipy.special import betainc

    tail = np.where(k > n, 0.0, betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), 0.5))
    return np.where(2 * k <= n, 1.0, np.minimum(1.0, 2.0 * tail))


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """|sum| of terms whose mean is at most ``bias`` and whose variance is at most ``sd²`` in all."""

    bias: float
    sd: float

    def least(self, p: float) -> float:
        """Return the statistic whose p-value is ``p``."""
        from scipy.special import ndtri

        return self.bias - self.sd * float(ndtri(p / 2))

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:  # noqa: ARG002
        """Return min(1, 2·Φ(−z)), z = (statistic − bias)/sd, and 1 where z ≤ 0."""
        from scipy.special import ndtr

        z = (statistic - self.bias) / self.sd
        return np.where(z <= 0, 1.0, np.minimum(1.0, 2.0 * ndtr(-z)))


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """max(U₊, U₋) of Mann and Whitney when two groups of n₁ and n₂ rows have one distribution.

    ``table`` is P(U ≥ u) for u = 0 … n₁n₂ + 1; None stands for the normal tail with continuity correction, which is too
    large far out, where it matters.
    """

    n1: int
    n2: int
    table: FloatArray | None

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

    def least(self, p: float) -> float:
        """Return the smallest U whose p-value is at most ``p``."""
        return float(self.critical(p))

    def critical(self, error: float) -> int:
        """Return the smallest u with 2·P(U ≥ u) ≤ error, by halving; n₁n₂ + 1 if only that is."""
        low, high = 0, self.n1 * self.n2 + 1
        while low < high:
            middle = (low + high) // 2
            if 2 * self.upper_tail(np.array([float(middle)]))[0] <= error:
                high = middle
            else:
                low = middle + 1
        return low


@dataclass(frozen=True, slots=True, eq=False)
class RanksOfEach:
    """max(U₊, U₋)/max(n₁, n₂), where n₁ and n₂ differ from feature to feature: one row moves it by at most 1.

    That also holds for rows whose label is wrong or of which values were made missing or put in, the null staying that
    of the sizes seen (checked for all sizes up to 26 and 1, 2, 3, 4 and 6 rows).
    """

    nulls: tuple[Ranks, ...]
    which: IntArray
    """The null of each feature."""

    def p_values(self, statistic: FloatArray, features: IntArray | slice) -> FloatArray:
        """Return the p-values of each feature's own null; 1 where a group has no value."""
        p = np.ones(statistic.shape)
        for index, at in by_number(self.which[features]):
            null = self.nulls[index]
            if null.n1 and null.n2:  # U is a whole number; the division has moved it by a rounding error at most
                p[at] = null.p_values(np.rint(statistic[at] * max(null.n1, null.n2)), at)
        return p

    def least(self, p: float) -> float:
        """Return the least of what each null asks for."""
        asked = [(n.critical(p) - 0.5) / max(n.n1, n.n2) for n in self.nulls if n.n1 and n.n2]
        return min(asked, default=np.inf)


EXACT_WORK = 4e8
"""Additions spent on an exact distribution: about half a second."""
EXACT_ENTRIES = 10_000_000
"""Probabilities that are kept where sizes differ from feature to feature: 80 MB."""


@lru_cache(maxsize=8)
def mann_whitney(n1: int, n2: int) -> Ranks:
    """Return the null distribution of U, exact up to ``EXACT_WORK`` additions.

    The largest of all rows is from group 1 with chance n₁/(n₁ + n₂) and then beats n₂ others:
    P(u; i, j) = i/(i+j)·P(u − j; i−1, j) + j/(i+j)·P(u; i, j−1). Only additions of positive numbers, so that the
    smallest probabilities keep their digits.
    """
    exact = float(n1 * n2) ** 2 <= EXACT_WORK
    small, large = min(n1, n2), max(n1, n2)
    return Ranks(n1, n2, _exact_tails(small, large, {(small, large)})[small, large] if exact else None)


def mann_whitney_of(sizes: list[tuple[int, int]]) -> list[Ranks]:
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
    return [Ranks(n1, n2, tables.get((min(n1, n2), max(n1, n2)))) for n1, n2 in sizes]


Tables = dict[tuple[int, int], FloatArray]


def _exact_tails(small: int, large: int, wanted: set[tuple[int, int]]) -> Tables:
    """Return P(U ≥ u), u = 0 …, for all ``wanted`` sizes (smaller, larger) on the way to the given ones."""
    size = small * large + 1
    rows = [np.zeros(size) for _ in range(small + 1)]  # i = 0: U = 0 whatever j
    tails = dict.fromkeys((pair for pair in wanted if pair[0] == 0), np.array([1.0, 0.0]))
    for row in rows:
        row[0] = 1.0
    for i in range(1, large + 1):
        new = [rows[0]]
        for j in range(1, small + 1):
            mixed = j / (i + j) * new[j - 1]
            mixed[j:] += i / (i + j) * rows[j][: size - j]
            new.append(mixed)
        rows = new
        for j in range(1, small + 1):
            if (j, i) in wanted:
                tails[j, i] = np.append(np.cumsum(rows[j][i * j :: -1])[::-1], 0.0)
    return tails
