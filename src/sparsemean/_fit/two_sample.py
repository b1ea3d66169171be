"""Groups of rows: which labels are compared, selection over all tests, shifts, effects and suspect labels."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sparsemean._counts import ranks
from sparsemean._counts.engines import Progress
from sparsemean._data.gpu import where_it_lies
from sparsemean._data.source import Checksum, Source
from sparsemean._data.table import Table, as_names
from sparsemean._fit import designs, mean_difference, messages, one_sample
from sparsemean._fit.power_groups import groups_possible
from sparsemean._fit.suspects import labels_of, looking_bad, rows_off, suspects_of
from sparsemean._stats import planning
from sparsemean._stats.arrays import on_host
from sparsemean._stats.decision import Decision, decide, rule_of
from sparsemean._stats.effects import GroupEffects, group_effects, joined, log_scale
from sparsemean._stats.families import GroupTest, RankEvidence
from sparsemean._stats.intervals import error_after_selection
from sparsemean._stats.mean_differences import MeanContrast
from sparsemean._stats.rank_evidence import REST, Contrast, RankTest
from sparsemean._util.checks import AUTO, draw_seed, list_names, unit_name
from sparsemean._util.plans import Plan, Question
from sparsemean._util.records import FloatArray, IntArray, Leaning, RowScores, Sample
from sparsemean.comparison import Comparison
from sparsemean.errors import InputError
from sparsemean.result import Estimate

PAIRS = "pairs"
REST_NAME = "rest"
RULES = tuple(name for name in planning.SELECTIONS if name != "paper")
SAMPLED = 200
"""Rows and columns that tell whether data are counts or logarithms of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What is compared: rows, or subjects, their labels and strata."""

    table: Table
    classes: designs.Labels
    codes: IntArray
    strata: IntArray | None = None
    of_subjects: bool = False
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of every label."""
        return tuple(np.bincount(self.codes, minlength=self.classes.size).tolist())

    @property
    def n_strata(self) -> int:
        """Number of strata, one without any."""
        return 1 if self.strata is None else int(self.strata.max()) + 1


def contrasts_of(
    classes: designs.Labels, sizes: tuple[int, ...], reference: Any, *, vs: str | None = None
) -> list[Contrast]:
    """Return which labels are compared with which; ``vs`` is "rest" or "pairs" whatever labels are called."""
    labels = classes.tolist()
    k = len(labels)
    if vs is None and isinstance(reference, str) and reference in (REST_NAME, PAIRS):
        if reference in labels:
            advice = "rename that label"
            raise InputError("reference", f"not be {reference!r} where a label has that name", repr(reference), advice)
        vs = reference
    if vs == REST_NAME or (vs is None and reference is None):
        return [Contrast(1, 0, sizes)] if k == 2 else [Contrast(label, REST, sizes) for label in range(k)]
    if vs == PAIRS:
        return [Contrast(first, second, sizes) for second in range(k) for first in range(second + 1, k)]
    plain = reference.item() if isinstance(reference, np.generic) else reference
    if plain not in labels:
        rule = f"be one of the labels ({list_names([repr(label) for label in labels])}), {REST_NAME!r} or {PAIRS!r}"
        raise InputError("reference", rule, repr(plain), "check its spelling and type")
    second = labels.index(plain)
    return [Contrast(first, second, sizes) for first in range(k) if first != second]


def restricted_to(
    contrasts: Sequence[Contrast], classes: designs.Labels, only: Collection[Any] | None
) -> list[Contrast]:
    """Return the tests of some labels; two labels have one test, whichever is named."""
    labels = classes.tolist()
    return [test for test in contrasts if only is None or len(labels) == 2 or labels[test.first] in only]


