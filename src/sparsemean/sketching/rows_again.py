"""All rows once more, as one table: whole, in several pieces, or a few columns of what comes by only once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.records import FloatArray, IntArray
from sparsemean.sketching.sketched import Sketch, same_names
from sparsemean.sources import as_table
from sparsemean.sources.source import Held, Source, as_dense
from sparsemean.sources.table import Names, Table

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

ARRAY_LIKE = ("shape", "columns", "__array__", "__array_interface__", "__arrow_c_stream__", "__dlpack__")
"""What an object has that is a table itself."""


class Unread(Source):
    """Rows that are not at hand."""

    def __init__(self, n: int, d: int) -> None:
        self.shape, self.dtype = (n, d), np.dtype(np.float64)

    def block(self, rows: slice, columns: slice) -> Block:  # noqa: ARG002
        """Refuse: there is nothing to read."""
        raise InputError("X", "be given, as a sketch does not keep its rows", None, "pass all rows in order")


class Stacked(Source):
    """Several sources, the rows of one below those of the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self.parts = parts
        self.ends = np.cumsum([part.shape[0] for part in parts]).tolist()
        self.shape, self.dtype = (self.ends[-1], parts[0].shape[1]), np.result_type(*(part.dtype for part in parts))
        self.along = "rows" if any(part.along == "rows" for part in parts) else "columns"
        self.in_memory = all(part.in_memory for part in parts)

    def block(self, rows: slice, columns: slice) -> Block:
        """Return some rows, put together from all parts that have some of them."""
        pieces = []
        for part, end in zip(self.parts, self.ends, strict=True):
            start = end - part.shape[0]
            first, last = max(rows.start, start) - start, min(rows.stop, end) - start
            if first < last:
                pieces.append(as_dense(part.block(slice(first, last), columns)))
        return np.concatenate(pieces)

    def _take(self, columns: IntArray) -> FloatArray:
        """Return all rows of ``columns``, from one part after the other."""
        out = np.empty((self.shape[0], columns.size), order="F")
        for part, end in zip(self.parts, self.ends, strict=True):
            out[end - part.shape[0] : end] = part.take(columns)
        return out


def rows_again(X: Any, sketch: Sketch, columns: IntArray) -> Table:
    """Return all rows as a table: as they lie, or ``columns`` of them where they come by only once."""
    if _comes_in_chunks(X):
        return _taken(iter(X), sketch, columns)
    in_pieces = isinstance(X, (list, tuple)) and X and len(getattr(X[0], "shape", ())) == 2
    pieces = list(_tables(X if in_pieces else [X], sketch))
    rows = sum(table.shape[0] for table in pieces)
    if rows != sketch.n_rows:
        raise InputError("X", f"have the {sketch.n_rows:,} rows of the sketch, in order", f"{rows:,} rows")
    if len(pieces) == 1:
        return replace(pieces[0], feature_names=sketch.feature_names)
    return Table(Stacked([table.source for table in pieces]), sketch.feature_names, row_names=_row_names(pieces))


def holding(table: Table, columns: IntArray) -> Table:
    """Return a table that has read ``columns`` and reads them no more, unless they lie in memory anyway."""
    source = table.source
    if source.in_memory or isinstance(source, Held):
        return table
    return replace(table, source=Held(source, columns, source.take(columns)))


def _comes_in_chunks(X: Any) -> bool:
    """Whether chunks come out of X one after the other: it is no array, table or list, but can be gone through."""
    if isinstance(X, Mapping):
        advice = "pass its values() if they are chunks, in order"
        raise InputError("X", "be rows or chunks of them", type(X).__name__, advice)
    if isinstance(X, Iterator):
        return True
    if isinstance(X, (list, tuple, str, bytes, Table)) or not isinstance(X, Iterable):
        return False
    return not any(hasattr(X, name) for name in ARRAY_LIKE)


def _taken(chunks: Iterator[Any], sketch: Sketch, columns: IntArray) -> Table:
    """Take ``columns`` of chunks as they come by."""
    values = np.empty((sketch.n_rows, columns.size), order="F")
    seen = 0
    for table in _tables(chunks, sketch):
        rows = slice(seen, seen + table.shape[0])
        seen = rows.stop
        if seen <= sketch.n_rows:
            values[rows] = table.source.take(columns)
    if seen != sketch.n_rows:
        raise InputError("X", f"have the {sketch.n_rows:,} rows of the sketch, in order", f"{seen:,} rows")
    return Table(Held(Unread(sketch.n_rows, sketch.n_features), columns, values), sketch.feature_names)


def _tables(pieces: Iterable[Any], sketch: Sketch) -> Iterator[Table]:
    """Yield pieces as tables, unless their features are not those of the sketch."""
    for piece in pieces:
        table = piece if isinstance(piece, Table) else as_table(piece)
        if table.shape[1] != sketch.n_features:
            features = f"{table.shape[1]:,} features"
            raise InputError("X", f"have the {sketch.n_features:,} features of the sketch", features)
        _check_names(table.feature_names, sketch.feature_names)
        yield table


def _check_names(found: Names | None, expected: Names | None) -> None:
    if found is None or expected is None or same_names(found, expected):
        return
    at = int(np.flatnonzero(found != expected)[0])
    named = f"{found[at]!r} in place of {expected[at]!r} in column {at}"
    raise InputError("X", "have the feature names of the sketch", named)


def _row_names(pieces: Sequence[Table]) -> Names | None:
    names = [table.row_names for table in pieces if table.row_names is not None]
    return np.concatenate(names) if len(names) == len(pieces) else None
