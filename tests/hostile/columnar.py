"""Parquet and Feather: types of every kind, metadata that lies, footers and messages with other numbers in them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparsemean._data.table import ReadOptions

from hostile.case import NUMBERS, Case, D, N, as_json, edited, matrix, patched, places, some, stamped, worn

ODD_COLUMNS: tuple[Callable[[], Any], ...] = (
    lambda: pa.array([f"t{k % 3}" for k in range(N)]),
    lambda: pa.array([f"t{k % 3}" for k in range(N)]).dictionary_encode(),
    lambda: pa.array(np.arange(N) % 3).dictionary_encode(),
    lambda: pa.array([Decimal(k) / 8 for k in range(N)], pa.decimal128(38, 20)),
    lambda: pa.array([Decimal(10) ** 60 if k else None for k in range(N)], pa.decimal256(76, 10)),
    lambda: pa.nulls(N),
    lambda: pa.nulls(N, pa.float64()),
    lambda: pa.array([[1.0] * (k % 3) for k in range(N)]),
    lambda: pa.array([{"a": 1.0, "b": k} for k in range(N)]),
    lambda: pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int32())),
    lambda: pa.array(range(N), pa.timestamp("ns")),
    lambda: pa.array(range(N), pa.date32()),
    lambda: pa.array(range(N), pa.duration("s")),
    lambda: pa.array(range(N), pa.time64("us")),
    lambda: pa.array([b"\xff"] * N, pa.binary(1)),
    lambda: pa.array([b"\xff\xfe"] * N),
    lambda: pa.array(np.arange(N, dtype=np.float16)),
    lambda: pa.array([k % 2 == 0 for k in range(N)]),
    lambda: pa.array(range(N), pa.uint64()),
    lambda: pa.array([2**63 + k for k in range(N)], pa.uint64()),
    lambda: pa.array([k if k % 5 else None for k in range(N)], pa.int8()),
    lambda: pa.array([[1.0, 2.0]] * N, pa.list_(pa.float64(), 2)),
    lambda: pa.array(["a"] * N, pa.large_string()),
)  # fmt: skip


NAMES = ("a", "b", "", "group", "__index_level_0__", "x.y", "\n", "日本", "a" * 2000, "\x1b[31m")


def _columns(rng: Random) -> Any:
    """Return a table of numbers, in which a few columns may be something else."""
    X = matrix(rng)
    arrays: list[Any] = [pa.array(X[:, k].astype(rng.choice(("f8", "f8", "f4")))) for k in range(D)]
    names = [f"f{k}" for k in range(D)]
    wanted = ReadOptions()
    if rng.random() < 0.5:
        at = rng.randrange(D)
        arrays[at] = rng.choice(ODD_COLUMNS)()
        wanted = rng.choice(
            (ReadOptions(), ReadOptions(group=f"f{at}"), ReadOptions(id=f"f{at}"), ReadOptions(drop=(f"f{at}",)))
        )
    if rng.random() < 0.15:
        names[rng.randrange(D)] = rng.choice(NAMES)
    if rng.random() < 0.05:
        names[1] = names[0]
    table = pa.table(arrays, names=names)
    if rng.random() < 0.3:
        table = table.replace_schema_metadata(_metadata(rng))
    if rng.random() < 0.1:
        table = rng.choice((table[:0], table[:1], table.select([]), table.select([0])))
    return table, wanted


def _metadata(rng: Random) -> dict[bytes, bytes]:
    said: Any = {
        "index_columns": ["f0"],
        "columns": [{"name": "f0", "pandas_type": "float64", "metadata": None}],
        "pandas_version": "2",
    }
    odd = (
        ["f1"],
        ["f0", "f1"],
        [{"kind": "range", "start": 0, "stop": 40, "step": 1}],
        ["absent"],
        [["f0"]],
        {"f0": 1},
    )
    text = as_json(edited(said, rng, odd))
    return {rng.choice((b"pandas", b"pandas", b"ARROW:schema", b"x")): worn(text, rng) if rng.random() < 0.3 else text}


def parquet(folder: Path, rng: Random) -> Case:
    """Write a .parquet file."""
    table, wanted = _columns(rng)
    options: dict[str, Any] = {
        "compression": rng.choice(("none", "snappy", "zstd", "gzip", "lz4", "brotli")),
        "row_group_size": rng.choice((1, 7, 40, 1000)),
        "use_dictionary": rng.random() < 0.4,
        "version": rng.choice(("1.0", "2.4", "2.6")),
        "data_page_version": rng.choice(("1.0", "2.0")),
        "store_schema": rng.random() < 0.7,
        "write_page_checksum": rng.random() < 0.2,
        "write_page_index": rng.random() < 0.2,
        "data_page_size": rng.choice((1, 100, 10**6)),
    }
    out = io.BytesIO()
    try:
        pq.write_table(table, out, **options)
    except (pa.ArrowException, ValueError, NotImplementedError):
        pq.write_table(table.select([]), out)
    content = out.getvalue()
    if rng.random() < 0.75:
        content = some(
            rng, (_in_footer, _in_footer, _in_footer, _footer_length, _in_pages, _in_pages, _schema_lies, worn), content
        )
    path = folder / "case.parquet"
    path.write_bytes(content)
    return Case(path, wanted)


def _footer(content: bytes) -> int:
    size = int.from_bytes(content[-8:-4], "little")
    return max(4, len(content) - 8 - size)


def _in_footer(content: bytes, rng: Random) -> bytes:
    """Change a few bytes of the footer: lengths, types, counts and offsets are there, in as few bytes as they need."""
    first = _footer(content)
    if len(content) - 8 <= first:
        return worn(content, rng)
    at = rng.randrange(first, len(content) - 8)
    if rng.random() < 0.6:
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    varint = rng.choice(
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x00", b"\x02", b"\xfe\xff\xff\xff\x0f", b"\x80" * 9 + b"\x01")
    )
    grown = content[:at] + varint + content[at + rng.choice((1, len(varint))) :]
    return grown[:-8] + (len(grown) - 8 - first).to_bytes(4, "little") + grown[-4:] if rng.random() < 0.7 else grown


def _footer_length(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.2:
        return content[:-4] + rng.choice((b"PARE", b"PAR2", b"\0\0\0\0"))
    return patched(
        content, len(content) - 8, "<I", rng.choice((*NUMBERS, len(content), len(content) - 8, len(content) - 12))
    )


def _in_pages(content: bytes, rng: Random) -> bytes:
    return stamped(content, rng.randrange(4, max(5, _footer(content))), rng)


def _schema_lies(content: bytes, rng: Random) -> bytes:
    """Change the schema of Arrow's that is kept beside the file's own, in as many bytes."""
    found = places(content, b"ARROW:schema")
    if not found:
        return _in_footer(content, rng)
    at = content.find(b"/////", found[0])
    end = at
    while at >= 0 and end < len(content) and (content[end : end + 1].isalnum() or content[end] in b"+/="):
        end += 1
    try:
        inner = base64.b64decode(content[at:end])
    except ValueError:
        return content
    changed = base64.b64encode(stamped(inner, rng.randrange(max(1, len(inner) - 8)), rng)) if inner else b""
    return content[:at] + changed + content[end:] if len(changed) == end - at else content
