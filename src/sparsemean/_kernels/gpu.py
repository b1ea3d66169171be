"""The counting pass and the sign tests on a device, in CUDA C++ that CuPy compiles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from sparsemean._kernels import NotFiniteError
from sparsemean._util.records import CountArray, Counts, IntArray, Partition
from sparsemean.errors import require

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


def cupy() -> Any:
    """Return CuPy, or say how to install it."""
    return require("cupy", extra="gpu", purpose="computing on a GPU")


def count_signs(
    X: Any, partition: Partition, *, null: Any = None, missing: bool = False, kind: str | None = None
) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    ``X`` lies by rows on the device; ``kind`` is its type, for bfloat16 that comes as 16-bit integers. ``null`` is
    taken from every row first, see ``rounding``. With ``missing`` NaN is a value that is not there.

    Raises ``NotFiniteError`` if any value is infinite, or NaN without ``missing``, or if a sum overflows.
    """
    total = no_counts(partition, X.shape[1], missing=missing)
    bad = cupy().zeros(1, dtype=np.int32)
    add_counts(X, DeviceBuckets(partition), total, bad, null=null, kind=kind)
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
    null: Any = None,
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
        kind, vector, dealt.depth, dealt.wanted, dealt.offsets is not None, null is not None,
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
            np.int32(dealt.n_leaves), np.int32(at_once), _pointer(null), _pointer(total.positive, first_column),
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
    options += ("--fmad=false",) if shifted else ()
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
MOST_BLOCKS = 528
"""Groups of threads that share all features: four for each processor of the largest card, all there at once."""
ROWS_TO_HOST = 4096
"""Features that come to the host in one copy, with how many there are."""


def _decide(name: str, d: int, *arguments: Any) -> None:
    """Launch a kernel for ``d`` features."""
    _kernel(name, cupy().cuda.runtime.getDevice())((_blocks(d),), (DECIDE_THREADS,), arguments)


def _blocks(d: int) -> int:
    return min(-(-d // DECIDE_THREADS), MOST_BLOCKS)


def majorities(positive: Any, negative: Any, most: int, side: int = 0) -> tuple[Any, Any, list[IntArray]]:
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


def constants(numbers: IntArray) -> Any:
    """Copy whole numbers to the device, for any queue there."""
    xp = cupy()
    there = xp.asarray(numbers.astype(np.int32))
    xp.cuda.get_current_stream().synchronize()
    return there


def reaching(
    statistic: Any, nonzero: Any, index: Any, lasts: Any, asked: Any, slack: int
) -> tuple[Any, CountArray | None]:
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


def betas(counts: Counts, sizes: Sequence[int], best: Any) -> tuple[Any, Any]:
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
def _numbers_there(numbers: tuple[int, ...], device: int) -> Any:  # noqa: ARG001
    return constants(np.array(numbers))


@lru_cache(maxsize=64)
def _kernel(name: str, device: int) -> Any:
    return _module(device).get_function(name)


@lru_cache(maxsize=8)
def _module(device: int) -> Any:  # noqa: ARG001
    code = (resources.files("sparsemean._kernels") / "decide.cu").read_text(encoding="utf-8")
    return cupy().RawModule(code=code, options=("-std=c++17",))
