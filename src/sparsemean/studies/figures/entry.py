"""When means are learned, and how long features without one stay below α: the window of Theorem 1, step by step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from sparsemean._fit.theorems import window
from sparsemean._stats import path
from sparsemean._util.records import FloatArray
from sparsemean.studies.figures import Options, Outcome, PaperFigure, TableRow, write_table
from sparsemean.studies.figures.lower_bound import Panel, draw, log_log

TITLE = "The entry-time law and the window, as α and η fall"
BUCKETS, BAD, SIGMA = 10_000, 100, 10.0
"""J = 100⌈εn⌉ buckets of a row each, at ε = 0.01, and the spread of their means in units of σ√ε."""
MEANS = (25.0, 30.0, 50.0, 100.0)
"""In units of σ√ε. A mean is learned when it is estimated to within `NEAR` of these."""
NEAR, NULLS = 20.0, 50
"""The other is the number of features without a mean."""
UNIT, ALPHAS, ETAS = 0.1, (1e-2, 1e-5, 1e-8, 1e-12), (0.1, 0.03, 0.01)
"""Theorem 1 allows α ≤ 1e-5 and η ≤ 0.01 where σ√ε = 0.1: others are what it does not speak of."""
SMALL_UNIT, SMALL_ALPHA = 1e-11, 1e-15
"""The same data in other units, and an α that the theorem allows there."""
TRIALS, QUICK_TRIALS = 10, 2
RATE = 0.6
"""The least β of a mean that is not learned, with which the paper proves its law."""


def law(mean: float, alpha: float, eta: float) -> float:
    """Return 5/(3η)·ln(μ/α), in which the paper has a mean learned."""
    return 5 / (3 * eta) * math.log(mean / alpha)


def longest(mean: float, alpha: float, eta: float, rate: float = RATE) -> float:
    """Return ln(μ/α²)/(2·ln(1 + βη)): in so many steps u² = α²(1 + βη)^2t is a mean, in whatever units."""
    return math.log(mean / alpha**2) / (2 * math.log1p(rate * eta))


def draw_means(seed: int, trial: int, unit: float = UNIT) -> tuple[FloatArray, FloatArray]:
    """Return means of buckets of features with a mean, and without; bad rows oppose them, or all are on one side."""
    rng = np.random.default_rng((seed, trial))
    values = SIGMA * rng.standard_t(5, (BUCKETS, len(MEANS) + NULLS)) * math.sqrt(3 / 5)
    values[:, : len(MEANS)] += np.array(MEANS)
    values[:BAD] = np.where(np.arange(values.shape[1]) < len(MEANS), -1e6, 1e6)
    return unit * values[:, : len(MEANS)], unit * values[:, len(MEANS) :]


def learned(means: FloatArray, alpha: float, eta: float, unit: float = UNIT) -> FloatArray:
    """Return the first step at which each mean is estimated to within `NEAR`."""
    wanted = unit * np.array(MEANS)
    steps = math.ceil(max(longest(mean, alpha, eta) for mean in wanted)) + 1
    there = path.walk(means, alpha=alpha, eta=eta, times=range(steps + 1)) > wanted - NEAR * unit
    return np.where(there.any(axis=0), there.argmax(axis=0), np.inf)


def measure(options: Options) -> pd.DataFrame:
    """Return a row for each trial, α, η and mean: when it was learned, and when the first null feature left α."""
    trials = options.trials or (QUICK_TRIALS if options.quick else TRIALS)
    tell, rows = options.counting(trials), list[TableRow]()
    pairs = [(UNIT, alpha, eta) for alpha, eta in itertools.product(ALPHAS, ETAS)]
    pairs.append((SMALL_UNIT, SMALL_ALPHA, min(ETAS)))
    for trial in range(trials):
        for unit, alpha, eta in pairs:
            signals, nulls = draw_means(options.seed, trial, unit)
            left = float(path.entry_times(nulls, alpha=alpha, eta=eta).min())
            for size, step in zip(MEANS, learned(signals, alpha, eta, unit), strict=True):
                told = {"trial": trial, "unit": unit, "alpha": alpha, "eta": eta, "mean": size, "learned": step}
                laws = {"law": law(unit * size, alpha, eta), "longest": longest(unit * size, alpha, eta)}
                rows.append({**told, **laws, "left": left})
        tell()
    return pd.DataFrame(rows)


def make(options: Options) -> Outcome:
    """Walk, and write ``entry.csv``, ``entry-trials.csv`` and ``entry.png``."""
    trials = measure(options)
    trials["of_law"], trials["of_longest"] = trials.learned / trials.law, trials.learned / trials.longest
    table = trials.groupby(["unit", "alpha", "eta"], sort=False, as_index=False).agg(
        of_law=("of_law", "max"), of_longest=("of_longest", "max"), begins=("learned", "max"), ends=("left", "min")
    )
    table["promised from"], table["promised to"] = zip(*map(window, table.alpha, table.eta), strict=True)
    for name, part in (("entry.csv", table), ("entry-trials.csv", trials)):
        write_table(part, options.out / name)
    image = options.out / "entry.png"
    draw(list(_panels(table[table.unit == UNIT], trials[trials.unit == UNIT])), image)
    return Outcome("entry", TITLE, table, (image,), notes=_notes(table))


LINES = ("begins", "promised from", "promised to", "ends")
"""When the last mean is learned, the window of Theorem 1, and when the first feature without a mean leaves α."""


def _panels(table: pd.DataFrame, trials: pd.DataFrame) -> Iterator[Panel]:
    points = trials.assign(estimator=trials["mean"].map("mean {:g} σ√ε".format), x=trials.law, value=trials.learned)
    slowest = points.groupby(["estimator", "x"])["value"].max().reset_index()
    the_law = slowest.assign(estimator="the law", value=slowest.x).sort_values("x")
    yield Panel("a mean is learned", "5/(3η)·ln(μ/α)", "steps", pd.concat([slowest, the_law]))
    by_eta, by_alpha = table[table.alpha == ALPHAS[1]], table[table.eta == min(ETAS)]
    for part, x, label, fixed in (
        (by_eta, np.round(1 / by_eta.eta, 1), "1/η", f"α = {ALPHAS[1]:g}"),
        (by_alpha, np.round(-np.log(by_alpha.alpha), 1), "ln(1/α)", f"η = {min(ETAS):g}"),
    ):
        lines = [part.assign(estimator=name, x=x, value=part[name]) for name in LINES]
        yield Panel(f"the window, {fixed}", label, "steps", pd.concat(lines))


def _notes(table: pd.DataFrame) -> list[str]:
    small, here = table[table.unit == SMALL_UNIT], table[table.unit == UNIT]
    inside = int(((here.begins <= here["promised from"]) & (here.ends >= here["promised to"])).sum())
    by_eta = here[here.alpha == ALPHAS[1]]
    return [
        f"means are learned in at most {here.of_law.max():.2f} of 5/(3η)·ln(μ/α) steps where σ√ε = {UNIT:g}; that law "
        f"has units: the same data where σ√ε = {SMALL_UNIT:g} take {small.of_law.max():.2f} of it, with α and η that "
        "Theorem 1 allows",
        f"β ≥ {RATE} proves ln(μ/α²)/(2·ln(1 + {RATE}η)) in any units: up to {table.of_longest.max():.2f} of it",
        f"what is seen holds the promised window at {inside} of {len(here)} pairs of α and η, and lengthens as η falls "
        f"by the power {log_log(by_eta.eta, by_eta.ends - by_eta.begins)}",
    ]


FIGURES = {"entry": PaperFigure(TITLE, make)}
