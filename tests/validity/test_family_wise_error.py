"""Family-wise error with nothing to find: at most 34 of 400 runs may select anything at level 0.05.

At a true rate of exactly 0.05 a cell has more than 34 of 400 with probability 0.0009. `make test` runs 60 a cell with
at most 9 (probability 0.0006). Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean

from adversaries import KINDS, attack
from conftest import Claims

SYMMETRIC = {"t 1.5": ("t", 1.5), "t 3": ("t", 3.0), "Pareto 2.5": ("pareto", 2.5), "Gaussian": ("gaussian", 1.0)}


def false_alarms(law: tuple[str, float], n: int, epsilon: float, kind: str, runs: int, zeros: float = 0.0) -> int:
    draw, shape = simulate.distributions.get(law[0]), law[1]
    alarms = 0
    for seed in range(runs):
        rng = np.random.default_rng(10_000 + seed)
        X = draw(rng, (n, 200), shape)
        X[rng.random(X.shape) < zeros] = 0.0
        attack(X, kind, int(np.ceil(epsilon * n - 1e-9)), seed=seed)
        alarms += sparse_mean(X, contamination=epsilon, random_state=seed).support.size > 0
    return alarms


def limit(long_version: bool) -> tuple[int, int]:
    return (400, 34) if long_version else (60, 9)


CELLS = [(e, kind) for e in (0.0, 0.01, 0.05) for kind in KINDS if e or kind == "none"]


@pytest.mark.parametrize("noise", SYMMETRIC)
@pytest.mark.parametrize(("epsilon", "kind"), CELLS)
def test_symmetric_noise(noise: str, epsilon: float, kind: str, long_version: bool, claims: Claims) -> None:
    runs, most = limit(long_version)
    alarms = false_alarms(SYMMETRIC[noise], 500, epsilon, kind, runs)
    claims.add(f"family-wise error, {noise}, ε = {epsilon:g}, {kind}", f"{alarms} of {runs}", f"≤ {most}", "10000…")
    assert alarms <= most


@pytest.mark.parametrize("noise", SYMMETRIC)
@pytest.mark.parametrize(("epsilon", "kind"), CELLS)
def test_thirty_percent_zeros(noise: str, epsilon: float, kind: str, long_version: bool, claims: Claims) -> None:
    runs, most = limit(long_version)
    alarms = false_alarms(SYMMETRIC[noise], 500, epsilon, kind, runs, zeros=0.3)
    claims.add(
        f"family-wise error with 30 % zeros, {noise}, ε = {epsilon:g}, {kind}",
        f"{alarms} of {runs}",
        f"≤ {most}",
        "10000…",
    )
    assert alarms <= most
