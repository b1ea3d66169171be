"""The plot of rows: how far each contradicts the rest, and which are suspect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._stats.row_scores import LABEL, TOGETHER, limit
from sparsemean._util.checks import count_of, pluralize
from sparsemean.errors import InputError
from sparsemean.plots._style import ALARM, GUIDE, axes_for, draw_mass, entitle, group_names, label_points, rim, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean._util.records import RowScores
    from sparsemean.result import Estimate


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
    _check_names(names, estimate.plan.n_rows)
    ax = axes_for(ax)
    in_order = "row, in the order of the data" if order == "rows" else "rank of the row, worst first"
    ax.set_xlabel(in_order)
    ax.set_ylabel(_meaning(estimate))
    rows = estimate.rows
    if rows is None or (reason := _why_no_scores(estimate, rows)):
        entitle(ax, "rows were not judged")
        say(ax, f"rows were not judged: {'no scores were kept' if rows is None else reason}")
        return ax
    n = rows.scores.size
    place = np.arange(n, dtype=np.float64)
    if order == "scores":
        place[np.argsort(-rows.scores, kind="stable")] = np.arange(n)
    _draw(ax, estimate, rows, place)
    entitle(ax, _title(estimate, rows))
    worst = rows.suspects
    first = worst[: 10 * labels].tolist()
    row_names = estimate.row_names(first) if names is None else [names[row] for row in first]
    label_points(ax, place[worst], rows.scores[worst], row_names, most=labels, colour=ALARM)
    return ax


def _draw(ax: Axes, estimate: Estimate, rows: RowScores, place: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    """Draw the suspects, the rest, and what was held against them."""
    scores, n = rows.scores, rows.scores.size
    line = 0.0 if estimate.plan.walk.dealing == "pairs" else limit(estimate.plan.n_units)
    low, high = min(0.0, float(scores.min())), max(line, float(scores.max()))
    room = 0.06 * (high - low)
    box = (-0.03 * n - 0.5, 1.03 * n - 0.5, low - room, high + room)
    ax.set(xlim=box[:2], ylim=box[2:])
    ax.xaxis.set_major_formatter("{x:,.0f}")
    rest = np.ones(n, dtype=bool)
    rest[rows.suspects] = False
    if estimate.labels is not None:
        rest[estimate.labels < 0] = False  # of neither group
    draw_mass(ax, place[rest], scores[rest], box, pluralize(int(rest.sum()), "other row"))
    if rows.suspects.size:
        ax.plot(
            place[rows.suspects], scores[rows.suspects], "^", markersize=6.5, color=ALARM, zorder=3,
            markeredgecolor="white", markeredgewidth=rim(rows.suspects.size),
            label=pluralize(rows.suspects.size, "suspect row"),
        )  # fmt: skip
    what = "nearer to the other group above" if estimate.plan.walk.dealing == "pairs" else "limit for suspicion"
    ax.axhline(line, color=GUIDE, linewidth=1.0, linestyle="--", zorder=2, label=what)


def _check_names(names: Sequence[object] | None, n: int) -> None:
    """Refuse names that are not one for each row."""
    if names is not None and (isinstance(names, str) or len(names) != n):
        received = "one name" if isinstance(names, str) else f"{len(names)} names"
        raise InputError("names", f"have one name for each of the {n} rows", received)


def _why_no_scores(estimate: Estimate, rows: RowScores) -> str:
    """Say why there are no scores; empty where there are."""
    if rows.scores.any():
        return ""
    if estimate.plan.walk.dealing == "pairs":
        return "no feature tells the groups apart"
    if not estimate.plan.question.screen_rows:
        return "screen_rows was off"
    return estimate.status.screening or "no feature is fit to judge them by"


def _meaning(estimate: Estimate) -> str:
    if estimate.plan.walk.dealing == "pairs":
        return "how far a row looks like the other group"
    return "how far a row contradicts the rest, in robust deviations"


def _title(estimate: Estimate, rows: RowScores) -> str:
    n = rows.scores.size
    if estimate.plan.walk.dealing == "pairs":
        off = sum(kind != LABEL for kind in rows.kinds)
        wrong = rows.suspects.size - off
        between = " and ".join(reversed(group_names(estimate)))
        others = f", {off:,} off from their own" if off else ""
        verb = "looks" if wrong == 1 else "look"
        return f"{count_of(wrong, n, 'row')} {verb} like the other group{others} ({between})"
    verb = "contradicts" if rows.suspects.size == 1 else "contradict"
    together = sum(kind == TOGETHER for kind in rows.kinds)
    of_these = f", {together:,} of them off together" if 0 < together < rows.suspects.size else ""
    return f"{count_of(rows.suspects.size, n, 'row')} {verb} the rest{of_these}"
