"""Beyond the certified part: which rows contradict the rest, and better values on the support from the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._evidence.counting.engines import Progress
from sparsemean._fit.data import FitData, Values
from sparsemean._fit.refinement import Refinement, refined, with_workers
from sparsemean._stats import assumptions, directions, factors, row_scores
from sparsemean._stats.arrays import fillna, medians, near, on_device, on_host, some_rows, spread_over, take
from sparsemean._stats.assumptions import SortKeys, skew_flags
from sparsemean._stats.decision import Decision, MaxT, adjusted_by_holm
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.standardized import CLIP, Selected, StandardizedRows
from sparsemean._util.plans import Plan
from sparsemean._util.records import Counts, FloatArray, IntArray, LocationEstimate, RowScores
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean._fit.by_workers import Columns

ON_SUPPORT = 6.0
"""Clip in median deviations on the support, where columns are few: wide, but with few rows narrower (`ALONE`)."""
ALONE = 1.2
"""Clip over the limit in robust deviations, of 1.48 median ones, below which no single column takes a row there."""
DOUBT = 0.1
"""Share of bad rows that refined values allow for where it is not named: it costs clean rows next to nothing."""
MOST_JUDGED = 320_000_000
"""Values of the support that workers hold, a byte each, to judge rows by."""
WEAK = 0.05
"""p-value below which columns that are not selected tell of bad rows as well."""
TOO_FEW = 4
"""Columns below which nothing can be said of a row."""


@dataclass(frozen=True, slots=True, eq=False)
class ScreeningResult:
    """Rows with scores and weights; ``kept`` are the units not rejected, of which ``left`` may still be wrong.

    Units that are off together take their share of the contamination with them. Those rejected for their size alone may
    have been good ones, so that as many of the rest may be wrong as before.
    """

    rows: RowScores
    kept: IntArray
    left: int
    how: str = ""
    columns: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """The features off the support that rows were judged by."""
    judged: StandardizedRows | None = None
    """Rows in units of the features that they were judged by first."""
    speaking: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """The features along which rows are bad that cannot be named."""

    def share(self, plan: Plan) -> float:
        """Return the share of the units kept that may still be wrong; rounding up to whole units does not raise it.

        Where nobody has named one, values allow for `DOUBT`, with those that are gone: bad rows may show nothing off
        the support.
        """
        if plan.auto:
            doubt = DOUBT * plan.n_units - (plan.n_units - self.kept.size)
            return max(0.0, doubt, min(plan.bad_rows, self.rows.unnamed)) / self.kept.size
        rejected = self.left < plan.bad_rows
        return min(plan.contamination, self.left / self.kept.size) if rejected else plan.contamination


def screen(data: FitData, support: IntArray, *, about: FloatArray | None = None) -> ScreeningResult:
    """Judge rows by features off the support, whose means are known; by all of them ``about`` centres of them."""
    plan, off = data.plan, "" if about is not None else " off the support"
    columns = row_scores.screening_columns(data.table.shape, screen_rows=plan.question.screen_rows)
    columns = np.setdiff1d(columns, support, assume_unique=True) if about is None else columns
    none = row_scores.row_scores(np.zeros(plan.n_rows), {}, {})
    trusted = ScreeningResult(none, np.arange(plan.n_units), plan.bad_rows)
    if columns.size < TOO_FEW:
        why = f"rows were not judged{off}, where there are {columns.size} features"
        return replace(trusted, how=why if plan.question.screen_rows else "")
    used = plan.question.refine and plan.question.refine_on == "rows" and support.size
    where = f"on {columns.size:,} features{off}" + (" and were left out of the values" if used else "")
    table = _standardized(data, columns, about=None if about is None else about[columns])
    found = replace(_judged_by(data, trusted, table, where=where), columns=columns, judged=table)
    del table.scaled  # half of what is held
    return found


def _standardized(
    data: FitData, columns: IntArray, *, about: FloatArray | None, kept: IntArray | None = None, clip: float = CLIP
) -> StandardizedRows:
    """Return some rows in units of some columns, ``about`` centres of these; with the workers if they are many."""
    if data.spread:
        from sparsemean._fit.by_workers import CodedColumns

        return CodedColumns(data.columns(columns, kept=kept, about=about), clip)
    values = data.rows_of(columns, about)
    values = values if kept is None else values[near(values, kept)]
    return StandardizedRows(values, clip, data.n_jobs, features=columns)


def _judged_by(data: FitData, before: ScreeningResult, table: StandardizedRows, *, where: str) -> ScreeningResult:
    """Return what was known of the rows and what a table of those that are left says of them; scores only grow."""
    n, left = data.plan.n_units, before.kept
    # Fewer than half of all units are listed; more than a fifth are not allowed for.
    judged = row_scores.judge_rows(table, most=max(0, (n - 1) // 2 - (n - left.size)))
    scores, suspects = np.zeros(n), left[judged.suspects].tolist()
    scores[left] = judged.scores
    kinds, why = (dict(zip(suspects, told, strict=True)) for told in (judged.kinds, judged.reasons))
    if data.units is not None:  # what is said of a subject is said of all its rows
        of_row = [(row, unit) for row, unit in enumerate(data.units.tolist()) if unit in kinds]
        scores = scores[data.units]
        kinds, why = ({row: told[unit] for row, unit in of_row} for told in (kinds, why))
    rows = row_scores.row_scores(scores, kinds, why, aligned=judged.aligned, before=before.rows)
    unit = "rows" if data.units is None else "subjects"
    how = f"{len(suspects)} of {n} {unit} contradict the rest {where}" if suspects else ""
    return replace(
        before,
        rows=rows,
        kept=np.delete(left, judged.suspects),
        left=max(0, before.left - judged.aligned),
        how="; ".join(filter(None, (before.how, how))),
    )


def screen_first(data: FitData, decision: Decision, counts: Counts | None) -> ScreeningResult:
    """Judge rows before it is known how many may be bad: by all columns about their medians, then on a support alone.

    Where bad rows are many, most columns look as if they had a mean: few would be left off the support. That is Holm's,
    as how many rows look bad must not follow from the rule that is then used for so many. Bad rows that cannot be named
    are counted, where signs were, by columns that may owe their selection to a fifth of all rows, and by weaker ones.
    """
    question, (p, log_p) = data.plan.question, on_host((decision.p_values, decision.log_p))
    adjusted = on_host(adjusted_by_holm(decision) if isinstance(decision.rule, MaxT) else decision.p_adjusted)
    mean = np.zeros(data.plan.n_features)
    support = np.flatnonzero(adjusted <= question.level)
    columns = support[:0]
    if counts is not None and question.screen_rows:  # by Hoeffding's bound signs alone select the others
        positive, negative = take(counts.positive[0], support), take(counts.negative[0], support)
        enough = np.sqrt((positive + negative) * np.log(2 * mean.size / question.level) / 2)
        columns = support[np.abs(positive - negative) / 2 - MOST_ALLOWED * data.plan.n_units < enough]
    if columns.size:
        columns = np.union1d(columns, np.flatnonzero((p < WEAK) & (adjusted > question.level)))
        most = min(row_scores.AGREEING, max(row_scores.LEAST_COLUMNS, row_scores.MOST_VALUES // data.plan.n_rows))
        columns = np.sort(columns[np.argsort(log_p[columns], kind="stable")[:most]])
    sampled = row_scores.screening_columns(data.table.shape, screen_rows=question.screen_rows)
    # Where bad rows are many, all columns may be on the support.
    judged = support if data.spread or not sampled.size else spread_over(support, sampled.size)
    known = np.union1d(judged, np.intersect1d(support, sampled, assume_unique=True))
    data = data.keep(np.union1d(known, columns))
    for some in data.source.taken_together(known):
        mean[some] = medians(data.rows_of(some)[some_rows(data.plan.n_units, known.size)])
    rows = screen(data, support, about=mean)
    rows = replace(rows, columns=np.setdiff1d(rows.columns, np.union1d(support, decision.support)))
    rows = screen_on_support(data, rows, judged, mean=mean if data.buckets.null is None else mean + data.buckets.null)
    if not columns.size:
        return rows
    count, speaking = row_scores.unnamed_rows(on_host(data.rows_of(columns)[:])[rows.kept])
    return replace(rows, rows=replace(rows.rows, unnamed=count), speaking=columns[speaking])


def screen_on_support(
    data: FitData, before: ScreeningResult, support: IntArray, *, mean: FloatArray
) -> ScreeningResult:
    """Judge the rows that are left by the support as well, about the means there; scores only grow."""
    if not data.plan.question.screen_rows or not support.size:
        return before
    if data.spread:
        support = spread_over(support, max(row_scores.LEAST_COLUMNS, MOST_JUDGED // data.plan.n_rows))
    else:
        support = spread_over(support, row_scores.screening_columns(data.table.shape).size)
    about = mean[support] - data.offset(support)
    clip = min(ON_SUPPORT, ALONE * row_scores.limit(before.kept.size))
    table = _standardized(data, support, about=about, kept=before.kept, clip=clip)
    return _judged_by(data, before, table, where="on the support itself")


def flag_skewed(data: FitData, screening: ScreeningResult, support: IntArray) -> IntArray:
    """Flag selected features by the rows that are left, see `skew_flags`; −1 off the support."""
    flags = np.full(data.plan.n_features, -1, dtype=np.intp)
    if data.table.source.engine == "gpu":
        from sparsemean._fit.device_values import skew_flags_there

        if (there := skew_flags_there(data, screening.kept, support)) is not None:
            flags[support] = there
            return flags
    if data.spread and support.size:
        flags[support] = np.concatenate(data.columns(support, kept=screening.kept).over_columns(skew_flags))
        return flags
    rows = None if screening.kept.size == data.plan.n_units else screening.kept
    for columns in data.source.taken_together(support):
        flags[columns] = skew_flags(data.values(columns), rows, n_jobs=data.n_jobs)
    return flags


def neighbours_alike(data: FitData, screening: ScreeningResult, support: IntArray) -> tuple[float, SortKeys | None]:
    """Return how far neighbours among the units that are left agree, off the support if it leaves columns.

    Where they do they are judged again given the columns by which they are sorted, which are returned as well if that
    explains it. NaN where the only column that varies is sorted: then nothing can be said.
    """
    sampled = row_scores.screening_columns(data.table.shape, screen_rows=data.plan.question.screen_rows)
    off = np.setdiff1d(sampled, support, assume_unique=True)
    known = off.size >= TOO_FEW
    columns = off if known else sampled
    if not columns.size:
        return 0.0, None
    rows = assumptions.some_neighbours(screening.kept)
    columns, table = spread_over(columns, assumptions.MOST_COLUMNS), screening.judged
    if not data.spread:
        values = data.rows_of(columns)
        values = values[near(values, rows)]
    elif table is None or not table.ratios.whole:
        values = data.columns(columns).take(rows)
    else:  # signs are those of the values
        values = table.ratios.take(rows, _places(screening, columns)).astype(np.float64)
    z = assumptions.z_of_neighbours(values, known=known)
    if z <= assumptions.ALARM:
        return z, None
    whole = replace(data, nonzero=None)  # a file is sorted by all values of a column, zeros among them
    keys = assumptions.sort_keys(rows.size, lambda: _all_columns(whole, np.union1d(sampled, support), rows))
    others = np.flatnonzero(~np.isin(columns, keys.columns))
    if not keys.columns.size:
        return z, None
    given = assumptions.z_given(keys, on_host(values[:, near(values, others)]))
    if np.isnan(given) and keys.columns.size > 1:  # which no file is sorted by
        return z, None
    return given, None if given > assumptions.ALARM else keys


def _all_columns(data: FitData, sampled: IntArray, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield some rows of all columns, a good many at a time; of ``sampled`` ones where not all lie in memory."""
    columns = np.arange(data.plan.n_features) if data.table.source.in_memory else sampled
    for part in data.source.taken_together(columns):
        yield part, data.columns(part).take(rows) if data.spread else data.values(part)[rows]


