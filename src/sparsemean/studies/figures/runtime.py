"""Running time as features grow."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean._fit.one_sample import sparse_mean
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._util.checks import Bunch
from sparsemean._util.records import FloatArray
from sparsemean.baselines import BaselineWarning
from sparsemean.errors import require
from sparsemean.simulate import make_contaminated
from sparsemean.studies.figures import Options, Outcome, PaperFigure, TableRow, write_picture, write_table
from sparsemean.studies.figures.lower_bound import far_end, log_log
from sparsemean.studies.methods import DEFAULT_MEAN, Method, Setting, find
from sparsemean.studies.published import read

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

T = TypeVar("T")

MOST_BYTES = 5e9
PATIENCE = 2.0
"""A rung is left out when the growth so far says that it would take this many times the allowance."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that one call may take, seconds for repeating it, and the most repeats."""

    seconds: float = 20.0
    repeating: float = 2.0
    repeats: int = 7


@dataclass(slots=True)
class Climb:
    """The times of one method as the problem grows; ``stopped`` says why it went no further, ``remark`` what else."""

    allowance: Allowance
    times: dict[int, float] = field(default_factory=dict)
    stopped: str = ""
    remark: str = ""

    def may_try(self, size: int, bytes_needed: float) -> bool:
        """Whether the method may be timed at ``size``; if not, it stops here."""
        if self.stopped:
            return False
        if bytes_needed > MOST_BYTES:
            self.stopped = f"{size:,} features would need {bytes_needed / 1e9:.0f} GB"
        elif self.expected() > PATIENCE * self.allowance.seconds:
            self.stopped = f"{size:,} features would take about {self.expected():.0f} s"
        return not self.stopped

    def expected(self) -> float:
        """Return the time of the next rung if it grows as it did between the last two; 0 if nothing is known."""
        latest = list(self.times.values())[-2:]
        return latest[1] ** 2 / latest[0] if len(latest) == 2 else 0.0

    def time(self, size: int, work: Callable[[], T]) -> T:
        """Time ``work``, the best of several calls, stop after a call beyond the allowance, and return its answer."""
        best, answer = best_of(work, self.allowance)
        self.times[size] = best
        if best > self.allowance.seconds:
            self.stopped = f"{size:,} features took {best:.0f} s"
        return answer


def best_of(work: Callable[[], T], allowance: Allowance) -> tuple[float, T]:
    """Return the shortest time of several calls, and the answer of the last; long ones are made once."""
    began, times = time.perf_counter(), list[float]()
    while not times or (len(times) < allowance.repeats and time.perf_counter() - began < allowance.repeating):
        start = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - start)
    return min(times), answer


# Very wide data in single precision: the paper's default problem with as many features as memory holds.

Single = npt.NDArray[np.float32]
BIAS = -2.0
"""Of the paper's attack, added to every entry of a corrupted row."""
AT_ONCE = 1_000_000


