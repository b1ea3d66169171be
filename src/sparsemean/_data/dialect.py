"""How a text is written: its encoding, what stands between columns, its decimals, and numbers beside other signs."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.table import TextOptions
from sparsemean._kernels.cells import DIGITS, POINT, THREE, TRUTH, WHOLE
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LONGEST_CELL = 1_000_000
"""Bytes that a cell has at most: a quote that is open longer was never meant to be closed."""
CALLED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"}
"""Words for separators that a shell makes hard to write."""
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[iI]nf(inity)?)", re.ASCII)
SIGNS = "+-−%$€£¥ \u00a0\u202f"
"""What may stand at either end of a number."""
WITH_COMMA = re.compile(r"(\d*|[1-9]\d{0,2}(\.\d{3})+),\d+([eE][+-]?\d+)?", re.ASCII)
WITH_POINT = re.compile(r"(\d*|[1-9]\d{0,2}(,\d{3})+)\.\d+([eE][+-]?\d+)?", re.ASCII)
IN_GROUPS = re.compile(r"[1-9]\d{0,2}(?:(,)\d{3}(,\d{3})*|(\.)\d{3}(\.\d{3})*)", re.ASCII)
"""Digits that may be thousands set apart, or a number and three decimals."""
PIECES = re.compile(r"[^\r\n]+(?:\r\n|\r|\n)?|\r\n|\r|\n")
SWAP = bytes.maketrans(b",.", b".,")
"""Makes decimal commas points, and back."""
UNIT_SEPARATOR = 31
"""A character of ASCII that is meant to part columns, and that no table has."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""What a text in another encoding than UTF-8 may begin with; that of four bytes begins with one of two."""
FALLBACK = "cp1252"
"""The encoding of bytes that are no UTF-8: what Excel writes where Windows is Western."""


def _western(error: UnicodeError) -> tuple[str, int]:
    """Return bytes that are no UTF-8 as Western characters, the five that have none as controls, as browsers do."""
    assert isinstance(error, UnicodeDecodeError)
    each = (error.object[k : k + 1] for k in range(error.start, error.end))
    return "".join(byte.decode(FALLBACK, "ignore") or chr(byte[0]) for byte in each), error.end


codecs.register_error("sparsemean.western", _western)


class Recoder:
    """Makes UTF-8 of the pieces of a text, one after the other.

    Without a name the encoding is judged: by a byte order mark, else UTF-8, and cp1252 for bytes that cannot be that.
    """

    def __init__(self, encoding: str | None, name: str) -> None:
        self.name, self.judged, self.note = name, encoding is None, ""
        """Whether the encoding is judged, and what is to be said of it."""
        self.encoding = "" if encoding is None else _known(encoding)
        self.decoder: codecs.IncrementalDecoder | None = None

    def __call__(self, piece: bytes) -> bytes:
        """Return the next piece in UTF-8, nothing for the last one."""
        if self.decoder is None:
            marked = (name for mark, name in BYTE_ORDER_MARKS.items() if piece.startswith(mark))
            self.encoding = self.encoding or next(marked, "utf-8")
            self.decoder = codecs.getincrementaldecoder(self.encoding)()
            self.note = f"text in {self.encoding}" if self.judged and self.encoding != "utf-8" else ""
        if self.encoding == "utf-8" and piece.isascii() and not self.decoder.getstate()[0]:
            return piece
        try:
            return self.decoder.decode(piece, final=not piece).encode()
        except UnicodeError as error:
            if not self.judged or self.encoding != "utf-8":
                raise self.refusal(error) from error
        self.encoding, self.decoder.errors, self.note = FALLBACK, "sparsemean.western", f"text in {FALLBACK}"
        return self.decoder.decode(piece, final=not piece).encode()

    def refusal(self, error: UnicodeError) -> InputError:
        """Refuse a byte that the encoding has no character for."""
        encoding = "UTF-8" if self.encoding == "utf-8" else self.encoding
        why = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        return InputError(
            "FILE", f"be text in {encoding}", f"{self.name} ({why})", "save it as UTF-8 or name it with --encoding"
        )