def refine_values(
    data: FitData,
    screening: ScreeningResult,
    support: IntArray,
    *,
    values: Values,
    method: Refinement,
    progress: Progress | None = None,
) -> LocationEstimate:
    """Return the means of all features, on the support those that ``method`` makes of the rows that are left."""
    if method is None or not support.size:
        return LocationEstimate(
            values.mean, how=values.how if method is None else "nothing to refine: no feature was selected"
        )
    offset = data.offset(support)
    centre = values.mean[support] - offset
    located = locate_features(data, screening, support, method=method, progress=progress, centre=centre)
    mean, notes = values.mean.copy(), list(located.notes)
    mean[support] = located.mean + offset
    if method == "auto" or data.plan.question.target == "mean":
        low, high = values.intervals[support].T
        inside = np.fmax(np.fmin(mean[support], high), low)  # an end that is NaN does not hold
        if moved := int(np.count_nonzero(inside != mean[support])):
            notes.append(f"{moved} refined value(s) fell outside their interval and were put on its end")
        mean[support] = inside
    return replace(located, mean=mean, notes=tuple(notes))


def locate_features(
    data: FitData,
    screening: ScreeningResult,
    features: IntArray,
    *,
    method: Refinement,
    progress: Progress | None = None,
    centre: FloatArray | None = None,
) -> LocationEstimate:
    """Refine some features on the rows that are left, or on bucket means; less their null values.

    Methods that cannot do with gaps are given ``centre`` in their place, the median by default.
    """
    plan, taken_out, share = data.plan, "", screening.share(data.plan)
    X: Any
    if not features.size:
        return LocationEstimate(np.empty(0))
    if plan.question.refine_on == "buckets" and method is not None:
        X = data.bucket_means(features)
        share = plan.bad_rows / X.shape[0]
    elif data.spread and method in (None, "auto"):
        X = data.keep(features).columns(features, kept=screening.kept)
    else:
        X = data.rows_of(features) if method == "auto" else data.values(features)
        X = X[near(X, screening.kept)]
    if share >= 0.5:
        rule = "leave most buckets without a bad row"
        raise InputError("refine_on", rule, f"{plan.bad_rows} bad rows for {X.shape[0]} buckets", "refine on rows")
    how = "auto" if method is None else method
    if how == "auto" and plan.question.refine_on != "buckets":
        X, taken_out = _without_factors(data, screening, features, X=X)
    gaps = int(np.count_nonzero(np.isnan(X))) if isinstance(X, np.ndarray) else 0 if on_device(X) else int(X.gaps())
    if gaps and how != "auto":
        X = fillna(X, fillna(medians(X) if centre is None else centre, 0.0))
    located = refined(
        how, X, contamination=share, random_state=data.seed, progress=progress, centre=centre, n_jobs=data.n_jobs
    )
    if gaps and data.buckets.skip_missing:
        done = "left out of each centre" if how == "auto" else "filled with the median of bucket means for it"
        located = located.said(f"{located.how}; {gaps:,} of {X.shape[0] * X.shape[1]:,} values were missing and {done}")
    return located.said(f"{taken_out}: {located.how}") if taken_out else located


