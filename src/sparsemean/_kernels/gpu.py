"""The counting pass and the sign tests on a device, in CUDA C++ that CuPy compiles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._kernels import NotFiniteError
from sparsemean._util.records import CountArray, Counts, FloatArray, IntArray, Partition
from sparsemean.errors import require

if TYPE_CHECKING:
    from cupy import RawKernel, RawModule, ndarray

KINDS = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4}
WIDTHS = {"float64": 2, "float32": 4, "float16": 4, "bfloat16": 4}
"""Columns of a thread."""
PRECISION = {"float64": -52, "float32": -23, "float16": -10, "bfloat16": -7}
"""Binary logarithm of eps, as in count_signs.cu."""
THREADS = 128
STAGES = 2
"""Fours of rows on their way while one is counted."""
ENOUGH = 4096
"""Groups of threads that keep the largest card busy to the end; rows are split among them where columns are few."""
ROWS_AT_ONCE = 64
"""Leaves that are never split: no bucket reaches beyond them."""


def cupy() -> ModuleType:
    """Return CuPy, or say how to install it."""
    return require("cupy", extra="gpu", purpose="computing on a GPU")


def count_signs(
    X: ndarray, partition: Partition, *, null: ndarray | None = None, missing: bool = False, kind: str | None = None
) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    ``X`` lies by rows on the device; ``kind`` is its type, for bfloat16 that comes as 16-bit integers. ``null`` is
    taken from every row first, see ``rounding``. With ``missing`` NaN is a value that is not there.

    Raises ``NotFiniteError`` if any value is infinite, or NaN without ``missing``, or if a sum overflows.
    """
    counting = DeviceCounts(partition, X.shape[1], null=null, missing=missing)
    counting.add(X, kind=kind)
    return counting.total()


class DeviceBuckets:
    """A partition on the device: the rows of every leaf, and how leaves are nested."""

    def __init__(self, partition: Partition) -> None:
        xp = cupy()
        self.n_leaves = partition.n_buckets(0)
        self.depth, self.wanted = partition.depth, sum(1 << level for level in partition.wanted)
        self.order = xp.asarray(partition.order, dtype=np.int64)
        runs = self.n_leaves < partition.order.size
        self.offsets = xp.asarray(partition.levels[0], dtype=np.int32) if runs else None
        self.places: dict[int, ndarray] = {}

    def places_of(self, step: int) -> ndarray:
        """Return where the rows of every leaf lie, in bytes from row 0 on, in a matrix with ``step`` bytes a row."""
        if step not in self.places:
            self.places[step] = self.order * step
            cupy().cuda.get_current_stream().synchronize()  # other queues may use them too
        return self.places[step]


