"""A file that the workers of a cluster read themselves, each the pieces it counts: no value is sent to them."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.records import BLOCK, IntArray
from sparsemean.sources import open_file
from sparsemean.sources.dask import LEAST, NO_VALUES, Dask, Picked, ends
from sparsemean.sources.fingerprint import Fingerprint, fingerprint_of
from sparsemean.sources.source import AT_ONCE, Array, Source, as_dense, cut
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import Wanted

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

HELD_WHOLE = 4 * AT_ONCE
"""Bytes that every worker may hold of a kind of file that is read whole."""
_open = threading.local()


@dataclass(frozen=True, slots=True)
class File:
    """Where a file lies, what of it is meant, and how the one who asks knows it."""

    path: Path
    wanted: Wanted
    dtype: str
    known: Fingerprint

    def source(self) -> Source:
        """Open the file where this is called; it stays open for the next call from the same thread."""
        if not self.path.exists():
            rule, advice = "lie at the same path on every worker", "put it on a disk that all of them see"
            raise InputError("FILE", rule, f"{str(self.path)!r}, which is not there on {socket.gethostname()}", advice)
        key = (self, self.path.stat().st_mtime_ns)
        if getattr(_open, "key", None) != key:
            _open.key, _open.source = None, None
            if different := self.known.difference(fingerprint_of(self.path)):
                rule, advice = "be the same file on every worker, and stay so", "copy it with its time: cp -p, rsync -t"
                raise InputError("FILE", rule, f"{different} on {socket.gethostname()}", advice)
            _open.key, _open.source = key, open_file(self.path, self.wanted).source
        found: Source = _open.source
        return found


class Spread(Dask):
    """A file in pieces, whole grains each, that are read where they are counted."""

    def __init__(self, source: Source, file: File) -> None:
        self.source, self.file, self.sparse = source, file, source.sparse
        super().__init__(_array(file, *grid(source)))
        self.along, self.grain = source.along, source.grain

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value takes in memory."""
        return self.source.bytes_a_value

    def pieces(self) -> Any:
        """Return the pieces the file is read by."""
        return self.array

    def whole_columns(self) -> Any:
        """Return pieces of all rows each; a file that lies by rows is read again for each of them."""
        n, d = self.shape
        along = self.source.along == "columns"
        return _array(self.file, (n,), _sizes(d, AT_ONCE / (n * self.bytes_a_value), self.source.grain if along else 1))

    def picked(self, columns: IntArray) -> Iterator[Picked]:
        """Yield rising ``columns`` as delayed values; only what lies together with them is read."""
        import dask

        rows, offsets = (ends(sizes) for sizes in self.array.chunks)
        for first, last in pairwise(offsets):
            low, high = (int(at) for at in np.searchsorted(columns, (first, last)))
            for part in (slice(*span) for span in pairwise(rows)) if high > low else ():
                values = dask.delayed(_taken, pure=False)(self.file, part, columns[low:high])
                yield part, slice(low, high), values

    def block(self, rows: slice, columns: slice) -> Block:
        """Read some rows of some columns here."""
        return self.source.block(rows, columns)


def spread(table: Table, path: Path, wanted: Wanted) -> Table:
    """Return a table that was opened here as one that workers read."""
    source = table.source
    n, d = source.shape
    if source.in_memory and n * d * source.bytes_a_value > HELD_WHOLE:
        rule, advice = "be of a kind that is read in pieces", "write it as .parquet, .zarr, .npy or .h5ad"
        raise InputError("FILE", rule, f"{path.name}, which every worker would have to hold whole", advice)
    assert table.file is not None
    file = File(path.absolute(), wanted, str(source.dtype), table.file)
    return replace(table, source=Spread(source, file))


def grid(source: Source) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the heights and widths of pieces of about ``AT_ONCE`` bytes: whole grains, and whole blocks of 64 rows.

    Where grains and blocks do not go together pieces are made high, so that few rows are left over at their ends.
    """
    (n, d), weight = source.shape, source.bytes_a_value
    if source.along == "columns":
        return (n,), _sizes(d, AT_ONCE / (n * weight), source.grain)
    wide = d if source.sparse else min(d, getattr(source, "together", LEAST))
    high = math.lcm(source.grain, BLOCK)
    if high * wide * weight > AT_ONCE:
        high = source.grain * max(1, int(AT_ONCE / (wide * weight * source.grain)))
        return _sizes(n, high, high), _sizes(d, wide, wide)
    rows = _sizes(n, AT_ONCE / (d * weight), high)
    return rows, _sizes(d, AT_ONCE / (max(rows) * weight), wide)


def _sizes(total: int, width: float, grain: int) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in cut(total, max(1, int(width)), grain))


def _array(file: File, rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
    """Return a dask array whose chunks are read from the file."""
    import dask.array

    offsets = ends(rows), ends(columns)
    dtype = np.dtype(file.dtype)
    return dask.array.map_blocks(_read, file=file, offsets=offsets, chunks=(rows, columns), dtype=dtype, meta=NO_VALUES)


def _read(file: File, offsets: tuple[list[int], list[int]], block_id: tuple[int, int]) -> Block | InputError:
    """Read one piece; what is wrong with the file is returned: it would not be right the next time either."""
    rows, columns = (slice(*at[k : k + 2]) for at, k in zip(offsets, block_id, strict=True))
    try:
        return file.source().block(rows, columns)
    except InputError as error:
        return error


def _taken(file: File, rows: slice, columns: IntArray) -> Array | InputError:
    """Read some rows of some columns, and of what lies between those only what cannot be left out."""
    try:
        source = file.source()
        read = [as_dense(source.block(rows, part)[:, wanted]) for part, _, wanted in source.runs(columns)]
        return np.concatenate(read, axis=1)
    except InputError as error:
        return error
