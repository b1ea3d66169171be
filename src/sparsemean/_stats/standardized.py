"""Standardized rows, which are judged: columns in units of their own, in blocks of rows, each where it lies.

What judges rows holds a few numbers a row, not the columns: it asks for places along directions, for sums over rows and
for single rows. Each is done block by block, so that a block may as well lie on a device or with a worker.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import columns as column_loops
from sparsemean._kernels import compiling
from sparsemean._kernels.memory_layout import count_threads, each
from sparsemean._stats.arrays import fillna, namespace, near, on_device, on_host, scales, some_rows
from sparsemean._util.records import FloatArray, IntArray

Single: TypeAlias = npt.NDArray[np.float32]
Flags: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.integer]
T = TypeVar("T")
CLIP = 3.0
"""In median sizes of a column: one heavy-tailed entry then says little, a shift of all entries as much as before."""
MOSTLY = 0.5
"""Share of its values that a column must have for rows to be judged by it."""
NONZERO = 10
"""Values other than zero that tell the scale of a column which is mostly zero, at least."""
HUGE = 1e18
"""In median sizes of a column: squares of more would not be finite in single precision."""
BLOCK_VALUES = 250_000
"""Values of a block, about: a megabyte, so that what is made of one stays near."""
FOR_SCALE_OF_ROWS = 128
"""Columns that tell the size of a row, about."""
INNER = 3.0
"""In median sizes of a column: what lies beyond is in its tail."""
TAIL, WINSORIZED = 4.0, 12.0
"""The same over the size of a row: what is beyond the first is its tail; the second is where rows are then clipped."""
HELD = 16_000_000
"""Values from which on rows are not held in three forms at once."""
THREADED = 8_000_000
"""Values from which on blocks are shared out to threads."""
TINY = 1e-12


class Units(NamedTuple):
    """The unit of each column, and which are used: by far values all, by directions those that are not mostly zero."""

    size: FloatArray
    """Median absolute value of the columns that are used."""
    used: IntArray
    judging: IntArray
    """Places among those used."""


def column_units(values: FloatArray) -> Units:
    """Return the units that some rows tell: the median absolute value of each column.

    Where most values are zero, or missing, it is that of the others, and rows are judged by far values only.
    """
    size = scales(values, 1)
    judging = size > 0
    if not judging.all():
        values = on_host(values)
    if on_device(values):  # without gaps
        return units_at(size, np.arange(size.size))
    if np.isnan(size).any() or np.isnan(values).any():
        judging &= np.mean(~np.isnan(values), axis=0) >= MOSTLY
    if not judging.all():
        size = np.where(judging, size, _nonzero_scales(values, ~judging))
    used = np.flatnonzero(size > 0)
    return Units(size[used], used, np.flatnonzero(judging[used]))


def units_at(size: FloatArray, used: IntArray) -> Units:
    """Return these sizes of the columns used, all of which directions are judged by."""
    return Units(size[used], used, np.arange(used.size))


def _nonzero_scales(values: FloatArray, which: Flags) -> FloatArray:
    """Return the median size of what is not zero in some columns; 0 for the others and where that is too little."""
    size = np.zeros(values.shape[1])
    columns = np.flatnonzero(which)
    some = fillna(values[:, columns], 0.0)
    told = np.count_nonzero(some, axis=0) >= NONZERO
    size[columns[told]] = scales(np.where(some == 0, np.nan, some)[:, told], 1)
    return size


# Rows of numbers in blocks: what is asked of all of them is asked of each block, as it is looked at.

Part: TypeAlias = tuple[Single, Flags | None]
"""Rows of a block in single precision, and where they are not missing: None where nothing is."""


def as_they_are(x: Single, has: Flags | None) -> Part:
    """Return a block as it is."""
    return x, has


def seen_twice(first: Callable[..., Part], n: int, second: Callable[..., Part], *given: object) -> Part:
    """Return a block as the second look shows what the first does, which is given the first ``n`` numbers of rows."""
    return second(*first(*given[: 2 + n]), *given[2 + n :])


def in_columns(x: Single, has: Flags | None, judging: IntArray) -> Part:
    """Return a block in the columns that directions are judged by."""
    if judging.size == x.shape[1]:
        return x, has
    at = near(x, judging)
    return x[:, at], None if has is None else has[:, at]


def clipped_about(x: Single, has: Flags | None, *, judging: IntArray, clip: float, mean: Single) -> Part:
    """Return these columns clipped, about their means."""
    x, has = in_columns(x, has, judging)
    x, mean = namespace(x).clip(x, -clip, clip), near(x, mean)
    x -= mean if has is None else mean * has
    return x, has


def winsorized(x: Single, has: Flags | None, row_scale: Single, *, judging: IntArray) -> Part:
    """Return these columns over the scales of their rows, clipped far out."""
    x, has = in_columns(x, has, judging)
    x = x / near(x, row_scale)[:, np.newaxis]
    return namespace(x).clip(x, -WINSORIZED, WINSORIZED, out=x), has


def of_one_length(x: Single, has: Flags | None, lengths: Single) -> Part:
    """Return rows over their lengths."""
    return x / near(x, lengths)[:, np.newaxis], has


class RowSource(Protocol):
    """What gives rows like an array, which may lie on a device."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        ...

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        """Return some rows."""
        ...


