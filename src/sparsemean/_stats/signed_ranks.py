"""Capped signed ranks of one sample: their caps, their shares of the error, and the tails of Σ min(rank of |x|, C).

No partition and no seed. C = n is Wilcoxon's test, all that is looked at where no row is bad. From one bad row on three
caps, fixed in advance, share the error: small ones are near the sign test, which bad rows and heavy tails move least.
docs/guarantees.md has the proofs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import group_indices
from sparsemean._stats.decision import Stage, Stages, stages_of
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray

LEAST_FILTER = 0.003
"""Of a hundred thousand features it leaves a few hundred to rank. Ranks that select beside a larger p-value of signs
are rare even where signs are worst, for noise with a gap at its centre."""
STEPS = 20
"""Times Holm's first threshold, the filter lets a feature pass."""
ALL_RANKED = 4_000_000
"""Values up to which every feature is ranked: it takes a tenth of a second."""
SHARES = (1 / 9, 4 / 9, 4 / 9)
"""Of the error, of a cap of a tenth of the rows, of two fifths and of all. Equal shares find much the same means and
make intervals of normal values longer; less for the first costs Laplace's noise more than 2 % in what is found."""
REPEAT_SHARE = 10
"""Fewer than a tenth of the rows repeat the size of others: their ties count against rejection."""


