"""The volcano plot: how far each feature leans to one side, and how small its p-value is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._stats import path
from sparsemean._stats.decision import harmonic
from sparsemean._util.checks import count_of, pluralize
from sparsemean.plots._style import CHOSEN, GUIDE, axes_for, draw_mass, entitle, group_names, label_points, rim
from sparsemean.result import strongest_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean._util.plans import Plan
    from sparsemean._util.records import FloatArray
    from sparsemean.result import Estimate


def plot_volcano(estimate: Estimate, ax: Axes | None = None, *, labels: int = 12) -> Axes:
    """Draw −log10 p of every feature over its β (Cliff's delta for two groups), the selected ones coloured.

    β is there for every feature, the estimate on the support alone. The p-values allow for the planned bad rows but
    are not adjusted for the number of features; the line is where the rule of the fit ends.

    Parameters
    ----------
    estimate
        The result of a fit.
    ax
        Axes to draw on; new ones by default.
    labels
        How many of the strongest selected features to name, where there is room.
    """
    ax = axes_for(ax)
    height = heights(estimate.log10_p)
    selected = strongest_first(estimate, estimate.support)
    rest = np.ones(height.size, dtype=bool)
    rest[selected] = False
    rest[estimate.decision.skipped] = False
    line = rejection_p(estimate)
    top = 1.12 * max(float(height.max()), 1.0 if line is None else -float(np.log10(line)))
    wide = 1.08 * max(0.05, float(np.abs(estimate.beta).max()))
    ax.set(xlim=(-wide, wide), ylim=(-0.02 * top, top))
    others = pluralize(int(rest.sum()), "other feature")
    draw_mass(ax, estimate.beta[rest], height[rest], (-wide, wide, -0.02 * top, top), others)
    if selected.size:
        ax.plot(
            estimate.beta[selected], height[selected], linestyle="", marker="o", markersize=6, color=CHOSEN,
            markeredgecolor="white", markeredgewidth=rim(selected.size), zorder=3, label="selected",
        )  # fmt: skip
    left_out = estimate.decision.skipped
    if left_out.size:
        label = f"left out, one value only: {left_out.size:,}"
        ax.plot(estimate.beta[left_out], height[left_out], "x", color=GUIDE, markersize=6, zorder=3, label=label)
    _draw_rule(ax, estimate, line)
    ax.set_xlabel(_lean(estimate))
    ax.set_ylabel("−log10 of the p-value")
    entitle(ax, f"{count_of(selected.size, height.size, 'feature')} selected")
    named = estimate.names(selected[: 10 * labels])
    label_points(ax, estimate.beta[selected], height[selected], named, most=labels, colour=CHOSEN)
    return ax


def heights(log10_p: FloatArray) -> FloatArray:
    """Return −log10 p, also where p is below what a number can hold.

    Examples
    --------
    >>> heights(np.array([0.0, -2.0, -400.0])).tolist()
    [0.0, 2.0, 400.0]
    """
    return np.abs(log10_p)


def rejection_p(estimate: Estimate) -> float | None:
    """Return a p-value that parts the features the rule rejects from the others; None for the paper's rule.

    With R of d rejected, Holm's next p-value is above level/(d − R) and the R before are not; those of Benjamini and
    Hochberg are parted by R·level/d (one that could have been rejected alone, where none is).
    """
    plan = estimate.plan
    if plan.question.selection == "paper":
        return None
    if plan.walk.dealing != "pairs":
        return _parting(plan, int(np.sum(estimate.decision.last >= plan.bad_rows)))
    # Features that other tests of the family reject let this one reject more: up to the largest p-value selected.
    largest = float(estimate.p_values[estimate.support].max(initial=0.0))
    return max(largest, _parting(plan, estimate.support.size))


def _parting(plan: Plan, rejected: int) -> float:
    d = plan.n_hypotheses
    if plan.question.selection == "fwer":
        return plan.question.level / max(1, d - rejected)
    return plan.question.level * max(1, rejected) / d / (harmonic(d) if plan.question.selection == "fdr_by" else 1.0)


def _draw_rule(ax: Axes, estimate: Estimate, line: float | None) -> None:
    """Draw where the rule ends: a p-value, or the β that the paper's rule asks for."""
    style: dict[str, Any] = {"color": GUIDE, "linewidth": 1.0, "linestyle": "--", "zorder": 2}
    if line is not None:
        ax.axhline(-float(np.log10(line)), label=f"selected from p = {line:.2g}", **style)
        return
    plan = estimate.plan
    beta = path.selection_threshold(plan.walk.select_at, alpha=plan.walk.alpha, eta=plan.walk.eta)
    for side in (-beta, beta) if np.isfinite(beta) else ():
        ax.axvline(side, label=f"the paper's rule: |β| from {beta:.3f}" if side > 0 else None, **style)


def _lean(estimate: Estimate) -> str:
    """Say what β is."""
    if estimate.plan.walk.dealing == "pairs":
        reference, label = group_names(estimate)
        if estimate.plan.question.target == "mean":
            return f"β: influence sums of {label} less those of {reference}, from −1 to 1"
        return f"Cliff's delta: share of pairs with {label} above {reference} less those with it below"
    null = "zero" if estimate.shift is None else "the null value"
    what = "bucket means" if max(estimate.plan.walk.bucket_sizes) > 1 else "rows"
    return f"β: share of {what} above {null} less the share below"
