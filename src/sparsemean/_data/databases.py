"""Tables of a DuckDB database: ``file.duckdb`` with ``--dataset TABLE``, or ``duckdb:///file.db?TABLE``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsemean._data import DATABASE
from sparsemean._data.frames import Batches, Layout, layout, table_of
from sparsemean._data.table import FileContext, ReadOptions, Table
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError, require

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


class Fetched(Batches):
    """Columns of a table that were fetched together, so that their rows are in one order."""

    def __init__(self, opened: FileContext, columns: Any, found: Layout, names: list[str]) -> None:
        super().__init__(opened, columns.num_rows, found)
        self.columns, self.names = columns, names

    def batches(self, columns: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield some columns, all rows of them."""
        yield 0, self.columns.select([self.names[column] for column in columns])


def read_duckdb(path: Path, wanted: ReadOptions) -> Table:
    """Read the columns that are wanted of a table into memory; one that is not named must be the only one."""
    wanted.refuse("layer", kind="DuckDB databases")
    duckdb = require("duckdb", extra="duckdb", purpose="reading DuckDB databases")
    pa = require("pyarrow", extra="duckdb", purpose="reading DuckDB databases")
    opened = FileContext(path.name, "DuckDB database", path.stat().st_size)
    with opened.reading(), closing(duckdb.connect(str(path), read_only=True, config=SHUT)) as database:
        table = _table(database, wanted.dataset, opened)
        schema = database.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
        found = layout(schema, wanted)
        names: list[str] = schema.names
        used = {*found.features.tolist(), *found.of_rows.values(), *found.watched.values(), *found.halves.values()}
        columns = ", ".join(_quoted(names[column]) for column in sorted(used))
        rows = database.sql(f"SELECT {columns} FROM {table}")
        read = "to_arrow_reader" if hasattr(rows, "to_arrow_reader") else "fetch_arrow_reader"  # as it was once called
        reader = getattr(rows, read)(ROWS_AT_ONCE)
        batches, held = [], 0
        for batch in reader:
            batches.append(batch)
            held += batch.nbytes
            opened.check_held(held)
        return table_of(Fetched(opened, pa.Table.from_batches(batches, reader.schema), found, names))


def _table(database: Any, name: str | None, opened: FileContext) -> str:
    """Return the table that is meant, as SQL writes it."""
    found = database.sql(TABLES).fetchall()
    rows = [row[:2] for row in found]
    tables = {_called(*row): ".".join(map(_quoted, row)) for row in rows}
    name = next(iter(tables)) if name is None and len(rows) == 1 else name
    if any(_called(*row) == name and COMPUTED in sql for *row, sql in found):
        advice = "write its values to a table of their own: CREATE TABLE plain AS SELECT * FROM ..."
        raise InputError("--dataset", "name a table without computed columns", repr(name), advice)
    has = f"{opened.name} has {list_names(sorted(tables)) or 'none'}"
    if name is None:
        raise InputError("--dataset", "name one of several tables", "none", has)
    if sum(_called(*row) == name for row in rows) > 1:
        raise InputError("--dataset", "name one table", f"{name!r}, which several schemas have", "rename one of them")
    if name not in tables:
        raise InputError("--dataset", "name a table of the database, no view", repr(name), has)
    return tables[name]


def _called(schema: str, name: str) -> str:
    return name if schema == "main" else f"{schema}.{name}"


def _quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


# Relations, which are not data yet.


def matches_relation(X: Any) -> bool:
    """Whether ``X`` is a relation of DuckDB's, a statement that was not executed yet."""
    return hasattr(X, "to_arrow_table")


def refuse_relation(*_: Any) -> Table:
    """Say how a relation becomes a table."""
    raise InputError("X", "be a table in memory", "a relation of DuckDB", "call .to_arrow_table() first")
