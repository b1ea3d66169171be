"""Which rows contradict the rest."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sparsemean._stats.arrays import fillna, medians
from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._util.records import FloatArray, IntArray, RowScores

CLIP = 3.0
"""In median sizes of a column: one heavy-tailed entry then says little, a shift of all entries as much as before."""
ROUNDS = 10
"""Directions that are looked along one after another: bad rows may stand in the shadow of others that are farther off.
It ends before where none is rejected, or as many as may be."""
TURNS = 25
"""Steps of the power method; a direction worth rejecting rows for stands out after a few."""
FOR_SIZE = 30
"""Columns it takes before the sum of squares of a row says something of the row rather than of a few entries."""
TINY = 1e-12
"""In the place of zero, where a row has no value along a direction: its place is 0 and stays so."""
FOR_SCALE = 500
"""Rows that tell the scale of a column, at least, and four times as many as may be bad."""
MOSTLY = 0.5
"""Share of its values that a column must have for rows to be judged by it."""
TOGETHER, FEW, LARGE, LABEL = KINDS = (
    "off together", "far in a few columns", "large throughout", "contradicts its label",
)  # fmt: skip
"""What rows are listed for."""
Single = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


def limit(n: int) -> float:
    """Return √(2 ln n) + 1, about one deviation more than the farthest of n normal values has."""
    return math.sqrt(2 * math.log(n)) + 1


def trust_all(n: int) -> RowScores:
    """Return rows that are all trusted: nothing was selected, so nothing can contradict."""
    return RowScores(np.zeros(n), np.ones(n), np.empty(0, dtype=np.intp))


def screen(values: FloatArray, *, bad_rows: int, rng: np.random.Generator, clip: float = CLIP) -> RowScores:
    """Score rows by features whose mean is known, taken from ``values``, and reject those that contradict the rest.

    Columns are divided by their median absolute value and clipped, so that heavy tails in them are harmless. A row is
    scored by its place along the direction in which the rows not yet rejected vary most and by its sum of squares, in
    robust deviations from their median; rows beyond `limit` of them are rejected, the worst first and ``bad_rows`` at
    most, and the direction is sought again until none is. Of sums of squares the cube root is judged: it is close to
    normal also where columns depend on each other and the sum is one of few independent terms (Wilson and Hilferty
    1931, PNAS 17). Rows off to the same side speak for each other's guilt; a row that is large for itself may be a good
    one whose noise is large as a whole, so ``aligned`` counts the former apart.

    No decomposition of ``values`` is made: each round costs a few products with a vector.

    What is missing (NaN) says nothing of a row. Places and sums of squares are taken relative to what a row has, so
    that having much or little makes no row suspect; one that has nothing scores 0.
    """
    n = values.shape[0]
    # Were all bad rows among 4m that are looked at, a median would still lie between the thirds of the good values.
    scaled, has = _scaled(values, clip, max(FOR_SCALE, 4 * bad_rows))
    if scaled.shape[1] == 0:
        return trust_all(n)
    scores, kept, most = np.zeros(n), np.ones(n, dtype=bool), limit(n)

    def reject(away: FloatArray) -> IntArray:
        beyond = np.flatnonzero(kept & (away > most))
        worst = beyond[np.argsort(-away[beyond], kind="stable")][: bad_rows - int(n - kept.sum())]
        # Scores are raised before rows go: a row keeps the score that it was rejected for.
        np.maximum(scores, away, out=scores, where=kept)
        kept[worst] = False
        return worst

    size, worth, any_value = _sizes(scaled, has)
    direction = np.asarray(rng.standard_normal((scaled.shape[1],)), dtype=np.float32)
    aligned = 0
    # Directions come before sizes, or rows that are off together would go as large ones and not count as aligned. Rows
    # that went for their size may have hidden a direction, so directions have a second turn.
    for _ in range(2):
        for _ in range(ROUNDS):
            direction = _leading(scaled, kept, direction)  # from the last one: few rows have gone since
            places = np.asarray(_places(scaled, direction), dtype=np.float64)
            if has is not None:
                # A sum of fewer terms is smaller by chance alone: in units of its own deviation it is not.
                places /= np.sqrt(np.maximum(_places(has.astype(np.float32), direction**2), TINY))
            along = _away(places, kept, any_value)
            off = reject(np.abs(along))
            aligned += _one_sided_excess(along[off])
            if not off.size or n - kept.sum() >= bad_rows:
                break
        if scaled.shape[1] < FOR_SIZE or not reject(_away(size, kept, worth)).size:
            break
    return row_scores(scores, np.flatnonzero(~kept), aligned)


def _sizes(scaled: Single, has: Flags | None) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """Return the cube root of each row's sum of squares, what that is worth, and whether it has any value at all.

    Where values are missing it is that of the mean square, of which rows with few values tell less.
    """
    squares = np.einsum("ij,ij->i", scaled, scaled)
    if has is None:
        return np.cbrt(squares, dtype=np.float64), None, None
    count = has.sum(axis=1)
    # The mean of c squares deviates by about 1/√c: times √c all rows are judged in the same units.
    worth = np.sqrt(np.where(count < FOR_SIZE, 0, count) / max(1, count.max()))
    return np.cbrt(squares / np.maximum(count, 1), dtype=np.float64), worth, (count > 0).astype(np.float64)


def _one_sided_excess(places: FloatArray) -> int:
    """Return how many more of the places lie on one side, if that is more than chance puts there, else 0."""
    excess = abs(int(np.sum(np.sign(places))))
    # The sum of n fair signs has a standard deviation of √n; three of them happen once in 370 times.
    return excess if excess > 3 * math.sqrt(places.size) else 0


def row_scores(scores: FloatArray, rejected: IntArray, aligned: int = 0) -> RowScores:
    """Return rows with these scores of which some are rejected."""
    weights = np.ones(scores.size)
    weights[rejected] = 0.0
    return RowScores(scores, weights, rejected[np.argsort(-scores[rejected], kind="stable")], aligned)


def _scaled(values: FloatArray, clip: float, enough: int) -> tuple[Single, Flags | None]:
    """Return columns over their median absolute value, clipped, about their mean, and where values are there.

    Columns mostly zero, or mostly missing, are left out. What is missing lies at the mean. The medians are those of
    every so-maniest row, ``enough`` of them at least. None: nothing is missing.
    """
    step = max(1, values.shape[0] // enough)
    gaps = np.isnan(values)
    if gaps.any():
        return _scaled_with_gaps(values, gaps, clip, step)
    unit = scales(values, step)
    varied = unit > 0
    if not varied.all():
        values, unit = values[:, varied], unit[varied]
    with np.errstate(over="ignore"):  # what is too far to be divided is clipped all the same
        clipped = np.clip(values / unit, -clip, clip).astype(np.float32)
    # About the mean only once it is clipped: now no bad row moves a column's mean by more than 2·clip/n.
    clipped -= clipped.mean(axis=0)
    return clipped, None


def scales(values: FloatArray, step: int) -> FloatArray:
    """Return the median absolute value of each column, none of it missing, by every ``step``-th row."""
    sizes = np.abs(values[::step].T, order="C")
    middle = sizes.shape[1] // 2
    sizes.partition(middle, axis=1)  # one partition of long rows: five times as fast as a median down the columns
    return np.asarray(sizes[:, middle])


def _scaled_with_gaps(values: FloatArray, gaps: Flags, clip: float, step: int) -> tuple[Single, Flags]:
    unit = medians(np.abs(values[::step]))
    judging = np.flatnonzero((unit > 0) & (gaps.mean(axis=0) <= 1 - MOSTLY))
    values, has = values[:, judging], ~gaps[:, judging]
    with np.errstate(over="ignore"):
        clipped = fillna(np.clip(values / unit[judging], -clip, clip), 0.0)
    centred = np.where(has, clipped - clipped.sum(axis=0) / has.sum(axis=0), 0.0)
    return centred.astype(np.float32), has


def _away(x: FloatArray, kept: Flags, worth: FloatArray | None = None) -> FloatArray:
    """Return how many robust deviations each value lies above the median of those kept, times what it is worth."""
    if worth is not None:
        kept = kept & (worth > 0)
        if not kept.any():
            return np.zeros_like(x)
    away = x - np.median(x[kept])
    if worth is not None:
        away *= worth
    spread = GAUSSIAN * float(np.median(np.abs(away[kept])))
    return away / spread if spread > 0 else np.zeros_like(away)


def _places(scaled: Single, direction: Single) -> Single:
    """Return the place of each row along ``direction``.

    Some builds of OpenBLAS compute with what lies behind the end of a single-precision row too, throw it away and leave
    the processor's flag for invalid operations set, of which NumPy then warns; the entries here are finite and small.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(scaled @ direction)


def _leading(scaled: Single, kept: Flags, start: Single) -> Single:
    """Return the direction in which the kept rows vary most, by the power method."""
    direction = start
    weight = kept.astype(np.float32)
    for _ in range(TURNS):
        along = _places(scaled, direction)
        turned = (weight * (along - along[kept].mean())) @ scaled
        length = float(np.linalg.norm(turned))
        if not length > 0:
            break
        direction = turned / np.float32(length)
    return direction
