"""The page needs nothing but itself, escapes what it is given, and never mixes figures that were made otherwise."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from sparsemean.studies import published, reproduce
from sparsemean.studies.figures import Options, Outcome, Record, collect

PIXEL = b"\x89PNG\r\n\x1a\n-not-really"
EVIL = '<script>alert("x")</script> & co'


class Shape(HTMLParser):
    """Collects tags with their attributes, and complains of what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outcome(out: Path, **changes: object) -> Outcome:
    images = (out / "a.png", out / "b.svg")
    images[0].write_bytes(PIXEL)
    images[1].write_text("<svg/>", encoding="utf-8")
    made = Outcome("fig1", EVIL, pd.DataFrame({EVIL: [1.0, 2.0]}), images, notes=[EVIL])
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(tmp_path)


def test_everything_is_escaped_and_embedded(options: Options) -> None:
    record = Record.of(outcome(options.out), options)
    summary = published.summarise(pd.DataFrame(columns=published.COLUMNS))
    text = reproduce.render([record], summary, options, [EVIL])
    shape = Shape(text)
    assert shape.open == []
    assert not any(tag in ("script", "link", "iframe") for tag, _ in shape.tags)
    sources = [attributes["src"] for tag, attributes in shape.tags if tag == "img"]
    assert sources[0] == f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    assert str(sources[1]).startswith("data:image/svg+xml;base64,")
    assert "http" not in text
    assert text.count("&lt;script&gt;") >= 4
    assert summary.points == 0


def test_an_outcome_with_agreement_adds_its_points(options: Options) -> None:
    rows = [dict.fromkeys(published.COLUMNS, 1.0) | {"figure": "fig1", "z": z} for z in (0.5, 9.0)]
    record = Record.of(outcome(options.out, agreement=pd.DataFrame(rows)), options)
    record.write(options.out)
    report = reproduce.write_page(options)
    assert (report.summary.points, report.summary.within) == (2, 1)
    table = pd.read_csv(options.out / "agreement.csv")
    assert tuple(table.columns) == published.COLUMNS
    assert table["z"].tolist() == [0.5, 9.0]
    text = report.page.read_text(encoding="utf-8")
    assert "1 of 2 published points (50.0%) with |z| ≤ 3" in text
    assert Shape(text).open == []


def test_figures_made_otherwise_are_left_out_and_named(options: Options) -> None:
    Record.of(outcome(options.out), options).write(options.out)
    assert [record.name for record in collect(options, ["fig1"])[0]] == ["fig1"]
    for other, word in ((replace(options, seed=3), "seed 0"), (replace(options, quick=True), "quick False")):
        kept, left_out = collect(other, ["fig1"])
        assert kept == []
        assert left_out == [f"fig1 was made otherwise ({word}) and is left out"]


@pytest.mark.parametrize("content", ['{"name": "fig1"', "[]", '{"name": "fig1"}'])
def test_a_damaged_record_is_left_out_and_named(options: Options, content: str) -> None:
    (options.out / "fig1.figure.json").write_text(content, encoding="utf-8")
    kept, left_out = collect(options, ["fig1"])
    assert kept == []
    assert "fig1.figure.json cannot be read" in left_out[0]


def test_a_picture_that_is_gone_is_said(options: Options) -> None:
    record = Record.of(outcome(options.out), options)
    (options.out / "a.png").unlink()
    summary = published.summarise(pd.DataFrame(columns=published.COLUMNS))
    assert "a.png is no longer there" in reproduce.render([record], summary, options, [])


def test_numbers_survive_the_record(options: Options) -> None:
    rows = pd.DataFrame([dict.fromkeys(published.COLUMNS, 1.0) | {"z": float("inf")}])
    Record.of(outcome(options.out, agreement=rows), options).write(options.out)
    stored = json.loads((options.out / "fig1.figure.json").read_text(encoding="utf-8"))
    assert stored["agreement"][0]["z"] == float("inf")
    assert reproduce.write_page(options).summary.within == 0
