"""Location and scale by the score of Student's t: the farther out a value, the less it counts."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.records import FloatArray
from sparsemean.refine.centre import Centre

TOLERANCE = 1e-7
LIMIT = 300
COLLAPSED = 1e-9
"""In units of the first scale: a scale that falls below this falls to zero, as half of the values are equal."""
BEYOND = 1e50
"""In units of the first scale: values farther out count as lying there, where their weight is nothing already."""


def student_t(x: FloatArray, *, dof: float, start: float, scale: float) -> Centre:
    """Return the maximum likelihood centre of t noise with ``dof`` degrees of freedom and unknown scale.

    Iterates weights (ν + 1)/(ν + r²), r the residual over the scale (Lange, Little and Taylor 1989, JASA 84). The
    standard error is the sandwich √E[ψ²] / (E[ψ′] √n), which holds whatever the noise is.

    Examples
    --------
    >>> round(student_t(np.array([-1.0, 0.0, 1.0, 2.0, 99.0]), dof=1, start=1.0, scale=1.0).value, 2)
    0.51
    """
    with np.errstate(over="ignore"):
        z = np.clip((x - start) / scale, -BEYOND, BEYOND)
    centre, error = _iterated(z, dof)
    return Centre(start + scale * centre, scale * error, f"Student t, {dof:g} d.f.")


def _iterated(x: FloatArray, dof: float) -> tuple[float, float]:
    """Return centre and standard error from the start 0 with scale 1; an infinite error where that fails."""
    centre, spread = 0.0, 1.0
    for _ in range(LIMIT):
        r = (x - centre) / spread
        weight = (dof + 1) / (dof + r * r)
        moved = float(weight @ x / weight.sum())
        spread_now = math.sqrt(float(weight @ (x - moved) ** 2) / x.size)
        if spread_now < COLLAPSED:
            return moved, math.inf
        settled = abs(moved - centre) <= TOLERANCE * spread and abs(spread_now - spread) <= 1e-3 * spread
        centre, spread = moved, spread_now
        if settled:
            return centre, _error((x - centre) / spread, dof) * spread
    return centre, math.inf


def _error(r: FloatArray, dof: float) -> float:
    psi = (dof + 1) * r / (dof + r * r)
    slope = float(np.mean((dof + 1) * (dof - r * r) / (dof + r * r) ** 2))
    return math.sqrt(float(np.mean(psi * psi)) / r.size) / slope if slope > 0 else math.inf
