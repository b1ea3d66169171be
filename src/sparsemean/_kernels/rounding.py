"""Which numbers are one although arithmetic has driven them apart: sums about a null value, and values of groups.

**Sums.** Values x, and a null value c, are known to half a unit in the last place; x − c and sums of it are rounded. On
.2, .3, .4 about .3 the signs of sums of zero would all lean one way. So a sum over b rows counts as zero where

    |Σ(x − c)| ≤ 8·eps·(k·|c| + Σ|x − c|) + b·2⁻⁵²·Σ|x − c|,

k of them values that are there, eps that of the type that values came in. What has no error in decimals or in thirds is
off by at most eps·(k·|c| + Σ|x − c|), and by half of 2⁻⁵² of Σ|x − c| for the difference and for each of the additions,
which are of doubles, that a value goes through: six in nested buckets of 64 rows, b − 1 in a sum row by row. About zero
nothing is subtracted, and signs are those that sums have.

**Groups.** .1·3 and .3 are two numbers; where one group was computed and the other written down, they differ in every
row. Each value is rounded to 14 significant decimal digits, numbers of single precision to 6 below a million. A value's
own digits decide, never another row: the map rises, so that ranks of what it leaves are exact, and bad rows move
nothing but themselves. (What joins neighbours would let one row in between make two values one.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.compiling import compiled, plainly
from sparsemean._util.records import FloatArray, IntArray, Partition

DOUBLES = 2.0**-52
"""eps of what is added up."""
ROUNDING = 8.0
"""Units in the last place that a value and its null value may be off by."""


def settle(
    sums: FloatArray,
    sizes: FloatArray | float,
    null: FloatArray,
    *,
    precision: float,
    there: FloatArray | IntArray | float = 1.0,
    rows: FloatArray | IntArray | float = 1.0,
    xp: ModuleType = np,
) -> FloatArray:
    """Return sums of x − null, or means of it, with zero where rounding may have made what is there.

    ``sizes`` are sums of |x − null|; ``there`` and ``rows`` are how many values and rows they are of. Of means pass
    means of sizes, and nothing for ``there``.
    """
    reach = precision * (null != 0)
    with np.errstate(invalid="ignore", over="ignore"):
        most = ROUNDING * reach * (there * abs(null) + sizes) + xp.minimum(reach, DOUBLES) * (rows * sizes)
        settled: FloatArray = xp.where(abs(sums) <= most, 0.0, sums)
    return settled


def settled_means(
    means: Sequence[FloatArray],
    sizes: Sequence[FloatArray],
    partition: Partition,
    null: FloatArray,
    precision: float,
    *,
    xp: ModuleType = np,
) -> list[FloatArray]:
    """Return (J, columns) means of x − null of every level, given those of |x − null|, zero where they may be."""
    return [
        settle(of_level, size, null, precision=precision, rows=xp.asarray(partition.rows_per_bucket(h)[:, None]), xp=xp)
        for h, (of_level, size) in enumerate(zip(means, sizes, strict=True))
    ]


def ranked(away: FloatArray, null: FloatArray, precision: float) -> FloatArray:
    """Return differences to null values as they are ranked, rounded to the digits that both numbers have for sure.

    .2 and .4 lie equally far from .3 in the numbers that were meant. A value's own digits decide, as between groups.
    """
    digits = math.floor(-math.log10(ROUNDING * precision)) - (precision < 1e-9)
    size = (np.abs(null) + np.abs(away)) * (1 + 2.0**-20)  # so that no decade begins at a number that people use
    return np.where(null != 0, _rounded(away, size, _grid(max(1, digits))), away)


def centred(values: FloatArray, null: FloatArray, precision: float, xp: ModuleType = np) -> FloatArray:
    """Return values less their null values, what may be equal to those as zero."""
    away = values - null
    return settle(away, abs(away), null, precision=precision, xp=xp)


class Grid(NamedTuple):
    """The decimal numbers of so many digits, as tables by the binary exponent of what is rounded to them."""

    least: float
    """Smaller numbers are left as they are, and those from ``beyond`` on."""
    beyond: float
    most: float
    """The whole number that has one digit too many."""
    turns: FloatArray
    """Where the next decade begins: numbers with one exponent lie in two at most."""
    below: FloatArray
    """What makes whole numbers of those below the turn, and of the others."""
    above: FloatArray

    @classmethod
    def of(cls, digits: int, low: int, high: int, kind: type[np.float32 | np.float64]) -> Grid:
        """Return the grid of numbers of a kind from 10^low up to 10^high."""
        powers = np.array([float(f"1e{digits - 1 - e}") for e in range(low, high + 1)])
        firsts = 10.0 ** (digits - 1) / powers
        at = np.searchsorted(firsts, np.ldexp(1.0, np.arange(-1023, 1024)), side="right") - 1
        at = np.clip(np.append(at, 0), 0, powers.size - 2)
        least = min(float(firsts[0]), float(kind(firsts[0])))  # what the first number is in this kind is it too
        return cls(least, float(firsts[-1]), 10.0**digits, firsts[at + 1], powers[at], powers[at + 1])


@lru_cache(maxsize=16)
def _grid(digits: int) -> Grid:
    return Grid.of(digits, -290, 308, np.float64)


DOUBLE, SINGLE = Grid.of(14, -290, 308, np.float64), Grid.of(6, -37, 6, np.float32)
_LEAST, _BEYOND, _MOST, _TURNS, _BELOW, _ABOVE = DOUBLE
_LEAST_6, _BEYOND_6, _MOST_6, _TURNS_6, _BELOW_6, _ABOVE_6 = SINGLE
EXPONENT = np.uint64(52)
"""Where it begins in a double."""


def snapped(values: npt.ArrayLike, grid: Grid | None) -> FloatArray:
    """Return values, of whatever type, as doubles rounded to a grid: the specification of `snap`.

    Examples
    --------
    >>> snapped(np.array([0.1 * 3, 1 / 3, -1e14 - 3]), DOUBLE).tolist()
    [0.3, 0.33333333333333, -100000000000000.0]
    """
    x = np.asarray(values, dtype=np.float64)
    if grid is None or plainly(x.size):
        return x if grid is None else _rounded(x, abs(x), grid)
    out = np.array(x, order="C")
    snap_all(out.reshape(-1), grid is SINGLE)
    return out


def on_grid(block: Any, grid: Grid | None) -> Any:
    """Return a block, dense or compressed, whose values are rounded to a grid."""
    if grid is None or isinstance(block, np.ndarray):
        return block if grid is None else snapped(block, grid)
    return type(block)((snapped(block.data, grid), block.indices, block.indptr), shape=block.shape)


def difference(a: npt.ArrayLike, b: npt.ArrayLike, grid: Grid | None) -> FloatArray:
    """Return a − b of numbers on a grid, rounded as `of_size` has it.

    Examples
    --------
    >>> float(difference(1e6 + 0.4, 1e6 + 0.1, DOUBLE)), 1e6 + 0.4 - (1e6 + 0.1)
    (0.3, 0.30000000004656613)
    """
    x, y = (np.asarray(part, dtype=np.float64) for part in (a, b))
    with np.errstate(over="ignore"):
        away = x - y
    return of_size(away, np.maximum(abs(x), abs(y)), grid)


def of_size(away: FloatArray, size: FloatArray, grid: Grid | None) -> FloatArray:
    """Return differences rounded to the digits that the larger of the two numbers has, its ``size``, then as values."""
    return away if grid is None else snapped(_rounded(away, size, grid), grid)


def _rounded(x: FloatArray, size: FloatArray, grid: Grid) -> FloatArray:
    """Round to the digits that numbers of some size have."""
    touched = (size >= grid.least) & (size < grid.beyond)
    size, value = np.where(touched, size, 1.0), np.where(touched, x, 1.0)
    exponent = size.view(np.int64) >> 52
    turn, below, above = (table[exponent] for table in (grid.turns, grid.below, grid.above))
    power = np.where(size >= turn, above, below)
    whole = np.rint(value * power)
    # of one digit too many it is the first number of the next decade, whatever its power makes of it
    return np.where(touched, np.where(abs(whole) == grid.most, np.copysign(turn, whole), whole / power), x)


@compiled()
def snap_all(x: FloatArray, single: bool) -> None:
    """Round every one of many values where it lies."""
    for k in range(x.size):
        x[k] = snap_single(x[k]) if single else snap(x[k])


@compiled()
def snap(x: np.float64) -> np.float64:
    """Return what a double is rounded to."""
    size = abs(x)
    if not (_LEAST <= size < _BEYOND):
        return x
    exponent = np.float64(size).view(np.uint64) >> EXPONENT
    power = _ABOVE[exponent] if size >= _TURNS[exponent] else _BELOW[exponent]
    whole = np.rint(x * power)
    return np.float64(whole / power if abs(whole) != _MOST else np.copysign(_TURNS[exponent], x))


@compiled()
def snap_single(value: np.float32) -> np.float64:
    """Return what a number of single precision is rounded to, as a double."""
    x = np.float64(value)
    size = abs(x)
    if not (_LEAST_6 <= size < _BEYOND_6):
        return x
    exponent = np.float64(size).view(np.uint64) >> EXPONENT
    power = _ABOVE_6[exponent] if size >= _TURNS_6[exponent] else _BELOW_6[exponent]
    whole = np.rint(x * power)
    return np.float64(whole / power if abs(whole) != _MOST_6 else np.copysign(_TURNS_6[exponent], x))
