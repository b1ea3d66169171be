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
from typing import Any, Protocol, Self

import numpy as np

from sparsemean._counts.engines import Progress
from sparsemean._data.table import Table
from sparsemean._fit import messages, screening
from sparsemean._fit.data import FitData, Values
from sparsemean._fit.refinement import Refinement
from sparsemean._fit.screening import ScreeningResult
from sparsemean._kernels.memory_layout import one_blas_thread
from sparsemean._stats import planning
from sparsemean._stats.arrays import on_host
from sparsemean._stats.decision import Decision
from sparsemean._stats.effects import GroupEffects
from sparsemean._util.plans import Plan
from sparsemean._util.records import Counts, FloatArray, IntArray, Sample, Status, Uncertified
from sparsemean.result import Estimate, Located

NO_MORE = Sample()


class Found(Protocol):
    """What was counted, and what is selected by it: of one sample, or of all contrasts between groups."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each contrast."""
        ...

    @property
    def decision(self) -> Decision:
        """What is selected, in all contrasts together."""
        ...

    @property
    def seed(self) -> int:
        """What was drawn with."""
        ...

    def strength(self, contrast: int) -> tuple[FloatArray, IntArray]:
        """Return to which side each feature leans and how far, and at which bucket size."""
        ...

    def to_host(self) -> Self:
        """Take what an estimate needs from a device."""
        ...

    def score_rows(self) -> Any:
        """Judge rows; None of one sample whose bad rows were named: these are judged off the support, once it is known.

        The rule has no part in it.
        """
        ...

    def allowing(self, rows: Any) -> Self:
        """Decide again for as many bad rows as look bad, unless someone has named a share.

        A feature that is selected for so many is real or more are bad, for all numbers at once: so they may be chosen
        by looking at the rows.
        """
        ...

    def estimate(self, contrast: int, rows: Any, *, began: float, progress: Progress | None = None) -> Estimate:
        """Locate what is selected in a contrast, and build its estimate."""
        ...


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OneSample(ABC):
    """What `Centres` and `Means` share: one contrast, and rows that are judged about the medians of columns."""

    data: FitData
    decision: Decision
    method: Refinement = None
    """How values on the support are refined."""
    notes: tuple[str, ...] = ()

    @abstractmethod
    def strength(self, contrast: int = 0) -> tuple[FloatArray, IntArray]:
        """Return to which side each feature leans and how far, and at which bucket size."""

    @abstractmethod
    def values(self, data: FitData) -> tuple[Decision, Values]:
        """Return the support less columns that hold one value only, and what the rest is worth by all rows."""

    @abstractmethod
    def remarks(self, data: FitData, decision: Decision, values: Values, skewed: IntArray | None) -> Iterable[str]:
        """Return what there is to say of the test and the selected features."""

    @abstractmethod
    def parts(self, data: FitData, decision: Decision) -> dict[str, Any]:
        """Return what only estimates of this kind have."""

    def uncertified(
        self, data: FitData, rows: ScreeningResult, decision: Decision, progress: Progress | None
    ) -> Uncertified | None:
        """Return features that only the rows left after screening show, where these are looked for."""
        del data, rows, decision, progress
        return None

    @property
    def looks_again(self) -> bool:
        """Whether features are looked for among the rows that are left."""
        return False

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of the only contrast."""
        return (self.data.plan,)

    @property
    def seed(self) -> int:
        """What was drawn with."""
        return self.data.seed

    def to_host(self) -> Self:
        """Take what an estimate needs from a device."""
        return on_host(self)

    def score_rows(self) -> ScreeningResult | None:
        """Judge rows by all columns, about their medians; None where it was named how many are bad."""
        if not self.data.plan.auto:
            return None
        decision = replace(self.decision, support=on_host(self.decision.support))
        with one_blas_thread():
            return screening.screen_first(self.data.keep(decision.support), decision)

    def allowing(self, rows: ScreeningResult | None) -> Self:
        """Decide again for as many bad rows as lie off together."""
        if rows is None:
            return self
        plan = planning.allow_for(self.data.plan, rows.rows.aligned)
        found = replace(self, data=replace(self.data, plan=plan))
        if not plan.bad_rows:
            return found
        if plan.question.target == "mean" and plan.question.scale is None:
            return replace(self, notes=(messages.NOT_ALLOWED_FOR, *self.notes))
        decision = self.decision.at((plan.bad,))
        return replace(found, decision=replace(decision, support=on_host(decision.support)))

    def estimate(
        self,
        contrast: int = 0,  # noqa: ARG002
        rows: ScreeningResult | None = None,
        *,
        began: float,
        progress: Progress | None = None,
    ) -> Estimate:
        """Value what is selected by all rows, judge rows, refine by those that are left, and build the estimate."""
        plan, method, table = self.data.plan, self.method, self.data.table
        refining, recounting = parts_of(progress, (0.2 * (method is not None), 0.8 * plan.question.screen_rows))
        data = self.data.keep(self.decision.support)
        decision, values = self.values(data)
        support, data = decision.support, replace(data, nonzero=values.nonzero)
        with one_blas_thread():
            rows = rows or screening.screen(data, support)
            located = screening.refine_values(data, rows, support, values=values, method=method, progress=refining)
            if not plan.auto:
                rows = screening.screen_on_support(data, rows, support, mean=located.mean)
            skewed = None if plan.question.target == "mean" else screening.flag_skewed(data, rows, support)
            alike = screening.neighbours_alike(data, rows, support)
        notes = (
            *messages.of_dependence(*alike, data.units, table),
            *self.remarks(data, decision, values, skewed),
            *located.notes,
            *messages.of_numbering(plan),
            *(() if self.looks_again or not rows.rows.suspects.size else (messages.NOT_LOOKED_FOR,)),
        )
        return build_estimate(
            plan, decision, table=table, began=began, notes=notes, values=(located.mean, values.intervals),
            status={
                "screening": rows.how, "refinement": located.how, "iterations": located.iterations,
                "converged": located.converged,
            },
            seed=data.seed, rows=rows.rows, uncertified=self.uncertified(data, rows, decision, recounting),
            skewed=skewed, checksum=table.source.early_checksum(support), **self.parts(data, decision),
        )  # fmt: skip


def estimates(found: Found, *, began: float, progress: Iterable[Progress | None]) -> list[Estimate]:
    """Score rows, decide for as many bad ones as look bad unless someone has named a share, and build the estimates."""
    found = found.to_host()
    rows = found.score_rows()
    found = found.allowing(rows)
    return [found.estimate(k, rows, began=began, progress=part) for k, part in enumerate(progress)]


def build_estimate(
    plan: Plan,
    decision: Decision,
    *,
    table: Table,
    began: float,
    notes: Iterable[str],
    values: tuple[FloatArray, FloatArray],
    status: Mapping[str, Any] | None = None,
    skewed: IntArray | None = None,
    effects: GroupEffects | None = None,
    uncertified: Uncertified | None = None,
    sample: Sample = NO_MORE,
    counts: Counts | None = None,
    strength: FloatArray | None = None,
    **parts: Any,
) -> Estimate:
    """Put an estimate together, of one sample or of one contrast; ``values`` are means and intervals."""
    skewed = np.full(plan.n_features, -1, dtype=np.intp) if skewed is None else skewed
    return Estimate(
        decision=decision,
        plan=plan,
        status=Status(
            messages=(*table.notes, *notes),
            test=messages.how_tested(plan),
            seconds=time.perf_counter() - began,
            versions=messages.versions(),
            **(status or {}),
        ),
        located=Located(decision.support, *values, skewed, effects, uncertified),
        counts=counts,
        strength=strength,
        sample=replace(sample, feature_names=table.feature_names, theta=table.theta),
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
