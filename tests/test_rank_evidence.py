"""p-values of groups by an own computation: every null that bad rows could have led to, and the largest of them.

The tails are those of `log_u_tails`, which tests/test_nulls.py holds against counting; here every number of values that
are not zero is asked for by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import log
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sparsemean._data import as_table
from sparsemean._evidence import groups
from sparsemean._evidence.ranks import Contrast
from sparsemean._evidence.worst_case import UPPER, WorstCase, WorstCaseNull, clean_bound, most_moved
from sparsemean._stats.group_ranks import log_u_tails
from sparsemean._util.plans import BadRows, Side

import exact_tails as exact

LOG_2 = np.log(2.0)


def tail(n1: int, n2: int, A: int, w: int, *, halves: bool) -> float:
    sizes = (np.array([[size]]) for size in (n1, n2, A))
    return float(log_u_tails(*sizes, np.array([w]), bound=False, halves=halves)[0])


def one_null(
    x: np.ndarray, first: np.ndarray, m: tuple[int, int], *, halves: bool, zeros: bool, raw: np.ndarray
) -> float:
    """2U of the side of all values, zeros a block or values like others; the largest tail over every A within reach."""
    n1, n2, bad = int(first.sum()), int((~first).sum()), sum(m)
    moved = n1 * n2 - (n1 - m[0]) * (n2 - m[1])
    A = int(np.sum(x != 0)) if zeros else x.size
    label = np.sum(np.sign(raw[first][:, np.newaxis] - raw[~first][np.newaxis])) >= 0
    a, b = (x[first], x[~first]) if label else (x[~first], x[first])
    signs = np.sign(a[:, np.newaxis] - b[np.newaxis])
    ties = int(np.sum((signs == 0) & ((a[:, np.newaxis] != 0) | (not zeros))))
    w, n_a, n_b = int(np.sum(1 + signs)), a.size, b.size
    reach = range(max(0, A - bad), min(x.size, A + bad) + 1) if zeros else [A]
    place = w - (0 if halves else ties) - 2 * moved
    if zeros:  # a pair of a bad row with a good zero moves by half
        sure = [max(0, int(np.sum(x[group] == 0)) - k) for group, k in zip((first, ~first), m, strict=True)]
        place += m[0] * sure[1] + m[1] * sure[0]
    return min(0.0, LOG_2 + max(tail(n_a, n_b, k, place, halves=halves) for k in reach))


def with_ties(
    x: np.ndarray, first: np.ndarray, m: tuple[int, int], *, zeros: bool, raw: np.ndarray | None = None
) -> float:
    """The larger of both ways to count ties, where bad rows could have led to either."""
    bad, counted = sum(m), x[x != 0] if zeros else x
    repeats, n = counted.size - np.unique(counted).size, counted.size
    few, many = 10 * (repeats - bad) < n + bad, 10 * (repeats + bad) >= n - bad
    ways = [halves for halves, here in ((False, few), (True, many)) if here]
    raw = x if raw is None else raw
    return max(one_null(x, first, m, halves=halves, zeros=zeros, raw=raw) for halves in ways)


def given_ties(x: np.ndarray, first: np.ndarray) -> float:
    """Twice the smaller tail of U, ties ½, over all groups that may be drawn, counted in whole numbers."""
    n1, n2 = int(first.sum()), int((~first).sum())
    law = exact.tied_groups(np.unique(x, return_counts=True)[1].tolist(), n1, zeros=False, halves=True)
    w = int(np.sum(1 + np.sign(x[first][:, np.newaxis] - x[~first][np.newaxis])))
    turned = 2 * n1 * n2 - law[0][::-1], law[1][::-1]
    tails = (float(exact.tails_of(law, w)), float(exact.tails_of(turned, 2 * n1 * n2 - w)))
    return min(0.0, log(2 * min(tails)))


def off_block(x: np.ndarray, first: np.ndarray, m: tuple[int, int]) -> float:
    """Fisher's test of the rows off zero, m of which are bad: twice the smaller tail of the worst table."""
    n, off = (int(first.sum()), int((~first).sum())), (int(np.sum(x[first] != 0)), int(np.sum(x[~first] != 0)))
    tails = []
    for one, other in ((0, 1), (1, 0)):
        a, b = off[one] - m[one], off[other] + m[other]
        above = a * n[other] > b * n[one]
        tails.append(stats.hypergeom(sum(n), a + b, n[one]).logsf(a - 1) if above else 0.0)
    return float(LOG_2 + min(tails))


