"""Results in words: verdict, what was done and what is promised; and as a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._fit.messages import how_tested
from sparsemean._report.guarantees import MISSING, chosen_by_looking, of_null
from sparsemean._report.strongest import SHOWN, features_of, nearest, needed, overview
from sparsemean._report.verdict import closest, selected_by_test, shared_share, verdict, which_tests, worst_first
from sparsemean._report.wording import REST, RULES, TESTS, Several, Wording, direction, wording_of, wordings_of
from sparsemean._stats import path
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.files import map_text
from sparsemean._util.plans import Plan
from sparsemean.errors import visible
from sparsemean.result import Estimate

if TYPE_CHECKING:
    import pandas as pd

NAMED = 12
"""Tests that a sentence lists."""
TESTS_SHOWN = 60
"""Tests that a notebook lists, and whose content a page has: some hundred pairs would make it too large."""


def summary(result: Estimate | Several) -> str:
    """Say the verdict, then what was done and found besides, notes, and last what is promised of it: a line each."""
    return "\n".join((*verdict(result), *below_verdict(result)))


def below_verdict(result: Estimate | Several) -> list[str]:
    """Return the lines of a summary that follow the verdict."""
    if isinstance(result, Estimate):
        wording, messages = wording_of(result), list(result.status.messages)
        done, promised = _done_and_found(wording), _details(wording)
    else:
        tests, messages = wordings_of(result), shared_notes(list(result.results.values()))
        done, promised = _done_and_found_of_tests(tests), _details_of_tests(tests)
    return [visible(line) for line in (" ".join(done), *notes(messages), f"Details: {' '.join(promised)}")]


def notes(messages: Iterable[str]) -> list[str]:
    """Return remarks as sentences, those that shout first."""
    return [f"Note: {message}." for message in messages]


def shared_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Return the notes that every test has; those of one test stand in its own summary."""
    first, *others = (each.status.messages for each in estimates)
    return [message for message in first if all(message in messages for messages in others)]


# Of one test.


def _done_and_found(wording: Wording) -> list[str]:
    """Say by what and from what was tested, what was looked for, and what else there is to see."""
    estimate, plan = wording.estimate, wording.plan
    how = f" by {tested}" if (tested := how_tested(plan)) and not wording.paper else ""
    sentences = [f"Tested: {pluralize(plan.n_features, 'feature')}{how}, {_from(wording)}."]
    if not wording.k and not wording.paper and plan.n_features:
        sentences.append(needed(wording))
    if estimate.status.screening:
        sentences.append(f"{estimate.status.screening[0].upper()}{estimate.status.screening[1:]}.")
    sentences.append(worst_first(wording))
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        names = list_names(estimate.names(uncertified.features))
        sentences.append(f"Only without those rows, and so not certified: {names}.")
    return [sentence for sentence in sentences if sentence]


def _from(wording: Wording) -> str:
    """Say which rows were looked at, and how many of them may be bad."""
    plan, unit = wording.plan, wording.unit
    as_look = ", as many as look it" if plan.auto and plan.bad_rows and not wording.more_look_bad else ""
    if wording.names is None:
        rows = f"{plan.n_rows} {unit}s" if unit != "subject" else f"{plan.n_rows} rows of {plan.n_units} subjects"
        return f"from {rows} of which {plan.bad_rows or 'none'} may be bad{as_look}"
    strata = f",{wording.strata}" if wording.strata else ""
    compared = f"{direction(wording.names)}{strata}, from {wording.groups}"
    if not plan.bad_rows:
        return f"{compared}, of which none may be bad{as_look}"
    number = " and ".join(map(str, wording.allowed))
    return f"{compared}, of which {number} may be bad{as_look} ({wording.shares}; {wording.wrong_labels})"


def _details(wording: Wording) -> list[str]:
    """Say what is promised, of how many bad rows at least, and what the values are."""
    promised = _of_paper(wording.plan) if wording.paper else promise(wording.plan)
    if not wording.k:
        return [promised]
    refinement = wording.estimate.status.refinement
    sentences = [
        promised,
        "" if wording.paper else f"Every one of them survives at least {_survived(wording)}.",
        wording.test.estimates,
        f"Estimates are differences within pairs, {direction(wording.pair)}." if wording.pair else "",
        f"Values on the support: {refinement}." if refinement else "",
    ]
    return [sentence for sentence in sentences if sentence]


