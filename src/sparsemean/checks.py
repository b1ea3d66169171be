"""Rules that arguments of several rooms share, each refused in one line."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from sparsemean.errors import InputError


def integer(value: object, *, argument: str, least: int, rule: str) -> int:
    """Return ``value`` as an integer that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(argument, rule, repr(value))
    return int(value)


def real(value: object, *, argument: str, rule: str) -> float:
    """Return ``value`` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(argument, rule, repr(value))
    return float(value)


def fraction_of_rows(value: object) -> float:
    """Return the contamination ε, a number in [0, 0.5)."""
    rule = "be a number in [0, 0.5)"
    fraction = real(value, argument="contamination", rule=rule)
    if not 0 <= fraction < 0.5:
        raise InputError("contamination", rule, value, "it is the share of rows that may be wrong, 0.05 for 5 %")
    return fraction
