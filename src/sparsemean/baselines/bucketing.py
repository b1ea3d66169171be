"""Means of random buckets for the compared methods that work on them."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.partition import deal_paper
from sparsemean.planning.fits import bad_rows
from sparsemean.randomness import draw_seed
from sparsemean.records import FloatArray

FAILURE = 0.05


def n_buckets(n: int, contamination: float) -> int:
    """Return J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ with δ = 0.05, kept between 2⌈εn⌉ + 1 and n // 2 as far as n allows.

    The proposition's J leaves a quarter of the buckets to corrupted rows. Few rows cannot fill so many: then every
    bucket holds at least two rows, unless corrupted rows could then spoil half of the buckets.

    Examples
    --------
    >>> [n_buckets(n, 0.1) for n in (10_000, 400, 1)], n_buckets(400, 0.4)
    ([4096, 200, 1], 321)
    """
    bad = bad_rows(n, contamination)
    wanted = 4 * bad + math.ceil(32 * math.log(1 / FAILURE))
    return min(max(min(wanted, n // 2), 2 * bad + 1), n)


def random_bucket_means(X: FloatArray, contamination: float, rng: np.random.Generator) -> FloatArray:
    """Deal a random permutation of the rows into `n_buckets` buckets as equal as possible and average each."""
    from sparsemean.kernels import cpu

    n = X.shape[0]
    return cpu.bucket_means(X, deal_paper(n, n_buckets(n, contamination), draw_seed(rng)))
