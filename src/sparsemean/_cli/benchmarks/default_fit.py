"""Benchmarks of what people call, `SparseMean().fit(X)` with nothing but data and threads, beside the mean."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.speed import WIDE_SHAPE
from sparsemean._cli.benchmarks.timing import FloatMatrix, Row, at_least, best_times, draw, duration, ratio, size
from sparsemean.result import Estimate

MEAN, BIAS, SHARE = 0.5, -2.0, 0.05
"""Of selected features, and what is added to a share of the rows in all columns: then most columns look as if they had
a mean, and all that rests on how many do takes longer."""
CASES = (
    (2000, 100_000, "float32", 4, 3.3, 22.0),
    (2000, 100_000, "float32", 1000, 15.0, 35.0),
    (200, 500_000, "float32", 5000, 25.0, 28.0),
    (20_000, 5000, "float64", 50, 10.0, 48.0),
    (100_000, 1000, "float64", 50, 16.0, 25.0),
    (1_000_000, 100, "float64", 4, 22.0, 35.0),
    (600, 100, "float64", 4, 9.0, 15.0),
)
"""Rows, features, type, features with a mean, and bars without and with moved rows: times of the mean, at last ms."""
SMALLER = 20
"""In a quick run rows and features are fewer by this factor together."""
PRINTED = 1.4
"""Bar of a fit that is printed over one that is not: no cost is hidden in what is computed when it is asked for."""
ALL_SELECTED = {False: 2000, True: 400}
SECONDS, LINEAR, THREADS = 0.7, 2.4, 1.6
"""Bars where all of 2000 × 2000 are selected: seconds, time over that of half, and of one thread over two."""
TALL = {False: (1_000_000, 100), True: (50_000, 100)}
MEMORY = 50.0
"""Percent of X that a fit may take above it."""
READ_BARS = {"float64": 1.25, "float32": 1.5}


def fitted(X: FloatMatrix, n_jobs: int) -> Estimate:
    """Run the default fit."""
    from sparsemean.estimators import SparseMean

    found: Estimate = SparseMean(n_jobs=n_jobs).fit(X).result_  # type: ignore[assignment]
    return found


def printed(X: FloatMatrix) -> str:
    """Run the default fit on one thread and print it."""
    return str(fitted(X, 1))


def drawn(n: int, d: int, dtype: str, selected: int, *, moved: bool = False) -> FloatMatrix:
    """Return normal noise in which so many features have a mean, and perhaps some rows are moved."""
    rng = np.random.default_rng(0)
    X = np.empty((n, d), dtype=dtype)
    rng.standard_normal(out=X, dtype=X.dtype.type)
    X[:, np.linspace(0, d - 1, selected).astype(np.intp)] += X.dtype.type(MEAN)
    X[rng.choice(n, int(SHARE * n), replace=False) if moved else []] += X.dtype.type(BIAS)
    return X


def memory_of_fit(n: int, d: int) -> float:
    """Return the megabytes above X that a fit of four features takes; for a process of its own."""
    from sparsemean._kernels import compiling

    compiling.end_plainness()  # numba alone takes 90 MB, whatever the data
    X = drawn(n, d, "float64", 4, moved=True)
    fitted(X[:2000], 1)
    return timing.peak_above(lambda: fitted(X, 1))


def default_fit(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the fit over the mean on one thread, then where all is selected, its memory, and two threads."""
    for dtype in READ_BARS:
        timing.warm(dtype)
    for n, d, dtype, selected, *bars in CASES:
        factor = SMALLER if quick and n * d > SMALLER * timing.AT_ONCE else 1
        rows, features = (n, d // factor) if d >= n else (n // factor, d)
        for moved, bar in enumerate(bars):
            X = drawn(rows, features, dtype, max(4, selected // factor), moved=bool(moved))
            yield from _over_mean(X, repeat, bar, f"{SHARE:.0%} of rows moved" if moved else "clean")
    yield from _all_selected(ALL_SELECTED[quick], repeat)
    if sys.platform != "win32":
        n, d = TALL[quick]
        (above,), own = timing.apart(memory_of_fit, n, d), n * d * 8 / 1e6
        name = f"peak memory of the default fit above X, float64, {size(n)} × {size(d)}, 4 selected"
        yield Row(name, 100 * above / own, "%", MEMORY, detail=f"{above:,.0f} MB, X itself is {own:,.0f} MB")
    for dtype, bar in READ_BARS.items():
        X = draw(*WIDE_SHAPE[quick], dtype)
        name = f"fit with test='buckets', contamination={timing.DEFAULT_CONTAMINATION}, neither rows nor values judged"
        side = partial(timing.certified_fit, X, test="buckets")
        yield timing.over_read(f"{name} / two-thread sum", side, X, np.sum, bar, repeat=repeat)


def _over_mean(X: FloatMatrix, repeat: int, bar: float, kind: str) -> Iterator[Row]:
    """Yield the time of a fit, with what it found, and that of one that is printed as well."""
    sides, found = (partial(fitted, X, 1), partial(printed, X), partial(X.mean, axis=0)), fitted(X, 1)
    whole, shown, mean = best_times(*sides, repeat=min(repeat, 5), clock=time.process_time)
    ranked = getattr(found.decision.evidence, "features", found.support).size
    what = f"default fit, one thread, {timing.shape(X)}, {kind}"
    detail = (
        f"{duration(whole)}, {size(found.plan.bad_rows)} bad rows allowed for, {size(found.support.size)} selected, "
        f"{size(ranked)} ranked"
    )
    if X.size > timing.AT_ONCE:
        yield Row(f"{what} / X.mean(axis=0)", whole / mean, "×", bar, detail=detail)
    else:
        yield Row(what, 1e3 * whole, "ms", bar, detail=detail, always=True)
    yield ratio(f"{what}, printed / not", shown, whole, PRINTED)


def _all_selected(side: int, repeat: int) -> Iterator[Row]:
    """Yield seconds where everything is selected, growth in features and in rows, and what a second thread brings."""
    X = drawn(side, side, "float64", side, moved=True)
    of = f"{size(side)} × {size(side)}, all selected"
    halves = (np.ascontiguousarray(X[:, : side // 2]), np.ascontiguousarray(X[: side // 2]))
    sides = [partial(fitted, part, 1) for part in (X, *halves)]
    whole, *half = best_times(*sides, repeat=min(repeat, 5), clock=time.process_time)
    yield Row(f"default fit, one thread, {of}", whole, "s", SECONDS)
    for what, took in zip(("features", "rows"), half, strict=True):
        yield ratio(f"{what} doubled, {of}", whole, took, LINEAR)
    n, d = (side * 50, side // 2)
    for table, what in ((X, of), (drawn(n, d, "float64", 50), f"{size(n)} × {size(d)}, 50 selected")):
        one, two = best_times(partial(fitted, table, 1), partial(fitted, table, 2), repeat=repeat)
        yield ratio(f"default fit on one thread / on two, {what}", one, two, at_least(THREADS))
