"""Tails of rank statistics by ways that the package does not use: sums of positive terms, or inversions in the open.

Everything here is slow, short and independent of ``sparsemean``: what is compared with it is never to be smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Law = tuple[Ints, Floats]
"""Rising values and their probabilities."""
DIES = 130
"""From so many different scores on a characteristic function that has died away does not come back."""


# Capped signed ranks: T = Σ Bᵢ·min(i, C) over i = 1 … N.


def largest_sum(N: int, C: int) -> int:
    """Return what T is at most."""
    c = min(N, C)
    return c * (c + 1) // 2 + c * (N - c)


def deviation(N: int, C: int) -> float:
    """Return the standard deviation of T."""
    c = min(N, C)
    return math.sqrt(c * (c + 1) * (2 * c + 1) / 6 + float(N - c) * c * c) / 2


def signed_tails(N: int, C: int, sums: npt.ArrayLike) -> Floats:
    """Return P(T ≥ sum) to 1e-15, absolutely: T is symmetric, and its characteristic function real."""
    c, total, sd = min(N, C), largest_sum(N, C), deviation(N, C)
    period = min(2 * max(int(18 * sd), 32), 2 * total + 4)
    last = min(period // 2, int(13 * period / (2 * math.pi * sd)) + 2) if c >= DIES else period // 2
    j = np.arange(1, last + 1, 2)  # over half a period the even ones cancel
    angle = 2 * math.pi / period * j
    phi = _cosines(angle * c / 2) ** (N - c)
    for first in range(1, c + 1, 50_000):
        phi *= _cosines(np.outer(angle / 2, np.arange(first, min(first + 50_000, c + 1)))).prod(axis=1)
    weight = np.where(2 * j == period, 2.0, 4.0) * phi / (2 * np.sin(angle / 2)) / period
    y = (2 * np.asarray(sums, dtype=np.int64) - 1 - total) / 2
    weight = weight.astype(np.float64)
    return np.concatenate(
        [0.5 - np.sin(np.outer(part, angle)) @ weight for part in np.array_split(y, 1 + y.size // 20_000)]
    )


def _cosines(x: Floats) -> npt.NDArray[np.longdouble]:
    """Return cosines with digits enough for a million to be multiplied."""
    return 1 - 2 * np.sin(x / 2).astype(np.longdouble) ** 2


def signed_log_tail(N: int, C: int, least: int) -> float:
    """Return log P(T ≥ least), T tilted to a mean of ``least`` and its transform summed until it has died away."""
    c, total, sd = min(N, C), largest_sum(N, C), deviation(N, C)
    score, times = np.arange(1.0, c + 1), np.append(np.ones(c - 1), N - c + 1.0)
    y, low, high = least - total / 2, 0.0, math.inf
    theta = max(y, 0.5) / sd**2
    for _ in range(200):
        x = theta * score / 2
        mean, variance = times @ (score / 2 * np.tanh(x)), times @ (score**2 / 4 / np.cosh(np.minimum(x, 300)) ** 2)
        low, high = (theta, high) if mean < y else (low, theta)
        moved = theta + (y - mean) / max(variance, 1e-300)
        if abs(moved - theta) < 1e-12 * theta or theta > 60:
            break
        theta = moved if low < moved < high else min(2 * theta, (low + high) / 2)
    theta = max(theta, 0.3 / sd)
    x = theta * score / 2
    log_mgf = float(times @ (x + np.log1p(np.exp(-2 * x)) - math.log(2))) + theta * total / 2
    wide = math.sqrt(times @ (score**2 / 4 / np.cosh(np.minimum(x, 300)) ** 2))
    period, p = int(max(26 * wide, 80 / theta, 64)), 1 / (1 + np.exp(-theta * score))
    total_sum, j = 0.0, 0
    while j <= period // 2:
        part = np.arange(j, min(j + 32, period // 2 + 1))
        angle = 2 * math.pi / period * part
        turned = np.outer(angle, score)
        size = 0.5 * np.log(np.maximum(1 - 4 * p * (1 - p) * np.sin(turned / 2) ** 2, 1e-300)) @ times
        phase = np.arctan2(p * np.sin(turned), 1 - p + p * np.cos(turned)) @ times
        values = np.exp(size + 1j * (phase - angle * least)) / (1 - np.exp(-theta - 1j * angle))
        total_sum += float(np.where((part == 0) | (2 * part == period), 1, 2) @ values.real)
        j += 32
        if c >= DIES and size.max() < -40:
            break
    return log_mgf - theta * least + math.log(total_sum / period)


@lru_cache(maxsize=64)
def _subsets(N: int, C: int, most: int) -> list[int]:
    """Return how many sets of coins have scores that add up to k, for k up to ``most``, in whole numbers."""
    ways = [1] + [0] * most
    for score in range(1, min(min(N, C) - 1, most) + 1):
        for k in range(most, score - 1, -1):
            ways[k] += ways[k - score]
    c, out = min(N, C), [0] * (most + 1)
    for j in range(most // c + 1):
        times = comb(N - c + 1, j)
        for k in range(j * c, most + 1):
            out[k] += times * ways[k - j * c]
    return out


def signed_log_tail_at_end(N: int, C: int, deficit: int) -> float:
    """Return log P(T ≥ largest − deficit) by counting."""
    ways = sum(_subsets(N, C, max(64, deficit))[: deficit + 1])
    return math.log(ways / 2**N) if N <= 1000 else math.log(ways) - N * math.log(2)


def signed_law_of_ties(sizes: Sequence[int], C: int, *, doubled: bool) -> Law:
    """Return the law of a sum of signed ranks where blocks of so many values have one size, over all signs.

    Positive values take the lowest scores of their block, or, ``doubled``, twice those nearest to both of its ends.
    """
    law = (np.zeros(1, dtype=np.int64), np.ones(1))
    rank = 1
    for size in sizes:
        score = np.minimum(np.arange(rank, rank + size), C)
        sums = []
        for k in range(size + 1):
            ends = 2 * score[: k // 2].sum() + 2 * score[size - k // 2 :].sum()
            middle = score[k // 2] + score[size - 1 - k // 2] if k % 2 else 0
            sums.append(ends + middle if doubled else score[:k].sum())
        law = added(law, merged(np.array(sums), np.array([comb(size, k) / 2.0**size for k in range(size + 1)])))
        rank += size
    return law


# Mann–Whitney's W = 2U.


def merged(values: Ints, probabilities: Floats) -> Law:
    """Return a law whose values are all different."""
    out, where = np.unique(values, return_inverse=True)
    return out, np.bincount(where, weights=probabilities)


def added(one: Law, other: Law) -> Law:
    """Return the law of a sum of two."""
    return merged(np.add.outer(one[0], other[0]).ravel(), np.multiply.outer(one[1], other[1]).ravel())


@lru_cache(maxsize=256)
def gaussian_binomials(A: int) -> list[Floats]:
    """Return the coefficients of [A, a] for a = 0 … A, by sums of positive terms."""
    row = [np.ones(1)]
    for n in range(1, A + 1):
        new = [np.zeros(a * (n - a) + 1) for a in range(n + 1)]
        for a, ways in enumerate(row):
            new[a][a : a + ways.size] += ways
            new[a + 1][: ways.size] += ways
        row = new
    return row


def stratum(n1: int, n2: int, A: int) -> Law:
    """Return the law of 2U of a stratum where A values are different and above zeros that are tied."""
    dealt, values, probabilities = range(max(0, A - n2), min(n1, A) + 1), [], []
    steps = [(n1 - a) / (n2 - A + a + 1) for a in dealt[:-1]]  # of the zeros' C(n₁ + n₂ − A, n₁ − a), from a to a + 1
    zeros = np.exp(np.append(0.0, np.cumsum(np.log(steps))))
    zeros /= sum(share * comb(A, a) for a, share in zip(dealt, zeros.tolist(), strict=True))
    for a, share in zip(dealt, zeros.tolist(), strict=True):
        ways = gaussian_binomials(A)[a]
        values.append(2 * a * n2 + (n1 - a) * (n2 - A + a) - 2 * np.arange(ways.size))
        probabilities.append(ways * share)
    return merged(np.concatenate(values), np.concatenate(probabilities))


def tied_groups(sizes: Sequence[int], n1: int, *, zeros: bool, halves: bool) -> Law:
    """Return the law of 2U over all ways to deal blocks of equal values to n₁ rows and the others.

    A tied pair counts ½, without ``halves`` nothing; pairs of the first block, the ``zeros``, always count ½.
    """
    states: dict[int, dict[int, int]] = {0: {0: 1}}
    below = 0
    for block, size in enumerate(sizes):
        tie = 1 if halves or (zeros and block == 0) else 0
        new: dict[int, dict[int, int]] = {}
        for dealt, sums in states.items():
            for k in range(min(size, n1 - dealt) + 1):
                gain, ways = 2 * k * (below - dealt) + tie * k * (size - k), comb(size, k)
                at = new.setdefault(dealt + k, {})
                for w, times in sums.items():
                    at[w + gain] = at.get(w + gain, 0) + times * ways
        states, below = new, below + size
    law = sorted(states[n1].items())
    total = comb(below, n1)
    return np.array([w for w, _ in law]), np.array([times / total for _, times in law])


def tails_of(law: Law, places: npt.ArrayLike) -> Floats:
    """Return P(W ≥ place)."""
    above = np.append(np.minimum(np.cumsum(law[1][::-1])[::-1], 1.0), 0.0)
    return np.asarray(above[np.searchsorted(law[0], places)])


def tails_of_sum(one: Law, other: Law, places: npt.ArrayLike) -> Floats:
    """Return P(W₁ + W₂ ≥ place), without the law of the sum."""
    return np.array([one[1] @ tails_of(other, place - one[0]) for place in np.atleast_1d(places)])


# Whole numbers: how many groups there are with each sum, the digits of one large number.


def counted_log_tails(strata: Sequence[tuple[Sequence[int], Sequence[int], int]], places: Sequence[int]) -> Floats:
    """Return log P(W ≥ place) of the sum of the scores of rows that are drawn, by counting.

    A stratum has scores, how many rows have each of them, and how many rows are drawn.
    """
    groups = math.prod(comb(sum(times), drawn) for _, times, drawn in strata)
    width = groups.bit_length() // 8 + 1
    product = 1
    for scores, times, drawn in strata:
        ways = [1] + [0] * drawn
        for score, number in zip(scores, times, strict=True):
            for _ in range(number):
                for a in range(drawn, 0, -1):
                    ways[a] += ways[a - 1] << (8 * width * score)
        product *= ways[drawn]
    digits = product.to_bytes((product.bit_length() + 7) // 8, "little")
    above = np.zeros(len(digits) // width + 2, dtype=object)
    for k in range(len(digits) // width, -1, -1):
        above[k] = above[k + 1] + int.from_bytes(digits[k * width : (k + 1) * width], "little")
    assert above[0] == groups
    return np.array([math.log(above[place]) - math.log(groups) for place in places])
