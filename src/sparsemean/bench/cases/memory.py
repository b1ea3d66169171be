"""Peak memory of the paper's fit above the data themselves.

A process of its own draws ``X`` (which touches all of it), fits a small matrix so that the kernels and everything they
import are loaded, reads its peak memory, fits ``X`` and reads the peak again; the row is the difference. The result is
alive at the second reading, so it counts. Drawing uses less than 2 MB beside ``X``, by which the difference may be too
small.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sparsemean.bench.processes import measure
from sparsemean.bench.row import Row
from sparsemean.bench.wording import size

SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
BAR = 100.0
CODE = """
from sparsemean.bench import data, peak, subjects
subjects.warm({dtype!r})
X = data.draw({n}, {d}, {dtype!r})
print(peak.peak_above(lambda: subjects.paper_fit(X)))
"""


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the largest of two runs, in both precisions; nothing on systems that do not tell."""
    if sys.platform == "win32":
        return
    n, d = SHAPE[quick]
    for dtype, bytes_each in (("float64", 8), ("float32", 4)):
        code = CODE.format(n=n, d=d, dtype=dtype)
        yield Row(
            name=f"peak memory of the paper fit above X, {dtype}, {size(n)} × {size(d)}",
            value=max(measure(code) for _ in range(1 if quick else 2)),
            unit="MB",
            bar=None if quick else BAR,
            detail=f"X itself is {n * d * bytes_each / 1e6:,.0f} MB",
        )
