"""Which features hold one value only: a fit takes them off the support, and counts alone do not tell.

The signs leave few candidates, the first block of rows fewer still; only what is left is looked at whole.
"""

from __future__ import annotations

import numpy as np

from sparsemean.records import BLOCK, Counts, FloatArray, IntArray, Same
from sparsemean.sources.source import AT_ONCE, Source, as_dense, runs


def same_in(source: Source, counts: Counts) -> Same:
    """Return the features that hold one value, not the null value, in all rows of a source that ``counts`` are of."""
    candidates = _all_on_one_side(counts)
    if candidates.size:
        candidates = _same_at_first(source, candidates)
    features, values = [np.empty(0, dtype=np.intp)], [np.empty(0)]
    for columns, rows in source.takes_of(candidates) if candidates.size else ():
        low = np.fmin.reduce(rows)
        same = low == np.fmax.reduce(rows)
        features.append(columns[same])
        values.append(low[same])
    return Same(np.concatenate(features), np.concatenate(values))


def same_in_both(first: Same, first_counts: Counts, second: Same, second_counts: Counts) -> Same:
    """Return the features that hold one value in both, or in one where the other has no value at all.

    Examples
    --------
    >>> five, six = Same(np.array([1, 4]), np.array([5.0, 5.0])), Same(np.array([1, 4]), np.array([5.0, 6.0]))
    >>> some = Counts(*np.ones((2, 1, 9), dtype=np.int32), np.ones(9), (2,))
    >>> same_in_both(five, some, six, some).features
    array([1])
    """
    both = np.union1d(first.features, second.features)
    if not both.size:
        return Same()
    (a, a_fits), (b, b_fits) = _of(first, first_counts, both), _of(second, second_counts, both)
    fits = a_fits & b_fits & ((a == b) | np.isnan(a) | np.isnan(b))
    return Same(both[fits], np.where(np.isnan(a), b, a)[fits])


def resting_on_many(same: Same, counts: Counts, n_rows: int) -> Same:
    """Return the same less features with fewer than 64 values among ``n_rows``, whose value is nearly a row's."""
    missing = 0 if counts.missing is None else counts.missing[same.features]
    many = np.broadcast_to(n_rows - missing >= BLOCK, same.features.shape)
    return Same(same.features[many], same.values[many])


def _of(
    same: Same, counts: Counts, features: IntArray
) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the value of ``features``, NaN where there is no one value, and whether it is one or there is none yet."""
    values = np.full(features.size, np.nan)
    values[np.searchsorted(features, same.features)] = same.values
    return values, ~np.isnan(values) | (np.broadcast_to(counts.buckets(0, features), features.shape) == 0)


def _all_on_one_side(counts: Counts) -> IntArray:
    buckets = counts.buckets(0)
    one_side = (counts.positive[0] == buckets) | (counts.negative[0] == buckets)
    return np.flatnonzero(one_side & (np.asarray(buckets) > 0))


def _same_at_first(source: Source, columns: IntArray) -> IntArray:
    """Return which of ``columns`` hold one value, or none, in the first rows."""
    n, d = source.shape
    rows = slice(0, min(BLOCK, n))
    width = max(1, int(AT_ONCE / (rows.stop * source.bytes_a_value)))
    kept = []
    for read, at, wanted in runs(columns, BLOCK if source.along == "columns" else d, width):
        values = as_dense(source.block(rows, read))[:, wanted]
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        kept.append(columns[at][(low == high) | (low != low)])
    return np.concatenate(kept)
