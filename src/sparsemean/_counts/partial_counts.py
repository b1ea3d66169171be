"""Counts of some rows, and how they add up: whole blocks of 64 rows, rows of cut blocks, constant columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np

from sparsemean._counts.engines import engine_of
from sparsemean._data.source import AT_ONCE, Dense, Source, as_dense, find_non_finite, runs
from sparsemean._data.table import Table
from sparsemean._stats.arrays import on_host
from sparsemean._stats.buckets import assign_block_buckets, assign_places, block_positions
from sparsemean._util.records import (
    BLOCK,
    BucketSpec,
    ConstantColumns,
    CountArray,
    Counts,
    FloatArray,
    IntArray,
    PendingRows,
    Ranges,
    SketchState,
)
from sparsemean.errors import InputError


def same_in(source: Source, counts: Counts) -> ConstantColumns:
    """Return the features that hold one value, not the null value, in all rows of a source that ``counts`` are of."""
    candidates = _all_on_one_side(counts)
    if candidates.size:
        candidates = _same_at_first(source, candidates)
    features, values = [np.empty(0, dtype=np.intp)], [np.empty(0)]
    for columns, rows in source.takes_of(candidates) if candidates.size else ():
        low = np.fmin.reduce(rows)
        same = low == np.fmax.reduce(rows)
        features.append(columns[same])
        values.append(low[same])
    return ConstantColumns(np.concatenate(features), np.concatenate(values))


def same_in_both(
    first: ConstantColumns, first_counts: Counts, second: ConstantColumns, second_counts: Counts
) -> ConstantColumns:
    """Return the features that hold one value in both, or in one where the other has no value at all.

    Examples
    --------
    >>> five, six = Same(np.array([1, 4]), np.array([5.0, 5.0])), Same(np.array([1, 4]), np.array([5.0, 6.0]))
    >>> some = Counts(*np.ones((2, 1, 9), dtype=np.int32), np.ones(9), (2,))
    >>> same_in_both(five, some, six, some).features
    array([1])
    """
    both = np.union1d(first.features, second.features)
    if not both.size:
        return ConstantColumns()
    (a, a_fits), (b, b_fits) = _of(first, first_counts, both), _of(second, second_counts, both)
    fits = a_fits & b_fits & ((a == b) | np.isnan(a) | np.isnan(b))
    return ConstantColumns(both[fits], np.where(np.isnan(a), b, a)[fits])


def resting_on_many(same: ConstantColumns, counts: Counts, n_rows: int) -> ConstantColumns:
    """Return the same less features with fewer than 64 values among ``n_rows``, whose value is nearly a row's."""
    missing = 0 if counts.missing is None else counts.missing[same.features]
    many = np.broadcast_to(n_rows - missing >= BLOCK, same.features.shape)
    return ConstantColumns(same.features[many], same.values[many])


