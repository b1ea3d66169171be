"""Results in words: the strongest features in lines of text, the summary, and both as print and notebooks show them."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsemean._fit.afterwards import numbers_of, strongest_first
from sparsemean._fit.messages import how_tested
from sparsemean._fit.power import CANNOT, at_rows, rows_needed
from sparsemean._stats import path
from sparsemean._stats.effects import PAIRS
from sparsemean._stats.planning import of_question
from sparsemean._stats.power import POWERS, power_of
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.files import map_text
from sparsemean._util.plans import Plan
from sparsemean._util.records import IntArray
from sparsemean.errors import visible
from sparsemean.result import Estimate
from sparsemean.result._report.columns import LEAST_P
from sparsemean.result._report.guarantees import promise
from sparsemean.result._report.verdict import (
    closest_in_words,
    hopeless,
    signs_of,
    verdict,
    worst_first,
)
from sparsemean.result._report.wording import (
    PAIRS_ABOVE,
    PAIRS_WON,
    REST,
    TESTS,
    Wording,
    percent,
    wording_of,
    wordings_of,
)
from sparsemean.result.comparison import Comparison, tests_of

if TYPE_CHECKING:
    import pandas as pd

TESTS_SHOWN = 60
"""Tests that a notebook lists, and whose content a page has: some hundred pairs would make it too large."""
WIDTH = 80
"""Columns of the narrowest terminal in use, and of logs."""
SHOWN = 12
"""Lines of a table that is printed: verdict and table stay in view."""
CLOSEST = 10
"""Features that are told of where none is selected."""
STRONGEST = 5
"""Features that an overview names for each test."""
POWER = 0.8
"""The chance at which an effect is said to be found."""
LEAST_ROOM = 8
"""Letters of a name that a table has room for, however narrow it is."""


class TextTable(NamedTuple):
    """A table of text: headings, and a row of cells for each feature; the first column is the name."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    footnote: str = ""


def selected(wording: Wording, most: int) -> TextTable:
    """Return the strongest of the selected features with their numbers; what is no mean, or no shift, is marked."""
    estimate = wording.estimate
    features = strongest_first(estimate, estimate.support)
    marks = np.select([estimate.measure[features] == PAIRS, estimate.skewed[features] == 1], ["†", "*"], " ")
    won, features = PAIRS_WON.format(label=wording.label) if wording.names else PAIRS_ABOVE, features[:most]
    footnotes = {"*": "* a centre, not a mean: the target “mean” is about means", "†": f"† share of pairs {won}"}
    of = numbers_of(estimate, features)
    compared = wording.rule.compared
    ranked = ["auc"] if wording.test.ranked else []
    rows = []
    for at in range(features.size):
        value = f"{of['estimate'][at]:.4g}".replace("nan", "–") + (marks[at] if (marks != " ").any() else "")
        interval = f"{of['ci_low'][at]:.3g} … {of['ci_high'][at]:.3g}".replace("nan … nan", "–")
        survives = f"{of['max_contamination'][at]:.1%}".replace("nan%", "–")
        auc = [f"{of[share][at]:.3f}" for share in ranked]
        last = _p_text(of[compared.column][at]), str(of["radius"][at]), survives
        rows.append((str(of["feature"][at]), value, interval, *auc, *last))
    headings = ("feature", "estimate", "interval", *ranked, compared.heading, "radius", "survives")
    return TextTable(headings, rows, "; ".join(note for mark, note in footnotes.items() if mark in marks))


def _p_text(p: float) -> str:
    return f"{p:.2g}" if p >= LEAST_P else f"< {LEAST_P:g}"


def closest(wording: Wording) -> TextTable:
    """Return the strongest features where none is selected, with the share of bad rows up to which each would be."""
    estimate, clean = wording.estimate, without_bad_rows(wording)
    features = closest_first(estimate, clean)[:CLOSEST]
    signs, names = signs_of(clean, features), estimate.names(features)
    none_bad = ", none bad" if clean is not estimate else ""
    headings = ("feature", "side", "p", f"{wording.rule.compared.heading}{none_bad}", "would pass up to")
    sides, p, adjusted = {1.0: "up", -1.0: "down"}, clean.p_values, wording_of(clean).adjusted
    last = estimate.max_contamination[features]
    passes = np.where(np.isnan(last), "not even at 0", [percent(share) for share in last.tolist()]).tolist()
    rows = [
        (str(called), sides.get(sign, "–"), _p_text(p[feature]), _p_text(adjusted[feature]), up_to)
        for called, sign, feature, up_to in zip(names, signs.tolist(), features.tolist(), passes, strict=True)
    ]
    return TextTable(headings, rows)


