"""Which rows contradict the rest, in what way, and by which columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import fillna, medians
from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._stats.gaps import MOST, TINY, TOGETHER_FROM, apart, far_values, leaning, no_coincidence
from sparsemean._util.records import FloatArray, IntArray, RowScores

TOGETHER, FEW, LARGE, LABEL = "off together", "far in a few columns", "large throughout", "contradicts its label"
KINDS = (TOGETHER, FEW, LARGE, LABEL)
"""What a suspect shows; suspects are listed in this order."""
CLIP = 3.0
"""In median sizes of a column: one heavy-tailed entry then says little, a shift of all entries as much as before."""
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
FOR_SIZE = 30
"""Columns it takes before the sum of squares of a row says something of the row rather than of a few entries."""
THROUGHOUT = 2.0
"""Median size of a row's values, in those of their columns, beyond which it is large throughout."""
FOR_SCALE = 500
"""Rows that tell the scale of a column."""
MOSTLY = 0.5
"""Share of its values that a column must have for rows to be judged by it."""
NONZERO = 10
"""Values other than zero that tell the scale of a column which is mostly zero, at least."""
HUGE = 1e18
"""In median sizes of a column: squares of more would not be finite in single precision."""
SPEAKS = 0.5
"""Share of the largest contribution from which on a column speaks against a group."""
NAMED, REASONS = 50, 5
"""Features named for a group and for each suspect, at most."""
Single = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Reasons = Iterable[tuple[int, ...]]


def limit(n: int) -> float:
    """Return √(2 ln n) + 1, about one deviation more than the farthest of n normal values has."""
    return math.sqrt(2 * math.log(n)) + 1


def trust_all(n: int) -> RowScores:
    """Return rows that are all trusted: nothing was selected, so nothing can contradict."""
    return RowScores(np.zeros(n), np.ones(n), np.empty(0, dtype=np.intp))


def row_scores(
    scores: FloatArray,
    kinds: Mapping[int, str],
    reasons: Mapping[int, tuple[int, ...]],
    *,
    aligned: int | None = None,
) -> RowScores:
    """Return rows with these scores of which some are suspects, of a kind and for reasons; by kind, the worst first.

    ``aligned`` is given where more than one row belong to what is off together.
    """
    suspects = np.array(sorted(kinds, key=lambda i: (KINDS.index(kinds[i]), -scores[i], i)), dtype=np.intp)
    weights = np.ones(scores.size)
    weights[suspects] = 0.0
    of_suspects = tuple(kinds[i] for i in suspects.tolist())
    why = tuple(reasons[i] for i in suspects.tolist())
    return RowScores(
        scores, weights, suspects, of_suspects.count(TOGETHER) if aligned is None else aligned, why, of_suspects
    )


def joined(first: RowScores, second: RowScores) -> RowScores:
    """Return what was seen of the same rows first and then, without the suspects of the first; scores only grow."""
    suspects = [*first.suspects.tolist(), *second.suspects.tolist()]
    kinds = dict(zip(suspects, first.kinds + second.kinds, strict=True))
    reasons = dict(zip(suspects, first.reasons + second.reasons, strict=True))
    scores = np.maximum(first.scores, second.scores)
    return row_scores(scores, kinds, reasons, aligned=first.aligned + second.aligned)


class _Table(NamedTuple):
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
class _Judgement:
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


