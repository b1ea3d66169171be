"""The filters: how far corrupted rows get, what clean rows lose, and each step against its formula.

Bars are multiples of √ε = 0.316, the order of error that bounded covariance allows, at fixed seeds; the mean of the
uncorrupted rows is itself √(d/n) = 0.17 from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.linalg import expm
from scipy.optimize import linprog

from sparsemean import baselines
from sparsemean._util.records import LocationEstimate
from sparsemean.baselines._baseline import BaselineWarning
from sparsemean.baselines.filters import (
    begin,
    entropy_scores,
    filter_to,
    largest_deviation,
    lighten,
    most_weight,
    near,
    outlying,
)

Rows = npt.NDArray[np.float64]
N, D, EPSILON = 2000, 50, 0.1
FILTERS = ("dense_filter", "quantum_entropy", "agnostic_filter")
Attack = Callable[[np.random.Generator, int], Rows]
ATTACKS: dict[str, tuple[Attack, float]] = {
    "far rows": (lambda rng, m: 100 * rng.standard_normal((m, D)), 0.02),
    "one far point": (lambda _, m: np.full((m, D), 40.0), 0.02),
    "a shift of √d over all coordinates": (lambda rng, m: rng.standard_normal((m, D)) + 1.0, 0.75),
    "a shift of √d on one": (lambda rng, m: 0.1 * rng.standard_normal((m, D)) + math.sqrt(D) * np.eye(D)[0], 0.75),
    "a shift of 4 on one": (lambda rng, m: 0.1 * rng.standard_normal((m, D)) + 4 * np.eye(D)[0], 1.1),
    "all distances": (lambda rng, m: np.exp(rng.uniform(0, 12, (m, 1))) * rng.standard_normal((m, D)), 0.4),
}
"""Corrupted rows, and how many √ε the answer may be from the mean of the others."""


def attacked(attack: Attack, seed: int = 0) -> tuple[Rows, Rows]:
    """Return the rows and the mean of the uncorrupted ones."""
    rng = np.random.default_rng(seed)
    X, m = rng.standard_normal((N, D)), int(EPSILON * N)
    X[:m] = attack(rng, m)
    return X, X[m:].mean(axis=0)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("case", ATTACKS)
def test_corrupted_rows_get_no_farther_than_root_epsilon(name: str, case: str) -> None:
    attack, bar = ATTACKS[case]
    X, clean = attacked(attack)
    found = baselines.get(name).detailed(X, contamination=EPSILON)
    error = np.linalg.norm(found.mean - clean)
    assert found.converged, found.notes
    assert error < bar * math.sqrt(EPSILON)
    assert error < 0.8 * np.linalg.norm(X.mean(axis=0) - clean)
    assert found.weights is not None
    assert found.weights[: N // 10].mean() < 0.85 * found.weights[N // 10 :].mean()


@pytest.mark.parametrize("name", FILTERS)
def test_clean_rows_are_left_alone(name: str) -> None:
    X = np.random.default_rng(1).standard_normal((N, D)) + 3.0
    np.testing.assert_allclose(baselines.get(name)(X, contamination=EPSILON), X.mean(axis=0), atol=1e-12)
    correlated = X @ np.random.default_rng(2).standard_normal((D, D))
    scale = math.sqrt(np.linalg.eigvalsh(np.cov(correlated.T))[-1])
    found = baselines.get(name)(correlated, contamination=EPSILON)
    assert np.linalg.norm(found - correlated.mean(axis=0)) < 0.01 * scale


@pytest.mark.parametrize("name", FILTERS)
def test_turns_with_the_rows(name: str) -> None:
    """Only the coordinate-wise median they start from and the rows it drops depend on the axes."""
    X, clean = attacked(ATTACKS["a shift of √d on one"][0])
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((D, D)))[0]
    found = baselines.get(name)(X @ turn, contamination=EPSILON)
    assert np.linalg.norm(found - clean @ turn) < 0.75 * math.sqrt(EPSILON)


@pytest.mark.parametrize("name", FILTERS)
def test_works_with_fewer_rows_than_features(name: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((100, 300))
    X[:10] += 5.0
    found = baselines.get(name)(X, contamination=0.1)
    clean = X[10:].mean(axis=0)
    assert np.linalg.norm(found - clean) < 0.25 * np.linalg.norm(X.mean(axis=0) - clean)


@pytest.mark.parametrize("name", ["dense_filter", "quantum_entropy"])
def test_no_more_than_twice_epsilon_is_taken(name: str) -> None:
    X = np.random.default_rng(5).standard_cauchy((500, 10))
    found = baselines.get(name).detailed(X, contamination=0.05)
    assert found.weights is not None
    assert 1 / found.weights.max() >= 500 * 0.9 - 1e-6
    assert not found.converged
    with pytest.warns(BaselineWarning, match="took 2ε of the weight"):
        baselines.get(name)(X, contamination=0.05)


@pytest.mark.parametrize("name", FILTERS)
def test_half_of_the_rows_equal_gives_the_median_and_says_so(name: str) -> None:
    X = np.random.default_rng(6).standard_normal((41, 5))
    X[:30] = np.arange(5)
    with pytest.warns(BaselineWarning, match="half of the rows are equal"):
        found = baselines.get(name)(X, contamination=0.1)
    np.testing.assert_array_equal(found, np.arange(5))


def test_rows_in_their_own_span_keep_inner_products() -> None:
    X = np.random.default_rng(7).standard_normal((9, 30))
    found = near(X, 100.0)
    assert found is not None
    assert found.rows.shape == (9, 9)
    away = X - np.median(X, axis=0)
    unit = np.median(np.linalg.norm(away, axis=1))
    np.testing.assert_allclose(found.rows @ found.rows.T, away @ away.T / unit**2, atol=1e-12)


def test_first_filter_step_by_hand() -> None:
    X, _ = attacked(ATTACKS["a shift of √d on one"][0])
    start = begin(X, EPSILON)
    assert not isinstance(start, LocationEstimate)
    vectors = np.linalg.eigh(np.cov(X.T, bias=True))[1]
    along = (X - X.mean(axis=0)) @ vectors[:, -1]
    share = outlying(np.ones(N), along**2)
    np.testing.assert_allclose(share, along**2 / np.max(along**2), rtol=1e-12)
    w = lighten(np.ones(N), share, start.budget)
    np.testing.assert_allclose(w, 1 - along**2 / np.max(along**2), atol=1e-12)
    assert lighten(np.ones(N), share, 7.0).sum() == pytest.approx(N - 7)
    found = baselines.get("dense_filter").detailed(X, contamination=EPSILON)
    assert found.iterations == 1
    np.testing.assert_allclose(found.mean, w @ X / w.sum(), atol=1e-10)


def test_entropy_scores_are_those_of_the_matrix_exponential() -> None:
    rng = np.random.default_rng(8)
    Z = rng.standard_normal((20, 4))
    M = 4 * np.cov(Z.T) / np.linalg.norm(np.cov(Z.T), 2)
    U = expm(M) / np.trace(expm(M))
    scores, u, along = entropy_scores(Z, M)
    np.testing.assert_allclose(scores, [z @ U @ z for z in Z], rtol=1e-10)
    np.testing.assert_allclose(np.sort(u), np.linalg.eigvalsh(U), rtol=1e-9)
    np.testing.assert_allclose(along**2 @ u, scores, rtol=1e-12)


def test_entropy_scores_go_from_length_to_top_direction() -> None:
    Z = np.random.default_rng(9).standard_normal((30, 5)) * [1, 1, 1, 1, 3]
    covariance = Z.T @ Z / 30
    np.testing.assert_allclose(entropy_scores(Z, 0 * covariance)[0], (Z**2).sum(axis=1) / 5, rtol=1e-12)
    v = np.linalg.eigh(covariance)[1][:, -1]
    np.testing.assert_allclose(entropy_scores(Z, 1e4 * covariance)[0], (Z @ v) ** 2, rtol=1e-10)


def test_one_dimensional_filter_takes_the_fewest_steps() -> None:
    rng = np.random.default_rng(10)
    parts = np.concatenate([rng.standard_normal(500), 9 + rng.standard_normal(50)])[:, np.newaxis]
    parts -= parts.mean()
    scores, w = parts[:, 0] ** 2, np.ones(550)

    def variance(w: Rows) -> float:
        return float(np.cov(parts[:, 0], aweights=w, bias=True))

    steps = [w * (1 - scores / scores.max()) ** K for K in range(200)]
    for target in (6.0, 3.0, 1.2):
        K = next(K for K, tried in enumerate(steps) if variance(tried) <= target)
        np.testing.assert_allclose(filter_to(w, scores, parts, target=target, budget=400.0), steps[K], atol=1e-12)
    assert filter_to(w, scores, parts, target=0.0, budget=30.0).sum() == pytest.approx(520)
    np.testing.assert_array_equal(filter_to(w, scores, parts, target=1e9, budget=30.0), w)


def test_the_program_of_one_column_is_a_linear_one() -> None:
    z = np.random.default_rng(11).standard_t(2, (60, 1))
    best = linprog(-np.ones(60), A_ub=z.T**2, b_ub=[25.0], bounds=(0, 1))
    packed = most_weight(z, 25.0)
    assert packed.solved
    assert packed.w.sum() == pytest.approx(-best.fun, abs=0.6)
    assert z[:, 0] ** 2 @ packed.w < 25.0 * 1.02


def test_the_program_reaches_its_dual() -> None:
    X, _ = attacked(ATTACKS["a shift of √d over all coordinates"][0])
    packed = most_weight(X, 1.5 * N)
    assert packed.solved
    A = X.T @ (packed.w[:, np.newaxis] * X) / (1.5 * N)
    Y = packed.multiplier
    dual = np.trace(Y) + np.maximum(1 - np.einsum("ij,jk,ik->i", X, Y, X) / (1.5 * N), 0).sum()
    largest = max(1.0, np.linalg.eigvalsh(A)[-1])
    assert np.linalg.eigvalsh(Y)[0] > -1e-9 * np.trace(Y)
    assert largest < 1.011
    assert packed.w.sum() / largest <= dual + 1e-6 < packed.w.sum() + 0.01 * N


def test_the_largest_deviation_is_that_of_the_clean_rows() -> None:
    rng = np.random.default_rng(12)
    X = rng.standard_normal((4000, 6)) @ np.diag([1, 1, 1, 2, 1, 1]) @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    assert largest_deviation(X) == pytest.approx(2.0, rel=0.05)
    X[:400] = 1e6
    assert largest_deviation(X) == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize("contamination", [0.0, 0.05, 0.4])
def test_the_agnostic_filter_is_not_told_epsilon(contamination: float) -> None:
    X, _ = attacked(ATTACKS["far rows"][0])
    found = baselines.get("agnostic_filter").detailed(X[:, :5], contamination=contamination)
    assert found.weights is not None
    assert np.count_nonzero(found.weights[: N // 10]) < 3
    assert np.count_nonzero(found.weights[N // 10 :]) == N - N // 10
