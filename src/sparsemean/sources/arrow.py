"""Tables of pyarrow's in memory, and what files in its formats share: names and types from the schema, values later."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError, require
from sparsemean.records import IntArray
from sparsemean.sources.columns import Columns
from sparsemean.sources.opened import Opened
from sparsemean.sources.refusing import not_numeric
from sparsemean.sources.source import Array, Source
from sparsemean.sources.table import Names, Table, as_names, check_matrix, check_names
from sparsemean.sources.wanted import NOTHING, Wanted, chosen


def takes(X: Any) -> bool:
    """Whether ``X`` is a table or a record batch of pyarrow's."""
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "schema") and hasattr(X, "to_pydict")


def from_object(X: Any, feature_names: Any = None) -> Table:
    """Take a table whose columns are all numeric; an index that pandas left in it names the rows."""
    found = layout(X.schema, NOTHING, "X")
    names = found.names if feature_names is None else check_names(feature_names, found.features.size)
    check_matrix((X.num_rows, found.features.size), found.dtype)

    def get(column: int) -> Array:
        return numbers(X.column(int(found.features[column])))

    row_names = as_names(X.column(found.id).to_pylist()) if found.id is not None else None
    return Table(Columns(X.num_rows, found.features.size, found.dtype, get), names, row_names=row_names)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a schema are features, which name rows and groups, and the type of the values."""

    features: IntArray
    names: Names
    id: int | None
    group: int | None
    dtype: np.dtype[Any]


def layout(schema: Any, wanted: Wanted, argument: str = "FILE") -> Layout:
    """Choose among the columns of a schema; nothing but numbers may be a feature."""
    index = _index_columns(schema)
    if wanted.id is None and len(index) == 1 and index[0] != wanted.group:
        wanted = replace(wanted, id=index[0])
    others = [name for name in index if name not in (wanted.id, wanted.group)]
    every, kinds = schema.names, schema.types  # both are made anew whenever they are asked for
    features = chosen(every, replace(wanted, drop=(*wanted.drop, *others)))
    names = check_names([every[column] for column in features], features.size)
    assert names is not None
    types = [kinds[column] for column in features]
    bad = [k for k, kind in enumerate(types) if not is_numeric(kind)]
    if bad:
        raise not_numeric(argument, names[bad].tolist(), _called(types[bad[0]]))
    dtype = np.dtype(np.float32 if all(str(kind) == "float" for kind in types) else np.float64)
    return Layout(features, names, _only(schema, wanted.id, "--id"), _only(schema, wanted.group, "--group"), dtype)


def is_numeric(kind: Any) -> bool:
    """Whether a type holds numbers; one that holds nothing but missing values does."""
    types = require("pyarrow", extra="parquet", purpose="reading Arrow data").types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def numbers(column: Any) -> Array:
    """Return a column as an array, what is missing as NaN: over the same memory if it is floats without gaps."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        values = column.type.value_type
        column = pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], type=values)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # straight to float64 the last digit is off now and then
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    chunked = isinstance(column, pa.ChunkedArray)
    return np.asarray(column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False))


class Batches(Source):
    """A file of Arrow's whose columns are read a few at a time, by name, in stretches of rows."""

    def __init__(self, opened: Opened, n: int, found: Layout) -> None:
        self.opened, self.found, self.dtype = opened, found, found.dtype
        self.shape = (n, found.features.size)
        check_matrix(self.shape, self.dtype)

    @abstractmethod
    def batches(self, columns: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield all rows of some columns of the schema, in pieces of any shape after the number of their first row."""

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some columns side by side."""
        out = self._room(rows.stop - rows.start, columns.stop - columns.start)
        place = {name: k for k, name in enumerate(self.found.names[columns])}
        with self.opened.reading():
            for at, batch in self._complete(self.found.features[columns]):
                first, last = max(rows.start, at), min(rows.stop, at + batch.num_rows)
                for name, column in zip(batch.schema.names, batch.columns, strict=True) if first < last else ():
                    to = out[first - rows.start : last - rows.start, place[name]]
                    _fill(to, column.slice(first - at, last - first))
        return out

    def _room(self, n: int, d: int) -> Array:
        """Make room in the memory that Arrow's last piece left: fresh memory costs as much as copying to it."""
        import pyarrow as pa

        memory = pa.allocate_buffer(n * d * self.dtype.itemsize)
        return np.ndarray((n, d), dtype=self.dtype, buffer=memory, order="F")

    def texts(self, column: int | None) -> list[Any] | None:
        """Return a column, of any type, as Python objects."""
        if column is None:
            return None
        out: list[Any] = []
        with self.opened.reading():
            for _, batch in self._complete(np.array([column])):
                batch.validate(full=True)
                out += batch.column(0).to_pylist()
        return out

    def _complete(self, columns: IntArray) -> Iterator[tuple[int, Any]]:
        """Yield pieces, no more and no fewer values than promised."""
        left = columns.size * self.shape[0]
        for at, batch in self.batches(columns.tolist()):
            left -= batch.num_rows * batch.num_columns
            if left < 0 or at + batch.num_rows > self.shape[0]:
                break
            yield at, batch
        if left:
            raise self.opened.broken(f"not the {self.shape[0]} rows it promises")


def table_of(source: Batches) -> Table:
    """Return a file as a table, with the names and labels of its rows."""
    found, ids, groups = source.found, source.texts(source.found.id), source.texts(source.found.group)
    return Table(
        source,
        found.names,
        row_names=None if ids is None else as_names(ids),
        groups=None if groups is None else _labels(groups),
    )


def _fill(out: Array, column: Any) -> None:
    """Copy a column to where it belongs, piece by piece if it lies in pieces."""
    at = 0
    for chunk in getattr(column, "chunks", [column]):
        out[at : at + len(chunk)] = numbers(chunk)
        at += len(chunk)


def _labels(values: list[Any]) -> npt.NDArray[Any]:
    """Return labels as an array, those not there as NaN."""
    if all(isinstance(value, int) for value in values):
        return np.array(values)
    out = np.empty(len(values), dtype=object)
    out[:] = [np.nan if value is None else value for value in values]
    return out


def _index_columns(schema: Any) -> list[str]:
    """Return the columns that were the index of a pandas data frame."""
    try:
        said = (schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):
        return []
    names = set(schema.names)
    return [name for name in said if isinstance(name, str) and name in names] if isinstance(said, list) else []


def _called(kind: Any) -> str:
    """Name a type that holds no numbers."""
    outer, _, inner = str(kind).partition("<")
    return "text" if "string" in outer or (outer == "dictionary" and "string" in inner) else outer


def _only(schema: Any, name: str | None, argument: str) -> int | None:
    """Return the one column of that name."""
    found = [] if name is None else schema.get_all_field_indices(name)
    if len(found) > 1:
        raise InputError(argument, "name one column of the file", f"{name!r}, {len(found)} of them")
    return found[0] if found else None
