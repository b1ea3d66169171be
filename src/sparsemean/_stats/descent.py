"""Spectral descent over weights of rows in the capped simplex, in blocks of columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sparsemean._kernels import judging
from sparsemean._stats.covariance import Matrix, TopEigenpair, WeightedCovariance
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate

LOOKS = 100
"""Newton's method takes two to six; halving, where it is lost, no more than the digits of a number."""
FAR = 16.0
"""A shift θ of so many caps costs no digits worth having."""


def project_capped_simplex(v: FloatArray, cap: float) -> FloatArray:
    """Return the point of {0 ≤ w ≤ cap, Σw = 1} nearest to ``v``, to rounding and in O(n).

    It is w = clip(v − θ, 0, cap). Σw falls with θ along straight pieces, the slope of each the number of weights
    between: Newton's method ends where a step leaves those as they are.

    Parameters
    ----------
    v : array of shape (n,)
        Any finite numbers.
    cap : float
        The largest weight, at least 1/n.

    Examples
    --------
    >>> project_capped_simplex(np.array([0.9, 0.3, 0.0, -5.0]), 0.5)
    array([0.5, 0.4, 0.1, 0. ])
    """
    return _project(v, cap)[0]


def _project(v: FloatArray, cap: float) -> tuple[FloatArray, float]:
    """Return the nearest point and θ."""
    n, base = v.size, 0.0
    if n * cap <= 1:
        return np.full(n, 1 / n), math.nan
    theta = _shift(v, cap)
    if theta is None:
        # With K = ⌈1/cap⌉, θ lies between v_(K) − cap and v_(K): what lies beyond is zero or at the cap, however far.
        rank = min(math.ceil(1 / cap), n)
        base = float(np.partition(v, n - rank)[n - rank])
        v = np.clip(v - base, -cap, cap)
        theta = _shift(v, cap, low=-2 * cap, high=cap)
        assert theta is not None
    return np.minimum(np.maximum(v - theta, 0.0), cap), base + theta


def _shift(v: FloatArray, cap: float, *, low: float = -math.inf, high: float = math.inf) -> float | None:
    """Return the θ between low and high with Σ clip(v − θ, 0, cap) = 1; None if it is far from zero."""
    theta, same = 0.0, (math.nan, math.nan)
    for _ in range(LOOKS):
        total, free, capped = judging.look(v, theta, cap)
        excess = total + capped * cap - 1
        newton = theta + excess / free if free else math.nan
        if excess == 0 or newton == theta or (free, capped) == same:
            break
        low, high = (theta, high) if excess > 0 else (low, theta)
        if low < newton < high:
            theta, same = newton, (free, capped)
        else:
            theta, same = (low + high) / 2, (math.nan, math.nan)
        if not abs(theta) <= FAR * cap:
            return None
    return theta


# The k×k part of a covariance that departs most from the identity.

SMALL = 128
"""Up to this many features the whole matrix is kept in double: there is nothing to save."""
LARGEST_ROUGH = 1e15
"""Rows up to this size have squares and sums that single precision holds."""


