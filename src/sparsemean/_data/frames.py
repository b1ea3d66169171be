"""Tables by columns: Arrow, .parquet, pandas and polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sparsemean._data.repeats import (
    MOST_LOOKED_AT,
    Layout,
    doubts,
    layout_of,
    not_numeric,
    note_left_out,
    subjects_among,
)
from sparsemean._data.source import Array, Dense, Source
from sparsemean._data.table import (
    NOTHING,
    FileContext,
    Names,
    ReadOptions,
    Table,
    as_names,
    check_feature_names,
    check_matrix,
)
from sparsemean._kernels.memory_layout import cut, precision_of
from sparsemean._util.files import refuse_endless
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    Batch: TypeAlias = pa.RecordBatch | pa.Table


# Columns that lie apart in memory, as in data frames of several types: stacked a few at a time.

GetColumn = Callable[[int], Array]
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class StackedColumns(Source):
    """``get(i)`` returns column i as a one-dimensional numeric array, what is missing as NaN.

    ``single`` says of each column whether it is in single precision.
    """

    in_memory = True

    def __init__(self, n: int, single: Sequence[bool], get: GetColumn) -> None:
        self.shape, self.get = (n, len(single)), get
        self.dtype, self._precision = _types(single)
        check_matrix(self.shape, self.dtype)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some columns side by side."""
        out: Array = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=self.dtype, order="F")
        for k, column in enumerate(range(columns.start, columns.stop)):
            out[:, k] = self.get(column)[rows]
        return out


def _types(single: Sequence[bool]) -> tuple[np.dtype[np.generic], float]:
    """Return the type that holds all columns, and the precision of the column that has least of it."""
    return SINGLE if len(single) and all(single) else DOUBLE, precision_of(SINGLE if any(single) else DOUBLE)


def read_arrow(X: Batch, feature_names: object = None) -> Table:
    """Take a table whose columns are all numeric; an index that pandas left in it names the rows."""
    found = fields_of(X.schema, NOTHING, "X")
    features, of_rows = found.layout.features, found.layout.of_rows
    names = found.names if feature_names is None else check_feature_names(feature_names, features.size)
    source = StackedColumns(X.num_rows, found.single, lambda column: _numbers(X.column(int(features[column]))))
    row_names = as_names(X.column(of_rows["id"]).to_pylist()) if "id" in of_rows else None
    return Table(source, names, row_names=row_names)


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of a schema, the names of the features and which of these are in single precision.

    ``halves`` has those left out that may have two values.
    """

    layout: Layout
    names: Names
    single: list[bool]
    halves: list[int]
    notes: tuple[str, ...] = ()


def fields_of(schema: pa.Schema, wanted: ReadOptions, argument: str = "FILE") -> Fields:
    """Choose among the columns of a schema; nothing but numbers may be a feature."""
    index = _index_columns(schema)
    if wanted.transpose and wanted.id is None and not index:  # a first column of text names what are to be features
        texts = (name for name, kind in zip(schema.names, schema.types, strict=True) if _called(kind) == "text")
        wanted = replace(wanted, id=next(texts, None), drop_text=True)
    if wanted.id is None and len(index) == 1 and index[0] not in wanted.of_rows.values():
        wanted = replace(wanted, id=index[0])
    others = [name for name in index if name not in wanted.of_rows.values()]
    kinds = schema.types  # made anew whenever they are asked for
    layout = layout_of(schema.names, replace(wanted, drop=(*wanted.drop, *others)))
    names = check_feature_names(
        [schema.names[at] for at in layout.features], layout.features.size, "rename one of them"
    )
    assert names is not None
    types = [kinds[column] for column in layout.features]
    bad = {str(name): _called(kind) for name, kind in zip(names, types, strict=True) if not is_numeric(kind)}
    if bad and not wanted.drop_text:
        raise not_numeric(argument, bad)
    if bad:
        found = fields_of(schema, replace(wanted, drop=(*wanted.drop, *bad), drop_text=False), argument)
        return replace(found, notes=(note_left_out(bad),))
    for option, column in layout.of_rows.items():
        if kinds[column].num_fields:
            got = f"{schema.names[column]!r} of {kinds[column]}"
            raise InputError(f"--{option}", "name a column of text or numbers", got)
    halves = [column for column in layout.others if _called(kinds[column]) in ("text", "bool")]
    return Fields(layout, names, [str(kind) == "float" for kind in types], halves[:MOST_LOOKED_AT])


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a type holds numbers; one that holds nothing but missing values does."""
    types = require("pyarrow", extra="parquet", purpose="reading Arrow data").types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _numbers(column: pa.Array | pa.ChunkedArray) -> Array:
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


