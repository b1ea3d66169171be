"""Text with commas or tabs between columns: what its first lines say, and one walk over its bytes."""

from __future__ import annotations

import csv
import gzip
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.repeats import likely, repeated
from sparsemean._data.source import Dense
from sparsemean._data.table import FileContext, Names, ReadOptions, Table, as_names, check_names, chosen, not_numeric
from sparsemean._kernels import cells
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError

Floats = npt.NDArray[np.float64]
ENDS = re.compile(rb"\r\n|\n|\r")
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[iI]nf(inity)?)", re.ASCII)
UNNAMED_ID = "the first column, which has no name, was read as the names of the rows"
UNNAMED_LEFT_OUT = "the first column, which has no name, was left out"
NUMBERED = "the first line was read as names of columns, though it holds values; --no-header reads it as a row"
WHOLE_ROW = "the first line, of whole numbers, was read as a row; --header reads it as names of columns"
SPARE = "the last column, which has neither a name nor values, was left out"


@dataclass(frozen=True, slots=True)
class Heading:
    """The columns of a text: their names, those of features if written, which are features, and what else is read.

    ``of_rows`` has the columns that options name, ``watched`` those left out that may name subjects.
    """

    names: list[str]
    labels: Names | None
    separator: int
    features: IntArray
    of_rows: dict[str, int]
    watched: tuple[int, ...]
    notes: tuple[str, ...]
    spare: bool

    @property
    def texts(self) -> list[int]:
        """Columns that are read as text."""
        return sorted({*self.of_rows.values(), *self.watched})

    @property
    def roles(self) -> npt.NDArray[np.int64]:
        """What `kernels.cells` is to do with each column."""
        out = np.full(len(self.names), cells.SKIPPED, dtype=np.int64)
        out[self.features] = np.arange(self.features.size)
        out[self.texts] = cells.TEXT - np.arange(len(self.texts))
        return out

    def trimmed(self, values: Floats) -> tuple[Floats, Names | None, tuple[str, ...]]:
        """Return values, names and notes without a last column that only a separator at the end of lines makes."""
        if self.spare and values.shape[1] > 1 and np.isnan(values[:, -1]).all():
            return values[:, :-1], self.labels[:-1] if self.labels is not None else None, (*self.notes, SPARE)
        return values, self.labels, self.notes

    def refusal(self, bad: dict[int, str]) -> InputError:
        """Refuse columns of text, the first with a row and what stands there."""
        return not_numeric("FILE", [self.names[column] for column in sorted(bad)], "text", bad[min(bad)])

    def complaint(self, text: bytes, how: int) -> str:
        """Say what is wrong with the line that ``text`` begins with."""
        if how == cells.AFTER_QUOTE:
            return "has text after a closing quote"
        end = end_of_line(text, 0)
        count = len(split(text[:end], chr(self.separator)))
        return f"has {count} cell(s) where the first line has {len(self.names)}"


def understand(lines: list[bytes], separator: str, wanted: ReadOptions, opened: FileContext) -> Heading:
    """Tell from one or two lines what the columns are; without a ``separator``, also what stands between them."""
    if any(b"\0" in line for line in lines):
        raise opened.broken("NUL bytes; save it as UTF-8")
    separator = separator or ("\t" if b"\t" in lines[0] and b"," not in lines[0] else ",")
    try:
        first, *rest = (split(line, separator) for line in lines)
    except UnicodeDecodeError as error:
        raise InputError("FILE", "be text in UTF-8", f"{opened.name} ({error.reason})", "save it as UTF-8") from error
    if len(first) == 1 and (other := next((c for c in ";\t," if c in first[0]), None)):
        what = {";": "semicolons", "\t": "tabs", ",": "commas"}[other]
        raise InputError("FILE", f"have {_called(separator)} between columns", f"{opened.name} with {what}")
    named = _is_header(first) if wanted.header is None else wanted.header
    names = first if named else [str(column) for column in range(len(first))]
    if named and rest and len(rest[0]) == len(names) + 1 and not NUMBER.fullmatch(rest[0][0]):
        names = ["", *names]  # as R writes tables: nothing above the names of rows
    spare = named and len(names) > 1 and not names[-1]
    names = [name or (f"column {k}" if k else "") for k, name in enumerate(names)]
    notes = _doubts(first, named) if wanted.header is None else ()
    if named and not names[0] and len(names) > 1:
        notes = (*notes, UNNAMED_ID if wanted.id is None else UNNAMED_LEFT_OUT)
        wanted = replace(wanted, id="") if wanted.id is None else replace(wanted, drop=(*wanted.drop, ""))
    features = chosen(names, wanted)
    labels = check_names([names[column] for column in features], features.size) if named else None
    return Heading(
        names, labels, ord(separator), features,
        {option: _only(names, name, f"--{option}") for option, name in wanted.of_rows.items()},
        _watched(names, wanted, features), notes, spare and features[-1] == len(names) - 1,
    )  # fmt: skip


def _watched(names: list[str], wanted: ReadOptions, features: IntArray) -> tuple[int, ...]:
    """Return columns that were left out and may name subjects."""
    known = {*features.tolist(), *(names.index(name) for name in wanted.of_rows.values())}
    found = [names.index(name) for name in likely(names)] if wanted.independent else []
    return tuple(column for column in found if column not in known)


