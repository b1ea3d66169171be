"""Matrices of NumPy's and SciPy's: .npy and .npz files mapped where they lie, sparse matrices, Matrix Market text."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from sparsemean._data.source import Array, Dense, Source
from sparsemean._data.table import (
    MOST_HELD,
    OF_ROWS,
    FileContext,
    ReadOptions,
    Table,
    check_feature_names,
    check_matrix,
    unreadable,
)
from sparsemean._kernels.memory_layout import is_native
from sparsemean._util.files import Unpacked, refuse_endless
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


# Matrix Market files: a few lines of heading, then the entries of a sparse matrix, numbers with blanks between them.

READ_AT_ONCE = 8_000_000
LONGEST_LINE = 10_000
MOST_REMARKS = 10_000
"""Lines of a heading."""
FIELDS = {"real": 3, "double": 3, "integer": 3, "pattern": 2}
"""Numbers of an entry, by what is said of its value: row and column, and the value unless all are 1."""


def read_mtx(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Read a .mtx or .mtx.gz file: its rows are rows, its columns are features; entries of one place are added."""
    from scipy import sparse

    wanted.refuse(*OF_ROWS, "select", "drop", "layer", "dataset", kind=".mtx files")
    packed = path.name.lower().endswith(".gz")
    with path.open("rb") as raw:
        file = Unpacked(raw, opened.check_held) if packed else raw
        shape, numbers = _head(file, opened, MOST_HELD if packed else 1)
        filled = 0
        for part in _numbers(file, opened):
            filled += part.size
            if filled > numbers.size:
                break
            numbers.flat[filled - part.size : filled] = part
    if filled != numbers.size:
        raise opened.broken(f"not the {len(numbers)} entries it promises")
    at = numbers[:, :2]
    if not ((at >= 1) & (at <= shape) & (at == np.floor(at))).all():
        raise opened.broken(f"an entry outside of shape {shape}")
    values = numbers[:, 2] if numbers.shape[1] == 3 else np.ones(len(numbers))
    row, column = at.T.astype(np.int32 if max(shape) < 2**31 else np.int64) - 1
    return read_sparse(sparse.coo_array((values, (row, column)), shape=shape).tocsc())


def _head(file: IO[bytes] | Unpacked, opened: FileContext, packed: int) -> tuple[tuple[int, int], FloatArray]:
    """Return the shape that the heading says, and room for the entries unless the file cannot hold so many."""
    banner = file.readline(LONGEST_LINE).decode("ascii").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
        raise opened.broken("no heading")
    if banner[3] == "complex":
        raise InputError("FILE", "be real", f"{opened.name} with complex values", "take real parts or magnitudes first")
    if banner[2] != "coordinate" or banner[4] != "general":
        rule, advice = "be a general matrix of coordinates", "write it so with scipy.io.mmwrite, or as .npz"
        raise InputError("FILE", rule, f"{opened.name}, {banner[2]} {banner[4]}", advice)
    for _ in range(MOST_REMARKS):
        line = file.readline(LONGEST_LINE)
        if not line.startswith(b"%") and (line.strip() or not line):
            break
    else:
        raise opened.broken(f"more than {MOST_REMARKS:,} lines before its size")
    sizes = [int(size.replace(b"_", b"?")) for size in line.split()]  # int() would take 1_0
    if banner[3] not in FIELDS or len(sizes) != 3 or min(sizes) < 0:
        raise opened.broken("a heading that makes no sense")
    n, d, entries = sizes
    width = FIELDS[banner[3]]
    check_matrix((n, d), np.dtype(np.float64))
    if 2 * width * entries > packed * opened.size:
        raise opened.broken(f"shape ({n}, {d}) with {entries} entries in so few bytes")
    opened.check_held(8 * width * entries)
    opened.check_lines((n, d))
    return (n, d), np.empty((entries, width))


def _numbers(file: IO[bytes] | Unpacked, opened: FileContext) -> Iterator[FloatArray]:
    """Yield the numbers of the rest of a file, a stretch at a time."""
    from sparsemean._kernels import cells  # compiled: whoever asks whether an array is sparse does without

    left, more = b"", b" "
    while more:
        more = file.read(READ_AT_ONCE)
        text = left + (more or b"\n")
        end = max(text.rfind(blank) for blank in (b"\n", b" ", b"\t", b"\r")) + 1
        text, left = text[:end], text[end:]
        if len(left) > READ_AT_ONCE:
            raise opened.broken(f"a number of more than {READ_AT_ONCE:,} digits")
        while text:
            out = np.empty(len(text) // 2 + 1)
            count, used = cells.read_numbers(np.frombuffer(text, dtype=np.uint8), out.view(np.uint64))
            yield out[:count]
            text = text[used:]
            if text:  # a number that is left open, or none
                word = text.split(maxsplit=1)[0]
                text = text[len(word) :]
                yield np.array([_number(word, opened)])


def _number(word: bytes, opened: FileContext) -> float:
    """Read a number the slow way."""
    try:
        if b"_" not in word:
            return float(word.decode("ascii"))
    except ValueError:
        pass
    raise opened.broken(f"{word[:40].decode(errors='replace')!r} where a number should be")
