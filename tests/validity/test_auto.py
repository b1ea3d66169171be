"""contamination="auto" on clean rows, where it must cost nothing, and under attack, where it must promise no more.

Clean rows: 20 of 100 features have means of graded size; "auto" must find 95 % of what contamination=0 finds, over all
runs of a cell, and allow for no more than .5 % of the rows on average. Of tables with symmetric noise, of whatever
tails and with whatever in common, at most 1 in 100 may have more than .5 % of its rows counted as bad.

Attacks: a run is an alarm if at least as many bad rows are allowed for as there are *and* a false feature is selected;
at level 0.05 at most 10 of 60 runs of an attack may be (2 of 5 in `make test`): at a true rate of 0.05 there are more
with probability 0.0002 (0.001). How often enough are allowed for, how often a false feature is selected, and the error
of the values over that of the fit that is told the share are published, the latter with a bar. Where 10 % of the rows
lie 3 higher in 4 columns none can be named, and they must be counted. Seeds are fixed.
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


def lognormal_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d)) * rng.lognormal(0, 1, (n, 1))


SYMMETRIC: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "t 3.1": lambda rng, n, d: rng.standard_t(3.1, (n, d)),
    "t 1.3": lambda rng, n, d: rng.standard_t(1.3, (n, d)),
    "Laplace": lambda rng, n, d: rng.laplace(0, 1, (n, d)),
    "Cauchy": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "uniform": lambda rng, n, d: rng.uniform(-1.7, 1.7, (n, d)),
    "logistic": lambda rng, n, d: rng.logistic(0, 0.55, (n, d)),
    "one value in 10 five times as wide": lambda rng, n, d: (
        rng.standard_normal((n, d)) * np.where(rng.random((n, d)) < 0.1, 5, 1)
    ),
    "one row in 10 five times as wide": lambda rng, n, d: (
        rng.standard_normal((n, d)) * np.where(rng.random((n, 1)) < 0.1, 5, 1)
    ),
    "a normal factor": lambda rng, n, d: (
        rng.standard_normal((n, d)) + rng.standard_normal((n, 1)) * rng.uniform(0, 1.5, d)
    ),
    "a t 2 factor": lambda rng, n, d: rng.standard_t(3, (n, d)) + rng.standard_t(2, (n, 1)),
    "two clusters": lambda rng, n, d: rng.standard_normal((n, d)) + rng.choice([-2.0, 2.0], (n, 1)),
    "lognormal row scale": lognormal_rows,
}


@pytest.mark.parametrize(("n", "d"), [(600, 100), (150, 400), (1500, 60)])
@pytest.mark.parametrize("law", SYMMETRIC)
def test_rows_of_symmetric_laws_are_not_counted(law: str, n: int, d: int, long_version: bool, claims: Claims) -> None:
    if not long_version and (n > 600 or (list(SYMMETRIC).index(law) + n // 150) % 3):
        pytest.skip("smaller data and a third of the cells, in the short version")
    runs = 300 if long_version else 8
    means = np.concatenate((np.geomspace(0.05, 1.0, d // 5), np.zeros(d - d // 5))) * np.sqrt(600 / n)
    counted = 0
    for seed in range(runs):
        X = SYMMETRIC[law](np.random.default_rng(95_000 + seed), n, d) + means
        found = sparse_mean(X, refine=None)
        assert found.rows is not None
        # One of two clusters is a group that lies apart, and may be named: that is not asked here.
        counted += (found.rows.unnamed if law == "two clusters" else found.plan.bad_rows) > 0.005 * n
    name = f"auto on clean rows, {law}, {n} × {d}: tables with more than .5 % counted as bad"
    claims.add(name, f"{counted} of {runs}", "≤ 1 in 100", "95000…")
    assert counted <= 0.01 * runs


def higher_in_four(X: np.ndarray, mean: np.ndarray, rng: np.random.Generator, corrupted: np.ndarray, /) -> np.ndarray:
    """Move some rows up by 3 in four columns whose mean is 0: no row is far from the rest."""
    return np.asarray(X[corrupted] + 3.0 * np.isin(np.arange(mean.size), np.flatnonzero(mean == 0)[:4]))


ATTACKS = {**{name: name for name in attacks.available()}, "+3 in 4 columns": higher_in_four}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("n", [600, 2000])
def test_attacks(attack: str, epsilon: float, n: int, long_version: bool, claims: Claims) -> None:
    if not long_version and (n > 600 or (list(ATTACKS).index(attack) + round(20 * epsilon)) % 3):
        pytest.skip("small data and a third of the cells, in the short version")
    runs, most = (60, 10) if long_version else (5, 2)
    true = np.concatenate(([10.0, -5.0, -4.0, 2.0], np.zeros(D - 4)))
    alarms, seen, false, errors = 0, 0, 0, np.zeros(2)
    for seed in range(runs):
        data = simulate.make_contaminated(
            n, D, true[:4], contamination=epsilon, attack=ATTACKS[attack], random_state=80_000 + seed
        )
        fitted, told = sparse_mean(data.X), sparse_mean(data.X, contamination=epsilon)
        allowed, wrong = fitted.plan.bad_rows >= len(data.corrupted), bool((true[fitted.support] == 0).any())
        seen, false, alarms = seen + allowed, false + wrong, alarms + (allowed and wrong)
        errors += [float(np.linalg.norm(each.mean - true)) for each in (fitted, told)]
    name, hidden = f"auto under {attack}, ε = {epsilon:g}, n = {n}", attack not in attacks.available()
    demanded = hidden and epsilon == 0.1
    claims.add(f"{name}: enough allowed for, and a false feature", f"{alarms} of {runs}", f"≤ {most}", "80000…")
    claims.add(f"{name}: enough allowed for", f"{seen} of {runs}", "≥ .85" if demanded else "", "80000…")
    claims.add(f"{name}: a false feature", f"{false} of {runs}", "≤ 1 in 20" if demanded else "", "80000…")
    # At 1 % the tenth that values allow for costs more than bad rows do; of 2000 rows, 200 of them bad, those that
    # cannot be told apart stay in and cost more than all the noise.
    compared = epsilon > 0.01 and not hidden and (n, epsilon) != (2000, 0.1)
    bar = "≤ 1.1" if compared else ""
    claims.add(f"{name}: error over that of the fit told ε", f"{errors[0] / errors[1]:.2f}", bar, "80000…")
    assert alarms <= most
    assert not compared or errors[0] <= 1.1 * errors[1]
    assert not demanded or (seen >= 0.85 * runs and false <= max(1, 0.05 * runs))
