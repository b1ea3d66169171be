"""Plots of bad rows: how many features are left as more of them are assumed, and which rows are suspicious."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._stats.planning import SELECTIONS
from sparsemean._stats.row_scores import LABEL, TOGETHER, limit
from sparsemean._util.checks import count_of, pluralize
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, RowScores
from sparsemean.errors import InputError, require
from sparsemean.plots import _style
from sparsemean.plots._style import (
    ALARM,
    CHOSEN,
    SMALL,
    axes_for,
    dashed,
    entitle,
    label_points,
    say,
    shown,
)
from sparsemean.result._report.plot_data import lost_at, planned_share, steps, why_not_judged
from sparsemean.result._report.wording import check_row_names, percent, wording_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.result import Estimate

# The robustness plot.

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
    plan, wording = estimate.plan, wording_of(estimate)
    ax = axes_for(ax)
    ax.set_xlabel(f"assumed share of bad {wording.each}")
    ax.set_ylabel("features selected")
    lost = np.delete(lost_at(estimate), estimate.decision.skipped)
    shares, left = steps(lost)
    if not left[0]:
        entitle(ax, f"no feature is selected at any contamination ({_rule(plan)})")
        say(ax, f"no feature is selected, even if no {wording.noun} is bad")
        return ax
    ax.step(shares, left, where="post", color=CHOSEN, linewidth=2.0, zorder=2)
    share = planned_share(plan)
    if share is not None:
        planned = int(np.sum(lost > share))
        dashed(ax.axvline, share)
        at_plan = f"as planned: {' and '.join(map(str, wording.allowed))} bad, {pluralize(planned, 'feature')}"
        ax.plot([share], [planned], "D", color=ALARM, markersize=7, zorder=3, clip_on=False, label=at_plan)
    ax.set(xlim=(0, max(float(shares[-1]), 1.05 * (share or 0.0))), ylim=(0, 1.12 * float(left[0])))
    ticker = require("matplotlib.ticker", extra="plots", purpose="plotting")
    ax.xaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    entitle(ax, _title_of_shares(estimate, wording.noun))
    _name_last(ax, estimate, labels)
    return ax


def _name_last(ax: Axes, estimate: Estimate, labels: int) -> None:
    """Name the features that last longest where each is lost."""
    lost = lost_at(estimate)
    lost[estimate.decision.skipped] = np.nan
    last = np.flatnonzero(~np.isnan(lost))
    last = last[np.argsort(-lost[last], kind="stable")]
    height, across = np.arange(1.0, last.size + 1), lost[last]
    names = estimate.names(last[: 10 * labels])
    longest = max((len(shown(name)) for name in names[:labels]), default=0)
    room = min(0.5, (longest + 3) / _style.letters(ax, ax.get_window_extent().width, SMALL))
    ax.set_xlim(0, ax.get_xlim()[1] / (1 - max(0.1, room)))
    label_points(ax, across, height, names, most=labels, colour=CHOSEN, places=OVER)


def _title_of_shares(estimate: Estimate, unit: str) -> str:
    plan = estimate.plan
    share = np.nanmax(np.delete(estimate.max_contamination, estimate.decision.skipped))
    title = f"some feature is left up to {pluralize(round(share * plan.n_units), f'bad {unit}')} of {plan.n_units:,}"
    if plan.sizes:
        title = f"some feature is left up to {percent(share)} bad {unit}s in each group"
    if plan.question.selection == "paper":
        return f"{title}, judged by {_rule(plan)} rather than the paper's rule"
    return f"{title} ({_rule(plan)}, level {plan.question.level:g})"


def _rule(plan: Plan) -> str:
    """Return the rule that says what is left; the paper's has no answer for other numbers of bad rows."""
    return SELECTIONS["fwer" if plan.question.selection == "paper" else plan.question.selection]


# The plot of rows: how far each contradicts the rest, and which are suspect.


