"""Location of one column: Hodges–Lehmann and Student-t centres with errors, and a test of symmetry about any value.

Of centres this is the specification: `_kernels/centres.py` finds the same ones of many columns.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparsemean._stats.arrays import GAUSSIAN, dropna
from sparsemean._util.records import FloatArray, IntArray


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


# Whether a centre can be taken for a mean: a test of symmetry of each column, about any value.
#
# What is proved: where the rows are independent and symmetric about one value, whatever that is, and none is bad, a
# column is flagged with a chance of at most `ERROR`. No moments are needed, and rows may have scales of their own.
# What is a warning only: bad rows can feign skewness and hide it; and a column that is not flagged may be skewed by
# less than so many rows show, and still by enough to mislead a test of its centre that is taken for one of its mean.

ERROR = 0.01
"""Chance, at most, that a symmetric column is flagged."""
CHECKABLE = 250
"""Values from which the reference law, lognormal with σ = .5 (skewness 1.75), is flagged with a chance above 0.95."""
GROUPS = ((2000, 32), (500, 16), (0, 8))
"""From so many values: the size of groups. Large ones show a little skewness better, but there must be many."""
GAUSSIAN_BOUND = 0.5 / math.erfc(1.0)
"""P(Σ aᵢεᵢ ≥ z) is at most 3.18 times that of a standard normal variable: fair signs εᵢ, Σ aᵢ² = 1."""


KEPT = 2_000_000
"""Rows up to which a deal is kept for the next call."""
WIDTH = 64
"""Columns of a task, at least."""


def symmetry_p(x: FloatArray, rows: IntArray | None = None, *, n_jobs: int | None = None) -> FloatArray:
    """Return the p-value of symmetry about any value of each column of ``x``, and the least there can be.

    ``rows`` are those that are looked at, all by default; where a value is missing the p-values are NaN.

    Rows are dealt at random, but always in the same way, into groups; hᵍ is the sample skewness of group g. It does not
    change if a value is added to all rows and turns its sign if all are turned round. So the signs of the hᵍ are fair
    coins, whatever their sizes, if the noise is symmetric, and z = Σhᵍ/√Σ(hᵍ)² is a weighted sum of such coins: its
    tail is at most 3.18 times the normal one at any number of groups (Bentkus and Dzindzalieta 2015, Bernoulli 21).
    z² is at most the number of groups with hᵍ ≠ 0, of which a column that is mostly one value has few.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> symmetry_p(np.column_stack((rng.standard_cauchy(400), rng.exponential(size=400))))[0] < 0.01
    array([False,  True])
    """
    dealt, size = deal(x.shape[0] if rows is None else rows.size)
    return p_of_sums(sums(x, dealt if rows is None else rows[dealt], size, n_jobs=n_jobs))


def deal(n: int) -> tuple[IntArray, int]:
    """Return the order in which n rows are dealt, at random but always the same, and the size of a group."""
    return (_kept_order if n <= KEPT else _order)(n), next(size for least, size in GROUPS if n >= least)


def _order(n: int) -> IntArray:
    return np.random.default_rng(0).permutation(n)


_kept_order = lru_cache(maxsize=2)(_order)


def dealt_rows(n: int) -> tuple[IntArray, int]:
    """Return the rows of all groups, one group after the other, and the size of a group."""
    order, size = deal(n)
    return order[: n // size * size], size


def p_of_groups(h: FloatArray) -> FloatArray:
    """Return the p-values that the skewness of groups, (groups, columns), gives, and the least there can be."""
    return p_of_sums(_sums_of(h))


def p_of_sums(found: FloatArray) -> FloatArray:
    """Return the p-values that Σh, Σh² and #{h ≠ 0} give, and the least there can be."""
    from scipy.special import ndtr

    total, length, number = found[0], np.sqrt(found[1]), found[2]
    z = np.abs(total) / np.where(length > 0, length, 1.0)
    return np.asarray(np.minimum(1.0, 2.0 * GAUSSIAN_BOUND * ndtr(-np.stack((z, np.sqrt(number))))))


def _sums_of(h: FloatArray) -> FloatArray:
    return np.stack((h.sum(axis=0), np.sum(h**2, axis=0), np.count_nonzero(h, axis=0)))


def sums(x: FloatArray, rows: IntArray, size: int, *, n_jobs: int | None = None) -> FloatArray:
    """Return Σh, NaN where a value is missing, Σh² and #{h ≠ 0}, h the skewness of each ``size`` of some rows."""
    from sparsemean._kernels import columns, compiling
    from sparsemean._kernels.memory_layout import count_threads, each, strided

    if compiling.plainly(x.size):
        return sums_plainly(x, rows, size)
    d, view, n_threads = x.shape[1], strided(x), count_threads(n_jobs)
    out, width = np.empty((3, d)), max(WIDTH, -(-d // n_threads))
    at = (view.memory, view.start, view.row_step, view.column_step)
    parts = [(first, min(first + width, d)) for first in range(0, d, width)]
    list(each(lambda part: columns.group_skewness(*at, rows, size, *part, out), parts, n_threads))
    return out


def sums_plainly(x: FloatArray, rows: IntArray, size: int) -> FloatArray:
    """Return what `sums` does, in NumPy alone."""
    dealt = x[rows]
    found = _sums_of(_skewness(dealt[: rows.size // size * size].reshape(-1, size, x.shape[1])))
    found[0, np.isnan(dealt).any(axis=0)] = np.nan
    return found


def _skewness(groups: FloatArray) -> FloatArray:
    """Return the sample skewness along the second axis, zero where all values are the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        centred = groups - groups[:, :1]  # exact for equal values, of which no mean is then left by rounding
        centred /= _or_one(np.abs(centred).max(axis=1, keepdims=True))  # or squares of large values would overflow
        centred -= centred.mean(axis=1, keepdims=True)
        squared = centred * centred
        variance = squared.mean(axis=1)
        skewness = np.mean(squared * centred, axis=1) / _or_one(variance * np.sqrt(variance))
    return np.asarray(np.nan_to_num(skewness))


def _or_one(x: FloatArray) -> FloatArray:
    return np.where(x > 0, x, 1.0)


def skew_flags(x: FloatArray, rows: IntArray | None = None, *, n_jobs: int | None = None) -> IntArray:
    """Return 1 for each column of ``x`` that is skewed beyond chance, 0 for others, −1 where that cannot be told.

    It cannot where there are fewer than `CHECKABLE` values, or so few that differ that no p-value can be small enough.
    Missing values, NaN, are left out. ``rows`` are those that are looked at, all by default.
    """
    p = symmetry_p(x, rows, n_jobs=n_jobs)
    number = np.full(x.shape[1], x.shape[0] if rows is None else rows.size)
    for column in np.flatnonzero(np.isnan(p[0])):
        present = dropna(x[:, column] if rows is None else x[rows, column])
        p[:, [column]], number[column] = symmetry_p(present[:, np.newaxis]), present.size
    return flags_of(p, number)


def flags_of(p: FloatArray, number: IntArray) -> IntArray:
    """Return the flags that p-values, and the least there can be of so many values, give."""
    told = (number >= CHECKABLE) & (p[1] <= ERROR)
    return np.where(p[0] <= ERROR, 1, np.where(told, 0, -1))
