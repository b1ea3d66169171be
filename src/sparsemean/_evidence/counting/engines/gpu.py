"""One pass on an NVIDIA GPU: over an array that lies there, or over a table on the host that is sent in pieces.

What is sent goes through memory that the device can read by itself: threads fill parts of it while others are on
their way or counted. Counts and what is made of them stay on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparsemean._data.gpu import DeviceArray, device_errors
from sparsemean._data.source import Array, Dense, Source, as_dense
from sparsemean._data.table import Table
from sparsemean._evidence.counting import engines
from sparsemean._kernels import NotFiniteError, gpu, gpu_blocks, influence
from sparsemean._kernels.memory_layout import count_threads, cut
from sparsemean._util.records import BLOCK, BucketSpec, CellCounts, Counts, FloatArray, IntArray, Partition
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from cupy import ndarray
    from cupy.cuda import PinnedMemoryPointer, Stream


CONVERTED_BYTES = 256_000_000
"""Of an array that does not lie by rows, or is of a kind that is not counted as it is, so much is converted at once."""
SENT_BYTES = 32_000_000
"""Bytes that are sent at once, where the device has room for that: larger pieces do not stay near the processor."""
MOST_THREADS = 16
"""Threads that fill pieces, where the host has so many processors and is not told otherwise."""
SLOTS = 3
"""Pieces on their way at least: one is filled, one is copied, one is counted."""
WAITING = 2
"""Pieces that are copied or counted while every thread fills one."""


class GpuEngine(engines.Engine):
    """Goes over an array where it lies on a device, and sends other tables there. Means are made on the host."""

    def count(
        self, table: Table, spec: BucketSpec, *, keep: IntArray | None = None
    ) -> tuple[Counts, FloatArray | None]:
        """Count on the device, where the counts stay; the columns ``keep`` come to the host."""
        source = table.source
        with device_errors(), engines.refusing(table, skip_missing=spec.skip_missing):
            if isinstance(source, DeviceArray):
                return _count_resident(source, spec), None if keep is None else source.take(keep)
            return self._count_sent(source, spec, keep)

    def _count_sent(self, source: Source, spec: BucketSpec, keep: IntArray | None) -> tuple[Counts, FloatArray | None]:
        """Send pieces to the device and count them there."""
        n, d = source.shape
        n_threads = count_threads(self.n_jobs) if self.n_jobs is not None else min(count_threads(None), MOST_THREADS)
        counting = gpu.DeviceCounts(spec.partition, d, null=spec.null, missing=spec.skip_missing)
        kept = None if keep is None else np.empty((n, keep.size), order="F")
        gpu.cupy().cuda.get_current_stream().synchronize()  # counters are ready before other streams add to them
        with Sending(*_room(source, n_threads), n_threads) as sending:
            for piece in _pieces(source, spec.partition, sending.room):
                engines.keep_columns(kept, keep, piece)
                width = sending.room // (_kind_of(piece.values.dtype).itemsize * piece.values.shape[0])
                for columns, values in engines.dense_parts(piece.values, width):
                    first = piece.first_column + columns.start
                    sending.send(values, partial(counting.add, first=first, partition=piece.partition))
                self.done(piece.done)
        return counting.total(), kept

    def influence_sums(
        self, table: Table, spec: influence.InfluenceSpec, *, rows: engines.Mask | None = None
    ) -> influence.InfluenceSums:
        """Add up on the device, where the sums stay: one operation on a few columns after the other."""
        xp, source, (k, d) = gpu.cupy(), table.source, spec.centres.shape
        total = influence.InfluenceSums(xp.zeros((k, d), dtype=np.int64), xp.zeros(d, dtype=np.int32))
        there, divisor, bad = xp.asarray(spec.centres), xp.asarray(spec.unit), xp.zeros(1, dtype=bool)
        with device_errors(), engines.refusing(table, skip_missing=spec.missing):
            for across, at, block in _on_device(source):
                x = block if rows is None or rows[across].all() else block[xp.asarray(np.flatnonzero(rows[across]))]
                gaps = xp.isnan(x)
                bad |= (xp.isinf(x) if spec.missing else xp.isinf(x) | gaps).any()
                total.missing[at] += gaps.sum(axis=0).astype(np.int32)
                total.sums[:, at] += influence.array_sums(x, there[:, at], divisor[at], spec.kappa, xp)
                self.done(across.stop * at.stop / (source.shape[0] * d))
            if bool(bad[0]):
                raise NotFiniteError
        return total

    def rank_counts(
        self, table: Table, cells: IntArray, strata: IntArray, against: IntArray, *, skip_missing: bool = False
    ) -> CellCounts:
        """Compare cells of rows where they lie, each with its other ones by a pass of its own; counts stay there.

        Columns that are too long for that, and data that do not lie there, are compared on the host.
        """
        from sparsemean._kernels.groups import REST, UNWANTED  # numba, which one sample has no need of

        source, d = table.source, table.shape[1]
        kind = np.dtype(np.float32 if np.can_cast(source.dtype, np.float32) else np.float64)
        if not isinstance(source, DeviceArray) or source.shape[0] > gpu_blocks.most_rows(kind.itemsize):
            return super().rank_counts(table, cells, strata, against, skip_missing=skip_missing)
        asked = [(sweep, *at) for sweep, row in enumerate(against) for at in enumerate(row) if at[1] != UNWANTED]
        alone = set(range(strata.size)) - {cell for _, *both in asked for cell in both}
        asked += [(0, cell, cell) for cell in sorted(alone)]
        with source.there(), engines.refusing(table, skip_missing=skip_missing):
            xp = gpu.cupy()
            own = xp.empty((3, strata.size, d), dtype=np.int32)  # enough for all pairs of so few rows
            pairs = xp.zeros((against.shape[0], 6, strata.size, d), dtype=np.int32)
            for at, block in _floats(source, kind):
                for sweep, cell, other in asked:
                    second = strata[cells] == strata[cell] if other == REST else cells == other
                    groups = np.where(cells == cell, 0, np.where(second & (cells >= 0), 1, 2))
                    found = gpu_blocks.compare_groups(block, groups, missing=skip_missing, grid=source.grid)
                    own[:, cell, at] = found[0:6:2]
                    if other == cell:
                        continue
                    if other >= 0:
                        own[:, other, at] = found[1:6:2]
                    for k, field in enumerate((6, 7, 10, 8, 9, 11)):
                        pairs[sweep, k, cell, at] = found[field]
                self.done(at.stop / d)
        return CellCounts(own, pairs)


def _floats(source: DeviceArray, kind: np.dtype[np.generic]) -> Iterator[tuple[slice, ndarray]]:
    """Yield columns and their values, rows of floats of a ``kind``: all as they lie, or a few at a time converted."""
    values, (n, d) = source.values, source.shape
    if values.dtype == kind and (values.strides[1] == kind.itemsize or d == 1):
        yield slice(0, d), values
        return
    for columns in cut(d, max(1, CONVERTED_BYTES // (kind.itemsize * n)), 1):
        yield columns, gpu.cupy().ascontiguousarray(source.plain(values[:, columns]), dtype=kind)


def _on_device(source: Source) -> Iterator[tuple[slice, slice, ndarray]]:
    """Yield rows, columns and values of a source as doubles on the device, a few columns at a time."""
    xp, (n, d) = gpu.cupy(), source.shape
    here = source if isinstance(source, DeviceArray) else None
    pieces = engines.any_pieces(source) if here is None else [(slice(0, n), slice(0, d), here.values)]
    for across, columns, block in pieces:
        for part in cut(block.shape[1], max(1, CONVERTED_BYTES // (8 * block.shape[0])), 1):
            at = slice(columns.start + part.start, columns.start + part.stop)
            values = as_dense(block[:, part]) if here is None else here.plain(block[:, part])
            yield across, at, xp.asarray(values, dtype=np.float64)


def _count_resident(source: DeviceArray, spec: BucketSpec) -> Counts:
    xp, values = gpu.cupy(), source.values
    with xp.cuda.Device(values.device.id):
        if source.kind in gpu.KINDS and values.strides[1] == values.itemsize:
            return gpu.count_signs(values, spec.partition, null=spec.null, missing=spec.skip_missing, kind=source.kind)
        counting = gpu.DeviceCounts(spec.partition, source.shape[1], null=spec.null, missing=spec.skip_missing)
        for columns, block in _floats(source, _kind_of(source.dtype)):
            counting.add(block, columns.start)
        return counting.total()


def _pieces(source: Source, partition: Partition, room: int) -> Iterator[engines.Piece]:
    """Cut a source into pieces that fit: an array by columns, wherever it lies; a file the way it likes to be read."""
    if not isinstance(source, Dense):
        yield from engines.pieces_of(source, partition)
        return
    n, d = source.shape
    width = max(1, room // (n * _kind_of(source.values.dtype).itemsize))
    for columns in cut(d, width, BLOCK if width > BLOCK else 1):
        yield engines.Piece(0, columns.start, source.values[:, columns], partition, columns.stop / d)


def _room(source: Source, n_threads: int) -> tuple[int, int]:
    """Return the bytes of one piece and how many may be on their way.

    A piece is a column at least, given what the device, or the limit set in CuPy, has free.
    """
    xp, (n, d) = gpu.cupy(), source.shape
    pool = xp.get_default_memory_pool()
    free, _ = xp.cuda.runtime.memGetInfo()
    free += pool.free_bytes()
    if pool.get_limit():
        free = min(free, pool.get_limit() - pool.used_bytes())
    column = 8 * n
    wanted = min(max(SENT_BYTES, column), column * d)
    room = min(wanted, int(0.8 * free) // (SLOTS + 1))  # one more for a piece that is turned
    if room < column:
        needed = (SLOTS + 1) * column / 0.8
        raise InputError(
            "device", f"have {needed:,.0f} bytes free, for {SLOTS + 1} columns", f"{max(free, 0):,} bytes",
            "free some of it, or compute on the host",
        )  # fmt: skip
    pieces = -(-column * d // room)
    return room, max(SLOTS, min(n_threads + WAITING, pieces, int(0.8 * free) // (2 * room)))


def _kind_of(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Return the type in which values are sent, or counted."""
    native = dtype.newbyteorder("=")
    return native if native.name in gpu.KINDS else np.dtype(np.float64)


