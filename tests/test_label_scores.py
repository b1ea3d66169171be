"""Labels judged by ranks: which rows are listed, how often a good one is, and which features speak against it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sparsemean import datasets
from sparsemean._stats import label_scores
from sparsemean._stats.label_scores import judge_labels, label_limit, strongest

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
NOISES = ["normal", "t3", "counts"]


def groups(noise: str, rng: np.random.Generator, *, apart: float, n: int = 100, features: int = 20) -> Floats:
    """Draw n rows of the first and n of the second group; every other feature is lower in the first."""
    first = np.repeat([1, 0], n)[:, np.newaxis]
    up = np.where(np.arange(features) % 2, 1, -1)
    if noise == "counts":
        return np.asarray(rng.poisson(0.2 * np.exp(apart * (first == (up > 0)))), dtype=float)
    size = 2 * n, features
    noises = rng.standard_normal(size) if noise == "normal" else rng.standard_t(3, size)
    return np.asarray(noises + apart * first * up)


def sides(n: int = 100) -> Ints:
    return np.repeat(np.array([1, 0], dtype=np.intp), n)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("wrong", [2, 10, 20])
def test_exactly_the_wrong_labels_are_listed_where_groups_are_far_apart(noise: str, wrong: int) -> None:
    exact = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values, side = groups(noise, rng, apart=3.0, features=30), sides()
        bad = rng.choice(200, wrong, replace=False)
        side[bad] ^= 1
        exact += set(judge_labels(values, side).suspects) == set(bad)
    assert exact >= 8


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("apart", [1.0, 1.5, 2.0])
def test_good_rows_are_listed_no_more_often_than_stated(noise: str, apart: float) -> None:
    """0.05 good rows a list: 3 in 60 lists, and more than 9 once in 900 times."""
    listed = sum(
        judge_labels(groups(noise, np.random.default_rng((1, seed)), apart=apart), sides()).suspects.size
        for seed in range(60)
    )
    assert listed <= 9


@pytest.mark.parametrize("noise", NOISES)
def test_good_rows_among_wrong_labels(noise: str) -> None:
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng((2, seed))
        values, side = groups(noise, rng, apart=1.5), sides()
        bad = rng.choice(200, 10, replace=False)
        side[bad] ^= 1
        alarms += len(set(judge_labels(values, side).suspects) - set(bad))
    assert alarms <= 6  # 1.5 are expected; more than 6 once in 1000 times


@pytest.mark.parametrize("noise", NOISES)
def test_groups_that_overlap_make_no_list_though_labels_are_wrong(noise: str) -> None:
    listed = 0
    for seed in range(15):
        side = sides()
        side[:5], side[100:105] = 0, 1
        listed += judge_labels(groups(noise, np.random.default_rng((3, seed)), apart=0.5), side).suspects.size
    assert listed == 0


def test_features_that_tell_the_same_are_one_vote() -> None:
    """Three deviations apart: of 1000 rows one or two lie in the middle of the other group, on all 50 features."""
    inside = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        place = rng.standard_normal(2000) + 3.0 * sides(1000)
        inside += int(np.sum(place[:1000] < 0))
        values = place[:, np.newaxis] + 0.1 * rng.standard_normal((2000, 50))
        assert judge_labels(values, sides(1000)).suspects.size == 0
    assert inside > 2


def test_a_row_that_is_strange_on_all_features_is_not_at_home_in_the_other_group() -> None:
    """Noise of a few rows is ten times as large: half of their values lie beyond the other group, half far off it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = groups("normal", rng, apart=3.0)
        values[::20] += 10.0 * rng.standard_normal((10, 20))
        assert judge_labels(values, sides()).suspects.size == 0


def test_ranks_alone_are_looked_at() -> None:
    values, side = groups("normal", np.random.default_rng(0), apart=2.0), sides()
    side[[4, 150]] ^= 1
    plain = judge_labels(values, side)
    np.testing.assert_array_equal(np.sort(plain.suspects), [4, 150])
    for other in (judge_labels(np.sinh(3 * values), side), judge_labels(-values, side), judge_labels(values, 1 - side)):
        np.testing.assert_allclose(other.scores, plain.scores, atol=1e-12)
        np.testing.assert_array_equal(other.suspects, plain.suspects)
        assert all(map(np.array_equal, other.against, plain.against))


