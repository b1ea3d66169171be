"""Clipped rows, weighed so that a sum-of-squares certificate bounds their variance along sparse directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csc_matrix, diags, vstack

from sparsemean._stats.planning import bad_rows
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.baselines import Progress, baseline
from sparsemean.baselines._sparse_variance import SparseBound
from sparsemean.baselines.descent import CertifiedVariance, by_semidefinite_bound, clip_columns, doubted, lower_variance
from sparsemean.errors import InputError, require

WIDEST = 24
"""Columns: with more than these an answer takes longer than anybody waits for a comparison."""
BYTES = 1400
"""Memory over d⁴, as measured at d = 16, 20 and 24: SCS keeps some dozens of vectors as long as the matrices."""


class PseudoExpectations:
    """Degree-4 pseudo-expectations of k-sparse unit vectors: which moments there are, and what holds among them.

    In the variables v (the direction) and z (its support) with z_i² = z_i, z_i v_i = v_i, Σz_i = k and Σv_i² = 1, a
    pseudo-expectation Ẽ is a linear map of the polynomials of degree 4 with Ẽ1 = 1 and Ẽp² ≥ 0 that is zero on the
    multiples of these equations. The first two are carried out: a monomial is some v's and the z's of other features.
    As v and −v are one direction only monomials with an even number of v's have a moment, and the matrix of all Ẽpq
    splits into two blocks, where p and q have an even or an odd number of v's.

    By the other two some rows of that matrix are sums of others: 1 = Σ z_i/k, z_i = Σ_{j≠i} z_i z_j/(k−1), v_i alike,
    v_d² = 1 − Σ_{i<d} v_i². Blocks without them ask for the same. But these some Ẽ makes positive definite, that of the
    uniform distribution if k < d − 1, and a solver takes half as many steps.

    Parameters
    ----------
    d : int
        Number of features.
    k : int
        Size of the support, from 2 to d − 1.

    Attributes
    ----------
    monomials : array of shape (n_moments, 4)
        Their factors in ascending order: i is v_i, d + i is z_i, 2d is nothing.
    places : list of pairs of arrays
        Rows and columns of the lower triangle of each block, column by column.
    moments : list of arrays
        Which moment stands there.
    squares : array
        Which moments Ẽv_iv_j, i ≤ j, are.

    Examples
    --------
    >>> program = PseudoExpectations(8, 4)
    >>> [len(entries) for entries in program.moments] == [63 * 64 // 2, 56 * 57 // 2]
    True
    >>> program.equations().shape
    (419, 1333)
    """

    def __init__(self, d: int, k: int) -> None:
        self.d, self.k, self.nothing = d, k, 2 * d
        blocks = self._even_rows(), self._odd_rows()
        self.places = [np.triu_indices(len(rows))[::-1] for rows in blocks]
        products = [np.hstack([rows[i], rows[j]]) for rows, (i, j) in zip(blocks, self.places, strict=True)]
        features = np.arange(d)[:, np.newaxis]
        self._one = np.full((1, 4), self.nothing)
        below = self._one, self._padded(d + features), self._padded(features.repeat(2, axis=1))
        self._codes, found = np.unique(self._coded(np.vstack([*products, *below])), return_inverse=True)
        self.monomials = self._codes[:, np.newaxis] // (self.nothing + 1) ** np.arange(4) % (self.nothing + 1)
        self.n_moments = len(self.monomials)
        self.moments = np.split(found, np.cumsum([len(rows) for rows in products]))[:2]
        self.squares = self._find(self._padded(np.transpose(np.triu_indices(d))))[0]

    def _even_rows(self) -> IntArray:
        """Return the pairs z_i z_j, i < j, and v_i v_j, i ≤ j, without v_d²."""
        d = self.d
        return np.vstack([d + np.transpose(np.triu_indices(d, 1)), np.transpose(np.triu_indices(d))[:-1]])

    def _odd_rows(self) -> IntArray:
        """Return the pairs v_i z_j, i ≠ j."""
        return np.asarray(np.transpose(np.nonzero(~np.eye(self.d, dtype=bool))) + np.array([0, self.d]))

    def _padded(self, factors: IntArray) -> IntArray:
        return np.pad(factors, ((0, 0), (0, 4 - factors.shape[1])), constant_values=self.nothing)

    def _coded(self, factors: IntArray) -> IntArray:
        """Return one number for each product of factors: a z is nothing beside a v, or another z, of its feature."""
        ordered = np.sort(factors, axis=1)
        left = ordered.copy()
        for place in range(1, ordered.shape[1]):
            here, before = ordered[:, place], ordered[:, :place]
            repeated = (here[:, np.newaxis] % self.d == before % self.d).any(axis=1)
            left[repeated & (here >= self.d), place] = self.nothing
        left.sort(axis=1)
        return np.asarray(left[:, :4] @ (self.nothing + 1) ** np.arange(4))

    def _find(self, factors: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Return which moments products are, and which products have one."""
        codes = self._coded(factors)
        found = np.minimum(np.searchsorted(self._codes, codes), self.n_moments - 1)
        return found, self._codes[found] == codes

    def equations(self) -> csc_matrix:
        """Return the matrix of (Σz_i − k)p and (Σv_i² − 1)p for all monomials p that leave the degree at 4, then of 1.

        The moments are zero under all rows but the last.
        """
        d, features = self.d, np.arange(self.d)[:, np.newaxis]
        degree = (self.monomials < self.nothing).sum(axis=1)
        parts = []
        for factor, most, total in ((d + features, 3, self.k), (np.hstack([features, features]), 2, 1)):
            chosen = np.flatnonzero(degree <= most)
            products = np.hstack([np.repeat(self.monomials[chosen], d, axis=0), np.tile(factor, (chosen.size, 1))])
            found, there = self._find(products)
            whole = there.reshape(-1, d).all(axis=1)
            columns = np.hstack([found.reshape(-1, d), chosen[:, np.newaxis]])[whole]
            values = np.tile(np.append(np.ones(d), -float(total)), len(columns))
            rows = np.repeat(np.arange(len(columns)), d + 1)
            parts.append(coo_matrix((values, (rows, columns.ravel())), shape=(len(columns), self.n_moments)))
        one = self._find(self._one)[0]
        parts.append(coo_matrix((np.ones(1), (np.zeros(1, dtype=np.int64), one)), shape=(1, self.n_moments)))
        matrix = csc_matrix(vstack(parts))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix


# The certificate.

TOLERANCE = 1e-3
"""Of SCS, for one evaluation among many: values are then off by a few thousandths at most."""
STEPS = 5000
SOLVED, INTERRUPTED = 1, -5
"""What SCS says of how it ended."""


class SumsOfSquares:
    """φ_SoS(S) = max Ẽ⟨v, Sv⟩ over degree-4 pseudo-expectations of k-sparse unit vectors v.

    A distribution has an expectation, so φ_SoS is no less than the largest variance along k coordinates; in every
    matrix tried it is that one. And it is no more than φ of `SparseVariance`, as A = Ẽvvᵀ has Σ|A_ij| ≤ k: with signs
    s_ij, (z_i z_j/√k − s_ij √k v_i v_j)² ≥ 0 says 2 s_ij v_i v_j ≤ z_i z_j/k + k v_i² v_j², and over all i and j the
    right sides add up to 2k.

    Where several directions have the same variance, as at weights that make the largest one small, A is any mixture
    of them, and a descent needs the right one. So ⟨A, S⟩ − γ‖A‖²/2 is maximised, which has one maximiser that moves
    little when S does (Nesterov's smoothing). As ‖A‖² ≤ (tr A)² = 1, φ_SoS is at most γ/2 above that maximum, and at
    least ⟨A, S⟩. γ is the mean variance of the first S, which φ_SoS is not below, times twice the gap asked for then.

    Parameters
    ----------
    d, k : int
        Number of features, and of coordinates of a direction; 1 < k < d.
    tolerance : float
        Of SCS, absolute in units of the mean variance, and relative.

    Attributes
    ----------
    steps : int
        Steps of SCS so far.
    unsolved : int
        Evaluations that came to no end within 5000 steps.

    References
    ----------
    Yu. Nesterov (2005). Smooth minimization of non-smooth functions. Mathematical Programming 103, 127–152.

    B. O'Donoghue, E. Chu, N. Parikh, S. Boyd (2016). Conic optimization via operator splitting and homogeneous
    self-dual embedding. Journal of Optimization Theory and Applications 169, 1042–1068.
    """

    def __init__(self, d: int, k: int, *, tolerance: float = TOLERANCE) -> None:
        self.program, self.tolerance = PseudoExpectations(d, k), tolerance
        self.steps = self.unsolved = 0
        self.rows, self.columns = np.triu_indices(d)
        self.twice = np.where(self.rows == self.columns, 1.0, 2.0)
        self.solver: Any = None
        self.unit = self.gamma = 0.0
        # every A so far: what each shows of the next S is known before it is solved for
        self.seen: list[FloatArray] = []

    def evaluate(self, S: FloatArray, *, gap: float, enough: float = math.inf) -> SparseBound:
        """Return bounds of φ_SoS(S), or an upper one of ∞ where it is sure not to be below ``enough``.

        The gap of the first call holds for all.
        """
        if self.solver is None:
            self.unit = float(np.trace(S)) / len(S)
            if self.unit == 0:
                return SparseBound(0.0, 0.0, np.eye(len(S)) / len(S))
            self.gamma = 2 * gap * self.unit
            self._set_up()
        if self.seen:
            values = [self._upper(A, S) for A in self.seen]
            known = self.seen[int(np.argmax(values))]
            if max(values) >= enough:
                return SparseBound(float(np.vdot(known, S)), math.inf, known)
        A = self._solve(S)
        self.seen.append(A)
        return SparseBound(float(np.vdot(A, S)), self._upper(A, S), A)

    def _upper(self, A: FloatArray, S: FloatArray) -> float:
        """Return ⟨A, S⟩ + γ(1 − ‖A‖²)/2, of which the largest over all A bounds φ_SoS."""
        return float(np.vdot(A, S)) + self.gamma / 2 * max(0.0, 1 - float(np.vdot(A, A)))

    def _set_up(self) -> None:
        """Give SCS all but the linear part of the objective: minimise xᵀPx/2 + cᵀx where Ax + s = b, s in the cones."""
        scs = require("scs", extra="sos", purpose="sparse_sos")
        program = self.program
        parts, sizes = [program.equations()], []
        for (rows, columns), moments in zip(program.places, program.moments, strict=True):
            # a matrix is given by its lower triangle, its length kept
            values = np.where(rows == columns, -1.0, -math.sqrt(2))
            parts.append(csc_matrix((values, (np.arange(len(rows)), moments)), shape=(len(rows), program.n_moments)))
            sizes.append(int(rows[-1]) + 1)
        matrix = csc_matrix(vstack(parts))
        b = np.zeros(matrix.shape[0])
        b[parts[0].shape[0] - 1] = 1.0
        curved = np.zeros(program.n_moments)
        curved[program.squares] = self.gamma / self.unit * self.twice
        self.solver = scs.SCS(
            {"P": csc_matrix(diags(curved)), "A": matrix, "b": b, "c": np.zeros(program.n_moments)},
            {"z": parts[0].shape[0], "s": sizes},
            eps_abs=self.tolerance, eps_rel=self.tolerance, max_iters=STEPS, verbose=False, linear_solver="qdldl",
        )  # fmt: skip

    def _solve(self, S: FloatArray) -> FloatArray:
        """Return A = Ẽvvᵀ of the maximiser, from where the last one was found."""
        c = np.zeros(self.program.n_moments)
        c[self.program.squares] = -self.twice * S[self.rows, self.columns] / self.unit
        self.solver.update(c=c)
        solution = self.solver.solve(warm_start=bool(self.seen))
        ended = solution["info"]["status_val"]
        if ended == INTERRUPTED:  # it has caught what was meant for all of us
            raise KeyboardInterrupt
        self.steps += solution["info"]["iter"]
        self.unsolved += ended != SOLVED
        A = np.zeros_like(S)
        A[self.rows, self.columns] = A[self.columns, self.rows] = solution["x"][self.program.squares]
        return np.asarray(A / np.trace(A))


@baseline(
    assumes="light tails; variance along sparse directions bounded, and that by a proof in sums of squares",
    cost="some twenty moves, each of n d² and of some fifty times d⁶; at most 24 columns",
    reference="Diakonikolas, Kane, Karmalkar, Pensia, Pittas 2022, COLT",
)
def sparse_sos(
    X: FloatArray, contamination: float, k: int, rng: np.random.Generator, *, progress: Progress | None = None
) -> LocationEstimate:
    """Clip the columns, then weigh rows so that sums of squares bound the variance along sparse directions by little.

    1. Columns are clipped as in `sparse_sdp`.
    2. φ_SoS(Σ_w) = max Ẽ⟨v, Σ_w v⟩ over degree-4 pseudo-expectations Ẽ of k-sparse unit vectors v is minimised over
       {0 ≤ w_i ≤ 1/(n − round(εn)), Σw = 1} by the moves of `sparse_sdp`, with A = Ẽvvᵀ; SCS finds Ẽ to 1e-3.
    3. The k largest entries of Σ w_i y_i.

    φ_SoS lies between the largest variance along k-sparse directions, which it equals in all matrices tried, and the
    bound of `sparse_sdp`. With k = 1 and with k the number of columns all three are one, and it is `sparse_sdp`.

    Notes
    -----
    The paper's program, quoted from memory, has the rows' indicators and the good rows themselves as variables of
    degree O(t) beside v: a matrix of order 10⁷ for 600 rows of 10 columns. Here the weights are numbers, and what
    is left of it is the certificate. Its theorem is for certifiably bounded t-th moments and sufficiently light tails,
    with an error of order ε^(1−1/t); this is t = 2. It needs the extra ``sos``. More than 24 columns are refused: time
    grows as d⁵ to d⁶, memory as d⁴. Where both run it errs as `sparse_sdp` does, and takes thirty to some hundred times
    as long; more where columns are mostly zero or constant, which the solver finds hard.

    References
    ----------
    I. Diakonikolas, D. M. Kane, S. Karmalkar, A. Pensia, T. Pittas (2022). Robust sparse mean estimation via sum of
    squares. Proceedings of the 35th Conference on Learning Theory, 4703–4763. arXiv 2206.03441.
    """
    n, d = X.shape
    if bad_rows(n, contamination) == 0 or k in (1, d):
        return by_semidefinite_bound(X, contamination, k, rng=rng, progress=progress)
    _check_width(d)
    clipped = clip_columns(X, contamination, k, rng=rng)
    certificate = SumsOfSquares(d, k)
    objective = CertifiedVariance(clipped.rows, certificate.evaluate)
    found = lower_variance(clipped, contamination, objective, progress=progress)
    unsolved = f"{certificate.unsolved} of {len(certificate.seen)} programs were not solved to {TOLERANCE:g}"
    return doubted(found, unsolved) if certificate.unsolved else found


def _check_width(d: int) -> None:
    if d > WIDEST:
        rule = f"have at most {WIDEST} columns for sparse_sos, unless k is 1 or their number"
        memory = f"{BYTES * d**4 / 2**30:.3g} GiB"
        raise InputError("X", rule, d, f"so many would need {memory} of memory; sparse_sdp takes them")
