"""Sparse matrices as sources: the same fit as from the array, and nothing filled in on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsemean import SparseMean, SparseMeanDifference, sparse_mean
from sparsemean._data import as_table
from sparsemean._data import matrices as source
from sparsemean._data.table import Table
from sparsemean._stats.planning import PRESET
from sparsemean.errors import InputError
from sparsemean.result import Estimate

FORMATS = ("csr", "csc", "coo", "lil")
KINDS = (sparse.csr_array, sparse.csr_matrix)


def drawn(n: int = 640, d: int = 60, *, seed: int = 0, density: float = 0.3) -> np.ndarray:
    """Sparse noise around zero, features with a mean that are stored everywhere, and a few bad rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (n, d)) * (rng.random((n, d)) < density)
    X[:, [3, 20, 41]] = rng.standard_t(3, (n, 3)) + np.array([2.0, -3.0, 1.0])
    X[:, 50:] = rng.standard_t(3, (n, d - 50))
    X[-12:] -= 4.0 * (rng.random((12, d)) < 0.8)
    return X


X = drawn()
LABELS = np.arange(640) % 2
SHIFTED = X + 1.5 * LABELS[:, np.newaxis] * np.isin(np.arange(60), [3, 41, 55])
SUBJECTS = np.arange(640) // 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool", "longdouble"])
def test_blocks_and_columns_are_those_of_the_array(kind: Any, form: str, dtype: str) -> None:
    values = np.round(X[:90] * 2).clip(-100, 100).astype(dtype)
    found = as_table(kind(values).asformat(form)).source
    assert (found.sparse, found.shape) == (True, (90, 60))
    assert found.along == ("columns" if form == "csc" else "rows")
    for rows in (slice(0, 90), slice(7, 40)):
        for columns in (slice(0, 60), slice(5, 21), slice(59, 60)):
            np.testing.assert_array_equal(found.block(rows, columns).toarray(), values[rows, columns])
    for taken in ([0], [59], [3, 4, 9, 40], list(range(60)), []):
        at = np.array(taken, dtype=np.intp)
        np.testing.assert_array_equal(found.take(at), values[:, at])
        assert found.take(at).dtype == np.float64
    np.testing.assert_array_equal(Table(found).values, values)


def test_entries_are_not_copied() -> None:
    by_columns = sparse.csc_array(X)
    block = as_table(by_columns).source.block(slice(0, 640), slice(10, 30))
    assert np.shares_memory(block.data, by_columns.data)
    assert np.shares_memory(block.indices, by_columns.indices)
    by_rows = sparse.csr_matrix(X)
    assert np.shares_memory(as_table(by_rows).source.matrix.data, by_rows.data)  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_entries_out_of_order_or_twice(form: str) -> None:
    rng = np.random.default_rng(4)
    rows, columns = rng.integers(0, 80, 900), rng.integers(0, 9, 900)
    data = np.round(rng.standard_normal(900), 1).astype(np.float32)
    order = np.argsort(rows if form == "csr" else columns, kind="stable")
    major, minor = (rows, columns) if form == "csr" else (columns, rows)
    lines = 80 if form == "csr" else 9
    indptr = np.concatenate(([0], np.cumsum(np.bincount(major, minlength=lines))))
    kind: Any = sparse.csr_matrix if form == "csr" else sparse.csc_matrix
    messy = kind((data[order], minor[order], indptr), shape=(80, 9))
    before = messy.data.copy(), messy.indices.copy()
    filled = messy.toarray()
    found = as_table(messy).source
    np.testing.assert_array_equal(found.take(np.arange(9)), filled)
    np.testing.assert_array_equal(found.block(slice(0, 80), slice(0, 9)).toarray(), filled)
    assert_same_fit(sparse_mean(messy, random_state=0), sparse_mean(filled, random_state=0))
    np.testing.assert_array_equal(messy.data, before[0])
    np.testing.assert_array_equal(messy.indices, before[1])


def assert_same_fit(found: Estimate, expected: Estimate) -> None:
    np.testing.assert_array_equal(found.support, expected.support)
    for name in ("p_values", "p_adjusted", "q_values", "radius", "entry_time", "beta", "bucket_size"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.intervals, expected.intervals, rtol=0, atol=1e-12)
    assert found.rows is not None
    assert expected.rows is not None
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)
    assert found.status.messages == expected.status.messages


FITS: dict[str, dict[str, Any]] = {
    "default": {},
    "null": {"null": 0.5},
    "a null for each": {"null": np.linspace(-1, 1, 60)},
    "paper's rule": {"selection": "paper"},
    "as published": PRESET,
    "buckets": {"n_buckets": 150},
    "sizes": {"bucket_sizes": (2, 16)},
    "subjects": {"groups": SUBJECTS, "contamination": 0.02},
    "mean": {"target": "mean", "scale": 4.0, "contamination": 0.01},
    "false discoveries": {"selection": "fdr_by", "contamination": 0.1},
    "on buckets": {"refine": "gd", "refine_on": "buckets"},
    "unscreened": {"screen_rows": False, "refine": None},
}


