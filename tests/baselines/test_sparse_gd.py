"""Descent on the F,k,k-norm: against its plain transcription, piece by piece and as a whole."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import baselines, simulate
from sparsemean.baselines import _covariances
from sparsemean.baselines._covariances import LargestBlock, WeightedCovariance

import plain_baselines

SHAPES = [(300, 100, 4), (100, 150, 3), (60, 200, 7), (200, 5, 5), (50, 1, 1), (200, 80, 1), (150, 70, 70)]


def cut(mean: np.ndarray, k: int) -> np.ndarray:
    mean = mean.copy()
    mean[np.argsort(-np.abs(mean), kind="stable")[k:]] = 0
    return mean


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("distribution", ["t", "fisk"])
def test_agrees_with_the_transcription(n: int, d: int, k: int, distribution: str) -> None:
    X = simulate.make_contaminated(n, d, [10, -5, -4, 2][:d], distribution=distribution, random_state=d).X
    mean = baselines.get("sparse_gd")(X, contamination=0.1, k=k)
    with np.errstate(invalid="ignore"):  # the transcription divides 0 by 0 where Σ is I to the last bit, and stays
        plain = plain_baselines.sparse_gd(X, 0.1, k)
    np.testing.assert_allclose(mean, cut(plain, k), rtol=1e-9, atol=1e-9)


def test_agrees_with_the_transcription_on_ties_and_zeros() -> None:
    rng = np.random.default_rng(5)
    X = np.hstack([np.repeat(rng.integers(-2, 3, (150, 35)).astype(float), 2, axis=1), np.zeros((150, 4))])
    X[:15] += 3
    mean = baselines.get("sparse_gd").detailed(X, contamination=0.1, k=70).mean
    np.testing.assert_allclose(mean, cut(plain_baselines.sparse_gd(X, 0.1, 70), 70), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [10, 100])
@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e18])
def test_objective_and_gradient_for_weights_that_move(d: int, k: int, scale: float) -> None:
    rng = np.random.default_rng(k)
    X = scale * rng.standard_t(3, (120, d)) + 1
    X[0] += 50 * scale
    objective = LargestBlock(X, k)
    w = np.full(120, 1 / 120)
    for step in range(10):
        found = objective(w, np.inf)
        assert found is not None
        value, Z = plain_baselines.largest_block(plain_baselines.covariance(X, w), k)
        mean = w @ X
        g = (np.sum((X @ Z) * X, axis=1) - X @ (Z @ mean) - X @ (Z.T @ mean)) / np.linalg.norm(Z)
        np.testing.assert_allclose(found[0], value, rtol=1e-10)
        np.testing.assert_allclose(found[1], g, rtol=1e-7, atol=1e-9 * np.abs(g).max())
        assert objective(w, value * (1 - 1e-9)) is None
        few = rng.random(120) < (0.1 if step % 3 else 1.0)
        w = np.where(few, w * rng.uniform(0, 1.5, 120), w)
        w[0] *= 0.1
        w /= w.sum()


def test_covariance_keeps_its_precision() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.5, (150, 20)) + 100
    X[:3] += 1e4
    covariance = WeightedCovariance(X)
    w = np.full(150, 1 / 150)
    for _ in range(40):
        found = covariance.at(w)
        root = np.sqrt(covariance.peak)
        allowed = 40 * 160 * np.finfo(float).eps * root[:, None] * root
        assert (np.abs(found - plain_baselines.covariance(X, w)) <= allowed + 1e-9).all()
        w = np.where(rng.random(150) < 0.1, w * rng.uniform(0, 1.5, 150), w)
        w[:3] *= 0.5
        w /= w.sum()


def test_an_update_is_no_new_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((100, 5))
    covariance = WeightedCovariance(X)
    w = np.full(100, 0.01)
    covariance.at(w)
    monkeypatch.setattr(_covariances.WeightedCovariance, "_anew", None)
    moved = w.copy()
    moved[:2] = 0.015, 0.005
    np.testing.assert_allclose(covariance.at(moved), plain_baselines.covariance(X, moved), atol=1e-14)


@pytest.mark.parametrize("distance", [5.0, 1e3, 1e9])
def test_far_rows_do_not_move_it(distance: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 80))
    X[:, :3] += 4
    X[:50] += distance
    found = baselines.get("sparse_gd").detailed(X, contamination=0.1, k=3)
    truth = np.zeros(80)
    truth[:3] = 4
    assert np.linalg.norm(found.mean - truth) < 0.5
    assert found.weights is not None
    assert found.weights.max() <= 1 / 450 * (1 + 1e-12)
    np.testing.assert_allclose(found.weights.sum(), 1, rtol=1e-12)
    assert found.converged
    assert not found.notes


def test_without_contamination_it_is_the_mean_of_the_largest_entries() -> None:
    X = np.random.default_rng(0).standard_normal((50, 6)) + np.array([9, 8, 0, 0, 0, 0])
    np.testing.assert_allclose(
        baselines.get("sparse_gd")(X, contamination=0.0, k=2), cut(X.mean(axis=0), 2), atol=1e-14
    )
