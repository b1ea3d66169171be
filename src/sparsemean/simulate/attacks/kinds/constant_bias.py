"""The attack of the paper's experiments: every corrupted row is moved by the same constant."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray

__all__ = ["constant_bias"]


def constant_bias(
    X: FloatArray,
    _mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    bias: float = -2.0,
) -> FloatArray:
    """Add ``bias`` to every coordinate of the corrupted rows: x → x + bias·(1, …, 1).

    A corrupted row keeps its own noise, so it looks plausible in each coordinate; only the common shift of
    all coordinates tells. The paper uses −2 in every figure but the first.
    """
    return X[corrupted] + bias
