"""What selection, and whoever steers it, does to values and intervals: the numbers of the page on guarantees.

Seeds are fixed. Bounds leave simulated numbers at least four standard errors to both sides.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from sparsemean import SparseMeanDifference, sparse_mean

from conftest import Claims

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


@pytest.mark.parametrize(("effect", "least", "most"), [(0.2, 1.3, 2.0), (0.3, 1.1, 1.35), (0.5, 0.98, 1.04)])
def test_values_of_selected_features_are_too_large(effect: float, least: float, most: float, claims: Claims) -> None:
    """The nearer a mean is to what can just be found, the more; the standard error of a value is 0.07σ."""
    ratios: list[float] = []
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((200, 200))
        X[:, :20] += effect
        result = sparse_mean(X, contamination=0.0, random_state=seed)
        ratios += list(result.mean[result.support[result.support < 20]] / effect)
    power, ratio = len(ratios) / 400, float(np.mean(ratios))
    name = f"value over mean of selected features, mean {effect:g}σ, found in {power:.2f}"
    claims.add(name, f"{ratio:.2f}", f"{least:g} to {most:g}", "0–19")
    assert least <= ratio <= most


def _expected_share(d: int, level: float) -> float:
    """Return E max over R, and over who is shown, of the share of intervals that miss; independent features."""
    chances = np.array([level / d] * d + [1 - level])  # τ = 1, …, d, or no miss at all
    total = 0.0
    for taus in itertools.product(range(1, d + 2), repeat=d):
        share = max(min(sum(tau <= r for tau in taus), r) / r for r in range(1, d + 1))
        total += share * np.prod(chances[np.array(taus) - 1])
    return total


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_share_of_intervals_that_miss_under_attack_is_bounded_by_the_harmonic_number(d: int) -> None:
    """By exhaustion of τ: never above level·H_d, and nearly that at a small level; d = 2 in closed form."""
    harmonic = sum(1 / r for r in range(1, d + 1))
    for level in (0.5, 0.05):
        assert level * (1 - 1e-12) <= _expected_share(d, level) <= level * harmonic * (1 + 1e-12)
    assert _expected_share(d, 1e-4) >= 0.999 * 1e-4 * harmonic
    assert _expected_share(2, 0.05) == pytest.approx(1.5 * 0.05 - 0.05**2 / 2)


def _exponential(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_exponential(shape)


def _twice(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return 2 * rng.standard_exponential(shape)


def _gaussian(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def _wide(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return 4 * rng.standard_normal(shape)


@pytest.mark.parametrize(
    ("sizes", "draws", "target", "least", "most"),
    [
        ((200, 50), (_gaussian, _gaussian), 0.0, 0.92, 0.98),
        ((200, 50), (_gaussian, _wide), 0.0, 0.79, 0.89),
        ((200, 200), (_exponential, _twice), 2 * np.log(4 / 3), 0.89, 0.96),
        ((200, 200), (_exponential, _twice), 1.0, 0.06, 0.14),
    ],
    ids=["shift", "spread", "median of differences", "difference of means"],
)
def test_intervals_of_two_groups_need_a_pure_shift(
    sizes: tuple[int, int], draws: tuple[Draw, Draw], target: float, least: float, most: float, claims: Claims
) -> None:
    rng, d = np.random.default_rng(1), 1000
    X = np.vstack([draw(rng, (n, d)) for draw, n in zip(draws, sizes, strict=True)])
    result = SparseMeanDifference(0.0, reference=0).fit(X, np.repeat([0, 1], sizes)).result_
    low, high = result.interval(np.arange(d), 0.95).T
    covered = float(np.mean((low <= target) & (target <= high)))
    names = " against ".join(draw.__name__.strip("_") for draw in draws)
    claims.add(f"95 % intervals that cover {target:.2f}, {names}", f"{covered:.3f}", f"{least:g} to {most:g}", 1)
    assert least <= covered <= most
