"""Rules against other implementations, monotony, and slack by brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sparsemean._data import as_table
from sparsemean._evidence import groups, signs
from sparsemean._evidence.groups import RankEvidence
from sparsemean._evidence.ranks import REST, Contrast
from sparsemean._evidence.signs import BELOW_ONE, SlackEvidence, of_signs
from sparsemean._evidence.worst_case import WorstCase
from sparsemean._kernels import compiling
from sparsemean._stats import arrays, decision
from sparsemean._stats.decision import Allowed, Holm, Rule, Stage, adjust, decide, probabilities, rejected, rule_of
from sparsemean._stats.nulls import InfluenceNull, sign_test_stages
from sparsemean._util.plans import BadRows, Question, Shares, Side
from sparsemean._util.records import NO_END, Counts

SIZES = (1, 2, 4)


def rows(number: int) -> Allowed:
    """So many bad rows of one sample."""
    return (BadRows(0, number),)


@cache
def signs_of(seed: int, d: int = 60, n: int = 120, zeros: float = 0.1) -> Counts:
    rng = np.random.default_rng(seed)
    share = np.where(rng.random(d) < 0.4, rng.uniform(0.5, 0.95, d), 0.5)
    buckets = tuple(n // size for size in SIZES)
    nonzero = [rng.binomial(J, 1 - zeros, d) for J in buckets]
    positive = np.stack([rng.binomial(N, share) for N in nonzero]).astype(np.int32)
    negative = np.stack(nonzero).astype(np.int32) - positive
    return Counts(positive, negative, np.full(d, np.inf), buckets)


def evidence_of(counts: Counts, error: float, alternative: str = "two-sided") -> SlackEvidence:
    """Signs, with those sizes left out that cannot reject at ``error``."""
    evidence = of_signs(counts, counts.n_buckets[0], side=Side(alternative))
    return replace(evidence, stages=sign_test_stages(counts.n_buckets, error=error, sides=evidence.sides))


def sign_p(majority: np.ndarray, signs: np.ndarray, alternative: str) -> np.ndarray:
    tail = stats.binom.sf(majority - 1, signs, 0.5)
    return np.where(2 * majority <= signs, 1.0, np.minimum(1, 2 * tail if alternative == "two-sided" else tail))


@cache
def able_to_reject(n_buckets: tuple[int, ...], slack: int, error: float, alternative: str) -> np.ndarray:
    """The sizes that reject if all signs agree but those of so many bad rows."""
    J = np.array(n_buckets)
    return sign_p(J - slack, J, alternative) <= error


@cache
def p_of_sizes(counts: Counts, bad_rows: int, alternative: str) -> np.ndarray:
    """The p-value of every size, with so many rows fewer for it."""
    side = {"greater": counts.positive, "less": counts.negative}
    majority = side.get(alternative, np.maximum(counts.positive, counts.negative))
    return sign_p(majority - bad_rows, counts.positive + counts.negative, alternative)


@cache
def plain_p(counts: Counts, slack: int, error: float, alternative: str = "two-sided") -> np.ndarray:
    """For ``slack`` bad rows or fewer, the largest p: sizes share the error that reject if all signs agree but those.

    Where none can, those that can for the most bad rows share it, or all if none can for any.
    """
    fewer = (able_to_reject(counts.n_buckets, e, error, alternative) for e in range(max(slack, 0), -1, -1))
    tried = next((able for able in fewer if able.any()), np.full(len(counts.n_buckets), True))
    own = np.minimum(1, tried.sum() * p_of_sizes(counts, slack, alternative)[tried].min(axis=0))
    return own if slack <= 0 else np.maximum(own, plain_p(counts, slack - 1, error, alternative))


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("error", [0.9, 0.05, 0.05 / 60, 1e-9, 1e-30, 1e-60])
@pytest.mark.parametrize("seed", range(2))
def test_p_values_are_the_largest_for_so_many_bad_rows_or_fewer(alternative: str, error: float, seed: int) -> None:
    """And they rise with their number, though sizes leave their share of the error to the others."""
    counts = signs_of(seed)
    evidence = evidence_of(counts, error, alternative)
    slacks = np.arange(61)
    expected = np.stack([plain_p(counts, slack, error, alternative) for slack in slacks.tolist()], axis=1)
    p = np.stack([evidence.combined(slack) for slack in slacks.tolist()], axis=1)
    likely = expected >= (0.5 - 1e-9 if evidence.sides == 1 else 1)  # of one side, a chance of a half may be 1 as well
    np.testing.assert_allclose(p[~likely], expected[~likely], rtol=1e-9)
    assert (p[likely] >= expected[likely] - 1e-9).all()
    assert (np.diff(p, axis=1) >= 0).all()
    own = np.random.default_rng(seed).integers(0, 61, p.shape[0])
    every = np.arange(p.shape[0])
    np.testing.assert_array_equal(evidence.along(own, every), p[every, own])
    for goal in (error, 1e-6, 0.3):
        last = evidence.last(goal, every)
        np.testing.assert_array_equal(last, (p <= goal).sum(axis=1) - 1)
        for slack in (0, 7, 40):
            np.testing.assert_array_equal(evidence.reaching(goal, slack), np.flatnonzero(last >= slack))


def test_sizes_that_can_never_reject_cost_nothing() -> None:
    """Thirty rows of 20,000 features: of 1, 2, 4, 8 and 16 rows only single ones can give p ≤ .05/20,000."""
    buckets = (30, 15, 7, 3, 1)
    positive = np.array([[J, J - 1] for J in buckets], dtype=np.int32)
    counts = Counts(positive, np.array(buckets)[:, np.newaxis] - positive, np.full(2, np.inf), buckets)
    p = [evidence_of(counts, 0.05 / 20_000).combined(slack)[0] for slack in (0, 1)]
    np.testing.assert_allclose(p, [2**-29, 31 * 2**-29], rtol=1e-12)
    np.testing.assert_allclose(of_signs(counts, 30).combined(0)[0], 5 * 2**-29, rtol=1e-12)


def plain_holm(p: np.ndarray, level: float) -> np.ndarray:
    order = np.argsort(p, kind="stable")
    flags = np.zeros(p.size, dtype=bool)
    for k, i in enumerate(order):
        if p[i] > level / (p.size - k):
            break
        flags[i] = True
    return flags


@pytest.mark.parametrize("seed", range(20))
def test_rules_and_adjusted_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.minimum(1, np.concatenate((10.0 ** rng.uniform(-7, 0, 40), np.repeat(rng.random(5), 4))))
    adjusted, q = adjust(p, p.size)
    _, q_by = adjust(p, p.size, decision.harmonic(p.size))
    np.testing.assert_allclose(q, stats.false_discovery_control(p, method="bh"))
    np.testing.assert_allclose(q_by, stats.false_discovery_control(p, method="by"))
    holm = rejected(Holm(0.05), p, p.size)
    np.testing.assert_array_equal(holm, np.flatnonzero(plain_holm(p, 0.05)))
    np.testing.assert_array_equal(holm, np.flatnonzero(adjusted <= 0.05))
    np.testing.assert_array_equal(rejected(rule_of("fdr", 0.05, p.size), p, p.size), np.flatnonzero(q <= 0.05))
    np.testing.assert_array_equal(rejected(rule_of("fdr_by", 0.05, p.size), p, p.size), np.flatnonzero(q_by <= 0.05))


@pytest.mark.parametrize("rule", ["fwer", "fdr", "fdr_by"])
@pytest.mark.parametrize("at_once", [1, 10, 10**6])
@pytest.mark.parametrize("seed", range(4))
def test_last_slack_by_trying_every_slack(rule: str, at_once: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "MOST_PAIRS", at_once)
    error = 0.05 / 60 if rule == "fwer" else 0.05
    evidence = evidence_of(counts := signs_of(seed), error)
    chosen = rule_of(rule, 0.05, 60)
    found, expected = decide(evidence, chosen, rows(3)), np.full(60, -1)
    for slack in range(61):
        expected[rejected(chosen, plain_p(counts, slack, error), 60)] = slack
    np.testing.assert_array_equal(found.last, expected)
    np.testing.assert_array_equal(found.support, np.flatnonzero(expected >= 3))


@pytest.mark.parametrize(("rule", "method"), [("fdr", "bh"), ("fdr_by", "by")])
@pytest.mark.parametrize("seed", range(4))
def test_false_discovery_rules_are_those_of_scipy_at_every_slack(rule: str, method: str, seed: int) -> None:
    """Benjamini and Yekutieli divide the level by 1 + 1/2 + … + 1/d: without that more is selected."""
    evidence = evidence_of(counts := signs_of(seed), 0.05)
    expected, q = np.full(60, -1), {}
    for slack in range(61):
        q[slack] = stats.false_discovery_control(plain_p(counts, slack, 0.05), method=method)
        expected[q[slack] <= 0.05] = slack
    for bad_rows in (0, 3, 9):
        found = decide(evidence, rule_of(rule, 0.05, 60), rows(bad_rows))
        np.testing.assert_array_equal(found.support, np.flatnonzero(q[bad_rows] <= 0.05))
        np.testing.assert_array_equal(found.last, expected)
        np.testing.assert_allclose(found.q_values, q[bad_rows], rtol=1e-9)


def radius_by_steps(bad_rows: int, last: int, selected: Callable[[int], bool]) -> int:
    """One row more after the other, until a feature that is selected drops out."""
    steps = 1
    while bad_rows + steps <= last and selected(bad_rows + steps):
        steps += 1
    return steps


@pytest.mark.parametrize("bad_rows", [0, 4, 9, 30])
@pytest.mark.parametrize("seed", range(4))
def test_radius_is_the_number_of_rows_until_sizes_that_stay_select_no_more(seed: int, bad_rows: int) -> None:
    """For 0 and 4 bad rows all three sizes are looked at, for 9 the smaller two, for 30 single rows.

    They share the error with all that are looked at for fewer: what is selected must be so with less of the error.
    """
    counts, error = signs_of(seed), 0.05 / 60
    evidence, rule = evidence_of(counts, error), Holm(0.05)
    n_sizes = {0: 3, 4: 3, 9: 2, 30: 1}[bad_rows]
    found = decide(evidence, rule, rows(bad_rows))
    k, N = (of[:n_sizes] for of in (np.maximum(counts.positive, counts.negative), counts.positive + counts.negative))

    @cache
    def selected(slack: int) -> np.ndarray:
        p = np.where(2 * (k - slack) <= N, 1.0, np.minimum(1, 2 * stats.binom.sf(k - slack - 1, N, 0.5)))
        return rejected(rule, np.minimum(1, 3 * p.min(axis=0)), 60)

    expected = np.ones(60)
    for i in found.support:
        expected[i] = radius_by_steps(bad_rows, 60, lambda slack, i=i: i in selected(slack))
    np.testing.assert_array_equal(found.radius, expected)


KINDS = ("complete", "few zeros", "zeros", "missing", "sums", "dense", "constant")


def any_evidence(kind: str, seed: int) -> tuple[SlackEvidence, int]:
    """Evidence of a kind, and the number of rows it stands for."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    d, n = int(rng.choice([1, 2, 7, 40, 150])), int(rng.choice([4, 16, 60, 200]))
    share = np.where(rng.random(d) < rng.choice([0.05, 0.5]), rng.uniform(0.5, 1, d), 0.5)
    if kind == "dense":
        share[:] = rng.uniform(0.85, 1, d)
    zeros = {"few zeros": 0.01, "zeros": 0.4, "missing": 0.1}.get(kind, 0.0)
    buckets = tuple(max(1, n // size) for size in (1, 2, 4, 8, 16))
    nonzero = [rng.binomial(J, 1 - zeros, d) for J in buckets]
    positive = np.stack([N if kind == "constant" else rng.binomial(N, share) for N in nonzero]).astype(np.int32)
    counts = Counts(positive, np.stack(nonzero).astype(np.int32) - positive, np.full(d, np.inf), buckets)
    if kind == "sums":
        sums = (2.0 * positive[:1] - nonzero[0]) + rng.integers(1, 2**20, d) / 2.0**20
        return SlackEvidence(sums, (InfluenceNull(2.0, 2.0),), (0.75,), n), n
    if kind == "missing":
        counts = replace(counts, present=np.stack(nonzero).astype(np.int32))
    return evidence_of(counts, 0.05 / d) if seed % 2 else of_signs(counts, n), n


def tried(evidence: SlackEvidence, rule: Rule, slacks: range) -> np.ndarray:
    """The last of some slacks at which each feature is selected, asking at all of them; one less than all if none."""
    last = np.full(evidence.n_hypotheses, slacks[0] - 1)
    for slack in slacks:
        last[rejected(rule, evidence.combined(slack), evidence.n_hypotheses)] = slack
    return last


@pytest.mark.parametrize("most", [1, 50, 10**6])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_brackets_say_what_trying_every_slack_does(
    kind: str, seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under every rule, at low and high levels; and radii, p-values and sizes are those asked for one by one."""
    monkeypatch.setattr(decision, "MOST_PAIRS", most)
    evidence, n = any_evidence(kind, seed)
    d, bad = evidence.n_hypotheses, n // 8
    for level, name in ((1e-6, "fwer"), (0.05, "fwer"), (0.9, "fwer"), (0.05, "fdr"), (0.9, "fdr"), (0.3, "fdr_by")):
        rule = rule_of(name, level, d)
        chosen = decide(evidence, rule, rows(bad))
        np.testing.assert_array_equal(chosen.last, tried(evidence, rule, range(n // 2 + 1)))
        np.testing.assert_array_equal(chosen.support, np.flatnonzero(chosen.last >= bad))
        np.testing.assert_array_equal(chosen.p_values, evidence.combined(bad))
        features, best = evidence.best_size(rows(bad))
        np.testing.assert_array_equal(features, np.flatnonzero(chosen.p_values < 1))
        places = np.array(next(places for last, places in evidence.stages if bad <= last))
        np.testing.assert_array_equal(best, places[evidence.p_at(bad)[places][:, features].argmin(axis=0)])
        stay = replace(
            evidence, stages=(Stage(NO_END, tuple(places.tolist())),), alpha_shares=len(evidence.stages[0].indices)
        )
        sure = np.maximum(1, tried(stay, rule, range(bad, n // 2 + 1)) - bad + 1)
        np.testing.assert_array_equal(chosen.radius, np.where(chosen.last >= bad, sure, 1))
        for other in (0, bad + 1):
            again, anew = chosen.at(rows(other)), decide(evidence, rule, rows(other))
            for item in ("support", "p_values", "p_adjusted", "q_values", "log_p", "last", "max_contamination"):
                np.testing.assert_array_equal(getattr(again, item), getattr(anew, item), err_msg=item)


def test_logarithms_go_on_where_p_values_end() -> None:
    """5000 of 5000 signs, of sides and with bad rows: log p by the largest term of the tail, in whole numbers."""
    counts = Counts(np.array([[5000, 4900]], np.int32), np.array([[0, 100]], np.int32), np.full(2, np.inf), (5000,))
    for alternative, sides in (("two-sided", 2), ("greater", 1)):
        for bad in (0, 7):
            found = decide(of_signs(counts, 5000, side=Side(alternative)), Holm(0.05), rows(bad))
            for i, k in enumerate((5000 - bad, 4900 - bad)):
                ways = Fraction(sides * sum(comb(5000, j) for j in range(k, 5001)), 2**5000)
                shift = max(0, ways.numerator.bit_length() - 60)
                expected = np.log(float(ways.numerator >> shift)) + shift * np.log(2.0)
                expected -= (ways.denominator.bit_length() - 1) * np.log(2.0)
                assert found.log_p[i] == pytest.approx(expected, rel=1e-12)


def test_adjusted_values_step_by_step() -> None:
    rng = np.random.default_rng(3)
    p = np.round(rng.random(200) ** 4, 3)
    adjusted, q = adjust(p, p.size)
    order = np.argsort(p, kind="stable")
    ranks = np.arange(1, 201)
    expected = np.minimum(1.0, np.maximum.accumulate((201 - ranks) * p[order]))
    np.testing.assert_array_equal(adjusted[order], expected)
    expected = np.minimum(1.0, np.minimum.accumulate((200 / ranks * p[order])[::-1])[::-1])
    np.testing.assert_array_equal(q[order], expected)


def test_p_values_are_those_of_the_formula() -> None:
    counts = Counts(
        np.array([[90, 40, 50]], dtype=np.int32), np.array([[10, 20, 50]], dtype=np.int32), np.full(3, np.inf), (100,)
    )
    p = of_signs(counts, 100).p_at(5)[0]
    expected = [2 * stats.binom.sf(84, 100, 0.5), min(1, 2 * stats.binom.sf(34, 60, 0.5)), 1.0]
    np.testing.assert_allclose(p, expected, rtol=1e-10)


# Holm by brute force, in fractions: nothing here is rounded, so that thresholds are met or missed exactly.


def exact_p(majority: int, nonzero: int, slack: int) -> Fraction:
    """min(1, 2·P(Bin(N, ½) ≥ k − slack)), and 1 where that is no majority."""
    k = majority - slack
    if 2 * k <= nonzero:
        return Fraction(1)
    return min(Fraction(1), Fraction(2 * sum(comb(nonzero, j) for j in range(max(k, 0), nonzero + 1)), 2**nonzero))


def exact_holm(p: list[Fraction], level: Fraction) -> tuple[set[int], list[Fraction]]:
    """What is rejected going down from the smallest, and the smallest level at which each would be."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, largest = [Fraction(1)] * len(p), Fraction(0)
    rejected, going = set(), True
    for step, i in enumerate(order):
        largest = max(largest, min(Fraction(1), (len(p) - step) * p[i]))
        adjusted[i] = largest
        going = going and p[i] <= level / (len(p) - step)
        rejected |= {i} if going else set()
    return rejected, adjusted


def few_signs(seed: int) -> Counts:
    """Features of up to 24 signs of rows, many with equal numbers, and of 12 and 6 buckets."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 14))
    nonzero = rng.choice([8, 16, 24], d) if seed % 2 else np.full(d, 20)
    share = rng.choice([0.5, 0.9, 1.0], d)
    signs = np.stack([np.minimum(nonzero, J) for J in (24, 12, 6)])
    positive = np.maximum(rng.binomial(signs, share), (signs + 1) // 2)
    return Counts(positive.astype(np.int32), (signs - positive).astype(np.int32), np.full(d, np.inf), (24, 12, 6))


def exact_looks(counts: Counts, error: Fraction, most: int) -> list[tuple[int, ...]]:
    """Sizes that can reject for each number of bad rows, or could last; all where none can."""
    looks = [(0, 1, 2)]
    for slack in range(most + 1):
        able = tuple(size for size, J in enumerate(counts.n_buckets) if exact_p(J, J, slack) <= error)
        looks.append(able or looks[-1])
    return looks[1:]


def exact_of_sizes(counts: Counts, sizes: tuple[int, ...], factor: int, slack: int) -> list[Fraction]:
    """The smallest p of some sizes of every feature, times a factor, in fractions."""
    majorities, nonzero = counts.positive.tolist(), (counts.positive + counts.negative).tolist()
    return [
        min(Fraction(1), factor * min(exact_p(majorities[size][i], nonzero[size][i], slack) for size in sizes))
        for i in range(len(majorities[0]))
    ]


def exact_combined(counts: Counts, looks: list[tuple[int, ...]], slacks: range) -> dict[int, list[Fraction]]:
    """p of every feature, in fractions: sizes that can reject share the error, and what was larger stays so."""
    largest, out = [Fraction(0)] * counts.positive.shape[1], {}
    for slack in slacks:
        sizes = looks[max(slack, 0)]
        largest = list(map(max, largest, exact_of_sizes(counts, sizes, len(sizes), slack)))
        out[slack] = largest
    return out


@pytest.mark.parametrize("seed", range(16))
def test_holm_is_the_one_in_fractions_at_every_slack_and_at_levels_met_exactly(seed: int) -> None:
    """Levels (d − k)·p of some feature are met by the k-th step with equality, and missed by the next smaller number.

    All p are whole numbers over 2^23 or less, so that such a level, and what dividing it gives, is not rounded.
    """
    counts, n = few_signs(seed), 24
    d = counts.positive.shape[1]
    evidence = evidence_of(counts, 0.05 / d)
    looks = exact_looks(counts, Fraction(0.05 / d), n // 2)
    p = exact_combined(counts, looks, range(-n - 6, n // 2 + 1))
    steps = {(d - step) * value for slack in (0, 2, 5) for step, value in enumerate(sorted(p[slack]))}
    exact = sorted(float(level) for level in steps if level < 1)
    levels = [near for level in exact[:: max(1, len(exact) // 6)] for near in (level, float(np.nextafter(level, 0)))]
    for level in (0.05, *levels):
        selected = {slack: exact_holm(values, Fraction(level))[0] for slack, values in p.items()}
        last = [max((slack for slack in range(n // 2 + 1) if i in selected[slack]), default=-1) for i in range(d)]
        for bad_rows in (0, 2, 5):
            found = decide(evidence, Holm(level), rows(bad_rows))
            assert set(found.support.tolist()) == selected[bad_rows]
            np.testing.assert_array_equal(found.last, last)
            adjusted = exact_holm(p[bad_rows], Fraction(level))[1]
            np.testing.assert_allclose(found.p_adjusted, [float(value) for value in adjusted], rtol=1e-13)
            sizes = looks[bad_rows]

            @cache
            def chosen(slack: int, sizes: Any = sizes, level: float = level) -> set[int]:
                return exact_holm(exact_of_sizes(counts, sizes, len(looks[0]), slack), Fraction(level))[0]

            for i in range(d):
                expected = radius_by_steps(bad_rows, n // 2, lambda slack, i=i: i in chosen(slack))
                assert found.radius[i] == (expected if i in selected[bad_rows] else 1)


@cache
def ranks_of(seed: int) -> RankEvidence:
    """Three labels, each against the rest: normal features, counts with many zeros, and constants."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [11, 25, 40]))
    X = np.concatenate((rng.standard_normal((76, 12)), rng.poisson(0.4, (76, 12)), np.ones((76, 1))), axis=1)
    X[labels == 1, :6] += rng.uniform(0, 4, 6)
    X[labels == 2, 12:18] += rng.poisson(rng.uniform(0, 4, 6), (40, 6))
    contrasts = [Contrast(reference=REST, label=label, sizes=(11, 25, 40)) for label in range(3)]
    return RankEvidence(tuple(groups.count(as_table(X), labels, contrasts)))


@cache
def p_of_groups(evidence: RankEvidence, bads: Allowed, more: int) -> np.ndarray:
    return probabilities(evidence.log_p(bads, np.arange(evidence.n_hypotheses), more=more))


@pytest.mark.parametrize("rule", ["fwer", "fdr", "fdr_by"])
@pytest.mark.parametrize("shares", [(0.0, 0.0), (0.02, 0.05)])
@pytest.mark.parametrize("seed", range(2))
def test_last_shares_and_radii_of_groups_by_trying_every_one(rule: str, shares: tuple[float, float], seed: int) -> None:
    """One family over all tests; what survives a share of bad rows, or so many more of them, by asking again."""
    evidence = ranks_of(seed)
    n, chosen = evidence.n_hypotheses, rule_of(rule, 0.05, 75)
    assert n == 3 * 25

    def selected(bads: Allowed, more: int = 0) -> np.ndarray:
        return np.isin(np.arange(n), rejected(chosen, p_of_groups(evidence, bads, more), n))

    allowed = evidence.at_share(Shares(*shares))
    found = decide(evidence, chosen, allowed)
    assert found.support.size > 4
    np.testing.assert_array_equal(found.support, np.flatnonzero(selected(allowed)))
    np.testing.assert_array_equal(found.p_values, probabilities(evidence.log_p(allowed)))
    share = np.full(n, np.nan)
    for step in evidence.grid.tolist():
        share[selected(evidence.at_share(Shares(step, step)))] = step
    np.testing.assert_array_equal(evidence.as_shares(found.last), share)
    share[selected(allowed)] = np.fmax(share[selected(allowed)], evidence.share_of(allowed))
    np.testing.assert_array_equal(found.max_contamination, share)
    radius = np.ones(n, dtype=int)
    for more in range(76 // 2 + 1):
        radius[selected(allowed, more)] = more + 1
    radius[~selected(allowed)] = 1
    np.testing.assert_array_equal(found.radius, radius)
    some = found.at(allowed, some=True)
    np.testing.assert_array_equal(some.support, found.support)
    np.testing.assert_array_equal(some.p_adjusted[some.support], found.p_adjusted[some.support])
    for k in range(3):
        of_one = found.of(k)
        np.testing.assert_array_equal(of_one.support + 25 * k, found.support[found.support // 25 == k])
        np.testing.assert_array_equal(of_one.radius, radius[25 * k : 25 * (k + 1)])
        clean = probabilities(evidence.log_p(evidence.at_share(Shares(0.0, 0.0))))
        again = of_one.at(evidence.at_share(Shares(0.0, 0.0)))
        np.testing.assert_array_equal(again.p_values, clean[25 * k : 25 * (k + 1)])


def many_ranks(seed: int, n_strata: int, *, missing: bool) -> RankEvidence:
    """Few rows and many features, so that many look alike: values without ties, whole numbers, mostly zeros."""
    rng = np.random.default_rng(seed)
    labels, strata = np.arange(36) % 2, np.arange(36) // 2 % n_strata
    few_ties = rng.standard_normal((36, 80)) + np.outer(labels, np.linspace(-1.5, 1.5, 80))
    few_ties[1, ::2] = few_ties[2, ::2]
    few_ties[3, ::3] = few_ties[4, ::3]
    whole = (rng.integers(-2, 3, (36, 30)), rng.poisson(0.2, (36, 60)), rng.random((36, 20)) < np.linspace(0.05, 1, 20))
    X = np.concatenate((rng.standard_normal((36, 60)), *whole, few_ties), 1)
    X[:, 10:40] = np.where(rng.random((36, 30)) < np.linspace(0, 0.6, 30), 0.0, X[:, 10:40])
    X[labels == 1, ::7] += 3
    if missing:
        X[rng.random(X.shape) < 0.02] = np.nan
    tests = groups.count(
        as_table(X),
        labels,
        [Contrast(reference=0, label=1, sizes=(18, 18))],
        strata=strata,
        question=Question(missing="omit" if missing else "raise"),
    )
    return RankEvidence(tuple(tests), missing=missing)


@pytest.mark.parametrize(
    ("n_strata", "missing", "side", "shares"),
    [
        (1, False, Side.BOTH, (0.0, 0.0)), (1, False, Side.BOTH, (0.05, 0.05)), (1, True, Side.UP, (0.12, 0.06)),
        (1, False, Side.BOTH, (0.3, 0.3)), (1, False, Side.DOWN, (0.0, 0.0)), (1, False, Side.UP, (0.02, 0.0)),
        (3, False, Side.UP, (0.05, 0.05)), (3, True, Side.BOTH, (0.05, 0.0)),
    ],
)  # fmt: skip
def test_features_that_no_look_tells_apart_are_looked_at_once(
    n_strata: int, missing: bool, side: Side, shares: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = replace(many_ranks(1, n_strata, missing=missing), side=side)
    every, (test,) = np.arange(evidence.n_hypotheses), evidence.tests
    monkeypatch.setattr(groups, "A_TASK", 1)
    for bads in (evidence.at_share(Shares(*shares)), (BadRows(0, 0),)):
        assert missing or test.by_class(bads[0].total)[0].n_features < every.size
        np.testing.assert_array_equal(evidence.log_p(bads), evidence.log_p(bads, every))


@pytest.mark.parametrize("most", [100, 1 << 62])
@pytest.mark.parametrize("high", [2, 50, 10**9])
def test_equal_columns_are_one_class(high: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_KEYS", most)
    numbers = np.random.default_rng(0).integers(-high, high, (3, 40))[:, np.arange(100) % 40]
    members, classes = arrays.column_classes(numbers)
    np.testing.assert_array_equal(numbers[:, members][:, classes], numbers)
    assert members.size == np.unique(numbers, axis=1).shape[1]


def test_p_values_of_groups_rise_with_the_bad_rows_in_either() -> None:
    evidence = ranks_of(0)
    for test in evidence.tests:
        sizes = test.contrast.rows
        for label in range(0, sizes.label, 3):
            some = [test.log_p(WorstCase(BadRows(reference, label))) for reference in range(0, sizes.reference, 5)]
            assert (np.diff(some, axis=0) >= -1e-9).all()
            assert (test.log_p(WorstCase(BadRows(0, label + 1))) >= some[0] - 1e-9).all()


# Very many features: one compiled pass says who reaches an error.


@pytest.mark.parametrize("d", [1, 2, 300, 2048, 7001])
@pytest.mark.parametrize("zeros", ["", "some", "many", "none at all"])
@pytest.mark.parametrize("stages", [False, True])
def test_a_compiled_pass_finds_what_plain_arrays_do(
    d: int, zeros: str, stages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, buckets = np.random.default_rng(0), (200, 100, 50)
    share = np.where(np.arange(d) % 20 == 0, rng.uniform(0.5, 1.0, d), 0.5)
    positive = np.stack([rng.binomial(J, share) for J in buckets]).astype(np.int32)
    negative = np.array(buckets, dtype=np.int32)[:, np.newaxis] - positive
    if zeros == "some":
        negative[:, d // 2 :: 997] //= 2
    elif zeros == "many":
        negative -= rng.binomial(negative, 0.3).astype(np.int32)
    elif zeros == "none at all":
        positive[:, 1::7], negative[:, 1::7] = 0, 0
    counts = Counts(positive, negative, np.ones(d), buckets)
    evidence = evidence_of(counts, 0.05 / d) if stages else of_signs(counts, 200)
    found = []
    for ended in (False, True):
        monkeypatch.setattr(compiling.Plainness, "ended", ended)
        monkeypatch.setattr(signs, "PLAIN", 0)
        reached = [
            evidence.reaching(error, slack) for error in (1e-9, 0.05 / d, 0.01, BELOW_ONE) for slack in (0, 5, 30)
        ]
        chosen = decide(evidence, Holm(0.05), rows(4))
        found.append((*reached, chosen.support, chosen.p_values, chosen.p_adjusted, chosen.last, chosen.radius))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
