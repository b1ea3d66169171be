"""The frozen things that pass between rooms; this file imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
CountArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, fixed before any value of the data is looked at.

    Attributes
    ----------
    n_rows, n_features
        Shape of the data.
    contamination
        Share ε of rows that may be arbitrary.
    bad_rows
        The number of rows that ε stands for.
    dealing
        ``"paper"``: one permutation of all rows; ``"blocks"``: blocks of 64 rows, so that counts add up.
    n_buckets
        Number J of buckets for ``"paper"``; None for ``"blocks"``.
    bucket_sizes
        Rows in a bucket, one entry for each nested size; the paper's single size is rounded down.
    alpha, eta
        Initial scale and step size of the subgradient method.
    select_at, estimate_at
        Iterations at which the support and the values are read.
    min_selected
        The support is filled up to this many features with those that have moved farthest.
    """

    n_rows: int
    n_features: int
    contamination: float
    bad_rows: int
    dealing: str
    n_buckets: int | None
    bucket_sizes: tuple[int, ...]
    alpha: float
    eta: float
    select_at: int
    estimate_at: int
    min_selected: int


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Rows dealt into buckets, nested buckets above them.

    ``order`` lists the rows bucket by bucket. ``levels[0]`` are the offsets of the finest buckets in ``order``;
    ``levels[h]`` are the offsets of the buckets of level h among those of level h−1. ``sizes[h]`` is the nominal
    size at level h and ``wanted`` the levels that are counted.
    """

    order: IntArray
    levels: tuple[IntArray, ...]
    sizes: tuple[int, ...]
    wanted: tuple[int, ...]
    bucket_of_row: IntArray
    places: IntArray | None = None
    """For blocks of 64: the row at every place of every block, −1 at a place that is empty."""

    @property
    def n_rows(self) -> int:
        """Number of rows dealt."""
        return int(self.order.size)

    def n_buckets(self, level: int) -> int:
        """Return the number of buckets at ``level`` that hold at least one row."""
        return int(self.levels[level].size) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What one pass learns of every feature; ``positive`` and ``negative`` have a row for each wanted size."""

    positive: CountArray
    negative: CountArray
    nearest: FloatArray
    """Smallest nonzero |bucket mean| of the largest size; infinity where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The counts together with the number of buckets behind them."""

    counts: Counts
    n_buckets: tuple[int, ...]

    def beta(self, size: int = 0) -> FloatArray:
        """Return β₀ = (N₊ − N₋)/J of every feature at the given size index."""
        net = self.counts.positive[size].astype(np.int64) - self.counts.negative[size]
        return np.asarray(net / self.n_buckets[size], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Which features were selected, and how."""

    support: IntArray
    rule: str
    filled_up: int = 0
    """How many of them came in only to reach ``min_selected``."""


@dataclass(frozen=True, slots=True)
class Status:
    """Warnings as data: one sentence each, and what the run used."""

    messages: tuple[str, ...] = ()
    walked: int = 0
    """Features whose walk met a bucket mean and was made step by step."""
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the status as plain values."""
        return {
            "messages": list(self.messages),
            "walked": self.walked,
            "seconds": self.seconds,
            "versions": dict(self.versions),
        }
