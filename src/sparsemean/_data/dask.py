"""Dask arrays and frames, and files that Dask workers read themselves."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sparsemean._data import open_file
from sparsemean._data.source import AT_ONCE, Array, Block, Source, as_dense
from sparsemean._data.table import Fingerprint, ReadOptions, Table, check_feature_names, check_matrix, fingerprint_of
from sparsemean._kernels.memory_layout import cut
from sparsemean._util.cluster import run
from sparsemean._util.records import BLOCK, FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import dask.array as da
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed

    Picked: TypeAlias = tuple[slice, slice, Delayed]
    "Rows, places among the wanted columns, and the delayed values."

LEAST = 512
"""Rows, and columns, of a chunk below which it is counted together with its neighbour."""
MOST_HELD = 500_000_000
"""Values that are asked for at once, at most: 4 GB. A single column is asked for whatever it takes."""


class Dask(Source):
    """A dask array in chunks of any size over rows and columns."""

    engine = "dask"

    def __init__(self, array: da.Array) -> None:
        self.array, self.dtype = array, np.dtype(array.dtype)
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def of_rows(self, rows: IntArray) -> Dask:
        """Return some rising rows only, in the chunks that they have."""
        return Dask(self.array[rows])

    def pieces(self) -> da.Array:
        """Return the array in the pieces to count it by: its chunks, small neighbours taken together."""
        rows, columns = self.array.chunks
        values = int(AT_ONCE / self.bytes_a_value)
        high = _together(rows, values // max(columns))
        return _rechunked(self.array, high, _together(columns, values // max(high)))

    def whole_columns(self) -> da.Array:
        """Return the array in chunks of all rows each, put together by whoever computes it."""
        n, d = self.shape
        width = max(1, int(AT_ONCE / (n * self.bytes_a_value)))
        return _rechunked(self.array, (n,), tuple(min(width, d - first) for first in range(0, d, width)))

    def picked(self, columns: IntArray) -> Iterator[Picked]:
        """Yield rising ``columns`` as delayed values, chunk by chunk."""
        rows, offsets = (ends(sizes) for sizes in self.array.chunks)
        for j, (first, last) in enumerate(pairwise(offsets)):
            low, high = np.searchsorted(columns, (first, last))
            if low == high:
                continue
            wanted = columns[low:high] - first
            part = self.array.blocks[:, j]
            picked = part.map_blocks(
                _pick, wanted=wanted, chunks=(part.chunks[0], (wanted.size,)), dtype=self.dtype, meta=NO_VALUES
            )
            for (above, below), values in zip(pairwise(rows), picked.to_delayed()[:, 0], strict=True):
                yield slice(above, below), slice(int(low), int(high)), values

    def block(self, rows: slice, columns: slice) -> Block:
        """Compute some rows of some columns."""
        return np.asarray(as_dense(self.array[rows, columns].compute()))

    def select(self, columns: IntArray) -> da.Array:
        """Return some columns as a dask array: nothing is computed."""
        return self.array[:, columns]

    def _take(self, columns: IntArray) -> FloatArray:
        """Compute rising ``columns`` where they lie, and put them together here."""
        n = self.shape[0]
        check_held(n, columns.size)
        out = np.empty((n, columns.size), order="F")
        parts = list(self.picked(columns))

        def on_result(number: int, values: Array | InputError) -> None:
            if isinstance(values, InputError):
                raise values
            rows, at, _ = parts[number]
            out[rows, at] = values

        run([values for _, _, values in parts], [], on_result)
        return out


NO_VALUES = np.empty((0, 0))


def ends(sizes: tuple[int, ...]) -> list[int]:
    """Return where chunks begin, and behind the last one.

    Examples
    --------
    >>> ends((3, 2))
    [0, 3, 5]
    """
    return [0, *np.cumsum(sizes, dtype=np.int64).tolist()]


def check_held(n: int, k: int) -> None:
    """Refuse to hold more than one column of that many rows where together they are too much for one machine."""
    if k > 1 and n * k > MOST_HELD:
        rule = "be few enough columns to be held at once where rows are screened or values are refined"
        advice = "screen_rows=False and refine=None (--no-screen --refine none) look at one column after the other"
        raise InputError("X", rule, f"{k:,} columns of {n:,} rows, {8e-9 * n * k:,.0f} GB", advice)


def read_dask(X: da.Array | DataFrame, feature_names: object = None) -> Table:
    """Take an array, or a data frame with numeric columns, whose lengths are then looked up."""
    if hasattr(X, "to_dask_array"):
        X, feature_names = _of_frame(X, feature_names)
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        rule, advice = "have chunks of known size", "call X.compute_chunk_sizes() first"
        raise InputError("X", rule, f"a dask array of shape {X.shape}", advice)
    check_matrix(X.shape, np.dtype(X.dtype))
    return Table(Dask(X), check_feature_names(feature_names, X.shape[1]))


def _of_frame(frame: DataFrame, feature_names: object) -> tuple[da.Array, object]:
    """Return a data frame as an array, and the names of its columns."""
    if frame.ndim != 2:
        raise InputError("X", "be 2-D, rows by features", "a dask series", "pass X.to_frame()")
    for name, dtype in frame.dtypes.items():
        if not isinstance(dtype, np.dtype) or dtype.kind == "O":
            rule, advice = "have numeric columns only, of NumPy's types", "leave it out, or X.astype('float64')"
            raise InputError("X", rule, f"column {str(name)!r} of type {dtype}", advice)
    return frame.to_dask_array(lengths=True), list(frame.columns) if feature_names is None else feature_names


def _pick(block: Block | InputError, wanted: IntArray) -> Array | InputError:
    return block if isinstance(block, InputError) else as_dense(block[:, wanted])


def _together(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Put neighbouring chunks together, no more than ``most``, as long as one has fewer than ``LEAST``; none is empty.

    Examples
    --------
    >>> _together((300, 0, 300, 1000, 7, 0), 5000), _together((300, 300, 0), 400), _together((0, 5, 0), 1)
    ((600, 1007), (300, 300), (5,))
    """
    out = list[int]()
    for size in sizes:
        if out and min(out[-1], size) < LEAST and (out[-1] + size <= most or 0 in (out[-1], size)):
            out[-1] += size
        else:
            out.append(size)
    return tuple(out)


