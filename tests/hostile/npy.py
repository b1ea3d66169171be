"""Arrays of NumPy's, alone and in archives: headers that lie, members that are not as long as the directory says."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy import sparse

from sparsemean._data.table import ReadOptions

from hostile.case import NUMBERS, Case, D, N, as_json, edited, matrix, patched, places, some, stamped, worn

Members = dict[str, bytes]
SHAPES = (
    "()", "(40,)", "(5, 40)", "(40, 5, 1)", "(1, 200)", "(200, 1)", "(0, 5)", "(40, 0)", "(128, -5)", "(-40, -5)",
    "(-1, 5)", "(40, 5.0)", "(40, '5')", "(True, 5)", "(40, None)", "[40, 5]", "40", "None", "(4611686018427387904, 4)",
    "(9223372036854775807, 9223372036854775807)", "(18446744073709551616, 1)", "(1000000000000, 5)", "(40, 10**12)",
    "(40, 100000000000)", "(3, 5)", "(41, 5)", "(39, 5)", "((40,), 5)", "(40, 5)" + " " * 9000,
)  # fmt: skip
TYPES = (
    "'<f4'", "'<f2'", "'>f8'", "'<f16'", "'<i8'", "'|i1'", "'|u1'", "'<u8'", "'|b1'", "'<c16'", "'|O'", "'|S8'",
    "'<U2'",
    "'|V8'", "'<M8[ns]'", "'<m8[s]'", "'|S0'", "'|V0'", "'<U0'", "'|S2000000000'", "[('a', '<f8')]",
    "[('a', '<f8', (5,))]",
    "[]", "('<f8', (2,))", "('<f8', (0,))", "('<f8', (100000, 100000))", "'f8,f8'", "'nonsense'", "''", "None", "8",
    "'<f0'", "'='",
    "{'names': ['a'], 'formats': ['<f8'], 'offsets': [1000000], 'itemsize': 4}", "'" + "f" * 2000 + "'", "'>i2'",
    "'<f3'",
)  # fmt: skip


def packed_npy(text: bytes, body: bytes, version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """Return a .npy file of any header."""
    width = 2 if version == (1, 0) else 4
    text += b" " * (-(len(text) + 1 + 8 + width) % 64) + b"\n"
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes(version) + (size % 2 ** (8 * width)).to_bytes(width, "little") + text + body


def plain_npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def lying_npy(array: Any, rng: Random) -> bytes:
    """Return an array as a .npy file whose header says something else."""
    fields = {
        "descr": repr(np.lib.format.dtype_to_descr(array.dtype)),
        "fortran_order": str(bool(array.flags.fnc)),
        "shape": repr(array.shape),
    }
    version, length, body = (1, 0), None, array.tobytes(order="A")
    act = rng.randrange(12)
    if act < 3:
        fields["shape"] = rng.choice((*SHAPES, repr((rng.choice(NUMBERS), rng.choice(NUMBERS)))))
    elif act < 6:
        fields["descr"] = rng.choice(TYPES)
    elif act == 6:
        fields["fortran_order"] = rng.choice(("True", "False", "1", "None", "'no'", "[]"))
    elif act == 7:
        fields.pop(rng.choice(list(fields))) if rng.random() < 0.5 else fields.update({"more": "1"})
    elif act == 8:
        version = rng.choice(((2, 0), (3, 0), (0, 0), (4, 0), (255, 255), (1, 1)))
    elif act == 9:
        length = rng.choice(NUMBERS)
    elif act == 10:
        body = body[: rng.randrange(len(body) + 1)] if rng.random() < 0.7 else body * 2
    text = "{" + ", ".join(f"'{name}': {value}" for name, value in fields.items()) + ", }"
    if act == 11:
        garbage = (
            "(" * 900,
            "{" * 3000,
            "-" * 5000 + "1",
            "{'shape': (40, 5)",
            "1" * 6000,
            "\0",
            "open('/dev/zero')",
            "é",
        )
        text = rng.choice((*garbage, text.replace("'", '"'), text.replace(",", "L,"), text + text, ""))
    return packed_npy(text.encode("latin1"), body, version, length)


def npy(folder: Path, rng: Random) -> Case:
    """Write a .npy file."""
    X: Any = np.asarray(matrix(rng).astype(rng.choice(("<f8", "<f4", ">f8", "i4", "?"))), order=rng.choice("CF"))
    content = lying_npy(X, rng) if rng.random() < 0.8 else plain_npy(X)
    if rng.random() < 0.3:
        content = rng.choice((worn, _in_header))(content, rng)
    path = folder / "case.npy"
    path.write_bytes(content)
    return Case(path)


def _in_header(content: bytes, rng: Random) -> bytes:
    return stamped(content, rng.randrange(min(128, len(content))), rng)


# -- archives

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
FIELDS = {
    LOCAL: ((4, "<H"), (6, "<H"), (8, "<H"), (14, "<I"), (18, "<I"), (22, "<I"), (26, "<H"), (28, "<H")),
    CENTRAL: (
        (6, "<H"), (8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (30, "<H"), (32, "<H"), (42,
        "<I"),
    ),
    END: ((4, "<H"), (8, "<H"), (10, "<H"), (12, "<I"), (16, "<I"), (20, "<H")),
}  # fmt: skip
TOGETHER = ((8, 10, "<H"), (18, 20, "<I"), (22, 24, "<I"), (6, 8, "<H"))
"""Where a method, both lengths and the flags are in either heading."""


def archived(members: Members, rng: Random) -> bytes:
    """Return an archive, packed in some way."""
    how = rng.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, how)
    return out.getvalue()


def lying_zip(content: bytes, rng: Random) -> bytes:
    """Return an archive with an entry of its directory or of a heading changed, in both places or in one."""
    if rng.random() < 0.4:
        local, central, form = rng.choice(TOGETHER)
        pairs = list(zip(places(content, LOCAL), places(content, CENTRAL), strict=False))
        if pairs:
            first, second = rng.choice(pairs)
            number = rng.choice((*NUMBERS, 8, 12, 14, 93, 99, len(content)))
            return patched(patched(content, first + local, form, number), second + central, form, number)
    mark = rng.choice((LOCAL, CENTRAL, CENTRAL, END))
    found = places(content, mark)
    if not found:
        return worn(content, rng)
    at, form = rng.choice(FIELDS[mark])
    return patched(content, rng.choice(found) + at, form, rng.choice((*NUMBERS, 1, 9, 12, 14, 0x800, len(content))))


def _member_dropped(members: Members, rng: Random) -> Members:
    gone = rng.choice(list(members))
    return {name: content for name, content in members.items() if name != gone} or members


def _member_renamed(members: Members, rng: Random) -> Members:
    old, new = (
        rng.choice(list(members)),
        rng.choice(("", "a", "../a.npy", "/a.npy", "a.npy/", "header.npy", "data.npy", "é.npy")),
    )
    return {(new if name == old else name): content for name, content in members.items()}


def _member_swapped(members: Members, rng: Random) -> Members:
    one, two = rng.choice(list(members)), rng.choice(list(members))
    return members | {one: members[two], two: members[one]}


def _member_added(members: Members, rng: Random) -> Members:
    more = rng.choice((b"", b"\x93NUMPY", plain_npy(np.zeros((3, 3))), bytes(10**6)))
    return members | {rng.choice(("b.npy", "more.npy", "c", "shape.npy", "format.npy")): more}


def _member_worn(members: Members, rng: Random) -> Members:
    name = rng.choice(list(members))
    return members | {name: worn(members[name], rng)}


def _member_lies(members: Members, rng: Random) -> Members:
    arrays = [name for name in members if name.endswith(".npy")]
    if not arrays:
        return members
    name = rng.choice(arrays)
    try:
        array = np.lib.format.read_array(io.BytesIO(members[name]), allow_pickle=False)
    except Exception:  # it lies already
        return members
    return members | {name: lying_npy(array, rng)}


def other_array(array: Any, rng: Random) -> Any:
    """Return another array in the place of one: of other length, shape, type or values."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: array[:-1] if array.ndim else array,
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: array[np.newaxis],
        lambda: array.ravel()[:1].reshape(()) if array.size else array,
        lambda: array.ravel()[:0],
        lambda: array.T,
        lambda: array.reshape(-1),
        lambda: array[::-1] if array.ndim else array,
        lambda: array.astype(rng.choice(("f4", "f8", "i1", "i8", "u1", "u8", "?", "c16", "U3", "S3", "M8[s]"))),
        lambda: np.full(array.shape, rng.choice((np.nan, np.inf, -1.0, 0.0, 1e300))),
        lambda: np.full(array.shape, rng.choice((-1, 0, 2**31, 2**62, 7)), dtype=np.int64),
        lambda: _one_else(array, rng),
        lambda: np.zeros(rng.choice(((0,), (0, 5), (5, 0), (1, 1, 1), (1000,), (3, 7)))),
        lambda: np.array(rng.choice(("csr", "csc", "", "x" * 100, "日本"))),
        lambda: np.zeros(3, dtype=[("a", "f8")]),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        return rng.choice(kinds)()