def _only(names: list[str], name: str, argument: str) -> int:
    """Return the one column of that name."""
    if names.count(name) > 1:
        raise InputError(argument, "name one column of the file", f"{name!r}, {names.count(name)} of them")
    return names.index(name)


def _called(separator: str) -> str:
    return "tabs" if separator == "\t" else "commas"


def split(line: bytes, separator: str) -> list[str]:
    """Return the cells of one line."""
    rows = csv.reader([line.decode().strip("\r\n")], delimiter=separator, skipinitialspace=True)
    return [cell.strip() for cell in next(rows, [])]


def end_of_line(text: bytes, at: int) -> int | None:
    """Return where the line from ``at`` ends, one with a break between quotes after that, or None."""
    while found := ENDS.search(text, at):
        if text.count(b'"', at, found.start()) % 2 == 0:
            return found.end()
        closing = text.find(b'"', found.end())  # not break by break: there may be millions before a quote is closed
        if closing < 0:
            return None
        at = closing + 1
    return None


def text_of(text: bytes, first: int, last: int, errors: str = "strict") -> str:
    """Return a cell as text."""
    cell = text[first:last].decode(errors=errors)
    return cell.replace('""', '"') if first and text[first - 1] == cells.QUOTE else cell


def _is_header(first: list[str]) -> bool:
    """Whether a first line names columns: one of numbers does only if it counts them, as pandas writes columns."""
    others = [cell for cell in first if not NUMBER.fullmatch(cell)]
    if len(others) == len(first) or any(cell and cell not in cells.MEANT for cell in others):
        return True
    counted = first[not first[0] : len(first) - (not first[-1])]  # beside an index, or before a spare separator
    return any(counted == [str(start + k) for k in range(len(counted))] for start in (0, 1))


def _doubts(first: list[str], named: bool) -> tuple[str, ...]:
    """Say how a first line with values was read, where it could be meant otherwise."""
    if named:
        return (NUMBERED,) if any(NUMBER.fullmatch(cell) or cell in cells.MEANT for cell in first) else ()
    return (WHOLE_ROW,) if all(cell.isdigit() for cell in first) and len(set(first)) == len(first) else ()


# Text with commas or tabs between columns: one walk over the bytes, numbers exactly as they are written.

READ_AT_ONCE = 8_000_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read_csv(path: Path, wanted: ReadOptions) -> Table:
    """Read a .csv or .tsv file, or one of them in .gz."""
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    opened = FileContext(path.name, ".tsv file" if tabs else ".csv file")
    with opened.reading(), path.open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw
        size = os.fstat(raw.fileno()).st_size
        if size == 0:  # files that the kernel makes up have no size, and some of them no end
            raise opened.broken("nothing in it")
        return _Text(file, opened, raw, size).table(wanted, "\t" if tabs else ",")


def read_standard_input(wanted: ReadOptions) -> Table:
    """Read text with commas, or with tabs if its first line has no comma, from standard input."""
    opened = FileContext("standard input", "text with commas")
    with opened.reading():
        return _Text(sys.stdin.buffer, opened).table(wanted)


class _Text:
    """What has been read of a file and waits to be used, and what has been made of the rest."""

    def __init__(self, file: IO[bytes], opened: FileContext, raw: IO[bytes] | None = None, size: int = 0) -> None:
        self.file, self.opened, self.raw, self.size = file, opened, raw, size
        self.text, self.n_read, self.ended, self.rows = b"", 0, False, 0
        self.values: npt.NDArray[np.float64] = np.empty((0, 0))
        self.texts: list[list[str]] = []

    def table(self, wanted: ReadOptions, separator: str = "") -> Table:
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
        labels = {option: _labels(texts[at]) for option, at in found.of_rows.items() if option != "id"}
        groups = labels.pop("group", None)
        ids = as_names(texts[found.of_rows["id"]]) if "id" in found.of_rows else None
        subjects = next(filter(None, (repeated(found.names[at], texts[at]) for at in found.watched)), None)
        return Table(Dense(values), names, notes, ids, groups, columns=labels, repeated=subjects)

    def _heading(self, separator: str, wanted: ReadOptions) -> Heading:
        """Learn what the first two lines say, and step over the first if it holds names."""
        lines: list[bytes] = []
        ends = [0]
        self._read_more()
        self.text = self.text.removeprefix(BYTE_ORDER_MARK)
        while len(lines) < 2:
            ends[-1] = len(self.text) - len(self.text[ends[-1] :].lstrip(b"\r\n"))  # one by one millions take long
            end = end_of_line(self.text, ends[-1])
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
        found = understand(lines, separator, wanted, self.opened)
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
            ends = spans[:lines].transpose(1, 2, 0).tolist()
            for column, texts, (first, last) in zip(found.texts, self.texts, ends, strict=True):
                errors = "replace" if column in found.watched else "strict"  # what nobody asked for is never refused
                texts += [text_of(part, a, b, errors) for a, b in zip(first, last, strict=True)]
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
