"""contamination="auto", and estimates that decide again: nothing may depend on the road that led to a number."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sparsemean import SparseMean, SparseMeanDifference, plan, simulate, sparse_mean
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare
from sparsemean.errors import InputError
from sparsemean.result import Estimate

SAME = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size")


def same(one: Estimate, other: Estimate) -> None:
    for name in SAME:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.plan.bad_rows == other.plan.bad_rows
    assert one.plan.bad_by_group == other.plan.bad_by_group


def struck(n: int = 300, d: int = 60, bad: int = 15, seed: int = 0) -> np.ndarray:
    """Rows of t noise, three features with a mean, some rows off together."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (n, d))
    X[:, :3] += (2.0, -1.0, 0.5)
    X[:bad] += 3.0
    return X


@pytest.mark.parametrize(
    "options", [{}, {"test": "buckets"}, {"selection": "fdr_by"}, {"target": "mean", "scale": 3.0}]
)
def test_what_is_found_is_that_of_a_fit_told_so(options: dict[str, Any]) -> None:
    X = struck()
    found = sparse_mean(X, **options)
    assert found.plan.auto
    assert found.plan.bad_rows == 15
    assert found.rows is not None
    assert sorted(found.rows.suspects) == list(range(15))
    if options.get("target") == "mean":  # κ is chosen by the number that is told, and must not be by one that is found
        assert found.support.tolist() == [0]
        return
    same(found, sparse_mean(X, contamination=15 / 300, **options))


def test_clean_rows_lose_nothing() -> None:
    X = struck(bad=0)
    same(sparse_mean(X), sparse_mean(X, contamination=0.0))


def test_no_rows_are_allowed_for_where_none_are_looked_at() -> None:
    X = struck()
    assert sparse_mean(X, screen_rows=False).plan.bad_rows == 0
    assert SparseMean().partial_fit(X).complete(X).result_.plan.bad_rows == 15


def test_a_scale_from_the_same_rows_allows_for_none() -> None:
    found = sparse_mean(struck(2000, 20, 100), target="mean")
    assert found.plan.bad_rows == 0
    assert any("scale= (--scale)" in message for message in found.status.messages)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("options", [{}, {"test": "buckets"}, {"selection": "fdr"}, {"alternative": "greater"}])
def test_at_is_a_fit_at_that_contamination(share: float, options: dict[str, Any]) -> None:
    X = struck(bad=0, seed=3)
    fitted = sparse_mean(X, contamination=0.02, **options)
    again, told = fitted.at(share), sparse_mean(X, contamination=share, **options)
    same(again, told)
    known = np.intersect1d(fitted.support, told.support)
    np.testing.assert_array_equal(again.mean[known], fitted.mean[known])
    assert np.isnan(again.mean[np.setdiff1d(told.support, fitted.support)]).all()
    assert np.isnan(again.intervals).all()  # those of the fit are for another number of bad rows
    assert int(fitted.curve().query("contamination >= @share")["selected"].max() or 0) == told.support.size


def groups(labels: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(labels)
    y = rng.integers(labels, size=160)
    return rng.standard_t(3, (160, 25)) + np.where(np.arange(25) < 5, 1.5, 0.0) * y[:, np.newaxis], y


@pytest.mark.parametrize("share", [0.0, 0.04, (0.02, 0.1)])
@pytest.mark.parametrize("labels", [2, 3])
def test_groups_decide_again(labels: int, share: Any) -> None:
    X, y = groups(labels)
    fitted, told = (SparseMeanDifference(contamination).fit(X, y).result_ for contamination in ("auto", share))
    again = fitted.at(share)
    if labels == 2:
        same(again, told)
        return
    for key, estimate in told.results.items():
        same(again.results[key], estimate)


def test_labels_that_are_contradicted_count_in_both_groups() -> None:
    rng = np.random.default_rng(5)
    y = np.repeat((0, 1), (60, 100))
    X = rng.standard_normal((160, 40)) + np.where(np.arange(40) < 25, 2.0, 0.0) * y[:, np.newaxis]
    wrong = np.array([3, 70, 90])
    told = y.copy()
    told[wrong] = 1 - told[wrong]
    found = SparseMeanDifference().fit(X, told)
    assert sorted(found.suspects_) == wrong.tolist()
    assert set(found.result_.rows.kinds) == {"contradicts its label"}
    assert found.result_.plan.bad_by_group == (2, 2)  # two that go one way, one that goes the other
    sizes = found.result_.plan.sizes
    numbers = SparseMeanDifference(contamination=(2 / sizes[0], 2 / sizes[1])).fit(X, told)
    np.testing.assert_array_equal(found.result_.p_values, numbers.result_.p_values)
    np.testing.assert_array_equal(found.support_, numbers.support_)


def test_pairs_are_screened_too() -> None:
    X = struck(120, 30, 6, seed=8)
    both = np.concatenate((np.random.default_rng(1).standard_normal(X.shape), X))
    both[120:] += both[:120]
    found = compare(as_table(both), np.repeat((0, 1), 120), pairs=np.tile(np.arange(120), 2)).result
    assert found.plan.auto


@pytest.mark.parametrize("test", ["ranks", "buckets"])
def test_p_never_falls_as_more_rows_may_be_bad(test: str) -> None:
    rng = np.random.default_rng(11)
    X = np.round(rng.standard_t(2, (80, 200)) + rng.choice([0, 0.5, 1], 200), 1)
    fitted = sparse_mean(X, contamination=0.0, test=test)
    p = np.array([fitted.at(m / 80).p_values for m in range(30)])
    assert (np.diff(p, axis=0) >= 0).all()


@pytest.mark.parametrize("options", [{"selection": "paper"}, {"n_buckets": "theory"}])
def test_the_papers_numbers_of_buckets_rest_on_a_share(options: dict[str, Any]) -> None:
    same(sparse_mean(struck(), **options), sparse_mean(struck(), contamination=0.1, **options))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda X: SparseMean.paper(refine=None).fit(X).result_.at(0.1), "selection must be one with an error rate"),
        (lambda X: pickle.loads(pickle.dumps(sparse_mean(X))).at(0.1), "still have its evidence"),
        (lambda X: sparse_mean(X, contamination="some"), "be 'auto' or a number in"),
        (lambda X: SparseMeanDifference(("auto", 0.1)).fit(X, np.arange(300) % 2), "a number in"),
        (lambda X: sparse_mean(X).at("auto"), "be a number in"),
        (lambda X: plan(*X.shape, contamination="auto"), "be a number in"),
    ],
)
def test_refused_in_one_line(act: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        act(struck())
    assert "\n" not in str(refused.value)


def test_the_list_does_not_depend_on_the_seed() -> None:
    data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], contamination=0.05, random_state=1)
    lists = [SparseMean(random_state=seed).fit(data.X).suspects_.tolist() for seed in range(5)]
    assert all(found == lists[0] for found in lists)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.05, (0.0, 0.1)])
