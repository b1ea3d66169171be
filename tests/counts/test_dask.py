"""Chunks counted apart, on threads and on a cluster, give the counts and decisions of one pass over memory."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import MANY, local_workers

from sparsemean import simulate, sparse_mean
from sparsemean._data import as_table, open_file
from sparsemean._data import dask as files
from sparsemean._data import dask as source
from sparsemean._data.table import NOTHING
from sparsemean._evidence.counting.engines import Engine, engine_of
from sparsemean._fit.one_sample import fit
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets
from sparsemean._util.records import BucketSpec, Partition
from sparsemean.errors import InputError
from sparsemean.result import Estimate

import kinds

N, D = 1000, 150
CHUNKS: dict[str, Any] = {
    "both ways": (100, 40),
    "one": (N, D),
    "columns": (N, 7),
    "blocks": (64, D),
    "odd": ((1, 513, 3, 0, 480, 3), (1, 49, 0, 100)),
    "single rows": ((1,) * 130 + (870,), D),
}
PARTITIONS: dict[str, Callable[[], Partition]] = {
    "blocks": lambda: assign_block_buckets(N, (1, 2, 4), 3),
    "larger blocks": lambda: assign_block_buckets(N, (8, 32), 3),
    "some rows": lambda: _some_rows(np.flatnonzero(np.random.default_rng(0).random(N) < 0.9)),
    "few rows": lambda: _some_rows(np.r_[5:10, 600:700]),
    "permutation": lambda: assign_paper_buckets(N, 33, 3),
    "subjects": lambda: assign_block_buckets(N, (1, 2, 4), 3, units=np.arange(N) % 300),
}


def _some_rows(rows: Any) -> Partition:
    return assign_block_buckets(rows.size, (1, 2, 4), 3).of_rows(rows)


@pytest.fixture(autouse=True)
def small_chunks_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LEAST", 1)


@pytest.fixture(scope="module")
def data() -> Any:
    return simulate.make_contaminated(N, D, [10, -5, -4, 2], random_state=0)


def same_counts(found: Any, expected: Any) -> None:
    for name in ("positive", "negative", "nearest", "present", "missing"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.n_buckets == expected.n_buckets


def same(found: Estimate, expected: Estimate) -> None:
    """Everything that is decided is the same, and so are values but for the last digits."""
    same_counts(found.counts, expected.counts)
    for name in ("support", "p_values", "p_adjusted", "radius", "max_contamination", "entry_time", "skewed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.intervals, expected.intervals, rtol=0, atol=1e-10)
    assert found.rows is not None
    assert expected.rows is not None
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)
    assert (found.uncertified is None) == (expected.uncertified is None)
    if found.uncertified is not None and expected.uncertified is not None:
        np.testing.assert_array_equal(found.uncertified.features, expected.uncertified.features)


@pytest.mark.parametrize("dealt", PARTITIONS)
@pytest.mark.parametrize("chunks", CHUNKS)
def test_counts_and_kept_columns_are_those_of_memory(data: Any, chunks: str, dealt: str) -> None:
    X = data.X.astype(np.float32) if chunks == "blocks" else data.X.copy()
    missing = chunks in ("odd", "columns")
    if missing:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        X[:, 60] = np.nan
    partition, keep = PARTITIONS[dealt](), np.array([0, 3, 48, 49, 50, 149])
    spec = BucketSpec(partition, np.arange(D) / D if chunks == "both ways" else None, missing)
    expected, columns = Engine().count(as_table(X), spec, keep=keep)
    seen: list[float] = []
    table = as_table(da.from_array(X, chunks=CHUNKS[chunks]))
    found, kept = engine_of(table.source, progress=seen.append).count(table, spec, keep=keep)
    same_counts(found, expected)
    np.testing.assert_array_equal(kept, columns)
    assert seen == sorted(seen)
    assert seen[-1] == 1


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "null": {"null": np.where(np.arange(D) < 12, 0.5, 0.0)},
    "paper": {"selection": "paper", "n_buckets": "paper", "min_selected": 6},
    "subjects": {"groups": np.arange(N) // 3},
    "omit": {"missing": "omit"},
    "plain": {"refine": None, "screen_rows": False, "selection": "fdr"},
    "buckets": {"refine": "gd", "refine_on": "buckets"},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_fit_decides_what_one_in_memory_does(data: Any, options: str) -> None:
    X = data.X.astype(np.float32) if options == "null" else data.X.copy()
    if options == "omit":
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    settings = {"contamination": 0.1, "random_state": 0, **OPTIONS[options]}
    expected = sparse_mean(X, **settings)
    for chunks in ("both ways", "odd"):
        found = sparse_mean(da.from_array(X, chunks=CHUNKS[chunks]), **settings)
        same(found, expected)
    if options == "default":
        assert found.rows is not None
        assert found.rows.suspects.size  # so that some rows were left out of the second look


def test_intervals_and_trajectories_are_read_again(data: Any) -> None:
    expected = sparse_mean(data.X, contamination=0.1, random_state=0)
    found = sparse_mean(da.from_array(data.X, chunks=(300, 40)), contamination=0.1, random_state=0)
    np.testing.assert_array_equal(found.interval([7, 3]), expected.interval([7, 3]))
    np.testing.assert_array_equal(found.trajectory([3, 0, 9]), expected.trajectory([3, 0, 9]))


@pytest.mark.parametrize("scheduler", ["synchronous", "processes"])
def test_any_scheduler(data: Any, scheduler: str) -> None:
    X = data.X[:300, :30]
    with dask.config.set(scheduler=scheduler, num_workers=2):
        same(sparse_mean(da.from_array(X, chunks=(150, 30)), random_state=0), sparse_mean(X, random_state=0))


def spoiled(X: Any, row: int, column: int, value: float = np.nan) -> Any:
    X = X.copy()
    X[row, column] = value
    return X


def line_of(X: Any, **options: Any) -> str:
    with pytest.raises(InputError) as refused:
        sparse_mean(X, random_state=0, **options)
    return str(refused.value)


@pytest.mark.parametrize(("row", "column", "value"), [(0, 0, np.nan), (777, 130, np.inf), (999, 149, -np.inf)])
@pytest.mark.parametrize("options", ["default", "paper", "subjects"])
def test_what_is_not_finite_is_named_by_its_place_among_all(
    data: Any, row: int, column: int, value: float, options: str
) -> None:
    X, settings = spoiled(data.X, row, column, value), {**OPTIONS[options], "feature_names": kinds.names(D)}
    assert line_of(da.from_array(X, chunks=(100, 40)), **settings) == line_of(X, **settings)


def test_sums_that_overflow(data: Any) -> None:
    X = data.X.copy()
    X[:, 5] = 1.7e308
    assert line_of(da.from_array(X, chunks=(100, 40))) == line_of(X)


def test_columns_that_nobody_could_hold_are_refused_before_anything_is_computed(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST_HELD", 100 * N)

    def never(block: Any) -> Any:
        raise AssertionError

    X = da.from_array(data.X, chunks=(100, 40)).map_blocks(never, dtype=float, meta=np.empty((0, 0)))
    line = line_of(X)
    assert "150 columns of 1,000 rows" in line
    assert "screen_rows=False and refine=None (--no-screen --refine none)" in line


def test_without_screening_and_refinement_few_columns_are_held(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsemean._data.source.TAKEN_AT_ONCE", 2 * N)
    monkeypatch.setattr("sparsemean._fit.data.TAKEN_AT_ONCE", 2 * N)
    monkeypatch.setattr(source, "MOST_HELD", 2 * N)
    X = data.X.copy()
    X[:, 5:9] = [1.0, 2.0, 3.0, 4.0]  # held to see that they hold one value only
    settings: Any = {"contamination": 0.1, "random_state": 0, "refine": None, "screen_rows": False, "test": "buckets"}
    same(sparse_mean(da.from_array(X, chunks=(300, 40)), **settings), sparse_mean(X, **settings))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_workers() as client:
        yield client


def test_on_a_cluster(data: Any, cluster: Any) -> None:
    settings: Any = {"contamination": 0.1, "random_state": 0}
    X = da.from_array(data.X, chunks=(100, 40))
    same(sparse_mean(X, **settings), sparse_mean(data.X, **settings))
    groups = np.arange(N) // 3
    same(sparse_mean(X, groups=groups, **settings), sparse_mean(data.X, groups=groups, **settings))
    bad = spoiled(data.X, 654, 32)
    assert line_of(da.from_array(bad, chunks=(100, 40))) == line_of(bad)


def test_what_a_cluster_is_asked_for_is_forgotten_there(data: Any, cluster: Any) -> None:
    bad = spoiled(data.X, 654, 32)
    line_of(da.from_array(bad, chunks=(10, 40)))
    for _ in range(100):
        if not (left := cluster.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))):
            break
        threading.Event().wait(0.05)
    assert left == 0


@pytest.fixture
def file(data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is read in very many pieces."""
    monkeypatch.setattr(files, "AT_ONCE", 200_000)
    return kinds.written("npy", tmp_path, np.tile(data.X, (3, 2)))


