"""Several tests: one paragraph, one table and one page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared import changed

from sparsemean import Estimate, SparseMeanDifference
from sparsemean.errors import InputError
from sparsemean.result._report import page, summary
from sparsemean.result._report.verdict import MOST_TESTS


@dataclass(frozen=True)
class Several:
    """The part of a comparison that reports read."""

    results: Mapping[Any, Estimate]


def against_the_rest(labels: tuple[str, ...] = ("B", "NK", "<T>"), n: int = 40, d: int = 30) -> Several:
    """Return each label against the others; label k is higher in the features 3k, 3k + 1 and 3k + 2."""
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (n * len(labels), d)) + 0.01 * rng.random((n * len(labels), d)), np.repeat(labels, n)
    for k, label in enumerate(labels):
        X[np.ix_(y == label, range(3 * k, 3 * k + 3))] += 6
    results = {}
    for label in labels:
        estimate = SparseMeanDifference(contamination=0.05).fit(X, y == label).result_
        plan = replace(estimate.plan, n_tests=len(labels), rest=True)
        results[label] = changed(estimate, plan=plan, class_names=np.array(["rest", label]))
    return Several(results)


@pytest.fixture(scope="module")
def several() -> Several:
    return against_the_rest()


def contents(page: str) -> list[dict[str, object]]:
    """Return the data of all tests in the page."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return [json.loads(data) for data in found]


def test_one_paragraph_says_the_family_the_numbers_and_the_promise_once(several: Several) -> None:
    said = summary.summary(several)
    lines = said.splitlines()
    assert "30 features in each of 3 tests" in lines[-2]
    assert "one family of 90 hypotheses" in said
    sizes = [estimate.support.size for estimate in several.results.values()]
    assert min(sizes) >= 3
    assert said.count("not a single selected feature is false") == 1
    assert lines[-1].startswith("Details: Together they are one family of 90 hypotheses")
    found = len({feature for each in several.results.values() for feature in each.support.tolist()})
    assert lines[0].replace("\N{NO-BREAK SPACE}", " ") == (
        f"{found} of 30 features differ between groups, each against all others "
        f"(B: {sizes[0]}, NK: {sizes[1]}, <T>: {sizes[2]}), even if any 5 % of each group are wrong, as asked."
    )
    assert "; a wrong label costs one row in each group" in said
    assert "a feature is false only if no label differs from any other" in said


def test_of_many_tests_those_with_most_features_are_named(several: Several) -> None:
    one = several.results["B"]
    many = Several(dict.fromkeys(range(40), one))
    said = summary.summary(many)
    first = said.splitlines()[0]
    assert first.count(f"B: {one.support.size}") == MOST_TESTS
    assert "and no more in the other 34 tests" in first


def test_a_notebook_shows_a_row_for_each_test_and_names_stay_text(several: Several) -> None:
    shown = summary.fragment(several)
    assert shown.count("<tr") == 4
    assert "&lt;T&gt; against the rest" in shown
    assert "<T>" not in shown


def test_the_overview_names_the_strongest(several: Several) -> None:
    rows = summary.overview(several)
    assert [row["features"] for row in rows] == [estimate.support.size for estimate in several.results.values()]
    for row, estimate in zip(rows, several.results.values(), strict=True):
        first = [str(name) for name in estimate.table()["feature"][:5]]
        assert str(row["strongest"]).split(", ")[:5] == first[: len(str(row["strongest"]).split(", "))]
        assert (row["n label"], row["n reference"]) == (40, 80)


def test_one_page_has_the_data_of_every_test_and_asks_for_nothing(several: Several, tmp_path: Path) -> None:
    page.write_report(several, tmp_path / "page.html", title="Cells <i>")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = contents(text)
    assert [content["groups"] for content in found] == [["the rest", label] for label in several.results]
    for content, estimate in zip(found, several.results.values(), strict=True):
        listed = content["index"]
        assert isinstance(listed, list)
        assert listed[: estimate.support.size] == estimate.table()["feature"].tolist()
        assert not np.isnan(estimate.max_contamination[listed]).any()
    assert len(re.findall(r"<template id=", text)) == 2
    assert "<T>" not in text
    assert "<i>" not in text
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)", text)


def test_content_is_there_for_the_tests_with_most_features(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "TESTS_SHOWN", 2)
    monkeypatch.setattr(page, "LEAST_LISTED", 1)
    monkeypatch.setattr(page, "MOST_LISTED", 2)
    page.write_report(several, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = contents(text)
    assert len(found) == 2
    assert [len(content["table"][0]) for content in found] == [1, 1]  # type: ignore[index]
    assert "The page shows the 2 tests with most features" in text


def test_pages_stay_small(several: Several) -> None:
    one = several.results["B"]
    text = page.page_of(Several(dict.fromkeys(range(60), one)), title="sixty tests")
    assert len(text) < 5e6


def test_a_target_that_cannot_be_is_refused(several: Several, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path must end in \.html or \.htm"):
        page.write_report(several, tmp_path / "page.pdf")


def test_pairs_and_a_reference_are_called_by_name(several: Several) -> None:
    one = several.results["B"]
    named = {("a", "b"): ("b", "a"), ("a", "c"): ("c", "a"), ("b", "c"): ("c", "b")}
    plan = replace(one.plan, rest=False)
    pairs = Several({key: changed(one, plan=plan, class_names=np.array(names)) for key, names in named.items()})
    assert "between groups, pair by pair" in summary.summary(pairs)
    assert f"a against b: {one.support.size}, a against c" in summary.summary(pairs)
    against = Several({key: changed(one, plan=plan, class_names=np.array(["control", key])) for key in "xy"})
    assert "each against control" in summary.summary(against)
