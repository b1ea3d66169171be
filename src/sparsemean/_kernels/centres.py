"""Sums and differences of sorted values by rank, and centres of many columns, each from one sort.

The specification of centres is `_fit/refinement.py`. The Hodges–Lehmann estimate and its error are the same to the last
bit, as both are sums of two values found by their rank. Student-t centres solve the same equations by Newton's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.compiling import compiled
from sparsemean._kernels.memory_layout import Array, count_threads, each
from sparsemean._util.records import FloatArray, IntArray

LARGEST = np.finfo(np.float64).max
NORMAL = 1 / math.sqrt(4 * math.pi)
"""Density at its centre of the sum of two normal values with a deviation of one: a first guess."""
TRUSTED = 8
"""Looks at sums where a straight line puts them; each leaves about the root of what was left. Then some halve."""
LEAST = 64
"""Sums between two looks that tell a density."""
BOUNDS = np.array([-np.inf, np.inf])
ROUNDS = 100
"""Newton's steps, and where they lead nowhere those of the likelihood: five to ten are enough but for two humps."""
PRECISE = 1e-7
"""In units of the scale: no standard error, 1/√n of it, is as small as that."""
COLLAPSED = 1e-6
"""In units of the first scale: one that falls below this falls to zero, as half of the values are equal. Its square is
what the sums still have to tell from zero."""
BEYOND = 1e50
"""In units of the first scale: values farther out count as lying there, where their weight is nothing already."""


# Sums of two sorted values, by rank. None is written down: those up to a value are counted by a walk along the border.


@compiled()
def step(
    y: Array, value: float, i: int, gap: int, count: int, largest: float, smallest: float
) -> tuple[int, int, float, float]:
    """Compare y_i with its partner ``gap`` places on; if small, count the pairs of y_i with all up to there, both ways.

    Without a branch: which way a step goes is a coin toss that no processor foresees.
    """
    pair = y[np.uintp(i)] + y[np.uintp(i + gap)]
    below = int(pair <= value)
    bound = BOUNDS[np.uintp(below)]
    return i + below, count + (2 * gap + 1) * below, max(largest, min(pair, bound)), min(smallest, max(pair, bound))


@compiled()
def border(y: Array, value: float, steps: int) -> int:
    """Return how many of the first ``steps`` of the walk find a sum up to ``value``."""
    low, high, last = 0, steps, y.size - steps
    while low < high:
        middle = (low + high) >> 1
        if y[np.uintp(middle)] + y[np.uintp(last + middle)] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(plain="reference")
def count_sums(y: Array, value: float) -> tuple[int, float, float]:
    """Return how many sums y_i + y_j of ordered pairs are up to ``value``, the largest of those, the smallest above.

    A walk of n steps from the widest pair: on to the next y_i where the sum is small, back to the last y_j where it is
    large. A step has to wait for the one before, so four quarters of the walk are taken at once.
    """
    quarter, gap = y.size >> 2, y.size - 1
    i0, i1, i2, i3 = 0, border(y, value, quarter), border(y, value, 2 * quarter), border(y, value, 3 * quarter)
    c0 = c1 = c2 = c3 = 0
    l0 = l1 = l2 = l3 = -np.inf
    s0 = s1 = s2 = s3 = np.inf
    for _ in range(quarter):
        i0, c0, l0, s0 = step(y, value, i0, gap, c0, l0, s0)
        i1, c1, l1, s1 = step(y, value, i1, gap - quarter, c1, l1, s1)
        i2, c2, l2, s2 = step(y, value, i2, gap - 2 * quarter, c2, l2, s2)
        i3, c3, l3, s3 = step(y, value, i3, gap - 3 * quarter, c3, l3, s3)
        gap -= 1
    for rest in range(y.size - 4 * quarter):
        i3, c3, l3, s3 = step(y, value, i3, gap - 3 * quarter - rest, c3, l3, s3)
    return c0 + c1 + c2 + c3, max(l0, l1, l2, l3), min(s0, s1, s2, s3)


