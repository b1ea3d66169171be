"""Arrays in chunks: what HDF5 and zarr share, and zarr, decoded by known codecs only."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean._data.source import AT_ONCE, Along, Array, Run, Source, runs
from sparsemean._data.table import OF_ROWS, FileContext, ReadOptions, Table, check_matrix, check_names
from sparsemean._util.checks import list_names
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require


def is_group(element: Any) -> bool:
    """Whether an element of a file holds others, rather than values."""
    return hasattr(element, "keys") and hasattr(element, "attrs")


def is_matrix(array: Any) -> bool:
    """Whether an array is a matrix of numbers."""
    return len(getattr(array, "shape", None) or ()) == 2 and getattr(array.dtype, "kind", "V") in "fiub"


def text(value: Any) -> str:
    """Return an attribute, which older files hold as bytes, as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def sparse_format(group: Any) -> str:
    """Return "csr" or "csc" for a group that holds a compressed matrix, else nothing."""
    said = group.attrs.get("h5sparse_format", group.attrs.get("encoding-type", ""))
    form = text(said).removesuffix("_matrix")
    return form if form in ("csr", "csc") else ""


def is_annotated(group: Any) -> bool:
    """Whether a group is an AnnData."""
    return text(group.attrs.get("encoding-type", "")) == "anndata"


Members = list[tuple[str, Any]]


