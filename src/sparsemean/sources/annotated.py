"""What AnnData lays down in a file, .h5ad or .zarr: X or a layer with the names of genes and cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparsemean.errors import InputError
from sparsemean.sources.annotations import Frame, Labels
from sparsemean.sources.compressed import Compressed, check_compressed
from sparsemean.sources.inside import is_group, text
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import Chosen, Source
from sparsemean.sources.table import Names, Table, as_names, check_names
from sparsemean.sources.wanted import Wanted, chosen, shown

MakeSource = Callable[[Any, Opened], Source]


def read(root: Any, wanted: Wanted, opened: Opened, dense: MakeSource) -> Table:
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
            groups = None if wanted.group is None else _column(obs, wanted.group, "--group")
    if wanted.select or wanted.drop:
        columns = chosen(names.tolist(), replace(wanted, id=None, group=None))
        source, names = Chosen(source, columns), names[columns]
    return Table(source, gene_names(names), row_names=rows, groups=groups)


def source_of(element: Any, opened: Opened, dense: MakeSource) -> Source:
    """Return X or a layer as a source."""
    if not is_group(element):
        return dense(element, opened)
    check_compressed(element, opened)
    return Compressed(element, opened)


def gene_names(names: Names) -> Names:
    """Refuse names that are not unique, and say what AnnData has for that."""
    if len(set(names)) < names.size:
        seen: set[object] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        advice = "call adata.var_names_make_unique() and write the file again"
        raise InputError("feature names", "differ from each other", f"{twice!r} more than once", advice)
    checked = check_names(names, names.size)
    assert checked is not None
    return checked


def _matrix(root: Any, layer: str | None, opened: Opened) -> Any:
    layers = sorted(root["layers"].keys()) if "layers" in root else []
    listed = f"it has the layers {shown(layers)}" if layers else "it has no layers"
    if layer is not None:
        if layer not in layers:
            raise InputError("--layer", "name a layer of the file", repr(layer), listed)
        return root["layers"][layer]
    if (
        "X" not in root
        or text(root["X"].attrs.get("encoding-type", "")) == "null"
        or getattr(root["X"], "shape", ()) is None
    ):
        raise InputError(opened.argument, "have an X", opened.name, f"name a layer with --layer: {listed}")
    return root["X"]


def _column(obs: Frame, name: str, argument: str) -> Labels:
    if name not in obs.columns:
        raise InputError(argument, "name a column of obs", repr(name), f"it has {shown(obs.columns, 20) or 'none'}")
    return obs.column(name)
