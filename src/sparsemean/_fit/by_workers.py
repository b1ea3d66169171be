"""Columns of very many rows that stay with the workers of a cluster, in blocks: what is asked of them goes there.

Rows are judged by columns in units of their own. Each value is held as one of 253 steps up to the clip, exact in its
sign and in being zero, and to all digits in tails: a byte a value, for which workers have room. Selected columns
are held as they are; one after the other is put together where its centre is computed, and blocks tell all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean._data.dask import Dask
from sparsemean._data.source import Array, Block, Source
from sparsemean._kernels.memory_layout import cut
from sparsemean._kernels.rounding import centred
from sparsemean._stats import standardized
from sparsemean._stats.arrays import some_rows
from sparsemean._stats.standardized import CLIP, Flags, Part, Rows, Single, StandardizedRows, Units, as_they_are
from sparsemean._util.cluster import ask, hold
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from dask.delayed import Delayed

T = TypeVar("T")
Read: TypeAlias = Array | InputError
"""A block of columns, or why it could not be read."""
HELD_THERE = 100_000_000
"""Values of selected columns that workers hold at once, 400 MB in single precision: of more, some after the others."""
TAKEN_HERE = 16_000_000
"""Values of columns that come to the process that asks at once, 128 MB, or one column: much more is made of them."""


def task(function: Callable[..., object]) -> Callable[..., Delayed]:
    """Return a function whose calls are made where what it is given lies."""
    import dask

    delayed: Callable[..., Delayed] = dask.delayed(function, pure=False)
    return delayed


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of some rows in blocks, each computed where it lies; less a number each."""

    source: Dask
    """What they are columns of."""
    columns: IntArray
    """Which ones, rising."""
    kept: Flags | None = None
    """Rows that are looked at; None for all."""
    about: FloatArray | None = None
    """What is taken from each column; None for nothing."""
    nonzero: IntArray | None = None
    """Columns of which what is zero then is missing."""
    there: Sequence[Delayed] | None = None
    """The blocks, where workers hold them."""

    @cached_property
    def blocks(self) -> Sequence[Delayed]:
        """The columns as they were read, in blocks of rows."""
        return _picked(self.source, self.columns) if self.there is None else self.there

    @cached_property
    def starts(self) -> IntArray:
        """The first row of each block, and the number of all."""
        return np.cumsum([0, *self.source.array.chunks[0]])

    @cached_property
    def ends(self) -> IntArray:
        """The same of the rows that are looked at."""
        return self.starts if self.kept is None else np.concatenate(([0], np.cumsum(self.kept)))[self.starts]

    @property
    def heights(self) -> list[int]:
        """The number of rows of each block that has any."""
        return [height for height in np.diff(self.ends).tolist() if height]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows that are looked at, and columns."""
        return int(self.ends[-1]), int(self.columns.size)

    @property
    def form(self) -> Form:
        """What is made of values before they are looked at."""
        about = np.zeros(self.columns.size) if self.about is None else self.about
        return Form(about, np.isin(self.columns, () if self.nonzero is None else self.nonzero), self.source.precision)

    @property
    def at_once(self) -> int:
        """The number of such columns that workers hold."""
        return max(1, HELD_THERE // self.source.shape[0])

    def held(self) -> Columns:
        """Return the same, each block computed once and held."""
        return replace(self, there=hold(self.blocks))

    def only(self, at: IntArray) -> Columns:
        """Return some of the columns, by their places."""
        only = task(_only)
        there = None if self.there is None else [only(block, at) for block in self.there]
        about = None if self.about is None else self.about[at]
        return replace(self, columns=self.columns[at], about=about, there=there)

    def of_rows(self, kept: Flags) -> Columns:
        """Return some of the rows that are looked at."""
        if kept.all():
            return self
        rows = np.zeros(self.source.shape[0], dtype=bool)
        rows[np.flatnonzero(np.ones_like(rows) if self.kept is None else self.kept)[kept]] = True
        return replace(self, kept=rows)

    def _of_blocks(self, function: Callable[..., object], *given: object) -> list[Delayed]:
        """Return what a function makes of each block that has rows, told of these and of the form."""
        form, made = self.form, task(function)
        return [made(block, kept, form, *given) for block, kept in self._parts()]

    def _parts(self) -> Iterator[tuple[Delayed, Flags | None]]:
        """Yield each block that has rows which are looked at, and which ones."""
        for block, (first, last), height in zip(self.blocks, pairwise(self.starts), np.diff(self.ends), strict=True):
            if height:
                yield block, None if self.kept is None else self.kept[first:last]

    def each(self, rule: Callable[[FloatArray], T], height: int) -> list[T]:
        """Return what ``rule`` makes of so many rows at a time."""
        return list(chain.from_iterable(ask(self._of_blocks(of_blocks, rule, height))))

    def over_columns(self, rule: Callable[..., T], *of_columns: FloatArray) -> list[T]:
        """Return what ``rule`` makes of each column, put together by a worker, and of what is given for it.

        Where they are too many to be held at once, all is computed again for each part of them.
        """
        found: list[T] = []
        one, joined, size = task(_one), task(_joined), self.columns.size
        for part in cut(size, self.at_once, 1):
            at = np.arange(size)[part]
            few = self if at.size == size else self.only(at).held()
            tasks = []
            for j in range(at.size):
                pieces = [one(block, kept, j) for block, kept in few._parts()]
                tasks.append(
                    joined(pieces, few.form.of_column(j), rule, *(values[at[j : j + 1]] for values in of_columns))
                )
            found += ask(tasks)
        return found

    def gaps(self) -> int:
        """Return how many values are missing."""
        height = max(1, standardized.BLOCK_VALUES // max(1, self.shape[1]))
        return sum(self.each(lambda x: int(np.isnan(x).sum()), height))

    def __getitem__(self, rows: IntArray | slice) -> FloatArray:
        return self.take(rows)

    def take(self, rows: IntArray | slice) -> FloatArray:
        """Return some of the rows that are looked at, rising, as they are in one process."""
        rows = np.arange(self.shape[0])[rows] if isinstance(rows, slice) else rows
        wanted = rows if self.kept is None else np.flatnonzero(self.kept)[rows]
        at, form, some = np.searchsorted(wanted, self.starts), self.form, task(_some)
        tasks = [
            some(block, wanted[low:high] - first, form)
            for block, first, (low, high) in zip(self.blocks, self.starts, pairwise(at), strict=False)
            if high > low
        ]
        return np.concatenate([np.empty((0, self.columns.size)), *ask(tasks)])

    def coded(self, units: Units, clip: float) -> list[Delayed]:
        """Return blocks in units of their columns, held by a byte a value."""
        return hold(self._of_blocks(code, units, clip))


class Form(NamedTuple):
    """What is taken from each column, and of which ones what is zero then is missing."""

    about: FloatArray
    nonzero: Flags
    precision: float

    def of(self, values: Array) -> FloatArray:
        """Return values as they are looked at."""
        x = np.asarray(values, dtype=np.float64)
        x = centred(x, self.about, self.precision) if self.about.any() else x
        return np.where(self.nonzero & (x == 0), np.nan, x) if self.nonzero.any() else x

    def of_column(self, j: int) -> Form:
        """Return what is made of one column."""
        return Form(self.about[j : j + 1], self.nonzero[j : j + 1], self.precision)


def _picked(source: Dask, columns: IntArray) -> list[Delayed]:
    """Return columns in blocks of rows, as the chunks are."""
    beside: list[list[Delayed]] = [[] for _ in source.array.chunks[0]]
    for number, (_, _, values) in enumerate(source.picked(columns)):
        beside[number % len(beside)].append(values)
    join = task(_beside)
    return [parts[0] if len(parts) == 1 else join(parts) for parts in beside]


# What workers do with a block.


def _beside(parts: list[Read]) -> Read:
    for part in parts:
        if isinstance(part, InputError):
            return part
    return np.concatenate([sound(part) for part in parts], axis=1)


def sound(block: Read) -> Array:
    """Return a block that could be read."""
    if isinstance(block, InputError):
        raise block
    return block


def _only(block: Read, at: IntArray) -> Array:
    return sound(block)[:, at]


def _one(block: Read, kept: Flags | None, j: int) -> Array:
    column = sound(block)[:, j]
    return column.copy() if kept is None else column[kept]


def _joined(pieces: list[Array], form: Form, rule: Callable[..., T], *given: FloatArray) -> T:
    return rule(form.of(np.concatenate(pieces)[:, np.newaxis]), *given)


def _some(block: Read, rows: IntArray, form: Form) -> FloatArray:
    return form.of(sound(block)[rows])


def of_blocks(block: Read, kept: Flags | None, form: Form, rule: Callable[[FloatArray], T], height: int) -> list[T]:
    """Return what ``rule`` makes of the rows of a block, some at a time."""
    values = sound(block)
    rows = np.arange(values.shape[0]) if kept is None else np.flatnonzero(kept)
    return [rule(form.of(values[rows[part]])) for part in cut(rows.size, height, 1)]


class HeldColumns(Source):
    """A dask array some of whose columns its workers hold."""

    def __init__(self, source: Dask, held: Columns | None = None) -> None:
        self.source, self.held = source, held
        self.shape, self.dtype = source.shape, source.dtype

    def block(self, rows: slice, columns: slice) -> Block:
        """Compute some rows of some columns."""
        return self.source.block(rows, columns)

    def columns(
        self,
        columns: IntArray,
        kept: Flags | None = None,
        about: FloatArray | None = None,
        nonzero: IntArray | None = None,
    ) -> Columns:
        """Return rising columns in blocks, with the other fields of `Columns`."""
        found, held = Columns(self.source, columns, kept, about, nonzero), self.held
        if held is None or not np.isin(columns, held.columns).all():
            return found
        at = np.searchsorted(held.columns, columns)
        return replace(found, there=held.there if at.size == held.columns.size else held.only(at).there)

    def _take(self, columns: IntArray) -> FloatArray:
        """Put columns together here."""
        return self.columns(columns)[:]

    def takes_of(self, columns: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
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


# Rows that are judged where they lie: their values as steps of their columns, a byte a value.

STEPS = 126
"""Steps from zero to the clip: they are whole numbers that a byte holds."""
MISSING = -128


class Coded(NamedTuple):
    """Values of a block as steps, and those in tails or beyond the last one: where, row by row, and how large."""

    steps: npt.NDArray[np.int8]
    at: npt.NDArray[np.int32] | IntArray
    value: Single
    clip: float
    sums: FloatArray
    """Of the columns, clipped, and of their products: before they became steps."""
    products: FloatArray
    own: Single
    """The size of each row, before too."""
    whole: bool
    """Whether nothing is missing."""

    def rows(self, wanted: IntArray | slice) -> Part:
        """Return some rows, and where they are not missing; None: nowhere missing."""
        (n, p), steps = self.steps.shape, self.steps[wanted]
        x, has = steps * np.float32(self.clip / STEPS), None if self.whole else steps != MISSING
        if has is not None:
            x[~has] = 0
        numbers = np.arange(n)[wanted]
        low, high = np.searchsorted(self.at, numbers * p), np.searchsorted(self.at, (numbers + 1) * p)
        row = np.repeat(np.arange(numbers.size), high - low)
        at = np.arange(row.size) + np.repeat(low - np.cumsum(high - low) + (high - low), high - low)
        x[row, self.at[at] - numbers[row] * p] = self.value[at]
        return x, has


def code(block: Read, kept: Flags | None, form: Form, units: Units, clip: float) -> Coded:
    """Return a block in units of its columns as steps."""
    height = max(1, standardized.BLOCK_VALUES // max(1, sound(block).shape[1]))
    parts = of_blocks(block, kept, form, lambda x: _steps(x, units, clip), height)
    sizes = np.cumsum([0, *(part.steps.size for part in parts)])
    places = np.int32 if sizes[-1] < np.iinfo(np.int32).max else np.intp
    return Coded(
        steps=np.concatenate([part.steps for part in parts]),
        at=np.concatenate([(part.at + first).astype(places) for part, first in zip(parts, sizes, strict=False)]),
        value=np.concatenate([part.value for part in parts]),
        clip=clip,
        sums=sum_of(part.sums for part in parts),
        products=sum_of(part.products for part in parts),
        own=np.concatenate([part.own for part in parts]),
        whole=all(part.whole for part in parts),
    )


def _steps(values: FloatArray, units: Units, clip: float) -> Coded:
    """Return values as steps: to the nearest one, but zero is nothing else than zero."""
    x, has = standardized.ratios_of(values, units)
    tail = min(clip, standardized.INNER)
    at = np.flatnonzero((x > tail) | (x < -tail))
    near = np.clip(x, -clip, clip)
    size = np.abs(near) * np.float32(STEPS / clip)
    steps = np.copysign(np.maximum(np.rint(size), x != 0), x).astype(np.int8)
    if has is not None:
        steps[~has] = MISSING
    sums, products = near.sum(axis=0, dtype=np.float64), (near.T @ near).astype(np.float64)
    own = standardized.row_scales(x, units) if units.judging.size else np.ones(x.shape[0], dtype=np.float32)
    return Coded(steps, at, x.ravel()[at], clip, sums, products, own, has is None)


def sum_of(arrays: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of some arrays."""
    return np.asarray(sum(arrays))


