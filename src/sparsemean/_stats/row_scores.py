"""Which rows contradict the rest, in what way, and by which columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sparsemean._stats.arrays import medians, middle, scales
from sparsemean._stats.directions import (
    BY_CHANCE,
    REASONS,
    TOGETHER_FROM,
    Judgement,
    Reasons,
    apart,
    judge_directions,
    judge_tails,
    reasons_of_group,
    robust_z,
)
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.standardized import INNER, TINY, Entries, Flags, Places, Single, StandardizedRows
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
MOST_COLUMNS = 1024
"""Columns off the support that rows are judged by, sampled where there are more."""
MOST_VALUES = 8_000_000
"""Values that are held for it at a time, 64 MB: of many rows fewer columns are read."""
RUN = 32
"""Neighbouring columns that are read together when columns are sampled: single ones would touch as much memory."""
LEAST_COLUMNS = 32
"""Columns that are read however many rows there are: `FOR_SIZE` of them are needed to judge a row's size."""


def limit(n: int) -> float:
    """Return √(2 ln n) + 1, about one deviation more than the farthest of n normal values has."""
    return math.sqrt(2 * math.log(n)) + 1


def row_scores(
    scores: FloatArray,
    kinds: Mapping[int, str],
    reasons: Mapping[int, tuple[int, ...]],
    *,
    aligned: int | None = None,
    before: RowScores | None = None,
) -> RowScores:
    """Return rows with these scores of which some are suspects, of a kind and for reasons; by kind, the worst first.

    ``aligned`` is given where more than one row belong to what is off together, ``before`` where others have been seen
    to be suspects: scores only grow.
    """
    aligned = list(kinds.values()).count(TOGETHER) if aligned is None else aligned
    if before is not None:
        known, aligned = before.suspects.tolist(), aligned + before.aligned
        kinds = {**dict(zip(known, before.kinds, strict=True)), **kinds}
        reasons = {**dict(zip(known, before.reasons, strict=True)), **reasons}
        scores = np.maximum(before.scores, scores)
    # Rounded, as places of copies differ in the last digits of single precision.
    order = sorted(kinds, key=lambda i: (KINDS.index(kinds[i]), -round(float(scores[i]), SHOWN), i))
    suspects = np.array(order, dtype=np.intp)
    weights = np.ones(scores.size)
    weights[suspects] = 0.0
    return RowScores(
        scores, weights, suspects, aligned, tuple(reasons[i] for i in order), tuple(kinds[i] for i in order)
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


def score_rows(values: FloatArray, *, most: int | None = None, features: IntArray | None = None) -> RowScores:
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
    of the rows. To stand apart takes a gap in the tail, see `directions.apart`, and rows that lie denser above it than
    in it: a skewed factor as the activity of users has a long tail, but no gap.

    Directions are the leading eigenvectors of the rows that are left, so that nothing depends on a seed; up to
    `arrays.ALL_VALUES` nothing depends on the order of rows either, beyond, a sample of them tells scales. Where
    lengths of rows are spread wider than independent columns make them, rows are divided by their length first: then no
    row has more leverage than another. Of sums of squares the cube root is judged: it is close to normal also where
    columns depend on each other and the sum is one of few independent terms (Wilson and Hilferty 1931, PNAS 17).

    ``features`` are the numbers that columns are named by, 0, 1, … by default.

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
    return judge_rows(StandardizedRows(values, features=features), most=most)


def screening_columns(shape: tuple[int, int], *, screen_rows: bool = True) -> IntArray:
    """Return the columns that rows are judged by where they are off the support: all of a few, else runs of neighbours.

    They are known before anything is read and do not depend on the seed, so that neither do the suspects.
    """
    n, d = shape
    most = min(MOST_COLUMNS, max(LEAST_COLUMNS, MOST_VALUES // n))
    if d <= most or not screen_rows:
        return np.arange(d if screen_rows else 0)
    strata = np.linspace(0, d - RUN, most // RUN + 1)
    first = np.random.default_rng(0).uniform(strata[:-1], strata[1:]).astype(np.intp)
    return np.unique(first[:, np.newaxis] + np.arange(RUN))


def judge_rows(table: StandardizedRows, *, most: int | None = None) -> RowScores:
    """Score rows that are in units of their columns, see `score_rows`."""
    n = table.ratios.shape[0]
    seen = Judgement(np.zeros(n), np.ones(n, dtype=bool), int(MOST_ALLOWED * n) if most is None else most)
    # Rows off together come first, or they would go as large ones and not count as aligned.
    judge_directions(table, seen, kind=TOGETHER, bound=limit(n))
    table.release()
    judge_tails(table, seen, kind=TOGETHER, bound=limit(n))
    _judge_by_size(table, seen)
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


def _judge_by_size(table: StandardizedRows, seen: Judgement) -> None:
    """Reject rows that stand apart by their size and lean to one side, or are the same, far ones, and the large rest.

    Large rows that are the same take no tail to be held against, so that few are enough.
    """
    sizes, worth = _sizes(table)
    away = robust_z(sizes, seen.kept, worth)
    rows = apart(away, seen.kept, limit(away.size))
    others = seen.kept.copy()
    others[rows] = False
    # Sizes of clipped rows crowd at their upper end: what lies there lies beyond no real gap.
    if rows.size and away[rows].min() - away[others].max(initial=0.0) >= STEP:
        rows = rows[: seen.margin()]
        scaled = table.scaled.take(rows)
        if leaning(scaled).any():  # then the gap has set all of them apart, whatever the side of one of them
            seen.scores[rows] = np.maximum(seen.scores[rows], away[rows])
            seen.reject(rows, TOGETHER, reasons_of_group(table, table.scaled, rows, scaled.sum(axis=0)))
            away = robust_z(sizes, seen.kept, worth)
    rows = np.flatnonzero(seen.kept & (away > limit(away.size)))
    if rows.size >= TOGETHER_FROM:
        rows = rows[copies(table.ratios.take(rows))][: seen.margin()]
    if rows.size >= TOGETHER_FROM:
        seen.scores[rows] = np.maximum(seen.scores[rows], away[rows])
        seen.reject(rows, TOGETHER, _largest(table, rows))
    _judge_columns(table, seen)
    away = robust_z(sizes, seen.kept, worth)
    large = np.flatnonzero(seen.kept & (away > limit(away.size)))
    seen.see(away)
    if large.size:
        seen.reject(large, LARGE, _largest(table, large))


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


# Values beyond a gap in the tail of their column, and rows that are alike.

FAR = 6.0
"""In median sizes of a column: what is beyond may be far, from `INNER` on to here it tells how the tail falls."""
APART = 2.0
"""Ratio of neighbouring values that is a gap in the tail of a column, at least."""
FIRST_BIT = 22
"""Of a single-precision number: bits of its fraction after the first."""
TELLING = 40
"""Values that tell how a tail falls, at most: more would tell ever more exactly of a power that it has not."""
HEAVIEST = 1.0
"""Mean spacing of a tail just too heavy for a mean, in place of one more value: few values tell little of a tail."""
SHARED = 6.0
"""Values by which the tails of all columns together speak in each: one mostly zero has too few of its own."""
SURELY = 3.0
"""Standard deviations of a number of far values beyond which a row has unusually many."""
ONE_WAY = 0.9
"""Mean cosine with the others of rows that go one way, however few they are."""
LEANING = 6.0
"""Standard deviations of the agreement between rows beyond which they are said to lean to the same side."""
ALIKE = 0.01
"""Share of their size by which rows differ that are copies, at most: heavy users are alike, but by no means so much."""


class FarValues(NamedTuple):
    """Values beyond a gap in the tail of their column: where, how often as large as what is below, and how surely."""

    row: Places
    column: Places
    excess: FloatArray
    evidence: FloatArray
    """−log p of the gap of its column."""


def far_values(tails: Entries, shape: tuple[int, int]) -> FarValues:
    """Return the values beyond gaps in the tails of the columns: of those beyond `INNER`, in units of their median.

    A gap after the k largest values counts where the larger ones are twice as large, at least, and the tail does not
    explain it: the mean spacing is that of values between `INNER` and `FAR`, as if all beyond were censored.
    """
    n, p = shape
    outer = np.abs(tails.value)
    at = np.flatnonzero(outer > FAR)
    row, column, value = tails.row[at], tails.column[at], outer[at]
    if not row.size:
        return FarValues(row, column, value.astype(np.float64), value.astype(np.float64))
    counts = np.bincount(row, minlength=n)
    censored = np.log(np.minimum(outer, np.float32(FAR)) / np.float32(INNER))
    exposure = np.bincount(tails.column, weights=censored, minlength=p)
    within = np.bincount(tails.column[outer <= FAR], minlength=p)
    # Rows with far values in many columns say nothing of what the tails have in common.
    usual = float(middle(counts))
    spoken = (counts <= usual + SURELY * math.sqrt(usual + 1))[tails.row]
    common = SHARED * (float(censored[spoken].sum()) + HEAVIEST) / (np.count_nonzero(outer[spoken] <= FAR) + 1)
    of_column, rank, upper, lower = _wide_gaps(column, value, p)
    spacing = np.log(upper / lower)
    m = within[of_column] + 1 + SHARED
    # What lies beyond the gap says nothing of the tail before it.
    before = np.maximum(exposure[of_column] - rank * math.log(FAR / INNER), 0.0) + HEAVIEST + common
    told = np.minimum(m, TELLING)
    evidence = told * np.log1p(rank * spacing * m / (before * told))
    gap = (spacing >= math.log(APART)) & (rank <= MOST_ALLOWED * n) & (evidence > math.log(row.size / BY_CHANCE))
    border, surety = np.full(p, np.inf), np.zeros(p)
    border[of_column[gap]], surety[of_column[gap]] = lower[gap], evidence[gap]  # the lowest gap of a column comes last
    far = np.flatnonzero(value > border[column])
    far = far[np.lexsort((-value[far], column[far]))]
    row, column = row[far], column[far]
    return FarValues(row, column, value[far] / border[column], surety[column])


def _wide_gaps(column: Places, value: Single, p: int) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return the column of every gap in which values beyond `FAR` double, how many lie above it, and its two ends.

    Values are told apart by their exponent and first bit alone: from x to 2x lies one such class at least, which is
    empty where there is a gap, so that nothing needs to be sorted. `FAR` itself is where the lowest one begins. Of the
    gaps of a column the highest comes first.
    """
    kind = (value.view(np.int32) >> FIRST_BIT) - (int(np.float32(FAR).view(np.int32)) >> FIRST_BIT) + 1
    width = int(kind.max()) + 1
    cell = column * np.int64(width) + kind
    count = np.bincount(cell, minlength=p * width).reshape(p, width)
    lowest, highest = np.full((p, width), np.inf, dtype=np.float32), np.full((p, width), FAR, dtype=np.float32)
    np.minimum.at(lowest.reshape(-1), cell, value)
    np.maximum.at(highest.reshape(-1), cell, value)
    filled = np.where(count > 0, np.arange(width), 0)
    under = np.maximum.accumulate(filled, axis=1)[:, :-1]  # the next class below that is not empty, or the border
    of_column, at = np.nonzero(filled[:, 1:] - under > 1)
    of_column, at = of_column[::-1], at[::-1]
    above = np.cumsum(count[:, :0:-1], axis=1)[:, ::-1]
    ends = lowest[of_column, at + 1], highest[of_column, under[of_column, at]]
    return of_column, above[of_column, at], ends[0].astype(np.float64), ends[1].astype(np.float64)


def no_coincidence(counts: IntArray) -> int:
    """Return the number of far values from which on it is no coincidence that a row has so many.

    One far value is what heavy tails make. Were they scattered over the rows, their number in a row would be about
    Poisson, by which `BY_CHANCE` rows are expected to have as many, at most, once those that do are left out; and
    those that do are more than all far values together explain.
    """
    from scipy.special import pdtrc

    n, most = counts.size, int(counts.max(initial=0))
    for least in range(2, most + 1):
        beyond = counts >= least
        expected = n * pdtrc(least - 1, counts.mean())
        of_others = n * pdtrc(least - 1, counts[~beyond].sum() / n)
        if of_others <= BY_CHANCE and pdtrc(int(beyond.sum()) - 1, expected) <= BY_CHANCE / 10:
            return least
    return most + 1


def leaning(x: Single) -> Flags:
    """Say which of some rows lean to the same side as the others: none where they agree no more than by chance.

    With signs of the rows at random Σ_{i≠j} ⟨x_i, x_j⟩, of rows of length one, has mean 0 and variance
    2 Σ_{i≠j} ⟨x_i, x_j⟩².
    """
    x = x / np.maximum(np.linalg.norm(x, axis=1), TINY)[:, np.newaxis]
    agreement = np.asarray(x @ x.T, dtype=np.float64)
    np.fill_diagonal(agreement, 0.0)
    if agreement.sum() <= LEANING * math.sqrt(2 * float(np.sum(agreement**2))):
        alike = agreement.sum(axis=1) > ONE_WAY * (x.shape[0] - 1)  # few rows, but all of them agree in nearly all
        return np.asarray(alike & (np.sum(alike) >= TOGETHER_FROM))
    return np.asarray(agreement.sum(axis=1) > 0)


def copies(x: Single) -> Flags:
    """Say which of some rows are the same as two others at least, up to `ALIKE` of their size."""
    size = np.abs(x).sum(axis=1, dtype=np.float64)
    order = np.argsort(size, kind="stable")
    near = np.abs(np.diff(x[order], axis=0)).sum(axis=1, dtype=np.float64) <= ALIKE * size[order[1:]]
    three = np.flatnonzero(near[1:] & near[:-1])
    same = np.zeros(x.shape[0], dtype=bool)
    same[order[(three[:, np.newaxis] + np.arange(TOGETHER_FROM)).ravel()]] = True
    return same


# Rows that run into the rest: none can be named, but along columns that agree one tail is longer than the other.

AGREEING = 64
"""Columns that are looked at for it, at most."""
ENDS = 4.5
"""Clip in median deviations of a column, three standard ones of normal values."""
OUTER, FEWEST = 0.35, 8
"""Share of the rows, and rows, among which one side must lead: the middle says nothing of bad rows."""
LEAD = 4.5
"""Standard deviations by which it leads: of 10,000 sequences of fair coins, up to 2000 rows long, fewer than 1 do."""
OFF_CENTRE, STILL = 3.0, 2.0
"""And if the middle were so many of its standard errors higher, which few rows in the middle make wide."""
SPARE = 1.5
"""Standard deviations that are added to the number of rows by which one side leads."""
SPEAKING = 0.5
"""Of the largest weight of a direction: columns with less have no part in it."""
TIED = 0.1
"""Share of the values that are the median from which on a column has no two sides to compare."""
CROWDED = 0.75
"""Of the nearer end: sums beyond are as far as each other, whatever the centre."""
DIRECTIONS, SCALED_BY = 3, 2048
"""Directions that are looked at, and rows that tell the scale of a column."""


def unnamed_rows(values: FloatArray) -> tuple[int, IntArray]:
    """Count rows that lie to one side along what some columns agree in beyond those that mirror them on the other.

    Where no row is bad and noise is symmetric, a sum over columns is as often as far below its centre as above it, also
    if columns or rows have something in common. Bad rows lie where they have pulled centres to. Returned are how many
    more lie there, and a margin, with the places of the columns that show it; 0 where that may be chance. A factor that
    is skewed looks the same.

    Examples
    --------
    >>> values = np.random.default_rng(0).standard_t(3, (600, 4)) + 0.1
    >>> unnamed_rows(values)[0]
    0
    >>> values[:60] += 3
    >>> count, columns = unnamed_rows(values)
    >>> 60 <= count < 120, columns
    (True, array([0, 1, 2, 3]))
    """
    centre, best = medians(values), (0, np.empty(0, dtype=np.intp))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        away = np.subtract(values, centre, order="C")
        unit = scales(away, 1 + away.shape[0] // SCALED_BY)
        at = np.flatnonzero((unit > 0) & (np.mean(away == 0, axis=0) <= TIED))
        away = np.clip(away[:, at] * (np.sign(centre) / unit)[at], -ENDS, ENDS)
    away[np.isnan(away)] = 0.0
    n, p = away.shape
    if p < 2 or OUTER * n < FEWEST:
        return best
    squares = np.einsum("ij,ij->i", away, away)
    # Of independent columns the largest variance is about the upper end of the law of Marchenko and Pastur; rows with
    # scales of their own count as fewer.
    wide = p * np.mean(squares**2) / np.mean(squares) ** 2 / n
    variances, directions = np.linalg.eigh(away.T @ away / n)
    agreed = variances >= np.mean(squares) / p * (1 + np.sqrt(wide)) ** 2
    for v in (directions * np.where(directions.sum(axis=0) < 0, -1, 1)).T[agreed][-DIRECTIONS:]:
        v[v <= SPEAKING * np.abs(v).max()] = 0.0
        speaking = np.flatnonzero(v)
        count = _leading(np.sort(away @ v)) if speaking.size > 1 else 0
        best = max(best, (count, at[speaking]), key=lambda found: found[0])
    return best


def _leading(places: FloatArray) -> int:
    """Return by how many rows, and a margin, the upper tail of sorted places leads over the lower one."""
    n = places.size
    lead, ahead, _ = _lead_of(places, float(np.median(places)))
    higher = places[min(n - 1, int(n / 2 + OFF_CENTRE * math.sqrt(n) / 2))]
    if lead < LEAD or _lead_of(places, float(higher))[0] < STILL:
        return 0
    lead, ahead, mirrored = _lead_of(places, float(np.median(places[: n - max(0, ahead)])))
    return math.ceil(ahead + SPARE * math.sqrt(max(1, mirrored))) if lead >= LEAD else 0


def _lead_of(places: FloatArray, centre: float) -> tuple[float, int, int]:
    """Return by how much those above a centre lead among the farthest, in deviations and in rows, and the others."""
    away = places - centre
    reach = CROWDED * min(away[-1], -away[0])  # clipped sums crowd at their ends: those are as far on either side
    size = np.minimum(np.abs(away), reach)
    farthest = np.argsort(-size, kind="stable")
    ahead, k = np.cumsum(np.sign(away[farthest])), np.arange(1, away.size + 1)
    at = np.flatnonzero(np.diff(size[farthest], append=-1.0) < 0)  # rows that are as far as each other come together
    at = at[(k[at] >= FEWEST) & (k[at] <= OUTER * away.size)]
    if not at.size:
        return 0.0, 0, 0
    most = at[int(np.argmax(ahead[at]))]
    return float(np.max(ahead[at] / np.sqrt(k[at]))), int(ahead[most]), int(k[most] - ahead[most])
