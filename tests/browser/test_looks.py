"""Size, speed, width, colours and access: the bars that the page is held to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser").expect
SERIOUS = ("serious", "critical")


@pytest.mark.parametrize(("name", "megabytes", "seconds"), [("wide", 3, 2), ("million", 5, 4)])
def test_size_and_time(
    name: str, megabytes: float, seconds: float, request: pytest.FixtureRequest, open_page: Any
) -> None:
    path = request.getfixturevalue(name)
    size = path.stat().st_size / 1e6
    taken = []
    for _ in range(3):  # the machine may be busy: the best of three
        began = time.perf_counter()
        page = open_page(path)
        page.locator("th[data-key=feature] button").click()
        assert page.locator("th[data-key=feature]").get_attribute("aria-sort") == "ascending"
        taken.append(time.perf_counter() - began)
    assert size <= megabytes
    assert min(taken) <= seconds, taken


def test_thousands_of_features_stay_searchable(million: Path, open_page: Any) -> None:
    page = open_page(million)
    assert page.locator("#table tbody tr").count() == 25
    page.fill("#find", "1234")
    expect(page.locator("#table tbody tr")).to_have_count(1)
    expect(page.locator("#table tbody th")).to_have_text("1234")
    assert "Grey shading: the other 997,500 features" in page.inner_text("#volcano figcaption")


@pytest.mark.parametrize("name", ["two_groups", "wide"])
def test_on_a_phone_nothing_scrolls_sideways(name: str, request: pytest.FixtureRequest, open_page: Any) -> None:
    page = open_page(request.getfixturevalue(name), width=360, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for figure in page.locator("figure svg").all():
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    page.locator("#forest .area").tap(position={"x": 200, "y": 30})
    assert page.is_visible("#picked")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_theme_can_be_turned(two_groups: Path, open_page: Any) -> None:
    page = open_page(two_groups)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) == light
    page.click("#theme")
    assert page.evaluate(colour) != light
    dark = open_page(two_groups, dark=True)
    assert dark.evaluate(colour) == page.evaluate(colour)
    page.emulate_media(media="print")
    assert page.evaluate(colour) == light


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["two_groups", "wide", "uncertified", "nothing", "endless", "no_data"])
def test_axe_finds_nothing_serious(
    name: str, dark: bool, axe: str, request: pytest.FixtureRequest, open_page: Any
) -> None:
    odd = name not in ("two_groups", "wide")
    path = request.getfixturevalue("odd_pages")[name] if odd else request.getfixturevalue(name)
    page = open_page(path, dark=dark)
    if name == "wide":
        page.locator("#table tbody button").first.click()
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    bad = [(each["id"], each["impact"], each["nodes"][0]["html"][:120]) for each in found if each["impact"] in SERIOUS]
    assert bad == []
    assert [each["id"] for each in found] == []


@pytest.mark.parametrize("name", ["two_groups", "wide"])
def test_screenshots(name: str, request: pytest.FixtureRequest, open_page: Any, pages: Path) -> None:
    path = request.getfixturevalue(name)
    for width in (1280, 360):
        for dark in (False, True):
            target = pages / f"{name}-{width}-{'dark' if dark else 'light'}.png"
            open_page(path, width=width, dark=dark).screenshot(path=target, full_page=True)
            assert target.stat().st_size > 50_000
    page = open_page(path)
    page.pdf(path=pages / f"{name}.pdf", prefer_css_page_size=True, print_background=True)
    assert 2 <= (pages / f"{name}.pdf").read_bytes().count(b"/Type /Page\n") <= 10


def test_printing_shows_the_whole_table(wide: Path, open_page: Any) -> None:
    page = open_page(wide)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#table tbody tr").count() == 200
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#table tbody tr").count() == 25
