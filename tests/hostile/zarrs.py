"""Zarr folders of both formats: metadata and codecs that ask for anything, chunks that are damaged or are no files."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from sparsemean._data.table import ReadOptions

from hostile import places
from hostile.case import Case, D, N, as_json, edited, some, stamped, worn

Files = dict[str, bytes]
BASES: dict[str, Files] = {}


class Shouting:
    """Pickled, it writes to standard error as soon as it is unpickled."""

    def __reduce__(self) -> Any:
        return os.write, (2, b"code of the file was run\n")


FILTERS: tuple[Any, ...] = tuple(
    {"id": name, **more}
    for name, more in (
        ("pickle", {}), ("pickle", {"protocol": 2}), ("json2", {}), ("msgpack2", {}), ("vlen-utf8", {}), ("vlen-bytes",
        {}), ("vlen-array", {"dtype": "<f8"}),
        ("delta", {"dtype": "<f8"}), ("fixedscaleoffset", {"offset": 0, "scale": 1, "dtype": "<f8"}), ("quantize",
        {"digits": 3, "dtype": "<f8"}),
        ("astype", {"encode_dtype": "|O", "decode_dtype": "<f8"}), ("packbits", {}), ("categorize", {"labels": ["a"],
        "dtype": "<U1"}), ("crc32", {}),
        ("zlib", {"level": 1}), ("gzip", {"level": 1}), ("bz2", {"level": 1}), ("lzma", {}), ("zstd", {"level": 1}),
        ("blosc", {}), ("lz4", {}), ("shuffle", {"elementsize": 8}),
        ("base64", {}), ("bitround", {"keepbits": 3}), ("pcodec", {}), ("zfpy", {}), ("n5_wrapper", {}), ("nonsense",
        {}), ("", {}),
    )
)  # fmt: skip
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CODECS: tuple[Any, ...] = (
    BYTES, {"name": "bytes"}, {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "zstd",
    "configuration": {"level": 0, "checksum": True}},
    {"name": "gzip", "configuration": {"level": 1}}, {"name": "gzip", "configuration": {"level": 99}},
    {"name": "crc32c"},
    {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 8,
    "blocksize": 0}},
    {"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "transpose", "configuration": {"order": [0,
    0]}},
    {"name": "vlen-utf8"}, {"name": "vlen-bytes"}, {"name": "numcodecs.pickle"}, {"name": "numcodecs.zlib",
    "configuration": {"level": 1}},
    {"name": "numcodecs.delta", "configuration": {"dtype": "<f8"}}, {"name": "numcodecs.astype",
    "configuration": {"encode_dtype": "|O", "decode_dtype": "<f8"}},
    {"name": "nonsense"}, {"name": "os.system", "configuration": {"command": "true"}},
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [10, 5], "codecs": [BYTES], "index_codecs": [BYTES,
    {"name": "crc32c"}], "index_location": "end"}},
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [0, 5], "codecs": [BYTES], "index_codecs": [BYTES],
    "index_location": "start"}},
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": [{"name": "sharding_indexed",
    "configuration": {"chunk_shape": [1, 1], "codecs": [BYTES], "index_codecs": [BYTES]}}], "index_codecs": [BYTES]}},
)  # fmt: skip
ODD: tuple[Any, ...] = (
    *CODECS, *FILTERS, [10**12, 5], [40, 10**12], [2**63, 2], [40, 5, 1], [40], [0, 5], [-1, 5], [1, 1], [10**9,
    10**9], [7, 3], "<f8", "|O", "<U4", "|S8", ">f4", "<i8", "|b1",
    "<M8[ns]", "<c16", "float32", "float64", "int8", "string", "r8", "bool", "complex128", "variable_length_utf8",
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 2**40}},
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, {"name": "structured",
    "configuration": {"fields": [["a", "float64"]]}}, "Infinity", "-Infinity", "0x7fc00000",
    "array", "group", "F", "C", ".", "/", "v2", "default", "regular", "rectangular", 2, 3, 4,
)  # fmt: skip


def _bases() -> dict[str, Files]:
    """Return small folders of every form."""
    import zarr

    import kinds

    X = np.random.default_rng(0).normal(size=(N, D)) + 1
    X[X < 0.5] = 0
    out = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder)
        zarr.create_array(store=path / "v3", data=X, chunks=(10, 5))
        zarr.create_array(store=path / "v3 shards", data=X, chunks=(5, 5), shards=(20, 5))
        zarr.create_array(store=path / "v3 plain", data=X.astype("f4"), chunks=(40, 2), compressors=None)
        zarr.create_array(store=path / "v2", data=X, chunks=(10, 5), zarr_format=2)
        zarr.create_array(store=path / "v2 plain", data=X, chunks=(16, 3), zarr_format=2, compressors=None, order="F")
        for version in (2, 3):
            group = zarr.create_group(path / f"v{version} group", zarr_format=version)
            group.create_array("a/values", data=X, chunks=(20, 5))
            group.create_array("labels", data=np.arange(N), chunks=(20,))
            group.create_array("other", data=X[:3], chunks=(3, 5))
        import anndata
        from scipy import sparse

        for version, form in ((2, sparse.csr_matrix), (3, sparse.csc_matrix), (3, np.asarray)):
            adata: Any = kinds.anndata_of(X, form)
            adata.obs["group"] = [f"g{k % 2}" for k in range(N)]
            adata.obs["text"] = [f"t{k}" for k in range(N)]
            with anndata.settings.override(zarr_write_format=version):
                adata.write_zarr(path / f"v{version} AnnData {form.__name__}")
        for base in path.iterdir():
            out[base.name] = {
                str(part.relative_to(base)): part.read_bytes() for part in sorted(base.rglob("*")) if part.is_file()
            }
    return out


def _metadata(files: Files) -> list[str]:
    return [
        name
        for name in files
        if name.rpartition("/")[2] in (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")
    ]


def _said(files: Files, rng: Random) -> tuple[str, Any]:
    """Return a file of metadata and what is in it."""
    name = rng.choice(_metadata(files) or list(files) or ["zarr.json"])
    try:
        return name, json.loads(files.get(name, b"{}"))
    except (ValueError, RecursionError):
        return name, {}


def _json(files: Files, rng: Random) -> Files:
    name, said = _said(files, rng)
    return files | {name: as_json(edited(said, rng, ODD))}


def _codecs(files: Files, rng: Random) -> Files:
    """Ask for other codecs, and store what the pickle codec would run."""
    name, said = _said(files, rng)
    if not isinstance(said, dict):
        return files
    if "codecs" in said or name.endswith("zarr.json"):
        said["codecs"] = (
            [rng.choice(CODECS) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
            if rng.random() < 0.5
            else [*list(said.get("codecs") or []), rng.choice(CODECS)]
        )
    else:
        said[rng.choice(("filters", "compressor"))] = rng.choice(
            ([rng.choice(FILTERS)], [rng.choice(FILTERS), rng.choice(FILTERS)], rng.choice(FILTERS), None, [])
        )
    files = files | {name: as_json(said)}
    if rng.random() < 0.4:
        files = files | {chunk: pickle.dumps(Shouting()) for chunk in files if chunk not in _metadata(files)}
    return files


def _text(files: Files, rng: Random) -> Files:
    name, _ = _said(files, rng)
    content = rng.choice(
        (
            b"",
            b"{",
            b"[" * 100_000,
            b"null",
            b"\xff\xfe",
            b'{"a": ' * 3000 + b"1" + b"}" * 3000,
            worn(files.get(name, b""), rng),
            b'{"zarr_format": 1}',
            b"1" * 6000,
        )
    )
    return files | {name: content}


def _claim(files: Files, rng: Random) -> Files:
    """Claim another shape, or chunks of another."""
    name, said = _said(files, rng)
    if not isinstance(said, dict):
        return files
    sizes = (0, 1, 5, 40, 41, 1000, 10**6, 10**9, 10**12, 2**62)
    shape = [rng.choice(sizes), rng.choice((5, 5, *sizes))]
    try:
        if rng.random() < 0.6:
            said["shape"] = shape
        elif "chunks" in said:
            said["chunks"] = shape
        else:
            said["chunk_grid"]["configuration"]["chunk_shape"] = shape
    except (KeyError, TypeError):
        return files
    return files | {name: as_json(said)}


def _chunk(files: Files, rng: Random) -> Files:
    chunks = [name for name in files if name not in _metadata(files)]
    if not chunks:
        return files
    name = rng.choice(chunks)
    content = files[name]
    changed = (
        worn(content, rng),
        stamped(content, rng.randrange(min(32, max(1, len(content)))), rng),
        stamped(content, max(0, len(content) - 1 - rng.randrange(32)), rng),
        b"",
        content * 2,
        bytes(len(content)),
        b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 20,
    )
    return files | {name: rng.choice(changed)}


def _gone(files: Files, rng: Random) -> Files:
    gone = rng.choice(list(files))
    return {name: content for name, content in files.items() if name != gone}


def _moved(files: Files, rng: Random) -> Files:
    one, two = rng.choice(list(files)), rng.choice(list(files))
    return files | {one: files[two]}


CHANGES = (_json, _json, _json, _json, _codecs, _codecs, _claim, _claim, _text, _chunk, _chunk, _gone, _moved)


def _written(version: int, folder: Path, rng: Random) -> Case:
    if not BASES:
        BASES.update(_bases())
    base = rng.choice([name for name in BASES if name.startswith(f"v{version}")])
    files = dict(BASES[base])
    if rng.random() < 0.9:
        files = some(rng, CHANGES, files)
    path = folder / "case.zarr"
    path.mkdir()
    for name, content in files.items():
        part = path / name
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
        except OSError:  # a folder where a file should be
            continue
    if rng.random() < 0.12:
        _no_file(path, rng)
    wanted = ReadOptions()
    if "AnnData" in base:
        wanted = rng.choice(
            (
                ReadOptions(),
                ReadOptions(group="group"),
                ReadOptions(id="text"),
                ReadOptions(select=("feature 1",)),
                ReadOptions(dataset="X"),
            )
        )
    elif "group" in base:
        wanted = ReadOptions(dataset=rng.choice(("a/values", "other", "labels", "a", "..", "/", "../case.zarr", None)))
    return Case(path, wanted)


def _no_file(path: Path, rng: Random) -> None:
    """Put something else in the place of a file inside, or a link that leads back."""
    if rng.random() < 0.3:
        where = rng.choice([path, *(part for part in path.rglob("*") if part.is_dir())])
        (where / "again").symlink_to(path, target_is_directory=True)
        return
    part = rng.choice([part for part in path.rglob("*") if part.is_file()] or [path / "zarr.json"])
    part.unlink(missing_ok=True)
    rng.choice([put for put in places.NO_FILES if put is not places.hole])(part, rng)  # a chunk is read whole


def zarr2(folder: Path, rng: Random) -> Case:
    """Write a .zarr folder of the second format."""
    return _written(2, folder, rng)


def zarr3(folder: Path, rng: Random) -> Case:
    """Write a .zarr folder of the third format."""
    return _written(3, folder, rng)
