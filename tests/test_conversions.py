"""Metrics of two values: without bad rows they have the p of Fisher's exact test, and its power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import sparsemean as sm

SHARES = (0.005, 0.02, 0.08, 0.1, 0.24, 0.26, 0.5, 0.8, 0.89, 0.91, 0.98, 0.995)


def conversions(n: int, counts: list[tuple[int, int]]) -> np.ndarray:
    """A column for each pair of numbers: so many ones among n rows of the label, then of the reference."""
    X = np.zeros((2 * n, len(counts)), dtype=np.int8)
    for j, (a, b) in enumerate(counts):
        X[:a, j] = X[n : n + b, j] = 1
    return X


@pytest.mark.parametrize("n", [60, 500, 20_000, 200_000])
def test_p_is_that_of_fishers_exact_test(n: int, long_version: bool) -> None:
    if n > 20_000 and not long_version:
        pytest.skip("the long version")
    counts = []
    for share in SHARES:
        for z in (0.0, 0.5, -2.0, 3.0, 4.0, -6.0):
            apart = z * np.sqrt(n * share * (1 - share) / 2)
            a, b = round(n * share + apart), round(n * share - apart)
            if min(a, b) >= 0 and max(a, b) <= n and 0 < a + b < 2 * n:
                counts.append((a, b))
    y, X = np.repeat(["new", "old"], n), conversions(n, counts)
    tails = [
        min(stats.hypergeom.sf(one - 1, 2 * n, a + b, n) for one in (a, b)) for a, b in counts
    ]  # that of the other arm is the lower one
    expected = np.minimum(1.0, 2 * np.array(tails))
    for values in (X, -X, X - 1):
        found = sm.certify(values, y=y, contamination=0).p_values
        assert (found >= expected * (1 - 1e-9)).all()
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    up = sm.certify(X, y=y, contamination=0, alternative="greater").p_values
    np.testing.assert_allclose(
        up, stats.hypergeom.sf([b - 1 for _, b in counts], 2 * n, X.sum(axis=0, dtype=int), n), rtol=1e-5
    )


def test_a_plain_conversion_test() -> None:
    """4000 of 40,000 converted, four standard errors apart, with all defaults and nothing else."""
    X = conversions(20_000, [(2120, 1880)])
    fisher = stats.fisher_exact([[2120, 20_000 - 2120], [1880, 20_000 - 1880]]).pvalue
    found = sm.SparseMeanDifference().fit(X, np.repeat([1, 0], 20_000)).result_
    assert found.p_values[0] <= 1.01 * fisher < 1e-4
    assert found.support.tolist() == [0]


def test_bad_rows_never_make_a_smaller_p() -> None:
    X, y = conversions(200, [(60, 20), (180, 120), (30, 2), (199, 180)]), np.repeat([1, 0], 200)
    p = [sm.certify(X, y=y, contamination=m / 200).p_values for m in range(8)]
    assert (np.diff(p, axis=0) >= 0).all()
    assert (p[0] < 1e-4).all()
    assert (p[1][:3] < 0.05).all()


def test_power_of_a_lift_of_a_tenth() -> None:
    """8 % and 8.8 % of 30,000 users an arm: the z-test finds it in .94 of experiments."""
    rng, n = np.random.default_rng(10_000), 30_000
    counts = [(int(a), int(b)) for a, b in zip(rng.binomial(n, 0.088, 300), rng.binomial(n, 0.08, 300), strict=True)]
    p = sm.certify(conversions(n, counts), y=np.repeat([1, 0], n), contamination=0).p_values
    assert np.mean(p <= 0.05) >= 0.9  # 3 standard errors below
