"""A source and a partition become evidence; each kind of source has its road, a module of this room.

Every road answers the same two questions, ``count`` and ``map_means``, and answers them alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sparsemean._data.table import Table
from sparsemean._util.records import Counts, FloatArray, IntArray, Partition

Work = Callable[[list[FloatArray], IntArray], FloatArray]
"""What is made of the (J, columns) bucket means of some levels, and of the columns they belong to."""


def count(
    table: Table, partition: Partition, *, keep: IntArray | None = None, **options: Any
) -> tuple[Counts, FloatArray | None]:
    """Read every value once; return the sign counts of all wanted sizes, and the columns ``keep`` as they came by.

    Options are those of `engines.host.count`: ``shift``, ``missing``, ``n_jobs`` and ``progress``.
    """
    counted: tuple[Counts, FloatArray | None] = _road(table).count(table, partition, keep=keep, **options)
    return counted


def map_means(table: Table, partition: Partition, columns: IntArray, work: Work, **options: Any) -> FloatArray:
    """Read ``columns`` again and put side by side what ``work`` makes of their bucket means.

    Options are those of `engines.host.map_means`: ``depth``, ``shift``, ``missing`` and ``n_jobs``.
    """
    made: FloatArray = _road(table).map_means(table, partition, columns, work, **options)
    return made


def _road(table: Table) -> Any:
    return importlib.import_module(f"sparsemean._counts.engines.{table.source.road}")
