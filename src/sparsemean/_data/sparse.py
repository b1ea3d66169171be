"""Sparse matrices: SciPy's, those in .h5ad and .npz files, and Matrix Market text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.chunked import sparse_format
from sparsemean._data.source import AT_ONCE, Array, Run, Source, runs
from sparsemean._data.table import (
    MOST_HELD,
    OF_ROWS,
    FileContext,
    ReadOptions,
    Table,
    check_matrix,
    check_names,
    dense_table,
)
from sparsemean._kernels.memory_layout import is_native
from sparsemean._util.files import Unpacked
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

GAP = 1_000_000
"""Bytes between columns that are read along: a read of its own costs as much."""

AT_A_TIME = 4
"""What is held of a piece while it is counted: the piece, the next one being read, and what either is turned from."""


class Compressed(Source):
    """A group of ``data``, ``indices`` and ``indptr``; only ``indptr`` is kept in memory."""

    sparse = True

    def __init__(self, group: Any, opened: FileContext) -> None:
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


def check_compressed(group: Any, opened: FileContext) -> None:
    """Refuse a group that is no compressed matrix."""
    if not sparse_format(group):
        raise InputError(opened.argument, "hold a matrix that is dense, CSR or CSC", opened.name)


# SciPy's sparse matrices and arrays: what is not stored is zero, and is neither filled in nor looked at.

WEIGHT = 8
"""Times its own size that a piece counts for: it is held beside the next one, and small ones are turned in cache."""


def matches_sparse(X: Any) -> bool:
    """Whether ``X`` is a sparse matrix or array of SciPy's."""
    return type(X).__module__.startswith("scipy.sparse") and hasattr(X, "tocsr") and hasattr(X, "tocsc")


def read_sparse(X: Any, feature_names: Any = None) -> Table:
    """Take a matrix compressed by rows or columns as it lies in memory; other formats are compressed by rows first."""
    check_matrix(X.shape, X.dtype)
    names = check_names(feature_names, X.shape[1])
    return Table(Sparse(X if X.format in ("csr", "csc") else X.tocsr()), names)


class Sparse(Source):
    """A matrix compressed by rows, read along rows, or by columns, read along columns.

    Entries that lie out of order or twice in one place make it be turned the other way, which sorts them.
    """

    sparse = True
    in_memory = True

    def __init__(self, X: Any) -> None:
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

    def whole(self) -> Array:
        """Return everything, zeros filled in."""
        return np.asarray(self.matrix.toarray())


def _viewed(X: Any) -> csr_array | csc_array:
    """Return an array over the same memory, unless its parts do not fit together: compiled loops trust them."""
    from scipy.sparse import csc_array, csr_array

    kind: Any = csr_array if X.format == "csr" else csc_array
    data = X.data if is_native(X.data) else X.data.astype(np.float64)
    try:
        matrix: csr_array | csc_array = kind((data, X.indices, X.indptr), shape=X.shape)
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


# Matrix Market files, dense or of entries only: a few lines of heading, then numbers with blanks between them.

