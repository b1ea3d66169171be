"""Means and medians: of every coordinate, of random buckets, and the point nearest to all rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sparsemean._stats.arrays import GAUSSIAN
from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._stats.planning import bad_rows
from sparsemean._util.checks import draw_seed
from sparsemean._util.records import FloatArray, LocationEstimate, Partition
from sparsemean.baselines import baseline

FAILURE = 0.05
"""δ, the probability with which a bound may fail."""

# Each step leaves about half of the distance at most: forty of them reach the tolerance, and five times as many are
# for columns in which most rows lie where ψ is flat.
TOLERANCE = 1e-12
LIMIT = 200


def deviations(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of every column and 1.4826 times its median absolute deviation.

    Examples
    --------
    >>> deviations(np.array([[1.0], [2.0], [9.0]]))
    (array([2.]), array([1.4826]))
    """
    centre = np.median(X, axis=0)
    return np.asarray(centre), np.asarray(GAUSSIAN * np.median(np.abs(X - centre), axis=0))


def lengths(rows: FloatArray) -> FloatArray:
    """Return the Euclidean length of every row, whose squares need not be representable."""
    largest = np.abs(rows).max(axis=1)
    unit = np.where(largest > 0, largest, 1.0)
    scaled = rows / unit[:, np.newaxis]
    return np.asarray(unit * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))


def locate_by_influence(X: FloatArray, psi: Callable[[FloatArray], FloatArray], *, width: float) -> LocationEstimate:
    """Solve Σᵢ ψ((xᵢ − θ) / (b s)) = 0 in every coordinate, s the scaled MAD and b the ``width``.

    ψ is odd and rises with slopes from 0 to 1. From the median, θ ← θ + b s · mean ψ: it never steps past the root,
    and each step leaves the share of rows on the flat part of ψ of the distance, about a half at most, because half
    of the rows are within one MAD of the median. It stops once no coordinate moves by more than 1e-12 b s. A
    coordinate in which more than half of the rows are equal has s = 0 and keeps its median.

    Examples
    --------
    >>> located = locate_by_influence(np.array([[0.0], [1.0], [2.0], [99.0]]), lambda r: np.clip(r, -1, 1), width=2.0)
    >>> located.mean.round(3)
    array([1.988])
    """
    theta, scale = deviations(X)
    free = scale > 0
    stuck = int(np.count_nonzero(~free & np.any(X[0] != X, axis=0)))
    notes = [f"kept the median in {stuck} coordinates in which half of the rows are equal"] if stuck else []
    if not free.any():
        return LocationEstimate(theta, notes=tuple(notes))
    rows, step = X[:, free], width * scale[free]
    found, steps = theta[free], 0
    moved = np.inf
    while moved > TOLERANCE and steps < LIMIT:
        move = psi((rows - found) / step).mean(axis=0)
        found, moved, steps = found + step * move, float(np.abs(move).max()), steps + 1
    theta[free] = found
    if moved > TOLERANCE:
        notes.append(f"still moving by {moved:.1e} of its scale after {LIMIT} steps")
    return LocationEstimate(theta, iterations=steps, converged=moved <= TOLERANCE, notes=tuple(notes))


# The sample mean: best for Gaussian rows, worthless once one row is far away.


@baseline(assumes="finite mean, no corrupted row", reference="Gauss 1809, Theoria motus")
def mean(X: FloatArray) -> LocationEstimate:
    """Average all rows: one corrupted row moves it as far as it likes.

    References
    ----------
    C. F. Gauss (1809), Theoria motus corporum coelestium in sectionibus conicis solem ambientium, Perthes and Besser
    (the mean as the likeliest value under Gaussian errors).
    """
    return LocationEstimate(X.mean(axis=0))


# The coordinate-wise median.


