"""Short ways of small fits: they find what the long ones do."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean._data.source import runs
from sparsemean._evidence.signed_ranks import DOWN, UP, SignedRankEvidence, larger_side, rank_sums
from sparsemean._kernels.memory_layout import strided
from sparsemean._stats.arrays import middle
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.descent import top_eigenpairs
from sparsemean._stats.signed_ranks import caps_of, rank_stages
from sparsemean._util.plans import BadRows


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 41])
def test_the_middle_is_the_median_to_the_last_bit(n: int, kind: type) -> None:
    x = (100 * np.random.default_rng(n).standard_t(2, (5, n))).astype(kind)
    x[1], x[2, ::2] = x[1, 0], -0.0
    found = middle(x)
    np.testing.assert_array_equal(found, np.median(x, axis=1))
    assert found.dtype == np.median(x, axis=1).dtype or kind is np.int64
    assert middle(x[0]) == np.median(x[0])


@pytest.mark.parametrize(("gap", "most"), [(1, 100), (3, 100), (1, 8), (4, 16)])
def test_runs_cover_what_is_wanted_once(gap: int, most: int) -> None:
    columns = np.unique(np.random.default_rng(gap).integers(0, 100, 40))
    found = runs(columns, gap, most)
    at = np.concatenate([np.arange(place.start, place.stop) for _, place, _ in found])
    np.testing.assert_array_equal(at, np.arange(columns.size))
    for read, place, wanted in found:
        np.testing.assert_array_equal(read.start + wanted, columns[place])
        assert (read.stop - 1) // most == read.start // most
        assert np.diff(columns[place]).max(initial=0) <= gap
    assert runs(columns[:0], gap, most) == []


@pytest.mark.parametrize("kind", ["values", "ties", "gaps", "one side", "effect", "beyond"])
@pytest.mark.parametrize("n", [2, 9, 30, 200, 300, 600])
def test_the_last_number_of_bad_rows_is_that_of_asking_for_each(n: int, kind: str) -> None:
    d, rng = 40, np.random.default_rng(n)
    X = rng.standard_t(3, (n, d)) + np.repeat([0.0, 0.2, -0.5, 1.0, 3.0, -2.0, 0.3, 1.0], 5)
    if kind == "ties":  # some repeats to very many, and zeros
        digits = np.repeat([0, 1, 2, 3], 10)
        X = np.where(rng.random((n, d)) < np.tile([0.02, 0.1, 0.3, 1.0], 10), np.round(X * 2**digits) / 2**digits, X)
    if kind in ("gaps", "beyond"):
        X[rng.random((n, d)) < 0.2] = np.nan
    passing, sides = np.where(np.arange(d) % 5 == 3, 3, n), (UP,) if kind == "one side" else (UP, DOWN)
    shifts = (-0.1, 0.1) if kind == "effect" else (0,) * len(sides)
    sums = larger_side([rank_sums(X + by, caps_of(n), keep_zeros=by != 0) for by in shifts], sides, -(-n // 10))
    stages, start = rank_stages(n, error=0.05, sides=len(sides)), n // 15 if kind == "beyond" else 0
    evidence = SignedRankEvidence(n, d, stages, np.arange(d), passing, sums, len(sides), ties_against=kind == "effect")
    if kind == "beyond":
        evidence = evidence.beyond((BadRows(0, start),))
    every, bad = np.arange(d), np.arange(start, n // 2 + 1)
    p = np.stack([evidence.log_p(m, every) for m in bad])
    for error in (1e-9, 1e-4, 1e-3, 0.04, 0.3):
        reached = (p <= np.log(error)) & (bad[:, np.newaxis] <= passing)
        last = np.logical_and.accumulate(reached).sum(axis=0) - 1
        np.testing.assert_array_equal(evidence.last(error, every), last)
        np.testing.assert_array_equal(evidence.last(error, every[::-3]), last[::-3])


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("p", [1, 2, 9, 32, 33, 96])
def test_the_top_eigenpairs_are_the_last_of_all(p: int, kind: type) -> None:
    x = np.random.default_rng(p).standard_t(3, (200, p)).astype(kind)
    gram = x.T @ x
    values, vectors = top_eigenpairs(gram, 9)
    every, bound = np.linalg.eigh(gram)[0][::-1][:9], 30 * float(np.finfo(kind).eps)
    np.testing.assert_allclose(values, every, rtol=0, atol=bound * every[0])
    np.testing.assert_allclose(gram @ vectors, values * vectors, rtol=0, atol=bound * every[0])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(values.size), rtol=0, atol=bound)


def test_rows_that_are_dealt_again_are_those_that_were() -> None:
    first = assign_block_buckets(150, (1, 2, 4), 3)
    kept = [first.order.copy(), first.bucket_of_row.copy(), *(level.copy() for level in first.levels)]
    first.bucket_of_row[:] = -1  # a user may
    again = assign_block_buckets(150, (1, 2, 4), 3)
    for old, new in zip(kept, (again.order, again.bucket_of_row, *again.levels), strict=True):
        np.testing.assert_array_equal(new, old)
    assert not np.array_equal(assign_block_buckets(150, (1, 2, 4), 4).order, again.order)
    assert assign_block_buckets(150, (1, 2), 3).wanted == (0, 1)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (4, 3)])
def test_every_layout_is_found_in_memory(shape: tuple[int, int]) -> None:
    big = np.arange(400.0).reshape(20, 20)
    n, d = shape
    for X in (big[:n, :d].copy(), np.asfortranarray(big[:n, :d]), big[:n, :d], big.T[:n, :d], big[n - 1 :: -1, d:0:-1]):
        view = strided(X)
        assert not view.memory.flags.writeable
        i, c = np.indices(view.shape)
        np.testing.assert_array_equal(view.memory[view.start + i * view.row_step + c * view.column_step], X)
        assert X.flags.writeable
