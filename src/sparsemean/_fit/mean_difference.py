"""Groups compared by their means: from a design to evidence, estimates and intervals, whatever the skew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._counts.engines import Progress
from sparsemean._data.table import Table
from sparsemean._evidence import means
from sparsemean._evidence.means import GroupSums, MeanContrast
from sparsemean._evidence.ranks import Contrast
from sparsemean._fit import mean
from sparsemean._stats import nulls
from sparsemean._util.plans import Plan, Question
from sparsemean._util.records import FloatArray, IntArray, MeanDifferenceTest

if TYPE_CHECKING:
    from sparsemean._fit.two_sample import Design


def difference_evidence(
    design: Design,
    contrasts: Sequence[Contrast],
    request: Question,
    plans: Sequence[Plan],
    *,
    seed: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[MeanContrast], tuple[str, ...], int]:
    """Fix every test and read all columns once; with what there is to say of the scale, and its rows.

    ``plans`` are those of the tests.
    """
    tests, scale = _tests(design, contrasts, request, plans, seed)
    table, d = design.table, design.table.shape[1]
    rows = []
    for contrast, test in zip(contrasts, tests, strict=True):
        first, second = contrast.rows_of(design.codes)
        rows.append((_tested(first, test.rows), _tested(second, test.rows)))
    looks: list[list[means.Look]] = [[] for _ in tests]
    gaps = [np.zeros(d, dtype=np.int32) for _ in tests]
    for columns, values in mean.checked(table, np.arange(d), request.missing == "omit"):
        for at, test in enumerate(tests):
            parts = _parts(values, rows[at])
            gaps[at][columns] = sum(np.isnan(part).sum(axis=0) for part in parts)
            looks[at].append(
                means.look(
                    parts, columns, _sums_of(parts, columns, test, n_jobs, table), test=test,
                    side=request.side, min_effect=request.min_effect,
                )
            )  # fmt: skip
        if progress is not None:
            progress((columns[-1] + 1) / d)
    found = [
        MeanContrast(contrast, test, missing=gap, **{
            name: np.concatenate([getattr(look, name) for look in blocks]) for name in means.Look._fields
        })
        for contrast, test, gap, blocks in zip(contrasts, tests, gaps, looks, strict=True)
    ]  # fmt: skip
    return found, tuple(scale.notes), scale.n_rows


def located(
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
    parts = _parts(values, (_tested(first, test.rows), _tested(second, test.rows)))
    sums_of = _sums_of(parts, columns, test, n_jobs, table)
    return means.invert_difference(parts, columns, sums_of, test=test, **options).T


def nothing_possible(plan: Plan, test: MeanDifferenceTest) -> list[str]:
    """Say so where not even groups that lie far apart could make a feature differ."""
    slack = means.slack_of(test, plan.bad)
    asked = math.log(test.factor * plan.n_hypotheses / plan.question.level) - means.LOG_JOINT
    weights, bias = np.array(test.weights), test.bias.max(axis=1, initial=0.0)
    if nulls.psi_max(test.kappa) * (weights @ np.array(test.sizes)) >= asked + weights @ bias + slack.joint:
        return []
    n1, n2 = test.sizes
    return [f"no feature can be selected by means of {n1:,} and {n2:,} rows: more rows, or fewer bad ones, are needed"]


def _tested(rows: IntArray, tested: IntArray | None) -> IntArray:
    return rows if tested is None else np.intersect1d(rows, tested)


def _parts(values: FloatArray, rows: tuple[IntArray, IntArray]) -> tuple[FloatArray, FloatArray]:
    return np.asfortranarray(values[rows[0]]), np.asfortranarray(values[rows[1]])


def _sums_of(
    parts: tuple[FloatArray, FloatArray], columns: IntArray, test: MeanDifferenceTest, n_jobs: int | None, table: Table
) -> tuple[GroupSums, GroupSums]:
    """Return what adds up influences of either group, in units of its own."""

    def of(group: int) -> GroupSums:
        def sums_of(some: IntArray, centres: FloatArray) -> IntArray:
            values = parts[group] if some.size == columns.size else parts[group][:, some]
            unit = test.unit[group, columns[some]]
            return mean.sums_about(table, values, centres, unit=unit, kappa=test.kappa, n_jobs=n_jobs)

        return sums_of

    return of(0), of(1)


# The scale of either group of every test.


def _tests(
    design: Design, contrasts: Sequence[Contrast], request: Question, plans: Sequence[Plan], seed: int
) -> tuple[list[MeanDifferenceTest], mean.Scale]:
    """Return the tests, and the scale that they rest on."""
    groups = [
        (labels, rows)
        for contrast in contrasts
        for labels, rows in zip(((contrast.label,), contrast.labels), contrast.rows_of(design.codes), strict=True)
    ]
    sets = dict(groups)
    planned = replace(plans[0], n_tests=2 * len(contrasts))  # either group of every test has a bound that may be small
    scale = mean.scale_of(
        planned, design.table, list(sets.values()), codes=design.codes, seed=seed, bad=any(request.at_first),
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
