"""Intervals of signed ranks against a search through every null value that matters: exact fractions, plain ranks."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from sparsemean import sparse_mean
from sparsemean._evidence.signed_ranks import by_ranks, joint
from sparsemean._kernels import centres
from sparsemean._stats.effects import PAIRS
from sparsemean._stats.signed_ranks import caps_of, shares_of
from sparsemean._util.plans import Side

SIDES = ("two-sided", "greater", "less")


def tails(number: int, cap: int) -> list[Fraction]:
    """P(Σ Bᵢ·min(i, C) ≥ t) for all t from 0 to the largest sum, in fractions."""
    ways = [1]
    for rank in range(1, number + 1):
        score = min(rank, cap)
        longer = ways + [0] * score
        for place, count in enumerate(ways):
            longer[place + score] += count
        ways = longer
    total = sum(ways)
    return [Fraction(sum(ways[t:]), total) for t in range(len(ways))]


def sum_above(x: list[Fraction], theta: Fraction, cap: int) -> int:
    """Sum of capped ranks of values above θ; of one distance those above come first, and θ itself is not above."""
    distances = sorted((abs(value - theta), value <= theta) for value in x)
    return sum(min(rank, cap) for rank, (_, below) in enumerate(distances, 1) if not below)


def lowest(x: list[Fraction], cap: int, error: Fraction, m: int) -> float:
    """The lower end for one cap: the smallest mean of two values that the test does not reject as too low."""
    chances, slack = tails(len(x), cap), sum(min(len(x) - k, cap) for k in range(m))
    needed = next((t for t, p in enumerate(chances) if p <= error), len(chances)) + slack
    means = sorted({(one + other) / 2 for one, other in combinations_with_replacement(x, 2)})
    if sum_above(x, means[0] - 1, cap) < needed:
        return -np.inf
    return float(next(theta for theta in means if not sum_above(x, theta, cap) >= needed))


def plain(column: np.ndarray, error: Fraction, m: int, alternative: str) -> tuple[float, float]:
    x = [Fraction(value) for value in column[~np.isnan(column)].tolist()]
    n, both = column.size, alternative == "two-sided"
    shares = {cap: Fraction(0) for cap in caps_of(n)}
    for cap, share in ((max(1, n // 10), 1), (max(1, 2 * n // 5), 4), (n, 4)):
        shares[cap] += Fraction(share, 9)
    each = {cap: error * share / (2 if both else 1) for cap, share in shares.items()}
    lows, highs = [-np.inf], [np.inf]
    if alternative != "less":
        lows = [lowest(x, cap, own, m) for cap, own in each.items()]
    if alternative != "greater":
        highs = [-lowest([-value for value in x], cap, own, m) for cap, own in each.items()]
    return (max(lows), min(highs)) if max(lows) <= min(highs) else (min(lows), max(highs))


def drawn(kind: str, rng: np.random.Generator) -> np.ndarray:
    """A column of multiples of a power of two, so that means of two values are exact."""
    x = np.round(64 * rng.standard_normal(int(rng.integers(5, 15)))) / 64
    if kind == "ties":
        x = np.round(2 * x) / 2
    if kind == "far":
        x[:2] = 2.0**40, -(2.0**36)
    if kind == "missing":
        x[rng.random(x.size) < 0.25] = np.nan
        x[:3] = 0.25, 0.5, 1.0
    return x


@pytest.mark.parametrize("kind", ["distinct", "ties"])
def test_scores_lost_are_all_less_those_above_a_value(kind: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        x = np.sort(drawn(kind, rng))
        exact = [Fraction(value) for value in x.tolist()]
        sums = [one + other for one, other in combinations_with_replacement(exact, 2)]
        for theta in (*x.tolist(), float(x[0]) - 1, float(x[0] + x[-1]) / 2):
            for cap in (1, 3, x.size):
                lost, largest, smallest = centres.scores_lost(x, 2 * theta, cap)
                assert lost == centres.score_sum(x.size, cap) - sum_above(exact, Fraction(theta), cap)
                assert largest == -np.inf or Fraction(largest) in sums
                for value in (Fraction(largest) / 2 if largest > -np.inf else None, Fraction(theta)):
                    if value is not None:  # nothing changes between the two
                        assert sum_above(exact, value, cap) == sum_above(exact, Fraction(theta), cap)
                if smallest < np.inf:
                    between = (Fraction(theta) + Fraction(smallest) / 2) / 2
                    assert sum_above(exact, between, cap) == sum_above(exact, Fraction(theta), cap)
                    assert Fraction(smallest) in sums


@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize("kind", ["distinct", "ties", "far", "missing"])
def test_ends_are_those_of_a_search(kind: str, alternative: str) -> None:
    rng = np.random.default_rng(3)
    finite = 0
    for _ in range(30):
        x, m, error = drawn(kind, rng), int(rng.integers(0, 3)), float(rng.choice([0.0625, 0.25, 0.5]))
        found = by_ranks(np.sort(x)[:, np.newaxis], error=error, bad_rows=m, n_rows=x.size, side=Side(alternative))[
            :, 0
        ]
        expected = plain(x, Fraction(error), m, alternative)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        finite += int(np.isfinite(found).any())
    assert finite >= 8


def test_shares_add_up_to_one() -> None:
    """Caps that are the same number, on few rows, have the shares of all that they are."""
    for n in (1, 2, 4, 9, 10, 25, 600):
        shares = shares_of(n)
        assert shares.sum() == pytest.approx(1, rel=1e-12)
        assert shares.size == len(caps_of(n))


@pytest.mark.parametrize("m", [0, 1, 2])
def test_bad_rows_never_take_the_interval_of_clean_rows_out(m: int) -> None:
    """What is replaced may be anything: the interval that allows for it holds that of the clean rows."""
    rng = np.random.default_rng(8)
    for _ in range(40):
        x = rng.standard_normal((14, 1))
        ends = {"n_rows": 14, "error": 0.3, "side": Side.BOTH}
        low, high = by_ranks(np.sort(x, axis=0), bad_rows=0, **ends)[:, 0]
        for values in ((1e6, 1e6), (-1e6, -1e6), (-3.0, 3.0), (0.0, 0.0), (np.nan, np.nan)):
            other = x.copy()
            other[rng.permutation(14)[:m], 0] = values[:m]
            wider = by_ranks(np.sort(other, axis=0), bad_rows=m, **ends)[:, 0]
            assert wider[0] <= low
            assert high <= wider[1]


def test_zeros_are_left_out_beside_a_test_that_does_so() -> None:
    """Many zeros, and the other values far above: value and interval are of these."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 4)) < 0.85, 0.0, 1 + 0.2 * rng.standard_normal((200, 4)))
    found = sparse_mean(X, contamination=0.01, refine=None, screen_rows=False)
    assert found.support.size == 4
    assert (found.intervals[:, 0] > 0.5).all()
    assert (found.mean > 0.5).all()


