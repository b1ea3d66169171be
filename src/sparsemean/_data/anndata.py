"""AnnData, in memory and in files of HDF5 and zarr: X or a layer, with the names and columns of obs and var."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._data import chunked, hdf5, table
from sparsemean._data.chunked import MakeSource, StoredArray, StoredGroup, is_group, pick, source_of
from sparsemean._data.foreign import refuse_known
from sparsemean._data.matrices import read_sparse
from sparsemean._data.repeats import chosen, likely, subjects_among
from sparsemean._data.source import Array, Source, Subset
from sparsemean._data.table import (
    OF_ROWS,
    FileContext,
    ReadOptions,
    Table,
    as_names,
    as_text,
    check_feature_names,
)
from sparsemean._kernels.memory_layout import cut
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import anndata
    import pandas as pd


class Frame:
    """obs or var of an open file, a group of columns, which must have ``n`` values where that is known."""

    def __init__(self, root: StoredGroup, name: str, n: int | None, opened: FileContext) -> None:
        self.root, self.element, self.name, self.n, self.opened = root, root[name], name, n, opened
        if not is_group(self.element):
            rule, advice = "be of anndata 0.7 or later", "read it with anndata and write it again"
            raise InputError(opened.argument, rule, f"{opened.name} with records for {name}", advice)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, without the index."""
        if "column-order" in self.element.attrs:
            return [as_text(name) for name in self.element.attrs["column-order"]]
        return [name for name in self.element.keys() if name not in (self._index_name(), "__categories")]  # noqa: SIM118

    def index(self) -> Array:
        """Return the names of the rows."""
        return self.column(self._index_name())

    def _index_name(self) -> str:
        said = self.element.attrs.get("_index")
        return as_text(said) if said is not None else "_index" if "_index" in self.element else "index"

    def column(self, name: str) -> Array:
        """Return a column as numbers or as text; what is missing is None."""
        stored = self.element[name]
        if is_group(stored):
            if "codes" in stored:
                return self._labelled(self._all(stored["codes"]), stored["categories"])
            return _masked(decoded(self._all(stored["values"])), self._all(stored["mask"]).astype(bool))
        if "categories" in stored.attrs:  # a name, or a reference
            where = stored.attrs["categories"]
            holder = self.root if isinstance(where, str) and where not in self.element else self.element
            return self._labelled(self._all(stored), holder[where])
        return decoded(self._all(stored))

    def _labelled(self, codes: npt.NDArray[Any], categories: StoredArray) -> Array:
        """Put categories in the place of their numbers; −1 is missing."""
        if len(categories.shape) > 1:
            raise self.opened.broken(f"{len(categories.shape)}-D categories")
        self.opened.check_size(categories.shape, 8)
        names = decoded(np.atleast_1d(self._read(categories)))
        if codes.dtype.kind not in "iu" or (codes.size and (codes.min() < -1 or codes.max() >= names.size)):
            raise self.opened.broken(f"codes of {self.name} beyond its {names.size} categories")
        if names.size == 0:
            return np.full(codes.size, None, dtype=object)
        return _masked(names[codes.astype(np.int64)], codes < 0)

    def _all(self, stored: StoredArray) -> npt.NDArray[Any]:
        if len(stored.shape) != 1 or (self.n is not None and stored.shape[0] != self.n):
            raise self.opened.broken(f"{self.name} of shape {stored.shape} where X has {self.n or 'rows'}")
        self.opened.check_size(stored.shape, stored.dtype.itemsize)
        return self._read(stored)

    def _read(self, stored: StoredArray) -> npt.NDArray[Any]:
        """Read values; strings that may all be one, a few at a time."""
        if stored.dtype.kind != "O" or self.opened.longest == 0 or not stored.shape:
            return np.asarray(stored[()])
        parts, held = [], 0
        for rows in cut(stored.shape[0], table.NOT_WORTH_CHECKING // self.opened.longest, 1):
            parts.append(np.asarray(stored[rows]))
            held += sum(map(len, parts[-1].tolist()))
            self.opened.check_held(held)
        return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def decoded(values: Array) -> Array:
    """Return text as an array of str, numbers as they are."""
    if values.dtype.kind in "fiub":
        return values
    if values.dtype.kind not in "SUOT":
        raise TypeError(f"a column of {values.dtype}")
    texts = (value.decode() if isinstance(value, bytes) else value for value in values.tolist())
    return np.fromiter(texts, dtype=object)


def _masked(values: Array, missing: npt.NDArray[np.bool_]) -> Array:
    if not missing.any():
        return values
    out = values.astype(object)
    out[missing] = None
    return out


# What lies in a file, .h5ad, .h5 or .zarr: an AnnData, or one matrix.

OTHER_RAW = "values are those of {}; the file has raw too, which is not looked at"


def read_stored(
    root: Any,
    wanted: ReadOptions,
    opened: FileContext,
    dense: MakeSource,
    remarks: Callable[[Any], tuple[str, ...]] = lambda _: (),
) -> Table:
    """Return the AnnData, or the matrix that is meant, of an open file that is a group or one array.

    ``dense`` makes a source of an array, and ``remarks`` says what is to be noted of a matrix.
    """
    grouped = is_group(root)
    annotated = opened.kind == ".h5ad file" or (
        grouped and wanted.dataset is None and as_text(root.attrs.get("encoding-type", "")) == "anndata"
    )
    if annotated:
        wanted.refuse("dataset", "transpose", kind=f"a {opened.kind} of AnnData")
        with opened.parsing():
            matrix = _matrix(root, wanted.layer, opened)
    else:
        lone = f"{opened.kind.replace(' folder', ' array')}s"
        wanted.refuse(*OF_ROWS, "select", "drop", "layer", kind=lone)
        if not grouped:
            wanted.refuse("dataset", kind=f"{lone} that are no group")
        elif wanted.dataset is None and "matrix" in root and "barcodes" in getattr(root["matrix"], "keys", list)():
            refuse_known(opened.name, "10x h5")
        matrix = pick(root, wanted.dataset, opened) if grouped else root
    source, notes = source_of(matrix, opened, dense), remarks(matrix)
    return _annotated(root, source, notes, wanted, opened) if annotated else Table(source, notes=notes)


def _annotated(
    root: StoredGroup, source: Source, remarks: tuple[str, ...], wanted: ReadOptions, opened: FileContext
) -> Table:
    """Return X or a layer, its features chosen, with names."""
    said = wanted.of_rows
    with opened.parsing():
        obs, var = (Frame(root, name, n, opened) for name, n in zip(("obs", "var"), source.shape, strict=True))
        names = as_names(var.index())
        labels = {option: _column(obs, name, f"--{option}") for option, name in said.items()}
        rows = as_names(labels.pop("id") if "id" in labels else obs.index())
        subjects = _subjects(obs, said.values()) if wanted.independent else None
    if wanted.select or wanted.drop:
        columns = chosen(names.tolist(), ReadOptions(select=wanted.select, drop=wanted.drop))
        source, names = Subset(source, columns), names[columns]
    raw = False
    with suppress(Exception):  # a damaged raw is no reason to refuse what was asked for
        raw = _has(root, "raw")
    notes = () if not raw else (OTHER_RAW.format("X" if wanted.layer is None else f"layer {wanted.layer!r}"),)
    return Table(
        source,
        check_feature_names(names, names.size, f"call {RENAME} and write the file again"),
        row_names=rows,
        groups=labels.pop("group", None),
        columns=labels,
        repeated=subjects,
        notes=(*notes, *remarks),
    )


def _subjects(obs: Frame | pd.DataFrame, known: Collection[str]) -> tuple[str, int] | None:
    """Return a column of obs that names subjects, if there is one."""

    def read(name: str) -> list[object]:
        return list((obs.column(name) if isinstance(obs, Frame) else obs[name]).tolist())

    names = likely(name for name in map(str, obs.columns) if name not in known)
    return subjects_among((name, partial(read, name)) for name in names)


RENAME = "adata.var_names_make_unique()"


def _matrix(root: StoredGroup, layer: str | None, opened: FileContext) -> Any:
    layers = sorted(root["layers"].keys()) if "layers" in root else []
    listed = f"it has the layers {list_names(layers)}" if layers else "it has no layers"
    if layer is not None:
        if layer not in layers:
            raise InputError("--layer", "name a layer of the file", repr(layer), listed)
        return root["layers"][layer]
    if not _has(root, "X"):
        raise InputError(opened.argument, "have an X", opened.name, f"name a layer with --layer: {listed}")
    return root["X"]


def _has(root: StoredGroup, name: str) -> bool:
    """Whether there is such an element, and not an empty one, as later versions write for None."""
    if name not in root:
        return False
    element = root[name]
    return as_text(element.attrs.get("encoding-type", "")) != "null" and getattr(element, "shape", ()) is not None


def _column(obs: Frame, name: str, argument: str) -> Array:
    if name not in obs.columns:
        has = f"it has {list_names(obs.columns, 20) or 'none'}"
        raise InputError(argument, "name a column of obs", repr(name), has)
    return obs.column(name)


# AnnData objects: X as it lies in memory or in the file behind it, with the names of genes and cells.


def read_anndata(
    adata: anndata.AnnData,
    feature_names: object = None,
    *,
    layer: str | None = None,
    raw: bool = False,
    known: Collection[str] = (),
) -> Table:
    """Take X of an AnnData, or a layer, or X of its ``raw``, which has genes of its own.

    What lies in a file stays there (but a view of such a file is read). Columns ``known`` are not looked at as those
    of subjects.
    """
    holder = adata.raw if raw else adata
    raws = f"test X with use_raw=False, or set adata.raw again from an AnnData after {RENAME.replace('adata.', '')}"
    advice = raws if raw else f"call {RENAME}"
    called = holder.var_names
    given = check_feature_names(called, len(called), advice) if feature_names is None else feature_names
    opened = FileContext(type(adata).__name__, "AnnData behind an open file", argument="X")
    if layer is not None and layer not in adata.layers:
        listed = list_names(sorted(adata.layers.keys())) or "none"
        raise InputError("layer", "name a layer of the AnnData", repr(layer), f"it has {listed}")
    with opened.reading():
        X = holder.X if layer is None else adata.layers[layer]
    if X is None:
        raise InputError("X", "have an X", "an AnnData without one", "name a layer with layer=")
    element = getattr(X, "group", X)  # AnnData's own wrapper of a compressed matrix in a file
    library = type(element).__module__.partition(".")[0]
    if (library in ("h5py", "zarr") and hasattr(element, "chunks")) or is_group(element):
        make_source = chunked.zarr_source if library == "zarr" else hdf5.hdf5_source
        with opened.reading():
            source = source_of(element, opened, make_source)
        found = Table(source, check_feature_names(given, source.shape[1]))
    elif hasattr(X, "indptr"):
        found = read_sparse(X, given)
    else:
        found = table.from_array(np.asarray(X), given)
    return replace(found, row_names=as_names(adata.obs_names), repeated=_subjects(adata.obs, known))
