"""Benchmarks of Dask, and the reckoning of how far it goes."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean._cli.benchmarks import data, files
from sparsemean._cli.benchmarks.timing import Row, against, at_least, best_times, duration, numbers, peak_memory, size
from sparsemean._counts.merging import add_sketches
from sparsemean._counts.sketch import Sketch, sketch_rows
from sparsemean._data import as_table, open_file
from sparsemean._data.dask import spread
from sparsemean._data.table import NOTHING
from sparsemean._evidence.signs import of_signs
from sparsemean._fit import inference
from sparsemean._fit.one_sample import fit, plan_of
from sparsemean._util.cluster import cluster_client
from sparsemean._util.records import Counts
from sparsemean.result import Estimate

WORKERS = 2
MEMORY = "1GB"


def here(path: Path) -> Estimate:
    """Fit the file in this process, without judging rows."""
    return fit(open_file(path), refine=None, screen_rows=False, random_state=0)


def there(path: Path) -> Estimate:
    """Fit the file by the workers of the current client, without judging rows."""
    table = spread(open_file(path), path, NOTHING)
    return fit(table, refine=None, screen_rows=False, random_state=0)


def times(path: Path, repeat: int) -> tuple[float, float, float, float]:
    """Return seconds in one process, seconds by workers and those until they had started, and their peak memory.

    Workers are started anew each time, which is part of their time. The best of ``repeat`` counts; the peak, in bytes,
    is the largest of any worker.
    """
    alone, spread_out, started, peak = [], [], [], 0
    for _ in range(repeat):
        began = time.perf_counter()
        expected = here(path)
        alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        with cluster_client("local", workers=WORKERS, memory=MEMORY) as client:
            started.append(time.perf_counter() - began)
            found = there(path)
            spread_out.append(time.perf_counter() - began)
            peak = max(peak, *client.run(peak_memory).values())
        assert same(found, expected)
    return min(alone), min(spread_out), min(started), float(peak)


def killed(path: Path, kills: int) -> tuple[int, int]:
    """Kill one worker at a random moment of each of ``kills`` fits; return how many were hit, and gave the same."""
    expected, rng = here(path), np.random.default_rng(0)
    hit = right = 0
    with cluster_client("local", workers=WORKERS, memory=MEMORY) as client:
        began = time.perf_counter()
        there(path)
        takes = time.perf_counter() - began
        while hit < kills:
            found, hits = _with_a_kill(client, path, float(rng.uniform(0, takes)), rng)
            hit += hits
            right += hits and same(found, expected)
    return hit, right


def _with_a_kill(client: Any, path: Path, moment: float, rng: np.random.Generator) -> tuple[Estimate, bool]:
    """Fit the file and kill a worker after so many seconds, unless all is done by then."""
    client.wait_for_workers(WORKERS)
    victim = int(rng.choice(list(client.run(os.getpid).values())))
    done = threading.Event()
    hits: list[int] = []

    def kill() -> None:
        if not done.wait(moment):
            os.kill(victim, signal.SIGKILL)
            hits.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = there(path)
    finally:
        done.set()
        killer.join()
    return found, bool(hits)


def same(found: Estimate, expected: Estimate) -> bool:
    """Whether all counts, decisions and values are the same to the last bit."""
    assert found.counts is not None
    assert expected.counts is not None
    pairs: list[tuple[Any, Any]] = [
        (found.counts.positive, expected.counts.positive),
        (found.counts.negative, expected.counts.negative),
        (found.counts.nearest, expected.counts.nearest),
        (found.p_values, expected.p_values),
        (found.mean, expected.mean),
    ]
    return all(np.array_equal(a, b) for a, b in pairs)


# A zarr of 8 GB by two workers of 1 GB each beside one process, and by workers that are killed.

GIGABYTES = {False: 8.0, True: 0.1}
WIDE = 20_000
KILLS = {False: 10, True: 1}
DASK_BAR = 1.5
DASK_LIMIT = 1000.0
"""Megabytes that a worker may use."""
TIMES = "from pathlib import Path\nfrom sparsemean._cli.benchmarks import scale\nprint(*scale.times(Path({!r}), {}))"
KILLED = "from pathlib import Path\nfrom sparsemean._cli.benchmarks import scale\nprint(*scale.killed(Path({!r}), {}))"


def dask_workers(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio of times, the peak of a worker and how many kills were survived; nothing without dask."""
    if sys.platform == "win32" or not all(map(importlib.util.find_spec, ("dask", "distributed", "zarr"))):
        return
    n = round(GIGABYTES[quick] * 1e9 / (8 * WIDE))
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "x.zarr"
        files.write(path, n, WIDE)
        of = f".zarr of {8e-9 * n * WIDE:.1f} GB, {n:,} × {WIDE:,}"
        alone, spread, started, peak = numbers(TIMES.format(str(path), min(repeat, 2)))
        yield Row(
            name=f"certified fit by two workers over one process, {of}",
            value=spread / alone,
            unit="×",
            bar=None if quick else DASK_BAR,
            detail=f"one process {alone:.1f} s, workers {spread:.1f} s, of which {started:.1f} s to start them",
        )
        yield Row(f"peak memory of a worker, {of}", peak / 1e6, "MB", bar=DASK_LIMIT)
        hit, right = numbers(KILLED.format(str(path), KILLS[quick]))
        yield Row(
            name=f"{hit:.0f} fits with one worker killed give the same, {of}",
            value=right,
            unit="of",
            bar=at_least(hit),
        )
    finally:
        shutil.rmtree(folder)


