"""Tables that lie the other way round: features in rows and samples in columns, turned while they are read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsemean._data.repeats import layout_of
from sparsemean._data.source import Array, Dense, Source, Subset
from sparsemean._data.table import FileContext, ReadOptions, Table
from sparsemean._kernels.cells import QUOTE

if TYPE_CHECKING:
    from sparsemean._data.source import Block

LOOKED_AT_ONCE = 8_000_000
"""Bytes in which ends of cells are looked for together."""


def options_of_rows(wanted: ReadOptions) -> tuple[ReadOptions, ReadOptions]:
    """Return what is asked of columns as they lie in a file, and of its rows, which are to be columns."""
    of_rows = ReadOptions(group=wanted.group, subject=wanted.subject, strata=wanted.strata, pairs=wanted.pairs)
    return replace(wanted, group=None, subject=None, strata=(), pairs=None), of_rows


class TextTurned:
    """The cells of a text, column by column as they are written, made lines while they are read.

    Held are the text and eight bytes for each of its cells.
    """

    def __init__(self, text: bytes, separator: str, opened: FileContext) -> None:
        self.text, self.separator, self.opened = text, separator.encode(), opened
        count = text.count(self.separator) + text.count(b"\n")
        opened.check_held(8 * count)
        ends = np.concatenate([*self._ends()])
        at_breaks = np.flatnonzero(np.frombuffer(text, np.uint8)[ends] == ord("\n"))
        widths = np.diff(at_breaks, prepend=-1)
        if (odd := np.flatnonzero(widths != widths[-1])).size:
            row = int(odd[0])
            why = f"line {row + 1} has {widths[row]} cell(s) where the last line has {widths[-1]}"
            raise opened.broken(why if not text.count(b'"') % 2 else "a quote that is never closed")
        self.ends: npt.NDArray[np.int64] = ends.reshape(-1, widths[0])
        self.lines: Iterator[bytes] = iter(())

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

    def read(self, size: int, /) -> bytes:
        """Return lines of about ``size`` bytes, nothing after the last."""
        out = io.BytesIO()
        for line in self.lines:
            out.write(line)
            if out.tell() >= size:
                break
        return out.getvalue()


class Turned(Source):
    """Another source, its rows for columns."""

    def __init__(self, source: Source) -> None:
        self.source, self.shape, self.dtype = source, source.shape[::-1], source.dtype
        self.along, self.grain = "columns" if source.along == "rows" else "rows", source.grain
        self.sparse, self.in_memory, self._precision = source.sparse, source.in_memory, source.precision

    @property
    def bytes_a_value(self) -> float:
        """Bytes that a value takes in memory."""
        return self.source.bytes_a_value

    def block(self, rows: slice, columns: slice) -> Block:
        """Return some columns as rows."""
        block = self.source.block(columns, rows).T
        return block if isinstance(block, np.ndarray) else block.tocsc()


def turned(table: Table, wanted: ReadOptions, *, lazily: bool) -> Table:
    """Return a table of numbers turned, values that are to be held as an array; ``wanted`` are rows that say labels."""
    held = table.values if isinstance(table.source, Dense) or not lazily else None
    source = Turned(table.source) if held is None else Dense(held.T, precision=table.source.precision)
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
