"""Rows of perfect noise that deny the mean."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["mimic"]


def mimic(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.

    Meant to defeat every look at single rows: each coordinate has the law of the noise, off the support
    nothing is changed at all, and on it the rows say with one voice that there is no mean. Only a second cluster
    on the support tells. With an empty support the rows stay clean.
    """
    return X[corrupted] - mean
