"""Simulated data: heavy-tailed rows around a sparse mean, a fraction of them in an adversary's hands."""

from __future__ import annotations

from sparsemean.simulate import attacks, distributions
from sparsemean.simulate._protocols import Replacement
from sparsemean.simulate.contaminated import make_contaminated

__all__ = ["Replacement", "attacks", "distributions", "make_contaminated"]
