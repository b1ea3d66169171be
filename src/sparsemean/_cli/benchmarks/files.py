"""Benchmarks of files larger than memory, sketches, start-up and memory."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import sparsemean
from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.timing import FloatMatrix, Row, apart, best_times, measure, ratio, size
from sparsemean._data import open_file
from sparsemean._evidence.counting.merging import merge
from sparsemean._evidence.counting.sketch import Sketch, sketch
from sparsemean._fit.one_sample import fit
from sparsemean.result import Estimate

WRITTEN_AT_ONCE = 64_000_000
"""Bytes written or read in one go."""
KINDS = (".npy", ".zarr", ".parquet")
COLUMNS = {".parquet": 1000}
"""Parquet keeps a note on every column in every group of rows, so that tables are long rather than wide."""


def stripes(n: int, d: int, *, grain: int = 1) -> list[slice]:
    """Cut the rows into stretches of about ``AT_ONCE`` bytes."""
    width = max(grain, WRITTEN_AT_ONCE // (8 * d) // grain * grain)
    return [slice(a, min(a + width, n)) for a in range(0, n, width)]


def drawn(d: int, rows: list[slice]) -> Iterator[tuple[slice, FloatMatrix]]:
    """Yield heavy-tailed rows, the first three columns with a mean."""
    for k, part in enumerate(rows):
        values = np.random.default_rng(k).standard_normal((part.stop - part.start, d))
        values /= np.abs(np.random.default_rng(k).standard_normal((values.shape[0], 1))) + 0.1
        values[:, :3] += 2.0
        yield part, values


def write(path: Path, n: int, d: int) -> None:
    """Write an (n, d) table of float64 by the ending of ``path``, as its library does by default."""
    rows = stripes(n, d)
    match path.suffix:
        case ".npy":
            out = np.lib.format.open_memmap(path, "w+", np.float64, (n, d))
            for part, values in drawn(d, rows):
                out[part] = values
        case ".zarr":
            import zarr

            array = zarr.create_array(store=path, shape=(n, d), dtype="f8", chunks=(min(n, 1000), min(d, 1000)))
            for part, values in drawn(d, stripes(n, d, grain=1000)):
                array[part] = values
        case _:
            import pyarrow as pa
            from pyarrow import parquet

            names = [f"m{i}" for i in range(d)]
            with parquet.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
                for _, values in drawn(d, rows):
                    writer.write_table(pa.table(dict(zip(names, values.T, strict=True))))


def read_once(path: Path) -> None:
    """Read everything once with the file's own library, piece by piece, and throw it away."""
    match path.suffix:
        case ".npy":
            with path.open("rb") as file:
                while np.fromfile(file, np.float64, WRITTEN_AT_ONCE // 8).size:
                    pass
        case ".zarr":
            import zarr

            array = zarr.open_array(path, mode="r")
            for part in stripes(*array.shape, grain=array.chunks[0]):
                array[part]
        case _:
            from pyarrow import parquet

            file = parquet.ParquetFile(path)
            for group in range(file.num_row_groups):
                file.read_row_group(group)


def certified_fit(path: Path) -> Estimate:
    """Fit the file without judging rows."""
    found = fit(open_file(path), refine=None, screen_rows=False, random_state=0)
    assert found.support[:3].tolist() == [0, 1, 2], found.support  # one fit in twenty selects another one
    return found


# Files of 8 GB under a limit of 2 GB of memory: a certified fit beside one plain read.

GIGABYTES = {False: 8.0, True: 0.1}
LIMIT = 2_000_000_000
WIDE = 20_000
LARGE_FILES_BAR = 1.5


def seconds(path: str, repeat: int) -> tuple[float, float, float]:
    """Return the best times of one read and of one fit, and the peak of memory; for a process of its own."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    read, fitted = best_times(lambda: read_once(Path(path)), lambda: certified_fit(Path(path)), repeat=repeat)
    return read, fitted, timing.peak_memory() / 1e6


def large_files(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield a row for each kind of file; nothing on systems without such limits."""
    if sys.platform == "win32":
        return
    for ending in KINDS:
        d = COLUMNS.get(ending, WIDE)
        n = round(GIGABYTES[quick] * 1e9 / (8 * d))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"x{ending}")
            write(path, n, d)
            read, fitted, peak = apart(seconds, str(path), min(repeat, 2))
        name = f"certified fit over one read, {ending} of {8e-9 * n * d:.1f} GB, {n:,} × {d:,}"
        detail = f"read {read:.1f} s, fit {fitted:.1f} s, peak {peak:,.0f} MB, limit {LIMIT / 1e6:,.0f} MB"
        yield ratio(name, fitted, read, LARGE_FILES_BAR, detail=detail)


