"""Small files that stand for far more than they are: each is refused in one line, soon, and in little memory.

``PYTHONPATH=tests python -m hostile bombs`` makes every one of them, reads it by the command line in a process of its
own, and fails where one ends otherwise. `make hostile` does the same.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinds

MOST_SECONDS, MOST_MB = 2.0, 500
"""Time of the processor and memory at the peak, of the whole process."""
MEASURE = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
code = os.waitstatus_to_exitcode(status)
print("\\n" + json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Runs in a small process of its own: what a process had before it becomes another counts as that one's memory."""


@dataclass(frozen=True, slots=True)
class Bomb:
    """A file to be made, what is asked of it, and whether that is an answer: of what is left out none is a danger."""

    name: str
    ending: str
    make: Callable[[Path], object]
    options: tuple[str, ...]
    answered: bool


Make = Callable[[Path], object]
BOMBS: list[Bomb] = []


def bomb(name: str, ending: str, *options: str, answered: bool = False) -> Callable[[Make], Make]:
    """Add what makes a file to the list."""

    def add(make: Make) -> Make:
        BOMBS.append(Bomb(name, ending, make, options, answered))
        return make

    return add


# Text. A .gz file may have many members, so one that was packed once is written again and again.


def packed(path: Path, first: bytes, again: bytes, size: int) -> None:
    """Write a .gz file that begins with ``first`` and goes on with ``again`` until ``size`` bytes are in it."""
    part = again * (4_000_000 // len(again))
    path.write_bytes(gzip.compress(first, mtime=0) + gzip.compress(part, mtime=0) * (size // len(part)))


@bomb("zeros", ".csv.gz")
def _zeros(path: Path) -> None:
    packed(path, b"a,b,c,d\n", b"0,0,0,0\n", 260_000_000)


@bomb("gaps", ".csv.gz", "--missing", "omit")
def _gaps(path: Path) -> None:
    packed(path, b"a,b,c,d,e,f,g,h\n", b",,,,,,,\n", 260_000_000)


@bomb("cells of a header", ".csv.gz")
def _header(path: Path) -> None:
    packed(path, b"a", b",a", 200_000_000)


@bomb("gaps of a header", ".tsv.gz")
def _empty_header(path: Path) -> None:
    packed(path, b"a", b"\t", 200_000_000)


@bomb("cells below a header", ".csv.gz")
def _wide(path: Path) -> None:
    packed(path, b"a,b\n1", b",1", 200_000_000)


@bomb("one number", ".csv.gz")
def _number(path: Path) -> None:
    packed(path, b"a,b\n1,", b"1", 400_000_000)


@bomb("one name", ".csv.gz")
def _name(path: Path) -> None:
    packed(path, b"a,b", b"b", 400_000_000)


@bomb("empty lines", ".csv.gz")
def _lines(path: Path) -> None:
    packed(path, b"a,b\n", b"\n", 400_000_000)


@bomb("lines of one cell, turned", ".csv.gz", "--transpose")
def _turned(path: Path) -> None:
    packed(path, b"a\n", b"1\n", 98_000_000)


@bomb("gaps, turned", ".csv.gz", "--transpose")
def _turned_gaps(path: Path) -> None:
    packed(path, b"a,b\n", b",\n", 12_000_000)


@bomb("breaks, turned", ".csv.gz", "--transpose")
def _turned_breaks(path: Path) -> None:
    packed(path, b"a,b\r\n1,2\r\n", b"\r\n", 98_000_000)


@bomb("rows of few cells, turned", ".csv.gz", "--transpose")
def _turned_rows(path: Path) -> None:
    packed(path, b"a,b\n", b"1,2\n", 24_000_000)


@bomb("spaces", ".txt.gz")
def _spaces(path: Path) -> None:
    packed(path, b"a\tb\n1\t", b" ", 400_000_000)


@bomb("open quote", ".csv.gz")
def _packed_quote(path: Path) -> None:
    packed(path, b'a,b\n1,2\n"1,2\n', b"1,2\n", 400_000_000)


@bomb("open quote", ".csv")
def _quote(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'a,b\n1,2\n"1,2\n')
        for _ in range(100):
            file.write(b"1,2\n" * 1_500_000)


@bomb("open quote of a name", ".csv")
def _quoted_name(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'a,"b\n')
        for _ in range(100):
            file.write(b"1,2\n" * 1_500_000)


@bomb("long names of rows", ".csv.gz", "--id", "a")
def _names_of_rows(path: Path) -> None:
    packed(path, b"a,b\n", b"x" * 1000 + b",1\n", 260_000_000)


@bomb("names of rows", ".csv.gz", "--id", "a")
def _short_names(path: Path) -> None:
    packed(path, b"a,b\n", b"xx,1\n", 260_000_000)


@bomb("text left out", ".csv.gz", "--drop-text")
def _text(path: Path) -> None:
    packed(path, b"a,b\n", b"xx,1\n", 260_000_000)


@bomb("percent signs", ".csv.gz")
def _percent(path: Path) -> None:
    packed(path, b"a,b\n", b"1%,yes\n", 84_000_000)


@bomb("money", ".csv.gz")
def _money(path: Path) -> None:
    packed(path, b"a,b\n", b"$1 234,yes\n", 132_000_000)


@bomb("quotes", ".csv")
def _quotes(path: Path) -> None:
    path.write_bytes(b'"' * 500_000_000)


@bomb("a long label", ".csv", "--group", "a")
def _label(path: Path) -> None:
    path.write_bytes(b"a,b\n" + b"x,1\ny,2\n" * 100_000 + b"z" * 100_000 + b",3\n")


@bomb("UTF-16", ".csv.gz")
def _utf16(path: Path) -> None:
    packed(path, "a,b\n".encode("utf-16"), "0,0\n".encode("utf-16-le"), 260_000_000)


# NumPy.


def array(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """Return the head of a .npy file."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue()


def zipped(path: Path, members: dict[str, tuple[bytes, bytes, int]]) -> None:
    """Write a zip archive: each member begins with some bytes and goes on with others, packed once, up to a size."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (first, again, size) in members.items():
            part = again * (4_000_000 // len(again))
            times, left = divmod(size, len(part))
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            begin, middle, end = (
                packer.compress(content) + packer.flush(how)  # nothing before a full flush is referred to after it
                for content, how in ((first, F), (part if times else b"", F), ((part * 2)[:left], zlib.Z_FINISH))
            )
            info = zipfile.ZipInfo(name)
            info.compress_type, info.header_offset = zipfile.ZIP_DEFLATED, archive.fp.tell()  # type: ignore[union-attr]
            content = begin + middle * times + end
            info.CRC = zlib.crc32((part * 2)[:left], _summed(first, part, times))
            info.file_size, info.compress_size = len(first) + size, len(content)
            archive.fp.write(info.FileHeader() + content)  # type: ignore[union-attr]
            archive.filelist.append(info)
            archive.NameToInfo[name], archive.start_dir = info, archive.fp.tell()  # type: ignore[union-attr]
        archive._didModify = True  # type: ignore[attr-defined]


F = zlib.Z_FULL_FLUSH


def _summed(first: bytes, part: bytes, times: int) -> int:
    """Return the checksum of some bytes and others that follow again and again."""
    out = zlib.crc32(first)
    for _ in range(times):
        out = zlib.crc32(part, out)
    return out


@bomb("zeros", ".npz")
def _npz(path: Path) -> None:
    zipped(path, {"x.npy": (array((1_000_000, 50)), b"\0", 400_000_000)})


@bomb("sparse zeros", ".npz")
def _npz_sparse(path: Path) -> None:
    n = 25_000_000
    zipped(path, {
        "format.npy": (array((), "|S3"), b"csr", 3),
        "shape.npy": (array((2,), "<i8"), np.array([2, 10]).tobytes(), 16),
        "data.npy": (array((n,)), b"\0", 8 * n),
        "indices.npy": (array((n,), "<i4"), b"\0", 4 * n),
        "indptr.npy": (array((3,), "<i4"), np.array([0, n, n], dtype="<i4").tobytes(), 12),
    })  # fmt: skip


@bomb("a diagonal", ".npz")
def _npz_diagonal(path: Path) -> None:
    from scipy import sparse

    sparse.save_npz(path, sparse.eye(1_000_000, format="dia"))


@bomb("many arrays", ".npz", "--dataset", "y")
def _members(path: Path) -> None:
    zipped(path, {f"{k}.npy": (array((2, 2)), b"\0", 32) for k in range(5000)})


@bomb("saved estimate", ".estimate")
def _estimate(path: Path) -> None:
    zipped(path, {f"{k}.npy": (array((10_000_000,)), b"\0", 80_000_000) for k in "abcde"})


@bomb("names of a sketch", ".sketch")
def _sketch(path: Path) -> None:
    zipped(path, {"header.json": (b"{}", b" ", 0), "names.json": (b'["', b"a", 400_000_000)})


# Arrow: Parquet and Feather.


def same(n: int, value: Any) -> Any:
    """Return a column of one value."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, "i4")), [value])


def parquet(path: Path, times: int, *, n: int = 1_000_000, text: int = 0, d: int = 2) -> None:
    """Write rows of one value each, and text of a length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"x{k}": same(n, 1.5) for k in range(d)} | ({"name": same(n, "t" * text)} if text else {})
    part = pa.table(columns)
    with pq.ParquetWriter(path, part.schema, compression="zstd", store_schema=False) as file:
        for _ in range(times):
            file.write_table(part)


@bomb("one value", ".parquet")
def _parquet(path: Path) -> None:
    parquet(path, 60, d=2)


@bomb("many columns of one value", ".parquet")
def _parquet_columns(path: Path) -> None:
    parquet(path, 1, d=200)


@bomb("text", ".parquet", "--id", "name")
def _parquet_text(path: Path) -> None:
    parquet(path, 1, text=4000)


@bomb("text that is left out", ".parquet", "--drop", "name", answered=True)
def _parquet_dropped(path: Path) -> None:
    parquet(path, 1, n=100_000, text=100_000)


@bomb("text as a group", ".parquet", "--group", "name")
def _parquet_group(path: Path) -> None:
    parquet(path, 4, text=2000)


def long_texts(path: Path) -> None:
    """Write rows with a text of a megabyte each, all different."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [chr(97 + k % 26) * 1_000_000 + str(k) for k in range(800)]
    pq.write_table(pa.table({"x": np.arange(800.0), "name": texts}), path, compression="zstd")


BOMBS.append(Bomb("long texts", ".parquet", long_texts, ("--id", "name"), answered=False))
BOMBS.append(Bomb("long texts that are left out", ".parquet", long_texts, ("--drop-text",), answered=True))


# Sheets.

HEAD = f'<worksheet xmlns="{kinds.OFFICE}/spreadsheetml/2006/main"><sheetData>'.encode()
MAIN = f'xmlns="{kinds.OFFICE}/spreadsheetml/2006/main"'
TAIL = b"</sheetData></worksheet>"


def book(path: Path, sheet: tuple[bytes, bytes, int], parts: dict[str, tuple[bytes, bytes, int]] | None = None) -> None:
    """Write an .xlsx file whose parts begin with some bytes and go on with others."""
    related = kinds.BOOK["xl/_rels/workbook.xml.rels"].replace(
        "</Relationships>",
        f'<Relationship Id="r2" Type="{kinds.OFFICE}/officeDocument/2006/relationships/styles" Target="styles.xml"/>'
        f'<Relationship Id="r3" Type="{kinds.OFFICE}/officeDocument/2006/relationships/sharedStrings" '
        'Target="sharedStrings.xml"/></Relationships>',
    )
    types = kinds.BOOK["[Content_Types].xml"].replace(
        "</Types>",
        '<Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.'
        'styles+xml"/><Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    )
    plain = kinds.BOOK | {
        "xl/_rels/workbook.xml.rels": related, "[Content_Types].xml": types, "xl/styles.xml": f"<styleSheet {MAIN}/>",
        "xl/sharedStrings.xml": f"<sst {MAIN}/>",
    }  # fmt: skip
    whole = {name: (content.encode(), b" ", 0) for name, content in plain.items()}
    zipped(path, whole | {kinds.SHEET: sheet} | (parts or {}))


ROW = b"<row><c><v>0</v></c><c><v>0</v></c><c><v>0</v></c></row>"
SMALL_SHEET = (HEAD + b"<row><c><v>0</v></c></row>" * 30 + TAIL, b" ", 0)


@bomb("zeros", ".xlsx")
def _xlsx(path: Path) -> None:
    book(path, (HEAD, ROW, 120_000_000))


@bomb("fewer zeros", ".xlsx")
def _xlsx_fewer(path: Path) -> None:
    book(path, (HEAD, ROW, 30_000_000))


@bomb("styles", ".xlsx")
def _styles(path: Path) -> None:
    styles = f"<styleSheet {MAIN}><fonts>".encode(), b'<font><sz val="11"/><name val="C"/></font>', 40_000_000
    book(path, SMALL_SHEET, {"xl/styles.xml": styles})


@bomb("formats", ".xlsx")
def _formats(path: Path) -> None:
    styles = f"<styleSheet {MAIN}><cellXfs>".encode(), b'<xf numFmtId="0" fontId="0"/>', 20_000_000
    book(path, SMALL_SHEET, {"xl/styles.xml": styles})


@bomb("shared strings", ".xlsx")
def _strings(path: Path) -> None:
    book(path, SMALL_SHEET, {"xl/sharedStrings.xml": (f"<sst {MAIN}>".encode(), b"<si><t>a</t></si>", 100_000_000)})


@bomb("a long string again and again", ".xlsx", "--drop-text")
def _shared(path: Path) -> None:
    text = f"<sst {MAIN}><si><t>".encode() + b"x" * 1_000_000 + b"</t></si></sst>"
    row = b'<row><c t="s"><v>0</v></c><c><v>1</v></c></row>'
    book(path, (HEAD + row * 3000 + TAIL, b" ", 0), {"xl/sharedStrings.xml": (text, b" ", 0)})


@bomb("sheets", ".xlsx")
def _sheets(path: Path) -> None:
    count = 20_000
    names = "".join(f'<sheet name="{k}" sheetId="{k}" r:id="r1"/>' for k in range(1, count))
    content = kinds.BOOK["xl/workbook.xml"].replace("</sheets>", f"{names}</sheets>")
    book(path, SMALL_SHEET, {"xl/workbook.xml": (content.encode(), b" ", 0)})


@bomb("defined names", ".xlsx")
def _defined(path: Path) -> None:
    begin = kinds.BOOK["xl/workbook.xml"].replace("</workbook>", "<definedNames>")
    again = b'<definedName name="a">a!$A$1</definedName>'
    book(path, SMALL_SHEET, {"xl/workbook.xml": (begin.encode(), again, 20_000_000)})


@bomb("content types", ".xlsx")
def _types(path: Path) -> None:
    begin = kinds.BOOK["[Content_Types].xml"].replace("</Types>", "")
    again = b'<Default Extension="a" ContentType="b"/>'
    book(path, SMALL_SHEET, {"[Content_Types].xml": (begin.encode(), again, 20_000_000)})


@bomb("relations", ".xlsx")
def _relations(path: Path) -> None:
    begin = kinds.BOOK["xl/_rels/workbook.xml.rels"].replace("</Relationships>", "")
    again = b'<Relationship Id="a" Type="b" Target="c"/>'
    book(path, SMALL_SHEET, {"xl/_rels/workbook.xml.rels": (begin.encode(), again, 20_000_000)})


@bomb("far cells", ".xlsx")
def _far(path: Path) -> None:
    rows = b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (k, k) for k in range(1, 20_000))
    book(path, (HEAD + rows + TAIL, b" ", 0))


@bomb("far row", ".xlsx")
def _far_row(path: Path) -> None:
    row = b'<row r="1"><c><v>1</v></c></row><row r="1048576"><c><v>1</v></c></row>'
    book(path, (HEAD + row + TAIL, b" ", 0))


@bomb("entities", ".xlsx")
def _entities(path: Path) -> None:
    laughs = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
    text = f'<!DOCTYPE x [<!ENTITY a0 "lol">{laughs}]><sst {MAIN}><si><t>&a9;</t></si></sst>'
    book(path, SMALL_SHEET, {"xl/sharedStrings.xml": (text.encode(), b" ", 0)})


@bomb("deep", ".xlsx")
def _deep(path: Path) -> None:
    book(path, (HEAD + b"<row>" * 1_000_000, b" ", 0))


@bomb("elements of no meaning", ".xlsx")
def _elements(path: Path) -> None:
    book(path, (HEAD + ROW * 30 + b"<x/>" * 700_000 + TAIL, b" ", 0))


@bomb("a long cell", ".xlsx")
def _long_cell(path: Path) -> None:
    book(path, (HEAD + b'<row><c t="inlineStr"><is><t>', b"x", 100_000_000))


# HDF5 and zarr.


@bomb("zeros", ".h5")
def _h5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (4_000_000, 100), "f8", chunks=(20_000, 100), compression="gzip")
        chunk = zlib.compress(bytes(16_000_000), 9)
        for at in range(0, 800_000, 20_000):
            x.id.write_direct_chunk((at, 0), chunk)


@bomb("never written", ".h5")
def _fill(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1_000_000, 10_000), "f8")


@bomb("one large chunk", ".h5")
def _chunk(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        shape = {"maxshape": (None, None), "chunks": (40_000, 10_000)}
        x = file.create_dataset("x", (100, 10), "f8", compression="gzip", **shape)
        x.id.write_direct_chunk((0, 0), b"nothing")  # what is in it does not matter


@bomb("more in a chunk than it says", ".h5", answered=True)
def _more(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (100, 10), "f8", chunks=(100, 10), compression="gzip")
        x.id.write_direct_chunk((0, 0), zlib.compress(bytes(300_000_000), 9))


@bomb("sources of a virtual dataset", ".h5", "--dataset", "v")
def _virtual(path: Path) -> None:
    import h5py

    layout = h5py.VirtualLayout((20_000_000, 20), "f8")
    with h5py.File(path, "w") as file:
        file["x"] = np.ones((10, 1))
        for k in range(20):
            layout[:10, k : k + 1] = h5py.VirtualSource(".", "x", (10, 1))
        file.create_virtual_dataset("v", layout)


def annotated(path: Path, n: int, *, length: int = 0) -> Any:
    """Write an .h5ad file with an X that is not there, and names that are one and the same string."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file.create_dataset("X", (n, 2), "f8")
        for name in ("obs", "var"):
            group = file.create_group(name)
            group.attrs["_index"] = "i"
            group.attrs["column-order"] = np.array([], dtype="O").astype("S1")
            if name == "var":
                group["i"] = np.array(["a", "b"], dtype=object)
                continue
            one = file.create_dataset("one", (1,), h5py.string_dtype(), chunks=(1,))
            one[0] = "x" * length
            file.flush()
            record = one.id.read_direct_chunk((0,))[1]
            names = group.create_dataset("i", (n,), h5py.string_dtype(), chunks=(n,), compression="gzip")
            names.id.write_direct_chunk((0,), zlib.compress(record * n))


@bomb("long labels", ".h5ad", "--group", "arm")
def _labels(path: Path) -> None:
    import h5py

    annotated(path, 100, length=1)
    with h5py.File(path, "a") as file:
        file["X"][:] = np.arange(200.0).reshape(100, 2)
        file["obs"].attrs["column-order"] = np.array(["arm"], dtype=object)
        codes = file.create_group("obs/arm")
        codes["codes"], codes["categories"] = (
            np.arange(100) % 2,
            np.array(["x" * 5_000_000, "y" * 5_000_000], dtype=object),
        )


@bomb("names of one heap", ".h5ad")
def _heap(path: Path) -> None:
    annotated(path, 10_000, length=300_000)


WRITTEN = {"write_empty_chunks": True}


@bomb("absent chunks", ".zarr")
def _zarr(path: Path) -> None:
    import zarr

    zarr.create_array(store=path, shape=(10_000_000, 1000), chunks=(1_000_000, 1000), dtype="f8")


@bomb("zeros", ".zarr")
def _zarr_zeros(path: Path) -> None:
    import zarr

    made = zarr.create_array(store=path, shape=(50_000_000, 2), chunks=(5_000_000, 2), dtype="f8", config=WRITTEN)
    made[:5_000_000] = 0.0
    for k in range(1, 10):
        (path / f"c/{k}").mkdir()
        (path / f"c/{k}/0").write_bytes((path / "c/0/0").read_bytes())


@bomb("a chunk beyond the array", ".zarr")
def _zarr_chunk(path: Path) -> None:
    import zarr

    made = zarr.create_array(store=path, shape=(10, 2), chunks=(100_000, 1000), dtype="f8", config=WRITTEN)
    made[:] = 1.0


@bomb("packed again and again", ".zarr")
def _zarr_nested(path: Path) -> None:
    import zarr
    from zarr.codecs import GzipCodec

    zarr.create_array(store=path, shape=(1000, 20), chunks=(1000, 20), dtype="f8", compressors=[GzipCodec()] * 2)
    (path / "c/0").mkdir(parents=True)
    many = gzip.compress(bytes(4_000_000), mtime=0) * 1000
    (path / "c/0/0").write_bytes(gzip.compress(many, mtime=0))


# Running them.

LOAD = """
import sys
from sparsemean import InputError, load
try:
    load(sys.argv[1])
except InputError as error:
    print(error)
    sys.exit(2)
"""
"""Estimates are read in Python only."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended: its status, time of the processor, memory at its peak, what it said, and its fault."""

    status: int
    seconds: float
    megabytes: float
    said: str
    fault: str

    def __str__(self) -> str:
        return f"{self.status:>4} {self.seconds:>6.2f} {self.megabytes:>6.0f}"


def explode(made: Bomb, path: Path) -> Outcome:
    """Read a file by the command line in a process of its own."""
    command = ["-m", "sparsemean", "fit", str(path), *made.options]
    if made.ending == ".sketch":
        command = ["-m", "sparsemean", "merge", str(path), str(path)]
    if made.ending == ".estimate":
        command = ["-c", LOAD, str(path)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, sys.executable, *command],
        capture_output=True, text=True, errors="replace", env=environment, check=True,
    )  # fmt: skip
    before, _, measured = done.stdout.rstrip().rpartition("\n")
    status, seconds, megabytes = json.loads(measured)
    said = (before + done.stderr).strip()
    if status != (0 if made.answered else 2):
        fault = f"exit status {status}"
    elif not made.answered and (len(said.splitlines()) != 1 or "fit into memory" in said):
        fault = "not one line that says why"
    else:
        fault = "too long" if seconds > MOST_SECONDS else "too much memory" if megabytes > MOST_MB else ""
    return Outcome(status, seconds, megabytes, said, fault)


def run(made: Bomb, folder: Path) -> tuple[int, Outcome]:
    """Make a bomb and read it; return its size and what came of it."""
    path = folder / f"bomb{made.ending}"
    made.make(path)
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    return size, explode(made, path)


def main(wanted: Sequence[str] = ()) -> int:
    """Try all, or those of some endings, and print a table; return how many were not as they should be."""
    faults = 0
    sys.stdout.write(f"{'bomb':46}{'bytes':>12} {'exit':>4} {'CPU s':>6} {'MB':>6}\n")
    for made in BOMBS:
        if wanted and made.ending not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="bomb") as folder:
            size, outcome = run(made, Path(folder))
        line = "an answer" if made.answered and not outcome.fault else outcome.said or "(nothing)"
        shown = textwrap.fill(textwrap.shorten(line, 300), 80, initial_indent="  ", subsequent_indent="  ")
        fault = f"  FAULT: {outcome.fault}\n" if outcome.fault else ""
        sys.stdout.write(f"{made.ending + ' ' + made.name:46}{size:>12,} {outcome}\n{shown}\n{fault}")
        sys.stdout.flush()
        faults += bool(outcome.fault)
    bar = f"one line, at most {MOST_SECONDS:.0f} s and {MOST_MB} MB"
    sys.stdout.write(f"{faults} were not as they should be: {bar}\n")
    return faults