def _known(encoding: str) -> str:
    """Return the proper name of an encoding of texts."""
    try:
        found = codecs.lookup(encoding)
        with suppress(UnicodeError):
            b"text".decode(found.name)  # what makes no text of bytes, as rot13, is not known here
        codecs.getincrementaldecoder(found.name)
    except LookupError as error:
        usual = "utf-8, utf-16 and cp1252 are usual"
        raise InputError("--encoding", "name an encoding of text", repr(encoding), usual) from error
    return found.name


@dataclass(frozen=True, slots=True)
class Dialect:
    """What stands between columns and before decimals.

    ``settled``: whether a comma with three digits after it, as in 1,234, can only separate thousands; ``points``:
    whether a point, as in 1.234, may do so, for nobody said that it is a decimal point; ``unlikely``: whether commas
    between columns speak against that.
    """

    separator: str
    decimal: str
    settled: bool
    judged: tuple[str, ...] = ()
    points: bool = False
    unlikely: bool = False

    def canonical(self, text: bytes) -> tuple[bytes, int]:
        """Return whole lines with decimal points, and commas between thousands, in as many bytes; and the separator.

        Where commas stand between columns too, those outside quotes are replaced.
        """
        if self.decimal == ".":
            return text, ord(self.separator)
        if self.separator != ",":
            return text.translate(SWAP), ord(self.separator)
        each = np.frombuffer(text, dtype=np.uint8).copy()
        quoted = np.logical_xor.accumulate(each == ord('"'))
        each[(each == ord(",")) & ~quoted] = UNIT_SEPARATOR
        return each.tobytes().translate(SWAP), UNIT_SEPARATOR

    def as_written(self, cell: bytes) -> str:
        """Return a cell of a canonical text as it stands in the file."""
        return cell.decode(errors="replace") if self.decimal == "." else swapped(cell)


def swapped(cell: bytes) -> str:
    """Return a cell with commas for points, and points for commas."""
    return cell.translate(SWAP).decode(errors="replace")


def dialect_of(lines: list[str], usual: str, wanted: TextOptions) -> Dialect:
    """Judge by the first lines of a text what options leave open; ``usual`` is the separator that its name promises."""
    others = [sign for sign in SEPARATORS if sign != usual]
    separator = usual if wanted.sep is None else separator_called(wanted.sep)
    if wanted.sep is None and any(sign in line for sign in others for line in lines[:2]):
        # the usual one unless lines are cut evenly by another, and by that alone or into more numbers
        even = {sign: cells for sign in (usual, *others) if (cells := _cut_evenly(lines, sign))}
        separator = max(even, key=lambda sign: sum(map(is_numeral, even[sign])) / len(even[sign]), default=usual)
    judged = [f"{SEPARATORS[separator]} between columns"] if wanted.sep is None and separator != usual else []
    mark = '"' if separator == "," else ","  # without it no cell has a comma
    cells = [cell for line in lines[len(lines) > 1 :] if mark in line for cell in cells_of(line, separator)]
    points, commas = (  # whether there are decimals with points, and with commas, that can be nothing else
        any(
            sign in cell and form.fullmatch(digits := cell.strip(SIGNS)) and not IN_GROUPS.fullmatch(digits)
            for cell in cells
        )
        for sign, form in ((".", WITH_POINT), (",", WITH_COMMA))
    )
    parts = separator == "," and len(cells_of(lines[0], separator)) > 1  # a single column is parted by nothing
    if wanted.decimal not in (None, ".", ","):
        raise InputError("--decimal", "be a point or a comma", repr(wanted.decimal))
    decimal = wanted.decimal or ("," if commas and not points else ".")
    if wanted.decimal is None and decimal == ",":
        judged.append("decimal commas")
    settled = wanted.decimal is not None or parts or decimal == "," or points
    either = any("," in cell and IN_GROUPS.fullmatch(cell.strip(SIGNS)) for cell in cells)
    doubted = wanted.decimal is None and decimal == "."
    return Dialect(separator, decimal, settled, tuple(judged), doubted, unlikely=parts and not either)


def separator_called(name: str) -> str:
    """Return the character that an option means."""
    sign = CALLED.get(name.lower(), name)
    if len(sign) != 1 or not sign.isascii() or sign.isalnum() or (sign != "\t" and not sign.isprintable()):
        sign = ""
    if not sign or sign in ' .+-"':
        advice = "; or semicolon, , or comma, tab, | or bar are usual"
        raise InputError("--sep", "be one sign that no number has", repr(name), advice)
    return sign


