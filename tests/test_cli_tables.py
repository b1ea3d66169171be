"""The command line on tables as people have them: shares in percent, every feature, hints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsemean
from sparsemean._data import open_file
from sparsemean._data.table import ReadOptions

import kinds
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


def sparsemean_table(path: Path, **wanted: Any) -> Any:
    """Read a file as the command line does."""
    return open_file(path, ReadOptions(**wanted))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Return all that was printed, on one line."""
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


def test_points_of_a_single_column_are_doubted_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("sales\n" + "999\n1.234\n12.345\n850\n" * 5)
    expect("fit", tmp_path / "x.csv", status=2)
    assert "'sales' (decimals or thousands: --decimal . or --decimal , says which)" in said(capsys)
    expect("fit", tmp_path / "x.csv", "--decimal", ",", "--all", "--json")
    assert json.loads(capsys.readouterr().out)["features"][0]["estimate"] > 900


def test_a_price_is_not_cut_at_its_comma(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("price\n" + "$1,299\n$2,400\n$1,850\n" * 5)
    expect("fit", tmp_path / "x.csv", status=2)
    assert "row 0 has 2 cell(s) where the first line has 1, which --sep ';' reads as one column" in said(capsys)
    expect("fit", tmp_path / "x.csv", "--sep", ";", "--decimal", ".", "--all", "--json")
    assert 1299 < json.loads(capsys.readouterr().out)["features"][0]["estimate"] < 2400


@pytest.mark.parametrize("sep", [";", "|", "\t", ","])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_line_breaks_between_quotes(sep: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f'{k % 7 + 5}{sep}"a{end}b, {k}"{sep}{k % 5 - 2}' for k in range(30)]
    (tmp_path / "x.csv").write_text("\n".join([sep.join(("up", "who", "level")), *rows, ""]), newline="")
    expect("fit", tmp_path / "x.csv", "--id", "who", "--seed", "0", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["columns"]) == (30, 2)
    assert [entry["feature"] for entry in found["selected"]] == ["up"]


def test_numbers_for_gaps_and_totals_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = rng.lognormal(3, 1, (300, 3)).round(2)
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    expect("fit", tmp_path / "x.csv", "--seed", "0")
    assert "stand for missing" not in (clean := said(capsys))
    assert "total" not in clean
    pd.concat([frame, frame.sum().to_frame().T]).to_csv(tmp_path / "x.csv", index=False)
    expect("fit", tmp_path / "x.csv", "--seed", "0")
    total = "the last row may be a total of the others, or a comment; it was read as data: if it is one, delete it"
    assert total in said(capsys)
    frame.loc[:11, "a"], frame.loc[40, "c"] = -9999, -9999
    frame.to_csv(tmp_path / "x.csv", index=False)
    expect("fit", tmp_path / "x.csv", "--seed", "0")
    assert "-9999 may stand for missing values in 'a' (12 of 300 rows), 'c' (1 of 300 rows): if so, " in said(capsys)


def written(frame: pd.DataFrame, path: Path) -> Path:
    """Write a frame without its index, as the ending says."""
    if path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    else:
        getattr(frame, {".csv": "to_csv", ".parquet": "to_parquet"}[path.suffix])(path, index=False)
    return path


ENDINGS = (".csv", ".parquet", ".xlsx")
GAPS = {
    "two nines": (rng.normal(50, 9, N).round(2), (998, 999)),
    "below": (rng.normal(5, 2, N).round(2), (-98, -99)),
    "three": (rng.integers(18, 40, N), (97, 98, 99)),
    "sevens": (rng.normal(60, 9, N).round(2), (777, 888, 999)),
    "station": (rng.normal(10, 9, N).round(1), (-9999, -8888, -7777)),
    "Likert": (rng.integers(1, 6, N), (98, 99)),
    "eights": (rng.normal(5, 2, N).round(2), (-888,)),
    "all bits": (rng.integers(0, 4000, N), (65535,)),
    "netCDF": (rng.normal(280, 9, N), (9.96921e36,)),
    "GRIB": (rng.normal(280, 9, N), (1e35,)),
    "zeros beside": (np.zeros(N), (-9999,)),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", GAPS)
def test_several_numbers_for_gaps_do_not_hide_each_other(
    kind: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, codes = GAPS[kind]
    frame = pd.DataFrame({"a": values.astype(float), "b": rng.normal(size=N)})
    often = 130 // len(codes) if kind == "zeros beside" else 7
    for k, code in enumerate(codes):
        frame.loc[k * often : (k + 1) * often - 1, "a"] = code
    expect("sketch", written(frame, tmp_path / f"x{ending}"), "--out", tmp_path / "x.sketch")
    notes = said(capsys)
    for code in codes:
        assert f"{code:g} may stand for missing values in 'a' ({often} of {N} rows): if so" in notes


@pytest.mark.parametrize("ending", ENDINGS[:-1])  # sheets have 16 digits
def test_float32_has_numbers_for_gaps_too(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N)}).astype(np.float32)
    frame.loc[:4, "a"] = np.float32(1e20)
    expect("sketch", written(frame, tmp_path / f"x{ending}"), "--out", tmp_path / "x.sketch")
    assert "1e+20 may stand for missing values in 'a' (5 of 200 rows)" in said(capsys)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_totals_of_every_kind_of_file(
    ending: str, first: bool, named: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At either end, beside a rate, in a column that is left out."""
    frame = pd.DataFrame(rng.poisson(400, (60, 3)), columns=["users", "sessions", "sales"]).astype(float)
    frame["rate"] = (frame["sales"] / frame["users"]).round(4)
    frame.insert(0, "page", [f"/p{k}" for k in range(60)])
    total = frame.sum(numeric_only=True).to_frame().T.assign(rate=frame["rate"].mean(), page="Grand total")
    total = total.assign(users=total["users"] * (0.9 if named else 1), page="Grand total" if named else "")
    both = pd.concat([total, frame] if first else [frame, total], ignore_index=True)[frame.columns]
    for table, noted in ((frame, False), (both, True)):
        path = written(table, tmp_path / f"x{noted}{ending}")
        expect("sketch", path, "--drop-text", "--out", tmp_path / "x.sketch")
        place = "row 'Grand total'" if named else f"the {'first' if first else 'last'} row"
        assert (f"{place} may be a total of the others" in (notes := said(capsys))) == noted
        assert ("may be a total" in notes) == noted


@pytest.mark.parametrize("word", ["median", "SD", "std", "Std. dev.", "min", "MAX:", "n", "Count", "mean"])
def test_rows_that_sum_up_others_by_name(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"who": [f"s{k}" for k in range(N)], "a": rng.normal(size=N), "b": rng.normal(size=N)})
    for at in (0, N - 1):
        expect("sketch", written(frame.replace({"who": {f"s{at}": word}}), tmp_path / "x.csv"), "--id", "who")
        assert f"row {word!r} may be a total" in said(capsys)
    flags = frame.assign(who=rng.choice(["n", "y"], N))
    expect("sketch", written(flags, tmp_path / "x.csv"), "--drop", "who")
    assert "total" not in said(capsys)


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_that_were_pasted_twice_are_noted(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(rng.normal(size=(N, 3)).round(6), columns=list("abc"))
    answers = pd.DataFrame(rng.integers(1, 6, (N, 3)), columns=list("abc"))
    idle = frame.mul(np.arange(N) % 3 == 0, axis=0)
    for table, copies in (
        (frame, 0), (answers, 0), (idle, 0), (pd.concat([frame, frame[["a", "b", "c"]]]), N),
        (pd.concat([frame[["a"]]] * 2), N), (pd.concat([frame, frame.head(N // 2)]), N // 2),
        (pd.concat([frame, frame.head(9)]), 0),
    ):  # fmt: skip
        path = written(table.reset_index(drop=True), tmp_path / f"x{len(list(tmp_path.iterdir()))}{ending}")
        expect("sketch", path, "--out", tmp_path / "x.sketch")
        note = f"{copies} of {len(table)} rows are exact copies of others"
        assert (note in (notes := said(capsys))) == bool(copies)
        assert ("copies" in notes) == bool(copies)


HEAVY = {
    "Cauchy": lambda n: rng.standard_cauchy((n, 50)),
    "Pareto": lambda n: rng.pareto(1, (n, 50)),
    "counts": lambda n: rng.negative_binomial(0.3, 0.02, (n, 50)),
    "percentiles": lambda n: rng.integers(0, 100, (n, 50)),
    "prices": lambda n: rng.lognormal(3, 2, (n, 50)).round() - 0.01,
}


@pytest.mark.parametrize("law", HEAVY)
@pytest.mark.parametrize("digits", [0, 2])
def test_no_clean_table_with_heavy_tails_is_doubted(
    law: str, digits: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in (30, 300):
        np.savetxt(tmp_path / "x.csv", HEAVY[law](n).round(digits), delimiter=",", fmt=f"%.{digits}f")
        expect("sketch", tmp_path / "x.csv", "--out", tmp_path / "x.sketch")
        assert "stand for missing" not in (notes := said(capsys))
        assert "total" not in notes


def book(path: Path, rows: str) -> Path:
    """Write a sheet of two columns, its rows as XML."""
    names = "".join(f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in "ab")
    data = f"<sheetData><row>{names}</row>{rows}</sheetData>"
    kinds.write_book(path, f'<worksheet xmlns="{kinds.OFFICE}/spreadsheetml/2006/main">{data}</worksheet>')
    return path


def row(number: object, a: str, b: str, kind: str = "n") -> str:
    return f'<row r="{number}"><c t="{kind}"><v>{a}</v></c><c><v>{b}</v></c></row>'


PLAIN_ROWS = "".join(row(k, f"{k}.5", str(k % 3)) for k in range(2, 22))
SHEETS = {
    "a row above": (PLAIN_ROWS + row(7, "1", "2"), "row 7 stands below row 21"),
    "a row twice": (PLAIN_ROWS + row(21, "1", "2"), "row 21 stands below row 21"),
    "cells from the right": (
        PLAIN_ROWS + '<row r="22"><c r="B22"><v>1</v></c><c r="A22"><v>2</v></c></row>',
        "cell A22 comes after a cell of a later column",
    ),
    "a cell of another row": (
        PLAIN_ROWS + '<row r="22"><c r="A23"><v>1</v></c><c r="B22"><v>2</v></c></row>', "cell A23 stands in row 22",
    ),
    "a formula": (PLAIN_ROWS + '<row r="22"><c><f>A1</f><v></v></c><c><v>2</v></c></row>', "NaN in column 0 ('a')"),
    "a comma": (PLAIN_ROWS + row(22, "-0,303", "2", "str"), "text in column 'a' (row 20: '-0,303'); leave it out"),
    "an underscore": (PLAIN_ROWS + row(22, "1_0.1", "2"), "'1_0.1' for a number"),
    "other digits": (PLAIN_ROWS + row(22, "١٢", "2"), "'١٢' for a number"),
    "text from the end": (PLAIN_ROWS + row(22, "-1", "2", "s"), "'-1' for a number in cell"),
    "an error": (PLAIN_ROWS + row(22, "42", "2", "e"), "NaN in column 0 ('a'), row 20"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHEETS)
def test_sheets_lose_no_row_and_make_no_numbers(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openpyxl")
    rows, line = SHEETS[kind]
    expect("fit", book(tmp_path / "x.xlsx", rows), status=2)
    assert line in said(capsys)
    if kind in ("an error", "a formula"):
        expect("fit", tmp_path / "x.xlsx", "--missing", "omit", "--seed", "0")
        first = "42" if kind == "an error" else "a formula"
        assert f"1 cell(s) without a result, {first} first, were read as missing" in said(capsys)


def test_text_is_no_number_in_memory_either() -> None:
    X = np.array([[k, k % 3] for k in range(20)], dtype=object)
    assert sparsemean.sparse_mean(X, random_state=0).mean.shape == (2,)
    X[3, 1] = "1_0"
    with pytest.raises(sparsemean.InputError, match="text, '1_0', which is to be converted first"):
        sparsemean.sparse_mean(X)


# Faults of a file: what stands for gaps, what is empty, and all of them at once.

MIXED = "id,a,b,c,d\n" + "".join(
    f"u{k},{k % 7 - 3},{'ERR' if k % 9 == 4 else k % 5},{'n.d.' if k % 8 == 3 else k % 3},\n" for k in range(40)
)


def test_words_for_gaps_are_named_with_the_option_that_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text(MIXED)
    expect("fit", tmp_path / "x.csv", status=2)
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "sparsemean: FILE must have numeric columns only: got text in 2 columns: 'b' (row 4: 'ERR'), 'c' (row 3: "
        "'n.d.') among numbers; if it stands for missing values, add --na ERR --na n.d., else leave out with "
        "--drop-text"
    )
    assert second.startswith("sparsemean: FILE must have numeric columns only: got text in column 'id' (row 0: 'u0')")
    expect("fit", tmp_path / "x.csv", "--id", "id", "--na", "ERR", "--na", "n.d.", "--json")
    read = json.loads(capsys.readouterr().out)
    assert (read["rows"], read["columns"], read["missing"]) == (40, 3, "omit")
    assert "1 column without any value left out: 'd'" in read["notes"]
    expect("fit", tmp_path / "x.csv", "--id", "id", "--na", "ERR", "--na", "n.d.", "--missing", "raise", status=2)
    assert "NaN in column 1 ('b'), row 4" in capsys.readouterr().err


def test_numbers_and_labels_may_stand_for_gaps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("arm,a\n" + "".join(f"{'ab-'[k % 3]},{-9 if k % 4 else k}\n" for k in range(60)))
    table = sparsemean_table(tmp_path / "x.csv", group="arm", na=("-9", "-"))
    assert np.isnan(table.values).sum() == 45
    assert sum(label != label for label in table.groups.tolist()) == 20
    expect("fit", tmp_path / "x.csv", "--group", "arm", "--na", "-", status=2)
    assert "--group arm must have no missing labels: got a missing one at row 2" in capsys.readouterr().err


def test_gaps_beside_words_of_truth(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "true,1\nfalse,2\nERR,3\n" * 5)
    table = sparsemean_table(tmp_path / "x.csv", na=("ERR",))
    np.testing.assert_array_equal(table.values[:3, 0], [1, 0, np.nan])


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_empty_columns_are_left_out_with_a_note(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame({"a": rng.normal(size=30), "b": np.nan, "c": rng.normal(size=30), "d": np.nan})
    expect("fit", written(frame, tmp_path / f"x{ending}"), "--json")
    read = json.loads(capsys.readouterr().out)
    assert read["columns"] == 2
    assert "2 columns without any value left out: 'b', 'd'" in read["notes"]
    frame["c"] = frame["a"] = np.nan
    expect("fit", written(frame, tmp_path / f"x{ending}"), status=2)


def test_all_faults_of_the_options_are_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}).to_csv(tmp_path / "x.csv", index=False)
    wrong = ("--id", "i", "--group", "g", "--select", "s", "--drop", "d*")
    expect("fit", tmp_path / "x.csv", *wrong, status=2)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" must ")[0] for line in lines] == [
        f"sparsemean: --{option}" for option in ("id", "group", "select", "drop")
    ]
    expect("fit", tmp_path / "x.csv", *wrong, "--subject", "u", "--drop", "e", "--drop", "f", status=2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert lines[-1] == "sparsemean: 3 more such faults"


def test_a_table_of_genes_is_pointed_to_transpose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(rng.normal(8, 1, (50, 12)), index=[f"ENSG{k:011d}" for k in range(50)])
    frame.add_prefix("s").to_csv(tmp_path / "x.csv", index_label="gene")
    expect("fit", tmp_path / "x.csv", status=2)
    first, _ = capsys.readouterr().err.splitlines()
    assert first.endswith("in column 'gene' (ENSG00000000000, ENSG00000000001, …); if they are, add --transpose")
    expect("fit", tmp_path / "x.csv", "--transpose", "-e", "0")
    assert "12 rows × 50 columns" in said(capsys)
