"""Cells of rows compared by one sort of each column, against all pairs formed one by one."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from sparsemean._data import as_table
from sparsemean._evidence.counting.engines import Engine, engine_of
from sparsemean._kernels import NotFiniteError, groups, reference
from sparsemean._util.records import CellCounts, IntArray
from sparsemean.errors import InputError

TYPES = (
    "float64",
    "float32",
    "float16",
    "longdouble",
    ">f8",
    ">f4",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


def drawn(seed: int) -> np.ndarray:
    """Values of any type with ties, zeros of both signs and either tail, in columns that are empty or full."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 80)), int(rng.integers(1, 9))
    X = rng.standard_normal((n, d)) * rng.choice([1.0, 3.0, 1e-3, 1e6, 1e8])
    if rng.random() < 0.6:
        X = np.round(X)
    if rng.random() < 0.3:
        X = np.abs(X)
    X *= rng.random((n, d)) < rng.choice([0.0, 0.1, 0.5, 1.0])
    X[:, rng.random(d) < 0.2] = 0
    X[rng.random((n, d)) < 0.05] = -0.0
    with np.errstate(over="ignore", invalid="ignore"):
        made = X.astype(TYPES[seed % len(TYPES)])
    return made if made.dtype.kind != "f" or np.isfinite(made).all() else np.sign(X).astype(made.dtype)


