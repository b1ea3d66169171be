"""The partner of ``cells`` for small texts: Python's own expressions and its ``float``, which rounds the same way."""

from __future__ import annotations

import re
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from sparsemean._kernels import cells
from sparsemean._kernels.cells import ALL, DIGITS, ODD, POINT, TEXT, THREE, TRUTH, WHOLE, ByteArray
from sparsemean._kernels.memory_layout import Array
from sparsemean._util.records import IntArray

NUMBER = rb"[+-]?(?=\.?[0-9])([0-9]*+)(?:(\.)([0-9]*+))?+([eE][+-]?[0-9]++)?+"
ONE = re.compile(NUMBER)
"""Groups: digits before the point, it, digits after it, a power of ten."""
SETTLED = DIGITS | POINT
"""Of a column that was seen to hold both nothing more is learnt by how its numbers are written."""
KNOWN = {word.encode(): (value, TRUTH if word not in cells.MISSING else 0) for word, value in cells.MEANT.items()}
LEAST = float(np.finfo(np.float64).tiny)


class Grammar:
    """How lines and cells look with a certain sign between columns."""

    def __init__(self, separator: int) -> None:
        sign = re.escape(bytes([separator]))
        spaces = rb"[ ]*+" if separator == 9 else rb"[ \t]*+"
        end = rb"[" + sign + rb"\r\n]"
        text = rb'(?:"((?:[^"]|"")*+)"' + spaces + rb'|((?!")[^' + sign + rb"\r\n]*+))"
        self.sign, self.spaces, self.end_of_line = bytes([separator]), re.compile(spaces), re.compile(rb"[\r\n]")
        self.numbers = re.compile(NUMBER + rb"(?:" + sign + NUMBER + rb")*+")
        self.number = re.compile(spaces + rb"(" + NUMBER + rb")" + spaces + rb"(?=" + end + rb")")
        self.cell = re.compile(spaces + text)
        self.quoted_number = re.compile(spaces + rb"(" + NUMBER + rb")" + spaces)

    def past_spaces(self, data: bytes, i: int) -> int:
        """Return where the first byte that is no space stands."""
        return self.spaces.match(data, i).end()  # type: ignore[union-attr]


grammar_of = cache(Grammar)


def form_of(whole: bytes, point: bytes | None, part: bytes | None, power: bytes | None) -> int:
    """Return what a column holds by one of its numbers; see `cells.form_of`."""
    plain = power is None and whole[:1] != b"0"
    if not point:
        return DIGITS | WHOLE if len(whole) > 2 and plain else DIGITS
    return DIGITS | THREE if len(part or b"") == 3 and 1 <= len(whole) <= 3 and plain else DIGITS | POINT


def read_lines(
    text: ByteArray, separator: int, roles: IntArray, values: Array, spans: Array, odd: Array, seen: ByteArray
) -> tuple[int, int, int, int]:
    """Do what `cells.read_lines` does: a line of plain cells is cut at once, any other cell by cell."""
    data, width, grammar = text.tobytes(), roles.size, grammar_of(separator)
    columns, floats = roles.tolist(), values.view(np.float64)
    i, line, n_odd = 0, 0, 0
    while i < len(data):
        begin = i
        i = grammar.past_spaces(data, i)
        if data[i] in (cells.LINE_FEED, cells.RETURN):
            if width > 1 or (data[i] == cells.LINE_FEED and i > 0 and data[i - 1] == cells.RETURN):
                i += 1
                continue
            if not data[i:].strip(b" \t\r\n"):
                return line, begin, n_odd, ALL
        if line == values.shape[0] or n_odd + width > odd.shape[0]:
            return line, begin, n_odd, cells.NO_ROOM
        if (end := _plain_line(data, i, columns, grammar, floats[line], spans[line], seen)) > 0:
            i, line = end + 1, line + 1
            continue
        before = n_odd
        for column, role in enumerate(columns):
            cell = _cell(data, i, role, grammar, int(seen[column]))
            if cell is None:
                return line, begin, before, ALL
            if role >= 0:
                floats[line, role] = cell.value
                if cell.what == ODD:
                    odd[n_odd] = line, column, cell.start, cell.end
                    n_odd += 1
                else:
                    seen[column] |= cell.what
            elif role <= TEXT:
                spans[line, TEXT - role] = cell.start, cell.end
            i = cell.after
            if (how := _ending(data[i], separator, column + 1 == width)) != ALL:
                return line, begin, before, how
            i += 1
        line += 1
    return line, i, n_odd, ALL


