"""An estimate in words: a paragraph, and a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._report.guarantees import MISSING, RULES, of_null
from sparsemean._stats import path
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import count_of, list_names, unit_name

if TYPE_CHECKING:
    from sparsemean.result import Estimate


def summary(estimate: Estimate) -> str:
    """Say what was done, found and promised."""
    plan, k = estimate.plan, estimate.support.size
    features = "No feature was" if k == 0 else f"{k} feature{' was' if k == 1 else 's were'}"
    rows = f"{plan.n_rows} rows" if estimate.units is None else f"{plan.n_rows} rows of {plan.n_units} subjects"
    sentences = [
        f"{features} selected out of {plan.n_features}, from {rows} of which {plan.bad_rows} may be bad.",
        _paper(estimate) if plan.selection == "paper" else _promise(estimate),
    ]
    if k == 0 and plan.selection != "paper":
        sentences.append(_nothing(estimate))
    if k and plan.selection != "paper":
        least = int(np.min(estimate.selection.last_slack[estimate.support]))
        bad = f"{least} bad {unit_name(estimate.units)}s"
        sentences.append(f"Every one of them survives at least {bad} ({least / plan.n_units:.2%} of all).")
    if k and estimate.class_names is not None:
        sentences.append("Estimates are shifts from {} to {}.".format(*estimate.class_names))
    sentences += _rows_and_values(estimate)
    return " ".join((*sentences, *(f"Note: {message}." for message in estimate.status.messages)))


def _rows_and_values(estimate: Estimate) -> list[str]:
    """Say which rows were left out, how the values were made, and what shows only without those rows."""
    status, sentences = estimate.status, []
    if status.screening:
        sentences.append(f"{_capital(status.screening)}{_worst(estimate)}.")
    if status.refinement:
        sentences.append(f"Values on the support: {status.refinement}.")
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        names = list_names(estimate.names(uncertified.features))
        sentences.append(f"Only without those rows, and so not certified: {names}.")
    return sentences


def _worst(estimate: Estimate) -> str:
    """Name the worst suspects, by number where they have no names."""
    suspects = [] if estimate.rows is None else estimate.rows.suspects.tolist()
    names = estimate.row_names(suspects)
    counted = ", counted from 0" if any(isinstance(name, int) for name in names) else ""
    return f" (worst rows first{counted}: {list_names(names)})" if suspects else ""


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


def _promise(estimate: Estimate) -> str:
    plan = estimate.plan
    gaps = f", {MISSING[0]}" if plan.missing == "omit" else ""
    promise = f"{SELECTIONS[plan.selection]}: {RULES[plan.selection].promise}"
    null = of_null(plan).features
    return f"What is promised at level {plan.level:g}, for {null} and independent rows{gaps}: {promise}."


def _nothing(estimate: Estimate) -> str:
    slack = np.delete(estimate.selection.last_slack, estimate.selection.skipped)
    closest = int(slack.max(initial=-1))
    if closest >= 0:
        return (
            f"With at most {closest} bad rows (contamination {closest / estimate.plan.n_units:.4g}) "
            f"{int(np.sum(slack == closest))} feature(s) would be selected."
        )
    smallest = float(estimate.p_adjusted.min(initial=1.0))
    return f"Not even without bad rows would one be; the smallest adjusted p-value is {smallest:.2g}."


# An estimate as a notebook shows it: the strongest features and the paragraph in words.

SHOWN = 12
"""Rows of the table in a notebook: table and words stay on one screen."""
COLUMNS = ("feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius", "max_contamination")


def fragment(estimate: Estimate) -> str:
    """Return HTML without scripts or styles of its own, names escaped; it needs no extra."""
    plan = estimate.plan
    title = f"{count_of(estimate.support.size, plan.n_features, 'feature')} selected from {plan.n_rows:,} rows"
    parts = [f"<div><p><strong>{title}</strong></p>"]
    selected = estimate.table()[list(COLUMNS)]
    if len(selected):
        parts.append(
            selected.head(SHOWN).to_html(index=False, border=0, float_format=lambda x: f"{x:.4g}", escape=True)
        )
    if len(selected) > SHOWN:
        parts.append(f"<p>… and {len(selected) - SHOWN:,} more in <code>table()</code></p>")
    return "".join((*parts, f"<p>{escape(estimate.summary())}</p></div>"))
