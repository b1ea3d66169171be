"""The adversary who knows the method gets exactly what the theory says it can get, and no more."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sparsemean import sparse_mean
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError
from sparsemean.simulate import attacks

N, D, SEED = 300, 12, 7
MEAN = np.array([3.0, -2.0, 0.7] + [0.0] * (D - 3))
adaptive = attacks.get("adaptive")
fit = partial(sparse_mean, test="buckets", refine=None, screen_rows=False, random_state=SEED)


def clean(seed: int, law: float = 2.0) -> FloatArray:
    return MEAN + np.random.default_rng(seed).standard_t(law, (N, D))


def attacked(X: FloatArray, count: int, **options: Any) -> FloatArray:
    rows, chosen = adaptive(X, MEAN, np.random.default_rng(0), np.arange(count), **{"seed": SEED, **options})
    other = X.copy()
    other[chosen] = rows
    return other


def changed(X: FloatArray, Y: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the rows and the columns in which two arrays differ."""
    rows, columns = np.nonzero(X != Y)
    return np.unique(rows), np.unique(columns)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("distance", [None, 1e9])
def test_hiding_takes_exactly_one_vote_a_row_at_every_size(seed: int, distance: float | None) -> None:
    """The p-value without slack is then what the slack says it can be: the worst over all changes of 20 rows."""
    X = clean(seed)
    Y = attacked(X, 20, distance=distance)
    rows, columns = changed(X, Y)
    assert (rows.size, columns.tolist()) == (20, [2])
    expected = fit(X, contamination=20 / N).p_values[2]
    assert fit(X, contamination=0.0).p_values[2] < expected
    np.testing.assert_allclose(fit(Y, contamination=0.0).p_values[2], expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_weakest_feature_is_hidden_by_as_many_rows_as_its_radius_and_by_no_fewer(seed: int, epsilon: float) -> None:
    X = clean(seed)
    before = fit(X, contamination=epsilon)
    assert before.support.tolist() == [0, 1, 2]
    radius = int(before.radius[2])
    assert radius >= 1
    for count in range(1, radius):
        assert fit(attacked(X, count, feature=2), contamination=epsilon).support.tolist() == [0, 1, 2]
    assert fit(attacked(X, radius, feature=2), contamination=epsilon).support.tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("distance", [None, 1e9])
def test_false_positive_undoes_the_slack_of_its_feature(seed: int, distance: float | None) -> None:
    """With 20 rows turned and 20 allowed for, the p-value is that of the clean rows without slack."""
    X = clean(seed)
    Y = attacked(X, 20, aim="false_positive", distance=distance)
    without_slack = fit(X, contamination=0.0).p_values
    rows, columns = changed(X, Y)
    assert (rows.size, columns.tolist()) == (20, [3 + int(without_slack[3:].argmin())])
    feature = int(columns[0])
    assert fit(Y, contamination=0.0).p_values[feature] < without_slack[feature]
    np.testing.assert_allclose(fit(Y, contamination=20 / N).p_values[feature], without_slack[feature], rtol=1e-12)


@pytest.mark.parametrize("test", ["buckets", "ranks"])
@pytest.mark.parametrize("seed", range(5))
def test_no_feature_changes_sides_with_fewer_rows_than_its_radius(seed: int, test: str) -> None:
    X = clean(seed)
    before = fit(X, contamination=0.05, test=test)
    for feature, radius in enumerate(before.radius):
        aim = "hide" if feature in before.support else "false_positive"
        for count in {1, (int(radius) - 1) // 2, int(radius) - 1} - {0, -1}:
            after = fit(attacked(X, min(count, N), aim=aim, feature=feature), contamination=0.05, test=test)
            assert (feature in after.support) == (feature in before.support)


def test_false_positive_is_had_by_an_adversary_larger_than_the_slack() -> None:
    X = clean(0)
    assert fit(attacked(X, 15, aim="false_positive"), contamination=0.05).support.tolist() == [0, 1, 2]
    greedy = attacked(X, 80, aim="false_positive")
    feature = int(changed(X, greedy)[1][0])
    assert fit(greedy, contamination=0.05).support.tolist() == [0, 1, 2, feature]


def test_entries_move_no_further_than_turning_needs() -> None:
    X = clean(1, law=20.0)
    Y = attacked(X, 20)
    assert np.abs(Y - X).max() <= 2 * 4 * np.abs(X[:, 2]).max()
    assert np.abs(attacked(X, 20, distance=1e9)).max() == 1e9


def test_hiding_spends_nothing_on_what_is_not_found_anyway() -> None:
    weak = np.array([2.0, 0.01])
    X = weak + np.random.default_rng(3).standard_normal((N, 2))
    rows, chosen = adaptive(X, weak, np.random.default_rng(0), np.arange(9), seed=SEED)
    np.testing.assert_array_equal(rows[:, 1], X[chosen, 1])
    assert np.all(rows[:, 0] < X[chosen, 0])


@pytest.mark.parametrize("aim", ["hide", "false_positive"])
@pytest.mark.parametrize("mean", [[0.0, 0.0], [1.0, -1.0]], ids=["no support", "all support"])
def test_an_aim_without_a_feature_gives_way_to_the_other(aim: str, mean: list[float]) -> None:
    truth = np.array(mean)
    X = truth + np.random.default_rng(0).standard_normal((100, 2))
    other = "false_positive" if not truth.any() else "hide"
    answers = [adaptive(X, truth, np.random.default_rng(0), np.arange(4), aim=a) for a in (aim, other)]
    for mine, theirs in zip(*answers, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"aim": "harm"}, "aim must be one of hide, false_positive: got 'harm'"),
        ({"feature": D}, f"feature must be the number of a column, 0 … {D - 1}: got {D}"),
        ({"feature": -1}, f"feature must be the number of a column, 0 … {D - 1}: got -1"),
        ({"seed": "x"}, "seed must be the integer that seeds the fit: got 'x'"),
    ],
)
def test_bad_option_is_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        attacked(clean(0), 3, **options)
    assert str(caught.value) == line
