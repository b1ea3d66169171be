"""From evidence to an estimate, the same for one sample and for groups, for centres and for means.

Rows are prepared and counted, and evidence is made of that, by each kind of fit: `Centres`, `Means` and `Groups`. Here
is what they have in common: rows are scored, what holds for as many bad rows as look bad is decided, features are
located, and the estimate is built.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np

from sparsemean._counts.engines import Progress
from sparsemean._data.table import Table
from sparsemean._fit import messages, screening
from sparsemean._fit.data import FitData
from sparsemean._kernels.memory_layout import one_blas_thread
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


class OneSample:
    """What `Centres` and `Means` share: one contrast, and rows that are judged about the medians of columns."""

    __slots__ = ()
    data: FitData
    decision: Decision

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of the only contrast."""
        return (self.data.plan,)

    @property
    def seed(self) -> int:
        """What was drawn with."""
        return self.data.seed

    def score_rows(self) -> screening.ScreeningResult | None:
        """Judge rows by all columns, about their medians; None where it was named how many are bad."""
        if not self.data.plan.auto:
            return None
        decision = replace(self.decision, support=on_host(self.decision.support))
        with one_blas_thread():
            return screening.screen_first(self.data.keep(decision.support), decision)


def estimates(found: Found, *, began: float, progress: Iterable[Progress | None]) -> list[Estimate]:
    """Score rows, decide for as many bad ones as look bad unless someone has named a share, and build the estimates."""
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
