"""What is said of skewed and of discrete values: a flag that symmetric noise seldom draws, and refusals in time.

A column of symmetric noise is flagged with probability 0.01 at most: more than 38 of 2000 would be seen with
probability 0.0001. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sparsemean import certify, sparse_mean
from sparsemean._stats.assumptions import skew_flags

from conftest import Claims

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
SYMMETRIC: dict[str, Draw] = {
    "Gaussian": lambda rng, shape: rng.standard_normal(shape),
    "t 3": lambda rng, shape: rng.standard_t(3, shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "Gaussian of many scales": lambda rng, shape: rng.standard_normal(shape) * rng.lognormal(size=(shape[0], 1)),
}
LOGNORMAL = {
    f"lognormal {sigma:g}": (
        lambda rng, shape, sigma=sigma: rng.lognormal(0, sigma, shape),
        float(np.exp(sigma**2 / 2)),
    )
    for sigma in (0.5, 1.0, 1.5, 2.0)
}
SKEWED: dict[str, tuple[Draw, float]] = {
    **LOGNORMAL,
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "Pareto 3.1": (lambda rng, shape: rng.pareto(3.1, shape), 1 / 2.1),
    "20 % lognormal buyers": (
        lambda rng, shape: np.where(rng.random(shape) < 0.2, rng.lognormal(size=shape), 0.0), float(0.2 * np.exp(0.5))
    ),
    "Poisson .1": (lambda rng, shape: rng.poisson(0.1, shape).astype(float), 0.1),
    "two points, 2 %": (lambda rng, shape: (rng.random(shape) < 0.02).astype(float), 0.02),
    "two points, 30 %": (lambda rng, shape: (rng.random(shape) < 0.3).astype(float), 0.3),
}  # fmt: skip
"""Laws and their means."""
COLUMNS = {500: 400, 2000: 200, 20_000: 60}


@pytest.mark.parametrize("noise", SYMMETRIC)
@pytest.mark.parametrize("n", [200, 2001])
def test_symmetric_columns_are_seldom_flagged(noise: str, n: int, claims: Claims) -> None:
    rows = SYMMETRIC[noise](np.random.default_rng(n), (n, 2000)) + 3.0
    alarms = int(np.sum(skew_flags(rows) == 1))
    claims.add(f"columns flagged as skewed, {noise}, n = {n}", f"{alarms} of 2000", "≤ 38", n)
    assert alarms <= 38


@pytest.mark.parametrize("noise", ["Gaussian", "t 3", "Laplace"])
def test_selected_features_of_symmetric_noise_are_seldom_flagged(
    noise: str, claims: Claims, long_version: bool
) -> None:
    """At 1 % more than 9 of 240 have probability 0.0002, and more than 119 of 9600, 0.008."""
    fits, most = (480, 119) if long_version else (12, 9)
    alarms = 0
    for seed in range(fits):
        X = SYMMETRIC[noise](np.random.default_rng(seed), (400, 40)) + np.where(np.arange(40) < 20, 2.0, 0.0)
        result = sparse_mean(X, screen_rows=False, refine=None)
        assert result.support[:20].tolist() == list(
            range(20)
        )  # others are false ones, with the probability of the level
        alarms += int(np.sum(result.skewed[:20] == 1))
    claims.add(f"selected features flagged, {noise}, n = 400", f"{alarms} of {20 * fits}", f"≤ {most}", f"0–{fits - 1}")
    assert alarms <= most


@pytest.mark.parametrize("law", SKEWED)
def test_falsely_selected_features_are_flagged_where_skewness_can_be_seen(
    law: str, claims: Claims, long_version: bool
) -> None:
    """All means are zero; what the test of symmetry can see at all is told by the columns without any selection."""
    draw, mean = SKEWED[law]
    selected = 0
    for n in (500, 2000, 20_000) if long_version else (500, 2000):
        d = COLUMNS[n] if long_version else COLUMNS[n] // 4
        X = draw(np.random.default_rng(n), (n, d)) - mean
        power = float(np.mean(skew_flags(X) == 1))
        for contamination in (0.0, 0.01, 0.05) if long_version else (0.01,):
            result = sparse_mean(X, contamination=contamination)
            flags = result.skewed[result.support]
            selected += flags.size
            measured = f"{np.sum(flags == 1)} of {flags.size} (power {power:.2f})"
            cell = f"flagged of falsely selected, {law}, n = {n}, ε = {contamination:g}"
            claims.add(cell, measured, "≥ 95 % where power ≥ .95", n)
            if flags.size and power >= 0.95:
                assert np.mean(flags == 1) >= 0.95
            elif flags.size:  # nothing is called symmetric that is not: too few values differ
                assert np.mean(flags == 0) <= 0.05
    assert selected or law.startswith("two points")  # whose ranks weigh against their signs


def test_no_interval_ends_at_the_null_value_beside_a_selection() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((1000, 30)) < 0.7, 0.0, rng.standard_normal((1000, 30)))
    X[:, 0] = np.where(rng.random(1000) < 0.7, 0.0, rng.lognormal(size=1000))
    for null in (0.0, 2.0):
        result = sparse_mean(X + null, null=null)
        assert result.support.tolist() == [0]
        assert result.p_adjusted[0] < 1e-4
        assert result.intervals[0, 0] > null  # of the values that are not the null value, as the test is
        assert result.interval(0)[0, 0] > null
        assert result.intervals[0, 0] <= result.mean[0] <= result.intervals[0, 1]
        assert any("often exactly the null value" in message for message in result.status.messages)


def test_a_selection_without_equal_values_always_has_an_interval_beyond_the_null_value(long_version: bool) -> None:
    """Holm's p-values are at most level·R/d, at which the intervals are made: where no value is the null value."""
    for seed in range(40 if long_version else 6):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(2, (300, 50)) + np.where(np.arange(50) < 15, rng.uniform(0.2, 1, 50), 0.0)
        for rule in ("fwer", "fdr", "fdr_by"):
            result = sparse_mean(X, contamination=0.02, selection=rule, screen_rows=False, refine=None)
            low, high = result.intervals[result.support].T
            assert ((low > 0) | (high < 0)).all()


def test_the_best_of_twenty_seeds_is_no_longer_a_test(claims: Claims, long_version: bool) -> None:
    """Nothing to find, level 0.05: at a true rate of .23 fewer than 3 of 50, or 1 of 30, have probability 0.0004."""
    runs, least, most, by_one = (50, 3, 25, 8) if long_version else (30, 1, 15, 6)
    hits, alone = 0, 0
    for run in range(runs):
        X = np.random.default_rng(10_000 + run).standard_normal((1000, 100))
        found = [certify(X, contamination=0, random_state=seed, test="buckets").support.size > 0 for seed in range(20)]
        hits, alone = hits + any(found), alone + found[0]
    claims.add(
        "false alarms of the best of 20 seeds at level 0.05", f"{hits} of {runs}", f"{least} to {most}", "10000…"
    )
    assert least <= hits <= most
    assert alone <= by_one
