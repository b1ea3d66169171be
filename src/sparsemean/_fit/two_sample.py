"""Groups of rows: which labels are compared, selection over all tests, shifts, effects and suspect labels."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparsemean._counts.engines import Progress
from sparsemean._data.source import Checksum
from sparsemean._data.table import Table, as_names
from sparsemean._evidence import groups
from sparsemean._evidence.groups import GroupTest, RankEvidence
from sparsemean._evidence.ranks import REST, Contrast
from sparsemean._fit import covariates, designs, mean_difference, messages, one_sample
from sparsemean._fit.pipeline import build_estimate, estimates, parts_of
from sparsemean._fit.power import groups_possible
from sparsemean._fit.suspects import labels_of, looking_bad, rows_off, suspects_of
from sparsemean._stats import planning
from sparsemean._stats.arrays import on_host
from sparsemean._stats.decision import Decision, decide, error_after_selection, rule_of
from sparsemean._stats.effects import GroupEffects, group_effects, joined, log_scale
from sparsemean._util.checks import AUTO, draw_seed, list_names, unit_name
from sparsemean._util.plans import Plan, Question
from sparsemean._util.records import FloatArray, IntArray, RowScores, Sample
from sparsemean.errors import InputError
from sparsemean.result import Estimate
from sparsemean.result.comparison import Comparison

PAIRS = "pairs"
REST_NAME = "rest"
RULES = tuple(name for name in planning.SELECTIONS if name != "paper")
NAMED = ("y", "groups", "strata", "pairs", "covariate")
"""Arguments that messages name."""
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
        return [Contrast(reference=0 if k == 2 else REST, label=label, sizes=sizes) for label in range(k == 2, k)]
    if vs == PAIRS:
        return [Contrast(reference=low, label=high, sizes=sizes) for low in range(k) for high in range(low + 1, k)]
    plain = reference.item() if isinstance(reference, np.generic) else reference
    if plain not in labels:
        rule = f"be one of the labels ({list_names([repr(label) for label in labels])}), {REST_NAME!r} or {PAIRS!r}"
        raise InputError("reference", rule, repr(plain), "check its spelling and type")
    place = labels.index(plain)
    return [Contrast(reference=place, label=label, sizes=sizes) for label in range(k) if label != place]


def restricted_to(contrasts: Sequence[Contrast], classes: designs.Labels, only: Collection[Any]) -> list[Contrast]:
    """Return the tests of some labels; two labels have one test, whichever is named."""
    labels = classes.tolist()
    return [test for test in contrasts if len(labels) == 2 or labels[test.label] in only]


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
    covariate: Any = None,
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
    question = planning.ask(
        contamination=contamination, selection=selection_rule, level=level, alternative=alternative,
        min_effect=min_effect, missing=missing, target=target, scale=scale,
    )  # fmt: skip
    counting, estimating = parts_of(progress, (1.0, 1.0))
    asked = Asked(
        y,
        reference,
        vs,
        only,
        groups=groups,
        strata=strata,
        covariate=covariate,
        called={**{name: name for name in NAMED}, **(called or {})},
    )
    shared: dict[str, Any] = {"seed": draw_seed(random_state), "n_jobs": n_jobs}
    if pairs is not None:
        return _of_pairs(table, asked, pairs, question, progress=progress, **shared)
    found = counted(table, asked, question, progress=counting, **shared)
    made = estimates(found, began=began, progress=parts_of(estimating, (1.0,) * len(found.plans)))
    return Comparison(found.design.classes, dict(zip(found.keys, made, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Which rows are compared with which: labels, and what is known of rows beside them, as users give them."""

    y: Any
    reference: Any = None
    vs: str | None = None
    only: Collection[Any] | None = None
    groups: Any = None
    strata: Any = None
    covariate: Any = None
    called: Mapping[str, str] = field(default_factory=lambda: {name: name for name in NAMED})
    """What messages call arguments."""

    def coded(self, table: Table, question: Question, pairs: Any = None) -> tuple[Table, designs.Labels, IntArray]:
        """Return the table less what values from before predict, the labels, and the label of each row."""
        for name, given in (("y", self.y), ("groups", self.groups), ("strata", self.strata), ("pairs", pairs)):
            designs.refuse_other_index(table, given, self.called[name])
        if self.covariate is not None:
            called = self.called["covariate"]
            table, _ = covariates.adjusted(table, self.covariate, target=question.target, called=called)
        needed = self.only and [*self.only, self.reference]
        return table, *designs.classes_of(self.y, table.shape[0], self.called["y"], needed=needed)