def compare(
    table: Table,
    y: Any,
    *,
    contamination: Any = AUTO,
    reference: Any = None,
    vs: str | None = None,
    only: Collection[Any] | None = None,
    alternative: Any = "two-sided",
    min_effect: Any = 0.0,
    selection_rule: Any = "fwer",
    level: Any = 0.05,
    missing: Any = "raise",
    groups: Any = None,
    strata: Any = None,
    pairs: Any = None,
    target: Any = "centre",
    scale: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    called: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare groups of rows feature by feature: an estimate for each test; messages name arguments as ``called``.

    Of three labels and more those ``only`` are tested, where some are named.
    """
    began = time.perf_counter()
    planning.one_of(selection_rule, RULES, argument="selection")
    request = planning.ask(
        contamination=contamination, selection=selection_rule, level=level, alternative=alternative,
        min_effect=min_effect, missing=missing, target=target, scale=scale,
    )  # fmt: skip
    seed = draw_seed(random_state)
    names = {"y": "y", "groups": "groups", "strata": "strata", "pairs": "pairs", **(called or {})}
    for name, given in (("y", y), ("groups", groups), ("strata", strata), ("pairs", pairs)):
        designs.refuse_other_index(table, given, names[name])
    classes, codes = designs.classes_of(y, table.shape[0], names["y"], needed=only and [*only, reference])
    if pairs is not None:
        _refuse_with_pairs(groups, strata)
        contrasts = contrasts_of(classes, tuple(np.bincount(codes).tolist()), reference, vs=vs)
        return _of_pairs(table, classes, codes, pairs, contrasts[0], request, seed, n_jobs, progress, names["pairs"])
    refuse_strata(strata, request)
    design = design_of(
        table, classes, codes, groups=groups, strata=strata, seed=seed, missing=request.missing, called=names
    )
    contrasts = restricted_to(contrasts_of(classes, design.sizes, reference, vs=vs), classes, only)
    counting, *estimating = one_sample.parts_of(progress, (len(contrasts), *(1,) * len(contrasts)))
    with where_it_lies(design.table):
        decided = decide_all(design, contrasts, request, seed=seed, n_jobs=n_jobs, progress=counting)
        decided = replace(decided, decision=on_host(decided.decision))  # an estimate may be taken anywhere
    off = rows_off(design)
    rows = [suspects_of(design, test, each, off) for test, each in zip(decided.tests, decided.each, strict=True)]
    if request.shares is None:
        decided = _allowing(design, decided, rows, own_scale=request.target == "mean" and request.scale is None)
    scale_of_data = _scale(design.table.source.measured) if decided.decision.support.size else None
    selected = np.unique(np.concatenate([each.support for each in decided.each]))
    shared: dict[str, Any] = {
        "scale": scale_of_data, "seed": seed, "began": began, "n_jobs": n_jobs,
        "checksum": design.table.source.early_checksum(selected),
    }  # fmt: skip
    estimates = [
        _estimate(design, decided, which, rows=rows[which], progress=part, **shared)
        for which, part in enumerate(estimating)
    ]
    return Comparison(classes, dict(zip(keys_of(classes, contrasts), estimates, strict=True)))


def design_of(
    table: Table,
    classes: designs.Labels,
    codes: IntArray,
    *,
    groups: Any,
    strata: Any,
    seed: int,
    missing: str,
    called: Mapping[str, str] | None = None,
) -> Design:
    """Return rows as they are, or one row a subject."""
    names = {"groups": "groups", "strata": "strata", **(called or {})}
    within = None if strata is None else designs.check_strata(strata, codes, names["strata"])
    if groups is None:
        notes = [] if strata is not None else designs.dependence_note(table, compared=True)
        return Design(table, classes, codes, within, notes=tuple(notes))
    reduced, own, notes, _ = designs.subject_means(
        table, codes, groups, seed=seed, missing=missing, classes=classes, argument=names["groups"]
    )
    within = None if within is None else designs.strata_of_subjects(within, groups, names["strata"])
    return Design(reduced, classes, own, within, of_subjects=True, notes=tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What all tests together select, the plan of each, and what there is to say of it."""

    decision: Decision
    plans: tuple[Plan, ...]
    notes: tuple[str, ...] = ()

    @property
    def tests(self) -> tuple[GroupTest, ...]:
        """The tests of all contrasts."""
        return cast(RankEvidence, self.decision.evidence).tests

    @property
    def each(self) -> list[Decision]:
        """What is selected in each of them."""
        return [self.decision.of(k) for k in range(len(self.plans))]


def refuse_strata(strata: Any, request: Question) -> None:
    """Refuse to compare means within strata."""
    if strata is not None and request.target == "mean":
        advice = "compare within strata by ranks, target='centre'"
        raise InputError("strata", "be left out with target='mean'", "labels", advice)


def decide_all(
    design: Design,
    contrasts: Sequence[Contrast],
    request: Question,
    *,
    seed: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Decisions:
    """Count, or add up influences, and select over all tests."""
    d = design.table.shape[1]
    plans = tuple(plan_of(design, contrast, request, (d, len(contrasts))) for contrast in contrasts)
    notes: tuple[str, ...] = ()
    if request.target == "mean":
        evidence, notes, scale_rows = mean_difference.difference_evidence(
            design, contrasts, request, plans, seed=seed, n_jobs=n_jobs, progress=progress
        )
        plans = tuple(replace(plan, scale_rows=scale_rows) for plan in plans)
    else:
        tests = ranks.count(
            design.table, design.codes, contrasts, strata=design.strata, min_effect=request.min_effect,
            missing=request.missing == "omit", n_jobs=n_jobs, progress=progress,
        )  # fmt: skip
        evidence = RankEvidence(
            tuple(tests),
            side=request.side,
            missing=request.missing == "omit",
            level=request.level,
            n_jobs=n_jobs,
        )
    rule = rule_of(request.selection, request.level, evidence.n_hypotheses)
    return Decisions(decide(evidence, rule, evidence.at_share(request.at_first)), plans, notes)


def _allowing(design: Design, decided: Decisions, rows: Sequence[RowScores], *, own_scale: bool) -> Decisions:
    """Decide again for as many bad rows as look bad in the groups of each test.

    What is selected for so many differs or more are bad, for all numbers at once, so that they may be chosen by
    looking at the rows.
    """
    numbers = tuple(looking_bad(design, test, judged) for test, judged in zip(decided.tests, rows, strict=True))
    if not any(map(any, numbers)):
        return decided
    if own_scale:
        return replace(decided, notes=(messages.NOT_ALLOWED_FOR, *decided.notes))
    plans = tuple(
        replace(plan, bad_by_group=(second, first), bad_rows=first + second,
                contamination=max(first / plan.sizes[1], second / plan.sizes[0]))
        for plan, (first, second) in zip(decided.plans, numbers, strict=True)
    )  # fmt: skip
    return replace(decided, decision=decided.decision.at(numbers), plans=plans)


def plan_of(design: Design, contrast: Contrast, request: Question, shape: tuple[int, int]) -> Plan:
    """Return the plan of one test; ``shape`` is the number of features and of tests."""
    (first, second), (n_first, n_second) = contrast.bad(request.at_first), contrast.rows
    return Plan(
        request, planning.WITHOUT_BUCKETS,
        n_rows=design.codes.size, n_features=shape[0], n_units=n_first + n_second,
        contamination=max(request.at_first), bad_rows=first + second,
        sizes=(n_second, n_first), bad_by_group=(second, first),
        n_tests=shape[1], n_strata=design.n_strata, rest=contrast.second == REST,
    )  # fmt: skip


def keys_of(classes: designs.Labels, contrasts: Sequence[Contrast]) -> list[Any]:
    """Return the key of each test among the results: its label, or (label, reference) where references differ."""
    names = [names_of(classes, contrast) for contrast in contrasts]
    return [name[::-1] for name in names] if len({name[0] for name in names}) > 1 else [name[1] for name in names]


def names_of(classes: designs.Labels, contrast: Contrast) -> tuple[Any, Any]:
    """Return the reference and the label of a test, as the user calls them."""
    labels = classes.tolist()
    return REST_NAME if contrast.second == REST else labels[contrast.second], labels[contrast.first]


def _estimate(
    design: Design,
    decided: Decisions,
    which: int,
    *,
    rows: RowScores,
    scale: str | None,
    seed: int,
    began: float,
    n_jobs: int | None,
    checksum: Checksum | None,
    progress: Progress | None,
) -> Estimate:
    """Return the estimate of one test."""
    table, plan, test, decision = design.table, decided.plans[which], decided.tests[which], decided.each[which]
    labels, support, d = labels_of(design.codes, test.contrast), decision.support, table.shape[1]
    mean, intervals, effects = np.zeros(d), np.full((d, 2), np.nan), None
    if support.size:
        error = error_after_selection(plan, decided.decision.support.size)
        options: dict[str, Any] = {"error": error, "n_jobs": n_jobs}
        if isinstance(test, MeanContrast):
            mean[support], intervals[support] = mean_difference.on_support(design, test, support, plan=plan, **options)
            effects = _effects(design, labels, support, scale)
        else:
            mean[support], intervals[support], effects = _values(
                design, labels, support, plan, scale=scale, progress=progress, **options
            )
    of_test = _of_means(table, plan, test) if isinstance(test, MeanContrast) else _of_ranks(design, plan, test)
    flat = support[(intervals[support] == 0).any(axis=1)] if isinstance(test, RankTest) else support[:0]
    intervals[flat] = np.nan
    return one_sample.build_estimate(
        plan, decision, table=table, began=began, values=(mean, intervals),
        leaning=Leaning(test.strength, np.ones(d, dtype=np.intp)),
        notes=(*design.notes, *decided.notes, *of_test, *messages.flat(table, flat)),
        status={"walked": int(support.size)}, seed=seed, rows=rows, effects=effects, source=table,
        sample=Sample(
            labels=labels, strata=design.strata, units=np.arange(design.codes.size) if design.of_subjects else None,
            class_names=as_names(names_of(design.classes, test.contrast)).astype(str),
        ),
        difference_test=test.test if isinstance(test, MeanContrast) else None, checksum=checksum,
    )  # fmt: skip


def _of_ranks(design: Design, plan: Plan, test: GroupTest) -> list[str]:
    """Say what a test by ranks could not do."""
    assert isinstance(test, RankTest)
    n, table = sum(test.contrast.rows), design.table
    gaps = (n - test.present).astype(np.int32)
    missing = messages.of_missing(gaps, n, table) if gaps.any() else ()
    possible = groups_possible(plan, unit_name(design.of_subjects or None))
    return [*possible, *messages.skipped(table, test.constant), *missing]


def _of_means(table: Table, plan: Plan, test: MeanContrast) -> list[str]:
    """Say what a test of means could not do."""
    gaps, n = test.missing, sum(test.test.sizes)
    missing = messages.of_missing(gaps, n, table) if gaps.any() else ()
    return [*mean_difference.nothing_possible(plan, test.test), *missing]


def _effects(design: Design, labels: IntArray, support: IntArray, scale: str | None) -> GroupEffects:
    """Return the effects in the selected features, some columns at a time."""
    first, second = (np.flatnonzero(labels == g) for g in (1, 0))
    pieces = design.table.source.takes_of(support)
    return joined([_effects_of(design, columns, values, (first, second), scale) for columns, values in pieces])


def _effects_of(
    design: Design, columns: IntArray, values: FloatArray, rows: tuple[IntArray, IntArray], scale: str | None
) -> GroupEffects:
    """Return the effects in some columns; non-zeros are those of the metric, where ``values`` are adjusted."""
    found, source = group_effects(values, *rows, scale=scale), design.table.source
    if source.measured is source:
        return found
    own = group_effects(source.measured.take(columns), *rows, scale=scale)
    return replace(found, share_nonzero_0=own.share_nonzero_0, share_nonzero_1=own.share_nonzero_1)


def _values(
    design: Design,
    labels: IntArray,
    support: IntArray,
    plan: Plan,
    *,
    scale: str | None,
    progress: Progress | None,
    **options: Any,
) -> tuple[FloatArray, FloatArray, GroupEffects]:
    """Return shifts, intervals and effects of the selected features, some columns at a time."""
    reference, label = plan.bad_by_group
    strata, omit = ranks.strata_of(labels, design.strata), plan.question.missing == "omit"
    first, second = (np.flatnonzero(labels == g) for g in (1, 0))
    found, blocks, done = [], [], 0
    for columns, values in design.table.source.takes_of(support):
        blocks.append(_effects_of(design, columns, values, (first, second), scale))
        found.append(
            ranks.shifts(
                values, strata, grid=design.table.source.grid, bad=(label, reference), side=plan.question.side,
                missing=omit, **options,
            )
        )  # fmt: skip
        done += columns.size
        if progress is not None:
            progress(done / support.size)
    table = np.concatenate(found)
    return table[:, 0], table[:, 1:], joined(blocks)


def _scale(source: Source) -> str | None:
    """Say whether data look like counts or logarithms of them, by a few rows with many columns."""
    n, d = source.shape
    columns = np.unique(np.linspace(0, d - 1, min(d, SAMPLED)).astype(np.intp))
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.intp))
    return log_scale(source.take(columns)[rows])


