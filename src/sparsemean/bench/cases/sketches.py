"""Sketches as files: bytes a feature, and merging a hundred of them beside just reading them.

The files differ in their rows only, so that one set of counts is written a hundred times with other numbers of rows.
They lie in the folder for temporary files and are removed. Before each side the system is asked to forget them, where
it can be asked, so that both come from the disk.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sparsemean.bench.processes import numbers
from sparsemean.bench.row import Row
from sparsemean.bench.wording import size
from sparsemean.sketching import Sketch, merge, sketch

FEATURES = {False: 1_000_000, True: 20_000}
FILES = {False: 100, True: 20}
BAR_BYTES = 40.0
BAR_MERGE = 2.0
ROWS = 640
CODE = """
from pathlib import Path
from sparsemean.bench import peak
from sparsemean.sketching import merge
paths = sorted(Path({folder!r}).iterdir())
merge(paths[:2])
print(peak.peak_above(lambda: merge(paths)))
"""


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield bytes a feature, merging over reading, and the memory that merging takes."""
    d, n_files = FEATURES[quick], FILES[quick]
    folder = Path(tempfile.mkdtemp())
    try:
        paths = written(folder, d, n_files)
        each = paths[0].stat().st_size
        yield Row(
            name=f"sketch on disk, three sizes, {size(d)} features",
            value=each / d,
            unit="B a feature",
            bar=None if quick else BAR_BYTES,
            detail=f"{each:,} bytes in all, names of the features included",
        )
        read, merged = cold_times(paths, repeat=min(repeat, 3))
        yield Row(
            name=f"merging {n_files} sketches over reading their files, {size(d)} features",
            value=merged / read,
            unit="×",
            bar=None if quick else BAR_MERGE,
            detail=f"read {read:.2f} s ({each * n_files / read / 1e9:.1f} GB/s), merge {merged:.2f} s "
            f"({each * n_files / merged / 1e9:.1f} GB/s)",
        )
        (peak,) = numbers(CODE.format(folder=str(folder)))
        yield Row(f"peak memory of merging {n_files} above that of two, {size(d)} features", peak, "MB")
    finally:
        shutil.rmtree(folder)


def written(folder: Path, d: int, n_files: int) -> list[Path]:
    """Write files of ``ROWS`` rows each, one after the other."""
    X = np.random.default_rng(0).standard_normal((ROWS, min(d, 1000)), dtype=np.float32)
    wide = np.tile(X, -(-d // X.shape[1]))[:, :d]
    first = sketch(wide, feature_names=[f"feature {i}" for i in range(d)])
    paths = [folder / f"{k:03}.sketch" for k in range(n_files)]
    for k, path in enumerate(paths):
        _of_others(first, k).save(path)
    return paths


def _of_others(made: Sketch, k: int) -> Sketch:
    """Return the counts of the features k places further on, as if they were those of other rows."""
    counts = made.told.counts
    moved = replace(counts, **{name: np.roll(getattr(counts, name), k, axis=-1) for name in ("positive", "negative")})
    return replace(made, told=replace(made.told, counts=moved, ranges=((ROWS * k, ROWS * (k + 1)),)))


def cold_times(paths: Sequence[Path], *, repeat: int) -> tuple[float, float]:
    """Return the best times of reading and of merging files that are not in memory."""
    best = [math.inf, math.inf]
    for _ in range(repeat):
        for side, work in enumerate((read_all, merge)):
            forget(paths)
            began = time.perf_counter()
            work(paths)
            best[side] = min(best[side], time.perf_counter() - began)
    return best[0], best[1]


def forget(paths: Sequence[Path]) -> None:
    """Ask the system not to keep the files in memory."""
    for path in paths if hasattr(os, "posix_fadvise") else ():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(paths: Sequence[Path]) -> int:
    """Read the files and throw them away."""
    return sum(len(path.read_bytes()) for path in paths)
