"""Sheets of .xlsx files through openpyxl, read row by row as the text that Excel would export."""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sparsemean._data.csv import Lines, Text
from sparsemean._data.dialect import IN_GROUPS, NUMBER
from sparsemean._data.table import FileContext, ReadOptions, Table
from sparsemean._data.turned import TextOfFeatures
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""What a sheet can have."""
MOST_PACKED, SMALL = 50, 1_000_000
"""Bytes of XML that a byte of a file may stand for, where a second is not enough to read them: tables of one number, as
programs write them, reach 20."""
MOST_SHEETS = 1000
SMALL_SHEET = 2_000_000
"""Cells, gaps counted, that a sheet may have in fewer bytes."""
ROWS_AT_ONCE = 1000
"""Rows after which what has been read is compared with the size of the file."""
COMPOUND = b"\xd0\xcf\x11\xe0"
"""What files of Excel before 2007 begin with, and newer ones with a password."""
WRITTEN, ANYTHING = {"n": NUMBER, "s": re.compile("[0-9]+"), "b": re.compile("[01]")}, re.compile(".*", re.DOTALL)
"""How the value of a cell of each kind is written: numbers, places of texts, truths."""
TEXTS = ("s", "str", "inlineStr")
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
"""What the names of all elements of a sheet begin with."""


def read_excel(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Read a sheet: the values that formulas had when the file was saved, dates as text."""
    wanted.refuse("layer", kind=".xlsx files")
    openpyxl = require("openpyxl", extra="excel", purpose="reading .xlsx files")
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats and extensions that say nothing of values
        unpacked = _check_packed(file, opened)
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
            sheet, notes = _sheet(book.worksheets, wanted.dataset, opened)
            lines = SheetLines(sheet, opened, max(SMALL_SHEET, unpacked))
            as_written = replace(wanted, dataset=None, sep=",", decimal=".", encoding="utf-8")
            kind = TextOfFeatures if wanted.transpose else Text
            table = kind(lines, opened).table(as_written)
    return replace(table, notes=(*notes, *lines.notes, *table.notes))


def _check_packed(file: IO[bytes], opened: FileContext) -> int:
    """Return the bytes that a file unpacks to, unless they are far more than its own, or of very many sheets."""
    if file.read(4) == COMPOUND:
        raise opened.broken("one of Excel before 2007, or with a password; save it as .xlsx without")
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        advice = "if it is sound, save the sheet as .csv"
        if unpacked > max(SMALL, MOST_PACKED * opened.size):
            got = f"{opened.name} ({unpacked:,} bytes out of {opened.size:,.0f})"
            raise InputError("FILE", f"unpack to at most {MOST_PACKED} times its size", got, advice)
        small = (archive.read(part) for part in parts if part.file_size < 4 * SMALL)  # of any name
        if (count := max((part.count(b"sheetId") for part in small), default=0)) > MOST_SHEETS:
            raise InputError("FILE", f"have at most {MOST_SHEETS:,} sheets", f"{opened.name} ({count:,})", advice)
    return unpacked


def _sheet(
    sheets: list[ReadOnlyWorksheet], name: str | None, opened: FileContext
) -> tuple[ReadOnlyWorksheet, tuple[str, ...]]:
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