def plot_rows(
    estimate: Estimate,
    ax: Axes | None = None,
    *,
    order: str = "rows",
    names: Sequence[object] | None = None,
    labels: int = 12,
) -> Axes:
    """Draw the score of every row, larger where it contradicts the rest more, and name the suspects.

    Between groups the score says how far a row looks like the other one.

    Parameters
    ----------
    estimate
        The result of a fit.
    ax
        Axes to draw on; new ones by default.
    order
        ``"rows"``: as they come; ``"scores"``: from the largest score down.
    names
        A name for each row; by default those of the data, numbers from 0 where there are none.
    labels
        How many of the worst suspects to name, where there is room.
    """
    if order not in ("rows", "scores"):
        raise InputError("order", "be 'rows' or 'scores'", repr(order))
    check_row_names(names, estimate.plan.n_rows, "names")
    ax = axes_for(ax)
    noun = wording_of(estimate).noun if estimate.units is None else "row"
    in_order = f"{noun}, in the order of the data" if order == "rows" else f"rank of the {noun}, worst first"
    ax.set_xlabel(in_order)
    judged_by = "looks like the other group" if estimate.plan.sizes else "deviates from the rest, in robust deviations"
    ax.set_ylabel(f"how far a {noun} {judged_by}")
    rows = estimate.rows
    if (reason := why_not_judged(estimate)) or rows is None:
        entitle(ax, f"{noun}s were not judged")
        say(ax, f"{noun}s were not judged: {reason}")
        return ax
    n = rows.scores.size
    place = np.arange(n, dtype=np.float64)
    if order == "scores":
        place[np.argsort(-rows.scores, kind="stable")] = np.arange(n)
    _draw_rows(ax, estimate, rows, place, noun)
    entitle(ax, _title_of_rows(estimate, rows, noun))
    worst = rows.suspects
    first = worst[: 10 * labels].tolist()
    row_names = estimate.row_names(first) if names is None else [names[row] for row in first]
    label_points(ax, place[worst], rows.scores[worst], row_names, most=labels, colour=ALARM)
    return ax


def _draw_rows(ax: Axes, estimate: Estimate, rows: RowScores, place: FloatArray, noun: str) -> None:
    """Draw the suspects, the rest, and what was held against them."""
    scores, n = rows.scores, rows.scores.size
    line = 0.0 if estimate.plan.sizes else limit(estimate.plan.n_units)
    low, high = min(0.0, float(scores.min())), max(line, float(scores.max()))
    room = 0.06 * (high - low)
    box = (-0.03 * n - 0.5, 1.03 * n - 0.5, low - room, high + room)
    ax.set(xlim=box[:2], ylim=box[2:])
    ax.xaxis.set_major_formatter("{x:,.0f}")
    rest = np.ones(n, dtype=bool)
    rest[rows.suspects] = False
    if estimate.labels is not None:
        rest[estimate.labels < 0] = False  # of neither group
    _style.draw_mass(ax, place[rest], scores[rest], box, pluralize(int(rest.sum()), f"other {noun}"))
    if rows.suspects.size:
        ax.plot(
            place[rows.suspects], scores[rows.suspects], "^", markersize=6.5, color=ALARM, zorder=3,
            markeredgecolor="white", markeredgewidth=_style.rim(rows.suspects.size),
            label=pluralize(rows.suspects.size, f"suspicious {noun}"),
        )  # fmt: skip
    what = "nearer to the other group above" if estimate.plan.sizes else "limit for suspicion"
    dashed(ax.axhline, line, zorder=2, label=what)


def _title_of_rows(estimate: Estimate, rows: RowScores, noun: str) -> str:
    n = rows.scores.size
    if names := wording_of(estimate, shown=shown).names:
        off = sum(kind != LABEL for kind in rows.kinds)
        wrong = rows.suspects.size - off
        others = f", {off:,} deviate{'s' * (off == 1)} from the own group" if off else ""
        verb = "looks" if wrong == 1 else "look"
        return f"{count_of(wrong, n, noun)} {verb} like the other group{others} ({names[1]} and {names[0]})"
    verb = "deviates" if rows.suspects.size == 1 else "deviate"
    together = sum(kind == TOGETHER for kind in rows.kinds)
    of_these = f", {together:,} of them in the same direction" if 0 < together < rows.suspects.size else ""
    return f"{count_of(rows.suspects.size, n, noun)} {verb} from the rest{of_these}"
