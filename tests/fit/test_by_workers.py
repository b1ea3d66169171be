"""Columns that stay with workers: the answer of one process, exact but for what a byte a value leaves of scores."""

from __future__ import annotations

import gc
import threading
from typing import Any

import dask.array as da
import numpy as np
import pytest
from clusters import local_workers

from sparsemean import simulate, sparse_mean
from sparsemean._data import as_table
from sparsemean._data import dask as source
from sparsemean._evidence.counting.engines import Engine, engine_of
from sparsemean._fit import by_workers
from sparsemean._fit import data as fit_data
from sparsemean._fit.by_workers import CodedColumns, Columns
from sparsemean._stats import row_scores
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.standardized import StandardizedRows
from sparsemean._util.records import BucketSpec
from sparsemean.result import Estimate

N, D = 3000, 60
CHUNKS: dict[str, Any] = {
    "both ways": (700, 25),
    "one": (N, D),
    "columns": (N, 7),
    "odd": ((1, 1513, 0, 0, 6, 1480), (1, 0, 59)),
}
NEAR = 0.1
"""Deviations by which scores differ: values are told to 1/84 of the unit of a column, 5 % of them to less."""


@pytest.fixture(autouse=True)
def many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_data, "SPREAD", 100)


@pytest.fixture(scope="module")
def data() -> Any:
    return simulate.make_contaminated(N, D, [10, -5, -4, 2], random_state=0)


def same(found: Estimate, expected: Estimate) -> None:
    """What is certified and every value are the same bits; suspects are the same rows, for the same kind of reason."""
    for name in ("support", "p_values", "radius", "max_contamination", "mean", "intervals", "skewed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.rows is not None
    assert expected.rows is not None
    assert dict(zip(found.rows.suspects.tolist(), found.rows.kinds, strict=True)) == dict(
        zip(expected.rows.suspects.tolist(), expected.rows.kinds, strict=True)
    )
    assert found.status.refinement == expected.status.refinement
    assert (found.uncertified is None) == (expected.uncertified is None)
    if found.uncertified is not None and expected.uncertified is not None:
        for name in ("features", "p_adjusted", "estimate"):
            np.testing.assert_array_equal(getattr(found.uncertified, name), getattr(expected.uncertified, name))


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "named": {"contamination": 0.1},
    "null": {"contamination": 0.1, "null": 0.5},
    "omit": {"contamination": 0.1, "missing": "omit"},
    "ranks": {"contamination": 0.1, "test": "ranks"},
    "buckets": {"contamination": 0.05, "refine": "gd", "refine_on": "buckets"},
    "filter": {"contamination": 0.1, "refine": "filter"},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_fit_is_that_of_one_process(data: Any, options: str) -> None:
    X = data.X.astype(np.float32) if options == "null" else data.X.copy()
    if options == "omit":
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    expected = sparse_mean(X, random_state=0, **OPTIONS[options])
    for chunks in ("both ways", "odd") if options == "default" else ("both ways",):
        same(sparse_mean(da.from_array(X, chunks=CHUNKS[chunks]), random_state=0, **OPTIONS[options]), expected)
    assert expected.rows is not None
    assert expected.rows.suspects.size


def test_columns_that_workers_cannot_hold_at_once(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Any = {"contamination": 0.1, "null": 0.5, "random_state": 0}
    expected = sparse_mean(data.X, **settings)
    assert expected.support.size > 20
    monkeypatch.setattr(by_workers, "HELD_THERE", 20 * N)
    found = sparse_mean(da.from_array(data.X, chunks=(700, 25)), **settings)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_array_equal(found.intervals, expected.intervals)
    np.testing.assert_allclose(found.mean, expected.mean, atol=0.2)  # fewer columns tell which rows agree


def test_on_a_cluster(data: Any) -> None:
    settings: Any = {"contamination": 0.1, "random_state": 0, "test": "buckets"}
    expected = sparse_mean(data.X, **settings)
    with local_workers() as client:
        same(sparse_mean(da.from_array(data.X, chunks=(1500, 60)), **settings), expected)
        for _ in range(100):
            gc.collect()
            if not (left := client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))):
                break
            threading.Event().wait(0.05)
    assert left == 0


# Rows judged by what a byte tells of each value.


def coded(X: Any, chunks: Any = (700, 25), clip: float = 3.0, **options: Any) -> CodedColumns:
    columns = np.arange(X.shape[1])
    return CodedColumns(Columns(source.Dask(da.from_array(X, chunks=chunks)), columns, **options), clip)


