"""How a text is written: its encoding, what stands between columns, and whether decimals have a point or a comma."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from sparsemean._data.table import ReadOptions
from sparsemean.errors import InputError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CALLED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"}
"""Words for separators that a shell makes hard to write."""
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[iI]nf(inity)?)", re.ASCII)
SIGNS = "+-−%$€£¥ \u00a0\u202f"
"""What may stand at either end of a number."""
WITH_COMMA = re.compile(r"(\d*|[1-9]\d{0,2}(\.\d{3})+),\d+([eE][+-]?\d+)?", re.ASCII)
WITH_POINT = re.compile(r"(\d*|[1-9]\d{0,2}(,\d{3})+)\.\d+([eE][+-]?\d+)?", re.ASCII)
IN_GROUPS = re.compile(r"[1-9]\d{0,2}(?:(,)\d{3}(,\d{3})*|(\.)\d{3}(\.\d{3})*)", re.ASCII)
"""Digits that may be thousands set apart, or a number and three decimals."""
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
"""The encoding of texts that are no UTF-8: what Excel writes where Windows is Western."""


class Recoder:
    """Makes UTF-8 of the pieces of a text, one after the other.

    Without a name the encoding is judged: by a byte order mark, and cp1252 for what cannot be UTF-8, from the first
    byte on that is not ASCII.
    """

    def __init__(self, encoding: str | None, name: str) -> None:
        self.name, self.judged = name, encoding is None
        self.encoding = "utf-8" if encoding is None else _known(encoding)
        self.decoder = codecs.getincrementaldecoder(self.encoding)()
        self.begun = self.in_utf8 = False

    def __call__(self, piece: bytes) -> bytes:
        """Return the next piece in UTF-8, nothing for the last one."""
        if not self.begun and self.judged:
            self._use(next((name for mark, name in BYTE_ORDER_MARKS.items() if piece.startswith(mark)), "utf-8"))
        self.begun = True
        judging = self.judged and self.encoding == "utf-8"
        if judging and (self.in_utf8 or piece.isascii()):  # a stray byte is refused where it is asked for
            return piece
        try:
            text = self.decoder.decode(piece, final=not piece)
        except UnicodeError as error:
            if not judging:
                raise self.refusal(error) from error
            return self._fall_back(piece)
        self.in_utf8 = judging
        return piece if judging else text.encode()

    def _fall_back(self, piece: bytes) -> bytes:
        """Return a piece that is no UTF-8 as what it may be instead, or as it is."""
        try:
            text = piece.decode(FALLBACK)
        except UnicodeDecodeError:
            self.in_utf8 = True
            return piece
        self._use(FALLBACK)
        return text.encode()

    @property
    def note(self) -> str:
        """What was judged of the encoding, where it is not the usual one."""
        return f"text in {self.encoding}" if self.judged and self.encoding != "utf-8" else ""

    def _use(self, encoding: str) -> None:
        self.encoding, self.decoder = encoding, codecs.getincrementaldecoder(encoding)()

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

    ``settled``: whether a comma with three digits after it, as in 1,234, can only part thousands.
    """

    separator: str
    decimal: str
    settled: bool
    judged: tuple[str, ...] = ()

    @property
    def byte(self) -> int:
        """What stands between columns in a canonical text."""
        return UNIT_SEPARATOR if self.separator == self.decimal else ord(self.separator)

    def canonical(self, text: bytes) -> bytes:
        """Return whole lines with decimal points, and commas between thousands, in as many bytes.

        Where commas stand between columns too, those outside quotes are replaced.
        """
        if self.decimal == ".":
            return text
        if self.separator == ",":
            each = np.frombuffer(text, dtype=np.uint8).copy()
            quoted = np.logical_xor.accumulate(each == ord('"'))
            each[(each == ord(",")) & ~quoted] = UNIT_SEPARATOR
            text = each.tobytes()
        return text.translate(SWAP)

    def as_written(self, cell: bytes) -> str:
        """Return a cell of a canonical text as it stands in the file."""
        return (cell if self.decimal == "." else cell.translate(SWAP)).decode(errors="replace")


def dialect_of(lines: list[str], usual: str, wanted: ReadOptions) -> Dialect:
    """Judge by the first lines of a text what options leave open; ``usual`` is the separator that its name promises."""
    separator = _separator(lines, usual) if wanted.sep is None else separator_called(wanted.sep)
    judged = [f"{SEPARATORS[separator]} between columns"] if wanted.sep is None and separator != usual else []
    cells = [cell for line in lines[len(lines) > 1 :] if "," in line for cell in split(line, separator)]
    points, commas = _decimals(cells)
    if wanted.decimal not in (None, ".", ","):
        raise InputError("--decimal", "be a point or a comma", repr(wanted.decimal))
    decimal = wanted.decimal or ("," if commas and not points else ".")
    if wanted.decimal is None and decimal == ",":
        judged.append("decimal commas")
    settled = wanted.decimal is not None or separator == "," or decimal == "," or points
    return Dialect(separator, decimal, settled, tuple(judged))


def separator_called(name: str) -> str:
    """Return the character that an option means."""
    sign = CALLED.get(name.lower(), name)
    if len(sign) != 1 or not sign.isascii() or sign.isalnum() or (sign != "\t" and not sign.isprintable()):
        sign = ""
    if not sign or sign in ' .+-"':
        advice = "; or semicolon, , or comma, tab, | or bar are usual"
        raise InputError("--sep", "be one sign that no number has", repr(name), advice)
    return sign


def _separator(lines: list[str], usual: str) -> str:
    """Return the usual separator unless lines are cut evenly by another, and by that alone or into more numbers."""
    others = [sign for sign in SEPARATORS if sign != usual]
    if not any(sign in line for sign in others for line in lines[:2]):
        return usual
    even = {sign: cells for sign in (usual, *others) if (cells := _cut_evenly(lines, sign))}
    return max(even, key=lambda sign: _share_of_numbers(even[sign]), default=usual)


def _cut_evenly(lines: list[str], separator: str) -> list[str]:
    """Return the cells below the first line if all lines have as many, and more than one; else nothing."""
    first, *rest = (split(line, separator) for line in lines)
    widths = {len(row) for row in rest or [first]}
    even = len(first) > 1 and widths in ({len(first)}, {len(first) + 1})  # R writes nothing above the names of rows
    return [cell for row in rest or [first] for cell in row] if even else []


def _share_of_numbers(cells: list[str]) -> float:
    return sum(bool(_is_numeral(cell)) for cell in cells) / len(cells)


def _is_numeral(cell: str) -> bool:
    digits = cell.strip(SIGNS)
    return not cell or any(form.fullmatch(digits) for form in (NUMBER, WITH_COMMA, WITH_POINT, IN_GROUPS))


def _decimals(cells: Iterable[str]) -> tuple[bool, bool]:
    """Return whether there are decimals with points, and with commas, that can be nothing else."""
    digits = [cell.strip(SIGNS) for cell in cells]
    points, commas = (
        any(form.fullmatch(cell) and not IN_GROUPS.fullmatch(cell) for cell in digits)
        for form in (WITH_POINT, WITH_COMMA)
    )
    return points, commas


def split(line: str, separator: str) -> list[str]:
    """Return the cells of one line."""
    rows = csv.reader([line.strip("\r\n")], delimiter=separator, skipinitialspace=True)
    return [cell.strip() for cell in next(rows, [])]
