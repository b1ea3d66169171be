"""Zarr arrays of both formats: the numbers of the array whatever the chunks, damaged folders one line."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from scipy import sparse
from zarr.core.sync import sync

from sparsemean._data import as_table, open_file
from sparsemean._data.table import ReadOptions
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from agreeing import is_refused, same_fit, same_values
from fuzzed import damaged

RNG = np.random.default_rng(0)
X = RNG.standard_t(3, (300, 61))
X[:, :4] += [2.0, -1.0, 0.7, 0.5]
LAYOUTS: dict[str, dict[str, Any]] = {
    "one chunk": {"chunks": (300, 61)},
    "larger than the array": {"chunks": (512, 100)},
    "odd chunks": {"chunks": (7, 11)},
    "rows": {"chunks": (1, 61)},
    "columns": {"chunks": (300, 1)},
    "guessed": {},
    "format 2": {"chunks": (50, 20), "zarr_format": 2},
    "format 2, columns first": {"chunks": (50, 20), "zarr_format": 2, "order": "F"},
    "shards": {"chunks": (10, 10), "shards": (100, 30)},
    "plain": {"chunks": (64, 16), "compressors": None},
}


def written(path: Path, values: Any = X, **options: Any) -> Path:
    zarr.create_array(path, data=values, **options)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_numbers_of_the_array(layout: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.zarr", **LAYOUTS[layout])
    table = open_file(path)
    same_values(table, X)
    same_fit(table, X)
    same_fit(as_table(zarr.open_array(path, mode="r")), X)


@pytest.mark.parametrize("dtype", ["<f4", "<f2", "<i2", "u1", "bool"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_type(dtype: str, zarr_format: int, tmp_path: Path) -> None:
    values = {"u1": np.abs(X), "bool": X > 0}.get(dtype, X).astype(dtype)
    table = open_file(written(tmp_path / "x.zarr", values, chunks=(64, 16), zarr_format=zarr_format))
    np.testing.assert_array_equal(table.values, values)
    same_fit(table, values)


def test_stripes_of_rows_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chunked.AT_ONCE", "source.AT_ONCE"):
        monkeypatch.setattr(f"sparsemean._data.{name}", 100 * 61 * 8)
    monkeypatch.setattr("sparsemean._evidence.counting.engines.AT_ONCE", 100 * 61 * 8)
    table = open_file(written(tmp_path / "x.zarr", chunks=(32, 61)))
    assert (table.source.along, table.source.grain) == ("rows", 32)
    same_fit(table, X)


def test_the_array_is_named_where_a_group_has_several(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("first", data=X)
    root.create_array("vector", data=X[0])
    same_fit(open_file(tmp_path / "x.zarr"), X)
    root.create_array("second", data=2 * X)
    np.testing.assert_array_equal(open_file(tmp_path / "x.zarr", ReadOptions(dataset="second")).values, 2 * X)
    with pytest.raises(InputError, match=r"one of several arrays: got none; x\.zarr has first, second"):
        open_file(tmp_path / "x.zarr")
    for name in ("vector", "a", "b"):
        with pytest.raises(InputError, match=r"--dataset must name a matrix .*first, second"):
            open_file(tmp_path / "x.zarr", ReadOptions(dataset=name))
    with pytest.raises(InputError, match=r"--group must be left out for \.zarr arrays"):
        open_file(tmp_path / "x.zarr", ReadOptions(group="sex"))


def test_what_is_no_matrix_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "file.zarr").write_bytes(b"hello")
    written(tmp_path / "vector.zarr", X[0])
    zarr.open_group(tmp_path / "group.zarr", mode="w")
    zarr.create_array(tmp_path / "huge.zarr", shape=(10**9, 10**4), chunks=(1000, 1000), dtype="f8")
    lines = {
        "empty": r"FILE must be (a complete \.zarr folder|readable): got empty\.zarr",
        "file": r"FILE must be (a complete \.zarr folder|readable): got file\.zarr",
        "vector": "X must be 2-D, rows by features: got 1-D",
        "group": r"FILE must hold a matrix of numbers: got group\.zarr with nothing in it",
        "huge": r"FILE must be a complete \.zarr folder: got huge\.zarr \(shape \(1000000000, 10000\) in",
    }
    for name, line in lines.items():
        with pytest.raises(InputError, match=line) as caught:
            open_file(tmp_path / f"{name}.zarr")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_that_are_not_there_are_what_the_format_says_and_are_counted(zarr_format: int, tmp_path: Path) -> None:
    empty = np.where(np.arange(61) < 30, X, 0.0)  # chunks of zeros are not written
    table = open_file(written(tmp_path / "x.zarr", empty, chunks=(100, 10), zarr_format=zarr_format))
    note = "12 of 21 chunks are not in the folder, which by the format of zarr hold its fill value, 0.0"
    assert table.notes == (note,)
    assert as_table(zarr.open_array(tmp_path / "x.zarr", mode="r")).notes == (note,)
    same_fit(table, empty)
    path = written(tmp_path / "nan.zarr", chunks=(100, 10), fill_value=np.nan, zarr_format=zarr_format)
    assert open_file(path).notes == ()
    (path / ("0.1" if zarr_format == 2 else "c/0/1")).unlink()
    (path / "0.0.partial").touch()
    table = open_file(path)
    (note,) = table.notes
    assert note == "1 of 21 chunks are not in the folder, which by the format of zarr are missing values"
    found = fit(table, missing="omit", random_state=0)
    assert found.counts.missing is not None
    assert found.counts.missing[[9, 10, 19, 20]].tolist() == [0, 100, 100, 0]
    assert note in found.status.messages
    with pytest.raises(InputError, match="NaN in column 10, row 0"):
        fit(table, random_state=0)


def test_shards_that_are_not_there_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "x.zarr", **LAYOUTS["shards"])
    (path / "c/1/2").unlink()
    assert open_file(path).notes[0].startswith("1 of 9 chunks")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_far_more_chunks_than_the_folder_has_are_not_asked_for_one_by_one(zarr_format: int, tmp_path: Path) -> None:
    chunks = {"chunks": (10, 5), "zarr_format": zarr_format}
    path = edited(written(tmp_path / "x.zarr", X[:40, :5], **chunks), shape=[40, 1_000_000])
    with pytest.raises(InputError, match=r"x\.zarr \(799,996 of 800,000 chunks are not in the folder\)"):
        open_file(path)
    with pytest.raises(InputError, match=r"x\.zarr \(shape \(1000000, 1000000\) in"):
        open_file(edited(path, shape=[10**6, 10**6], **_chunks((10**6, 10**6), zarr_format)))


def _chunks(shape: tuple[int, int], zarr_format: int) -> dict[str, Any]:
    if zarr_format == 2:
        return {"chunks": shape}
    return {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}}}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_beside_a_damaged_one_are_left_without_a_word(
    zarr_format: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=zarr_format)
    for name in "abcdefgh":
        path = Path(group.create_array(name, data=X).store_path.store.root, name)
        (path / ("zarr.json" if zarr_format == 3 else ".zarray")).write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING), pytest.raises(InputError, match=r"complete \.zarr folder: got x\.zarr"):
        open_file(tmp_path / "x.zarr")
    gc.collect()
    assert caplog.text == ""


def test_links_between_folders_are_not_followed_for_ever(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("values", data=X)
    group.create_group("a")
    for name in ("back", "a/back", "again", "a/again"):
        (tmp_path / "x.zarr" / name).symlink_to(tmp_path / "x.zarr", target_is_directory=True)
    (tmp_path / "x.zarr/all").symlink_to("/", target_is_directory=True)
    table = open_file(tmp_path / "x.zarr")
    np.testing.assert_array_equal(table.values, X)
    table.check_unchanged()


def edited(path: Path, **changes: Any) -> Path:
    """Change what the folder says of its array."""
    file = path / ("zarr.json" if (path / "zarr.json").exists() else ".zarray")
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return path


class Harm:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.fixture
def harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is there once a pickle was opened, with packages that open one as older ones did."""
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    monkeypatch.setattr("zarr.core.metadata.v2.get_object_codec_id", lambda _: None, raising=False)
    return tmp_path / "harm"


