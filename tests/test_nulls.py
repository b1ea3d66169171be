"""Null distributions against scipy and against counting by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from sparsemean.nulls import FairSigns, Gaussian, mann_whitney, sign_test


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


@pytest.mark.parametrize("p", [0.3, 0.01, 1e-9])
def test_least_bounds_what_can_reach_a_p_value(p: float) -> None:
    signs = FairSigns(np.array([40, 60], dtype=np.int32))
    for null, last in ((signs, 41), (Gaussian(3.0, 2.0), 60), (mann_whitney(9, 11), 100)):
        statistic = np.arange(last, dtype=float)
        values = null.p_values(np.stack((statistic, statistic)), np.array([0, 1]))
        assert (values[:, statistic < null.least(p) - 1e-9] > p).all()
