"""Benchmarks of Dask, and the reckoning of how far it goes."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._cli.benchmarks import files, timing
from sparsemean._cli.benchmarks.files import GIGABYTES, WIDE
from sparsemean._cli.benchmarks.timing import FloatMatrix, Row, apart, best_times, duration, ratio, size
from sparsemean._data import as_table, open_file
from sparsemean._data.dask import spread
from sparsemean._data.table import NOTHING, Table
from sparsemean._evidence.counting.merging import add_sketches
from sparsemean._evidence.counting.sketch import Sketch, sketch_rows
from sparsemean._evidence.signs import evidence_of
from sparsemean._fit.one_sample import fit, plan_of
from sparsemean._stats.decision import decide_planned
from sparsemean._util.cluster import quiet
from sparsemean._util.records import Counts
from sparsemean.result import Estimate

if TYPE_CHECKING:
    from dask.array import Array
    from distributed import Client

WORKERS = 2
MEMORY = "1GB"


@contextmanager
def workers() -> Iterator[Client]:
    """Yield a client of processes of this machine, a thread each."""
    import distributed

    settings = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": MEMORY}
    started = partial(distributed.LocalCluster, dashboard_address="127.0.0.1:0", **settings)
    with quiet(), started() as cluster, distributed.Client(cluster) as client:
        yield client


def there(path: str) -> Estimate:
    """Fit the file by the workers of the current client, without judging rows."""
    table = spread(open_file(Path(path)), Path(path), NOTHING)
    return fit(table, refine=None, screen_rows=False, random_state=0)


def times(path: str, repeat: int) -> tuple[float, float, float, float]:
    """Return seconds in one process, seconds by workers and those until they had started, and their peak memory.

    Workers are started anew each time, which is part of their time. The best of ``repeat`` counts; the peak, in bytes,
    is the largest of any worker.
    """
    alone, spread_out, started, peak = [], [], [], 0
    for _ in range(repeat):
        began = time.perf_counter()
        expected = files.certified_fit(Path(path))
        alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        with workers() as client:
            started.append(time.perf_counter() - began)
            found = there(path)
            spread_out.append(time.perf_counter() - began)
            peak = max(peak, *client.run(timing.peak_memory).values())
        assert same(found, expected)
    return min(alone), min(spread_out), min(started), float(peak)


def same(found: Estimate, expected: Estimate) -> bool:
    """Whether all counts, decisions and values are the same to the last bit."""
    assert found.counts is not None
    assert expected.counts is not None
    counts = ("positive", "negative", "nearest")
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b, names in ((found.counts, expected.counts, counts), (found, expected, ("p_values", "mean")))
        for name in names
    )


# A zarr of 8 GB by two workers of 1 GB each beside one process.

DASK_BAR = 1.5
DASK_LIMIT = 1000.0
"""Megabytes that a worker may use."""


def absent(*packages: str) -> bool:
    """Whether there are no workers to measure: no such system, or a package is not installed."""
    return sys.platform == "win32" or not all(map(importlib.util.find_spec, ("dask", "distributed", *packages)))


@contextmanager
def zarr_of(gigabytes: float) -> Iterator[tuple[str, int, str]]:
    """Yield the path of a file of that size, its number of rows, and it in words; it is gone afterwards."""
    n = round(gigabytes * 1e9 / (8 * WIDE))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.zarr")
        files.write(path, n, WIDE)
        yield str(path), n, f".zarr of {8e-9 * n * WIDE:.1f} GB, {n:,} × {WIDE:,}"


def dask_workers(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio of times and the peak of a worker; nothing without dask."""
    if absent("zarr"):
        return
    with zarr_of(GIGABYTES[quick]) as (path, _, of):
        alone, spread, started, peak = apart(times, path, min(repeat, 2))
        name = f"certified fit by two workers over one process, {of}"
        detail = f"one process {alone:.1f} s, workers {spread:.1f} s, of which {started:.1f} s to start them"
        yield ratio(name, spread, alone, DASK_BAR, detail=detail)
        yield Row(f"peak memory of a worker, {of}", peak / 1e6, "MB", DASK_LIMIT, always=True)


