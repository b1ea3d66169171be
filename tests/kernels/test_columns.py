"""Some columns of a table where it lies: copies, bucket means and the skewness of groups as NumPy has them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import specification

from sparsemean._data.source import Dense
from sparsemean._kernels import compiling
from sparsemean._kernels.columns import gather, level_means
from sparsemean._stats import assumptions
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.Plainness, "ended", True)


def layouts(X: npt.NDArray[np.float64]) -> Iterator[npt.NDArray[np.generic]]:
    """Yield tables with the same or rounded values, lying in every way."""
    wide = np.zeros((2 * X.shape[0], X.shape[1] + 3))
    wide[::2, 2:-1] = X
    with np.errstate(over="ignore", invalid="ignore"):
        yield from (X, np.asfortranarray(X), X[::-1, ::-1], wide[::2, 2:-1], X.astype(np.float32))
        yield np.nan_to_num(X).clip(-9, 9).astype(np.int16)
    yield X.astype(">f8")


def hostile(n: int, d: int = 40) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(n)
    X = rng.standard_t(2, (n, d))
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = np.where(rng.random(n) < 0.5, -0.0, X[:, 2])
    X[:, 3] *= 1e300
    X[:, 4] *= 5e-322
    X[:, 5] = -0.0
    return X


COLUMNS = np.array([0, 1, 2, 3, 4, 5, 11, 12, 13, 39])


@pytest.mark.parametrize("n", [1, 2, 3, 33, 100])
def test_columns_are_taken_from_any_layout(n: int) -> None:
    for table in layouts(hostile(n)):
        expected = table[:, COLUMNS].astype(np.float64)
        np.testing.assert_array_equal(Dense(table).take(COLUMNS), expected)
        np.testing.assert_array_equal(Dense(table).take(COLUMNS[::-1]), expected[:, ::-1])
        rows = np.array([n - 1, 0, n // 2])
        if table.dtype.isnative:
            np.testing.assert_array_equal(gather(table, rows, COLUMNS), expected[rows])


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 64, 200, 1001])
def test_bucket_means_of_all_levels_have_the_bits_of_the_specification(n: int, missing: bool) -> None:
    rng = np.random.default_rng(n)
    X = hostile(n)
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    for partition in (
        assign_block_buckets(n, (1, 2, 4, 16), 0),
        assign_block_buckets(n, (2, 8), 1).of_rows(np.arange(n)[::-1]),
        assign_paper_buckets(n, max(1, n // 3), 0),
    ):
        for table in layouts(X):
            means = level_means(table, partition, COLUMNS, depth=partition.depth, missing=missing)
            assert len(means) == partition.depth
            for level, found in enumerate(means):
                omit = missing and table.dtype.kind == "f"
                expected = specification.bucket_means(table, partition, level=level, columns=COLUMNS, missing=omit)
                np.testing.assert_array_equal(found, expected)
                assert not np.signbit(found[:, (table[:, COLUMNS] == 0).all(axis=0)]).any()
                assert found.shape[0] == 1 or found.strides[0] == 8


@pytest.mark.parametrize("n", [1, 7, 8, 60, 255, 510, 2100])
def test_the_skewness_of_groups_is_that_of_numpy(n: int) -> None:
    X = hostile(n)
    X[:, 6], X[n // 2, 7] = np.where(X[:, 6] > 1, 1e308, -1e308), np.nan  # too far apart to be subtracted; a gap
    X[0, 8] = np.nan
    rng = np.random.default_rng(0)
    for rows in (assumptions.deal(n)[0], rng.permutation(n)[: max(1, 2 * n // 3)]):
        for size in (8, 16, 32):
            for table in (X, np.asfortranarray(X), X[:, ::-1], X[:, :1]):
                found = assumptions.sums(table, rows, size, n_jobs=2)
                expected = assumptions.sums_plainly(table, rows, size)
                np.testing.assert_allclose(found[[0, 1]], expected[[0, 1]], rtol=1e-11, atol=1e-11)
                told = ~np.isnan(expected[0])
                np.testing.assert_array_equal(found[2, told], expected[2, told])


def test_flags_are_those_of_the_rows_that_are_left() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack((rng.lognormal(sigma=0.4, size=(900, 30)), rng.standard_t(3, (900, 30)), np.zeros(900)))
    X[rng.random(X.shape) < np.linspace(-0.5, 0.5, X.shape[1])] = np.nan
    X[5, 0] = np.nan
    kept = np.flatnonzero(rng.random(900) < 0.8)
    flags = assumptions.skew_flags(X, kept)
    np.testing.assert_array_equal(flags, assumptions.skew_flags(X[kept]))
    for column, flag in enumerate(flags):
        assert assumptions.skew_flags(X[kept, column][~np.isnan(X[kept, column]), np.newaxis])[0] == flag
    assert set(flags) == {-1, 0, 1}
