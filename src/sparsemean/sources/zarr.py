"""Zarr arrays of both formats, read in whole chunks: the library decodes those of one read side by side."""

from __future__ import annotations

import asyncio
import math
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsemean.errors import InputError, require
from sparsemean.sources.chunks import Chunked, check_array
from sparsemean.sources.inside import is_annotated, is_group, pick
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import AT_ONCE, Source
from sparsemean.sources.table import Table, check_names
from sparsemean.sources.wanted import Wanted

CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "json2", "lz4", "lzma", "packbits", "pcodec", "quantize",
    "sharding_indexed", "shuffle", "transpose", "vlen-bytes", "vlen-utf8", "zlib", "zstd",
}  # fmt: skip
"""What may stand between bytes on disk and values: nothing that runs what it finds there, as pickle does."""
KEY = re.compile(r"(?:c[/.])?(\d+(?:[/.]\d+)*)", re.ASCII)
"""The name of a chunk below the folder of its array, in both formats."""


class Zarr(Chunked):
    """A zarr array. Shards, files of several chunks, are read whole where a line of them is not too much."""

    def __init__(self, array: Any, opened: Opened) -> None:
        (n, d), files = array.shape, _files(array)
        whole = min(files[0] * d, files[1] * n) * array.dtype.itemsize <= AT_ONCE
        super().__init__(array, files if whole else array.chunks, opened)


class _Array:
    """An array all of whose codecs are known, that leaves nothing undone behind where a chunk cannot be decoded."""

    def __init__(self, array: Any, opened: Opened) -> None:
        self._array = array
        if 0 in _files(array):
            raise opened.broken("chunks with nothing in them")
        for name in _codecs(array):
            if name.removeprefix("numcodecs.") not in CODECS:
                advice = "write it again with zstd, blosc or gzip"
                raise InputError(opened.argument, "use codecs that are known", f"{opened.name} with {name!r}", advice)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for where there is no array yet: in a copy that is being made
            raise AttributeError(name)
        return getattr(self._array, name)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._array[key]
        except Exception:
            _finish_others()
            raise


class _Group:
    """A group that hands out its arrays as above."""

    def __init__(self, group: Any, opened: Opened) -> None:
        self._group, self._opened, self.attrs = group, opened, group.attrs

    def __getitem__(self, name: str) -> Any:
        return _checked(self._group[name], self._opened)

    def __contains__(self, name: str) -> bool:
        return name in self._group

    def keys(self) -> list[str]:
        return list(self._group.keys())


def _checked(element: Any, opened: Opened) -> _Array | _Group:
    return _Group(element, opened) if is_group(element) else _Array(element, opened)


def takes(X: Any) -> bool:
    """Whether ``X`` is a zarr array."""
    return type(X).__module__.startswith("zarr.") and hasattr(type(X), "chunks")


def from_object(array: Any, feature_names: Any = None) -> Table:
    """Take an open array."""
    opened = Opened(str(array.store), "zarr array", argument="X")
    with opened.reading():
        array = _Array(array, opened)
        return Table(source_of(array, opened), check_names(feature_names, array.shape[1]), _absent(array))


def read(path: Path, wanted: Wanted) -> Table:
    """Open the array that is meant in a .zarr folder; one that holds an AnnData is read as such."""
    zarr = require("zarr", extra="zarr", purpose="reading .zarr folders")
    opened = Opened(path.name, ".zarr folder", _bytes_in(path))
    with opened.reading(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that not all implementations share
        from sparsemean.sources import folder

        root = zarr.open(folder.opened(path), mode="r")
        if is_group(root) and wanted.dataset is None and is_annotated(root):
            from sparsemean.sources import annotated

            root = _Group(root, opened)
            table = annotated.read(root, wanted, opened, source_of)
            return replace(table, notes=_absent(root["X" if wanted.layer is None else f"layers/{wanted.layer}"]))
        wanted.refuse("id", "group", "select", "drop", "layer", kind=".zarr arrays")
        if not is_group(root):
            wanted.refuse("dataset", kind=".zarr folders that are one array")
            element = _checked(root, opened)
        else:
            element = _checked(pick(root, wanted.dataset, lambda: list(root.members(max_depth=None)), opened), opened)
        return Table(_source(element, opened), notes=_absent(element))


def _source(element: Any, opened: Opened) -> Source:
    """Return an array, or a group that is a compressed matrix, as a source."""
    if not is_group(element):
        return source_of(element, opened)
    from sparsemean.sources.compressed import Compressed

    return Compressed(element, opened)


def source_of(array: Any, opened: Opened) -> Source:
    """Return an array as a source."""
    check_array(array, opened)
    return Zarr(array, opened)


def _codecs(array: Any) -> Iterator[str]:
    """Yield the names of all codecs and filters that decode an array, of shards those inside too."""
    metadata = array.metadata
    if metadata.zarr_format == 2:
        yield from (codec.codec_id for codec in (*(metadata.filters or ()), metadata.compressor) if codec is not None)
        return
    waiting = list(metadata.codecs)
    while waiting:
        codec = waiting.pop()
        yield str(codec.to_dict()["name"])
        waiting += [*getattr(codec, "codecs", ()), *getattr(codec, "index_codecs", ())]


def _finish_others() -> None:
    """Let reads end that go on where one has failed: their own failures would be printed later, each at length."""
    from zarr.core.sync import sync

    async def others() -> None:
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    sync(others())


def _files(array: Any) -> Any:
    """Return the shape of what one file holds: a chunk, or a shard of several."""
    return getattr(array, "shards", None) or array.chunks


def _absent(element: Any) -> tuple[str, ...]:
    """Say how many chunks are not there: empty ones are not written, but a copy that was stopped looks the same."""
    arrays = [element[name] for name in ("data", "indices", "indptr")] if is_group(element) else [element]
    counts = [_counted(array) for array in arrays]
    absent, total = (sum(count) for count in zip(*counts, strict=True))
    if not absent:
        return ()
    value = arrays[0].fill_value
    meant = "are missing values" if value != value else f"hold its fill value, {value}"
    return (f"{absent:,} of {total:,} chunks are not in the folder, which by the format of zarr {meant}",)


def _counted(array: Any) -> tuple[int, int]:
    """Return how many files of an array in a folder are not there, and how many there can be; 0 elsewhere."""
    root = getattr(array.store, "root", None)
    if not isinstance(root, Path):
        return 0, 0
    folder = root / array.path
    grid = [-(-size // step) for size, step in zip(array.shape, _files(array), strict=True)]
    names = (Path(where, name).relative_to(folder).as_posix() for where, _, files in os.walk(folder) for name in files)
    places = (re.split("[/.]", key[1]) for name in names if (key := KEY.fullmatch(name)))
    there = sum(len(at) == len(grid) and all(int(k) < size for k, size in zip(at, grid, strict=True)) for at in places)
    return math.prod(grid) - there, math.prod(grid)


def _bytes_in(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0
