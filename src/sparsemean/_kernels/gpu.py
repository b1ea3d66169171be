"""The counting pass and the sign tests on a device, in CUDA C++ that CuPy compiles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from sparsemean._kernels import NotFiniteError
from sparsemean._util.records import NO_END, Counts, IntArray, Partition
from sparsemean.errors import require

KINDS = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4}
WIDTHS = {"float64": 2, "float32": 4, "float16": 4, "bfloat16": 4}
"""Columns of a thread."""
THREADS = 128
STAGES = 2
"""Fours of rows on their way while one is counted."""
ENOUGH = 4096
"""Groups of threads that keep the largest card busy to the end; rows are split among them where columns are few."""
ROWS_AT_ONCE = 64
"""Leaves that are never split: no bucket reaches beyond them."""


def cupy() -> Any:
    """Return CuPy, or say how to install it."""
    return require("cupy", extra="gpu", purpose="computing on a GPU")


def count_signs(
    X: Any, partition: Partition, *, shift: Any = None, missing: bool = False, kind: str | None = None
) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    ``X`` lies by rows on the device; ``kind`` is its type, for bfloat16 that comes as 16-bit integers. ``shift`` is
    taken from every row first. With ``missing`` NaN is a value that is not there.

    Raises ``NotFiniteError`` if any value is infinite, or NaN without ``missing``, or if a sum overflows.
    """
    total = no_counts(partition, X.shape[1], missing=missing)
    bad = cupy().zeros(1, dtype=np.int32)
    add_counts(X, DeviceBuckets(partition), total, bad, shift=shift, kind=kind)
    if int(bad[0]):
        raise NotFiniteError
    return total.settled()


class DeviceBuckets:
    """A partition on the device: the rows of every leaf, and how leaves are nested."""

    def __init__(self, partition: Partition) -> None:
        xp = cupy()
        self.n_leaves = partition.n_buckets(0)
        self.depth, self.wanted = partition.depth, sum(1 << level for level in partition.wanted)
        self.order = xp.asarray(partition.order, dtype=np.int64)
        runs = self.n_leaves < partition.n_rows
        self.offsets = xp.asarray(partition.levels[0], dtype=np.int32) if runs else None
        self.places: dict[int, Any] = {}

    def places_of(self, step: int) -> Any:
        """Return where the rows of every leaf lie, in bytes from row 0 on, in a matrix with ``step`` bytes a row."""
        if step not in self.places:
            self.places[step] = self.order * step
            cupy().cuda.get_current_stream().synchronize()  # other queues may use them too
        return self.places[step]


def no_counts(partition: Partition, d: int, *, missing: bool = False) -> Counts:
    """Return counters for ``d`` features on the device, before any value was seen."""
    xp, sizes = cupy(), len(partition.wanted)
    signs = xp.zeros((2, sizes, d), dtype=np.int32)
    return Counts(
        positive=signs[0],
        negative=signs[1],
        nearest=xp.full(d, np.inf),
        n_buckets=tuple(partition.n_buckets(level) for level in partition.wanted),
        present=xp.zeros((sizes, d), dtype=np.int32) if missing else None,
        missing=xp.zeros(d, dtype=np.int32) if missing else None,
    )


