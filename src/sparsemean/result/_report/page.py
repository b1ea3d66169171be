"""The page: its data, its settings, and one file that needs nothing but itself, for one test or for several."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._fit.afterwards import numbers_of, sorted_uncertified, strongest_first
from sparsemean._stats import path as walks
from sparsemean._stats.planning import SELECTIONS
from sparsemean._util.checks import pluralize
from sparsemean._util.files import check_writable, replacing
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require, visible
from sparsemean.result import Estimate
from sparsemean.result._report import columns, plot_data
from sparsemean.result._report.closest import closest_first, without_bad_rows
from sparsemean.result._report.columns import WITHOUT_ANY
from sparsemean.result._report.guarantees import guarantees_of, terms
from sparsemean.result._report.plot_data import MOST_STOPS, STOPS_OF_MANY, stops_of
from sparsemean.result._report.summary import TESTS_SHOWN, below_verdict, overview
from sparsemean.result._report.verdict import MEANINGS, Family, lines_of, which_tests
from sparsemean.result._report.wording import Wording, check_row_names, wordings_of
from sparsemean.result.comparison import Comparison, called, tests_of

if TYPE_CHECKING:
    from jinja2 import Environment

# The data inside the page: full for selected features, summed up for the rest.

MOST_LISTED, LEAST_LISTED = 15_000, 150
"""Features on the page, the strongest: beyond them it would grow past what mail and browsers like. Several tests share
them, down to that many for each."""
MOST_VALUED = 4_000_000
"""Values of the data up to which the features that are not listed are valued for a picture, too: half a second."""


def listed_features(wording: Wording, most: int) -> IntArray:
    """Return the selected features, strongest first, and those that fewer bad rows would leave, longest first.

    Where none is selected the list goes on with the strongest of the rest.
    """
    estimate = wording.estimate
    if not wording.k:
        passing = int(np.sum(~np.isnan(np.delete(estimate.max_contamination, estimate.decision.skipped))))
        return closest_first(estimate, without_bad_rows(wording))[: min(most, max(WITHOUT_ANY, passing))]
    chosen, last = strongest_first(estimate, estimate.support), estimate.max_contamination.copy()
    last[estimate.decision.skipped] = np.nan
    others = strongest_first(estimate, np.setdiff1d(np.flatnonzero(~np.isnan(last)), chosen))
    if wording.rule.paper:  # whose support is no matter of bad rows
        others = others[:0]
    return np.concatenate((chosen, others[np.argsort(-last[others], kind="stable")]))[:most]


def page_data(wording: Wording, *, tests: int = 1, family: Family | None = None) -> dict[str, object]:
    """Return all that the scripts of the page need, as JSON takes it; ``tests`` of them share the room of one page."""
    estimate, plan = wording.estimate, wording.plan
    listed = listed_features(wording, MOST_LISTED if tests == 1 else max(LEAST_LISTED, MOST_LISTED // tests))
    family = family or Family(estimate, [wording], stops_of([estimate], MOST_STOPS))
    place = [test.estimate is estimate for test in family.tests].index(True)
    said, others = lines_of([wording], family, [place]), np.ones(plan.n_features, dtype=bool)
    others[listed] = False
    few = not others.any() or plan.n_rows * plan.n_features <= MOST_VALUED // tests  # they are valued, too
    features = np.concatenate((listed, np.flatnonzero(others))) if few else listed
    known = numbers_of(estimate, features, every=few)
    values = {key: column[: listed.size] for key, column in known.items()}
    marks = estimate.skewed[listed]
    if 1 in marks:
        values["skewed"] = np.where(marks < 0, None, marks == 1)
    described = columns.described_columns(values, wording)
    apart, rate = sorted_uncertified(estimate), math.inf
    mass = plot_data.count_on_grid(estimate.beta[others], np.abs(estimate.log10_p[others]))
    rest = np.flatnonzero(others) if wording.names and tests == 1 and plan.n_features <= MOST_LISTED else listed[:0]
    judged = plot_data.rows_data(wording, most=plot_data.MOST_POINTS // tests)
    if wording.rule.paper:  # the |β| that it asks for
        rate = walks.selection_threshold(plan.walk.select_at, alpha=plan.walk.alpha, eta=plan.walk.eta)
    return {
        "effect": wording.test.effect, "lean": wording.test.lean, "groups": wording.names, "feature": wording.feature,
        "unit": f"{wording.noun}s", "each": wording.each,
        "row": "row" if estimate.units is not None and not wording.names else wording.noun,
        "n_rows": plan.n_rows, "n_features": plan.n_features, "n_selected": wording.k, "bad_rows": plan.bad_rows,
        "bad": f"{' and '.join(f'{number:,}' for number in wording.allowed)} {wording.noun}s",
        "contamination": plan.contamination, "level": plan.question.level, "selection": plan.question.selection,
        "seed": str(estimate.seed), "versions": dict(estimate.status.versions), "without_any": WITHOUT_ANY,
        "null": None if estimate.shift is None else columns.plain(estimate.shift[listed], 17),
        "in_percent": estimate.effects is not None and estimate.effects.scale != "log1p",
        "has_values": estimate.has_values,
        "columns": [[c.key, c.heading, c.kind, c.digits, c.meaning, c.extra] for c in described],
        "table": [columns.plain(values[c.key]) for c in described],
        "index": listed.tolist(), "log10_p": columns.plain(estimate.log10_p[listed], 7),
        "rest": {"names": estimate.names(rest), "lean": columns.plain(estimate.beta[rest], 4)},
        "uncertified": {
            "feature": estimate.names(apart.features[:MOST_LISTED]),
            "estimate": columns.plain(apart.estimate[:MOST_LISTED]),
            "p_adjusted": columns.plain(apart.p_adjusted[:MOST_LISTED]),
        },
        "volcano": {
            "mass": mass, "rate": rate if rate <= 1 else None, "whole": few,
            "effect": plot_data.effect_data(wording, known, features[listed.size :]) if listed.size else None,
        },
        "frames": {
            "forest": bool(np.isfinite(values["estimate"]).any() or np.isfinite(values["ci_low"]).any()),
            "robustness": bool(np.isfinite(estimate.max_contamination).any()), "rows": not judged["why_not"],
        },
        "shares": plot_data.share_data(wording, listed, family=family, place=place, said=said, tests=tests),
        "values": plot_data.values_data(estimate, listed, tests=tests),
        "robustness": plot_data.robustness_data(wording),
        "rows": judged,
        "summary": "\n".join((*said, *below_verdict(estimate))),
    }  # fmt: skip


# All of its settings.


def settings(wording: Wording) -> list[tuple[str, str]]:
    """Return what was asked, by the names of parameters, and how it was done."""
    estimate, plan, question, walk = wording.estimate, wording.plan, wording.plan.question, wording.plan.walk
    said: dict[str, object] = {
        "Data": f"{plan.n_rows:,} rows, {plan.n_features:,} features",
        "Subjects": f"{plan.n_units:,}" if estimate.units is not None else "",
        "Compared": f"{wording.test.direction}{wording.strata}, {wording.groups}" if wording.names else "",
        "Family": f"{plan.n_hypotheses:,} hypotheses of {plan.n_tests:,} tests" if plan.n_tests > 1 else "",
        "Test": estimate.status.test,
        "contamination": f"{'auto, the suspects: ' if plan.auto else ''}{wording.bad} ({wording.shares})",
        "selection": f"{question.selection}: {SELECTIONS[question.selection]}, {wording.rule.error}",
        **{name: getattr(question, name) for name in ("level", "target", "min_effect", "missing")},
        "alternative": question.side,
    }
    if not wording.names:
        null = np.zeros(1) if estimate.shift is None else estimate.shift
        said |= {
            "null": wording.null or f"{null.min():g} to {null.max():g}, one for each feature",
            "scale": f"bounds from {pluralize(plan.scale_rows, 'row')}" if plan.scale_rows else "",
            "refine": f"{question.refine}, on {question.refine_on}" if question.refine else "none",
            "screen_rows": question.screen_rows,
            "bucket_sizes": ", ".join(map(str, walk.bucket_sizes)),
            "n_buckets": walk.n_buckets or "",
            "step_size, init_scale": f"{walk.eta:g}, {walk.alpha:g}",
            "n_iter": f"{walk.select_at}, {walk.estimate_at or 'the limit'}" if wording.rule.paper else "",
            "min_selected": walk.min_selected or "",
        }
    said |= {"random_state": estimate.seed, "Fitted in": f"{estimate.status.seconds:.2f} s"}
    return [(name, str(value)) for name, value in said.items() if value != ""]


# One HTML file: the template, the style, the scripts and the data put together.

HERE = Path(__file__).parent / "template"
ENDINGS = (".html", ".htm")
SCRIPTS = (
    "tests", "base", "state", "numbers", "axes", "plot", "volcano", "values", "forest", "robustness", "rows",
    "table", "share", "download", "dots", "start",
)  # fmt: skip
"""In this order they are one script."""


def check_report(path: Path, argument: str = "path") -> None:
    """Refuse a page that cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(argument, f"end in {' or '.join(ENDINGS)}", repr(path.name))
    check_writable(path, argument)
    environment()


