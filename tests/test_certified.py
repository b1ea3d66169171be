"""The default fit: invariances, null values, subjects, skewness, and what it says when nothing can be certified."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, load, simulate, sparse_mean
from sparsemean._fit.power import CANNOT
from sparsemean._stats.planning import PRESET

from agreeing import same_tables

DATA = simulate.make_contaminated(600, 60, [3, -2, 1], distribution="t", shape=3.0, random_state=0).X


def test_scaling_columns_scales_only_estimates_and_intervals() -> None:
    factor = 2.0 ** np.random.default_rng(0).integers(-20, 21, 60)
    plain, scaled = (sparse_mean(X, contamination=0.1, random_state=1) for X in (DATA, DATA * factor))
    np.testing.assert_array_equal(scaled.mean, plain.mean * factor)
    np.testing.assert_array_equal(scaled.intervals, plain.intervals * factor[:, np.newaxis])
    pd.testing.assert_frame_equal(
        scaled.table(all=True).drop(columns=["estimate", "ci_low", "ci_high"]),
        plain.table(all=True).drop(columns=["estimate", "ci_low", "ci_high"]),
    )
    features = plain.support[:3]
    np.testing.assert_allclose(scaled.trajectory(features), plain.trajectory(features) * factor[features], rtol=1e-12)


def test_permuting_columns_permutes_the_answer() -> None:
    order = np.random.default_rng(0).permutation(60)
    plain, other = (sparse_mean(X, contamination=0.1, random_state=1) for X in (DATA, DATA[:, order]))
    for name in ("mean", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "entry_time"):
        np.testing.assert_array_equal(getattr(other, name), getattr(plain, name)[order])


def test_estimate_is_the_median_of_the_bucket_means() -> None:
    result = sparse_mean(DATA, contamination=0.1, random_state=1, refine=None, screen_rows=False)
    for feature in result.support:
        step = int(result.bucket_size[feature]) // 1
        groups = pd.Series(DATA[:, feature]).groupby(result.bucket_of_row // step).mean()
        assert result.mean[feature] == pytest.approx(groups.median(), rel=1e-12)
        low, high = result.intervals[feature]
        assert low <= result.mean[feature] <= high


def test_null_values_shift_the_question() -> None:
    shift = np.linspace(-3, 3, 60)
    plain = sparse_mean(DATA, contamination=0.1, random_state=1)
    moved = sparse_mean(DATA + shift, contamination=0.1, random_state=1, null=shift)
    np.testing.assert_array_equal(moved.support, plain.support)
    np.testing.assert_allclose(moved.p_values, plain.p_values, rtol=1e-9)
    np.testing.assert_allclose(moved.mean, plain.mean + shift, atol=1e-12)
    np.testing.assert_allclose(moved.interval([0, 1]), plain.interval([0, 1]) + shift[:2, np.newaxis], atol=1e-12)
    constant = sparse_mean(DATA, random_state=1, null=3.0)
    assert 0 not in constant.support
    assert 30 in constant.support


def test_rows_of_one_subject_share_a_bucket_and_count_once() -> None:
    rng = np.random.default_rng(3)
    subject = rng.permutation(np.repeat(np.arange(150), 4))
    X = rng.standard_normal((150, 20))[subject] + 0.3 * rng.standard_normal((600, 20))
    X[:, 0] += 1.0
    result = sparse_mean(X, contamination=0.02, random_state=2, groups=subject)
    for name in range(150):
        assert np.unique(result.bucket_of_row[subject == name]).size == 1
    assert result.plan.bad_rows == 3
    assert 0 in result.support
    # as single rows the subjects' own means would look like effects
    false = [np.sum(sparse_mean(X[:, 1:], random_state=s, contamination=0.0, groups=g).support.size)
             for s in range(5) for g in (subject,)]  # fmt: skip
    assert sum(false) == 0
    assert sparse_mean(X[:, 1:], random_state=0, contamination=0.0).support.size > 0
    by_name = sparse_mean(X, contamination=0.02, random_state=2, groups=[f"s{g:03}" for g in subject])
    np.testing.assert_array_equal(np.sort(by_name.support), np.sort(result.support))


def test_columns_that_hold_one_value_only_are_named_and_left_out() -> None:
    X = np.column_stack((DATA, np.full(600, 2.5), np.zeros(600)))
    result = sparse_mean(X, contamination=0.05, random_state=0, feature_names=[f"f{i}" for i in range(62)])
    assert result.p_values[61] == 1.0
    np.testing.assert_array_equal(result.support, sparse_mean(DATA, contamination=0.05, random_state=0).support)
    assert (result.mean[60], result.decision.skipped.tolist()) == (0.0, [60])
    assert result.p_adjusted[60] < 1e-9
    assert np.isnan(result.intervals[60]).all()
    assert result.uncertified is None or 60 not in result.uncertified.features
    assert "1 column holds one value only and was left out: f60" in result.status.messages
    assert "1 column is the null value in every bucket: f61" in result.status.messages


def test_columns_whose_bucket_means_agree_are_looked_at_row_by_row() -> None:
    subject = np.repeat(np.arange(60), 2)
    X = np.column_stack((np.tile([1.0, 3.0], 60), np.full(120, 2.0)))
    result = sparse_mean(X, contamination=0.05, random_state=0, groups=subject)
    np.testing.assert_array_equal(result.support, [0])
    np.testing.assert_array_equal(result.decision.skipped, [1])


def test_intervals_know_how_many_features_are_left() -> None:
    """Error level·R/d: columns that were left out are no part of R."""
    X = np.column_stack((DATA, np.full((600, 20), 2.5)))
    result = sparse_mean(X, contamination=0.05, random_state=0)
    expected = result.interval(result.support, level=1 - 0.05 * result.support.size / X.shape[1])
    np.testing.assert_array_equal(result.intervals[result.support], expected)


def test_the_paper_keeps_columns_that_hold_one_value_only() -> None:
    X = np.column_stack((DATA, np.full(600, 2.5)))
    result = sparse_mean(X, contamination=0.05, random_state=0, **PRESET)
    assert 60 in result.support
    assert "1 selected column holds one value only: 60" in result.status.messages


def test_counts_with_many_zeros() -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(0.05, (800, 40)) - rng.poisson(0.05, (800, 40))
    X[:, 0] += rng.poisson(0.3, 800)
    result = sparse_mean(X, contamination=0.01, random_state=0)
    np.testing.assert_array_equal(result.support, [0])


def test_skewed_noise_is_noticed() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.lognormal(0, 0.954, (2000, 3)) - np.exp(0.954**2 / 2), rng.standard_normal((2000, 3)) + 1))
    result = sparse_mean(X, contamination=0.005, random_state=0)
    np.testing.assert_array_equal(result.support, np.arange(6))
    assert result.skewed.tolist() == [1, 1, 1, 0, 0, 0]
    said = next(m for m in result.status.messages if "centre, not mean: 3 selected features" in m)
    assert said.endswith(": 0, 1, 2")
    by_mean = sparse_mean(X, contamination=0.005, target="mean", scale=np.repeat((2.0, 1.0), 3))
    np.testing.assert_array_equal(by_mean.support, [3, 4, 5])


@pytest.mark.parametrize(
    ("n", "epsilon", "part"),
    [
        (12, 0.0, "12 samples cannot show an effect in any of 500 features, whatever the data.\nThe smallest"),
        (60, 0.45, "60 samples, 27 of them assumed bad, cannot show an effect in any of 500 features, whatever"),
    ],
)
def test_nothing_can_be_certified_is_said(n: int, epsilon: float, part: str) -> None:
    X = np.random.default_rng(0).standard_normal((n, 500)) + 10
    result = sparse_mean(X, contamination=epsilon, random_state=0)
    assert result.support.size == 0
    assert result.summary().startswith(part)


def test_nothing_selected_says_what_would_be() -> None:
    X = np.random.default_rng(0).standard_normal((100, 20))
    X[:, 0] += 0.8
    result = sparse_mean(X, contamination=0.2, random_state=0)
    assert result.support.size == 0
    assert result.max_contamination[0] > 0
    assert "If no row is wrong: 1." in result.summary().splitlines()
    nothing = sparse_mean(X[:, 1:], contamination=0.0, random_state=0)
    assert f", adjusted p {nothing.p_adjusted.min():.2g})." in nothing.summary().splitlines()[0]


def test_paper_buckets_with_an_error_rate() -> None:
    result = sparse_mean(DATA, contamination=0.05, n_buckets=200, random_state=0)
    assert result.plan.walk.dealing == "paper"
    np.testing.assert_array_equal(result.support, [0, 1, 2])
    assert (result.p_adjusted[:3] < 0.05).all()


@pytest.mark.parametrize(
    "options", [{}, {"selection": "fdr"}, {"target": "mean", "scale": 5.0}, {"null": 0.5}], ids=str
)
def test_save_and_load(options: dict, tmp_path) -> None:  # noqa: ANN001
    result = sparse_mean(DATA, contamination=0.02, random_state=0, **options)
    result.save(tmp_path / "x.npz")
    copy = load(tmp_path / "x.npz")
    same_tables(copy, result)
    assert copy.plan == result.plan
    assert copy.summary() == result.summary()
    np.testing.assert_array_equal(copy.interval([0, 5], X=DATA), result.interval([0, 5]))


def test_marginal_intervals_are_shorter_than_those_after_selection() -> None:
    result = sparse_mean(DATA, contamination=0.05, random_state=0)
    after, before = result.intervals[:3], result.interval([0, 1, 2])
    assert (np.diff(after) > np.diff(before)).all()


def test_fdr_selects_at_least_as_much() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400)) + np.where(np.arange(400) < 100, 0.3, 0)
    sets = [
        set(sparse_mean(X, contamination=0.0, selection=rule, random_state=0).support)
        for rule in ("fwer", "fdr_by", "fdr")
    ]
    assert sets[0] <= sets[1] <= sets[2]
    assert len(sets[0]) < len(sets[2])


def test_shares_of_subjects_are_of_subjects() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 10)) + np.where(np.arange(10) == 0, 5.0, 0.0)
    result = sparse_mean(X, contamination=0.0, random_state=0, groups=np.arange(400) // 10)
    least = int(result.decision.last[0])
    assert result.max_contamination[0] == least / 40
    assert f"({least / 40:.2%} of all)" in result.summary()


@pytest.mark.parametrize("options", [{"selection": "fdr"}, {"selection": "fdr_by"}])
def test_nothing_can_be_certified_is_not_said_beside_a_support(options: dict[str, str]) -> None:
    X = 1 + 0.01 * np.random.default_rng(0).standard_normal((16, 100))
    result = sparse_mean(X, contamination=0.0, random_state=0, **options)
    assert result.support.size == 100
    assert CANNOT not in result.summary()


def test_whole_buckets_at_any_number_of_rows() -> None:
    for n in (20, 64, 100, 130):
        result = sparse_mean(np.random.default_rng(0).standard_normal((n, 3)), random_state=0)
        assert result.counts.n_buckets == tuple(-(-n // size) for size in (1, 2, 4))


def test_entry_times_agree_with_the_trajectories() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_t(3, (300, 40)) + np.where(np.arange(40) < 10, 0.8, 0.0)
    X[rng.random(X.shape) < 0.1] = 0.0
    result = sparse_mean(X, contamination=0.02, random_state=0)
    unit = np.array([np.median(np.abs(_means(result, X, f))) for f in range(40)])
    path = np.abs(result.trajectory(range(40), n_iter=1500)) / unit
    for feature, entry in enumerate(result.entry_time):
        above = np.flatnonzero(path[:, feature] >= 1e-5 * (1 - 1e-12))
        assert entry == above[0] if above.size else entry > 1500


def _means(result: Estimate, X: np.ndarray, feature: int) -> np.ndarray:
    step = int(result.bucket_size[feature])
    return pd.Series(X[:, feature]).groupby(result.bucket_of_row // step).mean().to_numpy()


@pytest.mark.parametrize("gap", [None, np.nan, pd.NaT])
def test_rows_without_a_subject_are_refused(gap: object) -> None:
    labels = np.array(["a", "b"] * 20, dtype=object)
    labels[3] = gap
    with pytest.raises(ValueError, match=r"groups must have no missing labels: got .* at row 3"):
        sparse_mean(DATA[:40], groups=labels)