def about_zero(x: np.ndarray, first: np.ndarray, m: tuple[int, int], raw: float) -> float:
    """Zeros are the block: all (K₋, K₊) within reach of the bad rows, the largest p over all of them."""
    n, bad = x.size, sum(m)
    upper = with_ties(np.maximum(x, 0.0), first, m, zeros=True, raw=x)
    lower = with_ties(np.maximum(-x, 0.0), first, m, zeros=True, raw=-x)
    below, above = int(np.sum(x < 0)), int(np.sum(x > 0))
    found = []
    for low, high in product(*(range(max(0, k - bad), k + bad + 1) for k in (below, above))):
        match 4 * low < n, 4 * high < n:
            case True, True:
                found.append(LOG_2 + min(upper, lower))
            case True, False:
                found.append(upper if 16 * low < n else LOG_2 + min(upper, raw))
            case False, True:
                found.append(lower if 16 * high < n else LOG_2 + min(lower, raw))
            case _:
                found.append(raw)
    return max(found)


def plain_log_p(x: np.ndarray, first: np.ndarray, m: tuple[int, int]) -> float:
    """As docs/guarantees.md has it: every line of its table, and every value, that the bad rows could have led to."""
    n, bad, times = x.size, sum(m), Counter(x.tolist())
    if bad == 0:
        return given_ties(x, first)
    raw, found = with_ties(x, first, m, zeros=False), [given_ties(x, first)]
    zeros, commonest, off = times[0.0], max(times.values()), n - sum(sorted(times.values())[-2:])
    most = max((number for value, number in times.items() if value), default=0)
    for value, number in [*times.items(), (None, 0)]:  # the last one is any that bad rows have hidden
        if 10 * (off - bad) < n and 20 * (number + bad) > 9 * n and number >= commonest - 2 * bad:
            found.append(0.0 if value is None else off_block(x - value, first, m))
        block = 3 * (number + bad) >= n and number >= most - 2 * bad and 10 * (zeros - bad) < n
        if 10 * (off + bad) >= n and (10 * (zeros + bad) >= n if value == 0 else block):
            found.append(0.0 if value is None else about_zero(x - value, first, m, raw))
    if 10 * (off + bad) >= n and 10 * (zeros - bad) < n and 3 * (most - bad) < n:
        found.append(raw)
    if 0.0 not in times and 10 * (off + bad) >= n and 10 * bad >= n:
        found.append(about_zero(x, first, m, raw))
    return min(0.0, max(found))


KINDS: dict[str, Any] = {
    "counts": lambda rng, n: rng.poisson(0.6, n),
    "many counts": lambda rng, n: rng.poisson(4.0, n),
    "payers": lambda rng, n: (rng.random(n) < 0.3) * rng.lognormal(0, 1, n),
    "losses": lambda rng, n: -1.0 * (rng.random(n) < 0.4) * rng.lognormal(0, 1, n),
    "a few of both signs": lambda rng, n: np.where(rng.random(n) < 0.3, rng.standard_normal(n), 0.0),
    "a quarter below": lambda rng, n: rng.standard_normal(n) + 0.67,
    "a quarter above, rounded": lambda rng, n: np.round(rng.standard_normal(n) - 0.67, 1),
    "normal": lambda rng, n: rng.standard_normal(n),
    "conversions": lambda rng, n: rng.random(n) < 0.2,
    "nearly all": lambda rng, n: rng.random(n) < 0.93,
    "losses of one size": lambda rng, n: -3.0 * (rng.random(n) < 0.2),
    "signs": lambda rng, n: np.sign(rng.standard_normal(n) - 0.5),
    "one or two": lambda rng, n: 1 + (rng.random(n) < 0.3),
    "three sizes": lambda rng, n: rng.integers(1, 4, n) * (rng.random(n) < 0.3),
    "a tenth of ties": lambda rng, n: np.round(rng.standard_normal(n), 1 if n < 40 else 2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [(0, 0), (1, 0), (0, 2), (1, 1)])
@pytest.mark.parametrize("wider", [1.0, 4.0])
def test_p_is_the_largest_that_the_bad_rows_could_have_left(kind: str, wider: float, m: tuple[int, int]) -> None:
    """Exact without bad rows; with some, never below it, and not far above."""
    rng = np.random.default_rng([7, *kind.encode()])
    n1, n2 = 19, 33
    first = rng.permutation(np.repeat([True, False], [n1, n2]))
    X = np.stack([np.asarray(KINDS[kind](rng, 52), dtype=float) for _ in range(24)], axis=1)
    if len(set(X.ravel().tolist())) > 5:
        X += np.outer(first, np.linspace(-2.5, 2.5, 24)) * (X != 0)
        X[first] *= wider  # what lies below zero then speaks against what lies above
    else:
        order = first[:, np.newaxis] + rng.standard_normal(X.shape) * np.linspace(0.2, 4.0, 24)  # ever less with labels
        X = np.take_along_axis(np.sort(X, axis=0), order.argsort(axis=0).argsort(axis=0), axis=0)
    (test,) = groups.count(as_table(X), first.astype(np.intp), [Contrast(reference=0, label=1, sizes=(n2, n1))])
    found = test.log_p(WorstCase(BadRows(label=m[0], reference=m[1])))
    expected = np.array([plain_log_p(x, first, m) for x in X.T])
    assert (expected < 0).any() or (kind == "nearly all" and sum(m) > 0)
    if sum(m) == 0:  # above the level something near is enough
        small = expected <= log(0.05)
        np.testing.assert_allclose(found[small], expected[small], atol=1e-5)
        assert (found[~small] > log(0.05)).all()
        expected = np.minimum(expected, found)
    else:
        assert (found >= expected - 1e-9).all()
        assert (found <= expected + 3).all()
    goal = float(np.median(expected[expected < 0])) if expected.any() else -1.0
    close = test.log_p(WorstCase(BadRows(label=m[0], reference=m[1]), goal=goal))
    assert (close >= expected - 1e-5).all()
    assert (close <= np.maximum(found, goal) + 1e-9).all()  # far below the goal a bound will do


def clean_log_p(x: np.ndarray, first: np.ndarray) -> list[float]:
    """Logarithms of P(2U ≥ what it is) given all ties, U of the first group and of the other, by adding rows."""
    ranks = np.sum(1 + np.sign(x[:, np.newaxis] - x), axis=1).astype(int)  # twice the midranks, but for 1
    n1, total = int(first.sum()), int(ranks.sum())
    ways = np.zeros((n1 + 1, total + 1))
    ways[0, 0] = 1.0
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : total + 1 - rank].copy()
    chance, at = ways[n1] / ways[n1].sum(), int(ranks[first].sum())
    return [float(np.log(chance[at:].sum())), float(np.log(chance[: at + 1].sum()))]


