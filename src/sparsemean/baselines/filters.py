"""Filters that drop or down-weight rows along directions of large variance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sparsemean._stats.planning import bad_rows
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.baselines import baseline
from sparsemean.baselines.medians import FAILURE, deviations, lengths, random_buckets

EXCESS = 1.5
"""A variance up to this many squared MADs is left alone: what stays within it moves the mean by about √(ε/2) σ.

Ours, and chosen by trial: of 2 and 1.5, on 2000 Gaussian rows of 50 features with 10 % corrupted, 1.5 lets less through
and still leaves clean rows alone.
"""
REACH = 4.0
"""Rows farther than this over √ε median distances are dropped first; by Chebyshev few others are that far."""


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Rows that are not absurdly far, about the coordinate-wise median and in units of the median distance."""

    kept: IntArray
    rows: FloatArray


def near(X: FloatArray, reach: float) -> Near | None:
    """Return the rows within ``reach`` median distances, or None if half of the rows are at the median.

    With more features than rows, the rows come in coordinates of their own span: inner products are the same.
    """
    away = X - np.median(X, axis=0)
    distance = lengths(away)
    unit = float(np.median(distance))
    if unit == 0:
        return None
    kept = np.flatnonzero(distance <= reach * unit)
    rows = away[kept] / unit
    if rows.shape[1] > rows.shape[0]:
        rows = np.transpose(np.linalg.qr(rows.T)[1])
    return Near(kept, rows)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The rows to filter, and the weight that may be taken from them: 2ε of all, less the rows dropped already."""

    near: Near
    budget: float


def begin(X: FloatArray, contamination: float) -> Start | LocationEstimate:
    """Return where a filter starts, or the answer where there is nothing to filter."""
    n = X.shape[0]
    bad = bad_rows(n, contamination)
    if bad == 0:
        return LocationEstimate(X.mean(axis=0), weights=np.full(n, 1 / n))
    start = near(X, REACH * math.sqrt(n / bad))
    if start is None:
        return at_median(X)
    dropped = n - start.kept.size
    # Twice ε, as a filter that is right more often than not takes at most one good row for each bad one.
    return Start(start, budget=float(max(min(2 * bad, n - 1) - dropped, 0)))


def at_median(
    X: FloatArray, why: str = "half of the rows are equal, so no scale can be had from them"
) -> LocationEstimate:
    """Return the coordinate-wise median and say why; if all rows are equal there is nothing to say."""
    notes = (f"{why}: took the coordinate-wise median",) if np.any(X[0] != X) else ()
    return LocationEstimate(np.asarray(np.median(X, axis=0)), notes=notes)


def finish(X: FloatArray, start: Near, w: FloatArray, *, rounds: int, note: str = "") -> LocationEstimate:
    """Return the weighted mean of all rows."""
    weights = np.zeros(X.shape[0])
    weights[start.kept] = w / w.sum()
    return LocationEstimate(
        weights @ X, iterations=rounds, converged=not note, notes=(note,) if note else (), weights=weights
    )


def centred(rows: FloatArray, w: FloatArray) -> FloatArray:
    """Return the rows about their weighted mean."""
    return np.asarray(rows - (w @ rows) / w.sum())


def covariance(about: FloatArray, w: FloatArray) -> FloatArray:
    """Return Σ wᵢ zᵢ zᵢᵀ / Σ wᵢ."""
    return np.asarray(about.T @ (w[:, np.newaxis] * about) / w.sum())


def top_direction(about: FloatArray, w: FloatArray) -> tuple[float, float, FloatArray]:
    """Return the top eigenvalue of the weighted covariance, the squared MAD along its vector, and the rows along it."""
    values, vectors = np.linalg.eigh(covariance(about, w))
    along = about @ vectors[:, -1]
    return max(float(values[-1]), 0.0), float(deviations(along[:, np.newaxis])[1][0] ** 2), np.asarray(along)


def still_heavy(variance: float, expected: float) -> str:
    """Say that the weight to be taken ran out."""
    ratio = f"{variance / expected:.3g} squared MADs" if expected > 0 else "positive where the MAD is zero"
    return f"took 2ε of the weight, and the variance along one direction is still {ratio}"


def outlying(w: FloatArray, scores: FloatArray) -> FloatArray:
    """Return each row's score as a share of the largest among rows that have weight."""
    return np.asarray(np.minimum(scores / scores[w > 0].max(), 1.0))


