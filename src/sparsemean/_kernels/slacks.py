"""One look at all features, which of them reach an error: see ``_evidence.signs``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean._kernels.compiling import compiled

Arr = Any
TILE = 2048
"""Features that are looked at together: their numbers stay in the first-level cache."""
LEAST = np.int32(-(1 << 30))


@compiled
def reaching(statistic: Arr, nonzero: Arr, ragged: Arr, asked: Arr, lasts: Arr, slack: int, found: Arr) -> None:
    """Flag the features that have what is asked for at ``slack``, and in eras before it at their ends.

    ``asked`` is what each size is asked for in each era, for each number of signs and last for the most there are:
    ``ragged`` says where among `TILE` features any has fewer, whose numbers are ``nonzero``.
    """
    room = np.empty(TILE, np.int32)
    for first in range(0, found.size, TILE):
        mine = found[first : first + TILE]
        mine[:] = True
        before = LEAST
        for era in range(lasts.size):
            if slack > before:
                _rooms(statistic, nonzero, ragged, asked[era], first, room[: mine.size])
                least = np.int32(min(slack, lasts[era]))
                for f in range(mine.size):
                    mine[f] &= room[f] >= least
            before = lasts[era]


@compiled
def _rooms(statistic: Arr, nonzero: Arr, ragged: Arr, asked: Arr, first: int, room: Arr) -> None:
    """Write by how much the majorities of some features exceed what is asked for, the most of all sizes."""
    room[:] = LEAST
    for size in range(statistic.shape[0]):
        least = asked[size, asked.shape[1] - 1]
        if least == -LEAST:
            continue  # not looked at
        mine = statistic[size, first : first + room.size]
        if not ragged[size, first // TILE]:
            for f in range(room.size):
                room[f] = max(room[f], np.int32(mine[f] - least))
        else:
            numbers = nonzero[size, first : first + room.size]
            for f in range(room.size):
                room[f] = max(room[f], np.int32(mine[f] - asked[size, np.uintp(numbers[f])]))
