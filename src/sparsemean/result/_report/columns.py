"""The columns of the page's table: what they are called and mean, and their numbers as they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.effects import CENTRE
from sparsemean._stats.planning import SELECTIONS
from sparsemean.result._report import guarantees
from sparsemean.result._report.wording import REST, RULES, Wording

if TYPE_CHECKING:
    import pandas as pd

WIDE = 1e4
"""Ratio of sizes from which a fixed number of decimals shows the small ones badly."""


class Column(NamedTuple):
    """One column: its name in `Estimate.table`, its heading, how its values are shown and what they mean."""

    key: str
    heading: str
    kind: str
    """``name``, ``word``, ``number``, ``p``, ``share``, ``percent``, ``rate``, ``count`` or ``flag``."""
    meaning: str
    digits: int | None = None
    """Decimals of a number; None: those of the estimates."""
    extra: bool = False
    """Whether it is shown only where all columns are asked for."""


COLUMNS = (
    Column("feature", "{Feature}", "name", "Name, or number of the column counted from 0"),
    Column("estimate", "Estimate", "number", "{effect}, in the units of the data"),
    Column("ci_low", "From", "number", "Lower end of the interval ({intervals})"),
    Column("ci_high", "To", "number", "Upper end of the interval ({intervals})"),
    Column(
        "measure", "Measure", "word",
        "What the estimate is where many values are equal: the difference of means (means) of two values, else the "
        "share of pairs of {units} {won} (pairs); an end at 0 is not part of the interval, as the test excludes 0",
    ),
    Column(
        "p_value", "p", "p",
        "p-value, {replaced}; not adjusted for the number of features",
    ),
    Column("p_adjusted", "p adjusted", "p", "Adjusted for all features by {holm}"),
    Column("q_value", "q", "p", "q-value by {q_rule}"),
    Column("radius", "Radius", "count", "How many {units} {radius}"),
    Column("max_contamination", "Survives", "share", "Largest share of bad {each} up to which it is selected"),
    Column("beta", "{lean}", "rate", "{lean_meaning}{beside}"),
    Column("entry_time", "Enters at", "count", "Iteration at which the feature leaves zero; earlier is stronger"),
    Column("bucket_size", "Bucket", "count", "Rows in a bucket where signs show most, of {sizes}{beside}"),
    Column(
        "skewed", "Skewed", "flag",
        "Yes: the value is a centre, not a mean, as the feature may be skewed, or has bad {units} on one side",
    ),
    Column("log10_p", "log₁₀ p", "number", "log₁₀ of p, also where p is too small for a number of 64 bits", 1),
    Column("mean_0", "Mean {short_0}", "number", "Mean of {reference}; it carries no guarantee"),
    Column("mean_1", "Mean {short_1}", "number", "Mean of {label}; it carries no guarantee"),
    Column("median_0", "Median {short_0}", "number", "Median of {reference}"),
    Column("median_1", "Median {short_1}", "number", "Median of {label}"),
    Column("share_nonzero_0", "Non-zero {short_0}", "share", "Share of values of {reference} that are not zero"),
    Column("share_nonzero_1", "Non-zero {short_1}", "share", "Share of values of {label} that are not zero"),
    Column("n_0", "n {short_0}", "count", "Values of {reference} that are not missing"),
    Column("n_1", "n {short_1}", "count", "Values of {label} that are not missing"),
    Column(
        "auc", "AUC", "rate",
        "Share of pairs, a {unit} of {label} and one of {reference}, in which {label} is larger; ties count half",
    ),
    Column("difference", "Difference", "number", "Means, {label} minus {reference}; it carries no guarantee"),
    Column("lift", "Lift", "percent", "Difference of means in % of the mean of {reference}; it carries no guarantee"),
    Column("log2_fold_change", "log₂ FC", "number", "{fold_change}; it carries no guarantee", 2),
)  # fmt: skip
EXTRA = {
    "log10_p", "median_0", "median_1", "difference", "share_nonzero_0", "share_nonzero_1", "n_0", "n_1", "radius",
    "beta", "entry_time", "bucket_size",
}  # fmt: skip
"""Columns that the page shows only where all are asked for."""
IN_LOGARITHMS = ("gene", "probe", "protein", "peptide", "transcript")
"""Features whose values are logarithms, if they are no counts: a ratio of them is no lift."""
LONGEST = 14
"""Letters of a group's name in a heading."""
FOLD_CHANGES = {
    "counts": "log₂ of the ratio of the two means of counts",
    "log1p": "log₂ of the ratio of expm1 of the two means, as the data look like log(1 + x) of scaled counts",
    None: "log₂ of a ratio of means, for counts and logarithms of counts only",
}