class Parquet(Source):
    """A .parquet file, opened anew for each block, so that no two threads share a reader; its footer is kept.

    Nothing is read before it is asked for: a few columns at a time, of some row groups each where those are small.
    """

    def __init__(self, path: Path, opened: FileContext, metadata: pq.FileMetaData, found: Fields) -> None:
        self.path, self.opened, self.metadata, self.found, n = path, opened, metadata, found, metadata.num_rows
        self.shape = (n, found.layout.features.size)
        self.dtype, self._precision = _types(found.single)
        check_matrix(self.shape, self.dtype)
        opened.check_size(self.shape, self.dtype.itemsize)
        opened.check_held(8 * n)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some columns side by side."""
        out = self._room(rows.stop - rows.start, columns.stop - columns.start)
        place = {name: k for k, name in enumerate(self.found.names[columns])}
        with self.opened.reading():
            for at, batch in self._complete(self.found.layout.features[columns]):
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

    def texts(self, column: int) -> list[object]:
        """Return a column, of any type, as Python objects."""
        out: list[object] = []
        held = 0
        with self.opened.reading():
            for _, batch in self._validated(column):
                for chunk in getattr(batch.column(0), "chunks", [batch.column(0)]):
                    objects = _objects(chunk)
                    held += sum(len(value) for value in objects if isinstance(value, str | bytes))
                    self.opened.check_held(held)
                    out += objects
        return out

    def has_two_values(self, column: int) -> bool:
        """Whether a column has two values, not counting gaps; it is read until there is a third."""
        import pyarrow as pa

        found = set[object]()
        with suppress(InputError, pa.ArrowException), self.opened.reading():  # lists, say, cannot be told apart
            for _, batch in self._validated(column):
                found.update(batch.column(0).unique().drop_null().to_pylist())
                if len(found) > 2:
                    break
        return len(found) == 2

    def _validated(self, column: int) -> Iterator[tuple[int, Batch]]:
        """Yield pieces of a column of any type, which may unpack to anything: all of a row group at once."""
        told, name = self.metadata, self.found.layout.names[column]
        leaf = [told.schema.column(k).path for k in range(told.num_columns)].index(name)
        sizes = (told.row_group(group).column(leaf).total_uncompressed_size for group in range(told.num_row_groups))
        self.opened.check_held(sum(sizes))
        for at, batch in self._complete(np.array([column])):
            batch.validate(full=True)
            yield at, batch

    def _complete(self, columns: IntArray) -> Iterator[tuple[int, Batch]]:
        """Yield pieces, no more and no fewer values than promised."""
        left = columns.size * self.shape[0]
        for at, batch in self._batches([self.found.layout.names[at] for at in columns]):
            left -= batch.num_rows * batch.num_columns
            if left < 0 or at + batch.num_rows > self.shape[0]:
                break
            yield at, batch
        if left:
            raise self.opened.broken(f"not the {self.shape[0]} rows it promises")

    def _batches(self, names: list[str]) -> Iterator[tuple[int, Batch]]:
        """Yield all rows of some columns, in pieces of any shape after the number of their first row."""
        import pyarrow.parquet as pq

        refuse_endless(self.path)
        with pq.ParquetFile(self.path, metadata=self.metadata, read_dictionary=names) as file:
            for at, rows, groups in self._runs_of_groups():
                for some in cut(len(names), DECODED_AT_ONCE // (8 * rows), 1):
                    wanted = names[some]
                    yield at, file.read_row_groups(groups, columns=wanted).select(wanted)

    def _runs_of_groups(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield row groups to be read together, with the number of their first row and how many rows they have."""
        run: list[int] = []
        at = rows = 0
        for group in range(self.metadata.num_row_groups):
            run.append(group)
            rows += self.metadata.row_group(group).num_rows
            if 8 * rows >= DECODED_AT_ONCE or group + 1 == self.metadata.num_row_groups:
                yield at, max(rows, 1), run
                run, at, rows = [], at + rows, 0


