"""One file per kind of input; each yields a ``Table`` that the passes read where it lies."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from sparsemean._data.foreign import LONGEST, SAMPLES, refuse_known_path, wrong_way
from sparsemean._data.repeats import MOST_NAMES, named_as_groups, repeated, row_numbers, says_groups
from sparsemean._data.source import Dense
from sparsemean._data.table import (
    NOTHING,
    FileContext,
    ReadOptions,
    Table,
    fingerprint_of,
    from_array,
    unreadable,
    with_unique_names,
    without_empty,
)
from sparsemean._util.checks import list_names
from sparsemean._util.files import refuse_endless
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean._data.gpu import OnDevice

ENDINGS = {
    "matrices.read_npy": (".npy",),
    "matrices.read_npz": (".npz",),
    "csv.read_csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt", ".txt.gz"),
    "excel.read_excel": (".xlsx", ".xlsm"),
    "frames.read_parquet": (".parquet",),
    "hdf5.read_hdf5": (".h5ad", ".h5", ".hdf5"),
    "chunked.read_zarr": (".zarr",),
}
READERS = {ending: read for read, endings in ENDINGS.items() for ending in endings}
"""The function of a module here that opens a file of each ending: ``read(path, wanted, opened)``."""
NUMBERS_ROWS = "{} looks like the number of a row and was tested as a feature: --id or --drop says that it is none"
LONGEST_LABEL = 10_000
KINDS = {".npy": ".npy file of numbers", ".zarr": ".zarr folder"}
"""What is to be called otherwise than a file of its ending."""
FOLDERS = (".zarr",)
"""Endings that may be folders."""
DEVICE = "gpu.read_device"
"""What takes arrays that lie on a GPU, or may."""
OBJECTS = (
    ("anndata", ("var_names",), "anndata.read_anndata"),
    ("h5py", ("chunks",), "hdf5.read_hdf5_dataset"),
    ("zarr", ("chunks",), "chunked.read_zarr_array"),
    ("dask", ("rechunk",), "dask.read_dask"),
    ("dask", ("to_dask_array",), "dask.read_dask"),
    ("polars", ("collect_schema",), "frames.read_polars"),
    ("pyarrow", ("to_pydict", "schema"), "frames.read_arrow"),
    ("", ("to_arrow_table",), "frames.refuse_relation"),
    ("scipy.sparse", ("tocsr", "tocsc"), "matrices.read_sparse"),
    ("", ("iloc", "columns"), "frames.read_pandas"),
    ("torch", (), DEVICE),
    ("cupy", (), DEVICE),
    ("cupyx", (), DEVICE),
    ("", ("__cuda_array_interface__",), DEVICE),
)
"""Package in which a class was made, any if empty, what the class has, and what takes its objects,
``read(X, feature_names)``."""


def _reader_of(X: object) -> str | None:
    """Return the function that takes an object, None for what NumPy is to make an array of."""
    made_in = [kind.__module__ for kind in type(X).__mro__]
    if made_in[0].partition(".")[0] in ("numpy", "builtins"):
        return None
    for package, attributes, read in OBJECTS:
        ours = not package or any(f"{module}.".startswith(f"{package}.") for module in made_in)
        if ours and all(hasattr(type(X), name) for name in attributes):
            return read
    return None


def lies_on_device(X: object) -> TypeGuard[OnDevice]:
    """Whether ``X`` is an array or a tensor on a GPU."""
    return _reader_of(X) == DEVICE and _function("gpu.is_there")(X)


def on_the_host(value: object, table: Table, *, argument: str) -> Any:
    """Return a small array that comes with the data on the host; one on a device for data on the host is refused."""
    return _function("gpu.fetched")(value, table, argument) if lies_on_device(value) else value


def as_table(X: object, feature_names: object = None, *, layer: str | None = None) -> Table:
    """Take what lies in memory, or an open file's array, as it is; of an AnnData a layer, where one is named."""
    if isinstance(X, Table):
        return X
    read = _reader_of(X)
    if layer is not None and read != "anndata.read_anndata":
        raise InputError("layer", "be left out for all but AnnData", repr(layer))
    if read is None:
        found = from_array(X, feature_names)
    else:
        found = _function(read)(X, feature_names, **({} if layer is None else {"layer": layer}))
    return found if found.feature_names is None else wrong_way(with_unique_names(found))


