"""Which centres of a column are compared, and a test of symmetry about any value."""

from __future__ import annotations

import math

import numpy as np

from sparsemean._stats.arrays import dropna
from sparsemean._util.records import FloatArray, IntArray

# The centres that are compared with each other: `_kernels/centres.py` finds them.

FAR = 10.0
"""Values farther than this many robust deviations are left out of the Hodges–Lehmann estimate, on both sides."""
DEGREES = (1.0, 3.0)
"""Degrees of freedom tried: close to the best for tails from Cauchy's to nearly Gaussian ones."""
NEAR = 0.3
"""A Student-t centre farther than this many robust deviations from the Hodges–Lehmann estimate is not used: where the
noise has two humps, as with a gap at its centre, likelihood has climbed one, and its error there looks small."""
FEWEST = 8
"""With fewer rows no standard error is worth comparing: the Hodges–Lehmann estimate is taken."""
NAMES = ("Hodges–Lehmann", *(f"Student t, {dof:g} d.f." for dof in DEGREES))
NOTHING = "nothing left but the start"

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
    return np.random.default_rng(0).permutation(n), next(size for least, size in GROUPS if n >= least)


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
