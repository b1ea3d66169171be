"""From evidence to a support: p-values valid against any m replaced rows, and rules that share out the error.

With slack c every statistic is lowered by what c rows can move it. A p-value at slack m is the largest that any
replacement of m rows could have left, and what is selected at slack m + r stays selected whatever r more rows do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import namespace, on_device, on_host
from sparsemean._stats.nulls import SignTestNull, times
from sparsemean._util.records import NO_END, Era, Evidence, FloatArray, IntArray, Selection

if TYPE_CHECKING:
    from sparsemean._stats.device_search import DeviceSlackSearch

Flags = npt.NDArray[np.bool_]
AT_ONCE = 10_000
"""Pairs of feature and slack that are looked at in one go."""
FEW = 100_000
"""Features that are moved to the host rather than looked at in many small steps on a device."""
BELOW_ONE = float(np.nextafter(1.0, 0.0))
"""Features that do not reach it have p = 1: they need no look at their p-values."""
LOOKS = 200
"""Holm's thresholds are followed so far; what they have not settled then is searched for. Sixty were enough for
thousands of rows; with a million all were used."""


def p_at(evidence: Evidence, slacks: Any, features: IntArray | slice = slice(None)) -> FloatArray:
    """Return the p-values of every size at each number of bad rows in ``slacks``: (sizes, features, slacks)."""
    xp = namespace(evidence.statistic)
    parts = zip(evidence.statistic, evidence.nulls, evidence.moves, strict=True)
    c = xp.asarray(slacks)
    return xp.stack(  # type: ignore[no-any-return]
        [null.p_values(stat[features, np.newaxis] - c * move, features) for stat, null, move in parts]
    )


def combined(evidence: Evidence, slacks: Any, features: IntArray | slice = slice(None)) -> FloatArray:
    """Return the p-values of features, (features, slacks): sizes that can reject share the error (Bonferroni).

    It is the largest for that or any smaller number of bad rows, as those sizes become fewer.
    """
    return _largest(evidence, slacks, _by_era(evidence, slacks, features))


Reached: TypeAlias = tuple[int, tuple[int, ...], Any]
"""Of an era: its first slack, the sizes that can reject, and p-values of all sizes, see `p_at`, up to its end."""


def _by_era(evidence: Evidence, slacks: Any, features: IntArray | slice = slice(None)) -> Iterator[Reached]:
    """Yield the eras that any of the ``slacks`` has reached."""
    first = -NO_END
    for last, places in evidence.looks():
        if not np.any(np.asarray(slacks) >= first):
            break
        yield first, places, p_at(evidence, np.minimum(slacks, last), features)
        first = last + 1


def _largest(evidence: Evidence, slacks: Any, eras: Iterable[Reached]) -> FloatArray:
    """Return the largest p-values of the eras that each of the ``slacks`` has reached."""
    xp, out = namespace(evidence.statistic), None
    for first, places, of_sizes in eras:
        p = of_sizes if len(places) == len(of_sizes) else of_sizes[list(places)]
        p = times(p.min(axis=0), evidence.factor(len(places)))
        out = p if out is None else xp.where(xp.asarray(np.asarray(slacks) >= first), xp.maximum(out, p), out)
    assert out is not None
    return np.asarray(out) if xp is np else out


@dataclass(frozen=True, slots=True)
class Holm:
    """Reject p_(k) ≤ level/(d − k + 1) step by step: family-wise error at most ``level``, under any dependence."""

    level: float

    def __call__(self, p: FloatArray, total: int, sure: int) -> Flags:
        """Flag what is rejected of each column of ``p``."""

        def count(ordered: FloatArray) -> IntArray:
            ranks = np.arange(ordered.shape[0])[:, np.newaxis]
            passed = ordered <= self.level / (total - sure - ranks)
            return np.asarray(np.logical_and.accumulate(passed).sum(axis=0))

        return _smallest(p, self.level, count)


@dataclass(frozen=True, slots=True)
class BenjaminiHochberg:
    """Reject up to the largest k with p_(k) ≤ k·level/d."""

    level: float

    def __call__(self, p: FloatArray, total: int, sure: int) -> Flags:
        """Flag what is rejected of each column of ``p``."""

        def count(ordered: FloatArray) -> IntArray:
            ranks = np.arange(1, ordered.shape[0] + 1)[:, np.newaxis]
            return np.asarray(np.max(ranks * (ordered <= (sure + ranks) * self.level / total), axis=0, initial=0))

        return _smallest(p, self.level, count)


Rule = Holm | BenjaminiHochberg
"""(p of features × slacks, number of hypotheses, number of others known to be rejected) → which are rejected."""


def _smallest(p: FloatArray, level: float, count: Callable[[FloatArray], IntArray]) -> Flags:
    """Flag the smallest p-values of each column, as many as ``count`` says of them in order.

    No rule at ``level`` rejects a larger p, and under either rule equal ones are rejected together or not at all.
    """
    flags = np.zeros(p.shape, dtype=bool)
    candidates = np.flatnonzero((p <= level).any(axis=1))
    if candidates.size:
        chosen = p[candidates]
        ordered = np.sort(chosen, axis=0)
        rejected = count(ordered)
        last = np.take_along_axis(ordered, np.maximum(rejected - 1, 0)[np.newaxis], axis=0)
        flags[candidates] = (chosen <= last) & (rejected > 0)
    return flags


def rule_of(selection: str, level: float, d: int) -> Rule:
    """Return the rule named ``selection``; the paper's own support is judged by Holm."""
    if selection == "fdr":
        return BenjaminiHochberg(level)
    if selection == "fdr_by":
        return BenjaminiHochberg(level / harmonic(d))
    return Holm(level)


