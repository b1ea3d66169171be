"""Which row goes into which bucket.

Two ways to deal. The paper's permutes all rows once and needs them in hand. Dealing in blocks of 64 consecutive rows
makes a row's bucket a function of the seed and the row's own index alone (but for a last block that is not full), so
that files, streams and workers that count separately add up to the same answer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from sparsemean._util.plans import Plan
from sparsemean._util.records import BLOCK, IntArray, Partition, Ranges
from sparsemean.errors import InputError

FEW_ROWS = 10_000
"""Rows up to which it is kept how they were dealt."""


def assign_buckets(plan: Plan, seed: int, units: IntArray | None = None) -> Partition:
    """Deal the rows of ``plan`` into buckets with ``seed``; rows of one unit (a number for each row) stay together."""
    if plan.walk.dealing == "paper":
        assert plan.walk.n_buckets is not None
        return assign_paper_buckets(plan.n_rows, plan.walk.n_buckets, seed)
    if plan.walk.ranges:
        return assign_ranges(plan.walk.ranges, plan.walk.sealed, plan.walk.bucket_sizes, seed)
    return assign_block_buckets(plan.n_rows, plan.walk.bucket_sizes, seed, units=units)


def assign_paper_buckets(n: int, n_buckets: int, seed: int) -> Partition:
    """Cut one random permutation into J buckets as equal as possible, the larger ones first.

    Examples
    --------
    >>> np.diff(assign_paper_buckets(11, 4, seed=0).levels[0])
    array([3, 3, 3, 2])
    """
    order = np.random.default_rng(seed).permutation(n)
    share, larger = divmod(n, n_buckets)
    sizes = np.full(n_buckets, share)
    sizes[:larger] += 1
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    bucket_of_row = np.empty(n, dtype=np.intp)
    bucket_of_row[order] = np.repeat(np.arange(n_buckets), sizes)
    return Partition(order, (offsets,), (share,), (0,), bucket_of_row)


def block_positions(first_row: int, n: int, seed: int) -> IntArray:
    """Return the place of rows ``first_row`` … ``first_row + n − 1`` in the dealt order.

    Row i draws the i-th word of the Philox stream of ``seed``; inside each block of 64 the rows are ranked by their
    words. Philox is counter-based, so any stretch of the stream is reached without drawing what comes before it.
    """
    first_block = first_row // BLOCK
    n_blocks = -(-(first_row + n) // BLOCK) - first_block
    stream = np.random.Philox(key=seed)
    stream.advance(first_block * BLOCK // 4)  # one step of the counter yields four words
    words = stream.random_raw(n_blocks * BLOCK).reshape(n_blocks, BLOCK)
    rank = np.argsort(np.argsort(words, axis=1, kind="stable"), axis=1)
    places = (rank + BLOCK * (first_block + np.arange(n_blocks))[:, np.newaxis]).ravel()
    start = first_row - first_block * BLOCK
    return np.asarray(places[start : start + n], dtype=np.intp)


def assign_block_buckets(
    n: int, sizes: tuple[int, ...], seed: int, *, first_row: int = 0, units: IntArray | None = None
) -> Partition:
    """Deal rows ``first_row`` … ``first_row + n − 1`` inside blocks of 64 and nest the buckets of ``sizes``.

    Sizes are powers of two up to 64. Rows are counted from the first of them, which must be the first of a block unless
    all lie in one. A last block of fewer rows is closed up, so that every bucket but the last is full. Levels above the
    largest size wanted are there for whoever looks at a few features more closely. With ``units`` it is the units that
    are dealt, numbered 0, 1, …, each with all its rows.

    Examples
    --------
    >>> partition = assign_block_buckets(130, (1, 2, 4), seed=0)
    >>> [partition.n_buckets(level) for level in partition.wanted]
    [130, 65, 33]
    """
    assert first_row % BLOCK == 0 or first_row // BLOCK == (first_row + n - 1) // BLOCK
    if units is None and first_row == 0:
        dealt = (_kept_deal if n <= FEW_ROWS else _deal)(n, sizes, seed)
        return replace(dealt, bucket_of_row=dealt.bucket_of_row.copy())  # which users are given
    n_units = n if units is None else int(units.max()) + 1
    return assign_places(block_positions(first_row, n_units, seed), sizes, units=units)


def _deal(n: int, sizes: tuple[int, ...], seed: int) -> Partition:
    """Deal all rows."""
    return replace(assign_places(block_positions(0, n, seed), sizes), seed=seed)


_kept_deal = lru_cache(maxsize=8)(_deal)
"""Of few rows it takes longer to deal them than to count them, and the next fit may ask for the same."""


def assign_places(positions: IntArray, sizes: tuple[int, ...], *, units: IntArray | None = None) -> Partition:
    """Deal rows (units) into buckets in the order of their ``positions``, all blocks full but the last."""
    check_sizes(sizes)
    n_units = positions.size
    order = np.argsort(positions, kind="stable")
    places = np.empty(n_units, dtype=np.intp)
    places[order] = np.arange(n_units)
    if units is None:
        unit_at = np.full(-(-n_units // BLOCK) * BLOCK, -1, dtype=np.intp)
        unit_at[:n_units] = order
        return replace(_nested(order, np.arange(n_units + 1), np.arange(n_units), places, sizes), places=unit_at)
    order = np.argsort(places[units], kind="stable")
    first_level = np.append(np.flatnonzero(np.diff(places[units][order], prepend=-1)), units.size)
    return _nested(order, first_level, np.arange(n_units), places[units], sizes)


def _nested(
    order: IntArray, first_level: IntArray, bucket: IntArray, finest: IntArray, sizes: tuple[int, ...]
) -> Partition:
    """Nest the buckets of ``sizes``, given the rising numbers of the finest ones, and the finest of each row."""
    levels = [first_level]
    for _ in range(1, BLOCK.bit_length()):
        bucket = bucket // 2
        new = np.ones(bucket.size, dtype=bool)
        np.not_equal(bucket[1:], bucket[:-1], out=new[1:])
        first = np.flatnonzero(new)
        levels.append(np.append(first, bucket.size))
        bucket = bucket[first]
    powers, wanted = tuple(1 << h for h in range(BLOCK.bit_length())), tuple(size.bit_length() - 1 for size in sizes)
    return Partition(order, tuple(levels), powers, wanted, finest // min(sizes))


def assign_ranges(ranges: Ranges, sealed: Ranges, sizes: tuple[int, ...], seed: int) -> Partition:
    """Deal rows with the numbers in ``ranges``, the parts of blocks in ``sealed`` apart from the other rows there.

    Rows are counted in the order of their numbers. Every block, or part of one, is closed up: its last buckets may be
    smaller, and no bucket reaches beyond it.

    Examples
    --------
    >>> partition = assign_ranges(((0, 70), (128, 133)), ((64, 67),), (1, 2, 4), seed=0)
    >>> [partition.n_buckets(level) for level in partition.wanted]
    [75, 39, 20]
    """
    check_sizes(sizes)
    number = np.concatenate([np.arange(first, last) for first, last in ranges])
    position = np.concatenate([block_positions(first, last - first, seed) for first, last in ranges])
    part = np.zeros(number.size, dtype=np.intp)
    if sealed:
        firsts, lasts = np.array(sealed, dtype=np.intp).T
        at = np.searchsorted(firsts, number, side="right") - 1
        part = np.where((at >= 0) & (number < lasts[at]), at + 1, 0)
    block = number // BLOCK
    order = np.lexsort((position, part, block))
    new = (np.diff(block[order], prepend=-1) != 0) | (np.diff(part[order], prepend=-1) != 0)
    start = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    bucket = BLOCK * group + np.arange(number.size) - start[group]
    places = np.empty(number.size, dtype=np.intp)
    places[order] = bucket
    return _nested(order, np.arange(number.size + 1), bucket, places, sizes)


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse sizes that do not nest inside a block: rising powers of two from 1 to 64."""
    powers = [1 << h for h in range(BLOCK.bit_length())]
    if not sizes or any(size not in powers for size in sizes) or list(sizes) != sorted(set(sizes)):
        raise InputError("bucket_sizes", f"be rising powers of two between 1 and {BLOCK}", repr(tuple(sizes)))


