"""The descents and the filter in plain NumPy, line by line as published: what the fast ones must agree with.

Each takes finite rows, an ε above zero and, where the method needs it, k, and returns the mean before it is cut to its
k largest entries. Nothing here guards against degenerate rows; the methods do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from sparsemean import baselines
from sparsemean._cli.benchmarks import timing
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.simulate import make_contaminated

TAU = 0.2


def project(v: FloatArray, cap: float) -> FloatArray:
    """Return the nearest point of {0 ≤ w ≤ cap, Σw = 1}: clip(v − θ, 0, cap), θ where its sum, a broken line, is 1."""
    kinks = np.concatenate([v - cap, v])
    order = np.argsort(kinks)
    kinks = kinks[order]
    between = np.cumsum(np.where(order < v.size, 1, -1))
    lost = np.concatenate([[0.0], np.cumsum(between[:-1] * np.diff(kinks))])
    theta = np.interp(v.size * cap - 1, lost, kinks)
    return np.asarray(np.clip(v - theta, 0, cap))


def covariance(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return Σ w_i (x_i − x̄)(x_i − x̄)ᵀ with x̄ = Σ w_i x_i."""
    centred = X - w @ X
    return centred.T @ (w[:, None] * centred)


def dense_gd(X: FloatArray, contamination: float, n_iter: int = 100) -> FloatArray:
    """Move weights down the gradient of the top eigenvalue of the weighted covariance."""
    m = X.shape[0]
    cap, step = 1 / (m - round(contamination * m)), 1 / m
    w = np.full(m, 1 / m)
    values, vectors = np.linalg.eigh(covariance(X, w))
    for _ in range(n_iter):
        along = X @ vectors[:, -1]
        g = along**2 - 2 * (w @ along) * along
        moved = project(w - step * g / np.linalg.norm(g), cap)
        moved_values, moved_vectors = np.linalg.eigh(covariance(X, moved))
        if moved_values[-1] < values[-1]:
            w, values, vectors, step = moved, moved_values, moved_vectors, 2 * step
        else:
            step /= 4
    return w @ X


def sparse_gd(X: FloatArray, contamination: float, k: int, n_iter: int = 200) -> FloatArray:
    """Move weights down the gradient of the F,k,k-norm of the weighted covariance less the identity."""
    m = X.shape[0]
    cap, step = 1 / (m - round(contamination * m)), 1 / m
    w = np.full(m, 1 / m)
    value, Z = largest_block(covariance(X, w), k)
    for _ in range(n_iter):
        mean = w @ X
        g = (np.sum((X @ Z) * X, axis=1) - X @ (Z @ mean) - X @ (Z.T @ mean)) / np.linalg.norm(Z)
        moved = project(w - step * g / np.linalg.norm(g), cap)
        moved_value, moved_Z = largest_block(covariance(X, moved), k)
        if moved_value < value:
            fall = 1 - moved_value / value
            w, value, Z, step = moved, moved_value, moved_Z, 2 * step
            if fall < 0.01:
                break
        else:
            step /= 4
    return w @ X


def largest_block(sigma: FloatArray, k: int) -> tuple[float, FloatArray]:
    """Return the squared F,k,k-norm of Σ − I and the matrix masked to the entries that make it."""
    M = sigma - np.identity(sigma.shape[0])
    scores = np.sum(np.sort(M, axis=1)[:, -k:] ** 2, axis=1)
    rows = np.argsort(-scores, kind="stable")[:k]
    Z = np.zeros_like(M)
    for row in rows:
        columns = np.argsort(-M[row], kind="stable")[:k]
        Z[row, columns] = M[row, columns]
    return float(scores[rows].sum()), Z


def sparse_filter(X: FloatArray, contamination: float, k: int) -> FloatArray:
    """Remove rows with a tail too heavy along the largest k×k part of the covariance, until there are none."""
    m, d = X.shape
    log = math.log(m * d / TAU)
    X = X[np.abs(X - np.median(X, axis=0)).max(axis=1) < math.sqrt(2 * log)]
    while len(X) > 1:
        M = np.cov(X, rowvar=False).reshape(d, d) - np.identity(d)
        u = np.argsort(-np.diag(M), kind="stable")[:k]
        masked = np.where(mask(M, u), M, 0.0)
        if np.linalg.norm(masked) < contamination * math.log(1 / contamination):
            return np.asarray(X.mean(axis=0))
        heavy = linear_filter(X[:, u], M[np.ix_(u, u)] + np.identity(k), contamination, math.log(k * log))
        if not heavy.size:
            heavy = quadratic_filter(X - X.mean(axis=0), masked, contamination)
        if not heavy.size:
            return np.asarray(X.mean(axis=0))
        X = np.delete(X, heavy, axis=0)
    return np.zeros(d)


