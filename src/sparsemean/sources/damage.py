"""Damage that HDF5 does not survive, looked for before it is asked to read.

It walks a heap of strings, and an entry of no length keeps it there for ever. A collection of the global heap (HDF5
File Format Specification, III.E) starts with ``GCOL``, a version, three zeros and its size; then follow objects: index
and references of two bytes each, four zeros, the size, and what is stored, padded to eight bytes. Index 0 is what is
left over, its size counted with the header, so never 0.

The sources of a virtual dataset are such an object too, which the layout of the dataset (version 4, class 3) points to.
HDF5 reads it before it looks at the checksum at its end.

And it unpacks chunks by what the list of filters says of the dataset, of which it keeps a copy there, even beyond the
end of its memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsemean.sources.opened import Opened

SCANNED = 32_000_000
"""Bytes at either end of a file that are looked through, which is where names and attributes mostly are."""
SUPERBLOCK = b"\x89HDF\r\n\x1a\n"
START = b"GCOL\x01\x00\x00\x00"
HEADER = struct.Struct("<HHIQ")
VIRTUAL = re.compile(rb"\x04\x03(?=(.{6}\0\0.{4}))", re.DOTALL)
"""Version and class of a layout before the address of a collection, and an index in it; no file is 2⁴⁸ bytes long."""
SEED = 0xDEADBEEF
WORD = 0xFFFFFFFF


def check_heaps(path: Path, opened: Opened) -> None:
    """Refuse a file with a heap that HDF5 would walk for ever, or with sources that are not what was written."""
    with path.open("rb") as file:
        head = file.read(SCANNED)
        last = file.seek(max(SCANNED, path.stat().st_size - SCANNED))
        tail = file.read(SCANNED)
    base, heaps = max(0, head.find(SUPERBLOCK)), dict[int, tuple[bytes, int]]()
    for content, first in ((head, -base), (tail, last - base)):
        for start in re.finditer(re.escape(START), content):
            heaps[start.start() + first] = content, start.start()
            if any(size is None for _, _, size in _objects(content, start.start())):
                raise opened.broken("a heap of strings that is damaged")
    for content in (head, tail) if heaps else ():
        for layout in VIRTUAL.finditer(content):
            address, index = struct.unpack("<QI", layout[1])
            if address in heaps and not _is_whole(_stored(*heaps[address], index)):
                raise opened.broken("sources of a virtual dataset that are damaged")


def _objects(content: bytes, start: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield index, place and size of the objects of one collection; no size where the walk makes no headway."""
    if start + HEADER.size > len(content):
        return
    end = min(len(content), start + struct.unpack_from("<Q", content, start + 8)[0])
    at = start + 16
    while at + HEADER.size <= end:
        index, _, _, size = HEADER.unpack_from(content, at)
        step = HEADER.size + (size + 7) // 8 * 8 if index else size
        if step == 0:
            yield index, at, None
            return
        yield index, at + HEADER.size, size
        at += step


def _stored(content: bytes, start: int, wanted: int) -> bytes:
    """Return one object of a collection."""
    return next(
        (content[at : at + (size or 0)] for index, at, size in _objects(content, start) if index == wanted), b""
    )


def _is_whole(stored: bytes) -> bool:
    """Whether the last four bytes are the checksum of the others."""
    return len(stored) > 4 and lookup3(stored[:-4]) == int.from_bytes(stored[-4:], "little")


def lookup3(content: bytes) -> int:
    """Return the checksum of Jenkins (http://burtleburtle.net/bob/c/lookup3.c) that HDF5 keeps of its own records.

    Examples
    --------
    >>> hex(lookup3(b"")), hex(lookup3(b"Four score and seven years ago"))
    ('0xdeadbeef', '0x17770551')
    """
    a: int
    b: int
    c: int
    a = b = c = (SEED + len(content)) & WORD
    if not content:
        return c
    *rest, last = (content[k : k + 12].ljust(12, b"\0") for k in range(0, len(content), 12))
    for part in rest:
        x, y, z = struct.unpack("<III", part)
        a, b, c = _mixed((a + x) & WORD, (b + y) & WORD, (c + z) & WORD)
    x, y, z = struct.unpack("<III", last)
    a, b, c = (a + x) & WORD, (b + y) & WORD, (c + z) & WORD
    for by in (14, 11, 25, 16, 4, 14, 24):  # (b, c), (c, a), (a, b) in turn
        c = ((c ^ b) - _turned(b, by)) & WORD
        a, b, c = b, c, a
    return b


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        a = ((a - c) & WORD) ^ _turned(c, by)
        c = (c + b) & WORD
        a, b, c = b, c, a
    return a, b, c


def _turned(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & WORD


def check_filters(dataset: Any, opened: Opened) -> None:
    """Refuse parameters of filters that are not those HDF5 itself would set for such a dataset."""
    import h5py

    sized = (h5py.h5z.FILTER_SZIP, h5py.h5z.FILTER_NBIT, h5py.h5z.FILTER_SCALEOFFSET)
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    if not any(code in sized for code, *_ in filters):
        return
    with h5py.File(opened.name, "w", driver="core", backing_store=False) as memory:
        space = h5py.h5s.create_simple(dataset.chunks)
        twin = h5py.h5d.create(memory.id, b"twin", dataset.id.get_type(), space, plist).get_create_plist()
        if filters != [twin.get_filter(k) for k in range(twin.get_nfilters())]:
            raise opened.broken(f"{dataset.name!r} with filters of another array")
