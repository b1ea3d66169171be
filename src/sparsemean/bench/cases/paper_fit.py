"""The paper's fit against ``X.mean(axis=0)``: the price of one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import against_mean, subjects
from sparsemean.bench.row import Row

BARS = {"float64": 0.8, "float32": 1.3}
GOALS = {"float64": 0.5, "float32": 0.7}


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision."""
    subject = partial(partial, subjects.paper_fit)
    return against_mean.rows("paper fit", subject, BARS, goals=GOALS, quick=quick, repeat=repeat)
