"""Running time as features grow: the paper claims that its first stage is near linear in d."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from sparsemean._fit.one_sample import sparse_mean
from sparsemean._util.checks import Bunch
from sparsemean._util.records import FloatArray
from sparsemean.baselines import BaselineWarning
from sparsemean.errors import require
from sparsemean.studies.figures import Options, Outcome, PaperFigure, TableRow, write_table
from sparsemean.studies.figures.lower_bound import Panel, draw, far_end, log_log
from sparsemean.studies.methods import DEFAULT_MEAN, Setting, find
from sparsemean.studies.published import read

T = TypeVar("T")
Work = Callable[[Bunch, Setting], FloatArray]

TITLE = "Running time as features grow"
BASE = Setting("t", 3.1, "constant_bias", 600, 100, DEFAULT_MEAN, 0.1, len(DEFAULT_MEAN))
BIAS = -2.0
"""Of the paper's attack, added to every entry of a corrupted row."""
GRID = tuple(sorted({*range(150, 301, 10), *(round(10 ** (half / 2)) for half in range(4, 13))}))
"""The published grid, and far beyond it."""
QUICK_GRID = (100, 150, 300, 1000, 3162)
NAMES = {"sparse_filter": "sparse_filter_buckets"}
"""What studies call a method by another name."""
METHODS = ("stage_1", "certified", "default", "full_GD", "full_filter", "sparse_GD", "sparse_filter")
QUADRATIC = ("sparse_GD", "sparse_filter")
"""These hold a covariance of all features, and the rows in double precision."""
MOST_BYTES, SECONDS, QUICK_SECONDS = 5e9, 20.0, 2.0
"""What a method may hold, and how long a call may take, to be timed with more features."""
REPEATS, REPEATING = 7, 2.0
"""Calls, at most, and seconds after which there is no other one."""
TAIL = 10_000
"""Slopes are read from here on: below, what does not depend on d still shows."""


def make(options: Options) -> Outcome:
    """Time every method and write ``runtime.csv``, ``runtime-slopes.csv`` and ``runtime.png``."""
    with require("threadpoolctl", extra="all", purpose="timing on one thread").threadpool_limits(1):
        times, stopped = measure(options)
    slopes = pd.DataFrame(_slopes(times, stopped))
    for name, table in (("runtime.csv", times), ("runtime-slopes.csv", slopes)):
        write_table(table, options.out / name)
    image = options.out / "runtime.png"
    points = times.rename(columns={"method": "estimator", "d": "x", "seconds": "value"})
    known = points[points.published_seconds.notna()].assign(value=lambda part: part.published_seconds)
    wide, narrow = "n = 600, single precision", "published seconds, another machine"
    draw([Panel(wide, "features d", "seconds", points, (("∝ d", 1.0),), TAIL), Panel(narrow, "d", "", known)], image)
    notes = [
        f"one thread, the best of up to {REPEATS} calls, rows in single precision; slopes of log time over log d from "
        f"{TAIL:,} features; published seconds time only a part of each method: shown, not judged",
        *(f"{name}: {why}" for name, why in stopped.items()),
    ]
    return Outcome("runtime", TITLE, slopes, (image,), notes=notes)


def measure(options: Options) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the seconds of every method at each number of features, as far as it goes, and why it stopped."""
    grid, most = (QUICK_GRID, QUICK_SECONDS) if options.quick else (GRID, SECONDS)
    points = read("runtime")
    known = dict(zip(zip(points["estimator"], points["x"], strict=True), points["median"], strict=True))
    rows: list[TableRow] = []
    stopped: dict[str, str] = {}
    tell = options.counting(len(grid))
    for d in grid:
        setting = replace(BASE, d=d)
        data = simulated(setting, options.seed)
        for name in METHODS:
            if name in stopped:
                continue
            if (needed := bytes_needed(name, setting.n, d)) > MOST_BYTES:
                stopped[name] = f"{d:,} features would need {needed / 1e9:.0f} GB"
                continue
            seconds, _ = best_of(partial(work_of(name), data, setting), warm=d == grid[0])
            rows.append({"method": name, "d": d, "seconds": seconds, "published_seconds": known.get((name, d), np.nan)})
            if seconds > most:
                stopped[name] = f"{d:,} features took {seconds:.0f} s"
        tell()
    return pd.DataFrame(rows), stopped


def simulated(setting: Setting, seed: int) -> Bunch:
    """Return Student t rows about the mean, the last of them moved by −2 in every feature, in single precision.

    The same law as `simulate.make_contaminated`, which works in double precision and would need three times the memory.
    """
    rng, n = np.random.default_rng(seed), setting.n
    X = np.empty((n, setting.d), dtype=np.float32)
    for row in X:
        row[:] = rng.standard_t(setting.shape, setting.d)
    mean = np.zeros(setting.d)
    mean[: len(setting.mean)] = setting.mean
    X[:, : len(setting.mean)] += np.array(setting.mean, dtype=np.float32)
    corrupted = np.arange(n - round(n * setting.contamination), n)
    X[corrupted] += np.float32(BIAS)
    return Bunch(X=X, mean=mean, support=np.flatnonzero(mean), corrupted=corrupted)


def work_of(name: str) -> Work:
    """Return what is timed of a method; of our own also the decisions alone: no rows judged, no values refined."""
    if name == "certified":
        return lambda data, told: (
            sparse_mean(
                data.X, contamination=told.contamination, random_state=0, n_jobs=1, refine=None, screen_rows=False
            ).mean
        )
    return lambda data, told: find(NAMES.get(name, name))(data, told, 0)


def best_of(work: Callable[[], T], *, warm: bool = False) -> tuple[float, T]:
    """Return the shortest time of several calls, and the answer of the last; long ones are made once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)  # a method that gives up early is timed as it is
        if warm:
            work()
        began, times = time.perf_counter(), list[float]()
        while not times or (len(times) < REPEATS and time.perf_counter() - began < REPEATING):
            start = time.perf_counter()
            answer = work()
            times.append(time.perf_counter() - start)
    return min(times), answer


def bytes_needed(name: str, n: int, d: int) -> float:
    """Return about how many bytes a method holds, the rows included."""
    return 4.0 * n * d if name not in QUADRATIC else 20.0 * n * d + 16.0 * d * d


def _slopes(times: pd.DataFrame, stopped: dict[str, str]) -> Iterator[TableRow]:
    for name, part in times.groupby("method", sort=False):
        seconds = dict(zip(part.d, part.seconds, strict=True))
        far = far_end(seconds, TAIL)
        tail = log_log(far.keys(), far.values())
        yield {
            "method": name, "from_d": min(far), "slope": tail.value, "slope_se": tail.error,
            "largest_d": max(seconds), "seconds_there": seconds[max(seconds)], "stopped": stopped.get(str(name), ""),
        }  # fmt: skip


FIGURES = {"runtime": PaperFigure(TITLE, make)}
