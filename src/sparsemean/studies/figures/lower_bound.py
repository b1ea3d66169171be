"""The lower bound: pairs of distributions that no method can tell apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from sparsemean._util.checks import Bunch
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.baselines import BaselineWarning
from sparsemean.errors import require
from sparsemean.studies.figures import write_picture
from sparsemean.studies.methods import Setting, find

if TYPE_CHECKING:
    from matplotlib.axes import Axes

X = TypeVar("X", int, float)


@dataclass(frozen=True, slots=True)
class Slope:
    """An exponent, its standard error (NaN from two points) and the number of points."""

    value: float
    error: float
    points: int

    def __str__(self) -> str:
        if self.points < 2:
            return "n/a"
        return f"{self.value:.2f}" + ("" if math.isnan(self.error) else f" ± {self.error:.2f}")


def log_log(x: Iterable[float], y: Iterable[float]) -> Slope:
    """Fit log y = a + b log x by least squares; points at which either is not positive and finite are left out.

    Examples
    --------
    >>> print(log_log([1, 10, 100], [2, 20, 200]))
    1.00 ± 0.00
    """
    pairs = np.array(list(zip(x, y, strict=True)), dtype=np.float64).reshape(-1, 2)
    logs = np.log(pairs[(np.isfinite(pairs) & (pairs > 0)).all(axis=1)])
    n = len(logs)
    if n < 2 or np.ptp(logs[:, 0]) == 0:
        return Slope(math.nan, math.nan, 0 if n < 2 else 1)
    across, up = (logs - logs.mean(axis=0)).T
    value = float(across @ up / (across @ across))
    if n == 2:
        return Slope(value, math.nan, n)
    rest = up - value * across
    return Slope(value, math.sqrt(float(rest @ rest) / (n - 2) / float(across @ across)), n)


def far_end(points: Mapping[X, float], least: float) -> dict[X, float]:
    """Return the points (x to y) from ``least`` on, or the last three of what comes no further: growth shows there.

    Examples
    --------
    >>> far_end({1: 5.0, 10: 6.0, 100: 20.0, 1000: 200.0}, 100)
    {100: 20.0, 1000: 200.0}
    """
    kept = {x: y for x, y in points.items() if x >= least}
    return kept if len(kept) > 1 else dict(list(points.items())[-3:])


FURTHEST = 100.0
"""Times the largest measured size: as far as a slope is trusted."""


class Reach(NamedTuple):
    """The largest size within a limit of seconds; ``how`` is a mark.

    Nothing where it was measured, "~" where extrapolated, "!" where the method refuses more, "<" and ">" where it is
    less than the smallest size measured, or beyond what is extrapolated.
    """

    size: float
    how: str = ""

    def __str__(self) -> str:
        mantissa, _, exponent = f"{self.size:.1e}".partition("e")
        digits = f"{self.size:.0f}" if self.size < 1000 else f"{mantissa.removesuffix('.0')}e{int(exponent)}"
        return digits + self.how if self.how == "!" else self.how + digits


def reach(seconds: Mapping[float, float], limit: float, *, least: float = 0.0, most: float = math.inf) -> Reach:
    """Return the size at which ``seconds`` (size to time) come to ``limit``.

    Between two measured sizes it is read off the line through them, in logarithms; beyond the last, off the slope at
    the far end, from ``least`` on. A method that refuses sizes above ``most`` goes no further.

    Examples
    --------
    >>> squared = {10: 1.0, 20: 4.0, 40: 16.0}
    >>> print(*(reach(squared, limit) for limit in (4, 64, 1e6, 0.5)), reach(squared, 64, most=50))
    20 ~80 >4e3 <10 50!
    """
    sizes, times = (np.array(list(part), dtype=np.float64) for part in (seconds.keys(), seconds.values()))
    within = np.flatnonzero(times <= limit)
    if within.size == 0:
        return Reach(float(sizes[0]), "<")
    last = int(within[-1])
    if last + 1 < sizes.size:
        (x0, x1), (t0, t1) = np.log(sizes[last : last + 2]), np.log(times[last : last + 2])
        return Reach(float(np.exp(x0 + (x1 - x0) * (math.log(limit) - t0) / (t1 - t0))))
    far = far_end(seconds, least)
    slope = max(log_log(far.keys(), far.values()).value, 1e-3)
    growth = math.exp(min(math.log(limit / times[last]) / slope, math.log(FURTHEST)))
    if sizes[last] * growth > most:
        return Reach(most, "!")
    return Reach(float(sizes[last] * growth), "~" if growth < FURTHEST * (1 - 1e-9) else ">")


# Rates are read off trials.

FACTOR = 2.0
"""Rows are enough when the error is below this many times its limit."""


def worst_errors(trials: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator and x the largest, over attacks, of the median errors; columns estimator, x, value."""
    medians = trials.groupby(["estimator", "x", "attack"], sort=False)["error"].median().reset_index()
    worst = medians.groupby(["estimator", "x"], sort=False)["error"].max().reset_index()
    return worst.rename(columns={"error": "value"})


