"""Arms of an experiment: means without suspected bots, and what holds of all users whatever these did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Dense
from sparsemean._data.table import Table, as_names
from sparsemean._fit import covariates
from sparsemean._fit.two_sample import Design, contrasts_of, decide_all
from sparsemean._stats.effects import lift
from sparsemean._stats.planning import MOST_ALLOWED, bad_rows
from sparsemean._util.checks import is_missing, list_names, pluralize
from sparsemean._util.plans import BadRows, Question, Side
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = (
    "n_control", "n_treatment", "control", "treatment", "difference", "difference_low", "difference_high", "lift",
    "lift_low", "lift_high", "p_value", "_ratio", "_error", "_degrees",
)  # fmt: skip
"""What is known of one arm and one metric: the last three are of the logarithm of the ratio of means."""
HIDDEN = NUMBERS[-3:]
"""What no table shows."""
FEWEST = 20
"""Users of each arm without whom there is nothing to compare."""
USUAL = (0.01, 0.05)
"""Shares of bots that people think in."""
Labels = npt.NDArray[np.object_]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Users:
    """A row for each user: their metrics, NaN where there is none, and what else is known of them."""

    values: FloatArray
    names: tuple[str, ...]
    arm: IntArray
    """Numbers among ``arms``, of which the first is the control."""
    arms: tuple[str, ...]
    called: Labels
    """Their names, or the numbers of their rows."""
    before: tuple[Table, ...] = ()
    """Of one stretch of time before, or of an earlier and a later one."""
    ratios: tuple[str, ...] = ()
    totals: FloatArray = field(default_factory=lambda: np.empty((2, 0, 0)))
    """Of ratios: what is above, and below, of each user and ratio."""
    segment: Labels | None = None
    day: Labels | None = None
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of metrics and ratios."""
        return (*self.names, *self.ratios)

    @property
    def sizes(self) -> dict[str, int]:
        """Users of each arm."""
        return dict(zip(self.arms, np.bincount(self.arm, minlength=len(self.arms)).tolist(), strict=True))


# What is compared: means without suspected bots, and distributions whatever these did.


def moments(users: Users, rows: IntArray) -> FloatArray:
    """Return (3, arms, metrics): how many values some users of each arm have, their mean and its squared error.

    A ratio of totals is the mean of R + (x − R·y)/ȳ with R = x̄/ȳ, up to terms of order 1/n (the delta method).
    """
    import pandas as pd

    everyone = rows.size == users.arm.size
    arm, values = users.arm[rows], users.values if everyone else np.take(users.values.T, rows, axis=1).T

    def of(x: FloatArray) -> FloatArray:
        found = pd.DataFrame(x).groupby(arm)
        n = found.count()
        return np.stack((n, found.mean(), found.var() / n))

    if users.ratios:
        top, bottom = users.totals[:, rows]
        below = of(bottom)[1]
        ratio = (of(top)[1] / below)[arm]
        values = np.concatenate((values, ratio + (top - ratio * bottom) / below[arm]), axis=1)
    return of(values)


def compared(control: FloatArray, treatment: FloatArray, level: float, side: Side = Side.BOTH) -> pd.DataFrame:
    """Compare means by Welch's test, and their ratio by its logarithm: a row for each metric; lifts are in percent."""
    import pandas as pd
    from scipy.special import stdtr, stdtrit

    n, mean, squares = np.stack((control, treatment)).transpose(1, 0, 2)

    def degrees(parts: FloatArray) -> FloatArray:
        return np.asarray(parts.sum(axis=0) ** 2 / (parts**2 / (n - 1)).sum(axis=0))

    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap, error, own = mean[1] - mean[0], np.sqrt(squares.sum(axis=0)), degrees(squares)
        relative = np.where((mean > 0).all(axis=0), squares / mean**2, np.nan)
        ratio, wide, of_ratio = np.log(mean[1] / mean[0]), np.sqrt(relative.sum(axis=0)), degrees(relative)
        t, tail = gap / error, side.pick(1 - level / 2, 1 - level, 1 - level)
        half, half_ratio = stdtrit(own, tail) * error, stdtrit(of_ratio, tail) * wide
        p = side.pick(2 * stdtr(own, -np.abs(t)), stdtr(own, -t), stdtr(own, t))
        ends = np.expm1(side.interval(ratio - half_ratio, ratio + half_ratio))
    columns = (
        *n, *mean, gap, *side.interval(gap - half, gap + half), lift(mean[1], mean[0]),
        *(100 * np.where(np.isnan(ratio), np.nan, ends)), np.where(error > 0, p, 1.0), ratio, wide, of_ratio,
    )  # fmt: skip
    return pd.DataFrame(dict(zip(NUMBERS, columns, strict=True))).astype({"n_control": int, "n_treatment": int})


