"""Share of false features: Benjamini–Hochberg without an adversary, Benjamini–Yekutieli against one that hides signals.

The mean share over the runs may exceed the level by 4 standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean

from conftest import Claims


@pytest.mark.parametrize(("rule", "epsilon"), [("fdr", 0.0), ("fdr_by", 0.0), ("fdr_by", 0.02)])
@pytest.mark.parametrize("noise", [("t", 1.5), ("gaussian", 1.0)], ids=str)
def test_share_of_false_features(
    rule: str, epsilon: float, noise: tuple[str, float], long_version: bool, claims: Claims
) -> None:
    draw, runs, m = simulate.distributions.get(noise[0]), 300 if long_version else 8, int(np.ceil(400 * epsilon))
    shares = np.empty(runs)
    for seed in range(runs):
        X = draw(np.random.default_rng(seed), (400, 300), noise[1])
        X[:, :40] += 0.5
        X[:m, :40] = -1e6  # against every signal
        X[:m, 40:] = 1e6  # and for everything else
        options = {"selection": rule, "level": 0.1, "refine": None, "screen_rows": False}
        support = sparse_mean(X, contamination=epsilon, random_state=seed, **options).support
        shares[seed] = np.sum(support >= 40) / max(1, support.size)
    rate = float(shares.mean())
    name = f"share of false features, {rule}, {noise[0]} {noise[1]}, ε = {epsilon:g}"
    claims.add(name, f"{rate:.3f}", "≤ 0.1", f"0–{runs - 1}")
    assert rate <= 0.1 + 4 * shares.std(ddof=1) / np.sqrt(runs)