def open_file(path: str | Path, wanted: ReadOptions = NOTHING) -> Table:
    """Open a file by its ending, one of ``READERS``; ``-`` is comma-separated text on standard input."""
    path = Path(path)
    if str(path) == "-":
        opened = FileContext("standard input", "text with commas")
        text = _function("turned.TextOfFeatures" if wanted.transpose else "csv.Text")(sys.stdin.buffer, opened)
        with opened.reading():
            return _looked_at(text.table(wanted), wanted, opened)
    endings = [ending for ending in READERS if path.name.lower().endswith(ending)]
    if not endings:
        refuse_known_path(path)
        raise InputError("FILE", f"end in {', '.join(READERS)}", repr(path.name))
    ending = max(endings, key=len)
    refuse_endless(path)
    if not path.is_file() and not (ending in FOLDERS and path.is_dir()):
        raise InputError("FILE", "be an existing file", repr(str(path)), "check the path")
    kind, given = READERS[ending].partition(".")[0], "--header" if wanted.header else "--no-header"
    if wanted.header is not None and kind not in ("csv", "excel"):
        raise InputError(given, "be left out for all but text and sheets", path.name)
    if kind != "csv":
        wanted.refuse("sep", "encoding", "decimal", *(() if kind == "excel" else ("na",)), kind="all but text")
    try:
        before = fingerprint_of(path)
    except OSError as error:
        raise unreadable(path, error) from error
    opened = FileContext(path.name, KINDS.get(ending, f"{ending.removesuffix('.gz')} file"), before.size)
    as_it_lies, of_rows, read = wanted, NOTHING, READERS[ending]
    if wanted.transpose and kind == "csv":
        read = "turned.read_text"
    elif wanted.transpose and kind != "excel":
        as_it_lies, of_rows = _function("turned.options_of_rows")(wanted)
    with opened.reading():
        table: Table = _function(read)(path, as_it_lies, opened)
        if as_it_lies is not wanted:
            table = _function("turned.turned")(table, of_rows)
    return replace(_looked_at(table, wanted, opened), file=before)


def _looked_at(table: Table, wanted: ReadOptions, opened: FileContext) -> Table:
    """Return a table with what its columns look like: names of rows, subjects, groups.

    Labels that are too long to be compared are refused: all take as much room as the longest.
    """
    for labels in (table.groups, *table.columns.values()):
        if labels is not None and labels.dtype.kind == "O":
            longest = max((label for label in (*labels, "") if isinstance(label, str)), key=len)
            opened.check_held(4 * labels.size * len(longest))
            if len(longest) > LONGEST_LABEL:
                got = f"{len(longest):,} in {opened.name}, from {longest[:20]!r} on"
                raise InputError("labels", f"have at most {LONGEST_LABEL:,} characters", got, "name groups otherwise")
    if wanted.drop_empty and isinstance(table.source, Dense) and np.isnan(table.source.values[0]).any():
        table = without_empty(table)
    if len(wanted.strata) > 1:
        table = replace(table, columns=_function("repeats.combined")(table.columns))
    repeats = table.repeated
    if repeats is None and wanted.id is not None and table.row_names is not None and wanted.independent:
        repeats = repeated(wanted.id, table.row_names, MOST_NAMES)
    if table.feature_names is None:
        return replace(table, repeated=repeats)
    names = table.feature_names.tolist()
    if len({"", *names}) <= len(names):
        table = with_unique_names(table)
    if table.row_names is not None or SAMPLES.fullmatch(names[-1][:LONGEST]):
        table = wrong_way(table, transposed=wanted.transpose)
    values = table.source.values if isinstance(table.source, Dense) else None
    ids = [name for name in row_numbers(names, values) if name != wanted.id]
    notes = (NUMBERS_ROWS.format(list_names(ids)),) if ids else ()
    halves = [*table.two_valued, *([] if values is None else named_as_groups(names, values))]
    halves.sort(key=says_groups, reverse=True)  # the most telling first
    return replace(table, repeated=repeats, notes=(*table.notes, *notes), two_valued=tuple(halves))


def _function(name: str) -> Any:
    """Return a function of a module here, which is loaded now."""
    module, _, function = name.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)