@pytest.mark.parametrize("side", [Side.BOTH, Side.UP])
@pytest.mark.parametrize("seed", range(12))
def test_the_exact_test_of_replaced_rows_is_bounded(seed: int, side: Side) -> None:
    """Values that one row can take, and some that three can, wherever they lie: ties and zeros are made and undone."""
    rng = np.random.default_rng(seed)
    n1, n2, spread = int(rng.integers(8, 20)), int(rng.integers(8, 25)), int(rng.choice([1, 2, 5, 30]))
    first = np.arange(n1 + n2) < n1
    x = np.round(rng.standard_normal(n1 + n2) * spread) + (spread + 1) * first * rng.choice([1, 2])
    x[rng.random(x.size) < rng.choice([0.0, 0.4, 0.7])] = 0
    if seed % 3 == 0:
        x = np.abs(x)
    (test,) = groups.count(
        as_table(x[:, np.newaxis]), first.astype(int), [Contrast(reference=0, label=1, sizes=(n2, n1))]
    )
    counts = np.asarray(test.counts)
    for r in (1, 3):
        bounds = [
            clean_bound(counts, WorstCase(BadRows(0, 0), r, side, goal=goal))[0] for goal in (-np.inf, -6.0, -3.0)
        ]
        values = np.unique(np.concatenate((x, x + 0.5, [x.min() - 1])))
        for _ in range(150):
            other = x.copy()
            other[rng.choice(x.size, r, replace=False)] = rng.choice(values, r)
            up, down = clean_log_p(other, first)
            log_p = up if side is Side.UP else min(0.0, LOG_2 + min(up, down))
            assert (np.array(bounds) >= log_p - 1e-9).all()
    assert (
        clean_bound(counts, WorstCase(BadRows(0, 0), 1, side))[0]
        <= clean_bound(counts, WorstCase(BadRows(0, 0), 2, side))[0]
    )


