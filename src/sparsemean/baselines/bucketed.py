"""Methods on means of buckets, and geometric medians."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._stats.covariance import lengths
from sparsemean._stats.planning import bad_rows
from sparsemean._util.checks import draw_seed
from sparsemean._util.records import FloatArray, LocationEstimate, Partition
from sparsemean.baselines._baseline import baseline
from sparsemean.baselines.filters import begin, filtered

__all__ = ["geometric_median", "geometric_median_of_means", "median_of_means", "stability_filter"]

FAILURE = 0.05
"""δ, the probability with which the bound may fail."""


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
    from sparsemean._kernels import cpu

    return cpu.bucket_means(X, random_buckets(X.shape[0], contamination, rng))


# The point with the smallest sum of distances to all rows.

# All in median distances: what the rows are measured in changes nothing. Weiszfeld's steps shrink slowly where the
# answer lies near a row, hence so many of them; a row met closer than a step can tell apart is met.
TOLERANCE = 1e-10
LIMIT = 2000
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
    while moved > TOLERANCE * scale and steps < LIMIT:
        move = _step(X - y, COINCIDES * scale)
        y, moved, steps = y + move, float(lengths(move[np.newaxis])[0]), steps + 1
    if moved <= TOLERANCE * scale:
        return LocationEstimate(_at_row(X, y, scale), iterations=steps)
    note = f"still moving by {moved / scale:.1e} of the median distance after {LIMIT} steps"
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
    told=("ε",),
    assumes="finite variance",
    cost="n d",
    reference="Nemirovski and Yudin 1983, Wiley; Alon, Matias and Szegedy 1999, J. Comput. Syst. Sci. 58",
)
def median_of_means(X: FloatArray, contamination: float, _k: int | None, rng: np.random.Generator) -> LocationEstimate:
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
def geometric_median(
    X: FloatArray, _contamination: float, _k: int | None, _rng: np.random.Generator
) -> LocationEstimate:
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
    told=("ε",),
    assumes="finite covariance",
    cost="n d, then J d an iteration",
    reference="Minsker 2015, Bernoulli 21",
)
def geometric_median_of_means(
    X: FloatArray, contamination: float, _k: int | None, rng: np.random.Generator
) -> LocationEstimate:
    """Average random buckets and take the geometric median of their means.

    J = 4⌈εn⌉ + ⌈32 ln(1/δ)⌉ buckets of a random permutation with δ = 0.05, as equal as possible. Where n is too small
    for that, J = n // 2, but never less than the 2⌈εn⌉ + 1 that leave most buckets without a corrupted row. Error of
    order √(tr Σ (ε + ln(1/δ)/n)), Σ the covariance.

    References
    ----------
    S. Minsker (2015), Geometric median and robust estimation in Banach spaces, Bernoulli 21(4), 2308–2335.
    """
    return geometric_median_of(random_bucket_means(X, contamination, rng))


# The filter on bucket means.


@baseline(
    told=("ε",),
    assumes="finite covariance",
    cost="n d, then (J d² + d³) for each of some ten rounds",
    reference="Diakonikolas, Kane and Pensia 2020, NeurIPS 33",
)
def stability_filter(X: FloatArray, contamination: float, _k: int | None, rng: np.random.Generator) -> LocationEstimate:
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
    from sparsemean._kernels import cpu

    buckets = random_buckets(X.shape[0], contamination, rng)
    means = cpu.bucket_means(X, buckets)
    J, bad = means.shape[0], bad_rows(X.shape[0], contamination)
    bad = max(bad, min(bad + math.ceil(math.log(1 / FAILURE)), J // 4))
    found = filtered(means, begin(means, bad / J), excess=0.0)
    if found.weights is None:
        return found
    return replace(found, weights=(found.weights / np.diff(buckets.levels[0]))[buckets.bucket_of_row])
