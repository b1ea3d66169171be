"""What a file was when it was opened: one that changes while it is read, or is another elsewhere, gives no answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparsemean.errors import InputError

ENDS = 65_536
"""Bytes at the beginning, and at the end, that are looked at."""
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The size of a file, or of all in a folder, when it was last written to in nanoseconds, and a checksum."""

    path: Path
    size: int
    time: int
    digest: str

    def check_unchanged(self) -> None:
        """Refuse a file that is not what it was: some of its values may be old and some new."""
        try:
            now = fingerprint_of(self.path)
        except OSError:
            now = None
        if now != self:
            rule, advice = "stay as it is while it is read", "run again once nothing writes to it, or copy it first"
            raise InputError("FILE", rule, f"{self.path.name}, which changed meanwhile", advice)

    def difference(self, other: Fingerprint) -> str:
        """Say what is different about a file elsewhere; copies keep times to the second only."""
        if self.size != other.size:
            return f"one of {other.size:,} bytes in place of {self.size:,}"
        if self.digest != other.digest:
            return "one with another checksum"
        return "one written at another time" if self.time // SECOND != other.time // SECOND else ""


def fingerprint_of(path: Path) -> Fingerprint:
    """Look at a file, or at every file in a folder and at the ends of the first and the last of them."""
    files = sorted(_inside(path)) if path.is_dir() else [("", path.stat())]
    digest = hashlib.blake2b(digest_size=16)
    for name, found in files:
        digest.update(f"{name}\0{found.st_size}\0".encode(errors="surrogateescape"))
    for name, _ in (files[0], files[-1]) if files else ():
        digest.update(_ends(path / name))
    size = sum(found.st_size for _, found in files)
    return Fingerprint(path, size, max((found.st_mtime_ns for _, found in files), default=0), digest.hexdigest())


def _inside(folder: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name and the state of every file in a folder."""
    with os.scandir(folder / below) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _inside(folder, f"{below}{entry.name}/")
            elif entry.is_file():  # a pipe would make who looks at it wait
                yield f"{below}{entry.name}", entry.stat()


def _ends(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(ENDS)
        file.seek(max(0, file.seek(0, os.SEEK_END) - ENDS))
        return head + file.read(ENDS)
