"""Tables as people have them: other separators, decimals and encodings, signs beside numbers, text to leave out."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean._data import csv, dialect, open_file
from sparsemean._data.dialect import Dialect, meaning_of
from sparsemean._data.table import ReadOptions, Table
from sparsemean.errors import InputError

rng = np.random.default_rng(0)
X = np.round(rng.normal(size=(60, 5)) * 10.0 ** np.arange(-1, 4), 3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d", "größe"])


def read(tmp_path: Path, content: str | bytes, name: str = "x.csv", **wanted: Any) -> Table:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return open_file(tmp_path / name, ReadOptions(**wanted))


DIALECTS = list(product([",", ";", "\t", "|"], [".", ","], ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"]))


@pytest.mark.parametrize(("sep", "decimal", "encoding"), DIALECTS)
@pytest.mark.parametrize("at_once", [8_000_000, 501])
def test_every_way_of_writing_gives_the_same_numbers(
    sep: str, decimal: str, encoding: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "READ_AT_ONCE", at_once)
    frame = FRAME.assign(wer=["Jörg, K.; 1.5"] * 60)
    text = frame.to_csv(index=False, sep=sep, decimal=decimal)
    table = read(tmp_path, text.encode(encoding), id="wer")
    np.testing.assert_array_equal(table.values, X)
    assert table.feature_names is not None
    assert list(table.feature_names) == list(FRAME)
    assert table.row_names is not None
    assert set(table.row_names) == {"Jörg, K.; 1.5"}
    said = " ".join(table.notes)
    assert ("between columns" in said) == (sep != ",")
    assert ("decimal commas" in said) == (decimal == ",")
    assert (f"text in {encoding}" in said) == (not encoding.startswith("utf-8"))
    named = read(tmp_path, text.encode(encoding), id="wer", sep=sep, decimal=decimal, encoding=encoding)
    np.testing.assert_array_equal(named.values, X)
    assert named.notes == ()


def test_an_option_wins_over_what_is_judged(tmp_path: Path) -> None:
    text = "a;b\n1,234;2,5\n"
    np.testing.assert_array_equal(read(tmp_path, text).values, [[1.234, 2.5]])
    np.testing.assert_array_equal(read(tmp_path, "a;b\n1,234;5\n", decimal=".").values, [[1234, 5]])
    np.testing.assert_array_equal(read(tmp_path, "a;b\n1,234;5\n", decimal=",").values, [[1.234, 5]])
    with pytest.raises(InputError, match=r"'a' \(decimals or thousands: --decimal \. or --decimal , says which\)"):
        read(tmp_path, "a;b\n1,234;5\n")
    with pytest.raises(InputError, match=r"text in column '0' \(row 0: '1;2'\)"):
        read(tmp_path, "1;2,3\n", sep=",", header=False)
    with pytest.raises(InputError, match=r"text in column 'b' \(row 1: '2,5', which --decimal , reads\)"):
        read(tmp_path, "a;b\n1.5;2\n1.5;2,5\n")
    assert read(tmp_path, "a\tb\n1\t2\n", sep="tab").shape == (1, 2)
    assert read(tmp_path, "é,b\n1,2\n".encode("latin-1"), encoding="latin-1").notes == ()
    for name, value in (("sep", "ab"), ("sep", "."), ("decimal", ";"), ("encoding", "no such"), ("encoding", "rot13")):
        with pytest.raises(InputError, match=f"^--{name} must "):
            read(tmp_path, text, **{name: value})
    with pytest.raises(InputError, match=r"^FILE must be text in utf-16: got x\.csv .*name it with --encoding"):
        read(tmp_path, b"a,b\n1,2\n1", encoding="utf-16")


def test_a_separator_is_judged_by_all_lines_in_sight(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read(tmp_path, "1,5;2,5\n3,5;4,5\n").values, [[1.5, 2.5], [3.5, 4.5]])
    assert read(tmp_path, "a;x,b\n1,2\n3,4\n").shape == (2, 2)
    assert read(tmp_path, "a,b\n1,x;y\n2,x;z\n", id="b").notes == ()
    assert read(tmp_path, "a\tb\n1\t2\n", "x.txt").notes == ()
    assert read(tmp_path, "a,b\n1,2\n", "x.txt").notes == ("read as text with commas between columns",)


CELLS = {
    "12.3%": 12.3, "-4 %": -4.0, "5\u00a0%": 5.0, "$1,234.50": 1234.5, "-$3": -3.0, "$-3": -3.0, "1 234,5": None,
    "1,234,567": 1234567.0, "1'234": 1234.0, "1\u202f234.5": 1234.5, "12 €": 12.0, "€12": 12.0, "£.5": 0.5,
    "\u22125": -5.0, "Yes": 1.0, "NO": 0.0, "y": 1.0, "12,34": None, "1,23,456": None, "1,234'567": None,
    "0,123": None, "12%%": None, "%": None, "$5€": None, "+-5": None, "1_000": None, "T": None, "on": None,
    "(5)": None, "3 kg": None, "1e3%": 1000.0, "١": None,
}  # fmt: skip
DATES = (
    "2024-01-31", "2024-01-31 10:11:12", "2024-01-31T10:11:12Z", "31.12.2024", "12/31/2024", "1/2/24", "3 Jan 2024",
    "Jan 3, 2024", "03-MAR-24", "10:15", "10:15:30",
)  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_cells_that_are_numbers_beside_signs(cell: str) -> None:
    value, style = meaning_of(cell, Dialect(",", ".", settled=True))
    assert (style.text == "text") == (CELLS[cell] is None)
    assert value == CELLS[cell] or np.isnan(value)


@pytest.mark.parametrize("cell", DATES)
def test_dates_are_known_by_name(cell: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got dates in column 'signup'"):
        read(tmp_path, f'a,signup\n1,"{cell}"\n')
    assert meaning_of("1.5.3", Dialect(",", ".", settled=True))[1].text == "text"


AGREE = {
    "percent": (["12.3%", "", "0", "-1%"], [12.3, np.nan, 0, -1], "values are in percent"),
    "dollars": (["$1,200", "$3", "-$4.5", "$0"], [1200, 3, -4.5, 0], "amounts in $"),
    "thousands": (["1,234", "999", "12,345,678", "NA"], [1234, 999, 12345678, np.nan], "commas were read"),
    "yes": (["yes", "No", "NA", "YES"], [1, 0, np.nan, 1], "yes and no were read"),
    "y": (["Y", "N", "n", ""], [1, 0, 0, np.nan], "yes and no were read"),
    "true": (["True", "FALSE", "", "true"], [1, 0, np.nan, 1], "true and false were read"),
}
DISAGREE = {
    "percent and none": ["12%", "0.12"],
    "currencies": ["$5", "€5"],
    "percent and dollars": ["$5", "5%"],
    "some thousands": ["1,234", "5678"],
    "yes and a number": ["yes", "3"],
    "yes and true": ["yes", "True"],
    "a code": ["N", "N"],
    "yes and n": ["yes", "n"],
    "true and numbers": ["3.5", "TRUE"],
    "false and 1": ["False", "1"],
    "true and 0": ["true", "0"],
    "false and percent": ["5%", "FALSE"],
    "true and infinite": ["true", "inf"],
}


@pytest.mark.parametrize("kind", AGREE)
@pytest.mark.parametrize("at_once", [8_000_000, 40])
def test_a_column_that_agrees_is_read_with_a_note(
    kind: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "READ_AT_ONCE", at_once)
    cells, values, note = AGREE[kind]
    table = read(tmp_path, pd.DataFrame({"a": 1.5, "odd": cells}).to_csv(index=False))
    np.testing.assert_array_equal(table.values[:, 1], values)
    assert [said for said in table.notes if note in said and said.endswith("in 'odd'")]
    assert len(table.notes) == 1 + (kind == "dollars")


@pytest.mark.parametrize("kind", DISAGREE)
def test_a_column_that_does_not_agree_is_refused(kind: str, tmp_path: Path) -> None:
    text = pd.DataFrame({"a": 1.5, "odd": DISAGREE[kind]}).to_csv(index=False)
    with pytest.raises(InputError, match="text in column 'odd'"):
        read(tmp_path, text)
    table = read(tmp_path, text, drop_text=True)
    assert table.shape == (2, 1)
    assert "'odd'" in table.notes[0]


WHICH = r"\(decimals or thousands: --decimal \. or --decimal , says which\)"
THOUSANDS = {
    "one group": (["999", "1.234", "12.345", "850"], [999, 1234, 12345, 850]),
    "euros": (["999 €", "1.234 €", "12.345 €", "850 €"], [999, 1234, 12345, 850]),
    "signs and gaps": (["-1.234", "", "NA", "100"], [-1234, np.nan, np.nan, 100]),
    "round thousands": (["1.000", "100", "250.000", "+7.500"], [1000, 100, 250000, 7500]),
    "quotes": (['"1.234"', '"999"', '" 2.000"', "5"], [1234, 999, 2000, 5]),
}
DECIMALS = {
    "three in all": ["1.234", "2.345", "9.876", "123.456"],
    "below one": ["0.123", "2.345", "999", "123.456"],
    "fewer": ["1.5", "2.345", "999", "123.456"],
    "more": ["1.5432", "2.345", "999", "123.456"],
    "larger": ["1234.567", "2.345", "999", "123.456"],
    "powers": ["1.234e2", "2.345", "999", "123.456"],
    "small whole numbers": ["0", "2.345", "1", "123.456"],
    "whole numbers with points": ["5.0", "2.345", "999", "123.456"],
    "percent": ["1.5%", "2.345%", "999%", "123.456%"],
}


@pytest.mark.parametrize("kind", THOUSANDS)
@pytest.mark.parametrize(("name", "sep"), [("x.csv", ";"), ("x.tsv", "\t"), ("x.txt", "|")])
@pytest.mark.parametrize("at_once", [8_000_000, 10])
def test_points_that_may_part_thousands_are_refused(
    kind: str, name: str, sep: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "READ_AT_ONCE", at_once)
    column, values = THOUSANDS[kind]
    text = f"id{sep}Umsatz\n" + "".join(f"{k}{sep}{cell}\n" for k, cell in enumerate(column))
    with pytest.raises(InputError, match=f"column 'Umsatz' {WHICH}"):
        read(tmp_path, text, name, sep=sep)
    np.testing.assert_array_equal(read(tmp_path, text, name, sep=sep, decimal=",").values[:, 1], values)
    shown = np.array([cell.strip(' "€') for cell in column])
    plain = np.where(np.isin(shown, ["", "NA"]), "nan", shown).astype(float)
    np.testing.assert_array_equal(read(tmp_path, text, name, sep=sep, decimal=".").values[:, 1], plain)
    dropped = read(tmp_path, text, name, sep=sep, drop_text=True)
    assert dropped.shape == (4, 1)
    assert "'Umsatz' (numbers, but for decimals or thousands" in dropped.notes[0]


@pytest.mark.parametrize("kind", DECIMALS)
def test_points_that_are_decimal_points_are_read(kind: str, tmp_path: Path) -> None:
    text = "n\tx\n" + "".join(f"{100 * k}\t{cell}\n" for k, cell in enumerate(DECIMALS[kind]))
    table = read(tmp_path, text, "x.tsv")
    np.testing.assert_array_equal(table.values[:, 1], [float(cell.strip("%")) for cell in DECIMALS[kind]])
    assert any("decimal points in 'x'" in note for note in table.notes) == (
        kind in ("three in all", "small whole numbers")
    )


def test_what_parts_thousands_beside_decimal_commas_is_called_points(tmp_path: Path) -> None:
    table = read(tmp_path, "a;x\n0,5;999\n0,25;1.234,5\n")
    np.testing.assert_array_equal(table.values, [[0.5, 999], [0.25, 1234.5]])
    assert table.notes[1:] == ("points were read as standing between thousands in 'x'",)


def test_true_and_false_among_numbers_are_named(tmp_path: Path) -> None:
    text = "temp,ok\n" + "3.5,NA\n" * 300 + "TRUE,false\n"
    with pytest.raises(InputError, match=r"text in column 'temp' \(true and false besides other values\)"):
        read(tmp_path, text)
    table = read(tmp_path, text, drop_text=True)
    assert table.notes == (
        "a column of text left out, as asked for: 'temp' (numbers, but for true and false besides other values)",
        "true and false were read as 1 and 0 in 'ok'",
    )


def test_one_column_can_say_what_points_are_in_another(tmp_path: Path) -> None:
    table = read(tmp_path, "a;x\n0.5;999\n0.25;1.234\n")
    np.testing.assert_array_equal(table.values[:, 1], [999, 1.234])
    assert table.notes[1:] == (f"{dialect.AS_POINTS} in 'x'; --decimal , makes them thousands",)
    assert read(tmp_path, "a;x\n0.5;9\n0.25;1.234\n").notes == ("read as text with semicolons between columns",)
    with pytest.raises(InputError, match=r"'x' \(row 1: '1\.234\.567', which --decimal , reads\)"):
        read(tmp_path, "a;x\n5;999\n7;1.234.567\n")


def test_three_decimals_late_in_a_file_are_seen(tmp_path: Path) -> None:
    text = "a;x\n" + "1;850\n" * 20_000 + "1;1.234\n"
    with pytest.raises(InputError, match=f"column 'x' {WHICH}"):
        read(tmp_path, text)


def test_all_columns_of_text_are_named_and_dropped(tmp_path: Path) -> None:
    texts = {f"t{k}": ["x", "y"] * 30 for k in range(11)}
    text = FRAME.assign(**texts, day="2024-01-01").to_csv(index=False)
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == (
        "FILE must have numeric columns only: got text in 11 columns: 't0' (row 0: 'x'), 't1', 't2', 't3', 't4', 't5', "
        "'t6', 't7' and 3 more; dates in column 'day'; leave them out with --drop-text, or say what one is for: "
        "--id, --group, --subject, --strata or --pairs NAME"
    )
    table = read(tmp_path, text, drop_text=True, group="t3")
    np.testing.assert_array_equal(table.values, X)
    assert table.two_valued == tuple(f"t{k}" for k in range(11) if k != 3)
    (note,) = table.notes
    assert note.startswith("11 columns of text left out, as asked for: 't0', 't1', ")
    assert note.endswith("'t10', 'day' (dates)")
    with pytest.raises(InputError, match="have columns left to look at"):
        read(tmp_path, "a,b\nx,y\n", drop_text=True)


def test_text_that_comes_late_is_found_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "READ_AT_ONCE", 300)
    late = FRAME.astype(object)
    late.iloc[50, 1] = "unknown"
    text = late.to_csv(index=False)
    with pytest.raises(InputError, match=r"text in column 'b' \(row 50: 'unknown'\)"):
        read(tmp_path, text)
    table = read(tmp_path, text, drop_text=True)
    np.testing.assert_array_equal(table.values, X[:, [0, 2, 3, 4]])
    assert table.notes == ("a column of text left out, as asked for: 'b' (numbers, but for row 50: 'unknown')",)


def test_what_is_kept_of_cells_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "MOST_KNOWN", 10)
    monkeypatch.setattr(csv, "ODD_AT_ONCE", 7)
    values = np.arange(500) / 10
    table = read(tmp_path, "a,b\n" + "".join(f"{value}%,1\n" for value in values))
    np.testing.assert_array_equal(table.values[:, 0], values)


def test_columns_that_number_rows_or_say_groups_are_noticed(tmp_path: Path) -> None:
    order = rng.permutation(60) + 1
    frame = FRAME.assign(userId=7 * order, k=order, paid=1.5, treated=[0, 1] * 30, arm=["no", "yes"] * 30)
    for name, write in (("x.csv", pd.DataFrame.to_csv), ("x.parquet", pd.DataFrame.to_parquet)):
        write(frame if name == "x.csv" else frame.drop(columns="arm"), tmp_path / name, index=False)
        table = open_file(tmp_path / name)
        note = next(note for note in table.notes if "number of a row" in note)
        assert note.startswith("userId, k looks" if name == "x.csv" else "userId looks")
    assert open_file(tmp_path / "x.csv").two_valued == ("treated", "arm")
    assert open_file(tmp_path / "x.csv", ReadOptions(id="userId", drop=("k", "arm"))).notes == ()
    frame.assign(arm=["a", "b"] * 30).to_parquet(tmp_path / "y.parquet")
    found = open_file(tmp_path / "y.parquet", ReadOptions(drop_text=True))
    assert found.two_valued == ("arm",)
    assert found.notes[0] == "a column of text left out, as asked for: 'arm'"


def test_options_are_refused_where_they_mean_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    for name in ("sep", "decimal", "encoding"):
        with pytest.raises(InputError, match=rf"^--{name} must be left out for all but text: got ','$"):
            open_file(tmp_path / "x.npy", ReadOptions(**{name: ","}))
