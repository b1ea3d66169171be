"""The paper preset against the paper's own numbers.

Means and standard deviations over trials as plotted by Ma, Chen, He, Fattahi and Hu, "Sparse Mean Estimation in
Adversarial Settings via Incremental Learning": stage 1 in the appendix figure on infinite variance (10 trials; n = 600,
d = 100, ε = 0.1, means 10, −5, −4, 2) and Fig 2a (50 trials; ten means of 2, success rate |I ∩ S|/|I ∪ S|).

z compares two means with their standard errors. A cell fails by chance with |z| > 4 less than once in 10⁴ under the
normal law, a few times that with the published 10 trials: about 0.5 % for the twelve cells together, at fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean
from sparsemean.planning.paper import PRESET

from conftest import Claims

STAGE_1 = [
    ("fisk", 1.3, 0.432057, 0.087097),
    ("fisk", 2.0, 0.374021, 0.069838),
    ("fisk", 3.1, 0.377614, 0.055111),
    ("pareto", 1.3, 1.218448, 0.859243),
    ("pareto", 2.0, 0.352857, 0.093531),
    ("pareto", 3.1, 0.309652, 0.107748),
    ("t", 1.3, 0.317635, 0.097706),
    ("t", 2.0, 0.377643, 0.056428),
    ("t", 3.1, 0.341454, 0.093563),
]
SUCCESS = [("fisk", 0.4, 0.869921, 0.089959), ("pareto", 0.3, 0.968, 0.058693), ("t", 0.4, 0.814341, 0.119337)]


def z_score(ours: np.ndarray, mean: float, std: float, trials: int) -> float:
    return float((ours.mean() - mean) / np.sqrt(ours.var(ddof=1) / ours.size + std**2 / trials))


@pytest.mark.parametrize(("distribution", "shape", "mean", "std"), STAGE_1)
def test_stage_1_error(
    distribution: str, shape: float, mean: float, std: float, long_version: bool, claims: Claims
) -> None:
    trials = 500 if long_version else 40
    errors = np.empty(trials)
    for seed in range(trials):
        data = simulate.make_contaminated(
            600, 100, [10, -5, -4, 2], distribution=distribution, shape=shape, random_state=seed
        )
        errors[seed] = np.linalg.norm(
            sparse_mean(data.X, contamination=0.1, random_state=seed, **PRESET).mean - data.mean
        )
    z = z_score(errors, mean, std, 10)
    assert abs(z) <= 4
    if long_version:
        measured = f"{errors.mean():.3f} against {mean:.3f}, z = {z:+.1f}"
        claims.add(f"stage 1 error as published, {distribution} {shape}", measured, "\\|z\\| ≤ 4", f"0–{trials - 1}")


@pytest.mark.parametrize(("distribution", "epsilon", "mean", "std"), SUCCESS)
def test_success_rate(
    distribution: str, epsilon: float, mean: float, std: float, long_version: bool, claims: Claims
) -> None:
    trials = 500 if long_version else 50
    rates = np.empty(trials)
    for seed in range(trials):
        data = simulate.make_contaminated(
            600, 100, [2.0] * 10, distribution=distribution, contamination=epsilon, random_state=seed
        )
        found = set(
            sparse_mean(data.X, contamination=epsilon, random_state=seed, **{**PRESET, "min_selected": 0}).support
        )
        rates[seed] = len(found & set(data.support)) / len(found | set(data.support))
    z = z_score(rates, mean, std, 50)
    assert abs(z) <= 4
    if long_version:
        measured = f"{rates.mean():.3f} against {mean:.3f}, z = {z:+.1f}"
        claims.add(
            f"success rate as published, {distribution}, ε = {epsilon}", measured, "\\|z\\| ≤ 4", f"0–{trials - 1}"
        )