def harmonic(d: int) -> float:
    """Return 1 + 1/2 + … + 1/d."""
    return float(np.sum(1.0 / np.arange(1, d + 1)))


def select(evidence: Evidence, *, selection: str, level: float, bad_rows: int, n_rows: int) -> Selection:
    """Select features at slack ``bad_rows`` and say how many bad rows each would survive."""
    xp, d = namespace(evidence.statistic), evidence.n_features
    rule = rule_of(selection, level, d)
    with_below = on_device(evidence.statistic) and isinstance(rule, Holm)
    looks = _looks(evidence, -n_rows - bad_rows - 1 if with_below else -1, n_rows // 2)
    alive, some = looks.alive(BELOW_ONE, bad_rows, FEW)  # p and best of all others are 1 and the first size
    if isinstance(rule, Holm) and not isinstance(looks, SlackSearch):
        looks.queue(rule.level, n_rows // 2, busy=True)  # with p-values
    eras = list(_by_era(some, [bad_rows]))
    p = _largest(some, [bad_rows], eras)[:, 0]
    numbers, sizes = (p, *adjust(p, d, by=selection == "fdr_by")), _best_size(eras[-1])
    values, best = xp.ones((3, d)), xp.zeros(d, dtype=np.intp)
    if on_device(values) and not on_device(alive):
        from sparsemean._kernels import gpu

        gpu.put(values, best, alive, numbers, sizes)
    else:
        values[:, alive], best[alive] = xp.stack(numbers), sizes
    if isinstance(rule, Holm):
        below = _step_down(looks, rule, n_rows // 2)
        slack = xp.maximum(below, -1) if with_below else below
    else:
        slack = _searched(evidence, rule, 0, n_rows // 2)
    return Selection(
        support=xp.flatnonzero(slack >= bad_rows),
        p_values=values[0],
        p_adjusted=values[1],
        q_values=values[2],
        best=best,
        last_slack=slack,
        below=below if with_below else None,
    )


def best_size(evidence: Evidence, bad_rows: int) -> IntArray:
    """Return the first size, of those that can reject, at which each feature has its smallest p-value."""
    *_, last = _by_era(evidence, [bad_rows])
    return _best_size(last)


def _best_size(era: Reached) -> IntArray:
    """Return the same of the era that the bad rows have reached."""
    _, places, p = era
    p, xp = p[..., 0], namespace(p)
    least, best = p[places[0]], xp.full(p.shape[1], places[0], dtype=np.intp)
    for place in places[1:]:
        best = xp.where(p[place] < least, place, best)
        least = xp.minimum(least, p[place])
    return best  # type: ignore[no-any-return]


def adjust(p: FloatArray, d: int, *, by: bool, many: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return Holm's adjusted p-values, and the q-values of Benjamini and Hochberg (or Yekutieli).

    The p-values are all those below 1 of d hypotheses, or each stands for as many as ``many`` says. Equal ones have
    equal answers: what the first of them in order has under Holm, the last under the other.
    """
    if not p.size:
        return p, p
    xp = namespace(p)
    values, back, counts = xp.unique(p, return_inverse=True, return_counts=True)
    value, count = on_host((values, counts))
    if many is not None:
        count = np.bincount(back, weights=many).astype(np.intp)
    last = np.cumsum(count)
    first = last - count + 1
    scale = harmonic(d) if by else 1.0
    adjusted = np.minimum(1.0, np.maximum.accumulate((d + 1 - first) * value))
    q = np.minimum(1.0, np.minimum.accumulate((scale * d / last * value)[::-1])[::-1])
    return xp.asarray(adjusted)[back], xp.asarray(q)[back]


def by_holm(selection: Selection, level: float) -> IntArray:
    """Return what Holm's rule selects: rows are judged by that, and look alike whatever the rule of the fit."""
    adjusted = selection.p_adjusted
    return on_host(namespace(adjusted).flatnonzero(adjusted <= level))


def max_bad_rows(evidence: Evidence, rule: Rule, *, low: int, high: int, features: IntArray | None = None) -> IntArray:
    """Return for each feature the largest slack in low … high at which it is selected, low − 1 if there is none.

    Where ``features`` are given only they are asked for, and all others known to be selected at all these slacks. What
    is selected at a slack is selected at every smaller one.
    """
    sure = 0 if features is None else evidence.n_features - int(features.size)
    if isinstance(rule, Holm):
        return _step_down(_looks(evidence, low - 1, high), rule, high, sure)
    return _searched(evidence, rule, low, high, features, sure)


def _step_down(looks: SlackSearch | DeviceSlackSearch, rule: Holm, high: int, sure: int = 0) -> IntArray:
    """Find the last slacks under Holm from the statistics alone.

    At slack c Holm rejects F = #{p ≤ level/(d − R)} features, R the smallest with F ≤ R. A feature has p ≤ t up to a
    slack c(t) that follows from its statistic and the threshold of t, which changes in steps: all slacks at which F is
    too small to bring the next step are settled by one look at the features, and the next look is at the F of the
    largest slack that is not.
    """
    if not isinstance(looks, SlackSearch):
        return looks.step_down(rule.level, high, sure)  # type: ignore[no-any-return]
    d, rejected = looks.evidence.n_features, sure
    for _ in range(LOOKS):
        settled = fewer_than(looks.raise_to(rule.level / (d - rejected), high), rule.level, d)
        if settled >= d:
            return looks.slack.astype(np.intp)  # type: ignore[no-any-return]
        high, rejected = looks.reached_by_more(settled)
        if high == looks.low or rejected == d:
            return looks.slack.astype(np.intp)  # type: ignore[no-any-return]
    xp = namespace(looks.slack)
    rest = xp.flatnonzero(looks.slack < high)
    found = _searched(looks.evidence, rule, looks.low + 1, high, rest, d - int(rest.size))
    return xp.maximum(looks.slack, found)  # type: ignore[no-any-return]


def _looks(evidence: Evidence, low: int, high: int) -> SlackSearch | DeviceSlackSearch:
    """Return what finds slacks from ``low`` to ``high``: on a device, for sign tests, in few steps."""
    signs = all(isinstance(null, SignTestNull) for null in evidence.nulls)
    if on_device(evidence.statistic) and signs:
        from sparsemean._stats.device_search import DeviceSlackSearch

        return DeviceSlackSearch(evidence, low, high)
    from sparsemean._kernels import compiling

    few_slacks = high - low <= evidence.n_features
    if signs and few_slacks and evidence.statistic.dtype == np.int32 and not compiling.plainly(evidence.statistic.size):
        from sparsemean._stats.compiled_search import CompiledSlackSearch

        return CompiledSlackSearch(evidence, low, high)
    return SlackSearch(evidence, low)


class SlackSearch:
    """The largest slack at which each feature's p-value has been small enough in any look so far."""

    def __init__(self, evidence: Evidence, low: int) -> None:
        self.evidence, self.low = evidence, low
        self.slack: Any = namespace(evidence.statistic).full(evidence.n_features, low, dtype=np.int32)

    def reaching(self, error: float, slack: int) -> IntArray:
        """Return the features whose combined p-value is at most ``error``, below 1, at ``slack``."""
        found, before = True, -NO_END
        for (last, _), (room, _) in zip(self.evidence.looks(), self._rooms(error), strict=True):
            if slack > before:
                found = found & (room >= min(slack, last))
            before = last
        return namespace(self.evidence.statistic).flatnonzero(found)  # type: ignore[no-any-return]

    def alive(self, error: float, slack: int, few: int) -> tuple[IntArray, Evidence]:
        """Return the same with the evidence of these features."""
        return few_here(self.evidence, self.reaching(error, slack), few)

    def raise_to(self, error: float, high: int) -> float:
        """Raise slacks to the largest, up to ``high``, at which p is ``error`` or less.

        Return the next larger error for which that of any feature may be larger.
        """
        xp, larger, first = namespace(self.evidence.statistic), np.inf, -NO_END
        alive: Any = True
        for (last, _), (room, next_larger) in zip(self.evidence.looks(), self._rooms(error), strict=True):
            reached = xp.minimum(room, min(last, high))
            reached = xp.where(alive & (reached >= first), reached, self.low)
            self.slack = xp.maximum(self.slack, reached.astype(np.int32, copy=False))
            larger, alive, first = min(larger, next_larger), alive & (room >= last), last + 1
        return larger

    def _rooms(self, error: float) -> Iterator[tuple[Any, float]]:
        """Yield, of each era, the bad rows up to which p would be ``error`` or less, and the next error asking less."""
        evidence = self.evidence
        xp = namespace(evidence.statistic)
        for _, places in evidence.looks():
            most, larger, factor = None, np.inf, evidence.factor(len(places))
            for place in places:
                asked = evidence.nulls[place].threshold(error, factor)
                room, move = evidence.statistic[place] - asked.statistic, evidence.moves[place]
                if room.dtype.kind == "f" or move != 1:
                    room = xp.maximum(-NO_END, xp.floor(room / move))
                most, larger = room if most is None else xp.maximum(most, room), min(larger, asked.larger)
            yield most, larger

    def reached_by_more(self, than: int) -> tuple[int, int]:
        """Return the largest slack that more ``than`` so many features have reached, and how many have."""
        xp = namespace(self.slack)
        slack = int(xp.partition(self.slack, self.slack.size - 1 - than)[-1 - than])
        return slack, int(xp.count_nonzero(self.slack >= slack))


def few_here(evidence: Evidence, features: IntArray, few: int) -> tuple[IntArray, Evidence]:
    """Return some features and their evidence, on the host if they are few."""
    some = features, evidence.of(features)
    return on_host(some) if features.size <= few else some


def fewer_than(error: float, level: float, d: int) -> int:
    """Return the largest R with level/(d − R) < error, d if all are."""
    if level < error:
        return d
    rejected = max(0, d - int(level / error) - 2)
    while level / (d - rejected - 1) < error:
        rejected += 1
    return rejected


def _searched(
    evidence: Evidence, rule: Rule, low: int, high: int, features: IntArray | None = None, sure: int = 0
) -> IntArray:
    """Find the last slacks by halving, on the host."""
    if on_device(evidence.statistic):
        found = _searched(on_host(evidence), rule, low, high, on_host(features), sure)
        return namespace(evidence.statistic).asarray(found)  # type: ignore[no-any-return]
    if features is None:
        features = SlackSearch(evidence, low - 1).reaching(rule.level, low)
    answer = np.full(evidence.n_features, low - 1, dtype=np.intp)
    answer[features] = halved(
        lambda slacks, group: combined(evidence, slacks, features[group]),
        rule, (low, high), n_features=features.size, n_hypotheses=evidence.n_features, sure=sure,
    )  # fmt: skip
    return answer


def halved(
    p: Callable[[IntArray, IntArray], FloatArray],
    rule: Rule,
    between: tuple[int, int],
    *,
    n_features: int,
    n_hypotheses: int,
    sure: int = 0,
    at_once: int = AT_ONCE,
) -> IntArray:
    """Return the last slack of ``between`` at which each of some features is selected, one less than all if none.

    ``p(slacks, features)`` are their p-values; of the other hypotheses ``sure`` are known to be selected throughout and
    the rest not. Features and slacks are halved until they are few: those selected in the middle are sure when the
    lower half is searched, and gone when the upper half is.
    """
    low, high = between
    answer = np.full(n_features, low - 1, dtype=np.intp)
    todo = [(np.arange(n_features), low, high, sure)]
    while todo:
        group, first, last, others = todo.pop()
        if not group.size or last < first:
            continue
        if group.size * (last - first + 1) <= at_once:
            slacks = np.arange(first, last + 1)
            answer[group] = first - 1 + rule(p(slacks, group), n_hypotheses, others).sum(axis=1)
            continue
        middle = first if (first, last) == (low, high) else (first + last) // 2
        chosen = rule(p(np.array([middle]), group), n_hypotheses, others)[:, 0]
        answer[group[chosen]] = middle
        todo.append((group[chosen], middle + 1, last, others))
        todo.append((group[~chosen], first, middle - 1, others + int(chosen.sum())))
    return answer


def radius(evidence: Evidence, chosen: Selection, rule: Rule, *, bad_rows: int, n_rows: int) -> IntArray:
    """Return the number of rows that must be replaced before a feature can change sides, a guaranteed lower bound.

    Rows that change do not change which sizes are looked at: those stay that are looked at for ``bad_rows``. For fewer
    there may be more of them, whose p-values count as well. None exceeds the smallest of the sizes that stay times the
    number of all, which a selected feature must not exceed; one that is not selected is held against those that stay.
    """
    xp, slack, looks = namespace(chosen.last_slack), chosen.last_slack, evidence.looks()
    if len(looks) > 1:
        places = next(places for last, places in looks if bad_rows <= last)
        stay, end = replace(evidence, eras=(Era(NO_END, places),)), looks[0].last
        if chosen.below is not None and bad_rows <= end:  # the same p-values up to there: only what is left is searched
            beyond = max_bad_rows(stay, rule, low=end + 1, high=n_rows // 2)
            return _distances(chosen.below, bad_rows, beyond, end)
        slack = max_bad_rows(stay, rule, low=-n_rows - bad_rows, high=n_rows // 2)
        selected = chosen.last_slack >= bad_rows
        if len(places) < len(looks[0].places):
            shared = replace(stay, sharing=len(looks[0].places))
            sure = max_bad_rows(shared, rule, low=bad_rows, high=n_rows // 2)
            slack = xp.where(selected, xp.maximum(sure, bad_rows), slack)
        slack = xp.where(selected, slack, xp.minimum(slack, bad_rows - 1))
    elif chosen.below is not None:
        slack = chosen.below
    elif (never := xp.flatnonzero(slack < 0)).size:
        below = max_bad_rows(evidence, rule, low=-n_rows - bad_rows, high=-1, features=never)
        slack = xp.where(slack < 0, below, slack)
    return _distances(slack, bad_rows)


def _distances(slack: IntArray, bad_rows: int, beyond: IntArray | None = None, end: int = 0) -> IntArray:
    """Return how many rows a feature is from the other side: it is selected up to ``slack``, ``beyond`` from an end."""
    if on_device(slack):
        from sparsemean._kernels import gpu

        return gpu.distances(slack, bad_rows, beyond, end)  # type: ignore[no-any-return]
    slack = slack if beyond is None else np.where(slack >= end, beyond, slack)
    return np.where(slack >= bad_rows, slack - bad_rows + 1, bad_rows - slack)


def shares(slack: IntArray, n_rows: int) -> FloatArray:
    """Return the last slacks as shares of all rows; NaN for a feature that is never selected."""
    if on_device(slack):
        from sparsemean._kernels import gpu

        return gpu.shares(slack, n_rows)  # type: ignore[no-any-return]
    return np.where(slack < 0, np.nan, slack / n_rows)


def by_paper(chosen: Selection, mu: FloatArray, *, alpha: float, min_selected: int) -> Selection:
    """Put the paper's support {i : |μ̂_i| ≥ α} in place; where fewer than ``min_selected`` pass, the largest |μ̂_i|."""
    xp, size = namespace(mu), abs(mu)
    passed = xp.flatnonzero(size >= alpha)
    if passed.size >= min_selected:
        return replace(chosen, support=passed)
    largest = xp.sort(xp.argsort(-size, kind="stable")[:min_selected])
    return replace(chosen, support=largest, filled_up=min_selected - int(passed.size))
