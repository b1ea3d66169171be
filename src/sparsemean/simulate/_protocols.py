"""What noises and attacks are, and checks of what is simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sparsemean._util.checks import draw_seed, integer, real
from sparsemean.errors import InputError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
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

Seed = int | np.random.Generator | None


def count(value: object, *, argument: str) -> int:
    """Return ``value`` as a positive integer."""
    return integer(value, argument=argument, least=1, rule="be a positive integer")


def positive_shape(value: object) -> float:
    """Return the shape of the distribution."""
    rule = "be a positive finite number"
    shape = real(value, argument="shape", rule=rule)
    if shape <= 0:
        raise InputError("shape", rule, value)
    return shape


def full_mean(values: object, d: int) -> FloatArray:
    """Put ``values`` on the first of ``d`` coordinates and zero on the rest."""
    first = numbers(values, argument="mean", rule="be a sequence of numbers")
    if first.ndim != 1:
        raise InputError("mean", "be a sequence of numbers", f"an array of shape {first.shape}")
    if first.size > d:
        raise InputError("mean", f"have at most d = {d} entries", first.size, "raise d or shorten mean")
    if not np.isfinite(first).all():
        raise InputError("mean", "be finite", first[~np.isfinite(first)][0])
    return np.concatenate([first, np.zeros(d - first.size)])


def numbers(values: object, *, argument: str, rule: str) -> FloatArray:
    """Return ``values`` as a new array of floats."""
    try:
        array = np.asarray(cast(npt.ArrayLike, values))
    except ValueError:
        raise InputError(argument, rule, "rows of different lengths") from None
    if array.dtype.kind not in "iuf":
        raise InputError(argument, rule, f"an array of {array.dtype}")
    return array.astype(np.float64)


def noise(draws: object, size: Size) -> FloatArray:
    """Return what a caller's distribution drew, if it has the right shape and is finite."""
    rule = f"return finite numbers in an array of shape {size}"
    array = numbers(draws, argument="distribution", rule=rule)
    if array.shape != size:
        raise InputError("distribution", rule, f"shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError("distribution", rule, array[~np.isfinite(array)][0])
    return array


def streams(random_state: object) -> tuple[np.random.Generator, np.random.Generator]:
    """Return independent generators for the noise and for the attack.

    The noise never shares its stream, so the clean rows of a seed are the same under every attack. A
    generator is advanced by this call; an integer or None starts a sequence of its own.
    """
    first, second = np.random.SeedSequence(draw_seed(random_state)).spawn(2)
    return np.random.default_rng(first), np.random.default_rng(second)


# Which coordinates an attack aims at.


def how_many(wanted: int | None, mean: FloatArray, *, argument: str) -> int:
    """Return ``wanted``, by default as many coordinates as the support has, but one where it is empty."""
    return max(1, int(np.count_nonzero(mean))) if wanted is None else count(wanted, argument=argument)


def off_support(mean: FloatArray, rng: np.random.Generator, count: int) -> IntArray:
    """Draw ``count`` coordinates outside the support, or all there are; where there is none, on the support."""
    outside = np.flatnonzero(mean == 0)
    choices = outside if outside.size else np.arange(mean.size)
    return np.sort(rng.choice(choices, size=min(count, choices.size), replace=False))
