"""Trimming, M-estimates and medians of means against SciPy, R and roots found another way."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import brentq
from scipy.stats import median_abs_deviation, trim_mean

from sparsemean import baselines
from sparsemean._util.checks import draw_seed
from sparsemean.baselines import BaselineWarning
from sparsemean.baselines.medians import n_buckets, narrowest, random_bucket_means, rate

Rows = npt.NDArray[np.float64]
SAMPLE = np.array([2.1, -0.4, 3.3, 1.7, 0.9, 2.8, 45, 1.2, 2.2, -1.5, 30, 0.3])
HEAVY = np.random.default_rng(2).standard_t(2, (301, 7)) * np.geomspace(1e-3, 1e3, 7) + np.arange(7)


def run(name: str, X: Rows, contamination: float = 0.1, seed: int = 0) -> Rows:
    return baselines.get(name)(X, contamination=contamination, random_state=seed)


@pytest.mark.parametrize(("n", "contamination", "cut"), [(200, 0.1, 20), (30, 0.1, 3), (31, 0.1, 4), (301, 0.0, 0)])
def test_trimmed_mean_is_that_of_scipy(n: int, contamination: float, cut: int) -> None:
    X = HEAVY[:n]
    expected = trim_mean(X, (cut + 0.5) / n, axis=0)
    np.testing.assert_allclose(run("trimmed_mean", X, contamination), expected, rtol=1e-12)


def test_trimmed_mean_never_runs_out_of_rows() -> None:
    for n in (1, 2, 3, 4, 5):
        np.testing.assert_allclose(run("trimmed_mean", HEAVY[:n], 0.49), np.median(HEAVY[:n], axis=0), rtol=1e-12)


def test_huber_is_that_of_r() -> None:
    # R 4.2.2, robustbase 0.95.0: huberM(x, k = 1.345, tol = 1e-14)$mu for SAMPLE and for c(1:9, 1000)
    assert run("huber", SAMPLE[:, np.newaxis])[0] == pytest.approx(1.83254626666668, abs=1e-12)
    assert run("huber", np.array([[*range(1, 10), 1000.0]]).T)[0] == pytest.approx(5.55391583333333, abs=1e-12)


def test_huber_solves_its_equation() -> None:
    for column, found in zip(HEAVY.T, run("huber", HEAVY), strict=True):
        scale = 1.4826 * median_abs_deviation(column)
        root = brentq(
            lambda t, x=column, s=scale: np.clip((x - t) / s, -1.345, 1.345).sum(),
            column.min(),
            column.max(),
            xtol=1e-14,
        )
        assert found == pytest.approx(root, abs=1e-10 * scale)


@pytest.mark.parametrize("contamination", [0.0, 0.1, 0.4])
def test_catoni_solves_its_equation(contamination: float) -> None:
    n = HEAVY.shape[0]
    L = min(math.log(20) + contamination * n, n / 4)

    def psi(r: Rows) -> Rows:
        inner = -np.log(1 - np.abs(r) + r**2 / 2)
        return np.sign(r) * np.where(np.abs(r) < 1, inner, math.log(2))

    for column, found in zip(HEAVY.T, run("catoni", HEAVY, contamination), strict=True):
        v = (1.4826 * median_abs_deviation(column)) ** 2
        alpha = math.sqrt(2 * L / (n * (v + 2 * v * L / (n - 2 * L))))
        root = brentq(lambda t, x=column, a=alpha: psi(a * (x - t)).sum(), column.min(), column.max(), xtol=1e-14)
        assert found == pytest.approx(root, abs=1e-10 * math.sqrt(v))


def test_catoni_influence_keeps_within_his_bounds() -> None:
    r = np.linspace(-20, 20, 4001)
    psi = narrowest(r)
    assert np.all(psi <= np.log(1 + r + r**2 / 2) + 1e-14)
    assert np.all(psi >= -np.log(1 - r + r**2 / 2) - 1e-14)
    assert np.all(np.diff(psi) >= 0)
    assert np.all(np.diff(psi) <= np.diff(r) + 1e-14)


def test_catoni_tends_to_the_mean_with_many_clean_rows() -> None:
    assert rate(10**8, 0.0) < 1e-3
    X = np.random.default_rng(4).standard_normal((200_000, 2))
    np.testing.assert_allclose(run("catoni", X, 0.0), X.mean(axis=0), atol=2e-5)
    assert np.abs(run("median", X, 0.0) - X.mean(axis=0)).max() > 2e-4


@pytest.mark.parametrize("name", ["huber", "catoni"])
def test_a_column_without_scale_keeps_its_median_and_says_so(name: str) -> None:
    X = HEAVY[:60].copy()
    X[:40, 2], X[:, 4] = 1.5, -2.0
    with pytest.warns(BaselineWarning, match="kept the median in 1 coordinates"):
        mean = run(name, X)
    np.testing.assert_array_equal(mean[[2, 4]], [1.5, -2.0])
    others = [0, 1, 3, 5, 6]
    np.testing.assert_allclose(mean[others], run(name, X[:, others]), rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "contamination", "J"),
    [
        (10_000, 0.1, 4096),
        (10_000, 0.0, 96),
        (1000, 0.07, 376),
        (400, 0.1, 200),
        (400, 0.3, 241),
        (5, 0.49, 5),
        (1, 0, 1),
    ],
)
def test_number_of_buckets(n: int, contamination: float, J: int) -> None:
    assert n_buckets(n, contamination) == J


def test_median_of_means_by_hand() -> None:
    X = HEAVY
    J = n_buckets(301, 0.1)
    order = np.random.default_rng(draw_seed(np.random.default_rng(6))).permutation(301)
    means = np.array([rows.mean(axis=0) for rows in np.array_split(X[order], J)])
    np.testing.assert_allclose(random_bucket_means(X, 0.1, np.random.default_rng(6)), means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run("median_of_means", X, 0.1, 6), np.median(means, axis=0), rtol=1e-12, atol=1e-12)


def test_median_of_means_is_nearer_than_the_median_for_skewed_rows() -> None:
    X = np.random.default_rng(1).exponential(size=(20_000, 5))
    assert np.abs(run("median_of_means", X, 0.0) - 1).max() < 0.05
    assert np.abs(run("median", X, 0.0) - 1).min() > 0.25
