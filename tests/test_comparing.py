"""Two groups: against scipy, against all differences, under label errors, and on the shipped data."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
from arranged import arrangements
from compared import fit
from scipy import stats

from sparsemean import SparseMeanDifference, datasets, load
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare
from sparsemean.errors import InputError

from agreeing import same_tables
from conftest import Claims

RNG = np.random.default_rng(0)
LABELS = np.array(["a"] * 20 + ["b"] * 35)
X = RNG.standard_normal((55, 30))
X[LABELS == "b", :3] += 2.5


def test_p_values_are_those_of_scipy_without_bad_rows() -> None:
    data = RNG.standard_normal((55, 30))
    found = compare(as_table(data), LABELS, contamination=0.0)
    assert found.classes.tolist() == ["a", "b"]
    result = found.results["b"]
    for feature in range(30):
        a, b = data[LABELS == "a", feature], data[LABELS == "b", feature]
        expected = stats.mannwhitneyu(b, a, method="exact", alternative="two-sided")
        assert expected.pvalue * (1 - 1e-12) <= result.p_values[feature] <= expected.pvalue * (1 + 2e-6)
        assert result.beta[feature] == pytest.approx(2 * expected.statistic / (20 * 35) - 1)


def test_shift_is_the_median_of_all_differences() -> None:
    est = SparseMeanDifference(contamination=0.02).fit(X, LABELS)
    np.testing.assert_array_equal(est.support_, [0, 1, 2])
    for feature in est.support_:
        differences = np.subtract.outer(X[LABELS == "b", feature], X[LABELS == "a", feature]).ravel()
        assert est.mean_[feature] == pytest.approx(np.median(differences), rel=1e-12)
        low, high = est.result_.intervals[feature]
        assert low < 2.5 < high


def test_groups_swap_with_their_names() -> None:
    one = SparseMeanDifference(0.02).fit(X, LABELS)
    other = SparseMeanDifference(0.02).fit(X, np.where(LABELS == "a", 1, 0))
    np.testing.assert_allclose(other.mean_, -one.mean_)
    np.testing.assert_array_equal(other.result_.radius, one.result_.radius)


def test_constants_are_equal_in_both_groups() -> None:
    result = fit(np.ones((30, 2)), np.arange(30) % 2, contamination=0.0)
    np.testing.assert_array_equal(result.p_values, 1.0)


@pytest.mark.parametrize("missing", ["raise", "omit"])
def test_zeros_and_ties_do_not_silence_a_feature(missing: str) -> None:
    """Shares, counts and ratings: found where they differ, within a factor of 1000 of what scipy approximates."""
    rng = np.random.default_rng(0)
    n, y = 4000, np.repeat([0, 1], 2000)
    X = np.zeros((n, 8))
    X[:, 0] = rng.random(n) < np.where(y, 0.15, 0.10)
    X[:, 1] = rng.poisson(np.where(y, 1.2, 1.0))
    X[:, 2] = (rng.random(n) < np.where(y, 0.16, 0.10)) * rng.lognormal(3, 1, n)
    X[:, 3] = rng.integers(1, 6, n) - np.where(y & (rng.random(n) < 0.3), 1, 0)
    X[:, 4] = rng.random(n) < 0.1
    X[:, 5] = rng.poisson(1.0, n)
    X[:, 6] = -X[:, 0]
    X[:, 7] = np.round(rng.standard_normal(n), 1)
    result = fit(X, y, contamination=0.0, missing=missing)
    np.testing.assert_array_equal(result.support, [0, 1, 2, 3, 6])
    for feature in range(8):
        plain = stats.mannwhitneyu(X[y == 1, feature], X[y == 0, feature]).pvalue
        assert plain / 1.3 <= result.p_values[feature] <= min(1.0, 1e3 * plain)
    assert result.p_values[0] == pytest.approx(result.p_values[6], rel=1e-9)
    assert (np.sign(result.beta[[0, 6]]) == (1, -1)).all()


def p_of(data: np.ndarray, labels: np.ndarray, bad: tuple[int, int], **options: Any) -> np.ndarray:
    """The p-values of all columns that allow for so many bad rows in the group labelled 0 and in the other one."""
    shares = tuple(m / size for m, size in zip(bad, np.bincount(labels), strict=True))
    return fit(data, labels, contamination=shares, level=0.99, **options).p_values


def wins(data: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """U₊ of every column, pair by pair: how often a row of the second group lies above one of the first."""
    return np.sum(data[labels == 1][:, np.newaxis] > data[labels == 0][np.newaxis], axis=(0, 1))


@pytest.mark.parametrize("bad", [(0, 1), (1, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize(("n0", "n1"), [(15, 30), (26, 22)])
def test_slack_is_that_of_bad_rows_in_each_group(n0: int, n1: int, bad: tuple[int, int]) -> None:
    """U may have been moved by n₀n₁ − (n₀ − m₀)(n₁ − m₁), attained by rows sent to the far end; the null is counted."""
    labels = np.repeat([0, 1], [n0, n1])
    data = np.random.default_rng(n0).permuted(np.tile(np.arange(n0 + n1) - (n0 + n1) / 2 + 0.25, (40, 1)), axis=1).T
    data += np.outer(labels - n1 / (n0 + n1), np.linspace(0, 31.3, 40))  # no ties
    above = wins(data, labels)
    moved = n0 * n1 - (n0 - bad[0]) * (n1 - bad[1])
    far = data.copy()
    far[: bad[0]], far[n0 : n0 + bad[1]] = 1e3, -1e3
    assert (above - wins(far, labels)).max() == moved
    both = np.minimum((data > 0).sum(axis=0), (data < 0).sum(axis=0)) - sum(bad) >= (n0 + n1) / 4
    left = np.maximum(above, n0 * n1 - above) - moved
    ways = np.array(arrangements(n0, n1), dtype=float) / comb(n0 + n1, n0)
    tail = np.array([ways[u:].sum() for u in np.maximum(left, 0)])
    expected = np.where(2 * left <= n0 * n1, 1.0, np.minimum(1.0, 2 * tail))
    found = p_of(data, labels, bad)
    assert both.sum() > 10
    np.testing.assert_allclose(found[both], expected[both], rtol=2e-6)
    assert (found[~both] >= expected[~both] * (1 - 1e-9)).all() or not (~both).any()


def test_marginal_interval_covers(claims: Claims, long_version: bool) -> None:
    """Coverage of 95 % intervals for features named in advance, with m label errors; 4 standard errors allowed."""
    runs, hits = (200 if long_version else 25), 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1], [30, 40])
        data = rng.standard_t(2, (70, 20)) + 1.0 * labels[:, np.newaxis]
        wrong = rng.choice(70, 2, replace=False)
        labels[wrong] = 1 - labels[wrong]
        result = fit(data, labels, contamination=(2 / 30, 2 / 40))  # a wrong label costs a row in each group
        low, high = result.interval(range(20)).T
        hits += int(np.sum((low <= 1) & (high >= 1)))
    share = hits / (20 * runs)
    claims.add("two groups, interval covers the shift, 2 wrong labels", f"{share:.3f}", "≥ 0.95", f"0–{runs - 1}")
    assert share >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / (20 * runs))


@pytest.mark.parametrize("epsilon", [0.0, 0.03])
def test_family_wise_error_under_label_attack(epsilon: float, claims: Claims, long_version: bool) -> None:
    """Labels are swapped so as to favour the feature nearest to selection; at most 34 of 400 (9 of 60) false alarms."""
    runs, most = (400, 34) if long_version else (60, 9)
    alarms = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1], [40, 60])
        data = rng.standard_t(1.5, (100, 150))
        m = int(np.ceil(40 * epsilon - 1e-9))
        if m:
            delta = fit(data, labels, contamination=0.0).beta
            worst = int(np.abs(delta).argmax())
            score = data[:, worst] * np.sign(delta[worst])
            labels[np.argsort(score)[:m]] = 0
        alarms += fit(data, labels, contamination=epsilon).support.size > 0
    name = f"two groups, family-wise error, ε = {epsilon:g}, labels swapped"
    claims.add(name, f"{alarms} of {runs}", f"≤ {most}", f"0–{runs - 1}")
    assert alarms <= most


def test_shipped_data(claims: Claims) -> None:
    data = datasets.load_all_sex()
    est = SparseMeanDifference(contamination=0.05).fit(data.X, data.y)
    found = set(data.features[est.support_])
    must = {"37583_at", "38355_at", "41214_at", "34477_at", "35885_at", "38446_at"}
    assert must <= found <= must | {"38182_at", "40097_at", "36321_at", "31534_at"}
    known = {"04016", "22010", "26003", "28024", "36002", "19008"}
    first_six = set(data.samples[np.argsort(-est.row_scores_)[:6]])
    assert len(first_six & known) >= 4
    suspects = set(data.samples[est.suspects_])
    assert len(suspects) >= 4
    assert suspects <= known
    claims.add("shipped data at ε = 0.05", f"{len(found)} probes, all 6 sex-linked", "the 6, at most 4 more", "none")


def test_right_labels_make_no_suspects() -> None:
    """Overlapping groups: a third of the rows lie nearer to the other one on a feature that shifts little."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 20)), np.repeat([0, 1], 1000)
    X[1000:, :2] += 0.8
    est = SparseMeanDifference(contamination=0.05).fit(X, y)
    assert est.support_.tolist() == [0, 1]
    assert np.sum(est.row_scores_ > 0) > 200
    assert est.suspects_.size == 0
    assert "look like the other group" not in est.result_.summary()


