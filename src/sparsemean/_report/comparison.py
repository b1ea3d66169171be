"""Several tests of one family: a paragraph, a table for notebooks, and one page with a choice of the test."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._report import groups, page
from sparsemean._report.columns import labels_of
from sparsemean._report.groups import Names
from sparsemean._report.plot_data import STOPS_OF_MANY, Decisions, stops_of
from sparsemean._report.strongest import closest_in_words, nearest, needed
from sparsemean._report.strongest import overview as overview
from sparsemean._report.summary import as_html, notes, promise
from sparsemean._report.suspects import names_of_tests
from sparsemean._report.verdict import Several, name_of_test, selected_by_test, verdict, which_tests
from sparsemean._util.checks import pluralize, unit_name
from sparsemean.errors import visible

if TYPE_CHECKING:
    from sparsemean.result import Estimate

NAMED = 12
"""Tests that a sentence lists."""
MOST_TESTS = 60
"""Tests whose content the page has, those with most features: some hundred pairs would make it too large."""


def summary(comparison: Several) -> str:
    """Say the verdict, which tests were made and what each selected, notes, and what is promised of all together."""
    estimates = list(comparison.results.values())
    done, promised = " ".join(done_and_found(estimates)), " ".join(details(estimates))
    lines = (*verdict(comparison), done, *notes(shared_notes(estimates)), f"Details: {promised}")
    return "\n".join(map(visible, lines))


def done_and_found(estimates: Sequence[Estimate]) -> list[str]:
    """Say which tests were made, what each selected and what was looked for."""
    names, plan = names_of_tests(estimates), estimates[0].plan
    sentences = [
        f"{pluralize(len(estimates), 'test')} of {plan.n_features:,} features: {which_tests(names)}.",
        f"Features selected: {selected_by_test(estimates, NAMED)}.",
        _bad(estimates, names),
    ]
    if looked_for := groups.looked_for(plan, ("the reference", "a label")):
        sentences.append(looked_for)
    if not any(each.support.size for each in estimates):
        best = estimates[nearest(estimates)]
        sentences += [f"Closest is {name_of_test(names[nearest(estimates)])}. {closest_in_words(best)}"]
        sentences += [takes] if (takes := needed(best)) else []
    return sentences


def details(estimates: Sequence[Estimate]) -> list[str]:
    """Say what is promised of all tests at once, and what the values are."""
    plan = estimates[0].plan
    sentences = [
        f"Together they are one family of {plan.n_hypotheses:,} hypotheses: what is promised holds of all tests at "
        f"once. {promise(plan)}",
        groups.what_estimates_are(plan, "label minus reference"),
    ]
    if all(reference == groups.REST for reference, _ in names_of_tests(estimates)):
        sentences.append("Against the rest a feature counts as false where all labels share one distribution.")
    return sentences


def _bad(estimates: Sequence[Estimate], names: Sequence[Names]) -> str:
    """Say which share of each group may be bad."""
    unit = unit_name(estimates[0].units)
    if not any(each.plan.bad_rows for each in estimates):
        return f"No {unit} may be bad."
    shares = {groups.shares(each.plan, name) for each, name in zip(estimates, names, strict=True)}
    share = shares.pop() if len(shares) == 1 else "A share of each group"
    as_look = ", as many as look it in each test" if estimates[0].plan.auto else ""
    return f"{share} may be bad{as_look}; a wrong label costs one {unit} in each group."


def shared_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Return the notes that every test has; those of one test stand in its own summary."""
    first, *others = (each.status.messages for each in estimates)
    return [message for message in first if all(message in messages for messages in others)]


def fragment(comparison: Several) -> str:
    """Return HTML for notebooks, without scripts or styles of its own, names escaped; it needs no extra."""
    import pandas as pd

    frame = pd.DataFrame(overview(comparison))
    table = as_html(frame.head(MOST_TESTS))
    more = f"<p>… and {len(frame) - MOST_TESTS:,} more in <code>results</code></p>" if len(frame) > MOST_TESTS else ""
    said = verdict(comparison)
    rest = summary(comparison).splitlines()[len(said) :]
    lines = "".join(f"<p><strong>{escape(line)}</strong></p>" for line in said)
    words = "".join(f"<p>{escape(line)}</p>" for line in rest)
    return f"<div>{lines}{table}{more}{words}</div>"


# One page for all tests: the content of the first stands in it, that of the others waits in templates.


def write(
    comparison: Several, path: str | Path, *, title: str | None = None, row_names: Sequence[Any] | None = None
) -> None:
    """Write one page that needs no network, with a choice of the test; what was there stays if this fails."""
    target = Path(path)
    page.check_target(target)
    title = title or f"What differs: {which_tests(names_of_tests(list(comparison.results.values())))}"
    page.write_text(target, render(comparison, title=title, row_names=row_names, file_name=target.stem))


def render(
    comparison: Several, *, title: str, row_names: Sequence[Any] | None = None, file_name: str = "report"
) -> str:
    """Return the page as text."""
    environment, shown, rows = page.environment(), _shown(comparison), overview(comparison)
    estimates = list(comparison.results.values())
    template = environment.get_template("content.html")
    contents, decisions = [], Decisions(stops_of([estimates[k] for k in shown], STOPS_OF_MANY))
    for k in shown:
        labels = labels_of(estimates[k], title=f"{title}: {rows[k]['test']}", row_names=row_names)
        name = f"{file_name}-{rows[k]['test']}"
        filled = page.content_of(estimates[k], labels, file_name=name, tests=len(shown), decisions=decisions)
        contents.append(template.render(heading=rows[k]["test"], **filled))
    places = {k: place for place, k in enumerate(shown)}
    listed = [{**row, "place": places.get(k)} for k, row in enumerate(rows)]
    said = verdict(comparison, row_names=row_names)
    rest = summary(comparison).splitlines()[len(said) :]
    filled = {"title": title, "verdict_of_all": said, "rest_of_all": rest, "tests": listed, "contents": contents}
    versions = estimates[0].status.versions
    return str(environment.get_template("comparison.html").render(**filled, versions=versions, **page.frame()))


def _shown(comparison: Several) -> list[int]:
    """Return the numbers of the tests whose content is on the page, in their order."""
    sizes = np.array([estimate.support.size for estimate in comparison.results.values()])
    return sorted(np.argsort(-sizes, kind="stable")[:MOST_TESTS].tolist())
