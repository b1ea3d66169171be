"""Arrays, frames and files as tables."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import sparse_mean
from sparsemean._data import as_table, open_file
from sparsemean._data.table import FileContext, ReadOptions
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from fuzzed import damaged

X = np.random.default_rng(0).standard_normal((40, 5))
FRAME = pd.DataFrame(X, columns=list("abcde"))


def test_arrays_are_not_copied() -> None:
    for array in (X, X.T[:, ::2], X.astype(np.int8)):
        assert np.shares_memory(as_table(array).values, array)
    homogeneous = pd.DataFrame(X)
    assert np.shares_memory(as_table(homogeneous).values, homogeneous.to_numpy())


def write(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame, or its values alone, to a file of any ending."""
    match path.suffix:
        case ".npy":
            np.save(path, frame.to_numpy())
        case ".npz":
            np.savez(path, frame.to_numpy())
        case ".parquet":
            frame.to_parquet(path)
        case ".tsv":
            frame.to_csv(path, sep="\t", index=False)
        case _:
            frame.to_csv(path, index=False)


PLAIN = (".npy", ".npz")
"""Kinds of file without names of columns."""
ENDINGS = [*PLAIN, ".csv", ".tsv", ".csv.gz", ".parquet"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_give_the_values_names_and_the_same_result(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"data{ending}"
    write(path, FRAME)
    table = open_file(path)
    np.testing.assert_array_equal(table.values, X)
    assert ending in PLAIN or list(table.feature_names) == list("abcde")
    ours, theirs = fit(table, random_state=0), sparse_mean(X, random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


def test_npy_is_mapped_a_stretch_at_a_time(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    block = open_file(tmp_path / "x.npy").source.block(slice(3, 9), slice(1, 4))
    assert isinstance(block.base, np.memmap)
    np.testing.assert_array_equal(block, X[3:9, 1:4])


def test_text_columns_are_refused_unless_named_or_dropped(tmp_path: Path) -> None:
    for path in (tmp_path / "x.csv", tmp_path / "x.parquet"):
        write(path, FRAME.assign(sample=[f"s{i}" for i in range(40)]))
        with pytest.raises(InputError, match="FILE must have numeric columns only: got text in column 'sample'"):
            open_file(path)
        for wanted in (ReadOptions(id="sample"), ReadOptions(group="sample"), ReadOptions(drop=("s*",))):
            np.testing.assert_array_equal(open_file(path, wanted).values, X)


BAD_ARRAYS = {
    "X must be 2-D, rows by features: got 1-D": X[0],
    "X must be 2-D, rows by features: got 3-D": X.reshape(2, 20, 5),
    "X must be 2-D, rows by features: got 0-D": 3.0,
    "X must have features: got 0 feature(s)": np.empty((4, 0)),
    "X must have rows: got 0 sample(s)": np.empty((0, 4)),
    "X must have at least 4 rows: got n_samples = 3": X[:3],
    "X must be real: got complex values": X + 1j,
    "X must be numeric: got dtype <U1": np.array([["a", "b"]] * 9),
    "X must be numeric: got dtype datetime64": np.zeros((9, 2), dtype="datetime64[s]"),
    "X must be a matrix of numbers": [[1, 2], [3]],
    "X must have numeric columns only: got text in column 'n'": FRAME.assign(n="x"),
}


@pytest.mark.parametrize("line", BAD_ARRAYS)
def test_bad_arrays_get_one_line(line: str) -> None:
    with pytest.raises(InputError) as caught:
        sparse_mean(BAD_ARRAYS[line])
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")], ids=["nan", "inf", "-inf"]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_first_column_that_is_not_finite_is_named(value: float, name: str, dtype: type) -> None:
    bad = X.astype(dtype)
    bad[30, 4] = bad[7, 2] = value
    with pytest.raises(InputError) as caught:
        sparse_mean(bad, feature_names=list("abcde"))
    assert str(caught.value).startswith(f"X must not contain NaN or infinity: got {name} in column 2 ('c'), row 7")


def test_sums_that_overflow_are_said_so() -> None:
    with pytest.raises(InputError, match="sums that overflow; divide the values by a constant"):
        sparse_mean(np.full((40, 2), 1e308), random_state=0)


def test_frames_of_several_numeric_types_are_numbers() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0, "c": pd.array(range(40), dtype="Int64")})
    table = as_table(frame)
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.values[:, 2], np.arange(40))
    assert list(as_table(X, pd.Index(list("vwxyz"))).feature_names) == list("vwxyz")


def test_masks_are_not_ignored() -> None:
    with pytest.raises(InputError, match="X must have no mask"):
        as_table(np.ma.masked_greater(X, 1.0))


@pytest.mark.parametrize("slip", ["{}['a']", "[][1]", "None.a", "len(3)", "1 // 0", "nothing", "assert False"])
def test_a_slip_of_ours_is_not_the_fault_of_the_file(slip: str) -> None:
    opened, code = FileContext("x.h5", ".h5 file"), compile(slip, "slip", "exec")
    with pytest.raises(InputError, match=r"FILE must be a complete \.h5 file"), opened.reading():
        exec(code, {"__name__": "library.reading"})
    with pytest.raises((LookupError, AttributeError, TypeError, ArithmeticError, NameError, AssertionError)):  # noqa: SIM117
        with opened.reading():
            exec(code, {"__name__": "sparsemean._fit.data"})
    with pytest.raises(InputError, match=r"FILE must be a complete \.h5 file"), opened.reading(), opened.parsing():
        exec(code, {"__name__": "sparsemean._fit.data"})


def npy(shape: tuple[int, int]) -> bytes:
    """X as a file that claims another shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})  # type: ignore[arg-type]
    return file.getvalue() + X.tobytes()


FILES = {
    "x.doc": (b"1,2", "FILE must end in .npy, "),
    "empty.npy": (b"", "FILE must be a complete .npy file of numbers"),
    "garbage.npy": (b"hello there", "FILE must be a complete .npy file of numbers"),
    "negative.npy": (npy((128, -5)), "X must have features: got -5 feature(s) (shape=(128, -5))"),
    "twice negative.npy": (npy((-40, -5)), "X must have features: got -5 feature(s)"),
    "empty.csv": (b"", "FILE must be a complete .csv file"),
    "binary.csv": (bytes(range(128, 256)) * 4, "FILE must have rows"),
    "ragged.csv": (b"a,b\n1,2\n1,2,3,4\n", "FILE must be a complete .csv file"),
    "text.csv": (b"a,b\nx,y\nz,w\n", "FILE must have numeric columns"),
    "garbage.npz": (b"PK nothing", "FILE must be a complete .npz file"),
    "garbage.parquet": (b"PAR1 nothing", "FILE must be a complete .parquet file"),
    "empty.parquet": (b"", "FILE must be a complete .parquet file"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files_get_one_line(name: str, tmp_path: Path) -> None:
    content, line = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        open_file(tmp_path / name)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_damaged_npy_never_crashes(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", X)
    content, rng = (tmp_path / "whole.npy").read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        (tmp_path / "x.npy").write_bytes(damaged(content, rng))
        try:
            fit(open_file(tmp_path / "x.npy"), random_state=0)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_a_file_cut_short_after_it_was_opened_is_one_line(save: Any, tmp_path: Path) -> None:
    path = tmp_path / ("x.npy" if save is np.save else "x.npz")
    save(path, X)
    table = open_file(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError, match=r"FILE must stay as it is while it is read: got x\.np., cut short since"):
        fit(table, random_state=0)


CUT = """
import os, sys
from sparsemean import _cli
from sparsemean._data.matrices import Npy
block = Npy.block
def cut(self, rows, columns):
    mapped = block(self, rows, columns)
    os.truncate(self.path, 200)
    return mapped
Npy.block = cut
sys.argv = ["sparsemean", "fit", sys.argv[1]]
_cli.main()
"""


def test_a_file_cut_short_while_it_is_counted_is_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((400, 300)))
    done = subprocess.run([sys.executable, "-c", CUT, tmp_path / "x.npy"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("sparsemean: FILE must stay as it is while it is read: got a file that was cut short")
    assert done.stderr.count("\n") == 1


def test_a_heading_that_claims_to_be_long_is_not_made_room_for(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{" + bytes(100))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"complete \.npy file of numbers"):
        open_file(tmp_path / "x.npy")
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_object_npy_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, "a"]] * 5, dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"complete \.npy file of numbers"):
        open_file(tmp_path / "x.npy")


def test_missing_file_and_directory(tmp_path: Path) -> None:
    (tmp_path / "d.npy").mkdir()
    for name in ("missing.npy", "d.npy"):
        with pytest.raises(InputError, match="FILE must be an existing file"):
            open_file(tmp_path / name)


def test_the_index_of_a_frame_names_its_rows() -> None:
    assert as_table(FRAME).row_names is None
    named = FRAME.set_axis([f"s{i}" for i in range(40)])
    assert as_table(named).row_names.tolist()[:2] == ["s0", "s1"]
    assert as_table(named.assign(b=1)).row_names.tolist()[-1] == "s39"
