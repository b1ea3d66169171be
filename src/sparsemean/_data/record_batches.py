"""What comes in record batches of Arrow: .feather files and tables of DuckDB databases."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sparsemean._data import DATABASE
from sparsemean._data.frames import Batches, fields_of, table_of
from sparsemean._data.table import FileContext, ReadOptions, Table
from sparsemean._util.files import refuse_endless
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from sparsemean._data.frames import Batch
    from sparsemean._data.repeats import Layout

# Tables of a database: ``file.duckdb`` with ``--dataset TABLE``, or ``duckdb:///file.db?TABLE``.

SHUT = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
    "memory_limit": "200MB",
    "temp_directory": "",
}
"""What keeps a database from reading other files, from loading code and from taking memory or disk as it likes."""
TABLES = "SELECT schema_name, table_name, sql FROM system.main.duckdb_tables() ORDER BY ALL"
"""Views are left out: what they compute may be anything. Without its place the name may be that of a macro in the file,
and so may every other function: none is called."""
COMPUTED = "GENERATED ALWAYS AS"
ROWS_AT_ONCE = 2048
"""Rows that are fetched before their bytes are counted."""


def located(address: str | Path, wanted: ReadOptions) -> tuple[Path, ReadOptions]:
    """Return the file and the table that an address means: three slashes stand before a path from here, four from /.

    A path makes one slash of them. Whether it is meant from here or from / is then told by what is there.

    Examples
    --------
    >>> path, wanted = located("duckdb:///shop.db?orders", ReadOptions())
    >>> path.name, wanted.dataset
    ('shop.db', 'orders')
    """
    place, _, table = str(address).removeprefix(DATABASE).partition("?")
    below = place.lstrip("/")
    here, above = Path(below), Path("/", below)
    slashes = len(place) - len(below)
    if slashes == 1 and here.exists() and above.exists() and not here.samefile(above):
        raise InputError("FILE", "be one file", f"{here} and {above}", "name the file itself, its table with --dataset")
    path = here if slashes == 0 or (slashes < 4 and here.exists()) else above
    if table and wanted.dataset:
        raise InputError("--dataset", "be left out where the address names a table", repr(wanted.dataset))
    return path, replace(wanted, dataset=table or wanted.dataset)


def read_duckdb(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Read the columns that are wanted of a table into memory; one that is not named must be the only one."""
    wanted.refuse("layer", kind="DuckDB databases")
    duckdb = require("duckdb", extra="duckdb", purpose="reading DuckDB databases")
    pa = require("pyarrow", extra="duckdb", purpose="reading DuckDB databases")
    with closing(duckdb.connect(str(path), read_only=True, config=SHUT)) as database:
        table = _table(database, wanted.dataset, opened)
        schema = database.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
        found = fields_of(schema, wanted)
        layout = found.layout
        used = {*layout.features.tolist(), *layout.of_rows.values(), *layout.watched, *found.halves}
        columns = ", ".join(map(_quoted, layout.called(sorted(used))))
        rows = database.sql(f"SELECT {columns} FROM {table}")
        read = "to_arrow_reader" if hasattr(rows, "to_arrow_reader") else "fetch_arrow_reader"  # as it was once called
        reader = getattr(rows, read)(ROWS_AT_ONCE)
        batches, held = [], 0
        for batch in reader:
            batches.append(batch)
            held += batch.nbytes
            opened.check_held(held)
        columns_read = pa.Table.from_batches(batches, reader.schema)
    return table_of(Batches(opened, columns_read.num_rows, found, partial(_fetched, columns_read, layout)))


def _fetched(held: pa.Table, layout: Layout, columns: list[int]) -> Iterator[tuple[int, Batch]]:
    """Yield some columns, all rows of them, which were fetched together, so that they are in one order."""
    yield 0, held.select(layout.called(columns))