def mask(M: FloatArray, u: IntArray) -> FloatArray:
    """Return where the largest diagonal entries and everything above the (k²−k)-th largest other entry stand."""
    k, d = len(u), len(M)
    kept = np.zeros_like(M)
    if k > 1:
        others = np.sort(M[~np.identity(d, dtype=bool)])[::-1]
        kept[others[k * k - k - 1] < M] = 1
    kept[u, u] = 1
    return kept


def linear_filter(X: FloatArray, sigma: FloatArray, epsilon: float, log: float) -> IntArray:
    """Return the rows that lie too far from the median along the top eigenvector."""
    from scipy.special import erfc

    values, vectors = np.linalg.eigh(sigma)
    if values[-1] <= 1 + epsilon * math.sqrt(math.log(1 / epsilon)):
        return np.empty(0, dtype=np.intp)
    along = X @ vectors[:, -1]
    x = np.abs(along - np.median(along)) - 3 * math.sqrt(values[-1] * epsilon)
    return heaviest(erfc(x / math.sqrt(2)) + epsilon**2 / (log * x**2))


def quadratic_filter(centred: FloatArray, masked: FloatArray, epsilon: float) -> IntArray:
    """Return the rows whose quadratic form in the masked matrix is too large."""
    form = np.sum((centred @ masked) * centred, axis=1) - np.trace(masked)
    x = np.abs(form) / np.linalg.norm(masked)
    return heaviest(2 * np.exp(-(x + 1 - np.sqrt(1 + 2 * x)) / 2) + epsilon**2 / (2 * x * np.log(x) ** 2))


def heaviest(tail: FloatArray) -> IntArray:
    """Return the rows up to the last sorted p with p ≤ 0.1·position/l, none if these were over 60 %."""
    p = np.minimum(tail, 1)
    order, l = np.argsort(p), len(p)  # noqa: E741
    below = np.flatnonzero(p[order] <= 0.1 * np.arange(l) / l)
    if not below.size or below[-1] + 1 > 0.6 * l:
        return order[:0]
    return order[: below[-1] + 1]


# The compared methods of the paper against their plain NumPy transcriptions, with the same answer.

SHAPE = (600, 300)
EPSILON, K = 0.1, 4
MEAN = (10.0, -5.0, -4.0, 2.0)
BAR = timing.at_least(5)
REPEATS = {"dense_gd": 0.5, "sparse_gd": 3, "sparse_filter": 40}
"""Times ``repeat``: the plain sides take a second, a tenth and a hundredth of one, and short times need more tries."""


def ratios(repeat: int) -> Iterator[timing.Row]:
    """Yield how many times faster each method is, on one thread."""
    from threadpoolctl import threadpool_limits

    X = make_contaminated(*SHAPE, MEAN, random_state=0).X
    with threadpool_limits(1), np.errstate(divide="ignore", invalid="ignore"):
        for name in REPEATS:
            plain_side, fast_side = partial(transcribed, name, X), partial(packaged, name, X)
            np.testing.assert_allclose(fast_side(), plain_side(), rtol=1e-6, atol=1e-9)
            slow, quickly = timing.best_times(plain_side, fast_side, repeat=max(1, int(REPEATS[name] * repeat)))
            yield timing.Row(
                name=f"plain NumPy / {name}, {timing.shape(X)}",
                value=slow / quickly,
                unit="×",
                bar=BAR,
                detail=timing.against(slow, quickly),
            )


def transcribed(name: str, X: FloatArray) -> FloatArray:
    """Run the transcription and keep the k largest entries where the method is told k."""
    if name == "dense_gd":
        return dense_gd(X, EPSILON)
    mean: FloatArray = globals()[name](X, EPSILON, K)
    mean[np.argsort(-np.abs(mean), kind="stable")[K:]] = 0
    return mean


def packaged(name: str, X: FloatArray) -> FloatArray:
    """Run the method."""
    return baselines.get(name)(X, contamination=EPSILON, k=None if name == "dense_gd" else K, random_state=0)


if __name__ == "__main__":
    from sparsemean._cli.commands import bench_line

    for row in ratios(repeat=7):
        print(bench_line(row))  # noqa: T201
