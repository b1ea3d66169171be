"""Catoni's M-estimate of every coordinate."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.influence import locate_by_influence
from sparsemean.records import FloatArray, Located

__all__ = ["catoni"]

FAILURE = 0.05


@baseline(
    told=("ε",),
    assumes="finite variance, not far above that of Gaussian noise with the same MAD",
    cost="n d",
    reference="Catoni 2012, Ann. Inst. H. Poincaré Probab. Stat. 48",
)
def catoni(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Solve Σ ψ(α(xᵢ − θ)) = 0 in every coordinate with Catoni's narrowest influence function.

    ψ(r) = −ln(1 − r + r²/2) for 0 ≤ r ≤ 1, ln 2 beyond, odd: of the functions his bound allows the one that a far row
    moves least. α² = 2L(n − 2L)/(n² v), which is his choice at ε = 0, where L = ln(1/δ) and δ = 0.05. Under corruption
    L = ln(1/δ) + εn, so that far rows weigh as much as the tails do; and L ≤ n/4, as the formula needs n > 2L. The
    variance v, which he takes as known, is (1.4826 MAD)²: too small for heavy tails, which costs bias where these are
    skewed. Where the MAD is zero the median stays. Error of order √(εd) under corruption.

    References
    ----------
    O. Catoni (2012), Challenging the empirical mean and empirical variance: a deviation study, Annales de l'Institut
    Henri Poincaré, Probabilités et Statistiques 48(4), 1148–1185.
    """
    return locate_by_influence(X, narrowest, width=1 / rate(X.shape[0], contamination))


def rate(n: int, contamination: float) -> float:
    """Return α √v."""
    L = min(math.log(1 / FAILURE) + contamination * n, n / 4)
    return math.sqrt(2 * L * (n - 2 * L)) / n


def narrowest(r: FloatArray) -> FloatArray:
    """Return ψ(r).

    Examples
    --------
    >>> narrowest(np.array([-9.0, 0.5, 9.0])).round(4)
    array([-0.6931,  0.47  ,  0.6931])
    """
    size = np.minimum(np.abs(r), 1.0)
    return np.asarray(-np.sign(r) * np.log1p(-size + size * size / 2))
