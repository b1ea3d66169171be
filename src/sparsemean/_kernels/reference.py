"""Counts, means and ranks in NumPy, cells of text in Python: what small problems take uncompiled; see ``compiling``.

It is the specification of the kernels of the same names; ``tests/specification.py`` has that of others.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import NotFiniteError, cells, rounding
from sparsemean._kernels.cells import ALL, DIGITS, NO_ROOM, ODD, POINT, TAB, TEXT, TRUTH, ByteArray
from sparsemean._kernels.columns import LANES
from sparsemean._kernels.memory_layout import precision_of
from sparsemean._util.records import CellCounts, Counts, FloatArray, IntArray, Partition

Array = npt.NDArray[np.generic]
BoolArray = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]


def _group_sums(rows: FloatArray, offsets: IntArray) -> FloatArray:
    """Add up the rows of each bucket, one after the other; buckets side by side, or rows, whichever are fewer."""
    sums, sizes = rows[offsets[:-1]].copy(), np.diff(offsets)
    if int(sizes.max(initial=0)) > sizes.size:
        for j, (start, stop) in enumerate(pairwise(offsets)):
            for row in rows[start + 1 : stop]:
                sums[j] += row
        return sums
    for k in range(1, int(sizes.max(initial=1))):
        longer = np.flatnonzero(sizes > k)
        sums[longer] += rows[offsets[longer] + k]
    return sums


def _levels(
    X: Array, partition: Partition, depth: int, *, missing: bool
) -> Iterator[tuple[FloatArray, FloatArray | IntArray]]:
    """Yield the bucket sums of every level below ``depth``, and how many values each has."""
    sums = np.asarray(X[partition.order], dtype=np.float64)
    counts = np.ones((sums.shape[0], 1))
    if missing:
        counts = (~np.isnan(sums)).astype(np.float64)
        sums = np.where(counts > 0, sums, 0.0)
    for offsets in partition.levels[:depth]:
        with np.errstate(over="ignore", invalid="ignore"):
            sums, counts = _group_sums(sums, offsets), _group_sums(counts, offsets)
        yield sums, counts


def count_signs(
    X: Array,
    partition: Partition,
    *,
    missing: bool = False,
    null: FloatArray | None = None,
    precision: float | None = None,
) -> Counts:
    """Count N₊ and N₋ of every wanted size and find the nonzero mean of the largest size nearest to zero.

    Sums are about ``null``, zero by default, and what rounding may have made of zero is zero: see ``rounding``, and
    there for the ``precision`` of values, by default that of their type.

    Raises ``NotFiniteError`` where a sum is not finite.
    """
    precision = precision_of(X.dtype) if precision is None else precision
    gaps = np.isnan(X[partition.order]) if missing and X.dtype.kind == "f" else np.zeros((1, X.shape[1]), dtype=bool)
    away = X if null is None else np.asarray(X, dtype=np.float64) - null
    levels = list(_levels(away, partition, partition.depth, missing=bool(gaps.any())))
    if not np.isfinite(levels[-1][0]).all():
        raise NotFiniteError
    if null is not None:
        sizes = _levels(np.abs(away), partition, partition.depth, missing=bool(gaps.any()))
        for h, ((sums, counts), (of_sizes, _)) in enumerate(zip(levels, sizes, strict=True)):
            rows = partition.rows_per_bucket(h)[:, np.newaxis]
            settled = rounding.settle(sums, of_sizes, null, precision=precision, there=counts, rows=rows)
            levels[h] = settled, counts
    sums, counts = levels[-1]
    size = np.abs(sums / np.maximum(counts, 1))
    found = [levels[level] for level in partition.wanted]
    there = [np.broadcast_to(counts > 0, sums.shape) for sums, counts in found]
    return Counts(
        positive=np.stack([np.sum(sums > 0, axis=0, dtype=np.int32) for sums, _ in found]),
        negative=np.stack([np.sum(sums < 0, axis=0, dtype=np.int32) for sums, _ in found]),
        nearest=np.where(size > 0, size, np.inf).min(axis=0),
        n_buckets=tuple(partition.n_buckets(level) for level in partition.wanted),
        present=np.stack([np.sum(held, axis=0, dtype=np.int32) for held in there]) if missing else None,
        missing=np.sum(gaps, axis=0, dtype=np.int32) if missing else None,
    ).settled()


def nested_means(
    memory: Array, start: int, step: int, across: int, order: IntArray, offsets: IntArray, above: IntArray,
    ends: IntArray, columns: IntArray, missing: bool, out: FloatArray, *_: FloatArray,
) -> None:  # fmt: skip
    """Write the bucket means of every level of ``columns`` of an array in flat memory into rows of ``out``."""
    values = np.asarray(memory[start + order[:, np.newaxis] * step + columns * across], dtype=np.float64)
    there = np.ones(values.shape) if not missing else (~np.isnan(values)).astype(np.float64)
    sums = np.where(there > 0, values, 0.0) + 0.0  # of zeros the sum is never −0.0
    levels = [offsets, *(above[a:b] for a, b in pairwise(ends.tolist()))]
    at = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for level in levels:
            sums, there = _group_sums(sums, level), _group_sums(there, level)
            out[:, at : at + level.size - 1] = (sums / there).T
            at += level.size - 1


def count_pairs(X: FloatArray, cells: IntArray, strata: IntArray, against: IntArray) -> CellCounts:
    """Compare the values of every cell with those it is ``against``; NaN is no value, and cell −1 no cell."""
    n_cells, d = strata.size, X.shape[1]
    own = np.zeros((3, n_cells, d), dtype=np.int64)
    pairs = np.zeros((against.shape[0], 6, n_cells, d), dtype=np.int64)
    rows = [np.flatnonzero(cells == c) for c in range(n_cells)]
    for c, j in np.ndindex(n_cells, d):
        mine = _values_of(X[rows[c], j])
        own[:, c, j] = mine.size, np.sum(mine > 0), np.sum(mine < 0)
        for p, other in enumerate(against[:, c]):
            if other == -2:
                continue
            rest = np.flatnonzero((strata == strata[c]) & (np.arange(n_cells) != c)) if other == -1 else [other]
            theirs = _values_of(np.concatenate([X[rows[k], j] for k in rest])) if len(rest) else mine[:0]
            pairs[p, :3, c, j] = _compare(mine[mine > 0], theirs[theirs > 0])
            pairs[p, 3:, c, j] = _compare(mine[mine < 0], theirs[theirs < 0])
    return CellCounts(own, pairs)


def _values_of(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]


def _compare(mine: FloatArray, theirs: FloatArray) -> tuple[int, int, int]:
    """Return wins and ties over all pairs, and how many values of either are repeats."""
    ordered = np.sort(theirs)
    below, through = (int(np.searchsorted(ordered, mine, side=side).sum()) for side in ("left", "right"))
    return below, through - below, mine.size + theirs.size - np.unique(np.concatenate((mine, theirs))).size


def split_differences(a: FloatArray, b: FloatArray, value: float) -> tuple[int, float, float]:
    """Return how many differences a_i − b_j of sorted arrays are up to ``value``, and its neighbours among them.

    Those are the largest that is not above it and the smallest above it. Where b is passed is looked for by
    halving and then set right, as a_i − value may be rounded.
    """
    at = np.searchsorted(b, a - value)
    while (wrong := np.flatnonzero(_differences(a, b, at) > value)).size:
        at[wrong] += 1
    while (wrong := np.flatnonzero(_differences(a, b, at - 1) <= value)).size:
        at[wrong] -= 1
    through, above = _differences(a, b, at), _differences(a, b, at - 1)
    known = ~np.isnan(through)
    return (
        int(np.sum(b.size - at)),
        float(through[known].max(initial=-np.inf)),
        float(above[~np.isnan(above)].min(initial=np.inf)),
    )


def _differences(a: FloatArray, b: FloatArray, at: IntArray) -> FloatArray:
    """Return a_i − b_j for one j of each i; NaN where there is no such j."""
    inside = (at >= 0) & (at < b.size)
    return np.where(inside, a - b[np.where(inside, at, 0)], np.nan)


# Signed ranks and tails of U. NumPy has exponentials of its own, which differ from those of the C library in the last
# bit: none are taken here.


def score_sums(ranks: IntArray, cap: int) -> IntArray:
    """Return Σ min(i, C) over i up to each rank."""
    return np.asarray(np.where(ranks <= cap, ranks * (ranks + 1) // 2, cap * (cap + 1) // 2 + cap * (ranks - cap)))


def add_scores(
    codes: npt.NDArray[np.uint64], gone: IntArray, caps: IntArray, repeats: IntArray, low: IntArray,
    doubled: IntArray,
) -> None:  # fmt: skip
    """Do what `signed_ranks.add_scores` does, all runs of values of one size at once."""
    features, n = codes.shape
    if not codes.size:
        return
    place, all_sizes, signs = np.arange(n), codes >> 1, codes & 1 == 1
    ranked = place >= gone[:, np.newaxis]
    equal = place > gone[:, np.newaxis]
    equal[:, 1:] &= all_sizes[:, 1:] == all_sizes[:, :-1]
    first = np.flatnonzero((ranked & ~equal).reshape(-1))
    if not first.size:
        return
    feature, at = np.divmod(first, n)
    number = np.add.reduceat(ranked.reshape(-1).astype(np.int64), first)
    above = np.add.reduceat((signs & ranked).reshape(-1).astype(np.int64), first)
    rank = at - gone[feature] + 1
    signed_at = all_sizes.reshape(-1)[first] > 0
    single, tied = np.flatnonzero(signed_at & (number == 1)), np.flatnonzero(signed_at & (number > 1))
    runs = rank[tied], number[tied]
    for sign, k in np.ndindex(2, caps.size):
        mine = single[above[single] == 1 - sign]
        alone = np.bincount(feature[mine], np.minimum(rank[mine], caps[k]), features)
        signed = above[tied] if sign == 0 else number[tied] - above[tied]
        least, twice = (np.bincount(feature[tied], x, features) for x in _tied_scores(*runs, signed, cap=int(caps[k])))
        low[sign, k], doubled[sign, k] = alone + least, 2 * alone + twice
    repeats += np.bincount(feature, number - 1, features).astype(np.int64)  # sums are exact, far below 2⁵³


def _tied_scores(rank: IntArray, number: IntArray, signed: IntArray, *, cap: int) -> tuple[IntArray, IntArray]:
    """Return the lowest scores of the values of a sign in runs, and the doubled ones nearest to both ends."""
    half, end = signed // 2, rank + number - 1
    before = score_sums(rank - 1, cap)
    both = score_sums(rank + half - 1, cap) - before + score_sums(end, cap) - score_sums(end - half, cap)
    odd = np.where(signed % 2 == 1, np.minimum(rank + half, cap) + np.minimum(end - half, cap), 0)
    return score_sums(rank + signed - 1, cap) - before, 2 * both + odd


@cache
def _lgamma() -> Callable[[float], float]:
    """Return log Γ of the C library, which numba calls; Python has its own."""
    function = ctypes.CDLL(None).lgamma
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_double,)
    return cache(function)


def log_choose(n: int, k: int) -> float:
    """Return the logarithm of a binomial coefficient."""
    lgamma = _lgamma()
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


# Centres, weights of rows, and far values that meet.


def count_sums(y: FloatArray, value: float) -> tuple[int, float, float]:
    """Do what `centres.count_sums` does."""
    count, through, above = split_differences(y, -y[::-1], value)
    return count, np.float64(through), np.float64(above)


def student_sums(z: FloatArray, n: int, centre: float, scale: float, dof: float) -> tuple[Any, Any, Any, Any]:
    """Do what `centres.student_sums` does."""
    r = (z[:n] - centre) * (1.0 / scale)
    q = 1.0 / (dof + r * r)
    qr = q * r
    return q.sum(), q @ q, qr.sum(), q @ qr


def look(v: FloatArray, theta: float, cap: float) -> tuple[float, int, int]:
    """Do what `columns.look` does."""
    x = v - theta
    free = (x > 0) & (x < cap)
    lanes = np.zeros((-(-v.size // LANES), LANES))
    lanes.reshape(-1)[: v.size][free] = x[free]
    return sum(lanes.sum(axis=0).tolist()), int(np.count_nonzero(free)), int(np.count_nonzero(x >= cap))


def follow(along: Singles, centres: Singles, rates: Singles, shifts: Singles, weights: Singles) -> None:
    """Do what `columns.follow` does, move by move."""
    for a, twice, rate, shift in zip(along, centres + centres, rates, shifts, strict=True):
        moved = weights - rate * (a * (a - twice)) - shift
        weights[:] = np.where(moved < 1, np.where(moved > 0, moved, 0), 1)


def meet(value: Array, column: IntArray, first: IntArray, kept: Array, met: Array) -> None:
    """Do what `columns.meet` does: products are listed row by row, and added in that order."""
    left = np.repeat(np.where(kept, first[1:], 0), np.diff(first)) - np.arange(1, value.size + 1)
    left = np.maximum(left, 0)  # entries that come after in a row, none of rows that are not kept
    a = np.repeat(np.arange(value.size), left)
    b = a + 1 + np.arange(a.size) - np.repeat(np.cumsum(left) - left, left)
    np.add.at(met.reshape(-1), column[a] * met.shape[1] + column[b], value[a] * value[b])


# Cells of text, by Python's own expressions and its ``float``, which rounds as machine code does.

NUMBER = re.compile(rb"[+-]?(?=\.?[0-9])([0-9]*+)(?:(\.)([0-9]*+))?+([eE][+-]?[0-9]++)?+")
"""Groups: digits before the point, it, digits after it, a power of ten."""
END_OF_LINE = re.compile(rb"[\r\n]")
SETTLED = DIGITS | POINT
"""Of a column that was seen to hold both nothing more is learnt by how its numbers are written."""
KNOWN = {word.encode(): (value, TRUTH if word not in cells.MISSING else 0) for word, value in cells.MEANT.items()}
KNOWN[b""] = np.nan, 0
LEAST = float(np.finfo(np.float64).tiny)
PATIENT = 100_000
"""Bytes that are read without machine code although they take long so, a microsecond or two each."""


def read_lines(
    text: ByteArray, separator: int, roles: IntArray, values: Array, spans: IntArray, odd: IntArray, seen: ByteArray
) -> tuple[int, int, int, int]:
    """Do what `cells.read_lines` does: a line of plain cells is cut at once, any other is read as that reads it.

    Raises ``ValueError`` where so much is like this that it would take longer than to have it compiled.
    """
    data, sign, columns, floats = text.tobytes(), bytes([separator]), roles.tolist(), values.view(np.float64)
    spaces = b" " if separator == TAB else b" \t"
    i = line = n_odd = slow = 0
    while i < len(data):
        end = END_OF_LINE.search(data, i).start()  # type: ignore[union-attr]
        written = data[i:end]
        after = end + 1 + (data[end : end + 2] == b"\r\n")
        empty = not written.strip(spaces)
        if empty and len(columns) > 1:
            i = after
            continue
        found = None
        if not empty and line < values.shape[0] and n_odd + len(columns) <= odd.shape[0]:
            found = _plain_line(written.split(sign), i, columns, floats[line], spans[line], seen)
        if found is None:
            slow += (len(data) if written.count(b'"') % 2 else end) - i  # a quote that is open may go on to the end
            if slow > PATIENT:
                raise ValueError("machine code is faster")
            one = slice(line, line + 1)
            lines, used, more, how = cells.read_lines.function(
                text[i:], separator, roles, values[one], spans[one], odd[n_odd:], seen
            )
            odd[n_odd : n_odd + more] += line, 0, i, i
            spans[one, : np.count_nonzero(roles <= TEXT)] += i
            i, line, n_odd = i + used, line + lines, n_odd + more
            if not lines or how not in (ALL, NO_ROOM):
                return line, i, n_odd, how
            continue
        for cell in found:
            odd[n_odd] = line, *cell
            n_odd += 1
        i, line = after, line + 1
    return line, i, n_odd, ALL


def _plain_line(
    line: list[bytes], at: int, roles: list[int], values: FloatArray, spans: Array, seen: ByteArray
) -> list[tuple[int, int, int]] | None:
    """Read a line of cells, the first of which begins ``at``, and return the odd ones.

    Or None, where there are more or fewer than columns, or quotes stand for more than what is between two of them.
    """
    if len(line) != len(roles):
        return None
    odd = []
    for column, (role, cell) in enumerate(zip(roles, line, strict=True)):
        inner = cell.lstrip(b" \t")
        first = at + len(cell) - len(inner)
        at += len(cell) + 1
        inner = inner.rstrip(b" \t")
        if inner[:1] == b'"':
            if inner.find(b'"', 1) != len(inner) - 1:
                return None
            first, inner = first + 1, inner[1:-1]
        if role >= 0:
            values[role], what = _read_cell(inner, known=int(seen[column]))
            if what == ODD:
                odd.append((column, first, first + len(inner)))
            else:
                seen[column] |= what
        elif role <= TEXT:
            spans[TEXT - role] = first, first + len(inner)
    return odd


def _read_cell(cell: bytes, known: int) -> tuple[float, int]:
    """Return the value in a cell, and what a column holds by it that was ``known`` to hold so much."""
    stripped = cell.strip(b" \t")
    number = NUMBER.fullmatch(stripped)
    if number is None:
        return KNOWN.get(cell, (np.nan, ODD))
    value = float(number[0])
    if not LEAST <= abs(value) < np.inf and (value != 0.0 or (number[1] + (number[3] or b"")).strip(b"0")):
        return np.nan, ODD  # too large, or too small to have all its digits
    if known & SETTLED == SETTLED:
        return value, known
    text, last = np.frombuffer(stripped, dtype=np.uint8), max(number.end(1), number.end(3))
    return value, cells.form_of.function(text, number.start(1), number.start(2), last, number.end())
