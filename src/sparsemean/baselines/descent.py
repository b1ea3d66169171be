"""Rows weighed by descent: on a top eigenvalue, on the largest block, on a certified variance in sparse directions."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparsemean._stats.descent import Evaluate, descend, largest_weight
from sparsemean._stats.planning import bad_rows
from sparsemean._util.records import FloatArray, LocationEstimate
from sparsemean.baselines import BaselineWarning, Progress, baseline
from sparsemean.baselines._covariances import (
    LargestBlock,
    TopEigenpair,
    WeightedCovariance,
    scale_of,
    spectral_descent,
    weighted_mean,
)
from sparsemean.baselines._sparse_variance import SparseBound, SparseVariance
from sparsemean.baselines.medians import random_bucket_means


@baseline(
    assumes="bounded covariance",
    cost="100 moves of n d × (products for the top eigenvector)",
    reference="Cheng, Diakonikolas, Ge, Soltanolkotabi 2020, ICML",
)
def dense_gd(X: FloatArray, contamination: float) -> LocationEstimate:
    """Weigh rows so that the top eigenvalue of the weighted covariance is small, and take the weighted mean.

    Minimise λ₁(Σ_w), Σ_w = Σ w_i x_i x_iᵀ − (Σ w_i x_i)(Σ w_i x_i)ᵀ, over {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1} by
    100 projected gradient moves from w = 1/n: u the top eigenvector, g_i = (x_i·u)² − 2(wᵀXu)(x_i·u),
    w ← projection of w − step·g/‖g‖. The step starts at 1/n, is doubled when λ₁ fell, and quartered with w restored
    when it did not.

    Notes
    -----
    It must be told ε. It needs no σ and no k: corrupted rows can hide only where they do not raise the variance in any
    direction, so its error is of order √ε in units of the largest standard deviation, whatever the sparsity.

    References
    ----------
    Y. Cheng, I. Diakonikolas, R. Ge, M. Soltanolkotabi (2020). High-dimensional robust mean estimation via gradient
    descent. Proceedings of the 37th International Conference on Machine Learning.
    """
    return spectral_descent(X, contamination)


# Weights by gradient descent on the largest k×k part of the covariance less the identity.

# Both as published.
BLOCK_MOVES = 200
BLOCK_FALL = 0.01


@baseline(
    unit_variance=True,
    assumes="unit variance, uncorrelated features, k-sparse mean",
    cost="moves (200 at most) × n d²",
    reference="Cheng, Diakonikolas, Ge, Gupta, Kane, Soltanolkotabi 2021, arXiv 2109.11515",
)
def sparse_gd(X: FloatArray, contamination: float, k: int) -> LocationEstimate:
    """Weigh rows so that the largest k×k part of (weighted covariance − identity) is small, and take the mean.

    The objective is the squared F,k,k-norm of Σ_w − I: in every row the k largest entries (by value) are squared and
    summed, and the k largest of these sums are added. With Z = Σ_w − I on those k×k entries and zero elsewhere,
    g_i = (x_iᵀZx_i − x_i·Z(Xᵀw) − x_i·Zᵀ(Xᵀw)) / ‖Z‖_F, and weights move as in `dense_gd`: over
    {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1} from 1/n, step 1/n at first, doubled after a fall, quartered with w restored
    otherwise; at most 200 moves, and none after one that lowers the objective by less than 1 %.

    Notes
    -----
    It must be told ε, k, and that every feature has variance one (σ): rows scaled by c are different rows to it.

    References
    ----------
    Y. Cheng, I. Diakonikolas, R. Ge, S. Gupta, D. M. Kane, M. Soltanolkotabi (2021). Outlier-robust sparse estimation
    via non-convex optimization. arXiv 2109.11515; Advances in Neural Information Processing Systems 35 (2022).
    """
    n = X.shape[0]
    # Rows are only ever made smaller: the unit variance that they are held against shrinks with them.
    scale = max(scale_of(X), 1.0)
    rows = X if scale == 1 else X / scale
    block = LargestBlock(rows, k, unit=scale**-2)
    descent = descend(block, n, largest_weight(n, contamination), n_iter=BLOCK_MOVES, least_fall=BLOCK_FALL)
    notes = () if descent.converged else (f"the objective was still falling after {BLOCK_MOVES} moves",)
    mean = weighted_mean(X, descent.weights)
    return LocationEstimate(mean, descent.iterations, descent.converged, notes, descent.weights)


# Clipped rows, weighed so that a convex certificate bounds their variance along sparse directions.

SLOW = 300
"""Columns from which on a user is warned: an eigenvalue decomposition for each of some thousand steps."""
FARTHEST = 1e100
"""In largest deviations of rows that may be good: what lies farther counts as there, so that squares add up."""


@dataclass(frozen=True, slots=True, eq=False)
class Clipped:
    """Rows about a robust centre and clipped, on a scale on which no square overflows, and the columns' variances."""

    rows: FloatArray
    centre: FloatArray
    scale: float
    variances: FloatArray

    def mean(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean in the units of the data."""
        return np.asarray(self.centre + self.scale * (weights @ self.rows))


def clip_columns(X: FloatArray, contamination: float, k: int, *, rng: np.random.Generator) -> Clipped:
    """Clip every column at μ̃ ± √(v k/ε), μ̃ the median of bucket means.

    v is the median of bucket means of the squared deviations, and no less than their mean without the ⌈εn⌉ largest:
    where about half of a column is equal the median says nothing. As n − ⌈εn⌉ rows are good at least, that mean is
    never above theirs. Where both are zero no more rows than may be bad differ from μ̃, and none is believed.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [-0.1], [0.2], [-0.2], [0.0], [0.1], [-0.1], [0.1], [90.0]])
    >>> bool(clip_columns(X, 0.1, 1, rng=np.random.default_rng(0)).rows.max() < 1)
    True
    """
    n, good = X.shape[0], X.shape[0] - bad_rows(X.shape[0], contamination)
    centre = np.asarray(np.median(random_bucket_means(X, contamination, rng), axis=0))
    with np.errstate(over="ignore"):
        away = X - centre
        size = np.abs(away)
        ascending = np.partition(size, good - 1, axis=0)
        largest = ascending[good - 1]
        unit = np.where(largest > 0, largest, 1.0)
        squares = np.minimum(size / unit, FARTHEST) ** 2
    trimmed = ((ascending[:good] / unit) ** 2).sum(axis=0) / n
    spread = np.maximum(np.median(random_bucket_means(squares, contamination, rng), axis=0), trimmed)
    width = largest * np.sqrt(spread * (k / contamination))
    rows = np.clip(away, -width, width)
    scale = scale_of(rows)
    rows /= scale
    return Clipped(rows, centre, scale, (width / scale) ** 2 * (contamination / k))


# Weights by descent.

GAP = 0.01
"""Relative gap of the bounds: at 5 % the descent stalls, as it cannot tell a fall from none."""
FIRST_FALL = 0.6
"""Over √n, about what the first move, of 1/n, lowers the value by at least; the gap must not be above it."""
MOVES = 60
PATIENCE, LEAST_FALL = 5, 0.005
"""The descent ends where so many moves together lowered the value by less than this share of it."""


Certify = Callable[..., SparseBound]
"""``certify(S, gap=…, enough=…)``: bounds of the variance along sparse directions within a gap, or wider ones once the
lower reaches what is enough; found from where the last ones were."""


class CertifiedVariance:
    """The objective of the descent: an upper bound of φ(Σ_w), and the gradient of ⟨A, Σ_w⟩ in w.

    As values are upper bounds, each below the last, what bounds φ is certain to fall; and as a move is refused only
    where φ is certain to win less than half a gap, none worth having is missed.

    Attributes
    ----------
    gap : float
        What is asked of the bounds: 1 %, and less where there are so many rows that the first move lowers φ by less.
    widest : float
        The widest relative gap that was left at weights that were accepted.
    """

    def __init__(self, rows: FloatArray, certify: Certify, *, gap: float = GAP) -> None:
        self.rows, self.certify = rows, certify
        self.covariance = WeightedCovariance(rows)
        self.gap = min(gap, FIRST_FALL / math.sqrt(rows.shape[0]))
        self.widest = 0.0

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return the bound and g_i = y_iᵀAy_i − 2 y_iᵀA(Σ w_j y_j), or None if it is not below ``below``."""
        S = self.covariance.at(w)
        # Refused once it is certain that less than half a gap could be won: bounds half a gap apart always tell.
        enough = (1 - self.gap / 2) * below
        bound = self.certify(S, gap=self.gap, enough=enough)
        if bound.lower < enough and not bound.upper < below:
            bound = self.certify(S, gap=self.gap / 2, enough=enough)
        if not bound.upper < below:
            return None
        if bound.upper > 0:
            self.widest = max(self.widest, 1 - bound.lower / bound.upper)
        images = self.rows @ bound.A
        return bound.upper, np.einsum("ij,ij->i", images, self.rows) - 2 * (images @ (w @ self.rows))