def _without_factors(data: FitData, screening: ScreeningResult, features: IntArray, *, X: Any) -> tuple[Any, str]:
    """Take out of the columns ``X`` of some features what they share with those off the support, and say so.

    Where workers have them it is only said.
    """
    others = np.setdiff1d(screening.columns, features)
    judged = screening.judged
    if others.size < factors.LEAST_COLUMNS or not (judged is None or directions.may_have_factors(judged.variances)):
        return X, ""
    off: Any = _off_support(data, screening, others)
    if with_workers(X):
        off = off[:: -(-off.shape[0] // factors.ROWS)]
    common = factors.common_factors(off, share=screening.share(data.plan), rng=np.random.default_rng((data.seed, 3)))
    count = common.scores.shape[1]
    if count and with_workers(X):
        return X, f"with {count} common factor(s) of other features, which are not taken out of that many rows"
    X, adjusted = factors.take_out(on_host(X), common) if count else (X, 0)
    if not adjusted:
        return X, ""
    kinds = "factor" if count == 1 else "factors"
    return X, f"after taking out {count} common {kinds} of {common.n_columns:,} other features"


def _off_support(data: FitData, screening: ScreeningResult, others: IntArray) -> FloatArray | Selected | Columns:
    """Return features off the support of the rows that are left, as they were judged by unless values are missing."""
    table = screening.judged
    if table is None or not table.ratios.whole:
        return data.columns(others, kept=screening.kept) if data.spread else data.values(others)[screening.kept]
    return Selected(table.ratios, screening.kept, _places(screening, others))


def _places(screening: ScreeningResult, features: IntArray) -> IntArray:
    """Return the places of some features among those in whose units rows are judged."""
    assert screening.judged is not None
    return np.flatnonzero(np.isin(screening.judged.columns, features))
