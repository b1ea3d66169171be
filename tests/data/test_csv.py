"""Text: the values as written, the names, and one line for whatever is wrong."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean._data import as_table, csv, open_file, repeats
from sparsemean._data.table import ReadOptions, Table
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from command import expect
from fuzzed import damaged

rng = np.random.default_rng(0)
X = rng.standard_t(2, (60, 7)) + 3.0 * (np.arange(7) < 2)
FRAME = pd.DataFrame(X, columns=list("abcdefg"))
WHO = [f"s{i}" for i in range(60)]


def read(tmp_path: Path, content: str | bytes, name: str = "x.csv", **wanted: Any) -> Table:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return open_file(tmp_path / name, ReadOptions(**wanted))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".CSV"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.bool_])
def test_the_same_numbers_as_the_array(ending: str, kind: type, tmp_path: Path) -> None:
    values = (X * 10).astype(kind) if kind is not np.bool_ else X > 0
    frame = pd.DataFrame(values, columns=FRAME.columns)
    separator = "\t" if ".tsv" in ending else ","
    frame.to_csv(tmp_path / f"x{ending}", index=False, sep=separator)
    table = open_file(tmp_path / f"x{ending}")
    as_written = values.astype(str).astype(np.float64) if kind is np.float32 else values.astype(np.float64)
    np.testing.assert_array_equal(table.values, as_written)
    assert list(table.feature_names) == list("abcdefg")
    ours, theirs = fit(table, random_state=0), fit(as_table(as_written), random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


def test_lines_that_span_blocks_and_rows_beyond_the_room_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "READ_AT_ONCE", 700)
    for name in ("x.csv", "x.csv.gz"):
        FRAME.assign(who=[f'a "{w}",\n' for w in WHO]).to_csv(tmp_path / name, index=False)
        table = open_file(tmp_path / name, ReadOptions(id="who"))
        np.testing.assert_array_equal(table.values, X)
        assert table.row_names is not None
        assert table.row_names[59] == 'a "s59",\n'


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_line_ends_blank_lines_spaces_and_quotes(ends: str, tmp_path: Path) -> None:
    text = ends.join(["", '"a" , b,"c ""d"""', "", '1, "2",3 ', " 4 ,5,6", "  ", "7,8,9"])
    table = read(tmp_path, "\ufeff" + text)
    np.testing.assert_array_equal(table.values, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert list(table.feature_names) == ["a", "b", 'c "d"']


def test_missing_and_infinite(tmp_path: Path) -> None:
    cells = ["", "NA", "NaN", "null", "<NA>", '""', "1.#IND", "inf", "-Infinity", "1e400", "4.9e-324"]
    values = read(tmp_path, "a,b\n" + "".join(f"{cell},0\n" for cell in cells)).values[:, 0]
    inf = np.inf
    np.testing.assert_array_equal(values, [np.nan] * 7 + [inf, -inf, inf, 5e-324])


def test_missing_values_are_named_later(tmp_path: Path) -> None:
    table = read(
        tmp_path, FRAME.mask((FRAME.index.to_numpy() == 5)[:, None] & (FRAME.columns == "c")).to_csv(index=False)
    )
    with pytest.raises(InputError, match=r"NaN in column 2 \('c'\), row 5"):
        fit(table, random_state=0)


def test_id_group_select_and_drop(tmp_path: Path) -> None:
    frame = FRAME.assign(who=WHO, arm=["x", "y"] * 30, n=range(60))
    text = frame.to_csv(index=False)
    table = read(tmp_path, text, id="who", group="arm", drop=("n",))
    np.testing.assert_array_equal(table.values, X)
    assert table.row_names is not None
    assert table.groups is not None
    assert table.row_names.tolist() == WHO
    assert table.groups.tolist() == ["x", "y"] * 30
    table = read(tmp_path, text, group="n", select=("[ab]", "g"))
    np.testing.assert_array_equal(table.values, X[:, [0, 1, 6]])
    assert table.groups is not None
    assert table.groups.dtype == np.int64
    labels = read(tmp_path, "g,a\n1,1\nNA,2\n,3\n", group="g").groups
    assert labels is not None
    assert [str(label) for label in labels] == ["1", "nan", "nan"]
    assert read(tmp_path, "g,a\n1,5\n2,6\n", id="g", group="g").groups.tolist() == [1, 2]  # type: ignore[union-attr]


def test_the_index_that_pandas_writes_names_the_rows(tmp_path: Path) -> None:
    text = FRAME.set_axis(WHO).assign(k="x").to_csv()
    table = read(tmp_path, text, drop=("k",))
    np.testing.assert_array_equal(table.values, X)
    assert table.row_names is not None
    assert table.row_names.tolist() == WHO
    assert table.notes == (csv.UNNAMED_ID,)
    table = read(tmp_path, text, id="k")
    np.testing.assert_array_equal(table.values, X)
    assert table.notes == (csv.UNNAMED_LEFT_OUT,)


def test_tables_as_r_writes_them(tmp_path: Path) -> None:
    table = read(tmp_path, '"a"\t"b"\n"s1"\t1\t2\n"s2"\t3\t4\n', "x.tsv")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert table.row_names is not None
    assert table.row_names.tolist() == ["s1", "s2"]


@pytest.mark.parametrize("names", [["a", "b"], ["2019", "2020"], ["0.5", "7"]])
@pytest.mark.parametrize("rows", [["s1", "s2", "s3"], ["1", "2", "3"]])
def test_nothing_above_names_of_rows(rows: list[str], names: list[str], tmp_path: Path) -> None:
    lines = ["\t".join(names), *(f"{name}\t{k}.5\t{7 - k}" for k, name in enumerate(rows))]
    table = read(tmp_path, "\n".join(lines), "x.tsv")
    np.testing.assert_array_equal(table.values, [[0.5, 7], [1.5, 6], [2.5, 5]])
    assert table.feature_names is not None
    assert table.feature_names.tolist() == names
    assert table.row_names is not None
    assert table.row_names.tolist() == rows
    with pytest.raises(InputError, match="row 0 has 3 cell"):
        read(tmp_path, "\n".join(lines).replace("\t", ","))


def test_a_separator_at_the_end_of_lines_makes_no_column(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b,\n1,2,\n3,4,\n")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert table.notes == (csv.SPARE,)
    np.testing.assert_array_equal(read(tmp_path, "a,b,\n1,2,\n3,4,5\n").values[:, 2], [np.nan, 5])


FIRST = {
    "pandas": ("0,1,2", True, (csv.NUMBERED,)),
    "from one": ("1,2,3", True, (csv.NUMBERED,)),
    "beside an index": (",0,1", True, (csv.NUMBERED, csv.UNNAMED_ID)),
    "before a spare separator": ("0,1,", True, (csv.NUMBERED, csv.SPARE)),
    "an id beside numbers": ("s1,0.5,7", True, (csv.NUMBERED,)),
    "names": ("a,b,c", True, ()),
    "fractions": ("0.5,1,2", False, ()),
    "one twice": ("1,1,2", False, ()),
    "missing": ("0.5,NA,inf", False, ()),
    "missing first": (",5.5,6", False, ()),
    "points": ("0.0,1.0,2.0", False, ()),
    "exponents": ("0e0,1e0,2e0", False, ()),
    "signs": ("+0,+1,+2", False, ()),
    "savetxt": ("0.000000000000000000e+00,1.000000000000000000e+00,2.000000000000000000e+00", False, ()),
    "zeros before": ("00,01,02", False, (csv.WHOLE_ROW,)),
    "a gap": ("0,1,3", False, (csv.WHOLE_ROW,)),
    "another order": ("2,1,0", False, (csv.WHOLE_ROW,)),
    "counts": ("4,7,9", False, (csv.WHOLE_ROW,)),
}


@pytest.mark.parametrize("kind", FIRST)
def test_a_first_line_of_numbers_is_a_row_unless_it_counts_the_columns(kind: str, tmp_path: Path) -> None:
    line, named, notes = FIRST[kind]
    text = f"{line}\n" + ("4,5,\n7,8,\n" if kind == "before a spare separator" else "4,5,6\n7,8,9\n")
    table = read(tmp_path, text)
    assert table.shape[0] == 3 - named
    assert table.notes == notes
    assert (table.feature_names is not None) == named
    if kind != "one twice":
        assert read(tmp_path, text, header=True).shape[0] == 2
    if kind not in ("names", "an id beside numbers"):
        read_as_row = read(tmp_path, text, header=False)
        assert read_as_row.shape == (3, 3)
        assert (read_as_row.feature_names, read_as_row.notes) == (None, ())


INDICES = {
    "counts": range(60), "from one": range(1, 61), "what a filter left": range(7, 247, 4), "text": WHO,
    "days": pd.date_range("2024-01-01", periods=60),
}  # fmt: skip


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("names", [range(2019, 2026), np.arange(7) + 0.5, [3, 1, 9, 12, 5, 2, 7]], ids=str)
@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_numbers_beside_an_index_name_columns(ending: str, names: Any, kind: str, tmp_path: Path) -> None:
    path, frame = tmp_path / f"x{ending}", pd.DataFrame(X.round(6), INDICES[kind], names)
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path)
    else:
        frame.to_csv(path)
    table = open_file(path)
    np.testing.assert_array_equal(table.values, X.round(6))
    assert table.feature_names is not None
    assert table.feature_names.tolist() == [str(name) for name in names]
    assert table.row_names is not None
    assert kind == "days" or table.row_names.tolist() == [str(name) for name in INDICES[kind]]
    assert table.notes == (csv.NUMBERED, csv.UNNAMED_ID)


def test_numbers_beside_a_gap_and_no_index_are_a_row(tmp_path: Path) -> None:
    table = read(tmp_path, ",2019,2020\n0.5,1,2\n3,4,5\n")
    assert table.shape == (3, 3)
    assert table.notes == (csv.WHOLE_ROW,)
    assert read(tmp_path, ",7,7\n0,1,2\n1,4,5\n").shape == (3, 3)


def test_who_says_so_decides_whether_there_are_names(tmp_path: Path) -> None:
    table = read(tmp_path, "2019,2020\n1.5,2\n", header=True)
    assert (list(table.feature_names), table.notes) == (["2019", "2020"], ())  # type: ignore[arg-type]
    table = read(tmp_path, "s1,1,2\ns2,3,4\n", header=False, id="0")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert table.row_names is not None
    assert table.row_names.tolist() == ["s1", "s2"]
    with pytest.raises(InputError, match=r"got text in 2 columns: '0' \(row 0: 'a'\), '1'; leave them out with"):
        read(tmp_path, "a,b\n1,2\n", header=False)
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match=r"^--no-header must be left out for all but text and sheets: got x\.npy$"):
        open_file(tmp_path / "x.npy", ReadOptions(header=False))


