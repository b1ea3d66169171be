"""Matrices of NumPy's and SciPy's: .npy and .npz files mapped where they lie, and sparse matrices."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from sparsemean._data.source import Array, Dense, Source
from sparsemean._data.table import (
    OF_ROWS,
    FileContext,
    ReadOptions,
    Table,
    check_feature_names,
    check_matrix,
    unreadable,
)
from sparsemean._kernels.memory_layout import is_native
from sparsemean._util.files import refuse_endless
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

WHOLE = "stay as it is while it is read"
LONGEST_HEADER = 70_000
"""Bytes that are looked at for a heading, of which NumPy takes 10,000: it would make room for as many as one claims."""


class Npy(Source):
    """A matrix in a .npy file. Rows that follow each other are read along rows, columns along columns."""

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[np.generic], fortran: bool
    ) -> None:
        self.path, self.offset, self.shape, self.dtype = path, offset, shape, dtype
        self.along = "columns" if fortran else "rows"

    def block(self, rows: slice, columns: slice) -> Array:
        """Map the stretch of the file that holds the rows (or columns, if those follow each other)."""
        n, d = self.shape
        if self.along == "columns":
            return self._mapped(columns, n).T[rows]
        return self._mapped(rows, d)[:, columns]

    def _mapped(self, lines: slice, length: int) -> Array:
        shape = (lines.stop - lines.start, length)
        offset = self.offset + lines.start * length * self.dtype.itemsize
        refuse_endless(self.path)
        try:
            mapped: Array = np.memmap(self.path, self.dtype, "r", offset, shape)
        except ValueError as error:  # the file is looked at each time, and no longer reaches so far
            raise InputError("FILE", WHOLE, f"{self.path.name}, cut short since", "run it again") from error
        except OSError as error:  # or is gone, or a folder
            raise unreadable(self.path, error) from error
        return np.require(mapped, requirements="A")  # in an archive values begin anywhere: loops read whole multiples


def read_npy(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open a .npy file; object arrays, which would need unpickling, are refused."""
    wanted.refuse(*OF_ROWS, "select", "drop", "layer", "dataset", kind=".npy files")
    with path.open("rb") as file:
        start = io.BytesIO(file.read(LONGEST_HEADER))
    shape, fortran, dtype = _header(start, opened)
    check_matrix(shape, dtype)
    if opened.size < start.tell() + math.prod(shape) * dtype.itemsize:
        raise opened.broken(f"{opened.size} bytes where shape {shape} needs more")
    return Table(Npy(path, start.tell(), (shape[0], shape[1]), dtype, fortran))


def _header(start: IO[bytes], opened: FileContext) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read the shape, layout and type of an array: a text in Python, which can be wrong in many ways."""
    with opened.parsing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python 2 wrote is read all the same
        version = npy_format.read_magic(start)
        read_header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran, dtype = read_header(start)
    if dtype.hasobject:
        raise opened.broken("an array of Python objects")
    return shape, fortran, dtype


# NumPy's archives of arrays: mapped where they lie if they are not packed. SciPy keeps sparse matrices in them too.

SPARSE = {"format.npy", "shape.npy", "data.npy"}
LOCAL_HEADER = 30
"""Bytes of a zip archive before the name of a member; the last four are the lengths of the name and what follows it."""


def read_npz(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open the array called ``wanted.dataset`` of a .npz file, or the only one; objects are never unpickled."""
    wanted.refuse(*OF_ROWS, "select", "drop", "layer", kind=".npz files")
    with path.open("rb") as file, zipfile.ZipFile(file) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's about headers that Python 2 wrote
        members = {info.filename: info for info in archive.infolist()}
        if wanted.dataset is None and set(members) >= SPARSE:
            check_members(archive, opened)
            return _sparse_table(path, archive, opened)
        names = [name.removesuffix(".npy") for name in members if name.endswith(".npy")]
        if not names:
            raise opened.broken("no arrays")
        info = members[f"{opened.choose(names, wanted.dataset, 'arrays', 'name an array of the file')}.npy"]
        _check_size(info, opened)
        return Table(_source(path, file, archive, info, opened))


def _source(
    path: Path, file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo, opened: FileContext
) -> Source:
    """Return a member as a source, after a look at its header only if it is not packed."""
    with archive.open(info) as member:
        shape, fortran, dtype = _header_in(member, info, opened)
        check_matrix(shape, dtype)
        offset = member.tell()
        if info.compress_type == zipfile.ZIP_STORED:
            start = _start(file, info) + offset
            if start + info.file_size - offset > opened.size:
                raise opened.broken("cut short")
            return Npy(path, start, (shape[0], shape[1]), dtype, fortran)
    with archive.open(info) as member:  # from its header on; its sum is checked at its end
        return Dense(npy_format.read_array(member, allow_pickle=False))


def _header_in(
    member: IO[bytes], info: zipfile.ZipInfo, opened: FileContext
) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read the header of a member, unless other bytes follow than it says: room is made for what it says."""
    shape, fortran, dtype = _header(member, opened)
    left = info.file_size - member.tell()
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise opened.broken(f"{left} bytes where shape {shape} needs others")
    return shape, fortran, dtype


def check_members(archive: zipfile.ZipFile, opened: FileContext) -> None:
    """Refuse an archive whose arrays are larger than it can hold, or not what their headers say."""
    if sum(info.compress_size for info in archive.infolist()) > opened.size:
        raise opened.broken("arrays that share bytes, or cut short")
    opened.check_held(sum(info.file_size for info in archive.infolist()))
    for info in archive.infolist():
        _check_size(info, opened)
        with archive.open(info) as member:
            _header_in(member, info, opened)


def _start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return where the bytes of a member begin."""
    file.seek(info.header_offset)
    header = file.read(LOCAL_HEADER)
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return info.header_offset + LOCAL_HEADER + lengths