class Slot(NamedTuple):
    """A place in memory that the device reads by itself, one on the device, and a queue."""

    pinned: PinnedMemoryPointer
    landed: ndarray
    queue: Stream


class Sending:
    """Threads that each fill a slot and queue its copy and what is to be done with it there.

    No thread waits for another one: each takes the slot that was queued longest ago, whose copy is most likely through.
    """

    def __init__(self, room: int, slots: int, n_threads: int) -> None:
        xp = gpu.cupy()
        self.room, self.device = room, xp.cuda.runtime.getDevice()
        self.slots = [
            Slot(xp.cuda.alloc_pinned_memory(room), xp.empty(room, dtype=np.uint8), xp.cuda.Stream(non_blocking=True))
            for _ in range(slots)
        ]
        self.free = SimpleQueue[Slot]()
        for slot in self.slots:
            self.free.put(slot)
        self.queueing = Lock()  # what is done there is compiled once
        self.pool = ThreadPoolExecutor(min(n_threads, slots))
        self.sent: list[Future[None]] = []

    def __enter__(self) -> Sending:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with ExitStack() as stack:
            for slot in self.slots:
                stack.callback(slot.queue.synchronize)
            stack.callback(self.pool.shutdown, cancel_futures=True)
            if kind is None:
                for part in self.sent:
                    part.result()

    def send(self, values: Array, use: Callable[[ndarray], None]) -> None:
        """Copy a block to the device and queue what is to be done with it there, by rows."""
        slot = self.free.get()
        if any(part.done() and part.exception() for part in self.sent[-len(self.slots) :]):
            self.free.put(slot)
            return  # it is raised at the end
        self.sent.append(self.pool.submit(self._send, slot, values, use))

    def _send(self, slot: Slot, values: Array, use: Callable[[ndarray], None]) -> None:
        try:
            kind = _kind_of(values.dtype)
            by_columns = values.flags.f_contiguous and not values.flags.c_contiguous
            block = values.T if by_columns else values
            here = np.frombuffer(slot.pinned, dtype=kind, count=block.size).reshape(block.shape)
            with gpu.cupy().cuda.Device(self.device):
                slot.queue.synchronize()
                np.copyto(here, block, casting="unsafe")
                with self.queueing, slot.queue:
                    there = slot.landed[: here.nbytes].view(kind).reshape(block.shape)
                    there.data.copy_from_host_async(here.ctypes.data, here.nbytes)
                    use(gpu.cupy().ascontiguousarray(there.T) if by_columns else there)
        finally:
            self.free.put(slot)
