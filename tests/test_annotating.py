"""Estimates back in the file: AnnData reads them, finds everything else as it was, and a failure leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean import SparseMeanDifference, load, sparse_mean
from sparsemean._data import open_file
from sparsemean._data.table import ReadOptions
from sparsemean._fit.one_sample import fit
from sparsemean._fit.two_sample import compare
from sparsemean._fit.write import write_h5ad
from sparsemean.errors import InputError
from sparsemean.result import Estimate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

RNG = np.random.default_rng(2)
N, D = 200, 25
X = RNG.standard_t(3, (N, D))
X[:, :3] += [2.0, -1.5, 1.0]
X[:7] += 30.0
COLUMNS = {
    "estimate": lambda e: e.mean,
    "ci_low": lambda e: e.intervals[:, 0],
    "ci_high": lambda e: e.intervals[:, 1],
    "p_value": lambda e: e.p_values,
    "p_adjusted": lambda e: e.p_adjusted,
    "q_value": lambda e: e.q_values,
    "radius": lambda e: e.radius,
    "max_contamination": lambda e: e.max_contamination,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    obs = pd.DataFrame({"sex": pd.Categorical(np.where(np.arange(N) % 2, "m", "f"))}, index=[f"c{i}" for i in range(N)])
    obs["patient"] = np.arange(N) // 4
    var = pd.DataFrame({"length": np.arange(D)}, index=pd.Index([f"g{i}" for i in range(D)], name="symbol"))
    adata = anndata.AnnData(X, obs=obs, var=var, uns={"title": "a study"}, obsm={"pca": X[:, :2]})
    adata.layers["counts"] = sparse.csr_matrix(np.round(X))
    adata.write_h5ad(tmp_path / "in.h5ad")
    return tmp_path / "in.h5ad"


def same_but_for_what_was_added(written: Path, original: Path) -> Any:
    """What AnnData reads of the new file is what it read of the old one, and more."""
    new, old = anndata.read_h5ad(written), anndata.read_h5ad(original)
    np.testing.assert_array_equal(new.X, old.X)
    np.testing.assert_array_equal(new.layers["counts"].toarray(), old.layers["counts"].toarray())
    np.testing.assert_array_equal(new.obsm["pca"], old.obsm["pca"])
    for frame, before in ((new.obs, old.obs), (new.var, old.var)):
        kept = [name for name in frame.columns if not name.startswith("sparsemean_")]
        pd.testing.assert_frame_equal(frame[kept], before)
    assert new.uns["title"] == "a study"
    return new


def check_genes(adata: Any, estimate: Estimate, genes: list[int]) -> None:
    rest = np.setdiff1d(np.arange(D), genes)
    for name, get in COLUMNS.items():
        column = adata.var[f"sparsemean_{name}"].to_numpy()
        np.testing.assert_array_equal(column[genes], get(estimate))
        assert np.isnan(column[rest]).all()
    selected = adata.var["sparsemean_selected"]
    assert selected.dtype == bool
    assert np.flatnonzero(selected).tolist() == [genes[i] for i in estimate.support]


def test_everything_found_is_there_and_the_rest_unchanged(path: Path) -> None:
    before = path.read_bytes()
    estimate = fit(open_file(path), random_state=0)
    write_h5ad(estimate, path, path.with_name("out.h5ad"))
    adata = same_but_for_what_was_added(path.with_name("out.h5ad"), path)
    check_genes(adata, estimate, list(range(D)))
    np.testing.assert_array_equal(adata.obs["sparsemean_score"], estimate.rows.scores)
    assert np.flatnonzero(adata.obs["sparsemean_suspect"]).tolist() == sorted(estimate.rows.suspects)
    assert estimate.rows.suspects.size
    said = adata.uns["sparsemean"]
    assert json.loads(said["json"])["seed"] == estimate.seed
    assert (said["contamination"], said["level"], said["selection"]) == (estimate.plan.contamination, 0.05, "fwer")
    assert path.read_bytes() == before
    assert path.with_name("out.h5ad").stat().st_size < 2 * len(before)  # what was reserved was cut off again


def test_genes_not_looked_at_and_an_earlier_run(path: Path) -> None:
    write_h5ad(fit(open_file(path), random_state=0), path, path.with_name("first.h5ad"))
    chosen = [2, *range(10, 20)]
    again = fit(open_file(path, ReadOptions(select=("g2", "g1?"))), random_state=1)
    write_h5ad(again, path.with_name("first.h5ad"), path.with_name("second.h5ad"))
    adata = same_but_for_what_was_added(path.with_name("second.h5ad"), path)
    check_genes(adata, again, chosen)
    assert adata.var.columns.is_unique
    assert adata.uns["sparsemean"]["seed"] == str(again.seed)


def test_two_groups_subjects_and_fits_without_names(path: Path) -> None:
    table = open_file(path, ReadOptions(group="sex"))
    (estimate,) = compare(table, table.groups).results.values()
    write_h5ad(estimate, path, path.with_name("out.h5ad"), key="by_sex")
    adata = anndata.read_h5ad(path.with_name("out.h5ad"))
    np.testing.assert_array_equal(adata.var["by_sex_p_value"], estimate.p_values)
    subjects = np.arange(N) // 4
    estimate = fit(open_file(path), groups=subjects, random_state=0)
    write_h5ad(estimate, path, path.with_name("out.h5ad"))
    adata = anndata.read_h5ad(path.with_name("out.h5ad"))
    np.testing.assert_array_equal(adata.obs["sparsemean_score"], estimate.rows.scores)
    assert adata.obs.groupby("patient")["sparsemean_score"].nunique().max() == 1
    from sparsemean import sparse_mean

    estimate = sparse_mean(X, random_state=0, screen_rows=False)
    write_h5ad(estimate, path, path.with_name("out.h5ad"))
    check_genes(anndata.read_h5ad(path.with_name("out.h5ad")), estimate, list(range(D)))


def test_the_input_is_replaced_only_if_told(path: Path) -> None:
    table = open_file(path)
    estimate, before = fit(table, random_state=0), path.read_bytes()
    with pytest.raises(InputError, match=r"output must differ from the input: .* allow it with overwrite=True"):
        write_h5ad(estimate, path, path)
    assert path.read_bytes() == before
    copy = path.with_name("copy.h5ad")
    copy.write_bytes(before)
    write_h5ad(estimate, path, path, overwrite=True)
    check_genes(same_but_for_what_was_added(path, copy), estimate, list(range(D)))
    np.testing.assert_array_equal(table.values, X)  # what was open stays what it was


def test_another_file_is_refused_and_nothing_left_behind(path: Path) -> None:
    estimate, out = fit(open_file(path), random_state=0), path.with_name("out.h5ad")
    other = path.with_name("other.h5ad")
    adata = anndata.read_h5ad(path)
    lines: dict[str, Any] = {
        "with no gene 'g20'": adata[:, :20],
        "with 150 cells where the fit had 200 rows": adata[:150],
    }
    for line, changed in lines.items():
        changed.copy().write_h5ad(other)
        with pytest.raises(InputError, match=f"FILE must be the file of the fit: got other.h5ad {line}"):
            write_h5ad(estimate, other, out)
    other.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(InputError):
        write_h5ad(estimate, other, out)
    for bad in ({"key": "a/b"}, {"key": ""}):
        with pytest.raises(InputError, match="key must be a plain name"):
            write_h5ad(estimate, path, out, **bad)
    with pytest.raises(InputError, match="FILE must be an existing file"):
        write_h5ad(estimate, path.with_name("missing.h5ad"), out)
    with pytest.raises(InputError, match="output must be in an existing directory"):
        write_h5ad(estimate, path, path.with_name("no") / "out.h5ad")
    with h5py.File(other, "w") as file:
        file["var"], file["obs"] = np.zeros(3, dtype=[("index", "S2")]), np.zeros(3, dtype=[("index", "S2")])
    with pytest.raises(InputError, match=r"be of anndata 0\.7 or later"):
        write_h5ad(estimate, other, out)
    assert sorted(file.name for file in path.parent.iterdir()) == ["in.h5ad", "other.h5ad"]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from sparsemean import sparse_mean
from sparsemean._fit.write import write_h5ad
from sparsemean.errors import InputError
from sparsemean import sparse_mean
from sparsemean._data import open_file
from sparsemean._fit.one_sample import fit
path = Path(sys.argv[1])
estimate = fit(open_file(path), random_state=0)
size = path.stat().st_size
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for more in (-1000, 0, 5000, 1_000_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, resource.RLIM_INFINITY))
    try:
        write_h5ad(estimate, path, path.with_name("out.h5ad"))
    except InputError as error:
        print(error)
    assert [file.name for file in path.parent.iterdir()] == ["in.h5ad"]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are of POSIX")
def test_a_full_disk_is_one_line(path: Path) -> None:
    """Wherever it comes: four sizes that files may have."""
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("output must be written whole: got ") for line in lines)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["external", "soft"])
@pytest.mark.parametrize("name", ["var", "obs", "uns"])
def test_nothing_is_written_through_a_link(name: str, kind: str, path: Path) -> None:
    estimate, other = fit(open_file(path), random_state=0), path.with_name("other.h5ad")
    other.write_bytes(path.read_bytes())
    with h5py.File(path, "r+") as file:
        file.move(name, f"own {name}")
        file[name] = h5py.ExternalLink("other.h5ad", name) if kind == "external" else h5py.SoftLink(f"/own {name}")
    before, here = other.read_bytes(), set(path.parent.iterdir())
    with pytest.raises(InputError, match=f"FILE must hold its data itself: got in.h5ad with '{name}', a link"):
        write_h5ad(estimate, path, path.with_name("out.h5ad"))
    assert other.read_bytes() == before
    assert set(path.parent.iterdir()) == here


def test_a_link_in_the_place_of_an_earlier_run_is_replaced_not_followed(path: Path) -> None:
    estimate, other = fit(open_file(path), random_state=0), path.with_name("other.h5ad")
    other.write_bytes(path.read_bytes())
    with h5py.File(path, "r+") as file:
        for name in ("var/sparsemean_estimate", "obs/sparsemean_score", "uns/sparsemean"):
            file[name] = h5py.ExternalLink("other.h5ad", "X")
    before = other.read_bytes()
    write_h5ad(estimate, path, path.with_name("out.h5ad"))
    check_genes(anndata.read_h5ad(path.with_name("out.h5ad")), estimate, list(range(D)))
    assert other.read_bytes() == before


def test_cells_in_another_order_are_refused(path: Path) -> None:
    data = anndata.read_h5ad(path)
    estimate = sparse_mean(data)
    before = data.obs.columns.tolist()
    with pytest.raises(InputError, match=r"^adata must be the AnnData of the fit: got AnnData with '.*' in row 0"):
        estimate.to_adata(other := data[::-1].copy())
    assert other.obs.columns.tolist() == before
    estimate.to_adata(data)
    assert data.obs["sparsemean_suspect"].to_numpy().nonzero()[0].tolist() == sorted(estimate.rows.suspects)


def as_fitted(data: Any, kind: str) -> Any:
    """A result of what an AnnData has: X, a layer, raw, some genes, groups."""
    sex = data.obs["sex"].to_numpy()
    fits = {
        "one sample": lambda: sparse_mean(data),
        "array": lambda: sparse_mean(data.X),
        "layer": lambda: sparse_mean(data, layer="counts"),
        "raw": lambda: SparseMeanDifference().fit(data.raw.to_adata(), sex).result_,
        "some genes": lambda: sparse_mean(data[:, [7, 2, 1]].copy()),
        "groups": lambda: SparseMeanDifference().fit(data, sex).result_,
        "tests": lambda: SparseMeanDifference().fit(data, np.arange(N) % 3).result_,
        "subjects": lambda: sparse_mean(data, groups=data.obs["patient"].to_numpy()),
        "buckets": lambda: sparse_mean(data, test="buckets"),
    }
    return fits[kind]()


KINDS = ["one sample", "array", "layer", "raw", "some genes", "groups", "tests", "subjects", "buckets"]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_values_of_the_fit_are_marked(kind: str, loaded: bool, path: Path) -> None:
    """Also once a file has lost the names of rows: other values under the same names are other cells."""
    data = anndata.read_h5ad(path)
    data.raw = anndata.AnnData(3.0 * X, obs=data.obs, var=data.var)
    result = as_fitted(data, kind)
    if loaded:
        result.save(path.with_name("e.npz"))
        result = load(path.with_name("e.npz"))
    backwards = data[::-1].copy()
    changes: dict[str, Any] = {
        "twice": lambda values: 2 * values,
        "turned": lambda values: -values,
        "backwards": lambda values: values[::-1],
        "none": lambda values: values * np.nan,
    }
    for change in [None, *changes.values()]:
        other = backwards.copy() if change is None else data.copy()
        if change is not None:
            other.layers["counts"], other.raw = change(data.layers["counts"]), None
            other.X = change(data.X)
        with pytest.raises(InputError, match=r"^adata must be the AnnData of the fit: got AnnData with "):
            result.to_adata(other)
        assert not [name for name in (*other.obs, *other.var, *other.uns) if name.startswith("sparsemean")]
    result.to_adata(data)
    suspect = np.flatnonzero(data.obs["sparsemean_suspect"]).tolist()
    assert suspect == sorted(result.rows.suspects)
    turned = data[:, ::-1].copy()
    if kind not in ("array", "raw"):  # told by names, in any order
        result.to_adata(turned)
        assert np.flatnonzero(turned.obs["sparsemean_suspect"]).tolist() == suspect


def test_rows_that_cannot_be_compared_leave_cells_alone(path: Path) -> None:
    data = anndata.read_h5ad(path)
    halves = np.where(np.arange(N) < N // 2, "a", "b")
    subjects = SparseMeanDifference().fit(data, halves, groups=data.obs["patient"].to_numpy()).result_
    adjusted = SparseMeanDifference().fit(data, halves, covariate=X + RNG.standard_normal((N, D))).result_
    adjusted.to_adata(data, "named")  # by their names, which are there
    assert "named_suspect" in data.obs
    adjusted.save(path.with_name("e.npz"))
    for result in (subjects, load(path.with_name("e.npz"))):
        with pytest.warns(UserWarning, match="^only var has new columns: this fit .* cannot be compared"):
            result.to_adata(data, "unknown")
        assert not [name for name in data.obs if name.startswith("unknown")]
        np.testing.assert_array_equal(data.var["unknown_p_value"], result.p_values)
