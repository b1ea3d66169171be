"""An estimate in words: a paragraph, and a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._fit.messages import how_tested
from sparsemean._report import groups
from sparsemean._report.groups import Names
from sparsemean._report.guarantees import MISSING, RULES, of_null
from sparsemean._stats import path
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import count_of, list_names, unit_name
from sparsemean._util.records import Plan

if TYPE_CHECKING:
    from sparsemean.result import Estimate


def summary(estimate: Estimate, names: Names | None = None) -> str:
    """Say what was done, found and promised, groups by the ``names`` given, else by their own."""
    plan, k = estimate.plan, estimate.support.size
    names = names or groups.names_of(estimate)
    features = "No feature was" if k == 0 else f"{k} feature{' was' if k == 1 else 's were'}"
    how = f" by {tested}" if (tested := how_tested(plan)) and plan.selection != "paper" else ""
    sentences = [
        f"{features} selected out of {plan.n_features}{how}, {_from(estimate, names)}.",
        _paper(estimate) if plan.selection == "paper" else promise(plan),
    ]
    if names is None and (asked := _asked(estimate)):
        sentences.append(asked)
    if names is not None:
        sentences += [looked_for] if (looked_for := groups.looked_for(plan, names)) else []
    if k == 0 and plan.selection != "paper":
        sentences.append(_nothing_between(estimate) if plan.sizes else _nothing(estimate))
    if k and plan.selection != "paper":
        sentences.append(f"Every one of them survives at least {_survived(estimate)}.")
    if k and names is not None:
        sentences.append(groups.what_estimates_are(plan, groups.direction(names)))
    elif k and plan.target == "mean":
        sentences.append("Estimates are means, whatever the skew.")
    if k and (pair := groups.matched(estimate)) is not None:
        sentences.append(f"Estimates are differences within pairs, {groups.direction(pair)}.")
    sentences += _rows_and_values(estimate)
    return " ".join((*sentences, *(f"Note: {message}." for message in estimate.status.messages)))


def _from(estimate: Estimate, names: Names | None) -> str:
    """Say which rows were looked at, and how many of them may be bad."""
    plan, unit = estimate.plan, unit_name(estimate.units)
    if names is None:
        rows = f"{plan.n_rows} rows" if unit == "row" else f"{plan.n_rows} rows of {plan.n_units} subjects"
        return f"from {rows} of which {plan.bad_rows} may be bad"
    strata = f", within {plan.n_strata:,} strata" if plan.n_strata > 1 else ""
    compared = f"{groups.direction(names)}{strata}, from {groups.sizes(plan, names, unit)}"
    if not plan.bad_rows:
        return f"{compared}, of which none may be bad"
    number = " and ".join(map(str, plan.bad_by_group[::-1] or (plan.bad_rows,)))
    covered = f"; {groups.wrong_labels(plan, unit)}" if plan.sizes else ""
    return f"{compared}, of which {number} may be bad ({groups.shares(plan, names)}{covered})"


def _asked(estimate: Estimate) -> str:
    """Say what was looked for in one sample, where that is not simply a value other than zero."""
    plan, null = estimate.plan, estimate.shift
    what = "means" if plan.target == "mean" else "centres"
    zero = null is None or not null.any()
    named = "0" if zero or null is None else f"{null[0]:g}" if (null == null[0]).all() else "the null value of each"
    far = f" by more than {plan.min_effect:g}" if plan.min_effect else ""
    sides = {"greater": f"above {named}", "less": f"below {named}", "two-sided": f"other than {named}"}
    if plan.alternative == "two-sided" and zero and not far:
        return ""
    return f"Looked for: {what} {sides[plan.alternative]}{far}."


def _survived(estimate: Estimate) -> str:
    """Say how many bad rows the weakest selected feature survives."""
    plan, unit = estimate.plan, unit_name(estimate.units)
    if plan.sizes:
        return f"{np.min(estimate.max_contamination[estimate.support]):.2%} bad {unit}s of each group"
    least = int(np.min(estimate.selection.last_slack[estimate.support]))
    return f"{least} bad {unit}s ({least / plan.n_units:.2%} of all)"


def _rows_and_values(estimate: Estimate) -> list[str]:
    """Say which rows were left out, how the values were made, and what shows only without those rows."""
    status, sentences = estimate.status, []
    worst = groups.suspects(estimate)
    if status.screening:
        sentences.append(f"{_capital(status.screening)}{f' ({worst})' if worst else ''}.")
    elif worst:
        assert estimate.rows is not None
        number = estimate.rows.suspects.size
        rows = "1 row looks" if number == 1 else f"{number:,} rows look"
        sentences.append(f"{rows} like the other group; {worst}.")
    if status.refinement:
        sentences.append(f"Values on the support: {status.refinement}.")
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        names = list_names(estimate.names(uncertified.features))
        sentences.append(f"Only without those rows, and so not certified: {names}.")
    return sentences


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _paper(estimate: Estimate) -> str:
    plan = estimate.plan
    threshold = path.selection_threshold(plan.select_at, alpha=plan.alpha, eta=plan.eta)
    return (
        f"A feature is selected when its bucket means agree on a sign: among {plan.n_buckets} buckets the share above "
        f"zero less the share below must reach {threshold:.3f} (the paper's rule after {plan.select_at} iterations, "
        "which has no stated error rate)."
    )


def promise(plan: Plan) -> str:
    """Say what is promised under a plan, and for which features."""
    gaps = f", {MISSING[0]}" if plan.missing == "omit" else ""
    rule = f"{SELECTIONS[plan.selection]}: {RULES[plan.selection].promise}"
    null = of_null(plan).features
    return f"What is promised at level {plan.level:g}, for {null} and independent rows{gaps}: {rule}."


def _nothing(estimate: Estimate) -> str:
    slack = np.delete(estimate.selection.last_slack, estimate.selection.skipped)
    closest = int(slack.max(initial=-1))
    if closest >= 0:
        return (
            f"With at most {closest} bad rows (contamination {closest / estimate.plan.n_units:.4g}) "
            f"{int(np.sum(slack == closest))} feature(s) would be selected."
        )
    return _not_even(estimate)


def _nothing_between(estimate: Estimate) -> str:
    """Say at which share of bad rows of each group a feature would be selected."""
    shares = np.delete(estimate.max_contamination, estimate.selection.skipped)
    if np.isnan(shares).all():
        return _not_even(estimate)
    closest = float(np.nanmax(shares))
    number = int(np.sum(shares == closest))
    rows = f"at most {closest:.4g} of each group bad" if closest else "no bad rows"
    return f"With {rows} (contamination {closest:.4g}) {number} feature(s) would be selected."


def _not_even(estimate: Estimate) -> str:
    smallest = float(np.delete(estimate.p_adjusted, estimate.selection.skipped).min(initial=1.0))
    return f"Not even without bad rows would one be; the smallest adjusted p-value is {smallest:.2g}."


# An estimate as a notebook shows it: the strongest features and the paragraph in words.

SHOWN = 12
"""Rows of the table in a notebook: table and words stay on one screen."""
COLUMNS = ("feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius", "max_contamination")
GROUP_COLUMNS = (*COLUMNS[:5], "auc", "mean_0", "mean_1", *COLUMNS[5:])


def fragment(estimate: Estimate) -> str:
    """Return HTML without scripts or styles of its own, names escaped; it needs no extra."""
    plan = estimate.plan
    names = groups.names_of(estimate)
    title = f"{count_of(estimate.support.size, plan.n_features, 'feature')} selected from {plan.n_rows:,} rows"
    title += "" if names is None else f": {groups.direction(names)}"
    parts = [f"<div><p><strong>{escape(title)}</strong></p>"]
    table = estimate.table()
    selected = table[[name for name in (COLUMNS if names is None else GROUP_COLUMNS) if name in table]]
    if len(selected):
        parts.append(
            selected.head(SHOWN).to_html(index=False, border=0, float_format=lambda x: f"{x:.4g}", escape=True)
        )
    if len(selected) > SHOWN:
        parts.append(f"<p>… and {len(selected) - SHOWN:,} more in <code>table()</code></p>")
    return "".join((*parts, f"<p>{escape(estimate.summary())}</p></div>"))
