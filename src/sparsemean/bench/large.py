"""Files larger than the memory allowed: written piece by piece, read once with their own library, and fitted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sparsemean.bench.data import FloatMatrix
from sparsemean.bench.timing import best_times
from sparsemean.fitting import fit
from sparsemean.sources import open_file

AT_ONCE = 64_000_000
"""Bytes written or read in one go."""
KINDS = (".npy", ".zarr", ".parquet", ".h5ad")
COLUMNS = {".parquet": 1000}
"""Parquet keeps a note on every column in every group of rows, so that tables are long rather than wide."""


def stripes(n: int, d: int, *, grain: int = 1) -> list[slice]:
    """Cut the rows into stretches of about ``AT_ONCE`` bytes."""
    width = max(grain, AT_ONCE // (8 * d) // grain * grain)
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
        case ".parquet":
            import pyarrow as pa
            from pyarrow import parquet

            names = [f"m{i}" for i in range(d)]
            with parquet.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
                for _, values in drawn(d, rows):
                    writer.write_table(pa.table(dict(zip(names, values.T, strict=True))))
        case _:
            import h5py

            with h5py.File(path, "w") as file:
                file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
                x = file.create_dataset("X", (n, d), "f8")
                x.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
                for part, values in drawn(d, rows):
                    x[part] = values
                for name, size in (("obs", n), ("var", d)):
                    frame = file.create_group(name)
                    frame.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
                    frame.attrs["column-order"] = np.array([], dtype=h5py.string_dtype())
                    index = frame.create_dataset("_index", data=[f"{name}{i}" for i in range(size)])
                    index.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})


def read_once(path: Path) -> None:
    """Read everything once with the file's own library, piece by piece, and throw it away."""
    match path.suffix:
        case ".npy":
            with path.open("rb") as file:
                while np.fromfile(file, np.float64, AT_ONCE // 8).size:
                    pass
        case ".zarr":
            import zarr

            array = zarr.open_array(path, mode="r")
            for part in stripes(*array.shape, grain=array.chunks[0]):
                array[part]
        case ".parquet":
            from pyarrow import parquet

            file = parquet.ParquetFile(path)
            for group in range(file.num_row_groups):
                file.read_row_group(group)
        case _:
            import h5py

            with h5py.File(path) as file:
                for part in stripes(*file["X"].shape):
                    file["X"][part]


def certified_fit(path: Path) -> None:
    """Fit the file without judging rows."""
    found = fit(open_file(path), refine=None, screen_rows=False, random_state=0)
    assert found.support.tolist() == [0, 1, 2], found.support


def seconds(path: Path, repeat: int) -> tuple[float, float]:
    """Return the best times of one read and of one fit."""
    read, fitted = best_times(lambda: read_once(path), lambda: certified_fit(path), repeat=repeat)
    return read, fitted
