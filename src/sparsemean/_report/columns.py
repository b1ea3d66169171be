"""Names, columns and labels of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._report import groups, guarantees
from sparsemean._report.groups import Names
from sparsemean._report.guarantees import COLUMNS, RULES
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import unit_name
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    import pandas as pd

    from sparsemean.result import Estimate


@dataclass(frozen=True, slots=True)
class Labels:
    """Title, names of rows and groups, and the words that depend on the kind of fit."""

    title: str
    row_names: tuple[str, ...] | None
    groups: Names | None
    """The names of the reference and of the label; None for one sample."""
    unit: str
    """``rows``, or ``subjects`` where rows come in groups."""
    each: str
    """What a share of bad rows is a share of."""
    matched: Names | None = None
    """The names of the groups whose rows come in pairs, where differences within these are looked at."""
    of_means: bool = False
    """Whether means are tested."""

    @property
    def pairs(self) -> bool:
        """Whether groups are compared."""
        return self.groups is not None

    @property
    def label(self) -> str:
        """The group that the reference is taken from."""
        return "" if self.groups is None else self.groups[1]

    @property
    def effect(self) -> str:
        """What the estimate is, in words."""
        if self.matched is not None:
            return f"Difference within pairs, {groups.direction(self.matched)}"
        what = "Difference of means" if self.of_means else "Shift"
        return "Mean" if self.groups is None else f"{what}, {groups.direction(self.groups)}"

    @property
    def beta(self) -> str:
        """What β is, in words."""
        return "Cliff’s delta" if self.pairs and not self.of_means else "β"

    def row(self, index: int) -> str:
        """Return the name of a row, its number counted from 0 where it has none."""
        return str(index) if self.row_names is None else self.row_names[index]


def labels_of(
    estimate: Estimate,
    *,
    title: str | None = None,
    row_names: Sequence[Any] | None = None,
    group_names: Sequence[Any] | None = None,
) -> Labels:
    """Take names as given, else from the data where the estimate still holds them."""
    n, own = estimate.plan.n_rows, groups.names_of(estimate)
    if row_names is None and estimate.source is not None and estimate.source.row_names is not None:
        row_names = estimate.source.row_names.tolist()
    if row_names is not None and (isinstance(row_names, str) or len(row_names) != n):
        raise InputError("row_names", f"have one name for each of the {n} rows", len(row_names))
    if group_names is not None and (len(group_names) != 2 or own is None):
        rule = "have the names of the two groups" if own else "be left out where there is one group"
        raise InputError("group_names", rule, repr(group_names))
    reference, label = (own if group_names is None else group_names) or ("", "")
    names = None if own is None else (visible(reference), visible(label))
    if title is None and names is not None:
        title = f"What differs between {names[0]} and {names[1]}"
    unit = unit_name(estimate.units) + "s"
    return Labels(
        title=visible(title or "Which features have a mean"),
        row_names=None if row_names is None else tuple(visible(name) for name in row_names),
        groups=names,
        unit=unit,
        each=f"{unit} of each group" if estimate.plan.sizes else unit,
        matched=groups.matched(estimate),
        of_means=estimate.plan.question.target == "mean",
    )


# The columns of the table: heading, kind of number and meaning.

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


def columns_of(frame: pd.DataFrame, estimate: Estimate, labels: Labels) -> list[Column]:
    """Describe the columns of ``frame``, those not known here by their own names."""
    plan, digits = estimate.plan, _decimals(frame)
    known = {column.key: column for column in _known_columns(plan, labels, digits)}
    if labels.groups is not None:
        scale = None if estimate.effects is None else estimate.effects.scale
        known |= {column.key: column for column in _group_columns(labels.groups, scale, digits)}
        hidden = EXTRA | {"p_adjusted" if plan.question.selection.startswith("fdr") else "q_value"}
        hidden |= {"lift"} if scale == "log1p" else set()  # a ratio of logarithms says nothing
        known = {key: replace(column, extra=key in hidden) for key, column in known.items()}
    return [known.get(str(key), Column(str(key), str(key).replace("_", " "), "number", "")) for key in frame.columns]


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
        Column("difference", "Difference", "number", f"Means, {groups.direction(names)}; {NO_GUARANTEE}", digits),
        Column("lift", "Lift", "percent", f"Difference of means in % of the mean of {reference}; {NO_GUARANTEE}"),
        Column("log2_fold_change", "log₂ FC", "number", f"{FOLD_CHANGES[scale]}; {NO_GUARANTEE}", 2),
    ]


CENTRE = "the value is a centre, not mean, as the feature looks skewed, or has bad rows to one side"


def _short(name: str) -> str:
    name = "rest" if name == groups.REST else name
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _known_columns(plan: Plan, labels: Labels, digits: int | None) -> list[Column]:
    """Return what is known of the columns under this plan."""
    terms = {**guarantees.terms(plan, labels.groups, labels.unit[:-1]), "level": f"{plan.question.level:.2g}"}
    meaning = {key: column.meaning.format(**terms) for key, column in COLUMNS.items()}
    if plan.selection == "paper":  # whose support no p-value decides: Holm's, at the same level, is what bad rows move
        meaning["radius"] = (
            f"So many {labels.unit} must be replaced, at least, before Holm would judge the feature differently"
        )
    sizes = ", ".join(map(str, plan.walk.bucket_sizes))
    if labels.of_means:
        rate = "The influence sum as a share of the largest there can be, from −1 to 1"
    elif labels.pairs:
        rate = (
            f"Cliff’s delta, from −1 to 1: share of pairs in which {labels.label} is larger less those with it smaller"
        )
    else:
        rate = "Share of bucket means above the null value less the share below, from −1 to 1, at the best bucket size"
    beside = "; the ranks that select do not know it" if plan.question.test == "ranks" and not labels.pairs else ""
    by_holm = f"Adjusted for all features by {SELECTIONS['fwer']}: {RULES['fwer'].error}"
    q_rule = "fdr_by" if plan.question.selection == "fdr_by" else "fdr"
    q = f"q-value by {SELECTIONS[q_rule]}: {RULES[q_rule].error}"
    return [
        Column("feature", "Feature", "name", "Name of the column, or its number counted from 0"),
        Column("estimate", "Estimate", "number", f"{labels.effect}, in the units of the data", digits),
        Column("ci_low", "From", "number", f"Lower {meaning['interval']}", digits),
        Column("ci_high", "To", "number", f"Upper {meaning['interval']}", digits),
        Column("p_value", "p", "p", meaning["p_value"]),
        Column("p_adjusted", "p adjusted", "p", by_holm),
        Column("q_value", "q", "p", q),
        Column("radius", "Radius", "count", meaning["radius"]),
        Column("max_contamination", "Survives", "share", meaning["max_contamination"]),
        Column("beta", labels.beta, "rate", f"{rate}{beside}"),
        Column("entry_time", "Enters at", "count", "Iteration at which the feature leaves zero; earlier is stronger"),
        Column("bucket_size", "Bucket", "count", f"Rows in a bucket where signs show most, of {sizes}{beside}"),
        Column("skewed", "Skewed", "flag", f"Yes: {CENTRE}"),
    ]  # fmt: skip


def _decimals(frame: pd.DataFrame) -> int | None:
    """Return decimals that show the typical estimate with three or four digits; None where sizes differ too much."""
    sizes = np.abs(np.asarray(frame["estimate"], dtype=np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size or sizes.max() > WIDE * sizes.min():
        return None
    # By the median: one large estimate must not take the decimals of all others.
    digits = 2 - int(np.floor(np.log10(np.median(sizes))))
    return digits if 0 <= digits <= 6 else None


def plain(values: Any) -> list[Any]:
    """Return a column as JSON takes it: ``null`` for what is not known, words for what is infinite."""
    listed = list(np.asarray(values).tolist())
    return [_infinite(value) if isinstance(value, float) and not np.isfinite(value) else value for value in listed]


def _infinite(value: float) -> str | None:
    return None if np.isnan(value) else ("inf" if value > 0 else "-inf")


def rounded(values: FloatArray, digits: int = 4) -> list[float | int | None]:
    """Return numbers with so many significant digits, integers where they are whole; ``null`` for NaN."""
    short = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in short]


# Numbers as they are shown: the scripts of the page write them in the same way.

FIRST = 25
"""Rows of the table that stand in the page itself, for readers without scripts."""
WITHOUT_ANY = 10
"""Features that are listed where none is selected."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
UNKNOWN = "–"
UNDERFLOW = "< 10⁻³⁰⁷"
"""A p-value below what a double holds."""


