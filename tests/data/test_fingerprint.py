"""A file that somebody writes to while it is read gives no answer, whatever its kind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean._data.source import Dense
from sparsemean._data.table import SECOND, Table, fingerprint_of
from sparsemean._fit.pipeline import OneSample

import kinds
from command import expect

X = np.random.default_rng(0).standard_normal((200, 30))


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr"])
def test_a_file_that_changes_while_it_is_read_is_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kinds.written(kind, tmp_path, X)
    target = tmp_path / "found.csv"
    conclude = OneSample.judged

    def written_to_meanwhile(*given: Any, **options: Any) -> Any:
        shutil.rmtree(path, ignore_errors=True)
        kinds.written(kind, tmp_path, X + 1.0)
        return conclude(*given, **options)

    monkeypatch.setattr(OneSample, "judged", written_to_meanwhile)
    expect("fit", path, "--seed", "0", "--out", target, status=2)
    said = capsys.readouterr().err
    assert said.startswith(f"sparsemean: FILE must stay as it is while it is read: got {path.name}, which changed")
    assert said.count("\n") == 1
    assert not target.exists()


def test_what_is_different_about_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsemean._data.table.ENDS", 1000)
    path = kinds.written("npy", tmp_path, X)
    before = fingerprint_of(path)
    table = Table(Dense(np.zeros((1, 1))), file=before)
    table.check_unchanged()
    with path.open("r+b") as file:  # in the middle, of the same size
        file.seek(30_000)
        file.write(b"\0" * 8)
    os.utime(path, ns=(before.time + 1, before.time + 1))
    with pytest.raises(ValueError, match="stay as it is"):
        table.check_unchanged()
    assert before.difference(fingerprint_of(path)) == ""  # a copy on another machine has lost the nanoseconds
    os.utime(path, ns=(before.time + SECOND, before.time + SECOND))
    assert before.difference(fingerprint_of(path)) == "one written at another time"
    path.write_bytes(b"x" * before.size)
    assert before.difference(fingerprint_of(path)) == "one with another checksum"
    path.unlink()
    with pytest.raises(ValueError, match="stay as it is"):
        table.check_unchanged()
