"""The counting pass for nested buckets of 1, 2 and 4 rows against ``X.mean(axis=0)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sparsemean.bench import against_mean, subjects
from sparsemean.bench.data import FloatMatrix
from sparsemean.bench.row import Row
from sparsemean.partition import deal_blocks
from sparsemean.records import Counts

BARS = {"float64": 0.6, "float32": 0.85}
SIZES = (1, 2, 4)


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision."""

    def subject(X: FloatMatrix) -> Callable[[], Counts]:
        return partial(subjects.counting_pass, X, deal_blocks(X.shape[0], SIZES, 0))

    return against_mean.rows("counting pass, sizes 1, 2, 4", subject, BARS, quick=quick, repeat=repeat)
