"""Values from before: what they predict of a metric is taken off it, and less noise is left to compare (CUPED).

A value x with an earlier value z becomes x − θ(z − c), θ and c one number a column (Deng, Xu, Kohavi and Walker 2013,
WSDM). Labels that were given after z was recorded say nothing of z, so that a feature whose law is the same in all
groups, given z, keeps one law. That is exact where θ is no function of the labels:

- of two earlier stretches θ is the slope of the later on the earlier one. It was fixed before there were labels, z may
  hold anything, and a bad row changes its own adjusted value only: all that is proved of bad rows stays;
- of one stretch θ is the slope of x on z over all rows, whatever their labels. Permuting labels leaves it as it is. Bad
  rows that know the labels can move it, by as much as a bounded slope lets them, and with it the values of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TypeAlias

import numpy as np

from sparsemean._data import as_table
from sparsemean._data.source import Array, Source, Subset, as_dense
from sparsemean._data.table import Table, as_names
from sparsemean._fit.designs import refuse_other_rows
from sparsemean._fit.messages import named
from sparsemean._kernels.rounding import snapped
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

GAIN = 1.005
"""What a slope must gain, in standard deviations, for a column to be adjusted: less is not worth other values."""
FEWEST = 20
"""Rows with both values, without which a column is left as it is."""
LAGS = (1 / 16, 3 / 16, 5 / 16, 7 / 16)
"""How far apart the two rows of a pair are, as shares of all rows in the order of the earlier value."""
MOST = 4096
"""Rows, evenly among all, that tell what a slope gains."""
CLIPPED = 0.01
"""Share of the values on either side that count as the last one before them, where means are compared."""
TENTH = 0.1
SAME = 1e-9
"""Share of the range of a column that rounding may leave where all of it is taken off."""
NEAR = (0.1, 0.1, 1e3, 1e3)
"""How far off the row lies from which another draws a value, as a share of all rows: some are alike, some anyone."""


Slope: TypeAlias = Callable[[FloatArray, FloatArray], tuple[float, float]]


class Adjusted(Source):
    """Another source less θ(z − c), column by column; where z is missing, or θ zero, as it is."""

    def __init__(self, metric: Source, covariate: Source, at: IntArray, theta: FloatArray, centre: FloatArray) -> None:
        self.metric, self.covariate, self.at, self.theta, self.centre = metric, covariate, at, theta, centre
        self.shape, self.dtype = metric.shape, np.dtype(np.float64)
        self.along, self.grain = metric.along, metric.grain
        self.in_memory = metric.in_memory and covariate.in_memory

    @property
    def measured(self) -> Source:
        """The metric as it was measured."""
        return self.metric

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some rows of some columns, filled in."""
        # By the digits that they have: where the metric has one law then, what is made of it does.
        values = np.array(snapped(as_dense(self.metric.block(rows, columns)), self.metric.grid), order="F")
        those = np.flatnonzero(self.theta[columns])
        if those.size:
            at = self.at[columns][those]
            first = int(at.min())
            read = as_dense(self.covariate.block(rows, slice(first, int(at.max()) + 1)))[:, at - first]
            off = self.theta[columns][those] * (np.asarray(read, dtype=np.float64) - self.centre[columns][those])
            values[:, those] -= np.where(np.isnan(off), 0.0, off)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """Values from before and, for each column of the table, the number of the column that has its own; −1: none."""

    table: Table
    at: IntArray


