"""What several benchmarks are: one call against ``X.mean(axis=0)``, for every shape and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sparsemean.bench import shapes, subjects, wording
from sparsemean.bench.data import FloatMatrix
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times


def rows(
    what: str,
    subject: Callable[[FloatMatrix], Callable[[], Any]],
    bars: dict[str, float],
    *,
    goals: dict[str, float] | None = None,
    everywhere: bool = True,
    quick: bool,
    repeat: int,
) -> Iterator[Row]:
    """Yield the ratio for every matrix; ``subject`` makes of a matrix the call that is timed.

    The bars are those of the first shape; ``everywhere`` says whether the others have them too, a little wider.
    """
    for X, factor in shapes.matrices(quick):
        dtype = str(X.dtype)
        subjects.warm(dtype)
        ours, mean = best_times(subject(X), partial(X.mean, axis=0), repeat=repeat)
        yield Row(
            name=f"{what} / X.mean(axis=0), {wording.shape(X)}",
            value=ours / mean,
            unit="×",
            bar=shapes.scaled(bars[dtype], factor) if everywhere or factor == 1 else None,
            goal=goals[dtype] if goals and factor == 1 else None,
            detail=f"{wording.against(ours, mean)}, {wording.rate(X, ours)}",
        )
