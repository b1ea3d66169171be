"""Alarms for what a fit assumes of its rows: that they are independent, and symmetric where a centre is to be a mean.

They are warnings, no tests of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from sparsemean._stats.arrays import dropna, medians, namespace, near, on_host
from sparsemean._util.records import FloatArray, IntArray

# Rows that depend on their neighbours: several of one subject, or a series in time.
#
# It sees rows that agree with the next one only: neither those of a subject that are scattered over a file, nor
# seasons. Rows of a file that was sorted by a column agree as well, in that column and in all that goes with it: given
# that column they are still independent, and are judged so.

ALARM = 4.0
"""z from which neighbours are said to agree: independent rows reach it in about 1 of 30,000 fits."""
MOST_COLUMNS = 256
"""Columns that are looked at, evenly spread: more tell little more."""
MOST_ROWS, STRETCH = 20_000, 500
"""Rows that are looked at, where there are more, in stretches of so many neighbours."""
HEAD = 64
"""Rows that tell of most columns that no file was sorted by them."""
NO_CHANCE = 9.0
"""ρ²·(n − 1) of a column and the rows' numbers from which it does not stand in order by chance: three ones below all
zeros have less."""
STRETCHES, SHORTEST = 8, 20
"""Stretches within which what goes with the order is a curve of second degree, and their rows at least."""
FEW_VALUES = 30
"""Values of a sort key below which its rows are taken for those of categories: stretches are then the shortest ones."""
MOST_KEYS = 4
"""Sort keys that are allowed for; others go with these."""
COPY = 0.9
"""Correlation of ranks with the rows' numbers beyond which a column is nearly a copy of the key, see `z_given`."""
OUTER = 1 / 8
"""Share of the rows at either end of which near copies say nothing: values have tails there."""


