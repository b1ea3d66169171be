"""Groups of rows compared with each other: one sort of a column serves every comparison.

Values that are exact in single precision, and nearly all measured ones are, go with the cell of their row into one
integer: the value above, the cell below. Integers are what NumPy sorts fastest. Zeros are never sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import NotFiniteError, reference
from sparsemean._kernels.compiling import compiled, plainly
from sparsemean._kernels.loops import MAGNITUDE, bits
from sparsemean._kernels.memory_layout import Array, count_threads, each, frozen
from sparsemean._kernels.rounding import DOUBLE, SINGLE, Grid, on_grid, snap, snap_single, snapped
from sparsemean._kernels.sparse import canonical_parts, sort_pairs
from sparsemean._util.records import CellCounts, IntArray

if TYPE_CHECKING:
    from scipy import sparse

Packed = npt.NDArray[np.int64]
REST, UNWANTED = -1, -2
"""In place of the cell that one is compared with: all other cells of its stratum, or none."""
CELL = np.int64(0xFFFF_FFFF)
POSITIVE_BITS = np.int64(0x7FFF_FFFF)
PACKED_AT_ONCE = 1 << 18
"""Values that a thread holds while it sorts them: 2 MB."""
FEWEST_COLUMNS = 16
"""Read at once where rows lie along memory: fewer would leave part of every cache line unused."""
ROWS_AT_ONCE = 256
"""Of which columns are copied while the rows are in the cache."""
RUN = 16
"""Values sorted by insertion before they are merged."""


@compiled()
def single_bits(x: np.float32) -> np.int64:
    """Return the 32 bits of a float as an integer with its sign."""
    return np.int64(np.float32(x).view(np.int32))


@compiled()
def pack_columns(
    data: Array, rows: Array, indptr: Array, base: Array, cells: Array, packed: Array, ends: Array, exact: Array,
    odd: Array, six: bool,
) -> None:  # fmt: skip
    """Write the non-zeros of columns as integers that sort by value, then cell; ``ends`` says where columns end.

    Entry k of column c is in row ``rows[k − base[c]]``. A column that single precision does not hold is not ``exact``,
    one with values that are not finite is ``odd``. Those that came in single precision are rounded to ``six`` digits.
    Doubles that it holds need no rounding: of 14 digits none of them is another one.
    """
    at = np.uint64(0)
    for c in range(indptr.size - 1):
        first, last = indptr[c], indptr[c + 1]
        values, where = data[first:last], rows[first - base[c] : last - base[c]]
        lost: bool | np.bool_ = False
        rounded: bool | np.bool_ = False
        strange = False
        for k in range(values.size if six else 0):  # counts need no rounding, and are packed as fast as without
            rounded |= np.rint(values[k]) != values[k]
        for k in range(values.size):
            x, cell = values[k], np.int64(cells[np.uint64(where[k])])
            single = np.float32(snap_single(x)) if rounded else np.float32(x)
            whole = single_bits(single)
            packed[at] = ((whole ^ ((whole >> 31) & POSITIVE_BITS)) << 32) | (cell & CELL)
            at += np.uint64((cell >= 0) & (abs(x) > 0.0))  # NaN is not above zero
            lost |= (not six) & (abs(np.float64(single) - np.float64(x)) > 0.0)
            strange |= (x - x) != 0.0
        ends[c + 1], exact[c], odd[c] = at, not lost, strange


@compiled()
def note_missing(
    data: Array, rows: Array, indptr: Array, base: Array, cells: Array, odd: Array, present: Array
) -> bool:
    """Take the NaN of odd columns from the values that are ``present``; True if any value is infinite."""
    for c in range(indptr.size - 1):
        if odd[c]:
            for k in range(indptr[c], indptr[c + 1]):
                x, cell = data[k], cells[rows[k - base[c]]]
                if x != x:
                    present[max(cell, 0), c] -= cell >= 0
                elif (x - x) != 0.0:
                    return True
    return False


@compiled()
def pack_places(
    data: Array, rows: Array, cells: Array, packed: Array, keys: Array, codes: Array, low: int, digits: bool
) -> np.int64:
    """Write the non-zeros of one column as ordered integers, their ``low`` bits replaced by their place.

    Whole ones go to ``keys`` and the cells to ``codes``. Values are rounded to their ``digits``, unless they are whole
    numbers. Return how many there are.
    """
    n = np.uint64(0)
    for k in range(data.size):
        x, cell = np.float64(data[k]), cells[np.uint64(rows[k])]
        x = snap(x) if digits else x
        whole = bits(x)
        key = whole ^ ((whole >> 63) & MAGNITUDE)
        keys[n], codes[n], packed[n] = key, cell, ((key >> low) << low) | np.int64(n)
        n += np.uint64((cell >= 0) & (abs(x) > 0.0))
    return np.int64(n)


@compiled()
def settle_places(packed: Array, keys: Array, codes: Array, low: int, sorted_keys: Array, sorted_codes: Array) -> None:
    """Put what ``pack_places`` wrote, and was sorted, right to the last bit; then pack ranks in place of values."""
    n, place = packed.size, (np.int64(1) << low) - 1
    for k in range(n):
        at = np.uint64(packed[k] & place)
        sorted_keys[k], sorted_codes[k] = keys[at], codes[at]
    first = 0
    while first < n:
        last, in_order = first + 1, True
        while last < n and (packed[last] >> low) == (packed[first] >> low):
            in_order &= sorted_keys[last - 1] <= sorted_keys[last]
            last += 1
        if not in_order:  # by now the unsorted ones have been read
            sort_pairs(sorted_keys[first:last], sorted_codes[first:last], last - first, RUN, keys, codes)
        first = last
    rank = -n - 1
    for k in range(n):
        if k == 0 or sorted_keys[k] != sorted_keys[k - 1]:
            rank = 1 if sorted_keys[k] > 0 and rank < 0 else rank + 1
        packed[k] = (rank << 32) | sorted_codes[k]


@compiled()
def sweep_columns(packed: Array, ends: Array, strata: Array, against: Array, own: Array, pairs: Array) -> None:
    """Write the counts of sorted columns, negative values apart from positive ones; see `CellCounts`."""
    sweeps, n_cells = against.shape
    versus = np.empty((sweeps, 3, n_cells), np.int64)
    of_cell, of_stratum = np.empty((5, n_cells), np.int64), np.empty((3, strata.max() + 1), np.int64)
    seen, named = np.empty(n_cells, np.int64), np.zeros(n_cells, np.int64)
    for p in range(sweeps):
        for cell in range(n_cells):
            named[cell] += against[p, cell] >= 0
    for c in range(ends.size - 1):
        middle = first_positive(packed, ends[c], ends[c + 1])
        for side in range(2):
            column = packed[middle : ends[c + 1]] if side == 0 else packed[ends[c] : middle]
            of_cell[:] = 0
            of_stratum[:] = 0
            versus[:] = 0
            sweep(column, strata, against, named, of_cell, of_stratum, versus, seen)
            for cell in range(n_cells):
                own[1 + side, cell, c] = of_cell[0, cell]
                for p in range(sweeps):
                    other = against[p, cell]
                    if other >= 0:
                        versus[p, 2, cell] += of_cell[2, cell] + of_cell[2, other]
                    elif other == REST:
                        versus[p, 0, cell], versus[p, 1, cell] = of_cell[3, cell], of_cell[4, cell]
                        versus[p, 2, cell] = of_stratum[2, strata[cell]]
                    for q in range(3):
                        pairs[p, 3 * side + q, cell, c] = versus[p, q, cell]


@compiled()
def first_positive(packed: Array, first: int, last: int) -> int:
    """Return where the positive ones of sorted integers begin."""
    while first < last:
        middle = (first + last) >> 1
        if packed[middle] < 0:
            first = middle + 1
        else:
            last = middle
    return first


@compiled()
def sweep(
    column: Array, strata: Array, against: Array, named: Array, of_cell: Array, of_stratum: Array, versus: Array,
    seen: Array,
) -> None:  # fmt: skip
    """Go over sorted values of one sign, those that are equal together, and count.

    ``of_cell``: values before the one at hand, values equal to it, repeats; wins and ties against the rest of the
    stratum. ``of_stratum``: the first three, of all its cells. ``versus``: wins, ties and values in common with the
    cell that is ``named`` in ``against``.
    """
    below, here, repeats, wins, ties = of_cell[0], of_cell[1], of_cell[2], of_cell[3], of_cell[4]
    all_below, all_here, all_repeats = of_stratum[0], of_stratum[1], of_stratum[2]
    n, k = column.size, 0
    while k < n:
        key = column[k] >> 32
        if k + 1 == n or (column[k + 1] >> 32) != key:
            cell = np.uint64(column[k] & CELL)
            stratum, before = np.uint64(strata[cell]), below[cell]
            wins[cell] += all_below[stratum] - before
            if named[cell] > 0:
                for p in range(against.shape[0]):
                    if against[p, cell] >= 0:
                        versus[p, 0, cell] += below[against[p, cell]]
            below[cell] = before + 1
            all_below[stratum] += 1
            k += 1
            continue
        n_seen = 0
        while k < n and (column[k] >> 32) == key:
            first, value = k, column[k]
            while k < n and column[k] == value:
                k += 1
            cell = np.uint64(value & CELL)
            if here[cell] == 0:
                seen[n_seen] = cell
                n_seen += 1
            here[cell] += k - first
            all_here[strata[cell]] += k - first
        for j in range(n_seen):
            cell = np.uint64(seen[j])
            stratum, count = np.uint64(strata[cell]), here[cell]
            wins[cell] += count * (all_below[stratum] - below[cell])
            ties[cell] += count * (all_here[stratum] - count)
            if named[cell] > 0:
                for p in range(against.shape[0]):
                    other = against[p, cell]
                    if other >= 0:
                        versus[p, 0, cell] += count * below[other]
                        versus[p, 1, cell] += count * here[other]
                        versus[p, 2, cell] += here[other] > 0
        for j in range(n_seen):
            cell = np.uint64(seen[j])
            stratum = np.uint64(strata[cell])
            below[cell] += here[cell]
            repeats[cell] += here[cell] - 1
            here[cell] = 0
            if all_here[stratum] > 0:
                all_below[stratum] += all_here[stratum]
                all_repeats[stratum] += all_here[stratum] - 1
                all_here[stratum] = 0


# Columns a part at a time: copied where they do not lie along memory, packed, sorted by NumPy and swept.


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Which rows are compared with which, as ``Engine.rank_counts`` is told."""

    cells: IntArray
    strata: IntArray
    against: IntArray

    @classmethod
    def of(cls, *arrays: IntArray) -> Comparisons:
        """Return what the compiled loops can read."""
        return cls(*(frozen(np.ascontiguousarray(array, dtype=np.intp)) for array in arrays))

    def blank(self, d: int) -> CellCounts:
        """Return room for the counts of ``d`` features, no value missing yet."""
        n_cells = self.strata.size
        own = np.empty((3, n_cells, d), dtype=np.int64)
        own[0] = np.bincount(self.cells[self.cells >= 0], minlength=n_cells)[:, np.newaxis]
        return CellCounts(own, np.empty((self.against.shape[0], 6, n_cells, d), dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Values column by column: entry k of column c is in row ``rows[k − base[c]]``."""

    data: Array
    rows: Array
    indptr: IntArray
    base: IntArray


def count_pairs(
    block: Array | sparse.csc_array,
    comparisons: Comparisons,
    out: CellCounts,
    *,
    grid: Grid | None = None,
    skip_missing: bool = False,
    n_jobs: int | None = None,
) -> Iterator[int]:
    """Count wins and ties in all columns of ``block``; yield how many columns are done, again and again.

    Values are compared once they are rounded to a ``grid``. Zeros that are left out are never touched. Raises
    ``NotFiniteError`` if a value is infinite, or NaN unless those are to be skipped.
    """
    if isinstance(block, np.ndarray) and plainly(block.size):
        values = snapped(block, grid)
        if not (np.isfinite(values) | (skip_missing & np.isnan(values))).all():
            raise NotFiniteError
        found = reference.count_pairs(values, comparisons.cells, comparisons.strata, comparisons.against)
        out.own[:], out.pairs[:] = found.own, found.pairs
        yield block.shape[1]
        return
    if grid is SINGLE and _kind(block.dtype) is np.float64:  # computed from values of single precision
        block = on_grid(block, grid)
    parts_of: Any = _dense_parts if isinstance(block, np.ndarray) else _sparse_parts
    parts, read = parts_of(block, comparisons.strata.size * (3 + 6 * comparisons.against.shape[0]))

    def work(part: slice) -> int:
        found = _count_part(read(part), comparisons, grid=grid, skip_missing=skip_missing)
        out.own[..., part], out.pairs[..., part] = found
        done: int = part.stop
        return done

    yield from each(work, parts, count_threads(n_jobs))


def _dense_parts(X: Array, counts: int) -> Any:
    """Return parts of an array that have about as many values, or ``counts`` for each column; and what reads one."""
    n, d = X.shape
    width = max(FEWEST_COLUMNS, PACKED_AT_ONCE // max(n, counts))
    rows = np.arange(n, dtype=np.int32)

    def read(part: slice) -> Columns:
        values = np.empty((part.stop - part.start, n), dtype=_kind(X.dtype))
        for a in range(0, n, ROWS_AT_ONCE):
            values[:, a : a + ROWS_AT_ONCE] = X[a : a + ROWS_AT_ONCE, part].T
        begins = n * np.arange(values.shape[0] + 1)
        return Columns(frozen(values.reshape(-1)), frozen(rows), begins, begins[:-1])

    return [slice(a, min(a + width, d)) for a in range(0, d, width)], read


def _sparse_parts(block: sparse.csc_array, counts: int) -> Any:
    """Return the same for a matrix compressed by columns."""
    data, indices, indptr = canonical_parts(block)
    work = indptr + counts * np.arange(indptr.size)
    ends = np.searchsorted(work, np.arange(0, int(work[-1]), PACKED_AT_ONCE)).tolist()

    def read(part: slice) -> Columns:
        begins = indptr[part.start : part.stop + 1] - indptr[part.start]
        entries = slice(int(indptr[part.start]), int(indptr[part.stop]))
        values = np.asarray(data[entries], dtype=_kind(data.dtype))
        return Columns(frozen(values), frozen(indices[entries]), begins, np.zeros(begins.size - 1, dtype=np.intp))

    return [slice(a, b) for a, b in pairwise(sorted({*ends, indptr.size - 1}))], read


def _kind(dtype: np.dtype[np.generic]) -> type[np.float32 | np.float64]:
    """Return the smaller of the two types that the loops are compiled for, if it holds every value of ``dtype``."""
    return np.float32 if np.can_cast(dtype, np.float32) else np.float64


def _count_part(columns: Columns, comparisons: Comparisons, *, grid: Grid | None, skip_missing: bool) -> CellCounts:
    width = columns.indptr.size - 1
    out = comparisons.blank(width)
    packed, ends = np.empty(columns.data.size, dtype=np.int64), np.zeros(width + 1, dtype=np.intp)
    exact, odd = np.empty((2, width), dtype=np.bool_)
    where = (columns.data, columns.rows, columns.indptr, columns.base, comparisons.cells)
    pack_columns(*where, packed, ends, exact, odd, grid is SINGLE and columns.data.dtype == np.float32)
    if odd.any() and (not skip_missing or note_missing(*where, odd, out.own[0])):
        raise NotFiniteError
    for c, (first, last) in enumerate(pairwise(ends.tolist())):
        if exact[c]:
            packed[first:last].sort()
        else:
            packed[first:last] = _sorted_by_places(columns, c, comparisons.cells, digits=grid is DOUBLE)
    sweep_columns(packed, ends, comparisons.strata, comparisons.against, out.own, out.pairs)
    return out


def _sorted_by_places(columns: Columns, c: int, cells: IntArray, *, digits: bool) -> Packed:
    """Return ranks and cells of the non-zeros of a column that single precision does not hold, sorted.

    The places of values take the room of their last bits, so that one sort brings both in order but for values that
    differ in those bits alone.
    """
    first, last = columns.indptr[c : c + 2]
    values, rows = columns.data[first:last], columns.rows[first - columns.base[c] : last - columns.base[c]]
    packed, keys, codes, *room = np.empty((5, values.size), dtype=np.int64)
    low = (values.size - 1).bit_length()
    found: Packed = packed[: pack_places(values, rows, cells, packed, keys, codes, low, digits)]
    found.sort()
    settle_places(found, keys, codes, low, *room)
    return found
