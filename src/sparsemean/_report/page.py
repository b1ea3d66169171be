"""The page: its data, its settings, and one file that needs nothing but itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._report import columns, guarantees, plot_data
from sparsemean._report.columns import Labels, labels_of
from sparsemean._report.guarantees import RULES, percent
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.files import check_writable, replacing
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require
from sparsemean.result import strongest_first

if TYPE_CHECKING:
    import pandas as pd

    from sparsemean.result import Estimate

# The data inside the page: full for selected features, summed up for the rest.

MOST_LISTED = 15_000
"""Selected features on the page, the strongest: beyond them it would grow past what mail and browsers like."""


def page_data(estimate: Estimate, labels: Labels) -> dict[str, Any]:
    """Return all that the scripts of the page need, as JSON takes it."""
    plan, listed = estimate.plan, strongest(estimate)
    frame = estimate.table().head(MOST_LISTED).drop(columns="skew_safe")  # not known of any feature
    described = columns.columns_of(frame, plan, labels)
    return {
        "title": labels.title,
        "pairs": labels.pairs,
        "effect": labels.effect,
        "groups": [labels.first_group, labels.second_group],
        "unit": labels.unit,
        "n_rows": plan.n_rows,
        "n_units": plan.n_units,
        "n_features": plan.n_features,
        "bad_rows": plan.bad_rows,
        "contamination": plan.contamination,
        "level": plan.level,
        "selection": plan.selection,
        "seed": str(estimate.seed),
        "null": None if estimate.shift is None else columns.rounded(estimate.shift[listed], 17),
        "n_selected": int(estimate.support.size),
        "has_values": estimate.has_values,
        "columns": [[c.key, c.heading, c.kind, c.digits, c.meaning] for c in described],
        "table": [columns.plain(frame[c.key]) for c in described],
        "index": listed.tolist(),
        "uncertified": _uncertified(estimate),
        "volcano": plot_data.volcano_data(estimate, listed),
        "path": plot_data.path_data(estimate, listed),
        "robustness": plot_data.robustness_data(estimate),
        "rows": plot_data.rows_data(estimate, labels),
        "summary": estimate.summary(),
        "versions": dict(estimate.status.versions),
    }


def strongest(estimate: Estimate) -> IntArray:
    """Return the selected features in the order of `Estimate.table`, as many as the page lists."""
    return strongest_first(estimate, estimate.support)[:MOST_LISTED]


def _uncertified(estimate: Estimate) -> dict[str, list[Any]]:
    """Return the features that show only after screening."""
    frame: pd.DataFrame = estimate.table(certified=False).head(MOST_LISTED)
    return {key: columns.plain(frame[key]) for key in ("feature", "estimate", "p_adjusted")}


# The fit in four numbers, and all of its settings.


def facts(estimate: Estimate, labels: Labels) -> list[tuple[str, str]]:
    """Return four numbers with what they are."""
    plan, k = estimate.plan, int(estimate.support.size)
    selected = (f"{k:,} of {plan.n_features:,}", "feature selected" if k == 1 else "features selected")
    rows = (f"{plan.n_units:,}", f"{labels.unit}, of which {plan.bad_rows:,} may be bad")
    error = ("none" if plan.selection == "paper" else percent(plan.level), RULES[plan.selection].caption)
    slack = estimate.selection.last_slack
    if k and plan.selection != "paper":
        least = int(slack[estimate.support].min())
        survival = (percent(least / plan.n_units), f"bad {labels.unit} survived by every one of them")
    elif k:
        certified = int(np.sum(slack[estimate.support] >= plan.bad_rows))
        survival = (f"{certified:,} of {k:,}", f"would be selected by {SELECTIONS['fwer']} too")
    else:
        survival = ("–", "nothing selected that could survive")
    return [selected, rows, error, survival]


def of_fit(estimate: Estimate) -> list[tuple[str, str]]:
    """Return settings by name, in words."""
    plan = estimate.plan
    settings = [
        ("Data", f"{plan.n_rows:,} rows, {plan.n_features:,} features"),
        ("Contamination", f"{percent(plan.contamination)}, {plan.bad_rows:,} of {plan.n_units:,}"),
        ("Selection", f"{plan.selection}: {SELECTIONS[plan.selection]}, {RULES[plan.selection].error}"),
        ("Level", f"{plan.level:g}"),
        ("Missing values", "left out" if plan.missing == "omit" else "refused"),
    ]
    if plan.dealing == "pairs":
        labels = estimate.labels
        sizes = "" if labels is None else f", of {int(np.sum(labels == 0)):,} and {int(np.sum(labels == 1)):,} rows"
        settings.append(("Comparison", f"two groups by ranks (Mann–Whitney){sizes}"))
    else:
        settings += _one_sample(estimate)
    if estimate.units is not None:
        settings.append(("Subjects", f"{plan.n_units:,}, their rows dealt together"))
    settings.append(("Fitted in", f"{estimate.status.seconds:.2f} s"))
    return settings


def _one_sample(estimate: Estimate) -> list[tuple[str, str]]:
    plan = estimate.plan
    sizes = ", ".join(map(str, plan.bucket_sizes))
    buckets = f"rows in a bucket: {sizes}" if plan.n_buckets is None else f"{plan.n_buckets:,} of {sizes} rows"
    settings = [
        ("Noise", plan.noise),
        ("Null value", _null(estimate)),
        ("Buckets", buckets),
        ("Values", _values(estimate)),
        ("Rows screened", "yes" if plan.screen_rows else "no"),
        ("Step size, initial scale", f"{plan.eta:g}, {plan.alpha:g}"),
        ("Seed", str(estimate.seed)),
    ]
    if plan.selection == "paper":
        settings.append(
            ("Iterations", f"support read at {plan.select_at}, values at {plan.estimate_at or 'the limit'}")
        )
        settings.append(("Fewest features", str(plan.min_selected)))
    return settings


def _values(estimate: Estimate) -> str:
    plan = estimate.plan
    if not estimate.has_values:
        return "none, as the rows were not at hand"
    return f"{plan.refine}, on {plan.refine_on}" if plan.refine else "median of bucket means"


def _null(estimate: Estimate) -> str:
    if estimate.shift is None:
        return "0"
    values = np.unique(estimate.shift)
    return f"{values[0]:g}" if values.size == 1 else f"{values[0]:g} to {values[-1]:g}, one for each feature"


# One HTML file: the template, the style, the scripts and the data put together.

HERE = Path(__file__).parent / "template"
ENDINGS = (".html", ".htm")
SCRIPTS = (
    "base", "state", "numbers", "axes", "plot", "volcano", "path", "forest", "robustness", "rows", "table",
    "download", "start",
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
    page = render(estimate, labels, file_name=target.stem)
    with replacing(target) as temporary:
        temporary.write_bytes(page.encode("utf-8", errors="replace"))  # half of a surrogate pair becomes "?"


def render(estimate: Estimate, labels: Labels, *, file_name: str = "report") -> str:
    """Return the page as text."""
    jinja2 = _jinja()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    content = page_data(estimate, labels)
    content["file"] = re.sub(r"[^\w.-]+", "-", file_name).strip("-.") or "report"
    page = environment.get_template("page.html").render(
        labels=labels,
        content=content,
        first=columns.first_rows(content),
        facts=facts(estimate, labels),
        summary=estimate.summary(),
        promises=guarantees.of_fit(estimate),
        settings=of_fit(estimate),
        versions=estimate.status.versions,
        uncertified=columns.uncertified_rows(content),
        now=datetime.now(UTC),
        style=_asset("style.css") + _asset("print.css"),
        script=_script(),
        data=embed(content),
    )
    return str(page)


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