class Rows:
    """Finite rows in blocks as ``look`` shows these: it is given numbers of the rows too, where there are any.

    Some builds of OpenBLAS compute with what lies behind the end of a single-precision row too, throw it away and leave
    the processor's flag for invalid operations set, of which NumPy then warns; the entries here are finite and small.
    """

    products: Single | None = None
    """Those of all columns, where they are known."""

    def __init__(
        self,
        parts: Sequence[Part],
        n_threads: int = 1,
        look: Callable[..., Part] = as_they_are,
        numbers: Sequence[npt.NDArray[np.generic]] = (),
        *,
        p: int | None = None,
    ) -> None:
        self.parts, self.n_threads, self.look, self.numbers = parts, n_threads, look, numbers
        self.remake: Callable[..., Any] = partial(Rows, parts, n_threads)
        self.ends = np.cumsum([0, *(part[0].shape[0] for part in parts)])
        self.shape = (int(self.ends[-1]), int(parts[0][0].shape[1]) if p is None else p)
        self.whole, self.on_device = all(part[1] is None for part in parts), on_device(parts[0][0])

    def seen(self, look: Callable[..., Part], *numbers: npt.NDArray[np.generic], p: int) -> Self:
        """Return the same rows, of so many columns, as ``look`` shows what was seen before."""
        look = look if self.look is as_they_are else partial(seen_twice, self.look, len(self.numbers), look)
        rows: Self = self.remake(look, (*self.numbers, *numbers), p=p)
        return rows

    def held(self) -> Rows:
        """Return what is seen of the rows, made once and held: in one piece, which goes back when it is let go."""
        out: Single = namespace(self.parts[0][0]).empty(self.shape, dtype=np.float32)

        def rule(x: Single, has: Flags | None, out: Single) -> Part:
            out[...] = x
            return out, has

        return Rows(list(self.each(rule, out)), self.n_threads)

    def each(self, rule: Callable[..., T], *of_rows: npt.NDArray[np.generic]) -> Iterable[T]:
        """Yield what ``rule`` makes of every block, with its share of what is given for each row."""

        def work(k: int) -> T:
            rows = slice(self.ends[k], self.ends[k + 1])
            shared, mine = ([values[rows] for values in given] for given in (self.numbers, of_rows))
            with np.errstate(invalid="ignore"):
                return rule(*self.look(*self.parts[k], *shared), *mine)

        return each(work, range(len(self.parts)), self.n_threads)

    def places(self, directions: Single) -> Single:
        """Return the place of each row along each direction, of length one; a row of the answer for each direction.

        A sum of fewer terms is smaller by chance alone: where values are missing, it is in units of its own deviation.
        """
        found = np.empty((directions.shape[1], self.shape[0]), dtype=np.float32)
        parts = self.each(lambda x, _: on_host(near(x, directions).T @ x.T))
        for part, (first, last) in zip(parts, pairwise(self.ends), strict=True):
            found[:, first:last] = part
        if not self.whole:
            found /= np.sqrt(np.maximum(self.present(directions**2), TINY))
        return found

    def present(self, weights: Single) -> Single:
        """Return for each row the sum of weights of the columns that it has."""

        def rule(x: Single, has: Flags | None) -> Single:
            if has is None:
                return np.repeat(weights.sum(axis=0)[:, np.newaxis], x.shape[0], axis=1)
            return on_host(near(x, weights).T @ has.T.astype(np.float32))

        return np.concatenate(list(self.each(rule)), axis=1)

    def pull(self, weights: FloatArray | Single) -> Single:
        """Return the sum of rows with these weights."""
        parts = self.each(lambda x, _, w: on_host(near(x, w) @ x), np.asarray(weights, dtype=np.float32))
        return reduce(operator.add, parts)

    def product(self, weights: Single, v: Single, centre: Single) -> Single:
        """Return Xᵀ(w∘(X − c)v), in one pass over the blocks."""
        level = float(centre @ v)
        parts = self.each(lambda x, _, w: on_host((near(x, w) * (x @ near(x, v) - level)) @ x), weights)
        return reduce(operator.add, parts)

    def gram(self) -> Single:
        """Return the products of all columns, where the rows lie."""
        if self.products is not None:
            return self.products.copy()
        return reduce(operator.add, self.each(lambda x, _: x.T @ x))

    @cached_property
    def squares(self) -> FloatArray:
        """The sum of squares of each row."""
        found = self.each(lambda x, _: on_host(namespace(x).einsum("ij,ij->i", x, x)))
        return np.concatenate(list(found)).astype(np.float64)

    def variance_of_squares(self) -> float:
        """Return the variances of the squares of all columns, summed."""

        def rule(x: Single, _: Flags | None) -> Single:
            xp = namespace(x)
            squares = x * x
            ones = xp.ones(x.shape[0], dtype=np.float32)
            return on_host(xp.stack((ones @ squares, xp.einsum("ij,ij->j", squares, squares))))

        n = self.shape[0]
        second, fourth = np.asarray(sum(part.astype(np.float64) for part in self.each(rule))) / n
        return float(np.sum(np.maximum(fourth - second**2, 0.0)))

    @cached_property
    def counts(self) -> FloatArray:
        """The number of values of each row."""
        n, p = self.shape
        return np.full(n, float(p)) if self.whole else self.present(np.ones((p, 1), np.float32))[0].astype(np.float64)

    def take(self, rows: IntArray, columns: IntArray | None = None) -> Single:
        """Return some rows, of some columns."""
        block = np.searchsorted(self.ends, rows, side="right") - 1
        out = np.empty((rows.size, self.shape[1] if columns is None else columns.size), dtype=np.float32)
        for k in np.unique(block):
            at, (x, has) = np.flatnonzero(block == k), self.parts[k]
            there = near(x, rows[at] - self.ends[k])
            x, _ = self.look(x[there], None if has is None else has[there], *(all_[rows[at]] for all_ in self.numbers))
            out[at] = on_host(x if columns is None else x[:, near(x, columns)])
        return out

    def total(self, rows: IntArray) -> Single:
        """Return the sum of some rows."""
        if 4 * rows.size < self.shape[0]:
            return np.asarray(self.take(rows).sum(axis=0))
        weights = np.zeros(self.shape[0], dtype=np.float32)
        weights[rows] = 1.0
        return self.pull(weights)


