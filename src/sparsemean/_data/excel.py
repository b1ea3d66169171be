"""Sheets of .xlsx files through openpyxl, read row by row as the text that Excel would export."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sparsemean._data.csv import Text
from sparsemean._data.table import FileContext, ReadOptions, Table
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError, require

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""What a sheet can have."""
MOST_PACKED, NOT_WORTH_CHECKING = 50, 4_000_000
"""Bytes of XML that a byte of a file may stand for, where a second is not enough to read them: tables of one number, as
programs write them, reach 20."""
MOST_SHEETS = 1000
FEW_CELLS = 2_000_000
"""Cells, gaps counted, that a sheet may have in fewer bytes."""
ROWS_AT_ONCE = 1000
"""Rows after which what has been read is compared with the size of the file."""
COMPOUND = b"\xd0\xcf\x11\xe0"
"""What files of Excel before 2007 begin with, and newer ones with a password."""
FAILED = {"#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#GETTING_DATA", "#SPILL!", "#CALC!"}
"""What stands in a cell whose formula has no result."""


def read_excel(path: Path, wanted: ReadOptions) -> Table:
    """Read a sheet: the values that formulas had when the file was saved, dates as text."""
    wanted.refuse("layer", "dataset", kind=".xlsx files")
    openpyxl = require("openpyxl", extra="excel", purpose="reading .xlsx files")
    opened = FileContext(path.name, ".xlsx file", path.stat().st_size)
    with opened.reading(), path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats and extensions that say nothing of values
        unpacked = _check_packed(file, opened)
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
            sheet, notes = _sheet(book.worksheets, wanted.sheet, opened)
            sheet.reset_dimensions()  # what a file says of its size may make rows as long as it likes
            lines = Lines(sheet.iter_rows(values_only=True), opened, max(FEW_CELLS, unpacked))
            as_written = replace(wanted, sep=",", decimal=".", encoding="utf-8")
            table = Text(lines, opened).table(as_written)
    return replace(table, notes=(*notes, *lines.notes, *table.notes))


def _check_packed(file: IO[bytes], opened: FileContext) -> int:
    """Return the bytes that a file unpacks to, unless they are far more than its own, or of very many sheets."""
    if file.read(4) == COMPOUND:
        raise opened.broken("one of Excel before 2007, or with a password; save it as .xlsx without")
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        advice = "if it is sound, save the sheet as .csv"
        if unpacked > max(NOT_WORTH_CHECKING, MOST_PACKED * opened.size):
            got = f"{opened.name} ({unpacked:,} bytes out of {opened.size:,.0f})"
            raise InputError("FILE", f"unpack to at most {MOST_PACKED} times its size", got, advice)
        small = (archive.read(part) for part in parts if part.file_size < NOT_WORTH_CHECKING)  # of any name
        if (count := max((part.count(b"sheetId") for part in small), default=0)) > MOST_SHEETS:
            raise InputError("FILE", f"have at most {MOST_SHEETS:,} sheets", f"{opened.name} ({count:,})", advice)
    return unpacked


def _sheet(sheets: list[Any], name: str | None, opened: FileContext) -> tuple[Any, tuple[str, ...]]:
    """Return the sheet that is meant, and a note where others could be meant."""
    titles = [sheet.title for sheet in sheets]
    if not sheets:
        raise opened.broken("no sheet in it")
    if name is None:
        others = f"the first sheet, {titles[0]!r}, was read; --sheet names another of {list_names(titles[1:])}"
        return sheets[0], (others,) if len(sheets) > 1 else ()
    if name not in titles:
        raise InputError("--sheet", "name a sheet of the file", repr(name), f"it has {list_names(titles)}")
    return sheets[titles.index(name)], ()


class Lines:
    """Rows of a sheet as a text with commas, made while it is read.

    Rows that are empty, and gaps at the ends of others, are left out. Formulas without a result are gaps, and counted.
    """

    def __init__(self, rows: Iterator[tuple[Any, ...]], opened: FileContext, most_cells: int) -> None:
        self.opened, self.lines, self.most_cells = opened, self._lines(rows), most_cells
        self.failed, self.first_failed = 0, ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read as missing."""
        what = f"{self.failed:,} cell(s) without a result, {self.first_failed} first, were read as missing"
        return (what,) if self.failed else ()

    def read(self, size: int, /) -> bytes:
        """Return lines of about ``size`` bytes, nothing after the last."""
        out = io.BytesIO()
        for line in self.lines:
            out.write(line)
            if out.tell() >= size:
                break
        return out.getvalue()

    def _lines(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[bytes]:
        kept = self._kept(rows)
        first = next(kept, None)
        if first is None:
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in chain([first], kept):
            writer.writerow([*row, *[None] * (len(first) - len(row))])
            yield text.getvalue().encode(errors="replace")
            text.seek(0)
            text.truncate()

    def _kept(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[list[Any]]:
        """Yield rows that are not empty, without the gaps at their ends."""
        widest = cells = 0
        for number, row in enumerate(rows):
            cells += len(row)
            if cells > self.most_cells:
                raise self.opened.broken(f"{cells:,} cells, nearly all of them gaps")
            values = [self._value(value) for value in row]
            while values and values[-1] is None:
                values.pop()
            widest = max(widest, len(row))
            if number >= MOST_ROWS or widest > MOST_COLUMNS:
                raise self.opened.broken("more rows or columns than a sheet can have")
            if number % ROWS_AT_ONCE == 0:
                self.opened.check_size((number + 1, widest), 8)
            if values:
                yield values

    def _value(self, value: Any) -> Any:
        """Return a value, None for an error."""
        if not isinstance(value, str):
            return value
        if value in FAILED:
            self.failed, self.first_failed = self.failed + 1, self.first_failed or value
            return None
        return value if value.strip() else None
