"""Arithmetic has a last bit, and no decision may hang on it: null values that are no binary numbers, groups computed
in two ways. On every engine, in both precisions, with gaps, and against the same lattice in whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import sparsemean as sm
from sparsemean._kernels import rounding
from sparsemean._stats.effects import PAIRS

from emulated import needs_compiler

N, D = 3000, 8
K = np.random.default_rng(7).integers(-1, 2, (N, D))
K[:, 0] += np.random.default_rng(8).random(N) < 0.2  # a true one
WHOLE: dict[str, Any] = {"random_state": 0, "screen_rows": False, "refine": None}


def same_decisions(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.p_values, expected.p_values, rtol=1e-12)
    np.testing.assert_array_equal(found.radius, expected.radius)
    np.testing.assert_array_equal(found.max_contamination, expected.max_contamination)


def lattice(kind: str, null: float = 0.3, step: float = 0.1) -> np.ndarray:
    return np.round(null + step * K, 10).astype(kind)


OPTIONS: dict[str, dict[str, Any]] = {
    "ranks": {"test": "ranks"},
    "buckets": {"test": "buckets"},
    "large buckets": {"test": "buckets", "bucket_sizes": (1, 8, 64)},
    "greater": {"test": "buckets", "alternative": "greater"},
    "subjects": {"test": "buckets", "groups": np.arange(N) // 3},
    "subjects by ranks": {"test": "ranks", "groups": np.arange(N) // 3},
    "the paper's": {"selection": "paper", "n_buckets": 100},
}


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_lattice_about_its_null_value_is_one_about_zero(options: str, kind: str) -> None:
    expected = sm.sparse_mean(K.astype(float), **OPTIONS[options], **WHOLE)
    assert 0 in expected.support
    for null, step in ((0.3, 0.1), (-2.9, 0.05), (1e6 + 0.3, 0.1) if kind == "float64" else (100.1, 0.1)):
        X = lattice(kind, null, step)
        for values in (X, np.asfortranarray(X)):
            found = sm.sparse_mean(values, null=null, **OPTIONS[options], **WHOLE)
            same_decisions(found, expected)
            np.testing.assert_array_equal(found.measure, expected.measure)  # a share of pairs has no unit
            moved = np.where(expected.measure == PAIRS, expected.mean, null + step * expected.mean)
            np.testing.assert_allclose(found.mean, moved, atol=1e-6 * max(1.0, abs(null)))


@pytest.mark.parametrize("test", ["ranks", "buckets"])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_every_way_to_the_counts_rounds_alike(kind: str, test: str) -> None:
    import dask.array
    import pandas as pd

    X, options = lattice(kind), {"test": test, "null": 0.3, **WHOLE}
    expected = sm.sparse_mean(K.astype(float), test=test, **WHOLE)
    for form in (
        sparse.csr_array,
        sparse.csc_array,
        pd.DataFrame,
        lambda x: dask.array.from_array(x, chunks=(700, 3)),
    ):
        same_decisions(sm.sparse_mean(form(X), **options), expected)
    pieces = [sm.sketch(X[a : a + 700], first_row=a, null=0.3) for a in range(0, N, 700)]
    if test == "buckets":
        same_decisions(sm.merge(pieces).estimate(contamination=0), sm.sketch(K.astype(float)).estimate(contamination=0))
    gaps = np.random.default_rng(9).random(X.shape) < 0.1
    found = sm.sparse_mean(np.where(gaps, np.nan, X).astype(kind), missing="omit", **options)
    same_decisions(found, sm.sparse_mean(np.where(gaps, np.nan, K), missing="omit", test=test, **WHOLE))


def test_single_precision_in_frames_is_that() -> None:
    """Of a frame, one column of it beside doubles, and of types that may lack values; also from files."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X, y = lattice("float32")[:, :2], np.arange(N) % 2
    expected = sm.sparse_mean(K[:, :2].astype(float), test="ranks", **WHOLE)
    twice = np.where(y[:, np.newaxis] == 0, K[:, 1:2].astype("f4") * np.float32(0.1), lattice("float32", 0.0)[:, 1:2])
    same = sm.certify(np.round(0.1 * K[:, 1:2], 1), y=y).p_values
    frame = pd.DataFrame(X, columns=["a", "b"])
    mixed = frame.assign(b=lattice("float64")[:, 1])
    for table in (
        frame.astype("Float32"), frame.astype("float32[pyarrow]"), mixed, mixed.astype({"a": "Float32"}),
        pl.DataFrame(mixed), pa.table(mixed),
    ):  # fmt: skip
        same_decisions(sm.sparse_mean(table, null=0.3, test="ranks", **WHOLE), expected)
    other = np.random.default_rng(1).standard_normal(N)
    for table in (pd.DataFrame(twice).astype("Float32"), pd.DataFrame(twice).assign(z=other)):
        assert sm.certify(table, y=y).p_values[0] == pytest.approx(same[0], rel=1e-12)


