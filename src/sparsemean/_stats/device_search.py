"""The search for slacks under Holm on a device, for sign tests: all thresholds it may need are sent there at once."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from sparsemean._kernels import gpu
from sparsemean._kernels.gpu import Asked, Slacks, constants
from sparsemean._stats.arrays import namespace
from sparsemean._stats.arrays import place as device_of
from sparsemean._stats.nulls import FEW, SignTestNull, least_majorities, times, two_sided
from sparsemean._stats.selection import few_here, fewer_than
from sparsemean._util.records import NO_END, Evidence, IntArray

Numbers = tuple[tuple[int, ...], ...]
"""Numbers of signs that occur, rising, of each size."""


class DeviceSlackSearch:
    """What `selection.SlackSearch` does, where every step has its price: looks follow each other without the host."""

    def __init__(self, evidence: Evidence, low: int, high: int) -> None:
        nulls: Any = evidence.nulls
        self.evidence, self.nulls, self.queued = evidence, nulls, False
        self.numbers: Numbers = tuple(tuple(null.numbers.tolist()) for null in nulls)
        self.looks = tuple((last, places, evidence.factor(len(places))) for last, places in evidence.looks())
        self.device = device_of(evidence.statistic)
        frame = _frame(self.numbers, self.looks, self.device)
        nonzero = _together([null.nonzero for null in nulls])
        self.there = Slacks(evidence.statistic, nonzero, *frame, low=low, high=high)
        self.slack = self.there.slack

    def alive(self, error: float, slack: int, few: int) -> tuple[Any, Evidence]:
        """Return the features, in any order, whose combined p-value is at most ``error``, and their evidence."""
        asked = _asked_there(self.numbers, self.looks, error, self.device)
        features, rows = self.there.reaching(asked, slack, few)
        if rows is None:
            return few_here(self.evidence, features, few)
        statistic, nonzero = np.split(rows[:, 1:].T, 2)
        ends = [(each[0], null.most) for each, null in zip(self.numbers, self.nulls, strict=True)]
        return features, replace(self.evidence, statistic=statistic, nulls=tuple(map(SignTestNull, nonzero, ends)))

    def queue(self, level: float, high: int, rejected: int = 0, *, busy: bool = False) -> None:
        """Queue a search for slacks up to ``high`` from so many ``rejected`` on; more looks if the host is ``busy``."""
        d, looks = self.evidence.n_features, gpu.FIRST_LOOKS if busy else gpu.MORE_LOOKS
        if max(map(len, self.numbers)) <= FEW:
            settled, steps = _steps_there(self.numbers, self.looks, level, d, self.device)
        else:
            settled, steps = self._one_step(level, rejected)
        self.there.begin(steps, start=int(np.searchsorted(settled, rejected)), high=high, looks=looks)
        self.queued = True

    def step_down(self, level: float, high: int, sure: int = 0) -> Any:
        """Find the last slacks, see `selection._step_down`."""
        if not self.queued:
            self.queue(level, high, sure)
        while (stands := self.there.end())["done"] != 1:
            self.queue(level, stands["high"], stands["rejected"])
        return self.slack.astype(np.intp)

    def _one_step(self, level: float, rejected: int) -> tuple[IntArray, Asked]:
        """Return what is asked for so many rejections: numbers of signs may be so many that no more is kept."""
        d = self.evidence.n_features
        asked, larger = _asked(self.numbers, self.looks, level / (d - rejected))
        settled = np.array([fewer_than(larger, level, d)])
        return settled, Asked(constants(asked[np.newaxis]), constants(settled))


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


def all_steps(numbers: Numbers, looks: tuple[Any, ...], level: float, d: int) -> tuple[IntArray, IntArray]:
    """Return what is asked for at any error from level/d to ``level``, which changes in steps, see `Asked`."""
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
    return steps, np.array([*(fewer_than(error, level, d) for error in errors.tolist()), d])


# What does not depend on the data but for the numbers of signs that occur is kept on the device.


@lru_cache(maxsize=16)
def _frame(numbers: Numbers, looks: tuple[Any, ...], device: int) -> tuple[Any, Any]:  # noqa: ARG001
    """Return the place of each number of signs among those that occur at a size, and the ends of eras."""
    index = np.zeros((len(numbers), 1 + max(each[-1] for each in numbers)), dtype=np.intp)
    for row, each in zip(index, numbers, strict=True):
        row[list(each)] = np.arange(len(each))
    return constants(index), constants(np.array([last for last, *_ in looks]))


@lru_cache(maxsize=16)
def _asked_there(numbers: Numbers, looks: tuple[Any, ...], error: float, device: int) -> Any:  # noqa: ARG001
    return constants(_asked(numbers, looks, error)[0])


@lru_cache(maxsize=16)
def _steps_there(
    numbers: Numbers,
    looks: tuple[Any, ...],
    level: float,
    d: int,
    device: int,  # noqa: ARG001
) -> tuple[IntArray, Asked]:
    steps, settled = all_steps(numbers, looks, level, d)
    return settled, Asked(constants(steps), constants(settled))