def caps_of(n: int) -> tuple[int, ...]:
    """Return the caps for n rows: a tenth of them, two fifths, all.

    Examples
    --------
    >>> caps_of(600), caps_of(4)
    ((60, 240, 600), (1, 4))
    """
    return tuple(sorted({max(1, n // 10), max(1, 2 * n // 5), n}))


def filter_of(plan: Plan) -> float:
    """Return the p-value of bucket signs above which a feature has p = 1: only the others are read again and ranked.

    It is fixed before any value is seen, and asked for the same number of bad rows as the p-value is, so that p stays
    valid and rises with them. It lies far above the p-values that select: by `STEPS` above Holm's first, and at the
    level where many features may be selected at less.
    """
    if plan.n_units * plan.n_features <= ALL_RANKED:
        return 1.0
    asked = plan.level if plan.selection.startswith("fdr") else STEPS * plan.level / plan.n_features
    return min(1.0, max(LEAST_FILTER, asked))


def shares_of(n: int) -> FloatArray:
    """Return the share of the error that each cap has: most of it those that find most where noise is near normal.

    Examples
    --------
    >>> shares_of(600), shares_of(4)
    (array([0.11111111, 0.44444444, 0.44444444]), array([0.55555556, 0.44444444]))
    """
    shares = dict.fromkeys(caps_of(n), 0.0)
    for cap, share in zip((max(1, n // 10), max(1, 2 * n // 5), n), SHARES, strict=True):
        shares[cap] += share
    return np.array(list(shares.values()))


def slack_of(bad_rows: IntArray | int, values: IntArray, cap: int, hidden: IntArray | int = 0) -> IntArray:
    """Return by how much bad rows can move T: Σ min(N − k, C) over k below their number.

    Those that can have ``hidden`` a value, as so many are zero or missing, add the scores of more values instead.
    """
    more = np.minimum(bad_rows, hidden)
    return np.asarray(score_sums(values + more, cap) - score_sums(values - bad_rows + more, cap))


@lru_cache(maxsize=64)
def rank_stages(n: int, *, error: float, sides: int) -> Stages:
    """Return which caps can reject at ``error``, up to which numbers of bad rows; see `nulls.sign_test_stages`.

    For none it is the uncapped sum alone, Wilcoxon's test.
    """
    values, lasts, goal = np.array([n]), [], np.log(error / sides)
    for cap in caps_of(n):

        def misses(bad_rows: int, cap: int = cap) -> bool:
            sums = score_sums(values, cap) - slack_of(bad_rows, values, cap)
            return bool(log_tails(values, cap, sums)[0] > goal)

        lasts.append(bisect_left(range(n // 2 + 1), True, key=misses) - 1)
    return (Stage(0, (len(lasts) - 1,)), *(stage for stage in stages_of(lasts) if stage.last > 0))


# Tails: P(Σ Bᵢ·min(i, C) ≥ t) over i = 1 … N with fair coins Bᵢ, never too small, and too large by less than one in a
# million, unless they are below e^(−600) or of more than `LARGE` values, where a bound will do. Up to `TABLED` values,
# and next to the largest sum, they are added up.
# Elsewhere T is tilted to a mean below t, and its characteristic function summed as far as it has not died away.
# docs/guarantees.md has the bounds of what is left out, which is added.

TABLED = 256
"""Values up to which all tails are in a table."""
MOST_TABLED = 1000
"""Different scores up to which they are in one too, where a characteristic function does not die away: 2^(−1000) is
a number still."""
LARGE = 20_000
"""Values up to which characteristic functions are summed; beyond, a bound is as near as anybody needs."""
NEAR = 2000
"""Sums less than this from the largest are counted one by one."""
LEFT_OUT = 46.0
"""The logarithm of how unlikely what is left out is under the tilt; so small are characteristic functions left out."""
STEP = 2.0
"""Standard deviations by which each tilt moves the mean on."""
FARTHEST, GROWTH, LARGEST_TILT = -600.0, 1.1, 50.0
"""Logarithm of a tail beyond which a bound will do, and tilts grow by a tenth."""
LADDER = 1.1
"""Numbers of values share tilts with others that are larger by less than this."""
ROUNDED = 1e-13
"""Added to the logarithm of a tail for each value: products and sums of so many numbers are rounded."""
AT_ONCE, TOGETHER = 1_000_000, 64
"""Factors of a characteristic function that are made at once; scores that share a sine and a cosine."""
DYADIC = 50
"""Values up to which a table has no rounding in it."""
MANY, LEAST_MANY = 32, 8
"""Sums whose tails are looked at together where critical ones are searched for, of one number of values and of many:
it is the calls that take time."""
LOG_2 = math.log(2.0)


def score_sums(ranks: IntArray, cap: int) -> IntArray:
    """Return the sum of min(i, C) over i up to each of ``ranks``; 0 for ranks below 1.

    Examples
    --------
    >>> score_sums(np.array([-1, 2, 5]), 3)
    array([ 0,  3, 12])
    """
    inside = np.minimum(np.maximum(ranks, 0), cap)  # np.clip takes five times as long of a few
    return np.asarray(inside * (inside + 1) // 2 + cap * np.maximum(ranks - cap, 0))


def log_tails(values: IntArray, cap: int, sums: IntArray) -> FloatArray:
    """Return log P(T ≥ sum) for each number of ``values`` and each of ``sums``; 0 for sums next to the mean or below.

    Examples
    --------
    >>> np.exp(log_tails(np.array([3, 3]), 2, np.array([5, 4])))
    array([0.125, 0.25 ])
    """
    out = np.zeros(sums.size)
    deficit = score_sums(values, cap) - sums
    out[deficit < 0] = -np.inf
    asked = (deficit >= 0) & (sums - deficit > 1)
    if not asked.any():
        return out
    small, close = values <= TABLED, deficit < np.minimum(NEAR, np.minimum(values, cap))
    at = np.flatnonzero(asked & small)
    for number, own in group_indices(values[at]):
        out[at[own]] = _table(number, min(cap, number))[sums[at[own]]]
    at = np.flatnonzero(asked & close & ~small)
    out[at] = _log_subsets()[deficit[at]] - values[at] * (LOG_2 - ROUNDED)
    at = np.flatnonzero(asked & (values > LARGE) & ~close)
    if at.size:
        out[at] = _log_bounds(values[at], cap, sums[at])
    at = np.flatnonzero(asked & (values <= LARGE) & ~close & ~small)
    if at.size:
        rungs = _ladder(int(values.max()))
        for rung, own in group_indices(np.searchsorted(rungs, values[at])):
            tilts = _tilts(int(rungs[rung - 1]) + 1, int(rungs[rung]), min(cap, int(rungs[rung])))
            out[at[own]] = tilts.log_tails(values[at[own]], sums[at[own]])
    return out


def most_bad(sums: IntArray, values: IntArray, cap: int, log_error: float, hidden: IntArray | int = 0) -> IntArray:
    """Return up to how many bad rows the tails of sums, less what these can move, are no larger than an error, else −1.

    Examples
    --------
    >>> most_bad(np.array([4, 5, 8]), np.array([3, 3, 5]), 2, np.log(0.125))
    array([-1,  0,  0])
    """
    room, seen = sums - critical_sums(values, cap, log_error), score_sums(values, cap)
    full = cap * (cap + 1) // 2
    reached = seen + np.maximum(room, 0)  # scores of more values than are seen, until no more can be hidden
    below = np.floor((np.sqrt(8 * np.minimum(reached, full) + 1) - 1) / 2).astype(np.int64)
    more = np.minimum(np.where(reached > full, cap + (reached - full) // cap, below) - values, hidden)
    left = seen - (room - (score_sums(values + more, cap) - seen))  # what is left of the scores, the largest gone
    least = np.ceil((np.sqrt(8 * np.clip(left, 0, full) + 1) - 1) / 2).astype(np.int64)
    others = values - np.where(left > full, cap - (full - left) // cap, least)
    return np.asarray(np.where(room < 0, -1, more + np.where(more < hidden, 0, others)))


def critical_sums(values: IntArray, cap: int, log_error: float) -> IntArray:
    """Return, for each number of ``values``, the smallest sum whose tail is no larger than an error, by halving.

    It is one more than there can be where no tail is so small.

    Examples
    --------
    >>> critical_sums(np.array([3, 2]), 2, np.log(0.125))
    array([5, 4])
    """
    numbers, back = np.unique(values, return_inverse=True)
    return _critical_sums(tuple(numbers.tolist()), cap, log_error)[back]


@lru_cache(maxsize=1024)
def _critical_sums(values: tuple[int, ...], cap: int, log_error: float) -> IntArray:
    most = score_sums(numbers := np.array(values, dtype=np.int64), cap)
    low, high, moving = most // 2, most + 1, np.arange(numbers.size)
    squared = max(0.1, -2 * log_error - math.log(max(1.0, -4 * math.pi * log_error)))  # of a normal T, to begin with
    parts = np.arange(1.0, 1 + max(LEAST_MANY, MANY // max(1, numbers.size)))
    near = math.sqrt(squared) + 0.5 * (2 * parts / (parts.size + 1) - 1) ** 3
    sums = (most[:, np.newaxis] / 2 + np.outer(np.sqrt(_variances(numbers, cap)), near)).astype(np.int64)
    while moving.size:
        least, end = low[moving, np.newaxis], high[moving, np.newaxis]
        sums = np.minimum(np.maximum(sums, least), end - 1)
        enough = log_tails(np.repeat(numbers[moving], parts.size), cap, sums.ravel()).reshape(sums.shape) <= log_error
        first, of = np.sum(~np.logical_or.accumulate(enough, axis=1), axis=1), np.arange(moving.size)
        low[moving], high[moving] = np.hstack((least, sums + 1))[of, first], np.hstack((sums, end))[of, first]
        moving = np.flatnonzero(low < high)
        sums = (low[moving] + np.outer(parts / (parts.size + 1), (high - low)[moving]).astype(np.int64)).T
    return low


@lru_cache(maxsize=512)
def _table(number: int, cap: int) -> FloatArray:
    """Return log P(T ≥ t) for t from 0 to the largest sum, by adding one value after the other."""
    mass = np.ones(1)
    for rank in range(1, number + 1):
        score = min(rank, cap)
        longer = np.zeros(mass.size + score)
        longer[: mass.size] = mass
        longer[score:] += mass
        mass = 0.5 * longer
    rounded = mass.size * np.finfo(np.float64).eps if number > DYADIC else 0.0
    return np.log(np.cumsum(mass[::-1])[::-1]) + rounded


def _of_lumps(number: int, cap: int, sums: IntArray) -> FloatArray:
    """Return log P(T ≥ sum) from a table of the scores below the cap and the number of values that have the cap's."""
    below, j = _table(cap - 1, cap - 1), np.arange(number - cap + 1)
    ways = np.append(0.0, np.cumsum(np.log((j.size - j) / (j + 1)))) - j.size * LOG_2  # of coins: log binomials
    rest = sums[:, np.newaxis] - cap * np.arange(ways.size)
    logs = below[np.clip(rest, 0, below.size - 1)] + ways
    logs[rest >= below.size] = -np.inf
    largest = logs.max(axis=1)
    return np.asarray(np.minimum(0.0, largest + np.log(np.exp(logs.T - largest).sum(axis=0)) + number * ROUNDED))


def _variances(values: IntArray, cap: int) -> FloatArray:
    own = np.minimum(values, cap).astype(np.float64)
    return np.asarray((own * (own + 1) * (2 * own + 1) / 6 + (values - own) * own**2) / 4)


def _log_bounds(values: IntArray, cap: int, sums: IntArray) -> FloatArray:
    """Return what no log P(T ≥ sum) exceeds, by a few per cent too large about the middle.

    With θ = x/σ², x the distance from the mean, K(θ) is at most θ²σ²/2 and the tilted mean at most t. The tilted law is
    normal but for 0.56·ρ/σ³ (Shevtsova 2010; unlike summands), its variance at least σ² − θ²·Σ s⁴/16, ρ at most Σ s³/8.
    """
    from scipy.special import erfcx  # where it is used: it takes its time

    own, variance = np.minimum(values, cap).astype(np.float64), _variances(values, cap)
    others, x = values - own, sums - score_sums(values, cap) / 2
    squares = own * (own + 1) * (2 * own + 1) / 6
    fourths = squares * (3 * own**2 + 3 * own - 1) / 5 + others * own**4
    thirds = (own * (own + 1) / 2) ** 2 + others * own**3
    theta = x / variance
    least = np.maximum(variance - theta**2 * fourths / 16, 1e-100)  # no bound at all where it is so small
    part = 0.5 * erfcx(theta * np.sqrt(least / 2)) + 2 * 0.56 * thirds / 8 / least**1.5
    return np.asarray(np.minimum(-LOG_2, np.log(np.minimum(part, 1.0)) - theta * x / 2 + ROUNDED))


@lru_cache(maxsize=1)
def _log_subsets() -> FloatArray:
    """Return log of the number of sets of positive whole numbers that add up to at most k, for each k below `NEAR`."""
    count = np.zeros(NEAR)
    count[0] = 1.0
    for score in range(1, NEAR):
        count[score:] = count[score:] + count[:-score]  # the right side is complete before it is stored
    return np.log(np.cumsum(count))


@lru_cache(maxsize=8)
def _ladder(most: int) -> IntArray:
    """Return numbers of values, each about `LADDER` times the one before, up to one that is not below ``most``."""
    rungs = [TABLED]
    while rungs[-1] < most:
        rungs.append(max(rungs[-1] + 1, int(rungs[-1] * LADDER)))
    return np.array(rungs)


class Tilt(NamedTuple):
    """T less half of its largest sum under a tilt, for each number of values: log E e^(θT), mean and variance."""

    theta: float
    log_mgf: FloatArray
    mean: FloatArray
    variance: FloatArray


class Nodes(NamedTuple):
    """A characteristic function under a tilt, at as many angles as it takes, times what sums it from t upwards."""

    period: int
    origin: IntArray
    """Whole numbers from which sums are counted, of each number of values."""
    weights: npt.NDArray[np.complex128]
    """(numbers of values, angles)."""
    left_out: float
    """What is added for angles and sums that are left out, at most."""


class Tilts:
    """Tails for some neighbouring numbers of values, by inversion of tilted characteristic functions.

    Under a tilt θ a score s counts with the probability 1/(1 + e^(−θs)), and T less half of its largest sum has
    K(θ) = Σ log cosh(θs/2). With M angles ω_j = 2πj/M, P(T ≥ t) = e^(K − θt)·E e^(−θ(T − t))1{T ≥ t} and
    Σ_k e^(−θk) P(T = t + k) over k < L = (1/M)·Σ_j φ(ω_j) e^(−iω_j t) (1 − e^(−(θ + iω_j)L))/(1 − e^(−θ − iω_j)).
    """

    def __init__(self, low: int, top: int, cap: int) -> None:
        self.numbers, self.cap = np.arange(low, top + 1), cap
        self.half = score_sums(self.numbers, cap) / 2
        self.scores = np.arange(1.0, cap + 1)
        self.tilts = [self._tilt(0.0)]
        self.nodes: dict[int, Nodes | None] = {}

    def log_tails(self, values: IntArray, sums: IntArray) -> FloatArray:
        """Return log P(T ≥ sum) for each number of ``values``, sums above the mean."""
        number, out = values - self.numbers[0], np.empty(sums.size)
        x = sums - self.half[number]
        for own, at in group_indices(number):
            farthest = x[at].max()
            while self.tilts[-1].mean[own] <= farthest and self.tilts[-1].theta < LARGEST_TILT:
                self._add_tilt()
        means = np.stack([tilt.mean[number] for tilt in self.tilts])
        for k, at in group_indices(np.sum(means <= x, axis=0) - 1):
            if k not in self.nodes:
                self.nodes[k] = self._damped(k)
            if (nodes := self.nodes[k]) is None:
                out[at] = self._not_summed(k, values[at], sums[at])
                continue
            turned = np.outer(sums[at] - nodes.origin[number[at]], np.arange(nodes.weights.shape[1])) % nodes.period
            turns, weight = 2 * np.pi / nodes.period * turned, nodes.weights[number[at]]
            total = np.sum(weight.real * np.cos(turns) + weight.imag * np.sin(turns), axis=1) / nodes.period
            bound = self.tilts[k].log_mgf[number[at]] - self.tilts[k].theta * x[at]
            out[at] = bound + np.log(np.maximum(total, 0.0) + nodes.left_out)
        return np.asarray(np.minimum(-LOG_2, out + values * ROUNDED))  # above the mean of a symmetric law lies a half

    def _not_summed(self, k: int, values: IntArray, sums: IntArray) -> FloatArray:
        """Return tails that a table has; where none is so long a bound, or the last tail that was summed."""
        out, number = np.empty(sums.size), values - self.numbers[0]
        if self.cap > MOST_TABLED:
            bound = self.tilts[k].log_mgf[number] - self.tilts[k].theta * (sums - self.half[number])  # of Chernoff
            if self._is_far(k - 1):
                return np.asarray(bound)
            edge = np.floor(self.half + self.tilts[k].mean).astype(np.int64)[number] - 1
            return np.asarray(np.minimum(bound, self.log_tails(values, edge)))
        for value, at in group_indices(values):
            own = min(self.cap, value)
            out[at] = _table(value, own)[sums[at]] if value == own else _of_lumps(value, own, sums[at])
        return out

    def _is_far(self, k: int) -> bool:
        """Whether tails about the mean of a tilt are so small that a bound will do."""
        tilt = self.tilts[k]
        return bool(tilt.log_mgf[-1] - tilt.theta * tilt.mean[-1] < FARTHEST)

    def _add_tilt(self) -> None:
        last = self.tilts[-1]
        far, step = self._is_far(len(self.tilts) - 1), STEP / math.sqrt(last.variance[-1])
        self.tilts.append(self._tilt(last.theta * GROWTH if far else last.theta + step))

    def _tilt(self, theta: float) -> Tilt:
        half = abs(theta) / 2 * self.scores
        turned = np.tanh(half)
        log_cosh = half + np.log1p(np.exp(-2 * half)) - LOG_2
        parts = log_cosh, self.scores / 2 * turned, (self.scores / 2) ** 2 * (1 - turned * turned)
        return Tilt(theta, *map(self._over_scores, parts))

    def _over_scores(self, terms: FloatArray) -> FloatArray:
        """Add up what scores from 1 on have, of each number of values: those beyond the cap have its score."""
        within = np.minimum(self.numbers, self.scores.size)
        return np.asarray(np.cumsum(terms)[within - 1] + (self.numbers - within) * terms[-1])

    def _damped(self, k: int) -> Nodes | None:
        """Return the nodes of a tilt, None where its characteristic function does not die away."""
        if k + 1 == len(self.tilts):
            self._add_tilt()
        tilt, following = self.tilts[k : k + 2]
        theta, shift = tilt.theta, math.sqrt(2 * LEFT_OUT / tilt.variance[-1])
        # How far from the tilted mean T lies with probability e^(−LEFT_OUT) at most, above it and below (Chernoff).
        up, down = (
            (self._tilt(theta + s).log_mgf[-1] - tilt.log_mgf[-1] - s * tilt.mean[-1] + LEFT_OUT) / shift
            for s in (shift, -shift)
        )
        length = int(up) + 2
        period = length + int(float((following.mean - tilt.mean).max()) + down) + 2
        last = None if self.cap > MOST_TABLED and self._is_far(k) else self._last_node(tilt, period)
        if last is None:
            return None
        angles = 2 * np.pi / period * np.arange(last + 1.0)
        origin = np.floor(self.half + tilt.mean)
        exponents = theta + 1j * angles
        exponents[0] += 1e-300  # the mean of a sum of L ones is L
        summed = np.expm1(-exponents * length) / np.expm1(-exponents)
        weights = self._transform(theta, angles) * np.where(np.arange(last + 1), 2 * summed, summed)
        weights *= np.exp(-1j * np.outer(origin - self.half, angles))
        return Nodes(period, origin.astype(np.int64), weights, math.exp(-LEFT_OUT) * (1 + period / (last + 1)))

    def _last_node(self, tilt: Tilt, period: int) -> int | None:
        """Return the last angle 2πj/M before |φ| is below e^(−LEFT_OUT) for good, None where there is none.

        log |φ(ω)| ≤ −2Σ p(1 − p)·sin²(ωs/2), where shares p(1 − p) of different scores fall: at most the half of the
        first over sin(ω/2) less their sum. Up to π over the largest score, −2ω²σ²/π².
        """
        shares = 0.25 / np.cosh(np.minimum(tilt.theta / 2 * self.scores[: self.numbers[0]], 300.0)) ** 2
        half, room = float(shares[0]) / 2, float(shares.sum()) - LEFT_OUT
        if room <= half:
            return None
        angle = 2 * math.asin(half / room)
        if angle <= math.pi / self.scores.size:
            angle = min(angle, math.pi * math.sqrt(LEFT_OUT / (2 * float(tilt.variance[0]))))
        last = math.ceil(angle * period / (2 * math.pi))
        return last if 2 * last < period else None

    def _transform(self, theta: float, angles: FloatArray) -> npt.NDArray[np.complex128]:
        """Return E e^(iω(T − half of the largest sum)) under a tilt, (numbers of values, angles)."""
        turned = np.tanh(theta / 2 * self.scores)
        near = np.exp(0.5j * np.outer(np.arange(TOGETHER), angles))

        def factors(first: int, end: int) -> npt.NDArray[np.complex128]:
            """Return cos(ωs/2) + i·tanh(θs/2)·sin(ωs/2), of one score in so many by angles that add up."""
            starts = np.exp(0.5j * np.outer(self.scores[first:end:TOGETHER], angles))
            turns = (starts[:, np.newaxis] * near).reshape(-1, angles.size)[: end - first]
            turns.imag *= turned[first:end, np.newaxis]
            return np.asarray(turns)

        common, cap, low = np.ones(angles.size, dtype=np.complex128), self.scores.size, int(self.numbers[0])
        shared, step = min(low, cap) - 1, max(1, AT_ONCE // angles.size)
        for first in range(0, shared, step):
            common *= factors(first, min(first + step, shared)).prod(axis=0)
        own = common * np.cumprod(factors(shared, cap), axis=0)  # up to each of the largest scores
        within = np.minimum(self.numbers, cap) - 1 - shared
        others = (self.numbers - np.minimum(self.numbers, cap))[:, np.newaxis]
        return np.asarray(own[within] * factors(cap - 1, cap) ** others)


_tilts = lru_cache(maxsize=48)(Tilts)