def _rechunked(array: da.Array, rows: tuple[int, ...], columns: tuple[int, ...]) -> da.Array:
    """Return an array in other chunks; by plain tasks, which survive the death of a worker."""
    return array if array.chunks == (rows, columns) else array.rechunk((rows, columns), method="tasks")


# A file that the workers of a cluster read themselves, each the pieces it counts: no value is sent to them.

HELD_WHOLE = 4 * AT_ONCE
"""Bytes that every worker may hold of a kind of file that is read whole."""
_open = threading.local()


@dataclass(frozen=True, slots=True)
class File:
    """Where a file lies, what of it is meant, and how the one who asks knows it."""

    path: Path
    wanted: ReadOptions
    dtype: str
    known: Fingerprint

    def source(self) -> Source:
        """Open the file where this is called; it stays open for the next call from the same thread."""
        if not self.path.exists():
            rule, advice = "lie at the same path on every worker", "put it on a disk that all of them see"
            raise InputError("FILE", rule, f"{str(self.path)!r}, which is not there on {socket.gethostname()}", advice)
        key = (self, self.path.stat().st_mtime_ns)
        if getattr(_open, "key", None) != key:
            _open.key, _open.source = None, None
            if different := self.known.difference(fingerprint_of(self.path)):
                rule, advice = "be the same file on every worker, and stay so", "copy it with its time: cp -p, rsync -t"
                raise InputError("FILE", rule, f"{different} on {socket.gethostname()}", advice)
            _open.key, _open.source = key, open_file(self.path, self.wanted).source
        source: Source = _open.source
        return source