def effects_of(users: Users, rows: IntArray, level: float, side: Side = Side.BOTH) -> list[pd.DataFrame]:
    """Compare each arm of some users with the control, see `NUMBERS`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        control, *others = moments(users, rows).transpose(1, 0, 2)
    frames = [compared(control, other, level, side) for other in others]
    for arm, frame in zip(users.arms[1:], frames, strict=True):
        frame.insert(0, "arm", arm)
        frame.insert(1, "metric", users.metrics)
    return frames


def crossing(line: pd.Series[float], bound: float, level: float) -> tuple[float, str]:
    """Test that a lift does not cross a bound, on the side of the bound; and say what is known of it."""
    from scipy.special import stdtr

    (ratio, wide, degrees), sign = line[["_ratio", "_error", "_degrees"]], 1.0 if bound > 0 else -1.0
    p = float(stdtr(degrees, -sign * (np.log1p(bound) - ratio) / wide)) if wide > 0 else 1.0
    return (p, "held") if p <= level else (p, "broken" if p >= 1 - level and wide > 0 else "unclear")


def holm(p: FloatArray) -> FloatArray:
    """Return Holm's adjusted p-values of an array of any shape."""
    flat = p.ravel()
    order = np.argsort(flat)
    adjusted = np.minimum(1.0, np.maximum.accumulate(flat[order] * np.arange(flat.size, 0, -1)))
    out = np.empty_like(flat)
    out[order] = adjusted
    return out.reshape(p.shape)


def shared(p: FloatArray, primary: Flags, share: float) -> FloatArray:
    """Return p-values adjusted by Holm's rule within two families of metrics, the columns of ``p``.

    The primary ones have a ``share`` of the level. The others have the rest of it, and all where every primary one is
    rejected (Wiens 2003, Pharmaceutical Statistics 2); a share of 1 is a fixed sequence.

    Examples
    --------
    >>> shared(np.array([[0.01, 0.02, 0.03]]), np.array([True, False, False]), 0.8).round(4)
    array([[0.0125, 0.04  , 0.04  ]])
    """
    if not primary.any() or primary.all():
        return holm(p)
    out = np.empty_like(p)
    out[:, primary] = np.minimum(1.0, holm(p[:, primary]) / share)
    others = holm(p[:, ~primary])
    alone = others / (1 - share) if share < 1 else np.ones_like(others)
    out[:, ~primary] = np.minimum(1.0, np.minimum(alone, np.maximum(others, out[:, primary].max())))
    return out


