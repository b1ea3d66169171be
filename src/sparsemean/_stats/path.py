"""The path of every feature: where its walk is after t steps, and when it leaves zero.

The rate β of a walk changes only when μ̂ passes a bucket mean. Until then it is free:
μ̂_t = α²[(1 + ηβ₀)^{2t} − (1 − ηβ₀)^{2t}], β₀ = (N₊ − N₋)/J, and the counts say all. Bucket means that are exactly
zero are passed with the first step; from then on the rate is (|N₊ − N₋| − N₀)/J.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from sparsemean._stats.arrays import group_indices, map_unique, medians, namespace, on_device, on_host
from sparsemean._util.records import CountArray, Counts, FloatArray, IntArray

Rule: TypeAlias = Callable[[IntArray, IntArray, int], FloatArray]
GUARD = 1.0 + 1e-9
"""The nearest bucket mean is known up to rounding; a walk that comes this close to it is made step by step."""


def closed_form_path(
    positive: CountArray, negative: CountArray, n_buckets: int | CountArray, *, alpha: float, eta: float, t: int
) -> FloatArray:
    """Return μ̂_t of every feature as long as it meets no bucket mean but those at zero.

    ``n_buckets`` is the number of buckets, or one for each feature where some are empty.
    """

    def rule(net: IntArray, zero: IntArray, J: int) -> FloatArray:
        u, v, later = _after_first_step(net, zero, J, alpha, eta)
        with np.errstate(over="ignore"):
            mu = (u * (1.0 + eta * later) ** (t - 1)) ** 2 - (v * (1.0 - eta * later) ** (t - 1)) ** 2
        turning = np.flatnonzero(np.abs(net) < zero)
        mu[turning] = _hover(net[turning], zero[turning], J, alpha, eta, t)
        return np.asarray(mu)

    return _for_each_number(positive, negative, n_buckets, rule, 0.0)


def free_entry(
    positive: CountArray, negative: CountArray, n_buckets: int | CountArray, *, alpha: float, eta: float
) -> FloatArray:
    """Return the first t with |μ̂_t| ≥ α on the free path; infinity where the walk stands still or turns back."""

    def rule(net: IntArray, zero: IntArray, J: int) -> FloatArray:
        u, v, later = _after_first_step(np.abs(net), zero, J, alpha, eta)
        entry = np.where((net != 0) & (u * u - v * v >= alpha), 1.0, np.inf)
        rest = np.isinf(entry) & (later > 0)
        entry[rest] = 1.0 + steps_to(np.full(rest.sum(), alpha), u[rest], v[rest], later[rest], eta)
        return entry

    return _for_each_number(positive, negative, n_buckets, rule, np.inf)


def _for_each_number(
    positive: CountArray, negative: CountArray, n_buckets: int | CountArray, rule: Rule, without: float
) -> FloatArray:
    """Evaluate a rule of (N₊ − N₋, N₀, J) for the features of each number J; those ``without`` any have one answer."""
    if isinstance(n_buckets, int):
        return _for_each_count(positive, negative, n_buckets, rule)
    if on_device(n_buckets):
        here = on_host((positive, negative, n_buckets))
        return namespace(n_buckets).asarray(_for_each_number(*here, rule, without))  # type: ignore[no-any-return]
    out = np.full(n_buckets.shape, without)
    for J, at in group_indices(n_buckets):
        if J > 0:
            out[at] = _for_each_count(positive[at], negative[at], J, rule)
    return out


def _for_each_count(positive: CountArray, negative: CountArray, n_buckets: int, rule: Rule) -> FloatArray:
    """Evaluate a rule once for each pair of counts, not once for each feature."""
    xp = namespace(positive)
    net = positive.astype(np.intp) - negative
    zero = n_buckets - positive.astype(np.intp) - negative
    width = n_buckets + 1

    def of_pairs(net: IntArray, zero: IntArray) -> FloatArray:
        codes = (net + n_buckets) * width + zero
        return map_unique(lambda code: rule(code // width - n_buckets, code % width, n_buckets), codes)

    if n_buckets >= net.size:
        return of_pairs(net, zero)
    nets = np.arange(-n_buckets, n_buckets + 1)
    out: FloatArray = xp.asarray(rule(nets, np.zeros_like(nets), n_buckets))[net + n_buckets]
    with_zeros = xp.flatnonzero(zero)
    if with_zeros.size:
        out[with_zeros] = of_pairs(net[with_zeros], zero[with_zeros])
    return out


def _after_first_step(
    net: IntArray, zero: IntArray, n_buckets: int, alpha: float, eta: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return u and v after one step, and the rate from then on."""
    first = net / n_buckets
    later = np.sign(net) * (np.abs(net) - zero) / n_buckets
    return alpha * (1.0 + eta * first), alpha * (1.0 - eta * first), np.where(net == 0, 0.0, later)


def _hover(net: IntArray, zero: IntArray, n_buckets: int, alpha: float, eta: float, t: int) -> FloatArray:
    """Walk features held at zero by their bucket means there: the sign of μ̂ decides each step."""
    u = np.full(net.shape, alpha)
    v = u.copy()
    for _ in range(t if net.size else 0):
        beta = (net - np.sign(u * u - v * v) * zero) / n_buckets
        u, v = u * (1.0 + eta * beta), v * (1.0 - eta * beta)
    return np.asarray(u * u - v * v)


