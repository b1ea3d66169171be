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
from sparsemean.errors import InputError
from sparsemean.partition import BLOCK, block_positions, deal_blocks, deal_places
from sparsemean.records import Counts, FloatArray, Loose, Partition, Sketch
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
) -> Sketch:
    """Count the rows of a table, the first of which is row ``first_row`` of all.

    ``sealed`` closes the blocks at both ends with the rows they have: none is kept, and no other piece completes them.
    """
    first_row = int(first_row)
    last = first_row + table.shape[0]
    start = min(-(-first_row // BLOCK) * BLOCK, last)
    stop = last if sealed else max(last // BLOCK * BLOCK, start)
    counts, loose = _nothing(table.shape[1], sizes), list[Loose]()
    for a, b, together in ((first_row, start, sealed), (start, stop, True), (stop, last, False)):
        if a < b and together:
            dealt = deal_blocks(b - a, sizes, seed, first_row=a).of_rows(np.arange(a - first_row, b - first_row))
            counted, _ = passes.count(
                table, dealt, shift=shift, missing=missing, n_jobs=n_jobs, progress=progress if a == start else None
            )
            counts = counts.plus(counted)
        elif a < b:
            loose.append(_loose(table, a, b, first_row, missing))
    return Sketch(seed, sizes, missing, shift, counts, ((first_row, last),), tuple(loose))


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Return what all of them tell together; none may have seen a row of another.

    Settings are those of the first: whoever has sketches from elsewhere compares them before.
    """
    first, *others = sketches
    ranges = sorted(span for one in (first, *others) for span in one.ranges)
    for (a, b), (c, d) in pairwise(ranges):
        if c < b:
            rule = "have no rows in common"
            raise InputError("sketches", rule, f"rows {c} to {min(b, d) - 1} twice ({a}–{b - 1} and {c}–{d - 1})")
    if sum(b - a for a, b in ranges) > MOST_ROWS:
        raise InputError("sketches", f"have at most {MOST_ROWS:,} rows together", sum(b - a for a, b in ranges))
    counts = first.counts
    for other in others:
        counts = counts.plus(other.counts)
    everything = sorted((part for one in (first, *others) for part in one.loose), key=lambda part: part.first_row)
    together = replace(first, counts=counts, ranges=_joined(ranges), loose=tuple(everything))
    return _completed(together, lambda rows: rows == BLOCK)


def closed(sketch: Sketch) -> Sketch:
    """Close all blocks with the rows they have: nothing more will come."""
    return _completed(sketch, lambda rows: True)  # noqa: ARG005


def _completed(sketch: Sketch, complete: Callable[[int], bool]) -> Sketch:
    """Count the blocks whose number of loose rows is enough; the others stay loose."""
    counts, left = sketch.counts, list[Loose]()
    for _, parts in groupby(sketch.loose, key=lambda part: part.first_row // BLOCK):
        rows = list(parts)
        if not complete(sum(part.values.shape[0] for part in rows)):
            left += rows
            continue
        positions = np.concatenate([block_positions(p.first_row, p.values.shape[0], sketch.seed) for p in rows])
        values = np.concatenate([part.values for part in rows])
        counts = counts.plus(_counted(values, deal_places(positions, sketch.sizes), sketch))
    return replace(sketch, counts=counts, loose=tuple(left))


def _counted(values: np.ndarray[tuple[int, int], np.dtype[np.generic]], dealt: Partition, sketch: Sketch) -> Counts:
    return passes.count(Table(Dense(values)), dealt, shift=sketch.shift, missing=sketch.missing)[0]


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
    zeros = np.zeros((len(sizes), d), dtype=np.int32)
    return Counts(zeros, zeros, np.full(d, np.inf), (0,) * len(sizes))


def _joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
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
