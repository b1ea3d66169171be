"""Mann and Whitney's U by counting, in whole numbers."""

from __future__ import annotations

from functools import cache


@cache
def arrangements(n1: int, n2: int) -> tuple[int, ...]:
    """How many orders of n₁ and n₂ values have U = 0, 1, …"""
    if n1 == 0 or n2 == 0:
        return (1,)
    counts = [0] * (n1 * n2 + 1)
    for u, ways in enumerate(arrangements(n1 - 1, n2)):
        counts[u + n2] += ways
    for u, ways in enumerate(arrangements(n1, n2 - 1)):
        counts[u] += ways
    return tuple(counts)
