"""The command line on tables as people have them: shares in percent, every feature, hints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command import expect

rng = np.random.default_rng(0)
N = 200
METRICS = {f"metric {k}": np.round(np.exp(rng.normal(size=N)), 2) for k in range(12)}
ARM = ["control", "treatment"] * (N // 2)


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """A file with an id, groups, text, dates, percentages, thousands and gaps."""
    frame = pd.DataFrame({"user_id": [f"u{k}" for k in range(N)], "country": ["DE", "US", "", "DE"] * (N // 4)})
    frame = frame.assign(arm=ARM, **METRICS)
    frame["signup"] = "2024-05-17"
    frame["rate"] = [f"{value:.1f}%" for value in rng.normal(50, 5, N)]
    frame["bytes"] = [f"{value:,}" for value in rng.integers(10, 10**6, N)]
    frame.loc[5, "metric 3"] = np.nan
    frame.to_csv(tmp_path / "experiment.csv", index=False)
    return tmp_path / "experiment.csv"


@pytest.mark.parametrize(
    ("written", "share"),
    [("5%", [0.05]), ("0.05", [0.05]), ("12.5 %", [0.125]), ("5%,10%", [0.05, 0.1]), ("0%,0.1", [0, 0.1])],
)
def test_shares_in_percent(
    written: str, share: list[float], experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect("fit", experiment, "--group", "arm", "--drop-text", "--missing", "omit", "-e", written, "--json")
    said = json.loads(capsys.readouterr().out)
    bad = [int(np.ceil(each * N / 2)) for each in (share * 2)[:2]]
    assert said["bad_by_group"] == bad


def test_the_first_answer_comes_after_one_refusal(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect("fit", experiment, "--group", "arm", status=2)
    line = capsys.readouterr().err
    assert "text in 2 columns: 'user_id' (row 0: 'u0'), 'country'; dates in column 'signup'" in line
    assert "--drop-text and go past gaps in others with --missing omit" in line
    expect("fit", experiment, "--group", "arm", "--drop-text", "--missing", "omit", "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["columns"] == 14
    notes = " ".join(said["notes"])
    for what in ("left out, as asked for: 'user_id', 'country', 'signup' (dates)", "in percent", "between thousands"):
        assert what in notes


def test_groups_are_pointed_to_where_everything_has_a_mean(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = "14 of 14 features have a mean, as counts and amounts do; --group arm asks what differs by it"
    expect("fit", experiment, "--drop-text", "--missing", "omit", "-e", "0", "--json")
    assert hint in json.loads(capsys.readouterr().out)["notes"]
    for more, said in (
        (("--group", "arm"), ""),
        (("--select", "metric ?"), "--group arm"),
        (("--id", "arm"), "country"),
    ):
        expect("fit", experiment, "--drop-text", "--missing", "omit", "-e", "0", "--json", *more)
        notes = " ".join(json.loads(capsys.readouterr().out)["notes"])
        assert ("--group" in notes) == bool(said)
        assert said in notes


def test_every_feature_is_written(experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = ("fit", experiment, "--group", "arm", "--drop-text", "--missing", "omit", "--select", "metric*")
    expect(*fit, "--all", "--out", tmp_path / "all.csv", "--json", tmp_path / "all.json", "-q")
    written = pd.read_csv(tmp_path / "all.csv")
    assert sorted(written["feature"]) == sorted(METRICS)
    assert {"selected", "p_adjusted", "q_value"} <= set(written.columns)
    said = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert {row["feature"]: row["selected"] for row in said["features"]} == dict(
        zip(written["feature"], written["selected"], strict=True)
    )
    assert [row["feature"] for row in said["selected"]] == written.loc[written["selected"], "feature"].tolist()
    expect(*fit, "--all", status=2)
    assert "--all must come with --out or --json" in capsys.readouterr().err
