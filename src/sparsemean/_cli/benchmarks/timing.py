"""What benchmarks share: data, how one times (interleaved, best of several, in its own process), how a row reads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparsemean._fit.one_sample import sparse_mean
from sparsemean._kernels import cpu
from sparsemean._kernels.memory_layout import each
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.planning import PRESET
from sparsemean._util.records import Counts, Partition
from sparsemean.result import Estimate

FloatMatrix = npt.NDArray[np.floating]
Side = Callable[[], object]
Clock = Callable[[], float]


def best_times(
    *sides: Side, repeat: int, clock: Clock = time.perf_counter, before: Side | None = None
) -> tuple[float, ...]:
    """Call the sides in turn (a, b, a, b, …), ``repeat`` times each, and return the shortest time of each.

    A slow moment of the machine then hits all sides alike, and the best of several is free of it. What is done
    ``before`` each call takes no part in its time.
    """
    best = [math.inf] * len(sides)
    for _ in range(repeat):
        for i, side in enumerate(sides):
            if before is not None:
                before()
            began = clock()
            side()
            best[i] = min(best[i], clock() - began)
    return tuple(best)


# One line of the benchmark table.

Bar = float | tuple[float, float]


@dataclass(frozen=True, slots=True)
class Row:
    """A measured number and what it should be.

    Attributes
    ----------
    name
        What was measured, in words, with the shape it was measured at.
    value
        The number.
    unit
        "×", "s", "ms", "MB", or "of" where the name goes on with how many there are.
    bar
        The largest value that is good enough, or the (smallest, largest) one; None where nothing is promised.
    detail
        The numbers behind a ratio, in words.
    always
        Whether the bar is one for the smaller shapes of a quick run too.

    Examples
    --------
    >>> row = Row("speed-up", 912.0, "×", bar=at_least(200))
    >>> row.met, row.bar_text
    (True, '≥ 200')
    """

    name: str
    value: float
    unit: str
    bar: Bar | None = None
    detail: str = ""
    always: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value that meet the bar."""
        if self.bar is None:
            return -math.inf, math.inf
        return self.bar if isinstance(self.bar, tuple) else (-math.inf, self.bar)

    @property
    def met(self) -> bool | None:
        """Whether the value meets the bar; None without one."""
        low, high = self.bounds
        return None if self.bar is None else low <= self.value <= high

    @property
    def bar_text(self) -> str:
        """The bar as a table shows it; empty without one."""
        low, high = self.bounds
        if self.bar is None:
            return ""
        if math.isinf(low):
            return f"≤ {high:g}"
        return f"≥ {low:g}" if math.isinf(high) else f"{low:g} – {high:g}"


def at_least(low: float) -> tuple[float, float]:
    """Return the bar of a value that should be large."""
    return low, math.inf


def ratio(name: str, ours: float, theirs: float, bar: Bar | None = None, *, detail: str = "") -> Row:
    """Return the row of one time over another."""
    return Row(name, ours / theirs, "×", bar, detail or against(ours, theirs))


# Shapes, times and rates in words.


def shape(X: npt.NDArray[np.floating]) -> str:
    """Describe an array.

    Examples
    --------
    >>> shape(np.zeros((2000, 10_000), dtype=np.float32))
    'float32, 2000 × 10,000'
    """
    return f"{X.dtype}, {size(X.shape[0])} × {size(X.shape[1])}"


def size(number: int) -> str:
    """Write an integer, with thousands apart from five digits on."""
    return f"{number:,}" if number >= 10_000 else str(number)


