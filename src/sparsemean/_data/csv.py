"""Text with commas, tabs or semicolons between columns: what its first lines say, and one walk over its bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import IO

import numpy as np
import numpy.typing as npt

from sparsemean._data.dialect import (
    LONGEST_CELL,
    NUMBER,
    SEPARATORS,
    Dialect,
    Numerals,
    Recoder,
    cells_of,
    dialect_of,
    swapped,
)
from sparsemean._data.foreign import FEATURE_WORDS, FIRST_BYTES, look_like_features, refuse_known
from sparsemean._data.repeats import MOST_LOOKED_AT, Layout, doubts, layout_of, not_numeric, note_left_out, repeated
from sparsemean._data.source import Array, Dense
from sparsemean._data.table import FileContext, Names, ReadOptions, Table, as_names, check_feature_names
from sparsemean._kernels import cells, compiling
from sparsemean._kernels.memory_layout import cut
from sparsemean._util.checks import list_names
from sparsemean._util.files import Unpacked
from sparsemean.errors import InputError, together

Refused = dict[int, tuple[str, str]]
"""Columns that hold no numbers: what they hold, and where it is seen."""
ENDS = re.compile(rb"\r\n|\n|\r")
HINT = re.compile(rb'"?sep=([,;|\t])"?[\r\n]+', re.I)
"""What Excel writes, and honours, above the names."""
BREAKS = re.compile(rb"[\r\n]*")
UNNAMED_ID = "the first column, which has no name, was read as the names of the rows"
UNNAMED_LEFT_OUT = "the first column, which has no name, was left out"
NUMBERED = "the first line was read as names of columns, though it holds values; --no-header reads it as a row"
WHOLE_ROW = "the first line, of numbers, was read as a row; --header reads it as names of columns"
FEWEST_RISING = 6
"""Numbers that seldom rise all along by chance."""
SPARE = "the last column, which has neither a name nor values, was left out"


@dataclass(frozen=True, slots=True)
class Heading:
    """The columns of a text, their names as features if written, what is left out but read, and how it is written.

    ``texts`` are read as text; ``halves`` has those left out that have two values in the first lines, after one that
    may call a row a total.
    """

    layout: Layout
    texts: list[int]
    labels: Names | None
    dialect: Dialect
    halves: list[int]
    notes: tuple[str, ...]
    spare: bool

    def complaint(self, text: bytes, how: int, *, sheet: bool) -> str:
        """Say what is wrong with the line that ``text`` begins with, or the row of a ``sheet``."""
        if how == cells.AFTER_QUOTE:
            return "has text after a closing quote"
        line = text[: end_of_line(text, 0)]
        count = len(cells_of(line[:LONGEST_CELL].decode(errors="replace"), self.dialect.separator))
        more = " or more" if len(line) > LONGEST_CELL else ""
        alone = len(self.layout.names) == 1 and self.dialect.separator == "," and not sheet
        hint = ", which --sep ';' reads as one column" if alone else ""
        return f"has {count}{more} cell(s) where the first line has {len(self.layout.names)}{hint}"


def understand(lines: list[str], usual: str, wanted: ReadOptions, opened: FileContext) -> Heading:
    """Tell from the first lines what the columns are, and what stands between them unless options say so."""
    dialect = dialect_of(lines, usual, wanted)
    rows = [cells_of(line, dialect.separator) for line in lines]
    another = next((sign for sign in SEPARATORS if sign in rows[0][0]), None)
    if wanted.sep is None and len(rows[0]) == 1 and another:
        rule = f"have {SEPARATORS.get(dialect.separator, dialect.separator)} between columns"
        raise InputError("FILE", rule, f"{opened.name} with {SEPARATORS[another]}", f"--sep {quote(another)} says so")
    written = rows[0]
    if dialect.decimal == ",":
        rows = [[swapped(cell.encode()) for cell in row] for row in rows]
    first, *rest = rows
    below = [row[0] for row in rest]
    above = ["", *first] if rest and all(len(row) == len(first) + 1 for row in rest) else first
    named = _is_header(first, []) or _is_header(above, below) if wanted.header is None else wanted.header
    names = written if named else [str(column) for column in range(len(first))]
    if named and rest and len(rest[0]) == len(names) + 1:
        if not any(row[-1] for row in rest):  # lines end with a separator, but for the first
            names = [*names, ""]
        elif _names_rows(lines, below, dialect.separator):
            names = ["", *names]  # as R writes tables: nothing above the names of rows
    spare = named and len(names) > 1 and not names[-1]
    names = [name or (f"column {k}" if k else "") for k, name in enumerate(names)]
    notes = _doubts(first, named) if wanted.header is None else ()
    if named and not names[0] and len(names) > 1:
        notes = (*notes, UNNAMED_ID if wanted.id is None else UNNAMED_LEFT_OUT)
        wanted = replace(wanted, id="") if wanted.id is None else replace(wanted, drop=(*wanted.drop, ""))
    layout = layout_of(names, wanted)
    labels = check_feature_names([names[column] for column in layout.features], layout.features.size) if named else None
    texts = {column: found for column in layout.others if (found := _texts(rest, column, len(names)))}
    naming = [column for column, found in texts.items() if len(found) > 2][:1]
    halves = [*naming, *[column for column, found in texts.items() if len(found) == 2][:MOST_LOOKED_AT]]
    spare = spare and layout.features[-1] == len(names) - 1
    read = sorted({*layout.of_rows.values(), *layout.watched, *halves})
    return Heading(layout, read, labels, dialect, halves, notes, spare)


def _texts(rows: list[list[str]], column: int, width: int) -> set[str]:
    """Return the values of a column in some rows, gaps not counted, nothing if all are numbers."""
    found = {row[column] for row in rows if len(row) == width} - {"", *cells.MISSING}
    return set() if all(NUMBER.fullmatch(cell) for cell in found) else found


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


def _is_header(first: list[str], below: list[str]) -> bool:
    """Whether a first line names columns: one of numbers does if it counts them, or stands beside names of rows.

    These are text, or whole numbers that count rows or rise all along, ``below`` a cell with nothing in it.
    """
    others = [cell for cell in first if not NUMBER.fullmatch(cell)]
    if len(others) == len(first) or any(cell and cell not in cells.MEANT for cell in others):
        return True
    counted = first[not first[0] : len(first) - (not first[-1])]  # beside an index, or before a spare separator
    rising = len(below) >= FEWEST_RISING and all(cell.isdigit() for cell in below) and _rise([*map(int, below)])
    texts = not any(NUMBER.fullmatch(cell) or cell in cells.MEANT for cell in below)
    counts = [
        all(cell == str(start + k) for k, cell in enumerate(each)) for each in (counted, below) for start in (0, 1)
    ]
    beside = not first[0] and len({*first}) == len(first) > 1
    return any(counts[:2]) or (beside and bool(below) and (texts or rising or any(counts[2:])))


def _names_rows(lines: list[str], below: list[str], separator: str) -> bool:
    """Whether cells below nothing name rows: between commas they are quoted, as $1,299 may be one number."""
    counts = len(below) > 1 and any(below == [str(start + k) for k in range(len(below))] for start in (0, 1))
    quoted = all(line.lstrip()[:1] == '"' for line in lines[:2])
    return (counts or not NUMBER.fullmatch(below[0])) and (separator != "," or quoted)


def _doubts(first: list[str], named: bool) -> tuple[str, ...]:
    """Say how a first line with values was read, where it could be meant otherwise."""
    if named:
        return (NUMBERED,) if any(NUMBER.fullmatch(cell) or cell in cells.MEANT for cell in first) else ()
    whole = all(cell.isdigit() for cell in first[not first[0] :]) and len(set(first)) == len(first)
    rising = (
        len(first) >= FEWEST_RISING and all(map(NUMBER.fullmatch, first)) and _rise([float(cell) for cell in first])
    )
    return (WHOLE_ROW,) if whole or rising else ()


def _rise(numbers: list[float]) -> bool:
    """Whether numbers rise, or fall, all along, as wavelengths do."""
    return numbers in (sorted(set(numbers)), sorted(set(numbers), reverse=True))


# Text with commas or tabs between columns: one walk over the bytes, numbers exactly as they are written.

READ_AT_ONCE = 8_000_000
JUDGED_BY, MOST_BYTES = 100, 64_000
"""Lines by which a text is judged, and bytes of them: two are always looked at."""
ODD_AT_ONCE = 32_768
"""Cells that are not plain numbers and are put off until that many are there."""
FEW_CELLS = 10_000
"""Cells that a line may have in a file of fewer bytes."""
A_LINE = 6
"""Cells in the time of which a line is begun and ended without compiled kernels."""
TEXTS_AT_ONCE = 100_000
A_TEXT, A_NUMERAL = 64, 24
"""Bytes that a text takes besides its own, and those in the time of which a number beside other signs is read."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read_csv(path: Path, wanted: ReadOptions, opened: FileContext, kind: type[Text] | None = None) -> Table:
    """Read a .csv, .tsv or .txt file, or one of them in .gz, as a ``kind`` of text."""
    if opened.size == 0:  # files that the kernel makes up have no size, and some of them no end
        raise opened.broken("nothing in it")
    with path.open("rb") as raw:
        file: IO[bytes] | Unpacked = Unpacked(raw, opened.check_held) if path.name.lower().endswith(".gz") else raw
        return (kind or Text)(file, opened, raw).table(wanted, "," if opened.kind == ".csv file" else "\t")


