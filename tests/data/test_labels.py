"""Columns that say something of rows: subjects, strata and pairs of every kind of file, and subjects nobody named."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest

from sparsemean._data import as_table, open_file
from sparsemean._data.dask import spread
from sparsemean._data.repeats import likely
from sparsemean._data.table import ReadOptions, Table
from sparsemean._fit.messages import dependence_note
from sparsemean.errors import InputError

import kinds

N = 60
X = np.random.default_rng(0).standard_normal((N, 4))
OBS = pd.DataFrame(
    {
        "arm": ["new", "old"] * 30,
        "donor": [f"d{k // 6}" for k in range(N)],
        "site": [k % 3 for k in range(N)],
        "couple": [f"c{k // 2}" for k in range(N)],
    },
    index=[f"cell {k}" for k in range(N)],
)
KINDS = (".csv", ".tsv", ".csv.gz", ".parquet", ".h5ad", ".zarr", ".h5")


def of(option: str, name: str) -> str | tuple[str, ...]:
    """Return the name of a column as an option has it."""
    return (name,) if option == "strata" else name


WANTED = ReadOptions(group="arm", subject="donor", strata=("site",), pairs="couple")


def write(folder: Path, ending: str, obs: pd.DataFrame = OBS) -> Path:
    path, frame = folder / f"x{ending}", kinds.frame(X).join(obs.reset_index(drop=True))
    if ending in (".h5ad", ".h5", ".zarr"):
        adata = anndata.AnnData(X, obs=obs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anndata's about formats to come
            adata.write_zarr(path) if ending == ".zarr" else adata.write_h5ad(path)
    elif ending == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    return path


def check(table: Table) -> None:
    assert table.groups is not None
    assert table.groups.tolist() == OBS["arm"].tolist()
    assert {option: values.tolist() for option, values in table.columns.items()} == {
        "subject": OBS["donor"].tolist(),
        "strata": OBS["site"].tolist(),
        "pairs": OBS["couple"].tolist(),
    }
    np.testing.assert_allclose(table.values, X, rtol=1e-15)
    assert table.repeated is None
    assert dependence_note(table) == []


@pytest.mark.parametrize("ending", KINDS)
def test_subjects_strata_and_pairs_are_read_and_are_no_features(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path, ending)
    table = open_file(path, WANTED)
    check(table)
    if ending in (".parquet", ".h5ad", ".zarr"):
        there = spread(table, path, WANTED)
        check(there)
        np.testing.assert_allclose(there.source.array.compute(), X, rtol=1e-15)  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["subject", "strata", "pairs"])
@pytest.mark.parametrize("ending", KINDS)
def test_a_column_that_is_not_there_is_one_line(ending: str, option: str, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"group": "arm", "drop": ("donor", "site", "couple"), option: of(option, "nobody")}
    with pytest.raises(InputError) as caught:
        open_file(write(tmp_path, ending), ReadOptions(**chosen))
    where = "of obs" if ending in (".h5ad", ".zarr", ".h5") else "of the file"
    assert str(caught.value).startswith(f"--{option} must name a column {where}: got 'nobody'; it has ")


@pytest.mark.parametrize("option", ["subject", "strata", "pairs"])
@pytest.mark.parametrize("kind", ["npy", "npz", "h5"])
def test_files_without_such_columns_refuse_them(kind: str, option: str, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {option: of(option, "donor")}
    with pytest.raises(InputError, match=f"--{option} must be left out for .* files: got 'donor'"):
        open_file(kinds.written(kind, tmp_path, np.ones((64, 7))), ReadOptions(**chosen))


def test_one_column_may_say_several_things(tmp_path: Path) -> None:
    for ending in (".csv", ".parquet", ".h5ad"):
        table = open_file(
            write(tmp_path, ending, OBS[["arm", "donor"]]), ReadOptions(id="donor", group="arm", subject="donor")
        )
        assert table.row_names is not None
        assert table.row_names.tolist() == table.columns["subject"].tolist() == OBS["donor"].tolist()
    (tmp_path / "twice.csv").write_text("a,a,b\nx,y,1\nx,y,2\n")
    with pytest.raises(InputError, match="--strata must name one column of the file: got 'a', 2 of them"):
        open_file(tmp_path / "twice.csv", ReadOptions(strata=("a",)))


@pytest.mark.parametrize("ending", KINDS)
def test_subjects_that_nobody_named_are_said(ending: str, tmp_path: Path) -> None:
    annotated = ending in (".h5ad", ".zarr", ".h5")
    path = write(tmp_path, ending)
    left_out = () if annotated else ("donor", "site", "couple")
    said = dependence_note(open_file(path, ReadOptions(group="arm", drop=left_out)))
    assert said == [
        "rows may not be independent: column 'donor' has 10 values for 60 rows; give it as groups= (--subject donor), "
        "or the error rate does not hold"
    ]
    for other in ("subject", "strata", "pairs"):
        chosen: dict[str, Any] = {"group": "arm", "drop": left_out, other: of(other, "couple")}
        assert dependence_note(open_file(path, ReadOptions(**chosen))) == []
    kept = [] if annotated else ["donor", "couple"]
    assert dependence_note(open_file(path, ReadOptions(group="site", id="arm", drop=tuple(kept))))[0].startswith(
        "rows may not be independent: column 'donor' has 10 values"
    )


@pytest.mark.parametrize("ending", KINDS)
def test_columns_of_another_kind_are_not(ending: str, tmp_path: Path) -> None:
    obs = pd.DataFrame(
        {
            "patient": [f"p{k}" for k in range(N)],  # one row each
            "donor_id": ["same"] * N,
            "case": ["case", "control"] * 30,
            "mouse line": ["a", "b", "c"] * 20,
            "animal": [None] * N,
        },
        index=OBS.index,
    )
    drop = () if ending in (".h5ad", ".zarr", ".h5") else tuple(obs.columns)
    table = open_file(write(tmp_path, ending, obs.astype("object").fillna("")), ReadOptions(drop=drop))
    assert dependence_note(table) == []


def test_names_of_rows_that_repeat_are_said(tmp_path: Path) -> None:
    chosen = ReadOptions(id="couple", group="arm", drop=("site",))
    table = open_file(write(tmp_path, ".csv", OBS[["couple", "arm", "site"]]), chosen)
    assert (
        "column 'couple' has 30 values for 60 rows; give it as groups= (--subject couple)" in dependence_note(table)[0]
    )
    frame = kinds.frame(X).set_axis(OBS["donor"])
    assert (
        "the names of the rows have 10 values for 60 rows; give it as groups=, or"
        in dependence_note(as_table(frame))[0]
    )
    assert dependence_note(as_table(frame.set_axis(OBS.index))) == []
    assert dependence_note(as_table(X)) == []
    few = OBS.index.to_numpy().copy()
    few[:3] = "cell 5"
    assert dependence_note(as_table(frame.set_axis(few))) == []


def test_annotated_objects_say_their_subjects() -> None:
    adata = anndata.AnnData(X, obs=OBS.rename(columns={"donor": "PatientID"}))
    for form in (adata, adata[:, :2]):
        assert "column 'PatientID' has 10 values for 60 rows" in dependence_note(as_table(form))[0]


def test_a_column_nobody_asked_for_is_never_a_reason_to_refuse_a_file(tmp_path: Path) -> None:
    lines = ["donor,a,b", "d,0,0", *(f"d\xe9{k % 3},{k},{k + 1}" for k in range(12))]
    (tmp_path / "x.csv").write_bytes("\n".join(lines).encode("latin-1").replace(b"\xe9", b"\x81"))
    table = open_file(tmp_path / "x.csv", ReadOptions(drop=("donor",)))
    assert table.repeated == ("donor", 4)
    asked = open_file(tmp_path / "x.csv", ReadOptions(subject="donor"))
    assert set(asked.columns["subject"]) == {"d", "d\x810", "d\x811", "d\x812"}
    assert asked.notes[0] == "read as text in cp1252"
    frame = kinds.frame(X).assign(donor=[[k] for k in range(N)])
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_file(tmp_path / "x.parquet", ReadOptions(drop=("donor",))).repeated is None


def test_what_subjects_are_called() -> None:
    yes = ["subject", "Donor", "patient_id", "PatientID", "mouse.id", "sample_id", "individual", "users", "person no"]
    yes += ["orig.ident", "library_id", "hashtag"]
    no = [
        "batch",
        "library_size",
        "ident",
        "origin",
        "",
        "age",
        "donor_sex",
        "case",
        "superuser",
        "patient group",
        "id",
        "n_users_seen",
        "mousetrap",
        "1",
    ]
    assert sorted(likely([*yes, *no])) == sorted(yes)