def some_neighbours(rows: IntArray) -> IntArray:
    """Return those of some rows that are looked at: all, or stretches that are evenly spread."""
    if rows.size <= MOST_ROWS:
        return rows
    first = np.linspace(0, rows.size - STRETCH, MOST_ROWS // STRETCH).astype(np.intp)
    return np.asarray(rows[(first[:, np.newaxis] + np.arange(STRETCH)).ravel()])


def z_of_neighbours(x: FloatArray, *, known: bool) -> float:
    """Return z of neighbouring rows about the medians of the columns, or about 0 where that is less.

    The latter only where centres are ``known`` to be about 0. Signs about an estimated centre agree by its own error in
    rows whose scale is far below that of others, if such rows come together; those about 0 do not.
    """
    about_null = neighbour_z(x) if known else np.inf
    return about_null if about_null <= ALARM else min(about_null, neighbour_z(x - near(x, medians(x))))


def neighbour_z(x: FloatArray) -> float:
    """Return how far rows of ``x`` agree with the next ones, in standard deviations; 0 where nothing can be said.

    sᵢⱼ is the sign of a value less the mean of the signs of its column, which is not zero where values are skewed or
    often zero; what is missing has none. Sᵢ = Σⱼ sᵢⱼ·sᵢ₊₁ⱼ, less its mean over all orders of the rows,
    −ΣᵢΣⱼ sᵢⱼ²/(n(n−1)), and z = ΣSᵢ/√ΣSᵢ². Columns are summed first: features may depend on each other in any way.
    Signs have no tails, so that rows may have any. Where nearly all Sᵢ are zero their squares say too little: what
    stands for ΣSᵢ² is not less than its mean over all orders.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 20))
    >>> neighbour_z(rows) > ALARM, neighbour_z(rows[np.arange(300) // 3 * 3]) > ALARM
    (False, True)
    """
    (n, d), xp = x.shape, namespace(x)
    if n < 3 or not d:
        return 0.0
    if xp is np and (gaps := np.isnan(x)).any():
        signs = np.sign(np.where(gaps, 0.0, x))
        signs -= np.where(gaps, 0.0, signs.sum(axis=0) / np.maximum(np.sum(~gaps, axis=0), 1))
        of_next, squares = (np.einsum("ij,ij->i", signs[: len(other)], other) for other in (signs[1:], signs))
        products = signs.T @ signs
    else:  # sums of products of whole numbers are exact in single precision; the means are taken out of them afterwards
        whole = (x > 0).astype(np.float32) - (x < 0)
        mean = on_host(xp.ones(n, dtype=np.float32) @ whole).astype(np.float64) / n
        of_next, squares = (xp.einsum("ij,ij->i", whole[: len(other)], other) for other in (whole[1:], whole))
        along = xp.einsum("ij,j->i", whole, near(x, mean))
        products, of_next, squares, along = on_host((whole.T @ whole, of_next, squares, along))
        length = float(mean @ mean)
        of_next, squares = of_next - along[:-1] - along[1:] + length, squares - 2 * along + length
        products = products - n * np.outer(mean, mean)
    return _ratio(of_next + squares.sum() / (n * (n - 1)), products, squares)


def _ratio(S: FloatArray, products: FloatArray, squares: FloatArray) -> float:
    """Return ΣSᵢ in standard deviations."""
    of_all_pairs = (np.sum(products**2) - np.sum(squares**2)) / squares.size
    length = float(np.sqrt(max(np.sum(S**2), of_all_pairs)))
    return float(S.sum()) / length if length else 0.0


# Sorted files: independent rows stay independent given the columns they were sorted by.


class SortKeys(NamedTuple):
    """The columns by which rows are sorted, the first key first; ``runs`` numbers the rows that are equal in them."""

    columns: IntArray
    values: FloatArray
    runs: IntArray


def sort_keys(n: int, read: Callable[[], Iterable[tuple[IntArray, FloatArray]]]) -> SortKeys:
    """Return by which columns ``n`` rows are sorted, up or down; ``read`` yields numbers of columns and their values.

    Where rows are equal in all keys found so far, others may follow.

    Examples
    --------
    >>> rows = np.random.default_rng(0).integers(0, 5, (200, 4))
    >>> rows = rows[np.lexsort((-rows[:, 0], rows[:, 2]))]
    >>> sort_keys(200, lambda: [(np.arange(4), rows)]).columns
    array([2, 0])
    """
    keys = SortKeys(np.empty(0, dtype=np.intp), np.empty((n, 0)), np.zeros(n, dtype=np.intp))
    while keys.columns.size < MOST_KEYS and keys.runs[-1] < n - 1:
        found = [(columns[at], part[:, at]) for columns, part in read() if (at := _in_order(part, keys.runs)).size]
        found = [
            (columns[new], part[:, new]) for columns, part in found if (new := ~np.isin(columns, keys.columns)).any()
        ]
        if not found:
            break
        columns, values = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
        new = np.any((np.diff(values, axis=0) != 0) & ~np.isnan(values[1:]), axis=1) | (np.diff(keys.runs) > 0)
        keys = SortKeys(
            np.append(keys.columns, columns), np.hstack((keys.values, values)), np.append(0, np.cumsum(new))
        )
    return keys


def _in_order(x: FloatArray, runs: IntArray) -> IntArray:
    """Return which columns rise, or fall, through every run of rows, not by chance; what is missing stands anywhere."""
    at = np.arange(x.shape[1])
    for rows in (slice(0, HEAD), slice(None)):
        steps = np.diff(x[rows][:, at], axis=0)[np.diff(runs[rows]) == 0]
        at = at[~(steps < 0).any(axis=0) | ~(steps > 0).any(axis=0)]
    if not at.size:
        return at
    place = _about_means(np.arange(float(runs.size))[:, np.newaxis], runs)
    ranked = _about_means(_ranked(x[:, at]), runs)
    ranked[np.abs(ranked) < 1e-9] = 0.0  # rounding, where all of a run are equal
    shared, own = (place.T @ ranked)[0] ** 2, np.sum(place**2) * np.sum(ranked**2, axis=0)
    return np.asarray(at[shared * (runs.size - 1 - runs[-1]) > NO_CHANCE * own])


def _about_means(x: FloatArray, runs: IntArray) -> FloatArray:
    """Return rows less the means of their runs."""
    first = np.flatnonzero(np.diff(runs, prepend=-1))
    return np.asarray(x - (np.add.reduceat(x, first) / np.diff(first, append=runs.size)[:, np.newaxis])[runs])


def _ranked(x: FloatArray) -> FloatArray:
    """Return the ranks of every column, with mean 0 and variance 1; 0 for what is missing."""
    from scipy.stats import rankdata

    ranks = np.where(np.isnan(x), np.nan, rankdata(x, axis=0, nan_policy="omit"))
    there = np.maximum(np.sum(~np.isnan(x), axis=0), 1)
    ranks = np.nan_to_num(ranks - np.nansum(ranks, axis=0) / there)
    return np.asarray(ranks / np.sqrt(np.maximum(np.mean(ranks**2, axis=0), 1e-12)))


def z_given(keys: SortKeys, x: FloatArray) -> float:
    """Return how far rows agree with the next ones beyond what goes with their order, in standard deviations.

    Given the keys, independent rows of a sorted file are independent with laws that change slowly, and in ranks what
    goes with a key goes with it along a line. So within each stretch of rows a curve of second degree in their numbers
    and in the ranks of the keys is taken from the ranks of every column. Steps between categories are curves of their
    key; those between many subjects are not.

    The ranks of a near copy hardly tell noise about a key from a random walk with a drift: both are nearly the rows'
    numbers. Its values do: noise about the key's values is independent. So of these a curve in the rows' numbers and in
    the values of the keys is taken, and they are judged but for the rows at either end. NaN where nothing is left.
    """
    n, many = x.shape[0], keys.runs[-1] + 1 >= FEW_VALUES
    stretches = max(1, min(n // SHORTEST, STRETCHES) if many else n // SHORTEST)
    place, ranked, by = _ranked(np.arange(float(n))[:, np.newaxis]), _ranked(x), keys.values[:, :MOST_KEYS]
    copies = (np.abs(place.T @ ranked)[0] > COPY * n) & ~np.isnan(x).any(axis=0)
    ranks = np.hstack((place, _ranked(by)))
    r, S = _beyond_curves(ranked[:, ~copies], np.hstack((ranks, ranks**2)), stretches)
    values = _bounded(np.nan_to_num(by))
    by = np.hstack((place, place**2, values, values**2, values**3))
    of_copies, S_of_copies = _beyond_curves(_bounded(x[:, copies]), by, stretches)
    inner = np.abs((np.arange(stretches) + 0.5) / stretches - 0.5) <= 0.5 - OUTER
    r = np.concatenate((r, of_copies * inner[:, np.newaxis, np.newaxis]), axis=2)
    squares = np.sum(r**2, axis=2)
    flat = r.reshape(squares.size, r.shape[2])
    return _ratio(S + S_of_copies * inner[:, np.newaxis], flat.T @ flat, squares) if squares.any() else np.nan


def _bounded(x: FloatArray) -> FloatArray:
    """Return columns about the middle of their inner rows, by the distance of these, and no farther than that."""
    if not x.size:
        return x
    x = x / np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)  # sums of the largest numbers are none
    low, high = np.quantile(x, (OUTER, 1 - OUTER), axis=0)
    return np.asarray(np.clip((x - (low + high) / 2) / np.where(high > low, high - low, 1.0), -1.0, 1.0))


def _beyond_curves(x: FloatArray, by: FloatArray, stretches: int) -> tuple[FloatArray, FloatArray]:
    """Return what is left of columns, and products of rows with the next ones, within stretches of rows.

    r = Px is what is left beside curves of ``by``. Of independent rows Erᵢrᵢ₊₁ = σ²Pᵢᵢ₊₁, σ² being Σrᵢ²/tr P.
    """
    length = x.shape[0] // stretches

    def cut(rows: FloatArray) -> FloatArray:
        return rows[: stretches * length].reshape(stretches, length, rows.shape[1])

    r, by = cut(x), cut(by)
    by = by - by.mean(axis=1, keepdims=True)
    by = by / np.maximum(np.abs(by).max(axis=1, keepdims=True), 1e-12)
    curves, sizes, _ = np.linalg.svd(np.concatenate((np.ones((stretches, length, 1)), by), axis=2), full_matrices=False)
    curves = curves * (sizes > 1e-6 * sizes[:, :1])[:, np.newaxis]
    r = r - curves @ (curves.transpose(0, 2, 1) @ r)
    left = length - np.sum(curves**2, axis=(1, 2))
    variance = np.sum(r**2, axis=(1, 2)) / np.maximum(left, 1.0)
    shared = np.sum(curves[:, :-1] * curves[:, 1:], axis=2)
    return r, np.sum(r[:, :-1] * r[:, 1:], axis=2) + variance[:, np.newaxis] * shared


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
