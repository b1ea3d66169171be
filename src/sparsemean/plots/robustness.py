"""The robustness plot: how many features are left as more bad rows are allowed for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import pluralize, unit_name
from sparsemean.errors import require
from sparsemean.plots._style import ALARM, CHOSEN, GUIDE, SMALL, axes_for, entitle, label_points, letters, say, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean._util.records import IntArray, Plan
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
    ax.set_xlabel(f"share of bad {unit}s allowed for")
    ax.set_ylabel("features selected")
    slack = np.delete(estimate.selection.last_slack, estimate.selection.skipped)
    rows, left = steps(slack)
    if not left[0]:
        entitle(ax, f"no feature is selected at any contamination ({_rule(plan)})")
        say(ax, f"not even without bad {unit}s is a feature selected")
        return ax
    ax.step(rows / plan.n_units, left, where="post", color=CHOSEN, linewidth=2.0, zorder=2)
    planned = int(np.sum(slack >= plan.bad_rows))
    share = plan.bad_rows / plan.n_units
    ax.axvline(share, color=GUIDE, linewidth=1.0, linestyle="--", zorder=1)
    at_plan = f"as planned: {pluralize(plan.bad_rows, unit)}, {pluralize(planned, 'feature')}"
    ax.plot([share], [planned], "D", color=ALARM, markersize=7, zorder=3, clip_on=False, label=at_plan)
    far = max(float(rows[-1]), plan.bad_rows + 1.0) / plan.n_units
    ax.set(xlim=(0, far), ylim=(0, 1.12 * float(left[0])))
    ticker = require("matplotlib.ticker", extra="plots", purpose="plotting")
    ax.xaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    entitle(ax, _title(estimate, int(rows[-1]) - 1, unit))
    _name_last(ax, estimate, labels)
    return ax


def steps(slack: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of bad rows at which features are lost, 0 before them, and how many are left from each on.

    Examples
    --------
    >>> rows, left = steps(np.array([4, -1, 4, 7]))
    >>> rows.tolist(), left.tolist()
    ([0, 5, 8], [3, 1, 0])
    """
    ends, lost = np.unique(slack[slack >= 0] + 1, return_counts=True)
    rows = np.concatenate(([0], ends)).astype(np.intp)
    return rows, np.concatenate(([lost.sum()], lost.sum() - np.cumsum(lost))).astype(np.intp)


def _name_last(ax: Axes, estimate: Estimate, labels: int) -> None:
    """Name the features that last longest where each is lost."""
    slack = estimate.selection.last_slack.copy()
    slack[estimate.selection.skipped] = -1
    last = np.flatnonzero(slack >= 0)
    last = last[np.argsort(-slack[last], kind="stable")]
    height = np.arange(1.0, last.size + 1)
    across = (slack[last] + 1) / estimate.plan.n_units
    names = estimate.names(last[: 10 * labels])
    longest = max((len(shown(name)) for name in names[:labels]), default=0)
    room = min(0.5, (longest + 3) / letters(ax, ax.get_window_extent().width, SMALL))
    ax.set_xlim(0, ax.get_xlim()[1] / (1 - max(0.1, room)))
    label_points(ax, across, height, names, most=labels, colour=CHOSEN, places=OVER)


def _title(estimate: Estimate, last: int, unit: str) -> str:
    plan = estimate.plan
    title = f"features are left up to {pluralize(last, f'bad {unit}')} of {plan.n_units:,}"
    if plan.selection == "paper":
        return f"{title}, judged by {_rule(plan)} rather than the paper's rule"
    return f"{title} ({_rule(plan)}, level {plan.level:g})"


def _rule(plan: Plan) -> str:
    """Return the rule that says what is left; the paper's has no answer for other numbers of bad rows."""
    return SELECTIONS["fwer" if plan.selection == "paper" else plan.selection]
