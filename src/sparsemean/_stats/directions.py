"""Directions that some rows have in common and along which they stand apart from all others.

Leading directions are sought among all columns, clipped, and where far values of several columns meet. Rows on one side
of a gap along one of them, see `apart`, are a group; it is taken out and directions are sought again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._kernels import columns as column_loops
from sparsemean._stats.arrays import GAUSSIAN, middle, namespace, near, on_device, on_host, some_rows
from sparsemean._stats.descent import Values, top_eigenpairs
from sparsemean._stats.standardized import TAIL, TINY, Entries, Flags, Rows, Single, StandardizedRows, of_one_length
from sparsemean._util.records import FloatArray, IntArray

if TYPE_CHECKING:
    from sparsemean._kernels.gpu_blocks import DeviceSpace

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
NO_GAP = 1.2
"""Where no two neighbouring variances along leading directions differ by that factor, noise has no common factor."""
NOTHING_LEFT = 1e-5
"""Share of a vector that the ones before leave of it where they span all there is."""
TALL = 4
"""Rows a column from which on the products of columns are formed once: cheaper than to pass over the rows each time."""
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
ENOUGH = 5000
"""Rows of a group that tell what sets it apart: the farthest."""
AT_ONCE = 400_000
"""Places that are looked at together: more would not stay near."""
TOLD_BY = 32
"""In place of columns: of the places of so many rows as `some_rows` takes of such a table the median is that of all."""
Reasons = Iterable[tuple[int, ...]]


@dataclass(slots=True)
class Judgement:
    """What has been seen of the rows so far."""

    scores: FloatArray
    kept: Flags
    most: int
    kinds: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def margin(self) -> int:
        return max(0, self.most - len(self.kinds))

    def see(self, away: FloatArray) -> None:
        """Raise the scores of the rows that are left: others keep the score that they were rejected for."""
        np.maximum(self.scores, away, out=self.scores, where=True if self.kept.all() else self.kept)

    def reject(self, rows: IntArray, kind: str, reasons: Reasons) -> None:
        self.kept[rows] = False
        self.kinds |= dict.fromkeys(rows.tolist(), kind)
        self.reasons |= dict(zip(rows.tolist(), reasons, strict=True))


def robust_z(x: Values, kept: Flags, worth: FloatArray | None = None) -> Values:
    """Return how many robust deviations values, in the last axis, lie above the median of those kept.

    They count by what they are worth, if that is given. Of many rows some tell the median and the deviation.
    """
    if worth is not None:
        kept = kept & (worth > 0)
    told = some_rows(kept.size, TOLD_BY)
    there = kept[told]
    if not there.any():
        return np.zeros_like(x)
    of_kept = slice(None) if there.all() else there  # a slice copies nothing
    away: Values = x - middle(x[..., told][..., of_kept])[..., np.newaxis]
    if worth is not None:
        away *= worth
    spread = GAUSSIAN * middle(np.abs(away[..., told][..., of_kept]))
    away *= np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)[..., np.newaxis]
    return away


def judge_directions(table: StandardizedRows, seen: Judgement, *, kind: str, bound: float) -> None:
    """Reject rows that stand apart together along one of the leading directions, which are then sought again."""
    n, p = table.scaled.shape
    if n <= TOGETHER_FROM or p < 2:
        return
    rows, far = _alike_in_length(table, bound)
    gram = rows.gram() if p <= EXACT or n >= TALL * p or rows.on_device else None
    for _ in range(ROUNDS):
        weight = seen.kept.astype(np.float32)
        count, sums = float(weight.sum()), rows.pull(weight)
        if gram is not None:
            directions, variances = leading(gram, sums, count)
        else:
            vary = partial(rows.product, weight, centre=sums / np.float32(max(count, 1)))
            directions, variances = _lanczos(partial(Space, vary), p)
        group, common = _first_group(rows, far, directions, seen=seen)
        if not group.size:
            table.variances = variances if rows is table.scaled else None
            break
        seen.reject(group, kind, reasons_of_group(table, table.scaled, group, common))
        if gram is not None:
            gone = near(gram, rows.take(group))
            gram -= gone.T @ gone


def judge_tails(table: StandardizedRows, seen: Judgement, *, kind: str, bound: float) -> None:
    """Do the same along directions of few columns, which clipping hides: they are sought where far values meet.

    Heavy tails put far values anywhere, but not the same rows into the same columns: squares of single columns do not
    count, and a row must stand apart without the column in which it does so most.
    """
    n, p = table.scaled.shape
    if n <= TOGETHER_FROM or p < 2:
        return
    wide = table.winsorized() if table.scaled.on_device else None
    tails = table.winsorized_tails() if wide is None else wide.parts[0][0]
    for _ in range(ROUNDS):
        met, sums = _meeting(tails, seen.kept, p) if isinstance(tails, Entries) else _meeting_there(tails, seen.kept)
        if float(met.max()) < TOGETHER_FROM * TAIL**2:
            break
        wide = wide or table.winsorized()
        both = met + met.T if isinstance(tails, Entries) else met
        directions, _ = leading(both, sums, float(np.sum(seen.kept)))
        group, common = _first_group(wide, bound, directions, seen=seen)
        group = _without_one_column(wide, group, common, bound)
        if group.size < TOGETHER_FROM:
            break
        seen.reject(group, kind, reasons_of_group(table, wide, group, common))


def _meeting(tails: Entries, kept: Flags, p: int) -> tuple[Single, Single]:
    """Return the products of every two columns summed over the far values that the same rows have there, and sums.

    The products lie above the diagonal: most often none is large, and nothing else is asked of them.
    """
    first = np.searchsorted(tails.row, np.arange(kept.size + 1))
    met = np.zeros((p, p), dtype=np.float32)
    column_loops.meet(tails.value, tails.column, first, kept, met)
    of_kept = kept[tails.row]
    sums = np.bincount(tails.column[of_kept], weights=tails.value[of_kept], minlength=p)
    return met, sums.astype(np.float32)


def _meeting_there(rows: Single, kept: Flags) -> tuple[Single, Single]:
    """Return the same of all winsorized rows, on a device: products of all columns cost less than to find few."""
    xp, each = namespace(rows), np.arange(rows.shape[1])
    tails = xp.where(abs(rows) > TAIL, rows, np.float32(0)) * near(rows, kept.astype(np.float32))[:, np.newaxis]
    met = tails.T @ tails
    met[near(rows, each), near(rows, each)] = 0
    return met, on_host(tails.sum(axis=0))


def _without_one_column(wide: Rows, rows: IntArray, common: Single, bound: float) -> IntArray:
    """Return those of the rows that stand apart in a direction without the column in which they do so most."""
    if not rows.size:
        return rows
    parts = wide.take(rows) * common
    places = wide.places(common[:, np.newaxis])[0]
    deviation = GAUSSIAN * float(middle(np.abs(places[some_rows(places.size, TOLD_BY)])))
    return np.asarray(rows[parts.sum(axis=1) - parts.max(axis=1) > bound * deviation])


def _first_group(rows: Rows, far: float, directions: Single, *, seen: Judgement) -> tuple[IntArray, Single]:
    """Return the first group that stands apart along a direction, and what its rows have in common."""
    places = rows.places(directions)
    every: Iterable[Single] = (robust_z(one, seen.kept) for one in places)
    if 0 < places.size <= AT_ONCE:
        every = at_once = robust_z(places, seen.kept)
        if at_once.max() <= far and at_once.min() >= -far:  # as most often
            seen.see(np.maximum(at_once.max(axis=0), -at_once.min(axis=0)))
            every = ()
    for along in every:
        seen.see(np.abs(along))
        sides = [np.flatnonzero(seen.kept & beyond) for beyond in (along > far, along < -far)]
        for side in sorted(sides, key=len, reverse=True):
            if side.size >= TOGETHER_FROM and seen.margin():
                group, common = _group(rows, side, far, seen=seen)
                if group.size:
                    return group, common
    return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32)


def _alike_in_length(table: StandardizedRows, bound: float) -> tuple[Rows, float]:
    """Return rows of the same length, if they have scales of their own, and from where on a place is far."""
    rows, p = table.scaled, table.scaled.shape[1]
    mean_square = rows.squares / np.maximum(rows.counts, 1.0)
    told = some_rows(rows.shape[0], TOLD_BY)
    there = mean_square[told][rows.counts[told] > 0]
    usual = float(middle(there)) if there.size else 0.0
    spread = GAUSSIAN * float(middle(np.abs(there - usual))) if there.size else 0.0
    if spread <= OWN_SCALE * math.sqrt(rows.variance_of_squares()) / p or not usual > 0:
        return rows, bound
    table.release()
    lengths = np.sqrt(np.maximum(mean_square, SMALL**2 * usual)).astype(np.float32)
    return table.scaled.seen(of_one_length, lengths, p=p).held(), min(bound, WAY * math.sqrt(p))


def _group(table: Rows, rows: IntArray, far: float, *, seen: Judgement) -> tuple[IntArray, Single]:
    """Return the rows that stand apart along what ``rows`` have in common, the farthest first, and that direction."""
    common = np.empty(0, dtype=np.float32)
    for _ in range(TURNS):
        total = table.total(rows)
        length = float(np.linalg.norm(total))
        common = total / np.float32(max(length, TINY))
        places = table.places(common[:, np.newaxis])[0]
        # A row is judged by what the others have in common, or its own noise would speak against itself.
        own = table.squares[rows]
        along_total = table.take(rows) @ total
        others = length**2 - 2 * along_total + own
        if not table.whole:
            others = table.present((total**2)[:, np.newaxis])[0][rows] - 2 * along_total + own
        places[rows] = (along_total - own) / np.sqrt(np.maximum(others, TINY))
        along = robust_z(places, seen.kept)
        before, rows = rows, apart(along, seen.kept, far)
        if rows.size < TOGETHER_FROM:
            return rows[:0], common
        if np.array_equal(np.sort(before), np.sort(rows)):
            break
    rows = rows[: seen.margin()]
    seen.scores[rows] = np.maximum(seen.scores[rows], along[rows])
    return rows, common


def reasons_of_group(table: StandardizedRows, seen_in: Rows, rows: IntArray, common: Single) -> Reasons:
    """Name for each row of a group those of the columns that set it apart where the row exceeds the others most.

    What sets the group apart is about the same for all: of columns that speak alike each row names its own.
    """
    speak = middle(np.ascontiguousarray(seen_in.take(rows[:ENOUGH]).T)) * common
    most = np.argsort(-speak, kind="stable")[:NAMED]
    columns = table.judging[most[speak[most] >= SPEAKS * speak.max()]]
    sizes = np.abs(table.ratios.take(rows, columns))
    more = sizes - middle(sizes.T)
    more /= np.maximum(middle(np.abs(more).T), TINY)
    return (table.features(columns[order], REASONS) for order in np.argsort(-more, axis=1, kind="stable"))


def leading(gram: Single, sums: Single, count: float) -> tuple[Single, FloatArray | Single]:
    """Return the leading eigenvectors of products of columns, less those of their means, and eigenvalues."""
    total = np.float32(max(count, 1))
    centre = sums / total
    if centre.size <= EXACT:
        varied = np.asarray(on_host(gram) - total * np.outer(centre, centre), dtype=np.float32)
        values, vectors = top_eigenpairs(varied, DIRECTIONS + 1)
        return vectors[:, :DIRECTIONS], values
    if on_device(gram):
        from sparsemean._kernels.gpu_blocks import DeviceSpace

        return _lanczos(partial(DeviceSpace, gram, sums, centre), centre.size)
    return _lanczos(partial(Space, lambda v: gram @ v - (total * (centre @ v)) * centre), centre.size)


class Space:
    """Vectors of Lanczos' method, each made of the image of the last, less what lies along those before.

    ``images`` are that which the first is made of, and those of all vectors.
    """

    def __init__(self, vary: Callable[[Single], Single], *, start: Single, most: int, tiny: float) -> None:
        self.vary, self.size, self.tiny = vary, 0, tiny
        self.basis, self.images = np.empty((2, most + 1, start.size), dtype=np.float32)
        self.images[0], self.left = start, np.zeros(most, dtype=np.float32)

    def grow(self, size: int) -> Single:
        """Add vectors up to so many, and return the share that those before have left of each."""
        for k in range(self.size, size):
            v, before = self.images[k], self.basis[:k]
            v = v / max(np.sqrt(v @ v), self.tiny)
            for again in range(2):  # once more, as rounding leaves a part of what is taken out
                v = v - (before @ v) @ before
                length = np.sqrt(v @ v)
                v = v / max(length, self.tiny)
                if not again:
                    self.left[k] = length
            self.basis[k], self.images[k + 1] = v, self.vary(v)
        self.size = size
        return self.left[:size]


def _lanczos(make: Callable[..., Space | DeviceSpace], p: int) -> tuple[Single, FloatArray]:
    """Return the leading eigenvectors of a product with a symmetric matrix, by Lanczos' method with all vectors kept.

    Of the eigenvalues, which fall, those after the first few are somewhat too small. Where the matrix lies on a device,
    the host waits for it once in `EVERY` steps. The first vector is any that is the same each time: that nothing shows
    in it is as unlikely as for a random one.
    """
    size, last, most = 0, 0.0, min(STEPS, p)
    space = make(start=np.random.default_rng(0).standard_normal(p).astype(np.float32), most=most, tiny=TINY)
    with np.errstate(invalid="ignore"):
        while size < most:
            size = min(size + EVERY, most)
            new = int(np.argmax(np.append(space.grow(size) <= NOTHING_LEFT, True)))
            products = on_host(space.basis[:new] @ space.images[1 : new + 1].T)
            now = float(np.linalg.eigvalsh(products)[-1])
            if new < size or now - last <= SETTLED * now:
                break
            last = now
    values, turn = np.linalg.eigh(products.astype(np.float64))
    turn = turn[:, : -DIRECTIONS - 1 : -1].astype(np.float32)
    return on_host(space.basis[: len(turn)].T @ near(space.basis, turn)), values[::-1]


def may_have_factors(variances: FloatArray | Single | None) -> bool:
    """Whether variances along leading directions, in falling order, leave room for a gap that sets factors apart."""
    if variances is None or variances.size <= DIRECTIONS:
        return True
    return bool(np.any(variances[:DIRECTIONS] > NO_GAP * variances[1 : DIRECTIONS + 1]))


# Gaps in tails: which values stand apart from the others rather than at the end of them.
#
# The largest values of a tail that falls like a power have independent spacings: with x₁ ≥ x₂ ≥ … the
# k·log(x_k/x_{k+1}) are exponential with one mean (Rényi 1953, Acta Math. Hung. 4). So how much wider than those below
# it a spacing is has an F distribution whatever the power. Tails that fall faster, which nearly all do, have narrower
# spacings farther out: the test is then on the safe side.

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
