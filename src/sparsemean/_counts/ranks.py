"""Two groups: every row of one against every row of the other, without forming the differences of every feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sparsemean._counts.engines import Progress, engine_of
from sparsemean._data.source import Source
from sparsemean._data.table import Table
from sparsemean._kernels import cpu
from sparsemean._stats.arrays import dropna
from sparsemean._stats.nulls import MannWhitneyNulls, mann_whitney, mann_whitney_of
from sparsemean._util.records import Evidence, FloatArray, IntArray, RankCounts

DIFFERENCES_AT_ONCE = 4_000_000
MOST_WALKED = 500
"""Values of each group whose differences are walked; of more, so many evenly spaced order statistics stand for all."""


def count(
    table: Table,
    labels: IntArray,
    *,
    missing: bool = False,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankCounts:
    """Return the evidence of Mann and Whitney, from the values that are there where some are ``missing``.

    One bad row, in value or label, moves U by at most max(n₁, n₂). Ties count against rejection: U₊ and U₋ leave them
    out, while the null distribution breaks them at random.
    """
    n0, n1 = (int(np.sum(labels == g)) for g in (0, 1))
    n = table.shape[0]
    above, below, *sizes = engine_of(table.source).rank_counts(
        table, labels, skip_missing=missing, n_jobs=n_jobs, progress=progress
    )
    n_pairs = np.maximum(sizes[0] * sizes[1], 1)
    delta, tied = (above - below) / n_pairs, np.flatnonzero((above + below == 0) & (sizes[0] * sizes[1] > 0))
    gaps = (n - sizes[0] - sizes[1]).astype(np.int32)
    if gaps.any():
        null, larger = _own_nulls(sizes[0], sizes[1]), np.maximum(np.max(sizes, axis=0), 1)
        evidence = Evidence((np.maximum(above, below) / larger)[np.newaxis], (null,), (1.0,), (1,))
        exact = all(own.table is not None for own in null.nulls)
        return RankCounts(evidence, delta, exact, tied, (above + below) / larger, n_pairs / larger, gaps)
    shared = mann_whitney(n0, n1)
    statistic = np.maximum(above, below).astype(np.float64)[np.newaxis]
    evidence = Evidence(statistic, (shared,), (float(max(n0, n1)),), (1,))
    untied, all_pairs = (above + below).astype(np.float64), n_pairs.astype(np.float64)
    return RankCounts(evidence, delta, shared.table is not None, tied, untied, all_pairs)


def _own_nulls(n0: IntArray, n1: IntArray) -> MannWhitneyNulls:
    """Return the null of every feature, made once for each pair of group sizes."""
    codes, which = np.unique(n0 * (int(n1.max()) + 1) + n1, return_inverse=True)
    pairs = [divmod(int(code), int(n1.max()) + 1) for code in codes]
    return MannWhitneyNulls(tuple(mann_whitney_of(pairs)), which.astype(np.intp))


def map_differences(
    source: Source, columns: IntArray, labels: IntArray, work: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Put side by side what ``work`` makes of all differences second − first group, a few columns at a time.

    Groups of more than `MOST_WALKED` rows are thinned: all differences would be quadratic in the rows.
    """
    first, second = (np.flatnonzero(labels == g) for g in (0, 1))
    at_once = max(1, DIFFERENCES_AT_ONCE // differences_walked(labels))
    out = []
    for k in range(0, columns.size, at_once):
        piece = source.take(columns[k : k + at_once])
        low, high = _thinned(piece[first]), _thinned(piece[second])
        out.append(work((high[:, np.newaxis] - low[np.newaxis]).reshape(-1, piece.shape[1])))
    return np.concatenate(out, axis=-1)


def differences_walked(labels: IntArray) -> int:
    """Return how many differences of one feature `map_differences` forms."""
    second = int(np.sum(labels))
    return min(second, MOST_WALKED) * min(labels.size - second, MOST_WALKED)


def _thinned(values: FloatArray) -> FloatArray:
    """Return the values of a group, or `MOST_WALKED` order statistics of each column; what is missing stays out."""
    n = values.shape[0]
    if n <= MOST_WALKED:
        return values
    ordered = np.sort(values, axis=0)  # NaN goes to the end
    dropna = np.sum(~np.isnan(ordered), axis=0)
    at = ((np.arange(MOST_WALKED) + 0.5)[:, np.newaxis] * dropna / MOST_WALKED).astype(np.intp)
    return np.asarray(np.take_along_axis(ordered, np.minimum(at, n - 1), axis=0))


def shifts(
    source: Source, columns: IntArray, labels: IntArray, *, error: float, bad_rows: int, missing: bool = False
) -> FloatArray:
    """Return rows: the Hodges–Lehmann shift (median difference), and the lower and upper end of its interval.

    [D_(l−s), D_(N+1−l+s)] of the N = n₁n₂ ordered differences, l the largest with P(U ≤ l − 1) ≤ error/2 and
    s = m·max(n₁, n₂); infinite where l − s < 1. The differences are never formed. With ``missing`` n₁ and n₂ are those
    of the values that are there; where a group has none nothing is known.
    """
    first, second = (np.flatnonzero(labels == g) for g in (0, 1))
    sizes = (first.size, second.size)
    critical = {sizes: mann_whitney(*sizes).critical(error)}
    if missing:
        critical = _own_critical(source, columns, (first, second), error)
    out = np.empty((3, columns.size))
    for k, values in enumerate(_each_column(source, columns)):
        a, b = np.sort(dropna(values[second])), np.sort(dropna(values[first]))
        N = a.size * b.size
        if N == 0:
            out[:, k] = np.nan, -np.inf, np.inf
            continue
        # by symmetry P(U ≤ l − 1) = P(U ≥ N − l + 1), so N − l + 1 is the critical value of U
        rank = N + 1 - critical[b.size, a.size] - bad_rows * max(a.size, b.size)
        out[0, k] = cpu.median_difference(a, b)
        ends = (cpu.ordered_difference(a, b, rank), cpu.ordered_difference(a, b, N + 1 - rank)) if rank >= 1 else None
        out[1:, k] = (-np.inf, np.inf) if ends is None else ends
    return out


def _own_critical(
    source: Source, columns: IntArray, groups: tuple[IntArray, ...], error: float
) -> dict[tuple[int, int], int]:
    """Return the critical values of U for the group sizes of every column."""
    pairs = set()
    for values in _each_column(source, columns):
        n0, n1 = (dropna(values[rows]).size for rows in groups)
        pairs.add((n0, n1))
    return {(ranks.n1, ranks.n2): ranks.critical(error) for ranks in mann_whitney_of([p for p in pairs if all(p)])}


def _each_column(source: Source, columns: IntArray) -> Iterator[FloatArray]:
    for _, values in source.takes_of(columns):
        yield from values.T
