"""The columns of the page's table: what they are called and mean, and their numbers as they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsemean._report import guarantees
from sparsemean._report.guarantees import COLUMNS
from sparsemean._report.wording import REST, RULES, Names, Wording, direction
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.result import Estimate

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
    """``name``, ``number``, ``p``, ``share``, ``percent``, ``rate``, ``count`` or ``flag``."""
    meaning: str
    digits: int | None = None
    """Decimals of a number; None: four significant digits."""
    extra: bool = False
    """Whether it is shown only where all columns are asked for."""


def described_columns(values: Mapping[str, npt.ArrayLike] | pd.DataFrame, wording: Wording) -> list[Column]:
    """Describe the columns of a table, in its order, but for those that say nothing here."""
    digits = _decimals(np.asarray(values["estimate"], dtype=np.float64))
    known = {column.key: column for column in _known_columns(wording, digits)}
    if wording.names is not None:
        effects = wording.estimate.effects
        scale = None if effects is None else effects.scale
        known |= {column.key: column for column in _group_columns(wording.names, scale, digits)}
        hidden = EXTRA | {"p_adjusted", "q_value"} - {wording.rule.compared.column}
        hidden |= {"lift"} if scale == "log1p" else set()  # a ratio of logarithms says nothing
        known = {key: replace(column, extra=key in hidden) for key, column in known.items()}
        for nothing in ("entry_time", "bucket_size", *(["beta"] if wording.ranked else [])):  # auc says the same
            del known[nothing]
        # Neither counts nor their logarithms have no fold change.
        if "log2_fold_change" in values and np.isnan(np.asarray(values["log2_fold_change"], dtype=np.float64)).all():
            del known["log2_fold_change"]
    return [known[str(key)] for key in values if str(key) in known]


EXTRA = {
    "log10_p", "median_0", "median_1", "difference", "share_nonzero_0", "share_nonzero_1", "n_0", "n_1", "radius",
}  # fmt: skip
"""Columns of two groups that the page shows only where all are asked for."""
LONGEST = 14
"""Letters of a group's name in a heading."""
NO_GUARANTEE = "it carries no guarantee"
FOLD_CHANGES = {
    "counts": "log₂ of the ratio of the two means of counts",
    "log1p": "log₂ of the ratio of expm1 of the two means, as the data look like log(1 + x) of scaled counts",
    None: "log₂ of a ratio of means, for counts and logarithms of counts only",
}


def _group_columns(names: Names, scale: str | None, digits: int | None) -> list[Column]:
    """Return what is known of the columns that two groups have besides."""
    (reference, label), (short_reference, short_label) = names, map(_short, names)
    sides = (("0", reference, short_reference), ("1", label, short_label))
    each = [
        column
        for side, name, short in sides
        for column in (
            Column(f"mean_{side}", f"Mean {short}", "number", f"Mean of {name}; {NO_GUARANTEE}", digits),
            Column(f"median_{side}", f"Median {short}", "number", f"Median of {name}", digits),
            Column(
                f"share_nonzero_{side}", f"Non-zero {short}", "share", f"Share of values of {name} that are not zero"
            ),
            Column(f"n_{side}", f"n {short}", "count", f"Values of {name} that are there"),
        )
    ]
    above = f"Share of pairs, a row of {label} and one of {reference}, in which {label} is larger; ties count half"
    return [
        *each,
        Column("log10_p", "log₁₀ p", "number", "log₁₀ of p, also where p is below what a number can hold", 1),
        Column("auc", "AUC", "rate", above),
        Column("difference", "Difference", "number", f"Means, {direction(names)}; {NO_GUARANTEE}", digits),
        Column("lift", "Lift", "percent", f"Difference of means in % of the mean of {reference}; {NO_GUARANTEE}"),
        Column("log2_fold_change", "log₂ FC", "number", f"{FOLD_CHANGES[scale]}; {NO_GUARANTEE}", 2),
    ]


CENTRE = "the value is a centre, not mean, as the feature looks skewed, or has bad rows to one side"


def _short(name: str) -> str:
    name = "rest" if name == REST else name
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _known_columns(wording: Wording, digits: int | None) -> list[Column]:
    """Return what is known of the columns of this fit."""
    plan, test = wording.plan, wording.test
    terms = {**guarantees.terms(wording), "level": f"{plan.question.level:.2g}"}
    meaning = {key: column.meaning.format(**terms) for key, column in COLUMNS.items()}
    if wording.paper:  # whose support no p-value decides: Holm's, at the same level, is what bad rows move
        meaning["radius"] = (
            f"So many {wording.noun}s must be replaced, at least, before Holm would judge the feature differently"
        )
    sizes = ", ".join(map(str, plan.walk.bucket_sizes))
    beside = "; the ranks that select do not know it" if plan.question.test == "ranks" and not wording.names else ""
    by_holm = f"Adjusted for all features by {SELECTIONS['fwer']}: {RULES['fwer'].error}"
    q_rule = "fdr_by" if plan.question.selection == "fdr_by" else "fdr"
    q = f"q-value by {SELECTIONS[q_rule]}: {RULES[q_rule].error}"
    return [
        Column("feature", "Feature", "name", "Name of the column, or its number counted from 0"),
        Column("estimate", "Estimate", "number", f"{test.effect}, in the units of the data", digits),
        Column("ci_low", "From", "number", f"Lower {meaning['interval']}", digits),
        Column("ci_high", "To", "number", f"Upper {meaning['interval']}", digits),
        Column("p_value", "p", "p", meaning["p_value"]),
        Column("p_adjusted", "p adjusted", "p", by_holm),
        Column("q_value", "q", "p", q),
        Column("radius", "Radius", "count", meaning["radius"]),
        Column("max_contamination", "Survives", "share", meaning["max_contamination"]),
        Column("beta", test.lean, "rate", f"{test.lean_meaning}{beside}"),
        Column("entry_time", "Enters at", "count", "Iteration at which the feature leaves zero; earlier is stronger"),
        Column("bucket_size", "Bucket", "count", f"Rows in a bucket where signs show most, of {sizes}{beside}"),
        Column("skewed", "Skewed", "flag", f"Yes: {CENTRE}"),
    ]


