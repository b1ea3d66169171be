"""The conductor for two groups: ranks, selection, shifts, and how far rows look like the other group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._counts import ranks
from sparsemean._data.table import Table, as_names
from sparsemean._fit import messages
from sparsemean._fit.power import pairs_possible
from sparsemean._stats import planning, row_scores, selection
from sparsemean._util.checks import is_missing
from sparsemean._util.records import FloatArray, IntArray, Status
from sparsemean.errors import InputError
from sparsemean.result import Estimate

NO_SUSPECTS = (
    "rows have scores, larger where they look like the other group; none is called suspect, since without one wrong "
    "label rows have high scores too"
)


def classes_of(y: Any, n: int, argument: str = "y") -> tuple[npt.NDArray[Any], IntArray]:
    """Return the two classes of ``y`` and the class, 0 or 1, of every row."""
    plain = y if isinstance(y, (list, tuple)) or hasattr(y, "tolist") else np.asarray(y)
    given = plain.tolist() if hasattr(plain, "tolist") else list(plain)
    if not isinstance(given, list) or len(given) != n or any(isinstance(label, (list, tuple)) for label in given):
        received = f"{len(given)} labels" if isinstance(given, list) and len(given) != n else "another shape"
        raise InputError(argument, f"have one label for each of the {n} rows of X", received)
    missing = [row for row, label in enumerate(given) if is_missing(label)]
    if missing:
        advice = "drop such rows or give them a label"
        raise InputError(argument, "have no missing labels", f"a missing one at row {missing[0]}", advice)
    try:
        classes, codes = np.unique(np.asarray(given), return_inverse=True)
    except TypeError as error:
        raise InputError(argument, "have labels of one type", str(error)) from None
    if classes.size != 2:
        shown = ", ".join(map(str, classes[:4])) + (", …" if classes.size > 4 else "")
        raise InputError(argument, "have exactly two classes", f"{classes.size} class(es) ({shown})", "keep two groups")
    return classes, codes.astype(np.intp)


def _silenced(found: ranks.RankCounts, bad_rows: int) -> IntArray:
    """Return features whose p-value is 1 by their ties alone, which count against rejection, and not for bad rows."""

    def never(statistic: FloatArray) -> npt.NDArray[np.bool_]:
        best = replace(found.evidence, statistic=statistic[np.newaxis])
        return np.asarray(selection.combined(selection.p_at(best, [bad_rows]))[:, 0] >= 1)

    return np.setdiff1d(np.flatnonzero(never(found.untied) & ~never(found.pairs)), found.tied)


def compare(
    table: Table,
    y: Any,
    *,
    contamination: Any = 0.05,
    selection_rule: Any = "fwer",
    level: Any = 0.05,
    missing: Any = "raise",
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    argument: str = "y",
) -> tuple[Estimate, npt.NDArray[Any]]:
    """Compare two groups of rows feature by feature; return the estimate and the two classes."""
    began = time.perf_counter()
    n, d = table.shape
    classes, labels = classes_of(y, n, argument)
    plan = planning.pairs_plan(
        n, d, contamination=contamination, selection=selection_rule, level=level, missing=missing
    )
    omit = plan.missing == "omit"
    sizes = tuple(int(np.sum(labels == g)) for g in (0, 1))
    notes = pairs_possible(plan, sizes)
    found = ranks.count(table, labels, missing=omit, n_jobs=n_jobs, progress=progress)
    omit = found.missing is not None
    chosen = selection.select(
        found.evidence, selection=plan.selection, level=plan.level, bad_rows=plan.bad_rows, n_rows=n
    )
    support = chosen.support
    handle = table
    mean, ends, judged = np.zeros(d), np.full((d, 2), np.nan), row_scores.trust_all(n)
    if support.size:
        table = replace(table, source=table.source.keeping(support))
        error = plan.level * support.size / d
        value, low, high = ranks.shifts(table, support, labels, error=error, bad_rows=plan.bad_rows, missing=omit)
        mean[support], ends[support] = value, np.column_stack((low, high))
        columns = table.source.take(support)
        judged = row_scores.between_groups(columns, labels)
    if not found.exact:
        notes.append("p-values use the normal tail of U, which is larger than the exact one far out")
    notes += messages.skipped(table, found.tied)
    notes += messages.silenced(table, _silenced(found, plan.bad_rows))
    notes += [] if found.missing is None else messages.of_missing(found.missing, n, table)
    estimate = Estimate(
        mean=mean,
        support=support,
        intervals=ends,
        beta=found.delta,
        bucket_size=np.ones(d, dtype=np.intp),
        skew_safe=np.full(d, -1, dtype=np.intp),
        selection=chosen,
        feature_names=table.feature_names,
        plan=plan,
        seed=0,
        status=Status(
            messages=(*table.notes, *notes),
            screening=NO_SUSPECTS if support.size else "",
            walked=int(support.size),
            seconds=time.perf_counter() - began,
            versions=messages.versions(),
        ),
        rows=judged,
        evidence=found.evidence,
        labels=labels,
        class_names=as_names(classes.tolist()).astype(str),
        source=handle,
    )
    return estimate, classes
