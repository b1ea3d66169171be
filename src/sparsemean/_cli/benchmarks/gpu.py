"""An NVIDIA GPU: the counting pass and whole fits against a mean there, and what is sent against the copy rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sparsemean import certify, sparse_mean
from sparsemean._cli.benchmarks.timing import Row, Side, at_least, best_times, ratio
from sparsemean._data import as_table
from sparsemean._data.gpu import sent
from sparsemean._evidence.counting.engines import engine_of
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._util.records import BucketSpec, Counts

if TYPE_CHECKING:
    from torch import Tensor

KINDS = {"float32": 1.15, "float64": 1.25, "bfloat16": 1.25, "float16": None}
"""How much longer than the mean the pass may take."""
WHOLE = {"certify": 2.5, "fit that only certifies": 10.0, "fit": 30.0, "certify two groups": 60.0}
"""How many times as long as the mean they may take, from call to answer, where 5 % are allowed for."""
COPIED = 0.8
SIZES = (1, 2, 4)


def gpu(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield nothing but a remark where there is no GPU, or no torch to compare with."""
    try:
        from sparsemean._kernels import gpu

        there = gpu.cupy().cuda.runtime.getDeviceCount() > 0
        import torch  # noqa: F401
    except Exception:  # no CuPy or torch, or a driver that is too old
        there = False
    if not there:
        yield Row("GPU: none here, or no CuPy and torch to use it: nothing measured", 0.0, "")
        return
    n, d = (2000, 20_000) if quick else (2000, 1_000_000)
    for kind, bar in KINDS.items():
        yield _counted(kind, n, d, bar, repeat)
    yield from _whole(n, d, repeat)
    yield _sent(n, d, repeat)
    yield from _alike(n, min(d, 100_000))


def _drawn(kind: str, n: int, d: int) -> Tensor:
    """Draw a matrix on the device; every thousandth feature has a mean."""
    import torch

    made = torch.empty((n, d), dtype=getattr(torch, kind), device="cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    for first in range(0, n, 100):
        made[first : first + 100] = torch.randn((100, d), device="cuda", generator=generator)
    made[:, ::1000] += 1
    return made


def _counted(kind: str, n: int, d: int, bar: float | None, repeat: int) -> Row:
    from sparsemean._kernels import gpu

    X = _drawn(kind, n, d)
    values = as_table(X).source.values  # type: ignore[attr-defined]
    partition = assign_block_buckets(n, SIZES, 0)
    counting = gpu.DeviceCounts(partition, d)

    def count() -> None:
        counting.counts = Counts.blank(partition, d, xp=gpu.cupy())
        counting.add(values, kind=kind)

    passed, plain = _device_times(count, partial(X.mean, 0), repeat=5 * repeat)
    rate = n * d * X.element_size() / 1e12
    detail = f"{1e3 * passed:.2f} ms, {rate / passed:.2f} TB/s; the mean {1e3 * plain:.2f} ms, {rate / plain:.2f} TB/s"
    return ratio(f"counting pass on the GPU / torch mean, {n}×{d:,} {kind}", passed, plain, bar, detail=detail)


def _whole(n: int, d: int, repeat: int) -> Iterator[Row]:
    """Time calls from beginning to end by the wall clock: the host has its share in them."""
    import torch

    X, labels = _drawn("float32", n, d), np.arange(n) % 2

    def waited(call: Side) -> Side:
        def side() -> None:
            call()
            torch.cuda.synchronize()

        return side

    mean = waited(partial(X.mean, 0))
    by_buckets = partial(sparse_mean, X, contamination=0.05, test="buckets", random_state=0)
    sides: dict[str, Side] = {
        "certify": partial(certify, X, contamination=0.05, test="buckets", random_state=0),
        "fit that only certifies": partial(by_buckets, refine=None, screen_rows=False),
        "fit": by_buckets,
        "certify two groups": partial(certify, X, labels, contamination=0.05),
    }
    plain = float("inf")
    for name, call in sides.items():
        side = waited(call)
        side()  # compiles
        times = 5 * repeat if name.startswith("certif") else min(repeat, 2)
        took, beside = best_times(side, mean, repeat=times)
        plain = min(plain, beside)
        detail = f"{1e3 * took:.2f} ms; the mean {1e3 * plain:.2f} ms"
        asked = "contamination=0.05" if name == "certify two groups" else 'contamination=0.05, test="buckets"'
        title = f"{name} ({asked}) / torch mean, {n}×{d:,} float32 on the GPU"
        yield ratio(title, took, plain, WHOLE[name], detail=detail)


def _device_times(*sides: Side, repeat: int) -> list[float]:
    """Return the best time of each side in seconds, by the device's own clock; all use the default queue."""
    import torch

    best = [float("inf")] * len(sides)
    for turn in range(-1, repeat):  # the first turn compiles
        for k, side in enumerate(sides):
            began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            began.record()
            side()
            ended.record()
            ended.synchronize()
            if turn >= 0:
                best[k] = min(best[k], began.elapsed_time(ended) / 1e3)
    return best


def _sent(n: int, d: int, repeat: int) -> Row:
    """Send four times what the device is allowed to hold."""
    import cupy

    X = np.empty((n, d), dtype=np.float32)
    for first in range(0, n, 100):
        X[first : first + 100] = cupy.random.standard_normal((100, d), dtype=np.float32).get()
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=max(X.nbytes // 4, 100_000_000))
    try:
        table, dealt = sent(as_table(X), "gpu"), assign_block_buckets(n, SIZES, 0)
        send = partial(engine_of(table.source).count, table, BucketSpec(dealt))
        send()
        sending, copying = best_times(send, _copying(X.nbytes), repeat=min(repeat, 5))
    finally:
        pool.set_limit(size=before)
    detail = f"{X.nbytes / 1e9 / sending:.1f} GB/s; copying from pinned memory {X.nbytes / 1e9 / copying:.1f} GB/s"
    name = f"host data of 4 × the allowed device memory, {n}×{d:,} float32: share of the copy rate"
    return Row(name, copying / sending, "", at_least(COPIED), detail=detail)


def _copying(size: int) -> Side:
    """Return what copies ``size`` bytes to the device from memory that it reads by itself, over and over one piece."""
    import cupy

    piece = min(size, 256_000_000)
    here = np.frombuffer(cupy.cuda.alloc_pinned_memory(piece), dtype=np.uint8, count=piece)
    here[:] = 1
    there, queue = cupy.empty(piece, dtype=np.uint8), cupy.cuda.Stream(non_blocking=True)

    def copy() -> None:
        for first in range(0, size, piece):
            there.data.copy_from_host_async(here.ctypes.data, min(piece, size - first), queue)
        queue.synchronize()

    return copy


def _alike(n: int, d: int) -> Iterator[Row]:
    """Count what differs between a fit on the host and one on the device."""
    for kind, close in (("float64", 1e-10), ("float32", 1e-5)):
        X = _drawn(kind, n, d)
        here, there = sparse_mean(X.cpu().numpy(), random_state=0), sparse_mean(X, random_state=0)
        exact = ("p_values", "p_adjusted", "q_values", "radius", "max_contamination")
        pairs = [(getattr(here, name), getattr(there, name)) for name in exact]
        differing = sum(int(np.sum((a != b) & ~(np.isnan(a) & np.isnan(b)))) for a, b in pairs)
        apart = float(np.abs(here.mean - there.mean).max())
        what = f"{n}×{d:,} {kind}, {here.support.size} selected"
        yield Row(f"decisions that differ between host and GPU, {what}", differing, "", 0, always=True)
        yield Row(f"largest difference of an estimate, {what}", apart, "", close, always=True)
