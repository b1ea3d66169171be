"""Feather files, which are Arrow's memory on disk: mapped, and a few columns at a time unpacked if they are packed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsemean.errors import require
from sparsemean.files import refuse_endless
from sparsemean.sources.arrow import Batches, Layout, layout, table_of
from sparsemean.sources.opened import Opened
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import Wanted

FIRST_VERSION = b"FEA1"


class Feather(Batches):
    """A .feather file, opened anew for each block, so that no two threads share a reader."""

    def __init__(self, path: Path, opened: Opened, n: int, found: Layout) -> None:
        super().__init__(opened, n, found)
        self.path = path

    def batches(self, columns: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield some columns, one batch of rows at a time."""
        yield from _batches(self.path, columns)


def _batches(path: Path, columns: list[int]) -> Iterator[tuple[int, Any]]:
    """Yield batches of rows with the number of the first row."""
    import pyarrow as pa

    refuse_endless(path)
    options = pa.ipc.IpcReadOptions(included_fields=columns)
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
        at = 0
        for k in range(reader.num_record_batches):
            batch = reader.get_batch(k)
            batch.validate()  # lengths that a damaged file promises would be read past the end of the map
            yield at, batch
            at += batch.num_rows


def read(path: Path, wanted: Wanted) -> Table:
    """Open a .feather file; columns that hold no numbers are refused before any is read."""
    wanted.refuse("layer", "dataset", kind=".feather files")
    pa = require("pyarrow", extra="parquet", purpose="reading .feather files")
    opened = Opened(path.name, ".feather file", path.stat().st_size)
    with opened.reading():
        with path.open("rb") as file:
            if file.read(4) == FIRST_VERSION:
                raise opened.broken("version 1 of the format")
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            schema = reader.schema
        found = layout(schema, wanted)
        n = sum(batch.num_rows for _, batch in _batches(path, found.features[:1].tolist()))
        return table_of(Feather(path, opened, n, found))
