"""The paper's fit against ``X.mean(axis=0)``: the price of one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import shapes, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times

BARS = {"float64": 0.8, "float32": 1.3}
GOALS = {"float64": 0.5, "float32": 0.7}


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision."""
    for X, factor in shapes.matrices(quick):
        dtype = str(X.dtype)
        subjects.warm(dtype)
        fit, mean = best_times(partial(subjects.paper_fit, X), partial(X.mean, axis=0), repeat=repeat)
        yield Row(
            name=f"paper fit / X.mean(axis=0), {wording.shape(X)}",
            value=fit / mean,
            unit="×",
            bar=shapes.scaled(BARS[dtype], factor),
            goal=GOALS[dtype] if factor == 1 else None,
            detail=f"{wording.against(fit, mean)}, {wording.rate(X, fit)}",
        )
