"""Intervals of differences of shares cover, in small cases by exhaustion, whichever values bad rows have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sparsemean import SparseMeanDifference
from sparsemean._evidence.groups import shift, strata_of
from sparsemean._evidence.signed_ranks import by_pairs
from sparsemean._stats.effects import CENTRE, MEANS, PAIRS, beside_test, share_ends
from sparsemean._stats.planning import plan_fit
from sparsemean._util.plans import BadRows, Side
from sparsemean._util.records import FloatArray

ROUNDING = 1e-12
GRID = np.linspace(0, 1, 26)


def ends_of_shares(n1: int, n2: int, bad: BadRows, error: float) -> FloatArray:
    """Both ends for every table of two values: (n₁ + 1, n₂ + 1, 2)."""
    counts = product(range(n1 + 1), range(n2 + 1))
    ends = [share_ends((n1, a1), (n2, a2), bad, error=error, unsure=False) for a1, a2 in counts]
    return np.array(ends).reshape(n1 + 1, n2 + 1, 2)


def worst_in_reach(ends: FloatArray, bad: BadRows) -> tuple[FloatArray, FloatArray]:
    """The largest lower and the smallest upper end of the tables that bad rows make of each."""
    low, high = np.full(ends.shape[:2], -np.inf), np.full(ends.shape[:2], np.inf)
    for a1, a2 in product(range(ends.shape[0]), range(ends.shape[1])):
        near = ends[max(0, a1 - bad.label) : a1 + bad.label + 1, max(0, a2 - bad.reference) : a2 + bad.reference + 1]
        low[a1, a2], high[a1, a2] = near[..., 0].max(), near[..., 1].min()
    return low, high


@pytest.mark.parametrize("error", [0.25, 0.025, 0.005])
@pytest.mark.parametrize("sizes", [(2, 5), (5, 5), (4, 8), (8, 8), (7, 3)])
def test_two_shares_of_small_groups(sizes: tuple[int, int], error: float) -> None:
    n1, n2 = sizes
    for bad in map(BadRows._make, product(range((n2 + 1) // 2), range((n1 + 1) // 2))):
        if bad.total > 3:
            continue
        low, high = worst_in_reach(ends_of_shares(n1, n2, bad, error), bad)
        for p1, p2 in product(GRID, GRID):
            chances = np.outer(stats.binom.pmf(np.arange(n1 + 1), n1, p1), stats.binom.pmf(np.arange(n2 + 1), n2, p2))
            assert chances[low > p1 - p2 + ROUNDING].sum() <= error, (bad, p1, p2)
            assert chances[high < p1 - p2 - ROUNDING].sum() <= error, (bad, p1, p2)


@pytest.mark.parametrize("error", [0.1, 0.01])
@pytest.mark.parametrize("sizes", [(5, 5), (4, 8), (8, 8)])
def test_what_is_shown_beside_fishers_test(sizes: tuple[int, int], error: float) -> None:
    """Where the test rejects at twice that error the interval has no inner point on the other side, and covers."""
    n1, n2 = sizes
    ends = ends_of_shares(n1, n2, BadRows(0, 0), error)
    rejected, shown = np.zeros(ends.shape[:2], dtype=bool), ends.copy()
    for a1, a2 in product(range(n1 + 1), range(n2 + 1)):
        tails = [stats.hypergeom.sf(one - 1, n1 + n2, a1 + a2, n) for one, n in ((a1, n1), (a2, n2))]
        rejected[a1, a2] = min(tails) <= error * (1 + 1e-9)
        shown[a1, a2] = beside_test(*ends[a1, a2], Side.BOTH, float(rejected[a1, a2] * (a1 / n1 - a2 / n2)))
    assert rejected.any()
    assert ((shown[..., 0] >= 0) | (shown[..., 1] <= 0))[rejected].all()
    assert (ends[..., 0] <= 0)[~rejected].all()  # odds of one are Fisher's test
    for p1, p2 in product(GRID, GRID):
        chances = np.outer(stats.binom.pmf(np.arange(n1 + 1), n1, p1), stats.binom.pmf(np.arange(n2 + 1), n2, p2))
        assert chances[shown[..., 0] > p1 - p2 + ROUNDING].sum() <= error
        assert chances[shown[..., 1] < p1 - p2 - ROUNDING].sum() <= error


def tables(n: int, k: int) -> Iterator[tuple[int, ...]]:
    """How n rows can have k values."""
    if k == 1:
        yield (n,)
        return
    for first in range(n + 1):
        yield from ((first, *rest) for rest in tables(n - first, k - 1))


def chance(table: Sequence[int], law: FloatArray) -> float:
    return float(stats.multinomial.pmf(table, sum(table), law))


def replaced(table: tuple[int, ...], bad: int) -> set[tuple[int, ...]]:
    """What so many bad rows can make of it."""
    reach = {table}
    for _ in range(bad):
        for each in tuple(reach):
            for gone, come in product(range(len(each)), repeat=2):
                if each[gone]:
                    moved = list(each)
                    moved[gone] -= 1
                    moved[come] += 1
                    reach.add(tuple(moved))
    return reach


def of_pairs(one: FloatArray, two: FloatArray) -> float:
    """The chance that the first is larger, less that it is smaller."""
    k = one.size
    return float(one @ np.sign(np.subtract.outer(np.arange(k), np.arange(k))) @ two)


@pytest.mark.parametrize("error", [0.2, 0.05])
@pytest.mark.parametrize(("n1", "n2"), [(3, 5), (4, 4)])
def test_shares_of_pairs_of_small_groups(n1: int, n2: int, error: float) -> None:
    laws = np.array(list(tables(5, 3))) / 5
    rows = np.repeat((1, 0), (n1, n2))
    for bad in (BadRows(0, 0), BadRows(1, 0), BadRows(1, 1)):
        ends = {}
        for one, two in product(tables(n1, 3), tables(n2, 3)):
            values = np.concatenate([np.repeat(np.arange(3.0), table) for table in (one, two)])
            options = {"error": 2 * error, "bad": bad, "side": Side.BOTH, "missing": False}
            ends[one, two] = shift(values, strata_of(rows), (PAIRS, False), **options)[1:3]
            if np.unique(values).size == 2:  # then it is the difference of means
                ends[one, two] = (-np.inf, np.inf)
        reach = {table: replaced(table, bad.label) for table in tables(n1, 3)}
        other = {table: replaced(table, bad.reference) for table in tables(n2, 3)}
        low = {key: max(ends[each][0] for each in product(reach[key[0]], other[key[1]])) for key in ends}
        high = {key: min(ends[each][1] for each in product(reach[key[0]], other[key[1]])) for key in ends}
        of_label, of_reference = ([{t: chance(t, law) for t in tables(n, 3)} for law in laws] for n in (n1, n2))
        for (one, first), (two, second) in product(
            zip(laws, of_label, strict=True), zip(laws, of_reference, strict=True)
        ):
            truth = of_pairs(one, two)
            below = sum(first[a] * second[b] for (a, b), end in low.items() if end > truth + ROUNDING)
            above = sum(first[a] * second[b] for (a, b), end in high.items() if end < truth - ROUNDING)
            assert max(below, above) <= error


@pytest.mark.parametrize("error", [0.3, 0.1])
def test_shares_of_pairs_within_strata(error: float) -> None:
    """The mean over all pairs of rows of one stratum, of laws that differ from stratum to stratum."""
    sizes, rng = ((2, 1), (1, 3)), np.random.default_rng(10_000)
    labels = np.concatenate([np.repeat((1, 0), pair) for pair in sizes])
    strata = np.repeat((0, 1), [sum(pair) for pair in sizes])
    cells = [list(tables(n, 3)) for pair in sizes for n in pair]
    ends = {}
    for each in product(*cells):
        values = np.concatenate([np.repeat(np.arange(3.0), table) for table in each])
        options = {"error": 2 * error, "bad": BadRows(0, 0), "side": Side.BOTH, "missing": False}
        ends[each] = shift(values, strata_of(labels, strata), (PAIRS, False), **options)[1:3]
    weights = np.array([first * second for first, second in sizes]) / sum(first * second for first, second in sizes)
    for _ in range(150):
        laws = rng.dirichlet(np.full(3, 0.4), 4)
        truth = weights @ [of_pairs(laws[0], laws[1]), of_pairs(laws[2], laws[3])]
        known = [{table: chance(table, law) for table in cell} for cell, law in zip(cells, laws, strict=True)]
        chances = {each: np.prod([known[k][table] for k, table in enumerate(each)]) for each in ends}
        assert sum(chances[each] for each, (low, _) in ends.items() if low > truth + ROUNDING) <= error
        assert sum(chances[each] for each, (_, high) in ends.items() if high < truth - ROUNDING) <= error


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("error", [0.3, 0.1])
def test_shares_of_pairs_of_one_sample(error: float, bad: int) -> None:
    """Rows that are zero are left out, and a bad row may be one or have been one."""
    n, sizes, rng = 7, np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.random.default_rng(10_001)
    plan = plan_fit(n, 1, contamination=bad / n)
    every = list(tables(n, 5))
    values = np.array([np.repeat(sizes, table) for table in every]).T
    found = by_pairs(values, plan, error=2 * error, rejected=np.zeros(len(every), dtype=bool))[1:]
    ends = dict(zip(every, found.T.tolist(), strict=True))
    low = np.array([max(ends[each][0] for each in replaced(table, bad)) for table in every])
    high = np.array([min(ends[each][1] for each in replaced(table, bad)) for table in every])
    sums = np.sign(np.add.outer(sizes, sizes))
    for law in rng.dirichlet(np.full(5, 0.4), 150):
        there = law * (sizes != 0) / law[sizes != 0].sum()
        truth, chances = there @ sums @ there, np.array([chance(table, law) for table in every])
        assert chances[low > truth + ROUNDING].sum() <= error
        assert chances[high < truth - ROUNDING].sum() <= error


def test_intervals_of_what_is_selected_under_attack(long_version: bool) -> None:
    """Yes and no, ratings and counts that are mostly 0; 1 % of either group pushes where it hurts most."""
    missed, shown, rng = 0, 0, np.random.default_rng(10_002)
    for _ in range(60 if long_version else 8):
        n1, n2, d = int(rng.integers(150, 500)), int(rng.integers(150, 500)), 12
        label = np.repeat((1, 0), (n1, n2))
        shares = rng.uniform(0.02, 0.5, d)
        apart = np.minimum(0.95, shares * rng.uniform(1.0, 3.0, d))
        X = (rng.random((label.size, d)) < np.where(label[:, np.newaxis] == 1, apart, shares)).astype(float)
        counted = np.arange(d) % 2 == 1  # those that are positive have several values
        X[:, counted] *= 1 + rng.poisson(np.where(label[:, np.newaxis] == 1, 1.0, 0.6), (label.size, counted.sum()))
        for group in (0, 1):
            rows = np.flatnonzero(label == group)
            X[rows[: int(0.01 * rows.size)]] = group  # ones in the label, zeros in the reference
        found = SparseMeanDifference(contamination=0.01).fit(X, label).result_
        positive = [np.array([stats.poisson.pmf(k, mean) for k in range(40)]) for mean in (1.0, 0.6)]
        for k in found.support.tolist():
            laws = [
                np.concatenate(([1 - share], share * (positive[one] if counted[k] else np.eye(40)[0])))
                for one, share in enumerate((apart[k], shares[k]))
            ]
            if counted[k] and found.measure[k] == CENTRE:  # where most of a group is positive a shift is not 0
                assert max(apart[k], shares[k]) > 0.5
                continue
            truth = of_pairs(*laws)
            assert found.measure[k] == (PAIRS if counted[k] else MEANS)
            missed, shown = missed + (not found.intervals[k, 0] <= truth <= found.intervals[k, 1]), shown + 1
    assert shown > 40
    assert missed <= stats.binom.ppf(0.999, shown, 0.05)
