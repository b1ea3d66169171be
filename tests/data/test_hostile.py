"""Whatever a file claims, links to, is made of or turns into while it is read: an answer, or one line."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sparsemean import InputError, load, load_sketch
from sparsemean._data import READERS, open_file
from sparsemean._data.table import ReadOptions

import kinds
from conftest import Claims
from hostile.kinds_of import KINDS
from hostile.running import TOO_LONG, Fault, Reader, run

CORES = 2
"""Processes that read side by side at full length."""
KEPT = Path(__file__).parents[2] / "build" / "hostile"
"""Where cases with a fault are left, in a folder of kind and seed."""


@pytest.fixture(scope="module")
def readers(request: pytest.FixtureRequest) -> Iterator[list[Reader]]:
    made = [Reader() for _ in range(CORES if request.config.getoption("--validate") else 1)]
    yield made
    for reader in made:
        reader.close()


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_files_end_in_an_answer_or_in_one_line(
    kind: str, readers: list[Reader], long_version: bool, claims: Claims
) -> None:
    count = 5000 if long_version else 25
    ended, faults = run(kind, range(count), readers=readers, most_faults=20 if long_version else 3)
    for fault in faults:
        _keep(fault)
    assert not faults, "\n".join(map(str, faults))
    measured = f"{count} files, {ended['refused']} refused in one line, 0 signals, hangs, tracebacks"
    claims.add(f"hostile files, {kind}", measured, f"an answer or one line within {TOO_LONG:.0f} s", f"0–{count - 1}")


def _keep(fault: Fault) -> None:
    """Leave the files of a fault where they can be looked at."""
    from hostile.kinds_of import make

    folder = KEPT / f"{fault.kind}-{fault.seed}"
    if not folder.exists():
        folder.mkdir(parents=True)
        make(fault.kind, fault.seed, folder)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def ear(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.parametrize(("put", "what"), [(pipe, "a pipe"), (endless_device, "a device"), (ear, "a socket")])
def test_what_is_no_file_is_not_waited_for(ending: str, put: object, what: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    put(path)  # type: ignore[operator]
    with pytest.raises(InputError, match=f"FILE must be a file on a disk: got .*, {what}; write what it gives"):
        open_file(path)
    for read in (load, load_sketch):
        with pytest.raises(InputError, match=f"must be a file on a disk: got .*, {what}"):
            read(path)


def nothing(path: Path) -> None:
    pass


def folder(path: Path) -> None:
    path.mkdir()


def circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("kind", ["npy", "npy by columns", "npz", "h5ad"])
@pytest.mark.parametrize("put", [nothing, folder, circle, pipe, endless_device, ear])
def test_a_file_replaced_after_it_was_opened_is_one_line(kind: str, put: object, tmp_path: Path) -> None:
    path = kinds.written(kind, tmp_path, np.ones((40, 5)))
    table = open_file(path)
    path.unlink()
    put(path)  # type: ignore[operator]
    with pytest.raises(InputError, match=r"FILE must be (readable|a file on a disk)"):
        table.source.take(np.arange(5))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("inside", ["metadata", "chunk"])
@pytest.mark.parametrize("later", [False, True])
def test_a_pipe_inside_a_folder_is_not_waited_for(version: int, inside: str, later: bool, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    zarr.create_array(store=path, data=np.eye(8), chunks=(4, 4), zarr_format=version)
    names = {("metadata", 2): ".zarray", ("metadata", 3): "zarr.json", ("chunk", 2): "0.0", ("chunk", 3): "c/0/0"}
    table = open_file(path) if later else None
    part = path / names[inside, version]
    part.unlink()
    os.mkfifo(part)
    if later and inside == "metadata":
        assert table is not None
        np.testing.assert_array_equal(table.values, np.eye(8))  # what it says is known by now
        return
    with pytest.raises(InputError, match=r"must be a file on a disk: got .*, a pipe"):
        (table or open_file(path)).values  # noqa: B018


@pytest.mark.parametrize("ending", READERS)
def test_names_that_no_file_can_have(ending: str, tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(InputError, match=r"FILE must be (readable|an existing file)"):
            open_file(tmp_path / f"{name}{ending}")


@pytest.mark.parametrize("first", [b"", b"a,b\n1,2\n"])
def test_a_hole_in_a_text_is_not_held(first: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(first)
    os.truncate(path, 10**12)
    with pytest.raises(InputError, match="NUL bytes"):
        open_file(path)


@pytest.mark.parametrize("first", [b"", b"a,b\n", b'a,"b'])
def test_millions_of_line_breaks_are_stepped_over_at_once(first: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(first + b"\n" * 20_000_000)
    began = time.perf_counter()
    with pytest.raises(InputError, match=r"nothing in it|one line|never closed"):
        open_file(path)
    assert time.perf_counter() - began < 5


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="Linux only")
def test_text_that_the_kernel_makes_up(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("/proc/self/pagemap")
    with pytest.raises(InputError, match=r"nothing in it|be readable"):
        open_file(tmp_path / "a.csv")


def test_a_long_value_is_not_said_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{'x' * 100_000},b\n1,2\n")
    with pytest.raises(InputError, match="name a column of the file: got 'absent'; it has xxx") as refused:
        open_file(tmp_path / "a.csv", ReadOptions(id="absent"))
    assert len(str(refused.value)) < 1000
