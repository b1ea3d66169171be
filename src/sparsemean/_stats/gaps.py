"""Gaps in tails: which values stand apart from the others rather than at the end of them.

The largest values of a tail that falls like a power have independent spacings: with x₁ ≥ x₂ ≥ … the k·log(x_k/x_{k+1})
are exponential with one mean (Rényi 1953, Acta Math. Hung. 4). So how much wider than those below it a spacing is has
an F distribution whatever the power. Tails that fall faster, which nearly all do, have narrower spacings farther out:
the test is then on the safe side.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from sparsemean._stats.arrays import middle
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.standardized import INNER, TINY, Entries, Flags, Places, Single
from sparsemean._util.records import FloatArray, IntArray

BY_CHANCE = 0.1
"""Gaps expected where there are none, at most: along a direction, or in all columns of a table together."""
TOGETHER_FROM = 3
"""Rows above a gap that are a group, at least: one or two are what a direction fitted to the data finds anywhere."""
BELOW, LEAST_BELOW = 50, 5
"""Spacings below a gap that tell how the tail falls, at most and at least."""
WIDTHS = (1, 2, 4, 8, 16)
"""Spacings that make a gap: a few values may lie in it."""
RISE = 3.0
"""How much denser values above a gap lie than in it. Heavy users are a tail that grows ever thinner, bots a clump."""
BULK = 1.0
"""In deviations: what lies below belongs to the middle rather than to the tail."""
ONE_GOOD = 0.25
"""Normal values expected beyond where a gap may be."""
FAR = 6.0
"""In median sizes of a column: what is beyond may be far, from `INNER` on to here it tells how the tail falls."""
APART = 2.0
"""Ratio of neighbouring values that is a gap in the tail of a column, at least."""
FURTHER = 100.0
"""More than the logarithms of values differ: it keeps columns apart where values of all of them are sorted at once."""
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


def apart(s: FloatArray, kept: Flags, bound: float) -> IntArray:
    """Return the rows above the surest gap in the upper tail of ``s``, in deviations, the farthest first; or none.

    `TOGETHER_FROM` of the rows ``kept`` have to lie beyond ``bound``, and the gap where at most `ONE_GOOD` normal value
    is expected.
    """
    if np.count_nonzero(kept & (s > bound)) < TOGETHER_FROM:
        return np.empty(0, dtype=np.intp)
    low = min(NormalDist().inv_cdf(1 - ONE_GOOD / kept.size), 0.8 * bound)
    most = int(np.count_nonzero(kept & (s > low)))
    if most < TOGETHER_FROM:
        return np.empty(0, dtype=np.intp)
    rows = _largest(s, np.flatnonzero(kept & (s > 0)), most + WIDTHS[-1] + BELOW + 1)
    s = s[rows].astype(np.float64)
    # Many rows far off widen the deviation, so that little of the tail lies beyond one: some of it is needed still.
    s = s[: max(int(np.sum(s >= BULK)), most + 2 * LEAST_BELOW)]
    return rows[: _surest(s, np.arange(TOGETHER_FROM, most + 1))]


def _largest(s: FloatArray, rows: IntArray, most: int) -> IntArray:
    """Return those of the rows with the largest values, which fall: no gap is looked for beyond them."""
    if rows.size > most:
        rows = rows[s[rows] >= np.partition(s[rows], rows.size - most)[rows.size - most]]
    return np.asarray(rows[np.argsort(-s[rows], kind="stable")])


def _surest(s: FloatArray, above: IntArray) -> int:
    """Return how many of the falling values ``s`` lie above the surest gap of those after ``above``; 0: no gap is."""
    from scipy.special import betainc

    spacings = np.arange(1, s.size) * -np.diff(np.log(s))
    total = np.concatenate(([0.0], np.cumsum(spacings)))
    surest, cut = math.log(len(WIDTHS) * max(1, above.size) / BY_CHANCE), 0
    for width in WIDTHS:
        first = above[above + width - 1 + LEAST_BELOW <= spacings.size]
        if not first.size:
            break
        last = first + width - 1
        end = np.minimum(last + BELOW, spacings.size)
        m = end - last
        mean = np.maximum((total[end] - total[last]) / m, TINY)
        ratio = (total[last] - total[first - 1]) / mean
        evidence = -np.log(np.maximum(betainc(m, width, m / (m + ratio)), np.finfo(float).tiny))
        quarter = first // 4
        within = (s[quarter] - s[first - 1 - quarter]) / (first - 1 - 2 * quarter)
        evidence[s[first - 1] - s[last] < RISE * width * within] = 0.0
        best = np.lexsort((ratio, evidence))[-1]  # by the ratio where p-values are too small to be told apart
        if evidence[best] > surest:
            surest = float(evidence[best])
            gap = np.arange(first[best], last[best] + 1)
            cut = int(gap[np.argmax(s[gap - 1] - s[gap])])
    return cut


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
