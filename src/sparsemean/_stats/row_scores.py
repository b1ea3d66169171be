"""Which rows contradict the rest, in what way, and by which columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sparsemean._stats.directions import (
    REASONS,
    Judgement,
    Reasons,
    judge_directions,
    judge_tails,
    reasons_of_group,
    robust_z,
)
from sparsemean._stats.gaps import TOGETHER_FROM, apart, copies, far_values, leaning, no_coincidence
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.standardized import CLIP, StandardizedRows
from sparsemean._util.plans import BadRows
from sparsemean._util.records import FloatArray, IntArray, RowScores

TOGETHER, FEW, LARGE, LABEL = "off together", "far in a few columns", "large throughout", "contradicts its label"
KINDS = (TOGETHER, FEW, LARGE, LABEL)
"""What a suspect shows; suspects are listed in this order."""
FOR_SIZE = 30
"""Columns it takes before the sum of squares of a row says something of the row rather than of a few entries."""
STEP = 1.0
"""Deviations of size by which rows that are large together stand apart from all others, at least."""
SHOWN = 4
"""Decimals of a score."""
THROUGHOUT = 2.0
"""Median size of a row's values, in those of their columns, beyond which it is large throughout."""


def limit(n: int) -> float:
    """Return √(2 ln n) + 1, about one deviation more than the farthest of n normal values has."""
    return math.sqrt(2 * math.log(n)) + 1


def trust_all(n: int) -> RowScores:
    """Return rows that are all trusted, as they are not judged."""
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
    # Rounded, as places of copies differ in the last digits of single precision.
    order = sorted(kinds, key=lambda i: (KINDS.index(kinds[i]), -round(float(scores[i]), SHOWN), i))
    suspects = np.array(order, dtype=np.intp)
    weights = np.ones(scores.size)
    weights[suspects] = 0.0
    of_suspects = tuple(kinds[i] for i in suspects.tolist())
    why = tuple(reasons[i] for i in suspects.tolist())
    return RowScores(
        scores, weights, suspects, of_suspects.count(TOGETHER) if aligned is None else aligned, why, of_suspects
    )


def count_by_group(labels: IntArray, kinds: Sequence[str]) -> BadRows:
    """Return how many of some suspects look bad in the reference, labelled 0, and in the label, 1.

    A wrong label costs a row in both groups, and those that go the other way cost no more; rows that lie off together
    count where they are.
    """
    listed_for = np.array(kinds, dtype=str)
    wrong = max(int(np.sum((labels == group) & (listed_for == LABEL))) for group in (0, 1))
    together = labels[listed_for == TOGETHER]
    return BadRows(
        reference=wrong + int(np.count_nonzero(together == 0)), label=wrong + int(np.count_nonzero(together == 1))
    )


def joined_scores(first: RowScores, second: RowScores) -> RowScores:
    """Return what was seen of the same rows first and then, without the suspects of the first; scores only grow."""
    suspects = [*first.suspects.tolist(), *second.suspects.tolist()]
    kinds = dict(zip(suspects, first.kinds + second.kinds, strict=True))
    reasons = dict(zip(suspects, first.reasons + second.reasons, strict=True))
    scores = np.maximum(first.scores, second.scores)
    return row_scores(scores, kinds, reasons, aligned=first.aligned + second.aligned)


def score_rows(
    values: FloatArray, *, most: int | None = None, clip: float = CLIP, n_jobs: int | None = None
) -> RowScores:
    """Score rows by features whose mean is known, taken from ``values``, and list those that contradict the rest.

    Columns are divided by their median absolute value. Suspects are of three kinds:

    - *off together*: at least three rows that stand apart from all others on one side along a direction that they have
      in common (columns clipped, so that heavy tails in them are harmless), or that are large copies of each other, or
      that stand apart by their size, or have far values in the same columns, and lean to the same side: nearly all of
      them in nearly every column, where they are fewer than ten. ``aligned`` is their number.
    - *far in a few columns*: a row with values beyond gaps that the tails of their columns do not explain, in more
      columns than by coincidence; one far value makes no suspect. Columns that are mostly zero count here.
    - *large throughout*: a row whose sum of squares is beyond `limit`, or one with far values, in less than half of the
      columns, that is large in most. Where rows have scales of their own, or some users do more of everything, these
      are good rows: they are listed last and not among ``aligned``.

    A row is listed for what it shows. Of the first two kinds at most one good row is expected, also with heavy tails in
    the columns, rows with scales of their own and common factors; ``most`` of these two are listed, by default a fifth
    of the rows. To stand apart takes a gap in the tail, see `gaps`, and rows that lie denser above it than in it: a
    skewed factor as the activity of users has a long tail, but no gap.

    Directions are the leading eigenvectors of the rows that are left, so that nothing depends on a seed; up to
    `arrays.ALL_VALUES` nothing depends on the order of rows either, beyond, a sample of them tells scales. Where
    lengths of rows are spread wider than independent columns make them, rows are divided by their length first: then no
    row has more leverage than another. Of sums of squares the cube root is judged: it is close to normal also where
    columns depend on each other and the sum is one of few independent terms (Wilson and Hilferty 1931, PNAS 17).

    What is missing (NaN) says nothing of a row. Places and sums of squares are taken relative to what a row has, so
    that having much or little makes no row suspect; one that has nothing scores 0.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((200, 40))
    >>> rows[:8] += 2.0
    >>> found = score_rows(rows)
    >>> found.aligned, sorted(found.suspects.tolist()), set(found.kinds)
    (8, [0, 1, 2, 3, 4, 5, 6, 7], {'off together'})
    """
    return judge_rows(StandardizedRows(values, clip, n_jobs), most=most)


