"""A zarr of 8 GB by two workers of 1 GB each beside one process, and by workers that are killed.

Time by workers includes starting them. Their peak memory is what each of them says of itself at the end. Then one
worker is killed (SIGKILL) at a random moment of each of ten fits, all of which must give the same to the last bit. The
file is written to the folder for temporary files and removed.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sparsemean.bench import large
from sparsemean.bench.processes import numbers
from sparsemean.bench.row import Row, at_least

GIGABYTES = {False: 8.0, True: 0.1}
WIDE = 20_000
KILLS = {False: 10, True: 1}
BAR = 1.5
LIMIT = 1000.0
"""Megabytes that a worker may use."""
TIMES = "from pathlib import Path\nfrom sparsemean.bench import spreading\nprint(*spreading.times(Path({!r}), {}))"
KILLED = "from pathlib import Path\nfrom sparsemean.bench import spreading\nprint(*spreading.killed(Path({!r}), {}))"


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio of times, the peak of a worker and how many kills were survived; nothing without dask."""
    if sys.platform == "win32" or not all(map(importlib.util.find_spec, ("dask", "distributed", "zarr"))):
        return
    n = round(GIGABYTES[quick] * 1e9 / (8 * WIDE))
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "x.zarr"
        large.write(path, n, WIDE)
        of = f".zarr of {8e-9 * n * WIDE:.1f} GB, {n:,} × {WIDE:,}"
        alone, spread, started, peak = numbers(TIMES.format(str(path), min(repeat, 2)))
        yield Row(
            name=f"certified fit by two workers over one process, {of}",
            value=spread / alone,
            unit="×",
            bar=None if quick else BAR,
            detail=f"one process {alone:.1f} s, workers {spread:.1f} s, of which {started:.1f} s to start them",
        )
        yield Row(f"peak memory of a worker, {of}", peak / 1e6, "MB", bar=LIMIT)
        hit, right = numbers(KILLED.format(str(path), KILLS[quick]))
        yield Row(
            name=f"{hit:.0f} fits with one worker killed give the same, {of}",
            value=right,
            unit="of",
            bar=at_least(hit),
        )
    finally:
        shutil.rmtree(folder)
