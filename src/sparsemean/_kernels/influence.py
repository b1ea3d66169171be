"""Sums of Catoni's influence, bounded: the same whole numbers whatever engine adds them up, in whatever order.

ψ(x) = −log(1 − x + κx²) up to x = 1/(2κ), constant beyond, odd. Every ψ is rounded to a multiple of 2⁻³² and added as a
whole number. The logarithm is a series of additions, multiplications and one division, which IEEE arithmetic rounds
alike everywhere; a library's logarithm it does not. Compiled loops are loaded in the functions that use them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._kernels import NotFiniteError
from sparsemean._kernels.memory_layout import Array, Strided, count_threads, each, is_native, strided
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
CONVERTED_BYTES = 32_000_000
BLOCK_COLUMNS = 2048
SMALL = 50_000
"""Values below which starting threads costs more than they save."""


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


def steps(u: Any, kappa: float, xp: Any = np) -> Any:
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
    return xp.where(xp.isnan(u), 0.0, xp.copysign(xp.rint(s * series * GRID), u))


def array_sums(x: Any, centres: Any, unit: Any, kappa: float, xp: Any = np) -> Any:
    """Return the sums of `dense_sums` over all rows, of doubles in any namespace, without compiled loops."""
    total = xp.zeros(centres.shape, dtype=np.int64)
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
    X: Array,
    centres: FloatArray,
    unit: FloatArray,
    kappa: float,
    *,
    rows: IntArray | None = None,
    missing: bool = False,
    n_jobs: int | None = 1,
    progress: Callable[[float], None] | None = None,
) -> InfluenceSums:
    """Return Σ ψ((x − c)/unit) over ``rows`` (all by default) of every column, for each row c of ``centres``.

    With ``missing`` NaN is a value that is not there. Raises ``NotFiniteError`` if any value that is used is infinite,
    or NaN without ``missing``.
    """
    n_threads = count_threads(n_jobs)
    chosen = np.arange(X.shape[0]) if rows is None else np.asarray(rows, dtype=np.intp)
    total, lock = InfluenceSums.blank(centres.shape[0], X.shape[1]), threading.Lock()
    tasks = _tasks(X, chosen.size, n_threads)

    def work(task: tuple[slice, slice]) -> None:
        columns, part = task
        native = is_native(X)
        with np.errstate(invalid="ignore"):  # NaNs of some bits are warned of when they are made longer
            view = strided(X[:, columns] if native else np.ascontiguousarray(X[:, columns], dtype=np.float64))
        found = _block(view, centres[:, columns], unit[columns], kappa, rows=chosen[part], missing=missing)
        with lock:
            total.add(columns, found)

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


def _block(
    view: Strided, centres: FloatArray, unit: FloatArray, kappa: float, *, rows: IntArray, missing: bool
) -> InfluenceSums:
    """Return the sums of some rows of a few columns, whichever way they lie."""
    from sparsemean._kernels import loops_influence as loops

    width = view.shape[1]
    sums, gaps = np.zeros((centres.shape[0], width)), np.zeros(width, dtype=np.int32)
    loop = loops.add_rows if view.rows_are_contiguous and width > 1 else loops.add_columns
    bad = loop(
        view.memory, view.start, view.row_step, view.column_step, rows, np.ascontiguousarray(centres),
        np.ascontiguousarray(unit), kappa, missing, sums, gaps,
    )  # fmt: skip
    if bad:
        raise NotFiniteError
    return InfluenceSums(sums.astype(np.int64), gaps)


def sparse_sums(
    block: sparse.csc_array,
    centres: FloatArray,
    unit: FloatArray,
    kappa: float,
    *,
    rows: IntArray | None = None,
    missing: bool = False,
    n_jobs: int | None = 1,
) -> InfluenceSums:
    """Return what `dense_sums` does, of a matrix compressed by columns: zeros that are left out are counted only."""
    from sparsemean._kernels import loops_influence as loops
    from sparsemean._kernels.sparse import canonical_parts, shared

    data, indices, indptr = canonical_parts(block)
    used = np.ones(block.shape[0], dtype=bool)
    if rows is not None:
        used[:] = False
        used[rows] = True
    n_used, total = int(used.sum()), InfluenceSums.blank(centres.shape[0], block.shape[1])
    centres, unit = np.ascontiguousarray(centres), np.ascontiguousarray(unit)

    def work(columns: slice) -> bool:
        return bool(
            loops.add_entries(
                data, indices, indptr[columns.start : columns.stop + 1], used, n_used, centres[:, columns],
                unit[columns], kappa, missing, total.sums[:, columns], total.missing[columns],
            )
        )  # fmt: skip

    if any(each(work, *shared(indptr, n_jobs))):
        raise NotFiniteError
    return total
