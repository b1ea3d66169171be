"""`sparsemean reproduce` as a user meets it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from sparsemean import _cli
from sparsemean.studies import engine, published
from sparsemean.studies.engine import alone
from sparsemean.studies.figures import available


def run(*arguments: str | Path, status: int = 0) -> None:
    with pytest.raises(SystemExit) as stop:
        _cli.main(["reproduce", *(str(a) for a in arguments)])
    assert (stop.value.code or 0) == status


def test_list_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    run("--list")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == available()
    assert {"fig2a", "fig2b", "fig2c", "app_sensitivity", "app_different_k"} <= set(available())
    assert all(len(line.split()) > 2 for line in lines)


def test_an_unknown_figure_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fig9", "--out", tmp_path / "never", status=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"sparsemean: FIGURE must be among {', '.join(available())}: got 'fig9'"
    assert not (tmp_path / "never").exists()


def test_seeds_are_not_negative(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fig2a", "--seed", "-1", "--out", tmp_path, status=2)
    assert capsys.readouterr().err == "sparsemean: seed must be an integer of at least 0: got -1\n"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("trials", ["0", "-3"])
def test_trials_must_be_positive(trials: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fig2a", "--trials", trials, "--out", tmp_path, status=2)
    assert capsys.readouterr().err.startswith("sparsemean: trials must be a positive integer")


def test_a_folder_that_cannot_be_made_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    run("fig2a", "--out", tmp_path / "file" / "below", status=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sparsemean: out must be a folder that can be made")


def test_a_folder_in_use_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with alone(tmp_path):
        run("fig2a", "--quick", "--out", tmp_path, status=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sparsemean: out must be a folder that no other run writes to")


def test_a_quick_run_writes_everything_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("fig2a", "--quick", "--jobs", "1", "--out", tmp_path, "--seed", "1")
    run(*arguments)
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("fig2a ")
    assert out[-1].startswith(f"{tmp_path / 'index.html'}: ")
    assert "of 15 published points" in out[-1]
    table = pd.read_csv(tmp_path / "fig2a.csv")
    assert len(table) == 3 * 5 * 2 * 2
    assert tuple(pd.read_csv(tmp_path / "agreement.csv").columns) == published.COLUMNS
    assert (tmp_path / "fig2a.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png;base64," in (tmp_path / "index.html").read_text(encoding="utf-8")
    monkeypatch.setattr(engine, "run_trial", None)  # nothing may be run again
    run(*arguments)
    assert pd.read_csv(tmp_path / "fig2a.csv").equals(table)


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    code = "import sys; from sparsemean._cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "reproduce", "fig2c", "--jobs", "1", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    trials = tmp_path / "trials"
    while not (trials.exists() and len(list(trials.glob("*.jsonl"))) >= 2):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, complaint = running.communicate(timeout=20)
    assert running.returncode == 130
    assert complaint.splitlines() == [
        f"sparsemean: interrupted; finished trials are kept in {tmp_path}: the same command goes on from there"
    ]
