"""Tables of DuckDB databases, fetched into memory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sparsemean._data.frames import Batches, fields_of, table_of
from sparsemean._data.table import FileContext, ReadOptions, Table
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    import duckdb

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
    fetched = columns_read.select
    return table_of(Batches(opened, columns_read.num_rows, found, lambda some: [(0, fetched(layout.called(some)))]))


def _table(database: duckdb.DuckDBPyConnection, name: str | None, opened: FileContext) -> str:
    """Return the table that is meant, as SQL writes it."""
    found = database.sql(TABLES).fetchall()
    rows = [row[:2] for row in found]
    tables = {_called(*row): ".".join(map(_quoted, row)) for row in rows}
    called = sorted(_called(*row) for row in rows)
    name = opened.choose(called, name, "tables", "name a table of the database, no view")
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


def refuse_relation(*_: object) -> Table:
    """Say how a relation, which is not data yet, becomes a table."""
    raise InputError("X", "be a table in memory", "a relation of DuckDB", "call .to_arrow_table() first")
