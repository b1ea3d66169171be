"""Columns with gaps: what can be said of the values that are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean.records import FloatArray, IntArray


def medians(x: FloatArray) -> FloatArray:
    """Return the median of the values that are there in each column; NaN where there are none.

    Examples
    --------
    >>> medians(np.array([[1.0, np.nan], [np.nan, np.nan], [4.0, np.nan]]))
    array([2.5, nan])
    """
    gaps = np.isnan(x)
    if not gaps.any():
        return np.asarray(np.median(x, axis=0))
    ordered, count = np.sort(x, axis=0), np.sum(~gaps, axis=0)[np.newaxis]  # NaN goes to the end
    middle = ((np.maximum(count, 1) - 1) // 2, np.minimum(count // 2, x.shape[0] - 1))
    low, high = (np.take_along_axis(ordered, at, axis=0)[0] for at in middle)
    return np.asarray(0.5 * low + 0.5 * high)


def filled(x: FloatArray, by: FloatArray | float) -> FloatArray:
    """Return ``x`` with its gaps filled, by one number or one for each column."""
    return np.where(np.isnan(x), by, x)


def there(x: FloatArray) -> FloatArray:
    """Return the values of one column that are there."""
    gaps = np.isnan(x)
    return x[~gaps] if gaps.any() else x


def by_number(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, IntArray]]:
    """Yield each number that occurs with the places where it does.

    Examples
    --------
    >>> [(number, at.tolist()) for number, at in by_number(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    order = np.argsort(numbers, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        if at.size:
            yield int(numbers[at[0]]), at
