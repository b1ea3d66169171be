"""The filter that scores rows along many directions at once by a matrix exponential."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.baselines.baseline import baseline
from sparsemean.baselines.scales import deviations
from sparsemean.baselines.spectral import (
    EXCESS,
    begin,
    centred,
    covariance,
    finish,
    lighten,
    outlying,
    still_heavy,
    top_direction,
)
from sparsemean.records import FloatArray, Located

__all__ = ["quantum_entropy"]

ALPHA = 4.0
FALL = 2 / 3
"""An epoch ends when the top eigenvalue has fallen to this share."""
MOST_STEPS = 2**40


@baseline(
    told=("ε",),
    assumes="bounded covariance, variance along any direction not far above its squared MAD",
    cost="(n d² + d³) for each of about log κ · log d rounds",
    reference="Dong, Hopkins and Li 2019, NeurIPS 32",
)
def quantum_entropy(X: FloatArray, contamination: float, _k: int | None, _rng: np.random.Generator) -> Located:
    """Score rows along all directions of large variance at once, weighted by a matrix exponential, and filter by that.

    1. Drop rows beyond 4/√ε median distances from the coordinate-wise median; all others have weight 1.
    2. An epoch starts at λ₀ = λ₁(Σ_w). Stop if that is at most 1.5 MAD² along its eigenvector. In round t,
       U = exp(α Σ_{s≤t} Σ_{w_s} / λ₀) up to its trace, α = 4, and row i scores τᵢ = (xᵢ − μ_w)ᵀ U (xᵢ − μ_w).
    3. wᵢ ← wᵢ (1 − τᵢ/max τ)^K with the smallest K that brings tr(U Σ_w) to 1.5 Σⱼ uⱼ MADⱼ², over the eigenpairs
       of U; no step if it is there already. 2ε of the weight is the most that is taken.
    4. Next epoch once λ₁(Σ_w) ≤ ⅔ λ₀ or after 2⌈ln d⌉ + 5 rounds; the end if none of them took a step.

    Epochs, accumulated exponent and one-dimensional filter are the paper's; its analysis has the variance known and
    stops at a multiple of it, has α of order one (4 is what its experiments use), and sketches U by a Taylor series and
    random projections to run in Õ(nd). Here U is exact, and the variance is estimated along the eigenvectors of U.
    Error of order √ε σ.

    References
    ----------
    Y. Dong, S. B. Hopkins and J. Li (2019), Quantum entropy scoring for fast robust mean estimation and improved
    outlier detection, Advances in Neural Information Processing Systems 32.
    """
    start = begin(X, contamination)
    if isinstance(start, Located):
        return start
    rows, budget = start.near.rows, start.budget
    w, rounds = np.ones(rows.shape[0]), 0
    while True:
        variance, expected, _ = top_direction(centred(rows, w), w)
        if variance <= EXCESS * expected:
            return finish(X, start.near, w, rounds=rounds)
        if np.sum(1 - w) >= budget - 1e-9 * w.size:
            return finish(X, start.near, w, rounds=rounds, note=still_heavy(variance, expected))
        after, took = _epoch(rows, w, variance, budget)
        rounds += took
        if np.array_equal(after, w):
            return finish(X, start.near, w, rounds=rounds)
        w = after


def entropy_scores(about: FloatArray, exponent: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return zᵢᵀUzᵢ for U = exp(exponent)/tr, the eigenvalues of U, and the rows along its eigenvectors.

    Examples
    --------
    >>> scores, weights, _ = entropy_scores(np.eye(2), np.diag([0.0, np.log(3)]))
    >>> scores, weights
    (array([0.25, 0.75]), array([0.25, 0.75]))
    """
    values, vectors = np.linalg.eigh(exponent)
    u = np.exp(values - values[-1])
    u /= u.sum()
    along = about @ vectors
    return np.asarray(along**2 @ u), np.asarray(u), np.asarray(along)


def _epoch(rows: FloatArray, w: FloatArray, first: float, budget: float) -> tuple[FloatArray, int]:
    """Return the weights after one epoch and its number of rounds."""
    exponent = np.zeros((rows.shape[1], rows.shape[1]))
    last = 2 * math.ceil(math.log(rows.shape[1])) + 5
    took, top = 0, first
    while took < last and top > FALL * first and budget - np.sum(1 - w) > 1e-9 * w.size:
        about = centred(rows, w)
        exponent += ALPHA / first * covariance(about, w)
        scores, u, along = entropy_scores(about, exponent)
        target = EXCESS * float(u @ deviations(along)[1] ** 2)
        w = filter_to(w, scores, along * np.sqrt(u), target=target, budget=budget)
        took, top = took + 1, float(np.linalg.eigvalsh(covariance(centred(rows, w), w))[-1])
    return w, took


def filter_to(w: FloatArray, scores: FloatArray, parts: FloatArray, *, target: float, budget: float) -> FloatArray:
    """Return wᵢ (1 − sᵢ/max s)^K for the smallest K with Σ variance of ``parts`` ≤ ``target``, or ``budget`` taken.

    ``parts`` are about the mean that the scores were taken about; the variances are about that of the new weights.
    """

    def enough(tried: FloatArray) -> bool:
        total = float(tried.sum())
        mean = tried @ parts / total
        return w.size - total >= budget or float(tried @ scores) / total - float(mean @ mean) <= target

    if enough(w):
        return w
    share = outlying(w, scores)
    low, high = 0, 1
    while not enough(w * (1 - share) ** high) and high < MOST_STEPS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(w * (1 - share) ** middle) else (middle, high)
    before = np.asarray(w * (1 - share) ** low)
    return lighten(before, share, budget - float(np.sum(1 - before)))
