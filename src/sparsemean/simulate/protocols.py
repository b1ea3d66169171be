"""What a noise and an attack are: plain functions with these arguments and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
Size: TypeAlias = tuple[int, int]

Noise: TypeAlias = Callable[[np.random.Generator, Size], FloatArray]
"""``noise(rng, (n, d))``: centred draws, one per entry. What a caller may pass."""

NamedNoise: TypeAlias = Callable[[np.random.Generator, Size, float], FloatArray]
"""``noise(rng, (n, d), shape)``: what a file under ``distributions/`` offers."""


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
