"""Text with commas or tabs between columns: one walk over the bytes, numbers exactly as they are written."""

from __future__ import annotations

import gzip
import os
import re
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError
from sparsemean.kernels import cells
from sparsemean.sources import heading
from sparsemean.sources.heading import Heading
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import Dense
from sparsemean.sources.table import Table, as_names
from sparsemean.sources.wanted import Wanted

READ_AT_ONCE = 8_000_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read(path: Path, wanted: Wanted) -> Table:
    """Read a .csv or .tsv file, or one of them in .gz."""
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    opened = Opened(path.name, ".tsv file" if tabs else ".csv file")
    with opened.reading(), path.open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw
        size = os.fstat(raw.fileno()).st_size
        if size == 0:  # files that the kernel makes up have no size, and some of them no end
            raise opened.broken("nothing in it")
        return _Text(file, opened, raw, size).table(wanted, "\t" if tabs else ",")


def read_standard_input(wanted: Wanted) -> Table:
    """Read text with commas, or with tabs if its first line has no comma, from standard input."""
    opened = Opened("standard input", "text with commas")
    with opened.reading():
        return _Text(sys.stdin.buffer, opened).table(wanted)


class _Text:
    """What has been read of a file and waits to be used, and what has been made of the rest."""

    def __init__(self, file: IO[bytes], opened: Opened, raw: IO[bytes] | None = None, size: int = 0) -> None:
        self.file, self.opened, self.raw, self.size = file, opened, raw, size
        self.text, self.n_read, self.ended, self.rows = b"", 0, False, 0
        self.values: npt.NDArray[np.float64] = np.empty((0, 0))
        self.texts: list[list[str]] = []

    def table(self, wanted: Wanted, separator: str = "") -> Table:
        """Read everything."""
        wanted.refuse("layer", "dataset", kind="text")
        found = self._heading(separator, wanted)
        self.values = np.empty((self._most_lines(found), found.features.size))
        self.texts = [[] for _ in found.texts]
        self._read_lines(found)
        while not self.ended:
            self._read_more()
            self._read_lines(found)
        if self.text.strip():
            raise self.opened.broken(f"a quote that is never closed in row {self.rows}")
        if self.rows == 0:
            raise InputError("FILE", "have rows", f"{self.opened.name} with one line")
        values, names, notes = found.trimmed(self.values[: self.rows])
        texts = dict(zip(found.texts, self.texts, strict=True))
        return Table(
            Dense(values),
            names,
            notes,
            as_names(texts[found.id]) if found.id is not None else None,
            _labels(texts[found.group]) if found.group is not None else None,
        )

    def _heading(self, separator: str, wanted: Wanted) -> Heading:
        """Learn what the first two lines say, and step over the first if it holds names."""
        lines: list[bytes] = []
        ends = [0]
        self._read_more()
        self.text = self.text.removeprefix(BYTE_ORDER_MARK)
        while len(lines) < 2:
            ends[-1] = len(self.text) - len(self.text[ends[-1] :].lstrip(b"\r\n"))  # one by one millions take long
            end = heading.end_of_line(self.text, ends[-1])
            if end is None and self.ended:
                break
            if end is None:
                self._read_more()
                continue
            line = self.text[ends[-1] : end]
            if line.strip():
                lines.append(line)
                ends.append(end)
            else:
                ends[-1] = end
        if not lines:
            raise self.opened.broken("a quote that is never closed" if self.text.strip() else "nothing in it")
        found = heading.understand(lines, separator, wanted, self.opened)
        if found.labels is not None:
            self.text = self.text[ends[1] :]
        return found

    def _read_more(self) -> None:
        """Read as much again as is waiting, so that a line that does not end is not walked over too often."""
        if len(self.text) >= READ_AT_ONCE and b"\0" in self.text:  # a hole in a file: it would be held whole
            raise self.opened.broken("NUL bytes; save it as UTF-8")
        more = self.file.read(max(READ_AT_ONCE, len(self.text)))
        self.n_read += len(more)
        self.ended = not more
        self.text += more if more or self.text.endswith((b"\n", b"\r")) else b"\n"

    def _read_lines(self, found: Heading) -> None:
        """Use up the complete lines of the text."""
        last = len(self.text) - (self.text.endswith(b"\r") and not self.ended)  # its line feed may be still to come
        end = max(self.text.rfind(b"\n", 0, last), self.text.rfind(b"\r", 0, last)) + 1
        text: npt.NDArray[np.uint8] = np.frombuffer(self.text, dtype=np.uint8, count=end)
        roles, used, how = found.roles, 0, cells.NO_ROOM
        odd = np.empty((4096 + 2 * roles.size, 4), dtype=np.int64)
        spans = np.empty((self._most_lines(found), len(found.texts), 2), dtype=np.int64)
        while how == cells.NO_ROOM:
            room = self.values[self.rows :].view(np.uint64)
            lines, done, n_odd, how = cells.read_lines(text[used:], found.separator, roles, room, spans, odd)
            part = self.text[used : used + done]
            self._settle(found, part, odd[:n_odd])
            for texts, (first, last) in zip(self.texts, spans[:lines].transpose(1, 2, 0), strict=True):
                texts += [heading.text_of(part, a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
            self.rows += lines
            used += done
            if how == cells.NO_ROOM and self.rows == self.values.shape[0]:
                self._make_room(found, len(self.text) - used)
        self.text = self.text[used:]
        if how != cells.ALL:
            raise self.opened.broken(f"row {self.rows} {found.complaint(self.text, how)}")

    def _settle(self, found: Heading, text: bytes, odd: npt.NDArray[np.int64]) -> None:
        """Read the numbers that the walk left open, and refuse text."""
        bad: dict[int, str] = {}
        for line, column, first, last in odd.tolist():
            cell = text[first:last].decode(errors="replace")
            try:
                if not cell.isascii() or "_" in cell:
                    raise ValueError
                self.values[self.rows + line, found.roles[column]] = float(cell)
            except ValueError:
                bad.setdefault(column, f"row {self.rows + line}: {cell[:40]!r}")
        if bad:
            raise found.refusal(bad)

    def _most_lines(self, found: Heading) -> int:
        """Return how many lines can be among the bytes that wait: a line has a byte for each column at least."""
        return len(self.text) // len(found.names) + 2

    def _make_room(self, found: Heading, waiting: int) -> None:
        """Make room for the rows to be expected, judging by the share of the file that has been used."""
        used = 1 - waiting / self.n_read
        share = used * self.raw.tell() / self.size if self.raw is not None and self.size else 0.0
        expected = int(1.02 * self.rows / share) if share else self.rows * 3 // 2
        old, self.values = self.values, np.empty((expected + self._most_lines(found), self.values.shape[1]))
        self.values[: self.rows] = old


def _labels(texts: list[str]) -> npt.NDArray[Any]:
    """Return labels as whole numbers if all are written so, else as text, those not there as NaN."""
    if all(WHOLE.fullmatch(text) for text in set(texts)):
        return np.array(texts).astype(np.int64)
    out = np.empty(len(texts), dtype=object)
    out[:] = [np.nan if not text or text in cells.MISSING else text for text in texts]
    return out
