"""What n rows of d features, or two groups, can show: detectable effects, power, the rows that are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from sparsemean._fit.theorems import theorem_rows
from sparsemean._stats.one_sample_power import OneSamplePower, power_of
from sparsemean._stats.planning import (
    MOST_RANKED,
    WITHOUT_BUCKETS,
    ask,
    bad_rows,
    check_share,
    check_shares,
    of_question,
    plan_fit,
)
from sparsemean._stats.power import MOST_ROWS, GroupPower, Power, fewest, smallest_p
from sparsemean._util.checks import fraction_of_rows, integer, pluralize, real
from sparsemean._util.plans import BadRows, GroupSizes, Plan, PowerAnalysis, Shares
from sparsemean.errors import InputError

NEVER = 0.001
"""Probabilities below it are not written out."""
MOST = 10**15
MOST_OF_GROUP = 10**9
"""Rows and features beyond which probabilities of counts are no longer exact in floating point."""
MOST_FOR_RANKS = 10**9
"""Rows whose sums of ranks are whole numbers of 64 bits."""


# The search for rows: the same plan for other numbers of them.


def at_rows(plan: Plan, n: int, contamination: float, *, test: str | None = None) -> Plan:
    """Return the same plan for other rows, by the same test unless one is named."""
    return replace(
        of_question(plan, test=test or plan.question.test),
        n_rows=n, n_units=n, bad_rows=bad_rows(n, contamination), contamination=contamination,
    )  # fmt: skip


def of_groups(plan: Plan, sizes: GroupSizes, shares: Shares) -> Plan:
    """Return the same plan for groups of these sizes, of which such shares may be bad."""
    bad = BadRows(bad_rows(sizes.reference, shares.reference), bad_rows(sizes.label, shares.label))
    return replace(plan, sizes=sizes, bad_by_group=bad, bad_rows=bad.total)


def smallest_effect(plan: Plan, n: int, contamination: float, power: float) -> float:
    """Return the effect that the same plan would find among n rows with ``power``; infinity if none."""
    return power_of(at_rows(plan, n, contamination)).smallest(power, opposed=False)


# What is beyond reach at n, d and ε, whatever the data are.


def rows_for_any(plan: Plan, contamination: float) -> int:
    """Return the number of rows from which a feature on which all agree can be selected; 0 if there is none."""

    def suffices(n: int) -> bool:
        made = at_rows(plan, n, contamination)
        return power_of(made).possible(made.bad_rows)

    return fewest(suffices, exact=True)


def nothing_possible(plan: Plan, unit: str = "row") -> list[str]:
    """Say so where no feature could be selected, however clear, and what would help."""
    limit, n = power_of(plan).survivable_rows(), plan.n_units
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


def groups_possible(plan: Plan, unit: str = "row") -> list[str]:
    """Refuse groups too small for any test, and say so where nothing could be certified at this contamination."""
    asked = GroupPower(plan)
    n0, n1, bad = asked.sizes.reference, asked.sizes.label, plan.bad
    smallest, threshold = smallest_p(n0, n1, plan.question.side.number), plan.question.level / plan.n_hypotheses
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
    limit = asked.survivable_share()
    if bad.reference <= bad_rows(n0, limit) and bad.label <= bad_rows(n1, limit):
        return []
    return [
        f"nothing can be certified: with {bad.label} and {bad.reference} bad {unit}s among {n1} and "
        f"{n0} even groups that do not overlap could be false; at most {limit:.2%} of each group can be survived"
    ]


# What a plan can find, before any data: thresholds, detectable effect, rows needed, contamination survived.


def plan(
    n: int | tuple[int, int],
    d: int,
    *,
    contamination: float = 0.05,
    level: float = 0.05,
    bucket_sizes: object = "auto",
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
        for name, value, usual in (("test", test, "auto"), ("target", target, "centre"), ("min_effect", min_effect, 0)):
            if value != usual:
                raise InputError(name, "be left out where two groups are planned", repr(value))
        return plan_groups(
            cast("Sequence[int]", n),
            d,
            contamination=contamination,
            level=level,
            power=power,
            effect=effect,
            alternative=alternative,
        )
    for name, number, most in (("n", n, MOST), ("d", d, MOST), ("k", k, d)):
        integer(number, argument=name, least=1, rule="be a positive integer")
        integer(number, argument=name, least=1, most=most, rule=f"be at most {most:,}")
    n, d = int(n), int(d)
    power, contamination = check_share("power", power), fraction_of_rows(contamination)
    made = plan_fit(
        n, d, contamination=contamination, level=level, bucket_sizes=bucket_sizes, test=test, target=target,
        alternative=alternative, min_effect=min_effect,
    )  # fmt: skip
    _check_effect(effect)
    if made.question.test == "ranks" and n > MOST_FOR_RANKS:
        raise InputError("n", f"be at most {MOST_FOR_RANKS:,} with test='ranks'", n)
    auto = test == "auto" and made.question.target == "centre" and isinstance(bucket_sizes, str)

    def needed(effect: float, epsilon: float, *, opposed: bool) -> int:
        """Return the rows needed, with ``auto`` by the test that a fit of so many rows would take."""

        def suffices(n: int) -> bool:
            test = ("ranks" if n <= MOST_RANKED else "buckets") if auto else None
            return power_of(at_rows(made, n, epsilon, test=test)).chance(effect, opposed=opposed) >= power

        return fewest(suffices)

    asked = power_of(made)
    survivable = asked.survivable_rows()
    if made.bad_rows > survivable:
        raise _impossible(asked, survivable)
    rows = None if effect is None else needed(effect, made.contamination, opposed=False)
    found = _smallest(asked, power)
    text = _found(asked, found, power, survivable)
    if effect is not None and rows is not None:
        text = f"{text} {_needed(made, effect, rows, needed)}"
    theorems = theorem_rows(n, d, contamination=made.contamination, k=k, sigma=sigma, delta=delta, effect=effect)
    outlook = PowerAnalysis(found[0], survivable / n, rows, effect, power, asked.table(power), theorems, text)
    return replace(made, outlook=outlook)


def plan_groups(
    sizes: Sequence[int],
    d: int,
    *,
    contamination: object,
    level: object,
    power: object,
    effect: float | None = None,
    alternative: object = "two-sided",
) -> Plan:
    """Say what can be found between a reference and a label of so many rows each."""
    if len(sizes) != 2:
        raise InputError("n", "be a number of rows, or those of two groups", repr(sizes))
    rule = f"be numbers of rows from 2 to {MOST_OF_GROUP:,}"
    n0, n1 = (integer(size, argument="n", least=2, most=MOST_OF_GROUP, rule=rule) for size in sizes)
    integer(d, argument="d", least=1, most=MOST, rule="be a positive integer")
    wanted, shares = check_share("power", power), check_shares(contamination)
    _check_effect(effect)
    asked_of_rows = Plan(
        ask(contamination=contamination, level=level, alternative=alternative), WITHOUT_BUCKETS,
        n_rows=n0 + n1, n_features=int(d), n_units=n0 + n1, contamination=max(shares), bad_rows=0,
    )  # fmt: skip
    made = of_groups(asked_of_rows, GroupSizes(n0, n1), shares)
    if impossible := groups_possible(made):
        if smallest_p(n0, n1, made.question.side.number) > made.question.level / d:
            raise InputError("n", "be large enough", f"{n0} and {n1} rows", impossible[0])
        raise InputError("contamination", "leave enough rows", contamination, impossible[0])
    asked, needed = GroupPower(made), None
    if effect is not None:
        shift, ratio = effect, n0 / (n0 + n1)

        def suffices(n: int) -> bool:
            first = min(max(2, round(ratio * n)), n - 2)
            there = GroupPower(of_groups(made, GroupSizes(first, n - first), shares))
            return there.chance(shift, opposed=False) >= wanted

        needed = fewest(suffices)
    found, limit, table = _smallest(asked, wanted), asked.survivable_share(), asked.table(wanted)
    text = _groups_text(asked, found, wanted, limit, table[0]["auc"])
    if effect is not None:
        rows = f"{needed:,} rows in all" if needed else "more rows than can be planned for"
        text = f"{text} A shift of {effect:g} takes {rows}, in the same ratio."
    return replace(made, outlook=PowerAnalysis(found[0], limit, needed, effect, wanted, table, (), text))


def _check_effect(effect: object) -> None:
    if effect is not None and real(effect, argument="effect", rule="be a positive number") <= 0:
        raise InputError("effect", "be a positive number", effect)


def _smallest(asked: Power, power: float) -> tuple[float, float]:
    """Return the effects that are found with ``power`` where bad rows are like the others, and where they oppose."""
    return asked.smallest(power, opposed=False), asked.smallest(power, opposed=True)


def _impossible(asked: OneSamplePower, survivable: int) -> InputError:
    """Say which of n and ε is in the way, with its numbers, and what is the nearest plan that exists."""
    plan = asked.plan
    n, d = plan.n_rows, pluralize(plan.n_features, "feature")
    if survivable < 0:
        rule = f"be large enough that rows which all agree have p ≤ {asked.error:.2g}, for {d}"
        return InputError("n", rule, f"n = {n}", _rows_wanted(plan))
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


def _opposed(asked: Power, effects: tuple[float, float], power: float, thing: str) -> str:
    """Say what is left of the power where bad rows do more than stay silent."""
    effect, opposed = effects
    takes = f"{power:g} takes one of {opposed:.3g}" if math.isfinite(opposed) else f"no {thing} is found with {power:g}"
    chance = asked.chance(effect, opposed=True)
    left = f"{chance:.2g}" if chance >= NEVER else f"below {NEVER:g}"
    return f"vote against it, such a {thing} is found with probability {left}, and {takes}."


def _found(asked: Power, effects: tuple[float, float], power: float, survivable: int) -> str:
    plan = asked.plan
    sentences = [
        f"With {plan.n_rows:,} rows of {pluralize(plan.n_features, 'feature')}, {plan.bad_rows} of which may be bad, "
        f"{_name(plan)} {_mean(plan, effects[0])} with probability {power:g} (Gaussian noise), at a family-wise error "
        f"of {plan.question.level:g}."
    ]
    if plan.bad_rows:
        left = _opposed(asked, effects, power, "mean")
        sentences.append(f"That holds if the bad rows behave like the others; if all of them {left}")
    share = f"({survivable / plan.n_rows:.3g} of all)"
    sentences.append(f"A feature on which all rows agree survives {pluralize(survivable, 'bad row')} {share}.")
    return " ".join(sentences)


def _needed(plan: Plan, effect: float, rows: int, needed: Callable[..., int]) -> str:
    """Say how many rows an effect needs, or why none are enough."""
    mean = _mean(plan, effect).capitalize()
    if not rows:
        if plan.contamination and needed(effect, 0.0, opposed=False):
            return f"{mean} cannot be found at this contamination, however many rows there are."
        return f"{mean} takes more than {MOST_ROWS:,} rows."
    if not plan.bad_rows:
        return f"{mean} needs about {rows:,} rows."
    more = needed(effect, plan.contamination, opposed=True)
    against = f"about {more:,} if all of them vote against it" if more else "is not found if all of them do"
    return f"{mean} needs about {rows:,} rows if no bad row votes against it, and {against}."


def _groups_text(asked: GroupPower, effects: tuple[float, float], power: float, limit: float, auc: float) -> str:
    plan = asked.plan
    sizes, bad = asked.sizes, plan.bad
    sentences = [
        f"With {sizes.label:,} rows of a label against {sizes.reference:,} of its reference and {plan.n_features:,} "
        f"features, {bad.label} and {bad.reference} rows of which may be bad, a shift of {effects[0]:.3g} standard "
        f"deviations is found with probability {power:g} (normal noise; {auc:.0%} of pairs above), at a family-wise "
        f"error of {plan.question.level:g}."
    ]
    if bad.total:
        sentences.append(f"If all bad rows {_opposed(asked, effects, power, 'shift')}")
    return " ".join([*sentences, f"Groups that do not overlap survive {limit:.1%} bad rows of each."])