class SheetLines(Lines):
    """Rows of a sheet as a text with commas, made while it is read.

    Rows that are empty, and gaps at the ends of others, are left out. Formulas without a result are gaps, and counted.
    """

    def __init__(self, sheet: ReadOnlyWorksheet, opened: FileContext, most_cells: int) -> None:
        from openpyxl.worksheet._reader import WorkSheetParser

        book = sheet.parent
        self.sheet, self.opened, self.most_cells, self.lines = sheet, opened, most_cells, self._lines()
        self.parser = WorkSheetParser(
            None, sheet._shared_strings, data_only=True, epoch=book.epoch,
            date_formats=book._date_formats, timedelta_formats=book._timedelta_formats,
        )  # fmt: skip
        self.failed, self.first_failed = 0, ""
        self.names: list[str | None] = []
        self.doubtful: dict[int, str] = {}
        """Columns with a number as text whose points may separate thousands, and the first of these."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read as missing, and what may have been read amiss."""
        failed = f"{self.failed:,} cell(s) without a result, {self.first_failed} first, were read as missing"
        names = dict(enumerate(self.names))
        where = [f"{names.get(k) or k!r} ({text!r})" for k, text in self.doubtful.items()]
        points = f"cells of text were read as numbers with decimal points in {list_names(where)}: "
        points += "if the points separate thousands, make them numbers in the sheet"
        return (*([failed] if self.failed else ()), *([points] if self.doubtful else ()))

    def _lines(self) -> Iterator[bytes]:
        kept = (row for row in self._rows() if row)
        first = self.names = next(kept, [])
        if not first:
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in chain([first], kept):
            writer.writerow([*row, *[None] * (len(first) - len(row))])
            yield text.getvalue().encode(errors="replace")
            text.seek(0)
            text.truncate()

    def _rows(self) -> Iterator[list[str | None]]:
        """Yield the cells of each row; openpyxl would pass over rows and cells that do not stand in order."""
        from openpyxl.xml.functions import iterparse

        last = widest = cells = 0
        with self.sheet._get_source() as source:
            for read, element in enumerate(element for _, element in iterparse(source) if element.tag == f"{MAIN}row"):
                number = self._number(element.get("r", str(last + 1)))
                if number > MOST_ROWS:
                    raise self.opened.broken("more rows or columns than a sheet can have")
                row = self._cells(element, number)
                widest, cells = max(widest, len(row)), cells + len(row)
                if cells > self.most_cells:
                    raise self.opened.broken(f"{cells:,} cells, nearly all of them gaps")
                if number <= last:
                    raise self.opened.broken(f"row {number} stands below row {last}")
                if read % ROWS_AT_ONCE == 0:
                    self.opened.check_size((read + 1, widest), 8)
                last = number
                element.clear()
                yield row

    def _cells(self, row: Element, number: int) -> list[str | None]:
        """Return the cells of a row, without the gaps at its end."""
        out: list[str | None] = []
        self.parser.row_counter, self.parser.col_counter = number, 0
        for cell in row.iterfind(f"{MAIN}c"):
            kind, raw = cell.get("t", "n"), cell.findtext(f"{MAIN}v") or ""
            if raw and not WRITTEN.get(kind, ANYTHING).fullmatch(raw.strip()):  # int() and float() would take 1_0
                raise self.opened.broken(f"{raw[:40]!r} for a number in cell {cell.get('r', '')}")
            found = self.parser.parse_cell(cell)
            at, column = found["row"], found["column"]
            if at != number:
                raise self.opened.broken(f"cell {cell.get('r')} stands in row {number}")
            if column > MOST_COLUMNS:
                raise self.opened.broken("more rows or columns than a sheet can have")
            if column <= len(out):
                raise self.opened.broken(f"cell {cell.get('r')} comes after a cell of a later column")
            failed = found["data_type"] == "e" or (found["value"] is None and cell.find(f"{MAIN}f") is not None)
            if failed:
                self.failed, self.first_failed = self.failed + 1, self.first_failed or found["value"] or "a formula"
            text = "" if failed or found["value"] is None else str(found["value"])
            if kind in TEXTS and "." in text and IN_GROUPS.fullmatch(text.strip()):
                self.doubtful.setdefault(column - 1, text)
            out += [*[None] * (column - 1 - len(out)), text if text.strip() else None]
        while out and out[-1] is None:
            out.pop()
        return out

    def _number(self, text: str) -> int:
        """Return a whole number that a sheet counts something by."""
        if not text.isascii() or not text.isdigit():
            raise self.opened.broken(f"{text[:40]!r} for a whole number")
        return int(text[:20])
