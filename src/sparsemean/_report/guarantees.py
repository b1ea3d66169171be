"""What is guaranteed in one very fit, what is assumed for it, and what is not guaranteed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._util.records import Plan

if TYPE_CHECKING:
    from sparsemean.result import Estimate

SHOPPED = 0.23
"""Family-wise error at level .05 of whoever takes the best of 20 seeds."""


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Three lists of sentences."""

    guaranteed: list[str]
    assumed: list[str]
    not_guaranteed: list[str]


def of_fit(estimate: Estimate) -> Guarantees:
    """Return the sentences that hold for this estimate."""
    return Guarantees(_guaranteed(estimate), _assumed(estimate), _not_guaranteed(estimate))


def percent(share: float) -> str:
    """Return a share in percent, without needless digits, that no line break parts from its sign.

    Examples
    --------
    >>> [percent(share).split() for share in (0.05, 0.125, 0.001)]
    [['5', '%'], ['12.5', '%'], ['0.1', '%']]
    """
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%"


def _unit(estimate: Estimate) -> str:
    return "rows" if estimate.units is None else "subjects"


def _replaced(plan: Plan, unit: str) -> str:
    """Say what an adversary may have done."""
    if plan.bad_rows == 0:
        return f"if none of the {plan.n_units:,} {unit} is bad"
    which = f"any {plan.bad_rows:,}" if plan.bad_rows > 1 else "any one"
    who = "the data" if plan.dealing == "pairs" else "the data and the seed"
    return f"even if someone who knows {who} replaced {which} of the {plan.n_units:,} {unit} by anything"


def _guaranteed(estimate: Estimate) -> list[str]:
    plan, unit = estimate.plan, _unit(estimate)
    replaced, k = _replaced(plan, unit), estimate.support.size
    said = []
    match plan.selection:
        case "fwer":
            said.append(
                f"With probability at least {percent(1 - plan.level)} not a single selected feature is false, however "
                f"the features depend on each other, and {replaced}."
            )
        case "fdr":
            said.append(
                f"On average at most {percent(plan.level)} of the selected features are false, for features that are "
                f"independent or positively dependent, as long as no one hides true signals."
            )
        case "fdr_by":
            said.append(
                f"On average at most {percent(plan.level)} of the selected features are false, however the features "
                f"depend on each other, and {replaced}."
            )
    said.append(f"Every p-value is the largest that bad {unit} could have left: it holds {replaced}.")
    if k and plan.noise != "skewed" and estimate.has_values:
        said.append(_intervals(estimate))
    if k and plan.selection == "fwer":
        said.append(
            f"With the same probability, for all features at once: a listed feature is real, or a larger share of the "
            f"{unit} is bad than its column “Survives” says. This holds whatever share was planned for."
        )
    if k and plan.selection != "paper":
        said.append(
            f"Radius: a feature stays selected whatever is done to fewer than that many further {unit}. It is a lower "
            "bound."
        )
    if k and plan.screen_rows:
        made = "p-values and radius" if plan.noise == "skewed" else "p-values, radius and intervals"
        said.append(f"Selection, {made} come from all rows: screening touches the values only.")
    return said


def _intervals(estimate: Estimate) -> str:
    plan = estimate.plan
    infinite = int(np.sum(np.isinf(estimate.intervals[estimate.support]).any(axis=1)))
    worst = plan.level * float(np.sum(1.0 / np.arange(1, plan.n_features + 1)))
    said = (
        f"Of the intervals of the selected features at most {percent(plan.level)} are expected to miss, if features "
        f"are independent and no one chose by replacing {_unit(estimate)} which of them are selected; else "
    )
    said += f"at most {percent(worst)}." if worst < 1 else "no such share is promised."
    if unknown := int(np.sum(np.isnan(estimate.intervals[estimate.support, 0]))):
        said += f" {unknown:,} of them have none, as many of their values are exactly the null value."
    if infinite:
        said += (
            f" {infinite:,} of them end at infinity, as the sample is too small for that many bad {_unit(estimate)}."
        )
    return said