def _table(database: duckdb.DuckDBPyConnection, name: str | None, opened: FileContext) -> str:
    """Return the table that is meant, as SQL writes it."""
    found = database.sql(TABLES).fetchall()
    rows = [row[:2] for row in found]
    tables = {_called(*row): ".".join(map(_quoted, row)) for row in rows}
    name = opened.choose(sorted(_called(*row) for row in rows), name, "tables", "name a table of the database, no view")
    if any(_called(*row) == name and COMPUTED in sql for *row, sql in found):
        advice = "write its values to a table of their own: CREATE TABLE plain AS SELECT * FROM ..."
        raise InputError("--dataset", "name a table without computed columns", repr(name), advice)
    if sum(_called(*row) == name for row in rows) > 1:
        raise InputError("--dataset", "name one table", f"{name!r}, which several schemas have", "rename one of them")
    return tables[name]


def _called(schema: str, name: str) -> str:
    return name if schema == "main" else f"{schema}.{name}"


def _quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


# Relations, which are not data yet.


def refuse_relation(*_: object) -> Table:
    """Say how a relation becomes a table."""
    raise InputError("X", "be a table in memory", "a relation of DuckDB", "call .to_arrow_table() first")


# Feather files, which are Arrow's memory on disk, a few columns at a time. They are not mapped: that is no faster, and
# one cut short while it is read would end the process.

FIRST_VERSION = b"FEA1"
BLOCK, BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq")
DICTIONARY = 2
"""The number of messages that hold a dictionary."""


class Record:
    """A record of FlatBuffers, in which Arrow's files say what they hold: entries have numbers, and may be absent."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content = content
        self.at = at + self.number(at)

    def number(self, at: int, form: str = "<I") -> int:
        """Return the number that stands at a place."""
        return int(struct.unpack_from(form, self.content, at)[0])

    def place(self, k: int) -> int:
        """Return where an entry stands, 0 if nowhere."""
        entries = self.at - self.number(self.at, "<i")
        offset = self.number(entries + 4 + 2 * k, "<H") if 4 + 2 * k < self.number(entries, "<H") else 0
        return self.at + offset if offset else 0

    def many(self, k: int, form: struct.Struct) -> list[tuple[int, ...]]:
        """Return an entry that is a list."""
        if not (at := self.place(k)):
            return []
        at += self.number(at)
        return list(form.iter_unpack(self.content[at + 4 : at + 4 + form.size * self.number(at)]))


def _check_batches(file: IO[bytes], opened: FileContext) -> int:
    """Return the number of rows, unless what batches say they unpack to is too much: they are unpacked whole."""
    end = file.seek(-10, os.SEEK_END)
    file.seek(end - struct.unpack("<i", file.read(4))[0])
    footer, n, total = Record(file.read(), 0), 0, 0
    for blocks in (2, 3):
        for at, head, _ in footer.many(blocks, BLOCK):
            file.seek(at)
            message = Record(file.read(head), 8)
            batch = Record(message.content, message.place(2))
            if message.content[message.place(1)] == DICTIONARY:
                batch = Record(message.content, batch.place(1))
            held = 0
            for offset, length in batch.many(2, BUFFER):
                file.seek(at + head + offset)
                held += max(length, struct.unpack("<q", file.read(8))[0] if length >= 8 and batch.place(3) else 0)
            opened.check_held(held)
            total += held
            n += batch.number(batch.place(0), "<q") if blocks == 3 else 0
    opened.check_size((total,), 1)
    return n


def _batches(path: Path, columns: list[int]) -> Iterator[tuple[int, Batch]]:
    """Yield batches of rows with the number of the first row; no two threads share a reader."""
    import pyarrow as pa

    refuse_endless(path)
    options = pa.ipc.IpcReadOptions(included_fields=columns)
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
        at = 0
        for k in range(reader.num_record_batches):
            batch = reader.get_batch(k)
            batch.validate()  # lengths that a damaged file promises would be read past the end of what is there
            yield at, batch
            at += batch.num_rows


def read_feather(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open a .feather file; columns that hold no numbers are refused before any is read."""
    wanted.refuse("layer", "dataset", kind=".feather files")
    pa = require("pyarrow", extra="parquet", purpose="reading .feather files")
    with path.open("rb") as start:
        if start.read(4) == FIRST_VERSION:
            raise opened.broken("version 1 of the format")
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
    with opened.parsing(), path.open("rb") as start:
        n = _check_batches(start, opened)
    return table_of(Batches(opened, n, fields_of(schema, wanted), partial(_batches, path)))
