"""From evidence to decisions: one protocol, one selection, one radius, one way to decide again for other bad rows.

Evidence says how small the p-value of a hypothesis is if so many rows are bad: the largest that they could have left.
It rises with their number, along a *grid* of numbers; and with rows that are replaced beyond those allowed for. What is
selected at one step of either is selected at all before it. docs/guarantees.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import namespace, on_host
from sparsemean._stats.planning import bad_rows
from sparsemean._util.plans import BadRows, Plan, Shares
from sparsemean._util.records import NO_END, FloatArray, IntArray

Flags = npt.NDArray[np.bool_]
Allowed: TypeAlias = tuple[BadRows, ...]
"""Bad rows that are allowed for, of every contrast; one sample is one contrast."""
MOST_PAIRS = 200_000
"""Pairs of hypothesis and step that are looked at in one go."""
FEW_PAIRS, APART = 4, 1.5
"""Pairs of a hypothesis up to which each is looked at; and by how much the errors differ that leave fewer."""
TINY = float(np.finfo(np.float64).tiny)
ARRAYS = ("p_values", "log_p", "p_adjusted", "q_values", "last", "max_contamination")


class Evidence(Protocol):
    """What data say of hypotheses, numbered contrast by contrast; one file a kind."""

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses that share the error."""
        ...

    @property
    def xp(self) -> ModuleType:
        """Where decisions lie, NumPy or CuPy: with the data."""
        ...

    def step_of(self, allowed: Allowed) -> int | None:
        """Return the step of the grid that ``allowed`` is; None where it lies beside it."""
        ...

    def at_share(self, shares: Shares) -> Allowed:
        """Return the bad rows of every contrast where such shares of its groups may be bad."""
        ...

    def as_shares(self, steps: IntArray) -> FloatArray:
        """Return steps of the grid as shares of bad rows, of each group; NaN for −1."""
        ...

    def share_of(self, allowed: Allowed) -> float:
        """Return the share of bad rows, of each group, that is allowed for."""
        ...

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the hypotheses whose p-value is below 1, or ``some``, these p-values and their logarithms."""
        ...

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad: with bad rows there is nothing else."""
        ...

    def along(self, steps: IntArray, at: IntArray) -> FloatArray:
        """Return p of some hypotheses, each at a step of its own."""
        ...

    def last(self, error: float, at: IntArray, above: IntArray | None = None) -> IntArray:
        """Return the last step at which p ≤ ``error``, −1 where at none; it is known to be at those ``above``."""
        ...

    def beyond(self, allowed: Allowed) -> Evidence:
        """Return what bounds p once further rows were replaced: its steps are their numbers, not those of the grid."""
        ...


class OfRows:
    """Evidence of one sample, one contrast without a reference: the grid is all numbers of bad rows up to half."""

    n_rows: int
    """Rows (subjects) that may be bad."""
    start: int = 0
    """Bad rows that are allowed for where steps count those `beyond` them."""

    def step_of(self, allowed: Allowed) -> int:
        """Return the number of bad rows."""
        (bad,) = allowed
        return bad.label

    def share_of(self, allowed: Allowed) -> float:
        """Return it as a share of all rows."""
        return self.step_of(allowed) / self.n_rows

    def at_share(self, shares: Shares) -> Allowed:
        """Return how many rows are bad where such a share may be."""
        return (BadRows(0, bad_rows(self.n_rows, shares.label)),)

    def as_shares(self, steps: IntArray) -> FloatArray:
        """Return numbers of bad rows as shares of all; NaN for −1."""
        return namespace(steps).where(steps < 0, np.nan, steps / self.n_rows)  # type: ignore[no-any-return]


def halved(
    along: Callable[[IntArray, IntArray], FloatArray], error: float, at: IntArray, low: IntArray | None,
    high: IntArray | int,
) -> IntArray:  # fmt: skip
    """Return the last step from ``low``, or −1, to ``high`` with p ≤ ``error``, by halving; p is that `along` steps."""
    low = np.full(at.size, -1) if low is None else low.copy()
    high = np.maximum(low, high)
    while (moving := np.flatnonzero(low < high)).size:
        middle = (low[moving] + high[moving] + 1) // 2
        reached = along(middle, at[moving]) <= error
        low[moving[reached]], high[moving[~reached]] = middle[reached], middle[~reached] - 1
    return low


