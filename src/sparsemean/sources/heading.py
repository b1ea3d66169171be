"""What the first lines of a text say: names of columns or measurements already, and what each column is."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError
from sparsemean.kernels import cells
from sparsemean.records import IntArray
from sparsemean.sources.opened import Opened
from sparsemean.sources.refusing import not_numeric
from sparsemean.sources.table import Names, check_names
from sparsemean.sources.wanted import Wanted, chosen

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
    """The columns of a text: their names, those of features if written, which are features, and what else is read."""

    names: list[str]
    labels: Names | None
    separator: int
    features: IntArray
    id: int | None
    group: int | None
    notes: tuple[str, ...]
    spare: bool

    @property
    def texts(self) -> list[int]:
        """Columns that are read as text."""
        return sorted({column for column in (self.id, self.group) if column is not None})

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


def understand(lines: list[bytes], separator: str, wanted: Wanted, opened: Opened) -> Heading:
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
        names, labels, ord(separator), features, _only(names, wanted.id, "--id"), _only(names, wanted.group, "--group"),
        notes, spare and features[-1] == len(names) - 1,
    )  # fmt: skip


def _only(names: list[str], name: str | None, argument: str) -> int | None:
    """Return the one column of that name."""
    if name is None:
        return None
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


def text_of(text: bytes, first: int, last: int) -> str:
    """Return a cell as text."""
    cell = text[first:last].decode()
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