def lighten(w: FloatArray, share: FloatArray, budget: float) -> FloatArray:
    """Return w (1 − η share) with η = 1, or less so that no more than ``budget`` is taken in all."""
    return np.asarray(w * (1 - min(1.0, budget / float(w @ share)) * share))


# As much weight on some rows as a bound on their second moments allows: a packing semidefinite program.

GAP = 0.01
"""Share of the rows: weights are then cut at ½, and one row in a hundred more or less does not move the mean far."""
PACKING_LIMIT = 100
INNER = 15
"""Steps before the multiplier is looked at again: with a wrong one an exact minimum is of no use."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Weights of the rows, the multiplier of the bound, and the share of all rows that better weights could gain."""

    w: FloatArray
    multiplier: FloatArray
    gap: float

    @property
    def solved(self) -> bool:
        """Whether no other weights are better by more than 1 % of the rows."""
        return self.gap <= GAP


def most_weight(rows: FloatArray, bound: float, start: Packed | None = None) -> Packed:
    """Maximise Σwᵢ over 0 ≤ wᵢ ≤ 1 with Σ wᵢ zᵢzᵢᵀ ⪯ ``bound`` I.

    Augmented Lagrangian: with A(w) = Σ wᵢ zᵢzᵢᵀ/bound − I, minimise −Σwᵢ + ‖(Y + ρA(w))₊‖²/2ρ over the box by L-BFGS-B,
    then Y ← (Y + ρA(w))₊, ρ = n/2. It ends when Σwᵢ, scaled down to meet the bound, is within 1 % of n of the dual
    value tr Y + Σ (1 − zᵢᵀYzᵢ/bound)₊, which no weights exceed; or after 100 rounds of 15 steps.

    Examples
    --------
    >>> most_weight(np.array([[1.0], [1.0], [10.0]]), 52.0).w.round(2)
    array([1. , 1. , 0.5])
    """
    n, d = rows.shape
    scaled = rows / np.sqrt(bound)
    packed = Packed(np.ones(n), np.zeros((d, d)), np.inf) if start is None else start
    for _ in range(PACKING_LIMIT):
        packed = _round(scaled, packed.w, packed.multiplier)
        if packed.solved:
            break
    return packed