@needs_compiler
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_a_device_rounds_alike(cupy: Any, kind: str) -> None:
    X, k = lattice(kind)[:640], K[:640].astype(float)
    expected = sm.sparse_mean(k, test="buckets", **WHOLE)
    found = sm.sparse_mean(cupy.asarray(X), null=0.3, test="buckets", **WHOLE)
    same_decisions(found, expected)
    np.testing.assert_array_equal(found.intervals, sm.sparse_mean(X, null=0.3, test="buckets", **WHOLE).intervals)
    y = np.arange(640) % 2
    values = two_ways(k, y, kind)
    np.testing.assert_array_equal(
        sm.certify(cupy.asarray(values), y=y).p_values, sm.certify(np.round(0.1 * k, 1), y=y).p_values
    )


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_a_smallest_effect_on_the_lattice_is_a_tie(alternative: str, kind: str) -> None:
    options = {"alternative": alternative, **WHOLE}
    for test in ("ranks", "buckets"):
        expected = sm.sparse_mean(K + 3.0, min_effect=3, test=test, **options)
        same_decisions(sm.sparse_mean(lattice(kind), min_effect=0.3, test=test, **options), expected)
    expected = sm.sparse_mean(K + 3.0, null=-100, min_effect=103, test="ranks", **options)
    found = sm.sparse_mean(lattice(kind), null=-10.0, min_effect=10.3, test="ranks", **options)
    same_decisions(found, expected)


def test_zero_among_null_values_is_none() -> None:
    X = np.random.default_rng(1).standard_normal((500, 3))
    alone = sm.sparse_mean(X[:, 1:2], **WHOLE)
    beside = sm.sparse_mean(X, null=[0.3, 0.0, 0.1], **WHOLE)
    assert beside.p_values[1] == alone.p_values[0]


def test_a_null_value_beyond_the_digits_of_its_values_is_told_of() -> None:
    rng = np.random.default_rng(2)
    X = 1e5 + 0.3 + 0.3 * rng.standard_normal((500, 2))
    X[:, 0] += 0.3
    note = (
        "1 feature may be selected by rounding alone: 0. Its null value is large compared with its spread: "
        "store differences from it, or use double precision"
    )
    found = sm.sparse_mean(X.astype(np.float32), null=1e5 + 0.3, random_state=0)
    assert found.support.tolist() == [0]
    assert found.status.messages.count(note) == 1
    assert not any("rounding" in message for message in sm.sparse_mean(X, null=1e5 + 0.3).status.messages)


@pytest.mark.parametrize(("null", "step", "kind"), [(1000.3, 0.001, "f4"), (10.3, 1e-5, "f4"), (1e6 + 0.3, 2e-9, "f8")])
def test_rows_between_two_sizes_make_them_no_less_two(null: float, step: float, kind: str) -> None:
    """A feature stays selected whatever is done to fewer rows than its radius, though sizes lie close to each other."""
    rng, n = np.random.default_rng(25000), 2000
    k = np.where(rng.random(n) < 0.5, rng.integers(5, 9, n), -rng.integers(1, 5, n))
    X = np.round(null + step * k, 10).astype(kind)[:, np.newaxis]
    before = sm.certify(X, null=null, contamination=0)
    for rows in range(1, int(before.radius[0])) if before.support.size else ():
        if rows < 20 or rows == before.radius[0] - 1:
            Y = X.copy()
            Y[:rows, 0] = null + (np.arange(rows) % 9 + 0.5) * step
            assert sm.certify(Y, null=null, contamination=0).support.size == 1


@pytest.mark.parametrize("denominator", [3, 7, 9, 11, 13, 27, 30, 90])
def test_fractions_lie_equally_far_on_both_sides(denominator: int) -> None:
    """Whatever the null value: sizes are rounded where no such fraction is halfway between two numbers."""
    rng = np.random.default_rng(denominator)
    k = rng.integers(-20, 21, 400)
    for null in rng.integers(1, 400, 20) / denominator:
        values = (np.round(null * denominator) + np.concatenate((k, -k))) / denominator
        sizes = np.abs(rounding.ranked(values - null, np.array(null), 2.0**-52))
        np.testing.assert_array_equal(sizes[:400], sizes[400:])


# Groups.