def duration(seconds: float) -> str:
    """Write a time with the unit that suits it.

    Examples
    --------
    >>> duration(0.0912), duration(2.5), duration(0.00052)
    ('91 ms', '2.50 s', '0.52 ms')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.2f} ms"


def against(ours: float, theirs: float) -> str:
    """Name the two times behind a ratio."""
    return f"{duration(ours)} against {duration(theirs)}"


def rate(X: npt.NDArray[np.floating], seconds: float) -> str:
    """Say how fast ``X`` was read."""
    return f"{X.nbytes / seconds / 1e9:.1f} GB/s"


# What is measured: the calls that several benchmarks share, on two threads.

N_JOBS = 2
CONTAMINATION = 0.1
DEFAULT_CONTAMINATION = 0.05


def paper_fit(X: FloatMatrix) -> Estimate:
    """Run Algorithm 1, Stage 1, as published."""
    return sparse_mean(X, contamination=CONTAMINATION, random_state=0, n_jobs=N_JOBS, **PRESET)


def certified_fit(X: FloatMatrix, *, test: str = "auto", contamination: float = DEFAULT_CONTAMINATION) -> Estimate:
    """Run the certified part of the default fit with all its inference: p-values, support, intervals, radius."""
    return sparse_mean(
        X, contamination=contamination, test=test, refine=None, screen_rows=False, random_state=0, n_jobs=N_JOBS
    )


def default_fit(X: object) -> Estimate:
    """Run the default fit: rows screened and values refined as well."""
    return sparse_mean(X, contamination=DEFAULT_CONTAMINATION, random_state=0, n_jobs=N_JOBS)


def counting_pass(X: FloatMatrix, partition: Partition) -> Counts:
    """Count signs of every bucket size of ``partition``."""
    return cpu.count_signs(X, partition, n_jobs=N_JOBS)


def warm(dtype: str) -> None:
    """Have the kernels for ``dtype`` compiled before anything is timed."""
    small = np.random.default_rng(0).standard_normal((640, 40)).astype(dtype)
    paper_fit(small)
    for test in ("ranks", "buckets"):
        certified_fit(small, test=test)
    default_fit(small)
    counting_pass(small, assign_block_buckets(640, (1, 2, 4), 0))


# The data that benchmarks share.

N_SIGNALS = 20
SIGNAL = 2.0
AT_ONCE = 65_536
"""Values drawn at a time; what is held beside the matrix stays far below the memory that is measured."""

_latest: dict[tuple[int, int, str, int], FloatMatrix] = {}


def draw(n: int, d: int, dtype: str, *, n_signals: int = N_SIGNALS) -> FloatMatrix:
    """Return an (n, d) matrix, the same one for the same arguments; only the latest is kept in memory."""
    key = (n, d, dtype, n_signals)
    if key not in _latest:
        _latest.clear()
        _latest[key] = _draw(n, d, np.dtype(dtype), n_signals)
    return _latest[key]


def forget() -> None:
    """Free the latest matrix."""
    _latest.clear()


def _draw(n: int, d: int, dtype: np.dtype[np.floating], n_signals: int) -> FloatMatrix:
    X = np.empty((n, d), dtype=dtype)
    blocks = np.array_split(X, -(-n // max(1, AT_ONCE // d)))
    seeds = np.random.SeedSequence(0).spawn(len(blocks))
    signals = np.linspace(0, d - 1, min(d, n_signals)).astype(np.intp)
    means = np.where(np.arange(signals.size) % 2, -SIGNAL, SIGNAL).astype(dtype)

    def fill(task: tuple[FloatMatrix, np.random.SeedSequence]) -> None:
        _student_2(task[0], np.random.default_rng(task[1]))
        task[0][:, signals] += means

    for _ in each(fill, list(zip(blocks, seeds, strict=True)), 2):
        pass
    return X


def _student_2(block: FloatMatrix, rng: np.random.Generator) -> None:
    """Fill ``block`` with Student t, 2 degrees of freedom, whose quantiles have the closed form w√(2/(1 − w²)).

    Half a step of the generator's grid is added so that w = 2·uniform − 1 is never 0 or ±1; this is exact in both
    precisions.
    """
    rng.random(dtype=block.dtype, out=block)
    block *= 2
    block -= 1
    block += block.dtype.type(np.finfo(block.dtype).epsneg)
    block *= np.sqrt(2 / (1 - block * block))


# Our call against ``X.mean(axis=0)``: what a pass over the data costs, at every shape and in both precisions.

FULL = ((2000, 100_000), (10_000, 20_000), (600, 300_000))
QUICK = ((2000, 10_000),)
ELSEWHERE = 1.25
"""Bars are stated for the first shape; at the others this many times as much is allowed."""


def over_mean(
    what: str,
    subject: Callable[[FloatMatrix], Side],
    bars: dict[str, float],
    *,
    everywhere: bool = True,
    quick: bool,
    repeat: int,
) -> Iterator[Row]:
    """Yield the ratio for every matrix; ``subject`` makes of a matrix the call that is timed.

    The bars are those of the first shape; ``everywhere`` says whether the others have them too, a little wider.
    """
    for place, (n, d) in enumerate(QUICK if quick else FULL):
        for dtype in ("float64", "float32"):
            X, first = draw(n, d, dtype), place == 0
            warm(dtype)
            ours, mean = best_times(subject(X), partial(X.mean, axis=0), repeat=repeat)
            yield ratio(
                f"{what} / X.mean(axis=0), {shape(X)}", ours, mean,
                bars[dtype] * (1.0 if first else ELSEWHERE) if first or everywhere else None,
                detail=f"{against(ours, mean)}, {rate(X, ours)}",
            )  # fmt: skip


def over_read(
    name: str, side: Side, X: FloatMatrix, rule: Callable[[FloatMatrix], object], bar: Bar | None = None, *, repeat: int
) -> Row:
    """Return the ratio of a call to two threads that each do no more than read a half of ``X``, by ``rule``."""

    def read() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(rule, np.array_split(X, 2)))

    ours, theirs = best_times(side, read, repeat=repeat)
    detail = f"{against(ours, theirs)}, {rate(X, ours)} against {rate(X, theirs)}"
    return ratio(f"{name}, {shape(X)}", ours, theirs, bar, detail=detail)


# Python code run in a process of its own.


def apart(function: Callable[..., float | tuple[float, ...]], *arguments: object) -> list[float]:
    """Call a function of these benchmarks in a fresh interpreter and return the number, or the numbers, it returns."""
    name, module = function.__name__, function.__module__
    return numbers(f"import numpy\nfrom {module} import {name}\nprint(*numpy.atleast_1d({name}(*{arguments!r})))")


def measure(code: str, *, cache: Path | None = None) -> float:
    """Run ``code`` in a fresh interpreter and return the number it prints last; arguments as in `numbers`."""
    return numbers(code, cache=cache)[-1]


def numbers(code: str, *, cache: Path | None = None) -> list[float]:
    """Run ``code`` in a fresh interpreter and return the numbers in the last line it prints.

    Parameters
    ----------
    code : str
        Statements.
    cache : Path, optional
        Where compiled kernels are kept; the usual place by default. Bytecode is always written, so that it is there
        from the second process on.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"a benchmark process ended with status {done.returncode}: {done.stderr.strip()}")
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


# How much memory a call needs beyond what was there before it; to be used in a process of its own.

MEGABYTE = 1_000_000


def peak_memory() -> int:
    """Return the most memory, in bytes, that this process has had in use at any moment so far.

    ``ru_maxrss`` of a new process starts on Linux at the peak of the process that started it, which here may hold a
    large matrix; the kernel's own VmHWM does not, and is taken where it can be read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_above(work: Callable[[], object]) -> float:
    """Return by how many megabytes (10⁶ bytes) ``work`` raises the peak."""
    before = peak_memory()
    kept = work()
    after = peak_memory()
    del kept
    return (after - before) / MEGABYTE
