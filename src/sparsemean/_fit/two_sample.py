"""Groups of rows: which labels are compared, selection over all tests, shifts, effects and suspect labels."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from typing import Any

import numpy as np

from sparsemean._data.source import Checksum
from sparsemean._data.table import Table, as_names
from sparsemean._evidence import groups as groups_of_rows
from sparsemean._evidence.counting.engines import Progress
from sparsemean._evidence.groups import GroupTest, RankEvidence
from sparsemean._evidence.ranks import EACH, REST, Contrast, EachTest
from sparsemean._fit import covariates, designs, messages, one_sample
from sparsemean._fit.data import refuse_dask
from sparsemean._fit.mean import difference_evidence, difference_impossible, differences
from sparsemean._fit.pipeline import build_estimate, parts_of
from sparsemean._fit.power import CANNOT, impossible
from sparsemean._fit.suspects import ELSEWHERE, looking_bad, rows_off, sides_of, suspects_of
from sparsemean._kernels.rounding import snapped
from sparsemean._stats import maxt, planning
from sparsemean._stats.arrays import on_host
from sparsemean._stats.decision import Averaged, Decision, MaxT, Rule, decide, error_after_selection, rule_of
from sparsemean._stats.effects import CENTRE, COLUMNS, MEANS, UNKNOWN, group_effects, joined, log_scale
from sparsemean._util.checks import AUTO, draw_seed, list_names, unit_name
from sparsemean._util.plans import EACH_NAME, GroupSizes, Plan, Question
from sparsemean._util.records import FloatArray, IntArray, MeanDifferenceTest, RowScores, Sample
from sparsemean.errors import InputError
from sparsemean.result import Estimate
from sparsemean.result.comparison import Comparison

PAIRS = "pairs"
REST_NAME = "rest"
NAMED = {name: name for name in ("y", "groups", "strata", "pairs", "covariate")}
"""What messages call arguments, unless they are told otherwise."""
SAMPLED = 200
"""Rows and columns that tell whether data are counts or logarithms of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What is compared: rows, subjects or pairs, their labels and strata; and what is asked of them."""

    table: Table
    classes: designs.Labels
    codes: IntArray
    contrasts: tuple[Contrast, ...]
    question: Question
    strata: IntArray | None = None
    of_subjects: bool = False
    notes: tuple[str, ...] = ()
    seed: int = 0
    n_jobs: int | None = None
    draws: tuple[Table, ...] = ()
    """Where p-values are twice the means of those of several tables."""


def contrasts_of(
    classes: designs.Labels,
    sizes: tuple[int, ...],
    reference: Any,
    *,
    vs: str | None = None,
    only: Collection[Any] | None = None,
) -> tuple[Contrast, ...]:
    """Return which labels are compared with which; ``vs`` is "rest", "each" or "pairs" whatever labels are called.

    Of three labels and more those ``only`` are tested, where some are named.
    """
    labels = classes.tolist()
    k = len(labels)
    if vs is None and isinstance(reference, str) and reference in (REST_NAME, EACH_NAME, PAIRS):
        if reference in labels:
            advice = "rename that label"
            raise InputError("reference", f"not be {reference!r} where a label has that name", repr(reference), advice)
        vs = reference
    if vs in (REST_NAME, EACH_NAME) or (vs is None and reference is None):
        others = EACH if vs == EACH_NAME else REST
        compared = [(0 if k == 2 else others, label) for label in range(k == 2, k)]
    elif vs == PAIRS:
        compared = list(combinations(range(k), 2))
    else:
        plain = reference.item() if isinstance(reference, np.generic) else reference
        if plain not in labels:
            known = list_names([repr(label) for label in labels])
            rule = f"be one of the labels ({known}), {REST_NAME!r}, {EACH_NAME!r} or {PAIRS!r}"
            raise InputError("reference", rule, repr(plain), "check its spelling and type")
        compared = [(labels.index(plain), label) for label in range(k) if labels[label] != plain]
    return tuple(
        Contrast(reference=place, label=label, sizes=sizes)
        for place, label in compared
        if only is None or k == 2 or labels[label] in only
    )


def compare(
    table: Table,
    y: Any,
    *,
    pairs: Any = None,
    progress: Progress | None = None,
    design: Design | None = None,
    **options: Any,
) -> Comparison:
    """Compare groups of rows feature by feature: an estimate for each test; ``options`` are those of `designed`.

    A ``design`` stands for all of them where one is at hand.
    """
    began = time.perf_counter()
    planning.one_of(options.get("selection", planning.RULES[0]), planning.RULES, argument="selection")
    design = design or designed(table, y, pairs=pairs, **options)
    if pairs is not None:
        return _of_pairs(design, progress)
    counting, estimating = parts_of(progress, (1.0, 1.0))
    with design.table.source.there():
        found = decide_all(design, counting)
        found = replace(found, decision=on_host(found.decision)).judged()  # an estimate may be taken anywhere
    source, (n, d), support = design.table.source, design.table.shape, found.decision.support
    columns = np.unique(np.linspace(0, d - 1, min(d, SAMPLED)).astype(np.intp))
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.intp))
    scale = log_scale(source.measured.take(columns)[rows]) if support.size else None
    estimate = partial(found.estimate, began=began, scale=scale, checksum=source.early_checksum(np.unique(support % d)))
    parts = enumerate(parts_of(estimating, (1.0,) * len(found.plans)))
    made = [estimate(contrast, progress=part) for contrast, part in parts]
    return Comparison(design.classes, dict(zip(found.keys, made, strict=True)))


def designed(
    table: Table,
    y: Any,
    *,
    reference: Any = None,
    vs: str | None = None,
    only: Collection[Any] | None = None,
    groups: Any = None,
    strata: Any = None,
    pairs: Any = None,
    covariate: Any = None,
    called: Mapping[str, str] | None = None,
    counts: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
    **asked: Any,
) -> Design:
    """Prepare rows: less what values from before predict, one a subject, or one a pair, which is one sample.

    ``asked`` is what `planning.check_question` takes; see `contrasts_of` for the rest. Messages name arguments as
    ``called``.
    """
    question, seed, names = planning.check_question(**asked), draw_seed(random_state), {**NAMED, **(called or {})}
    for name, given in {"y": y, "groups": groups, "strata": strata, "pairs": pairs}.items():
        if hasattr(given, "iloc"):
            designs.refuse_other_index(table, given, names[name])
    if covariate is not None:
        table, _ = covariates.adjusted(table, covariate, target=question.target, called=names["covariate"])
    needed = only and [*only, reference]
    classes, codes = designs.classes_of(y, table.shape[0], names["y"], needed=needed)
    options: dict[str, Any] = {"missing": question.missing, "classes": classes}
    if classes.dtype.kind in "iuf" and classes.size > 2:
        table = replace(table, notes=(*table.notes, messages.MEASURED.format(names["y"], classes.size)))
    within, notes, draws = None, list[str](), tuple[Table, ...]()
    if pairs is not None:
        for name, given in (("groups", groups), ("strata", strata)):
            if given is not None:
                raise InputError(name, "be left out with pairs, which are compared within", "both", f"leave out {name}")
        contrasts = contrasts_of(classes, tuple(np.bincount(codes).tolist()), reference, vs=vs)
        codes = codes if contrasts[0].label == 1 else 1 - codes
        table, notes = designs.pair_differences(table, codes, pairs, argument=names["pairs"], **options)
        return Design(table, classes, codes, contrasts, question, notes=tuple(notes), seed=seed, n_jobs=n_jobs)
    if strata is not None:
        within = designs.check_strata(strata, codes, names["strata"])
        if question.target == "mean":
            advice = "compare within strata by ranks, target='centre'"
            raise InputError("strata", "be left out with target='mean'", "labels", advice)
    if groups is not None:
        table, codes, notes, draws = designs.subject_means(
            table, codes, groups, argument=names["groups"], counts=counts, **options
        )
        within = None if within is None else designs.strata_of_subjects(within, groups, names["strata"])
    elif strata is None and (table.repeated is not None or table.row_names is not None):
        notes = messages.dependence_note(table, compared=True)
    contrasts = contrasts_of(classes, tuple(np.bincount(codes).tolist()), reference, vs=vs, only=only)
    for name, value, other in (("target", question.target, "mean"), ("selection", question.selection, "maxt")):
        if contrasts[0].reference == EACH and value == other:
            raise InputError(name, "be another one with each single other label", repr(value), "compare with the rest")
    of_subjects = groups is not None
    return Design(table, classes, codes, contrasts, question, within, of_subjects, tuple(notes), seed, n_jobs, draws)


@dataclass(frozen=True, eq=False)
class Groups:
    """Labels that are compared: what was counted of them, and what all contrasts together select."""

    design: Design
    decision: Decision
    plans: tuple[Plan, ...]
    tests: tuple[GroupTest, ...]
    seed: int
    notes: tuple[str, ...] = ()
    rows: tuple[RowScores, ...] = ()
    """What was said of rows in each test, once they were judged."""

    @property
    def keys(self) -> list[Any]:
        """The key of each test among the results: its label, or (label, reference) where references differ."""
        names = [names_of(self.design.classes, test.contrast) for test in self.tests]
        return [name[::-1] for name in names] if len({name[0] for name in names}) > 1 else [name[1] for name in names]

    def strength(self, contrast: int) -> tuple[FloatArray, IntArray]:
        """Return Cliff's delta, or how the sums differ."""
        return self.tests[contrast].strength, np.ones(self.design.table.shape[1], dtype=np.intp)

    def judged(self) -> Groups:
        """Judge the labels of rows in each test, and rows by how they lie about the medians of labels.

        Unless someone has named a share, decide again for as many bad rows as look bad in the groups of each test.
        """
        off = rows_off(self.design)
        decisions = map(self.decision.of, range(len(self.plans)))
        rows = tuple(suspects_of(self.design, *each, off) for each in zip(self.tests, decisions, strict=True))
        found, question = replace(self, rows=rows), self.design.question
        if question.shares is not None:
            return found
        numbers = tuple(
            looking_bad(self.design, test.contrast, judged) for test, judged in zip(self.tests, rows, strict=True)
        )
        if not any(bad.total for bad in numbers):
            return found
        if question.target == "mean" and question.scale is None:
            return replace(found, notes=(messages.NOT_ALLOWED_FOR, *self.notes))
        plans = tuple(
            replace(plan, bad_by_group=bad, bad_rows=bad.total, contamination=max(bad.shares(test.contrast.rows)))
            for plan, test, bad in zip(self.plans, self.tests, numbers, strict=True)
        )
        return replace(found, decision=self.decision.at(numbers), plans=plans)

    def estimate(
        self, contrast: int, *, began: float, scale: str | None, checksum: Checksum | None, progress: Progress | None
    ) -> Estimate:
        """Return the estimate of one test; all tests share the ``scale`` of the data and their checksum."""
        design, table, plan, test = self.design, self.design.table, self.plans[contrast], self.tests[contrast]
        decision, looks, d = self.decision.of(contrast), [(test.contrast, plan)], table.shape[1]
        support, source, seen = decision.support, table.source, list[IntArray]()
        if test.contrast.reference == EACH:
            looks = looks_of(plan, test.contrast)
        mean, intervals, measure, effects = np.zeros(d), np.full((d, 2), np.nan), np.full(d, UNKNOWN), None
        if support.size:
            error, blocks = error_after_selection(plan, self.decision.support.size) / len(looks), []
            options: dict[str, Any] = {"test": test.mean_test, "error": error, "n_jobs": design.n_jobs}
            options["known"] = measure, decision.p_values
            nearest = np.broadcast_to(test.nearest, d)[support]
            for which, (single, own) in enumerate(looks):
                labels, some = sides_of(design.codes, single), support[nearest == which]
                groups = [np.flatnonzero(labels == side) for side in (1, 0)]
                for columns, values, found in located(table, own, labels, design.strata, some, **options):
                    raw = None if source.measured is source else source.measured.take(columns)
                    blocks.append(group_effects(values, *groups, scale=scale, raw=raw))
                    mean[columns], intervals[columns], measure[columns] = found[:, 0], found[:, 1:3], found[:, 3:].T
                    seen.append(columns)
                    if progress is not None:
                        progress(sum(map(len, seen)) / support.size)
            effects, order = joined(blocks), np.argsort(np.concatenate(seen))
            effects = replace(effects, **{name: getattr(effects, name)[order] for name in COLUMNS})
            if test.mean_test is not None:  # ends are found by steps, but what the test refuses they leave out
                least = np.where(mean[support] > 0, plan.question.min_effect, -np.inf)
                most = np.where(mean[support] < 0, -plan.question.min_effect, np.inf)
                intervals[support, 0] = np.maximum(intervals[support, 0], least)
                intervals[support, 1] = np.minimum(intervals[support, 1], most)
        no_shift = support[(measure[support] != CENTRE) & (test.mean_test is None)]
        return build_estimate(
            plan, decision, table=table, began=began, values=(mean, intervals, measure),
            counts=None, strength=self.tests[contrast].strength,
            notes=(
                *design.notes, *self.notes, *((messages.NEAREST,) if len(looks) > 1 and support.size else ()),
                *_not_possible(design, looks, test, support),
                *messages.of_columns(table, no_shift, messages.NO_SHIFT),
            ),
            seed=self.seed, rows=self.rows[contrast], effects=effects,
            sample=Sample(
                labels=sides_of(design.codes, test.contrast), strata=design.strata,
                units=np.arange(design.codes.size) if design.of_subjects else None,
                class_names=as_names(names_of(design.classes, test.contrast)).astype(str),
            ),
            difference_test=test.mean_test,
            checksum=checksum,
        )  # fmt: skip


