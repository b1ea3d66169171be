"""One pass on an NVIDIA GPU: over an array that lies there, or over a table on the host that is sent in pieces.

What is sent goes through memory that the device reads by itself: each of several threads fills a small part of it, lets
it go and has it counted, while the parts of the others are on their way. Counts and what is made of them stay there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.kernels import NotFiniteError, gpu, nested
from sparsemean.kernels.threads import count_threads
from sparsemean.partition import BLOCK, block_spans, stretch
from sparsemean.passes import Work
from sparsemean.passes.pieces import Piece, dense_parts, keep_columns, pieces_of
from sparsemean.records import Counts, FloatArray, IntArray, Partition
from sparsemean.sources.gpu import Resident, Sent, device_errors
from sparsemean.sources.source import Array, Dense, Held, Source, cut
from sparsemean.sources.table import Table

CONVERTED_BYTES = 256_000_000
"""Of an array that does not lie by rows, or is of a kind that is not counted as it is, so much is converted at once."""
SENT_BYTES = 16_000_000
"""Bytes that a thread sends at once: little enough for all parts together to stay in the cache of the processor."""
Progress = Callable[[float], None]


def count(
    table: Table,
    partition: Partition,
    *,
    keep: IntArray | None = None,
    shift: FloatArray | None = None,
    missing: bool = False,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[Counts, FloatArray | None]:
    """Read every value once; return the sign counts on the device, and the columns ``keep`` on the host."""
    source = table.source
    with device_errors():
        try:
            if isinstance(source, Resident):
                counts = _count_resident(source, partition, shift, missing)
                return counts, None if keep is None else source.take(keep)
            return _count_sent(table, partition, keep, shift, missing, count_threads(n_jobs), progress)
        except NotFiniteError:
            raise _not_finite(table, missing) from None


def map_means(
    table: Table,
    partition: Partition,
    columns: IntArray,
    work: Work,
    *,
    depth: int = 1,
    shift: FloatArray | None = None,
    missing: bool = False,
    n_jobs: int | None = None,  # noqa: ARG001
) -> FloatArray:
    """Copy ``columns`` to the host and put side by side what ``work`` makes of their bucket means."""
    parts = []
    with device_errors():
        for piece, values in table.source.takes_of(columns):
            moved = values if shift is None else values - shift[piece]
            parts.append(work(nested.level_means(moved, partition, depth=depth, missing=missing), piece))
    return np.concatenate(parts, axis=-1)


def _count_resident(source: Resident, partition: Partition, shift: FloatArray | None, missing: bool) -> Counts:
    xp, values = gpu.cupy(), source.values
    with xp.cuda.Device(values.device.id):
        moved = None if shift is None else xp.asarray(shift)
        if source.kind in gpu.KINDS and values.strides[1] == values.itemsize:
            return gpu.count_signs(values, partition, shift=moved, missing=missing, kind=source.kind)
        adding = Adding(partition, source.shape[1], moved, missing)
        for columns in cut(source.shape[1], max(1, CONVERTED_BYTES // (8 * source.shape[0])), 1):
            block = source.plain(values[:, columns])
            kind = block.dtype if block.dtype.name in gpu.KINDS else np.float64
            adding.add(xp.ascontiguousarray(block, dtype=kind), columns.start)
        return adding.total()


class Adding:
    """Counters on the device, to which pieces are added; whether all is finite is asked at the end."""

    def __init__(self, partition: Partition, d: int, shift: Any, missing: bool) -> None:
        self.counts = gpu.no_counts(partition, d, missing=missing)
        self.shift, self.bad = shift, gpu.cupy().zeros(1, dtype=np.int32)
        self.partition, self.dealt = partition, gpu.Dealt.of(partition)

    def dealt_by(self, partition: Partition, step: int) -> gpu.Dealt:
        """Return how rows that are ``step`` bytes apart are dealt, made on the device before other queues use it."""
        if partition is not self.partition:
            self.partition, self.dealt = partition, gpu.Dealt.of(partition)
        self.dealt.places_of(step)
        return self.dealt

    def add(self, X: Any, first_column: int, dealt: gpu.Dealt | None = None) -> None:
        """Queue the counting of a piece."""
        shift = None if self.shift is None else self.shift[first_column : first_column + X.shape[1]]
        gpu.add_counts(X, dealt or self.dealt, self.counts, self.bad, shift=shift, first_column=first_column)

    def total(self) -> Counts:
        """Return the counts of everything, once all of it is done."""
        if int(self.bad[0]):
            raise NotFiniteError
        return self.counts.settled()


def _count_sent(
    table: Table,
    partition: Partition,
    keep: IntArray | None,
    shift: FloatArray | None,
    missing: bool,
    n_threads: int,
    progress: Progress | None,
) -> tuple[Counts, FloatArray | None]:
    """Send pieces to the device and count them there."""
    xp, source = gpu.cupy(), table.source
    while isinstance(source, (Held, Sent)):
        source = source.source
    n, d = source.shape
    adding = Adding(partition, d, None if shift is None else xp.asarray(shift), missing)
    kept = None if keep is None else np.empty((n, keep.size), order="F")
    xp.cuda.get_current_stream().synchronize()  # counters are ready before other queues add to them
    with Sending(n, n_threads) as sending:
        for piece in _pieces(source, partition, sending.room):
            keep_columns(kept, keep, piece)
            for columns, values in dense_parts(piece.values, sending.room // (8 * piece.values.shape[0])):
                dealt = adding.dealt_by(piece.partition, values.shape[1] * _kind_of(values).itemsize)
                first = piece.first_column + columns.start
                sending.send(values, partial(adding.add, first_column=first, dealt=dealt))
            if progress is not None:
                progress(piece.done)
    return adding.total(), kept


def _pieces(source: Source, partition: Partition, room: int) -> Iterator[Piece]:
    """Cut a source into pieces: an array into long stretches of a few rows, a file the way it likes to be read.

    An array whose buckets take rows from anywhere, or that lies by columns, is cut into whole columns.
    """
    if not isinstance(source, Dense):
        yield from pieces_of(source, partition)
        return
    (n, d), values = source.shape, source.values
    row = d * _kind_of(values).itemsize
    spans = None if _by_columns(values) else block_spans(partition)
    if spans is None:
        for columns in cut(d, max(1, room * d // (n * row)), 1):
            yield Piece(0, columns.start, values[:, columns], partition, columns.stop / d)
        return
    lows, highs = spans
    wide = max(1, room * d // (BLOCK * row))
    for blocks in cut(lows.size, max(1, room // (BLOCK * row)), 1):
        rows = slice(int(lows[blocks.start]), int(highs[blocks.stop - 1]))
        dealt = stretch(partition, blocks.start, blocks.stop)
        for columns in cut(d, wide, BLOCK if wide > BLOCK else 1):
            done = (rows.start + (rows.stop - rows.start) * columns.stop / d) / n
            yield Piece(rows.start, columns.start, values[rows, columns], dealt, done)


def _by_columns(values: Array) -> bool:
    return bool(values.flags.f_contiguous and not values.flags.c_contiguous)


def _room(n_rows: int, slots: int) -> tuple[int, int]:
    """Return the bytes of one part and how many parts there may be, given what the device has free.

    A limit set in CuPy counts as well. A part holds a column at least.
    """
    xp = gpu.cupy()
    pool = xp.get_default_memory_pool()
    free, _ = xp.cuda.runtime.memGetInfo()
    free += pool.free_bytes()
    if pool.get_limit():
        free = min(free, pool.get_limit() - pool.used_bytes())
    room = max(SENT_BYTES, 8 * n_rows)
    slots = min(slots, int(0.8 * free) // (2 * room))  # as much again for parts that are turned
    if slots < 1:
        room, slots = int(0.8 * free) // 2, 1
    if room < 8 * n_rows:
        raise InputError(
            "device", f"have {2 * 8 * n_rows / 0.8:,.0f} bytes free, for a column", f"{max(free, 0):,} bytes",
            "free some of it, or compute on the host",
        )  # fmt: skip
    return room, slots


def _kind_of(values: Array) -> np.dtype[Any]:
    """Return the type in which values are sent."""
    native = values.dtype.newbyteorder("=")
    return native if native.name in gpu.KINDS else np.dtype(np.float64)


class Slot:
    """A place in memory that the device reads by itself, one on the device, and a queue."""

    def __init__(self, room: int) -> None:
        xp = gpu.cupy()
        self.pinned, self.landed = xp.cuda.alloc_pinned_memory(room), xp.empty(room, dtype=np.uint8)
        self.queue = xp.cuda.Stream(non_blocking=True)

    def carry(self, values: Array, use: Callable[[Any], None]) -> None:
        """Copy a block here, let it go, and queue what is to be done with it there."""
        kind, turned = _kind_of(values), _by_columns(values)
        block = values.T if turned else values
        here = np.frombuffer(self.pinned, dtype=kind, count=block.size).reshape(block.shape)
        there = self.landed[: here.nbytes].view(kind).reshape(block.shape)
        self.queue.synchronize()  # what was here before is gone
        np.copyto(here, block, casting="unsafe")
        with self.queue:
            there.data.copy_from_host_async(here.ctypes.data, here.nbytes)
            use(gpu.cupy().ascontiguousarray(there.T) if turned else there)


class Sending:
    """Threads that carry blocks to the device, each through the next place that is free."""

    def __init__(self, n_rows: int, n_threads: int) -> None:
        self.room, slots = _room(n_rows, n_threads + 2)
        self.slots = [Slot(self.room) for _ in range(slots)]
        self.free: SimpleQueue[Slot] = SimpleQueue()
        for slot in self.slots:
            self.free.put(slot)
        self.pool = ThreadPoolExecutor(n_threads)
        self.pending: deque[Future[None]] = deque()

    def __enter__(self) -> Sending:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.pool.shutdown(cancel_futures=kind is not None)
        for slot in self.slots:
            slot.queue.synchronize()
        if kind is None:
            self._look(len(self.pending))

    def send(self, values: Array, use: Callable[[Any], None]) -> None:
        """Have a block carried to the device, and used there, as soon as there is a place for it."""
        self.pending.append(self.pool.submit(self._carry, self.free.get(), values, use))
        self._look(len(self.pending) - len(self.slots))

    def _carry(self, slot: Slot, values: Array, use: Callable[[Any], None]) -> None:
        try:
            slot.carry(values, use)
        finally:
            self.free.put(slot)

    def _look(self, number: int) -> None:
        """Raise what went wrong in the first so many of what was sent."""
        for _ in range(number):
            self.pending.popleft().result()


def _not_finite(table: Table, missing: bool) -> InputError:
    """Find what is not finite, a few columns at a time."""
    from sparsemean.passes.memory import not_finite

    n, d = table.shape
    for columns in cut(d, max(1, CONVERTED_BYTES // (8 * n)), 1):
        for part, values in dense_parts(table.source.block(slice(0, n), columns), columns.stop - columns.start):
            found = not_finite(table, values, 0, columns.start + part.start, missing=missing)
            if "overflow" not in str(found):
                return found
    return not_finite(table, np.zeros((1, 1)))