@pytest.mark.parametrize("options", FITS.values(), ids=FITS)
def test_the_fit_is_that_of_the_array(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WEIGHT", 4_000)  # pieces of a few columns or of 128 rows
    expected = sparse_mean(X, random_state=3, **options)
    for form in ("csr", "csc"):
        given = sparse.csr_array(X).asformat(form)
        assert_same_fit(sparse_mean(given, random_state=3, **options), expected)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_two_groups_are_those_of_the_array(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WEIGHT", 4_000)
    found = SparseMeanDifference(contamination=0.02).fit(sparse.csr_matrix(SHIFTED).asformat(form), LABELS)
    expected = SparseMeanDifference(contamination=0.02).fit(SHIFTED, LABELS)
    assert expected.support_.size
    assert_same_fit(found.result_, expected.result_)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_missing_values_are_left_out_as_of_the_array(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WEIGHT", 4_000)
    holes = SHIFTED.copy()
    holes[np.random.default_rng(6).random(X.shape) < 0.1] = np.nan
    holes[:, :20] = SHIFTED[:, :20]
    given = sparse.csr_array(holes).asformat(form)
    options = {"missing": "omit", "contamination": 0.02}
    assert_same_fit(sparse_mean(given, random_state=3, **options), sparse_mean(holes, random_state=3, **options))
    pair = SparseMeanDifference(**options)
    assert_same_fit(pair.fit(given, LABELS).result_, pair.fit(holes, LABELS).result_)
    holes[9, 30] = np.inf
    given = sparse.csr_array(holes).asformat(form)
    for fit in (lambda: sparse_mean(given, **options), lambda: pair.fit(given, LABELS)):
        with pytest.raises(InputError, match="infinity in column 30, row 9"):
            fit()


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("density", [0.0, 0.02, 1.0])
def test_empty_nearly_empty_and_full(form: str, density: float) -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_t(3, (300, 40)) * (rng.random((300, 40)) < density)
    given = sparse.csc_array(values).asformat(form)
    assert_same_fit(sparse_mean(given, random_state=0), sparse_mean(values, random_state=0))
    pair = SparseMeanDifference().fit(given, np.arange(300) % 2)
    assert_same_fit(pair.result_, SparseMeanDifference().fit(values, np.arange(300) % 2).result_)


def test_rows_are_not_judged_by_columns_that_are_mostly_zero() -> None:
    counts = np.random.default_rng(2).poisson(0.1, (400, 80))
    counts[:, 7] += 3
    found = sparse_mean(sparse.csr_matrix(counts), random_state=0, contamination=0.0)
    assert_same_fit(found, sparse_mean(counts, random_state=0, contamination=0.0))
    assert 7 in found.support


def test_selected_columns_can_be_taken_from_either() -> None:
    given = sparse.csr_matrix(X)
    est = SparseMean(random_state=0).fit(given)
    np.testing.assert_array_equal(est.transform(given).toarray(), est.transform(X))
    named = sparse_mean(given, feature_names=[f"gene {k}" for k in range(60)], random_state=0)
    assert named.table()["feature"].str.startswith("gene").all()


def broken() -> sparse.csr_matrix:
    matrix = sparse.csr_matrix(np.eye(9))
    matrix.indices[4] = 12
    return matrix


BAD = {
    "X must be real: got complex values": sparse.csr_matrix(np.eye(9) * 1j),
    "X must be 2-D, rows by features: got 1-D": sparse.coo_array(np.ones(9)),
    "X must have features: got 0 feature(s)": sparse.csr_matrix((9, 0)),
    "X must have rows: got 0 sample(s)": sparse.csc_matrix((0, 9)),
    "X must be a sparse matrix whose parts fit together": broken(),
    "X must have at least 4 rows": sparse.csr_matrix(np.eye(3)),
}


@pytest.mark.parametrize("line", BAD)
def test_bad_matrices_get_one_line(line: str) -> None:
    with pytest.raises(InputError) as caught:
        sparse_mean(BAD[line])
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_value_that_is_not_finite_is_named(value: float, name: str, form: str) -> None:
    bad = X.copy()
    bad[30, 4] = bad[7, 2] = value
    line = f"X must not contain NaN or infinity: got {name} in column 2, row 7"
    given = sparse.csr_matrix(bad).asformat(form)
    with pytest.raises(InputError) as caught:
        sparse_mean(given)
    assert str(caught.value).startswith(line)
    with pytest.raises(InputError) as caught:
        SparseMeanDifference().fit(given, LABELS)
    assert str(caught.value).startswith(line)
