"""Two groups: against scipy, against all differences, under label errors, and on the shipped data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sparsemean import SparseMeanDifference, datasets, load
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare
from sparsemean._stats.path import units_of, walk
from sparsemean.errors import InputError

from conftest import Claims

RNG = np.random.default_rng(0)
LABELS = np.array(["a"] * 20 + ["b"] * 35)
X = RNG.standard_normal((55, 30))
X[LABELS == "b", :3] += 2.5


def test_p_values_are_those_of_scipy_without_bad_rows() -> None:
    result, classes = compare(as_table(X), LABELS, contamination=0.0)
    assert classes.tolist() == ["a", "b"]
    for feature in range(30):
        a, b = X[LABELS == "a", feature], X[LABELS == "b", feature]
        expected = stats.mannwhitneyu(b, a, method="exact", alternative="two-sided")
        assert result.p_values[feature] == pytest.approx(expected.pvalue, rel=1e-10)
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


def test_ties_count_against_rejection() -> None:
    result, _ = compare(as_table(np.ones((30, 2))), np.arange(30) % 2, contamination=0.0)
    np.testing.assert_array_equal(result.p_values, 1.0)


def p_of(data: np.ndarray, labels: np.ndarray, m: int, **options: str) -> np.ndarray:
    """The p-values of all columns that allow for ``m`` bad rows."""
    return compare(as_table(data), labels, contamination=m / labels.size, level=0.99, **options)[0].p_values


def wins(data: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """U₊ of every column, pair by pair: how often a row of the second group lies above one of the first."""
    return np.sum(data[labels == 1][:, np.newaxis] > data[labels == 0][np.newaxis], axis=(0, 1))


def one_bad_row(data: np.ndarray, labels: np.ndarray, values: tuple[float, ...]) -> Iterator[tuple[np.ndarray, ...]]:
    """All data that differ in one row: in its value, that of another row or between two, its label, or both."""
    for row in range(labels.size):
        for value in (None, *values):
            changed = data.copy()
            if value is not None:
                changed[row] = value
            for label in (0, 1):
                others = labels.copy()
                others[row] = label
                if 0 < others.sum() < others.size:
                    yield changed, others


SMALL = [(1, 3), (2, 2), (2, 3), (3, 2), (1, 5), (3, 3)]


@pytest.mark.parametrize(("n0", "n1"), SMALL)
def test_a_bad_row_moves_u_by_the_larger_group_at_most_and_p_never_beyond_its_slack(n0: int, n1: int) -> None:
    """By exhaustion: every order of so many rows, any one of them replaced in value, label or both.

    A p-value that allows for one bad row is never below that of the clean data, whichever row it was; and it is no
    larger than that takes: the orders themselves are the null distribution of U.
    """
    n, labels = n0 + n1, np.repeat([0, 1], [n0, n1])
    clean = np.array(list(permutations(range(n)))).T.astype(float)
    above, larger = wins(clean, labels), max(n0, n1)
    left = np.maximum(above, n0 * n1 - above) - larger
    tail = np.array([np.mean(above >= u) for u in left])
    expected = np.where(2 * left <= n0 * n1, 1.0, np.minimum(1.0, 2 * tail))
    np.testing.assert_allclose(p_of(clean, labels, 1), expected, rtol=1e-12)
    p, moved = p_of(clean, labels, 0), 0
    for data, others in one_bad_row(clean, labels, tuple(np.arange(-1, 2 * n) / 2)):
        assert (p_of(data, others, 1) >= p * (1 - 1e-12)).all()
        if (others == labels).all():
            moved = max(moved, int(np.abs(wins(data, labels) - above).max()))
    assert moved == larger


@pytest.mark.parametrize(("n0", "n1"), [(2, 3), (3, 2), (1, 5), (2, 4)])
def test_a_bad_row_that_hides_or_invents_a_value_stays_within_the_slack(n0: int, n1: int) -> None:
    """The same where values are missing: each column has its own group sizes, and a bad row changes them."""
    n, labels = n0 + n1, np.repeat([0, 1], [n0, n1])
    complete = np.array(list(permutations(range(n)))).T.astype(float)
    with_gap = []
    for row in range(n):
        with_gap.append(complete.copy())
        with_gap[-1][row] = np.nan
    clean = np.unique(np.concatenate((complete, *with_gap), axis=1), axis=1)
    p = p_of(clean, labels, 0, missing="omit")
    for data, others in one_bad_row(clean, labels, (np.nan, *np.arange(-1, 2 * n) / 2)):
        assert (p_of(data, others, 1, missing="omit") >= p * (1 - 1e-12)).all()


def test_marginal_interval_covers(claims: Claims, long_version: bool) -> None:
    """Coverage of 95 % intervals for features named in advance, with m label errors; 4 standard errors allowed."""
    runs, hits = (200 if long_version else 25), 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1], [30, 40])
        data = rng.standard_t(2, (70, 20)) + 1.0 * labels[:, np.newaxis]
        wrong = rng.choice(70, 2, replace=False)
        labels[wrong] = 1 - labels[wrong]
        result, _ = compare(as_table(data), labels, contamination=2 / 70)
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
        m = int(np.ceil(100 * epsilon - 1e-9))
        if m:
            delta = compare(as_table(data), labels, contamination=0.0)[0].beta
            worst = int(np.abs(delta).argmax())
            score = data[:, worst] * np.sign(delta[worst])
            labels[np.argsort(score)[:m]] = 0
        alarms += compare(as_table(data), labels, contamination=epsilon)[0].support.size > 0
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
    assert est.suspects_.size == 0
    claims.add("shipped data at ε = 0.05", f"{len(found)} probes, all 6 sex-linked", "the 6, at most 4 more", "none")


@pytest.mark.parametrize("missing", ["raise", "omit"])
def test_features_that_ties_silence_are_named(missing: str) -> None:
    """Mostly zeros: 20 % buyers against 2 % have p = 1, and so would any other shares of that size."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 5)), np.repeat([0, 1], 200)
    X[:, 1] = rng.random(400) < np.where(y, 0.2, 0.02)  # differs, p = 1
    X[:, 2] = rng.random(400) < 0.1  # does not
    X[:, 3] = 7.0
    X[:, 4] = np.round(X[:, 4], 1)  # some ties
    X[0, 0] = np.nan if missing == "omit" else 0.0
    result, _ = compare(as_table(X), y, contamination=0.02, missing=missing)
    assert stats.mannwhitneyu(X[y == 1, 1], X[y == 0, 1]).pvalue < 1e-6
    np.testing.assert_array_equal(result.p_values[1:4], 1.0)
    said = [message for message in result.status.messages if "p = 1 by construction" in message]
    assert len(said) == 1
    assert said[0].startswith("2 feature(s) have p = 1")
    assert said[0].endswith(": 1, 2")
    hopeless, _ = compare(as_table(X), y, contamination=0.4, missing=missing)
    assert not any("by construction" in message for message in hopeless.status.messages)  # bad rows alone explain it


