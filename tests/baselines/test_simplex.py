"""The projection onto {0 ≤ w ≤ cap, Σw = 1} against its optimality conditions and a second method."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean._stats.descent import project_capped_simplex

import plain_baselines


def by_bisection(v: np.ndarray, cap: float) -> np.ndarray:
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(v - middle, 0, cap).sum() > 1 else (low, middle)
    return np.clip(v - high, 0, cap)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 1001])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("room", [1.0, 1.01, 1.5, 10.0])
def test_agrees_with_two_other_methods(n: int, spread: float, room: float) -> None:
    rng = np.random.default_rng(n)
    cap = min(1.0, room / n)
    for _ in range(20):
        v = 1 / n + spread * rng.standard_normal(n) / n
        w = project_capped_simplex(v, cap)
        np.testing.assert_allclose(w, by_bisection(v, cap), atol=1e-12)
        np.testing.assert_allclose(w, plain_baselines.project(v, cap), atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_is_the_nearest_feasible_point(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    cap = rng.uniform(1 / n, 1)
    v = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 2)
    w = project_capped_simplex(v, cap)
    assert w.min() >= 0
    assert w.max() <= cap
    np.testing.assert_allclose(w.sum(), 1, rtol=1e-13)
    # (v − w)·(z − w) ≤ 0 for every feasible z; the largest comes from filling the largest entries of v − w.
    away = v - w
    order = np.argsort(-away)
    z = np.zeros(n)
    z[order] = np.clip(1 - cap * np.arange(n), 0, cap)
    assert away @ (z - w) <= 1e-12 * max(1.0, np.abs(v).max())


def test_ties_share_alike() -> None:
    w = project_capped_simplex(np.array([1.0, 1.0, 1.0, 1.0, -1.0]), 0.4)
    np.testing.assert_allclose(w, [0.25, 0.25, 0.25, 0.25, 0.0], atol=1e-15)
    np.testing.assert_allclose(project_capped_simplex(np.zeros(6), 0.5), np.full(6, 1 / 6), atol=1e-15)


def test_a_cap_of_one_over_n_leaves_one_point() -> None:
    np.testing.assert_array_equal(project_capped_simplex(np.array([5.0, -3.0, 0.0]), 1 / 3), np.full(3, 1 / 3))


def test_a_point_of_the_set_stays() -> None:
    v = np.array([0.3, 0.3, 0.25, 0.15, 0.0])
    np.testing.assert_allclose(project_capped_simplex(v, 0.3), v, atol=1e-15)


def test_far_entries_cost_no_digits() -> None:
    w = project_capped_simplex(np.array([1e20, 0.3, 0.2, -1e20]), 0.6)
    np.testing.assert_allclose(w, [0.6, 0.25, 0.15, 0.0], atol=1e-15)
    w = project_capped_simplex(np.array([1e30, 1e30, -1e30]), 0.5)
    np.testing.assert_array_equal(w, [0.5, 0.5, 0.0])
