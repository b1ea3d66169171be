"""A few columns of an array on a device: their bucket means and the skewness of groups of rows, where they lie."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from sparsemean._kernels import reference
from sparsemean._kernels.gpu import DECIDE_THREADS, KINDS, PRECISION, cupy
from sparsemean._util.records import FloatArray, IntArray, Partition

MOST_BLOCKS = 65_536


class Columns:
    """Some ``columns`` of an array on a device, of a kind that is counted as it is, less their null values."""

    def __init__(self, values: Any, kind: str, columns: IntArray, null: FloatArray | None = None) -> None:
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

    def level_means(self, partition: Partition, depth: int) -> list[Any]:
        """Return the (columns, J) bucket means of every level below ``depth``, zero where ``rounding`` has it so."""
        means = self._level_means(partition, depth)
        if self.null is None:
            return means
        sizes = self._level_means(partition, depth, sizes=True)
        settled = reference.settled_means(
            [level.T for level in means], [level.T for level in sizes], partition, self.null,
            2.0 ** PRECISION[self.kind], xp=cupy(),
        )  # fmt: skip
        return [cupy().ascontiguousarray(level.T) for level in settled]

    def _level_means(self, partition: Partition, depth: int, *, sizes: bool = False) -> list[Any]:
        xp, means = cupy(), []
        sums, rows = None, np.ones(partition.n_rows)
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

    def skewness(self, rows: IntArray, size: int) -> Any:
        """Return the sample skewness of groups of ``size`` ``rows``, which follow each other: (groups, columns)."""
        xp, groups = cupy(), rows.size // size
        out = xp.empty((groups, self.many))
        there = xp.asarray(rows, dtype=np.int64)
        self._launch("group_skewness", groups, *self.matrix, there, np.int32(size), np.int32(groups), out)
        return out

    def _launch(self, name: str, each: int, *arguments: Any) -> None:
        blocks = max(1, min(-(-each * self.many // DECIDE_THREADS), MOST_BLOCKS))
        _kernel(name, self.device)((blocks,), (DECIDE_THREADS,), arguments)


@lru_cache(maxsize=16)
def _kernel(name: str, device: int) -> Any:
    return _module(device).get_function(name)


@lru_cache(maxsize=4)
def _module(device: int) -> Any:  # noqa: ARG001
    home = resources.files("sparsemean._kernels")
    code = "".join((home / name).read_text(encoding="utf-8") for name in ("device.cuh", "columns.cu"))
    return cupy().RawModule(code=code, options=("-std=c++17", "--fmad=false"))