# Pairs: differences within pairs are symmetric where nothing differs, so they are one sample.


def _refuse_with_pairs(groups: Any, strata: Any) -> None:
    for name, given in (("groups", groups), ("strata", strata)):
        if given is not None:
            raise InputError(name, "be left out with pairs, which are compared within", "both", f"leave out {name}")


def _of_pairs(
    table: Table,
    classes: designs.Labels,
    codes: IntArray,
    pairs: Any,
    contrast: Contrast,
    request: Question,
    seed: int,
    n_jobs: int | None,
    progress: Progress | None,
    argument: str,
) -> Comparison:
    """Compare two groups within pairs: a pair is bad if either of its rows is."""
    if classes.size > 2:
        raise InputError("pairs", "come with two classes", f"{classes.size} classes", "keep the rows of two classes")
    order = codes if contrast.first == 1 else 1 - codes
    differences, names, notes = designs.pair_differences(
        table, order, pairs, missing=request.missing, classes=classes, argument=argument
    )
    n = differences.shape[0]
    bad = planning.bad_pairs(n, request.at_first)
    labels = classes.tolist()
    estimate = one_sample.fit(
        replace(differences, row_names=names, notes=(*differences.notes, *notes)),
        contamination=AUTO if request.shares is None else bad / n,
        selection=request.selection, level=request.level, missing=request.missing, random_state=seed, n_jobs=n_jobs,
        progress=progress, alternative=request.side, min_effect=request.min_effect, target=request.target,
        scale=request.scale,
    )  # fmt: skip
    called = as_names([labels[contrast.second], labels[contrast.first]]).astype(str)
    return Comparison(
        classes, {labels[contrast.first]: replace(estimate, sample=replace(estimate.sample, class_names=called))}
    )
