"""Sums of Catoni's influence, bounded: the same whole numbers whatever engine adds them up, in whatever order.

ψ(x) = −log(1 − x + κx²) up to x = 1/(2κ), constant beyond, odd. Every ψ is rounded to a multiple of 2⁻³² and added as a
whole number. The logarithm is a series of additions, multiplications and one division, which IEEE arithmetic rounds
alike everywhere; a library's logarithm it does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import NotFiniteError
from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array, count_threads, each, is_native, strided
from sparsemean._util.records import CountArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy import sparse

Sums = npt.NDArray[np.int64]
GRID = 2.0**32
"""Steps of a unit."""
SERIES = tuple(2.0 / (2 * k + 1) for k in range(10))
"""2·artanh(s) = Σ 2·s^(2k+1)/(2k+1): for s ≤ ⅓, as it is here, what is cut off is less than 2⁻³⁶."""
ERROR = 2.0**-32
"""By which a rounded ψ misses the true one at most: half a step, the series, and floating point, which is far less."""
EXACT_ROWS = 2**20
"""Whole numbers of up to 2³² each, so many of them, add up exactly in doubles, whose loops vector instructions run."""
Progress: TypeAlias = Callable[[float], None] | None
"""Is told the share that is done."""
CONVERTED_BYTES = 32_000_000
BLOCK_COLUMNS = 2048
SMALL = 50_000
"""Values below which starting threads costs more than they save."""


class InfluenceSpec(NamedTuple):
    """What is added up: ψ((x − c)/unit) with κ, for each row c of the (k, d) ``centres``.

    With ``missing`` NaN is a value that is not there.
    """

    centres: FloatArray
    unit: FloatArray
    kappa: float
    missing: bool = False

    def of(self, columns: slice) -> InfluenceSpec:
        """Return that of some columns, which lie in one piece."""
        centres, unit = (np.ascontiguousarray(part[..., columns]) for part in self[:2])
        return self._replace(centres=centres, unit=unit)


class InfluenceSums(NamedTuple):
    """Sums in steps of 2⁻³², a row for each centre, and the values of each feature that are missing."""

    sums: Sums
    missing: CountArray

    @classmethod
    def blank(cls, centres: int, d: int) -> InfluenceSums:
        """Return the sums before any value was seen."""
        return cls(np.zeros((centres, d), dtype=np.int64), np.zeros(d, dtype=np.int32))

    def add(self, columns: slice, other: InfluenceSums) -> None:
        """Add what was found in some rows of some columns, in place."""
        self.sums[:, columns] += other.sums
        self.missing[columns] += other.missing


def steps(u: FloatArray, kappa: float, xp: ModuleType = np) -> FloatArray:
    """Return ψ(u) in steps of 2⁻³², rounded to whole ones, of an array of any namespace; 0 for NaN.

    With y = x − κx² and s = y/(2 − y) it is ψ = −log(1 − y) = 2·artanh(s).
    """
    t = xp.minimum(abs(u), 0.5 / kappa)
    y = t * (1.0 - kappa * t)
    s = y / (2.0 - y)
    z = s * s
    series = SERIES[-1]
    for coefficient in SERIES[-2::-1]:
        series = series * z + coefficient
    found: FloatArray = xp.where(xp.isnan(u), 0.0, xp.copysign(xp.rint(s * series * GRID), u))
    return found


def array_sums(x: FloatArray, centres: FloatArray, unit: FloatArray, kappa: float, xp: ModuleType = np) -> Sums:
    """Return the sums of `dense_sums` over all rows, of doubles in any namespace, without compiled loops."""
    total: Sums = xp.zeros(centres.shape, dtype=np.int64)
    for first in range(0, x.shape[0], EXACT_ROWS):
        part = x[first : first + EXACT_ROWS]
        parts = [steps((part - centre) / unit, kappa, xp).sum(axis=0).astype(np.int64) for centre in centres]
        total = total + xp.stack(parts)
    return total


def largest_step(kappa: float) -> int:
    """Return the largest number of steps that one value can have: what ψ is beyond 1/(2κ).

    Examples
    --------
    >>> round(largest_step(0.5) / GRID, 9)  # log 2
    0.693147181
    """
    return int(steps(np.array([np.inf]), kappa)[0])


def dense_sums(
    X: Array, spec: InfluenceSpec, *, rows: IntArray | None = None, n_jobs: int | None = 1, progress: Progress = None
) -> InfluenceSums:
    """Return what a spec asks for of every column, over ``rows``, all by default.

    Raises ``NotFiniteError`` if any value that is used is infinite, or NaN where that is not a missing value.
    """
    n_threads = count_threads(n_jobs)
    chosen = np.arange(X.shape[0]) if rows is None else np.asarray(rows, dtype=np.intp)
    total, lock = InfluenceSums.blank(*spec.centres.shape), threading.Lock()
    tasks = _tasks(X, chosen.size, n_threads)

    def work(task: tuple[slice, slice]) -> None:
        columns, part = task
        native = is_native(X)
        with np.errstate(invalid="ignore"):  # NaNs of some bits are warned of when they are made longer
            view = strided(X[:, columns] if native else np.ascontiguousarray(X[:, columns], dtype=np.float64))
        width = view.shape[1]
        sums, gaps = np.zeros((spec.centres.shape[0], width)), np.zeros(width, dtype=np.int32)
        add = add_rows if view.column_step == 1 and width > 1 else add_columns
        at = view.memory, view.start, view.row_step, view.column_step
        if add(*at, chosen[part], *spec.of(columns), sums, gaps):
            raise NotFiniteError
        with lock:
            total.add(columns, InfluenceSums(sums.astype(np.int64), gaps))

    for done, _ in enumerate(each(work, tasks, n_threads), start=1):
        if progress is not None:
            progress(done / len(tasks))
    return total


def _tasks(X: Array, n_rows: int, n_threads: int) -> list[tuple[slice, slice]]:
    """Cut the work into columns and rows whose sums add up: rows where columns are few."""
    n, d = X.shape
    if n * d < SMALL and n <= EXACT_ROWS:
        return [(slice(0, d), slice(0, n_rows))]
    most = BLOCK_COLUMNS if is_native(X) else max(1, CONVERTED_BYTES // (8 * n))
    width = max(1, min(most, -(-d // n_threads)))
    high = min(EXACT_ROWS, max(1, -(-n_rows // (n_threads if d < n_threads else 1))))
    columns = [slice(a, min(a + width, d)) for a in range(0, d, width)]
    return list(product(columns, [slice(a, min(a + high, n_rows)) for a in range(0, n_rows, high)]))


def sparse_sums(
    block: sparse.csc_array, spec: InfluenceSpec, *, rows: IntArray | None = None, n_jobs: int | None = 1
) -> InfluenceSums:
    """Return what `dense_sums` does, of a matrix compressed by columns: zeros that are left out are counted only."""
    from sparsemean._kernels.sparse import canonical_parts, shared

    data, indices, indptr = canonical_parts(block)
    used = np.ones(block.shape[0], dtype=bool)
    if rows is not None:
        used[:] = False
        used[rows] = True
    n_used, total = int(used.sum()), InfluenceSums.blank(*spec.centres.shape)

    def work(columns: slice) -> bool:
        begins, found = indptr[columns.start : columns.stop + 1], (total.sums[:, columns], total.missing[columns])
        return bool(add_entries(data, indices, begins, used, n_used, *spec.of(columns), *found))

    if any(each(work, *shared(indptr, n_jobs))):
        raise NotFiniteError
    return total


# The compiled loops: the operations of `steps` in the same order, so the same bits.

S0, S1, S2, S3, S4, S5, S6, S7, S8, S9 = SERIES
ROUNDER = 1.5 * 2.0**52
"""Added and taken off it rounds to whole numbers, as ``rint`` does, in vector instructions."""
ABREAST = 64
"""Rows of a column that are added up beside each other, for vector instructions."""


@compiled()
def step(u: float, kappa: float, most: float) -> float:
    """Return ψ(u) in whole steps of 2⁻³², 0 for NaN; ``most`` is 1/(2κ). Without branches it is vectorised."""
    size = abs(u)
    t = size if size < most else most
    y = t * (1.0 - kappa * t)
    s = y / (2.0 - y)
    z = s * s
    series = ((((((((S9 * z + S8) * z + S7) * z + S6) * z + S5) * z + S4) * z + S3) * z + S2) * z + S1) * z + S0
    whole = (s * series * GRID + ROUNDER) - ROUNDER
    return whole * (np.float64(u > 0.0) - np.float64(u < 0.0))


@compiled()
def is_refused(x: float, missing: bool) -> bool:
    """Whether a value is infinite, or NaN where that is not a missing value."""
    return ((x - x) != 0.0) & ((x == x) | (not missing))


@compiled()
def count_gaps(memory: Array, start: int, row_step: int, rows: Array, missing: bool) -> int:
    """Return how many values of one column are missing, −1 if one is refused: for columns that have such values."""
    gaps = 0
    for r in range(rows.size):
        x = np.float64(memory[start + rows[r] * row_step])
        if is_refused(x, missing):
            return -1
        gaps += x != x
    return gaps


@compiled()
def note_gaps(
    memory: Array, start: int, row_step: int, column_step: int, rows: Array, finite: Array, missing: bool, gaps: Array
) -> bool:
    """Count the gaps of columns in which ``finite``, a sum of x − x, is not zero; True if a value is refused."""
    for c in range(finite.size):
        if finite[c] != 0.0:
            gaps[c] = count_gaps(memory, start + c * column_step, row_step, rows, missing)
            if gaps[c] < 0:
                return True
    return False


@compiled()
def add_rows(
    memory: Array, start: int, row_step: int, column_step: int, rows: Array, centres: Array, unit: Array, kappa: float,
    missing: bool, sums: Array, gaps: Array,
) -> bool:  # fmt: skip
    """Add the steps of ``rows`` that lie along memory to ``sums``; True if a value is refused."""
    width, most = unit.size, 0.5 / kappa
    finite = np.zeros(width)
    for r in range(rows.size):
        at = start + rows[r] * row_step
        row = memory[at : at + width]
        for c in range(width):
            x = np.float64(row[c])
            finite[c] += x - x
        for k in range(centres.shape[0]):
            centre, out = centres[k], sums[k]
            for c in range(width):
                out[c] += step((np.float64(row[c]) - centre[c]) / unit[c], kappa, most)
    return note_gaps(memory, start, row_step, column_step, rows, finite, missing, gaps)


@compiled()
def add_columns(
    memory: Array, start: int, row_step: int, column_step: int, rows: Array, centres: Array, unit: Array, kappa: float,
    missing: bool, sums: Array, gaps: Array,
) -> bool:  # fmt: skip
    """Do the same column by column, whatever way they lie."""
    most, finite = 0.5 / kappa, np.zeros(unit.size)
    values, beside, strange = np.empty(ABREAST), np.empty((centres.shape[0], ABREAST)), np.empty(ABREAST)
    for c in range(unit.size):
        beside[:], strange[:] = 0.0, 0.0
        for first in range(0, rows.size, ABREAST):
            width = min(ABREAST, rows.size - first)
            for i in range(width):
                values[i] = np.float64(memory[start + c * column_step + rows[first + i] * row_step])
            for i in range(width):
                strange[i] += values[i] - values[i]
            for k in range(centres.shape[0]):
                centre, out = centres[k, c], beside[k]
                for i in range(width):
                    out[i] += step((values[i] - centre) / unit[c], kappa, most)
        finite[c] = strange.sum()
        for k in range(centres.shape[0]):
            sums[k, c] = beside[k].sum()
    return note_gaps(memory, start, row_step, column_step, rows, finite, missing, gaps)


@compiled()
def add_entries(
    data: Array, indices: Array, indptr: Array, used: Array, n_used: int, centres: Array, unit: Array, kappa: float,
    missing: bool, sums: Array, gaps: Array,
) -> bool:  # fmt: skip
    """Add the steps of stored entries in ``used`` rows, and those of the zeros that are not stored, to ``sums``."""
    most, bad = 0.5 / kappa, False
    for c in range(unit.size):
        zeros = n_used
        for k in range(centres.shape[0]):
            centre, total, zeros = centres[k, c], np.int64(0), n_used
            for at in range(indptr[c], indptr[c + 1]):
                x = np.float64(data[at])
                if used[indices[at]]:
                    zeros -= 1
                    bad |= is_refused(x, missing)
                    if x == x:
                        total += np.int64(step((x - centre) / unit[c], kappa, most))
                    elif k == 0:
                        gaps[c] += 1
            sums[k, c] = total + zeros * np.int64(step((0.0 - centre) / unit[c], kappa, most))
    return bad
