"""NumPy's .npy and .npz files, mapped where they lie."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from sparsemean._data.source import Array, Dense, Source
from sparsemean._data.table import OF_ROWS, FileContext, ReadOptions, Table, check_matrix, unreadable
from sparsemean._util.checks import list_names
from sparsemean._util.files import refuse_endless
from sparsemean.errors import InputError

WHOLE = "stay as it is while it is read"
LONGEST_HEADER = 70_000
"""Bytes that are looked at for a heading, of which NumPy takes 10,000: it would make room for as many as one claims."""


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
        refuse_endless(self.path)
        try:
            return np.memmap(self.path, self.dtype, "r", offset, shape)
        except ValueError as error:  # the file is looked at each time, and no longer reaches so far
            raise InputError("FILE", WHOLE, f"{self.path.name}, cut short since", "run it again") from error
        except OSError as error:  # or is gone, or a folder
            raise unreadable(self.path, error) from error


def read_npy(path: Path, wanted: ReadOptions) -> Table:
    """Open a .npy file; object arrays, which would need unpickling, are refused."""
    wanted.refuse(*OF_ROWS, "select", "drop", "layer", "dataset", kind=".npy files")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of Python 2 are read all the same
            start = io.BytesIO(file.read(LONGEST_HEADER))
            version = npy_format.read_magic(start)
            read_header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, fortran, dtype = read_header(start)
            offset = start.tell()
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


# NumPy's archives of arrays: mapped where they lie if they are not packed. SciPy keeps sparse matrices in them too.

SPARSE = {"format.npy", "shape.npy", "data.npy"}
UNPACKED_AT_ONCE = 16_000_000
LOCAL_HEADER = 30
"""Bytes of a zip archive before the name of a member; the last four are the lengths of the name and what follows it."""


class Inside(Npy):
    """An array that lies unpacked in an archive, where values need not begin at whole multiples of their size."""

    def block(self, rows: slice, columns: slice) -> Array:
        """Map a stretch of the file, and move it to where compiled loops can read it."""
        return np.require(super().block(rows, columns), requirements="A")


def read_npz(path: Path, wanted: ReadOptions) -> Table:
    """Open the array called ``wanted.dataset`` of a .npz file, or the only one; objects are never unpickled."""
    wanted.refuse(*OF_ROWS, "select", "drop", "layer", kind=".npz files")
    opened = FileContext(path.name, ".npz file", path.stat().st_size)
    with opened.reading(), warnings.catch_warnings(), path.open("rb") as file, zipfile.ZipFile(file) as archive:
        warnings.simplefilter("ignore")  # NumPy's about headers that Python 2 wrote
        members = {info.filename: info for info in archive.infolist()}
        if wanted.dataset is None and set(members) >= SPARSE:
            check_members(archive, opened)
            return _sparse_table(path, archive, opened)
        info = members[_name(members, wanted.dataset, opened)]
        _check_size(info, opened)
        return Table(_source(path, file, archive, info, opened))


def _name(members: dict[str, Any], name: str | None, opened: FileContext) -> str:
    """Return the member that is meant."""
    arrays = [member for member in members if member.endswith(".npy")]
    has = f"{opened.name} has {list_names([member.removesuffix('.npy') for member in arrays])}"
    if not arrays:
        raise opened.broken("no arrays")
    if name is None and len(arrays) > 1:
        raise InputError("--dataset", "name one of several arrays", "none", has)
    if name is not None and f"{name}.npy" not in arrays:
        raise InputError("--dataset", "name an array of the file", repr(name), has)
    return arrays[0] if name is None else f"{name}.npy"


def _source(
    path: Path, file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo, opened: FileContext
) -> Source:
    """Return a member as a source, after a look at its header only if it is not packed."""
    with archive.open(info) as member:
        shape, fortran, dtype = _header(member, info, opened)
        check_matrix(shape, dtype)
        offset = member.tell()
        if info.compress_type == zipfile.ZIP_STORED:
            start = _start(file, info) + offset
            if start + info.file_size - offset > opened.size:
                raise opened.broken("cut short")
            return Inside(path, start, (shape[0], shape[1]), dtype, fortran)
        values = _unpacked(member, shape[0] * shape[1], dtype, opened)
    return Dense(values.reshape(shape, order="F" if fortran else "C"))


def _header(
    member: IO[bytes], info: zipfile.ZipInfo, opened: FileContext
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, layout and type of a member, unless other bytes follow: room is made for what it says."""
    version = npy_format.read_magic(member)
    read_header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, fortran, dtype = read_header(member)
    if dtype.hasobject:
        raise opened.broken("an array of Python objects")
    left = info.file_size - member.tell()
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise opened.broken(f"{left} bytes where shape {shape} needs others")
    return shape, fortran, dtype


def check_members(archive: zipfile.ZipFile, opened: FileContext) -> None:
    """Refuse an archive whose arrays are larger than it can hold, or not what their headers say."""
    if sum(info.compress_size for info in archive.infolist()) > opened.size:
        raise opened.broken("arrays that share bytes, or cut short")
    opened.check_held(sum(info.file_size for info in archive.infolist()))
    for info in archive.infolist():
        _check_size(info, opened)
        with archive.open(info) as member:
            _header(member, info, opened)


def _start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return where the bytes of a member begin."""
    file.seek(info.header_offset)
    header = file.read(LOCAL_HEADER)
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return info.header_offset + LOCAL_HEADER + lengths


def _unpacked(member: IO[bytes], count: int, dtype: np.dtype[Any], opened: FileContext) -> Array:
    """Read the values of a packed member, a stretch at a time; reading to the end checks their sum."""
    out: Array = np.empty(count, dtype)
    view, at = out.view(np.uint8), 0
    while part := member.read(min(UNPACKED_AT_ONCE, view.size - at) or 1):
        if at + len(part) > view.size:
            break
        view[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
        at += len(part)
    if at != view.size:
        raise opened.broken("cut short")
    return out


def _check_size(info: zipfile.ZipInfo, opened: FileContext) -> None:
    """Refuse a member that so few bytes cannot hold."""
    if info.compress_size > opened.size:
        raise opened.broken("cut short")
    replace(opened, size=info.compress_size).check_held(info.file_size)


def _sparse_table(path: Path, archive: zipfile.ZipFile, opened: FileContext) -> Table:
    """Return a matrix that `scipy.sparse.save_npz` wrote."""
    from scipy import sparse as scipy_sparse

    from sparsemean._data import sparse

    with archive.open("shape.npy") as member:
        shape = npy_format.read_array(member, allow_pickle=False)
    with opened.parsing():  # sizes that are no numbers, or no end of them
        opened.check_lines(tuple(int(size) for size in shape.flat))
    return sparse.read_sparse(scipy_sparse.load_npz(io.BytesIO(path.read_bytes())))
