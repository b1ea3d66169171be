"""Dask arrays and frames, and files that workers read: values, names and refusals."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean import SparseMean, SparseMeanDifference, simulate
from sparsemean._data import as_table, open_file
from sparsemean._data import dask as files
from sparsemean._data import dask as source
from sparsemean._data.table import NOTHING
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

import kinds
from agreeing import same_fit, same_values

N, D = 300, 70


@pytest.fixture(scope="module", name="X")
def made() -> Any:
    return simulate.make_contaminated(N, D, [10, -5, -4, 2], random_state=0).X


@pytest.mark.parametrize("chunks", [(100, 20), (N, D), (7, 70), (300, 1), ((0, 299, 0, 1), (1, 69))])
def test_chunks_of_any_size(X: Any, chunks: Any) -> None:
    table = as_table(da.from_array(X, chunks=chunks))
    same_values(table, X)
    same_fit(table, X)
    assert table.source.take(np.array([], dtype=np.intp)).shape == (N, 0)
    np.testing.assert_array_equal(table.source.take(np.array([60, 3])), X[:, [60, 3]])


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, np.asfortranarray])
def test_chunks_of_any_kind(X: Any, form: Any) -> None:
    values = np.where(np.abs(X) < 0.5, 0.0, X)
    array = da.from_array(values, chunks=(100, 30)).map_blocks(form, dtype=float, meta=np.empty((0, 0)))
    same_fit(as_table(array), values)


def test_only_what_is_asked_for_is_computed(X: Any) -> None:
    computed: list[Any] = []

    def note(block: Any, block_id: Any) -> Any:
        computed.append(block_id)
        return block

    array = da.from_array(X, chunks=(150, 10)).map_blocks(note, dtype=float, meta=np.empty((0, 0)))
    table = as_table(array)
    assert computed == []
    table.source.take(np.array([0, 9, 25]))
    assert sorted(computed) == [(0, 0), (0, 2), (1, 0), (1, 2)]
    computed.clear()
    est = SparseMean(0.05, test="buckets", random_state=0, refine=None, screen_rows=False).fit(array)
    everything = [(i, j) for i in range(2) for j in range(7)]
    assert sorted(computed) == sorted(everything + [(i, 0) for i in range(2)])  # once, and the support's once more
    computed.clear()
    lazy = est.transform(array)
    assert computed == []
    np.testing.assert_array_equal(lazy.compute(), X[:, est.support_])
    assert {j for _, j in computed} == {0}


def test_estimators_take_arrays_and_keep_names(X: Any) -> None:
    est = SparseMean(random_state=0).fit(da.from_array(X, chunks=(100, 20)))
    plain = SparseMean(random_state=0).fit(X)
    np.testing.assert_array_equal(est.support_, plain.support_)
    np.testing.assert_array_equal(est.row_scores_, plain.row_scores_)
    assert est.n_features_in_ == D
    with pytest.raises(InputError, match="have the 70 features of the fit: got 20"):
        est.transform(da.ones((5, 20)))


def test_two_groups(X: Any) -> None:
    y = np.arange(N) % 2
    values = X + np.outer(y, np.arange(D) < 3)
    found = SparseMeanDifference().fit(da.from_array(values, chunks=(77, 20)), y)
    expected = SparseMeanDifference().fit(values, y)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_array_equal(found.mean_, expected.mean_)
    np.testing.assert_array_equal(found.result_.p_values, expected.result_.p_values)
    values[200, 33] = np.nan
    lines = []
    for given in (values, da.from_array(values, chunks=(77, 20))):
        with pytest.raises(InputError) as refused:
            SparseMeanDifference().fit(given, y)
        lines.append(str(refused.value))
    assert lines[0] == lines[1]


def unknown() -> Any:
    x = da.ones((10, 3), chunks=5)
    return x[x[:, 0] > 0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (unknown, r"have chunks of known size: got .*; call X.compute_chunk_sizes\(\) first"),
        (lambda: da.ones(10), "be 2-D, rows by features: got 1-D"),
        (lambda: da.ones((10, 3), dtype=complex), "be real"),
        (lambda: da.ones((10, 3)).astype("M8[s]"), "be numeric"),
        (lambda: da.ones((0, 3)), "have rows"),
    ],
)
def test_what_cannot_be_fitted_is_refused(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        as_table(make())


def test_masked_chunks_are_refused(X: Any) -> None:
    with pytest.raises(InputError, match="have no mask"):
        SparseMean(random_state=0).fit(da.ma.masked_greater(da.from_array(X, chunks=(100, 20)), 3.0))


def test_frames_keep_their_names(X: Any) -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(kinds.frame(X), npartitions=3)
    table = as_table(frame)
    assert table.feature_names is not None
    assert table.feature_names.tolist() == kinds.names(D)
    same_fit(table, X)
    est = SparseMean(random_state=0).fit(frame)
    assert list(est.feature_names_in_) == kinds.names(D)
    assert est.get_feature_names_out()[0] == "feature 0"
    np.testing.assert_array_equal(est.transform(frame).compute(), X[:, est.support_])
    mixed = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    with pytest.raises(InputError, match="numeric columns only, of NumPy's types: got column 'b'"):
        as_table(mixed)
    with pytest.raises(InputError, match="a dask series"):
        as_table(frame["feature 0"])


@pytest.fixture(params=["in one piece", "in small pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    small = request.param == "in small pieces"
    if small:
        monkeypatch.setattr(files, "AT_ONCE", 50_000)
        monkeypatch.setattr(files, "LEAST", 8)
    return small


def spread(path: Path) -> Any:
    return files.spread(open_file(path), path, NOTHING)


@pytest.mark.parametrize("kind", kinds.FILES)
def test_files_that_workers_read(kind: str, X: Any, tmp_path: Path, pieces: bool) -> None:
    path = kinds.written(kind, tmp_path, X)
    table = spread(path)
    assert (int(np.prod(table.source.array.numblocks)) > 1) == pieces
    columns = np.array([0, 1, 9, 30, 60])
    np.testing.assert_array_equal(table.source.take(columns), X[:, columns])
    same_fit(table, X)


@pytest.mark.parametrize("height", [64, 100])
def test_pieces_are_whole_chunks_and_whole_blocks(height: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr("sparsemean._data.chunked.AT_ONCE", 400_000)
    array = zarr.create_array(store=tmp_path / "x.zarr", shape=(9000, 600), dtype="f8", chunks=(height, 30))
    monkeypatch.setattr(files, "AT_ONCE", 400_000 if height == 64 else 500_000)
    rows, columns = files.grid(as_table(array).source)
    assert sum(rows) == 9000
    assert sum(columns) == 600
    assert all(size % height == 0 for size in rows[:-1])
    assert all(size % 30 == 0 for size in columns)
    assert max(rows) * max(columns) * 8 <= 500_000
    assert all(size % 64 == 0 for size in rows[:-1])


def test_a_file_that_a_worker_does_not_see_is_one_line(X: Any, tmp_path: Path) -> None:
    path = kinds.written("npy", tmp_path, X)
    table = spread(path)
    path.rename(tmp_path / "elsewhere.npy")
    with pytest.raises(
        InputError, match=r"FILE must lie at the same path on every worker: got .*which is not there on"
    ):
        SparseMean(random_state=0).fit(X) and table.source.take(np.array([0]))

    with pytest.raises(InputError, match="lie at the same path"):
        fit(table, random_state=0)
    np.save(path, X[:100])
    with pytest.raises(InputError, match=r"be the same file on every worker, and stay so: got one of 56,128 bytes"):
        fit(table, random_state=0)


def test_another_file_of_the_same_shape_is_refused(X: Any, tmp_path: Path) -> None:
    for kind in ("npy", "zarr"):
        path = kinds.written(kind, tmp_path, X)
        table = spread(path)
        shutil.copytree(path, path.with_suffix(".old")) if path.is_dir() else shutil.copy2(
            path, path.with_suffix(".old")
        )
        shutil.rmtree(path, ignore_errors=True)
        written = kinds.written(kind, tmp_path, X + 1.0)
        with pytest.raises(InputError, match=r"FILE must be the same file on every worker, and stay so: got one"):
            fit(table, random_state=0)
        shutil.rmtree(written, ignore_errors=True)
        path.with_suffix(".old").replace(path)
        same_fit(table, X)


def test_files_that_are_read_whole_must_be_small(X: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kinds.written("csv", tmp_path, X)
    monkeypatch.setattr(files, "HELD_WHOLE", 1000)
    with pytest.raises(InputError, match=r"be of a kind that is read in pieces: got csv\.csv"):
        spread(path)


def test_small_neighbours_are_taken_together() -> None:
    x = da.ones((2000, 900), chunks=(10, 30))
    assert all(size >= source.LEAST for sizes in source.Dask(x).pieces().chunks for size in sizes[:-1])
    wide = da.ones((2000, 200_000), chunks=(100, 200_000))
    assert source.Dask(wide).pieces().chunks == wide.chunks


def test_columns_in_another_order_are_not_taken_for_those_of_the_fit() -> None:
    frames = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(
        np.random.default_rng(0).standard_normal((200, 5)) + np.array([3, 0, 0, 0, 0]), columns=list("abcde")
    )
    est = SparseMean(random_state=0).fit(frame)
    right = frames.from_pandas(frame, npartitions=3)
    np.testing.assert_array_equal(est.transform(right).compute(), frame[["a"]])
    with pytest.raises(InputError, match="X must have the feature names of the fit: got 'e' in place of 'a'"):
        est.transform(frames.from_pandas(frame[list("edcba")], npartitions=3))


def test_chunks_that_are_not_what_they_say_are_refused() -> None:
    X = da.from_array(np.ones((300, 4)), chunks=(100, 4)).map_blocks(lambda block: block[:90], dtype=float)
    with pytest.raises(InputError, match="X must have chunks of the size they say"):
        SparseMean(refine=None, screen_rows=False).fit(X)
