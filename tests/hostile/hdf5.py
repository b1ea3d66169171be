"""HDF5 files, AnnData's among them: links in circles or to elsewhere, storage elsewhere, claims, damaged structures."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from sparsemean._data.table import ReadOptions

from hostile.case import Case, D, N, matrix, places, stamped, worn

BASES: dict[str, bytes] = {}
MARKS = (
    b"TREE",
    b"SNOD",
    b"HEAP",
    b"GCOL",
    b"OHDR",
    b"OCHK",
    b"FRHP",
    b"FHDB",
    b"FSHD",
    b"BTHD",
    b"BTLF",
    b"\x89HDF",
    b"EAHD",
    b"FAHD",
)
STRINGS = h5py.string_dtype()
SIZES = (
    (10**12, 5),
    (40, 10**12),
    (10**9, 10**9),
    (2**62, 1),
    (10**6, 40),
    (40, 10**6),
    (1, 10**8),
    (10**8, 1),
    (2**31, 2),
)


def _elsewhere(path: Path, rng: Random) -> str:
    """Return the name of another file: one with a matrix, none, the file itself, or none that ends."""
    other = path.with_name("other.h5")
    if not other.exists():
        with h5py.File(other, "w") as file:
            file["values"] = np.ones((N, D))
            file["back"] = h5py.ExternalLink(path.name, "/")
            file["values2"] = h5py.ExternalLink(path.name, "/values")
    pipe = path.with_name("pipe")
    if not pipe.exists():
        os.mkfifo(pipe)
    return rng.choice(
        (
            other.name,
            str(other),
            other.name,
            "absent.h5",
            path.name,
            "pipe",
            str(pipe),
            "/dev/zero",
            "/dev/null",
            "/etc/passwd",
            "../other.h5",
            "",
        )
    )


def _soft(group: Any, name: str, path: Path, rng: Random) -> None:
    group[name] = h5py.SoftLink(
        rng.choice((f"{group.name}/{name}", "/", "/absent", "/values", ".", "..", "/X", "/obs", "/var", "x" * 5000))
    )


def _chain(group: Any, name: str, path: Path, rng: Random) -> None:
    length = rng.choice((2, 15, 40))
    for k in range(length):
        link = f"{name}{k}" if k else name
        if link not in group:
            group[link] = h5py.SoftLink(f"{group.name.rstrip('/')}/{name}{(k + 1) if k + 1 < length else 1}")


def _external_link(group: Any, name: str, path: Path, rng: Random) -> None:
    group[name] = h5py.ExternalLink(
        _elsewhere(path, rng),
        rng.choice(("/values", "/", "/absent", "back", "back/other/back/values", "values2", f"/{name}")),
    )


def _hard(group: Any, name: str, path: Path, rng: Random) -> None:
    file = group.file
    other = _own(file, rng.choice(list(file.keys()))) if rng.random() < 0.5 and len(file) else None
    group[name] = file["/"] if other is None else other


def _external_storage(group: Any, name: str, path: Path, rng: Random) -> None:
    shape, kind = rng.choice(((N, D), (N,), (N + 1,), (10**9, 5))), rng.choice(("f8", "i4", "S4"))
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    other = _elsewhere(path, rng) or "x"
    group.create_dataset(
        name, shape, kind, external=[(other, rng.choice((0, 0, 100)), rng.choice((size, size, h5py.h5f.UNLIMITED)))]
    )


def _virtual(group: Any, name: str, path: Path, rng: Random) -> None:
    shape = rng.choice(((N, D), (N, D), (N,), (10**7, 5)))
    layout = h5py.VirtualLayout(shape, rng.choice(("f8", "f4", "i4")))
    for _ in range(rng.choice((1, 1, 2, 30))):
        where = rng.choice((".", path.name, _elsewhere(path, rng) or "."))
        inner = rng.choice(("/values", f"{group.name}/{name}", "/absent", "values2"))
        first = rng.randrange(min(shape[0], N))
        source = h5py.VirtualSource(where, inner, shape)
        layout[first:] = source[first:]
    group.create_virtual_dataset(
        name, layout, fillvalue=rng.choice((None, 0, np.nan, 7)) if layout.dtype.kind == "f" else 7
    )


def _claim(group: Any, name: str, path: Path, rng: Random) -> None:
    """Claim a size of which nothing is stored."""
    shape = rng.choice(SIZES) if rng.random() < 0.8 else rng.choice(((10**12,), (40,), (41,), (2**40,)))
    kind, packed = rng.choice(("f8", "f4", "i1", "?", "S100")), rng.choice((None, "gzip", "lzf"))
    chunks: Any = tuple(min(size, rng.choice((1, 10, 1000, 20000))) for size in shape)
    if rng.random() < 0.15:
        chunks = tuple(min(size, 2**14) for size in shape)
    most = tuple(None for _ in shape) if rng.random() < 0.3 else None
    if rng.random() < 0.2:
        chunks, packed, most = None, None, None
    group.create_dataset(
        name,
        shape,
        kind,
        chunks=chunks,
        compression=packed,
        maxshape=most,
        fillvalue=None if kind == "S100" else rng.choice((None, 0, 1)),
    )


def _odd_type(group: Any, name: str, path: Path, rng: Random) -> None:
    shape = rng.choice(((N, D), (N, D), (N,), (D,), (), (0, 5), (N, 0), (2, 2, 2), (1,) * 20))
    kind: Any = rng.choice((
        STRINGS, "S7", "S1", "f2", ">f8", ">i4", "u8", "c16", "?", np.dtype([("a", "f8"), ("b",
        "i4")]), np.dtype(("f8", (3,))), "V5", h5py.ref_dtype, h5py.regionref_dtype,
        h5py.vlen_dtype("f8"), h5py.enum_dtype({"A": 0, "B": 1}, basetype="i1"), "f16", h5py.opaque_dtype("M8[s]"),
        h5py.string_dtype("ascii", 3), h5py.vlen_dtype(h5py.vlen_dtype("i4")),
    ))  # fmt: skip
    group.create_dataset(name, shape, kind)


def _empty(group: Any, name: str, path: Path, rng: Random) -> None:
    group[name] = h5py.Empty(rng.choice(("f8", STRINGS)))


def _strings(group: Any, name: str, path: Path, rng: Random) -> None:
    values = [
        rng.choice((b"a", b"\xff\xfe", b"", b"x" * 300, "日本".encode(), b"\x1b[31m", b"a\0b"))
        for _ in range(rng.choice((N, D, 1, 41)))
    ]
    group.create_dataset(
        name, data=np.array(values, dtype=object), dtype=h5py.string_dtype(rng.choice(("utf-8", "ascii")))
    )


def _numbers(group: Any, name: str, path: Path, rng: Random) -> None:
    shape = rng.choice(((N, D), (N,), (N + 1,), (D,), (D + 1,), (3,), (0,)))
    values = np.random.default_rng(rng.getrandbits(32)).integers(
        rng.choice((-9, 0)), rng.choice((1, 5, 40, 10**6)), shape
    )
    group.create_dataset(name, data=values.astype(rng.choice(("i8", "i4", "f8", "u1", "i1"))))


def _filtered(group: Any, name: str, path: Path, rng: Random) -> None:
    """Store a matrix that passes through filters, one of which nobody has."""
    how = rng.choice(
        (
            {"compression": "gzip"},
            {"compression": "lzf"},
            {"shuffle": True, "fletcher32": True},
            {"scaleoffset": 3},
            {"compression": "szip"} if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP) else {},
        )
    )
    if rng.random() < 0.6:
        group.create_dataset(name, data=matrix(rng), chunks=(10, 5), **how)
        return
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((10, 5))
    settings.set_filter(rng.choice((32001, 305, 32015, 1000)), h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
    made = h5py.h5d.create(group.id, name.encode(), h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((N, D)), settings)
    if rng.random() < 0.5:
        made.write_direct_chunk((0, 0), bytes(rng.choice((400, 3, 4000))), rng.choice((0, 1)))


def _raw_chunk(group: Any, name: str, path: Path, rng: Random) -> None:
    """Store a chunk that does not unpack, or not to its size."""
    import zlib

    made = group.create_dataset(name, (N, D), "f8", chunks=(10, 5), compression="gzip", shuffle=rng.random() < 0.5)
    content = rng.choice((b"", b"junk", zlib.compress(bytes(rng.choice((0, 400, 399, 4000, 10**7)))), bytes(400)))
    made.id.write_direct_chunk((0, 0), content, rng.choice((0, 0, 1)))


def _group(group: Any, name: str, path: Path, rng: Random) -> None:
    made = group.create_group(name, track_order=rng.random() < 0.3)
    for k in range(rng.choice((0, 1, 5, 300))):
        made.create_group(rng.choice(("a", "categories", "data", "é")) + str(k))
    for _ in range(rng.choice((0, 0, 30, 200))):
        made = made.create_group("d")


def _named_type(group: Any, name: str, path: Path, rng: Random) -> None:
    group[name] = np.dtype("f8")


def _gone(group: Any, name: str, path: Path, rng: Random) -> None:
    pass


Put = Callable[[Any, str, Path, Random], None]
PUTS: tuple[Put, ...] = (
    _soft, _chain, _external_link, _external_link, _hard, _external_storage, _virtual, _virtual, _claim, _claim,
    _claim, _odd_type, _odd_type,
    _empty, _strings, _numbers, _numbers, _filtered, _raw_chunk, _group, _named_type, _gone,
)  # fmt: skip
ATTRIBUTES: tuple[Callable[[], Any], ...] = (
    lambda: "anndata", lambda: b"anndata", lambda: "csr_matrix", lambda: "csc_matrix", lambda: "null", lambda: "",
    lambda: 0, lambda: -1, lambda: [40, 5], lambda: [10**12, 5], lambda: [40, 10**12],
    lambda: [-1, 5], lambda: [40], lambda: [2**62, 2**62], lambda: [40.0, 5.0], lambda: "_index", lambda: "absent",
    lambda: np.array(["a", "b"], dtype=object), lambda: h5py.Empty("f8"), lambda: np.zeros((3, 3)),
    lambda: np.bytes_(b"\xff\xfe"), lambda: h5py.Empty(STRINGS), lambda: np.nan, lambda: "categorical",
    lambda: "array", lambda: "..", lambda: "x" * 60000, lambda: np.zeros(2, dtype=[("a", "f8")]),
)  # fmt: skip
NAMED = (
    "encoding-type",
    "shape",
    "h5sparse_format",
    "h5sparse_shape",
    "_index",
    "column-order",
    "categories",
    "encoding-version",
)


def _everything(file: Any) -> list[str]:
    """Return the names of all that is in a file, links that lead nowhere too."""
    out: list[str] = []

    def walk(group: Any, depth: int) -> None:
        for name in group if depth < 4 and len(out) < 200 else ():
            out.append(f"{group.name.rstrip('/')}/{name}")
            element = _own(group, name)
            if isinstance(element, h5py.Group) and element != file["/"]:
                walk(element, depth + 1)

    walk(file["/"], 0)
    return out


def _edit(path: Path, rng: Random) -> None:
    """Put something else in the place of an element, beside it, or into its attributes."""
    with h5py.File(path, "r+") as file:
        name = rng.choice(_everything(file) or ["/values"])
        parent, _, last = name.rpartition("/")
        group = file[parent or "/"]
        if rng.random() < 0.25:
            _set(group, last, {rng.choice((*NAMED, *_attributes(group, last))): rng.choice(ATTRIBUTES)()})
            return
        attributes = {}
        if rng.random() < 0.8 and last in group.keys():  # noqa: SIM118 - the group itself would follow links
            attributes = _attributes(group, last)
            del group[last]
        else:
            last = rng.choice(("more", "a", "layers"))
        try:
            rng.choice(PUTS)(group, last, path, rng)
        except (ValueError, OSError, TypeError, KeyError, RuntimeError, AttributeError):
            return  # what the library itself refuses to write
        _set(group, last, attributes)


def _own(group: Any, name: str) -> Any:
    """Return an element of the file itself: links, which may lead anywhere, are not followed."""
    return group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None


def _attributes(group: Any, name: str) -> dict[str, Any]:
    element = _own(group, name)
    return dict(element.attrs) if hasattr(element, "attrs") else {}


def _set(group: Any, name: str, attributes: dict[str, Any]) -> None:
    element = _own(group, name)
    for key, value in attributes.items() if hasattr(element, "attrs") else ():
        try:
            element.attrs[key] = value
        except (OSError, TypeError, ValueError, RuntimeError):
            return


def _structure(content: bytes, rng: Random) -> bytes:
    """Change a number near a mark of the format, or point one place of the file to another: trees then have circles."""
    found = [at for mark in MARKS for at in places(content, mark)]
    if not found or rng.random() < 0.15:
        return worn(content, rng)
    at = rng.choice(found) + rng.randrange(0, 96)
    act = rng.randrange(5)
    if act == 0:
        at = at // 8 * 8
        return content[:at] + rng.choice(found).to_bytes(8, "little") + content[at + 8 :]
    if act == 1:
        return content[:at] + bytes([content[at % len(content)] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    if act == 2:  # headers of objects have no mark: they are where addresses point
        where = int.from_bytes(content[at // 8 * 8 : at // 8 * 8 + 8], "little")
        at = where + rng.randrange(64) if 0 < where < len(content) - 64 else at
    return stamped(content, min(at, len(content) - 8), rng)


def _plain(path: Path, rng: Random) -> None:
    X = matrix(rng)
    latest = rng.random() < 0.2
    with h5py.File(
        path,
        "w",
        libver="latest" if latest else "earliest",
        userblock_size=rng.choice((0, 0, 0, 512)),
        track_order=latest,
    ) as file:
        how = rng.choice(
            (
                {},
                {"chunks": (10, 5)},
                {"chunks": (10, 2), "compression": "gzip"},
                {"chunks": (40, 5), "shuffle": True, "fletcher32": True},
                {"chunks": (7, 5), "maxshape": (None, None)},
            )
        )
        file.create_dataset("values", data=X, **how)
        if rng.random() < 0.4:
            file.create_dataset("names", data=np.array([f"name {k}" for k in range(N)], dtype=object), dtype=STRINGS)
            file.create_group("a/b/c")["more"] = np.arange(N)
        if rng.random() < 0.15:
            from scipy import sparse

            compressed: Any = sparse.csr_array(X)
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(compressed, part), chunks=True)


def h5(folder: Path, rng: Random) -> Case:
    """Write an .h5 file."""
    path = folder / "case.h5"
    _plain(path, rng)
    _spoil(path, rng)
    wanted = (
        ReadOptions(dataset=rng.choice(("values", "/values", "X", "a", "more", "a/../values", ".")))
        if rng.random() < 0.35
        else ReadOptions()
    )
    return Case(path, wanted)


def _spoil(path: Path, rng: Random) -> None:
    if rng.random() < 0.6:
        for _ in range(rng.choice((1, 1, 2, 3))):
            _edit(path, rng)
    if rng.random() < 0.5:
        content = path.read_bytes()
        for _ in range(rng.choice((1, 1, 2, 4))):
            content = _structure(content, rng)
        path.write_bytes(content)


def _bases() -> dict[str, bytes]:
    import anndata
    from scipy import sparse

    import kinds

    X = np.random.default_rng(0).normal(size=(N, D)) + 1
    X[X < 0.5] = 0
    out = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in (np.asarray, sparse.csr_matrix, sparse.csc_matrix):
            adata: anndata.AnnData = kinds.anndata_of(X, form)
            adata.obs["group"] = [f"g{k % 2}" for k in range(N)]
            adata.obs["text"] = [f"t{k}" for k in range(N)]
            adata.obs["number"] = np.arange(N)
            adata.obs["maybe"] = kinds.pd.array([None if k % 3 else True for k in range(N)], dtype="boolean")
            adata.layers["raw"] = adata.X.copy()
            path = Path(folder) / "base.h5ad"
            adata.write_h5ad(path)
            out[form.__name__] = path.read_bytes()
    return out


def h5ad(folder: Path, rng: Random) -> Case:
    """Write an .h5ad file with a dense matrix."""
    return _annotated(folder, rng, ("asarray",))


def h5ad_sparse(folder: Path, rng: Random) -> Case:
    """Write an .h5ad file with a compressed matrix."""
    return _annotated(folder, rng, ("csr_matrix", "csc_matrix"))


def _annotated(folder: Path, rng: Random, forms: tuple[str, ...]) -> Case:
    if not BASES:
        BASES.update(_bases())
    path = folder / "case.h5ad"
    path.write_bytes(BASES[rng.choice(forms)])
    _spoil(path, rng)
    wanted = rng.choice(
        (
            ReadOptions(),
            ReadOptions(group="group"),
            ReadOptions(id="text"),
            ReadOptions(group="number"),
            ReadOptions(group="maybe"),
            ReadOptions(layer="raw"),
            ReadOptions(drop=("feature 1",)),
        )
    )
    return Case(path, wanted)