def judge_rows(table: StandardizedRows, *, most: int | None = None) -> RowScores:
    """Score rows that are in units of their columns, see `score_rows`."""
    n = table.ratios.shape[0]
    seen = Judgement(np.zeros(n), np.ones(n, dtype=bool), int(MOST_ALLOWED * n) if most is None else most)
    # Rows off together come first, or they would go as large ones and not count as aligned.
    judge_directions(table, seen, kind=TOGETHER, bound=limit(n))
    table.release()
    judge_tails(table, seen, kind=TOGETHER, bound=limit(n))
    sizes, worth = _sizes(table)
    _judge_leaning(table, seen, robust_z(sizes, seen.kept, worth))
    _judge_copies(table, seen, robust_z(sizes, seen.kept, worth))
    _judge_columns(table, seen)
    _judge_size(table, seen, robust_z(sizes, seen.kept, worth))
    return row_scores(seen.scores, seen.kinds, seen.reasons)


# Rows that are far in some columns, or large.


def _judge_columns(table: StandardizedRows, seen: Judgement) -> None:
    """Reject rows with values beyond gaps in the tails of several columns; off together if in the same ones."""
    n, p = table.ratios.shape
    if p < 2:
        return
    far = far_values(table.tail_entries, table.ratios.shape)
    # What is mostly zero, directions do not see: it is named for rows that they have found.
    gone = np.flatnonzero(~seen.kept[far.row])
    for at in gone[~np.isin(far.column[gone], table.judging)].tolist():
        seen.reasons[far.row[at]] = (*seen.reasons[far.row[at]], int(table.columns[far.column[at]]))[:REASONS]
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
    # Rows with scales of their own are as large in every column as its tail lets them be, and not beyond gaps in most.
    large = (np.median(np.abs(table.ratios.take(rows)), axis=1) > THROUGHOUT) & (2 * counts[rows] < p)
    few = rows[~large]
    few = few[np.argsort(-scores[few], kind="stable")][: seen.margin()]
    sides = np.zeros((few.size, p), dtype=np.float32)
    signs = np.sign(table.ratios.take(few))
    for k, i in enumerate(few.tolist()):
        sides[k, why[i]] = signs[k, why[i]]
    same = leaning(sides)
    for chosen, kind in ((few[same], TOGETHER), (few[~same], FEW), (rows[large], LARGE)):
        seen.reject(chosen, kind, [table.features(np.array(why[i]), REASONS) for i in chosen.tolist()])


def _judge_leaning(table: StandardizedRows, seen: Judgement, away: FloatArray) -> None:
    """Reject rows that stand apart by their size and lean to the same side."""
    rows = apart(away, seen.kept, limit(away.size))
    others = seen.kept.copy()
    others[rows] = False
    if not rows.size or away[rows].min() - away[others].max(initial=0.0) < STEP:
        return  # sizes of clipped rows crowd at their upper end: what lies there lies beyond no real gap
    rows = rows[: seen.margin()]
    scaled = table.scaled.take(rows)
    if leaning(scaled).any():  # then the gap has set all of them apart, whatever the side of one of them
        seen.scores[rows] = np.maximum(seen.scores[rows], away[rows])
        seen.reject(rows, TOGETHER, reasons_of_group(table, table.scaled, rows, scaled.sum(axis=0)))


def _judge_copies(table: StandardizedRows, seen: Judgement, away: FloatArray) -> None:
    """Reject large rows that are the same: that takes no tail to be held against, so that few rows are enough."""
    rows = np.flatnonzero(seen.kept & (away > limit(away.size)))
    if rows.size < TOGETHER_FROM:
        return
    rows = rows[copies(table.ratios.take(rows))][: seen.margin()]
    if rows.size >= TOGETHER_FROM:
        seen.scores[rows] = np.maximum(seen.scores[rows], away[rows])
        seen.reject(rows, TOGETHER, _largest(table, rows))


def _judge_size(table: StandardizedRows, seen: Judgement, away: FloatArray) -> None:
    """Reject rows that are large as a whole."""
    rows = np.flatnonzero(seen.kept & (away > limit(away.size)))
    seen.see(away)
    seen.reject(rows, LARGE, _largest(table, rows))


def _largest(table: StandardizedRows, rows: IntArray) -> Reasons:
    """Name the columns in which each of some rows is largest."""
    order = np.argsort(-np.abs(table.ratios.take(rows)), axis=1, kind="stable")
    return (table.features(best, REASONS) for best in order)


def _sizes(table: StandardizedRows) -> tuple[FloatArray, FloatArray | None]:
    """Return the cube root of each row's sum of squares, 0 where columns are too few, and what it is worth.

    Where values are missing it is that of the mean square, of which rows with few values tell less.
    """
    scaled = table.scaled
    if scaled.shape[1] < FOR_SIZE:
        return np.zeros(scaled.shape[0]), None
    if scaled.whole:
        return np.cbrt(scaled.squares), None
    count = scaled.counts
    # The mean of c squares deviates by about 1/√c: times √c all rows are judged in the same units.
    worth = np.sqrt(np.where(count < FOR_SIZE, 0, count) / max(1, count.max()))
    return np.cbrt(scaled.squares / np.maximum(count, 1)), worth
