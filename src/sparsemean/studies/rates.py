"""From trials to growth: the worst error over attacks, the best time, the rows that are enough."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FACTOR = 2.0
"""Rows are enough when the error is below this many times its limit."""


def worst_errors(trials: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator and x the largest, over attacks, of the median errors; columns estimator, x, value."""
    medians = trials.groupby(["estimator", "x", "attack"], sort=False)["error"].median().reset_index()
    worst = medians.groupby(["estimator", "x"], sort=False)["error"].max().reset_index()
    return worst.rename(columns={"error": "value"})


def best_seconds(trials: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator and x the shortest time; columns estimator, x, value."""
    best = trials.groupby(["estimator", "x"], sort=False)["seconds"].min().reset_index()
    return best.rename(columns={"seconds": "value"})


def enough_rows(trials: pd.DataFrame, *, of_zero: float = math.inf) -> dict[str, float]:
    """Return for each estimator of a sweep over n the smallest n from which on its error is at most twice its limit.

    The limit is its error at the largest n. NaN where that is none: zero, or half of what the answer zero would err
    (``of_zero``) and more.
    """
    errors = worst_errors(trials)
    return {
        str(name): _enough(part.sort_values("x"), of_zero) for name, part in errors.groupby("estimator", sort=False)
    }


def _enough(errors: pd.DataFrame, of_zero: float) -> float:
    n, error = errors.x.to_numpy(), errors.value.to_numpy()
    if not 0 < error[-1] < of_zero / FACTOR:
        return math.nan
    enough = len(n) - 1
    while enough > 0 and error[enough - 1] <= FACTOR * error[-1]:
        enough -= 1
    return float(n[enough])