def decide_all(design: Design, progress: Progress | None = None) -> Groups:
    """Count, or add up influences, and select over all tests."""
    request, contrasts, omit = design.question, design.contrasts, design.question.missing == "omit"
    progress, permuting = parts_of(progress, (1.0, float(request.selection == "maxt")))
    if request.selection == "maxt":
        refuse_dask(design.table)
        if design.draws:
            raise InputError("selection", "be 'fwer', 'fdr' or 'fdr_by' where numbers of rows differ", "'maxt'")
    n_strata = 1 if design.strata is None else int(design.strata.max()) + 1
    shared: dict[str, Any] = {
        "n_rows": design.codes.size, "n_features": design.table.shape[1], "n_tests": len(contrasts),
        "contamination": max(request.at_first), "n_strata": n_strata,
    }  # fmt: skip
    bads = [contrast.bad(request.at_first) for contrast in contrasts]
    plans = tuple(
        Plan(
            request, planning.WITHOUT_BUCKETS, n_units=sum(contrast.rows), sizes=contrast.rows, bad_rows=bad.total,
            bad_by_group=bad, rest=contrast.reference < 0, **shared,
        )
        for contrast, bad in zip(contrasts, bads, strict=True)
    )  # fmt: skip
    notes, looked = tuple[str, ...](), list[tuple[GroupTest, ...]]()
    tests: Sequence[GroupTest]
    if request.target == "mean":
        tests, notes, scale_rows = difference_evidence(design, plans, progress)
        plans = tuple(replace(plan, scale_rows=scale_rows) for plan in plans)
    else:
        singles = [
            single
            for contrast in contrasts
            for single in (contrast.singles if contrast.reference == EACH else (contrast,))
        ]
        for table in (*design.draws, design.table):
            counted = iter(groups_of_rows.count(
                table, design.codes, singles, question=request, strata=design.strata, n_jobs=design.n_jobs,
                progress=progress, n_tests=len(contrasts),
            ))  # fmt: skip
            tests = [
                EachTest(contrast, tuple(islice(counted, len(contrast.singles))))
                if contrast.reference == EACH else next(counted)
                for contrast in contrasts
            ]  # fmt: skip
            looked.append(tuple(tests))
    looked = looked or [tuple(tests)]
    of = partial(RankEvidence, side=request.side, missing=omit, level=request.level, n_jobs=design.n_jobs)
    *drawn, evidence = map(of, looked)
    rule: Rule = rule_of(request.selection, request.level, evidence.n_hypotheses)
    if request.selection == "maxt":
        rule = permuted(design, permuting)
        notes = (rule.note,)
    decision = decide(Averaged(tuple(drawn)) if drawn else evidence, rule, tuple(bads))
    return Groups(design, decision, plans, evidence.tests, design.seed, notes)


