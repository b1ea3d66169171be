"""The page: its data, its settings, and one file that needs nothing but itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._fit.messages import how_tested
from sparsemean._report import columns, groups, guarantees, plot_data
from sparsemean._report.columns import WITHOUT_ANY, Labels, labels_of
from sparsemean._report.groups import Names, percent
from sparsemean._report.guarantees import RULES
from sparsemean._report.plot_data import MOST_STOPS, Decisions, stops_of
from sparsemean._report.strongest import closest_first, without_bad_rows
from sparsemean._report.summary import summary
from sparsemean._report.verdict import verdict
from sparsemean._stats.planning import SELECTIONS
from sparsemean._stats.row_scores import FEW, LABEL, LARGE, TOGETHER
from sparsemean._util.checks import pluralize
from sparsemean._util.files import check_writable, replacing
from sparsemean._util.plans import Plan
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require, visible
from sparsemean.result import strongest_first

if TYPE_CHECKING:
    import pandas as pd

    from sparsemean.result import Estimate

# The data inside the page: full for selected features, summed up for the rest.

MOST_LISTED, LEAST_LISTED = 15_000, 150
"""Features on the page, the strongest: beyond them it would grow past what mail and browsers like. Several tests share
them, down to so many for each."""


def listed_features(estimate: Estimate, most: int) -> IntArray:
    """Return the selected features, strongest first, and those that fewer bad rows would leave, longest first.

    Where none is selected the list goes on with the strongest of the rest.
    """
    if not estimate.support.size:
        passing = int(np.sum(~np.isnan(np.delete(estimate.max_contamination, estimate.decision.skipped))))
        return closest_first(estimate, without_bad_rows(estimate))[: min(most, max(WITHOUT_ANY, passing))]
    chosen, last = strongest_first(estimate, estimate.support), estimate.max_contamination.copy()
    last[estimate.decision.skipped] = np.nan
    others = strongest_first(estimate, np.setdiff1d(np.flatnonzero(~np.isnan(last)), chosen))
    if estimate.plan.question.selection == "paper":  # whose support is no matter of bad rows
        others = others[:0]
    return np.concatenate((chosen, others[np.argsort(-last[others], kind="stable")]))[:most]


def _frame(estimate: Estimate, listed: IntArray, labels: Labels) -> pd.DataFrame:
    """Return the table of ``listed``, without columns that say nothing here."""
    if estimate.support.size >= listed.size:
        frame = estimate.table().head(listed.size)
    else:
        places = np.argsort(strongest_first(estimate, np.arange(estimate.mean.size)), kind="stable")
        frame = estimate.table(all=True).iloc[places[listed]].reset_index(drop=True)
    flags = frame["skewed"].astype(object).where(frame["skewed"].notna(), None)
    frame = frame.assign(skewed=flags) if (estimate.skewed[listed] == 1).any() else frame.drop(columns="skewed")
    if not labels.pairs:
        return frame.drop(columns="log10_p")
    frame = frame.drop(columns=["entry_time", "bucket_size"])
    if "auc" in frame:  # says the same
        frame = frame.drop(columns="beta")
    # Neither counts nor their logarithms have no fold change.
    return frame.drop(columns="log2_fold_change") if frame["log2_fold_change"].isna().all() else frame


def page_data(
    estimate: Estimate, labels: Labels, *, tests: int = 1, decisions: Decisions | None = None
) -> dict[str, Any]:
    """Return all that the scripts of the page need, as JSON takes it; ``tests`` of them share the room of one page."""
    plan, most = estimate.plan, MOST_LISTED if tests == 1 else max(LEAST_LISTED, MOST_LISTED // tests)
    listed, decisions = listed_features(estimate, most), decisions or Decisions(stops_of([estimate], MOST_STOPS))
    frame = _frame(estimate, listed, labels)
    described = columns.columns_of(frame, estimate, labels)
    return {
        "title": labels.title,
        "pairs": labels.pairs,
        "effect": labels.effect,
        "lean": labels.beta,
        "groups": labels.groups,
        "unit": labels.unit,
        "each": labels.each,
        "n_rows": plan.n_rows,
        "n_units": plan.n_units,
        "n_features": plan.n_features,
        "bad_rows": plan.bad_rows,
        "bad": _bad(estimate, labels),
        "contamination": plan.contamination,
        "level": plan.question.level,
        "selection": plan.question.selection,
        "seed": str(estimate.seed),
        "null": None if estimate.shift is None else columns.rounded(estimate.shift[listed], 17),
        "without_any": WITHOUT_ANY,
        "n_selected": int(estimate.support.size),
        "in_percent": estimate.effects is not None and estimate.effects.scale != "log1p",
        "has_values": estimate.has_values,
        "columns": [[c.key, c.heading, c.kind, c.digits, c.meaning, c.extra] for c in described],
        "table": [columns.plain(frame[c.key]) for c in described],
        "index": listed.tolist(),
        "uncertified": _uncertified(estimate),
        "volcano": plot_data.volcano_data(estimate, listed),
        "shares": plot_data.share_data(estimate, listed, labels, decisions=decisions, tests=tests),
        "values": plot_data.values_data(estimate, listed, tests=tests),
        "path": None if labels.pairs else plot_data.path_data(estimate, listed[: estimate.support.size]),
        "robustness": plot_data.robustness_data(estimate),
        "rows": plot_data.rows_data(estimate, labels, most=plot_data.MOST_POINTS // tests),
        "summary": summary(estimate, labels.groups),
        "versions": dict(estimate.status.versions),
    }


def _bad(estimate: Estimate, labels: Labels) -> str:
    """Say how many bad rows are planned for."""
    bad = estimate.plan.bad
    if estimate.plan.sizes is None:
        return f"{bad.label:,} {labels.unit}"
    return f"{bad.label:,} and {bad.reference:,} {labels.unit}"


def _uncertified(estimate: Estimate) -> dict[str, list[Any]]:
    """Return the features that show only after screening."""
    frame: pd.DataFrame = estimate.table(certified=False).head(MOST_LISTED)
    return {key: columns.plain(frame[key]) for key in ("feature", "estimate", "p_adjusted")}


# The fit in four numbers, and all of its settings.


def facts(estimate: Estimate, labels: Labels) -> list[tuple[str, str]]:
    """Return four numbers with what they are."""
    plan, k = estimate.plan, int(estimate.support.size)
    selected = (f"{k:,} of {plan.n_features:,}", "feature selected" if k == 1 else "features selected")
    may = "look bad and may be" if plan.auto else "may be bad"
    rows = (f"{plan.n_units:,}", f"{labels.unit}, of which {plan.bad_rows:,} {may}")
    if labels.groups is not None:
        sizes = f"{plan.n_units:,}" if plan.sizes is None else f"{plan.sizes.label:,} and {plan.sizes.reference:,}"
        of = f"{labels.label} and {labels.groups[0]}"
        rows = (sizes, f"{labels.unit} of {of}, of which {_bad(estimate, labels)} {may}")
    error = ("none" if plan.selection == "paper" else percent(plan.level), RULES[plan.selection].caption)
    slack = estimate.decision.last
    if k and plan.question.selection != "paper":
        least = float(estimate.max_contamination[estimate.support].min())
        survival = (percent(least), f"bad {labels.each} survived by every one of them")
    elif k:
        certified = int(np.sum(slack[estimate.support] >= plan.bad_rows))
        survival = (f"{certified:,} of {k:,}", f"would be selected by {SELECTIONS['fwer']} too")
    else:
        survival = ("–", "nothing selected that could survive")
    return [selected, rows, error, survival]


def of_fit(estimate: Estimate, labels: Labels) -> list[tuple[str, str]]:
    """Return settings by name, in words."""
    plan = estimate.plan
    settings = [
        ("Data", f"{plan.n_rows:,} rows, {plan.n_features:,} features"),
        ("Selection", f"{plan.selection}: {SELECTIONS[plan.selection]}, {RULES[plan.selection].error}"),
        ("Level", f"{plan.question.level:g}"),
        ("Missing values", "left out" if plan.question.missing == "omit" else "refused"),
    ]
    if labels.groups is None:
        share = f"{_auto(plan)}{percent(plan.contamination)}, {plan.bad_rows:,} of {plan.n_units:,}"
        settings = [settings[0], ("Contamination", share), *settings[1:], *_one_sample(estimate)]
    else:
        settings += _two_groups(estimate, labels.groups, labels.unit[:-1])
    if estimate.units is not None:
        how = "their rows dealt together" if labels.groups is None else "one mean each"
        settings.append(("Subjects", f"{plan.n_units:,}, {how}"))
    settings.append(("Fitted in", f"{estimate.status.seconds:.2f} s"))
    return settings


def _auto(plan: Plan) -> str:
    return "auto, as many as look bad: " if plan.auto else ""


def _two_groups(estimate: Estimate, names: Names, unit: str) -> list[tuple[str, str]]:
    plan = estimate.plan
    covered = f"; {groups.wrong_labels(plan, unit)}" if plan.sizes else ""
    settings = [
        ("Contamination", f"{_auto(plan)}{groups.bad(plan, names, unit)}, {groups.shares(plan, names)}{covered}"),
        ("Comparison", f"{groups.direction(names)}, by ranks (Mann–Whitney), {groups.sizes(plan, names, unit)}"),
    ]
    if looked_for := groups.looked_for(plan, names):
        settings.append(("Alternative", looked_for.removesuffix(".")))
    if plan.n_tests > 1:
        family = f"{plan.n_hypotheses:,} hypotheses: {plan.n_tests:,} tests of {plan.n_features:,} features"
        settings.append(("Family", family))
    if plan.n_strata > 1:
        settings.append(("Strata", f"{plan.n_strata:,}, compared within each"))
    return settings


def _one_sample(estimate: Estimate) -> list[tuple[str, str]]:
    plan, number = estimate.plan, estimate.plan.walk.n_buckets
    sizes = ", ".join(map(str, plan.walk.bucket_sizes))
    buckets = f"rows in a bucket: {sizes}" if number is None else f"{number:,} of {sizes} rows"
    buckets += ", for β and paths" if plan.question.test == "ranks" else ""
    scale = f"from {pluralize(plan.scale_rows, 'row')}" if plan.scale_rows else "given"
    tested = (
        [("Target", "the mean, whatever the skew"), ("Scale", f"bounds of the standard deviations, {scale}")]
        if plan.question.target == "mean"
        else [("Noise", "symmetric"), ("Test", how_tested(plan)), ("Buckets", buckets)]
    )
    settings = [
        *tested,
        ("Null value", _null(estimate)),
        ("Values", _values(estimate)),
        ("Rows screened", "yes" if plan.question.screen_rows else "no"),
        ("Step size, initial scale", f"{plan.walk.eta:g}, {plan.walk.alpha:g}"),
        ("Seed", str(estimate.seed)),
    ]
    if plan.question.selection == "paper":
        settings.append(
            ("Iterations", f"support read at {plan.walk.select_at}, values at {plan.walk.estimate_at or 'the limit'}")
        )
        settings.append(("Fewest features", str(plan.walk.min_selected)))
    return settings


def _values(estimate: Estimate) -> str:
    plan = estimate.plan
    if not estimate.has_values:
        return "none, as the rows were not at hand"
    if plan.question.target == "mean" and plan.question.refine in ("", "auto"):
        return "root of the influence sum, on all rows"
    return f"{plan.question.refine}, on {plan.question.refine_on}" if plan.question.refine else "median of bucket means"


def _null(estimate: Estimate) -> str:
    if estimate.shift is None:
        return "0"
    values = np.unique(estimate.shift)
    return f"{values[0]:g}" if values.size == 1 else f"{values[0]:g} to {values[-1]:g}, one for each feature"


# One HTML file: the template, the style, the scripts and the data put together.

HERE = Path(__file__).parent / "template"
ENDINGS = (".html", ".htm")
SCRIPTS = (
    "tests", "base", "state", "numbers", "axes", "plot", "volcano", "values", "path", "forest", "robustness", "rows",
    "table", "share", "download", "start",
)  # fmt: skip
"""In this order they are one script."""


def check_target(path: Path, argument: str = "path") -> None:
    """Refuse a page that cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(argument, f"end in {' or '.join(ENDINGS)}", repr(path.name))
    check_writable(path, argument)
    _jinja()