# The default fit of rows that no process holds: nothing of them is stored, chunks are drawn where they are looked at.

TALL = {False: (10_000_000, 200), True: (640_000, 40)}
CHUNKS_OF_TALL = 16
MEANS = np.array([1.0, -0.5, 0.4, 0.2], dtype=np.float32)
EVERY, OFF = 50, np.float32(2.5)
"""Every so many rows one is bad: off by so much in all features."""
ALSO_HERE = 640_000
"""Rows up to which one process fits them too."""
TALL_CODE = "from sparsemean._cli.benchmarks import scale\nprint(*scale.fit_tall({}, {}))"


def drawn(rows: int, d: int, block_id: tuple[int, int]) -> data.FloatMatrix:
    """Draw one chunk: normal values, means of the first features, and bad rows."""
    chunk = np.random.default_rng(block_id).standard_normal((rows, d), dtype=np.float32)
    chunk[:, : MEANS.size] += MEANS
    chunk[::EVERY] += OFF
    return chunk


def tall(n: int, d: int) -> Any:
    """Return a dask array of such chunks: drawn by the task that counts or picks columns, and gone with it."""
    import dask.array

    rows = n // CHUNKS_OF_TALL
    chunks, meta = ((rows,) * CHUNKS_OF_TALL, (d,)), np.empty((0, 0), dtype=np.float32)
    return dask.array.map_blocks(drawn, rows=rows, d=d, chunks=chunks, dtype=np.float32, meta=meta)


def fit_tall(n: int, d: int) -> tuple[float, float, float, int, int, float]:
    """Return seconds, peaks of a worker and of this process, bad rows missed, good ones listed, and error of values.

    The error is the largest difference from the values of one process, where that holds so many rows, else NaN.
    """
    options: dict[str, Any] = {"contamination": 0.05, "test": "buckets", "random_state": 0}
    with cluster_client("local", workers=WORKERS, memory=MEMORY) as client:
        began = time.perf_counter()
        found = fit(as_table(tall(n, d)), **options)
        took = time.perf_counter() - began
        peak = max(client.run(peak_memory).values())
    of_client = peak_memory()
    assert found.support.tolist() == list(range(MEANS.size))
    assert found.rows is not None
    rows = n // CHUNKS_OF_TALL
    listed = found.rows.suspects % rows % EVERY == 0
    bad = CHUNKS_OF_TALL * len(range(0, rows, EVERY))
    error = np.nan
    if n <= ALSO_HERE:
        alone = fit(as_table(np.concatenate([drawn(rows, d, (k, 0)) for k in range(CHUNKS_OF_TALL)])), **options)
        error = float(np.abs(alone.mean - found.mean).max())
    return took, float(peak), float(of_client), int(bad - listed.sum()), int(np.sum(~listed)), error


