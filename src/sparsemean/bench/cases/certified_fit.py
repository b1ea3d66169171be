"""The default fit with all inference against ``X.mean(axis=0)``: what certainty costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import shapes, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times

BARS = {"float64": 0.7, "float32": 0.95}


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision; the bar is for the first shape."""
    for X, factor in shapes.matrices(quick):
        dtype = str(X.dtype)
        subjects.warm(dtype)
        fit, mean = best_times(partial(subjects.certified_fit, X), partial(X.mean, axis=0), repeat=repeat)
        yield Row(
            name=f"certified fit / X.mean(axis=0), {wording.shape(X)}",
            value=fit / mean,
            unit="×",
            bar=BARS[dtype] if factor == 1 else None,
            detail=f"{wording.against(fit, mean)}, {wording.rate(X, fit)}",
        )
