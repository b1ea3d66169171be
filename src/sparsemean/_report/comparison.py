"""Several tests of one family: a paragraph, a table for notebooks, and one page with a choice of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparsemean._report import groups, page
from sparsemean._report.columns import labels_of
from sparsemean._report.groups import Names
from sparsemean._report.summary import promise
from sparsemean._util.checks import list_names, pluralize, unit_name
from sparsemean.result import strongest_first

if TYPE_CHECKING:
    from sparsemean.result import Estimate

NAMED = 12
"""Tests that a sentence lists."""
STRONGEST = 5
"""Features that an overview names for each test."""
MOST_TESTS = 60
"""Tests whose content the page has, those with most features: some hundred pairs would make it too large."""


class Comparison(Protocol):
    """What is told here of several tests: an estimate for each."""

    @property
    def results(self) -> Mapping[Any, Estimate]:
        """The estimates, by label or by pairs of labels."""
        ...


def summary(comparison: Comparison) -> str:
    """Say which tests were made, what each selected, and what is promised of all together."""
    estimates = list(comparison.results.values())
    names, plan = _names(comparison), estimates[0].plan
    which = _which(names)
    sentences = [
        f"{pluralize(len(estimates), 'test')} of {plan.n_features:,} features: {which}.",
        f"Together they are one family of {plan.n_hypotheses:,} hypotheses: what is promised holds of all tests at "
        f"once. {promise(plan)}",
        f"Features selected: {_selected(comparison)}.",
        _bad(estimates, names),
        groups.what_estimates_are(plan, "label minus reference"),
    ]
    if looked_for := groups.looked_for(plan, ("the reference", "a label")):
        sentences.insert(3, looked_for)
    if all(reference == groups.REST for reference, _ in names):
        sentences.append("Against the rest a feature counts as false where all labels share one distribution.")
    if said := _suspects(estimates, names):
        sentences.append(said)
    return " ".join((*sentences, *(f"Note: {message}." for message in _shared_notes(estimates))))


def _names(comparison: Comparison) -> list[Names]:
    """Return the reference and the label of every test."""
    names = [groups.names_of(estimate) for estimate in comparison.results.values()]
    return [each for each in names if each is not None]


def name_of_test(names: Names) -> str:
    """Return what a test is called.

    Examples
    --------
    >>> name_of_test(("control", "new"))
    'new against control'
    """
    return f"{names[1]} against {names[0]}"


def _which(names: list[Names]) -> str:
    references = {reference for reference, _ in names}
    if references == {groups.REST}:
        return "each label against the rest"
    if len(references) == 1:
        return f"each other label against {references.pop()}"
    return "labels pair by pair"


def _selected(comparison: Comparison) -> str:
    """Say how many features each test selects; of many tests those with most."""
    estimates, names = list(comparison.results.values()), _names(comparison)
    same = len({reference for reference, _ in names}) == 1
    called = [label if same else name_of_test((reference, label)) for reference, label in names]
    told = [(int(each.support.size), name) for each, name in zip(estimates, called, strict=True)]
    if len(told) > NAMED:
        told = sorted(told, key=lambda pair: -pair[0])
    if not any(number for number, _ in told):
        return "none in any test"
    more = f", and no more in the other {len(told) - NAMED:,} tests" if len(told) > NAMED else ""
    return ", ".join(f"{name}: {number:,}" for number, name in told[:NAMED]) + more


def _bad(estimates: Sequence[Estimate], names: list[Names]) -> str:
    """Say which share of each group may be bad."""
    unit = unit_name(estimates[0].units)
    if not any(each.plan.bad_rows for each in estimates):
        return f"No {unit} may be bad."
    shares = {groups.shares(each.plan, name) for each, name in zip(estimates, names, strict=True)}
    share = shares.pop() if len(shares) == 1 else "A share of each group"
    return f"{share} may be bad; a wrong label costs one {unit} in each group."


def _suspects(estimates: Sequence[Estimate], names: list[Names]) -> str:
    """Name rows that look like another group than their own, each where it looks worst."""
    found: dict[int, tuple[float, str]] = {}
    for each, (_, label) in zip(estimates, names, strict=True):
        for row in [] if each.rows is None or each.labels is None else each.rows.suspects.tolist():
            assert each.rows is not None
            assert each.labels is not None
            like = f"unlike {label}" if each.labels[row] == 1 else f"like {label}"
            found[row] = max(found.get(row, (-np.inf, "")), (float(each.rows.scores[row]), like))
    if not found:
        return ""
    worst = sorted(found, key=lambda row: -found[row][0])
    called = estimates[0].row_names(worst)
    rows = "1 row looks" if len(worst) == 1 else f"{len(worst):,} rows look"
    counted = ", counted from 0" if isinstance(called[0], int) else ""
    told = [f"{name} ({found[row][1]})" for name, row in zip(called, worst, strict=True)]
    return f"{rows} like another group than the one in the label (worst first{counted}: {list_names(told)})."


def _shared_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Return the notes that every test has; those of one test stand in its own summary."""
    first, *others = (each.status.messages for each in estimates)
    return [message for message in first if all(message in messages for messages in others)]


