"""Arrays in chunks: what HDF5 and zarr share, compressed matrices, and zarr, decoded by known codecs only."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import AT_ONCE, Along, Array, Run, Source, runs
from sparsemean._data.table import FileContext, ReadOptions, Table, as_text, check_feature_names, check_matrix
from sparsemean._util.files import refuse_endless
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    import zarr
    from scipy.sparse import csc_array, csr_array
    from zarr.storage import LocalStore


class StoredArray(Protocol):
    """An array of h5py or zarr, whose values are read when they are asked for."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    attrs: Mapping[str, object]

    def __getitem__(self, key: slice | tuple[slice, slice] | tuple[()], /) -> Array: ...


class StoredGroup(Protocol):
    """A group of h5py or zarr, whose members are groups and arrays."""

    attrs: Mapping[str, Any]

    def keys(self) -> Iterable[str]: ...

    def __contains__(self, name: str, /) -> bool: ...

    def __getitem__(self, name: Any, /) -> Any: ...


MakeSource = Callable[[StoredArray, FileContext], Source]


def is_group(element: object) -> TypeGuard[StoredGroup]:
    """Whether an element of a file holds others, rather than values."""
    return hasattr(element, "keys") and hasattr(element, "attrs")


def sparse_format(group: StoredGroup) -> str:
    """Return "csr" or "csc" for a group that holds a compressed matrix, else nothing."""
    form = as_text(group.attrs.get("encoding-type", "")).removesuffix("_matrix")
    return form if form in ("csr", "csc") else ""


def pick(root: StoredGroup, name: str | None, opened: FileContext) -> Any:
    """Return the array, or compressed matrix, that is called ``name``, by its path, or the only one in ``root``."""
    if name is not None and name.strip("/") and name in root and _holds_matrix(root[name]):
        return root[name]
    with opened.parsing():  # a damaged group has names of what it cannot find
        members = {label: root[label] for label in root.keys()}  # noqa: SIM118
    found = [label for label, element in members.items() if _holds_matrix(element)]
    if name is None and not found:
        kinds = sorted({_described(element) for element in members.values()})
        received = f"{opened.name} with {', '.join(kinds[:3]) or 'nothing in it'}"
        advice = "--dataset GROUP/NAME names what lies in a group"
        raise InputError(opened.argument, "hold a matrix of numbers", received, advice if "groups" in kinds else "")
    return members[opened.choose(sorted(found), name, "arrays", "name a matrix of numbers in the file")]


def _holds_matrix(element: object) -> bool:
    """Whether an element is a matrix of numbers, dense or compressed."""
    if is_group(element):
        return bool(sparse_format(element))
    shape, dtype = getattr(element, "shape", None), getattr(element, "dtype", None)
    return len(shape or ()) == 2 and getattr(dtype, "kind", "V") in "fiub"


def _described(element: object) -> str:
    if is_group(element):
        return "groups"
    if not hasattr(element, "shape") or not hasattr(element, "dtype"):
        return "types"
    return f"{len(element.shape or ())}-D arrays of {np.dtype(element.dtype)}"


# Arrays that lie in chunks: which way to read them so that none is read twice.

MOST_AT_ONCE = 4 * AT_ONCE


class Chunked(Source):
    """A two-dimensional array of h5py or zarr, read by slices."""

    def __init__(self, array: StoredArray, chunks: tuple[int, ...], opened: FileContext) -> None:
        self.array, self.opened = array, opened
        self.shape, self.dtype = (int(array.shape[0]), int(array.shape[1])), np.dtype(array.dtype)
        high, wide = chunks
        self.together = max(1, min(int(wide), self.shape[1]))
        self.along, self.grain = way_to_read(self.shape, (high, wide), self.dtype.itemsize)

    def block(self, rows: slice, columns: slice) -> Array:
        """Read some rows of some columns."""
        with self.opened.reading():
            return np.asarray(self.array[rows, columns])

    def runs(self, columns: IntArray) -> list[Run]:
        """Read columns of one chunk together, and no more at once than a piece of the matrix."""
        n, d = self.shape
        at_once = AT_ONCE // (n * self.dtype.itemsize) // self.together * self.together
        return runs(columns, self.together, max(self.together, at_once) if self.along == "columns" else d)


