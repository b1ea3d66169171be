"""What a reader does with the page: sorts, filters, points, picks and takes the table along."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, SparseMeanDifference

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser").expect
NAMES = "#table tbody th"


def names(page: Any) -> list[str]:
    return [text.strip() for text in page.locator(NAMES).all_inner_texts()]


def place(page: Any, plot: str) -> tuple[float, float]:
    """Return where the ring, or frame, of the picked feature is on the screen."""
    box = page.locator(f"#{plot} .emphasis circle, #{plot} .emphasis .frame").first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_words_and_the_first_rows_are_there_without_scripts(wide: Path, open_page: Any, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(wide.as_uri())
    without = plain.locator("#table tbody tr").all_inner_texts()
    assert "Scripts are off" in plain.locator("noscript").inner_text()
    context.close()
    assert len(without) == 25
    page = open_page(wide)
    page.locator("#more").click()  # without scripts every column is there
    shown = page.locator("#table tbody tr").all_inner_texts()
    assert [" ".join(row.split()) for row in shown] == [" ".join(row.split()) for row in without]


def test_sorting(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page, table = open_page(wide), wide_estimate.table()
    assert names(page) == table["feature"].head(25).tolist()
    heading = page.locator("th[data-key=estimate]")
    for direction, ascending in (("descending", False), ("ascending", True)):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == direction
        expected = table.sort_values("estimate", ascending=ascending, kind="stable")["feature"].head(25).tolist()
        assert names(page) == expected
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") is None
    assert names(page) == table["feature"].head(25).tolist()
    page.locator("th[data-key=feature]").get_by_role("button").press("Enter")
    assert names(page) == sorted(table["feature"])[:25]


def test_filtering_and_pages(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page, table = open_page(wide), wide_estimate.table()
    page.fill("#find", "C_0004")
    found = table[table["feature"].str.contains("c_0004")]
    assert names(page) == found["feature"].tolist()
    expect(page.locator("#shown")).to_contain_text(f"of {len(found)} features that pass the filter")
    page.fill("#find", "")
    page.select_option("#side", "-1")
    chosen = table[table["beta"] < 0]
    expect(page.locator("#shown")).to_contain_text(f"of {len(chosen)} features")
    assert names(page) == chosen["feature"].head(25).tolist()
    page.get_by_role("button", name="Next").click()
    assert names(page) == chosen["feature"].iloc[25:50].tolist()
    assert page.locator("#forest svg .label").count() == len(names(page))
    page.fill("#find", "nobody is called this")
    expect(page.locator("#shown")).to_have_text("No feature passes the filter.")
    expect(page.locator("#forest svg")).to_contain_text("No feature passes the filter.")


def test_pointing_shows_a_feature_everywhere(wide: Path, open_page: Any) -> None:
    page = open_page(wide)
    first = names(page)[0]
    page.locator(NAMES).first.locator("button").click()
    page.mouse.move(2, 2)  # off the rows, which else pass under it while the page scrolls
    for plot in ("volcano", "robustness", "forest"):
        page.locator(f"#{plot} .area").scroll_into_view_if_needed()
        x, y = place(page, plot)
        page.mouse.move(x, y)
        tip = page.locator(f"#{plot} .tip")
        expect(tip).to_be_visible()
        if plot == "volcano":
            expect(tip.locator("strong")).to_have_text(first)
            expect(tip).to_contain_text("selected up to")
        page.mouse.move(2, 2)
        expect(tip).to_be_hidden()
    page.locator("#rows .area").hover(position={"x": 200, "y": 250})
    expect(page.locator("#rows .tip")).to_contain_text("score")


def test_picking_in_a_plot_turns_the_table_to_it(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page, last = open_page(wide), wide_estimate.table()["feature"].iloc[-1]
    page.fill("#find", last)
    page.locator(NAMES).first.locator("button").click()
    ring = page.locator("#volcano .emphasis circle")
    at = {axis: float(ring.get_attribute(f"c{axis}")) for axis in "xy"}  # the plot is as wide as it says: no scaling
    page.locator("#unpick").click()
    expect(page.locator("#picked")).to_be_hidden()
    page.fill("#find", "")
    assert last not in names(page)
    page.locator("#volcano .area").click(position=at)
    expect(page.locator("#picked")).to_be_visible()
    expect(page.locator("#picked-name")).to_have_text(last)
    assert last in names(page)
    expect(page.locator("#table tr.picked th")).to_have_text(last)
    assert page.locator("#table tr.picked button").get_attribute("aria-pressed") == "true"
    for plot in ("volcano", "robustness"):
        assert page.locator(f"#{plot} .emphasis circle").count() >= 1
    assert page.locator("#forest .frame.picked").count() == 1
    page.keyboard.press("Escape")
    expect(page.locator("#picked")).to_be_hidden()


def test_by_keyboard_alone(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.closest('.plot') && document.activeElement.closest('figure').id"
                " || document.activeElement.id"
            )
        )
        if seen[-1] == "volcano":
            break
    assert {"theme", "share", "find", "side", "csv", "json", "rnk", "markdown", "across"} <= set(seen)
    assert seen[-1] == "volcano"
    tip = page.locator("#volcano .tip")
    expect(tip).to_be_visible()
    expect(tip.locator("strong")).to_have_text("38446_at")
    page.keyboard.press("End")
    expect(tip.locator("strong")).to_have_text("38355_at")  # the largest shift
    page.keyboard.press("ArrowLeft")
    expect(tip.locator("strong")).to_have_text("41214_at")
    expect(page.locator("#status")).to_contain_text("41214_at: shift 4.7")
    page.keyboard.press("Enter")
    expect(page.locator("#picked-name")).to_have_text("41214_at")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Escape")
    expect(page.locator("#picked")).to_be_hidden()


def test_between_two_groups_rows_contradict_their_label(two_groups: Path, open_page: Any) -> None:
    expect(open_page(two_groups).locator("#suspects")).to_contain_text("rows contradict their label")


def test_all_columns_can_be_shown(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    more, extra = page.locator("#more"), page.locator("th[data-key=share_nonzero_0]")
    expect(extra).to_be_hidden()
    more.click()
    expect(extra).to_be_visible()
    assert more.get_attribute("aria-pressed") == "true"
    more.click()
    expect(extra).to_be_hidden()


def test_downloads_have_every_digit(wide: Path, wide_estimate: Estimate, open_page: Any) -> None:
    page, table = open_page(wide), wide_estimate.table().drop(columns=["skewed", "measure"])
    with page.expect_download() as started:
        page.click("#csv")
    assert started.value.suggested_filename == "wide-features.csv"
    got = pd.read_csv(StringIO(Path(started.value.path()).read_text(encoding="utf-8")), float_precision="round_trip")
    pd.testing.assert_frame_equal(got, table, check_dtype=False, check_exact=True)
    page.fill("#find", "00042")
    with page.expect_download() as started:
        page.click("#json")
    content = json.loads(Path(started.value.path()).read_text(encoding="utf-8"))
    (row,) = table[table["feature"] == "metric_00042"].to_dict(orient="records")
    assert content["selected"] == [{key: None if value is pd.NA else value for key, value in row.items()}]
    assert content["summary"] == wide_estimate.summary()


def test_odd_pages_load_and_names_stay_names(odd_pages: dict[str, Path], open_page: Any) -> None:
    for path in odd_pages.values():
        page = open_page(path)
        frames = page.locator("figure svg").count()  # and none is empty
        assert frames == page.locator("figure").count() >= (3 if "no_data" in path.name else 4)
        assert "undefined" not in page.inner_text("body")
        assert "NaN" not in page.inner_text("body")
    page = open_page(odd_pages["names"])
    assert "</script><script>alert(1)</script>" in names(page)
    assert page.evaluate("document.images.length") == 0
    with page.expect_download() as started:
        page.click("#csv")
    saved = pd.read_csv(started.value.path())
    assert {"</script><script>alert(1)</script>", "'\"&amp;", "'=1+1", "a\\u202eb"} <= set(saved["feature"])
    assert {"=1+1", r"a\u202eb"} <= set(names(page))  # shown as it is, and with what turns round written out
    assert open_page(odd_pages["endless"]).locator("#forest .arrow").count() >= 2
    assert open_page(odd_pages["nothing"]).locator("#table tbody tr").count() == 10


def test_the_scale_of_the_forest_can_be_chosen(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    dots = "els => els.map(e => Number(e.getAttribute('cx')))"
    linear = page.locator("#forest circle").evaluate_all(dots)
    page.select_option("#scale", "1")
    bent = page.locator("#forest circle").evaluate_all(dots)
    assert np.argsort(linear).tolist() == np.argsort(bent).tolist()
    assert not np.allclose(linear, bent)


def test_the_table_is_copied_as_markdown_and_all_features_ranked(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click("#markdown")
    expect(page.locator("#markdown")).to_have_text("Copied")
    text = page.evaluate("window.copied")
    said = page.locator("#verdict p").first.inner_text()
    assert text.startswith(said)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + page.locator("#table tbody tr").count()
    assert rows[0].startswith("| Feature | Estimate | From | To | p |")
    with page.expect_download() as started:
        page.click("#rnk")
    ranked = pd.read_csv(started.value.path(), sep="\t", header=None)
    assert len(ranked) == 12_625
    assert ranked[1].is_monotonic_decreasing
    assert ranked[0].iloc[0] == names(page)[0]


def test_the_volcano_has_effects_in_units_and_cliffs_delta_on_demand(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    title = page.locator("#volcano .title").last
    expect(title).to_have_text("Shift, M minus F")
    page.select_option("#across", "1")
    expect(title).to_have_text("Cliff’s delta, M above F")


def test_three_labels_have_a_plot_of_dots(open_page: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, X = np.repeat(["a", "b", "c"], 60), rng.poisson(0.5, (180, 20)).astype(float)
    for k in range(3):
        X[60 * k : 60 * k + 60, 3 * k : 3 * k + 3] += rng.poisson(4.0, (60, 3))
    result = SparseMeanDifference(contamination=0.0).fit(X, y).result_
    result.report(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    dots = page.locator("#dots circle[cy] title")
    first = result.results["a"].table().iloc[0]
    words = f"{first['feature']}, a: {100 * first['share_nonzero_1']:.1f} % non-zero"
    assert any(text.startswith(words) for text in dots.all_text_contents())
    assert page.locator("#dots").is_visible()
