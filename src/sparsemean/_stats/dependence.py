"""An alarm for rows that depend on their neighbours: several of one subject, or a series in time.

It is a warning, no test of the fit. It sees rows that agree with the next one only: neither those of a subject that
are scattered over a file, nor seasons.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._stats.arrays import medians, namespace, near, on_host
from sparsemean._util.records import FloatArray, IntArray

ALARM = 4.0
"""z from which neighbours are said to agree: independent rows reach it in about 1 of 30,000 fits."""
MOST_COLUMNS = 256
"""Columns that are looked at, evenly spread: more tell little more."""
MOST_ROWS, STRETCH = 20_000, 500
"""Rows that are looked at, where there are more, in stretches of so many neighbours."""


def some_neighbours(rows: IntArray) -> IntArray:
    """Return those of some rows that are looked at: all, or stretches that are evenly spread."""
    if rows.size <= MOST_ROWS:
        return rows
    first = np.linspace(0, rows.size - STRETCH, MOST_ROWS // STRETCH).astype(np.intp)
    return np.asarray(rows[(first[:, np.newaxis] + np.arange(STRETCH)).ravel()])


def neighbours_alike(x: Any, *, known: bool) -> float:
    """Return z of neighbouring rows about the medians of the columns, or about 0 where that is less.

    The latter only where centres are ``known`` to be about 0. Signs about an estimated centre agree by its own error in
    rows whose scale is far below that of others, if such rows come together; those about 0 do not.
    """
    about_null = neighbour_z(x) if known else np.inf
    return about_null if about_null <= ALARM else min(about_null, neighbour_z(x - near(x, medians(x))))


def neighbour_z(x: Any) -> float:
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
    S = of_next + squares.sum() / (n * (n - 1))
    of_all_pairs = (np.sum(products**2) - np.sum(squares**2)) / n
    length = float(np.sqrt(max(np.sum(S**2), of_all_pairs)))
    return float(S.sum()) / length if length else 0.0


def _sums_about_means(x: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
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