def check_stored_matrix(array: StoredArray, opened: FileContext) -> None:
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


# Compressed matrices, read in stretches of their entries.

GAP = 1_000_000
"""Bytes between columns that are read along: a read of its own costs as much."""

AT_A_TIME = 4
"""What is held of a piece while it is counted: the piece, the next one being read, and what either is turned from."""


def source_of(element: Any, opened: FileContext, dense: MakeSource) -> Source:
    """Return a matrix as a source: a compressed one, or an array that ``dense`` makes one of."""
    if not is_group(element):
        return dense(element, opened)
    if not sparse_format(element):
        raise InputError(opened.argument, "hold a matrix that is dense, CSR or CSC", opened.name)
    return Compressed(element, opened)


class Compressed(Source):
    """A group of ``data``, ``indices`` and ``indptr``; only ``indptr`` is kept in memory."""

    sparse = True

    def __init__(self, group: StoredGroup, opened: FileContext) -> None:
        self.opened = opened
        with opened.reading(), opened.parsing():
            self.by_rows = sparse_format(group) == "csr"
            n, d = (int(size) for size in group.attrs["shape"])
            self.data, self.indices, stored = (self._part(group, name) for name in ("data", "indices", "indptr"))
            check_matrix((n, d), np.dtype(self.data.dtype))
            opened.check_lines((n, d))
            major, self.minor = (n, d) if self.by_rows else (d, n)
            if stored.shape[0] != major + 1:
                raise opened.broken(f"indptr of {stored.shape[0]} where {major + 1} are needed")
            self.offsets: IntArray = np.asarray(stored[:]).astype(np.int64)
        self.shape, self.along = (n, d), "rows" if self.by_rows else "columns"
        # scipy knows no half precision, and its kernels read native numbers only
        on_disk = np.dtype(self.data.dtype)
        self.dtype = np.dtype("f4") if on_disk == np.float16 else on_disk.newbyteorder("=")
        self.index_type = np.dtype(np.int32 if self.minor < 2**31 else np.int64)
        least = min(self.data.shape[0], self.indices.shape[0])
        if self.offsets[0] != 0 or self.offsets[-1] > least or (np.diff(self.offsets) < 0).any():
            raise opened.broken(f"indptr does not rise from 0 to at most {least}")

    def _part(self, group: StoredGroup, name: str) -> StoredArray:
        """Return one of the three arrays, unless it is not what its name says."""
        array: StoredArray = group[name]
        kind = np.dtype(array.dtype).kind
        if len(array.shape) != 1 or (kind not in "iu" and name != "data"):
            raise self.opened.broken(f"a compressed matrix of {len(array.shape)}-D arrays of {array.dtype}")
        self.opened.check_size(array.shape, np.dtype(array.dtype).itemsize)
        return array

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value, stored or not, takes while it is read, on average."""
        n, d = self.shape
        an_entry = self.dtype.itemsize + self.index_type.itemsize
        return max(1.0, float(self.offsets[-1])) * AT_A_TIME * an_entry / (n * d)

    def block(self, rows: slice, columns: slice) -> csc_array:
        """Read some rows of some columns, repeated entries added up."""
        made = self._read(rows, columns).tocsc()
        made.sum_duplicates()
        return made

    def runs(self, columns: IntArray) -> list[Run]:
        """Read rows once, however many columns are wanted; of columns those that are not far apart together."""
        n, d = self.shape
        if self.by_rows:
            return runs(columns, d, d)
        a_column = n * self.bytes_a_value
        return runs(columns, max(1, int(GAP / a_column)), max(1, int(AT_ONCE / a_column)))

    def _read(self, rows: slice, columns: slice) -> csr_array | csc_array:
        from scipy.sparse import csc_array, csr_array

        major, minor = (rows, columns) if self.by_rows else (columns, rows)
        offsets = self.offsets[major.start : major.stop + 1]
        data, indices = self._stretch(int(offsets[0]), int(offsets[-1]))
        lines = major.stop - major.start
        index_type = self.index_type if data.size < 2**31 else np.dtype(np.int64)
        parts = (data, indices.astype(index_type, copy=False), (offsets - offsets[0]).astype(index_type))
        if self.by_rows:
            by_rows = csr_array(parts, shape=(lines, self.minor))
            return by_rows if minor.stop - minor.start == self.minor else by_rows[:, minor]
        by_columns = csc_array(parts, shape=(self.minor, lines))
        return by_columns if minor.stop - minor.start == self.minor else by_columns[minor]

    def _stretch(self, first: int, last: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Read stored values and their indices, none of them out of range."""
        with self.opened.reading():
            data = np.asarray(self.data[first:last]).astype(self.dtype, copy=False)
            indices = np.asarray(self.indices[first:last])
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= self.minor):
            raise self.opened.broken(f"an index of {indices.max()} where there are {self.minor}")
        if data.size != last - first or indices.size != last - first:
            raise self.opened.broken(f"{data.size} values where {last - first} are needed")
        return data, indices


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

    def __init__(self, array: CheckedArray, opened: FileContext) -> None:
        (n, d), files = array.shape, array.files
        whole = min(files[0] * d, files[1] * n) * array.dtype.itemsize <= AT_ONCE
        super().__init__(array, files if whole else array.array.chunks, opened)