def permuted(design: Design, progress: Progress | None) -> MaxT:
    """Return what labels dealt again select where no row is bad: in each test those compared, at its part of the level.

    Dealing the labels of all rows again would be wrong where rows of a third label have another law.
    """
    contrasts, request, d = design.contrasts, design.question, design.table.shape[1]
    source, error, hows, found = design.table.source.cached(), request.level / len(design.contrasts), [], []
    for test, (contrast, part) in enumerate(zip(contrasts, parts_of(progress, (1.0,) * len(contrasts)), strict=True)):
        sides = sides_of(design.codes, contrast)
        rows = np.flatnonzero(sides != ELSEWHERE)
        strata, signs = (design.codes * 0 if design.strata is None else design.strata), np.where(sides == 1, 1.0, -1.0)
        hows.append(maxt.Randomization.of(
            signs[rows], strata[rows], side=request.side, draws=maxt.draws_for(error, rows.size, d),
            seed=(design.seed, test),
        ))  # fmt: skip

        def read(columns: IntArray, rows: IntArray = rows) -> tuple[FloatArray, FloatArray]:
            return snapped(source.take(columns)[rows], source.grid), np.zeros(columns.size)

        found.append(maxt.step_down(read, d, hows[-1], n_jobs=design.n_jobs, progress=part))
    first = np.minimum(1.0, len(contrasts) * np.concatenate(found))
    return MaxT(request.level, first=first, note=messages.of_draws(hows, first, request.level))


