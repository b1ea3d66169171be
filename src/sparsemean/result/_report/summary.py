"""Results in words: the strongest features in lines of text, the summary, and both as print and notebooks show them."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsemean._fit.afterwards import numbers_of, strongest_first
from sparsemean._fit.messages import DEPENDENT, DETAILS, MATTERS, NOT_GUARANTEED, how_tested
from sparsemean._fit.power import CANNOT
from sparsemean._stats import path
from sparsemean._stats.effects import PAIRS
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.files import map_text
from sparsemean._util.plans import Plan
from sparsemean.errors import visible
from sparsemean.result import Estimate
from sparsemean.result._report.closest import closest_first, nearest, without_bad_rows
from sparsemean.result._report.columns import LEAST_P
from sparsemean.result._report.guarantees import promise
from sparsemean.result._report.verdict import signs_of, verdict, worst_first
from sparsemean.result._report.wording import (
    REST,
    TESTS,
    Wording,
    percent,
    wording_of,
    wordings_of,
)
from sparsemean.result.comparison import Comparison, called, tests_of

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
LEAST_ROOM = 8
"""Letters of a name that a table has room for, however narrow it is."""


class TextTable(NamedTuple):
    """A table of text: headings, and a row of cells for each feature; the first column is the name."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    footnote: str = ""


def features_of(wording: Wording, most: int = SHOWN) -> TextTable:
    """Return the strongest of the selected features with their numbers; where none is, those that are closest to it.

    What is no mean, or no shift, is marked.
    """
    estimate = wording.estimate
    if not wording.k and wording.plan.n_features and not wording.rule.paper:
        return closest(wording)
    features = strongest_first(estimate, estimate.support)
    marks = np.select([estimate.measure[features] == PAIRS, estimate.skewed[features] == 1], ["†", "*"], " ")
    features = features[:most]
    footnotes = {
        "*": '* a centre, not a mean: target="mean" tests means', "†": f"† share of pairs {wording.test.pairs}",
    }  # fmt: skip
    of = numbers_of(estimate, features)
    compared = wording.rule.compared
    ranked = ["auc"] if wording.test.ranked else []
    rows = []
    for at in range(features.size):
        value = f"{of['estimate'][at]:.4g}".replace("nan", "–") + (marks[at] if (marks != " ").any() else "")
        interval = f"{of['ci_low'][at]:.3g} … {of['ci_high'][at]:.3g}".replace("nan … nan", "–")
        survives = f"{of['max_contamination'][at]:.1%}".replace("nan%", "–")
        auc = [f"{of[share][at]:.3f}" for share in ranked]
        p, radius = _p_text(of[compared.column][at]), str(of["radius"][at])
        rows.append((str(of["feature"][at]), value, interval, *auc, p, radius, survives))
    headings = (wording.feature, "estimate", "interval", *ranked, compared.heading, "radius", "survives")
    noted = [note for mark, note in footnotes.items() if mark in marks]
    noted.append(f"radius: how many more bad {wording.unit}s it takes, at least, to lose the {wording.feature}")
    noted.append(f"survives: share of bad {wording.each} up to which it is selected")
    return TextTable(headings, rows, "; ".join(noted))


def _p_text(p: float) -> str:
    return f"{p:.2g}" if p >= LEAST_P else f"< {LEAST_P:g}"


def closest(wording: Wording) -> TextTable:
    """Return the strongest features where none is selected, with the share of bad rows up to which each would be."""
    estimate, clean = wording.estimate, without_bad_rows(wording)
    features = closest_first(estimate, clean)[:CLOSEST]
    signs, names = signs_of(clean, features), estimate.names(features)
    headings = (wording.feature, "side", "p", wording.rule.compared.heading, "selected up to")
    noted = f"p and {wording.rule.compared.heading}: if no {wording.unit} is {wording.wrong.one}"
    sides, p, adjusted = {1.0: "up", -1.0: "down"}, clean.p_values, wording_of(clean).adjusted
    last = estimate.max_contamination[features]
    passes = np.where(np.isnan(last), "never", [percent(share) for share in last.tolist()]).tolist()
    rows = [
        (str(called), sides.get(sign, "–"), _p_text(p[feature]), _p_text(adjusted[feature]), up_to)
        for called, sign, feature, up_to in zip(names, signs.tolist(), features.tolist(), passes, strict=True)
    ]
    return TextTable(headings, rows, noted if clean is not estimate else "")


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


NOTED = 3
"""Notes below the table: those that come first matter most."""


def printed(result: Estimate | Comparison) -> str:
    """Return verdict and table, as `print` shows them."""
    said = notes(result)
    more = f" and {pluralize(len(said) - NOTED, 'more note')}" if len(said) > NOTED else ""
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


def _table_of_one(wording: Wording, most: int, width: int, rest: str) -> list[str]:
    table = features_of(wording, most)
    more = [f"… and {wording.k - most:,} more{rest}"] if wording.k > most else []
    below = [wrap(table.footnote, width)] if table.footnote else []
    return [*aligned(table, width), *more, *below] if table.rows else []


