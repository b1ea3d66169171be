"""Sheets of Excel: the same numbers as the frame, and nothing trusted in them."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean._data import excel, open_file
from sparsemean._data.table import FileContext, ReadOptions
from sparsemean.errors import InputError, MissingExtraError

rng = np.random.default_rng(0)
X = np.round(rng.standard_t(2, (60, 5)), 6)  # openpyxl writes 16 digits
FRAME = pd.DataFrame(X, columns=list("abcde"))


def save(path: Path, rows: list[list[Any]], **sheets: list[list[Any]]) -> Path:
    """Write rows to the first sheet of a book, and more to others."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name, more in sheets.items():
        sheet = book.create_sheet(name)
        for row in more:
            sheet.append(row)
    book.save(path)
    return path


def rows_of(frame: pd.DataFrame) -> list[list[Any]]:
    return [list(frame.columns), *frame.astype(object).to_numpy().tolist()]


def test_the_same_numbers_as_the_frame(tmp_path: Path) -> None:
    frame = FRAME.assign(who=[f"s, {k}" for k in range(60)], arm=["x", "y"] * 30, ok=[True, False] * 30)
    path = save(tmp_path / "x.xlsx", rows_of(frame))
    table = open_file(path, ReadOptions(id="who", group="arm"))
    np.testing.assert_array_equal(table.values[:, :5], X)
    np.testing.assert_array_equal(table.values[:, 5], [1.0, 0.0] * 30)
    assert table.row_names is not None
    assert table.row_names.tolist() == frame["who"].tolist()
    assert table.groups is not None
    assert table.groups.tolist() == ["x", "y"] * 30
    assert table.notes == ("true and false were read as 1 and 0 in 'ok'",)
    with pytest.raises(InputError, match=r"text in 2 columns: 'who' \(row 0: 's, 0'\), 'arm'; leave them out"):
        open_file(path)
    np.testing.assert_array_equal(open_file(path, ReadOptions(drop_text=True, drop=("ok",))).values, X)


def test_gaps_errors_dates_and_empty_rows(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 1, 31)
    rows = [["a", "b", "day", None], [], [1, "#DIV/0!", day], [None, "12%", day, None], [0.1, 3, None, " "], [None]]
    path = save(tmp_path / "x.xlsx", rows)
    with pytest.raises(InputError, match=r"text in column 'b' \(numbers with and without %\); dates in column 'day'"):
        open_file(path)
    table = open_file(path, ReadOptions(drop=("day",), drop_text=True))
    np.testing.assert_array_equal(table.values, [[1], [np.nan], [0.1]])
    assert table.notes[0] == "1 cell(s) without a result, #DIV/0! first, were read as missing"


def test_true_among_numbers_of_a_sheet_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "x.xlsx", [["a", "b"], [1.5, 1], [2, 2], [True, 3]])
    with pytest.raises(InputError, match=r"text in column 'a' \(true and false besides other values\)"):
        open_file(path)


def test_a_sheet_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "x.xlsx", [["a", "b"], [1, 2]], second=[["c", "d"], [3, 4], [5, 6]], empty=[])
    table = open_file(path)
    assert table.notes == ("the first sheet, 'Sheet', was read; --sheet names another of second, empty",)
    np.testing.assert_array_equal(open_file(path, ReadOptions(dataset="second")).values, [[3, 4], [5, 6]])
    with pytest.raises(InputError, match=r"^--sheet must name a sheet .*: got 'x'; it has Sheet, second, empty$"):
        open_file(path, ReadOptions(dataset="x"))
    with pytest.raises(InputError, match="nothing in it"):
        open_file(path, ReadOptions(dataset="empty"))


