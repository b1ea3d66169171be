"""One line of the benchmark table."""

from __future__ import annotations

import math
from dataclasses import dataclass

Bar = float | tuple[float, float]


@dataclass(frozen=True, slots=True)
class Row:
    """A measured number and what it should be.

    Attributes
    ----------
    name
        What was measured, in words, with the shape it was measured at.
    value
        The number.
    unit
        "×", "s", "ms", "MB", or "of" where the name goes on with how many there are.
    bar
        The largest value that is good enough, or the (smallest, largest) one; None where nothing is promised.
    goal
        What the value would ideally be.
    detail
        The numbers behind a ratio, in words.

    Examples
    --------
    >>> row = Row("speed-up", 912.0, "×", bar=at_least(200))
    >>> row.met, row.bar_text
    (True, '≥ 200')
    """

    name: str
    value: float
    unit: str
    bar: Bar | None = None
    goal: float | None = None
    detail: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value that meet the bar."""
        if self.bar is None:
            return -math.inf, math.inf
        return self.bar if isinstance(self.bar, tuple) else (-math.inf, self.bar)

    @property
    def met(self) -> bool | None:
        """Whether the value meets the bar; None without one."""
        low, high = self.bounds
        return None if self.bar is None else low <= self.value <= high

    @property
    def bar_text(self) -> str:
        """The bar as a table shows it; empty without one."""
        low, high = self.bounds
        if self.bar is None:
            return ""
        if math.isinf(low):
            return f"≤ {high:g}"
        return f"≥ {low:g}" if math.isinf(high) else f"{low:g} – {high:g}"


def at_least(low: float) -> tuple[float, float]:
    """Return the bar of a value that should be large."""
    return low, math.inf
