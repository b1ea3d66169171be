"""Random problems that go through every corner of the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LAYOUTS = ("C", "F", "strided", "reversed", "columns of a wider array", "read-only")
VALUES = ("normal", "heavy", "ties", "zeros", "small units", "signal")
TYPES = ("float64", "float32", "int64", "int8", "float16", ">f8", "bool")
FOR_FEW_FEATURES = {"sparse_directions", "sparse_sos"}
"""Compared methods that refuse what would take them too long."""


@dataclass(frozen=True)
class Problem:
    X: npt.NDArray[np.generic]
    n_buckets: int
    sizes: tuple[int, ...]
    seed: int


def _values(rng: np.random.Generator, kind: str, n: int, d: int) -> npt.NDArray[np.float64]:
    X = rng.standard_normal((n, d))
    match kind:
        case "heavy":
            X = rng.standard_t(1.3, (n, d))
        case "ties":
            X = np.round(X)
        case "zeros":
            X[rng.random((n, d)) < 0.6] = 0.0
        case "small units":
            X *= 10.0 ** rng.integers(-9, 3, d)
        case "signal":
            X += np.where(rng.random(d) < 0.3, rng.choice([-2.0, 2.0, 30.0], d), 0.0)
    return X


def laid_out(X: npt.NDArray[np.generic], layout: str) -> npt.NDArray[np.generic]:
    """The same values somewhere else in memory."""
    n, d = X.shape
    match layout:
        case "F":
            return np.asfortranarray(X)
        case "strided":
            wide = np.zeros((2 * n, 3 * d), dtype=X.dtype)
            wide[::2, ::3] = X
            return wide[::2, ::3]
        case "reversed":
            return X[::-1, ::-1].copy()[::-1, ::-1]
        case "columns of a wider array":
            wide = np.zeros((n, d + 5), dtype=X.dtype)
            wide[:, 2 : 2 + d] = X
            return wide[:, 2 : 2 + d]
        case "read-only":
            X.flags.writeable = False
    return X


def draw(seed: int) -> Problem:
    """Problem number ``seed``: odd and even J, n not divisible by J, every layout, type and kind of values."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 260)), int(rng.integers(1, 40))
    X: npt.NDArray[np.generic] = _values(rng, str(rng.choice(VALUES)), n, d)
    kind = str(rng.choice(TYPES, p=(0.4, 0.3, 0.08, 0.06, 0.06, 0.05, 0.05)))
    if kind in ("int64", "int8"):
        X = np.clip(X, -100, 100)
    with np.errstate(over="ignore"):
        X = np.clip(X, -6e4, 6e4).astype(kind) if kind == "float16" else X.astype(kind)
    sizes = tuple(sorted({int(2**h) for h in rng.integers(0, 7, 3)}))
    return Problem(laid_out(X, str(rng.choice(LAYOUTS))), int(rng.integers(1, n + 1)), sizes, seed)
