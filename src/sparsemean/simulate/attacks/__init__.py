"""Attacks, one file each under ``kinds/``, found by name: ``attacks.far_rows`` or ``get("far_rows")``.

Every file offers, in ``__all__``, functions ``name(X, mean, rng, corrupted, *, options)`` as described at
`sparsemean.simulate.protocols.Attack`. An option is set by binding it: ``partial(attacks.far_rows, distance=9.0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparsemean import catalogue

__all__ = ["available", "describe", "get"]

_KINDS = f"{__name__}.kinds"


def available() -> list[str]:
    """List the names that ``attack=`` accepts.

    Examples
    --------
    >>> "constant_bias" in available()
    True
    """
    return catalogue.names(_KINDS)


def describe() -> dict[str, str]:
    """Say in one line what each attack does.

    Examples
    --------
    >>> print(describe()["mimic"])
    Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.
    """
    return catalogue.summaries(_KINDS)


def get(name: str) -> Callable[..., Any]:
    """Return the attack called ``name``; its options are keywords.

    Examples
    --------
    >>> from functools import partial
    >>> from sparsemean.simulate import make_contaminated
    >>> attack = partial(get("replaced_rows"), location=40.0)
    >>> make_contaminated(20, 3, [5.0], attack=attack, random_state=0).corrupted
    array([18, 19])
    """
    otherwise = "None, or a function of X, mean, rng and corrupted"
    return catalogue.find(_KINDS, name, argument="attack", otherwise=otherwise)


def __getattr__(name: str) -> Callable[..., Any]:
    if not name.startswith("_") and name in available():
        return get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(available())}")


def __dir__() -> list[str]:
    return sorted({*__all__, *available()})
