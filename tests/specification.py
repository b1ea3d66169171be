"""The specification: what fast kernels must equal, in short NumPy that a reader can check against the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._fit.refinement import DEGREES, FAR, FEWEST, NAMES, NEAR, NOTHING
from sparsemean._kernels import centres, reference
from sparsemean._stats.arrays import GAUSSIAN
from sparsemean._util.records import FloatArray, IntArray, Partition

Array = npt.NDArray[np.generic]


def bucket_means(
    X: Array, partition: Partition, *, level: int = 0, columns: IntArray | None = None, missing: bool = False
) -> FloatArray:
    """Return the (J, features) bucket means x̄ at ``level``, of all features or of ``columns``."""
    chosen = X if columns is None else X[:, columns]
    *_, (sums, counts) = reference._levels(chosen, partition, level + 1, missing=missing)
    with np.errstate(invalid="ignore"):
        return sums / counts


def subgm(means: FloatArray, *, alpha: float, eta: float, times: Iterable[int]) -> FloatArray:
    """Run the paper's subgradient method and return μ̂ = u² − v² at each of the rising ``times``.

    β(μ̂) = (#{x̄ > μ̂} − #{x̄ < μ̂})/J, u ← (1 + ηβ)u, v ← (1 − ηβ)v, from u = v = α (the paper's SubGM update).

    Examples
    --------
    >>> subgm(np.array([[3.0], [4.0], [5.0]]), alpha=1e-2, eta=0.05, times=(0, 200)).round(2)
    array([[0.  ],
           [3.95]])
    """
    return _at(times, (u * u - v * v for u, v in subgm_steps(means, alpha=alpha, eta=eta)))


def subgm_steps(means: FloatArray, *, alpha: float, eta: float) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield (u, v) for t = 0, 1, 2, … without end."""
    J, d = np.maximum(1, np.sum(~np.isnan(means), axis=0)), means.shape[1]
    u = np.full(d, alpha)
    v = np.full(d, alpha)
    while True:
        yield u, v
        mu = u * u - v * v
        beta = (np.sum(means > mu, axis=0) - np.sum(means < mu, axis=0)) / J
        u = u * (1.0 + eta * beta)
        v = v * (1.0 - eta * beta)


def _at(times: Iterable[int], path: Iterable[FloatArray]) -> FloatArray:
    """Pick the points of an endless path at the rising ``times``."""
    wanted = list(times)
    points = dict(zip(range(wanted[-1] + 1), path, strict=False))
    return np.stack([points[t] for t in wanted])


def entry_times(means: FloatArray, *, alpha: float, eta: float, horizon: int = 1_000_000) -> FloatArray:
    """Return the first t with |μ̂_t| ≥ α; infinity for a walk that stands still or turns back before."""
    return np.array([_entry_time(column, alpha, eta, horizon) for column in means.T])


def _entry_time(column: FloatArray, alpha: float, eta: float, horizon: int) -> float:
    u = v = alpha
    side = int(np.sum(column > 0)) - int(np.sum(column < 0))
    for t in range(horizon):
        mu = u * u - v * v
        if abs(mu) >= alpha:
            return float(t)
        net = int(np.sum(column > mu)) - int(np.sum(column < mu))
        if net * side <= 0:
            break
        beta = net / np.sum(~np.isnan(column))
        u *= 1.0 + eta * beta
        v *= 1.0 - eta * beta
    return np.inf


def ordered_difference(a: FloatArray, b: FloatArray, k: int) -> float:
    """Return the k-th smallest (from 1) of all differences a_i − b_j."""
    return float(np.sort(np.subtract.outer(a, b), axis=None)[k - 1])


def median_difference(a: FloatArray, b: FloatArray) -> float:
    """Return the median of all differences a_i − b_j."""
    return float(np.median(np.subtract.outer(a, b)))


def influence(x: FloatArray, kappa: float) -> FloatArray:
    """Return ψ(x) = −log(1 − x + κx²) up to 1/(2κ), constant beyond, odd: Catoni's (2012) influence, bounded.

    Examples
    --------
    >>> influence(np.array([-0.5, 0.5, 3.0]), 0.5).round(4)
    array([-0.47  ,  0.47  ,  0.6931])
    """
    t = np.minimum(np.abs(x), 0.5 / kappa)
    return np.asarray(np.sign(x) * -np.log(1.0 - t + kappa * t * t))


def influence_sums(X: Array, centre: FloatArray, unit: FloatArray, kappa: float) -> npt.NDArray[np.int64]:
    """Return Σ ψ((x − centre)/unit) of every column in steps of 2⁻³²; NaN is no value.

    Fast kernels have another logarithm, so that a rounded ψ of theirs may differ from this one by a step.
    """
    steps = np.rint(influence((np.asarray(X, dtype=np.float64) - centre) / unit, kappa) * 2.0**32)
    return np.asarray(np.where(np.isnan(steps), 0.0, steps).astype(np.int64).sum(axis=0))


# Centres of one column.


class Centre(NamedTuple):
    """The centre of one column; an infinite error says that it is not to be used."""

    value: float
    error: float
    name: str


# The median of all averages of two rows: robust, and nearly as good as the best for most symmetric noises.

NAME = NAMES[0]


def pseudomedian(x: FloatArray) -> float:
    """Return the median of (x_i + x_j)/2 over all ordered pairs, a row with itself among them.

    Examples
    --------
    >>> pseudomedian(np.array([0.0, 1.0, 2.0, 3.0, 100.0]))
    2.0
    """
    up = np.sort(x)
    return 0.5 * centres.pair_median(*_with_itself(up), np.nan, np.nan)


def _with_itself(up: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the arrays whose differences are the sums of all ordered pairs of sorted values."""
    return up, -up[::-1], np.full((2, 1), up.size)


def hodges_lehmann(x: FloatArray) -> Centre:
    """Return the pseudomedian and its standard error.

    Its asymptotic variance is 1/(12 n (∫f²)²), small also where the noise has no mass at its centre, at which medians
    fail. The error is half the distance of the averages whose ranks lie one standard deviation of Wilcoxon's
    statistic, √(n(n+1)(2n+1)/24), to either side of the median (Lehmann 1963, Ann. Math. Stat. 34).
    """
    up = np.sort(x)
    n = up.size
    total = n * n  # ordered pairs: each average of two rows counts twice, each row once
    # Twice Wilcoxon's deviation for the same reason; rounded up, so that the error is not said to be too small.
    reach = math.ceil(2 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    low, high = (
        0.5 * centres.order_statistic(*_with_itself(up), min(max(rank, 1), total), np.nan, np.nan)[0]
        for rank in ((total + 1) // 2 - reach, total // 2 + 1 + reach)
    )
    return Centre(pseudomedian(x), 0.5 * high - 0.5 * low, NAME)


# Location and scale by the score of Student's t: the farther out a value, the less it counts.

TOLERANCE = 1e-9
"""In units of the scale: what is left after a step as small as this is far below any standard error."""
LIMIT = 3000
"""Iterations: each closes a share of the distance, and what has not settled then has a likelihood so flat, or with two
humps, that its centre is not to be used."""
COLLAPSED = 1e-6
"""In units of the first scale: a scale that falls below this falls to zero, as half of the values are equal."""
BEYOND = 1e50
"""In units of the first scale: values farther out count as lying there, where their weight is nothing already."""


def _t_name(dof: float) -> str:
    return f"Student t, {dof:g} d.f."


def student_t(x: FloatArray, *, dof: float, start: float, scale: float) -> Centre:
    """Return the maximum likelihood centre of t noise with ``dof`` degrees of freedom and unknown scale.

    Iterates weights (ν + 1)/(ν + r²), r the residual over the scale (Lange, Little and Taylor 1989, JASA 84). The
    standard error is the sandwich √E[ψ²] / (E[ψ′] √n), which holds whatever the noise is.

    Examples
    --------
    >>> round(student_t(np.array([-1.0, 0.0, 1.0, 2.0, 99.0]), dof=1, start=1.0, scale=1.0).value, 2)
    0.51
    """
    with np.errstate(over="ignore"):
        z = np.clip((x - start) / scale, -BEYOND, BEYOND)
    centre, error = _iterated(z, dof)
    return Centre(start + scale * centre, scale * error, _t_name(dof))


def _iterated(x: FloatArray, dof: float) -> tuple[float, float]:
    """Return centre and standard error from the start 0 with scale 1; an infinite error where that fails."""
    centre, spread = 0.0, 1.0
    for _ in range(LIMIT):
        r = (x - centre) / spread
        weight = (dof + 1) / (dof + r * r)
        moved = float(weight @ x / weight.sum())
        spread_now = math.sqrt(float(weight @ (x - moved) ** 2) / x.size)
        if spread_now < COLLAPSED:
            return moved, math.inf
        settled = max(abs(moved - centre), abs(spread_now - spread)) <= TOLERANCE * spread
        centre, spread = moved, spread_now
        if settled:
            return centre, _error((x - centre) / spread, dof) * spread
    return centre, math.inf


def _error(r: FloatArray, dof: float) -> float:
    psi = (dof + 1) * r / (dof + r * r)
    slope = float(np.mean((dof + 1) * (dof - r * r) / (dof + r * r) ** 2))
    return math.sqrt(float(np.mean(psi * psi)) / r.size) / slope if slope > 0 else math.inf


def candidates(x: FloatArray, start: float) -> list[Centre]:
    """Return the centres of one column that are compared; ``start`` is one that is good enough to see what is far.

    The first is Hodges–Lehmann, the others are the Student-t centres of ``DEGREES``.

    Examples
    --------
    >>> noise = np.random.default_rng(0).standard_cauchy(500)
    >>> [round(c.error, 3) for c in candidates(noise, 0.0)]
    [0.082, 0.068, 0.078]
    """
    if not x.size:
        return [Centre(start, np.inf, NOTHING)] * len(NAMES)
    away = np.abs(x - start)
    spread = GAUSSIAN * float(np.median(away))
    if x.size < FEWEST or spread == 0:
        return [hodges_lehmann(x)] * len(NAMES)
    inner = hodges_lehmann(x[away <= FAR * spread])
    return [inner, *(_near(x, inner, spread, dof) for dof in DEGREES)]


def _near(x: FloatArray, inner: Centre, spread: float, dof: float) -> Centre:
    """Return the Student-t centre, with an infinite error where it is too far from the Hodges–Lehmann estimate."""
    centre = student_t(x, dof=dof, start=inner.value, scale=spread)
    return centre if abs(centre.value - inner.value) <= NEAR * spread else centre._replace(error=np.inf)
