"""The data that benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.timing import Row, best_times
from sparsemean._kernels.memory_layout import each

FloatMatrix = npt.NDArray[np.floating]
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


# The shapes at which a pass over the data is compared with ``X.mean(axis=0)``.

FULL = ((2000, 100_000), (10_000, 20_000), (600, 300_000))
QUICK = ((2000, 10_000),)
ELSEWHERE = 1.25
"""Bars are stated for the first shape; at the others this many times as much is allowed."""


def matrices(quick: bool) -> Iterator[tuple[FloatMatrix, float | None]]:
    """Yield every shape in both precisions, with the factor of its bars (None: no bar applies)."""
    for i, (n, d) in enumerate(QUICK if quick else FULL):
        for dtype in ("float64", "float32"):
            yield draw(n, d, dtype), None if quick else (1.0 if i == 0 else ELSEWHERE)


def scaled(bar: float, factor: float | None) -> float | None:
    """Return the bar of a shape."""
    return None if factor is None else bar * factor


# What several benchmarks are: one call against ``X.mean(axis=0)``, for every shape and precision.


def rows(
    what: str,
    subject: Callable[[FloatMatrix], Callable[[], Any]],
    bars: dict[str, float],
    *,
    goals: dict[str, float] | None = None,
    everywhere: bool = True,
    quick: bool,
    repeat: int,
) -> Iterator[Row]:
    """Yield the ratio for every matrix; ``subject`` makes of a matrix the call that is timed.

    The bars are those of the first shape; ``everywhere`` says whether the others have them too, a little wider.
    """
    for X, factor in matrices(quick):
        dtype = str(X.dtype)
        timing.warm(dtype)
        ours, mean = best_times(subject(X), partial(X.mean, axis=0), repeat=repeat)
        yield Row(
            name=f"{what} / X.mean(axis=0), {timing.shape(X)}",
            value=ours / mean,
            unit="×",
            bar=scaled(bars[dtype], factor) if everywhere or factor == 1 else None,
            goal=goals[dtype] if goals and factor == 1 else None,
            detail=f"{timing.against(ours, mean)}, {timing.rate(X, ours)}",
        )
