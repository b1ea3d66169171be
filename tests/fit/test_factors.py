"""Common factors: what makes one and what does not, scores and slopes beside the truth, and values without them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from sparsemean import sparse_mean
from sparsemean._fit import screening
from sparsemean._stats import factors
from sparsemean._stats.factors import Factors, common_factors, number_of_factors, robust_slopes, take_out
from sparsemean._util.records import FloatArray

Rng = np.random.Generator
SHARE = 0.6


def factor_noise(rng: Rng, n: int, d: int, count: int) -> tuple[FloatArray, FloatArray]:
    """Noise of variance about one, `SHARE` of it common, and the scores."""
    scores = rng.standard_normal((n, count))
    common = math.sqrt(SHARE / count) * scores @ rng.standard_normal((count, d))
    return common + math.sqrt(1 - SHARE) * rng.standard_normal((n, d)), scores


def found(values: FloatArray, share: float = 0.1) -> Factors:
    return common_factors(values, share=share, rng=np.random.default_rng(3))


def explained(truth: FloatArray, scores: FloatArray) -> float:
    """The smallest share of a true score's variance that the scores explain."""
    fitted = scores @ np.linalg.lstsq(scores, truth, rcond=None)[0]
    return float(1 - np.max(np.var(truth - fitted, axis=0) / np.var(truth, axis=0)))


@pytest.mark.parametrize(
    ("eigenvalues", "n", "count"),
    [
        ([9, 1, 1, 1], 600, 1),
        ([90, 12, 9, 1.2, 1.1, 1], 600, 3),  # the last gap, not the widest
        ([90, 12, 9, 1.2, 1.1, 1], 50, 1),  # rows for two factors only
        ([1.49, 1, 1], 600, 0),
        ([1.3**-i for i in range(16)], 600, 0),
        ([2.0**-i for i in range(16)], 600, factors.MOST_FACTORS),
    ],
)
def test_the_last_gap_tells_how_many(eigenvalues: list[float], n: int, count: int) -> None:
    assert number_of_factors(np.array(eigenvalues), n) == count


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("tail", [0.0, 1.5])
def test_scores_are_those_of_the_factors(count: int, tail: float) -> None:
    rng = np.random.default_rng(count)
    values, truth = factor_noise(rng, 400, 150, count)
    if tail:
        values += 0.3 * rng.standard_t(tail, values.shape)
    common = found(values * np.exp(rng.standard_normal(150)))
    assert common.scores.shape == (400, count)
    assert common.n_columns == 150
    assert explained(truth, common.scores) > 0.95
    np.testing.assert_allclose(np.median(np.abs(common.scores), axis=0) * 1.4826, 1.0)


def test_many_rows_have_scores_by_directions_of_some() -> None:
    values, truth = factor_noise(np.random.default_rng(0), 3 * factors.ROWS + 1, 24, 1)
    common = found(values)
    assert common.scores.shape == (3 * factors.ROWS + 1, 1)
    assert explained(truth, common.scores) > 0.9


def test_scores_withstand_a_few_entries_of_a_row() -> None:
    values, _ = factor_noise(np.random.default_rng(1), 600, 180, 1)
    bad = values.copy()
    bad[:120, :20] += 10  # to one side in a fifth of the rows
    before, after = found(values).scores[:, 0], found(bad).scores[:, 0]
    after *= np.sign(before @ after)
    assert abs(np.mean((after - before)[:120])) < 0.15


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_scores_of_rows_with_gaps(share: float) -> None:
    rng = np.random.default_rng(2)
    values, truth = factor_noise(rng, 500, 120, 2)
    values[rng.random(values.shape) < share] = np.nan
    values[7] = np.nan
    values[:, 3] = np.nan
    common = found(values)
    assert common.n_columns == 119
    assert explained(truth, common.scores) > 0.95
    np.testing.assert_array_equal(common.scores[7], [0, 0])


def scaled_rows(scale: Callable[[Rng, int], FloatArray]) -> Callable[[Rng, int, int], FloatArray]:
    return lambda rng, n, d: rng.standard_normal((n, d)) * scale(rng, n)[:, np.newaxis]


