"""What there is to say about a fit besides its numbers: one sentence each."""

from __future__ import annotations

import platform

import numpy as np

from sparsemean import __version__
from sparsemean._data.table import Table
from sparsemean._fit.inference import DRIFT_ALARMS, Values
from sparsemean._fit.power import nothing_possible
from sparsemean._util.records import CountArray, Counts, IntArray, Plan, Selection

NAMED = 5


def of_fit(plan: Plan, counts: Counts, chosen: Selection, constant: IntArray, table: Table) -> tuple[str, ...]:
    """Return the remarks on a one-sample fit."""
    said = []
    if chosen.filled_up:
        said.append(
            f"only {chosen.support.size - chosen.filled_up} feature(s) passed the rule; the {chosen.support.size} "
            f"that moved farthest were taken (min_selected={plan.min_selected})"
        )
    if plan.selection != "paper" and not chosen.support.size:
        said += nothing_possible(plan)
    if plan.noise == "skewed" and chosen.support.size:
        said.append("no intervals under skewed noise: medians of bucket means miss the mean by an unknown amount")
    if constant.size and not chosen.skipped.size:
        said.append(f"{constant.size} selected column(s) hold one value only: {_names(table, constant)}")
    said += skipped(table, chosen.skipped)
    silent = (counts.positive == 0).all(axis=0) & (counts.negative == 0).all(axis=0)
    if counts.missing is not None:
        said += of_missing(counts.missing, plan.n_rows, table)
        silent &= counts.missing < plan.n_rows
    if silent.any():
        silent = np.flatnonzero(silent)
        said.append(f"{silent.size} column(s) equal the null value in every bucket: {_names(table, silent)}")
    return tuple(said)


def skipped(table: Table, constant: IntArray) -> list[str]:
    """Name columns that hold one value only and so are no part of the support."""
    if not constant.size:
        return []
    return [f"{constant.size} column(s) hold one value only and were left out: {_names(table, constant)}"]


def silenced(table: Table, features: IntArray) -> list[str]:
    """Name features of two groups that no data could have selected, so many of their values are tied."""
    if not features.size:
        return []
    return [
        f"{features.size} feature(s) have p = 1 by construction, since so many of their values are equal and ties "
        f"count against a difference; that says nothing of whether they differ: {_names(table, features)}"
    ]


def of_missing(missing: CountArray, n_rows: int, table: Table) -> list[str]:
    """Say how much is missing, and name columns that have nothing, or less than half of their values."""
    worst = np.argsort(-missing, kind="stable")[:NAMED]
    shown = ", ".join(f"{_name(table, int(i))} ({missing[i] / n_rows:.0%})" for i in worst if missing[i])
    share = float(np.mean(missing, dtype=np.float64)) / n_rows
    much = f"{share:.2%}" if share >= 5e-5 else f"{int(missing.sum(dtype=np.int64)):,}"
    said = [f"{much} of the values are missing and were left out, most of them in {shown}"]
    empty = np.flatnonzero(missing == n_rows)
    if empty.size:
        said.append(f"{empty.size} column(s) have no value at all and were left out: {_names(table, empty)}")
    few = np.flatnonzero((2 * missing > n_rows) & (missing < n_rows))
    if few.size:
        said.append(f"{few.size} column(s) have fewer than half of their values: {_names(table, few)}")
    return said


def of_values(values: Values, table: Table) -> list[str]:
    """Name selected features whose values say that their noise is not symmetric, or are mostly the null value."""
    said, drifting = [], np.flatnonzero(~np.isnan(values.drifting[0]))
    if drifting.size:
        first = ", ".join(f"{middle:.3g}" for middle in values.drifting[:, drifting[0]])
        said.append(
            f"medians of buckets of 1, 2 and 4 rows drift beyond chance for {drifting.size} selected feature(s), which "
            "speaks of skewed noise or of bad rows to one side; where it is skewed neither selection nor estimate is "
            f"about the mean: {_names(table, drifting)} ({first} for the first; by chance in at most "
            f"{DRIFT_ALARMS:.0%} of fits)"
        )
    if values.at_null.size:
        said.append(
            f"{values.at_null.size} selected feature(s) have no interval, as many of their values are exactly the null "
            "value: the test is of the other values, while the estimate is a centre of all and may be the null value: "
            f"{_names(table, values.at_null)}"
        )
    return said


def _name(table: Table, column: int) -> str:
    return str(column if table.feature_names is None else table.feature_names[column])


def _names(table: Table, columns: IntArray) -> str:
    names = columns if table.feature_names is None else table.feature_names[columns]
    return ", ".join(str(name) for name in names[:NAMED]) + (", …" if columns.size > NAMED else "")


def versions() -> dict[str, str]:
    """Return the versions that a result was made with."""
    return {"sparsemean": __version__, "numpy": np.__version__, "python": platform.python_version()}
