"""``sparsemean sketch`` and ``sparsemean merge``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import load_sketch, simulate, sparse_mean

from command import expect

DATA = simulate.make_contaminated(500, 20, [10, -5, -4, 2], random_state=0)
NAMES = [f"m{i}" for i in range(20)]
HALVES = ((0, 200), (200, 500))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of rows, with names of users, and the folder they lie in."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(DATA.X, columns=NAMES)
    frame.insert(0, "user", [f"user {i}" for i in range(500)])
    for k, (a, b) in enumerate(HALVES):
        frame[a:b].to_csv(f"part{k}.csv", index=False)
    return tmp_path


def sketch_both(*more: str) -> None:
    for k, (a, _) in enumerate(HALVES):
        expect("sketch", f"part{k}.csv", "--id", "user", "--first-row", str(a), "-q", *more)


def test_files_merged_are_one_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sketch_both()
    capsys.readouterr()
    rows = ("--rows", "part0.csv", "--rows", "part1.csv", "--id", "user")
    expect("merge", "part1.sketch", "part0.sketch", "-e", "0.1", "--json", *rows)
    found = json.loads(capsys.readouterr().out)
    expected = sparse_mean(DATA.X, feature_names=NAMES, contamination=0.1, random_state=0, test="buckets")
    assert [row["feature"] for row in found["selected"]] == expected.table()["feature"].tolist()
    np.testing.assert_allclose([row["estimate"] for row in found["selected"]], expected.table()["estimate"], atol=1e-10)
    np.testing.assert_array_equal([row["p_value"] for row in found["selected"]], expected.table()["p_value"])
    assert found["suspect_names"][0].startswith("user ")
    assert expected.rows is not None
    assert found["suspects"] == expected.rows.suspects.tolist()
    assert sorted(path.name for path in folder.iterdir()) == ["part0.csv", "part0.sketch", "part1.csv", "part1.sketch"]


def test_what_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect("sketch", "part0.csv", "--id", "user")
    said = capsys.readouterr().out
    for part in ("20 features, seed 0", "Rows seen: 0–199", "8 rows as they are (192–199)", "bytes"):
        assert part in said.replace("\n", " ")
    expect("sketch", "part1.csv", "--id", "user", "--first-row", "256", "--seal")
    assert "holds counts only, no row as it is" in capsys.readouterr().out.replace("\n", " ")
    expect("merge", "part0.sketch", "part1.sketch", "-e", "0")
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    for part in ("2 sketches: 500 rows × 20 columns", "need the rows again", "not seen: 200–255", "m0 "):
        assert part in said.replace("\n", " ").replace("  ", " ") or part in said
    assert "nan" not in said


def test_everything_that_can_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sketch_both()
    outs = ("--out", "all.sketch", "--out", "r.csv", "--out", "r.parquet", "--json", "r.json", "--report", "r.html")
    expect("merge", "part0.sketch", "part1.sketch", "-e", "0", *outs)
    assert "Written: all.sketch" in capsys.readouterr().out
    assert load_sketch(folder / "all.sketch").ranges == ((0, 500),)
    assert pd.read_csv("r.csv")["estimate"].isna().all()
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["selected"][0]["ci_low"] is None
    assert (folder / "r.html").exists()
    expect("merge", "all.sketch", "-q", "-e", "0.1", "--selection", "fdr", "--level", "0.2")
    assert capsys.readouterr().out == ""


def test_sketches_are_only_added_up_where_nothing_can_be_decided(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sketch_both()
    expect("merge", "part0.sketch", "part1.sketch", "--out", "all.sketch")
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Written: all.sketch")
    assert said.endswith("of blocks that are not complete.")
    assert "Rows seen: 0–499. It holds 52 rows as they are (" in said
    assert load_sketch(folder / "all.sketch").ranges == ((0, 500),)
    for outs in ((), ("--out", "r.csv"), ("--out", "all.sketch", "--json")):
        expect("merge", "all.sketch" if not outs else "part0.sketch", *outs, status=2)
        err = capsys.readouterr().err
        assert "sparsemean: contamination must be named where counts alone decide: got 'auto'" in err
        assert "(--contamination), 0 if none is to be assumed wrong" in err
        assert err.count("\n") == 1 + ("--json" in outs)
    assert not Path("r.csv").exists()


def test_options_reach_the_sketch(folder: Path) -> None:
    np.save("x.npy", np.where(DATA.X > 20, np.nan, DATA.X))
    options = ("--seed", "9", "--null", "0.5", "--missing", "omit", "--bucket-sizes", "2,8", "--out", "other.sketch")
    expect("sketch", "x.npy", "-q", "--first-row", "64", *options)
    made = load_sketch(folder / "other.sketch")
    assert (made.seed, made.bucket_sizes, made.missing, made.ranges) == (9, (2, 8), "omit", ((64, 564),))
    assert set(np.asarray(made.null)) == {0.5}
    expect("sketch", "part0.csv", "--drop", "user", "--select", "m1*", "-q")
    names = load_sketch(folder / "part0.sketch").feature_names
    assert names is not None
    assert names.tolist() == ["m1", *(f"m1{i}" for i in range(10))]
    expect("merge", "part0.sketch", "-q", "--rows", "part0.csv", "--drop", "user", "--select", "m1*")


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "overlap": (("merge", "part0.sketch", "part0.sketch"), "no rows in common: got rows 0 to 199 in part0.sketch"),
    "no file": (("merge", "nowhere.sketch"), "FILE must be readable: got nowhere.sketch"),
    "no sketch": (("merge", "part0.csv"), "FILE must be a complete sketch file: got part0.csv"),
    "seed": (("merge", "part0.sketch", "other.sketch"), "same seed: got 0 in part0.sketch and 5 in other.sketch"),
    "paper": (("merge", "part0.sketch", "--selection", "paper"), "the paper's dealing needs all rows at once"),
    "rows": (("merge", "part0.sketch", "--rows", "part1.csv", "--id", "user"), "X must have the 200 rows"),
    "target": (("merge", "part0.sketch", "--out", "part0.sketch"), "--out must differ from the input"),
    "outputs": (
        ("merge", "part0.sketch", "--out", "a.csv", "--out", "./a.csv"),
        "--out must be another file than that of --out: got 'a.csv'",
    ),
    "outputs of two options": (
        ("merge", "part0.sketch", "--out", "a.json", "--json", "./a.json"),
        "--json must be another file than that of --out: got 'a.json'",
    ),
    "h5ad": (("merge", "part0.sketch", "--out", "a.h5ad"), "--out must end in .sketch, .csv, .json or .parquet"),
    "json": (("merge", "part0.sketch", "--json", "a.txt"), "--json must be followed by a name that ends in .json"),
    "first row": (("sketch", "part0.csv", "--id", "user", "--first-row", "-3"), "first_row must be an integer"),
    "ending": (("sketch", "part0.csv", "--out", "a.npz"), "--out must end in .sketch"),
    "folder": (("sketch", "part0.csv", "--out", "none/a.sketch"), "--out must be in an existing directory"),
    "sizes": (("sketch", "part0.csv", "--bucket-sizes", "1;2"), "--bucket-sizes must be numbers between commas"),
    "text": (("sketch", "part0.csv"), "user"),
    "standard input": (("sketch", "-"), "--out must be given where rows come from standard input"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_writes_nothing(case: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sketch_both()
    expect("sketch", "part1.csv", "--id", "user", "--first-row", "200", "--seed", "5", "--out", "other.sketch", "-q")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    arguments, said = case
    expect(*arguments, status=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