def counted(
    table: Table,
    asked: Asked,
    question: Question,
    *,
    seed: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Groups:
    """Prepare what is compared, count it and select over all tests."""
    table, classes, codes = asked.coded(table, question)
    if asked.strata is not None and question.target == "mean":
        advice = "compare within strata by ranks, target='centre'"
        raise InputError("strata", "be left out with target='mean'", "labels", advice)
    design = design_of(table, classes, codes, asked, seed=seed, missing=question.missing)
    contrasts = contrasts_of(classes, design.sizes, asked.reference, vs=asked.vs)
    with design.table.source.there():
        if asked.only is not None:
            contrasts = restricted_to(contrasts, classes, asked.only)
        return decide_all(design, contrasts, question, seed=seed, n_jobs=n_jobs, progress=progress)


def design_of(
    table: Table, classes: designs.Labels, codes: IntArray, asked: Asked, *, seed: int, missing: str
) -> Design:
    """Return rows as they are, or one row a subject."""
    strata = asked.strata
    within = None if strata is None else designs.check_strata(strata, codes, asked.called["strata"])
    if asked.groups is None:
        notes = [] if strata is not None else messages.dependence_note(table, compared=True)
        return Design(table, classes, codes, within, notes=tuple(notes))
    reduced, own, notes, _ = designs.subject_means(
        table, codes, asked.groups, seed=seed, missing=missing, classes=classes, argument=asked.called["groups"]
    )
    if within is not None:
        within = designs.strata_of_subjects(within, asked.groups, asked.called["strata"])
    return Design(reduced, classes, own, within, of_subjects=True, notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class Groups:
    """Labels that are compared: what was counted of them, and what all contrasts together select."""

    design: Design
    question: Question
    decision: Decision
    plans: tuple[Plan, ...]
    tests: tuple[GroupTest, ...]
    seed: int = 0
    n_jobs: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> list[Any]:
        """The key of each test among the results: its label, or (label, reference) where references differ."""
        names = [names_of(self.design.classes, test.contrast) for test in self.tests]
        return [name[::-1] for name in names] if len({name[0] for name in names}) > 1 else [name[1] for name in names]

    def to_host(self) -> Groups:
        """Take decisions from a device: an estimate may be taken anywhere."""
        return replace(self, decision=on_host(self.decision))

    def strength(self, contrast: int) -> tuple[FloatArray, IntArray]:
        """Return Cliff's delta, or how the sums differ."""
        return self.tests[contrast].strength, np.ones(self.design.table.shape[1], dtype=np.intp)

    @cached_property
    def _scale_and_checksum(self) -> tuple[str | None, Checksum | None]:
        """Whether data look like counts or logarithms of them, by a few rows with many columns; their checksum."""
        source, (n, d) = self.design.table.source, self.design.table.shape
        columns = np.unique(np.linspace(0, d - 1, min(d, SAMPLED)).astype(np.intp))
        rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.intp))
        scale = log_scale(source.measured.take(columns)[rows]) if self.decision.support.size else None
        return scale, source.early_checksum(np.unique(self.decision.support % d))

    def score_rows(self) -> list[RowScores]:
        """Judge the labels of rows in each test, and rows by how they lie about the medians of labels."""
        off = rows_off(self.design)
        decisions = map(self.decision.of, range(len(self.plans)))
        return [suspects_of(self.design, test, each, off) for test, each in zip(self.tests, decisions, strict=True)]

    def allowing(self, rows: Sequence[RowScores]) -> Groups:
        """Decide again for as many bad rows as look bad in the groups of each test."""
        if self.question.shares is not None:
            return self
        numbers = tuple(looking_bad(self.design, test, judged) for test, judged in zip(self.tests, rows, strict=True))
        if not any(bad.total for bad in numbers):
            return self
        if self.question.target == "mean" and self.question.scale is None:
            return replace(self, notes=(messages.NOT_ALLOWED_FOR, *self.notes))
        plans = tuple(
            replace(plan, bad_by_group=bad, bad_rows=bad.total, contamination=max(bad.shares(test.contrast.rows)))
            for plan, test, bad in zip(self.plans, self.tests, numbers, strict=True)
        )
        return replace(self, decision=self.decision.at(numbers), plans=plans)

    def estimate(
        self, contrast: int, rows: Sequence[RowScores], *, began: float, progress: Progress | None = None
    ) -> Estimate:
        """Return the estimate of one test."""
        design, table, plan, test = self.design, self.design.table, self.plans[contrast], self.tests[contrast]
        decision, labels, d = self.decision.of(contrast), labels_of(design.codes, test.contrast), table.shape[1]
        support, (scale, checksum) = decision.support, self._scale_and_checksum
        mean, intervals, effects = np.zeros(d), np.full((d, 2), np.nan), None
        if support.size:
            options: dict[str, Any] = {
                "error": error_after_selection(plan, self.decision.support.size), "n_jobs": self.n_jobs
            }  # fmt: skip
            if test.mean_test is not None:
                found = mean_difference.on_support(design, test, support, plan=plan, **options)
                mean[support], intervals[support] = found
                effects = _effects(design, labels, support, scale)
            else:
                mean[support], intervals[support], effects = _values(
                    design, labels, support, plan, scale=scale, progress=progress, **options
                )
        flat = support[(intervals[support] == 0).any(axis=1) & (test.mean_test is None)]
        intervals[flat] = np.nan
        return build_estimate(
            plan, decision, table=table, began=began, values=(mean, intervals),
            strength=self.tests[contrast].strength,
            notes=(
                *design.notes, *self.notes, *_not_possible(design, plan, test, support), *messages.flat(table, flat)
            ),
            seed=self.seed, rows=rows[contrast], effects=effects, source=table,
            sample=Sample(
                labels=labels, strata=design.strata, units=np.arange(design.codes.size) if design.of_subjects else None,
                class_names=as_names(names_of(design.classes, test.contrast)).astype(str),
            ),
            difference_test=test.mean_test,
            checksum=checksum,
        )  # fmt: skip