def lower_variance(
    clipped: Clipped, contamination: float, objective: Evaluate, *, progress: Progress | None = None
) -> LocationEstimate:
    """Return the mean under weights over {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1} that make the objective small."""
    n, calls = clipped.rows.shape[0], itertools.count()

    def told(w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        if progress is not None:
            progress(next(calls) / (MOVES + 1))
        return objective(w, below)

    cap = largest_weight(n, contamination)
    descent = descend(told, n, cap, n_iter=MOVES, least_fall=LEAST_FALL, patience=PATIENCE)
    if progress is not None:
        progress(1.0)
    falling = f"the variance along sparse directions still fell after {MOVES} moves"
    notes, done = () if descent.converged else (falling,), descent.converged
    return LocationEstimate(clipped.mean(descent.weights), descent.iterations, done, notes, descent.weights)


@baseline(
    assumes="variance along sparse directions bounded; finite fourth moments by the theorem, a variance in practice",
    cost="some ten moves, each of n d² and of ten to a hundred times d³",
    reference="Diakonikolas, Kane, Lee, Pensia 2022, NeurIPS 35; Balakrishnan, Du, Li, Singh 2017, COLT",
)
def sparse_sdp(
    X: FloatArray, contamination: float, k: int, rng: np.random.Generator, *, progress: Progress | None = None
) -> LocationEstimate:
    """Clip the columns, then weigh rows so that a semidefinite bound on the variance along sparse directions is small.

    1. μ̃_j: median of bucket means; v_j: median of bucket means of (x_ij − μ̃_j)², or their mean without the ⌈εn⌉
       largest if that is more. y_ij = x_ij clipped at μ̃_j ± √(v_j k/ε), which costs the mean no more than √ε σ along
       sparse directions.
    2. Minimise φ(Σ_w) = max ⟨A, Σ_w⟩ over {A ⪰ 0, tr A = 1, Σ|A_ij| ≤ k} over {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1}
       by projected gradient moves from 1/n as in `dense_gd`, with A the maximiser and
       g_i = y_iᵀAy_i − 2 y_iᵀA(Σ w_j y_j). It ends after 60 moves, or where five lowered φ by less than 0.5 %.
    3. The k largest entries of Σ w_i y_i.

    With ε = 0 nothing is clipped or weighed: it is the mean of all rows, heavy tails included.

    Weights with φ(Σ_w) = O(σ²) have a mean within O(σ√ε) along every sparse direction; n of order k² log d / ε does.

    Notes
    -----
    The theorem finds such weights by the ellipsoid method with φ as oracle, given σ. The descent needs no σ, as no
    threshold; that it comes near the least φ is not proved (Σ_w about its own mean is not convex in w). Clipping level,
    theorem and order of n are quoted from memory of the paper, all other constants are ours. With k equal to the
    number of columns φ is the top eigenvalue. Without clipping this is the method of Balakrishnan, Du, Li and Singh.

    References
    ----------
    I. Diakonikolas, D. M. Kane, J. C. H. Lee, A. Pensia (2022). Outlier-robust sparse mean estimation for heavy-tailed
    distributions. Advances in Neural Information Processing Systems 35.

    S. Balakrishnan, S. S. Du, J. Li, A. Singh (2017). Computationally efficient robust sparse estimation in high
    dimensions. Proceedings of the 30th Conference on Learning Theory.
    """
    if k < X.shape[1] and bad_rows(X.shape[0], contamination):
        _warn_if_slow(X.shape[1])
    return by_semidefinite_bound(X, contamination, k, rng=rng, progress=progress)


def by_semidefinite_bound(
    X: FloatArray, contamination: float, k: int, *, rng: np.random.Generator, progress: Progress | None
) -> LocationEstimate:
    """Carry out `sparse_sdp`."""
    n, d = X.shape
    if bad_rows(n, contamination) == 0:
        return _mean(X)
    clipped = clip_columns(X, contamination, k, rng=rng)
    if k == d:
        return lower_variance(clipped, contamination, TopEigenpair(clipped.rows))
    objective = CertifiedVariance(clipped.rows, SparseVariance(k).evaluate)
    found = lower_variance(clipped, contamination, objective, progress=progress)
    uncertain = f"the variance along sparse directions is known to within {100 * objective.widest:.0f} % only"
    return doubted(found, uncertain) if objective.widest > GAP else found


def doubted(found: LocationEstimate, why: str) -> LocationEstimate:
    """Return an estimate with what is to be said of its objective."""
    return replace(found, converged=False, notes=(why, *found.notes))


def _mean(X: FloatArray) -> LocationEstimate:
    return LocationEstimate(X.mean(axis=0), weights=np.full(X.shape[0], 1 / X.shape[0]))


def _warn_if_slow(d: int) -> None:
    """Say so before the wait, not after it as a note would."""
    if d >= SLOW:
        text = f"sparse_sdp: {d} columns may take minutes, eight times as long as half of them; dense_gd takes seconds"
        warnings.warn(text, BaselineWarning, stacklevel=5)