class LargestBlock:
    """The objective of the sparse descent: the squared F,k,k-norm of Σ_w − I, and its gradient in w.

    Only k×k entries of Σ_w matter at a time, and which ones takes few digits to tell: the whole matrix is made in
    single precision, its error bounded, and in double no more than the entries that this leaves in the running.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows, with fourth powers that do not overflow.
    k : int
        Rows of the matrix, and entries in each, that count.
    unit : float
        The variance that stands for one in the scale of X.
    """

    def __init__(self, X: FloatArray, k: int, *, unit: float = 1.0) -> None:
        self.X, self.k, self.unit = X, k, unit
        largest = max(float(X.max()), -float(X.min()))
        rough = X.shape[1] > SMALL and largest < LARGEST_ROUGH
        self.covariance = WeightedCovariance(X, np.float32 if rough else np.float64)

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return the norm and g_i = (x_iᵀZx_i − x_i·Z(Xᵀw) − x_i·Zᵀ(Xᵀw)) / ‖Z‖_F, or None if it is not below."""
        rows, columns, M = self._in_the_running(w)
        sums = largest_squares(M, self.k)
        best = np.argsort(-sums, kind="stable")[: self.k]
        value = float(sums[best].sum())
        if not value < below:
            return None
        if value == 0:
            return value, np.zeros(w.size)
        best.sort()
        return value, self._gradient(w, rows[best], columns, M[best]) / math.sqrt(value)

    def _in_the_running(self, w: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return rows and columns of Σ_w − I that hold whatever may be among the k×k entries, and those in double."""
        k, d = self.k, self.X.shape[1]
        if d <= SMALL:
            return np.arange(d), np.arange(d), self._less_identity(self.covariance.at(w), np.arange(d))
        M = self.covariance.at(w)
        root = np.sqrt(self.covariance.peak.astype(np.float64))
        error = self.covariance.share * root * root.max()
        bounds = self._bounds(M, error)
        likely = np.argpartition(bounds, -k)[-k:]
        least = self._norms(M, likely) - math.sqrt(k) * error[likely]
        rows = np.flatnonzero(bounds >= max(float(least.min()), 0.0))
        if rows.size > k:
            # The k largest values of a row move by no more than its error when each of its entries does.
            norms, slack = self._norms(M, rows), math.sqrt(k) * error[rows]
            rows = rows[norms + slack >= np.partition(norms - slack, -k)[-k]]
        return rows, *self._entries(w, M, rows, error)

    def _bounds(self, M: Matrix, error: FloatArray) -> FloatArray:
        """Return what the norm of the k largest entries of each row cannot exceed, from the largest other one."""
        # Set aside and put back: with a copy of it the matrix would be there twice.
        diagonal = M.diagonal().copy()
        M.flat[:: M.shape[0] + 1] = 0
        largest = np.maximum(M.max(axis=0), -M.min(axis=0)).astype(np.float64)
        M.flat[:: M.shape[0] + 1] = diagonal
        own, other = np.abs(diagonal.astype(np.float64) - self.unit) + error, largest + error
        return np.asarray(np.sqrt(np.maximum(own, other) ** 2 + (self.k - 1) * other**2))

    def _norms(self, M: Matrix, rows: IntArray) -> FloatArray:
        """Return the norm of the k largest entries of some rows, in single precision."""
        return np.asarray(np.sqrt(largest_squares(self._less_identity(M, rows), self.k)))

    def _less_identity(self, M: Matrix, rows: IntArray) -> FloatArray:
        some = M[rows].astype(np.float64)
        some[np.arange(rows.size), rows] -= self.unit
        return some

    def _entries(self, w: FloatArray, M: Matrix, rows: IntArray, error: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return all columns that may hold one of the k largest entries of these rows, and the entries in double."""
        some = self._less_identity(M, rows)
        place = some.shape[1] - self.k
        # Twice the error, as the entry and the one that it is compared with may both be off.
        least = np.partition(some, place, axis=1)[:, place] - 2 * error[rows]
        columns = np.flatnonzero((some >= least[:, None]).any(axis=0))
        return columns, self._exact(w, rows, columns)

    def _exact(self, w: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
        left, right = self._columns(rows), self._columns(columns)
        exact = (w[:, None] * (left - w @ left)).T @ (right - w @ right)
        exact[rows[:, None] == columns] -= self.unit
        return np.asarray(exact)

    def _columns(self, places: IntArray) -> FloatArray:
        """Return some columns, given in ascending order; all of them without a copy."""
        return self.X if places.size == self.X.shape[1] else self.X[:, places]

    def _gradient(self, w: FloatArray, rows: IntArray, columns: IntArray, M: FloatArray) -> FloatArray:
        """Return Σ_r (x_ir y_ir − x_ir (Zx̄)_r − x̄_r y_ir) with y = XZᵀ, from the columns that Z uses."""
        entries = np.argsort(-M, axis=1, kind="stable")[:, : self.k]
        Z = np.zeros_like(M)
        np.put_along_axis(Z, entries, np.take_along_axis(M, entries, axis=1), axis=1)
        x, y = self._columns(rows), self._columns(columns) @ Z.T
        return np.asarray(np.einsum("ir,ir->i", x, y) - x @ (w @ y) - y @ (w @ x))


def largest_squares(rows: FloatArray, k: int) -> FloatArray:
    """Return the sum of squares of the k largest entries of each row."""
    place = rows.shape[1] - k
    largest = np.partition(rows, place, axis=1)[:, place:]
    return np.asarray(np.einsum("rc,rc->r", largest, largest))


# Projected descent on the weights of rows: the search that the two gradient methods share.

Evaluate: TypeAlias = Callable[[FloatArray, float], tuple[float, FloatArray] | None]
SAFE = 1e30
"""From 1/SAFE to SAFE eighth powers, which norms of gradients meet, neither overflow nor vanish."""
STILL = float(np.finfo(np.float64).eps)
"""A step of less than this share of the largest weight moves nothing but the last digit."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """Weights at the end of a descent; ``converged`` says that it ended before the last iteration.

    ``moves`` has a and θ of every move w ← clip(w − a·g − θ, 0, cap) that was accepted: with the gradients they give
    the weight of any other row.
    """

    weights: FloatArray
    iterations: int
    converged: bool
    moves: list[tuple[float, float]]


def descend(
    evaluate: Evaluate, n: int, cap: float, *, n_iter: int, least_fall: float = 0.0, patience: int = 0
) -> Descent:
    """Minimise over {0 ≤ w ≤ cap, Σw = 1} from w = 1/n, with first step 1/n.

    A move is step·g/‖g‖ and a projection. It is accepted, and the step doubled, if the value fell; else the weights
    are restored and the step quartered.

    Parameters
    ----------
    evaluate : callable
        The objective; it may return None where the value did not fall.
    n : int
        Number of rows.
    cap : float
        Largest weight.
    n_iter : int
        Most moves.
    least_fall : float
        Stop after an accepted move that lowers the value by less than this share of it; 0 never does.
    patience : int
        If positive, stop instead where so many moves, refused ones among them, lowered it by less together.
    """
    w, step = np.full(n, 1 / n), 1 / n
    moves: list[tuple[float, float]] = []
    evaluation = evaluate(w, math.inf)
    if evaluation is None or n * cap <= 1:  # at cap = 1/n equal weights are all there is
        return Descent(w, 0, True, moves)
    value, gradient = evaluation
    values = [math.inf] * patience + [value]
    for iteration in range(1, n_iter + 1):
        length = math.sqrt(gradient @ gradient)
        if length == 0 or step < STILL * cap:
            return Descent(w, iteration - 1, True, moves)
        moved, theta = _project(w - (step / length) * gradient, cap)
        if (moved == w).all():
            return Descent(w, iteration - 1, True, moves)
        # The value to be beaten goes along: most moves that fail are refused by a bound, without a full evaluation.
        evaluation = evaluate(moved, value)
        if evaluation is None or not evaluation[0] < value:
            step /= 4
            stalls = patience > 0
        else:
            moves.append((step / length, theta))
            w, step, (value, gradient) = moved, 2 * step, evaluation
            stalls = True
        values.append(value)
        before = values[-1 - max(patience, 1)]
        if stalls and before - value < least_fall * before:
            return Descent(w, iteration, True, moves)
    return Descent(w, n_iter, False, moves)


def follow(descent: Descent, directions: list[tuple[Matrix, float]], rows: Matrix, *, cap: float) -> Matrix:
    """Return the weights, in units of ``cap``, that other rows have at the end of a descent on the top eigenvalue.

    ``directions`` are u and wᵀXu at each of its evaluations: a weight depends on nothing else but its own row.
    """
    weights = np.full(rows.shape[0], np.float32(1 / (descent.weights.size * cap)))
    if descent.moves:
        rates, shifts = (np.array(descent.moves) / cap).astype(np.float32).T
        vectors, centres = zip(*directions[: rates.size], strict=True)
        along = np.array(vectors) @ rows.T
        judging.follow(along, np.array(centres, dtype=np.float32), rates.copy(), shifts.copy(), weights)
    return weights


def largest_weight(n: int, contamination: float) -> float:
    """Return the cap 1/(n − round(εn)): weights that at least the rows thought good must share."""
    return 1 / (n - round(contamination * n))


def scale_of(X: FloatArray) -> float:
    """Return the power of two by which rows are divided so that nothing overflows; 1 for ordinary rows."""
    largest = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))
    ordinary = largest == 0 or 1 / SAFE < largest < SAFE
    # A power of two, by which division is exact.
    return 1.0 if ordinary else math.ldexp(1.0, math.frexp(largest)[1] - 1)


def weighted_mean(X: FloatArray, w: FloatArray) -> FloatArray:
    """Return Σ w_i x_i without overflow."""
    scale = scale_of(X)
    return np.asarray(w @ X if scale == 1 else (w @ (X / scale)) * scale)


def spectral_descent(X: FloatArray, contamination: float, n_iter: int = 100) -> LocationEstimate:
    """Find the mean by weights that make the top eigenvalue λ of the weighted covariance small.

    The gradient of λ at w is g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), u the top eigenvector; the search is `descend`.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite rows.
    contamination : float
        Share ε of rows that may be arbitrary; no weight exceeds 1/(n − round(εn)).
    n_iter : int
        Moves; the published method always makes 100.

    Returns
    -------
    LocationEstimate
        The weighted mean with its weights. ``converged`` is True: the number of moves is part of the method.
    """
    n = X.shape[0]
    scale = scale_of(X)
    rows = X if scale == 1 else X / scale
    descent = descend(TopEigenpair(rows), n, largest_weight(n, contamination), n_iter=n_iter)
    return LocationEstimate(weighted_mean(X, descent.weights), iterations=descent.iterations, weights=descent.weights)
