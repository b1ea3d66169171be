"""Rows that arrive in pieces, anywhere and in any order: what each piece tells adds up to one pass over all rows.

A row's bucket depends on its number alone, so that whole blocks of 64 rows are counted where they are. Of a block that
two pieces share the rows themselves are kept until it is complete, or until nothing more comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np

from sparsemean import passes
from sparsemean.device import on_host
from sparsemean.errors import InputError
from sparsemean.partition import block_positions, deal_blocks, deal_places
from sparsemean.passes.same import resting_on_many, same_in, same_in_both
from sparsemean.records import BLOCK, CountArray, Counts, FloatArray, Loose, Ranges, Same, Told
from sparsemean.sources.source import Dense, as_dense
from sparsemean.sources.table import Table

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
) -> Told:
    """Count the rows of a table, the first of which is row ``first_row`` of all.

    ``sealed`` closes the blocks at both ends with the rows they have: none is kept, no other piece completes them, and
    nothing is told that may be a single value.
    """
    first_row = int(first_row)
    last = first_row + table.shape[0]
    start = min(-(-first_row // BLOCK) * BLOCK, last)
    stop = last if sealed else max(last // BLOCK * BLOCK, start)
    none = _nothing(table.shape[1], sizes)
    told = Told(
        seed, sizes, missing, shift, none, ((first_row, last),), sealed=_ends(first_row, last) if sealed else ()
    )
    loose = list[Loose]()
    for a, b, together in ((first_row, start, sealed), (start, stop, True), (stop, last, False)):
        if a < b and together:
            dealt = deal_blocks(b - a, sizes, seed, first_row=a).of_rows(np.arange(a - first_row, b - first_row))
            counted, _ = passes.count(
                table, dealt, shift=shift, missing=missing, n_jobs=n_jobs, progress=progress if a == start else None
            )
            counted = on_host(counted)
            told = replace(told, counts=told.counts.plus(counted) if told.counts.n_buckets[0] else counted)
        elif a < b:
            loose.append(_loose(table, a, b, first_row, missing))
    same = same_in(table.source, told.counts) if told.counts.n_buckets[0] else Same()
    told = replace(told, loose=tuple(loose), same=same)
    return _discreet(told) if sealed else told


def _discreet(told: Told) -> Told:
    """Leave out what may be a value of one row: the nearest mean, and the one value of a feature that has few."""
    counts = replace(told.counts, nearest=np.full(told.n_features, np.nan))
    return replace(told, counts=counts, same=resting_on_many(told.same, counts, told.n_rows))


def merged(sketches: Iterable[Told]) -> Told:
    """Return what all of them tell together; none may have seen a row of another.

    They are taken one after the other, so that an iterator need never have two. Settings are those of the first:
    whoever has sketches from elsewhere compares them before.
    """
    coming = iter(sketches)
    total, own = next(coming), False
    for other in coming:
        total, own = _plus(total, other, own=own)
    return total


def closed(sketch: Told) -> Told:
    """Close all blocks with the rows they have: nothing more will come."""
    return _completed(sketch, lambda rows: True)[0]  # noqa: ARG005


def signs_of_rows(sketch: Told, most: int) -> CountArray | None:
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


def _plus(total: Told, other: Told, *, own: bool) -> tuple[Told, bool]:
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


def _completed(sketch: Told, complete: Callable[[int], bool]) -> tuple[Told, bool]:
    """Count the blocks whose number of loose rows is enough, the others stay loose; and say whether there was one."""
    left, made, counted = list[Loose](), sketch, False
    for _, parts in groupby(sketch.loose, key=lambda part: part.first_row // BLOCK):
        rows = list(parts)
        if not complete(sum(part.values.shape[0] for part in rows)):
            left += rows
            continue
        positions = np.concatenate([block_positions(p.first_row, p.values.shape[0], sketch.seed) for p in rows])
        source = Dense(np.concatenate([part.values for part in rows]))
        counts, _ = passes.count(
            Table(source), deal_places(positions, sketch.sizes), shift=sketch.shift, missing=sketch.missing
        )
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


def _loose(table: Table, first: int, last: int, offset: int, missing: bool) -> Loose:
    """Copy some rows, unless a value is not finite."""
    block = as_dense(table.source.block(slice(first - offset, last - offset), slice(0, table.shape[1]))).copy()
    if block.dtype.kind == "f":
        bad = np.isinf(block).any() if missing else not np.isfinite(block).all()
        if bad:
            from sparsemean.passes.memory import not_finite

            raise not_finite(table, block, first - offset, missing=missing)
    return Loose(first, block)


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
