"""Ends of intervals against an own computation: level, shares of sizes and features, and what bad rows take off.

Ranks come from scipy's binomial and, for two groups, from counting arrangements in whole numbers; values from bucket
means and differences that are formed here. A wrong level moves a rank, and with it an end to another value.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
from arranged import arrangements
from scipy import stats

from sparsemean import Estimate, simulate, sparse_mean
from sparsemean._data import as_table
from sparsemean._evidence import signs
from sparsemean._fit.two_sample import compare
from sparsemean._stats.arrays import medians, medians_sorted, present_sorted, sort_columns

N, D = 611, 40
X = simulate.make_contaminated(N, D, [3, -2, 1.5], distribution="t", shape=2.5, random_state=4).X
GAPS = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
SUBJECT = np.random.default_rng(2).integers(0, 300, N)


def rank(J: int, error: float) -> int:
    """The largest l with P(Bin(J, ½) ≤ l − 1) ≤ error/2."""
    return int(np.searchsorted(stats.binom.cdf(np.arange(J + 1), J, 0.5), error / 2, side="right"))


def interval(means: np.ndarray, error: float, m: int) -> tuple[float, float]:
    """[x̄_(l−m), x̄_(J+1−l+m)], order statistics counted from 1."""
    ordered = np.sort(means[~np.isnan(means)])
    J = ordered.size
    l = rank(J, error) - m  # noqa: E741
    return (-np.inf, np.inf) if l < 1 else (ordered[l - 1], ordered[J + 1 - l - 1])


def of_sizes(result: Estimate, values: np.ndarray, feature: int, error: float) -> list[float]:
    """The intersection over sizes, each with its share of ``error``, of bucket means formed by pandas."""
    sizes = result.plan.bucket_sizes if result.plan.walk.dealing == "blocks" else (1,)
    finest = sizes[0]
    each = [
        interval(pd.Series(values[:, feature]).groupby(result.bucket_of_row // (size // finest)).mean().to_numpy(),
                 error / len(sizes), result.plan.bad_rows)
        for size in sizes
    ]  # fmt: skip
    return [max(low for low, _ in each), min(high for _, high in each)]


CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "no bad rows": {"contamination": 0.0},
    "another level": {"level": 0.2},
    "one size": {"bucket_sizes": (1,)},
    "fours": {"bucket_sizes": (4,), "contamination": 0.01},
    "two sizes": {"bucket_sizes": (2, 8), "contamination": 0.005},
    "false discovery rate": {"selection": "fdr_by", "level": 0.1},
    "buckets of the paper": {"n_buckets": 250, "contamination": 0.02},
    "null value": {"null": 0.25},
    "subjects": {"groups": SUBJECT},  # all rows of a bucket count alike
    "missing": {"missing": "omit"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_ends_after_selection_have_the_error_level_times_selected_over_all(options: dict[str, Any]) -> None:
    values = GAPS if "missing" in options else X
    result = sparse_mean(values, **{"contamination": 0.03, "test": "buckets", "random_state": 5, **options})
    assert result.support.size >= 3
    error = result.plan.level * result.support.size / D
    for feature in result.support:
        expected = of_sizes(result, values, feature, error)
        np.testing.assert_allclose(result.intervals[feature], expected, rtol=1e-12, atol=1e-13)
        assert np.isfinite(expected).all()
    off = np.setdiff1d(np.arange(D), result.support)
    assert np.isnan(result.intervals[off]).all()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("options", [{}, {"bucket_sizes": (1,)}, {"missing": "omit"}], ids=str)
def test_ends_for_features_named_in_advance_have_the_level_asked_for(options: dict[str, Any], level: float) -> None:
    values = GAPS if "missing" in options else X
    result = sparse_mean(values, **{"contamination": 0.02, "test": "buckets", "random_state": 5, **options})
    features = [0, 2, 11, 30]
    expected = [of_sizes(result, values, feature, 1 - level) for feature in features]
    np.testing.assert_allclose(result.interval(features, level=level), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("J", [1, 5, 6, 40, 377])
@pytest.mark.parametrize("error", [0.3, 0.05, 2.0**-4, 1e-6])
def test_ranks_are_the_largest_of_the_binomial(J: int, error: float) -> None:
    """At J = 5 the error 2⁻⁴ is met exactly: 2·P(Bin ≤ 0)."""
    assert signs.order_statistic(J, error) == rank(J, error)
    if (J, error) == (5, 2.0**-4):
        assert rank(J, error) == 1


def test_too_many_bad_rows_leave_no_end() -> None:
    means = np.arange(40.0)[:, np.newaxis]
    last = rank(40, 0.05) - 1
    np.testing.assert_array_equal(signs.one_size(means, error=0.05, bad_rows=last)[:, 0], [0.0, 39.0])
    np.testing.assert_array_equal(signs.one_size(means, error=0.05, bad_rows=last + 1)[:, 0], [-np.inf, np.inf])


def test_sizes_that_contradict_each_other_give_their_hull() -> None:
    small, large = np.arange(40.0)[:, np.newaxis], 100 + np.arange(20.0)[:, np.newaxis]
    ends = [interval(means[:, 0], 0.025, 2) for means in (small, large)]
    found = signs.all_sizes([small, large], error=0.05, bad_rows=2)[:, 0]
    np.testing.assert_array_equal(found, [ends[0][0], ends[1][1]])


def rank_of_differences(n1: int, n2: int, error: float) -> int:
    """The largest l with P(U ≤ l − 1) ≤ error/2."""
    counts, total, below, rank = arrangements(n1, n2), comb(n1 + n2, n1), 0, 0
    while Fraction(below + counts[rank], total) <= Fraction(error) / 2:
        below += counts[rank]
        rank += 1
    return rank


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("missing", ["raise", "omit"])
def test_ends_between_groups_are_ordered_differences_second_less_first(epsilon: float, missing: str) -> None:
    """[D_(l−s), D_(N+1−l+s)] of all differences, at the error level·R/d; s is what m_g bad rows of each can do."""
    rng = np.random.default_rng(6)
    y = np.array(["a"] * 24 + ["b"] * 37)
    data = rng.standard_t(3, (61, 30))
    data[y == "b", :3] += (6.0, -5.0, 7.0)
    if missing == "omit":
        data[rng.random(data.shape) < 0.08] = np.nan
    result = compare(as_table(data), y, contamination=epsilon, level=0.1, missing=missing).results["b"]
    bad = [-int(-size * epsilon // 1) for size in (24, 37)]
    assert result.plan.bad_by_group == tuple(bad)
    np.testing.assert_array_equal(result.support, [0, 1, 2])

    def expected(feature: int, error: float) -> list[float]:
        first, second = (data[y == g, feature][~np.isnan(data[y == g, feature])] for g in ("a", "b"))
        differences = np.sort(np.subtract.outer(second, first).ravel())
        if first.size + second.size < 61:  # a bad row may have been hidden, or put where there was none
            moved = bad[1] * (first.size + bad[0]) + bad[0] * second.size
        else:
            moved = 24 * 37 - (24 - bad[0]) * (37 - bad[1])
        l = rank_of_differences(first.size, second.size, error) - moved  # noqa: E741
        ends = (differences[l - 1], differences[-l]) if l >= 1 else (-np.inf, np.inf)
        return [np.median(differences), *ends]

    for feature in range(3):
        value, *ends = expected(feature, 0.1 * 3 / 30)
        assert result.mean[feature] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(result.intervals[feature], ends, rtol=1e-12)
        assert np.isfinite(ends).all() or epsilon == 0.05
        _, *ends = expected(feature, 0.2)
        np.testing.assert_allclose(result.interval(feature, level=0.8)[0], ends, rtol=1e-12)
    assert (result.mean[:3] * (1, -1, 1) > 3).all()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 65])
@pytest.mark.parametrize("layout", ["C", "F", "apart"])
def test_sorted_columns_have_the_medians_and_ends_of_others(n: int, layout: str) -> None:
    """Ties, zeros of both signs, gaps and sizes at either end of what a double holds; bit for bit."""
    rng = np.random.default_rng(n)
    x = rng.choice([0.0, -0.0, 5e-324, -1.5, 2.0, 1.7e308, -1.7e308], size=(n, 40)) * rng.choice([1.0, -1.0], 40)
    gaps = np.where(rng.random(x.shape) < 0.3, np.nan, x)
    for values in (x, gaps, np.full_like(x, np.nan)):
        given = np.repeat(values, 2, axis=1)[:, ::2] if layout == "apart" else np.asarray(values, order=layout)  # type: ignore[call-overload]
        before = given.copy()
        ordered = sort_columns(given)
        np.testing.assert_array_equal(given, before)
        np.testing.assert_array_equal(ordered, np.sort(values, axis=0))
        np.testing.assert_array_equal(present_sorted(ordered), np.sum(~np.isnan(values), axis=0))
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(medians_sorted(ordered), medians(values))
            if not np.isnan(values).any():
                np.testing.assert_array_equal(medians_sorted(ordered), np.median(values, axis=0))