def _one_else(array: Any, rng: Random) -> Any:
    out = np.array(array)
    if out.size and out.dtype.kind in "fiu":
        least, most = (-1e300, 1e300) if out.dtype.kind == "f" else (np.iinfo(out.dtype).min, np.iinfo(out.dtype).max)
        number = rng.choice((0, 1, -1, N, D, 2**31, least, most))
        out.reshape(-1)[rng.randrange(out.size)] = min(max(number, least), most)
    return out


def _member_else(members: Members, rng: Random) -> Members:
    arrays = [name for name in members if name.endswith(".npy")]
    if not arrays:
        return members
    name = rng.choice(arrays)
    try:
        array = np.lib.format.read_array(io.BytesIO(members[name]), allow_pickle=False)
        return members | {name: plain_npy(other_array(array, rng))}
    except Exception:  # it lies already
        return members


MEMBERS = (
    _member_dropped,
    _member_renamed,
    _member_swapped,
    _member_added,
    _member_worn,
    _member_lies,
    _member_lies,
    _member_else,
    _member_else,
)


def hostile_zip(members: Members, rng: Random) -> bytes:
    """Return an archive with other members, or with a directory that does not fit them."""
    if rng.random() < 0.65 and members:
        members = some(rng, MEMBERS, members)
    content = archived(members, rng)
    if rng.random() < 0.45:
        content = some(rng, (lying_zip,), content)
    return worn(content, rng) if rng.random() < 0.1 else content


