"""The verdict: what was found, how many bad rows it withstands and which rows look bad, in two or three sentences.

Summaries, what is printed, notebooks, the command line and the page begin with it, so it says nothing that they would
have to take back: under Holm's rule sentences are claims, under other rules they say what was selected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from sparsemean._fit.messages import DEPENDENT
from sparsemean._report import groups
from sparsemean._report.groups import Names, percent
from sparsemean._report.suspects import (
    judged,
    kinds_of,
    more_look_bad,
    names_of_tests,
    suspected,
    suspects_of_tests,
    unit_of,
)
from sparsemean._stats.row_scores import FEW
from sparsemean._util.checks import count_of, pluralize, unit_name
from sparsemean._util.plans import Plan, Side
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import visible

if TYPE_CHECKING:
    from sparsemean.result import Estimate

SHARES = (0.01, 0.05, 0.1, 0.2)
"""Shares of bad rows that people think in."""
MOST_SHARES = 3
"""Shares that a sentence goes through."""
MOST_TESTS = 6
"""Tests that a sentence names."""
VERBS = {"have": ("has", "have"), "differ": ("differs", "differ"), "be": ("is", "are")}
TIED = 1e-9
"""Shares closer than this are one: both are numbers of rows over numbers of rows."""


class Several(Protocol):
    """What is told here of several tests: an estimate for each."""

    @property
    def results(self) -> Mapping[Any, Estimate]:
        """The estimates, by label or by pairs of labels."""
        ...


SHOWING = 80
"""Rows from which on a few bad ones that are far off show nearly always."""


def verdict(
    result: Estimate | Several, names: Names | None = None, *, row_names: Sequence[Any] | None = None
) -> tuple[str, ...]:
    """Return the verdict, a sentence or two a line: found, withstood, suspected; what there is not is left out.

    Groups are called by ``names`` (of the reference and of the label), rows by ``row_names``, one for each, else both
    by their own.

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], contamination=0.1, random_state=0)
    >>> verdict(sparse_mean(data.X, contamination=0.1))[0]
    '4 of 100 features have a mean other than 0 (2 up, 2 down), even if any 60 of the 600 rows are wrong.'
    """
    tests = estimates_of(result)
    one = cast("Estimate", result)
    lines = _of_one(one, names or groups.names_of(one), row_names) if tests is None else _of_tests(tests, row_names)
    return tuple(visible(line) for line in (_void(one if tests is None else tests[0]), *lines) if line)


def _void(estimate: Estimate) -> str:
    """Say so, before all else, where rows look dependent: nothing that follows holds then."""
    if not any(DEPENDENT in message for message in estimate.status.messages):
        return ""
    return f"The {unit_of(estimate)}s {DEPENDENT}: no error rate, p-value or interval below holds."


def estimates_of(result: Estimate | Several) -> list[Estimate] | None:
    """Return the estimates of several tests; None for one."""
    results: Mapping[Any, Estimate] | None = getattr(result, "results", None)
    return None if results is None else list(results.values())


def _of_one(estimate: Estimate, names: Names | None, row_names: Sequence[Any] | None) -> tuple[str, ...]:
    return _found(estimate, names), _withstood(estimate), suspected(estimate, row_names)


# What was found, and on which condition.


def _found(estimate: Estimate, names: Names | None) -> str:
    plan, k = estimate.plan, int(estimate.support.size)
    verb, what = claim(estimate, names)
    if plan.question.selection == "paper":
        were = "was" if k == 1 else "were"
        selected = f"{count_of(k, plan.n_features, 'feature')} {were} selected{_sides(estimate, names)}"
        return f"{selected} by the paper’s rule, which has no error rate."
    q = f" with q ≤ {plan.question.level:g}" if plan.question.selection in ("fdr", "fdr_by") else ""
    if not k:
        return (
            f"None of {pluralize(plan.n_features, 'feature')} can be said to {verb} {what}{q}, {_if(estimate, names)}."
        )
    counted = f"{count_of(k, plan.n_features, 'feature')} {VERBS[verb][k > 1]} {what}{q}{_sides(estimate, names)}"
    return f"{counted}, {condition(estimate, names)}.{_centres(estimate)}"


def claim(estimate: Estimate, names: Names | None) -> tuple[str, str]:
    """Return what is claimed of a selected feature: a verb of `VERBS` and the rest."""
    plan, pair = estimate.plan, groups.matched(estimate)
    if names is None and pair is None:
        return "have", f"a mean {_beyond(estimate)}"
    within = ", within pairs" if pair else ""
    reference, label = names or pair or ("", "")
    more, side = plan.question.min_effect, plan.question.side.pick("", "higher", "lower")
    by = f" by more than {more:g}" if more > 0 else ""
    than = f"in {label} than in {reference}"
    if side and more < 0:
        other = "lower" if side == "higher" else "higher"
        return "be", f"not {other} {than} by {-more:g} or more{within}"
    if plan.question.target == "mean":
        return "have", f"{'a ' + side if side else 'another'} mean {than}{by}{within}"
    if side:
        return "be", f"{side} {than}{by}{within}"
    strata = f" within {plan.n_strata:,} strata" if plan.n_strata > 1 else ""
    return "differ", f"between {label} and {reference}{by}{strata}{within}"


def _beyond(estimate: Estimate) -> str:
    """Say which means were looked for in one sample."""
    plan, null = estimate.plan, estimate.shift
    one = null is None or bool((null == null[0]).all())
    value = "its null value" if not one else "0" if null is None else f"{null[0]:g}"
    if plan.question.side is Side.BOTH:
        return f"more than {plan.min_effect:g} away from {value}" if plan.min_effect else f"other than {value}"
    far = f" by more than {plan.question.min_effect:g}" if plan.question.min_effect else ""
    return f"{plan.question.side.pick('', 'above', 'below')} {value}{far}"


def _sides(estimate: Estimate, names: Names | None) -> str:
    """Say how many of the selected features are up and how many down; empty where one side was looked for."""
    if estimate.plan.question.side is not Side.BOTH or not estimate.support.size:
        return ""
    up = int(np.sum(signs_of(estimate, estimate.support) > 0))
    down = int(estimate.support.size) - up
    pair = names or groups.matched(estimate)
    where = f" in {pair[1]}" if pair else ""
    sides = [f"{number:,} {side}" for number, side in ((up, "up"), (down, "down")) if number]
    return f" ({', '.join(sides)}{where})" if up + down > 1 else f" ({'up' if up else 'down'}{where})"


def signs_of(estimate: Estimate, features: IntArray) -> FloatArray:
    """Return on which side of the null value features lie, by their estimates, by β where these are none or 0."""
    null = 0.0 if estimate.shift is None else estimate.shift[features]
    by_value = np.sign(estimate.mean[features] - null)
    return np.where(np.isfinite(by_value) & (by_value != 0), by_value, np.sign(estimate.beta[features]))


def _centres(estimate: Estimate) -> str:
    """Say of how many selected features a centre was found and not a mean."""
    skewed = int(np.sum(estimate.skewed[estimate.support] == 1))
    if not skewed:
        return ""
    return f" {skewed:,} of them {'looks' if skewed == 1 else 'look'} skewed: a centre there, not a mean."


def condition(estimate: Estimate, names: Names | None) -> str:
    """Say on which condition what was selected holds: how many rows may be bad, or that no more are than look it."""
    plan, unit = estimate.plan, unit_of(estimate)
    if not plan.auto:
        if not plan.bad_rows:
            return f"provided that no {unit} is bad"
        if plan.question.selection == "fdr":  # not against an adversary, who could hide true signals
            return f"with {_any(estimate, names)} allowed to be bad"
        one = plan.bad_rows == 1 and not plan.sizes
        return f"even if any {_any(estimate, names)} {'is' if one else 'are'} wrong"
    if not judged(estimate):
        return f"provided that no {unit} is bad: {unit}s were not screened, so none is allowed for"
    # Rows far in a few columns look bad too, without a part in the number allowed for.
    like = (
        ("lies off together with others", "lie off together") if FEW in kinds_of(estimate) else ("looks it", "look bad")
    )
    if more_look_bad(estimate):
        least = f"no more than {_any(estimate, names)} are bad" if plan.bad_rows else f"no {unit} is bad"
        return f"provided that {least}, although more look it"
    if not plan.bad_rows:
        doubt = "" if plan.n_units >= SHOWING else f", though among so few {unit}s bad ones may not show"
        return f"provided that no {unit} is bad: none {like[0]}{doubt}"
    if names is not None:
        return f"provided that no more {unit}s are bad than {like[1]}: {_any(estimate, names)}"
    which = f"the {plan.bad_rows:,} that {like[1]}" if plan.bad_rows > 1 else "the one that looks bad"
    return f"provided that no more {unit}s are bad than {which}"


def _if(estimate: Estimate, names: Names | None) -> str:
    """Say for how many bad rows nothing was selected."""
    plan, unit = estimate.plan, unit_of(estimate)
    if not plan.bad_rows:
        return f"even if no {unit} is bad"
    if plan.auto:
        look_it = "although more look it" if more_look_bad(estimate) else "as many as look it"
        return f"with {_any(estimate, names)} allowed to be bad, {look_it}"
    return f"if any {_any(estimate, names)} may be wrong"


def _any(estimate: Estimate, names: Names | None) -> str:
    """Say how many of how many may be bad."""
    plan, unit = estimate.plan, unit_of(estimate)
    if names is not None:
        return groups.bad(plan, names, unit)
    number = "one" if plan.bad_rows == 1 else f"{plan.bad_rows:,}"
    return f"{number} of the {plan.n_units:,} {unit}s"


# How many bad rows it withstands.


def _withstood(estimate: Estimate) -> str:
    plan, k = estimate.plan, int(estimate.support.size)
    if plan.question.selection == "paper":
        left = int(np.sum(estimate.decision.last[estimate.support] >= plan.bad_rows))
        bad = f" with {pluralize(plan.bad_rows, 'bad row')}" if plan.bad_rows else ""
        some = "All" if left == k else "None" if not left else f"{left:,}"
        return f"{some} of them would be selected by Holm’s rule{bad} too, which has one." if k else ""
    if not k:
        return _closest(estimate)
    of = "of each group" if plan.sizes else f"of the {unit_of(estimate)}s"
    last = estimate.max_contamination[estimate.support]
    return _left(last, least=allowed_share(plan), of=of, sure=plan.question.selection == "fwer")


def allowed_share(plan: Plan) -> float:
    """Return the share that may be bad; of groups that of the one with the smaller share."""
    return min(plan.bad_shares)


def _left(last: FloatArray, *, least: float, of: str, sure: bool) -> str:
    """Say how many of some features are left at shares that people think in, beyond ``least``.

    ``sure``: under a rule by which a feature is real or more rows are bad, for all shares at once.
    """
    if last.size == 1:
        share = float(last[0])
        return f"It survives up to {percent(share)} bad {_short(of)}." if share > least + TIED else ""
    left = [(share, int(np.sum(last >= share - TIED))) for share in SHARES if share > least + TIED]
    while len(left) > 1 and left[1][1] == last.size:  # all are left at more
        del left[0]
    told, before = [], -1
    for share, number in left:
        if number != before:
            told.append((share, number))
        before = number
    if not told:
        return ""
    (first, number), *others = told[:MOST_SHARES]
    verb = "is" if of.startswith("of each") else "are"
    how = f"even if {percent(first)} {of} {verb} wrong" if sure else f"would be selected with {percent(first)} {of} bad"
    if not number:
        beyond = f"none of them if {percent(first)} {of} {verb} wrong" if sure else f"none of them {how}"
        strongest = f"the strongest up to {percent(float(last.max()))}" if last.max() > least + TIED else ""
        return f"{beyond.capitalize()}{'; ' + strongest if strongest else ''}."
    some = "All of them" if number == last.size else f"{number:,} of them"
    rest = "".join(f", {'none' if not n else f'{n:,}'} at {percent(share)}" for share, n in others)
    return f"{some} {how}{rest}."


def _short(of: str) -> str:
    return "rows of each group" if of.startswith("of each") else of.removeprefix("of the ")


def _closest(estimate: Estimate) -> str:
    """Say at which share of bad rows a feature would be selected, where none is."""
    kept = np.setdiff1d(np.arange(estimate.plan.n_features), estimate.decision.skipped)
    if not kept.size:
        return ""
    last, unit = estimate.max_contamination[kept], unit_of(estimate)
    if np.isnan(last).all() and estimate.plan.bad_rows:
        return f"Not even if no {unit} were bad would one be selected."
    if np.isnan(last).all():
        name, value = adjusted(estimate)
        best = kept[np.lexsort((-np.abs(estimate.beta[kept]), estimate.p_values[kept]))[0]]
        return f"The strongest, {_named(estimate, best)}, has {name} = {value[best]:.2g}."
    number, share = int(np.sum(~np.isnan(last))), float(np.nanmax(last))
    best = kept[int(np.nanargmax(last))]
    of = " of each group" if estimate.plan.sizes else ""
    if number == 1:
        return f"1 would be selected with up to {percent(share)} bad {unit}s{of}: {_named(estimate, best)}."
    strongest = f"the strongest, {_named(estimate, best)}, with up to {percent(share)} bad {unit}s{of}"
    return f"{number:,} would be selected if no {unit} were bad, {strongest}."


def _named(estimate: Estimate, feature: int) -> str:
    return f"feature {feature}" if estimate.feature_names is None else str(estimate.feature_names[feature])


def adjusted(estimate: Estimate) -> tuple[str, FloatArray]:
    """Return what the rule compares with the level: its name in words, and the values of all features."""
    if estimate.plan.question.selection in ("fdr", "fdr_by"):
        return "q", estimate.q_values
    return "adjusted p", estimate.p_adjusted


# Several tests of groups.


def name_of_test(names: Names) -> str:
    """Return what a test is called.

    Examples
    --------
    >>> name_of_test(("control", "new"))
    'new against control'
    """
    return f"{names[1]} against {names[0]}"


def which_tests(names: Sequence[Names]) -> str:
    """Say what was compared with what."""
    references = {reference for reference, _ in names}
    if references == {groups.REST}:
        return "each label against the rest"
    if len(references) == 1:
        return f"each other label against {references.pop()}"
    return "labels pair by pair"


def selected_by_test(estimates: Sequence[Estimate], most: int) -> str:
    """Say how many features each test selects; of many tests those with most."""
    names = names_of_tests(estimates)
    same = len({reference for reference, _ in names}) == 1
    labels = [label if same else name_of_test((reference, label)) for reference, label in names]
    told = [(int(each.support.size), label) for each, label in zip(estimates, labels, strict=True)]
    if len(told) > most:
        told = sorted(told, key=lambda pair: -pair[0])
    if not any(number for number, _ in told):
        return "none in any test"
    more = f", and no more in the other {len(told) - most:,} tests" if len(told) > most else ""
    return ", ".join(f"{label}: {number:,}" for number, label in told[:most]) + more


def _of_tests(estimates: Sequence[Estimate], row_names: Sequence[Any] | None) -> tuple[str, ...]:
    plan, d = estimates[0].plan, estimates[0].plan.n_features
    names = names_of_tests(estimates)
    verb, what = _claim_of_tests(estimates[0])
    found = np.unique(np.concatenate([each.support for each in estimates]))
    tests = f"{pluralize(len(estimates), 'test')}, {which_tests(names)}"
    q = f" with q ≤ {plan.question.level:g}" if plan.question.selection in ("fdr", "fdr_by") else ""
    if not found.size:
        first = f"None of {pluralize(d, 'feature')} can be said to {verb}{what}{q} in any of {tests}"
    else:
        by_test = selected_by_test(estimates, MOST_TESTS)
        some = f"{count_of(found.size, d, 'feature')} {VERBS[verb][found.size > 1]}{what}{q}"
        first = f"{some} in some of {tests} ({by_test})"
    last = np.array([_shares(each, found) for each in estimates])
    left = _left(
        last.max(axis=0), least=max(allowed_share(each.plan) for each in estimates), of="of each group",
        sure=plan.question.selection == "fwer",
    ) if found.size else ""  # fmt: skip
    return (
        f"{first}, {_condition_of_tests(estimates, bool(found.size))}.",
        left,
        suspects_of_tests(estimates, row_names),
    )


def _claim_of_tests(estimate: Estimate) -> tuple[str, str]:
    """Return what is claimed where tests are several and have no names of their own."""
    verb, what = claim(estimate, ("the reference", "the label"))
    return verb, "" if verb == "differ" and not estimate.plan.question.min_effect else f" {what}"


def _shares(estimate: Estimate, features: IntArray) -> FloatArray:
    """Return the largest share at which one test selects features; −1 where it does not select them."""
    return np.where(np.isin(features, estimate.support), estimate.max_contamination[features], -1.0)


def _condition_of_tests(estimates: Sequence[Estimate], found: bool) -> str:
    """Say on which condition all of it holds."""
    plan, unit = estimates[0].plan, unit_name(estimates[0].units)
    if not any(each.plan.bad_rows for each in estimates):
        looked = any(judged(each) for each in estimates)
        why = "" if not plan.auto else ": none looks it" if looked else ": none was screened"
        return f"provided that no {unit} is bad{why}" if found else f"even if no {unit} is bad"
    if plan.auto:
        return f"provided that in no test more {unit}s of either group are bad than look bad there"
    shares = {groups.shares(each.plan, name) for each, name in zip(estimates, names_of_tests(estimates), strict=True)}
    share = shares.pop() if len(shares) == 1 else "a share of each group"
    if plan.question.selection == "fdr":
        return f"with {share} allowed to be bad"
    return f"{'even if' if found else 'if'} {share} {'is' if found else 'may be'} wrong"
