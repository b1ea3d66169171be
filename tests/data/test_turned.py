"""Tables with features in rows: turned they are the tables that they would be the other way round, names and all."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import InputError, simulate
from sparsemean._data import as_table, foreign, open_file
from sparsemean._data.table import ReadOptions, as_names
from sparsemean._fit.one_sample import fit

import kinds

rng = np.random.default_rng(0)
N, D = 14, 9
VALUES = rng.normal(size=(N, D)).round(3)
GENES = [f"GENE{k}" for k in range(D)]
SAMPLES = [f"s{k}" for k in range(N)]
ARM = ["control", "new"] * (N // 2)
FRAME = pd.DataFrame(VALUES.T, index=pd.Index(GENES, name="gene"), columns=SAMPLES)
TURNED = ReadOptions(transpose=True)


def check(table: Any, *, rows: list[str] | None = SAMPLES, columns: list[str] | None = GENES) -> None:
    """Compare a table with what was written, names and all."""
    np.testing.assert_array_equal(table.values, VALUES)
    assert (None if table.row_names is None else table.row_names.tolist()) == rows
    assert (None if table.feature_names is None else table.feature_names.tolist()) == columns


def with_text(path: Path) -> ReadOptions:
    """Write a table with columns of text and of numbers that are no samples, and return how it is read."""
    frame = FRAME.reset_index().assign(chromosome="chr1", length=range(100, 100 + D))
    if path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return ReadOptions(transpose=True, drop=("length",))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".xlsx", ".parquet"])
def test_named_tables_are_turned_with_their_names(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{ending}"
    wanted = with_text(path)
    table = open_file(path, wanted)
    check(table)
    assert any("chromosome" in note for note in table.notes)
    only = open_file(path, ReadOptions(transpose=True, id="gene", select=("s1", "s2*")))
    np.testing.assert_array_equal(only.values, VALUES[[1, 2]])


@pytest.mark.parametrize("kind", ["npy", "npy by columns", "npz", "npz compressed", "npz sparse", "h5", "zarr"])
def test_arrays_in_files_are_turned(kind: str, tmp_path: Path) -> None:
    values = np.where((X := rng.normal(size=(90, 70))) < 0.5, 0, X)
    written = kinds.written(kind, tmp_path, values.T)
    table = open_file(written, TURNED)
    np.testing.assert_array_equal(table.values, values)
    np.testing.assert_array_equal(table.source.take(np.array([1, 4, 5])), values[:, [1, 4, 5]])
    with pytest.raises(InputError, match="--group must name a column of the file: got 'arm'"):
        open_file(written, ReadOptions(transpose=True, group="arm"))


@pytest.mark.parametrize("kind", ["npy", "npz sparse", "h5", "parquet", "csv"])
def test_decisions_are_those_of_the_other_way_round(kind: str, tmp_path: Path) -> None:
    data = simulate.make_contaminated(300, 70, [3, -2, 1], contamination=0.05, random_state=1)
    X = np.where(np.abs(data.X) < 0.2, 0, data.X)
    as_it_is = fit(as_table(X), random_state=0)
    turned = fit(open_file(kinds.written(kind, tmp_path, X.T), TURNED), random_state=0)
    np.testing.assert_array_equal(as_it_is.p_values, turned.p_values)
    np.testing.assert_array_equal(as_it_is.mean, turned.mean)


WAYS = {
    "r": "\n".join(["\t".join(SAMPLES), *("\t".join(map(str, row)) for row in FRAME.reset_index().to_numpy())]),
    "no name": FRAME.to_csv(index_label="", sep="\t"),
    "quotes": "\n".join(line.replace(",", "\t") for line in FRAME.to_csv(quoting=2).splitlines()),
    "blank lines": FRAME.to_csv(sep="\t").replace("\n", "\r\n\r\n"),
    "semicolons": FRAME.to_csv(sep=";", decimal=","),
    "at the end": FRAME.to_csv(sep="\t").replace("\n", "\t\n"),
}


@pytest.mark.parametrize("way", WAYS)
def test_texts_as_they_are_written(way: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(WAYS[way].encode())
    check(open_file(tmp_path / "x.tsv", TURNED))


def test_names_there_are_none(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "x.csv", header=False, index=False)
    check(open_file(tmp_path / "x.csv", TURNED), rows=None, columns=None)
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    check(open_file(tmp_path / "x.csv", TURNED), columns=[str(k) for k in range(D)])
    FRAME.to_csv(tmp_path / "x.csv", header=False)
    check(open_file(tmp_path / "x.csv", ReadOptions(transpose=True, header=False)), rows=None)
    FRAME.set_axis(range(100, 100 + D)).to_csv(tmp_path / "x.csv", index_label="entrez")
    check(open_file(tmp_path / "x.csv", TURNED), columns=[str(k) for k in range(100, 100 + D)])


def test_rows_say_the_groups(tmp_path: Path) -> None:
    lines = FRAME.to_csv().splitlines()
    for more in (["arm", *ARM], ["batch", *"ab" * (N // 2)], ["site", *"x" * N]):
        lines.insert(1, ",".join(more))
    (tmp_path / "x.csv").write_text("\n".join(lines))
    table = open_file(
        tmp_path / "x.csv", ReadOptions(transpose=True, group="arm", strata=("batch", "site"), drop=("s0", "GENE0"))
    )
    assert table.groups is not None
    assert table.groups.tolist() == ARM[1:]
    assert table.columns["strata"].tolist() == [f"{batch} / x" for batch in ("ab" * N)[1:N]]
    np.testing.assert_array_equal(table.values, VALUES[1:, 1:])
    with pytest.raises(InputError, match=r"text in 3 columns: 'site' \(row 0: 'x'\), 'batch', 'arm'"):
        open_file(tmp_path / "x.csv", TURNED)
    check(open_file(tmp_path / "x.csv", ReadOptions(transpose=True, drop=("arm", "batch", "site"))))


def test_rows_of_numbers_say_the_groups_of_parquet(tmp_path: Path) -> None:
    frame = pd.concat([pd.DataFrame([[0.0, 1.0] * (N // 2)], index=["arm"], columns=SAMPLES), FRAME])
    for index in (True, False):
        (frame if index else frame.rename_axis("gene").reset_index()).to_parquet(tmp_path / "x.parquet", index=index)
        table = open_file(tmp_path / "x.parquet", ReadOptions(transpose=True, group="arm"))
        check(table)
        assert table.groups is not None
        assert table.groups.tolist() == [0.0, 1.0] * (N // 2)


def test_standard_input_is_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped:
        buffer = io.BytesIO(FRAME.to_csv().encode())

    monkeypatch.setattr("sys.stdin", Piped())
    check(open_file("-", TURNED))


REFUSED = {
    "ragged": (b"gene,a,b\nx,1,2\ny,1\n", r"row 1 has 2 cell\(s\) where the first line has 3"),
    "open quote": (b'gene,a,b\nx,1,2\n"y,1,2\n', "a quote that is never closed"),
    "quotes inside": (b'gene,a,b\nx,1,2\ny,4",5\nz,1,2"\n', r"row 1 has 2 cell\(s\) where the first line has 3"),
    "text": (b"gene,a,b\nx,u,v\ny,u,v\n", "FILE must have columns of numbers, one a sample: got none"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_turned_is_one_line(kind: str, tmp_path: Path) -> None:
    content, line = REFUSED[kind]
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(InputError, match=line):
        open_file(tmp_path / "x.csv", TURNED)


def test_annotated_data_are_turned_by_their_own_means(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--transpose must be left out for a \.h5ad file of AnnData"):
        open_file(kinds.written("h5ad", tmp_path, VALUES), TURNED)


# Tables that seem to lie the wrong way round are said to.

ROUND = {
    "genes": ([f"ENSG{k:011d}" for k in range(9)], None, "rows look like genes or probes (ENSG00000000000, ENSG0"),
    "symbols": (["TP53", "A1BG", "GAPDH", "MYC"], None, "rows look like genes or probes (TP53, A1BG, …)"),
    "mouse": (["Trp53", "Gapdh", "Myc", "Actb"], None, "rows look like genes or probes (Trp53, Gapdh, …)"),
    "arrays": (None, ["GSM101", "GSM102", "GSM103"], "columns look like samples (GSM101, GSM102, …)"),
    "barcodes": (None, ["AAACCTGAGAAACCAT-1", "AAACCTGAGAAACCGC-1"], "columns look like samples (AAACCTG"),
    "patients": (None, ["control 1", "control 2", "Treated_3"], "columns look like samples (control 1, control 2, …)"),
    "cells": (["AAACCTGAGAAACCAT-1", "AAACCTGAGAAACCGC-1"], ["TP53", "GAPDH", "MYC"], ""),
    "people": (["Anna", "Max", "S3"], ["clicks", "sessions", "rs"], ""),
}


@pytest.mark.parametrize("kind", ROUND)
def test_what_lies_the_wrong_way_round_is_said(kind: str, tmp_path: Path) -> None:
    rows, columns, said = ROUND[kind]
    frame = pd.DataFrame(rng.normal(size=(len(rows or "abc"), len(columns or "abcd"))), index=rows, columns=columns)
    frame.columns = frame.columns.map(str) if columns else list("wxyz")
    frame.to_csv(tmp_path / "x.csv", index=rows is not None)
    for notes in (open_file(tmp_path / "x.csv").notes, as_table(frame).notes):
        found = [note for note in notes if "look like" in note]
        assert (len(found) == 1 and found[0].startswith(said) and "--transpose, in Python X.T" in found[0]) == bool(
            said
        )
    turned = open_file(tmp_path / "x.csv", TURNED).notes
    assert not any("look like" in note and "leave --transpose out" not in note for note in turned)


@pytest.mark.parametrize("name", ["GSM" + "1" * 10**6 + " ", "A" * 10**6, "rs" + "1" * 10**6 + "!", "a-mir-" * 10**5])
def test_names_of_any_length_take_no_time(name: str) -> None:
    began = time.perf_counter()
    foreign.wrong_way(replace(as_table(np.eye(1), [name]), row_names=as_names([name])))
    assert time.perf_counter() - began < 0.5


# Names that are there twice, or are none.


def test_names_become_unique_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b,a,a.1,,a\n1,2,3,4,5,6\n7,8,9,1,2,3\n")
    names = ["a", "b", "a.2", "a.1", "column 4", "a.3"]
    table = open_file(tmp_path / "x.csv")
    assert table.feature_names is not None
    assert table.feature_names.tolist() == names
    assert "made unique: 'a' in column 2 is 'a.2', 'a' in column 5 is 'a.3'" in " ".join(table.notes)
    frame = pd.DataFrame(np.eye(6), columns=["a", "b", "a", "a.1", "", "a"])
    for table in (as_table(frame), as_table(np.eye(6), list(frame.columns))):
        assert table.feature_names is not None
        assert table.feature_names.tolist() == names
        assert "'' in column 4 is 'column 4'" in table.notes[0]
    with pytest.raises(InputError, match="--group must name one column of the file: got 'a', 3 of them"):
        open_file(tmp_path / "x.csv", ReadOptions(group="a"))