def test_scores_run_from_the_own_group_to_the_other() -> None:
    values, side = groups("normal", np.random.default_rng(0), apart=3.0), sides()
    scores = judge_labels(values, side).scores
    np.testing.assert_allclose([np.median(scores[:100]), np.median(scores[100:])], -1)
    side[:3] = 0
    rows = judge_labels(values, side)
    assert rows.scores[:3].min() > 0.5 > 0 > rows.scores[3:].max()
    assert (np.diff(rows.scores[rows.suspects]) <= 0).all()


def test_shares_against_counting_pairs() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(40) < 0.1, np.nan, rng.integers(0, 6, 40).astype(float))
    members = rng.random(40) < 0.5
    shares = label_scores._shares(x, members)
    for i, value in enumerate(x):
        others = np.array([x[j] for j in range(40) if members[j] and j != i and not np.isnan(x[j])])
        count = np.sum(others < value) + 0.5 * np.sum(others == value)
        expected = np.nan if np.isnan(value) else (count + 0.5) / (others.size + 1)
        np.testing.assert_allclose(shares[i], expected)


@pytest.mark.parametrize("n", [10, 30, 200])
def test_the_limit_is_passed_as_often_as_stated(n: int) -> None:
    """In classes of n normal scores; the uncertainty of their spread is in it."""
    rng = np.random.default_rng(0)
    runs, beyond = 2000, 0
    for x in rng.standard_normal((runs, n)):
        middle, spread = label_scores._spread(x, 0.0)
        beyond += int(np.sum((middle - x) / spread > label_limit(n, n)))
    assert 0.5 * label_scores.ALARMS <= beyond / runs <= 1.6 * label_scores.ALARMS


def test_the_features_against_a_row_are_those_where_it_lies_in_the_other_group() -> None:
    values, side = groups("normal", np.random.default_rng(0), apart=4.0), sides()
    side[7] = 0
    values[7, :3] = values[150, :3]  # these speak for the label that it has
    values[7, [15, 16]] = 9.0, -9.0  # and these most against it
    rows = judge_labels(values, side)
    np.testing.assert_array_equal(rows.suspects, [7])
    assert rows.against[0].size == label_scores.SPEAKING
    assert set(rows.against[0][:2]) == {15, 16}
    assert rows.against[0].min() >= 3


def test_rows_of_the_rest_are_judged_within_their_own_label() -> None:
    """A class of the rest lies half way to the first group: it is there as a whole, and its labels are right."""
    suspects, within = [0, 0], [0, 0]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        classes = np.repeat([2, 0, 1], [100, 200, 20])
        values = rng.standard_normal((320, 30)) + np.array([0.0, 2.0, 3.0])[classes, np.newaxis]
        listed = np.array([100, 101])
        classes[listed - 100] = 0  # two rows of the first group carry the label of a class of the rest
        side = (classes == 2).astype(np.intp)
        for given, rows in enumerate((judge_labels(values, side), judge_labels(values, side, classes=classes))):
            suspects[given] += rows.suspects.size
            within[given] += int(np.isin(rows.suspects, [0, 1]).sum())
    assert suspects[1] == within[1] == 20
    assert suspects[0] > within[0]


def test_places_are_taken_within_a_stratum() -> None:
    rng = np.random.default_rng(0)
    values, side = groups("normal", rng, apart=3.0), sides()
    strata = rng.integers(0, 3, 200)
    strata[:4] = 7  # too few to say anything
    side[[10, 120]] ^= 1
    values += 50.0 * strata[:, np.newaxis] * np.where(np.arange(20) % 2, 1, -1)
    rows = judge_labels(values, side, strata=strata)
    np.testing.assert_array_equal(np.sort(rows.suspects), [10, 120])
    np.testing.assert_array_equal(rows.scores[:4], 0)
    assert judge_labels(values, side).suspects.size == 0


def test_rows_outside_the_test_are_not_looked_at() -> None:
    values, side = groups("normal", np.random.default_rng(0), apart=3.0), sides()
    side[50:60], side[5] = -1, 0
    rows = judge_labels(values, side)
    np.testing.assert_array_equal(rows.suspects, [5])
    np.testing.assert_array_equal(rows.scores[50:60], 0)
    inside = np.flatnonzero(side >= 0)
    np.testing.assert_array_equal(judge_labels(values[inside], side[inside]).scores, rows.scores[inside])


