"""Compressed matrices on disk, as AnnData writes them: rows (CSR) or columns (CSC) are read a stretch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.records import FloatArray, IntArray
from sparsemean.sources.inside import sparse_format
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import AT_ONCE, Array, Run, Source, runs
from sparsemean.sources.table import check_matrix

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

GAP = 1_000_000
"""Bytes between columns that are read along: a read of its own costs as much."""

AT_A_TIME = 4
"""What is held of a piece while it is counted: the piece, the next one being read, and what either is turned from."""


class Compressed(Source):
    """A group of ``data``, ``indices`` and ``indptr``; only ``indptr`` is kept in memory."""

    sparse = True

    def __init__(self, group: Any, opened: Opened) -> None:
        self.opened = opened
        with opened.reading(), opened.parsing():
            self.by_rows = sparse_format(group) == "csr"
            shape = [int(size) for size in group.attrs.get("shape", group.attrs.get("h5sparse_shape"))]
            self.data, self.indices = group["data"], group["indices"]
            stored: Any = group["indptr"]
            self.on_disk = np.dtype(self.data.dtype)
            check_matrix(tuple(shape), self.on_disk)
            opened.check_lines(tuple(shape))
            self._check(stored, shape[0 if self.by_rows else 1] + 1)
            self.offsets: IntArray = np.asarray(stored[:]).astype(np.int64)
        n, d = self.shape = (shape[0], shape[1])
        self.along = "rows" if self.by_rows else "columns"
        # scipy knows no half precision, and its kernels read native numbers only
        self.dtype = np.dtype("f4") if self.on_disk == np.float16 else self.on_disk.newbyteorder("=")
        self.minor = d if self.by_rows else n
        self.index_type = np.dtype(np.int32 if self.minor < 2**31 else np.int64)
        self._check_offsets()

    def _check(self, stored: Any, length: int) -> None:
        for array, kinds in ((stored, "iu"), (self.indices, "iu"), (self.data, "fiub")):
            if len(array.shape) != 1 or np.dtype(array.dtype).kind not in kinds:
                raise self.opened.broken(f"a compressed matrix of {len(array.shape)}-D arrays of {array.dtype}")
            self.opened.check_size(array.shape, np.dtype(array.dtype).itemsize)
        if stored.shape[0] != length:
            raise self.opened.broken(f"indptr of {stored.shape[0]} where {length} are needed")

    def _check_offsets(self) -> None:
        offsets, stored = self.offsets, min(self.data.shape[0], self.indices.shape[0])
        if offsets[0] != 0 or offsets[-1] > stored or (np.diff(offsets) < 0).any():
            raise self.opened.broken(f"indptr does not rise from 0 to at most {stored}")

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

        kind: Any = csr_array if self.by_rows else csc_array
        major, minor = (rows, columns) if self.by_rows else (columns, rows)
        offsets = self.offsets[major.start : major.stop + 1]
        data, indices = self._stretch(int(offsets[0]), int(offsets[-1]))
        lines = major.stop - major.start
        index_type = self.index_type if data.size < 2**31 else np.dtype(np.int64)
        parts = (data, indices.astype(index_type, copy=False), (offsets - offsets[0]).astype(index_type))
        made: csr_array | csc_array = kind(parts, shape=(lines, self.minor) if self.by_rows else (self.minor, lines))
        if minor.stop - minor.start == self.minor:
            return made
        return made[:, minor] if self.by_rows else made[minor]

    def _stretch(self, first: int, last: int) -> tuple[Array, Array]:
        """Read stored values and their indices, none of them out of range."""
        with self.opened.reading():
            data = np.asarray(self.data[first:last]).astype(self.dtype, copy=False)
            indices = np.asarray(self.indices[first:last])
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= self.minor):
            raise self.opened.broken(f"an index of {indices.max()} where there are {self.minor}")
        if data.size != last - first or indices.size != last - first:
            raise self.opened.broken(f"{data.size} values where {last - first} are needed")
        return data, indices


def check_compressed(group: Any, opened: Opened) -> None:
    """Refuse a group that is no compressed matrix."""
    if not sparse_format(group):
        raise InputError(opened.argument, "hold a matrix that is dense, CSR or CSC", opened.name)
