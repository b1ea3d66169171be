"""Sums of bounded influences: against the formula, and the same whole numbers on every road."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import specification
from scipy import sparse

from sparsemean._data import as_table, open_file
from sparsemean._data.gpu import sent
from sparsemean._evidence.counting.engines import engine_of
from sparsemean._kernels import NotFiniteError, influence
from sparsemean._stats.arrays import on_host
from sparsemean.errors import InputError

from emulated import needs_compiler
from kinds import FILES, written

KAPPAS = (0.5, 0.54, 0.86, 3.0, 40.0)


def problem(n: int = 300, d: int = 40, gaps: bool = False) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.7, 0.0, rng.standard_normal((n, d)) * 3).round(3)
    if gaps:
        X[rng.random((n, d)) < 0.1] = np.nan
    return np.asarray(X)


CENTRES = np.stack((np.linspace(-1, 1, 40), np.zeros(40)))
UNIT = np.geomspace(0.1, 30, 40)
SPEC = influence.InfluenceSpec(CENTRES, UNIT, 0.54)
GAPS = SPEC._replace(missing=True)


def plain(X: np.ndarray, kappa: float = 0.54, rows: np.ndarray | None = None) -> np.ndarray:
    chosen = X if rows is None else X[rows]
    return np.asarray(influence.array_sums(np.asarray(chosen, dtype=np.float64), CENTRES, UNIT, kappa))


@pytest.mark.parametrize("kappa", KAPPAS)
def test_rounded_influence_misses_the_formula_by_less_than_a_step(kappa: float) -> None:
    x = np.concatenate((np.linspace(-1.5, 1.5, 20_001) / kappa, [-1e300, -np.inf, 1e-12, 5e-324, 1e9]))
    steps = influence.steps(x, kappa)
    assert np.abs(steps / influence.GRID - specification.influence(x, kappa)).max() < influence.ERROR
    np.testing.assert_array_equal(influence.steps(-x, kappa), -steps)
    assert (np.diff(influence.steps(np.sort(x), kappa)) >= 0).all()
    assert np.abs(steps).max() == influence.largest_step(kappa)
    np.testing.assert_allclose(influence.largest_step(kappa) / influence.GRID, np.log(4 * kappa / (4 * kappa - 1)))
    assert influence.steps(np.array([np.nan]), kappa)[0] == 0.0


@pytest.mark.parametrize("kappa", KAPPAS)
def test_exponential_of_the_influence_lies_below_the_parabola(kappa: float) -> None:
    x = np.linspace(-4, 4, 80_001) / kappa
    assert (np.exp(specification.influence(x, kappa)) <= (1 + x + kappa * x * x) * (1 + 1e-14)).all()


def test_what_the_series_leaves_out_is_less_than_said() -> None:
    third = Fraction(1, 3)
    rest = sum(2 * third ** (2 * k + 1) / (2 * k + 1) for k in range(10, 60))
    assert rest + Fraction(1, 2**34) + Fraction(1, 2**48) < Fraction(1, 2**32) - Fraction(1, 2**33)


def test_dense_sums_equal_the_reference_up_to_a_step_a_value() -> None:
    X = problem(gaps=True)
    for k in range(2):
        off = plain(X)[k] - specification.influence_sums(X, CENTRES[k], UNIT, 0.54)
        assert np.abs(off).max() <= X.shape[0] // 10  # few values lie so near to a half step


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", ">f8", "longdouble", "int16", "bool"])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_every_type_and_layout_gives_the_same_sums(
    kind: str, layout: str, n_jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(influence, "SMALL", 100)
    monkeypatch.setattr(influence, "EXACT_ROWS", 70)
    X = problem().astype(kind)
    views = {
        "C": X, "F": np.asfortranarray(X), "strided": np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    }  # fmt: skip
    found = influence.dense_sums(views[layout], SPEC, n_jobs=n_jobs)
    np.testing.assert_array_equal(found.sums, plain(X))
    rows = np.arange(0, 300, 7)
    found = influence.dense_sums(views[layout], SPEC, rows=rows, n_jobs=n_jobs)
    np.testing.assert_array_equal(found.sums, plain(X, rows=rows))


@pytest.mark.parametrize("order", ["C", "F", "sparse"])
def test_missing_values_are_left_out_and_others_refused(order: str) -> None:
    X = problem(gaps=True)
    if order == "sparse":
        block: Any = sparse.csc_array(X)
        found = influence.sparse_sums(block, GAPS)
    else:
        block = np.asarray(X, order=order)  # type: ignore[call-overload]
        found = influence.dense_sums(block, GAPS)
    np.testing.assert_array_equal(found.sums, plain(X))
    np.testing.assert_array_equal(found.missing, np.isnan(X).sum(axis=0))
    function = influence.sparse_sums if order == "sparse" else influence.dense_sums
    with pytest.raises(NotFiniteError):
        function(block, SPEC)
    X[5, 5] = -np.inf
    bad: Any = sparse.csc_array(X) if order == "sparse" else X
    with pytest.raises(NotFiniteError):
        function(bad, GAPS)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_every_engine_gives_the_same_sums(gaps: bool, some: bool) -> None:
    X, rows = problem(gaps=gaps), np.arange(300) % 3 > 0 if some else None
    da = pytest.importorskip("dask.array")
    expected = plain(X, rows=None if rows is None else np.flatnonzero(rows))
    for values in (X, sparse.csr_array(X), sparse.csc_array(X), da.from_array(X, chunks=(97, 11))):
        table, told = as_table(values), list[float]()
        found = engine_of(table.source, progress=told.append).influence_sums(
            table, SPEC._replace(missing=gaps), rows=rows
        )
        np.testing.assert_array_equal(found.sums, expected)
        np.testing.assert_array_equal(found.missing, np.isnan(X if rows is None else X[rows]).sum(axis=0))
        assert told == [] or told[-1] == 1.0


@needs_compiler
@pytest.mark.parametrize("gaps", [False, True])
def test_a_device_gives_the_same_sums(cupy: Any, gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparsemean._evidence.counting.engines import gpu

    monkeypatch.setattr(gpu, "CONVERTED_BYTES", 8 * 300 * 7)
    monkeypatch.setattr(influence, "EXACT_ROWS", 70)
    X, rows = problem(gaps=gaps), np.arange(300) % 3 > 0
    for table in (as_table(cupy.asarray(X)), sent(as_table(X), "gpu"), sent(as_table(sparse.csr_array(X)), "gpu")):
        found = engine_of(table.source).influence_sums(table, SPEC._replace(missing=gaps), rows=rows)
        np.testing.assert_array_equal(on_host(found.sums), plain(X, rows=np.flatnonzero(rows)))
        np.testing.assert_array_equal(on_host(found.missing), np.isnan(X[rows]).sum(axis=0))
    X[3, 3] = np.inf
    table = as_table(cupy.asarray(X))
    with pytest.raises(InputError, match="row 3"):
        engine_of(table.source).influence_sums(table, SPEC._replace(missing=gaps))


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_of_file_gives_the_same_sums(kind: str, tmp_path: Path) -> None:
    X = problem()
    table = open_file(written(kind, tmp_path, X))
    found = engine_of(table.source).influence_sums(table, SPEC, rows=np.arange(300) > 10)
    np.testing.assert_array_equal(found.sums, plain(X, rows=np.arange(11, 300)))


def test_a_value_that_is_not_finite_is_named_by_its_place() -> None:
    da = pytest.importorskip("dask.array")
    X = problem()
    X[250, 30] = np.nan
    for values in (X, sparse.csr_array(X), da.from_array(X, chunks=(97, 11))):
        table = as_table(values)
        with pytest.raises(InputError, match="column 30, row 250"):
            engine_of(table.source).influence_sums(table, SPEC)
