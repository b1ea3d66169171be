"""Plans: the promised power is there, rows needed are enough, impossible plans say why."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from arranged import arrangements
from scipy import stats

import sparsemean as sm
from sparsemean.errors import InputError


@pytest.mark.parametrize(("n", "d", "epsilon"), [(400, 100, 0.0), (600, 1000, 0.02), (1000, 50, 0.1)])
def test_detectable_effect_is_found_with_the_stated_power(n: int, d: int, epsilon: float) -> None:
    """Gaussian noise; the combination of sizes may do a little better. 200 features, 4 standard errors allowed."""
    plan = sm.plan(n, d, contamination=epsilon)
    size = min(plan.outlook.table, key=lambda row: row["effect"])["size"]
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(8):
        X = rng.standard_normal((n, d))
        X[:, :25] += plan.detectable_effect
        found += np.sum(sm.sparse_mean(X, contamination=epsilon, random_state=seed).support < 25)
    assert size in (1, 2, 4)
    assert found / 200 >= 0.8 - 4 * math.sqrt(0.16 / 200)


def test_rows_that_vote_against_a_mean_leave_the_power_that_is_printed() -> None:
    """One size, bad rows all far on the other side: 300 features of each effect, 4 standard errors allowed."""
    plan = sm.plan(1000, 300, contamination=0.02, bucket_sizes=(1,))
    row = plan.outlook.table[0]
    said = re.search(r"vote against it, such a mean is found with probability (\S+), and 0.8 takes", plan.summary())
    assert said is not None
    rng, X = np.random.default_rng(0), None
    for effect, power in ((row["effect"], float(said[1])), (row["effect_opposed"], 0.8)):
        X = rng.standard_normal((1000, 300)) + effect
        X[:20] = -1e6
        found = sm.certify(X, contamination=0.02, bucket_sizes=(1,)).p_values <= 0.05 / 300
        assert abs(found.mean() - power) <= 4 * math.sqrt(power * (1 - power) / 300)
    assert float(said[1]) < 0.6
    assert "vote against" not in sm.plan(1000, 300, contamination=0.0).summary()
    assert "no mean is found with that probability" in sm.plan(600, 100, contamination=0.28).summary()


def test_rows_needed_are_enough_and_not_too_many() -> None:
    plan = sm.plan(500, 2000, contamination=0.02, effect=0.3)
    n = plan.outlook.rows_needed
    assert sm.plan(n, 2000, contamination=0.02).detectable_effect <= 0.3
    assert sm.plan(int(0.97 * n), 2000, contamination=0.02).detectable_effect > 0.3
    assert "cannot be found" in sm.plan(500, 2000, contamination=0.2, effect=0.01).summary()


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
        ({"n": 12, "d": 500}, "n must be large enough that 2^(1−J) ≤ level/(d·sizes) = 3.3e-05, J = ⌈n/1⌉: got n = 12"),
        ({"n": 100, "d": 500, "contamination": 0.45}, "contamination must leave enough buckets: at n = 100, d = 500"),
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
    nearest = float(str(caught.value).rsplit(" ", 1)[1])
    assert sm.plan(100, 500, contamination=nearest).detectable_effect > 0
    with pytest.raises(InputError) as few:
        sm.plan(12, 500, contamination=0.0)
    rows = int(str(few.value).split("take at least ")[1].split()[0])
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
    assert paper.n_buckets == min(math.floor(1.5 * paper.bad_rows + 150), n // 2)
    assert paper.bad_rows in (m, m + 1)  # as published, ⌈·⌉ is that of the binary number
    theory = sm.sparse_mean(X, contamination=epsilon, selection="paper", n_buckets="theory", random_state=0).plan
    assert theory.n_buckets == min(100 * max(1, paper.bad_rows), n)


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
