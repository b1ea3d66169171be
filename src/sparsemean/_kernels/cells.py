"""Numbers out of text: one walk over the bytes of a table, every decimal rounded as Python rounds it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.loops import bits
from sparsemean._kernels.memory_layout import Array
from sparsemean._util.records import IntArray

ByteArray = npt.NDArray[np.uint8]
LEAST, MOST = -342, 308
"""Powers of ten that a double and 19 digits can need."""
MOST_DIGITS = 19
NOT_A_NUMBER, UNDECIDED, DECIDED = 0, 1, 2
DIGITS, TRUTH, WHOLE, THREE, POINT = 1, 2, 4, 8, 16
"""What a column was seen to hold: plain numbers, true or false, whole numbers of 100 and more, and points, those that
may separate thousands as in 1.234 apart from others."""
LOW = np.uint64(0xFFFF_FFFF)
HIDDEN = np.uint64(1 << 52)
SIGN = np.uint64(1 << 63)
TENS = 10.0 ** np.arange(23)


def _power_of_five(q: int) -> tuple[int, int]:
    """Return the 128 leading bits of 5^q, rounded down for positive and up for negative q, in two halves."""
    if q >= 0:
        power: int = 5**q
        top = power << (128 - power.bit_length()) if power.bit_length() <= 128 else power >> (power.bit_length() - 128)
    else:
        size = (5**-q - 1).bit_length()
        top = 2 ** (size + 127 if q >= -27 else 2 * size + 128) // 5**-q + 1
        top >>= max(0, top.bit_length() - 128)
    return top >> 64, top & (2**64 - 1)


FIVES = np.array([_power_of_five(q) for q in range(LEAST, MOST + 1)], dtype=np.uint64)


@compiled(plain="itself")
def multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low half of the 128-bit product."""
    a0, a1, b0, b1 = a & LOW, a >> np.uint64(32), b & LOW, b >> np.uint64(32)
    low, middle = a0 * b0, a1 * b0
    middle += low >> np.uint64(32)
    other = a0 * b1 + (middle & LOW)
    return a1 * b1 + (middle >> np.uint64(32)) + (other >> np.uint64(32)), a * b


@compiled(plain="itself")
def nearest_double(w: np.uint64, q: int) -> np.uint64:
    """Return the bits of the double nearest to w·10^q for w > 0, or 0 where this leaves it open."""
    if w < HIDDEN and -22 <= q <= 22:
        exact = float(w) * TENS[q] if q >= 0 else float(w) / TENS[-q]
        return np.uint64(bits(exact))
    nothing = np.uint64(0)
    if q < LEAST or q > MOST:
        return nothing
    zeros = 0
    while not w & SIGN:
        w <<= np.uint64(1)
        zeros += 1
    high, low = multiply(w, FIVES[q - LEAST, 0])
    if (high & np.uint64(0x1FF)) == np.uint64(0x1FF):
        more, _ = multiply(w, FIVES[q - LEAST, 1])
        low += more
        if more > low:
            high += np.uint64(1)
    if low == np.uint64(0xFFFF_FFFF_FFFF_FFFF) and not -27 <= q <= 55:
        return nothing
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + int(upper) - zeros + 1023
    if exponent <= 0 or exponent >= 2046:
        return nothing
    halfway = low <= np.uint64(1) and -4 <= q <= 23 and (mantissa & np.uint64(3)) == np.uint64(1)
    if halfway and (mantissa << shift) == high:
        mantissa &= ~np.uint64(1)  # exactly between two doubles: the even one
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= HIDDEN << np.uint64(1):
        mantissa = HIDDEN
        exponent += 1
    return (mantissa & ~HIDDEN) | (np.uint64(exponent) << np.uint64(52))


@compiled(plain="itself")
def read_digits(text: ByteArray, i: int) -> tuple[np.uint64, int, int, int, int, int]:
    """Return the bits of the number that begins at ``i``, where it ends, and whether it is one.

    And where its digits begin, where a point is (-1: nowhere) and where they end. ``text`` must hold something that is
    not part of a number after it, a line's end say.
    """
    sign, w, q, digits, cut = np.uint64(0), np.uint64(0), 0, 0, False
    if text[i] == 45 or text[i] == 43:
        sign = SIGN if text[i] == 45 else sign
        i += 1
    first, point = i, -1
    while True:
        c = text[i]
        if 48 <= c <= 57:
            if digits < MOST_DIGITS:
                w = w * np.uint64(10) + np.uint64(c - 48)
                digits += int(w > 0)
                q -= point >= 0
            else:
                cut |= c != 48
                q += point < 0
        elif c == 46 and point < 0:
            point = i
        else:
            break
        i += 1
    last = i
    if i - first - (point >= 0) == 0:
        return sign, i, NOT_A_NUMBER, first, point, last
    if text[i] == 69 or text[i] == 101:
        j = i + 1
        negative = text[j] == 45
        if negative or text[j] == 43:
            j += 1
        if not 48 <= text[j] <= 57:
            return sign, i, NOT_A_NUMBER, first, point, last
        power = 0
        while 48 <= text[j] <= 57:
            power = min(power * 10 + int(text[j]) - 48, 1_000_000)
            j += 1
        q += -power if negative else power
        i = j
    if w == 0:
        return sign, i, DECIDED, first, point, last
    found = nearest_double(w, q)
    if found == 0 or (cut and nearest_double(w + np.uint64(1), q) != found):
        return sign, i, UNDECIDED, first, point, last
    return found | sign, i, DECIDED, first, point, last


