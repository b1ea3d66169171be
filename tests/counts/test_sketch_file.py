"""Sketches as files: everything comes back, and what is damaged, foreign or newer is refused in one line."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import InputError, Sketch, load_sketch, sketch, sparse_mean
from sparsemean._evidence.counting import sketch_file

from fuzzed import damaged

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 7)) + np.array([3, 0, 0, 0, 0, 0, 5.0])
X[:, 5] = 2.0
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
MAKERS: dict[str, Callable[[], Sketch]] = {
    "plain": lambda: sketch(X),
    "names": lambda: sketch(X, feature_names=["a", "b", "ü", "\ud800", "e\n", "", "日本語"]),
    "in the middle": lambda: sketch(X, first_row=1000, random_state=2**100 + 1),
    "sealed": lambda: sketch(X, first_row=70, sealed=True),
    "gaps": lambda: sketch(GAPS, missing="omit"),
    "null": lambda: sketch(X, null=np.arange(7.0)),
    "single row": lambda: sketch(X[:1], first_row=63, bucket_sizes=(1, 64)),
    "float32 by columns": lambda: sketch(np.asfortranarray(X.astype(np.float32))),
    "integers": lambda: sketch(np.round(X).astype(np.int8)),
}


@cache
def made_of(kind: str) -> Sketch:
    """A sketch of one kind; made when it is asked for, as every process collects all tests."""
    return MAKERS[kind]()


def content(made: Sketch) -> list[Any]:
    """All that a sketch knows, to be compared."""
    counts, null = made.counts, None if isinstance(made.null, float) else made.null
    arrays = [
        counts.positive, counts.negative, counts.nearest, counts.present, counts.missing, null,
        made.constant.features, made.constant.values, *(part.values for part in made.pending),
    ]  # fmt: skip
    settled = (made.seed, made.bucket_sizes, made.missing, made.ranges, made.sealed, counts.n_buckets)
    names = None if made.feature_names is None else made.feature_names.tolist()
    return [settled, names, [p.first_row for p in made.pending], *(None if a is None else a.tolist() for a in arrays)]


@pytest.mark.parametrize("kind", MAKERS)
def test_everything_comes_back(kind: str, tmp_path: Path) -> None:
    made = made_of(kind)
    made.save(tmp_path / "a.sketch")
    back = load_sketch(str(tmp_path / "a.sketch"))
    np.testing.assert_equal(content(back), content(made))
    assert [part.values.dtype for part in back.pending] == [part.values.dtype for part in made.pending]
    back.save(tmp_path / "b.sketch")
    assert (tmp_path / "a.sketch").read_bytes() == (tmp_path / "b.sketch").read_bytes()


@pytest.mark.parametrize(("n", "most"), [(200, 16), (60_000, 21), (70_000, 33)])
def test_bytes_a_feature(n: int, most: float, tmp_path: Path) -> None:
    """Counts take one, two or four bytes each, whichever holds them: never more than 24, and 8 for the nearest mean."""
    d = 3000
    made = sketch(np.broadcast_to(RNG.normal(size=(n, 1)), (n, d)), sealed=True)
    made.save(tmp_path / "a.sketch")
    assert (tmp_path / "a.sketch").stat().st_size <= most * d + 4000


def is_refused(path: Path) -> bool:
    try:
        load_sketch(path)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert path.name in str(error)  # noqa: PT017
        return True
    return False


@pytest.mark.parametrize(("name", "first"), [("names", 0), ("gaps", 7), ("null", 3), ("single row", 10)])
def test_every_flipped_byte_is_refused_or_changes_nothing(name: str, first: int, tmp_path: Path) -> None:
    made_of(name).save(tmp_path / "a.sketch")
    good, expected = (tmp_path / "a.sketch").read_bytes(), content(made_of(name))
    rng = np.random.default_rng(1)
    refused = 0
    tail = len(good) - 1 - np.arange(first % 2, 1200, 2)
    for at in np.unique(np.concatenate((np.arange(first, len(good), 14), tail))).tolist():
        changed = bytearray(good)
        changed[at] ^= 1 << int(rng.integers(8))
        (tmp_path / "b.sketch").write_bytes(changed)
        if is_refused(tmp_path / "b.sketch"):
            refused += 1
        else:
            np.testing.assert_equal(content(load_sketch(tmp_path / "b.sketch")), expected)
    assert refused > 100


def test_damaged_files_are_refused_or_harmless(tmp_path: Path) -> None:
    made_of("plain").save(tmp_path / "a.sketch")
    good, expected = (tmp_path / "a.sketch").read_bytes(), content(made_of("plain"))
    rng = np.random.default_rng(2)
    for _ in range(300):
        (tmp_path / "b.sketch").write_bytes(damaged(good, rng))
        if not is_refused(tmp_path / "b.sketch"):
            np.testing.assert_equal(content(load_sketch(tmp_path / "b.sketch")), expected)
    for size in range(0, len(good), 97):
        (tmp_path / "b.sketch").write_bytes(good[:size])
        assert is_refused(tmp_path / "b.sketch")


def rewritten(path: Path, **changes: Any) -> None:
    """Write a file again with another header, its checksums right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members[sketch_file.HEADER]) | changes
    members[sketch_file.HEADER] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)


HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "newer": (
        {"format": "sparsemean-sketch-2", "written_by": "9.1"},
        r"hold a sketch of format sparsemean-sketch-1: got .*\(sparsemean-sketch-2\); .* sparsemean 9\.1",
    ),
    "foreign": ({"format": "other-1"}, "hold a sketch of format sparsemean-sketch-1"),
    "disorder": ({"ranges": [[5, 4]]}, "rows are in disorder"),
    "overlap": ({"ranges": [[0, 100], [50, 150]]}, "rows are in disorder"),
    "no rows": ({"ranges": []}, "contradicts"),
    "features": ({"n_features": 8}, "has shape"),
    "sizes": ({"sizes": [1, 3]}, "powers of two"),
    "more sizes": ({"sizes": [1, 2, 4, 8]}, "positive has shape"),
    "more keys": ({"colour": "blue"}, "colour"),
    "buckets": ({"n_buckets": [150]}, "contradicts"),
}


@pytest.mark.parametrize("case", HEADERS.values(), ids=HEADERS)
def test_headers_that_cannot_be_are_refused(case: Any, tmp_path: Path) -> None:
    changes, said = case
    made_of("plain").save(tmp_path / "a.sketch")
    rewritten(tmp_path / "a.sketch", **changes)
    with pytest.raises(InputError, match=said):
        load_sketch(tmp_path / "a.sketch")


def packed(path: Path, name: str, member: bytes) -> None:
    """Write a file again with one member changed and packed, and what the header says of names made to fit."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | {name: member}
    if name == sketch_file.NAMES:
        header = json.loads(members[sketch_file.HEADER]) | {"names": hashlib.sha256(member).hexdigest()}
        members[sketch_file.HEADER] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for other, content in members.items():
            archive.writestr(other, content, zipfile.ZIP_DEFLATED if other == name else zipfile.ZIP_STORED)


def test_sizes_are_compared_with_the_file_before_anything_is_read(tmp_path: Path) -> None:
    path, million = tmp_path / "a.sketch", 1_000_000
    names = json.dumps(["a" * 3 * million, *"bcdefg"]).encode()
    cases = {
        "its arrays are packed": lambda: packed(path, "positive.npy", bytes(30 * million)),
        "names that are too long for 7 features": lambda: packed(path, sketch_file.NAMES, names),
        f"{million} features in": lambda: rewritten(path, n_features=million),
        "its feature names are not": lambda: packed(path, sketch_file.NAMES, b"[" + b"[], " * 6 + b"[]]"),
        "8 names for 7": lambda: packed(path, sketch_file.NAMES, json.dumps(list("abcdefgh")).encode()),
    }
    for said, damage in cases.items():
        made_of("names").save(path)
        damage()
        tracemalloc.start()
        with pytest.raises(InputError, match=said):
            load_sketch(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < million


def test_long_names_come_back(tmp_path: Path) -> None:
    made = sketch(X, feature_names=[f'{k}", "\\' * 5000 for k in range(7)])
    made.save(tmp_path / "a.sketch")
    assert content(load_sketch(tmp_path / "a.sketch"))[1] == content(made)[1]


def test_other_files_are_refused(tmp_path: Path) -> None:
    sparse_mean(X, random_state=0).save(tmp_path / "estimate.npz")
    (tmp_path / "text.sketch").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "empty.sketch").write_bytes(b"")
    for name, said in (("estimate.npz", "no header of a sketch"), ("text.sketch", "zip"), ("empty.sketch", "zip")):
        with pytest.raises(InputError, match=rf"FILE must be a complete sketch file: got .*{name} \(.*{said}"):
            load_sketch(tmp_path / name)
    with pytest.raises(InputError, match="FILE must be readable"):
        load_sketch(tmp_path / "nowhere.sketch")
    with pytest.raises(InputError, match="complete sketch file"):
        load_sketch(tmp_path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.sketch"
    target.write_bytes(b"precious")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(InputError, match=r"output must be written whole: .*No space left"):
        made_of("plain").save(target)
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


KILLED = """
import sys, numpy as np, sparsemean as sm
made = sm.sketch(np.random.default_rng(0).normal(size=(70, 200_000)))
print("ready", flush=True)
while True:
    made.save(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not killed by signals there")
def test_whoever_is_killed_while_writing_leaves_a_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "a.sketch"
    for wait in (0.02, 0.11):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 20
        while not target.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert load_sketch(target).n_features == 200_000