def two_ways(k: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """Tenths that one group has as products, the other as quotients."""
    k = k.astype(kind)
    return np.where(y[:, np.newaxis] == 0, k * np.array(0.1, kind), (3 * k / 10).astype(kind) / np.array(3, kind))


def compared(X: Any, y: np.ndarray, min_effect: float = 0.0, **design: Any) -> Any:
    return sm.SparseMeanDifference(contamination=0.02, min_effect=min_effect).fit(X, y, **design).result_


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, "dask"])
def test_groups_computed_in_two_ways_are_those_written_down(form: Any, kind: str) -> None:
    rng = np.random.default_rng(3)
    k, y = rng.integers(-5, 10, (600, 12)), np.arange(600) % 2
    k[y == 1, 0] += 3
    written, values = np.round(0.1 * k, 1), two_ways(k, y, kind)
    assert (values.astype(float) != written).mean() > 0.2
    if form == "dask":
        import dask.array

        form = lambda x: dask.array.from_array(x, chunks=(600, 5))  # noqa: E731
    designs: list[dict[str, Any]] = [
        {}, {"strata": np.arange(600) // 2 % 3}, {"pairs": np.arange(600) // 2}, {"min_effect": 0.3},
        {"pairs": np.arange(600) // 2, "min_effect": 0.3}, {"groups": np.arange(600) // 2 // 3 * 2 + y},
    ]  # fmt: skip
    for options in designs:
        same_decisions(compared(form(values), y, **options), compared(written, y, **options))
    found, expected = compared(form(values), y), compared(k, y)
    assert found.support.tolist() == [0]
    np.testing.assert_allclose(found.intervals, 0.1 * expected.intervals, rtol=1e-12)
    np.testing.assert_array_equal(found.p_values, expected.p_values)


def test_one_row_between_two_values_makes_them_no_less_two() -> None:
    x = np.repeat([1.0, 1.0 + 1e-12], 200)
    y = np.repeat([0, 1], 200)
    bridged = x.copy()
    bridged[0] = 1.0 + 5e-13
    apart, other = (sm.certify(np.stack((values, values), axis=1), y=y).p_values[0] for values in (x, bridged))
    assert apart < 1e-50
    assert other < 1e-50


# The map of single values.

GRIDS = {"float64": rounding.DOUBLE, "float32": rounding.SINGLE}


def neighbours(kind: str) -> np.ndarray:
    """Numbers of all sizes, and a few dozen on either side of every power of ten and of two."""
    info, rng = np.finfo(kind), np.random.default_rng(4)
    size = np.concatenate((10.0 ** np.arange(-323, 309), 2.0 ** np.arange(-1074, 1024), rng.random(2000)))
    with np.errstate(over="ignore", under="ignore"):
        middle = size[size < float(info.max)].astype(kind)
        bits = middle.view("i8" if kind == "float64" else "i4")[:, np.newaxis] + np.arange(-30, 31)
    around = bits[bits >= 0].astype(bits.dtype).view(kind)
    anywhere = rng.integers(0, bits.max(), 50_000).astype(bits.dtype).view(kind)
    found = np.unique(np.concatenate((around, anywhere)))
    return found[np.isfinite(found)]


@pytest.mark.parametrize("kind", GRIDS)
def test_the_map_rises_is_odd_and_changes_nothing_twice(kind: str) -> None:
    x, grid = neighbours(kind), GRIDS[kind]
    y = rounding._rounded(x.astype(float), x.astype(float), grid)
    assert (np.diff(y) >= 0).all()
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(rounding.snapped(-x, grid), -y)
    np.testing.assert_array_equal(rounding.snapped(y.astype(kind), grid), y)
    np.testing.assert_array_equal(np.diff(y.astype(kind)) == 0, np.diff(y) == 0)  # in their own type no more are one
    kernel = rounding.snap if kind == "float64" else rounding.snap_single
    np.testing.assert_array_equal([kernel(value) for value in x[::37]], y[::37])
    many = np.resize(x, 300_000)
    np.testing.assert_array_equal(rounding.snapped(many, grid), np.resize(y, 300_000))
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e-310])
    np.testing.assert_array_equal(rounding.snapped(odd, grid).view("i8"), odd.view("i8"))


def test_short_decimals_are_what_all_ways_of_computing_them_are_rounded_to() -> None:
    rng = np.random.default_rng(5)
    k, places = rng.integers(1, 10**6, 5000), rng.integers(0, 7, 5000)
    written = np.array([float(f"{a}e-{b}") for a, b in zip(k, places, strict=True)])
    for off in range(-4, 5):
        near = (written.view("i8") + 5 * off).view("f8")
        np.testing.assert_array_equal(rounding.snapped(near, rounding.DOUBLE), written)
        single = (written.astype("f4").view("i4") + off).astype("i4").view("f4")
        np.testing.assert_array_equal(rounding.snapped(single, rounding.SINGLE), written)


def test_whole_numbers_stay_as_they_are() -> None:
    large = 2**60 + np.arange(0, 1024 * 300, 1024).reshape(-1, 1)
    y = np.repeat([0, 1], 150)
    assert sm.certify(large, y=y).p_values[0] == sm.certify(np.arange(300.0)[:, np.newaxis], y=y).p_values[0]
    counts = np.arange(10**6 - 50, 10**6 + 50, dtype="f4")
    np.testing.assert_array_equal(rounding.snapped(counts, rounding.SINGLE), counts)