class Selected:
    """Some of the rows and columns, given like an array gives its rows."""

    def __init__(self, rows: Rows, kept: IntArray, columns: IntArray) -> None:
        self.rows, self.kept, self.columns = rows, kept, columns
        self.shape = (int(kept.size), int(columns.size))

    def __getitem__(self, at: slice | IntArray) -> Single:
        return self.rows.take(self.kept[at], self.columns)


class Entries(NamedTuple):
    """Some values of a table, row by row."""

    row: Places
    column: Places
    value: Single


class StandardizedRows:
    """Rows in units of their columns: as they are, and clipped about the mean of each column.

    Parameters
    ----------
    values : array of shape (n, d), or what gives rows like one
        What is missing is NaN. It is asked for some rows first, then for blocks of them.
    clip : float
        In units of a column.
    n_jobs : int, optional
        Threads over blocks.
    features : array of shape (d,), optional
        The numbers that columns are named by; 0, 1, … by default.
    """

    row_scale: Single
    """The median size of each row, at least one."""
    variances: FloatArray | Single | None = None
    """Of the rows that are left along their leading directions, once looked for; None for rows of one length."""

    def __init__(
        self, values: RowSource, clip: float = CLIP, n_jobs: int | None = None, *, features: IntArray | None = None
    ) -> None:
        n, d = values.shape
        self.units = column_units(values[some_rows(n, d)])
        self.columns = self.units.used if features is None else features[self.units.used]
        self.judging = self.units.judging
        rows = n if on_device(values) else max(1, BLOCK_VALUES // max(1, d))
        blocks = [slice(a, min(a + rows, n)) for a in range(0, n, rows)]
        out: Single = namespace(values).empty((n, self.columns.size), dtype=np.float32)
        # To start threads costs as much as to pass over few values.
        n_threads = count_threads(n_jobs) if n * d > THREADED else 1
        parts = each(lambda at: ratios_of(values[at], self.units, out[at]), blocks, n_threads)
        self.ratios = Rows(list(parts), n_threads)
        scales_of_rows = self.ratios.each(lambda x, _: row_scales(x, self.units))
        self.row_scale = np.concatenate(list(scales_of_rows)) if self.judging.size else np.ones(n, dtype=np.float32)
        # The mean is taken off each column once it is clipped, when no bad row moves it by more than 2·clip/n.
        self.view = self._clipped(clip, self._clipped(clip).pull(np.ones(n)))
        self.scaled = self.view.held()

    def _clipped(self, clip: float, sums: FloatArray | Single | None = None) -> Rows:
        """Return the columns that directions are judged by, clipped, about their means, or zero if no sums are told."""
        number, mean = np.full(self.columns.size, self.ratios.shape[0]), np.zeros(self.judging.size, dtype=np.float32)
        if sums is not None and not self.ratios.whole:
            gaps = self.ratios.each(lambda _, has: 0 if has is None else on_host((~has).sum(axis=0)))
            number -= np.asarray(sum(gaps))
        if sums is not None:
            mean = (sums / np.maximum(number[self.judging], 1)).astype(np.float32)
        look = partial(clipped_about, judging=self.judging, clip=clip, mean=mean)
        return self.ratios.seen(look, p=self.judging.size)

    def release(self) -> None:
        """Hold clipped rows no longer where they are many: the few that are asked for afterwards are made anew."""
        n, p = self.ratios.shape
        if n * p > HELD and not self.ratios.on_device:
            self.view.squares, self.scaled = self.scaled.squares, self.view

    @cached_property
    def tail_entries(self) -> Entries:
        """The values beyond `INNER`, row by row."""
        found, ends = list(self.ratios.each(lambda x, _: beyond(x, INNER))), self.ratios.ends
        number = np.int32 if ends[-1] <= np.iinfo(np.int32).max else np.int64
        rows = [np.add(entries.row, first, dtype=number) for entries, first in zip(found, ends, strict=False)]
        columns, values = ([entries[k] for entries in found] for k in (1, 2))
        return Entries(np.concatenate(rows), np.concatenate(columns), np.concatenate(values))

    def winsorized(self) -> Rows:
        """Return rows over their own scale, clipped far out: what directions of few columns are judged by."""
        look = partial(winsorized, judging=self.judging)
        return self.ratios.seen(look, self.row_scale, p=self.judging.size).held()

    def winsorized_tails(self) -> Entries:
        """Return the values of `winsorized` that are beyond `TAIL`."""
        place = np.full(self.columns.size, -1, dtype=np.int32)
        place[self.judging] = np.arange(self.judging.size)
        row, column, value = self.tail_entries
        value = value / self.row_scale[row]
        at = np.flatnonzero((np.abs(value) > TAIL) & (place[column] >= 0))
        return Entries(row[at], place[column[at]], np.clip(value[at], -WINSORIZED, WINSORIZED))

    def features(self, best: IntArray, most: int) -> tuple[int, ...]:
        """Return which columns of the data the best of those used are."""
        return tuple(self.columns[best[:most]].tolist())


# What is made of a block, here or where a worker holds it.


def beyond(x: Single, limit: float) -> Entries:
    """Return the values of a block that are larger than a limit, of either sign."""
    size = np.float32(limit)
    at = on_host(namespace(x).flatnonzero((x > size) | (x < -size)))
    row, column = np.divmod(at, x.shape[1])
    return Entries(row.astype(np.int32), column.astype(np.int32), on_host(x.ravel()[near(x, at)]))


def row_scales(x: Single, units: Units) -> Single:
    """Return the median size of each row of ratios, at least one: of about `FOR_SCALE_OF_ROWS` of the columns."""
    some = units.judging[:: -(-units.judging.size // FOR_SCALE_OF_ROWS)]
    if isinstance(x, np.ndarray) and not compiling.plainly(x.size):
        out = np.empty(x.shape[0], dtype=np.float32)
        column_loops.row_medians(x.view(np.int32), some, out.view(np.int32))
        return out
    xp = namespace(x)
    sizes = xp.partition(xp.abs(x[:, near(x, some)]), some.size // 2, axis=1)
    return on_host(xp.maximum(sizes[:, some.size // 2], np.float32(1)))


def ratios_of(values: npt.NDArray[np.floating], units: Units, out: Single | None = None) -> Part:
    """Return a block of rows in units of its columns, what is missing as zero, and where it is not missing."""
    xp = namespace(values)
    if units.used.size < values.shape[1]:
        values = values[:, near(values, units.used)]
    ratios = xp.empty(values.shape, dtype=np.float32) if out is None else out
    with np.errstate(over="ignore", invalid="ignore"):  # too far to be divided, or squared: huge all the same
        xp.divide(values, near(values, units.size), out=ratios, casting="same_kind")
        largest = xp.dot(ratios.ravel(), ratios.ravel())
    has = None
    if not bool(xp.isfinite(largest)):
        gaps = xp.isnan(ratios)
        if bool(gaps.any()):
            has = ~gaps
            ratios[gaps] = 0.0
        xp.clip(ratios, -HUGE, HUGE, out=ratios)
    return ratios, has
