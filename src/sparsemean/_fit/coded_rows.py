"""Rows that workers hold as steps of their columns, a byte a value, and judge where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import cut
from sparsemean._fit.by_workers import Columns, Form, Rule, of_blocks, sound
from sparsemean._stats.arrays import some_rows
from sparsemean._stats.standardized import (
    BLOCK_VALUES,
    CLIP,
    INNER,
    Flags,
    Part,
    Rows,
    Single,
    StandardizedRows,
    Units,
    clipped_about,
    column_units,
    ratios_of,
    row_scales,
    winsorized_block,
)
from sparsemean._util.cluster import ask
from sparsemean._util.records import FloatArray, IntArray

STEPS = 126
"""Steps from zero to the clip: they are whole numbers that a byte holds."""
MISSING = -128


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


def code(block: Any, kept: Flags | None, form: Form, units: Units, clip: float) -> Coded:
    """Return a block in units of its columns as steps."""
    height = max(1, BLOCK_VALUES // max(1, sound(block).shape[1]))
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
    x, has = ratios_of(values, units)
    tail = min(clip, INNER)
    at = np.flatnonzero((x > tail) | (x < -tail))
    near = np.clip(x, -clip, clip)
    size = np.abs(near) * np.float32(STEPS / clip)
    steps = np.copysign(np.maximum(np.rint(size), x != 0), x).astype(np.int8)
    if has is not None:
        steps[~has] = MISSING
    sums, products = near.sum(axis=0, dtype=np.float64), (near.T @ near).astype(np.float64)
    own = row_scales(x, units) if units.judging.size else np.ones(x.shape[0], dtype=np.float32)
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

    @property
    def on_device(self) -> bool:
        """Whether the rows lie on a device: with workers they do not."""
        return False

    def _along(self, directions: Single) -> Single:
        return np.concatenate(self.each(lambda x, _: directions.T @ x.T), axis=1)

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


class CodedColumns(StandardizedRows):
    """What `StandardizedRows` is, of columns that workers hold."""

    def __init__(self, values: Columns, clip: float = CLIP) -> None:
        import dask

        n, d = values.shape
        self.units = column_units(values.take(some_rows(n, d)))
        self.columns, self.judging = self.units.used, self.units.judging
        blocks, p = values.coded(self.units, clip), self.judging.size
        told = ask([dask.delayed(_told, pure=False)(block) for block in blocks])
        of_whole, of_sums, of_products, of_own = zip(*told, strict=True)
        whole, sums = all(of_whole), sum_of(of_sums)[self.judging]
        products, self.row_scale = sum_of(of_products)[np.ix_(self.judging, self.judging)], np.concatenate(of_own)
        self.ratios: CodedRows = CodedRows(blocks, values.heights, self.columns.size, whole=whole, look=_as_is)
        look = partial(clipped_about, judging=self.judging, clip=clip)
        if whole:
            mean, gram = sums / n, (products - np.outer(sums, sums) / n).astype(np.float32)
        else:
            mean, gram = sums / np.maximum(self.ratios.per_column[self.judging], 1), None
        self.scaled = self.ratios.seen(partial(look, mean=mean.astype(np.float32)), p=p, products=gram)
        self.variances = None

    def release(self) -> None:
        """Do nothing: clipped rows are not held."""

    def winsorized(self) -> Rows:
        """Return rows over their own size, clipped far out."""
        return self.ratios.seen(partial(winsorized_block, judging=self.judging), self.row_scale, p=self.judging.size)


def _as_is(x: Single, has: Flags | None) -> Part:
    return x, has
