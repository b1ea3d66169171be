"""The paper preset against Algorithm 1 written out."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import specification

from sparsemean import Estimate, simulate
from sparsemean import sparse_mean as any_sparse_mean
from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._stats.planning import PRESET
from sparsemean.errors import InputError

from conftest import Claims
from problems import draw

ALPHA, ETA = 1e-5, 0.05


def sparse_mean(X: object, **options: object) -> Estimate:
    """The paper's preset with some options changed."""
    return any_sparse_mean(X, **{**PRESET, **options})


def algorithm_1(X: np.ndarray, n_buckets: int, seed: int, min_selected: int = 2) -> tuple[np.ndarray, ...]:
    """Stage 1 line by line: support, values and u² + v² after 200 and 600 plain iterations."""
    means = specification.bucket_means(X, assign_paper_buckets(X.shape[0], n_buckets, seed))
    states = list(islice(specification.subgm_steps(means, alpha=ALPHA, eta=ETA), 601))
    first, last = ((u * u - v * v, u * u + v * v) for u, v in (states[200], states[600]))
    support = np.flatnonzero(np.abs(first[0]) >= ALPHA)
    if support.size < min_selected:
        support = np.sort(np.argsort(-np.abs(first[0]), kind="stable")[:min_selected])
    return support, last[0][support], last[1][support]


def check_problems(seeds: range) -> float:
    worst = 0.0
    for seed in seeds:
        problem = draw(seed)
        result = sparse_mean(problem.X, n_buckets=problem.n_buckets, random_state=seed)
        support, values, scale = algorithm_1(problem.X, problem.n_buckets, seed)
        np.testing.assert_array_equal(result.support, support)
        worst = max(worst, float(np.max(np.abs(result.mean[support] - values) / scale, initial=0.0)))
    return worst


WORST: dict[int, float] = {}


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_identical_support_and_values_on_random_problems(first: int, claims: Claims, long_version: bool) -> None:
    WORST[first] = check_problems(range(first, first + (50 if long_version else 20)))
    assert WORST[first] <= 1e-12
    if long_version and len(WORST) == 10:
        measured = f"same support, values within {max(WORST.values()):.1e}·(u²+v²)"
        claims.add("fit equals Algorithm 1 written out, 500 problems", measured, "1e-12·(u²+v²)", "0–499")


def test_columns_permute_and_signs_flip_with_the_data() -> None:
    X = simulate.make_contaminated(200, 30, [4, -3], random_state=1).X
    order = np.random.default_rng(0).permutation(30)
    plain, other = (sparse_mean(data, random_state=5) for data in (X, -X[:, order]))
    np.testing.assert_array_equal(other.mean, -plain.mean[order])
    np.testing.assert_array_equal(other.entry_time, plain.entry_time[order])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_the_same_answer_on_any_number_of_threads(n_jobs: int) -> None:
    X = simulate.make_contaminated(700, 900, [4, -3], random_state=1).X
    one, several = sparse_mean(X, random_state=5, n_jobs=1), sparse_mean(X, random_state=5, n_jobs=n_jobs)
    np.testing.assert_array_equal(one.mean, several.mean)
    np.testing.assert_array_equal(one.entry_time, several.entry_time)


def test_everything_selected_and_everything_walked() -> None:
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(300, 700))
    result = sparse_mean(X, random_state=0)
    assert result.support.size == 700
    np.testing.assert_allclose(result.mean, X.mean(axis=0), atol=0.5)
    tiny = 1e-7 * rng.gamma(2.0, size=(300, 700))  # every bucket mean lies within α of zero
    found, (support, values, _) = sparse_mean(tiny, random_state=0), algorithm_1(tiny, 150, 0)
    np.testing.assert_array_equal(found.support, support)
    np.testing.assert_allclose(found.mean[support], values, rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "contamination", "n_buckets", "J"),
    [(600, 0.1, "paper", 240), (600, 0.3, "paper", 300), (600, 0.001, "theory", 100), (600, 0.1, "theory", 600),
     (600, 0.0, "theory", 100), (600, 0.0, "paper", 150), (50, 0.1, 7, 7)],
)  # fmt: skip
def test_number_of_buckets(n: int, contamination: float, n_buckets: int | str, J: int) -> None:
    X = np.random.default_rng(0).standard_normal((n, 3))
    result = sparse_mean(X, contamination=contamination, n_buckets=n_buckets, random_state=0)
    assert result.plan.walk.n_buckets == J
    assert np.unique(result.bucket_of_row).size == J


