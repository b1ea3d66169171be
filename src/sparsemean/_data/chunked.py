"""What HDF5 and zarr share: groups and arrays in chunks, and the compressed matrices that AnnData makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import AT_ONCE, Along, Array, Run, Source, runs
from sparsemean._data.table import FileContext, check_matrix
from sparsemean._util.checks import list_names
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array


class StoredArray(Protocol):
    """An array of h5py or zarr, whose values are read when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the values."""

    @property
    def attrs(self) -> Mapping[str, object]:
        """What is said of the array."""

    def __getitem__(self, key: slice | tuple[slice, slice] | tuple[()], /) -> Array: ...


class StoredGroup(Protocol):
    """A group of h5py or zarr, whose members are groups and arrays."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """What is said of the group."""

    def keys(self) -> Iterable[str]:
        """Return the names of the members."""

    def listing(self) -> Iterable[tuple[str, object]]:
        """Return everything below, by path."""

    def __contains__(self, name: str, /) -> bool: ...

    def __getitem__(self, name: Any, /) -> Any: ...


MakeSource = Callable[[StoredArray, FileContext], Source]


def is_group(element: object) -> TypeGuard[StoredGroup]:
    """Whether an element of a file holds others, rather than values."""
    return hasattr(element, "keys") and hasattr(element, "attrs")


def is_matrix(array: object) -> bool:
    """Whether an array is a matrix of numbers."""
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    return len(shape or ()) == 2 and getattr(dtype, "kind", "V") in "fiub"


def text(value: object) -> str:
    """Return an attribute, which older files hold as bytes, as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def sparse_format(group: StoredGroup) -> str:
    """Return "csr" or "csc" for a group that holds a compressed matrix, else nothing."""
    said = group.attrs.get("h5sparse_format", group.attrs.get("encoding-type", ""))
    form = text(said).removesuffix("_matrix")
    return form if form in ("csr", "csc") else ""


def pick(root: StoredGroup, name: str | None, opened: FileContext) -> Any:
    """Return the array, or compressed matrix, called ``name``, or the only matrix below ``root``."""
    if name is not None and name.strip("/") and name in root:
        element = root[name]
        if sparse_format(element) if is_group(element) else is_matrix(element):
            return element
    arrays = {label: element for label, element in root.listing() if not is_group(element)}
    found = {label: element for label, element in arrays.items() if is_matrix(element)}
    if not found:
        kinds = sorted({_described(element) for element in arrays.values()})
        received = f"{opened.name} with {', '.join(kinds[:3]) or 'no arrays'}"
        raise InputError(opened.argument, "hold a matrix of numbers", received)
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    rule = "name one of several arrays" if name is None else "name a matrix of numbers in the file"
    has = f"{opened.name} has {list_names(sorted(found))}"
    raise InputError("--dataset", rule, "none" if name is None else repr(name), has)


def _described(array: object) -> str:
    if hasattr(array, "filename"):
        return "links to other files"
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return "types"
    return f"{len(array.shape or ())}-D arrays of {np.dtype(array.dtype)}"


# Arrays that lie in chunks: which way to read them so that none is read twice.

MOST_AT_ONCE = 4 * AT_ONCE


class Chunked(Source):
    """A two-dimensional array of h5py or zarr, read by slices."""

    def __init__(self, array: StoredArray, chunks: tuple[int, ...], opened: FileContext) -> None:
        self.array, self.opened = array, opened
        self.shape, self.dtype = (int(array.shape[0]), int(array.shape[1])), np.dtype(array.dtype)
        high, wide = chunks
        self.together = max(1, min(int(wide), self.shape[1]))
        self.along, self.grain = way_to_read(self.shape, (high, wide), self.dtype.itemsize)

    def block(self, rows: slice, columns: slice) -> Array:
        """Read some rows of some columns."""
        with self.opened.reading():
            return np.asarray(self.array[rows, columns])

    def runs(self, columns: IntArray) -> list[Run]:
        """Read columns of one chunk together, and no more at once than a piece of the matrix."""
        n, d = self.shape
        at_once = AT_ONCE // (n * self.dtype.itemsize) // self.together * self.together
        return runs(columns, self.together, max(self.together, at_once) if self.along == "columns" else d)


def check_array(array: StoredArray, opened: FileContext) -> None:
    """Refuse what is no matrix of numbers, or claims to be larger than the file can hold."""
    if not hasattr(array, "shape"):  # a type that HDF5 stores under a name
        raise InputError(opened.argument, "hold a matrix of numbers", f"{opened.name} with {_described(array)}")
    check_matrix(tuple(array.shape or ()), np.dtype(array.dtype))
    opened.check_size(tuple(map(int, array.shape)), np.dtype(array.dtype).itemsize)
    opened.check_lines(array.shape)