def _survived(wording: Wording) -> str:
    """Say how many bad rows the weakest selected feature survives."""
    estimate = wording.estimate
    if wording.names:
        return f"{np.min(estimate.max_contamination[estimate.support]):.2%} bad {wording.noun}s of each group"
    least = int(np.min(estimate.decision.last[estimate.support]))
    return f"{pluralize(least, f'bad {wording.noun}')} ({least / wording.plan.n_units:.2%} of all)"


def _of_paper(plan: Plan) -> str:
    walk = plan.walk
    threshold = path.selection_threshold(walk.select_at, alpha=walk.alpha, eta=walk.eta)
    return (
        f"A feature is selected when its bucket means agree on a sign: among {walk.n_buckets} buckets the share above "
        f"zero less the share below must reach {threshold:.3f} (the paper's rule after {walk.select_at} iterations, "
        "which has no stated error rate)."
    )


def promise(plan: Plan) -> str:
    """Say what is promised under a plan, and for which features."""
    gaps = f", {MISSING[0]}" if plan.question.missing == "omit" else ""
    rule = RULES[plan.question.selection]
    said = f"{SELECTIONS[plan.question.selection]}: {rule.after_looking if chosen_by_looking(plan) else rule.promise}"
    null = of_null(plan).features
    return f"What is promised at level {plan.question.level:g}, for {null} and independent rows{gaps}: {said}."


# Of several tests in one family.


def _done_and_found_of_tests(tests: Sequence[Wording]) -> list[str]:
    """Say which tests were made, what each selected and what was looked for."""
    first = tests[0]
    sentences = [
        f"{pluralize(len(tests), 'test')} of {first.plan.n_features:,} features: {which_tests(tests)}.",
        f"Features selected: {selected_by_test(tests, NAMED)}.",
        _bad_in_tests(tests),
    ]
    if not any(each.k for each in tests):
        best = tests[nearest(tests)]
        sentences += [f"Closest is {best.contrast}. {closest(best)}", needed(best)]
    return [sentence for sentence in sentences if sentence]


def _bad_in_tests(tests: Sequence[Wording]) -> str:
    """Say which share of each group may be bad."""
    first = tests[0]
    if not any(each.plan.bad_rows for each in tests):
        return f"No {first.noun} may be bad."
    share = shared_share(tests) or "A share of each group"
    as_look = ", as many as look it in each test" if first.plan.auto else ""
    return f"{share} may be bad{as_look}; a wrong label costs one {first.noun} in each group."


def _details_of_tests(tests: Sequence[Wording]) -> list[str]:
    """Say what is promised of all tests at once, and what the values are."""
    plan = tests[0].plan
    sentences = [
        f"Together they are one family of {plan.n_hypotheses:,} hypotheses: what is promised holds of all tests at "
        f"once. {promise(plan)}",
        TESTS[plan.question.target, True].estimates.format(direction="label minus reference"),
    ]
    if all(each.reference == REST for each in tests):
        sentences.append("Against the rest a feature counts as false where all labels share one distribution.")
    return sentences


# As a notebook shows them: verdict, the strongest features or the tests, and the rest in words.


def fragment(result: Estimate | Several) -> str:
    """Return HTML without scripts or styles of its own, names escaped; it needs no extra."""
    import pandas as pd

    if isinstance(result, Estimate):
        shown = features_of(wording_of(result))
        table, left, where = pd.DataFrame(shown.rows, columns=shown.headings), result.support.size - SHOWN, "table()"
    else:
        tests = overview(result)
        table, left, where = pd.DataFrame(tests[:TESTS_SHOWN]), len(tests) - TESTS_SHOWN, "results"
    parts = [f"<p><strong>{escape(line)}</strong></p>" for line in verdict(result)]
    parts += [as_html(table)] if len(table) else []
    parts += [f"<p>… and {left:,} more in <code>{where}</code></p>"] if left > 0 else []
    parts += [f"<p>{escape(line)}</p>" for line in below_verdict(result)]
    return f"<div>{''.join(parts)}</div>"


def as_html(table: pd.DataFrame) -> str:
    """Return a table for notebooks, its texts escaped."""
    return str(map_text(table, visible).to_html(index=False, border=0, escape=True))
