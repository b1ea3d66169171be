"""How a source is cut into pieces, and how the next piece is read while the last one is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sparsemean.partition import block_spans, stretch
from sparsemean.records import BLOCK, FloatArray, IntArray, Partition
from sparsemean.sources.source import AT_ONCE, Array, Dense, Source, as_dense, cut

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

SWEPT_AT_ONCE = 8 * AT_ONCE
"""Bytes of whole columns held where a source that is read along rows is asked for columns: each piece is a read."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some rows of some columns, how those rows are dealt, and the share of all reading done with it."""

    first_row: int
    first_column: int
    values: Block
    partition: Partition
    done: float


def pieces_of(source: Source, partition: Partition) -> Iterator[Piece]:
    """Read a source once the way it likes to be read, or by columns where buckets take rows from anywhere."""
    spans = block_spans(partition) if source.along == "rows" else None
    if spans is not None:
        yield from _row_pieces(source, partition, *spans)
        return
    n, d = source.shape
    for columns, block in ahead(lambda columns: source.block(slice(0, n), columns), column_pieces(source)):
        yield Piece(0, columns.start, block, partition, columns.stop / d)


def _row_pieces(source: Source, partition: Partition, lows: IntArray, highs: IntArray) -> Iterator[Piece]:
    """Yield whole blocks of 64 rows; a block that two stripes share is put together from their ends."""
    settled, rest = 0, None
    everything = slice(0, source.shape[1])
    for rows, block in ahead(lambda rows: source.block(rows, everything), _stripes(source, lows, highs)):
        done = rows.stop / source.shape[0]
        if rest is not None:
            rest = np.concatenate((rest, as_dense(block[: int(highs[settled]) - rows.start])))
            if highs[settled] > rows.stop:
                continue
            yield Piece(int(lows[settled]), 0, rest, stretch(partition, settled, settled + 1), done)
            settled, rest = settled + 1, None
        whole = int(np.searchsorted(highs, rows.stop, side="right"))
        if whole > settled:
            first, last = int(lows[settled]), int(highs[whole - 1])
            values = (
                block if (first, last) == (rows.start, rows.stop) else block[first - rows.start : last - rows.start]
            )
            yield Piece(first, 0, values, stretch(partition, settled, whole), done)
            settled = whole
        if settled < lows.size and lows[settled] < rows.stop:
            rest = as_dense(block[int(lows[settled]) - rows.start :]).copy()


def _stripes(source: Source, lows: IntArray, highs: IntArray) -> list[slice]:
    """Cut the rows into stripes: whole grains, or whole blocks where rows do not lie together."""
    rows = max(BLOCK, int(AT_ONCE / (source.shape[1] * source.bytes_a_value)))
    if source.grain > 1:
        return cut(source.shape[0], rows, source.grain)
    groups = cut(lows.size, rows // BLOCK, 1)
    return [slice(int(lows[group.start]), int(highs[group.stop - 1])) for group in groups]


def column_pieces(source: Source) -> list[slice]:
    """Cut the columns into pieces of which all rows are held at once."""
    n, d = source.shape
    along = source.along == "columns"
    width = int((AT_ONCE if along else SWEPT_AT_ONCE) / (n * source.bytes_a_value))
    return cut(d, max(1, width), source.grain if along else 1)


def column_blocks(source: Source) -> Iterator[tuple[slice, Block]]:
    """Yield pieces of whole columns."""
    n, d = source.shape
    if isinstance(source, Dense):
        yield slice(0, d), source.values
        return
    for columns, block in ahead(lambda columns: source.block(slice(0, n), columns), column_pieces(source)):
        if source.along == "columns":
            yield columns, block
            continue
        width = max(1, AT_ONCE // (8 * n))
        for part in cut(columns.stop - columns.start, width, 1):
            yield slice(columns.start + part.start, columns.start + part.stop), block[:, part]


def keep_columns(kept: FloatArray | None, columns: IntArray | None, piece: Piece) -> None:
    """Copy what is wanted of a piece, if anything is."""
    if kept is None or columns is None:
        return
    n, d = piece.values.shape
    first, last = np.searchsorted(columns, [piece.first_column, piece.first_column + d])
    if last > first:
        rows = slice(piece.first_row, piece.first_row + n)
        kept[rows, first:last] = as_dense(piece.values[:, columns[first:last] - piece.first_column])


def dense_parts(block: Block, width: int) -> Iterator[tuple[slice, Array]]:
    """Yield a block with its zeros filled in, about ``width`` columns at a time."""
    for columns in cut(block.shape[1], max(1, width), 1):
        yield columns, as_dense(block[:, columns])


def ahead(read: Callable[[T], Block], pieces: Sequence[T]) -> Iterator[tuple[T, Block]]:
    """Yield every piece with what ``read`` makes of it, one piece ahead of whoever asks."""
    if len(pieces) == 1:
        yield pieces[0], read(pieces[0])
        return
    pool = ThreadPoolExecutor(1)
    try:
        coming = pool.submit(read, pieces[0])
        for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
            block = coming.result()
            if after is not None:
                coming = pool.submit(read, after)
            yield piece, block
    finally:
        pool.shutdown(cancel_futures=True)
