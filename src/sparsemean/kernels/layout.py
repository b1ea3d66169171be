"""An array of any layout seen as flat memory with two strides, without copying it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class Strided:
    """Element (i, c) lies at ``memory[start + i * row_step + c * column_step]``."""

    memory: Array
    start: int
    row_step: int
    column_step: int
    shape: tuple[int, int]

    @property
    def rows_are_contiguous(self) -> bool:
        """Whether neighbouring columns of a row are neighbours in memory."""
        return self.column_step == 1 or self.shape[1] == 1


def strided(X: Array) -> Strided:
    """Describe the 2-D array ``X`` as flat memory.

    The view is read-only whether or not ``X`` is: numba compiles read-only and writable arrays apart, and one
    compiled kernel is enough.

    Examples
    --------
    >>> view = strided(np.arange(12.0).reshape(3, 4)[::-1, 1:3])
    >>> view.start, view.row_step, view.column_step, view.shape
    (8, -4, 1, (3, 2))
    """
    n, d = X.shape
    rows, columns = (step // X.itemsize for step in X.strides)
    lowest = X[:: -1 if rows < 0 else 1, :: -1 if columns < 0 else 1]
    span = (n - 1) * abs(rows) + (d - 1) * abs(columns) + 1
    memory = as_strided(lowest, shape=(span,), strides=(X.itemsize,), writeable=False)
    start = (n - 1) * max(0, -rows) + (d - 1) * max(0, -columns)
    return Strided(memory, start, rows, columns, (n, d))


def is_native(X: Array) -> bool:
    """Whether the compiled kernels can read ``X`` where it lies."""
    plain = X.dtype.isnative and X.dtype.kind in "fiub" and X.dtype.str[1:] not in ("f2", "f16", "f12")
    return plain and all(step % X.itemsize == 0 for step in X.strides)
