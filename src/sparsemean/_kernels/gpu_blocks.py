"""More work on a device: centres and means of a few columns, groups compared in all, leading directions."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import NotFiniteError
from sparsemean._kernels.gpu import DECIDE_THREADS, KINDS, PRECISION, cupy, kernel
from sparsemean._kernels.rounding import DOUBLE, SINGLE, Grid, settled_means
from sparsemean._util.records import FloatArray, IntArray, Partition

if TYPE_CHECKING:
    from cupy import RawKernel, ndarray

Single: TypeAlias = npt.NDArray[np.float32]
THREADS = 256
"""Of a block. Each walks along n/256 of the sums of two rows; so many values part those of groups into buckets."""
ONE_BLOCK = 1024
"""Threads of a block that works alone: as many as there may be."""
OWN_MEMORY = 48 * 1024
"""Bytes that a block may have to itself, without asking for more."""
FIELDS = 12
"""Counts of a column, see `compare_groups`."""


def sorted_columns(X: ndarray) -> ndarray:
    """Return (features, rows) doubles on the device, each feature sorted, NaN last, from rows by features there."""
    xp = cupy()
    return xp.sort(xp.ascontiguousarray(X.T), axis=1).astype(np.float64)


def starts(columns: ndarray, *, by_median: bool) -> ndarray:
    """Return the pseudomedian, or the median, of what is there in each of the sorted ``columns``, on the device.

    It is NaN where there is nothing.
    """
    k, n = columns.shape
    start = cupy().empty(k)
    _of_columns("starts", columns.device.id)((k,), (THREADS,), (columns, np.int32(n), np.int32(by_median), start))
    return start


def locate(
    columns: ndarray,
    start: ndarray,
    *,
    degrees: tuple[float, ...],
    gaussian: float,
    far: float,
    near: float,
    fewest: int,
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int8]]:
    """Return the centres of the sorted ``columns`` that are compared, and their errors, on the host.

    They are (features, kinds): the Hodges–Lehmann estimate, the same bits as on the host, then Student-t centres of
    ``degrees`` of freedom. An infinite error says that a centre is not to be used. Last, for each feature: 0 where the
    Hodges–Lehmann estimate stands for all kinds, −1 where nothing but the start does.
    """
    xp, (k, n), kinds = cupy(), columns.shape, 1 + len(degrees)
    rule = xp.asarray(np.array([gaussian, far, near, fewest, *degrees], dtype=np.float64))
    found, compared = xp.empty((2, k, kinds)), xp.empty(k, dtype=np.int8)
    _of_columns("locate", columns.device.id)(
        (k,), (THREADS,), (columns, np.int32(n), start, rule, np.int32(kinds), found[0], found[1], compared)
    )
    values, errors = found.get()
    return values, errors, compared.get()


def _of_columns(name: str, device: int) -> RawKernel:
    return kernel(name, device, ("blocks.cuh", "centres.cu"), THREADS=THREADS)


def clipped(X: ndarray, centre: ndarray, unit: ndarray, *, most: float) -> ndarray:
    """Return rows by features from their ``centre`` in units, clipped, in single precision; 0 where one is missing."""
    xp = cupy()
    away = xp.clip((X - centre) / unit, -most, most)
    return xp.where(xp.isnan(away), 0.0, away).astype(np.float32)


def most_rows(size: int) -> int:
    """Return how many rows of groups, values of ``size`` bytes each, fit into the memory that a block has to itself.

    That is what `compare_groups` has shared: the value and the bucket of each row; the value that each thread sorts;
    two counts of a bucket, of which there are two for each thread and one more; and ten words of each warp.
    """
    buckets, warps = 2 * THREADS + 1, THREADS // 32
    left = OWN_MEMORY - size * THREADS - 2 * 4 * buckets - 10 * 4 * warps
    return left // (size + 2) // THREADS * THREADS


def compare_groups(X: ndarray, groups: IntArray, *, missing: bool = False, grid: Grid | None = None) -> ndarray:
    """Return the (12, features) counts of rows of group 0 against those of group 1, on the device; 2 is neither.

    They are values, positive and negative ones of either group; wins and ties of the first among positive values, the
    same among negative ones; and how many values of both repeat others, among positive and among negative ones.
    ``X`` has rows of floats, `most_rows` at most, which are compared once they are rounded to a ``grid``.

    Raises ``NotFiniteError`` if any value is infinite, or NaN without ``missing``.
    """
    xp, (n, d), size = cupy(), X.shape, X.dtype.itemsize
    assert n <= most_rows(size), "columns fit into the memory of a block"
    assert X.strides[1] == size or d == 1, "rows are read as they lie"
    counts, bad = xp.empty((FIELDS, d), dtype=np.int32), xp.zeros(1, dtype=np.int32)
    files, rows = ("blocks.cuh", "compare_groups.cu"), -(-n // THREADS) * THREADS
    compare = kernel("compare_groups", X.device.id, files, THREADS=THREADS, ROWS=rows, SIZE=size)
    there = xp.asarray(groups.astype(np.uint8)), _grid_there(grid and grid.least, X.device.id)
    compare((d,), (THREADS,), (X, np.int64(X.strides[0] // size), np.int32(n), *there, np.int32(missing), counts, bad))
    if int(bad[0]):
        raise NotFiniteError
    return counts


@lru_cache(maxsize=8)
def _grid_there(least: float | None, device: int) -> ndarray:  # noqa: ARG001
    """Return the numbers of the grid that begins so, on the device; of none, those to which nothing is rounded."""
    grids = [grid for grid in (DOUBLE, SINGLE) if grid.least == least]
    numbers = [np.concatenate((grid[:3], *grid[3:])) for grid in grids] or [np.array([np.inf, 0.0, 0.0])]
    return cupy().asarray(numbers[0])


class DeviceSpace:
    """Vectors of Lanczos' method on the device, each with its image; see `directions.Space` for the same on the host.

    The matrix is ``gram``, single and symmetric, less the product of ``sums`` and ``centre``. A step is two launches:
    one block makes a vector of the image of the last, for which all of its threads must wait for each other; all blocks
    make its image, as one would be long in reading the matrix.
    """

    def __init__(self, gram: ndarray, sums: Single, centre: Single, *, start: Single, most: int, tiny: float) -> None:
        xp, p = cupy(), start.size
        self.size, self.p = 0, np.int32(p)
        there = xp.asarray(np.stack((sums, centre, start)).astype(np.float32))  # in one copy
        self.matrix = (xp.ascontiguousarray(gram), there[0], there[1])
        self.basis, self.images = xp.empty((most, p), dtype=np.float32), xp.empty((most + 1, p), dtype=np.float32)
        self.images[0] = there[2]
        self.left = xp.empty(most, dtype=np.float32)
        self.next_vector, self.next_image = (
            kernel(name, gram.device.id, ("blocks.cuh", "lanczos.cu"), THREADS=ONE_BLOCK, STEPS=most, TINY=tiny)
            for name in ("next_vector", "next_image")
        )

    def grow(self, size: int) -> Single:
        """Add vectors up to so many, and return the share that those before have left of each."""
        blocks = -(-32 * int(self.p) // THREADS)
        for k in map(np.int32, range(self.size, size)):
            self.next_vector((1,), (ONE_BLOCK,), (self.images, k, self.p, self.basis, self.left))
            self.next_image((blocks,), (THREADS,), (*self.matrix, k, self.p, self.basis, self.images))
        self.size = size
        return self.left[:size].get()  # type: ignore[no-any-return]


# A few columns of an array: their bucket means and the skewness of groups of rows, where they lie.

MOST_BLOCKS = 65_536


class Columns:
    """Some ``columns`` of an array on a device, of a kind that is counted as it is, less their null values."""

    def __init__(self, values: ndarray, kind: str, columns: IntArray, null: FloatArray | None = None) -> None:
        xp = cupy()
        self.many, self.device = columns.size, values.device.id
        there = xp.asarray(columns, dtype=np.int64)
        self.null = None if null is None else xp.asarray(null, dtype=np.float64)
        self.kept, self.kind = (values, there), kind  # for as long as kernels may read them
        row_step, column_step = values.strides
        self.matrix = (
            values, np.int32(KINDS[kind]), np.int64(row_step), np.int64(column_step), there,
            np.uint64(0) if self.null is None else self.null, np.int32(self.many),
        )  # fmt: skip

    def level_means(self, partition: Partition, depth: int) -> list[ndarray]:
        """Return the (columns, J) bucket means of every level below ``depth``, zero where ``rounding`` has it so."""
        means = self._level_means(partition, depth)
        if self.null is None:
            return means
        sizes = self._level_means(partition, depth, sizes=True)
        settled = settled_means(
            [level.T for level in means], [level.T for level in sizes], partition, self.null,
            2.0 ** PRECISION[self.kind], xp=cupy(),
        )  # fmt: skip
        return [cupy().ascontiguousarray(level.T) for level in settled]

    def _level_means(self, partition: Partition, depth: int, *, sizes: bool = False) -> list[ndarray]:
        xp, means = cupy(), []
        sums, rows = None, np.ones(partition.order.size)
        for offsets in partition.levels[:depth]:
            J, before = offsets.size - 1, rows.size
            rows = np.add.reduceat(rows, offsets[:-1])
            out = xp.empty((2, self.many, J))
            cuts = xp.asarray(offsets, dtype=np.int32)
            if sums is None:
                order = xp.asarray(partition.order, dtype=np.int64)
                leaves = order, cuts, np.int32(J), out[0], out[1]
                self._launch("leaf_means", J, *self.matrix, np.int32(sizes), *leaves)
            else:
                below = sums, np.int32(before), cuts, xp.asarray(rows)
                self._launch("nested_means", J, *below, np.int32(self.many), np.int32(J), out[0], out[1])
            sums = out[0]
            means.append(out[1])
        return means

    def skewness(self, rows: IntArray, size: int) -> ndarray:
        """Return the sample skewness of groups of ``size`` ``rows``, which follow each other: (groups, columns)."""
        xp, groups = cupy(), rows.size // size
        out = xp.empty((groups, self.many))
        there = xp.asarray(rows, dtype=np.int64)
        self._launch("group_skewness", groups, *self.matrix, there, np.int32(size), np.int32(groups), out)
        return out

    def _launch(self, name: str, each: int, *arguments: object) -> None:
        blocks = max(1, min(-(-each * self.many // DECIDE_THREADS), MOST_BLOCKS))
        launched = kernel(name, self.device, ("device.cuh", "columns.cu"), fused=False)
        launched((blocks,), (DECIDE_THREADS,), arguments)
