"""How long and how large a method may be: it climbs a ladder of sizes until the next rung would cost too much."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

MOST_BYTES = 5e9
PATIENCE = 2.0
"""A rung is left out when the growth so far says that it would take this many times the allowance."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that one call may take, seconds for repeating it, and the most repeats."""

    seconds: float = 20.0
    repeating: float = 2.0
    repeats: int = 7


@dataclass(slots=True)
class Climb:
    """The times of one method as the problem grows; ``stopped`` says why it went no further, ``remark`` what else."""

    allowance: Allowance
    times: dict[int, float] = field(default_factory=dict)
    stopped: str = ""
    remark: str = ""

    def may_try(self, size: int, bytes_needed: float) -> bool:
        """Whether the method may be timed at ``size``; if not, it stops here."""
        if self.stopped:
            return False
        if bytes_needed > MOST_BYTES:
            self.stopped = f"{size:,} features would need {bytes_needed / 1e9:.0f} GB"
        elif self.expected() > PATIENCE * self.allowance.seconds:
            self.stopped = f"{size:,} features would take about {self.expected():.0f} s"
        return not self.stopped

    def expected(self) -> float:
        """Return the time of the next rung if it grows as it did between the last two; 0 if nothing is known."""
        latest = list(self.times.values())[-2:]
        return latest[1] ** 2 / latest[0] if len(latest) == 2 else 0.0

    def time(self, size: int, work: Callable[[], T]) -> T:
        """Time ``work``, the best of several calls, stop after a call beyond the allowance, and return its answer."""
        best, answer = best_of(work, self.allowance)
        self.times[size] = best
        if best > self.allowance.seconds:
            self.stopped = f"{size:,} features took {best:.0f} s"
        return answer


def best_of(work: Callable[[], T], allowance: Allowance) -> tuple[float, T]:
    """Return the shortest time of several calls, and the answer of the last; long ones are made once."""
    began, times = time.perf_counter(), list[float]()
    while not times or (len(times) < allowance.repeats and time.perf_counter() - began < allowance.repeating):
        start = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - start)
    return min(times), answer
