"""From n, d, ε and level to what will be done, before any value is seen: sizes, thresholds, detectable effect."""

from __future__ import annotations

from sparsemean.planning.fits import MIN_ROWS, one_of, pairs_plan, plan_fit
from sparsemean.planning.outlook import plan

__all__ = ["MIN_ROWS", "one_of", "pairs_plan", "plan", "plan_fit"]
