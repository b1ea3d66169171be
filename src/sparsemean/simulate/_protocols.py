"""What noises and attacks are, and checks of what is simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sparsemean._util.checks import integer
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

Size: TypeAlias = tuple[int, int]

Noise: TypeAlias = Callable[[np.random.Generator, Size], FloatArray]
"""``noise(rng, (n, d))``: centred draws, one per entry. What a caller may pass."""

NamedNoise: TypeAlias = Callable[[np.random.Generator, Size, float], FloatArray]
"""``noise(rng, (n, d), shape)``: what ``distributions`` offers by name."""


class Replacement(NamedTuple):
    """The answer of an attack that chooses its own rows.

    Attributes
    ----------
    rows : ndarray of shape (r, d)
        What the chosen rows become.
    corrupted : ndarray of shape (r,)
        The distinct indices of the chosen rows, in the order of ``rows``; at most as many as the attack
        was allowed.
    """

    rows: FloatArray
    corrupted: IntArray


Attack: TypeAlias = Callable[[FloatArray, FloatArray, np.random.Generator, IntArray], FloatArray | Replacement]
"""``attack(X, mean, rng, corrupted)``: what the corrupted rows become.

The adversary sees everything: ``X`` (n, d) all clean rows and ``mean`` (d,) the truth, both read-only, a
generator of its own, and ``corrupted``, the indices of the rows it is given; their number is what it may
corrupt. It answers with an array of shape (len(corrupted), d) for those rows, or with a `Replacement` when
it prefers other ones.
"""


# The rules for the arguments of a simulation, each refused in one line.


def positive_integer(value: object, *, argument: str) -> int:
    """Return ``value`` as a positive integer."""
    return integer(value, argument=argument, least=1, rule="be a positive integer")


def numbers(values: object, *, argument: str, rule: str, shape: Size | None = None) -> FloatArray:
    """Return ``values`` as a new array of floats, of a ``shape`` if one is asked for."""
    try:
        array = np.asarray(cast(npt.ArrayLike, values))
    except ValueError:
        raise InputError(argument, rule, "rows of different lengths") from None
    if array.dtype.kind not in "iuf":
        raise InputError(argument, rule, f"an array of {array.dtype}")
    if shape is not None and array.shape != shape:
        raise InputError(argument, rule, f"shape {array.shape}")
    return array.astype(np.float64)


# Which coordinates an attack aims at.


def how_many(wanted: int | None, mean: FloatArray, *, argument: str) -> int:
    """Return ``wanted``, by default as many coordinates as the support has, but one where it is empty."""
    return max(1, int(np.count_nonzero(mean))) if wanted is None else positive_integer(wanted, argument=argument)


def off_support(mean: FloatArray, rng: np.random.Generator, count: int) -> IntArray:
    """Draw ``count`` coordinates outside the support, or all there are; where there is none, on the support."""
    outside = np.flatnonzero(mean == 0)
    choices = outside if outside.size else np.arange(mean.size)
    return np.sort(rng.choice(choices, size=min(count, choices.size), replace=False))
