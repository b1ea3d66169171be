"""The mean itself, whatever the skew: sums of a bounded influence, what they prove, and intervals from them.

For κ ≥ ½ it is exp ψ(x) ≤ 1 + x + κx² for every x. So E exp Σψ(a(xᵢ − μ)) ≤ exp(nκa²σ²) where no row has a variance
beyond σ², and Σψ exceeds nκa²σ² + L with probability e^−L at most. A replaced row moves the sum by 2·max ψ at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.influence import ERROR, GRID, largest_step
from sparsemean._stats.arrays import map_unique, namespace, on_device
from sparsemean._stats.sign_evidence import SlackEvidence
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray, MeanTest

KURTOSIS = 20.0
"""E(x − μ)⁴/σ⁴ that a feature has at most: an assumption, made only where the scale is taken from data."""
SCALE_SHARE = 0.1
"""Of the level, which pays for a scale that was taken from data and is too small."""
FEWEST_ROWS = 50
"""Rows of earlier data below which no scale is taken from them."""
HALVINGS = 60


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceNull:
    """A sum of bounded influences: p = factor·exp(−(statistic − bias)), 1 at most; the same for every feature.

    The statistic is a multiple of 2⁻³².
    """

    bias: float
    factor: float

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
    variance = log_odds + 2 * plan.bad_rows * most(kappa)
    unit = scale * math.sqrt(n * kappa / variance)
    return MeanTest(
        kappa=kappa, bias=variance + n * ERROR, factor=factor, n_units=n,
        unit=np.where(scale > 0, unit, np.inf), rows=rows,
    )  # fmt: skip


def most(kappa: float) -> float:
    """Return the largest influence that a value can have, on the grid: log(4κ/(4κ − 1))."""
    return largest_step(kappa) / GRID


def centres_of(plan: Plan, null: FloatArray | None) -> FloatArray:
    """Return where sums are taken, a row each: for the upper test and for the lower one, once where they agree."""
    about = np.zeros(plan.n_features) if null is None else null
    if not plan.question.min_effect:
        return about[np.newaxis]
    return np.stack([about + sign * plan.question.min_effect for sign in plan.question.side.signs])


def evidence_of(plan: Plan, test: MeanTest, sums: IntArray) -> tuple[SlackEvidence, FloatArray]:
    """Return the evidence of sums at `centres_of`, and β = S/(nM) on the side that speaks louder."""
    xp = namespace(sums)
    upper, lower = sums[0] / GRID, sums[-1] / GRID
    both = xp.maximum(upper, -lower), xp.where(upper >= -lower, upper, lower)
    statistic, net = plan.question.side.pick(both, (upper, upper), (-lower, lower))
    null, move = InfluenceNull(test.bias, test.factor), most(test.kappa)
    # A bad row among those that gave the scale can undo everything.
    moved = 2 * move * (1 if test.rows is None else plan.n_units)
    evidence = SlackEvidence(statistic[np.newaxis], (null,), (moved,), plan.n_units)
    return evidence, net / (test.n_units * move)


def rows_to_reject(plan: Plan, test: MeanTest) -> int:
    """Return how many rows are needed before anything at all can be selected: what every one says, ψ = M, must do."""
    move, share = most(test.kappa), plan.bad_rows / plan.n_units
    log_odds = math.log(test.factor * plan.n_hypotheses / plan.question.level)
    return math.ceil(2 * log_odds / (move * (1 - 4 * share))) if share < 0.25 else -1


# Inversion: where the sum crosses the bounds, and where it is zero.

SumsOf = Callable[[FloatArray], IntArray]
"""(k, columns) centres → Σψ about them, in steps of 2⁻³²."""
CLOSE = 1e-9
"""Of a unit: how near ends of intervals and values are found."""
MOST_STEPS = 200


def bound(test: MeanTest, error: float, bad_rows: int) -> float:
    """Return what |S| must reach for a centre to be refused at ``error``, shared between as many sides as count."""
    return test.bias + 2 * bad_rows * most(test.kappa) + math.log(test.factor / error)


def invert(
    values: FloatArray, unit: FloatArray, sums_of: SumsOf, *, test: MeanTest, error: float, plan: Plan
) -> FloatArray:
    """Return the root of S, the low end and the high end of the interval of every column of ``values``, a row each.

    S falls as its centre rises. The ends lie outside of where it crosses the bound, by less than ``CLOSE`` units, and
    are infinite where as many values as there are cannot reach it. A column without any value has NaN as its root.
    """
    limit = bound(test, error, plan.bad_rows)
    reached, low, high = _solved(values, np.array([0.0, limit, -limit]), unit, sums_of, test.kappa)
    out = np.stack((0.5 * low[0] + 0.5 * high[0], low[1], high[2]))
    out = np.where(reached, out, np.array([[np.nan], [-np.inf], [np.inf]]))
    out[1:] = plan.question.side.interval(*out[1:])
    return out


def root_of(values: FloatArray, unit: FloatArray, sums_of: SumsOf, kappa: float) -> FloatArray:
    """Return where the sum of every column of ``values`` is zero, NaN for one without any value."""
    there, low, high = _solved(values, np.zeros(1), unit, sums_of, kappa)
    return np.asarray(np.where(there, 0.5 * low + 0.5 * high, np.nan)[0])


def _solved(
    values: FloatArray, targets: FloatArray, unit: FloatArray, sums_of: SumsOf, kappa: float
) -> tuple[npt.NDArray[np.bool_], FloatArray, FloatArray]:
    """Return where sums can reach each of ``targets``, and between which centres they do: (targets, columns)."""
    steps = targets * GRID
    low, high = _bracket(np.sort(values, axis=0), steps, unit, kappa)
    reached = np.isfinite(low)
    low, high = np.where(reached, low, 0.0), np.where(reached, high, 0.0)
    return reached, *_crossing(sums_of, steps[:, np.newaxis], low, high, tolerance=CLOSE * unit)


def _bracket(ordered: FloatArray, targets: FloatArray, unit: FloatArray, kappa: float) -> tuple[FloatArray, FloatArray]:
    """Return where S is at least, and at most, each of ``targets``: (targets, columns), infinite where it never is.

    With w = unit/(2κ) beyond which ψ is constant, k values at θ + w or above make S(θ) ≥ (2k − n)M, and k values at
    θ − w or below make it ≤ (n − 2k)M, whatever the others are: order statistics tell, and far values do not matter.
    """
    n, columns = np.sum(~np.isnan(ordered), axis=0), np.arange(ordered.shape[1])
    reach, share = 0.5 * unit / kappa, targets[:, np.newaxis] / largest_step(kappa)
    above, below = np.ceil(0.5 * (n + share)), np.ceil(0.5 * (n - share))
    possible = (np.maximum(above, below) <= n) & (np.minimum(above, below) >= 0) & (n > 0)
    # k = 0 asks for no value at all: any centre beyond all of them does.
    at_low = np.clip(n - above, 0, np.maximum(n - 1, 0)).astype(np.intp)
    at_high = np.clip(below - 1, 0, np.maximum(n - 1, 0)).astype(np.intp)
    first, last = ordered[at_low, columns], ordered[at_high, columns]
    # A unit below the spacing of doubles must not vanish: then the next one is far enough.
    with np.errstate(over="ignore"):
        low = np.minimum(first - 2 * reach, np.nextafter(first, -np.inf))
        high = np.maximum(last + 2 * reach, np.nextafter(last, np.inf))
    possible &= np.isfinite(low) & np.isfinite(high)  # not at the largest double
    return np.where(possible, low, -np.inf), np.where(possible, high, np.inf)


def _crossing(
    sums_of: SumsOf, targets: FloatArray, low: FloatArray, high: FloatArray, *, tolerance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Close in on where the sums cross ``targets``, from ``low`` where they are not below to ``high``, not above.

    False position with the Illinois rule, and halving in every third step: S is nearly straight where it matters, and
    where it is not halving is fast enough.
    """
    at_low, at_high = sums_of(low) - targets, sums_of(high) - targets
    side = np.zeros(low.shape)
    for step in range(MOST_STEPS):
        width = high - low
        open_ = (width > tolerance) & (np.nextafter(low, high) < high)
        if not open_.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            share = at_low / (at_low - at_high)
        share = np.where(np.isfinite(share) & (step % 3 < 2), share, 0.5)
        inner = np.clip(low + share * width, low + 0.4 * tolerance, high - 0.4 * tolerance)
        value = sums_of(inner) - targets
        up = value >= 0
        at_high = np.where(up & (side > 0), 0.5 * at_high, at_high)
        at_low = np.where(~up & (side < 0), 0.5 * at_low, at_low)
        low, at_low = np.where(open_ & up, inner, low), np.where(open_ & up, value, at_low)
        high, at_high = np.where(open_ & ~up, inner, high), np.where(open_ & ~up, value, at_high)
        side = np.where(up, 1.0, -1.0)
    return low, high


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
