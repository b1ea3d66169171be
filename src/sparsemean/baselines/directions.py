"""A robust mean along every sparse direction, and the point that agrees with all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._util.checks import draw_seed
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.baselines import Progress, _sign_vectors, baseline
from sparsemean.baselines.medians import n_buckets
from sparsemean.errors import InputError

MOST_DIRECTIONS = 10**9
SECONDS = 5e-11
"""For a bucket mean along one direction, measured; three passes over all directions are usual."""
TOLERANCE = 0.05
"""The largest disagreement of the answer exceeds the least possible by no more than this share."""
SWEEPS = 40
FEWEST_ROWS = 400
"""Rows that a linear program begins with, and that are added to it at a time."""
ALL = 10_000
"""Directions up to which the median along each is computed; of more only those along which the centre is far off."""
SAMPLE = 1000
"""Directions drawn at random to start from, and before each sweep to see what is usual."""
ROOM = 20_000
"""About how many directions a sweep is to return."""
LOWEST = 0.7
"""Times the disagreement allowed: what is nearer the centre than this is hardly ever needed later."""
FARTHEST = 2.0**60
"""Where values are clipped, in units of the data: sums of k of them stay finite."""
ZERO = 1e-9
"""A disagreement of so many units is none."""
SOLVER = 1e-6
"""Share to which a linear program is solved."""
SIGNED, RANDOM = 4096, 200
"""Directions on the support: all sign vectors, or as many drawn where there are more, and some of any kind."""
GIVEN_UP = 2.0
"""Times the least possible disagreement on the support: how far least squares may go."""


def cover_constant(k: int) -> float:
    """Return c_k = √(Σ_{i ≤ k} (√i − √(i−1))²), with which ‖w‖₂,ₖ ≤ c_k max ⟨u, w⟩ over sign vectors u.

    Examples
    --------
    >>> [round(cover_constant(k), 3) for k in (1, 2, 4, 8, 32)]
    [1.0, 1.082, 1.159, 1.232, 1.365]
    """
    return float(np.linalg.norm(np.diff(np.sqrt(np.arange(k + 1)))))


# The point with the least largest disagreement |⟨u, θ⟩ − m(u)| over some _sign_vectors.


@dataclass(slots=True)
class Pool:
    """Directions in the rows of ``U`` and the means ``m`` along them; ``rows`` are those that bound the answer."""

    U: csr_array
    m: FloatArray
    rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def disagreements(self, theta: FloatArray) -> FloatArray:
        """Return |⟨u, θ⟩ − m(u)| for all u."""
        return np.asarray(np.abs(self.U @ theta - self.m))

    def add(self, other: Pool) -> None:
        """Take up more _sign_vectors."""
        from scipy.sparse import vstack

        self.U, self.m = vstack((self.U, other.U), format="csr"), np.concatenate((self.m, other.m))

    def minimax(self, theta: FloatArray, tolerance: float) -> tuple[FloatArray, float]:
        """Return a point, from ``theta`` on, and the least possible disagreement, which its own exceeds by ≤ tolerance.

        Linear programs with some of the directions as rows: corners of few rows swing, so rows are added for the
        corner and for the point half-way from it to the best one known. Rows with slack go only where the minimum has
        risen since, or the same ones would come and go for ever.
        """
        best, value, before = theta, float(self.disagreements(theta).max()), -1.0
        many = max(FEWEST_ROWS, 2 * theta.size)
        rows = self.rows if self.rows.size else np.argsort(-self.disagreements(theta))[: 2 * many]
        while True:
            corner, least = _linear_program(self.U[rows], self.m[rows])
            risen, before = least > before * (1 + SOLVER) + ZERO, least
            self.rows, added = rows, [rows[self.disagreements(corner)[rows] > least / 2] if risen else rows]
            for point in (corner, (corner + best) / 2):
                apart = self.disagreements(point)
                if apart.max() < value:
                    best, value = point, float(apart.max())
                over = np.flatnonzero(apart > least * (1 + tolerance / 2))
                added.append(over[np.argsort(-apart[over])[:many]])
            if value <= max(least * (1 + tolerance), ZERO):
                return best, least
            rows = np.unique(np.concatenate(added))
            if np.isin(rows, self.rows).all():  # what is left is the solver's own tolerance
                return best, least


def _linear_program(U: csr_array, m: FloatArray) -> tuple[FloatArray, float]:
    """Minimise t over (θ, t) with −t ≤ ⟨u, θ⟩ − m(u) ≤ t."""
    from scipy.optimize import linprog

    r, d = U.shape
    unit = float(np.abs(m).max()) or 1.0
    aside = csr_array(np.full((2 * r, 1), -1.0))
    x = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=hstack((vstack((U, -U)), aside), format="csc"),
        b_ub=np.concatenate((m, -m)) / unit,
        bounds=(None, None),
        method="highs",
    ).x
    assert x is not None  # t = max |m(u)| is feasible
    return np.asarray(unit * x[:d]), unit * float(x[d])


def _matrix(codes: _sign_vectors.Codes, d: int) -> csr_array:
    return csr_array(tuple(_sign_vectors.vectors(codes)), shape=(len(codes), d))


# The same over all sparse directions, with the median of bucket means along each.


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """A point, its largest disagreement, the least possible one, and the passes over all directions it took."""

    point: FloatArray
    value: float
    least: float
    sweeps: int


def agree(
    Z: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Agreement:
    """Minimise max_u |⟨u, θ⟩ − med_j ⟨u, Z_j⟩| over θ, u all sign vectors on at most k coordinates.

    Cutting planes: the minimum over some directions is a lower bound of that over all. A sweep returns those along
    which its point is far from the median, and with them it is solved again, until none is farther than allowed. First
    for few coordinates, which costs little and leaves little to do for more.

    Parameters
    ----------
    Z : array of shape (J, d)
        Bucket means in units of the data and about their medians; J is odd.
    """
    d, tolerance = Z.shape[1], max(tolerance, SOLVER)
    columns = np.ascontiguousarray(Z.T)

    def measured(codes: _sign_vectors.Codes) -> tuple[csr_array, FloatArray]:
        return _matrix(codes, d), _sign_vectors.medians_along(columns, codes)

    def drawn(size: int) -> Pool:
        return Pool(*measured(_sign_vectors.random_directions(d, size, count=SAMPLE, rng=rng)))

    known = max([1, *(size for size in range(2, k + 1) if _sign_vectors.n_directions(d, size) <= ALL)])
    pool = Pool(*measured(_sign_vectors.sign_vectors(d, known)))
    if known < k:
        pool.add(drawn(k))
    theta, least = pool.minimax(np.median(Z, axis=0), tolerance / 4)
    value, sweeps = float(pool.disagreements(theta).max()), 0
    for size in range(known + 1, k + 1):
        total, few = _sign_vectors.n_directions(d, size), False
        while sweeps < SWEEPS:
            enough = max((1 + tolerance) * least, ZERO)
            level, sample = LOWEST * enough, drawn(size)
            if total > ROOM and not few:  # far ones are the best rows: beyond this ROOM of a normal distribution
                usual = math.sqrt(np.mean(sample.disagreements(theta) ** 2))
                level = max(level, usual * NormalDist().inv_cdf(1 - ROOM / (2 * total)))
            codes, bound = _sign_vectors.far_directions(
                columns - theta[:, np.newaxis], size, level, enough=max(level, enough), room=ROOM,
                progress=_part(progress, sweeps),
            )  # fmt: skip
            pool.add(sample)
            pool.add(Pool(*measured(codes)))
            value, sweeps = float(pool.disagreements(theta).max()), sweeps + 1
            if value <= enough and bound <= enough:
                break
            few |= value <= enough or len(codes) < ROOM / 10
            theta, least = pool.minimax(theta, tolerance / 4)
    return Agreement(theta, value, least, sweeps)


def _part(progress: Progress | None, sweeps: int) -> Progress | None:
    """Return what a sweep tells: how many there will be is not known, so each is half of what is left."""
    return None if progress is None else lambda share: progress(1 - 0.5 ** (sweeps + share))


# On a support: the interval mean of rows along all sign vectors and many other _sign_vectors.


def interval_means(values: FloatArray, contamination: float) -> FloatArray:
    """Return for each row of values the mean of those in the shortest interval that holds most of the others.

    The values are two halves, in an order that has nothing to do with their size. The shortest interval that holds a
    share 1 − 2ε of one half selects the values of the other that are averaged, so that no value votes for its own
    place; the answer is the mean of both ways round. Where none lies in the interval it is its middle.

    Examples
    --------
    >>> interval_means(np.array([[0.0, 2.0, 50.0, 1.0, 1.0, -70.0]]), 0.2)
    array([1.])
    """
    n = values.shape[1]
    halves = values[:, : -(-n // 2)], values[:, n // 2 :]
    both = [_inside(*pair, contamination) for pair in (halves, halves[::-1])]
    return np.asarray(0.5 * both[0] + 0.5 * both[1])


def _inside(one: FloatArray, other: FloatArray, contamination: float) -> FloatArray:
    ordered, h = np.sort(one, axis=1), one.shape[1]
    held = max(1, math.ceil((1 - 2 * contamination) * h - 1e-9))
    start = np.argmin(ordered[:, held - 1 :] - ordered[:, : h - held + 1], axis=1)[:, np.newaxis]
    low, high = np.take_along_axis(ordered, start, 1), np.take_along_axis(ordered, start + held - 1, 1)
    inside = (other >= low) & (other <= high)
    sums, count = np.where(inside, other, 0.0).sum(axis=1), np.count_nonzero(inside, axis=1)
    return np.where(count > 0, sums / np.maximum(count, 1), (0.5 * low + 0.5 * high)[:, 0])


def agree_on_support(X: FloatArray, contamination: float, rng: np.random.Generator) -> FloatArray:
    """Return the point that agrees with the interval means of rows along directions of a few columns.

    Of all points whose largest disagreement is at most twice the least possible one, the point on the way from the
    minimax point to that of least squares which is nearest to the latter: it averages over directions, and its
    distance from the mean is at most 3/2 of what is known of the minimax point.
    """
    k = X.shape[1]
    whole = _sign_vectors.n_directions(k, k) <= SIGNED
    codes = _sign_vectors.sign_vectors(k, k) if whole else _sign_vectors.random_directions(k, k, count=SIGNED, rng=rng)
    turned = rng.standard_normal((RANDOM if k > 1 else 0, k))
    U = np.concatenate((_matrix(codes, k).toarray(), turned / np.linalg.norm(turned, axis=1, keepdims=True)))
    rows = X[rng.permutation(len(X))].T
    step = max(1, _sign_vectors.AT_ONCE // len(X))
    m = np.concatenate([interval_means(U[at : at + step] @ rows, contamination) for at in range(0, len(U), step)])
    pool = Pool(csr_array(U), m)
    fitted = np.linalg.lstsq(U, m)[0]
    theta, least = pool.minimax(fitted, TOLERANCE)
    low, high = 0.0, 1.0
    while high - low > 1e-3:  # the largest disagreement is convex on the way
        middle = (low + high) / 2
        inside = pool.disagreements(theta + middle * (fitted - theta)).max() <= max(GIVEN_UP * least, ZERO)
        low, high = (middle, high) if inside else (low, middle)
    return np.asarray(theta + low * (fitted - theta))


# Both.


@baseline(
    assumes="finite variance",
    cost="n Σ_{s ≤ k} C(d, s) 2^(s−1) for each of about three sweeps",
    reference="Prasad, Balakrishnan and Ravikumar 2020, AISTATS; Depersin 2020, arXiv 2004.11734",
)
def sparse_directions(
    X: FloatArray, contamination: float, k: int, rng: np.random.Generator, *, progress: Progress | None = None
) -> LocationEstimate:
    """Take a robust mean along every sparse direction, and the point that agrees best with all of them.

    1. Bucket means of a random permutation of the rows, as many as for `median_of_means`, an odd number. m(u) is their
       median along u, for all sign vectors u = (±1, …, ±1)/√s on s ≤ k coordinates (Depersin).
    2. θ minimises max_u |⟨u, θ⟩ − m(u)| to within 5 %. Linear programs with few of the directions as rows, which are
       found by counting, for every direction, how many bucket means are farther from θ than allowed.
    3. S are the k largest |entries| of θ. Off the support noise alone sets the minimum, so that θ is solved for once
       more on S, along all sign vectors there and 200 random directions, now with m(u) the interval mean of rows
       (Prasad et al.): the shortest interval with a share 1 − 2ε of one half of the rows, averaged over the other half.
       Of the points that disagree by at most twice the minimum, the nearest to least squares is taken.

    Notes
    -----
    *Why sign vectors are enough.* ‖w‖₂,ₖ, the length of the k largest |entries| of w, is at most c_k τ, where τ is the
    largest ⟨u, w⟩ and c_k² = Σ_{i ≤ k} (√i − √(i−1))²: c_1 = 1, c_4 = 1.159, c_32 = 1.365. Let a₁ ≥ a₂ ≥ … be the
    |entries| and b_i = τ(√i − √(i−1)), which falls with i. The sign vector on the s largest entries shows that
    a₁ + … + a_s ≤ τ√s = b₁ + … + b_s for all s ≤ k. Summing by parts, Σ c_i a_i ≤ Σ c_i b_i for every falling c ≥ 0;
    c = a gives Σ a_i² ≤ Σ a_i b_i, and c = b gives Σ b_i a_i ≤ Σ b_i² = τ² c_k². There is equality where
    w_i = √i − √(i−1). So ‖θ − μ‖₂,ₖ ≤ 2 c_k max_u |m(u) − ⟨u, μ⟩| for the minimax point, and 3 c_k times that maximum
    for the one of step 3. A ½-net of the sphere, as in the papers, gives 2 in the place of c_k and takes up to
    C(d, 2k) 5^(2k) _sign_vectors.

    The error is O(√ε) from Õ(k/ε) rows on. There are Σ_{s ≤ k} C(d, s) 2^(s−1) directions, polynomially many in d for
    fixed k; of more than 10⁹ it refuses. Beyond k = 8 the sign vectors on S are 4096 drawn at random. The papers' share
    for the interval is a little below 1 − 2ε and depends on the confidence; their m(u) and the 2k-sparse net are given
    here from memory of the texts, the sign vectors and the search are ours.

    The bound asks for no symmetry, but where rows are skewed the shortest interval lies at the mode, and the error of
    order √ε is there without any bad row: with exponential noise and ε = 0.1 it is near that of the median.

    References
    ----------
    A. Prasad, S. Balakrishnan and P. Ravikumar (2020), A robust univariate mean estimator is all you need, Proceedings
    of the 23rd International Conference on Artificial Intelligence and Statistics.

    J. Depersin (2020), Robust subgaussian estimation with VC-dimension, arXiv 2004.11734.
    """
    from sparsemean._kernels.columns import bucket_means

    n, d = X.shape
    J = n_buckets(n, contamination)
    J -= 1 - J % 2
    _check_size(d, k, J)
    Z = bucket_means(X, assign_paper_buckets(n, J, draw_seed(rng)))
    frame = Frame.of(Z, X)
    support, sweeps, notes = np.arange(d), 0, []
    if k < d:
        agreed = agree(frame.inside(Z), k, rng=rng, progress=progress)
        support = np.sort(np.argsort(-np.abs(frame.outside(agreed.point)), kind="stable")[:k])
        sweeps = agreed.sweeps
        if agreed.value > max((1 + TOLERANCE) * agreed.least, ZERO):
            more = f"{agreed.value / max(agreed.least, ZERO) - 1:.0%}"
            notes.append(f"after {sweeps} sweeps the point disagrees by {more} more than the least possible")
    theta = np.zeros(d)
    some = frame.only(support)
    theta[support] = some.outside(agree_on_support(some.inside(X[:, support]), contamination, rng))
    return LocationEstimate(theta, sweeps, converged=not notes, notes=tuple(notes))


def _check_size(d: int, k: int, J: int) -> None:
    total = _sign_vectors.n_directions(d, k)
    if total > MOST_DIRECTIONS:
        raise InputError(
            "k",
            f"leave sparse_directions at most {MOST_DIRECTIONS:,} sign vectors on k of {d} features",
            f"{total:.3g} of them for k = {k}, which would take about {_duration(3 * SECONDS * J * total)}",
        )


def _duration(seconds: float) -> str:
    """Return a time in the largest unit that it is at least two of."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} seconds"


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A centre and a unit to measure the data in, and the range of each column."""

    centre: FloatArray
    unit: float
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, Z: FloatArray, X: FloatArray) -> Frame:
        """Take the medians of the bucket means, and the largest median deviation; if none, that of all not there."""
        centre = np.median(Z, axis=0)
        away = np.abs(Z - centre)
        unit = float(np.median(away, axis=0).max())
        if unit == 0 and away.any():
            unit = float(np.median(away[away > 0]))
        return cls(centre, unit or 1.0, X.min(axis=0), X.max(axis=0))

    def only(self, columns: IntArray) -> Frame:
        """Return that of some columns."""
        return Frame(self.centre[columns], self.unit, self.low[columns], self.high[columns])

    def inside(self, values: FloatArray) -> FloatArray:
        """Return rows about the centre in the unit; clipped so far out that only sums notice."""
        with np.errstate(over="ignore"):
            return np.clip((values - self.centre) / self.unit, -FARTHEST, FARTHEST)

    def outside(self, point: FloatArray) -> FloatArray:
        """Return a point as what it is in the data, each entry in its column's range, where a mean would be."""
        return np.clip(self.centre + self.unit * point, self.low, self.high)
