"""The columns of the table: heading, kind of number and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.records import FloatArray, Plan
from sparsemean.report.labels import Labels

if TYPE_CHECKING:
    import pandas as pd

WIDE = 1e4
"""Ratio of sizes from which a fixed number of decimals shows the small ones badly."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name in `Estimate.table`, its heading, how its values are shown and what they mean."""

    key: str
    heading: str
    kind: str
    """``name``, ``number``, ``p``, ``share``, ``rate``, ``count`` or ``flag``."""
    meaning: str
    digits: int | None = None
    """Decimals of a number; None: four significant digits."""


def columns_of(frame: pd.DataFrame, plan: Plan, labels: Labels) -> list[Column]:
    """Describe the columns of ``frame``, those not known here by their own names."""
    known = {column.key: column for column in _known(plan, labels, _decimals(frame))}
    return [known.get(str(key), Column(str(key), str(key).replace("_", " "), "number", "")) for key in frame.columns]


def _known(plan: Plan, labels: Labels, digits: int | None) -> list[Column]:
    """Return what is known of the columns under this plan."""
    unit, level = labels.unit, f"{plan.level:.2g}"
    sizes = ", ".join(map(str, plan.bucket_sizes))
    rate = (
        "Cliff’s delta, from −1 to 1: how far one group lies above the other"
        if labels.pairs
        else "Share of bucket means above the null value less the share below, from −1 to 1, at the best bucket size"
    )
    q = "Benjamini–Yekutieli" if plan.selection == "fdr_by" else "Benjamini–Hochberg"
    holds = f"with {plan.bad_rows} of {plan.n_units} {unit} replaced by anything"
    return [
        Column("feature", "Feature", "name", "Name of the column, or its number counted from 0"),
        Column("estimate", "Estimate", "number", f"{labels.effect}, in the units of the data", digits),
        Column("ci_low", "From", "number", f"Lower end of the interval after selection, at level {level}", digits),
        Column("ci_high", "To", "number", f"Upper end of the interval after selection, at level {level}", digits),
        Column("p_value", "p", "p", f"p-value, valid {holds}; not adjusted for the number of features"),
        Column("p_adjusted", "p adjusted", "p", "Adjusted for all features by Holm: family-wise error"),
        Column("q_value", "q", "p", f"q-value by {q}: false discovery rate"),
        Column("radius", "Radius", "count", _radius(plan, unit)),
        Column("max_contamination", "Survives", "share", f"Largest share of bad {unit} at which it is still selected"),
        Column("beta", labels.beta, "rate", rate),
        Column("entry_time", "Enters at", "count", "Iteration at which the feature leaves zero; earlier is stronger"),
        Column("bucket_size", "Bucket", "count", f"Rows in a bucket where p is smallest, of {sizes}"),
    ]  # fmt: skip


def _radius(plan: Plan, unit: str) -> str:
    if plan.selection == "paper":
        return f"So many {unit} must be replaced, at least, before Holm would judge the feature differently"
    return f"So many {unit} beyond those allowed for must be replaced, at least, before the feature can drop out"


def _decimals(frame: pd.DataFrame) -> int | None:
    """Return decimals that show the typical estimate with three or four digits; None where sizes differ too much."""
    sizes = np.abs(np.asarray(frame["estimate"], dtype=np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size or sizes.max() > WIDE * sizes.min():
        return None
    digits = 2 - int(np.floor(np.log10(np.median(sizes))))
    return digits if 0 <= digits <= 6 else None


def plain(values: Any) -> list[Any]:
    """Return a column as JSON takes it: ``null`` for what is not known, words for what is infinite."""
    if getattr(values, "dtype", None) == "boolean":
        return [None if missing else bool(value) for value, missing in zip(values, values.isna(), strict=True)]
    listed = list(np.asarray(values).tolist())
    return [_infinite(value) if isinstance(value, float) and not np.isfinite(value) else value for value in listed]


def _infinite(value: float) -> str | None:
    return None if np.isnan(value) else ("inf" if value > 0 else "-inf")


def rounded(values: FloatArray, digits: int = 4) -> list[float | int | None]:
    """Return numbers with so many significant digits, integers where they are whole; ``null`` for NaN."""
    short = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in short]
