"""What n rows of d features, or two groups, can show: detectable effects, power, the rows that are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from sparsemean._fit.theorems import theorem_rows
from sparsemean._stats.planning import (
    MIN_ROWS,
    MOST_RANKED,
    WITHOUT_BUCKETS,
    bad_rows,
    check_question,
    check_share,
    check_shares,
    of_question,
    plan_fit,
    positive,
)
from sparsemean._stats.power import POWERS, ROUNDED, GroupPower, Power, of_one_sample, power_of
from sparsemean._util.checks import fraction_of_rows, integer, pluralize
from sparsemean._util.plans import BadRows, GroupSizes, Plan, PowerAnalysis, Question, Shares
from sparsemean.errors import InputError

NEVER = 0.001
"""Probabilities below it are not written out."""
MOST = 10**15
MOST_OF_GROUP = 10**9
"""Rows and features beyond which probabilities of counts are no longer exact in floating point."""
MOST_ROWS = 4_000_000
"""Where the search for the rows that an effect needs ends: beyond, it is said to be out of reach."""
MOST_FOR_RANKS = 10**9
"""Rows whose sums of ranks are whole numbers of 64 bits."""


# The search for rows: the same plan for other numbers of them.


def at_rows(plan: Plan, n: int, *, share: float | None = None, test: str | None = None) -> Plan:
    """Return the same plan for n rows, groups in the same ratio, with its own share of bad rows and its own test.

    Unless another ``share`` or ``test`` is named.
    """
    if plan.sizes is None:
        share = plan.contamination if share is None else share
        asked = of_question(plan, test=test or plan.question.test)
        return replace(asked, n_rows=n, n_units=n, bad_rows=bad_rows(n, share), contamination=share)
    own = plan.question.shares or plan.bad_shares
    first = min(max(2, round(plan.sizes.reference / sum(plan.sizes) * n)), n - 2)
    return of_groups(plan, GroupSizes(first, n - first), own if share is None else Shares(share, share))


def of_groups(plan: Plan, sizes: GroupSizes, shares: Shares) -> Plan:
    """Return the same plan for groups of these sizes, of which such shares may be bad."""
    bad = BadRows(bad_rows(sizes.reference, shares.reference), bad_rows(sizes.label, shares.label))
    return replace(plan, sizes=sizes, bad_by_group=bad, bad_rows=bad.total)


def fewest(suffices: Callable[[int], bool], *, exact: bool = False, most: int = MOST_ROWS) -> int:
    """Return the smallest number of rows that suffices, to within 1 % unless ``exact``; 0 if none up to ``most``."""
    low, high = MIN_ROWS - 1, MIN_ROWS
    while not suffices(high):
        low, high = high, 2 * high
        if high > most:
            return 0
    while high - low > (1 if exact else max(1, high // 100)):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def rows_needed(
    plan: Plan, effect: float, power: float, *, share: float | None = None, opposed: bool = False, auto: bool = False
) -> int:
    """Return the rows from which an effect is found with ``power``, 0 if none do; ``auto``: by a fit's own test."""

    def suffices(n: int) -> bool:
        test = ("ranks" if n <= MOST_RANKED else "buckets") if auto else None
        return power_of(at_rows(plan, n, share=share, test=test)).chance(effect, opposed=opposed) >= power

    return fewest(suffices)


# What is beyond reach at n, d and ε, whatever the data are.

CANNOT = "cannot show"
"""What the sentence has that says so."""
ASSUMED = "of them assumed bad"
"""What it has where it rests on a number of bad rows."""
MODELS = "With fewer {unit}s a model of the noise may do: limma or DESeq2 for genes, elsewhere a t-test"


def impossible(plan: Plan, unit: str = "row", strata: Sequence[GroupSizes] = ()) -> list[str]:
    """Say so in one line where the design alone forbids every selection, and what would do; ``strata`` have sizes."""
    if plan.question.test not in POWERS:
        return []
    if plan.sizes and len(strata) > 1:  # within strata only what holds if no row is bad is said
        plan = of_groups(plan, plan.sizes, Shares(0.0, 0.0))
    able = GroupPower(plan, strata) if plan.sizes else of_one_sample(plan)
    smallest, needed = able.smallest_p(plan.bad), able.error
    if smallest <= needed * (1 + ROUNDED):
        return []
    who, effect = f"{_against(_sizes_of(plan))} {unit}s", "a difference" if plan.sizes else "an effect"
    assumed = _against(plan.bad if plan.sizes else plan.bad[1:], " and ")
    bad = f", {assumed} {ASSUMED}," if plan.bad_rows else ""
    some = f"any of {plan.n_features:,} features" if plan.n_features > 1 else "the feature"
    tests = f" in any of {plan.n_tests} tests" if plan.n_tests > 1 else ""
    whatever = "even if the groups do not overlap" if plan.sizes and plan.bad_rows else "whatever the data"
    return [
        f"{who}{bad} {CANNOT} {effect} in {some}{tests}, {whatever}. "
        f"The smallest p they can give is {smallest:.2g}; {needed:.2g} is needed. {_what_could(able, smallest, unit)}"
    ]


