"""Two groups: every row of one against every row of the other, without forming the differences of every feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sparsemean.kernels import cpu
from sparsemean.kernels.threads import count_threads, each
from sparsemean.nulls import mann_whitney
from sparsemean.passes.memory import not_finite
from sparsemean.passes.pieces import column_blocks
from sparsemean.records import Evidence, FloatArray, IntArray
from sparsemean.sources.source import as_dense, cut
from sparsemean.sources.table import Table

if TYPE_CHECKING:
    from sparsemean.sources.source import Block

VALUES_AT_ONCE = 2_000_000
DIFFERENCES_AT_ONCE = 4_000_000


def count(
    table: Table, labels: IntArray, *, n_jobs: int | None = None, progress: cpu.Progress | None = None
) -> tuple[Evidence, FloatArray, bool]:
    """Return the evidence of Mann and Whitney, Cliff's delta, and whether the null distribution is exact.

    One bad row, in value or label, moves U by at most max(n₁, n₂). Ties count against rejection: U₊ and U₋ leave them
    out, while the null distribution breaks them at random.
    """
    rows = [np.flatnonzero(labels == g) for g in (0, 1)]
    n0, n1 = (int(r.size) for r in rows)
    n, d = table.shape
    n_threads = count_threads(n_jobs)
    width = max(1, min(VALUES_AT_ONCE // n, -(-d // n_threads)))

    def work(block: Block) -> IntArray:
        piece = np.asarray(as_dense(block), dtype=np.float64)
        if not np.isfinite(piece).all():
            raise cpu.NotFiniteError
        return cpu.compare_groups(piece[rows[1]], piece[rows[0]])

    counted = np.empty((2, d), dtype=np.intp)
    for columns, block in column_blocks(table.source):
        parts = cut(columns.stop - columns.start, width, 1)
        try:
            for part, both in zip(parts, each(work, [block[:, part] for part in parts], n_threads), strict=True):
                counted[:, columns.start + part.start : columns.start + part.stop] = both
                if progress is not None:
                    progress((columns.start + part.stop) / d)
        except cpu.NotFiniteError:
            raise not_finite(table, as_dense(block), first_column=columns.start) from None
    null = mann_whitney(n0, n1)
    statistic = counted.max(axis=0).astype(np.float64)[np.newaxis]
    delta = (counted[0] - counted[1]) / (n0 * n1)
    return Evidence(statistic, (null,), (float(max(n0, n1)),), (1,)), delta, null.table is not None


def map_differences(
    table: Table, columns: IntArray, labels: IntArray, work: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Put side by side what ``work`` makes of all differences second − first group, a few columns at a time."""
    first, second = (np.flatnonzero(labels == g) for g in (0, 1))
    at_once = max(1, DIFFERENCES_AT_ONCE // (first.size * second.size))
    out = []
    for k in range(0, columns.size, at_once):
        piece = table.source.take(columns[k : k + at_once])
        differences = (piece[second][:, np.newaxis] - piece[first][np.newaxis]).reshape(-1, piece.shape[1])
        out.append(work(differences))
    return np.concatenate(out, axis=-1)


def shifts(table: Table, columns: IntArray, labels: IntArray, *, error: float, bad_rows: int) -> FloatArray:
    """Return rows: the Hodges–Lehmann shift (median difference), and the lower and upper end of its interval.

    [D_(l−s), D_(N+1−l+s)] of the N = n₁n₂ ordered differences, l the largest with P(U ≤ l − 1) ≤ error/2 and
    s = m·max(n₁, n₂); infinite where l − s < 1. The differences are never formed.
    """
    first, second = (np.flatnonzero(labels == g) for g in (0, 1))
    n0, n1 = first.size, second.size
    N = n0 * n1
    # by symmetry P(U ≤ l − 1) = P(U ≥ N − l + 1), so N − l + 1 is the critical value of U
    rank = N + 1 - mann_whitney(n0, n1).critical(error) - bad_rows * max(n0, n1)
    out = np.empty((3, columns.size))
    for k in range(columns.size):
        values = table.source.take(columns[k : k + 1])[:, 0]
        a, b = np.sort(values[second]), np.sort(values[first])
        out[0, k] = cpu.median_difference(a, b)
        ends = (cpu.ordered_difference(a, b, rank), cpu.ordered_difference(a, b, N + 1 - rank)) if rank >= 1 else None
        out[1:, k] = (-np.inf, np.inf) if ends is None else ends
    return out