@pytest.mark.parametrize("sign", [";", "\t", "|", ","])
def test_a_sheet_is_not_cut_at_signs_in_its_cells(sign: str, tmp_path: Path) -> None:
    path = save(tmp_path / "x.xlsx", [[f"größe{sign}b{sign}c", "y"], *([f"ü{sign}1{sign}2", k] for k in range(9))])
    table = open_file(path, ReadOptions(id=f"größe{sign}b{sign}c"))
    np.testing.assert_array_equal(table.values[:, 0], np.arange(9))
    assert table.row_names is not None
    assert table.row_names[0] == f"ü{sign}1{sign}2"
    assert table.notes == ()
    alone = open_file(save(tmp_path / "y.xlsx", [[f"a{sign}b"], [1.5], [2]]))
    assert alone.feature_names is not None
    assert alone.feature_names.tolist() == [f"a{sign}b"]
    assert alone.notes == ()


@pytest.mark.parametrize(("option", "value"), [("decimal", ","), ("sep", ";"), ("encoding", "latin-1")])
def test_ways_of_writing_text_mean_nothing_for_sheets(option: str, value: str, tmp_path: Path) -> None:
    path = save(tmp_path / "x.xlsx", [["größe", "b"], [1, 2]])
    with pytest.raises(InputError, match=rf"^--{option} must be left out for all but text: got {value!r}$"):
        open_file(path, ReadOptions(**{option: value}))
    opened = FileContext(path.name, ".xlsx file", path.stat().st_size)
    direct = excel.read_excel(path, ReadOptions(**{option: value}), opened)
    assert direct.feature_names is not None
    assert direct.feature_names.tolist() == ["größe", "b"]


def changed(path: Path, part: str, old: bytes, new: bytes) -> Path:
    """Write a book again with other bytes in one of its parts."""
    out = path.with_name("changed.xlsx")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename == part:
                assert old in content
                content = content.replace(old, new)
            target.writestr(info.filename, content)
    return out


SHEET = "xl/worksheets/sheet1.xml"
HOSTILE = {
    "rows without end": (b'<row r="2"', b'<row r="99999999999"', "more rows or columns"),
    "many empty rows": (b'<row r="2"', b'<row r="1048999"', "more rows or columns"),
    "a wide row": (b'r="B2"', b'r="ZZZ2"', "more rows or columns"),
    "a size that lies": (b'ref="A1:B2"', b'ref="A1:XFD1048576"', ""),
    "no string of that number": (b't="n"><v>1<', b't="s"><v>77<', "be a complete .xlsx file"),
    "entities": (
        b"<worksheet ",
        b'<!DOCTYPE x [<!ENTITY a "' + b"a" * 100 + b'">]><worksheet ',
        "be a complete .xlsx file",
    ),
    "not XML": (b"<sheetData>", b"<sheetData", "be a complete .xlsx file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_book_says_of_itself_is_not_trusted(kind: str, tmp_path: Path) -> None:
    old, new, line = HOSTILE[kind]
    path = changed(save(tmp_path / "x.xlsx", [["a", "b"], [1, 2]]), SHEET, old, new)
    if not line:
        np.testing.assert_array_equal(open_file(path).values, [[1, 2]])
        return
    with pytest.raises(InputError, match=line):
        open_file(path)


def test_far_more_than_its_size_is_not_unpacked(tmp_path: Path) -> None:
    path = save(tmp_path / "x.xlsx", [["a", "b"], [1, 2]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/media/x.bin", bytes(900_000))
    assert open_file(path).shape == (1, 2)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/media/y.bin", bytes(7_000_000))
    with pytest.raises(InputError, match=r"unpack to at most 50 times its size: got x\.xlsx \(7,9.* bytes out of "):
        open_file(path)


@pytest.mark.parametrize("content", [b"", b"PK nothing", b"\xd0\xcf\x11\xe0" + bytes(500), b"a,b\n1,2\n"])
def test_what_is_no_book_gets_one_line(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    (tmp_path / "x.xlsx").write_bytes(content)
    with pytest.raises(InputError, match=r"^FILE must be a complete \.xlsx file: got x\.xlsx"):
        open_file(tmp_path / "x.xlsx")


def test_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(MissingExtraError, match=r'needs openpyxl, which .* pip install "sparsemean\[excel\]"'):
        open_file(path)