def steps_to(level: FloatArray, u: FloatArray, v: FloatArray, beta: FloatArray, eta: float) -> FloatArray:
    """Return the smallest s ≥ 1 with u²(1 + ηβ)^{2s} − v²(1 − ηβ)^{2s} ≥ level, for β > 0.

    With equal and opposite rates this is a hyperbolic sine; a few fixed-point steps and a look at the neighbours give
    the integer.
    """
    up, down = np.log1p(eta * beta), np.log1p(-eta * beta)

    def value(s: FloatArray) -> FloatArray:
        return np.asarray((u * np.exp(up * s)) ** 2 - (v * np.exp(down * s)) ** 2)

    s = np.zeros(level.shape)
    # (1 − η²β²)^s changes little with s: few steps come near, and the neighbours decide below.
    for _ in range(4):
        s = np.maximum(0.0, (np.arcsinh(level / (2 * u * v * np.exp((up + down) * s))) - np.log(u / v)) / (up - down))
    s = np.maximum(1.0, np.ceil(s))
    while (short := value(s) < level).any():
        s += short
    while (far := (s > 1) & (value(s - 1) >= level)).any():
        s -= far
    return s


def needs_iteration(counts: Counts, reached: FloatArray, *, alpha: float, eta: float) -> IntArray:
    """Return the features whose counts do not settle where their walk is.

    A bucket mean lies within its reach, or it ends so near to α that rounding decides. A walk that hovers about zero
    oversteps it by no more than one step, which is below 8ηα².
    """
    xp, end = namespace(reached), abs(reached)
    met = counts.nearest <= xp.maximum(end * GUARD, 8 * eta * alpha**2)
    return xp.flatnonzero(met | (abs(end / alpha - 1.0) < GUARD - 1.0))  # type: ignore[no-any-return]


def entry_unsettled(counts: Counts, *, alpha: float) -> IntArray:
    """Return the features whose counts do not settle their entry time: they move, and a bucket mean lies within α."""
    moves = counts.positive[-1] != counts.negative[-1]
    close = counts.nearest <= alpha * GUARD
    return namespace(close).flatnonzero(moves & close)  # type: ignore[no-any-return]


def contenders(mu: FloatArray, k: int) -> IntArray:
    """Return the features among which the k largest |μ̂| are, all those included that only rounding tells apart."""
    xp, size = namespace(mu), abs(mu)
    least = xp.partition(size, size.size - k)[size.size - k]
    return xp.flatnonzero(size * GUARD >= least)  # type: ignore[no-any-return]


def entry_times(means: FloatArray, *, alpha: float, eta: float) -> FloatArray:
    """Return the entry times of (J, features) bucket means, jumping from one bucket mean to the next.

    A mean that is NaN does not count.
    """
    numbers, d = np.sum(~np.isnan(means), axis=0), means.shape[1]
    side = np.sign(np.sum(means > 0, axis=0) - np.sum(means < 0, axis=0)).astype(np.float64)
    ordered = np.sort(means * side, axis=0).T  # every walk now goes up
    u, v, t = np.full(d, alpha), np.full(d, alpha), np.zeros(d)
    entry = np.full(d, np.inf)
    going = np.flatnonzero(side)
    while going.size:
        x, mu = ordered[going], (u[going] ** 2 - v[going] ** 2)[:, np.newaxis]
        entered = mu[:, 0] >= alpha
        entry[going[entered]] = t[going[entered]]
        below, through, J = np.sum(x < mu, axis=1), np.sum(x <= mu, axis=1), numbers[going]
        going_on = ~entered & (J - through - below > 0)
        going, below, through, J = going[going_on], below[going_on], through[going_on], J[going_on]
        beta = (J - through - below) / J
        steps = steps_to(np.minimum(ordered[going, through], alpha), u[going], v[going], beta, eta)
        steps[through > below] = 1.0  # a bucket mean at μ̂ itself changes side with the next step
        u[going] *= (1.0 + eta * beta) ** steps
        v[going] *= (1.0 - eta * beta) ** steps
        t[going] += steps
    return entry


def selection_threshold(t: int, *, alpha: float, eta: float) -> float:
    """Return β*, the rate at which a free walk reaches α in t steps: the paper's rule selects |β₀| ≥ β*.

    The root of α[(1 + ηβ)^{2t} − (1 − ηβ)^{2t}] = 1; infinity where even β = 1 is too slow.

    Examples
    --------
    >>> round(selection_threshold(200, alpha=1e-5, eta=0.05), 5)
    0.58401
    """

    def reaches(beta: float) -> bool:
        up, down = 2 * t * math.log1p(eta * beta), 2 * t * math.log1p(-eta * beta)
        # e⁷⁰⁰ is near the largest double, and far above any 1/α.
        return up > 700 or alpha * (math.exp(up) - math.exp(down)) >= 1

    low, high = 0.0, 1.0
    if not reaches(high):
        return np.inf
    for _ in range(60):  # a double has 53 bits: more halvings change nothing
        middle = (low + high) / 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def walk(means: FloatArray, *, alpha: float, eta: float, times: Iterable[int]) -> FloatArray:
    """Return rows of μ̂ at the rising ``times`` for (J, features) bucket means, step by step."""
    from sparsemean._kernels.loops import subgm  # compiled kernels are loaded when there is something to walk

    return subgm(means, alpha=alpha, eta=eta, times=times)


def units_of(means: FloatArray) -> FloatArray:
    """Return a robust unit for each feature: the median size of its bucket means, 1 where that is zero.

    α is absolute; in such units a walk does not depend on what the feature is measured in.
    """
    unit = medians(np.abs(means))
    return np.where(unit > 0, unit, 1.0)
