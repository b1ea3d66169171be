"""Projected descent on the weights of rows: the search that the two gradient methods share.

An objective is a function ``evaluate(w, below)``: the value at the weights w and its gradient, or None as soon as it is
certain that the value is not below ``below``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sparsemean.baselines.eigen import TopEigenpair
from sparsemean.baselines.simplex import project_capped_simplex
from sparsemean.records import FloatArray, Located

Evaluate: TypeAlias = Callable[[FloatArray, float], tuple[float, FloatArray] | None]
SAFE = 1e30
"""From 1/SAFE to SAFE eighth powers, which norms of gradients meet, neither overflow nor vanish."""
STILL = float(np.finfo(np.float64).eps)
"""A step of less than this share of the largest weight moves nothing but the last digit."""


@dataclass(frozen=True, slots=True, eq=False)
class Descended:
    """Weights at the end of a descent; ``converged`` says that it ended before the last iteration."""

    weights: FloatArray
    iterations: int
    converged: bool


def descend(evaluate: Evaluate, n: int, cap: float, *, n_iter: int, least_fall: float = 0.0) -> Descended:
    """Minimise over {0 ≤ w ≤ cap, Σw = 1} from w = 1/n, with first step 1/n.

    A move is step·g/‖g‖ and a projection. It is accepted, and the step doubled, if the value fell; else the weights
    are restored and the step quartered.

    Parameters
    ----------
    evaluate : callable
        The objective; it may return None where the value did not fall.
    n : int
        Number of rows.
    cap : float
        Largest weight.
    n_iter : int
        Most moves.
    least_fall : float
        Stop after an accepted move that lowers the value by less than this share of it; 0 never does.
    """
    w, step = np.full(n, 1 / n), 1 / n
    found = evaluate(w, math.inf)
    if found is None or n * cap <= 1:
        return Descended(w, 0, True)
    value, gradient = found
    for iteration in range(1, n_iter + 1):
        length = float(np.linalg.norm(gradient))
        if length == 0 or step < STILL * cap:
            return Descended(w, iteration - 1, True)
        moved = project_capped_simplex(w - (step / length) * gradient, cap)
        if np.array_equal(moved, w):
            return Descended(w, iteration - 1, True)
        found = evaluate(moved, value)
        if found is None or not found[0] < value:
            step /= 4
            continue
        fall = value - found[0]
        enough = fall >= least_fall * value
        w, step, (value, gradient) = moved, 2 * step, found
        if not enough:
            return Descended(w, iteration, True)
    return Descended(w, n_iter, False)


def largest_weight(n: int, contamination: float) -> float:
    """Return the cap 1/(n − round(εn)): weights that at least the rows thought good must share."""
    return 1 / (n - round(contamination * n))


def scale_of(X: FloatArray) -> float:
    """Return the power of two by which rows are divided so that nothing overflows; 1 for ordinary rows."""
    largest = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
    ordinary = largest == 0 or 1 / SAFE < largest < SAFE
    return 1.0 if ordinary else math.ldexp(1.0, math.frexp(largest)[1] - 1)


def weighted_mean(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return Σ w_i x_i without overflow."""
    scale = scale_of(X)
    return np.asarray(w @ X if scale == 1 else (w @ (X / scale)) * scale)


def spectral_descent(X: FloatArray, contamination: float, n_iter: int = 100) -> Located:
    """Find the mean by weights that make the top eigenvalue λ of the weighted covariance small.

    The gradient of λ at w is g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), u the top eigenvector; the search is `descend`.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows.
    contamination : float
        Share ε of rows that may be arbitrary; no weight exceeds 1/(n − round(εn)).
    n_iter : int
        Moves; the published method always makes 100.

    Returns
    -------
    Located
        The weighted mean with its weights. ``converged`` is True: the number of moves is part of the method.
    """
    n = X.shape[0]
    scale = scale_of(X)
    rows = X if scale == 1 else X / scale
    found = descend(TopEigenpair(rows), n, largest_weight(n, contamination), n_iter=n_iter)
    return Located(weighted_mean(X, found.weights), iterations=found.iterations, weights=found.weights)