def test_fewer_than_two_are_filled_up_and_said_so() -> None:
    X = np.random.default_rng(0).standard_normal((400, 20))
    filled, empty = (sparse_mean(X, random_state=0, min_selected=k) for k in (2, 0))
    assert filled.support.size == 2
    assert "only 0 features passed" in filled.status.messages[0]
    assert empty.support.size == 0
    assert not empty.mean.any()
    assert empty.status.messages == ()


def test_iterations_for_support_and_for_values_are_separate() -> None:
    X = simulate.make_contaminated(600, 20, [10, -5], random_state=0).X
    early, late = (sparse_mean(X, random_state=0, n_iter=(200, t)) for t in (200, 600))
    np.testing.assert_array_equal(early.support, late.support)
    assert np.abs(early.mean).max() < 0.04  # at t = 200, u² ≤ α²·1.05⁴⁰⁰
    assert late.mean[0] == pytest.approx(10, abs=0.5)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"contamination": 0.5}, "contamination must be 'auto' or a number in [0, 0.5): got 0.5"),
        ({"contamination": "5%"}, "contamination must be 'auto' or a number in [0, 0.5): got '5%'"),
        ({"contamination": float("nan")}, "contamination must be 'auto' or a number in [0, 0.5): got nan"),
        ({"selection": "lasso"}, "selection must be one of 'fwer', 'fdr', 'fdr_by', 'maxt', 'paper': got 'lasso'"),
        ({"level": 0}, "level must be a number between 0 and 1, both excluded: got 0"),
        ({"level": 1e-320}, "level must be at least 1e-100: got 1e-320"),
        ({"buckets": 3}, "option must be one of alternative, bucket_sizes, contamination, device, groups"),
        ({"refined": "gd"}, "option must be one of alternative, bucket_sizes, contamination, device, groups"),
        ({"refine": "nonsense"}, "refine must be one of agnostic_filter, catoni"),
        ({"refine": 3}, "refine must be one of agnostic_filter, catoni"),
        ({"refine_on": "columns"}, "refine_on must be one of 'rows', 'buckets': got 'columns'"),
        ({"screen_rows": "yes"}, "screen_rows must be True or False: got 'yes'"),
        ({"screen_rows": 1}, "screen_rows must be True or False: got 1"),
        ({"null": [1, 2]}, "null must be a finite number or 4 of them, one for each feature: got shape (2,)"),
        ({"null": np.nan}, "null must be a finite number or 4 of them, one for each feature: got NaN or infinity"),
        ({"null": "x"}, "null must be a finite number or 4 of them, one for each feature: got 'x'"),
        ({"groups": range(30)}, "groups must be None with n_buckets"),
        ({"n_buckets": None, "selection": "fwer", "groups": [1]}, "groups must have one label for each of the 30 rows"),
        ({"n_buckets": None, "selection": "fwer", "bucket_sizes": 3}, "bucket_sizes must be 'auto' or rising powers"),
        ({"n_buckets": None, "selection": "fwer", "bucket_sizes": (3,)}, "bucket_sizes must be rising powers of two"),
        ({"n_buckets": 0}, "n_buckets must be 'paper', 'theory' or an integer from 1 to"),
        (
            {"n_buckets": 31},
            "n_buckets must be 'paper', 'theory' or an integer from 1 to the number of rows (30): got 31",
        ),
        ({"n_buckets": "many"}, "n_buckets must be"),
        ({"step_size": 1.0}, "step_size must be a number between 0 and 1"),
        ({"init_scale": 0}, "init_scale must be a number between 0 and 1"),
        ({"n_iter": 0}, "n_iter must be None, a positive integer or a pair"),
        ({"n_iter": (1, 2, 3)}, "n_iter must be None, a positive integer or a pair"),
        ({"min_selected": -1}, "min_selected must be an integer of at least 0: got -1"),
        ({"random_state": "x"}, "random_state must be None, an integer"),
        ({"feature_names": ["a"]}, "feature_names must be a sequence of 4 names"),
    ],
)
def test_bad_options_get_one_line(change: dict[str, object], line: str) -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    with pytest.raises(InputError) as caught:
        sparse_mean(X, **change)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_seed_is_drawn_stored_and_repeats_the_fit() -> None:
    X = simulate.make_contaminated(300, 40, [4, -3], random_state=1).X
    first = sparse_mean(X)
    again = sparse_mean(X, random_state=first.seed)
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.bucket_of_row, again.bucket_of_row)
    for state in (np.random.default_rng(1), np.random.RandomState(1)):
        assert sparse_mean(X, random_state=state).seed >= 0
