"""Kernels for sparse matrices against the specification, which sees them filled in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse as scipy_sparse

from sparsemean import _kernels
from sparsemean._kernels import cpu, reference, sparse
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets, block_spans, stretch
from sparsemean._util.records import Counts, Partition

TYPES = ("float64", "float32", "int64", "int32", "int8", "uint8", "bool", "longdouble")


def drawn(seed: int) -> np.ndarray:
    """A matrix of any type and density, with ties, sums that cancel, and columns and rows that are empty or full."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 300)), int(rng.integers(1, 30))
    X = rng.standard_normal((n, d)) * 3
    if rng.random() < 0.6:
        X = np.round(X)
    X *= rng.random((n, d)) < rng.choice([0.0, 0.02, 0.2, 0.7, 1.0])
    X[:, rng.random(d) < 0.2] = 0
    X[rng.random(n) < 0.2] = 0
    X[:, rng.random(d) < 0.1] = rng.standard_normal((n, 1))
    return X.astype(TYPES[seed % len(TYPES)])


def dealt(seed: int, n: int) -> list[Partition]:
    """Partitions of every kind: the paper's, blocks, subjects, some of the rows."""
    rng = np.random.default_rng((seed, 1))
    sizes = tuple(sorted({int(2**h) for h in rng.integers(0, 7, 3)}))
    units = np.unique(rng.integers(0, n // 3 + 1, n), return_inverse=True)[1]
    some = np.flatnonzero(rng.random(n) < 0.7) if n > 20 else np.arange(n)
    return [
        assign_paper_buckets(n, int(rng.integers(1, n + 1)), seed),
        assign_block_buckets(n, sizes, seed),
        assign_block_buckets(n, sizes, seed, units=units),
        assign_block_buckets(some.size, sizes, seed).of_rows(some),
        assign_paper_buckets(some.size, int(rng.integers(1, some.size + 1)), seed).of_rows(some),
    ]


def assert_same(fast: Counts, slow: Counts) -> None:
    np.testing.assert_array_equal(fast.positive, slow.positive)
    np.testing.assert_array_equal(fast.negative, slow.negative)
    np.testing.assert_array_equal(fast.nearest, slow.nearest)
    assert fast.n_buckets == slow.n_buckets


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_counts_are_those_of_the_reference_bit_for_bit(first: int) -> None:
    for seed in range(first, first + 20):
        X = drawn(seed)
        for partition in dealt(seed, X.shape[0]):
            found = sparse.count_signs(scipy_sparse.csc_array(X), partition)
            assert_same(found, reference.count_signs(X.astype(np.float64), partition))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_agree(n_jobs: int) -> None:
    rng = np.random.default_rng(3)
    X = scipy_sparse.csc_array(scipy_sparse.random(3000, 900, density=0.1, rng=rng, data_rvs=rng.standard_normal))
    assert X.nnz > cpu.SMALL
    partition = assign_block_buckets(3000, (1, 4, 16), 3)
    assert_same(sparse.count_signs(X, partition, n_jobs=n_jobs), cpu.count_signs(X.toarray(), partition, n_jobs=1))


def test_stretches_add_up() -> None:
    X = drawn(7 * len(TYPES))
    X = np.tile(X, (3, 1))
    partition = assign_block_buckets(X.shape[0], (1, 2, 8), 5)
    lows, highs = block_spans(partition)
    for block in range(0, lows.size, 2):
        last = min(block + 2, lows.size)
        rows, part = slice(lows[block], highs[last - 1]), stretch(partition, block, last)
        found = sparse.count_signs(scipy_sparse.csc_array(X[rows]), part)
        assert_same(found, reference.count_signs(X[rows], part))


def awkward(index_type: str = "int32") -> tuple[scipy_sparse.csc_array, np.ndarray]:
    """Entries out of order, several in one place, stored zeros of both signs, and the matrix they make."""
    rng = np.random.default_rng(9)
    n, d, stored = 90, 7, 2000
    rows, columns = rng.integers(0, n, stored), np.sort(rng.integers(0, d, stored))
    data = rng.choice([0.0, -0.0, 1.0, -1.0, 0.1, 0.2, -0.3, 1e16], stored)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(columns, minlength=d))))
    X = scipy_sparse.csc_array((data, rows.astype(index_type), indptr.astype(index_type)), shape=(n, d))
    filled = np.zeros((n, d))
    for row, column, value in zip(rows, columns, data, strict=True):
        filled[row, column] += value
    return X, filled


@pytest.mark.parametrize("index_type", ["int32", "int64"])
def test_entries_out_of_order_or_twice_add_up_and_stay_as_they_were(index_type: str) -> None:
    X, filled = awkward(index_type)
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    for partition in dealt(3, 90):
        assert_same(sparse.count_signs(X, partition), reference.count_signs(filled, partition))
    for old, new in zip(before, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(old, new)


def test_stored_zeros_are_zeros() -> None:
    data = np.array([0.0, -0.0, 3.0, -3.0])
    X = scipy_sparse.csc_array((data, np.array([0, 1, 2, 3]), np.array([0, 4])), shape=(8, 1))
    for partition in (assign_block_buckets(8, (1, 2, 8), 0), assign_paper_buckets(8, 1, 0)):
        assert_same(sparse.count_signs(X, partition), reference.count_signs(X.toarray(), partition))
    assert sparse.count_signs(X, assign_paper_buckets(8, 1, 0)).nearest[0] == np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_value_that_is_not_finite_is_noticed(value: float, dtype: str) -> None:
    X = scipy_sparse.csc_array(scipy_sparse.random(130, 7, density=0.2, rng=1, dtype=dtype))
    X.data[X.indptr[3]] = value
    row = X.indices[X.indptr[3]]
    for partition in (
        assign_paper_buckets(130, 40, 0),
        assign_block_buckets(130, (1, 2, 4), 0),
        assign_block_buckets(130, (1, 64), 0),
    ):
        with pytest.raises(_kernels.NotFiniteError):
            sparse.count_signs(X, partition)
    others = assign_block_buckets(129, (1, 2), 0).of_rows(np.setdiff1d(np.arange(130), row))
    assert np.isfinite(sparse.count_signs(X, others).nearest).any()


def test_sums_that_overflow_are_noticed() -> None:
    X = scipy_sparse.csc_array(np.full((8, 1), 1e308))
    with pytest.raises(_kernels.NotFiniteError):
        sparse.count_signs(X, assign_block_buckets(8, (1, 2, 4), 0))
