"""Numbers as they are shown: the scripts of the page write them in the same way."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

FIRST = 25
"""Rows of the table that stand in the page itself, for readers without scripts."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
UNKNOWN = "–"
UNDERFLOW = "< 10⁻³⁰⁷"
"""A p-value below what a double holds."""


def first_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return the first rows of the table as text."""
    described = [(kind, digits) for _, _, kind, digits, _ in content["columns"]]
    rows = zip(*(column[:FIRST] for column in content["table"]), strict=True)
    return [[text(value, kind, digits) for value, (kind, digits) in zip(row, described, strict=True)] for row in rows]


def uncertified_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return the features that are not certified as text."""
    found = content["uncertified"]
    kinds = {"feature": "name", "estimate": "number", "p_adjusted": "p"}
    columns = [[text(value, kind) for value in found[key]] for key, kind in kinds.items()]
    return [list(row) for row in zip(*columns, strict=True)]


def text(value: Any, kind: str, digits: int | None = None) -> str:
    """Return one cell as text.

    Examples
    --------
    >>> text(0.1234567, "number", 3), text(-2.5e-11, "number"), text(4.04e-8, "p"), text(0.0304, "share")
    ('0.123', '−2.500 × 10⁻¹¹', '4.0 × 10⁻⁸', '3.0 %')
    >>> text("inf", "number"), text(None, "flag"), text(True, "flag"), text(1234.0, "count")
    ('∞', '–', 'yes', '1,234')
    """
    if value is None:
        return UNKNOWN
    if kind == "name":
        return str(value)
    if kind == "flag":
        return "yes" if value else "no"
    if isinstance(value, str):
        return "−∞" if value.startswith("-") else "∞"
    return _number(float(value), kind, digits).replace("-", "−")


def _number(value: float, kind: str, digits: int | None) -> str:
    match kind:
        case "share":
            return f"{fixed(100 * value, 1)} %"
        case "count":
            return fixed(value, 0)
        case "rate":
            return fixed(value, 3)
        case "p":
            return UNDERFLOW if value == 0 else fixed(value, 3) if value >= 0.001 else significant(value, 2)
        case _:
            return significant(value, 4) if digits is None or abs(value) >= 1e6 else fixed(value, digits)


def fixed(value: float, digits: int) -> str:
    """Return a number with so many decimals; what lies halfway goes away from zero, as in browsers."""
    with localcontext(rounding=ROUND_HALF_UP):
        return f"{Decimal(value):,.{digits}f}"


def significant(value: float, digits: int) -> str:
    """Return a number with so many significant digits, as a power of ten where it is very small or large."""
    if value == 0:
        return "0"
    with localcontext(rounding=ROUND_HALF_UP):
        mantissa, exponent = f"{Decimal(value):.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 < power < 6:
        return fixed(value, max(0, digits - 1 - power))
    return f"{mantissa} × 10{str(power).translate(RAISED)}"
