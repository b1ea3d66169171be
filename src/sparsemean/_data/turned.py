"""Tables that lie the other way round: features in rows and samples in columns, turned while they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparsemean._data import csv
from sparsemean._data.csv import FEW_CELLS, UNNAMED_ID, UNNAMED_LEFT_OUT, Lines, Text, understand
from sparsemean._data.dialect import cells_of, is_numeral
from sparsemean._data.foreign import FEATURE_WORDS
from sparsemean._data.matrices import Sparse
from sparsemean._data.repeats import layout_of, note_left_out, of_columns_and_others
from sparsemean._data.source import Array, Dense, Subset
from sparsemean._data.table import NOTHING, OF_ROWS, FileContext, ReadOptions, Table
from sparsemean._kernels.cells import MEANT, QUOTE
from sparsemean.errors import InputError

NAMES_FEATURES = re.compile(f"{FEATURE_WORDS.pattern}|name|id$", re.I)
"""What a first column of numbers is called that names features."""
LOOKED_AT_ONCE = 8_000_000
"""Bytes in which ends of cells are looked for together."""


def options_of_rows(wanted: ReadOptions) -> tuple[ReadOptions, ReadOptions]:
    """Return what is asked of columns as they lie in a file, and of its rows, which are to be columns."""
    said = [name for name in OF_ROWS if name != "id"]
    of_rows, none = ({name: getattr(of, name) for name in said} for of in (wanted, NOTHING))
    return replace(wanted, **none), replace(NOTHING, **of_rows)


class TextTurned(Lines):
    """The cells of a text, column by column as they are written, made lines while they are read.

    Held are the text and eight bytes for each of its cells.
    """

    def __init__(self, text: bytes, separator: str, width: int, opened: FileContext) -> None:
        self.text, self.separator, self.opened = text, separator.encode(), opened
        n_lines = text.count(b"\n")
        opened.check_held(8 * (text.count(self.separator) + n_lines))
        if n_lines > max(FEW_CELLS, opened.size):
            got = f"{opened.name} ({n_lines:,} lines, {opened.size:,.0f} bytes)"
            raise InputError("FILE", "have no more features than bytes", got, "if it is sound, unpack it first")
        ends = np.concatenate([*self._ends()])
        at_breaks = np.flatnonzero(np.frombuffer(text, np.uint8)[ends] == ord("\n"))
        widths = np.diff(at_breaks, prepend=-1)
        if text.count(b'"') % 2:
            raise opened.broken("a quote that is never closed")
        if (odd := np.flatnonzero(widths != width)).size:
            count, row = widths[odd[0]], odd[0] - 1
            raise opened.broken(f"row {row} has {count} cell(s) where the first line has {width}")
        self.ends: npt.NDArray[np.int64] = ends.reshape(-1, width)

    def _ends(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield where cells end: at separators and breaks that do not stand between quotes."""
        inside = False
        for at in range(0, len(self.text), LOOKED_AT_ONCE):
            each = np.frombuffer(self.text, np.uint8, min(LOOKED_AT_ONCE, len(self.text) - at), at)
            quoted = np.logical_xor.accumulate(each == QUOTE) ^ inside
            yield at + np.flatnonzero(((each == ord(self.separator)) | (each == ord("\n"))) & ~quoted)
            inside = bool(quoted[-1])

    def choose(self, name: int | None, columns: Sequence[int], *, named: bool) -> None:
        """Have columns for lines: first that of the ``name`` of each, below nothing where the others are ``named``."""
        below = range(len(self.ends) - named) if name is None else self._cells(name)[named:]
        cells = [cell if isinstance(cell, bytes) else b"%d" % cell for cell in below]
        heads = [self.separator.join([b""] * named + cells)] if named or name is not None else []
        self.lines = (line + b"\n" for line in chain(heads, (self.separator.join(self._cells(k)) for k in columns)))

    def _cells(self, column: int) -> list[bytes]:
        """Return the cells of a column as they stand there."""
        before = self.ends[:, column - 1] if column else np.concatenate(([-1], self.ends[:-1, -1]))
        return [self.text[a:b] for a, b in zip((before + 1).tolist(), self.ends[:, column].tolist(), strict=True)]