def _round(z: FloatArray, w: FloatArray, Y: FloatArray) -> Packed:
    from scipy.optimize import Bounds, minimize

    n, d = z.shape
    rho = n / 2
    ones = np.eye(d)

    def lagrangian(w: FloatArray) -> tuple[float, FloatArray]:
        P, squares = _positive(Y + rho * (z.T @ (w[:, np.newaxis] * z) - ones))
        return float(squares / (2 * rho) - w.sum()), _forms(z, P) - 1

    box = Bounds(0, 1)
    w = minimize(lagrangian, w, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": INNER, "maxcor": 20}).x
    S = z.T @ (w[:, np.newaxis] * z)
    Y = _positive(Y + rho * (S - ones))[0]
    # The weights may break the bound a little; scaled down by so much they keep it, and so does the gap.
    largest = max(1.0, float(np.linalg.eigvalsh(S)[-1]))
    dual = float(np.trace(Y) + np.maximum(1 - _forms(z, Y), 0).sum())
    return Packed(w, Y, (dual - float(w.sum()) / largest) / n)


def _positive(M: FloatArray) -> tuple[FloatArray, float]:
    """Return the positive part of a symmetric matrix and its squared Frobenius norm."""
    values, vectors = np.linalg.eigh(M)
    above = np.maximum(values, 0)
    return np.asarray((vectors * above) @ vectors.T), float(above @ above)


def _forms(z: FloatArray, P: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", z @ P, z))


# The spectral filter for rows with bounded covariance.


@baseline(
    assumes="bounded covariance, variance along any direction not far above its squared MAD",
    cost="(n d² + d³) for each of up to 2εn rounds",
    reference="Diakonikolas, Kamath, Kane, Li, Moitra and Stewart 2017, ICML",
)
def dense_filter(X: FloatArray, contamination: float) -> LocationEstimate:
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
    return filtered(X, begin(X, contamination))


def filtered(X: FloatArray, start: Start | LocationEstimate, *, excess: float = EXCESS) -> LocationEstimate:
    """Carry out steps 2 and 3 of `dense_filter`; ``excess`` = 0 asks for all that may be taken, whatever the scale."""
    if isinstance(start, LocationEstimate):
        return start
    rows = start.near.rows
    w = np.ones(rows.shape[0])
    rounds = 0
    while True:
        variance, expected, along = top_direction(centred(rows, w), w)
        left = start.budget - float(np.sum(1 - w))
        if variance <= excess * expected:
            return finish(X, start.near, w, rounds=rounds)
        if left <= 1e-9 * rows.shape[0]:  # the rest of a sum of n weights is rounding
            return finish(X, start.near, w, rounds=rounds, note=still_heavy(variance, expected) if excess else "")
        w, rounds = lighten(w, outlying(w, along**2), left), rounds + 1


# The filter on bucket means.


@baseline(
    assumes="finite covariance",
    cost="n d, then (J d² + d³) for each of some ten rounds",
    reference="Diakonikolas, Kane and Pensia 2020, NeurIPS 33",
)
def stability_filter(X: FloatArray, contamination: float, rng: np.random.Generator) -> LocationEstimate:
    """Average random buckets and take weight from those that lie far out along the direction of largest variance.

    1. J buckets of a random permutation as in `median_of_means`: 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ where n allows it, δ = 0.05.
       B = ⌈εn⌉ + ⌈ln(1/δ)⌉ of their means may be bad: those with a corrupted row, and those a heavy tail has moved.
       The latter get no more than what is left of a quarter of the buckets.
    2. Weight goes from bucket means as from rows in `dense_filter`, until 2B of it is gone.

    With probability 1 − δ it errs by order σ(√ε + √(d/n) + √(ln(1/δ)/n)), as if rows were Gaussian, where σ² bounds the
    variance in every direction: most bucket means are stable, that is, no small share of them moves their mean or
    variance far. It is the proposition behind the second stage of the paper's full algorithm, with d the number of
    selected features. Tails are filtered with ε = 0 too, so that it is then not the mean of all rows.

    No scale is needed: while the variance is a large multiple of σ²J/n, bad bucket means lose more weight than the
    others, so it is no longer one before 2B is gone, and the rest of 2B does little harm. That B and that all of 2B
    goes are ours, as the constants of Diakonikolas, Kane and Pensia are not stated; J is that of the paper's appendix.
    Where tails are light, the same filter or `dense_gd` on rows errs less: buckets are for tails.

    References
    ----------
    I. Diakonikolas, D. M. Kane and A. Pensia (2020), Outlier robust mean estimation with subgaussian rates via
    stability, Advances in Neural Information Processing Systems 33.
    """
    from sparsemean._kernels.columns import bucket_means

    buckets = random_buckets(X.shape[0], contamination, rng)
    means = bucket_means(X, buckets)
    J, bad = means.shape[0], bad_rows(X.shape[0], contamination)
    bad = max(bad, min(bad + math.ceil(math.log(1 / FAILURE)), J // 4))
    found = filtered(means, begin(means, bad / J), excess=0.0)
    if found.weights is None:
        return found
    return replace(found, weights=(found.weights / np.diff(buckets.levels[0]))[buckets.bucket_of_row])


# The largest set of rows whose covariance is bounded: no contamination need be told.

LIMIT = 20
"""Centres: kept rows and their mean settle after a few, and a note says so where they do not."""


@baseline(
    assumes="bounded covariance, top eigenvalue not far above the largest squared MAD; ε below about 0.3",
    cost="(n d² + d³) for each of a few hundred steps",
    reference="Deshmukh, Liu and Veeravalli 2023, IEEE Trans. Inf. Theory 69",
)
def agnostic_filter(X: FloatArray) -> LocationEstimate:
    """Keep as many rows as a bound on the covariance about the current centre allows, and move the centre there.

    From the coordinate-wise median x, repeat: maximise Σwᵢ over 0 ≤ wᵢ ≤ 1 with Σ wᵢ (yᵢ − x)(yᵢ − x)ᵀ ⪯ c n I (that
    is, minimise the ℓ₁ norm of the outlier indicators 1 − wᵢ); keep the rows with wᵢ ≥ ½; x ← their mean; until the
    same rows are kept, 20 times at most.

    It is not told ε but, in the paper, the bound on the covariance. Here c = 1.5 ŝ², where ŝ² is the largest squared
    (scaled) MAD of the rows along the eigenvectors of their spatial-sign covariance about the coordinate-wise median:
    for elliptical rows these are the principal directions, and neither signs nor MADs follow far rows. For heavy
    tails ŝ² is below the variance, and more is dropped than need be. The paper solves the inner problem as a packing
    semidefinite program by a near-linear approximate method; here an augmented Lagrangian solves it to 1 % of n (see
    `sparsemean.baselines.filters`), warm-started at the previous centre. Rows so far out that the bound alone keeps
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
