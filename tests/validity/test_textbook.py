"""Where no row is bad one sample is judged by the textbook's test: p-values, what is found, lengths of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import sparsemean as sm
from sparsemean import sparse_mean

import exact_tails as exact

FIRST_SEED = 10_000
SHIFT = {12: 1.6, 15: 1.3, 20: 1.2, 60: 0.55}
"""Means, in standard deviations, that a good part of the features with one are found by."""


def wilcoxon(X: np.ndarray) -> np.ndarray:
    """Two-sided p-values of Wilcoxon's exact test, column by column, without SciPy's formulas."""
    n = X.shape[0]
    rank = np.argsort(np.argsort(np.abs(X), axis=0), axis=0) + 1
    up = np.where(X > 0, rank, 0).sum(axis=0)
    larger = np.maximum(up, n * (n + 1) // 2 - up)
    return np.minimum(1.0, 2 * np.exp([exact.signed_log_tail(n, n, int(t)) for t in larger]))


@pytest.mark.parametrize("n", [5, 8, 12, 20, 40, 60])
def test_p_is_that_of_wilcoxons_exact_test(n: int) -> None:
    rng = np.random.default_rng(FIRST_SEED + n)
    X = rng.normal(size=(n, 60)) + 0.4 * rng.normal(size=60)
    by_scipy, found = np.array([stats.wilcoxon(x, method="exact").pvalue for x in X.T]), sparse_mean(X, contamination=0)
    np.testing.assert_allclose(found.p_values, by_scipy, rtol=1e-6, atol=1e-16)  # SciPy takes 1 less a sum


@pytest.mark.parametrize("n", [129, 600, 5000])
def test_p_of_many_rows_is_exact_and_never_below(n: int) -> None:
    rng = np.random.default_rng(FIRST_SEED + n)
    X = rng.normal(size=(n, 20)) + 4 / np.sqrt(n) * rng.normal(size=20)
    ratio = sparse_mean(X, contamination=0).p_values / wilcoxon(X)
    assert ratio.min() >= 1 - 1e-9  # the other computation is rounded too
    assert ratio.max() <= 1 + 1e-3


@pytest.mark.parametrize(("n", "d"), [(12, 50), (15, 200), (20, 1000), (60, 1000)])
def test_as_many_are_found_as_by_wilcoxon_and_holm(n: int, d: int, long_version: bool) -> None:
    ours = theirs = 0
    for seed in range(FIRST_SEED, FIRST_SEED + (20 if long_version else 3)):
        X = np.random.default_rng((seed, n)).normal(size=(n, d))
        X[:, :20] += SHIFT[n]
        ours += sparse_mean(X, contamination=0).support.size
        p = np.array([stats.wilcoxon(x, method="exact").pvalue for x in X.T])
        theirs += int(np.logical_and.accumulate(np.sort(p) <= 0.05 / (d - np.arange(d))).sum())
    assert theirs > 0
    assert ours >= 0.99 * theirs


@pytest.mark.parametrize("n", [15, 50, 300])
def test_intervals_are_hardly_longer_than_those_of_t(n: int, long_version: bool) -> None:
    ratios = []
    for seed in range(400 if long_version else 60):
        x = np.random.default_rng((FIRST_SEED + seed, n)).normal(size=(n, 1))
        low, high = sparse_mean(x, contamination=0).interval([0], 0.95)[0]
        ratios.append((high - low) / (2 * stats.t.isf(0.025, n - 1) * x.std(ddof=1) / np.sqrt(n)))
    assert np.median(ratios) <= 1.06


# Two groups: the conditional test given all ties.

TIED = {
    "binary 2 %": lambda rng, n: rng.random(n) < 0.02,
    "binary 10 %": lambda rng, n: rng.random(n) < 0.1,
    "binary 50 %": lambda rng, n: rng.random(n) < 0.5,
    "one or two": lambda rng, n: 1 + (rng.random(n) < 0.1),
    "ratings": lambda rng, n: rng.choice(5, n, p=(0.05, 0.1, 0.2, 0.35, 0.3)) + 1,
    "Poisson .3": lambda rng, n: rng.poisson(0.3, n),
    "Poisson 1": lambda rng, n: rng.poisson(1.0, n),
    "Poisson 2": lambda rng, n: rng.poisson(2.0, n),
    "1 + Poisson .3": lambda rng, n: 1 + rng.poisson(0.3, n),
    "rounded": lambda rng, n: rng.normal(size=n).round(1),
}


@pytest.mark.parametrize("kind", TIED)
@pytest.mark.parametrize("d", [20, 2500])
def test_p_of_groups_is_that_of_the_conditional_test_given_ties(kind: str, d: int) -> None:
    """30 against 30, as likely to be selected as by counting all groups: at .05/20 and, of more columns, .05/2500."""
    rng = np.random.default_rng((FIRST_SEED, *kind.encode()))
    n, y = 30, np.repeat([1, 0], 30)
    X = np.stack([TIED[kind](rng, 2 * n).astype(float) for _ in range(d)], axis=1)
    for j, push in enumerate(np.linspace(0.0, 4.0, 20)):  # labels that go with the values, more and more
        order = np.argsort(push * y + rng.logistic(size=2 * n), kind="stable")
        X[order, j] = np.sort(X[:, j])
    p = sm.certify(X, y=y, contamination=0).p_values[:20]
    for x, value in zip(X.T[:20], p.tolist(), strict=True):
        law = exact.tied_groups(np.unique(x, return_counts=True)[1].tolist(), n, zeros=False, halves=True)
        w = int(np.sum(1 + np.sign(x[:n, np.newaxis] - x[np.newaxis, n:])))
        truth = min(1.0, 2 * float(exact.tails_of(law, max(w, 2 * n * n - w))))
        assert value >= min(truth, 0.05) * (1 - 1e-9)
        if (d == 20 and truth <= 0.05) or 0.05 / d < truth <= 5 / d:
            assert value <= 1.01 * truth
        assert (value <= 0.05 / d) == (truth <= 0.05 / d) or abs(value * d / 0.05 - 1) < 0.01


def test_ratings_of_many_users_have_the_power_of_the_test_given_ties() -> None:
    """1000 against 1000: with p of a normal law given ties near 5e-5 and 2.5e-3, ours is at most 2 % off that."""
    n, rng = 1000, np.random.default_rng(FIRST_SEED)
    y, shares = np.repeat([1, 0], n), (0.05, 0.1, 0.2, 0.35, 0.3)
    X = np.stack([rng.choice(5, 2 * n, p=shares) + 1.0 for _ in range(20)], axis=1)
    for j, push in enumerate(np.linspace(0.1, 0.35, 20)):
        order = np.argsort(push * y + rng.logistic(size=2 * n), kind="stable")
        X[order, j] = np.sort(X[:, j])
    p = sm.certify(X, y=y, contamination=0).p_values
    normal = stats.mannwhitneyu(X[:n], X[n:], use_continuity=False, method="asymptotic").pvalue
    near = (normal > 1e-6) & (normal < 0.05)
    assert near.sum() >= 5
    z, theirs = stats.norm.isf(p[near] / 2), stats.norm.isf(normal[near] / 2)
    assert (theirs / z).max() <= 1.01
