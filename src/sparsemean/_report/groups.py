"""Two groups in words: who is compared with whom, how many of each may be bad, what was looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sparsemean._stats.planning import bad_rows
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.plans import Plan, Side

if TYPE_CHECKING:
    from sparsemean.result import Estimate

Names: TypeAlias = tuple[str, str]
"""Of the reference and of the label, in this order, as `Plan.sizes` has them; files of version 0.1 have no sizes."""
REST = "the rest"
"""What the reference is called where a label is compared with all others."""
MOST_REASONS = 3
"""Features that a sentence names against one row."""


def percent(share: float) -> str:
    """Return a share in percent, without needless digits, that no line break parts from its sign.

    Examples
    --------
    >>> [percent(share).split() for share in (0.05, 0.125, 0.001)]
    [['5', '%'], ['12.5', '%'], ['0.1', '%']]
    """
    return f"{100 * share:.3g}\u00a0%"


def names_of(estimate: Estimate) -> Names | None:
    """Return the names of the two groups; None for one sample."""
    if estimate.plan.walk.dealing != "pairs":
        return None
    assert estimate.class_names is not None
    reference, label = map(str, estimate.class_names)
    return REST if estimate.plan.rest else reference, label


def matched(estimate: Estimate) -> Names | None:
    """Return the names of the two groups whose rows come in pairs, of which the differences are one sample."""
    if not estimate.paired or estimate.class_names is None:
        return None
    reference, label = map(str, estimate.class_names)
    return reference, label


def direction(names: Names) -> str:
    """Say what is taken from what.

    Examples
    --------
    >>> direction(("control", "treated"))
    'treated minus control'
    """
    return f"{names[1]} minus {names[0]}"


def what_estimates_are(plan: Plan, towards: str) -> str:
    """Say what is estimated, and which numbers beside it carry no guarantee."""
    if plan.question.target == "mean":
        return (
            f"Estimates are differences of means, {towards}, whatever the skew; plain means, their difference, a lift "
            "or a fold change carry no guarantee."
        )
    return f"Estimates are shifts, {towards}; a difference of means, a lift or a fold change carries no guarantee."


def sizes(plan: Plan, names: Names, unit: str) -> str:
    """Say how large the groups are: ``83 rows of M and 42 of F``."""
    if not plan.sizes:
        return pluralize(plan.n_units, unit)
    return f"{pluralize(plan.sizes.label, unit)} of {names[1]} and {plan.sizes.reference:,} of {names[0]}"


def bad(plan: Plan, names: Names, unit: str) -> str:
    """Say how many of each group may be bad: ``5 of the 83 rows of M and 3 of the 42 of F``."""
    if not plan.sizes:
        return f"{plan.bad_rows:,} of the {pluralize(plan.n_units, unit)}"
    may, rows = plan.bad, plan.sizes
    return (
        f"{may.label:,} of the {pluralize(rows.label, unit)} of {names[1]} and {may.reference:,} of the "
        f"{rows.reference:,} of {names[0]}"
    )


def shares(plan: Plan, names: Names) -> str:
    """Say which share of each group may be bad: ``5 % of each group``, or one for each where they differ."""
    if not plan.sizes:
        return percent(plan.contamination)
    beyond = plan.bad.reference - bad_rows(plan.sizes.reference, plan.contamination)
    # Of a rest the numbers of all its labels, each rounded up, add up to a little more.
    as_planned = beyond == 0 or (plan.rest and beyond > 0)
    if plan.bad.label == bad_rows(plan.sizes.label, plan.contamination) and as_planned:
        return f"{percent(plan.contamination)} of each group"
    return f"{percent(plan.bad_shares.label)} of {names[1]} and {percent(plan.bad_shares.reference)} of {names[0]}"


def wrong_labels(plan: Plan, unit: str) -> str:
    """Say how many wrong labels that covers."""
    covered = min(plan.bad)
    if not covered:
        return f"no wrong label: each would cost one {unit} in each group"
    labels = "one wrong label: it" if covered == 1 else f"up to {covered:,} wrong labels: each"
    return f"{labels} costs one {unit} in each group"


HIGHER = ("higher", "lower")
"""What the label is where its values are the larger ones, and the other way round."""


def looked_for(plan: Plan, names: Names) -> str:
    """Say which differences were looked for; empty where all were."""
    more, label, reference = plan.question.min_effect, names[1], names[0]
    if plan.question.side is Side.BOTH:
        return f"Only differences of more than {more:g} were looked for, to either side." if more else ""
    side, other = HIGHER if plan.question.side is Side.UP else HIGHER[::-1]
    if more < 0:
        return f"Looked for: features that are not {other} in {label} than in {reference} by {-more:g} or more."
    by = f" by more than {more:g}" if more else ""
    return f"Only features that are {side} in {label} than in {reference}{by} were looked for."


def null_features(plan: Plan) -> str:
    """Say which features count as false where a smallest effect was asked for."""
    more = plan.question.min_effect
    if plan.question.side is Side.BOTH:
        return f"features that differ by {more:g} at most"
    side, other = HIGHER if plan.question.side is Side.UP else HIGHER[::-1]
    if more < 0:
        return f"features that are {other} by {-more:g} or more"
    return f"features that are {side} by {more:g} at most"


def null_assumption(plan: Plan) -> str:
    """Say what that means of distributions."""
    more = plan.question.min_effect
    down = f"the values of the label, less {more:g}, are stochastically no larger than those of the reference"
    up = f"the values of the label, plus {more:g}, are stochastically no smaller than those of the reference"
    said = plan.question.side.pick(f"{down}, and, plus {more:g}, no smaller", down, up)
    return f"A feature counts as false where {said}."


def suspects(estimate: Estimate) -> str:
    """Name the worst suspects and what speaks against each; empty where there are none."""
    rows = estimate.rows
    if rows is None or not rows.suspects.size:
        return ""
    names = estimate.row_names(rows.suspects.tolist())
    counted = ", counted from 0" if any(isinstance(name, int) for name in names) else ""
    if not rows.reasons:
        return f"worst rows first{counted}: {list_names(names)}"
    told = [f"{name} ({_reason(estimate, row)})" for name, row in zip(names, rows.reasons, strict=True)]
    return f"worst rows first{counted}, with the features that speak against each: {list_names(told)}"


def _reason(estimate: Estimate, features: tuple[int, ...]) -> str:
    return list_names(reasons(estimate, features, MOST_REASONS + 1), MOST_REASONS)


def reasons(estimate: Estimate, features: tuple[int, ...], most: int) -> list[str]:
    """Return the names of the first features that speak against a row."""
    return [str(name) for name in estimate.names(np.array(features[:most], dtype=np.intp))]
