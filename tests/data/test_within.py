"""What an HDF5 file names beyond itself is refused, before it is opened: links, storage, sources that are not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from sparsemean._data import as_table, open_file
from sparsemean._data.table import ReadOptions
from sparsemean.errors import InputError

X = np.random.default_rng(0).normal(size=(16, 5))
FILL = h5py.h5f.UNLIMITED
Write = Callable[[Any], Any]


def virtual(file_name: str, name: str = "x", *, at: str = "x") -> Write:
    layout = h5py.VirtualLayout(X.shape, "f8")
    layout[:] = h5py.VirtualSource(file_name, name, X.shape)
    return lambda file: file.create_virtual_dataset(at, layout)


def numbered(file: Any) -> None:
    """Write a virtual dataset of as many sources as there are files pipe0, pipe1, …"""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple(X.shape, (h5py.h5s.UNLIMITED, 5))
    space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), X.shape, X.shape)
    plist.set_virtual(space, b"pipe%b", b"x", h5py.h5s.create_simple(X.shape))
    extent = h5py.h5s.create_simple(X.shape, (h5py.h5s.UNLIMITED, 5))
    h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_DOUBLE, extent, plist)


def all_of(*steps: Write) -> Write:
    return lambda file: [step(file) for step in steps]


def put(name: str, value: Any) -> Write:
    return lambda file: file.__setitem__(name, value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a whole file and pipes that nobody writes to: whoever opens one waits for ever."""
    for name in ("pipe", "pipe0"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "inner").mkdir()
    written(tmp_path / "whole.h5", put("x", X))
    written(tmp_path / "inner" / "whole.h5", put("x", X))
    return tmp_path


def written(path: Path, write: Write) -> Path:
    with h5py.File(path, "w") as file:
        write(file)
    return path


LINKED: dict[str, tuple[Write, str]] = {
    "link": (put("x", h5py.ExternalLink("whole.h5", "x")), "'x', a link"),
    "link to a pipe": (put("x", h5py.ExternalLink("pipe", "x")), "'x', a link"),
    "link by a link": (
        all_of(put("e", h5py.ExternalLink("pipe", "/")), put("x", h5py.SoftLink("/e/x"))),
        "'x', a link",
    ),
    "storage": (lambda f: f.create_dataset("x", X.shape, "f8", external=[("raw", 0, FILL)]), "'/x', stored in another"),
    "pipe": (lambda f: f.create_dataset("x", X.shape, "f8", external=[("pipe", 0, FILL)]), "'/x', stored in another"),
    "virtual": (virtual("whole.h5"), "a virtual dataset"),
    "virtual, of itself": (virtual("."), "a virtual dataset"),
    "virtual, absent": (virtual("gone.h5"), "a virtual dataset"),
    "virtual pipe": (virtual("pipe"), "a virtual dataset"),
    "numbered": (numbered, "a virtual dataset"),
}


@pytest.mark.parametrize("what", LINKED)
def test_data_in_other_files_are_refused_unread(what: str, folder: Path) -> None:
    write, said = LINKED[what]
    path = written(folder / "a.h5", write)
    with pytest.raises(InputError, match=f"FILE must hold its data itself: got a.h5 with {said}"):
        open_file(path, ReadOptions(dataset="x"))
    with pytest.raises(InputError, match="FILE must hold"):
        open_file(path)


def test_a_virtual_dataset_is_refused_where_it_lies_in_an_open_file_too(folder: Path) -> None:
    path = written(folder / "a.h5", virtual("gone.h5"))
    with h5py.File(path) as file, pytest.raises(InputError, match=r"X must hold its data itself: .* with '/x', a v"):
        as_table(file["x"])


@pytest.mark.parametrize("to", ["/x", "g/y", "absent"])
def test_a_link_within_the_file_is_refused_too(to: str, folder: Path) -> None:
    path = written(folder / "a.h5", all_of(put("g/y", X), put("x", h5py.SoftLink(to))))
    with pytest.raises(InputError, match=r"with 'x', a link; replace the link by what it leads to$"):
        open_file(path, ReadOptions(dataset="x"))
    np.testing.assert_array_equal(open_file(path, ReadOptions(dataset="g/y")).values, X)


def test_the_only_matrix_among_types_and_groups_that_hold_themselves(folder: Path) -> None:
    def write(file: Any) -> None:
        file["g/h/y"], file["type"], file["x"] = X + 1, np.dtype("f8"), X
        file["g/h/up"] = file["g"]

    path = written(folder / "a.h5", write)
    np.testing.assert_array_equal(open_file(path).values, X)
    np.testing.assert_array_equal(open_file(path, ReadOptions(dataset="/g/h/up/h/y")).values, X + 1)


def test_a_damaged_tree_of_chunks_does_not_end_the_process(tmp_path: Path) -> None:
    """The tree of version 2 that HDF5 walks when it is asked for its size, as ``visititems`` asks."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=X, chunks=(3, 2), maxshape=(None, None))
    content = path.read_bytes()
    at = content.find(b"BTHD")
    for place in range(at, at + 38, 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(InputError, match=r"complete \.h5 file"):
            open_file(path).values  # noqa: B018


def test_a_group_with_names_of_what_it_cannot_find(tmp_path: Path) -> None:
    """Names lie in order, and are looked for by halves."""
    path = written(tmp_path / "x.h5", lambda file: file.update(aaaa=np.ones(3), bbbb=X))
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"zzzz"))
    with pytest.raises(InputError, match=r"""complete .* x\.h5 \("no '....' in /"\)"""):
        open_file(path)


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5", lambda file: file.update(names=X))
    path.write_bytes(path.read_bytes().replace(b"names", b"n\xe4mes"))
    np.testing.assert_array_equal(open_file(path).values, X)


@pytest.mark.parametrize("place", [26, 27, 35])
def test_filters_of_another_array_do_not_end_the_process(place: int, tmp_path: Path) -> None:
    """How many values a chunk has, and the bytes of each, which HDF5 keeps a second time and goes by."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.round(10 * X).astype("i4"), chunks=(8, 5), scaleoffset=0)
    np.testing.assert_array_equal(open_file(path).values, np.round(10 * X))
    content = bytearray(path.read_bytes())
    content[content.find(b"scaleoffset") + place] ^= 64
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"complete \.h5 file: got x\.h5 \('/x' with filters of another array\)"):
        open_file(path)


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"compression": "gzip"}])
def test_chunks_too_short_for_their_checksum_do_not_end_the_process(options: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=X.shape, fletcher32=True, **options)
    np.testing.assert_array_equal(open_file(tmp_path / "x.h5").values, X)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file["x"].id.write_direct_chunk((0, 0), b"abc")
    with pytest.raises(InputError, match=r"x\.h5 \('/x' with chunks cut short\)"):
        open_file(tmp_path / "x.h5")


@pytest.mark.parametrize("place", [1, 3, 8, 60])
def test_damaged_sources_of_a_virtual_dataset_do_not_end_the_process(place: int, folder: Path) -> None:
    content = bytearray(written(folder / "a.h5", virtual("whole.h5")).read_bytes())
    content[content.find(b"GCOL") + 32 + place] ^= 16
    (folder / "b.h5").write_bytes(content)
    with pytest.raises(InputError, match=r"hold its data itself: got b\.h5 with a virtual dataset"):
        open_file(folder / "b.h5")
