"""NumPy's own file format, mapped a stretch at a time: only what the passes touch is read."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format

from sparsemean.errors import InputError
from sparsemean.sources.source import Array, Source
from sparsemean.sources.table import Table, check_matrix
from sparsemean.sources.wanted import Wanted

WHOLE = "stay as it is while it is read"


class Npy(Source):
    """A matrix in a .npy file. Rows that follow each other are read along rows, columns along columns."""

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[np.generic], fortran: bool
    ) -> None:
        self.path, self.offset, self.shape, self.dtype = path, offset, shape, dtype
        self.along = "columns" if fortran else "rows"

    def block(self, rows: slice, columns: slice) -> Array:
        """Map the stretch of the file that holds the rows (or columns, if those follow each other)."""
        n, d = self.shape
        if self.along == "columns":
            return self._mapped(columns, n).T[rows]
        return self._mapped(rows, d)[:, columns]

    def _mapped(self, lines: slice, length: int) -> Array:
        shape = (lines.stop - lines.start, length)
        offset = self.offset + lines.start * length * self.dtype.itemsize
        try:
            return np.memmap(self.path, self.dtype, "r", offset, shape)
        except ValueError as error:  # the file is looked at each time, and no longer reaches so far
            raise InputError("FILE", WHOLE, f"{self.path.name}, cut short since", "run it again") from error


def read(path: Path, wanted: Wanted) -> Table:
    """Open a .npy file; object arrays, which would need unpickling, are refused."""
    wanted.refuse("id", "group", "select", "drop", "layer", "dataset", kind=".npy files")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of Python 2 are read all the same
            version = npy_format.read_magic(file)
            read_header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, fortran, dtype = read_header(file)
            offset = file.tell()
            size = file.seek(0, 2)
    except OSError:
        raise
    except Exception as error:  # a header is parsed as Python, which can fail in many ways
        raise _broken(path, str(error)) from error
    if dtype.hasobject:
        raise _broken(path, "an array of Python objects")
    check_matrix(shape, dtype)
    if size < offset + shape[0] * shape[1] * dtype.itemsize:
        raise _broken(path, f"{size} bytes where shape {shape} needs more")
    return Table(Npy(path, offset, (shape[0], shape[1]), dtype, fortran))


def _broken(path: Path, why: str) -> InputError:
    advice = "write it again with numpy.save"
    return InputError("FILE", "be a complete .npy file of numbers", f"{path.name} ({why})", advice)