def _cut_evenly(lines: list[str], separator: str) -> list[str]:
    """Return the cells below the first line if all lines have as many, and more than one; else nothing."""
    first, *rest = (cells_of(line, separator) for line in lines)
    widths = {len(row) for row in rest or [first]}
    even = len(first) > 1 and widths in ({len(first)}, {len(first) + 1})  # R writes nothing above the names of rows
    return [cell for row in rest or [first] for cell in row] if even else []


def is_numeral(cell: str) -> bool:
    """Whether a cell is empty or looks like a number, perhaps beside other signs."""
    digits = cell.strip(SIGNS)
    forms = NUMBER, WITH_COMMA, WITH_POINT, IN_GROUPS  # which take the square of the length of a cell of digits
    return not cell or (len(digits) < MOST_DIGITS and any(form.fullmatch(digits) for form in forms))


def cells_of(line: str, separator: str) -> list[str]:
    """Return the cells of one line."""
    pieces = PIECES.findall(line.strip("\r\n"))  # of several lines where a break stands between quotes
    usual = csv.field_size_limit(LONGEST_CELL + 1)
    try:
        rows = csv.reader(pieces, delimiter=separator, skipinitialspace=True)
        return [cell.strip() for row in rows for cell in row]
    finally:
        csv.field_size_limit(usual)


# Numbers written with more than digits: percentages, money, thousands set apart, yes and no; and what is no number.

AMOUNT = re.compile(
    r"(?P<sign>[-+−]?)\s?(?P<before>[$€£¥]?)\s?(?P<inner>[-+−]?)"
    r"(?P<digits>[1-9]\d{0,2}(?:(?P<mark>[,'’ \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?:\.\d*)?|\d+\.?\d*|\.\d+)"
    r"(?P<power>[eE][+-]?\d+)?[\s\u00a0\u202f]?(?P<after>[%$€£¥]?)",
    re.ASCII,
)
"""A number with a decimal point, a sign of money before or after it or a percent sign after it, thousands in groups."""
BETWEEN = {"commas": ",", "points": ".", "apostrophes": "'’", "spaces": " \u00a0\u202f"}
MARKS = {sign: name for name, signs in BETWEEN.items() for sign in signs}
"""What may stand between thousands."""
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
LONGEST, MOST_DIGITS = 64, 1000
"""Characters that a number, or a date, has at most beside other signs, and fewer than which a number is looked for."""
MOST_LISTED, MOST_WORDS = 6, 4
"""Columns that are named, and words of a column of numbers that may all stand for missing values."""
BLANKS = " \t\u00a0\u202f"


class Style(NamedTuple):
    """How a cell is written: its unit, what separates thousands, whether that could be a decimal mark, or which word.

    ``text`` has what no number is: "text" or "dates"; ``form`` how `kernels.cells` would call the digits.
    """

    unit: str = ""
    mark: str = ""
    doubtful: bool = False
    word: str = ""
    text: str = ""
    zero: bool = False
    form: int = 0


PLAIN, GAP = Style(), Style(form=-1)
"""Of numbers without anything, and of cells that an option says are missing."""
Meaning = tuple[float, int]
"""The value of a cell, NaN where it is none, and the number of its style."""


