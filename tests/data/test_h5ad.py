"""AnnData files, dense or compressed, of this and older versions: the numbers and names that went in."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean._data import as_table, open_file
from sparsemean._data.table import ReadOptions
from sparsemean._fit.two_sample import compare
from sparsemean.errors import InputError

from agreeing import is_refused, same_fit
from fuzzed import damaged

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

RNG = np.random.default_rng(0)
N, D = 260, 40
X = np.where(RNG.random((N, D)) < 0.3, RNG.standard_t(3, (N, D)), 0.0)
X[:, :4] = RNG.standard_t(3, (N, 4)) + np.array([2.0, -1.0, 1.5, 1.0])
GENES, CELLS = [f"gene{i}" for i in range(D)], [f"cell{i}" for i in range(N)]
SEX = np.where(np.arange(N) % 3 == 0, "m", "f")
FORMS: dict[str, Any] = {
    "dense": np.asarray,
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "csr array": sparse.csr_array,
}
COLUMNS = np.array([0, 1, 5, 20, 39])


def adata_of(form: str = "dense", values: Any = X, **more: Any) -> Any:
    obs = pd.DataFrame(
        {
            "sex": pd.Categorical(SEX),
            "text": SEX,
            "age": np.arange(N),
            "nullable": pd.array([None, *range(1, N)], dtype="Int64"),
            "gap": pd.Categorical([None, *SEX[1:]]),
            "flag": SEX == "m",
            "dose": pd.Categorical(np.arange(N) % 2 * 2.5),
        },
        index=CELLS,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.AnnData(FORMS[form](values), obs=obs, var=pd.DataFrame(index=GENES), **more)


def written(path: Path, form: str = "dense", values: Any = X, **options: Any) -> Path:
    adata = adata_of(form, values, layers={"doubled": FORMS[form](2 * values)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (adata.write_zarr if path.suffix == ".zarr" else adata.write_h5ad)(path, **options)
    return path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ending", [".h5ad", ".zarr", ".h5"])
def test_every_form_gives_the_numbers_and_names(form: str, ending: str, tmp_path: Path) -> None:
    table = open_file(written(tmp_path / f"x{ending}", form))
    assert table.source.sparse == (form != "dense")
    assert list(table.feature_names) == GENES
    assert list(table.row_names) == CELLS
    block = table.source.block(slice(7, 150), slice(3, 30))
    np.testing.assert_array_equal(block.toarray() if table.source.sparse else block, X[7:150, 3:30])
    np.testing.assert_array_equal(table.source.take(COLUMNS), X[:, COLUMNS])
    np.testing.assert_array_equal(table.values, X)
    same_fit(table, X)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u1"])
def test_types_and_compression(form: str, dtype: str, tmp_path: Path) -> None:
    values = np.round(X * 4).astype("i1").astype(dtype) if dtype != "u1" else np.abs(np.round(X * 4)).astype(dtype)
    if dtype == "f2" and form != "dense":
        path = written(tmp_path / "x.h5ad", form, values.astype("f4"))
        with h5py.File(path, "r+") as file:  # scipy has no half precision, but files do
            stored = file["X/data"][:].astype("f2")
            del file["X/data"]
            file["X/data"] = stored
    else:
        path = written(tmp_path / "x.h5ad", form, values, compression="gzip")
    same_fit(open_file(path), values)


def test_pieces_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_data.source", "_data.chunked", "_evidence.counting.engines"):
        monkeypatch.setattr(f"sparsemean.{name}.AT_ONCE", 12_000)
    for form in ("csr", "csc"):
        table = open_file(written(tmp_path / f"{form}.h5ad", form))
        np.testing.assert_array_equal(table.source.take(COLUMNS), X[:, COLUMNS])
        same_fit(table, X)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_entries_out_of_order_and_repeated_are_added_up(form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5ad", form)
    with h5py.File(path, "r+") as file:
        data, indices, ends = (file["X"][name][:] for name in ("data", "indices", "indptr"))
        halves = [np.tile(data[a:b][::-1] / 2, 2) for a, b in pairwise(ends)]
        places = [np.tile(indices[a:b][::-1], 2) for a, b in pairwise(ends)]
        for name, new in (("data", np.concatenate(halves)), ("indices", np.concatenate(places)), ("indptr", 2 * ends)):
            del file["X"][name]
            file["X"][name] = new
    table = open_file(path)
    np.testing.assert_array_equal(table.source.take(COLUMNS), X[:, COLUMNS])
    assert table.source.block(slice(0, N), slice(0, D)).has_canonical_format
    same_fit(table, X)


@pytest.mark.parametrize("form", FORMS)
def test_layers_choices_and_groups(form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5ad", form)
    np.testing.assert_array_equal(open_file(path, ReadOptions(layer="doubled")).values, 2 * X)
    table = open_file(path, ReadOptions(id="text", group="sex", select=("gene1*", "gene0"), drop=("gene13",)))
    kept = [0, 1, 10, 11, 12, *range(14, 20)]
    np.testing.assert_array_equal(table.values, X[:, kept])
    assert list(table.feature_names) == [GENES[i] for i in kept]
    assert list(table.row_names) == list(table.groups) == list(SEX)
    found, expected = compare(table, table.groups), compare(as_table(X[:, kept]), SEX)
    assert list(found.classes) == ["f", "m"]
    np.testing.assert_array_equal(found.results["m"].p_values, expected.results["m"].p_values)


@pytest.mark.parametrize("ending", [".h5ad", ".zarr"])
def test_columns_of_obs_of_every_kind(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path / f"x{ending}")
    expected: dict[str, list[Any]] = {
        "sex": list(SEX), "text": list(SEX), "age": list(range(N)), "nullable": [None, *range(1, N)],
        "gap": [None, *SEX[1:]], "flag": list(SEX == "m"), "dose": list(np.arange(N) % 2 * 2.5),
    }  # fmt: skip
    for name, values in expected.items():
        assert open_file(path, ReadOptions(group=name)).groups.tolist() == values


def test_wrong_choices_list_the_right_ones(tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5ad")
    lines = {
        "--layer must name a layer of the file: got 'counts'; it has the layers doubled": ReadOptions(layer="counts"),
        "--group must name a column of obs: got 'x'; it has sex, text, age, nullable, gap": ReadOptions(group="x"),
        "--id must name a column of obs: got 'y'; it has sex, text": ReadOptions(id="y"),
        "--select must name columns of the file: got 'z'; it has gene0, gene1": ReadOptions(select=("z",)),
        "--dataset must be left out for": ReadOptions(dataset="X"),
    }
    for line, wanted in lines.items():
        with pytest.raises(InputError) as caught:
            open_file(path, wanted)
        assert str(caught.value).startswith(line)
    with h5py.File(path, "r+") as file:
        del file["X"]
    with pytest.raises(InputError, match=r"FILE must have an X: got x\.h5ad; name a layer with --layer: .* doubled"):
        open_file(path)


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_names_that_are_not_unique(tmp_path: Path) -> None:
    adata = adata_of()
    adata.var_names = ["a", "b", "b", *GENES[3:]]
    adata.write_h5ad(tmp_path / "x.h5ad")
    with pytest.raises(InputError, match=r"got 'b' more than once; call adata\.var_names_make_unique\(\)"):
        open_file(tmp_path / "x.h5ad")
    assert open_file(tmp_path / "x.h5ad", ReadOptions(drop=("b",))).shape == (N, D - 2)


def test_files_before_anndata_0_8(tmp_path: Path) -> None:
    """Categories that an attribute points to."""
    path = written(tmp_path / "x.h5ad", "csr")
    with h5py.File(path, "r+") as file:
        codes, categories = file["obs/sex/codes"][:], file["obs/sex/categories"][:]
        del file["obs/sex"]
        file["obs/__categories/sex"], file["obs/sex"] = categories, codes
        file["obs/sex"].attrs["categories"] = file["obs/__categories/sex"].ref
    table = open_file(path, ReadOptions(group="sex"))
    assert list(table.groups) == list(SEX)
    same_fit(table, X)


def test_files_before_anndata_0_7_are_refused(tmp_path: Path) -> None:
    """They have arrays of records for obs and var."""
    path = tmp_path / "x.h5ad"
    obs = np.array(list(zip(CELLS, SEX == "m", strict=True)), dtype=[("index", "S9"), ("sex", "i1")])
    with h5py.File(path, "w") as file:
        file["X"], file["obs"], file["var"] = X, obs, np.array([(g,) for g in GENES], dtype=[("index", "S9")])
    with pytest.raises(
        InputError, match=r"^FILE must be of anndata 0\.7 or later: got x\.h5ad with records for obs; read"
    ):
        open_file(path)


def _set(where: str, at: int, value: int) -> Any:
    def change(file: h5py.File) -> None:
        file[where][at] = value

    return change


def _replace(where: str, values: Any) -> Any:
    def change(file: h5py.File) -> None:
        attrs = dict(file[where].attrs)
        del file[where]
        file[where] = values
        file[where].attrs.update(attrs)

    return change


def _shape(shape: Any) -> Any:
    def change(file: h5py.File) -> None:
        file["X"].attrs["shape"] = shape

    return change


BROKEN = {
    "indptr falls": _set("X/indptr", 5, 10**6),
    "indptr below zero": _set("X/indptr", 0, -1),
    "indptr too long": _replace("X/indptr", np.arange(N + 40)),
    "indptr too short": _replace("X/indptr", np.arange(5)),
    "indptr of floats": _replace("X/indptr", np.linspace(0, 9, N + 1)),
    "index too large": _set("X/indices", 7, D + N),
    "index negative": _set("X/indices", 7, -3),
    "indices of text": _replace("X/indices", np.array(["a"], dtype="S1")),
    "data too short": _replace("X/data", np.ones(3)),
    "data 2-D": _replace("X/data", np.ones((3, 3))),
    "shape wrong": _shape((N + 1, D + 1)),
    "shape huge": _shape((10**15, 10**15)),
    "shape of one": _shape((5,)),
    "shape negative": _shape((-5, -5)),
    "shape of text": _shape("abc"),
    "names missing": lambda file: file.__delitem__("var"),
    "names too few": _replace("var/_index", np.array(["a", "b"], dtype="S1")),
    "names not text": _replace("var/_index", np.full(D, b"\xff\xfe", dtype="S2")),
    "codes too large": _set("obs/sex/codes", 3, 2),
    "codes negative": _set("obs/sex/codes", 3, -2),
    "matrix a type": _replace("X", np.dtype("f8")),
    "matrix unknown": lambda file: file["X"].attrs.__setitem__("encoding-type", "coo_matrix"),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_parts_that_do_not_fit_are_refused(what: str, form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5ad", form)
    with h5py.File(path, "r+") as file:
        BROKEN[what](file)
    with pytest.raises(InputError) as caught:
        open_file(path, ReadOptions(group="sex")).values  # noqa: B018
    assert "\n" not in str(caught.value)
    assert caught.value.argument in ("FILE", "X")


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_damaged_files_get_one_line(form: str, compression: str | None, tmp_path: Path) -> None:
    content = written(tmp_path / "whole.h5ad", form, compression=compression).read_bytes()
    path, rng, refused = tmp_path / "damaged.h5ad", np.random.default_rng(0), 0
    for _ in range(8):
        path.write_bytes(damaged(content, rng))
        refused += is_refused(path, ReadOptions(group="sex"))
    assert refused > 1


def test_a_heap_that_hdf5_would_walk_for_ever_is_refused(tmp_path: Path) -> None:
    content = bytearray(written(tmp_path / "x.h5ad").read_bytes())
    at = content.rfind(b"GCOL")
    content[at + 16 : at + 18], content[at + 24 : at + 32] = bytes(2), bytes(8)  # index and size of the first entry
    (tmp_path / "x.h5ad").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.h5ad \(a heap of strings that is damaged\)"):
        open_file(tmp_path / "x.h5ad")


@pytest.mark.parametrize("name", ["X", "var", "obs", "layers", "X/data", "var/_index"])
def test_parts_of_an_anndata_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5ad", "csr")
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = h5py.ExternalLink("other.h5ad", name)
    label = name.rpartition("/")[2]
    with pytest.raises(InputError, match=f"hold its data itself: got a.h5ad with '{label}', a link; "):
        open_file(path)


@pytest.mark.parametrize("ending", [".h5ad", ".zarr"])
def test_a_file_with_raw_says_that_x_is_read(ending: str, tmp_path: Path) -> None:
    assert open_file(written(tmp_path / f"plain{ending}")).notes == ()
    adata = adata_of(layers={"doubled": 2 * X})
    adata.raw = adata.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (adata.write_zarr if ending == ".zarr" else adata.write_h5ad)(tmp_path / f"x{ending}")
    for layer, name in ((None, "X"), ("doubled", "layer 'doubled'")):
        table = open_file(tmp_path / f"x{ending}", ReadOptions(layer=layer))
        assert table.notes == (f"values are those of {name}; the file has raw too, which is not looked at",)
        np.testing.assert_array_equal(table.values, X if layer is None else 2 * X)
