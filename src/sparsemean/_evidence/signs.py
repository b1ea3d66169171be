"""Statistics that every bad row lowers by no more than a fixed move: signs of bucket means, and influence sums.

With slack c every statistic is lowered by what c rows can move it: a p-value at slack m is the largest that any
replacement of m rows could have left. Bucket sizes share the error (Bonferroni) while they can still reject.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from sparsemean._stats.arrays import group_indices, namespace, near, on_device, on_host, present_sorted
from sparsemean._stats.arrays import place as device_of
from sparsemean._stats.decision import Allowed, Flags, OfRows, Rule, Stage, Stages, stages_up_to
from sparsemean._stats.nulls import (
    Null,
    SignTestNull,
    least_majorities,
    sign_test_stages,
    times,
)
from sparsemean._stats.planning import first_error
from sparsemean._util.plans import Plan, Side
from sparsemean._util.records import NO_END, CountArray, Counts, FloatArray, IntArray

FEW = 100_000
"""Features that are moved to the host rather than looked at in many small steps on a device."""
PLAIN = 10_000
"""Statistics up to which plain arrays are as fast as a compiled pass, which takes its time to begin."""
BELOW_ONE = float(np.nextafter(1.0, 0.0))
"""Features that do not reach it have p = 1: they need no look at their p-values."""
LEAST = 1e-290
"""p-values below this are looked at as logarithms."""


@dataclass(frozen=True, eq=False)
class SlackEvidence(OfRows):
    """Statistics that are large when a feature has a mean, their nulls, and what one replaced row can move.

    One row of ``statistic`` (and one null, one move) for each bucket size; twice as many for a smallest effect that
    matters, those above it first.
    """

    statistic: FloatArray | CountArray
    nulls: tuple[Null, ...]
    moves: tuple[float, ...]
    n_rows: int
    sides: int = 2
    """2: the p-values of the nulls are what they are; 1: half of them count, for one side."""
    stages: Stages = ()
    """Which statistics are looked at for how many bad rows; all for any number where it is not told."""
    alpha_shares: int = 0
    """How many share the error at least, looked at or not."""
    start: int = 0
    leaves_out_zeros: ClassVar[bool] = True
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False)
    """What was moved to the host last: those who ask for the same again need not wait for a device."""

    def __post_init__(self) -> None:
        if not self.stages:
            object.__setattr__(self, "stages", (Stage(NO_END, tuple(range(len(self.nulls)))),))

    @staticmethod
    def from_data(data: Any, counts: Counts) -> tuple[SlackEvidence, Any]:
        """Return the evidence of signs as a plan asks for it."""
        return beyond_effect(data, counts).staged(first_error(data.plan)), data

    @staticmethod
    def intervals(levels: list[FloatArray], wanted: Sequence[int], plan: Plan, *, error: float) -> FloatArray:
        """Return `all_sizes` of the wanted levels, of the side that is asked for."""
        side, used = plan.question.side, [levels[level] for level in wanted]
        return np.stack(side.interval(*all_sizes(used, error=error * 2 / side.number, bad_rows=plan.bad_rows)))

    @property
    def n_hypotheses(self) -> int:
        """Number of features."""
        return int(self.statistic.shape[1])

    @property
    def xp(self) -> ModuleType:
        """Where decisions lie: with the data."""
        return namespace(self.statistic)

    def staged(self, error: float) -> SlackEvidence:
        """Return the same of signs, where sizes are looked at as long as they can reject at ``error``."""
        numbers = [null.most for null in self.nulls if null.most is not None]
        return replace(self, stages=sign_test_stages(numbers, error=error, sides=self.sides))

    def factor(self, n_looked_at: int) -> float:
        """Return what the smallest of so many p-values is multiplied by."""
        return max(n_looked_at, self.alpha_shares) * self.sides / 2

    def of(self, features: IntArray) -> SlackEvidence:
        """Return the evidence of some features, where it lies."""
        nulls = tuple(null.of(features) for null in self.nulls)
        return replace(self, statistic=self.statistic[:, features], nulls=nulls)

    def to_host(self, features: IntArray) -> SlackEvidence:
        """Return the evidence of some features, on the host."""
        before, found = self.kept.get("some", (features[:0], None))
        at = np.minimum(np.searchsorted(before, features), before.size - 1)
        if found is None or features.size > before.size or not np.array_equal(before[at], features):
            at, found = np.arange(features.size), on_host(self.of(self.xp.asarray(features)))
            self.kept["some"] = features, found
        some = found.of(at)
        return replace(self, statistic=some.statistic, nulls=some.nulls)

    # p-values.

    def p_at(self, slacks: IntArray | int, features: IntArray | slice = slice(None)) -> FloatArray:
        """Return the p-values of every size, each feature at a slack of its own or all at one: (sizes, features)."""
        xp = namespace(self.statistic)
        parts = zip(self.statistic, self.nulls, self.moves, strict=True)
        return xp.stack(  # type: ignore[no-any-return]
            [null.p_values((of[features] - slacks * move)[:, np.newaxis], features)[:, 0] for of, null, move in parts]
        )

    def combined(self, slacks: IntArray | int, features: IntArray | slice = slice(None)) -> FloatArray:
        """Return the p-values of features: the largest for that or any smaller number of bad rows.

        As numbers grow, fewer sizes can reject and share the error.
        """
        xp, out, first = namespace(self.statistic), None, -NO_END
        for last, indices in self.stages:
            if not np.any(slacks >= first):
                break
            p = self.p_at(np.minimum(slacks, last), features)
            p = times((p if len(indices) == len(p) else p[list(indices)]).min(axis=0), self.factor(len(indices)))
            out = p if out is None else xp.where(slacks >= first, xp.maximum(out, p), out)
            first = last + 1
        return out  # type: ignore[return-value]

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the features whose p-value is below 1, or ``some``, on the host if they are few; p and log p."""
        features, of = self.candidates(allowed) if some is None else (some, self.to_host(some))
        slack = self.step_of(allowed)
        p = of.combined(slack)
        xp = namespace(p)
        with np.errstate(divide="ignore"):
            log_p = xp.log(p)
        if (far := np.flatnonzero(on_host(p) < LEAST)).size:
            log_p[far] = xp.asarray(of.to_host(far)._log_combined(slack))
        return features, p, log_p

    def _log_combined(self, slack: int) -> FloatArray:
        """Return log p of features so sure that p is next to no number any more, on the host."""
        out = np.full(self.n_hypotheses, -np.inf)
        for slack_there, indices in stages_up_to(self.stages, slack):
            logs = [self.nulls[k].log_p(self.statistic[k] - slack_there * self.moves[k]) for k in indices]
            out = np.maximum(out, np.min(logs, axis=0) + np.log(self.factor(len(indices))))
        return np.asarray(np.minimum(out, 0.0))

    def best_size(self, allowed: Allowed) -> tuple[IntArray, IntArray]:
        """Return features, and the first size, of those that can reject, at which each has its smallest p-value.

        Of features with p = 1 it is the first of all.
        """
        features, some = self.candidates(allowed)
        slack = self.step_of(allowed)
        indices = stages_up_to(self.stages, slack)[-1][1]
        p = some.p_at(slack)
        return features, namespace(p).asarray(indices)[p[list(indices)].argmin(axis=0)]

    # Which features have p-values small enough, and up to how many bad rows.

    def candidates(self, allowed: Allowed) -> tuple[IntArray, SlackEvidence]:
        """Return the features whose p-value is below 1 and their evidence, on the host if they are few."""
        if self._signs_there:
            before, found = self.kept.get("candidates", (None, None))
            if before != allowed:
                found = _reached_there(self, BELOW_ONE, self.step_of(allowed))
                self.kept["candidates"] = allowed, found
            return found  # type: ignore[no-any-return]
        features = self.reaching(BELOW_ONE, self.step_of(allowed))
        some = features, self.of(features)
        return on_host(some) if features.size <= FEW else some

    @property
    def _signs(self) -> bool:
        """Whether all statistics are numbers of signs."""
        return all(null.most is not None for null in self.nulls)

    @property
    def _signs_there(self) -> bool:
        """Whether they are, and lie on a device."""
        return on_device(self.statistic) and self._signs

    def reaching(self, error: float, slack: int) -> IntArray:
        """Return the features whose p-value is at most ``error``, below 1, at ``slack``."""
        from sparsemean._kernels.compiling import plainly

        if self._signs_there:
            return _reached_there(self, error, slack)[0]
        xp, many = namespace(self.statistic), self.statistic.size > PLAIN and not plainly(self.statistic.size)
        if xp is np and many and self._signs and self.statistic.dtype == np.int32:
            return _reached_compiled(self, error, slack)
        found: Flags | bool = True
        before = -NO_END
        for (last, _), margin in zip(self.stages, self._margins(error), strict=True):
            if slack > before:
                found = found & (margin >= min(slack, last))
            before = last
        return xp.flatnonzero(found)  # type: ignore[no-any-return]

    def _margins(self, error: float) -> Iterator[FloatArray]:
        """Yield, of each stage, the numbers of bad rows up to which p of features would be ``error`` or less."""
        xp = namespace(self.statistic)
        for _, indices in self.stages:
            margins, factor = [], self.factor(len(indices))
            for index in indices:
                margin, move = self.statistic[index] - self.nulls[index].threshold(error, factor), self.moves[index]
                if margin.dtype.kind == "f" or move != 1:
                    margin = xp.maximum(-NO_END, xp.floor(margin / move))
                margins.append(margin)
            yield reduce(xp.maximum, margins)

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad, from thresholds alone.

        Looks follow each other until as many features pass as the error of the look is made for.
        """
        found, passed = None, None
        while found is None or passed != found.size > 0:
            passed = None if found is None else int(found.size)
            found = self.reaching(rule.next_error(passed, self.n_hypotheses), 0)
        return on_host(found)

    def along(self, steps: IntArray, at: IntArray) -> FloatArray:
        """Return p of some features, each for so many bad rows."""
        return self.to_host(at).combined(self.start + steps)

    def beyond(self, allowed: Allowed) -> SlackEvidence:
        """Return what bounds p once further rows have been replaced: they do not change which sizes are looked at.

        Those stay that are looked at for ``allowed`` bad rows. For fewer there may be more, whose p-values count as
        well: none exceeds the smallest of the sizes that stay times the number of all.
        """
        start, shares = self.step_of(allowed), len(self.stages[0].indices)
        stages = (Stage(NO_END, stages_up_to(self.stages, start)[-1][1]),)
        out = replace(self, stages=stages, alpha_shares=shares, start=start)
        out.kept.update((name, kept) for name, kept in self.kept.items() if name == "some")
        return out

    def last(self, error: float, at: IntArray, above: IntArray | None = None) -> IntArray:  # noqa: ARG002
        """Return the largest number of bad rows with p ≤ ``error``."""
        some, most = self.to_host(at), self.n_rows // 2
        out, alive, first = np.full(at.size, -1), np.ones(at.size, dtype=bool), -NO_END
        for (last, _), margin in zip(some.stages, some._margins(error), strict=True):
            reached = np.minimum(margin, min(last, most)).astype(np.intp)
            out = np.where(alive & (reached >= first), np.maximum(out, reached), out)
            alive, first = alive & (margin >= last), last + 1
        return np.asarray(np.maximum(out - self.start, -1))


def of_signs(counts: Counts, n_rows: int, *, side: Side = Side.BOTH) -> SlackEvidence:
    """Return max(N₊, N₋) with its binomial null, for every size; one row can move one bucket.

    Of one side it is the number of signs of that side, and half of the p-value counts.
    """
    shared: dict[str, Any] = {"moves": (1.0,) * len(counts.n_buckets), "n_rows": n_rows, "sides": side.number}
    if on_device(counts.positive):
        from sparsemean._kernels import gpu

        statistic, nonzero, numbers = gpu.majorities(
            counts.positive, counts.negative, max(counts.n_buckets), sum(side.signs)
        )
        ends = [(int(each[0]), J) for each, J in zip(numbers, counts.n_buckets, strict=True)]
        return SlackEvidence(statistic, tuple(map(SignTestNull, nonzero, ends, numbers)), **shared)
    positive, negative = counts.positive, counts.negative
    nonzero = positive + negative
    fewest = nonzero.min(axis=1).tolist()
    return SlackEvidence(
        statistic=np.maximum(positive, negative) if side is Side.BOTH else side.pick(positive, positive, negative),
        nulls=tuple(map(SignTestNull, nonzero, zip(fewest, counts.n_buckets, strict=True))),
        **shared,
    )


def evidence_of(plan: Plan, counts: Counts) -> SlackEvidence:
    """Return the evidence of counts as a plan asks for it."""
    signs = of_signs(counts, plan.n_units, side=plan.question.side)
    return signs.staged(first_error(plan)) if plan.question.test == "buckets" else signs


def best_sizes(plan: Plan, counts: Counts, signs: SlackEvidence | None = None) -> IntArray:
    """Return the index of the bucket size at which signs of each feature show most, the first where none can reject.

    Ranks do not select by it. ``signs`` is the evidence of the counts, where it is there.
    """
    best = namespace(counts.positive).zeros(plan.n_features, dtype=np.intp)
    if len(plan.walk.bucket_sizes) > 1:
        features, at = (signs or evidence_of(plan, counts)).best_size((plan.bad,))
        best[near(best, features)] = near(best, at)
    return best  # type: ignore[no-any-return]


def strongest_signs(plan: Plan, counts: Counts, signs: SlackEvidence | None = None) -> tuple[FloatArray, IntArray]:
    """Return β₀ of every feature at the bucket size at which its signs show most, and that size."""
    sizes, best = plan.walk.bucket_sizes, best_sizes(plan, counts, signs)
    if on_device(best):
        from sparsemean._kernels import gpu

        return gpu.betas(counts, sizes, best)
    net, buckets = counts.positive[0].astype(np.int64) - counts.negative[0], counts.buckets(0)
    beta = net / np.maximum(buckets, 1)
    if (larger := np.flatnonzero(best)).size:
        size = best[larger]
        net = counts.positive[size, larger].astype(np.int64) - counts.negative[size, larger]
        everywhere = np.array(counts.n_buckets)[size] if counts.present is None else counts.present[size, larger]
        beta[larger] = net / np.maximum(everywhere, 1)
    return beta, np.array(sizes, dtype=np.intp)[best]


def beyond_effect(data: Any, counts: Counts) -> SlackEvidence:
    """Return the evidence of signs, of bucket means less the null value or beyond the smallest effect that matters."""
    plan, least = data.plan, data.plan.question.min_effect
    if not least:
        return of_signs(counts, plan.n_units, side=plan.question.side)
    parts = [
        of_signs(data.shifted(sign * least).count()[0], plan.n_units, side=Side.UP if sign > 0 else Side.DOWN)
        for sign in plan.question.side.signs
    ]
    return parts[0] if len(parts) == 1 else beside(*parts)


def beside(one: SlackEvidence, other: SlackEvidence) -> SlackEvidence:
    """Return the evidence of either."""
    statistic = namespace(one.statistic).concatenate((one.statistic, other.statistic))
    return replace(one, statistic=statistic, nulls=one.nulls + other.nulls, moves=one.moves + other.moves, stages=())


# Very many features: one compiled pass, or a kernel on a device.


def _reached_compiled(evidence: SlackEvidence, error: float, slack: int) -> IntArray:
    """Return what `SlackEvidence.reaching` does, by one pass over the features."""
    from sparsemean._kernels import loops

    nulls: Any = evidence.nulls
    ragged = np.zeros((len(nulls), evidence.n_hypotheses // loops.TILE + 1), dtype=bool)
    for of_size, null in zip(ragged, nulls, strict=True):
        if null.numbers.size > 1:
            of_size[np.flatnonzero(null.nonzero < null.most) // loops.TILE] = True
    some, looks = bool(ragged.any()), evidence.stages
    nonzero = np.stack([null.nonzero for null in nulls]) if some else np.empty((len(nulls), 0), np.int32)
    most = max(null.most for null in nulls) if some else -1
    asked = np.full((len(looks), len(nulls), most + 2), NO_END, dtype=np.int32)
    for of_stage, (_, indices) in zip(asked, looks, strict=True):
        for index in indices:
            least = least_majorities(nulls[index].numbers, error, evidence.factor(len(indices)))
            of_stage[index, -1] = least[-1]
            if some:
                of_stage[index, nulls[index].numbers] = least
    found, lasts = np.empty(evidence.n_hypotheses, dtype=bool), np.array([last for last, _ in looks])
    loops.reaching(evidence.statistic, nonzero, ragged, asked, lasts, slack, found)
    return np.flatnonzero(found)


Numbers = tuple[tuple[int, ...], ...]
"""Numbers of signs that occur, rising, of each size."""
Factored = tuple[tuple[int, tuple[int, ...], float], ...]
"""Stages, each with what the smallest of its p-values is multiplied by."""


def _reached_there(evidence: SlackEvidence, error: float, slack: int) -> tuple[IntArray, SlackEvidence]:
    """Return the features that reach an error, in order, and their evidence, on the host if they are few."""
    from sparsemean._kernels import gpu

    nulls: Any = evidence.nulls
    numbers: Numbers = tuple(tuple(null.numbers.tolist()) for null in nulls)
    looks = tuple((last, indices, evidence.factor(len(indices))) for last, indices in evidence.stages)
    device = device_of(evidence.statistic) or 0
    asked, (index, lasts) = _asked_there(numbers, looks, error, device), _frame_there(numbers, looks, device)
    nonzero = _together([null.nonzero for null in nulls])
    features, rows = gpu.reaching(evidence.statistic, nonzero, index, lasts, asked, slack)
    if rows is None:
        features = namespace(features).sort(features)
        some = features, evidence.of(features)
        return on_host(some) if features.size <= FEW else some
    order = np.argsort(features)
    statistic, nonzero = np.split(rows[order, 1:].T, 2)
    ends = [(each[0], null.most) for each, null in zip(numbers, nulls, strict=True)]
    return features[order], replace(evidence, statistic=statistic, nulls=tuple(map(SignTestNull, nonzero, ends)))


def _together(rows: list[Any]) -> CountArray:
    """Return arrays of one length as rows of one; those that lie so already are passed on as they are."""
    first = rows[0]
    if all(row.data.ptr == first.data.ptr + k * first.nbytes for k, row in enumerate(rows)):
        return first  # type: ignore[no-any-return]
    return namespace(first).stack(rows)  # type: ignore[no-any-return]


# None of this depends on the data but for the numbers of signs that occur: it is kept on the device.


@lru_cache(maxsize=64)
def _asked_there(numbers: Numbers, looks: Factored, error: float, device: int) -> CountArray:  # noqa: ARG001
    """Return the majorities asked for, (stages, sizes, numbers that occur)."""
    from sparsemean._kernels.gpu import constants

    asked = np.full((len(looks), len(numbers), max(map(len, numbers))), NO_END)
    for of_stage, (_, indices, factor) in zip(asked, looks, strict=True):
        for index in indices:
            of_stage[index, : len(numbers[index])] = least_majorities(np.array(numbers[index]), error, factor)
    return constants(asked)  # type: ignore[no-any-return]


@lru_cache(maxsize=16)
def _frame_there(numbers: Numbers, looks: Factored, device: int) -> tuple[IntArray, IntArray]:  # noqa: ARG001
    """Return the index of each number of signs among those that occur at a size, and the ends of stages."""
    from sparsemean._kernels.gpu import constants

    index = np.zeros((len(numbers), 1 + max(each[-1] for each in numbers)), dtype=np.intp)
    for row, each in zip(index, numbers, strict=True):
        row[list(each)] = np.arange(len(each))
    return constants(index), constants(np.array([last for last, *_ in looks]))


# Intervals: order statistics of bucket means.


@lru_cache(maxsize=256)
def order_statistic(n_buckets: int, error: float) -> int:
    """Return the largest l with P(Bin(J, ½) ≤ l − 1) ≤ error/2, 0 if there is none."""
    from scipy.special import bdtr

    # The probabilities rise with l: those that are small enough are the first ones.
    return int(np.sum(bdtr(np.arange(n_buckets + 1), n_buckets, 0.5) <= error / 2))


def one_size(ordered: FloatArray, *, error: float, bad_rows: int) -> FloatArray:
    """Return [x̄_(l−m), x̄_(J+1−l+m)] of (J, features) sorted bucket means as two rows; infinite where l − m < 1.

    J is the number of means that are there, NaN is none. A bad row may also have emptied a bucket or filled an empty
    one; that is allowed for: with b emptied and c filled the clean data had J + b − c means and their rank l(J + b − c)
    is counted among b fewer of them, and l grows by 0 or 1 with each mean more, so that no such change takes the
    interval of the clean data out of this one.
    """
    ends = np.stack((np.full(ordered.shape[1], -np.inf), np.full(ordered.shape[1], np.inf)))
    for J, at in group_indices(present_sorted(ordered)):
        # A replaced row moves one bucket mean past others, and so an order statistic by one rank at most.
        rank = order_statistic(J, error) - bad_rows
        if rank >= 1:
            ends[:, at] = ordered[rank - 1, at], ordered[J - rank, at]
    return ends


def all_sizes(levels: list[FloatArray], *, error: float, bad_rows: int) -> FloatArray:
    """Return the intersection of the intervals of sorted means of all sizes, each at ``error`` over their number.

    Where sizes contradict each other the noise cannot be symmetric; then the hull of all intervals is returned.
    """
    return common(np.stack([one_size(ordered, error=error / len(levels), bad_rows=bad_rows) for ordered in levels]))


def common(each: FloatArray) -> FloatArray:
    """Return the intersection of (sizes, 2, features) intervals, their hull where it is empty."""
    low, high = each[:, 0].max(axis=0), each[:, 1].min(axis=0)
    apart = low > high
    low[apart], high[apart] = each[:, 0].min(axis=0)[apart], each[:, 1].max(axis=0)[apart]
    return np.stack((low, high))