def _decimals(estimates: FloatArray) -> int | None:
    """Return decimals that show the typical estimate with three or four digits; None where sizes differ too much."""
    sizes = np.abs(estimates)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size or sizes.max() > WIDE * sizes.min():
        return None
    # By the median: one large estimate must not take the decimals of all others.
    digits = 2 - int(np.floor(np.log10(np.median(sizes))))
    return digits if 0 <= digits <= 6 else None


def plain(values: npt.ArrayLike) -> list[object]:
    """Return a column as JSON takes it: ``null`` for what is not known, words for what is infinite."""
    return [_infinite(value) if isinstance(value, float) else value for value in np.asarray(values).tolist()]


def _infinite(value: float) -> float | str | None:
    if np.isfinite(value):
        return value
    return None if np.isnan(value) else "inf" if value > 0 else "-inf"


def rounded(values: FloatArray, digits: int = 4) -> list[float | int | None]:
    """Return numbers with so many significant digits, integers where they are whole; ``null`` for NaN."""
    short = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in short]


def logarithms(estimate: Estimate, features: IntArray) -> list[object]:
    """Return log₁₀ p of features, close enough for p to two digits, however small it is."""
    return plain(np.round(estimate.log10_p[features], 4) + 0.0)  # no −0.0


# Numbers as they are shown: the scripts of the page write them in the same way.

FIRST = 25
"""Rows of the table that stand in the page itself, for readers without scripts."""
WITHOUT_ANY = 10
"""Features that are listed where none is selected."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
UNKNOWN = "–"
LEAST_P, UNDERFLOW = 1e-300, "< 10⁻³⁰⁰"
"""From where on a double holds p-values, and what those below are shown as whose logarithm is not known."""


def cell_text(value: object, kind: str, digits: int | None = None, log10_p: object = None) -> str:
    """Return one cell as text, very small p-values by ``log10_p``.

    Examples
    --------
    >>> cell_text(0.1234567, "number", 3), cell_text(-2.5e-11, "number"), cell_text(4.04e-8, "p")
    ('0.123', '−2.500 × 10⁻¹¹', '4.0 × 10⁻⁸')
    >>> cell_text("inf", "number"), cell_text(None, "number"), cell_text(1234.0, "count"), cell_text(0.0304, "share")
    ('∞', '–', '1,234', '3.0 %')
    >>> cell_text(2.2e-308, "p", log10_p=-400.2), cell_text(2.2e-308, "p")
    ('6.3 × 10⁻⁴⁰¹', '< 10⁻³⁰⁰')
    """
    if value is None:
        return UNKNOWN
    if kind == "name":
        return str(value)
    if kind == "flag":
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return "−∞" if str(value).startswith("-") else "∞"
    if kind == "p" and value < LEAST_P:
        return power_of_ten(log10_p) if isinstance(log10_p, float) else UNDERFLOW
    return _number(float(value), kind, digits).replace("-", "−")


def _number(value: float, kind: str, digits: int | None) -> str:
    match kind:
        case "share":
            return f"{fixed(100 * value, 1)} %"
        case "count":
            return fixed(value, 0)
        case "rate":
            return fixed(value, 3)
        case "percent":
            return f"{fixed(value, 1)} %"
        case "p":
            return fixed(value, 3) if value >= 0.001 else significant(value, 2)
        case _:
            return significant(value, 4) if digits is None or abs(value) >= 1e6 else fixed(value, digits)


def fixed(value: float, digits: int) -> str:
    """Return a number with so many decimals; what lies halfway goes away from zero, as in browsers."""
    with localcontext(rounding=ROUND_HALF_UP):
        return f"{Decimal(value):,.{digits}f}"


def significant(value: float, digits: int) -> str:
    """Return a number with so many significant digits, as a power of ten where it is very small or large."""
    if value == 0:
        return "0"
    with localcontext(rounding=ROUND_HALF_UP):
        mantissa, exponent = f"{Decimal(value):.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 < power < 6:
        return fixed(value, max(0, digits - 1 - power))
    return f"{mantissa} × 10{str(power).translate(RAISED)}"


def power_of_ten(logarithm: float) -> str:
    """Return what has this logarithm to base 10, with two digits."""
    power = math.floor(logarithm)
    mantissa = f"{10 ** (logarithm - power):.1f}"
    if mantissa == "10.0":
        mantissa, power = "1.0", power + 1
    return f"{mantissa} × 10{str(power).translate(RAISED)}"
