"""The paper's fit against ``np.median(X, axis=0)``, and against two threads that only read ``X``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from sparsemean.bench import data, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times

READ_SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
MEDIAN_SHAPE = {False: (2000, 10_000), True: (2000, 1000)}


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield both ratios; neither has a bar."""
    for dtype in ("float64", "float32"):
        subjects.warm(dtype)
        X = data.draw(*READ_SHAPE[quick], dtype)
        fit, read = best_times(partial(subjects.paper_fit, X), partial(two_thread_read, X), repeat=repeat)
        yield Row(
            name=f"paper fit / two-thread read, {wording.shape(X)}",
            value=fit / read,
            unit="×",
            detail=f"{wording.against(fit, read)}, {wording.rate(X, fit)} against {wording.rate(X, read)}",
        )
        X = data.draw(*MEDIAN_SHAPE[quick], dtype)
        fit, median = best_times(partial(subjects.paper_fit, X), partial(np.median, X, axis=0), repeat=repeat)
        yield Row(
            name=f"paper fit / np.median(X, axis=0), {wording.shape(X)}",
            value=fit / median,
            unit="×",
            detail=wording.against(fit, median),
        )


def two_thread_read(X: data.FloatMatrix) -> float:
    """Return the maximum of ``X``, each half found by a thread of its own."""
    halves = np.array_split(X, 2)
    with ThreadPoolExecutor(2) as pool:
        return float(max(pool.map(np.max, halves)))
