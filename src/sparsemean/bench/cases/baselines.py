"""The compared methods of the paper against their plain NumPy transcriptions, with the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from sparsemean import baselines
from sparsemean.bench import plain_baselines, wording
from sparsemean.bench.row import Row, at_least
from sparsemean.bench.timing import best_times
from sparsemean.records import FloatArray
from sparsemean.simulate import make_contaminated

SHAPE = {False: (600, 300), True: (600, 60)}
EPSILON, K = 0.1, 4
MEAN = (10.0, -5.0, -4.0, 2.0)
BAR = at_least(5)
REPEATS = {"dense_gd": 0.5, "sparse_gd": 3, "sparse_filter": 40}
"""Times ``repeat``: the plain sides take a second, a tenth and a hundredth of one, and short times need more tries."""


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield how many times faster each method is, on one thread."""
    from threadpoolctl import threadpool_limits

    X = make_contaminated(*SHAPE[quick], MEAN, random_state=0).X
    with threadpool_limits(1), np.errstate(divide="ignore", invalid="ignore"):
        for name in REPEATS:
            plain_side, fast_side = partial(plain, name, X), partial(fast, name, X)
            np.testing.assert_allclose(fast_side(), plain_side(), rtol=1e-6, atol=1e-9)
            slow, quickly = best_times(plain_side, fast_side, repeat=max(1, int(REPEATS[name] * repeat)))
            yield Row(
                name=f"plain NumPy / {name}, {wording.shape(X)}",
                value=slow / quickly,
                unit="×",
                bar=None if quick else BAR,
                detail=wording.against(slow, quickly),
            )


def plain(name: str, X: FloatArray) -> FloatArray:
    """Run the transcription and keep the k largest entries where the method is told k."""
    if name == "dense_gd":
        return plain_baselines.dense_gd(X, EPSILON)
    mean: FloatArray = getattr(plain_baselines, name)(X, EPSILON, K)
    mean[np.argsort(-np.abs(mean), kind="stable")[K:]] = 0
    return mean


def fast(name: str, X: FloatArray) -> FloatArray:
    """Run the method."""
    return baselines.get(name)(X, contamination=EPSILON, k=None if name == "dense_gd" else K, random_state=0)
