"""Shapes, times and rates in words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def shape(X: npt.NDArray[np.floating]) -> str:
    """Describe an array.

    Examples
    --------
    >>> shape(np.zeros((2000, 10_000), dtype=np.float32))
    'float32, 2000 × 10,000'
    """
    return f"{X.dtype}, {size(X.shape[0])} × {size(X.shape[1])}"


def size(number: int) -> str:
    """Write an integer, with thousands apart from five digits on."""
    return f"{number:,}" if number >= 10_000 else str(number)


def duration(seconds: float) -> str:
    """Write a time with the unit that suits it.

    Examples
    --------
    >>> duration(0.0912), duration(2.5), duration(0.00052)
    ('91 ms', '2.50 s', '0.52 ms')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.2f} ms"


def against(ours: float, theirs: float) -> str:
    """Name the two times behind a ratio."""
    return f"{duration(ours)} against {duration(theirs)}"


def rate(X: npt.NDArray[np.floating], seconds: float) -> str:
    """Say how fast ``X`` was read."""
    return f"{X.nbytes / seconds / 1e9:.1f} GB/s"