def npz(folder: Path, rng: Random) -> Case:
    """Write a .npz file of one array, or of two of which one is asked for."""
    X = np.asarray(matrix(rng), order=rng.choice("CF"))
    members = {"arr_0.npy": plain_npy(X)}
    wanted = ReadOptions()
    if rng.random() < 0.3:
        members["other.npy"], wanted = plain_npy(X[:3]), ReadOptions(dataset=rng.choice(("arr_0", "other", "absent")))
    path = folder / "case.npz"
    path.write_bytes(hostile_zip(members, rng))
    return Case(path, wanted)


def npz_sparse(folder: Path, rng: Random) -> Case:
    """Write what `scipy.sparse.save_npz` writes."""
    X, out = matrix(rng), io.BytesIO()
    sparse.save_npz(out, sparse.csr_array(X).asformat(rng.choice(("csr", "csr", "csc", "coo", "bsr", "dia"))))
    with zipfile.ZipFile(out) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if rng.random() < 0.5:
        members |= _sparse_claim(rng)
    path = folder / "case.npz"
    path.write_bytes(hostile_zip(members, rng) if rng.random() < 0.8 else archived(members, rng))
    return Case(path)


def _sparse_claim(rng: Random) -> Members:
    """Return a member that claims another shape or format than there is."""
    if rng.random() < 0.3:
        form: Any = rng.choice(
            (b"csr", b"csc", b"coo", b"bsr", b"dia", b"lil", b"dok", b"", b"\xff", 7, "csr", [b"csr", b"csc"])
        )
        return {"format.npy": plain_npy(np.array(form))}
    sizes = (1, 39, 40, 41, 0, -1, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, 10**6)
    shape: Any = [rng.choice((N, *sizes)), rng.choice((D, *sizes))]
    return {
        "shape.npy": plain_npy(
            np.array(rng.choice((shape, shape, shape, shape[:1], [*shape, 1], shape[0], [40.0, 5.0])))
        )
    }


