"""Columns that lie apart in memory, as in data frames of several types: stacked a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsemean.sources.source import Array, Source

GetColumn = Callable[[int], Array]


class Columns(Source):
    """``get(i)`` returns column i as a one-dimensional numeric array, what is missing as NaN."""

    in_memory = True

    def __init__(self, n: int, d: int, dtype: Any, get: GetColumn) -> None:
        self.shape, self.dtype, self.get = (n, d), np.dtype(dtype), get

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some columns side by side."""
        out: Array = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=self.dtype, order="F")
        for k, column in enumerate(range(columns.start, columns.stop)):
            out[:, k] = self.get(column)[rows]
        return out