DECODED_AT_ONCE = 4_000_000
"""Bytes that are decoded before they are put where they belong: few enough to stay in cache."""
LOOKED_AT_ONCE, MOST_NAMES_READ = 2**23, 2**18
"""Values of a file that are read together for the sake of a note, and rows for that of which texts are."""


def _doubts(source: Parquet, ids: list[object] | None) -> list[str]:
    """Say which values may be no measurements, by the first columns of a large file; a text left out may name rows."""
    n, d = source.shape
    pieces = cut(d, LOOKED_AT_ONCE // n, 1)[: MOST_LOOKED_AT if n <= LOOKED_AT_ONCE else 0]
    first = [source.block(slice(0, n), piece) for piece in pieces[:1]]
    if ids is None and source.found.halves and n <= MOST_NAMES_READ:
        with suppress(InputError):
            ids = source.texts(source.found.halves[0])
    called = [] if ids is None else [as_names(ids).tolist()]
    rest = pieces[1:]
    names = source.found.names.tolist()
    return doubts(lambda: chain(first, (source.block(slice(0, n), piece) for piece in rest)), names, called)


def _fill(out: Array, column: pa.Array | pa.ChunkedArray) -> None:
    """Copy a column to where it belongs, piece by piece if it lies in pieces."""
    at = 0
    for chunk in getattr(column, "chunks", [column]):
        out[at : at + len(chunk)] = _numbers(chunk)
        at += len(chunk)


def _objects(column: pa.Array) -> list[object]:
    """Return Python objects, each of a dictionary once however often it stands there."""
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    values = [*column.dictionary.to_pylist(), None]
    return [values[index] for index in column.indices.fill_null(len(values) - 1).to_pylist()]


def _labels(values: list[object]) -> Array:
    """Return labels as an array, those not there as NaN."""
    if all(isinstance(value, int) for value in values):
        return np.array(values)
    return np.fromiter((np.nan if value is None else value for value in values), dtype=object)


def _index_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that were the index of a pandas data frame."""
    try:
        said = (schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):
        return []
    names = set(schema.names)
    return [name for name in said if isinstance(name, str) and name in names] if isinstance(said, list) else []


def _called(kind: pa.DataType) -> str:
    """Name a type that holds no numbers."""
    outer, _, inner = str(kind).partition("<")
    if outer.startswith(("date", "time", "duration")):
        return "dates"
    return "text" if "string" in outer or (outer == "dictionary" and "string" in inner) else outer


def read_parquet(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open a .parquet file; columns that hold no numbers are refused before anything but the footer is read."""
    wanted.refuse("layer", "dataset", kind=".parquet files")
    pq = require("pyarrow.parquet", extra="parquet", purpose="reading .parquet files")
    with pq.ParquetFile(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
    n = metadata.num_rows
    if n != sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)):
        raise opened.broken(f"other than the {n} rows it promises")
    source = Parquet(path, opened, metadata, fields_of(schema, wanted))
    found, layout = source.found, source.found.layout
    texts = {option: source.texts(column) for option, column in layout.of_rows.items()}
    ids = texts.pop("id", None)
    labels = {option: _labels(values) for option, values in texts.items()}
    return Table(
        source,
        found.names,
        (*found.notes, *_doubts(source, ids)),
        row_names=None if ids is None else as_names(ids),
        groups=labels.pop("group", None),
        columns=labels,
        repeated=subjects_among((layout.names[at], partial(source.texts, at)) for at in layout.watched),
        two_valued=tuple(layout.names[at] for at in found.halves if source.has_two_values(at)),
    )


