"""Files of 8 GB under a limit of 2 GB of memory: a certified fit beside one plain read.

A process of its own sets the limit on what it may allocate (address space that is reserved and never used, as pyarrow
does, is not counted), reads the file once with the library that wrote it, fits it without judging rows, and tells both
times and the most memory it had in use. The files are written to the folder for temporary files, one after the other,
and removed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sparsemean.bench import large
from sparsemean.bench.processes import numbers
from sparsemean.bench.row import Row

GIGABYTES = {False: 8.0, True: 0.1}
LIMIT = 2_000_000_000
WIDE = 20_000
BAR = 1.5
CODE = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
from pathlib import Path
from sparsemean.bench import large, peak
print(*large.seconds(Path({path!r}), {repeat}), peak.peak_memory() / 1e6)
"""


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield a row for each kind of file; nothing on systems without such limits."""
    if sys.platform == "win32":
        return
    for ending in large.KINDS:
        d = large.COLUMNS.get(ending, WIDE)
        n = round(GIGABYTES[quick] * 1e9 / (8 * d))
        folder = Path(tempfile.mkdtemp())
        try:
            path = folder / f"x{ending}"
            large.write(path, n, d)
            code = CODE.format(limit=LIMIT, path=str(path), repeat=min(repeat, 2))
            read, fitted, peak = numbers(code)
        finally:
            shutil.rmtree(folder)
        yield Row(
            name=f"certified fit over one read, {ending} of {8e-9 * n * d:.1f} GB, {n:,} × {d:,}",
            value=fitted / read,
            unit="×",
            bar=None if quick else BAR,
            detail=f"read {read:.1f} s, fit {fitted:.1f} s, peak {peak:,.0f} MB, limit {LIMIT / 1e6:,.0f} MB",
        )
