"""Directions that some rows have in common and along which they stand apart from all others.

Leading directions are sought among all columns, clipped, and where far values of several columns meet. Rows on one side
of a gap along one of them, see `gaps`, are a group; it is taken out and directions are sought again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import some_rows
from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._stats.gaps import TINY, TOGETHER_FROM, apart
from sparsemean._util.records import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROUNDS = 10
"""Times that directions are looked for: bad rows may stand in the shadow of others that are farther off."""
DIRECTIONS = 8
"""Leading directions that are looked along: what good rows have in common may lead, bad rows come behind it."""
TURNS = 3
"""Times that a group is taken anew along what the rows of the last have in common."""
EXACT = 128
"""Columns up to which eigenvectors are computed at once."""
STEPS, SETTLED, EVERY = 64, 1e-3, 8
"""Of Lanczos' method: steps at most, and the relative change of the leading eigenvalue in so many that ends it."""
TALL = 4
"""Rows a column from which on the products of columns are formed once: cheaper than to pass over the rows each time."""
TAIL, WIDE = 4.0, 12.0
"""In median sizes of a column: values beyond the first are its tail; the second is where it is clipped for those."""
FOR_OWN = 128
"""Columns that tell the size of a row, about."""
OWN_SCALE = 1.7
"""How much wider the lengths of rows may be spread than independent columns make them; else rows have own scales."""
WAY = 0.6
"""Cosine that is far, where rows have scales of their own and only their directions count."""
SMALL = 0.5
"""In median lengths: shorter rows keep their length, as the direction of nearly nothing says nothing."""
SPEAKS = 0.5
"""Share of the largest contribution from which on a column speaks against a group."""
NAMED, REASONS = 50, 5
"""Features named for a group and for each suspect, at most."""
Single = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Reasons = Iterable[tuple[int, ...]]


class Table(NamedTuple):
    """Columns in units of their own."""

    ratios: Single
    """Values over the median size of their column; what is missing is 0."""
    columns: IntArray
    """Which columns of the data these are."""
    scaled: Single
    """Those of ``judging`` clipped, about their mean."""
    judging: IntArray
    has: Flags | None
    """Where ``scaled`` is not missing; None: nothing is."""

    def features(self, best: IntArray) -> tuple[int, ...]:
        return tuple(self.columns[best[:REASONS]].tolist())


@dataclass(slots=True)
class Judgement:
    """What has been seen of the rows so far."""

    scores: FloatArray
    kept: Flags
    most: int
    kinds: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def room(self) -> int:
        return max(0, self.most - len(self.kinds))

    def see(self, away: FloatArray) -> None:
        """Raise the scores of the rows that are left: others keep the score that they were rejected for."""
        np.maximum(self.scores, away, out=self.scores, where=self.kept)

    def reject(self, rows: IntArray, kind: str, reasons: Reasons) -> None:
        self.kept[rows] = False
        self.kinds |= dict.fromkeys(rows.tolist(), kind)
        self.reasons |= dict(zip(rows.tolist(), reasons, strict=True))


def deviations(x: FloatArray, kept: Flags, worth: FloatArray | None = None) -> FloatArray:
    """Return how many robust deviations values, in the last axis, lie above the median of those kept.

    They count by what they are worth, if that is given.
    """
    if worth is not None:
        kept = kept & (worth > 0)
    if not kept.any():
        return np.zeros_like(x)
    away = x - np.median(x[..., kept], axis=-1, keepdims=True)
    if worth is not None:
        away *= worth
    spread = GAUSSIAN * np.median(np.abs(away[..., kept]), axis=-1, keepdims=True)
    return np.asarray(np.divide(away, spread, out=np.zeros_like(away), where=spread > 0))


def judge_directions(table: Table, seen: Judgement, *, kind: str, bound: float) -> None:
    """Reject rows that stand apart together along one of the leading directions, which are then sought again."""
    n, p = table.scaled.shape
    if n <= TOGETHER_FROM or p < 2:
        return
    signs, far = _signs(table, bound)
    gram = signs.T @ signs if p <= EXACT or n >= TALL * p else None
    for _ in range(ROUNDS):
        group, common = _first_group(signs, far, _leading(signs, seen.kept, gram), table=table, seen=seen)
        if not group.size:
            break
        seen.reject(group, kind, reasons_of_group(table, group, common))
        if gram is not None:
            gram -= signs[group].T @ signs[group]


