"""The shapes at which a pass over the data is compared with ``X.mean(axis=0)``."""

from __future__ import annotations

from collections.abc import Iterator

from sparsemean.bench import data

FULL = ((2000, 100_000), (10_000, 20_000), (600, 300_000))
QUICK = ((2000, 10_000),)
ELSEWHERE = 1.25
"""Bars are stated for the first shape; at the others this many times as much is allowed."""


def matrices(quick: bool) -> Iterator[tuple[data.FloatMatrix, float | None]]:
    """Yield every shape in both precisions, with the factor of its bars (None: no bar applies)."""
    for i, (n, d) in enumerate(QUICK if quick else FULL):
        for dtype in ("float64", "float32"):
            yield data.draw(n, d, dtype), None if quick else (1.0 if i == 0 else ELSEWHERE)


def scaled(bar: float, factor: float | None) -> float | None:
    """Return the bar of a shape."""
    return None if factor is None else bar * factor