class CheckedArray:
    """An array all of whose codecs are known, that leaves nothing undone behind where a chunk cannot be decoded."""

    def __init__(self, array: Any, opened: FileContext) -> None:
        self.array, self.shape, self.dtype = array, array.shape, np.dtype(array.dtype)
        self.attrs: Mapping[str, Any] = array.attrs
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
        self.group, self.opened = group, opened
        self.attrs: Mapping[str, Any] = group.attrs

    def __getitem__(self, name: str) -> CheckedArray | CheckedGroup:
        return _checked(self.group[name], self.opened)

    def __contains__(self, name: str) -> bool:
        return name in self.group

    def keys(self) -> list[str]:
        """Return the names of all members."""
        return [name for name, _ in _children(self.group)]


def _checked(element: Any, opened: FileContext) -> CheckedArray | CheckedGroup:
    """Return what is to be trusted of an array or a group."""
    if isinstance(element, CheckedArray | CheckedGroup):
        return element
    return CheckedGroup(element, opened) if hasattr(element, "keys") else CheckedArray(element, opened)


def _children(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a group of a folder holds, one after the other: of those that fail side by side zarr prints all."""
    if group.metadata.consolidated_metadata is not None:
        yield from group.members()
        return
    for name in sorted(path.name for path in Path(group.store.root, group.path).iterdir()):
        element = group.get(name)
        if element is not None:
            yield name, element


def read_zarr_array(array: zarr.Array[Any], feature_names: object = None) -> Table:
    """Take an open array."""
    opened = FileContext(str(array.store), "zarr array", argument="X")
    with opened.reading():
        known = CheckedArray(array, opened)
        return Table(
            zarr_source(known, opened), check_feature_names(feature_names, array.shape[1]), _absent(known, opened)
        )


def read_zarr(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Open the array that is meant in a .zarr folder; one that holds an AnnData is read as such."""
    zarr = require("zarr", extra="zarr", purpose="reading .zarr folders")
    from sparsemean._data.anndata import read_stored

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that not all implementations share
        root = _checked(zarr.open(_store(path), mode="r"), opened)
        return read_stored(root, wanted, opened, zarr_source, remarks=lambda element: _absent(element, opened))


def zarr_source(array: StoredArray, opened: FileContext) -> Source:
    """Return an array as a source."""
    known = array if isinstance(array, CheckedArray) else CheckedArray(array, opened)
    check_stored_matrix(known, opened)
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


def _absent(element: Any, opened: FileContext) -> tuple[str, ...]:
    """Say how many chunks are not there: empty ones are not written, but a copy that was stopped looks the same."""
    element = _checked(element, opened)
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
