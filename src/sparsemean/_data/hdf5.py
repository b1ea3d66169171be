"""HDF5 through h5py: nothing beyond the file is asked for, and damage that ends HDF5 is found before."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._data.chunked import Chunked, check_stored_matrix
from sparsemean._data.matrices import Npy
from sparsemean._data.source import Source
from sparsemean._data.table import FileContext, ReadOptions, Table, check_feature_names
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    import h5py

SCANNED = 32_000_000
"""Bytes at either end of a file that are looked through, which is where names and attributes mostly are."""
SUPERBLOCK = b"\x89HDF\r\n\x1a\n"
START = b"GCOL\x01\x00\x00\x00"
HEADER = struct.Struct("<HHIQ")
VIRTUAL = re.compile(rb"\x04\x03(?=(.{6}\0\0))", re.DOTALL)
"""Version and class of the layout of a virtual dataset, before the address of a heap; no file is 2⁴⁸ bytes long."""
MANY_CHUNKS = 100_000
"""Chunks that any file may claim."""
CHECKSUM = 4
"""Bytes that the filter fletcher32 puts after a chunk."""


def check_heaps(path: Path, opened: FileContext) -> int:
    """Refuse a file with a heap that HDF5 would walk for ever, or with a virtual dataset, which it trusts blindly.

    Return the bytes of the longest string, which may be that of any number of rows.
    """
    with path.open("rb") as file:
        head = file.read(SCANNED)
        last = file.seek(max(SCANNED, path.stat().st_size - SCANNED))
        tail = file.read(SCANNED)
    base, heaps, longest = max(0, head.find(SUPERBLOCK)), set[int](), 0
    for content, first in ((head, -base), (tail, last - base)):
        for start in re.finditer(re.escape(START), content):
            heaps.add(start.start() + first)
            for size in _sizes_of_objects(content, start.start()):
                if size is None:
                    raise opened.broken("a heap of strings that is damaged")
                longest = max(longest, size)
    for content in (head, tail) if heaps else ():
        if any(int.from_bytes(layout[1], "little") in heaps for layout in VIRTUAL.finditer(content)):
            raise _beyond(opened, "a virtual dataset")
    return longest


def _sizes_of_objects(content: bytes, start: int) -> Iterator[int | None]:
    """Yield the sizes of the objects of one collection, None where the walk makes no headway."""
    if start + HEADER.size > len(content):
        return
    end = min(len(content), start + struct.unpack_from("<Q", content, start + 8)[0])
    at = start + 16
    while at + HEADER.size <= end:
        index, _, _, size = HEADER.unpack_from(content, at)
        step = HEADER.size + (size + 7) // 8 * 8 if index else size
        yield size if step else None
        if step == 0:
            return
        at += step


def check_filters(dataset: h5py.Dataset, opened: FileContext) -> None:
    """Refuse parameters of filters that are not those HDF5 itself would set for such a dataset."""
    import h5py

    sized = {h5py.h5z.FILTER_SZIP, h5py.h5z.FILTER_NBIT, h5py.h5z.FILTER_SCALEOFFSET}
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    codes = {code for code, *_ in filters}
    if h5py.h5z.FILTER_FLETCHER32 in codes and hasattr(dataset.id, "chunk_iter"):  # HDF5 before 1.12.3 cannot tell
        _check_sums(dataset, opened, packed=bool(codes - {h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_SHUFFLE}))
    if not codes & sized:
        return
    with h5py.File(opened.name, "w", driver="core", backing_store=False) as memory:
        space = h5py.h5s.create_simple(dataset.chunks)
        twin = h5py.h5d.create(memory.id, b"twin", dataset.id.get_type(), space, plist).get_create_plist()
        if filters != [twin.get_filter(k) for k in range(twin.get_nfilters())]:
            raise opened.broken(f"{dataset.name!r} with filters of another array")


def _check_chunks(dataset: h5py.Dataset, opened: FileContext) -> None:
    """Refuse chunks larger or more than so few bytes can tell of: they cost time and memory, written or not."""
    if getattr(dataset, "chunks", None) is None:
        return
    opened.check_held(math.prod(dataset.chunks) * dataset.dtype.itemsize)
    total = math.prod(-(-size // step) for size, step in zip(dataset.shape, dataset.chunks, strict=True))
    if total > max(MANY_CHUNKS, opened.size):
        opened.check_size(dataset.shape, dataset.dtype.itemsize)
        raise opened.broken(f"{total:,} chunks in {opened.size:,.0f} bytes")


def _check_sums(dataset: h5py.Dataset, opened: FileContext, *, packed: bool) -> None:
    """Refuse chunks too short for their checksums: HDF5 takes four bytes off the length, and reads from there on."""
    least = CHECKSUM + (0 if packed else math.prod(dataset.chunks) * dataset.dtype.itemsize)
    sizes: set[int] = set()
    dataset.id.chunk_iter(lambda chunk: sizes.add(chunk.size))
    if min(sizes, default=least) < least:
        raise opened.broken(f"{dataset.name!r} with chunks cut short")


# An HDF5 file that is asked for nothing beyond itself: links, storage and sources in other files are not followed.


class Hdf5Group:
    """A group of an open file. Its members are groups like it, and datasets whose values can be read."""

    def __init__(self, group: h5py.Group, opened: FileContext) -> None:
        self.group, self.opened, self.attrs = group, opened, group.attrs

    def __enter__(self) -> Hdf5Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.group.file.close()

    def keys(self) -> list[str]:
        """Return the names of all members."""
        return list(self.group.keys())

    def __contains__(self, name: str) -> bool:
        try:
            self.own(name)
        except KeyError:
            return False
        return True

    def __getitem__(self, name: Any) -> Any:
        """Return the member of a name or path, or what a reference points to."""
        element = self.own(name) if isinstance(name, str) else self.group[name]
        if hasattr(element, "keys"):
            return Hdf5Group(element, self.opened)
        check_stored(element, self.opened)
        _check_chunks(element, self.opened)
        return element

    def own(self, path: str) -> Any:
        """Return what lies at a path, as h5py has it; a link of any kind, which may lead anywhere, is refused."""
        here = self.group.file if path.startswith("/") else self.group
        for name in path.split("/"):
            if name not in ("", "."):
                here = self._step(here, name)
        return here

    def _step(self, group: h5py.Group, name: str) -> Any:
        """Return a member that lies in a group itself; h5py's own ``in`` would follow a link."""
        from h5py import h5l

        if not hasattr(group, "keys") or not group.id.links.exists(_name_bytes(name)):
            raise KeyError(f"no {name!r} in {group.name}")
        if group.id.links.get_info(_name_bytes(name)).type != h5l.TYPE_HARD:
            raise _beyond(self.opened, f"{name!r}, a link", "replace the link by what it leads to")
        return group[name]