def fitted(path: Path, **options: Any) -> Estimate:
    table = files.spread(open_file(path), path, NOTHING)
    assert np.prod(table.source.array.numblocks) > 20
    return fit(table, contamination=0.1, random_state=0, **options)


def test_a_killed_worker_costs_time_not_the_result(file: Path, cluster: Any, long_version: bool, claims: Any) -> None:
    expected = fit(open_file(file), contamination=0.1, random_state=0)
    rng = np.random.default_rng(0)
    moments = rng.random(10) if long_version else np.array([0.4])
    for moment in moments:
        cluster.wait_for_workers(2)
        killed: list[int] = []

        def progress(share: float, moment: float = moment, killed: list[int] = killed) -> None:
            if share >= moment and not killed:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    killed.append(int(rng.choice(list(cluster.run(os.getpid).values()))))
                os.kill(killed[0], signal.SIGKILL)

        same(fitted(file, progress=progress), expected)
        assert killed
    all_of_them = f"{len(moments)} of {len(moments)} with the same answer"
    claims.add("a worker killed at a random moment, a file of 3000 × 300, two workers", all_of_them, "all", 0)


def test_a_chunk_that_no_worker_survives_is_one_line(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    try:
        X = da.ones((200, 20), chunks=(100, 20)).map_blocks(_die, dtype=float, meta=np.empty((0, 0)))
        assert "pieces that fit into the memory of a worker" in line_of(X)
    finally:
        cluster.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", MANY))
        cluster.wait_for_workers(2)


def _die(block: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
