"""Descent over weights of rows in the capped simplex, and the top eigenvalue that it makes small."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import columns
from sparsemean._util.records import FloatArray

Matrix = npt.NDArray[np.floating]
Values = TypeVar("Values", FloatArray, npt.NDArray[np.float32])

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
        total, free, capped = columns.look(v, theta, cap)
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


# Projected descent on the weights of rows: the search that the two gradient methods share.

Evaluate: TypeAlias = Callable[[FloatArray, float], tuple[float, FloatArray] | None]
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
        columns.follow(along, np.array(centres, dtype=np.float32), rates.copy(), shifts.copy(), weights)
    return weights


def largest_weight(n: int, contamination: float) -> float:
    """Return the cap 1/(n − round(εn)): weights that at least the rows thought good must share."""
    return 1 / (n - round(contamination * n))


# The objective: the top eigenvalue of the weighted covariance, roughly.

SMALL = 32
"""Up to this many columns all eigenpairs are found at once."""
LEADING = 16
"""Directions that rough answers are looked for in."""
TURNS = 4
"""Products with the covariance after which a random subspace lies along its leading directions."""


class RoughEigenpair:
    """What `TopEigenpair` does, in single precision and in the `LEADING` directions of rows with moderate entries.

    Where some rows agree on being off they make a direction lead, and what is left once they are gone matters little.

    Attributes
    ----------
    directions : list of (array of shape (d,), float)
        u and wᵀXu of every evaluation that was below.
    """

    def __init__(self, X: Matrix) -> None:
        n, d = X.shape
        self.basis = leading_subspace(X) if d > LEADING else np.eye(d, dtype=np.float32)
        # A row of ones, so that the means come with the second moments.
        self.rows = np.ones((self.basis.shape[1] + 1, n), dtype=np.float32)
        self.rows[:-1] = self.basis.T @ X.T if d > LEADING else X.T
        self.along: FloatArray = np.empty(0)
        self.squares: FloatArray = np.empty(0)
        self.directions: list[tuple[Matrix, float]] = []

    def __call__(self, w: FloatArray, below: float) -> tuple[float, FloatArray] | None:
        """Return λ and g_i = (x_i·u)² − 2(wᵀXu)(x_i·u), or None if λ is not below ``below``."""
        if self.along.size and w @ self.squares - (w @ self.along) ** 2 >= below:
            return None
        moments = (self.rows * w.astype(np.float32)) @ self.rows.T
        mean = moments[:-1, -1]
        values, vectors = top_eigenpairs(moments[:-1, :-1] - mean[:, None] * mean, 1)
        if not values[0] < below:
            return None
        self.along = (vectors[:, 0] @ self.rows[:-1]).astype(np.float64)
        self.squares = self.along**2
        centre = float(w @ self.along)
        self.directions.append((self.basis @ vectors[:, 0], centre))
        return float(values[0]), self.along * (self.along - 2 * centre)


def top_eigenpairs(matrix: Values, most: int) -> tuple[Values, Values]:
    """Return the largest eigenvalues of a symmetric matrix, falling, and their vectors: half of the time of all.

    Examples
    --------
    >>> top_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)[0]
    array([3., 2.])
    """
    from scipy.linalg import lapack

    p = matrix.shape[0]
    kind = "s" if matrix.dtype == np.float32 else "d"
    if p <= SMALL:
        values, vectors, failed = getattr(lapack, f"{kind}syevd")(matrix)
    else:
        found = getattr(lapack, f"{kind}syevr")(matrix, range="I", il=max(1, p + 1 - most), iu=p)
        values, vectors, failed = found[0][: min(p, most)], found[1], found[4]
    if failed or not math.isfinite(values[-1]):
        values, vectors = np.linalg.eigh(matrix)
    return values[: -most - 1 : -1], vectors[:, : -most - 1 : -1]


def leading_subspace(X: Matrix) -> Matrix:
    """Return `LEADING` orthogonal directions in which rows vary most, about."""
    centred = X - X.mean(axis=0)
    moments = centred.T @ centred
    # Always the same start: weights must not depend on anyone's random state.
    basis = np.random.default_rng(0).standard_normal((X.shape[1], LEADING), dtype=np.float32)
    for _ in range(TURNS):
        basis = np.linalg.qr(moments @ basis)[0]
    return basis
