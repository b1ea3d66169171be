"""The few steps that several distributions share."""

from __future__ import annotations

import numpy as np

from sparsemean.errors import InputError
from sparsemean.simulate.protocols import FloatArray, Size

_LATTICE = 2**52


def open_uniform(rng: np.random.Generator, size: Size) -> FloatArray:
    """Draw uniformly from (0, 1), both ends excluded, for inverse transforms.

    The draws are (k + 1/2) / 2⁵² with k uniform on 0 … 2⁵² − 1: exact in float64 and symmetric about 1/2.
    """
    # The ends must stay out: a quantile function is infinite at one of them, or at both.
    return (rng.integers(_LATTICE, size=size) + 0.5) / _LATTICE


def symmetrised(rng: np.random.Generator, magnitude: FloatArray) -> FloatArray:
    """Give every entry of ``magnitude`` an independent fair sign."""
    return np.copysign(magnitude, rng.random(magnitude.shape) - 0.5)


def require_finite_expectation(shape: float, *, name: str) -> None:
    """Refuse a tail index at which the draw cannot be centred because its expectation is infinite."""
    if shape <= 1:
        raise InputError(
            "shape",
            f"exceed 1 for {name}_one_sided, whose expectation is infinite otherwise",
            shape,
            f"use a larger shape or distribution={name!r}",
        )