def dask_default(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield time and memory of a default fit by workers, and what one process finds of fewer rows; once each."""
    if sys.platform == "win32" or not all(map(importlib.util.find_spec, ("dask", "distributed"))):
        return
    n, d = TALL[quick]
    took, peak, of_client, missed, wrong, _ = numbers(TALL_CODE.format(n, d))
    of = f"float32, {size(n)} × {size(d)} in {CHUNKS_OF_TALL} chunks, two workers of 1 GB"
    detail = (
        f"{missed:.0f} bad rows missed, {wrong:.0f} good ones listed; {of_client / 1e6:,.0f} MB in the asking process"
    )
    yield Row(f"default fit of a dask array, {of}", took, "s", detail=detail)
    yield Row(f"peak memory of a worker, default fit, {of}", peak / 1e6, "MB", bar=DASK_LIMIT)
    *_, error = numbers(TALL_CODE.format(*TALL[True]))
    n, d = TALL[True]
    yield Row(f"values by workers less those of one process, at most, {size(n)} × {size(d)}", error, "", bar=1e-12)


# What the page on how far it goes is reckoned from: one core, growth, merging, a tree, concluding, workers.

SIZES = (1, 2, 4)
CHUNKS = {False: ((4096, 4096), (1024, 65_536)), True: ((640, 1000), (320, 2000))}
GROWING = {False: (2048, 20_000), True: (640, 1000)}
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
FAR_CODE = "from sparsemean._cli.benchmarks import scale\nprint(*scale.{}({}))"
SPREAD = (
    "from pathlib import Path\nfrom sparsemean._cli.benchmarks import scale\nprint(*scale.by_workers(Path({!r}), {}))"
)


def far_reckoning(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield one core's rates first, then what adds counts up, what concludes, and workers unless ``quick``."""
    counted(np.ones((64, 8), dtype=np.float32))  # compiles
    yield from _counting(quick, repeat)
    yield from _growing(quick, repeat)
    data.forget()
    yield from _merging(MERGED[quick], repeat)
    yield from _tree(*TREE[quick], repeat=min(repeat, 3))
    yield from _concluding(CONCLUDED[quick])
    yield from _dealing(DEALT[quick])
    if not quick:
        yield from _workers(min(repeat, 3))


def counted(X: data.FloatMatrix, first_row: int = 0) -> Sketch:
    """Count a chunk as one thread of a worker does."""
    return sketch_rows(as_table(X), first_row, seed=0, bucket_sizes=SIZES, n_jobs=1)


def _counting(quick: bool, repeat: int) -> Iterator[Row]:
    for n, d in CHUNKS[quick]:
        X = data.draw(n, d, "float32")
        (took,) = best_times(partial(counted, X), repeat=repeat)
        name = f"one thread counts a chunk, float32, {size(n)} × {size(d)}"
        yield Row(name, X.nbytes / took / 1e9, "GB/s", detail=duration(took))


def _growing(quick: bool, repeat: int) -> Iterator[Row]:
    n, d = GROWING[quick]
    X = data.draw(2 * n, d, "float32")
    sides = {"rows": X, "features": X.reshape(n, 2 * d)}
    once, *twice = best_times(*(partial(counted, Y) for Y in (X[:n], *sides.values())), repeat=repeat)
    for what, took in zip(sides, twice, strict=True):
        name = f"{what} doubled, one thread, float32, {size(n)} × {size(d)}"
        yield Row(name, took / once, "×", detail=against(took, once))


def made(d: int, n_rows: int, first_row: int = 0) -> Sketch:
    """Make up a sketch: fair signs, but for every thousandth feature, which has a mean."""
    rng = np.random.default_rng(0)
    buckets = tuple(n_rows // far_reckoning for far_reckoning in SIZES)
    positive = np.stack([rng.binomial(many, 0.5, d) for many in buckets]).astype(np.int32)
    positive[:, ::1000] = np.array(buckets)[:, np.newaxis] * 9 // 10
    negative = np.array(buckets, dtype=np.int32)[:, np.newaxis] - positive
    counts = Counts(positive, negative, rng.random(d), buckets)
    return Sketch(counts=counts, ranges=((first_row, first_row + n_rows),), bucket_sizes=SIZES)


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
        yield Row(
            name=f"level {depth} of a tree: {len(groups)} × {len(groups[0])} sketches merged, {size(d)} features",
            value=1e3 * took,
            unit="ms",
            detail=f"{duration(took / len(groups))} each",
        )
        level = [add_sketches(group) for group in groups]
    assert level[0].n_rows == leaves * one.n_rows


def concluded(counts: Counts, n_rows: int) -> None:
    """Select by Holm, with p-values, q-values, the radius and the largest contamination of every feature."""
    plan = plan_of(n_rows, counts.nearest.size, refine=None, screen_rows=False, test="buckets")[0]
    inferred = inference.by_signs(plan, of_signs(counts, plan.n_units))
    assert inferred.decision.radius.size
    assert inferred.decision.support.size >= counts.nearest.size // 1000


def concluding(n_rows: int, d: int) -> tuple[float, float]:
    """Return the seconds and the megabytes that it takes to conclude; for a process of its own."""
    from sparsemean._cli.benchmarks.timing import peak_above

    concluded(made(1000, 640).counts, 640)  # loads what is needed
    counts = made(d, n_rows).counts
    began = time.perf_counter()
    above = peak_above(lambda: concluded(counts, n_rows))
    return time.perf_counter() - began, above


def dealing(n_rows: int) -> tuple[float, float]:
    """Return the seconds and the megabytes that it takes to deal rows; for a process of its own."""
    from sparsemean._cli.benchmarks.timing import peak_above
    from sparsemean._stats.buckets import assign_block_buckets

    began = time.perf_counter()
    above = peak_above(lambda: assign_block_buckets(n_rows, SIZES, 0))
    return time.perf_counter() - began, above


def _concluding(shapes: Sequence[tuple[int, int]]) -> Iterator[Row]:
    for n, d in shapes:
        took, above = numbers(FAR_CODE.format("concluding", f"{n}, {d}"))
        name = f"selection and radius from counts, {size(n)} rows, {size(d)} features"
        yield Row(name, took, "s", detail=f"{above:,.0f} MB above the counts")


def _dealing(heights: Sequence[int]) -> Iterator[Row]:
    for n in heights:
        took, above = numbers(FAR_CODE.format("dealing", n))
        name = f"rows are dealt where a fit is asked for, {size(n)}"
        yield Row(name, 1e9 * took / n, "ns a row", detail=f"{duration(took)}, {1e6 * above / n:.0f} bytes a row")


def _workers(repeat: int) -> Iterator[Row]:
    """Yield what one thread and what workers make of a file; nothing without dask and zarr."""
    if sys.platform == "win32" or not all(map(importlib.util.find_spec, ("dask", "distributed", "zarr"))):
        return
    n = round(FAR_GIGABYTES * 1e9 / (8 * WIDE))
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "x.zarr"
        files.write(path, n, WIDE)
        of = f".zarr of {8e-9 * n * WIDE:.1f} GB, {size(n)} × {size(WIDE)}"
        (took,) = best_times(partial(_sketched, path), repeat=repeat)
        yield Row(f"one thread reads, unpacks and counts a {of}", 8e-9 * n * WIDE / took, "GB/s", detail=duration(took))
        one, two = numbers(SPREAD.format(str(path), repeat))
        yield Row(f"time of one worker of one thread over that of two, {of}", one / two, "×", detail=against(one, two))
    finally:
        shutil.rmtree(folder)


def _sketched(path: Path) -> Sketch:
    return sketch_rows(open_file(path), seed=0, bucket_sizes=SIZES, n_jobs=1)


def by_workers(path: Path, repeat: int) -> list[float]:
    """Return the best times of a certified fit by one and by two workers of a thread each, once they have started."""
    from distributed import Client, LocalCluster

    from sparsemean._util.cluster import quiet

    out = list[float]()
    for workers in (1, 2):
        with (
            quiet(),
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
            Client(cluster),
        ):
            there(path)  # loads and compiles
            out += best_times(partial(there, path), repeat=repeat)
    return out
