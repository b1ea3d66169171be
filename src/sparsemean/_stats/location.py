"""Location of one column: Hodges–Lehmann and Student-t centres, with their standard errors.

This is the specification: `_kernels/centres.py` finds the same centres of many columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._util.records import FloatArray


class Centre(NamedTuple):
    """The centre of one column; an infinite error says that it is not to be used."""

    value: float
    error: float
    name: str


# The median of all averages of two rows: robust, and nearly as good as the best for most symmetric noises.

NAME = "Hodges–Lehmann"


def pseudomedian(x: FloatArray) -> float:
    """Return the median of (x_i + x_j)/2 over all ordered pairs, a row with itself among them.

    Examples
    --------
    >>> pseudomedian(np.array([0.0, 1.0, 2.0, 3.0, 100.0]))
    2.0
    """
    from sparsemean._kernels import centres

    up = np.sort(x)
    return 0.5 * centres.median_difference(up, -up[::-1])


def hodges_lehmann(x: FloatArray) -> Centre:
    """Return the pseudomedian and its standard error.

    Its asymptotic variance is 1/(12 n (∫f²)²), small also where the noise has no mass at its centre, at which medians
    fail. The error is half the distance of the averages whose ranks lie one standard deviation of Wilcoxon's
    statistic, √(n(n+1)(2n+1)/24), to either side of the median (Lehmann 1963, Ann. Math. Stat. 34).
    """
    from sparsemean._kernels import centres

    up = np.sort(x)
    down, n = -up[::-1], up.size
    total = n * n  # ordered pairs: each average of two rows counts twice, each row once
    # Twice Wilcoxon's deviation for the same reason; rounded up, so that the error is not said to be too small.
    reach = math.ceil(2 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    low, high = (
        0.5 * centres.ordered_difference(up, down, min(max(rank, 1), total))
        for rank in ((total + 1) // 2 - reach, total // 2 + 1 + reach)
    )
    return Centre(0.5 * centres.median_difference(up, down), 0.5 * high - 0.5 * low, NAME)


# Location and scale by the score of Student's t: the farther out a value, the less it counts.

TOLERANCE = 1e-9
"""In units of the scale: what is left after a step as small as this is far below any standard error."""
LIMIT = 3000
"""Iterations: each closes a share of the distance, and what has not settled then has a likelihood so flat, or with two
humps, that its centre is not to be used."""
COLLAPSED = 1e-6
"""In units of the first scale: a scale that falls below this falls to zero, as half of the values are equal."""
BEYOND = 1e50
"""In units of the first scale: values farther out count as lying there, where their weight is nothing already."""


def _t_name(dof: float) -> str:
    return f"Student t, {dof:g} d.f."


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
    return Centre(start + scale * centre, scale * error, _t_name(dof))


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
        settled = max(abs(moved - centre), abs(spread_now - spread)) <= TOLERANCE * spread
        centre, spread = moved, spread_now
        if settled:
            return centre, _error((x - centre) / spread, dof) * spread
    return centre, math.inf


def _error(r: FloatArray, dof: float) -> float:
    psi = (dof + 1) * r / (dof + r * r)
    slope = float(np.mean((dof + 1) * (dof - r * r) / (dof + r * r) ** 2))
    return math.sqrt(float(np.mean(psi * psi)) / r.size) / slope if slope > 0 else math.inf


# The centres that are compared with each other.

FAR = 10.0
"""Values farther than this many robust deviations are left out of the Hodges–Lehmann estimate, on both sides."""
DEGREES = (1.0, 3.0)
"""Degrees of freedom tried: close to the best for tails from Cauchy's to nearly Gaussian ones."""
NEAR = 0.3
"""A Student-t centre farther than this many robust deviations from the Hodges–Lehmann estimate is not used: where the
noise has two humps, as with a gap at its centre, likelihood has climbed one, and its error there looks small."""
FEWEST = 8
"""With fewer rows no standard error is worth comparing: the Hodges–Lehmann estimate is taken."""
NAMES = (NAME, *map(_t_name, DEGREES))
NOTHING = "nothing left but the start"


def candidates(x: FloatArray, start: float) -> list[Centre]:
    """Return the centres of one column that are compared; ``start`` is one that is good enough to see what is far.

    The first is Hodges–Lehmann, the others are the Student-t centres of ``DEGREES``.

    Examples
    --------
    >>> noise = np.random.default_rng(0).standard_cauchy(500)
    >>> [round(c.error, 3) for c in candidates(noise, 0.0)]
    [0.082, 0.068, 0.078]
    """
    if not x.size:
        return [Centre(start, np.inf, NOTHING)] * len(NAMES)
    away = np.abs(x - start)
    spread = GAUSSIAN * float(np.median(away))
    if x.size < FEWEST or spread == 0:
        return [hodges_lehmann(x)] * len(NAMES)
    inner = hodges_lehmann(x[away <= FAR * spread])
    return [inner, *(_near(x, inner, spread, dof) for dof in DEGREES)]


def _near(x: FloatArray, inner: Centre, spread: float, dof: float) -> Centre:
    """Return the Student-t centre, with an infinite error where it is too far from the Hodges–Lehmann estimate."""
    centre = student_t(x, dof=dof, start=inner.value, scale=spread)
    return centre if abs(centre.value - inner.value) <= NEAR * spread else centre._replace(error=np.inf)