def draw(setting: Setting, seed: int) -> Bunch:
    """Return Student t rows about the mean, the last of them moved by −2 in every feature, as float32.

    The same law as `simulate.make_contaminated`, which works in double precision and would need three times the memory.
    """
    n, d = setting.n, setting.d
    X = np.empty((n, d), dtype=np.float32)
    blocks = np.array_split(X, min(n, -(-n * d // AT_ONCE)))
    seeds = np.random.SeedSequence(seed).spawn(len(blocks))

    def fill(task: tuple[Single, np.random.SeedSequence]) -> None:
        block, rng = task[0], np.random.default_rng(task[1])
        rng.standard_normal(dtype=np.float32, out=block)
        chi2 = rng.standard_gamma(setting.shape / 2, size=block.shape, dtype=np.float32)
        block /= np.sqrt(chi2 * np.float32(2 / setting.shape))

    for _ in each(fill, list(zip(blocks, seeds, strict=True)), count_threads(None)):
        pass
    X[:, : len(setting.mean)] += np.array(setting.mean, dtype=np.float32)
    corrupted = np.arange(n - round(n * setting.contamination), n)
    X[corrupted] += np.float32(BIAS)
    truth = np.zeros(d)
    truth[: len(setting.mean)] = setting.mean
    return Bunch(X=X, mean=truth, support=np.arange(len(setting.mean)), corrupted=corrupted)


# Running time as features grow: the paper claims that its first stage is near linear in d.

TITLE = "Running time as features grow"
BASE = Setting("t", 3.1, "constant_bias", 600, 100, DEFAULT_MEAN, 0.1, len(DEFAULT_MEAN))
GRID = tuple(round(10 ** (half / 2)) for half in range(4, 13))
QUICK_GRID = GRID[:5]
PUBLISHED_GRID = tuple(range(150, 301, 10))
QUICK_PUBLISHED_GRID = (150, 300)
ALLOWANCE, QUICK_ALLOWANCE = Allowance(), Allowance(seconds=2.0, repeating=0.2)
TAIL = 10_000
"""Slopes are read from here on: below, what does not depend on d still shows."""
COLOURS = {
    "stage_1": "#0072b2", "certified": "#56b4e9", "default": "#009e73", "full_GD": "#d55e00", "full_filter": "#e69f00",
    "sparse_GD": "#cc79a7", "sparse_filter": "#666666",
}  # fmt: skip


QUADRATIC = ("sparse_GD", "sparse_filter")
"""These hold a covariance of all features, and the rows in double precision."""
Work = Callable[["Bunch", Setting], FloatArray]


def make(options: Options) -> Outcome:
    """Time every method and write ``runtime.csv``, ``runtime-slopes.csv`` and ``runtime.png``."""
    grid, published_grid = (QUICK_GRID, QUICK_PUBLISHED_GRID) if options.quick else (GRID, PUBLISHED_GRID)
    allowance = QUICK_ALLOWANCE if options.quick else ALLOWANCE
    tell = options.counting(len(grid) + len(published_grid))
    with _one_thread():
        warm_up = make_data(replace(BASE, d=120), options.seed)
        for work in works().values():
            work(warm_up, replace(BASE, d=120))
        climbs = climb(grid, allowance, options.seed, tell)
        narrow = beside_published(published_grid, allowance, options.seed, tell)
    times, slopes = _times(climbs, narrow, published()), _slopes(climbs)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, table in (("runtime.csv", times), ("runtime-slopes.csv", slopes)):
        write_table(table, options.out / name)
    image = options.out / "runtime.png"
    _draw(climbs, times[times.part == "published grid"], image)
    return Outcome("runtime", TITLE, slopes, (image,), notes=_notes(slopes, allowance))


def works() -> dict[str, Work]:
    """Return the methods by name: each takes the data and what it is told."""
    named = ("stage_1", "default", "full_GD", "full_filter", "sparse_GD")
    found: dict[str, Work] = {name: partial(_run, find(name)) for name in named}
    found["sparse_filter"] = partial(_run, find("sparse_filter_buckets"))
    found["certified"] = _certified
    return {name: found[name] for name in COLOURS}


def _run(method: Method, data: Bunch, setting: Setting) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)  # a method that gives up early is timed as it is
        return method(data, setting, 0)


def _certified(data: Bunch, setting: Setting) -> FloatArray:
    """Select and stop: no rows are judged, no values refined."""
    return sparse_mean(
        data.X, contamination=setting.contamination, random_state=0, n_jobs=1, refine=None, screen_rows=False
    ).mean


def make_data(setting: Setting, seed: int) -> Bunch:
    """Draw the problem in double precision."""
    return make_contaminated(
        setting.n, setting.d, setting.mean, distribution=setting.distribution, shape=setting.shape,
        contamination=setting.contamination, attack=setting.attack, random_state=seed,
    )  # fmt: skip


def bytes_needed(name: str, n: int, d: int) -> float:
    """Return about how many bytes a method holds, the rows included."""
    return 4.0 * n * d if name not in QUADRATIC else 20.0 * n * d + 16.0 * d * d


def climb(grid: tuple[int, ...], allowance: Allowance, seed: int, tell: Callable[[], None]) -> dict[str, Climb]:
    """Time every method at each number of features, as far as it goes; note the largest at which it answered zero."""
    climbs = {name: Climb(allowance) for name in works()}
    for d in grid:
        setting = replace(BASE, d=d)
        data = draw(setting, seed)
        for name, work in works().items():
            if climbs[name].may_try(d, bytes_needed(name, setting.n, d)):
                answer = climbs[name].time(d, partial(work, data, setting))
                climbs[name].remark = "" if answer.any() else f"answers zero at {d:,} features"
        tell()
    return climbs


def beside_published(
    grid: tuple[int, ...], allowance: Allowance, seed: int, tell: Callable[[], None]
) -> dict[str, dict[int, float]]:
    """Time every method on the published grid."""
    times: dict[str, dict[int, float]] = {name: {} for name in works()}
    few = replace(allowance, repeating=allowance.repeating / 10)
    for d in grid:
        setting = replace(BASE, d=d)
        data = make_data(setting, seed)
        for name, work in works().items():
            times[name][d] = best_of(partial(work, data, setting), few)[0]
        tell()
    return times


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = require("threadpoolctl", extra="all", purpose="timing on one thread")
    with threads.threadpool_limits(1):
        yield


def published() -> dict[tuple[str, int], float]:
    """Return the published median seconds by method and d."""
    points = read("runtime")
    keys = zip(points["estimator"], points["x"].astype(int), strict=True)
    return dict(zip(keys, points["median"], strict=True))


def _times(
    climbs: dict[str, Climb], narrow: dict[str, dict[int, float]], known: dict[tuple[str, int], float]
) -> pd.DataFrame:
    import pandas as pd

    rows: list[TableRow] = [
        {"part": "wide", "dtype": "float32", "method": name, "d": d, "seconds": seconds}
        for name, found in climbs.items()
        for d, seconds in found.times.items()
    ]
    rows += [
        {"part": "published grid", "dtype": "float64", "method": name, "d": d, "seconds": seconds,
         "published_seconds": known.get((name, d), np.nan)}
        for name, found in narrow.items()
        for d, seconds in found.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _slopes(climbs: dict[str, Climb]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, found in climbs.items():
        far = far_end(found.times, TAIL)
        whole, tail = (log_log(times.keys(), times.values()) for times in (found.times, far))
        last = max(found.times)
        rows.append(
            {
                "method": name, "from_d": min(far), "slope_tail": tail.value, "slope_tail_se": tail.error,
                "slope": whole.value, "slope_se": whole.error, "largest_d": last, "seconds_there": found.times[last],
                "stopped": found.stopped, "remark": found.remark,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _notes(slopes: pd.DataFrame, allowance: Allowance) -> list[str]:
    far = slopes[slopes["from_d"] >= TAIL]
    tails = dict(zip(far["method"], far["slope_tail"], strict=True))
    notes = [
        f"one thread, best of up to {allowance.repeats} calls, rows in single precision; a method stops after a call "
        f"of more than {allowance.seconds:g} s, or before one that would take more than twice that, or 5 GB",
        f"slopes of log time over log d from {TAIL:,} features: "
        + (", ".join(f"{name} {slope:.2f}" for name, slope in tails.items()) or "the grid ends before"),
        "published seconds are from another machine and time only a part of each method; shown, not judged",
    ]
    for column in ("stopped", "remark"):
        why = dict(zip(slopes["method"], slopes[column], strict=True))
        notes += [f"{name}: {reason}" for name, reason in why.items() if reason]
    return notes


def _draw(climbs: dict[str, Climb], narrow: pd.DataFrame, image: Path) -> None:
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing a figure")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11.0, 5.2), layout="constrained", width_ratios=(3, 2))
    for name, found in climbs.items():
        far = far_end(found.times, TAIL)
        label = f"{name}, slope {log_log(far.keys(), far.values())}" + ("" if min(far) >= TAIL else " (last three)")
        left.plot(list(found.times), list(found.times.values()), "o-", markersize=4, color=COLOURS[name], label=label)
    _guide(left, climbs)
    left.set_title(f"n = 600, single precision; slopes from d = {TAIL:,}", loc="left", fontsize="medium")
    for name, colour in COLOURS.items():
        part = narrow[narrow.method == name]
        right.plot(part.d, part.seconds, color=colour)
        right.plot(part.d, part.published_seconds, "o", markersize=3, color=colour)
    right.set_title("the published grid; dots: published, another machine", loc="left", fontsize="medium")
    left.set_xscale("log")
    for ax in (left, right):
        ax.set_yscale("log")
        ax.set_xlabel("features d")
        ax.set_ylabel("seconds")
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize="small", frameon=False, ncols=3, loc="outside lower center")
    write_picture(figure, image)


def _guide(ax: Axes, climbs: dict[str, Climb]) -> None:
    """Draw what linear growth looks like, below the fastest method."""
    times = climbs["stage_1"].times
    last = max(times)
    d = np.array([min(TAIL, last / 10), last])
    ax.plot(d, 0.5 * times[last] * d / last, ":", color="0.4", linewidth=1.0, label="∝ d")


FIGURES = {"runtime": PaperFigure(TITLE, make)}