def test_right_labels_make_no_suspects() -> None:
    """Overlapping groups: a third of the rows lie nearer to the other one on a feature that shifts little."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 20)), np.repeat([0, 1], 1000)
    X[1000:, :2] += 0.8
    est = SparseMeanDifference(contamination=0.05).fit(X, y)
    assert est.support_.tolist() == [0, 1]
    assert np.sum(est.row_scores_ > 0) > 200
    assert est.suspects_.size == 0
    assert "none is called suspect" in est.result_.summary()


def test_an_estimate_keeps_a_handle_and_no_columns() -> None:
    table = as_table(X)
    estimate, _ = compare(table, LABELS, contamination=0.02)
    assert estimate.support.size
    assert estimate.source is table


def test_walks_of_large_groups_stay_near_those_of_all_differences() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2400, 3)), np.repeat([0, 1], [1000, 1400])
    X[y == 1, 0] += 2.0
    X[5, 1] = np.nan
    made = SparseMeanDifference(0.01, missing="omit").fit(X, y).result_
    walked = made.trajectory([0], n_iter=600)
    differences = (X[y == 1, 0][:, np.newaxis] - X[y == 0, 0]).reshape(-1, 1)
    unit = units_of(differences)
    exact = unit * walk(differences / unit, alpha=made.plan.alpha, eta=made.plan.eta, times=range(601))
    np.testing.assert_allclose(walked, exact, rtol=0.03, atol=1e-6)
    assert np.isfinite(made.trajectory([1])).all()


def test_pickled_file_and_trajectory(tmp_path) -> None:  # noqa: ANN001
    est = SparseMeanDifference(0.02).fit(pd.DataFrame(X, columns=[f"g{i}" for i in range(30)]), LABELS)
    est.result_.save(tmp_path / "x.npz")
    copy = load(tmp_path / "x.npz")
    pd.testing.assert_frame_equal(copy.table(all=True), est.result_.table(all=True))
    np.testing.assert_array_equal(copy.rows.suspects, est.suspects_)
    path = est.result_.trajectory(["g0", "g10"], n_iter=400)
    assert path.shape == (401, 2)
    assert path[-1, 0] == pytest.approx(est.mean_[0], rel=0.1)
    assert abs(path[-1, 1]) < 0.1


BAD = [
    (LABELS[:-1], "y must have one label for each of the 55 rows of X: got 54 labels"),
    (["a"] * 55, "y must have exactly two classes: got 1 class(es) (a)"),
    (np.arange(55), "y must have exactly two classes: got 55 class(es) (0, 1, 2, 3, …)"),
    ([None, *["a"] * 27, *["b"] * 27], "y must have no missing labels: got a missing one at row 0"),
    ([np.nan, *[1.0] * 27, *[0.0] * 27], "y must have no missing labels: got a missing one at row 0"),
    (
        ["a"] + ["b"] * 54,
        "y must have at least 3 rows in its smaller class for a test at level 0.001: got 1 and 54 rows",
    ),
]


@pytest.mark.parametrize(("y", "line"), BAD, ids=[line[:40] for _, line in BAD])
def test_bad_labels_get_one_line(y: object, line: str) -> None:
    with pytest.raises(InputError) as caught:
        SparseMeanDifference(level=0.001).fit(X, y)
    assert str(caught.value).startswith(line)


def test_nothing_can_be_certified_is_said() -> None:
    result, _ = compare(as_table(X[10:40]), LABELS[10:40], contamination=0.4)
    assert "nothing can be certified: with 12 bad rows among 30" in result.summary()
    few, _ = compare(as_table(X[17:24]), LABELS[17:24], contamination=0.0, level=0.2)
    assert "nothing can be certified: the smallest possible p-value" in few.summary()
