"""Attacks, one file each, found by name.

Every module here offers, in ``__all__``, functions ``name(X, mean, rng, corrupted, *, options)`` as described
at `sparsemean.simulate.protocols.Attack`. An option is set by binding it:
``attack=partial(get(name), option=1.0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparsemean import catalogue

__all__ = ["available", "describe", "get"]


def available() -> list[str]:
    """List the names that ``attack=`` accepts.

    Examples
    --------
    >>> "constant_bias" in available()
    True
    """
    return catalogue.names(__name__)


def describe() -> dict[str, str]:
    """Say in one line what each attack does.

    Examples
    --------
    >>> print(describe()["mimic"])
    Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.
    """
    return catalogue.summaries(__name__)


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
    return catalogue.find(__name__, name, argument="attack", otherwise=otherwise)
