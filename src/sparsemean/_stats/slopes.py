"""How much of an earlier value to take off a later one: slopes that few rows cannot move far, and what they gain.

Every function is symmetric in the rows: their order, which may be that of labels, makes no difference.
"""

from __future__ import annotations

import math

import numpy as np

from sparsemean._util.records import FloatArray

MOST = 4096
"""Rows that a slope by ranks is taken from; its error then costs about one part in 4096 of what is left of the
variance."""
LAGS = (1 / 16, 3 / 16, 5 / 16, 7 / 16)
"""How far apart the two rows of a pair are, as shares of all rows in the order of the earlier value."""
CLIPPED = 0.01
"""Share of the values on either side that count as the last one before them, where means are compared."""
TENTH = 0.1
DRAWS = 4
"""Values that each row draws to see what a difference would do."""


def by_ranks(z: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Return the slope θ of x on z that leaves no rank correlation of x − θz with z, and what a rank test gains by it.

    Spearman's correlation of x − θz with z is a sum over pairs of rows of sign(Δx − θΔz)·Δr, r the ranks of z. It
    vanishes at the median of the slopes Δx/Δz with weights |Δr| (Sievers 1978, JASA 73). The pairs are rows that lie
    `LAGS` apart in the order of z, equal ones in that of x. Where most values of x are equal so are most slopes, to 0.

    Examples
    --------
    >>> z = np.arange(100.0)
    >>> theta, gain = by_ranks(z, 3 * z + (-1.0) ** z)
    >>> round(theta, 2), gain > 1.5
    (3.0, True)
    """
    z, x = _in_order(z, x)
    ranks = np.searchsorted(z, z, "left") + np.searchsorted(z, z, "right")
    slopes, weights = [], []
    for lag in LAGS:
        apart = -round(lag * z.size)
        steps = np.abs(np.roll(ranks, apart) - ranks)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slopes.append(((np.roll(x, apart) - x) / (np.roll(z, apart) - z))[steps > 0])
        weights.append(steps[steps > 0])
    theta = _weighted_median(np.concatenate(slopes), np.concatenate(weights))
    if theta == 0 or not math.isfinite(theta):
        return 0.0, 1.0
    return theta, _strength(z, x, theta) / _strength(z, x, 0.0)


def _in_order(z: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows in the order of z, then of x: all of them, or `MOST` that lie evenly among them."""
    order = np.lexsort((x, z))
    if order.size > MOST:
        order = order[((np.arange(MOST) + 0.5) * (order.size / MOST)).astype(np.intp)]
    return z[order], x[order]


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the value that has half of the weight on either side; 0 where there is none."""
    if not values.size:
        return 0.0
    order = np.argsort(values)
    heights = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(heights, 0.5 * heights[-1])]])


def _strength(z: FloatArray, x: FloatArray, theta: float) -> float:
    """Return how far a difference moves the mean rank of x − θz, in standard deviations of a rank.

    The difference is one that any kind of values may have, amounts, counts or rates: rows draw once more, and keep the
    larger of the two values (Lehmann 1953, Ann. Math. Stat. 24). A slope that tears equal values apart loses by it.
    """
    before = x - theta * z
    ordered = np.sort(before)

    def ranked(values: FloatArray) -> FloatArray:
        return 0.5 * (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right"))

    rng, deviation = np.random.default_rng(0), float(ranked(before).std())
    after = [ranked(np.maximum(x, rng.permutation(x)) - theta * z).mean() for _ in range(DRAWS)]
    return (float(np.mean(after)) - 0.5 * x.size) / deviation if deviation > 0 else 1.0


def by_means(z: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Return the slope θ of x on z, both clipped at `CLIPPED`, and by how much it lowers the deviation of x.

    Examples
    --------
    >>> z = np.arange(100.0)
    >>> theta, gain = by_means(z, 3 * z + 40 * (-1.0) ** z)
    >>> round(theta, 1), round(gain, 1)
    (3.0, 2.4)
    """
    z, x = _clipped(z), _clipped(x)
    z, x = z - z.mean(), x - x.mean()
    of_z, of_x, both = float(z @ z), float(x @ x), float(z @ x)
    if of_z == 0 or of_x == 0:
        return 0.0, 1.0
    return both / of_z, 1.0 / math.sqrt(max(1.0 - both * both / (of_z * of_x), 1e-9))


def _clipped(x: FloatArray) -> FloatArray:
    return np.clip(x, *np.quantile(x, (CLIPPED, 1 - CLIPPED)))


def share_removed(x: FloatArray, adjusted: FloatArray) -> float:
    """Return the share of the variance that is gone, by the range without a tenth of the values on either side."""
    before, after = (float(np.subtract(*np.quantile(values, (1 - TENTH, TENTH)))) for values in (x, adjusted))
    return 1.0 - (after / before) ** 2 if before > 0 else math.nan


def centre(z: FloatArray) -> float:
    """Return the mean, but for values so far out that one of them would move it: they count as 10 ranges out.

    The range is that without a tenth of the values on either side, or without `CLIPPED` where it has no width.

    Examples
    --------
    >>> centre(np.array([1.0, 2.0, 3.0])), centre(np.append(np.arange(99.0), 1e9)) < 60
    (2.0, True)
    """
    for share in (TENTH, CLIPPED):
        low, high = np.quantile(z, (share, 1 - share))
        if high > low:
            return float(np.mean(np.clip(z, low - 10 * (high - low), high + 10 * (high - low))))
    return float(np.median(z))
