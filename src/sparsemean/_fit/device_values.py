"""Values, intervals and symmetry of selected features where they lie on a device: a few numbers of each are copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.gpu import DeviceArray, counted_there
from sparsemean._data.source import TAKEN_AT_ONCE
from sparsemean._evidence import signs
from sparsemean._fit.data import FitData
from sparsemean._kernels import gpu, rounding
from sparsemean._kernels.gpu_blocks import Columns
from sparsemean._kernels.memory_layout import cut
from sparsemean._stats import assumptions
from sparsemean._stats.signed_ranks import REPEAT_SHARE
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray

SORTED_AT_ONCE = TAKEN_AT_ONCE
"""Values that are sorted together."""


def values_there(data: FitData, features: IntArray, best: IntArray, *, error: float) -> FloatArray | None:
    """Return value, both ends of the interval, and whether zeros are too many for these, of some features: four rows.

    They are what `inference._support_values` makes of bucket means, bit for bit where the finest buckets have one row
    or two: of more, sums are taken row by row here, as the specification has it. None where that is not done here: by
    ranks, of walks that end early, and where the data do not lie on a device as they are counted.
    """
    plan, source = data.plan, _there(data)
    if source is None or plan.question.test != "buckets" or plan.walk.estimate_at is not None:
        return None
    at_once = max(1, SORTED_AT_ONCE // plan.n_rows)
    parts = [
        _values(data, _columns(data, source, features[at]), best[at], error=error)
        for at in cut(features.size, at_once, 1)
    ]
    return np.concatenate(parts, axis=1)


def _values(data: FitData, columns: Columns, best: IntArray, *, error: float) -> FloatArray:
    xp, plan = gpu.cupy(), data.plan
    levels = columns.level_means(data.buckets.partition, data.buckets.partition.depth)
    used = data.buckets.partition.wanted
    share = error * 2 / plan.question.side.number / len(used)
    rows = [(levels[0] == 0).sum(axis=1).astype(np.float64)]
    for level in used:
        ordered, J = xp.sort(levels[level], axis=1), levels[level].shape[1]
        rank = max(1, signs.order_statistic(J, share) - plan.bad_rows)
        rows += [ordered[:, at] for at in (rank - 1, J - rank, (J - 1) // 2, J // 2)]
    zeros, *numbers = xp.stack(rows).get()
    found = np.stack(numbers).reshape(len(used), 4, best.size)
    low, high = _ends(found[:, :2], [levels[level].shape[1] for level in used], plan, share=share)
    value = np.mean(found[best, 2:, np.arange(best.size)], axis=1)
    many = (REPEAT_SHARE * zeros >= levels[0].shape[1]) & (plan.min_effect == 0) & (plan.walk.dealing == "blocks")
    return np.vstack((value, low, high, many))


def _ends(each: FloatArray, buckets: list[int], plan: Plan, *, share: float) -> FloatArray:
    """Return the intersection of the intervals of all sizes, infinite where a size has too few buckets for one."""
    for ends, J in zip(each, buckets, strict=True):
        if signs.order_statistic(J, share) - plan.bad_rows < 1:
            ends[0], ends[1] = -np.inf, np.inf
    return np.stack(plan.question.side.interval(*signs.common(each)))


def skew_flags_there(data: FitData, kept: IntArray, features: IntArray) -> npt.NDArray[np.intp] | None:
    """Return what `symmetry.skew_flags` says of features by the rows ``kept``; None where that is not done here."""
    source = _there(data)
    if source is None or data.units is not None or (data.nonzero is not None and data.nonzero.size):
        return None
    if not features.size:
        return np.empty(0, dtype=np.intp)
    rows, size = assumptions.dealt_rows(kept.size)
    h = _columns(data, source, features).skewness(kept[rows], size).get()
    return assumptions.flags_of(assumptions.p_of_groups(h), np.full(features.size, kept.size))


def columns_there(data: FitData, features: IntArray, about: FloatArray | None = None) -> Any:
    """Return `FitData.rows_of` some features on the device; None if they do not lie there, or something is missing."""
    source = _there(data)
    if source is None or data.units is not None or (data.nonzero is not None and data.nonzero.size):
        return None
    xp = gpu.cupy()
    values = source.plain(source.values[:, xp.asarray(features)]).astype(np.float64)
    if data.buckets.null is not None:
        values = rounding.centred(values, xp.asarray(data.buckets.null[features]), data.buckets.precision, xp)
    return values if about is None else values - xp.asarray(about)


def _there(data: FitData) -> DeviceArray | None:
    """Return the array on a device whose columns can be looked at as they are, without gaps; None if there is none."""
    return None if data.buckets.skip_missing else counted_there(data.table.source)


def _columns(data: FitData, source: DeviceArray, features: IntArray) -> Columns:
    return Columns(
        source.values, source.kind, features, None if data.buckets.null is None else data.buckets.null[features]
    )
