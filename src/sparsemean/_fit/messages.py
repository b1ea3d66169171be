"""What there is to say about a fit besides its numbers: one sentence each."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from shlex import quote

import numpy as np

from sparsemean import __version__
from sparsemean._data.repeats import MOST_NAMES, repeated
from sparsemean._data.table import Names, Table
from sparsemean._fit.data import FitData
from sparsemean._fit.power import impossible
from sparsemean._stats.arrays import on_host
from sparsemean._stats.assumptions import ALARM, CHECKABLE, SortKeys
from sparsemean._stats.decision import Decision, MaxT
from sparsemean._stats.maxt import Randomization
from sparsemean._stats.planning import TESTS
from sparsemean._util.checks import NAMED, list_names, pluralize, unit_name
from sparsemean._util.plans import Plan
from sparsemean._util.records import CountArray, Counts, FloatArray, IntArray

OF_T = "they are of t, which a few far values weaken, while p-values and estimates are of ranks"
"""What is to be known of `selection="maxt"` where both are seen."""
AT_NULL = "because many of their values are equal"
"""Why a selected feature may have no interval."""
DEPENDENT = "are not independent"
"""What rows do whose neighbours are alike: then nothing holds."""
INNER = 2.563
"""Standard deviations between the first and the last tenth of normal values."""
SHOWN = 0.01
"""n·δ² up to which a centre off by δ standard deviations raises p-values of four deviations by less than a tenth."""
NOT_ALLOWED_FOR = (
    "suspicious rows are assumed correct, because the scale comes from the same data: scale= (--scale) changes that"
)
UNNAMED = (
    "about {count:,} {unit}s seem to be wrong, but cannot be named: in columns that agree with each other ({columns}) "
    "that many more lie on one side than on the other. A skewed cause that these columns share looks the same: if you "
    "think it is one, contamination=0 selects all features"
)
MATTERS = (
    "may not be independent", "occur more than once", "cannot be named", "assumed correct", "rounding alone",
    "no feature can be selected", "a group of its own", "by its name", "VARY MORE", "have a mean, as counts", "passed",
)  # fmt: skip
"""Signs of notes that change the answer: they come first, after what stands in the verdict."""
DETAILS = (
    "were left out", "was left out", "not looked for", "put on its end", "standard error", "are exact, from",
    "gave the scale", "as asked for", "the null value in every", "was taken from", "are compared, not rows",
    "decided again", "one value only",
)  # fmt: skip
"""Signs of notes that are details: they come last."""
NOT_GUARANTEED = "NOT GUARANTEED"
"""What nothing is that is found without the rows that look bad."""
LEFT_OUT = (
    f"{NOT_GUARANTEED}: {{suspects}} taken out by looking at the values, so no error rate, p-value or interval holds; "
    "at(0) of the fit of all rows has what holds if no suspect is wrong"
)
ONE_VALUE = "column[ holds|s hold] one value only and [was|were] left out"
OFTEN_NULL = (
    "selected feature[ is|s are] often exactly the null value: test, value and interval are about the other values, "
    "not about the mean of all"
)
NO_CENTRE = (
    f"selected feature[ has|s have] no centre, {AT_NULL}, to the null value or to each other: the estimate is the "
    "share of pairs of rows with a mean above the null value, less the share below, without values that are the null "
    'value (measure "pairs"); target="mean" (--target mean) tests means'
)
NO_SLOPE = (
    f"selected feature[ has|s have] no slope but 0, {AT_NULL}: the estimate is the share of pairs of rows that rise "
    'less the share that fall (measure "pairs")'
)
NO_INTERVAL = f"selected feature[ has|s have] no interval, {AT_NULL}, to the null value or to each other"
NEAREST = (
    "estimates, intervals and effects are against the nearest other label, the one with the smallest Cliff's delta in "
    "size; intervals hold for every choice of it"
)
NO_SHIFT = (
    f"selected feature[ differs|s differ], but not by a shift, {AT_NULL}: the estimate is the share of pairs of "
    'rows in which the label is larger, less the share in which it is smaller (measure "pairs"), or of two values '
    'the difference of means ("means")'
)
NOT_LOOKED_FOR = "features that only the trusted rows show were not searched for: that needs a fit of all rows"
MEASURED = (
    "{} has {} different numbers, each taken as a group of its own: if it measures something, a dose, an age, a time, "
    "SparseTrend (--trend) tells what rises or falls with it"
)


def of_fit(
    plan: Plan, counts: Counts, decision: Decision, constant: IntArray, table: Table, *, unit: str = "row"
) -> tuple[str, ...]:
    """Return the remarks on a one-sample fit."""
    messages, support, filled_up = [], decision.support, decision.filled_up
    if filled_up:
        messages.append(
            f"only {pluralize(support.size - filled_up, 'feature')} passed the rule; the {support.size} that moved "
            f"farthest were taken (min_selected={plan.walk.min_selected})"
        )
    if isinstance(decision.rule, MaxT):
        messages.append(decision.rule.note)
    none_bad = () if plan.bad_rows else ("maxt",)
    if plan.question.selection not in ("paper", *none_bad) and not support.size:
        messages += impossible(plan, unit)
    if not decision.skipped.size:
        messages += of_columns(table, constant, "selected column[ holds|s hold] one value only")
    messages += of_columns(table, decision.skipped, ONE_VALUE)
    silent = (counts.positive == 0).all(axis=0) & (counts.negative == 0).all(axis=0)
    if counts.missing is not None:
        messages += of_missing(on_host(counts.missing), plan.n_rows, table)
        # A column without any value has been named above, and its buckets are not at the null value.
        silent &= counts.missing < plan.n_rows
    messages += of_columns(table, np.flatnonzero(on_host(silent)), "column[ is|s are] the null value in every bucket")
    return tuple(messages)


def of_draws(hows: Sequence[Randomization], first: FloatArray, level: float) -> str:
    """Say what gave adjusted p-values, and by how much chance may have moved those near the level."""
    how, tests = next((how for how in hows if not how.exact), hows[0]), len(hows)
    drawn, each = "sign flips" if how.strata is None else "permutations of labels", " in each test" * (tests > 1)
    if (smallest := tests * min(how.smallest for how in hows)) > level:
        few = f"no feature can be selected: there are so few {drawn} that no adjusted p-value is below {smallest:.2g}"
        return f"{few}; more rows would help"
    if how.exact:
        number = f"{min(how.number for how in hows):,}{' or more' if each else ''}"
        return f"adjusted p-values are exact, from all {number} {drawn} of whole rows{each}; {OF_T}"
    off = tests * np.sqrt(level / tests * (1 - level / tests) / how.number)
    near = int(np.sum(np.abs(first - level) <= 2 * off))
    doubt = f"; of {pluralize(near, 'feature')} they lie within two of it, so that another seed may decide otherwise"
    return (
        f"adjusted p-values are from {how.number:,} random {drawn} of whole rows{each}, seed {how.seed[0]}: near "
        f"{level:g} their standard error is {off:.2g}{doubt if near else ''}; {OF_T}"
    )


def of_columns(table: Table, columns: IntArray, sentence: str) -> list[str]:
    """Say something of some columns, how many they are, and the names of the first; nothing where there are none.

    Of words in brackets the first is for one column, the second for several.
    """
    said = re.sub(r"\[([^|]*)\|([^|]*)\]", r"\1" if columns.size == 1 else r"\2", sentence)
    return [f"{columns.size:,} {said}: {named(table, columns)}"] if columns.size else []


def of_precision(data: FitData, support: IntArray) -> list[str]:
    """Name selected features whose null value leaves too few digits for the spread of their values.

    A null value that is off by eps moves the centre by δ = eps·|null|/sd deviations, which n rows show once nδ² is not
    small. The spread is that of the inner four fifths of the values.
    """
    assert data.buckets.null is not None
    coarse = [support[:0]]
    for columns in data.source.taken_together(support[data.buckets.null[support] != 0]):
        low, high = np.nanquantile(data.values(columns), (0.1, 0.9), axis=0)
        between = np.maximum(high - low, np.finfo(float).tiny)
        away = data.buckets.precision * np.abs(data.buckets.null[columns]) * INNER / between
        coarse.append(columns[np.sqrt(data.plan.n_units) * away > np.sqrt(SHOWN)])
    found = np.concatenate(coarse)
    if not found.size:
        return []
    some, their = ("1 feature", "Its") if found.size == 1 else (f"{found.size} features", "Their")
    return [
        f"{some} may be selected by rounding alone: {named(data.table, found)}. {their} null value is large compared "
        f"with {their.lower()} spread: store differences from it, or use double precision"
    ]


def how_tested(plan: Plan) -> str:
    """Say what one sample is tested by; nothing of groups, which have one test.

    Examples
    --------
    >>> from sparsemean._stats.planning import plan_fit
    >>> how_tested(plan_fit(600, 100)), how_tested(plan_fit(600, 100, test="buckets"))
    ('signed ranks', 'signs of buckets of 1, 2 and 4 rows')
    """
    if plan.walk.dealing == "pairs":
        return ""
    if plan.question.target == "mean":
        return "sums of influences"
    *others, last = map(str, plan.walk.bucket_sizes)
    sizes = f"{', '.join(others)} and {last}" if others else last
    besides = ", and t under common sign flips" if plan.question.selection == "maxt" else ""
    return TESTS[plan.question.test].called.format(sizes=f"{sizes} {'row' if sizes == '1' else 'rows'}") + besides


def dependence_note(table: Table, *, compared: bool = False) -> list[str]:
    """Say so where many rows share a subject or a name: for fits that take rows for independent.

    Where groups are ``compared``, a subject may have rows of several.
    """
    n = table.shape[0]
    column, names = table.repeated, table.row_names
    if column is not None:
        what, count, option = f"column {column[0]!r} has", column[1], f" (--subject {quote(column[0])})"
    elif names is not None and (found := repeated("", names, MOST_NAMES)):
        what, count, option = "the names of the rows have", found[1], ""
    else:
        return []
    within = (
        f"as strata={option.replace('subject', 'strata', 1)} if it has rows of several groups, " if compared else ""
    )
    return [
        f"rows may not be independent: {what} {count:,} values for {n:,} rows; give it as groups={option}, {within}or "
        "the error rate does not hold"
    ]


def of_missing(missing: CountArray, n_rows: int, table: Table) -> list[str]:
    """Say how much is missing, and name columns that have nothing, or less than half of their values."""
    worst = np.argsort(-missing, kind="stable")[:NAMED]
    shares = zip(_features(table, worst), missing[worst] / n_rows, strict=True)
    shown = ", ".join(
        f"{name} ({f'{share:.0%}' if share >= 0.01 else f'{100 * share:.1g}%'})" for name, share in shares if share
    )
    share = float(np.mean(missing, dtype=np.float64)) / n_rows
    much = f"{share:.2%}" if share >= 5e-5 else f"{int(missing.sum(dtype=np.int64)):,}"
    messages = [f"{much} of the values are missing and were left out, most of them in {shown}"]
    empty, few = missing == n_rows, (2 * missing > n_rows) & (missing < n_rows)
    messages += of_columns(table, np.flatnonzero(empty), "column[ has|s have] no value at all and [was|were] left out")
    return messages + of_columns(
        table, np.flatnonzero(few), "column[ has|s have] fewer than half of [its|their] values"
    )


def of_symmetry(skewed: IntArray, support: IntArray, data: FitData) -> list[str]:
    """Name selected features whose value is no mean, and say where that cannot be told."""
    messages, flagged, n = [], support[skewed[support] == 1], data.plan.n_units
    if flagged.size:
        messages.append(
            f"centre, not mean: {pluralize(flagged.size, 'selected feature')} may be skewed, or have bad rows on one "
            f'side; target="mean" (--target mean) tests means: {named(data.table, flagged)}'
        )
    unknown = int(np.sum(skewed[support] < 0))
    if unknown and n < CHECKABLE:
        unit = unit_name(data.units)
        messages.append(f"symmetry not checkable with {n} {unit}s: if noise is skewed, an estimate is not a mean")
    elif unknown:
        messages.append(
            f"symmetry not checkable for {pluralize(unknown, 'selected feature')} with too few values, or too few that "
            "differ"
        )
    return messages


def of_dependence(z: float, keys: SortKeys | None, units: IntArray | None, table: Table) -> list[str]:
    """Say so, before all else, where rows look dependent, by their order or by their names; or how they are sorted."""
    names, unit = list[str](), unit_name(units)
    if units is None and (table.repeated is not None or table.row_names is None):
        names = dependence_note(table)
    elif units is None and table.row_names is not None:  # rows that share a name may be of one subject
        twice = [name for name, number in Counter(table.row_names.tolist()).items() if number > 1]
        names = [
            f"{len(twice):,} row name(s) occur more than once ({list_names(twice)}): if they are several rows of one "
            "subject, name it with groups= (--subject)"
        ][: len(twice)]
    if keys is None and z <= ALARM:
        return names
    named_already = names or units is not None
    if keys is None:
        advice = "" if named_already else f"{unit.capitalize()}s of one subject? Pass groups= (--subject). "
        alarm = (
            f"neighbouring {unit}s are alike (z = {z:.1f}, by chance below {ALARM:g}): they {DEPENDENT}, and no error "
            f"rate, p-value or interval holds. {advice}Sorted by time? Average over days first"
        )
        return [alarm, *names]
    column, there = ("column", "there") if keys.columns.size == 1 else ("columns", "in all of these")
    order = f"{unit}s are sorted by {column} {named(table, keys.columns)}"
    if np.isnan(z):
        return [f"{order}, the only one that varies, so whether they are independent cannot be checked", *names]
    repeat = not named_already and keys.runs[-1] + 1 < keys.runs.size
    subjects = f". If {unit}s with equal values {there} belong to one subject, pass groups= (--subject)"
    return [
        f"{order}; apart from that neighbouring {unit}s are not alike, so error rates hold{subjects if repeat else ''}",
        *names,
    ]


def named(table: Table, columns: IntArray) -> str:
    """Return the first few of some columns by their names, or numbers."""
    return list_names(_features(table, columns))


def _features(table: Table, columns: IntArray) -> IntArray | Names:
    return columns if table.feature_names is None else table.feature_names[columns]


@cache
def versions() -> dict[str, str]:
    """Return the versions that a result was made with."""
    return {"sparsemean": __version__, "numpy": np.__version__, "python": platform.python_version()}
