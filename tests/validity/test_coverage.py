"""Intervals of selected features cover the mean: at least 0.95 − 2 standard errors of all selected ones.

The long version has 200 runs a cell, the short one 4 of half of the cells.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean

from adversaries import KINDS, attack
from conftest import Claims

NOISES = [("t", 1.5), ("t", 3.0), ("pareto", 2.5), ("gaussian", 1.0)]
SIGNALS = {"weak": 0.45, "strong": 2.0}


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("strength", SIGNALS)
@pytest.mark.parametrize("kind", KINDS)
def test_coverage_after_selection(
    noise: tuple[str, float], strength: str, kind: str, long_version: bool, claims: Claims
) -> None:
    if not long_version and (NOISES.index(noise) + (strength == "weak") + KINDS.index(kind)) % 2:
        pytest.skip("half of the cells, in the short version")
    draw = simulate.distributions.get(noise[0])
    runs, mean = 200 if long_version else 4, SIGNALS[strength]
    epsilon, covered, selected = 0.01, 0, 0
    for seed in range(runs):
        X = draw(np.random.default_rng(20_000 + seed), (500, 200), noise[1])
        X[:, :20] += mean
        attack(X, kind, 5, seed=seed)
        result = sparse_mean(X, contamination=epsilon, random_state=seed)
        truth = np.where(np.arange(200) < 20, mean, 0.0)[result.support]
        low, high = result.intervals[result.support].T
        covered += int(np.sum((low <= truth) & (truth <= high)))
        selected += result.support.size
    if selected < 20:
        pytest.skip("too few features are selected in this cell to speak of coverage")
    share = covered / selected
    least = 0.95 - 2 * np.sqrt(0.95 * 0.05 / selected)
    name = f"coverage, {noise[0]} {noise[1]}, {strength}, {kind}"
    claims.add(name, f"{share:.3f} of {selected}", f"≥ {least:.3f}", f"20000–{19_999 + runs}")
    assert share >= least
