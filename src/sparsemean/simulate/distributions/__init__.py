"""Noise distributions, one file each, found by name.

Every module here offers, in ``__all__``, functions ``name(rng, (n, d), shape)`` that return centred draws:
symmetric about zero, or with expectation zero where the name ends in ``_one_sided``.
"""

from __future__ import annotations

from typing import cast

from sparsemean import catalogue
from sparsemean.simulate.protocols import NamedNoise

__all__ = ["available", "get"]


def available() -> list[str]:
    """List the names that ``distribution=`` accepts.

    Examples
    --------
    >>> "pareto" in available()
    True
    """
    return catalogue.names(__name__)


def get(name: str) -> NamedNoise:
    """Return the noise called ``name``, a function of a generator, a size and a shape."""
    otherwise = "a function of a generator and a size"
    return cast(NamedNoise, catalogue.find(__name__, name, argument="distribution", otherwise=otherwise))
