"""Means of one sample and of two groups, whatever the skew: evidence of influence sums, and intervals from them.

Of two groups sums are taken at one centre θ that both could have. With D(θ) = λ₁S₁(θ) − λ₂S₂(θ) and λ ≤ 1 it is
E exp D(μ) ≤ exp(λ₁v₁ + λ₂v₂) where both have the mean μ, as rows are independent and E exp λS ≤ (E exp S)^λ. Only θ is
not known: p is the largest over all θ. Far from the data D says nothing, but there either group speaks for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._evidence.ranks import Contrast
from sparsemean._evidence.signs import SlackEvidence
from sparsemean._evidence.worst_case import WorstCase
from sparsemean._kernels.influence import ERROR, GRID, largest_step
from sparsemean._stats.arrays import fillna, group_indices, medians, namespace
from sparsemean._stats.nulls import HALVINGS, InfluenceNull, bound, kappa_of, psi_max
from sparsemean._util.plans import BadRows, Plan, Side
from sparsemean._util.records import CountArray, FloatArray, IntArray, MeanDifferenceTest, MeanTest

SumsOf = Callable[[FloatArray], IntArray]
"""(k, columns) centres → Σψ about them, in steps of 2⁻³²."""
GroupSums = Callable[[IntArray, FloatArray], IntArray]
"""Numbers of some of the columns at hand, (k, columns) centres → Σψ of a group about them, in steps of 2⁻³²."""
CLOSE = 1e-9
"""Of a unit: how near ends of intervals and values are found."""
MOST_STEPS = 200
ALONE = 0.05
"""Of the error, which pays for what either group says alone."""
LOG_JOINT, LOG_ALONE = math.log(1.0 - 2.0 * ALONE), math.log(ALONE)
FILTER = 0.2
"""Where p is larger than this without a bad row, it is 1: it is not looked for where it is largest."""
PILOT = 101
"""Rows of each group that tell where a first look is taken."""
CELLS = 48
"""Pieces of the stretch between the roots of both sums."""
BEYOND = 0.25
"""Of that stretch, by which centres reach beyond it on either side."""
NODES = 97
"""Centres about each root from which intervals are found."""
DOUBLINGS = 8
"""Of the stretch in which the end of an interval is looked for; it is infinite beyond."""


def centres_of(plan: Plan, null: FloatArray | None) -> FloatArray:
    """Return where sums are taken, a row each: for the upper test and for the lower one, once where they agree."""
    about = np.zeros(plan.n_features) if null is None else null
    if not plan.question.min_effect:
        return about[np.newaxis]
    return np.stack([about + sign * plan.question.min_effect for sign in plan.question.side.signs])


def sum_evidence(plan: Plan, test: MeanTest, sums: IntArray) -> tuple[SlackEvidence, FloatArray]:
    """Return the evidence of sums at `centres_of`, and β = S/(nM) on the side that speaks louder."""
    xp = namespace(sums)
    upper, lower = sums[0] / GRID, sums[-1] / GRID
    both = xp.maximum(upper, -lower), xp.where(upper >= -lower, upper, lower)
    statistic, net = plan.question.side.pick(both, (upper, upper), (-lower, lower))
    null, move = InfluenceNull(test.bias, test.factor), psi_max(test.kappa)
    moved = 2 * move * (1 if test.rows is None else plan.n_units)  # a bad row that gave the scale can undo everything
    evidence = SlackEvidence(statistic[np.newaxis], (null,), (moved,), plan.n_units)
    return evidence, net / (test.n_units * move)


# Inversion: where the sum crosses the bounds, and where it is zero.


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


# Two groups.


def difference_test(
    scale: FloatArray,
    *,
    sizes: tuple[int, int],
    bad: BadRows,
    sides: float,
    error: float,
    of_level: float = 1.0,
    rows: IntArray | None = None,
) -> MeanDifferenceTest:
    """Fix κ, the weights and the units for tests at ``error`` of groups with standard deviations up to ``scale``.

    With slope s = λna, alike in both groups so that D hardly depends on θ, the half width of an interval is
    (κs²V + L + 2M·Σλm)/s for V = Σσ²/(λn): s = √((L + 2M·Σλm)/(κV)) makes it shortest. ``of_level`` is what is left of
    the level for the tests. A scale of zero, or an infinite one, stands for a feature that is not tested.
    """
    factor = sides / of_level
    log_odds = math.log(factor / error) - LOG_JOINT
    kappa, weights = _tuned(log_odds, sizes, bad)
    n, weight = np.array(sizes, dtype=np.float64)[:, np.newaxis], np.array(weights)[:, np.newaxis]
    total = log_odds + 2 * psi_max(kappa) * weighted(bad, weights)
    tested = ((scale > 0) & np.isfinite(scale)).all(axis=0)
    sigma = np.where(tested, scale, 1.0)
    slope = np.sqrt(total / (kappa * np.sum(sigma**2 / (weight * n), axis=0)))
    unit = weight * n / slope
    bias = kappa * n * (sigma / unit) ** 2 + n * ERROR
    return MeanDifferenceTest(
        kappa=kappa, weights=weights, sizes=sizes, factor=factor, unit=np.where(tested, unit, np.inf), bias=bias,
        rows=rows,
    )  # fmt: skip


def _tuned(log_odds: float, sizes: tuple[int, int], bad: BadRows) -> tuple[float, tuple[float, float]]:
    """Return κ and weights that make (1/(λ₁n₁) + 1/(λ₂n₂))·κ·(L + 2M·(λ₁m₁ + λ₂m₂)) small, one weight being 1.

    With λ₁ = 1 it is smallest at λ₂² = (n₁/n₂)·(L + 2Mm₁)/(2Mm₂). Without bad rows both are 1; bad rows of a group that
    is much the larger one would count as much as those of the other otherwise. κ and λ are found in turn.
    """
    weights = (1.0, 1.0)
    for _ in range(4):
        kappa = kappa_of(log_odds, weighted(bad, weights))
        moved = [2 * psi_max(kappa) * m for m in (bad.label, bad.reference)]
        options = []
        for whole in (0, 1):
            other, found = 1 - whole, [1.0, 1.0]
            if moved[other]:
                ratio = sizes[whole] / sizes[other] * (log_odds + moved[whole]) / moved[other]
                found[other] = min(1.0, math.sqrt(ratio))
            variance = sum(1 / (w * n) for w, n in zip(found, sizes, strict=True))
            options.append((variance * (log_odds + sum(w * m for w, m in zip(found, moved, strict=True))), found))
        first, second = min(options)[1]
        weights = (first, second)
    return kappa, weights


def weighted(bad: BadRows, weights: Sequence[float]) -> float:
    """Return λ₁m₁ + λ₂m₂, of the label and of the reference."""
    label, reference = weights
    return label * bad.label + reference * bad.reference


class Slack(NamedTuple):
    """By how much bad rows may have moved D and either sum."""

    joint: float
    alone: tuple[float, float]


def slack_of_sums(test: MeanDifferenceTest, bad: BadRows, more: int = 0) -> Slack:
    """Return what so many bad rows, and ``more`` of either group, move at most."""
    move = 2 * psi_max(test.kappa)
    joint = weighted(bad, test.weights) + more * max(test.weights)
    return Slack(move * joint, (move * (bad.label + more), move * (bad.reference + more)))


class SumBounds(NamedTuple):
    """What sums of some features reach by themselves, what bad rows and what either group says alone add, and bends."""

    weights: tuple[float, ...]
    joint: FloatArray
    """What D is held against."""
    alone: FloatArray
    """(2, features): what either sum is."""
    bends: FloatArray
    """(2, features): what |S″| is at most: |ψ″| ≤ 8κ²/(4κ − 1), reached where ψ becomes constant."""

    @classmethod
    def of(cls, test: MeanDifferenceTest, slack: Slack, features: IntArray | slice = slice(None)) -> SumBounds:
        """Return them at some slack."""
        bias, steepest = test.bias[:, features], 8 * test.kappa**2 / (4 * test.kappa - 1)
        return cls(
            test.weights,
            np.tensordot(np.array(test.weights), bias, 1) + slack.joint - LOG_JOINT,
            bias + np.array(slack.alone)[:, np.newaxis] - LOG_ALONE,
            steepest * np.array(test.sizes)[:, np.newaxis] / test.unit[:, features] ** 2,
        )


# What sums say where the label's mean is the larger one; the other side is the same of −x.


def _loudest(joint: FloatArray, first: FloatArray, second: FloatArray, bounds: SumBounds) -> FloatArray:
    """Return −log p but for the factor, from D, S₁ and −S₂ at some centres: (features, …)."""
    shape = (-1,) + (1,) * (joint.ndim - 1)
    both, one, other = (each.reshape(shape) for each in (bounds.joint, *bounds.alone))
    return np.asarray(np.maximum(joint - both, np.maximum(first - one, second - other)))


def least_evidence(first: FloatArray, second: FloatArray, step: FloatArray, bounds: SumBounds) -> FloatArray:
    """Return the least that sums say at any centre, given S₁ and S₂ at evenly spaced rising ones: (features, centres).

    S₁ may be too small and S₂ too large. Both fall: within a cell S₁ is no smaller than at its right end, S₂ no larger
    than at its left one. D is no smaller there than at both ends, less h²/8 times its largest second derivative.
    """
    (one, other), bends = bounds.weights, bounds.bends
    at_ends = one * first - other * second
    with np.errstate(over="ignore"):  # no evidence where cells are so wide
        bend = (one * bends[0] + other * bends[1]) * step**2 / 8
    joint = np.maximum(
        one * first[:, 1:] - other * second[:, :-1],
        np.minimum(at_ends[:, 1:], at_ends[:, :-1]) - bend[:, np.newaxis],
    )
    inside = _loudest(joint, first[:, 1:], -second[:, :-1], bounds).min(axis=1)
    # Left of all centres the label is further above its own root, right of them the reference is further below.
    outside = np.minimum(first[:, 0] - bounds.alone[0], -second[:, -1] - bounds.alone[1])
    return np.asarray(np.minimum(inside, outside))


# p-values: a first look at every feature, then one from root to root at few.


@dataclass(frozen=True, slots=True, eq=False)
class MeanContrast:
    """One test of every feature: sums along centres of those that a first look left, turned so that the label is up."""

    contrast: Contrast
    mean_test: MeanDifferenceTest
    strength: FloatArray
    """D/(M·Σλn) at the first look, of every feature."""
    missing: CountArray
    """Values that are missing among the rows that are added up."""
    features: IntArray
    """Those looked at, rising; p of all others is 1."""
    first: FloatArray = field(repr=False)
    second: FloatArray = field(repr=False)
    step: FloatArray = field(repr=False)
    constant: ClassVar[IntArray] = np.empty(0, dtype=np.intp)
    """None is told of: one that does not vary has no scale. Sums are tested alike, however many rows are bad."""
    clean: ClassVar[None] = None
    nearest: ClassVar[IntArray] = np.zeros(1, dtype=np.intp)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.strength.size)

    def by_class(self, max_replaced: int) -> tuple[MeanContrast, IntArray]:  # noqa: ARG002
        """Return the same: every feature is a class of its own."""
        return self, np.arange(self.n_features)

    def log_p(self, case: WorstCase, features: IntArray | None = None, *, n_threads: int = 1) -> FloatArray:  # noqa: ARG002
        """Return log p of ``features``, all by default."""
        at = np.arange(self.n_features) if features is None else features
        out = np.zeros(at.size)
        every = case.of(at.size)
        numbers, which = np.unique((*every.bad, every.more), axis=1, return_inverse=True)
        for k, same in group_indices(which.reshape(-1)):
            reference, label, more = numbers[:, k].tolist()
            if self.mean_test.rows is not None and reference + label + more:
                continue  # a bad row among those that gave the scale can undo everything
            looked = same[np.isin(at[same], self.features)]
            place = np.searchsorted(self.features, at[looked])
            slack = slack_of_sums(self.mean_test, BadRows(reference, label), more)
            bounds = SumBounds.of(self.mean_test, slack, at[looked])
            least = least_evidence(self.first[place], self.second[place], self.step[place], bounds)
            out[looked] = np.minimum(0.0, math.log(self.mean_test.factor) - np.maximum(least, 0.0))
        return out


class Look(NamedTuple):
    """What some columns say: see `MeanContrast`."""

    strength: FloatArray
    features: IntArray
    first: FloatArray
    second: FloatArray
    step: FloatArray


class GroupColumns(NamedTuple):
    """Some columns of the rows of the label and of the reference, and how they are tested."""

    values: tuple[FloatArray, FloatArray]
    columns: IntArray
    """Which ones of the table."""
    sums_of: tuple[GroupSums, GroupSums]
    """The sums of either group, of some of the columns, about centres."""
    test: MeanDifferenceTest

    def roots(self, some: IntArray) -> FloatArray:
        """Return where the sums of either group are zero, of ``some`` of the columns."""
        unit, kappa = self.test.unit[:, self.columns[some]], self.test.kappa
        parts = zip(self.values, unit, self.sums_of, strict=True)
        return np.stack([root_of(part[:, some], own, partial(sums, some), kappa) for part, own, sums in parts])


def look(groups: GroupColumns, *, side: Side, min_effect: float) -> Look:
    """Look at columns once, and from root to root at those that may differ."""
    values, columns, sums_of, test = groups
    signs = side.signs
    middles = [fillna(medians(rows[:PILOT]), 0.0) for rows in values]
    about = 0.5 * middles[0] + 0.5 * middles[1]
    every, clean = np.arange(columns.size), SumBounds.of(test, slack_of_sums(test, BadRows(0, 0)), columns)
    second = sums_of[1](every, about[np.newaxis])[0] / GRID
    said, joints = [], []
    shifts = dict.fromkeys(sign * min_effect for sign in signs)  # one where nothing is too small to matter
    sums = sums_of[0](every, np.stack([about + shift for shift in shifts])) / GRID
    for sign, first in zip(signs, (sums[0], sums[-1]), strict=False):
        joints.append(sign * (test.weights[0] * first - test.weights[1] * second))
        said.append(_loudest(joints[-1], sign * first, -sign * second, clean))
    net = np.where(joints[0] >= joints[-1], signs[0] * joints[0], signs[-1] * joints[-1])
    beta = net / (psi_max(test.kappa) * sum(w * n for w, n in zip(test.weights, test.sizes, strict=True)))
    tested = np.isfinite(test.unit[0, columns])
    alive = np.flatnonzero((np.max(said, axis=0) >= math.log(test.factor / FILTER)) & tested)
    roots = groups.roots(alive)
    with np.errstate(over="ignore"):
        apart = roots[0] - roots[1]
    sign_of = np.where(apart >= 0, 1.0, -1.0) if len(signs) == 2 else np.full(alive.size, float(signs[0]))
    within = sign_of * apart < np.finfo(np.float64).max / 4  # what lies farther apart cannot be gone through
    further = np.flatnonzero((sign_of * apart > min_effect) & within)  # p of others is 1
    alive, sign_of, width = alive[further], sign_of[further], (sign_of * apart - min_effect)[further]
    step = (1 + 2 * BEYOND) * width / CELLS
    start = sign_of * roots[1][further] - BEYOND * width
    centres = sign_of * (start + step * np.arange(CELLS + 1)[:, np.newaxis])
    first = sign_of * sums_of[0](alive, centres + sign_of * min_effect) / GRID
    second = sign_of * sums_of[1](alive, centres) / GRID
    return Look(beta, columns[alive], first.T, second.T, step)


# Estimates and intervals: the label is moved by δ until no centre fits both groups any more.


def invert_difference(groups: GroupColumns, *, error: float, bad: BadRows, side: Side) -> FloatArray:
    """Return the difference of the roots, the low end and the high end of the interval of columns, a row each.

    An end is infinite where as many rows as there are cannot tell, and where no one asked for it.
    """
    _, columns, sums_of, test = groups
    out = np.repeat([[np.nan], [-np.inf], [np.inf]], columns.size, axis=1)
    some = np.flatnonzero(np.isfinite(test.unit[0, columns]))
    roots = groups.roots(some)
    out[0, some] = roots[0] - roots[1]
    slack, goal = slack_of_sums(test, bad), math.log(test.factor / error)
    slope = test.weights[0] * test.sizes[0] / test.unit[0, columns[some]]
    both = SumBounds.of(test, slack, columns[some]).joint + goal
    reach, left = 1.5 * both / slope, np.flatnonzero(~np.isnan(out[0, some]))
    for _ in range(DOUBLINGS):
        step = 2 * reach[left] / (NODES - 1)
        grid = -reach[left] + step * np.arange(NODES)[:, np.newaxis]
        first, second = (
            sums(some[left], root + grid).T / GRID for sums, root in zip(sums_of, roots[:, left], strict=True)
        )
        bounds = SumBounds.of(test, slack, columns[some[left]])
        least = partial(least_evidence, step=step, bounds=bounds)
        bend = (bounds.bends[0] * step**2)[:, np.newaxis]
        to_reject = partial(_cells_to_reject, bend=bend, least=least, goal=goal)
        below, above = to_reject(first, second), to_reject(-first[:, ::-1], -second[:, ::-1])
        middle = out[0, some[left]]
        out[1, some[left]], out[2, some[left]] = middle - below * step, middle + above * step
        left = left[np.isinf(below) | np.isinf(above)]
        if not left.size:
            break
        reach[left] *= 2
    out[1:] = side.interval(*out[1:])
    return out


def _cells_to_reject(
    first: FloatArray, second: FloatArray, *, bend: FloatArray, least: Callable[..., FloatArray], goal: float
) -> FloatArray:
    """Return by how many steps the label must be moved up, at most, before it is larger; infinite where none suffices.

    Both sums are given at steps about their roots; S₁ bends by ``bend`` within one. ``least`` is what they say then.
    """
    numbers = np.arange(NODES)

    def rejected(moved: FloatArray) -> npt.NDArray[np.bool_]:
        whole = np.ceil(moved)
        share = (whole - moved)[:, np.newaxis]
        at = numbers - whole[:, np.newaxis].astype(np.intp)
        near, far = (np.take_along_axis(first, np.maximum(at + k, 0), axis=1) for k in (0, 1))
        return np.asarray(least(least_between(near, far, share, bend), second) >= goal)

    low, high = np.zeros(bend.size), np.full(bend.size, NODES - 1.0)
    possible = rejected(high)
    for _ in range(HALVINGS // 2):
        middle = 0.5 * (low + high)
        enough = rejected(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(possible, high, np.inf)


def least_between(near: FloatArray, far: FloatArray, share: FloatArray, bend: FloatArray) -> FloatArray:
    """Return what S₁ is at least at a share of the way from one centre to the next: it falls, and bends by ``bend``.

    So it is no smaller than at the next one, and than on the straight line less what it can bend.
    """
    straight = (1 - share) * near + share * far - 0.5 * share * (1 - share) * bend
    return np.asarray(np.maximum(far, straight))
