"""The strongest features in lines of text: those selected, or where none is what each and what all would need."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from sparsemean._fit.power import at_rows, plan_groups, smallest_effect
from sparsemean._report.groups import percent
from sparsemean._report.suspects import names_of_tests, unit_of
from sparsemean._report.verdict import Several, adjusted, estimates_of, name_of_test, signs_of, verdict
from sparsemean._stats.one_sample_power import power_of
from sparsemean._stats.planning import of_question
from sparsemean._stats.power import fewest
from sparsemean._util.checks import list_names
from sparsemean._util.plans import Plan
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, visible
from sparsemean.result import numbers_of, strongest_first

if TYPE_CHECKING:
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


class Lines(NamedTuple):
    """A table of text: headings, and a row of cells for each feature; the first column is the name."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def selected(estimate: Estimate, most: int) -> Lines:
    """Return the strongest of the selected features with their numbers; * marks a centre that is no mean."""
    plan = estimate.plan
    features = strongest_first(estimate, estimate.support)[:most]
    of = numbers_of(estimate, features)
    ranked = plan.walk.dealing == "pairs" and plan.question.target != "mean"
    by, heading = ("q_value", "q") if plan.question.selection in ("fdr", "fdr_by") else ("p_adjusted", "p adjusted")
    # Of groups the share of pairs above is told: a shift may be 0 where zeros are many.
    headings = ("feature", "estimate", "interval", *(["auc"] if ranked else []), heading, "radius", "survives")
    marked = bool((estimate.skewed[estimate.support] == 1).any())
    rows = []
    for at, feature in enumerate(features):
        star = ("*" if estimate.skewed[feature] == 1 else " ") if marked else ""
        value = f"{of['estimate'][at]:.4g}".replace("nan", "–") + star
        interval = f"{of['ci_low'][at]:.3g} … {of['ci_high'][at]:.3g}".replace("nan … nan", "–")
        survives = f"{of['max_contamination'][at]:.1%}".replace("nan%", "–")
        auc = [f"{of['auc'][at]:.3f}"] if ranked else []
        last = f"{of[by][at]:.2g}", str(of["radius"][at]), survives
        rows.append((str(of["feature"][at]), value, interval, *auc, *last))
    return Lines(headings, rows)


def closest(estimate: Estimate, most: int = CLOSEST) -> Lines:
    """Return the strongest features where none is selected, with the share of bad rows up to which each would be."""
    clean = without_bad_rows(estimate)
    name, values = adjusted(clean)
    features = closest_first(estimate, clean)[:most]
    signs, names = signs_of(clean, features), estimate.names(features)
    heading = {"adjusted p": "p adjusted"}.get(name, name)
    if estimate.plan.bad_rows and clean is not estimate:
        heading += ", none bad"
    headings = ("feature", "side", "p", heading, "would pass up to")
    sides, p = {1.0: "up", -1.0: "down"}, clean.p_values
    rows = [
        (str(called), sides.get(sign, "–"), f"{p[feature]:.2g}", f"{values[feature]:.2g}", _passes(estimate, feature))
        for called, sign, feature in zip(names, signs.tolist(), features.tolist(), strict=True)
    ]
    return Lines(headings, rows)


def without_bad_rows(estimate: Estimate) -> Estimate:
    """Return what the evidence says if no row is bad; the estimate itself where it has none left."""
    plan = estimate.plan
    if not plan.bad_rows or plan.question.selection == "paper" or estimate.decision.evidence is None:
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


def closest_in_words(estimate: Estimate) -> str:
    """Say in a sentence which features are the strongest, by what an estimate keeps when it is saved."""
    features, (name, values) = closest_first(estimate, estimate)[:CLOSEST], adjusted(estimate)
    passing, others = [], []
    for feature, called in zip(features.tolist(), estimate.names(features), strict=True):
        if not math.isnan(estimate.max_contamination[feature]):
            passing.append(f"{called} ({_passes(estimate, feature)})")
        else:
            others.append(str(called) if estimate.plan.bad_rows else f"{called} ({values[feature]:.2g})")
    told = [f"selected up to these shares of bad {unit_of(estimate)}s: {', '.join(passing)}"] if passing else []
    by = "" if estimate.plan.bad_rows else f", {name}"
    told += [f"not selected even with none bad{by}: {', '.join(others)}"] if others else []
    return f"The strongest features: {'; '.join(told)}."


# What it would take.


def needed(estimate: Estimate) -> str:
    """Say which effect could have been found, and how many rows half of it takes; empty where that is not known."""
    plan = estimate.plan
    if plan.question.selection == "paper" or plan.walk.n_buckets is not None or plan.n_strata > 1:
        return ""
    if any(message.startswith(("nothing can", "no feature can")) for message in estimate.status.messages):
        return ""  # the note says what is needed
    if not plan.sizes:
        return "" if plan.walk.dealing == "pairs" else _needed_of_one(estimate)
    return "" if plan.question.target == "mean" else _needed_of_groups(estimate)


def _needed_of_one(estimate: Estimate) -> str:
    plan, unit = of_question(estimate.plan, min_effect=0.0, selection="fwer"), unit_of(estimate)
    n = plan.n_units - plan.scale_rows
    effect, rows = _effect_and_rows(plan, n)
    if not math.isfinite(effect):
        return ""
    mean = f"a mean of about {effect:.2g} {'times the scale' if plan.target == 'mean' else 'standard deviations'}"
    return _found_with(estimate, f"these {n:,} {unit}s", mean, f"{rows:,} {unit}s", rows)


