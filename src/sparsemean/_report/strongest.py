"""The strongest features in lines of text: those selected, or where none is what each and what all would need."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypedDict

import numpy as np

from sparsemean._fit.afterwards import numbers_of, strongest_first
from sparsemean._fit.power import at_rows, rows_needed
from sparsemean._report.columns import LEAST_P
from sparsemean._report.verdict import signs_of, verdict
from sparsemean._report.wording import Several, Wording, percent, wording_of, wordings_of
from sparsemean._stats.planning import of_question
from sparsemean._stats.power import power_of
from sparsemean._util.checks import list_names
from sparsemean._util.plans import Plan
from sparsemean._util.records import IntArray
from sparsemean.errors import visible
from sparsemean.result import Estimate

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
LONGEST = 24
"""Letters of a name that a table leaves room for, before it cuts."""


class TextTable(NamedTuple):
    """A table of text: headings, and a row of cells for each feature; the first column is the name."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def selected(wording: Wording, most: int) -> TextTable:
    """Return the strongest of the selected features with their numbers; * marks a centre that is no mean."""
    estimate = wording.estimate
    features = strongest_first(estimate, estimate.support)[:most]
    of = numbers_of(estimate, features)
    compared = wording.rule.compared
    # Of groups the share of pairs above is told: a shift may be 0 where zeros are many.
    ranked = ["auc"] if wording.ranked else []
    marked = has_centres(estimate)
    rows = []
    for at, feature in enumerate(features):
        star = ("*" if estimate.skewed[feature] == 1 else " ") if marked else ""
        value = f"{of['estimate'][at]:.4g}".replace("nan", "–") + star
        interval = f"{of['ci_low'][at]:.3g} … {of['ci_high'][at]:.3g}".replace("nan … nan", "–")
        survives = f"{of['max_contamination'][at]:.1%}".replace("nan%", "–")
        auc = [f"{of[share][at]:.3f}" for share in ranked]
        last = _p_text(of[compared.column][at]), str(of["radius"][at]), survives
        rows.append((str(of["feature"][at]), value, interval, *auc, *last))
    return TextTable(("feature", "estimate", "interval", *ranked, compared.heading, "radius", "survives"), rows)


def _p_text(p: float) -> str:
    return f"{p:.2g}" if p >= LEAST_P else f"< {LEAST_P:g}"


def has_centres(estimate: Estimate) -> bool:
    """Whether some selected feature looks skewed, so that its value is a centre and no mean."""
    return bool((estimate.skewed[estimate.support] == 1).any())


def closest(wording: Wording) -> TextTable:
    """Return the strongest features where none is selected, with the share of bad rows up to which each would be."""
    estimate, clean = wording.estimate, without_bad_rows(wording)
    features = closest_first(estimate, clean)[:CLOSEST]
    signs, names = signs_of(clean, features), estimate.names(features)
    none_bad = ", none bad" if clean is not estimate else ""
    headings = ("feature", "side", "p", f"{wording.rule.compared.heading}{none_bad}", "would pass up to")
    sides, p, adjusted = {1.0: "up", -1.0: "down"}, clean.p_values, wording_of(clean).adjusted
    rows = [
        (str(called), sides.get(sign, "–"), _p_text(p[feature]), _p_text(adjusted[feature]), _passes(estimate, feature))
        for called, sign, feature in zip(names, signs.tolist(), features.tolist(), strict=True)
    ]
    return TextTable(headings, rows)


def without_bad_rows(wording: Wording) -> Estimate:
    """Return what the evidence says if no row is bad; the estimate itself where it has none left."""
    estimate = wording.estimate
    if not wording.plan.bad_rows or wording.paper or estimate.decision.evidence is None:
        return estimate
    return estimate.at(0.0)


def closest_first(estimate: Estimate, clean: Estimate) -> IntArray:
    """Return features in the order in which they would be selected, were fewer rows bad, then by p without bad rows."""
    features = np.setdiff1d(np.arange(estimate.plan.n_features), estimate.decision.skipped)
    last = np.nan_to_num(estimate.max_contamination[features], nan=-1.0)
    return features[np.lexsort((-np.abs(clean.beta[features]), clean.p_values[features], -last))]


def _passes(estimate: Estimate, feature: int) -> str:
    share = float(estimate.max_contamination[feature])
    return "not even at 0" if math.isnan(share) else percent(share)


# What it would take.