def write_report(
    result: Estimate | Comparison,
    path: str | Path,
    *,
    title: str | None = None,
    row_names: Sequence[object] | None = None,
    unit: str | None = None,
    feature: str | None = None,
) -> None:
    """Write the page to ``path``, of several tests with a choice among them; what was there stays if this fails."""
    target = Path(path)
    check_report(target)
    page = page_of(
        called(result, unit, feature) if unit or feature else result,
        title=title,
        row_names=row_names,
        file_name=target.stem,
    )
    with replacing(target) as temporary:
        temporary.write_bytes(page.encode("utf-8", errors="replace"))  # half of a surrogate pair becomes "?"


def page_wordings(result: Estimate | Comparison, row_names: Sequence[object] | None = None) -> list[Wording]:
    """Take names of rows as given, else from the data where the estimate still holds them."""
    first = tests_of(result)[0]
    if row_names is None and first.source is not None and first.source.row_names is not None:
        row_names = first.source.row_names.tolist()
    check_row_names(row_names, first.plan.n_rows, "row_names")
    return wordings_of(result, None if row_names is None else tuple(map(visible, row_names)))


def page_of(
    result: Estimate | Comparison,
    *,
    title: str | None = None,
    row_names: Sequence[object] | None = None,
    file_name: str = "report",
) -> str:
    """Return the page of one test, or of several with a choice among them, as text."""
    first, *_ = tests = page_wordings(result, row_names)
    apart = first.estimate.uncertified
    if isinstance(result, Estimate):
        content = html_of_test(first, file_name)
        own = (
            f"What differs between {first.reference} and {first.label}" if first.names else "Which features have a mean"
        )
        filled: dict[str, object] = {"title": title or own, "tests": [], "contents": [content], "dots": None}
    else:
        filled = _choice(result, tests, title, file_name)
    return (
        environment()
        .get_template("page.html")
        .render(
            now=datetime.now(UTC),
            versions=first.estimate.status.versions,
            uncertified=apart is not None and apart.features.size,
            row="row" if first.estimate.units is not None and not first.names else first.noun,
            feature=first.feature,
            style=(HERE / "style.css").read_text(encoding="utf-8"),
            script=script(),
            **filled,
        )
    )