def test_an_estimate_keeps_a_handle_and_no_columns() -> None:
    table = as_table(X)
    (estimate,) = compare(table, LABELS, contamination=0.02).results.values()
    assert estimate.support.size
    assert estimate.source is table


def test_pickled_file_and_no_trajectory(tmp_path) -> None:  # noqa: ANN001
    est = SparseMeanDifference(0.02).fit(pd.DataFrame(X, columns=[f"g{i}" for i in range(30)]), LABELS)
    est.result_.save(tmp_path / "x.npz")
    copy = load(tmp_path / "x.npz")
    same_tables(copy, est.result_)
    np.testing.assert_array_equal(copy.rows.suspects, est.suspects_)
    with pytest.raises(InputError, match="result must be of one sample to have paths: got one of groups"):
        est.result_.trajectory(["g0", "g10"], n_iter=400)


BAD = [
    (LABELS[:-1], "y must have one label for each of the 55 rows of X: got 54 labels"),
    (["a"] * 55, "y must have two classes or more: got one class (a)"),
    (
        np.arange(55),
        "y must be labels, each shared by several rows: got 55 different values in 55 rows (0, 1, 2, 3, …)",
    ),
    ([None, *["a"] * 27, *["b"] * 27], "y must have no missing labels: got a missing one at row 0"),
    ([np.nan, *[1.0] * 27, *[0.0] * 27], "y must have no missing labels: got a missing one at row 0"),
    (["a"] + ["b"] * 54, "y must have two rows or more of each class: got one row of class 'a'"),
]