@lru_cache(maxsize=16)  # a second or two of many rows, for print, summary and page
def _effect_and_rows(plan: Plan, n: int) -> tuple[float, int]:
    """Return the effect that n rows find, infinity if none, and the rows that half of it takes, 0 if none do."""
    effect = smallest_effect(plan, n, plan.contamination, POWER)
    if not math.isfinite(effect):
        return effect, 0

    def suffices(rows: int) -> bool:
        return power_of(at_rows(plan, rows, plan.contamination)).chance(effect / 2, opposed=False) >= POWER

    return effect, fewest(suffices)


def _needed_of_groups(estimate: Estimate) -> str:
    plan, sizes = estimate.plan, estimate.plan.sizes
    assert sizes is not None
    options: dict[str, Any] = {
        "contamination": tuple(plan.bad_shares),
        "level": plan.question.level, "power": POWER, "alternative": plan.question.side,
    }  # fmt: skip
    try:
        effect = plan_groups(sizes, plan.n_hypotheses, **options).detectable_effect
    except InputError:  # nothing can be found, which a note says
        return ""
    if effect is None or not math.isfinite(effect):
        return ""
    outlook = plan_groups(sizes, plan.n_hypotheses, effect=effect / 2, **options).outlook
    rows = 0 if outlook is None or outlook.rows_needed is None else outlook.rows_needed
    unit = unit_of(estimate)
    these = f"these {sizes.label:,} and {sizes.reference:,} {unit}s"
    return _found_with(
        estimate, these, f"a shift of about {effect:.2g} standard deviations", f"{rows:,} {unit}s in all", rows
    )


def _found_with(estimate: Estimate, these: str, effect: str, wanted: str, rows: int) -> str:
    beyond = f" beyond {abs(estimate.plan.question.min_effect):g}" if estimate.plan.question.min_effect else ""
    takes = f"half of it takes about {wanted}" if rows else "half of it is out of reach at this share of bad rows"
    return f"With {these} {effect}{beyond} would be found with a chance of {percent(POWER)} (normal noise); {takes}."


# Several tests, and all as text of 80 columns.


def overview(result: Several) -> list[dict[str, Any]]:
    """Return a row for each test: its name, sizes of the groups, number of features and the strongest of them."""
    return overview_of(list(result.results.values()))


def overview_of(estimates: list[Estimate]) -> list[dict[str, Any]]:
    """Return the same for the estimates of some tests."""
    rows = []
    for estimate, names in zip(estimates, names_of_tests(estimates), strict=True):
        features, sizes = strongest_first(estimate, estimate.support), estimate.plan.sizes
        assert sizes is not None
        rows.append(
            {
                "test": visible(name_of_test(names)),
                "n label": sizes.label,
                "n reference": sizes.reference,
                "features": int(estimate.support.size),
                "strongest": list_names(estimate.names(features[: STRONGEST + 1]), STRONGEST),
            }
        )
    return rows


NOTED = 4
"""Notes below the table: those that come first matter most."""


def printed(result: Estimate | Several) -> str:
    """Return verdict and table, as `print` shows them."""
    lines = [wrap(line) for line in verdict(result)]
    tests = estimates_of(result)
    lines += _of_one(cast("Estimate", result)) if tests is None else _of_tests(tests)
    said = cast("Estimate", result).status.messages if tests is None else tests[0].status.messages
    lines += [wrap(f"Note: {note}.") for note in said[:NOTED]]
    more = f" and {len(said) - NOTED} more notes" if len(said) > NOTED else ""
    return "\n".join((*lines, f"summary() has the details{more}."))


def _of_one(estimate: Estimate) -> list[str]:
    k = int(estimate.support.size)
    if k:
        more = [f"… and {k - SHOWN:,} more in table()"] if k > SHOWN else []
        marked = ["* a centre, not a mean"] if (estimate.skewed[estimate.support] == 1).any() else []
        return ["", *aligned(selected(estimate, SHOWN)), *more, *marked, ""]
    if estimate.plan.question.selection == "paper" or estimate.plan.n_features == 0:
        return []
    takes = [wrap(sentence)] if (sentence := needed(estimate)) else []
    return ["", *aligned(closest(estimate)), *takes, "table(all=True) has all features."]


def _of_tests(estimates: list[Estimate]) -> list[str]:
    rows = overview_of(estimates)
    shown = [(row["test"], f"{row['n label']:,} / {row['n reference']:,}", f"{row['features']:,}") for row in rows]
    lines = aligned(Lines(("test", "rows", "features"), shown[:SHOWN]), longest=WIDTH // 2)
    width = WIDTH - len(lines[0]) - 2
    strongest = ["strongest first", *(str(row["strongest"]) for row in rows)]
    out = [
        f"{line}  {textwrap.shorten(text, width, placeholder=' …')}"
        for line, text in zip(lines, strongest, strict=False)
    ]
    more = [f"… and {len(rows) - SHOWN:,} more in results"] if len(rows) > SHOWN else []
    if not any(each.support.size for each in estimates):
        at = nearest(estimates)
        more += ["", f"Closest is {_cut(rows[at]['test'], WIDTH // 2)}:", *_of_one(estimates[at])[1:-1]]
    return ["", *(line.rstrip() for line in out), *more, ""]


def nearest(estimates: Sequence[Estimate]) -> int:
    """Return which of some tests that select nothing comes nearest to it."""

    def near(at: int) -> tuple[float, float]:
        share = np.nan_to_num(estimates[at].max_contamination, nan=-1.0).max(initial=-1.0)
        return float(share), -float(estimates[at].p_values.min(initial=1.0))

    return max(range(len(estimates)), key=near)


def wrap(sentence: str) -> str:
    """Return a sentence in lines of 80 columns."""
    return textwrap.fill(visible(sentence), WIDTH, break_long_words=False, break_on_hyphens=False)


def aligned(lines: Lines, longest: int = LONGEST) -> list[str]:
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