NO_FACTOR: dict[str, Callable[[Rng, int, int], FloatArray]] = {
    "Gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "t 1.5": lambda rng, n, d: rng.standard_t(1.5, (n, d)),
    "Cauchy": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "elliptical t 2": scaled_rows(lambda rng, n: 1 / np.sqrt(rng.chisquare(2, n))),
    "elliptical Cauchy": scaled_rows(lambda rng, n: 1 / np.sqrt(rng.chisquare(1, n))),
    "row scales": scaled_rows(lambda rng, n: np.exp(2 * rng.standard_normal(n))),
    "a few huge rows": scaled_rows(lambda rng, n: np.where(rng.random(n) < 0.05, 1e6, 1.0)),
    "zeros": lambda rng, n, d: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6),
    "mostly zeros": lambda rng, n, d: rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2),
    "counts": lambda rng, n, d: rng.poisson(1.0, (n, d)) - 1.0,
    "means that are not zero": lambda rng, n, d: rng.exponential(size=(n, d)),
    "gaps": lambda rng, n, d: np.where(rng.random((n, d)) < rng.random((n, 1)), np.nan, rng.standard_normal((n, d))),
    "columns of two values": lambda rng, n, d: np.where(
        np.arange(d) < d - 5, rng.choice([-1.0, 1.0], (n, d)), rng.standard_normal((n, d))
    ),
    "constant columns": lambda rng, n, d: np.where(np.arange(d) < d - 5, 1.0, rng.standard_normal((n, d))),
}


@pytest.mark.parametrize("noise", NO_FACTOR.values(), ids=NO_FACTOR)
@pytest.mark.parametrize("shape", [(50, 20), (50, 300), (200, 60), (600, 20), (600, 180)], ids=str)
def test_independent_columns_have_none(noise: Callable[[Rng, int, int], FloatArray], shape: tuple[int, int]) -> None:
    for seed in range(5):
        assert found(noise(np.random.default_rng(seed), *shape)).scores.shape == (shape[0], 0)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("where", ["one side", "both sides", "anywhere"])
def test_bad_rows_make_none(share: float, where: str) -> None:
    rng = np.random.default_rng(4)
    values, bad = rng.standard_normal((500, 100)), int(share * 500)
    place = {"one side": np.ones(bad), "both sides": rng.choice([-1, 1], bad), "anywhere": rng.standard_cauchy(bad)}
    values[:bad] += 2 * np.outer(place[where], rng.standard_normal(100))
    assert found(values, share).scores.size == 0


def test_a_score_that_is_not_about_zero_is_no_use() -> None:
    rng = np.random.default_rng(5)
    loadings = rng.standard_normal(100)
    values = np.outer(rng.standard_normal(600), loadings) + rng.standard_normal((600, 100))
    assert found(values, 0.0).scores.shape[1] == 1
    shifted = values + 0.5 * loadings
    assert found(shifted, 0.0).scores.shape[1] == 0
    # Three rows in ten may put a median there.
    assert found(shifted, 0.3).scores.shape[1] == 1


@pytest.mark.parametrize("shape", [(factors.LEAST_ROWS - 1, 100), (200, factors.LEAST_COLUMNS - 1), (200, 0)], ids=str)
def test_too_little_to_tell(shape: tuple[int, int]) -> None:
    assert found(factor_noise(np.random.default_rng(0), *shape, 1)[0]).scores.shape == (shape[0], 0)


# Slopes.


def test_slopes_of_an_exact_line() -> None:
    scores = np.random.default_rng(0).standard_normal((80, 2))
    np.testing.assert_allclose(robust_slopes(5 + scores @ [2.0, -1.0], scores), [2, -1], atol=1e-9)


def test_slopes_have_nearly_the_error_of_least_squares() -> None:
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal((300, 2))
        x = scores @ [0.8, -0.3] + rng.standard_normal(300)
        least = np.linalg.lstsq(np.column_stack((np.ones(300), scores)), x, rcond=None)[0][1:]
        errors.append([robust_slopes(x, scores) - [0.8, -0.3], least - [0.8, -0.3]])
    robust, squares = np.mean(np.square(errors), axis=(0, 2))
    assert robust <= 1.25 * squares


@pytest.mark.parametrize("far", [2.0, 3.0, 1e3, 1e300])
def test_a_fifth_of_the_rows_cannot_turn_a_slope(far: float) -> None:
    rng = np.random.default_rng(6)
    scores = rng.standard_normal((500, 1))
    x = 0.8 * scores[:, 0] + 0.4 * rng.standard_normal(500)
    scores[:100], x[:100] = min(far, 30.0), -far
    assert abs(robust_slopes(x, scores)[0] - 0.8) < 0.1