def first_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return the first rows of the table as text."""
    described = [(kind, digits) for _, _, kind, digits, _, _ in content["columns"]]
    number = min(FIRST, content["n_selected"] or WITHOUT_ANY)
    rows = zip(*(column[:number] for column in content["table"]), strict=True)
    return [[text(value, kind, digits) for value, (kind, digits) in zip(row, described, strict=True)] for row in rows]


def centres(content: dict[str, Any]) -> list[bool]:
    """Return of which features on the page the value is marked as a centre."""
    flags = dict(zip((column[0] for column in content["columns"]), content["table"], strict=True)).get("skewed", ())
    return [flag is True for flag in flags]


def uncertified_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return the features that are not certified as text."""
    kinds = {"feature": "name", "estimate": "number", "p_adjusted": "p"}
    columns = [[text(value, kind) for value in content["uncertified"][key]] for key, kind in kinds.items()]
    return [list(row) for row in zip(*columns, strict=True)]


def text(value: Any, kind: str, digits: int | None = None) -> str:
    """Return one cell as text.

    Examples
    --------
    >>> text(0.1234567, "number", 3), text(-2.5e-11, "number"), text(4.04e-8, "p"), text(0.0304, "share")
    ('0.123', '−2.500 × 10⁻¹¹', '4.0 × 10⁻⁸', '3.0 %')
    >>> text("inf", "number"), text(None, "number"), text(1234.0, "count")
    ('∞', '–', '1,234')
    """
    if value is None:
        return UNKNOWN
    if kind == "name":
        return str(value)
    if kind == "flag":
        return "yes" if value else "no"
    if isinstance(value, str):
        return "−∞" if value.startswith("-") else "∞"
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
            return UNDERFLOW if value == 0 else fixed(value, 3) if value >= 0.001 else significant(value, 2)
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
