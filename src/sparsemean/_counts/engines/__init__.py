"""Engines go over values where they lie: on this machine, on the workers of a cluster, on a GPU.

Each module of this room is one, and answers the same four questions alike; adding one is a module and a case below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Source, find_non_finite
from sparsemean._data.table import Table
from sparsemean._kernels import NotFiniteError
from sparsemean._kernels.influence import InfluenceSums
from sparsemean._util.records import BucketSpec, CellCounts, Counts, FloatArray, IntArray

if TYPE_CHECKING:
    from sparsemean._data.source import Block

Work = Callable[[list[FloatArray], IntArray], FloatArray]
"""What is made of the (J, columns) bucket means of some levels, and of the columns they belong to."""
Mask = npt.NDArray[np.bool_]
Progress = Callable[[float], None]
"""Is told the share of all reading done."""


class How(TypedDict, total=False):
    """How values are gone over once."""

    skip_missing: bool
    n_jobs: int | None
    """Threads, where it is this process that reads."""
    progress: Progress | None


class Engine(Protocol):
    """What goes over the values of one kind of source."""

    def count(
        self, table: Table, spec: BucketSpec, *, keep: IntArray | None = None, **how: Unpack[How]
    ) -> tuple[Counts, FloatArray | None]:
        """Read every value once; return the sign counts of all wanted sizes, and the columns ``keep`` as they came."""
        ...

    def map_means(
        self, source: Source, spec: BucketSpec, columns: IntArray, *, work: Work, depth: int = 1, **how: Unpack[How]
    ) -> FloatArray:
        """Read ``columns`` again and put side by side what ``work`` makes of their bucket means.

        ``work`` is given the (J, columns) means of each level below ``depth``, and the columns.
        """
        ...

    def rank_counts(
        self, table: Table, cells: IntArray, strata: IntArray, against: IntArray, **how: Unpack[How]
    ) -> CellCounts:
        """Compare cells of rows in every feature, in as many ways as ``against`` has rows, from one sort.

        ``cells`` is the cell of each row (−1: none), ``strata`` the stratum of each cell and ``against[p, c]`` the
        cell that c is compared with: −1 for all others of its stratum, −2 for none, where zeros are returned.
        """
        ...

    def influence_sums(
        self,
        table: Table,
        centres: FloatArray,
        unit: FloatArray,
        kappa: float,
        *,
        rows: Mask | None = None,
        **how: Unpack[How],
    ) -> InfluenceSums:
        """Read every value once and add up ψ((x − c)/unit), for each row c of the (k, d) ``centres``.

        ``rows`` says which rows are added up, all by default.
        """
        ...


def engine_of(source: Source) -> Engine:
    """Return the engine of a source, which is loaded now."""
    match source.engine:
        case "dask":
            from sparsemean._counts.engines import dask

            return dask
        case "gpu":
            from sparsemean._counts.engines import gpu

            return gpu
        case _:
            from sparsemean._counts.engines import host

            return host


@contextmanager
def refusing(
    table: Table, block: Block | None = None, at: tuple[int, int] = (0, 0), *, skip_missing: bool
) -> Iterator[None]:
    """Name the value that is not finite where a kernel refuses a block of a table, or all of it."""
    try:
        yield
    except NotFiniteError:
        if block is None:
            place = table.source.find_non_finite(skip_missing=skip_missing)
        else:
            place = find_non_finite(block, at=at, skip_missing=skip_missing)
        raise table.non_finite_error(place, skip_missing=skip_missing) from None
