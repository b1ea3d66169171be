"""Parquet files through pyarrow: a few columns at a time, nothing read before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsemean.errors import require
from sparsemean.files import refuse_endless
from sparsemean.sources.arrow import Batches, Layout, layout, table_of
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import cut
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import Wanted

DECODED_AT_ONCE = 4_000_000
"""Bytes that are decoded before they are put where they belong: few enough to stay in cache."""


class Parquet(Batches):
    """A .parquet file, opened anew for each block, so that no two threads share a reader; its footer is kept."""

    def __init__(self, path: Path, opened: Opened, metadata: Any, names: list[str], found: Layout) -> None:
        super().__init__(opened, metadata.num_rows, found)
        self.path, self.metadata, self.names = path, metadata, names

    def batches(self, columns: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield some columns, a few at a time and of some row groups each where those are small."""
        import pyarrow.parquet as pq

        names = [self.names[column] for column in columns]
        refuse_endless(self.path)
        with pq.ParquetFile(self.path, metadata=self.metadata) as file:
            for at, rows, groups in self._runs_of_groups():
                for some in cut(len(names), DECODED_AT_ONCE // (8 * rows), 1):
                    wanted = names[some]
                    yield at, file.read_row_groups(groups, columns=wanted).select(wanted)

    def _runs_of_groups(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield row groups to be read together, with the number of their first row and how many rows they have."""
        run: list[int] = []
        at = rows = 0
        for group in range(self.metadata.num_row_groups):
            run.append(group)
            rows += self.metadata.row_group(group).num_rows
            if 8 * rows >= DECODED_AT_ONCE or group + 1 == self.metadata.num_row_groups:
                yield at, max(rows, 1), run
                run, at, rows = [], at + rows, 0


def read(path: Path, wanted: Wanted) -> Table:
    """Open a .parquet file; columns that hold no numbers are refused before anything but the footer is read."""
    wanted.refuse("layer", "dataset", kind=".parquet files")
    pq = require("pyarrow.parquet", extra="parquet", purpose="reading .parquet files")
    opened = Opened(path.name, ".parquet file", path.stat().st_size)
    with opened.reading():
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
        n = metadata.num_rows
        if n != sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)):
            raise opened.broken(f"other than the {n} rows it promises")
        opened.check_size((n,), 1)
        return table_of(Parquet(path, opened, metadata, schema.names, layout(schema, wanted)))
