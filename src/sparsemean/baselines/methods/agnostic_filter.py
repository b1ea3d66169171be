"""The largest set of rows whose covariance is bounded: no contamination need be told."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.packing import Packed, most_weight
from sparsemean.baselines.scales import deviations, lengths
from sparsemean.baselines.spectral import EXCESS, at_median, finish, near
from sparsemean.records import FloatArray, Located

__all__ = ["agnostic_filter"]

LIMIT = 20


@baseline(
    assumes="bounded covariance, top eigenvalue not far above the largest squared MAD; ε below about 0.3",
    cost="(n d² + d³) for each of a few hundred steps",
    reference="Deshmukh, Liu and Veeravalli 2023, IEEE Trans. Inf. Theory 69",
)
def agnostic_filter(X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Keep as many rows as a bound on the covariance about the current centre allows, and move the centre there.

    From the coordinate-wise median x, repeat: maximise Σwᵢ over 0 ≤ wᵢ ≤ 1 with Σ wᵢ (yᵢ − x)(yᵢ − x)ᵀ ⪯ c n I (that
    is, minimise the ℓ₁ norm of the outlier indicators 1 − wᵢ); keep the rows with wᵢ ≥ ½; x ← their mean; until the
    same rows are kept, 20 times at most.

    It is not told ε but, in the paper, the bound on the covariance. Here c = 1.5 ŝ², where ŝ² is the largest squared
    (scaled) MAD of the rows along the eigenvectors of their spatial-sign covariance about the coordinate-wise median:
    for elliptical rows these are the principal directions, and neither signs nor MADs follow far rows. For heavy
    tails ŝ² is below the variance, and more is dropped than need be. The paper solves the inner problem as a packing
    semidefinite program by a near-linear approximate method; here an augmented Lagrangian solves it to 1 % of n (see
    `sparsemean.baselines.packing`), warm-started at the previous centre. Rows so far out that the bound alone keeps
    their weight below ½ are dropped without solving. The threshold ½ is ours. Error of order √ε σ.

    References
    ----------
    A. Deshmukh, J. Liu and V. V. Veeravalli (2023), Robust mean estimation in high dimensions: an outlier fraction
    agnostic and efficient algorithm, IEEE Transactions on Information Theory 69.
    """
    bound = EXCESS * X.shape[0]
    # The largest MAD is below three median distances, so nothing is lost that the bound would keep.
    start = near(X, 3 * math.sqrt(2 * bound))
    scale = 0.0 if start is None else largest_deviation(start.rows)
    if start is None or scale == 0:
        return at_median(X)
    rows = start.rows / scale
    usable = lengths(rows) <= math.sqrt(2 * bound)
    kept, packed, centres, same = usable, None, 0, False
    centre = np.zeros(rows.shape[1])
    while not same and centres < LIMIT:
        packed = most_weight(rows[usable] - centre, bound, packed)
        before, kept = kept, usable.copy()
        kept[usable] = packed.w >= 0.5
        if not kept.any():
            return at_median(X, "no row kept half of its weight")
        centre = rows[kept].mean(axis=0)
        same, centres = centres > 0 and np.array_equal(kept, before), centres + 1
    return finish(X, start, kept.astype(np.float64), rounds=centres, note=_wrong(same, packed))


def largest_deviation(rows: FloatArray) -> float:
    """Return the largest scaled MAD along the eigenvectors of the spatial-sign covariance about zero."""
    distance = lengths(rows)
    signs = rows / np.where(distance > 0, distance, 1.0)[:, np.newaxis]
    return float(deviations(rows @ np.linalg.eigh(signs.T @ signs)[1])[1].max())


def _wrong(same: bool, packed: Packed | None) -> str:
    if not same:
        return f"the rows to keep still changed after {LIMIT} centres"
    if packed is not None and not packed.solved:
        return f"weights may be {100 * packed.gap:.1f} % of the rows short of the most that the bound allows"
    return ""
