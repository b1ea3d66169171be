"""Plans: the promised power is there, rows needed are enough, impossible plans say why."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from arranged import arrangements
from scipy import stats

import sparsemean as sm
from sparsemean.errors import InputError


@pytest.mark.parametrize("options", [{}, {"test": "buckets"}, {"target": "mean"}], ids=["ranks", "buckets", "mean"])
@pytest.mark.parametrize(("n", "d", "epsilon"), [(400, 100, 0.0), (600, 1000, 0.02), (1000, 50, 0.1)])
def test_detectable_effect_is_found_with_the_stated_power(
    n: int, d: int, epsilon: float, options: dict[str, str]
) -> None:
    """Gaussian noise; several bucket sizes may do a little better than one. 200 features, 4 standard errors allowed."""
    plan = sm.plan(n, d, contamination=epsilon, **options)
    rng = np.random.default_rng(0)
    found, scale = 0, {"scale": 1.0} if options.get("target") else {}
    for _ in range(8):
        X = rng.standard_normal((n, d))
        X[:, :25] += plan.detectable_effect
        found += np.sum(sm.certify(X, contamination=epsilon, **options, **scale).p_values[:25] <= 0.05 / d)
    assert found / 200 >= 0.8 - 4 * math.sqrt(0.16 / 200)


CASES = [{"bucket_sizes": (1,)}, {}, {"target": "mean"}, {"alternative": "less", "min_effect": 0.3}]


@pytest.mark.parametrize("options", CASES, ids=["one size", "ranks", "mean", "one side of ranks"])
def test_rows_that_vote_against_a_mean_leave_the_power_that_is_printed(options: dict[str, Any]) -> None:
    """Bad rows all far on the other side: 300 features of each effect, 4 standard errors and .01 allowed."""
    plan = sm.plan(1000, 300, contamination=0.02, **options)
    said = re.search(r"a mean is found with probability (\S+), and 0.8 takes one of ([0-9.]+)\.", plan.summary())
    assert said is not None
    rng, scale = np.random.default_rng(0), {"scale": 1.0} if options.get("target") else {}
    for effect, power in ((plan.detectable_effect, float(said[1])), (float(said[2]), 0.8)):
        X = rng.standard_normal((1000, 300)) + effect + options.get("min_effect", 0.0)
        X[:20] = -1e6
        X *= -1 if options.get("alternative") == "less" else 1
        found = sm.certify(X, contamination=0.02, **options, **scale).p_values <= 0.05 / 300
        assert abs(found.mean() - power) <= 4 * math.sqrt(power * (1 - power) / 300) + 0.01
    assert float(said[1]) < 0.6


def test_both_powers_are_printed_where_rows_may_be_bad() -> None:
    assert "vote against" not in sm.plan(1000, 300, contamination=0.0).summary()
    hopeless = sm.plan(600, 100, contamination=0.28).summary()
    assert "such a mean is found with probability below 0.001, and no mean is found with 0.8" in hopeless
    assert "such a shift is found with probability 0.0" in sm.plan((600, 100), 2000).summary()
    assert "vote against" not in sm.plan((600, 100), 2000, contamination=0).summary()


@pytest.mark.parametrize(("n", "epsilon"), [(125, 0.0), (600, 0.0), (600, 0.05), (2000, 0.01)])
def test_ranks_find_smaller_means_than_buckets(n: int, epsilon: float) -> None:
    ranks, buckets = (sm.plan(n, 1000, contamination=epsilon, test=test) for test in ("ranks", "buckets"))
    assert ranks.detectable_effect < 0.97 * buckets.detectable_effect


def test_rows_needed_are_enough_and_not_too_many() -> None:
    """Bad rows are rounded up: what is found jumps a little with each, so that fewer rows can be as good as more."""
    for options in ({}, {"test": "buckets"}, {"target": "mean"}):
        plan = sm.plan(500, 2000, contamination=0.02, effect=0.3, **options)
        n = plan.outlook.rows_needed
        assert sm.plan(n, 2000, contamination=0.02, **options).detectable_effect <= 0.3 * 1.001
        assert sm.plan(int(0.93 * n), 2000, contamination=0.02, **options).detectable_effect > 0.3
    assert "cannot be found at this contamination" in sm.plan(500, 2000, contamination=0.2, effect=0.01).summary()
    assert "takes more than 4,000,000 rows" in sm.plan(500, 2000, contamination=0.0, effect=1e-4).summary()


def test_one_side_and_a_smallest_effect() -> None:
    """One side pays for one only; what is found is counted beyond the smallest effect that matters."""
    for options in ({}, {"test": "buckets"}, {"target": "mean"}):
        two, one = (sm.plan(600, 1000, alternative=side, **options) for side in ("two-sided", "greater"))
        alike = sm.plan(600, 1000, level=0.1, **options)
        assert one.detectable_effect == pytest.approx(alike.detectable_effect, rel=1e-3)
        assert one.detectable_effect < two.detectable_effect
        beyond = sm.plan(600, 1000, min_effect=0.2, **options)
        assert beyond.detectable_effect == pytest.approx(two.detectable_effect, rel=1e-3)
        assert "a mean of 0.2 + " in beyond.summary()
        assert "a positive mean of" in one.summary()


@pytest.mark.parametrize("options", [{}, {"test": "buckets"}, {"target": "mean"}], ids=["ranks", "buckets", "mean"])
def test_what_can_be_survived_is_what_a_fit_survives(options: dict[str, str]) -> None:
    """All rows agree: a fit selects at the largest number of bad rows that is named, and not at one more."""
    n, d = 60, 20
    most = round(sm.plan(n, d, contamination=0.0, **options).outlook.survivable_contamination * n)
    X = np.repeat(1e3 + np.arange(float(n))[:, np.newaxis], d, axis=1)
    scale = {"scale": 1.0} if options.get("target") else {}
    p = [sm.certify(X, contamination=bad / n, **options, **scale).p_values.min() for bad in (most, most + 1)]
    assert p[0] <= 0.05 / d < p[1]
    with pytest.raises(InputError, match="contamination must leave enough rows"):
        sm.plan(n, d, contamination=(most + 1) / n, **options)


def test_thresholds_are_those_of_the_fit() -> None:
    plan = sm.plan(200, 10, contamination=0.05, bucket_sizes=(1,))
    majority = int(plan.outlook.table[0]["majority"])
    for count, chosen in ((majority, True), (majority - 1, False)):
        X = np.ones((200, 10))
        X[:100, 1:] = -1
        X[count:, 0] = -1
        support = sm.sparse_mean(X, contamination=0.05, bucket_sizes=(1,), random_state=0).support
        assert (0 in support) == chosen


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"n": 12, "d": 500},
            "n must be large enough: got n = 12; 12 rows, 1 of them assumed bad, cannot show an effect in any of 500",
        ),
        (
            {"n": 100, "d": 500, "contamination": 0.45},
            "contamination must leave enough rows: got 0.45; 100 rows, 45 of them assumed bad, cannot show an effect",
        ),
        ({"n": (20, 20), "d": 1000, "contamination": 0.2}, "contamination must leave enough rows: got 0.2; 20 ag"),
        ({"n": (20, 20), "d": 10, "test": "ranks"}, "test must be left out where two groups are planned: got 'ranks'"),
        ({"n": 10**10, "d": 5, "test": "ranks"}, "n must be at most 1,000,000,000 with test='ranks'"),
        ({"n": 100, "d": 5, "min_effect": -1}, "min_effect must be a number of at least 0: got -1"),
        ({"n": 100, "d": 0}, "d must be a positive integer: got 0"),
        ({"n": 100, "d": 5, "power": 1.0}, "power must be a number between 0 and 1"),
        ({"n": 100, "d": 5, "effect": -1}, "effect must be a positive number: got -1"),
        ({"n": 100, "d": 5, "level": 1.5}, "level must be a number between 0 and 1"),
        ({"n": 100, "d": 5, "k": 0}, "k must be a positive integer: got 0"),
        ({"n": 100, "d": 5, "k": 6}, "k must be at most 5: got 6"),
        ({"n": 10**31, "d": 5}, "n must be at most 1,000,000,000,000,000: got 1" + "0" * 31),
        ({"n": 100, "d": 10**9999}, "d must be at most 1,000,000,000,000,000: got an integer of very many digits"),
        ({"n": 100, "d": 5, "level": 1e-320}, "level must be at least 1e-100: got 1e-320"),
    ],
)
def test_impossible_plans_say_why(arguments: dict[str, float], line: str) -> None:
    with pytest.raises(InputError) as caught:
        sm.plan(**arguments)
    assert str(caught.value).startswith(line)


def test_the_nearest_feasible_plan_is_feasible() -> None:
    with pytest.raises(InputError) as caught:
        sm.plan(100, 500, contamination=0.45)
    nearest = float(str(caught.value).split("(contamination ")[1].split(")")[0])
    assert sm.plan(100, 500, contamination=nearest).bad_rows == 28
    assert sm.plan(100, 500, contamination=nearest).detectable_effect > 0
    with pytest.raises(InputError) as few:
        sm.plan(12, 500, contamination=0.0)
    rows = int(str(few.value).split(" is needed. ")[1].split()[0])
    assert sm.plan(rows, 500, contamination=0.0).detectable_effect > 0


SHARES = [
    (600, "0.1"), (1000, "0.07"), (50, "0.05"), (61, "0.02"), (99, "0.01"), (100, "0.29"), (7, "0.15"), (1000, "0.001"),
    (300, "0"), (30, "0.499"), (125, "0.008"), (41, "0.0001"),
]  # fmt: skip


@pytest.mark.parametrize(("n", "share"), SHARES)
def test_bad_rows_are_the_share_rounded_up(n: int, share: str) -> None:
    """m = ⌈εn⌉ of the decimal that was written: one row less would break the promise, one more is wasted."""
    epsilon, m = float(share), math.ceil(Fraction(share) * n)
    X = np.random.default_rng(n).standard_normal((n, 3))
    assert sm.sparse_mean(X, contamination=epsilon, random_state=0).plan.bad_rows == m
    assert sm.certify(X, contamination=epsilon).plan.bad_rows == m
    groups = np.repeat(np.arange(n), 3)
    by_subject = sm.sparse_mean(np.repeat(X, 3, axis=0), contamination=epsilon, groups=groups, random_state=0)
    assert (by_subject.plan.n_rows, by_subject.plan.bad_rows) == (3 * n, m)
    two = sm.SparseMeanDifference(contamination=epsilon, level=0.9).fit(X, np.arange(n) % 2).result_
    each = tuple(math.ceil(Fraction(share) * size) for size in (n - n // 2, n // 2))
    assert two.plan.bad_by_group == each  # a share of each group
    assert two.plan.bad_rows == sum(each)
    paper = sm.sparse_mean(X, contamination=epsilon, selection="paper", random_state=0).plan
    assert paper.walk.n_buckets == min(math.floor(1.5 * paper.bad_rows + 150), n // 2)
    assert paper.bad_rows in (m, m + 1)  # as published, ⌈·⌉ is that of the binary number
    theory = sm.sparse_mean(X, contamination=epsilon, selection="paper", n_buckets="theory", random_state=0).plan
    assert theory.walk.n_buckets == min(100 * max(1, paper.bad_rows), n)


def test_a_share_that_is_no_whole_row_costs_a_whole_row() -> None:
    """5 % of 50 rows are 2.5, of 25 subjects with two rows each 1.25: three signs and two are taken off."""
    X = np.ones((50, 2))
    X[:7, 0] = -1
    p = sm.certify(X, contamination=0.05, bucket_sizes=(1,)).p_values
    np.testing.assert_allclose(p, [2 * stats.binom.sf(k - 3 - 1, 50, 0.5) for k in (43, 50)], rtol=1e-12)
    subjects = sm.sparse_mean(
        np.repeat(X[:25], 2, axis=0), contamination=0.05, bucket_sizes=(1,), groups=np.repeat(np.arange(25), 2)
    )
    np.testing.assert_allclose(
        subjects.p_values, [2 * stats.binom.sf(k - 2 - 1, 25, 0.5) for k in (18, 25)], rtol=1e-12
    )
    values, y = np.arange(42.0)[:, np.newaxis] - 20.5, np.repeat([0, 1], 21)
    two = sm.SparseMeanDifference(contamination=0.04, level=0.5).fit(values, y).result_  # 0.84 rows of each group: 1
    expected = 2 * math.comb(42, 21) ** -1 * sum(arrangements(21, 21)[20 * 20 :])
    assert expected <= two.p_values[0] <= expected * (1 + 2e-6)


def test_plans_can_be_looked_up() -> None:
    again, other = sm.plan(1000, 100), sm.plan(1000, 101)
    assert hash(again) == hash(sm.plan(1000, 100))
    assert {sm.plan(1000, 100): "a", other: "b"}[again] == "a"
    X = np.random.default_rng(0).standard_normal((60, 3))
    assert len({sm.sparse_mean(X).plan, sm.sparse_mean(2 * X).plan, sm.sparse_mean(X[:-1]).plan}) == 2