def _sizes_of(plan: Plan) -> Sequence[int]:
    """Return the rows of the reference and of the label, or of one sample."""
    return plan.sizes or (plan.n_units,)


def _against(numbers: Sequence[int], between: str = " against ") -> str:
    """Return numbers of the label and of the reference, or one number, in words."""
    return between.join(f"{number:,}" for number in reversed(numbers))


def _what_could(able: Power, smallest: float, unit: str) -> str:
    """Say which design could select something: with fewer bad rows, with more rows or with fewer features."""
    plan, question, sizes = able.plan, able.plan.question, _sizes_of(able.plan)
    share, many = f"if {100 * plan.contamination:.3g} % are bad", f"more than {MOST_TOLD:,}"
    more = (plan.bad_rows and rows_for_any(able, plan.contamination)) or many
    if plan.bad_rows and able.possible(BadRows(0, 0)):
        last = able.survivable_share()
        most = _against([bad_rows(n, last) for n in sizes], " and ")
        named = math.floor(1e4 * last) / 1e4  # rounded up it would be a row more
        could = f"with at most {most} bad (contamination {named:g})" if named else "if none is bad"
        return f"They could {could}; {share} it takes {more} {unit}s"
    said = [f"{rows_for_any(able, 0.0) or many} {unit}s could"]
    if plan.bad_rows:
        said = [f"{said[0]} if none is bad", f"{more} {share}"]
    elif question.selection == "fwer":
        fewer = int(question.level / smallest * (1 + ROUNDED)) // plan.n_tests
        enough = math.ceil(smallest * plan.n_hypotheses / question.level * (1 - ROUNDED))
        said += [f"or {_against(sizes)} in at most {pluralize(fewer, 'feature')}"] if fewer else []
        if enough <= plan.n_hypotheses:
            said.append(f'or selection="fdr" (--selection fdr) where {enough:,} features have that p')
    return f"{', '.join(said)}. {MODELS.format(unit=unit)}"


MOST_TOLD = 2000
"""Rows, of the smaller group, up to which it is said how many would do: tails of more take a second."""


def rows_for_any(able: Power, share: float) -> str:
    """Return the rows, of groups in the same ratio, from which something can be selected; empty if none up to many."""

    def suffices(n: int) -> bool:
        if not isinstance(able, GroupPower):
            plan = at_rows(able.plan, n, share=share)
            return of_one_sample(plan).possible(plan.bad)
        plan = of_groups(able.plan, _scaled(able.sizes, n, able.sizes), Shares(share, share))
        return GroupPower(plan, [_scaled(each, n, able.sizes) for each in able.strata]).possible(plan.bad)

    n, sizes = fewest(suffices, exact=True, most=MOST_TOLD), able.plan.sizes
    return _against(_scaled(sizes, n, sizes) if sizes else [n]) if n else ""


