"""NumPy's archives: mapped or unpacked, dense or sparse, never unpickled."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsemean._data import as_table, open_file
from sparsemean._data.matrices import Npy
from sparsemean._data.table import ReadOptions
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from fuzzed import damaged

rng = np.random.default_rng(0)
X = rng.standard_t(2, (60, 7)) + 3.0 * (np.arange(7) < 2)
THIN = np.where(X > 1, X, 0.0)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_same_numbers_as_the_array(save: Any, dtype: Any, order: Any, tmp_path: Path) -> None:
    values = np.asarray(X * 5, dtype=dtype, order=order)
    save(tmp_path / "x.npz", data=values)
    table = open_file(tmp_path / "x.npz")
    assert table.source.dtype == np.dtype(dtype)
    assert isinstance(table.source, Npy) == (save is np.savez)
    np.testing.assert_array_equal(table.values, values)
    ours, theirs = fit(table, random_state=0), fit(as_table(values), random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
def test_sparse_matrices_stay_sparse(kind: Any, tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", kind(THIN))
    table = open_file(tmp_path / "x.npz")
    assert table.source.sparse
    np.testing.assert_array_equal(table.values, THIN)
    ours, theirs = fit(table, random_state=0), fit(as_table(THIN), random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


def test_one_of_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", first=X, second=2 * X, flat=X[0])
    np.testing.assert_array_equal(open_file(tmp_path / "x.npz", ReadOptions(dataset="second")).values, 2 * X)
    for dataset, line in (
        (None, "--dataset must name one of several arrays: got none; x.npz has first, second, flat"),
        ("third", "--dataset must name an array of the file: got 'third'; x.npz has first, second, flat"),
        ("flat", "X must be 2-D, rows by features: got 1-D"),
    ):
        with pytest.raises(InputError, match=line):
            open_file(tmp_path / "x.npz", ReadOptions(dataset=dataset))
    with pytest.raises(InputError, match=r"--drop must be left out for \.npz files"):
        open_file(tmp_path / "x.npz", ReadOptions(drop=("a",)))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_few_rows_and_gaps(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "x.npz", np.ones((1, 1)))
    with pytest.raises(InputError, match="at least 4 rows"):
        fit(open_file(tmp_path / "x.npz"), random_state=0)
    gap = X.copy()
    gap[4, 3] = np.nan
    save(tmp_path / "x.npz", gap)
    with pytest.raises(InputError, match="NaN in column 3, row 4"):
        fit(open_file(tmp_path / "x.npz"), random_state=0)


def header(shape: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})  # type: ignore[arg-type]
    return file.getvalue()


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", [(10**9, 10**9), (-3, 4), (-60, -7), (60, 8)])
def test_shapes_that_are_not_there(how: int, shape: tuple[int, int], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", how) as archive:
        archive.writestr("x.npy", header(shape) + X.tobytes())
    with pytest.raises(InputError, match=r"FILE must be a complete \.npz file"):
        open_file(tmp_path / "x.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("shape", [(20, 80_000_000), (300_000_000, 20)])
def test_sparse_shapes_that_so_few_bytes_cannot_hold(kind: str, shape: tuple[int, int], tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.eye_array(20, format=kind))
    with np.load(tmp_path / "x.npz") as archive:
        arrays = dict(archive)
    np.savez_compressed(tmp_path / "x.npz", **{**arrays, "shape": np.array(shape)})
    with pytest.raises(InputError, match=r"FILE must be a complete \.npz file: got x\.npz \(shape"):
        open_file(tmp_path / "x.npz")


@pytest.mark.parametrize("shape", [np.zeros(2, [("a", "f8")]), np.array([np.inf, 20]), np.array(["a", "b"])])
def test_sparse_shapes_of_no_whole_numbers(shape: Any, tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.eye_array(20, format="csr"))
    with np.load(tmp_path / "x.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "x.npz", **{**arrays, "shape": shape})
    with pytest.raises(InputError, match=r"FILE must be a complete \.npz file"):
        open_file(tmp_path / "x.npz")


@pytest.mark.parametrize("claimed", [(10**12,), (-60,), (61,)])
def test_parts_of_sparse_matrices_that_are_not_there(claimed: tuple[int], tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(THIN), compressed=False)
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data.npy"] = header(claimed) + bytes(8 * 60)  # type: ignore[arg-type]
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match=r"FILE must be a complete \.npz file"):
        open_file(tmp_path / "x.npz")


def test_objects_are_not_unpickled_and_other_archives_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", np.array([[1, "a"]] * 5, dtype=object))
    with pytest.raises(InputError, match="an array of Python objects"):
        open_file(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(InputError, match="no arrays"):
        open_file(tmp_path / "x.npz")
    for content in (b"", b"P", b"PK\x03\x04" + bytes(40)):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"FILE must be a complete \.npz file: got x\.npz \(.*\); write it again"):
            open_file(tmp_path / "x.npz")


@pytest.mark.parametrize("kind", ["stored", "packed", "sparse"])
def test_damaged_files_never_crash(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    match kind:
        case "stored":
            np.savez(path, X)
        case "packed":
            np.savez_compressed(path, X)
        case _:
            sparse.save_npz(path, sparse.csr_matrix(THIN))
    content, rng = path.read_bytes(), np.random.default_rng(3)
    for _ in range(60):
        path.write_bytes(damaged(content, rng))
        try:
            fit(open_file(path), random_state=0)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