@compiled(plain="itself")
def score_sum(rank: int, cap: int) -> int:
    """Return Σ min(i, C) over i up to a rank."""
    if rank <= cap:
        return rank * (rank + 1) // 2
    return cap * (cap + 1) // 2 + cap * (rank - cap)


@compiled(plain="itself")
def scores_lost(y: Array, value: float, cap: int) -> tuple[int, float, float]:
    """Return what Σ min(rank of |y_i − v/2|, C) over y_i > v/2 lacks of all scores, and the sums on both sides of it.

    Where ranks are equal those above come first. Scores of the C nearest values are how many pairs of these, each
    with itself too, have a sum above v; all others above have C. Which are nearest changes where the sum of the first
    of them and of the next one to the right is passed, the scores do not.
    """
    low, high = 0, y.size - cap
    while low < high:
        middle = (low + high) >> 1
        if y[middle] + y[middle + cap] <= value:
            low = middle + 1
        else:
            high = middle
    near, own, end = y[low : low + cap], 0, cap
    while own < end:
        middle = (own + end) >> 1
        if near[middle] + near[middle] <= value:
            own = middle + 1
        else:
            end = middle
    count, largest, smallest = count_sums(near, value)
    if low > 0:
        largest = max(largest, y[low - 1] + y[low - 1 + cap])
    if low + cap < y.size:
        smallest = min(smallest, y[low] + y[low + cap])
    return (count + own) // 2 + cap * low, largest, smallest


# Differences of the values of two sorted arrays, by rank: neither are these written down.


@compiled(plain="reference")
def split_differences(a: Array, b: Array, value: float) -> tuple[int, float, float]:
    """Return how many differences a_i − b_j are up to ``value``, the largest of those and the smallest above it."""
    through, above = -np.inf, np.inf
    count = at = 0
    for i in range(a.size):
        while at < b.size and a[i] - b[at] > value:
            at += 1
        count += b.size - at
        if at < b.size:
            through = max(through, a[i] - b[at])
        if at > 0:
            above = min(above, a[i] - b[at - 1])
    return count, through, above


@compiled(plain="itself")
def count_differences(a: Array, b: Array, ends: Array, value: float) -> tuple[int, float, float]:
    """Return the same of the differences within strata, which end in a and in b where ``ends`` says."""
    count, through, above = 0, -np.inf, np.inf
    i = j = 0
    for h in range(ends.shape[1]):
        number, largest, smallest = split_differences(a[i : ends[0, h]], b[j : ends[1, h]], value)
        count, through, above = count + number, max(through, largest), min(above, smallest)
        i, j = ends[0, h], ends[1, h]
    return count, through, above


# The k-th smallest of either, of the sums of ``a`` where no strata end, by narrowing down the range it may lie in. With
# a cap it is that at which so many scores are lost.


@compiled(plain="itself")
def extent(a: Array, b: Array, ends: Array) -> tuple[float, float, int]:
    """Return the smallest of them, the largest and their number."""
    if ends.size == 0:
        return a[0] + a[0], a[a.size - 1] + a[a.size - 1], a.size * a.size
    low, high, total = np.inf, -np.inf, 0
    i = j = 0
    for h in range(ends.shape[1]):
        low, high = min(low, a[i] - b[ends[1, h] - 1]), max(high, a[ends[0, h] - 1] - b[j])
        total += (ends[0, h] - i) * (ends[1, h] - j)
        i, j = ends[0, h], ends[1, h]
    return low, high, total


