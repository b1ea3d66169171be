"""Separated text cut into cells, numbers read where they stand: one walk over the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.kernels.compiling import compiled
from sparsemean.kernels.decimals import DECIDED, read_number

Arr = Any
ALL, NO_ROOM, TOO_FEW, TOO_MANY, AFTER_QUOTE = 0, 1, 2, 3, 4
"""How a walk ended: at the last complete line, for want of room, or at a line that is not right."""
SKIPPED, TEXT = -1, -2
"""Roles of columns: k ≥ 0 is feature k, -2 - k is text k."""
MISSING = (
    "NA", "NaN", "nan", "null", "NULL", "None", "N/A", "n/a", "NAN", "na", "<NA>", "#N/A", "#NA", "-nan", "-NaN",
    "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
)  # fmt: skip
"""What is written for a value that is not there, besides nothing."""
TRUE, FALSE = ("True", "TRUE", "true"), ("False", "FALSE", "false")
MEANT = {**dict.fromkeys(MISSING, np.nan), **dict.fromkeys(TRUE, 1.0), **dict.fromkeys(FALSE, 0.0)}
WORDS = np.array([int.from_bytes(word.encode(), "little") for word in MEANT], dtype=np.uint64)
VALUES = np.array(list(MEANT.values())).view(np.uint64)
NAN = VALUES[0]
SPACE, TAB, LINE_FEED, RETURN, QUOTE = 32, 9, 10, 13, 34


@compiled
def past_spaces(text: Arr, i: int, separator: int) -> int:
    """Return where the first byte that is no space stands."""
    while text[i] == SPACE or (text[i] == TAB and separator != TAB):
        i += 1
    return i


@compiled
def past_quoted(text: Arr, i: int) -> int:
    """Return where the quote that closes the one before ``i`` stands, or -1 where there is none."""
    while i < text.size:
        if text[i] == QUOTE:
            if i + 1 == text.size or text[i + 1] != QUOTE:
                return i
            i += 1
        i += 1
    return -1


@compiled
def find_cell(text: Arr, i: int, separator: int) -> Any:
    """Return where the cell at ``i`` begins and ends without quotes and spaces, and where what follows it stands."""
    if text[i] == QUOTE:
        end = past_quoted(text, i + 1)
        if end < 0:
            return i, i, -1
        return i + 1, end, past_spaces(text, end + 1, separator)
    j = i
    while text[j] != separator and text[j] != LINE_FEED and text[j] != RETURN:
        j += 1
    end = j
    while end > i and (text[end - 1] == SPACE or text[end - 1] == TAB):
        end -= 1
    return i, end, j


@compiled
def known_word(text: Arr, start: int, end: int) -> int:
    """Return the place among ``WORDS`` of what stands there, -1 if it is none."""
    if end - start > 8:
        return -1
    word = np.uint64(0)
    for k in range(end - start):
        word |= np.uint64(text[start + k]) << np.uint64(8 * k)
    for k in range(WORDS.size):
        if WORDS[k] == word:
            return k
    return -1


@compiled
def read_cell(text: Arr, i: int, separator: int) -> Any:
    """Return the bits of the number in the cell at ``i``, whether there is one, and find_cell's answers."""
    value, j, kind = read_number(text, i)
    if kind == DECIDED:
        j = past_spaces(text, j, separator)
        if text[j] == separator or text[j] == LINE_FEED or text[j] == RETURN:
            return value, True, i, j, j
    start, end, after = find_cell(text, i, separator)
    if start == end:
        return NAN, True, start, end, after
    if text[i] == QUOTE:
        value, j, kind = read_number(text, past_spaces(text, start, separator))
        if kind == DECIDED and past_spaces(text, j, separator) == end:
            return value, True, start, end, after
    k = known_word(text, start, end)
    return (NAN if k < 0 else VALUES[k]), k >= 0, start, end, after


@compiled
def only_empty_lines(text: Arr, i: int) -> bool:
    """Whether nothing but empty lines follows."""
    while i < text.size and (text[i] == SPACE or text[i] == TAB or text[i] == LINE_FEED or text[i] == RETURN):
        i += 1
    return bool(i == text.size)


@compiled
def read_lines(text: Arr, separator: int, roles: Arr, values: Arr, spans: Arr, odd: Arr) -> Any:
    """Fill in lines until ``text``, which ends a line, or the room for them ends.

    Parameters
    ----------
    text
        Bytes; a line that is not complete, for a quote that is still open, is left.
    roles
        What each column is.
    values
        Bits of the features, line by line.
    spans
        First and last byte of the text columns.
    odd
        Line, column, first and last byte of each cell that is neither a number nor known to be missing.

    Returns
    -------
    lines, bytes and odd cells done, and how it ended.
    """
    width, i, line, n_odd = roles.size, 0, 0, 0
    while i < text.size:
        begin = i
        i = past_spaces(text, i, separator)
        if text[i] == LINE_FEED or text[i] == RETURN:
            if width > 1 or (text[i] == LINE_FEED and i > 0 and text[i - 1] == RETURN):
                i += 1
                continue
            if only_empty_lines(text, i):  # in one column an empty line is a missing value, unless nothing follows
                return line, begin, n_odd, ALL
        if line == values.shape[0] or n_odd + width > odd.shape[0]:
            return line, begin, n_odd, NO_ROOM
        before = n_odd
        for column in range(width):
            i = past_spaces(text, i, separator)
            role = roles[column]
            if role >= 0:
                value, good, start, end, i = read_cell(text, i, separator)
                values[line, role] = value
                if not good:
                    odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2], odd[n_odd, 3] = line, column, start, end
                    n_odd += 1
            else:
                start, end, i = find_cell(text, i, separator)
                if role <= TEXT:
                    spans[line, TEXT - role, 0], spans[line, TEXT - role, 1] = start, end
            if i < 0:
                return line, begin, before, ALL
            last = text[i] == LINE_FEED or text[i] == RETURN
            if not last and text[i] != separator:
                return line, begin, before, AFTER_QUOTE
            if last and column + 1 < width:
                return line, begin, before, TOO_FEW
            if not last and column + 1 == width:
                return line, begin, before, TOO_MANY
            i += 1
        line += 1
    return line, i, n_odd, ALL
