"""The estimators that studies compare, by the names of the paper; each sees a data set, what it is told, and a seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sparsemean import baselines
from sparsemean.bunch import Bunch
from sparsemean.errors import InputError
from sparsemean.fitting import sparse_mean
from sparsemean.planning.paper import PRESET, paper_buckets
from sparsemean.records import FloatArray, Located
from sparsemean.studies.oracle import OLD_GROUPS, oracle
from sparsemean.studies.settings import Setting

Method: TypeAlias = Callable[[Bunch, Setting, int], FloatArray]


def methods() -> list[str]:
    """List the estimators that a study may name: the paper's, the default, and every compared method."""
    return [*_NAMED, *baselines.names()]


def find(name: str) -> Method:
    """Return the estimator called ``name``."""
    if name in _NAMED:
        return _NAMED[name]
    if name in baselines.names():
        return partial(_baseline, name)
    raise InputError("estimators", f"be among {', '.join(methods())}", repr(name))


def _default(data: Bunch, setting: Setting, seed: int, **options: Any) -> FloatArray:
    return sparse_mean(data.X, contamination=setting.contamination, random_state=seed, n_jobs=1, **options).mean


def _paper(data: Bunch, setting: Setting, seed: int, **options: Any) -> FloatArray:
    return _default(data, setting, seed, **{**PRESET, **options})


def _old_paper(data: Bunch, setting: Setting, seed: int, **options: Any) -> FloatArray:
    """Run Algorithm 1 with 2⌈εn⌉ buckets and without a least number of features, as the t panel of Fig 2c did."""
    return _paper(data, setting, seed, n_buckets=_old_buckets(setting), min_selected=0, **options)


def _old_buckets(setting: Setting) -> int:
    return 2 * math.ceil(setting.contamination * setting.n)


def _baseline(name: str, data: Bunch, setting: Setting, seed: int) -> FloatArray:
    return baselines.get(name)(data.X, contamination=setting.contamination, k=setting.told_k, random_state=seed)


def _bucketed_filter(data: Bunch, setting: Setting, seed: int) -> FloatArray:
    """Run the sparse filter on bucket means, told the share of buckets that bad rows may spoil."""
    return _filtered(data.X, setting, paper_buckets(setting.n, setting.contamination), seed, setting.told_k)


def _old_full_filter(data: Bunch, setting: Setting, seed: int) -> FloatArray:
    """Run the filter on the selected columns of the old Stage 1's own bucket means."""
    mean = _old_paper(data, setting, seed)
    support = np.flatnonzero(mean)
    if support.size:
        J = _old_buckets(setting)
        mean[support] = _filtered(data.X[:, support], setting, J, seed, support.size)
    return mean


def _filtered(X: FloatArray, setting: Setting, n_buckets: int, seed: int, k: int) -> FloatArray:
    """Filter bucket means as published, also where half of the buckets or more may be bad, which fits refuse.

    At ε = 0.1 that is so from n = 3000 rows on, and for the old number of buckets always.
    """
    from sparsemean.baselines.filtering import filter_rows
    from sparsemean.kernels import cpu
    from sparsemean.partition import deal_paper

    share = math.ceil(setting.contamination * setting.n) / n_buckets
    means = cpu.bucket_means(np.ascontiguousarray(X), deal_paper(setting.n, n_buckets, seed))
    kept, _ = filter_rows(means, share, k)
    mean = means[kept].mean(axis=0) if kept.size > 1 else np.zeros(X.shape[1])
    return Located(mean).cut(k).mean


def _oracle(data: Bunch, _setting: Setting, _seed: int, **options: Any) -> FloatArray:
    return oracle(data, max(1, int(np.count_nonzero(data.mean))), **options)


_NAMED: dict[str, Method] = {
    "default": _default,
    "stage_1": _paper,
    "stage_1_plain": partial(_paper, min_selected=0),
    "full_GD": partial(_paper, refine="gd"),
    "full_sparse_GD": partial(_paper, refine="sparse_gd"),
    "full_filter": partial(_paper, refine="filter"),
    "full_filter_buckets": partial(_paper, refine="filter", refine_on="buckets"),
    "sparse_GD": partial(_baseline, "sparse_gd"),
    "sparse_filter_buckets": _bucketed_filter,
    "oracle": _oracle,
    "old_stage_1": _old_paper,
    "old_full_filter_buckets": _old_full_filter,
    "old_oracle": partial(_oracle, groups=OLD_GROUPS),
}
