"""Attacks that only studies need: as strong as theory lets them be before they show in a variance."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.simulate.protocols import Attack, FloatArray, IntArray


def find(name: str) -> str | Attack:
    """Return the attack called ``name``: one of this file, else the name, which the library knows or refuses."""
    return _NAMED.get(name, name)


def root_shift(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Move the corrupted rows by −1/√ε in every coordinate of the support.

    Each coordinate's variance grows by about one and its mean moves by √ε: what a fixed shift does for one ε only, this
    does for all. Together the coordinates show: along the support the variance grows by k.
    """
    return X[corrupted] + np.where(mean != 0, -1.0, 0.0) / math.sqrt(corrupted.size / len(X))


def root_shift_one(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Move the corrupted rows by −1/√ε in the first coordinate of the support, as the lower bound's adversary does."""
    shift = np.zeros(mean.size)
    shift[np.flatnonzero(mean)[:1]] = -1.0 / math.sqrt(corrupted.size / len(X))
    return X[corrupted] + shift


_NAMED: dict[str, Attack] = {"root_shift": root_shift, "root_shift_one": root_shift_one}