@pytest.mark.parametrize(("y", "line"), BAD, ids=[line[:40] for _, line in BAD])
def test_bad_labels_get_one_line(y: object, line: str) -> None:
    with pytest.raises(InputError) as caught:
        SparseMeanDifference(level=0.001).fit(X, y)
    assert str(caught.value).startswith(line)


UNITS = np.arange(55)
BAD_OPTIONS = [
    ({"reference": "c"}, {}, "reference must be one of the labels ('a', 'b'), 'rest', 'each' or 'pairs': got 'c'"),
    ({"alternative": "more"}, {}, "alternative must be"),
    ({"min_effect": -1.0}, {}, "min_effect must be a number of at least 0"),
    ({"min_effect": np.inf}, {}, "min_effect must be a number of at least 0"),
    ({"contamination": (0.1, 0.6)}, {}, "contamination must be"),
    ({"selection": "paper"}, {}, "selection must be"),
    ({}, {"groups": UNITS // 2 % 15}, "groups must have all rows of a subject in one class: got rows of subjects"),
    (
        {},
        {"strata": LABELS},
        "strata must have rows of two classes or more in each stratum: got rows of one class only",
    ),
    ({}, {"pairs": UNITS}, "pairs must have two rows a pair, one of each class: got 1 row of pair 0"),
    ({}, {"pairs": UNITS % 20}, "pairs must have two rows a pair, one of each class: got 3 rows of pair 0"),
    ({}, {"pairs": UNITS, "strata": UNITS % 2}, "strata must be left out with pairs"),
    ({"target": "mean", "contamination": 0.1}, {}, "scale must be given with target='mean' and contamination above 0"),
    ({"scale": 1.0}, {}, "scale must come with target='mean'"),
    ({"target": "median"}, {}, "target must be one of 'centre', 'mean'"),
    (
        {"target": "mean", "contamination": 0.0},
        {},
        "X must have at least",
    ),
    ({"target": "mean", "scale": -1.0}, {}, "scale must be a positive number"),
    ({"target": "mean", "scale": 1.0}, {"strata": UNITS % 2}, "strata must be left out with target='mean'"),
]


@pytest.mark.parametrize(("params", "given", "line"), BAD_OPTIONS, ids=[line[:40] for *_, line in BAD_OPTIONS])
def test_what_cannot_be_asked_gets_one_line(params: dict[str, Any], given: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        SparseMeanDifference(**params).fit(X, LABELS, **given)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_nothing_can_be_certified_is_said() -> None:
    result = fit(X[10:40], LABELS[10:40], contamination=0.4)
    assert result.summary().startswith("20 against 10 samples, 8 and 4 of them assumed bad, cannot show a difference")
    few = fit(X[17:24], LABELS[17:24], contamination=0.0, level=0.2)
    assert "samples cannot show a difference in any of" in few.summary().splitlines()[0]


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("sizes", [(12, 300), (40, 900)])
@pytest.mark.parametrize("strata", [False, True])
def test_radius_of_groups_of_unlike_size_is_no_more_than_an_attack_needs(
    label: int, sizes: tuple[int, int], strata: bool
) -> None:
    """One row of the smaller group is in as many pairs as the larger one has rows: few of them undo a selection."""
    rng = np.random.default_rng(label)
    labels = np.repeat([label, 1 - label], sizes)
    X = rng.standard_normal((labels.size, 2))
    X[: sizes[0], 0] += 2.0
    within = np.arange(labels.size) % 2 if strata else None
    radius = int(fit(X, labels, contamination=0.0, strata=within).radius[0])
    assert radius > 1
    for replaced in range(1, radius + 6):
        X[replaced - 1, 0] = -50.0  # rows of the smaller group
        if not fit(X, labels, contamination=0.0, strata=within).support.size:
            break
    assert radius <= replaced < radius + 5
