"""Groups of rows: which labels are compared, selection over all tests, shifts, effects and suspect labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsemean._counts import ranks
from sparsemean._counts.engines import Progress
from sparsemean._data.source import Source
from sparsemean._data.table import Table, as_names
from sparsemean._fit import designs, messages, one_sample
from sparsemean._fit.power_groups import groups_possible
from sparsemean._stats import label_scores, planning, row_scores
from sparsemean._stats.effects import GroupEffects, group_effects, joined, log_scale
from sparsemean._stats.families import Family, FamilyMember, select_ranks
from sparsemean._stats.intervals import error_after_selection
from sparsemean._stats.rank_evidence import REST, SIDES, Contrast, RankEvidence, RankTest
from sparsemean._util.checks import draw_seed, list_names
from sparsemean._util.records import FloatArray, IntArray, Plan, RowScores, Selection
from sparsemean.comparison import Comparison
from sparsemean.errors import InputError
from sparsemean.result import Estimate

PAIRS = "pairs"
REST_NAME = "rest"
ELSEWHERE = 2
"""Labels rows that a test does not look at."""
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


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked for, checked."""

    shares: tuple[float, float]
    selection: str
    level: float
    alternative: str
    min_effect: float
    missing: str

    @property
    def omit(self) -> bool:
        """Whether NaN is a value that is not there."""
        return self.missing == "omit"


def check_request(
    *, contamination: Any, selection_rule: Any, level: Any, alternative: Any, min_effect: Any, missing: Any
) -> Request:
    """Check everything that can be asked of a comparison, before any value is looked at."""
    rules = [name for name in planning.SELECTIONS if name != "paper"]
    return Request(
        shares=planning.check_shares(contamination),
        selection=planning.one_of(selection_rule, rules, argument="selection"),
        level=planning.check_level(level),
        alternative=planning.one_of(alternative, tuple(SIDES), argument="alternative"),
        min_effect=planning.check_min_effect(min_effect),
        missing=planning.one_of(missing, planning.MISSING, argument="missing"),
    )


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


