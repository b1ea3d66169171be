"""Rules that arguments of several rooms share, each refused in one line; shared words, seeds, functions by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError, visible

F = TypeVar("F", bound=Callable[..., object])
LONGEST = 1000
"""Bits of integers that are shown: Python writes no more than a few thousand digits."""


def integer(value: object, *, argument: str, least: int, rule: str, most: float = math.inf) -> int:
    """Return ``value`` as an integer that is neither below ``least`` nor above ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        endless = isinstance(value, int) and value.bit_length() > LONGEST
        raise InputError(argument, rule, "an integer of very many digits" if endless else repr(value))
    return int(value)


def real(value: object, *, argument: str, rule: str, least: float = -math.inf) -> float:
    """Return ``value`` as a finite float that is not below ``least``."""
    try:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < least:
            raise InputError(argument, rule, repr(value))
        return float(value)
    except OverflowError:
        raise InputError(argument, rule, "an integer beyond any float") from None


AUTO = "auto"
"""The contamination that is found: as many rows as look bad."""


def is_auto(contamination: object) -> bool:
    """Whether the number of bad rows is to be found."""
    return isinstance(contamination, str) and contamination == AUTO


def fraction_of_rows(value: object, *, or_auto: bool = False) -> float:
    """Return the contamination ε, a number in [0, 0.5); 0 for "auto" where that may be asked for."""
    rule = "be 'auto' or a number in [0, 0.5)" if or_auto else "be a number in [0, 0.5)"
    if or_auto and is_auto(value):
        return 0.0
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


# Words that errors, notes, pictures and pages share.

NAMED = 5
"""Names that a sentence lists before it says that there are more."""


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> pluralize(1, "feature"), pluralize(12_000, "row")
    ('1 feature', '12,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def count_of(number: int, total: int, noun: str) -> str:
    """Return a number with that of all there are.

    Examples
    --------
    >>> count_of(3, 1200, "feature")
    '3 of 1,200 features'
    """
    return f"{number:,} of {pluralize(total, noun)}"


def unit_name(subjects: object | None) -> str:
    """Return what is counted as one observation, of which a share may be bad: a subject where there are subjects."""
    return "row" if subjects is None else "subject"


def list_names(names: Sequence[object] | npt.NDArray[np.generic], most: int = NAMED) -> str:
    """Return the first few names in one line.

    Examples
    --------
    >>> list_names(["a", "b", "c"], 2)
    'a, b, …'
    """
    return ", ".join(map(visible, names[:most])) + (", …" if len(names) > most else "")


# From what users call a random state to one integer that is stored with the result.

SEED_BITS = 63


def draw_seed(random_state: object) -> int:
    """Return the seed: the integer itself, or one drawn from a generator or, for None, from the system."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(64 - SEED_BITS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**SEED_BITS - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    rule = "be None, an integer of at least 0 or a NumPy generator"
    return integer(random_state, argument="random_state", least=0, rule=rule) % 2**128


# Functions by name.


def summaries(functions: Mapping[str, Callable[..., object]]) -> dict[str, str]:
    """Return the first line of the docstring of every function."""
    return {name: (function.__doc__ or "").strip().partition("\n")[0] for name, function in functions.items()}


def find(functions: Mapping[str, F], name: object, *, argument: str, otherwise: str = "") -> F:
    """Return the function called ``name``, or refuse ``argument`` with the list of choices."""
    if not isinstance(name, str) or name not in functions:
        others = f", or {otherwise}" if otherwise else ""
        raise InputError(argument, f"be one of {', '.join(functions)}{others}", repr(name))
    return functions[name]


class Bunch(dict[str, Any]):
    """Named results in one object: ``bunch["X"]`` and ``bunch.X`` are the same thing.

    Examples
    --------
    >>> bunch = Bunch(X=[1.0, 2.0], y="F")
    >>> bunch
    Bunch(X, y)
    >>> bunch.y
    'F'
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"Bunch has no entry {name!r}; it has {', '.join(self)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"Bunch({', '.join(self)})"
