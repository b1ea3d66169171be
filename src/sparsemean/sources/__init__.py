"""One file per kind of input; each yields a ``Table`` that the passes read where it lies."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsemean.errors import InputError
from sparsemean.sources.fingerprint import fingerprint_of
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import NOTHING, Wanted

READERS = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".feather": "feather",
    ".mtx": "mtx",
    ".mtx.gz": "mtx",
    ".h5ad": "h5ad",
    ".h5": "h5",
    ".hdf5": "h5",
    ".zarr": "zarr",
}
"""A module with ``read(path, wanted)`` for each ending."""
FOLDERS = (".zarr",)
"""Endings that may be folders."""
TAKERS = (
    "anndata",
    "h5",
    "zarr",
    "dask",
    "gpu",
    "frame",
    "polars",
    "arrow",
    "sparse",
)
"""Modules with ``takes(X)`` and ``from_object(X, feature_names)``; NumPy's array is the last resort."""


def as_table(X: Any, feature_names: Any = None) -> Table:
    """Take what lies in memory, or an open file's array, as it is."""
    for name in TAKERS if not type(X).__module__.startswith("numpy") else ():
        module = importlib.import_module(f"sparsemean.sources.{name}")
        if module.takes(X):
            table: Table = module.from_object(X, feature_names)
            return table
    from sparsemean.sources import array

    return array.from_array(X, feature_names)


def open_file(path: str | Path, wanted: Wanted = NOTHING) -> Table:
    """Open a file by its ending, one of ``READERS``; ``-`` is comma-separated text on standard input."""
    path = Path(path)
    if str(path) == "-":
        from sparsemean.sources import csv

        return csv.read_standard_input(wanted)
    from sparsemean.files import refuse_endless

    ending = ending_of(path)
    refuse_endless(path)
    if not path.is_file() and not (ending in FOLDERS and path.is_dir()):
        raise InputError("FILE", "be an existing file", repr(str(path)), "check the path")
    if wanted.header is not None and READERS[ending] != "csv":
        raise InputError("--header" if wanted.header else "--no-header", "be left out for all but text", path.name)
    module = importlib.import_module(f"sparsemean.sources.{READERS[ending]}")
    try:
        before = fingerprint_of(path)
        table: Table = module.read(path, wanted)
    except OSError as error:
        raise InputError("FILE", "be readable", f"{path.name} ({error.strerror or error})") from error
    return replace(table, file=before)


def ending_of(path: Path) -> str:
    """Return the ending of a file, one of ``READERS``."""
    name = path.name.lower()
    found = [ending for ending in READERS if name.endswith(ending)]
    if not found:
        raise InputError("FILE", f"end in {', '.join(READERS)}", repr(path.name))
    return max(found, key=len)
