"""How large differences between two groups are, in the numbers that people know.

A mean is moved as far as anyone likes by one bad row, and so are its difference, its lift and its fold change: none of
them carries a guarantee. They stand in the table because readers ask for them, beside the estimate, which has an
interval: a shift, or where values are often equal a difference of shares (docs/guarantees.md has the proofs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from sparsemean._stats.arrays import medians
from sparsemean._util.plans import BadRows, Side
from sparsemean._util.records import FloatArray, IntArray

EPSILON = 1e-9
"""Added to both means of a fold change, as scanpy does, so that a group of zeros has a finite one."""
MOST_LOG = 20.0
"""Logarithms of scaled counts stay below: e²⁰ is half a milliard."""
MOST_RATIO, NEAR, ENOUGH = 100.0, 0.005, 20
"""Multiples of a row's smallest count that are looked at, how near whole numbers they must lie, and how many it takes.
One in a hundred lies so near by chance."""
BLOCK = 1 << 21
"""Values that are copied at once."""
MEASURES = UNKNOWN, CENTRE, MEANS, PAIRS = range(-1, 3)
"""What an estimate is: a centre, of groups the median of all differences; a mean or, of two values too, a difference of
means; of values that are often equal the share of pairs in which the label is larger, less the share in which it is
smaller, or of one sample the share of pairs whose mean lies above the null value less the share below."""
OF_ODDS, OF_SHARE = 0.9, 0.0499
"""Parts of an error: for odds, and for either end of the share of both groups; what is left is for rounding."""
MOST_ODDS = 80.0
"""Logarithms of odds that differ from infinite ones by less than rounding."""
WINDOW = 40
"""Standard deviations around a count within which others are added up."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupEffects:
    """What two groups look like in some features: arrays over these, 0 the reference and 1 the label."""

    mean_0: FloatArray
    mean_1: FloatArray
    median_0: FloatArray
    median_1: FloatArray
    share_nonzero_0: FloatArray
    share_nonzero_1: FloatArray
    n_0: FloatArray
    """Values that are there."""
    n_1: FloatArray
    log2_fold_change: FloatArray
    lift: FloatArray
    """100·(mean_1/mean_0 − 1), in percent; NaN where mean_0 is not positive, and of logarithms, which have no ratio."""
    difference: FloatArray
    """mean_1 − mean_0."""
    scale: str | None = None
    """What the data look like, which decides the fold change: "counts", "log1p" or None."""


COLUMNS = tuple(item.name for item in fields(GroupEffects) if item.name != "scale")


def effect_columns(effects: GroupEffects | None, features: IntArray, support: IntArray) -> dict[str, FloatArray]:
    """Return the columns for ``features`` of effects in ``support``, sorted; NaN for others, and where there are none.

    Examples
    --------
    >>> effects = group_effects(np.array([[1.0, 4.0], [3.0, 5.0]]), np.array([1]), np.array([0]))
    >>> effect_columns(effects, np.array([7, 2, 3]), np.array([2, 7]))["difference"]
    array([ 1.,  2., nan])
    """
    columns = {name: np.full(features.size, np.nan) for name in COLUMNS}
    if effects is not None and support.size:
        there = np.isin(features, support)
        place = np.searchsorted(support, features[there])
        for name, column in columns.items():
            column[there] = getattr(effects, name)[place]
    return columns


def group_effects(
    values: FloatArray, first: IntArray, second: IntArray, *, scale: str | None = "auto", raw: FloatArray | None = None
) -> GroupEffects:
    """Return the effects in each column of ``values`` (n, k), NaN where one is missing: ``first`` minus ``second``.

    ``first`` and ``second`` are the rows of the label and of the reference. "auto" asks `log_scale` of ``values``; a
    caller who goes by blocks of columns asks it once, of rows with many columns, and gives the answer to each block.
    Shares of non-zeros are those of the ``raw`` values, where these were adjusted.
    """
    one, zero = (_of_group(values, rows) for rows in (first, second))
    (n_1, mean_1, median_1, share_1), (n_0, mean_0, median_0, share_0) = one, zero
    if raw is not None:
        share_1, share_0 = (_of_group(raw, rows)[-1] for rows in (first, second))
    scale = log_scale(values) if scale == "auto" else scale
    with np.errstate(over="ignore", invalid="ignore"):
        difference = mean_1 - mean_0
    return GroupEffects(
        mean_0=mean_0, mean_1=mean_1, median_0=median_0, median_1=median_1,
        share_nonzero_0=share_0, share_nonzero_1=share_1, n_0=n_0, n_1=n_1,
        log2_fold_change=log2_fold_change(mean_1, mean_0, scale),
        lift=lift(mean_1, np.full_like(mean_0, np.nan) if scale == "log1p" else mean_0), difference=difference,
        scale=scale,
    )  # fmt: skip