def described_columns(values: Mapping[str, npt.ArrayLike] | pd.DataFrame, wording: Wording) -> list[Column]:
    """Describe the columns of a table, in its order, but for those that say nothing here."""
    extra, nothing = EXTRA | {"p_adjusted", "q_value"} - {wording.rule.compared.column}, set[str]()
    if wording.names:
        nothing = {"entry_time", "bucket_size", *(["beta"] if wording.test.ranked else [])}  # auc says the same
    if wording.estimate.sample.y is not None:
        nothing |= {"entry_time", "bucket_size"}
    if wording.feature in IN_LOGARITHMS and wording.estimate.effects is not None:
        nothing |= set() if wording.estimate.effects.scale == "counts" else {"lift"}
    if wording.test.means or not (wording.estimate.measure > CENTRE).any():
        nothing |= {"measure"}
    # Logarithms have no lift, and what is neither counts nor logarithms of them has no fold change.
    nothing |= {k for k in ("lift", "log2_fold_change") if k in values and np.isnan(np.asarray(values[k], float)).all()}
    sizes, digits = np.abs(np.asarray(values["estimate"], dtype=np.float64)), None
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    # Three or four digits of the typical estimate, where sizes do not differ too much: one large estimate must not take
    # the decimals of all others.
    if sizes.size and sizes.max() <= WIDE * sizes.min():
        shown = 2 - int(np.floor(np.log10(np.median(sizes))))
        digits = shown if 0 <= shown <= 6 else None
    known, filled = {column.key: column for column in COLUMNS}, _terms(wording)
    return [
        column._replace(
            heading=column.heading.format(**filled),
            meaning=column.meaning.replace("feature", wording.feature).format(**filled),
            digits=digits if column.kind == "number" and column.digits is None else column.digits,
            extra=column.key in extra,
        )
        for key in values
        if (column := known.get(str(key))) and column.key not in nothing
    ]


def _terms(wording: Wording) -> dict[str, str]:
    """Return what headings and meanings are filled in with."""
    plan, effects = wording.plan, wording.estimate.effects
    q_rule = "fdr_by" if plan.question.selection == "fdr_by" else "fdr"
    called = [name.removeprefix("the ") if name == REST else name for name in wording.names or ("", "")]
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in called]
    ranks = plan.question.test == "ranks" and not wording.names
    beyond = "more must be replaced, at least, before the feature can drop out"
    if wording.rule.paper:  # whose support no p-value decides: Holm's, at the same level, is what bad rows move
        beyond = "must be replaced, at least, before Holm would judge the feature differently"
    return {
        **guarantees.terms(wording), **wording.test._asdict(), "radius": beyond,
        "holm": f"{SELECTIONS['maxt' if wording.rule.drawn else 'fwer']}: {RULES['fwer'].error}",
        "q_rule": f"{SELECTIONS[q_rule]}: {RULES[q_rule].error}",
        "won": wording.test.pairs,
        "beside": "; selection by ranks does not use it" if ranks else "",
        "sizes": ", ".join(map(str, plan.walk.bucket_sizes)),
        "short_0": short[0], "short_1": short[1], "Feature": wording.feature.capitalize(),
        "fold_change": FOLD_CHANGES[None if effects is None else effects.scale],
    }  # fmt: skip


def plain(values: npt.ArrayLike, digits: int | None = None) -> list[object]:
    """Return numbers as JSON takes them, with so many significant digits.

    Whole ones are integers then; ``null`` is what is not known, and words are what is infinite.
    """
    out: list[object] = []
    for value in np.asarray(values).tolist():
        if isinstance(value, float) and not math.isfinite(value):
            out.append(None if math.isnan(value) else "inf" if value > 0 else "-inf")
        elif isinstance(value, float) and digits is not None:
            short = float(f"{value:.{digits}g}")
            out.append(int(short) if short.is_integer() else short)
        else:
            out.append(value)
    return out


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
    if kind in ("name", "word"):
        return str(value)
    if kind == "flag":
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return "−∞" if str(value).startswith("-") else "∞"
    if kind == "p" and value < LEAST_P:
        return power_of_ten(log10_p) if isinstance(log10_p, float) else UNDERFLOW
    match kind:
        case "share" | "percent":
            text = f"{fixed(100 * value if kind == 'share' else value, 1)} %"
        case "count":
            text = fixed(value, 0)
        case "rate":
            text = fixed(value, 3)
        case "p":
            text = fixed(value, 3) if value >= 0.001 else significant(value, 2)
        case _:
            text = significant(value, 4) if digits is None or abs(value) >= 1e6 else fixed(value, digits)
    return text.replace("-", "−")


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
