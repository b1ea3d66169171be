"""Groups: every row of one against every row of another, counted for each contrast; one family of all hypotheses.

Hypotheses are features in contrasts, numbered contrast by contrast. Intervals are those of the Hodges–Lehmann shift,
or of a difference of shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import ModuleType
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sparsemean._data.source import Array, Source, as_dense
from sparsemean._data.table import Table
from sparsemean._evidence.common_values import READ_SHARE
from sparsemean._evidence.counting.engines import Progress, engine_of
from sparsemean._evidence.means import MeanContrast
from sparsemean._evidence.ranks import A_TASK, REST, SELECTS_NOTHING, Contrast, EachTest, RankTest, exact_log_p
from sparsemean._evidence.worst_case import ASKED, BadOfEach, WorstCase, most_moved
from sparsemean._kernels import centres
from sparsemean._kernels.groups import UNWANTED
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._kernels.rounding import DOUBLE, Grid, difference, snapped
from sparsemean._stats import effects
from sparsemean._stats.arrays import dropna, namespace, on_host
from sparsemean._stats.decision import Allowed, Rule, probabilities, rejected
from sparsemean._stats.group_ranks import critical_rank
from sparsemean._util.plans import BadRows, Question, Shares, Side
from sparsemean._util.records import CellCounts, FloatArray, IntArray

MOST_SHARES = 400
"""Shares of bad rows that are looked at: of more, so many evenly spaced ones."""
ROUNDING = 1e-12
"""Keeps exp of a goal below what it is the logarithm of."""
STANDARD = Question()
Strata = list[tuple[IntArray, IntArray]]
"""The rows of the first and of the second group in every stratum."""
GroupTest: TypeAlias = RankTest | EachTest | MeanContrast
"""What a family is made of: tests of every feature in one contrast."""


@dataclass(frozen=True, eq=False)
class RankEvidence:
    """A family of hypotheses: every feature in every test. What is allowed for are bad rows of both groups of each."""

    tests: tuple[GroupTest, ...]
    side: Side = Side.BOTH
    missing: bool = False
    level: float = 0.05
    n_jobs: int | None = None
    allowed: Allowed | None = None
    """Bad rows that are allowed for where steps count those `beyond` them; None where steps are those of the grid."""
    xp: ClassVar[ModuleType] = np
    """Decisions lie on the host, wherever counts do."""

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses."""
        return sum(test.n_features for test in self.tests)

    @cached_property
    def grid(self) -> FloatArray:
        """Shares of bad rows of each group, rising from 0, at which one row more is bad in some group."""
        sizes = {size for test in self.tests for size in test.contrast.sizes}
        shares = np.unique(np.concatenate([np.arange(-(-size // 2)) / size for size in sizes]))
        if shares.size > MOST_SHARES:
            shares = shares[np.unique(np.linspace(0, shares.size - 1, MOST_SHARES).astype(np.intp))]
        return shares

    def at_share(self, shares: Shares) -> Allowed:
        """Return the bad rows of every test for shares of either group."""
        return tuple(test.contrast.bad(shares) for test in self.tests)

    def share_of(self, allowed: Allowed) -> float:
        """Return the share of each group that may be bad: of the group with the smallest."""
        return min(min(bad.shares(test.contrast.rows)) for bad, test in zip(allowed, self.tests, strict=True))

    def step_of(self, allowed: Allowed) -> int | None:
        """Return the step of the grid at which so many rows are bad."""
        step = int(np.searchsorted(self.grid, self.share_of(allowed) - ROUNDING))
        found = step < self.grid.size and self.at_share(Shares(*self.grid[[step, step]].tolist())) == tuple(allowed)
        return step if found else None

    def as_shares(self, steps: IntArray) -> FloatArray:
        """Return steps of the grid as shares of bad rows of each group; NaN for −1."""
        return np.where(steps < 0, np.nan, self.grid[np.maximum(steps, 0)])

    def p_values(self, allowed: Allowed, some: IntArray | None = None) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the hypotheses whose p-value is below 1, or ``some``, p and log p."""
        log_p = self._clean if some is None and not any(bad.total for bad in allowed) else self.log_p(allowed, some)
        p = probabilities(log_p)
        if some is not None:
            return some, p, log_p
        alive = np.flatnonzero(p < 1)
        return alive, p[alive], log_p[alive]

    def selected_first(self, rule: Rule) -> IntArray:
        """Return what a rule selects where no row is bad."""
        return rejected(rule, probabilities(self._clean), self.n_hypotheses)

    @cached_property
    def _clean(self) -> FloatArray:
        """The log p of all hypotheses where no row is bad."""
        return self.log_p((BadRows(0, 0),) * len(self.tests))

    def beyond(self, allowed: Allowed) -> RankEvidence:
        """Return what bounds p once further rows of either group have been replaced."""
        return replace(self, allowed=allowed)

    def along(self, steps: IntArray, at: IntArray, asked: float = -np.inf, *, about: bool = False) -> FloatArray:
        """Return p of some hypotheses, each at a step of its own; or what is larger than an error where p is.

        What is only to be ``about`` p costs little.
        """
        if self.allowed is not None:
            return probabilities(self.log_p(self.allowed, at, more=steps, asked=asked, about=about))
        bads = [BadOfEach(*bad[:, steps]) for bad in self._bad]
        return probabilities(self.log_p(bads, at, asked=asked, about=about))

    @cached_property
    def _bad(self) -> list[IntArray]:
        """The bad rows of the reference and of the label of every test, at every step of the grid."""
        shares = [self.at_share(Shares(share, share)) for share in self.grid.tolist()]
        return [np.array(of_test).T for of_test in zip(*shares, strict=True)]

    def last(self, error: float, at: IntArray, above: IntArray | None = None) -> IntArray:
        """Return the last step with p ≤ ``error``: by halving what p is about, and from there step by step."""
        steps = self.grid.size if self.allowed is None else max(sum(test.contrast.rows) for test in self.tests) // 2 + 1
        first, asked = np.full(at.size, -1) if above is None else above, float(np.log(max(error, 1e-300))) - ROUNDING
        guess, high = first.copy(), np.full(at.size, steps - 1)
        while (moving := np.flatnonzero(guess < high)).size:
            middle = (guess[moving] + high[moving] + 1) // 2
            reached = self.along(middle, at[moving], asked, about=True) <= error
            guess[moving[reached]], high[moving[~reached]] = middle[reached], middle[~reached] - 1
        low, high, stride = first.copy(), np.full(at.size, steps - 1), np.ones(at.size, dtype=np.intp)
        while (moving := np.flatnonzero(low < high)).size:  # p rises: one step that passes and one that does not
            middle = np.clip(guess[moving], low[moving] + 1, high[moving])
            reached = self.along(middle, at[moving], asked) <= error
            low[moving[reached]], high[moving[~reached]] = middle[reached], middle[~reached] - 1
            guess[moving] = middle + np.where(reached, 1, -1) * stride[moving]
            stride[moving] *= 2
        return low

    def log_p(
        self,
        bads: Sequence[BadRows | BadOfEach],
        hypotheses: IntArray | None = None,
        *,
        more: int | IntArray = 0,
        asked: float = -np.inf,
        about: bool = False,
    ) -> FloatArray:
        """Return log p of some hypotheses for so many bad rows of each test and ``more`` anywhere; or each for its own.

        Of all of them, by default, those that no look tells apart are looked at once.
        """
        chosen = np.arange(self.n_hypotheses) if hypotheses is None else hypotheses
        order, start, out = np.argsort(chosen, kind="stable"), 0, np.empty(chosen.size)
        rising, goal = chosen[order], float(np.log(self.level / self.n_hypotheses)) - ROUNDING
        for test, bad in zip(self.tests, bads, strict=True):
            top = min(float(np.log(self.level)) + SELECTS_NOTHING, asked + ASKED if asked > -np.inf else np.inf)
            top = -np.inf if about else top
            case = WorstCase(bad, more, self.side, self.missing, goal, top, asked)
            end = start + test.n_features
            if hypotheses is None and case.max_replaced and test.n_features > A_TASK:
                few, classes = test.by_class(int(sum(bad)))
                threads = count_threads(self.n_jobs)
                out[start:end] = few.log_p(case, n_threads=threads)[classes]
                if test.clean is not None:
                    again = test.features_beyond_classes(case)
                    out[start:end] = np.maximum(out[start:end], test.clean)
                    out[start + again] = test.log_p(case, again, n_threads=threads)
            elif hypotheses is None:
                out[start:end] = test.log_p(case, n_threads=count_threads(self.n_jobs))
            else:
                first, last = np.searchsorted(rising, (start, end))
                features, own = rising[first:last] - start, order[first:last]
                out[own] = test.log_p(case.of(own), features, n_threads=count_threads(self.n_jobs))
            start = end
        return out


# Counting.


def count(
    table: Table,
    codes: IntArray,
    contrasts: Sequence[Contrast],
    *,
    question: Question = STANDARD,
    strata: IntArray | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    moved: bool = False,
    n_tests: int | None = None,
) -> list[RankTest]:
    """Return what every feature says of every contrast of labels, from the values that are there.

    One sort of a feature serves all contrasts. With a smallest effect it takes two sorts more for each of them: of the
    first group ``moved`` down by as much, and up. Without, columns with ties are read again where these may decide:
    the error is that of ``n_tests``, by default all contrasts.
    """
    within = np.zeros(codes.size, dtype=np.intp) if strata is None else strata
    n_labels, n_strata = len(contrasts[0].sizes), int(within.max()) + 1
    stratum_of = np.repeat(np.arange(n_strata), n_labels)
    sweeps = list(dict.fromkeys(contrast.reference for contrast in contrasts))
    against = np.full((len(sweeps), n_strata * n_labels), UNWANTED)
    for contrast in contrasts:
        for stratum in range(n_strata):
            other = REST if contrast.reference == REST else stratum * n_labels + contrast.reference
            against[sweeps.index(contrast.reference), stratum * n_labels + contrast.label] = other
    counts = engine_of(table.source, n_jobs, progress).rank_counts(
        table, within * n_labels + codes, stratum_of, against, skip_missing=question.missing == "omit"
    )
    tests = _tests_of(counts, contrasts, [sweeps.index(contrast.reference) for contrast in contrasts], n_strata)
    if moved:
        return tests
    if least := question.min_effect:
        again = partial(count, codes=codes, question=question, strata=strata, n_jobs=n_jobs, moved=True)
        rows = [np.flatnonzero(codes == test.contrast.label) for test in tests]
        both = [[_moved(table, own, by) for by in (-least, least)] for own in rows]
        return [
            replace(test, shifted=tuple(again(one, contrasts=[test.contrast])[0] for one in tables))
            for test, tables in zip(tests, both, strict=True)
        ]
    exact = partial(exact_log_p, n_hypotheses=table.shape[1] * (n_tests or len(tests)), n_jobs=n_jobs)
    for k, test in enumerate(tests):
        log_p = exact(test, table, codes, within=within, question=question)
        tests[k] = replace(test, clean=log_p)
        tied = READ_SHARE * on_host(test.repeats).sum(axis=1) >= on_host(test.counts)[..., :2].sum(axis=(1, 2))
        at = np.flatnonzero(tied & (log_p <= np.log(question.level) + SELECTS_NOTHING))
        if at.size:
            tests[k] = tests[k].with_common(at, table, codes, within)
    return tests


def _tests_of(
    counts: CellCounts, contrasts: Sequence[Contrast], sweeps: Sequence[int], n_strata: int
) -> list[RankTest]:
    """Put the counts of cells together to those of tests; ``sweeps`` tells which one compared what each test does."""
    xp, n_labels = namespace(counts.own), len(contrasts[0].sizes)
    own = counts.own.reshape(3, n_strata, n_labels, -1)
    out = []
    for contrast, sweep in zip(contrasts, sweeps, strict=True):
        first = own[:, :, contrast.label]
        second = own.sum(axis=2) - first if contrast.reference == REST else own[:, :, contrast.reference]
        compared = counts.pairs[sweep].reshape(6, n_strata, n_labels, -1)[:, :, contrast.label]
        table = xp.empty((10, n_strata, own.shape[-1]), dtype=own.dtype)
        for kind in range(3):
            table[2 * kind], table[2 * kind + 1] = first[kind], second[kind]
        for place, kind in enumerate((0, 1, 3, 4)):
            table[6 + place] = compared[kind]
        repeats = xp.stack((compared[2].sum(axis=0), compared[5].sum(axis=0)))
        out.append(RankTest(contrast, table.T, repeats.T))
    return out


class ShiftedRows(Source):
    """Another source, some rows of which are moved by a constant."""

    def __init__(self, source: Source, rows: IntArray, by: float) -> None:
        self.source, self.rows, self.by = source, rows, by
        self.shape, self.dtype = source.shape, np.dtype(np.float64)  # of decimals, whatever the source is of
        self.along, self.grain = source.along, source.grain

    def block(self, rows: slice, columns: slice) -> Array:
        """Return some rows of some columns, filled in."""
        values: FloatArray = snapped(as_dense(self.source.block(rows, columns)), self.source.grid).copy()
        moved = self.rows[(self.rows >= rows.start) & (self.rows < rows.stop)] - rows.start
        values[moved] = difference(values[moved], -self.by, self.source.grid or DOUBLE)
        return values


def _moved(table: Table, rows: IntArray, by: float) -> Table:
    return replace(table, source=ShiftedRows(table.source, rows, by))


def strata_of(labels: IntArray, strata: IntArray | None = None) -> Strata:
    """Return the rows labelled 1 and 0 in every stratum that has some of both."""
    within = np.zeros(labels.size, dtype=np.intp) if strata is None else strata
    rows = [
        (np.flatnonzero((labels == 1) & (within == h)), np.flatnonzero((labels == 0) & (within == h)))
        for h in range(int(within.max()) + 1)
    ]
    return [pair for pair in rows if pair[0].size and pair[1].size]


# Shifts and their intervals.


def shift(
    values: FloatArray, strata: Strata, told: tuple[int, bool], *, error: float, bad: BadRows, side: Side, missing: bool
) -> tuple[float, float, float, float]:
    """Return how far the groups lie apart in one column, the lower and upper end of its interval, and what that is.

    It is the Hodges–Lehmann shift, the median of all differences first − second within strata, of which there are N.
    Its interval is [D_(l−s), D_(N+1−l+s)], l the largest with P(U ≤ l − 1) ≤ error/2 and s what bad rows can move U;
    infinite where l − s < 1, and on one side where only the other counts. The differences are never formed. With
    ``missing`` the numbers of rows are those of the values that are there; where a group has none nothing is known.

    What it is to be may be ``told``; where it is not known a column of two values has the difference of means, and one
    whose interval would hold 0 or have no width the share of pairs won less that of those lost. 0 is no inner point of
    their intervals if it is told that the test has rejected it.
    """
    (measure, rejected_zero), unknown = told, told[0] == effects.UNKNOWN
    pairs = [(np.sort(dropna(values[first])), np.sort(dropna(values[second]))) for first, second in strata]
    pairs = [(a, b) for a, b in pairs if a.size and b.size]
    if not pairs:
        return np.nan, -np.inf, np.inf, effects.CENTRE
    sizes = tuple(a.size for a, _ in pairs), tuple(b.size for _, b in pairs)
    total = sum(a.size * b.size for a, b in pairs)
    gaps = missing and sum(map(sum, sizes)) < sum(first.size + second.size for first, second in strata)
    moved = int(most_moved(np.array(sizes[:1]), np.array(sizes[1:]), bad, missing=gaps)[0])
    (a, b), last = map(np.concatenate, zip(*pairs, strict=True)), np.cumsum(sizes, axis=1)
    lowest, highest = min(a.min(), b.min()), max(a.max(), b.max())
    large_a, large_b = (int(np.sum(part == highest)) for part in (a, b))
    two = len(pairs) == 1 and large_a + large_b + np.sum(a == lowest) + np.sum(b == lowest) == a.size + b.size
    if measure == effects.CENTRE or (unknown and not two):
        # by symmetry P(U ≤ l − 1) = P(U ≥ N − l + 1), so N − l + 1 is the critical value of U
        rank = total + 1 - critical_rank(*sizes, error / side.number) - moved
        low, high, guess = -np.inf, np.inf, (np.nan, np.nan)
        if rank >= 1 and side is not Side.DOWN:
            low = centres.order_statistic(a, b, last, rank, *guess)[0]
        if rank >= 1 and side is not Side.UP:
            high = centres.order_statistic(a, b, last, total + 1 - rank, *guess)[0]
        value = centres.pair_median(a, b, last, *guess)
        flat = value == 0 or low == 0 or high == 0 or low == high
        if not unknown or not (flat or (rejected_zero and low < 0 < high)):
            return value, low, high, effects.CENTRE
    won = sum(int(np.searchsorted(b, a).sum()) for a, b in pairs)
    lost = total - sum(int(np.searchsorted(b, a, "right").sum()) for a, b in pairs)
    error, unit, measure = error / side.number, 1.0, effects.PAIRS
    if two:
        measure, unit = effects.MEANS, float(highest) - float(lowest)  # may be beyond all doubles
        low, high = effects.share_ends((a.size, large_a), (b.size, large_b), bad, error=error, unsure=gaps)
    else:
        unsure = gaps * np.array([[bad.label], [bad.reference]])
        most, least = np.array(sizes) + unsure, np.maximum(np.array(sizes) - unsure, 0).prod(axis=0).sum()
        step, terms = float(most.max() / max(least, 0.5)), int(most.min(axis=0).sum())
        low, high = effects.pair_ends(won / total, lost / total, moved / total, step=step, terms=terms, error=error)
    shown = unknown or rejected_zero  # what is not known was selected, by whichever rule
    ends = effects.beside_test(unit * low, unit * high, side, shown * (won - lost))
    return unit * (won - lost) / total, *ends, measure


def shifts(
    values: FloatArray,
    strata: Strata,
    told: Sequence[tuple[int, bool]],
    *,
    grid: Grid | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> FloatArray:
    """Return a row for each column of ``values``: what `shift` has of it, some threads at work.

    Values are rounded to a ``grid`` first, as they are where they are counted.
    """
    tasks = list(zip(snapped(values, grid).T, told, strict=True))
    found = each(lambda task: shift(task[0], strata, task[1], **options), tasks, count_threads(n_jobs))
    return np.array(list(found))
