"""The spectral filter for rows with bounded covariance."""

from __future__ import annotations

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.spectral import (
    EXCESS,
    begin,
    centred,
    finish,
    lighten,
    outlying,
    still_heavy,
    top_direction,
)
from sparsemean.records import FloatArray, Located

__all__ = ["dense_filter"]


@baseline(
    told=("ε",),
    assumes="bounded covariance, variance along any direction not far above its squared MAD",
    cost="(n d² + d³) for each of up to 2εn rounds",
    reference="Diakonikolas, Kamath, Kane, Li, Moitra and Stewart 2017, ICML",
)
def dense_filter(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Take weight from rows that lie far out along the direction of largest variance until no variance is too large.

    1. Drop rows beyond 4/√ε median distances from the coordinate-wise median; all others have weight 1.
    2. λ, v: top eigenpair of the weighted covariance; sᵢ = (v·(xᵢ − μ_w))². Stop if λ ≤ 1.5 MAD², the squared
       (scaled) MAD of the rows along v.
    3. wᵢ ← wᵢ (1 − sᵢ/max s), and again from 2, until 2ε of the weight is gone: while λ is too large, corrupted rows
       lose more than the others, so there is never reason to take more.

    The paper removes the rows with |v·(x − μ)| > Z max |v·(x − μ)|, Z of density 2z on [0, 1]: a row goes with
    probability sᵢ/max s, which the weights here carry out in expectation without a random draw. It stops at λ ≤ 9σ²
    with σ known; estimating σ along v and the factor 1.5 are ours, and the factor is what its error, of order √ε σ,
    depends on.

    References
    ----------
    I. Diakonikolas, G. Kamath, D. M. Kane, J. Li, A. Moitra and A. Stewart (2017), Being robust (in high dimensions)
    can be practical, Proceedings of the 34th International Conference on Machine Learning, 999–1008.
    """
    start = begin(X, contamination)
    if isinstance(start, Located):
        return start
    rows = start.near.rows
    w = np.ones(rows.shape[0])
    rounds = 0
    while True:
        variance, expected, along = top_direction(centred(rows, w), w)
        left = start.budget - float(np.sum(1 - w))
        if variance <= EXCESS * expected:
            return finish(X, start.near, w, rounds=rounds)
        if left <= 1e-9 * rows.shape[0]:
            return finish(X, start.near, w, rounds=rounds, note=still_heavy(variance, expected))
        w, rounds = lighten(w, outlying(w, along**2), left), rounds + 1