@compiled(plain="itself")
def order_statistic(
    a: Array, b: Array, ends: Array, k: int, guess: float, density: float, cap: int = 0
) -> tuple[float, int, float]:
    """Return the k-th smallest, how many are up to it, and the next larger one.

    Both ends of the range it may lie in are sums, or differences, themselves, so the answer is exact. The next look is
    where a straight line through the last two puts it, or one through both ends.
    """
    low, high, through = extent(a, b, ends)
    through = score_sum(a.size, cap) if cap > 0 else through
    before, after = 0, np.inf
    value, looks = guess, 0
    seen, seen_count = np.nan, 0
    while low < high:
        if not low <= value < high or (looks > TRUSTED and looks % 2 == 0):
            floor, ceiling, share = max(low, -LARGEST), min(high, LARGEST), (k - before - 0.5) / (through - before)
            value = (1.0 - share) * floor + share * ceiling
            if looks % 4 == 0:  # halve the range of exponents: they may span all there are
                value = math.sqrt(abs(floor)) * math.sqrt(abs(ceiling))
                value = 0.0 if floor < 0.0 < ceiling else math.copysign(value, floor + ceiling)
            if not low <= value < high:
                value = low
        if cap > 0:
            count, largest, smallest = scores_lost(a, value, cap)
        else:
            count, largest, smallest = count_differences(a, b, ends, value) if ends.size else count_sums(a, value)
        if count >= k:
            high, through, after = largest, count, smallest
        else:
            low, before = smallest, count
        if abs(count - seen_count) >= LEAST and abs(value - seen) > 0.0:
            density = (count - seen_count) / (value - seen)
        seen, seen_count = np.float64(value), count  # of a type that may be divided by zero, as Python as well
        value += (k - 0.5 - count) / density
        looks += 1
    return high, through, after


