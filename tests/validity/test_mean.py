"""Means of skewed, rare and discrete values: p-values, intervals and power, the standard deviation given or from data.

Features are independent. A share of p-values of at most .05 that exceeds .05 by 3.5 standard errors has probability
0.0003 where p-values are exact, as has a selection in more runs than said probability 0.001. Seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from sparsemean import certify, sparse_mean
from sparsemean._stats import nulls, planning

from conftest import Claims

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


class Law(NamedTuple):
    """How values are drawn, their mean and standard deviation."""

    draw: Draw
    mean: float
    sd: float


def lognormal(s: float) -> Law:
    sd = math.sqrt(math.expm1(s * s)) * math.exp(s * s / 2)
    return Law(lambda rng, shape: rng.lognormal(0, s, shape), math.exp(s * s / 2), sd)


LAWS = {
    "lognormal 0.5": lognormal(0.5),
    "lognormal 1": lognormal(1.0),
    "lognormal 2": lognormal(2.0),
    "exponential": Law(lambda rng, shape: rng.exponential(size=shape), 1.0, 1.0),
    "Pareto 3.1": Law(lambda rng, shape: rng.pareto(3.1, shape), 1 / 2.1, math.sqrt(3.1 / (2.1**2 * 1.1))),
    "zero-inflated": Law(
        lambda rng, shape: np.where(rng.random(shape) < 0.9, 0.0, rng.lognormal(size=shape)),
        0.1 * math.exp(0.5), math.sqrt(0.1 * math.exp(2) - 0.01 * math.e),
    ),
    "Poisson 0.1": Law(lambda rng, shape: rng.poisson(0.1, shape).astype(float), 0.1, math.sqrt(0.1)),
    "two-point": Law(lambda rng, shape: (rng.random(shape) < 0.03).astype(float), 0.03, math.sqrt(0.03 * 0.97)),
}  # fmt: skip
LIGHT = {
    "lognormal 0.5": LAWS["lognormal 0.5"],
    "exponential": LAWS["exponential"],
    "Poisson 0.1": LAWS["Poisson 0.1"],
    "two-point": Law(lambda rng, shape: (rng.random(shape) < 0.05).astype(float), 0.05, math.sqrt(0.05 * 0.95)),
}
"""Laws of kurtosis at most 20."""
CELLS = [(0.0, "none"), (0.01, "far up"), (0.01, "near up"), (0.05, "far down"), (0.05, "near up")]
D = 100


def attack(X: np.ndarray, law: Law, kind: str, m: int) -> None:
    """Replace m rows, all to one side: far away, or just so far that the influence is all but constant."""
    if kind == "none" or not m:
        return
    plan = planning.plan_fit(X.shape[0], X.shape[1], contamination=m / X.shape[0], target="mean")
    test = nulls.mean_test(plan, np.full(X.shape[1], law.sd))
    by = {"far up": 1e9, "far down": -1e9, "near up": 0.5 * float(test.unit[0]) / test.kappa}[kind]
    order = np.argsort(-by * X, axis=0)[-m:]  # the rows that speak most against it
    np.put_along_axis(X, order, law.mean + by, axis=0)


def most_alarms(runs: int) -> int:
    return int(stats.binom.ppf(0.999, runs, 0.05))


def small_enough(p: np.ndarray) -> None:
    for level in (0.05, 0.01):
        assert np.mean(p <= level) <= level + 3.5 * math.sqrt(level * (1 - level) / p.size)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("epsilon", "kind"), CELLS)
@pytest.mark.parametrize("n", [500, 2000, 20_000, 1_000_000])
def test_nothing_is_found_where_there_is_nothing(
    name: str, epsilon: float, kind: str, n: int, long_version: bool, claims: Claims
) -> None:
    if n > 20_000 and not long_version:
        pytest.skip("a million rows: make validate")
    if not long_version and (list(LAWS).index(name) + CELLS.index((epsilon, kind)) + n // 2000) % 2:
        pytest.skip("half of the cells, in the short version")
    law, d = LAWS[name], D if n <= 20_000 else 5
    runs = {500: (10, 200), 2000: (3, 100), 20_000: (1, 20), 1_000_000: (1, 2)}[n][long_version]
    alarms, found = 0, []
    for seed in range(runs):
        X = law.draw(np.random.default_rng((20_000 + seed, n)), (n, d))
        attack(X, law, kind, math.ceil(epsilon * n - 1e-9))
        made = certify(X, target="mean", scale=law.sd, null=law.mean, contamination=epsilon)
        alarms += made.support.size > 0
        found.append(made.p_values)
    small_enough(np.concatenate(found))
    claims.add(
        f"mean, {name}, n = {n:,}, ε = {epsilon:g}, {kind}: runs with a false feature",
        f"{alarms} of {runs}", f"≤ {most_alarms(runs)}", "20000…",
    )  # fmt: skip
    assert alarms <= most_alarms(runs)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("epsilon", "kind"), CELLS)
def test_intervals_cover_the_mean(name: str, epsilon: float, kind: str, long_version: bool, claims: Claims) -> None:
    """n = 2000, 40 features a run, ten of them with a mean of one standard deviation: of those selected, and of all."""
    law, runs = LAWS[name], 40 if long_version else 2
    shift = np.where(np.arange(40) < 10, law.sd, 0.0)
    selected, after, marginal = 0, 0, 0
    for seed in range(runs):
        X = law.draw(np.random.default_rng((21_000, seed)), (2000, 40))
        attack(X, law, kind, math.ceil(epsilon * 2000 - 1e-9))
        result = sparse_mean(
            X + shift, target="mean", scale=law.sd, null=law.mean, contamination=epsilon, screen_rows=False
        )
        low, high = result.intervals[result.support].T
        truth = (law.mean + shift)[result.support]
        selected, after = selected + truth.size, after + int(np.sum((low <= truth) & (truth <= high)))
        low, high = result.interval(range(40)).T
        marginal += int(np.sum((low <= law.mean + shift) & (law.mean + shift <= high)))
        assert (result.mean[result.support] >= result.intervals[result.support, 0]).all()
    share = marginal / (40 * runs)
    claims.add(
        f"mean, {name}, ε = {epsilon:g}, {kind}: coverage of selected, of all", f"{after} of {selected}, {share:.3f}",
        "≥ 0.95", "21000…",
    )  # fmt: skip
    assert selected >= 8 * runs or epsilon == 0.05
    assert after >= 0.95 * selected
    assert share >= 0.95 - 3.5 * math.sqrt(0.05 * 0.95 / (40 * runs))


@pytest.mark.parametrize("name", ["lognormal 0.5", "lognormal 1", "exponential", "Pareto 3.1", "Poisson 0.1"])
def test_a_quarter_of_a_standard_deviation_is_found(name: str, long_version: bool, claims: Claims) -> None:
    """n = 2000, d = 1000, no bad rows: twenty such means, half of them against the skew."""
    law, runs, found, false = LAWS[name], 10 if long_version else 1, 0, 0
    for seed in range(runs):
        X = law.draw(np.random.default_rng((22_000, seed)), (2000, 1000))
        X[:, :20] += np.where(np.arange(20) % 2, 0.25, -0.25) * law.sd
        support = certify(X, target="mean", scale=law.sd, null=law.mean, contamination=0).support
        found, false = found + int(np.sum(support < 20)), false + int(np.sum(support >= 20))
    share = found / (20 * runs)
    claims.add(
        f"mean of .25σ found, {name}, n = 2000, d = 1000, ε = 0", f"{share:.0%}, {false} false", "≥ 80 %, 0", "22000…"
    )
    assert share >= 0.8
    assert false == 0


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("source", ["half of the rows", "earlier data"])
def test_a_scale_from_data_keeps_the_level(name: str, source: str, long_version: bool, claims: Claims) -> None:
    """Kurtosis at most 20: whether a bound is too small, and whether anything is selected, of 50 features."""
    law, runs = LIGHT[name], 100 if long_version else 5
    alarms, short, found = 0, 0, []
    for seed in range(runs):
        rng = np.random.default_rng((23_000, seed))
        options: dict[str, Any] = {"target": "mean", "null": law.mean, "contamination": 0.0, "random_state": seed}
        if source == "earlier data":
            options |= {"scale": law.draw(rng, (1000, 50)), "contamination": 0.01}
        made = sparse_mean(law.draw(rng, (2000, 50)), screen_rows=False, refine=None, **options)
        plan = made.plan
        assert made.mean_test is not None
        exact = nulls.mean_test(plan, np.full(50, law.sd), made.mean_test.rows)
        short += int(np.sum(made.mean_test.unit < exact.unit))
        alarms += made.support.size > 0
        found.append(made.p_values)
    small_enough(np.concatenate(found))
    claims.add(
        f"scale from {source}, {name}: bounds too small, runs with a false feature",
        f"{short} of {50 * runs}, {alarms} of {runs}", f"0, ≤ {most_alarms(runs)}", "23000…",
    )  # fmt: skip
    assert short == 0
    assert alarms <= most_alarms(runs)


def test_plain_standard_deviations_would_not_do() -> None:
    """Of rare events most columns show none in the rows that give the scale: such columns are not tested."""
    rng, rare = np.random.default_rng(0), 1 / 2000
    X = (rng.random((2000, 200)) < rare).astype(float)
    made = certify(X, target="mean", contamination=0, null=rare)
    assert made.support.size == 0
