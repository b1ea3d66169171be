"""SciPy's sparse matrices and arrays: what is not stored is zero, and is neither filled in nor looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.kernels.layout import is_native
from sparsemean.records import FloatArray, IntArray
from sparsemean.sources.source import Array, Source
from sparsemean.sources.table import Table, check_matrix, check_names

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

WEIGHT = 8
"""Times its own size that a piece counts for: it is held beside the next one, and small ones are turned in cache."""


def takes(X: Any) -> bool:
    """Whether ``X`` is a sparse matrix or array of SciPy's."""
    return type(X).__module__.startswith("scipy.sparse") and hasattr(X, "tocsr") and hasattr(X, "tocsc")


def from_object(X: Any, feature_names: Any = None) -> Table:
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
            from sparsemean.kernels import sparse

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
            from sparsemean.kernels import sparse

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
