"""Features without a mean that the corrupted rows pretend to have one."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray
from sparsemean.simulate.targets import how_many, off_support

__all__ = ["fake_support"]


def fake_support(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    n_features: int | None = None,
    shift: float = 10.0,
) -> FloatArray:
    """Add ``shift`` to a few coordinates outside the true support, the same ones in every corrupted row.

    Meant to get them selected, above all by methods that keep the k largest of something: with a fraction ε of the
    rows the ordinary mean of a fake feature is ε·shift. There are ``n_features`` of them, by default as many as true
    ones and at least one, drawn at random; fewer if there are not so many outside the support. Where every coordinate
    is in the support, they are drawn from it.
    """
    count = how_many(n_features, mean, argument="n_features")
    rows = X[corrupted]
    rows[:, off_support(mean, rng, count)] += shift
    return rows
