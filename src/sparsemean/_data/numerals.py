"""Numbers written with more than digits: percentages, money, thousands set apart, yes and no; and what is no number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.dialect import Dialect
from sparsemean._util.checks import list_names, pluralize

Floats = npt.NDArray[np.float64]
AMOUNT = re.compile(
    r"(?P<sign>[-+−]?)\s?(?P<before>[$€£¥]?)\s?(?P<inner>[-+−]?)"
    r"(?P<digits>[1-9]\d{0,2}(?:(?P<mark>[,'’ \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?:\.\d*)?|\d+\.?\d*|\.\d+)"
    r"(?P<power>[eE][+-]?\d+)?[\s\u00a0\u202f]?(?P<after>[%$€£¥]?)",
    re.ASCII,
)
"""A number with a decimal point, a sign of money before or after it or a percent sign after it, thousands in groups."""
MARKS = {",": "commas", "'": "apostrophes", "’": "apostrophes", " ": "spaces", "\u00a0": "spaces", "\u202f": "spaces"}
MONTHS = "jan|feb|mar|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez"
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    rf"|\d{{1,2}}[-. ]*({MONTHS})\w*[-,. ]*\d{{2,4}}|({MONTHS})\w*[. ]*\d{{1,2}},? *\d{{4}})"
    r"([T ]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?",
    re.ASCII | re.IGNORECASE,
)
"""Days, with or without a time, and times of day."""
WORDS = {"yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0}
MOST_KNOWN = 100_000
"""Cells whose meaning is kept, as most columns of text say the same again and again."""
MOST_LISTED = 6


class Style(NamedTuple):
    """How a cell is written: its unit, what parts thousands, whether that could be a decimal mark, or which word.

    ``text`` has what no number is: "text" or "dates".
    """

    unit: str = ""
    mark: str = ""
    doubtful: bool = False
    word: str = ""
    text: str = ""
    zero: bool = False


PLAIN = Style()
Meaning = tuple[float, int]
"""The value of a cell, NaN where it is none, and the number of its style."""


class Numerals:
    """What was made of the cells of each column that are not plain numbers."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.known: dict[bytes, Meaning] = {}
        self.styles = [PLAIN]
        self.counts: dict[int, Counter[Style]] = {}
        self.first: dict[int, str] = {}
        """The first cell of each column that is no number, with its row."""

    def read(self, text: bytes, odd: npt.NDArray[np.int64], first_row: int) -> Floats:
        """Return the values of cells: line, column, first and last byte of each in ``text``, which is canonical."""
        if not len(odd):
            return np.empty(0)
        if len(self.known) > MOST_KNOWN:
            self.known.clear()
        known, learn = self.known, self._learn
        cells = [text[a:b] for a, b in odd[:, 2:].tolist()]
        meanings = [known.get(cell) or learn(cell) for cell in cells]
        styles = np.array([style for _, style in meanings])
        each, at, counts = np.unique(odd[:, 1] * MOST_KNOWN + styles, return_index=True, return_counts=True)
        for key, place, count in sorted(zip(each.tolist(), at.tolist(), counts.tolist(), strict=True), key=_place):
            column, style = divmod(key, MOST_KNOWN)
            self.counts.setdefault(column, Counter())[self.styles[style]] += count
            if self.styles[style].text:
                shown = self.dialect.as_written(cells[place])[:40]
                self.first.setdefault(column, f"row {first_row + int(odd[place, 0])}: {shown!r}")
        return np.array([value for value, _ in meanings])

    def _learn(self, cell: bytes) -> Meaning:
        """Keep what a cell means."""
        value, style = meaning_of(cell.decode(errors="replace"), self.dialect)
        if style not in self.styles:
            self.styles.append(style)
        meaning = value, self.styles.index(style)
        self.known[cell] = meaning
        return meaning

    def texts(self) -> dict[int, tuple[str, str]]:
        """Return the columns that hold no numbers: text or dates, and the first place where that is seen."""
        kinds = {column: {style.text for style in self.counts[column]} for column in self.first}
        return {column: ("text" if "text" in kinds[column] else "dates", self.first[column]) for column in kinds}

    def n_words(self, column: int) -> int:
        """Return how many cells of a column are words that stand for 1 or 0."""
        return _n_words(self.counts[column])

    def refused(self, values_of: Callable[[int], Floats]) -> dict[int, tuple[str, str]]:
        """Return, once all rows are read, columns that hold no numbers or numbers that are not all of one kind."""
        out = self.texts()
        for column, counts in self.counts.items():
            if column not in out and (why := self._disagreement(counts, values_of(column))):
                out[column] = ("text", why)
        return out

    def _disagreement(self, counts: Mapping[Style, int], values: Floats) -> str:
        """Say what cells of a column do not agree about."""
        words = {style.word for style in counts} - {""}
        if words and (np.count_nonzero(~np.isnan(values)) > _n_words(counts) or words not in ALIKE):
            return f"{' and '.join(sorted(words))} besides other values" if len(words) < 3 else "words"
        units = {style.unit for style in counts if not style.zero} - {""}
        n_units = sum(count for style, count in counts.items() if style.unit and not style.zero)
        if units and (len(units) > 1 or np.count_nonzero(values) - np.isnan(values).sum() > n_units):
            return f"numbers with and without {' and '.join(sorted(units))}" if len(units) < 2 else "several currencies"
        marked = {style: count for style, count in counts.items() if style.mark}
        if marked and (np.abs(values) >= 1000).sum() > sum(marked.values()):
            return "thousands set apart in some cells only"
        if marked and not self.dialect.settled and all(style.doubtful for style in marked):
            return "decimals or thousands: --decimal . or --decimal , says which"
        return ""

    def notes(self, names: Mapping[int, str]) -> list[str]:
        """Say how columns of numbers were read, those of one kind together."""
        kinds: dict[str, list[str]] = {}
        for column, name in names.items():
            for style in self.counts.get(column, ()):
                for said in _said(style):
                    if name not in kinds.setdefault(said, []):
                        kinds[said].append(name)
        return [f"{said} in {listed(columns)}" for said, columns in kinds.items()]