def best_seconds(trials: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator and x the shortest time; columns estimator, x, value."""
    best = trials.groupby(["estimator", "x"], sort=False)["seconds"].min().reset_index()
    return best.rename(columns={"seconds": "value"})


def enough_rows(trials: pd.DataFrame, *, of_zero: float = math.inf) -> dict[str, float]:
    """Return for each estimator of a sweep over n the smallest n from which on its error is at most twice its limit.

    The limit is its error at the largest n. NaN where that is none: zero, or half of what the answer zero would err
    (``of_zero``) and more.
    """
    errors = worst_errors(trials)
    return {
        str(name): _enough(part.sort_values("x"), of_zero) for name, part in errors.groupby("estimator", sort=False)
    }


def _enough(errors: pd.DataFrame, of_zero: float) -> float:
    n, error = errors.x.to_numpy(), errors.value.to_numpy()
    if not 0 < error[-1] < of_zero / FACTOR:
        return math.nan
    enough = len(n) - 1
    while enough > 0 and error[enough - 1] <= FACTOR * error[-1]:
        enough -= 1
    return float(n[enough])


# Log-log panels: one line for each estimator, its slope in the legend, the claimed growth as a dotted line.

COLOURS = {
    "stage_1": "#0072b2", "default": "#009e73", "full_GD": "#d55e00", "full_filter": "#e69f00", "sparse_GD": "#cc79a7",
    "sparse_filter": "#666666", "median_of_means": "#56b4e9", "mean": "black", "half the distance": "#b00000",
    "sparse_directions": "#542788", "sparse_sdp": "#8c510a", "sparse_sos": "#01665e", "full_stability": "#80b000",
}  # fmt: skip


MOST_MARKS, WIDEST = 6, 500
DASHED = ("sparse_directions", "sparse_sdp", "sparse_sos")
"""Methods of other rows of Table 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Points (columns estimator, x, value), what the axes say, and growths to compare with: (label, exponent)."""

    title: str
    xlabel: str
    ylabel: str
    points: pd.DataFrame
    guides: tuple[tuple[str, float], ...] = ()
    least_x: float = 0.0


def draw(panels: list[Panel], image: Path) -> None:
    """Draw the panels, three in a row, and write the picture."""
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing a figure")
    rows = -(-len(panels) // 3)
    figure, axes = pyplot.subplots(rows, 3, figsize=(14.0, 4.3 * rows), layout="constrained", squeeze=False)
    for ax, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(ax, panel)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    write_picture(figure, image)


def _draw_panel(ax: Axes, panel: Panel) -> None:
    for name, part in panel.points.groupby("estimator", sort=False):
        far = far_end(dict(zip(part.x, part.value, strict=True)), panel.least_x)
        label = f"{name}  {log_log(far.keys(), far.values())}"
        line, colour = "o--" if name in DASHED else "o-", COLOURS.get(str(name))
        ax.plot(part.x, part.value, line, markersize=3.5, linewidth=1.3, color=colour, label=label)
    _draw_guides(ax, panel)
    ax.set_xscale("log")
    ax.set_yscale("log")
    _mark(ax, sorted(set(panel.points.x)))
    ax.set_title(panel.title, loc="left", fontsize="medium")
    ax.set_xlabel(panel.xlabel)
    ax.set_ylabel(panel.ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize="x-small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _mark(ax: Axes, x: list[float]) -> None:
    """Mark the points that were measured, where there is room; tell the other axis in plain numbers."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="drawing a figure")
    if len(x) <= MOST_MARKS and x[-1] <= WIDEST * x[0]:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.xaxis.set_minor_locator(ticker.NullLocator())
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))