def screen(values: FloatArray, *, most: int | None = None, clip: float = CLIP) -> RowScores:
    """Score rows by features whose mean is known, taken from ``values``, and list those that contradict the rest.

    Columns are divided by their median absolute value. Suspects are of three kinds:

    - *off together*: at least three rows that stand apart from all others, on one side along a direction that they have
      in common (columns clipped, so that heavy tails in them are harmless), or by their size and lean to one side, or
      by far values in the same columns. ``aligned`` is their number.
    - *far in a few columns*: a row with values beyond gaps that the tails of their columns do not explain, in more
      columns than by coincidence; one far value makes no suspect. Columns that are mostly zero count here.
    - *large throughout*: a row whose sum of squares is beyond `limit`. Where rows have scales of their own, or some
      users do more of everything, these are good rows: they are listed last and not among ``aligned``.

    A row is listed for what it shows. Of the first two kinds at most one good row is expected, whatever the tails of
    the columns, rows with scales of their own and common factors; ``most`` of these two are listed, by default a fifth
    of the rows. To stand apart takes a gap in the tail, see `gaps`, and more rows above it than in it: a skewed factor
    as the activity of users has a long tail, but no gap.

    Directions are the leading eigenvectors of the rows that are left, so that nothing depends on a seed. Where lengths
    of rows are spread wider than independent columns make them, rows are divided by their length first: then no row has
    more leverage than another. Of sums of squares the cube root is judged: it is close to normal also where columns
    depend on each other and the sum is one of few independent terms (Wilson and Hilferty 1931, PNAS 17).

    What is missing (NaN) says nothing of a row. Places and sums of squares are taken relative to what a row has, so
    that having much or little makes no row suspect; one that has nothing scores 0.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((200, 40))
    >>> rows[:8] += 2.0
    >>> found = screen(rows)
    >>> found.aligned, sorted(found.suspects.tolist()), set(found.kinds)
    (8, [0, 1, 2, 3, 4, 5, 6, 7], {'off together'})
    """
    n = values.shape[0]
    seen = _Judgement(np.zeros(n), np.ones(n, dtype=bool), int(MOST * n) if most is None else most)
    table = _scaled(values, clip)
    # Rows off together come first, or they would go as large ones and not count as aligned.
    _judge_directions(table, seen)
    _judge_tails(table, seen)
    sizes, worth = _sizes(table)
    _judge_leaning(table, seen, _away(sizes, seen.kept, worth))
    _judge_columns(table, seen)
    _judge_size(table, seen, _away(sizes, seen.kept, worth))
    return row_scores(seen.scores, seen.kinds, seen.reasons)


# Columns in units of their own.


def _scaled(values: FloatArray, clip: float) -> _Table:
    """Return columns over their median absolute value, and those clipped about their mean that are not mostly zero.

    Where most values are zero, or missing, the median is that of the others, and rows are judged by far values only.
    """
    gaps = np.isnan(values)
    has = ~gaps if gaps.any() else None
    some = values[_some_rows(values.shape[0])]
    unit = scales(some, 1) if has is None else medians(np.abs(some))
    judging = unit > 0
    if has is not None:
        judging &= has.mean(axis=0) >= MOSTLY
        values = fillna(values, 0.0)
    if not judging.all():
        unit = np.where(judging, unit, _nonzero_scales(values, ~judging))
    used = np.flatnonzero(unit > 0)
    if used.size < unit.size:
        values, unit = values[:, used], unit[used]
    with np.errstate(over="ignore"):  # what is too far to be divided is huge all the same
        ratios = np.divide(values, unit, order="C").astype(np.float32)
    if ratios.size and not np.isfinite(np.dot(ratios.ravel(), ratios.ravel())):
        np.clip(ratios, -HUGE, HUGE, out=ratios)
    clipped = np.flatnonzero(judging[used])
    scaled = np.clip(ratios if clipped.size == used.size else ratios.take(clipped, axis=1), -clip, clip)
    # About the mean only once it is clipped: now no bad row moves a column's mean by more than 2·clip/n.
    if has is None:
        scaled -= scaled.mean(axis=0)
    else:
        has = has[:, used[clipped]]
        scaled = np.where(has, scaled - scaled.sum(axis=0) / has.sum(axis=0), 0.0).astype(np.float32)
    return _Table(ratios, used, scaled, clipped, has)


def _some_rows(n: int) -> IntArray | slice:
    """Return `FOR_SCALE` rows, by multiples of the golden ratio: they agree with no period in the order of rows."""
    if n < 2 * FOR_SCALE:
        return slice(None)
    return np.sort((np.arange(FOR_SCALE) * ((math.sqrt(5) - 1) / 2) % 1 * n).astype(np.intp))


def scales(values: FloatArray, step: int) -> FloatArray:
    """Return the median absolute value of each column, none of it missing, by every ``step``-th row."""
    sizes = np.abs(values[::step].T, order="C")
    middle = sizes.shape[1] // 2
    sizes.partition(middle, axis=1)  # one partition of long rows: five times as fast as a median down the columns
    return np.asarray(sizes[:, middle])


