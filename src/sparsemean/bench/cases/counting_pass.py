"""Sign counts of nested buckets of 1, 2 and 4 rows against ``X.mean(axis=0)``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import shapes, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times
from sparsemean.partition import deal_blocks

SIZES = (1, 2, 4)
BARS = {"float64": 0.6, "float32": 0.85}


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision."""
    for X, factor in shapes.matrices(quick):
        dtype = str(X.dtype)
        subjects.warm(dtype)
        partition = deal_blocks(X.shape[0], SIZES, 0)
        count, mean = best_times(
            partial(subjects.counting_pass, X, partition),
            partial(X.mean, axis=0),
            repeat=repeat,
        )
        yield Row(
            name=f"counting pass, sizes 1, 2, 4 / X.mean(axis=0), {wording.shape(X)}",
            value=count / mean,
            unit="×",
            bar=shapes.scaled(BARS[dtype], factor),
            detail=f"{wording.against(count, mean)}, {wording.rate(X, count)}",
        )