def _choice(result: Comparison, tests: list[Wording], title: str | None, file_name: str) -> dict[str, object]:
    """Return the table of several tests, and their contents: that of the first is shown, others wait in templates."""
    rows = overview(result)
    title = title or f"What differs: {which_tests(tests)}"
    shown = sorted(np.argsort([-test.k for test in tests], kind="stable")[:TESTS_SHOWN].tolist())  # those with most
    family, contents = Family(result, tests, stops_of([tests[k].estimate for k in shown], STOPS_OF_MANY)), []
    for k in shown:
        name = rows[k]["test"]
        own = html_of_test(tests[k], f"{file_name}-{name}", heading=name, tests=len(shown), family=family)
        contents.append(own)
    places = {k: place for place, k in enumerate(shown)}
    return {
        "title": title,
        "tests": [{**row, "place": places.get(k)} for k, row in enumerate(rows)],
        "verdict_of_all": lines_of(tests, family, range(len(tests))),
        "rest_of_all": below_verdict(result),
        "contents": contents,
        "dots": plot_data.dots_data(tests),
    }


def html_of_test(
    wording: Wording, file_name: str, *, heading: str = "", tests: int = 1, family: Family | None = None
) -> str:
    """Return all that the page has of one test, which where there are ``tests`` of them has a ``heading``."""
    content = page_data(wording, tests=tests, family=family)
    content["file"] = re.sub(r"[^\w.-]+", "-", file_name).strip("-.") or "report"
    return (
        environment()
        .get_template("test.html")
        .render(
            wording=wording,
            heading=heading,
            content=content,
            first=min(columns.FIRST, wording.k or WITHOUT_ANY),
            kinds=MEANINGS,
            intervals=terms(wording)["intervals"],
            rest=below_verdict(wording.estimate),
            promises=guarantees_of(wording),
            settings=settings(wording),
            versions=wording.estimate.status.versions,
        )
    )


@cache
def script() -> str:
    """Return the script of every page: one function, whose names nobody else can see."""
    parts = "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


@cache
def environment() -> Environment:
    """Return where the templates are, with names escaped and control characters in them written out.

    JSON in them may stand inside a script element: no ``<``, ``>`` or ``&`` is left in it.
    """
    jinja2 = require("jinja2", extra="report", purpose="writing a report")
    made: Environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=lambda value: visible(value) if type(value) is str else value,
    )  # fmt: skip
    made.filters["cell"] = columns.cell_text
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    return made
