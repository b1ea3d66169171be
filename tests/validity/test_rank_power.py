"""Means that signed ranks find, over those that buckets find; widths of their intervals; and buckets on few rows.

The detectable effect is the mean that 80 % of the features with it reach p ≤ 0.05/1000 at: one feature at Holm's first
step among a thousand. Both tests see the same 1000 columns, so that little of the ratio is chance.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np
import pytest
from scipy.stats import binom, t

from sparsemean import certify, sparse_mean

from conftest import Claims

D, LEVEL, POWER = 1000, 0.05, 0.8
FAR = 1e9
NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "Gaussian": lambda rng, shape: rng.standard_normal(shape),
    "t 3": lambda rng, shape: rng.standard_t(3, shape),
    "t 1.5": lambda rng, shape: rng.standard_t(1.5, shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "Pareto 2.5": lambda rng, shape: (rng.pareto(2.5, shape) + 1) * rng.choice([-1.0, 1.0], shape),
}


def enough(noise: np.ndarray, mean: float, epsilon: float, *, test: str, attacked: bool) -> bool:
    """Whether a mean is found with the power asked for; bad rows vote against it where ``attacked``."""
    n, X = noise.shape[0], noise + mean
    bad = np.random.default_rng(7).permutation(n)[: ceil(epsilon * n - 1e-9)]
    if attacked:
        X[bad] = -FAR * (1 + np.arange(bad.size))[:, np.newaxis]
    p = certify(X, contamination=epsilon, level=LEVEL, test=test, random_state=0).p_values
    return bool(np.mean(p <= LEVEL / D) >= POWER)


def detectable(noise: np.ndarray, epsilon: float, *, test: str, attacked: bool) -> float:
    """Return the smallest mean that is found with the power asked for."""
    low, high = 0.0, 0.25
    while not enough(noise, high, epsilon, test=test, attacked=attacked):
        low, high = high, 2 * high
    while high - low > 0.003 * high:
        middle = (low + high) / 2
        found = enough(noise, middle, epsilon, test=test, attacked=attacked)
        low, high = (low, middle) if found else (middle, high)
    return high


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("epsilon", "attacked"), [(0.0, False), (0.05, True)])
def test_ranks_find_what_buckets_find(name: str, epsilon: float, attacked: bool) -> None:
    """A mean 2 % above the smallest that buckets find: that of ranks is no larger."""
    noise = NOISES[name](np.random.default_rng(5), (125, D))
    mean = 1.02 * detectable(noise, epsilon, test="buckets", attacked=attacked)
    assert enough(noise, mean, epsilon, test="ranks", attacked=attacked)


def test_ranks_find_smaller_means(long_version: bool, claims: Claims) -> None:
    if not long_version:
        pytest.skip("the smallest means of ranks themselves: make validate")
    ratios = {}
    for n in (125, 600, 2000):
        for name, draw in NOISES.items():
            noise = draw(np.random.default_rng(5), (n, D))
            for epsilon, attacked in ((0.0, False), (0.01, False), (0.01, True), (0.05, False), (0.05, True)):
                ranks, buckets = (
                    detectable(noise, epsilon, test=test, attacked=attacked) for test in ("ranks", "buckets")
                )
                ratios[name, n, epsilon, attacked] = ranks / buckets
    worst, middle = max(ratios.values()), float(np.exp(np.mean(np.log(list(ratios.values())))))
    claims.add(
        "detectable effect, ranks over buckets: 5 noises × n 125, 600, 2000 × ε 0, 1, 5 %, clean and attacked",
        f"largest {worst:.3f}, geometric mean {middle:.3f} of {len(ratios)} cells",
        "≤ 1.07, ≤ 0.92",
        "5",
    )
    # p is at least that of no bad row, of uncapped ranks, which lose that much to signs where tails are heaviest.
    assert worst <= 1.07, ratios
    assert middle <= 0.92, ratios


WIDTHS = {0.0: 1.62, 0.01: 2.0, 0.05: 3.5}


@pytest.mark.parametrize(("epsilon", "bad"), [(0.0, "no"), (0.01, "no"), (0.05, "no"), (0.01, "far"), (0.05, "far")])
def test_widths_and_coverage(epsilon: float, bad: str, long_version: bool, claims: Claims) -> None:
    """n = 600, Gaussian, 20 of 200 features with a mean: widths over those of 95 % t intervals of the clean rows.

    Bars of widths are for rows none of which is bad. Where all that are allowed for vote against, they are wider.
    """
    n, d, k, runs = 600, 200, 20, 100 if long_version else 6
    m = ceil(epsilon * n - 1e-9) if bad == "far" else 0
    wide, covered, selected = [], 0, 0
    for seed in range(runs):
        X = np.random.default_rng(40_000 + seed).standard_normal((n, d))
        X[:, :k] += 1.0
        plain = 2 * t.ppf(0.975, n - m - 1) * X[m:].std(axis=0, ddof=1) / np.sqrt(n - m)
        X[:m] = -FAR
        found = sparse_mean(X, contamination=epsilon, refine=None, screen_rows=False, random_state=seed)
        at = found.support
        low, high = found.intervals[at].T
        wide.extend((high - low) / plain[at])
        truth = np.where(at < k, 1.0, 0.0)
        covered, selected = covered + int(np.sum((low <= truth) & (truth <= high))), selected + at.size
    ratio, share = float(np.mean(wide)), covered / selected
    least, widest = 0.95 - 2 * np.sqrt(0.95 * 0.05 / selected), WIDTHS[epsilon] if bad == "no" else np.inf
    claims.add(
        f"width of intervals over that of clean t intervals, n = 600, Gaussian, ε = {epsilon:g}, {bad} bad rows",
        f"{ratio:.2f}, coverage {share:.3f} of {selected}",
        f"{f'≤ {widest:g}, ' if bad == 'no' else ''}≥ {least:.3f}",
        f"40000–{39_999 + runs}",
    )
    assert selected >= k * runs
    assert ratio <= widest
    assert share >= least


def holm(p: np.ndarray) -> int:
    """How many hypotheses Holm rejects."""
    above = np.sort(p) > LEVEL / np.arange(p.size, 0, -1)
    return int(np.argmax(above)) if above.any() else p.size


def test_buckets_on_few_rows_leave_out_sizes_that_cannot_reject(claims: Claims) -> None:
    """n = 30, d = 20,000: only single rows can ever reach 0.05/20,000, and have the error to themselves."""
    n, d, k = 30, 20_000, 1000
    X = np.random.default_rng(0).standard_normal((n, d))
    X[:, :k] += 1.3
    found = certify(X, contamination=0.0, test="buckets", random_state=0).support.size
    above = np.sum(X > 0, axis=0)
    p = np.minimum(1, 2 * binom.sf(np.maximum(above, n - above) - 1, n, 0.5))
    before, after = holm(np.minimum(1, 3 * p)), holm(p)  # of pairs and fours no p-value is below 0.05/d
    claims.add(
        "features found by buckets, n = 30, d = 20,000, a thousand with mean 1.3",
        f"{found}; {before} by three sizes",
        "more than by three sizes",
        "0",
    )
    assert found == after
    assert found > 1.4 * before
