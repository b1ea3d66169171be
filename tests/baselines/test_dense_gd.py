"""Descent on the top eigenvalue: against its plain transcription, a closed form and rows that lie far away."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import baselines, simulate
from sparsemean._stats.descent import descend, largest_weight
from sparsemean.baselines import _covariances
from sparsemean.baselines._covariances import TopEigenpair, spectral_descent

import plain_baselines

SHAPES = [(600, 4), (200, 40), (150, 100), (60, 200), (120, 45), (30, 300), (40, 1)]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("distribution", ["t", "pareto"])
def test_agrees_with_the_transcription(n: int, d: int, distribution: str) -> None:
    X = simulate.make_contaminated(n, d, [10, -5, -4, 2][:d], distribution=distribution, random_state=n + d).X
    found = spectral_descent(X, 0.1)
    np.testing.assert_allclose(found.mean, plain_baselines.dense_gd(X, 0.1), rtol=1e-6, atol=1e-7)


def test_agrees_with_the_transcription_on_ties_and_zeros() -> None:
    rng = np.random.default_rng(3)
    X = np.hstack([rng.integers(-2, 3, (150, 40)).astype(float), np.zeros((150, 5))])
    X[:15] += 3
    np.testing.assert_allclose(spectral_descent(X, 0.1).mean, plain_baselines.dense_gd(X, 0.1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("contamination", [0.01, 0.1, 0.3, 0.49])
def test_weights_are_feasible_and_lower_the_eigenvalue(contamination: float) -> None:
    X = simulate.make_contaminated(200, 50, [3.0], contamination=0.1, random_state=0).X
    found = spectral_descent(X, contamination)
    w = found.weights
    assert w is not None
    assert w.min() >= 0
    assert w.max() <= largest_weight(200, contamination) * (1 + 1e-12)
    np.testing.assert_allclose(w.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(w @ X, found.mean, rtol=1e-12)
    uniform = np.full(200, 1 / 200)
    top = [np.linalg.eigvalsh(plain_baselines.covariance(X, v))[-1] for v in (w, uniform)]
    assert top[0] < top[1]


def test_one_feature_is_weighed_by_its_least_variance() -> None:
    # With 60 % of the mass to place on 0, 1, …, 9 and no row above 1/6 the variance is least on six rows in the middle
    # or at any place between: the mean of consecutive integers, with the variance of six of them.
    X = np.arange(10.0)[:, None]
    found = spectral_descent(X, 0.4, n_iter=500)
    w = found.weights
    assert w is not None
    assert w @ (X[:, 0] - found.mean[0]) ** 2 <= 35 / 12 + 0.05


@pytest.mark.parametrize("distance", [20.0, 1e3, 1e6, 1e12])
def test_far_rows_lose_their_weight(distance: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 60))
    X[:40] += distance
    found = baselines.get("dense_gd").detailed(X, contamination=0.1)
    assert found.weights is not None
    assert found.weights[:40].sum() < 0.5 / distance
    assert np.linalg.norm(found.mean) < 2 * np.sqrt(60 / 360)
    assert found.converged
    assert not found.notes


def test_without_contamination_it_is_the_mean() -> None:
    X = np.random.default_rng(0).standard_normal((50, 40))
    found = baselines.get("dense_gd").detailed(X, contamination=0.0)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=1e-14)
    assert found.iterations == 0


@pytest.mark.parametrize(("n", "d"), [(100, 50), (50, 100), (300, 40), (20, 60), (90, 8)])
def test_eigenpairs_for_weights_that_move(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.standard_t(3, (n, d)) + 5
    objective = TopEigenpair(X)
    w = np.full(n, 1 / n)
    for step in range(12):
        found = objective(w, np.inf)
        assert found is not None
        values, vectors = np.linalg.eigh(plain_baselines.covariance(X, w))
        along = X @ vectors[:, -1]
        np.testing.assert_allclose(found[0], values[-1], rtol=1e-12)
        np.testing.assert_allclose(found[1], along**2 - 2 * (w @ along) * along, rtol=1e-6, atol=1e-6)
        assert objective(w, values[-1] * (1 - 1e-9)) is None
        few = rng.random(n) < (0.1 if step % 3 else 1.0)
        w = np.where(few, w * rng.uniform(0.3, 1.5, n), w)
        w /= w.sum()


def test_a_direction_orthogonal_to_the_last_ones_is_found() -> None:
    # Each row lies on an axis of its own; weights decide which axis has the most variance.
    X = np.vstack([np.eye(60), -np.eye(60)]) * np.linspace(1, 2, 60).repeat(2).reshape(2, 60).T.reshape(-1)[:, None]
    objective = TopEigenpair(X)
    for axis in (3, 41, 17):
        w = np.full(120, 0.5 / 118)
        w[[axis, axis + 60]] = 0.25
        w /= w.sum()
        found = objective(w, np.inf)
        assert found is not None
        np.testing.assert_allclose(found[0], np.linalg.eigvalsh(plain_baselines.covariance(X, w))[-1], rtol=1e-12)


def test_falls_back_on_a_full_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(2).standard_normal((80, 50))
    expected = spectral_descent(X, 0.1, n_iter=10).mean
    monkeypatch.setattr(_covariances, "ROUNDS", 1)
    np.testing.assert_allclose(spectral_descent(X, 0.1, n_iter=10).mean, expected, atol=1e-9)


def test_descent_stops_where_nothing_can_move() -> None:
    flat = descend(lambda w, _below: (1.0, np.zeros(w.size)), 10, 0.2, n_iter=50)
    assert (flat.iterations, flat.converged) == (0, True)
    rising = descend(lambda _w, below: (1.0, np.arange(10.0)) if below == np.inf else None, 10, 0.2, n_iter=500)
    assert rising.converged
    assert rising.iterations < 50
    np.testing.assert_array_equal(rising.weights, np.full(10, 0.1))


def test_descent_solves_a_linear_problem() -> None:
    costs = np.arange(10.0)
    found = descend(lambda w, _below: (float(costs @ w), costs), 10, 0.25, n_iter=200)
    np.testing.assert_allclose(found.weights, [0.25] * 4 + [0.0] * 6, atol=1e-9)
