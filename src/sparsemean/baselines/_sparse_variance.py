"""The largest variance along sparse directions, by a convex certificate that weights of rows can be held against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsemean._util.records import FloatArray

LIMIT = 2000
"""Steps of one evaluation: a few dozen do from a start nearby, some hundred from nowhere."""
EVERY = 5
"""Steps between looks at the bounds, which cost about as much as one."""
RELAXED = 1.8
"""Over-relaxation: a third to a half fewer steps than 1, of the values below 2 where the method converges."""
APART, TURN = 2.0, 1.5
"""How many times one residual may exceed the other before ρ is turned, and by how much."""
CLOSE = 4.0
"""In gaps: from here on the better, and dearer, of two feasible matrices is made."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseBound:
    """What φ(S) lies between, and a matrix A of 𝒳_k with ⟨A, S⟩ = lower."""

    lower: float
    upper: float
    A: FloatArray

    def within(self, gap: float) -> bool:
        """Tell whether the bounds are apart by no more than this share of the upper one."""
        return (1 - gap) * self.upper <= self.lower


class SparseVariance:
    """φ(S) = max ⟨A, S⟩ over 𝒳_k = {A ⪰ 0, tr A = 1, Σ|A_ij| ≤ k}, for one covariance S after another.

    𝒳_k has vvᵀ for every unit v on k coordinates, as Σ|v_i v_j| = (Σ|v_i|)² ≤ k: φ is no less than the variance
    along any of them. For every U, ⟨A, S⟩ = ⟨A, S − U⟩ + ⟨A, U⟩ ≤ λ_max(S − U) + k max|U_ij|, and the least of the
    right sides is φ (for k > 1 the matrix I/d is inside, so there is no gap). With k = 1 all of A is on the diagonal
    and φ is the largest variance; from k = d on Σ|A_ij| ≤ d‖A‖_F ≤ d holds by itself and φ is λ_max.

    In between A and a copy B of it, held together by a multiplier Y, are projected in turn (alternating directions):

        A ← nearest to B − Y + S/ρ with A ⪰ 0, tr A = 1        eigenvalues onto the simplex
        B ← nearest to R = 1.8 A − 0.8 B + Y with Σ|B_ij| ≤ k  entries towards zero by one level
        Y ← R − B

    U = ρY bounds φ from above. From below, any A ⪰ 0 with tr A = 1 does once it is mixed with its own diagonal,
    s A + (1 − s) diag A with s = min(1, (k − 1)/(Σ|A_ij| − 1)). Of A itself and of the positive part of B, which is
    nearly within Σ|B_ij| ≤ k already, the second leaves half the gap or less. Each call starts where the last one
    ended: weights that move little move the answer little.

    Parameters
    ----------
    k : int
        Sparsity.

    Attributes
    ----------
    steps : int
        Pairs of projections so far.

    References
    ----------
    A. d'Aspremont, L. El Ghaoui, M. I. Jordan, G. R. G. Lanckriet (2007). A direct formulation for sparse PCA using
    semidefinite programming. SIAM Review 49(3), 434–448.

    Examples
    --------
    >>> bound = SparseVariance(2).evaluate(np.ones((5, 5)), gap=1e-6)
    >>> round(bound.lower, 4), round(bound.upper, 4)
    (2.0, 2.0)
    """

    def __init__(self, k: int) -> None:
        self.k, self.steps = k, 0
        self.A = self.B = self.Y = np.empty((0, 0))
        self.rho = 0.0

    def evaluate(self, S: FloatArray, *, gap: float, enough: float = math.inf) -> SparseBound:
        """Return bounds of φ(S) within ``gap`` of each other, or wider ones as soon as the lower reaches ``enough``.

        They stay wider, too, where 2000 steps did not do. Called again for the same S it goes on from there.

        Parameters
        ----------
        S : array of shape (d, d)
            A covariance.
        gap : float
            The relative gap between upper and lower bound that is asked for.
        enough : float
            What φ would have to undercut to be of any interest.
        """
        d = S.shape[0]
        top = int(np.argmax(S.diagonal()))
        unit = float(S[top, top])
        if self.k >= d:
            values, vectors = np.linalg.eigh(S)
            return SparseBound(float(values[-1]), float(values[-1]), np.outer(vectors[:, -1], vectors[:, -1]))
        if self.A.shape != S.shape or self.k == 1 or unit == 0:
            self.A = self.B = np.zeros((d, d))
            self.A[top, top], self.Y, self.rho = 1.0, np.zeros((d, d)), 1.0
        if self.k == 1 or unit == 0:
            return SparseBound(unit, unit, self.A)
        # In units of the largest variance what was learnt of one matrix holds for another of any scale.
        bound = self._alternate(S / unit, gap, enough / unit)
        return SparseBound(unit * bound.lower, unit * bound.upper, bound.A)

    def _alternate(self, S: FloatArray, gap: float, enough: float) -> SparseBound:
        bound = SparseBound(float(np.vdot(self.A, S)), math.inf, self.A)
        for step in range(1, LIMIT + 1):
            if bound.lower >= enough or bound.within(gap):
                break
            before = self.B
            A = _nearest_density(before - self.Y + S / self.rho)
            R = RELAXED * A + (1 - RELAXED) * before + self.Y
            self.Y = _beyond(R, self.k)
            self.B = R - self.Y
            self.steps += 1
            if step % EVERY == 0:
                bound = self._tightened(bound, S, A, gap)
                self._turn(float(np.linalg.norm(A - self.B)), float(np.linalg.norm(self.B - before)))
        self.A = bound.A
        return bound

    def _tightened(self, bound: SparseBound, S: FloatArray, A: FloatArray, gap: float) -> SparseBound:
        U = self.rho * self.Y
        upper = min(bound.upper, float(np.linalg.eigvalsh(S - U)[-1]) + self.k * float(np.abs(U).max()))
        best = _better(bound, S, _mixed(A, self.k))
        if (1 - CLOSE * gap) * upper <= best.lower:
            best = _better(best, S, _mixed(_positive_part(self.B), self.k))
        return SparseBound(best.lower, upper, best.A)

    def _turn(self, apart: float, moved: float) -> None:
        """Change ρ so that A and B come together about as fast as they come to rest."""
        turn = TURN if apart > APART * moved else 1 / TURN if moved > APART * apart else 1.0
        self.rho *= turn
        self.Y /= turn