def write(
    estimate: Estimate,
    path: str | Path,
    *,
    title: str | None = None,
    row_names: Sequence[Any] | None = None,
    group_names: Sequence[Any] | None = None,
) -> None:
    """Write the page to ``path``; what was there stays if this fails."""
    target = Path(path)
    check_target(target)
    labels = labels_of(estimate, title=title, row_names=row_names, group_names=group_names)
    write_text(target, render(estimate, labels, file_name=target.stem))


def write_text(target: Path, page: str) -> None:
    """Write a page in the place of what was there."""
    with replacing(target) as temporary:
        temporary.write_bytes(page.encode("utf-8", errors="replace"))  # half of a surrogate pair becomes "?"


def render(estimate: Estimate, labels: Labels, *, file_name: str = "report") -> str:
    """Return the page as text."""
    content = content_of(estimate, labels, file_name=file_name)
    return str(environment().get_template("page.html").render(title=labels.title, **content, **frame()))


def content_of(
    estimate: Estimate, labels: Labels, *, file_name: str, tests: int = 1, decisions: Decisions | None = None
) -> dict[str, Any]:
    """Return what the templates of one estimate's content are filled in with."""
    content = page_data(estimate, labels, tests=tests, decisions=decisions)
    said = verdict(estimate, labels.groups, row_names=labels.row_names)
    content["file"] = re.sub(r"[^\w.-]+", "-", file_name).strip("-.") or "report"
    return {
        "labels": labels,
        "content": content,
        "first": columns.first_rows(content),
        "centres": columns.centres(content),
        "verdict": said,
        "kinds": KINDS_OF_ROWS,
        "facts": facts(estimate, labels),
        "rest": content["summary"].splitlines()[len(said) :],
        "promises": guarantees.of_fit(estimate, labels.groups),
        "settings": of_fit(estimate, labels),
        "versions": estimate.status.versions,
        "uncertified": columns.uncertified_rows(content),
        "data": embed(content),
    }