def decide_all(
    design: Design,
    contrasts: Sequence[Contrast],
    request: Question,
    *,
    seed: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Groups:
    """Count, or add up influences, and select over all tests."""
    d = design.table.shape[1]
    plans = tuple(plan_of(design, contrast, request, (d, len(contrasts))) for contrast in contrasts)
    notes: tuple[str, ...] = ()
    if request.target == "mean":
        tests: Sequence[GroupTest]
        tests, notes, scale_rows = mean_difference.difference_evidence(
            design, contrasts, request, plans, seed=seed, n_jobs=n_jobs, progress=progress
        )
        plans = tuple(replace(plan, scale_rows=scale_rows) for plan in plans)
    else:
        tests = groups.count(
            design.table, design.codes, contrasts, strata=design.strata, min_effect=request.min_effect,
            missing=request.missing == "omit", n_jobs=n_jobs, progress=progress,
        )  # fmt: skip
    evidence = RankEvidence(
        tuple(tests), request.side, missing=request.missing == "omit", level=request.level, n_jobs=n_jobs
    )
    rule = rule_of(request.selection, request.level, evidence.n_hypotheses)
    decision = decide(evidence, rule, tuple(plan.bad for plan in plans))
    return Groups(design, request, decision, plans, evidence.tests, seed, n_jobs, notes)


def plan_of(design: Design, contrast: Contrast, request: Question, shape: tuple[int, int]) -> Plan:
    """Return the plan of one test; ``shape`` is the number of features and of tests."""
    bad = contrast.bad(request.at_first)
    return Plan(
        request, planning.WITHOUT_BUCKETS,
        n_rows=design.codes.size, n_features=shape[0], n_units=sum(contrast.rows),
        contamination=max(request.at_first), bad_rows=bad.total, sizes=contrast.rows, bad_by_group=bad,
        n_tests=shape[1], n_strata=design.n_strata, rest=contrast.reference == REST,
    )  # fmt: skip


def names_of(classes: designs.Labels, contrast: Contrast) -> tuple[Any, Any]:
    """Return the reference and the label of a test, as the user calls them."""
    labels = classes.tolist()
    return REST_NAME if contrast.reference == REST else labels[contrast.reference], labels[contrast.label]


def _not_possible(design: Design, plan: Plan, test: GroupTest, support: IntArray) -> list[str]:
    """Say what a test could not do."""
    means, gaps, possible = test.mean_test, test.missing, list[str]()
    n = sum(test.contrast.rows if means is None else means.sizes)
    if not support.size:
        unit = unit_name(design.of_subjects or None)
        possible = groups_possible(plan, unit) if means is None else mean_difference.nothing_possible(plan, means)
    missing = messages.of_missing(gaps, n, design.table) if gaps.any() else ()
    return [*possible, *messages.skipped(design.table, test.constant), *missing]


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
    strata, omit = groups.strata_of(labels, design.strata), plan.question.missing == "omit"
    first, second = (np.flatnonzero(labels == g) for g in (1, 0))
    found, blocks, done = [], [], 0
    for columns, values in design.table.source.takes_of(support):
        blocks.append(_effects_of(design, columns, values, (first, second), scale))
        found.append(
            groups.shifts(
                values, strata, grid=design.table.source.grid, bad=plan.bad, side=plan.question.side, missing=omit,
                **options,
            )
        )  # fmt: skip
        done += columns.size
        if progress is not None:
            progress(done / support.size)
    table = np.concatenate(found)
    return table[:, 0], table[:, 1:], joined(blocks)


# Pairs: differences within pairs are symmetric where nothing differs, so they are one sample.


def _of_pairs(
    table: Table,
    asked: Asked,
    pairs: Any,
    question: Question,
    *,
    seed: int,
    n_jobs: int | None,
    progress: Progress | None,
) -> Comparison:
    """Compare two groups within pairs: a pair is bad if either of its rows is."""
    table, classes, codes = asked.coded(table, question, pairs)
    for name, given in (("groups", asked.groups), ("strata", asked.strata)):
        if given is not None:
            raise InputError(name, "be left out with pairs, which are compared within", "both", f"leave out {name}")
    contrast = contrasts_of(classes, tuple(np.bincount(codes).tolist()), asked.reference, vs=asked.vs)[0]
    if classes.size > 2:
        raise InputError("pairs", "come with two classes", f"{classes.size} classes", "keep the rows of two classes")
    order = codes if contrast.label == 1 else 1 - codes
    differences, names, notes = designs.pair_differences(
        table, order, pairs, missing=question.missing, classes=classes, argument=asked.called["pairs"]
    )
    n = differences.shape[0]
    bad = planning.bad_pairs(n, question.at_first)
    labels = classes.tolist()
    estimate = one_sample.fit(
        replace(differences, row_names=names, notes=(*differences.notes, *notes)),
        contamination=AUTO if question.shares is None else bad / n,
        selection=question.selection, level=question.level, missing=question.missing, random_state=seed,
        n_jobs=n_jobs, progress=progress, alternative=str(question.side), min_effect=question.min_effect,
        target=question.target, scale=question.scale,
    )  # fmt: skip
    sample = replace(estimate.sample, class_names=as_names(names_of(classes, contrast)).astype(str))
    return Comparison(classes, {labels[contrast.label]: replace(estimate, sample=sample)})
