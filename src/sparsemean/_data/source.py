"""What every kind of input answers: its shape, which way it likes to be read, and "rows a..b of columns c..d"."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.memory_layout import cut, is_native, precision_of
from sparsemean._kernels.rounding import DOUBLE, SINGLE, Grid
from sparsemean._util.records import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy import sparse

Array = npt.NDArray[np.generic]
Block: TypeAlias = "Array | sparse.csc_array"
"""Dense, of any layout and real type, or compressed by columns."""
EngineName = Literal["host", "dask", "gpu"]
Along = Literal["rows", "columns"]
Run = tuple[slice, slice, IntArray]
"""Columns to read together, where they go, and which of them are wanted."""
AT_ONCE = 64_000_000
"""Bytes of dense values that are read in one go where the source leaves the choice."""

SCANNED_AT_ONCE = 4_000_000
"""Values that are looked through at once for one that is not finite."""
TAKEN_AT_ONCE = 32_000_000
"""Values of chosen columns that are held at once: 256 MB."""
TAKEN_OF_MEMORY = 2_000_000
"""The same of what lies in memory, where a second look costs nothing: 16 MB."""
CHECKED, STRETCHES = 4_000_000, 8
"""Values up to which a checksum is of all, some hundredths of a second; of more, stretches of a 32nd of that."""


@dataclass(frozen=True, slots=True, eq=False)
class Checksum:
    """By which data are known again."""

    whole: int
    """Of all values, or of stretches of a large table."""
    columns: IntArray | None = None
    """Of every value of some columns of a large table, −1 of the others."""


class Source(ABC):
    """Rows by features that are read in blocks. Nothing is read before it is asked for, and nothing is kept.

    Attributes
    ----------
    shape
        Rows and columns.
    dtype
        Of the values; real.
    along
        Which way it likes to be read: whole columns, a few at a time, or whole rows.
    grain
        Columns (rows, if read along rows) that lie together: a read of fewer costs as much.
    sparse
        Whether blocks are compressed by columns, their zeros left out.
    in_memory
        Whether columns that were read need not be kept, as they lie in memory anyway.
    engine
        Which engine of `_evidence.counting.engines` goes over it.
    native
        The array in memory that compiled kernels read as it is; None where there is none.
    """

    shape: tuple[int, int]
    dtype: np.dtype[np.generic]
    along: Along = "columns"
    grain: int = 1
    sparse: bool = False
    in_memory: bool = False
    engine: EngineName = "host"
    native: Array | None = None
    _precision: float | None = None

    @abstractmethod
    def block(self, rows: slice, columns: slice) -> Block:
        """Return some rows of some columns, both slices with step 1 and ends inside the shape."""

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value takes in memory when it is read, on average."""
        return float(self.dtype.itemsize)

    @property
    def precision(self) -> float:
        """Relative precision in which values were measured: eps of their type, whatever they are read as."""
        return precision_of(self.dtype) if self._precision is None else self._precision

    @property
    def grid(self) -> Grid | None:
        """To which numbers values are rounded where groups are compared; None where they stay as they are."""
        return {2.0**-52: DOUBLE, 2.0**-23: SINGLE}.get(self.precision) if self.dtype.kind == "f" else None

    @property
    def measured(self) -> Source:
        """What was measured, where values were adjusted since; else itself."""
        return self

    def take(self, columns: IntArray) -> FloatArray:
        """Return all rows of ``columns``, in any order, as a dense float64 array."""
        if (columns[1:] > columns[:-1]).all():
            return self._take(columns)
        rising, back = np.unique(columns, return_inverse=True)
        return self._take(rising)[:, back]

    def _take(self, columns: IntArray) -> FloatArray:
        """Return all rows of rising ``columns`` as a dense float64 array."""
        n = self.shape[0]
        out = np.empty((n, columns.size), order="F")
        runs = self.runs(columns)
        for rows in self.stripes() if self.along == "rows" else [slice(0, n)]:
            for read, at, wanted in runs:
                with np.errstate(invalid="ignore"):  # NaNs of some bits are warned of when they are made longer
                    out[rows, at] = as_dense(self.block(rows, read)[:, wanted])
        return out

    def takes_of(self, columns: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield rising ``columns`` a good many at a time: each piece may cost a read of everything."""
        for few in self.taken_together(columns):
            yield few, self.take(few)

    def taken_together(self, columns: IntArray) -> list[IntArray]:
        """Cut chosen columns into as many as are taken together."""
        values = TAKEN_OF_MEMORY if self.in_memory else TAKEN_AT_ONCE
        return [columns[part] for part in cut(columns.size, max(1, values // self.shape[0]), 1)]

    def cached(self) -> Source:
        """Return the same, every column in memory if they are not many, for those who read them again and again."""
        few, *more = self.taken_together(np.arange(self.shape[1]))
        return self if self.in_memory or more else ColumnCache(self, few, self.take(few))

    def select(self, columns: IntArray) -> Any:
        """Return ``columns`` as what `SparseMean.transform` makes of such a source."""
        return self.take(columns)

    def find_non_finite(self, *, at: tuple[int, int] = (0, 0), skip_missing: bool = False) -> NonFiniteValue | None:
        """Look for a value that is not finite, some columns at a time; see `find_non_finite`."""
        n, d = self.shape
        for columns in cut(d, max(1, AT_ONCE // (8 * n)), 1):
            block, first = self.block(slice(0, n), columns), (at[0], at[1] + columns.start)
            if place := find_non_finite(block, at=first, skip_missing=skip_missing):
                return place
        return None

    def of_rows(self, rows: IntArray) -> Source:
        """Return some rising rows only."""
        return Subset(self, rows=rows)

    def there(self) -> AbstractContextManager[None]:
        """Return a context for computing where the values lie, or are sent to: a device complains in one line."""
        if self.engine != "gpu":
            return nullcontext()
        from sparsemean._data.gpu import device_errors

        return device_errors()

    def on_engine(self, engine: EngineName) -> Source:
        """Return the same source, for another engine to go over."""
        other = copy(self)
        other.engine = engine
        return other

    def early_checksum(self, columns: IntArray) -> Checksum | None:
        """Return the checksum of what lies in memory here, where its owner may change it; what is read costs a read."""
        return self.checksum(columns) if self.in_memory and self.engine == "host" else None

    def checksum(self, columns: IntArray) -> Checksum:
        """Return numbers that tell these values, their order and their precision from others.

        Of a large table they are of stretches, and of each of some rising ``columns``, as many as are held at once.
        Layout and type make no difference as long as values are the same; of zeros and NaN there is one each.
        """
        n, d = self.shape
        stretches, most = (1, CHECKED) if n * d <= CHECKED else (STRETCHES, CHECKED // 32)
        height = min(n, max(math.isqrt(most), most // d))
        width = min(d, most // height)
        found = zlib.crc32(repr(self.precision).encode())
        corners = (np.linspace(0, rest, stretches).astype(int).tolist() for rest in (n - height, d - width))
        for row, column in zip(*corners, strict=True):
            block = as_dense(self.block(slice(row, row + height), slice(column, column + width)))
            found = zlib.crc32(_alike(block), found)
        if stretches == 1:
            return Checksum(found)
        own = np.full(d, -1)
        for which, values in self.takes_of(columns[: TAKEN_AT_ONCE // n]):
            own[which] = [zlib.crc32(_alike(column)) for column in values.T]
        return Checksum(found, own)

    def stripes(self) -> list[slice]:
        """Cut the rows into stretches of about ``AT_ONCE`` bytes, whole grains each."""
        n, d = self.shape
        return cut(n, max(1, int(AT_ONCE / (d * self.bytes_a_value))), self.grain if self.along == "rows" else 1)

    def runs(self, columns: IntArray) -> list[Run]:
        """Return what is read of ``columns`` at once: by default those that are neighbours."""
        return runs(columns, 1, self.shape[1])


class Dense(Source):
    """An array in memory, or mapped into it, where it lies."""

    in_memory = True

    def __init__(self, values: Array, *, precision: float | None = None) -> None:
        self.values, self.dtype, self._precision = values, values.dtype, precision
        self.shape = (int(values.shape[0]), int(values.shape[1]))
        self.native = values if is_native(values) else None

    def block(self, rows: slice, columns: slice) -> Array:
        """Return a view."""
        return self.values[rows, columns]

    def take(self, columns: IntArray) -> FloatArray:
        """Return all rows of ``columns``."""
        from sparsemean._kernels.columns import gather
        from sparsemean._kernels.compiling import plainly

        if self.native is not None and not plainly(self.shape[0] * columns.size):
            return gather(self.values, np.arange(self.shape[0]), columns)
        with np.errstate(invalid="ignore"):  # NaNs of some bits are warned of when they are made longer
            return self.values.take(columns, axis=1).astype(np.float64, copy=False)


class Subset(Source):
    """Some rows and columns of another source, rising; None stands for all."""

    def __init__(self, source: Source, columns: IntArray | None = None, *, rows: IntArray | None = None) -> None:
        n, d = source.shape
        self.source, self.columns, self.rows = source, np.arange(d) if columns is None else columns, rows
        self.shape, self.dtype = (n if rows is None else int(rows.size), int(self.columns.size)), source.dtype
        self.along, self.grain, self.sparse = source.along, source.grain, source.sparse
        self.in_memory, self._precision = source.in_memory, source.precision

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value takes in memory."""
        return self.source.bytes_a_value

    @property
    def measured(self) -> Source:
        """The same of what was measured."""
        measured = self.source.measured
        return self if measured is self.source else Subset(measured, self.columns, rows=self.rows)

    def block(self, rows: slice, columns: slice) -> Block:
        """Return some of the chosen rows and columns."""
        wanted, of_rows = self.columns[columns], rows if self.rows is None else self.rows[rows]
        first, last = int(wanted[0]), int(wanted[-1]) + 1
        if isinstance(of_rows, slice):
            read = self.source.block(of_rows, slice(first, last))
        else:
            above, below = int(of_rows[0]), int(of_rows[-1]) + 1
            read = self.source.block(slice(above, below), slice(first, last))[of_rows - above]
        return read if last - first == wanted.size else read[:, wanted - first]

    def _take(self, columns: IntArray) -> FloatArray:
        """Return the chosen rows of some of the chosen columns."""
        taken = self.source.take(self.columns[columns])
        return taken if self.rows is None else taken[self.rows]


class ColumnCache(Source):
    """Another source, some of whose columns were kept when they came by and are not read again."""

    def __init__(self, source: Source, columns: IntArray, values: FloatArray) -> None:
        self.source, self.columns, self.values = source, columns, values
        self.shape, self.dtype, self._precision = source.shape, source.dtype, source.precision

    def block(self, rows: slice, columns: slice) -> Block:
        """Read some rows of some columns."""
        return self.source.block(rows, columns)

    def _take(self, columns: IntArray) -> FloatArray:
        """Return columns, from memory where all of them are held."""
        if not np.isin(columns, self.columns).all():
            return self.source.take(columns)
        return self.values[:, np.searchsorted(self.columns, columns)]

    def adding(self, columns: IntArray) -> ColumnCache:
        """Return the same with more columns, read now."""
        new = np.setdiff1d(columns, self.columns)
        order = np.argsort(held := np.concatenate((self.columns, new)))
        values = np.concatenate((self.values, self.source.take(new)), axis=1)
        return ColumnCache(self.source, held[order], values[:, order])


@dataclass(frozen=True, slots=True)
class NonFiniteValue:
    """A value that is not finite, and where among all rows and columns it stands."""

    row: int
    column: int
    value: float


def find_non_finite(block: Block, *, at: tuple[int, int] = (0, 0), skip_missing: bool = False) -> NonFiniteValue | None:
    """Return the first value of the first column that is infinite or, unless NaN is a missing value, NaN.

    ``at`` is the place of the block: its first row and column.
    """

    def bad_in(values: Array) -> npt.NDArray[np.bool_]:
        return np.isinf(values) if skip_missing else ~np.isfinite(values)

    first_row, first_column = at
    if not isinstance(block, np.ndarray):  # compressed by columns: only what is stored can be bad
        stored = np.flatnonzero(bad_in(block.data))[:1]
        suspect = int(np.searchsorted(block.indptr, stored[0], side="right")) - 1 if stored.size else 0
        block, first_column = as_dense(block[:, suspect : suspect + 1]), first_column + suspect
    for columns in cut(block.shape[1], max(1, SCANNED_AT_ONCE // max(block.shape[0], 1)), 1):
        bad = bad_in(block[:, columns])
        if bad.any():
            column = int(bad.any(axis=0).argmax())
            row, column = int(bad[:, column].argmax()), column + columns.start
            return NonFiniteValue(first_row + row, first_column + column, float(block[row, column]))
    return None


def _alike(values: Array) -> memoryview:
    """Return the bytes of values as doubles, row by row, with one kind of zero and of NaN."""
    with np.errstate(invalid="ignore"):  # NaNs of some bits are warned of when they are made longer
        values = np.add(values, 0.0, dtype=np.float64, order="C")
    values[np.isnan(values)] = np.nan
    return values.data


def as_dense(block: Block) -> Array:
    """Return a block with its zeros filled in."""
    return block if isinstance(block, np.ndarray) else block.toarray()


def runs(columns: IntArray, gap: int, most: int) -> list[Run]:
    """Return what to read, where it goes and which of it is wanted, for rising ``columns``.

    Those no further apart than ``gap`` are read together, as long as they lie in one stretch of ``most`` columns.

    Examples
    --------
    >>> [read for read, _, _ in runs(np.array([1, 3, 8, 9, 11]), 2, 10)]
    [slice(1, 4, None), slice(8, 10, None), slice(11, 12, None)]
    """
    if not columns.size:
        return []
    stretch = columns // most
    apart = (columns[1:] - columns[:-1] > gap) | (stretch[1:] > stretch[:-1])
    ends = pairwise((0, *(np.flatnonzero(apart) + 1).tolist(), columns.size))
    return [(slice(int(columns[a]), int(columns[b - 1]) + 1), slice(a, b), columns[a:b] - columns[a]) for a, b in ends]
