"""Parquet files: read a few columns at a time, refused from the schema, damaged ones in one line."""

from __future__ import annotations

import decimal
import gc
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparsemean._data import as_table, frames, open_file
from sparsemean._data.table import ReadOptions, Table
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from fuzzed import damaged

rng = np.random.default_rng(0)
X = rng.standard_t(2, (60, 7)) + 3.0 * (np.arange(7) < 2)
FRAME = pd.DataFrame(X, columns=list("abcdefg"))
WHO = [f"s{i}" for i in range(60)]


def write(table: Any, path: Path, **options: Any) -> Path:
    table = pa.Table.from_pandas(table) if isinstance(table, pd.DataFrame) else table
    pq.write_table(table, path, **{"row_group_size": 17, **options})
    return path


def read(table: Any, path: Path, **wanted: Any) -> Table:
    return open_file(write(table, path), ReadOptions(**wanted))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_])
def test_the_same_numbers_as_the_array(kind: type, tmp_path: Path) -> None:
    values = (np.abs(X) * 10 % 200).astype(kind) if kind is not np.bool_ else X > 0
    arrow = pa.table({name: values[:, k] for k, name in enumerate("abcdefg")})
    table = read(arrow, tmp_path / "x.parquet")
    assert table.values.dtype == (np.float32 if kind is np.float32 else np.float64)
    assert table.source.along == "columns"
    np.testing.assert_array_equal(table.values, values)
    np.testing.assert_array_equal(table.source.block(slice(15, 40), slice(2, 5)), values[15:40, 2:5])
    assert list(table.feature_names) == list("abcdefg")
    ours, theirs = fit(table, random_state=0), fit(as_table(values), random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


def test_columns_of_every_numeric_type(tmp_path: Path) -> None:
    cents = [decimal.Decimal(int(c)).scaleb(-2) for c in rng.integers(-(10**9), 10**9, 60)]
    arrow = pa.table({
        "decimal": pa.array(cents, pa.decimal128(12, 2)),
        "gaps": pa.array([None, *range(59)], pa.int32()),
        "yes": pa.array([True, None] * 30),
        "coded": pa.array([1.5, 2.5] * 30).dictionary_encode(),
        "nothing": pa.nulls(60),
        "half": pa.array(np.ones(60, np.float16)),
    })  # fmt: skip
    values = read(arrow, tmp_path / "x.parquet").values
    np.testing.assert_array_equal(values[:, 0], [float(c) for c in cents])
    np.testing.assert_array_equal(values[:, 1], [np.nan, *range(59)])
    np.testing.assert_array_equal(values[:, 2], [1.0, np.nan] * 30)
    np.testing.assert_array_equal(values[:, 3], [1.5, 2.5] * 30)
    assert np.isnan(values[:, 4]).all()
    np.testing.assert_array_equal(values[:, 5], 1.0)


def test_id_group_select_and_drop(tmp_path: Path) -> None:
    frame = FRAME.assign(who=WHO, arm=pd.Categorical(["x", "y"] * 30), gap=["x", None] * 30, n=range(60))
    path = tmp_path / "x.parquet"
    table = read(frame, path, id="who", group="arm", drop=("n", "gap"))
    np.testing.assert_array_equal(table.values, X)
    assert table.row_names is not None
    assert table.groups is not None
    assert table.row_names.tolist() == WHO
    assert table.groups.tolist() == ["x", "y"] * 30
    groups = read(frame, path, group="gap", select=("a",)).groups
    assert groups is not None
    assert groups[1] != groups[1]
    groups = read(frame, path, group="n", select=("a", "c")).groups
    assert groups is not None
    assert groups.dtype.kind == "i"
    with pytest.raises(InputError, match="--id must name a column of the file: got 'whom'"):
        open_file(path, ReadOptions(id="whom"))
    with pytest.raises(InputError, match="--layer must be left out"):
        open_file(path, ReadOptions(layer="x"))


@pytest.mark.parametrize("kind", ["list", "struct"])
def test_lists_name_no_rows(kind: str, tmp_path: Path) -> None:
    path = write(pa.table({"a": X[:, 0], "id": REFUSED[kind]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=rf"^--id must name a column of text or numbers: got 'id' of {kind}<"):
        open_file(path, ReadOptions(id="id"))


def test_the_index_of_a_data_frame_names_the_rows(tmp_path: Path) -> None:
    table = read(FRAME.set_axis(WHO), tmp_path / "x.parquet")
    np.testing.assert_array_equal(table.values, X)
    assert table.row_names is not None
    assert table.row_names.tolist() == WHO
    table = read(FRAME.set_axis(pd.MultiIndex.from_product([list("pqr"), range(20)])), tmp_path / "x.parquet")
    assert table.shape == (60, 7)
    grouped = read(FRAME.set_axis(pd.Index(["x", "y"] * 30, name="arm")), tmp_path / "x.parquet", group="arm").groups
    assert grouped is not None
    assert grouped.tolist() == ["x", "y"] * 30


REFUSED = {
    "text": pa.array(["x"] * 60),
    "coded": pa.array(["x"] * 60).dictionary_encode(),
    "day": pa.array([0] * 60, pa.timestamp("ms")),
    "list": pa.array([[1.0]] * 60),
    "struct": pa.array([{"u": 1}] * 60),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_holds_no_numbers_is_refused_before_it_is_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(pa.table({"a": X[:, 0], kind: REFUSED[kind]}), tmp_path / "x.parquet")
    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", None)
    with pytest.raises(InputError) as caught:
        open_file(path)
    called = {"text": "text", "coded": "text", "day": "dates"}
    what = called.get(kind, str(REFUSED[kind].type).partition("<")[0])
    assert str(caught.value) == (
        f"FILE must have numeric columns only: got {what} in column {kind!r}; "
        f"leave it out with --drop-text or --drop {kind}, or say what one is for: --id, --group, --subject, "
        "--strata or --pairs NAME"
    )
    monkeypatch.undo()
    np.testing.assert_array_equal(open_file(path, ReadOptions(drop=(kind,))).values, X[:, :1])


def test_names_with_dots_and_twice(tmp_path: Path) -> None:
    table = read(pa.table({"x": X[:, 0], "x.y": X[:, 1], "x.y.z": X[:, 2]}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(table.source.block(slice(0, 60), slice(1, 2)), X[:, 1:2])
    with pytest.raises(InputError, match="feature names must differ from each other: got 'b' more than once"):
        read(pa.Table.from_arrays([pa.array(X[:, 0])] * 2, names=["b", "b"]), tmp_path / "x.parquet")


def test_few_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="X must have rows"):
        read(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="at least 4 rows"):
        fit(read(pa.table({"a": [1.0]}), tmp_path / "x.parquet"), random_state=0)
    with pytest.raises(InputError, match=r"NaN in column 0 \('a'\), row 1"):
        fit(read(pa.table({"a": [1.0, None, 3.0, 4.0, 5.0] * 9}), tmp_path / "x.parquet"), random_state=0)


def test_a_few_columns_are_held_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "DECODED_AT_ONCE", 30_000)
    n, d = 50_000, 20
    values = rng.standard_normal((n, d))
    path = write(pa.table({f"m{k}": values[:, k] for k in range(d)}), tmp_path / "x.parquet", row_group_size=500)
    source = open_file(path).source
    gc.collect()  # what other tests left would be freed meanwhile
    held, before, read_groups = [], pa.total_allocated_bytes(), pq.ParquetFile.read_row_groups

    def watched(self: pq.ParquetFile, *args: Any, **options: Any) -> pa.Table:
        piece = read_groups(self, *args, **options)
        held.append(pa.total_allocated_bytes() - before)
        return piece

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", watched)
    block = source.block(slice(0, n), slice(3, 7))
    np.testing.assert_array_equal(block, values[:, 3:7])
    assert block.flags.f_contiguous  # type: ignore[union-attr]
    assert len(held) > 4
    assert max(held) < 1.5 * block.nbytes  # type: ignore[union-attr]
    for _ in range(100):  # threads of Arrow let go of what they decoded when they come to it
        if pa.total_allocated_bytes() - before <= block.nbytes:  # type: ignore[union-attr]
            break
        time.sleep(0.02)
    assert pa.total_allocated_bytes() - before <= block.nbytes  # type: ignore[union-attr]
    np.testing.assert_array_equal(Table(pickle.loads(pickle.dumps(source))).values, values)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.parquet", b""),
        ("x.parquet", b"P"),
        ("x.parquet", b"PAR1 nothing"),
    ],
)
def test_what_is_no_file_of_the_kind(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        InputError, match=rf"FILE must be a complete {name[1:]} file: got {name} \(.*\); write it again$"
    ):
        open_file(tmp_path / name)


def test_columns_damaged_after_opening_get_one_line(tmp_path: Path) -> None:
    path = write(FRAME, tmp_path / "x.parquet", compression="snappy")
    table = open_file(path)
    content = bytearray(path.read_bytes())
    for at in range(300, len(content) // 2):
        content[at] = 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"FILE must be a complete \.parquet file"):
        fit(table, random_state=0)


@pytest.mark.parametrize("packed", [True, False])
def test_damaged_files_never_crash(packed: bool, tmp_path: Path) -> None:
    path = write(FRAME.assign(who=WHO), tmp_path / "x.parquet", compression="snappy" if packed else "none")
    content, rng = path.read_bytes(), np.random.default_rng(2)
    for _ in range(60):
        path.write_bytes(damaged(content, rng))
        try:
            fit(open_file(path, ReadOptions(id="who")), random_state=0)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
