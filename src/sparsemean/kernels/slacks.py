"""Sign tests of all features on a GPU: up to which slack each still has what is asked of it."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from sparsemean.kernels.gpu import cupy
from sparsemean.records import IntArray

THREADS = 256
COPIES = 64
"""Of the counters of each slack, so that threads do not wait for each other."""
COUNTERS = 2**24
"""In all copies together, at most."""


class Slacks:
    """Statistics and numbers of signs on the device, (sizes, features) both, and a slack of each feature.

    Slacks begin at ``low`` and are raised to ``high`` at most.
    """

    def __init__(self, statistic: Any, nonzero: Any, most: int, *, low: int, high: int) -> None:
        xp = cupy()
        self.statistic, self.nonzero, self.low = statistic, nonzero, low
        self.sizes, self.d = statistic.shape
        self.slack = xp.full(self.d, low, dtype=np.int32)
        self.asked = np.zeros((self.sizes, most + 1), dtype=np.int32)
        self.asked_there = xp.empty(self.asked.shape, dtype=np.int32)
        bins = high - low + 1
        copies = max(1, min(COPIES, -(-self.d // THREADS), COUNTERS // bins))
        self.copied = xp.zeros((copies, bins), dtype=np.int32)
        self.features = xp.empty(bins, dtype=np.int32)
        self.numbers = self._occurring()

    def _shape(self) -> tuple[Any, ...]:
        return self.nonzero, np.int64(self.d), np.int32(self.sizes), np.int32(self.asked.shape[1])

    def _launch(self, name: str, threads: int, *arguments: Any) -> None:
        kernel = _kernel(name, self.statistic.device.id)
        kernel((-(-threads // THREADS),), (THREADS,), arguments)

    def _occurring(self) -> list[IntArray]:
        """Return the numbers of signs that occur at each size, rising."""
        occurs = cupy().zeros(self.asked.shape, dtype=np.uint8)
        self._launch("mark_numbers", self.d, *self._shape(), occurs)
        return [np.flatnonzero(row) for row in occurs.get()]

    def reaching(self, asked: list[IntArray], slack: int) -> Any:
        """Return the features one of whose statistics, less ``slack``, reaches what is ``asked`` of it."""
        xp = cupy()
        reached = xp.zeros(self.d, dtype=bool)
        self._ask(asked)
        self._launch("reach", self.d, self.statistic, *self._shape(), self.asked_there, np.int32(slack), reached)
        return xp.flatnonzero(reached)

    def raise_all(self, asked: list[IntArray], *, high: int) -> None:
        """Raise slacks to what is left where ``asked``, of each number of signs that occurs, is taken off."""
        self._ask(asked)
        copies, bins = map(np.int32, self.copied.shape)
        self._launch(
            "raise_slack", self.d, self.statistic, *self._shape(), self.asked_there, np.int32(self.low),
            np.int32(high), bins, copies, self.slack, self.copied,
        )  # fmt: skip
        self._launch("add_copies", self.features.size, bins, copies, self.copied, self.features)

    def _ask(self, asked: list[IntArray]) -> None:
        for row, numbers, least in zip(self.asked, self.numbers, asked, strict=True):
            row[numbers] = least
        self.asked_there.set(self.asked)

    def counted(self) -> IntArray:
        """Return how many features have each slack, from the lowest to the highest."""
        features: IntArray = self.features.get()
        return features


@lru_cache(maxsize=64)
def _kernel(name: str, device: int) -> Any:  # noqa: ARG001
    code = (resources.files("sparsemean.kernels") / "decide.cu").read_text(encoding="utf-8")
    return cupy().RawModule(code=code, options=("-std=c++17",)).get_function(name)
