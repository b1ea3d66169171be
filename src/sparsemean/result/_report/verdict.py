"""The verdict: what holds, what it assumes, what else would hold, and who is suspicious; the same lines everywhere.

Print, summaries, notebooks, the command line, scorecards and the page begin with it, so it says nothing that they would
have to take back: under Holm's rule sentences are claims, under other rules they say what was selected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import NamedTuple

import numpy as np

from sparsemean._fit.afterwards import FITTED, plan_at
from sparsemean._fit.messages import DEPENDENT, NOT_GUARANTEED
from sparsemean._fit.power import ASSUMED, CANNOT
from sparsemean._stats.effects import PAIRS
from sparsemean._stats.planning import SELECTIONS, bad_pairs, bad_rows
from sparsemean._stats.row_scores import FEW, LABEL, LARGE, TOGETHER
from sparsemean._util.checks import NAMED, count_of, list_names, pluralize, unit_name
from sparsemean._util.plans import BadRows
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError, visible
from sparsemean.result import Estimate
from sparsemean.result._report.closest import nearest, nearest_feature, needed
from sparsemean.result._report.wording import EACH, FEW_ROWS, REST, Q, Wording, percent, wording_of, wordings_of
from sparsemean.result.comparison import Comparison, tests_of

SHARES = (0.05, 0.1, 0.2)
"""Shares of bad rows that people think in: the first beyond what was assumed is told."""
MOST_TESTS = 6
"""Tests that a sentence names."""
VERBS = {
    "have": ("has", "have"), "differ": ("differs", "differ"), "be": ("is", "are"), "rise": ("rises", "rise"),
    "fall": ("falls", "fall"), "rise or fall": ("rises or falls", "rise or fall"),
}  # fmt: skip
TIED = 1e-9
"""Shares closer than this are one: both are numbers of rows over numbers of rows."""
SHOWING = 80
"""Rows from which on a few bad ones that are far off show nearly always."""
MOST_FITTED = 50_000_000
"""Values up to which rows are fitted again without the suspects, unasked: some seconds."""


@dataclass(frozen=True, eq=False)
class Family:
    """The tests of a result, and what they select for other shares of bad rows: decided once for each."""

    result: Estimate | Comparison
    tests: list[Wording]
    stops: Sequence[float] = ()
    """Shares of bad rows at which the slider of a page stops."""
    known: dict[float, list[Wording]] = field(default_factory=dict)

    def at(self, share: float) -> list[Wording]:
        """Return what would be selected, with its p-values; nothing where the evidence of the fit is gone."""
        decision = self.tests[0].estimate.decision
        if decision.evidence is None:
            return []
        if share not in self.known:
            plans = [plan_at(test.estimate, share) for test in self.tests]
            again, told = (decision.whole or decision).at(plans[0][1], some=True), []
            for test, (plan, _) in zip(self.tests, plans, strict=True):
                estimate = test.estimate
                own = again.of(estimate.decision.contrast).without(estimate.decision.skipped)
                located = replace(estimate.located, support=own.support)
                decided = replace(estimate, plan=plan, decision=own, located=located)
                told.append(wording_of(decided, row_names=test.row_names))
            self.known[share] = told
        return self.known[share]

    def counts(self, share: float) -> list[int]:
        """Return how many features each test selects; of one of several tests, or a saved one, what was decided."""
        if self.tests[0].plan.n_tests == len(self.tests) and (told := self.at(share)):
            return [test.k for test in told]
        kept = [np.delete(test.estimate.max_contamination, test.estimate.decision.skipped) for test in self.tests]
        return [int(np.sum(last >= share - TIED)) for last in kept]

    def without_suspects(self) -> list[int]:
        """Return how many features each test selects without the suspects, fitted once; nothing if that is too much."""
        counts, plan = vars(self.result).setdefault("_without", list[int]()), self.tests[0].plan
        there = self.tests[0].estimate.source is not None and plan.n_rows * plan.n_features <= MOST_FITTED
        if there and not counts:
            with suppress(InputError), FITTED.reading():
                counts += [each.support.size for each in tests_of(self.result.without_suspects())]
        return list(counts)


def verdict(result: Estimate | Comparison, *, row_names: Sequence[object] | None = None) -> tuple[str, ...]:
    """Return the lines of the verdict; one that has nothing to say is left out.

    Rows are called by ``row_names``, one for each, else by their own.

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], contamination=0.1, random_state=0)
    >>> verdict(sparse_mean(data.X, contamination=0.1))[0]
    '4 of 100 features have a mean other than 0 (2 above, 2 below), even if any 60 of the 600 rows are wrong, as asked.'
    """
    tests = wordings_of(result, row_names)
    return lines_of(tests, Family(result, tests), range(len(tests)))


def lines_of(tests: Sequence[Wording], family: Family, places: Sequence[int]) -> tuple[str, ...]:
    """Return the verdict on tests at some places of a family, perhaps decided again for other bad rows."""
    first = tests[0]
    order = np.argsort([-test.k for test in tests] if len(tests) > MOST_TESTS else [0] * len(tests), kind="stable")
    dependent, alarms = _lifted(first, DEPENDENT), _lifted(first, NOT_GUARANTEED)
    forbidden = [[] if test.k else _lifted(test, CANNOT) for test in tests]
    if first.plan.question.looked:  # where other bad rows were assumed the note is of those
        forbidden = [said if said and ASSUMED not in said[0] else [] for said in forbidden]
    if all(forbidden):  # by the test that comes nearest to it; what fewer bad rows would show is told besides
        answer = forbidden[min(range(len(tests)), key=lambda k: min(tests[k].sizes))]
    else:
        answer = _answer(tests, [tests[k] for k in order[:MOST_TESTS]], void=bool(dependent))
        if too_small := [test.contrast for test, said in zip(tests, forbidden, strict=True) if said]:
            few = f"There are too few {first.unit}s to show anything, whatever the data: {list_names(too_small)}."
            answer.append(few)
    suspects, lines = _suspects(tests), [*alarms, *dependent, *answer]
    if not (alarms or dependent):
        assumed = first.plan.bad_rows or not all(forbidden)  # what cannot be shown rests on nothing else
        lines.append(_assumption(tests, suspects) if assumed else "")
        lines.append("" if first.rule.paper else _otherwise(tests, family, [places[k] for k in order]))
    if suspects:
        lines.append(_suspicious(tests, suspects))
    elif first.plan.bad_rows and not first.plan.auto and first.judged:
        lines.append(f"No {first.unit} looks suspicious.")
    return tuple(visible(line) for line in lines if line)


def _lifted(wording: Wording, sign: str) -> list[str]:
    """Return the sentences of the note that has this sign, in the words of the verdict: the first, and the rest."""
    note = next((note for note in wording.estimate.status.messages if sign in note), "")
    said = note.replace("feature", wording.feature).replace(unit_name(wording.estimate.units), wording.noun)
    return [f"{part[0].upper()}{part[1:]}." for part in said.split(". ", 1) if part]


# What holds.


def _answer(tests: Sequence[Wording], shown: Sequence[Wording], *, void: bool) -> list[str]:
    """Say which features were selected, by one test or by some of several; or would be, were the alarm not raised.

    Besides, which values are no means, or what it would take to find more.
    """
    first, one, plan, estimate = tests[0], len(tests) == 1, tests[0].plan, tests[0].estimate
    k = int(np.unique(np.concatenate([test.estimate.support for test in tests])).size)
    counted, sides = count_of(k, plan.n_features, first.feature), "" if one else _by_test(tests, shown)
    if one and k and not first.side.above:
        up, named = int(np.sum(signs_of(estimate, estimate.support) > 0)), first.names or estimate.paired
        words, where = (("higher", "lower"), f" in {first.label}") if named else (("above", "below"), "")
        if estimate.sample.y is not None:
            words = VERBS["rise"][up > 1], VERBS["fall"][k - up > 1]
        told = [f"{n:,} {side}" if k > 1 else side for n, side in zip((up, k - up), words, strict=True) if n]
        sides = f" ({', '.join(told)}{where})"
    if first.rule.paper:
        were = "was" if k == 1 else "were"
        return [f"{counted} {were} selected{sides} by the paper’s rule, which controls no error rate."]
    # Several have no names of their own.
    verb, what = claim(first if one else wording_of(estimate, ("the reference", "the label")))
    if not one:
        plain = verb == "differ" and not plan.question.min_effect
        what = f"{'between groups' if plain else what}, {which_tests(tests)}"
    rule = SELECTIONS[plan.question.selection]
    what += f" with q ≤ {plan.question.level:g} by {rule}" if first.rule.compared is Q else ""
    asked = "" if void or plan.auto else _asked(tests)
    if not k:
        best = tests[nearest(tests)]
        tested = f"{plan.n_features:,} tested{'' if one else f' in each of {len(tests)} tests'}"
        verb = "is clearly" if verb == "be" else f"clearly {VERBS[verb][0]}"
        said = f"No {first.feature} {verb} {what}{asked} ({tested}{nearest_feature(best, named=not one)})."
        return [said, needed(best)]
    verb, centre = f"would {verb}" if void else VERBS[verb][k > 1], ""
    if one and (skewed := int(np.sum(estimate.skewed[estimate.support] == 1))):
        centre = f"{'It' if k == 1 else f'{skewed:,} of them'} (*) "
        centre += "is skewed: its mean" if skewed == 1 else "are skewed: their means"
        centre += f' may still be {first.null or "the null value"}. target="mean" (--target mean) tests means.'
    return [f"{counted} {verb} {what}{sides}{asked}.", centre]


def claim(wording: Wording) -> tuple[str, str]:
    """Return what is claimed of a selected feature: a verb of `VERBS` and the rest."""
    side, more, means = wording.side, wording.plan.question.min_effect, wording.test.means
    by = f" by more than {more:g}" if more else ""
    if wording.estimate.sample.y is not None:
        said = wording.plan.question.side.pick("rise or fall", "rise", "fall")
        return said, f"with {wording.estimate.sample.y_name}{wording.strata}"
    if wording.names is None and not wording.estimate.paired:
        skewed = (wording.estimate.skewed[wording.estimate.support] == 1).any()
        what, value = "a centre" if skewed else "a mean", wording.null or "its null value"
        if side.above:
            return "have", f"{what} {side.above} {value}{by}"
        return "have", f"{what} {f'more than {more:g} away from' if more else 'other than'} {value}"
    within = ", within pairs" if wording.estimate.paired else ""
    if side.higher:
        verb, what = ("have", f"a {side.higher} mean") if means else ("be", side.higher)
        return verb, f"{what} in {wording.label} than in {wording.reference}{by}{within}"
    of_means = "in the mean " if means else ""
    return "differ", f"{of_means}between {wording.label} and {wording.reference}{by}{wording.strata}{within}"


def signs_of(estimate: Estimate, features: IntArray) -> FloatArray:
    """Return on which side of the null value features lie, by their estimates, by β where these are none or 0."""
    null = 0.0 if estimate.shift is None else estimate.shift[features]
    by_value = np.sign(estimate.mean[features] - null)
    by_value[estimate.measure[features] == PAIRS] = 0.0  # no value, but a share, whatever the null value is
    return np.where(np.isfinite(by_value) & (by_value != 0), by_value, np.sign(estimate.beta[features]))


def which_tests(tests: Sequence[Wording]) -> str:
    """Say what was compared with what."""
    references = {test.reference for test in tests}
    if references == {REST}:
        return "each against all others"
    if references == {EACH}:
        return "each against every other one"
    return f"each against {references.pop()}" if len(references) == 1 else "pair by pair"


def _by_test(tests: Sequence[Wording], shown: Sequence[Wording]) -> str:
    """Say how many features each test selects; of many tests those with most."""
    same = len({test.reference for test in tests}) == 1
    told = ", ".join(f"{test.label if same else test.contrast}: {test.k:,}" for test in shown)
    left = len(tests) - len(shown)
    return f" ({told}{f', and no more in the other {left:,} tests' if left else ''})"


def _asked(tests: Sequence[Wording]) -> str:
    """Say how many bad rows were named; nothing where none were."""
    first, found, shares = tests[0], any(test.k for test in tests), {test.shares for test in tests}
    if not any(test.plan.bad_rows for test in tests):
        return ""
    some = first.bad if len(tests) == 1 else shares.pop() if len(shares) == 1 else "a share of each group"
    asked = "" if first.plan.question.looked else ", as asked"
    if not first.rule.adversary:  # who could hide true signals
        return f", with {some} assumed {first.wrong.several}{asked}"
    if not found:
        return f" if any {some} may be {first.wrong.several}{asked}"
    return f", even if any {some} {first.wrong.so_many}{asked}"


# What it assumes.

COUNTED = (LABEL, TOGETHER)
"""Kinds of suspects that are taken as wrong unless a number is named."""


class _Suspect(NamedTuple):
    """What the test in which a row looks worst says of it; a label that is contradicted comes first."""

    by_label: bool
    score: float
    kind: str
    unit: int
    """Its number, or that of its subject."""
    like: str
    """Which label it looks like, where there are several."""
    reasons: tuple[int, ...]


def _suspects(tests: Sequence[Wording]) -> dict[int, _Suspect]:
    """Return the suspects of all tests by their numbers, in the order of one test, the worst of several first."""
    worst = dict[int, _Suspect]()
    for test in tests:
        rows, labels = test.rows, test.estimate.labels
        units = test.estimate.units if test.names is None else None
        for row, kind, why in zip(rows.suspects.tolist(), rows.kinds, rows.reasons or repeat(()), strict=False):
            side = None if labels is None or len(tests) == 1 or kind != LABEL else labels[row]
            like = "" if side is None else f" ({'unlike' if side == 1 else 'like'} {test.label})"
            unit = row if units is None else int(units[row])
            found = _Suspect(kind == LABEL, float(rows.scores[row]), kind, unit, like, why)
            worst[row] = max(worst.get(row, found), found)
    return worst if len(tests) == 1 else dict(sorted(worst.items(), key=lambda item: -item[1].score))


def _assumption(tests: Sequence[Wording], suspects: Mapping[int, _Suspect]) -> str:
    """Say which rows may be wrong with all of it true."""
    first, unit, some = tests[0], tests[0].unit, any(test.plan.bad_rows for test in tests)
    if first.rule.paper:
        return _by_holm(first)
    judged, wrong = any(test.judged for test in tests), first.wrong
    listed = len({each.unit for each in suspects.values()})
    none = f"This assumes that no {unit} is {wrong.one}"
    if not first.plan.auto:
        look = f", although {listed:,} look{'s' * (listed == 1)} suspicious" if listed else "; none looks suspicious"
        told = ", as asked" * (not first.plan.question.looked) + look * judged
        return "" if some else f"{none}{told}."
    if not judged:
        return f"{none}; {unit}s were not checked for suspicious ones."
    if not (some or listed or first.rows.unnamed):
        n = first.plan.n_units if len(tests) == 1 else first.plan.n_rows
        doubt = f". None looks suspicious, but with {n:,} {unit}s a wrong one could go unnoticed"
        return f"{none}{doubt if n < SHOWING else '; none looks suspicious'}."
    if any(test.more_look_bad for test in tests):
        least = f"This assumes that at most {first.bad} {wrong.so_many}" if some else none
        return f"{least}, although more look suspicious."
    if unnamed := first.rows.unnamed:
        which = "none of them can" if unnamed == first.plan.bad_rows else f"{unnamed:,} of them cannot"
        return f"This holds even if any {first.bad} {wrong.so_many}: as many seem to be, and {which} be named."
    if not some:
        below = "one below is unusual, but was" if listed == 1 else f"{listed:,} below are unusual, but were"
        return f"{none}. The {below} not counted as {wrong.several}."
    number, where = len({each.unit for each in suspects.values() if each.kind in COUNTED}), ""
    those, are = f"the {number:,} suspicious {unit}s below", f"are {wrong.several}"
    if number == 1:
        those, are = f"the suspicious {unit} below", f"is {wrong.one}"
    if len(tests) == 1 and first.names:
        each = zip(first.allowed, (first.label, first.reference), strict=True)
        split = " and ".join(f"{'all' if bad == number else f'{bad:,}'} in {name}" for bad, name in each if bad)
        split = f"{first.allowed[0]:,} in each group" if len({*first.allowed}) == 1 else split
        where = f" ({'up to ' * (sum(first.allowed) != number)}{split})"
    if not first.rule.adversary or not any(test.k for test in tests):
        counted = f"{'is' if number == 1 else 'are'} counted as {wrong.one if number == 1 else wrong.several}"
        return f"{those[0].upper()}{those[1:]} {counted}{where}."
    return f"This holds even if {those} {are}{where}."


def _by_holm(wording: Wording) -> str:
    """Say how many features of the paper's rule, which has no error rate, Holm's would select."""
    estimate, bad = wording.estimate, wording.plan.bad_rows
    left = int(np.sum(estimate.decision.last[estimate.support] >= bad))
    some = f"{left:,}" if left else "none"
    with_bad = f" even if any {wording.bad} {wording.wrong.so_many}" if bad else ""
    return f"Holm’s rule, which controls one, would select {some} of them{with_bad}." if wording.k else ""


# What else would hold.


def _otherwise(tests: Sequence[Wording], family: Family, places: Sequence[int]) -> str:
    """Say what is selected if no row is wrong, without the suspects, and if more are wrong than was assumed."""
    first, fitted, said = tests[0], family.tests[0].plan, list[tuple[str, Sequence[int], str]]()
    if any(test.plan.bad_rows for test in tests):
        said.append((f"If no {first.unit} is {first.wrong.one}: ", family.counts(0.0), ""))
    if fitted.auto and fitted.n_tests == len(family.tests) and (suspects := _suspects(family.tests)):
        number, counts = len({each.unit for each in suspects.values()}), family.without_suspects()
        given = "" if first.estimate.source is not None else "X"
        called = list(dict.fromkeys(WORDS_OF_KINDS[each.kind][0] for each in suspects.values()))
        those = "suspect" if number == 1 else f"{number:,} suspects"
        if "unusual" in called:  # and kept
            those = " or ".join(sorted(called)) + f" {first.unit}"
            those = those if number == 1 else f"{number:,} {those}s"
        promised = " (not guaranteed)" if counts else f"call without_suspects({given})"
        said.append((f"Without the {those}: ", counts, promised))
    least = max(min(test.plan.bad_shares) for test in tests) + TIED
    share = next((share for share in SHARES if share > least), None)
    means = first.estimate.mean_test or first.estimate.difference_test
    halved = means is not None and means.rows is not None  # such a scale has no room for any row that is wrong
    if share is not None and any(test.k for test in tests) and not halved:
        with suppress(InputError):  # so many pairs may be more than half
            counts, few = family.counts(share), first.plan.n_units < FEW_ROWS and len(tests) == 1
            many = _so_many(first, share) if few and not first.plan.rest else None
            some = f"{percent(share)} of {'each group' if first.names else f'the {first.unit}s'}"
            some, are = (some, f"are {first.wrong.several}") if many is None else (many.bad, many.wrong.so_many)
            with_some = f"With {some} assumed {first.wrong.several}: "
            wrong = f"If any {some} {are}: " if first.rule.all_shares else with_some
            last, strong = float(np.max(first.estimate.max_contamination[first.estimate.support], initial=0.0)), ""
            if len(tests) == 1 and not counts[places[0]] and last > least:
                each = " and ".join(f"{int(last * n + TIED):,} of {n:,}" for n in first.sizes) if few else percent(last)
                strong = f" (the strongest holds up to {each})"
            said.append((wrong, counts, strong))
    more = ", …" * (len(places) > MOST_TESTS)
    first_of = places[:MOST_TESTS]
    told = [", ".join(f"{of[k]:,}" if of[k] else "none" for k in first_of) + more if of else "" for _, of, _ in said]
    return "   ".join(f"{words}{number}{after}." for (words, _, after), number in zip(said, told, strict=True))


def _so_many(wording: Wording, share: float) -> Wording:
    """Return the same words with such a share of wrong rows."""
    plan, sizes = wording.plan, wording.sizes
    bad = [bad_rows(n, share) for n in sizes] if not wording.estimate.paired else [bad_pairs(sizes[0], (share, share))]
    by_group = BadRows(bad[1], bad[0]) if plan.sizes else None
    return replace(wording, plan=replace(plan, bad_rows=sum(bad), bad_by_group=by_group))


# Who is suspicious, and why.

MOST_REASONS = 3
"""Features that a sentence names against one row."""
WORDS_OF_KINDS = {
    LABEL: ("suspicious", "it looks like the other group", "they look like the other group"),
    TOGETHER: ("suspicious", "it deviates from the rest", "they deviate in the same direction"),
    FEW: ("unusual", "it is far off in a few {feature}s", "they are far off in a few {feature}s"),
    LARGE: (
        "unusual", "it is large in most {feature}s and was kept", "they are large in most {feature}s and were kept",
    ),
}  # fmt: skip
"""What suspects of each kind are called, and what one of them and several do, in the order in which they are told."""
MEANINGS = {
    LABEL: "judged by features in which the groups are far enough apart",
    TOGETHER: "in the same direction, as if one cause had moved them; by default these rows are assumed bad",
    FEW: "a few values are far out, as after a wrong unit or a failed sensor",
    LARGE: "most values are large; where rows differ in scale these are good rows",
}
"""What each kind means to a reader of the page."""


def _suspicious(tests: Sequence[Wording], suspects: Mapping[int, _Suspect]) -> str:
    """Name the suspects of all tests, each once, kind by kind."""
    by_kind = [{row: each for row, each in suspects.items() if each.kind == kind} for kind in WORDS_OF_KINDS]
    return " ".join(_of_kind(tests[0], those) for those in by_kind if those)


def _of_kind(first: Wording, suspects: Mapping[int, _Suspect]) -> str:
    """Name the suspects of one kind, and say what each or all of them do."""
    units, reasons = first.estimate.units, [each.reasons for each in suspects.values()]
    kind = next(iter(suspects.values())).kind
    number, of = len(suspects), ""
    if units is not None and not first.names:  # the rows of subjects
        number, of = np.unique(units[list(suspects)]).size, f" ({pluralize(len(suspects), 'row')})"
    called, note = row_names_of(first, np.array(list(suspects), dtype=np.intp))
    looks, one, several = WORDS_OF_KINDS[kind]
    does = (one if number == 1 else several).format(feature=first.feature)
    if kind == FEW and any(reasons):
        called = _with_reasons(first, called, reasons, most=2)
    if kind == TOGETHER:
        speaking = Counter(feature for why in reasons for feature in why).most_common(MOST_REASONS + 1)
        most = features_against(first, tuple(feature for feature, _ in speaking))
        does += f", mainly in {first.feature}s {list_names(most, MOST_REASONS)}" if most else ""
    if any(each.like for each in suspects.values()):
        does = "it contradicts its label" if number == 1 else "they contradict their labels"
    names = [f"{name}{each.like}" for name, each in zip(called, suspects.values(), strict=True)]
    who = pluralize(number, f"{looks} {first.unit}") if number > NAMED else f"{looks} {first.unit}{'s' * (number > 1)}"
    return f"{who[0].upper()}{who[1:]}{of}: {list_names(names)}{note} — {does}."


def _with_reasons(
    wording: Wording, names: Sequence[str | int], against: Sequence[tuple[int, ...]], *, most: int
) -> list[str]:
    """Return names of rows, each with the first features in which it deviates."""
    listed = (list_names(features_against(wording, features[: most + 1]), most) for features in against)
    return [f"{name} (in {features})" for name, features in zip(names, listed, strict=True)]


def features_against(wording: Wording, features: tuple[int, ...]) -> list[str]:
    """Return the names of features in which a row deviates."""
    return [str(name) for name in wording.estimate.names(np.array(features, dtype=np.intp))]


def row_names_of(wording: Wording, rows: IntArray) -> tuple[Sequence[str | int], str]:
    """Return what rows are called, and what there is to say of numbers."""
    if wording.row_names is not None:
        return [str(wording.row_names[row]) for row in rows.tolist()], ""
    names = wording.estimate.row_names(rows.tolist())
    return names, " (counted from 0)" if any(isinstance(name, int) for name in names) else ""


def worst_first(wording: Wording) -> str:
    """Name the worst suspects and the features in which each deviates."""
    names, note = row_names_of(wording, wording.rows.suspects)
    told = _with_reasons(wording, names, wording.rows.reasons, most=MOST_REASONS)
    return f"Suspects, the worst first{note}, with the {wording.feature}s in which each deviates: {list_names(told)}."
