"""Rows that arrive in pieces add up to one pass over all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsemean._data import as_table
from sparsemean._evidence.counting import merging
from sparsemean._evidence.counting.engines import Engine
from sparsemean._evidence.counting.sketch import ConstantColumns, Sketch, sketch_rows
from sparsemean._kernels import reference
from sparsemean._stats.buckets import assign_block_buckets, assign_places, assign_ranges, block_positions
from sparsemean._util.records import BLOCK, BucketSpec, Counts
from sparsemean.errors import InputError

import problems

FIELDS = ("positive", "negative", "present", "missing")


def cut(n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Cut n rows anywhere, single rows among the pieces."""
    inner = rng.choice(np.arange(1, n), size=min(n - 1, int(rng.integers(0, 9))), replace=False)
    return list(pairwise([0, *sorted(inner.tolist()), n]))


def same_counts(found: Counts, expected: Counts) -> None:
    assert found.n_buckets == expected.n_buckets
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_allclose(found.nearest, expected.nearest, rtol=1e-15)  # a sum over a count, or times a share


def in_pieces(X: Any, rng: np.random.Generator, **options: Any) -> Sketch:
    pieces = cut(X.shape[0], rng)
    rng.shuffle(pieces)
    return merging.close_blocks(merging.add_sketches(sketch_rows(as_table(X[a:b]), a, **options) for a, b in pieces))


@pytest.mark.parametrize("seed", range(60))
def test_pieces_in_any_order_give_the_counts_of_one_pass(seed: int) -> None:
    problem, rng = problems.draw(seed), np.random.default_rng(seed)
    X, sizes = problem.X, problem.sizes
    shift = None if seed % 3 else np.round(rng.normal(size=X.shape[1]))
    whole = Engine().count(as_table(X), BucketSpec(assign_block_buckets(X.shape[0], sizes, seed), shift))[0]
    made = in_pieces(X, rng, seed=seed, bucket_sizes=sizes, null=0.0 if shift is None else shift)
    same_counts(made.counts, whole)
    assert made.ranges == ((0, X.shape[0]),)
    assert made.pending == ()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_pieces_with_gaps_give_the_counts_of_one_pass(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(int(rng.integers(65, 300)), 12)), 1)
    X[rng.random(X.shape) < share] = np.nan
    X[:, 0] = np.nan if seed % 2 else 3.0
    whole = Engine().count(
        as_table(X), BucketSpec(assign_block_buckets(X.shape[0], (1, 2, 4), seed), skip_missing=True)
    )[0]
    made = in_pieces(X, rng, seed=seed, bucket_sizes=(1, 2, 4), missing="omit")
    same_counts(made.counts, whole)


def test_sparse_pieces_give_the_counts_of_dense_ones() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 40)) < 0.2, rng.normal(size=(300, 40)), 0.0)
    whole = Engine().count(as_table(X), BucketSpec(assign_block_buckets(300, (1, 2, 4), 5)))[0]
    for kind in (sparse.csr_array, sparse.csc_array):
        parts = [sketch_rows(as_table(kind(X[a:b])), a, seed=5, bucket_sizes=(1, 2, 4)) for a, b in cut(300, rng)]
        same_counts(merging.close_blocks(merging.add_sketches(parts)).counts, whole)


def test_no_more_than_the_ends_of_two_blocks_are_kept() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 3))
    assert sum(p.values.shape[0] for p in sketch_rows(as_table(X[1:959]), 1, seed=0, bucket_sizes=(1,)).pending) == 126
    assert sketch_rows(as_table(X[:960]), 64, seed=0, bucket_sizes=(1,)).pending == ()
    state = sketch_rows(as_table(X[:1]), 0, seed=0, bucket_sizes=(1, 2, 4))
    for row in range(1, 200):
        state = merging.add_sketches(
            (state, sketch_rows(as_table(X[row : row + 1]), row, seed=0, bucket_sizes=(1, 2, 4)))
        )
        assert sum(part.values.shape[0] for part in state.pending) == (row + 1) % BLOCK


