"""How a benchmark times: interleaved, best of several, in processes of its own; and how a row reads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sparsemean._cli.benchmarks.data import FloatMatrix
    from sparsemean._util.records import Counts, Partition
    from sparsemean.result import Estimate

Side = Callable[[], object]
Clock = Callable[[], float]


def best_times(*sides: Side, repeat: int, clock: Clock = time.perf_counter) -> tuple[float, ...]:
    """Call the sides in turn (a, b, a, b, …), ``repeat`` times each, and return the shortest time of each.

    A slow moment of the machine then hits all sides alike, and the best of several is free of it.
    """
    best = [math.inf] * len(sides)
    for _ in range(repeat):
        for i, side in enumerate(sides):
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
    goal
        What the value would ideally be.
    detail
        The numbers behind a ratio, in words.

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
    goal: float | None = None
    detail: str = ""

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
    from sparsemean._fit.one_sample import sparse_mean
    from sparsemean._stats.planning import PRESET

    return sparse_mean(X, contamination=CONTAMINATION, random_state=0, n_jobs=N_JOBS, **PRESET)


def certified_fit(X: FloatMatrix, *, test: str = "auto", contamination: float = DEFAULT_CONTAMINATION) -> Estimate:
    """Run the certified part of the default fit with all its inference: p-values, support, intervals, radius."""
    from sparsemean._fit.one_sample import sparse_mean

    return sparse_mean(
        X, contamination=contamination, test=test, refine=None, screen_rows=False, random_state=0, n_jobs=N_JOBS
    )


def default_fit(X: FloatMatrix) -> Estimate:
    """Run the default fit: rows screened and values refined as well."""
    from sparsemean._fit.one_sample import sparse_mean

    return sparse_mean(X, contamination=DEFAULT_CONTAMINATION, random_state=0, n_jobs=N_JOBS)


def counting_pass(X: FloatMatrix, partition: Partition) -> Counts:
    """Count signs of every bucket size of ``partition``."""
    from sparsemean._kernels import cpu

    return cpu.count_signs(X, partition, n_jobs=N_JOBS)


def warm(dtype: str) -> None:
    """Have the kernels for ``dtype`` compiled before anything is timed."""
    from sparsemean._stats.buckets import assign_block_buckets

    small = np.random.default_rng(0).standard_normal((640, 40)).astype(dtype)
    paper_fit(small)
    for test in ("ranks", "buckets"):
        certified_fit(small, test=test)
    default_fit(small)
    counting_pass(small, assign_block_buckets(640, (1, 2, 4), 0))


# Python code run in a process of its own.


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