def way_to_read(shape: tuple[int, int], chunks: tuple[int, int], itemsize: int) -> tuple[Along, int]:
    """Return the direction in which whole chunks are read with little in memory, and how many lines lie together.

    Columns are preferred, as some passes need all rows of a feature.

    Examples
    --------
    >>> way_to_read((10_000, 20_000), (313, 625), 4), way_to_read((1_000_000, 1000), (1000, 1000), 8)
    (('columns', 625), ('rows', 1000))
    """
    n, d = shape
    high, wide = max(1, min(chunks[0], n)), max(1, min(chunks[1], d))
    down, across = n * wide * itemsize, high * d * itemsize
    if down <= AT_ONCE:
        return "columns", wide
    if across <= AT_ONCE or across < down:
        return "rows", high
    # chunks too large to be read whole are read again rather than held
    return "columns", wide if down <= MOST_AT_ONCE else max(1, min(wide, MOST_AT_ONCE // (n * itemsize)))


# Compressed matrices, read in stretches of their entries.

GAP = 1_000_000
"""Bytes between columns that are read along: a read of its own costs as much."""

AT_A_TIME = 4
"""What is held of a piece while it is counted: the piece, the next one being read, and what either is turned from."""


def source_of(element: Any, opened: FileContext, dense: MakeSource) -> Source:
    """Return a matrix as a source: a compressed one, or an array that ``dense`` makes one of."""
    if not is_group(element):
        return dense(element, opened)
    if not sparse_format(element):
        raise InputError(opened.argument, "hold a matrix that is dense, CSR or CSC", opened.name)
    return Compressed(element, opened)


class Compressed(Source):
    """A group of ``data``, ``indices`` and ``indptr``; only ``indptr`` is kept in memory."""

    sparse = True

    def __init__(self, group: StoredGroup, opened: FileContext) -> None:
        self.opened = opened
        with opened.reading(), opened.parsing():
            self.by_rows = sparse_format(group) == "csr"
            n, d = (int(size) for size in group.attrs.get("shape", group.attrs.get("h5sparse_shape")))
            self.data, self.indices, stored = (self._part(group, name) for name in ("data", "indices", "indptr"))
            check_matrix((n, d), np.dtype(self.data.dtype))
            opened.check_lines((n, d))
            major, self.minor = (n, d) if self.by_rows else (d, n)
            if stored.shape[0] != major + 1:
                raise opened.broken(f"indptr of {stored.shape[0]} where {major + 1} are needed")
            self.offsets: IntArray = np.asarray(stored[:]).astype(np.int64)
        self.shape, self.along = (n, d), "rows" if self.by_rows else "columns"
        # scipy knows no half precision, and its kernels read native numbers only
        on_disk = np.dtype(self.data.dtype)
        self.dtype = np.dtype("f4") if on_disk == np.float16 else on_disk.newbyteorder("=")
        self.index_type = np.dtype(np.int32 if self.minor < 2**31 else np.int64)
        least = min(self.data.shape[0], self.indices.shape[0])
        if self.offsets[0] != 0 or self.offsets[-1] > least or (np.diff(self.offsets) < 0).any():
            raise opened.broken(f"indptr does not rise from 0 to at most {least}")

    def _part(self, group: StoredGroup, name: str) -> StoredArray:
        """Return one of the three arrays, unless it is not what its name says."""
        array: StoredArray = group[name]
        kind = np.dtype(array.dtype).kind
        if len(array.shape) != 1 or (kind not in "iu" and name != "data"):
            raise self.opened.broken(f"a compressed matrix of {len(array.shape)}-D arrays of {array.dtype}")
        self.opened.check_size(array.shape, np.dtype(array.dtype).itemsize)
        return array

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value, stored or not, takes while it is read, on average."""
        n, d = self.shape
        an_entry = self.dtype.itemsize + self.index_type.itemsize
        return max(1.0, float(self.offsets[-1])) * AT_A_TIME * an_entry / (n * d)

    def block(self, rows: slice, columns: slice) -> csc_array:
        """Read some rows of some columns, repeated entries added up."""
        made = self._read(rows, columns).tocsc()
        made.sum_duplicates()
        return made

    def _take(self, columns: IntArray) -> FloatArray:
        """Return all rows of rising ``columns``: rows are read once, however many columns are wanted."""
        n = self.shape[0]
        out = np.empty((n, columns.size), order="F")
        for read, at, wanted in self.runs(columns):
            for rows in self.stripes() if self.by_rows else [slice(0, n)]:
                out[rows, at] = self._read(rows, read)[:, wanted].toarray()
        return out

    def runs(self, columns: IntArray) -> list[Run]:
        """Read rows once, however many columns are wanted; of columns those that are not far apart together."""
        n, d = self.shape
        if self.by_rows:
            return runs(columns, d, d)
        a_column = n * self.bytes_a_value
        return runs(columns, max(1, int(GAP / a_column)), max(1, int(AT_ONCE / a_column)))

    def _read(self, rows: slice, columns: slice) -> csr_array | csc_array:
        from scipy.sparse import csc_array, csr_array

        major, minor = (rows, columns) if self.by_rows else (columns, rows)
        offsets = self.offsets[major.start : major.stop + 1]
        data, indices = self._stretch(int(offsets[0]), int(offsets[-1]))
        lines = major.stop - major.start
        index_type = self.index_type if data.size < 2**31 else np.dtype(np.int64)
        parts = (data, indices.astype(index_type, copy=False), (offsets - offsets[0]).astype(index_type))
        if self.by_rows:
            by_rows = csr_array(parts, shape=(lines, self.minor))
            return by_rows if minor.stop - minor.start == self.minor else by_rows[:, minor]
        by_columns = csc_array(parts, shape=(self.minor, lines))
        return by_columns if minor.stop - minor.start == self.minor else by_columns[minor]

    def _stretch(self, first: int, last: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Read stored values and their indices, none of them out of range."""
        with self.opened.reading():
            data = np.asarray(self.data[first:last]).astype(self.dtype, copy=False)
            indices = np.asarray(self.indices[first:last])
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= self.minor):
            raise self.opened.broken(f"an index of {indices.max()} where there are {self.minor}")
        if data.size != last - first or indices.size != last - first:
            raise self.opened.broken(f"{data.size} values where {last - first} are needed")
        return data, indices
