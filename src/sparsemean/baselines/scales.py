"""Scales that a minority of rows cannot move far, and row lengths that neither overflow nor vanish."""

from __future__ import annotations

import numpy as np

from sparsemean.records import FloatArray

GAUSSIAN = 1.4826
"""1 / Φ⁻¹(3/4) as R rounds it: makes the median absolute deviation of Gaussian noise its standard deviation."""


def deviations(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of every column and 1.4826 times its median absolute deviation.

    Examples
    --------
    >>> deviations(np.array([[1.0], [2.0], [9.0]]))
    (array([2.]), array([1.4826]))
    """
    centre = np.median(X, axis=0)
    return np.asarray(centre), np.asarray(GAUSSIAN * np.median(np.abs(X - centre), axis=0))


def lengths(rows: FloatArray) -> FloatArray:
    """Return the Euclidean length of every row, whose squares need not be representable."""
    largest = np.abs(rows).max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)
    scaled = rows / unit[:, np.newaxis]
    return np.asarray(unit * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))