def test_a_pickle_is_never_opened(harm: Path, tmp_path: Path) -> None:
    rule = r"^FILE must use codecs that are known: got x\.zarr with 'pickle'; write it again with zstd"
    for place in ({"filters": [{"id": "pickle"}]}, {"compressor": {"id": "pickle"}, "filters": None}):
        path = written(tmp_path / "x.zarr", X, chunks=(300, 61), zarr_format=2, overwrite=True)
        edited(path, **{"compressor": None, **place})
        (path / "0.0").write_bytes(pickle.dumps(Harm(harm)))
        with pytest.raises(InputError, match=rule):
            open_file(path)
        with pytest.raises(InputError, match=r"^X must use codecs that are known: got .*'pickle'"):
            as_table(zarr.open_array(path, mode="r"))
    assert not harm.exists()


def test_a_pickle_beside_the_matrix_is_never_opened(harm: Path, tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    root.attrs["encoding-type"] = "anndata"
    root.create_array("X", data=X)
    for name, size in (("var", 61), ("obs", 300)):
        root.create_group(name, attributes={"_index": "number", "column-order": ["age"]})
        for column in ("number", "age"):
            root.create_array(f"{name}/{column}", data=np.arange(size), compressors=None)
    age = edited(tmp_path / "x.zarr/obs/age", filters=[{"id": "pickle"}])
    (age / "0").write_bytes(pickle.dumps(Harm(harm)))
    same_values(open_file(tmp_path / "x.zarr"), X)  # a column that nobody asks for does no harm
    with pytest.raises(InputError, match="use codecs that are known"):
        open_file(tmp_path / "x.zarr", ReadOptions(group="age"))
    assert not harm.exists()


class Unknown(zarr.codecs.GzipCodec):
    @classmethod
    def from_dict(cls, _: Any) -> Any:
        return cls()

    def to_dict(self) -> Any:
        return {"name": "org.example"}


def test_codecs_inside_of_shards_are_looked_at(tmp_path: Path) -> None:
    zarr.registry.register_codec("org.example", Unknown)
    for shards in (None, (100, 30)):
        options: dict[str, Any] = {"chunks": (10, 10), "shards": shards, "compressors": zarr.codecs.GzipCodec()}
        path = written(tmp_path / "x.zarr", overwrite=True, **options)
        text = (path / "zarr.json").read_text()
        assert not is_refused(path)
        (path / "zarr.json").write_text(text.replace('"gzip"', '"org.example"'))
        with pytest.raises(InputError, match=r"got x\.zarr with 'org.example'"):
            open_file(path)


def test_a_compressed_matrix_of_more_columns_than_so_few_bytes_can_hold(tmp_path: Path) -> None:
    group, matrix = zarr.open_group(tmp_path / "x.zarr", mode="w").create_group("m"), sparse.csr_array(np.eye(20))
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name))
    group.attrs.update({"encoding-type": "csr_matrix", "shape": [20, 20]})
    np.testing.assert_array_equal(open_file(tmp_path / "x.zarr", ReadOptions(dataset="m")).values, np.eye(20))
    group.attrs["shape"] = [20, 80_000_000]
    with pytest.raises(InputError, match=r"x\.zarr \(shape \(20, 80000000\) in"):
        open_file(tmp_path / "x.zarr", ReadOptions(dataset="m"))


