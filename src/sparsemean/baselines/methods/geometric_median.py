"""The geometric median of the rows."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.weiszfeld import geometric_median_of
from sparsemean.records import FloatArray, Located

__all__ = ["geometric_median"]


@baseline(
    assumes="rows symmetric about the mean",
    cost="n d an iteration",
    reference="Weiszfeld 1937, Tôhoku Math. J. 43; Vardi and Zhang 2000, PNAS 97",
)
def geometric_median(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Minimise the sum of Euclidean distances to all rows.

    Weiszfeld's reweighted means with Vardi and Zhang's step where an iterate meets a row, from the coordinate-wise
    median until a step is shorter than 1e-10 of the median distance, at most 2000 of them. Half of the rows must be
    corrupted to move it arbitrarily; below that its error is of order ε√d.

    References
    ----------
    E. Weiszfeld (1937), Sur le point pour lequel la somme des distances de n points donnés est minimum, Tôhoku
    Mathematical Journal 43, 355–386.

    Y. Vardi and C.-H. Zhang (2000), The multivariate L1-median and associated data depth, Proceedings of the National
    Academy of Sciences 97(4), 1423–1426.
    """
    return geometric_median_of(X)
