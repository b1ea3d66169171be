"""Exponents of power laws: the slope of log y over log x, with its standard error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

X = TypeVar("X", int, float)


@dataclass(frozen=True, slots=True)
class Slope:
    """An exponent, its standard error (NaN from two points) and the number of points."""

    value: float
    error: float
    points: int

    def __str__(self) -> str:
        if self.points < 2:
            return "n/a"
        return f"{self.value:.2f}" + ("" if math.isnan(self.error) else f" ± {self.error:.2f}")


def log_log(x: Iterable[float], y: Iterable[float]) -> Slope:
    """Fit log y = a + b log x by least squares; points at which either is not positive and finite are left out.

    Examples
    --------
    >>> print(log_log([1, 10, 100], [2, 20, 200]))
    1.00 ± 0.00
    """
    pairs = np.array(list(zip(x, y, strict=True)), dtype=np.float64).reshape(-1, 2)
    logs = np.log(pairs[(np.isfinite(pairs) & (pairs > 0)).all(axis=1)])
    n = len(logs)
    if n < 2 or np.ptp(logs[:, 0]) == 0:
        return Slope(math.nan, math.nan, 0 if n < 2 else 1)
    across, up = (logs - logs.mean(axis=0)).T
    value = float(across @ up / (across @ across))
    if n == 2:
        return Slope(value, math.nan, n)
    rest = up - value * across
    return Slope(value, math.sqrt(float(rest @ rest) / (n - 2) / float(across @ across)), n)


def far_end(points: Mapping[X, float], least: float) -> dict[X, float]:
    """Return the points (x to y) from ``least`` on, or the last three of what comes no further: growth shows there.

    Examples
    --------
    >>> far_end({1: 5.0, 10: 6.0, 100: 20.0, 1000: 200.0}, 100)
    {100: 20.0, 1000: 200.0}
    """
    kept = {x: y for x, y in points.items() if x >= least}
    return kept if len(kept) > 1 else dict(list(points.items())[-3:])
