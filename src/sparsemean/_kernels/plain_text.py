"""The partner of ``cells`` for small texts: Python's own expressions and its ``float``, which rounds the same way."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from sparsemean._kernels.cells import (
    AFTER_QUOTE,
    ALL,
    DIGITS,
    LINE_FEED,
    MEANT,
    MISSING,
    NO_ROOM,
    ODD,
    POINT,
    RETURN,
    TEXT,
    THREE,
    TOO_FEW,
    TOO_MANY,
    TRUTH,
    WHOLE,
)

Arr = Any
NUMBER = rb"[+-]?(?=\.?[0-9])([0-9]*+)(?:(\.)([0-9]*+))?+([eE][+-]?[0-9]++)?+"
ONE = re.compile(NUMBER)
"""Groups: digits before the point, it, digits after it, a power of ten."""
SETTLED = DIGITS | POINT
"""Of a column that was seen to hold both nothing more is learnt by how its numbers are written."""
KNOWN = {word.encode(): (value, TRUTH if word not in MISSING else 0) for word, value in MEANT.items()}
LEAST = float(np.finfo(np.float64).tiny)


class Grammar:
    """How lines and cells look with a certain sign between columns."""

    def __init__(self, separator: int) -> None:
        sign = re.escape(bytes([separator]))
        spaces = rb"[ ]*+" if separator == 9 else rb"[ \t]*+"
        end = rb"[" + sign + rb"\r\n]"
        text = rb'(?:"((?:[^"]|"")*+)"' + spaces + rb'|((?!")[^' + sign + rb"\r\n]*+))"
        self.spaces = re.compile(spaces)
        self.line_of_numbers = re.compile(NUMBER + rb"(?:" + sign + NUMBER + rb")*+(?=[\r\n])")
        self.number = re.compile(spaces + rb"(" + NUMBER + rb")" + spaces + rb"(?=" + end + rb")")
        self.cell = re.compile(spaces + text)
        self.quoted_number = re.compile(spaces + rb"(" + NUMBER + rb")" + spaces)


grammar_of = cache(Grammar)


def form_of(whole: bytes, point: bytes | None, part: bytes | None, power: bytes | None) -> int:
    """Return what a column holds by one of its numbers; see `cells.form_of`."""
    plain = power is None and whole[:1] != b"0"
    if not point:
        return DIGITS | WHOLE if len(whole) > 2 and plain else DIGITS
    return DIGITS | THREE if len(part or b"") == 3 and 1 <= len(whole) <= 3 and plain else DIGITS | POINT


def read_lines(text: Arr, separator: int, roles: Arr, values: Arr, spans: Arr, odd: Arr, seen: Arr) -> Any:
    """Do what `cells.read_lines` does; what has neither is as odd as there: the smallest and the largest numbers."""
    data, width, grammar = text.tobytes(), roles.size, grammar_of(separator)
    sign, columns, floats = bytes([separator]), roles.tolist(), values.view(np.float64)
    into = np.flatnonzero(roles >= 0)
    only_features = into.size == width
    i, line, n_odd = 0, 0, 0
    while i < len(data):
        begin = i
        i = grammar.spaces.match(data, i).end()  # type: ignore[union-attr]
        if data[i] in (LINE_FEED, RETURN):
            if width > 1 or (data[i] == LINE_FEED and i > 0 and data[i - 1] == RETURN):
                i += 1
                continue
            if not data[i:].strip(b" \t\r\n"):
                return line, begin, n_odd, ALL
        if line == values.shape[0] or n_odd + width > odd.shape[0]:
            return line, begin, n_odd, NO_ROOM
        if only_features and (found := grammar.line_of_numbers.match(data, i)):
            cells = found[0].split(sign)
            row = np.array([float(cell) for cell in cells])
            size = np.abs(row)
            if row.size == width and (((size >= LEAST) & (size < np.inf)) | (row == 0)).all():
                for column in np.flatnonzero(seen & SETTLED != SETTLED).tolist():
                    seen[column] |= form_of(*ONE.match(cells[column]).groups())  # type: ignore[union-attr]
                floats[line, roles] = row
                i = found.end() + 1
                line += 1
                continue
        before, how = n_odd, ALL
        for column, role in enumerate(columns):
            start, i, value, what = _cell(data, i, role, grammar, int(seen[column]))
            if i < 0:
                return line, begin, before, ALL
            if role >= 0:
                floats[line, role] = value[0]
                if what == ODD:
                    odd[n_odd] = line, column, start, value[1]
                    n_odd += 1
                else:
                    seen[column] |= what
            elif role <= TEXT:
                spans[line, TEXT - role] = start, value[1]
            last = data[i] in (LINE_FEED, RETURN)
            if not last and data[i] != separator:
                how = AFTER_QUOTE
            elif last and column + 1 < width:
                how = TOO_FEW
            elif not last and column + 1 == width:
                how = TOO_MANY
            if how != ALL:
                return line, begin, before, how
            i += 1
        line += 1
    return line, i, n_odd, ALL


def _cell(data: bytes, i: int, role: int, grammar: Grammar, known: int) -> tuple[int, int, tuple[float, int], int]:
    """Return where a cell begins, where what follows it stands (-1: nowhere), its value and end, and what it is."""
    if role >= 0 and (found := grammar.number.match(data, i)):
        if (value := _value(found[1])) is not None:
            what = known if known & SETTLED == SETTLED else form_of(*found.groups()[1:])
            return found.start(1), found.end(), (value, found.end()), what
    cell = grammar.cell.match(data, i)
    if cell is None:
        return i, -1, (np.nan, i), ODD
    quoted = cell.start(1) >= 0
    start = cell.start(1 if quoted else 2)
    content = cell[1] if quoted else cell[2].rstrip(b" \t")
    end = start + len(content)
    if role < 0 or not content:
        return start, cell.end(), (np.nan, end), 0
    if quoted and (found := grammar.quoted_number.fullmatch(content)) and (value := _value(found[1])) is not None:
        return start, cell.end(), (value, end), form_of(*found.groups()[1:])
    value, what = KNOWN.get(content, (np.nan, ODD))
    return start, cell.end(), (value, end), what


def _value(number: bytes) -> float | None:
    """Return the value of a number unless it is too large, or too small to have all its digits."""
    value = float(number)
    if LEAST <= abs(value) < np.inf:
        return value
    return value if value == 0.0 and not number.partition(b"e")[0].partition(b"E")[0].strip(b"+-0.") else None