ALIKE = ({"yes", "no"}, {"yes"}, {"no"}, {"y", "n"})
"""Words that may make up a column. A single y or n is not enough: it may be a code."""


def _n_words(counts: Mapping[Style, int]) -> int:
    return sum(count for style, count in counts.items() if style.word)


def _place(entry: tuple[int, int, int]) -> int:
    return entry[1]


def _said(style: Style) -> Iterable[str]:
    if style.unit == "%":
        yield "values are in percent, 12.3% being 12.3,"
    elif style.unit:
        yield f"values are amounts in {style.unit}"
    if style.mark:
        yield f"{MARKS[style.mark]} were read as standing between thousands"
    if style.word:
        yield "yes and no were read as 1 and 0"


def listed(names: list[str]) -> str:
    """Name columns, the first few of many."""
    shown = list_names([repr(name) for name in names], MOST_LISTED)
    return shown if len(names) <= MOST_LISTED else f"{pluralize(len(names), 'column')} ({shown})"


def meaning_of(cell: str, dialect: Dialect) -> tuple[float, Style]:
    """Return the value of a cell of a canonical text, and how it is written.

    Examples
    --------
    >>> dialect = Dialect(",", ".", settled=True)
    >>> meaning_of("-12.5 %", dialect)[0], meaning_of("$1,234,567", dialect)[0], meaning_of("Yes", dialect)[0]
    (-12.5, 1234567.0, 1.0)
    >>> meaning_of("12,5", dialect)[1].text, meaning_of("2024-02-28", dialect)[1].text
    ('text', 'dates')
    """
    if cell.isascii() and "_" not in cell:
        try:
            return float(cell), PLAIN
        except ValueError:
            pass
    if (value := WORDS.get(cell.lower())) is not None:
        return value, Style(word=cell.lower())
    found = AMOUNT.fullmatch(cell.strip(BLANKS))
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["inner"]):
        written = dialect.as_written(cell.encode())
        return np.nan, Style(text="dates" if DATE.fullmatch(written) else "text")
    digits, mark = found["digits"], found["mark"] or ""
    sign = (found["sign"] + found["inner"]).replace("−", "-")
    value = float(sign + (digits.replace(mark, "") if mark else digits) + (found["power"] or ""))
    doubtful = mark == "," and digits.count(mark) == 1 and "." not in digits
    return value, Style(found["before"] or found["after"], mark, doubtful, zero=value == 0)


BLANKS = " \t\u00a0\u202f"
