"""The centres of many columns against those of one: Hodges–Lehmann to the last bit, Student-t to 1e-6 of the scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from specification import candidates, pseudomedian

from sparsemean._fit.refinement import DEGREES, FAR, FEWEST, NEAR
from sparsemean._kernels import centres
from sparsemean._stats.arrays import GAUSSIAN, dropna
from sparsemean._util.records import FloatArray

RULE = centres.Rule(degrees=DEGREES, gaussian=GAUSSIAN, far=FAR, near=NEAR, fewest=FEWEST)


def columns(n: int, seed: int) -> FloatArray:
    """Return columns of n rows, one for each kind of noise."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(n)
    few_off = np.where(np.arange(n) < n // 10, 1e5, normal)
    return np.column_stack(
        (
            normal,
            rng.standard_cauchy(n),
            rng.standard_exponential(n),
            rng.choice([-1.0, 1.0], n) * (1 + rng.pareto(3.1, n)),  # two humps
            rng.choice([-5.0, 5.0], n) + rng.standard_normal(n),
            np.round(rng.standard_t(1, n)),
            rng.integers(0, 2, n),
            rng.choice([-0.0, 0.0, 1e-3], n),
            np.where(rng.random(n) < 0.6, 0.0, normal),
            np.full(n, -3.5),
            few_off,
            1e6 + normal,
            normal * 1e-310,
            np.round(normal) * 5e-324,
            normal.clip(-3, 3) * 1e307,
            rng.choice([-1.7e308, 1.0, 2.0, 1.7e308], n),
            rng.choice([1.0, 1e300], n, p=[0.9, 0.1]),
            normal.astype(np.float32),
            rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-300, 300, n),
        )
    )


def agree(X: FloatArray, found: centres.Centres, start: FloatArray) -> None:
    """Compare with the specification, column by column."""
    for f, column in enumerate(np.asarray(X, dtype=np.float64).T):
        x = dropna(column)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = candidates(x, float(start[f]))
            spread = GAUSSIAN * float(np.median(np.abs(x - start[f]))) if x.size else 0.0
        np.testing.assert_array_equal((found.values[f, 0], found.errors[f, 0]), expected[0][:2], err_msg=str(f))
        assert found.compared[f] == (-1 if not x.size else x.size >= FEWEST and spread > 0)
        for kind, centre in enumerate(expected[1:], start=1):
            if centre.error < math.inf and 1e-307 < spread < math.inf:
                assert found.values[f, kind] == pytest.approx(centre.value, abs=1e-6 * spread, rel=1e-15), (f, kind)
                assert found.errors[f, kind] == pytest.approx(centre.error, rel=1e-3), (f, kind)


@pytest.mark.parametrize("n", [*range(1, 14), 50, 101, 400])
@pytest.mark.parametrize("by_median", [False, True])
def test_they_are_those_of_the_specification(n: int, by_median: bool) -> None:
    X = columns(n, n)
    start = centres.starts(X, by_median=by_median)
    with np.errstate(over="ignore"):
        expected = np.median(X, axis=0) if by_median else np.array([pseudomedian(x) for x in X.T])
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(start[finite], expected[finite])
    agree(X, centres.locate(X, start, RULE), start)


@pytest.mark.parametrize("seed", range(30))
def test_student_t_centres_of_small_samples(seed: int) -> None:
    """Where the likelihood of few values has several humps as well, the same one is climbed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    X = rng.standard_t(rng.choice([1.0, 3.0, 30.0], 20), (n, 20)) + rng.choice([0.0, 3.0], (n, 1), p=[0.8, 0.2])
    start = centres.starts(X, by_median=False)
    agree(X, centres.locate(X, start, RULE), start)


@pytest.mark.parametrize("seed", range(40))
def test_ordered_sums_equal_the_sorted_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.sort(columns(int(rng.integers(1, 40)), seed)[:, seed % 14])
    sums = np.sort(np.add.outer(y, y), axis=None)
    for k in {1, sums.size, *rng.integers(1, sums.size + 1, 20).tolist()}:
        guess = rng.normal(0, 3), rng.choice([1e-9, 1.0, 1e9, math.inf])
        value, through, above = centres.order_statistic(y, y, np.empty((2, 0), dtype=np.int64), k, *guess)
        assert value == sums[k - 1]
        assert through == np.count_nonzero(sums <= value)
        assert above == sums[through] if through < sums.size else math.inf
    for value in (*rng.normal(0, 3, 9), *rng.choice(sums, 9)):
        below = sums[sums <= value]
        assert centres.count_sums(y, value)[0] == below.size
        assert centres.count_sums(y, value)[1] == below.max(initial=-math.inf)
        assert centres.count_sums(y, value)[2] == sums[sums > value].min(initial=math.inf)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11])
def test_the_median_distance_equals_that_of_all_distances(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(50):
        y = np.sort(np.round(rng.standard_normal(n), int(rng.integers(0, 3))))
        about = rng.choice([*y, -9.0, 9.0, rng.standard_normal()])
        assert centres.median_distance(y, about) == np.median(np.abs(y - about))


def test_what_is_missing_is_left_out() -> None:
    X = columns(60, 0)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    X[:, 3] = np.nan
    start = centres.starts(X, by_median=False)
    assert math.isnan(start[3])
    start[3] = 7.0
    found = centres.locate(X, start, RULE)
    agree(X, found, start)
    assert found.values[3].tolist() == [7.0] * 3


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_and_how_the_data_lie_in_memory_change_nothing(n_jobs: int) -> None:
    X = np.random.default_rng(0).standard_t(2, (300, 101)).astype(np.float32)
    start = centres.starts(X.astype(np.float64), by_median=False, n_jobs=1)
    plain = centres.locate(X.astype(np.float64), start, RULE, n_jobs=1)
    wide = np.zeros((600, 202))
    wide[::2, ::2] = X
    for same in (X, np.asfortranarray(X), wide[::2, ::2], X[::-1]):
        np.testing.assert_array_equal(centres.starts(same, by_median=False, n_jobs=n_jobs), start)
        for ours, its in zip(centres.locate(same, start, RULE, n_jobs=n_jobs), plain, strict=True):
            np.testing.assert_array_equal(ours, its)


def test_some_rows_and_one_kind() -> None:
    X = columns(200, 1)[:, :5]
    start = centres.starts(X, by_median=False)
    rows = np.flatnonzero(np.random.default_rng(0).random(200) < 0.7)
    whole = centres.locate(X[rows], start, RULE)
    kinds = np.array([0, 1, 2, 1, 0])
    one = centres.locate(X, start, RULE, rows=rows, kinds=kinds, n_jobs=1)
    np.testing.assert_array_equal(one.values[:, 0], whole.values[:, 0])
    for f, kind in enumerate(kinds):
        assert one.values[f, kind] == whole.values[f, kind]
        assert kind == 0 or one.errors[f, kind] == whole.errors[f, kind]


@pytest.mark.parametrize("equal", [50, 51, 60])
def test_where_half_are_equal_a_student_t_centre_is_not_used(equal: int) -> None:
    """Its scale falls to zero, and so would its error."""
    x = np.r_[np.full(equal, 2.0), np.random.default_rng(0).standard_normal(100 - equal)]
    start = np.array([1.5])
    found = centres.locate(x[:, np.newaxis], start, RULE)
    assert found.errors[0, 1] == candidates(x, 1.5)[1].error == math.inf