def test_intervals_that_hardly_meet_give_the_one_that_rejects() -> None:
    """Of skewed noise each cap is about a centre of its own; what they share says nothing."""
    apart = np.array([[1.0, 1.9, 0.5], [2.0, 3.0, 2.5]])
    np.testing.assert_array_equal(joint(apart), (1.9, 3.0))
    np.testing.assert_array_equal(joint(-apart[::-1]), (-3.0, -1.9))
    np.testing.assert_array_equal(joint(np.array([[-1.0, 0.5], [0.4, 2.0]])), (0.5, 2.0))
    np.testing.assert_array_equal(joint(np.array([[-1.0, -0.1], [0.0, 2.0]])), (-1.0, 2.0))
    np.testing.assert_array_equal(joint(np.array([[1.0, 1.2], [2.0, 2.3]])), (1.2, 2.0))
    np.testing.assert_array_equal(joint(np.array([[-np.inf, 1.2], [np.inf, 2.3]])), (1.2, 2.3))


def test_selected_features_of_skewed_noise_have_intervals_without_the_null_value() -> None:
    X = np.random.default_rng(0).lognormal(size=(1000, 8))
    found = sparse_mean(X, contamination=0, null=1.15, refine=None, screen_rows=False)
    low, high = found.intervals[found.support].T
    assert found.support.size == 3
    assert ((low > 1.15) | (high < 1.15)).all()
    assert (high - low > 0.02).all()


def test_few_rows_that_select_have_an_interval() -> None:
    X = np.random.default_rng(0).standard_normal((12, 5))
    X[:, 0] += 5
    found = sparse_mean(X)
    assert found.support.tolist() == [0]
    assert np.isfinite(found.intervals[0]).all()
    assert found.intervals[0, 0] > 0


def test_two_values_have_no_centre_but_a_share() -> None:
    X = 1.0 + (np.random.default_rng(0).random((442, 2)) < 0.45)
    found = sparse_mean(X, null=3.0, contamination=0)
    assert (found.mean == -1).all()  # all means of two rows lie below
    assert ((found.intervals[:, 0] == -1) & (found.intervals[:, 1] < -0.9)).all()
    assert found.table()["measure"].tolist() == ["pairs", "pairs"]
    assert any("no centre" in message and 'target="mean"' in message for message in found.status.messages)
    np.testing.assert_array_equal(found.interval([0, 1], 1 - 0.05), found.intervals)
    assert "(2 below)" in found.summary().splitlines()[0]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("bad", [0, 2])
def test_shares_of_pairs_are_those_of_all_pairs(bad: int, missing: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 0.0, 1.0], (60, 30), p=[0.05, 0.2, 0.75])
    X[rng.random(X.shape) < 0.1 * missing] = np.nan
    found = sparse_mean(X, contamination=bad / 60, missing="omit")
    at = np.flatnonzero(found.measure == PAIRS)
    assert at.size > 5
    for k in at.tolist():
        x = X[:, k][(X[:, k] != 0) & ~np.isnan(X[:, k])]
        means = np.sign(np.add.outer(x, x)[np.triu_indices(x.size, 1)])
        assert found.mean[k] == pytest.approx(means.mean(), abs=1e-14)
        low, high = found.intervals[k]
        assert low <= found.mean[k] <= high
        assert low >= 0 or high <= 0
        assert low < high


def test_rounding_decides_no_pair() -> None:
    """.2 and .4 lie equally far from .3 in the numbers that were meant, and their mean is no mean above it."""
    rows = np.repeat((0.2, 0.4), (10, 50))[:, np.newaxis] * np.ones(3)
    found = sparse_mean(rows, null=0.3, contamination=0)
    exact = sparse_mean(np.rint(10 * rows), null=3.0, contamination=0)
    np.testing.assert_array_equal(found.mean, exact.mean)
    np.testing.assert_array_equal(found.intervals, exact.intervals)


def test_ends_of_values_at_both_ends_of_what_a_number_can_be() -> None:
    """Their difference overflows, and between the smallest two numbers there is none: neither may go on for ever."""
    for x in (np.repeat((-1.7e308, 1.7e308), (40, 60)), np.repeat((0.0, 5e-324), (40, 60)), np.full(100, -1.7e308)):
        ends = by_ranks(np.sort(x)[:, np.newaxis], error=0.05, bad_rows=0, n_rows=100, side=Side.BOTH)
        assert not np.isnan(ends).any()