class Numerals:
    """What was made of the cells of each column that are not plain numbers, and whether points separate thousands.

    Where `Dialect.points` leaves that open, a column is doubtful if all its points stand as in 1.234: after one to
    three digits without a leading zero, before three. Two things speak for thousands: whole numbers of 100 and more in
    the same column, as 999 beside 1.234, and that no number of the file has a point elsewhere, as 0.123 or 1.5. By
    both a doubtful column is refused, by one it is read with a note. By neither it is read: three decimals are usual.
    Where commas stand between columns both are needed for a note, which is for all doubtful columns then.
    """

    def __init__(self, dialect: Dialect, n_columns: int, na: Collection[str] = ()) -> None:
        self.dialect, self.na = dialect, na
        self.seen = np.full(n_columns, 0 if dialect.points else POINT, dtype=np.uint8)
        """What `kernels.cells` saw in each column."""
        self.known: dict[bytes, Meaning] = {}
        self.styles = [PLAIN]
        self.counts: dict[int, Counter[Style]] = {}
        self.first: dict[int, str] = {}
        """The first cell of each column that is no number, with its row."""
        self.words: dict[int, dict[str, None]] = {}
        """Some of these cells of each column, each once."""

    def read(self, text: bytes, odd: npt.NDArray[np.int64], first_row: int) -> FloatArray:
        """Return the values of cells: line, column, first and last byte of each in ``text``, which is canonical."""
        if not len(odd):
            return np.empty(0)
        if len(self.known) > MOST_KNOWN:
            self.known.clear()
        known, learn = self.known, self._learn
        cells = [text[a:b] for a, b in zip(odd[:, 2].tolist(), odd[:, 3].tolist(), strict=True)]
        meanings = [known.get(cell) or learn(cell) for cell in cells]
        styles = np.array([style for _, style in meanings])
        each, at, counts = np.unique(odd[:, 1] * MOST_KNOWN + styles, return_index=True, return_counts=True)
        found = zip(each.tolist(), at.tolist(), counts.tolist(), strict=True)
        for key, place, count in sorted(found, key=itemgetter(1)):
            column, style = divmod(key, MOST_KNOWN)
            if self.styles[style] == GAP:
                continue
            self.counts.setdefault(column, Counter())[self.styles[style]] += count
            self.seen[column] |= self.styles[style].form
            if self.styles[style].text:
                shown = self.dialect.as_written(cells[place])
                digits = shown[:LONGEST].strip(SIGNS)
                commas = self.dialect.points and any(form.fullmatch(digits) for form in (WITH_COMMA, IN_GROUPS))
                hint = ", which --decimal , reads" if commas else ""  # it would be a number if decimals had commas
                self.first.setdefault(column, f"row {first_row + int(odd[place, 0])}: {shown[:40]!r}{hint}")
        texts = [number for number, style in enumerate(self.styles) if style.text == "text"]
        for k in np.flatnonzero(np.isin(styles, texts)).tolist():
            words = self.words.setdefault(int(odd[k, 1]), {})
            if len(words) <= MOST_WORDS:
                words[self.dialect.as_written(cells[k])] = None
        return np.array([value for value, _ in meanings])

    def _learn(self, cell: bytes) -> Meaning:
        """Keep what a cell means."""
        value, style = meaning_of(cell.decode(errors="replace"), self.dialect)
        if self.dialect.as_written(cell) in self.na:
            value, style = np.nan, GAP
        if style not in self.styles:
            self.styles.append(style)
        meaning = value, self.styles.index(style)
        if len(cell) <= LONGEST:
            self.known[cell] = meaning
        return meaning

    def texts(self) -> dict[int, tuple[str, str]]:
        """Return the columns that hold no numbers: text or dates, and the first place where that is seen."""
        kinds = {column: {style.text for style in self.counts[column]} for column in self.first}
        return {column: ("text" if "text" in kinds[column] else "dates", self.first[column]) for column in kinds}

    def strays(self, column: int) -> list[str]:
        """Return the few words that stand in a column of numbers, nothing where it is none or they may be numbers."""
        words = [*self.words.get(column, ())]
        clear = len(words) <= MOST_WORDS and not any(map(str.isdigit, "".join(words)))
        return words if clear and self.has_numbers(column) else []

    def has_numbers(self, column: int) -> bool:
        """Whether cells of a column are numbers, not words that stand for them."""
        beside_signs = any(not style.text and not style.word for style in self.counts.get(column, ()))
        return beside_signs or bool(self.seen[column] & DIGITS)

    def refused(self, values: FloatArray, roles: npt.NDArray[np.int64]) -> dict[int, tuple[str, str]]:
        """Return, once all rows are read, columns that hold no numbers or numbers that are not all of one kind.

        Column k of the text is ``roles[k]`` of the values.
        """
        out = self.texts()
        for column, counts in self.counts.items():
            if column not in out and (why := self._disagreement(counts, values[:, roles[column]])):
                out[column] = ("text", why)
        for column in np.flatnonzero(self.seen & TRUTH).tolist():
            if self.seen[column] & DIGITS or column in self.counts:
                out.setdefault(column, ("text", "true and false besides other values"))
        for column in np.flatnonzero(self._signs_of_thousands() == 2).tolist():
            out.setdefault(column, ("text", EITHER))
        return out

    def _signs_of_thousands(self) -> npt.NDArray[np.int64]:
        """Return how many things speak for points between thousands in each column, 0 where it is not doubtful."""
        doubtful = self.seen & (THREE | POINT) == THREE
        besides = self.seen & WHOLE > 0
        nowhere = not np.any(self.seen & POINT)
        if self.dialect.unlikely:
            return np.where(doubtful, int(nowhere and bool(np.any(doubtful & besides))), 0)
        return np.where(doubtful, besides + int(nowhere), 0)

    def _disagreement(self, counts: Mapping[Style, int], values: FloatArray) -> str:
        """Say what cells of a column do not agree about."""
        words = {style.word for style in counts} - {""}
        n_words = sum(count for style, count in counts.items() if style.word)
        if words and (np.count_nonzero(~np.isnan(values)) > n_words or words not in ALIKE):
            return f"{' and '.join(sorted(words))} besides other values" if len(words) < 3 else "words"
        units = {style.unit for style in counts if not style.zero} - {""}
        n_units = sum(count for style, count in counts.items() if style.unit and not style.zero)
        if units and (len(units) > 1 or np.count_nonzero(values) - np.isnan(values).sum() > n_units):
            return f"numbers with and without {' and '.join(sorted(units))}" if len(units) < 2 else "several currencies"
        marked = {style: count for style, count in counts.items() if style.mark}
        if marked and (np.abs(values) >= 1000).sum() > sum(marked.values()):
            return "thousands set apart in some cells only"
        if marked and not self.dialect.settled and all(style.doubtful for style in marked):
            return EITHER
        return ""

    def notes(self, names: Mapping[int, str]) -> list[str]:
        """Say how columns of numbers were read, those of one kind together."""
        kinds: dict[str, list[str]] = {}
        for column, name in names.items():
            for style in self.counts.get(column, ()):
                for said in self._said(style):
                    if name not in kinds.setdefault(said, []):
                        kinds[said].append(name)
        if truths := [name for column, name in names.items() if self.seen[column] & TRUTH]:
            kinds["true and false were read as 1 and 0"] = truths
        signs = self._signs_of_thousands()
        doubtful = [name for column, name in names.items() if signs[column]]
        points = [f"{AS_POINTS} in {listed(doubtful)}; --decimal , makes them thousands"] if doubtful else []
        return [*(f"{said} in {listed(columns)}" for said, columns in kinds.items()), *points]

    def _said(self, style: Style) -> Iterable[str]:
        if style.unit == "%":
            yield "values are in percent, 12.3% being 12.3,"
        elif style.unit:
            yield f"values are amounts in {style.unit}"
        if style.mark:
            yield f"{MARKS[self.dialect.as_written(style.mark.encode())]} were read as standing between thousands"
        if style.word:
            yield "yes and no were read as 1 and 0"


