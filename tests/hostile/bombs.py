"""Small files that stand for far more than they are: each is refused in one line, soon, and in little memory.

``PYTHONPATH=tests python -m hostile bombs`` makes every one of them, reads it by the command line in a process of its
own, and fails where one ends otherwise. `make hostile` does the same.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinds

MOST_SECONDS, MOST_MB = 2.0, 500
"""Time of the processor and memory at the peak, of the whole process."""
SHOWN = 80
MEASURE = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (12, 12))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
code = os.waitstatus_to_exitcode(status)
print("\\n" + json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Runs in a small process of its own: what a process had before it becomes another counts as that one's memory."""


@dataclass(frozen=True, slots=True)
class Bomb:
    """A file to be made, and what is asked of it."""

    name: str
    ending: str
    make: Callable[[Path], object]
    options: tuple[str, ...] = ()


BOMBS: list[Bomb] = []


def bomb(name: str, ending: str, *options: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    """Add what makes a file to the list."""

    def add(make: Callable[[Path], object]) -> Callable[[Path], object]:
        BOMBS.append(Bomb(name, ending, make, options))
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


@bomb("UTF-16", ".csv.gz")
def _utf16(path: Path) -> None:
    packed(path, "a,b\n".encode("utf-16"), "0,0\n".encode("utf-16-le"), 260_000_000)


@bomb("many entries", ".mtx.gz")
def _entries(path: Path) -> None:
    packed(path, b"%%MatrixMarket matrix coordinate real general\n9 9 43333328\n", b"1 1 1\n", 260_000_000)


@bomb("dense zeros", ".mtx.gz")
def _dense(path: Path) -> None:
    packed(path, b"%%MatrixMarket matrix array real general\n2000000 100\n", b"0\n", 400_000_000)


@bomb("remarks", ".mtx.gz")
def _remarks(path: Path) -> None:
    packed(path, b"%%MatrixMarket matrix array real general\n", b"%\n", 400_000_000)


@bomb("one number", ".mtx.gz")
def _long_number(path: Path) -> None:
    packed(path, b"%%MatrixMarket matrix array real general\n4 1\n1 1 1 1", b"0", 400_000_000)


@bomb("blanks", ".mtx.gz")
def _blanks(path: Path) -> None:
    packed(path, b"%%MatrixMarket matrix array real general\n4 1\n1 1 1 ", b" ", 400_000_000)


@bomb("columns without entries", ".mtx")
def _columns(path: Path) -> None:
    path.write_text("%%MatrixMarket matrix coordinate real general\n100 3900000 1\n1 1 1\n")


# NumPy.


def array(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """Return the head of a .npy file."""
    import io

    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue()


def zipped(path: Path, members: dict[str, tuple[bytes, bytes, int]]) -> None:
    """Write a zip archive: each member begins with some bytes and goes on with others, up to a size."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (first, again, size) in members.items():
            part = again * max(1, 8_000_000 // len(again))
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(first)
                for at in range(0, size, len(part)):
                    member.write(part[: size - at])


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


@bomb("many arrays", ".npz", "--dataset", "y")
def _members(path: Path) -> None:
    zipped(path, {f"{k}.npy": (array((2, 2)), b"\0", 32) for k in range(5000)})


LOAD = "import sys; from sparsemean import InputError, load\ntry: load(sys.argv[1])\nexcept InputError as e: sys.exit(print('Error:', e, file=sys.stderr) or 2)"


@bomb("saved estimate", ".estimate")
def _estimate(path: Path) -> None:
    zipped(path, {f"{k}.npy": (array((25_000_000,)), b"\0", 200_000_000) for k in "ab"} | {"header.npy": (array((), "<U2"), "{}".encode("utf-32-le"), 8)})


@bomb("names of a sketch", ".sketch")
def _sketch(path: Path) -> None:
    zipped(path, {"header.json": (b"{}", b" ", 0), "names.json": (b'["', b"a", 400_000_000)})


# Arrow: Parquet and Feather.


def table(n: int, *, text: int = 0, d: int = 2) -> Any:
    """Return rows of one value each, and text of a length."""
    import pyarrow as pa

    columns = {f"x{k}": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, "i4")), [1.5]) for k in range(d)}
    if text:
        columns["name"] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, "i4")), ["t" * text])
    return pa.table(columns)


def parquet(path: Path, times: int, **what: Any) -> None:
    import pyarrow.parquet as pq

    part = table(1_000_000, **what)
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


@bomb("text that is left out", ".parquet", "--drop", "name")
def _parquet_dropped(path: Path) -> None:
    parquet(path, 1, text=4000)


@bomb("text as a group", ".parquet", "--group", "name")
def _parquet_group(path: Path) -> None:
    parquet(path, 4, text=2000)


def feather(path: Path, columns: dict[str, Any], **options: Any) -> None:
    import pyarrow as pa

    made = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(
        file, made.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        for _ in range(options.get("times", 1)):
            writer.write_table(made)


@bomb("zeros", ".feather")
def _feather(path: Path) -> None:
    feather(path, {"a": np.zeros(10_000_000), "b": np.zeros(10_000_000)}, times=10)


@bomb("nothing", ".feather")
def _nothing(path: Path) -> None:
    import pyarrow as pa

    feather(path, {"a": pa.nulls(2**31 - 1), "b": pa.nulls(2**31 - 1)}, times=100)


@bomb("text", ".feather", "--id", "name")
def _feather_text(path: Path) -> None:
    import pyarrow as pa

    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, "i4")), ["t" * 4000])
    feather(path, {"a": np.zeros(1_000_000), "name": names})


@bomb("text that is left out", ".feather", "--drop", "name")
def _feather_dropped(path: Path) -> None:
    import pyarrow as pa

    feather(path, {"a": np.zeros(1_000_000), "name": pa.array(["t" * 1000] * 400_000 + [""] * 600_000)})


# Databases.


def database(path: Path, *statements: str) -> None:
    import duckdb

    with duckdb.connect(str(path)) as made:
        for statement in statements:
            made.sql(statement)


@bomb("one value", ".duckdb")
def _duckdb(path: Path) -> None:
    database(path, "CREATE TABLE t AS SELECT 0.0::DOUBLE a, 1.0::DOUBLE b FROM range(40000000)")


@bomb("text", ".duckdb", "--id", "name")
def _duckdb_text(path: Path) -> None:
    database(path, "CREATE TABLE t AS SELECT 0.0::DOUBLE a, repeat('t', 4000) AS name FROM range(1000000)")


@bomb("text that is left out", ".duckdb", "--drop", "name")
def _duckdb_dropped(path: Path) -> None:
    database(path, "CREATE TABLE t AS SELECT 0.0::DOUBLE a, repeat('t', 4000) AS name FROM range(1000000)")


@bomb("computed column", ".duckdb", "--drop", "name")
def _generated(path: Path) -> None:
    database(
        path,
        "CREATE TABLE t (a DOUBLE, b DOUBLE GENERATED ALWAYS AS (len(repeat('x', 1000000000))))",
        "INSERT INTO t SELECT 1 FROM range(1000)",
    )


@bomb("computed text", ".duckdb", "--id", "name")
def _generated_text(path: Path) -> None:
    database(
        path,
        "CREATE TABLE t (a DOUBLE, name VARCHAR GENERATED ALWAYS AS (repeat('x', 100000000)))",
        "INSERT INTO t SELECT 1 FROM range(1000)",
    )


@bomb("view", ".duckdb", "--dataset", "v")
def _view(path: Path) -> None:
    database(path, "CREATE TABLE t (a DOUBLE)", "CREATE VIEW v AS SELECT range a FROM range(100000000000)")


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
    book(path, SMALL_SHEET, {"xl/workbook.xml": (begin.encode(), b'<definedName name="a">a!$A$1</definedName>', 20_000_000)})


@bomb("content types", ".xlsx")
def _types(path: Path) -> None:
    begin = kinds.BOOK["[Content_Types].xml"].replace("</Types>", "")
    book(path, SMALL_SHEET, {"[Content_Types].xml": (begin.encode(), b'<Default Extension="a" ContentType="b"/>', 20_000_000)})


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


@bomb("a long cell", ".xlsx")
def _long_cell(path: Path) -> None:
    book(path, (HEAD + b'<row><c t="inlineStr"><is><t>', b"x", 100_000_000))


# HDF5 and zarr.


@bomb("zeros", ".h5")
def _h5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (4_000_000, 100), "f8", chunks=(20_000, 100), compression="gzip")
        chunk = gzip.zlib.compress(bytes(16_000_000), 9)
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
        x = file.create_dataset("x", (100, 10), "f8", maxshape=(None, None), chunks=(40_000, 10_000), compression="gzip")
        x[:5] = 1


@bomb("one of itself", ".h5")
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
        for name, size in (("obs", n), ("var", 2)):
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
            names.id.write_direct_chunk((0,), gzip.zlib.compress(record * n))


@bomb("names of one heap", ".h5ad")
def _heap(path: Path) -> None:
    annotated(path, 10_000, length=300_000)


@bomb("absent chunks", ".zarr")
def _zarr(path: Path) -> None:
    import zarr

    zarr.create_array(store=path, shape=(10_000_000, 1000), chunks=(1_000_000, 1000), dtype="f8")


@bomb("zeros", ".zarr")
def _zarr_zeros(path: Path) -> None:
    import zarr

    made = zarr.create_array(store=path, shape=(50_000_000, 2), chunks=(5_000_000, 2), dtype="f8", config={"write_empty_chunks": True})
    made[:5_000_000] = 0.0
    for k in range(1, 10):
        (path / f"c/{k}").mkdir()
        (path / f"c/{k}/0").write_bytes((path / "c/0/0").read_bytes())


@bomb("a chunk beyond the array", ".zarr")
def _zarr_chunk(path: Path) -> None:
    import zarr

    zarr.create_array(store=path, shape=(10, 2), chunks=(100_000, 1000), dtype="f8", config={"write_empty_chunks": True})[:] = 1.0


@bomb("packed again and again", ".zarr")
def _zarr_nested(path: Path) -> None:
    import zarr
    from zarr.codecs import GzipCodec

    made = zarr.create_array(store=path, shape=(10_000_000, 20), chunks=(10_000_000, 20), dtype="f8", compressors=[GzipCodec()] * 3)
    (path / "c/0").mkdir(parents=True)
    (path / "c/0/0").write_bytes(gzip.compress(gzip.compress(gzip.compress(bytes(1_600_000_000), 1))))
    del made


# Running them.


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended: its status, processor time, memory at its peak and what it said."""

    status: int
    seconds: float
    megabytes: float
    said: str

    @property
    def fault(self) -> str:
        """What is wrong with it, nothing where all is as it should be."""
        lines = self.said.splitlines()
        if self.status != 2:
            return f"exit status {self.status}"
        if len(lines) != 1:
            return f"{len(lines)} lines"
        if self.seconds > MOST_SECONDS or self.megabytes > MOST_MB:
            return "too much time or memory"
        return ""


def explode(made: Bomb, path: Path) -> Outcome:
    """Read a file by the command line in a process of its own."""
    command = [sys.executable, "-m", "sparsemean", "fit", str(path), *made.options]
    if made.ending == ".sketch":
        command = [sys.executable, "-m", "sparsemean", "merge", str(path), str(path)]
    if made.ending == ".estimate":
        command = [sys.executable, "-c", LOAD, str(path)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, *command], capture_output=True, text=True, env=environment, check=True,
        errors="replace",
    )
    said, _, measured = done.stdout.rstrip().rpartition("\n")
    return Outcome(*json.loads(measured), (said + done.stderr).strip())


def main(names: Sequence[str] = ()) -> int:
    """Try all, or those whose ending or name is given, and print a table; return how many were not as they should be."""
    faults = 0
    print(f"{'bomb':34}{'bytes':>11}  {'exit':>4} {'seconds':>8} {'peak MB':>8}")
    for made in BOMBS:
        if names and made.name not in names and made.ending not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="bomb") as folder:
            path = Path(folder) / f"bomb{made.ending}"
            made.make(path)
            size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")))
            outcome = explode(made, path)
        label = f"{made.ending} {made.name}"
        print(f"{label:34}{size:>11,}  {outcome.status:>4} {outcome.seconds:>8.2f} {outcome.megabytes:>8.0f}", flush=True)
        said = outcome.said.splitlines()[-1:] or ["(nothing)"]
        print(f"  {said[0][: SHOWN * 3]}" + (f"\n  FAULT: {outcome.fault}" if outcome.fault else ""), flush=True)
        faults += bool(outcome.fault)
    print(f"{faults} faults")
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