KINDS_OF_ROWS = {
    LABEL: "by features in which the groups lie far enough apart to judge a label",
    TOGETHER: "to the same side, as if one cause had moved them; by default as many bad rows are allowed for",
    FEW: "a few values stand far out, as a slip of a unit or a sensor looks",
    LARGE: "all values are large; where rows have scales of their own these are good rows",
}
"""What each kind of suspect means to a reader."""


def frame() -> dict[str, Any]:
    """Return what the frame of every page is filled in with."""
    style = _asset("style.css") + _asset("print.css")
    return {"now": datetime.now(UTC), "style": style, "script": _script()}


def environment() -> Any:
    """Return where the templates are, with names escaped and control characters in them written out."""
    jinja2 = _jinja()
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=lambda value: visible(value) if type(value) is str else value,
    )  # fmt: skip


def embed(content: Any) -> str:
    r"""Return JSON that may stand inside a script element: no ``<``, ``>`` or ``&`` is left in it.

    Examples
    --------
    >>> print(embed(["</script>", "a & b"]))
    ["\u003c/script\u003e","a \u0026 b"]
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # U+2028 and U+2029 end a line in scripts, though not in JSON.
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _script() -> str:
    """Return the scripts as one function, whose names nobody else can see."""
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _jinja() -> Any:
    return require("jinja2", extra="report", purpose="writing a report")