EITHER = "decimals or thousands: --decimal . or --decimal , says which"
AS_POINTS = "points, all before three digits, were read as decimal points"
ALIKE = ({"yes", "no"}, {"yes"}, {"no"}, {"y", "n"})
"""Words that may make up a column. A single y or n is not enough: it may be a code."""


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
            return float(cell), Style(form=POINT) if "." in cell else PLAIN  # too long for anything else
        except ValueError:
            pass
    if (value := WORDS.get(cell.lower())) is not None:
        return value, Style(word=cell.lower())
    if len(cell) > LONGEST:
        return np.nan, Style(text="text")
    found = AMOUNT.fullmatch(cell.strip(BLANKS))
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["inner"]):
        written = dialect.as_written(cell.encode())
        return np.nan, Style(text="dates" if DATE.fullmatch(written) else "text")
    digits, mark = found["digits"], found["mark"] or ""
    sign = (found["sign"] + found["inner"]).replace("−", "-")
    value = float(sign + (digits.replace(mark, "") if mark else digits) + (found["power"] or ""))
    doubtful = mark == "," and digits.count(mark) == 1 and "." not in digits
    if "." in digits:
        form = THREE if IN_GROUPS.fullmatch(digits) and not found["power"] else POINT
    else:
        form = WHOLE if abs(value) >= 100 else 0
    return value, Style(found["before"] or found["after"], mark, doubtful, zero=value == 0, form=form)