class DeviceCounts:
    """Counters on the device, to which pieces are added; whether all is finite is asked at the end.

    ``null`` is taken from every row first, and with ``missing`` NaN is a value that is not there.
    """

    def __init__(
        self, partition: Partition, d: int, *, null: FloatArray | ndarray | None = None, missing: bool = False
    ) -> None:
        xp = cupy()
        self.partition, self.buckets = partition, DeviceBuckets(partition)
        self.counts = Counts.blank(partition, d, missing=missing, xp=xp)
        self.null = None if null is None else xp.asarray(null)
        self.bad = xp.zeros(1, dtype=np.int32)

    def add(self, X: ndarray, first: int = 0, partition: Partition | None = None, *, kind: str | None = None) -> None:
        """Queue the counting of a piece, of columns from the ``first`` on; nothing is waited for.

        Its rows have the buckets of ``partition``, if that is not the one of all rows.
        """
        total, buckets = self.counts, self.buckets
        if partition not in (None, self.partition):
            buckets = DeviceBuckets(partition)
        d = X.shape[1]
        null = None if self.null is None else self.null[first : first + d]
        kind = kind or X.dtype.name
        size, width = X.dtype.itemsize, WIDTHS[kind]
        step = X.strides[0]
        assert X.strides[1] == size or d == 1, "rows are read as they lie"
        vector = d % width == 0 and step % (width * size) == 0 and X.data.ptr % (width * size) == 0
        count = kernel(
            "count_signs", X.device.id, ("device.cuh", "count_signs.cu"), fused=null is None,
            KIND=KINDS[kind], WIDTH=width, VECTOR=int(vector), DEPTH=buckets.depth, WANTED=buckets.wanted,
            RUNS=int(buckets.offsets is not None), SHIFTED=int(null is not None), GAPS=int(total.missing is not None),
            THREADS=THREADS, STAGES=STAGES,
        )  # fmt: skip
        blocks = -(-d // (THREADS * width))
        splits = min(max(1, ENOUGH // blocks), -(-buckets.n_leaves // ROWS_AT_ONCE), 65_535)
        at_once = -(-buckets.n_leaves // (splits * ROWS_AT_ONCE)) * ROWS_AT_ONCE
        splits = -(-buckets.n_leaves // at_once)
        counters = total.positive, total.negative, total.nearest, total.present, total.missing
        count(
            (blocks, splits), (THREADS,),
            (
                X, np.int64(d), np.int64(total.nearest.size), buckets.places_of(step), _pointer(buckets.offsets),
                np.int32(buckets.n_leaves), np.int32(at_once), _pointer(null),
                *(_pointer(each, first) for each in counters), self.bad,
            ),
        )  # fmt: skip

    def total(self) -> Counts:
        """Return the counts of everything, once all of it is done."""
        if int(self.bad[0]):
            raise NotFiniteError
        return self.counts.settled()


def _pointer(array: ndarray | None, first: int = 0) -> np.uint64:
    """Return where an array lies on the device, from its element ``first`` on; 0 for none."""
    return np.uint64(0 if array is None else array.data.ptr + first * array.itemsize)


@lru_cache(maxsize=256)
def kernel(name: str, device: int, files: tuple[str, ...], *, fused: bool = True, **macros: float) -> RawKernel:
    """Return a kernel of some files on one device; ``fused`` lets products and sums be rounded once."""
    return _module(device, files, fused=fused, **macros).get_function(name)


@lru_cache(maxsize=256)
def _module(device: int, files: tuple[str, ...], *, fused: bool, **macros: float) -> RawModule:  # noqa: ARG001
    home = resources.files("sparsemean._kernels")
    code = "".join((home / file).read_text(encoding="utf-8") for file in files)
    options = ("-std=c++17", *(f"-D{macro}={value}" for macro, value in macros.items()))
    return cupy().RawModule(code=code, options=options if fused else (*options, "--fmad=false"))


# Sign tests of all features on a GPU: up to which slack each still has what is asked of it.

DECIDE_THREADS = 256
MOST_BLOCKS = 528
"""Groups of threads that share all features: four for each processor of the largest card, all there at once."""
ROWS_TO_HOST = 4096
"""Features that come to the host in one copy, with how many there are."""


def _decide(name: str, d: int, *arguments: object) -> None:
    """Launch a kernel for ``d`` features."""
    decide = kernel(name, cupy().cuda.runtime.getDevice(), ("decide.cu",))
    decide((min(-(-d // DECIDE_THREADS), MOST_BLOCKS),), (DECIDE_THREADS,), arguments)


def majorities(
    positive: ndarray, negative: ndarray, most: int, side: int = 0
) -> tuple[ndarray, ndarray, list[IntArray]]:
    """Return the larger numbers of signs, or those of one side, how many signs there are, and which numbers occur.

    Both are (sizes, features); no number is above ``most``, and those of each size come to the host, rising.
    """
    xp, (sizes, d) = cupy(), positive.shape
    found = xp.empty((2, sizes, d), dtype=np.int32)
    occurs = xp.zeros((sizes, most + 1), dtype=np.uint8)
    width = np.int32(most + 1)
    _decide(
        "majorities", d, positive, negative, np.int64(d), np.int32(sizes), width, np.int32(side), found[0], found[1],
        occurs,
    )  # fmt: skip
    return found[0], found[1], [np.flatnonzero(row) for row in occurs.get()]


def constants(numbers: IntArray) -> ndarray:
    """Copy whole numbers to the device, for any queue there."""
    xp = cupy()
    there = xp.asarray(numbers.astype(np.int32))
    xp.cuda.get_current_stream().synchronize()
    return there


def reaching(
    statistic: ndarray, nonzero: ndarray, index: ndarray, lasts: ndarray, asked: ndarray, slack: int
) -> tuple[ndarray, CountArray | None]:
    """Return the features, in any order, that have room for ``slack`` once what is ``asked`` is taken off.

    ``statistic`` and ``nonzero``, how many signs there are, are (sizes, features); ``index``, (sizes, number of signs),
    numbers those that occur at each size; ``lasts`` are the ends of eras. Features that are few come to the host, with
    a row for each: the feature, its statistics and its numbers of signs.
    """
    xp, (sizes, d) = cupy(), statistic.shape
    width, most_rows = 1 + 2 * sizes, min(d, ROWS_TO_HOST)
    listed, found = xp.empty(d, dtype=np.int32), xp.zeros(1 + most_rows * width, dtype=np.int32)
    _decide(
        "reach", d, statistic, nonzero, np.int64(d), np.int32(sizes), np.int32(index.shape[1]), index, asked,
        np.int32(asked.shape[-1]), np.int32(lasts.size), lasts, np.int32(slack), found, listed, found[1:],
        np.int32(most_rows),
    )  # fmt: skip
    here = found.get()
    many = int(here[0])
    if many > most_rows:
        return listed[:many], None
    rows = here[1 : 1 + many * width].reshape(many, width)
    return rows[:, 0].astype(np.intp), rows


def betas(counts: Counts, sizes: Sequence[int], best: ndarray) -> tuple[ndarray, ndarray]:
    """Return β₀ of every feature at its ``best`` size, and that size."""
    xp, d = cupy(), best.size
    beta, size = xp.empty(d), xp.empty(d, dtype=np.intp)
    of_sizes = _numbers_there((*counts.n_buckets, *sizes), xp.cuda.runtime.getDevice())
    _decide(
        "betas", d, counts.positive, counts.negative, _pointer(counts.present), np.int64(d), np.int32(len(sizes)),
        of_sizes, best, beta, size,
    )  # fmt: skip
    return beta, size


@lru_cache(maxsize=16)
def _numbers_there(numbers: tuple[int, ...], device: int) -> ndarray:  # noqa: ARG001
    return constants(np.array(numbers))
