"""The search for slacks under Holm on a device, for sign tests: all thresholds it may need are sent there at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparsemean._kernels.gpu import Asked, Slacks
from sparsemean._stats.arrays import namespace
from sparsemean._stats.nulls import FEW, least_majorities, times, two_sided
from sparsemean._stats.selection import fewer_than
from sparsemean._util.records import NO_END, Evidence, IntArray

Numbers = tuple[tuple[int, ...], ...]
"""Numbers of signs that occur, rising, of each size."""


class DeviceSlackSearch:
    """What `selection.SlackSearch` does, where every step has its price: looks follow each other without the host."""

    def __init__(self, evidence: Evidence, low: int, high: int) -> None:
        self.evidence = evidence
        nulls: Any = evidence.nulls
        self.numbers: Numbers = tuple(tuple(null.numbers.tolist()) for null in nulls)
        self.looks = tuple((last, places, evidence.factor(len(places))) for last, places in evidence.looks())
        self.there = Slacks(
            evidence.statistic, _together([null.nonzero for null in nulls]), [null.numbers for null in nulls],
            lasts=[last for last, *_ in self.looks], low=low, high=high,
        )  # fmt: skip
        self.slack = self.there.slack

    def reaching(self, error: float, slack: int) -> Any:
        """Return the features, in any order, whose combined p-value is at most ``error``, below 1, at ``slack``."""
        return self.there.reaching(_asked(self.numbers, self.looks, error)[0], slack)

    def step_down(self, level: float, high: int, sure: int = 0) -> Any:
        """Find the last slacks, see `selection._step_down`."""
        d, rejected = self.evidence.n_features, sure
        while True:
            few = max(map(len, self.numbers)) <= FEW
            steps = all_steps(self.numbers, self.looks, level, d) if few else self._one_step(level, rejected)
            stands = self.there.raise_all(steps, high=high, rejected=rejected)
            if stands["done"] == 1:
                return self.slack.astype(np.intp)
            high, rejected = stands["high"], stands["rejected"]

    def _one_step(self, level: float, rejected: int) -> Asked:
        """Return what is asked for so many rejections: numbers of signs may be so many that no more is kept."""
        d = self.evidence.n_features
        asked, larger = _asked(self.numbers, self.looks, level / (d - rejected))
        return Asked(asked[np.newaxis], np.array([fewer_than(larger, level, d)]))


def _together(rows: list[Any]) -> Any:
    """Return arrays of one length as rows of one; those that lie so already are passed on as they are."""
    first = rows[0]
    if all(row.data.ptr == first.data.ptr + k * first.nbytes for k, row in enumerate(rows)):
        return first
    return namespace(first).stack(rows)


def _asked(numbers: Numbers, looks: tuple[Any, ...], error: float) -> tuple[IntArray, float]:
    """Return the majorities asked for, (eras, sizes, numbers), and the next larger error that asks less."""
    asked = np.full((len(looks), len(numbers), max(map(len, numbers))), NO_END, dtype=np.intp)
    larger = np.inf
    for of_era, (_, places, factor) in zip(asked, looks, strict=True):
        for place in places:
            least, next_larger = least_majorities(np.array(numbers[place]), error, factor)
            of_era[place, : least.size], larger = least, min(larger, next_larger)
    return asked, larger


@lru_cache(maxsize=16)
def all_steps(numbers: Numbers, looks: tuple[Any, ...], level: float, d: int) -> Asked:
    """Return what is asked for at any error from level/d to ``level``, which changes in steps."""
    asked, _ = _asked(numbers, looks, level / d)
    falls = {}
    for era, (_, places, factor) in enumerate(looks):
        for place in places:
            last, _ = least_majorities(np.array(numbers[place]), level, factor)
            for k, number in enumerate(numbers[place]):
                majority = np.arange(asked[era, place, k] - 1, last[k] - 1, -1)
                p = times(two_sided(majority, np.full(majority.size, number)), factor)
                falls[era, place, k] = np.maximum.accumulate(p)
    errors = np.unique(np.concatenate(list(falls.values())))
    steps = np.repeat(asked[np.newaxis], errors.size + 1, axis=0)
    for at, p in falls.items():
        steps[(slice(1, None), *at)] -= np.searchsorted(p, errors, side="right")
    return Asked(steps, np.array([*(fewer_than(error, level, d) for error in errors.tolist()), d]))
