"""HDF5: datasets of any layout give the numbers of the array, damaged files one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from sparsemean._data import as_table, open_file
from sparsemean._data.chunked import Chunked, way_to_read
from sparsemean._data.matrices import Npy
from sparsemean._data.table import ReadOptions
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from agreeing import is_refused, same_fit, same_values
from fuzzed import damaged

RNG = np.random.default_rng(0)
X = RNG.standard_t(3, (300, 61))
X[:, :4] += [2.0, -1.0, 0.7, 0.5]
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "one chunk": {"chunks": (300, 61)},
    "odd chunks": {"chunks": (7, 11)},
    "rows": {"chunks": (1, 61), "compression": "gzip"},
    "columns": {"chunks": (300, 1), "compression": "lzf", "shuffle": True},
    "guessed": {"chunks": True, "fletcher32": True},
}


def written(path: Path, values: Any = X, name: str = "x", **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=values, **options)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_numbers_of_the_array(layout: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5", **LAYOUTS[layout])
    table = open_file(path)
    same_values(table, X)
    same_fit(table, X)
    with h5py.File(path) as file:
        same_fit(as_table(file["x"]), X)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i2", "u1", "bool"])
@pytest.mark.parametrize("chunks", [None, (100, 10)])
def test_every_type(dtype: str, chunks: Any, tmp_path: Path) -> None:
    values = {"u1": np.abs(X), "bool": X > 0}.get(dtype, X).astype(dtype)
    table = open_file(written(tmp_path / "x.hdf5", values, chunks=chunks))
    np.testing.assert_array_equal(table.values, values)
    same_fit(table, values)


def test_one_stretch_is_mapped_and_nothing_else_is(tmp_path: Path) -> None:
    assert isinstance(open_file(written(tmp_path / "a.h5")).source, Npy)
    assert isinstance(open_file(written(tmp_path / "b.h5", chunks=(10, 10))).source, Chunked)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = X
        assert isinstance(as_table(file["x"]).source, Chunked)  # may still be in h5py's hands
        file.create_dataset("never written", (300, 61), dtype="f8", fillvalue=2.5)
    with h5py.File(tmp_path / "c.h5") as file:
        np.testing.assert_array_equal(as_table(file["never written"]).values, np.full((300, 61), 2.5))


@pytest.mark.parametrize(
    ("shape", "chunks", "way"),
    [
        ((10_000, 20_000), (313, 625), ("columns", 625)),
        ((1_000_000, 1_000), (1_000, 1_000), ("rows", 1_000)),
        ((1_000_000, 1_000), (1_000_000, 1), ("columns", 1)),
        ((1_000_000, 1_000), (999, 1_000), ("rows", 999)),
        ((100_000, 10_000), (5_000, 100), ("columns", 100)),
        ((4_000_000, 1_000), (4_000_000, 100), ("columns", 8)),
        ((300, 61), (1_000, 1_000), ("columns", 61)),
    ],
)
def test_the_direction_that_reads_each_chunk_once(shape: Any, chunks: Any, way: Any) -> None:
    assert way_to_read(shape, chunks, 8) == way


def test_columns_taken_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsemean._data.chunked.AT_ONCE", 300 * 8 * 25)
    source = open_file(written(tmp_path / "x.h5", chunks=(300, 10))).source
    read: list[int] = []
    block = source.block
    monkeypatch.setattr(source, "block", lambda r, c: (read.append(c.stop - c.start), block(r, c))[1])
    columns = np.arange(0, 61, 4)
    np.testing.assert_array_equal(source.take(columns), X[:, columns])
    assert max(read) <= 20
    assert len(read) == 4


def test_the_dataset_is_named_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["first"], file["second"], file["vector"], file["text"] = X, 2 * X, X[0], "hello"
        file["a/third"] = 3 * X
    np.testing.assert_array_equal(open_file(path, ReadOptions(dataset="second")).values, 2 * X)
    np.testing.assert_array_equal(open_file(path, ReadOptions(dataset="a/third")).values, 3 * X)
    line = "--dataset must name one of several arrays: got none; x.h5 has first, second"
    with pytest.raises(InputError, match=line):
        open_file(path)
    for name in ("vector", "a", "/", "b", "text"):
        with pytest.raises(InputError, match=r"--dataset must name a matrix .*first, second"):
            open_file(path, ReadOptions(dataset=name))
    with pytest.raises(InputError, match=r"--layer must be left out for \.h5 files"):
        open_file(path, ReadOptions(layer="counts"))


def test_a_file_without_a_matrix_says_what_it_has(tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5", X[0])
    with pytest.raises(InputError, match=r"FILE must hold a matrix of numbers: got x\.h5 with 1-D arrays of float64"):
        open_file(path)
    with h5py.File(path, "w"):
        pass
    with pytest.raises(InputError, match=r"x\.h5 with nothing in it"):
        open_file(path)
    with pytest.raises(InputError, match=r"x\.h5 with groups; --dataset GROUP/NAME names what lies in a group"):
        open_file(written(path, name="a/x"))
    with pytest.raises(InputError, match=r"x\.h5 with 2-D arrays of complex128"):
        open_file(written(path, X + 1j))


def test_shapes_beyond_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**9, 10**4), dtype="f8", chunks=(1000, 1000))
    with pytest.raises(InputError, match=r"be a complete \.h5 file: got x\.h5 \(shape \(1000000000, 10000\) in"):
        open_file(path)


@pytest.mark.parametrize("shape", [(10**8, 1), (1, 10**8)])
def test_more_rows_or_columns_than_the_file_can_tell_of_are_refused(shape: tuple[int, int], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", shape, dtype="i1", chunks=(1, 1))
    with pytest.raises(InputError, match=r"be a complete \.h5 file: got x\.h5 \(100,000,000 chunks in"):
        open_file(tmp_path / "x.h5")


def test_more_chunks_than_the_file_can_list_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (10**6, 40), dtype="?", chunks=(1, 10))
    for wanted in (ReadOptions(), ReadOptions(dataset="x")):
        with pytest.raises(InputError, match=r"be a complete \.h5 file: got x\.h5 \(4,000,000 chunks in"):
            open_file(tmp_path / "x.h5", wanted)


def test_an_array_of_a_closed_file_is_one_line(tmp_path: Path) -> None:
    with h5py.File(written(tmp_path / "x.h5", chunks=(10, 10))) as file:
        table, dataset = as_table(file["x"]), file["x"]
    for late in (lambda: as_table(dataset), lambda: fit(table, random_state=0)):
        with pytest.raises(InputError, match="X must be a complete HDF5 dataset in an open file"):
            late()


@pytest.mark.parametrize("layout", ["contiguous", "odd chunks", "rows", "guessed"])
def test_damaged_files_get_one_line(layout: str, tmp_path: Path) -> None:
    content = written(
        tmp_path / "whole.h5", X[:64], **{**LAYOUTS[layout], "chunks": (7, 11) if layout != "contiguous" else None}
    ).read_bytes()
    path, rng, refused = tmp_path / "damaged.h5", np.random.default_rng(0), 0
    for _ in range(12):
        path.write_bytes(damaged(content, rng))
        refused += is_refused(path)
    assert refused > 2
