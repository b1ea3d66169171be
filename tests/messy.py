"""Tables as people send them, each with one named fault, against what their author meant.

``make messy`` reads 250 random tables of every fault and counts how they end: read right, refused in one line, read
otherwise with a note that names the doubt and the columns, or silently wrong. It fails where any is silently wrong.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from sparsemean._data import open_file
from sparsemean._data.table import ReadOptions, Table
from sparsemean.errors import MOST_LINES, InputError

import kinds

TABLES = 250
ENDS = ("right", "refused", "noted", "silently wrong")
NAMES = ("dose", "weight", "Größe", "x1", "clicks", "p-value", "blood pressure", "rate", "temp", "Umsatz")
WHO = ("Anna", "Bob", "Chloé", "D'Arcy", "Eve Müller", "s1", "s2", "Smith, J.", "a;b", "x|y")


@dataclass
class Sent:
    """A table: names, the values that were meant, and how its author would write them plainly."""

    names: list[str]
    values: list[list[float]]
    cells: list[list[str]]
    ids: list[str] | None
    at: int = 0
    """Where the column with the names of the rows stands."""
    sep: str = ","
    end: str = "\n"
    head: list[list[str]] = field(default_factory=list)
    """Lines above the names."""
    foot: list[list[str]] = field(default_factory=list)
    header: bool = True
    encoding: str = "utf-8"
    quoted: bool = False
    wanted: dict[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    ending: str = ".csv"

    @property
    def rows(self) -> list[list[str]]:
        rows = [self.names, *self.cells] if self.header else self.cells
        if self.ids is None:
            return rows
        ids = ["who", *self.ids] if self.header else self.ids
        return [[*row[: self.at], name, *row[self.at :]] for name, row in zip(ids, rows, strict=True)]

    def text(self) -> bytes:
        """Return the file."""
        if self.content is not None:
            return self.content
        out = io.StringIO()
        how = csv.QUOTE_ALL if self.quoted else csv.QUOTE_MINIMAL
        csv.writer(out, delimiter=self.sep, lineterminator=self.end, quoting=how).writerows(
            [*self.head, *self.rows, *self.foot]
        )
        return out.getvalue().encode(self.encoding)


class UnknowableError(Exception):
    """Nobody could tell this table from another one that means what it says."""


def column(rng: Random, n: int) -> list[str]:
    """Return numbers of one kind as plain decimals."""
    kind = rng.choice(("normal", "normal", "heavy", "counts", "money", "large", "small", "three", "share", "whole"))
    digits = rng.choice((1, 2, 3, 3, 4))
    draw: dict[str, Callable[[], str]] = {
        "normal": lambda: f"{rng.gauss(0, 3):.{digits}f}",
        "heavy": lambda: f"{rng.choice((-1, 1)) * rng.paretovariate(1):.{digits}f}",
        "counts": lambda: str(int(rng.expovariate(0.02))),
        "money": lambda: f"{rng.lognormvariate(7, 2):.2f}",
        "large": lambda: str(int(rng.lognormvariate(9, 2))),
        "small": lambda: f"{rng.gauss(0, 1) / 1000:.6f}",
        "three": lambda: f"{rng.uniform(1, 20):.3f}",
        "share": lambda: f"{rng.random():.{digits}f}",
        "whole": lambda: str(rng.randint(-50, 50)),
    }
    return [draw[kind]() for _ in range(n)]


def table(rng: Random) -> Sent:
    """Return a random table."""
    n, d = rng.choice((4, 8, 20, 60, 150)), rng.choice((1, 2, 2, 3, 5))
    columns = [column(rng, n) for _ in range(d)]
    cells = [list(row) for row in zip(*columns, strict=True)]
    values = [[float(cell) for cell in row] for row in cells]
    ids = [rng.choice(WHO) + f" {k}" for k in range(n)] if rng.random() < 0.4 else None
    sep = rng.choice((",", ",", ";", "\t", "|"))
    wanted: dict[str, Any] = {"id": "who"} if ids else {}
    end = rng.choice(("\n", "\n", "\r\n"))
    at, ending = rng.choice((0, 0, d // 2, d)), rng.choice((".csv", ".csv", ".csv", ".tsv", ".txt"))
    return Sent(rng.sample(NAMES, d), values, cells, ids, at, sep, end, wanted=wanted, ending=ending)


def some(rng: Random, sent: Sent) -> list[int]:
    """Return the columns that a fault is put into, one at least."""
    d = len(sent.names)
    return sorted(rng.sample(range(d), rng.randint(1, d)))


def each(sent: Sent, columns: list[int], write: Callable[[str], str]) -> None:
    """Write the cells of some columns otherwise."""
    for row in sent.cells:
        for k in columns:
            row[k] = write(row[k])


def whole_again(cell: str, mark: str, point: str = ".") -> str:
    """Return a number with a mark between thousands."""
    sign, digits = ("-", cell[1:]) if cell.startswith("-") else ("", cell)
    whole, _, part = digits.partition(".")
    grouped = re.sub(r"(?<=\d)(?=(\d{3})+$)", mark, whole)
    return sign + grouped + (point + part if part else "")


# Faults: each changes a table, and says with which words a note may admit a doubt about it.


def decimal_commas(rng: Random, sent: Sent) -> None:
    each(sent, list(range(len(sent.names))), lambda cell: cell.replace(".", ","))


def some_decimal_commas(rng: Random, sent: Sent) -> None:
    each(sent, some(rng, sent), lambda cell: cell.replace(".", ","))


def few_decimal_commas(rng: Random, sent: Sent) -> None:
    k = rng.randrange(len(sent.names))
    for row in rng.sample(sent.cells, rng.randint(1, 3)):
        row[k] = row[k].replace(".", ",")


def thousands_commas(rng: Random, sent: Sent) -> None:
    each(sent, some(rng, sent), lambda cell: whole_again(cell, ","))


def thousands_points(rng: Random, sent: Sent) -> None:
    each(sent, list(range(len(sent.names))), lambda cell: whole_again(cell, ".", ","))
    decimals = any("," in cell for row in sent.cells for cell in row)
    hundreds = any(any("." in cell for cell in k) and any(len(cell) > 2 > cell.count(".") + 1 for cell in k)
                   for k in zip(*sent.cells, strict=True))  # fmt: skip
    if sent.sep == "," and not decimals and not hundreds:
        raise UnknowableError  # three decimals are what everybody would take them for


def thousands_blanks(rng: Random, sent: Sent) -> None:
    mark = rng.choice((" ", "\u00a0", "\u202f", "\u2009"))
    point = rng.choice((".", ","))
    columns = some(rng, sent) if point == "." else list(range(len(sent.names)))
    each(sent, columns, lambda cell: whole_again(cell, mark, point))


def thousands_apostrophes(rng: Random, sent: Sent) -> None:
    mark = rng.choice(("'", "’", "`"))
    each(sent, some(rng, sent), lambda cell: whole_again(cell, mark))


def thousands_unquoted(rng: Random, sent: Sent) -> None:
    sent.sep = "\x1f"
    columns, mark = some(rng, sent), rng.choice(("", "", "$", "USD "))
    each(sent, columns, lambda cell: mark + whole_again(cell, ","))
    if sent.ids:
        sent.ids = [name.replace(",", "") for name in sent.ids]
    sent.content = sent.text().replace(b"\x1f", b",")


def groups_of_the_east(rng: Random, sent: Sent) -> None:
    """Write 1,23,456 as in India, or 1,2345 as in China."""
    pattern = rng.choice((r"(?<=\d)(?=(\d\d)*\d{3}$)", r"(?<=\d)(?=(\d{4})+$)"))

    def write(cell: str) -> str:
        whole, point, part = cell.partition(".")
        return re.sub(pattern, ",", whole) + point + part

    each(sent, some(rng, sent), write)


def money(rng: Random, sent: Sent) -> None:
    sign, after, gap = rng.choice("$€£¥₹"), rng.random() < 0.4, rng.choice(("", " ", "\u00a0"))
    mark = rng.choice(("", ","))

    def write(cell: str) -> str:
        digits = whole_again(cell.lstrip("-"), mark)
        minus = "-" if cell.startswith("-") else ""
        return minus + (digits + gap + sign if after else sign + digits)

    each(sent, some(rng, sent), write)


def codes_of_money(rng: Random, sent: Sent) -> None:
    code, after = rng.choice(("USD", "EUR", "kr", "CHF", "Fr.")), rng.random() < 0.5
    each(sent, some(rng, sent), lambda cell: f"{cell} {code}" if after else f"{code} {cell}")


def percent(rng: Random, sent: Sent) -> None:
    gap = rng.choice(("", " "))
    each(sent, some(rng, sent), lambda cell: f"{cell}{gap}%")


def some_percent(rng: Random, sent: Sent) -> None:
    """Write some shares as percentages: .125 as 12.5%."""
    k = rng.randrange(len(sent.names))
    for row in rng.sample(sent.cells, rng.randint(1, len(sent.cells) - 1)):
        row[k] = f"{100 * float(row[k]):.6g}%"


def underscores(rng: Random, sent: Sent) -> None:
    k = rng.randrange(len(sent.names))
    for row in sent.cells:
        row[k] = rng.choice((whole_again(row[k], "_"), row[k], re.sub(r"(\d)(\d)", r"\1_\2", row[k], count=1)))
    for row, values in zip(sent.cells, sent.values, strict=True):
        values[k] = np.nan if "_" in row[k] else values[k]  # to read one as a number is wrong


def newlines_in_quotes(rng: Random, sent: Sent) -> None:
    end = rng.choice(("\n", "\r\n", "\n\n"))
    if sent.ids is None:
        sent.names[0] += end + "mg"
        return
    sent.ids = [name + (end + rng.choice(("1;2", "3,4", "x")) if rng.random() < 0.5 else "") for name in sent.ids]


def encodings(rng: Random, sent: Sent) -> None:
    sent.names[0] = "Größe é"
    sent.encoding = rng.choice(("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"))
    if sent.encoding in ("utf-16-le", "utf-16-be") and rng.random() < 0.5:
        sent.names[0] = "size"


def mixed_encodings(rng: Random, sent: Sent) -> None:
    ids = sent.ids or [f"s{k}" for k in range(len(sent.cells))]
    sent.ids, sent.wanted = ids, {"id": "who"}
    lines = sent.text().decode().splitlines(keepends=True)
    sent.content = b"".join(line.encode(rng.choice(("utf-8", "latin-1"))) for line in lines)


GAPS = (
    "NA", "-", "n/a", "", "#N/A", "ERR", ".", "?", "NULL", "none", "--", "missing", "N.A.", "#DIV/0!", "nan(0x1)", "*",
    "\u2013", "n.d.", "<LOD", "…", "NaN", "1.#INF", "#VALUE!", "nan(ind)", "0x1F", "1e", "e5", "∞",
)  # fmt: skip


def missing_codes(rng: Random, sent: Sent) -> None:
    code, k = rng.choice(GAPS), rng.randrange(len(sent.names))
    for i in rng.sample(range(len(sent.cells)), rng.randint(1, 3)):
        sent.cells[i][k], sent.values[i][k] = code, np.nan


GAP_CODES = (
    "-9999", "999", "-99", "-999", "9999", "99999", "-9999.0", "-999.9", "-99.99", "-99.00", "1e20", "-1e30", "-888",
    "888", "-8888", "98", "97", "998", "65535", "1e35", "9.96921e36",
)  # fmt: skip
NEIGHBOURS = {
    "999": ("998", "888", "777"), "-9999": ("-8888", "-7777"), "-99": ("-98", "-88"), "98": ("97", "99"),
    "998": ("999", "997"),
}  # fmt: skip
"""Codes for other reasons, which stand beside one."""


def gap_codes(rng: Random, sent: Sent) -> None:
    """Write a number for what is missing: one more than twice as far out as the rest of its column on that side.

    Some cells in the same column may say why by another one, which is nearer.
    """
    code, found = rng.choice(GAP_CODES), False
    others_too = rng.choice((NEIGHBOURS.get(code, ()), ()))
    for k in some(rng, sent):
        rows = rng.sample(range(len(sent.cells)), rng.randint(2, max(2, len(sent.cells) // 4)))
        others = [values[k] for i, values in enumerate(sent.values) if i not in rows]
        middle, nearest = float(np.median(others)), min(others) if float(code) < 0 else max(others)
        if len({*others}) < 2:
            continue
        if not abs(float(code) - nearest) > 2 * abs(nearest - middle) or (float(code) < nearest) != (float(code) < 0):
            continue
        found = True
        for j, i in enumerate(rows):
            sent.cells[i][k] = rng.choice((code, *others_too)) if j > 1 else code
            sent.values[i][k] = np.nan
    if not found:
        raise UnknowableError


def trailing_separators(rng: Random, sent: Sent) -> None:
    lines = sent.text().decode().splitlines()
    every = rng.choice((True, True, False))
    ended = [line + sent.sep if (every and (k or rng.random() < 0.7)) or rng.random() < 0.5 else line
             for k, line in enumerate(lines)]  # fmt: skip
    sent.content = "\n".join([*ended, ""]).encode()


def ragged_rows(rng: Random, sent: Sent) -> None:
    if len(sent.names) + bool(sent.ids) == 1:
        raise UnknowableError
    for row in rng.sample(sent.cells, rng.randint(1, 3)):
        if rng.random() < 0.5:
            row.append(rng.choice(("1", "", "x")))
        else:
            row.pop(rng.randrange(len(row)))


def twice_the_name(rng: Random, sent: Sent) -> None:
    if len(sent.names) < 2:
        raise UnknowableError
    sent.names[-1] = sent.names[0]


def no_header(rng: Random, sent: Sent) -> None:
    sent.header = False
    if sent.ids:
        sent.at, sent.wanted = 0, rng.choice(({}, {"id": "0"}, {"header": False, "id": "0"}))


def numbers_for_names(rng: Random, sent: Sent) -> None:
    """Name columns by years, or by wavelengths, of which there are many."""
    if rng.random() < 0.5 and len(sent.names) > 1:
        first = rng.randint(1990, 2020)
        sent.names = [str(first + k) for k in range(len(sent.names))]
        return
    first, step = rng.uniform(200, 900), rng.choice((0.5, 1.25, 10.1, -0.7))
    sent.names = [f"{first + k * step:.2f}" for k in range(8)]
    columns = [column(rng, len(sent.cells)) for _ in range(8)]
    sent.cells = [list(row) for row in zip(*columns, strict=True)]
    sent.values = [[float(cell) for cell in row] for row in sent.cells]


def names_beside_an_index(rng: Random, sent: Sent) -> None:
    """Name columns by numbers beside an index, as pandas writes both."""
    numbers_for_names(rng, sent)
    count = rng.choice((0, 1, 7))
    step = 1 if count < 7 or len(sent.cells) < 6 else 3
    count = count if step > 1 else count % 7
    sent.ids = sent.ids or [str(count + step * k) for k in range(len(sent.cells))]
    sent.header, sent.wanted, sent.at = False, {}, 0
    sent.head = [["", *sent.names]]
    sent.content, sent.header = sent.text(), True


def sound(rng: Random, sent: Sent) -> None:
    """Write numbers in ways that are unusual and sound."""
    forms = (
        lambda cell: cell if cell.startswith("-") else f"+{cell}", lambda cell: f"{cell}e0", lambda cell: f" {cell} ",
        lambda cell: f"{cell}.0" if "." not in cell else f"{cell}000", lambda cell: re.sub(r"^(-?)0\.", r"\1.", cell),
        lambda cell: f"{cell}." if "." not in cell else cell, lambda cell: f"{float(cell):.17e}",
        lambda cell: repr(float(cell)),
    )  # fmt: skip
    each(sent, list(range(len(sent.names))), lambda cell: rng.choice(forms)(cell))


def decimal_commas_unquoted(rng: Random, sent: Sent) -> None:
    sent.sep = "\x1f"
    decimal_commas(rng, sent)
    if not any("," in cell for row in sent.cells for cell in row):
        raise UnknowableError
    sent.content = sent.text().replace(b"\x1f", b",")


def units_below(rng: Random, sent: Sent) -> None:
    sent.cells.insert(0, [rng.choice(("kg", "mg/dl", "%", "", "[m]", "-", "1", "°C")) for _ in sent.names])
    sent.values.insert(0, [np.nan] * len(sent.names))
    if sent.ids:
        sent.ids.insert(0, rng.choice(("", "unit", "-")))
    if all(cell in ("", "1") for cell in sent.cells[0]):
        sent.cells[0][0] = "kg"


def totals(rng: Random, sent: Sent) -> None:
    """End, or begin, with sums, or with means, of the columns."""
    named = bool(sent.ids) and rng.random() < 0.7
    word, mean = rng.choice((("Total", False), ("Summe:", False), ("Mean", True))) if named else ("", False)
    values = np.array(sent.values)
    if not named and len(sent.names) < 3 and not (values >= 0).all(axis=0).any():
        raise UnknowableError  # sums of few values of either sign, as 0 of −1, −1 and 2, are ordinary values
    sums = values.mean(axis=0) if mean else values.sum(axis=0)
    row = [f"{value:.3f}" if mean else f"{value:.6f}".rstrip("0").rstrip(".") for value in sums]
    if not sent.ids and rng.random() < 0.5:
        row[0] = word or "Total"
    if rng.random() < 0.3:  # as web analytics write them
        sent.cells.insert(0, row)
        if sent.ids:
            sent.ids.insert(0, word)
        return
    if len(row) > 3 and not named and rng.random() < 0.5 and all(row):  # of rates no sum is taken
        row[rng.randrange(len(row))] = f"{rng.random():.3f}"
    sent.foot = [[*row[: sent.at], word, *row[sent.at :]] if sent.ids else row]


def totals_between(rng: Random, sent: Sent) -> None:
    sent.ids = sent.ids or [f"s{k}" for k in range(len(sent.cells))]
    sent.wanted, at = {"id": "who"}, rng.randrange(2, len(sent.cells))
    sums = np.array(sent.values[:at]).sum(axis=0)
    sent.cells.insert(at, [f"{value:.6f}" for value in sums])
    sent.ids.insert(at, rng.choice(("Subtotal", "Total", "sum", "Average:", "GESAMT")))


def footers(rng: Random, sent: Sent) -> None:
    text = rng.choice(("Source: ministry", "* preliminary", "n = 20", "Printed 2024-01-01", "-- end --", "(c) 2024"))
    width = len(sent.names) + bool(sent.ids)
    line = [text, *[""] * (width - 1)] if rng.random() < 0.5 else [text]
    sent.foot = [*([[""] * width] if rng.random() < 0.5 else []), line]


def blank_lines(rng: Random, sent: Sent) -> None:
    lines = sent.text().decode().split(sent.end)
    if len(sent.names) + bool(sent.ids) == 1:
        raise UnknowableError
    for _ in range(rng.randint(1, 5)):
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(("", " ", "\t" if sent.sep != "\t" else "")))
    sent.content = sent.end.join(lines).encode()


def empty_rows(rng: Random, sent: Sent) -> None:
    """Put in rows of nothing but separators, as Excel does for rows that were emptied."""
    width = len(sent.names) + bool(sent.ids)
    if width == 1:
        raise UnknowableError
    sent.foot = [[""] * width] * rng.randint(1, 3)
    sent.values += [[np.nan] * len(sent.names)] * len(sent.foot)


def unnamed_index(rng: Random, sent: Sent) -> None:
    numbers = [str(k) for k in range(len(sent.cells))]
    name = rng.choice(("", "", None))
    if name is None:  # as R's write.table does
        sent.ids = sent.ids or rng.choice((numbers, [f"s{k}" for k in numbers]))
        lines = [sent.names, *([who, *row] for who, row in zip(sent.ids, sent.cells, strict=True))]
        out = io.StringIO()
        quoting = csv.QUOTE_NONNUMERIC if rng.random() < 0.6 else csv.QUOTE_MINIMAL
        csv.writer(out, delimiter=sent.sep, lineterminator="\n", quoting=quoting).writerows(lines)
        sent.content, sent.wanted = out.getvalue().encode(), {}
        return
    ids = sent.ids or numbers
    lines = [["", *sent.names], *([who, *row] for who, row in zip(ids, sent.cells, strict=True))]
    out = io.StringIO()
    csv.writer(out, delimiter=sent.sep, lineterminator="\n").writerows(lines)
    sent.content, sent.wanted = out.getvalue().encode(), {}


DAYS = ("2024-01-{:02}", "{:02}.01.2024", "01/{:02}/2024", "{:02}-Jan-24", "202401{:02}", "2024-01-{:02}T10:00:00Z",
        "10:{:02}", "10:{:02}:30.5", "{:02}.01.", "Jan {}", "2024W{:02}", "45{:03}", "{:02}/24")  # fmt: skip


def dates(rng: Random, sent: Sent) -> None:
    form = rng.choice([day for day in DAYS if day not in ("202401{:02}", "45{:03}")])
    k = rng.randrange(len(sent.names))
    for i, (row, values) in enumerate(zip(sent.cells, sent.values, strict=True)):
        row[k], values[k] = form.format(i % 28 + 1), np.nan


def numbers_become_dates(rng: Random, sent: Sent) -> None:
    """Make dates of a few numbers, as Excel does: 1.5 becomes 01. Mai."""
    k = rng.randrange(len(sent.names))
    for i in rng.sample(range(len(sent.cells)), rng.randint(1, 3)):
        sent.cells[i][k], sent.values[i][k] = rng.choice(("01. Mai", "5-Jan", "Mai 05", "2024-05-01", "1.5.")), np.nan


def truths(rng: Random, sent: Sent) -> None:
    yes, no = rng.choice((("yes", "no"), ("TRUE", "FALSE"), ("Y", "N"), ("T", "F"), ("ja", "nein"), ("on", "off"),
                          ("true", "0"), ("WAHR", "FALSCH"), ("1", "no"), ("+", "-"), ("x", "")))  # fmt: skip
    k = rng.randrange(len(sent.names))
    for row, values in zip(sent.cells, sent.values, strict=True):
        values[k] = float(rng.random() < 0.5)
        row[k] = yes if values[k] else no
    if not any(row[k] for row in sent.cells):
        raise UnknowableError


def powers(rng: Random, sent: Sent) -> None:
    letter, comma = rng.choice(("D", "d", "E", "e", "×10^", "*10^", "Q", " E")), rng.random() < 0.4
    columns = list(range(len(sent.names))) if comma else some(rng, sent)

    def write(cell: str) -> str:
        digits, _, power = f"{float(cell):.15e}".partition("e")
        shown = f"{digits.rstrip('0').rstrip('.')}{letter}{rng.choice((power, str(int(power))))}"
        return shown.replace(".", ",") if comma else shown

    each(sent, columns, write)


def parentheses(rng: Random, sent: Sent) -> None:
    sign = rng.choice(("", "", "$"))
    each(sent, some(rng, sent), lambda cell: f"({sign}{cell[1:]})" if cell.startswith("-") else sign + cell)


def other_minus_signs(rng: Random, sent: Sent) -> None:
    form = rng.choice(
        ("\u2212{}", "\u2013{}", "\u2014{}", "\u2010{}", "\u2011{}", "{}-", "- {}", "\uff0d{}", "\ufe63{}", "--{}")
    )
    each(sent, some(rng, sent), lambda cell: form.format(cell[1:]) if cell.startswith("-") else cell)


def other_digits(rng: Random, sent: Sent) -> None:
    zero = rng.choice("٠०０𝟎۰")
    moved = {ord(str(k)): chr(ord(zero) + k) for k in range(10)}
    k = rng.randrange(len(sent.names))
    for row in sent.cells:
        row[k] = row[k].translate(moved)


def units_in_cells(rng: Random, sent: Sent) -> None:
    unit = rng.choice(
        (" kg", "kg", "k", "M", "K", " mg/dl", "°", "x", "m", " h", "d", "f", "L", "j", "%o", "bn", " thousand")
    )
    columns, every = some(rng, sent), rng.random() < 0.5
    each(sent, columns, lambda cell: cell + unit if every or rng.random() < 0.3 else cell)
    large = {"k": 1e3, "M": 1e6, "K": 1e3, "bn": 1e9, " thousand": 1e3}.get(unit)
    for row, values in zip(sent.cells, sent.values, strict=True):
        for k in columns:
            if large and row[k].endswith(unit):
                values[k] *= large


def censored(rng: Random, sent: Sent) -> None:
    form = rng.choice(
        (
            "<{}",
            ">{}",
            "~{}",
            "≤ {}",
            "{}*",
            "{}†",
            "{} (a)",
            "={}",
            "'{}",
            '="{}"',
            "{}/2",
            "{} ± 0.1",
            "{}-{}",
            "{}..{}",
        )
    )
    k = rng.randrange(len(sent.names))
    rows = rng.sample(range(len(sent.cells)), rng.randint(1, len(sent.cells)))
    for i in rows:
        sent.cells[i][k] = form.format(*[sent.cells[i][k]] * 2)
        sent.values[i][k] = np.nan if form not in ("={}", "'{}", '="{}"') else sent.values[i][k]


def comments(rng: Random, sent: Sent) -> None:
    lines = sent.text().decode().split(sent.end)
    text = rng.choice(("# exported 2024", "#a,b;c", "// x", "% y", "# 1,2", "#"))
    at = 0 if rng.random() < 0.5 else rng.randrange(1, len(lines))
    sent.content = sent.end.join([*lines[:at], text, *lines[at:]]).encode()


def rows_commented_out(rng: Random, sent: Sent) -> None:
    sent.ids, sent.wanted = sent.ids or [f"s{k}" for k in range(len(sent.cells))], {"id": "who"}
    at = rng.randrange(len(sent.ids))
    sent.ids[at] = rng.choice(("#", "# ", "//")) + sent.ids[at]
    del sent.values[at]


def titles(rng: Random, sent: Sent) -> None:
    width = len(sent.names) + bool(sent.ids)
    text = rng.choice(("Report 2024", "Results", "Table 1: doses", "sep=;", "sep=,", "2024", "Group A"))
    line = [text, *[""] * (width - 1)] if rng.random() < 0.5 else [text]
    sent.head = [line, *([[]] if rng.random() < 0.3 else [])]


def two_headers(rng: Random, sent: Sent) -> None:
    """Put a line of groups of columns above the names."""
    width = len(sent.names) + bool(sent.ids)
    sent.head = [[rng.choice(("before", "after", "", "2023", "2024")) for _ in range(width)]]
    sent.head[0][0] = sent.head[0][0] or "study"


def pasted_twice(rng: Random, sent: Sent) -> None:
    if len(sent.cells) < 20:
        raise UnknowableError
    more = len(sent.cells) if len(sent.names) < 3 else rng.randint(len(sent.cells) // 2, len(sent.cells))
    sent.cells += [list(row) for row in sent.cells[:more]]
    sent.ids = sent.ids + sent.ids[:more] if sent.ids else None
    if len({*map(tuple, sent.cells)}) < 20:
        raise UnknowableError


def header_again(rng: Random, sent: Sent) -> None:
    sent.cells.insert(rng.randrange(1, len(sent.cells)), list(sent.names))
    if sent.ids:
        sent.ids.insert(1, "who")


def two_tables(rng: Random, sent: Sent) -> None:
    width = len(sent.names) + bool(sent.ids)
    sent.foot = [[""] * rng.choice((0, width)), ["second", *sent.names][:width], *(["1"] * width for _ in range(3))]


def all_quoted(rng: Random, sent: Sent) -> None:
    sent.quoted = True
    if rng.random() < 0.5:
        each(sent, some(rng, sent), lambda cell: f" {cell} ")


def single_quotes(rng: Random, sent: Sent) -> None:
    each(sent, some(rng, sent), lambda cell: f"'{cell}'")


def padded(rng: Random, sent: Sent) -> None:
    sent.names = [name.replace(" ", "_") for name in sent.names]
    sent.ids, sent.wanted = None, {}
    width = rng.choice((0, 12))
    sent.content = "\n".join(" ".join(cell.rjust(width) for cell in row) for row in sent.rows).encode() + b"\n"
    sent.ending = rng.choice((".csv", ".txt", ".tsv"))


def line_ends(rng: Random, sent: Sent) -> None:
    parts = sent.text().decode().split(sent.end)
    sent.content = "".join(part + rng.choice(("\n", "\r\n", "\r")) for part in parts if part).encode()


def cut_short(rng: Random, sent: Sent) -> None:
    """Lose the end of the file in the middle of a line."""
    text = sent.text().decode()
    last = text.rstrip().rfind(sent.end) + len(sent.end)
    if len(sent.names) + bool(sent.ids) == 1:
        raise UnknowableError
    at = text.find(sent.sep, last)
    sent.content = text[: rng.randint(last + 1, max(last + 1, at))].encode()


def one_column(rng: Random, sent: Sent) -> None:
    sent.names, sent.ids, sent.wanted = sent.names[:1], None, {}
    sent.cells, sent.values = ([row[:1] for row in rows] for rows in (sent.cells, sent.values))  # type: ignore[misc]
    sent.sep, sent.ending = "\x1f", rng.choice((".csv", ".txt", ".tsv"))
    ways = (decimal_commas, thousands_commas, thousands_points, thousands_blanks, money, percent, powers)
    rng.choice(ways)(rng, sent)
    sent.content = sent.text()


# Sheets, of which the XML is written here.


def sheet(rows: list[list[str]], numbers: list[int] | None = None) -> str:
    """Return the XML of rows of cells."""
    shown = map("".join, rows)
    numbers = numbers or list(range(1, len(rows) + 1))
    data = "".join(f'<row r="{number}">{row}</row>' for number, row in zip(numbers, shown, strict=True))
    return f'<worksheet xmlns="{kinds.OFFICE}/spreadsheetml/2006/main"><sheetData>{data}</sheetData></worksheet>'


def as_cell(value: str, kind: str = "n", *, text: bool = False) -> str:
    """Return a cell of a sheet."""
    if text:
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c t="{kind}"><v>{escape(value)}</v></c>'


def book(sent: Sent, content: str) -> None:
    out = io.BytesIO()
    kinds.write_book(out, content)  # type: ignore[arg-type]
    sent.content, sent.ending = out.getvalue(), ".xlsx"


def plain(sent: Sent) -> list[list[str]]:
    """Return the rows of a table as cells, numbers as numbers."""
    rows = [[as_cell(cell) for cell in row] for row in sent.cells]
    head = [as_cell(name, text=True) for name in sent.names]
    ids = [as_cell(name, text=True) for name in ("who", *(sent.ids or ()))]
    sent.at = 0
    return [[ids[k], *row] if sent.ids else row for k, row in enumerate([head, *rows])]


def sheet_errors(rng: Random, sent: Sent) -> None:
    k, rows = rng.randrange(len(sent.names)), plain(sent)
    for i in rng.sample(range(len(sent.cells)), rng.randint(1, 3)):
        error = as_cell(rng.choice(("#N/A", "#DIV/0!", "#NUM!", "#REF!", "#BUSY!", "42", "1.5", "#FIELD!", "")), "e")
        rows[i + 1][k + bool(sent.ids)] = rng.choice((error, error, "<c><f>A1+1</f></c>"))
        sent.values[i][k] = np.nan
    book(sent, sheet(rows))


def sheet_order(rng: Random, sent: Sent) -> None:
    rows, numbers = plain(sent), list(range(1, len(sent.cells) + 2))
    at = rng.randrange(1, len(numbers) - 1)
    act = rng.randrange(4)
    if act == 0:
        numbers[at], numbers[at + 1] = numbers[at + 1], numbers[at]
    elif act == 1:
        numbers[at + 1] = numbers[at]
    elif act == 2:
        numbers.reverse()
    else:  # cells of a row from the right to the left
        letters = "ABCDEFGH"
        for k, row in enumerate(rows):
            placed = [cell.replace("<c ", f'<c r="{letters[j]}{k + 1}" ', 1) for j, cell in enumerate(row)]
            rows[k] = placed[::-1]
    book(sent, sheet(rows, numbers))


def sheet_texts(rng: Random, sent: Sent) -> None:
    """Store numbers as text, some as they are written in Germany, some as no number is written."""
    act = rng.choice((lambda cell: cell, lambda cell: whole_again(cell, ".", ","), lambda cell: cell.replace(".", ","),
                      lambda cell: whole_again(cell, ","), lambda cell: f" {cell}"))  # fmt: skip
    columns, rows = some(rng, sent), plain(sent)
    for row, cells in zip(rows[1:], sent.cells, strict=True):
        for k in columns:
            row[k + bool(sent.ids)] = as_cell(act(cells[k]), text=True)
    book(sent, sheet(rows))


def sheet_numbers(rng: Random, sent: Sent) -> None:
    """Put into cells of numbers what no sheet has there."""
    k, rows = rng.randrange(len(sent.names)), plain(sent)
    for i in rng.sample(range(len(sent.cells)), rng.randint(1, 3)):
        written = rng.choice(("1_0.1", "1_000", "١٢", "nan", "inf", "0x10", "1e5_0", " 5 ", "1,5", "infinity"))
        rows[i + 1][k + bool(sent.ids)] = as_cell(written)
        sent.values[i][k] = float(written) if written in (" 5 ", "inf", "infinity") else np.nan
    book(sent, sheet(rows))


class Fault(NamedTuple):
    """What is done to a table, and what a note says that admits a doubt about it."""

    put: Callable[[Random, Sent], None]
    doubt: str = "(?!)"


POINTS = "points, all before three digits"
COMMAS = "were read as standing between thousands"
FAULTS = {
    "decimal commas": Fault(decimal_commas, COMMAS),
    "decimal commas in some columns": Fault(some_decimal_commas, COMMAS),
    "decimal commas in few cells": Fault(few_decimal_commas, COMMAS),
    "decimal commas, not quoted": Fault(decimal_commas_unquoted),
    "thousands set apart by commas": Fault(thousands_commas),
    "thousands set apart by points": Fault(thousands_points, f"{POINTS}|{COMMAS}"),
    "thousands set apart by blanks": Fault(thousands_blanks, COMMAS),
    "thousands set apart by apostrophes": Fault(thousands_apostrophes),
    "thousands, comma not quoted": Fault(thousands_unquoted),
    "groups of two or four digits": Fault(groups_of_the_east, "read as text with .*decimal commas"),
    "money": Fault(money),
    "money by its code": Fault(codes_of_money),
    "percent signs": Fault(percent),
    "percent signs on some": Fault(some_percent, "percent"),
    "underscores in digits": Fault(underscores),
    "newlines in quotes": Fault(newlines_in_quotes),
    "encodings": Fault(encodings),
    "encodings mixed": Fault(mixed_encodings, "read as text in"),
    "words for gaps": Fault(missing_codes),
    "numbers for gaps": Fault(gap_codes, "may stand for missing"),
    "trailing separators": Fault(trailing_separators),
    "ragged rows": Fault(ragged_rows),
    "a name twice": Fault(twice_the_name, "made unique"),
    "no header": Fault(no_header, "was read as (a row|names of columns)"),
    "numbers for names": Fault(numbers_for_names, "was read as a row"),
    "numbers for names beside an index": Fault(names_beside_an_index),
    "sound numbers": Fault(sound),
    "units below the names": Fault(units_below),
    "totals at the end": Fault(totals, "may be a total"),
    "totals in between": Fault(totals_between, "may be a total"),
    "footers": Fault(footers),
    "blank lines": Fault(blank_lines),
    "rows of separators": Fault(empty_rows),
    "index without a name": Fault(unnamed_index, "number of a row"),
    "dates and times": Fault(dates),
    "numbers that became dates": Fault(numbers_become_dates),
    "yes and no": Fault(truths),
    "powers of ten": Fault(powers),
    "negatives in parentheses": Fault(parentheses),
    "other minus signs": Fault(other_minus_signs),
    "other digits": Fault(other_digits),
    "units in cells": Fault(units_in_cells),
    "marks in cells": Fault(censored),
    "comment lines": Fault(comments, "may be .* a comment"),
    "rows commented out": Fault(rows_commented_out, "may be .* a comment"),
    "titles above the names": Fault(titles),
    "two lines of names": Fault(two_headers),
    "names again below": Fault(header_again),
    "rows pasted twice": Fault(pasted_twice, "exact copies of others"),
    "two tables": Fault(two_tables),
    "everything quoted": Fault(all_quoted),
    "single quotes": Fault(single_quotes),
    "blanks between columns": Fault(padded),
    "mixed line ends": Fault(line_ends),
    "cut short": Fault(cut_short),
    "one column": Fault(one_column, f"{POINTS}|{COMMAS}"),
    "errors in sheets": Fault(sheet_errors),
    "sheets out of order": Fault(sheet_order),
    "text for numbers in sheets": Fault(sheet_texts, f"cells of text were read|{COMMAS}"),
    "no numbers in sheets": Fault(sheet_numbers),
}


def made(fault: Fault, rng: Random) -> Sent:
    """Return a table with a fault that somebody could tell."""
    while True:
        sent = table(rng)
        try:
            fault.put(rng, sent)
        except UnknowableError:
            continue
        return sent


def ending_of(fault: Fault, sent: Sent, folder: Path) -> tuple[str, str]:
    """Return how the reading of a table ended, and what was said or is wrong."""
    path = folder / f"messy{sent.ending}"
    path.write_bytes(sent.text())
    try:
        found = open_file(path, ReadOptions(**sent.wanted))
    except InputError as error:
        return ("silently wrong" if len(str(error).splitlines()) > MOST_LINES else "refused"), str(error)
    said = " / ".join(found.notes)
    wrong = difference(found, sent)
    if not wrong:
        return "right", said
    admitted = [note for note in found.notes if re.search(fault.doubt, note)]
    whole = admitted and ("" in wrong or any(note.startswith("read as text") for note in admitted))
    named = whole or all(any(name in note for note in admitted) for name in wrong)
    return ("noted" if named else "silently wrong"), f"{wrong}: {said}"


def difference(found: Table, sent: Sent) -> list[str]:
    """Return the columns that are not as they were meant; "" stands for the shape, or the names, of the table."""
    names = [str(k) for k in range(found.shape[1])] if found.feature_names is None else found.feature_names.tolist()
    meant = np.array(sent.values)
    if sent.header is False and found.feature_names is None and "id" in sent.wanted:
        names = sent.names
    elif sent.header is False and found.feature_names is None:
        names = sent.names if found.shape[1] == len(sent.names) else names
    read, meant = (rows[~np.isnan(rows).all(axis=1)] for rows in (found.values, meant))  # others say nothing
    if names != sent.names or read.shape != meant.shape:
        return [""]
    same = np.isclose(read, meant, rtol=1e-12, atol=0, equal_nan=True)
    return [name for name, right in zip(names, same.all(axis=0), strict=True) if not right]


def count(name: str, tables: int, seed: int = 0) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Return how tables with a fault ended, and those that are silently wrong."""
    ends: Counter[str] = Counter()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(tables):
            sent = made(FAULTS[name], Random(f"{name} {seed} {k}"))
            how, said = ending_of(FAULTS[name], sent, Path(folder))
            ends[how] += 1
            if how == ENDS[-1]:
                faults.append((k, said))
    return ends, faults


def main(tables: int = TABLES, seed: int = 0) -> int:
    """Print the counts of every fault, in 80 columns."""
    sys.stdout.write(f"{'fault':36}" + "".join(f"{end:>{len(end) + 3}}" for end in ENDS) + "\n")
    total: Counter[str] = Counter()
    shown = []
    for name in FAULTS:
        ends, faults = count(name, tables, seed)
        total += ends
        sys.stdout.write(f"{name:36}" + "".join(f"{ends[end]:{len(end) + 3}}" for end in ENDS) + "\n")
        sys.stdout.flush()
        shown += [f"{name}, table {k}: {said}" for k, said in faults[:3]]
    sys.stdout.write(
        f"{f'all {sum(total.values()):,}':36}" + "".join(f"{total[end]:{len(end) + 3}}" for end in ENDS) + "\n"
    )
    sys.stdout.write("".join(f"{line}\n" for line in shown))
    return 1 if total[ENDS[-1]] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
