"""Zarr arrays of both formats, read in whole chunks: the library decodes those of one read side by side."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from sparsemean.errors import require
from sparsemean.sources.chunks import Chunked, check_array
from sparsemean.sources.inside import is_annotated, is_group, pick
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import AT_ONCE, Source
from sparsemean.sources.table import Table, check_names
from sparsemean.sources.wanted import Wanted


class Zarr(Chunked):
    """A zarr array. Shards, files of several chunks, are read whole where a line of them is not too much."""

    def __init__(self, array: Any, opened: Opened) -> None:
        chunks, (n, d) = array.chunks, array.shape
        shards = getattr(array, "shards", None)
        if shards is not None and min(shards[0] * d, shards[1] * n) * array.dtype.itemsize <= AT_ONCE:
            chunks = shards
        super().__init__(array, chunks, opened)


def takes(X: Any) -> bool:
    """Whether ``X`` is a zarr array."""
    return type(X).__module__.startswith("zarr.") and hasattr(type(X), "chunks")


def from_object(array: Any, feature_names: Any = None) -> Table:
    """Take an open array."""
    opened = Opened(str(array.store), "zarr array", argument="X")
    with opened.reading():
        return Table(source_of(array, opened), check_names(feature_names, array.shape[1]))


def read(path: Path, wanted: Wanted) -> Table:
    """Open the array that is meant in a .zarr folder; one that holds an AnnData is read as such."""
    zarr = require("zarr", extra="zarr", purpose="reading .zarr folders")
    opened = Opened(path.name, ".zarr folder", _bytes_in(path))
    with opened.reading(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that not all implementations share
        root = zarr.open(path, mode="r")
        if is_group(root) and wanted.dataset is None and is_annotated(root):
            from sparsemean.sources import annotated

            return annotated.read(root, wanted, opened, source_of)
        wanted.refuse("id", "group", "select", "drop", "layer", kind=".zarr arrays")
        if not is_group(root):
            wanted.refuse("dataset", kind=".zarr folders that are one array")
            return Table(source_of(root, opened))
        element = pick(root, wanted.dataset, lambda: list(root.members(max_depth=None)), opened)
        if is_group(element):
            from sparsemean.sources.compressed import Compressed

            return Table(Compressed(element, opened))
        return Table(source_of(element, opened))


def source_of(array: Any, opened: Opened) -> Source:
    """Return an array as a source."""
    check_array(array, opened)
    return Zarr(array, opened)


def _bytes_in(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0