def _draw_guides(ax: Axes, panel: Panel) -> None:
    x = np.array([panel.points.x.min(), panel.points.x.max()])
    top = panel.points.value.max()
    for label, exponent in panel.guides:
        y = 1.3 * top * (x / x[np.argmax(x**exponent)]) ** exponent
        ax.plot(x, y, ":", color="0.35", linewidth=1.0)
        ax.annotate(label, (x[-1], y[-1]), xytext=(-2, 3), textcoords="offset points", fontsize="x-small", ha="right")


# The paper's lower bound as a simulation: two laws that an adversary makes look alike, with means σ√ε apart.


@dataclass(frozen=True, slots=True)
class Worlds:
    """The two laws; ``noise`` is the share of the variance that is Gaussian and common to both (0: the paper's)."""

    weight: float
    sigma: float = 1.0
    noise: float = 0.0

    @property
    def jump(self) -> float:
        """How far Q lies from zero."""
        return self.sigma * math.sqrt((1 - self.noise) / self.weight)

    @property
    def means(self) -> tuple[float, float]:
        """Means of the first coordinate under P₁ and P₂; those of all others are zero."""
        return 0.0, self.weight * self.jump

    @property
    def variances(self) -> tuple[float, float]:
        """Variances of the first coordinate; at most σ²."""
        common = self.noise * self.sigma**2
        return common, common + self.weight * (1 - self.weight) * self.jump**2

    def draw(self, n: int, d: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return rows of P₁ and rows of P₂ that differ in as few rows as possible, and which these are."""
        first = math.sqrt(self.noise) * self.sigma * rng.standard_normal((n, d))
        jumped = np.flatnonzero(rng.random(n) < self.weight)
        second = first.copy()
        second[jumped, 0] += self.jump
        return first, second, jumped


def affordable_weight(n: int, contamination: float, share: float = 0.99) -> float:
    """Return the largest weight of Q at which the jumps of n rows are within the budget ⌈εn⌉ in this share of draws.

    At weight ε itself the number of jumps is Binomial(n, ε), above the budget in almost half of all draws.
    """
    from scipy.special import bdtri

    return float(bdtri(math.ceil(contamination * n - 1e-9), n, share))


def simulate(
    grid: tuple[float, ...], estimators: tuple[str, ...], *, n: int, d: int, trials: int, noise: float, seed: int
) -> pd.DataFrame:
    """Show every estimator both worlds as the adversary makes them look, and return its errors in each.

    Columns: contamination, weight, noise, trial, within_budget, looks_like, estimator, error_1 and error_2 (l2, in the
    world of P₁ and of P₂), worst, gap (distance of the means).
    """
    rows = []
    for contamination in grid:
        worlds = Worlds(affordable_weight(n, contamination), noise=noise)
        setting = Setting("lower bound", 0.0, "lower bound", n, d, (worlds.means[1],), contamination, 1)
        for trial, state in enumerate(np.random.SeedSequence([seed, round(1e6 * contamination)]).spawn(trials)):
            seen = worlds.draw(n, d, np.random.default_rng(state))
            told = {
                "contamination": contamination, "weight": worlds.weight, "noise": noise, "trial": trial,
                "within_budget": seen[2].size <= math.ceil(contamination * n - 1e-9), "gap": worlds.means[1],
            }  # fmt: skip
            for view, X in zip(("P1", "P2"), seen[:2], strict=True):
                for name in estimators:
                    errors = _errors(name, X, setting, worlds, trial)
                    rows.append({**told, "looks_like": view, "estimator": name, **errors})
    return pd.DataFrame(rows)


def _errors(name: str, X: FloatArray, setting: Setting, worlds: Worlds, seed: int) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)
        answer = find(name)(Bunch(X=X), setting, seed)
    off = float(answer[1:] @ answer[1:])
    first, second = (math.sqrt((answer[0] - mean) ** 2 + off) for mean in worlds.means)
    return {"error_1": first, "error_2": second, "worst": max(first, second)}


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return, for each contamination, noise and estimator, the larger of its median worst errors over both looks."""
    keys = ["noise", "contamination", "estimator"]
    medians = table.groupby([*keys, "looks_like"], sort=False)[["worst", "gap"]].median().reset_index()
    worst = medians.groupby(keys, sort=False)[["worst", "gap"]].max().reset_index()
    worst["worst_over_root"] = worst.worst / np.sqrt(worst.contamination)
    worst["bound_over_root"] = worst.gap / 2 / np.sqrt(worst.contamination)
    return worst
