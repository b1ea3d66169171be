"""An alarm for rows that depend on their neighbours: several of one subject, or a series in time.

It is a warning, no test of the fit. It sees rows that agree with the next one only: neither those of a subject that
are scattered over a file, nor seasons. Rows of a file that was sorted by a column agree as well, in that column and in
all that goes with it: given that column they are still independent, and are judged so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from sparsemean._stats.arrays import medians, namespace, near, on_host
from sparsemean._util.records import FloatArray, IntArray

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
    n, d = x.shape
    if n < 3 or not d:
        return 0.0
    products, of_next, squares = _sums_about_means(x)
    return _ratio(of_next + squares.sum() / (n * (n - 1)), products, squares)


def _ratio(S: FloatArray, products: FloatArray, squares: FloatArray) -> float:
    """Return ΣSᵢ in standard deviations."""
    of_all_pairs = (np.sum(products**2) - np.sum(squares**2)) / squares.size
    length = float(np.sqrt(max(np.sum(S**2), of_all_pairs)))
    return float(S.sum()) / length if length else 0.0


def _sums_about_means(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the products of columns, of rows with the next ones and with themselves, of signs less their means."""
    xp = namespace(x)
    if xp is np and (gaps := np.isnan(x)).any():
        signs = np.sign(np.where(gaps, 0.0, x))
        signs -= np.where(gaps, 0.0, signs.sum(axis=0) / np.maximum(np.sum(~gaps, axis=0), 1))
        of_next = np.einsum("ij,ij->i", signs[:-1], signs[1:])
        return signs.T @ signs, of_next, np.einsum("ij,ij->i", signs, signs)
    # Sums of products of whole numbers are exact in single precision; the means are taken out of them afterwards.
    whole = (x > 0).astype(np.float32) - (x < 0)
    mean = on_host(xp.ones(x.shape[0], dtype=np.float32) @ whole).astype(np.float64) / x.shape[0]
    of_next, squares = (xp.einsum("ij,ij->i", whole[: len(other)], other) for other in (whole[1:], whole))
    along = whole.astype(np.float64) @ near(x, mean)
    products, of_next, squares, along = on_host((whole.T @ whole, of_next, squares, along))
    length = float(mean @ mean)
    of_next = of_next - along[:-1] - along[1:] + length
    return np.asarray(products - x.shape[0] * np.outer(mean, mean)), of_next, squares - 2 * along + length


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
