"""Tails of Mann–Whitney's U of values that all differ, never too small; docs/guarantees.md has the proofs."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import group_indices
from sparsemean._util.records import FloatArray, IntArray

STEP, LARGEST_TILT = 2.0, 50.0
"""Standard deviations by which each tilt moves the mean on, and the last tilt: beyond nothing is left to tilt."""
LEFT_OUT = 34.0
"""The logarithm of how unlikely what is left out is under the tilt; so small are characteristic functions left out."""
RUNS = (1.0, 0.75, 0.5, 0.3, 0.15)
"""Of all ranks those in the middle, so many of them, bound a characteristic function."""
DIRECTLY, MOST_ANGLES, FINER = 256, 16_384, 16
"""Angles that are added up for each tail; those that are transformed for all tails at once, at most: with more a larger
function is summed, on a grid that is finer by so much."""
TOGETHER, AT_ONCE = 64, 1_000_000
"""Factors that share a sine and a cosine; those that are made at once."""
PLAINLY_AT_ONCE = 32
"""Tails that are asked for in one go before anything is compiled."""
LARGE, SURPLUS = 256, 0.02
"""Rows of either group, in every stratum, from which on the U of all rows is near a normal one whose tail is larger by
this share: where p is above the level that will do."""
ROUNDED, ROUNDED_OFF = 1e-14, 4e-15
"""Added to the logarithm of a tail for each factor, and what a factor may be rounded by where it is near 1."""
LOG_2 = math.log(2.0)
Complex = npt.NDArray[np.complexfloating]


class Moved(NamedTuple):
    """A tilt, by how much it moves the mean of U, and the variance then; both about."""

    theta: float
    moved: float
    variance: float


class Inverse(NamedTuple):
    """A characteristic function times what sums it, at angles 2πj/period."""

    period: int
    weights: Complex
    left_out: float
    table: FloatArray
    """The sums, over a period in equal steps, where there are many angles."""
    log_mean: float
    """log E e^(−θV)."""


class Stratum(NamedTuple):
    """What bounds the characteristic function of one stratum.

    Ranks of the smaller group are independent coins that show p = 1/(1 + e^(−η − θi)), given that so many of them do.
    So |φ(ω)| ≤ max over α of Π|1 − p + p·e^(i(α + ωi))| over the probability of that number, and each factor is at most
    exp(−p(1 − p)(1 − cos(α + ωi))). Over a run of L ranks with p(1 − p) ≥ c their product is at most
    exp(−c(L − |sin(Lω/2)/sin(ω/2)|)). One row against L − 1 has (1 − z^L)(1 − q)/((1 − q^L)(1 − z)), z = q·e^(iω) and
    q = e^(−θ), which is at most (1 + q^L)(1 − q)/((1 − q^L)|1 − z|) and needs no such detour.
    """

    log_chance: float
    runs: list[tuple[int, float]]
    alone: float = 0.0
    """The tilt of one row against others."""

    @classmethod
    def of(cls, theta: float, small: int, large: int, log_mgf: float) -> Stratum:
        """Return that of one stratum under a tilt."""
        rows = small + large
        if small == 1:
            return cls(math.log(math.tanh(0.5 * theta * rows) / -math.expm1(-theta)), [], theta)
        eta = _log_sinh(0.5 * theta * small) - _log_sinh(0.5 * theta * large)
        ranks = np.arange(rows) - 0.5 * (rows - 1)
        ways = math.lgamma(rows + 1) - math.lgamma(small + 1) - math.lgamma(large + 1)
        chance = eta * small + ways + log_mgf - float(np.logaddexp(0.0, eta + theta * ranks).sum())
        runs = []
        for length in (max(1, int(share * rows)) for share in RUNS):
            first = min(max(-eta / theta - 0.5 * (length - 1), ranks[0]), ranks[-1] - (length - 1))
            ends = (eta + theta * first, eta + theta * (first + length - 1))
            runs.append((length, min(0.25 / math.cosh(0.5 * min(abs(end), 600.0)) ** 2 for end in ends)))
        return cls(chance, runs)

    def log_size(self, angle: float) -> float:
        """Return a bound of log |φ| for all angles from this one to π."""
        if self.alone:
            away = math.expm1(-self.alone) ** 2 + 4 * math.exp(-self.alone) * math.sin(0.5 * angle) ** 2
            return min(0.0, -self.log_chance - 0.5 * math.log(away))
        return min(0.0, -self.log_chance - max(share * (L - _kernel(L, angle)) for L, share in self.runs))


def _kernel(L: int, angle: float) -> float:
    """Return a bound of |sin(Lω/2)/sin(ω/2)| for all ω from this one to π: it falls up to 2π/L."""
    first = 2 * math.pi / L
    if angle >= first or L < 2:
        return min(float(L), 1.0 / math.sin(0.5 * angle))
    return max(math.sin(0.5 * L * angle) / math.sin(0.5 * angle), 1.0 / math.sin(0.5 * first))


def _log_sinh(x: float) -> float:
    return x + math.log(-0.5 * math.expm1(-2.0 * x))


class DistinctRanks:
    """Tails of U of values that all differ, summed over strata, by inversion of tilted characteristic functions.

    The number V of pairs that are not won has the generating function Π(1 − q^(l + i))/(1 − q^i), i up to the s rows
    of the smaller group, l those of the larger one. With q = e^(−θ − iω_j) at M angles the sum of it times
    e^(iω_j·v)·(1 − q^L)/(1 − q) is the sum of e^(−θk)·P(V ≡ v − k modulo M) over k < L, which is not too small. What
    is left out, beyond L and at angles where the function has died away, is added.
    """

    def __init__(self, first: tuple[int, ...], second: tuple[int, ...]) -> None:
        sizes = np.sort(np.array([first, second]), axis=0)
        self.small, self.large = sizes[:, sizes[0] > 0]
        self.pairs = int(self.small @ self.large)
        self.low = np.concatenate([np.arange(1.0, s + 1) for s in self.small.tolist()])
        self.high = self.low + np.repeat(self.large, self.small)
        self.starts = np.cumsum(self.small) - self.small
        self.variance = float((self.small * self.large) @ (self.small + self.large + 1)) / 12.0
        self.tilts = [self._tilt(0.5 / math.sqrt(self.variance))]
        self.inverses: dict[int, Inverse] = {}

    def log_tails(self, sums: IntArray) -> FloatArray:
        """Return log P(U ≥ sum) for sums above the mean, at most the largest."""
        x, out = sums - 0.5 * self.pairs, np.empty(sums.size)
        while self.tilts[-1].moved <= x.max() and self.tilts[-1].theta < LARGEST_TILT:
            self.tilts.append(self._following(self.tilts[-1]))
        which = np.searchsorted([tilt.moved for tilt in self.tilts], x, side="right") - 1
        for k, at in group_indices(np.maximum(which, 0)):
            if k not in self.inverses:
                self.inverses[k] = self._invert(k)
            period, weights, left_out, table, log_mean = self.inverses[k]
            missed, tilted = self.pairs - sums[at], self.tilts[k].theta * (self.pairs - sums[at])
            if table.size:  # of the next larger number that is there
                places = -(-missed * table.size // period)
                tilted, total = places * (self.tilts[k].theta * period / table.size), table[places % table.size]
            else:
                turns = 2 * np.pi / period * (np.outer(missed % period, np.arange(weights.size)) % period)
                each = np.sum(np.cos(turns) * weights.real - np.sin(turns) * weights.imag, axis=1)
                total = (2.0 * each - weights[0].real) / period
            out[at] = log_mean + tilted + np.log(np.maximum(total, 0.0) + left_out)
        out += ROUNDED * self.low.size
        return np.asarray(np.minimum(ROUNDED - LOG_2, out))  # above the mean of a symmetric law

    def _log_mgf(self, theta: float) -> FloatArray:
        """Return log E e^(θ(U − mean)) of each stratum."""
        return np.asarray(self._log_products(abs(theta)) + 0.5 * abs(theta) * self.small * self.large)

    def _log_products(self, theta: float) -> FloatArray:
        """Return log E e^(−θV) of each stratum."""
        up, down = (np.expm1(-max(theta, 1e-15) * k) / k for k in (self.high, self.low))
        return np.asarray(np.add.reduceat(np.log(up / down), self.starts))

    def _following(self, tilt: Moved) -> Moved:
        return self._tilt(min(tilt.theta + STEP / math.sqrt(tilt.variance), LARGEST_TILT))

    def _tilt(self, theta: float) -> Moved:
        halves = [np.minimum(0.5 * theta * k, 300.0) for k in (self.high, self.low)]
        slopes = [k / 2 / np.tanh(half) for k, half in zip((self.high, self.low), halves, strict=True)]
        bends = [(k / 2 / np.sinh(half)) ** 2 for k, half in zip((self.high, self.low), halves, strict=True)]
        return Moved(theta, float(np.sum(slopes[0] - slopes[1])), max(float(np.sum(bends[1] - bends[0])), 1e-4))

    def _invert(self, k: int) -> Inverse:
        theta, least, variance = self.tilts[k]
        log_mgf, shift, end = self._log_mgf(theta), math.sqrt(2 * LEFT_OUT / variance), 0.5 * self.pairs
        # How far from the mean U lies under the tilt with probability e^(−LEFT_OUT) at most, above it and below.
        up = (self._log_mgf(theta + shift).sum() - log_mgf.sum() + LEFT_OUT) / shift
        down = (log_mgf.sum() - self._log_mgf(theta - shift).sum() - LEFT_OUT) / shift
        length = int(min(up, end) - (least if k else 0.0)) + 2
        period = (length + int(min(self._following(self.tilts[k]).moved, end) - max(down, -end)) + 2) | 1
        unit = 2 * math.pi / period
        strata = [
            Stratum.of(theta, *sizes) for sizes in zip(self.small.tolist(), self.large.tolist(), log_mgf, strict=True)
        ]
        angles = range(1, period // 2 + 1)
        last = bisect_left(angles, True, key=lambda j: sum(part.log_size(unit * j) for part in strata) < -LEFT_OUT)
        period += int(LEFT_OUT / theta) if last >= MOST_ANGLES else 0  # that function has no end at L
        exponents = np.asarray(theta + 2j * math.pi / period * np.arange(min(last, MOST_ANGLES - 1) + 1))
        transform, table = self._transform(exponents), np.empty(0)
        if last < MOST_ANGLES:
            weights = transform * np.expm1(-length * exponents) / np.expm1(-exponents)
            table = np.fft.irfft(weights, period) if last >= DIRECTLY else table
        else:
            weights = transform * _majorant(theta * period / MOST_ANGLES)
            table = np.fft.irfft(weights, MOST_ANGLES * FINER) * FINER
        rounded = self.low.size + (1 + math.log(self.low.size)) / theta + math.log(period)
        left_out = (2 + 2 * math.log(period)) * math.exp(-LEFT_OUT)
        left_out += (
            ROUNDED_OFF * rounded * 2 * float(np.abs(weights).sum()) / (period if last < MOST_ANGLES else MOST_ANGLES)
        )
        return Inverse(period, weights, left_out, table, float(self._log_products(theta).sum()))

    def _transform(self, exponents: Complex) -> Complex:
        """Return E e^(−zV) over its value at the first of the exponents z = θ + iω, the factors side by side."""
        out, near = np.ones(exponents.size, dtype=np.complex128), np.exp(-np.outer(np.arange(TOGETHER), exponents))
        step = max(1, AT_ONCE // exponents.size // TOGETHER) * TOGETHER
        for s, first in zip(self.small.tolist(), self.starts.tolist(), strict=True):
            for a in range(first, first + s, step):
                parts = []
                for factors in (self.high[a : min(first + s, a + step)], self.low[a : min(first + s, a + step)]):
                    starts = np.exp(-np.outer(factors[::TOGETHER], exponents))
                    turned = (starts[:, np.newaxis] * near).reshape(-1, exponents.size)[: factors.size]
                    parts.append((1.0 - turned) / -np.expm1(-exponents[0].real * factors)[:, np.newaxis])
                out *= (parts[0] / parts[1]).prod(axis=0)
        return out


def _majorant(rate: float) -> Complex:
    """Return `rank_transforms.majorant` at all of its angles."""
    share, at_zero = np.arange(MOST_ANGLES) / MOST_ANGLES, -1.0 / math.expm1(-rate)
    there = -1.0 / np.expm1(-rate - 2j * np.pi * share)
    return np.asarray((1.0 - share) * there - 1j * rate / (2 * math.pi) * (at_zero - there))


distinct_ranks = lru_cache(maxsize=256)(DistinctRanks)


def log_u_tails(
    n1: IntArray, n2: IntArray, A: IntArray, w: IntArray, *, bound: bool, halves: bool,
    goal: FloatArray | float = -np.inf, top: FloatArray | float = 0.0,
) -> FloatArray:  # fmt: skip
    """Return log P(2U ≥ w) of (items, strata) groups, as `rank_tails.log_tails` has it; see there for the goal."""
    from sparsemean._kernels import rank_tails
    from sparsemean._kernels.compiling import plainly

    n1, n2, A, w = (np.ascontiguousarray(x, dtype=np.int64) for x in (n1, n2, A, w))
    goal, top = (np.broadcast_to(log_p, w.shape).astype(np.float64) for log_p in (goal, top))
    pairs, out = (n1 * n2).sum(axis=1), np.full(w.size, -np.inf)
    plain = (n1 + n2 == A).all(axis=1) & (w > pairs) & (not bound)
    rest = np.flatnonzero(~plain)
    while rest.size:  # few at a time until it is known that they take long
        at, rest = np.split(rest, [PLAINLY_AT_ONCE if plainly() else rest.size])
        found = np.empty(at.size)
        rank_tails.log_tails(n1[at], n2[at], A[at], w[at], bound, halves, goal[at], top[at], found)
        out[at] = found
    plain &= w <= 2 * pairs
    many = np.flatnonzero(plain & (np.minimum(n1, n2).min(axis=1) >= LARGE) & (top < LOG_2 * halves))
    if many.size:
        from scipy.special import log_ndtr

        variance = (n1 * n2 * (n1 + n2 + 1.0))[many].sum(axis=1) / 3.0
        out[many] = SURPLUS + LOG_2 * halves + log_ndtr((pairs[many] + 1.0 - w[many]) / np.sqrt(variance))
    asked = np.flatnonzero(plain & (out <= top))
    sizes, which = np.unique(np.hstack((n1, n2))[asked], axis=0, return_inverse=True)
    for k, own in group_indices(which.reshape(-1)):
        at = asked[own]
        exact = distinct_ranks(*map(tuple, np.split(sizes[k], 2))).log_tails((w[at] + 1) // 2) + LOG_2 * halves
        out[at] = np.where(out[at] > -np.inf, np.minimum(exact, top[at]), exact)
    return out


@lru_cache(maxsize=4096)
def critical_rank(first: tuple[int, ...], second: tuple[int, ...], error: float) -> int:
    """Return the smallest u with P(U ≥ u) ≤ ``error``, U of all rows summed over strata of these sizes, by halving."""
    n1, n2 = np.array([first]), np.array([second])
    possible = range(int(np.sum(n1 * n2)) // 2 + 1, int(np.sum(n1 * n2)) + 1)

    def selects(u: int) -> bool:
        tail = log_u_tails(n1, n2, n1 + n2, np.array([2 * u]), bound=False, halves=False)[0]
        return bool(tail <= np.log(error))

    return possible.start + bisect_left(possible, True, key=selects)
