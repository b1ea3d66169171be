"""Benchmarks of the default fit, which screens rows and refines values, beside the decisions alone and the mean."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.speed import WIDE_SHAPE
from sparsemean._cli.benchmarks.timing import FloatMatrix, Row, against, at_least, best_times, draw, ratio, size
from sparsemean.result import Estimate

BIAS = -2.0
"""Added to 5 % of the rows, which are then rejected: what they touched is counted a second time."""
CASES = (
    (2000, 100_000, "float32", 4, 2.0),
    (2000, 100_000, "float32", 1000, 5.0),
    (200, 1_000_000, "float32", 10_000, 5.0),
    (100_000, 1000, "float64", 50, 15.0),
    (1_000_000, 100, "float64", 4, 4.0),
)
"""Rows, features, type, features with a mean, and the bar of the ratio to `certify`."""
SMALLER = 20
"""In a quick run rows and features are fewer by this factor together."""
ALL_SELECTED = {False: 2000, True: 400}
SECONDS, LINEAR, THREADS = 0.7, 2.4, 1.7
"""Bars where all of 2000 × 2000 are selected: seconds, time over that of half, and of one thread over two."""
TALL = {False: (1_000_000, 100), True: (50_000, 100)}
MEMORY = 50.0
"""Percent of X that a fit may take above it."""
READ_BARS = {"float64": 1.25, "float32": 1.5}


def fitted(X: FloatMatrix, n_jobs: int) -> Estimate:
    """Run the default fit by buckets."""
    from sparsemean._fit.one_sample import sparse_mean

    return sparse_mean(X, contamination=timing.DEFAULT_CONTAMINATION, test="buckets", random_state=0, n_jobs=n_jobs)


def certified(X: FloatMatrix) -> object:
    """Decide by buckets, and nothing more, on one thread."""
    from sparsemean._fit.certifying import certify

    return certify(X, contamination=timing.DEFAULT_CONTAMINATION, test="buckets", random_state=0, n_jobs=1)


def drawn(n: int, d: int, dtype: str, selected: int) -> FloatMatrix:
    """Return noise in which so many features have a mean, and some rows are shifted."""
    X = draw(n, d, dtype, n_signals=selected)
    X[-int(timing.DEFAULT_CONTAMINATION * n) :] += BIAS
    timing.forget()  # the next benchmark shall not find it corrupted
    return X


def memory_of_fit(n: int, d: int) -> float:
    """Return the megabytes above X that a fit of four features takes; for a process of its own."""
    from sparsemean._kernels import compiling

    compiling.end_plainness()  # numba alone takes 90 MB, whatever the data
    X = drawn(n, d, "float64", 4)
    fitted(X[:2000], 1)
    return timing.peak_above(lambda: fitted(X, 1))


def default_fit(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the fit over its decisions on one thread, then where all is selected, its memory, and two threads."""
    for dtype in READ_BARS:
        timing.warm(dtype)
    for n, d, dtype, selected, bar in CASES:
        factor = SMALLER if quick else 1
        rows, features = (n, d // factor) if d >= n else (n // factor, d)
        yield _over_certify(drawn(rows, features, dtype, max(4, selected // factor)), repeat, bar)
    yield from _all_selected(ALL_SELECTED[quick], repeat)
    if sys.platform != "win32":
        n, d = TALL[quick]
        (above,), own = timing.apart(memory_of_fit, n, d), n * d * 8 / 1e6
        name = f"peak memory of the default fit above X, float64, {size(n)} × {size(d)}, 4 selected"
        yield Row(name, 100 * above / own, "%", MEMORY, detail=f"{above:,.0f} MB, X itself is {own:,.0f} MB")
    for dtype, bar in READ_BARS.items():
        X = draw(*WIDE_SHAPE[quick], dtype)
        name, side = "certified fit by buckets / two-thread sum", partial(timing.certified_fit, X, test="buckets")
        yield timing.over_read(name, side, X, np.sum, bar, repeat=repeat)


def _over_certify(X: FloatMatrix, repeat: int, bar: float) -> Row:
    sides = (partial(fitted, X, 1), partial(certified, X), partial(X.mean, axis=0))
    whole, decided, mean = best_times(*sides, repeat=min(repeat, 5), clock=time.process_time)
    name = f"default fit / certify, one thread, {timing.shape(X)}, {size(fitted(X, 1).support.size)} selected"
    detail = f"{against(whole, decided)}; {whole / mean:.1f} and {decided / mean:.1f} times X.mean(0)"
    return ratio(name, whole, decided, bar, detail=detail)


def _all_selected(side: int, repeat: int) -> Iterator[Row]:
    """Yield seconds where everything is selected, growth in features and in rows, and what a second thread brings."""
    X = drawn(side, side, "float64", side)
    of = f"{size(side)} × {size(side)}, all selected"
    halves = (np.ascontiguousarray(X[:, : side // 2]), np.ascontiguousarray(X[: side // 2]))
    sides = [partial(fitted, part, 1) for part in (X, *halves)]
    whole, *half = best_times(*sides, repeat=min(repeat, 5), clock=time.process_time)
    yield Row(f"default fit, one thread, {of}", whole, "s", SECONDS)
    for what, took in zip(("features", "rows"), half, strict=True):
        yield ratio(f"{what} doubled, {of}", whole, took, LINEAR)
    one, two = best_times(partial(fitted, X, 1), partial(fitted, X, 2), repeat=repeat)
    yield ratio(f"default fit on one thread / on two, {of}", one, two, at_least(THREADS))
