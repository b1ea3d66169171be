"""Damage that HDF5 does not survive: it walks a heap of strings, and an entry of no length keeps it there for ever.

A collection of the global heap (HDF5 File Format Specification, III.E) starts with ``GCOL``, a version, three zeros and
its size; then follow objects: index and references of two bytes each, four zeros, the size, and what is stored, padded
to eight bytes. Index 0 is what is left over, its size counted with the header, so never 0.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

SCANNED = 32_000_000
"""Bytes at either end of a file that are looked through, which is where names and attributes mostly are."""
START = b"GCOL\x01\x00\x00\x00"
HEADER = struct.Struct("<HHIQ")


def is_endless(path: Path) -> bool:
    """Whether HDF5 would walk a heap of this file for ever."""
    size = path.stat().st_size
    if size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for first, last in ((0, SCANNED), (max(SCANNED, size - SCANNED), size)):
            at = content.find(START, first, last)
            while at >= 0:
                if _walk(content, at):
                    return True
                at = content.find(START, at + 1, last)
    return False


def _walk(content: mmap.mmap, start: int) -> bool:
    """Whether the walk over one collection stops making headway."""
    if start + HEADER.size > len(content):
        return False
    end = min(len(content), start + struct.unpack_from("<Q", content, start + 8)[0])
    at = start + 16
    while at + HEADER.size <= end:
        index, _, _, size = HEADER.unpack_from(content, at)
        step = HEADER.size + (size + 7) // 8 * 8 if index else size
        if step == 0:
            return True
        at += step
    return False
