"""Zarr arrays of both formats, read in whole chunks, which known codecs decode; those of one read side by side."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._data.chunked import Chunked, StoredArray, check_array, is_group
from sparsemean._data.source import AT_ONCE, Array, Source
from sparsemean._data.table import FileContext, ReadOptions, Table, check_names
from sparsemean._util.files import refuse_endless
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    import zarr
    from zarr.storage import LocalStore

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

    def __init__(self, array: CheckedArray, opened: FileContext) -> None:
        (n, d), files = array.shape, array.files
        whole = min(files[0] * d, files[1] * n) * array.dtype.itemsize <= AT_ONCE
        super().__init__(array, files if whole else array.array.chunks, opened)


class CheckedArray:
    """An array all of whose codecs are known, that leaves nothing undone behind where a chunk cannot be decoded."""

    def __init__(self, array: Any, opened: FileContext) -> None:
        self.array, self.attrs, self.shape, self.dtype = array, array.attrs, array.shape, np.dtype(array.dtype)
        self.files: tuple[int, ...] = array.shards or array.chunks
        """The shape of what one file holds: a chunk, or a shard of several."""
        if 0 in self.files:
            raise opened.broken("chunks with nothing in them")
        opened.check_size(self.shape, self.dtype.itemsize)
        opened.check_held(math.prod(array.chunks) * self.dtype.itemsize)
        if math.prod(self.grid) > MANY_CHUNKS:
            absent, total = self.count_files()
            if absent > MOST_ABSENT * (total - absent):
                raise opened.broken(f"{absent:,} of {total:,} chunks are not in the folder")
        names = [name.removeprefix("numcodecs.") for name in _codecs(array)]
        unknown, packers = [name for name in names if name not in CODECS], [name for name in names if name in PACKERS]
        for rule, wrong in (("use codecs that are known", unknown), ("be packed once", packers[1:])):
            if wrong:
                advice = "write it again with zstd, blosc or gzip"
                raise InputError(opened.argument, rule, f"{opened.name} with {wrong[0]!r}", advice)

    def __getitem__(self, key: slice | tuple[slice, slice] | tuple[()]) -> Array:
        try:
            return np.asarray(self.array[key])
        except Exception:
            _finish_others()
            raise

    @property
    def grid(self) -> list[int]:
        """How many files there are along each axis if all are there."""
        return [-(-size // step) for size, step in zip(self.shape, self.files, strict=True)]

    def count_files(self) -> tuple[int, int]:
        """Return how many files are not there, of an array in a folder, and how many there can be; 0 elsewhere."""
        root, grid = getattr(self.array.store, "root", None), self.grid
        if not isinstance(root, Path):
            return 0, 0
        folder = root / self.array.path
        names = (Path(at, name).relative_to(folder).as_posix() for at, _, files in os.walk(folder) for name in files)
        places = (re.split("[/.]", key[1]) for name in names if (key := KEY.fullmatch(name)))
        there = sum(len(at) == len(grid) and all(int(k) < n for k, n in zip(at, grid, strict=True)) for at in places)
        return math.prod(grid) - there, math.prod(grid)


class CheckedGroup:
    """A group that hands out its arrays as above."""

    def __init__(self, group: zarr.Group, opened: FileContext) -> None:
        self.group, self.opened, self.attrs = group, opened, group.attrs

    def __getitem__(self, name: str) -> CheckedArray | CheckedGroup:
        return checked(self.group[name], self.opened)

    def __contains__(self, name: str) -> bool:
        return name in self.group

    def keys(self) -> list[str]:
        """Return the names of all members."""
        return [name for name, _ in _children(self.group)]

    def listing(self) -> Iterator[tuple[str, object]]:
        """Yield everything below; what a folder holds is listed once, as links may lead back to it."""
        waiting: list[tuple[str, Any]] = [("", self.group)]
        seen = set[str]()
        while waiting:
            path, group = waiting.pop()
            folder = os.path.realpath(_folder(group))
            for name, element in _children(group) if folder not in seen else ():
                yield f"{path}{name}", element
                if is_group(element):
                    waiting.append((f"{path}{name}/", element))
            seen.add(folder)


def checked(element: Any, opened: FileContext) -> CheckedArray | CheckedGroup:
    """Return what is to be trusted of an array or a group."""
    if isinstance(element, CheckedArray | CheckedGroup):
        return element
    return CheckedGroup(element, opened) if hasattr(element, "keys") else CheckedArray(element, opened)


def _folder(group: Any) -> Path:
    """Return the folder of a group."""
    return Path(group.store.root, group.path)


def _children(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a group of a folder holds, one after the other: of those that fail side by side zarr prints all."""
    if group.metadata.consolidated_metadata is not None:
        yield from group.members()
        return
    for name in sorted(path.name for path in _folder(group).iterdir()):
        element = group.get(name)
        if element is not None:
            yield name, element


