"""Fig 1: trajectories of the convex and the nonconvex descent."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sparsemean._stats import path
from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._util.records import FloatArray
from sparsemean.errors import require
from sparsemean.simulate import make_contaminated
from sparsemean.simulate._protocols import Size
from sparsemean.simulate.attacks import replaced_rows
from sparsemean.simulate.distributions import lognormal
from sparsemean.studies.figures import Options, Outcome, PaperFigure, write_picture, write_table
from sparsemean.studies.published import read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Published = dict[tuple[str, int], pd.DataFrame]


def nonconvex(means: FloatArray, n_iter: int, *, alpha: float, eta: float) -> FloatArray:
    """Return |u² − v²| after steps 1 … ``n_iter``, a row for each step."""
    return np.abs(path.walk(means, alpha=alpha, eta=eta, times=range(1, n_iter + 1)))


def convex(means: FloatArray, n_iter: int, *, eta: float, start: float = 0.0) -> FloatArray:
    """Return |μ| after steps 1 … ``n_iter`` of μ ← μ + ηβ(μ), a row for each step.

    β is read off the sorted bucket means; the numbers are those of counting them at every step, to the last bit.
    """
    walks = [_convex_walk(sorted(column), n_iter, eta, start) for column in means.T.tolist()]
    return np.abs(np.array(walks, dtype=np.float64).T)


def _convex_walk(ordered: list[float], n_iter: int, eta: float, start: float) -> list[float]:
    J, mu, walk = len(ordered), start, []
    for _ in range(n_iter):
        net = J - bisect_right(ordered, mu) - bisect_left(ordered, mu)
        mu = mu + eta * net / J
        walk.append(mu)
    return walk


# Fig 1: the subgradient method on u² − v² learns the means one after the other; on the mean itself it does not.

TITLE = "Fig 1 · convex against nonconvex"
KINDS = ("nonconvex", "convex")
N_ROWS, EPSILON, N_BUCKETS = 2000, 0.05, 300
ETA, ALPHA = 0.07, 1e-10
SHOWN = 8
"""The first coordinates are drawn: four with a mean, four without."""
ITERATIONS, QUICK_ITERATIONS = 2000, 1000
TRIALS, QUICK_TRIALS = 10, 5
BATCHES = 20
"""Sets of ten trials that say how far a curve may be from the published one by chance alone."""
ENDS = ("ours", "ours_low", "ours_high", "published", "published_low", "published_high")
"""Columns of the table of ends: line and band."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


@dataclass(frozen=True, slots=True)
class Variant:
    """One reading of the figure's settings; ``order`` is the share of trials below the band, the line and its top."""

    name: str
    title: str
    d: int
    mean: tuple[float, ...]
    noise_scale: float
    noise_shape: float
    location: dict[str, float] = field(hash=False)
    scale: float
    start: float
    order: tuple[float, float, float]

    def noise(self, rng: np.random.Generator, size: Size) -> FloatArray:
        """Draw lognormal magnitudes with random signs."""
        return self.noise_scale * lognormal(rng, size, self.noise_shape)

    def band(self, curves: FloatArray) -> FloatArray:
        """Return low, line and high of (trials, …) curves: order statistics, as published."""
        ordered = np.sort(curves, axis=0)
        return ordered[[int(share * len(curves) + 1e-9) for share in self.order]]


NUMBERS = Variant(
    "numbers", "settings behind the published curves", 100, (5.0, -2.0, -1.5, 2.0), 3.3, 1.0,
    {"nonconvex": 20.0, "convex": 40.0}, 50.0, 1e-10, (0.1, 0.2, 0.3),
)  # fmt: skip


TEXT = Variant(
    "text", "settings of the caption", 500, (5.0, 2.0, 2.0, 1.5), 1.0, math.sqrt(math.log(3.3) / 2),
    {"nonconvex": 20.0, "convex": 20.0}, math.sqrt(50.0), 0.0, (0.25, 0.5, 0.75),
)  # fmt: skip


VARIANTS = (NUMBERS, TEXT)


