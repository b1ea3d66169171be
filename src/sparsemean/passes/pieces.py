"""How a source is cut into pieces, and how the next piece is read while the last one is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from sparsemean.sources.source import AT_ONCE, Dense, Source, cut

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

SWEPT_AT_ONCE = 4 * AT_ONCE
"""Bytes of whole columns held where a source that is read along rows is asked for columns: each piece is a read."""
T = TypeVar("T")


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