@dataclass(frozen=True, eq=False)
class Averaged:
    """Twice the mean of p-values of several evidences of the same hypotheses, which is valid however these depend."""

    parts: tuple[Evidence, ...]

    def __getattr__(self, name: str) -> Any:
        """Return what is the same of all: their number, the grid and where decisions lie."""
        return getattr(self.parts[0], name)

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the hypotheses whose p-value is below 1, or ``some``, p and log p."""
        at = np.arange(self.n_hypotheses) if some is None else some
        logs = np.logaddexp.reduce([part.p_values(allowed, at)[2] for part in self.parts])
        log_p = np.minimum(0.0, logs + np.log(2 / len(self.parts)))
        alive = np.flatnonzero(log_p < 0) if some is None else np.arange(at.size)
        return at[alive], probabilities(log_p[alive]), log_p[alive]

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad."""
        at, p, _ = self.p_values(self.at_share(Shares(0.0, 0.0)))
        return at[rejected(rule, p, self.n_hypotheses)]

    def along(self, steps: IntArray, at: IntArray) -> FloatArray:
        """Return p of some hypotheses, each at a step of its own."""
        each = np.array([part.along(steps, at) for part in self.parts])
        return np.asarray(np.minimum(1.0, 2 * each.mean(axis=0)))

    def last(self, error: float, at: IntArray, above: IntArray | None = None) -> IntArray:
        """Return the last step with p ≤ ``error``: not behind that of the first part at half of them."""
        high = self.parts[0].last(min(1.0, 0.5 * len(self.parts) * error), at)
        return halved(self.along, error, at, above, high)

    def beyond(self, allowed: Allowed) -> Averaged:
        """Return what bounds p once further rows have been replaced."""
        return Averaged(tuple(part.beyond(allowed) for part in self.parts))


# Statistics that share the error of one hypothesis, as long as they can reject.


class Stage(NamedTuple):
    """Numbers of bad rows up to ``last`` for which the same statistics, at some ``indices``, can reject."""

    last: int
    indices: tuple[int, ...]


Stages = tuple[Stage, ...]
"""Rising, and the last one has no end. As numbers grow fewer statistics can reject, and share the error: p is taken to
be the largest of all stages up to that of a number of bad rows."""


