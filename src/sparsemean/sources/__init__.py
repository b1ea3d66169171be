"""One file per kind of input; each yields a ``Table`` that the passes read where it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsemean.errors import InputError
from sparsemean.sources.table import Table

READERS = {".npy": "npy", ".csv": "csv", ".parquet": "parquet"}


def as_table(X: Any, feature_names: Any = None) -> Table:
    """Take an array or a data frame as it is."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        from sparsemean.sources import frame

        return frame.from_frame(X, feature_names)
    from sparsemean.sources import array

    return array.from_array(X, feature_names)


def open_file(path: str | Path) -> Table:
    """Open a file by its ending, one of ``READERS``."""
    import importlib

    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError("FILE", f"end in {', '.join(READERS)}", repr(path.name))
    if not path.is_file():
        raise InputError("FILE", "be an existing file", repr(str(path)), "check the path")
    module = importlib.import_module(f"sparsemean.sources.{reader}")
    try:
        table: Table = module.read(path)
    except OSError as error:
        raise InputError("FILE", "be readable", f"{path.name} ({error.strerror or error})") from error
    return table
