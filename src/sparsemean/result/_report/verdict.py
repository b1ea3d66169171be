"""The verdict: what was found, how many bad rows it withstands and which rows look bad, in two or three sentences.

Summaries, what is printed, notebooks, the command line and the page begin with it, so it says nothing that they would
have to take back: under Holm's rule sentences are claims, under other rules they say what was selected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sparsemean._fit.messages import DEPENDENT, NOT_GUARANTEED
from sparsemean._fit.power import CANNOT
from sparsemean._stats.effects import PAIRS
from sparsemean._stats.row_scores import FEW, LABEL, LARGE, TOGETHER
from sparsemean._util.checks import count_of, list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import visible
from sparsemean.result import Estimate
from sparsemean.result._report.wording import EACH, REST, Q, Wording, percent, wording_of, wordings_of
from sparsemean.result.comparison import Comparison

SHARES = (0.01, 0.05, 0.1, 0.2)
"""Shares of bad rows that people think in."""
MOST_SHARES = 3
"""Shares that a sentence goes through."""
MOST_TESTS = 6
"""Tests that a sentence names."""
VERBS = {"have": ("has", "have"), "differ": ("differs", "differ"), "be": ("is", "are")}
TIED = 1e-9
"""Shares closer than this are one: both are numbers of rows over numbers of rows."""
SHOWING = 80
"""Rows from which on a few bad ones that are far off show nearly always."""


def verdict(result: Estimate | Comparison, *, row_names: Sequence[object] | None = None) -> tuple[str, ...]:
    """Return the verdict, a sentence or two a line: found, withstood, suspected; what there is not is left out.

    Rows are called by ``row_names``, one for each, else by their own.

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], contamination=0.1, random_state=0)
    >>> verdict(sparse_mean(data.X, contamination=0.1))[0]
    '4 of 100 features have a mean other than 0 (2 up, 2 down), even if any 60 of the 600 rows are wrong.'
    """
    tests = wordings_of(result, row_names)
    first, selected = tests[0], np.unique(np.concatenate([test.estimate.support for test in tests]))
    said = "".join(first.estimate.status.messages)
    void = f"The {first.unit}s {DEPENDENT}: no error rate, p-value or interval below holds." * (DEPENDENT in said)
    if NOT_GUARANTEED in said:
        void += " Not guaranteed: the suspects were taken out by looking at the values."
    who = suspected(first) if len(tests) == 1 else suspects_of_tests(tests)
    forbidden = ["" if test.k else hopeless(test.estimate) for test in tests]
    if all(forbidden):  # by the test that comes nearest to it; what fewer bad rows would show is told besides
        nearest = max(range(len(tests)), key=lambda test: min(tests[test].sizes))
        found, withstood = f"{forbidden[nearest]}.", _withstood(tests, selected) if first.plan.bad_rows else ""
    else:
        found, withstood = _found(tests, selected.size), _withstood(tests, selected)
    too_small = [test.contrast for test, said in zip(tests, forbidden, strict=True) if said and not all(forbidden)]
    few = f"Too few {first.unit}s to show anything, whatever the data: {list_names(too_small)}." if too_small else ""
    return tuple(visible(line) for line in (void.strip(), found, few, withstood, who) if line)


def hopeless(estimate: Estimate) -> str:
    """Return what an estimate says where its design alone forbids every selection; else nothing."""
    return next((note for note in estimate.status.messages if CANNOT in note), "")


# What was found, and on which condition.


def _found(tests: Sequence[Wording], k: int) -> str:
    """Say that k features were selected, by one test or by some of several."""
    first, one, d = tests[0], len(tests) == 1, tests[0].plan.n_features
    counted = count_of(k, d, "feature")
    if first.rule.paper:
        were = "was" if k == 1 else "were"
        return f"{counted} {were} selected{_sides(first)} by the paper’s rule, which has no error rate."
    # Several have no names of their own.
    verb, what = claim(first if one else wording_of(first.estimate, ("the reference", "the label")))
    what = "" if not one and verb == "differ" and not first.plan.question.min_effect else f" {what}"
    what += f" with q ≤ {first.plan.question.level:g}" if first.rule.compared is Q else ""
    what += "" if one else f" in {'some' if k else 'any'} of {pluralize(len(tests), 'test')}, {which_tests(tests)}"
    on = condition(first) if one else _condition_of_tests(tests, found=k > 0)
    if not k:
        return f"None of {pluralize(d, 'feature')} can be said to {verb}{what}, {on}."
    split = _sides(first) if one else f" ({selected_by_test(tests, MOST_TESTS)})"
    skewed = int(np.sum(first.estimate.skewed[first.estimate.support] == 1)) if one else 0
    centres = f" {skewed:,} of them {'looks' if skewed == 1 else 'look'} skewed: a centre there, not a mean."
    return f"{counted} {VERBS[verb][k > 1]}{what}{split}, {on}.{centres if skewed else ''}"


def claim(wording: Wording) -> tuple[str, str]:
    """Return what is claimed of a selected feature: a verb of `VERBS` and the rest."""
    side, more = wording.side, wording.plan.question.min_effect
    by = f" by more than {more:g}" if more else ""
    if wording.names is None and not wording.estimate.paired:
        value = wording.null or "its null value"
        if side.above:
            return "have", f"a mean {side.above} {value}{by}"
        return "have", f"a mean {f'more than {more:g} away from' if more else 'other than'} {value}"
    within = ", within pairs" if wording.estimate.paired else ""
    than = f"in {wording.label} than in {wording.reference}"
    if wording.test.means:
        return "have", f"{f'a {side.higher}' if side.higher else 'another'} mean {than}{by}{within}"
    if side.higher:
        return "be", f"{side.higher} {than}{by}{within}"
    return "differ", f"between {wording.label} and {wording.reference}{by}{wording.strata}{within}"


def _sides(wording: Wording) -> str:
    """Say how many of the selected features are up and how many down; empty where one side was looked for."""
    estimate, k = wording.estimate, wording.k
    if wording.side.above or not k:
        return ""
    up = int(np.sum(signs_of(estimate, estimate.support) > 0))
    where = f" in {wording.label}" if wording.names or wording.estimate.paired else ""
    told = [f"{number:,} {side}" if k > 1 else side for number, side in ((up, "up"), (k - up, "down")) if number]
    return f" ({', '.join(told)}{where})"


def signs_of(estimate: Estimate, features: IntArray) -> FloatArray:
    """Return on which side of the null value features lie, by their estimates, by β where these are none or 0."""
    null = 0.0 if estimate.shift is None else estimate.shift[features]
    by_value = np.sign(estimate.mean[features] - null)
    by_value[estimate.measure[features] == PAIRS] = 0.0  # no value, but a share, whatever the null value is
    return np.where(np.isfinite(by_value) & (by_value != 0), by_value, np.sign(estimate.beta[features]))


def condition(wording: Wording) -> str:
    """Say on which condition it holds that these features, or none, were selected: how many rows may be bad."""
    plan, unit, some = wording.plan, wording.unit, wording.bad
    none_bad = f"provided that no {unit} is bad"
    if not wording.k:
        if not plan.bad_rows:
            return f"even if no {unit} is bad"
        look_it = "although more look it" if wording.more_look_bad else "as many as look it"
        return f"with {some} allowed to be bad, {look_it}" if plan.auto else f"if any {some} may be wrong"
    if not plan.auto:
        if not plan.bad_rows:
            return none_bad
        if not wording.rule.adversary:  # who could hide true signals
            return f"with {some} allowed to be bad"
        return f"even if any {some} {'is' if wording.allowed == (1,) else 'are'} wrong"
    if not wording.judged:
        return f"{none_bad}: {unit}s were not screened, so none is allowed for"
    if wording.more_look_bad:
        least = f"provided that no more than {some} are bad" if plan.bad_rows else none_bad
        return f"{least}, although more look it"
    if unnamed := wording.rows.unnamed:
        which = "none" if unnamed == plan.bad_rows else f"{unnamed:,}"
        return f"provided that no more than {some} are bad, {which} of which can{'not' * (which != 'none')} be named"
    # Rows far in a few columns look bad too, without a part in the number allowed for.
    looks, look = (
        ("lies off together with others", "lie off together") if FEW in wording.rows.kinds else ("looks it", "look bad")
    )
    if not plan.bad_rows:
        doubt = "" if plan.n_units >= SHOWING else f", though among so few {unit}s bad ones may not show"
        return f"{none_bad}: none {looks}{doubt}"
    no_more = f"provided that no more {unit}s are bad than"
    if wording.names is not None:
        return f"{no_more} {look}: {some}"
    return f"{no_more} {f'the {plan.bad_rows:,} that {look}' if plan.bad_rows > 1 else 'the one that looks bad'}"


# How many bad rows it withstands.


def _withstood(tests: Sequence[Wording], selected: IntArray) -> str:
    first, k = tests[0], selected.size
    if first.rule.paper:
        bad_rows = first.plan.bad_rows
        left = int(np.sum(first.estimate.decision.last[selected] >= bad_rows))
        bad = f" with {pluralize(bad_rows, 'bad row')}" if bad_rows else ""
        some = "All" if left == k else "None" if not left else f"{left:,}"
        return f"{some} of them would be selected by Holm’s rule{bad} too, which has one." if k else ""
    if not k:
        return closest_in_words(first) if len(tests) == 1 else ""
    each = [test.estimate for test in tests]
    last = [np.where(np.isin(selected, one.support), one.max_contamination[selected], -1.0) for one in each]
    return _left(first, np.max(last, axis=0), least=max(min(test.plan.bad_shares) for test in tests))


def _left(wording: Wording, last: FloatArray, *, least: float) -> str:
    """Say how many of some features are left at shares that people think in, beyond ``least``."""
    groups, sure = wording.names is not None, wording.rule.all_shares
    if last.size == 1:
        share, of = float(last[0]), "rows of each group" if groups else f"{wording.unit}s"
        return f"It survives up to {percent(share)} bad {of}." if share > least + TIED else ""
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
    some = f"{percent(first)} of each group" if groups else f"{percent(first)} of the {wording.unit}s"
    wrong = f"if {some} {'is' if groups else 'are'} wrong"
    if not number:
        beyond = f"none of them {wrong}" if sure else f"none of them would be selected with {some} bad"
        strongest = f"; the strongest up to {percent(float(last.max()))}" if last.max() > least + TIED else ""
        return f"{beyond.capitalize()}{strongest}."
    them = "All of them" if number == last.size else f"{number:,} of them"
    rest = "".join(f", {'none' if not n else f'{n:,}'} at {percent(share)}" for share, n in others)
    return f"{them} {f'even {wrong}' if sure else f'would be selected with {some} bad'}{rest}."


def closest_in_words(wording: Wording) -> str:
    """Say at which share of bad rows a feature would be selected, where none is."""
    estimate, unit = wording.estimate, wording.unit
    kept = np.setdiff1d(np.arange(wording.plan.n_features), estimate.decision.skipped)
    if not kept.size:
        return ""
    last = estimate.max_contamination[kept]
    number = int(np.sum(~np.isnan(last)))
    if not number and wording.plan.bad_rows:
        return f"Not even if no {unit} were bad would one be selected."
    if not number:
        keys = -np.abs(estimate.beta[kept]), estimate.p_values[kept], wording.adjusted[kept]
        best = kept[np.lexsort(keys)[0]]
        name, value = wording.rule.compared.name, wording.adjusted[best]
        return f"The strongest, {_named(estimate, best)}, has {name} = {value:.2g}."
    best = kept[int(np.nanargmax(last))]
    of = " of each group" if wording.names else ""
    up_to = f"with up to {percent(float(np.nanmax(last)))} bad {unit}s{of}"
    if number == 1:
        return f"1 would be selected {up_to}: {_named(estimate, best)}."
    return f"{number:,} would be selected if no {unit} were bad, the strongest, {_named(estimate, best)}, {up_to}."


def _named(estimate: Estimate, feature: int) -> str:
    return f"feature {feature}" if estimate.feature_names is None else str(estimate.feature_names[feature])


# Who looks bad, and what speaks against them.

MOST_REASONS = 3
"""Features that a sentence names against one row."""
THROUGHOUT = "large throughout, as good {unit}s with a scale of their own may be, and not counted as bad"
WORDS_OF_KINDS = {
    TOGETHER: ("lies off", "lie off together"),
    LABEL: ("contradicts its label", "contradict their label"),
    FEW: ("is far off in a few columns", "are far off in a few columns"),
    LARGE: (f"is {THROUGHOUT}", f"are {THROUGHOUT}"),
}
"""What suspects of each kind do, one of them and several, in the order in which they are told."""
MEANINGS = {
    LABEL: "by features in which the groups lie far enough apart to judge a label",
    TOGETHER: "to the same side, as if one cause had moved them; by default as many bad rows are allowed for",
    FEW: "a few values stand far out, as a slip of a unit or a sensor looks",
    LARGE: "all values are large; where rows have scales of their own these are good rows",
}
"""What each kind means to a reader of the page."""


def suspected(wording: Wording) -> str:
    """Name the suspects, kind by kind."""
    if not wording.judged:
        return ""
    if not wording.rows.suspects.size:
        return "" if wording.plan.auto else f"No {wording.unit} looks bad."
    kinds = np.array(wording.rows.kinds)
    by_kind = ((kind, np.flatnonzero(kinds == kind)) for kind in WORDS_OF_KINDS)
    return " ".join(_of_kind(wording, kind, which) for kind, which in by_kind if which.size)


def _of_kind(wording: Wording, kind: str, which: IntArray) -> str:
    """Name the suspects of one kind, and what speaks against them."""
    suspects, units = wording.rows.suspects[which], wording.estimate.units
    against = [wording.rows.reasons[place] for place in which.tolist()] if wording.rows.reasons else []
    number, of = suspects.size, ""
    if units is not None and not wording.names:  # the rows of subjects
        number = np.unique(units[suspects]).size
        of = f" ({pluralize(suspects.size, 'row')})"
    shown, note = called(wording, suspects)
    if kind == FEW and against:
        shown = _with_reasons(wording, shown, against, most=2)
    if kind == TOGETHER:
        speaking = Counter(feature for features in against for feature in features).most_common(MOST_REASONS + 1)
        most = features_against(wording, tuple(feature for feature, _ in speaking))
        note += f", most of all in {list_names(most, MOST_REASONS)}" if most else ""
    does = WORDS_OF_KINDS[kind][number > 1].format(unit=wording.unit)
    return _told(f"{pluralize(number, wording.unit)}{of} {does}", shown, note)


def _told(claim: str, names: Sequence[str | int], note: str) -> str:
    """Return a sentence with those it is about, and its full stop; three dots are one."""
    sentence = f"{claim}: {list_names(names)}{note}"
    return sentence if sentence.endswith("…") else f"{sentence}."


def _with_reasons(
    wording: Wording, names: Sequence[str | int], against: Sequence[tuple[int, ...]], *, most: int
) -> list[str]:
    """Return names of rows, each with the first features that speak against it."""
    listed = (list_names(features_against(wording, features[: most + 1]), most) for features in against)
    return [f"{name} ({features})" for name, features in zip(names, listed, strict=True)]


def features_against(wording: Wording, features: tuple[int, ...]) -> list[str]:
    """Return the names of features that speak against a row."""
    return [str(name) for name in wording.estimate.names(np.array(features, dtype=np.intp))]


def called(wording: Wording, rows: IntArray) -> tuple[Sequence[str | int], str]:
    """Return what rows are called, and what there is to say of numbers."""
    if wording.row_names is not None:
        return [str(wording.row_names[row]) for row in rows.tolist()], ""
    names = wording.estimate.row_names(rows.tolist())
    return names, " (counted from 0)" if any(isinstance(name, int) for name in names) else ""


def worst_first(wording: Wording) -> str:
    """Name the worst suspects and what speaks against each; empty where that is not known."""
    if not wording.rows.reasons:
        return ""
    names, note = called(wording, wording.rows.suspects)
    told = _with_reasons(wording, names, wording.rows.reasons, most=MOST_REASONS)
    return f"Suspects, worst rows first{note}, with the features that speak against each: {list_names(told)}."


# Several tests of groups.


def which_tests(tests: Sequence[Wording]) -> str:
    """Say what was compared with what."""
    references = {test.reference for test in tests}
    if references == {REST}:
        return "each label against the rest"
    if references == {EACH}:
        return "each label against each other one"
    return f"each other label against {references.pop()}" if len(references) == 1 else "labels pair by pair"


def selected_by_test(tests: Sequence[Wording], most: int) -> str:
    """Say how many features each test selects; of many tests those with most."""
    same = len({test.reference for test in tests}) == 1
    told = [(test.k, test.label if same else test.contrast) for test in tests]
    if len(told) > most:
        told = sorted(told, key=lambda pair: -pair[0])
    if not any(number for number, _ in told):
        return "none in any test"
    more = f", and no more in the other {len(told) - most:,} tests" if len(told) > most else ""
    return ", ".join(f"{label}: {number:,}" for number, label in told[:most]) + more


def _condition_of_tests(tests: Sequence[Wording], *, found: bool) -> str:
    """Say on which condition all of it holds."""
    first, unit = tests[0], tests[0].unit
    if not any(each.plan.bad_rows for each in tests):
        looked = any(each.judged for each in tests)
        why = "" if not first.plan.auto else ": none looks it" if looked else ": none was screened"
        return f"provided that no {unit} is bad{why}" if found else f"even if no {unit} is bad"
    if first.plan.auto:
        return f"provided that in no test more {unit}s of either group are bad than look bad there"
    shares = {each.shares for each in tests}
    share = shares.pop() if len(shares) == 1 else "a share of each group"
    if not first.rule.adversary:
        return f"with {share} allowed to be bad"
    return f"{'even if' if found else 'if'} {share} {'is' if found else 'may be'} wrong"


def suspects_of_tests(tests: Sequence[Wording]) -> str:
    """Name rows that look like another group than their own, each where it looks worst, and rows off from their own."""
    found: dict[int, tuple[float, str]] = {}
    others: dict[str, set[int]] = {}
    for each in tests:
        rows, labels = each.estimate.rows, each.estimate.labels
        if rows is None or labels is None:
            continue
        for row, kind in zip(rows.suspects.tolist(), rows.kinds, strict=True):
            if kind != LABEL:
                others.setdefault(kind, set()).add(row)
                continue
            like = f"unlike {each.label}" if labels[row] == 1 else f"like {each.label}"
            found[row] = max(found.get(row, (-np.inf, "")), (float(rows.scores[row]), like))
    first, sentences = tests[0], []
    if found:
        worst = np.array(sorted(found, key=lambda row: -found[row][0]), dtype=np.intp)
        shown, note = called(first, worst)
        told = [f"{name} ({found[row][1]})" for name, row in zip(shown, worst.tolist(), strict=True)]
        does = WORDS_OF_KINDS[LABEL][len(told) > 1]
        sentences.append(_told(f"{pluralize(len(told), first.noun)} {does}", told, note))
    for kind in (TOGETHER, FEW):
        if off := sorted(others.get(kind, set()) - set(found)):
            shown, note = called(first, np.array(off, dtype=np.intp))
            sentences.append(_told(f"{pluralize(len(off), first.noun)} {kind}", shown, note))
    return " ".join(sentences)
