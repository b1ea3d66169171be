"""Sign vectors on at most k coordinates, and along which of them the middle of the columns is far from zero.

A direction is a row of k codes: c stands for +1 in coordinate |c| − 1 or for −1 there, by its sign; 0 for nothing. Of u
and −u there is the one whose first sign is +, and as a vector it has length one. `sign_vectors` and `medians_along` are
the specification. `far_directions` finds the few directions that matter among up to 10⁹ without a single median: the
median of an odd number of values is above a level if more than half of them are, and counting is cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array, count_threads, each
from sparsemean._util.records import FloatArray

Codes = npt.NDArray[np.int16]
Counters = npt.NDArray[np.unsignedinteger]
Sum = np.int16 | np.float32 | np.float64
AT_ONCE = 2**21
"""Values along directions that are held at a time."""
PADDED = 64
"""Values that a column is filled up to a multiple of, with zeros: whole vectors and no rest."""
WIDEST = 32_000
"""Largest sum in steps of 16 bits."""
RAISED = 1.1
"""Factor by which the level grows where there is no room for all directions beyond it."""


def sign_vectors(d: int, k: int) -> Codes:
    """Return all directions, smaller ones first.

    Examples
    --------
    >>> sign_vectors(2, 2).tolist()
    [[1, 0], [2, 0], [1, 2], [1, -2]]
    """
    return np.concatenate([_of_size(d, size, k) for size in range(1, min(d, k) + 1)])


def _of_size(d: int, size: int, k: int) -> Codes:
    chosen = np.array(list(combinations(range(1, d + 1), size)), dtype=np.int16)
    patterns = np.arange(2 ** (size - 1))[:, np.newaxis] >> np.arange(size)[::-1] & 1
    codes = np.zeros((len(chosen), len(patterns), k), dtype=np.int16)
    codes[:, :, :size] = chosen[:, np.newaxis] * (1 - 2 * patterns)
    return codes.reshape(-1, k)


def root_sizes(codes: Codes) -> FloatArray:
    """Return √s of each direction, s the number of its coordinates: its length before it is divided by that."""
    return np.asarray(np.sqrt(np.count_nonzero(codes, axis=1)))


def medians_along(columns: FloatArray, codes: Codes) -> FloatArray:
    """Return the median of ⟨u, ·⟩ over the columns (d, J) for each direction u; J is odd.

    Examples
    --------
    >>> medians_along(np.array([[1.0, 2.0, 9.0], [0.0, 5.0, 1.0]]), np.array([[1, 0], [2, 0]], dtype=np.int16))
    array([2., 1.])
    """
    # A negative code counts from the end, which is where the negative columns are.
    J = columns.shape[1]
    signed = np.concatenate((np.zeros((1, J)), columns, -columns[::-1]))
    found, step = np.empty(len(codes)), max(1, AT_ONCE // J)
    for at in range(0, len(codes), step):
        some = codes[at : at + step].T
        sums = signed[some[0]]
        for more in some[1:]:
            sums += signed[more]
        sums.partition(J // 2, axis=1)
        found[at : at + step] = sums[:, J // 2]
    return np.asarray(found / root_sizes(codes))


def far_directions(
    columns: FloatArray,
    k: int,
    level: float,
    *,
    enough: float,
    room: int,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[Codes, float]:
    """Return directions of two coordinates or more along which |median| exceeds ``level``, and a bound for all others.

    Sums are taken in as few bits as keep their rounding below a quarter of ``enough``, so that a few directions
    just below the level may be among those that are returned. Where more than about ``room`` are beyond it, it is
    raised, up to ``enough``; where there are still more, some are returned and the bound is infinite.

    Parameters
    ----------
    columns : array of shape (d, J)
        J is odd.
    k : int
        Most coordinates of a direction, from 2.
    """
    d, J = columns.shape
    kind, unit, error = _precision(columns, k, level=level, within=enough / 4)
    values = np.zeros((d, -(-J // PADDED) * PADDED), dtype=kind)
    values[:, :J] = np.rint(columns / unit) if kind is np.int16 else columns
    opposite = -values
    counters: Counters = np.zeros(0, dtype=np.uint16) if kind is np.int16 else np.zeros(0, dtype=np.uint32)
    shares = np.diff([n_directions(d, k) - n_directions(d - first, k) for first in range(d)])
    shares = shares / shares.sum()

    def search(first: int) -> tuple[Codes, float]:
        found = np.empty((max(64, math.ceil(2 * room * shares[first])), k), dtype=np.int16)
        raised = level
        while True:
            limits = raised / unit * np.sqrt(np.arange(k + 1.0))
            count = walk(values, opposite, limits.astype(kind), J // 2, first, found, counters)
            if count <= len(found):
                return found[:count].copy(), raised + error
            if raised >= enough - error:
                return found, np.inf
            raised = min(RAISED * raised, enough - error)

    results, bound, done = [], level + error, 0.0
    for share, (codes, reached) in zip(shares, each(search, range(d - 1), count_threads(n_jobs)), strict=True):
        results.append(codes)
        bound, done = max(bound, reached), done + share
        if progress is not None:
            progress(min(1.0, done))
    return np.concatenate(results), bound


def n_directions(d: int, k: int) -> int:
    """Return Σ_{s ≤ k} C(d, s) 2^(s−1), the number of sign vectors on at most k of d coordinates up to their sign.

    Examples
    --------
    >>> n_directions(20, 4), n_directions(100, 4)
    (43720, 32026600)
    """
    return sum(math.comb(d, s) * 2 ** (s - 1) for s in range(1, k + 1))


def _precision(columns: FloatArray, k: int, *, level: float, within: float) -> tuple[type[Sum], float, float]:
    """Return the type to add up in, its unit, and what it may add to or take from ⟨u, ·⟩; the fastest that is exact."""
    largest = float(np.abs(columns).max())
    step = (k * largest + math.sqrt(k) * level) / WIDEST or 1.0
    if step * math.sqrt(k) / 2 <= within and columns.shape[1] < 2**16:  # so many can be counted in as many bits
        return np.int16, step, step * math.sqrt(k) / 2
    for kind in (np.float32, np.float64):
        error = 2 * k**1.5 * largest * float(np.finfo(kind).eps)
        if error <= within:
            return kind, 1.0, error
    return np.float64, 1.0, 0.0  # no sum of such values is known any better


# The walk through all of them: a prefix of signs and coordinates has its sums, and all that it can be followed by is
# counted against them. Sums are compared without being formed: p + x > b where x > b − p.


@compiled()
def walk(
    columns: Array,
    opposite: Array,
    limits: Array,
    half: int,
    first: int,
    found: Array,
    counters: Counters,
) -> int:
    """Write the directions that begin with coordinate ``first`` and are beyond ``limits``; return their number.

    Beyond means that more than ``half`` of the sums of s signed columns are above limits[s], or below −limits[s].
    ``opposite`` is −columns. Where ``found`` is full, directions are counted only. What is counted is of the type of
    ``counters``: the fewer bits, the more counters beside each other in a vector instruction.
    """
    d, J = columns.shape
    k, n = found.shape[1], 0
    sums = np.zeros((k, J), dtype=columns.dtype)
    above, below = np.empty(J, dtype=columns.dtype), np.empty(J, dtype=columns.dtype)
    place, codes = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    depth, place[0], codes[0] = 1, first, first + 1
    sums[0] = columns[first]
    while True:
        last = place[depth - 1]
        for j in range(J):
            above[j] = limits[depth + 1] - sums[depth - 1, j]
            below[j] = -limits[depth + 1] - sums[depth - 1, j]
        for c in range(last + 1, d):
            plus, minus = _most_beyond(columns[c], opposite[c], above, below, counters)
            if plus > half:
                n = _note(found, n, codes, depth, c + 1)
            if minus > half:
                n = _note(found, n, codes, depth, -c - 1)
        if depth + 1 < k and last + 2 < d:
            depth += 1
            place[depth - 1], codes[depth - 1] = last + 1, last + 2
        else:
            while depth > 1 and codes[depth - 1] < 0 and place[depth - 1] + 2 >= d:
                depth -= 1
            if depth == 1:
                return n
            if codes[depth - 1] < 0:
                place[depth - 1] += 1
                codes[depth - 1] = place[depth - 1] + 1
            else:
                codes[depth - 1] = -codes[depth - 1]
        step = columns[place[depth - 1]] if codes[depth - 1] > 0 else opposite[place[depth - 1]]
        for j in range(J):
            sums[depth - 1, j] = sums[depth - 2, j] + step[j]


@compiled()
def _most_beyond(
    column: Array, opposite: Array, above: Array, below: Array, counters: Counters
) -> tuple[np.unsignedinteger, np.unsignedinteger]:
    """Return how many values are beyond the limits on the side where more are; for the column and for its opposite."""
    number = counters.dtype.type
    up = down = other_up = other_down = number(0)
    for j in range(column.size):
        x, y, high, low = column[j], opposite[j], above[j], below[j]
        up = number(up + number(x > high))
        down = number(down + number(x < low))
        other_up = number(other_up + number(y > high))
        other_down = number(other_down + number(y < low))
    return max(up, down), max(other_up, other_down)


@compiled()
def _note(found: Array, n: int, codes: Array, depth: int, code: int) -> int:
    """Write a direction at place n, if there is one, and return the next."""
    if n < len(found):
        found[n, :depth] = codes[:depth]
        found[n, depth] = code
        found[n, depth + 1 :] = 0
    return n + 1


def random_directions(d: int, k: int, *, count: int, rng: np.random.Generator) -> Codes:
    """Draw directions on k coordinates, or on fewer where a coordinate is drawn twice."""
    drawn = np.sort(rng.integers(1, d, size=(count, k), endpoint=True), axis=1)
    drawn[:, 1:][drawn[:, 1:] == drawn[:, :-1]] = 0
    drawn[:, 1:] *= rng.choice((-1, 1), size=(count, k - 1))
    return drawn.astype(np.int16)


def vectors(codes: Codes) -> Iterator[Array]:
    """Yield what a sparse matrix with a direction in each row is made of: values, columns, where rows begin."""
    used = codes != 0
    length = root_sizes(codes)
    yield (np.sign(codes) / length[:, np.newaxis])[used]
    yield np.abs(codes[used]).astype(np.int32) - 1
    yield np.concatenate(([0], np.cumsum(np.count_nonzero(used, axis=1))))
