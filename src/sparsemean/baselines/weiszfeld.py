"""The point with the smallest sum of distances to all rows."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.scales import lengths
from sparsemean.records import FloatArray, Located

TOLERANCE = 1e-10
LIMIT = 2000
COINCIDES = 1e-12


def geometric_median_of(X: FloatArray) -> Located:
    """Minimise Σᵢ ‖xᵢ − y‖ by Weiszfeld's steps as Vardi and Zhang extend them to iterates that meet a row.

    With R the sum of the unit vectors from y to the rows away from y, and η the number of rows at y,
    y ← y + max(0, 1 − η/‖R‖) · R / Σ 1/‖xᵢ − y‖. It starts at the coordinate-wise median (so that one column is solved
    at once) and stops when a step is shorter than 1e-10 of the median distance, or at a row with ‖R‖ ≤ η, which is
    the minimum. A row counts as met within 1e-12 of the median distance.

    References
    ----------
    Y. Vardi and C.-H. Zhang (2000), The multivariate L1-median and associated data depth, Proceedings of the National
    Academy of Sciences 97(4), 1423–1426.

    Examples
    --------
    >>> geometric_median_of(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])).mean
    array([0., 0.])
    """
    y = np.asarray(np.median(X, axis=0))
    apart = lengths(X - y)
    if not apart.any():
        return Located(y)
    scale = float(np.median(apart[apart > 0]))
    steps, moved = 0, np.inf
    while moved > TOLERANCE * scale and steps < LIMIT:
        move = _step(X - y, COINCIDES * scale)
        y, moved, steps = y + move, float(lengths(move[np.newaxis])[0]), steps + 1
    if moved <= TOLERANCE * scale:
        return Located(_at_row(X, y, scale), iterations=steps)
    note = f"still moving by {moved / scale:.1e} of the median distance after {LIMIT} steps"
    return Located(y, iterations=steps, converged=False, notes=(note,))


def _step(away: FloatArray, met: float) -> FloatArray:
    """Return the move from y, given the rows less y."""
    distance = lengths(away)
    other = distance > met
    if not other.any():
        return np.zeros(away.shape[1])
    pull = (away[other] / distance[other, np.newaxis]).sum(axis=0)
    strength = float(lengths(pull[np.newaxis])[0])
    held = int(away.shape[0] - other.sum())
    if strength <= held:
        return np.zeros(away.shape[1])
    return np.asarray((1 - held / strength) * pull / np.sum(1 / distance[other]))


def _at_row(X: FloatArray, y: FloatArray, scale: float) -> FloatArray:
    """Return the row next to y if that is the minimum: steps towards a row shrink before they reach it."""
    distance = lengths(X - y)
    nearest = X[distance.argmin()]
    if distance.min() > 1e-3 * scale or _step(X - nearest, COINCIDES * scale).any():
        return y
    return np.asarray(nearest.copy())
