"""The default fit of a sparse matrix: its memory over that of the matrix, its time over filling the zeros in first.

One value in twenty is stored. Memory is measured in a process of its own as for the paper's fit, the matrix included.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from sparsemean.bench import subjects, wording
from sparsemean.bench.data import N_SIGNALS, SIGNAL
from sparsemean.bench.processes import measure
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times

SHAPE = {False: (10_000, 50_000), True: (1000, 5000)}
STRETCH = 20
"""Columns of which a row stores one."""
AT_ONCE = 200
MEMORY_BAR = 1.5
TIME_BAR = 1.0
MOST_REPEATS = 3
"""Filling in the zeros takes seconds."""
CODE = """
from sparsemean.bench import peak, subjects
from sparsemean.bench.cases import sparse
subjects.default_fit(sparse.draw(640, 400))
X = sparse.draw({n}, {d})
print(1e6 * peak.peak_above(lambda: subjects.default_fit(X)) / sparse.bytes_of(X))
"""


def draw(n: int, d: int) -> Any:
    """Return a matrix compressed by rows: noise of Student t with 3 degrees of freedom, and signals in every row."""
    from scipy.sparse import csr_array

    width = d // STRETCH
    indices, data = np.empty((n, width), dtype=np.int32), np.empty((n, width))
    signals = np.linspace(0, width - 1, N_SIGNALS).astype(np.intp)
    rng = np.random.default_rng(0)
    for first in range(0, n, AT_ONCE):
        rows = slice(first, min(first + AT_ONCE, n))
        shape = indices[rows].shape
        indices[rows] = STRETCH * np.arange(width) + rng.integers(STRETCH, size=shape, dtype=np.int32)
        data[rows] = rng.standard_t(3, shape)
        indices[rows, signals] = STRETCH * signals
        data[rows, signals] += SIGNAL
    indptr = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return csr_array((data.ravel(), indices.ravel(), indptr), shape=(n, d))


def bytes_of(X: Any) -> int:
    """Return the memory that a compressed matrix takes."""
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the memory where the system tells it, and the time for matrices compressed by rows and by columns."""
    n, d = SHAPE[quick]
    what = f"{wording.size(n)} × {wording.size(d)} at {100 / STRETCH:g} %"
    if sys.platform != "win32":
        yield Row(
            name=f"peak memory of the default fit, matrix included / the matrix, CSR {what}",
            value=1 + measure(CODE.format(n=n, d=d)),
            unit="×",
            bar=None if quick else MEMORY_BAR,
            detail=f"the matrix is {12 * n * d / STRETCH / 1e6:,.0f} MB",
        )
    by_rows = draw(n, d)
    subjects.warm("float64")
    subjects.default_fit(draw(640, 400))
    for kind in ("CSR", "CSC"):
        X = by_rows.asformat(kind.lower())
        ours, filled = best_times(
            partial(subjects.default_fit, X),
            lambda X=X: subjects.default_fit(X.toarray()),  # type: ignore[misc]
            repeat=min(repeat, MOST_REPEATS),
        )
        yield Row(
            name=f"default fit / default fit with zeros filled in, {kind} {what}",
            value=ours / filled,
            unit="×",
            bar=None if quick else TIME_BAR,
            detail=wording.against(ours, filled),
        )
