"""What is kept of compiled kernels: never old, of another signature or damaged, and never in the way."""

from __future__ import annotations

import ast
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sparsemean._kernels import compiling
from sparsemean._kernels.compiling import KernelCacheWarning, compiled


def raised(x: float) -> float:
    return x + 1.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(compiling, "folders", lambda: (tmp_path,))
    compiling._note.cache_clear()
    yield tmp_path
    compiling._note.cache_clear()


def found() -> bool:
    """Compile as a new process would; return whether that was found on disk."""
    kernel: Any = compiled()(raised)
    assert kernel(2.0) == 3.0
    return sum(kernel.machine.stats.cache_hits.values()) == 1


def test_the_next_process_finds_it_compiled(folder: Path) -> None:
    assert not found()
    assert found()
    (file,) = folder.iterdir()
    assert file.name.startswith("test_compiling.raised-")


def test_an_edit_of_any_kernel_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = folder / "copy"
    shutil.copytree(compiling.HERE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("importlib.resources.files", lambda _: copy)
    before = compiling._sources()
    assert before == compiling.SOURCES
    found()
    with (copy / "_kernels" / "decimals.py").open("a") as file:
        file.write("# edited\n")
    assert compiling._sources() != before
    monkeypatch.setattr(compiling, "SOURCES", compiling._sources())
    assert not found()
    assert found()


def test_what_is_compiled_into_a_kernel_lies_beside_it() -> None:
    """Sources elsewhere are not covered by the seal."""
    for path in (path for room in compiling.ROOMS for path in (compiling.HERE.parent / room).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module is not None]
        foreign = [node for node in imports if node.module.partition(".")[0] == "sparsemean"]
        foreign = [node for node in foreign if not node.module.startswith("sparsemean._kernels")]
        elsewhere = {alias.asname or alias.name for node in foreign for alias in node.names}
        for node in tree.body:
            decorated = isinstance(node, ast.FunctionDef) and any(
                ast.unparse(decorator).startswith("compiled") for decorator in node.decorator_list
            )
            if decorated:
                inside = {name.id for line in node.body for name in ast.walk(line) if isinstance(name, ast.Name)}
                assert not inside & elsewhere, (path, node.name)


def emptied(content: bytes) -> bytes:
    return content[:0]


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    at = len(content) // 2  # in the machine code
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("damage", [emptied, halved, flipped])
def test_a_damaged_file_is_compiled_anew_and_mended(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    found()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert not found()
    assert found()


def test_a_folder_in_the_place_of_the_file_is_said_once(folder: Path) -> None:
    found()
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()
    with pytest.warns(KernelCacheWarning, match="compiled kernels cannot be kept: .* set NUMBA_CACHE_DIR"):
        assert not found()
    assert [path.name for path in folder.iterdir()] == [file.name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not found()


def test_a_full_disk_is_said_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(KernelCacheWarning, match="No space left on device"):
        assert not found()
    assert list(folder.iterdir()) == []


def test_the_next_folder_is_taken_where_one_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").write_text("")
    monkeypatch.setattr(compiling, "folders", lambda: (folder / "file" / "below", folder / "own"))
    assert not found()
    assert found()


def test_no_folder_is_made_for_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert all(place.is_absolute() for place in compiling.folders.__wrapped__())
