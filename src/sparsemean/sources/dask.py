"""Dask arrays and data frames: chunks that other processes hold or read; only what is asked for comes here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.clusters.running import run
from sparsemean.errors import InputError
from sparsemean.records import FloatArray, IntArray
from sparsemean.sources.source import AT_ONCE, Array, Source, as_dense
from sparsemean.sources.table import Table, check_matrix, check_names

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

LEAST = 512
"""Rows, and columns, of a chunk below which it is counted together with its neighbour."""
MOST_HELD = 500_000_000
"""Values that are asked for at once, at most: 4 GB. A single column is asked for whatever it takes."""
Picked = tuple[slice, slice, Any]
"""Rows, places among the wanted columns, and the delayed values."""


class Dask(Source):
    """A dask array in chunks of any size over rows and columns."""

    road = "dask"

    def __init__(self, array: Any) -> None:
        self.array, self.dtype = array, np.dtype(array.dtype)
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def pieces(self) -> Any:
        """Return the array in the pieces to count it by: its chunks, small neighbours taken together."""
        rows, columns = self.array.chunks
        values = int(AT_ONCE / self.bytes_a_value)
        high = _together(rows, values // max(columns))
        return _rechunked(self.array, high, _together(columns, values // max(high)))

    def whole_columns(self) -> Any:
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
            made = part.map_blocks(
                _pick, wanted=wanted, chunks=(part.chunks[0], (wanted.size,)), dtype=self.dtype, meta=NO_VALUES
            )
            for (above, below), values in zip(pairwise(rows), made.to_delayed()[:, 0], strict=True):
                yield slice(above, below), slice(int(low), int(high)), values

    def block(self, rows: slice, columns: slice) -> Block:
        """Compute some rows of some columns."""
        return np.asarray(as_dense(self.array[rows, columns].compute()))

    def select(self, columns: IntArray) -> Any:
        """Return some columns as a dask array: nothing is computed."""
        return self.array[:, columns]

    def _take(self, columns: IntArray) -> FloatArray:
        """Compute rising ``columns`` where they lie, and put them together here."""
        n = self.shape[0]
        check_held(n, columns.size)
        out = np.empty((n, columns.size), order="F")
        parts = list(self.picked(columns))

        def heard(number: int, values: Any) -> None:
            if isinstance(values, InputError):
                raise values
            rows, at, _ = parts[number]
            out[rows, at] = values

        run([values for _, _, values in parts], [], heard)
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


def takes(X: Any) -> bool:
    """Whether ``X`` is a dask array or data frame."""
    return type(X).__module__.startswith("dask.") and (hasattr(X, "to_dask_array") or hasattr(X, "rechunk"))


def from_object(X: Any, feature_names: Any = None) -> Table:
    """Take an array, or a data frame with numeric columns, whose lengths are then looked up."""
    if hasattr(X, "to_dask_array"):
        X, feature_names = _of_frame(X, feature_names)
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        rule, advice = "have chunks of known size", "call X.compute_chunk_sizes() first"
        raise InputError("X", rule, f"a dask array of shape {X.shape}", advice)
    check_matrix(X.shape, np.dtype(X.dtype))
    return Table(Dask(X), check_names(feature_names, X.shape[1]))


def _of_frame(frame: Any, feature_names: Any) -> tuple[Any, Any]:
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


def _rechunked(array: Any, rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
    """Return an array in other chunks; by plain tasks, which survive the death of a worker."""
    return array if array.chunks == (rows, columns) else array.rechunk((rows, columns), method="tasks")