# -- the package's own archives

SKETCHES: dict[str, Members] = {}
ESTIMATES: dict[str, Members] = {}


def _of(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _sketches(folder: Path) -> dict[str, Members]:
    from sparsemean import sketch

    X = np.random.default_rng(0).normal(size=(150, D)) + 1
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    made = {
        "plain": sketch(X, feature_names=list("abcde")),
        "middle": sketch(X, first_row=1000, random_state=2**100),
        "sealed": sketch(X, first_row=70, sealed=True),
        "gaps": sketch(gaps, missing="omit", null=np.arange(5.0)),
        "single": sketch(np.round(X[:1]).astype(np.int8), first_row=63, bucket_sizes=(1, 64)),
    }
    out = {}
    for name, one in made.items():
        one.save(folder / "made.sketch")
        out[name] = _of((folder / "made.sketch").read_bytes())
        (folder / "made.sketch").unlink()
    return out


def sketch(folder: Path, rng: Random) -> Case:
    """Write a sketch whose checksums are right and whose header is not that of its arrays."""
    import hashlib

    if not SKETCHES:
        SKETCHES.update(_sketches(folder))
    members = dict(SKETCHES[rng.choice(list(SKETCHES))])
    if rng.random() < 0.55:
        header = json.loads(members["header.json"])
        for _ in range(rng.choice((1, 1, 2))):
            header = edited(
                header, rng, ([[0, 150]], [[0, 2**62]], [1, 2, 4], [2**62], str(2**128), "1_0", [10**9], 10**12)
            )
        members["header.json"] = as_json(header)
    elif rng.random() < 0.2 and "feature_names.json" in members:
        names = edited(json.loads(members["feature_names.json"]), rng)
        members["feature_names.json"] = as_json(names)
        header = json.loads(members["header.json"]) | {
            "names": hashlib.sha256(members["feature_names.json"]).hexdigest()
        }
        members["header.json"] = as_json(header)
    path = folder / "case.sketch"
    path.write_bytes(hostile_zip(members, rng) if rng.random() < 0.6 else archived(members, rng))
    return Case(path)


def _estimates(folder: Path) -> dict[str, Members]:
    from sparsemean import SparseMeanDifference, simulate, sparse_mean

    data = simulate.make_contaminated(120, 8, [6, -5, 0, 4], random_state=0)
    made = {
        "plain": sparse_mean(data.X, random_state=0, feature_names=list("abcdefgh")),
        "groups": sparse_mean(data.X, groups=np.arange(120) // 2, random_state=0),
        "two": SparseMeanDifference().fit(data.X, np.arange(120) % 2).result_,
        "gaps": sparse_mean(np.where(data.X > 7, np.nan, data.X), missing="omit", null=1.0, random_state=0),
    }
    out = {}
    for name, one in made.items():
        one.save(folder / "made.npz")
        out[name] = _of((folder / "made.npz").read_bytes())
        (folder / "made.npz").unlink()
    return out


def estimate(folder: Path, rng: Random) -> Case:
    """Write a saved estimate with another header or other arrays."""
    if not ESTIMATES:
        ESTIMATES.update(_estimates(folder))
    members = dict(ESTIMATES[rng.choice(list(ESTIMATES))])
    if rng.random() < 0.5:
        header = json.loads(str(np.lib.format.read_array(io.BytesIO(members["header.npy"]))))
        for _ in range(rng.choice((1, 1, 2))):
            header = edited(header, rng)
        members["header.npy"] = plain_npy(np.array(as_json(header).decode()))
    path = folder / "case.npz"
    path.write_bytes(hostile_zip(members, rng) if rng.random() < 0.6 else archived(members, rng))
    return Case(path)