def certificates(
    users: Users, bots: IntArray, *, question: Question, primary: Flags, tested: Flags, share: float, n_jobs: int | None
) -> tuple[FloatArray, dict[float, int]]:
    """Compare whole distributions of all users, as many bots of each arm allowed for as were found, or as were named.

    Of all arms and metrics it is the sign that is certain, or 0, the p-value, and the share of bots up to which it
    holds; and how many are certain where some shares of each arm were bots.
    Bots move the ratio of all users, and with it every user's residual: ratios are certified where there are none.
    """
    sizes, bad = (np.bincount(users.arm[those], minlength=len(users.arms)) for those in (slice(None), bots))
    values = users.values
    if users.ratios:
        top, bottom = users.totals  # of all users, whatever their arms: exact where none of them is bad
        values = np.concatenate((values, top - np.nansum(top, axis=0) / np.nansum(bottom, axis=0) * bottom), axis=1)
    classes, gaps, d = np.array(users.arms, dtype=object), np.isnan(values).any(axis=0), len(users.metrics)
    contrasts = contrasts_of(classes, tuple(sizes.tolist()), users.arms[0])
    parts = []
    for missing, those in (("omit", tested & gaps), ("raise", tested & ~gaps)):  # where bad users may have been gaps
        if (at := np.flatnonzero(those)).size:
            own = replace(question, missing=missing, level=question.level * at.size / np.count_nonzero(tested))
            table = Table(Dense(values if at.size == d else values.T[at].T), as_names([users.metrics[j] for j in at]))
            parts.append((at, decide_all(Design(table, classes, users.arm, contrasts, own, n_jobs=n_jobs))))
    ratio = np.arange(d) >= len(users.names)

    def decided(bad: Sequence[int]) -> FloatArray:
        """Return signs, p-values and the shares of bots up to which they hold."""
        found = np.stack([np.full((len(contrasts), d), value) for value in (0.0, 1.0, np.nan)])
        for at, groups in parts:
            decision = groups.decision.at(tuple(BadRows(bad[0], bad[c.label]) for c in contrasts))
            shape = (len(contrasts), at.size)
            found[0][:, at] = np.sign([groups.strength(c)[0] for c in range(len(contrasts))])
            found[1][:, at], found[2][:, at] = (
                x.reshape(shape) for x in (decision.p_values, decision.max_contamination)
            )
        found[1][:, ratio & any(bad)] = 1.0
        found[2][:, ratio] = 0.0
        chosen = np.zeros((len(contrasts), d), dtype=bool)
        chosen[:, tested] = shared(found[1][:, tested], primary[tested], share) <= question.level
        found[0][~chosen], found[2][~chosen] = 0.0, np.nan
        return found

    def at_share(share: float) -> list[int]:
        return [bad_rows(int(n), share) for n in sizes]

    named = question.shares and [bad_rows(int(n), question.shares[k > 0]) for k, n in enumerate(sizes)]
    told = decided(named or np.minimum(bad, (MOST_ALLOWED * sizes).astype(np.intp)).tolist())
    return told, {share: int(np.count_nonzero(decided(at_share(share))[0])) for share in USUAL}


def less_earlier(users: Users, kept: IntArray) -> tuple[Users, list[str]]:
    """Return users whose metrics are less what earlier values predict (CUPED), with the means that were measured."""
    if not users.before:
        return users, []
    before = users.before if len(users.before) > 1 else users.before[0]
    table, theta = covariates.adjusted(Table(Dense(users.values), as_names(users.names)), before, called="pre")
    those = np.flatnonzero(theta)
    if not those.size:
        return users, ["values from before say too little of any metric: none was adjusted for them"]
    values, own = users.values.copy(order="F"), np.asarray(table.source.take(those))
    with np.errstate(invalid="ignore"):
        spread = np.nanvar(own[kept], axis=0) / np.nanvar(values[kept][:, those], axis=0)
        values[:, those] = own + np.nanmean(values[kept][:, those], axis=0) - np.nanmean(own[kept], axis=0)
    said = [
        f"{pluralize(those.size, 'metric')} adjusted for values from before (CUPED), which takes "
        f"{1 - np.median(spread):.0%} off the variance: {list_names([users.names[j] for j in those])}; these values "
        "must be from before anyone saw an arm"
    ]
    if len(users.before) == 1:
        said.append(
            "bots that know their arm can move what is taken off: certificates of these metrics assume that they did "
            'not. Two stretches from before, pre=("_older", "_newer"), leave them no way'
        )
    return replace(users, values=values), said


def mismatch(users: Users, shares: Mapping[str, float] | Sequence[float] | None) -> tuple[float, FloatArray]:
    """Return the p-value of the sizes of the arms (χ²), and the sizes that were expected; equal ones by default."""
    from scipy.special import chdtrc

    sizes = np.bincount(users.arm, minlength=len(users.arms)).astype(np.float64)
    planned = np.ones(sizes.size)
    if shares is not None:
        given = shares if isinstance(shares, Mapping) else dict(zip(users.arms, shares, strict=False))
        planned = np.array([float(given.get(arm, 0)) for arm in users.arms])
        if not (planned > 0).all() or len(given) != sizes.size:
            raise InputError("shares", f"have a positive number for each of {list_names(users.arms)}", repr(shares))
    expected = sizes.sum() * planned / planned.sum()
    return float(chdtrc(sizes.size - 1, float(np.sum((sizes - expected) ** 2 / expected)))), expected


# Before there are data.