class Steps(NamedTuple):
    """Blocks of rows as steps, where workers hold them."""

    blocks: list[Delayed]
    heights: list[int]
    width: int
    whole: bool
    """Whether nothing is missing."""


def _each_part(
    block: Coded, height: int, look: Callable[..., Part], given: list[Array], shared: int, rule: Callable[..., T]
) -> list[T]:
    """Return what ``rule`` makes of parts of a block as ``look`` shows them, which is given some numbers first."""
    out = []
    for rows in cut(block.steps.shape[0], height, 1):
        mine = [values[rows] for values in given]
        with np.errstate(invalid="ignore"):
            out.append(rule(*look(*block.rows(rows), *mine[:shared]), *mine[shared:]))
    return out


def _rows_of(
    block: Coded, look: Callable[..., Part], given: list[Array], wanted: IntArray, columns: IntArray | None
) -> Single:
    """Return some rows of a block as ``look`` shows them."""
    x, _ = look(*block.rows(wanted), *given)
    return np.asarray(x if columns is None else x[:, columns])


class CodedRows(Rows):
    """Rows that workers hold as steps, as ``look`` shows them: it is given ``numbers`` of the rows, if there are."""

    def __init__(
        self, steps: Steps, look: Callable[..., Part] = as_they_are, numbers: Sequence[Array] = (), *, p: int
    ) -> None:
        self.steps, self.look, self.numbers, self.remake = steps, look, numbers, partial(CodedRows, steps)
        self.whole, self.on_device = steps.whole, False
        self.height = max(1, standardized.BLOCK_VALUES // max(1, steps.width))
        self.first = np.cumsum([0, *steps.heights])
        parts = [part.stop - part.start for height in steps.heights for part in cut(height, self.height, 1)]
        self.ends = np.cumsum([0, *parts])
        self.shape = (int(self.ends[-1]), p)

    def held(self) -> CodedRows:
        """Return the same: workers hold no other form."""
        return self

    def each(self, rule: Callable[..., T], *of_rows: Array) -> list[T]:
        """Return what ``rule`` makes of every part of a block, with its share of what is given for each row."""
        given, shared, part = (*self.numbers, *of_rows), len(self.numbers), task(_each_part)
        tasks = [
            part(block, self.height, self.look, [values[low:high] for values in given], shared, rule)
            for block, (low, high) in zip(self.steps.blocks, pairwise(self.first), strict=True)
        ]
        return list(chain.from_iterable(ask(tasks)))

    def take(self, rows: IntArray, columns: IntArray | None = None) -> Single:
        """Return some rows, of some columns."""
        order = np.argsort(rows, kind="stable")
        rising, some, tasks = rows[order], task(_rows_of), []
        at = pairwise(np.searchsorted(rising, self.first))
        for block, first, (low, high) in zip(self.steps.blocks, self.first, at, strict=False):
            if high > low:
                mine = rising[low:high]
                given = [values[mine] for values in self.numbers]
                tasks.append(some(block, self.look, given, mine - first, columns))
        out = np.empty((rows.size, self.shape[1] if columns is None else columns.size), dtype=np.float32)
        if tasks:
            out[order] = np.concatenate(ask(tasks))
        return out


class CodedColumns(StandardizedRows):
    """What `StandardizedRows` is, of columns that workers hold."""

    def __init__(self, values: Columns, clip: float = CLIP) -> None:
        n = values.shape[0]
        self.units = standardized.column_units(values[some_rows(*values.shape)])
        self.columns, self.judging = values.columns[self.units.used], self.units.judging
        blocks = values.coded(self.units, clip)
        told = task(lambda block: (block.whole, block.sums, block.products, block.own))
        of_whole, of_sums, of_products, of_own = zip(*ask(list(map(told, blocks))), strict=True)
        whole, sums = all(of_whole), sum_of(of_sums)[self.judging]
        products, self.row_scale = sum_of(of_products)[np.ix_(self.judging, self.judging)], np.concatenate(of_own)
        self.ratios = CodedRows(Steps(blocks, values.heights, self.columns.size, whole), p=self.columns.size)
        self.scaled = self._clipped(clip, sums)
        if whole:
            self.scaled.products = (products - np.outer(sums, sums) / n).astype(np.float32)

    def release(self) -> None:
        """Do nothing: clipped rows are not held."""