# Separated text cut into cells, numbers read where they stand: one walk over the bytes.

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
ODD = -1
"""What a cell holds that is neither a number nor known; 0 is for one without a value."""
SPACE, TAB, LINE_FEED, RETURN, QUOTE = 32, 9, 10, 13, 34


@compiled(plain="itself")
def past_spaces(text: ByteArray, i: int, separator: int) -> int:
    """Return where the first byte that is no space stands."""
    while text[i] == SPACE or (text[i] == TAB and separator != TAB):
        i += 1
    return i


@compiled(plain="itself")
def past_quoted(text: ByteArray, i: int) -> int:
    """Return where the quote that closes the one before ``i`` stands, or -1 where there is none."""
    while i < text.size:
        if text[i] == QUOTE:
            if i + 1 == text.size or text[i + 1] != QUOTE:
                return i
            i += 1
        i += 1
    return -1


@compiled(plain="itself")
def find_cell(text: ByteArray, i: int, separator: int) -> tuple[int, int, int]:
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


@compiled(plain="itself")
def known_word(text: ByteArray, start: int, end: int) -> int:
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


@compiled(plain="itself")
def form_of(text: ByteArray, first: int, point: int, last: int, end: int) -> int:
    """Return what a column holds by a number that `read_digits` has read.

    THREE has one to three digits without a leading zero before the point and three after it, and no power of ten.
    """
    if point < 0:
        return DIGITS | WHOLE if last - first > 2 and last == end and text[first] != 48 else DIGITS
    grouped = last - point == 4 and 1 <= point - first <= 3 and last == end and text[first] != 48
    return DIGITS | THREE if grouped else DIGITS | POINT


@compiled(plain="itself")
def read_cell(text: ByteArray, i: int, separator: int, known: int) -> tuple[np.uint64, int, int, int, int]:
    """Return the bits of the number in the cell at ``i``, what a column holds by it, and find_cell's answers.

    ``known``: what the column was seen to hold, for how a number is written adds nothing to a POINT.
    """
    value, j, kind, first, point, last = read_digits(text, i)
    if kind == DECIDED:
        what = known if known & POINT and known & DIGITS else form_of(text, first, point, last, j)
        j = past_spaces(text, j, separator)
        if text[j] == separator or text[j] == LINE_FEED or text[j] == RETURN:
            return value, what, i, j, j
    start, end, after = find_cell(text, i, separator)
    if start == end:
        return NAN, 0, start, end, after
    if text[i] == QUOTE:
        value, j, kind, first, point, last = read_digits(text, past_spaces(text, start, separator))
        if kind == DECIDED and past_spaces(text, j, separator) == end:
            return value, form_of(text, first, point, last, j), start, end, after
    k = known_word(text, start, end)
    if k < 0:
        return NAN, ODD, start, end, after
    return VALUES[k], TRUTH if k >= len(MISSING) else 0, start, end, after


@compiled(plain="itself")
def only_empty_lines(text: ByteArray, i: int) -> bool:
    """Whether nothing but empty lines follows."""
    while i < text.size and (text[i] == SPACE or text[i] == TAB or text[i] == LINE_FEED or text[i] == RETURN):
        i += 1
    return bool(i == text.size)


@compiled(plain="reference", weight=1 / 20)
def read_lines(
    text: ByteArray, separator: int, roles: IntArray, values: Array, spans: Array, odd: Array, seen: ByteArray
) -> tuple[int, int, int, int]:
    """Fill in lines until ``text``, which ends a line, or the room for them ends.

    Parameters
    ----------
    text
        ByteArray; a line that is not complete, for a quote that is still open, is left.
    roles
        What each column is.
    values
        Bits of the features, line by line.
    spans
        First and last byte of the text columns.
    odd
        Line, column, first and last byte of each cell that is neither a number nor known to be missing.
    seen
        What each column holds, to be added to.

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
                value, what, start, end, i = read_cell(text, i, separator, seen[column])
                values[line, role] = value
                if what >= 0:
                    if what & ~seen[column]:
                        seen[column] |= what
                else:
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
