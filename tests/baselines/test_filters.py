"""The filters: how far corrupted rows get, what clean rows lose, and each step against its formula.

Bars are multiples of √ε = 0.316, the order of error that bounded covariance allows, at fixed seeds; the mean of the
uncorrupted rows is itself √(d/n) = 0.17 from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog

from sparsemean import baselines, simulate
from sparsemean._util.records import LocationEstimate
from sparsemean.baselines import BaselineWarning
from sparsemean.baselines.filters import (
    begin,
    largest_deviation,
    lighten,
    most_weight,
    near,
    outlying,
)
from sparsemean.baselines.medians import random_bucket_means
from sparsemean.studies.methods import find_attack

from conftest import Claims

Rows = npt.NDArray[np.float64]
N, D, EPSILON = 2000, 50, 0.1
FILTERS = ("dense_filter", "agnostic_filter")
Attack = Callable[[np.random.Generator, int], Rows]
ATTACKS: dict[str, tuple[Attack, float]] = {
    "far rows": (lambda rng, m: 100 * rng.standard_normal((m, D)), 0.02),
    "one far point": (lambda _, m: np.full((m, D), 40.0), 0.02),
    "a shift of √d over all coordinates": (lambda rng, m: rng.standard_normal((m, D)) + 1.0, 0.75),
    "a shift of √d on one": (lambda rng, m: 0.1 * rng.standard_normal((m, D)) + math.sqrt(D) * np.eye(D)[0], 0.75),
    "a shift of 4 on one": (lambda rng, m: 0.1 * rng.standard_normal((m, D)) + 4 * np.eye(D)[0], 1.1),
    "all distances": (lambda rng, m: np.exp(rng.uniform(0, 12, (m, 1))) * rng.standard_normal((m, D)), 0.4),
}
"""Corrupted rows, and how many √ε the answer may be from the mean of the others."""


def attacked(attack: Attack, seed: int = 0) -> tuple[Rows, Rows]:
    """Return the rows and the mean of the uncorrupted ones."""
    rng = np.random.default_rng(seed)
    X, m = rng.standard_normal((N, D)), int(EPSILON * N)
    X[:m] = attack(rng, m)
    return X, X[m:].mean(axis=0)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("case", ATTACKS)
def test_corrupted_rows_get_no_farther_than_root_epsilon(name: str, case: str) -> None:
    attack, bar = ATTACKS[case]
    X, clean = attacked(attack)
    found = baselines.get(name).detailed(X, contamination=EPSILON)
    error = np.linalg.norm(found.mean - clean)
    assert found.converged, found.notes
    assert error < bar * math.sqrt(EPSILON)
    assert error < 0.8 * np.linalg.norm(X.mean(axis=0) - clean)
    assert found.weights is not None
    assert found.weights[: N // 10].mean() < 0.85 * found.weights[N // 10 :].mean()


@pytest.mark.parametrize("name", FILTERS)
def test_clean_rows_are_left_alone(name: str) -> None:
    X = np.random.default_rng(1).standard_normal((N, D)) + 3.0
    np.testing.assert_allclose(baselines.get(name)(X, contamination=EPSILON), X.mean(axis=0), atol=1e-12)
    correlated = X @ np.random.default_rng(2).standard_normal((D, D))
    scale = math.sqrt(np.linalg.eigvalsh(np.cov(correlated.T))[-1])
    found = baselines.get(name)(correlated, contamination=EPSILON)
    assert np.linalg.norm(found - correlated.mean(axis=0)) < 0.01 * scale


@pytest.mark.parametrize("name", FILTERS)
def test_turns_with_the_rows(name: str) -> None:
    """Only the coordinate-wise median they start from and the rows it drops depend on the axes."""
    X, clean = attacked(ATTACKS["a shift of √d on one"][0])
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((D, D)))[0]
    found = baselines.get(name)(X @ turn, contamination=EPSILON)
    assert np.linalg.norm(found - clean @ turn) < 0.75 * math.sqrt(EPSILON)


@pytest.mark.parametrize("name", FILTERS)
def test_works_with_fewer_rows_than_features(name: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((100, 300))
    X[:10] += 5.0
    found = baselines.get(name)(X, contamination=0.1)
    clean = X[10:].mean(axis=0)
    assert np.linalg.norm(found - clean) < 0.25 * np.linalg.norm(X.mean(axis=0) - clean)


def test_no_more_than_twice_epsilon_is_taken() -> None:
    name = "dense_filter"
    X = np.random.default_rng(5).standard_cauchy((500, 10))
    found = baselines.get(name).detailed(X, contamination=0.05)
    assert found.weights is not None
    assert 1 / found.weights.max() >= 500 * 0.9 - 1e-6
    assert not found.converged
    with pytest.warns(BaselineWarning, match="took 2ε of the weight"):
        baselines.get(name)(X, contamination=0.05)


@pytest.mark.parametrize("name", FILTERS)
def test_half_of_the_rows_equal_gives_the_median_and_says_so(name: str) -> None:
    X = np.random.default_rng(6).standard_normal((41, 5))
    X[:30] = np.arange(5)
    with pytest.warns(BaselineWarning, match="half of the rows are equal"):
        found = baselines.get(name)(X, contamination=0.1)
    np.testing.assert_array_equal(found, np.arange(5))


def test_rows_in_their_own_span_keep_inner_products() -> None:
    X = np.random.default_rng(7).standard_normal((9, 30))
    found = near(X, 100.0)
    assert found is not None
    assert found.rows.shape == (9, 9)
    away = X - np.median(X, axis=0)
    unit = np.median(np.linalg.norm(away, axis=1))
    np.testing.assert_allclose(found.rows @ found.rows.T, away @ away.T / unit**2, atol=1e-12)


def test_first_filter_step_by_hand() -> None:
    X, _ = attacked(ATTACKS["a shift of √d on one"][0])
    start = begin(X, EPSILON)
    assert not isinstance(start, LocationEstimate)
    vectors = np.linalg.eigh(np.cov(X.T, bias=True))[1]
    along = (X - X.mean(axis=0)) @ vectors[:, -1]
    share = outlying(np.ones(N), along**2)
    np.testing.assert_allclose(share, along**2 / np.max(along**2), rtol=1e-12)
    w = lighten(np.ones(N), share, start.budget)
    np.testing.assert_allclose(w, 1 - along**2 / np.max(along**2), atol=1e-12)
    assert lighten(np.ones(N), share, 7.0).sum() == pytest.approx(N - 7)
    found = baselines.get("dense_filter").detailed(X, contamination=EPSILON)
    assert found.iterations == 1
    np.testing.assert_allclose(found.mean, w @ X / w.sum(), atol=1e-10)


def test_the_program_of_one_column_is_a_linear_one() -> None:
    z = np.random.default_rng(11).standard_t(2, (60, 1))
    best = linprog(-np.ones(60), A_ub=z.T**2, b_ub=[25.0], bounds=(0, 1))
    packed = most_weight(z, 25.0)
    assert packed.solved
    assert packed.w.sum() == pytest.approx(-best.fun, abs=0.6)
    assert z[:, 0] ** 2 @ packed.w < 25.0 * 1.02


def test_the_program_reaches_its_dual() -> None:
    X, _ = attacked(ATTACKS["a shift of √d over all coordinates"][0])
    packed = most_weight(X, 1.5 * N)
    assert packed.solved
    A = X.T @ (packed.w[:, np.newaxis] * X) / (1.5 * N)
    Y = packed.multiplier
    dual = np.trace(Y) + np.maximum(1 - np.einsum("ij,jk,ik->i", X, Y, X) / (1.5 * N), 0).sum()
    largest = max(1.0, np.linalg.eigvalsh(A)[-1])
    assert np.linalg.eigvalsh(Y)[0] > -1e-9 * np.trace(Y)
    assert largest < 1.011
    assert packed.w.sum() / largest <= dual + 1e-6 < packed.w.sum() + 0.01 * N


def test_the_largest_deviation_is_that_of_the_clean_rows() -> None:
    rng = np.random.default_rng(12)
    X = rng.standard_normal((4000, 6)) @ np.diag([1, 1, 1, 2, 1, 1]) @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    assert largest_deviation(X) == pytest.approx(2.0, rel=0.05)
    X[:400] = 1e6
    assert largest_deviation(X) == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize("contamination", [0.0, 0.05, 0.4])
def test_the_agnostic_filter_is_not_told_epsilon(contamination: float) -> None:
    X, _ = attacked(ATTACKS["far rows"][0])
    found = baselines.get("agnostic_filter").detailed(X[:, :5], contamination=contamination)
    assert found.weights is not None
    assert np.count_nonzero(found.weights[: N // 10]) < 3
    assert np.count_nonzero(found.weights[N // 10 :]) == N - N // 10


# The filter on bucket means.


def stable(X: Rows, **told: Any) -> Rows:
    return np.asarray(baselines.get("stability_filter")(X, **{"contamination": EPSILON, "random_state": 0} | told))


def test_the_stability_filter_by_hand() -> None:
    """600 rows: 300 buckets, 63 of which may be bad, so that 126 of their weight go, a direction at a time."""
    rng = np.random.default_rng(13)
    X = rng.standard_t(3, (600, 4))
    X[:60] += 3.0
    means = random_bucket_means(X, EPSILON, np.random.default_rng(0))
    w = np.ones(300)
    while w.sum() > 300 - 126 + 1e-6:
        about = means - np.average(means, axis=0, weights=w)
        along = about @ np.linalg.eigh(np.cov(about.T, aweights=w, bias=True))[1][:, -1]
        loss = w * along**2 / np.max(along[w > 0] ** 2)
        w = w - min(1.0, (w.sum() - (300 - 126)) / loss.sum()) * loss
    np.testing.assert_allclose(stable(X), np.average(means, axis=0, weights=w), atol=1e-10)


@pytest.mark.parametrize("case", ATTACKS)
def test_corrupted_rows_get_no_farther_in_buckets(case: str) -> None:
    """Where rows are so far that they go at once, others go with their buckets: 0.4 of √ε in place of nothing."""
    attack, bar = ATTACKS[case]
    X, clean = attacked(attack)
    found = baselines.get("stability_filter").detailed(X, contamination=EPSILON, random_state=0)
    assert found.converged, found.notes
    assert np.linalg.norm(found.mean - clean) < max(bar, 0.4) * math.sqrt(EPSILON)
    assert found.weights is not None
    assert found.weights[: N // 10].mean() < 0.85 * found.weights[N // 10 :].mean()


STUDIED = ("constant_bias", "root_shift", "root_shift_one", "linear_hiding", "signed_support_shift", "far_rows")


@pytest.mark.parametrize("noise", ["t", "pareto", "fisk"])
def test_stability_against_the_dense_filter(noise: str, long_version: bool, claims: Claims) -> None:
    """As refinement: four columns of shape 3.1. Without a scale that could be wrong it errs less on average.

    Over blocks of four seeds, as many as the short version has, the ratio was 0.86 (t), 0.79 and 0.78 with standard
    deviations up to 0.05: a false alarm in one of some 300 such blocks for t, and none to speak of for the others.
    """
    seeds = range(500, 530 if long_version else 504)
    errors = {name: dict.fromkeys(STUDIED, 0.0) for name in ("stability_filter", "dense_filter")}
    for attack in STUDIED:
        for seed in seeds:
            data = simulate.make_contaminated(
                600, 20, [10, -5, -4, 2], distribution=noise, attack=find_attack(attack), random_state=seed
            )
            for name in errors:
                mean = baselines.get(name).detailed(data.X[:, :4], contamination=EPSILON, random_state=seed).mean
                errors[name][attack] += np.linalg.norm(mean - data.mean[:4]) / len(seeds)
    ours, theirs = (np.array(list(by_attack.values())) for by_attack in errors.values())
    ratio = ours.mean() / theirs.mean()
    if long_version:
        measured = f"{ours.mean():.3f} and {theirs.mean():.3f}: {ratio:.2f}"
        claims.add(f"stability_filter over dense_filter, {noise} 3.1, six attacks", measured, "≤ 1", "500–529")
    assert ratio < 1
    assert ours.max() < 0.5


@pytest.mark.parametrize("noise", ["t", "pareto"])
def test_tails_are_filtered_without_corrupted_rows(noise: str, long_version: bool, claims: Claims) -> None:
    """ε = 0 and shape 2.1: nineteen of twenty errors are well below those of the mean, as the bound for δ says."""
    seeds = range(700, 1000 if long_version else 760)
    errors = np.empty((len(seeds), 2))
    for run, seed in enumerate(seeds):
        data = simulate.make_contaminated(
            1000, 5, [2.0], distribution=noise, shape=2.1, contamination=0, random_state=seed
        )
        errors[run] = [
            np.linalg.norm(mean - data.mean) for mean in (stable(data.X, contamination=0), data.X.mean(axis=0))
        ]
    ours, theirs = np.quantile(errors, 0.95, axis=0)
    if long_version:
        claims.add(
            f"stability_filter, ε = 0, {noise} 2.1, 95 % of errors",
            f"{ours:.3f}; mean {theirs:.3f}",
            "≤ 0.85 of it",
            "700–999",
        )
    assert ours < 0.85 * theirs


def test_light_tails_cost_next_to_nothing_without_corrupted_rows() -> None:
    errors = np.empty((60, 2))
    for seed in range(60):
        X = np.random.default_rng(seed).standard_normal((1000, 5))
        errors[seed] = [np.sum(mean**2) for mean in (stable(X, contamination=0), X.mean(axis=0))]
    ratio = errors[:, 0].sum() / errors[:, 1].sum()
    assert 0.9 < ratio < 1.1


def test_the_stability_filter_at_the_edges() -> None:
    rng = np.random.default_rng(14)
    clean = 5 + rng.standard_normal((400, 3))
    huge, cauchy, halves = clean.copy(), rng.standard_cauchy((400, 3)), clean.copy()
    huge[:40] = 1e300
    halves[rng.random((400, 3)) < 0.5] = 5.0
    for X, middle, bar in ((huge, 5.0, 0.4), (cauchy, 0.0, 1.0), (halves, 5.0, 0.2)):
        assert np.abs(stable(X) - middle).max() < bar
    few = clean[:4]
    np.testing.assert_allclose(stable(few, contamination=0), few.mean(axis=0), rtol=1e-12)
    assert (stable(few) >= few.min(axis=0)).all()
    assert (stable(few) <= few.max(axis=0)).all()
    with pytest.warns(BaselineWarning, match="half of the rows are equal"):
        np.testing.assert_array_equal(stable(np.vstack([np.ones((380, 3)), clean[:20]])), 1.0)
