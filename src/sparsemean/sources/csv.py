"""Comma-separated text with a row of names; columns that are not numeric are left out and noted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparsemean.errors import InputError
from sparsemean.sources.frame import from_object
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import Wanted


def read(path: Path, wanted: Wanted) -> Table:
    """Read a .csv file; a first line that holds measurements rather than names is kept as a row."""
    import pandas as pd

    try:
        header = pd.read_csv(path, nrows=0)
        frame = pd.read_csv(path, header=None if _is_data(header.columns) else "infer")
    except (ValueError, pd.errors.ParserError, UnicodeDecodeError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError("FILE", "be comma-separated text", f"{path.name} ({first_line})") from error
    table = from_object(frame)
    if all(name.lstrip("-").isdigit() for name in map(str, header.columns)):
        note = "the first line was read as names of columns, though it holds numbers"
        return replace(table, notes=(*table.notes, note))
    return table


def _is_data(names: object) -> bool:
    """Whether a header line is all numbers with a fraction among them: nobody names columns so."""
    cells = [str(name) for name in names]  # type: ignore[attr-defined]
    try:
        return bool(cells) and not all(float(cell).is_integer() for cell in cells)
    except ValueError:
        return False
