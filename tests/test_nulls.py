"""Null distributions against scipy and against counting by hand."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy import stats

from sparsemean._stats.nulls import Gaussian, MannWhitneyNulls, SignTestNull, mann_whitney, mann_whitney_of, sign_test


@pytest.mark.parametrize("n", [1, 2, 7, 100, 2001])
def test_sign_test_is_the_binomial_tail(n: int) -> None:
    k = np.arange(n + 1)
    expected = np.where(2 * k <= n, 1.0, np.minimum(1.0, 2 * stats.binom.sf(k - 1, n, 0.5)))
    np.testing.assert_allclose(sign_test(k, np.full(n + 1, n)), expected, rtol=1e-9, atol=1e-300)


def test_sign_test_with_different_numbers_of_signs() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(0, 60, 500)
    k = np.array([rng.integers(0, m + 2) for m in n])
    expected = np.where(2 * k <= n, 1.0, np.minimum(1.0, 2 * stats.binom.sf(k - 1, n, 0.5)))
    np.testing.assert_allclose(sign_test(k, n), expected, rtol=1e-9)


def test_sign_test_is_exact_at_its_smallest() -> None:
    assert sign_test(np.array([60]), np.array([60]))[0] == pytest.approx(2.0**-59, rel=1e-14)


@pytest.mark.parametrize(("n1", "n2"), [(1, 1), (2, 5), (5, 4), (6, 6)])
def test_mann_whitney_by_counting_every_arrangement(n1: int, n2: int) -> None:
    u = [sum(x - i for i, x in enumerate(c)) for c in combinations(range(n1 + n2), n1)]
    expected = [np.mean(np.array(u) >= value) for value in range(n1 * n2 + 2)]
    np.testing.assert_allclose(mann_whitney(n1, n2).upper_tail(np.arange(n1 * n2 + 2.0)), expected, rtol=1e-13)


def test_mann_whitney_keeps_its_digits_far_out() -> None:
    tail = mann_whitney(42, 83).upper_tail(np.array([42.0 * 83]))[0]
    assert tail == pytest.approx(1 / float(stats.binom(125, 0.5).pmf(42) * 2.0**125), rel=1e-10)


@pytest.mark.parametrize(("n1", "n2"), [(150, 150), (90, 300)])
def test_normal_tail_is_close_and_too_large_far_out(n1: int, n2: int) -> None:
    """The stated error: within 10 % down to p = 1e-4, and never too small beyond."""
    normal = mann_whitney(n1, n2)
    assert normal.table is None
    rng = np.random.default_rng(0)
    ranks = np.argsort(rng.random((20_000, n1 + n2)), axis=1)[:, :n1].sum(axis=1) - n1 * (n1 - 1) / 2
    for share in (0.05, 0.01):
        u = normal.critical(2 * share)
        seen = np.mean(ranks >= u)
        assert abs(seen - share) < 5 * np.sqrt(share / 20_000) + 0.02 * share
    exact = mann_whitney(100, 100)
    sd = np.sqrt(100 * 100 * 201 / 12)
    u = np.ceil(5000 + sd * np.array([3.7, 5.0, 6.5]))
    assert (stats.norm.sf((u - 5000.5) / sd) >= exact.upper_tail(u)).all()


def test_critical_values_are_the_smallest_that_pass() -> None:
    ranks = mann_whitney(12, 17)
    u = ranks.critical(0.01)
    p = 2 * ranks.upper_tail(np.array([u - 1.0, u]))
    assert p[0] > 0.01 >= p[1]
    assert mann_whitney(2, 2).critical(1e-6) == 5


@pytest.mark.parametrize("sizes", [1, 3])
@pytest.mark.parametrize("error", [float(np.nextafter(1, 0)), 0.3, 0.01, 1e-9])
def test_thresholds_divide_what_passes_from_what_does_not(error: float, sizes: int) -> None:
    """And so they do for all errors up to the next larger one that is named, which is the first to ask less."""
    u = np.arange(101.0)
    some = [(9, 11), (12, 8), (0, 4)]
    each = MannWhitneyNulls(tuple(mann_whitney_of(some)), np.array([0, 1, 2]))
    for null, statistic in (
        (SignTestNull(np.array([40, 40], dtype=np.int32)), np.tile(np.arange(42.0), (2, 1))),
        (SignTestNull(np.array([40, 60, 0, 7], dtype=np.int32)), np.tile(np.arange(62.0), (4, 1))),
        (SignTestNull(np.arange(50, dtype=np.int32)), np.tile(np.arange(52.0), (50, 1))),
        (Gaussian(3.0, 2.0), np.arange(-20, 600)[np.newaxis] / 8),
        (mann_whitney(9, 11), u[np.newaxis]),
        (each, u / np.array([[11], [12], [4]])),
    ):
        p = sizes * null.p_values(statistic, slice(None))
        asked = null.threshold(error, sizes)
        np.testing.assert_array_equal(p <= error, statistic >= np.atleast_1d(asked.statistic)[:, np.newaxis])
        assert asked.larger == p[p > error].min() or (asked.larger > 1 and asked.larger >= p[p > error].min())


def changes(states: tuple[int, int, int], m: int) -> set[tuple[int, int, int]]:
    """All (above, below, neither) that some change of ``m`` buckets leads to; neither: zero, or nothing there."""
    reached = {states}
    for _ in range(m):
        for now, i, j in list(product(reached, range(3), range(3))):
            if now[i]:
                after = list(now)
                after[i] -= 1
                after[j] += 1
                reached.add((after[0], after[1], after[2]))
    return reached


def test_slack_is_the_supremum_over_all_changes_zeros_and_gaps_included() -> None:
    """Turning a sign is the worst that can be done to a bucket: the formula is met, and met exactly, by exhaustion."""

    def plain(above: int, below: int) -> float:
        total, most = above + below, max(above, below)
        tail = sum(comb(total, k) for k in range(most, total + 1)) / 2**total
        return 1.0 if 2 * most <= total else min(1.0, 2 * tail)

    for J in range(1, 13):
        for above in range(J + 1):
            for below in range(J + 1 - above):
                null = SignTestNull(np.array([above + below], dtype=np.int32))
                for m in range(4):
                    p = null.p_values(np.array([[float(max(above, below) - m)]]), slice(None))[0, 0]
                    largest = max(plain(a, b) for a, b, _ in changes((above, below, J - above - below), m))
                    assert p == pytest.approx(largest, rel=1e-12)


def test_ranks_of_several_sizes_come_out_of_one_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(3, 9), (9, 3), (12, 7), (0, 5), (1, 1)]
    for ranks, (n1, n2) in zip(mann_whitney_of(sizes), sizes, strict=True):
        assert (ranks.n1, ranks.n2) == (n1, n2)
        if n1 and n2:
            np.testing.assert_array_equal(ranks.table, mann_whitney(n1, n2).table)
    monkeypatch.setattr("sparsemean._stats.nulls.EXACT_ENTRIES", 60)
    assert [ranks.table is None for ranks in mann_whitney_of(sizes)] == [False, False, True, False, False]


def test_slack_of_ranks_bounds_wrong_values_labels_and_gaps() -> None:
    """Bad rows are x₁ + x₂ of those seen and y₁ + y₂ of the clean ones, in either group or missing in between."""
    largest = 14
    sizes = [(a, b) for a in range(largest + 3) for b in range(largest + 3)]
    tails = {(ranks.n1, ranks.n2): ranks for ranks in mann_whitney_of(sizes)}

    def tail(n1: int, n2: int, u: int) -> float:
        return float(tails[n1, n2].upper_tail(np.array([float(u)]))[0])

    for n1, n2, m in product(range(3, largest, 2), range(3, largest, 2), (1, 2, 3)):
        null = MannWhitneyNulls((tails[n1, n2],), np.zeros(1, dtype=np.intp))
        for u in range((n1 * n2) // 2, n1 * n2 + 1, 3):
            p = null.p_values(np.array([[u / max(n1, n2) - m]]), slice(None))[0, 0]
            if p == 1:
                continue
            for x1, y1 in product(range(m + 1), repeat=2):
                for x2 in range(m + 1 - x1):
                    seen = u - x1 * n2 - x2 * (n1 - x1)
                    assert 2 * tail(n1 - x1 + y1, n2 - x2 + m - y1, seen) <= p * (1 + 1e-12)


def test_each_feature_has_the_null_of_its_own_sizes() -> None:
    sizes = [(12, 17), (9, 17), (0, 17), (10, 4)]
    null = MannWhitneyNulls(tuple(mann_whitney_of(sizes)), np.array([0, 1, 2, 3, 1]))
    u = np.array([150.0, 120.0, 0.0, 38.0, 140.0])
    most = np.array([17, 17, 17, 10, 17])
    p = null.p_values((u / most)[:, np.newaxis], slice(None))[:, 0]
    for value, statistic, (n1, n2) in zip(p, u, [*sizes, sizes[1]], strict=True):
        expected = mann_whitney(n1, n2).p_values(np.array([statistic]), slice(None))[0] if n1 else 1.0
        assert value == expected
    for level in (0.3, 0.01):
        np.testing.assert_array_equal(u / most >= null.threshold(level).statistic, p <= level)
