"""The command line as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsemean import plan, simulate, sparse_mean
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare
from sparsemean.result._report.page import environment

from command import expect as run

DATA = simulate.make_contaminated(300, 30, [6, -5, 0, 4], random_state=0).X


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    frame = pd.DataFrame(DATA, columns=[f"metric_{i}" for i in range(30)])
    frame.insert(0, "user", [f"u{i}" for i in range(300)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_fit_prints_shape_table_sentence_and_time(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", csv, "--id", "user", "--seed", "3")
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "data.csv: 300 rows × 30 columns" in out
    for name in ("metric_0", "metric_1", "metric_3"):
        assert name in out
    assert out.splitlines()[1] == "3 of 30 features have a mean other than 0 (2 above, 1 below)."
    assert "-v adds details" in out
    assert "Details" not in out
    assert "Seed" not in out
    run("fit", csv, "--id", "user", "--seed", "3", "--test", "buckets", "-v")
    out = " ".join(capsys.readouterr().out.split())
    assert "Tested: 30 features by signs of buckets of 1, 2 and 4 rows, from 300 rows" in out
    assert "Details: In at most 5\N{NO-BREAK SPACE}% of studies is a false feature selected although" in out.replace(
        "5 %", "5\N{NO-BREAK SPACE}%"
    )
    assert "-v adds details" not in out
    assert "Seed 3;" in out


@pytest.mark.parametrize(
    ("rule", "heading", "column"), [("fwer", "p adjusted", "p_adjusted"), ("fdr", " q ", "q_value")]
)
def test_the_column_shown_is_that_of_the_rule(
    rule: str, heading: str, column: str, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("fit", csv, "--id", "user", "--seed", "3", "--selection", rule)
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if line.startswith("feature "))
    assert heading in line
    value = sparse_mean(DATA, random_state=3, selection=rule).table()[column].iloc[-1]
    assert f" {value:.2g} " in out


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_out_holds_the_table(ending: str, csv: Path, tmp_path: Path) -> None:
    target = tmp_path / f"out{ending}"
    run("fit", csv, "--id", "user", "--seed", "3", "--out", target, "-q")
    expected = sparse_mean(DATA, random_state=3).table()
    match ending:
        case ".csv":
            values = pd.read_csv(target)["estimate"].to_numpy()
        case ".parquet":
            values = pd.read_parquet(target)["estimate"].to_numpy()
        case _:
            values = [row["estimate"] for row in json.loads(target.read_text())["selected"]]
    np.testing.assert_allclose(values, expected["estimate"], rtol=1e-15)


def test_json_to_standard_output_and_to_a_file(csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", csv, "--id", "user", "--seed", "3", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert {row["feature"] for row in printed["selected"]} == {"metric_0", "metric_1", "metric_3"}
    assert (printed["rows"], printed["columns"], printed["seed"]) == (300, 30, 3)
    run("fit", csv, "--id", "user", "--seed", "3", "--json", tmp_path / "out.json", "-q")
    assert json.loads((tmp_path / "out.json").read_text()) == printed
    assert capsys.readouterr().out == ""


def test_entry_time_that_never_comes_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((20, 3)))
    run("fit", tmp_path / "x.npy", "--json", "--paper")
    assert [row["entry_time"] for row in json.loads(capsys.readouterr().out)["selected"]] == [None, None]


def test_nothing_selected_is_status_0_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((200, 9)))
    run("fit", tmp_path / "x.npy")
    out = capsys.readouterr().out
    assert "No feature clearly has a mean other than 0 (9 tested; strongest: feature " in out
    assert out.count("never") == 9
    assert "With 200 rows a mean of about " in out
    assert max(map(len, out.splitlines())) <= 80


BAD = [
    (["fit", "missing.npy"], "FILE must be an existing file: got"),
    (["fit", "{csv}", "--id", "user", "-e", "0.7"], "contamination must be 'auto' or a number in [0, 0.5): got 0.7"),
    (["fit", "{csv}", "-e", "lots"], "--contamination must be auto, a share as 0.05 or 5%"),
    (["fit", "{csv}", "--id", "user", "--n-buckets", "some"], "n_buckets must be 'paper', 'theory' or an integer"),
    (["fit", "{csv}", "--id", "user", "--n-buckets", "-4"], "n_buckets must be 'paper', 'theory' or an integer"),
    (["fit", "{csv}", "--frobnicate"], "No such option '--frobnicate'."),
    (["fit", "{csv}", "--out", "x.docx"], "output must end in .csv, .json, .parquet, .h5ad: got 'x.docx'"),
    (["fit", "{csv}", "--out", "nowhere/x.csv"], "output must be in an existing directory"),
    (["fit", "{csv}", "--out", "{csv}"], "--out must differ from the input"),
    (["fit", "--json", "{csv}", "{csv}"], "--json must be followed by a name that ends in .json"),
    (["fit", "{csv}", "--id", "user", "--jobs", "0"], "n_jobs must be None or a nonzero integer"),
    (["fit", "{csv}"], "FILE must have numeric columns only: got text in column 'user' (row 0: 'u0')"),
    (["fit", "{csv}", "--id", "name"], "--id must name a column of the file: got 'name'; it has user, metric_0"),
    (["fit", "{csv}", "--group", "arm"], "--group must name a column of the file: got 'arm'"),
    (
        ["fit", "{csv}", "--group", "user"],
        "--group user must be labels, each shared by several rows: got 300 different",
    ),
    (["fit", "{csv}", "--group", "user", "--null", "1"], "--null must be left out with --group: got 1.0"),
    (["fit", "{csv}", "--id", "user", "--select", "x*"], "--select must name columns of the file: got 'x*'"),
    (["fit", "{csv}", "--id", "user", "--drop", "*"], "FILE must have columns left to look at: got none of 31"),
    (["fit", "{csv}", "--layer", "raw"], "--layer must be left out for"),
    (["fit", "{csv}", "--missing", "impute"], "FILE must have numeric columns only"),
    (["fit", "{csv}", "--id", "user", "--missing", "impute"], "missing must be"),
    (["fit", "{csv}", "--out", "x.h5ad"], "--out must end in .h5ad only where the input does: got 'x.h5ad'"),
    (["fit", "{csv}", "-q", "-v"], "--quiet must be left out with --verbose"),
    (["fit"], "Missing argument 'FILE'."),
    (["frobnicate"], "No such command 'frobnicate'."),
    (
        ["plan", "19", "20000"],
        "n must be large enough: got n = 19; 19 rows cannot show an effect in any of 20,000 features, whatever",
    ),
    (
        ["plan", "200", "20000", "-e", "0.4"],
        "contamination must leave enough rows: got 0.4; 200 rows, 80 of them assumed bad, cannot show an effect",
    ),
    (["plan", "200", "20", "--level", "2"], "level must be a number between 0 and 1"),
    (["plan", "0", "20"], "n must be a positive integer: got 0"),
    (["bench", "nonsense"], "names must be among against_median"),
]


@pytest.mark.parametrize(("arguments", "line"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], line: str, csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = csv.read_bytes()
    run(*(a.format(csv=csv) for a in arguments), status=2)
    captured = capsys.readouterr()
    assert captured.err.startswith(f"sparsemean: {line}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert csv.read_bytes() == before


def test_an_output_that_existed_is_untouched_on_failure(csv: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("precious")
    damaged = tmp_path / "bad.csv"
    damaged.write_text(csv.read_text().replace("6.", "nan", 1).replace("metric_3", "metric_3", 1) + "u,nan\n")
    run("fit", damaged, "--id", "user", "--out", target, status=2)
    assert target.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv", "data.csv", "out.csv"]


def test_an_unforeseen_error_is_one_line_and_status_1(
    csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("sparsemean._fit.one_sample.fit", broken)
    monkeypatch.delenv("SPARSEMEAN_DEBUG", raising=False)
    run("fit", csv, "--id", "user", status=1)
    assert capsys.readouterr().err.startswith("sparsemean: internal error, ZeroDivisionError: oops")


def test_interrupt_is_one_line(csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsemean._fit.one_sample.fit", interrupted)
    run("fit", csv, "--id", "user", status=130)
    assert capsys.readouterr().err.strip() == "sparsemean: interrupted; no file was changed"


def test_a_missing_extra_names_the_install_command(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    run("fit", csv, "--out", tmp_path / "x.parquet", status=1)
    assert capsys.readouterr().err == (
        'sparsemean: writing .parquet files needs pyarrow, which is not installed: pip install "sparsemean[parquet]"\n'
    )


def test_demo_shows_verdict_table_and_suspects_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("demo")
    out = capsys.readouterr().out
    words = out.replace("\n", " ")
    assert "125 rows × 12,625 columns 10 of 12,625 probes differ between M and F (9 higher, 1 lower in M)." in words
    assert "Suspicious samples: 04016, 36002, 22010, 26003 — they look like the other group." in words
    assert "36002 (in 38446_at, " in words  # a man with XIST, by his label
    assert "6 of them are in the table" in words
    assert max(len(line) for line in out.splitlines()) <= 80
    page = tmp_path / "sparsemean-demo.html"
    assert out.endswith("Written: sparsemean-demo.html, a report to open in a browser.\n")
    assert "38446_at" in page.read_text(encoding="utf-8")

    page.write_text("mine", encoding="utf-8")
    run("demo")
    words = capsys.readouterr().out.replace("\n", " ")
    assert words.endswith("No report was written: sparsemean-demo.html is there already, and is no report of ours. ")
    assert page.read_text(encoding="utf-8") == "mine"


def test_demo_goes_on_without_the_package_for_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    environment.cache_clear()
    run("demo")
    assert "No report was written: writing a report needs jinja2" in capsys.readouterr().out


def test_installed_command_and_version() -> None:
    command = Path(sys.executable).parent / "sparsemean"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sparsemean 0.")
    assert subprocess.run([command], capture_output=True, text=True, check=False).stdout.startswith("Usage: sparsemean")


def test_choices_of_columns_and_names_of_rows(csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--select", "metric_?", "--drop", "metric_3", "--drop", "metric_5")
    run("fit", csv, "--id", "user", *chosen, "-e", "0.05", "--seed", "3", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert printed["columns"] == 8
    assert {row["feature"] for row in printed["selected"]} == {"metric_0", "metric_1"}
    assert printed["suspect_names"] == [f"u{row}" for row in printed["suspects"]]


def test_two_groups_of_a_file(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(csv)
    frame["arm"] = np.where(np.arange(300) % 2, "treated", "control")
    frame.loc[frame.arm == "treated", "metric_7"] += 3
    frame.to_csv(csv, index=False)
    run("fit", csv, "--id", "user", "--group", "arm", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert [row["feature"] for row in printed["selected"]] == ["metric_7"]
    expected = compare(as_table(frame.drop(columns=["user", "arm"])), frame["arm"]).results["treated"]
    assert printed["selected"][0]["estimate"] == pytest.approx(expected.mean[7], rel=1e-12)
    assert printed["selected"][0]["estimate"] > 2
    assert printed["groups"] == ["control", "treated"]
    assert "Estimates are shifts, treated minus control" in printed["summary"]


def test_standard_input_with_gaps(csv: Path) -> None:
    frame = pd.read_csv(csv)
    frame.iloc[::7, 4] = np.nan
    command = [Path(sys.executable).parent / "sparsemean", "fit", "-", "--id", "user", "--seed", "3", "--json"]
    text = frame.to_csv(index=False)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "NaN in column 3 ('metric_3'), row 0" in done.stderr
    done = subprocess.run([*command, "--missing", "omit"], input=text, capture_output=True, text=True, check=True)
    expected = sparse_mean(frame.iloc[:, 1:], missing="omit", random_state=3)
    assert [row["feature"] for row in json.loads(done.stdout)["selected"]] == expected.table()["feature"].tolist()


def test_a_full_disk_is_one_line_and_leaves_everything_as_it_was(csv: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("precious")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); from sparsemean._cli import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "fit", csv, "--id", "user", "--out", target]
    environment = {**os.environ, "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sparsemean: output must be written whole: got")
    assert done.stderr.count("\n") == 1
    assert target.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "out.csv"]


def test_an_output_that_is_a_folder_is_refused_before_another_is_written(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "good.csv").write_text("precious")
    run("fit", csv, "--id", "user", "--out", tmp_path / "good.csv", "--json", tmp_path / "folder.json", status=2)
    assert (tmp_path / "good.csv").read_text() == "precious"


def test_verbose_says_how_it_was_read(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", csv, "--id", "user", "-v")
    out = capsys.readouterr().out
    assert "Read along columns, dense, float64" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_a_plan_says_what_is_found_at_0_1_and_5_percent(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a share is named, of that alone; where nothing can be found at some share, that."""
    run("plan", "300", "100")
    said = " ".join(capsys.readouterr().out.split())
    effects = [plan(300, 100, contamination=share).detectable_effect for share in (0.0, 0.01, 0.05)]
    first, second, third = (f"{effect:.3g}" for effect in effects)
    assert said.startswith(f"If no row is bad, a mean of {first} standard deviations is found with probability 0.8.")
    assert f"If 1% of the rows are bad: {second}. If 5% of the rows are bad: {third}." in said
    run("plan", "300", "100", "-e", "0.05")
    assert capsys.readouterr().out.startswith("With 300 rows of 100 features, 15 of which may be bad")
    run("plan", "100", "--two-groups", "8", "8")
    assert "If 5% of the rows are bad: nothing can be found." in " ".join(capsys.readouterr().out.split())