def refuse_relation(*_: object) -> Table:
    """Say how a relation of DuckDB, which is not data yet, becomes a table."""
    raise InputError("X", "be a table in memory", "a relation of DuckDB", "call .to_arrow_table() first")


# pandas data frames: numeric columns with their names, as one array where they have one type; an index names rows.


def read_pandas(frame: pd.DataFrame, feature_names: object = None) -> Table:
    """Take a frame whose columns are all numeric; decimals, which pandas keeps as objects, are numbers."""
    frame = _with_decimals(frame)
    kinds = ((str(name), getattr(dtype, "kind", "O")) for name, dtype in frame.dtypes.items())
    bad = {name: "dates" if kind in "mM" else "text" for name, kind in kinds if kind not in "fiub"}
    if bad:
        raise not_numeric("X", bad)
    names = check_feature_names(frame.columns if feature_names is None else feature_names, frame.shape[1])
    rows = None if type(frame.index).__name__ == "RangeIndex" else as_names(frame.index)
    types = set(frame.dtypes)
    if len(types) <= 1 and all(isinstance(dtype, np.dtype) for dtype in types):
        values: Array = frame.to_numpy()
        check_matrix(values.shape, values.dtype)
        return Table(Dense(values), names, row_names=rows)
    single = [np.dtype(getattr(dtype, "numpy_dtype", dtype)) == SINGLE for dtype in frame.dtypes]

    def get(column: int) -> Array:
        return np.asarray(frame.iloc[:, column].to_numpy(SINGLE if single[column] else DOUBLE, na_value=np.nan))

    return Table(StackedColumns(len(frame), single, get), names, row_names=rows)


def _with_decimals(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with floats in place of columns that hold decimals, or nothing, in every row."""
    from pandas.api.types import infer_dtype

    out = frame
    for at in (k for k, dtype in enumerate(frame.dtypes) if getattr(dtype, "kind", "O") == "O"):
        column = frame.iloc[:, at]
        with suppress(ArithmeticError):  # a signalling NaN, which is no number
            if infer_dtype(column, skipna=True) == "decimal":
                out = frame.copy(deep=False) if out is frame else out
                out.isetitem(at, column.to_numpy(dtype=np.float64, na_value=np.nan))
    return out


# Data frames of polars': numeric columns with their names, each where it lies.


def read_polars(X: pl.DataFrame, feature_names: object = None) -> Table:
    """Take a frame whose columns are all numeric."""
    if hasattr(X, "collect"):
        raise InputError("X", "be a data frame", "a LazyFrame of polars", "call .collect() first")
    import polars as pl

    kinds, texts = X.dtypes, (pl.String, pl.Categorical, pl.Enum)
    bad = {
        name: "dates" if kind.is_temporal() else "text" if kind in texts else str(kind).partition("(")[0]
        for name, kind in zip(X.columns, kinds, strict=True)
        if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null))
    }
    if bad:
        raise not_numeric("X", bad)
    names = check_feature_names(X.columns if feature_names is None else feature_names, X.width)

    def get(column: int) -> Array:
        series = X.to_series(column)
        return np.asarray((series if series.dtype.is_float() else series.cast(pl.Float64)).to_numpy())

    return Table(StackedColumns(X.height, [kind == pl.Float32 for kind in kinds], get), names)
