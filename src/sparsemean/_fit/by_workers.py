"""Columns of very many rows that stay with the workers of a cluster, in blocks: what is asked of them goes there.

Rows are judged by columns in units of their own. Each value is held as one of 253 steps up to the clip, exact in its
sign and in being zero, and to all digits in tails: a byte a value, for which workers have room. Selected columns
are held as they are; one after the other is put together where its centre is computed, and blocks tell all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.dask import Dask
from sparsemean._data.source import Source, cut
from sparsemean._stats.arrays import some_rows
from sparsemean._stats.judged import (
    BLOCK_VALUES,
    CLIP,
    INNER,
    WIDE,
    Flags,
    Judged,
    Part,
    Rows,
    Single,
    Units,
    own_sizes,
    ratios_of,
    units_of,
)
from sparsemean._util.cluster import ask, hold
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean._data.source import Block

HELD_THERE = 100_000_000
"""Values of selected columns that workers hold at once, 400 MB in single precision: of more, some after the others."""
TAKEN_HERE = 16_000_000
"""Values of columns that come to the process that asks at once, 128 MB, or one column: much more is made of them."""
STEPS = 126
"""Steps from zero to the clip: they are whole numbers that a byte holds."""
MISSING = -128
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

        task, form = dask.delayed(_of_blocks, pure=False), self._form
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

        task = dask.delayed(_coded, pure=False)
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
        return Form(self.about, self.nonzero)

    def only_form(self, j: int) -> Form:
        """Return what is made of one column."""
        return Form(self.about[j : j + 1], self.nonzero[j : j + 1])

    def _rows(self, k: int) -> int:
        return int(self.ends[k + 1] - self.ends[k])

    def _kept(self, k: int) -> Flags | None:
        return None if self.kept is None else self.kept[self.starts[k] : self.starts[k + 1]]


class Form(NamedTuple):
    """What is taken from each column, and of which ones what is zero then is missing."""

    about: FloatArray
    nonzero: Flags

    def of(self, values: Any) -> FloatArray:
        """Return values as they are looked at."""
        x = np.asarray(values, dtype=np.float64)
        x = x - self.about if self.about.any() else x
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


def _sound(block: Any) -> Any:
    """Return a block that could be read."""
    if isinstance(block, InputError):
        raise block
    return block


def _gaps(x: FloatArray) -> int:
    return int(np.count_nonzero(np.isnan(x)))


def _only(block: Any, at: IntArray) -> Any:
    return _sound(block)[:, at]


def _one(block: Any, kept: Flags | None, j: int) -> Any:
    column = _sound(block)[:, j]
    return column.copy() if kept is None else column[kept]


def _joined(pieces: list[Any], form: Form, rule: Rule, *given: Any) -> Any:
    return rule(form.of(np.concatenate(pieces)[:, np.newaxis]), *given)


def _some(block: Any, rows: IntArray, form: Form) -> FloatArray:
    return form.of(_sound(block)[rows])


def _of_blocks(block: Any, kept: Flags | None, form: Form, rule: Rule, height: int) -> list[Any]:
    """Return what ``rule`` makes of the rows of a block, some at a time."""
    rows = np.arange(_sound(block).shape[0]) if kept is None else np.flatnonzero(kept)
    return [rule(form.of(block[rows[part]])) for part in cut(rows.size, height, 1)]


class Coded(NamedTuple):
    """Values of a block as steps, and those in tails or beyond the last one: where, row by row, and how large."""

    steps: npt.NDArray[np.int8]
    at: npt.NDArray[np.integer[Any]]
    value: Single
    clip: float
    sums: FloatArray
    """Of the columns, clipped, and of their products: before they became steps."""
    products: FloatArray
    own: Single
    """The size of each row, before too."""
    whole: bool
    """Whether nothing is missing."""

    def part(self, rows: slice) -> Part:
        """Return neighbouring rows, and where they are not missing; None: nowhere missing."""
        p = self.steps.shape[1]
        x, has = self._near(self.steps[rows])
        low, high = np.searchsorted(self.at, (rows.start * p, rows.stop * p))
        x.ravel()[self.at[low:high] - rows.start * p] = self.value[low:high]
        return x, has

    def rows(self, wanted: IntArray) -> Part:
        """Return any rows in the same way."""
        p = self.steps.shape[1]
        x, has = self._near(self.steps[wanted])
        low, high = np.searchsorted(self.at, wanted * p), np.searchsorted(self.at, (wanted + 1) * p)
        row = np.repeat(np.arange(wanted.size), high - low)
        at = np.arange(row.size) + np.repeat(low - np.cumsum(high - low) + (high - low), high - low)
        x[row, self.at[at] - wanted[row] * p] = self.value[at]
        return x, has

    def _near(self, steps: npt.NDArray[np.int8]) -> Part:
        x = steps * np.float32(self.clip / STEPS)
        if self.whole:
            return x, None
        has = steps != MISSING
        x[~has] = 0
        return x, has


def _coded(block: Any, kept: Flags | None, form: Form, units: Units, clip: float) -> Coded:
    """Return a block in units of its columns as steps."""
    height = max(1, BLOCK_VALUES // max(1, _sound(block).shape[1]))
    parts = _of_blocks(block, kept, form, lambda x: _steps(x, units, clip), height)
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
    x, has = ratios_of(values, units)
    tail = min(clip, INNER)
    at = np.flatnonzero((x > tail) | (x < -tail))
    near = np.clip(x, -clip, clip)
    size = np.abs(near) * np.float32(STEPS / clip)
    steps = np.copysign(np.maximum(np.rint(size), x != 0), x).astype(np.int8)
    if has is not None:
        steps[~has] = MISSING
    sums, products = near.sum(axis=0, dtype=np.float64), (near.T @ near).astype(np.float64)
    own = own_sizes(x, units) if units.judging.size else np.ones(x.shape[0], dtype=np.float32)
    return Coded(steps, at, x.ravel()[at], clip, sums, products, own, has is None)


def sum_of(arrays: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of some arrays."""
    return np.asarray(sum(arrays))


