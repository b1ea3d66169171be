"""As much weight on some rows as a bound on their second moments allows: a packing semidefinite program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsemean.records import FloatArray

GAP = 0.01
LIMIT = 100
INNER = 15


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
    found = Packed(np.ones(n), np.zeros((d, d)), np.inf) if start is None else start
    for _ in range(LIMIT):
        found = _round(scaled, found.w, found.multiplier)
        if found.solved:
            break
    return found


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
