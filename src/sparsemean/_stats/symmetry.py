"""Whether a centre can be taken for a mean: a test of symmetry of each column, about any value.

What is proved: where the rows are independent and symmetric about one value, whatever that is, and none is bad, a
column is flagged with a chance of at most `ERROR`. No moments are needed, and rows may have scales of their own. What
is a warning only: bad rows can feign skewness and hide it; and a column that is not flagged may be skewed by less than
so many rows show, and still by enough to mislead a test of its centre that is taken for one of its mean.
"""

from __future__ import annotations

import math

import numpy as np

from sparsemean._stats.arrays import dropna
from sparsemean._util.records import FloatArray, IntArray

ERROR = 0.01
"""Chance, at most, that a symmetric column is flagged."""
CHECKABLE = 250
"""Values from which the reference law, lognormal with σ = .5 (skewness 1.75), is flagged with a chance above 0.95."""
GROUPS = ((2000, 32), (500, 16), (0, 8))
"""From so many values: the size of groups. Large ones show a little skewness better, but there must be many."""
GAUSSIAN_BOUND = 0.5 / math.erfc(1.0)
"""P(Σ aᵢεᵢ ≥ z) is at most 3.18 times that of a standard normal variable: fair signs εᵢ, Σ aᵢ² = 1."""


def symmetry_p(x: FloatArray) -> FloatArray:
    """Return the p-value of symmetry about any value of each column of ``x``, without gaps, and the least there can be.

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
    rows, size = dealt_rows(x.shape[0])
    return p_of_groups(_skewness(x[rows].reshape(-1, size, x.shape[1])))


def dealt_rows(n: int) -> tuple[IntArray, int]:
    """Return the rows of all groups, one group after the other, and the size of a group."""
    size = next(size for least, size in GROUPS if n >= least)
    return np.random.default_rng(0).permutation(n)[: n // size * size], size


def p_of_groups(h: FloatArray) -> FloatArray:
    """Return the p-values that the skewness of groups, (groups, columns), gives, and the least there can be."""
    from scipy.special import ndtr

    length = np.sqrt(np.sum(h**2, axis=0))
    z = np.abs(h.sum(axis=0)) / np.where(length > 0, length, 1.0)
    largest = np.sqrt(np.count_nonzero(h, axis=0))
    return np.asarray(np.minimum(1.0, 2.0 * GAUSSIAN_BOUND * ndtr(-np.stack((z, largest)))))


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


def skew_flags(x: FloatArray) -> IntArray:
    """Return 1 for each column of ``x`` that is skewed beyond chance, 0 for others, −1 where that cannot be told.

    It cannot where there are fewer than `CHECKABLE` values, or so few that differ that no p-value can be small enough.
    Missing values, NaN, are left out.
    """
    gaps = np.isnan(x).any(axis=0)
    p, number = np.ones((2, x.shape[1])), np.full(x.shape[1], x.shape[0])
    if not gaps.all():
        p[:, ~gaps] = symmetry_p(x[:, ~gaps] if gaps.any() else x)
    for column in np.flatnonzero(gaps):
        present = dropna(x[:, column])
        p[:, [column]], number[column] = symmetry_p(present[:, np.newaxis]), present.size
    return flags_of(p, number)


def flags_of(p: FloatArray, number: IntArray) -> IntArray:
    """Return the flags that p-values, and the least there can be of so many values, give."""
    told = (number >= CHECKABLE) & (p[1] <= ERROR)
    return np.where(p[0] <= ERROR, 1, np.where(told, 0, -1))