# Sketches as files: bytes a feature, and merging a hundred of them beside just reading them.

FEATURES = {False: 1_000_000, True: 20_000}
FILES = {False: 100, True: 20}
BAR_BYTES = 40.0
BAR_MERGE = 2.0
ROWS = 640


def memory_of_merging(folder: str) -> float:
    """Return the megabytes that merging all sketches takes above merging two; for a process of its own."""
    paths = sorted(Path(folder).iterdir())
    merge(paths[:2])
    return timing.peak_above(lambda: merge(paths))


def sketches(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield bytes a feature, merging over reading, and the memory that merging takes."""
    d, n_files = FEATURES[quick], FILES[quick]
    with tempfile.TemporaryDirectory() as folder:
        paths = written(Path(folder), d, n_files)
        each = paths[0].stat().st_size
        name, detail = f"sketch on disk, three sizes, {size(d)} features", f"{each:,} bytes, names of features included"
        yield Row(name, each / d, "B a feature", BAR_BYTES, detail=detail)
        sides = lambda: sum(len(path.read_bytes()) for path in paths), partial(merge, paths)
        read, merged = best_times(*sides, repeat=min(repeat, 3), before=partial(forget, paths))
        name = f"merging {n_files} sketches over reading their files, {size(d)} features"
        rates = [f"{took:.2f} s ({each * n_files / took / 1e9:.1f} GB/s)" for took in (read, merged)]
        yield ratio(name, merged, read, BAR_MERGE, detail=f"read {rates[0]}, merge {rates[1]}")
        (peak,) = apart(memory_of_merging, folder)
        yield Row(f"peak memory of merging {n_files} above that of two, {size(d)} features", peak, "MB")


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
    counts = made.counts
    moved = replace(counts, **{name: np.roll(getattr(counts, name), k, axis=-1) for name in ("positive", "negative")})
    return replace(made, counts=moved, ranges=((ROWS * k, ROWS * (k + 1)),))


def forget(paths: Sequence[Path]) -> None:
    """Ask the system not to keep the files in memory."""
    for path in paths if hasattr(os, "posix_fadvise") else ():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# What a new process pays once: ``import sparsemean``, and the first fit without and with compiled kernels on disk.

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
COMMAND = """
import sys, time
sys.path.insert(0, {folder!r})
sys.argv = ["sparsemean", "fit", *{arguments!r}]
from sparsemean._cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
print()
print(time.process_time())
"""
COMMAND_BARS = (2.0, 1.0)
"""Seconds of the processor that the command takes of a small file: with nothing kept by earlier processes, and then."""
COMMANDS = (
    (600, 1.0, ()),
    (600, 1.0, ("--group", "arm")),
    (200, 3.0, ("--group", "arm")),
)
"""Rows, means and options: of fewer than 256 rows in a group tails of U are exact, and far out where these differ."""
MOST = 3
"""Processes started for a number, at most."""


def start(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the times, each the best of a few processes."""
    times = 1 if quick else min(repeat, MOST)
    for statement, bar in IMPORTS.items():
        seconds = [measure(IMPORT.format(statement=statement)) for _ in range(1 + times)]
        # The first may write bytecode.
        yield Row(f"{statement}, new process", min(seconds[1:]), "s", bar, always=True)
    pairs = [_cold_and_warm() for _ in range(times)]
    for i, (which, most) in enumerate((("cold", COLD_BAR), ("warm", WARM_BAR))):
        name = f"first fit in a new process beyond imports, {which} kernel cache, float64, 600 × 100"
        yield Row(name, min(pair[i] for pair in pairs), "s", most, always=True)
    for n, shift, options in COMMANDS:
        commands = [_command(n, shift, options) for _ in range(times)]
        for i, which in enumerate(("cold", "warm")):
            what = f"{' '.join(('sparsemean fit file.csv', *options))}, {which}, processor time"
            name = f"{what}, {n} × 100, four means {shift:g} apart"
            yield Row(name, min(pair[i] for pair in commands), "s", COMMAND_BARS[i], always=True)


def _command(n: int, shift: float, options: tuple[str, ...]) -> tuple[float, float]:
    """Return what the command takes of a copy of the package without bytecode and kernels, and once they are there."""
    X = np.random.default_rng(0).standard_t(4, (n, 100))
    X[: n // 2, :4] += shift
    names, arms = [f"f{j}" for j in range(X.shape[1])], ["arm", *np.repeat(["a", "b"], n // 2)]
    lines = [",".join(names), *(",".join(map(repr, row)) for row in X.tolist())]
    if options:
        lines = [f"{line},{arm}" for line, arm in zip(lines, arms, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file.csv")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        home = Path(sparsemean.__file__).parent
        shutil.copytree(home, Path(folder, home.name), ignore=shutil.ignore_patterns("__pycache__", "*.kernel"))
        code = COMMAND.format(folder=folder, arguments=[str(file), *options])
        return measure(code, cache=Path(folder)), measure(code, cache=Path(folder))


def _cold_and_warm() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        return measure(FIRST_FIT, cache=Path(folder)), measure(FIRST_FIT, cache=Path(folder))


# Peak memory of the paper's fit above the data themselves.

SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
MEMORY_BAR = 100.0
COMPARED_SHAPE = {False: (20_000, 2000), True: (5000, 400)}
COMPARED_BAR = 200.0


def memory_of_paper(n: int, d: int, dtype: str) -> float:
    """Return the megabytes that the paper's fit takes above X; for a process of its own."""
    timing.warm(dtype)
    X = timing.draw(n, d, dtype)
    return timing.peak_above(lambda: timing.paper_fit(X))


def memory_of_comparison(n: int, d: int) -> float:
    """Return the megabytes that a comparison of two groups takes above X; for a process of its own."""
    from sparsemean import SparseMeanDifference
    from sparsemean._kernels import compiling

    compiling.end_plainness()
    y = np.arange(n) % 2
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    for column in range(d // 2):
        X[1::2, column] += 0.5
    model = SparseMeanDifference(contamination=0.01)
    model.fit(X[:400, :40], y[:400])
    above = timing.peak_above(lambda: model.fit(X, y))
    assert model.support_.size == d // 2
    return above


def memory(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the largest of two runs, in both precisions; nothing on systems that do not tell."""
    if sys.platform == "win32":
        return
    n, d = SHAPE[quick]
    for dtype, bytes_each in (("float64", 8), ("float32", 4)):
        most = max(apart(memory_of_paper, n, d, dtype)[0] for _ in range(1 if quick else 2))
        name = f"peak memory of the paper fit above X, {dtype}, {size(n)} × {size(d)}"
        yield Row(name, most, "MB", MEMORY_BAR, detail=f"X itself is {n * d * bytes_each / 1e6:,.0f} MB")
    n, d = COMPARED_SHAPE[quick]
    (above,) = apart(memory_of_comparison, n, d)
    name = f"peak memory of a comparison above X, float32, {size(n)} × {size(d)}, half of them selected"
    yield Row(name, above, "MB", COMPARED_BAR, detail=f"X itself is {4 * n * d / 1e6:,.0f} MB")
