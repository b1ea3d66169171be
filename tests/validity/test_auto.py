"""contamination="auto" on clean rows, where it must cost nothing, and under attack, where it must promise no more.

Clean rows: 20 of 100 features have means of graded size; "auto" must find 95 % of what contamination=0 finds, over all
runs of a cell, and allow for no more than .5 % of the rows on average. Attacks: a run is an alarm if at least as many
bad rows are allowed for as there are *and* a false feature is selected; at level 0.05 at most 10 of 60 runs of an
attack may be (2 of 5 in `make test`): at a true rate of 0.05 there are more with probability 0.0002 (0.001). The
error of the values is compared with that of the fit that is told the share. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sparsemean import simulate, sparse_mean
from sparsemean.simulate import attacks

from conftest import Claims

D = 100
MEANS = np.concatenate((np.geomspace(0.05, 1.0, 20), np.zeros(D - 20)))
Draw = Callable[[np.random.Generator, int], np.ndarray]


def elliptical(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, D)) / np.sqrt(rng.chisquare(2, (n, 1)) / 2)


CLEAN: dict[str, Draw] = {
    "Gaussian": lambda rng, n: rng.standard_normal((n, D)),
    "t 3": lambda rng, n: rng.standard_t(3, (n, D)),
    "elliptical t 2": elliptical,
    "lognormal row scale": lambda rng, n: rng.standard_normal((n, D)) * rng.lognormal(0, 1, (n, 1)),
}


@pytest.mark.parametrize("n", [125, 600, 2000])
@pytest.mark.parametrize("noise", CLEAN)
def test_clean_rows_lose_nothing(noise: str, n: int, long_version: bool, claims: Claims) -> None:
    if not long_version and (n > 600 or (list(CLEAN).index(noise) + n) % 2):
        pytest.skip("smaller data and half of the cells, in the short version")
    runs = 100 if long_version else 4
    found = told = allowed = 0
    for seed in range(runs):
        X = CLEAN[noise](np.random.default_rng(70_000 + seed), n) + MEANS * np.sqrt(600 / n)
        clean = sparse_mean(X, contamination=0.0, refine=None, screen_rows=False)
        fitted = sparse_mean(X, refine=None)
        found, told = found + fitted.support.size, told + clean.support.size
        allowed += fitted.plan.bad_rows
    share = allowed / (runs * n)
    claims.add(f"auto on clean rows, {noise}, n = {n}: share found", f"{found / told:.3f}", "≥ .95", "70000…")
    claims.add(f"auto on clean rows, {noise}, n = {n}: rows allowed for", f"{share:.2%}", "≤ .50 %", "70000…")
    assert found >= 0.95 * told
    assert share <= 0.005


@pytest.mark.parametrize("attack", attacks.available())
@pytest.mark.parametrize("epsilon", [0.05, 0.1])
@pytest.mark.parametrize("n", [600, 2000])
def test_attacks(attack: str, epsilon: float, n: int, long_version: bool, claims: Claims) -> None:
    if not long_version and (n > 600 or (attacks.available().index(attack) + round(20 * epsilon)) % 3):
        pytest.skip("small data and a third of the cells, in the short version")
    runs, most = (60, 10) if long_version else (5, 2)
    true = np.concatenate(([10.0, -5.0, -4.0, 2.0], np.zeros(D - 4)))
    alarms, seen, errors = 0, 0, np.zeros(2)
    for seed in range(runs):
        data = simulate.make_contaminated(
            n, D, true[:4], contamination=epsilon, attack=attack, random_state=80_000 + seed
        )
        fitted, told = sparse_mean(data.X), sparse_mean(data.X, contamination=epsilon)
        allowed = fitted.plan.bad_rows >= len(data.corrupted)
        seen += allowed
        alarms += allowed and bool((true[fitted.support] == 0).any())
        errors += [float(np.linalg.norm(each.mean - true)) for each in (fitted, told)]
    name = f"auto under {attack}, ε = {epsilon:g}, n = {n}"
    claims.add(f"{name}: enough allowed for, and a false feature", f"{alarms} of {runs}", f"≤ {most}", "80000…")
    claims.add(f"{name}: enough allowed for", f"{seen} of {runs}", "", "80000…")
    claims.add(f"{name}: error over that of the fit told ε", f"{errors[0] / errors[1]:.2f}", "≤ 1.1", "80000…")
    assert alarms <= most
    assert errors[0] <= 1.1 * errors[1]