# The default fit of rows that no process holds: nothing of them is stored, chunks are drawn where they are looked at.

TALL = {False: (10_000_000, 200), True: (640_000, 40)}
CHUNKS_OF_TALL = 16
MEANS = np.array([1.0, -0.5, 0.4, 0.2], dtype=np.float32)
EVERY, OFF = 50, np.float32(2.5)
"""Every so many rows one is bad: off by so much in all features."""
ALSO_HERE = 640_000
"""Rows up to which one process fits them too."""


def drawn(rows: int, d: int, block_id: tuple[int, int]) -> FloatMatrix:
    """Draw one chunk: normal values, means of the first features, and bad rows."""
    chunk = np.random.default_rng(block_id).standard_normal((rows, d), dtype=np.float32)
    chunk[:, : MEANS.size] += MEANS
    chunk[::EVERY] += OFF
    return chunk


def tall(n: int, d: int) -> Array:
    """Return a dask array of such chunks: drawn by the task that counts or picks columns, and gone with it."""
    import dask.array

    rows = n // CHUNKS_OF_TALL
    chunks, meta = ((rows,) * CHUNKS_OF_TALL, (d,)), np.empty((0, 0), dtype=np.float32)
    return dask.array.map_blocks(drawn, rows=rows, d=d, chunks=chunks, dtype=np.float32, meta=meta)


def fit_tall(n: int, d: int) -> tuple[float, float, float, int, int, float]:
    """Return seconds, peaks of a worker and of this process, bad rows missed, good ones listed, and error of values.

    The error is the largest difference from the values of one process, where that holds so many rows, else NaN.
    """
    by_default = partial(fit, contamination=0.05, test="buckets", random_state=0)
    with workers() as client:
        began = time.perf_counter()
        found = by_default(as_table(tall(n, d)))
        took = time.perf_counter() - began
        peak = max(client.run(timing.peak_memory).values())
    of_client = timing.peak_memory()
    assert found.support.tolist() == list(range(MEANS.size))
    assert found.rows is not None
    rows = n // CHUNKS_OF_TALL
    listed = found.rows.suspects % rows % EVERY == 0
    bad = CHUNKS_OF_TALL * len(range(0, rows, EVERY))
    error = np.nan
    if n <= ALSO_HERE:
        alone = by_default(as_table(np.concatenate([drawn(rows, d, (k, 0)) for k in range(CHUNKS_OF_TALL)])))
        error = float(np.abs(alone.mean - found.mean).max())
    return took, float(peak), float(of_client), int(bad - listed.sum()), int(np.sum(~listed)), error