def overview(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each test: its name, sizes of the groups, number of features and the strongest of them."""
    rows = []
    for estimate, names in zip(comparison.results.values(), _names(comparison), strict=True):
        strongest = strongest_first(estimate, estimate.support)
        rows.append(
            {
                "test": name_of_test(names),
                "n label": estimate.plan.sizes[1],
                "n reference": estimate.plan.sizes[0],
                "features": int(estimate.support.size),
                "strongest": list_names(estimate.names(strongest[: STRONGEST + 1]), STRONGEST),
            }
        )
    return rows


def fragment(comparison: Comparison) -> str:
    """Return HTML for notebooks, without scripts or styles of its own, names escaped; it needs no extra."""
    import pandas as pd

    frame = pd.DataFrame(overview(comparison))
    table = frame.head(MOST_TESTS).to_html(index=False, border=0, escape=True)
    more = f"<p>… and {len(frame) - MOST_TESTS:,} more in <code>results</code></p>" if len(frame) > MOST_TESTS else ""
    title = f"{pluralize(len(frame), 'test')}: {_which(_names(comparison))}"
    words = f"<p>{escape(summary(comparison))}</p>"
    return f"<div><p><strong>{escape(title)}</strong></p>{table}{more}{words}</div>"


# One page for all tests: the content of the first stands in it, that of the others waits in templates.


def write(
    comparison: Comparison, path: str | Path, *, title: str | None = None, row_names: Sequence[Any] | None = None
) -> None:
    """Write one page that needs no network, with a choice of the test; what was there stays if this fails."""
    target = Path(path)
    page.check_target(target)
    title = title or f"What differs: {_which(_names(comparison))}"
    page.write_text(target, render(comparison, title=title, row_names=row_names, file_name=target.stem))


def render(
    comparison: Comparison, *, title: str, row_names: Sequence[Any] | None = None, file_name: str = "report"
) -> str:
    """Return the page as text."""
    environment, shown, rows = page.environment(), _shown(comparison), overview(comparison)
    estimates = list(comparison.results.values())
    template = environment.get_template("content.html")
    contents = []
    for k in shown:
        labels = labels_of(estimates[k], title=f"{title}: {rows[k]['test']}", row_names=row_names)
        name = f"{file_name}-{rows[k]['test']}"
        filled = page.content_of(estimates[k], labels, file_name=name, tests=len(shown))
        contents.append(template.render(heading=rows[k]["test"], **filled))
    places = {k: place for place, k in enumerate(shown)}
    listed = [{**row, "place": places.get(k)} for k, row in enumerate(rows)]
    filled = {"title": title, "overview": summary(comparison), "tests": listed, "contents": contents}
    versions = estimates[0].status.versions
    return str(environment.get_template("comparison.html").render(**filled, versions=versions, **page.frame()))


def _shown(comparison: Comparison) -> list[int]:
    """Return the numbers of the tests whose content is on the page, in their order."""
    sizes = np.array([estimate.support.size for estimate in comparison.results.values()])
    return sorted(np.argsort(-sizes, kind="stable")[:MOST_TESTS].tolist())