def block_spans(partition: Partition) -> tuple[IntArray, IntArray] | None:
    """Return the first row of every block of 64, or of one after it, and the row behind the last up to there.

    Both rise; blocks share rows where buckets were made anew of those that are left.
    None where buckets take rows from anywhere (the paper's dealing, and subjects).

    Examples
    --------
    >>> block_spans(assign_block_buckets(150, (1, 2, 4), seed=0))
    (array([  0,  64, 128]), array([ 64, 128, 150]))
    """
    if partition.places is None:
        return None
    starts = np.arange(0, partition.order.size, BLOCK)
    lows, highs = np.minimum.reduceat(partition.order, starts), np.maximum.reduceat(partition.order, starts) + 1
    return np.minimum.accumulate(lows[::-1])[::-1], np.maximum.accumulate(highs)


def stretch(partition: Partition, first_block: int, last_block: int) -> Partition:
    """Return how the rows of some blocks are dealt, counted from the first of these rows.

    No bucket of ``assign_block_buckets`` reaches beyond its block, so that the counts of stretches add up.

    Examples
    --------
    >>> stretch(assign_block_buckets(150, (1, 2, 4), seed=0), 2, 3).n_buckets(2)
    6
    """
    assert partition.places is not None
    first, last = BLOCK * first_block, min(BLOCK * last_block, partition.order.size)
    order, places = partition.order[first:last], partition.places[first : BLOCK * last_block]
    start = int(order.min())

    def level(h: int) -> IntArray:
        offsets = partition.levels[h][first >> h : -(-last >> h) + 1]
        return np.asarray(offsets - offsets[0])

    return replace(
        partition,
        order=order - start,
        levels=tuple(level(h) for h in range(len(partition.levels))),
        places=np.where(places < 0, -1, places - start),
        seed=None,
    )
