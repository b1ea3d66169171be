"""The plot of a plan: the smallest mean that can be found, over the number of rows and the contamination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._fit.power import at_rows
from sparsemean._stats.planning import MIN_ROWS
from sparsemean._stats.power import power_of
from sparsemean._util.checks import fraction_of_rows, pluralize
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError, require
from sparsemean.plots._style import ALARM, CYCLE, axes_for, entitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONTAMINATIONS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3)
MARKERS = "osv^Dx"
NAMES = {"ranks": "ranks", "buckets": "buckets", "sums": "sums for the mean"}
"""Tests in words."""
NUMBERS = 40
"""Numbers of rows that the curves are computed at."""
DEFAULT_POWER = 0.8
"""As `sparsemean.plan` has it, for plans of fits, which have none of their own."""


def plot_plan(
    plan: Plan,
    ax: Axes | None = None,
    *,
    contaminations: Sequence[float] = CONTAMINATIONS,
    n_range: tuple[int, int] | None = None,
) -> Axes:
    """Draw the detectable effect over the number of rows, a curve for each contamination, and the plan's own place.

    Parameters
    ----------
    plan
        What `sparsemean.plan` returns, or the plan of an estimate from one group; its test is that of all curves.
    ax
        Axes to draw on; new ones by default.
    contaminations
        Shares of bad rows; six at most.
    n_range
        Fewest and most rows drawn; by default a tenth and ten times those of the plan.

    Examples
    --------
    >>> import sparsemean as sm
    >>> from sparsemean.plots import plot_plan
    >>> ax = plot_plan(sm.plan(2000, 20_000))  # doctest: +SKIP
    """
    if not isinstance(plan, Plan) or plan.walk.dealing != "blocks":
        rule = "be made by sparsemean.plan for one group, or be that of a certified fit of one group"
        raise InputError(
            "plan", rule, f"dealing {plan.walk.dealing!r}" if isinstance(plan, Plan) else type(plan).__name__
        )
    shares = [fraction_of_rows(share) for share in contaminations]
    if not 0 < len(shares) <= len(CYCLE):
        raise InputError("contaminations", f"be one to {len(CYCLE)} numbers", f"{len(shares)} of them")
    numbers = _numbers(plan, n_range)
    power = DEFAULT_POWER if plan.outlook is None else plan.outlook.power
    curves = np.array(
        [[power_of(at_rows(plan, int(n), share=share)).smallest(power) for n in numbers] for share in shares]
    )
    ax = axes_for(ax)
    ax.set(xscale="log", yscale="log", xlim=(numbers[0], numbers[-1]))
    for k, (share, curve) in enumerate(zip(shares, curves, strict=True)):
        _draw_curve(ax, numbers, curve, k, f"{100 * share:.3g} % bad" if share else "no bad rows")
    own = power_of(at_rows(plan, plan.n_units)).smallest(power)
    if np.isfinite(own) and numbers[0] <= plan.n_units <= numbers[-1]:
        label = f"this plan: {own:.2g}"
        ax.plot([plan.n_units], [own], "*", color=ALARM, markersize=14, markeredgecolor="white", zorder=4, label=label)
    _tick(ax)
    ax.set_xlabel("number of rows")
    beyond = f" beyond {plan.question.min_effect:g}" if plan.question.min_effect else ""
    ax.set_ylabel(f"smallest mean found{beyond}, in standard deviations of Gaussian noise")
    what = f"{pluralize(plan.n_features, 'feature')} by {NAMES[plan.test]}, level {plan.level:g}, power {power:g}"
    entitle(ax, f"What can be found among {what}, if bad rows do not vote against it")
    return ax


def _numbers(plan: Plan, n_range: tuple[int, int] | None) -> IntArray:
    """Return the numbers of rows to compute at, evenly spread on a logarithmic scale, the plan's own among them."""
    low, high = (plan.n_units / 10, plan.n_units * 10) if n_range is None else n_range
    low = max(low, MIN_ROWS)
    if not np.isfinite(high) or not low < high:
        raise InputError("n_range", f"be two rising numbers of rows, the larger above {MIN_ROWS}", n_range)
    spread = np.geomspace(low, high, NUMBERS).round().astype(np.intp)
    own = [plan.n_units] if low <= plan.n_units <= high else []
    return np.union1d(spread, np.array(own, dtype=np.intp))


def _tick(ax: Axes) -> None:
    """Write numbers out at 1, 2 and 5 times powers of ten, or at these alone where a decade has little room."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="plotting")
    for axis, length, least, form in (
        (ax.xaxis, ax.bbox.width, 110, "{x:,.0f}"),
        (ax.yaxis, ax.bbox.height, 45, "{x:g}"),
    ):
        decades = float(np.diff(np.log10(axis.get_view_interval()))[0])
        close = length * 72 / ax.figure.dpi < least * decades
        axis.set_major_locator(ticker.LogLocator(subs=(1,) if close else (1, 2, 5)))
        axis.set_major_formatter(ticker.StrMethodFormatter(form))
        axis.set_minor_formatter(ticker.NullFormatter())


def _draw_curve(ax: Axes, numbers: IntArray, curve: FloatArray, k: int, label: str) -> None:
    """Draw one contamination, from the number of rows on at which anything can be found."""
    there = np.isfinite(curve)
    label = label if there.any() else f"{label}: nothing here"
    first = int(np.argmax(there))
    ax.plot(
        numbers[there], curve[there], color=CYCLE[k], linewidth=1.6, marker=MARKERS[k], markersize=5,
        markevery=[0, *range(6 + 2 * k, max(0, numbers.size - first), 12)] if there.any() else None, label=label,
    )  # fmt: skip
