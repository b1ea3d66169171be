"""Common flips and permutations: family-wise error, of labels of unlike spread too; what they find of smooth maps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import ndimage

from sparsemean import SparseMeanDifference, sparse_mean
from sparsemean._stats.maxt import Randomization, step_down
from sparsemean._util.plans import Side

from conftest import Claims

RUNS, FEW = 2000, 30
SHAPE = (20, 22, 20)
"""8,800 voxels."""
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def smooth(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return ndimage.gaussian_filter1d(rng.standard_normal((n, d)), 3, axis=1) * rng.lognormal(0, 0.5, (n, 1))


def heavy(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_t(1.5, (n, d)) + rng.standard_t(1.5, (n, 1))


def rated(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.clip(np.round(rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((n, 1))), -2, 2)


def gaps(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.where(rng.random((n, d)) < 0.2, np.nan, smooth(rng, n, d))


DRAWS: list[Draw] = [smooth, heavy, rated, gaps]


def judged(wrong: list[bool], name: str, long_version: bool, claims: Claims) -> None:
    share = float(np.mean(wrong))
    claims.add(f"false feature by maxt, {name}", f"{share:.3f}", "≤ 0.065", f"10000–{9999 + len(wrong)}")
    assert share <= (0.065 if long_version else 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(wrong)))


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("n", [12, 30])
def test_one_sample(draw: Draw, n: int, long_version: bool, claims: Claims) -> None:
    """A third of the features have a mean: those are no false ones, and the step down goes past them."""
    wrong = []
    for seed in range(10_000, 10_000 + (RUNS if long_version else FEW)):
        X = draw(np.random.default_rng(seed), n, 60)
        X[:, :20] += 3 * np.nanstd(X)
        how = Randomization.of(np.ones(n), None, side=Side.BOTH, draws=1000, seed=(seed,))
        p = step_down(lambda columns, X=X: (X[:, columns], np.zeros(columns.size)), 60, how)
        wrong.append(bool((p[20:] <= 0.05).any()))
    judged(wrong, f"one sample, {draw.__name__}, n = {n}", long_version, claims)


@pytest.mark.parametrize(("reference", "draw"), [*(("a", draw) for draw in DRAWS), ("pairs", smooth), ("rest", smooth)])
def test_labels_of_unlike_spread(reference: str, draw: Draw, long_version: bool, claims: Claims) -> None:
    """a and b have one law, c is narrower: false is what is said of a and b. Against the rest all have one law."""
    wrong = []
    for seed in range(10_000, 10_000 + (RUNS if long_version else FEW)):
        rng, y = np.random.default_rng(seed), np.repeat(["a", "b", "c"], (9, 12, 15))
        X = draw(rng, 36, 40)
        if reference != "rest":
            X[y == "c"] *= 0.2
        options = {"selection": "maxt", "contamination": 0, "missing": "omit", "random_state": seed}
        found = SparseMeanDifference(reference=reference, **options).fit(X, y).results_
        key = {"a": "b", "pairs": ("b", "a")}.get(reference)
        wrong.append(any(each.support.size > 0 for name, each in found.items() if key in (None, name)))
    judged(wrong, f"labels against {reference}, {draw.__name__}", long_version, claims)


@pytest.mark.parametrize("strata", [False, True])
def test_unlike_sizes_and_strata(strata: bool, long_version: bool, claims: Claims) -> None:
    wrong = []
    for seed in range(10_000, 10_000 + (RUNS if long_version else FEW)):
        rng = np.random.default_rng(seed)
        batch, y = np.repeat([0, 1, 2], (10, 14, 20)), rng.permutation(np.repeat([0, 1], (34, 10)))
        y[[0, 10, 24]], y[[1, 11, 25]] = 0, 1
        X = smooth(rng, 44, 60) + (2.0 * batch[:, np.newaxis] if strata else 0)
        options = {"selection": "maxt", "contamination": 0, "random_state": seed}
        found = SparseMeanDifference(**options).fit(X, y, strata=batch if strata else None).result_
        wrong.append(found.support.size > 0)
    judged(wrong, f"groups of 34 and 10, {'three strata' if strata else 'no strata'}", long_version, claims)


def test_as_many_rows_bad_as_look_it(long_version: bool, claims: Claims) -> None:
    """By default, three rows of thirty far to one side in every feature: real, or more are bad than look it."""
    wrong = []
    for seed in range(10_000, 10_000 + (RUNS if long_version else FEW) // 4):
        X = smooth(np.random.default_rng(seed), 30, 60)
        X[:3] += 5 * X.std()
        found = sparse_mean(X, selection="maxt", refine=None)
        wrong.append(found.plan.bad_rows >= 3 and found.support.size > 0)
    judged(wrong, "one sample, three bad rows of 30, auto", long_version, claims)


@pytest.mark.parametrize(("n", "effect"), [(20, 0.9), (30, 0.7), (50, 0.6)])
def test_smooth_maps(n: int, effect: float, long_version: bool, claims: Claims) -> None:
    """At least what one step finds by the same flips, t against the largest of all t, as permuted_ols does."""
    rng, signal = np.random.default_rng(10_000 + n), np.zeros(SHAPE)
    signal[3:9, 3:9, 3:9], signal[11:16, 13:19, 10:16] = effect, -effect
    noise = np.stack([ndimage.gaussian_filter(rng.standard_normal(SHAPE), 1.5).ravel() for _ in range(n)])
    X = noise / noise.std() + signal.ravel()
    how = Randomization.of(np.ones(n), None, side=Side.BOTH, draws=10_000 if long_version else 500)
    sums, squares = np.abs(X.sum(axis=0)), np.sum(X**2, axis=0)
    largest = [0.0]
    for first in range(0, how.number, 256):
        flipped = (X.T @ how.drawn(slice(first, min(first + 256, how.number)))) ** 2
        largest += (np.sqrt((n - 1) / (n * squares[:, np.newaxis] - flipped)) * np.sqrt(flipped)).max(axis=0).tolist()
    t = sums * np.sqrt((n - 1) / (n * squares - sums**2))
    count = np.array([np.sum(np.array(largest) >= value - 1e-9) for value in t])
    one_step = (1 + count) / (1 + how.number) <= 0.05
    found = step_down(lambda columns: (X[:, columns], np.zeros(columns.size)), X.shape[1], how) <= 0.05
    holm = sparse_mean(X, contamination=0, refine=None, screen_rows=False).support.size
    said = f"{found.sum()} / {one_step.sum()} (Holm {holm})"
    claims.add(f"8,800 smooth voxels: found by maxt / in one step, n = {n}", said, "≥ 1.00", 10_000 + n)
    assert (found >= one_step).all()
    assert found.sum() > holm
    assert not (found & (signal.ravel() == 0)).any()
