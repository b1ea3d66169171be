"""The filter: against its plain transcription, its tails against their formulas, and what it does when rows run out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from sparsemean import baselines, simulate
from sparsemean.baselines import BaselineWarning, sparse_filtering

import plain_baselines

SHAPES = [(300, 100, 4), (600, 60, 4), (100, 150, 3), (200, 5, 5), (50, 1, 1), (200, 80, 1), (150, 70, 70), (400, 9, 2)]


def problems(n: int, d: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n + d)
    gaussian = rng.standard_normal((n, d))
    gaussian[: n // 10] -= 1.0
    hidden = rng.standard_normal((n, d))
    hidden[: n // 10, : max(1, d // 5)] += 2.5
    correlated = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    return {
        "gaussian": gaussian,
        "hidden": hidden,
        "correlated": correlated,
        "wide": 1.6 * gaussian,
        "t": simulate.make_contaminated(n, d, [10, -5][:d], shape=6, random_state=n).X,
    }


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("case", ["gaussian", "hidden", "correlated", "wide", "t"])
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.25])
def test_agrees_with_the_transcription(n: int, d: int, k: int, case: str, epsilon: float) -> None:
    X = problems(n, d)[case]
    kept, _ = sparse_filtering.filter_rows(X, epsilon, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = plain_baselines.sparse_filter(X, epsilon, k)
    mean = X[kept].mean(axis=0) if kept.size > 1 else np.zeros(d)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-12)


def test_some_of_these_problems_lose_rows_to_either_filter() -> None:
    rounds = {
        (case, epsilon): sparse_filtering.filter_rows(problems(600, 60)[case], epsilon, 4)[1]
        for case in ("hidden", "wide", "t")
        for epsilon in (0.02, 0.1)
    }
    assert max(rounds.values()) >= 2


@pytest.mark.parametrize("k", [1, 2, 4, 6])
@pytest.mark.parametrize(("n", "d"), [(30, 80), (100, 80), (100, 6)])
def test_mask(n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.standard_normal((n, d)) * rng.uniform(0.5, 4, d)
    M = np.cov(X, rowvar=False) - np.identity(d)
    u = np.argsort(-np.diag(M), kind="stable")[:k]
    expected = np.where(plain_baselines.mask(M, u), M, 0)
    centred = X - X.mean(axis=0)
    found = sparse_filtering.largest_entries(centred, u)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    form = np.abs(np.einsum("ij,jk,ik->i", centred, expected, centred) - np.trace(expected))
    departures = sparse_filtering.departures(centred, found)
    np.testing.assert_allclose(departures, form / np.linalg.norm(expected), rtol=1e-9, atol=1e-10)


def test_tails_are_capped_where_their_formulas_fail() -> None:
    x = np.array([0.0, 0.5, 1.0, 1.0 + 1e-9, 2.0, 5.0, 1e10])
    p = np.minimum(sparse_filtering.quadratic_tail(x, 0.1), 1)
    np.testing.assert_array_equal(p[:5], 1)
    np.testing.assert_allclose(p[5], 2 * math.exp(-(6 - math.sqrt(11)) / 2) + 0.01 / (10 * math.log(5) ** 2))
    assert 0 < p[6] < 1e-12
    X = np.linspace(-30, 30, 61)[:, None]
    tail = sparse_filtering.linear_tail(X, np.array([[4.0]]), 0.1, 1.5)
    assert tail is not None
    away = 30 - 3 * math.sqrt(0.4)
    np.testing.assert_allclose(tail[0], special.erfc(away / math.sqrt(2)) + 0.01 / (1.5 * away**2))
    assert tail[30] >= 1
    assert sparse_filtering.linear_tail(X, np.array([[1.1]]), 0.1, 1.5) is None


def test_removal_rule() -> None:
    tail = np.full(100, 2.0)
    tail[[7, 3, 50]] = 1e-9, 1e-8, 2e-3
    stay = sparse_filtering.light(tail)
    assert stay is not None
    # Position 2 of 100 is allowed 0.1·2/100 = 0.002; a p of zero at position 0 would be needed for one row alone.
    np.testing.assert_array_equal(np.flatnonzero(~stay), [3, 7, 50])
    tail[50] = 2.1e-3
    stay = sparse_filtering.light(tail)
    assert stay is not None
    np.testing.assert_array_equal(np.flatnonzero(~stay), [3, 7])
    assert sparse_filtering.light(np.where(np.arange(100) < 61, 1e-9, 2.0)) is None
    assert sparse_filtering.light(np.where(np.arange(100) < 60, 1e-9, 2.0)) is not None
    assert sparse_filtering.light(np.full(10, 0.5)) is None


@pytest.mark.parametrize("distance", [3.0, 1e3, 1e150])
def test_far_rows_are_removed(distance: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 50))
    X[:, :3] += 4
    X[:100, :3] += distance
    found = baselines.get("sparse_filter").detailed(X, contamination=0.1, k=3)
    truth = np.zeros(50)
    truth[:3] = 4
    assert np.linalg.norm(found.mean - truth) < 0.5
    assert found.weights is not None
    assert np.count_nonzero(found.weights[:100]) < 25
    assert np.count_nonzero(found.weights[100:]) > 850
    assert not found.notes


def test_losing_every_row_is_said() -> None:
    X = simulate.make_contaminated(200, 300, [10, -5], shape=1.2, random_state=0).X
    with pytest.warns(BaselineWarning, match=r"sparse_filter: .* of 200 rows were removed, so the mean is"):
        mean = baselines.get("sparse_filter")(X, contamination=0.1, k=2)
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_array_equal(plain_baselines.sparse_filter(X, 0.1, 2), 0)
    assert not baselines.get("sparse_filter").detailed(X, contamination=0.1, k=2).converged


def test_without_contamination_all_rows_stay() -> None:
    X = np.random.default_rng(0).standard_t(1, (50, 6))
    found = baselines.get("sparse_filter").detailed(X, contamination=0.0, k=6)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=1e-12)


def test_one_row_is_its_own_mean() -> None:
    found = baselines.get("sparse_filter").detailed([[1.0, -2.0, 3.0]], contamination=0.1, k=3)
    np.testing.assert_array_equal(found.mean, [1, -2, 3])