def needed(wording: Wording) -> str:
    """Say which effect could have been found, and how many rows half of it takes; empty where that is not known."""
    plan = wording.plan
    if wording.paper or plan.walk.n_buckets is not None or plan.n_strata > 1:
        return ""
    if any(message.startswith(("nothing can", "no feature can")) for message in wording.estimate.status.messages):
        return ""  # the note says what is needed
    if wording.names and wording.of_means:
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
    units = "times the scale" if wording.of_means else "standard deviations"
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

TestRow = TypedDict(
    "TestRow", {"test": str, "n label": int, "n reference": int, "features": int, "strongest": str}
)  # fmt: skip
"""A test in a table of tests: its name, sizes of the groups, number of features and the strongest of them."""


def overview(result: Several) -> list[TestRow]:
    """Return a row for each test."""
    rows: list[TestRow] = []
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


def printed(result: Estimate | Several) -> str:
    """Return verdict and table, as `print` shows them."""
    if isinstance(result, Estimate):
        table, messages = _table_of_one(wording_of(result)), result.status.messages
    else:
        table, messages = _table_of_tests(result), next(iter(result.results.values())).status.messages
    lines = [*map(wrap, verdict(result)), *table, *(wrap(f"Note: {note}.") for note in messages[:NOTED])]
    more = f" and {len(messages) - NOTED} more notes" if len(messages) > NOTED else ""
    return "\n".join((*lines, f"summary() has the details{more}."))


def features_of(wording: Wording) -> TextTable:
    """Return the strongest of the selected features; where none is, those that are closest to it."""
    if wording.k or wording.paper or not wording.plan.n_features:
        return selected(wording, SHOWN)
    return closest(wording)


def _table_of_one(wording: Wording) -> list[str]:
    table = features_of(wording)
    if wording.k:
        more = [f"… and {wording.k - SHOWN:,} more in table()"] if wording.k > SHOWN else []
        marked = ["* a centre, not a mean"] if has_centres(wording.estimate) else []
        return ["", *aligned(table), *more, *marked, ""]
    takes = [wrap(sentence)] if (sentence := needed(wording)) else []
    return ["", *aligned(table), *takes, "table(all=True) has all features."] if table.rows else []


def _table_of_tests(result: Several) -> list[str]:
    rows, tests = overview(result), wordings_of(result)
    shown = [(row["test"], f"{row['n label']:,} / {row['n reference']:,}", f"{row['features']:,}") for row in rows]
    lines = aligned(TextTable(("test", "rows", "features"), shown[:SHOWN]), longest=WIDTH // 2)
    width = WIDTH - len(lines[0]) - 2
    strongest = ["strongest first", *(row["strongest"] for row in rows)]
    out = [
        f"{line}  {textwrap.shorten(text, width, placeholder=' …')}"
        for line, text in zip(lines, strongest, strict=False)
    ]
    more = [f"… and {len(rows) - SHOWN:,} more in results"] if len(rows) > SHOWN else []
    if not any(test.k for test in tests):
        at = nearest(tests)
        more += ["", f"Closest is {_cut(rows[at]['test'], WIDTH // 2)}:", *_table_of_one(tests[at])[1:-1]]
    return ["", *(line.rstrip() for line in out), *more, ""]


def nearest(tests: Sequence[Wording]) -> int:
    """Return which of some tests that select nothing comes nearest to it."""

    def near(at: int) -> tuple[float, float]:
        estimate = tests[at].estimate
        share = np.nan_to_num(estimate.max_contamination, nan=-1.0).max(initial=-1.0)
        return float(share), -float(estimate.p_values.min(initial=1.0))

    return max(range(len(tests)), key=near)


def wrap(sentence: str) -> str:
    """Return a sentence in lines of 80 columns."""
    return textwrap.fill(visible(sentence), WIDTH, break_long_words=False, break_on_hyphens=False)


def aligned(lines: TextTable, longest: int = LONGEST) -> list[str]:
    """Return a table as text: names to the left, cut in the middle where they are too long, numbers to the right."""
    rows = [lines.headings, *((_cut(name, longest), *cells) for name, *cells in lines.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _cut(name: str, longest: int) -> str:
    """Return a name that fits."""
    shown = visible(name)
    last = (longest - 1) // 2  # of many long names the ends differ, too
    return shown if len(shown) <= longest else f"{shown[: longest - 1 - last]}…{shown[len(shown) - last :]}"
