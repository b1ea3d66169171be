"""Best times of several sides that take turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

Side = Callable[[], object]
Clock = Callable[[], float]


def best_times(*sides: Side, repeat: int, clock: Clock = time.perf_counter) -> tuple[float, ...]:
    """Call the sides in turn (a, b, a, b, …), ``repeat`` times each, and return the shortest time of each.

    A slow moment of the machine then hits all sides alike, and the best of several is free of it.
    """
    best = [math.inf] * len(sides)
    for _ in range(repeat):
        for i, side in enumerate(sides):
            began = clock()
            side()
            best[i] = min(best[i], clock() - began)
    return tuple(best)