def pick(root: Any, name: str | None, listing: Callable[[], Members], opened: FileContext) -> Any:
    """Return the array called ``name``, or the only matrix in the ``listing`` of all elements."""
    if name is not None and name.strip("/") and name in root:
        element = root[name]
        if sparse_format(element) if is_group(element) else is_matrix(element):
            return element
    members = listing()
    found = {label: element for label, element in members if not is_group(element) and is_matrix(element)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if not found:
        kinds = sorted({_described(element) for _, element in members if not is_group(element)})
        received = f"{opened.name} with {', '.join(kinds[:3]) or 'no arrays'}"
        raise InputError(opened.argument, "hold a matrix of numbers", received)
    if name is None:
        raise InputError(
            "--dataset", "name one of several arrays", "none", f"{opened.name} has {list_names(sorted(found))}"
        )
    advice = f"{opened.name} has {list_names(sorted(found))}"
    raise InputError("--dataset", "name a matrix of numbers in the file", repr(name), advice)


def _described(array: Any) -> str:
    if hasattr(array, "filename"):
        return "links to other files"
    if not hasattr(array, "shape"):
        return "types"
    return f"{len(array.shape or ())}-D arrays of {np.dtype(array.dtype)}"


# Arrays on disk that lie in chunks: which way to read them so that none is read twice.

MOST_AT_ONCE = 4 * AT_ONCE


class Chunked(Source):
    """A two-dimensional array of h5py or zarr, read by slices."""

    def __init__(self, array: Any, chunks: tuple[int, int], opened: FileContext) -> None:
        self.array, self.opened = array, opened
        self.shape, self.dtype = (int(array.shape[0]), int(array.shape[1])), np.dtype(array.dtype)
        self.together = max(1, min(int(chunks[1]), self.shape[1]))
        self.along, self.grain = way_to_read(self.shape, chunks, self.dtype.itemsize)

    def block(self, rows: slice, columns: slice) -> Array:
        """Read some rows of some columns."""
        with self.opened.reading():
            return np.asarray(self.array[rows, columns])

    def runs(self, columns: IntArray) -> list[Run]:
        """Read columns of one chunk together, and no more at once than a piece of the matrix."""
        n, d = self.shape
        at_once = AT_ONCE // (n * self.dtype.itemsize) // self.together * self.together
        return runs(columns, self.together, max(self.together, at_once) if self.along == "columns" else d)


def check_array(array: Any, opened: FileContext) -> None:
    """Refuse what is no matrix of numbers, or claims to be larger than the file can hold."""
    if not hasattr(array, "shape"):  # a type that HDF5 stores under a name
        raise InputError(opened.argument, "hold a matrix of numbers", f"{opened.name} with {_described(array)}")
    check_matrix(tuple(array.shape or ()), np.dtype(array.dtype))
    opened.check_size(tuple(map(int, array.shape)), np.dtype(array.dtype).itemsize)
    opened.check_lines(array.shape)


def way_to_read(shape: tuple[int, int], chunks: tuple[int, int], itemsize: int) -> tuple[Along, int]:
    """Return the direction in which whole chunks are read with little in memory, and how many lines lie together.

    Columns are preferred, as some passes need all rows of a feature.

    Examples
    --------
    >>> way_to_read((10_000, 20_000), (313, 625), 4), way_to_read((1_000_000, 1000), (1000, 1000), 8)
    (('columns', 625), ('rows', 1000))
    """
    n, d = shape
    high, wide = max(1, min(chunks[0], n)), max(1, min(chunks[1], d))
    down, across = n * wide * itemsize, high * d * itemsize
    if down <= AT_ONCE:
        return "columns", wide
    if across <= AT_ONCE or across < down:
        return "rows", high
    # chunks too large to be read whole are read again rather than held
    return "columns", wide if down <= MOST_AT_ONCE else max(1, min(wide, MOST_AT_ONCE // (n * itemsize)))


# Zarr arrays of both formats, read in whole chunks: the library decodes those of one read side by side.

CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "json2", "lz4", "lzma", "packbits", "pcodec", "quantize",
    "sharding_indexed", "shuffle", "transpose", "vlen-bytes", "vlen-utf8", "zlib", "zstd",
}  # fmt: skip
"""What may stand between bytes on disk and values: nothing that runs what it finds there, as pickle does."""
PACKERS = {"blosc", "bz2", "gzip", "lz4", "lzma", "pcodec", "zlib", "zstd"}
"""Those that make bytes fewer: one inside another would make a few of them stand for any number."""
MANY_CHUNKS = 5000
"""Chunks that may all be absent: zarr takes as long for each as for one that is there."""
MOST_ABSENT = 100
"""Chunks that may be absent for each that is there, where there are many."""
KEY = re.compile(r"(?:c[/.])?(\d+(?:[/.]\d+)*)", re.ASCII)
"""The name of a chunk below the folder of its array, in both formats."""


class Zarr(Chunked):
    """A zarr array. Shards, files of several chunks, are read whole where a line of them is not too much."""

    def __init__(self, array: Any, opened: FileContext) -> None:
        (n, d), files = array.shape, _files(array)
        whole = min(files[0] * d, files[1] * n) * array.dtype.itemsize <= AT_ONCE
        super().__init__(array, files if whole else array.chunks, opened)


class _Array:
    """An array all of whose codecs are known, that leaves nothing undone behind where a chunk cannot be decoded."""

    def __init__(self, array: Any, opened: FileContext) -> None:
        self._array = array
        if 0 in _files(array):
            raise opened.broken("chunks with nothing in them")
        opened.check_size(array.shape, array.dtype.itemsize)
        opened.check_held(math.prod(array.chunks) * array.dtype.itemsize)
        if math.prod(_grid(array)) > MANY_CHUNKS:
            absent, total = _counted(array)
            if absent > MOST_ABSENT * (total - absent):
                raise opened.broken(f"{absent:,} of {total:,} chunks are not in the folder")
        names = [name.removeprefix("numcodecs.") for name in _codecs(array)]
        unknown, packers = [name for name in names if name not in CODECS], [name for name in names if name in PACKERS]
        for rule, wrong in (("use codecs that are known", unknown), ("be packed once", packers[1:])):
            if wrong:
                advice = "write it again with zstd, blosc or gzip"
                raise InputError(opened.argument, rule, f"{opened.name} with {wrong[0]!r}", advice)

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

    def __init__(self, group: Any, opened: FileContext) -> None:
        self._group, self._opened, self.attrs = group, opened, group.attrs

    def __getitem__(self, name: str) -> Any:
        return _checked(self._group[name], self._opened)

    def __contains__(self, name: str) -> bool:
        return name in self._group

    def keys(self) -> list[str]:
        return [name for name, _ in _children(self._group)]


def _checked(element: Any, opened: FileContext) -> _Array | _Group:
    return _Group(element, opened) if is_group(element) else _Array(element, opened)


def _children(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a group of a folder holds, one after the other: of those that fail side by side zarr prints all."""
    if group.metadata.consolidated_metadata is not None:
        yield from group.members()
        return
    for name in sorted(path.name for path in (group.store.root / group.path).iterdir()):
        element = group.get(name)
        if element is not None:
            yield name, element


def _listing(root: Any) -> Members:
    """Return everything below a group; what a folder holds is listed once, as links may lead back to it."""
    out: Members = []
    waiting, seen = [("", root)], set[str]()
    while waiting:
        path, group = waiting.pop()
        folder = os.path.realpath(group.store.root / group.path)
        for name, element in _children(group) if folder not in seen else ():
            out.append((f"{path}{name}", element))
            if is_group(element):
                waiting.append((f"{path}{name}/", element))
        seen.add(folder)
    return out


def matches_zarr(X: Any) -> bool:
    """Whether ``X`` is a zarr array."""
    return type(X).__module__.startswith("zarr.") and hasattr(type(X), "chunks")


def read_zarr_array(array: Any, feature_names: Any = None) -> Table:
    """Take an open array."""
    opened = FileContext(str(array.store), "zarr array", argument="X")
    with opened.reading():
        array = _Array(array, opened)
        return Table(zarr_source(array, opened), check_names(feature_names, array.shape[1]), _absent(array))


def read_zarr(path: Path, wanted: ReadOptions) -> Table:
    """Open the array that is meant in a .zarr folder; one that holds an AnnData is read as such."""
    zarr = require("zarr", extra="zarr", purpose="reading .zarr folders")
    from sparsemean._data.zarr_folder import Folder

    opened = FileContext(path.name, ".zarr folder", _bytes_in(path))
    with opened.reading(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that not all implementations share
        root = zarr.open(Folder(path, read_only=True), mode="r")
        if is_group(root) and wanted.dataset is None and is_annotated(root):
            from sparsemean._data import anndata

            root = _Group(root, opened)
            table = anndata.read_annotated(root, wanted, opened, zarr_source)
            absent = _absent(root["X" if wanted.layer is None else f"layers/{wanted.layer}"])
            return replace(table, notes=(*table.notes, *absent))
        wanted.refuse(*OF_ROWS, "select", "drop", "layer", kind=".zarr arrays")
        if not is_group(root):
            wanted.refuse("dataset", kind=".zarr folders that are one array")
            element = _checked(root, opened)
        else:
            element = _checked(pick(root, wanted.dataset, lambda: _listing(root), opened), opened)
        return Table(_source(element, opened), notes=_absent(element))


def _source(element: Any, opened: FileContext) -> Source:
    """Return an array, or a group that is a compressed matrix, as a source."""
    if not is_group(element):
        return zarr_source(element, opened)
    from sparsemean._data.sparse import Compressed

    return Compressed(element, opened)


def zarr_source(array: Any, opened: FileContext) -> Source:
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
    import asyncio  # where it is used: it takes its time

    from zarr.core.sync import sync

    async def others() -> None:
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    sync(others())


def _files(array: Any) -> Any:
    """Return the shape of what one file holds: a chunk, or a shard of several."""
    return getattr(array, "shards", None) or array.chunks


def _grid(array: Any) -> list[int]:
    """Return how many files there are along each axis if all are there."""
    return [-(-size // step) for size, step in zip(array.shape, _files(array), strict=True)]


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
    grid = _grid(array)
    names = (Path(where, name).relative_to(folder).as_posix() for where, _, files in os.walk(folder) for name in files)
    places = (re.split("[/.]", key[1]) for name in names if (key := KEY.fullmatch(name)))
    there = sum(len(at) == len(grid) and all(int(k) < size for k, size in zip(at, grid, strict=True)) for at in places)
    return math.prod(grid) - there, math.prod(grid)


def _bytes_in(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0