def make(options: Options) -> Outcome:
    """Run both variants and write ``fig1.csv`` and ``fig1.png``."""
    n_iter = QUICK_ITERATIONS if options.quick else ITERATIONS
    trials = options.trials or (QUICK_TRIALS if options.quick else TRIALS)
    tell = options.counting(4 * trials + (0 if options.quick else 2 * BATCHES * TRIALS))
    curves = {
        (variant.name, kind): variant.band(_trials(variant, kind, n_iter, trials, options.seed, tell))
        for variant in VARIANTS
        for kind in KINDS
    }
    known = published()
    points = _points(curves, known)
    table = _ends(points)
    notes = [
        "coordinates do not meet in either method, so that d changes nothing in the curves shown",
        "text: noise of variance 3.3 and Cauchy rows of scale √50; numbers: lognormal magnitudes times 3.3, a variance "
        f"of {3.3**2 * math.exp(2):.0f}, and Cauchy rows of scale 50 about 20 (nonconvex) and 40 (convex)",
    ]
    notes.append(_overfitted(curves[TEXT.name, "nonconvex"]))
    if not options.quick:
        chance = {kind: final_values(kind, options.seed, tell=tell) for kind in KINDS}
        table["z"] = _z_scores(table, chance)
        notes.append(_verdict(table))
    write_table(points, options.out / "fig1.csv")
    image = options.out / "fig1.png"
    _draw(curves, known, image)
    return Outcome("fig1", TITLE, table, (image,), notes=notes)


def _trials(variant: Variant, kind: str, n_iter: int, trials: int, seed: int, tell: Callable[[], None]) -> FloatArray:
    """Return (trials, n_iter, 8) curves."""
    curves = []
    for state in np.random.SeedSequence([seed, VARIANTS.index(variant), KINDS.index(kind)]).spawn(trials):
        curves.append(one_trial(variant, kind, n_iter, int(state.generate_state(1)[0])))
        tell()
    return np.array(curves)


def one_trial(variant: Variant, kind: str, n_iter: int, seed: int) -> FloatArray:
    """Return the (n_iter, 8) curves of one data set."""
    from sparsemean._kernels.columns import bucket_means

    attack = partial(replaced_rows, location=variant.location[kind], scale=variant.scale)
    data = make_contaminated(
        N_ROWS, variant.d, variant.mean, distribution=variant.noise, contamination=EPSILON, attack=attack,
        random_state=seed,
    )  # fmt: skip
    means = bucket_means(data.X, assign_paper_buckets(N_ROWS, N_BUCKETS, seed), columns=np.arange(SHOWN))
    if kind == "nonconvex":
        return nonconvex(means, n_iter, alpha=ALPHA, eta=ETA)
    return convex(means, n_iter, eta=ETA, start=variant.start)


def final_values(
    kind: str, seed: int, *, batches: int = BATCHES, tell: Callable[[], None] = lambda: None
) -> FloatArray:
    """Return (batches, 8): where the published line would end in as many runs of ten trials."""
    ends = [_trials(NUMBERS, kind, ITERATIONS, TRIALS, seed + 1 + batch, tell)[:, -1] for batch in range(batches)]
    return np.array([NUMBERS.band(end)[1] for end in ends])


def z_score(published: float, ends: FloatArray, coordinate: int) -> float:
    """Return how many standard deviations, on a log scale, a published end lies from ours.

    Coordinates without a mean are exchangeable, so all of ours speak for each.
    """
    signal = coordinate <= len(NUMBERS.mean)
    ours = np.log(ends[:, coordinate - 1] if signal else ends[:, len(NUMBERS.mean) :].ravel())
    return float((math.log(published) - ours.mean()) / ours.std(ddof=1))


def _z_scores(table: pd.DataFrame, chance: dict[str, FloatArray]) -> list[float]:
    return [
        math.nan if math.isnan(end) else z_score(end, chance[method], coordinate)
        for end, method, coordinate in zip(table["published"], table["method"], table["coordinate"], strict=True)
    ]


def _overfitted(band: FloatArray) -> str:
    """Say when the first coordinate without a mean is learnt in the caption's settings."""
    learnt = np.flatnonzero((band[1, :, len(TEXT.mean) :] >= ALPHA).any(axis=1))
    when = f"after {learnt[0] + 1} steps" if learnt.size else f"in none of {band.shape[1]} steps"
    window = math.log(1 / ALPHA) / ETA
    return (
        f"text, nonconvex: the first coordinate without a mean passes α {when}; the theorem reads the support after "
        f"{2 * window:.0f} to {6 * window:.0f}"
    )


def _verdict(table: pd.DataFrame) -> str:
    z = table["z"].dropna()
    return (
        f"{int((z.abs() <= 3).sum())} of {len(z)} published ends within three standard deviations of {BATCHES} more "
        f"runs of ten trials each; the farthest is {z.abs().max():.1f} away"
    )


def published() -> Published:
    """Return the published curves by method and coordinate: x, counted from the first step, line, low and high."""
    points = read("fig1").rename(columns={"median": "line", "q25": "low", "q75": "high"})
    coordinate = points["panel"].str.extract(r"coord (\d+)")[0].astype(int)
    return {
        (kind, k): points.loc[(points["estimator"] == kind) & (coordinate == k), ["x", "line", "low", "high"]]
        for kind in KINDS
        for k in range(1, SHOWN + 1)
    }