def designed(seed: int, n: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return cells, their strata and comparisons of every kind; some rows have no cell."""
    rng = np.random.default_rng((seed, 1))
    n_cells, n_strata, sweeps = int(rng.integers(2, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    cells = rng.integers(-1 if rng.random() < 0.5 else 0, n_cells, n)
    strata = rng.integers(0, n_strata, n_cells)
    others = (np.arange(n_cells) + rng.integers(1, n_cells, (sweeps, n_cells))) % n_cells
    against = np.where(rng.random((sweeps, n_cells)) < 0.4, others, rng.integers(-2, 0, (sweeps, n_cells)))
    if rng.random() < 0.3:
        against[:] = groups.REST
    return cells.astype(np.intp), strata.astype(np.intp), against.astype(np.intp)


def with_gaps(X: np.ndarray, seed: int) -> np.ndarray:
    made = X.copy()
    made[np.random.default_rng((seed, 2)).random(X.shape) < 0.2] = np.nan
    return made


def layouts(X: np.ndarray) -> dict[str, Any]:
    n, d = X.shape
    wide = np.zeros((2 * n, 3 * d), dtype=X.dtype)
    wide[::2, 1::3] = X
    return {
        "by rows": X,
        "by columns": np.asfortranarray(X),
        "every other": wide[::2, 1::3],
        "backwards": np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    }


def counted(block: Any, design: tuple[IntArray, IntArray, IntArray], **options: Any) -> CellCounts:
    comparisons = groups.Comparisons.of(*design)
    out = comparisons.blank(block.shape[1])
    list(groups.count_pairs(block, comparisons, out, **options))
    return out


def assert_same(found: CellCounts, expected: CellCounts) -> None:
    for fast, slow in zip(found, expected, strict=True):
        np.testing.assert_array_equal(fast, slow)
        assert fast.dtype == np.int64


@pytest.mark.parametrize("first", range(0, 120, 24))
def test_counts_are_those_of_all_pairs(first: int) -> None:
    for seed in range(first, first + 24):
        X = drawn(seed)
        design = designed(seed, X.shape[0])
        expected = reference.count_pairs(X.astype(np.float64), *design)
        for block in layouts(X).values():
            assert_same(counted(block, design), expected)
        if X.dtype.isnative and X.dtype != np.float16:
            assert_same(counted(sparse.csc_array(X), design), expected)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 12, 13, 24, 25])
def test_what_is_missing_is_no_value(seed: int) -> None:
    X = with_gaps(drawn(seed), seed)
    design = designed(seed, X.shape[0])
    expected = reference.count_pairs(X.astype(np.float64), *design)
    assert_same(counted(X, design, skip_missing=True), expected)
    if X.dtype.isnative and X.dtype != np.float16:
        assert_same(counted(sparse.csc_array(X), design, skip_missing=True), expected)


@pytest.mark.parametrize("seed", range(8))
def test_values_that_differ_in_their_last_bits_alone_are_told_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = np.float64(rng.choice([1.0, -1.0])) + rng.integers(0, 50, (300, 3)) * np.finfo(float).eps
    X = np.where(rng.random((300, 3)) < 0.5, near, rng.choice([0.0, -3.1, 1e300, -1e-310], (300, 3)))
    design = designed(seed, 300)
    assert_same(counted(X, design), reference.count_pairs(X, *design))
    assert_same(counted(sparse.csc_array(X), design), reference.count_pairs(X, *design))


def test_two_cells_in_closed_form() -> None:
    X = np.array([[1.0], [2.0], [2.0], [-1.0], [0.0], [2.0], [1.0], [-1.0], [-2.0]])
    cells, strata = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1]), np.zeros(2, dtype=np.intp)
    found = counted(X, (cells, strata, np.array([[-1, -1]])))
    assert found.own[:, :, 0].tolist() == [[5, 4], [3, 2], [1, 2]]
    # positive 1, 2, 2 against 2, 1: two wins, three ties, five values of which two are distinct; −1 against −1, −2
    assert found.pairs[0, :, :, 0].tolist() == [[2, 1], [3, 3], [3, 3], [1, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_and_parts_agree(n_jobs: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = sparse.random_array((400, 90), density=0.3, format="csc", rng=rng, dtype=dtype)
    X.data = np.round(X.data, 2)
    design = designed(5, 400)
    expected = counted(X, design, n_jobs=1)
    monkeypatch.setattr(groups, "PACKED_AT_ONCE", 1000)
    assert_same(counted(X, design, n_jobs=n_jobs), expected)
    assert_same(counted(X.toarray(), design, n_jobs=n_jobs), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_value_that_is_not_finite_is_noticed(value: float, dtype: str) -> None:
    X = np.random.default_rng(1).standard_normal((40, 5)).astype(dtype)
    X[7, 3] = value
    for left_out in (False, True):
        cells = np.arange(40) % 2
        cells[7] = -1 if left_out else cells[7]
        design = cells, np.zeros(2, dtype=np.intp), np.array([[-1, -1]])
        for block in (X, sparse.csc_array(X)):
            with pytest.raises(NotFiniteError):
                counted(block, design)
            if np.isinf(value):
                with pytest.raises(NotFiniteError):
                    counted(block, design, skip_missing=True)
        with pytest.raises(InputError, match="row 7"):
            Engine().rank_counts(as_table(X), *design)


def sources(X: np.ndarray) -> dict[str, Any]:
    return {
        "dense": X,
        "csr": sparse.csr_array(X),
        "csc": sparse.csc_array(X),
        "dask": da.from_array(X, chunks=(50, 7)),
        "sparse dask": da.from_array(X, chunks=(50, 7)).map_blocks(sparse.csr_array),
    }


@pytest.mark.parametrize("kind", sources(np.zeros((2, 2))))
@pytest.mark.parametrize("missing", [False, True])
def test_every_source_is_counted_alike(kind: str, missing: bool) -> None:
    rng = np.random.default_rng(8)
    X = np.round(rng.standard_normal((120, 30)) * (rng.random((120, 30)) < 0.3), 1)
    X = with_gaps(X, 8) if missing else X
    design, told = designed(11, 120), []
    table = as_table(sources(X)[kind])
    found = engine_of(table.source, progress=told.append).rank_counts(table, *design, skip_missing=missing)
    assert_same(found, reference.count_pairs(X, *design))
    assert told[-1] == 1.0
    if missing:
        with pytest.raises(InputError, match="NaN"):
            engine_of(table.source).rank_counts(table, *design)
