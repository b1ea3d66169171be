"""One file that holds all it shows; bad names stay text and bad targets are refused."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate
from sparsemean._util.checks import Bunch
from sparsemean.errors import InputError, MissingExtraError, visible
from sparsemean.result._report.page import environment

from command import expect as run

VOID = {"meta", "link", "input"}


class Reader(HTMLParser):
    """Collects scripts, identifiers, addresses and whether elements are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        if tag == "script":
            self.scripts.append((given.get("type"), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif not self.open or self.open[-1] != "style":
            self.text += data


def page_of(estimate: Estimate, folder: Path, **names: object) -> str:
    estimate.report(folder / "page.html", **names)
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["estimate", "nothing", "attacked", "named_badly"])
def test_the_page_is_whole_and_asks_for_nothing(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    page = page_of(request.getfixturevalue(name), tmp_path)
    reader = Reader(page)
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(address.startswith(("#", "data:,")) for address in reader.addresses)
    assert {address[1:] for address in reader.addresses if address.startswith("#")} <= set(reader.ids)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)", page)
    assert [kind for kind, _ in reader.scripts] == ["application/json", None]


def test_words_numbers_and_settings_stand_in_the_page_itself(estimate: Estimate, tmp_path: Path) -> None:
    text = Reader(page_of(estimate, tmp_path, title="Spring test")).text
    assert all(line in text for line in estimate.summary().splitlines())
    assert "Spring test" in text
    for name in estimate.names(estimate.support):
        assert str(name) in text
    assert "not a single selected feature is false" in text
    assert f"numpy {np.__version__}" in text


def test_names_stay_names(named_badly: Estimate, tmp_path: Path) -> None:
    page = page_of(named_badly, tmp_path, title="<b>bold</b>")
    reader = Reader(page)
    assert "alert(1)</script>" not in page
    assert "<img" not in page
    assert "<b>bold" not in page
    content = json.loads(reader.scripts[0][1])
    expected = [name.replace("\ud800", "?") for name in named_badly.table()["feature"]]
    assert content["table"][0] == expected
    assert "<b>bold</b>" in reader.text
    assert any("<script>" in name for name in expected)
    for name in expected[:4]:
        assert visible(name) in reader.text


def test_groups_and_rows_are_called_by_name(groups: tuple[Estimate, Bunch], tmp_path: Path) -> None:
    estimate, bunch = groups
    estimate = replace(estimate, sample=replace(estimate.sample, class_names=np.array(["<F>", "M"])))
    text = Reader(page_of(estimate, tmp_path, row_names=bunch.samples)).text
    assert "What differs between <F> and M" in text
    assert "Shift, M minus <F>" in text
    assert estimate.rows is not None
    for row in estimate.rows.suspects:
        assert bunch.samples[row] in text


def test_names_that_do_not_fit_are_refused(estimate: Estimate, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    with pytest.raises(InputError, match="row_names must have one name for each of the 400 rows: got 2"):
        estimate.report(target, row_names=["a", "b"])
    assert not target.exists()


def test_targets_that_cannot_be_are_refused(estimate: Estimate, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    for name, rule in (
        ("page.pdf", r"end in \.html or \.htm"),
        ("none/page.html", "be in an existing directory"),
        ("folder.html", "be a file"),
    ):
        with pytest.raises(InputError, match=f"path must {rule}"):
            estimate.report(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html"]


def test_what_was_there_stays_when_writing_fails(
    estimate: Estimate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.html"
    target.write_text("before", encoding="utf-8")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(InputError, match="No space left"):
        estimate.report(target)
    assert target.read_text(encoding="utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_without_jinja_one_line_says_what_to_install(
    estimate: Estimate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    environment.cache_clear()
    with pytest.raises(MissingExtraError, match=r'needs jinja2.*: pip install "sparsemean\[report\]"') as refused:
        estimate.report(tmp_path / "page.html")
    assert "\n" not in str(refused.value)


@pytest.fixture
def csv(made: Bunch, tmp_path: Path) -> Path:
    frame = pd.DataFrame(made.X, columns=[f"metric {k}" for k in range(40)])
    frame.insert(0, "arm", np.where(np.arange(400) % 2, "control", "<new>"))
    frame.insert(0, "user", [f"user {k}" for k in range(400)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_the_command_line_writes_the_page(csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.html"
    run("fit", csv, "--id", "user", "--drop", "arm", "--seed", "0", "--report", target)
    assert f"Written: {target}" in capsys.readouterr().out.replace("\n", "")
    reader = Reader(target.read_text(encoding="utf-8"))
    assert "data.csv: which features have a mean" in reader.text
    content = json.loads(reader.scripts[0][1])
    assert "metric 0" in content["table"][0]
    assert content["rows"]["names"][:1] == [f"user {content['rows']['index'][0]}"]
    run("fit", csv, "--id", "user", "--group", "arm", "--report", target, "-q")
    text = Reader(target.read_text(encoding="utf-8")).text
    assert "data.csv: what differs by arm" in text


def test_the_command_line_refuses_before_it_reads(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv.write_text("no,table\n1\n", encoding="utf-8")
    run("fit", csv, "--report", tmp_path / "page.txt", status=2)
    assert "--report must end in .html or .htm" in capsys.readouterr().err
    run("fit", csv, "--report", tmp_path / "none" / "page.html", status=2)
    assert "--report must be in an existing directory" in capsys.readouterr().err