def test_what_is_missing_says_nothing() -> None:
    rng = np.random.default_rng(0)
    values, side = groups("normal", rng, apart=3.0), sides()
    side[[5, 6, 130]] ^= 1
    values[rng.random(values.shape) < 0.2] = np.nan
    values[6, :12] = np.nan  # more than half
    values[:, 3] = np.nan
    rows = judge_labels(values, side)
    np.testing.assert_array_equal(np.sort(rows.suspects), [5, 130])
    assert rows.scores[6] == 0
    assert np.isfinite(rows.scores).all()
    assert not any(3 in features for features in rows.against)


@pytest.mark.parametrize(
    ("values", "side"),
    [
        (np.empty((20, 0)), sides(10)),
        (np.zeros((20, 5)), sides(10)),
        (np.full((20, 5), np.nan), sides(10)),
        (np.random.default_rng(0).standard_normal((20, 5)), np.ones(20, dtype=np.intp)),
        (np.random.default_rng(0).standard_normal((20, 5)), np.full(20, -1, dtype=np.intp)),
        (np.arange(60.0).reshape(12, 5), sides(6)),
    ],
    ids=["no features", "constant", "all missing", "one group", "no rows", "too few rows"],
)
def test_nothing_to_judge_by(values: Floats, side: Ints) -> None:
    rows = judge_labels(values, side)
    assert not rows.scores.any()
    assert rows.suspects.size == 0
    assert rows.against == ()


def test_features_without_spread_within_groups() -> None:
    """Ten flags that part the groups: a row with all ten wrong is suspect, one with three wrong is not."""
    side = sides()
    values = np.repeat(side[:, np.newaxis], 10, axis=1).astype(float)
    values[3] = 0
    values[150, :3] = 1
    np.testing.assert_array_equal(judge_labels(values, side).suspects, [3])
    assert judge_labels(values[:, :1], side).suspects.size == 0


def test_strongest_features() -> None:
    delta = np.linspace(-1, 1, 1001)
    columns = strongest(delta, 100)
    np.testing.assert_array_equal(columns, np.r_[:150, 851:1001])
    assert strongest(delta, 100_000).size == 50
    assert strongest(delta, 10**7).size == 20
    np.testing.assert_array_equal(strongest(np.array([0.1, -0.9]), 10), [0, 1])


def test_many_rows_are_placed_among_some() -> None:
    rng = np.random.default_rng(0)
    values, side = groups("normal", rng, apart=3.0, n=6000), sides(6000)
    bad = rng.choice(12_000, 30, replace=False)
    side[bad] ^= 1
    np.testing.assert_array_equal(np.sort(judge_labels(values, side).suspects), np.sort(bad))


def test_shipped_data() -> None:
    """Six patients whose sex genes contradict what is recorded are known; two of them lie between the groups."""
    data = datasets.load_all_sex()
    side = (data.y == "M").astype(np.intp)
    p = stats.mannwhitneyu(data.X[side == 1], data.X[side == 0], method="asymptotic").pvalue
    features = np.flatnonzero(p * p.size <= 0.05)
    rows = judge_labels(data.X[:, features], side)
    assert data.samples[rows.suspects].tolist() == ["04016", "36002", "22010", "26003"]
    assert {"38446_at", "38355_at"} <= set(data.features[features[rows.against[0]]])  # XIST, DDX3Y


@pytest.mark.parametrize(("donors", "cells"), [(24, 40), (6, 160)])
@pytest.mark.parametrize("apart", [0.5, 1.5])
def test_wrong_labels_are_found_within_small_strata_and_no_others(donors: int, cells: int, apart: float) -> None:
    found = listed = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        donor, kind = np.repeat(np.arange(donors), cells), rng.integers(0, 3, donors * cells)
        levels = 2.0 * (kind[:, np.newaxis] == np.repeat(np.arange(3), 12))
        values = levels + rng.standard_normal(levels.shape) + apart * rng.standard_normal((donors, 36))[donor]
        for wrong in (kind[:0], np.arange(7, kind.size, kind.size // 20)):
            labels = kind.copy()
            labels[wrong] = np.where(kind[wrong] == 0, 1, 0)  # into the group or out of it
            suspects = judge_labels(values, (labels == 0).astype(int), classes=labels, strata=donor).suspects
            assert np.setdiff1d(suspects, wrong).size == 0
            found, listed = found + suspects.size, listed + wrong.size
    assert found >= 0.95 * listed
