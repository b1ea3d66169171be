"""The slider over the share of bad rows, names on dots, and the values behind a feature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, SparseMeanDifference

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser").expect
HEIGHTS = "els => els.map(e => e.getAttribute('d').split('M').slice(1).map(p => Number(p.split(' ')[1].split('h')[0])))"


def names(page: Any) -> list[str]:
    return [text.strip() for text in page.locator("#table tbody th").all_inner_texts()]


def stops(page: Any) -> list[dict[str, Any]]:
    return list(json.loads(page.locator("#data").evaluate("each => each.textContent"))["shares"])


def test_the_slider_moves_table_volcano_and_forest(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page = open_page(wide)
    page.select_option("#size", "500")
    slider, said = page.get_by_role("slider", name="Bad rows"), page.locator("#share-said")
    expect(said).to_have_text("200 of 20,000 features at 5 % bad rows".replace(" %", "\u00a0%"))
    heights = page.locator("#volcano .dots.up, #volcano .dots.down").evaluate_all(HEIGHTS)
    ends = page.locator("#forest .interval").first.get_attribute("d")
    adjusted = page.locator("#table tbody tr").first.locator("td.p").nth(1).inner_text()
    slider.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    stop = stops(page)[-2]
    left = wide_estimate.table()
    left = left[left["max_contamination"] >= stop["share"] - 1e-12]
    assert 0 < len(left) == stop["n"] < 200
    expect(said).to_contain_text(f"{stop['n']} of 20,000 features at ")
    assert [text.strip() for text in page.locator("#verdict p").all_inner_texts()] == [
        line.replace("   ", " ") for line in stop["verdict"]
    ]
    assert stop["verdict"][0].startswith(f"{stop['n']} of 20,000 features ")
    assert slider.get_attribute("aria-valuetext") == said.inner_text()
    assert names(page) == left["feature"].tolist()
    assert page.locator("#forest svg .label").count() == stop["n"]
    moved = page.locator("#volcano .dots.up, #volcano .dots.down").evaluate_all(HEIGHTS)
    assert sum(map(len, moved)) == stop["n"]
    assert np.mean(np.concatenate(moved)) > np.mean(np.concatenate(heights))  # down: less is left of the evidence
    assert page.locator("#volcano .left-out").count() == 1
    assert page.locator("#forest .interval").first.get_attribute("d") != ends
    assert page.locator("#table tbody tr").first.locator("td.p").nth(1).inner_text() != adjusted
    again = wide_estimate.at(stop["share"]).table().set_index("feature")
    shown = page.locator("#table tbody tr").first.locator("td.p").nth(1).inner_text()
    value = float(shown.replace(" × 10", "e").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    assert value == pytest.approx(again.loc[names(page)[0], "p_adjusted"], rel=0.06)
    page.get_by_role("button", name="As fitted").click()
    expect(page.locator("#shown")).to_contain_text("of 200 features")
    assert page.locator("#table tbody tr").first.locator("td.p").nth(1).inner_text() == adjusted
    assert page.locator("#forest .interval").first.get_attribute("d") == ends


def test_what_is_saved_is_what_the_slider_shows(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page = open_page(wide)
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    share = stops(page)[-1]["share"]
    with page.expect_download() as started:
        page.click("#csv")
    saved = pd.read_csv(started.value.path())
    assert set(saved["feature"]) == set(wide_estimate.names(wide_estimate.at(share).support))
    np.testing.assert_allclose(
        saved["p_value"],
        wide_estimate.at(share).table().set_index("feature").loc[saved["feature"], "p_value"],
        rtol=6e-3,
    )


def test_none_selected_shows_the_strongest_and_what_no_bad_row_would_give(open_page: Any, tmp_path: Path) -> None:
    from sparsemean import sparse_mean

    X = np.random.default_rng(0).normal(size=(100, 30))
    X[:, :4] += [0.5, 0.45, 0.4, 0.35]
    estimate = sparse_mean(X, contamination=0.2, random_state=0)
    assert estimate.support.size == 0
    estimate.report(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    expect(page.locator("#share-said")).to_contain_text("0 of 30 features")
    expect(page.locator("#none")).to_be_visible()
    assert len(names(page)) == 10
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    clean = estimate.at(0.0).support
    expect(page.locator("#share-said")).to_contain_text(f"{clean.size} of 30 features")
    expect(page.locator("#none")).to_be_hidden()
    assert sorted(map(int, names(page))) == clean.tolist()
    assert page.locator("#forest .interval").count() == clean.size


def test_the_strongest_dots_have_names_that_do_not_overlap(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page = open_page(wide)
    shown = page.locator("#volcano .names text")
    assert 5 <= shown.count() <= 10
    assert set(shown.all_text_contents()) <= set(wide_estimate.table()["feature"].head(40))
    boxes = [each.bounding_box() for each in shown.all()]
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
            along = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
            assert across <= 0 or along <= 4  # the boxes have a rim of the colour of the paper


def test_values_of_the_picked_feature_by_group(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    expect(page.locator("#values-name")).to_have_text("41214_at")
    texts = page.locator("#values svg .label").all_text_contents()
    assert texts == ["M: 83 values", "F: 42 values"]
    assert page.locator("#values .quartiles").count() == 2
    before = page.locator("#values .quartiles").first.get_attribute("d")
    page.locator("#table tbody th button").nth(1).click()
    expect(page.locator("#values-name")).to_have_text(names(page)[1])
    assert page.locator("#values .quartiles").first.get_attribute("d") != before
    page.locator("#values .area").focus()
    page.keyboard.press("Home")
    expect(page.locator("#status")).to_contain_text("contradicts its label, labelled")


def test_units_that_differ_are_shown_in_percent(open_page: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.gamma(4.0, size=(200, 6)), np.repeat(["A", "B"], 100)
    X[y == "B", :3] *= 2
    X *= [1, 10, 1000, 1, 1, 1]
    estimate = SparseMeanDifference(contamination=0.0).fit(X, y).result_
    assert estimate.support.tolist() == [0, 1, 2]
    estimate.report(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    title = page.locator("#forest .title")
    expect(title).to_have_text("Shift, B minus A, in % of the mean of A")
    table = estimate.table()
    expected = [f"{each:.1f} %" for each in 100 * table["estimate"] / table["mean_0"]]
    texts = [each.split("  [")[0] for each in page.locator("#forest svg text").all_text_contents() if "[" in each]
    assert texts == expected
    page.select_option("#units", "0")
    expect(title).to_contain_text("in the units of the data")
