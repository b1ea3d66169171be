"""Values, intervals and symmetry of selected features where they lie on a device: a few numbers of each are copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.gpu import DeviceArray
from sparsemean._data.source import TAKEN_AT_ONCE, cut
from sparsemean._fit.data import FitData
from sparsemean._kernels import gpu
from sparsemean._kernels.gpu_columns import Columns
from sparsemean._stats import intervals, symmetry
from sparsemean._stats.signed_ranks import REPEAT_SHARE
from sparsemean._util.records import FloatArray, IntArray, Plan

SORTED_AT_ONCE = TAKEN_AT_ONCE
"""Values that are sorted together."""


def lies_there(data: FitData) -> bool:
    """Say whether columns can be looked at on a device as they are: no gaps, and a kind that is counted there."""
    source = data.table.source
    return isinstance(source, DeviceArray) and source.kind in gpu.KINDS and not data.buckets.skip_missing


def values_there(data: FitData, features: IntArray, best: IntArray, *, error: float) -> FloatArray | None:
    """Return value, both ends of the interval, and whether zeros are too many for these, of some features: four rows.

    They are what `inference._support_values` makes of bucket means, bit for bit where the finest buckets have one row or
    two: of more, sums are taken row by row here, as the specification has it. None where that is not done here: by
    ranks, of walks that end early, and where the data do not lie on a device as they are counted.
    """
    plan = data.plan
    if not lies_there(data) or plan.test != "buckets" or plan.estimate_at is not None:
        return None
    at_once = max(1, SORTED_AT_ONCE // plan.n_rows)
    parts = [_values(data, features[at], best[at], error=error) for at in cut(features.size, at_once, 1)]
    return np.concatenate(parts, axis=1)


def _values(data: FitData, features: IntArray, best: IntArray, *, error: float) -> FloatArray:
    xp, plan = gpu.cupy(), data.plan
    levels = _columns(data, features).level_means(data.buckets.partition, data.buckets.partition.depth)
    used = intervals.levels_used(plan)
    both = plan.alternative == "two-sided"
    share = (error if both else 2 * error) / len(used)
    rows = [(levels[0] == 0).sum(axis=1).astype(np.float64)]
    for level in used:
        ordered, J = xp.sort(levels[level], axis=1), levels[level].shape[1]
        rank = max(1, intervals.order_statistic(J, share) - plan.bad_rows)
        rows += [ordered[:, at] for at in (rank - 1, J - rank, (J - 1) // 2, J // 2)]
    zeros, *numbers = xp.stack(rows).get()
    found = np.stack(numbers).reshape(len(used), 4, features.size)
    low, high = _ends(found[:, :2], [levels[level].shape[1] for level in used], plan, share=share)
    value = np.mean(found[best, 2:, np.arange(features.size)], axis=1)
    many = (REPEAT_SHARE * zeros >= levels[0].shape[1]) & (plan.min_effect == 0) & (plan.dealing == "blocks")
    return np.vstack((value, low, high, many))


def _ends(each: FloatArray, buckets: list[int], plan: Plan, *, share: float) -> FloatArray:
    """Return the intersection of the intervals of all sizes, infinite where a size has too few buckets for one."""
    for ends, J in zip(each, buckets, strict=True):
        if intervals.order_statistic(J, share) - plan.bad_rows < 1:
            ends[0], ends[1] = -np.inf, np.inf
    ends = intervals.common(each)
    if plan.alternative != "two-sided":
        greater = plan.alternative == "greater"
        ends[int(greater)] = np.inf if greater else -np.inf
    return ends


def skew_flags_there(data: FitData, kept: IntArray, features: IntArray) -> npt.NDArray[np.intp] | None:
    """Return what `symmetry.skew_flags` says of features by the rows ``kept``; None where that is not done here."""
    if not lies_there(data) or data.units is not None or (data.nonzero is not None and data.nonzero.size):
        return None
    if not features.size:
        return np.empty(0, dtype=np.intp)
    rows, size = symmetry.dealt_rows(kept.size)
    h = _columns(data, features).skewness(kept[rows], size).get()
    return symmetry.flags_of(symmetry.p_of_groups(h), np.full(features.size, kept.size))


def columns_of(data: FitData, features: IntArray) -> Any:
    """Return `FitData.values` of some features: on the device, if that is where they lie and nothing is missing."""
    if not lies_there(data) or data.units is not None or (data.nonzero is not None and data.nonzero.size):
        return data.values(features)
    source, xp = data.table.source, gpu.cupy()
    assert isinstance(source, DeviceArray)
    values = source.plain(source.values[:, xp.asarray(features)]).astype(np.float64)
    return values if data.null is None else values - xp.asarray(data.null[features])


def _columns(data: FitData, features: IntArray) -> Columns:
    source = data.table.source
    assert isinstance(source, DeviceArray)
    return Columns(source.values, source.kind, features, None if data.null is None else data.null[features])
