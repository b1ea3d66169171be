"""Capped signed ranks of one sample: their caps, their shares of the error, and the tails of Σ min(rank of |x|, C).

No partition and no seed. Three caps, fixed in advance, share the error: C = n is Wilcoxon's test, small ones are near
the sign test, which bad rows and heavy tails move least. docs/guarantees.md has the proofs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np

from sparsemean._stats.arrays import group_indices
from sparsemean._stats.decision import Stages, stages_of
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray

LEAST_FILTER = 0.003
"""Of a hundred thousand features it leaves a few hundred to rank. Ranks that select beside a larger p-value of signs
are rare even where signs are worst, for noise with a gap at its centre."""
STEPS = 20
"""Times Holm's first threshold, the filter lets a feature pass."""
ALL_RANKED = 4_000_000
"""Values up to which every feature is ranked: it takes a tenth of a second."""
SHARES = (1 / 9, 4 / 9, 4 / 9)
"""Of the error, of a cap of a tenth of the rows, of two fifths and of all. Equal shares find much the same means and
make intervals of normal values longer; less for the first costs Laplace's noise more than 2 % in what is found."""
REPEAT_SHARE = 10
"""Fewer than a tenth of the rows repeat the size of others: their ties count against rejection."""


def caps_of(n: int) -> tuple[int, ...]:
    """Return the caps for n rows: a tenth of them, two fifths, all.

    Examples
    --------
    >>> caps_of(600), caps_of(4)
    ((60, 240, 600), (1, 4))
    """
    return tuple(sorted({max(1, n // 10), max(1, 2 * n // 5), n}))


def filter_of(plan: Plan) -> float:
    """Return the p-value of bucket signs above which a feature has p = 1: only the others are read again and ranked.

    It is fixed before any value is seen, and asked for the same number of bad rows as the p-value is, so that p stays
    valid and rises with them. It lies far above the p-values that select: by `STEPS` above Holm's first, and at the
    level where many features may be selected at less.
    """
    if plan.n_units * plan.n_features <= ALL_RANKED:
        return 1.0
    asked = plan.level if plan.selection.startswith("fdr") else STEPS * plan.level / plan.n_features
    return min(1.0, max(LEAST_FILTER, asked))


def shares_of(n: int) -> FloatArray:
    """Return the share of the error that each cap has: most of it those that find most where noise is near normal.

    Examples
    --------
    >>> shares_of(600), shares_of(4)
    (array([0.11111111, 0.44444444, 0.44444444]), array([0.55555556, 0.44444444]))
    """
    shares = dict.fromkeys(caps_of(n), 0.0)
    for cap, share in zip((max(1, n // 10), max(1, 2 * n // 5), n), SHARES, strict=True):
        shares[cap] += share
    return np.array(list(shares.values()))


def slack_of(bad_rows: IntArray | int, values: IntArray, cap: int) -> IntArray:
    """Return by how much bad rows can move T: Σ min(N − k, C) over k below their number."""
    return np.asarray(score_sums(values, cap) - score_sums(values - bad_rows, cap))


@lru_cache(maxsize=64)
def rank_stages(n: int, *, error: float, sides: int) -> Stages:
    """Return which caps can reject at ``error``, up to which numbers of bad rows; see `nulls.sign_test_stages`."""
    values, lasts, goal = np.array([n]), [], np.log(error / sides)
    for cap in caps_of(n):

        def misses(bad_rows: int, cap: int = cap) -> bool:
            sums = score_sums(values, cap) - slack_of(bad_rows, values, cap)
            return bool(log_tails(values, cap, sums)[0] > goal)

        lasts.append(bisect_left(range(n // 2 + 1), True, key=misses) - 1)
    return stages_of(lasts)


# Tails: P(Σ Bᵢ·min(i, C) ≥ t) over i = 1 … N with fair coins Bᵢ. Exact up to `TABLED` values and wherever t is near the
# largest sum; elsewhere by the saddlepoint formula of Lugannani and Rice with its correction for integers (Daniels
# 1987), enlarged by `ENLARGED`: against exact tails it misses by less than 3 in 1000, and tests look for more.

TABLED = 128
"""Values up to which all tails are in a table."""
MOST_TABLED, ADDITIONS = 1000, 1_000_000
"""Values up to which they are in a table too where it takes no more additions: where caps are small."""
NEAR = 2000
"""Sums no farther than this from the largest are counted one by one, however many values there are."""
LUMPS, LUMPED = 10, 1500
"""Up to so many of the largest scores may be lacking from a sum for it to be counted too, where ranks are capped at no
more than the other number: sums then lie in lumps a cap apart, which no smooth formula follows (it was found 1 % too
small; with larger caps it misses by half of what it is enlarged by)."""
FEW_TERMS = 8
"""Caps from which on it takes few terms to count all of them at once, for a number of values that many ask for."""
ENLARGED = 1.005
ROUNDED = 1e-14
"""Added for each value to the logarithm of a count, whose parts are logarithms of factorials, each of them rounded."""
DYADIC = 50
"""Values up to which a table has no rounding in it."""
MANY, FEW = 32, 4
"""Sums whose tails are looked at together where a critical one is searched for, and before anything is compiled."""
LOG_2 = math.log(2.0)


def score_sums(ranks: IntArray, cap: int) -> IntArray:
    """Return the sum of min(i, C) over i up to each of ``ranks``; 0 for ranks below 1.

    Examples
    --------
    >>> score_sums(np.array([-1, 2, 5]), 3)
    array([ 0,  3, 12])
    """
    inside = np.minimum(np.maximum(ranks, 0), cap)  # np.clip takes five times as long of a few
    return np.asarray(inside * (inside + 1) // 2 + cap * np.maximum(ranks - cap, 0))


def log_tails(values: IntArray, cap: int, sums: IntArray) -> FloatArray:
    """Return log P(T ≥ sum) for each number of ``values`` and each of ``sums``; 0 for sums next to the mean or below.

    Examples
    --------
    >>> np.exp(log_tails(np.array([3, 3]), 2, np.array([5, 4])))
    array([0.125, 0.25 ])
    """
    out = np.zeros(sums.size)
    largest = score_sums(values, cap)
    deficit = largest - sums
    out[deficit < 0] = -np.inf
    asked = (deficit >= 0) & (sums - deficit > 1)
    tabled = (values <= TABLED) | ((values <= MOST_TABLED) & (values * largest <= ADDITIONS))
    close = deficit <= np.where((values > cap) & (cap <= LUMPED), max(NEAR, LUMPS * cap), NEAR)
    if tabled.any():
        small = np.flatnonzero(asked & tabled)
        for number, at in group_indices(values[small]):
            out[small[at]] = _table(number, min(cap, number))[sums[small[at]]]
    if close.any():
        near = np.flatnonzero(asked & ~tabled & close)
        for own_cap, at in group_indices(np.minimum(values[near], cap)):
            counts = _log_counts(deficit[near[at]], values[near[at]], own_cap)
            out[near[at]] = counts - values[near[at]] * (LOG_2 - ROUNDED)
    far = np.flatnonzero(asked & ~tabled & ~close)
    if far.size:
        from sparsemean._kernels.signed_ranks import saddlepoint  # numba takes its time

        found = np.empty(far.size)
        saddlepoint(values[far], cap, sums[far], found)
        out[far] = np.minimum(-LOG_2, found + math.log(ENLARGED))  # above the mean lies at most half of a symmetric law
    return out


@lru_cache(maxsize=4096)
def critical_sum(values: int, cap: int, log_error: float) -> int:
    """Return the smallest sum whose tail is no larger than an error, by halving; one more than there can be if none."""
    from sparsemean._kernels.compiling import plainly

    most = int(score_sums(np.array([values]), cap)[0])
    low, high = most // 2, most + 1
    while low < high:  # many at once: it is the calls that take time
        sums = np.unique(np.linspace(low, high - 1, FEW if plainly() else MANY).astype(np.int64))
        enough = log_tails(np.full(sums.size, values), cap, sums) <= log_error
        first = int(np.argmax(enough)) if enough.any() else sums.size
        low, high = (int(sums[first - 1]) + 1 if first else low), (int(sums[first]) if first < sums.size else high)
        if first == sums.size:
            return high
    return low


@lru_cache(maxsize=1024)
def _table(number: int, cap: int) -> FloatArray:
    """Return log P(T ≥ t) for t from 0 to the largest sum, by adding one value after the other."""
    mass = np.ones(1)
    for rank in range(1, number + 1):
        score = min(rank, cap)
        longer = np.zeros(mass.size + score)
        longer[: mass.size] = mass
        longer[score:] += mass
        mass = 0.5 * longer
    rounded = mass.size * np.finfo(np.float64).eps if number > DYADIC else 0.0
    return np.log(np.cumsum(mass[::-1])[::-1]) + rounded


def _log_counts(deficits: IntArray, values: IntArray, cap: int) -> FloatArray:
    """Return log of the number of sets of ranks whose scores add up to no more than each of ``deficits``.

    Ranks below the cap each have a score of their own; of the others, which all have the same, j of how many there are.
    """
    if cap >= FEW_TERMS and (values == values[0]).all():
        return _near(int(values[0]), cap)[deficits]
    from scipy.special import gammaln  # where it is used: it takes its time

    below, others = _log_subsets(cap), values - cap + 1
    out = np.full(deficits.size, -np.inf)
    for j in range(int(deficits.max()) // cap + 1):
        at = np.flatnonzero((deficits >= j * cap) & (others >= j))
        if not at.size:
            break
        ways = gammaln(others[at] + 1) - gammaln(j + 1) - gammaln(others[at] - j + 1)
        out[at] = np.logaddexp(out[at], ways + below[deficits[at] - j * cap])
    return out


@lru_cache(maxsize=256)
def _near(number: int, cap: int) -> FloatArray:
    """Return what `_log_counts` does of each deficit: where nothing is zero all features ask for these."""
    from scipy.special import gammaln

    below, others = _log_subsets(cap), number - cap + 1
    most = below.size - 1
    j = np.arange(min(most // cap, others) + 1)
    ways = gammaln(others + 1) - gammaln(j + 1) - gammaln(others - j + 1)
    out = np.full(most + 1, -np.inf)
    for first, way in zip(range(0, most + 1, cap), ways, strict=False):
        out[first:] = np.logaddexp(out[first:], way + below[: most + 1 - first])
    return out


@lru_cache(maxsize=64)
def _log_subsets(cap: int) -> FloatArray:
    """Return log of the number of subsets of 1 … C − 1 that add up to at most k, for k up to where they are counted."""
    most = max(NEAR, LUMPS * cap) if cap <= LUMPED else NEAR
    count = np.zeros(most + 1)
    count[0] = 1.0
    for score in range(1, min(cap - 1, most) + 1):
        count[score:] = count[score:] + count[:-score]  # the right side is complete before it is stored
    return np.log(np.cumsum(count))
