"""Users who look like bots: clumps in the tails of several metrics at once, found in all arms together.

People thin out in the tail of a metric: among the logarithms of its values no window has more users than one further
in. A script does about the same each time. Where, beyond a dip, a window holds more users again than chance explains,
these are a clump of that metric; users in clumps of two metrics, or in one of how active users are in their two, three
or five largest metrics, are suspects. Arms and earlier values play no part, so the same users are found in every
comparison. Too few for a clump (some 30) are found by the gap between them and all others, see `score_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsemean._stats.arrays import medians, some_rows
from sparsemean._stats.row_scores import FEW, TOGETHER, score_rows, screening_columns
from sparsemean._util.records import FloatArray, IntArray

SAMPLED = 50_000
"""Users among whom clumps are looked for, evenly among all; then all users are held against them."""
BIN, WIDTHS = 0.05, (2, 4, 8, 16)
"""Of logarithms: what is counted together, and windows in so many of these."""
ERROR = 0.01
"""Probability of a clump where counts do not rise."""
RISE, MORE = 1.25, 10
"""A clump has so many times as many users as the dip before it, and so many more."""
DIP, DIP_OF_SCORES = 0.1, 0.03
"""To which share of the crowd counts must have fallen before."""
EDGE = 0.1
"""Share of its densest window at which a clump ends."""
METRICS, LEAST, ROUNDS = 2, 5, 4
"""Metrics in whose clumps a suspect is, suspects that are worth another look, and looks."""
FEWEST, TAIL = 200, 60
"""Users with a value above 0, and with one in the upper part, without whom there is nothing to see."""
BODY, WIDEST = 0.2, 4000
"""Share of those users who are left out below, and bins of all others, at most."""
CAPPED = 5
"""Users at the largest value from which on it is a ceiling, and no clump."""
LARGEST, HALF, ONE_VALUE = 0.2, 0.5, 0.5
"""Share of all users, of those above 0, and of the same value within it, beyond which nothing is a clump."""
SCORES, WIDE = (2, 3, 5), 0.8
"""How active users are: their so many-th largest metric, in units of this quantile over the median."""
NOWHERE = -50.0
TIED_AMONG = 2000
"""Values that tell whether many are equal."""
SHARED = 0.5
"""Share of the smaller of two windows that lies in the larger one where they are one clump."""


@dataclass(frozen=True, slots=True)
class Clump:
    """Users who are alike and unlike all others, and the metrics that show it, the most telling first."""

    users: IntArray
    metrics: IntArray


@dataclass(frozen=True, slots=True)
class Window:
    """Where the values of a metric clump, or where, for ``scale``, a score does: the ``at``-th largest of a user."""

    at: int
    low: float
    high: float
    scale: Scale | None = None

    def holds(self, values: FloatArray) -> np.ndarray:
        """Say which users are within."""
        x = values[:, self.at] if self.scale is None else self.scale.score(values, self.at)
        return (x >= self.low) & (x <= self.high)


@dataclass(frozen=True, slots=True)
class Scale:
    """Logarithms of metrics that most users have: where the middle is, and what is a unit."""

    columns: IntArray
    middle: FloatArray
    unit: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Scale:
        """Return that of users who are no suspects yet."""
        found = []
        for column, x in enumerate(values.T):
            positive = x[x > 0]
            if positive.size >= max(FEWEST, HALF * x.size):
                low, high = np.quantile(positive, (0.5, WIDE), method="lower").tolist()
                found.append((column, np.log(low), np.log((high if high > low else low + 1) / low)))
        columns, middle, unit = np.array(found).reshape(-1, 3).T
        return cls(columns.astype(np.intp), middle, unit)

    def score(self, values: FloatArray, k: int) -> FloatArray:
        """Return the k-th largest metric of every user, in the units that metrics have in the middle."""
        rng, z = np.random.default_rng(k), np.full((len(values), self.columns.size), NOWHERE, dtype=np.float32)
        for at, column in enumerate(self.columns.tolist()):
            x = values[:, column]
            there = np.flatnonzero(x > 0)
            z[there, at] = (logarithms(x[there], rng) - self.middle[at]) / self.unit[at]
        largest = np.partition(z, -k, axis=1)[:, -k].astype(np.float64)
        return np.where(largest > NOWHERE, np.exp(np.clip(largest * np.median(self.unit), -600, 600)), 0.0)


def logarithms(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return logarithms of positive values; those that many share are spread evenly between their neighbours.

    Whole numbers, and amounts that were rounded, would leave bins empty beside full ones.
    """
    some = x[:: 1 + x.size // TIED_AMONG]
    if np.unique(some).size > HALF * some.size:
        return np.asarray(np.log(x))
    value, at, count = np.unique(x, return_inverse=True, return_counts=True)
    gap = np.diff(value, prepend=0.0, append=2 * value[-1]) / 2
    whole = np.minimum(gap, 0.5) if (value == np.rint(value)).all() else np.zeros_like(gap)
    many = count >= CAPPED
    low = np.log(value - np.where(many, gap[:-1], whole[:-1]))
    high = np.log(value + np.where(many, gap[1:], whole[1:]))
    return np.asarray(low[at] + (high - low)[at] * rng.random(x.size))


def window_of(x: FloatArray, error: float, rng: np.random.Generator, dip: float = DIP) -> tuple[float, float] | None:
    """Return where the surest clump in the upper tail of some values begins and ends, None where there is none.

    Of all pairs of windows of equal width those count of which the inner one, as empty as any on the way, has fallen
    to a share ``dip`` of the crowd. Were the outer one no fuller than `RISE` times that, the number of users in it,
    given both, would be binomial; ``error`` is shared by all pairs.
    """
    from scipy.special import bdtrc

    positive = x[x > 0]
    if positive.size < FEWEST:
        return None
    lowest, half = np.quantile(positive, (BODY, 0.5), method="lower").tolist()
    top = positive[positive >= lowest]
    top = top[top < top.max()] if np.count_nonzero(top == top.max()) >= CAPPED else top
    if top.size < TAIL:
        return None
    y = logarithms(top, rng)
    first = float(y.min())
    bins = ((y - first) / BIN).astype(np.int64)
    if bins.max() > WIDEST:
        return None
    counts = np.bincount(bins, minlength=int(bins.max()) + 1 + 2 * max(WIDTHS))
    total = np.concatenate(([0], np.cumsum(counts)))
    # The crowd is in the lower half: bots may be as many as the users above it.
    middle, smooth = max(0, int((np.log(half) - first) / BIN)), total[8:] - total[:-8]
    crowd = int(np.argmax(smooth[: middle - 3])) + 4 if middle > 8 else 0
    pairs, found = 0, []
    for width in WIDTHS:
        inside = (total[width:] - total[:-width])[crowd:]
        if inside.size <= width:
            continue
        least, outer = np.minimum.accumulate(inside)[:-width], inside[width:]
        most = np.maximum.accumulate(inside)[:-width]
        pairs += outer.size * (outer.size + 1) // 2
        at = np.flatnonzero((outer >= RISE * least + MORE) & (least <= dip * most))
        if at.size:
            chance = bdtrc(outer[at] - 1, least[at] + outer[at], RISE / (1 + RISE))
            evidence = -np.log10(np.maximum(chance, 1e-300)) + (outer[at] - least[at]) * 1e-9
            best = int(np.argmax(evidence))
            found.append((float(evidence[best]), width, int(at[best]) + width, int(least[at[best]]), inside))
    if not found or max(found, key=lambda each: each[0])[0] <= -np.log10(error / max(1, pairs)):
        return None
    _, width, at_peak, before, inside = max(found, key=lambda each: each[0])
    below = np.flatnonzero(inside[:at_peak] <= max(EDGE * inside[at_peak], 2 * before))
    above = np.flatnonzero(inside[at_peak:] <= EDGE * inside[at_peak])
    start = int(below[-1]) + 1 if below.size else 0
    end = at_peak + int(above[0]) - 1 if above.size else inside.size - 1
    low, high = np.exp(first + (crowd + np.array([start, end + width])) * BIN).tolist()
    within = top[(top >= low) & (top <= high)]
    alike = np.unique(within, return_counts=True)[1].max(initial=0) > ONE_VALUE * within.size
    return None if within.size > min(LARGEST * x.size, HALF * positive.size) or alike else (low, high)


def _looks(values: FloatArray) -> list[list[Window]]:
    """Return the windows of every look: clumps are looked for again among the users that are left."""
    rng, looks = np.random.default_rng(0), list[list[Window]]()
    for _ in range(ROUNDS):
        d = values.shape[1]
        found = [(j, window_of(np.ascontiguousarray(values[:, j]), ERROR / d, rng)) for j in range(d)]
        windows = [Window(j, *ends) for j, ends in found if ends is not None]
        caught, _ = _caught(values, windows)
        if np.count_nonzero(caught) < LEAST:  # scores show what no metric does, and reach further into people
            scale = Scale.of(values)
            for k in SCORES:
                score = scale.score(values, k) if k <= scale.columns.size else np.zeros(0)
                if ends := window_of(score, ERROR / len(SCORES), rng, DIP_OF_SCORES):
                    windows.append(Window(k, *ends, scale))
            caught, _ = _caught(values, windows)
        if np.count_nonzero(caught) < LEAST:
            break
        looks.append(windows)
        values = values[~caught]
    return looks


def _caught(values: FloatArray, windows: Sequence[Window]) -> tuple[np.ndarray, np.ndarray]:
    """Say which users are suspects, and of each window which users it holds."""
    held = np.zeros((len(windows), len(values)), dtype=bool)
    for window, row in zip(windows, held, strict=True):
        row[:] = window.holds(values)
    single = np.array([window.scale is None for window in windows], dtype=bool)
    caught = held[~single].any(axis=0)
    if np.count_nonzero(single) >= METRICS:
        number = np.count_nonzero(held[single], axis=0)
        counts = np.bincount(number)[METRICS:]
        if counts.size:  # people in some clumps by chance are ever fewer: those in most of them come behind a dip
            peak = int(counts.argmax())
            caught |= number >= METRICS + peak - int(counts[peak::-1].argmin())
    return caught, held


def find_clumps(values: FloatArray) -> tuple[list[Clump], dict[str, IntArray]]:
    """Return clumps of users, the largest first, and those who are unusual in other ways, by what they show.

    Rows of ``values`` are users, columns are metrics; what is missing is NaN.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = rng.poisson(rng.gamma(0.8, 3, (4000, 1)) * rng.gamma(2, 0.5, (4000, 6))).astype(float)
    >>> people[:100, :3] = rng.poisson(120, (100, 3))
    >>> (clump,), _ = find_clumps(people)
    >>> clump.users.size, int(clump.users.max()), clump.metrics.tolist()
    (100, 99, [0, 1, 2])
    """
    n = len(values)
    looks = _looks(values[some_rows(n, 1, values=SAMPLED)])
    windows = [window for look in looks for window in look]
    caught, held = np.zeros(n, dtype=bool), np.zeros((0, n), dtype=bool)
    for look in looks:
        also, inside = _caught(values, look)
        caught, held = caught | also, np.concatenate((held, inside))
    clumps, users = list[Clump](), np.flatnonzero(caught)
    inside = held[:, users].astype(np.float32)
    group, belongs = _linked(inside), np.zeros((0, users.size))
    if users.size:
        belongs = np.stack([inside[group == each].sum(axis=0) for each in range(group.max() + 1)])
    home = belongs.argmax(axis=0) if users.size else users
    for each in np.unique(home).tolist():
        own = users[home == each]
        shown = [windows[k].at for k in np.flatnonzero(group == each) if windows[k].scale is None]
        shown = sorted(dict.fromkeys(shown), key=lambda j: -np.count_nonzero(held[:, own][_of(windows, j)].any(axis=0)))
        clumps.append(Clump(own, np.array(shown or _largest(values, own), dtype=np.intp)))
    columns = screening_columns(values.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        judged = score_rows(values[:, columns] - medians(values[:, columns]), features=columns)
    unusual = dict[str, list[int]]()
    for row, kind, why in zip(judged.suspects.tolist(), judged.kinds, judged.reasons, strict=True):
        if caught[row]:
            continue
        if kind != TOGETHER:
            unusual.setdefault(kind, []).append(row)
            continue
        same = [k for k, clump in enumerate(clumps) if 2 * np.isin(why, clump.metrics).sum() >= max(1, len(why))]
        if same:
            clumps[same[0]] = Clump(np.append(clumps[same[0]].users, row), clumps[same[0]].metrics)
        else:
            clumps.append(Clump(np.array([row]), np.array(why, dtype=np.intp)))
    clumps.sort(key=lambda clump: (-clump.users.size, clump.users.min()))
    return clumps, {kind: np.array(unusual.get(kind, []), dtype=np.intp) for kind in (FEW, *unusual)}


def _of(windows: Sequence[Window], column: int) -> list[int]:
    return [k for k, window in enumerate(windows) if window.scale is None and window.at == column]


def _linked(inside: FloatArray) -> IntArray:
    """Number windows, given which suspects lie in each: those that share most of theirs have one number."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    shared, sizes = inside @ inside.T, inside.sum(axis=1)
    near = shared >= SHARED * np.maximum(1, np.minimum.outer(sizes, sizes))
    return np.asarray(connected_components(csr_array(near), directed=False)[1]) if sizes.size else sizes.astype(np.intp)


def _largest(values: FloatArray, users: IntArray) -> IntArray:
    """Return the metrics in which users are largest, in medians of all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(medians(values[users]) / medians(values), nan=0.0)
    return np.argsort(-ratio, kind="stable")[: max(SCORES)]
