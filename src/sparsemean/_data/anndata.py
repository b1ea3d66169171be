"""AnnData, in memory and in .h5ad files: X or a layer, with the names and columns of obs and var."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data import chunked, hdf5, table
from sparsemean._data.chunked import is_group, text
from sparsemean._data.hdf5 import hdf5_source, open_hdf5
from sparsemean._data.repeats import likely, repeated
from sparsemean._data.source import ColumnSubset, Source, cut
from sparsemean._data.sparse import Compressed, check_compressed
from sparsemean._data.table import LABELS, FileContext, Names, ReadOptions, Table, as_names, check_names, chosen
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError

Labels = npt.NDArray[Any]


class Frame:
    """obs or var of an open file: a group of columns, or in files before anndata 0.7 one array of records.

    Columns must have ``n`` values, where that is known.
    """

    def __init__(self, root: Any, name: str, n: int | None, opened: FileContext) -> None:
        self.root, self.element, self.n, self.opened = root, root[name], n, opened
        self.name = name

    @property
    def columns(self) -> list[str]:
        """Names of the columns, without the index."""
        if not is_group(self.element):
            return list(self.element.dtype.names)[1:]
        if "column-order" in self.element.attrs:
            return [text(name) for name in self.element.attrs["column-order"]]
        return [name for name in self.element.keys() if name not in (self._index_name(), "__categories")]  # noqa: SIM118

    def index(self) -> Labels:
        """Return the names of the rows."""
        return self.column(self._index_name())

    def _index_name(self) -> str:
        if not is_group(self.element):
            return str(self.element.dtype.names[0])
        said = self.element.attrs.get("_index")
        return text(said) if said is not None else "_index" if "_index" in self.element else "index"

    def column(self, name: str) -> Labels:
        """Return a column as numbers or as text; what is missing is None."""
        if not is_group(self.element):
            return self._old_column(name)
        stored = self.element[name]
        if is_group(stored):
            if "codes" in stored:
                return self._labelled(self._all(stored["codes"]), stored["categories"])
            return _masked(decoded(self._all(stored["values"])), self._all(stored["mask"]).astype(bool))
        if "categories" in stored.attrs:
            where = stored.attrs["categories"]
            categories = self.element[where] if not isinstance(where, str) else self._named(where)
            return self._labelled(self._all(stored), categories)
        return decoded(self._all(stored))

    def _named(self, where: str) -> Any:
        """Find categories that an attribute names rather than points to."""
        return self.element[where] if where in self.element else self.root[where]

    def _old_column(self, name: str) -> Labels:
        """Return a field of the records; its categories lie in ``uns``."""
        values = np.asarray(self._all(self.element)[name])
        where = f"uns/{name}_categories"
        return self._labelled(values, self.root[where]) if where in self.root else decoded(values)

    def _labelled(self, codes: Labels, categories: Any) -> Labels:
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

    def _all(self, stored: Any) -> Labels:
        if len(stored.shape) != 1 or (self.n is not None and stored.shape[0] != self.n):
            raise self.opened.broken(f"{self.name} of shape {stored.shape} where X has {self.n or 'rows'}")
        self.opened.check_size(stored.shape, stored.dtype.itemsize)
        return self._read(stored)

    def _read(self, stored: Any) -> Labels:
        """Read values; strings that may all be one, a few at a time."""
        if stored.dtype.kind != "O" or self.opened.longest == 0 or not stored.shape:
            return np.asarray(stored[()])
        parts, held = [], 0
        for rows in cut(stored.shape[0], table.NOT_WORTH_CHECKING // self.opened.longest, 1):
            parts.append(np.asarray(stored[rows]))
            held += sum(map(len, parts[-1]))
            self.opened.check_held(held)
        return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def decoded(values: Labels) -> Labels:
    """Return text as an array of str, numbers as they are."""
    if values.dtype.kind in "fiub":
        return values
    if values.dtype.kind not in "SUOT":
        raise TypeError(f"a column of {values.dtype}")
    out = np.empty(values.size, dtype=object)
    out[:] = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
    return out


def _masked(values: Labels, missing: Labels) -> Labels:
    if not missing.any():
        return values
    out = values.astype(object)
    out[missing] = None
    return out


# What AnnData lays down in a file, .h5ad or .zarr: X or a layer with the names of genes and cells.

OTHER_RAW = "values are those of {}; the file has raw too, which is not looked at"
MakeSource = Callable[[Any, FileContext], Source]


def read_annotated(root: Any, wanted: ReadOptions, opened: FileContext, dense: MakeSource) -> Table:
    """Return the matrix that is meant, its features chosen, with names; ``dense`` makes a source of an array."""
    wanted.refuse("dataset", kind=f"a {opened.kind} of AnnData")
    with opened.reading():
        with opened.parsing():
            matrix = _matrix(root, wanted.layer, opened)
        source = source_of(matrix, opened, dense)
        with opened.parsing():
            var, obs = (
                Frame(root, name, size, opened) for name, size in (("var", source.shape[1]), ("obs", source.shape[0]))
            )
            names = as_names(var.index())
            rows = as_names(_column(obs, wanted.id, "--id") if wanted.id is not None else obs.index())
            said = wanted.of_rows
            labels = {option: _column(obs, said[option], f"--{option}") for option in LABELS if option in said}
            subjects = _subjects(obs, set(said.values())) if wanted.independent else None
    if wanted.select or wanted.drop:
        columns = chosen(names.tolist(), ReadOptions(select=wanted.select, drop=wanted.drop))
        source, names = ColumnSubset(source, columns), names[columns]
    groups = labels.pop("group", None)
    raw = False
    with suppress(Exception):  # a damaged raw is no reason to refuse what was asked for
        raw = _has(root, "raw")
    notes = () if not raw else (OTHER_RAW.format("X" if wanted.layer is None else f"layer {wanted.layer!r}"),)
    return Table(
        source, gene_names(names), row_names=rows, groups=groups, columns=labels, repeated=subjects, notes=notes
    )


def _subjects(obs: Any, known: set[str]) -> tuple[str, int] | None:
    """Return a column of obs that names subjects, if there is one; one that cannot be read names nobody."""
    for name in likely(name for name in map(str, obs.columns) if name not in known):
        with suppress(Exception):  # of the many kinds that a damaged column makes libraries raise
            if found := repeated(name, (obs.column(name) if isinstance(obs, Frame) else obs[name]).tolist()):
                return found
    return None


def source_of(element: Any, opened: FileContext, dense: MakeSource) -> Source:
    """Return X or a layer as a source."""
    if not is_group(element):
        return dense(element, opened)
    check_compressed(element, opened)
    return Compressed(element, opened)


RENAME = "adata.var_names_make_unique()"


def gene_names(names: Names, advice: str = f"call {RENAME} and write the file again") -> Names:
    """Refuse names that are not unique, and say what AnnData has for that."""
    if len(set(names)) < names.size:
        seen: set[object] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError("feature names", "differ from each other", f"{twice!r} more than once", advice)
    checked = check_names(names, names.size)
    assert checked is not None
    return checked


def _matrix(root: Any, layer: str | None, opened: FileContext) -> Any:
    layers = sorted(root["layers"].keys()) if "layers" in root else []
    listed = f"it has the layers {list_names(layers)}" if layers else "it has no layers"
    if layer is not None:
        if layer not in layers:
            raise InputError("--layer", "name a layer of the file", repr(layer), listed)
        return root["layers"][layer]
    if not _has(root, "X"):
        raise InputError(opened.argument, "have an X", opened.name, f"name a layer with --layer: {listed}")
    return root["X"]


def _has(root: Any, name: str) -> bool:
    """Whether there is such an element, and not an empty one, as later versions write for None."""
    if name not in root:
        return False
    element = root[name]
    return text(element.attrs.get("encoding-type", "")) != "null" and getattr(element, "shape", ()) is not None


def _column(obs: Frame, name: str, argument: str) -> Labels:
    if name not in obs.columns:
        raise InputError(
            argument, "name a column of obs", repr(name), f"it has {list_names(obs.columns, 20) or 'none'}"
        )
    return obs.column(name)


# AnnData objects: X as it lies in memory or in the file behind it, with the names of genes and cells.


KINDS = ((hdf5.matches_hdf5, hdf5.hdf5_source), (chunked.matches_zarr, chunked.zarr_source))


def matches_anndata(X: Any) -> bool:
    """Whether ``X`` is an AnnData object or a view of one."""
    return type(X).__module__.startswith("anndata.") and hasattr(type(X), "var_names")


def read_anndata(
    adata: Any, feature_names: Any = None, *, layer: str | None = None, raw: bool = False, known: Collection[str] = ()
) -> Table:
    """Take X of an AnnData, or a layer, or X of its ``raw``, which has genes of its own.

    What lies in a file stays there (but a view of such a file is read). Columns ``known`` are not looked at as those
    of subjects.
    """
    holder = adata.raw if raw else adata
    raws = f"test X with use_raw=False, or set adata.raw again from an AnnData after {RENAME.replace('adata.', '')}"
    advice = raws if raw else f"call {RENAME}"
    given = gene_names(as_names(holder.var_names), advice) if feature_names is None else feature_names
    opened = FileContext(type(adata).__name__, "AnnData behind an open file", argument="X")
    if layer is not None and layer not in adata.layers:
        listed = list_names(sorted(adata.layers.keys())) or "none"
        raise InputError("layer", "name a layer of the AnnData", repr(layer), f"it has {listed}")
    with opened.reading():
        X = holder.X if layer is None else adata.layers[layer]
    if X is None:
        raise InputError("X", "have an X", "an AnnData without one", "name a layer with layer=")
    of_rows: dict[str, Any] = {"row_names": as_names(adata.obs_names), "repeated": _subjects(adata.obs, set(known))}
    element = getattr(X, "group", X)  # AnnData's own wrapper of a compressed matrix in a file
    for matches, make_source in KINDS:
        if matches(element) or is_group(element):
            with opened.reading():
                source = source_of(element, opened, make_source)
            return Table(source, check_names(given, source.shape[1]), **of_rows)
    if hasattr(X, "indptr"):
        from sparsemean._data import sparse

        return replace(sparse.read_sparse(X, given), **of_rows)
    return replace(table.from_array(np.asarray(X), given), **of_rows)


# AnnData files through h5py alone: X or a layer, dense or compressed, read where it lies.


def read_h5ad(path: Path, wanted: ReadOptions) -> Table:
    """Open an .h5ad file; the groups of rows are a column of obs."""
    file, opened = open_hdf5(path, ".h5ad file")
    try:
        return read_annotated(file, wanted, opened, hdf5_source)
    except BaseException:
        file.close()
        raise