def joined(blocks: Sequence[GroupEffects]) -> GroupEffects:
    """Return the effects of blocks of columns, one after the other; all have the scale of the first."""
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in COLUMNS}
    return GroupEffects(**columns, scale=blocks[0].scale)


def _of_group(values: FloatArray, rows: IntArray) -> FloatArray:
    """Return for each column how many values are there, their mean, median and share of non-zeros; a row each."""
    k = values.shape[1]
    out, step = np.empty((4, k)), max(1, BLOCK // max(1, rows.size))
    for start in range(0, k, step):
        at = slice(start, start + step)
        # Columns that lie in one piece are added up in the same order, whatever the block and the input.
        block = np.asfortranarray(values[rows, at])
        there = ~np.isnan(block)
        number = there.sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, median = np.where(there, block, 0.0).sum(axis=0) / number, medians(block)
        share = np.sum(there & (block != 0), axis=0) / np.where(number, number, np.nan)
        out[:, at] = number, mean, median, share
    return out


def lift(mean_1: FloatArray, mean_0: FloatArray) -> FloatArray:
    """Return 100·(mean_1/mean_0 − 1), in percent; NaN where ``mean_0`` is not positive.

    Examples
    --------
    >>> lift(np.array([12.0, 1.0]), np.array([10.0, -1.0])).round(6)
    array([20., nan])
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.asarray(np.where(mean_0 > 0, 100 * (mean_1 / mean_0 - 1), np.nan))


def log2_fold_change(mean_1: FloatArray, mean_0: FloatArray, scale: str | None) -> FloatArray:
    """Return log₂ of the ratio of two means, 1e-9 added to both; NaN where the scale has no ratios.

    For "counts" these are the means themselves. For "log1p" they are expm1 of the means of logarithms, as in scanpy's
    ``rank_genes_groups``: a ratio of geometric means of 1 + x, less one each, and not of the means of x.

    Examples
    --------
    >>> log2_fold_change(np.array([8.0]), np.array([2.0]), "counts").round(6)
    array([2.])
    >>> log2_fold_change(np.log1p([8.0]), np.log1p([2.0]), "log1p").round(6)
    array([2.])
    """
    if scale is None:
        return np.full(mean_1.shape, np.nan)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        above, below = (mean_1, mean_0) if scale == "counts" else (np.expm1(mean_1), np.expm1(mean_0))
        return np.asarray(np.log2((above + EPSILON) / (below + EPSILON)))


def log_scale(sample: FloatArray) -> str | None:
    """Say whether some rows (n, k) of the data look like "counts", like "log1p" of scaled counts, or neither (None).

    Counts are whole numbers from 0 on. Counts of a row divided by its size and taken to log(1 + x) are still whole
    multiples of one number, once expm1 is taken: of a row's smallest one, where that is a single count. Half of the
    multiples must be whole, and more than before expm1. Logarithms to another base, microarrays, prices and shares are
    neither; where too few columns are there to tell, or all of them are of high counts, it is None too: a sample of all
    columns tells more than the selected ones. Of very many rows every so-maniest is looked at.

    Examples
    --------
    >>> counts = np.random.default_rng(0).poisson(1.0, (50, 20))
    >>> sizes = counts.sum(axis=1, keepdims=True)
    >>> log_scale(counts), log_scale(np.log1p(1e4 * counts / sizes)), log_scale(np.log2(1 + 1e4 * counts / sizes))
    ('counts', 'log1p', None)
    """
    values = np.asarray(sample[:: 1 + sample.size // BLOCK], dtype=np.float64)
    there = values[np.isfinite(values)]
    if not there.size or there.min() < 0 or there.max() <= 0:
        return None
    if np.array_equal(there, np.rint(there)):
        return "counts"
    if there.max() >= MOST_LOG or values.ndim != 2:
        return None
    logs = _whole_multiples(np.expm1(values))
    return "log1p" if logs >= 0.5 and logs > _whole_multiples(values) else None


def _whole_multiples(values: FloatArray) -> float:
    """Return what share of the positive values of each row, over its smallest one, lies near a whole number above 1."""
    positive = np.where(values > 0, values, np.inf)
    ratios = values / positive.min(axis=1, keepdims=True)
    ratios = ratios[(ratios > 1.5) & (ratios < MOST_RATIO)]
    if ratios.size < ENOUGH:
        return 0.0
    return float(np.mean(np.abs(ratios - np.rint(ratios)) < NEAR))


# Intervals of differences of shares.


def pair_ends(won: float, lost: float, moved: float, *, step: float, terms: int, error: float) -> tuple[float, float]:
    """Return both ends, each missed with probability ``error``, for the share of pairs won less the share lost.

    Bad rows touch the share ``moved``. All pairs are the mean of ways to put rows into ``terms`` pairs without a row in
    common, none of which counts more than ``step``: more than 1 where there may be none.
    """
    if step > 1:
        return -1.0, 1.0
    # Values may have no part in these numbers, the best of which is about √(2·log(1/error)/terms that are no ties).
    first = min(2.0, math.sqrt(2 * (1 - math.log(error)) * step))
    tilts = first * 2.0 ** np.arange(math.ceil(math.log2(2 / first)) + 1)
    gain, loss, share = np.log1p(np.tanh(tilts)), np.log1p(-np.tanh(tilts)), np.tanh(tilts) / (step * terms)

    def least(won: float, lost: float) -> float:
        logs = won * gain + lost * loss - moved * (gain - loss)
        return max(-1.0, float(np.max(np.expm1((logs / step - math.log(tilts.size / error)) / terms) / share)))

    return least(won, lost), -least(lost, won)


def share_ends(
    label: tuple[int, int], reference: tuple[int, int], bad: BadRows, *, error: float, unsure: bool
) -> tuple[float, float]:
    """Return both ends, each missed with probability ``error``, for the difference of two shares.

    ``label`` and ``reference`` have the number of rows and how many have the larger value. With ``unsure`` sizes bad
    rows may have been hidden or put in.
    """
    (n1, a1), (n2, a2) = label, reference
    n, a = n1 + n2, a1 + a2
    of_share, reach = math.log(OF_SHARE * error), bad.total / (n - bad.total) if unsure else 0.0
    tilts, counts = np.geomspace(1e-4, 2 - of_share, 400), np.maximum(0, np.array([[a], [n - a]]) - bad.total)
    least = np.max(np.expm1((tilts * counts + of_share) / n) / np.expm1(tilts), axis=1) - reach  # Chernoff's bound
    share = (max(0.0, float(least[0])), min(1.0, 1 - float(least[1])))
    low = least_log_odds(n1, n2, max(0, a1 - bad.label), min(n2, a2 + bad.reference), OF_ODDS * error)
    high = -least_log_odds(n2, n1, max(0, a2 - bad.reference), min(n1, a1 + bad.label), OF_ODDS * error)
    return _difference(low, n1, n2, share, -1), _difference(high, n1, n2, share, 1)


def least_log_odds(n1: int, n2: int, a1: int, a2: int, error: float) -> float:
    """Return the largest logarithm of an odds ratio at which as many as a₁ or more have probability ``error`` at most.

    Given a₁ + a₂, that is the lower end of the interval which belongs to Fisher's exact test.

    Examples
    --------
    >>> round(float(np.exp(least_log_odds(20, 30, 12, 6, 0.025))), 4)
    1.4461
    """
    from scipy.special import gammaln

    a, n = a1 + a2, n1 + n2
    first, last = max(0, a - n2), min(n1, a)
    if a1 == first:
        return -MOST_ODDS
    width = int(WINDOW * math.sqrt(1 + a * (n - a) / n))
    k = np.arange(max(first, a1 - width), min(last, a1 + width) + 1)
    weights, above = -sum(gammaln(1 + part) for part in (k, n1 - k, a - k, n2 - a + k)), k >= a1
    low, high = -MOST_ODDS, MOST_ODDS
    for _ in range(40):
        middle = (low + high) / 2
        logs = weights + middle * (k - a1)
        each = np.exp(logs - logs.max())
        low, high = (middle, high) if each[above].sum() <= error * each.sum() else (low, middle)
    return low


def beside_test(low: float, high: float, side: Side, sign: float) -> tuple[float, float]:
    """Return the ends of an interval for that side; zero is no inner point where a test has shown the ``sign``."""
    low, high = max(low, 0.0) if sign > 0 else low, min(high, 0.0) if sign < 0 else high
    return -math.inf if side is Side.DOWN else low, math.inf if side is Side.UP else high


def _difference(log_odds: float, n1: int, n2: int, share: Sequence[float], side: int) -> float:
    """Return the least (side −1) or largest difference of two shares with these odds, both together in a range."""
    if log_odds < 0:
        return -_difference(-log_odds, n2, n1, share, -side)
    root = math.exp(log_odds / 2)
    turn = (n1 * root + n2) / (1 + root)  # where odds make most of a difference
    counts = [(n1 + n2) * end for end in share]
    counts += [turn] if counts[0] < turn < counts[1] else []
    odds, found = math.exp(log_odds), []
    for a in counts:
        # the share x of which x(1 − y) = odds·(1 − x)·y, y = (a − n₁x)/n₂, without a difference of large numbers
        squares = (n2 - a) ** 2 + (odds * (a - n1)) ** 2 + 2 * odds * (n1 * n2 + a * (n1 + n2 - a))
        x = 2 * odds * a / (n2 - a + odds * (a + n1) + math.sqrt(squares))
        found.append(x - (a - n1 * x) / n2)
    return side * max(side * difference for difference in found)