def judge_tails(table: Table, seen: Judgement, *, kind: str, bound: float) -> None:
    """Do the same along directions of few columns, which clipping hides: they are sought where far values meet.

    Heavy tails put far values anywhere, but not the same rows into the same columns: squares of single columns do not
    count, and a row must stand apart without the column in which it does so most.
    """
    n, p = table.scaled.shape
    if n <= TOGETHER_FROM or p < 2:
        return
    from scipy.sparse import csr_array

    ratios = table.ratios if p == table.ratios.shape[1] else table.ratios.take(table.judging, axis=1)
    sizes = np.abs(ratios[:, :: -(-p // FOR_OWN)], order="C")
    sizes.partition(sizes.shape[1] // 2, axis=1)
    own = np.maximum(sizes[:, sizes.shape[1] // 2], np.float32(1))
    wide: Single = np.divide(ratios, own[:, np.newaxis], dtype=np.float32)
    np.clip(wide, -WIDE, WIDE, out=wide)
    at = np.flatnonzero((wide > TAIL) | (wide < -TAIL))
    tails = csr_array((wide.ravel()[at], at % p, np.searchsorted(at, np.arange(0, n * p + 1, p))), shape=(n, p))
    table = table._replace(scaled=wide)
    for _ in range(ROUNDS):
        left = tails[seen.kept]
        met = (left.T @ left).toarray()
        np.fill_diagonal(met, 0.0)
        if met.max(initial=0.0) < TOGETHER_FROM * TAIL**2:
            break
        group, common = _first_group(wide, bound, _leading(tails, seen.kept, met), table=table, seen=seen)
        group = _without_one_column(wide, group, common, bound)
        if group.size < TOGETHER_FROM:
            break
        seen.reject(group, kind, reasons_of_group(table, group, common))


def _without_one_column(wide: Single, rows: IntArray, common: Single, bound: float) -> IntArray:
    """Return those of the rows that stand apart in a direction without the column in which they do so most."""
    if not rows.size:
        return rows
    parts = wide[rows] * common
    deviation = GAUSSIAN * float(np.median(np.abs(_places(wide, common[:, np.newaxis], None))))
    return np.asarray(rows[parts.sum(axis=1) - parts.max(axis=1) > bound * deviation])


def _first_group(
    signs: Single, far: float, directions: Single, *, table: Table, seen: Judgement
) -> tuple[IntArray, Single]:
    """Return the first group that stands apart along a direction, and what its rows have in common."""
    for along in deviations(np.ascontiguousarray(_places(signs, directions, table.has).T), seen.kept):
        seen.see(np.abs(along))
        sides = [np.flatnonzero(seen.kept & (side * along > far)) for side in (1, -1)]
        for rows in sorted(sides, key=len, reverse=True):
            if rows.size >= TOGETHER_FROM and seen.room():
                group, common = _group(signs, rows, far, table=table, seen=seen)
                if group.size:
                    return group, common
    return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)


def _signs(table: Table, bound: float) -> tuple[Single, float]:
    """Return rows of the same length, if they have scales of their own, and from where on a place is far."""
    scaled, has = table.scaled, table.has
    n, p = scaled.shape
    count = np.full(n, float(p)) if has is None else has.sum(axis=1).astype(np.float64)
    mean_square = np.einsum("ij,ij->i", scaled, scaled) / np.maximum(count, 1.0)
    there = mean_square[count > 0]
    middle = float(np.median(there)) if there.size else 0.0
    spread = GAUSSIAN * float(np.median(np.abs(there - middle))) if there.size else 0.0
    alone = math.sqrt(float(np.sum(np.var(scaled[some_rows(n, p)] ** 2, axis=0), dtype=np.float64))) / p
    if spread <= OWN_SCALE * alone or not middle > 0:
        return scaled, bound
    length = np.sqrt(np.maximum(mean_square, SMALL**2 * middle))
    return scaled / length[:, np.newaxis].astype(np.float32), min(bound, WAY * math.sqrt(p))


def _places(signs: Single, directions: Single, has: Flags | None) -> FloatArray:
    """Return the place of each row along each direction, of length one.

    Some builds of OpenBLAS compute with what lies behind the end of a single-precision row too, throw it away and leave
    the processor's flag for invalid operations set, of which NumPy then warns; the entries here are finite and small.
    """
    with np.errstate(invalid="ignore"):
        places = np.asarray(signs @ directions, dtype=np.float64)
        if has is not None:
            # A sum of fewer terms is smaller by chance alone: in units of its own deviation it is not.
            places /= np.sqrt(np.maximum(has.astype(np.float32) @ directions**2, TINY))
    return places


def _group(signs: Single, rows: IntArray, far: float, *, table: Table, seen: Judgement) -> tuple[IntArray, Single]:
    """Return the rows that stand apart along what ``rows`` have in common, the farthest first, and that direction."""
    common = np.empty(0, dtype=np.float32)
    for _ in range(TURNS):
        total = signs[rows].sum(axis=0)
        common = total / np.float32(max(float(np.linalg.norm(total)), TINY))
        places = _places(signs, common[:, np.newaxis], table.has)[:, 0]
        # A row is judged by what the others have in common, or its own noise would speak against itself.
        others = total - signs[rows]
        others /= np.maximum(np.linalg.norm(others, axis=1), TINY)[:, np.newaxis]
        places[rows] = np.einsum("ij,ij->i", signs[rows], others)
        if table.has is not None:
            places[rows] /= np.sqrt(np.maximum(np.einsum("ij,ij->i", table.has[rows], others**2), TINY))
        along = deviations(places, seen.kept)
        before, rows = rows, apart(along, seen.kept, far)
        if rows.size < TOGETHER_FROM:
            return rows[:0], common
        if np.array_equal(np.sort(before), np.sort(rows)):
            break
    rows = rows[: seen.room()]
    seen.scores[rows] = np.maximum(seen.scores[rows], along[rows])
    return rows, common


def reasons_of_group(table: Table, rows: IntArray, common: Single) -> Reasons:
    """Name for each row of a group those of the columns that set it apart where the row exceeds the others most.

    What sets the group apart is about the same for all: of columns that speak alike each row names its own.
    """
    speak = np.median(table.scaled[rows], axis=0) * common
    most = np.argsort(-speak, kind="stable")[:NAMED]
    columns = table.judging[most[speak[most] >= SPEAKS * speak.max()]]
    sizes = np.abs(table.ratios[np.ix_(rows, columns)])
    more = sizes - np.median(sizes, axis=0)
    more /= np.maximum(np.median(np.abs(more), axis=0), TINY)
    return (table.features(columns[order]) for order in np.argsort(-more, axis=1, kind="stable"))


def _leading(signs: Single | csr_array, kept: Flags, gram: Single | None) -> Single:
    """Return the directions in which the kept rows vary most about their mean; ``gram`` is that of these rows."""
    weight = kept.astype(np.float32)
    total = np.float32(weight.sum())
    with np.errstate(invalid="ignore"):
        centre = (weight @ signs) / np.maximum(total, np.float32(1))
        if gram is not None and signs.shape[1] <= EXACT:
            return np.linalg.eigh(gram - total * np.outer(centre, centre))[1][:, : -DIRECTIONS - 1 : -1]

        def vary(v: Single) -> Single:
            if gram is not None:
                return np.asarray(gram @ v - (total * (centre @ v)) * centre)
            return np.asarray((weight * (signs @ v - centre @ v)) @ signs)

        return _lanczos(vary, signs.shape[1])


def _lanczos(vary: Callable[[Single], Single], p: int) -> Single:
    """Return the leading eigenvectors of a product with a symmetric matrix, by Lanczos' method with all vectors kept.

    The start is any vector that is the same each time: that nothing shows in it is as unlikely as for a random one.
    """
    basis = np.empty((min(STEPS, p), p), dtype=np.float32)
    images = np.empty_like(basis)
    v = np.random.default_rng(0).standard_normal(p).astype(np.float32)
    size, last = 0, 0.0
    while size < basis.shape[0]:
        v /= np.float32(np.linalg.norm(v))
        for _ in range(2):  # once more, as rounding leaves a part of what is taken out
            v -= (basis[:size] @ v) @ basis[:size]
            length = float(np.linalg.norm(v))
            if not length > 1e-5:
                break
            v /= np.float32(length)
        if not length > 1e-5:
            break
        basis[size], images[size] = v, vary(v)
        size += 1
        v = images[size - 1].copy()
        if not v.any():
            break
        if size % EVERY == 0:
            now = float(np.linalg.eigvalsh(basis[:size] @ images[:size].T)[-1])
            if now - last <= SETTLED * now:
                break
            last = now
    turn = np.linalg.eigh(np.asarray(basis[:size] @ images[:size].T, dtype=np.float64))[1]
    return np.asarray(basis[:size].T @ turn[:, : -DIRECTIONS - 1 : -1].astype(np.float32))
