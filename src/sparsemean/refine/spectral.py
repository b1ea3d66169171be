"""Which rows agree with each other on the support: spectral descent on clipped columns, safe under heavy tails."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sparsemean.baselines.descent import largest_weight, spectral_descent
from sparsemean.present import filled, medians
from sparsemean.records import FloatArray

CLIP = 4.0
"""In median deviations: far enough to show a cluster in one column, near enough that tails do not lead the descent."""
FEW = 0.25
"""Times √n: no more wrong rows than this move a robust centre by less than half its standard error; all rows stay."""
MOST_COLUMNS = 256
"""Columns that the descent looks at, evenly spread over the support: its cost grows with their square."""


def agreeing(X: FloatArray, centre: FloatArray, share: float) -> npt.NDArray[np.bool_]:
    """Return which rows keep their weight when up to a ``share`` of them may be left out.

    The descent of Cheng, Diakonikolas, Ge and Soltanolkotabi (2020) lowers the largest variance along any direction by
    moving weight between rows. On raw heavy-tailed columns it spends itself on tails; on columns in units of their
    median deviation, clipped, only rows that are off in several columns at once, or far off together in one, are worth
    its while. Rows that lose more than half of the largest weight are left out: as the weights add up to one, at most
    twice round(share·n) of them. What is missing (NaN) counts as lying at the centre.
    """
    n, k = X.shape
    seen = np.unique(np.linspace(0, k - 1, min(k, MOST_COLUMNS)).round().astype(np.intp))
    away = X[:, seen] - centre[seen]
    unit = medians(np.abs(away))
    varied = unit > 0
    if not varied.any() or round(share * n) <= FEW * math.sqrt(n):
        return np.ones(n, dtype=bool)
    with np.errstate(over="ignore"):  # what is too far to be divided is clipped all the same
        clipped = filled(np.clip(away[:, varied] / unit[varied], -CLIP, CLIP), 0.0)
    weights = spectral_descent(clipped, share).weights
    assert weights is not None
    return np.asarray(weights >= largest_weight(n, share) / 2)