@compiled(plain="itself")
def pair_median(a: Array, b: Array, ends: Array, guess: float, density: float) -> float:
    """Return the median of all of them."""
    _, _, total = extent(a, b, ends)
    lower, through, above = order_statistic(a, b, ends, (total + 1) // 2, guess, density)
    middle = lower if total % 2 == 1 or through > total // 2 else 0.5 * lower + 0.5 * above
    return middle + 0.0  # where it is zero no sign is kept


@compiled(plain="itself")
def hodges_lehmann_error(y: Array, ends: Array, value: float, spread: float) -> float:
    """Return half the distance of the averages one deviation of Wilcoxon's statistic to either side of ``value``."""
    n = y.size
    total, density = n * n, n * n * NORMAL / spread
    reach = math.ceil(2.0 * math.sqrt(n * (n + 1.0) * (2.0 * n + 1.0) / 24.0))
    middle, away = 2.0 * value, np.float64(reach) / density
    low = high = 0.0
    for side in range(2):  # one call, compiled once
        k = max((total + 1) // 2 - reach, 1) if side == 0 else min(total // 2 + 1 + reach, total)
        low = high
        high, _, _ = order_statistic(y, y, ends, k, middle - away if side == 0 else middle + away, density)
    return 0.5 * (0.5 * high) - 0.5 * (0.5 * low)


# The spread about a centre: distances to either side of it are sorted already.


@compiled(plain="itself")
def between(low: float, high: float) -> float:
    """Return the middle of two numbers; their sum may be too large for one."""
    middle = 0.5 * (low + high)
    return middle if abs(middle) <= LARGEST else 0.5 * low + 0.5 * high


@compiled(plain="itself")
def median_distance(y: Array, about: float) -> float:
    """Return the median of all |y_i − about|, one or the middle of two.

    The k + 1 smallest distances are those of neighbours; these begin where the next one to the right is no nearer than
    the first of them.
    """
    lower = upper = 0.0
    for k in ((y.size - 1) // 2, y.size // 2):
        low, high = 0, y.size - 1 - k
        while low < high:
            middle = (low + high) >> 1
            if about - y[middle] > y[middle + k + 1] - about:
                low = middle + 1
            else:
                high = middle
        lower, upper = upper, max(about - y[low], y[low + k] - about)
    return between(lower, upper)


@compiled(plain="itself")
def median_distances(rows: Array, about: Array, out: Array) -> None:
    """Write it for each of many rows of rising values."""
    for f in range(rows.shape[0]):
        out[f] = median_distance(rows[f], about[f])


# Student-t centres: both equations of the likelihood at once, from four sums a step.


@compiled(plain="reference", any_order=True)
def student_sums(z: Array, n: int, centre: float, scale: float, dof: float) -> tuple[float, float, float, float]:
    """Return Σq, Σq², Σqr and Σq²r of q = 1/(ν + r²), r the distance from the centre in units of the scale."""
    inverse = 1.0 / scale
    q_sum = q2_sum = qr_sum = q2r_sum = 0.0
    for i in range(n):
        r = (z[i] - centre) * inverse
        q = 1.0 / (dof + r * r)
        q_sum += q
        q2_sum += q * q
        qr_sum += q * r
        q2r_sum += q * q * r
    return q_sum, q2_sum, qr_sum, q2r_sum


@compiled(plain="itself")
def student_t(z: Array, n: int, dof: float) -> tuple[float, float]:
    """Return the likeliest centre, from 0 and a scale of 1, and its standard error, infinite where it is of no use.

    With u = r²/(ν + r²) = 1 − νq the likelihood is largest where Σqr = 0 and Σu = n/(ν + 1). Newton's method solves
    both for the centre and the logarithm of the scale where the likelihood is concave in them and the step is short.
    Elsewhere a step of its EM algorithm is taken, as the specification does; its scale that of Kent, Tyler and Vardi
    (1994, Commun. Stat. Simul. 23), Σqr²/Σq, which gets there sooner. Values of q alone give Σqr² = n − νΣq, and
    Σψ² and Σψ′ of the sandwich, so that four sums are enough.
    """
    centre, scale = 0.0, 1.0
    for _ in range(ROUNDS):
        q, q2, qr, q2r = student_sums(z, n, centre, scale, dof)
        em = qr / q
        slope, spread = 2.0 * dof * q2 - q, 2.0 * dof * (q - dof * q2)
        skew, mixed = 2.0 * dof * q2r, qr - 2.0 * dof * q2r
        excess = n - dof * q - n / (dof + 1.0)
        determinant = slope * spread + skew * mixed
        concave = slope > 0.0 and spread > 0.0 and determinant > 0.0
        move = (qr * spread + excess * mixed) / determinant if concave else np.inf
        growth = (excess * slope - skew * qr) / determinant if concave else np.inf
        if abs(move) <= 0.5 and abs(growth) <= 1.0:
            factor = math.exp(growth)
        else:
            move, factor = em, math.sqrt(max((n - dof * q) / q - em * em, 0.0))
        centre += move * scale
        settled = abs(move) <= PRECISE and abs(factor - 1.0) <= 1e-3
        if scale * factor < COLLAPSED:
            return centre, np.inf
        if settled:
            error = scale * math.sqrt(q - dof * q2) / slope if slope > 0.0 else np.inf
            return centre, error
        scale *= factor
    return centre, np.inf


# One column after the other of a block, sorted along its rows; NaN comes last there.


@compiled(plain="itself")
def present(y: FloatArray) -> FloatArray:
    """Return what is there of a sorted row."""
    n = y.size
    while n > 0 and np.isnan(y[n - 1]):
        n -= 1
    return y[:n]


@compiled(plain="itself")
def start_rows(block: FloatArray, start: FloatArray, by_median: bool) -> None:
    """Find the median or the pseudomedian of every row; NaN where there is nothing."""
    ends = np.empty((2, 0), np.int64)
    for f in range(block.shape[0]):
        y = present(block[f])
        if y.size == 0:
            start[f] = np.nan
            continue
        start[f] = between(y[(y.size - 1) // 2], y[y.size // 2])
        if not by_median:
            density = y.size * y.size * NORMAL / median_distance(y, start[f])
            start[f] = 0.5 * pair_median(y, y, ends, 2.0 * start[f], density)


@compiled(plain="itself")
def locate_rows(
    block: FloatArray, start: FloatArray, kinds: Array, values: Array, errors: Array, compared: Array, degrees: Array,
    limits: Array, fewest: int,
) -> None:  # fmt: skip
    """Find the centres of every row about its start: the Hodges–Lehmann estimate, then one for each of ``degrees``.

    A kind that is not negative is the only one wanted beside the Hodges–Lehmann estimate, whose error is left out.
    """
    gaussian, far, near = limits[0], limits[1], limits[2]
    z, ends = np.empty(block.shape[1]), np.empty((2, 0), np.int64)
    for f in range(block.shape[0]):
        y = present(block[f])
        if y.size == 0:
            compared[f] = -1
            for kind in range(values.shape[1]):
                values[f, kind], errors[f, kind] = start[f], np.inf
            continue
        spread = gaussian * median_distance(y, start[f])
        compared[f] = y.size >= fewest and spread > 0.0
        first, last = 0, y.size
        if compared[f]:
            while start[f] - y[first] > far * spread:
                first += 1
            while y[last - 1] - start[f] > far * spread:
                last -= 1
        inner = y[first:last]
        density = inner.size * inner.size * NORMAL / spread
        centre = 0.5 * pair_median(inner, inner, ends, 2.0 * start[f], density)
        error = hodges_lehmann_error(inner, ends, centre, spread) if kinds[f] < 0 else 0.0
        for kind in range(values.shape[1]):
            values[f, kind], errors[f, kind] = centre, error
        if compared[f] and kinds[f] != 0:
            z[: y.size] = np.minimum(np.maximum((y - centre) / spread, -BEYOND), BEYOND)
            for kind in range(1, values.shape[1]):
                if kinds[f] < 0 or kinds[f] == kind:
                    away, error = student_t(z, y.size, degrees[kind - 1])
                    values[f, kind] = centre + spread * away
                    errors[f, kind] = spread * error if abs(away) <= near else np.inf


# Blocks of columns for threads.

AT_ONCE = 8
"""Neighbouring columns that are read together: a cache line of a row."""
BLOCK_VALUES = 1 << 17
"""Values that a thread holds: 1 MB, or one column where that is longer."""
SMALL = 20_000
"""Values below which starting threads costs more than they save."""
Rows = IntArray | slice


class Rule(NamedTuple):
    """What is compared: see the constants of these names in `_fit/refinement.py`."""

    degrees: tuple[float, ...]
    gaussian: float
    far: float
    near: float
    fewest: int


class Centres(NamedTuple):
    """Centres of every column, Hodges–Lehmann first, and their errors; infinite where one is not to be used."""

    values: FloatArray
    errors: FloatArray
    compared: npt.NDArray[np.int8]
    """Of each column: 0 where the Hodges–Lehmann estimate stands for all kinds, −1 where nothing but the start does."""


def starts(X: Array, *, by_median: bool, n_jobs: int | None = None) -> FloatArray:
    """Return the pseudomedian, or the median, of what is there in each column; NaN where there is nothing.

    Examples
    --------
    >>> starts(np.array([[0.0], [1.0], [2.0], [3.0], [100.0]]), by_median=False)
    array([2.])
    """
    start = np.empty(X.shape[1])
    _each_block(X, start_rows, (start,), (by_median,), n_jobs=n_jobs)
    return start


def locate(
    X: Array,
    start: FloatArray,
    rule: Rule,
    *,
    rows: Rows = slice(None),
    kinds: IntArray | None = None,
    n_jobs: int | None = None,
) -> Centres:
    """Return the centres of some rows of each column; of one of ``kinds`` each, its errors are not all found."""
    k, degrees = X.shape[1], np.array(rule.degrees)
    wanted = np.full(k, -1) if kinds is None else kinds
    found = Centres(np.empty((k, 1 + degrees.size)), np.empty((k, 1 + degrees.size)), np.empty(k, dtype=np.int8))
    limits = np.array([rule.gaussian, rule.far, rule.near])
    _each_block(X, locate_rows, (start, wanted, *found), (degrees, limits, rule.fewest), rows=rows, n_jobs=n_jobs)
    return found


def _each_block(
    X: Array,
    kernel: Callable[..., None],
    of_columns: Sequence[Array],
    given: tuple[object, ...],
    *,
    rows: Rows = slice(None),
    n_jobs: int | None,
) -> None:
    """Sort the columns, some at a time, and hand them to a kernel with their part of ``of_columns``, and ``given``."""
    n, k = X.shape
    n_threads = count_threads(n_jobs) if X.size > SMALL else 1
    width = max(1, min(AT_ONCE, BLOCK_VALUES // n, -(-k // n_threads)))

    def run(first: int) -> None:
        at = slice(first, min(first + width, k))
        block = np.array(X[rows, at].T, dtype=np.float64, order="C")
        block.sort(axis=1)
        kernel(block, *(values[at] for values in of_columns), *given)

    list(each(run, range(0, k, width), n_threads))
