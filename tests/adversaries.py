"""Adversaries for the tests of validity: they replace rows of X in place and may know everything."""

from __future__ import annotations

import numpy as np

from sparsemean.evidence import contrast_bases, contrast_sizes, of_contrasts, of_signs
from sparsemean.kernels import cpu
from sparsemean.partition import deal_blocks
from sparsemean.selection import p_at

FAR = 1e6
KINDS = ("none", "constant bias", "far rows", "adaptive")


def attack(X: np.ndarray, kind: str, m: int, *, seed: int, skewed: bool = False) -> None:
    """Replace ``m`` rows of ``X``; the adaptive adversary knows whether the fit allows for skewed noise."""
    if m == 0 or kind == "none":
        return
    if kind == "constant bias":
        X[-m:] -= 2.0
    elif kind == "far rows":
        X[-m:] = FAR
    else:
        adaptive(X, m, seed=seed, skewed=skewed)


def adaptive(X: np.ndarray, m: int, *, seed: int, skewed: bool) -> None:
    """Know method and seed: spend all rows on the feature nearest to selection, at the size that shows it best.

    In each of m buckets that vote against the majority one row is sent so far that its bucket changes sides. Against
    contrasts, which are moved most by their large buckets, those are the ones to turn.
    """
    sizes = contrast_sizes(contrast_bases(m)) if skewed else (1, 2, 4)
    partition = deal_blocks(X.shape[0], sizes, seed)
    counts = cpu.count_signs(X, partition)
    evidence = of_contrasts(counts, sizes, contrast_bases(m)) if skewed else of_signs(counts, sizes)
    p = p_at(evidence, np.array([0]))[..., 0]
    index, feature = np.unravel_index(p.argmin(), p.shape)
    size = sizes.index((4 if skewed else 1) * evidence.labels[index])
    net = counts.positive[size, feature] - counts.negative[size, feature]
    side = 1.0 if net >= 0 else -1.0
    means = cpu.bucket_means(X, partition, level=partition.wanted[size], columns=np.array([feature]))[:, 0]
    bucket = partition.bucket_of_row // (sizes[size] // min(sizes))
    against = np.unique(bucket)[np.argsort(side * means, kind="stable")[:m]]
    rows = [int(np.flatnonzero(bucket == name)[0]) for name in against]
    X[rows, feature] = side * 1e12