def _better(bound: SparseBound, S: FloatArray, A: FloatArray) -> SparseBound:
    value = float(np.vdot(A, S))
    return SparseBound(value, bound.upper, A) if value > bound.lower else bound


def _mixed(A: FloatArray, k: int) -> FloatArray:
    """Return s A + (1 − s) diag A with the largest s ≤ 1 that has Σ|entries| ≤ k; tr A = 1."""
    total = float(np.abs(A).sum())
    if total <= k:
        return A
    share = (k - 1) / (total - 1)
    mixed = share * A
    mixed.flat[:: A.shape[0] + 1] = A.diagonal()
    return mixed


def _positive_part(B: FloatArray) -> FloatArray:
    """Return the positive part of a symmetric matrix, of trace one."""
    values, vectors = np.linalg.eigh(B)
    on = values > 0
    part = (vectors[:, on] * values[on]) @ vectors[:, on].T
    return np.asarray(part / np.trace(part))


def _nearest_density(M: FloatArray) -> FloatArray:
    """Return the nearest matrix that is positive semidefinite and has trace one."""
    values, vectors = np.linalg.eigh(M)
    values -= _level(values, 1.0)
    on = values > 0
    return np.asarray((vectors[:, on] * values[on]) @ vectors[:, on].T)


def _beyond(M: FloatArray, k: int) -> FloatArray:
    """Return what M has beyond the nearest matrix with Σ|entries| ≤ k: its entries, up to one level."""
    size = np.abs(M)
    if float(size.sum()) <= k:
        return np.zeros_like(M)
    level = _level(size.ravel(), float(k))
    return np.asarray(np.clip(M, -level, level))


def _level(values: FloatArray, total: float) -> float:
    """Return the t with Σ max(v − t, 0) = total: it rises until no more values fall below it.

    Examples
    --------
    >>> _level(np.array([0.75, 0.5, 0.1]), 1.0)
    0.125
    """
    while True:
        level = float(values.sum() - total) / values.size
        above = values[values > level]
        if above.size == values.size:
            return level
        values = above
