"""What is found: small means among many features, far rows, means under skewed noise."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean

from adversaries import FAR, attack
from conftest import Claims

NOISES = {"t 3": ("t", 3.0), "t 1.5": ("t", 1.5), "Pareto 2.5": ("pareto", 2.5)}
SMALLEST = {
    0.01: {"t 3": 0.30, "t 1.5": 0.30, "Pareto 2.5": 0.30},
    0.05: {"t 3": 0.40, "t 1.5": 0.50, "Pareto 2.5": 0.55},
}
SKEWED = {"lognormal_one_sided": 0.954, "exponential_one_sided": 1.0, "fisk_one_sided": 3.1, "pareto_one_sided": 3.1}


@pytest.mark.parametrize("epsilon", SMALLEST)
@pytest.mark.parametrize("noise", NOISES)
def test_smallest_mean_found(epsilon: float, noise: str, long_version: bool, claims: Claims) -> None:
    """n = 2000, d = 20,000, family-wise 5 %, uncorrupted rows, slack kept; twenty means of this size among them."""
    draw, shape = simulate.distributions.get(NOISES[noise][0]), NOISES[noise][1]
    mean = SMALLEST[epsilon][noise]
    runs, found, false = (5 if long_version else 1), 0, 0
    for seed in range(runs):
        X = draw(np.random.default_rng(seed), (2000, 20_000), shape)
        X[:, :20] += np.where(np.arange(20) % 2, mean, -mean)
        support = sparse_mean(X, contamination=epsilon, random_state=seed).support
        found += int(np.sum(support < 20))
        false += int(np.sum(support >= 20))
    share = found / (20 * runs)
    claims.add(
        f"mean {mean} found, {noise}, ε = {epsilon:g}", f"{share:.0%}, {false} false", "≥ 80 %, 0", f"0–{runs - 1}"
    )
    assert share >= 0.8
    assert false == 0


@pytest.mark.parametrize("distribution", ["fisk", "pareto", "t"])
@pytest.mark.parametrize("shape", [2.0, 3.1])
def test_far_rows_in_the_papers_default_setting(
    distribution: str, shape: float, long_version: bool, claims: Claims
) -> None:
    runs, exact = 50 if long_version else 15, 0
    for seed in range(runs):
        data = simulate.make_contaminated(
            600, 100, [10, -5, -4, 2], distribution=distribution, shape=shape, attack=None, random_state=seed
        )
        data.X[-60:] = FAR
        exact += sparse_mean(data.X, contamination=0.1, random_state=seed).support.tolist() == [0, 1, 2, 3]
    claims.add(f"far rows, support exact, {distribution} {shape}", f"{exact} of {runs}", "all", f"0–{runs - 1}")
    assert exact == runs


CELLS = [(0.3, "none"), (-0.4, "none"), (0.3, "far rows"), (-0.5, "far rows")]


@pytest.mark.parametrize("noise", SKEWED)
@pytest.mark.parametrize(("size", "kind"), CELLS)
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_means_under_skewed_noise(
    noise: str, size: float, kind: str, epsilon: float, long_version: bool, claims: Claims
) -> None:
    """n = 2000, d = 200; sizes are in standard deviations of the noise, five features have them."""
    if epsilon == 0 and kind != "none":
        pytest.skip("without bad rows there is no attack")
    draw = simulate.distributions.get(noise)
    sigma = float(np.std(draw(np.random.default_rng(99), (2_000_000,), SKEWED[noise])))
    runs, found = 40 if long_version else 4, 0
    for seed in range(runs):
        X = draw(np.random.default_rng(seed), (2000, 200), SKEWED[noise])
        X[:, :5] += size * sigma
        attack(X, kind, int(np.ceil(epsilon * 2000)), seed=seed)
        found += int(np.sum(sparse_mean(X, contamination=epsilon, noise="skewed", random_state=seed).support < 5))
    share = found / (5 * runs)
    claims.add(f"{size:+}σ found, {noise}, ε = {epsilon:g}, {kind}", f"{share:.0%}", "≥ 80 %", f"0–{runs - 1}")
    assert share >= 0.8