def names_of(classes: designs.Labels, contrast: Contrast) -> tuple[Any, Any]:
    """Return the reference and the label of a test, as the user calls them."""
    labels = classes.tolist()
    together = {REST: REST_NAME, EACH: EACH_NAME}.get(contrast.reference)
    return together or labels[contrast.reference], labels[contrast.label]


def looks_of(plan: Plan, contrast: Contrast) -> list[tuple[Contrast, Plan]]:
    """Return the contrasts with every single other label, which estimates are of, each with its plan."""
    looks = zip(contrast.singles, contrast.bad_of_singles(plan.bad), strict=True)
    return [(single, replace(plan, sizes=single.rows, bad_by_group=bad, bad_rows=bad.total)) for single, bad in looks]


def _not_possible(
    design: Design, looks: Sequence[tuple[Contrast, Plan]], test: GroupTest, support: IntArray
) -> list[str]:
    """Say what a test could not do: where it is of several, that of the fewest rows."""
    means, gaps, possible = test.mean_test, test.missing, list[str]()
    single, plan = min(looks, key=lambda look: sum(look[0].rows))
    n = sum(test.contrast.rows if means is None else means.sizes)
    if not support.size:
        unit = unit_name(design.of_subjects or None)
        labels = sides_of(design.codes, single)
        strata = [GroupSizes(b.size, a.size) for a, b in groups_of_rows.strata_of(labels, design.strata)]
        possible = impossible(plan, unit, strata) if means is None else difference_impossible(plan, means)
        possible = possible if plan.bad_rows or plan.question.selection != "maxt" else []
    missing = messages.of_missing(gaps, n, design.table) if gaps.any() else ()
    return [*possible, *messages.of_columns(design.table, test.constant, messages.ONE_VALUE), *missing]


