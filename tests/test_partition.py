"""Both ways to deal rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets, block_positions
from sparsemean._util.records import BLOCK
from sparsemean.errors import InputError


@pytest.mark.parametrize(("n", "J"), [(600, 240), (10, 3), (7, 7), (5, 1), (2000, 450)])
def test_paper_buckets_are_as_equal_as_possible_larger_first(n: int, J: int) -> None:
    partition = assign_paper_buckets(n, J, seed=1)
    sizes = np.diff(partition.levels[0])
    assert sizes.size == J
    assert sizes.sum() == n
    np.testing.assert_array_equal(sizes, np.sort(sizes)[::-1])
    assert sizes[0] - sizes[-1] <= 1
    np.testing.assert_array_equal(np.sort(partition.order), np.arange(n))
    for j in range(J):
        rows = partition.order[partition.levels[0][j] : partition.levels[0][j + 1]]
        assert (partition.bucket_of_row[rows] == j).all()


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200, 1000])
def test_blocks_nest_and_stay_inside_64_rows(n: int) -> None:
    partition = assign_block_buckets(n, (2, 8, 64), seed=9)
    np.testing.assert_array_equal(np.sort(partition.order), np.arange(n))
    finest = partition.bucket_of_row
    assert np.bincount(finest).max() <= 2
    np.testing.assert_array_equal(finest // 32, np.arange(n) // BLOCK)
    for level, shift in zip(partition.wanted, (0, 2, 5), strict=True):
        assert partition.n_buckets(level) == np.unique(finest >> shift).size
    assert partition.places is not None
    assert partition.places.size == -(-n // BLOCK) * BLOCK
    np.testing.assert_array_equal(partition.places[partition.places >= 0], partition.order)


def test_a_bucket_depends_on_seed_and_row_index_alone() -> None:
    whole = block_positions(0, 1000, seed=3)
    for first, n in ((0, 10), (64, 64), (100, 333), (640, 360), (999, 1)):
        np.testing.assert_array_equal(block_positions(first, n, seed=3), whole[first : first + n])
    assert (block_positions(0, 1000, seed=4) != whole).any()
    np.testing.assert_array_equal(assign_block_buckets(704, (1, 4), 3).bucket_of_row, whole[:704])
    part = assign_block_buckets(700, (1, 4), 3).bucket_of_row
    np.testing.assert_array_equal(part[:640], whole[:640])
    np.testing.assert_array_equal(np.sort(part[640:]), np.arange(640, 700))


def test_every_place_in_a_block_is_equally_likely() -> None:
    # false-alarm rate 1e-4 at this fixed seed: 63 degrees of freedom for the place of the first row of each block
    places = block_positions(0, 64 * 20_000, seed=11)[::64] % 64
    assert stats.chisquare(np.bincount(places, minlength=64)).pvalue > 1e-4


def test_the_same_deal_for_ever() -> None:
    """Stored evidence relies on it: changing the stream would silently change every stored result."""
    assert block_positions(0, 8, seed=0).tolist() == [0, 10, 5, 34, 31, 17, 56, 61]
    assert assign_paper_buckets(8, 3, seed=0).order.tolist() == [2, 4, 3, 6, 5, 0, 1, 7]


@pytest.mark.parametrize("sizes", [(), (3,), (128,), (4, 2), (2, 2), (0,)])
def test_sizes_that_do_not_nest_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="bucket_sizes must be rising powers of two"):
        assign_block_buckets(100, sizes, 0)