def test_known_codecs_are_read(tmp_path: Path) -> None:
    codecs = zarr.codecs
    for options in (
        {"compressors": codecs.BloscCodec()},
        {"compressors": codecs.ZstdCodec(), "filters": codecs.TransposeCodec(order=(1, 0))},
        {"zarr_format": 2, "compressors": numcodecs.LZ4(), "filters": [numcodecs.Delta("f8"), numcodecs.Shuffle(8)]},
    ):
        path = written(tmp_path / "x.zarr", np.round(X), chunks=(50, 20), overwrite=True, **options)
        np.testing.assert_array_equal(open_file(path).values, np.round(X))


def test_reads_beside_a_damaged_chunk_end_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "x.zarr", chunks=(10, 10))
    for file in (path / "c").rglob("*/*"):
        file.write_bytes(b"damaged")

    async def others() -> int:
        return len(asyncio.all_tasks()) - 1

    with caplog.at_level(logging.WARNING), pytest.raises(InputError, match="Zstd decompression error"):
        fit(open_file(path), random_state=0)
    assert sync(others()) == 0
    gc.collect()
    assert caplog.text == ""


def test_a_source_is_copied_with_its_array(tmp_path: Path) -> None:
    source = open_file(written(tmp_path / "x.zarr")).source
    np.testing.assert_array_equal(copy.copy(source).take(np.array([3])), X[:, [3]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source)).take(np.array([3])), X[:, [3]])


@pytest.mark.parametrize("layout", ["odd chunks", "format 2", "shards", "plain"])
def test_damaged_folders_get_one_line(layout: str, tmp_path: Path) -> None:
    whole, path = written(tmp_path / "whole.zarr", X[:64, :20], **LAYOUTS[layout]), tmp_path / "damaged.zarr"
    rng, refused = np.random.default_rng(0), 0
    for trial in range(12):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(whole, path)
        files = sorted(file for file in path.rglob("*") if file.is_file())
        described = [file for file in files if file.name in ("zarr.json", ".zarray", ".zattrs")]
        file = rng.choice(np.array(described if trial % 2 else files, dtype=object))
        file.write_bytes(damaged(file.read_bytes(), rng))
        refused += is_refused(path)
    assert refused > 2


def test_chunks_that_were_never_written_are_no_damage(tmp_path: Path) -> None:
    array = zarr.create_array(store=tmp_path / "x.zarr", shape=(6000, 10_000), chunks=(500, 500), dtype="f8")
    array[:50, :20] = 3.0
    table = open_file(tmp_path / "x.zarr")
    assert table.shape == (6000, 10_000)
    assert table.source.take(np.array([0, 30])).sum() == 150