def matches_zarr(X: object) -> bool:
    """Whether ``X`` is a zarr array."""
    return type(X).__module__.startswith("zarr.") and hasattr(type(X), "chunks")


def read_zarr_array(array: zarr.Array[Any], feature_names: object = None) -> Table:
    """Take an open array."""
    opened = FileContext(str(array.store), "zarr array", argument="X")
    with opened.reading():
        known = CheckedArray(array, opened)
        return Table(zarr_source(known, opened), check_names(feature_names, array.shape[1]), _absent(known))


def read_zarr(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open the array that is meant in a .zarr folder; one that holds an AnnData is read as such."""
    zarr = require("zarr", extra="zarr", purpose="reading .zarr folders")
    from sparsemean._data.anndata import read_stored

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that not all implementations share
        root = checked(zarr.open(_store(path), mode="r"), opened)
        return read_stored(root, wanted, opened, zarr_source, remarks=lambda element: _absent(checked(element, opened)))


def zarr_source(array: StoredArray, opened: FileContext) -> Source:
    """Return an array as a source."""
    known = array if isinstance(array, CheckedArray) else CheckedArray(array, opened)
    check_array(known, opened)
    return Zarr(known, opened)


def _codecs(array: zarr.Array[Any]) -> Iterator[str]:
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


def _absent(element: CheckedArray | CheckedGroup) -> tuple[str, ...]:
    """Say how many chunks are not there: empty ones are not written, but a copy that was stopped looks the same."""
    names = ("data", "indices", "indptr")
    parts = [element[name] for name in names] if isinstance(element, CheckedGroup) else [element]
    arrays = [part for part in parts if isinstance(part, CheckedArray)]
    absent, total = (sum(count) for count in zip(*(array.count_files() for array in arrays), strict=True))
    if not absent:
        return ()
    value = arrays[0].array.fill_value
    meant = "are missing values" if value != value else f"hold its fill value, {value}"
    return (f"{absent:,} of {total:,} chunks are not in the folder, which by the format of zarr {meant}",)


def _store(path: Path) -> LocalStore:
    """Return a folder as zarr sees it, in which nothing is opened that is no file: it could be read for ever."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    class Folder(LocalStore):
        """Zarr's own store of a folder, which looks at each file before it opens it."""

        def __reduce__(self) -> tuple[Callable[[Path], LocalStore], tuple[Path]]:  # a class made here cannot be found
            return _store, (path,)

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            """Return what is in a file; one without a size, which the kernel may make up without end, holds nothing."""
            file = Path(self.root, key)
            refuse_endless(file)
            prototype = prototype or default_buffer_prototype()
            if not file.is_file():
                return None  # at once: of chunks that were never written there may be thousands
            if file.stat().st_size == 0:
                return prototype.buffer.from_bytes(b"")
            return await super().get(key, prototype, byte_range)

    return Folder(path, read_only=True)