class Lines:
    """Lines that are made while they are read, as if from a file."""

    lines: Iterator[bytes]

    def read(self, size: int, /) -> bytes:
        """Return lines of about ``size`` bytes, nothing after the last."""
        out = io.BytesIO()
        for line in self.lines:
            out.write(line)
            if out.tell() >= size:
                break
        return out.getvalue()


class Text:
    """What has been read of a file and waits to be used, and what has been made of the rest."""

    def __init__(self, file: IO[bytes] | Unpacked | Lines, opened: FileContext, raw: IO[bytes] | None = None) -> None:
        self.file, self.opened, self.raw, self.signs = file, opened, raw, [sign.encode() for sign in SEPARATORS]
        self.text, self.n_read, self.ended, self.rows, self.held = b"", 0, False, 0, 0
        self.values: npt.NDArray[np.float64] = np.empty((0, 0))
        self.texts: list[list[str]] = []

    def table(self, wanted: ReadOptions, usual: str = ",") -> Table:
        """Read everything."""
        wanted.refuse("layer", "dataset", kind="text")
        self.recode, self.na = Recoder(wanted.encoding, self.opened.name), wanted.na
        lines, end = self._first_lines()
        if self.hint and wanted.sep is None and (sign := self.hint[1].decode()) in lines[0]:
            wanted = replace(wanted, sep=sign)
        if (begins := self.text[:99].lstrip(b'"')).startswith(FIRST_BYTES):
            refuse_known(self.opened.name, begins.decode(errors="replace"))
        if wanted.transpose:
            return self.turned(lines, wanted, usual)
        found = understand(lines, usual, wanted, self.opened)
        self.signs = [found.dialect.separator.encode()]
        first = self.text if found.labels is None else self.text[end:]
        dropped: dict[str, str] = {}
        if wanted.drop_text:  # by some lines, before room is made for what will not be used
            dropped = self._remarks(found, self._begin(found, first[: first.rfind(b"\n", 0, LONGEST_CELL) + 1]))
            found = understand(lines, usual, replace(wanted, drop=(*wanted.drop, *dropped)), self.opened)
        bad = self._begin(found, first)
        while not (self.ended or (bad and not wanted.drop_text and self.n_read >= READ_AT_ONCE)):
            self._read_more()
            bad = self._read_lines(found)
        bad = self.numerals.refused(self.values[: self.rows], self.roles) if self.ended else bad
        if bad and not wanted.drop_text:
            raise self._refusal(found, bad)
        if self.text.strip():
            raise self.opened.broken(f"a quote that is never closed in row {self.rows}")
        if self.rows == 0:
            raise InputError("FILE", "have rows", f"{self.opened.name} with one line")
        return self._finished(found, bad, dropped)

    def turned(self, lines: list[str], wanted: ReadOptions, usual: str) -> Table:
        """Read a text with features in rows, as `turned.TextOfFeatures` does."""
        raise NotImplementedError

    def _judged(self, found: Heading) -> list[str]:
        """Say how the text was read, where that was judged."""
        judged, encoded = " and ".join(found.dialect.judged), self.recode.note
        return [f"read as {encoded or 'text'}" + (f" with {judged}" if judged else "")] if judged or encoded else []

    def _begin(self, found: Heading, text: bytes) -> Refused:
        """Read the first lines below a heading, and return columns that hold no numbers."""
        self.text, self.rows, self.numerals = text, 0, Numerals(found.dialect, len(found.layout.names), self.na)
        self.values = np.empty((self._most_lines(found), found.layout.features.size))
        self.texts, self.held = [[] for _ in found.texts], 0
        self.roles = np.full(len(found.layout.names), cells.SKIPPED, dtype=np.int64)
        self.roles[found.layout.features] = np.arange(found.layout.features.size)
        self.roles[found.texts] = cells.TEXT - np.arange(len(found.texts))
        return self._read_lines(found)

    def _remarks(self, found: Heading, bad: Refused) -> dict[str, str]:
        """Return the names of columns that hold no numbers, and what is to be said of each that is left out."""
        out = {}
        for column, (kind, where) in sorted(bad.items()):
            numbers = self.numerals.has_numbers(column)
            out[found.layout.names[column]] = f"numbers, but for {where}" if numbers else kind.replace("text", "")
        return out

    def _refusal(self, found: Heading, bad: Refused) -> InputError:
        """Refuse columns that hold no numbers; whoever drops them is told of gaps in the others at once."""
        names, faults, first = found.layout.names, list[InputError](), [*self.numerals.words.get(0, ())]
        named = found.labels is not None
        texts = named and first and not self.numerals.has_numbers(0)
        if texts and (FEATURE_WORDS.search(names[0]) or look_like_features(first)):
            got = f"what may be names of features in column {names[0]!r} ({list_names(first, 2)})"
            faults.append(InputError("FILE", "have samples in rows", got, "if they are, add --transpose"))
        lines = {where.partition(":")[0] for _, where in bad.values()}
        some = sorted(bad) if named and (len(bad) == 1 or len(lines) > 1) else []  # a line of words has names
        strays = {column: words for column in some if (words := self.numerals.strays(column))}
        if strays:
            where = list_names([f"{names[column]!r} ({bad[column][1]})" for column in strays])
            options = " ".join(f"--na {quote(word)}" for word in dict.fromkeys(chain(*strays.values())))
            got = f"text in {f'{len(strays)} columns:' if len(strays) > 1 else 'column'} {where} among numbers"
            advice = f"if it stands for missing values, add {options}, else leave out with --drop-text"
            faults.append(InputError("FILE", "have numeric columns only", got, advice))
        rest = [column for column in sorted(bad) if column not in strays]
        if rest:
            others = np.isin(found.layout.features, sorted(bad), invert=True)
            gaps = not strays and bool(np.isnan(self.values[: self.rows, others]).any())
            faults.append(not_numeric("FILE", {names[k]: bad[k][0] for k in rest}, bad[rest[0]][1], gaps=gaps))
        return together(faults)

    def _finished(self, found: Heading, bad: Refused, dropped: dict[str, str]) -> Table:
        """Return the table, without the columns of ``bad``."""
        layout = found.layout
        values, names, notes = self.values[: self.rows], found.labels, found.notes
        for number in (float(cell) for cell in self.na if NUMBER.fullmatch(cell)):
            values[values == number] = np.nan
        if found.spare and values.shape[1] > 1 and np.isnan(values[:, -1]).all():  # a separator at the end of lines
            values, names, notes = values[:, :-1], None if names is None else names[:-1], (*notes, SPARE)
        if bad:
            dropped |= self._remarks(found, bad)
            keep = np.isin(layout.features[: values.shape[1]], sorted(bad), invert=True)
            values, names = values[:, keep], None if names is None else names[keep]
            if not keep.any():
                raise InputError("FILE", "have columns left to look at", f"none of {len(layout.names)}")
        kept = {column: layout.names[column] for column in layout.features.tolist() if column not in bad}
        texts = dict(zip(found.texts, self.texts, strict=True))
        labels = {option: _labels(texts[at], self.na) for option, at in layout.of_rows.items() if option != "id"}
        ids = texts[layout.of_rows["id"]] if "id" in layout.of_rows else None
        subjects = (repeated(layout.names[at], texts[at]) for at in layout.watched)
        called = [*([ids] if ids else []), *(texts[at] for at in (*layout.watched, *found.halves))]
        return Table(
            Dense(values),
            names,
            (
                *(self._judged(found) if found.dialect.judged or self.recode.note else ()),
                *notes,
                *([note_left_out(dropped)] if dropped else []),
                *self.numerals.notes(kept),
                *doubts(lambda: [values], [*kept.values()], called),
            ),
            as_names(ids) if ids is not None else None,
            labels.pop("group", None),
            columns=labels,
            repeated=next(filter(None, subjects), None),
            two_valued=tuple(layout.names[at] for at in found.halves if len({*texts[at]} - {"", *cells.MISSING}) == 2),
        )

    def _first_lines(self) -> tuple[list[str], int]:
        """Return some lines, two at least if there are so many, and where the first of them ends."""
        lines: list[bytes] = []
        at = first = 0
        self._read_more()
        self.text = self.text.removeprefix(BYTE_ORDER_MARK)
        self.hint = HINT.match(self.text)
        self.text = self.text[self.hint.end() if self.hint else 0 :]
        while len(lines) < JUDGED_BY and (len(lines) < 2 or at < MOST_BYTES):
            at = BREAKS.match(self.text, at).end()  # type: ignore[union-attr]  # one by one millions take long
            end = end_of_line(self.text, at)
            self._check_line(self.text[at:end], whole=end is not None)
            if end is None and (self.ended or len(lines) > 1):
                break
            if end is None:
                self._read_more()
                continue
            if self.text[at:end].strip():
                lines.append(self.text[at:end])
                first = first or end
            at = end
        if not lines:
            raise self.opened.broken("a quote that is never closed" if self.text.strip() else "nothing in it")
        if any(b"\0" in line for line in lines[:2]):
            raise self.opened.broken("NUL bytes; save it as UTF-8, or name its encoding with --encoding")
        return [line.decode() for line in lines], first

    def _read_more(self) -> None:
        """Read as much again as is waiting, so that a line that does not end is not walked over too often."""
        if len(self.text) >= READ_AT_ONCE:  # a hole in a file would be held whole
            self._refuse_nul()
        read = self.file.read(max(READ_AT_ONCE, len(self.text)))
        more = self.recode(read)
        self.n_read += len(more)
        self.ended = not read
        self.text += more if more or self.text.endswith((b"\n", b"\r")) else b"\n"

    def _refuse_nul(self) -> None:
        if b"\0" in self.text:
            raise self.opened.broken("NUL bytes; save it as UTF-8")

    def _check_line(self, line: bytes, *, whole: bool) -> None:
        """Refuse a line of more cells than the file has bytes, and a cell that does not come to its end."""
        quoted = line.count(b'"') % 2
        last = 1 + max(map(line.rfind, self.signs))  # what follows is one cell, whatever quotes are in it
        last = min(last, 1 + line.rfind(b'"')) if quoted else last
        if not whole and len(line) - last > LONGEST_CELL:
            self._refuse_nul()
            what = "a quote that is never closed, or not" if quoted else "a cell that does not end"
            begins = line[last : last + 20].decode(errors="replace")
            raise self.opened.broken(f"{what} within {LONGEST_CELL:,} bytes, from {begins!r} on")
        count = 1 + max(line.count(sign) for sign in self.signs)
        if count > max(FEW_CELLS, self.opened.size):
            got = f"{self.opened.name} ({count:,} cells in a line, {self.opened.size:,.0f} bytes)"
            raise InputError("FILE", "have no more columns than bytes", got, "if it is sound, unpack it first")

    def _read_lines(self, found: Heading) -> Refused:
        """Use up the complete lines of the text, and return columns that hold no numbers so far."""
        last = len(self.text) - (self.text.endswith(b"\r") and not self.ended)  # its line feed may be still to come
        end = max(self.text.rfind(b"\n", 0, last), self.text.rfind(b"\r", 0, last)) + 1
        canonical, separator = found.dialect.canonical(self.text)
        text: npt.NDArray[np.uint8] = np.frombuffer(canonical, dtype=np.uint8, count=end)
        roles, used, how = self.roles, 0, cells.NO_ROOM
        if not compiling.plainly((A_LINE + roles.size) * (self.text.count(b"\n") + self.text.count(b"\r"))):
            compiling.end_plainness()
        odd = np.empty((ODD_AT_ONCE + 2 * roles.size, 4), dtype=np.int64)
        spans = np.empty((self._most_lines(found), len(found.texts), 2), dtype=np.int64)
        while how == cells.NO_ROOM:
            room = self.values[self.rows :].view(np.uint64)
            lines, done, n_odd, how = cells.read_lines(
                text[used:], separator, roles, room, spans, odd, self.numerals.seen
            )
            if n_odd:
                read = self.numerals.read(canonical[used : used + done], odd[:n_odd], self.rows)
                self.values[self.rows + odd[:n_odd, 0], roles[odd[:n_odd, 1]]] = read
                self.held += A_NUMERAL * n_odd
            self._keep_texts(self.text[used : used + done], spans[:lines])
            self.rows += lines
            self.opened.check_held(self.held + 8 * self.values[: self.rows].size)
            used += done
            if how == cells.NO_ROOM and self.rows == self.values.shape[0]:
                self._make_room(found, len(self.text) - used)
        self.text = self.text[used:]
        if how != cells.ALL:
            said = found.complaint(self.text, how, sheet=self.opened.kind.startswith(".xls"))
            raise self.opened.broken(f"row {self.rows} {said}")
        self._check_line(self.text, whole=self.ended)
        return self.numerals.texts()

    def _keep_texts(self, text: bytes, spans: npt.NDArray[np.int64]) -> None:
        """Keep the columns that are read as text."""
        for lines in cut(spans.shape[0], TEXTS_AT_ONCE, 1):
            ends = spans[lines].transpose(1, 2, 0).tolist()
            for texts, (first, last) in zip(self.texts, ends, strict=True):
                for a, b in zip(first, last, strict=True):
                    cell = text[a:b].decode()
                    texts.append(cell.replace('""', '"') if a and text[a - 1] == cells.QUOTE else cell)
                self.held += sum(last) - sum(first) + A_TEXT * len(first)
            self.opened.check_held(self.held)

    def _most_lines(self, found: Heading) -> int:
        """Return how many lines can be among the bytes that wait: a line has a byte for each column at least."""
        return len(self.text) // len(found.layout.names) + 2

    def _make_room(self, found: Heading, waiting: int) -> None:
        """Make room for the rows to be expected, judging by the share of the file that has been used."""
        used = 1 - waiting / self.n_read
        share = used * self.raw.tell() / self.opened.size if self.raw is not None else 0.0
        expected = int(1.02 * self.rows / share) if share else self.rows * 3 // 2
        old, self.values = self.values, np.empty((expected + self._most_lines(found), self.values.shape[1]))
        self.values[: self.rows] = old


def _labels(texts: list[str], na: Collection[str]) -> Array:
    """Return labels as whole numbers if all are written so, else as text, those not there, or ``na``, as NaN."""
    if all(WHOLE.fullmatch(text) and text not in na for text in set(texts)):
        return np.array(texts).astype(np.int64)
    gaps = {"", *cells.MISSING, *na}
    return np.fromiter((np.nan if text in gaps else text for text in texts), dtype=object)
