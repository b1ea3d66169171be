"""Every speed and memory number the project states, measured on the machine at hand.

One file of ``cases`` per benchmark. Where a number is a ratio, its two sides are timed alternately in one run and the
best time of each is taken, because a machine that others use too is slower at some moments than at others.
"""

from __future__ import annotations

from sparsemean.bench.row import Row
from sparsemean.bench.running import available, run

__all__ = ["Row", "available", "run"]
