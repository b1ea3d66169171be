"""Users called bots, among people of many kinds and among scripts of many kinds; verdicts when there are scripts.

Draws are those of a run's own seeds: 0 to 99 while this was written, from 10,000 on in the long version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean.experiments import analyze
from sparsemean.experiments._users import find_clumps

from conftest import Claims

N, D = 5000, 10
Law = Callable[[Any, np.ndarray], np.ndarray]


def gamma(shape: float) -> Law:
    return lambda rng, rate: rng.poisson(rate * rng.gamma(shape, 1 / shape, (N, 1)) * rng.gamma(1.4, 1 / 1.4, (N, D)))


def lognormal(sigma: float) -> Law:
    return lambda rng, rate: rng.poisson(rate * rng.lognormal(0, sigma, (N, 1)) * rng.gamma(2, 0.5, (N, D)))


def negative_binomial(rng: Any, rate: np.ndarray) -> np.ndarray:
    return np.asarray(rng.poisson(rate * rng.gamma(0.7, 1 / 0.7, (N, D)) * rng.gamma(3, 1 / 3, (N, 1))))


def weibull(rng: Any, rate: np.ndarray) -> np.ndarray:
    return np.asarray(rng.poisson(rate * rng.weibull(0.8, (N, 1)) * rng.weibull(1.5, (N, D))))


def pareto(rng: Any, rate: np.ndarray) -> np.ndarray:
    return np.asarray(rng.poisson(np.minimum(rate * (1 + rng.pareto(2.5, (N, 1))) * rng.gamma(2, 0.5, (N, D)), 1e6)))


LAWS: dict[str, Law] = {
    "gamma .6": gamma(0.6), "gamma .8": gamma(0.8), "lognormal .7": lognormal(0.7), "lognormal 1.2": lognormal(1.2),
    "negative binomial": negative_binomial, "Weibull": weibull, "Pareto": pareto,
}  # fmt: skip


def capped(rng: Any, rate: np.ndarray) -> np.ndarray:
    return np.minimum(gamma(0.8)(rng, rate), 30)


def u_shaped(rng: Any, rate: np.ndarray) -> np.ndarray:
    return np.round(100 * rng.beta(0.4, 0.4, (N, 1)) * rng.beta(3, 0.3, (N, D)))


def rounded(rng: Any, rate: np.ndarray) -> np.ndarray:
    values = rng.lognormal(2, 1.0, (N, D)) * rng.lognormal(0, 0.6, (N, 1))
    return np.where(values > 50, np.round(values, -1), np.round(values / 5) * 5)


def two_types(rng: Any, rate: np.ndarray) -> np.ndarray:
    heavy = np.where(rng.random((N, 1)) < 0.3, 4.0, 1.0)
    return np.asarray(rng.poisson(rate * heavy * rng.gamma(1.2, 1 / 1.2, (N, 1)) * rng.gamma(2, 0.5, (N, D))))


def duplicated(rng: Any, rate: np.ndarray) -> np.ndarray:
    values = gamma(0.8)(rng, rate)
    values[:, D // 2 :] = values[:, : D // 2]
    return values


ODD: dict[str, Law] = {
    "capped": capped, "U-shaped": u_shaped, "rounded": rounded, "two types": two_types, "duplicates": duplicated,
}  # fmt: skip


def people(law: Law, seed: int) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng([seed, 35])
    return np.asarray(law(rng, rng.choice([0.5, 1.0, 3.0, 6.0, 10.0], D)), dtype=float), rng


def with_bots(law: Law, seed: int, share: float, touched: int, times: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Bots do ``times`` as much as the most active person in a thousand, else about 120, or as much as this one."""
    values, rng = people(law, seed)
    bots = rng.choice(N, int(share * N), replace=False)
    columns = rng.choice(D, touched, replace=False)
    active = np.maximum(np.quantile(values, 0.999, 0)[columns], 1)
    about = np.maximum(120.0, active) if times is None else times * active
    values[np.ix_(bots, columns)] = rng.poisson(about, (bots.size, touched))
    return values, bots


def called(values: np.ndarray) -> np.ndarray:
    clumps, _ = find_clumps(values)
    return np.concatenate([clump.users for clump in clumps] or [np.empty(0, dtype=np.intp)])


def seeds(long_version: bool, few: int, many: int) -> range:
    return range(10_000, 10_000 + many) if long_version else range(few)


CASES = {
    "about 120 in 5 of 10": (5, None),
    "3 × the most active in 5": (5, 3.0),
    "2 × in 5": (5, 2.0),
    "3 × in 3": (3, 3.0),
}


@pytest.mark.parametrize("law", LAWS)
def test_scripts_are_seen_and_people_are_not(law: str, long_version: bool, claims: Claims) -> None:
    """2 and 5 % of scripts: .95 of them are seen, .9 where they are in three metrics, .2 % of people are at most."""
    for name, (touched, times) in CASES.items():
        seen, wrong = [], []
        for seed in seeds(long_version, 2, 40):
            for share in (0.02, 0.05):
                values, bots = with_bots(LAWS[law], seed, share, touched, times)
                found = called(values)
                seen.append(np.isin(bots, found).mean())
                wrong.append((found.size - np.isin(found, bots).sum()) / N)
        least = 0.9 if touched < 5 else 0.95
        claims.add(f"bots, {law}, {name}: seen, mean", f"{np.mean(seen):.3f}", f"≥ {least}", "10000…")
        claims.add(f"bots, {law}, {name}: people called bots, most", f"{max(wrong):.2%}", "≤ 0.2%", "10000…")
        assert np.mean(seen) >= least, name
        assert max(wrong) <= 0.002, name


@pytest.mark.parametrize("law", {**LAWS, **ODD})
def test_where_there_is_no_script_nobody_is_called_one(law: str, long_version: bool, claims: Claims) -> None:
    shares = [called(people({**LAWS, **ODD}[law], seed)[0]).size / N for seed in seeds(long_version, 3, 100)]
    claims.add(f"no bots, {law}: users called bots, most", f"{max(shares):.2%}", "≤ 0.1%", "10000…")
    assert max(shares) <= 0.001


@pytest.mark.parametrize("law", LAWS)
def test_scripts_in_one_arm_make_no_verdict(law: str, long_version: bool, claims: Claims) -> None:
    """All scripts, 5 % of the users, are in one of two arms between which nothing differs."""
    wrong, runs = 0, seeds(long_version, 2, 20)
    for seed in runs:
        values, bots = with_bots(LAWS[law], seed, 0.05, 5, None)
        arm = np.random.default_rng(seed).choice(["control", "new"], N)
        arm[bots] = "new"
        table = pd.DataFrame(values, columns=[f"m{j}" for j in range(D)]).assign(variant=arm)
        card = analyze(table)
        wrong += (card.table["verdict"].str.startswith(("up", "down")) | (card.table["certified"] != "")).any()
    claims.add(f"5 % of bots in one arm, {law}: a wrong verdict", f"{wrong} of {len(runs)}", "≤ 4", "10000…")
    assert wrong <= (4 if long_version else 1)