def turned(table: Table, wanted: ReadOptions) -> Table:
    """Return a table of numbers turned, all of it in memory or mapped into it; ``wanted`` are rows that say labels."""
    whole = table.source.block(slice(0, table.shape[0]), slice(0, table.shape[1])).T
    source = Dense(whole, precision=table.source.precision) if isinstance(whole, np.ndarray) else Sparse(whole)
    named = replace(table, feature_names=table.row_names, row_names=table.feature_names, repeated=None, two_valued=())
    if table.row_names is None and not wanted.of_rows:
        return replace(named, source=source)
    names = [] if table.row_names is None else table.row_names.tolist()
    layout = layout_of(names, wanted)
    labels: dict[str, Array] = {option: source.take(np.array([at]))[:, 0] for option, at in layout.of_rows.items()}
    assert named.feature_names is not None
    return replace(
        named, source=Subset(source, layout.features) if labels else source,
        feature_names=named.feature_names[layout.features], groups=labels.pop("group", None), columns=labels,
    )  # fmt: skip


class TextOfFeatures(Text):
    """A text with features in rows and samples in columns."""

    def turned(self, lines: list[str], wanted: ReadOptions, usual: str) -> Table:
        """Read a text with features in rows: its columns are taken for lines.

        The first column has the names of features if it holds text or is called so; others that hold text are none.
        What is selected or dropped are columns as they lie, where there are any of that name, else rows.
        """
        while not self.ended:
            self._read_more()
        of_columns, of_rows = options_of_rows(replace(wanted, transpose=False))
        names = understand(lines, usual, replace(of_columns, select=(), drop=()), self.opened).layout.names
        select, drop = (of_columns_and_others(names, patterns) for patterns in (wanted.select, wanted.drop))
        found = understand(lines, usual, replace(of_columns, select=select[0], drop=drop[0]), self.opened)
        layout, sign, named = found.layout, found.dialect.separator, found.labels is not None
        rows = [cells_of(line, sign) for line in lines[named:]]
        columns, name = layout.features[: layout.features.size - found.spare].tolist(), layout.of_rows.get("id")
        known = {*MEANT, *wanted.na}
        rows = [row for row in rows if len(row) == len(names)]
        odd = {k: sum(not (is_numeral(row[k]) or row[k] in known) for row in rows) for k in {0, *columns}}
        texts = [k for k, count in odd.items() if 2 * count > len(rows)]
        numbered = all(row[0].isdigit() for row in rows) and len({row[0] for row in rows}) == len(rows)
        called = 0 in texts or (named and numbered and NAMES_FEATURES.search(names[0]))
        if name is None and called and (0 in columns or select[0]):
            name = 0
        out = {names[column]: "" for column in texts if column in columns and column != name}
        columns = [column for column in columns if column != name and column not in texts]
        if not columns:
            raise InputError("FILE", "have columns of numbers, one a sample", f"none in {self.opened.name}")
        text = self.text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").strip(b"\n") + b"\n"
        while b"\n\n" in text:  # not by a pattern: there may be millions of breaks
            text = text.replace(b"\n\n", b"\n")
        if len(cells_of(lines[0], sign)) < len(names):  # nothing above the names of rows, or at the end of the first
            text = text.replace(b"\n", sign.encode() + b"\n", 1) if found.spare else sign.encode() + text
        turned = TextTurned(text, sign, len(names), self.opened)
        turned.choose(name, columns, named=named)
        self.text, decimal = b"", "," if found.dialect.decimal == "," else wanted.decimal
        written = replace(
            of_rows, select=select[1], drop=drop[1], header=named or name is not None, sep=sign, decimal=decimal,
            encoding="utf-8", na=wanted.na, drop_text=wanted.drop_text,
        )  # fmt: skip
        table = Text(turned, self.opened).table(written, usual)
        said = [*self._judged(found), *found.notes, *([note_left_out(out, "")] if out else []), *table.notes]
        return replace(table, notes=tuple(note for note in said if note not in (UNNAMED_ID, UNNAMED_LEFT_OUT)))


def read_text(path: Path, wanted: ReadOptions, opened: FileContext) -> Table:
    """Read a .csv, .tsv or .txt file, or one of them in .gz, with features in rows."""
    return csv.read_csv(path, wanted, opened, TextOfFeatures)
