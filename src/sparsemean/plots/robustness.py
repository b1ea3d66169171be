"""The robustness plot: how many features are left as more bad rows are allowed for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._stats.planning import SELECTIONS, bad_rows
from sparsemean._util.checks import pluralize, unit_name
from sparsemean.errors import require
from sparsemean.plots._style import ALARM, CHOSEN, GUIDE, SMALL, axes_for, entitle, label_points, letters, say, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean._util.plans import Plan
    from sparsemean._util.records import FloatArray, IntArray
    from sparsemean.result import Estimate

OVER = ((4, 2), (4, 9))
"""To the right of where a falling curve ends and above it: it never passes there."""


def plot_robustness(estimate: Estimate, ax: Axes | None = None, *, labels: int = 6) -> Axes:
    """Draw the number of features selected at each contamination, from none to the last one that leaves any.

    A feature that is left at a contamination is real, or more rows than that are bad (with confidence 1 − level,
    for all at once, under Holm).

    Parameters
    ----------
    estimate
        The result of a fit.
    ax
        Axes to draw on; new ones by default.
    labels
        How many of the features that last longest to name, where there is room.
    """
    plan = estimate.plan
    unit = unit_name(estimate.units)
    ax = axes_for(ax)
    ax.set_xlabel(f"share of bad {unit}s{' of each group' if plan.sizes else ''} allowed for")
    ax.set_ylabel("features selected")
    lost = np.delete(lost_at(estimate), estimate.decision.skipped)
    shares, left = steps(lost)
    if not left[0]:
        entitle(ax, f"no feature is selected at any contamination ({_rule(plan)})")
        say(ax, f"not even without bad {unit}s is a feature selected")
        return ax
    ax.step(shares, left, where="post", color=CHOSEN, linewidth=2.0, zorder=2)
    share = planned_share(plan)
    if share is not None:
        planned = int(np.sum(lost > share))
        ax.axvline(share, color=GUIDE, linewidth=1.0, linestyle="--", zorder=1)
        at_plan = f"as planned: {_bad(plan, unit)}, {pluralize(planned, 'feature')}"
        ax.plot([share], [planned], "D", color=ALARM, markersize=7, zorder=3, clip_on=False, label=at_plan)
    ax.set(xlim=(0, max(float(shares[-1]), _beyond(plan, share or 0.0))), ylim=(0, 1.12 * float(left[0])))
    ticker = require("matplotlib.ticker", extra="plots", purpose="plotting")
    ax.xaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    entitle(ax, _title(estimate, unit))
    _name_last(ax, estimate, labels)
    return ax


def steps(lost: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the shares at which features are lost, 0 before them, and how many are left from each on.

    Examples
    --------
    >>> shares, left = steps(np.array([0.05, np.nan, 0.05, 0.08]))
    >>> shares.tolist(), left.tolist()
    ([0.0, 0.05, 0.08], [3, 1, 0])
    """
    ends, number = np.unique(lost[~np.isnan(lost)], return_counts=True)
    left = np.concatenate(([number.sum()], number.sum() - np.cumsum(number)))
    return np.concatenate(([0.0], ends)), left.astype(np.intp)


def lost_at(estimate: Estimate) -> FloatArray:
    """Return the smallest share of bad rows at which each feature is no longer selected; NaN where it never is."""
    return np.asarray(_beyond(estimate.plan, estimate.max_contamination))


def _beyond(plan: Plan, share: Any) -> Any:
    """Return the next share that allows for one bad row more, of either group where there are two."""
    return np.min([(np.floor(share * n + 1e-9) + 1) / n for n in plan.sizes or (plan.n_units,)], axis=0)


def planned_share(plan: Plan) -> float | None:
    """Return the share that allows for as many bad rows as the plan does; None where none does for both groups."""
    if not plan.sizes:
        return plan.bad_rows / plan.n_units
    share = min(m / n for m, n in zip(plan.bad_by_group, plan.sizes, strict=True))
    same = tuple(bad_rows(n, share) for n in plan.sizes) == tuple(plan.bad_by_group)
    return share if same else None


def _name_last(ax: Axes, estimate: Estimate, labels: int) -> None:
    """Name the features that last longest where each is lost."""
    lost = lost_at(estimate)
    lost[estimate.decision.skipped] = np.nan
    last = np.flatnonzero(~np.isnan(lost))
    last = last[np.argsort(-lost[last], kind="stable")]
    height, across = np.arange(1.0, last.size + 1), lost[last]
    names = estimate.names(last[: 10 * labels])
    longest = max((len(shown(name)) for name in names[:labels]), default=0)
    room = min(0.5, (longest + 3) / letters(ax, ax.get_window_extent().width, SMALL))
    ax.set_xlim(0, ax.get_xlim()[1] / (1 - max(0.1, room)))
    label_points(ax, across, height, names, most=labels, colour=CHOSEN, places=OVER)


def _bad(plan: Plan, unit: str) -> str:
    """Say how many bad rows are planned for."""
    if not plan.sizes:
        return pluralize(plan.bad_rows, unit)
    return f"{plan.bad_by_group[1]:,} and {pluralize(plan.bad_by_group[0], unit)}"


def _title(estimate: Estimate, unit: str) -> str:
    plan = estimate.plan
    share = np.nanmax(np.delete(estimate.max_contamination, estimate.decision.skipped))
    title = f"features are left up to {pluralize(round(share * plan.n_units), f'bad {unit}')} of {plan.n_units:,}"
    if plan.sizes:
        title = f"features are left up to {share:.3g} of each group bad"
    if plan.question.selection == "paper":
        return f"{title}, judged by {_rule(plan)} rather than the paper's rule"
    return f"{title} ({_rule(plan)}, level {plan.question.level:g})"


def _rule(plan: Plan) -> str:
    """Return the rule that says what is left; the paper's has no answer for other numbers of bad rows."""
    return SELECTIONS["fwer" if plan.question.selection == "paper" else plan.question.selection]
