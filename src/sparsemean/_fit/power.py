"""What n rows of d features can show: detectable effects, power, the rows that are needed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sparsemean._fit.power_groups import MOST, MOST_ROWS, fewest, plan_groups, written
from sparsemean._fit.theorems import numbers
from sparsemean._stats.one_sample_power import TestPower, error_of, power_of, survivable_rows
from sparsemean._stats.planning import MIN_ROWS, MOST_RANKED, bad_rows, check_share, of_question, plan_fit
from sparsemean._util.checks import fraction_of_rows, integer, pluralize, real
from sparsemean._util.plans import Plan, PowerAnalysis
from sparsemean.errors import InputError

MOST_FOR_RANKS = 10**9
"""Rows whose sums of ranks are whole numbers of 64 bits."""


def at_rows(plan: Plan, n: int, contamination: float, *, test: str | None = None) -> Plan:
    """Return the same plan for other rows, by the same test unless one is named."""
    return replace(
        of_question(plan, test=test or plan.question.test),
        n_rows=n, n_units=n, bad_rows=bad_rows(n, contamination), contamination=contamination,
    )  # fmt: skip


# What is beyond reach at n, d and ε, whatever the data are.


def rows_for_any(plan: Plan, contamination: float) -> int:
    """Return the number of rows from which a feature on which all agree can be selected; 0 if there is none."""

    def suffices(n: int) -> bool:
        made = at_rows(plan, n, contamination)
        return power_of(made).possible(made.bad_rows)

    low, high = MIN_ROWS - 1, MIN_ROWS
    while not suffices(high):
        low, high = high, 2 * high
        if high > MOST_ROWS:
            return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def nothing_possible(plan: Plan, unit: str = "row") -> list[str]:
    """Say so where no feature could be selected, however clear, and what would help."""
    limit, n = survivable_rows(plan), plan.n_units
    if limit >= plan.bad_rows:
        return []
    if limit < 0:
        return [
            f"nothing can be certified: {n} {unit}s are too few for {pluralize(plan.n_features, 'feature')} at "
            f"level {plan.question.level:g}; {_rows_wanted(plan)}"
        ]
    return [
        f"nothing can be certified: with {pluralize(plan.bad_rows, f'bad {unit}')} among {n} even a feature on which "
        f"all others agree could be false; at most {limit} (contamination {limit / n:.4g}) can be survived, "
        f"more {unit}s or fewer features would help"
    ]


def _rows_wanted(plan: Plan) -> str:
    """Say how many rows would do without bad rows, and with as large a share of them."""
    clean = f"at least {rows_for_any(plan, 0.0):,} are needed"
    if not plan.contamination:
        return clean
    needed = rows_for_any(plan, plan.contamination)
    more = f"{needed:,}" if needed else "and no number is enough"
    return f"{clean} if none is bad, {more} at contamination {plan.contamination:g}"


# What a plan can find, before any data: thresholds, detectable effect, rows needed, contamination survived.


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
    test: str = "auto",
    target: str = "centre",
    alternative: str = "two-sided",
    min_effect: float = 0.0,
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
        A mean, in standard deviations and beyond ``min_effect``, for which the rows needed are wanted.
    k, sigma, delta
        Sparsity, standard deviation and failure probability in the paper's theorems, whose conditions are listed in
        ``outlook.theorems``. Nothing else here rests on them.
    test, target, alternative
        As in `SparseMean`; of groups only the last. For ``target="mean"`` the scale is taken to be the standard
        deviation itself.
    min_effect : float
        As in `SparseMean`, in standard deviations; all effects are then what a mean must have beyond it.

    Returns
    -------
    Plan
        With ``detectable_effect``, ``outlook`` and ``summary()``. Effects are for Gaussian noise; the heavier the tails
        at the same scale of the centre, the better small caps of ranks and single rows do. ``detectable_effect`` and
        the rows needed are for bad rows that are allowed for but behave like the others; ``effect_opposed`` in the
        table of the outlook and the summary say what is found if all of them vote against it.

    Examples
    --------
    >>> import sparsemean as sm
    >>> sm.plan(2000, 20_000, contamination=0.01).detectable_effect  # doctest: +ELLIPSIS
    0.1...
    """
    if isinstance(n, tuple) or np.ndim(n) == 1:
        _only_of_one_sample(test=test, target=target, min_effect=min_effect)
        return plan_groups(
            n, d, contamination=contamination, level=level, power=power, effect=effect, alternative=alternative
        )
    for name, value, most in (("n", n, MOST), ("d", d, MOST), ("k", k, d)):
        integer(value, argument=name, least=1, rule="be a positive integer")
        integer(value, argument=name, least=1, most=most, rule=f"be at most {most:,}")
    n, d = int(n), int(d)
    power, contamination = check_share("power", power), fraction_of_rows(contamination)
    made = plan_fit(
        n, d, contamination=contamination, level=level, bucket_sizes=bucket_sizes, test=test, target=target,
        alternative=alternative, min_effect=min_effect,
    )  # fmt: skip
    if effect is not None and real(effect, argument="effect", rule="be a positive number") <= 0:
        raise InputError("effect", "be a positive number", effect)
    if made.question.test == "ranks" and n > MOST_FOR_RANKS:
        raise InputError("n", f"be at most {MOST_FOR_RANKS:,} with test='ranks'", n)
    survivable = survivable_rows(made)
    if made.bad_rows > survivable:
        raise _impossible(made, survivable)
    found = power_of(made)
    best, opposed = (found.smallest(power, opposed=against) for against in (False, True))
    auto = test == "auto" and made.question.target == "centre" and isinstance(bucket_sizes, str)
    needed = None if effect is None else _rows_needed(made, effect, power, auto=auto)
    sentences = [*_found(found, (best, opposed), power, survivable)]
    if effect is not None and needed is not None:
        sentences.append(_needed(made, effect, power, needed, auto=auto))
    outlook = PowerAnalysis(
        detectable_effect=best,
        survivable_contamination=survivable / n,
        rows_needed=needed,
        effect=effect,
        power=power,
        table=found.table(power),
        theorems=numbers(n, d, contamination=made.contamination, k=k, sigma=sigma, delta=delta, effect=effect),
        text=" ".join(sentences),
    )
    return replace(made, outlook=outlook)


