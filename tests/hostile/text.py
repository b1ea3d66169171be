"""Text that numbers are read from: tables with commas or tabs, and Matrix Market files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from random import Random

from sparsemean._data.dialect import NUMBER
from sparsemean._data.table import ReadOptions

import kinds
from hostile.case import NUMBERS, Case, matrix, some, stamped, worn

CELLS = (
    "", " ", "NA", "nan", "NaN", "inf", "-Infinity", "1e400", "-1e-400", "0x10", "1_000", "1,5", "+4", "4.", ".5",
    "4e0", "1e",
    "--1", "١", "½", "\u2212" + "1", "true", "None", "#N/A", '"1"', '"', '""', '"a""b"', '"1\n2"', "'1'", "=1+1",
    "9" * 400, "0" * 4000 + "1",
    "1" + "0" * 309, "0." + "0" * 330 + "1", "1e" + "9" * 300, "\0", "\x1b[31m", "\ufeff", "\ud7ff", "1 2", "1\r",
    "text", "x" * 70000, "1e-320",
    "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880",
)  # fmt: skip


XML_LACKS = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd]")
"""Characters that XML has no way to write."""


def _table(separator: str, rng: Random) -> list[list[str]]:
    rows = [[repr(float(value)) for value in row] for row in matrix(rng)]
    head = rng.choice((["a", "b", "c", "d", "e"], ["0", "1", "2", "3", "4"], [], ["", "b", "c", "d", "e"]))
    out = [head, *rows] if head else rows
    if rng.random() < 0.3:
        out = [[*row, "group" if k == 0 and head else f"g{k % 2}"] for k, row in enumerate(out)]
    return out


def _cell(rows: list[list[str]], rng: Random) -> list[list[str]]:
    row = rng.choice(rows[:2] if rng.random() < 0.3 else rows)
    row[rng.randrange(len(row))] = rng.choice(CELLS)
    return rows


def _ragged(rows: list[list[str]], rng: Random) -> list[list[str]]:
    at = rng.randrange(len(rows))
    rows[at] = rng.choice((rows[at][:-1] or ["1"], [*rows[at], "1"], [""], rows[at] * 50, ["1"]))
    return rows


def _names(rows: list[list[str]], rng: Random) -> list[list[str]]:
    rows[0] = [rng.choice((*CELLS, "a", "group", "a\tb", "日本", "a;b")) for _ in rows[0]]
    return rows


def _wide(rows: list[list[str]], rng: Random) -> list[list[str]]:
    return [[str(k) for k in range(rng.choice((10, 3000)))]] * rng.choice((1, 2, 5))


def _few(rows: list[list[str]], rng: Random) -> list[list[str]]:
    return rows[: rng.choice((1, 1, 2, 3))]


def _column(rows: list[list[str]], rng: Random) -> list[list[str]]:
    at, value = rng.randrange(len(rows[0])), rng.choice(CELLS)
    return [[*row[:at], value, *row[at + 1 :]] for row in rows]


def _as_text(rows: list[list[str]], separator: str, rng: Random) -> bytes:
    end = rng.choice(("\n", "\n", "\n", "\r\n", "\r", "\n\n", "\r\r\n", f"{separator}\n", " \n"))
    separator = rng.choice((separator,) * 6 + (";", "\t", ",", " ", ", ", "\0"))
    text = end.join(separator.join(row) for row in rows) + rng.choice((end, end, "", '"', "\x1a", "\0"))
    if rng.random() < 0.1:
        text = text.translate(str.maketrans(",.", ";,"))
    coding = rng.choice(("utf-8",) * 8 + ("utf-8-sig", "utf-16", "utf-32", "latin-1"))
    return text.encode(coding, errors="replace")


def _gzipped(content: bytes, rng: Random) -> bytes:
    """Return a .gz file with another heading, of several members, with an end that is not there or not right."""
    out = gzip.compress(content, rng.choice((0, 1, 6)), mtime=0)
    act = rng.randrange(12)
    if act == 0:
        return out + gzip.compress(content[: len(content) // 2], mtime=0)
    if act == 1:
        return out + rng.choice((b"\0" * 100, b"junk", b"\x1f\x8b", b"\x1f\x8b\x08\xff" + b"a" * 40))
    if act == 2:
        return out[: rng.randrange(len(out))]
    if act == 3:
        return stamped(out, rng.randrange(10), rng, 1)
    if act == 4:
        return stamped(out, len(out) - rng.choice((4, 8)), rng, 4)
    if act == 5:
        return gzip.compress(out, mtime=0)
    if act == 6:
        return gzip.compress(content + bytes([rng.choice(b'0 \n,1"')]) * rng.choice((10**5, 4 * 10**6)), mtime=0)
    if act == 7:
        return worn(out, rng)
    if act == 8:
        return content
    return out


def _written(ending: str, separator: str, folder: Path, rng: Random) -> Case:
    rows = _table(separator, rng)
    wanted = ReadOptions()
    if "group" in rows[0] or rng.random() < 0.1:
        wanted = rng.choice(
            (
                ReadOptions(group="group"),
                ReadOptions(id="group"),
                ReadOptions(drop=("group",)),
                ReadOptions(select=("a", "b*")),
                ReadOptions(id="a"),
                ReadOptions(drop_text=True),
                ReadOptions(sep=";", decimal=","),
                ReadOptions(encoding="utf-16", drop_text=True),
            )
        )
    if rng.random() < 0.9:
        rows = some(rng, (_cell, _cell, _cell, _ragged, _names, _wide, _few, _column), rows)
    content = _as_text(rows, separator, rng)
    if rng.random() < 0.2:
        content = worn(content, rng)
    path = folder / f"case{ending}"
    path.write_bytes(_gzipped(content, rng) if ending.endswith("gz") else content)
    return Case(path, wanted)


def csv(folder: Path, rng: Random) -> Case:
    """Write a .csv file."""
    return _written(".csv", ",", folder, rng)


def tsv(folder: Path, rng: Random) -> Case:
    """Write a .tsv file."""
    return _written(".tsv", "\t", folder, rng)


def csv_gz(folder: Path, rng: Random) -> Case:
    """Write a .csv.gz file."""
    return _written(".csv.gz", ",", folder, rng)


def _sheet(sheet: str, rng: Random) -> str:
    """Change a number, a type or a tag in the XML of a sheet."""
    at = rng.randrange(len(sheet))
    old, new = rng.choice(
        (
            ('r="', f'r="{rng.choice(NUMBERS)}'), ("<c>", '<c r="XFD7">'), ("<c>", '<c r="ZZZ1">'),
            ("<c>", '<c t="s">'),
            ("<c>", '<c t="b">'), ("<c>", '<c t="e">'), ("<c>", '<c t="d">'), ("<c>", '<c s="99">'),
            ("<v>", "<v>9e999"),
            ("<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>'), ("</row>", ""), ("<row", "<row " * 3),
            ("<worksheet", '<!DOCTYPE x [<!ENTITY a "b">]><worksheet'), ("<t>", "<t>" + "x" * 50000), ("<v>", "<v>x"),
        )
    )  # fmt: skip
    place = sheet.find(old, at)
    return sheet if place < 0 else sheet[:place] + new + sheet[place + len(old) :]


def xlsx(folder: Path, rng: Random) -> Case:
    """Write an .xlsx file: cells of all kinds, XML that is changed, parts that are missing, bytes that are worn."""
    rows = some(rng, (_cell, _ragged, _names, _few, _column), _table(",", rng))
    numbers = [[float(cell) if NUMBER.fullmatch(cell) else cell for cell in row] for row in rows]
    clean = [[cell if isinstance(cell, float) else XML_LACKS.sub("", cell) for cell in row] for row in numbers]
    sheet = kinds.sheet_of(clean)
    for _ in range(rng.choice((0, 0, 1, 2))):
        sheet = _sheet(sheet, rng)
    parts = dict(kinds.BOOK)
    if rng.random() < 0.1:
        del parts[rng.choice(list(parts))]
    path = folder / "case.xlsx"
    kinds.write_book(path, sheet, parts)
    if rng.random() < 0.2:
        path.write_bytes(worn(path.read_bytes(), rng))
    return Case(path, rng.choice((ReadOptions(), ReadOptions(drop_text=True), ReadOptions(group="group"))))