def _nonzero_scales(values: FloatArray, which: Flags) -> FloatArray:
    """Return the median size of what is not zero in some columns; 0 for the others and where that is too little."""
    unit = np.zeros(values.shape[1])
    sizes = np.abs(values[:: max(1, values.shape[0] // (4 * FOR_SCALE)), which])
    told = np.count_nonzero(sizes, axis=0) >= NONZERO
    sizes[sizes == 0] = np.nan
    unit[np.flatnonzero(which)[told]] = medians(sizes[:, told])
    return unit


# Rows that stand apart along a direction.


def _judge_directions(table: _Table, seen: _Judgement) -> None:
    """Reject rows that stand apart together along one of the leading directions, which are then sought again."""
    n, p = table.scaled.shape
    if n <= TOGETHER_FROM or p < 2:
        return
    signs, far = _signs(table)
    gram = signs.T @ signs if p <= EXACT or n >= TALL * p else None
    for _ in range(ROUNDS):
        group, common = _first_group(signs, far, _leading(signs, seen.kept, gram), table=table, seen=seen)
        if not group.size:
            break
        seen.reject(group, TOGETHER, _reasons_of_group(table, group, common))
        if gram is not None:
            gram -= signs[group].T @ signs[group]


def _judge_tails(table: _Table, seen: _Judgement) -> None:
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
    wide: Single = np.clip(ratios / own[:, np.newaxis], -WIDE, WIDE).astype(np.float32)
    tails = np.where(np.abs(wide) > TAIL, wide, np.float32(0))
    table = table._replace(scaled=wide)
    for _ in range(ROUNDS):
        left = csr_array(tails * seen.kept[:, np.newaxis])
        met = (left.T @ left).toarray()
        np.fill_diagonal(met, 0.0)
        if met.max(initial=0.0) < TOGETHER_FROM * TAIL**2:
            break
        group, common = _first_group(wide, limit(n), _leading(tails, seen.kept, met), table=table, seen=seen)
        group = _without_one_column(wide, group, common)
        if group.size < TOGETHER_FROM:
            break
        seen.reject(group, TOGETHER, _reasons_of_group(table, group, common))


def _without_one_column(wide: Single, rows: IntArray, common: Single) -> IntArray:
    """Return those of the rows that stand apart in a direction without the column in which they do so most."""
    if not rows.size:
        return rows
    parts = wide[rows] * common
    deviation = GAUSSIAN * float(np.median(np.abs(_places(wide, common[:, np.newaxis], None))))
    return np.asarray(rows[parts.sum(axis=1) - parts.max(axis=1) > limit(wide.shape[0]) * deviation])


def _first_group(
    signs: Single, far: float, directions: Single, *, table: _Table, seen: _Judgement
) -> tuple[IntArray, Single]:
    """Return the first group that stands apart along a direction, and what its rows have in common."""
    for along in _away(np.ascontiguousarray(_places(signs, directions, table.has).T), seen.kept):
        seen.see(np.abs(along))
        sides = [np.flatnonzero(seen.kept & (side * along > far)) for side in (1, -1)]
        for rows in sorted(sides, key=len, reverse=True):
            if rows.size >= TOGETHER_FROM and seen.room():
                group, common = _group(signs, rows, far, table=table, seen=seen)
                if group.size:
                    return group, common
    return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)


def _signs(table: _Table) -> tuple[Single, float]:
    """Return rows of the same length, if they have scales of their own, and from where on a place is far."""
    scaled, has = table.scaled, table.has
    n, p = scaled.shape
    count = np.full(n, float(p)) if has is None else has.sum(axis=1).astype(np.float64)
    mean_square = np.einsum("ij,ij->i", scaled, scaled) / np.maximum(count, 1.0)
    there = mean_square[count > 0]
    middle = float(np.median(there)) if there.size else 0.0
    spread = GAUSSIAN * float(np.median(np.abs(there - middle))) if there.size else 0.0
    alone = math.sqrt(float(np.sum(np.var(scaled[_some_rows(n)] ** 2, axis=0, dtype=np.float64)))) / p
    if spread <= OWN_SCALE * alone or not middle > 0:
        return scaled, limit(n)
    length = np.sqrt(np.maximum(mean_square, SMALL**2 * middle))
    return scaled / length[:, np.newaxis].astype(np.float32), min(limit(n), WAY * math.sqrt(p))


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


def _group(signs: Single, rows: IntArray, far: float, *, table: _Table, seen: _Judgement) -> tuple[IntArray, Single]:
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
        along = _away(places, seen.kept)
        before, rows = rows, apart(along, seen.kept, far)
        if rows.size < TOGETHER_FROM:
            return rows[:0], common
        if np.array_equal(np.sort(before), np.sort(rows)):
            break
    rows = rows[: seen.room()]
    seen.scores[rows] = np.maximum(seen.scores[rows], along[rows])
    return rows, common


def _reasons_of_group(table: _Table, rows: IntArray, common: Single) -> Reasons:
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


def _leading(signs: Single, kept: Flags, gram: Single | None) -> Single:
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


# Rows that are far in some columns, or large.


def _judge_columns(table: _Table, seen: _Judgement) -> None:
    """Reject rows with values beyond gaps in the tails of several columns; off together if in the same ones."""
    n, p = table.ratios.shape
    if p < 2:
        return
    far = far_values(np.abs(table.ratios))
    counts = np.bincount(far.row, minlength=n)
    rows = np.flatnonzero(seen.kept & (counts >= no_coincidence(counts)))
    if not rows.size:
        return
    scores = np.sqrt(2 * np.bincount(far.row, weights=far.evidence, minlength=n))  # a normal value as unlikely
    seen.scores[rows] = np.maximum(seen.scores[rows], scores[rows])
    order = np.argsort(-far.excess, kind="stable")
    why: dict[int, list[int]] = {i: [] for i in rows.tolist()}
    for i, j in zip(far.row[order].tolist(), far.column[order].tolist(), strict=True):
        if i in why:
            why[i].append(j)
    large = np.median(np.abs(table.ratios[rows]), axis=1) > THROUGHOUT
    few = rows[~large]
    few = few[np.argsort(-scores[few], kind="stable")][: seen.room()]
    sides = np.zeros((few.size, p), dtype=np.float32)
    for k, i in enumerate(few.tolist()):
        sides[k, why[i]] = np.sign(table.ratios[i, why[i]])
    same = leaning(sides)
    for chosen, kind in ((few[same], TOGETHER), (few[~same], FEW), (rows[large], LARGE)):
        seen.reject(chosen, kind, [table.features(np.array(why[i])) for i in chosen.tolist()])


def _judge_leaning(table: _Table, seen: _Judgement, away: FloatArray) -> None:
    """Reject rows that stand apart by their size and lean to the same side."""
    rows = apart(away, seen.kept, limit(away.size))
    rows = rows[: seen.room()]
    if leaning(table.scaled[rows]).any():  # then the gap has set all of them apart, whatever the side of one of them
        seen.scores[rows] = np.maximum(seen.scores[rows], away[rows])
        seen.reject(rows, TOGETHER, _reasons_of_group(table, rows, table.scaled[rows].sum(axis=0)))


def _judge_size(table: _Table, seen: _Judgement, away: FloatArray) -> None:
    """Reject rows that are large as a whole."""
    rows = np.flatnonzero(seen.kept & (away > limit(away.size)))
    seen.see(away)
    order = np.argsort(-np.abs(table.ratios[rows]), axis=1, kind="stable")
    seen.reject(rows, LARGE, map(table.features, order))


def _sizes(table: _Table) -> tuple[FloatArray, FloatArray | None]:
    """Return the cube root of each row's sum of squares, 0 where columns are too few, and what it is worth.

    Where values are missing it is that of the mean square, of which rows with few values tell less.
    """
    scaled, has = table.scaled, table.has
    if scaled.shape[1] < FOR_SIZE:
        return np.zeros(scaled.shape[0]), None
    squares = np.einsum("ij,ij->i", scaled, scaled)
    if has is None:
        return np.cbrt(squares, dtype=np.float64), None
    count = has.sum(axis=1)
    # The mean of c squares deviates by about 1/√c: times √c all rows are judged in the same units.
    worth = np.sqrt(np.where(count < FOR_SIZE, 0, count) / max(1, count.max()))
    return np.cbrt(squares / np.maximum(count, 1), dtype=np.float64), worth


def _away(x: FloatArray, kept: Flags, worth: FloatArray | None = None) -> FloatArray:
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