def by_definition(X: Any, groups: list[list[int]], seed: int, sizes: tuple[int, ...]) -> Counts:
    """Count groups of rows, each dealt apart, by the readable kernel."""
    total = None
    for rows in groups:
        positions = np.concatenate([block_positions(row, 1, seed) for row in rows])
        counted = reference.count_signs(X[rows], assign_places(positions, sizes))
        total = counted if total is None else total.plus(counted)
    assert total is not None
    return total


@pytest.mark.parametrize("seed", range(8))
def test_sealed_ends_are_dealt_apart_and_the_rest_of_a_block_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, sizes = 400, (1, 2, 4)
    X = rng.normal(size=(n, 6))
    groups: dict[tuple[int, int], list[int]] = {}
    parts, kept = [], []
    for k, (a, b) in enumerate(cut(n, rng)):
        if rng.random() < 0.2 and kept:
            continue  # rows that nobody has seen
        sealed = bool(rng.random() < 0.5)
        parts.append(sketch_rows(as_table(X[a:b]), a, seed=seed, bucket_sizes=sizes, sealed=sealed))
        kept += list(range(a, b))
        for row in range(a, b):
            groups.setdefault((row // BLOCK, k + 1 if sealed else 0), []).append(row)
    made = merging.close_blocks(merging.add_sketches(parts))
    any_sealed = any(group > 0 for _, group in groups)
    assert np.isnan(made.counts.nearest).all() == any_sealed
    expected = by_definition(X, list(groups.values()), seed, sizes)
    nearest = made.counts.nearest if any_sealed else expected.nearest
    same_counts(made.counts, replace(expected, nearest=nearest))
    dealt = assign_ranges(made.ranges, made.sealed, sizes, seed)
    assert tuple(dealt.n_buckets(level) for level in dealt.wanted) == made.counts.n_buckets
    again = Engine().count(as_table(X[kept]), BucketSpec(dealt))[0]
    same_counts(replace(again, nearest=nearest) if any_sealed else again, made.counts)


def test_ranges_from_zero_without_seals_are_dealt_like_one_fit() -> None:
    one, other = assign_block_buckets(333, (1, 2, 4), 7), assign_ranges(((0, 333),), (), (1, 2, 4), 7)
    np.testing.assert_array_equal(other.order, one.order)
    np.testing.assert_array_equal(other.bucket_of_row, one.bucket_of_row)
    for a, b in zip(other.levels, one.levels, strict=True):
        np.testing.assert_array_equal(a, b)


def test_features_with_one_value_are_known_however_rows_are_cut() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) + 50.0
    X[:, 1], X[:, 2], X[:, 3] = 2.0, np.nan, 0.0
    X[:, 4], X[150, 4] = -7.0, -7.5
    X[:200, 5], X[200:, 5] = np.nan, 4.0
    X[::2, 6], X[1::2, 6] = np.nan, 9.0
    for _ in range(20):
        same = in_pieces(X, rng, seed=0, bucket_sizes=(1, 2), missing="omit").constant
        assert dict(zip(same.features.tolist(), same.values.tolist(), strict=True)) == {1: 2.0, 5: 4.0, 6: 9.0}
    tested = in_pieces(X[:, [1, 3]], rng, seed=0, bucket_sizes=(4,), null=np.array([2.0, 1.0])).constant
    assert tested.features.tolist() == [1]
    assert ConstantColumns().features.size == 0


def test_what_is_not_finite_is_refused_wherever_it_stands() -> None:
    X = np.ones((200, 5))
    for row in (0, 100, 199):
        bad = X.copy()
        bad[row, 3] = np.nan
        with pytest.raises(InputError, match=f"X must not contain NaN or infinity: got NaN in column 3, row {row}"):
            sketch_rows(as_table(bad), 10, seed=0, bucket_sizes=(1,))


def test_overlaps_and_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = as_table(np.ones((100, 2)))
    first, second = (sketch_rows(table, a, seed=0, bucket_sizes=(1,)) for a in (0, 90))
    with pytest.raises(InputError, match=r"no rows in common: got rows 90 to 99 twice \(0–99 and 90–189\)"):
        merging.add_sketches((first, second))
    monkeypatch.setattr(merging, "MOST_ROWS", 150)
    with pytest.raises(InputError, match="at most 150 rows together: got 200"):
        merging.add_sketches((first, sketch_rows(table, 100, seed=0, bucket_sizes=(1,))))