def _each_part(block: Coded, height: int, look: Rule, given: list[Any], shared: int, rule: Rule) -> list[Any]:
    """Return what ``rule`` makes of parts of a block as ``look`` shows them, which is given some numbers first."""
    out = []
    for rows in cut(block.steps.shape[0], height, 1):
        mine = [values[rows] for values in given]
        with np.errstate(invalid="ignore"):
            out.append(rule(*look(*block.part(rows), *mine[:shared]), *mine[shared:]))
    return out


def _rows_of(block: Coded, look: Rule, given: list[Any], wanted: IntArray, columns: Any) -> Single:
    """Return some rows of a block as ``look`` shows them."""
    x, _ = look(*block.rows(wanted), *given)
    return np.asarray(x if columns is None else x[:, columns])


def _told(block: Coded) -> tuple[bool, FloatArray, FloatArray, Single]:
    return block.whole, block.sums, block.products, block.own


class CodedRows(Rows):
    """Rows that workers hold as steps, as ``look`` shows them: it is given ``numbers`` of the rows, if there are."""

    def __init__(
        self,
        blocks: Sequence[Any],
        heights: Sequence[int],
        width: int,
        *,
        whole: bool,
        look: Rule,
        numbers: Sequence[Any] = (),
        p: int | None = None,
        lengths: FloatArray | None = None,
        products: Single | None = None,
    ) -> None:
        self.products = products
        self.blocks, self.heights, self.width, self.whole = blocks, heights, width, whole
        self.look, self.numbers, self.lengths, self.n_jobs = look, numbers, lengths, 1
        self.height = max(1, BLOCK_VALUES // max(1, width))
        self.first = np.cumsum([0, *heights])
        parts = [part.stop - part.start for height in heights for part in cut(height, self.height, 1)]
        self.ends = np.cumsum([0, *parts])
        self.shape = (int(self.ends[-1]), width if p is None else p)

    def seen(self, look: Rule, *numbers: Any, p: int, products: Single | None = None) -> CodedRows:
        """Return the same rows, looked at in another way, with what is known of the ``products`` of their columns."""
        return CodedRows(
            self.blocks, self.heights, self.width, whole=self.whole, look=look, numbers=numbers, p=p, products=products
        )  # fmt: skip

    def over(self, lengths: FloatArray) -> CodedRows:
        """Return the same rows, each divided by its length."""
        return CodedRows(
            self.blocks, self.heights, self.width, whole=self.whole, look=self.look, numbers=self.numbers,
            p=self.shape[1], lengths=lengths,
        )  # fmt: skip

    def each(self, rule: Rule, *of_rows: Any) -> list[Any]:
        """Return what ``rule`` makes of every part of a block, with its share of what is given for each row."""
        import dask

        task, given = dask.delayed(_each_part, pure=False), (*self.numbers, *of_rows)
        tasks = [
            task(block, self.height, self.look, [values[mine] for values in given], len(self.numbers), rule)
            for block, mine in zip(self.blocks, self._slices(), strict=True)
        ]
        return [part for parts in ask(tasks) for part in parts]

    def beside(self, small: Any) -> Any:
        """Return a small array as it is: it goes to the workers with whatever is asked of them."""
        return small

    def gram(self) -> Single:
        """Return the products of all columns: of what they were before they became steps, where that is known."""
        return super().gram() if self.products is None else self.products.copy()

    def take(self, rows: IntArray, columns: IntArray | None = None) -> Single:
        """Return some rows, of some columns."""
        import dask

        order = np.argsort(rows, kind="stable")
        rising = rows[order]
        at = np.searchsorted(rising, self.first)
        task = dask.delayed(_rows_of, pure=False)
        tasks = [
            task(
                block, self.look, [values[rising[low:high]] for values in self.numbers],
                rising[low:high] - mine.start, columns,
            )
            for block, mine, (low, high) in zip(self.blocks, self._slices(), pairwise(at), strict=True)
            if high > low
        ]  # fmt: skip
        out = np.empty((rows.size, self.shape[1] if columns is None else columns.size), dtype=np.float32)
        if tasks:
            out[order] = np.concatenate(ask(tasks))
        if self.lengths is not None:
            out /= self.lengths[rows, np.newaxis].astype(np.float32)
        return out

    def _slices(self) -> list[slice]:
        return [slice(low, high) for low, high in pairwise(self.first.tolist())]


class CodedColumns(Judged):
    """What `Judged` is, of columns that workers hold."""

    def __init__(self, values: Columns, clip: float = CLIP) -> None:
        import dask

        n, d = values.shape
        self.units = units_of(values.take(some_rows(n, d)))
        self.columns, self.judging = self.units.used, self.units.judging
        blocks, p = values.coded(self.units, clip), self.judging.size
        told = ask([dask.delayed(_told, pure=False)(block) for block in blocks])
        of_whole, of_sums, of_products, of_own = zip(*told, strict=True)
        whole, sums = all(of_whole), sum_of(of_sums)[self.judging]
        products, self.own = sum_of(of_products)[np.ix_(self.judging, self.judging)], np.concatenate(of_own)
        self.ratios: CodedRows = CodedRows(blocks, values.heights, self.columns.size, whole=whole, look=_as_is)
        near = partial(_near, judging=self.judging, clip=clip)
        if whole:
            mean, gram = sums / n, (products - np.outer(sums, sums) / n).astype(np.float32)
        else:
            mean, gram = sums / np.maximum(self.ratios.per_column[self.judging], 1), None
        self.scaled = self.ratios.seen(partial(near, mean=mean.astype(np.float32)), p=p, products=gram)
        self.variances = None

    def wide(self) -> Rows:
        """Return rows over their own size, clipped far out."""
        return self.ratios.seen(partial(_wide, judging=self.judging), self.own, p=self.judging.size)


def _as_is(x: Single, has: Flags | None) -> Part:
    return x, has


def _near(x: Single, has: Flags | None, *, judging: IntArray, clip: float, mean: Single) -> Part:
    """Return the columns that directions are judged by, clipped, about their means."""
    if judging.size < x.shape[1]:
        x, has = x[:, judging], None if has is None else has[:, judging]
    x = np.clip(x, -clip, clip)
    x -= mean if has is None else mean * has
    return x, has


def _wide(x: Single, has: Flags | None, own: Single, *, judging: IntArray) -> Part:
    """Return the same over the sizes of rows, clipped far out."""
    if judging.size < x.shape[1]:
        x, has = x[:, judging], None if has is None else has[:, judging]
    x = x / own[:, np.newaxis]
    return np.clip(x, -WIDE, WIDE, out=x), has


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
