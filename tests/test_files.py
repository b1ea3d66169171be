"""Where a result may be written is known before any work is done, and nothing is left of what was interrupted."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean._util.files import replacing

from command import expect


@pytest.fixture
def data(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((200, 5)) + 3.0 * np.eye(5)[0]
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_a_link_and_what_it_leads_to_is_replaced(data: Path) -> None:
    folder = data.parent / "results"
    folder.mkdir()
    for there in (True, False):
        target, link = folder / f"{there}.csv", data.with_name(f"{there}.csv")
        if there:
            target.write_text("old")
        link.symlink_to(target)
        expect("fit", data, "-q", "--seed", "0", "--out", link)
        assert link.is_symlink()
        assert target.read_text().startswith("feature,")
    assert names(folder) == ["False.csv", "True.csv"]


def test_what_cannot_be_written_is_refused_before_any_work(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparsemean._fit.one_sample.fit", lambda *_, **__: pytest.fail("work was done"))
    folder = data.parent
    kept, circle, pipe = folder / "kept.csv", folder / "circle.csv", folder / "pipe.csv"
    kept.write_text("precious")
    kept.chmod(0o444)
    circle.symlink_to(circle)
    os.mkfifo(pipe)
    for option, name, said in (
        ("--out", "kept.csv", "output must be a file that may be written to: got '{}', which is read-only"),
        ("--out", "circle.csv", "output must be a name that a file can have: got '{}' (Too many levels"),
        ("--out", "pipe.csv", "output must be a file: got '{}', a device or a pipe"),
        ("--out", f"{'n' * 260}.csv", "output must be a name that a file can have: got '{}' (File name too long)"),
        ("--json", f"{'n' * 260}.json", "output must be a name that a file can have: got '{}' (File name too long)"),
        (
            "--report",
            f"{'n' * 260}.html",
            "--report must be a name that a file can have: got '{}' (File name too long)",
        ),
        ("--out", "nowhere/x.csv", "output must be in an existing directory: got '{}'; make the directory first"),
    ):
        expect("fit", data, option, folder / name, status=2)
        assert capsys.readouterr().err.startswith(f"sparsemean: {said.format(folder / name)}")
    assert kept.read_text() == "precious"
    expect("sketch", data, "--out", folder / f"{'n' * 260}.sketch", status=2)
    assert "--out must be a name that a file can have" in capsys.readouterr().err


def test_a_name_as_long_as_the_disk_takes_can_be_written(data: Path) -> None:
    target = data.with_name(f"{'n' * 251}.csv")
    expect("fit", data, "-q", "--seed", "0", "--out", target)
    assert target.exists()


def test_bytes_are_on_the_disk_before_the_name_and_then_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    flush, rename = os.fsync, Path.replace

    def flushed(handle: int) -> None:
        flush(handle)
        order.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    def renamed(path: Path, target: Path) -> Path:
        order.append("name")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    with replacing(tmp_path / "x.txt") as temporary:
        temporary.write_text("new")
    assert order == ["file", "name", "folder"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_temporary(
    number: int, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: Any, **__: Any) -> str:
        os.kill(os.getpid(), number)
        return ""

    monkeypatch.setattr("sparsemean._fit.write.as_json", killed)
    written = data.with_name("first.csv")
    before = signal.signal(number, signal.SIG_DFL)  # tests that are run under nohup ignore the first
    try:
        expect("fit", data, "-q", "--json", data.with_name("x.json"), status=128 + number)
        assert capsys.readouterr().err.strip() == "sparsemean: interrupted; no file was changed"
        expect("fit", data, "-q", "--out", written, "--json", data.with_name("x.json"), status=128 + number)
        assert capsys.readouterr().err.strip() == f"sparsemean: interrupted after it had written {written}"
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert names(data.parent) == ["first.csv", "x.npy"]