def compare(
    table: Table,
    y: Any,
    *,
    contamination: Any = 0.05,
    reference: Any = None,
    vs: str | None = None,
    alternative: Any = "two-sided",
    min_effect: Any = 0.0,
    selection_rule: Any = "fwer",
    level: Any = 0.05,
    missing: Any = "raise",
    groups: Any = None,
    strata: Any = None,
    pairs: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    called: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare groups of rows feature by feature: an estimate for each test; messages name arguments as ``called``."""
    began = time.perf_counter()
    request = check_request(
        contamination=contamination, selection_rule=selection_rule, level=level, alternative=alternative,
        min_effect=min_effect, missing=missing,
    )  # fmt: skip
    seed = draw_seed(random_state)
    names = {"y": "y", "groups": "groups", "strata": "strata", "pairs": "pairs", **(called or {})}
    classes, codes = designs.classes_of(y, table.shape[0], names["y"])
    if pairs is not None:
        _refuse_with_pairs(groups, strata, request)
        contrasts = contrasts_of(classes, tuple(np.bincount(codes).tolist()), reference, vs=vs)
        return _of_pairs(table, classes, codes, pairs, contrasts[0], request, seed, n_jobs, progress, names["pairs"])
    design = design_of(
        table, classes, codes, groups=groups, strata=strata, seed=seed, missing=request.missing, called=names
    )
    contrasts = contrasts_of(classes, design.sizes, reference, vs=vs)
    counting, *estimating = one_sample.parts_of(progress, (len(contrasts), *(1,) * len(contrasts)))
    family = decide(design, contrasts, request, n_jobs=n_jobs, progress=counting)
    scale = _scale(design.table.source) if family.selection.support.size else None
    estimates = [
        _estimate(design, family, test, request, scale=scale, seed=seed, began=began, progress=part)
        for test, part in enumerate(estimating)
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
        notes = [] if strata is not None else designs.dependence_note(table)
        return Design(table, classes, codes, within, notes=tuple(notes))
    reduced, own, notes, _ = designs.subject_means(
        table, codes, groups, seed=seed, missing=missing, classes=classes, argument=names["groups"]
    )
    within = None if within is None else designs.strata_of_subjects(within, groups, names["strata"])
    return Design(reduced, classes, own, within, of_subjects=True, notes=tuple(notes))


def decide(
    design: Design,
    contrasts: Sequence[Contrast],
    request: Request,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Family:
    """Count, and select over all tests."""
    tests = ranks.count(
        design.table, design.codes, contrasts, strata=design.strata, min_effect=request.min_effect,
        missing=request.omit, n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    evidence = RankEvidence(
        tuple(tests), request.shares, side=SIDES[request.alternative], missing=request.omit, level=request.level,
        n_jobs=n_jobs,
    )  # fmt: skip
    return Family(evidence, select_ranks(evidence, selection=request.selection), request.selection)


def plan_of(design: Design, evidence: RankEvidence, test: RankTest, request: Request) -> Plan:
    """Return the plan of one test."""
    (first, second), (n_first, n_second) = test.contrast.bad(request.shares), test.contrast.rows
    return planning.groups_plan(
        design.codes.size, test.n_features, shares=request.shares, sizes=(n_second, n_first),
        bad_by_group=(second, first), n_tests=len(evidence.tests), n_strata=design.n_strata,
        rest=test.contrast.second == REST, selection=request.selection, level=request.level,
        alternative=request.alternative, min_effect=request.min_effect, missing=request.missing,
    )  # fmt: skip


def keys_of(classes: designs.Labels, contrasts: Sequence[Contrast]) -> list[Any]:
    """Return the key of each test among the results: its label, or (label, reference) where references differ."""
    names = [names_of(classes, contrast) for contrast in contrasts]
    return [name[::-1] for name in names] if len({name[0] for name in names}) > 1 else [name[1] for name in names]


def names_of(classes: designs.Labels, contrast: Contrast) -> tuple[Any, Any]:
    """Return the reference and the label of a test, as the user calls them."""
    labels = classes.tolist()
    return REST_NAME if contrast.second == REST else labels[contrast.second], labels[contrast.first]


def _labels_of(design: Design, contrast: Contrast) -> IntArray:
    """Return 1 for rows of the label, 0 for those of the reference and `ELSEWHERE` for all others."""
    rest = contrast.second == REST
    reference = design.codes != contrast.first if rest else design.codes == contrast.second
    return np.where(design.codes == contrast.first, 1, np.where(reference, 0, ELSEWHERE))


def _estimate(
    design: Design,
    family: Family,
    which: int,
    request: Request,
    *,
    scale: str | None,
    seed: int,
    began: float,
    progress: Progress | None,
) -> Estimate:
    """Return the estimate of one test."""
    evidence, table = family.evidence, design.table
    test, d = evidence.tests[which], table.shape[1]
    member = FamilyMember(family, slice(which * d, (which + 1) * d))
    selection, plan = member.selection, plan_of(design, evidence, test, request)
    labels, support = _labels_of(design, test.contrast), selection.support
    mean, intervals, effects, flat = np.zeros(d), np.full((d, 2), np.nan), None, support[:0]
    if support.size:
        error = error_after_selection(plan, family.selection.support.size)
        options = {"error": error, "n_jobs": evidence.n_jobs}
        mean[support], ends, effects = _values(design, labels, support, plan, scale=scale, progress=progress, **options)
        flat = support[(ends == 0).any(axis=1)]
        intervals[support] = ends
        intervals[flat] = np.nan
    gaps = (sum(test.contrast.rows) - np.sum(test.counts[..., :2], axis=(1, 2))).astype(np.int32)
    notes = (
        *design.notes,
        *groups_possible(plan),
        *messages.skipped(table, test.constant),
        *messages.flat(table, flat),
        *(messages.of_missing(gaps, sum(test.contrast.rows), table) if gaps.any() else ()),
    )
    return one_sample.build_estimate(
        plan, test, member, table=table, began=began, notes=notes,
        status={"walked": int(support.size)}, mean=mean, intervals=intervals, seed=seed,
        rows=_suspects(design, labels, test, selection), labels=labels, effects=effects, strata=design.strata,
        class_names=as_names(names_of(design.classes, test.contrast)).astype(str), source=table,
        units=np.arange(design.codes.size) if design.of_subjects else None,
    )  # fmt: skip


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
    strata, omit = ranks.strata_of(labels, design.strata), plan.missing == "omit"
    first, second = (np.flatnonzero(labels == g) for g in (1, 0))
    found, blocks, done = [], [], 0
    for columns, values in design.table.source.takes_of(support):
        blocks.append(group_effects(values, first, second, scale=scale))
        found.append(
            ranks.shifts(values, strata, bad=(label, reference), alternative=plan.alternative, missing=omit, **options)
        )
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


def _suspects(design: Design, labels: IntArray, test: RankTest, selection: Selection) -> RowScores:
    """Judge the labels of rows by the features that differ where no row is bad."""
    assert selection.last_share is not None
    clean, n = np.flatnonzero(~np.isnan(selection.last_share)), labels.size
    if not clean.size:
        return row_scores.trust_all(n)
    clean = np.sort(clean[label_scores.strongest(test.delta[clean], n)])
    values = design.table.source.take(clean)
    classes = design.codes if test.contrast.second == REST else None
    side = np.where(labels == ELSEWHERE, -1, labels)
    judged = label_scores.judge(values, side, classes=classes, strata=design.strata)
    weights = np.ones(n)
    weights[judged.suspects] = 0.0
    reasons = tuple(tuple(clean[list(against)].tolist()) for against in judged.against)
    return RowScores(judged.scores, weights, judged.suspects, reasons=reasons)


# Pairs: differences within pairs are symmetric where nothing differs, so they are one sample.


def _refuse_with_pairs(groups: Any, strata: Any, request: Request) -> None:
    for name, given in (("groups", groups), ("strata", strata)):
        if given is not None:
            raise InputError(name, "be left out with pairs, which are compared within", "both", f"leave out {name}")
    if request.alternative != "two-sided" or request.min_effect:
        name = "alternative" if request.alternative != "two-sided" else "min_effect"
        raise InputError(name, "be left as it is with pairs", getattr(request, name), "not possible for pairs yet")


def _of_pairs(
    table: Table,
    classes: designs.Labels,
    codes: IntArray,
    pairs: Any,
    contrast: Contrast,
    request: Request,
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
    bad = sum(planning.bad_rows(n, share) for share in request.shares)
    if 2 * bad >= n:
        received, advice = f"{bad} of {n}", "a pair is bad if either of its rows is: name smaller shares"
        raise InputError("contamination", "leave more than half of the pairs good", received, advice)
    labels = classes.tolist()
    estimate = one_sample.fit(
        replace(differences, row_names=names, notes=(*differences.notes, *notes)), contamination=bad / n,
        selection=request.selection, level=request.level, missing=request.missing, random_state=seed, n_jobs=n_jobs,
        progress=progress,
    )  # fmt: skip
    called = as_names([labels[contrast.second], labels[contrast.first]]).astype(str)
    return Comparison(classes, {labels[contrast.first]: replace(estimate, class_names=called)})
