"""``sparsemean fit --dask``: the same answer from workers, one line for what goes wrong, nothing left running."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import simulate
from sparsemean._util import cluster as dask_cluster

import kinds
from command import expect

OPTIONS = ("--contamination", "0.1", "--seed", "0")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = simulate.make_contaminated(1000, 100, [10, -5, -4, 2], random_state=0)
    return kinds.written("zarr", tmp_path_factory.mktemp("dask"), data.X)


@pytest.fixture(scope="module")
def expected(file: Path) -> Any:
    target = file.parent / "expected.json"
    expect("fit", file, *OPTIONS, "-q", "--json", target)
    return json.loads(target.read_text())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler that takes anyone."""
    from distributed import LocalCluster

    with dask_cluster.quiet(), LocalCluster(n_workers=1, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster:
        yield cluster.scheduler_address


def test_a_scheduler_that_runs_already(
    file: Path, expected: Any, address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    expect("fit", file, *OPTIONS, "--dask", address, "--json")
    said = capfd.readouterr()
    assert json.loads(said.out) == expected
    assert said.err == ""
    bad = np.random.default_rng(0).standard_normal((1000, 100))
    bad[512, 7] = np.inf
    path = kinds.written("npy", file.parent, bad)
    expect("fit", path, "--dask", address, status=2)
    said = capfd.readouterr()
    assert said.err.startswith("sparsemean: X must not contain NaN or infinity: got infinity in column 7, row 512")
    assert said.err.count("\n") == 1


def test_two_groups_and_names(address: str, tmp_path: Path) -> None:
    data = kinds.frame(np.random.default_rng(0).standard_normal((200, 30)))
    data["feature 4"] += 3.0 * (np.arange(200) % 2)
    data["arm"] = np.where(np.arange(200) % 2, "new", "old")
    data.to_parquet(tmp_path / "arms.parquet", row_group_size=50)
    expect("fit", tmp_path / "arms.parquet", "--group", "arm", "--json", tmp_path / "here.json")
    more = ("--dask", address, "--json", tmp_path / "there.json")
    expect("fit", tmp_path / "arms.parquet", "--group", "arm", *more)
    here, there = (json.loads((tmp_path / name).read_text()) for name in ("here.json", "there.json"))
    assert here == there
    assert [row["feature"] for row in here["selected"]] == ["feature 4"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--dask", "nonsense"),
            "--dask must be the address of a scheduler that answers, with workers: got 'nonsense'",
        ),
        (("--dask", "tcp://127.0.0.1:9"), "a scheduler that answers, with workers: got 'tcp://127.0.0.1:9'"),
        (("--dask", "local"), "--dask must be the address of a scheduler that answers, with workers: got 'local'"),
        (("--dask", "local", "--device", "gpu"), "--device must be left out with --dask, whose workers count"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    file: Path, arguments: Any, said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE", 1)
    began = time.monotonic()
    expect("fit", file, *arguments, status=2)
    assert time.monotonic() - began < 10
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,4\n")))
    expect("fit", "-", "--dask", "local", status=2)
    assert "--dask must be left out for standard input" in capfd.readouterr().err


def test_a_scheduler_without_workers(
    file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(dask_cluster, "FOR_WORKERS", 1)
    with dask_cluster.quiet(), LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster:
        expect("fit", file, "--dask", cluster.scheduler_address, status=2)
    assert "a scheduler that answers, with workers: got" in capfd.readouterr().err
