"""The default fit with all inference against ``X.mean(axis=0)``: what certainty costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import against_mean, subjects
from sparsemean.bench.row import Row

BARS = {"float64": 0.7, "float32": 0.95}


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision; the bar is for the first shape."""
    subject = partial(partial, subjects.certified_fit)
    return against_mean.rows("certified fit", subject, BARS, everywhere=False, quick=quick, repeat=repeat)