def adjusted(
    table: Table, covariate: object, *, target: str = "centre", called: str = "covariate"
) -> tuple[Table, FloatArray]:
    """Return a table whose values are adjusted for those from before, with notes on what that takes off, and θ.

    ``covariate`` is a table like X, or a pair of them, the earlier stretch and the later one.
    """
    given: tuple[object, ...] = (covariate,)
    if isinstance(covariate, tuple) or (
        isinstance(covariate, list) and all(len(getattr(each, "shape", ())) == 2 for each in covariate)
    ):
        given = tuple(covariate)
    if len(given) > 2 or not given:
        raise InputError(called, "be one table, or a pair of an earlier and a later one", f"{len(given)} tables")
    stretches = [_stretch(table, each, called) for each in given]
    slope = mean_slope if target == "mean" else rank_slope
    d, last = table.shape[1], stretches[-1]
    theta, centre, shares = np.zeros(d), np.zeros(d), np.full(d, np.nan)
    known = np.flatnonzero(np.min([each.at for each in stretches], axis=0) >= 0)
    for columns, values in table.source.takes_of(known):
        before = [_taken(each, columns, called) for each in stretches]
        for k, column in enumerate(columns):
            z, x = before[-1][:, k], values[:, k]
            pair = (before[0][:, k], z) if len(before) == 2 else (z, x)
            theta[column] = _worthwhile(pair, slope)
            if theta[column]:
                for left, of in ((pair[1] - theta[column] * pair[0], pair[1]), (x - z, x)):
                    _refuse_same(left, of, table.label(column), called)
                there = np.isfinite(z)
                centre[column] = centre_of(z[there])
                there &= np.isfinite(x)
                if there.any():
                    shares[column] = share_removed(x[there], (x - theta[column] * z)[there])
    notes = _notes(table, theta, shares, known, len(given))
    table = replace(table, notes=(*table.notes, *notes))
    if theta.any():
        source = Adjusted(table.source, last.table.source, last.at, theta, centre)
        table = replace(table, source=source, theta=theta)
    return table, theta


def _worthwhile(pair: tuple[FloatArray, FloatArray], slope: Slope) -> float:
    """Return the slope of the second on the first values where it gains something, else 0."""
    there = np.isfinite(pair[0]) & np.isfinite(pair[1])
    if there.sum() < FEWEST:
        return 0.0
    theta, gain = slope(pair[0][there], pair[1][there])
    return float(theta) if gain >= GAIN else 0.0


def _refuse_same(left: FloatArray, values: FloatArray, label: str, called: str) -> None:
    """Refuse values from before that are those which are adjusted: nothing but rounding is ``left`` of these."""
    there = np.isfinite(left)
    if there.any() and np.ptp(left[there]) <= SAME * np.ptp(values[there]):
        advice = "give what was recorded before, and leave out columns that never change"
        raise InputError(called, "be of another time", f"the same values in {label}", advice)


# Slopes that few rows cannot move far, and what they gain. All functions are symmetric in the rows: their order, which
# may be that of labels, makes no difference.


def rank_slope(z: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Return the slope θ of x on z that leaves no rank correlation of x − θz with z, and what a rank test gains by it.

    Spearman's correlation of x − θz with z is a sum over pairs of rows of sign(Δx − θΔz)·Δr, r the ranks of z. It
    vanishes at the median of the slopes Δx/Δz with weights |Δr| (Sievers 1978, JASA 73). The pairs are rows that lie
    `LAGS` apart in the order of z. Where most values of x are equal so are most slopes, to 0.

    Examples
    --------
    >>> z = np.arange(100.0)
    >>> theta, gain = rank_slope(z, 3 * z + (-1.0) ** z)
    >>> round(theta, 2), gain > 1.5
    (3.0, True)
    """
    order = np.lexsort((x, z))
    z, x = z[order], x[order]
    if (z[1:] == z[:-1]).any():  # among equal z the order of x would tell which rows make a pair
        x = x[np.lexsort((np.random.default_rng(0).random(z.size), z))]
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
    some = np.unique(np.linspace(0, z.size - 1, min(z.size, MOST)).astype(np.intp))
    plain = _strength(z[some], x[some], 0.0)
    return theta, _strength(z[some], x[some], theta) / plain if plain > 0 else 1.0


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the value that has half of the weight on either side; 0 where there is none."""
    if not values.size:
        return 0.0
    order = np.argsort(values)
    heights = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(heights, 0.5 * heights[-1])]])