def test_taking_out_leaves_what_is_not_explained() -> None:
    rng = np.random.default_rng(7)
    scores = rng.standard_normal((400, 1))
    noise = rng.standard_normal((400, 3))
    X = noise + 3 + scores * [2.0, 0.0, 1.0]
    X[5, 0] = np.nan
    before = X.copy()
    adjusted, count = take_out(X, Factors(scores, 50))
    np.testing.assert_array_equal(X, before)
    assert count == 2
    assert np.flatnonzero(np.isnan(adjusted)).tolist() == [15]
    np.testing.assert_array_equal(adjusted[:, 1], X[:, 1])
    assert np.nanmax(np.abs(adjusted - 3 - noise)) < 0.5
    same, none = take_out(X[:, 1:2], Factors(scores, 50))
    assert none == 0
    np.testing.assert_array_equal(same, X[:, 1:2])
    few, none = take_out(np.where(np.arange(400)[:, np.newaxis] < 20, X, np.nan), Factors(scores, 50))
    assert none == 0
    assert few.shape == X.shape


# In a fit.


def sample(seed: int = 0, n: int = 500, d: int = 120, count: int = 3) -> tuple[FloatArray, FloatArray]:
    mean = np.zeros(d)
    mean[:6] = [4, -4, 5, -5, 6, 3]
    return factor_noise(np.random.default_rng(seed), n, d, count)[0] + mean, mean


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening.factors, "common_factors", lambda values, **_: Factors(values[:][:, :0], 0))


def test_values_have_the_error_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = []
    for seed in range(12):
        X, mean = sample(seed)
        result = sparse_mean(X, contamination=0.05)
        assert result.status.refinement.startswith("after taking out 3 common factors of 114 other features: ")
        low, high = result.intervals[result.support].T
        assert np.all((low <= result.mean[result.support]) & (result.mean[result.support] <= high))
        with monkeypatch.context() as patch:
            without(patch)
            errors.append([result.mean - mean, sparse_mean(X, contamination=0.05).mean - mean])
    adjusted, raw = np.mean(np.square(errors), axis=(0, 2))
    assert adjusted < 0.55 * raw  # 1 − SHARE is .4, and scores and slopes have errors


@pytest.mark.parametrize("options", [{"refine": "median"}, {"screen_rows": False}, {"refine_on": "buckets"}], ids=str)
def test_only_the_default_takes_factors_out(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = sample()
    result = sparse_mean(X, contamination=0.05, **options)
    assert "common" not in result.status.refinement
    without(monkeypatch)
    np.testing.assert_array_equal(result.mean, sparse_mean(X, contamination=0.05, **options).mean)


def test_noise_without_factors_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_t(3, (400, 100)) + np.r_[4.0, -4, 5, np.zeros(97)]
    result = sparse_mean(X, contamination=0.1)
    without(monkeypatch)
    again = sparse_mean(X, contamination=0.1)
    np.testing.assert_array_equal(result.mean, again.mean)
    assert result.status.refinement == again.status.refinement


def test_units_do_not_matter() -> None:
    X, _ = sample()
    units = 2.0 ** np.random.default_rng(1).integers(-30, 30, X.shape[1])
    np.testing.assert_array_equal(sparse_mean(X * units).mean, sparse_mean(X).mean * units)


def test_gaps_null_values_and_subjects() -> None:
    X, mean = sample(count=1)
    null = np.linspace(-3, 3, X.shape[1])
    moved = sparse_mean(X + null, null=null, contamination=0.05)
    plain = sparse_mean(X, contamination=0.05)
    np.testing.assert_allclose(moved.mean - null, plain.mean, atol=1e-9)
    assert "1 common factor of 114 other" in moved.status.refinement

    X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    gaps = sparse_mean(X, contamination=0.05, missing="omit")
    assert gaps.status.refinement.startswith("after taking out 1 common factor")
    assert "were missing and left out of each centre" in gaps.status.refinement
    assert np.abs(gaps.mean - mean).max() < 0.15

    twice = sparse_mean(np.repeat(np.nan_to_num(X), 2, axis=0), groups=np.repeat(np.arange(500), 2))
    assert "common factor" in twice.status.refinement


def test_features_that_only_show_without_bad_rows_are_adjusted_too() -> None:
    X, _ = sample(3, count=1)
    X[:, 10] += 0.45
    X[:100] = -40.0
    result = sparse_mean(X, contamination=0.2)
    assert result.uncertified is not None
    assert 10 in result.uncertified.features
    at = int(np.flatnonzero(result.uncertified.features == 10)[0])
    assert abs(result.uncertified.estimate[at] - 0.45) < 0.12
