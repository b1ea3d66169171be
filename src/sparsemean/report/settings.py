"""The fit in four numbers, and all of its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsemean.report.labels import Labels
from sparsemean.report.promises import percent

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

RULES = {
    "fwer": "Holm, family-wise error",
    "fdr": "Benjamini–Hochberg, false discovery rate",
    "fdr_by": "Benjamini–Yekutieli, false discovery rate",
    "paper": "the paper’s rule, no error rate",
}


def facts(estimate: Estimate, labels: Labels) -> list[tuple[str, str]]:
    """Return four numbers with what they are."""
    plan, k = estimate.plan, int(estimate.support.size)
    selected = (f"{k:,} of {plan.n_features:,}", "feature selected" if k == 1 else "features selected")
    rows = (f"{plan.n_units:,}", f"{labels.unit}, of which {plan.bad_rows:,} may be bad")
    error = {
        "fwer": (percent(plan.level), "chance at most that any selected feature is false"),
        "fdr": (percent(plan.level), "of the selected features false at most, on average, without an adversary"),
        "fdr_by": (percent(plan.level), "of the selected features false at most, on average"),
        "paper": ("none", "stated error rate: the paper’s rule"),
    }[plan.selection]
    slack = estimate.selection.last_slack
    if k and plan.selection != "paper":
        least = int(slack[estimate.support].min())
        return [
            selected,
            rows,
            error,
            (percent(least / plan.n_units), f"bad {labels.unit} survived by every one of them"),
        ]
    certified = int(np.sum(slack[estimate.support] >= plan.bad_rows))
    last = (
        (f"{certified:,} of {k:,}", "would be selected by Holm too")
        if k
        else ("–", "nothing selected that could survive")
    )
    return [selected, rows, error, last]


def of_fit(estimate: Estimate) -> list[tuple[str, str]]:
    """Return settings by name, in words."""
    plan = estimate.plan
    said = [
        ("Data", f"{plan.n_rows:,} rows, {plan.n_features:,} features"),
        ("Contamination", f"{percent(plan.contamination)}, {plan.bad_rows:,} of {plan.n_units:,}"),
        ("Selection", f"{plan.selection}: {RULES[plan.selection]}"),
        ("Level", f"{plan.level:g}"),
        ("Missing values", "left out" if plan.missing == "omit" else "refused"),
    ]
    if plan.dealing == "pairs":
        labels = estimate.labels
        sizes = "" if labels is None else f", of {int(np.sum(labels == 0)):,} and {int(np.sum(labels == 1)):,} rows"
        said.append(("Comparison", f"two groups by ranks (Mann–Whitney){sizes}"))
    else:
        said += _one_sample(estimate)
    if estimate.units is not None:
        said.append(("Subjects", f"{plan.n_units:,}, their rows dealt together"))
    said.append(("Fitted in", f"{estimate.status.seconds:.2f} s"))
    return said


def _one_sample(estimate: Estimate) -> list[tuple[str, str]]:
    plan = estimate.plan
    sizes = ", ".join(map(str, plan.bucket_sizes))
    buckets = f"rows in a bucket: {sizes}" if plan.n_buckets is None else f"{plan.n_buckets:,} of {sizes} rows"
    said = [
        ("Noise", plan.noise),
        ("Null value", _null(estimate)),
        ("Buckets", buckets),
        ("Values", _values(estimate)),
        ("Rows screened", "yes" if plan.screen_rows else "no"),
        ("Step size, initial scale", f"{plan.eta:g}, {plan.alpha:g}"),
        ("Seed", str(estimate.seed)),
    ]
    if plan.selection == "paper":
        said.append(("Iterations", f"support read at {plan.select_at}, values at {plan.estimate_at or 'the limit'}"))
        said.append(("Fewest features", str(plan.min_selected)))
    return said


def _values(estimate: Estimate) -> str:
    plan = estimate.plan
    if not estimate.has_values:
        return "none, as the rows were not at hand"
    return f"{plan.refine}, on {plan.refine_on}" if plan.refine else "median of bucket means"


def _null(estimate: Estimate) -> str:
    if estimate.shift is None:
        return "0"
    values = np.unique(estimate.shift)
    return f"{values[0]:g}" if values.size == 1 else f"{values[0]:g} to {values[-1]:g}, one for each feature"
