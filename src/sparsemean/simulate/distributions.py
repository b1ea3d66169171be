"""Noise distributions by name: centred draws, symmetric, or one-sided with expectation zero."""

from __future__ import annotations

import math

import numpy as np

from sparsemean._util import checks
from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError
from sparsemean.simulate._protocols import NamedNoise, Size

__all__ = [
    "available",
    "exponential_one_sided",
    "fisk",
    "fisk_one_sided",
    "gaussian",
    "get",
    "laplace",
    "lognormal",
    "lognormal_one_sided",
    "pareto",
    "pareto_one_sided",
    "t",
]

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


def available() -> list[str]:
    """List the names that ``distribution=`` accepts.

    Examples
    --------
    >>> "pareto" in available()
    True
    """
    return list(_NOISES)


def get(name: str) -> NamedNoise:
    """Return the noise called ``name``, a function of a generator, a size and a shape."""
    otherwise = "a function of a generator and a size"
    return checks.find(_NOISES, name, argument="distribution", otherwise=otherwise)


# Exponential noise, less its expectation.


def exponential_one_sided(rng: np.random.Generator, size: Size, _shape: float = 1.0, /) -> FloatArray:
    """Draw a unit exponential variable less its expectation 1; the shape is ignored.

    The density is exp(−(x+1)) on x > −1, the quantile −ln(1−u) − 1, the mean 0 and the variance 1. Skewed
    to the right. With a random sign the exponential is `laplace`.
    """
    return -np.log1p(-open_uniform(rng, size)) - 1


# Fisk (log-logistic) noise with scale 1.


def _fisk_magnitude(rng: np.random.Generator, size: Size, shape: float) -> FloatArray:
    u = open_uniform(rng, size)
    return (u / (1 - u)) ** (1 / shape)


def fisk(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Fisk variable with tail index c = ``shape`` and give it a random sign.

    The magnitude has density c x^(c−1) / (1 + x^c)² on x > 0 and quantile (u / (1−u))^(1/c). With the sign
    the mean is 0 (c > 1) and the variance (2π/c) / sin(2π/c), finite when c > 2.
    """
    return symmetrised(rng, _fisk_magnitude(rng, size, shape))


def fisk_one_sided(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Fisk variable with tail index c = ``shape`` > 1, less its expectation (π/c) / sin(π/c).

    The mean is 0; the variance is (2π/c) / sin(2π/c) − ((π/c) / sin(π/c))², finite when c > 2. Skewed to
    the right.
    """
    require_finite_expectation(shape, name="fisk")
    angle = math.pi / shape
    return _fisk_magnitude(rng, size, shape) - angle / math.sin(angle)


# Standard normal noise.


def gaussian(rng: np.random.Generator, size: Size, _shape: float = 1.0, /) -> FloatArray:
    """Draw a standard normal variable; the shape is ignored.

    The density is exp(−x²/2) / √(2π), the mean 0 and the variance 1.
    """
    return rng.standard_normal(size)


# Laplace (double exponential) noise with scale 1.


def laplace(rng: np.random.Generator, size: Size, _shape: float = 1.0, /) -> FloatArray:
    """Draw a unit exponential variable with a random sign; the shape is ignored.

    The density is exp(−|x|) / 2, the quantile of the magnitude −ln(1−u), the mean 0 and the variance 2.
    """
    return symmetrised(rng, -np.log1p(-open_uniform(rng, size)))


# Lognormal noise; its shape is the standard deviation of the logarithm.


def _lognormal_magnitude(rng: np.random.Generator, size: Size, shape: float) -> FloatArray:
    return np.exp(shape * rng.standard_normal(size))


def lognormal(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw exp(σ Z), Z standard normal and σ = ``shape``, and give it a random sign.

    The magnitude has density exp(−(ln x)² / (2σ²)) / (x σ √(2π)) on x > 0. With the sign the mean is 0 and
    the variance exp(2σ²), finite for every σ; all moments are finite, yet the tails are heavier than
    exponential.
    """
    return symmetrised(rng, _lognormal_magnitude(rng, size, shape))


def lognormal_one_sided(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw exp(σ Z) less its expectation exp(σ²/2), Z standard normal and σ = ``shape``.

    The mean is 0 and the variance (exp(σ²) − 1) exp(σ²), finite for every σ. Skewed to the right.
    """
    return _lognormal_magnitude(rng, size, shape) - float(np.exp(shape * shape / 2))


# Pareto noise whose magnitude starts at 1 (type I with scale 1, the convention of scipy.stats.pareto).


def _pareto_magnitude(rng: np.random.Generator, size: Size, shape: float) -> FloatArray:
    return (1 - open_uniform(rng, size)) ** (-1 / shape)


def pareto(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Pareto variable with tail index b = ``shape`` and give it a random sign.

    The magnitude has density b x^(−b−1) on x ≥ 1 and quantile (1−u)^(−1/b), so the noise has no mass in
    (−1, 1). With the sign the mean is 0 (b > 1) and the variance b / (b−2), finite when b > 2.
    """
    return symmetrised(rng, _pareto_magnitude(rng, size, shape))


def pareto_one_sided(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw a Pareto variable with tail index b = ``shape`` > 1, less its expectation b / (b−1).

    The mean is 0; the variance is b / ((b−1)² (b−2)), finite when b > 2. Skewed to the right.
    """
    require_finite_expectation(shape, name="pareto")
    return _pareto_magnitude(rng, size, shape) - shape / (shape - 1)


# Student's t noise with scale 1.


def t(rng: np.random.Generator, size: Size, shape: float, /) -> FloatArray:
    """Draw Student's t with ν = ``shape`` degrees of freedom, already symmetric about 0.

    The density is proportional to (1 + x²/ν)^(−(ν+1)/2). The mean is 0 (ν > 1) and the variance ν / (ν−2),
    finite when ν > 2. The quantile has no closed form, so the generator's own sampler draws it.
    """
    return rng.standard_t(shape, size)


_NOISES: dict[str, NamedNoise] = {name: globals()[name] for name in __all__ if name not in ("available", "get")}