def _ending(sign: int, separator: int, last: bool) -> int:
    """Return what is wrong with the sign after a cell."""
    ends = sign in (cells.LINE_FEED, cells.RETURN)
    if not ends and sign != separator:
        return cells.AFTER_QUOTE
    if ends == last:
        return ALL
    return cells.TOO_FEW if ends else cells.TOO_MANY


def _plain_line(
    data: bytes, i: int, columns: list[int], grammar: Grammar, values: Array, spans: Array, seen: ByteArray
) -> int:  # fmt: skip
    """Read a line of numbers without any spaces, and of text without quotes; return where it ends, −1 for another."""
    end = grammar.end_of_line.search(data, i).start()  # type: ignore[union-attr]
    cells = data[i:end].split(grammar.sign)
    if len(cells) != len(columns) or b'"' in data[i:end]:
        return -1
    numbers = [cell for cell, role in zip(cells, columns, strict=True) if role >= 0]
    if numbers and not grammar.numbers.fullmatch(grammar.sign.join(numbers)):
        return -1
    row = np.array([float(number) for number in numbers])
    size = np.abs(row)
    if not (((size >= LEAST) & (size < np.inf)) | (row == 0)).all():
        return -1
    for column in np.flatnonzero(seen & SETTLED != SETTLED).tolist():
        if columns[column] >= 0:
            seen[column] |= form_of(*ONE.match(cells[column]).groups())  # type: ignore[union-attr]
    values[[role for role in columns if role >= 0]] = row
    if spans.size:
        for start, cell, role in zip(accumulate(map(_step, cells), initial=i), cells, columns, strict=False):
            if role <= TEXT:
                first = grammar.past_spaces(data, start)
                spans[TEXT - role] = first, max(first, start + len(cell.rstrip(b" \t")))
    return end


def _step(cell: bytes) -> int:
    return len(cell) + 1


class Cell(NamedTuple):
    """A cell: its first byte, the one after it, what follows, its value and what a column holds by it."""

    start: int
    end: int
    after: int
    value: float
    what: int


def _cell(data: bytes, i: int, role: int, grammar: Grammar, known: int) -> Cell | None:
    """Return the cell at ``i``, None where a quote is never closed."""
    if role >= 0 and (found := grammar.number.match(data, i)) and (value := _value(found[1])) is not None:
        what = known if known & SETTLED == SETTLED else form_of(*found.groups()[1:])
        return Cell(found.start(1), found.end(), found.end(), value, what)
    cell = grammar.cell.match(data, i)
    if cell is None:
        return None
    quoted = cell.start(1) >= 0
    start = cell.start(1 if quoted else 2)
    content = cell[1] if quoted else cell[2].rstrip(b" \t")
    end = start + len(content)
    if role < 0 or not content:
        return Cell(start, end, cell.end(), np.nan, 0)
    if quoted and (found := grammar.quoted_number.fullmatch(content)) and (value := _value(found[1])) is not None:
        return Cell(start, end, cell.end(), value, form_of(*found.groups()[1:]))
    return Cell(start, end, cell.end(), *KNOWN.get(content, (np.nan, ODD)))


def _value(number: bytes) -> float | None:
    """Return the value of a number unless it is too large, or too small to have all its digits."""
    value = float(number)
    if LEAST <= abs(value) < np.inf:
        return value
    return value if value == 0.0 and not number.partition(b"e")[0].partition(b"E")[0].strip(b"+-0.") else None