def _strength(z: FloatArray, x: FloatArray, theta: float) -> float:
    """Return how far a difference moves the mean rank of x − θz, in standard deviations of a rank.

    The difference is one that all kinds of values may have, amounts, counts or rates: rows draw once more, half of
    the time among those with about the same z, and keep the larger of two values (Lehmann 1953, Ann. Math. Stat. 24).
    Where a slope tells apart by noise what was equal it moves ranks by no more, but they vary more.
    """
    before = x - theta * z
    ordered = np.sort(before)

    def ranked(values: FloatArray) -> FloatArray:
        return np.asarray(0.5 * (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")))

    rng, moved, deviation = np.random.default_rng(0), 0.0, float(ranked(before).std())
    for near in NEAR:
        order = np.argsort(np.searchsorted(z, z) + rng.uniform(0, near * z.size, z.size))
        again = np.empty_like(x)
        again[order] = np.roll(x[order], -1)
        moved += float(ranked(np.maximum(x, again) - theta * z).mean() - 0.5 * x.size) / len(NEAR)
    return moved / deviation if deviation > 0 else 1.0


def mean_slope(z: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Return the slope θ of x on z, both clipped at `CLIPPED`, and by how much it lowers the deviation of x.

    Examples
    --------
    >>> z = np.arange(100.0)
    >>> theta, gain = mean_slope(z, 3 * z + 40 * (-1.0) ** z)
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


def centre_of(z: FloatArray) -> float:
    """Return the mean, but for values so far out that one of them would move it: they count as 10 ranges out.

    The range is that without a tenth of the values on either side, or without `CLIPPED` where it has no width.

    Examples
    --------
    >>> centre_of(np.array([1.0, 2.0, 3.0])), centre_of(np.append(np.arange(99.0), 1e9)) < 60
    (2.0, True)
    """
    for share in (TENTH, CLIPPED):
        low, high = np.quantile(z, (share, 1 - share))
        if high > low:
            return float(np.mean(np.clip(z, low - 10 * (high - low), high + 10 * (high - low))))
    return float(np.median(z))


# What is said of it.


def _notes(table: Table, theta: FloatArray, shares: FloatArray, known: IntArray, stretches: int) -> list[str]:
    """Say how many columns were adjusted and what that takes off, which were not, and what it rests on."""
    d, used = theta.size, np.flatnonzero(theta)
    without = d - known.size
    told = f"; {pluralize(without, 'feature')} without values from before" if without else ""
    if not used.size:
        order = "check that their rows are those of X, in its order"
        return [f"values from before say too little of any feature: none was adjusted{told}; {order}"]
    notes = []
    share = shares[used][np.isfinite(shares[used])]
    by = f", which takes out {float(np.median(share)):.0%} of the variance (median)" if share.size else ""
    left = np.setdiff1d(known, used)
    kept = f"; left as they are, as nothing would be gained: {named(table, left)}" if left.size else ""
    notes.append(f"{used.size:,} of {pluralize(d, 'feature')} adjusted for values from before{by}{kept}{told}")
    worse = used[shares[used] < 0]
    if worse.size:
        notes.append(
            f"adjusting makes {named(table, worse)} vary more, not less: both stretches from before must be as long "
            "as that of X, or all three have values a day"
        )
    if stretches == 1:
        notes.append(
            "how much was taken off comes from the rows that are compared: the error rate is exact without bad rows, "
            "but bad ones that know the labels can move it; covariate=(earlier, later) leaves them no such way"
        )
    return [*notes, "values from before are taken to have been recorded before any row had its label"]


# What is given: tables like X, or some of its columns by name, in the order of its rows.


def _stretch(table: Table, given: object, called: str) -> _Stretch:
    """Check one table from before against X."""
    before = given if isinstance(given, Table) else _as_table(given, called)
    _refuse_elsewhere(table, before, called)
    (n, d), (rows, width) = table.shape, before.shape
    if rows != n:
        advice = "give a row for each of X, in its order, NaN where nothing is known: Z.reindex(X.index) of a frame"
        raise InputError(called, f"have the {n:,} rows of X", f"{rows:,} rows", advice)
    refuse_other_rows(table, before.row_names, called, "Z.reindex(X.index) puts them so")
    if before.feature_names is None or table.feature_names is None:
        if width != d:
            advice = "give a column for each of X, or frames with names"
            raise InputError(called, f"have the {d:,} columns of X", f"{width:,} columns", advice)
        return _Stretch(before, np.arange(d))
    places = {name: k for k, name in enumerate(before.feature_names)}
    if unknown := sorted(places.keys() - set(table.feature_names)):
        received = f"{list_names([repr(name) for name in unknown])}, which X has not"
        raise InputError(called, "have columns of X", received, "rename them as those of X, or leave them out")
    return _Stretch(before, np.array([places.get(name, -1) for name in table.feature_names]))


def _as_table(given: object, called: str) -> Table:
    """Take a table as X would be; what is wrong with it is told by its own name."""
    try:
        if given is None or np.isscalar(given) or isinstance(given, Mapping):
            raise TypeError
        return as_table(given)
    except TypeError:
        advice = "give an array or a frame"
        raise InputError(called, "be a table like X, or a pair of them", type(given).__name__, advice) from None
    except InputError as error:
        if error.argument != "X":
            raise
        rule, _, received = str(error).removeprefix("X must ").partition(": got ")
        raise InputError(called, rule, received) from None


def _refuse_elsewhere(table: Table, before: Table, called: str) -> None:
    for each in (table, before):
        if each.source.engine != "host":
            where, advice = ("chunks of Dask", "compute them first") if each.source.engine == "dask" else (
                "an array on a device", "copy it to memory first: cupy.asnumpy(X)"
            )  # fmt: skip
            raise InputError(called, "come with values in memory or in a file", where, advice)


def _taken(stretch: _Stretch, columns: IntArray, called: str) -> FloatArray:
    """Return columns from before, all of them numbers or missing."""
    values = stretch.table.source.take(stretch.at[columns])
    if np.isinf(values).any():
        row, k = (int(place[0]) for place in np.nonzero(np.isinf(values)))
        received = f"infinity in {stretch.table.label(int(stretch.at[columns[k]]))}, row {row}"
        raise InputError(called, "not contain infinity", received, "put NaN where nothing is known")
    return values


def split(
    table: Table, suffixes: Sequence[str], called: str = "--covariate"
) -> tuple[Table, Table | tuple[Table, ...]]:
    """Return the columns of a file that are features, and the covariate that columns NAME + suffix make of them."""
    _refuse_elsewhere(table, table, called)
    names = [] if table.feature_names is None else table.feature_names.tolist()
    ends = [
        {name.removesuffix(suffix): k for k, name in enumerate(names) if name.endswith(suffix)} for suffix in suffixes
    ]
    for suffix, of in zip(suffixes, ends, strict=True):
        if not suffix or not of:
            advice = f"it has {list_names(names)}" if names else "its columns have no names"
            raise InputError(called, "be the ending of columns with values from before", repr(suffix), advice)
    apart = {k for of in ends for k in of.values()}
    features = [k for k in range(len(names)) if k not in apart]
    known = {names[k] for k in features}
    for base in sorted(set().union(*ends)):
        having = [base + suffix for suffix, of in zip(suffixes, ends, strict=True) if base in of]
        lacking = [base + suffix for suffix, of in zip(suffixes, ends, strict=True) if base not in of]
        lacking += [] if base in known else [base]
        if lacking:
            received, advice = f"{having[0]!r} without {lacking[0]!r}", f"leave it out: --drop {quote(having[0])}"
            raise InputError(called, "go with columns that have all their counterparts", received, advice)
    stretches = tuple(_columns(table, list(of.values()), list(of)) for of in ends)
    kept = _columns(table, features, [names[k] for k in features])
    return kept, stretches[0] if len(stretches) == 1 else stretches


def _columns(table: Table, columns: list[int], names: list[str]) -> Table:
    """Return some columns of a table under other names."""
    own = Subset(table.source, np.array(columns, dtype=np.intp))
    return replace(table, source=own, feature_names=as_names(names))
