"""Parquet files through pyarrow."""

from __future__ import annotations

from pathlib import Path

from sparsemean.errors import InputError, require
from sparsemean.sources.frame import from_object
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import Wanted


def read(path: Path, wanted: Wanted) -> Table:
    """Read the numeric columns of a .parquet file."""
    arrow = require("pyarrow", extra="parquet", purpose="reading .parquet files")
    import pandas as pd

    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (arrow.ArrowException, ValueError) as error:
        raise InputError("FILE", "be a complete .parquet file", f"{path.name} ({error})") from error
    return from_object(frame)