def add_counts(
    X: Any,
    dealt: DeviceBuckets,
    total: Counts,
    bad: Any,
    *,
    shift: Any = None,
    kind: str | None = None,
    first_column: int = 0,
) -> None:
    """Add the counts of ``X`` to those of its columns in ``total``; ``bad`` is set where a sum is not finite.

    Nothing is waited for: the work is queued on the current stream.
    """
    d = X.shape[1]
    kind = kind or X.dtype.name
    size, width = X.dtype.itemsize, WIDTHS[kind]
    step = X.strides[0]
    assert X.strides[1] == size or d == 1, "rows are read as they lie"
    vector = d % width == 0 and step % (width * size) == 0 and X.data.ptr % (width * size) == 0
    kernel = compiled(
        kind, vector, dealt.depth, dealt.wanted, dealt.offsets is not None, shift is not None,
        total.missing is not None, X.device.id,
    )  # fmt: skip
    blocks = -(-d // (THREADS * width))
    splits = min(max(1, ENOUGH // blocks), -(-dealt.n_leaves // ROWS_AT_ONCE), 65_535)
    at_once = -(-dealt.n_leaves // (splits * ROWS_AT_ONCE)) * ROWS_AT_ONCE
    splits = -(-dealt.n_leaves // at_once)
    kernel(
        (blocks, splits), (THREADS,),
        (
            X, np.int64(d), np.int64(total.nearest.size), dealt.places_of(step), _pointer(dealt.offsets),
            np.int32(dealt.n_leaves), np.int32(at_once), _pointer(shift), _pointer(total.positive, first_column),
            _pointer(total.negative, first_column), _pointer(total.nearest, first_column),
            _pointer(total.present, first_column), _pointer(total.missing, first_column), bad,
        ),
    )  # fmt: skip


def _pointer(array: Any, first: int = 0) -> np.uint64:
    """Return where an array lies on the device, from its element ``first`` on; 0 for none."""
    return np.uint64(0 if array is None else array.data.ptr + first * array.itemsize)


@lru_cache(maxsize=256)
def compiled(
    kind: str,
    vector: bool,
    depth: int,
    wanted: int,
    runs: bool,
    shifted: bool,
    gaps: bool,
    device: int,  # noqa: ARG001
) -> Any:
    """Return the kernel of one case on one device."""
    case = definitions(kind, vector, depth, wanted, runs, shifted, gaps)
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in case.items()))
    return cupy().RawModule(code=source(), options=options).get_function("count_signs")


def definitions(
    kind: str, vector: bool, depth: int, wanted: int, runs: bool, shifted: bool, gaps: bool
) -> dict[str, int]:
    """Return the macros that make the kernel of one case."""
    return {
        "KIND": KINDS[kind], "WIDTH": WIDTHS[kind], "VECTOR": int(vector), "DEPTH": depth, "WANTED": wanted,
        "RUNS": int(runs), "SHIFTED": int(shifted), "GAPS": int(gaps), "THREADS": THREADS, "STAGES": STAGES,
    }  # fmt: skip


@lru_cache(maxsize=1)
def source() -> str:
    """Return the source of the kernel."""
    home = resources.files("sparsemean._kernels")
    return "".join((home / name).read_text(encoding="utf-8") for name in ("device.cuh", "count_signs.cu"))


# Sign tests of all features on a GPU: up to which slack each still has what is asked of it.

DECIDE_THREADS = 256
COPIES = 64
"""Of the counters of each slack, so that threads do not wait for each other."""
COUNTERS = 2**24
"""In all copies together, at most."""


class Slacks:
    """Statistics and numbers of signs on the device, (sizes, features) both, and a slack of each feature.

    Slacks begin at ``low`` and are raised to ``high`` at most.
    """

    def __init__(self, statistic: Any, nonzero: Any, most: int, *, lasts: Sequence[int], low: int, high: int) -> None:
        xp = cupy()
        self.statistic, self.nonzero, self.low = statistic, nonzero, low
        self.sizes, self.d = statistic.shape
        self.slack = xp.full(self.d, low, dtype=np.int32)
        self.asked = np.full((len(lasts), self.sizes, most + 1), NO_END, dtype=np.int32)
        self.lasts = xp.asarray(np.array(lasts, dtype=np.int32))
        self.asked_there = xp.empty(self.asked.shape, dtype=np.int32)
        bins = high - low + 1
        copies = max(1, min(COPIES, -(-self.d // DECIDE_THREADS), COUNTERS // bins))
        self.copied = xp.zeros((copies, bins), dtype=np.int32)
        self.features = xp.empty(bins, dtype=np.int32)
        self.numbers = self._occurring()

    def _shape(self) -> tuple[Any, ...]:
        return self.nonzero, np.int64(self.d), np.int32(self.sizes), np.int32(self.asked.shape[2])

    def _launch(self, name: str, threads: int, *arguments: Any) -> None:
        kernel = _kernel(name, self.statistic.device.id)
        kernel((-(-threads // DECIDE_THREADS),), (DECIDE_THREADS,), arguments)

    def _occurring(self) -> list[IntArray]:
        """Return the numbers of signs that occur at each size, rising."""
        occurs = cupy().zeros(self.asked.shape[1:], dtype=np.uint8)
        self._launch("mark_numbers", self.d, *self._shape(), occurs)
        return [np.flatnonzero(row) for row in occurs.get()]

    def _eras(self) -> tuple[Any, ...]:
        return self.asked_there, np.int32(self.lasts.size), self.lasts

    def reaching(self, asked: list[dict[int, IntArray]], slack: int) -> Any:
        """Return the features that have room for ``slack`` once what is ``asked`` is taken off, in eras and places."""
        xp = cupy()
        reached = xp.zeros(self.d, dtype=bool)
        self._ask(asked)
        self._launch("reach", self.d, self.statistic, *self._shape(), *self._eras(), np.int32(slack), reached)
        return xp.flatnonzero(reached)

    def raise_all(self, asked: list[dict[int, IntArray]], *, high: int) -> None:
        """Raise slacks to what is left where ``asked``, of each number of signs that occurs, is taken off."""
        self._ask(asked)
        copies, bins = map(np.int32, self.copied.shape)
        self._launch(
            "raise_slack", self.d, self.statistic, *self._shape(), *self._eras(), np.int32(self.low),
            np.int32(high), bins, copies, self.slack, self.copied,
        )  # fmt: skip
        self._launch("add_copies", self.features.size, bins, copies, self.copied, self.features)

    def _ask(self, asked: list[dict[int, IntArray]]) -> None:
        for era, of_places in zip(self.asked, asked, strict=True):
            for place, least in of_places.items():
                era[place, self.numbers[place]] = least
        self.asked_there.set(self.asked)

    def counted(self) -> IntArray:
        """Return how many features have each slack, from the lowest to the highest."""
        features: IntArray = self.features.get()
        return features


@lru_cache(maxsize=64)
def _kernel(name: str, device: int) -> Any:  # noqa: ARG001
    code = (resources.files("sparsemean._kernels") / "decide.cu").read_text(encoding="utf-8")
    return cupy().RawModule(code=code, options=("-std=c++17",)).get_function(name)
