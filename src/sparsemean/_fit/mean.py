"""The mean itself: from a table to an Estimate by sums of a bounded influence, without buckets and without symmetry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from sparsemean._data import as_table
from sparsemean._data.source import AT_ONCE, Dense, find_non_finite
from sparsemean._data.table import Table
from sparsemean._evidence import means
from sparsemean._evidence.counting.engines import Progress, engine_of
from sparsemean._evidence.means import GroupColumns, GroupSums, MeanContrast
from sparsemean._fit import messages
from sparsemean._fit.data import FitData, Values, one_valued
from sparsemean._fit.pipeline import OneSample
from sparsemean._fit.power import CANNOT
from sparsemean._fit.refinement import Refinement
from sparsemean._kernels import influence
from sparsemean._kernels.memory_layout import cut
from sparsemean._stats import nulls
from sparsemean._stats.decision import Decision, decide_planned, error_after_selection
from sparsemean._stats.effects import MEANS
from sparsemean._util.checks import one_number_each, pluralize, unit_name
from sparsemean._util.plans import Plan
from sparsemean._util.records import CountArray, FloatArray, IntArray, MeanDifferenceTest, MeanTest, Sample
from sparsemean.errors import InputError
from sparsemean.result import Estimate

if TYPE_CHECKING:
    from sparsemean._fit.two_sample import Design


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Means(OneSample):
    """One sample whose means are tested: of which rows and how, and what sums of their influences decide."""

    table: Table
    """One row a subject."""
    test: MeanTest
    missing: CountArray
    beta: FloatArray
    measure: ClassVar[int] = MEANS

    @classmethod
    def of(cls, data: FitData, progress: Progress | None = None, *, method: Refinement = None, **_: Any) -> Means:
        """Fix the test, read every value once and select."""
        table = unit_table(data)
        everyone, unit = np.arange(data.plan.n_units), unit_name(data.units)
        scale = scale_of(
            data.plan, table, [everyone], codes=np.zeros_like(everyone), seed=data.seed, bad=data.plan.bad_rows > 0,
            unit=unit,
        )  # fmt: skip
        plan = replace(data.plan, scale_rows=scale.n_rows)
        test, rows = nulls.mean_test(plan, scale.bounds[0], scale.tested), None
        if scale.tested is not None:
            rows = np.isin(everyone, scale.tested)
        centres = means.centres_of(plan, data.buckets.null)
        spec = influence.InfluenceSpec(centres, test.unit, test.kappa, data.buckets.skip_missing)
        found = engine_of(table.source, data.n_jobs, progress).influence_sums(table, spec, rows=rows)
        evidence, beta = means.sum_evidence(plan, test, found.sums)
        return cls(
            data=replace(data, plan=plan), decision=decide_planned(evidence, plan), notes=tuple(scale.notes),
            method=None if method == "auto" else method,  # by default values are what the test is of
            table=table, test=test, missing=found.missing, beta=beta, sample=Sample(units=data.units),
        )  # fmt: skip

    def values(self, data: FitData) -> tuple[Decision, Values]:
        """Return the support less columns that hold one value only, and roots of sums with their intervals."""
        plan, d, support = data.plan, data.plan.n_features, self.decision.support
        same = one_valued(self.data, support)
        decision = self.decision.without(same) if same.size else self.decision
        support, none = decision.support, decision.support[:0]
        mean, ends = (np.zeros(d) if data.buckets.null is None else data.buckets.null.copy()), np.full((d, 2), np.nan)
        if not support.size:
            return decision, Values(mean, ends, same, none, none)
        error = error_after_selection(plan, support.size)
        found = inverted(self.table, support, test=self.test, error=error, plan=plan, n_jobs=data.n_jobs)
        mean[support], ends[support] = found[0], found[1:].T
        return decision, Values(mean, ends, same, none, none, how="root of the influence sum, from all rows")

    @staticmethod
    def worth(estimate: Estimate, data: FitData, features: IntArray) -> tuple[FloatArray, IntArray]:
        """Return roots of sums."""
        return _again(estimate, data, features, 0.5)[0], np.full(features.size, MEANS)

    @staticmethod
    def intervals(estimate: Estimate, data: FitData, columns: IntArray, error: float) -> FloatArray:
        """Return intervals of roots."""
        return _again(estimate, data, columns, error)[1:].T

    def remarks(self, data: FitData, decision: Decision, values: Values, skewed: IntArray | None) -> Iterator[str]:  # noqa: ARG002
        """Say where the scale is from and whether it holds, and what could not be tested."""
        yield from _too_wide(self, decision.support)
        if not decision.support.size:
            yield from mean_impossible(data.plan, self.test)
        yield from messages.of_columns(data.table, values.constant, messages.ONE_VALUE)
        if self.missing.any():
            yield from messages.of_missing(self.missing, self.test.n_units, data.table)


def _again(estimate: Estimate, data: FitData, columns: IntArray, error: float) -> FloatArray:
    assert estimate.mean_test is not None
    return inverted(unit_table(data), columns, test=estimate.mean_test, error=error, plan=estimate.plan)


def unit_table(data: FitData) -> Table:
    """Return the table itself, or one with the mean of every subject as its row."""
    if data.units is None:
        return data.table
    out, as_they_are = np.empty((data.plan.n_units, data.plan.n_features)), replace(data.buckets, null=None)
    of_subjects = replace(data, buckets=as_they_are, nonzero=None).of_units
    for columns, values in checked(data.table, data.buckets.skip_missing):
        out[:, columns] = of_subjects(columns, values)
    return replace(data.table, source=Dense(out), row_names=None)


def checked(table: Table, skip_missing: bool) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield all rows of some columns at a time, all of them numbers."""
    n, d = table.shape
    for part in cut(d, max(1, AT_ONCE // (8 * n)), 1):
        columns = np.arange(part.start, part.stop)
        values = table.source.take(columns)
        if place := find_non_finite(values, at=(0, part.start), skip_missing=skip_missing):
            raise table.non_finite_error(place, skip_missing=skip_missing)
        yield columns, values


# The scale: given, or taken from rows that are not tested.


class Scale(NamedTuple):
    """Upper bounds of standard deviations of one or several sets of rows, and where they are from."""

    bounds: list[FloatArray]
    notes: list[str]
    n_rows: int = 0
    """Rows that gave it."""
    tested: IntArray | None = None
    """The rows that are left to be tested; None for all."""

    @property
    def of_level(self) -> float:
        """The share of the level that is left for the test: bounds from rows may be too small."""
        return 1.0 - nulls.SCALE_SHARE if self.n_rows else 1.0


def scale_of(
    plan: Plan, table: Table, sets: Sequence[IntArray], *, codes: IntArray, seed: int, bad: bool, unit: str
) -> Scale:
    """Return the scale of some sets of rows: as given, from earlier data, or from half of the rows of every label."""
    scale = plan.question.scale
    if scale is not None:
        if np.ndim(scale) < 2 and not hasattr(scale, "columns"):
            return Scale([given_scale(scale, plan.n_features)] * len(sets), [])
        earlier = as_table(scale)
        bounds, notes = scale_from_earlier(earlier, plan)
        return Scale([bounds] * len(sets), notes, earlier.shape[0])
    refuse_without_scale(bad)
    drawn, tested = _halves(codes, seed)
    groups = len(sets) > 1
    half = f"{pluralize(int(drawn.size), unit)}{', half of each group' if groups else ''}"
    found, notes = [], [f"{half}, drawn by the seed, gave the scale; the other {tested.size:,} were tested"]
    for rows in sets:  # in the order drawn: pairs of rows cross labels
        own = drawn[np.isin(drawn, rows)]
        of = " of each group" if groups else ""
        bounds, said = scale_from_rows(table, own, plan, argument="X", of=of)
        found.append(bounds)
        notes += [note for note in said if note not in notes]
    return Scale(found, notes, int(drawn.size), tested)


def _halves(codes: IntArray, seed: int) -> tuple[IntArray, IntArray]:
    """Return half of the rows of every label, drawn by ``seed`` and in the order drawn, and the others."""
    order = np.random.default_rng((seed, 3)).permutation(codes.size)
    first = np.zeros(codes.size, dtype=bool)
    for label in range(int(codes.max()) + 1):
        own = order[codes[order] == label]
        first[own[: own.size // 2]] = True
    return order[first[order]], np.flatnonzero(~first)


def refuse_without_scale(bad: bool) -> None:
    """Refuse to take a scale from rows of which some may be bad."""
    if bad:
        advice = "pass an upper bound of the standard deviation (--scale), or earlier data to take it from"
        raise InputError("scale", "be given with target='mean' and contamination above 0", None, advice)


def scale_from_earlier(earlier: Table, plan: Plan) -> tuple[FloatArray, list[str]]:
    """Return upper bounds of standard deviations from earlier data, and what has to be said about them."""
    if earlier.shape[1] != plan.n_features or earlier.shape[0] < nulls.FEWEST_ROWS:
        rule = f"be {nulls.FEWEST_ROWS} rows or more of earlier data with the same {plan.n_features:,} columns"
        raise InputError("scale", rule, f"shape {earlier.shape}")
    drawn = np.random.default_rng(0).permutation(earlier.shape[0])
    return scale_from_rows(earlier, drawn, plan, argument="scale")


def given_scale(scale: Any, d: int) -> FloatArray:
    """Return one positive number for each feature."""
    bounds = one_number_each(scale, d, argument="scale")
    out = np.zeros(d) if bounds is None else bounds  # None stands for zero
    if not (np.isfinite(out) & (out > 0)).all():
        advice = "each is an upper bound of the standard deviation of a feature"
        raise InputError("scale", f"be a positive number, or {d:,} of them", _shown(scale), advice)
    return out


def _shown(scale: Any) -> str:
    return repr(scale) if np.ndim(scale) == 0 else f"{float(np.min(scale)):g} among them"


def scale_from_rows(
    table: Table, rows: IntArray, plan: Plan, *, argument: str, of: str = ""
) -> tuple[FloatArray, list[str]]:
    """Return upper bounds of standard deviations from pairs of rows, and what has to be said about them.

    Rows come in an order that was drawn: neighbours in a sorted file differ by next to nothing.
    """
    needed = nulls.rows_for_scale(plan)
    if rows.size // 2 * 2 <= needed:
        least = 2 * (math.floor(needed / 2) + 1)
        asked = 2 * least if argument == "X" else least
        rule = (
            f"have at least {asked:,} rows{of} for a scale to be taken from "
            f"{'half of them' if argument == 'X' else 'it'}"
        )
        received = f"{2 * rows.size if of else table.shape[0]:,}"
        raise InputError(argument, rule, received, "pass scale= (--scale), an upper bound of the standard deviation")
    variance, complete = np.empty(plan.n_features), np.empty(plan.n_features, dtype=np.intp)
    for columns, values in checked(table, plan.question.missing == "omit"):
        variance[columns], complete[columns] = nulls.pair_variance(values[rows])
    bounds = nulls.scale_bound(variance, complete, plan)
    notes = [
        f"the scale was taken from {pluralize(int(rows.size), 'row')}: standard deviations are assumed to be at most "
        f"{1 / math.sqrt(1 - math.sqrt(needed / (rows.size // 2 * 2))):.3g} times those seen there, which holds for a "
        f"kurtosis of at most {nulls.KURTOSIS:g} but for a tenth of the level"
    ]
    constant = np.flatnonzero(bounds == 0)
    if constant.size:
        notes.append(
            f"{constant.size:,} column(s) do not vary where the scale comes from and were not tested: "
            f"{messages.named(table, constant)}"
        )
    return bounds, notes


# Values and intervals on the support, then the estimate.


WIDE = 1.25
"""How far a standard deviation may lie above the scale by chance, before it is told of."""


def _too_wide(found: Means, support: IntArray) -> list[str]:
    """Say so, loudly, where selected features vary more than the scale that everything rests on.

    As many values as may be bad are left out, the farthest first.
    """
    test, wider, worst = found.test, [], 0.0
    scale = test.unit * math.sqrt(test.bias / (test.n_units * test.kappa))
    for columns, values in found.table.source.takes_of(support) if support.size else ():
        rows = values if test.rows is None else values[test.rows]
        with np.errstate(over="ignore"):  # an infinite spread is too wide
            away = np.sort((rows - np.nanmean(rows, axis=0)) ** 2, axis=0)  # NaN goes to the end
        spread = np.sqrt(np.nanmean(away[: away.shape[0] - found.data.plan.bad_rows], axis=0)) / scale[columns]
        wider.append(columns[spread > WIDE])
        worst = max(worst, float(np.nanmax(spread, initial=0.0)))
    wide = np.concatenate((np.empty(0, dtype=np.intp), *wider))
    if not wide.size:
        return []
    return [
        f"{wide.size} selected feature(s) VARY MORE THAN THE SCALE, up to {worst:.3g} times as much, so that no error "
        f"rate holds for them: give a larger scale: {messages.named(found.table, wide)}"
    ]


def inverted(
    table: Table, columns: IntArray, *, test: MeanTest, error: float, plan: Plan, n_jobs: int | None = None
) -> FloatArray:
    """Return the root and both ends of the interval of ``columns``, which are read now: a row each."""
    found = [np.empty((3, 0))]
    for piece, values in table.source.takes_of(columns):
        tested, unit = values if test.rows is None else values[test.rows], test.unit[piece]
        sums_of = partial(sums_about, table, tested, unit=unit, kappa=test.kappa, n_jobs=n_jobs)
        found.append(means.invert(tested, unit, sums_of, test=test, error=error, plan=plan))
    return np.concatenate(found, axis=1)


def sums_about(
    table: Table, values: FloatArray, centres: FloatArray, *, unit: FloatArray, kappa: float, n_jobs: int | None
) -> IntArray:
    """Return Σψ of columns of a table about centres, in steps of 2⁻³²."""
    if table.source.engine == "gpu":  # a machine with a device need not have compiled loops
        return np.asarray(influence.array_sums(values, centres, unit, kappa))
    spec = influence.InfluenceSpec(centres, unit, kappa, missing=True)
    return influence.dense_sums(values, spec, n_jobs=n_jobs).sums


def mean_impossible(plan: Plan, test: MeanTest) -> list[str]:
    """Say so where not even rows that all agree could make a feature selected."""
    needed = nulls.bound(test, plan.question.level / plan.n_hypotheses, plan.bad_rows)
    if test.n_units * nulls.psi_max(test.kappa) >= needed:
        return []
    least = nulls.rows_to_reject(plan, test)
    how = f"At least {least:,} are needed" if least > 0 else "With a quarter of them bad no number of rows is enough"
    return [f"{pluralize(test.n_units, 'row')} {CANNOT} another mean of any feature, whatever the data. {how}"]


# Groups: from a design to evidence, estimates and intervals.


def difference_evidence(
    design: Design, plans: Sequence[Plan], progress: Progress | None
) -> tuple[list[MeanContrast], tuple[str, ...], int]:
    """Fix every test and read all columns once; with what there is to say of the scale, and its rows.

    ``plans`` are those of the tests.
    """
    tests, scale = _tests(design, plans)
    table, d, request, contrasts = design.table, design.table.shape[1], design.question, design.contrasts
    rows = []
    for contrast, test in zip(contrasts, tests, strict=True):
        first, second = contrast.rows_of(design.codes)
        rows.append((_tested(first, test.rows), _tested(second, test.rows)))
    looks: list[list[means.Look]] = [[] for _ in tests]
    gaps = [np.zeros(d, dtype=np.int32) for _ in tests]
    for columns, values in checked(table, request.missing == "omit"):
        for at, test in enumerate(tests):
            groups = _groups_of(table, columns, values, rows[at], test, design.n_jobs)
            gaps[at][columns] = sum(np.isnan(part).sum(axis=0) for part in groups.values)
            looks[at].append(means.look(groups, side=request.side, min_effect=request.min_effect))
        if progress is not None:
            progress((columns[-1] + 1) / d)
    found = [
        MeanContrast(contrast, test, missing=gap, **{
            name: np.concatenate([getattr(look, name) for look in blocks]) for name in means.Look._fields
        })
        for contrast, test, gap, blocks in zip(contrasts, tests, gaps, looks, strict=True)
    ]  # fmt: skip
    return found, tuple(scale.notes), scale.n_rows


def differences(
    table: Table,
    rows: tuple[IntArray, IntArray],
    columns: IntArray,
    values: FloatArray,
    *,
    test: MeanDifferenceTest,
    n_jobs: int | None = None,
    **options: Any,
) -> FloatArray:
    """Return differences of means of some columns and both ends of their intervals, a row each."""
    first, second = rows
    of_groups = _tested(first, test.rows), _tested(second, test.rows)
    return means.invert_difference(_groups_of(table, columns, values, of_groups, test, n_jobs), **options).T


def difference_impossible(plan: Plan, test: MeanDifferenceTest) -> list[str]:
    """Say so where not even groups that lie far apart could make a feature differ."""
    slack = means.slack_of_sums(test, plan.bad)
    asked = math.log(test.factor * plan.n_hypotheses / plan.question.level) - means.LOG_JOINT
    weights, bias = np.array(test.weights), test.bias.max(axis=1, initial=0.0)
    if nulls.psi_max(test.kappa) * (weights @ np.array(test.sizes)) >= asked + weights @ bias + slack.joint:
        return []
    n1, n2 = test.sizes
    more = "More rows, or fewer bad ones, are needed"
    return [f"{n1:,} against {n2:,} rows {CANNOT} another mean of any feature, whatever the data. {more}"]


def _tested(rows: IntArray, tested: IntArray | None) -> IntArray:
    return rows if tested is None else np.intersect1d(rows, tested)


def _groups_of(
    table: Table, columns: IntArray, values: FloatArray, rows: tuple[IntArray, IntArray], test: MeanDifferenceTest,
    n_jobs: int | None,
) -> GroupColumns:  # fmt: skip
    """Return values of some columns, and what adds up influences of either group, in units of its own."""
    parts = np.asfortranarray(values[rows[0]]), np.asfortranarray(values[rows[1]])

    def of(group: int) -> GroupSums:
        def sums_of(some: IntArray, centres: FloatArray) -> IntArray:
            values = parts[group] if some.size == columns.size else parts[group][:, some]
            unit = test.unit[group, columns[some]]
            return sums_about(table, values, centres, unit=unit, kappa=test.kappa, n_jobs=n_jobs)

        return sums_of

    return GroupColumns(parts, columns, (of(0), of(1)), test)


# The scale of either group of every test.


def _tests(design: Design, plans: Sequence[Plan]) -> tuple[list[MeanDifferenceTest], Scale]:
    """Return the tests, and the scale that they rest on."""
    contrasts, request = design.contrasts, design.question
    groups = [
        (labels, rows)
        for contrast in contrasts
        for labels, rows in zip(((contrast.label,), contrast.labels), contrast.rows_of(design.codes), strict=True)
    ]
    sets = dict(groups)
    planned = replace(plans[0], n_tests=2 * len(contrasts))  # either group of every test has a bound that may be small
    scale = scale_of(
        planned, design.table, list(sets.values()), codes=design.codes, seed=design.seed, bad=any(request.at_first),
        unit="subject" if design.of_subjects else "row",
    )  # fmt: skip
    bounds = dict(zip(sets, scale.bounds, strict=True))
    tests = []
    for contrast, first, second in zip(contrasts, groups[::2], groups[1::2], strict=True):
        tests.append(
            means.difference_test(
                np.stack([bounds[labels] for labels, _ in (first, second)]),
                sizes=(_tested(first[1], scale.tested).size, _tested(second[1], scale.tested).size),
                bad=contrast.bad(request.at_first), sides=request.side.number,
                error=request.level / plans[0].n_hypotheses, of_level=scale.of_level, rows=scale.tested,
            )
        )  # fmt: skip
    return tests, scale
