"""What ties cost a comparison of groups: by public names alone, so that `make against` runs it with older code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.timing import FloatMatrix, Row, best_times
from sparsemean._util.records import IntArray

ROWS = {False: 400, True: 200}
FEATURES = {False: 5000, True: 500}
MANY_ROWS, N_SIGNALS, N_LABELS = 5, 50, 5
"""Times as many rows, and a fifth of the features, with several labels."""
Draw = Callable[[np.random.Generator, FloatMatrix, tuple[int, int]], FloatMatrix]
MORE = 0.3
"""More of what a value is likely to be in one group, in features that differ."""
SHAPES: dict[str, Draw] = {
    "continuous": lambda rng, more, shape: rng.normal(3 * more, 1.0, shape),
    "ratings": lambda rng, more, shape: 1.0 + rng.binomial(4, 0.5 + 0.7 * more, shape),
    "counts": lambda rng, more, shape: rng.poisson(1.0 + 2 * more, shape).astype(np.float64),
    "sparse": lambda rng, more, shape: (rng.random(shape) < 0.2 + more) * rng.exponential(1.0, shape),
}


def ties(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the processor time of fits of values of several kinds, and of sparse ones in which nothing differs."""
    n, d = ROWS[quick], FEATURES[quick]
    for kind, draw in SHAPES.items():
        labels = np.arange(n) % 2
        more = MORE * np.outer(labels, np.arange(d) < N_SIGNALS)
        yield _fitted(f"{kind}, two groups", draw(np.random.default_rng(0), more, (n, d)), labels, None, repeat)
    n, d, rng = MANY_ROWS * n, d // MANY_ROWS, np.random.default_rng(1)
    X = (rng.random((n, d)) < 0.1) * rng.exponential(1.0, (n, d))
    kind = f"sparse, {N_LABELS} labels against the rest, nothing differs"
    yield _fitted(kind, X, rng.integers(0, N_LABELS, n), "rest", repeat)


def _fitted(kind: str, X: FloatMatrix, labels: IntArray, reference: str | None, repeat: int) -> Row:
    from sparsemean import SparseMeanDifference

    estimator = SparseMeanDifference(reference=reference, n_jobs=1)
    estimator.fit(X, labels)
    (taken,) = best_times(lambda: estimator.fit(X, labels), repeat=repeat, clock=time.process_time)
    return Row(f"fit of {kind}, {timing.shape(X)}, processor time", 1e3 * taken, "ms")
