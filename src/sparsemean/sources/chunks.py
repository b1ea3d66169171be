"""Arrays on disk that lie in chunks: which way to read them so that none is read twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.records import IntArray
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import AT_ONCE, Along, Array, Run, Source, runs
from sparsemean.sources.table import check_matrix

MOST_AT_ONCE = 4 * AT_ONCE


class Chunked(Source):
    """A two-dimensional array of h5py or zarr, read by slices."""

    def __init__(self, array: Any, chunks: tuple[int, int], opened: Opened) -> None:
        self.array, self.opened = array, opened
        self.shape, self.dtype = (int(array.shape[0]), int(array.shape[1])), np.dtype(array.dtype)
        self.together = max(1, min(int(chunks[1]), self.shape[1]))
        self.along, self.grain = way_to_read(self.shape, chunks, self.dtype.itemsize)

    def block(self, rows: slice, columns: slice) -> Array:
        """Read some rows of some columns."""
        with self.opened.reading():
            return np.asarray(self.array[rows, columns])

    def runs(self, columns: IntArray) -> list[Run]:
        """Read columns of one chunk together, and no more at once than a piece of the matrix."""
        n, d = self.shape
        at_once = AT_ONCE // (n * self.dtype.itemsize) // self.together * self.together
        return runs(columns, self.together, max(self.together, at_once) if self.along == "columns" else d)


def check_array(array: Any, opened: Opened) -> None:
    """Refuse what is no matrix of numbers, or claims to be larger than the file can hold."""
    check_matrix(tuple(array.shape or ()), np.dtype(array.dtype))
    opened.check_size(tuple(map(int, array.shape)), np.dtype(array.dtype).itemsize)


def way_to_read(shape: tuple[int, int], chunks: tuple[int, int], itemsize: int) -> tuple[Along, int]:
    """Return the direction in which whole chunks are read with little in memory, and how many lines lie together.

    Columns are preferred, as some passes need all rows of a feature.

    Examples
    --------
    >>> way_to_read((10_000, 20_000), (313, 625), 4), way_to_read((1_000_000, 1000), (1000, 1000), 8)
    (('columns', 625), ('rows', 1000))
    """
    n, d = shape
    high, wide = max(1, min(chunks[0], n)), max(1, min(chunks[1], d))
    down, across = n * wide * itemsize, high * d * itemsize
    if down <= AT_ONCE:
        return "columns", wide
    if across <= AT_ONCE or across < down:
        return "rows", high
    # chunks too large to be read whole are read again rather than held
    return "columns", wide if down <= MOST_AT_ONCE else max(1, min(wide, MOST_AT_ONCE // (n * itemsize)))