def without_bad_rows(wording: Wording) -> Estimate:
    """Return what the evidence says if no row is bad; the estimate itself where it has none left."""
    estimate = wording.estimate
    if not wording.plan.bad_rows or wording.rule.paper or estimate.decision.evidence is None:
        return estimate
    return estimate.at(0.0)


def closest_first(estimate: Estimate, clean: Estimate) -> IntArray:
    """Return features in the order in which they would be selected, were fewer rows bad, then by p without bad rows."""
    features = np.setdiff1d(np.arange(estimate.plan.n_features), estimate.decision.skipped)
    last = np.nan_to_num(estimate.max_contamination[features], nan=-1.0)
    p, adjusted = clean.p_values[features], clean.p_adjusted[features]
    return features[np.lexsort((-np.abs(clean.beta[features]), p, adjusted, -last))]


# What it would take.


def needed(wording: Wording) -> str:
    """Say which effect could have been found, and how many rows half of it takes; empty where that is not known."""
    plan = wording.plan
    if wording.rule.paper or wording.rule.drawn or plan.walk.n_buckets is not None or plan.n_strata > 1:
        return ""
    if hopeless(wording.estimate):
        return ""  # the verdict says what is needed
    if (wording.names and wording.test.means) or plan.question.test not in POWERS:
        return ""
    asked, unit = of_question(plan, min_effect=0.0, selection="fwer"), wording.unit
    effect, rows = _effect_and_rows(asked, plan.n_units - plan.scale_rows)
    if not math.isfinite(effect):
        return ""
    if wording.names:
        n_label, n_reference = wording.sizes
        these, size = f"these {n_label:,} and {n_reference:,} {unit}s", f"a shift of about {effect:.2g}"
    else:
        these, size = f"these {plan.n_units - plan.scale_rows:,} {unit}s", f"a mean of about {effect:.2g}"
    units = "times the scale" if wording.test.means else "standard deviations"
    beyond = f" beyond {plan.question.min_effect:g}" if plan.question.min_effect else ""
    wanted = f"{rows:,} {unit}s{' in all' if wording.names else ''}"
    takes = f"half of it takes about {wanted}" if rows else "half of it is out of reach at this share of bad rows"
    return (
        f"With {these} {size} {units}{beyond} would be found with a chance of {percent(POWER)} (normal noise); {takes}."
    )


@lru_cache(maxsize=16)  # a second or two of many rows, for print, summary and page
def _effect_and_rows(plan: Plan, n: int) -> tuple[float, int]:
    """Return the effect that n rows find, infinity if none, and the rows that half of it takes, 0 if none do."""
    effect = power_of(at_rows(plan, n)).smallest(POWER)
    return effect, rows_needed(plan, effect / 2, POWER) if math.isfinite(effect) else 0


# Several tests, and all as text of 80 columns.


def overview(result: Comparison) -> list[dict[str, Any]]:
    """Return a row for each test: its name, sizes of the groups, number of features and the strongest of them."""
    rows = []
    for test in wordings_of(result):
        n_label, n_reference = test.sizes
        features = strongest_first(test.estimate, test.estimate.support)[: STRONGEST + 1]
        rows.append(
            {
                "test": visible(test.contrast),
                "n label": n_label,
                "n reference": n_reference,
                "features": test.k,
                "strongest": list_names(test.estimate.names(features), STRONGEST),
            }
        )
    return rows


NOTED = 4
"""Notes below the table: those that come first matter most."""


def printed(result: Estimate | Comparison) -> str:
    """Return verdict and table, as `print` shows them."""
    said = notes(result)
    more = f" and {len(said) - NOTED} more notes" if len(said) > NOTED else ""
    lines = [*verdict_and_table(result), "", *map(wrap, said[:NOTED])]
    return "\n".join((*lines, f"summary() has the details{more}."))


