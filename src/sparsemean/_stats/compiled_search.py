"""The search for slacks of many features by sign tests, in compiled passes over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels import slacks
from sparsemean._stats.nulls import least_majorities
from sparsemean._stats.selection import SlackSearch
from sparsemean._util.records import NO_END, CountArray, Evidence, IntArray


class CompiledSlackSearch(SlackSearch):
    """What `SlackSearch` does, where a look is one pass over the features."""

    def __init__(self, evidence: Evidence, low: int, high: int) -> None:
        super().__init__(evidence, low)
        nulls: Any = evidence.nulls
        ragged = np.zeros((len(nulls), evidence.n_features // slacks.TILE + 1), dtype=bool)
        for of_size, null in zip(ragged, nulls, strict=True):
            of_size[null.fewer // slacks.TILE] = True
        some = bool(ragged.any())
        nonzero = np.stack([null.nonzero for null in nulls]) if some else np.empty((len(nulls), 0), np.int32)
        self.counts, self.most = (evidence.statistic, nonzero, ragged), max(null.most for null in nulls) if some else -1
        self.lasts = np.array([last for last, _ in evidence.looks()])
        self.counted = np.empty(high - low + 1, dtype=np.intp)

    def _asked(self, error: float) -> tuple[CountArray, float]:
        """Return the majorities asked for, (eras, sizes, numbers of signs), and the next error that asks less."""
        looks, larger = self.evidence.looks(), np.inf
        asked = np.full((len(looks), len(self.evidence.nulls), self.most + 2), NO_END, dtype=np.int32)
        for of_era, (_, places) in zip(asked, looks, strict=True):
            for place in places:
                null: Any = self.evidence.nulls[place]
                least, next_larger = least_majorities(null.numbers, error, self.evidence.factor(len(places)))
                of_era[place, -1] = least[-1]
                if self.most >= 0:
                    of_era[place, null.numbers] = least
                larger = min(larger, next_larger)
        return asked, larger

    def reaching(self, error: float, slack: int) -> IntArray:
        """Return the features whose combined p-value is at most ``error``, below 1, at ``slack``."""
        found = np.empty(self.evidence.n_features, dtype=bool)
        slacks.reaching(*self.counts, self._asked(error)[0], self.lasts, slack, found)
        return np.flatnonzero(found)

    def raise_to(self, error: float, high: int) -> float:
        """Raise slacks; return the next larger error that asks less."""
        asked, larger = self._asked(error)
        slacks.raise_slacks(*self.counts, asked, self.lasts, self.low, high, self.slack)
        return larger

    def reached_by_more(self, than: int) -> tuple[int, int]:
        """Return the largest slack that more ``than`` so many features have reached, and how many have."""
        slacks.histogram(self.slack, self.low, self.counted)
        at_least = np.cumsum(self.counted[::-1])[::-1]
        last = int(np.flatnonzero(at_least > than)[-1])
        return self.low + last, int(at_least[last])
