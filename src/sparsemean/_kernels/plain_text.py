"""The partner of ``cells`` for small texts: Python's own expressions and its ``float``, which rounds the same way."""

from __future__ import annotations

import re

import numpy as np

from sparsemean._kernels import cells
from sparsemean._kernels.cells import ALL, DIGITS, NO_ROOM, ODD, POINT, TAB, TEXT, TRUTH, ByteArray
from sparsemean._kernels.memory_layout import Array
from sparsemean._util.records import FloatArray, IntArray

NUMBER = re.compile(rb"[+-]?(?=\.?[0-9])([0-9]*+)(?:(\.)([0-9]*+))?+([eE][+-]?[0-9]++)?+")
"""Groups: digits before the point, it, digits after it, a power of ten."""
END_OF_LINE = re.compile(rb"[\r\n]")
SETTLED = DIGITS | POINT
"""Of a column that was seen to hold both nothing more is learnt by how its numbers are written."""
KNOWN = {word.encode(): (value, TRUTH if word not in cells.MISSING else 0) for word, value in cells.MEANT.items()}
KNOWN[b""] = np.nan, 0
LEAST = float(np.finfo(np.float64).tiny)
PATIENT = 100_000
"""Bytes that are read without machine code although they take long so, a microsecond or two each."""


def read_lines(
    text: ByteArray, separator: int, roles: IntArray, values: Array, spans: IntArray, odd: IntArray, seen: ByteArray
) -> tuple[int, int, int, int]:
    """Do what `cells.read_lines` does: a line of plain cells is cut at once, any other is read as that reads it.

    Raises ``ValueError`` where so much is like this that it would take longer than to have it compiled.
    """
    data, sign, columns, floats = text.tobytes(), bytes([separator]), roles.tolist(), values.view(np.float64)
    spaces = b" " if separator == TAB else b" \t"
    i = line = n_odd = slow = 0
    while i < len(data):
        end = END_OF_LINE.search(data, i).start()  # type: ignore[union-attr]
        written = data[i:end]
        after = end + 1 + (data[end : end + 2] == b"\r\n")
        empty = not written.strip(spaces)
        if empty and len(columns) > 1:
            i = after
            continue
        found = None
        if not empty and line < values.shape[0] and n_odd + len(columns) <= odd.shape[0]:
            found = _plain_line(written.split(sign), i, columns, floats[line], spans[line], seen)
        if found is None:
            slow += (len(data) if written.count(b'"') % 2 else end) - i  # a quote that is open may go on to the end
            if slow > PATIENT:
                raise ValueError("machine code is faster")
            one = slice(line, line + 1)
            lines, used, more, how = cells.read_lines.function(
                text[i:], separator, roles, values[one], spans[one], odd[n_odd:], seen
            )
            odd[n_odd : n_odd + more] += line, 0, i, i
            spans[one, : np.count_nonzero(roles <= TEXT)] += i
            i, line, n_odd = i + used, line + lines, n_odd + more
            if not lines or how not in (ALL, NO_ROOM):
                return line, i, n_odd, how
            continue
        for cell in found:
            odd[n_odd] = line, *cell
            n_odd += 1
        i, line = after, line + 1
    return line, i, n_odd, ALL


def _plain_line(
    line: list[bytes], at: int, roles: list[int], values: FloatArray, spans: Array, seen: ByteArray
) -> list[tuple[int, int, int]] | None:
    """Read a line of cells, the first of which begins ``at``, and return the odd ones.

    Or None, where there are more or fewer than columns, or quotes stand for more than what is between two of them.
    """
    if len(line) != len(roles):
        return None
    odd = []
    for column, (role, cell) in enumerate(zip(roles, line, strict=True)):
        inner = cell.lstrip(b" \t")
        first = at + len(cell) - len(inner)
        at += len(cell) + 1
        inner = inner.rstrip(b" \t")
        if inner[:1] == b'"':
            if inner.find(b'"', 1) != len(inner) - 1:
                return None
            first, inner = first + 1, inner[1:-1]
        if role >= 0:
            values[role], what = _read_cell(inner, known=int(seen[column]))
            if what == ODD:
                odd.append((column, first, first + len(inner)))
            else:
                seen[column] |= what
        elif role <= TEXT:
            spans[TEXT - role] = first, first + len(inner)
    return odd


def _read_cell(cell: bytes, known: int) -> tuple[float, int]:
    """Return the value in a cell, and what a column holds by it that was ``known`` to hold so much."""
    stripped = cell.strip(b" \t")
    number = NUMBER.fullmatch(stripped)
    if number is None:
        return KNOWN.get(cell, (np.nan, ODD))
    value = float(number[0])
    if not LEAST <= abs(value) < np.inf and (value != 0.0 or (number[1] + (number[3] or b"")).strip(b"0")):
        return np.nan, ODD  # too large, or too small to have all its digits
    if known & SETTLED == SETTLED:
        return value, known
    text, last = np.frombuffer(stripped, dtype=np.uint8), max(number.end(1), number.end(3))
    return value, cells.form_of.function(text, number.start(1), number.start(2), last, number.end())
