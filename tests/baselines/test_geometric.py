"""The geometric median against R, a general minimiser and cases with a known answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from sparsemean import baselines
from sparsemean.baselines.medians import geometric_median_of, random_bucket_means

Rows = npt.NDArray[np.float64]
TABLE = np.array(
    [
        [0.3, 1.9, -2.2],
        [4.1, -0.7, 0.6],
        [1.5, 2.5, 3.5],
        [-2.8, 0.4, 1.1],
        [0.9, -3.6, 2.7],
        [60, -80, 45],
        [2.4, 1.3, -0.5],
    ]
)


def distances(y: Rows, X: Rows) -> float:
    return float(np.linalg.norm(X - y, axis=1).sum())


def test_is_that_of_r() -> None:
    # R 4.2.2, pracma 2.4.2: geo_median(M, tol = 1e-14, maxiter = 1e5)$p
    # The same to all these digits from pcaPP 2.0.3: l1median(M, 5000, 1e-14, trace = -1)
    expected = [1.88902758558421, 0.00549981732908, 0.88624000669480]
    np.testing.assert_allclose(geometric_median_of(TABLE).mean, expected, atol=1e-9)


@pytest.mark.parametrize(("n", "d", "tails"), [(40, 2, 1.5), (101, 5, 3), (12, 30, 2), (500, 20, 9)])
def test_no_general_minimiser_does_better(n: int, d: int, tails: float) -> None:
    X = np.random.default_rng(n).standard_t(tails, (n, d))
    found = geometric_median_of(X)
    best = minimize(distances, X.mean(axis=0), args=(X,), method="BFGS", options={"gtol": 1e-9})
    assert found.converged
    assert distances(found.mean, X) <= best.fun + 1e-10 * n
    np.testing.assert_allclose(found.mean, best.x, atol=1e-4)


def test_pulls_of_all_rows_cancel() -> None:
    X = np.random.default_rng(3).standard_cauchy((300, 8))
    away = X - geometric_median_of(X).mean
    assert np.linalg.norm((away / np.linalg.norm(away, axis=1, keepdims=True)).sum(axis=0)) < 1e-6


def test_one_column_gives_the_median() -> None:
    for n in (1, 2, 9, 10):
        X = np.random.default_rng(n).standard_normal((n, 1))
        np.testing.assert_allclose(geometric_median_of(X).mean, np.median(X, axis=0), rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_a_row_that_is_the_minimum_is_returned_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 3))
    X[5:] = X[4]
    np.testing.assert_array_equal(geometric_median_of(X).mean, X[4])


def test_an_obtuse_triangle_has_its_minimum_at_the_corner() -> None:
    corner = np.array([[0.0, 0.0], [1.0, 0.1], [-1.0, 0.1]])
    np.testing.assert_array_equal(geometric_median_of(corner).mean, [0.0, 0.0])
    equilateral = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    np.testing.assert_allclose(geometric_median_of(equilateral).mean, equilateral.mean(axis=0), atol=1e-9)


def test_leaves_a_row_it_starts_at() -> None:
    # The coordinate-wise median of these is the first row, which is not the minimum: plain Weiszfeld would stay there.
    X = np.array([[0.0, 0.0], [1.0, 5.0], [2.0, 6.0], [-5.0, -0.1], [-0.1, -9.0]])
    np.testing.assert_array_equal(np.median(X, axis=0), X[0])
    found = geometric_median_of(X)
    assert found.iterations > 1
    best = minimize(distances, [0.3, 0.3], args=(X,), method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-14})
    assert distances(found.mean, X) <= best.fun + 1e-9


def test_turns_with_the_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, (60, 6))
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    np.testing.assert_allclose(geometric_median_of(X @ turn).mean, geometric_median_of(X).mean @ turn, atol=1e-8)


def test_of_means_is_the_geometric_median_of_bucket_means() -> None:
    X = np.random.default_rng(9).standard_t(3, (700, 5))
    means = random_bucket_means(X, 0.05, np.random.default_rng(9))
    found = baselines.get("geometric_median_of_means")(X, contamination=0.05, random_state=np.random.default_rng(9))
    assert found.shape == (5,)
    seeded = baselines.get("geometric_median_of_means")(X, contamination=0.05, random_state=9)
    np.testing.assert_allclose(seeded, geometric_median_of(means).mean, atol=1e-12)
