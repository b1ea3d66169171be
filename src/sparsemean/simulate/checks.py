"""The rules for the arguments of a simulation, each refused in one line."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from sparsemean.checks import integer, real
from sparsemean.errors import InputError
from sparsemean.randomness import draw_seed
from sparsemean.simulate.protocols import FloatArray, Size

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
