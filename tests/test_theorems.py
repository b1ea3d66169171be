"""The paper's theorems: their conditions at given numbers, the settings they ask for, and the bounds that then hold."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from specification import subgm

import sparsemean as sm
from sparsemean._fit.theorems import (
    CONVERGENCE,
    DIMENSIONS,
    FULL,
    GAUSSIAN_THIRD,
    LOWER_BOUND,
    MEDIAN_OF_MEANS,
    SAMPLE_SIZE,
    STABILITY,
    THIRD_MOMENTS,
    theorem_rows,
    window,
)
from sparsemean.errors import InputError

HOLDS, FAILS = "(holds)", "(does not hold)"


def rows_of(theorem: str, **options: Any) -> dict[str, float]:
    asked = {"k": 4, "sigma": 1.0, "delta": 0.05, **options}
    n, d = asked.pop("n"), asked.pop("d")
    return {quantity: value for name, quantity, value in theorem_rows(n, d, **asked) if name == theorem}


def verdicts(rows: dict[str, float]) -> list[str]:
    return [mark for quantity in rows for mark in (HOLDS, FAILS) if quantity.endswith(mark)]


def test_at_the_experiments_of_the_paper_no_condition_on_the_data_holds() -> None:
    """By hand: n = 600, d = 100, ε = .1, σ = 1, means of 2 and more; of the published settings α and T = 600 pass."""
    rows = rows_of(CONVERGENCE, n=600, d=100, contamination=0.1, effect=2.0)
    assert verdicts(rows) == [FAILS] * 4 + [HOLDS, FAILS, HOLDS, FAILS]
    expected = [
        2.5e-5, 20_000 * math.log(4000) / 0.1, 6000, 0.1, 0.001 * math.sqrt(0.001), 2 * math.log(1e5) / 0.05,
        6 * math.log(1e5) / 0.05, 20 * math.sqrt(0.1), 31 * math.sqrt(0.1), 30 * math.sqrt(0.1), 31 * math.sqrt(0.4),
    ]  # fmt: skip
    np.testing.assert_allclose(list(rows.values()), expected, rtol=1e-12)
    assert sum("not proved at these" in quantity for quantity in rows) == 2
    full = rows_of(FULL, n=600, d=100, contamination=0.1)
    np.testing.assert_allclose(list(full.values()), [20_000 * math.log(8000) / 0.1, (4 + math.log(2000)) / 0.1])
    assert verdicts(full) == [FAILS]


def test_conditions_turn_where_the_paper_says() -> None:
    """Each verdict flips at its own number: ε at 0.005², n at 20000·ln(2d/δ)/ε, J at n, the mean at 31σ√ε."""
    n = math.ceil(20_000 * math.log(4000) / 2.5e-5)
    data = {"n": n, "d": 100, "contamination": 2.5e-5}
    assert verdicts(rows_of(CONVERGENCE, **data))[:4] == [HOLDS] * 4
    assert all("not proved" not in quantity for quantity in rows_of(CONVERGENCE, **data))
    assert verdicts(rows_of(CONVERGENCE, **{**data, "n": n - 1}))[:4] == [HOLDS, FAILS, HOLDS, HOLDS]
    assert verdicts(rows_of(CONVERGENCE, **{**data, "n": 2 * n, "contamination": 2.6e-5}))[:4] == [FAILS] + [HOLDS] * 3
    for rows, held in ((1000, HOLDS), (999, FAILS)):  # ten bad rows either way, and so 1000 buckets
        assert verdicts(rows_of(CONVERGENCE, n=rows, d=100, contamination=0.01))[2:4] == [held] * 2
    for mean, held in ((31.001, HOLDS), (30.999, FAILS)):
        at = {**data, "sigma": 7.0, "effect": mean * 0.005}
        assert verdicts(rows_of(CONVERGENCE, **at))[-1] == held


def test_the_published_step_size_suits_no_mean_that_is_proved_to_be_found() -> None:
    """η ≤ σ√ε/μ_max and μ_max ≥ 31σ√ε give η ≤ 1/31, below the published 0.05, at any ε and σ."""
    for epsilon, sigma in itertools.product((1e-6, 2.5e-5, 0.01, 0.3), (0.1, 1.0, 50.0)):
        rows = rows_of(CONVERGENCE, n=10_000, d=10, contamination=epsilon, sigma=sigma)
        largest = next(value for quantity, value in rows.items() if quantity.startswith("largest mean"))
        smallest = next(value for quantity, value in rows.items() if quantity.startswith("smallest mean"))
        assert largest < smallest


def test_third_moments_ask_for_a_small_contamination_whatever_the_law() -> None:
    """E|X|³ ≥ (E X²)^1.5, with equality for a fair coin of ±1 alone: the smallest ratio is 1, so ε ≤ 0.005²."""
    rng = np.random.default_rng(0)
    laws = rng.standard_normal((200, 5)), rng.dirichlet(np.ones(5), 200)
    centred = laws[0] - np.sum(laws[0] * laws[1], axis=1, keepdims=True)
    second, third = (np.sum(np.abs(centred) ** power * laws[1], axis=1) for power in (2, 3))
    assert np.min(third / second**1.5) >= 1


def test_without_bad_rows_only_medians_of_means_are_left() -> None:
    rows = rows_of(MEDIAN_OF_MEANS, n=2000, d=500, contamination=0.0)
    np.testing.assert_allclose(
        list(rows.values()),
        [32 * math.log(20), 4 * math.sqrt(2 / 2000) + 16 * math.sqrt(math.log(20) / 2000)],
    )
    rows = rows_of(DIMENSIONS, n=2000, d=500, contamination=0.0)
    each = 4 * math.sqrt(2 / 2000) + 16 * math.sqrt(math.log(10_000) / 2000)
    np.testing.assert_allclose(list(rows.values()), [32 * math.log(10_000), each, math.sqrt(500) * each])
    assert len(theorem_rows(2000, 500, contamination=0.0, k=1, sigma=1.0, delta=0.05)) == 5
    assert verdicts(rows_of(MEDIAN_OF_MEANS, n=60, d=5, contamination=0.1)) == [FAILS]
    assert list(rows_of(LOWER_BOUND, n=60, d=5, contamination=0.04, sigma=3.0).values()) == pytest.approx([0.6])


# What the paper takes from others.


def test_rows_beside_the_theorems_are_those_of_the_paper() -> None:
    """By hand: n = 600, d = 100, ε = .1, k = 4, δ = .05, σ = 2."""
    asked = {"n": 600, "d": 100, "contamination": 0.1, "sigma": 2.0}
    each = 4 * math.sqrt(2) * (math.sqrt(0.1) + math.sqrt(1 / 600)) + 16 * math.sqrt(math.log(2000) / 600)
    rows = rows_of(DIMENSIONS, **asked)
    np.testing.assert_allclose(list(rows.values()), [240 + 32 * math.log(2000), 2 * each, 20 * each])
    assert verdicts(rows) == [HOLDS]
    turns = 0.05 * math.exp((600 - 240) / 32)  # the number of features at which J reaches n
    assert verdicts(rows_of(DIMENSIONS, **{**asked, "d": math.floor(turns)})) == [HOLDS]
    assert verdicts(rows_of(DIMENSIONS, **{**asked, "d": math.ceil(turns)})) == [FAILS]
    order = math.sqrt(0.1) + math.sqrt(4 / 600) + math.sqrt(math.log(20) / 600)
    np.testing.assert_allclose(list(rows_of(STABILITY, **asked).values()), [2 * order, 4 * math.sqrt(0.2 / 0.8)])
    rho = 2 * math.sqrt(2 / math.pi)
    expected = [4 * (0.04 * rho) ** (1 / 3) / 0.8, (0.01 * rho) ** (1 / 3)]
    np.testing.assert_allclose(list(rows_of(THIRD_MOMENTS, **asked).values()), expected)
    assert pytest.approx(rho) == GAUSSIAN_THIRD
    (size,) = rows_of(SAMPLE_SIZE, **asked).values()
    log_supports = math.log(math.comb(100, 4))  # k·ln(d/k) is their logarithm, but for k
    assert log_supports - 4 <= size * 0.1 - math.log(2000) <= log_supports
    assert rows_of(SAMPLE_SIZE, **{**asked, "k": 100}).popitem()[1] == pytest.approx(math.log(2000) / 0.1)


@pytest.mark.parametrize("seed", range(20))
def test_medians_of_means_err_by_less_than_the_bound_whatever_bad_rows_are(seed: int) -> None:
    """Skewed and heavy noise of variance 1; all bad rows on one side, one in each bucket: the most they can spoil."""
    n, d, epsilon, delta = 4000, 50, 0.02, 0.05
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.exponential(size=(n, d // 2)) - 1, rng.standard_t(3, (n, d // 2)) / math.sqrt(3)])
    (buckets, *_), (largest, together) = (
        list(rows_of(DIMENSIONS, n=n, d=d, contamination=epsilon, delta=delta).values())[at]
        for at in (slice(0, 1), slice(1, 3))
    )
    J = math.ceil(buckets)
    X[:: n // J][: round(epsilon * n)] = 1e6
    error = np.median(X[: n // J * J].reshape(J, n // J, d).mean(axis=1), axis=0)
    assert 0 < np.abs(error).max() <= largest
    assert np.linalg.norm(error) <= together


def laws(rng: np.random.Generator) -> Any:
    """Return values, and two laws on them."""
    values = rng.standard_normal(6) * np.exp(2 * rng.standard_normal(6))
    return values, *rng.dirichlet(np.full(6, 0.4), 2)


def moments(values: Any, law: Any) -> tuple[float, float, float]:
    mean = values @ law
    return mean, (values - mean) ** 2 @ law, np.abs(values - mean) ** 3 @ law


def test_means_of_laws_that_share_mass_are_as_near_as_is_said() -> None:
    """Never beyond 2σ√(τ/(1 − τ)) and 2σ(ρτ²)^⅓/(1 − τ), τ = 2ε the distance of the laws; the first is attained."""
    rng = np.random.default_rng(0)
    for _ in range(5000):
        values, first, second = laws(rng)
        mixed = 0.9 * rng.random()
        second = mixed * first + (1 - mixed) * second
        (mean, variance, third), (other, *others) = moments(values, first), moments(values, second)
        tau, sigma = 0.5 * np.abs(first - second).sum(), math.sqrt(max(variance, others[0]))
        rho = max(third, others[1]) / sigma**3
        at = {"n": 10**9, "d": 1, "k": 1, "contamination": tau / 2, "sigma": sigma}
        apart = abs(mean - other)
        assert apart <= list(rows_of(STABILITY, **at).values())[1] * (1 + 1e-9)
        most = next(iter(rows_of(THIRD_MOMENTS, **at).values())) * (rho / GAUSSIAN_THIRD) ** (1 / 3)
        assert apart <= most * (1 + 1e-9)
    for tau in (0.02, 0.3):  # the mass that is not shared at one point, on either side
        values = np.array([-1.0, 0.0, 1.0]) / math.sqrt(tau * (1 - tau))
        laws_ = np.array([[0, 1 - tau, tau], [tau, 1 - tau, 0]])
        (mean, variance, _), (other, *_) = (moments(values, law) for law in laws_)
        at = {"n": 10**9, "d": 1, "k": 1, "contamination": tau / 2, "sigma": math.sqrt(variance)}
        assert mean - other == pytest.approx(list(rows_of(STABILITY, **at).values())[1])


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.2])
def test_no_estimator_tells_two_laws_of_small_third_moments_apart(epsilon: float) -> None:
    """0, and 0 but for a share ε at σ(ρ/ε)^⅓: variance and third moment are small enough, and means twice as far."""
    rho, sigma = GAUSSIAN_THIRD, 3.0
    jump = sigma * (rho / epsilon) ** (1 / 3)
    mean, variance, third = moments(np.array([0.0, jump]), np.array([1 - epsilon, epsilon]))
    assert variance <= sigma**2
    assert third <= rho * sigma**3
    least = list(rows_of(THIRD_MOMENTS, n=100, d=5, contamination=epsilon, sigma=sigma).values())[1]
    assert mean / 2 == pytest.approx(least)


# The settings of Theorem 1.

THEORY = {"n": 2000, "d": 50, "sigma": 1.0, "mu_max": 10.0}


def test_settings_are_those_of_the_theorem() -> None:
    params = sm.SparseMean.paper(0.001, theory=THEORY).get_params()
    alpha, eta, steps = params["init_scale"], params["step_size"], params["n_iter"]
    assert params["n_buckets"] == 200
    assert alpha == pytest.approx(0.001 * math.sqrt(0.001 / 50))  # below the published 1e-5 and 10⁻⁵
    assert eta == pytest.approx(math.sqrt(0.001) / 10)
    least, most = window(alpha, eta)
    assert steps - 1 < least <= steps <= most
    assert (params["min_selected"], params["selection"], params["refine"]) == (0, "paper", None)
    large = sm.SparseMean.paper(0.001, theory={**THEORY, "mu_max": 40.0}).init_scale
    assert large == pytest.approx(40.0**-5)
    small = sm.SparseMean.paper(0.001, theory={**THEORY, "sigma": 1e3, "mu_max": 1e-90})
    assert (small.init_scale, small.step_size) == (1e-5, 0.05)
    assert sm.SparseMean.paper(0.001, theory=THEORY, n_iter=7).n_iter == 7


@pytest.mark.parametrize("attack", ["none", "hide", "lift"])
def test_under_these_settings_the_bounds_of_the_theorem_hold(attack: str) -> None:
    """Gaussian rows, two of 2000 bad: means of 31σ√ε and more within 30σ√ε and found, all else within α."""
    mean = np.zeros(50)
    mean[:4] = [10.0, -3.0, 31 * math.sqrt(0.001), -1.5]
    X = np.random.default_rng(5).standard_normal((2000, 50)) + mean
    if attack != "none":
        X[:2] = -1e3 * np.sign(mean) if attack == "hide" else 1e3
    estimator = sm.SparseMean.paper(0.001, theory=THEORY, random_state=2).fit(X)
    error = np.abs(estimator.mean_ - mean)
    assert estimator.support_.tolist() == [0, 1, 2, 3]
    assert error.max() <= 30 * math.sqrt(0.001)
    assert np.sqrt(np.sum(error**2)) <= 31 * math.sqrt(4 * 0.001)
    buckets = np.stack([X[part].mean(axis=0) for part in np.array_split(np.arange(2000), 200)])
    walk = subgm(buckets, alpha=estimator.init_scale, eta=estimator.step_size, times=(estimator.n_iter,))[0]
    assert np.abs(walk[4:]).max() <= estimator.init_scale


@pytest.mark.parametrize(
    ("epsilon", "changes", "line"),
    [
        (
            0.1,
            {},
            "contamination must leave 2,000 rows enough for the J = 100⌈εn⌉ buckets of Theorem 1: got 0.1, J = 20",
        ),
        (0.0, {}, "contamination must be above 0 for Theorem 1, which divides by it: got 0.0"),
        (0.001, {"mu_max": -1}, "mu_max must be a positive number: got -1"),
        (0.001, {"n": 2.5}, "n must be a positive integer: got 2.5"),
        (0.001, {"mu_max": 1e90}, "init_scale must be a number between 0 and 1, both excluded: got 0"),
        (0.001, {"sigma": 1e-5}, "step_size must be at least 1e-06: got 3.16"),
        (0.001, {"mean": 1}, "theory must be a dict with n, d, sigma and mu_max: got {"),
    ],
)
def test_settings_that_cannot_be_had_are_refused(epsilon: float, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        sm.SparseMean.paper(epsilon, theory={**THEORY, **changes})
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
