"""Columns of very many rows that stay with the workers of a cluster, in blocks: what is asked of them goes there.

Rows are judged by columns in units of their own. Each value is held as one of 253 steps up to the clip, exact in its
sign and in being zero, and to all digits in tails: a byte a value, for which workers have room. Selected columns
are held as they are; one after the other is put together where its centre is computed, and blocks tell all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsemean._data.dask import Dask
from sparsemean._data.source import Source, cut
from sparsemean._kernels.rounding import centred
from sparsemean._stats.standardized import BLOCK_VALUES, Flags, Units
from sparsemean._util.cluster import ask, hold
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean._data.source import Block

HELD_THERE = 100_000_000
"""Values of selected columns that workers hold at once, 400 MB in single precision: of more, some after the others."""
TAKEN_HERE = 16_000_000
"""Values of columns that come to the process that asks at once, 128 MB, or one column: much more is made of them."""
Rule = Callable[..., Any]


class Columns:
    """Some columns of some rows in blocks, each computed where it lies; less a number each.

    Parameters
    ----------
    source : Dask
        What they are columns of.
    columns : array of int
        Which ones, rising.
    kept : array of bool, optional
        Rows that are looked at; all by default.
    about : array of float, optional
        What is taken from each column; nothing by default.
    nonzero : array of int, optional
        Columns of which what is zero then is missing.
    """

    def __init__(
        self,
        source: Dask,
        columns: IntArray,
        *,
        kept: Flags | None = None,
        about: FloatArray | None = None,
        nonzero: IntArray | None = None,
        blocks: Sequence[Any] | None = None,
    ) -> None:
        self.source, self.columns, self.kept = source, columns, kept
        self.about = np.zeros(columns.size) if about is None else about
        self.nonzero = np.isin(columns, () if nonzero is None else nonzero)
        self.lazy = blocks is None
        self.blocks = _picked(source, columns) if blocks is None else blocks
        self.starts = np.cumsum([0, *source.array.chunks[0]])
        self.ends = self.starts if kept is None else np.concatenate(([0], np.cumsum(kept)))[self.starts]
        self.shape = (int(self.ends[-1]), int(columns.size))

    @property
    def at_once(self) -> int:
        """The number of such columns that workers hold."""
        return max(1, HELD_THERE // self.source.shape[0])

    def held(self) -> Columns:
        """Return the same, each block computed once and held."""
        return self._with(self.columns, blocks=hold(self.blocks))

    def only(self, at: IntArray) -> Columns:
        """Return some of the columns, by their places."""
        import dask

        blocks = None if self.lazy else [dask.delayed(_only, pure=False)(block, at) for block in self.blocks]
        return self._with(self.columns[at], about=self.about[at], nonzero=self.nonzero[at], blocks=blocks)

    def of_rows(self, kept: Flags) -> Columns:
        """Return some of the rows that are looked at."""
        if kept.all():
            return self
        rows = np.zeros(self.source.shape[0], dtype=bool)
        rows[np.flatnonzero(np.ones_like(rows) if self.kept is None else self.kept)[kept]] = True
        return self._with(self.columns, kept=rows)

    def _with(self, columns: IntArray, **changed: Any) -> Columns:
        blocks = None if self.lazy and columns is not self.columns else self.blocks
        now: dict[str, Any] = {"kept": self.kept, "about": self.about, "blocks": blocks, **changed}
        nonzero = now.pop("nonzero", self.nonzero)
        return Columns(self.source, columns, nonzero=columns[nonzero], **now)

    def each(self, rule: Rule, height: int) -> list[Any]:
        """Return what ``rule`` makes of so many rows at a time."""
        import dask

        task, form = dask.delayed(of_blocks, pure=False), self._form
        found = ask(
            [task(block, self._kept(k), form, rule, height) for k, block in enumerate(self.blocks) if self._rows(k)]
        )
        return [part for parts in found for part in parts]

    def over_columns(self, rule: Rule, *of_columns: Any) -> list[Any]:
        """Return what ``rule`` makes of each column, put together by a worker, and of what is given for it.

        Where they are too many to be held at once, all is computed again for each part of them.
        """
        import dask

        found: list[Any] = []
        one, joined = dask.delayed(_one, pure=False), dask.delayed(_joined, pure=False)
        for part in cut(self.columns.size, self.at_once, 1):
            at = np.arange(self.columns.size)[part]
            few = self if at.size == self.columns.size else self.only(at).held()
            tasks = []
            for j in range(at.size):
                pieces = [one(block, few._kept(k), j) for k, block in enumerate(few.blocks) if few._rows(k)]
                tasks.append(
                    joined(pieces, few.only_form(j), rule, *(values[part][j : j + 1] for values in of_columns))
                )
            found += ask(tasks)
        return found

    def __getitem__(self, rows: IntArray | slice) -> FloatArray:
        return self.take(rows)

    def gaps(self) -> int:
        """Return how many values are missing."""
        return sum(self.each(_gaps, max(1, BLOCK_VALUES // max(1, self.shape[1]))))

    def take(self, rows: IntArray | slice) -> FloatArray:
        """Return some of the rows that are looked at, rising, as they are in one process."""
        import dask

        n = self.shape[0]
        rows = np.arange(n)[rows] if isinstance(rows, slice) else rows
        wanted = rows if self.kept is None else np.flatnonzero(self.kept)[rows]
        at = np.searchsorted(wanted, self.starts)
        some = dask.delayed(_some, pure=False)
        tasks = [
            some(block, wanted[low:high] - self.starts[k], self._form)
            for k, (block, (low, high)) in enumerate(zip(self.blocks, pairwise(at), strict=True))
            if high > low
        ]
        return np.concatenate([np.empty((0, self.columns.size)), *ask(tasks)])

    def coded(self, units: Units, clip: float) -> list[Any]:
        """Return blocks in units of their columns, held by a byte a value."""
        import dask

        from sparsemean._fit.coded_rows import code

        task = dask.delayed(code, pure=False)
        return hold(
            [
                task(block, self._kept(k), self._form, units, clip)
                for k, block in enumerate(self.blocks)
                if self._rows(k)
            ]
        )

    @property
    def heights(self) -> list[int]:
        """The number of rows of each block that has any."""
        return [height for height in np.diff(self.ends).tolist() if height]

    @property
    def _form(self) -> Form:
        return Form(self.about, self.nonzero, self.source.precision)

    def only_form(self, j: int) -> Form:
        """Return what is made of one column."""
        return Form(self.about[j : j + 1], self.nonzero[j : j + 1], self.source.precision)

    def _rows(self, k: int) -> int:
        return int(self.ends[k + 1] - self.ends[k])

    def _kept(self, k: int) -> Flags | None:
        return None if self.kept is None else self.kept[self.starts[k] : self.starts[k + 1]]


class Form(NamedTuple):
    """What is taken from each column, and of which ones what is zero then is missing."""

    about: FloatArray
    nonzero: Flags
    precision: float

    def of(self, values: Any) -> FloatArray:
        """Return values as they are looked at."""
        x = np.asarray(values, dtype=np.float64)
        x = centred(x, self.about, self.precision) if self.about.any() else x
        return np.where(self.nonzero & (x == 0), np.nan, x) if self.nonzero.any() else x


def _picked(source: Dask, columns: IntArray) -> list[Any]:
    """Return columns in blocks of rows, as the chunks are."""
    import dask

    beside: list[list[Any]] = [[] for _ in source.array.chunks[0]]
    for number, (_, _, values) in enumerate(source.picked(columns)):
        beside[number % len(beside)].append(values)
    join = dask.delayed(_beside, pure=False)
    return [parts[0] if len(parts) == 1 else join(parts) for parts in beside]


# What workers do with a block.


def _beside(parts: list[Any]) -> Any:
    for part in parts:
        if isinstance(part, InputError):
            return part
    return np.concatenate(parts, axis=1)


def sound(block: Any) -> Any:
    """Return a block that could be read."""
    if isinstance(block, InputError):
        raise block
    return block


def _gaps(x: FloatArray) -> int:
    return int(np.count_nonzero(np.isnan(x)))


def _only(block: Any, at: IntArray) -> Any:
    return sound(block)[:, at]


def _one(block: Any, kept: Flags | None, j: int) -> Any:
    column = sound(block)[:, j]
    return column.copy() if kept is None else column[kept]


def _joined(pieces: list[Any], form: Form, rule: Rule, *given: Any) -> Any:
    return rule(form.of(np.concatenate(pieces)[:, np.newaxis]), *given)


def _some(block: Any, rows: IntArray, form: Form) -> FloatArray:
    return form.of(sound(block)[rows])


def of_blocks(block: Any, kept: Flags | None, form: Form, rule: Rule, height: int) -> list[Any]:
    """Return what ``rule`` makes of the rows of a block, some at a time."""
    rows = np.arange(sound(block).shape[0]) if kept is None else np.flatnonzero(kept)
    return [rule(form.of(block[rows[part]])) for part in cut(rows.size, height, 1)]


class HeldColumns(Source):
    """A dask array some of whose columns its workers hold."""

    def __init__(self, source: Dask, held: Columns | None = None) -> None:
        self.source, self.held = source, held
        self.shape, self.dtype = source.shape, source.dtype

    def block(self, rows: slice, columns: slice) -> Block:
        """Compute some rows of some columns."""
        return self.source.block(rows, columns)

    def columns(self, columns: IntArray, **options: Any) -> Columns:
        """Return rising columns in blocks; options are those of `Columns`."""
        held = self.held
        if held is None or not np.isin(columns, held.columns).all():
            return Columns(self.source, columns, **options)
        at = np.searchsorted(held.columns, columns)
        blocks = held.blocks if at.size == held.columns.size else held.only(at).blocks
        return Columns(self.source, columns, blocks=blocks, **options)

    def _take(self, columns: IntArray) -> FloatArray:
        """Put columns together here."""
        return self.columns(columns).take(slice(None))

    def takes_of(self, columns: IntArray) -> Any:
        """Yield rising columns a few at a time; as many as workers can hold are computed at once."""
        for part in cut(columns.size, max(1, HELD_THERE // self.shape[0]), 1):
            near = self.adding(columns[part])
            for few in cut(columns[part].size, max(1, TAKEN_HERE // self.shape[0]), 1):
                yield columns[part][few], near.take(columns[part][few])

    def adding(self, columns: IntArray) -> HeldColumns:
        """Return the same with these columns held, unless they are or are too many."""
        known = np.empty(0, dtype=np.intp) if self.held is None else self.held.columns
        if np.isin(columns, known).all() or columns.size * self.shape[0] > HELD_THERE:
            return self
        return HeldColumns(self.source, Columns(self.source, columns).held())
