"""Gaps at random, some of them an adversary's: no more false alarms, intervals that cover, signals that are kept.

The bars are those of complete data: at most 34 of 400 runs (4 of 16) may select anything at level 0.05, which a cell
with a true rate of 0.05 exceeds with probability 0.0009 (both); intervals of selected features cover at least 0.95 −
2 standard errors of all selected ones; strong signals are found exactly as in complete data in every run. The short
version has some of the cells. Seeds are fixed.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from compared import fit

from sparsemean import simulate, sparse_mean

from adversaries import KINDS, attack
from conftest import Claims

SHARE = 0.2
NOISES = {"t 1.5": ("t", 1.5), "Pareto 2.5": ("pareto", 2.5), "Gaussian": ("gaussian", 1.0)}
CELLS = [(0.0, "none"), (0.02, "far rows"), (0.02, "adaptive"), (0.02, "gaps made and filled")]


def with_gaps(X: np.ndarray, seed: int) -> np.ndarray:
    return np.where(np.random.default_rng((seed, 99)).random(X.shape) < SHARE, np.nan, X)


def hide(X: np.ndarray, m: int) -> None:
    """An adversary of presence: rows lose what speaks against the feature nearest to selection, or all they have."""
    above, below = np.sum(X > 0, axis=0), np.sum(X < 0, axis=0)
    worst = int(np.argmax(np.abs(above - below)))
    side = 1 if above[worst] > below[worst] else -1
    against = np.flatnonzero(X[:, worst] * side < 0)[: m // 2]
    X[against] = np.nan
    absent = np.flatnonzero(np.isnan(X[:, worst]))
    put_in = np.setdiff1d(absent, against)[: m - against.size]
    X[put_in, worst] = side * 1e6


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("epsilon", "kind"), CELLS)
def test_family_wise_error(noise: str, epsilon: float, kind: str, long_version: bool, claims: Claims) -> None:
    if not long_version and (list(NOISES).index(noise) + CELLS.index((epsilon, kind))) % 2:
        pytest.skip("half of the cells, in the short version")
    runs, most = (400, 34) if long_version else (16, 4)
    draw, shape = simulate.distributions.get(NOISES[noise][0]), NOISES[noise][1]
    alarms = 0
    for seed in range(runs):
        X = draw(np.random.default_rng(30_000 + seed), (500, 200), shape)
        if kind in KINDS:
            attack(X, kind, int(500 * epsilon), seed=seed)
        X = with_gaps(X, seed)
        if kind not in KINDS:
            hide(X, int(500 * epsilon))
        found = sparse_mean(X, contamination=epsilon, missing="omit", random_state=seed, screen_rows=False, refine=None)
        alarms += found.support.size > 0
    name = f"20 % missing, family-wise error, {noise}, ε = {epsilon:g}, {kind}"
    claims.add(name, f"{alarms} of {runs}", f"≤ {most}", "30000…")
    assert alarms <= most


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", [0.45, 2.0])
@pytest.mark.parametrize("kind", ["none", "far rows"])
def test_coverage_after_selection(noise: str, mean: float, kind: str, long_version: bool, claims: Claims) -> None:
    if not long_version and (list(NOISES).index(noise) + (mean > 1) + (kind == "none")) % 2:
        pytest.skip("half of the cells, in the short version")
    draw, shape = simulate.distributions.get(NOISES[noise][0]), NOISES[noise][1]
    runs, covered, selected = 200 if long_version else 4, 0, 0
    for seed in range(runs):
        X = draw(np.random.default_rng(31_000 + seed), (500, 200), shape)
        X[:, :20] += mean
        attack(X, kind, 5, seed=seed)
        found = sparse_mean(with_gaps(X, seed), contamination=0.01, missing="omit", random_state=seed, refine=None)
        truth = np.where(np.arange(200) < 20, mean, 0.0)[found.support]
        low, high = found.intervals[found.support].T
        covered += int(np.sum((low <= truth) & (truth <= high)))
        selected += found.support.size
    if selected < 20:
        pytest.skip("too few features are selected in this cell to speak of coverage")
    share, least = covered / selected, 0.95 - 2 * np.sqrt(0.95 * 0.05 / selected)
    name = f"20 % missing, coverage, {noise}, mean {mean:g}, {kind}"
    claims.add(name, f"{share:.3f} of {selected}", f"≥ {least:.3f}", f"31000–{30_999 + runs}")
    assert share >= least


@pytest.mark.parametrize("shape", [("t", 3.1), ("fisk", 3.1), ("pareto", 3.1), ("t", 1.3)], ids=str)
def test_strong_signals_are_kept(shape: tuple[str, float], long_version: bool, claims: Claims) -> None:
    """Means of 10, −5, −4 and 2, n = 600, d = 100, ε = 10 %: the same support with and without gaps."""
    runs, same, worse = 50 if long_version else 3, 0, []
    for seed in range(runs):
        data = simulate.make_contaminated(
            600, 100, [10, -5, -4, 2], distribution=shape[0], shape=shape[1], random_state=seed
        )
        options = {"contamination": 0.1, "random_state": seed}
        plain = sparse_mean(data.X, **options)
        found = sparse_mean(with_gaps(data.X, seed), missing="omit", **options)
        same += np.array_equal(found.support, plain.support) and found.support.tolist() == [0, 1, 2, 3]
        worse.append(float(np.linalg.norm(found.mean - data.mean) / np.linalg.norm(plain.mean - data.mean)))
    ratio = float(np.exp(np.mean(np.log(worse))))
    claims.add(
        f"20 % missing, strong signals, {shape[0]} {shape[1]}",
        f"support of complete data in {same} of {runs}, l2 error × {ratio:.2f}",
        "all, × 1.5",
        f"0–{runs - 1}",
    )
    assert same == runs
    assert ratio <= 1.5


@pytest.mark.parametrize("epsilon", [0.0, 0.03])
def test_two_groups(epsilon: float, long_version: bool, claims: Claims) -> None:
    runs, most = (400, 34) if long_version else (16, 4)
    labels, alarms = np.repeat([0, 1], [40, 60]), 0
    for seed in range(runs):
        X = with_gaps(np.random.default_rng(32_000 + seed).standard_t(1.5, (100, 150)), seed)
        m = int(np.ceil(100 * epsilon - 1e-9))
        if m:
            delta = fit(X, labels, contamination=0.0, missing="omit").beta
            worst = int(np.abs(delta).argmax())
            against = np.where(labels == 1, 1, -1) * np.sign(delta[worst]) * X[:, worst]
            X[np.argsort(against)[:m], worst] = np.nan
        alarms += fit(X, labels, contamination=epsilon, missing="omit").support.size > 0
    claims.add(f"20 % missing, two groups, ε = {epsilon:g}", f"{alarms} of {runs}", f"≤ {most}", "32000…")
    assert alarms <= most


@pytest.mark.parametrize("sizes", [(1,), (1, 2)])
@pytest.mark.parametrize("below", [0, 3])
def test_radius_by_exhaustion(sizes: tuple[int, ...], below: int, claims: Claims) -> None:
    """No replacement of fewer rows than the radius changes sides, values taken away and put in included."""
    options = {"contamination": 0.0, "bucket_sizes": sizes, "level": 0.1, "random_state": 4, "missing": "omit"}
    options |= {"screen_rows": False, "refine": None}
    X = np.abs(np.random.default_rng(3).standard_normal((11, 1))) + 0.1
    X[:below] *= -1
    X[[4, 9]] = np.nan
    plain = sparse_mean(X, **options)
    radius = int(plain.radius[0])
    for rows in range(1, min(radius, 3)):
        for chosen in combinations(range(11), rows):
            for values in product((-1e3, 0.0, 1e3, np.nan), repeat=rows):
                other = X.copy()
                other[list(chosen), 0] = values
                assert sparse_mean(other, **options).support.size == plain.support.size
    name = f"20 % missing, radius by exhaustion, sizes {sizes}, {below} of 9 rows below zero"
    claims.add(name, f"r = {radius}: no change with fewer rows", "never with r − 1", "3")