def _check_size(info: zipfile.ZipInfo, opened: FileContext) -> None:
    """Refuse a member that so few bytes cannot hold."""
    if info.compress_size > opened.size:
        raise opened.broken("cut short")
    replace(opened, size=info.compress_size).check_held(info.file_size)


def _sparse_table(path: Path, archive: zipfile.ZipFile, opened: FileContext) -> Table:
    """Return a matrix that `scipy.sparse.save_npz` wrote."""
    from scipy.sparse import load_npz

    with archive.open("shape.npy") as member:
        shape = npy_format.read_array(member, allow_pickle=False)
    with opened.parsing():  # sizes that are no numbers, or no end of them
        opened.check_lines(tuple(int(size) for size in shape.flat))
    return read_sparse(load_npz(io.BytesIO(path.read_bytes())))


# SciPy's sparse matrices and arrays: what is not stored is zero, and is neither filled in nor looked at.

WEIGHT = 8
"""Times its own size that a piece counts for: it is held beside the next one, and small ones are turned in cache."""


def read_sparse(X: Any, feature_names: object = None) -> Table:
    """Take a matrix compressed by rows or columns as it lies in memory; other formats are compressed by rows first."""
    check_matrix(X.shape, X.dtype)
    names = check_feature_names(feature_names, X.shape[1])
    return Table(Sparse(X if X.format in ("csr", "csc") else X.tocsr()), names)


class Sparse(Source):
    """A matrix compressed by rows, read along rows, or by columns, read along columns.

    Entries that lie out of order or twice in one place make it be turned the other way, which sorts them.
    """

    sparse = True
    in_memory = True

    def __init__(self, X: csr_array | csc_array) -> None:
        self.matrix = _in_order(_viewed(X))
        self.shape, self.dtype = (int(X.shape[0]), int(X.shape[1])), self.matrix.dtype
        self.along = "rows" if self.matrix.format == "csr" else "columns"

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value, zero or not, takes while it is read, on average."""
        an_entry = self.matrix.data.itemsize + self.matrix.indices.itemsize
        return max(1, self.matrix.nnz) * WEIGHT * an_entry / (self.shape[0] * self.shape[1])

    def block(self, rows: slice, columns: slice) -> csc_array:
        """Return some columns without copying their entries, or some rows turned."""
        width = columns.stop - columns.start
        if self.along == "rows":
            from sparsemean._kernels import sparse

            return _by_columns(sparse.turned(*self._lines(rows), columns), (rows.stop - rows.start, width))
        part = _by_columns(self._lines(columns), (self.shape[0], width))
        return part if rows == slice(0, self.shape[0]) else part[rows]

    def _lines(self, lines: slice) -> tuple[Array, Array, IntArray]:
        """Return the parts of some rows (columns, if those are compressed) over the same memory."""
        matrix, ends = self.matrix, self.matrix.indptr[lines.start : lines.stop + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        return matrix.data[entries], matrix.indices[entries], np.asarray(ends - ends[0], dtype=np.intp)

    def _take(self, columns: IntArray) -> FloatArray:
        """Return all rows of rising ``columns`` as a dense float64 array."""
        n, matrix = self.shape[0], self.matrix
        if self.along == "rows":
            from sparsemean._kernels import sparse

            return sparse.take_columns(*self._lines(slice(0, n)), columns)
        out = np.zeros((n, columns.size))
        for k, column in enumerate(columns):
            entries = slice(matrix.indptr[column], matrix.indptr[column + 1])
            out[matrix.indices[entries], k] = matrix.data[entries]
        return out


def _viewed(X: csr_array | csc_array) -> csr_array | csc_array:
    """Return an array over the same memory, unless its parts do not fit together: compiled loops trust them."""
    from scipy.sparse import csc_array, csr_array

    kind = csr_array if X.format == "csr" else csc_array
    data = X.data if is_native(X.data) else X.data.astype(np.float64)
    try:
        matrix = kind((data, X.indices, X.indptr), shape=X.shape)
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise InputError("X", "be a sparse matrix whose parts fit together", str(error)) from error
    return matrix


def _by_columns(parts: tuple[Array, Array, IntArray], shape: tuple[int, int]) -> csc_array:
    """Return entries that are in order as an array of SciPy's, whose own constructor would copy short views."""
    from scipy.sparse import csc_array

    made: Any = csc_array(shape, dtype=parts[0].dtype)
    made.data, made.indices, made.indptr = parts[0], parts[1], parts[2].astype(parts[1].dtype)
    made.has_canonical_format = True  # else whoever asks has every entry looked at
    found: csc_array = made
    return found


def _in_order(matrix: csr_array | csc_array) -> csr_array | csc_array:
    """Return the matrix, turned the other way where entries are out of order or share a place."""
    if matrix.has_canonical_format:
        return matrix
    turned = matrix.tocsc() if matrix.format == "csr" else matrix.tocsr()
    turned.sum_duplicates()
    return turned