def stages_up_to(stages: Stages, bad_rows: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return, for each stage up to that of so many bad rows, the number that it is looked at for, and the indices."""
    firsts = (-NO_END, *(stage.last + 1 for stage in stages[:-1]))
    return [(min(bad_rows, last), at) for first, (last, at) in zip(firsts, stages, strict=True) if bad_rows >= first]


def stages_of(lasts: Sequence[int]) -> Stages:
    """Return which statistics are looked at, given the last number of bad rows for which each can reject.

    Examples
    --------
    >>> stages_of([9, 4, -1])
    (Stage(last=4, indices=(0, 1)), Stage(last=1073741824, indices=(0,)))
    """
    ends = sorted({last for last in lasts if last >= 0})
    stages = [Stage(end, tuple(index for index, last in enumerate(lasts) if last >= end)) for end in ends]
    return (*stages[:-1], Stage(NO_END, stages[-1].indices if stages else tuple(range(len(lasts)))))


# Rules: what p-values are compared with, given how many others are rejected.


@dataclass(frozen=True, slots=True)
class Holm:
    """Reject p_(k) ≤ level/(d − k + 1) step by step: family-wise error at most ``level``, under any dependence."""

    level: float
    scale: float = 1.0
    """What q-values are multiplied by."""
    step_down: ClassVar[bool] = True

    def error(self, rejected: IntArray | int, total: int) -> FloatArray:
        """Return what the last of so many rejected p-values is compared with."""
        return np.asarray(self.level / (total - rejected + 1))

    def next_error(self, found: int | None, total: int) -> float:
        """Return what p-values are compared with next, given how many passed before: their number only grows."""
        return float(self.error(min(total, 1 + (found or 0)), total))


@dataclass(frozen=True, slots=True)
class BenjaminiHochberg:
    """Reject up to the largest k with p_(k) ≤ k·level/(d·scale); a scale of 1 + 1/2 + … + 1/d is Yekutieli's rule."""

    level: float
    scale: float = 1.0
    step_down: ClassVar[bool] = False

    def error(self, rejected: IntArray | int, total: int) -> FloatArray:
        """Return what the last of so many rejected p-values is compared with."""
        return np.asarray(rejected * (self.level / self.scale) / total)

    def next_error(self, found: int | None, total: int) -> float:
        """Return what p-values are compared with next, given how many passed before: their number only falls."""
        return float(self.error(total if found is None else found, total))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MaxT(Holm):
    """Select by common flips or permutations where no row is bad; else what Holm's rule selects of that."""

    first: FloatArray
    """Adjusted p-values where no row is bad; see `sparsemean._stats.maxt`."""
    note: str = ""
    """How they were made."""


Rule = Holm | BenjaminiHochberg


def rejections(rule: Rule, p: FloatArray, columns: IntArray, sure: IntArray, total: int) -> Flags:
    """Flag what a rule rejects of each of several columns of p-values, ``sure`` others of it being rejected too."""
    order = np.lexsort((p, columns))
    column = columns[order]
    rank = np.arange(p.size) - np.searchsorted(column, np.arange(sure.size))[column]
    passed = p[order] <= rule.error(sure[column] + rank + 1, total)
    end = np.full(sure.size, p.size if rule.step_down else 0)  # the first rank that misses, or that behind the last hit
    if rule.step_down:
        np.minimum.at(end, column[~passed], rank[~passed])
    else:
        np.maximum.at(end, column[passed], rank[passed] + 1)
    flags = np.empty(p.size, dtype=bool)
    flags[order] = rank < end[column]
    return flags


def rule_of(selection: str, level: float, total: int) -> Rule:
    """Return the rule named ``selection`` for so many hypotheses: Holm's of the paper's, and of `MaxT` without data."""
    by = BenjaminiHochberg(level, harmonic(total) if selection == "fdr_by" else 1.0)
    rules: dict[str, Rule] = {"fwer": Holm(level), "fdr": by, "fdr_by": by, "maxt": Holm(level), "paper": Holm(level)}
    return rules[selection]


def harmonic(d: int) -> float:
    """Return 1 + 1/2 + … + 1/d."""
    return float(np.sum(1.0 / np.arange(1, d + 1)))


def rejected(rule: Rule, p: FloatArray, total: int) -> IntArray:
    """Return the places of the p-values that a rule rejects; no rule rejects one above its level."""
    small = np.flatnonzero(p <= rule.level)
    return small[rejections(rule, p[small], np.zeros(small.size, dtype=np.intp), np.zeros(1, dtype=np.intp), total)]


def adjust(p: FloatArray, total: int, scale: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Return Holm's adjusted p-values, and the q-values of Benjamini and Hochberg times ``scale``.

    The p-values are all those below 1 of ``total`` hypotheses. Equal ones have equal answers: what the first of them in
    order has under Holm, the last under the other.
    """
    if not p.size:
        return p, p
    xp = namespace(p)
    values, back, counts = xp.unique(p, return_inverse=True, return_counts=True)
    value, count = on_host((values, counts))
    last = np.cumsum(count)
    adjusted = np.minimum(1.0, np.maximum.accumulate((total + count - last) * value))
    q = np.minimum(1.0, np.minimum.accumulate((scale * total / last * value)[::-1])[::-1])
    return xp.asarray(adjusted)[back], xp.asarray(q)[back]


def error_after_selection(plan: Plan, n_selected: int) -> float:
    """Return the error rate of each interval of R selected features: level·R/d.

    Marginal intervals cover too little once features have been selected by the same data; with this rate the expected
    share of selected features whose interval misses is at most the level (Benjamini and Yekutieli 2005) for independent
    features and no one who chooses by bad rows which are selected; else at most level·(1 + 1/2 + … + 1/d).
    """
    return plan.question.level * n_selected / plan.n_hypotheses


def probabilities(log_p: FloatArray) -> FloatArray:
    """Return p-values that are never 0."""
    return np.maximum(np.exp(log_p), TINY)


# Decisions.


@dataclass(frozen=True, eq=False)
class Decision:
    """What is selected for so many bad rows, and how sure that is: (hypotheses,) arrays but for the support."""

    evidence: Evidence | None
    """None of a decision that was read from a file."""
    rule: Rule
    allowed: Allowed
    support: IntArray
    p_values: FloatArray
    log_p: FloatArray
    """Their natural logarithms, which do not end where the smallest double does."""
    p_adjusted: FloatArray
    q_values: FloatArray
    last: IntArray
    """Step of the grid up to which a hypothesis is selected, −1 where at none: the same for all that is allowed for."""
    max_contamination: FloatArray
    """The same as a share of bad rows, NaN where at none; for what is selected at least what was allowed for."""
    filled_up: int = 0
    """How many of the support came in only to reach ``min_selected`` of the paper's rule."""
    skipped: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Hypotheses that the rule selects and that are not on the support, as their features hold one value only."""
    whole: Decision | None = None
    """That of all contrasts, where this is of one of them."""
    contrast: int = 0

    def at(self, allowed: Allowed, *, some: bool = False) -> Decision:
        """Decide again for other bad rows; of one contrast, with all others.

        With ``some``, p-values of what is selected for no number of bad rows are not looked at, and NaN: adjusted ones
        of what is selected rest on smaller p-values alone, and these are selected as well.
        """
        whole = self.whole or self
        assert whole.evidence is not None
        again = decide(whole.evidence, whole.rule, allowed, whole.last, some=some)
        return again if self.whole is None else again.of(self.contrast)

    def of(self, contrast: int) -> Decision:
        """Return that of one contrast."""
        whole = self.whole or self
        if len(whole.allowed) == 1:
            return whole
        d = whole.p_values.size // len(whole.allowed)
        part = slice(contrast * d, (contrast + 1) * d)
        within = whole.support[(whole.support >= part.start) & (whole.support < part.stop)] - part.start
        own = {name: getattr(whole, name)[part] for name in ARRAYS}
        return replace(whole, support=within, whole=whole, contrast=contrast, **own)

    def without(self, constant: IntArray) -> Decision:
        """Take hypotheses whose features hold one value only off the support."""
        return replace(self, support=np.setdiff1d(self.support, constant, assume_unique=True), skipped=constant)

    @cached_property
    def radius(self) -> IntArray:
        """Rows that must be replaced, beyond those allowed for, before what is selected can drop out, at least.

        Of others no more is promised than that one must.
        """
        if self.whole is not None:
            d = self.p_values.size
            return self.whole.radius[self.contrast * d : (self.contrast + 1) * d]
        assert self.evidence is not None
        xp, step = namespace(self.p_values), self.evidence.step_of(self.allowed)
        # What the rule selects, whatever became of the support since.
        chosen = on_host(self.support if step is None else xp.flatnonzero(self.last >= step))
        out = xp.ones(self.p_values.size, dtype=np.intp)
        if chosen.size and not isinstance(self.rule, MaxT):  # one row can undo a t
            out[xp.asarray(chosen)] += xp.asarray(_last_selected(self.evidence.beyond(self.allowed), self.rule, chosen))
        return out  # type: ignore[no-any-return]


def decide(
    evidence: Evidence, rule: Rule, allowed: Allowed, last: IntArray | None = None, *, some: bool = False
) -> Decision:
    """Select for so many bad rows, and say up to how many each hypothesis would be selected.

    ``last`` is known where the same was decided for other bad rows; see `Decision.at` for ``some``.
    """
    xp, n = evidence.xp, evidence.n_hypotheses
    holm = not isinstance(rule, MaxT)
    asked = None if not (some and holm) or last is None else on_host(xp.flatnonzero(last >= 0))
    at, p, log_p = evidence.p_values(allowed, asked)
    values, places = xp.full((4, n), np.nan if some else 1.0), xp.asarray(at)
    values[3] -= 1.0  # log p
    values[:, places] = xp.asarray(namespace(p).stack((p, *adjust(p, n, rule.scale), log_p)))
    if last is None:
        last, candidates = xp.full(n, -1, dtype=np.intp), evidence.selected_first(rule)
        if candidates.size:
            last[xp.asarray(candidates)] = xp.asarray(_last_selected(evidence, rule, candidates))
    if isinstance(rule, MaxT):
        first = xp.asarray(rule.first)
        values[1] = xp.maximum(first, values[1]) if any(bad.total for bad in allowed) else first
        last = xp.where(first <= rule.level, xp.maximum(last, 0), -1)
    share, step = evidence.as_shares(last), evidence.step_of(allowed)
    if step is not None:
        support = xp.flatnonzero(last >= step)
    else:
        support = at[rejected(rule, p, n)]
        support = support[last[support] >= 0]
        share[support] = np.fmax(share[support], evidence.share_of(allowed))
    p_values, p_adjusted, q_values, logs = values
    return Decision(evidence, rule, allowed, support, p_values, logs, p_adjusted, q_values, last, share)


def decide_planned(evidence: Evidence, plan: Plan, rule: Rule | None = None) -> Decision:
    """Select as is planned for one sample."""
    question = plan.question
    return decide(evidence, rule or rule_of(question.selection, question.level, evidence.n_hypotheses), (plan.bad,))


def adjusted_by_holm(decision: Decision) -> FloatArray:
    """Return p-values adjusted by Holm, whatever the rule."""
    whole, d = decision.whole or decision, decision.p_values.size
    return adjust(whole.p_values, whole.p_values.size)[0][decision.contrast * d :][:d]


def _last_selected(evidence: Evidence, rule: Rule, at: IntArray) -> IntArray:
    """Return the last step at which each of some hypotheses is selected: all are at the first, and no others.

    At any step a p-value is compared with something between what the first rejected one and what the last of all
    these is compared with. Both settle most hypotheses; only steps between their answers are left open.
    """
    n = evidence.n_hypotheses
    low = np.maximum(evidence.last(float(rule.error(1, n)), at), 0)
    high = low if at.size == 1 else evidence.last(float(rule.error(at.size, n)), at, low)
    if np.sum(high - low) > FEW_PAIRS * at.size:
        low, high = _narrowed(evidence, rule, at, low, high)
    todo = [(int(low.min()) + 1, int(high.max()))]
    while todo:
        first, last = todo.pop()
        pairs = np.maximum(np.minimum(high, last) - np.maximum(low + 1, first) + 1, 0)
        if pairs.sum() > MOST_PAIRS and last > first:  # the middle one alone, then those before and behind it
            middle = (first + last) // 2
            todo += [(first, middle - 1), (middle + 1, last), (middle, middle)]
            continue
        if not pairs.any():
            continue
        begin = np.maximum(low + 1, first)
        which = np.repeat(np.arange(at.size), pairs)
        step = begin[which] + np.arange(which.size) - (np.cumsum(pairs) - pairs)[which]
        steps, column = np.unique(step, return_inverse=True)
        sure = at.size - np.searchsorted(np.sort(low), steps)
        kept = rejections(rule, evidence.along(step, at[which]), column, sure, n)
        np.maximum.at(low, which[kept], step[kept])
        np.minimum.at(high, which[~kept], step[~kept] - 1)
    return low


def _narrowed(
    evidence: Evidence, rule: Rule, at: IntArray, first: IntArray, last: IntArray
) -> tuple[IntArray, IntArray]:
    """Return what the last steps lie between, given those at the errors of one hypothesis and of all.

    With last steps L_k at the error of k, so many are rejected by it up to step s_k, the k-th largest of L_k; so k are
    selected up to S_k, by Holm the least of s_1 … s_k, else the largest of s_k, s_(k+1) …; and each up to
    max_k min(L_k, S_k). L rises with k and S falls: some k bound all others.
    """
    errors = np.asarray(rule.error(np.arange(1, at.size + 1), evidence.n_hypotheses))
    some = np.geomspace(errors[0], errors[-1], 2 + int(np.log(errors[-1] / errors[0]) / np.log(APART)))
    k = np.unique(np.append(np.searchsorted(errors, some[1:-1]), (0, at.size - 1)))  # places: one less than numbers
    each = [first]
    for number in k[1:-1].tolist():
        each.append(np.maximum(each[-1], evidence.last(float(errors[number]), at, each[-1])))
    found = np.stack((*each, np.maximum(each[-1], last)))
    ordered = -np.sort(-found, axis=1)
    exact = ordered[np.arange(k.size), k]
    if rule.step_down:
        least = np.minimum.accumulate(np.append(exact[0], ordered[np.arange(k.size - 1), k[1:]]))
        most = np.minimum.accumulate(exact)
    else:
        least = np.maximum.accumulate(exact[::-1])[::-1]
        most = np.maximum.accumulate(np.append(ordered[np.arange(1, k.size), k[:-1]], exact[-1])[::-1])[::-1]
    low = np.minimum(found, least[:, np.newaxis]).max(axis=0)
    high = np.minimum(np.vstack((found[1:], found[-1:])), most[:, np.newaxis]).max(axis=0)
    return np.maximum(low, first), high