def rows_of(kind: str) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (N, D)) if kind == "heavy" else rng.standard_normal((N, D))
    if kind == "gaps":
        X[rng.random(X.shape) < 0.3] = np.nan
    if kind == "zeros":
        X[:, :20][rng.random((N, 20)) < 0.7] = 0.0
        X[:, 20] = 0.0
    if kind == "scales":
        X *= rng.chisquare(2, N)[:, np.newaxis]
    if kind == "huge":
        X[5] *= 1e30
        X[:, 7] *= 1e-30
    X[:40] += 2.0
    return X


@pytest.mark.parametrize("kind", ["plain", "heavy", "gaps", "zeros", "scales", "huge"])
@pytest.mark.parametrize("chunks", ["both ways", "odd"])
def test_what_is_asked_of_rows(kind: str, chunks: str) -> None:
    X = rows_of(kind)
    expected, found = StandardizedRows(X), coded(X, CHUNKS[chunks])
    np.testing.assert_array_equal(found.columns, expected.columns)
    np.testing.assert_array_equal(found.row_scale, expected.row_scale)
    for a, b in zip(found.tail_entries, expected.tail_entries, strict=True):
        np.testing.assert_array_equal(a, b)
    some = np.array([2999, 0, 5, 700, 699, 1514])
    near = np.abs(expected.ratios.take(some)) <= 3
    a, b = found.ratios.take(some), expected.ratios.take(some)
    np.testing.assert_array_equal(np.sign(a), np.sign(b))
    np.testing.assert_array_equal(a[~near], b[~near])
    np.testing.assert_allclose(a[near], b[near], rtol=0, atol=1 / 42)
    for name in ("scaled", "ratios"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.whole == b.whole
        np.testing.assert_array_equal(a.counts, b.counts)
        np.testing.assert_allclose(a.take(some), b.take(some), atol=1 / 42)
    scale = np.abs(expected.scaled.gram()).max()
    np.testing.assert_allclose(
        found.scaled.gram(), expected.scaled.gram(), atol=(1e-5 if found.scaled.whole else 1e-3) * scale
    )
    np.testing.assert_allclose(found.winsorized().take(some), expected.winsorized().take(some), atol=1 / 42)
    one, other = row_scores.judge_rows(found), row_scores.judge_rows(expected)
    assert set(one.suspects.tolist()) == set(other.suspects.tolist())
    if kind in ("plain", "heavy", "zeros"):
        assert np.abs(one.scores - other.scores).max() < NEAR


def test_some_rows_about_centres_of_their_own() -> None:
    X, about = rows_of("gaps"), np.linspace(-1, 1, D)
    kept = np.random.default_rng(1).random(N) < 0.9
    kept[700:1400] = False  # a chunk without any
    found, expected = coded(X, kept=kept, about=about, clip=6.0), StandardizedRows(X[kept] - about, 6.0)
    np.testing.assert_array_equal(found.row_scale, expected.row_scale)
    for a, b in zip(found.winsorized_tails(), expected.winsorized_tails(), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found.scaled.squares, expected.scaled.squares, rtol=0.02, atol=0.5)


# Rows that are dealt anew are counted where they lie.


@pytest.mark.parametrize("chunks", CHUNKS)
def test_buckets_made_anew(data: Any, chunks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LEAST", 1)
    monkeypatch.setattr(source.Dask, "whole_columns", lambda _: pytest.fail("all rows of a column were put together"))
    X = data.X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    kept = np.flatnonzero(np.random.default_rng(2).random(N) < 0.97)
    partition = assign_block_buckets(kept.size, (1, 2, 4), 3).of_rows(kept)
    spec = BucketSpec(partition, np.arange(D) / D, True)
    expected, _ = Engine().count(as_table(X), spec)
    table = as_table(da.from_array(X, chunks=CHUNKS[chunks]))
    found, _ = engine_of(table.source).count(table, spec)
    for name in ("positive", "negative", "nearest", "present", "missing", "n_buckets"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_sorted_table_is_told_as_in_one_process(gaps: bool) -> None:
    X = np.random.default_rng(0).standard_normal((400, 12))
    X[:, 1:] += 2 * X[:, :1]
    X = X[np.argsort(X[:, 0])]
    if gaps:
        X[::7, 3] = np.nan
    options: dict[str, Any] = {"missing": "omit" if gaps else "raise"}
    notes = [sparse_mean(each, **options).status.messages for each in (X, da.from_array(X, chunks=(90, 12)))]
    for some in notes:
        assert "rows are sorted by column 0; apart from that neighbouring rows are not alike" in some[0]