def _table_of_tests(result: Comparison, most: int, width: int, rest: str) -> list[str]:
    rows, tests = overview(result), wordings_of(result)
    shown = [
        (_cut(row["test"], width // 2), f"{row['n label']:,} / {row['n reference']:,}", f"{row['features']:,}")
        for row in rows[:most]
    ]
    lines = aligned(TextTable(("test", f"{tests[0].noun}s", f"{tests[0].feature}s"), shown), width)
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


def wrap(sentence: str, width: int = WIDTH) -> str:
    """Return a sentence in lines of so many columns."""
    lines: list[str] = []
    for part in visible(sentence).split("   "):  # what three spaces part stays together
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += f"   {part}"
        else:
            lines += textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def aligned(table: TextTable, width: int = WIDTH) -> list[str]:
    """Return a table as text: names to the left, cut in the middle where the line has no room, numbers to the right."""
    called, *columns = zip(table.headings, *table.rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    room = max(LEAST_ROOM, width - sum(widths) - 2 * len(widths))
    names = [_cut(name, room) for name in called]
    taken = [sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in name) for name in names]  # columns
    return [
        "  ".join((name + " " * (max(taken) - width), *map(str.rjust, cells, widths)))
        for name, width, *cells in zip(names, taken, *columns, strict=True)
    ]


def _cut(name: str, longest: int) -> str:
    """Return a name that fits."""
    shown = visible(name)
    last = (longest - 1) // 2  # of many long names the ends differ, too
    return shown if len(shown) <= longest else f"{shown[: longest - 1 - last]}…{shown[len(shown) - last :]}"


# The summary: verdict, what was done and what is promised.


def summary(result: Estimate | Comparison, unit: str | None = None, feature: str | None = None) -> str:
    """Say the verdict, then what was done and found besides, notes, and last what is promised of it: a line each."""
    result = called(result, unit, feature) if unit or feature else result
    return "\n".join((*verdict(result), *below_verdict(result)))


def below_verdict(result: Estimate | Comparison) -> list[str]:
    """Return the lines of a summary that follow the verdict."""
    tests = wordings_of(result)
    if isinstance(result, Estimate):
        done, promised = _done_and_found(tests[0]), _details(tests[0])
    else:
        each = f"{pluralize(tests[0].plan.n_features, tests[0].feature)} in each of {pluralize(len(tests), 'test')}"
        done = [f"Tested: {each}; a wrong label costs one {tests[0].noun} in each group."]
        promised = _details_of_tests(tests)
    lines = (
        " ".join(part for part in done if part),
        *notes(result),
        f"Details: {' '.join(part for part in promised if part)}",
    )
    return [visible(line) for line in lines]


def notes(result: Estimate | Comparison) -> list[str]:
    """Return the notes of a result, those that change the answer first; of several tests those that every one has."""
    first, *others = (each.status.messages for each in tests_of(result))
    said = [n for n in first if not any(sign in n for sign in (CANNOT, DEPENDENT, NOT_GUARANTEED))]  # by the verdict
    said.sort(key=lambda n: any(sign in n for sign in DETAILS) - any(sign in n for sign in MATTERS))
    return [f"Note: {n}." for n in said if all(n in messages for messages in others)]


# Of one test.


def _done_and_found(wording: Wording) -> list[str]:
    """Say by what and from what was tested, what was looked for, and what else there is to see."""
    estimate, plan = wording.estimate, wording.plan
    how = f" by {tested}" if (tested := how_tested(plan)) and not wording.rule.paper else ""
    source = f"from {pluralize(plan.n_rows, wording.unit if estimate.units is None else 'row')}"
    as_look = ", as many as look suspicious" if plan.auto and plan.bad_rows and not wording.more_look_bad else ""
    bad = f"{wording.bad if plan.bad_rows else 'none'} may be wrong{as_look}"
    if wording.names:
        source = f"{wording.test.direction}{wording.strata}, from {wording.groups}"
        bad += f" ({wording.shares}; {wording.wrong_labels})" if plan.bad_rows else ""
    sentences = [f"Tested: {pluralize(plan.n_features, wording.feature)}{how}, {source}; {bad}."]
    if estimate.status.screening:
        sentences.append(f"{estimate.status.screening[0].upper()}{estimate.status.screening[1:]}.")
    if wording.rows.reasons:
        sentences.append(worst_first(wording))
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        names = list_names(estimate.names(uncertified.features))
        sentences.append(f"Seen only without those {wording.unit}s, and so not certified: {names}.")
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
        "" if paper else f"Every one of them is selected up to {least}, or more.",
        wording.test.estimates,
        f"Estimates are differences within pairs, {wording.test.direction}." if estimate.paired else "",
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


def _details_of_tests(tests: Sequence[Wording]) -> list[str]:
    """Say what is promised of all tests at once, and what the values are."""
    plan, rest = tests[0].plan, all(each.reference == REST for each in tests)
    return [
        f"Together they are one family of {plan.n_hypotheses:,} hypotheses: what is promised holds of all tests at "
        f"once. {promise(tests)}",
        TESTS[plan.question.test, True].estimates.format(direction="label minus reference"),
        f"Against the rest a {tests[0].feature} is false only if no label differs from any other." if rest else "",
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
