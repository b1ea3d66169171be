"""The fast kernels against the specification."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import specification

from sparsemean import _kernels
from sparsemean._kernels import centres, columns, cpu, loops, reference
from sparsemean._kernels.memory_layout import count_threads
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets
from sparsemean._util.records import Counts, Partition
from sparsemean.errors import InputError

from problems import LAYOUTS, draw, laid_out


def assert_same_counts(fast: Counts, slow: Counts) -> None:
    np.testing.assert_array_equal(fast.positive, slow.positive)
    np.testing.assert_array_equal(fast.negative, slow.negative)
    np.testing.assert_allclose(fast.nearest, slow.nearest, rtol=1e-14)


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_counts_and_means_equal_the_reference(first: int) -> None:
    for seed in range(first, first + 50):
        problem = draw(seed)
        n = problem.X.shape[0]
        for partition in (
            assign_paper_buckets(n, problem.n_buckets, seed),
            assign_block_buckets(n, problem.sizes, seed),
        ):
            assert_same_counts(cpu.count_signs(problem.X, partition), reference.count_signs(problem.X, partition))
            level = partition.wanted[-1]
            np.testing.assert_array_equal(
                columns.bucket_means(problem.X, partition, level=level),
                specification.bucket_means(problem.X, partition, level=level),
            )


@pytest.mark.parametrize("seed", range(40))
def test_walk_equals_the_plain_iteration_bit_for_bit(seed: int) -> None:
    problem = draw(seed)
    means = specification.bucket_means(problem.X, assign_paper_buckets(problem.X.shape[0], problem.n_buckets, seed))
    times = (0, 1, 2, 57, 200, 600)
    np.testing.assert_array_equal(
        loops.subgm(means, alpha=1e-5, eta=0.05, times=times),
        specification.subgm(means, alpha=1e-5, eta=0.05, times=times),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_and_stripes_add_up(layout: str, dtype: str, n_jobs: int) -> None:
    rng = np.random.default_rng(5)
    for n, d in ((5000, 60), (300, 1700)):
        X = laid_out((rng.standard_normal((n, d)) * 3).astype(dtype), layout)
        for partition in (
            assign_paper_buckets(n, n // 3, 1),
            assign_block_buckets(n, (1, 2, 4), 1),
            assign_block_buckets(n, (2, 16), 1),
        ):
            assert_same_counts(cpu.count_signs(X, partition, n_jobs=n_jobs), reference.count_signs(X, partition))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeros_of_both_signs_and_numbers_at_the_ends_of_the_range(dtype: str) -> None:
    rng = np.random.default_rng(2)
    ends = np.finfo(dtype)
    least = 64 * float(ends.smallest_subnormal)  # the reference takes signs of means: a quarter of it is not zero yet
    numbers = [0.0, -0.0, least, -least, ends.tiny, 1e-30, -1e-30, 1.0, -1.0, 1e30]
    for n in (*range(4, 21), 63, 64, 65, 71, 129):
        X = rng.choice(np.array([*numbers, ends.max / 256], dtype=dtype), size=(n, 37))
        partition = assign_block_buckets(n, (1, 2, 4), n)
        for view in (X, X[:, ::-1]):
            assert_same_counts(cpu.count_signs(view, partition), reference.count_signs(view, partition))


def test_counters_hold_more_rows_than_their_fields() -> None:
    n = (1 << 21) + 100
    X = np.full((n, 2), -1.0, dtype=np.float32)
    X[::7, 1] = 2.0
    counts = cpu.count_signs(X, assign_block_buckets(n, (1, 2, 4), 0), n_jobs=1)
    singles = -(-n // 7)
    np.testing.assert_array_equal(counts.negative[:, 0], counts.n_buckets)
    np.testing.assert_array_equal([counts.positive[0, 1], counts.negative[0, 1]], [singles, n - singles])


@pytest.fixture
def wide() -> tuple[np.ndarray, Partition]:
    X = np.random.default_rng(0).standard_normal((200, 3000))
    return X, assign_paper_buckets(200, 66, 0)


def test_float32_sums_are_taken_in_float64() -> None:
    # in float32 the sum of a bucket would be 0 or have the wrong sign
    rows = np.array([[1.0], [2.0**-30], [-1.0], [2.0**-31]], dtype=np.float32)
    partition = assign_block_buckets(64, (4,), 3)
    X = np.zeros((64, 1), dtype=np.float32)
    X[partition.order] = np.tile(rows, (16, 1))
    assert cpu.count_signs(X, partition).positive[0, 0] == 16


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_value_that_is_not_finite_is_noticed(value: float, dtype: str, order: str) -> None:
    rng = np.random.default_rng(1)
    for partition in (
        assign_paper_buckets(130, 40, 0),
        assign_block_buckets(130, (1, 2, 4), 0),
        assign_block_buckets(130, (1, 8), 0),
    ):
        for row in (0, 70, 129):
            X = np.asarray(rng.standard_normal((130, 7)), dtype=dtype, order=order)  # type: ignore[call-overload]
            X[row, 3] = value
            with pytest.raises(_kernels.NotFiniteError):
                cpu.count_signs(X, partition)


def test_several_threads_at_once(wide: tuple[np.ndarray, Partition]) -> None:
    X, partition = wide
    expected = reference.count_signs(X, partition)
    with ThreadPoolExecutor(8) as pool:
        for counts in pool.map(lambda _: cpu.count_signs(X, partition, n_jobs=2), range(32)):
            assert_same_counts(counts, expected)


def _count_in_child(X: np.ndarray, partition: Partition) -> int:
    return int(cpu.count_signs(X, partition, n_jobs=2).positive.sum())


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_after_fork(wide: tuple[np.ndarray, Partition]) -> None:
    X, partition = wide
    expected = _count_in_child(X, partition)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.starmap(_count_in_child, [(X, partition)] * 4) == [expected] * 4


def test_memory_map_is_read_where_it_lies(tmp_path: Path, wide: tuple[np.ndarray, Partition]) -> None:
    X, partition = wide
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert_same_counts(cpu.count_signs(mapped, partition), reference.count_signs(X, partition))


def test_progress_rises_to_one(wide: tuple[np.ndarray, Partition]) -> None:
    X, partition = wide
    for data in (X, X.astype(np.float16)):
        seen: list[float] = []
        cpu.count_signs(data, partition, n_jobs=2, progress=seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == 1.0


@pytest.mark.parametrize("bad", [0, -1000, 1.5, "two", True])
def test_bad_n_jobs(bad: object) -> None:
    with pytest.raises(InputError, match="n_jobs must be"):
        count_threads(bad)


@pytest.mark.parametrize("seed", range(30))
def test_ordered_differences_equal_the_sorted_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 30, size=2)
    scale = 10.0 ** rng.integers(-300, 300)
    a, b = (np.sort(np.round(rng.standard_cauchy(size), rng.integers(0, 9)) * scale) for size in (n, m))
    one, unknown = np.array([[n], [m]]), (np.nan, np.nan)
    for k in {1, n * m, *rng.integers(1, n * m + 1, size=8)}:
        assert centres.order_statistic(a, b, one, k, *unknown)[0] == specification.ordered_difference(a, b, k)
    assert centres.order_statistic(a, -a[::-1], np.array([[n], [n]]), 1, *unknown)[0] == 2 * a[0]
    expected = specification.median_difference(a, b)
    assert centres.pair_median(a, b, one, *unknown) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_differences_within_strata_equal_the_sorted_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    strata = [[np.sort(np.round(rng.standard_cauchy(rng.integers(1, 9)), 1)) for _ in range(2)] for _ in range(3)]
    every = np.sort(np.concatenate([np.subtract.outer(a, b).ravel() for a, b in strata]))
    a, b = map(np.concatenate, zip(*strata, strict=True))
    ends = np.cumsum([[x.size for x in group] for group in zip(*strata, strict=True)], axis=1)
    for k in range(1, every.size + 1):
        value, through, above = centres.order_statistic(a, b, ends, k, np.nan, np.nan)
        assert (value, through) == (every[k - 1], np.count_nonzero(every <= value))
        assert above == np.inf if through == every.size else above == every[through]
    assert centres.pair_median(a, b, ends, np.nan, np.nan) == pytest.approx(np.median(every), rel=1e-15)


def test_walks_over_many_equal_values() -> None:
    """They are passed at once: one by one, walks of columns full of zeros took half a minute."""
    rng = np.random.default_rng(0)
    means = np.where(rng.random((2000, 6)) < [0.0, 0.5, 0.9, 0.99, 0.5, 1.0], 0.0, rng.normal(size=(2000, 6)).round(1))
    means[:, 4] += 0.5
    settings = {"alpha": 1e-5, "eta": 0.05, "times": (1, 50, 400)}
    expected = specification.subgm(means, **settings)
    np.testing.assert_allclose(loops.subgm(means, **settings), expected, rtol=1e-12, atol=1e-18)
