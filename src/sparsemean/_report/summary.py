"""An estimate in words: verdict, what was done and what is promised; and a table for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._fit.messages import how_tested
from sparsemean._report import groups
from sparsemean._report.groups import Names
from sparsemean._report.guarantees import MISSING, RULES, chosen_by_looking, of_null
from sparsemean._report.strongest import CLOSEST, SHOWN, closest_in_words, needed
from sparsemean._report.suspects import more_look_bad, unit_of
from sparsemean._report.verdict import verdict
from sparsemean._stats import path
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import list_names, pluralize, unit_name
from sparsemean._util.files import map_text
from sparsemean._util.plans import Plan, Side
from sparsemean.errors import visible

if TYPE_CHECKING:
    import pandas as pd

    from sparsemean.result import Estimate


def summary(estimate: Estimate, names: Names | None = None) -> str:
    """Say the verdict, then what was done and found besides, notes, and in the end what is promised of it.

    A line each; groups by the ``names`` given, else by their own.
    """
    names = names or groups.names_of(estimate)
    done = " ".join(done_and_found(estimate, names))
    promised = " ".join(details(estimate, names))
    lines = (*verdict(estimate, names), done, *notes(estimate.status.messages), f"Details: {promised}")
    return "\n".join(map(visible, lines))


def notes(messages: Iterable[str]) -> list[str]:
    """Return remarks as sentences, those that shout first."""
    return [f"Note: {message}." for message in messages]


def done_and_found(estimate: Estimate, names: Names | None) -> list[str]:
    """Say by what and from what was tested, what was looked for, and what else there is to see."""
    plan, k = estimate.plan, estimate.support.size
    how = f" by {tested}" if (tested := how_tested(plan)) and plan.question.selection != "paper" else ""
    sentences = [f"Tested: {pluralize(plan.n_features, 'feature')}{how}, {_from(estimate, names)}."]
    looked_for = _asked(estimate) if names is None else groups.looked_for(plan, names)
    sentences += [looked_for] if looked_for else []
    if k == 0 and plan.question.selection != "paper" and plan.n_features:
        sentences.append(closest_in_words(estimate))
        sentences += [takes] if (takes := needed(estimate)) else []
    return [*sentences, *_rows(estimate)]


def details(estimate: Estimate, names: Names | None) -> list[str]:
    """Say what is promised, of how many bad rows at least, and what the values are."""
    plan, k = estimate.plan, estimate.support.size
    sentences = [_paper(estimate) if plan.question.selection == "paper" else promise(plan)]
    if k and plan.question.selection != "paper":
        sentences.append(f"Every one of them survives at least {_survived(estimate)}.")
    if k and names is not None:
        sentences.append(groups.what_estimates_are(plan, groups.direction(names)))
    elif k and plan.question.target == "mean":
        sentences.append("Estimates are means, whatever the skew.")
    if k and (pair := groups.matched(estimate)) is not None:
        sentences.append(f"Estimates are differences within pairs, {groups.direction(pair)}.")
    if k and estimate.status.refinement:
        sentences.append(f"Values on the support: {estimate.status.refinement}.")
    return sentences


def _from(estimate: Estimate, names: Names | None) -> str:
    """Say which rows were looked at, and how many of them may be bad."""
    plan, unit = estimate.plan, unit_of(estimate)
    as_look = ", as many as look it" if plan.auto and plan.bad_rows and not more_look_bad(estimate) else ""
    if names is None:
        rows = f"{plan.n_rows} {unit}s" if unit != "subject" else f"{plan.n_rows} rows of {plan.n_units} subjects"
        return f"from {rows} of which {plan.bad_rows or 'none'} may be bad{as_look}"
    strata = f", within {plan.n_strata:,} strata" if plan.n_strata > 1 else ""
    compared = f"{groups.direction(names)}{strata}, from {groups.sizes(plan, names, unit)}"
    if not plan.bad_rows:
        return f"{compared}, of which none may be bad{as_look}"
    number = f"{plan.bad.label}" if plan.sizes is None else f"{plan.bad.label} and {plan.bad.reference}"
    covered = f"; {groups.wrong_labels(plan, unit)}" if plan.sizes else ""
    return f"{compared}, of which {number} may be bad{as_look} ({groups.shares(plan, names)}{covered})"


def _asked(estimate: Estimate) -> str:
    """Say what was looked for in one sample, where that is not simply a value other than zero."""
    plan, null = estimate.plan, estimate.shift
    what = "means" if plan.question.target == "mean" else "centres"
    zero = null is None or not null.any()
    named = "0" if zero or null is None else f"{null[0]:g}" if (null == null[0]).all() else "the null value of each"
    far = f" by more than {plan.question.min_effect:g}" if plan.question.min_effect else ""
    if plan.question.side is Side.BOTH and zero and not far:
        return ""
    where = plan.question.side.pick("other than", "above", "below")
    return f"Looked for: {what} {where} {named}{far}."


def _survived(estimate: Estimate) -> str:
    """Say how many bad rows the weakest selected feature survives."""
    plan, unit = estimate.plan, unit_name(estimate.units)
    if plan.sizes:
        return f"{np.min(estimate.max_contamination[estimate.support]):.2%} bad {unit}s of each group"
    least = int(np.min(estimate.decision.last[estimate.support]))
    return f"{pluralize(least, f'bad {unit}')} ({least / plan.n_units:.2%} of all)"


def _rows(estimate: Estimate) -> list[str]:
    """Say by what rows were judged, what speaks against suspects, and what shows only without them."""
    status, sentences = estimate.status, []
    if status.screening:
        sentences.append(f"{_capital(status.screening)}.")
    if estimate.rows is not None and estimate.rows.reasons and (worst := groups.suspects(estimate)):
        sentences.append(f"Suspects, {worst}.")
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        names = list_names(estimate.names(uncertified.features))
        sentences.append(f"Only without those rows, and so not certified: {names}.")
    return sentences


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _paper(estimate: Estimate) -> str:
    plan = estimate.plan
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


# An estimate as a notebook shows it: verdict, the strongest features, and the rest in words.

COLUMNS = ("feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius", "max_contamination")
GROUP_COLUMNS = (*COLUMNS[:5], "auc", "mean_0", "mean_1", *COLUMNS[5:])
NOTHING = ("feature", "p_adjusted", "max_contamination")


def fragment(estimate: Estimate) -> str:
    """Return HTML without scripts or styles of its own, names escaped; it needs no extra."""
    names, k = groups.names_of(estimate), int(estimate.support.size)
    said = verdict(estimate, names)
    parts = ["<div>", *(f"<p><strong>{escape(line)}</strong></p>" for line in said)]
    table = _shown(estimate)
    if len(table):
        parts.append(as_html(table, float_format=lambda x: f"{x:.4g}"))
    if k > SHOWN:
        parts.append(f"<p>… and {k - SHOWN:,} more in <code>table()</code></p>")
    rest = estimate.summary().splitlines()[len(said) :]
    return "".join((*parts, *(f"<p>{escape(line)}</p>" for line in rest), "</div>"))


def as_html(table: pd.DataFrame, **options: Any) -> str:
    """Return a table for notebooks, its texts escaped."""
    return str(map_text(table, visible).to_html(index=False, border=0, escape=True, **options))


def _shown(estimate: Estimate) -> pd.DataFrame:
    """Return the strongest of the selected features; where none is, those that are closest to it."""
    plan, k = estimate.plan, estimate.support.size
    adjusted = "q_value" if plan.question.selection in ("fdr", "fdr_by") else "p_adjusted"
    if k or plan.question.selection == "paper":
        table = estimate.table().head(SHOWN)
        columns = list(GROUP_COLUMNS if plan.walk.dealing == "pairs" else COLUMNS)
    else:
        table = estimate.table(all=True).sort_values("max_contamination", ascending=False, kind="stable").head(CLOSEST)
        columns = list(NOTHING)
    columns[columns.index("p_adjusted")] = adjusted
    return table[[name for name in columns if name in table]]
