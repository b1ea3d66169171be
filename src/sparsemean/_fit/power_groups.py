"""What two groups of so many rows can show: whether anything, which shift, how many rows it needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparsemean._stats.nulls import critical_rank
from sparsemean._stats.planning import (
    MIN_ROWS,
    WITHOUT_BUCKETS,
    ask,
    bad_rows,
    check_share,
    check_shares,
)
from sparsemean._util.checks import integer, real
from sparsemean._util.plans import BadRows, GroupSizes, Plan, PowerAnalysis
from sparsemean.errors import InputError

MOST_ROWS = 4_000_000
"""Where the search for the rows that an effect needs ends: beyond, it is said to be out of reach."""
NEVER = 0.001
"""Probabilities below it are not written out."""
MOST = 10**15
MOST_OF_GROUP = 10**9
"""Rows and features beyond which probabilities of counts are no longer exact in floating point."""


def written(chance: float) -> str:
    """Return a probability in words."""
    return f"{chance:.2g}" if chance >= NEVER else f"below {NEVER:g}"


def groups_possible(plan: Plan, unit: str = "row") -> list[str]:
    """Refuse groups too small for any test, and say so where nothing could be certified at this contamination."""
    assert plan.sizes is not None
    n0, n1 = plan.sizes.reference, plan.sizes.label
    sides = plan.question.side.number
    smallest, threshold = smallest_p(n0, n1, sides), plan.question.level / plan.n_hypotheses
    if smallest > plan.question.level and plan.n_tests == plan.n_strata == 1:
        rule, received = f"be large enough for a test at level {plan.question.level:g}", f"{n1} and {n0} {unit}s"
        raise InputError(
            "groups", rule, received, f"their smallest possible p-value is {smallest:.2g}: give more {unit}s"
        )
    if smallest > threshold:
        numbers = f"{smallest:.2g}, is above what is needed, {threshold:.2g}"
        return [f"nothing can be certified: the smallest possible p-value, {numbers}; more {unit}s would help"]
    if plan.n_strata > 1:
        return []
    limit = survivable_share(plan.sizes, threshold / sides)
    if plan.bad.reference <= bad_rows(n0, limit) and plan.bad.label <= bad_rows(n1, limit):
        return []
    return [
        f"nothing can be certified: with {plan.bad.label} and {plan.bad.reference} bad {unit}s among {n1} and "
        f"{n0} even groups that do not overlap could be false; at most {limit:.2%} of each group can be survived"
    ]


def survivable_share(sizes: GroupSizes, error: float) -> float:
    """Return the largest share of bad rows of each of two groups at which groups that do not overlap are selected."""
    n0, n1 = sizes.reference, sizes.label
    critical = critical_rank((n1,), (n0,), error)
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = (n1 - bad_rows(n1, middle)) * (n0 - bad_rows(n0, middle)) >= critical
        low, high = (middle, high) if enough else (low, middle)
    return max(int(low * n + 1e-6) / n for n in sizes)


def smallest_p(n0: int, n1: int, sides: int) -> float:
    """Return 2/C(n₀ + n₁, n₀), the p-value of groups that do not overlap; half of it for one side."""
    return sides * math.exp(math.lgamma(n0 + 1) + math.lgamma(n1 + 1) - math.lgamma(n0 + n1 + 1))


def fewest(suffices: Callable[[int], bool]) -> int:
    """Return the smallest number of rows that suffices, to within 1 %; 0 if none that can be planned for does."""
    low = high = MIN_ROWS
    while not suffices(high):
        low, high = high, 2 * high
        if high > MOST_ROWS:
            return 0
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def plan_groups(
    sizes: Any,
    d: int,
    *,
    contamination: Any,
    level: Any,
    power: Any,
    effect: float | None = None,
    alternative: Any = "two-sided",
) -> Plan:
    """Say what can be found between a reference and a label of so many rows each."""
    if len(sizes) != 2:
        raise InputError("n", "be a number of rows, or those of two groups", repr(sizes))
    rule = f"be numbers of rows from 2 to {MOST_OF_GROUP:,}"
    n0, n1 = (integer(size, argument="n", least=2, most=MOST_OF_GROUP, rule=rule) for size in sizes)
    integer(d, argument="d", least=1, most=MOST, rule="be a positive integer")
    power, shares = check_share("power", power), check_shares(contamination)
    if effect is not None and real(effect, argument="effect", rule="be a positive number") <= 0:
        raise InputError("effect", "be a positive number", effect)
    groups = GroupSizes(n0, n1)
    bad = BadRows(bad_rows(n0, shares.reference), bad_rows(n1, shares.label))
    made = Plan(
        ask(contamination=contamination, level=level, alternative=alternative), WITHOUT_BUCKETS,
        n_rows=groups.total, n_features=int(d), n_units=groups.total, contamination=max(shares), bad_rows=bad.total,
        sizes=groups, bad_by_group=bad,
    )  # fmt: skip
    error = made.question.level / d / made.question.side.number
    if impossible := groups_possible(made):
        if smallest_p(n0, n1, 1) > error:
            raise InputError("n", "be large enough", f"{n0} and {n1} rows", impossible[0])
        raise InputError("contamination", "leave enough rows", contamination, impossible[0])
    asked, good = _asked(groups, shares, error)
    found, opposed = (_shift(voting, asked, power) for voting in (groups, good))
    limit = survivable_share(groups, error)
    needed = None if effect is None else _groups_needed(made, shares, effect, power)
    row = {"reference": n0, "label": n1, "effect": found, "effect_opposed": opposed, "auc": _auc(found)[0]}
    left = _chance(found, good, asked)
    text = _groups_text(made, row, limit, needed, effect, power, left)
    outlook = PowerAnalysis(found, limit, needed, effect, power, (row,), (), text)
    return replace(made, outlook=outlook)


def _auc(shift: float) -> tuple[float, float]:
    """Return P(X > Y) for normal X and Y a ``shift`` apart, and P(X > Y and X > Y')."""
    from scipy.special import ndtr, roots_hermitenorm

    nodes, weights = roots_hermitenorm(80)
    at = ndtr(nodes + shift)
    return float(weights @ at / weights.sum()), float(weights @ at**2 / weights.sum())


def _asked(sizes: tuple[int, ...], shares: tuple[float, float], error: float) -> tuple[int, tuple[int, int]]:
    """Return what U must reach, slack included, and the rows of each group that are not bad."""
    n0, n1 = sizes
    b0, b1 = (bad_rows(n, share) for n, share in zip(sizes, shares, strict=True))
    return critical_rank((n1,), (n0,), error) + b1 * n0 + b0 * n1 - b0 * b1, (n0 - b0, n1 - b1)


def _chance(shift: float, voting: tuple[int, ...], asked: int) -> float:
    """Return the probability with which so many rows of normal noise, a shift apart, reach what is asked of U."""
    from scipy.special import ndtr

    auc, twice = _auc(shift)
    pairs = voting[0] * voting[1]
    variance = pairs * (auc * (1 - auc) + (sum(voting) - 2) * (twice - auc * auc))
    return float(ndtr((pairs * auc - asked) / math.sqrt(max(variance, 1e-24))))


def _shift(voting: tuple[int, ...], asked: int, power: float) -> float:
    """Return the shift, in σ of normal noise, that two groups show with ``power``; infinite if none."""
    low, high = 0.0, 50.0
    if _chance(high, voting, asked) < power:
        return math.inf
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _chance(middle, voting, asked) >= power else (middle, high)
    return high


def _groups_needed(made: Plan, shares: tuple[float, float], effect: float, power: float) -> int:
    """Return the rows in all, to within 1 %, at which ``effect`` is found between groups of the same ratio; 0: none."""
    sides = made.question.side.number
    assert made.sizes is not None
    share, error = made.sizes.reference / made.sizes.total, made.question.level / made.n_features / sides

    def suffices(n: int) -> bool:
        first = min(max(2, round(share * n)), n - 2)
        return _chance(effect, (first, n - first), _asked((first, n - first), shares, error)[0]) >= power

    return fewest(suffices)


def _groups_text(
    made: Plan, row: dict[str, float], limit: float, needed: int | None, effect: float | None, power: float, left: float
) -> str:
    assert made.sizes is not None
    n0, n1, b0, b1 = made.sizes.reference, made.sizes.label, made.bad.reference, made.bad.label
    sentences = [
        f"With {n1:,} rows of a label against {n0:,} of its reference and {made.n_features:,} features, {b1} and {b0} "
        f"rows of which may be bad, a shift of {row['effect']:.3g} standard deviations is found with probability "
        f"{power:g} (normal noise; {row['auc']:.0%} of pairs above), at a family-wise error of {made.level:g}.",
        *([] if not b0 + b1 else [_opposed(row["effect_opposed"], power, left)]),
        f"Groups that do not overlap survive {limit:.1%} bad rows of each.",
    ]
    if needed is not None:
        rows = f"{needed:,} rows in all" if needed else "more rows than can be planned for"
        sentences.append(f"A shift of {effect:g} takes {rows}, in the same ratio.")
    return " ".join(sentences)


def _opposed(shift: float, power: float, left: float) -> str:
    """Say what is left of the power where bad rows do more than stay silent."""
    takes = f"{power:g} takes one of {shift:.3g}" if math.isfinite(shift) else f"no shift is found with {power:g}"
    return f"If all bad rows vote against it, such a shift is found with probability {written(left)}, and {takes}."
