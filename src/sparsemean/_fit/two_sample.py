"""Two groups: ranks, selection, shifts, and how far rows look like the other group."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._counts import ranks
from sparsemean._counts.engines import Progress
from sparsemean._data.table import Table, as_names
from sparsemean._fit import messages
from sparsemean._fit.inference import infer
from sparsemean._fit.one_sample import build_estimate
from sparsemean._fit.power import pairs_possible
from sparsemean._stats import planning, row_scores
from sparsemean._stats.intervals import error_after_selection
from sparsemean._stats.selection import combined, p_at
from sparsemean._util.checks import is_missing
from sparsemean._util.records import FloatArray, IntArray, RankCounts
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


def _silenced(counts: RankCounts, bad_rows: int) -> IntArray:
    """Return features whose p-value is 1 by their ties alone, which count against rejection, and not for bad rows."""

    def never(statistic: FloatArray) -> npt.NDArray[np.bool_]:
        best = replace(counts.evidence, statistic=statistic[np.newaxis])
        return np.asarray(combined(p_at(best, [bad_rows]))[:, 0] >= 1)

    return np.setdiff1d(np.flatnonzero(never(counts.untied) & ~never(counts.pairs)), counts.tied)


def compare(
    table: Table,
    y: Any,
    *,
    contamination: Any = 0.05,
    selection_rule: Any = "fwer",
    level: Any = 0.05,
    missing: Any = "raise",
    n_jobs: int | None = None,
    progress: Progress | None = None,
    argument: str = "y",
) -> tuple[Estimate, npt.NDArray[Any]]:
    """Compare two groups of rows feature by feature; return the estimate and the two classes."""
    began = time.perf_counter()
    n, d = table.shape
    classes, labels = classes_of(y, n, argument)
    plan = planning.pairs_plan(
        n, d, contamination=contamination, selection=selection_rule, level=level, missing=missing
    )
    sizes = tuple(int(np.sum(labels == g)) for g in (0, 1))
    notes = pairs_possible(plan, sizes)
    counts = ranks.count(table, labels, missing=plan.missing == "omit", n_jobs=n_jobs, progress=progress)
    inference = infer(plan, counts)
    support = inference.selection.support
    mean, intervals, rows = np.zeros(d), np.full((d, 2), np.nan), row_scores.trust_all(n)
    if support.size:
        source = table.source.keeping(support)
        mean[support], *ends = ranks.shifts(
            source, support, labels, error=error_after_selection(plan, support.size), bad_rows=plan.bad_rows,
            missing=counts.missing is not None,
        )  # fmt: skip
        intervals[support] = np.column_stack(ends)
        rows = row_scores.between_groups(source.take(support), labels)
    if not counts.exact:
        notes.append("p-values use the normal tail of U, which is larger than the exact one far out")
    notes += messages.skipped(table, counts.tied)
    notes += messages.silenced(table, _silenced(counts, plan.bad_rows))
    notes += [] if counts.missing is None else messages.of_missing(counts.missing, n, table)
    estimate = build_estimate(
        plan, counts, inference, table=table, began=began, notes=notes,
        status={"screening": NO_SUSPECTS if support.size else "", "walked": int(support.size)},
        mean=mean, intervals=intervals, seed=0, rows=rows, labels=labels,
        class_names=as_names(classes.tolist()).astype(str), source=table,
    )  # fmt: skip
    return estimate, classes