def test_pairs_decide_again_as_a_fit_would(share: Any) -> None:
    rng = np.random.default_rng(3)
    X = np.concatenate((rng.standard_normal((80, 20)), rng.standard_normal((80, 20))))
    X[80:, :5] += np.linspace(0.3, 1.5, 5)
    y, pairs = np.repeat((0, 1), 80), np.tile(np.arange(80), 2)
    fitted, told = (SparseMeanDifference(each).fit(X, y, pairs=pairs).result_ for each in ("auto", share))
    same(fitted.at(share), told)


def test_survival_of_pairs_is_in_the_units_of_contamination() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 10))
    X[100:, 0] += 1.5
    options: dict[str, Any] = {"pairs": np.tile(np.arange(100), 2)}
    y = np.repeat((0, 1), 100)
    last = float(SparseMeanDifference(0.0).fit(X, y, **options).result_.max_contamination[0])
    assert SparseMeanDifference(last).fit(X, y, **options).support_.tolist() == [0]
    assert SparseMeanDifference(last + 0.01).fit(X, y, **options).support_.size == 0


def test_constant_columns_stay_out() -> None:
    X = np.random.default_rng(6).standard_normal((20, 200))
    X[:, 5], X[:, 7] = 3.0, X[:, 7] + 3.0
    assert SparseMean(0.1).fit(X).result_.at(0.0).support.tolist() == SparseMean(0.0).fit(X).support_.tolist() == [7]


def test_a_pair_of_shares_is_for_groups() -> None:
    with pytest.raises(InputError, match="be a number in"):
        sparse_mean(struck()).at((0.0, 0.2))


def test_intervals_never_shrink_as_more_rows_may_be_bad() -> None:
    X = np.random.default_rng(9).standard_normal((60, 300)) + 1.5
    before: np.ndarray | None = None
    for m in range(15):
        ends = sparse_mean(X, contamination=m / 60, refine=None, screen_rows=False, level=0.01).interval(range(300))
        if before is not None:
            assert (ends[:, 0] <= before[:, 0]).all()
            assert (ends[:, 1] >= before[:, 1]).all()
        before = ends


def test_p_of_groups_never_falls_within_strata() -> None:
    """Ties in two strata: p must not be smaller for one bad row than for none."""
    y = np.repeat((1, 0, 1, 0), (21, 2, 27, 2))
    x = np.where(np.concatenate((np.arange(21) < 13, [False] * 2, np.arange(27) < 17, [False] * 2)), 1.0, 0.0)
    fitted = SparseMeanDifference(0.0, alternative="greater").fit(
        np.column_stack((x, x)), y, strata=np.repeat((0, 1), (23, 29))
    )
    p = [fitted.result_.at((0.0, m / 48)).p_values[0] for m in range(4)]
    assert p == sorted(p)


def test_rows_strange_to_every_group_do_not_contradict_a_label() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 40)), np.repeat((0, 1), 100)
    X[y == 1, :10] += 2
    X[:6] += 30
    found = SparseMeanDifference().fit(X, y).result_
    assert set(found.rows.kinds) == {"off together"}
    assert found.plan.bad_by_group == (6, 0)


def test_another_population_is_listed_whole_and_said_to_be_more_than_is_allowed_for() -> None:
    X = np.random.default_rng(0).standard_normal((200, 30))
    X[:60] += 3
    found = sparse_mean(X)
    assert found.rows is not None
    assert set(found.rows.kinds) == {"off together"}
    assert sorted(found.rows.suspects) == list(range(60))
    assert found.plan.bad_rows == 40
    assert "although more look suspicious" in found.summary()


def test_what_voids_everything_is_said_first() -> None:
    X = np.random.default_rng(0).standard_normal((500, 60))
    X[:100] = X[0]
    assert str(sparse_mean(X)).startswith("Neighbouring rows are alike (z = ")
