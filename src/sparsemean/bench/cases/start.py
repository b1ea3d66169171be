"""What a new process pays once: ``import sparsemean``, and the first fit without and with compiled kernels on disk.

The first fit is timed from after the imports of the package and of the libraries it stands on to the end of the fit.
The cold case starts with an empty folder for compiled kernels, the warm case is a new process with the folder that the
cold one filled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from sparsemean.bench.processes import measure
from sparsemean.bench.row import Row

IMPORT_BAR, COLD_BAR, WARM_BAR = 0.4, 6.0, 1.0
IMPORT = """
import time
began = time.perf_counter()
{statement}
print(time.perf_counter() - began)
"""
IMPORTS = {
    "import sparsemean": IMPORT_BAR,
    "from sparsemean import sparse_mean": None,
    "from sparsemean import SparseMean": None,
}
"""The first loads next to nothing; the others load what a fit and what scikit-learn's base classes need."""
FIRST_FIT = """
import time
import numpy, scipy, numba, sklearn, pandas, sparsemean
X = numpy.random.default_rng(0).standard_t(3, (600, 100))
X[:, :4] += 2
began = time.perf_counter()
sparsemean.sparse_mean(X, contamination=0.1, random_state=0)
print(time.perf_counter() - began)
"""
MOST = 3
"""Processes started for a number, at most."""


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the times, each the best of a few processes."""
    times = 1 if quick else min(repeat, MOST)
    for statement, bar in IMPORTS.items():
        seconds = [measure(IMPORT.format(statement=statement)) for _ in range(1 + times)]
        yield Row(f"{statement}, new process", min(seconds[1:]), "s", bar=bar)  # the first may write bytecode
    pairs = [_cold_and_warm() for _ in range(times)]
    for i, (which, most) in enumerate((("cold", COLD_BAR), ("warm", WARM_BAR))):
        name = f"first fit in a new process beyond imports, {which} kernel cache, float64, 600 × 100"
        yield Row(name, min(pair[i] for pair in pairs), "s", bar=most)


def _cold_and_warm() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        return measure(FIRST_FIT, cache=Path(folder)), measure(FIRST_FIT, cache=Path(folder))
