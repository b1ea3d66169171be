"""Files of other programs are named, and the line of Python that is given for them makes what is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsemean import InputError
from sparsemean._data import open_file
from sparsemean._data.table import ReadOptions

rng = np.random.default_rng(0)
N, D = 6, 40


def proteins(folder: Path) -> Path:
    """Write proteinGroups.txt as MaxQuant does: a fifth of the values are 0, and four proteins are none."""
    frame = pd.DataFrame({"Protein IDs": [f"P{k};Q{k}" for k in range(D)], "Majority protein IDs": "P", "Score": 3.0})
    for k in range(N):
        frame[f"LFQ intensity S{k}"] = np.where(rng.random(D) < 0.2, 0, 2 ** rng.normal(25, 1, D)).round()
    for k, name in enumerate(("Only identified by site", "Reverse", "Potential contaminant")):
        frame[name] = np.where(np.arange(D) < k, "+", "")
    frame.to_csv(folder / "proteinGroups.txt", sep="\t", index=False)
    return folder / "proteinGroups.txt"


def series(folder: Path) -> Path:
    """Write a series matrix."""
    lines = [
        '!Series_title\t"x"',
        '!Sample_title\t"a"\t"b"',
        "",
        "!series_matrix_table_begin",
        '"ID_REF"\t"GSM1"\t"GSM2"',
    ]
    lines += [f'"{k}_at"\t{k}\t{k / 2}' for k in range(1000, 1000 + D)] + ["!series_matrix_table_end"]
    (folder / "GSE1_series_matrix.txt").write_text("\n".join(lines))
    return folder / "GSE1_series_matrix.txt"


def counts(folder: Path) -> Path:
    """Write what featureCounts does."""
    head = "\t".join(["Geneid", "Chr", "Start", "End", "Strand", "Length", "a.bam", "b.bam"])
    rows = [f"ENSG{k}\t1\t2\t3\t+\t4\t{k}\t{k + 1}" for k in range(D)]
    (folder / "counts.txt").write_text("\n".join(["# Program:featureCounts v2", head, *rows]))
    return folder / "counts.txt"


def gct(folder: Path) -> Path:
    """Write a table of GenePattern."""
    rows = [f"g{k}\tna\t{k}\t{k + 1}" for k in range(D)]
    (folder / "x.gct").write_text("\n".join(["#1.2", f"{D}\t2", "Name\tDescription\ta\tb", *rows]))
    return folder / "x.gct"


@pytest.mark.parametrize(("make", "what", "shape"), [
    (proteins, "proteinGroups of MaxQuant", (N, D - 2)), (series, "a series matrix of GEO", (2, D)),
    (counts, "counts of featureCounts", (2, D)), (gct, "a table of GenePattern", (2, D)),
])  # fmt: skip
def test_the_line_makes_what_is_read(
    make: object, what: str, shape: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(make)
    path = make(tmp_path)
    with pytest.raises(InputError) as caught:
        open_file(path)
    line = str(caught.value)
    assert line.startswith(f"FILE must be a table with samples in rows: got {path.name}, {what}")
    monkeypatch.chdir(tmp_path)
    exec("import pandas\n" + line.partition("in Python: ")[2])
    made = open_file(path.with_suffix(".csv"), ReadOptions())
    assert made.shape == shape
    assert np.isnan(made.values).any() == (make is proteins)
    assert not any("look like" in note for note in made.notes)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("x.loom", "cells as loompy writes them; in Python: scanpy.read_loom('x.loom').write_h5ad('x.h5ad')"),
        ("x.rds", "an object of R; in Python: pyreadr.read_r('x.rds')[None].to_csv('x.csv'), or in R "
                  "write.csv(readRDS('x.rds'), 'x.csv')"),
        ("X.RData", "objects of R; in Python: next(iter(pyreadr.read_r('X.RData').values())).to_csv('X.csv')"),
        ("x.mtx.gz", "a matrix, genes in rows; in Python: scipy.sparse.save_npz('x.npz', scipy.io.mmread('x.mtx.gz')"),
        ("a'b.xls", "a workbook of Excel before 2007; in Python: pandas.read_excel(\"a'b.xls\").to_csv"),
    ],
)  # fmt: skip
def test_endings_are_known(name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError) as caught:
        open_file(tmp_path / name)
    assert str(caught.value).startswith(f"FILE must be a table with samples in rows: got {name}, {line}")


def test_what_10x_writes_is_known(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["matrix/barcodes"] = [b"AAACCTGAGAAACCAT-1"]
        file["matrix/data"] = [1]
    folder = tmp_path / "filtered_feature_bc_matrix"
    folder.mkdir()
    with pytest.raises(InputError, match=r"FILE must end in .* got 'filtered_feature_bc_matrix'"):
        open_file(folder)
    (folder / "matrix.mtx.gz").touch()
    with pytest.raises(InputError, match=r"scanpy\.read_10x_mtx\('filtered_feature_bc_matrix'\)\.write_h5ad\('filt"):
        open_file(folder)
    with pytest.raises(InputError, match=r"x\.h5, cells as 10x writes them; in Python: scanpy\.read_10x_h5\('x\.h5'\)"):
        open_file(tmp_path / "x.h5")


def test_a_table_called_so_is_read(tmp_path: Path) -> None:
    """What a file begins with decides, not what it is called."""
    pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}).to_csv(tmp_path / "proteinGroups.txt", sep="\t", index=False)
    assert open_file(tmp_path / "proteinGroups.txt").shape == (2, 2)
