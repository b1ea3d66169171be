"""Small files that stand for far more than they are end in one line, soon and in little memory; honest ones are read.

`make hostile` tries all of `hostile.bombs`; here are those that are made and refused quickly.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from sparsemean import InputError
from sparsemean._data import open_file
from sparsemean._data.table import MOST_HELD, NOT_WORTH_CHECKING, ReadOptions

from hostile.bombs import BOMBS, MOST_MB, MOST_SECONDS, main, run

KNOWN = {f"{made.name} {made.ending}": made for made in BOMBS}
QUICK = (
    "cells of a header .csv.gz", "lines of one cell, turned .csv.gz", "rows of few cells, turned .csv.gz",
    "zeros .csv.gz", "open quote .csv.gz",
    "percent signs .csv.gz", "money .csv.gz", "a diagonal .npz", "long texts .parquet", "elements of no meaning .xlsx",
    "long texts that are left out .parquet", "long labels .h5ad", "saved estimate .estimate", "text .parquet",
    "styles .xlsx",
    "names of one heap .h5ad", "packed again and again .zarr",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_a_bomb_ends_in_one_line(name: str, tmp_path: Path) -> None:
    _, outcome = run(KNOWN[name], tmp_path)
    slow = outcome.fault == "too long" and outcome.seconds < 2 * MOST_SECONDS  # beside other tests
    assert not outcome.fault or slow, outcome
    assert outcome.megabytes <= MOST_MB


def test_every_bomb_ends_in_one_line(long_version: bool) -> None:
    assert len(KNOWN) == len(BOMBS) > 50
    if not long_version:
        pytest.skip("in the long version, and by make hostile")
    assert main() == 0


def test_counts_with_many_zeros_are_read_however_well_they_compress(tmp_path: Path) -> None:
    rng, shape = np.random.default_rng(0), (2600, 5000)
    text = np.full((shape[0], 2 * shape[1]), ord(","), dtype=np.uint8)
    text[:, ::2] = ord("0") + (rng.random(shape) < 0.01) * rng.integers(1, 9, size=shape)
    text[:, -1] = ord("\n")
    path = tmp_path / "counts.csv.gz"
    path.write_bytes(gzip.compress(text.tobytes(), 6, mtime=0))
    assert NOT_WORTH_CHECKING < 8 * text.size / 2 < MOST_HELD * path.stat().st_size
    assert open_file(path).shape == shape


def test_a_table_that_is_refused_packed_is_read_unpacked(tmp_path: Path) -> None:
    text = b"a,b,c,d\n" + b"0,0,0,1\n" * 3_500_000
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text, 9, mtime=0))
    with pytest.raises(InputError, match=r"FILE must unpack to at most 400 times its size: got x\.csv\.gz \(.* bytes "):
        open_file(tmp_path / "x.csv.gz")
    (tmp_path / "x.csv").write_bytes(text)
    assert open_file(tmp_path / "x.csv").shape == (3_500_000, 4)


def test_labels_as_wide_as_the_longest_are_not_made(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n" + b"x,1\ny,2\n" * 5000 + b"z" * 100_000 + b",3\n")
    with pytest.raises(InputError, match=r"unpack to at most 400 times its size: got x\.csv \(4,000,400,000 bytes out"):
        open_file(tmp_path / "x.csv", ReadOptions(group="a"))


def test_names_that_are_one_string_are_kept_once(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    names = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0] * 10, "i4"), ["long" * 100, "b"])
    pq.write_table(pa.table({"x": np.arange(40.0), "name": names}), tmp_path / "x.parquet")
    rows = open_file(tmp_path / "x.parquet", ReadOptions(id="name")).row_names
    assert rows is not None
    assert rows.tolist() == ["long" * 100, "None", "b", "long" * 100] * 10
    assert rows[0] is rows[3]
