"""The rows of one fit and how they are assigned to buckets; everything that reads them again goes through here."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sparsemean._data.source import TAKEN_AT_ONCE, ColumnCache, Source
from sparsemean._data.table import Table
from sparsemean._evidence.counting.engines import Progress, Work, engine_of
from sparsemean._evidence.signed_ranks import RankSums, rank_sums
from sparsemean._kernels import rounding
from sparsemean._kernels.compiling import plainly
from sparsemean._kernels.memory_layout import Array, count_threads, cut, each
from sparsemean._stats import path
from sparsemean._stats.arrays import take, transposed
from sparsemean._stats.buckets import assign_buckets
from sparsemean._stats.signed_ranks import caps_of
from sparsemean._util.plans import Plan
from sparsemean._util.records import BucketSpec, Counts, FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean._data.dask import Dask
    from sparsemean._evidence.trend import Against
    from sparsemean._fit.by_workers import Columns, HeldColumns

SPREAD = 500_000
"""Rows of a dask array beyond which columns stay with the workers: 32 of them, which judge rows, would be 128 MB."""
RANKED_AT_ONCE, LEAST_AT_ONCE = 250_000, 16
"""Values, and columns, that a thread ranks together: they stay near."""


def one_valued(data: FitData, columns: IntArray, counts: Counts | None = None) -> IntArray:
    """Return which of ``columns`` hold one value only in the rows that are looked at, of which there may be counts."""
    rows = data.chosen
    if rows is not None and data.units is not None:
        rows = np.flatnonzero(np.isin(data.units, rows))
    if counts is not None:  # buckets of such a column have one sign, or none
        buckets, (positive, negative) = counts.buckets(0), (counts.positive[0], counts.negative[0])
        buckets = buckets if isinstance(buckets, int) else take(buckets, columns)
        signs = np.maximum(take(positive, columns), take(negative, columns))
        columns = columns[(signs == buckets) | (signs == 0)]
    found = [columns[:0]]
    for piece, every in data.source.takes_of(columns):
        values = every if rows is None else every[rows]
        found.append(piece[np.fmin.reduce(values) == np.fmax.reduce(values)])
    return np.concatenate(found)


def refuse_dask(table: Table) -> None:
    """Refuse what workers hold for a rule that reads columns in the order of their strength."""
    if table.source.engine == "dask":
        raise InputError("selection", "be 'fwer', 'fdr' or 'fdr_by' for Dask data", "'maxt'", "or pass X.compute()")


class RowReader:
    """Rows of some columns of an array in memory, given like an array gives its rows; none is held."""

    def __init__(self, data: FitData, values: Array, columns: IntArray, about: FloatArray | None = None) -> None:
        self.data, self.values, self.columns, self.about = data, values, columns, about
        self.shape = (int(values.shape[0]), int(columns.size))

    def __getitem__(self, at: slice | IntArray) -> FloatArray:
        from sparsemean._kernels.columns import gather

        rows = np.arange(*at.indices(self.shape[0])) if isinstance(at, slice) else at
        values = self.data.values(self.columns, gather(self.values, rows, self.columns))
        if self.about is not None:
            with np.errstate(over="ignore"):  # what is too far is infinite, and judged so
                values -= self.about
        return values


@dataclass(frozen=True, slots=True, eq=False)
class FitData:
    """The rows and their buckets; ``units`` numbers the subject of each row where rows come in groups."""

    table: Table
    buckets: BucketSpec
    plan: Plan
    source: Source
    """What single columns are read from: the table's, or where some are kept if the table does not lie in memory."""
    seed: int = 0
    units: IntArray | None = None
    n_jobs: int | None = None
    spread: bool = False
    """Whether columns are too long to be put together here, and stay with workers."""
    chosen: IntArray | None = None
    """The units that are looked at; None for all."""
    nonzero: IntArray | None = None
    """Features of which `values` are those that are not the null value: others are missing."""
    against: Against | None = None
    """What a trend is about."""

    @classmethod
    def of(
        cls, table: Table, plan: Plan, *, seed: int, units: IntArray | None = None, n_jobs: int | None = None,
        against: Against | None = None,
    ) -> FitData:  # fmt: skip
        """Assign the rows of a table to buckets."""
        partition, question = assign_buckets(plan, seed, units), plan.question
        source = table.source
        buckets = BucketSpec(partition, question.null, question.missing == "omit", source.precision)
        spread = source.engine == "dask" and source.shape[0] > SPREAD and units is None
        return cls(table, buckets, plan, source, seed=seed, units=units, n_jobs=n_jobs, spread=spread, against=against)

    def columns(self, columns: IntArray, *, kept: IntArray | None = None, about: FloatArray | None = None) -> Columns:
        """Return `values` of some rows, ``about`` numbers of their own, where workers have them."""
        held = cast("HeldColumns", self.source)
        flags = None if kept is None or kept.size == self.plan.n_units else np.zeros(self.plan.n_units, dtype=bool)
        if flags is not None:
            flags[kept] = True
        offset = self.offset(columns) if about is None else self.offset(columns) + about
        return held.columns(columns, kept=flags, about=offset, nonzero=self.nonzero)

    def count(self, keep: IntArray | None = None, progress: Progress | None = None) -> tuple[Counts, FitData]:
        """Read every value once and count signs; ``keep`` columns as they come by unless all lies in memory anyway."""
        source = self.table.source
        kept = None if source.in_memory or self.spread else keep
        counts, values = engine_of(source, self.n_jobs, progress).count(self.table, self.buckets, keep=kept)
        if keep is None:
            return counts, self
        source = source if values is None else ColumnCache(source, keep, values)
        if self.spread:
            from sparsemean._fit.by_workers import HeldColumns

            source = HeldColumns(cast("Dask", source))
        buckets = replace(self.buckets, skip_missing=counts.missing is not None)
        return counts, replace(self, source=source, buckets=buckets)

    def means(self, columns: IntArray, work: Work, depth: int = 1) -> FloatArray:
        """Put side by side what ``work`` makes of the bucket means of ``columns``; an empty bucket's is NaN."""
        engine = engine_of(self.table.source, self.n_jobs)
        return engine.map_means(self.source, self.buckets, columns, work=work, depth=depth)

    def walk(self, columns: IntArray, t: int) -> FloatArray:
        """Return μ̂ of ``columns`` after t steps."""
        scales = {"alpha": self.plan.walk.alpha, "eta": self.plan.walk.eta}
        values = self.means(columns, lambda levels, _: path.walk(levels[0], **scales, times=(t,)))
        return np.asarray(values[0])

    def offset(self, columns: IntArray) -> FloatArray:
        """Return the null values of ``columns``."""
        return np.zeros(columns.size) if self.buckets.null is None else self.buckets.null[columns]

    def values(self, columns: IntArray, rows: FloatArray | None = None) -> FloatArray:
        """Return ``columns`` less their null values: a row for each subject, its mean, where rows come in groups.

        What is missing is NaN: a value, every value of a subject, or the null value in columns of which only the rest
        is looked at. ``rows`` are some that were read, where they come in no groups.
        """
        rows = self.source.take(columns) if rows is None else rows
        if self.units is not None:
            rows = self.of_units(columns, rows)
        else:
            rows = np.ascontiguousarray(rows)  # sums then have one order, whatever the layout of the table
            if self.buckets.null is not None:
                rows = rounding.centred(rows, self.buckets.null[columns], self.buckets.precision)
        if self.nonzero is not None and self.nonzero.size:
            at = np.flatnonzero(np.isin(columns, self.nonzero))
            rows[:, at] = np.where(rows[:, at] == 0, np.nan, rows[:, at])
        return rows

    def rows_of(self, columns: IntArray, about: FloatArray | None = None) -> Any:
        """Return `values` less a number each: where they lie, on a device, if nothing is missing; or a `RowReader`.

        The latter reads rows of them from an array of many values in memory.
        """
        if self.table.source.engine == "gpu":
            from sparsemean._fit.device_values import columns_there

            if (there := columns_there(self, columns, about)) is not None:
                return there
        native = self.source.native
        if native is not None and self.units is None and not plainly(native.size):
            return RowReader(self, native, columns, about)
        return self.values(columns) if about is None else self.values(columns) - about

    def shifted(self, by: float) -> FitData:
        """Return the same rows with null values that are larger by a number."""
        null = np.zeros(self.plan.n_features) if self.buckets.null is None else self.buckets.null
        null = rounding.difference(null, -by, rounding.DOUBLE)
        return replace(self, buckets=replace(self.buckets, null=null), nonzero=None)

    def rank_sums(self, columns: IntArray, *, keep_zeros: bool = False) -> RankSums:
        """Rank the values of ``columns`` less their null values, or the means of subjects."""
        caps, rows = caps_of(self.plan.n_units), 1 if self.units is None else int(np.bincount(self.units).max())
        # A mean is off by more than a value, as its sum is.
        precision = self.buckets.precision + rounding.DOUBLES * rows / rounding.ROUNDING
        found, native = [rank_sums(np.empty((self.plan.n_units, 0)), caps)], self.source.native
        plain = native is None or self.units is not None or self.buckets.null is not None or plainly(native.size)
        at_once = max(LEAST_AT_ONCE, RANKED_AT_ONCE // self.plan.n_rows)

        kept = slice(None) if self.chosen is None else self.chosen
        if native is not None and not plain:
            found += each(
                lambda part: rank_sums(transposed(native, columns[part])[:, kept].T, caps, keep_zeros=keep_zeros),
                cut(columns.size, at_once), count_threads(self.n_jobs),
            )  # fmt: skip
        for piece in self.source.taken_together(columns) if plain else ():
            values = self.values(piece)[kept]
            tasks = [
                partial(
                    rank_sums, values[:, part], caps, keep_zeros=keep_zeros, precision=precision,
                    subtracted=None if self.buckets.null is None else self.buckets.null[piece[part]],
                )
                for part in cut(piece.size, at_once)
            ]  # fmt: skip
            found += each(operator.call, tasks, count_threads(self.n_jobs))
        return RankSums(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))

    def bucket_means(self, columns: IntArray) -> FloatArray:
        """Return the means of ``columns`` over the largest buckets."""
        level = self.buckets.partition.wanted[-1]
        return self.means(columns, lambda levels, _: levels[level], level + 1)

    def of_units(self, columns: IntArray, rows: FloatArray) -> FloatArray:
        """Return the means of subjects less null values; NaN where none of their values is there."""
        assert self.units is not None
        gaps = np.isnan(rows)
        away = np.where(gaps, 0.0, rows if self.buckets.null is None else rows - self.buckets.null[columns])
        sums, counts, sizes = np.zeros((3, int(self.units.max()) + 1, rows.shape[1]))
        np.add.at(sums, self.units, away)
        np.add.at(counts, self.units, ~gaps)
        if self.buckets.null is not None:
            np.add.at(sizes, self.units, np.abs(away))
            of_units = np.bincount(self.units)[:, np.newaxis]
            sums = rounding.settle(
                sums, sizes, self.buckets.null[columns], precision=self.buckets.precision, there=counts, rows=of_units
            )
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts)

    def keep(self, columns: IntArray) -> FitData:
        """Keep ``columns`` too, read now; not if they lie in memory or are too many to hold."""
        all_rows_needed = self.plan.question.refine or self.plan.question.screen_rows
        few = columns.size * self.plan.n_rows <= TAKEN_AT_ONCE
        if self.source is self.table.source or not (few or all_rows_needed):
            return self
        return replace(self, source=cast("ColumnCache | HeldColumns", self.source).adding(columns))

    def subset(self, plan: Plan, units: IntArray) -> FitData:
        """Return the rows of some ``units`` only (rows, where there are no groups), dealt anew."""
        rows, numbers = units, None
        if self.units is not None:
            place = np.full(self.plan.n_units, -1, dtype=np.intp)
            place[units] = np.arange(units.size)
            rows = np.flatnonzero(place[self.units] >= 0)
            numbers = place[self.units[rows]]
        buckets = replace(self.buckets, partition=assign_buckets(plan, self.seed, numbers).of_rows(rows))
        return replace(self, buckets=buckets, plan=plan, chosen=units, nonzero=None)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """What the support is worth before any refinement."""

    mean: FloatArray
    intervals: FloatArray
    constant: IntArray
    """Selected columns that hold one value only."""
    at_null: IntArray
    """Selected features without an interval, as it would end at the null value: many values are exactly that."""
    nonzero: IntArray
    """Selected features whose value and interval are of those of their values that are not the null value."""
    pairs: FloatArray | None = None
    """Of those `at_null`, where there are any: shares of pairs and both ends of their intervals, a row each."""
    how: str = ""
    """Where the values come from, in words, unless it goes without saying."""