def verdict_and_table(
    result: Estimate | Comparison, *, most: int = SHOWN, width: int = WIDTH, rest: str = ""
) -> list[str]:
    """Return the lines of a verdict and of a table, which has ``most`` lines; ``rest`` says who has the others."""
    head = [wrap(sentence, width) for sentence in verdict(result)]
    if isinstance(result, Estimate):
        table = _table_of_one(wording_of(result), most, width, rest or " in table()")
    else:
        table = _table_of_tests(result, most, width, rest or " in results")
    return [*head, *([""] if table else []), *table]


def features_of(wording: Wording, most: int = SHOWN) -> TextTable:
    """Return the strongest of the selected features; where none is, those that are closest to it."""
    if wording.k or wording.rule.paper or not wording.plan.n_features:
        return selected(wording, most)
    return closest(wording)


def _table_of_one(wording: Wording, most: int, width: int, rest: str) -> list[str]:
    table = features_of(wording, most)
    more = [f"… and {wording.k - most:,} more{rest}"] if wording.k > most else []
    below = table.footnote if wording.k else needed(wording)
    return [*aligned(table, width), *more, *([wrap(below, width)] if below else [])] if table.rows else []


def _table_of_tests(result: Comparison, most: int, width: int, rest: str) -> list[str]:
    rows, tests = overview(result), wordings_of(result)
    shown = [
        (_cut(row["test"], width // 2), f"{row['n label']:,} / {row['n reference']:,}", f"{row['features']:,}")
        for row in rows[:most]
    ]
    lines = aligned(TextTable(("test", "rows", "features"), shown), width)
    strongest = ["strongest first", *(row["strongest"] for row in rows)]
    out = [
        f"{line}  {textwrap.shorten(text, width - len(line) - 2, placeholder=' …')}".rstrip()
        for line, text in zip(lines, strongest, strict=False)
    ]
    more = [f"… and {len(rows) - most:,} more{rest}"] if len(rows) > most else []
    if not any(test.k for test in tests):
        at = nearest(tests)
        more += ["", f"Closest is {_cut(rows[at]['test'], width // 2)}:", *_table_of_one(tests[at], most, width, rest)]
    return [*out, *more]


def nearest(tests: Sequence[Wording]) -> int:
    """Return which of some tests that select nothing comes nearest to it."""
    last = [np.nan_to_num(test.estimate.max_contamination, nan=-1.0).max(initial=-1.0) for test in tests]
    p = np.transpose([(test.estimate.p_values.min(initial=1.0), test.adjusted.min(initial=1.0)) for test in tests])
    return int(np.lexsort((*p, np.negative(last)))[0])


def wrap(sentence: str, width: int = WIDTH) -> str:
    """Return a sentence in lines of so many columns."""
    return textwrap.fill(visible(sentence), width, break_long_words=False, break_on_hyphens=False)


def aligned(table: TextTable, width: int = WIDTH) -> list[str]:
    """Return a table as text: names to the left, cut in the middle where the line has no room, numbers to the right."""
    called, *columns = zip(table.headings, *table.rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    room = max(LEAST_ROOM, width - sum(widths) - 2 * len(widths))
    names = [_cut(name, room) for name in called]
    left = max(map(_columns_of, names))
    return [
        "  ".join((name + " " * (left - _columns_of(name)), *map(str.rjust, cells, widths)))
        for name, *cells in zip(names, *columns, strict=True)
    ]


def _columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def _cut(name: str, longest: int) -> str:
    """Return a name that fits."""
    shown = visible(name)
    last = (longest - 1) // 2  # of many long names the ends differ, too
    return shown if len(shown) <= longest else f"{shown[: longest - 1 - last]}…{shown[len(shown) - last :]}"


# The summary: verdict, what was done and what is promised.


def summary(result: Estimate | Comparison) -> str:
    """Say the verdict, then what was done and found besides, notes, and last what is promised of it: a line each."""
    return "\n".join((*verdict(result), *below_verdict(result)))


def below_verdict(result: Estimate | Comparison) -> list[str]:
    """Return the lines of a summary that follow the verdict."""
    tests = wordings_of(result)
    if isinstance(result, Estimate):
        done, promised = _done_and_found(tests[0]), _details(tests[0])
    else:
        done, promised = _done_and_found_of_tests(tests), _details_of_tests(tests)
    lines = (
        " ".join(part for part in done if part),
        *notes(result),
        f"Details: {' '.join(part for part in promised if part)}",
    )
    return [visible(line) for line in lines]


def notes(result: Estimate | Comparison) -> list[str]:
    """Return the notes of a result; of several tests those that every one has, others stand in its own summary."""
    first, *others = (each.status.messages for each in tests_of(result))
    return [f"Note: {n}." for n in first if CANNOT not in n and all(n in messages for messages in others)]


# Of one test.


def _done_and_found(wording: Wording) -> list[str]:
    """Say by what and from what was tested, what was looked for, and what else there is to see."""
    estimate, plan = wording.estimate, wording.plan
    how = f" by {tested}" if (tested := how_tested(plan)) and not wording.rule.paper else ""
    source = f"from {plan.n_rows:,} {'pairs' if estimate.paired else 'rows'}"
    as_look = ", as many as look it" if plan.auto and plan.bad_rows and not wording.more_look_bad else ""
    bad = f"{wording.bad if plan.bad_rows else 'none'} may be bad{as_look}"
    if wording.names:
        source = f"{wording.direction}{wording.strata}, from {wording.groups}"
        bad += f" ({wording.shares}; {wording.wrong_labels})" if plan.bad_rows else ""
    sentences = [f"Tested: {pluralize(plan.n_features, 'feature')}{how}, {source}; {bad}."]
    if not wording.k and not wording.rule.paper and plan.n_features:
        sentences.append(needed(wording))
    if estimate.status.screening:
        sentences.append(f"{estimate.status.screening[0].upper()}{estimate.status.screening[1:]}.")
    sentences.append(worst_first(wording))
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        names = list_names(estimate.names(uncertified.features))
        sentences.append(f"Only without those rows, and so not certified: {names}.")
    return sentences


def _details(wording: Wording) -> list[str]:
    """Say what is promised, of how many bad rows at least, and what the values are."""
    estimate, paper = wording.estimate, wording.rule.paper
    promised = _of_paper(wording.plan) if paper else promise([wording])
    if not wording.k:
        return [promised]
    if wording.names:
        least = f"{np.min(estimate.max_contamination[estimate.support]):.2%} bad {wording.each}"
    else:
        number = int(np.min(estimate.decision.last[estimate.support]))
        least = f"{pluralize(number, f'bad {wording.noun}')} ({number / wording.plan.n_units:.2%} of all)"
    return [
        promised,
        "" if paper else f"Every one of them survives at least {least}.",
        wording.test.estimates,
        f"Estimates are differences within pairs, {wording.direction}." if estimate.paired else "",
        f"Values on the support: {estimate.status.refinement}." if estimate.status.refinement else "",
    ]


def _of_paper(plan: Plan) -> str:
    walk = plan.walk
    threshold = path.selection_threshold(walk.select_at, alpha=walk.alpha, eta=walk.eta)
    return (
        f"A feature is selected when its bucket means agree on a sign: among {walk.n_buckets} buckets the share above "
        f"zero less the share below must reach {threshold:.3f} (the paper's rule after {walk.select_at} iterations, "
        "which has no stated error rate)."
    )


# Of several tests in one family.


def _done_and_found_of_tests(tests: Sequence[Wording]) -> list[str]:
    """Say how many tests were made, and where nothing was selected what comes closest to it."""
    first, best = tests[0], tests[nearest(tests)]
    each = f"Tested: {first.plan.n_features:,} features in each of {pluralize(len(tests), 'test')}"
    done = f"{each}; a wrong label costs one {first.noun} in each group."
    if any(test.k for test in tests):
        return [done]
    return [done, f"Closest is {best.contrast}. {closest_in_words(best)}", needed(best)]


def _details_of_tests(tests: Sequence[Wording]) -> list[str]:
    """Say what is promised of all tests at once, and what the values are."""
    plan, rest = tests[0].plan, all(each.reference == REST for each in tests)
    return [
        f"Together they are one family of {plan.n_hypotheses:,} hypotheses: what is promised holds of all tests at "
        f"once. {promise(tests)}",
        TESTS[plan.question.test, True].estimates.format(direction="label minus reference"),
        "Against the rest a finding is false only if all labels share one distribution." if rest else "",
    ]


# As a notebook shows them: verdict, the strongest features or the tests, and the rest in words.


def fragment(result: Estimate | Comparison) -> str:
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
