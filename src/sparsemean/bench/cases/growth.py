"""How the time of the paper's fit grows when the data double, in features or in rows.

One matrix of rows with 50,000 features serves for all sizes: its rows are independent, so several of them side by side
are a row with more features, and the signals stay in their columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import data, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times

ROWS = {False: 2000, True: 500}
FEATURES = {False: 50_000, True: 10_000}
BAR = (1.7, 2.3)


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the time ratio of every doubling, all sizes timed in turn."""
    subjects.warm("float32")
    n, d = ROWS[quick], FEATURES[quick]
    X = data.draw(4 * n, d, "float32")
    wider = [X[: n * k].reshape(n, k * d) for k in (1, 2, 4)]
    longer = [X[: n * k] for k in (1, 2, 4)]
    for what, sizes, axis in (("features", wider, 1), ("rows", longer, 0)):
        times = best_times(*(partial(subjects.paper_fit, Y) for Y in sizes), repeat=repeat)
        for small, large, before, after in zip(sizes, sizes[1:], times, times[1:], strict=False):
            yield Row(
                name=f"{what} doubled, {wording.shape(small)} → {wording.size(large.shape[axis])} {what}",
                value=after / before,
                unit="×",
                bar=None if quick else BAR,
                detail=wording.against(after, before),
            )
