"""The default fit, which screens rows and refines values, against its certified part alone; 5 % of the rows are bad."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import data, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times

SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
BIAS = -2.0
BAR = 4.0


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for both precisions; rejected rows make the default fit read everything a second time."""
    for dtype in ("float64", "float32"):
        subjects.warm(dtype)
        X = data.draw(*SHAPE[quick], dtype)
        X[-int(subjects.DEFAULT_CONTAMINATION * X.shape[0]) :] += BIAS
        data.forget()  # the next benchmark shall not find it corrupted
        whole, certified = best_times(
            partial(subjects.default_fit, X), partial(subjects.certified_fit, X), repeat=repeat
        )
        yield Row(
            name=f"default fit / its certified part, {wording.shape(X)} {dtype}",
            value=whole / certified,
            unit="×",
            bar=None if quick else BAR,
            detail=wording.against(whole, certified),
        )