def _points(curves: dict[tuple[str, str], FloatArray], all_known: Published) -> pd.DataFrame:
    """Return the curves at the iterations of which values are published: every hundredth and the last."""
    parts = []
    for variant, kind, coordinate, band in _each_curve(curves):
        last = band.shape[1] - 1
        x = np.unique(np.append(np.arange(0, last, 100), last))
        part = pd.DataFrame(
            {"variant": variant.name, "method": kind, "coordinate": coordinate, "x": x,
             "ours_low": band[0, x], "ours": band[1, x], "ours_high": band[2, x]}
        )  # fmt: skip
        known = all_known.get((kind, coordinate)) if variant is NUMBERS else None
        if known is not None:
            names = {"line": "published", "low": "published_low", "high": "published_high"}
            part = part.merge(known.rename(columns=names), on="x", how="left")
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _ends(points: pd.DataFrame) -> pd.DataFrame:
    """Return where each curve ends, beside the mean of its coordinate."""
    ends = points.groupby(["variant", "method", "coordinate"], sort=False).tail(1).reset_index(drop=True)
    means = {variant.name: (*variant.mean, *[0.0] * SHOWN) for variant in VARIANTS}
    at = zip(ends["variant"], ends["coordinate"], strict=True)
    ends.insert(3, "mean", [means[name][coordinate - 1] for name, coordinate in at])
    return ends[["variant", "method", "coordinate", "mean", *ENDS]]


def _each_curve(curves: dict[tuple[str, str], FloatArray]) -> Iterator[tuple[Variant, str, int, FloatArray]]:
    for variant in VARIANTS:
        for kind in KINDS:
            for k in range(SHOWN):
                yield variant, kind, k + 1, curves[variant.name, kind][:, :, k]


def _draw(curves: dict[tuple[str, str], FloatArray], all_known: Published, image: Path) -> None:
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing a figure")
    figure, axes = pyplot.subplots(2, 2, figsize=(10.0, 7.0), layout="constrained", squeeze=False)
    for variant, kind, coordinate, band in _each_curve(curves):
        ax = axes[VARIANTS.index(variant), KINDS.index(kind)]
        _draw_curve(ax, coordinate, band, all_known.get((kind, coordinate)) if variant is NUMBERS else None)
    for row, variant in enumerate(VARIANTS):
        for column, kind in enumerate(KINDS):
            _finish(axes[row, column], variant, kind)
    _legend(figure)
    write_picture(figure, image)


def _draw_curve(ax: Axes, coordinate: int, band: FloatArray, known: pd.DataFrame | None) -> None:
    signal = coordinate <= len(COLOURS)
    colour, above = (COLOURS[coordinate - 1], 2) if signal else ("0.55", 1)
    t = np.arange(1, band.shape[1] + 1)
    ax.plot(t, band[1], color=colour, linewidth=1.4 if signal else 0.9, zorder=above)
    ax.fill_between(t, band[0], band[2], color=colour, alpha=0.2, linewidth=0, zorder=above)
    if known is not None:
        at = known[known.x < band.shape[1]]
        bars = np.maximum([at.line - at.low, at.high - at.line], 0)  # lines were read off a simplified path
        ax.errorbar(
            at.x + 1, at.line, yerr=bars, fmt="o", markersize=3, color=colour, markeredgecolor="black",
            markeredgewidth=0.4, elinewidth=0.7, zorder=above + 2,
        )  # fmt: skip


def _finish(ax: Axes, variant: Variant, kind: str) -> None:
    if kind == "nonconvex":
        ax.set_yscale("log")
    ax.set_title(f"{kind}, {variant.title}", loc="left", fontsize="medium")
    ax.set_xlabel("iteration")
    ax.set_ylabel("|u² − v²|" if kind == "nonconvex" else "|μ|")
    ax.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure) -> None:
    lines = require("matplotlib.lines", extra="plots", purpose="drawing a figure")
    handles = [lines.Line2D([], [], color=colour, label=f"coordinate {k}") for k, colour in enumerate(COLOURS, 1)]
    handles.append(lines.Line2D([], [], color="0.55", label="no mean (5 to 8)"))
    handles.append(lines.Line2D([], [], color="0.3", marker="o", linestyle="", markersize=4, label="published"))
    figure.legend(handles=handles, fontsize="small", frameon=False, ncols=len(handles), loc="outside lower center")


FIGURES = {"fig1": PaperFigure(TITLE, make)}
