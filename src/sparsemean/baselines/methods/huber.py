"""Huber's M-estimate of every coordinate."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.influence import locate_by_influence
from sparsemean.records import FloatArray, Located

__all__ = ["huber"]

BEND = 1.345
"""95 % efficiency for Gaussian noise."""


@baseline(
    assumes="symmetric noise, or little of it beyond 1.345 standard deviations",
    cost="n d",
    reference="Huber 1964, Ann. Math. Stat. 35",
)
def huber(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Solve Σ clip((xᵢ − θ)/s, ±1.345) = 0 in every coordinate, s = 1.4826 MAD.

    The scale is fixed beforehand, the start is the median, and no coordinate moves by more than 1e-12 s at the end.
    Where the MAD is zero the median stays. Error of order ε√d under corruption.

    References
    ----------
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35(1), 73–101.
    """
    return locate_by_influence(X, lambda r: np.clip(r, -BEND, BEND), width=1.0)
