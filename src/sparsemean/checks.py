"""Rules that arguments of several rooms share, each refused in one line."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError

LONGEST = 1000
"""Bits of integers that are shown: Python writes no more than a few thousand digits."""


def integer(value: object, *, argument: str, least: int, rule: str, most: float = math.inf) -> int:
    """Return ``value`` as an integer that is neither below ``least`` nor above ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        endless = isinstance(value, int) and value.bit_length() > LONGEST
        raise InputError(argument, rule, "an integer of very many digits" if endless else repr(value))
    return int(value)


def real(value: object, *, argument: str, rule: str) -> float:
    """Return ``value`` as a finite float."""
    try:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(argument, rule, repr(value))
        return float(value)
    except OverflowError:
        raise InputError(argument, rule, "an integer beyond any float") from None


def fraction_of_rows(value: object) -> float:
    """Return the contamination ε, a number in [0, 0.5)."""
    rule = "be a number in [0, 0.5)"
    fraction = real(value, argument="contamination", rule=rule)
    if not 0 <= fraction < 0.5:
        raise InputError("contamination", rule, value, "it is the share of rows that may be wrong, 0.05 for 5 %")
    return fraction


def is_missing(label: object) -> bool:
    """Whether a label is None, NaN, NaT or pandas' NA, which does not compare."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def one_number_each(value: object, d: int, *, argument: str) -> npt.NDArray[np.float64] | None:
    """Return a number, or one for each of ``d`` features, as an array; None where all are zero."""
    rule = f"be a finite number or {d} of them, one for each feature"
    if isinstance(value, (bool, str)):
        raise InputError(argument, rule, repr(value))
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(argument, rule, repr(value)) from None
    if numbers.shape not in ((), (d,)):
        raise InputError(argument, rule, f"shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise InputError(argument, rule, "NaN or infinity")
    return np.broadcast_to(numbers + 0.0, (d,)).copy() if numbers.any() else None  # no −0.0, which is the same
