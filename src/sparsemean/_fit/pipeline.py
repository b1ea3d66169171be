"""From evidence to an estimate, the same for one sample and for groups, for centres and for means.

Rows are prepared and counted, and evidence is made of that, by each kind of fit: `Centres`, `Means` and `Groups`. Here
is what they have in common: rows are scored, what holds for as many bad rows as look bad is decided, features are
located, and the estimate is built.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from sparsemean._data.table import Table
from sparsemean._evidence.counting.engines import Progress
from sparsemean._evidence.signs import strongest_signs
from sparsemean._fit import messages, screening
from sparsemean._fit.data import FitData, Values
from sparsemean._fit.power import CANNOT
from sparsemean._fit.refinement import Refinement
from sparsemean._fit.screening import ScreeningResult
from sparsemean._kernels.memory_layout import one_blas_thread
from sparsemean._stats import planning
from sparsemean._stats.arrays import namespace, on_host
from sparsemean._stats.decision import Decision
from sparsemean._stats.effects import CENTRE, PAIRS, UNKNOWN, GroupEffects
from sparsemean._util.checks import unit_name
from sparsemean._util.plans import Plan
from sparsemean._util.records import Counts, FloatArray, IntArray, MeanTest, Sample, Status, Uncertified
from sparsemean.result import Estimate, Located

NO_MORE = Sample()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OneSample(ABC):
    """What `Centres` and `Means` share: one contrast, and rows that are judged about the medians of columns."""

    data: FitData
    decision: Decision
    method: Refinement = None
    """How values on the support are refined."""
    notes: tuple[str, ...] = ()
    rows: ScreeningResult | None = None
    """How rows were judged; None where it was named how many are bad: then that is done off the support."""
    options: Mapping[str, Any] | None = None
    """Those of `planning.plan_fit`, for a plan of the rows that are left; none where these are not looked at again."""
    counts: Counts | None = None
    beta: FloatArray | None = None
    test: MeanTest | None = None
    sample: Sample | None = None
    """What is kept of the rows; by default their subjects and buckets."""
    measure: ClassVar[int] = CENTRE
    """What values are, unless they are shares of pairs."""

    @abstractmethod
    def values(self, data: FitData) -> tuple[Decision, Values]:
        """Return the support less columns that hold one value only, and what the rest is worth by all rows."""

    @staticmethod
    @abstractmethod
    def worth(estimate: Estimate, data: FitData, features: IntArray) -> tuple[FloatArray, IntArray]:
        """Return values of any features of an estimate, and what they are; NaN of those that have none."""

    @staticmethod
    @abstractmethod
    def intervals(estimate: Estimate, data: FitData, columns: IntArray, error: float) -> FloatArray:
        """Return intervals of any features of an estimate, each at ``error``."""

    def centres(self, mean: FloatArray) -> FloatArray:
        """Return what rows are judged about, given values on the support."""
        return mean

    @abstractmethod
    def remarks(self, data: FitData, decision: Decision, values: Values, skewed: IntArray | None) -> Iterable[str]:
        """Return what there is to say of the test and the selected features."""

    def uncertified(
        self, data: FitData, rows: ScreeningResult, decision: Decision, progress: Progress | None
    ) -> tuple[Uncertified, int] | None:
        """Return features that only the rows left show, where some were rejected, and how many these select."""
        del data, rows, decision, progress
        return None

    def strength(self) -> tuple[FloatArray, IntArray]:
        """Return sums as shares of the largest that there can be; or β₀ at the bucket size at which signs show most."""
        if self.beta is not None:
            return self.beta, namespace(self.beta).ones(self.beta.size, dtype=np.intp)
        assert self.counts is not None
        evidence: Any = self.decision.evidence
        by_signs = self.data.plan.question.test == "buckets" and not self.data.plan.min_effect
        return strongest_signs(self.data.plan, self.counts, evidence if by_signs else None)

    def to_host(self) -> Self:
        """Take what an estimate needs from a device."""
        return on_host(self)

    def judged(self) -> Self:
        """Judge rows, and decide again for as many bad ones as lie off together, unless someone has named a share.

        A fifth of all are allowed for at most. The rule has no part in it. A feature that is selected for so many is
        real or more are bad, for all numbers at once: so they may be chosen by looking at the rows.
        """
        if not self.data.plan.auto:
            return self
        decision = replace(self.decision, support=on_host(self.decision.support))
        with one_blas_thread():
            found = replace(self, rows=screening.screen_first(self.data.keep(decision.support), decision, self.counts))
        assert found.rows is not None
        seen, speaking, plan = found.rows.rows, found.rows.speaking, self.data.plan
        bad = min(seen.aligned + seen.unnamed, int(planning.MOST_ALLOWED * plan.n_units))
        plan = replace(plan, bad_rows=bad, contamination=bad / plan.n_units)
        if plan.bad_rows and plan.question.target == "mean" and plan.question.scale is None:
            return replace(found, notes=(messages.NOT_ALLOWED_FOR, *self.notes))
        found = replace(found, data=replace(self.data, plan=plan))
        if seen.unnamed:
            said = messages.UNNAMED.format(
                count=seen.unnamed, unit=unit_name(self.data.units),
                columns=messages.named(self.data.table, speaking),
            )  # fmt: skip
            found = replace(found, notes=(said, *self.notes))
        if not plan.bad_rows:
            return found
        decision = self.decision.at((plan.bad,))
        return replace(found, decision=replace(decision, support=on_host(decision.support)))

    def estimate(self, *, began: float, progress: Progress | None = None) -> Estimate:
        """Value what is selected by all rows, judge rows, refine by those that are left, and build the estimate."""
        plan, method, table = self.data.plan, self.method, self.data.table
        refining, recounting = parts_of(progress, (0.2 * (method is not None), 0.8 * plan.question.screen_rows))
        data = self.data.keep(self.decision.support)
        decision, values = self.values(data)
        support, data = decision.support, replace(data, nonzero=values.nonzero)
        with one_blas_thread():
            rows = self.rows or screening.screen(data, support)
            located = screening.refine_values(data, rows, support, values=values, method=method, progress=refining)
            if not plan.auto:
                rows = screening.screen_on_support(data, rows, support, mean=self.centres(located.mean))
            skewed = None if self.counts is None else screening.flag_skewed(data, rows, support)
            alike = screening.neighbours_alike(data, rows, support)
        notes = (
            *messages.of_dependence(*alike, data.units, table),
            *self.notes,
            *self.remarks(data, decision, values, skewed),
            *located.notes,
            *(() if self.options is not None or not rows.rows.suspects.size else (messages.NOT_LOOKED_FOR,)),
        )
        mean, ends, measure = located.mean.copy(), values.intervals, np.full(plan.n_features, UNKNOWN)
        measure[support] = self.measure
        if values.pairs is not None and plan.question.selection != "paper":
            at = values.at_null
            mean[at], ends[at], measure[at] = values.pairs[0], values.pairs[1:].T, PAIRS
        left = None
        if self.options is not None and planning.MIN_ROWS <= rows.kept.size < plan.n_units:
            left = self.uncertified(data, rows, decision, recounting)
        sample = self.sample or Sample(units=data.units, bucket_of_row=data.buckets.partition.bucket_of_row)
        found = build_estimate(
            plan, decision, table=table, began=began, notes=notes, values=(mean, ends, measure),
            status={
                "screening": rows.how, "refinement": located.how, "iterations": located.iterations,
                "converged": located.converged,
            },
            seed=data.seed, rows=rows.rows, uncertified=None if left is None else left[0],
            skewed=skewed, checksum=table.source.early_checksum(support), sample=sample, counts=self.counts,
            strength=self.beta, mean_test=self.test,
        )  # fmt: skip
        if left is not None and plan.auto:  # what `without_suspects` selects, which a verdict need not fit again
            vars(found)["_without"] = [left[1]]
        return found


def build_estimate(
    plan: Plan,
    decision: Decision,
    *,
    table: Table,
    began: float,
    notes: Iterable[str],
    values: tuple[FloatArray, FloatArray, IntArray],
    status: Mapping[str, Any] | None = None,
    skewed: IntArray | None = None,
    effects: GroupEffects | None = None,
    uncertified: Uncertified | None = None,
    sample: Sample = NO_MORE,
    **parts: Any,
) -> Estimate:
    """Put an estimate together, of one sample or of one contrast; ``values`` are means, intervals and what they are."""
    skewed = np.full(plan.n_features, -1, dtype=np.intp) if skewed is None else skewed
    return Estimate(
        decision=decision,
        plan=plan,
        status=Status(
            messages=tuple(sorted((*table.notes, *notes), key=lambda note: CANNOT not in note)),  # that comes first
            test=messages.how_tested(plan),
            seconds=time.perf_counter() - began,
            versions=messages.versions(),
            **(status or {}),
        ),
        located=Located(decision.support, *values, skewed, effects, uncertified),
        sample=replace(sample, feature_names=table.feature_names, theta=table.theta),
        source=table,
        **parts,
    )


def parts_of(progress: Progress | None, shares: tuple[float, ...]) -> list[Progress | None]:
    """Return what each part of the work reports to, given how much of the whole it is."""
    if progress is None:
        return [None] * len(shares)
    ends = np.cumsum((0.0, *shares)) / (sum(shares) or 1.0)

    def part(first: float, last: float) -> Progress:
        return lambda share: progress(first + share * (last - first))

    return [part(first, last) for first, last in pairwise(ends)]
