"""Options of ``sparsemean fit`` that say how groups are compared, and which rows belong together."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import sparse_mean
from sparsemean._fit import two_sample

from command import expect as run

X = np.random.default_rng(0).standard_normal((80, 3))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["arm"] = np.arange(80) % 2
    frame["who"], frame["site"], frame["couple"] = np.arange(80) // 4, np.arange(80) % 4 // 2, np.arange(80) // 2
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what `compare` is called with."""
    seen: list[dict[str, Any]] = []

    def compare(table: Any, y: Any, **options: Any) -> Any:
        seen.append({"table": table, "y": y, **options})
        return SimpleNamespace(result=sparse_mean(X))

    monkeypatch.setattr(two_sample, "compare", compare)
    return seen


def test_labels_and_choices_reach_the_comparison(csv: Path, calls: list[dict[str, Any]]) -> None:
    run(
        "fit", csv, "--group", "arm", "--reference", "1", "--subject", "who", "--strata", "site", "--pairs", "couple",
        "--alternative", "greater", "--min-effect", "0.5", "-e", "0.05,0.1", "--seed", "7",
    )  # fmt: skip
    (call,) = calls
    assert call["table"].shape == (80, 3)
    assert call["y"].tolist() == (np.arange(80) % 2).tolist()
    assert call["reference"] == 1
    assert isinstance(call["reference"], int)
    for name, column in (
        ("groups", np.arange(80) // 4),
        ("strata", np.arange(80) % 4 // 2),
        ("pairs", np.arange(80) // 2),
    ):
        np.testing.assert_array_equal(call[name], column)
    assert call["contamination"] == (0.05, 0.1)
    assert (call["alternative"], call["min_effect"], call["random_state"]) == ("greater", 0.5, 7)
    assert call["called"]["y"] == "--group arm"


def test_what_is_not_given_has_its_default(csv: Path, calls: list[dict[str, Any]]) -> None:
    run("fit", csv, "--group", "arm", "--drop", "who")
    run("fit", csv, "--group", "arm", "--vs", "rest")
    run("fit", csv, "--group", "arm", "--reference", "placebo")
    assert [(call["reference"], call["vs"]) for call in calls] == [(None, None), (None, "rest"), ("placebo", None)]
    first = calls[0]
    assert (first["groups"], first["strata"], first["pairs"]) == (None, None, None)
    assert (first["contamination"], first["alternative"], first["min_effect"]) == ("auto", "two-sided", 0.0)


BAD = [
    (["--reference", "0"], "--reference must come with --group: got '0'"),
    (["--vs", "rest"], "--vs must come with --group: got 'rest'"),
    (["--strata", "site"], "--strata must come with --group: got 'site'"),
    (["--pairs", "couple"], "--pairs must come with --group: got 'couple'"),
    (["-e", "0.1,0.2"], "--contamination must be one number without --group: got (0.1, 0.2)"),
    (["-e", "0.1,lots"], "--contamination must be auto, a share as 0.05 or 5%"),
    (["--group", "arm", "--vs", "all"], "--vs must be rest, each or pairs: got 'all'; name one group with --reference"),
    (["--group", "arm", "--vs", "rest", "--reference", "0"], "--vs must be left out with --reference: got 'rest'"),
    (["--group", "arm", "--subject", "nobody"], "--subject must name a column of the file: got 'nobody'; it has a, b"),
    (["--group", "arm", "--seed", "3"], "--seed must be left out with --group: got 3"),
    (["--group", "arm", "--null", "3"], "--null must be left out with --group: got 3.0"),
]


@pytest.mark.parametrize(("arguments", "line"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_choices_are_one_line(
    arguments: list[str], line: str, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("fit", csv, *arguments, status=2)
    captured = capsys.readouterr()
    assert captured.err.startswith(f"sparsemean: {line}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


TWICE = [
    (["--out", "a.csv", "--report", "page.html"], "--report must be another file than that of --out: got 'page.html'"),
    (["--out", "b.json", "--json", "sub/../b.json"], "--json must be another file than that of --out: got 'sub/../b.j"),
    (["--json", "b.json", "--report", "b.html"], "--report must be another file than that of --json: got 'b.html'"),
]


@pytest.mark.parametrize(("arguments", "line"), TWICE, ids=[" ".join(arguments) for arguments, _ in TWICE])
def test_two_outputs_are_two_files(
    arguments: list[str], line: str, csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(csv.parent)
    Path("sub").mkdir()
    for link, target in (("link.csv", "a.csv"), ("page.html", "a.csv"), ("b.html", "b.json")):
        Path(link).symlink_to(target)
    monkeypatch.setattr("sparsemean._data.open_file", None)  # nothing is read
    run("fit", csv, "--group", "arm", *arguments, status=2)
    said = capsys.readouterr().err
    assert said.startswith(f"sparsemean: {line}")
    assert said.count("\n") == 1
    assert sorted(path.name for path in csv.parent.iterdir()) == ["b.html", "data.csv", "link.csv", "page.html", "sub"]


# The reference that a label's name says, several strata and shares in percent.

LABELS = {"case control": ("case", "control"), "placebo": ("A", "Placebo"), "baseline": ("a", "BASELINE")}


def grouped(path: Path, labels: list[str]) -> Path:
    """Write 20 columns, of which the first is 4 larger under the first of the labels, in 40 rows of each."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(40 * len(labels), 20)), columns=[f"f{k}" for k in range(20)])
    frame.insert(0, "arm", np.repeat(labels, 40))
    frame.loc[frame["arm"] == labels[0], "f0"] += 4
    frame.assign(site=list("xy") * (20 * len(labels)), sex=list("mmff") * (10 * len(labels))).to_csv(path, index=False)
    return path


def answer(*arguments: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what a fit by arm says as JSON."""
    run("fit", *map(str, arguments), "--group", "arm", "--json")
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("kind", LABELS)
def test_a_control_is_the_reference_by_its_name(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label, control = LABELS[kind]
    path, drop = grouped(tmp_path / "x.csv", [label, control]), ("--drop", "site", "--drop", "sex")
    found = answer(path, *drop, capsys=capsys)
    after = control < label
    assert found["groups"] == [control, label]
    assert found["selected"][0]["estimate"] > 3
    note = f"'{control}' was taken for the reference by its name; --reference names another"
    assert (note in found["notes"]) != after
    named = answer(path, *drop, "--reference", label, capsys=capsys)
    assert named["groups"] == [label, control]
    assert not any("by its name" in note for note in named["notes"])


def test_no_reference_is_guessed_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drop = ("--drop", "site", "--drop", "sex")
    found = answer(grouped(tmp_path / "x.csv", ["a", "ctrl", "b"]), *drop, capsys=capsys)
    assert [test["groups"] for test in found["tests"]] == [["ctrl", "a"], ["ctrl", "b"]]
    assert "--vs rest compares each with all others" in " ".join(found["tests"][0]["notes"])
    found = answer(tmp_path / "x.csv", *drop, "--vs", "rest", capsys=capsys)
    assert [test["groups"] for test in found["tests"]] == [["rest", label] for label in ("a", "b", "ctrl")]
    found = answer(grouped(tmp_path / "x.csv", ["zeta", "ctrl", "control"]), *drop, capsys=capsys)
    assert {test["groups"][0] for test in found["tests"]} == {"rest"}
    found = answer(grouped(tmp_path / "x.csv", ["b", "uncontrolled"]), *drop, capsys=capsys)
    assert found["groups"] == ["b", "uncontrolled"]


def test_several_strata_are_their_combinations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = grouped(tmp_path / "x.csv", ["a", "b"])
    both = answer(path, "--strata", "site", "--strata", "sex", capsys=capsys)
    assert both["strata"] == 4
    frame = pd.read_csv(path)
    frame.assign(both=frame.pop("site") + frame.pop("sex")).to_csv(tmp_path / "y.csv", index=False)
    one = answer(tmp_path / "y.csv", "--strata", "both", capsys=capsys)
    assert [row["p_value"] for row in one["selected"]] == [row["p_value"] for row in both["selected"]]
    run("fit", str(path), "--group", "arm", "--strata", "site", "--strata", "sexx", "--strata", "x", status=2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("sparsemean: --strata 2 must name a column of the file: got 'sexx'")
    assert second.startswith("sparsemean: --strata 3 must name a column of the file: got 'x'")


@pytest.mark.parametrize("written", ["5%", "0.05", " 5 % "])
def test_levels_in_percent(written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, drop = grouped(tmp_path / "x.csv", ["a", "b"]), ("--drop", "site", "--drop", "sex")
    assert answer(path, *drop, "--level", written, capsys=capsys)["level"] == 0.05


@pytest.mark.parametrize(
    ("written", "line"),
    [("five", "--level must be 0.05 or 5%, say: got 'five'"), ("auto", "level must be"), ("1%,2%", "level must be")],
)
def test_levels_that_are_none(written: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, drop = grouped(tmp_path / "x.csv", ["a", "b"]), ("--drop", "site", "--drop", "sex")
    run("fit", path, *drop, "--group", "arm", "--level", written, status=2)
    assert capsys.readouterr().err.startswith(f"sparsemean: {line}")


def test_many_numbers_are_no_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = grouped(tmp_path / "x.csv", ["a", "b", "c"])
    frame = pd.read_csv(path).drop(columns=["site", "sex", "arm"])
    rng = np.random.default_rng(0)
    frame.assign(arm=rng.normal(size=120).round(3)).to_csv(path, index=False)
    run("fit", path, "--group", "arm", status=2)
    assert "what rises or falls with a number SparseTrend (--trend) tells" in capsys.readouterr().err
    frame.assign(arm=np.arange(120) % 30 + 20).to_csv(path, index=False)
    found = answer(path, capsys=capsys)
    assert "--group arm has 30 different numbers, each taken as a group of its own" in found["tests"][0]["notes"][0]
