"""From counts to evidence: the same few numbers read as a sign test or as contrasts that cancel skewness."""

from __future__ import annotations

import numpy as np

from sparsemean.device import namespace, on_host
from sparsemean.nulls import FairSigns, Gaussian
from sparsemean.records import Counts, Evidence, Null

SKEW_BIAS = {1: 0.07, 2: 0.053, 4: 0.042, 8: 0.0}
"""b₀: bounds what is left of the mean of a contrast when the skewness has cancelled. An assumption, not a theorem; it
covers centred lognormal (σ = 0.954), exponential, one-sided Fisk and Pareto (shape 3.1)."""
MOST_SKEWED = 2500
"""Units beyond which contrasts are refused. What is left of skewness at B = 8, where b₀ is 0, is a mean of −.0315 for
Pareto's noise of shape 3.1 (−.0249 Fisk, −.0153 lognormal): among n rows .0315·√(n/32)/√(13/16) deviations. Up to 2500
rows that is less than what 13/16 leaves over a true variance of .73, for any number of features; at 10,000 rows of 100
features the family-wise error is .13 at a level of .05, at 100,000 about five of them are selected."""
MOST_EQUAL = 0.25
"""Share of the rows that may have one and the same value. Below it the level was kept by every discrete noise tried at
the most rows allowed; with 70 % equal values it is not, with 90 % and more every p-value is small."""
CONTRAST_VARIANCE = 13 / 16
"""Bounds Var D for every noise tried; estimating it would let an adversary shrink it."""


def of_signs(counts: Counts, sizes: tuple[int, ...]) -> Evidence:
    """Return max(N₊, N₋) with its binomial null, for every size; one row can move one bucket."""
    nonzero = counts.positive + counts.negative
    fewest = on_host(nonzero.min(axis=1)).tolist()
    return Evidence(
        statistic=namespace(nonzero).maximum(counts.positive, counts.negative),
        nulls=tuple(map(FairSigns, nonzero, zip(fewest, counts.n_buckets, strict=True))),
        moves=(1.0,) * len(sizes),
        labels=sizes,
    )


def of_contrasts(counts: Counts, sizes: tuple[int, ...], bases: tuple[int, ...]) -> Evidence:
    """Return |ΣD| for every base size B, D = sign(sum of 4B rows) − ½·mean sign of its four quarters.

    Skewness shifts the signs of B rows by −γ/(6√B) and those of 4B rows by half as much, so D is free of it while a
    mean stays. One replaced row moves D by at most 2. ΣD is (N₊ − N₋ of 4B) − (N₊ − N₋ of B)/8, but in a group that
    is not full, where skewness stays: one fit has at most one such group, and whoever deals rows otherwise asks
    `partition.cut_blocks` first.
    """
    net = counts.positive.astype(np.float64) - counts.negative
    statistic, nulls = [], list[Null]()
    for base in bases:
        small, large = sizes.index(base), sizes.index(4 * base)
        groups = counts.n_buckets[large]
        statistic.append(abs(net[large] - net[small] / 8))
        nulls.append(Gaussian(bias=groups * SKEW_BIAS[base], sd=float(np.sqrt(CONTRAST_VARIANCE * groups))))
    return Evidence(namespace(net).stack(statistic), tuple(nulls), (2.0,) * len(bases), bases)


def contrast_bases(bad_rows: int) -> tuple[int, ...]:
    """Return the base sizes of the contrasts: without bad rows one large base needs no allowance for the rest."""
    return (8,) if bad_rows == 0 else (1, 2, 4)


def contrast_sizes(bases: tuple[int, ...]) -> tuple[int, ...]:
    """Return the bucket sizes that contrasts of ``bases`` are made of."""
    return tuple(sorted({*bases, *(4 * base for base in bases)}))
