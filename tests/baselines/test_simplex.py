"""The projection onto {0 ≤ w ≤ cap, Σw = 1} against its optimality conditions and a second method."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsemean._kernels import columns, reference
from sparsemean._stats.descent import project_capped_simplex

import plain_baselines


def by_bisection(v: np.ndarray, cap: float) -> np.ndarray:
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(v - middle, 0, cap).sum() > 1 else (low, middle)
    return np.clip(v - high, 0, cap)


def by_sorting(v: np.ndarray, cap: float) -> np.ndarray:
    """Along the sorted kinks, v − cap where a weight leaves the cap and v where it reaches zero, Σw falls by (number of
    weights in between) × (distance): θ lies in the segment that passes 1."""
    n = v.size
    if n * cap <= 1:
        return np.full(n, 1 / n)
    rank = min(math.ceil(1 / cap), n)
    near = np.clip(v - np.partition(v, n - rank)[n - rank], -cap, cap)
    ascending = np.sort(near)
    kinks = np.concatenate([ascending - cap, ascending])
    order = np.argsort(kinks, kind="stable")
    kinks = kinks[order]
    freed = np.cumsum(order < n)
    at_zero = np.arange(1, 2 * n + 1) - freed
    lost = np.cumsum((freed - at_zero)[:-1] * np.diff(kinks))
    segment = min(int(np.searchsorted(lost, n * cap - 1)), 2 * n - 2)
    capped, zero = n - int(freed[segment]), int(at_zero[segment])
    free = ascending[zero : n - capped]
    if not free.size:
        return np.where(near >= kinks[segment + 1], cap, 0.0)
    return np.clip(near - free.mean() + (1 - capped * cap) / free.size, 0.0, cap)


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


def entries(kind: str, n: int, cap: float) -> np.ndarray:
    rng = np.random.default_rng(n)
    weights = np.where(rng.random(n) < 0.9, cap, cap * rng.random(n))
    return {
        "a move": lambda: weights - cap * rng.standard_t(2, n) ** 2,
        "at the kinks": lambda: cap * rng.integers(0, 2, n).astype(float),
        "zeros of both signs": lambda: np.where(rng.random(n) < 0.5, 0.0, -0.0),
        "heavy tails": lambda: 1e6 * rng.standard_cauchy(n),
        "far from zero": lambda: 1e9 + rng.standard_normal(n),
        "largest": lambda: rng.choice([-1e308, 0.0, 1e308], n),
        "subnormal": lambda: 5e-324 * rng.integers(0, 9, n),
        "not contiguous": lambda: rng.standard_normal(3 * n)[::3],
    }[kind]()


KINDS = ["a move", "at the kinks", "zeros of both signs", "heavy tails", "far from zero", "largest", "subnormal",
         "not contiguous"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 999, 1000, 1015, 20001])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
@pytest.mark.filterwarnings("ignore:overflow")
def test_agrees_with_sorting(kind: str, n: int, share: float) -> None:
    cap = 1 / (n - round(share * n))
    v = entries(kind, n, cap)
    found = project_capped_simplex(v, cap)
    np.testing.assert_allclose(found, by_sorting(v, cap), atol=1e-13 * max(1.0, n / 1000) * cap)
    np.testing.assert_allclose(found.sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 600, 1000])
def test_the_compiled_look_has_the_bits_of_the_readable_one(n: int) -> None:
    v = np.random.default_rng(n).standard_normal(n)
    for cap in (0.5, 1 / n, 3.0):
        assert columns.look.machine(v, -0.25, cap) == reference.look(v, -0.25, cap)