def located(
    table: Table,
    plan: Plan,
    labels: IntArray,
    strata: IntArray | None,
    columns: IntArray,
    *,
    test: MeanDifferenceTest | None,
    error: float,
    known: tuple[IntArray, FloatArray] | None = None,
    n_jobs: int | None = None,
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield some of the columns, their values, and a row each of estimate, both ends of its interval and its measure.

    Of all features are ``known`` the measure, where it is, and p. Of means they are differences, by their ``test``.
    """
    within, omit = groups_of_rows.strata_of(labels, strata), plan.question.missing == "omit"
    options: dict[str, Any] = {"error": error, "bad": plan.bad, "side": plan.question.side, "n_jobs": n_jobs}
    for piece, values in table.source.takes_of(columns):
        if test is None and known is not None:
            told, grid = list(zip(known[0][piece], known[1][piece] <= error, strict=True)), table.source.grid
            yield piece, values, groups_of_rows.shifts(values, within, told, grid=grid, missing=omit, **options)
        elif test is not None:
            found = differences(table, within[0], piece, values, test=test, **options)
            yield piece, values, np.column_stack((found, np.full(piece.size, MEANS)))


# Pairs: differences within pairs are symmetric where nothing differs, so they are one sample.


def _of_pairs(design: Design, progress: Progress | None) -> Comparison:
    """Compare two groups within pairs: a pair is bad if either of its rows is."""
    question, table, (contrast, *_) = design.question, design.table, design.contrasts
    bad = planning.bad_pairs(table.shape[0], question.at_first)
    estimate = one_sample.fit(
        replace(table, notes=(*table.notes, *design.notes)), progress=progress,
        contamination=AUTO if question.shares is None else bad / table.shape[0],
        selection=question.selection, level=question.level, missing=question.missing, random_state=design.seed,
        n_jobs=design.n_jobs, alternative=str(question.side), min_effect=question.min_effect,
        target=question.target, scale=question.scale,
    )  # fmt: skip
    sample = replace(estimate.sample, class_names=as_names(names_of(design.classes, contrast)).astype(str))
    said = (note.replace(" rows", " pairs") if CANNOT in note else note for note in estimate.status.messages)
    estimate = replace(estimate, sample=sample, status=replace(estimate.status, messages=tuple(said)))
    return Comparison(design.classes, {design.classes.tolist()[contrast.label]: estimate})