class DaskFile(Dask):
    """A file in pieces, whole grains each, that are read where they are counted."""

    def __init__(self, source: Source, file: File) -> None:
        self.source, self.file, self.sparse = source, file, source.sparse
        super().__init__(_array(file, *grid(source)))
        self.along, self.grain = source.along, source.grain

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value takes in memory."""
        return self.source.bytes_a_value

    def pieces(self) -> da.Array:
        """Return the pieces the file is read by."""
        return self.array

    def whole_columns(self) -> da.Array:
        """Return pieces of all rows each; a file that lies by rows is read again for each of them."""
        n, d = self.shape
        along = self.source.along == "columns"
        return _array(self.file, (n,), _sizes(d, AT_ONCE / (n * self.bytes_a_value), self.source.grain if along else 1))

    def picked(self, columns: IntArray) -> Iterator[Picked]:
        """Yield rising ``columns`` as delayed values; only what lies together with them is read."""
        import dask

        rows, offsets = (ends(sizes) for sizes in self.array.chunks)
        for first, last in pairwise(offsets):
            low, high = (int(at) for at in np.searchsorted(columns, (first, last)))
            for part in (slice(*span) for span in pairwise(rows)) if high > low else ():
                values = dask.delayed(_taken, pure=False)(self.file, part, columns[low:high])
                yield part, slice(low, high), values

    def block(self, rows: slice, columns: slice) -> Block:
        """Read some rows of some columns here."""
        return self.source.block(rows, columns)


def spread(table: Table, path: Path, wanted: ReadOptions) -> Table:
    """Return a table that was opened here as one that workers read."""
    source = table.source
    n, d = source.shape
    if source.in_memory and n * d * source.bytes_a_value > HELD_WHOLE:
        rule, advice = "be of a kind that is read in pieces", "write it as .parquet, .zarr, .npy or .h5ad"
        raise InputError("FILE", rule, f"{path.name}, which every worker would have to hold whole", advice)
    assert table.file is not None
    file = File(path.absolute(), wanted, str(source.dtype), table.file)
    return replace(table, source=DaskFile(source, file))


def grid(source: Source) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the heights and widths of pieces of about ``AT_ONCE`` bytes: whole grains, and whole blocks of 64 rows.

    Where grains and blocks do not go together pieces are made high, so that few rows are left over at their ends.
    """
    (n, d), weight = source.shape, source.bytes_a_value
    if source.along == "columns":
        return (n,), _sizes(d, AT_ONCE / (n * weight), source.grain)
    wide = d if source.sparse else min(d, getattr(source, "together", LEAST))
    high = math.lcm(source.grain, BLOCK)
    if high * wide * weight > AT_ONCE:
        high = source.grain * max(1, int(AT_ONCE / (wide * weight * source.grain)))
        return _sizes(n, high, high), _sizes(d, wide, wide)
    rows = _sizes(n, AT_ONCE / (d * weight), high)
    return rows, _sizes(d, AT_ONCE / (max(rows) * weight), wide)


def _sizes(total: int, width: float, grain: int) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in cut(total, max(1, int(width)), grain))


def _array(file: File, rows: tuple[int, ...], columns: tuple[int, ...]) -> da.Array:
    """Return a dask array whose chunks are read from the file."""
    import dask.array

    offsets = ends(rows), ends(columns)
    dtype = np.dtype(file.dtype)
    return dask.array.map_blocks(_read, file=file, offsets=offsets, chunks=(rows, columns), dtype=dtype, meta=NO_VALUES)


def _read(file: File, offsets: tuple[list[int], list[int]], block_id: tuple[int, int]) -> Block | InputError:
    """Read one piece; what is wrong with the file is returned: it would not be right the next time either."""
    rows, columns = (slice(*at[k : k + 2]) for at, k in zip(offsets, block_id, strict=True))
    try:
        return file.source().block(rows, columns)
    except InputError as error:
        return error


def _taken(file: File, rows: slice, columns: IntArray) -> Array | InputError:
    """Read some rows of some columns, and of what lies between those only what cannot be left out."""
    try:
        source = file.source()
        read = [as_dense(source.block(rows, part)[:, wanted]) for part, _, wanted in source.runs(columns)]
        return np.concatenate(read, axis=1)
    except InputError as error:
        return error