def test_fit_and_sketch_lose_no_first_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.arange(100 * 3).reshape(100, 3) % 7 - 3.0
    rows[0] = 4, 5, 6
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",")
    expect("fit", tmp_path / "x.csv", "--seed", "0")
    assert "x.csv: 100 rows" in capsys.readouterr().out
    np.savetxt(tmp_path / "x.csv", np.vstack([[1, 2, 3], rows]), delimiter=",", fmt="%d")
    for more, count in (((), 100), (("--no-header",), 101), (("--header",), 100)):
        expect("fit", tmp_path / "x.csv", *more, "--seed", "0")
        said = capsys.readouterr().out
        assert f"x.csv: {count} rows" in said
        assert ("though it holds values" in " ".join(said.split())) == (more == ())
        expect("sketch", tmp_path / "x.csv", *more)
        assert f"3 features, seed 0. Rows seen: 0–{count - 1}." in " ".join(capsys.readouterr().out.split())


def test_many_columns(tmp_path: Path) -> None:
    names = [f"gene {k}" for k in range(20_000)]
    values = np.arange(60_000).reshape(3, -1) / 7
    table = read(tmp_path, "\n".join([",".join(names), *(",".join(map(str, row)) for row in values.tolist())]))
    np.testing.assert_array_equal(table.values, values)
    assert list(table.feature_names) == names


