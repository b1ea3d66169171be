"""What n rows of d features can show: detectable effects, power, the rows that are needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from sparsemean._fit.theorems import numbers
from sparsemean._stats.nulls import two_sided
from sparsemean._stats.planning import (
    MIN_ROWS,
    bad_rows,
    check_level,
    check_share,
    check_shares,
    groups_plan,
    plan_fit,
)
from sparsemean._stats.rank_evidence import critical_rank
from sparsemean._stats.selection import harmonic
from sparsemean._util.checks import integer, real
from sparsemean._util.records import Plan, PowerAnalysis
from sparsemean.errors import InputError

# What is beyond reach at n, d and ε, whatever the data are.


def n_tests(plan: Plan) -> float:
    """Return by how much the level is divided for the most significant feature, were all features alike."""
    sizes = len(plan.bucket_sizes)
    if plan.selection == "fdr":
        return sizes
    if plan.selection == "fdr_by":
        return sizes * harmonic(plan.n_features)
    return sizes * plan.n_features


@lru_cache(maxsize=4096)
def critical(n_buckets: int, tests: float, level: float) -> int:
    """Return the smallest majority k among J buckets with p ≤ level/tests, by halving; J + 1 if there is none."""
    low, high = 0, n_buckets + 1
    while low < high:
        middle = (low + high) // 2
        passes = two_sided(np.array([middle]), np.array([n_buckets]))[0] <= level / tests
        low, high = (low, middle) if passes else (middle + 1, high)
    return low


def majority(plan: Plan, size: int) -> tuple[int, int]:
    """Return the number of buckets and the majority of one sign that selects a feature, slack included."""
    J = plan.n_buckets or -(-plan.n_units // size)
    return J, critical(J, n_tests(plan), plan.level) + plan.bad_rows


def survivable_rows(plan: Plan) -> int:
    """Return the largest number of bad rows at which some size can still select a feature; negative if none can."""
    return max(J - (k - plan.bad_rows) for J, k in (majority(plan, size) for size in plan.bucket_sizes))


def rows_for_any(plan: Plan) -> int:
    """Return the number of rows from which a unanimous feature can be selected without bad rows."""
    return math.ceil(1 + math.log2(n_tests(plan) / plan.level)) * min(plan.bucket_sizes)


def nothing_possible(plan: Plan) -> list[str]:
    """Say so where no feature could be selected, however clear, and what would help."""
    limit = survivable_rows(plan)
    if limit >= plan.bad_rows:
        return []
    if limit < 0:
        return [
            f"nothing can be certified: {plan.n_units} rows are too few for {plan.n_features} features at level "
            f"{plan.level:g}; at least {rows_for_any(plan)} are needed"
        ]
    return [
        f"nothing can be certified: with {plan.bad_rows} bad rows among {plan.n_units} even a feature on which all "
        f"others agree could be false; at most {limit} bad rows (contamination {limit / plan.n_units:.4g}) can be "
        "survived, more rows or fewer features would help"
    ]


def groups_possible(plan: Plan) -> list[str]:
    """Refuse groups too small for any test, and say so where nothing could be certified at this contamination."""
    n0, n1 = plan.sizes
    sides = 2 if plan.alternative == "two-sided" else 1
    smallest, threshold = _smallest_p(n0, n1, sides), plan.level / plan.n_hypotheses
    if smallest > plan.level and plan.n_tests == plan.n_strata == 1:
        rule, received = f"be large enough for a test at level {plan.level:g}", f"{n1} and {n0} rows"
        raise InputError("groups", rule, received, f"their smallest possible p-value is {smallest:.2g}: give more rows")
    if smallest > threshold:
        numbers = f"{smallest:.2g}, is above what is needed, {threshold:.2g}"
        return [f"nothing can be certified: the smallest possible p-value, {numbers}; more rows would help"]
    if plan.n_strata > 1:
        return []
    limit = survivable_share(plan.sizes, threshold / sides)
    if all(bad <= bad_rows(n, limit) for bad, n in zip(plan.bad_by_group, plan.sizes, strict=True)):
        return []
    return [
        f"nothing can be certified: with {plan.bad_by_group[1]} and {plan.bad_by_group[0]} bad rows among {n1} and "
        f"{n0} even groups that do not overlap could be false; at most {limit:.2%} of each group can be survived"
    ]


def survivable_share(sizes: tuple[int, ...], error: float) -> float:
    """Return the largest share of bad rows of each of two groups at which groups that do not overlap are selected."""
    n0, n1 = sizes
    critical = critical_rank((n1,), (n0,), error)
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = (n1 - bad_rows(n1, middle)) * (n0 - bad_rows(n0, middle)) >= critical
        low, high = (middle, high) if enough else (low, middle)
    return max(int(low * n + 1e-6) / n for n in sizes)


def _smallest_p(n0: int, n1: int, sides: int) -> float:
    """Return 2/C(n₀ + n₁, n₀), the p-value of groups that do not overlap; half of it for one side."""
    return sides * math.exp(math.lgamma(n0 + 1) + math.lgamma(n1 + 1) - math.lgamma(n0 + n1 + 1))


# What a plan can find, before any data: thresholds, detectable effect, rows needed, contamination survived.

MOST_ROWS = 4_000_000
"""Where the search for the rows that an effect needs ends: beyond, it is said to be out of reach."""
NEVER = 0.001
"""Probabilities below it are not written out."""
MOST = 10**15
MOST_OF_GROUP = 10**9
"""Rows and features beyond which probabilities of counts are no longer exact in floating point."""


def plan(
    n: int | tuple[int, int],
    d: int,
    *,
    contamination: float = 0.05,
    level: float = 0.05,
    bucket_sizes: Any = "auto",
    power: float = 0.8,
    effect: float | None = None,
    k: int = 1,
    sigma: float = 1.0,
    delta: float = 0.05,
) -> Plan:
    """Say before seeing any data what n rows of d features can show, at family-wise error ``level``.

    Parameters
    ----------
    n : int or pair of int
        Rows; a pair are the rows of a reference and of a label that are compared.
    d : int
        Features.
    contamination : float in [0, 0.5)
        Share of rows, of each group, that may be arbitrary; a pair gives that of the reference and that of the label.
    level : float
        Family-wise error rate.
    bucket_sizes : "auto" or tuple of int
        As in `SparseMean`.
    power : float
        Probability with which a single effect is to be found.
    effect : float, optional
        A mean, in standard deviations, for which the rows needed are wanted.
    k, sigma, delta
        Sparsity, standard deviation and failure probability in the paper's theorems, whose conditions are listed in
        ``outlook.theorems``. Nothing else here rests on them.

    Returns
    -------
    Plan
        With ``detectable_effect``, ``outlook`` and ``summary()``. Effects are for Gaussian noise; the heavier the tails
        at the same scale of the centre, the better single rows do. ``detectable_effect`` and the rows needed are for
        bad rows that are allowed for but behave like the others; ``effect_opposed`` in the table of the outlook and
        the summary say what is found if all of them vote against it.

    Examples
    --------
    >>> import sparsemean as sm
    >>> sm.plan(2000, 20_000, contamination=0.01).detectable_effect  # doctest: +ELLIPSIS
    0.1...
    """
    if isinstance(n, tuple) or np.ndim(n) == 1:
        return plan_groups(n, d, contamination=contamination, level=level, power=power, effect=effect)
    for name, value, most in (("n", n, MOST), ("d", d, MOST), ("k", k, d)):
        integer(value, argument=name, least=1, rule="be a positive integer")
        integer(value, argument=name, least=1, most=most, rule=f"be at most {most:,}")
    n, d = int(n), int(d)
    power = check_share("power", power)
    fit_plan = plan_fit(n, d, contamination=contamination, level=level, bucket_sizes=bucket_sizes)
    if effect is not None and real(effect, argument="effect", rule="be a positive number") <= 0:
        raise InputError("effect", "be a positive number", effect)
    survivable = survivable_rows(fit_plan)
    if fit_plan.bad_rows > survivable:
        raise _impossible(fit_plan, survivable)
    table = tuple(_row(fit_plan, size, power) for size in fit_plan.bucket_sizes)
    best, opposed = (min(row[kind] for row in table) for kind in ("effect", "effect_opposed"))
    needed = None if effect is None else _rows_needed(fit_plan, effect, power)
    outlook = PowerAnalysis(
        detectable_effect=best,
        survivable_contamination=survivable / n,
        rows_needed=needed,
        effect=effect,
        power=power,
        table=table,
        theorems=numbers(n, d, contamination=fit_plan.contamination, k=k, sigma=sigma, delta=delta, effect=effect),
        text=_text(fit_plan, (best, opposed), survivable, needed, effect, power),
    )
    return replace(fit_plan, outlook=outlook)


def plan_groups(sizes: Any, d: int, *, contamination: Any, level: Any, power: Any, effect: float | None = None) -> Plan:
    """Say what can be found between a reference and a label of so many rows each."""
    if len(sizes) != 2:
        raise InputError("n", "be a number of rows, or those of two groups", repr(sizes))
    rule = f"be numbers of rows from 2 to {MOST_OF_GROUP:,}"
    n0, n1 = (integer(size, argument="n", least=2, most=MOST_OF_GROUP, rule=rule) for size in sizes)
    integer(d, argument="d", least=1, most=MOST, rule="be a positive integer")
    power, shares = check_share("power", power), check_shares(contamination)
    if effect is not None and real(effect, argument="effect", rule="be a positive number") <= 0:
        raise InputError("effect", "be a positive number", effect)
    bad = bad_rows(n0, shares[0]), bad_rows(n1, shares[1])
    made = groups_plan(
        n0 + n1, int(d), shares=shares, sizes=(n0, n1), bad_by_group=bad, n_tests=1, n_strata=1, rest=False,
        selection="fwer", level=check_level(level), alternative="two-sided", min_effect=0.0, missing="raise",
    )  # fmt: skip
    if impossible := groups_possible(made):
        raise InputError("n", "be large enough", f"{n0} and {n1} rows", impossible[0])
    found, opposed = (_shift(made.sizes, shares, made.level / d, power, against) for against in (False, True))
    limit = survivable_share(made.sizes, made.level / d / 2)
    needed = None if effect is None else _groups_needed(made, shares, effect, power)
    row = {"reference": n0, "label": n1, "effect": found, "effect_opposed": opposed, "auc": _auc(found)[0]}
    text = _groups_text(made, row, limit, needed, effect, power)
    outlook = PowerAnalysis(found, limit, needed, effect, power, (row,), (), text)
    return replace(made, outlook=outlook)


def _auc(shift: float) -> tuple[float, float]:
    """Return P(X > Y) for normal X and Y a ``shift`` apart, and P(X > Y and X > Y')."""
    from scipy.special import ndtr, roots_hermitenorm

    nodes, weights = roots_hermitenorm(80)
    at = ndtr(nodes + shift)
    return float(weights @ at / weights.sum()), float(weights @ at**2 / weights.sum())


def _shift(sizes: tuple[int, ...], shares: tuple[float, float], error: float, power: float, against: bool) -> float:
    """Return the shift, in σ of normal noise, that two groups show with ``power``; bad rows say nothing, or oppose."""
    from scipy.special import ndtri

    n0, n1 = sizes
    b0, b1 = (bad_rows(n, share) for n, share in zip(sizes, shares, strict=True))
    needed = critical_rank((n1,), (n0,), error / 2) + b1 * n0 + b0 * n1 - b0 * b1
    voting = (n0 - b0, n1 - b1) if against else sizes

    def reached(shift: float) -> bool:
        auc, twice = _auc(shift)
        pairs = voting[0] * voting[1]
        variance = pairs * (auc * (1 - auc) + (sum(voting) - 2) * (twice - auc * auc))
        return bool(pairs * auc - ndtri(power) * math.sqrt(variance) >= needed)

    low, high = 0.0, 50.0
    if not reached(high):
        return math.inf
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _groups_needed(made: Plan, shares: tuple[float, float], effect: float, power: float) -> int:
    """Return the rows in all, to within 1 %, at which ``effect`` is found between groups of the same ratio; 0: none."""
    share, error = made.sizes[0] / sum(made.sizes), made.level / made.n_features

    def suffices(n: int) -> bool:
        first = min(max(2, round(share * n)), n - 2)
        return _shift((first, n - first), shares, error, power, against=False) <= effect

    return _fewest(suffices)


def _groups_text(
    made: Plan, row: dict[str, float], limit: float, needed: int | None, effect: float | None, power: float
) -> str:
    (n0, n1), (b0, b1) = made.sizes, made.bad_by_group
    sentences = [
        f"With {n1:,} rows of a label against {n0:,} of its reference and {made.n_features:,} features, {b1} and {b0} "
        f"rows of which may be bad, a shift of {row['effect']:.3g} standard deviations is found with probability "
        f"{power:g} (normal noise; {row['auc']:.0%} of pairs above), at a family-wise error of {made.level:g}.",
        f"If all bad rows vote against it, it takes {row['effect_opposed']:.3g}."
        if math.isfinite(row["effect_opposed"])
        else "If all bad rows vote against it no shift is found.",
        f"Groups that do not overlap survive {limit:.1%} bad rows of each.",
    ]
    if needed is not None:
        rows = f"{needed:,} rows in all" if needed else "more rows than can be planned for"
        sentences.append(f"A shift of {effect:g} takes {rows}, in the same ratio.")
    return " ".join(sentences)


def smallest_effect(plan: Plan, n: int, contamination: float, power: float) -> float:
    """Return the effect that the same plan would find among n rows with ``power``; infinity if none."""
    other = replace(plan, n_rows=n, n_units=n, bad_rows=bad_rows(n, contamination), contamination=contamination)
    return min(_row(other, size, power)["effect"] for size in plan.bucket_sizes)


def _row(plan: Plan, size: int, power: float) -> dict[str, float]:
    """Return what one size needs and finds, with bad rows that say nothing and with such as all vote against a mean."""
    J, k = majority(plan, size)
    effect, opposed = (_effect(votes, k, size, power) for votes in (J, J - plan.bad_rows))
    return {"size": size, "buckets": J, "majority": k, "effect": effect, "effect_opposed": opposed}


def _effect(J: int, k: int, size: int, power: float) -> float:
    """Return the mean, in σ of Gaussian rows, whose buckets of ``size`` show k of J on its side with ``power``."""
    from scipy.special import betaincinv, ndtri

    if k > J:
        return math.inf
    share = float(betaincinv(k, J - k + 1, power))  # P(Bin(J, share) ≥ k) = power
    return float(ndtri(share)) / math.sqrt(size)


def _rows_needed(plan: Plan, effect: float, power: float) -> int:
    """Return the smallest n, to within 1 %, at which ``effect`` is found with ``power`` at the same ε; 0 if none is."""

    def suffices(n: int) -> bool:
        return smallest_effect(plan, n, plan.contamination, power) <= effect

    return _fewest(suffices)


def _fewest(suffices: Callable[[int], bool]) -> int:
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


def _impossible(plan: Plan, survivable: int) -> InputError:
    """Say which inequality fails, with its numbers, and what is the nearest plan that exists."""
    n, size = plan.n_rows, min(plan.bucket_sizes)
    if survivable < 0:
        J = -(-n // size)
        return InputError(
            "n",
            f"be large enough that 2^(1−J) ≤ level/(d·sizes) = {plan.level / n_tests(plan):.2g}, J = ⌈n/{size}⌉",
            f"n = {n}, 2^(1−J) = {2.0 ** (1 - J):.2g}",
            f"take at least {rows_for_any(plan)} rows",
        )
    return InputError(
        "contamination",
        f"leave enough buckets: at n = {n}, d = {plan.n_features} a unanimous feature survives {survivable} bad rows",
        f"{plan.contamination} ({plan.bad_rows} rows)",
        f"the largest feasible contamination is {survivable / n:.4g}",
    )


def _text(
    plan: Plan, effects: tuple[float, float], survivable: int, needed: int | None, effect: float | None, power: float
) -> str:
    best, opposed = effects
    sizes = ", ".join(map(str, plan.bucket_sizes))
    sentences = [
        f"With {plan.n_rows:,} rows of {plan.n_features:,} features, {plan.bad_rows} of which may be bad, buckets of "
        f"{sizes} rows find a mean of {best:.3g} standard deviations with probability {power:g} (Gaussian noise), at a "
        f"family-wise error of {plan.level:g}.",
        *_if_opposed(plan, best, opposed, power),
        f"A feature on which all rows agree survives {survivable} bad rows ({survivable / plan.n_rows:.3g} of all).",
    ]
    if effect is not None and needed:
        silent = ", if no bad row votes against it" if plan.bad_rows else ""
        sentences.append(f"A mean of {effect:g} standard deviations needs about {needed:,} rows{silent}.")
    elif effect is not None:
        sentences.append(f"A mean of {effect:g} standard deviations cannot be found at this contamination.")
    return " ".join(sentences)


def _if_opposed(plan: Plan, best: float, opposed: float, power: float) -> list[str]:
    """Say that bad rows may do more than stay silent, and what is then found."""
    if not plan.bad_rows:
        return []
    silent = "That holds if the bad rows behave like the others; if all of them vote against it"
    if math.isinf(opposed):
        return [f"{silent}, no mean is found with that probability."]
    left = max(_power(plan, size, best) for size in plan.bucket_sizes)
    chance = f"{left:.2g}" if left >= NEVER else f"below {NEVER:g}"
    return [f"{silent}, such a mean is found with probability {chance}, and {power:g} takes one of {opposed:.3g}."]


def _power(plan: Plan, size: int, effect: float) -> float:
    """Return the chance that buckets of ``size`` find a mean against which every bad row votes in one of them."""
    from scipy.special import bdtrc, ndtr

    J, k = majority(plan, size)
    return float(bdtrc(k - 1, J - plan.bad_rows, ndtr(effect * math.sqrt(size))))
