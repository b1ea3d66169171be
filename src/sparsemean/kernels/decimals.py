"""Numbers written in decimals, read to the nearest double: the same bits as Python's ``float``, many times faster.

Up to 2⁵³ and 10^±22 one multiplication is exact (Clinger 1990, How to read floating point numbers accurately). Beyond,
the product with a 128-bit power of five decides nearly always (Lemire 2021, Number parsing at a gigabyte per second);
what it leaves open is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.kernels.compiling import compiled
from sparsemean.kernels.loops import bits

Arr = Any
LEAST, MOST = -342, 308
"""Powers of ten that a double and 19 digits can need."""
MOST_DIGITS = 19
NOT_A_NUMBER, UNDECIDED, DECIDED = 0, 1, 2
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


@compiled
def multiply(a: Any, b: Any) -> Any:
    """Return the high and the low half of the 128-bit product."""
    a0, a1, b0, b1 = a & LOW, a >> np.uint64(32), b & LOW, b >> np.uint64(32)
    low, middle = a0 * b0, a1 * b0
    middle += low >> np.uint64(32)
    other = a0 * b1 + (middle & LOW)
    return a1 * b1 + (middle >> np.uint64(32)) + (other >> np.uint64(32)), a * b


@compiled
def nearest_double(w: Any, q: int) -> Any:
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


@compiled
def read_number(text: Arr, i: int) -> Any:
    """Return the bits of the number that begins at ``i``, where it ends, and whether it is one.

    ``text`` must hold something that is not part of a number after it, a line's end say.
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
    if i - first - (point >= 0) == 0:
        return sign, i, NOT_A_NUMBER
    if text[i] == 69 or text[i] == 101:
        j = i + 1
        negative = text[j] == 45
        if negative or text[j] == 43:
            j += 1
        if not 48 <= text[j] <= 57:
            return sign, i, NOT_A_NUMBER
        power = 0
        while 48 <= text[j] <= 57:
            power = min(power * 10 + int(text[j]) - 48, 1_000_000)
            j += 1
        q += -power if negative else power
        i = j
    if w == 0:
        return sign, i, DECIDED
    found = nearest_double(w, q)
    if found == 0 or (cut and nearest_double(w + np.uint64(1), q) != found):
        return sign, i, UNDECIDED
    return found | sign, i, DECIDED


@compiled
def read_numbers(text: Arr, out: Arr) -> Any:
    """Write the bits of numbers with blanks between them to ``out`` until ``text``, which ends in a blank, ends.

    Return how many there were and how many bytes have been used: not all where one is left open or is no number.
    """
    i, count = 0, 0
    while i < text.size:
        if text[i] <= 32:
            i += 1
            continue
        value, end, kind = read_number(text, i)
        if kind != DECIDED or text[end] > 32:
            return count, i
        out[count] = value
        count += 1
        i = end
    return count, i