def _of(
    same: ConstantColumns, counts: Counts, features: IntArray
) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the value of ``features``, NaN where there is no one value, and whether it is one or there is none yet."""
    values = np.full(features.size, np.nan)
    values[np.searchsorted(features, same.features)] = same.values
    return values, ~np.isnan(values) | (np.broadcast_to(counts.buckets(0, features), features.shape) == 0)


def _all_on_one_side(counts: Counts) -> IntArray:
    buckets = counts.buckets(0)
    one_side = (counts.positive[0] == buckets) | (counts.negative[0] == buckets)
    return np.flatnonzero(one_side & (np.asarray(buckets) > 0))


def _same_at_first(source: Source, columns: IntArray) -> IntArray:
    """Return which of ``columns`` hold one value, or none, in the first rows."""
    n, d = source.shape
    rows = slice(0, min(BLOCK, n))
    width = max(1, int(AT_ONCE / (rows.stop * source.bytes_a_value)))
    kept = []
    for read, at, wanted in runs(columns, BLOCK if source.along == "columns" else d, width):
        values = as_dense(source.block(rows, read))[:, wanted]
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        kept.append(columns[at][(low == high) | (low != low)])
    return np.concatenate(kept)


# Rows that arrive in pieces, anywhere and in any order: what each piece tells adds up to one pass over all rows.

MOST_ROWS = 2**31 - 1
"""Rows that the counters can tell apart."""


def sketch(
    table: Table,
    first_row: int = 0,
    *,
    seed: int,
    sizes: tuple[int, ...],
    shift: FloatArray | None = None,
    missing: bool = False,
    sealed: bool = False,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> SketchState:
    """Count the rows of a table, the first of which is row ``first_row`` of all.

    ``sealed`` closes the blocks at both ends with the rows they have: none is kept, no other piece completes them, and
    nothing is told that may be a single value.
    """
    first_row = int(first_row)
    last = first_row + table.shape[0]
    start = min(-(-first_row // BLOCK) * BLOCK, last)
    stop = last if sealed else max(last // BLOCK * BLOCK, start)
    none = _nothing(table.shape[1], sizes)
    told = SketchState(
        seed, sizes, missing, shift, none, ((first_row, last),), sealed=_ends(first_row, last) if sealed else ()
    )
    loose = list[PendingRows]()
    for a, b, together in ((first_row, start, sealed), (start, stop, True), (stop, last, False)):
        if a < b and together:
            dealt = assign_block_buckets(b - a, sizes, seed, first_row=a).of_rows(
                np.arange(a - first_row, b - first_row)
            )
            counted, _ = engine_of(table.source).count(
                table, BucketSpec(dealt, shift, missing), n_jobs=n_jobs, progress=progress if a == start else None
            )
            counted = on_host(counted)
            told = replace(told, counts=told.counts.plus(counted) if told.counts.n_buckets[0] else counted)
        elif a < b:
            loose.append(_loose(table, a, b, first_row, missing))
    same = same_in(table.source, told.counts) if told.counts.n_buckets[0] else ConstantColumns()
    told = replace(told, loose=tuple(loose), same=same)
    return _discreet(told) if sealed else told


def _discreet(told: SketchState) -> SketchState:
    """Leave out what may be a value of one row: the nearest mean, and the one value of a feature that has few."""
    counts = replace(told.counts, nearest=np.full(told.n_features, np.nan))
    return replace(told, counts=counts, same=resting_on_many(told.same, counts, told.n_rows))


def merged(sketches: Iterable[SketchState]) -> SketchState:
    """Return what all of them tell together; none may have seen a row of another.

    They are taken one after the other, so that an iterator need never have two. Settings are those of the first:
    whoever has sketches from elsewhere compares them before.
    """
    coming = iter(sketches)
    total, own = next(coming), False
    for other in coming:
        total, own = _plus(total, other, own=own)
    return total


def closed(sketch: SketchState) -> SketchState:
    """Close all blocks with the rows they have: nothing more will come."""
    return _completed(sketch, lambda rows: True)[0]  # noqa: ARG005


def signs_of_rows(sketch: SketchState, most: int) -> CountArray | None:
    """Return how many rows lie above and below the null value in the first ``most`` features, whatever their numbers.

    Rows that are kept as they are count too, so that the same rows tell the same under any first row. None where single
    rows are not counted.
    """
    if 1 not in sketch.sizes:
        return None
    at, null = sketch.sizes.index(1), 0.0 if sketch.shift is None else sketch.shift[:most]
    signs = np.stack((sketch.counts.positive[at, :most], sketch.counts.negative[at, :most])).astype(np.int32)
    for part in sketch.loose:
        values: FloatArray = np.asarray(part.values[:, :most], dtype=np.float64)
        signs += np.stack([np.sum(side, axis=0, dtype=np.int32) for side in (values > null, values < null)])
    return signs


def check_apart(ranges: Iterable[tuple[int, int]]) -> None:
    """Refuse ranges of rows that overlap, and more rows than can be counted."""
    ranges = sorted(ranges)
    for (a, b), (c, d) in pairwise(ranges):
        if c < b:
            rule = "have no rows in common"
            raise InputError("sketches", rule, f"rows {c} to {min(b, d) - 1} twice ({a}–{b - 1} and {c}–{d - 1})")
    if sum(b - a for a, b in ranges) > MOST_ROWS:
        raise InputError("sketches", f"have at most {MOST_ROWS:,} rows together", sum(b - a for a, b in ranges))


def _plus(total: SketchState, other: SketchState, *, own: bool) -> tuple[SketchState, bool]:
    """Add one more; whether the arrays of ``total`` are its own, to be written to, comes in and goes out."""
    ranges = sorted((*total.ranges, *other.ranges))
    check_apart(ranges)
    same, counts = total.same, total.counts
    if other.counts.n_buckets[0]:
        same = same_in_both(same, counts, other.same, other.counts)
        counts = counts.taking_in(other.counts) if own else counts.plus(other.counts)
        own = True
    together = replace(
        total,
        counts=counts,
        same=same,
        ranges=_joined(ranges),
        loose=tuple(sorted((*total.loose, *other.loose), key=lambda part: part.first_row)),
        sealed=tuple(sorted((*total.sealed, *other.sealed))),
    )
    made, counted = _completed(together, lambda rows: rows == BLOCK)
    return made, own or counted


def _completed(sketch: SketchState, complete: Callable[[int], bool]) -> tuple[SketchState, bool]:
    """Count the blocks whose number of loose rows is enough, the others stay loose; and say whether there was one."""
    left, made, counted = list[PendingRows](), sketch, False
    for _, parts in groupby(sketch.loose, key=lambda part: part.first_row // BLOCK):
        rows = list(parts)
        if not complete(sum(part.values.shape[0] for part in rows)):
            left += rows
            continue
        positions = np.concatenate([block_positions(p.first_row, p.values.shape[0], sketch.seed) for p in rows])
        source = Dense(np.concatenate([part.values for part in rows]))
        spec = BucketSpec(assign_places(positions, sketch.sizes), sketch.shift, sketch.missing)
        counts, _ = engine_of(source).count(Table(source), spec)
        same = same_in_both(made.same, made.counts, same_in(source, counts), counts)
        made, counted = replace(made, counts=made.counts.plus(counts), same=same), True
    return replace(made, loose=tuple(left)), counted


def _ends(first: int, last: int) -> Ranges:
    """Return the parts of blocks at both ends of a stretch of rows.

    Examples
    --------
    >>> _ends(10, 200), _ends(64, 128), _ends(70, 80)
    (((10, 64), (192, 200)), (), ((70, 80),))
    """
    if first // BLOCK == (last - 1) // BLOCK:
        return ((first, last),) if last - first < BLOCK else ()
    ends = ((first, -(-first // BLOCK) * BLOCK), (last // BLOCK * BLOCK, last))
    return tuple((a, b) for a, b in ends if a < b)


def _loose(table: Table, first: int, last: int, offset: int, missing: bool) -> PendingRows:
    """Copy some rows, unless a value is not finite."""
    block = as_dense(table.source.block(slice(first - offset, last - offset), slice(0, table.shape[1]))).copy()
    if place := find_non_finite(block, at=(first - offset, 0), skip_missing=missing):
        raise table.non_finite_error(place, skip_missing=missing)
    return PendingRows(first, block)


def _nothing(d: int, sizes: tuple[int, ...]) -> Counts:
    """Return the counts of no row, which take no memory."""
    zeros = np.broadcast_to(np.zeros((), dtype=np.int32), (len(sizes), d))
    return Counts(zeros, zeros, np.broadcast_to(np.full((), np.inf), d), (0,) * len(sizes))


def _joined(ranges: list[tuple[int, int]]) -> Ranges:
    """Return neighbouring ranges as one.

    Examples
    --------
    >>> _joined([(0, 64), (64, 100), (128, 130)])
    ((0, 100), (128, 130))
    """
    out: list[tuple[int, int]] = []
    for first, last in ranges:
        if out and out[-1][1] == first:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)
