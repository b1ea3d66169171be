"""Rounds of the sparse filter: which rows are left when no tail is too heavy any more."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sparsemean.records import FloatArray, IntArray

TAU = 0.2
LEVEL = 0.1
"""Sorted tail probabilities are compared with this times their position."""
MOST = 0.6
"""No round may remove a larger share of rows."""


def filter_rows(X: FloatArray, contamination: float, k: int) -> tuple[IntArray, int]:
    """Return the rows that stay, and the number of rounds."""
    n, d = X.shape
    if contamination == 0 or n == 1:
        return np.arange(n), 0
    log = math.log(n * d / TAU)
    centred = X - np.median(X, axis=0)
    kept = np.flatnonzero(np.abs(centred).max(axis=1) < math.sqrt(2 * log))
    rounds = 0
    while kept.size > 1:
        stay = _stay(centred[kept], contamination, k, math.log(k * log))
        if stay is None:
            break
        kept, rounds = kept[stay], rounds + 1
    return kept, rounds


def _stay(X: FloatArray, epsilon: float, k: int, log: float) -> npt.NDArray[np.bool_] | None:
    """Return which rows stay; None if all do."""
    centred = X - X.mean(axis=0)
    M = centred.T @ centred / (X.shape[0] - 1)
    M.flat[:: M.shape[0] + 1] -= 1
    u, masked = largest_entries(M, k)
    norm = float(np.linalg.norm(masked))
    if norm < epsilon * math.log(1 / epsilon):
        return None
    stay = light(linear_tail(X[:, u], M[np.ix_(u, u)], epsilon, log))
    if stay is None:
        form = np.sum((centred @ masked) * centred, axis=1) - np.trace(masked)
        stay = light(quadratic_tail(np.abs(form) / norm, epsilon))
    return stay


def largest_entries(M: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Return the k largest diagonal entries, and M on them and on all above the (k²−k)-th largest other entry."""
    d = M.shape[0]
    u = np.argsort(-np.diag(M), kind="stable")[:k]
    kept = np.zeros((d, d), dtype=bool)
    if k > 1:
        upper = M[np.triu_indices(d, 1)]
        place = upper.size - (k * k - k) // 2
        kept = np.partition(upper, place)[place] < M
    kept[u, u] = True
    return u, np.where(kept, M, 0.0)


def linear_tail(X: FloatArray, M: FloatArray, epsilon: float, log: float) -> FloatArray | None:
    """Return erfc(x/√2) + ε²/(log x²), x the distance from the median along the top eigenvector less 3√(λε)."""
    from scipy.special import erfc

    values, vectors = np.linalg.eigh(M)
    top = 1 + float(values[-1])
    if top <= 1 + epsilon * math.sqrt(math.log(1 / epsilon)):
        return None
    along = X @ vectors[:, -1]
    x = np.abs(along - np.median(along)) - 3 * math.sqrt(top * epsilon)
    # Where x is not positive the tail is above one whatever the second term.
    x = np.maximum(x, np.finfo(np.float64).tiny ** 0.25)
    return np.asarray(erfc(x / math.sqrt(2)) + epsilon**2 / (log * x**2))


def quadratic_tail(x: FloatArray, epsilon: float) -> FloatArray:
    """Return 2 exp(−(x + 1 − √(1+2x))/2) + ε²/(2x ln²x); up to x = 2 it is above one."""
    x = np.maximum(x, 2.0)
    return np.asarray(2 * np.exp(-(x + 1 - np.sqrt(1 + 2 * x)) / 2) + epsilon**2 / (2 * x * np.log(x) ** 2))


def light(tail: FloatArray | None) -> npt.NDArray[np.bool_] | None:
    """Return which rows stay: those above the last sorted p_(i) ≤ 0.1·i/l; None where none or too many would go."""
    if tail is None:
        return None
    ascending = np.sort(np.minimum(tail, 1.0))
    n = ascending.size
    below = np.flatnonzero(ascending <= LEVEL * np.arange(n) / n)
    if not below.size or below[-1] + 1 > MOST * n:
        return None
    return np.asarray(tail > ascending[below[-1]])