@pytest.mark.parametrize(("sizes", "bad"), [((2, 2), (1, 1)), ((2, 3), (1, 0)), ((2, 3), (1, 1)), ((3, 2), (2, 1))])
@pytest.mark.parametrize("tie", [0, 1])
def test_beside_zeros_bad_rows_move_less(sizes: tuple[int, int], bad: tuple[int, int], tie: int) -> None:
    """All clean data, all replaced values and all exchanged rows: 2U rises by the slack at most, which is reached."""

    def twice(x: tuple[int, ...], y: tuple[int, ...]) -> int:
        return sum(2 * (a > b) + (a == b) * (tie if a else 1) for a, b in product(x, y))

    def slack(x: tuple[int, ...], y: tuple[int, ...], m: tuple[int, int]) -> int:
        counts = np.array([[[len(x), len(y), sum(map(bool, x)), sum(map(bool, y)), *[0] * 6]]])
        null = WorstCaseNull(counts, np.zeros((1, 2)), sum(sizes), WorstCase(BadRows(label=m[0], reference=m[1])))
        moved = most_moved(counts[..., 0], counts[..., 1], null.case.bad)
        return int(2 * moved[0] - null._saved(UPPER, counts)[0])

    reached = False
    everything = [tuple(product(range(3), repeat=n)) for n in sizes]
    for x, y in product(*everything):
        for more in product(product(range(3), repeat=bad[0]), product(range(3), repeat=bad[1])):
            seen = x[bad[0] :] + more[0], y[bad[1] :] + more[1]
            rise = twice(*seen) - twice(x, y) - slack(*seen, bad)
            assert rise <= 0
            reached |= rise == 0
        wrong = min(bad)
        seen = x[wrong:] + y[:wrong], y[wrong:] + x[:wrong]
        assert twice(*seen) - twice(x, y) <= slack(*seen, (wrong, wrong))
    assert reached


def test_p_is_never_below_that_of_no_bad_row() -> None:
    """Whatever is said of bad rows: here p of none is put above it."""
    rng = np.random.default_rng(1)
    X, first = rng.poisson(1.0, (60, 5)).astype(float), np.repeat([1, 0], 30)
    X[:30] += 3
    (test,) = groups.count(as_table(X), first, [Contrast(reference=0, label=1, sizes=(30, 30))])
    allowed = test.log_p(WorstCase(BadRows(1, 1)))
    assert (allowed < -2).all()
    for case in (WorstCase(BadRows(1, 1)), WorstCase(BadRows(0, 0), more=2), WorstCase(BadRows(1, 0), more=1)):
        np.testing.assert_array_equal(replace(test, clean=np.full(5, -1.0)).log_p(case), -1.0)


@pytest.mark.parametrize("bad", [(0, 0), (1, 0), (2, 1), (1, 3), (4, 4)])
def test_bad_rows_of_strata_lie_where_they_do_most(bad: tuple[int, int]) -> None:
    """By trying every way to spread them: a row moves U by all rows of the other group in its stratum."""
    n1, n2 = np.array([3, 5, 2]), np.array([6, 1, 4])
    ways = [np.array(way) for way in product(range(5), repeat=3)]
    most = [max(int(way @ other) for way in ways if way.sum() == m and (way <= own).all())
            for m, own, other in ((bad[0], n1, n2), (bad[1], n2, n1))]  # fmt: skip
    assert most_moved(n1[np.newaxis], n2[np.newaxis], BadRows(label=bad[0], reference=bad[1]))[0] == sum(most)


def test_a_share_below_zero_near_a_quarter_is_looked_at_both_ways() -> None:
    """97 of 400 values lie below zero and six rows may be bad: what they say against the others counts."""
    rng = np.random.default_rng(3)
    first = np.repeat([True, False], 200)
    x = np.abs(rng.standard_normal(400)) + 0.8 * first
    for rows, shift in ((rng.choice(200, 49, replace=False), 3.0), (200 + rng.choice(200, 48, replace=False), 0.0)):
        x[rows] = -np.abs(rng.standard_normal(rows.size)) - shift
    (test,) = groups.count(
        as_table(x[:, np.newaxis]), first.astype(np.intp), [Contrast(reference=0, label=1, sizes=(200, 200))]
    )
    raw = with_ties(x, first, (3, 3), zeros=False)
    upper = with_ties(np.maximum(x, 0), first, (3, 3), zeros=True)
    assert upper < raw - 1
    assert test.log_p(WorstCase(BadRows(3, 3)))[0] >= raw - 1e-9


def test_bounds_of_strata_just_above_the_mean_are_no_rounding() -> None:
    """There a bound far below would be lost in the transform: what is just above the mean is not rare."""
    n1, n2, A = (np.array([sizes]) for sizes in ((47, 17), (46, 42), (31, 16)))
    mean, deviation = 47 * 46 + 17 * 42, 1000
    places = mean + np.array([1, 4, 10, 40, deviation // 10, deviation // 4, deviation])
    bounds, exact = (
        np.array([log_u_tails(n1, n2, A, np.array([w]), bound=bound, halves=False)[0] for w in places])
        for bound in (True, False)
    )
    assert (bounds >= exact - 1e-9).all()
    assert (np.diff(bounds) <= 1e-9).all()
    assert bounds[0] > -0.1
