"""Kernels on data with gaps against the specification."""

from __future__ import annotations

import numpy as np
import pytest
import specification

from sparsemean import _kernels
from sparsemean._kernels import cpu, reference
from sparsemean._kernels.columns import level_means
from sparsemean._kernels.loops import subgm
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets
from sparsemean._util.records import Counts, Partition

from problems import LAYOUTS, draw, laid_out

FLOATS = ("float64", "float32", "float16", ">f8")


def with_gaps(X: np.ndarray, seed: int) -> np.ndarray:
    """The same values with gaps: scattered ones, columns without any, rows without any, negative zeros."""
    rng = np.random.default_rng(seed)
    X = np.array(X, dtype=X.dtype if X.dtype.kind == "f" else "float64")
    X[rng.random(X.shape) < rng.choice([0.0, 0.01, 0.2, 0.9])] = np.nan
    X[rng.random(X.shape) < 0.05] = -0.0
    X[:, rng.random(X.shape[1]) < 0.1] = np.nan
    X[rng.random(X.shape[0]) < 0.1] = np.nan
    return X


def partitions(n: int, n_buckets: int, sizes: tuple[int, ...], seed: int) -> list[Partition]:
    units = np.random.default_rng(seed).integers(0, max(1, n // 3), n)
    units = np.unique(units, return_inverse=True)[1]
    return [
        assign_paper_buckets(n, n_buckets, seed),
        assign_block_buckets(n, sizes, seed),
        assign_block_buckets(n, (1, 2, 4), seed),
        assign_block_buckets(n, (1, 2, 4), seed, units=units),
    ]


def assert_identical(fast: Counts, slow: Counts) -> None:
    for name in ("positive", "negative", "present", "missing"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)
    np.testing.assert_allclose(fast.nearest, slow.nearest, rtol=1e-14)


def test_the_specification_by_hand() -> None:
    nan = np.nan
    X = np.array([[1.0, nan, nan], [nan, -2.0, nan], [-4.0, -1.0, nan], [nan, 3.0, nan]])
    partition = assign_block_buckets(4, (1, 2, 4), 0)
    pairs = X[partition.order].reshape(2, 2, 3)
    expected = [[np.mean(x[~np.isnan(x)]) if (~np.isnan(x)).any() else nan for x in pair.T] for pair in pairs]
    np.testing.assert_array_equal(specification.bucket_means(X, partition, level=1, missing=True), expected)
    counts = reference.count_signs(X, partition, missing=True)
    np.testing.assert_array_equal(counts.missing, [2, 1, 4])
    np.testing.assert_array_equal(counts.present[[0, 2]], [[2, 3, 0], [1, 1, 0]])
    np.testing.assert_array_equal(counts.positive[[0, 2]], [[1, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(counts.negative[[0, 2]], [[1, 2, 0], [1, 0, 0]])
    np.testing.assert_array_equal(counts.nearest, [1.5, np.inf, np.inf])
    np.testing.assert_array_equal(counts.positive[0] - counts.negative[0], [0, -1, 0])


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_counts_and_means_equal_the_reference_bit_for_bit(first: int) -> None:
    for seed in range(first, first + 50):
        problem = draw(seed)
        X = laid_out(with_gaps(problem.X, seed), LAYOUTS[seed % len(LAYOUTS)])
        for partition in partitions(X.shape[0], problem.n_buckets, problem.sizes, seed):
            assert_identical(
                cpu.count_signs(X, partition, missing=True), reference.count_signs(X, partition, missing=True)
            )
            level, columns = partition.wanted[-1], np.arange(X.shape[1])
            np.testing.assert_array_equal(
                level_means(X, partition, columns, depth=level + 1, missing=True)[level],
                specification.bucket_means(X, partition, level=level, missing=True),
            )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_threads_stripes_and_blocks_add_up(layout: str, dtype: str) -> None:
    """Gaps in some column blocks and some rows only: most of the pass is the plain one."""
    rng = np.random.default_rng(5)
    for n, d in ((5000, 60), (300, 1700)):
        X = rng.standard_normal((n, d)).astype(dtype)
        X[n // 2 :, : d // 3][rng.random((n - n // 2, d // 3)) < 0.3] = np.nan
        X = laid_out(X, layout)
        for partition in (
            assign_paper_buckets(n, n // 3, 1),
            assign_block_buckets(n, (1, 2, 4), 1),
            assign_block_buckets(n, (2, 16), 1),
        ):
            slow = reference.count_signs(X, partition, missing=True)
            assert_identical(cpu.count_signs(X, partition, missing=True, n_jobs=3), slow)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_complete_data_are_counted_as_ever(seed: int) -> None:
    problem = draw(seed)
    n = problem.X.shape[0]
    for partition in (assign_paper_buckets(n, problem.n_buckets, seed), assign_block_buckets(n, problem.sizes, seed)):
        plain, omitting = (cpu.count_signs(problem.X, partition, missing=missing) for missing in (False, True))
        assert_identical(omitting, plain)
        assert omitting.present is None


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("order", ["C", "F"])
def test_infinity_is_no_gap(value: float, order: str) -> None:
    rng = np.random.default_rng(1)
    for partition in (
        assign_paper_buckets(130, 40, 0),
        assign_block_buckets(130, (1, 2, 4), 0),
        assign_block_buckets(130, (1, 8), 0),
    ):
        for row in (0, 70, 129):
            X = np.asarray(rng.standard_normal((130, 7)), order=order)  # type: ignore[call-overload]
            X[rng.random(X.shape) < 0.2] = np.nan
            X[row, 3] = value
            with pytest.raises(_kernels.NotFiniteError):
                cpu.count_signs(X, partition, missing=True)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_gap_is_refused_about_null_values_too(order: str) -> None:
    X = np.asarray(np.random.default_rng(1).standard_normal((300, 7)), order=order)  # type: ignore[call-overload]
    X[200, 3] = np.nan
    for partition in (assign_paper_buckets(300, 40, 0), assign_block_buckets(300, (1, 2, 4), 0)):
        with pytest.raises(_kernels.NotFiniteError):
            cpu.count_signs(X, partition, null=np.ones(7))


def test_a_shift_moves_what_is_there() -> None:
    X = with_gaps(np.random.default_rng(0).standard_normal((200, 9)), 1)
    shift, partition = np.arange(9) / 4, assign_block_buckets(200, (1, 2, 4), 3)
    expected = reference.count_signs(X, partition, null=shift, missing=True)
    assert_identical(cpu.count_signs(X, partition, null=shift, missing=True), expected)


@pytest.mark.parametrize("seed", range(20))
def test_walks_leave_out_empty_buckets_bit_for_bit(seed: int) -> None:
    problem = draw(seed)
    X = with_gaps(problem.X, seed)
    partition = assign_paper_buckets(X.shape[0], problem.n_buckets, seed)
    means = specification.bucket_means(X, partition, missing=True)
    times = (0, 1, 57, 200, 600)
    walked = subgm(means, alpha=1e-5, eta=0.05, times=times)
    np.testing.assert_array_equal(walked, specification.subgm(means, alpha=1e-5, eta=0.05, times=times))
    for column, path in zip(means.T, walked.T, strict=True):
        there = column[~np.isnan(column), np.newaxis]
        alone = subgm(there, alpha=1e-5, eta=0.05, times=times)[:, 0] if there.size else np.zeros(len(times))
        np.testing.assert_array_equal(path, alone)
