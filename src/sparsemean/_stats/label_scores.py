"""Which rows look as if they carried the label of the other group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import dropna, fillna, group_indices
from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._util.records import FloatArray, IntArray

ALARMS = 0.05
"""Good rows that are expected among the suspects of one test, where scores are normal within a class."""
CLOSE = 3.0
"""A suspect lies less than this many deviations short of the middle of the other group, as nearly all its rows do."""
MOST_FEATURES = 300
MOST_VALUES = 20_000_000
FEWEST_FEATURES = 20
REFERENCES = 2000
"""Rows of a group that places are taken in, at most: a share is then known to one in a hundred, as its tails to 1/2000."""
FEWEST_ROWS = 8
"""Rows of a class, with values, below which nothing is said of their labels."""
MOSTLY = 0.5
"""Share of the weight of all features that a row must have values for, to be judged."""
ROUNDS = 4
"""Rows that are suspect are no references for others; it ends before where the suspects stay the same."""
SPEAKING = 5
"""Features named against a suspect, at most."""
OUTER = ((0.75, 0.6745), (0.85, 1.0364))
"""Shares of a class on the side away from the other group, and the normal deviations they lie at."""
Flags = npt.NDArray[np.bool_]


class LabelScores(NamedTuple):
    """What the features on the support say of the labels."""

    scores: FloatArray
    """−1: at the middle of its own group, +1: at that of the other one; 0 for rows that cannot be judged."""
    suspects: IntArray
    """Rows whose label is contradicted, the worst first."""
    against: tuple[IntArray, ...]
    """For each suspect the features that speak against its label most, the strongest first."""


def strongest(delta: FloatArray, n_rows: int) -> IntArray:
    """Return the features to judge ``n_rows`` rows by, those with the largest |delta|, in the order of the columns.

    They are at most 300, and fewer where rows are very many: what more features add to a row is little.
    """
    most = min(MOST_FEATURES, max(FEWEST_FEATURES, MOST_VALUES // max(1, n_rows)))
    order = np.argsort(-np.abs(delta), kind="stable")
    return np.sort(order[:most])


def judge(
    values: FloatArray, side: IntArray, *, classes: IntArray | None = None, strata: IntArray | None = None
) -> LabelScores:
    """Judge the labels of rows by ``values`` of features that differ between two groups, and list those contradicted.

    ``side`` is 1 for rows of the first group, 0 for the second, −1 for rows that are in neither. ``classes`` are the
    labels behind the groups: in one against the rest a row is judged within its own label, not within the mixture.
    ``strata``: places are taken among rows of the same stratum.

    **Place.** For each feature the share of a group that lies below the row (ties by half, the row itself left out),
    as a normal deviate: z_own within its own group, z_other within the other one, both signed so that large is the side
    of the own group. Whatever the law of a feature, z_own of a row with the right label is normal. A and B are the
    means of z_own and z_other over features, weighted by Cliff's delta. Features that depend on each other are no
    separate votes: A and B are judged by their own median and spread over the rows of a class, which the dependence
    widens. Of features that all tell the same, A is no more than a rank, and no row is suspect.

    **Rule.** A row is suspect if A lies more than `limit` deviations below the median of its class and B less than
    `CLOSE` deviations below that of the other group (of the class there that is nearest): far from its own, and not
    merely strange but at home in the other. The spread is the median absolute deviation of the class, or its outer
    half where that is wider, so that wrong labels, which lie on the inner side, cannot widen it much. Suspects are then
    taken out of the groups and all is done again.

    **False alarms.** `limit` is set so that `ALARMS` = 0.05 good rows are expected in the whole list, if A is normal
    within a class; being close to the other group as well makes it rarer. Where groups overlap the rows in between are
    not listed, wrong or right: the list is no count of wrong labels. Up to a tenth of each group may be mislabelled.

    A value that is missing (NaN) says nothing; a row with less than half of its values is not judged, nor one of a
    class of less than `FEWEST_ROWS` rows. The cost is that of sorting each column a few times.
    """
    inside = side >= 0
    classes = side if classes is None else np.where(inside, classes, -1)
    strata = np.zeros_like(side) if strata is None else strata
    scores, suspects, kept = np.zeros(side.size), np.empty(0, dtype=np.intp), inside
    for _ in range(ROUNDS):
        places, least = _mean_places(_deviates(values, side, strata, kept), side)
        scores, listed = _contradicted(places, side, classes, kept=kept, least=least)
        if np.array_equal(suspects, listed):
            break
        suspects, kept = listed, inside.copy()
        kept[suspects] = False
    return LabelScores(scores, suspects, _against(_deviates(values, side, strata, kept), side, suspects))


def limit(n_rows: int, n_class: int) -> float:
    """Return how many deviations below the median a row must lie, in a class of ``n_class`` of all ``n_rows`` judged.

    It is the quantile at 1 − `ALARMS`/n of Student's t: `_spread` of n normal values is about as uncertain as a
    standard deviation with n/2 degrees of freedom. It is 6.9 for 10 of 100 rows, 3.6 for 50 of 100 and 4.6 of 20,000.
    """
    from scipy.special import stdtrit

    return float(stdtrit(n_class / 2, 1 - ALARMS / n_rows))


def _deviates(values: FloatArray, side: IntArray, strata: IntArray, kept: Flags) -> Iterator[tuple[float, FloatArray]]:
    """Yield Cliff's delta of each feature and the normal deviates (2, n) of the rows in the second and first group.

    References are the rows ``kept``; NaN is what cannot be said.
    """
    from scipy.special import ndtri

    blocks = [rows for stratum, rows in group_indices(np.where(side >= 0, strata, -1)) if stratum >= 0]
    for column in values.T:
        shares = np.full((2, side.size), np.nan)
        for rows in blocks:
            for group in (0, 1):
                shares[group, rows] = _shares(column[rows], kept[rows] & (side[rows] == group))
        above = shares[0, kept & (side == 1)]
        delta = 2 * float(np.mean(dropna(above))) - 1 if np.isfinite(above).any() else 0.0
        yield delta, ndtri(shares)


def _shares(x: FloatArray, members: Flags) -> FloatArray:
    """Return the share of the members below each value, itself left out, between 0 and 1; NaN where there is none."""
    rows = np.flatnonzero(members & ~np.isnan(x))
    rows = rows[:: max(1, rows.size // REFERENCES)]
    if rows.size < FEWEST_ROWS:
        return np.full(x.size, np.nan)
    ordered = np.sort(x[rows])
    below = 0.5 * (np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right"))
    among = np.full(x.size, float(rows.size))
    below[rows] -= 0.5
    among[rows] -= 1
    return np.where(np.isnan(x), np.nan, (below + 0.5) / (among + 1))


def _mean_places(deviates: Iterable[tuple[float, FloatArray]], side: IntArray) -> tuple[FloatArray, float]:
    """Return the mean of the deviates (2, n) over features, weighted by |delta|, up is towards the first group.

    NaN for rows that have too little to be judged. The number is the standard deviation that the mean would have if
    features were independent and without ties.
    """
    total, weight = np.zeros((2, side.size)), np.zeros(side.size)
    weights = []
    for delta, z in deviates:
        has = np.isfinite(z).all(axis=0)
        total += np.where(has, delta * z, 0.0)
        weight += abs(delta) * has
        weights.append(abs(delta))
    most = sum(weights)
    judged = (side >= 0) & (weight > MOSTLY * most)
    least = float(np.linalg.norm(weights)) / most if most > 0 else 1.0
    return np.where(judged, total / np.where(judged, weight, 1.0), np.nan), least


def _contradicted(
    places: FloatArray, side: IntArray, classes: IntArray, *, kept: Flags, least: float
) -> tuple[FloatArray, IntArray]:
    """Return the score of each row, and those whose label is contradicted, the worst first."""
    n, judged = side.size, np.isfinite(places).all(axis=0)
    scores, away, short = np.zeros(n), np.full(n, -np.inf), np.full(n, np.inf)
    for own in (0, 1):
        up = 1 if own else -1  # so that up is towards the own group
        for label, rows in group_indices(np.where(judged & (side == own), classes, -1)):
            good = rows[kept[rows]]
            if label < 0 or good.size < FEWEST_ROWS:
                continue
            middle, spread = _spread(up * places[own, good], least)
            most = limit(int(judged.sum()), good.size)
            away[rows] = (middle - up * places[own, rows]) / spread - most
            others = side == 1 - own
            short[others] = np.minimum(short[others], (middle - up * places[own, others]) / spread)
    both = places.sum(axis=0)
    if not (judged & (side == 0)).any() or not (judged & (side == 1)).any():
        return scores, np.empty(0, dtype=np.intp)
    low, high = (float(np.median(both[judged & (side == group)])) for group in (0, 1))
    if high > low:
        towards_first = (2 * both[judged] - low - high) / (high - low)
        scores[judged] = np.where(side[judged] == 1, -towards_first, towards_first)
    listed = np.flatnonzero(judged & (away > 0) & (short < CLOSE))
    return scores, listed[np.argsort(-scores[listed], kind="stable")]


def _spread(x: FloatArray, least: float) -> tuple[float, float]:
    """Return the median and the spread, at least ``least``; up is the outer side."""
    middle = float(np.median(x))
    outer = np.quantile(x, [share for share, _ in OUTER]) - middle
    scales = (float(up) / deviations for up, (_, deviations) in zip(outer, OUTER, strict=True))
    return middle, max(least, GAUSSIAN * float(np.median(np.abs(x - middle))), *scales)


def _against(deviates: Iterable[tuple[float, FloatArray]], side: IntArray, suspects: IntArray) -> tuple[IntArray, ...]:
    """Return for each suspect the features that place it most clearly in the other group."""
    if not suspects.size:
        return ()
    up = np.where(side[suspects] == 1, 1.0, -1.0)
    votes = np.array([-delta * fillna(z[:, suspects], 0.0).sum(axis=0) * up for delta, z in deviates])
    order = np.argsort(-votes, axis=0, kind="stable")[:SPEAKING]
    return tuple(features[votes[features, k] > 0] for k, features in enumerate(order.T))
