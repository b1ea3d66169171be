"""Location by a bounded influence function, coordinate by coordinate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsemean.baselines.scales import deviations
from sparsemean.records import FloatArray, Located

TOLERANCE = 1e-12
LIMIT = 200


def locate_by_influence(X: FloatArray, psi: Callable[[FloatArray], FloatArray], *, width: float) -> Located:
    """Solve Σᵢ ψ((xᵢ − θ) / (b s)) = 0 in every coordinate, s the scaled MAD and b the ``width``.

    ψ is odd and rises with slopes from 0 to 1. From the median, θ ← θ + b s · mean ψ: it never steps past the root,
    and each step leaves the share of rows on the flat part of ψ of the distance, about a half at most, because half
    of the rows are within one MAD of the median. It stops once no coordinate moves by more than 1e-12 b s. A
    coordinate in which more than half of the rows are equal has s = 0 and keeps its median.

    Examples
    --------
    >>> located = locate_by_influence(np.array([[0.0], [1.0], [2.0], [99.0]]), lambda r: np.clip(r, -1, 1), width=2.0)
    >>> located.mean.round(3)
    array([1.988])
    """
    theta, scale = deviations(X)
    free = scale > 0
    stuck = int(np.count_nonzero(~free & np.any(X[0] != X, axis=0)))
    notes = [f"kept the median in {stuck} coordinates in which half of the rows are equal"] if stuck else []
    if not free.any():
        return Located(theta, notes=tuple(notes))
    rows, step = X[:, free], width * scale[free]
    found, steps = theta[free], 0
    moved = np.inf
    while moved > TOLERANCE and steps < LIMIT:
        move = psi((rows - found) / step).mean(axis=0)
        found, moved, steps = found + step * move, float(np.abs(move).max()), steps + 1
    theta[free] = found
    if moved > TOLERANCE:
        notes.append(f"still moving by {moved:.1e} of its scale after {LIMIT} steps")
    return Located(theta, iterations=steps, converged=moved <= TOLERANCE, notes=tuple(notes))