class Piped:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("separator", [",", "\t"])
def test_standard_input(separator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Piped(FRAME.to_csv(index=False, sep=separator).encode()))
    np.testing.assert_array_equal(open_file("-").values, X)
    with pytest.raises(InputError, match=r"got standard input \(nothing in it\)"):
        open_file("-")


TEXT = "FILE must have numeric columns only: got text in column "
BROKEN = "FILE must be a complete .csv file: got x.csv ("
BAD = {
    "text": ("a,city\n1,Paris\n", TEXT + "'city' (row 0: 'Paris'); "
             "leave it out with --drop-text or --drop city, or say what one is for: --id, --group, --subject, "
             "--strata or --pairs NAME"),
    "mixed": ("a,b\n1,2\n2,3 kg\n", TEXT + "'b' (row 1: '3 kg')"),
    "dates": ("a,day of\n1,2020-01-01\n", TEXT.replace("text", "dates") + "'day of' (row 0: '2020-01-01'); "
              "leave it out with --drop-text or --drop 'day of'"),
    "several": ("a,b,c,d\n1,x,31.12.2024,y\n,x,31.12.2024,y\n", TEXT.replace("column ", "2 columns: ")
                + "'b' (row 0: 'x'), 'd'; dates in column 'c'; "
                "leave them out with --drop-text and go past gaps in others with --missing omit, or say"),
    "underscore": ("a,b\n1,1_0\n", TEXT + "'b' (row 0: '1_0')"),
    "nul inside": ("a,b\n1\0,2\n1,2\n1\x005,2\n", BROKEN + "NUL bytes"),
    "nul later": ("a,b\n1,2\n1\x005,2\n", TEXT + "'a' (row 1: '1\\x005')"),
    "long": ("a,b\n1,2\n1,2,3,4\n", BROKEN + "row 1 has 4 cell(s) where the first line has 2)"),
    "short": ("a,b\n1,2\n1\n", BROKEN + "row 1 has 1 cell(s) where the first line has 2)"),
    "long first": ("a,b\n1,2,3\n4,5,6\n", BROKEN + "row 0 has 3 cell(s)"),
    "open quote": ('a,b\n1,2\n1,"2\n', BROKEN + "a quote that is never closed in row 1)"),
    "open header": ('"a,b\n1,2\n', BROKEN + "a quote that is never closed)"),
    "after quote": ('a,b\n1,"2"3\n', BROKEN + "row 0 has text after a closing quote)"),
    "empty": ("", BROKEN + "nothing in it)"),
    "blank": ("\n \n", BROKEN + "nothing in it)"),
    "header only": ("a,b\n", "FILE must have rows: got x.csv with one line"),
    "one byte": ("a", "FILE must have rows: got x.csv with one line"),
    "uneven semicolons": ("a;b\n1;2\n1\n", "FILE must have commas between columns: got x.csv with semicolons; "
                          "--sep ';' says so"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_bad_text_gets_one_line(kind: str, tmp_path: Path) -> None:
    content, line = BAD[kind]
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["a,b\n1,2\n".encode("utf-16-le"), b"\x00" * 50],
    ids=["utf-16 without a mark", "zeros"],
)
def test_wrong_encodings(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="save it as UTF-8"):
        read(tmp_path, content)


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_cell_has_as_many_bytes_as_is_promised(quote: str, tmp_path: Path) -> None:
    rows = [f"{quote}{who}{'x' * 900_000 * (k < 2)}{quote},{k},5\n" for k, who in enumerate(WHO)]
    table = read(tmp_path, "who,a,b\n" + "".join(rows), id="who")
    np.testing.assert_array_equal(table.values[:, 0], np.arange(60))
    assert table.row_names is not None
    assert len(table.row_names[1]) == 900_002


@pytest.mark.parametrize("sep", [";", ",", "\t", "|"])
@pytest.mark.parametrize("form", ["sep={}\n", '"sep={}"\r\n', "\ufeffsep={}\n", "SEP={}\n\n"])
def test_the_hint_that_excel_writes_is_honoured(form: str, sep: str, tmp_path: Path) -> None:
    text = form.format(sep) + FRAME.round(2).assign(who=WHO).to_csv(
        index=False, sep=sep, decimal="." if sep == "," else ","
    )
    table = read(tmp_path, text, id="who")
    np.testing.assert_array_equal(table.values, X.round(2))
    assert read(tmp_path, f"sep={sep}\n1.5{sep}2\n3{sep}4\n").shape == (2, 2)


def test_choices_that_make_no_sense(tmp_path: Path) -> None:
    for wanted, line in (
        ({"layer": "x"}, "--layer must be left out for text"),
        ({"id": "z"}, "--id must name a column of the file"),
        ({"drop": ("a", "b")}, "FILE must have columns left"),
    ):
        with pytest.raises(InputError, match=line):
            read(tmp_path, "a,b\n1,2\n", **wanted)
    with pytest.raises(InputError, match="--id must name one column of the file: got 'a', 2 of them"):
        read(tmp_path, "a,b,a\n1,2,3\n", id="a")


def test_one_row_and_one_column(tmp_path: Path) -> None:
    assert read(tmp_path, "a\n1\n").shape == (1, 1)
    with pytest.raises(InputError, match="at least 4 rows"):
        fit(read(tmp_path, "a,b\n1,2\n"), random_state=0)
    assert fit(read(tmp_path, FRAME[["a"]].to_csv(index=False)), random_state=0).support.tolist() == [0]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz"])
def test_damaged_text_never_crashes(name: str, tmp_path: Path) -> None:
    frame = FRAME.round(3).assign(who=WHO)
    content = frame.to_csv(index=False, sep="\t" if "tsv" in name else ",").encode()
    content = gzip.compress(content, mtime=0) if name.endswith("gz") else content
    rng = np.random.default_rng(1)
    for _ in range(60):
        try:
            fit(read(tmp_path, damaged(content, rng), name, id="who"), random_state=0)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("at_once", [7, 64, 1 << 20])
def test_an_empty_line_of_one_column_is_a_missing_value(
    end: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparsemean._data.csv.READ_AT_ONCE", at_once)
    cells = ["" if i % 5 == 0 else f"{i}.5" for i in range(1, 60)]
    (tmp_path / "x.csv").write_bytes(end.join(["x", *cells, "7", "", "", ""]).encode())
    expected = [float(cell) if cell else np.nan for cell in cells]
    np.testing.assert_array_equal(open_file(tmp_path / "x.csv").values[:, 0], [*expected, 7.0])


LINES = ["".join(f"{(7 * k + 3 * row) % 11 - 4.75:.2f}," for k in range(100))[:-1] for row in range(4)]
TOTAL = ",".join(f"{8000 * sum(float(line.split(',')[k]) for line in LINES):.2f}" for k in range(100))
ENDS = {"": "", "may be a total": f"{TOTAL}\n", "may stand for missing": 2 * f"{LINES[0]}\n".replace("-4.75", "-9999")}


@pytest.mark.parametrize("note", ENDS)
def test_a_table_is_not_held_twice_for_the_sake_of_a_note(
    note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read as a whole, room that is made and never used would count."""
    shares = []

    def watched(look: Callable[..., Any]) -> Callable[..., Any]:
        def call(values: Any, *others: Any) -> Any:
            tracemalloc.start()
            try:
                found = look(values, *others)
                shares.append(tracemalloc.get_traced_memory()[1] / sum(block.nbytes for block in values))
            finally:
                tracemalloc.stop()
            return found

        return call

    for name in ("gap_codes", "no_row", "n_copies"):
        monkeypatch.setattr(repeats, name, watched(getattr(repeats, name)))
    names = ",".join(f"c{k}" for k in range(100))
    table = read(tmp_path, "\n".join([names, *8000 * LINES, ENDS[note]]))
    assert table.source.shape[0] >= 32_000
    assert len(shares) == 3
    assert max(shares) < 0.2
    assert [note in said for said in table.notes] == [True] * bool(note)


def test_bytes_that_are_no_utf_8_are_western_each_for_itself(tmp_path: Path) -> None:
    """What is UTF-8 beside them stays what it is, and bytes that no character has stay apart."""
    content = "größe,é\n".encode() + b"1,2\n" * 3
    table = read(tmp_path, content.replace("é".encode(), b"\xe9\x81"))
    assert table.feature_names is not None
    assert table.feature_names.tolist() == ["größe", "é\x81"]
    assert table.notes[0] == "read as text in cp1252"