def dask_default(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield time and memory of a default fit by workers, and what one process finds of fewer rows; once each."""
    if absent():
        return
    n, d = TALL[quick]
    took, peak, of_client, missed, wrong, _ = apart(fit_tall, n, d)
    of = f"float32, {size(n)} × {size(d)} in {CHUNKS_OF_TALL} chunks, two workers of 1 GB"
    rows = f"{missed:.0f} bad rows missed, {wrong:.0f} good ones listed"
    detail = f"{rows}; {of_client / 1e6:,.0f} MB in the asking process"
    yield Row(f"default fit of a dask array, {of}", took, "s", detail=detail)
    yield Row(f"peak memory of a worker, default fit, {of}", peak / 1e6, "MB", DASK_LIMIT, always=True)
    *_, error = apart(fit_tall, *TALL[True])
    n, d = TALL[True]
    name = f"values by workers less those of one process, at most, {size(n)} × {size(d)}"
    yield Row(name, error, "", 1e-12, always=True)


# What the page on how far it goes is reckoned from: one core, growth, merging, a tree, concluding, workers.

SIZES = (1, 2, 4)
CHUNKS = {False: ((4096, 4096), (1024, 65_536)), True: ((640, 1000), (320, 2000))}
MERGED = {False: 1_000_000, True: 20_000}
TREE = {False: (256, 100_000), True: (64, 1000)}
FAN_IN = 8
CONCLUDED = {
    False: (
        (2000, 1_000_000),
        (2000, 10_000_000),
        (1_000_000, 10_000),
        (10_000_000, 10_000),
        (1_000_000, 1_000_000),
    ),
    True: ((2000, 20_000), (100_000, 10_000)),
}
"""Rows and features."""
DEALT = {False: (1_000_000, 10_000_000), True: (100_000,)}
FAR_GIGABYTES = 1.0
MANY = {False: 22, True: 200}
"""Of so many features one has a mean where very many are selected: of a million some 45,000."""
WEAKEST = 56
"""Percent of the signs of these features that agree, at least."""
SELECT_BAR, RADIUS_BAR = 20.0, 30.0
"""Milliseconds of a million features under Holm, with such a number of them selected."""


def far_reckoning(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield one core's rates first, then what adds counts up, what concludes, and a file unless ``quick``."""
    counted(np.ones((64, 8), dtype=np.float32))  # compiles
    yield from _counting(quick, repeat)
    timing.forget()
    yield from _merging(MERGED[quick], repeat)
    yield from _tree(*TREE[quick], repeat=min(repeat, 3))
    yield from _concluding(CONCLUDED[quick])
    yield from _deciding(MERGED[quick], MANY[quick], repeat)
    yield from _dealing(DEALT[quick])
    if not quick:
        yield from _reading(min(repeat, 3))


def counted(X: FloatMatrix | Table) -> Sketch:
    """Count a chunk as one thread of a worker does."""
    return sketch_rows(as_table(X), seed=0, bucket_sizes=SIZES, n_jobs=1)


def _counting(quick: bool, repeat: int) -> Iterator[Row]:
    for n, d in CHUNKS[quick]:
        X = timing.draw(n, d, "float32")
        (took,) = best_times(partial(counted, X), repeat=repeat)
        name = f"one thread counts a chunk, float32, {size(n)} × {size(d)}"
        yield Row(name, X.nbytes / took / 1e9, "GB/s", detail=duration(took))


def made(d: int, n_rows: int, *, every: int = 1000, weakest: int = 90) -> Sketch:
    """Make up a sketch: fair signs, but of so many features one that has ``weakest`` to 90 percent above zero."""
    rng = np.random.default_rng(0)
    buckets = tuple(n_rows // width for width in SIZES)
    positive = np.stack([rng.binomial(many, 0.5, d) for many in buckets]).astype(np.int32)
    percent = np.linspace(weakest, 90, len(range(0, d, every))).astype(np.int32)
    positive[:, ::every] = np.array(buckets)[:, np.newaxis] * percent // 100
    negative = np.array(buckets, dtype=np.int32)[:, np.newaxis] - positive
    counts = Counts(positive, negative, rng.random(d), buckets)
    return Sketch(counts=counts, ranges=((0, n_rows),), bucket_sizes=SIZES)


def moved(sketch: Sketch, first_row: int) -> Sketch:
    """Return a copy as if it were of other rows."""
    counts = sketch.counts
    copied = replace(
        counts, positive=counts.positive.copy(), negative=counts.negative.copy(), nearest=counts.nearest.copy()
    )
    return replace(sketch, counts=copied, ranges=((first_row, first_row + sketch.n_rows),))


def _merging(d: int, repeat: int) -> Iterator[Row]:
    first = made(d, 640)
    other = moved(first, 640)
    (took,) = best_times(lambda: add_sketches((first, other)), repeat=repeat)
    name = f"two sketches are merged in memory, {size(d)} features"
    yield Row(name, d / took / 1e6, "million features a second", detail=duration(took))
    yield Row(f"a pickled sketch, three sizes, {size(d)} features", len(pickle.dumps(first, 5)) / d, "B a feature")


def _tree(leaves: int, d: int, *, repeat: int) -> Iterator[Row]:
    """Yield the time of every level of a tree, all its merges one after the other."""
    one = made(d, 640)
    level: Sequence[Sketch] = [moved(one, 640 * k) for k in range(leaves)]
    depth = 0
    while len(level) > 1:
        depth += 1
        groups = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
        (took,) = best_times(lambda groups=groups: [*map(add_sketches, groups)], repeat=repeat)  # type: ignore[misc]
        name = f"level {depth} of a tree: {len(groups)} × {len(groups[0])} sketches merged, {size(d)} features"
        yield Row(name, 1e3 * took, "ms", detail=f"{duration(took / len(groups))} each")
        level = [*map(add_sketches, groups)]
    assert level[0].n_rows == leaves * one.n_rows


def concluded(counts: Counts, n_rows: int) -> None:
    """Select by Holm, with p-values, q-values, the radius and the largest contamination of every feature."""
    plan = plan_of(n_rows, counts.nearest.size, refine=None, screen_rows=False, test="buckets")[0]
    inferred = decide_planned(evidence_of(plan, counts), plan)
    assert inferred.radius.size
    assert inferred.support.size >= counts.nearest.size // 1000


def concluding(n_rows: int, d: int) -> tuple[float, float]:
    """Return the seconds and the megabytes that it takes to conclude; for a process of its own."""
    concluded(made(1000, 640).counts, 640)  # loads what is needed
    return taken(partial(concluded, made(d, n_rows).counts, n_rows))


def dealing(n_rows: int) -> tuple[float, float]:
    """Return the seconds and the megabytes that it takes to deal rows; for a process of its own."""
    from sparsemean._stats.buckets import assign_block_buckets

    return taken(partial(assign_block_buckets, n_rows, SIZES, 0))


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the megabytes that something takes."""
    began = time.perf_counter()
    above = timing.peak_above(work)
    return time.perf_counter() - began, above


def _concluding(shapes: Sequence[tuple[int, int]]) -> Iterator[Row]:
    for n, d in shapes:
        took, above = apart(concluding, n, d)
        name = f"selection and radius from counts, {size(n)} rows, {size(d)} features"
        yield Row(name, took, "s", detail=f"{above:,.0f} MB above the counts")


def deciding(d: int, every: int, selection: str, repeat: int) -> tuple[float, ...]:
    """Return the seconds that it takes to select, for the radius of what is selected and for all, and its number."""
    n = CONCLUDED[False][0][0]
    counts = made(d, n, every=every, weakest=WEAKEST).counts
    plan = plan_of(n, d, refine=None, screen_rows=False, test="buckets", selection=selection)[0]
    conclude = partial(decide_planned, evidence_of(plan, counts), plan)
    decision = conclude()
    evidence, rule = decision.evidence, decision.rule
    assert evidence is not None
    select, radius = partial(evidence.selected_first, rule), lambda: replace(decision).radius
    sides = best_times(select, radius, conclude, repeat=repeat)
    return *sides, decision.support.size


def _deciding(d: int, every: int, repeat: int) -> Iterator[Row]:
    for selection, rule in (("fwer", "Holm"), ("fdr", "Benjamini and Hochberg")):
        select, radius, whole, selected = apart(deciding, d, every, selection, repeat)
        of, holm = f"{size(int(selected))} of {size(d)} features, {rule}", selection == "fwer"
        detail = f"{duration(whole)} with p-values and the largest contamination of each"
        yield Row(f"selecting {of}", 1e3 * select, "ms", SELECT_BAR if holm else None, detail=detail)
        yield Row(f"radius of {of}", 1e3 * radius, "ms", RADIUS_BAR if holm else None)


def _dealing(heights: Sequence[int]) -> Iterator[Row]:
    for n in heights:
        took, above = apart(dealing, n)
        name = f"rows are dealt where a fit is asked for, {size(n)}"
        yield Row(name, 1e9 * took / n, "ns a row", detail=f"{duration(took)}, {1e6 * above / n:.0f} bytes a row")


def _reading(repeat: int) -> Iterator[Row]:
    """Yield what one thread makes of a file; nothing without zarr."""
    if absent("zarr"):
        return
    with zarr_of(FAR_GIGABYTES) as (path, n, of):
        (took,) = best_times(lambda: counted(open_file(Path(path))), repeat=repeat)
        yield Row(f"one thread reads, unpacks and counts a {of}", 8e-9 * n * WIDE / took, "GB/s", detail=duration(took))