def _scaled(sizes: GroupSizes, n: int, of: GroupSizes) -> GroupSizes:
    """Return groups as much larger as those ``of`` the design are when the smaller has n rows."""
    return GroupSizes(*(max(1, round(n * size / min(of))) for size in sizes))


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
    """Say before seeing any data what n rows of d features can show, at family-wise error ``level`` by Holm's rule.

    What ``selection="maxt"`` finds without bad rows depends on how alike features are, which nobody can plan; with bad
    rows it finds no more than is said here.

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
    groups = isinstance(n, tuple) or np.ndim(n) == 1
    if groups:
        for name, value, usual in (("test", test, "auto"), ("target", target, "centre"), ("min_effect", min_effect, 0)):
            if value != usual:
                raise InputError(name, "be left out where two groups are planned", repr(value))
        shares = check_shares(contamination)
        asked = check_question(contamination=contamination, level=level, alternative=alternative)
        made = _of_groups(cast("Sequence[int]", n), d, asked, shares)
    else:
        for name, number, most in (("n", n, MOST), ("d", d, MOST), ("k", k, d)):
            integer(number, argument=name, least=1, rule="be a positive integer")
            integer(number, argument=name, least=1, most=most, rule=f"be at most {most:,}")
        made = plan_fit(
            int(cast("int", n)), int(d), contamination=fraction_of_rows(contamination), level=level,
            bucket_sizes=bucket_sizes, test=test, target=target, alternative=alternative, min_effect=min_effect,
        )  # fmt: skip
        if made.question.test == "ranks" and made.n_rows > MOST_FOR_RANKS:
            raise InputError("n", f"be at most {MOST_FOR_RANKS:,} with test='ranks'", n)
    wanted = check_share("power", power)
    if effect is not None:
        effect = positive("effect", effect)
    _refuse_impossible(made, contamination)
    able = power_of(made)
    effects, table = (able.smallest(wanted), able.smallest(wanted, opposed=True)), able.table(wanted)
    text, rows = _found(able, effects, wanted, table), None
    if effect is not None:
        auto = not groups and test == "auto" and target == "centre" and isinstance(bucket_sizes, str)
        needed = partial(rows_needed, made, effect, wanted, auto=auto)
        rows = needed()
        text = f"{text} {_needed(made, effect, rows, needed)}"
    theorems: tuple[tuple[str, str, float], ...] = ()
    if not groups:
        theorems = theorem_rows(
            made.n_rows, made.n_features, contamination=made.contamination, k=k, sigma=sigma, delta=delta, effect=effect
        )
    share = able.survivable_share()
    return replace(made, outlook=PowerAnalysis(effects[0], share, rows, effect, wanted, table, theorems, text))


def _of_groups(sizes: Sequence[int], d: int, asked: Question, shares: Shares) -> Plan:
    """Return the plan of a reference and a label of so many rows each, before what it can find."""
    if len(sizes) != 2:
        raise InputError("n", "be a number of rows, or those of two groups", repr(sizes))
    rule = f"be numbers of rows from 2 to {MOST_OF_GROUP:,}"
    n0, n1 = (integer(size, argument="n", least=2, most=MOST_OF_GROUP, rule=rule) for size in sizes)
    integer(d, argument="d", least=1, most=MOST, rule="be a positive integer")
    plan = Plan(
        asked, WITHOUT_BUCKETS, n_rows=n0 + n1, n_features=int(d), n_units=n0 + n1, contamination=max(shares),
        bad_rows=0,
    )  # fmt: skip
    return of_groups(plan, GroupSizes(n0, n1), shares)


def _refuse_impossible(plan: Plan, contamination: object) -> None:
    """Refuse what no data could show; say which of n and ε is in the way, and what would help."""
    if not (said := impossible(plan)):
        return
    if power_of(plan).possible(BadRows(0, 0)):
        raise InputError("contamination", "leave enough rows", contamination, said[0])
    received = f"{plan.sizes.reference} and {plan.sizes.label} rows" if plan.sizes else f"n = {plan.n_rows}"
    raise InputError("n", "be large enough", received, said[0])


# In words.


def _name(plan: Plan) -> str:
    if plan.question.test == "ranks":
        return "signed ranks find"
    if plan.question.test == "sums":
        return "sums of a bounded influence, with the standard deviation as scale= (--scale), find"
    return f"buckets of {', '.join(map(str, plan.walk.bucket_sizes))} rows find"


def _mean(plan: Plan, effect: float) -> str:
    """Return an effect in words: of one sample on which side it lies, and beyond what."""
    side = "a shift" if plan.sizes else plan.question.side.pick("a mean", "a positive mean", "a negative mean")
    beyond = f"{plan.question.min_effect:g} + " if plan.question.min_effect else ""
    return f"{side} of {beyond}{effect:.3g} standard deviations"


def _found(able: Power, effects: tuple[float, float], power: float, table: Sequence[dict[str, float]]) -> str:
    """Say what is found, and what of it if bad rows do more than stay silent."""
    plan, sizes, bad = able.plan, able.plan.sizes, able.plan.bad
    effect, opposed = effects
    if sizes:
        rows = f"{sizes.label:,} rows of a label against {sizes.reference:,} of its reference and {plan.n_features:,}"
        rows = f"{rows} features, {bad.label} and {bad.reference} rows of"
        finds, noise = f"{_mean(plan, effect)} is found", f"normal noise; {table[0]['auc']:.0%} of pairs above"
        thing, opposing = "shift", "If all bad rows"
    else:
        rows = f"{plan.n_rows:,} rows of {pluralize(plan.n_features, 'feature')}, {plan.bad_rows} of"
        finds, noise = f"{_name(plan)} {_mean(plan, effect)}", "Gaussian noise"
        thing, opposing = "mean", "That holds if the bad rows behave like the others; if all of them"
    text = (
        f"With {rows} which may be bad, {finds} with probability {power:g} ({noise}), at a family-wise error of "
        f"{plan.question.level:g}."
    )
    if bad.total:
        chance = able.chance(effect, opposed=True)
        left = f"{chance:.2g}" if chance >= NEVER else f"below {NEVER:g}"
        none = f"no {thing} is found with {power:g}"
        takes = f"{power:g} takes one of {opposed:.3g}" if math.isfinite(opposed) else none
        text += f" {opposing} vote against it, such a {thing} is found with probability {left}, and {takes}."
    if sizes:
        return text
    share = able.survivable_share()
    most = pluralize(round(share * plan.n_rows), "bad row")
    return f"{text} A feature on which all rows agree is selected up to {most} ({share:.3g} of all)."


def _needed(plan: Plan, effect: float, rows: int, needed: Callable[..., int]) -> str:
    """Say how many rows an effect needs, or why none are enough."""
    mean, all_rows = _mean(plan, effect).capitalize(), "rows in all, in the same ratio," if plan.sizes else "rows"
    if not rows:
        if plan.contamination and needed(share=0.0):
            return f"{mean} cannot be found at this contamination, however many rows there are."
        return f"{mean} takes more than {MOST_ROWS:,} rows."
    if not plan.bad_rows:
        return f"{mean} needs about {rows:,} {all_rows.removesuffix(',')}."
    more = needed(opposed=True)
    against = f"about {more:,} if all of them vote against it" if more else "is not found if all of them do"
    return f"{mean} needs about {rows:,} {all_rows} if no bad row votes against it, and {against}."
