"""The rows of one fit and how they are dealt; everything that reads them again goes through here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparsemean._counts import engines
from sparsemean._data.source import TAKEN_AT_ONCE, ColumnCache
from sparsemean._data.table import Table
from sparsemean._stats import path
from sparsemean._stats.buckets import assign_buckets
from sparsemean._util.records import Counts, FloatArray, IntArray, Partition, Plan

RUN = 32
"""Neighbouring columns that are read together when columns are sampled: single ones would touch as much memory."""


@dataclass(frozen=True, slots=True, eq=False)
class FitData:
    """The rows and how they are dealt; ``units`` numbers the subject of each row where rows come in groups."""

    table: Table
    partition: Partition
    plan: Plan
    shift: FloatArray | None
    units: IntArray | None
    n_jobs: int | None
    missing: bool = False
    """Whether NaN is a value that is not there, to be left out."""

    def count(self, progress: Callable[[float], None] | None = None) -> Counts:
        """Read every value once and count signs."""
        return self._count(None, progress)[0]

    def counted(self, columns: IntArray, progress: Callable[[float], None] | None = None) -> tuple[Counts, FitData]:
        """Count signs, and return a reading that kept ``columns`` as they came by unless all lies in memory anyway."""
        source = self.table.source
        counts, kept = self._count(None if source.in_memory else columns, progress)
        data = self if kept is None else self._of(ColumnCache(source, columns, kept))
        return counts, replace(data, missing=counts.missing is not None)

    def _count(
        self, keep: IntArray | None, progress: Callable[[float], None] | None
    ) -> tuple[Counts, FloatArray | None]:
        return engines.count(
            self.table, self.partition, keep=keep, shift=self.shift, missing=self.missing, n_jobs=self.n_jobs,
            progress=progress,
        )  # fmt: skip

    def means(self, columns: IntArray, work: engines.Work, depth: int = 1) -> FloatArray:
        """Put side by side what ``work`` makes of the bucket means of ``columns``; an empty bucket's is NaN."""
        return engines.map_means(
            self.table, self.partition, columns, work, depth=depth, shift=self.shift, missing=self.missing,
            n_jobs=self.n_jobs,
        )  # fmt: skip

    def walked(self, columns: IntArray, t: int) -> FloatArray:
        """Return μ̂ of ``columns`` after t steps."""
        scales = {"alpha": self.plan.alpha, "eta": self.plan.eta}
        values = self.means(columns, lambda levels, _: path.walk(levels[0], **scales, times=(t,)))
        return np.asarray(values[0])

    def values(self, columns: IntArray) -> FloatArray:
        """Return ``columns`` less their null values: a row for each subject, its mean, where rows come in groups.

        What is missing is NaN: a value, or every value of a subject.
        """
        rows = self.table.source.take(columns)
        if self.units is not None:
            sums, counts = np.zeros((2, self.plan.n_units, columns.size))
            gaps = np.isnan(rows)
            np.add.at(sums, self.units, np.where(gaps, 0.0, rows))
            np.add.at(counts, self.units, ~gaps)
            with np.errstate(invalid="ignore"):
                rows = sums / counts
        rows = np.ascontiguousarray(rows)  # sums then have one order, whatever the layout of the table
        return rows if self.shift is None else rows - self.shift[columns]

    def bucket_means(self, columns: IntArray) -> FloatArray:
        """Return the means of ``columns`` over the largest buckets."""
        level = self.partition.wanted[-1]
        return self.means(columns, lambda levels, _: levels[level], level + 1)

    def sample(self, most: int, rng: np.random.Generator) -> IntArray:
        """Return about ``most`` columns, all where there are no more, in runs drawn at random."""
        d = self.plan.n_features
        if d <= most:
            return np.arange(d)
        strata = np.linspace(0, d - RUN, most // RUN + 1)
        first = rng.uniform(strata[:-1], strata[1:]).astype(np.intp)
        return np.unique(first[:, np.newaxis] + np.arange(RUN))

    def holding(self, columns: IntArray) -> FitData:
        """Return a reading that keeps ``columns`` too, read now; not if they lie in memory or are too many to hold."""
        source = self.table.source
        looked_at_whole = self.plan.refine or self.plan.screen_rows
        few = columns.size * self.plan.n_rows <= TAKEN_AT_ONCE
        if not isinstance(source, ColumnCache) or not (few or looked_at_whole):
            return self
        return self._of(source.adding(columns))

    def _of(self, source: ColumnCache) -> FitData:
        return replace(self, table=replace(self.table, source=source))

    def kept(self, plan: Plan, seed: int, units: IntArray) -> FitData:
        """Return the reading of the rows of some ``units`` only (rows, where there are no groups), dealt anew."""
        numbers = np.full(self.plan.n_units, -1, dtype=np.intp)
        numbers[units] = np.arange(units.size)
        rows = units if self.units is None else np.flatnonzero(numbers[self.units] >= 0)
        dealt = assign_buckets(plan, seed, None if self.units is None else numbers[self.units[rows]])
        return replace(self, partition=dealt.of_rows(rows), plan=plan)
