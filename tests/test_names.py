"""Names from a file: no text becomes a formula, no control character hides or turns round what is shown, anywhere."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsemean as sm
from sparsemean._fit.write import write
from sparsemean._util.files import write_csv
from sparsemean.errors import CONTROLS, visible
from sparsemean.result._report import page as report_page
from sparsemean.result._report.page import HERE, page_data, page_wordings
from sparsemean.result._report.summary import as_html

from command import expect

HOSTILE = [
    "=1+1",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "a\u202eb",
    "\x1b[31mred",
    "b\u2066c",
    "d\u200e\u061c",
    "-5",
    "nul\x00\u2066",
]
N = 120
RNG = np.random.default_rng(0)
ARMS = ["=new\u202e", "\x1b[2Jold"]


def frame() -> pd.DataFrame:
    X = RNG.standard_normal((N, len(HOSTILE))) + np.where(np.arange(len(HOSTILE)) % 2, 5, -5)
    return pd.DataFrame(X, columns=HOSTILE)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "x.parquet"
    X = frame()
    signs = np.where(np.arange(N) % 2, 1, -1)[:, np.newaxis]
    X.iloc[:] = np.abs(X.to_numpy()) * (1 + 0.5 * signs)
    X.assign(arm=np.where(np.arange(N) % 2, ARMS[0], ARMS[1])).to_parquet(path)
    return path


def harmless(name: str) -> str:
    """The name in a CSV: no formula, and controls are written out besides."""
    return ("'" if name[0] in "=+-@\t\r" else "") + visible(name)


@pytest.mark.parametrize("every", [[], ["--all"]])
def test_text_of_a_csv_is_no_formula_and_numbers_are_numbers(every: list[str], tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "x.parquet")
    expect("fit", tmp_path / "x.parquet", "-q", "--out", tmp_path / "out.csv", *every)
    out = pd.read_csv(tmp_path / "out.csv")
    assert set(out["feature"]) == set(map(harmless, HOSTILE))
    assert out["estimate"].dtype == out["ci_low"].dtype == np.float64
    assert (out["estimate"] < -4).sum() == 6  # negative numbers are left alone
    text = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert not re.search(r'(^|,)"?[=+@\t\r]', text, re.M)
    assert set(CONTROLS.findall(text)) == {"\n"}
    expect("fit", tmp_path / "out.csv", "--id", "feature", "--select", "estimate", "-q")  # it can be read again


def test_a_scorecard_has_no_formula(table: Path, tmp_path: Path) -> None:
    expect("experiment", table, "--arm", "arm", "-q", "--out", tmp_path / "card.csv")
    out = pd.read_csv(tmp_path / "card.csv")
    assert set(out["metric"]) == set(map(harmless, HOSTILE))
    assert set(CONTROLS.findall((tmp_path / "card.csv").read_text(encoding="utf-8"))) == {"\n"}
    text = out.select_dtypes(exclude=["number", "bool"])
    assert not any(
        str(cell).startswith(("=", "+", "-", "@", "\t", "\r")) for name in text for cell in text[name].dropna()
    )


def test_text_is_found_in_columns_of_any_name(tmp_path: Path) -> None:
    frame = pd.DataFrame([["=1", 2.5, "a\x1b", "+1"]], columns=[0, 1, "x", "x"])
    write_csv(frame, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines() == ["0,1,x,x", r"'=1,2.5,a\x1b,'+1"]
    page = as_html(frame)
    assert (page.count("<th>"), page.count("<td>"), page.count(r"a\x1b")) == (4, 4, 1)
    assert frame.iloc[0].tolist() == ["=1", 2.5, "a\x1b", "+1"]


def test_other_files_have_names_as_they_are(tmp_path: Path) -> None:
    """They are no spreadsheets, and a name is what joins tables."""
    frame().to_parquet(tmp_path / "x.parquet")
    outs = tmp_path / "out.parquet", tmp_path / "out.json"
    expect("fit", tmp_path / "x.parquet", "-q", "--out", outs[0], "--json", outs[1])
    assert set(pd.read_parquet(outs[0])["feature"]) == set(HOSTILE)
    assert {row["feature"] for row in json.loads(outs[1].read_text(encoding="utf-8"))["selected"]} == set(HOSTILE)


def shown_of(result: Any, tmp_path: Path) -> dict[str, str]:
    """All that shows a result, by what shows it; the data of a page, which its script escapes, are left out."""
    result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = re.compile(r'<script type="application/json" id="data">.*?</script>', re.S)
    return {
        "str": str(result),
        "summary": result.summary(),
        "notebook": result._repr_html_(),
        "page": data.sub("", page).replace(report_page.script(), ""),
        "repr": repr(result),
    }


@pytest.mark.parametrize("kind", ["one sample", "groups", "tests"])
def test_controls_in_names_are_written_out(kind: str, table: Path, tmp_path: Path) -> None:
    X = pd.read_parquet(table)
    arms = X.pop("arm").to_numpy()
    X.index = pd.Index([f"row\u202e{k}\x1b" for k in range(N)])
    X.iloc[:6] *= 40
    if kind == "one sample":
        result: Any = sm.SparseMean().fit(X).result_
    elif kind == "groups":
        result = sm.SparseMeanDifference().fit(X, arms).result_
    else:
        labels = np.array([*ARMS, "x\u2067"])[np.arange(N) % 3]
        result = sm.SparseMeanDifference().fit(X, labels).result_
    for where, text in shown_of(result, tmp_path).items():
        left = set(CONTROLS.findall(text)) - {"\n"}
        assert left == set(), (where, left)
        if where != "repr":
            assert r"\u202e" in text, where


def test_a_scorecard_shows_no_controls(table: Path) -> None:
    X = pd.read_parquet(table)
    card = sm.experiments.analyze(X, arm="arm")
    for text in (str(card), card._repr_html_(), card.to_markdown(), card.to_html(title=HOSTILE[0])):
        assert set(CONTROLS.findall(text)) <= {"\n"}
        assert r"\u202e" in text


def test_plots_show_no_controls(table: Path) -> None:
    import matplotlib.pyplot as plt

    X = pd.read_parquet(table)
    groups = sm.SparseMeanDifference().fit(X.drop(columns="arm"), X["arm"]).result_
    for draw in (groups.plot_forest, groups.plot_volcano, groups.plot_robustness):
        ax = draw()
        texts = [text.get_text() for text in ax.figure.findobj(lambda artist: hasattr(artist, "get_text"))]
        assert not any(CONTROLS.search(text.replace("\n", "")) for text in texts)
        plt.close(ax.figure)


def test_errors_show_no_controls() -> None:
    with pytest.raises(sm.InputError) as refused:
        sm.SparseMean().fit(frame()).result_.interval("no\x1b[2J\u202e")
    assert not CONTROLS.search(str(refused.value))
    X = frame()
    X["\x1b[2J\u202e"] = "text"
    with pytest.raises(sm.InputError, match=r"\\u202e") as refused:
        sm.SparseMean().fit(X)
    assert not CONTROLS.search(str(refused.value))


def test_the_script_of_the_page_knows_the_same_characters() -> None:
    """A browser is not needed to see that the two lists agree; tests/browser sees what is downloaded."""
    script = report_page.script()
    listed = re.search(r"const CONTROLS = /\[(.*?)\]/g;", script)
    assert listed is not None
    of_script = re.compile(f"[{listed[1]}]")
    signs = [chr(code) for code in range(0x10000)]
    assert [sign for sign in signs if of_script.match(sign)] == [sign for sign in signs if CONTROLS.match(sign)]
    first = re.search(r"/\^\[(.*?)\]/\.test\(value\)", script)
    assert first is not None
    formula = re.compile(f"[{first[1]}]")
    assert [sign for sign in signs if formula.match(sign)] == [*"\t\n\r+-=@", *"＋－＝＠"]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js runs the script of the page")
def test_what_the_page_would_download_is_what_is_written(tmp_path: Path) -> None:
    est = sm.SparseMean().fit(frame()).result_
    data = page_data(*page_wordings(est))
    write(est, tmp_path / "out.csv")
    parts = {name: (HERE / f"{name}.js").read_text(encoding="utf-8") for name in ("base", "download")}
    start = "const document = { getElementById: () => ({ textContent: require('fs').readFileSync(0, 'utf8') }) };"
    order = "const state = { order: data.index.map((_, k) => k) };"
    end = f"{order} console.log(JSON.stringify([asCsv(), state.order.map(nameOf)]));"
    done = subprocess.run(
        ["node", "-e", "\n".join((start, *parts.values(), end))], input=json.dumps(data), capture_output=True, text=True
    )
    assert done.stderr == ""
    csv, names = json.loads(done.stdout)
    assert names == [visible(name) for name in est.table()["feature"]]
    downloaded, written = pd.read_csv(io.StringIO(csv)), pd.read_csv(tmp_path / "out.csv")
    assert downloaded["feature"].tolist() == written["feature"].tolist()
    assert (downloaded["estimate"] < -4).sum() == 6


def test_visible_is_the_same_twice() -> None:
    once = visible("a\u202e\\b\n")
    assert once == r"a\u202e\b\n"
    assert visible(once) == once