def _only_of_one_sample(**asked: Any) -> None:
    """Refuse what plans of two groups do not have."""
    usual = {"test": "auto", "target": "centre", "min_effect": 0.0}
    for name, value in asked.items():
        if value != usual[name]:
            raise InputError(name, "be left out where two groups are planned", repr(value))


def smallest_effect(plan: Plan, n: int, contamination: float, power: float) -> float:
    """Return the effect that the same plan would find among n rows with ``power``; infinity if none."""
    return power_of(at_rows(plan, n, contamination)).smallest(power, opposed=False)


def _rows_needed(plan: Plan, effect: float, power: float, *, auto: bool, opposed: bool = False) -> int:
    """Return the smallest n, to within 1 %, at which ``effect`` is found with ``power`` at the same ε; 0 if none is.

    With ``auto`` by the test that a fit of so many rows would take.
    """

    def suffices(n: int) -> bool:
        test = ("ranks" if n <= MOST_RANKED else "buckets") if auto else None
        return power_of(at_rows(plan, n, plan.contamination, test=test)).chance(effect, opposed=opposed) >= power

    return fewest(suffices)


def _impossible(plan: Plan, survivable: int) -> InputError:
    """Say which of n and ε is in the way, with its numbers, and what is the nearest plan that exists."""
    n, d = plan.n_rows, pluralize(plan.n_features, "feature")
    if survivable < 0:
        asked = f"be large enough that rows which all agree have p ≤ {error_of(plan):.2g}, for {d}"
        return InputError("n", asked, f"n = {n}", _rows_wanted(plan))
    return InputError(
        "contamination",
        f"leave enough rows: at n = {n}, d = {plan.n_features} a feature on which all rows agree survives {survivable} "
        "bad rows",
        f"{plan.contamination} ({pluralize(plan.bad_rows, 'row')})",
        f"the largest feasible contamination is {survivable / n:.4g}",
    )


# In words.


def _name(plan: Plan) -> str:
    if plan.question.test == "ranks":
        return "signed ranks find"
    if plan.question.test == "sums":
        return "sums of a bounded influence, with the standard deviation as scale=, find"
    return f"buckets of {', '.join(map(str, plan.walk.bucket_sizes))} rows find"


def _mean(plan: Plan, effect: float) -> str:
    """Return a mean in words: on which side it lies, and beyond what."""
    side = plan.question.side.pick("a mean", "a positive mean", "a negative mean")
    beyond = f"{plan.question.min_effect:g} + " if plan.question.min_effect else ""
    return f"{side} of {beyond}{effect:.3g} standard deviations"


def _found(found: TestPower, effects: tuple[float, float], power: float, survivable: int) -> list[str]:
    plan, (best, opposed) = found.plan, effects
    sentences = [
        f"With {plan.n_rows:,} rows of {pluralize(plan.n_features, 'feature')}, {plan.bad_rows} of which may be bad, "
        f"{_name(plan)} {_mean(plan, best)} with probability {power:g} (Gaussian noise), at a family-wise error of "
        f"{plan.question.level:g}."
    ]
    if plan.bad_rows:
        chance = written(found.chance(best, opposed=True))
        takes = (
            f"{power:g} takes one of {opposed:.3g}" if math.isfinite(opposed) else f"no mean is found with {power:g}"
        )
        sentences.append(
            "That holds if the bad rows behave like the others; if all of them vote against it, such a mean is found "
            f"with probability {chance}, and {takes}."
        )
    share = f"({survivable / plan.n_rows:.3g} of all)"
    return [*sentences, f"A feature on which all rows agree survives {pluralize(survivable, 'bad row')} {share}."]


def _needed(plan: Plan, effect: float, power: float, needed: int, *, auto: bool) -> str:
    """Say how many rows an effect needs, or why none are enough."""
    mean = _mean(plan, effect).capitalize()
    if not needed:
        if plan.contamination and _rows_needed(replace(plan, contamination=0.0), effect, power, auto=auto):
            return f"{mean} cannot be found at this contamination, however many rows there are."
        return f"{mean} takes more than {MOST_ROWS:,} rows."
    if not plan.bad_rows:
        return f"{mean} needs about {needed:,} rows."
    more = _rows_needed(plan, effect, power, auto=auto, opposed=True)
    against = f"about {more:,} if all of them vote against it" if more else "is not found if all of them do"
    return f"{mean} needs about {needed:,} rows if no bad row votes against it, and {against}."
