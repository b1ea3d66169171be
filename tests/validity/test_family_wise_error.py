"""Family-wise error with nothing to find: at most 34 of 400 runs may select anything at level 0.05.

At a true rate of exactly 0.05 a cell has more than 34 of 400 with probability 0.0009. `make test` has 16 runs
of a quarter of the cells with at most 4 (probability 0.0009 as well). Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean

from adversaries import KINDS, attack
from conftest import Claims

SYMMETRIC = {"t 1.5": ("t", 1.5), "t 3": ("t", 3.0), "Pareto 2.5": ("pareto", 2.5), "Gaussian": ("gaussian", 1.0)}


TESTS = ("ranks", "buckets")


def false_alarms(law: tuple[str, float], epsilon: float, kind: str, runs: int, zeros: float = 0.0) -> tuple[int, ...]:
    """Runs of 500 rows in which ranks select something, and in which buckets do."""
    draw, shape = simulate.distributions.get(law[0]), law[1]
    alarms = np.zeros(2, dtype=int)
    for seed in range(runs):
        rng = np.random.default_rng(10_000 + seed)
        X = draw(rng, (500, 200), shape)
        X[rng.random(X.shape) < zeros] = 0.0
        attack(X, kind, int(np.ceil(epsilon * 500 - 1e-9)), seed=seed)
        options = {"contamination": epsilon, "refine": None, "screen_rows": False, "random_state": seed}
        alarms += [sparse_mean(X, test=test, **options).support.size > 0 for test in TESTS]
    return tuple(alarms.tolist())


def limit(long_version: bool) -> tuple[int, int]:
    return (400, 34) if long_version else (16, 4)


CELLS = [(e, kind) for e in (0.0, 0.01, 0.05) for kind in KINDS if e or kind == "none"]


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("noise", SYMMETRIC)
@pytest.mark.parametrize(("epsilon", "kind"), CELLS)
def test_symmetric_noise(
    noise: str, epsilon: float, kind: str, zeros: float, long_version: bool, claims: Claims
) -> None:
    if not long_version and (list(SYMMETRIC).index(noise) + CELLS.index((epsilon, kind)) + 2 * (zeros > 0)) % 4:
        pytest.skip("a quarter of the cells, in the short version")
    runs, most = limit(long_version)
    ranks, buckets = false_alarms(SYMMETRIC[noise], epsilon, kind, runs, zeros)
    name = f"family-wise error{' with 30 % zeros' if zeros else ''}, {noise}, ε = {epsilon:g}, {kind}"
    claims.add(name, f"ranks {ranks}, buckets {buckets} of {runs}", f"≤ {most}", "10000…")
    assert max(ranks, buckets) <= most