Floats = npt.NDArray[np.float64]
READ_AT_ONCE = 8_000_000
LONGEST_LINE = 10_000
MOST_REMARKS = 10_000
"""Lines of a heading."""
FIELDS = ("real", "double", "integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says it holds; ``width`` numbers make an entry."""

    dense: bool
    symmetry: str
    n: int
    d: int
    entries: int
    width: int


def read_mtx(path: Path, wanted: ReadOptions) -> Table:
    """Read a .mtx or .mtx.gz file: its rows are rows, its columns are features."""
    wanted.refuse(*OF_ROWS, "select", "drop", "layer", "dataset", kind=".mtx files")
    packed = path.name.lower().endswith(".gz")
    opened = FileContext(path.name, ".mtx file", path.stat().st_size)
    with opened.reading(), path.open("rb") as raw:
        file: Any = Unpacked(raw, opened.check_held) if packed else raw
        head = _head(file, opened, MOST_HELD if packed else 1)
        numbers = _rows(_numbers(file, opened), head, opened)
        return _dense(numbers, head) if head.dense else _sparse(numbers, head, opened)


def _head(file: IO[bytes], opened: FileContext, packed: int) -> Head:
    """Read the heading, and refuse a size that the file cannot hold: room is made for it before the rest is read."""
    banner = file.readline(LONGEST_LINE).decode("ascii").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"] or banner[2] not in ("array", "coordinate"):
        raise opened.broken("no heading")
    if banner[3] == "complex":
        raise InputError("FILE", "be real", f"{opened.name} with complex values", "take real parts or magnitudes first")
    dense, field, symmetry = banner[2] == "array", banner[3], banner[4]
    for _ in range(MOST_REMARKS):
        line = file.readline(LONGEST_LINE)
        if not line.startswith(b"%") and (line.strip() or not line):
            break
    else:
        raise opened.broken(f"more than {MOST_REMARKS:,} lines before its size")
    sizes = [int(size.replace(b"_", b"?")) for size in line.split()]  # int() would take 1_0
    known = field in FIELDS and symmetry in SYMMETRIES and not (dense and field == "pattern")
    if not known or len(sizes) != (2 if dense else 3) or min(sizes) < 0:
        raise opened.broken("a heading that makes no sense")
    n, d = sizes[:2]
    check_matrix((n, d), np.dtype(np.float64))
    if symmetry != "general" and n != d:
        raise opened.broken(f"{symmetry} of shape ({n}, {d})")
    stored = n * d if symmetry == "general" else n * (n + 1) // 2 - (n if symmetry.startswith("skew") else 0)
    entries, width = (stored, 1) if dense else (sizes[2], 2 + (field != "pattern"))
    if 2 * width * entries > packed * opened.size:
        raise opened.broken(f"shape ({n}, {d}) with {entries} entries in so few bytes")
    opened.check_held(16 * entries)
    opened.check_lines((n, d))
    return Head(dense, symmetry, n, d, entries, width)


def _numbers(file: IO[bytes], opened: FileContext) -> Iterator[Floats]:
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


def _rows(numbers: Iterator[Floats], head: Head, opened: FileContext) -> Iterator[tuple[slice, Floats]]:
    """Yield whole entries with their places, exactly as many as there should be."""
    at, left = 0, np.empty(0)
    for part in numbers:
        together = np.concatenate([left, part]) if left.size else part
        whole = together.size // head.width
        if at + whole > head.entries:
            break
        yield slice(at, at + whole), together[: whole * head.width].reshape(whole, head.width)
        at, left = at + whole, together[whole * head.width :]
    else:
        if at == head.entries and not left.size:
            return
    raise opened.broken(f"not the {head.entries} entries it promises")


def _dense(rows: Iterator[tuple[slice, Floats]], head: Head) -> Table:
    """Return a matrix that is written out column by column, its lower half only if it is symmetric."""
    values = np.empty(head.entries)
    for places, part in rows:
        values[places] = part[:, 0]
    if head.symmetry == "general":
        return dense_table(values.reshape((head.n, head.d), order="F"))
    out = np.zeros((head.n, head.n))
    skew = head.symmetry != "symmetric"
    column, row = np.triu_indices(head.n, k=1 if skew else 0)
    out[column, row] = -values if skew else values
    out[row, column] = values
    return dense_table(out)


def _sparse(rows: Iterator[tuple[slice, Floats]], head: Head, opened: FileContext) -> Table:
    """Return a matrix of which entries are written, from 1 on; those of one place are added."""
    from scipy import sparse

    kind = np.int32 if max(head.n, head.d) < 2**31 else np.int64
    row: npt.NDArray[Any] = np.empty(head.entries, kind)
    column, values = np.empty_like(row), np.empty(head.entries)
    for places, part in rows:
        at = part[:, :2]
        if not ((at >= 1) & (at <= (head.n, head.d)) & (at == np.floor(at))).all():
            raise opened.broken(f"an entry outside of shape ({head.n}, {head.d})")
        row[places], column[places] = at.T - 1
        values[places] = part[:, 2] if head.width == 3 else 1.0
    matrix = sparse.coo_array((values, (row, column)), shape=(head.n, head.d)).tocsc()
    if head.symmetry != "general":
        off = matrix - sparse.diags_array(matrix.diagonal())
        matrix = (matrix + (off.T if head.symmetry == "symmetric" else -off.T)).tocsc()
    return read_sparse(matrix)