def _assumed(estimate: Estimate) -> list[str]:
    plan, unit = estimate.plan, _unit(estimate)
    said = [f"{unit.capitalize()} are independent of each other. Several rows of one subject are not."]
    if plan.bad_rows:
        said.append(
            f"No more than {plan.bad_rows:,} of the {plan.n_units:,} {unit} are bad ({percent(plan.contamination)})."
        )
    if plan.dealing == "pairs":
        said.append(
            "A feature that does not differ has the same distribution in both groups, of any form. A difference in "
            "spread alone breaks this too, and may be noticed."
        )
        said.append(
            "For estimates and intervals, not for the selection: a feature that differs has the same distribution in "
            "both groups but for a shift by a constant."
        )
    elif plan.noise == "skewed":
        said.append(
            "Noise may be skewed, up to a bound: what higher orders add to a contrast is at most 0.07, 0.053 and 0.042 "
            "for buckets of 1, 2 and 4, and its variance at most 13/16. These are assumptions, not theorems."
        )
    else:
        said.append(
            "A feature without a mean has noise that is symmetric about the null value; tails may be as heavy as they "
            "like, and differ from row to row. Under skewed noise a feature is selected for its median."
        )
    if plan.dealing != "pairs":
        said.append(
            "The seed, which deals rows into buckets, was not chosen after seeing what it selects: at a level of "
            f"{percent(0.05)} the best of 20 seeds selects a false feature with probability {SHOPPED:g}."
        )
    if plan.missing == "omit":
        said.append("A value is missing for reasons that have nothing to do with what it would have been.")
    return said


def _not_guaranteed(estimate: Estimate) -> list[str]:
    plan, unit, said = estimate.plan, _unit(estimate), []
    if plan.selection == "paper":
        said.append(
            "How many selected features are false: the paper’s rule has no error rate, and far rows on one side can "
            "hide a mean of the other sign. Adjusted p-values say which of them Holm would have selected."
        )
        if estimate.selection.filled_up:
            said.append(
                f"{estimate.selection.filled_up} feature(s) did not pass the rule and only fill the support up."
            )
    if plan.selection == "fdr":
        said.append(
            f"The share of false features once {unit} have been replaced: hiding true signals can raise it above "
            f"{percent(plan.level)}. The rules “fwer” and “fdr_by” withstand that."
        )
    if plan.noise == "skewed":
        said.append("Intervals: medians of bucket means miss the mean by an unknown amount, so there are none.")
    has = "differ" if plan.dealing == "pairs" else "have a mean"
    said.append(f"That all is found: a feature not listed may {has}, too little to be told from noise and bad {unit}.")
    if estimate.support.size:
        said.append(_values(estimate))
    if estimate.rows is not None and estimate.rows.suspects.size:
        said.append(f"Which {unit} are bad: the list of suspects may hold a good one and miss a bad one.")
    found = estimate.uncertified
    if found is not None and found.features.size:
        said.append(
            f"The {found.features.size:,} feature(s) listed apart, which only the rows left after screening show: "
            "their p-values treat those rows as if nobody had chosen them by looking."
        )
    said.append(f"Anything, once more {unit} are bad than a feature survives.")
    return said


def _values(estimate: Estimate) -> str:
    plan = estimate.plan
    if not estimate.has_values:
        return "How large a mean is: estimates and intervals need the rows, which were not at hand."
    if plan.dealing == "pairs":
        return "The estimate itself, the median of all differences, is robust, but only its interval has a bound."
    if not plan.refine:
        return "The estimate itself, a median of bucket means, is robust, but only its interval has a bound."
    held = (
        ", but it is kept inside its interval, which has one"
        if plan.refine == "auto" and plan.noise != "skewed"
        else ""
    )
    return f"The estimate itself: it is robust and was measured against many attacks, without a bound of its own{held}."