class Metric(NamedTuple):
    """What a plan takes to know of a metric and of the lift that is to be found."""

    gap: float
    """The difference of means, and the variances of both arms, added up."""
    variance: float
    moved: float
    """What ranks see of it, and their variance."""
    rank_variance: float

    @classmethod
    def of_share(cls, share: float, lift: float) -> Metric:
        """Return that of a conversion: bots in one arm all convert, or none of those in the other."""
        gap, spread = share * lift, share * (1 - share) + share * (1 + lift) * (1 - share * (1 + lift))
        return cls(gap, spread, gap, spread)

    @classmethod
    def of_values(cls, values: FloatArray, lift: float) -> Metric:
        """Return that of a metric by the values of users: ranks see how many pairs it turns round."""
        x = np.sort(values[~np.isnan(values)])
        if np.isin(x, (0, 1)).all():
            return cls.of_share(float(x.mean()), lift)
        lifted, up = x * (1 + lift), np.zeros(x.size)
        if (x == np.rint(x)).all():  # numbers of things stay whole: some get one more
            lifted, up = np.floor(lifted), lifted - np.floor(lifted)
        larger = [np.searchsorted(x, lifted + more, side) for more in (0, 1) for side in ("left", "right")]
        won = ((1 - up) * (larger[0] + larger[1]) + up * (larger[2] + larger[3])).mean() / (2 * x.size)
        ties = (np.unique(x, return_counts=True)[1] / x.size) ** 3
        return cls(x.mean() * lift, 2 * x.var(), won - 0.5, (1 - ties.sum()) / 6)


def users_to_find(metric: Metric, bots: float, *, error: float, power: float) -> float:
    """Return how many users an arm show a lift: by means if there are no bots, else by ranks whatever these do.

    Bots in both arms move what ranks see by twice their share: infinitely many users do not show what is smaller.
    """
    from scipy.special import ndtri

    z = float(ndtri(1 - error / 2) + ndtri(power))
    gap, variance = (metric.moved, metric.rank_variance) if bots else (metric.gap, metric.variance)
    room = abs(gap) - 2 * bots
    return float(np.ceil(z**2 * variance / room**2)) if room > 0 else np.inf


# As tables.


def words_of(effect: pd.DataFrame, moved: Flags, min_effect: float | None) -> Labels:
    """Return a word for each metric: flat where the whole interval of the lift is within what matters."""
    words = np.where(moved, np.where(effect["difference"] > 0, "up", "down"), "unclear").astype(object)
    if min_effect is not None:
        words[effect[["lift_low", "lift_high"]].abs().max(axis=1, skipna=False) <= 100 * min_effect] = "flat"
    return words


def within(users: Users, rows: IntArray, labels: Labels, name: str, told: Sequence[str], level: float) -> pd.DataFrame:
    """Return the lifts of some metrics among users of each label, all in one family."""
    import pandas as pd

    frames = []
    for label in sorted({label for label in labels[rows].tolist() if not is_missing(label)}, key=str):
        own = rows[labels[rows] == label]
        if (np.bincount(users.arm[own], minlength=len(users.arms)) >= FEWEST).all():
            frame = pd.concat(effects_of(users, own, level))
            frame.insert(0, name, str(label))
            frames.append(frame[frame["metric"].isin(told)])
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if len(found):
        found["p_adjusted"] = holm(found["p_value"].to_numpy())
        found["verdict"] = words_of(found, (found["p_adjusted"] <= level).to_numpy(), None)
    return found


def by_segment(
    users: Users, rows: IntArray, told: Sequence[str], level: float
) -> tuple[pd.DataFrame | None, list[str]]:
    """Return lifts within segments, and which of them differ between these (Cochran's Q, Holm's rule)."""
    from scipy.special import chdtrc

    if users.segment is None:
        return None, []
    found = within(users, rows, users.segment, "segment", told, level)
    if not len(found):
        return None, ["no segment has enough users of each arm and a metric to tell of"]
    names, p = [], []
    for (arm, metric), own in found.groupby(["arm", "metric"], sort=False):
        ratio, weight = own["_ratio"].to_numpy(), own["_error"].to_numpy() ** -2.0
        names.append(f"{metric} ({arm})")
        p.append(float(chdtrc(max(1, len(own) - 1), np.sum(weight * (ratio - np.average(ratio, weights=weight)) ** 2))))
    differ = [name for name, one in zip(names, holm(np.nan_to_num(np.array(p), nan=1.0)), strict=True) if one <= level]
    said = (
        f"lifts differ between segments: {list_names(differ)}" if differ else "no lift clearly differs between segments"
    )
    return found.drop(columns=[*HIDDEN]), [said]
