"""The plot of rows: how far each contradicts the rest, and which are suspect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._stats.row_scores import limit
from sparsemean.errors import InputError
from sparsemean.plots._style import ALARM, GUIDE, axes_for, draw_mass, entitle, pluralize, rim, say

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

    Between two groups the score says how far a row looks like the other one, and no row is called suspect.

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
    from sparsemean.plots._style import label_points

    in_order = "row, in the order of the data" if order == "rows" else "rank of the row, worst first"
    ax.set_xlabel(in_order)
    ax.set_ylabel(_meaning(estimate))
    judged = estimate.rows
    if judged is None or (reason := _not_judged(estimate, judged)):
        entitle(ax, "rows were not judged")
        say(ax, f"rows were not judged: {'no scores were kept' if judged is None else reason}")
        return ax
    n = judged.scores.size
    place = np.arange(n, dtype=np.float64)
    if order == "scores":
        place[np.argsort(-judged.scores, kind="stable")] = np.arange(n)
    _draw(ax, estimate, judged, place)
    entitle(ax, _title(estimate, judged))
    worst = judged.suspects
    first = worst[: 10 * labels].tolist()
    said = estimate.row_names(first) if names is None else [names[row] for row in first]
    label_points(ax, place[worst], judged.scores[worst], said, most=labels, colour=ALARM)
    return ax


def _draw(ax: Axes, estimate: Estimate, judged: RowScores, place: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    """Draw the suspects, the rest, and what was held against them."""
    scores, n = judged.scores, judged.scores.size
    line = limit(estimate.plan.n_units) if estimate.labels is None else 0.0
    low, high = min(0.0, float(scores.min())), max(line, float(scores.max()))
    room = 0.06 * (high - low)
    box = (-0.03 * n - 0.5, 1.03 * n - 0.5, low - room, high + room)
    ax.set(xlim=box[:2], ylim=box[2:])
    ax.xaxis.set_major_formatter("{x:,.0f}")
    rest = np.ones(n, dtype=bool)
    rest[judged.suspects] = False
    draw_mass(ax, place[rest], scores[rest], box, pluralize(int(rest.sum()), "other row"))
    if judged.suspects.size:
        ax.plot(
            place[judged.suspects], scores[judged.suspects], "^", markersize=6.5, color=ALARM, zorder=3,
            markeredgecolor="white", markeredgewidth=rim(judged.suspects.size),
            label=pluralize(judged.suspects.size, "suspect row"),
        )  # fmt: skip
    what = "limit for suspicion" if estimate.labels is None else "nearer to the other group above"
    ax.axhline(line, color=GUIDE, linewidth=1.0, linestyle="--", zorder=2, label=what)


def _check_names(names: Sequence[object] | None, n: int) -> None:
    """Refuse names that are not one for each row."""
    if names is not None and (isinstance(names, str) or len(names) != n):
        received = "one name" if isinstance(names, str) else f"{len(names)} names"
        raise InputError("names", f"have one name for each of the {n} rows", received)


def _not_judged(estimate: Estimate, judged: RowScores) -> str:
    """Say why there are no scores; empty where there are."""
    if judged.scores.any():
        return ""
    if estimate.labels is not None:
        return "no selected feature tells the groups apart"
    if not estimate.plan.screen_rows:
        return "screen_rows was off"
    return estimate.status.screening or "no feature is fit to judge them by"


def _meaning(estimate: Estimate) -> str:
    if estimate.labels is not None:
        return "how far a row looks like the other group"
    return "how far a row contradicts the rest, in robust deviations"


def _title(estimate: Estimate, judged: RowScores) -> str:
    n, bad = judged.scores.size, estimate.plan.bad_rows
    if estimate.labels is not None:
        return f"how far each of {pluralize(n, 'row')} looks like the other group; none is called suspect"
    rows = "row" if estimate.units is None else "subject"
    what = "contradicts the rest" if judged.suspects.size == 1 else "contradict the rest"
    return (
        f"{judged.suspects.size:,} of {pluralize(n, 'row')} {what} (at most {pluralize(bad, rows)} could be suspected)"
    )