@baseline(assumes="median equal to the mean in every coordinate", reference="Huber 1964, Ann. Math. Stat. 35")
def median(X: FloatArray) -> LocationEstimate:
    """Take the median of every coordinate: error of order ε√d under corruption.

    References
    ----------
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35(1), 73–101
    (no translation-equivariant estimate has a smaller worst bias under contamination of symmetric unimodal noise).
    """
    return LocationEstimate(np.asarray(np.median(X, axis=0)))


# The coordinate-wise trimmed mean.


@baseline(
    assumes="finite variance; rows symmetric, or ε small",
    reference="Tukey and McLaughlin 1963, Sankhyā A 25",
)
def trimmed_mean(X: FloatArray, contamination: float) -> LocationEstimate:
    """Drop the ⌈εn⌉ smallest and largest values of every coordinate and average the rest.

    θ = (x₍g+1₎ + … + x₍n−g₎) / (n − 2g) with g = ⌈εn⌉, but never so many that nothing is left: then it is the median.
    Its error grows like √(εd) under corruption, since every coordinate is moved on its own.

    References
    ----------
    J. W. Tukey and D. H. McLaughlin (1963), Less vulnerable confidence and significance procedures for location based
    on a single sample: trimming/Winsorization 1, Sankhyā Series A 25(3), 331–352.

    G. Lugosi and S. Mendelson (2021), Robust multivariate mean estimation: the optimality of trimmed mean, Annals of
    Statistics 49(1), 393–410 (why trimming as many as may be corrupted is right in one dimension).
    """
    n = X.shape[0]
    cut = min(bad_rows(n, contamination), (n - 1) // 2)
    ordered = np.partition(X, (cut, n - 1 - cut), axis=0)
    return LocationEstimate(np.asarray(ordered[cut : n - cut].mean(axis=0)))


# Huber's M-estimate of every coordinate.

BEND = 1.345
"""95 % efficiency for Gaussian noise."""


@baseline(
    assumes="symmetric noise, or little of it beyond 1.345 standard deviations",
    reference="Huber 1964, Ann. Math. Stat. 35",
)
def huber(X: FloatArray) -> LocationEstimate:
    """Solve Σ clip((xᵢ − θ)/s, ±1.345) = 0 in every coordinate, s = 1.4826 MAD.

    The scale is fixed beforehand, the start is the median, and no coordinate moves by more than 1e-12 s at the end.
    Where the MAD is zero the median stays. Error of order ε√d under corruption.

    References
    ----------
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35(1), 73–101.
    """
    return locate_by_influence(X, lambda r: np.clip(r, -BEND, BEND), width=1.0)


# Catoni's M-estimate of every coordinate.


@baseline(
    assumes="finite variance, not far above that of Gaussian noise with the same MAD",
    reference="Catoni 2012, Ann. Inst. H. Poincaré Probab. Stat. 48",
)
def catoni(X: FloatArray, contamination: float) -> LocationEstimate:
    """Solve Σ ψ(α(xᵢ − θ)) = 0 in every coordinate with Catoni's narrowest influence function.

    ψ(r) = −ln(1 − r + r²/2) for 0 ≤ r ≤ 1, ln 2 beyond, odd: of the functions his bound allows the one that a far row
    moves least. α² = 2L(n − 2L)/(n² v), which is his choice at ε = 0, where L = ln(1/δ) and δ = 0.05. Under corruption
    L = ln(1/δ) + εn, so that far rows weigh as much as the tails do; and L ≤ n/4, as the formula needs n > 2L. The
    variance v, which he takes as known, is (1.4826 MAD)²: too small for heavy tails, which costs bias where these are
    skewed. Where the MAD is zero the median stays. Error of order √(εd) under corruption.

    References
    ----------
    O. Catoni (2012), Challenging the empirical mean and empirical variance: a deviation study, Annales de l'Institut
    Henri Poincaré, Probabilités et Statistiques 48(4), 1148–1185.
    """
    return locate_by_influence(X, narrowest, width=1 / rate(X.shape[0], contamination))


def rate(n: int, contamination: float) -> float:
    """Return α √v."""
    L = min(math.log(1 / FAILURE) + contamination * n, n / 4)
    return math.sqrt(2 * L * (n - 2 * L)) / n


def narrowest(r: FloatArray) -> FloatArray:
    """Return ψ(r).

    Examples
    --------
    >>> narrowest(np.array([-9.0, 0.5, 9.0])).round(4)
    array([-0.6931,  0.47  ,  0.6931])
    """
    size = np.minimum(np.abs(r), 1.0)
    return np.asarray(-np.sign(r) * np.log1p(-size + size * size / 2))


def n_buckets(n: int, contamination: float) -> int:
    """Return J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ with δ = 0.05, kept between 2⌈εn⌉ + 1 and n // 2 as far as n allows.

    The proposition's J leaves a quarter of the buckets to corrupted rows. Few rows cannot fill so many: then every
    bucket holds at least two rows, unless corrupted rows could then spoil half of the buckets.

    Examples
    --------
    >>> [n_buckets(n, 0.1) for n in (10_000, 400, 1)], n_buckets(400, 0.4)
    ([4096, 200, 1], 321)
    """
    bad = bad_rows(n, contamination)
    wanted = 4 * bad + math.ceil(32 * math.log(1 / FAILURE))
    return min(max(min(wanted, n // 2), 2 * bad + 1), n)


def random_buckets(n: int, contamination: float, rng: np.random.Generator) -> Partition:
    """Deal a random permutation of n rows into `n_buckets` buckets as equal as possible."""
    return assign_paper_buckets(n, n_buckets(n, contamination), draw_seed(rng))


def random_bucket_means(X: FloatArray, contamination: float, rng: np.random.Generator) -> FloatArray:
    """Return the means of `random_buckets`."""
    from sparsemean._kernels.columns import bucket_means

    return bucket_means(X, random_buckets(X.shape[0], contamination, rng))


# The point with the smallest sum of distances to all rows.

# All in median distances: what the rows are measured in changes nothing. Weiszfeld's steps shrink slowly where the
# answer lies near a row, hence so many of them; a row met closer than a step can tell apart is met.
STILL = 1e-10
MOST_STEPS = 2000
COINCIDES = 1e-12


def geometric_median_of(X: FloatArray) -> LocationEstimate:
    """Minimise Σᵢ ‖xᵢ − y‖ by Weiszfeld's steps as Vardi and Zhang extend them to iterates that meet a row.

    With R the sum of the unit vectors from y to the rows away from y, and η the number of rows at y,
    y ← y + max(0, 1 − η/‖R‖) · R / Σ 1/‖xᵢ − y‖. It starts at the coordinate-wise median (so that one column is solved
    at once) and stops when a step is shorter than 1e-10 of the median distance, or at a row with ‖R‖ ≤ η, which is
    the minimum. A row counts as met within 1e-12 of the median distance.

    References
    ----------
    Y. Vardi and C.-H. Zhang (2000), The multivariate L1-median and associated data depth, Proceedings of the National
    Academy of Sciences 97(4), 1423–1426.

    Examples
    --------
    >>> geometric_median_of(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])).mean
    array([0., 0.])
    """
    y = np.asarray(np.median(X, axis=0))
    apart = lengths(X - y)
    if not apart.any():
        return LocationEstimate(y)
    scale = float(np.median(apart[apart > 0]))
    steps, moved = 0, np.inf
    while moved > STILL * scale and steps < MOST_STEPS:
        move = _step(X - y, COINCIDES * scale)
        y, moved, steps = y + move, float(lengths(move[np.newaxis])[0]), steps + 1
    if moved <= STILL * scale:
        return LocationEstimate(_at_row(X, y, scale), iterations=steps)
    note = f"still moving by {moved / scale:.1e} of the median distance after {MOST_STEPS} steps"
    return LocationEstimate(y, iterations=steps, converged=False, notes=(note,))


def _step(away: FloatArray, met: float) -> FloatArray:
    """Return the move from y, given the rows less y."""
    distance = lengths(away)
    other = distance > met
    if not other.any():
        return np.zeros(away.shape[1])
    pull = (away[other] / distance[other, np.newaxis]).sum(axis=0)
    strength = float(lengths(pull[np.newaxis])[0])
    held = int(away.shape[0] - other.sum())
    if strength <= held:
        return np.zeros(away.shape[1])
    return np.asarray((1 - held / strength) * pull / np.sum(1 / distance[other]))


def _at_row(X: FloatArray, y: FloatArray, scale: float) -> FloatArray:
    """Return the row next to y if that is the minimum: steps towards a row shrink before they reach it."""
    distance = lengths(X - y)
    nearest = X[distance.argmin()]
    # Steps may end this far from the row that they shrink towards; whether it is the minimum the row itself says.
    if distance.min() > 1e-3 * scale or _step(X - nearest, COINCIDES * scale).any():
        return y
    return np.asarray(nearest.copy())


# The coordinate-wise median of bucket means.


@baseline(
    assumes="finite variance",
    reference="Nemirovski and Yudin 1983, Wiley; Alon, Matias and Szegedy 1999, J. Comput. Syst. Sci. 58",
)
def median_of_means(X: FloatArray, contamination: float, rng: np.random.Generator) -> LocationEstimate:
    """Average random buckets and take the median of their means in every coordinate.

    J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ buckets of a random permutation with δ = 0.05, as equal as possible. Where n is too small
    for that, J = n // 2, but never less than the 2⌈εn⌉ + 1 that leave most buckets without a corrupted row. It is also
    the minimiser of the convex ℓ₁ problem that the paper's first stage starts from. Error of order √(εd).

    References
    ----------
    A. S. Nemirovski and D. B. Yudin (1983), Problem complexity and method efficiency in optimization, Wiley.

    N. Alon, Y. Matias and M. Szegedy (1999), The space complexity of approximating the frequency moments, Journal of
    Computer and System Sciences 58(1), 137–147.
    """
    return LocationEstimate(np.asarray(np.median(random_bucket_means(X, contamination, rng), axis=0)))


# The geometric median of the rows.


@baseline(
    assumes="rows symmetric about the mean",
    cost="n d an iteration",
    reference="Weiszfeld 1937, Tôhoku Math. J. 43; Vardi and Zhang 2000, PNAS 97",
)
def geometric_median(X: FloatArray) -> LocationEstimate:
    """Minimise the sum of Euclidean distances to all rows.

    Weiszfeld's reweighted means with Vardi and Zhang's step where an iterate meets a row, from the coordinate-wise
    median until a step is shorter than 1e-10 of the median distance, at most 2000 of them. Half of the rows must be
    corrupted to move it arbitrarily; below that its error is of order ε√d.

    References
    ----------
    E. Weiszfeld (1937), Sur le point pour lequel la somme des distances de n points donnés est minimum, Tôhoku
    Mathematical Journal 43, 355–386.

    Y. Vardi and C.-H. Zhang (2000), The multivariate L1-median and associated data depth, Proceedings of the National
    Academy of Sciences 97(4), 1423–1426.
    """
    return geometric_median_of(X)


# The geometric median of bucket means.


@baseline(
    assumes="finite covariance",
    cost="n d, then J d an iteration",
    reference="Minsker 2015, Bernoulli 21",
)
def geometric_median_of_means(X: FloatArray, contamination: float, rng: np.random.Generator) -> LocationEstimate:
    """Average random buckets and take the geometric median of their means.

    J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ buckets of a random permutation with δ = 0.05, as equal as possible. Where n is too small
    for that, J = n // 2, but never less than the 2⌈εn⌉ + 1 that leave most buckets without a corrupted row. Error of
    order √(tr Σ (ε + ln(1/δ)/n)), Σ the covariance.

    References
    ----------
    S. Minsker (2015), Geometric median and robust estimation in Banach spaces, Bernoulli 21(4), 2308–2335.
    """
    return geometric_median_of(random_bucket_means(X, contamination, rng))