def _name_bytes(name: str | bytes) -> bytes:
    """Return a name as the file has it; h5py leaves those that are no UTF-8 as they are."""
    return name if isinstance(name, bytes) else name.encode()


def check_stored(dataset: h5py.Dataset, opened: FileContext) -> None:
    """Refuse a dataset whose values lie in other files, or may: those that are absent would be fill values."""
    if not hasattr(dataset, "is_virtual"):
        return
    if dataset.external:
        raise _beyond(opened, f"{dataset.name!r}, stored in another file")
    if dataset.is_virtual:
        raise _beyond(opened, f"{dataset.name!r}, a virtual dataset")
    check_filters(dataset, opened)


def _beyond(opened: FileContext, what: str, advice: str = "write the values into the file itself") -> InputError:
    return InputError(opened.argument, "hold its data itself", f"{opened.name} with {what}", advice)


# HDF5 through h5py: one dataset, mapped where it lies in one stretch, else read in whole chunks.


def read_hdf5_dataset(dataset: h5py.Dataset, feature_names: object = None) -> Table:
    """Take a dataset of an open file."""
    opened = FileContext(type(dataset).__name__, "HDF5 dataset in an open file", argument="X")
    with opened.reading():
        return Table(hdf5_source(dataset, opened), check_feature_names(feature_names, dataset.shape[1]))


def read_hdf5(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open the AnnData of an .h5ad file, or what is meant of an .h5 file."""
    from sparsemean._data.anndata import read_stored

    file, opened = open_hdf5(path, opened.kind)
    try:
        with opened.reading():
            return read_stored(file, wanted, opened, hdf5_source)
    except BaseException:
        file.group.file.close()
        raise


def open_hdf5(path: Path, kind: str) -> tuple[Hdf5Group, FileContext]:
    """Open a file for reading only."""
    h5py = require("h5py", extra="hdf5", purpose=f"reading {kind}s")
    opened = FileContext(path.name, kind, path.stat().st_size)
    opened = replace(opened, longest=check_heaps(path, opened))
    with opened.reading():
        return Hdf5Group(h5py.File(path, "r", locking="best-effort"), opened), opened


def hdf5_source(dataset: h5py.Dataset, opened: FileContext) -> Source:
    """Return a dataset as a source: mapped from the file if it lies there as NumPy would have it in memory."""
    check_stored(dataset, opened)
    check_stored_matrix(dataset, opened)
    _check_chunks(dataset, opened)
    return _mapped(dataset) or Chunked(dataset, dataset.chunks or (1, dataset.shape[1]), opened)


def _mapped(dataset: h5py.Dataset) -> Npy | None:
    """Map a dataset that lies in one stretch of a file opened for reading; None where it does not."""
    import h5py

    file, dtype = dataset.file, np.dtype(dataset.dtype)
    if dataset.chunks is not None or dataset.is_virtual or file.driver != "sec2" or file.mode != "r":
        return None
    if dtype.kind == "b" or h5py.h5t.py_create(dtype) != dataset.id.get_type():
        return None
    offset, needed, path = dataset.id.get_offset(), dataset.size * dtype.itemsize, Path(file.filename).absolute()
    if offset is None or offset % dtype.alignment or dataset.id.get_storage_size() != needed:
        return None
    behind = os.fstat(file.id.get_vfd_handle())
    if not path.exists() or not os.path.samestat(behind, path.stat()) or behind.st_size < offset + needed:
        return None
    return Npy(path, offset, (dataset.shape[0], dataset.shape[1]), dtype, fortran=False)
