"""The two walks of Fig 1 through one data set, fast: subgradient steps on u² − v² and on the mean itself."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from sparsemean import path
from sparsemean.partition import deal_paper
from sparsemean.records import FloatArray, IntArray


def means_of(X: FloatArray, n_buckets: int, *, seed: int, columns: IntArray) -> FloatArray:
    """Return the (J, columns) means of the paper's buckets."""
    from sparsemean.kernels import cpu

    return cpu.bucket_means(X, deal_paper(X.shape[0], n_buckets, seed), columns=columns)


def nonconvex(means: FloatArray, n_iter: int, *, alpha: float, eta: float) -> FloatArray:
    """Return |u² − v²| after steps 1 … ``n_iter``, a row for each step."""
    return np.abs(path.walk(means, alpha=alpha, eta=eta, times=range(1, n_iter + 1)))


def convex(means: FloatArray, n_iter: int, *, eta: float, start: float = 0.0) -> FloatArray:
    """Return |μ| after steps 1 … ``n_iter`` of μ ← μ + ηβ(μ), a row for each step.

    The same numbers as `kernels.reference.convex_subgradient`, to the last bit: β is read off the sorted bucket means.
    """
    walks = [_convex_walk(sorted(column), n_iter, eta, start) for column in means.T.tolist()]
    return np.abs(np.array(walks, dtype=np.float64).T)


def _convex_walk(ordered: list[float], n_iter: int, eta: float, start: float) -> list[float]:
    J, mu, walk = len(ordered), start, []
    for _ in range(n_iter):
        net = J - bisect_right(ordered, mu) - bisect_left(ordered, mu)
        mu = mu + eta * net / J
        walk.append(mu)
    return walk
